"""Where documents are put before an evaluation: by requests or tool calls that a file describes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragbench.errors import ConfigError
from ragbench.files import expanded
from ragbench.llms.failures import Failed, RetryPolicy, scrubbed
from ragbench.systems.connections import McpSpec, ToolError, Unreached
from ragbench.systems.consent import confirm
from ragbench.systems.credentials import (
    Address,
    Scrubber,
    Template,
    check_template,
    checked,
    from_environment,
    scrubbed_json,
)
from ragbench.systems.http import HttpSpec
from ragbench.systems.loader import read_tables
from ragbench.systems.mcp import McpSystem
from ragbench.systems.reply_paths import JsonPath, entries, filled
from ragbench.systems.requests import Conversation, Request, Sender
from ragbench.types import Document


class NotAdded(Exception):  # noqa: N818 - an outcome that `ingest` counts
    """A document that the target does not hold, for sure; any other exception leaves that open.

    `stop`: any other document would fail in the same way.
    """

    def __init__(self, message: str, *, stop: bool = False) -> None:
        super().__init__(message)
        self.stop = stop


class Indexed(NamedTuple):
    """How many documents (or chunks) an index has, and how many still wait; None where the target does not say."""

    held: int | None = None
    pending: int | None = None


@dataclass(frozen=True)
class Target:
    """Where documents go: functions, so that anything can be one; `load_target` makes them from a file.

    `add` takes a batch and gives the target's id of each document, in order; it raises `NotAdded` where the target
    refused for sure. `find` gives the target's id of a document that may be there, or None. `status` is that of the
    index. `remove` takes a document's id and the target's id of it. With `same_ids` the target uses our ids, so
    that what is sent twice is there once.
    """

    name: str
    add: Callable[[Sequence[Document]], Sequence[Any]]
    find: Callable[[Document], Any] | None = None
    status: Callable[[], Indexed] | None = None
    remove: Callable[[str, Any], None] | None = None
    close: Callable[[], None] = lambda: None
    batch_size: int = 1
    concurrency: int = 1
    same_ids: bool = False


class _Step(Request):
    """One request or one tool call (tool, arguments)."""

    url: Address = ""
    tool: str = ""
    arguments: Annotated[dict[str, Any], AfterValidator(check_template)] = Field(default_factory=dict)
    id: JsonPath = ""
    count: JsonPath = ""
    pending: JsonPath = ""


class _IngestSpec(BaseModel):
    model_config = ConfigDict(extra="forbid")
    add: _Step
    document: Template = {"id": "{doc_id}", "title": "{title}", "text": "{text}"}
    find: _Step | None = None
    status: _Step | None = None
    remove: _Step | None = None
    batch_size: Annotated[int, Field(ge=1)] = 1
    concurrency: Annotated[int, Field(ge=1)] = 1
    same_ids: bool = False


_Call = Callable[[_Step, Mapping[str, Any]], Any]


def target_of(name: str, tables: Mapping[str, Any]) -> Target:
    """The target that the tables of a system's file describe: [ingest] next to [http] or [mcp].

    `[ingest.add]` is what puts documents there: `tool` and `arguments`, or a request as in `HttpSystem`. In them
    "{doc_id}", "{title}", "{text}" and "{full_text}" are replaced by those of a document, "{documents}" by a batch,
    each as `ingest.document` states; `id` is the JSONPath of the target's id (or ids) in the reply (left out: our own).
    `[ingest.find]` finds one again (its `id` may hold "{doc_id}", to tell it among several: a path such as
    '$.results[?(@.category == "{doc_id}")].id'), `[ingest.status]` has `count` and `pending`, `[ingest.remove]` takes
    "{id}". "{env:NAME}" is taken from the environment. Headers, variables and time limits are those of [http] or [mcp].

    Raises:
        ConfigError: every problem at once.
    """
    if "ingest" not in tables:
        raise ConfigError(f"{name} has no table [ingest], which states how documents are added")
    spec = checked(_IngestSpec, tables["ingest"], f"{name}, [ingest]")
    if "http" not in tables and "mcp" not in tables:
        raise ConfigError(f"{name}: [ingest] needs [http] or [mcp] next to it, which states how the system is reached")
    kind, needed = ("mcp", "tool") if "mcp" in tables else ("http", "url")
    given = {step: found for step in ("add", "find", "status", "remove") if (found := getattr(spec, step))}
    for step, found in given.items():
        if not getattr(found, needed):
            raise ConfigError(f"{name}, [ingest.{step}]: no {needed}; next to [{kind}] each step names one")
    templates = {"document": spec.document, **{step: dict(found) for step, found in given.items()}}
    plain, secrets = from_environment(templates, f"{name}, [ingest]")
    if kind == "mcp":
        steps = {step: found.model_copy(update=plain[step]) for step, found in given.items()}
        call, close = _mcp(name, tables[kind], secrets)
    else:
        http = checked(HttpSpec, tables[kind], f"{name}, [http]")
        sender = Sender(name, http, http.limits(), http.login)
        steps = {step: sender.prepared(found, f"{name}, [ingest.{step}]") for step, found in given.items()}
        call, close = _http(sender, http, again=spec.same_ids), sender.close

    def add(documents: Sequence[Document]) -> Sequence[Any]:
        listed = [filled(plain["document"], _values(document)) for document in documents]
        reply, path = call(steps["add"], {**_values(documents[0]), "documents": listed}), steps["add"].id
        ids = entries(reply, path) if path else [document.doc_id for document in documents]
        if len(ids) != len(documents):
            raise ValueError(f"{len(ids)} ids at {path!r} for {len(documents)} documents: {str(reply)[:200]}")
        return ids

    def find(document: Document) -> Any:
        inside_quotes = document.doc_id.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
        path = filled(steps["find"].id or "$.id", {"doc_id": inside_quotes})
        found = entries(call(steps["find"], _values(document)), path)
        return found[0] if found else None

    def status() -> Indexed:
        reply, paths = call(steps["status"], {}), (steps["status"].count, steps["status"].pending)
        return Indexed(*(_number(reply, path) if path else None for path in paths))

    def remove(doc_id: str, theirs: Any) -> None:
        call(steps["remove"], {"doc_id": doc_id, "id": theirs})

    return Target(
        name, add, find if spec.find else None, status if spec.status else None, remove if spec.remove else None,
        close, spec.batch_size, spec.concurrency, spec.same_ids,
    )  # fmt: skip


def _values(document: Document) -> dict[str, Any]:
    return {name: getattr(document, name) for name in ("doc_id", "title", "text", "full_text")}


def _number(reply: Any, path: str) -> int:
    found = entries(reply, path)
    if len(found) != 1 or isinstance(found[0], bool) or not isinstance(found[0], int):
        raise ValueError(f"{path!r} is not a number of documents in the reply: {str(reply)[:200]}")
    return found[0]


def _http(sender: Sender, spec: HttpSpec, *, again: bool) -> _Call:
    retry, stop = RetryPolicy(), threading.Event()

    def call(step: _Step, values: Mapping[str, Any]) -> Any:
        def send() -> str:
            try:
                return sender.clean(sender.send(step, Conversation(values), {}, spec.timeout_s).text)
            except Failed as exc:
                if not (again or _untouched(exc)):
                    exc.tries = 1  # it may have arrived, and would be there twice
                raise

        try:
            text = retry.run(send, stop, max_tries=spec.tries)
        except Failed as exc:
            if _untouched(exc):
                raise NotAdded(str(exc), stop=exc.stop) from None
            raise ConnectionError(str(exc)) from None
        with suppress(ValueError):
            return json.loads(text)
        return text

    return call


def _untouched(exc: Failed) -> bool:
    """Whether the server has surely not done what it was asked."""
    return exc.status in (429, 503) or 400 <= exc.status < 500 or (not exc.status and not exc.paid)


def _mcp(name: str, table: Mapping[str, Any], secrets: Sequence[str]) -> tuple[_Call, Callable[[], None]]:
    spec = checked(McpSpec, table, f"{name}, [mcp]")
    known = ("server", "tool", "headers", "headers_env", "env", "cwd", "protocol", "timeout_s", "start_timeout_s")
    given = spec.model_dump(include=set(known), exclude_unset=True)
    system = McpSystem(**given, name=name)
    scrubber = Scrubber(secrets)
    scrubber.start()

    def call(step: _Step, values: Mapping[str, Any]) -> Any:
        try:
            return scrubbed_json(system.call(step.tool, filled(step.arguments, values)), secrets)
        except Unreached as exc:
            raise NotAdded(scrubbed(str(exc), secrets), stop=True) from None
        except ToolError as exc:
            raise (ConnectionError if exc.done else NotAdded)(scrubbed(str(exc), secrets)) from None

    def close() -> None:
        system.close()
        scrubber.stop()

    return call, close


def load_target(path: str | Path) -> Target:
    """The target that a system's TOML file describes; see `target_of`."""
    path = expanded(path)
    tables = read_tables(path)
    confirm(path, tables)
    return target_of(path.stem, tables)
