"""The parts of an answer in a system's JSON or stream of JSON, by paths."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from ragbench.errors import DataError, FailureKind, RagbenchError, abridged
from ragbench.llms.failures import scrubbed
from ragbench.systems.answer_parser import read_answer
from ragbench.systems.function import failed
from ragbench.types import Answer

_STEP = re.compile(r"\['([^']+)'\]|\[(\d+|\*)\]|([^.\[\]$]+)")
_LISTS = ("contexts", "citations", "flags")


def _check_path(path: str) -> str:
    if ".." in path or _STEP.sub("", path.removeprefix("$")).strip("."):
        raise ValueError("expected a path such as $.answer, $.hits[0].text or $.sources[*].title")
    return path


ReplyPath = Annotated[str, AfterValidator(_check_path)]
"""The part of JSONPath that names fields, entries by number, and all entries ([*]); "" for none,
"$" for the whole.
"""


def matches(value: Any, path: str) -> list[Any]:
    """Return the values at a path.

    >>> matches({"hits": [{"id": 7}, {"id": 8}]}, "$.hits[*].id"), matches([{"a b": 1}], "[0]['a b']"), matches({}, "a")
    ([7, 8], [1], [])
    """
    values = [value]
    for quoted, index, name in _STEP.findall(path):
        step = quoted or index or name
        entries = []
        for part in values:
            entries += _inside(part, step)
        values = entries
    return values


def _inside(value: Any, step: str) -> list[Any]:
    """Return the entries of a value that a step of a path names; [] if it has none."""
    if isinstance(value, list):
        if step == "*":
            return value
        return value[int(step) :][:1] if step.isdecimal() else []
    if isinstance(value, Mapping) and step in value:
        return [value[step]]
    return []


class ReplyPaths(BaseModel):
    """The paths of the parts of an answer in a reply; a part without a path is not read.

    Without any path the reply is read by the usual names (`read_answer`). `context` has the paths
    inside each of the contexts, as far as its names are not the usual ones. `usage` is an object
    with the usual names of tokens. An answer that carries one of `failed_flags` has failed, even if it
    has a text: that is how systems report that they fell back on something else.
    """

    model_config = ConfigDict(extra="forbid")
    answer: ReplyPath = ""
    contexts: ReplyPath = ""
    context: dict[Literal["id", "text", "score", "doc_id"], ReplyPath] = {}
    citations: ReplyPath = ""
    flags: ReplyPath = ""
    outcome: ReplyPath = ""
    confidence: ReplyPath = ""
    usage: ReplyPath = ""
    latency_ms: ReplyPath = ""
    error: ReplyPath = ""
    failed_flags: list[str] = []

    @model_validator(mode="after")
    def _has_contexts(self) -> Self:
        if self.context and not self.contexts:
            raise ValueError(
                "context has the paths inside each of contexts; give the path of contexts, too"
            )
        return self

    def named(self) -> dict[str, str]:
        """Return the paths that are not empty, by the names of their parts."""
        return {part: path for part, path in self if path and isinstance(path, str)}

    def parts_of(self, reply: Any) -> dict[str, Any]:
        """Return part -> what a reply has at its path: a list for contexts, citations and flags, a
        value for the others (several values are joined as texts). Parts that the reply lacks are
        left out.

        A flag of `failed_flags` becomes an "error".
        """
        record: dict[str, Any] = {}
        for part, path in self.named().items():
            if part in _LISTS:
                # "$.hits" and "$.hits[*]" mean the same list
                list_path = path if path == "$[*]" else path.removesuffix("[*]")
                entries = matches(reply, list_path)
                is_one_list = len(entries) == 1 and isinstance(entries[0], list | None)
                if entries:
                    record[part] = entries[0] if is_one_list else entries
                continue
            values = matches(reply, path)
            if len(values) == 1:
                record[part] = values[0]
            elif values:
                record[part] = "".join(map(str, values))
        if contexts := record.get("contexts"):
            record["contexts"] = [self._context(entry) for entry in contexts]
        for flag in record.get("flags") or ():
            if flag in self.failed_flags:
                record["error"] = f"the system flags its answer as {flag!r}"
        return record

    def _context(self, entry: Any) -> Any:
        """Return a context with its parts at the paths of `context` under their usual names."""
        if not isinstance(entry, Mapping):
            return entry
        context = {key: value for key, value in entry.items() if key not in self.context}
        for part, path in self.context.items():
            values = matches(entry, path)
            if values:
                context[part] = values[0]
        return context


Paths = Annotated[Mapping[str, Any] | ReplyPaths, BeforeValidator(ReplyPaths.model_validate)]
"""An option of a system: a table in, `ReplyPaths` out."""


class Reply(NamedTuple):
    """A system's reply to one question: one value of JSON, or the events of a stream."""

    events: list[Any]
    streamed: bool = False

    def record(self, paths: ReplyPaths, delta: str = "") -> Any:
        """Return the record that `read_answer` reads.

        Without paths, the only value of a reply that is no stream is the record. Of the events of a
        stream, the strings at `delta` are joined to the answer, and every other part is from the
        last event in which it is not empty. `delta` = "" joins nothing.

        >>> paths = ReplyPaths(answer="$.data.text", contexts="$.data.hits", context={"text": "body"})
        >>> Reply([{"data": {"text": "Yes.", "hits": [{"id": 7, "body": "So."}]}}]).record(paths)
        {'answer': 'Yes.', 'contexts': [{'id': 7, 'body': 'So.', 'text': 'So.'}]}
        >>> events = Reply([{"t": "In "}, {"t": "1881."}, {"hits": ["It opened."]}], streamed=True)
        >>> events.record(ReplyPaths(contexts="$.hits"), "$.t")
        {'contexts': ['It opened.'], 'answer': 'In 1881.'}

        Raises:
            DataError: there is no answer.
        """
        has_paths = bool(paths.named())
        if not self.streamed and not has_paths:
            return self.events[0]
        record: dict[str, Any] = {}
        pieces: list[str] = []
        for event in self.events:
            parts = paths.parts_of(event) if has_paths else event
            if isinstance(parts, Mapping):
                for part, value in parts.items():
                    if value or part not in record:
                        record[part] = value
            if delta:
                pieces += [piece for piece in matches(event, delta) if isinstance(piece, str)]
        if pieces:
            record["answer"] = "".join(pieces)
        expected = ["answer", "error"]  # one of these must be there
        if not paths.answer:
            expected += ["text", "response", "contexts"]  # the usual names of an answer
        if all(record.get(name) is None for name in expected):
            where = f"delta = {delta!r}" if delta else f"answer = {paths.answer or 'answer'!r}"
            last = abridged(repr(self.events[-1]), 120) if self.events else "no event"
            raise DataError(f"the reply has nothing at {where}; it is {last}")
        return record


