"""Replies of language models, kept under everything that they depend on, so that none is ever paid
for twice.

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
        return self._digest(self.origin)

    @cached_property
    def portable(self) -> str:
        """Return the SHA-256 (64 hex digits) of all fields but `origin`."""
        return self._digest("")

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

    def _digest(self, origin: str) -> str:
        return digest(
            "reply 1",
            self.provider,
            self.model,
            origin,
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
    """Return the stored reply of each request; None for a request without one.

    With `any_origin` a reply from another origin counts too, unless there are several: then it is
    None.
    """
    if not requests or not database.exists():
        return [None] * len(requests)
    if database.is_shared():
        with suppress(StoreError):  # they stay in the file, where a lookup finds them, too
            _move_spooled()
    exact = _found([request.key for request in requests], "key")
    portable: Mapping[str, Sequence[Reply]] = {}
    if any_origin:
        others = [request.portable for request in requests if request.key not in exact]
        portable = _found(others, "portable")
    replies: list[Reply | None] = []
    for request in requests:
        found = exact.get(request.key) or portable.get(request.portable, [])
        # The last of several origins would depend on who wrote first: an ambiguous reply is not found.
        replies.append(found[0] if len(found) == 1 else None)
    return replies


def store(request: Request, reply: Reply) -> Reply:
    """Keep a reply and return the one that is in the store: the first, if another process was faster.

    It is durable when this returns. Replies of other threads that come while one is written share
    the next transaction. A reply that a shared database does not take at once is kept in the file
    of this machine until the database takes it.
    """
    stored = _stored_together(request, reply)
    if stored is None:
        return _stored_later(request, reply)
    return stored


def _stored_together(request: Request, reply: Reply) -> Reply | None:
    """Write a reply in one transaction with those of other threads, and return the one that is in the
    store; None if the shared database did not take it.

    The thread that gets the lock to write takes all waiting replies with it; the other threads find
    their outcome set when they get the lock.
    """
    waiting, joining_lock, writing_lock = _batch(os.getpid())
    outcome = Future[Reply | None]()
    with joining_lock:
        waiting.append((request, reply, outcome))
    with writing_lock:
        if outcome.done():  # an earlier thread wrote this reply, too
            return outcome.result()
        with joining_lock:
            # in one order, or two processes would wait for each other's rows
            together = sorted(waiting, key=lambda each: each[0].key)
            waiting.clear()
        try:
            kept = _write_or_spool([(each, its_reply) for each, its_reply, _ in together])
            for (_, _, its_outcome), stored in zip(together, kept, strict=True):
                its_outcome.set_result(stored)
        except BaseException as exc:
            for _, _, its_outcome in together:
                its_outcome.set_exception(exc)
    return outcome.result()


_Waiting = list[tuple[Request, Reply, Future[Reply | None]]]


@lru_cache(maxsize=2)
def _batch(process: int) -> tuple[_Waiting, threading.Lock, threading.Lock]:
    """Return the replies of a process that wait to be written, the lock to add one, and the lock to
    write them.
    """
    return [], threading.Lock(), threading.Lock()


def _write_or_spool(batch: Sequence[tuple[Request, Reply]]) -> Sequence[Reply | None]:
    """Write replies and return the kept ones; None for each that the shared database does not take
    at once, and that the file of this machine keeps.
    """
    try:
        return database.write(lambda execute: _keep(execute, batch), in_turn=False, wait=False)
    except StoreError:
        if not database.is_shared():
            raise
    # A process that is killed while it waits for the database must not lose what it has paid for.
    with suppress(StoreError):
        _spool(batch)
    return [None] * len(batch)


def _stored_later(request: Request, reply: Reply) -> Reply:
    """Wait until the shared database takes a reply, and return the one that is in it; after the
    wait, the file of this machine keeps the reply.
    """
    batch = [(request, reply)]
    try:
        [stored] = database.write(lambda execute: _keep(execute, batch), in_turn=False)
    except StoreError as exc:
        [spooled] = _spool(batch)
        warn_user(
            f"paid replies are kept in {database.path()} until the shared database takes them: {exc}",
            RuntimeWarning,
        )
        return spooled
    with suppress(StoreError):  # then the next lookup moves it once more, which changes nothing
        _forget_spooled([request.key])
    return stored


def _spool(batch: Sequence[tuple[Request, Reply]]) -> list[Reply]:
    """Write replies into the file of this machine, to be moved to the shared database."""

    def work(execute: Execute) -> list[Reply]:
        for request, _ in batch:
            query = "INSERT INTO spooled VALUES (?) ON CONFLICT (key) DO NOTHING"
            execute(query, (request.key,))
        return _keep(execute, batch)

    return database.write(work, local=True)


def _move_spooled() -> None:
    """Move replies from the file of this machine to the shared database: the replies that could not be
    written to it when they came.

    Raises:
        StoreError: they cannot be written to it now, either, and stay in the file.
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

    database.write(insert, in_turn=False)
    _forget_spooled([row[0] for row in rows])


