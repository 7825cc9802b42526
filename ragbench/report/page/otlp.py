"""A result as traces: a line of OTLP's JSON for each question; its spans, their times, and the
attributes of OpenInference.

Collectors and Phoenix take such lines. ragbench reads them as recorded answers, which get the same
scores. (For ragbench's own pipeline, whose ranking is longer than the contexts of an answer, these
are the scores of the contexts.) A result holds how long things took, not when they began: a trace
begins when the result was made, the request to a model follows the search, and a step that was not
timed takes a nanosecond.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from ragbench.evaluation import Result
from ragbench.metrics.system_outcomes import by_stage
from ragbench.types import Answer, Passage

_REST = ("citations", "flags", "outcome", "confidence", "latency_ms", "usage", "error")
_TYPES = {int: "intValue", float: "doubleValue"}


class _Span(NamedTuple):
    """A step of an answer, as a trace shows it; times are nanoseconds since 1970."""

    kind: str
    start: int
    end: int
    output: str
    attributes: dict[str, Any]


def report_traces(result: Result) -> str:
    """Write the trace of every answer as a line of OTLP's JSON, the form of OpenTelemetry.

    A trace is a tree of spans (timed steps): CHAIN with the question and the answer; in it RETRIEVER
    with the contexts and, if a language model wrote the answer, LLM. The traced service has the name
    of the result.
    """
    chunks = result.output.texts if result.output else ()
    passage_of = {each.chunk_id: Passage(each.chunk_id, each.text, each.doc_id) for each in chunks}
    begin = datetime.fromisoformat(result.made_at).timestamp() if result.made_at else 0.0
    service = {"key": "service.name", "value": {"stringValue": result.name}}
    lines = []
    for answer in result.answers:
        question = result.queries.get(answer.query_id, "")
        status = {"code": 2, "message": answer.error} if answer.failed else {}
        # ids of the trace and its spans are made of it, so they are the same in each report
        digest = hashlib.sha256(f"{result.name} {answer.query_id}".encode()).hexdigest()
        spans = [
            _span_record(span, number, digest, question, status)
            for number, span in enumerate(_spans(answer, passage_of, round(begin * 1e9)))
        ]
        resource_spans = {
            "resource": {"attributes": [service]},
            "scopeSpans": [{"scope": {"name": "ragbench"}, "spans": spans}],
        }
        lines.append(json.dumps({"resourceSpans": [resource_spans]}) + "\n")
    return "".join(lines)


def _span_record(
    span: _Span, number: int, digest: str, question: str, status: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a span in the form of OTLP's JSON.

    Args:
        number: the position of the span in its trace; the others are children of span 0.
        digest: 64 hex digits, of which the ids are made. An id has 32 digits for a trace and 16 for
            a span, so `number` is below 10.
        status: code and message of an answer that failed; {} of others.
    """
    values = {
        "openinference.span.kind": span.kind,
        "input.value": question,
        "output.value": span.output,
        **span.attributes,
    }
    return {
        "traceId": digest[:32],
        "spanId": f"{digest[32:47]}{number}",
        "parentSpanId": f"{digest[32:47]}0" if number else "",
        "name": span.kind.lower(),
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": [
            {"key": key, "value": {_TYPES.get(type(value), "stringValue"): value}}
            for key, value in values.items()
            if value not in (None, "")
        ],
        "status": status,
    }


def _spans(answer: Answer, passage_of: Mapping[str, Passage], begin: int) -> list[_Span]:
    """Return the spans (timed steps) of an answer's trace.

    They are the whole (CHAIN), the search (RETRIEVER) and, if a language model was asked, its request
    (LLM), which follows the search. A step whose duration is unknown takes a nanosecond.

    Args:
        passage_of: chunk id -> passage, for chunks whose passage is not in the answer itself.
        begin: nanoseconds since 1970.
    """
    duration_of = {
        name: max(1, round(ms * 1e6)) for name, ms in by_stage(answer.latency_ms).items()
    }
    searched_at = begin + duration_of.get("retrieve", 1)
    replied_at = searched_at + duration_of.get("generate", 1)
    end = max(replied_at, begin + duration_of.get("total", 1))
    # the fields of an answer for which spans have no attribute
    rest = {name: value for name, value in asdict(answer).items() if name in _REST and value}
    whole = {"ragbench.query_id": answer.query_id, "ragbench.answer": json.dumps(rest)}
    all_passages = {**passage_of, **answer.passage_of}
    contexts = _attributes_of_contexts(answer, all_passages)
    spans = [
        _Span("CHAIN", begin, end, answer.text, whole),
        _Span("RETRIEVER", begin, searched_at, "", contexts),
    ]
    if usage := answer.usage:
        request = {
            "llm.token_count.prompt": usage.input_tokens,
            "llm.token_count.completion": usage.output_tokens,
            "llm.model_name": usage.model,
        }
        spans.append(_Span("LLM", searched_at, replied_at, usage.text, request))
    return spans


def _attributes_of_contexts(
    answer: Answer, passage_of: Mapping[str, Passage]
) -> dict[str, str | float | None]:
    """Return the attributes of the contexts of an answer, numbered from 0 by their ranks; a context
    without a passage has no text.
    """
    attributes: dict[str, str | float | None] = {}
    for rank, context_id in enumerate(answer.contexts):
        passage = passage_of.get(context_id, Passage(context_id, ""))
        prefix = f"retrieval.documents.{rank}.document"
        attributes |= {
            f"{prefix}.id": context_id,
            f"{prefix}.content": passage.text,
            f"{prefix}.score": passage.score,
            f"{prefix}.doc_id": passage.doc_id,
        }
    return attributes
