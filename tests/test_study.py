"""The study in results/chunking: its notebook gives the committed numbers from the committed scores,
and the README quotes them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import papermill

import ragbench as rb

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "results" / "chunking"


def test_the_claims_follow_from_the_scores(tmp_path: Path) -> None:
    shutil.copytree(STUDY, tmp_path / "study")
    (tmp_path / "study" / "claims.csv").unlink()
    papermill.execute_notebook(
        ROOT / "notebooks" / "chunking.ipynb",
        tmp_path / "out.ipynb",
        {"collections": "chunking,clapnq,squad,pydoc", "scores_dir": str(tmp_path / "study")},
        progress_bar=False,
    )
    again, kept = (pd.read_csv(folder / "claims.csv") for folder in (tmp_path / "study", STUDY))
    pd.testing.assert_frame_equal(again, kept, atol=0.0011, rtol=0)


def test_the_readme_quotes_the_claims() -> None:
    claims = pd.read_csv(STUDY / "claims.csv").query("collection == 'chunking'")
    n = claims["claims at k = 5"]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for outcome in ("reversed 500", "holds 500"):
        assert f"{(claims[outcome] * n).sum() / n.sum():.0%}".replace("%", " %") in text
    assert f"{n.sum()} differences" in text


def test_a_score_of_the_study_is_computed_again() -> None:
    """One configuration of the built-in collection; the others take the same way."""
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.evidence])
    chunks = rb.chunk(data, "fixed", chunk_size=512)
    run = rb.retrieve(rb.make_retriever("bm25", chunks), data.queries, chunks)
    scores = rb.metrics.score_spans(data, run, chunks)
    again = scores[scores["measure"] == "span_recall@5"].set_index("query_id")["value"]
    table = pd.read_parquet(STUDY / "pydoc.parquet")
    rows = table.query(
        "retriever == 'bm25' and chunker == 'fixed' and size == 512 and overlap == 0"
    )
    kept = rows.set_index("query_id")["span_recall@5"]
    assert (again.sort_index() - kept.sort_index()).abs().max() < 0.00051


def test_the_curves_of_the_judges_follow_from_the_model(tmp_path: Path) -> None:
    kept = pd.read_csv(ROOT / "results" / "judges" / "curves.csv")
    papermill.execute_notebook(
        ROOT / "notebooks" / "judges.ipynb",
        tmp_path / "out.ipynb",
        {"results_dir": str(tmp_path)},
        progress_bar=False,
    )
    again = pd.read_csv(tmp_path / "curves.csv")
    pd.testing.assert_frame_equal(again, kept, atol=0.005, rtol=0)
    assert (kept["holds"] >= 0.94).all()
    width = kept.set_index(["interval", "labels"])["width"].unstack("interval")
    assert (width["with the judge"] < 0.85 * width["labels alone"]).all()


def test_verdicts_of_ones_own_are_read(tmp_path: Path) -> None:
    rows = [(q, s, float(q % 3 > s), float(q % 2 > s)) for q in range(200) for s in (0, 1)]
    table = pd.DataFrame(rows, columns=["question", "system", "judge", "person"])
    table.to_csv(tmp_path / "v.csv", index=False)
    parameters = {"results_dir": str(tmp_path), "verdicts": str(tmp_path / "v.csv"), "draws": 50}
    papermill.execute_notebook(
        ROOT / "notebooks" / "judges.ipynb", tmp_path / "o.ipynb", parameters, progress_bar=False
    )
    assert len(pd.read_csv(tmp_path / "curves.csv")) == 8
