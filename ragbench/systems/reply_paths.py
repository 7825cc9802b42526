"""The parts of an answer in a system's JSON or stream of JSON, by the paths of its file; which path
syntax there is, and how the pieces of a stream are joined.
"""

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
    values = [value]  # at the part of the path that is read so far
    # a step is a name in quotes, a number or "*" in brackets, or a plain name; the others are ""
    for quoted, index, name in _STEP.findall(path):
        step = quoted or index or name
        entries = []
        for part in values:
            entries += _inside(part, step)
        values = entries
    return values


def _inside(value: Any, step: str) -> list[Any]:
    """Return the entries of a value that a step of a path names ("*", a number, or the name of a
    field); [] if it has none.
    """
    if isinstance(value, list):
        if step == "*":
            return value
        # a slice: [] if the list is shorter
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
        """Return part of an answer ("answer", "contexts", ...) -> the value of a reply at the part's path.

        Contexts, citations and flags are lists. Any other part is one value; several values at its
        path are joined as texts. Parts that the reply lacks are left out. If the reply has a flag of
        `failed_flags`, the part "error" says so.
        """
        record: dict[str, Any] = {}
        for part, path in self.named().items():
            is_list = part in _LISTS
            if is_list and path != "$[*]":
                path = path.removesuffix("[*]")  # "$.hits" and "$.hits[*]" mean the same list
            values = matches(reply, path)
            if values:
                record[part] = _as_list(values) if is_list else _as_value(values)
        if record.get("contexts"):
            record["contexts"] = [self._context(entry) for entry in record["contexts"]]
        for flag in record.get("flags") or ():
            if flag in self.failed_flags:
                record["error"] = f"the system flags its answer as {flag!r}"
        return record

    def _context(self, entry: Any) -> Any:
        """Return a context of a reply, in which each part with a path in `context` has its usual name
        ("text", "id", ...). Such a part is read at its path alone: a field of the reply with its name is
        left out, even if nothing is at the path. A context that is not a table is returned unchanged.
        """
        if not isinstance(entry, Mapping):
            return entry
        context = {key: value for key, value in entry.items() if key not in self.context}
        for part, path in self.context.items():
            values = matches(entry, path)
            if values:
                context[part] = values[0]
        return context


def _as_list(values: list[Any]) -> Any:
    """Return the list that a path leads to: its only value if that is a list (or null, for none),
    else all values at the path.
    """
    if len(values) == 1 and isinstance(values[0], list | None):
        return values[0]
    return values


def _as_value(values: list[Any]) -> Any:
    """Return the only value at a path, or several as one text."""
    return values[0] if len(values) == 1 else "".join(map(str, values))


Paths = Annotated[Mapping[str, Any] | ReplyPaths, BeforeValidator(ReplyPaths.model_validate)]
"""An option of a system: a table in, `ReplyPaths` out."""


class SystemReply(NamedTuple):
    """A system's reply to one question: one value of JSON, or the events of a stream, and stage ->
    milliseconds that it took.
    """

    events: list[Any]
    streamed: bool = False
    latency_ms: Mapping[str, float] = {}

    def record(self, paths: ReplyPaths, delta: str = "") -> Any:
        """Return the reply as a record ("answer", "contexts", ...), which `read_answer` reads.

        A reply that is not a stream is one value. Without paths this value is the record. A record may
        have contexts and no answer (the system only retrieves), unless `paths` names the answer.

        In a stream, each part of the record is from the last event in which it is not empty. With
        `delta`, the answer is made of the pieces there, which are joined.

        Args:
            paths: where the parts are in the value or in each event.
            delta: the path of the pieces of the answer; "" joins nothing.

        >>> paths = ReplyPaths(answer="$.data.text", contexts="$.data.hits", context={"text": "body"})
        >>> SystemReply([{"data": {"text": "Yes.", "hits": [{"id": 7, "body": "So."}]}}]).record(paths)
        {'answer': 'Yes.', 'contexts': [{'id': 7, 'body': 'So.', 'text': 'So.'}]}
        >>> events = SystemReply([{"t": "In "}, {"t": "1881."}, {"hits": ["It opened."]}], streamed=True)
        >>> events.record(ReplyPaths(contexts="$.hits"), "$.t")
        {'contexts': ['It opened.'], 'answer': 'In 1881.'}

        Raises:
            DataError: there is neither an answer nor an error, and no contexts that would be enough.
        """
        has_paths = bool(paths.named())
        if not self.streamed and not has_paths:
            return self.events[0]
        record: dict[str, Any] = {}
        for event in self.events:
            parts = paths.parts_of(event) if has_paths else event
            if isinstance(parts, Mapping):
                for part, value in parts.items():
                    if value or part not in record:
                        record[part] = value
        pieces = self._pieces_at(delta) if delta else []
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

    def _pieces_at(self, delta: str) -> list[str]:
        """Return the texts at the path `delta` of all events, the pieces of a streamed answer."""
        pieces: list[str] = []
        for event in self.events:
            pieces += [piece for piece in matches(event, delta) if isinstance(piece, str)]
        return pieces


