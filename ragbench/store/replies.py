"""Replies of language models, kept under everything that they depend on, so that none is ever paid
for twice.

A reply is stored before anybody uses it. Its key is the SHA-256 of provider, model, origin, system
prompt, prompt, parameters, schema and sample index. `origin` distinguishes what has the same name:
the base URL of an OpenAI-compatible server (there every model may be called "default"). It is
empty for Anthropic and Ollama, where the name names the model and
the server's address is where this machine happens to find it. So that an exported store is a
cassette which a colleague can play without our servers and files, a lookup with `any_origin=True`
(offline) leaves the origin out of the comparison, as long as only one origin answers.

Keys for the providers are never given to this module and so never in its file.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from ragbench.files import locked, parse_json, staged
from ragbench.store import database
from ragbench.store.arrays import cache_folder, digest
from ragbench.store.contract import Connection, StoreError

_AT_ONCE = 500  # keys per query: well below SQLite's bound on parameters
_LONGEST_LINE = 64 * 2**20  # bytes of one line of a file to import; no honest request is larger
_LONGEST_CLAIM_S = 1800.0  # the other process may have to wait for a busy server again and again
_REQUEST = "provider, model, origin, system, prompt, max_tokens, temperature, schema, sample"
_REPLY = "text, served, input_tokens, output_tokens, latency_s, finish"
_COLUMNS = {"request": _REQUEST, "reply": _REPLY}
_HEADER = {"ragbench": "replies", "version": 1}

Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


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
    max_tokens: Count = 512
    temperature: Amount = 0.0
    schema: Mapping[str, Any] | None = None
    sample: Count = 0
    origin: str = ""

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
        return (
            None
            if self.schema is None
            else json.dumps(self.schema, sort_keys=True, ensure_ascii=False)
        )

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
    """What came back. `served` is the model as the server calls it, `latency_s` how long the server
    took.

    `finish` is "stop", "length" (cut at max_tokens) or "refusal".
    """

    text: str
    served: str
    input_tokens: Count
    output_tokens: Count
    latency_s: Amount
    finish: Annotated[str, Field(pattern="^(stop|length|refusal)$")]


class _StoredReply(NamedTuple):
    """A line of a file, or a row of the table: a reply with its request, and when it came."""

    request: Request
    reply: Reply
    created: Amount


class ReplyCounts(NamedTuple):
    """How many replies of a file were new, were here already, and differ from the ones here (which
    were kept).
    """

    added: int
    known: int
    differing: int


def lookup(request: Request) -> Reply | None:
    """Return the stored reply, or None; see `lookup_many`."""
    return lookup_many([request])[0]


def lookup_many(requests: Sequence[Request], *, any_origin: bool = False) -> list[Reply | None]:
    """Return the stored reply of each request, None where there is none.

    With `any_origin` a reply from another origin counts too, unless there are several: then it is
    None.
    """
    if not requests or not database.exists():
        return [None] * len(requests)
    exact = _found([request.key for request in requests], "key")
    # The last of several origins would depend on who wrote first: what is ambiguous is not found.
    portable = (
        _found([r.portable for r in requests if r.key not in exact], "portable")
        if any_origin
        else {}
    )
    replies: list[Reply | None] = []
    for request in requests:
        rows = exact.get(request.key) or portable.get(request.portable, [])
        replies.append(rows[0] if len(rows) == 1 else None)
    return replies


def store(request: Request, reply: Reply) -> Reply:
    """Keep the reply and give the one that is in the store: the first, when another process was
    faster.
    """

    def work(connection: Connection) -> Reply:
        row = connection.execute(
            f"SELECT key, {_REPLY}, proof FROM reply WHERE key = ?",  # nosec B608: our columns
            (request.key,),
        ).fetchone()
        if row is not None and row[-1] == _proof(row[0], Reply(*row[1:-1])):
            return Reply(*row[1:-1])
        _insert(connection, request, reply, time.time())
        return reply

    return database.write(work)


@contextmanager
def claim(key: str, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the right to send the request with this key; others that ask for the same wait here, in
    any process.

    The system gives the right back when its holder dies. Ends the wait with InterruptedError when
    `stop` is set.
    """
    database.read(lambda _: None)  # where replies cannot be kept, none should be bought
    if database.is_shared():
        with database.claimed(key, stop or threading.Event()):
            yield
        return
    file = cache_folder() / "locks" / f"reply-{key}.lock"
    with ExitStack() as stack:
        # without locks on this file system the same request is, at worst, sent twice at the same
        # moment
        try:
            stack.enter_context(
                locked(
                    file, timeout_s=_LONGEST_CLAIM_S, stop=stop or threading.Event(), remove=True
                )
            )
        except InterruptedError:
            raise
        except OSError as exc:
            raise StoreError(
                f"the lock {file} cannot be had ({exc}): {database.advice(exc)}"
            ) from exc
        yield


