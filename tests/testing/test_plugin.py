"""The pytest plugin in pytest sessions of its own: fixtures, skips, the table, the report, and
several processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ragbench.errors import ConfigError
from ragbench.testing import LabelledCase
from ragbench.testsets.ground_truth import PLACE
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document

SERVER = Path(__file__).parents[1] / "systems" / "notes_server.py"

HEAD = """
import pytest
from ragbench.testing import assert_answer_correct, assert_context_recall
"""

RETRIEVAL = """
@pytest.mark.ragbench(query_ids=["p002", "p003", "p004"])
def test_recall(rag_system, ragbench_case):
    answer = rag_system.answer(ragbench_case.query_id, ragbench_case.query)
    assert_context_recall(answer, ragbench_case, k=10, at_least=0.0)
"""

FAILING = """
from ragbench.testing import LabelledCase
from ragbench.types import Case

CASE = LabelledCase(Case("q", "When did it open?"), {"a": 1, "b": 1})

def test_system_fails():
    assert_context_recall(["c", "a"], CASE, k=10, at_least=0.8)

def test_test_is_wrong():
    assert_context_recall(["a", "b"], CASE, k=1, at_least=0.8)

def test_answer_is_wrong():
    assert_answer_correct("In 1907.", Case("q", "When did it open?", gold_facts=(("1881",),)))
"""

LLM = """
async def test_llm(evaluation_llm):
    assert await evaluation_llm("hello")
"""
MCP = """
async def test_mcp(mcp_sampling_client):
    pass
"""
# As the ADR has it: coroutines without a mark, the data as a list, the model and the client
# awaited.
ADR = """
async def test_retrieval_recall(nfcorpus_test_data):
    assert nfcorpus_test_data
    for test_case in nfcorpus_test_data:
        retrieved_doc_ids = {"highly-1", "highly-2", "other"}
        expected_doc_ids = set(test_case.expected_document_ids)
        recall = len(expected_doc_ids & retrieved_doc_ids) / len(expected_doc_ids)
        assert recall >= 0.8, f"Recall {recall} below threshold for query: {test_case.query}"

async def test_answer_correctness(mcp_sampling_client, evaluation_llm, nfcorpus_test_data):
    for test_case in nfcorpus_test_data:
        result = await mcp_sampling_client.call_tool(
            "talk_about", arguments={"query": test_case.query, "limit": 5}
        )
        rag_answer = result["generated_answer"]
        evaluation_prompt = f"Question: {test_case.query} Is {rag_answer!r} the same as {test_case.ground_truth!r}?"
        evaluation_result = await evaluation_llm(evaluation_prompt)
        assert evaluation_result.strip().upper() == "TRUE", f"Got: {rag_answer}"

async def test_that_fails(evaluation_llm):
    assert await evaluation_llm("Is it FALSE?") == "TRUE"
"""


def run(
    folder: Path, text: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (folder / "test_rag.py").write_text(HEAD + text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")  # no settings of a folder above
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RAG_EVAL_", "PYTEST_ADDOPTS"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments],
        cwd=folder,
        env={**kept, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
    )


def test_one_test_per_question_a_table_and_the_report(tmp_path: Path) -> None:
    done = run(tmp_path, RETRIEVAL, "-v", "--ragbench-report", "out/report.json")
    assert done.returncode == 0, done.stdout + done.stderr
    for query_id in ("p002", "p003", "p004"):
        assert f"test_recall[{query_id}] PASSED" in done.stdout
    table = [
        line.split() for line in done.stdout.splitlines() if line.startswith("context_recall@10")
    ]
    assert [row[2:] for row in table] == [["3/3", "3/3"]]
    assert "report: out/report.json" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [one["query_id"] for one in report["questions"]] == ["p002", "p003", "p004"]


GATED = """
def test_recall(ragbench_case):
    results = sorted(ragbench_case.relevant) if ragbench_case.query_id == "p002" else ["none"]
    assert_context_recall(results, ragbench_case, at_least=0.0)
