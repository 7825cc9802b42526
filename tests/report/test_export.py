"""Saved results for others: tables, OpenTelemetry traces by real exporters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, MissingExtraError, SystemsError
from ragbench.evaluation import new_result
from ragbench.report import export_table, export_traces
from ragbench.types import Answer, Completion, Judgement

SECRET = "The line opened in 1881."
DATA = rb.Dataset.from_dicts(
    {"d1": SECRET, "d2": "Cats nap."}, {"q1": "When?", "=q2": "Who?"}, {"q1": {"d1": 1}}
)


def made(name: str = "mine", **changes: Any) -> rb.Result:
    reply = Completion("", "openai:gpt-5@https://inside.example/v1", 210, 12, 0.2)
    verdict = Completion("", "anthropic:claude-haiku-4-5", 900, 60, 0.05)
    answers = [
        Answer(
            "q1",
            SECRET,
            ("d1",),
            latency_ms={"search": 4.0, "generate": 200.0, "total": 210.0},
            usage=reply,
        ),
        Answer(
            "=q2", "", outcome="failed", error="no reply", failure=rb.errors.FailureKind.TIMEOUT
        ),
    ]
    judgements = [Judgement("q1", "correctness", 1.0, f"Right: {SECRET}", usage=(verdict,))]
    rows = [
        ("q1", "nDCG@10", 1.0),
        ("q1", "llm_correctness", 1.0),
        ("=q2", "nDCG@10", float("nan")),
    ]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    result = new_result(
        parameters={"retriever": "bm25", "depth": 20}, dataset=DATA, run={"q1": {"d1": 2.5}, "=q2": {}}, scores=scores,
        name=name, answers=answers, judgements=judgements,
    )  # fmt: skip
    return replace(
        result, config={**result.config, "made_at": "2026-01-02T03:04:05.000+00:00"}, **changes
    )


def exported(*args: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["export", *map(str, args)])
    assert done.exit_code == code, done.output
    return done.output


def test_a_table_of_all_results_in_every_form(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rb.save(made(name), tmp_path / "sweep" / name)
    for ending, read in (
        (".csv", pd.read_csv),
        (".parquet", pd.read_parquet),
        (".xlsx", pd.read_excel),
    ):
        file = tmp_path / "out" / f"scores{ending}"
        if ending == ".xlsx":
            pytest.importorskip("openpyxl")
        assert "scores" in exported(tmp_path / "sweep", "-o", file)
        table = read(file)
        assert list(table) == ["name", "query_id", "category", "measure", "value"]
        assert list(table["name"]) == ["a"] * 3 + ["b"] * 3
        assert set(table["query_id"]) == {"q1", "=q2" if ending == ".parquet" else "'=q2"}
        assert table["value"].isna().sum() == 2
        assert "there already" in exported(tmp_path / "sweep", "-o", file, code=2)
        exported(tmp_path / "sweep", "-o", file, "--questions", "--force")
        assert list(read(file)["answer"].dropna())[:1] == [SECRET]
    assert "end it in .csv" in exported(tmp_path / "sweep", "-o", tmp_path / "scores.txt", code=2)
    assert "nothing to export" in exported(tmp_path / "sweep", code=2)


def test_a_cell_that_no_sheet_can_hold_is_written_without_it(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    result = made(answers=[Answer("q1", "bell \a rung")])
    export_table(result, tmp_path / "a.xlsx", questions=True)
    assert pd.read_excel(tmp_path / "a.xlsx")["answer"][0] == "bell   rung"


def test_a_question_is_a_trace_by_the_conventions() -> None:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept = memory.InMemorySpanExporter()
    assert export_traces(made(), kept) == 5
    spans = {
        (span.name, span.attributes.get("ragbench.query_id", "")): span
        for span in kept.get_finished_spans()
    }
    root = spans["invoke_workflow mine", "q1"]
    search, chat, judge = (
        spans[name, ""] for name in ("retrieval dataset", "chat gpt-5", "chat claude-haiku-4-5")
    )
    assert {one.parent.span_id for one in (search, chat, judge)} == {root.context.span_id}
    assert {one.kind.name for one in (search, chat, judge)} == {"CLIENT"}
    assert dict(search.attributes) == {
        "gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "dataset", "gen_ai.retrieval.top_k": 20
    }  # fmt: skip
    expected = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5",
        "gen_ai.usage.input_tokens": 210, "gen_ai.usage.output_tokens": 12, "gen_ai.response.finish_reasons": ("stop",),
    }  # fmt: skip
    assert expected.items() <= dict(chat.attributes).items()
    lengths = [(one.end_time - one.start_time) / 1e6 for one in (root, search, chat, judge)]
    assert lengths == pytest.approx([210, 4, 200, 50])
    assert search.start_time == root.start_time
    assert (chat.start_time, judge.start_time) == (search.end_time, root.end_time)
    failed = spans["invoke_workflow mine", "=q2"]
    assert (
        failed.start_time == judge.end_time
    )  # questions are laid out one after another, up to the time of the result
    assert failed.end_time == 1767323045 * 10**9
    assert (failed.status.status_code.name, failed.attributes["error.type"]) == ("ERROR", "timeout")
    events = {event.attributes["gen_ai.evaluation.name"]: event for event in root.events}
    assert {event.name for event in root.events} == {"gen_ai.evaluation.result"}
    assert events["nDCG@10"].attributes["gen_ai.evaluation.score.value"] == 1.0
    assert failed.events == ()  # NaN is unscored
    assert len({span.context.trace_id for span in spans.values()}) == 2


def test_texts_are_sent_only_when_asked_for_and_ids_stay() -> None:
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    texts, ids = [], []
    for content in (False, False, True):
        kept = memory.InMemorySpanExporter()
        export_traces(made(), kept, content=content)
        texts.append(" ".join(span.to_json() for span in kept.get_finished_spans()))
        ids.append([span.context.span_id for span in kept.get_finished_spans()])
    assert ids[0] == ids[1] == ids[2]
    assert not any(word in texts[0] for word in ("1881", "When?", '"d1"', "inside.example"))
    assert all(
        word in texts[2] for word in ("1881", "When?", "d1", "gen_ai.evaluation.explanation")
    )
    kept = memory.InMemorySpanExporter()
    export_traces(made("other"), kept)
    assert not {span.context.span_id for span in kept.get_finished_spans()} & set(ids[0])


class Receiver(BaseHTTPRequestHandler):
    """A receiver of OTLP over HTTP, which parses the protobuf."""

    server: Any

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        request = ExportTraceServiceRequest.FromString(
            self.rfile.read(int(self.headers["content-length"]))
        )
        self.server.got.append((self.path, self.headers["x-key"], request))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def receiver() -> Iterator[Any]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.status = [], 200
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_receiver_of_otlp_parses_what_is_sent(
    tmp_path: Path, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    rb.save(made(), tmp_path / "mine")
    url = f"http://127.0.0.1:{receiver.server_port}"
    assert "5 spans sent" in exported(tmp_path / "mine", "--otlp", url)
    [(path, key, request)] = receiver.got
    assert (path, key) == ("/v1/traces", "abc")
    [resource] = request.resource_spans
    about = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert about["service.name"] == "ragbench"
    spans = [span for scope in resource.scope_spans for span in scope.spans]
    chat = next(span for span in spans if span.name == "chat gpt-5")
    values = {one.key: one.value for one in chat.attributes}
    assert values["gen_ai.usage.input_tokens"].int_value == 210
    assert [
        one.string_value for one in values["gen_ai.response.finish_reasons"].array_value.values
    ] == ["stop"]
    assert sum(len(span.events) for span in spans) == 2
    receiver.status = 403
    with pytest.raises(SystemsError, match=r"^127.0.0.1:\d+ did not take the spans of mine"):
        export_traces(made(), url.replace("//", "//user:word@") + "/v1/traces/")
    assert receiver.got[-1][0] == "/v1/traces"
    with pytest.raises(ConfigError, match="is not an address"):
        export_traces(made(), "localhost:4318")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (
        "openpyxl.cell.cell",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    ):
        monkeypatch.setitem(sys.modules, module, None)
    for extra, export in (
        ("xlsx", lambda: export_table(made(), tmp_path / "a.xlsx")),
        ("otel", lambda: export_traces(made(), "http://127.0.0.1:9")),
    ):
        with pytest.raises(MissingExtraError, match=rf"ragbench-lab\[{extra}\]"):
            export()
