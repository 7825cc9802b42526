"""The cells of the studies' notebooks, in order, on small data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ragbench import studies
from ragbench.studies import best_of_many, draft_choices, techniques

ROOT = Path(__file__).parents[2]


def run_cells(name: str, **parameters: Any) -> dict[str, Any]:
    """Execute the code cells of a notebook in this process; return its names."""
    notebook = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
        if "parameters" in cell["metadata"].get("tags", []):
            names.update(parameters)
    return names


def arms() -> pd.DataFrame:
    parts = []
    for arm, gain in ((techniques.BASELINE, 0.0), ("retriever bm25", -0.2), ("expand parent", 0.1)):
        scores = [0.2 + gain, 0.6 + gain] * 10
        part = pd.DataFrame(
            {"arm": arm, "query_id": range(20), "chunks": 5, "tokens": 100, "handed_over": 50.0}
        )
        parts.append(part.assign(**dict.fromkeys(techniques.MEASURES, scores)))
    return pd.concat(parts, ignore_index=True)


def draft_scores() -> pd.DataFrame:
    values = {"people": [0.1, 0.2, 0.3, 0.4], "sentence": [0.5, 0.6, 0.9, 0.8]}
    rows = [
        (retriever, "fixed", size, questions, query_id, values[questions][number])
        for number, (retriever, size) in enumerate([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
        for questions in values
        for query_id in ("q1", "q2")
    ]
    return pd.DataFrame(
        rows, columns=[*draft_choices.CONFIGURATION, "questions", "query_id", "value"]
    )


def write_run(folder: Path, collection: str, *, join_titles: bool = False) -> None:
    folder.mkdir(parents=True)
    parameters = {"collection": collection, "join_titles": join_titles}
    (folder / "config.json").write_text(json.dumps({"parameters": parameters}))


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `display` return something that can be updated, as in a kernel."""
    import IPython.display

    class Shown:
        def update(self, shown: object) -> None:
            assert "Not computed yet" not in str(getattr(shown, "data", shown))

    monkeypatch.setattr(IPython.display, "display", lambda *shown, **options: Shown())


@pytest.mark.usefixtures("quiet")
def test_the_best_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best_of_many, "ARMS", (2, 3))
    names = run_cells("study_best", scores="model", draws=2, results_dir=str(tmp_path))
    assert set(names["promises"]["arms"]) <= {2, 3}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"promises.{kind}" for kind in ("csv", "png", "pdf")
    }


@pytest.mark.usefixtures("quiet")
def test_techniques(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "load_collection", lambda *_, **__: pd.Series(dtype=float))
    monkeypatch.setattr(studies, "score_arms", lambda data: arms())
    monkeypatch.setattr(pd.Series, "corpus", {}, raising=False)
    write_run(tmp_path / "first", "pydoc")
    write_run(tmp_path / "second", "../data/squad", join_titles=True)
    for folder in ("first", "second"):
        run_cells("study_techniques", results_dir=str(tmp_path / folder))
    names = run_cells("study_techniques_findings", sweep_dir=str(tmp_path))
    assert set(names["comparison"]["collection"]) == {"pydoc", "squad-articles"}
    assert (tmp_path / "arms.pdf").is_file()
    assert len(pd.read_csv(tmp_path / "transfer.csv")) == 2


@pytest.mark.usefixtures("quiet")
def test_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "load_collection", lambda *_, **__: pd.Series(dtype=float))
    monkeypatch.setattr(studies, "score_by_questions", lambda data: draft_scores())
    write_run(tmp_path / "first", "pydoc")
    write_run(tmp_path / "second", "../data/clapnq")
    for folder in ("first", "second"):
        run_cells("study_drafts", results_dir=str(tmp_path / folder))
    names = run_cells("study_drafts_findings", sweep_dir=str(tmp_path))
    assert names["agreement"]["tau"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert list(draft_choices.load_draft_scores(tmp_path)) == ["clapnq", "pydoc"]
