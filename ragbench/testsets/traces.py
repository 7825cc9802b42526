"""Traces of runs as records of a system: in which attributes each tracer has questions, answers,
searches, latencies and tokens, and which kinds of spans are which stage.

These exports are read: OTLP as JSON (one object, or one on each line), with the attributes of
OpenInference (Phoenix) or of OpenTelemetry's conventions for generative AI; spans as Phoenix exports
them; traces of Langfuse with their observations; runs of LangSmith. A trace is one question: the
input of its root span (a span without a parent) is the question, the output the answer. A retrieval
is a ranked list with scores; durations add up by stage, tokens over all requests to models.

The tables here are the only place that knows the names of fields of each tool.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from ragbench.errors import DataError
from ragbench.groups import grouped
from ragbench.testsets.fields import (
    CONTEXTS,
    QUESTIONS,
    REPLIES,
    RETRIEVED,
    first,
    read_cell,
    without_none,
)

_FIELDS = {
    "trace": "traceId trace_id context.trace_id",
    "id": "spanId span_id context.span_id id",
    "parent": "parentSpanId parent_id parentObservationId parent_run_id parent",
    "kind": "openinference.span.kind span_kind run_type gen_ai.operation.name type",
    "start": "startTimeUnixNano start_time startTime timestamp",
    "end": "endTimeUnixNano end_time endTime",
    "input": "input.value inputs input gen_ai.input.messages gen_ai.retrieval.query.text",
    "output": "output.value outputs output gen_ai.output.messages gen_ai.retrieval.documents",
    "query_id": "ragbench.query_id metadata.query_id extra.metadata.query_id",
    "answer": "ragbench.answer",
    "name": "tool.name gen_ai.tool.name name",
    "model": "llm.model_name gen_ai.response.model gen_ai.request.model model extra.metadata.ls_model_name",
    "input_tokens": "llm.token_count.prompt gen_ai.usage.input_tokens usageDetails.input usage.input prompt_tokens",
    "output_tokens": "llm.token_count.completion gen_ai.usage.output_tokens usageDetails.output usage.output "
    "completion_tokens",
    "status": "status.code status_code level",
    "error": "error status.message status_message statusMessage exception.message",
}
"""Part of a span -> the paths of the fields that may hold it; the first existing one counts."""

_STAGES = {
    "search": "retriever retrieval",
    "rerank": "reranker",
    "generate": "llm generation chat text_completion",
    "tool": "tool execute_tool",
}
"""Stage -> the kinds of spans that belong to it."""
_FAILED = ("2", "ERROR", "STATUS_CODE_ERROR")
"""The status of a span that failed."""
_DOCUMENT = re.compile(r"(?:retrieval\.d|reranker\.output_d)ocuments\.(\d+)\.document\.(\w+)")
_INSIDE = "messages message content parts text kwargs".split()
"""Fields of messages that lead to their texts."""
_QUESTION = (*QUESTIONS, *_INSIDE)
_ANSWER = ("answer", *REPLIES, *"output result replies generations choices".split(), *_INSIDE)
_NOT_ASKED = {"assistant", "ai", "system", "tool"}
"""Roles whose messages are no question."""
_NOT_ANSWERED = {"user", "human", "system", "tool"}
"""Roles whose messages are no answer."""

_Span = dict[str, Any]


def trace_records(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a record for each trace with a question, as `read_answer` and test sets read them.

    >>> search = {"id": "2", "trace_id": "1", "parent_run_id": "1", "run_type": "retriever",
    ...           "start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:01",
    ...           "outputs": {"documents": [{"page_content": "It opened."}]}}
    >>> root = {"id": "1", "trace_id": "1", "run_type": "chain", "inputs": {"question": "When?"},
    ...         "outputs": {"output": "1881"}}
    >>> [record] = trace_records([root, search])
    >>> record["query"], record["response"], record["latency_ms"]
    ('When?', '1881', {'search': 1000.0})
    >>> record["calls"]
    [{'name': '', 'query': '', 'contexts': [{'page_content': 'It opened.'}]}]

    Raises:
        DataError: a span has another form.
    """
    # parsed lazily, so that errors are raised inside `try`
    spans = (_span_of_fields(fields) for row in rows for fields in _spans_in_row(row))
    try:
        for trace in grouped(spans, lambda span: span["trace"] or span["id"]).values():
            record = _record_of_trace(sorted(trace, key=lambda span: _nanoseconds(span["start"])))
            if record["query"]:
                yield without_none(record)
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise DataError(f"not a trace that can be read ({type(exc).__name__}: {exc})") from exc