def _forget_spooled(keys: Sequence[str]) -> None:
    """Delete replies that the shared database has taken from the file of this machine."""

    def work(execute: Execute) -> None:
        for key in keys:
            if execute("DELETE FROM spooled WHERE key = ? RETURNING key", (key,)):
                execute("DELETE FROM reply WHERE key = ?", (key,))

    database.write(work, local=True)


def _keep(execute: Execute, batch: Sequence[tuple[Request, Reply]]) -> list[Reply]:
    """Insert replies by one statement, and return for each the one that is kept: a reply to the same
    request that is in the store stays.
    """
    rows = [_row(request, reply) for request, reply in batch]
    marks = f"({','.join('?' * len(rows[0]))})"
    query = (
        f"INSERT INTO reply VALUES {','.join([marks] * len(batch))} "  # nosec B608: question marks
        "ON CONFLICT (key) DO NOTHING RETURNING key"
    )
    values = [value for row in rows for value in row]
    inserted = {key for (key,) in execute(query, values)}
    kept = []
    for request, reply in batch:
        if request.key in inserted:
            inserted.remove(request.key)  # a second reply to this request was not inserted
            kept.append(reply)
        else:
            kept.append(_older(execute, request, reply))
    return kept


def _older(execute: Execute, request: Request, reply: Reply) -> Reply:
    """Return the reply that the store holds for a request; if that is damaged, it is replaced by
    `reply`, which is returned.
    """
    query = f"SELECT {_REPLY}, checksum FROM reply WHERE key = ?"  # nosec B608: our columns
    [(*fields, checksum)] = execute(query, (request.key,))
    if checksum == _checksum(request.key, Reply(*fields)):
        return Reply(*fields)
    execute("DELETE FROM reply WHERE key = ?", (request.key,))
    return _keep(execute, [(request, reply)])[0]


@contextmanager
def claim(key: str, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the right to send the request with this key during the block; threads of any process that
    would send the same request wait here.

    The operating system releases the right when its holder dies.

    Raises:
        InterruptedError: `stop` was set during the wait.
        StoreError: the reply could not be kept, so it must not be bought; or there is no lock.
    """
    stop = stop or threading.Event()
    database.read(lambda _: None)  # raises if the store cannot be used
    if database.is_shared():
        _move_spooled()
    with ExitStack() as stack:
        # without locks on this file system the same request is, at worst, sent twice at the same
        # moment
        try:
            file = cache_folder() / "locks" / f"reply-{key}.lock"
            lock = locked(file, timeout_s=_LONGEST_CLAIM_S, stop=stop, remove=True)
            stack.enter_context(lock)
        except InterruptedError:
            raise
        except OSError as exc:
            if not database.is_shared():
                raise StoreError(
                    f"the lock of a request cannot be had ({exc}): {database.advice(exc)}"
                ) from exc
        if database.is_shared():  # the lock of this machine outlives a restart of the database
            stack.enter_context(database.claimed(key, stop))
        yield


def info() -> dict[str, Any]:
    """Return the store in numbers: file, bytes, replies, and per model replies and tokens.

    >>> sorted(info())
    ['bytes', 'file', 'models', 'replies']
    """
    file = database.path()
    models: dict[str, dict[str, int]] = {}
    if database.exists():
        query = (
            "SELECT provider, model, COUNT(*), CAST(SUM(input_tokens) AS BIGINT), "
            "CAST(SUM(output_tokens) AS BIGINT) FROM reply "
            "GROUP BY provider, model ORDER BY provider, model"
        )
        counted = "replies", "input_tokens", "output_tokens"
        for provider, model, *counts in database.rows(query):
            models[f"{provider}:{model}"] = dict(zip(counted, counts, strict=True))
    files = [] if database.is_shared() else file.parent.glob("replies.sqlite*")
    return {
        "file": "the database of RAGBENCH_DATABASE" if database.is_shared() else str(file),
        "bytes": sum(other.stat().st_size for other in files),
        "replies": sum(counts["replies"] for counts in models.values()),
        "models": models,
    }


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


def _found(keys: list[str], column: str) -> dict[str, list[Reply]]:
    """Return key -> the stored replies with this value in a column, "key" or "portable". Keys without
    a reply are left out; damaged replies are too, with a warning.
    """
    replies_by_key: dict[str, list[Reply]] = {}
    n_damaged = 0
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        query = (
            f"SELECT {column}, key, {_REPLY}, checksum FROM reply WHERE {column} IN "  # nosec B608: names of our columns
            f"({','.join('?' * len(some))})"
        )
        rows = database.rows(query, some)
        if database.is_shared() and len(rows) < len(some) and database.path().exists():
            # replies from before this machine shared its store are used, too
            in_shared = {row[0] for row in rows}
            for row in database.rows(query, some, local=True):
                if row[0] not in in_shared:
                    rows.append(row)
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


def _checksum(key: str, reply: Reply) -> str:
    return digest(key, *(str(value) for value in reply))


def _row(request: Request, reply: Reply) -> tuple[Any, ...]:
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
