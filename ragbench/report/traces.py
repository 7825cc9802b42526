"""Results as OpenTelemetry traces, by the semantic conventions for generative AI (0.1.0, status
"Development").

A trace per question: `invoke_workflow <result>`, in it `retrieval <dataset>`, `chat <model>` and
other timed stages, one after another; then the requests to a judge. Each score is an event
`gen_ai.evaluation.result` of the first span.

A result holds how long things took, not when they began: questions are laid out one after another
so that the last one ends when the result was made, and a stage that was not timed has length 0.
Texts of questions, answers and judges, and what was retrieved, are left out unless asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ragbench.errors import ConfigError, SystemsError, require
from ragbench.evaluation import Result, own_version
from ragbench.evaluation.records import CaseResult
from ragbench.metrics.pipeline import by_stage
from ragbench.report.export import content_id, made_ms, results_of
from ragbench.types import Answer, Completion

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_BATCH = 500
_MS = 1_000_000  # nanoseconds


def export_traces(
    results: Result | Sequence[Result], target: str | SpanExporter, *, content: bool = False
) -> int:
    """Send a trace per question to a collector; the number of spans that it took. A second export
    has the same ids.

    Args:
        target: the address of an OTLP/HTTP receiver, such as "http://localhost:4318" (keys are in
            OTEL_EXPORTER_OTLP_HEADERS), or an exporter of OpenTelemetry.
        content: send the texts of questions, answers and judges' explanations, and what was
        retrieved, too.

    Raises:
        ConfigError: it is not an address.
        SystemsError: the receiver did not take the spans.
        MissingExtraError: the extra `otel` is not installed.
    """
    exporter: Any = target
    where = type(target).__name__
    if isinstance(target, str):
        url = urlsplit(target)
        where = url.netloc.rpartition("@")[2]
        if url.scheme not in ("http", "https") or not where:
            raise ConfigError(
                f"{target!r} is not an address; expected one such as http://localhost:4318"
            )
        http = require("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
        path = url.path.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
        exporter = http.OTLPSpanExporter(url._replace(path=path).geturl())
    sent = 0
    for result in results_of(results):
        spans = spans_of(result, content)
        for start in range(0, len(spans), _BATCH):
            if exporter.export(spans[start : start + _BATCH]).name != "SUCCESS":
                raise SystemsError(
                    f"{where} did not take the spans of {result.name}; is it a receiver of OTLP "
                    "over HTTP? A key goes into OTEL_EXPORTER_OTLP_HEADERS"
                )
        sent += len(spans)
    return sent


class _Ids:
    """The ids of a result's spans: the same each time."""

    def __init__(self, result: Result) -> None:
        self._random = Random(content_id(result))

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        return False


class _Step(NamedTuple):
    """A span to be, with its length in milliseconds."""

    name: str
    ms: float
    attributes: dict[str, Any]
    judged: bool = False


def spans_of(result: Result, content: bool = False) -> Sequence[ReadableSpan]:
    """Return the spans of a result, in the order of its questions; see this module."""
    tracer, memory = _tracer(result)
    from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

    def span(step: _Step, start: int, **options: Any) -> Any:
        new = tracer.start_span(step.name, attributes=step.attributes, start_time=start, **options)
        if "error.type" in step.attributes:
            new.set_status(StatusCode.ERROR)
        return new

    answers = {answer.query_id: answer for answer in result.answers}
    requests: dict[str, list[_Step]] = {}
    for judgement in result.judgements:
        requests.setdefault(judgement.query_id, []).extend(
            _chat(reply, 0.0 if reply.cached else reply.latency_s * 1000, True)
            for reply in judgement.usage
        )
    steps_of = {
        case.query_id: [
            *_steps(result, answers.get(case.query_id, Answer(case.query_id, "")), case, content),
            *requests.get(case.query_id, ()),  # nosec B113: a dict
        ]
        for case in result.cases
    }
    scores = dict(list(result.scores.dropna().groupby("query_id")[["measure", "value"]]))
    reasons = {
        (j.query_id, f"llm_{j.criterion}"): j.explanation for j in result.judgements if content
    }
    lengths = (
        step.ms
        for root, *steps in steps_of.values()
        for step in (root, *steps)
        if step is root or step.judged
    )
    now = (made_ms(result) - round(sum(lengths))) * _MS
    for query_id, (first, *steps) in steps_of.items():
        root = span(first, now)
        answered = now + round(first.ms * _MS)
        context = set_span_in_context(root)
        for step in steps:
            now = max(now, answered) if step.judged else now
            is_request = "gen_ai.operation.name" in step.attributes
            kind = SpanKind.CLIENT if is_request else SpanKind.INTERNAL
            child = span(step, now, kind=kind, context=context)
            now += round(step.ms * _MS)
            child.end(now)
        values = scores[query_id].itertuples(index=False) if query_id in scores else ()
        for measure, value in values:
            event = {
                "gen_ai.evaluation.name": measure,
                "gen_ai.evaluation.score.value": float(value),
            }
            if reason := reasons.get((query_id, measure)):
                event["gen_ai.evaluation.explanation"] = reason
            root.add_event("gen_ai.evaluation.result", event, answered)
        root.end(answered)
        now = max(now, answered)
    spans: Sequence[ReadableSpan] = memory.get_finished_spans()
    return spans


