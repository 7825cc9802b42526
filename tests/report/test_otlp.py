"""Results as traces: what OpenInference names, and the same scores when they are read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.types import Dataset


@pytest.fixture(scope="module")
def data() -> Dataset:
    data: Dataset = rb.load_dataset("pydoc")
    return data.select(list(data.queries)[:8])


def spans_of(path: Path) -> list[list[dict[str, Any]]]:
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    traces = [line["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in lines]
    for span in (span for trace in traces for span in trace):
        values = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
        span["attributes"] = values
    return traces


def results(data: Dataset, system: Any, path: Path) -> tuple[rb.Result, rb.Result]:
    """A result, and that of its traces."""
    first = rb.evaluate(data, system)
    rb.write_report(first, path)
    return first, rb.evaluate(data, path)


@pytest.mark.filterwarnings("ignore:system.*answers failed")
def test_traces_of_a_service_get_the_same_scores_to_the_last_digit(
    data: Dataset, tmp_path: Path
) -> None:
    retriever = rb.make_retriever("bm25", chunks := rb.chunk(data))
    texts = {chunk.chunk_id: chunk for chunk in chunks}
    silent, empty, broken = [*data.queries.values()][:3]

    def system(question: str) -> dict[str, Any]:
        if question == broken:
            raise RuntimeError("no index")
        ranked = rb.retrieve(retriever, {"q": question}, chunks, depth=7)["q"].items()
        found: list[dict[str, Any]] = [
            {"text": texts[each].text, "score": score / 3} for each, score in ranked
        ]
        return {
            "answer": ""
            if question in (silent, empty)
            else f"{found[1]['text'][:99]} [2], not [9].",
            "contexts": [] if question == empty else [*found, found[0]],
            "flags": ["retrieval_only"] if question in (silent, empty) else ["weak"],
            "latency_ms": {"search": 1 / 3, "generate": 10.0},
            "usage": {"model": "small-1", "input_tokens": 7},
        }

    first, again = results(data, system, tmp_path / "traces.jsonl")
    columns = ["query_id", "measure"]
    pair = first.scores.merge(again.scores, on=columns, suffixes=("", "_again"), how="outer")
    latency = pair["measure"].str.startswith("latency")
    same = pair["value"].eq(pair["value_again"]) | pair["value"].isna() & pair["value_again"].isna()
    assert (same | latency).all(), pair[~same]
    assert len(pair) == len(first.scores) == len(again.scores)
    for answer, copy in zip(first.answers, again.answers, strict=True):
        assert (copy.text, copy.contexts, copy.citations) == (
            answer.text,
            answer.contexts,
            answer.citations,
        )
        assert (copy.outcome, copy.flags, copy.latency_ms) == (
            answer.outcome,
            answer.flags,
            answer.latency_ms,
        )


def test_spans_have_kinds_inputs_outputs_and_lengths(data: Dataset, tmp_path: Path) -> None:
    llm = rb.llms.ScriptedLLM(lambda prompt: "It is a statement [1].")
    first = rb.evaluate(data, rb.Pipeline(data, llm=llm, k=3))
    rb.write_report(first, tmp_path / "traces.jsonl")
    traces = spans_of(tmp_path / "traces.jsonl")
    assert len({trace[0]["traceId"] for trace in traces}) == len(traces) == 8
    for trace, answer in zip(traces, first.answers, strict=True):
        root, search, model = trace
        kinds = [span["attributes"]["openinference.span.kind"] for span in trace]
        assert kinds == ["CHAIN", "RETRIEVER", "LLM"]
        assert root["parentSpanId"] == ""
        assert search["parentSpanId"] == model["parentSpanId"] == root["spanId"] != search["spanId"]
        for span in (root, model):
            assert span["attributes"]["input.value"] == data.queries[answer.query_id]
            assert span["attributes"]["output.value"] == "It is a statement [1]."
        for span in trace:
            assert int(span["endTimeUnixNano"]) > int(span["startTimeUnixNano"]) > 1e18
        documents = [search["attributes"][f"retrieval.documents.{n}.document.id"] for n in range(3)]
        assert tuple(documents) == answer.contexts
        assert search["attributes"]["retrieval.documents.0.document.content"]
        assert model["attributes"]["llm.model_name"] == answer.usage.model  # type: ignore[union-attr]
    again = rb.evaluate(data, tmp_path / "traces.jsonl")
    assert [one.contexts for one in again.answers] == [one.contexts for one in first.answers]


def test_several_results_are_no_traces(data: Dataset, tmp_path: Path) -> None:
    result = rb.evaluate(data, "bm25")
    with pytest.raises(ConfigError, match="JUnit XML and traces describe one result"):
        rb.write_report([result, replace(result, name="other")], tmp_path / "traces.jsonl")


def test_the_service_of_the_traces_is_the_result(data: Dataset, tmp_path: Path) -> None:
    result = rb.evaluate(data, "bm25", name="nightly")
    path = rb.write_report(result, tmp_path / "traces.jsonl")
    for line in path.read_text(encoding="utf-8").splitlines():
        [spans] = json.loads(line)["resourceSpans"]
        attributes = {each["key"]: each["value"] for each in spans["resource"]["attributes"]}
        assert attributes == {"service.name": {"stringValue": "nightly"}}
