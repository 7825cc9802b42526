"""Saved results for others: tables in every form."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import MissingExtraError
from ragbench.evaluation import new_result
from ragbench.report import export_table
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


def test_a_cell_that_no_sheet_can_hold_is_written_without_it(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    result = made(answers=[Answer("q1", "bell \a rung")])
    export_table(result, tmp_path / "a.xlsx", questions=True)
    assert pd.read_excel(tmp_path / "a.xlsx")["answer"][0] == "bell   rung"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl.cell.cell", None)
    with pytest.raises(MissingExtraError, match=r"ragbench-lab\[xlsx\]"):
        export_table(made(), tmp_path / "a.xlsx")
