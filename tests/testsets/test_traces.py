"""Traces of runs: the same questions, answers, ranked lists, times and tokens from every exporter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import DataError
from ragbench.systems import RecordedSystem, ask
from ragbench.types import Call, Case, Dataset, Document

TEXTS = {"rail": "The railway was opened in 1881, after ten years.", "fire": "It burned in 1907."}
DATA = Dataset(
    "demo",
    "test",
    {doc_id: Document(doc_id, text) for doc_id, text in TEXTS.items()},
    [Case("q1", "When did it open?", reference_answer="In 1881.")],
    {"q1": {"rail": 1}},
)
SECOND = 1_000_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


def otlp_value(value: object) -> dict[str, object]:
    kinds: dict[type, str] = {str: "stringValue", float: "doubleValue"}
    return {kinds[type(value)]: value} if type(value) in kinds else {"intValue": str(value)}


def span(span_id: str, parent: str, begin: float, end: float, **attributes: Any) -> dict[str, Any]:
    """As OpenInference writes it; dots of names are two underscores."""
    return {
        "traceId": "t1",
        "spanId": span_id,
        **({"parentSpanId": parent} if parent else {}),
        "name": span_id,
        "startTimeUnixNano": str(int(START + begin * SECOND)),
        "endTimeUnixNano": str(int(START + end * SECOND)),
        "attributes": [
            {"key": key.replace("__", "."), "value": otlp_value(value)}
            for key, value in attributes.items()
        ],
        "status": {},
    }


def documents(name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for rank, (doc_id, score) in enumerate([("fire", 0.1234567890123456), ("rail", 0.1)]):
        prefix = f"{name}__{rank}__document__"
        fields |= {
            f"{prefix}id": doc_id,
            f"{prefix}content": TEXTS[doc_id],
            f"{prefix}score": score,
            f"{prefix}metadata": json.dumps({"source": doc_id}),
        }
    return fields


KIND = "openinference__span__kind"
OPENINFERENCE = [
    span(
        "search",
        "root",
        0,
        0.5,
        **{KIND: "RETRIEVER"},
        input__value="opening",
        **documents("retrieval__documents"),
    ),
    span(
        "model",
        "root",
        0.5,
        1.5,
        **{KIND: "LLM"},
        llm__model_name="small-1",
        llm__token_count__prompt=30,
        llm__token_count__completion=4,
        output__value="In 1881.",
    ),
    span(
        "root",
        "",
        0,
        2,
        **{KIND: "CHAIN"},
        input__value=json.dumps({"input": "When did it open?"}),
        output__value=json.dumps({"answer": "In 1881."}),
    ),
]
OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": OPENINFERENCE}]}]}
PHOENIX = {
    "data": [
        {
            "name": one["name"],
            "span_kind": next(a["value"]["stringValue"] for a in one["attributes"]),
            "context": {"trace_id": "t1", "span_id": one["spanId"]},
            "parent_id": one.get("parentSpanId"),
            "start_time": f"2026-01-01T00:00:0{begin}+00:00",
            "end_time": f"2026-01-01T00:00:0{end}+00:00",
            "status_code": "OK",
            "attributes": {
                a["key"]: next(
                    int(value) if kind == "intValue" else value
                    for kind, value in a["value"].items()
                )
                for a in one["attributes"]
            },
        }
        for one, begin, end in zip(
            OPENINFERENCE, ("0.0", "0.5", "0.0"), ("0.5", "1.5", "2.0"), strict=True
        )
    ]
}
FOUND = [
    {"page_content": TEXTS["fire"], "metadata": {"source": "fire", "score": 1}, "id": "fire"},
    {"page_content": TEXTS["rail"], "metadata": {"source": "rail", "score": 1}, "id": "rail"},
]
LANGSMITH = [
    {
        "id": "root",
        "trace_id": "t1",
        "name": "RAG",
        "run_type": "chain",
        "start_time": "2026-01-01T00:00:00.000000",
        "end_time": "2026-01-01T00:00:02.000000",
        "inputs": {"question": "When did it open?"},
        "outputs": {"answer": "In 1881.", "context": FOUND},
        "error": None,
        "child_runs": [
            {
                "id": "search",
                "trace_id": "t1",
                "parent_run_id": "root",
                "name": "search",
                "run_type": "retriever",
                "start_time": "2026-01-01T00:00:00.000000",
                "end_time": "2026-01-01T00:00:00.500000",
                "inputs": {"query": "opening"},
                "outputs": {"documents": FOUND},
            },
            {
                "id": "model",
                "trace_id": "t1",
                "parent_run_id": "root",
                "name": "ChatModel",
                "run_type": "llm",
                "start_time": "2026-01-01T00:00:00.500000",
                "end_time": "2026-01-01T00:00:01.500000",
                "extra": {"metadata": {"ls_model_name": "small-1"}},
                "inputs": {"messages": [[{"type": "human", "content": "?"}]]},
                "outputs": {"generations": [[{"text": "In 1881."}]]},
                "prompt_tokens": 30,
                "completion_tokens": 4,
            },
        ],
    }
]
LANGFUSE = [
    {
        "id": "t1",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "name": "rag",
        "input": {"messages": [{"role": "user", "content": "When did it open?"}]},
        "output": {"role": "assistant", "content": "In 1881."},
        "observations": [
            {
                "id": "model",
                "traceId": "t1",
                "type": "GENERATION",
                "parentObservationId": None,
                "model": "small-1",
                "startTime": "2026-01-01T00:00:00.500Z",
                "endTime": "2026-01-01T00:00:01.500Z",
                "usageDetails": {"input": 30, "output": 4},
                "output": "In 1881.",
                "level": "DEFAULT",
            },
            {
                "id": "search",
                "traceId": "t1",
                "type": "RETRIEVER",
                "name": "search",
                "startTime": "2026-01-01T00:00:00.000Z",
                "endTime": "2026-01-01T00:00:00.500Z",
                "input": "opening",
                "output": FOUND,
            },
        ],
    }
]
EXPORTS: dict[str, Any] = {
    "OTLP": OTLP,
    "Phoenix": PHOENIX,
    "LangSmith": LANGSMITH,
    "Langfuse": LANGFUSE,
}


def written(folder: Path, content: object, name: str = "traces.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("tool", EXPORTS)
def test_a_trace_is_an_answer_with_its_search(tmp_path: Path, tool: str) -> None:
    [answer] = ask(RecordedSystem(written(tmp_path, EXPORTS[tool])), DATA)
    assert (answer.text, answer.error, answer.contexts) == ("In 1881.", None, ("fire", "rail"))
    assert [passage.text for passage in answer.passages] == [TEXTS["fire"], TEXTS["rail"]]
    assert answer.calls == (Call("search", "opening", ("fire", "rail")),)
    assert answer.usage is not None
    used = answer.usage.model, answer.usage.input_tokens, answer.usage.output_tokens
    assert used == ("small-1", 30, 4)
    expected = {"search": 500.0, "generate": 1000.0, "total": 2000.0}
    if tool == "Langfuse":
        del expected["total"]  # its traces have a beginning only
    assert answer.latency_ms == expected
    if tool in ("OTLP", "Phoenix"):
        assert [passage.score for passage in answer.passages] == [0.1234567890123456, 0.1]
    scores = rb.evaluate(DATA, written(tmp_path, EXPORTS[tool])).scores
    assert scores.set_index("measure").loc["RR", "value"] == 0.5


@pytest.mark.parametrize("tool", EXPORTS)
def test_a_trace_is_a_question_for_a_test_set(tmp_path: Path, tool: str) -> None:
    [case] = rb.load_testset(written(tmp_path, EXPORTS[tool])).cases
    assert (case.text, case.reference_answer, case.evidence) == ("When did it open?", None, ())


def test_lines_of_otlp_and_a_question_with_an_id(tmp_path: Path) -> None:
    root = span(
        "root", "", 0, 1, input__value="Else?", ragbench__query_id="q1", output__value="1881"
    )
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [root]}]}]}) + "\n")
    [answer] = ask(RecordedSystem(path), DATA)
    assert (answer.text, answer.contexts, answer.calls) == ("1881", (), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"startTimeUnixNano": "soon"}, "not a trace that can be read .ValueError: .*soon"),
        ({"attributes": [{"value": {}, "name": "x"}, 3]}, "traces.json: not a trace"),
    ],
)
def test_what_is_no_trace_is_one_error_with_its_file(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": [{**OPENINFERENCE[2], **change}]}]}]}
    with pytest.raises(DataError, match=message):
        RecordedSystem(written(tmp_path, traces))


def test_spans_and_scopes_without_attributes_are_passed_over(tmp_path: Path) -> None:
    bare = {"traceId": "t1", "spanId": "b", "parentSpanId": "root", "startTimeUnixNano": "1"}
    spans = [*OPENINFERENCE, bare]
    resources = [{"scopeSpans": [{"spans": spans}, {}]}, {}]
    answer = RecordedSystem(written(tmp_path, {"resourceSpans": resources})).answer(
        "q1", "When did it open?"
    )
    assert (answer.text, answer.contexts) == ("In 1881.", ("fire", "rail"))


def test_messages_of_an_agent_are_no_contexts(tmp_path: Path) -> None:
    """As OpenTelemetry's conventions for generative AI write them."""

    def messages(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    asked, replied = messages("user", "When did it open?"), messages("assistant", "In 1881.")
    root = span("root", "", 0, 1, gen_ai__input__messages=asked, gen_ai__output__messages=replied)
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": [root]}]}]}
    answer = RecordedSystem(written(tmp_path, traces)).answer("q1", "When did it open?")
    assert (answer.text, answer.contexts) == ("In 1881.", ())


def test_a_failed_trace_is_a_failed_answer(tmp_path: Path) -> None:
    failed = {**OPENINFERENCE[2], "status": {"code": 2, "message": "no server"}, "attributes": []}
    root = {**failed, "attributes": OPENINFERENCE[2]["attributes"][:2]}
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": [root]}]}]}
    answer = RecordedSystem(written(tmp_path, traces)).answer("q1", "When did it open?")
    assert (answer.error, answer.outcome) == ("no server", "failed")


def test_what_was_reranked_reached_the_answer_and_every_call_is_kept(tmp_path: Path) -> None:
    again = span(
        "search again", "root", 0.5, 0.7, **{KIND: "RETRIEVER"}, **documents("retrieval__documents")
    )
    ranked = span(
        "rerank",
        "root",
        0.7,
        0.8,
        **{KIND: "RERANKER"},
        reranker__output_documents__0__document__id="rail",
        reranker__output_documents__0__document__content=TEXTS["rail"],
    )
    tool = span("sum", "root", 0.9, 1.0, **{KIND: "TOOL"}, input__value='{"a": 1, "b": 2}')
    inner = span("inner", "search", 0.1, 0.2, **{KIND: "RETRIEVER"})
    spans = [*OPENINFERENCE, again, ranked, tool, inner]
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    answer = RecordedSystem(written(tmp_path, traces)).answer("q1", "When did it open?")
    assert answer.contexts == ("rail",)
    assert [(call.name, call.query) for call in answer.calls if call.name != "inner"] == [
        ("search", "opening"),
        ("search again", ""),
        ("sum", "{'a': 1, 'b': 2}"),
    ]
    assert answer.latency_ms["search"] == pytest.approx(700.0)  # the inner one is in the outer one


def test_a_run_without_its_search_has_the_contexts_of_its_outputs(tmp_path: Path) -> None:
    [run] = LANGSMITH
    runs = [{**run, "child_runs": []}]
    answer = RecordedSystem(written(tmp_path, runs)).answer("q1", "When did it open?")
    assert (answer.text, answer.contexts, answer.calls) == ("In 1881.", ("fire", "rail"), ())


def test_traces_without_a_question_are_no_answers(tmp_path: Path) -> None:
    traces = {"resourceSpans": [{"scopeSpans": [{"spans": OPENINFERENCE[1:2]}]}]}
    with pytest.raises(DataError, match="holds no answer"):
        RecordedSystem(written(tmp_path, [traces, {"resourceSpans": []}]))