def _spans_in_row(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield each span (one step of a system) in a row of an export.

    A row of OTLP, the format of OpenTelemetry, is a batch of spans, whose attributes become a
    mapping. Any other row is a span itself, and may have others nested in it.
    """
    if "resourceSpans" in row:  # OTLP: a batch of spans, grouped by service and library
        for resource in row["resourceSpans"]:
            for scope in resource.get("scopeSpans", ()):
                for span in scope.get("spans", ()):
                    yield {**span, "attributes": _attributes(span)}
        return
    yield row
    for children in (row.get("observations"), row.get("child_runs")):
        for child in children or ():
            yield from _spans_in_row(child)


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an OTLP span as key -> value.

    The span has a list of them: {"key": "k", "value": {"intValue": 5}} -> {"k": 5}.
    """
    attributes = {}
    for attribute in span.get("attributes", ()):
        for value in attribute["value"].values():
            attributes[attribute["key"]] = value
    return attributes


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) for a value, and for everything inside it; `path` is the path of `value`.

    The prefix "attributes." is left out of paths.

    >>> list(_paths({"input": {"value": "Why?"}}))[1:]
    [('input', {'value': 'Why?'}), ('input.value', 'Why?')]
    """
    yield path.removeprefix("attributes."), value
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, list):
        entries = enumerate(value)
    elif isinstance(value, Mapping):
        entries = value.items()
    for key, entry in entries:
        yield from _paths(entry, f"{path}.{key}" if path else str(key))


def _span_of_fields(fields: Mapping[str, Any]) -> _Span:
    """Return a span of a trace (one step of the system) from its fields in the export.

    The span has the parts of `_FIELDS`, "" for a missing part; its "stage", such as "search" or
    "generate", "" for any other step; and its "documents", [] for none.
    """
    value_at = {}  # path such as "input.value" -> value
    for path, value in _paths(fields):
        if value not in (None, ""):
            # a text may be JSON: then its value
            value_at[path] = read_cell(value) if isinstance(value, str) else value
    span: _Span = {}
    for part, paths in _FIELDS.items():
        span[part] = first(value_at, paths.split(), "")
    span["stage"] = _stage_of(str(span["kind"]).lower())
    span["documents"] = _numbered_documents(value_at) or _listed_documents(span)
    return span


def _stage_of(kind: str) -> str:
    """Return the stage of a kind of span: "search" for "retriever"; "" for an unknown kind."""
    for stage, kinds in _STAGES.items():
        if kind in kinds.split():
            return stage
    return ""


def _numbered_documents(value_at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documents in attributes such as "retrieval.documents.0.document.content", each as
    {"content": ...}; `value_at` is path -> value.
    """
    documents: dict[str, dict[str, Any]] = {}
    for path, value in value_at.items():
        if match := _DOCUMENT.fullmatch(path):
            number, field = match.groups()
            documents.setdefault(number, {})[field] = value
    return list(documents.values())


def _listed_documents(span: _Span) -> list[Any]:
    """Return the list of documents in the output of a span; [] if it has none. The output of a search
    or another stage may be the list itself.
    """
    output = span["output"]
    if isinstance(output, list):
        # a span without a stage may have a list of anything
        return output if span["stage"] else []
    if isinstance(output, Mapping):
        for name in (*CONTEXTS, *RETRIEVED, "documents", "source_documents"):
            documents = output.get(name)
            if isinstance(documents, list):
                return documents
    return []