"""


@pytest.mark.parametrize(
    ("gate", "word", "processes"),
    [
        ("0.4", "PASSED", []),
        ("0.6", "FAILED", ["-n2"]),
        pytest.param("0.4", "PASSED", ["-n2"], marks=pytest.mark.simulation),
        pytest.param("0.6", "FAILED", [], marks=pytest.mark.simulation),
    ],
)
def test_a_gate_decides_the_exit_status(
    gate: str, word: str, processes: list[str], tmp_path: Path
) -> None:
    """Every test passes; one of two questions has its documents, so Success@5 is 0.5."""
    gate = f"--ragbench-option=fail_under=Success@5={gate}"
    questions = "--ragbench-queries=p002,p003"
    done = run(tmp_path, GATED, questions, gate, *processes)
    assert "2 passed" in done.stdout
    assert f"{word}: " in done.stdout
    assert done.returncode == (word == "FAILED"), done.stdout + done.stderr
    assert "report:" not in done.stdout
    done = run(tmp_path, GATED, questions, gate, "--ragbench-report=out.json", *processes)
    assert done.returncode == (word == "FAILED")
    assert "report: out.json" in done.stdout


def test_a_gate_that_cannot_be_measured_is_not_passed(tmp_path: Path) -> None:
    gate = "--ragbench-option=fail_under=llm_correctness=0.1"
    done = run(tmp_path, GATED, "--ragbench-queries=p002,p003", gate)
    assert (done.returncode, "no verdict: --fail-under" in done.stdout) == (1, True), done.stdout
    asks = "def test_ask(ragbench_case, rag_system):\n    assert rag_system is not None\n"
    done = run(tmp_path, asks, "--ragbench-queries=p002", gate)
    assert (done.returncode, "no verdict: no assertion" in done.stdout) == (1, True), done.stdout
    unrelated = "def test_arithmetic():\n    assert 1 + 1 == 2\n"
    assert run(tmp_path, unrelated, gate).returncode == 0


def test_options_choose_the_questions_and_the_other_forms_of_the_report(tmp_path: Path) -> None:
    text = """
def test_ids(ragbench_dataset, ragbench_case):
    assert list(ragbench_dataset.queries) == ["p002", "p003"]
    assert_context_recall(sorted(ragbench_case.relevant), ragbench_case, at_least=1.0)
"""
    done = run(
        tmp_path,
        text,
        "--ragbench-queries=p002,p003,p004",
        "--ragbench-n=2",
        "--ragbench-report=report.html",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        (tmp_path / "report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    )
    done = run(tmp_path, text, "--ragbench-queries=p002,p003", "--ragbench-report=junit.xml")
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    assert {"test_ids[p002]", "test_ids[p003]"} == {str(case.get("name")) for case in cases}


def test_junit_has_the_tests_and_failures_that_pytest_counts(tmp_path: Path) -> None:
    text = """
def test_good(ragbench_case):
    assert_context_recall(sorted(ragbench_case.relevant), ragbench_case, at_least=1.0)

def test_bad(ragbench_case):
    assert_answer_correct("It is <red>.", ragbench_case)

def test_one(ragbench_case):
    results = sorted(ragbench_case.relevant) if ragbench_case.query_id == "p003" else ["none"]
    assert_context_recall(results, ragbench_case)
"""
    done = run(tmp_path, text, "--ragbench-queries=p002,p003", "--ragbench-report=junit.xml")
    assert "3 failed, 3 passed" in done.stdout
    [suite] = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "3", "0")
    failed = {case.get("name") for case in suite if case.find("failure") is not None}
    assert failed == {"test_bad[p002]", "test_bad[p003]", "test_one[p002]"}


def test_a_function_of_a_module_is_a_system(tmp_path: Path) -> None:
    (tmp_path / "my_rag.py").write_text(
        "def answer(question):\n    return 'In 1881: ' + question\n"
    )
    text = """
def test_it(rag_system, ragbench_case):
    assert rag_system.answer("q", ragbench_case.query).text.startswith("In 1881: ")
