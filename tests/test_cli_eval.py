"""`ragbench eval` through the real command: exit statuses, files, and nothing half-done."""

from __future__ import annotations

import json
import os
import re
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
from ragbench.errors import DataWarning
from ragbench.evaluation import load_result

runner = CliRunner()

ONE_QUESTION = (
    *("eval", "--query", "How do fish breathe?"),
    *("--docs", "docs", "--perspective", "retrieval"),
)


def read_report(path: Path) -> Any:
    return json.loads(path.read_text())


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
        {
            "id": one,
            "question": question,
            "expectedAnswer": answer,
            "expectedDocumentId": f"{doc}.md",
            "category": doc,
        }
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
        lines.append(
            json.dumps({"query_id": one, "answer": f"{answer} [1]", "contexts": [context]})
        )
    path.write_text("\n".join(lines))


def run(*arguments: str) -> tuple[int, str]:
    """Run `ragbench eval` with defaults for options that the arguments do not have."""
    defaults = {"--test-set": "tests.json", "--docs": "docs", "--perspective": "retrieval,pipeline"}
    options: list[str] = []
    for option, value in defaults.items():
        if option not in arguments:
            options += [option, value]
    done = runner.invoke(app, ["eval", *options, *arguments])
    return done.exit_code, done.output


def test_all_targets_reached_exits_with_0(place: Path) -> None:
    code, shown = run("good.jsonl", "--output", "mine")
    assert code == 0, shown
    assert (
        "PASSED: 3 of 3 questions passed; 2 of 2 targets reached." in shown
    )  # pass_rate is about answers, which were not looked at
    assert "pipeline: not measured: no labels" in shown
    folder = place / "mine"
    assert {"scores.csv", "report.html", "report.md", "verdicts.json"} <= {
        p.name for p in folder.iterdir()
    }
    assert load_result(folder).settings["suite"] == "full"


def test_a_missed_target_exits_with_1(place: Path) -> None:
    code, shown = run("bad.jsonl", "--output", "mine")
    assert code == 1
    assert "FAILED" in shown
    assert "missed: nDCG@5, R@5" in " ".join(shown.split())
    cases = load_result(place / "mine").cases
    assert [case.query_id for case in cases if case.passed is False] == ["q2", "q3"]


def test_advice_has_its_figures_and_shows_control_signs_as_symbols(place: Path) -> None:
    cases = json.loads((place / "tests.json").read_text())
    cases[1]["question"] = "What \x1b[31m do \u202edogs\u009b31m guard?"
    (place / "tests.json").write_text(json.dumps(cases))
    code, shown = run("bad.jsonl", "-v")
    assert code == 1
    assert not set(shown) & set("\x1b\x9b\u202e")
    assert "What ␛[31m do \ufffddogs\ufffd31m guard?" in " ".join(shown.split())
    assert "R@5 0.333 [" in " ".join(shown.split())


def test_errors_of_a_test_set_are_on_lines_of_their_own(place: Path) -> None:
    (place / "tests.json").write_text('[{"id": "q1"},\n {"id": "q2", "question": ["x"]}]')
    code, shown = run("good.jsonl")
    assert code == 2
    first, second = shown.splitlines()[-2:]
    assert first.startswith("  tests.json, line 1: [0]")
    assert "missing" in first
    assert second.startswith("  tests.json, line 2: [1]")
    assert "['x']" in second