def _text_in(value: Any, names: Sequence[str], other_roles: set[str]) -> str:
    """Return the text inside a value, such as a question inside an input; "" if it has none.

    A text is returned as it is. Of an object, it is the text in the first of the fields `names` that
    has one. Of a list of messages, it is the text of the last message whose role is not in
    `other_roles`: of a conversation, the last question or the last answer.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        for message in reversed(value):
            roles: set[Any] = set()
            if isinstance(message, dict):
                roles = {message.get("role"), message.get("type")}
            if roles.isdisjoint(other_roles):
                return _text_in(message, names, other_roles)
    if isinstance(value, Mapping):
        for name in names:
            text = _text_in(value.get(name), names, other_roles)
            if text:
                return text
    return ""


def _nanoseconds(time: Any) -> int:
    """Return a time in nanoseconds, from a number of them or ISO 8601; 0 for a missing time."""
    if not time or str(time).isdecimal():
        return int(time or 0)
    return round(datetime.fromisoformat(time).timestamp() * 1e9)


def _record_of_trace(spans: Sequence[_Span]) -> dict[str, Any]:
    """Return the record of one question from the spans of its trace, in the order of their start.

    The question is the input of the root span, the first one whose parent is not in the trace. The
    answer is the output of the root, else of the last request to a model that has one. The contexts
    are the documents of the last reranker, else of all searches, else of the root.
    """
    stage_of = {span["id"]: span["stage"] for span in spans}
    root = next((span for span in spans if span["parent"] not in stage_of), spans[0])
    # stage -> its spans, in the order of their start
    by_stage = grouped(spans, lambda span: span["stage"])
    model_requests = by_stage.get("generate", [])
    outputs = [span["output"] for span in (root, *reversed(model_requests))]
    # the texts that are answers by the name of their field, and by the role of their message
    answers = [_text_in(output, _ANSWER, _NOT_ANSWERED) for output in outputs]
    answer = next(filter(None, answers), "")  # the first that is not empty
    last_reranker = by_stage.get("rerank", [])[-1:]
    with_contexts = last_reranker or by_stage.get("search") or [root]
    contexts = list(chain.from_iterable(span["documents"] for span in with_contexts))
    # An empty `text` is read as an empty answer, an empty `response` as none at all.
    answer_field = "response" if answer else "text"
    whole_answer = root["answer"] or {}  # all fields of the answer, if ragbench wrote the trace
    return {
        "query_id": root["query_id"] or None,
        "query": _text_in(root["input"], _QUESTION, _NOT_ASKED),
        answer_field: answer,
        "retrieved_contexts": contexts,
        "latency_ms": _latencies(spans, root, stage_of),
        "usage": _usage(model_requests),
        "error": _error(root),
        "calls": [_call(span) for span in spans if span["stage"] in ("search", "tool")],
        **whole_answer,
    }


def _usage(model_requests: Sequence[_Span]) -> dict[str, Any] | None:
    """Return the model of the last request in a trace, and the tokens of all requests; None without a
    request.
    """
    if not model_requests:
        return None
    return {
        "model": model_requests[-1]["model"],
        "input_tokens": sum(int(span["input_tokens"] or 0) for span in model_requests),
        "output_tokens": sum(int(span["output_tokens"] or 0) for span in model_requests),
    }


def _error(root: _Span) -> Any:
    """Return the error of a trace by its root span; None if it succeeded."""
    if root["error"]:
        return root["error"]
    return "the trace reports a failure" if str(root["status"]) in _FAILED else None


def _latencies(
    spans: Iterable[_Span], root: _Span, stage_of: Mapping[str, str]
) -> dict[str, float]:
    """Return the milliseconds of each stage, and of the root span as "total".

    Spans without a stage or without an end are left out, and so is a span whose parent is of the same
    stage, because its time is part of the parent's. `stage_of` is id of a span -> its stage.
    """
    latencies: dict[str, float] = {}
    for span in spans:
        stage = "total" if span is root else span["stage"]
        is_inside = stage_of.get(span["parent"]) == stage
        if not stage or not span["end"] or is_inside:
            continue
        nanoseconds = _nanoseconds(span["end"]) - _nanoseconds(span["start"])
        latencies[stage] = latencies.get(stage, 0.0) + nanoseconds / 1e6
    return latencies


def _call(span: _Span) -> dict[str, Any]:
    """Return the span of a search or tool as a call in a record: its name, its query, and the documents
    that it found (none for a tool).
    """
    return {
        "name": span["name"],
        "query": _text_in(span["input"], _QUESTION, _NOT_ASKED) or str(span["input"]),
        "contexts": span["documents"] if span["stage"] == "search" else [],
    }
