"""A result as traces: a line of OTLP's JSON for each question, with the attributes of OpenInference.

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
from typing import Any

from ragbench.evaluation import Result
from ragbench.metrics.system_outcomes import by_stage
from ragbench.types import Answer, Passage

_REST = ("citations", "flags", "outcome", "confidence", "latency_ms", "usage", "error")
_TYPES = {int: "intValue", float: "doubleValue"}

_Part = tuple[str, int, int, str, dict[str, Any]]  # kind, beginning, end, output, attributes


def report_traces(result: Result) -> str:
    """Write the trace of every answer, a line each: a span CHAIN with the question and the answer,
    in it RETRIEVER with the contexts and, where a language model wrote the answer, LLM. The service
    is the result.
    """
    chunks = result.output.texts if result.output else ()
    texts = {each.chunk_id: Passage(each.chunk_id, each.text, each.doc_id) for each in chunks}
    begin = datetime.fromisoformat(result.made_at).timestamp() if result.made_at else 0.0
    lines = []
    for answer in result.answers:
        digest = hashlib.sha256(f"{result.name} {answer.query_id}".encode()).hexdigest()
        spans: list[dict[str, Any]] = []
        for kind, start, end, output, attributes in _parts(answer, texts, round(begin * 1e9)):
            values = {
                "openinference.span.kind": kind,
                "input.value": result.queries.get(answer.query_id, ""),
                "output.value": output,
                **attributes,
            }
            spans.append(
                {
                    "traceId": digest[:32],
                    "spanId": f"{digest[32:47]}{len(spans)}",
                    "parentSpanId": f"{digest[32:47]}0" if spans else "",
                    "name": kind.lower(),
                    "startTimeUnixNano": str(start),
                    "endTimeUnixNano": str(end),
                    "attributes": [
                        {"key": key, "value": {_TYPES.get(type(value), "stringValue"): value}}
                        for key, value in values.items()
                        if value not in (None, "")
                    ],
                    "status": {"code": 2, "message": answer.error} if answer.failed else {},
                }
            )
        service = {"key": "service.name", "value": {"stringValue": result.name}}
        resource_spans = {
            "resource": {"attributes": [service]},
            "scopeSpans": [{"scope": {"name": "ragbench"}, "spans": spans}],
        }
        lines.append(json.dumps({"resourceSpans": [resource_spans]}) + "\n")
    return "".join(lines)


def _parts(answer: Answer, texts: Mapping[str, Passage], begin: int) -> list[_Part]:
    """Return the spans of an answer's trace: the whole (CHAIN), the search (RETRIEVER) and, if a
    language model was asked, its request (LLM).

    Args:
        texts: chunk id -> its passage; passages that the answer holds replace them.
        begin: nanoseconds since 1970, as are the times in the spans.
    """
    durations = {name: max(1, round(ms * 1e6)) for name, ms in by_stage(answer.latency_ms).items()}
    searched = begin + durations.get("retrieve", 1)
    replied = searched + durations.get("generate", 1)
    rest = {name: value for name, value in asdict(answer).items() if name in _REST and value}
    root = {"ragbench.query_id": answer.query_id, "ragbench.answer": json.dumps(rest)}
    passages = {**texts, **answer.passage_of}
    search: dict[str, Any] = {}
    for rank, context in enumerate(answer.contexts):
        passage = passages.get(context, Passage(context, ""))
        path = f"retrieval.documents.{rank}.document"
        search |= {f"{path}.id": context, f"{path}.content": passage.text}
        search |= {f"{path}.score": passage.score, f"{path}.doc_id": passage.doc_id}
    end = max(replied, begin + durations.get("total", 1))
    parts = [
        ("CHAIN", begin, end, answer.text, root),
        ("RETRIEVER", begin, searched, "", search),
    ]
    if usage := answer.usage:
        tokens = {"prompt": usage.input_tokens, "completion": usage.output_tokens}
        model: dict[str, Any] = {
            f"llm.token_count.{name}": number for name, number in tokens.items()
        }
        model["llm.model_name"] = usage.model
        parts.append(("LLM", searched, replied, usage.text, model))
    return parts