def read_events(text: str, *, sse: bool, delta: str = "") -> Iterator[Any]:
    """Yield the data of server-sent events, or of lines of JSON, up to "[DONE]".

    Where `delta` is "$", data that is neither an object, a list of objects nor a JSON string is a
    piece of text as it is.

    >>> list(read_events('data: In\\n\\ndata: [1].\\n\\n: hi\\ndata: {"a":\\ndata: 1}', sse=True, delta="$"))
    ['In', '[1].', {'a': 1}]

    Raises:
        DataError: an event is not JSON, or is called "error".
    """
    if sse:
        events = [*_server_sent(text)]
    else:
        events = [("", line) for line in text.split("\n") if line.strip()]
    for kind, data in events:
        if data.strip() == "[DONE]":
            return
        if kind == "error":
            raise DataError(f"the stream reports: {abridged(data, 120)}")
        event: Any = None
        with suppress(ValueError, RecursionError):
            event = json.loads(data)
        first = event[0] if isinstance(event, list) and event else event
        if delta == "$" and not isinstance(first, str | Mapping):
            event = data  # a piece of text that happens to be JSON, such as "[1]"
        if event is None:
            hint = 'if it is a piece of the answer as it is, write delta = "$"'
            raise DataError(f"an event of the stream is not JSON: {abridged(data, 120)}; {hint}")
        yield event


def _server_sent(text: str) -> Iterator[tuple[str, str]]:
    """Yield the type and the data of each event that has data, also of one that the end of the
    stream cuts off.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        fields: dict[str, list[str]] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        data = fields.get("data", [])
        if any(data):
            kind = fields.get("event", [""])[0]
            yield kind, "\n".join(data)


class RemoteSystem:
    """What systems by HTTP and by MCP have in common."""

    name: str
    reply: Paths
    delta = ""
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""

    def read(self, query_id: str, ask: Callable[[], tuple[Reply, dict[str, float]]]) -> Answer:
        """Return the answer in a system's reply, without secrets in its error; a failed answer if
        `ask` raises, or the reply cannot be read.

        `ask` sends the question, and returns the reply and stage -> milliseconds.
        """
        try:
            reply, latency_ms = ask()
            record = reply.record(cast(ReplyPaths, self.reply), self.delta)
            answer = read_answer(query_id, record, model=self.name)
        except InterruptedError:
            return failed(query_id, f"{self.name} was closed")
        except (RagbenchError, RecursionError) as exc:
            is_unreadable = isinstance(exc, DataError | RecursionError)
            kind = FailureKind.UNREADABLE if is_unreadable else FailureKind.ERROR
            reason = str(exc).removeprefix(f"{self.name}: ")
            reason = scrubbed(f"{self.name}: {reason}", self.secrets)
            return failed(query_id, reason, getattr(exc, "failure", None) or kind)
        if answer.error is not None:
            answer = replace(answer, error=scrubbed(answer.error, self.secrets))
        return replace(answer, latency_ms={**latency_ms, **answer.latency_ms})
