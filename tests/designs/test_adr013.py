"""The design "ADR-013": retrieval and answers tested one by one, with pytest's fixtures, reference
answers in a file, and a judge that answers TRUE or FALSE.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import DataError
from ragbench.evaluation import load_targets
from ragbench.testsets.ground_truth import PLACE, dataset_of_ground_truths, read_ground_truths
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document
from tests.designs.conftest import Run, write_lines

pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
ROOT = Path(__file__).parents[2]
NOTES_SERVER = ROOT / "tests" / "systems" / "notes_server.py"
TEXTS = {
    "tea": "Green tea is brewed at 80 degrees for two minutes.",
    "rye": "Rye bread keeps for a week in a linen bag.",
}
QUESTIONS = {"q-tea": "How hot is water for green tea?", "q-rye": "How long does rye bread keep?"}


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A BEIR folder with two questions, each with a highly relevant document."""
    corpus = {doc_id: Document(doc_id, text) for doc_id, text in TEXTS.items()}
    cases = [Case(query_id, text) for query_id, text in QUESTIONS.items()]
    qrels = {"q-tea": {"tea": 2}, "q-rye": {"rye": 2, "tea": 1}}
    return save_dataset(Dataset("cook", "test", corpus, cases, qrels), tmp_path / "cook")


def use_model(environment: pytest.MonkeyPatch, url: str, model: str = "m") -> None:
    values = {"OPENAI_MODEL": model, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-0"}
    for name, value in {"PROVIDER": "openai", **values}.items():
        environment.setenv(f"RAG_EVAL_{name}", value)


def pytest_in(folder: Path, *arguments: str, **environment: str) -> str:
    """Run pytest in a folder, which is its root; return what it printed."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith("PYTEST_ADDOPTS")
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *arguments]
    variables = {**kept, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_ground_truths_are_written_and_read(
    run: Run,
    beir: Path,
    loopback: Callable[..., Any],
    wire: Any,
    llm_environment: pytest.MonkeyPatch,
) -> None:
    def reply(asked: Any) -> Any:
        prompt = asked.body["messages"][-1]["content"]
        answer = "At 80 degrees [1]." if "green tea?" in prompt else "A week [1]."
        return wire.Answered(wire.openai(answer))

    server = loopback(reply)
    use_model(llm_environment, server.url)
    command = ("answers", str(beir), "--output", str(PLACE))
    code, shown = run(*command, "--query", "q-tea")
    assert (code, f"1 written to {PLACE}" in shown) == (0, True), shown
    [record] = json.loads(PLACE.read_text(encoding="utf-8"))
    assert record["query_id"] == "q-tea"
    assert record["query"] == QUESTIONS["q-tea"]
    assert record["expected_document_ids"] == ["tea"]
    assert "80 degrees" in record["ground_truth"]
    assert record["generated"]["model"] == "openai:m"
    # what a person adds or changes is read, and never replaced
    mine = {"query_id": "q-rye", "query": QUESTIONS["q-rye"], "ground_truth": "Seven days."}
    PLACE.write_text(json.dumps([{**record, "note": "checked"}, mine]), encoding="utf-8")
    n_asked = len(server.asked)
    code, shown = run(*command, "--replace", "--no-cache")
    assert (code, "1 of 2 queries get a reference answer" in shown) == (0, True), shown
    assert len(server.asked) == n_asked + 1
    tea, rye = json.loads(PLACE.read_text(encoding="utf-8"))
    assert (rye, tea["note"]) == (mine, "checked")
    code, shown = run(*command)
    assert "0 of 2 queries" in shown
    # an entry without an answer gets one
    PLACE.write_text(json.dumps([{**mine, "ground_truth": ""}]), encoding="utf-8")
    assert run(*command)[0] == 0
    assert "week" in read_ground_truths(PLACE)["q-rye"]["ground_truth"]


@pytest.mark.parametrize(
    "content",
    [
        {"q": "a"},
        ["text"],
        [{"query": "no id"}],
        [{"query_id": "a", "ground_truth": 3}],
        [{"query_id": "a", "expected_document_ids": "d"}],
        [{"query_id": "a"}, {"query_id": "a"}],
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "ground_truth.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=r"ground_truth\.json"):
        read_ground_truths(file)


def test_a_file_is_a_dataset(tmp_path: Path) -> None:
    file = tmp_path / "ground_truth.json"
    record = {
        "query_id": "q",
        "query": "Why?",
        "ground_truth": "So.",
        "expected_document_ids": ["d"],
    }
    file.write_text(json.dumps([record]), encoding="utf-8")
    data = dataset_of_ground_truths(file)
    assert (data.queries, data.qrels) == ({"q": "Why?"}, {"q": {"d": 1}})
    assert data.cases[0].reference_answer == "So."


def printed_blocks() -> dict[str, str]:
    """Return file -> content, as the guide prints them."""
    text = (ROOT / "notebooks" / "guide" / "ci.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (tests/rag_evaluation/\S+)\n(.*?)```", text, re.DOTALL)
    return dict(blocks)


def test_the_printed_fixture_searches_a_notes_server(
    tmp_path: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    blocks = printed_blocks()
    assert [Path(name).name for name in blocks] == ["conftest.py", "test_retrieval.py"]
    for name, content in blocks.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    records = [
        {"query_id": query_id, "query": text, "expected_document_ids": [query_id[2:]]}
        for query_id, text in QUESTIONS.items()
    ]
    (tmp_path / PLACE).parent.mkdir()
    (tmp_path / PLACE).write_text(json.dumps(records), encoding="utf-8")
    found = ["tea", "rye"]

    def reply(asked: Any) -> Any:
        return wire.Answered([{"id": doc_id, "title": doc_id} for doc_id in found])

    server = loopback(reply)
    shown = pytest_in(tmp_path, NOTES_URL=server.url, NOTES_TOKEN="t")
    assert "test_context_recall PASSED" in shown, shown
    assert len(server.asked) == 2
    found.remove("rye")
    shown = pytest_in(tmp_path, NOTES_URL=server.url)
    assert "test_context_recall FAILED" in shown, shown
    assert "set NOTES_URL to the address of the notes server" in pytest_in(tmp_path, "-rs")


def test_the_client_of_an_mcp_server_is_one_for_the_session(
    tmp_path: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    pytest.importorskip("mcp")
    server = loopback(lambda asked: wire.Answered(wire.openai("TRUE")))
    model = {"PROVIDER": "openai", "OPENAI_MODEL": "m", "OPENAI_BASE_URL": server.url}
    environment = {f"RAG_EVAL_{name}": text for name, text in model.items()}
    environment |= {"RAG_EVAL_OPENAI_API_KEY": "sk-0", "RAGBENCH_YES": "1"}
    (tmp_path / "test_mcp.py").write_text(
        """
import pytest

@pytest.fixture(scope="session")
def search(mcp_sampling_client):
    return mcp_sampling_client

async def test_first(search, mcp_sampling_client):
    assert await search.call_tool("echo", arguments={"query": "tea"})
    pytest.first = mcp_sampling_client

async def test_second(mcp_sampling_client):
    assert mcp_sampling_client is pytest.first
    assert "rye" in str(await mcp_sampling_client.call_tool("echo", arguments={"query": "rye"}))
"""
    )
    (tmp_path / "notes.toml").write_text(
        f"[mcp]\nserver = [{sys.executable!r}, {str(NOTES_SERVER)!r}]\ntool = 'echo'\n"
        "env = ['PYTHONPATH']\n"
    )
    options = ("--ragbench-system=notes.toml", "-W", "error")
    shown = pytest_in(tmp_path, *options, **environment)
    assert "2 passed" in shown, shown
    marked = "import pytest\n@pytest.mark.ragbench(system='other.toml')\n"
    (tmp_path / "test_other.py").write_text(f"{marked}def test_x(mcp_sampling_client): pass\n")
    shown = pytest_in(tmp_path, *options, **environment)
    assert "notes.toml, other.toml" in shown.replace(
        "other.toml, notes.toml", "notes.toml, other.toml"
    )
    assert "name one system" in shown


@pytest.mark.parametrize("provider", ["openai", "ollama", "anthropic"])
def test_another_judge_does_not_read_the_verdicts_of_the_first(
    provider: str,
    run: Run,
    tmp_path: Path,
    loopback: Callable[..., Any],
    wire: Any,
    llm_environment: pytest.MonkeyPatch,
) -> None:
    case = {"id": "q", "question": QUESTIONS["q-tea"], "expectedAnswer": "At 80 degrees."}
    (tmp_path / "tests.json").write_text(json.dumps([case]))
    context = {"id": "tea", "doc_id": "tea", "text": TEXTS["tea"]}
    write_lines(
        tmp_path / "a.jsonl", {"query_id": "q", "answer": "At 80 degrees.", "contexts": [context]}
    )
    scores = {"right": 1.0, "wrong": 0.0}

    def judge_that_says(word: str) -> Any:
        def reply(asked: Any) -> Any:
            content = json.dumps({"correctness": {"reason": "", "verdict": scores[word] == 1}})
            return wire.Answered(getattr(wire, provider)(content))

        return loopback(reply)

    right, wrong = judge_that_says("right"), judge_that_says("wrong")
    llm_environment.setenv("RAG_EVAL_PROVIDER", provider)
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_MODEL", "m")
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "sk-0")
    options = ("--test-set", "tests.json", "--judge", "env", "--criteria", "correctness")

    def verdict(url: str, output: str, *more: str) -> tuple[float, str]:
        llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", url)
        code, shown = run("eval", "a.jsonl", *options, "--output", output, *more)
        assert code in (0, 1), shown
        lines = (tmp_path / output / "scores.csv").read_text(encoding="utf-8").splitlines()
        [line] = [line for line in lines if ",llm_correctness," in line]
        return float(line.rpartition(",")[2]), shown

    assert verdict(right.url, "first")[0] == 1
    assert verdict(wrong.url, "second")[0] == 0  # the same name at another address
    n_asked = len(right.asked)
    assert verdict(right.url, "third")[0] == 1
    assert len(right.asked) == n_asked  # its verdicts are kept
    scores["right"] = 0.0  # another model behind the same name and address
    value, shown = verdict(right.url, "first")
    assert (value, "--no-cache also asks language models that changed" in shown) == (1, True)
    assert verdict(right.url, "first", "--no-cache")[0] == 0


def test_the_preset_has_the_targets_of_the_design() -> None:
    assert dict(load_targets("adr").measures) == {"R@10": 0.8, "llm_correctness": 1}