def test_a_ci_server_gets_junit_xml_and_github_a_summary(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xml.etree import ElementTree

    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place / "summary.md"))
    asked = (
        "bad.jsonl",
        "--fail-under",
        "nDCG@5=0.99999",
        "--output",
        str(place / "junit.xml"),
    )
    code, output = run(*asked)
    assert code == 1, output
    assert (place / "summary.md").read_text().startswith("# Evaluation: ")
    root = ElementTree.parse(place / "junit.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"questions", "targets"}
    assert int(suites["targets"].get("failures", "")) == len(
        suites["targets"].findall("testcase/failure")
    )
    assert int(suites["targets"].get("failures", "")) > 0
    assert int(suites["questions"].get("failures", "")) == 0
    passing = ("--fail-under", "nDCG@5=0.2,R@5=0.2,pass_rate=0.3", "--output", "green.xml")
    assert run("bad.jsonl", *passing)[0] == 0  # two of three questions fail
    assert not list(ElementTree.parse(place / "green.xml").getroot().iter("failure"))


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_split_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d", "title": "", "text": "The line opened in 1881."}\n'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "When?"}\n{"_id": "q2", "text": "line opened"}\n'
    )
    for split, query in (("test", "q1"), ("dev", "q2")):
        (folder / "qrels" / f"{split}.tsv").write_text(
            f"query-id\tcorpus-id\tscore\n{query}\td\t1\n"
        )
    asked = [
        "eval",
        "--test-set",
        str(folder),
        "--split",
        "dev",
        "--perspective",
        "retrieval",
        "--output",
        "out",
    ]
    assert runner.invoke(app, asked).exit_code in (0, 1)
    assert (tmp_path / "out/run.trec").read_text().startswith("q2 ")
    asked[4] = "train"
    assert "train" in runner.invoke(app, asked).output


def test_a_gate_changes_the_verdict(place: Path) -> None:
    assert run("bad.jsonl", "--fail-under", "nDCG@5=0.2,R@5=0.2,pass_rate=0.3")[0] == 0
    assert run("good.jsonl", "--fail-under", "P@1=1")[0] == 0


def test_a_run_has_its_own_folder_and_a_name_is_not_taken_twice(place: Path) -> None:
    for _ in range(2):
        assert run("good.jsonl")[0] == 0
    assert len(list((place / "results" / "eval").iterdir())) == 2
    assert run("good.jsonl", "--output", "mine")[0] == 0
    code, shown = run("good.jsonl", "--output", "mine")
    assert code == 0
    assert "Nothing is left to do: mine holds this evaluation" in shown
    code, shown = run("bad.jsonl", "--output", "mine")
    assert code == 2
    assert "mine holds an evaluation already, made from other inputs (system)" in shown
    assert run("good.jsonl", "--output", "mine", "--force")[0] == 0