"""
    done = run(tmp_path, text, "--ragbench-queries=p002", "--ragbench-system=my_rag:answer")
    assert done.returncode == 0, done.stdout + done.stderr


def test_failures_of_system_and_test_are_distinguished(tmp_path: Path) -> None:
    done = run(tmp_path, FAILING)
    assert done.returncode == 1
    assert "query 'q': When did it open?" in done.stdout
    assert "result: c, a" in done.stdout
    assert "ceiling at k = 10: 1.00" in done.stdout
    assert "ConfigError: the test asks for a recall of 0.80 at k = 1" in done.stdout
    assert "no system can exceed 0.50" in done.stdout
    assert "0% of the gold facts are stated" in done.stdout
    assert "assert_answer_correct(" in done.stdout  # the line of the test
    for own in ("asserting.py", "raise AssertionError", "raise ConfigError"):
        assert own not in done.stdout


def test_without_keys_and_servers_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    done = run(tmp_path, LLM, RAG_EVAL_PROVIDER="openai")
    assert done.returncode == 0, done.stdout
    assert (
        "no evaluation LLM: no model of openai is named; set RAG_EVAL_OPENAI_MODEL" in done.stdout
    )
    assert "1 skipped" in done.stdout
    unreachable = {
        "RAG_EVAL_OLLAMA_MODEL": "m",
        "RAG_EVAL_OLLAMA_BASE_URL": "http://127.0.0.1:9",
    }
    done = run(tmp_path, LLM, "-k", "llm", **unreachable)
    assert (
        "no evaluation LLM: ollama:m: no server takes connections at 127.0.0.1, port 9"
        in done.stdout
    )
    unreachable["RAG_EVAL_OLLAMA_BASE_URL"] = "http://user:secret@127.0.0.1:9"
    done = run(tmp_path, LLM, "-k", "llm", **unreachable)
    assert "RAG_EVAL_OLLAMA_BASE_URL is not an address without a user" in done.stdout
    assert "secret" not in done.stdout


def test_coroutines_run_as_the_adr_writes_them(tmp_path: Path, loopback: Any, wire: Any) -> None:
    pytest.importorskip("mcp")
    small = tmp_path / "nfcorpus"
    data = Dataset(
        "nfcorpus",
        "test",
        {name: Document(name, f"Text of {name}.") for name in ("highly-1", "highly-2", "somewhat")},
        (
            Case("PLAIN-2510", "Coffee and arteries?", reference_answer="It helps."),
            Case("PLAIN-1", "Not chosen?"),
        ),
        {"PLAIN-2510": {"highly-1": 2, "highly-2": 2, "somewhat": 1}, "PLAIN-1": {"somewhat": 2}},
    )
    save_dataset(data, small)
    seen: list[str] = []

    def reply(asked: Any) -> Any:
        seen.append(asked.body["messages"][-1]["content"])
        judged, right = "the same as" in seen[-1], "'It helps.' the same as 'It helps.'" in seen[-1]
        return wire.Answered(
            wire.openai("It helps." if "sampled" in seen[-1] else str(judged and right).upper())
        )

    server = loopback(reply)
    system = (
        f"[mcp]\nserver = [{sys.executable!r}, {str(SERVER)!r}]\ntool = 'talk_about'\nenv = "
        "['PYTHONPATH']\n"
    )
    (tmp_path / "notes.toml").write_text(system, encoding="utf-8")
    options = (f"--ragbench-dataset={small}", "--ragbench-system=notes.toml", "-W", "error")
    model = {
        "RAG_EVAL_PROVIDER": "openai",
        "RAG_EVAL_OPENAI_MODEL": "m",
        "RAG_EVAL_OPENAI_BASE_URL": server.url,
        "RAG_EVAL_OPENAI_API_KEY": "sk-0",
        "RAGBENCH_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = run(tmp_path, ADR, "-v", *options, **model)
    assert "test_retrieval_recall PASSED" in done.stdout, done.stdout
    assert "test_answer_correctness PASSED" in done.stdout, done.stdout
    assert "test_that_fails FAILED" in done.stdout
    assert any("sampled: Coffee and arteries?" in prompt for prompt in seen)
    assert len(seen) == 3
    alone = run(tmp_path, ADR, "-k", "answer_correctness", *options, PYTHONPATH=model["PYTHONPATH"])
    assert "no evaluation LLM" in alone.stdout
    assert alone.returncode == 0


def test_nfcorpus_is_skipped_where_it_cannot_be_had(tmp_path: Path) -> None:
    environment = {
        "RAGBENCH_CACHE_DIR": str(tmp_path / "cache"),
        "RAGBENCH_BEIR_URL": "http://127.0.0.1:9",
    }
    done = run(tmp_path, ADR, "-k", "recall", **environment)
    assert done.returncode == 0, done.stdout
    assert "no nfcorpus: " in done.stdout


def test_the_mcp_client_needs_a_server_that_is_there(
    tmp_path: Path, loopback: Any, wire: Any
) -> None:
    assert "mcp_sampling_client expects a .toml file with [mcp]" in run(tmp_path, MCP).stdout
    (tmp_path / "gone.toml").write_text(
        '[mcp]\nserver = "http://127.0.0.1:9/mcp"\ntool = "x"\n', encoding="utf-8"
    )
    done = run(tmp_path, MCP, "--ragbench-system=gone.toml")
    assert "no server takes connections at its address" in done.stdout
    command = f"[mcp]\nserver = [{sys.executable!r}, '-c', 'raise SystemExit(3)']\ntool = 'x'\n"
    (tmp_path / "ends.toml").write_text(command, encoding="utf-8")
    server = loopback(lambda asked: wire.Answered(wire.openai("x")))
    model = {
        "RAG_EVAL_PROVIDER": "openai",
        "RAG_EVAL_OPENAI_MODEL": "m",
        "RAG_EVAL_OPENAI_BASE_URL": server.url,
    }
    done = run(
        tmp_path, MCP, "--ragbench-system=ends.toml", RAG_EVAL_OPENAI_API_KEY="sk-0", **model
    )
    assert "the MCP server cannot be reached" in done.stdout, done.stdout
    assert done.returncode == 0


def test_chosen_questions_are_chosen_in_the_file_of_ground_truths_too(tmp_path: Path) -> None:
    file = tmp_path / PLACE
    file.parent.mkdir(parents=True)
    records = [
        {"query_id": name, "query": "Why?", "ground_truth": "So.", "expected_document_ids": ["d"]}
        for name in ("a", "b", "c")
    ]
    file.write_text(json.dumps(records), encoding="utf-8")
    text = """
