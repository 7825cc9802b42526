"""`ragbench eval` through the real command: exit statuses, files, and nothing half-done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.report.evaluation import read_report

runner = CliRunner()

CASES = [
    ("q1", "How long do cats sleep?", "Most of the day.", "cats"),
    ("q2", "What do dogs guard?", "The house.", "dogs"),
    ("q3", "How do fish breathe?", "Through gills.", "fish"),
]
TEXTS = {
    "cats": "Cats sleep most of the day. A cat has four paws.",
    "dogs": "Dogs bark at strangers. Dogs guard the house.",
    "fish": "Fish breathe under water through gills.",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with documents, a test set, and recorded answers: good ones, and worse ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name, text in TEXTS.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text)
    records = [
        {"id": one, "question": question, "expectedAnswer": answer, "expectedDocumentId": f"{doc}.md", "category": doc}
        for one, question, answer, doc in CASES
    ]
    (tmp_path / "tests.json").write_text(json.dumps(records))
    write_answers(tmp_path / "good.jsonl", lambda doc: doc)
    write_answers(tmp_path / "bad.jsonl", lambda doc: "cats")
    return tmp_path


def write_answers(path: Path, retrieved: Callable[[str], str]) -> None:
    lines = []
    for one, _, answer, doc in CASES:
        found = retrieved(doc)
        context = {"id": f"{found}.md", "text": TEXTS[found], "doc_id": f"{found}.md"}
        lines.append(json.dumps({"query_id": one, "answer": f"{answer} [1]", "contexts": [context]}))
    path.write_text("\n".join(lines))


def run(*arguments: str) -> tuple[int, str]:
    options = ("--test-set", "tests.json", "--corpus", "docs", "--perspective", "retrieval,pipeline")
    done = runner.invoke(app, ["eval", *options, *arguments])
    return done.exit_code, done.output


def test_all_is_well(place: Path) -> None:
    code, said = run("--system", "good.jsonl", "--output", "mine", "--save-trace")
    assert code == 0, said
    assert "PASSED: 3 of 3 targets reached." in said
    assert "pipeline: not measured: no labels" in said
    folder = place / "results" / "eval" / "mine"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.json", "report.md", "traces.jsonl"]
    assert (folder / "traces.jsonl").read_text() == ""
    assert read_report(folder).settings["suite"] == "full"


def test_a_missed_target_is_one(place: Path) -> None:
    code, said = run("--system", "bad.jsonl", "--output", "mine", "--save-trace")
    assert code == 1
    assert "FAILED" in said
    assert "missed: nDCG@5, R@5" in said
    traces = (place / "results" / "eval" / "mine" / "traces.jsonl").read_text().splitlines()
    assert [json.loads(line)["query_id"] for line in traces] == ["q2", "q3"]


def test_advice_stands_with_its_figures_and_no_sign_drives_the_terminal(place: Path) -> None:
    cases = json.loads((place / "tests.json").read_text())
    cases[1]["question"] = "What \x1b[31m do \u202edogs\u009b31m guard?"
    (place / "tests.json").write_text(json.dumps(cases))
    code, said = run("--system", "bad.jsonl")
    assert code == 1
    assert not set(said) & set("\x1b\x9b\u202e")
    assert "What [31m do dogs 31m guard?" in said
    advice = said.split("Advice: ", 1)[1]
    assert "rests on: R@5 0.333 [" in advice


def test_mistakes_of_a_test_set_stand_in_lines_of_their_own(place: Path) -> None:
    (place / "tests.json").write_text('[{"id": "q1"},\n {"id": "q2", "question": 3}]')
    code, said = run("--system", "good.jsonl")
    assert code == 2
    assert said.splitlines()[-2:] == [
        "  tests.json, line 1: [0].question is missing; expected a value",
        "  tests.json, line 2: [1].question is 3; expected a text that is not empty",
    ]


def test_a_gate_changes_the_verdict(place: Path) -> None:
    assert run("--system", "bad.jsonl", "--fail-under", "nDCG@5=0.2,R@5=0.2,pass_rate=0.3")[0] == 0
    assert run("--system", "good.jsonl", "--fail-under", "P@1=1")[0] == 0


def test_a_run_has_its_own_folder_and_a_name_is_not_taken_twice(place: Path) -> None:
    for _ in range(2):
        assert run("--system", "good.jsonl")[0] == 0
    assert len(list((place / "results" / "eval").iterdir())) == 2
    assert run("--system", "good.jsonl", "--output", "mine")[0] == 0
    code, said = run("--system", "good.jsonl", "--output", "mine")
    assert code == 2
    assert "holds an evaluation already" in said
    assert run("--system", "good.jsonl", "--output", "mine", "--force")[0] == 0


def test_baseline(place: Path) -> None:
    many = [(f"q{i}", *CASES[i % 3][1:]) for i in range(30)]
    records = [
        {"id": one, "question": f"{question} ({one})", "expectedAnswer": answer, "expectedDocumentId": f"{doc}.md"}
        for one, question, answer, doc in many
    ]
    (place / "tests.json").write_text(json.dumps(records))
    for name, wrong in (("good", ""), ("bad", "cats")):
        lines = [
            {"query_id": one, "answer": answer, "contexts": [{"id": f"{wrong or doc}.md", "text": TEXTS[wrong or doc]}]}
            for one, _, answer, doc in many
        ]
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (place / "none.toml").write_text('[targets]\n"nDCG@5" = false\n"R@5" = false\n"pass_rate" = false\n')
    assert run("--system", "good.jsonl", "--output", "good", "--targets", "none.toml")[0] == 0
    code, said = run("--system", "good.jsonl", "--targets", "none.toml", "--baseline", "results/eval/good/report.json")
    assert code == 0, said
    assert "No regression" in said
    code, said = run("--system", "bad.jsonl", "--targets", "none.toml", "--baseline", "results/eval/good", "-v")
    assert code == 1
    assert "✗ regression: nDCG@5: 1.000 → 0.333" in said
    assert "20 broken, 0 mended of 30" in said
    assert "broken: q1 What do dogs guard? (q1)" in said
    code, said = run("--system", "good.jsonl", "--suite", "smoke", "--baseline", "results/eval/good")
    assert code == 2  # measured with another embedder
    assert "measured with the embedder" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--test-set", "none.yaml"], "there is no file"),
        (["--system", "bm52"], "did you mean 'bm25'"),
        (["--system", "none.jsonl"], "none.jsonl"),
        (["--perspective", "retreival"], "did you mean 'retrieval'"),
        (["--suite", "smok"], "did you mean 'smoke'"),
        (["--fail-under", "nDCG5=0.6"], "unknown measure 'nDCG5'; did you mean 'nDCG@5'"),
        (["--fail-under", "RR=1.2"], "could never pass"),
        (["--fail-under", "claim_support=0.5"], "of the perspective 'groundedness', which is not evaluated here"),
        (["--targets", "none.toml"], "could not be read"),
        (["--baseline", "none.json"], "could not be read"),
        (["--output", "../outside"], "is no name of a folder"),
        (["--expected-doc", "cats.md"], "--expected-doc belongs to --query"),
        (["--query", "?", "--suite", "smoke"], "--query is one question"),
        (["--offline", "--no-cache"], "give one of them"),
    ],
)
def test_usage_and_data_errors_are_two_and_write_nothing(place: Path, arguments: list[str], said: str) -> None:
    code, output = run("--system", "good.jsonl", *arguments)
    assert code == 2
    assert said in " ".join(output.split())
    assert len(output.strip().splitlines()) == 1
    assert not (place / "results").exists()


def test_an_empty_test_set_is_an_error(place: Path) -> None:
    (place / "tests.json").write_text("[]")
    code, said = run("--system", "good.jsonl")
    assert (code, "results" in os.listdir(place)) == (2, False)
    assert "ragbench: " in said


def test_a_system_that_fails_on_each_case_is_reported(place: Path) -> None:
    (place / "good.jsonl").write_text("".join(f'{{"query_id": "q{i}", "error": "500"}}\n' for i in (1, 2, 3)))
    code, said = run("--system", "good.jsonl", "--output", "mine")
    assert code == 1
    assert "FAILED" in said
    report = read_report(place / "results" / "eval" / "mine")
    assert [case.reasons for case in report.cases] == [("failed: 500",)] * 3


def test_one_question_is_only_shown(place: Path) -> None:
    asked = ["eval", "--query", "How do fish breathe?", "--corpus", "docs", "--perspective", "retrieval"]
    done = runner.invoke(app, [*asked, "--expected-doc", "fish.md"])
    assert done.exit_code == 0, done.output
    assert "Question: How do fish breathe?" in done.output
    assert "Expected: fish.md; its first one stands at rank 1" in done.output
    assert "PASSED: fish.md is among the first 5 documents retrieved." in done.output
    assert not (place / "results").exists()
    done = runner.invoke(app, [*asked, "--expected-doc", "fihs.md"])
    assert done.exit_code == 2
    assert "did you mean 'fish.md'" in done.output
    done = runner.invoke(app, ["eval", "--query", "xyzzy", "--corpus", "docs", "--expected-doc", "dogs.md", *asked[5:]])
    assert done.exit_code == 1
    assert "none of them was retrieved" in done.output
    assert "FAILED: dogs.md is not among the first 5 documents retrieved." in done.output


def test_a_rehearsal_sends_and_writes_nothing(place: Path) -> None:
    code, said = run("--system", "bm25", "--dry-run")
    assert (code, said) == (0, "No language model would be asked: nothing to pay.\n")
    (place / "mine.toml").write_text('[pipeline]\nllm = "ollama:no-such-model"\n')
    code, said = run("--system", "mine.toml", "--judge", "ollama:no-such-judge", "--dry-run")
    assert code == 0, said
    assert "answers: 0 cached, 3 to send" in said
    assert "verdicts: 0 cached, 3 to send" in said
    assert not (place / "results").exists()


def test_interrupted_nothing_is_written(place: Path, loopback: Callable[..., Any], wire: Any) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "x"}, delay_s=20))
    (place / "slow.toml").write_text(f'[http]\nurl = "{server.url}/ask"\nbody = {{question = "{{query}}"}}\n')
    options = ["--test-set", "tests.json", "--corpus", "docs", "--system", "slow.toml", "--output", "mine"]
    command = [sys.executable, "-m", "ragbench", "eval", *options]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 30
    while not server.asked and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Interrupted" in errors
    assert "Traceback" not in errors
    assert not (place / "results").exists()


def test_help_has_an_example() -> None:
    done = runner.invoke(app, ["eval", "--help"], terminal_width=100)
    assert done.exit_code == 0
    assert "Example: ragbench eval --suite smoke" in done.output
