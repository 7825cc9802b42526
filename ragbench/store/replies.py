"""Replies of language models, kept under everything that they depend on, so that none is ever paid
for twice: which requests are the same, and when a stored reply is used.

A reply is stored before it is used. Its key is the SHA-256 of provider, model, origin, system
prompt, prompt, parameters, schema and sample index. `origin` distinguishes models of the same name:
the base URL of an OpenAI-compatible server (there every model may be called "default"). It is empty
for Anthropic and Ollama, where the name names the model and the server's address is where this
machine happens to find it. So that a copy of the store is a cassette which a colleague can play
without our servers and files, a lookup with `any_origin=True` (offline) leaves the origin out of
the comparison, as long as only one origin answers.

Keys for the providers are never given to this module and so never in its file.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from ragbench.errors import warn_user
from ragbench.files import locked
from ragbench.store import database
from ragbench.store.arrays import cache_folder, digest
from ragbench.store.contract import Execute, StoreError

EMBEDDING = "embedding"
"""The system prompt of requests for vectors."""
_AT_ONCE = 500  # keys per query: well below SQLite's bound on parameters
_LONGEST_CLAIM_S = 1800.0  # the other process may have to wait for a busy server again and again
_REPLY = "text, served, input_tokens, output_tokens, latency_s, finish"


@dataclass(frozen=True)
class Request:
    """One question to one model, with all that its reply depends on.

    `schema` is a JSON schema that the reply must follow; `sample` numbers repetitions of the same
    question.

    >>> Request("anthropic", "m", "Hello").key == Request("anthropic", "m", "Hello", sample=1).key
    False
    >>> here, there = Request("openai", "m", "Hello", origin="a"), Request("openai", "m", "Hello", origin="b")
    >>> here.key == there.key, here.portable == there.portable
    (False, True)
    """

    provider: str
    model: str
    prompt: str
    system: str | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    schema: Mapping[str, Any] | None = None
    sample: int = 0
    origin: str = ""

    @property
    def name(self) -> str:
        """Return provider and model, "provider:model"."""
        return f"{self.provider}:{self.model}"

    @cached_property
    def key(self) -> str:
        """Return the SHA-256 (64 hex digits) of all fields."""
        return self._digest_with_origin(self.origin)

    @cached_property
    def portable(self) -> str:
        """Return the SHA-256 (64 hex digits) of all fields but `origin`."""
        return self._digest_with_origin("")

    @cached_property
    def schema_text(self) -> str | None:
        """Return the schema as JSON with sorted keys."""
        text = json.dumps(self.schema, sort_keys=True, ensure_ascii=False)
        return None if self.schema is None else text

    @property
    def n_bytes(self) -> int:
        """Return the size of all its texts."""
        texts = (self.prompt, self.system or "", self.schema_text or "")
        return sum(len(text.encode()) for text in texts)

    def _digest_with_origin(self, origin: str) -> str:
        """Return the SHA-256 of all fields, with this `origin` in place of `self.origin`."""
        return digest(
            "reply 1",  # the version of this list of fields
            self.provider,
            self.model,
            origin,
            # the sign distinguishes a request without a system prompt from one with an empty prompt
            "-" if self.system is None else f"+{self.system}",
            self.prompt,
            str(int(self.max_tokens)),
            repr(float(self.temperature)),
            self.schema_text or "",
            str(int(self.sample)),
        )


class Reply(NamedTuple):
    """The reply to a request. `served` is the model as the server calls it, `latency_s` how long the
    server took.

    `finish` is "stop", "length" (cut at max_tokens) or "refusal".
    """

    text: str
    served: str
    input_tokens: int
    output_tokens: int
    latency_s: float
    finish: str


def lookup(request: Request) -> Reply | None:
    """Return the stored reply, or None; see `lookup_many`."""
    return lookup_many([request])[0]


def lookup_many(requests: Sequence[Request], *, any_origin: bool = False) -> list[Reply | None]:
    """Return the stored reply of each request; None for a request without a reply.

    The origin of a request is the server that is asked. With `any_origin`, if a request has no reply
    from its origin, the reply that another origin gave to the same request is returned; None if
    several origins gave one, as none of them is to be preferred.
    """
    if not requests or not database.exists():
        return [None] * len(requests)
    if database.is_shared():
        # replies that cannot be moved stay in the file of this machine, where they are found, too
        with suppress(StoreError):
            _move_to_shared_database()
    # key of a request -> its stored replies: one
    by_key = _stored_replies([request.key for request in requests], "key")
    # key without the origin -> the stored replies: one from each origin
    by_portable_key: Mapping[str, Sequence[Reply]] = {}
    if any_origin:
        missing = [request.portable for request in requests if request.key not in by_key]
        by_portable_key = _stored_replies(missing, "portable")
    replies: list[Reply | None] = []
    for request in requests:
        candidates = by_key.get(request.key) or by_portable_key.get(request.portable, [])
        replies.append(candidates[0] if len(candidates) == 1 else None)
    return replies


def store(request: Request, reply: Reply) -> Reply:
    """Keep a reply and return the one that is in the store: the first, if another process was faster.

    It is durable when this returns. Replies of other threads that come while one is written share
    the next transaction. A reply that a shared database does not take at once is kept in the file
    of this machine until the database takes it.
    """
    stored = _write_with_other_threads(request, reply)
    if stored is None:
        return _write_when_database_answers(request, reply)
    return stored


def _write_with_other_threads(request: Request, reply: Reply) -> Reply | None:
    """Write a reply, and return the reply that the store has now: this one, or an earlier reply to the same
    request. None if the shared database did not take it.

    Replies of several threads are written in one transaction: each thread adds its reply to a queue;
    the first thread that may write takes all of them, and sets the outcomes that the others wait for.
    """
    queue = _queue_of_process(os.getpid())
    mine = _WaitingReply(request, reply, Future())
    with queue.joining_lock:
        queue.waiting.append(mine)
    with queue.writing_lock:
        if mine.outcome.done():  # an earlier thread wrote this reply, too
            return mine.outcome.result()
        with queue.joining_lock:
            # sorted, or two processes could wait for each other's rows forever
            batch = sorted(queue.waiting, key=lambda each: each.request.key)
            queue.waiting.clear()
        try:
            # for each, the reply that the store has now; None if the shared database took none
            kept = _write_or_keep_locally([(each.request, each.reply) for each in batch])
            for each, stored in zip(batch, kept, strict=True):
                each.outcome.set_result(stored)
        except BaseException as exc:
            for each in batch:
                each.outcome.set_exception(exc)
    return mine.outcome.result()


class _WaitingReply(NamedTuple):
    """A reply that a thread wants to write; `outcome` gets the one that is then in the store."""

    request: Request
    reply: Reply
    outcome: Future[Reply | None]


class _Queue(NamedTuple):
    """The replies of a process that wait to be written, the lock to add one, and the lock to write
    them.
    """

    waiting: list[_WaitingReply]
    joining_lock: threading.Lock
    writing_lock: threading.Lock


@lru_cache(maxsize=2)
def _queue_of_process(process: int) -> _Queue:
    """Return the queue of a process (by its id): a forked process must not use its parent's locks."""
    return _Queue([], threading.Lock(), threading.Lock())