def test_baseline(place: Path) -> None:
    many = [(f"q{i}", *CASES[i % 3][1:]) for i in range(30)]
    records = [
        {
            "id": one,
            "question": f"{question} ({one})",
            "expectedAnswer": answer,
            "expectedDocumentId": f"{doc}.md",
        }
        for one, question, answer, doc in many
    ]
    (place / "tests.json").write_text(json.dumps(records))
    for name, wrong in (("good", ""), ("bad", "cats")):
        lines = [
            {
                "query_id": one,
                "answer": answer,
                "contexts": [{"id": f"{wrong or doc}.md", "text": TEXTS[wrong or doc]}],
            }
            for one, _, answer, doc in many
        ]
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (place / "none.toml").write_text(
        '[targets]\n"nDCG@5" = false\n"R@5" = false\n"pass_rate" = false\n'
    )
    assert run("good.jsonl", "--output", "good", "--targets", "none.toml")[0] == 0
    code, shown = run("good.jsonl", "--targets", "none.toml", "--baseline", "good")
    assert code == 0, shown
    assert "no regression shown" in shown
    code, shown = run("bad.jsonl", "--targets", "none.toml", "--baseline", "good", "-v")
    assert code == 1
    assert re.search(r"nDCG@5 \| 1\.000 \| 0\.333|nDCG@5 +1\.000 +0\.333", shown)
    assert re.search(r"questions passed, \d+ failed; \d regressions: R@5", " ".join(shown.split()))
    assert "20 newly failing, 0 fixed of 30" in shown
    assert "newly failing: q1 What do dogs guard? (q1)" in shown
    code, shown = run("good.jsonl", "--suite", "smoke", "--baseline", "good")
    assert code == 0, "the smoke suite measures with the same models"
    assert "no regression shown" in shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--test-set", "none.yaml"], "there is no folder or file 'none.yaml'"),
        (["bm52"], "did you mean 'bm25'"),
        (["none.jsonl"], "none.jsonl"),
        (["--perspective", "retreival"], "did you mean 'retrieval'"),
        (["--suite", "smok"], "did you mean 'smoke'"),
        (["--fail-under", "nDCG5=0.6"], "unknown measure 'nDCG5'; did you mean 'nDCG@5'"),
        (["--fail-under", "RR=1.2"], "RR lies between 0 and 1; 1.2 is never crossed"),
        (
            ["--fail-under", "claim_support=0.5"],
            "of the perspective 'groundedness', which is not evaluated here",
        ),
        (["--targets", "none.toml"], "there is no file none.toml"),
        (["--baseline", "none.json"], "none.json is not a folder; expected the folder of a result"),
        (["--output", "./docs"], "docs holds 'cats.md', which is not part of an evaluation"),
        (
            ["--output", "docs/cats.md", "--force"],
            "is a file that is not a report of an evaluation",
        ),
        (["--output", "tests.json/mine"], "cannot be used: Not a directory"),
        (["--output", "/proc/mine"], "cannot be used"),
        (["--category", "cts"], "unknown category 'cts'; did you mean 'cats'"),
        (["--k", "five"], "whole numbers from 1, such as 1,3,5,10"),
        (["--k", "0"], "expected one or several whole numbers from 1"),
        (["--judge", "ollama:m", "--criteria", "corectness"], "unknown criterion 'corectness'"),
        (["--judge", "ollama:m", "--judge-model", "n"], "already names provider and model"),
        (["--expected-doc", "cats.md"], "--expected-doc belongs to --query"),
        (["--query", "?", "--suite", "smoke"], "--query asks one question"),
        (["--offline", "--no-cache"], "give one of them"),
    ],
)
def test_usage_and_data_errors_exit_with_2_and_write_nothing(
    place: Path, arguments: list[str], shown: str
) -> None:
    system = ["good.jsonl"] if arguments[0].startswith("-") else []
    code, output = run(*system, *arguments)
    assert code == 2
    assert shown in " ".join(output.split())
    assert len(output.strip().splitlines()) == 1
    assert not (place / "results").exists()


def test_an_empty_test_set_is_an_error(place: Path) -> None:
    (place / "tests.json").write_text("[]")
    code, shown = run("good.jsonl")
    assert (code, "results" in os.listdir(place)) == (2, False)
    assert "ragbench: " in shown


def test_a_system_that_fails_on_each_case_is_reported(place: Path) -> None:
    (place / "good.jsonl").write_text(
        "".join(f'{{"query_id": "q{i}", "error": "500"}}\n' for i in (1, 2, 3))
    )
    code, shown = run("good.jsonl", "--output", "mine")
    assert code == 2
    assert "FAILED" in shown
    assert "Failed: every answer failed, the first: 500" in shown
    report = load_result(place / "mine")
    assert [case.reasons for case in report.cases] == [("failed: 500",)] * 3