def test_ids(nfcorpus_test_data):
    assert not [case.query_id for case in nfcorpus_test_data]
"""
    assert "['a', 'b', 'c']" in run(tmp_path, text).stdout
    assert "assert not ['b']" in run(tmp_path, text, "--ragbench-queries=b").stdout


def test_a_question_without_a_reference_answer_has_no_ground_truth() -> None:
    case = LabelledCase(Case("q", "Who?"), {"a": 1, "b": 2})
    assert (case.query, case.expected_document_ids) == ("Who?", ["b", "a"])
    with pytest.raises(ConfigError, match="'q' has no reference answer"):
        _ = case.ground_truth


def test_a_misspelt_provider_is_an_error_and_not_a_skip(tmp_path: Path) -> None:
    done = run(tmp_path, LLM, "-k", "llm", RAG_EVAL_PROVIDER="olama")
    assert done.returncode == 1
    assert "did you mean 'ollama'?" in done.stdout


def test_errors_in_marker_and_options_are_named(tmp_path: Path) -> None:
    marked = '@pytest.mark.ragbench(querys=["p002"])\ndef test_x(ragbench_dataset):\n    pass\n'
    assert (
        "@pytest.mark.ragbench has no argument 'querys'; expected dataset, corpus, split"
        in run(tmp_path, marked).stdout
    )
    plain = "def test_x(ragbench_dataset):\n    pass\n"
    assert (
        "has no question 'unknown'; check query_ids"
        in run(tmp_path, plain, "--ragbench-queries=unknown").stdout
    )
    done = run(tmp_path, plain, "--ragbench-report=report.pdf")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "expected a folder or a file .json, .md, .html or .xml" in done.stderr


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (
            '[http]\nurl = "http://127.0.0.1:9/ask"\nbody = { q = "{query}" }',
            "no server takes connections",
        ),
        (
            '[http]\nurl = "http://127.0.0.1:9/ask"\nbody = { q = "{query}" }\nheaders = { A = '
            '"{env:NO_SUCH_KEY}" }',
            "set NO_SUCH_KEY in the environment",
        ),
        (
            '[http]\nurl = "{env:NO_SUCH_ADDRESS}/ask"\nbody = { q = "{query}" }',
            "set NO_SUCH_ADDRESS",
        ),
        (
            '[http]\nurl = "http://{env:LOCAL_ADDRESS}/ask"\nbody = { q = "{query}" }',
            "no server takes connections",
        ),
    ],
)
def test_a_system_without_its_server_or_key_is_skipped(
    tmp_path: Path, table: str, reason: str
) -> None:
    (tmp_path / "system.toml").write_text(table, encoding="utf-8")
    done = run(tmp_path, RETRIEVAL, "--ragbench-system=system.toml", LOCAL_ADDRESS="127.0.0.1:9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert reason in done.stdout
    assert "3 skipped" in done.stdout


def test_a_report_on_a_dataset_given_by_path(tmp_path: Path) -> None:
    save_dataset(load_dataset("pydoc").select(["p002", "p003"]), tmp_path / "mine" / "nfc")
    text = """