def _write_or_keep_locally(batch: Sequence[tuple[Request, Reply]]) -> Sequence[Reply | None]:
    """Try once to write replies, and return for each request the reply that the store has now.

    If a shared database does not take them at once, write them to the file of this machine, and return
    None for each. The caller then waits for the database; if the process is killed meanwhile, the
    replies, which were paid for, are still in the file, and a later lookup moves them to the database.
    """
    try:
        return database.write(
            lambda execute: _insert_replies(execute, batch),
            in_turn=False,  # does not wait for other writers: one INSERT needs no transaction
            wait=False,  # no second attempt if the database does not answer
        )
    except StoreError:
        if not database.is_shared():  # the file of this machine itself failed
            raise
    # A process that is killed while it waits for the database must not lose replies that were paid for.
    with suppress(StoreError):
        _keep_in_local_file(batch)
    return [None] * len(batch)


def _write_when_database_answers(request: Request, reply: Reply) -> Reply:
    """Write a reply that the shared database did not take at the first attempt, and return the reply that
    the database has now.

    If the database does not answer until a deadline, warn, keep the reply in the file of this machine,
    and return it. If the database takes it, the copy that `_write_or_keep_locally` made in the file is
    deleted.
    """
    batch = [(request, reply)]
    try:
        # tries again until a deadline; in_turn=False: one INSERT does not wait for other writers
        [stored] = database.write(lambda execute: _insert_replies(execute, batch), in_turn=False)
    except StoreError as exc:
        # once more, because the first attempt to keep it may have failed; a copy that is there stays
        [kept] = _keep_in_local_file(batch)
        warn_user(
            f"paid replies are kept in {database.path()} until the shared database takes them: {exc}",
            RuntimeWarning,
        )
        return kept
    with suppress(StoreError):  # then the next lookup moves it once more, which changes nothing
        _delete_local_copies([request.key])
    return stored


