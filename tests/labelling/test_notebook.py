"""label.ipynb from results to a sheet, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest

import ragbench as rb
from ragbench.labelling import read_sheet, save_label

ROOT = Path(__file__).parents[2]
Execute = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two configurations over eight questions."""
    root = tmp_path_factory.mktemp("sweeps")
    data = rb.load_dataset("pydoc")
    data = data.select(list(data.queries)[:8])
    for size in (64, 128):
        chunks = rb.chunk(data, "fixed", chunk_size=size)
        run = rb.retrieve(rb.make_retriever("bm25", chunks), data.queries, chunks)
        answers = rb.generate_answers(data, run, chunks, "extractive", k=3)
        parameters = {
            "dataset": "pydoc",
            "split": "test",
            "limit": 8,
            "chunker": "fixed",
            "chunk_size": size,
        }
        parameters |= {"chunk_overlap": 0, "tokenizer": "minilm"}
        result = rb.evaluation.new_result(
            parameters=parameters,
            dataset=data,
            run=rb.to_documents(run, chunks),
            scores=rb.metrics.score_answers(data, answers),
            answers=answers,
        )
        rb.save(result, root / "small" / f"fixed-{size}")
    return root


def executed(execute_notebook: Execute, folder: Path, **parameters: str | int) -> str:
    execute_notebook(ROOT / "notebooks/label.ipynb", folder, **parameters)
    cells = [
        cell
        for cell in nbformat.read(folder / "out.ipynb", as_version=4).cells
        if cell.cell_type == "code"
    ]
    outputs: list[Any] = [output for cell in cells for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    assert [output for output in outputs if output.get("name") == "stderr"] == [], (
        "no warning is shown"
    )
    shown = "\n".join(str(text) for output in outputs for text in output.get("data", {}).values())
    assert not re.search(r"\bnan\b|<NA>", shown, re.IGNORECASE)
    assert str(folder) not in shown
    return shown


def test_the_notebook_writes_a_sheet_and_continues_it(
    folder: Path, execute_notebook: Execute
) -> None:
    shown = executed(execute_notebook, folder, sweep_dir="small", n=8)
    assert re.search(r"labels\.csv: 0 of \d+ labelled by me", shown)
    assert re.search(r"\*\*me\*\* has labelled \*\*0 of \d\*\*", shown)
    sheet = read_sheet(folder / "labels.csv")
    assert sheet["picked"].str.fullmatch(r"drawn \d").all()
    assert sheet["context"].str.startswith("[1] ").all()
    save_label(folder / "labels.csv", sheet["item"].iloc[0], 1.0)
    executed(execute_notebook, folder, sweep_dir="small", n=2)
    assert len(read_sheet(folder / "labels.csv")) == len(sheet), "drawn only when nothing is open"
    shown = executed(execute_notebook, folder, sweep_dir="small", n=8, annotator="bob")
    assert "**me** has labelled **1 of" in shown
    assert "**bob** has labelled **0 of" in shown
    assert read_sheet(folder / "labels.csv")["value"].count() == 1


def test_it_runs_as_it_is_on_the_results_of_the_repository(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "results").symlink_to(ROOT / "results")
    shown = executed(execute_notebook, tmp_path / "notebooks")
    assert re.search(r"\*\*me\*\* has labelled \*\*0 of (3\d|40)\*\*", shown)
    assert "alone: +" in shown, "what the heuristic says without labels"
    assert read_sheet(tmp_path / "notebooks" / "labels.csv")["context"].str.startswith("[1] ").all()


def test_documents_are_drawn_for_a_ranking_measure(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "results").symlink_to(ROOT / "results")
    shown = executed(execute_notebook, tmp_path / "notebooks", criterion="nDCG@10", n=2)
    assert "nDCG@10 by the labels at hand (people's: Judged@10 0." in shown
    sheet = read_sheet(tmp_path / "notebooks" / "labels.csv")
    assert {*sheet["criterion"]} == {"document"}
    assert sheet["query_id"].nunique() == 2


def test_compare_holds_the_judge_against_the_people_of_a_sheet(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.answerable][:30])
    results = []
    for size in (128, 256):
        chunks = rb.chunk(data, "fixed", chunk_size=size)
        run = rb.retrieve(rb.make_retriever("bm25", chunks), data.queries, chunks)
        # answers of different lengths, so that the two are not one item; a judge who likes every
        # second question
        answers = [
            rb.Answer(q, f"Answer {size} to {text}", outcome="success")
            for q, text in data.queries.items()
        ]
        judged = [
            rb.Judgement(a.query_id, "correctness", float(i % 2)) for i, a in enumerate(answers)
        ]
        parameters = {
            "dataset": "pydoc",
            "retriever": "bm25",
            "chunker": "fixed",
            "chunk_size": size,
        }
        folder = tmp_path / "sweep" / f"fixed-{size}"
        scores = pd.concat(
            [
                rb.score_run(data.qrels, rb.to_documents(run, chunks)),
                rb.metrics.score_judgements(judged),
            ]
        )
        result = rb.evaluation.new_result(
            parameters=parameters,
            dataset=data,
            run=rb.to_documents(run, chunks),
            answers=answers,
            judgements=judged,
            scores=scores,
            facts={"chunks": len(chunks), "search_ms": 1.0},
        )
        rb.save(result, folder)
        results.append(rb.load_result(folder))
    sheet = tmp_path / "labels.csv"
    items = rb.labelling.draw_items(results, "correctness", dataset=data, n=40)
    rb.labelling.label_sheet(items, sheet)
    for i, item in enumerate(read_sheet(sheet)["item"]):
        save_label(sheet, item, float(i % 3 > 0))
    notebook = execute_notebook(
        ROOT / "notebooks/compare.ipynb", tmp_path, sweep_dir="sweep", labels="labels.csv"
    )
    assert not any(
        o.output_type == "error" for cell in notebook.cells for o in cell.get("outputs", [])
    )
    cells = notebook.cells
    decided, agreement, bias = (
        "\n".join(
            output.data.get("text/markdown", output.data["text/plain"]) for output in cell.outputs
        )
        for cell in cells
        if cell.source.startswith("if labels")
    )
    assert "questions labelled" in decided
    assert re.search(r"judge-human +ac1 +-?\d", agreement)
    assert re.search(r"longer half +-?\d", bias)
    assert not re.search(r"\bnan\b|<NA>", f"{decided}{agreement}{bias}")