@pytest.mark.parametrize(
    "arguments", [["--judge", "ollama:m"], ["--judge-provider", "ollama"], ["--judge"]]
)
def test_an_unreachable_judge_is_noticed_before_anything_is_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("RAG_EVAL_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    code, shown = run("good.jsonl", *arguments)
    assert code == 2, shown
    assert "no server takes connections at 127.0.0.1, port 9" in shown
    assert not (place / "results").exists()


def test_one_question_is_only_shown(place: Path) -> None:
    done = runner.invoke(app, [*ONE_QUESTION, "--expected-doc", "fish.md"])
    assert done.exit_code == 0, done.output
    assert "Question: How do fish breathe?" in done.output
    assert "Expected: fish.md" in done.output
    assert "PASSED: 1 of 1 questions passed; 1 of 1 targets reached." in done.output
    assert not (place / "results").exists()
    done = runner.invoke(app, [*ONE_QUESTION, "--expected-doc", "fihs.md"])
    assert done.exit_code == 2
    assert "did you mean 'fish.md'" in done.output
    done = runner.invoke(
        app,
        [
            "eval",
            "--query",
            "xyzzy",
            "--docs",
            "docs",
            "--expected-doc",
            "dogs.md",
            *ONE_QUESTION[5:],
        ],
    )
    assert done.exit_code == 1
    shown = " ".join(done.output.split())
    assert "FAILED: 0 of 1 questions passed, 1 failed; 0 of 1 targets reached, missed:" in shown


def test_a_dry_run_sends_and_writes_nothing(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    code, shown = run("bm25", "--dry-run")
    assert (code, shown) == (0, "Requests to language models: none\n")
    (place / "mine.toml").write_text('[pipeline]\nllm = "ollama:no-such-model"\n')
    code, shown = run("mine.toml", "--judge", "ollama:no-such-judge", "--dry-run")
    assert code == 0, shown
    assert re.search(
        r"ollama:no-such-model:\n  requests cached:  0\n  requests to send: 3\n", shown
    )
    assert re.search(
        r"ollama:no-such-judge:\n  requests cached:  0\n  requests to send: 9, of which 9 rest on",
        shown,
    )
    server = loopback(lambda asked: wire.Answered({"answer": "x"}))
    (place / "service.toml").write_text(
        f'[http]\nurl = "{server.url}/ask"\nbody = {{question = "{{query}}"}}\n'
    )
    code, shown = run("service.toml", "--judge", "ollama:no-such-judge", "--dry-run")
    assert (code, server.asked) == (0, []), shown
    assert "3 questions would be sent to service; the cost of this is unknown" in shown
    assert "ollama:no-such-judge would judge its answers, one request each" in shown
    assert not (place / "results").exists()


def test_interrupted_nothing_is_written(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "x"}, delay_s=20))
    (place / "slow.toml").write_text(
        f'[http]\nurl = "{server.url}/ask"\nbody = {{question = "{{query}}"}}\n'
    )
    options = [
        "--test-set",
        "tests.json",
        "--docs",
        "docs",
        "slow.toml",
        "--output",
        "mine",
    ]
    command = [sys.executable, "-m", "ragbench", "eval", *options]
    process = subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
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


def test_output_is_any_folder_or_one_file(place: Path) -> None:
    assert run("good.jsonl", "--output", "../outside")[0] == 0
    assert (place.parent / "outside" / "report.html").exists()
    assert run("good.jsonl", "--output", str(place / "deep" / "er"))[0] == 0
    assert len(load_result(place / "deep" / "er").answers) == 3
    for name, begin in (
        ("report.json", "{"),
        ("made/report.md", "# Evaluation"),
        ("r.html", "<!doctype html>"),
    ):
        code, shown = run("good.jsonl", "--output", name)
        assert code == 0, shown
        assert (place / name).read_text().startswith(begin)
        assert f"Report: {name}" in shown
    assert run("good.jsonl", "--output", "report.json")[0] == 2
    assert run("bad.jsonl", "--output", "report.json", "--force")[0] == 1
    assert read_report(place / "report.json")["passed"] is False
    assert not (place / "results").exists()


def test_json_is_all_that_standard_output_holds(place: Path) -> None:
    options = [
        "--test-set",
        "tests.json",
        "--docs",
        "docs",
        "--perspective",
        "retrieval",
        "--output",
        "r.json",
    ]
    done = runner.invoke(app, ["eval", "bad.jsonl", "--json", *options])
    assert done.exit_code == 1
    assert json.loads(done.stdout) == read_report(place / "r.json")
    assert "Report: r.json" in done.stderr


def test_no_number_is_cut_at_80_columns(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    options = ["eval", "--test-set", "tests.json", "--docs", "docs", "bad.jsonl"]
    lines = runner.invoke(app, options).stdout.splitlines()
    assert len(lines) <= 30
    assert lines[0].startswith("FAILED: 1 of 3 questions passed, 2 failed; 0 of 3 targets reached")
    assert "…" not in "".join(lines[: lines.index("")])
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if line.lstrip().startswith("nDCG@5 "))
    assert re.search(r" 0\.333 +\[0\.061, 0\.792\] +≥ 0\.6 +✗ missed \(\?\) +3/3 *$", row), row