def export_file(path: Path | str, *, models: Collection[str] | None = None) -> int:
    """Write the replies (of `models`, such as "ollama:llama3.1:8b"; default all) to a JSONL file;
    gives their number.

    One line per reply, after one that identifies the file; a name that ends in ".gz" is compressed.
    The file holds the whole prompts: anyone who gets it can read them. A file of that name is
    replaced as a whole or not at all.
    """
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        what = (
            "is a folder"
            if path.is_dir()
            else f"cannot be written: there is no folder {path.parent}"
        )
        raise ValueError(f"{path} {what}; expected a file to write to, such as replies.jsonl.gz")
    count = 0
    with staged(path) as new, _text_file(new, "w", compressed=path.suffix == ".gz") as file:
        file.write(json.dumps(_HEADER) + "\n")
        for row in _all_rows():
            if models is None or f"{row['provider']}:{row['model']}" in models:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
    return count


def import_file(path: Path | str) -> ReplyCounts:
    """Add the replies of a file that `export_file` wrote, here or on another machine.

    The file is data from outside: every line is checked (fields, types, ranges, its own checksum),
    and one bad line means that nothing is imported. A reply that is here already is kept, also when
    the file's differs; how many did is in the result. Raises ValueError with the number of the bad
    line.
    """
    path = Path(path)
    for _ in _checked_lines(path):
        pass  # all of it before any of it, and without making others wait

    def work(connection: Connection) -> ReplyCounts:
        added = n_known = differing = 0
        for request, reply, created in _checked_lines(path):
            row = connection.execute(
                f"SELECT {_REPLY}, proof FROM reply WHERE key = ?",  # nosec B608: our columns
                (request.key,),
            ).fetchone()
            if row is None or row[-1] != _proof(request.key, Reply(*row[:-1])):
                _insert(connection, request, reply, created)
                added += 1
            elif Reply(*row[:-1])[:4] == reply[:4]:
                n_known += 1
            else:
                differing += 1
        return ReplyCounts(added, n_known, differing)

    return database.write(work)


def info() -> dict[str, Any]:
    """Return the store in numbers: file, bytes, replies, per model replies and tokens, and damaged
    files that were renamed.

    >>> sorted(info())
    ['bytes', 'damaged', 'file', 'models', 'replies']
    """
    file = database.path()
    models: dict[str, dict[str, int]] = {}
    if database.exists():
        query = (
            "SELECT provider, model, COUNT(*), CAST(SUM(input_tokens) AS BIGINT), "
            "CAST(SUM(output_tokens) AS BIGINT) FROM reply "
            "GROUP BY provider, model ORDER BY provider, model"
        )
        for provider, model, n, read, written in database.rows(query):
            models[f"{provider}:{model}"] = {
                "replies": n,
                "input_tokens": read,
                "output_tokens": written,
            }
    files = [] if database.is_shared() else file.parent.glob("replies.sqlite*")
    return {
        "file": "the database of RAGBENCH_DATABASE" if database.is_shared() else str(file),
        "bytes": sum(other.stat().st_size for other in files),
        "replies": sum(counts["replies"] for counts in models.values()),
        "models": models,
        "damaged": sorted(other.name for other in file.parent.glob("replies.damaged-*.sqlite")),
    }


def clear() -> int:
    """Delete the replies and give their number. What budgets have spent stays on record."""
    if not database.exists():
        return 0
    deleted = database.write(lambda connection: connection.execute("DELETE FROM reply").rowcount)
    if deleted and not database.is_shared():
        with suppress(StoreError):  # another process reads now: the space is freed another time
            database.read(lambda connection: connection.execute("VACUUM"))
    return deleted


def _found(keys: list[str], column: str) -> dict[str, list[Reply]]:
    rows_by_key: dict[str, list[Reply]] = {}
    damaged = 0
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        query = (
            f"SELECT {column}, key, {_REPLY}, proof FROM reply WHERE {column} IN "  # nosec B608: names of our columns
            f"({','.join('?' * len(some))})"
        )
        rows = database.rows(query, some)
        if database.is_shared() and len(rows) < len(some) and database.path().exists():
            matching = {
                row[0] for row in rows
            }  # what was paid for before this machine shared its replies is not lost
            rows += [
                row for row in database.rows(query, some, local=True) if row[0] not in matching
            ]
        for row in rows:
            reply = Reply(*row[2:-1])
            if row[-1] == _proof(row[1], reply):
                rows_by_key.setdefault(row[0], []).append(reply)
            else:
                damaged += 1
    _warn_of_damage(damaged)
    return rows_by_key


