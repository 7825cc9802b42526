"""Traces of runs as records of a system: its questions, answers, searches, latencies and tokens.

Read are OTLP as JSON (one object, or one on each line), with the attributes of OpenInference
(Phoenix) or of OpenTelemetry's conventions for generative AI; spans as Phoenix gives them; traces
of Langfuse with their observations; runs of LangSmith. A trace is one question: that of its first
span. Of a span without a parent the input is the question and the output the answer; a retrieval is
a ranked list with scores; durations add up by stage, tokens over all requests to models.

The names of fields are tables here; nothing else knows who wrote a trace.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ragbench.errors import DataError
from ragbench.testsets.fields import (
    CONTEXTS,
    QUESTIONS,
    REPLIES,
    RETRIEVED,
    first,
    read_cell,
    without_none,
)
from ragbench.types import grouped

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
"""Where the parts of a span are, inside it: the first that is there."""

_STAGES = {
    "search": "retriever retrieval",
    "rerank": "reranker",
    "generate": "llm generation chat text_completion",
    "tool": "tool execute_tool",
}
_FAILED = ("2", "ERROR", "STATUS_CODE_ERROR")
_DOCUMENT = re.compile(r"(?:retrieval\.d|reranker\.output_d)ocuments\.(\d+)\.document\.(\w+)")
_INSIDE = "messages message content parts text kwargs".split()
_QUESTION = (*QUESTIONS, *_INSIDE)
_ANSWER = ("answer", *REPLIES, *"output result replies generations choices".split(), *_INSIDE)
_NOT_ASKED = {"assistant", "ai", "system", "tool"}
_NOT_ANSWERED = {"user", "human", "system", "tool"}

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
    spans = (_span(fields) for row in rows for fields in _spans(row))
    try:
        for trace in grouped(spans, lambda span: span["trace"] or span["id"]).values():
            record = _record(sorted(trace, key=lambda span: _ns(span["start"])))
            if record["query"]:
                yield without_none(record)
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise DataError(f"not a trace that can be read ({type(exc).__name__}: {exc})") from exc


def _spans(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield each span that a row of an export holds."""
    if "resourceSpans" not in row:
        yield row
    for child in (*(row.get("observations") or ()), *(row.get("child_runs") or ())):
        yield from _spans(child)
    spans = (
        span
        for resource in row.get("resourceSpans", ())
        for scope in resource.get("scopeSpans", ())
        for span in scope.get("spans", ())
    )
    for span in spans:
        attributes = span.get("attributes", ())
        values = {each["key"]: value for each in attributes for value in each["value"].values()}
        yield {**span, "attributes": values}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a value by its path, and everything inside it."""
    yield path.removeprefix("attributes."), value
    parts = value.items() if isinstance(value, Mapping) else ()
    for key, entry in enumerate(value) if isinstance(value, list) else parts:
        yield from _flat(entry, f"{path}.{key}" if path else str(key))


def _span(fields: Mapping[str, Any]) -> _Span:
    """Return a span under the names of `_FIELDS`, with its stage and the documents that it found."""
    flat = {
        path: read_cell(value) if isinstance(value, str) else value
        for path, value in _flat(fields)
        if value not in (None, "")
    }
    span: _Span = {part: first(flat, names.split(), "") for part, names in _FIELDS.items()}
    kind = str(span["kind"]).lower()
    span["stage"] = next((stage for stage, kinds in _STAGES.items() if kind in kinds.split()), "")
    documents: dict[str, dict[str, Any]] = {}
    for path, value in flat.items():
        if match := _DOCUMENT.fullmatch(path):
            documents.setdefault(match[1], {})[match[2]] = value
    output = span["output"]
    if not isinstance(output, Mapping):
        output = {"contexts": output} if span["stage"] else {}
    lists = (output.get(name) for name in (*CONTEXTS, *RETRIEVED, "documents", "source_documents"))
    listed = next((each for each in lists if isinstance(each, list)), [])
    return {**span, "documents": [*documents.values()] or listed}


def _text(value: Any, names: Sequence[str], others: set[str]) -> str:
    """Return the text under the first of these names, of messages the last not of other roles."""
    if isinstance(value, list):
        for entry in reversed(value):
            roles = {*map(entry.get, ("role", "type"))} if isinstance(entry, dict) else set()
            if not roles & others:
                return _text(entry, names, others)
    if isinstance(value, Mapping):
        texts = (_text(value[name], names, others) for name in names if name in value)
        return next(filter(None, texts), "")
    return value if isinstance(value, str) else ""


def _ns(time: Any) -> int:
    if not time or str(time).isdecimal():
        return int(time or 0)
    return round(datetime.fromisoformat(time).timestamp() * 1e9)


def _record(spans: Sequence[_Span]) -> dict[str, Any]:
    stage_of = {span["id"]: span["stage"] for span in spans}
    root = next((span for span in spans if span["parent"] not in stage_of), spans[0])
    latency: dict[str, float] = {}
    for span in spans:
        stage = "total" if span is root else span["stage"]
        if stage and span["end"] and stage_of.get(span["parent"]) != stage:
            took = (_ns(span["end"]) - _ns(span["start"])) / 1e6
            latency[stage] = latency.get(stage, 0.0) + took
    searches, models, ranked = (
        [span for span in spans if span["stage"] == stage]
        for stage in ("search", "generate", "rerank")
    )
    usage = {
        tokens: sum(int(span[tokens] or 0) for span in models)
        for tokens in ("input_tokens", "output_tokens")
    }
    texts = (_text(span["output"], _ANSWER, _NOT_ANSWERED) for span in (root, *models[::-1]))
    response = next(filter(None, texts), "")
    is_failed = root["error"] or str(root["status"]) in _FAILED
    return {
        "query_id": root["query_id"] or None,
        "query": _text(root["input"], _QUESTION, _NOT_ASKED),
        "response" if response else "text": response,
        "retrieved_contexts": [
            document for span in ranked[-1:] or searches or [root] for document in span["documents"]
        ],
        "latency_ms": latency,
        "usage": {"model": models[-1]["model"], **usage} if models else None,
        "error": (root["error"] or "the trace reports a failure") if is_failed else None,
        "calls": [
            {
                "name": span["name"],
                "query": _text(span["input"], _QUESTION, _NOT_ASKED) or str(span["input"]),
                "contexts": span["documents"] if span["stage"] == "search" else [],
            }
            for span in spans
            if span["stage"] in ("search", "tool")
        ],
        **(root["answer"] or {}),  # what ragbench wrote
    }