def read_events(text: str, *, sse: bool, delta: str = "") -> Iterator[Any]:
    """Yield the data of each event of a stream, parsed from JSON, up to the event "[DONE]".

    Args:
        text: the whole stream.
        sse: True for server-sent events (blocks of lines "data: ..."), False for lines of JSON.
        delta: "$" if the data of an event may be plain text, a piece of the answer. Then only an object,
            a string, or a list that begins with one of them is parsed; any other data is yielded as a
            text. Without "$" all data must be JSON.

    >>> list(read_events('data: In\\n\\ndata: [1].\\n\\n: hi\\ndata: {"a":\\ndata: 1}', sse=True, delta="$"))
    ['In', '[1].', {'a': 1}]

    Raises:
        DataError: an event is not JSON (or is null) where it must be, or is called "error".
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
        yield _event_of(data, may_be_text=delta == "$")


def _event_of(data: str, *, may_be_text: bool) -> Any:
    """Return the JSON value in the data of an event.

    If the data `may_be_text`, it is JSON only if it is an object, a string, or a list that begins with
    one of them. Any other data is a piece of an answer and returned as it is, also if it happens to be
    JSON: "[1]", "1881", "true".

    Raises:
        DataError: the data must be JSON, and is not, or is null.
    """
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(data)
    if may_be_text:
        first = value[0] if isinstance(value, list) and value else value
        is_json = isinstance(first, str | Mapping)
        return value if is_json else data
    if value is None:
        hint = 'if it is a piece of the answer as it is, write delta = "$"'
        raise DataError(f"an event of the stream is not JSON: {abridged(data, 120)}; {hint}")
    return value


def _server_sent(text: str) -> Iterator[tuple[str, str]]:
    """Yield (type, data) of each server-sent event that has data. The type is "" if it names none.

    An event is a block of lines "field: value", which ends at a blank line or the end of the stream.
    The values of several lines "data: ..." are joined by line breaks.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for block in text.split("\n\n"):
        values_of: dict[str, list[str]] = {}  # by field
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            values_of.setdefault(field, []).append(value.removeprefix(" "))
        data = values_of.get("data", [])
        if any(data):
            event_type = values_of.get("event", [""])[0]
            yield event_type, "\n".join(data)


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

    def read(self, query_id: str, ask: Callable[[], SystemReply]) -> Answer:
        """Call `ask`, which sends the question and returns the reply, and return the answer in it.

        The answer has failed if `ask` raises or the reply cannot be read. Secrets, such as keys, are
        removed from its error.
        """
        try:
            reply = ask()
            record = reply.record(cast(ReplyPaths, self.reply), self.delta)
            answer = read_answer(query_id, record, model=self.name)
        except InterruptedError:
            return failed(query_id, f"{self.name} was closed")
        except (RagbenchError, RecursionError) as exc:
            reason = str(exc).removeprefix(f"{self.name}: ")
            error = scrubbed(f"{self.name}: {reason}", self.secrets)
            is_unreadable = isinstance(exc, DataError | RecursionError)
            default_failure = FailureKind.UNREADABLE if is_unreadable else FailureKind.ERROR
            return failed(query_id, error, getattr(exc, "failure", None) or default_failure)
        if answer.error is not None:
            answer = replace(answer, error=scrubbed(answer.error, self.secrets))
        return replace(answer, latency_ms={**reply.latency_ms, **answer.latency_ms})