def _proof(key: str, reply: Reply) -> str:
    return digest(key, *(str(value) for value in reply))


def _insert(connection: Connection, request: Request, reply: Reply, created: float) -> None:
    row = (
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
        created,
        _proof(request.key, reply),
    )
    connection.execute("DELETE FROM reply WHERE key = ?", (request.key,))
    connection.execute(f"INSERT INTO reply VALUES ({','.join('?' * len(row))})", row)  # nosec B608: question marks


def _all_rows() -> Iterator[dict[str, Any]]:
    if not database.exists():
        return
    columns = [name.strip() for name in f"{_REQUEST}, {_REPLY}, created, proof".split(",")]
    query = f"SELECT rowid, {', '.join(columns)} FROM reply WHERE rowid IN ({{}})"  # nosec B608: names of our columns
    order = [row for (row,) in database.rows("SELECT rowid FROM reply ORDER BY key")]
    damaged = 0
    for start in range(0, len(order), _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        rows = {
            row[0]: row[1:] for row in database.rows(query.format(",".join("?" * len(some))), some)
        }
        for values in [rows[row] for row in some if row in rows]:
            named = dict(zip(columns, values, strict=True))
            try:
                named["schema"] = None if named["schema"] is None else json.loads(named["schema"])
                _checked(named, "a stored reply")
            except (ValueError, TypeError, RecursionError):
                damaged += 1
                continue
            yield named
    _warn_of_damage(damaged)


def _warn_of_damage(damaged: int) -> None:
    if damaged:
        warnings.warn(
            f"{damaged} replies in {database.path()} do not match their checksums, so they count "
            "as missing",
            RuntimeWarning,
            stacklevel=3,
        )


def _text_file(path: Path, mode: str, *, compressed: bool) -> IO[str]:
    if compressed:
        return gzip.open(path, f"{mode}t", encoding="utf-8")  # type: ignore[return-value]
    return path.open(mode, encoding="utf-8")


def _checked_lines(path: Path) -> Iterator[_StoredReply]:
    where = f"{path}: line 1"
    try:
        with _text_file(path, "r", compressed=path.suffix == ".gz") as file:
            header = _json_object(file.readline(_LONGEST_LINE), where)
            if header.get("ragbench") != "replies" or header.get("version") != 1:
                raise ValueError(
                    f"{where} is not that of exported replies; expected {json.dumps(_HEADER)}"
                )
            number = 1
            while line := file.readline(_LONGEST_LINE):
                number += 1
                where = f"{path}: line {number}"
                yield _checked(_json_object(line, where), where)
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError, zlib.error) as exc:
        raise ValueError(
            f"after {where}: the file is damaged or cut short ({exc}); nothing was imported"
        ) from exc


def _json_object(line: str, where: str) -> dict[str, Any]:
    if not line.endswith("\n"):
        raise ValueError(f"{where} is cut short or too long; nothing was imported")
    try:
        value = parse_json(line)
    except ValueError as exc:
        raise ValueError(f"{where} is not JSON ({exc}); nothing was imported") from exc
    if not isinstance(value, dict):
        raise ValueError(
            f"{where} is {type(value).__name__}, expected an object; nothing was imported"
        )
    return value


def _checked(fields: dict[str, Any], where: str) -> _StoredReply:
    names = {part: columns.split(", ") for part, columns in _COLUMNS.items()}
    if odd := fields.keys() ^ {"created", "proof", *names["request"], *names["reply"]}:
        raise ValueError(
            f"{where}: missing or unknown fields: {', '.join(sorted(odd))}; nothing was imported"
        )
    parts = {part: {name: fields[name] for name in names[part]} for part in names}
    try:
        stored = TypeAdapter(_StoredReply).validate_python({**parts, "created": fields["created"]})
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        raise ValueError(
            f"{where}: {error['loc'][-1]} is {str(error['input'])[:80]!r}, which no reply has; "
            "nothing was imported"
        ) from None
    if fields["proof"] != _proof(stored.request.key, stored.reply):
        raise ValueError(
            f"{where}: the reply does not match its checksum: damaged or edited; nothing was "
            "imported"
        )
    return stored