def _tracer(result: Result) -> tuple[Any, Any]:
    """Return a tracer with the ids of a result, and where its spans are kept."""
    sdk = require("opentelemetry.sdk.trace", "otel")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    name = os.environ.get("OTEL_SERVICE_NAME", "ragbench")
    about = Resource.create({"service.name": name, "service.version": own_version()})
    limits = sdk.SpanLimits(max_events=10_000)
    provider = sdk.TracerProvider(ALWAYS_ON, about, False, None, _Ids(result), limits)
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider.get_tracer("ragbench", own_version()), memory


def _steps(result: Result, answer: Answer, case: CaseResult, content: bool) -> Iterator[_Step]:
    """Return the span of a question, and those of its answer."""
    stages = by_stage(answer.latency_ms)
    root: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": result.name,
        "ragbench.query_id": case.query_id,
        "ragbench.category": case.category,
        "ragbench.outcome": case.outcome or "",
    }
    if answer.failed:
        root["error.type"] = str(answer.failure or "_OTHER")
    if content:
        for name, role, text in (
            ("input", "user", case.question),
            ("output", "assistant", case.answer),
        ):
            message = [{"role": role, "parts": [{"type": "text", "content": text}]}]
            root[f"gen_ai.{name}.messages"] = json.dumps(message, ensure_ascii=False)
    total, _ = stages.pop("total", 0.0), stages.pop("first_byte", None)
    yield _Step(f"invoke_workflow {result.name}", max(total, sum(stages.values())), root)
    if "retrieve" in stages or answer.contexts:
        source = str(result.config["dataset"].get("name", ""))
        search: dict[str, Any] = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": source,
        }
        if isinstance(depth := result.parameters.get("depth"), int):
            search["gen_ai.retrieval.top_k"] = depth
        if content:
            documents = [
                {"id": doc_id, "score": score}
                for doc_id, score in result.run.get(case.query_id, {}).items()
            ]
            search |= {"gen_ai.retrieval.query.text": case.question}
            search |= {"gen_ai.retrieval.documents": json.dumps(documents, ensure_ascii=False)}
        yield _Step(f"retrieval {source}", stages.pop("retrieve", 0.0), search)
    if answer.usage is not None:
        yield _chat(answer.usage, stages.pop("generate", 0.0))
    yield from (_Step(name, ms, {}) for name, ms in stages.items())


def _chat(reply: Completion, ms: float, judged: bool = False) -> _Step:
    provider, colon, model = reply.model.partition(":")
    model = (model if colon else provider).partition("@")[0]
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider if colon else "unknown",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": reply.input_tokens,
        "gen_ai.usage.output_tokens": reply.output_tokens,
        "gen_ai.response.finish_reasons": [reply.finish],
        "ragbench.part": "judge" if judged else "generator",
        "ragbench.cached": reply.cached,
    }
    if reply.error is not None:
        attributes["error.type"] = str(reply.failure or "_OTHER")
    return _Step(f"chat {model}", ms, attributes, judged)