import os
import ragbench as rb
from ragbench.testing import labelled_cases

@pytest.mark.parametrize("case", labelled_cases(rb.load_dataset("mine/nfc")), ids=lambda case: case.query_id)
def test_recall(case, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert_context_recall(sorted(case.relevant), case, at_least=1.0)
"""
    for arguments in ((), ("-n", "2")):
        done = run(tmp_path, text, "--ragbench-report=report.json", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "report: report.json" in done.stdout
        report = json.loads((tmp_path / "report.json").read_text())
        assert [one["query_id"] for one in report["questions"]] == ["p002", "p003"]


def test_several_processes_measure_and_one_reports(tmp_path: Path) -> None:
    done = run(tmp_path, RETRIEVAL, "-n", "2", "--ragbench-report", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("context_recall@10") == 1
    assert "3/3" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert len(report["questions"]) == 3


def test_the_two_part_evaluation_runs_on_any_beir_folder(tmp_path: Path) -> None:
    data = load_dataset("pydoc").select(["p002", "p003"])
    save_dataset(data, tmp_path / "small")
    file = Path(__file__).with_name("test_two_part.py")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-rA",
            str(file),
            f"--ragbench-dataset={tmp_path / 'small'}",
            f"--rootdir={file.parents[2]}",
        ],
        cwd=file.parents[2],
        capture_output=True,
        text=True,
    )
    assert "SKIPPED" not in done.stdout, done.stdout
    assert "PASSED" in done.stdout or "FAILED" in done.stdout
    assert done.returncode == int("FAILED" in done.stdout), done.stdout


def test_a_session_that_uses_none_of_it_sees_none_of_it(tmp_path: Path) -> None:
    code = (
        "import sys\n\ndef test_x():\n    assert not {'pandas', 'torch', 'pydantic', 'scipy'} "
        "& set(sys.modules)\n"
    )
    (tmp_path / "test_plain.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "test_plain.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ragbench ==" not in done.stdout


def test_a_bearer_key_is_found(tmp_path: Path) -> None:
    spec = '[http]\nurl = "http://127.0.0.1:9/ask"\nbody = {q = "{query}"}\n'
    (tmp_path / "mine.toml").write_text(
        spec + 'headers = {Authorization = "Bearer {env:MY_TOKEN}"}\n', encoding="utf-8"
    )
    text = "def test_x(rag_system):\n    pass\n"
    lacking = run(tmp_path, text, "--ragbench-system=mine.toml").stdout
    assert "the system mine.toml: set MY_TOKEN in the environment" in lacking
    there = run(tmp_path, text, "--ragbench-system=mine.toml", MY_TOKEN="sk-1").stdout
    assert "the system mine.toml: no server takes connections at its address" in there


def test_a_report_that_cannot_be_written_ends_no_session(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run(tmp_path, RETRIEVAL, "--ragbench-report=file/report.json", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no report was written: " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_pytest_inside_a_test_takes_no_measure_away(tmp_path: Path) -> None:
    text = """
pytest_plugins = ["pytester"]

def test_inner(pytester, ragbench_case):
    pytester.makepyfile("def test_x(): pass")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    assert_context_recall(sorted(ragbench_case.relevant), ragbench_case, at_least=1.0)
"""
    done = run(tmp_path, text, "--ragbench-queries=p002", "-p", "pytester")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "context_recall@10  1.000     1/1     1/1" in done.stdout