def test_the_default_is_short_and_verbose_is_the_report(place: Path) -> None:
    _, short = run("bad.jsonl")
    _, report = run("bad.jsonl", "-v")
    assert "F1@k" in report
    assert "F1@k" not in short
    for name in ("nDCG@5", "R@5", "pass_rate"):
        assert f" {name} " in short


def test_only_the_questions_of_some_categories(place: Path) -> None:
    code, shown = run("--category", "cats, fish", "--output", "r.json")
    assert code == 0, shown
    report = read_report(place / "r.json")
    assert [one["query_id"] for one in report["questions"]] == ["q1", "q3"]
    assert report["counts"] == {"passed": 2, "failed": 0, "undecided": 0}
    assert report["facts"]["chunks"] == 3
    assert report["costs"] == []
    assert report["settings"]["categories"] == ["cats", "fish"]


def test_the_designs_name_of_the_context_perspective(place: Path) -> None:
    options = [
        "--test-set",
        "tests.json",
        "--docs",
        "docs",
        "good.jsonl",
        "--output",
        "r.json",
    ]
    done = runner.invoke(app, ["eval", *options, "--perspective", "context_quality"])
    assert done.exit_code == 0, done.output
    settings = read_report(place / "r.json")["settings"]
    assert settings["perspectives"] == ["context"]
    assert settings["shown_names"] == {"context": "context_quality"}
    for suffix in ("md", "html"):
        options[-1] = f"r.{suffix}"
        runner.invoke(app, ["eval", *options, "--perspective", "context_quality"])
        text = (place / f"r.{suffix}").read_text(encoding="utf-8")
        assert "context_quality" in text
        assert "context |" not in text
        runner.invoke(app, ["eval", *options, "--perspective", "context", "--force"])
        assert "context_quality" not in (place / f"r.{suffix}").read_text(encoding="utf-8")


def test_the_targets_of_a_published_design_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAG__MIN_CITATION_COVERAGE", raising=False)
    code, shown = run("good.jsonl", "--targets", "guide", "--output", "r.json")
    assert code == 0, shown
    rows = {
        row["measure"]: row for row in read_report(place / "r.json")["measures"] if row["target"]
    }
    assert {name: (row["target"], row["verdict"]) for name, row in rows.items()} == {
        "P@5": (0.7, "unreachable"),
        "R@5": (0.8, "passed"),
        "RR": (0.8, "passed"),
        "Success@5": (0.9, "passed"),
        **{
            name: (target, "unscored")
            for name, target in (
                ("llm_faithfulness", 0.9),
                ("llm_relevance", 0.8),
                ("citation_accuracy", 0.95),
                ("citation_coverage", 0.7),
            )
        },
    }
    assert run("bad.jsonl", "--targets", "guide", "--output", "r.json", "--force")[0] == 1
    code, shown = run("good.jsonl", "--targets", "gide")
    assert code == 2
    assert "framework, guide, phase4, adr, pipeline" in " ".join(shown.split())


def test_safety_without_samples_is_not_measured(place: Path) -> None:
    options = ["--test-set", "tests.json", "--docs", "docs", "--perspective", "safety"]
    for system in ("good.jsonl", "bm25"):
        done = runner.invoke(app, ["eval", *options, system])
        assert "safety: not measured: no safety samples" in done.output


def test_an_expected_document_may_lack_its_ending(place: Path) -> None:
    done = runner.invoke(app, [*ONE_QUESTION, "--expected-doc", "fish"])
    assert done.exit_code == 0, done.output
    assert "PASSED" in done.output


