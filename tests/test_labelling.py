"""`ragbench answers`, `ragbench testset generate` and their notebooks, against a real server on
this machine.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document

ROOT = Path(__file__).parents[1]
runner = CliRunner()
Start = Callable[..., Any]
Executed = Callable[..., tuple[str, int]]

LANDS = [
    "Albania",
    "Brazil",
    "Chad",
    "Denmark",
    "Ecuador",
    "Fiji",
    "Ghana",
    "Haiti",
    "Iceland",
    "Japan",
    "Kenya",
    "Laos",
]
GOODS = [
    "amber",
    "butter",
    "copper",
    "dates",
    "emeralds",
    "figs",
    "ginger",
    "hemp",
    "iron",
    "jade",
    "kelp",
    "linen",
]


def documents() -> dict[str, Document]:
    return {
        land: Document(
            land,
            f"The country of {land} is known for its {goods}. It sells {100 + i} tonnes "
            f"of {goods} abroad each year, by sea and by rail, and taxes every tonne of it at "
            "its own border.",
            metadata={"date": f"20{10 + i}"},
        )
        for i, (land, goods) in enumerate(zip(LANDS, GOODS, strict=True))
    }


def answered(prompt: str) -> str:
    """What a well-behaved model would say to each of our three prompts."""
    if "Write the reference answer" in prompt:
        tonnes = re.search(r"sells (\d+ tonnes of \w+)", prompt)
        return f"It exports {tonnes[1]}." if tonnes else "no answer found in the documents"
    if "Decide two things" in prompt:
        return json.dumps(
            {"reason": "It is there.", "clear": True, "supported": "Chad" not in prompt}
        )
    quote = re.search(r"It sells (\d+) tonnes of (\w+)[^.]*\.", prompt)
    assert quote is not None
    question = f"How many tonnes of {quote[2]} leave their country of origin every twelve months?"
    cases = [
        {"quote": quote[0], "question": question, "answer": f"{quote[1]} tonnes."},
        {"quote": quote[0], "question": f"Is {quote[2]} sold abroad?", "answer": "Yes."},
    ]
    return json.dumps({"cases": cases})


@pytest.fixture
def server(loopback: Start, wire: Any, llm_environment: pytest.MonkeyPatch) -> Any:
    started = loopback(
        lambda asked: wire.Answered(wire.openai(answered(asked.body["messages"][-1]["content"])))
    )
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", started.url)
    return started


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    lines = [{"_id": d.doc_id, "text": d.text, **d.metadata} for d in documents().values()]
    (folder / "corpus.jsonl").write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8"
    )
    return folder


@pytest.fixture
def unanswered(tmp_path: Path) -> Path:
    cases = tuple(Case(f"q-{land}", f"What does {land} export?") for land in LANDS)
    qrels = {f"q-{land}": {land: 1} for land in LANDS}
    return save_dataset(Dataset("set", "test", documents(), cases, qrels), tmp_path / "set")


def run(*arguments: str | Path) -> tuple[int, str]:
    done = runner.invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (["answers"], "ragbench answers my-dataset --llm"),
        (["testset"], "ragbench testset convert my.yaml my.jsonl"),
        (["testset", "generate"], "ragbench testset generate my-documents"),
    ],
)
def test_help_has_an_example(arguments: list[str], example: str) -> None:
    status, output = run(*arguments, "--help")
    assert status == 0
    assert example in " ".join(output.split())


def test_answers_are_written_once(server: Any, unanswered: Path) -> None:
    status, output = run("answers", unanswered, "--llm", "openai:m", "--dry-run")
    assert (status, server.asked) == (0, [])
    assert "requests to send: 12" in output
    status, output = run("answers", unanswered, "--llm", "openai:m")
    assert status == 0
    assert "12 written" in output
    answers = [case.reference_answer for case in load_dataset(unanswered).cases]
    assert answers[0] == "It exports 100 tonnes of amber."
    assert len(server.asked) == 12
    status, output = run("answers", unanswered, "--llm", "openai:m")
    assert (status, len(server.asked)) == (0, 12)
    assert output == "0 of 12 queries get a reference answer by openai:m.\n"


def test_a_persons_answer_is_never_replaced(server: Any, unanswered: Path) -> None:
    run("answers", unanswered, "--llm", "openai:m")
    path = unanswered / "answers.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace("100 tonnes", "a hundred tonnes"), encoding="utf-8"
    )
    status, output = run("answers", unanswered, "--llm", "openai:other", "--replace")
    assert status == 0
    assert "11 of 12" in output
    cases = load_dataset(unanswered).cases
    assert cases[0].reference_answer == "It exports a hundred tonnes of amber."
    assert [case.metadata["generated"]["model"] for case in cases] == ["openai:m"] + [
        "openai:other"
    ] * 11


def test_answers_of_a_dataset_elsewhere_go_to_a_copy(
    server: Any, unanswered: Path, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in unanswered.iterdir() if path.is_file()}
    out = tmp_path / "copy"
    assert run("answers", unanswered, "--llm", "openai:m", "--output", out, "--limit", "3")[0] == 0
    assert {
        path.name: path.read_bytes() for path in unanswered.iterdir() if path.is_file()
    } == before
    assert (
        run("answers", unanswered, "--llm", "openai:m", "--output", out, "--query", "q-Kenya")[0]
        == 0
    )
    answers = {
        case.query_id: case.reference_answer
        for case in load_dataset(out).cases
        if case.reference_answer
    }
    assert list(answers) == ["q-Albania", "q-Brazil", "q-Chad", "q-Kenya"]


def test_failed_requests_are_reported_and_sent_again(
    loopback: Start, wire: Any, unanswered: Path, server: Any
) -> None:
    broken = [True]

    def reply(asked: Any) -> Any:
        prompt = asked.body["messages"][-1]["content"]
        if broken[0] and "Kenya" in prompt:
            return wire.Answered({"error": {"message": "too long"}}, status=400)
        return wire.Answered(wire.openai(answered(prompt)))

    server.reply = reply
    status, output = run("answers", unanswered, "--llm", "openai:m")
    assert status == 1
    assert "11 written" in output
    assert "1 failed, first 'q-Kenya'" in output
    broken[0] = False
    assert run("answers", unanswered, "--llm", "openai:m")[0] == 0
    assert len(server.asked) == 13


def test_a_test_set_is_made_from_documents(server: Any, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "made"
    options: list[str | Path] = ["--llm", "openai:m", "--output", out, "--chunks", "12"]
    status, output = run("testset", "generate", corpus, *options, "--dry-run")
    assert (status, server.asked, out.exists()) == (0, [], False)
    assert "requests to send: 36, of which 24 rest on replies" in output
    status, output = run("testset", "generate", corpus, *options)
    assert status == 0
    assert re.search(r"11 +accepted", output)
    assert re.search(r"12 +yes_no", output)
    assert re.search(r"1 +unsupported", output)
    data = load_dataset(out)
    assert len(data.cases) == 11
    for case in data.cases:
        (span,) = case.evidence
        assert data.corpus[span.doc_id].full_text[span.start : span.end].startswith("It sells")
    sent = len(server.asked)
    assert sent == 12 + 12
    status, output = run("testset", "generate", corpus, *options)
    assert (status, len(server.asked)) == (2, sent)
    assert "--force" in output
    before = (out / "queries.jsonl").read_bytes()
    assert run("testset", "generate", corpus, *options, "--force")[0] == 0
    assert (len(server.asked), (out / "queries.jsonl").read_bytes()) == (sent, before), (
        "all replies were stored"
    )


def test_the_newest_documents_are_asked_about(server: Any, corpus: Path, tmp_path: Path) -> None:
    options = ["--llm", "openai:m", "--chunks", "2", "--sample", "recent"]
    assert run("testset", "generate", corpus, "--output", tmp_path / "made", *options)[0] == 0
    assert list(load_dataset(tmp_path / "made").qrels.values()) == [{"Laos": 1}, {"Kenya": 1}]


def test_a_test_set_answers_are_not_replaced_after_a_persons_change(
    server: Any, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "made"
    options: list[str | Path] = ["--llm", "openai:m", "--output", out, "--chunks", "3"]
    run("testset", "generate", corpus, *options)
    path = out / "answers.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace(" tonnes.", " t."), encoding="utf-8")
    edited = path.read_bytes()
    status, output = run("testset", "generate", corpus, *options, "--force")
    assert status == 2
    assert "never replaced" in output
    assert path.read_bytes() == edited


@pytest.mark.parametrize(
    "options", [["--llm", "opnai:m"], ["--sample", "rndom"], ["--offline", "--no-cache"]]
)
def test_wrong_options_are_one_line_and_nothing_is_sent(
    server: Any, corpus: Path, tmp_path: Path, options: list[str]
) -> None:
    llm = [] if "--llm" in options else ["--llm", "openai:m"]
    status, output = run("testset", "generate", corpus, "--output", tmp_path / "x", *llm, *options)
    assert status == 2
    assert len(output.splitlines()) == 1
    assert output.startswith("ragbench: ")
    assert server.asked == []


def test_offline_sends_nothing(server: Any, unanswered: Path) -> None:
    status, output = run("answers", unanswered, "--llm", "openai:m", "--offline")
    assert status == 2
    assert "offline" in output
    assert server.asked == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_started_again_nothing_is_paid_for_twice(
    server: Any, wire: Any, corpus: Path, tmp_path: Path, end: signal.Signals
) -> None:
    server.reply = lambda asked: wire.Answered(
        wire.openai(answered(asked.body["messages"][-1]["content"])), delay_s=0.15
    )
    out = tmp_path / "made"
    command = [
        sys.executable,
        "-m",
        "ragbench",
        "testset",
        "generate",
        str(corpus),
        "--output",
        str(out),
    ]
    command += ["--llm", "openai:m", "--chunks", "12", "--per-chunk", "1", "--concurrency", "2"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(server.asked) < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(end)
    _, errors = process.communicate(timeout=60)
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    if end == signal.SIGINT:
        assert process.returncode == 130
        assert "run the command again to continue" in errors
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(load_dataset(out).cases) == 11
    times = Counter(asked.body["messages"][-1]["content"] for asked in server.asked)
    assert len(times) == 24
    assert sum(times.values()) <= 24 + 2, (
        "only what was in flight at the kill may be asked for again"
    )


@pytest.fixture
def executed(execute_notebook: Callable[..., Any]) -> Executed:
    """Execute a notebook; what it shows, and how many figures."""

    def execute(name: str, folder: Path, **parameters: str | int) -> tuple[str, int]:
        return shown_by(
            execute_notebook(ROOT / f"notebooks/{name}.ipynb", folder, **parameters), folder
        )

    return execute


def shown_by(notebook: Any, folder: Path) -> tuple[str, int]:
    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    assert not any(output.output_type == "error" for output in outputs)
    assert [output for output in outputs if output.get("name") == "stderr"] == [], (
        "no warning is shown"
    )
    texts = [
        text
        for output in outputs
        for kind, text in output.get("data", {}).items()
        if kind != "image/png"
    ]
    shown = "\n".join(texts)
    assert not re.search(r"\bnan\b", shown, re.IGNORECASE)
    assert str(folder) not in shown
    return shown, sum("image/png" in output.get("data", {}) for output in outputs)


def test_the_notebook_makes_a_test_set(
    server: Any, corpus: Path, tmp_path: Path, executed: Executed
) -> None:
    shown, figures = executed(
        "testset", tmp_path, corpus="documents", llm="openai:m", n_chunks=10, out_dir="made"
    )
    assert figures == 1
    assert "of 20** drafts are accepted" in shown
    assert "questions read back from `made`" in shown
    assert len(load_dataset(tmp_path / "made").cases) >= 9


def test_the_notebook_writes_reference_answers(
    server: Any, unanswered: Path, tmp_path: Path, executed: Executed
) -> None:
    shown, figures = executed("reference_answers", tmp_path, dataset="set", llm="openai:m", limit=5)
    assert figures == 1
    assert "**5 of 5** reference answers were written by `openai:m`" in shown
    path = unanswered / "answers.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace("100 tonnes", "a hundred tonnes"), encoding="utf-8"
    )
    sent = len(server.asked)
    shown, _ = executed("reference_answers", tmp_path, dataset="set", llm="openai:m")
    assert "semantic_similarity" in shown, "it is tried on the answer by a person"
    assert "**7 of 7** reference answers" in shown
    assert len(server.asked) == sent + 7
    assert (
        load_dataset(unanswered).cases[0].reference_answer
        == "It exports a hundred tonnes of amber."
    )


def test_the_notebooks_keep_nothing_unless_asked_to(
    server: Any, tmp_path: Path, executed: Executed
) -> None:
    (tmp_path / "texts").mkdir()
    for document in documents().values():
        (tmp_path / "texts" / f"{document.doc_id}.md").write_text(document.text, encoding="utf-8")
    executed("testset", tmp_path, corpus="texts", llm="openai:m", n_chunks=3)
    assert {path.name for path in tmp_path.iterdir()} == {"texts", "out.ipynb", "cache"}