def _keep_in_local_file(batch: Sequence[tuple[Request, Reply]]) -> list[Reply]:
    """Write replies into the file of this machine, and mark them as `spooled`: to be moved to the shared
    database. Return for each request the reply that the file has now.
    """

    def work(execute: Execute) -> list[Reply]:
        for request, _ in batch:
            query = "INSERT INTO spooled VALUES (?) ON CONFLICT (key) DO NOTHING"
            execute(query, (request.key,))
        return _insert_replies(execute, batch)

    return database.write(work, local=True)


def _move_to_shared_database() -> None:
    """Move the replies that the shared database did not take when they came (`spooled`) from the file of
    this machine to the database.

    Raises:
        StoreError: the database does not take them now, either; they stay in the file.
    """
    if not database.path().exists():
        return
    query = "SELECT * FROM reply WHERE key IN (SELECT key FROM spooled)"
    rows = database.rows(query, local=True)
    if not rows:
        return

    def insert(execute: Execute) -> None:
        marks = ",".join("?" * len(rows[0]))
        for row in rows:
            execute(f"INSERT INTO reply VALUES ({marks}) ON CONFLICT (key) DO NOTHING", row)

    # in_turn=False: each INSERT by itself, without waiting for other writers
    database.write(insert, in_turn=False)
    _delete_local_copies([row[0] for row in rows])  # the first column is the key


def _delete_local_copies(keys: Sequence[str]) -> None:
    """Delete replies from the file of this machine, because the shared database has them now. Replies that
    are not marked as `spooled` stay.
    """

    def work(execute: Execute) -> None:
        for key in keys:
            was_spooled = execute("DELETE FROM spooled WHERE key = ? RETURNING key", (key,))
            if was_spooled:
                execute("DELETE FROM reply WHERE key = ?", (key,))

    database.write(work, local=True)


def _insert_replies(execute: Execute, batch: Sequence[tuple[Request, Reply]]) -> list[Reply]:
    """Insert replies by one statement, and return for each request the reply that the store has now.

    A reply that was stored earlier for the same request stays, unless it is damaged.
    """
    rows = [_row_of_reply(request, reply) for request, reply in batch]
    marks_of_row = f"({','.join('?' * len(rows[0]))})"
    marks = ",".join([marks_of_row] * len(rows))
    query = (
        f"INSERT INTO reply VALUES {marks} "  # nosec B608: question marks
        "ON CONFLICT (key) DO NOTHING RETURNING key"
    )
    values = [*chain.from_iterable(rows)]  # of all rows, one after the other
    inserted_keys = {key for (key,) in execute(query, values)}
    kept = []
    for request, reply in batch:
        if request.key in inserted_keys:
            inserted_keys.remove(request.key)  # a second reply to this request was not inserted
            kept.append(reply)
        else:
            kept.append(_earlier_reply(execute, request, if_damaged=reply))
    return kept


def _earlier_reply(execute: Execute, request: Request, if_damaged: Reply) -> Reply:
    """Return the reply that the store has for a request. If the stored reply is damaged, replace it by
    `if_damaged`, and return that.
    """
    query = f"SELECT {_REPLY}, checksum FROM reply WHERE key = ?"  # nosec B608: our columns
    [(*fields, checksum)] = execute(query, (request.key,))
    if checksum == _checksum(request.key, Reply(*fields)):
        return Reply(*fields)
    execute("DELETE FROM reply WHERE key = ?", (request.key,))
    return _insert_replies(execute, [(request, if_damaged)])[0]


