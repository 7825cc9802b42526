"""Any system as an arm of a sweep: services by HTTP and MCP, functions, recorded answers, next to
pipelines.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, ModelError
from ragbench.evaluation.folder import JOURNAL
from ragbench.sweep import plan, read_grid, sweep, verify
from ragbench.systems import Pipeline
from ragbench.testsets.writer import save_dataset
from ragbench.types import Dataset

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SERVER = Path(__file__).parents[1] / "systems" / "notes_server.py"
MODULE = '''
"""A system of the user's own, next to the grid."""
import ragbench as rb

_pipeline = rb.Pipeline(rb.load_dataset({name!r}), chunk_size=64, k=3)
_texts = {{chunk.chunk_id: chunk for chunk in _pipeline.chunks}}


def answer(question):
    found = _pipeline.answer("q", question)
    contexts = [{{"id": c, "text": _texts[c].text, "doc_id": _texts[c].doc_id}} for c in found.contexts]
    return {{"answer": found.text, "contexts": contexts}}
'''
GRID = """
[sweep]
name = "arms"
notebook = {notebook}
compare = {compare}
baseline = {{ system = "my_{tag}_rag:answer" }}

[fixed]
dataset = {dataset}
limit = {questions}
chunk_size = 64
k = 3
support_model = "lexical"

[axes]
system = ["", "bm25", "service.toml", "notes.toml", "my_{tag}_rag:answer"]
"""


def service(wire: Any, name: str) -> Callable[[Any], Any]:
    """What a web service over the same documents replies."""
    pipeline = Pipeline(rb.load_dataset(name), chunk_size=64, k=3)
    text_of = {chunk.chunk_id: chunk for chunk in pipeline.chunks}

    def reply(asked: Any) -> Any:
        answer = pipeline.answer("q", asked.body["query"])
        found = [
            {"id": one, "text": text_of[one].text, "doc_id": text_of[one].doc_id}
            for one in answer.contexts
        ]
        return wire.Answered({"answer": answer.text, "contexts": found})

    return reply


def write_arms(folder: Path, dataset: str, questions: int, url: str, tag: str) -> Path:
    """A grid of five arms with the files that they need next to it; paths in it are relative to it."""
    folder.mkdir(parents=True, exist_ok=True)
    place = str((folder / dataset).resolve()) if (folder / dataset).exists() else dataset
    (folder / f"my_{tag}_rag.py").write_text(MODULE.format(name=place), encoding="utf-8")
    (folder / "service.toml").write_text(
        f'[http]\nurl = "{url}/ask"\nbody = {{ query = "{{query}}" }}\n'
    )
    command = json.dumps([sys.executable, str(SERVER), "--dataset", place])
    (folder / "notes.toml").write_text(
        f'[mcp]\nserver = {command}\ntool = "search"\nenv = ["RAGBENCH_CACHE_DIR"]\n'
        'arguments = { query = "{query}" }\n[mcp.reply]\ncontexts = "$.results"\n'
    )
    paths = {name: json.dumps(str(NOTEBOOKS / f"{name}.ipynb")) for name in ("evaluate", "compare")}
    text = GRID.format(
        notebook=paths["evaluate"],
        compare=paths["compare"],
        dataset=json.dumps(dataset),
        questions=questions,
        tag=tag,
    )
    (folder / "arms.toml").write_text(text, encoding="utf-8")
    return folder / "arms.toml"


def small(name: str, questions: int) -> Dataset:
    """Some answerable questions of a collection, with the documents that they need and a few more."""
    data: Dataset = rb.load_dataset(name)
    data = data.select([one for one in data.queries if data.qrels.get(one)][:questions])
    needed = {doc_id for judged in data.qrels.values() for doc_id in judged}
    corpus = {
        doc_id: data.corpus[doc_id]
        for doc_id in dict.fromkeys([*sorted(needed), *list(data.corpus)[:6]])
    }
    return Dataset("small", data.split, corpus, data.cases, data.qrels)


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory, wire: Any) -> Any:
    """A grid of five arms that was run, with the server of its service."""
    root = tmp_path_factory.mktemp("arms")
    save_dataset(small("pydoc", 6), root / "grids" / "small")
    server = wire.Loopback(service(wire, str(root / "grids" / "small")))
    grid = write_arms(root / "grids", "small", 6, server.url, "small")
    planned = plan(grid, out=root / "results")
    asked = len(server.asked)
    result = sweep(grid, out=root / "results")
    yield {
        "grid": grid,
        "server": server,
        "planned": planned,
        "asked_before": asked,
        "result": result,
        "root": root,
    }
    server.shutdown()
    server.server_close()


def shown(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "\n".join(
        str(output.get("data", {}).get("text/markdown", output.get("data"))) for output in outputs
    )


def test_services_functions_and_pipelines_are_arms_of_one_comparison(arms: Any) -> None:
    result, folder = arms["result"], arms["root"] / "results" / "arms"
    assert dict(result.failed) == {}
    names = sorted(re.sub(r"-\w{8}$", "", name) for name in result.finished)
    assert names == [
        "bm25-recursive-64",
        "hybrid-minilm-recursive-64",
        "my-small-rag-answer",
        "notes",
        "service",
    ]
    assert result.comparison is not None
    results = rb.load_results(folder)
    board = results.leaderboard().set_index("name")
    assert len(board) == 5
    assert board["nDCG@10"].notna().all()
    by_name = {re.sub(r"-\w{8}$", "", name): name for name in result.finished}
    compared = results.compare(by_name["my-small-rag-answer"], measures=["nDCG@10"]).set_index(
        "name"
    )
    assert compared.loc[by_name["service"], "difference"] == 0, "the same texts by HTTP are as good"
    assert len(compared) == 4
    for one in results:
        assert one.diagnosis is not None or "notes" in one.name
        assert one.parameters.get("system", "") == "" or "chunker" not in one.parameters


def test_what_a_system_keeps_for_itself_has_no_section(arms: Any) -> None:
    folder = arms["root"] / "results" / "arms"
    for name in arms["result"].finished:
        text = shown(folder / f"{name}.ipynb")
        assert "## Key findings" in text
        assert ("## Chunks" in text) == name.startswith(("bm25", "hybrid")), name
        assert "One document, from end to end" not in text or name.startswith(("bm25", "hybrid"))
        assert ("Not measured: " in text and "gives no answers" in text) == name.startswith(
            "notes"
        ), name


def test_a_dry_run_counts_the_questions_of_every_arm(arms: Any) -> None:
    assert arms["asked_before"] == 0
    assert dict(arms["planned"].questions) == {"service": 6, "notes": 6, "answer": 6}
    assert len(arms["planned"].to_run) == 5
    assert len(arms["server"].asked) == 6, "each question once"
    done = CliRunner().invoke(
        app, ["sweep", str(arms["grid"]), "--output", str(arms["root"] / "new"), "--dry-run"]
    )
    assert "6 questions would be sent to service" in done.output


def test_what_is_finished_is_skipped_until_the_file_of_a_system_changes(arms: Any) -> None:
    out = arms["root"] / "results"
    assert plan(arms["grid"], out=out).to_run == ()
    description = arms["grid"].with_name("service.toml")
    before = description.read_text()
    description.write_text(f"{before}tries = 2\n")
    (name,) = plan(arms["grid"], out=out).to_run
    assert name.startswith("service")
    description.write_text(before)
    assert plan(arms["grid"], out=out).to_run == ()


def test_an_executed_notebook_runs_again_where_it_lies(arms: Any, tmp_path: Path) -> None:
    shutil.copytree(arms["root"], tmp_path / "copy")
    folder = tmp_path / "copy" / "results" / "arms"
    (name,) = [one for one in arms["result"].finished if one.startswith("service")]
    before = (folder / name / "scores.csv").read_bytes()
    command = [
        sys.executable,
        "-m",
        "papermill",
        "--no-progress-bar",
        f"{name}.ipynb",
        str(tmp_path / "again.ipynb"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (folder / name / "scores.csv").read_bytes() == before
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["grids", "results"]


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("srvice.toml", "there is no file .*srvice.toml"),
        ("wrong.toml", "urll"),
        ("no_such_module:answer", "No module named 'no_such_module'"),
        ("json:no_such_name", "has no attribute 'no_such_name'"),
        ("json:__version__", "expected a function of the question"),
        ("gone.jsonl", "gone.jsonl"),
        ("bm-25", "did you mean 'bm25'"),
    ],
)
def test_an_error_in_a_system_is_refused_before_anything_is_asked(
    tmp_path: Path, system: str, message: str
) -> None:
    (tmp_path / "wrong.toml").write_text('[http]\nurll = "http://127.0.0.1:9/ask"\n')
    notebook = json.dumps(str(NOTEBOOKS / "evaluate.ipynb"))
    (tmp_path / "grid.toml").write_text(
        f'[sweep]\nnotebook = {notebook}\n[fixed]\nsystem = "{system}"\n'
    )
    with pytest.raises(ConfigError, match=message):
        read_grid(tmp_path / "grid.toml")


def test_a_service_that_does_not_answer_the_door_is_refused_before_a_run(tmp_path: Path) -> None:
    (tmp_path / "gone.toml").write_text(
        '[http]\nurl = "http://127.0.0.1:9/ask"\nbody = { query = "{query}" }\n'
    )
    notebook = json.dumps(str(NOTEBOOKS / "evaluate.ipynb"))
    (tmp_path / "grid.toml").write_text(
        f'[sweep]\nnotebook = {notebook}\n[fixed]\nsystem = "gone.toml"\n'
    )
    with pytest.raises(
        ModelError, match=r"no server takes connections at http://127\.0\.0\.1:9/ask"
    ):
        sweep(tmp_path / "grid.toml", out=tmp_path / "results")


def test_parameters_of_the_pipeline_are_none_of_another_system(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"query_id": "p001", "answer": "Yes."}\n')
    notebook = json.dumps(str(NOTEBOOKS / "evaluate.ipynb"))
    axes = 'system = ["bm25", "", "log.jsonl"]\nretriever = ["bm25", "dense:minilm"]'
    (tmp_path / "grid.toml").write_text(f"[sweep]\nnotebook = {notebook}\n[axes]\n{axes}")
    grid = read_grid(tmp_path / "grid.toml")
    assert [re.sub(r"-\w{8}$", "", name) for name in grid.runs] == [
        "bm25-recursive-256",
        "dense-minilm-recursive-256",
        "log",
    ]
    assert sum("more than once" in note for note in grid.notes) == 3


def test_what_a_stopped_run_was_answered_is_not_asked_again(tmp_path: Path, wire: Any) -> None:
    save_dataset(small("pydoc", 5), tmp_path / "small")
    reply, failing = service(wire, str(tmp_path / "small")), [True]

    def flaky(asked: Any) -> Any:
        if failing[0] and asked.body["query"] == last:
            return wire.Answered({"error": "no"}, status=400)
        return reply(asked)

    *_, last = rb.load_dataset(str(tmp_path / "small")).queries.values()
    server = wire.Loopback(flaky)
    grid = write_arms(tmp_path, "small", 5, server.url, "stopped")
    grid.write_text(
        re.sub(r"system = \[.*\]", 'system = ["service.toml"]', grid.read_text()).replace(
            "baseline", "# baseline"
        )
    )
    failed = sweep(grid, out=tmp_path / "results")
    assert "1 requests to a system failed" in next(iter(failed.failed.values()))
    assert list((tmp_path / "results" / "arms").glob(".journal-*"))
    failing[0] = False
    asked = len(server.asked)
    result = sweep(grid, out=tmp_path / "results")
    assert len(result.finished) == 1
    assert len(server.asked) == asked + 1, "only the question that had failed"
    assert not list((tmp_path / "results" / "arms").glob(".journal-*"))
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(os.name != "posix", reason="kills a group of processes")
def test_killed_while_a_service_answers_what_was_stored_is_not_asked_again(
    tmp_path: Path, wire: Any
) -> None:
    questions = 24
    save_dataset(small("pydoc", questions), tmp_path / "small")
    reply = service(wire, str(tmp_path / "small"))
    server = wire.Loopback(lambda asked: dataclasses.replace(reply(asked), delay_s=0.4))
    grid = write_arms(tmp_path, "small", questions, server.url, "killed")
    grid.write_text(
        re.sub(r"system = \[.*\]", 'system = ["service.toml"]', grid.read_text()).replace(
            "baseline", "# baseline"
        )
    )
    results = tmp_path / "results"
    command = [sys.executable, "-m", "ragbench", "sweep", str(grid), "--output", str(results)]
    running = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while len(server.asked) < 12:
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()  # its runs have the same standard error, or end with the pipe to them
    time.sleep(2)

    (journal,) = (results / "arms").glob(f".running-*/*/{JOURNAL}")
    whole, _, _ = journal.read_text(encoding="utf-8").rpartition("\n")
    stored = {json.loads(line)["query_id"] for line in whole.split("\n")}
    before = [asked.body["query"] for asked in server.asked if asked.body]
    in_flight = server.most_at_once
    assert len(before) - in_flight <= len(stored) < questions
    server.reply = reply
    (name,) = sweep(grid, out=results).finished
    again = [asked.body["query"] for asked in server.asked if asked.body][len(before) :]
    data = rb.load_dataset(str(tmp_path / "small"))
    assert not {data.queries[one] for one in stored} & set(again), (
        "what was stored is not asked for again"
    )
    assert set(before) | set(again) == set(data.queries.values())
    assert len(before) + len(again) <= questions + in_flight, (
        "only what was on its way may be asked for again"
    )
    answers = rb.load_result(results / "arms" / name).answers
    assert [answer.query_id for answer in answers if answer.text] == list(data.queries)
    assert not list((results / "arms").glob(".journal-*"))
    server.shutdown()
    server.server_close()


def test_verify_takes_the_answers_of_a_service_as_they_were(arms: Any) -> None:
    asked = len(arms["server"].asked)
    verified = verify(arms["root"] / "results" / "arms")
    assert [(one.name, one.differences) for one in verified if one.differences] == []
    assert len(arms["server"].asked) == asked


@pytest.mark.benchmark
def test_the_same_on_a_real_collection(tmp_path: Path, wire: Any, shared_data: Path) -> None:
    server = wire.Loopback(service(wire, str(shared_data / "pubmedqa")))
    grid = write_arms(tmp_path, str(shared_data / "pubmedqa"), 50, server.url, "pubmedqa")
    result = sweep(grid, out=tmp_path / "results")
    assert dict(result.failed) == {}
    assert len(result.finished) == 5
    assert result.leaderboard is not None
    server.shutdown()
    server.server_close()