def judge_server(loopback: Callable[..., Any], wire: Any, patch: pytest.MonkeyPatch) -> Any:
    """A judge that finds one of two claims unsupported; each of its replies costs 11 + 7 tokens."""

    def reply(asked: Any) -> Any:
        first_word = re.search(r"<document-\w+>\n(\S+)", asked.body["messages"][-1]["content"])
        checks = [
            {"number": 1, "document": 1, "quote": first_word and first_word[1], "supported": True},
            {"number": 2, "document": 0, "quote": "", "supported": False},
        ]
        return wire.Answered(
            wire.openai(
                json.dumps(
                    {
                        "faithfulness": {"claims": ["It sleeps.", "It flies."], "checks": checks},
                        "correctness": {"reason": "", "verdict": True},
                    }
                )
            )
        )

    server = loopback(reply)
    patch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    patch.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
    Path("prices.toml").write_text(
        'checked = 2026-01-01\n[models]\n"openai:j" = { input = 1000, output = 1000 }\n'
    )
    patch.setenv("RAGBENCH_PRICES", "prices.toml")
    return server


def test_the_judge_costs_and_names_what_is_invented_in_every_report(
    place: Path, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    server = judge_server(loopback, wire, llm_environment)
    judge = (
        "--judge",
        "--judge-provider",
        "openai",
        "--judge-model",
        "j",
        "--criteria",
        "faithfulness,correctness",
        "--combine-criteria",
    )
    code, shown = run("good.jsonl", "--output", "mine", *judge)
    assert code == 1, shown  # half of each answer is invented, which is above the threshold of 0.2
    assert [asked.body["model"] for asked in server.asked] == ["j"] * 3
    assert "3 invented claims by the judge" in shown
    assert "q1, by judge: It flies." in shown
    assert "Cost: unknown: no token counts from good (generator unknown, judge 0.0540)" in shown
    folder = place / "mine"
    report = load_result(folder)
    assert {row.measure: row.value for row in report.rows}["llm_faithfulness"] == 0.5
    assert [case.invented_claims for case in report.cases] == [("It flies.",)] * 3
    assert report.cases[0].costs == {"generator": None, "judge": pytest.approx(0.018)}
    assert [(one.part, one.model, one.requests) for one in report.costs] == [
        ("generator", "good", 3),
        ("judge", "openai:j", 3),
    ]
    assert [one.usd for one in report.costs] == [None, pytest.approx(0.054)]
    for name in ("report.md", "report.html"):
        page = (folder / name).read_text()
        assert page.count("It flies.") >= 3
        assert "0.0540" in page


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_judge_whose_key_is_refused_ends_with_2_and_the_reason(
    place: Path, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    judge_server(loopback, wire, llm_environment)
    refusing = loopback(
        lambda asked: wire.Answered(b'{"error": {"message": "no such key"}}', status=401)
    )
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", refusing.url)
    code, shown = run("good.jsonl", "--judge", "openai:j", "--output", "r.json")
    assert code == 2, shown
    assert "judgements failed (100%)" in " ".join(shown.split())
    assert "401" in shown
    report = read_report(place / "r.json")
    assert (report["passed"], report["counts"]["passed"]) == (False, 0)


def test_judge_alone_means_the_environment(
    place: Path, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    server = judge_server(loopback, wire, llm_environment)
    llm_environment.setenv("RAG_EVAL_PROVIDER", "openai")
    llm_environment.setenv("RAG_EVAL_OPENAI_MODEL", "j")
    code, shown = run("good.jsonl", "--judge", "--criteria", "correctness")
    assert code == 0, shown
    assert {asked.body["model"] for asked in server.asked} == {"j"}


def test_a_maximum_cost_with_an_unpriced_judge_names_the_next_step(
    place: Path, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    server = judge_server(loopback, wire, llm_environment)
    options = (
        "good.jsonl",
        "--judge",
        "openai:mine",
        "--criteria",
        "correctness",
        "--max-cost",
        "1",
    )
    code, shown = run(*options)
    assert (code, server.asked) == (2, [])
    assert '"openai:mine" = { input = 3.00, output = 15.00 }' in shown
    code, shown = run(*options, "--allow-unpriced")
    assert code == 0, shown
    assert "no price for openai:mine" in shown


SERVICE_OPTIONS = (
    "--test-set tests.json --docs docs service.toml --output mine --perspective retrieval,answer"
).split()


def write_service(place: Path, url: str) -> None:
    body = '[http]\nurl = "{}/ask"\nbody = {{question = "{{query}}"}}\n'
    (place / "service.toml").write_text(body.format(url))


def test_a_place_that_cannot_be_written_is_found_before_anything_is_asked(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "x"}))
    write_service(place, server.url)
    (place / "taken").mkdir()
    (place / "taken" / "thesis.md").write_text("years of work")
    for output in ("./taken", "tests.json/mine", "/proc/mine"):
        code, shown = run("service.toml", "--output", output)
        assert code == 2, shown
    assert server.asked == []


def test_answers_of_a_service_survive_a_kill_and_only_the_rest_is_asked_for(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    asked: list[str] = []
    slow = True

    def reply(request: Any) -> Any:
        asked.append(request.body["question"])
        waits = slow and "fish" in request.body["question"]
        return wire.Answered({"answer": "It does.", "contexts": []}, delay_s=60 if waits else 0)

    server = loopback(reply)
    write_service(place, server.url)
    options = SERVICE_OPTIONS
    process = subprocess.Popen([sys.executable, "-m", "ragbench", "eval", *options], cwd=place)
    kept = place / "mine" / "journal.jsonl"
    until = time.monotonic() + 60
    while not (kept.exists() and kept.read_bytes().count(b"\n") == 2) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert [path.name for path in kept.parent.iterdir()] == ["journal.jsonl"]
    kept.write_bytes(kept.read_bytes() + b'{"query_id": "q3", "ans')  # a line that was not finished
    slow = False
    asked.clear()
    done = runner.invoke(app, ["eval", *options])
    assert done.exit_code in (0, 1), done.output
    assert asked == ["How do fish breathe?"]
    assert not kept.exists(), "its answers are in answers.jsonl now"
    assert [case.answer for case in load_result(kept.parent).cases] == ["It does."] * 3
    again = runner.invoke(app, ["eval", *options])
    assert again.exit_code == done.exit_code
    assert "Nothing is left to do" in again.output
    assert asked == ["How do fish breathe?"]
    (place / "scored.toml").write_text("")
    recorded = runner.invoke(
        app,
        [
            "eval",
            *options[:4],
            str(kept.with_name("answers.jsonl")),
            "--perspective",
            "retrieval,answer",
        ],
    )
    assert recorded.exit_code == done.exit_code, recorded.output
    asked.clear()
    forced = runner.invoke(app, ["eval", *options, "--force"])
    assert forced.exit_code == done.exit_code
    assert len(asked) == 3


def limited(place: Path, file_bytes: int, *options: str) -> subprocess.CompletedProcess[str]:
    """`ragbench eval` where no file can be longer, as on a full disk."""
    script = (
        "import resource, sys; from ragbench.cli import app; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2); app()"
    )
    command = [sys.executable, "-c", script, str(file_bytes), "eval", *options]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_on_a_full_disk_no_further_answer_is_asked_for_and_those_that_came_are_kept(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda request: wire.Answered({"answer": "x" * 3_000, "contexts": []}))
    write_service(place, server.url)
    options = SERVICE_OPTIONS
    full = limited(place, 5_000, *options)
    assert full.returncode == 2, full.stderr
    assert "Traceback" not in full.stderr
    reason = full.stderr.splitlines()[-1]
    assert re.match(
        r"ragbench: \S*journal\.jsonl cannot be written: File too large; make room", reason
    )
    kept = place / "mine" / "journal.jsonl"
    assert kept.read_bytes().count(b"\n") == 1
    assert len(server.asked) < len(CASES)
    server.asked.clear()
    assert runner.invoke(app, ["eval", *options]).exit_code in (0, 1)
    assert len(server.asked) == len(CASES) - 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_result_that_cannot_be_written_is_one_sentence_and_2(place: Path) -> None:
    options = ["--test-set", "tests.json", "--docs", "docs", "good.jsonl"]
    full = limited(place, 2_000, *options, "--output", "mine", "--perspective", "retrieval")
    assert full.returncode == 2, full.stderr
    assert "Traceback" not in full.stderr
    assert "mine cannot be written: File too large" in full.stderr.splitlines()[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_summary_that_cannot_be_written_changes_no_verdict(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/dev/full")
    code, output = run("good.jsonl", "--output", "mine")
    assert code == 0, output
    assert "The summary /dev/full cannot be written: No space left on device" in output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_history_that_cannot_be_written_changes_no_verdict(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_HISTORY", "on")
    for database in ("/dev/full", "/proc/no/such.sqlite", str(place)):
        monkeypatch.setenv("RAGBENCH_DATABASE", database)
        with pytest.warns(DataWarning, match="the run is not in the history"):
            code, output = run("good.jsonl", "--output", "mine", "--force")
        assert code == 0, output
        assert load_result(place / "mine").passed


def test_answers_of_another_system_are_not_taken(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "It does.", "contexts": []}))
    write_service(place, server.url)
    folder = place / "mine"
    folder.mkdir(parents=True)
    line = {"query_id": "q1", "question": CASES[0][1], "system": "other 123", "text": "No."}
    (folder / "journal.jsonl").write_text(json.dumps(line) + "\n")
    code, shown = run("service.toml", "--output", "mine")
    assert code == 2
    assert "holds answers of 'other 123'" in shown
    assert server.asked == []


def test_a_single_file_leaves_no_answers_behind(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "It does.", "contexts": []}))
    write_service(place, server.url)
    run("service.toml", "--output", "out/report.json")
    assert [path.name for path in (place / "out").iterdir()] == ["report.json"]


def test_the_baseline_is_compared_measure_by_measure(place: Path) -> None:
    assert run("good.jsonl", "--output", "good")[0] == 0
    good = "good"
    code, shown = run("bad.jsonl", "--baseline", good, "--output", "mine")
    assert code == 0, "three questions show no regression, and no target was named"
    assert re.search(r"nDCG@5 +1\.000 +0\.333 +-0\.667 +\[-[\d., -]+\d\] +· no", shown), shown
    assert "citation_form" not in shown, "not measured here"
    folder = place / "mine"
    markdown, page = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    assert "| nDCG@5 | 1.000 | 0.333 | -0.667 |" in markdown
    assert 'aria-label="nDCG@5 -0.667' in page


def test_a_name_without_a_slash_is_a_folder_here(place: Path) -> None:
    assert run("good.jsonl", "--output", "mine")[0] == 0
    assert (place / "mine" / "scores.csv").is_file()
    assert not (place / "results").exists()
    code, shown = run("good.jsonl", "--output", "mine.csv")
    assert code == 2
    assert "mine.csv ends in .csv; a report is a file that ends in .json" in shown


@pytest.mark.parametrize("judge", ["anthropic:claude-sonnet-5-5", "openai:gpt-5-mini"])
def test_a_dry_run_with_a_hosted_judge_needs_no_key(
    place: Path, llm_environment: pytest.MonkeyPatch, judge: str
) -> None:
    code, shown = run("good.jsonl", "--judge", judge, "--dry-run")
    assert code == 0, shown
    assert "requests to send:" in shown
    code, shown = run("good.jsonl", "--judge", judge, "--output", "r.json")
    assert (code, "no key" in shown) == (2, True)


@pytest.mark.parametrize("expected", [(), ("--expected-doc", "cats"), ("--expected-doc", "dogs")])
def test_one_blank_line_is_before_the_question(place: Path, expected: tuple[str, ...]) -> None:
    options = ["--docs", "docs", "--query", "How long do cats sleep?", *expected]
    shown = runner.invoke(app, ["eval", "bm25", *options]).output
    lines = [line.strip() for line in shown.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("Question:"))
    assert lines[at - 1] == ""
    assert lines[at - 2] != ""