@contextmanager
def claim(key: str, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the right to send the request with this key during the block, so that a reply is not
    paid for twice.

    Threads of any process that would send the same request wait here. The right is released when its
    holder dies.

    The right is a lock of this machine, which excludes its other processes. If the database is shared,
    it is also a claim there, which excludes other machines. (A restart of the database ends all claims;
    the lock stays.)

    Raises:
        InterruptedError: `stop` was set during the wait.
        StoreError: the store cannot be written, so a reply that is paid for would be lost. Or, without a
            shared database: the lock cannot be made, or is not free within `_LONGEST_CLAIM_S` seconds.
    """
    stop = stop or threading.Event()
    database.read(lambda _: None)  # raises StoreError if the store cannot be used
    if database.is_shared():
        _move_to_shared_database()  # raises StoreError if the database takes no replies now
    with ExitStack() as claims:
        try:
            file = cache_folder() / "locks" / f"reply-{key}.lock"
            lock = locked(file, timeout_s=_LONGEST_CLAIM_S, stop=stop, remove=True)
            claims.enter_context(lock)
        except InterruptedError:  # an OSError, too, but it means that `stop` was set
            raise
        except OSError as exc:
            if not database.is_shared():  # else the claim in the database is enough
                raise StoreError(
                    f"the lock of a request cannot be acquired ({exc}): {database.advice(exc)}"
                ) from exc
        if database.is_shared():
            claims.enter_context(database.claimed(key, stop))
        yield


def info() -> dict[str, Any]:
    """Return the store in numbers: file, bytes, replies, and per model replies and tokens.

    >>> sorted(info())
    ['bytes', 'file', 'models', 'replies']
    """
    models = _counts_by_model() if database.exists() else {}
    n_replies = sum(counts["replies"] for counts in models.values())
    file = database.path()
    if database.is_shared():  # its size is not known here
        name, n_bytes = "the database of RAGBENCH_DATABASE", 0
    else:
        files = file.parent.glob("replies.sqlite*")  # with SQLite's files next to it
        name, n_bytes = str(file), sum(each.stat().st_size for each in files)
    return {"file": name, "bytes": n_bytes, "replies": n_replies, "models": models}


def _counts_by_model() -> dict[str, dict[str, int]]:
    """Return "provider:model" -> the number of its replies and their tokens."""
    query = (
        "SELECT provider, model, COUNT(*), CAST(SUM(input_tokens) AS BIGINT), "
        "CAST(SUM(output_tokens) AS BIGINT) FROM reply "
        "GROUP BY provider, model ORDER BY provider, model"
    )
    names = ("replies", "input_tokens", "output_tokens")
    counts_of = {}
    for provider, model, *counts in database.rows(query):
        counts_of[f"{provider}:{model}"] = dict(zip(names, counts, strict=True))
    return counts_of


def clear() -> int:
    """Delete the replies and return their number. Spent budgets stay on record."""
    if not database.exists():
        return 0

    def work(execute: Execute) -> int:
        [(deleted,)] = execute("SELECT COUNT(*) FROM reply")
        execute("DELETE FROM reply")
        return int(deleted)

    deleted = database.write(work)
    if deleted and not database.is_shared():
        with suppress(StoreError):  # another process reads now: the space is freed another time
            database.rows("VACUUM")
    return deleted


def _stored_replies(keys: list[str], column: str) -> dict[str, list[Reply]]:
    """Return each of `keys` that is found in a column -> the replies stored with it. Damaged replies are
    left out, with a warning.

    The column is "key", the key of a request, or "portable", the key without the server that is asked:
    requests for the same to different servers have the same "portable".
    """
    replies_by_key: dict[str, list[Reply]] = {}
    n_damaged = 0
    for start in range(0, len(keys), _AT_ONCE):
        rows = _select_replies(keys[start : start + _AT_ONCE], column)
        for searched_key, key, *fields, checksum in rows:
            reply = Reply(*fields)
            if checksum == _checksum(key, reply):
                replies_by_key.setdefault(searched_key, []).append(reply)
            else:
                n_damaged += 1
    if n_damaged:
        warn_user(
            f"{n_damaged} replies in {database.path()} do not match their checksums, so they count "
            "as missing",
            RuntimeWarning,
        )
    return replies_by_key


def _select_replies(keys: Sequence[str], column: str) -> list[tuple[Any, ...]]:
    """Return the rows of replies that have one of `keys` in a column. A row is (value of the column, key,
    the fields of `Reply`, checksum).

    The column is "key", the key of a request, which has one reply; or "portable", the key of a request
    without its server, which has a reply of each server that was asked.

    Keys that a shared database lacks are looked up in the file of this machine, which has the replies
    from before the machine shared its store.
    """
    query = (
        f"SELECT {column}, key, {_REPLY}, checksum FROM reply WHERE {column} IN "  # nosec B608: names of our columns
        f"({','.join('?' * len(keys))})"
    )
    rows = database.rows(query, keys)
    found = {row[0] for row in rows}
    has_all = found.issuperset(keys)
    if not has_all and database.is_shared() and database.path().exists():
        local_rows = database.rows(query, keys, local=True)
        rows += [row for row in local_rows if row[0] not in found]
    return rows


def _checksum(key: str, reply: Reply) -> str:
    return digest(key, *(str(value) for value in reply))


def _row_of_reply(request: Request, reply: Reply) -> tuple[Any, ...]:
    """Return the values of a row of the table of replies, in the order of its columns."""
    return (
        request.key,
        request.portable,
        request.provider,
        request.model,
        request.origin,
        request.system,
        request.prompt,
        request.max_tokens,
        float(request.temperature),
        request.schema_text,
        request.sample,
        *reply,
        time.time(),
        _checksum(request.key, reply),
    )
