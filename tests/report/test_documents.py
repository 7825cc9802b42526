"""The documents behind a result are found from wherever it is opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.report.source_documents import data_of

TESTS = "corpus: docs\ncases: [{id: q1, query: When did it open?, relevant: tower.md}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a test set, its documents, and a result whose paths are from there."""
    folder = tmp_path / "evaluation"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "tower.md").write_text("It opened in 1889.", encoding="utf-8")
    (folder / "tests.yaml").write_text(TESTS, encoding="utf-8")
    monkeypatch.chdir(folder)
    data = rb.load_dataset("tests.yaml")
    result = rb.evaluation.new_result(
        parameters={"dataset": "tests.yaml", "corpus": ""},
        dataset=data,
        run={"q1": {"tower.md": 1.0}},
        scores=rb.metrics.score_run(data.qrels, {"q1": {"tower.md": 1.0}}),
    )
    rb.save(result, folder / "results" / "first" / "bm25")
    return folder


@pytest.mark.parametrize("where", [".", "notebooks", "results/first", ".."])
def test_documents_are_found_wherever_a_result_is_opened(
    folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "notebooks").mkdir()
    monkeypatch.chdir(folder / where)
    [result] = rb.load_results(folder / "results" / "first")
    data, notes = data_of(result, None)
    assert notes == []
    assert {*data.corpus} == {"tower.md"}


def test_a_test_set_of_the_same_name_that_is_another_is_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "tests.yaml").write_text("cases: [{query: Another?}]\n", encoding="utf-8")
    monkeypatch.chdir(other)
    result = rb.load_result(folder / "results" / "first" / "bm25")
    assert {*data_of(result, None)[0].corpus} == {"tower.md"}
    shutil.rmtree(folder / "docs")
    (folder / "tests.yaml").unlink()
    data, [note] = data_of(result, None)
    assert "has changed since the evaluation" in note
    assert data.corpus == {}
