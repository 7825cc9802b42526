"""`ragbench probe`: a service of unknown form, and the file that it writes is the system."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.systems import load_system
from ragbench.types import Dataset

NOTHING = Dataset("demo", "test", {}, [], {})
TEXT = "The line opened in 1881, and was rebuilt later."
runner = CliRunner()


def probe(*args: object, code: int = 0) -> str:
    done = runner.invoke(app, ["probe", *map(str, args)])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rail.md").write_text(f"# Rail\n\n{TEXT} It is short.\n")
    return tmp_path / "docs"


def test_a_service_of_unknown_form_becomes_a_file(
    loopback: Any, wire: Any, tmp_path: Path, corpus: Path
) -> None:
    def reply(asked: Any) -> Any:
        if "message" not in (asked.body or {}):
            return wire.Answered({"detail": "unknown field"}, status=422)
        found = [{"ref": 7, "body": TEXT, "relevance": 0.5}]
        return wire.Answered(
            {"took": 3, "out": {"reply": "In 1881 [1]."}, "found": found, "trace": ["a"]}
        )

    url, file = loopback(reply).url, tmp_path / "ours.toml"
    shown = probe(url, "When?", "--docs", corpus, "--write", file)
    for part in (
        "'reply': 'In 1881 [1].'",
        "answer    $.out.reply",
        "contexts  $.found",
        "Documents: rail",
        # the user's own questions, and not the built-in ones, which `eval` asks without a test set
        f"eval {file} --test-set YOUR-QUESTIONS.csv --docs {corpus}",
    ):
        assert part in shown
    answer = load_system(file, NOTHING).answer("q1", "When?")
    assert (answer.text, answer.citations, answer.passages[0].score) == (
        "In 1881 [1].",
        ("7",),
        0.5,
    )
    assert answer.passages[0].text == TEXT
    assert "answer    $.out.reply" in probe(file, "When?")
    assert "already exists" in probe(url, "When?", "--write", file, code=2)


def test_a_stream_becomes_a_file(loopback: Any, wire: Any, tmp_path: Path) -> None:
    events = [{"token": "In "}, {"token": "1881."}, {"sources": [{"excerpt": TEXT, "id": "a"}]}]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    server = loopback(
        lambda asked: wire.Answered(body.encode(), headers={"content-type": "text/event-stream"})
    )
    probe(server.url, "When?", "--write", tmp_path / "ours.toml")
    answer = load_system(tmp_path / "ours.toml", NOTHING).answer("q1", "When?")
    assert (answer.text, [one.text for one in answer.passages]) == ("In 1881.", [TEXT])


def test_a_service_that_takes_nothing_is_an_error_with_its_words(loopback: Any, wire: Any) -> None:
    server = loopback(lambda asked: wire.Answered({"detail": "give me XML"}, status=422))
    assert "--body" in probe(server.url, "When?", code=2)
    assert "is not JSON" in probe(server.url, "--body", "{query", "When?", code=2)


def test_a_tool_of_a_server_becomes_a_file(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    command = f"{sys.executable} {Path(__file__).parents[1] / 'systems' / 'notes_server.py'}"
    shown = probe("--mcp", command, "--tool", "echo", "When?", "--write", tmp_path / "ours.toml")
    assert "Tools: echo" in shown
    system = load_system(tmp_path / "ours.toml", NOTHING)
    assert isinstance(system, rb.McpSystem)
    with system:
        assert system.answer("q1", "When?").text == "You asked: When?"


def test_a_function_and_a_pipeline(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "probed_rag.py").write_text(
        f"def answer(q):\n    return ('In 1881.', [{TEXT!r}])\n\ndef none(q):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = probe("probed_rag:answer", "When?", "--docs", corpus)
    assert "Documents: rail" in shown
    assert "None (NoneType)" in probe("probed_rag:none", "When?", code=1)
    assert "Documents: rail" in probe("bm25", "When was the line opened?", "--docs", corpus)
    assert "expected a system and a question" in probe("When?", code=2)


def test_plain_text_and_events_with_a_type_become_files(
    loopback: Any, wire: Any, tmp_path: Path
) -> None:
    typed = "".join(
        f"data: {json.dumps({'type': 'token', 'text': one})}\n\n" for one in ("In ", "1881.")
    )
    for body in ("data: In \n\ndata: 1881.\n\n", typed):
        stream = wire.Answered(body.encode(), headers={"content-type": "text/event-stream"})
        server = loopback(lambda asked, stream=stream: stream)
        probe(server.url, "When?", "--write", tmp_path / "ours.toml", "--force")
        assert load_system(tmp_path / "ours.toml", NOTHING).answer("q1", "When?").text == "In 1881."


def test_a_job_is_named_with_the_way_out(loopback: Any, wire: Any, tmp_path: Path) -> None:
    server = loopback(
        lambda asked: wire.Answered({"id": "7"}, status=202, headers={"location": "/jobs/7"})
    )
    shown = probe(server.url, "When?", "--write", tmp_path / "ours.toml", code=2)
    assert "202" in shown
    assert "def answer(question):" in shown
    assert "ragbench eval my_rag:answer" in shown
    assert "ragbench eval my_module:attribute" in shown
    assert not (tmp_path / "ours.toml").exists()
    assert len(server.asked) == 1
