"""Where the parts of an answer are in a system's JSON, given by JSONPath; streams of JSON; requests from templates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragbench.errors import ConfigError, DataError, FailureKind
from ragbench.systems.answer_parser import read_answer, well_formed
from ragbench.systems.function import failed
from ragbench.systems.shapes import as_record
from ragbench.text import without_surrogates
from ragbench.types import Answer

_MAX_PATH = 300
_USAGE = ("model", "input_tokens", "output_tokens")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@lru_cache(maxsize=256)
def _compiled(path: str) -> Any:
    from jsonpath_ng.ext.parser import parse

    return parse(path)


def check_path(path: str) -> str:
    """ValueError for what is not a JSONPath, or whose search no time-out would end; "" (no path) is valid."""
    if path.count("..") > 1 or "=~" in path or "`sub(" in path or len(path) > _MAX_PATH:
        raise ValueError(
            "expected a JSONPath that is searched in one pass: at most one '..', no regular expression (=~ and `sub`), "
            f"{_MAX_PATH} characters"
        )
    if path:
        try:
            _compiled(path)
        except Exception as exc:  # the parser has no error class of its own
            raise ValueError(f"expected a JSONPath such as '$.answer' or '$.sources[*]' ({exc})") from None
    return path


JsonPath = Annotated[str, AfterValidator(check_path)]
"""A JSONPath, or "" for none."""


class ContextPaths(BaseModel):
    """Where the parts of one context are, inside it; each may be left out where the names are the usual ones."""

    model_config = ConfigDict(extra="forbid")
    id: JsonPath = ""
    text: JsonPath = ""
    score: JsonPath = ""
    doc_id: JsonPath = ""


class ReplyPaths(BaseModel):
    """Where the parts of an answer are in a reply: what has no path is not read.

    Without any path the reply is read by the usual names (`read_answer`). Without `contexts` the paths of `context` are
    lists in the reply, in parallel: {"id": "$.ids[0]", "text": "$.documents[0]"}. An answer that carries one of
    `failed_flags` has failed, even if it has a text: that is how systems report that they fell back on something else.
    """

    model_config = ConfigDict(extra="forbid")
    answer: JsonPath = ""
    contexts: JsonPath = ""
    context: ContextPaths = Field(default_factory=ContextPaths)
    citations: JsonPath = ""
    flags: JsonPath = ""
    outcome: JsonPath = ""
    confidence: JsonPath = ""
    model: JsonPath = ""
    input_tokens: JsonPath = ""
    output_tokens: JsonPath = ""
    latency_ms: JsonPath = ""
    error: JsonPath = ""
    failed_flags: list[str] = []

    def columns(self) -> dict[str, str]:
        """The paths of lists in parallel."""
        return {} if self.contexts else {part: path for part, path in self.context if path}


def to_record(reply: Any, paths: ReplyPaths) -> dict[str, Any]:
    """What `read_answer` reads, from a reply and the paths of its parts.

    A path that finds a list gives its entries, so "$.sources" and "$.sources[*]" are the same. A flag that is true or
    false in the reply is called by its name. An answer that is not where it should be is a DataError.

    >>> paths = ReplyPaths(answer="$.data.text", contexts="$.data.hits", context={"text": "body"}, flags="$.weak")
    >>> to_record({"data": {"text": "Yes.", "hits": [{"id": 7, "body": "So."}]}, "weak": True}, paths)
    {'answer': 'Yes.', 'contexts': [{'id': 7, 'body': 'So.', 'text': 'So.'}], 'flags': ['weak']}
    """
    if paths.model_copy(update={"failed_flags": []}) == ReplyPaths():
        if isinstance(reply, Mapping):
            return dict(reply)
        raise DataError(f"the reply is {_shown(reply)}; expected an object, or paths that say what it holds")
    record: dict[str, Any] = {}
    if paths.answer:
        found = _all(reply, paths.answer)
        if not found and not (paths.error and _all(reply, paths.error)):
            raise DataError(f"the reply has nothing at answer = {paths.answer!r}; it is {_shown(reply)}")
        record["answer"] = found[0] if len(found) == 1 else "".join(map(str, found))
    if paths.contexts:
        record["contexts"] = [_context(entry, paths.context) for entry in entries(reply, paths.contexts)]
    elif columns := {part: entries(reply, path) for part, path in paths.columns().items()}:
        if len(set(map(len, columns.values()))) > 1:
            lengths = ", ".join(f"{len(column)} at context.{part}" for part, column in columns.items())
            raise DataError(f"the lists in parallel differ in length: {lengths}")
        record["contexts"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if paths.citations:
        record["citations"] = [_cited(entry, paths.context) for entry in entries(reply, paths.citations)]
    if paths.flags:
        record["flags"] = _flags(reply, paths.flags)
        if wrong := [flag for flag in record["flags"] if flag in paths.failed_flags]:
            record["error"] = f"the system flags its answer as {wrong[0]!r}"
    for name in ("error", "outcome", "confidence", "latency_ms", *_USAGE):
        path = getattr(paths, name)
        if path and (found := _all(reply, path)):
            record[name] = found[0]
    if usage := {name: record.pop(name) for name in _USAGE if name in record}:
        record["usage"] = usage
    return record


def contexts_in(reply: Any, paths: ReplyPaths) -> list[Any]:
    """The contexts of one reply, where their path is given."""
    found: list[Any] = to_record(reply, ReplyPaths(contexts=paths.contexts, context=paths.context))["contexts"]
    return found


def read_reply(reply: Any, paths: ReplyPaths) -> Mapping[str, Any]:
    """`to_record` of a whole reply, which without any path may also be a text (the answer) or a list (contexts).

    >>> read_reply(["It opened in 1881."], ReplyPaths())["contexts"], read_reply("In 1881.", ReplyPaths())
    (['It opened in 1881.'], {'answer': 'In 1881.'})
    """
    shaped = as_record(reply) if isinstance(reply, str | list) and paths == ReplyPaths() else None
    return to_record(reply, paths) if shaped is None else shaped


class Replies(NamedTuple):
    """What a system replied to one question: one JSON, the events of a stream, or the replies to several requests."""

    found: list[Any]
    streamed: bool = False
    pages: int | None = None

    def record(self, paths: ReplyPaths, delta: str = "") -> Mapping[str, Any]:
        """What `read_answer` reads; DataError where there is no answer."""
        if len(self.found) == 1 and not self.streamed and self.pages is None:
            return read_reply(self.found[0], paths)
        return join_events(self.found, paths, delta, self.pages)


def saved_value(replies: Sequence[Any], path: str) -> Any:
    """The value at a path of the last reply that has it, a list where the path has several; None where none has it.

    >>> replies = [{"hits": [{"id": 7}], "none": [], "job": "a"}, {}]
    >>> saved_value(replies, "$.job"), saved_value(replies, "$.hits[*].id"), saved_value(replies, "$.none[*].id")
    ('a', [7], [])
    """
    several = re.search(r"\[\*\]|\[\?|\.\.", path)
    for reply in reversed(replies):
        if found := _all(reply, path):
            return well_formed(found if several else found[0])
        if several and (several.start() > 1) and _compiled(path[: several.start()]).find(reply):
            return []
    return None


def sse_data(text: str) -> Iterator[tuple[str, str]]:
    """The type and the data of each server-sent event that has data, as `httpx-sse` reads them.

    An event that the end of the stream cuts off, before its blank line, is given too.

    >>> list(sse_data(": hi\\ndata: one\\ndata: two\\n\\nevent: end\\ndata: x\\n\\n"))
    [('message', 'one\\ntwo'), ('end', 'x')]
    """
    import httpx
    from httpx_sse import EventSource

    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    content = (text.removeprefix("\ufeff") + "\n\n").encode()
    for event in EventSource(httpx.Response(200, headers=headers, content=content)).iter_sse():
        if event.data:
            yield event.event, event.data


def join_events(replies: Sequence[Any], paths: ReplyPaths, delta: str, pages: int | None = None) -> dict[str, Any]:
    """One record of all events: the pieces at `delta` joined, everything else from the last event that has it.

    The same for the replies to several requests. Of the last of them that many may be pages: the contexts are theirs,
    one after the other.

    Raises:
        DataError: there is no event, or none has an answer.

    >>> events = 'data: {"t": "In "}\\n\\ndata: {"t": "1881."}\\n\\ndata: {"sources": ["It opened."]}\\n\\ndata: [DONE]'
    >>> join_events(list(json_events(events, True)), ReplyPaths(contexts="$.sources"), "$.t")
    {'contexts': ['It opened.'], 'answer': 'In 1881.'}
    """
    if not replies:
        raise DataError("the stream ended before any event came")
    record: dict[str, Any] = {} if pages is None else {"contexts": []}
    pieces: list[str] = []
    for number, reply in enumerate(replies, (pages or 0) - len(replies)):
        try:
            found = to_record(reply, paths)
        except DataError:  # an event without the answer: most are
            found = to_record(reply, paths.model_copy(update={"answer": "", "error": paths.error or "$.error"}))
        pieces += [piece for piece in _all(reply, delta) if isinstance(piece, str)] if delta else []
        if pages is not None and (own := found.pop("contexts", [])) and number >= 0:
            record["contexts"] += own
        record.update({key: value for key, value in found.items() if value not in ([], {}, None)})
    if pieces:
        record["answer"] = "".join(pieces)
    if not {"answer", "text", "response", "contexts", "error"} & record.keys():
        where = f"delta = {delta!r}" if delta else f"answer = {paths.answer!r}" if paths.answer else "'answer'"
        raise DataError(f"none of {len(replies)} events has an answer at {where}; the last is {_shown(replies[-1])}")
    return record


def json_events(text: str, sse: bool, *, delta: str = "", events_by: str = "") -> Iterator[Any]:
    """The parsed data of each event up to "[DONE]"; with `events_by` (see `HttpSystem`) as {name: data}.

    Where `delta` is the whole data, data that is neither an object nor a JSON string is a piece of text as it is.

    >>> list(json_events("data: In\\n\\ndata: [1].\\n\\n", True, delta="$"))
    ['In', '[1].']
    >>> list(json_events('event: hits\\ndata: [{"id": 7}]\\n\\n', True, events_by="event"))
    [{'hits': [{'id': 7}]}]

    Raises:
        DataError: an event is not JSON, or is called "error".
    """
    events = sse_data(text) if sse else (("message", line) for line in text.split("\n") if line.strip())
    for event, data in events:
        if data.strip() == "[DONE]":
            return
        if event == "error":
            raise DataError(f"the stream reports: {_cut(data)}")
        name = event if events_by == "event" else ""
        is_text = delta in ("$", f"$.{name}", f"$['{name}']")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            if not (is_text or name):
                shown = f'{_cut(data)}; if it is a piece of the answer as it is, write delta = "$"'
                raise DataError(f"an event of the stream is not JSON: {shown}") from None
            found = data
        found = data if is_text and not isinstance(found, str | Mapping) else found
        named = [name] if name else _all(found, events_by) if events_by not in ("", "event") else []
        yield {str(named[0]): found} if named else found


_MAY_NEVER_MATCH = ("error", "flags", "failed_flags")  # a system that always works sends neither
_ENOUGH = 10  # replies with an answer in which contexts must have been found


class PathMatches:
    """Which paths have matched in the replies of a run: one that never does is misspelt, not an empty result.

    `see` takes the parsed reply (or the events of one), `check` raises where a path has matched in no reply. Paths of
    answers and contexts are checked from 10 replies that gave an answer, the others when the run has ended. Threads
    may share it.
    """

    def __init__(self, name: str, paths: ReplyPaths) -> None:
        self._name, self._paths = name, paths
        parts = {f"context.{part}": path for part, path in paths.context}
        named = {part: path for part, path in paths if part not in ("context", *_MAY_NEVER_MATCH)}
        self._unmatched = {part: path for part, path in {**named, **parts}.items() if path}
        self._answered = 0
        self._keys: dict[str, list[str]] = {}  # of the first reply and of the first context

    def see(self, replies: Sequence[Any]) -> None:
        """Note what matches in one reply, given as its events (a plain reply is one)."""
        self._keys.setdefault("the first", list(dict.fromkeys(key for reply in replies for key in keys_of(reply))))
        for part, path in list(self._unmatched.items()):
            places = replies
            if self._inside(part):
                found = [entry for reply in replies for entry in entries(reply, self._paths.contexts)]
                places = [entry for entry in found if isinstance(entry, Mapping)]
                if places:
                    self._keys.setdefault("the first context", keys_of(places[0]))
            # "$.sources[*]" matches nothing in an empty list, which is there all the same
            if any(_compiled(path.removesuffix("[*]")).find(place) for place in places):
                self._unmatched.pop(part, None)

    def _inside(self, part: str) -> bool:
        """Whether a path is searched in each context."""
        return part.startswith("context.") and bool(self._paths.contexts)

    def read(self, query_id: str, record: Callable[[], Mapping[str, Any]]) -> Answer:
        """The answer in a record; a failed one where there is none, or it cannot be read."""
        try:
            answer = read_answer(query_id, record(), model=self._name)
        except (DataError, RecursionError) as exc:
            self._answered += 1
            return failed(query_id, f"{self._name}: {exc}", FailureKind.UNREADABLE)
        self._answered += not answer.failed and not answer.abstained  # one that abstains may lack anything
        return answer

    def check(self, *, ended: bool) -> None:
        """Raise ConfigError for a path that has matched in no reply."""
        if not self._answered or not (ended or self._answered >= _ENOUGH):
            return
        for part, path in list(self._unmatched.items()):
            what = "the first context" if self._inside(part) else "the first"
            if what not in self._keys or not (ended or part.startswith(("answer", "context"))):
                continue
            raise ConfigError(
                f"{self._name}: {part} = {path!r} matches nothing in any of {self._answered} replies; {what} has the "
                f"keys {', '.join(self._keys[what][:20]) or 'none'}; correct the path, or leave it out"
            )


def keys_of(value: Any, depth: int = 3) -> list[str]:
    """The keys of an object and of the objects inside it, as "output.answer"."""
    found = []
    for key, entry in value.items() if isinstance(value, Mapping) else ():
        inner = keys_of(entry, depth - 1) if depth > 1 else []
        found += [f"{key}.{one}" for one in inner] or [str(key)]
    return found


def _context(entry: Any, paths: ContextPaths) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    named = {name: path for name in ContextPaths.model_fields if (path := getattr(paths, name))}
    found = {name: values[0] for name, path in named.items() if (values := _all(entry, path))}
    return {**{key: value for key, value in entry.items() if key not in named}, **found} if named else entry


def _cited(entry: Any, paths: ContextPaths) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    context = _context(entry, paths)
    names = ("id", "_id", "chunk_id", "passage_id", "doc_id", "number")
    return next((context[name] for name in names if context.get(name) is not None), _shown(entry))


def _flags(reply: Any, path: str) -> list[str]:
    flags = []
    for match in _compiled(path).find(reply):
        if isinstance(match.value, bool):
            flags += [str(match.path)] if match.value else []
        else:
            flags += [str(entry) for entry in (match.value if isinstance(match.value, list) else [match.value])]
    return flags


def _all(value: Any, path: str) -> list[Any]:
    return [match.value for match in _compiled(path).find(value) if match.value is not None]


def entries(value: Any, path: str) -> list[Any]:
    """What is at a path; where that is one list, its entries.

    >>> entries({"ids": [3, 4]}, "$.ids"), entries([{"id": 3}], "$[*].id"), entries({}, "$.ids")
    ([3, 4], [3], [])
    """
    found = _all(value, path)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


def _shown(value: Any) -> str:
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:120]}..."


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with the values in the places of their names in braces; the structure is never touched.

    Values are put into texts as they are, and cannot break out of them; a text that is nothing but a name becomes the
    value itself, and a list in a longer text its entries with commas; a field whose value is `...` is left out. Braces
    around anything else are left alone.

    >>> filled({"q": "{query}", "text": "Q: {query}", "k": 5}, {"query": 'a "quote" {k}'})
    {'q': 'a "quote" {k}', 'text': 'Q: a "quote" {k}', 'k': 5}
    """
    if isinstance(template, str):
        alone = _PLACEHOLDER.fullmatch(template)
        if alone and alone[1] in values:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda match: in_text(values.get(match[1], match[0])), template)
    if isinstance(template, Mapping):
        made = {key: filled(value, values) for key, value in template.items()}
        return {key: value for key, value in made.items() if value is not ...}
    if isinstance(template, Sequence):
        return [filled(value, values) for value in template]
    return template


def question_values(query_id: str, query: str, user_roles: Sequence[str]) -> dict[str, Any]:
    """What a request's template can hold of a question.

    >>> values = question_values("q1", "Why?", ["admin", "hr"])
    >>> filled({"q": "{query}", "roles": "{user_roles}", "note": "for {user_roles}"}, values)
    {'q': 'Why?', 'roles': ['admin', 'hr'], 'note': 'for admin,hr'}
    """
    return {"query": without_surrogates(query), "query_id": query_id, "user_roles": list(user_roles)}


def in_text(value: Any) -> str:
    """A value inside a longer text: a list as its entries with commas, true and objects as JSON."""
    if value is ...:
        return ""
    if isinstance(value, list):
        return ",".join(map(in_text, value))
    return json.dumps(value) if isinstance(value, bool | Mapping) else str(value)


def names_in(template: Any) -> set[str]:
    """The names in braces of a template.

    >>> sorted(names_in({"q": "{query}", "filter": ["{tenant} or {k}", 5]}))
    ['k', 'query', 'tenant']
    """
    if isinstance(template, str):
        return set(_PLACEHOLDER.findall(template))
    parts = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return set().union(*map(names_in, parts))
