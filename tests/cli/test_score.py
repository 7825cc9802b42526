"""`ragbench score`: runs of other tools, and a run as a system."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.report.page.sentences import brief_measures, depth_table, shown_measures
from ragbench.types import Case, Dataset, Document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines, good, bad = [], [], []
    for q in range(30):
        lines += [f"q{q} 0 d{d} {int(d < 2) + 1 if d < 2 else 0}" for d in range(6)]
        good += [f"q{q} Q0 d{d} 0 {9 - d + rng.random()} good" for d in range(6)]
        bad += [f"q{q} Q0 d{d + 3} 0 {rng.random()} bad" for d in range(6)]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    (tmp_path / "good.run").write_text("\n".join(good))
    (tmp_path / "bad.run").write_text("\n".join(bad))
    return tmp_path


def score(*args: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["score", *map(str, args)], env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done.output


def test_runs_have_means_intervals_and_a_comparison(folder: Path) -> None:
    runs = folder / "good.run", folder / "bad.run"
    shown = score(folder / "qrels.txt", *runs)
    assert "Judged@10 is below 1" in shown
    assert "Differences from good" in shown
    options = ("--measure", "nDCG@3,P(rel=2)@1,RBP(rel=2, p=0.5)", "--baseline", "bad")
    shown = score(folder / "qrels.txt", *runs, *options)
    first, _, second = shown.partition("\nDifferences from bad")
    means = {tuple(line.split()[:2]): float(line.split()[2]) for line in first.splitlines()[1:-1]}
    judged = rb.metrics.read_qrels(folder / "qrels.txt")
    values = rb.score_run(judged, rb.metrics.read_run(folder / "good.run"), ["nDCG@3"])["value"]
    assert means["good", "nDCG@3"] == pytest.approx(values.mean(), abs=1e-4)
    assert means["bad", "Judged@3"] < means["good", "Judged@3"] == 1
    rows = [line.split()[:5] for line in second.splitlines()[2:] if line.strip()]
    assert {name for name, *_ in rows} == {"good"}
    assert len(rows) == 3
    for _, _, difference, low, high in rows:
        assert float(low) <= float(difference) <= float(high)
    assert second.count("better") == 1, "one measure decides"


def test_complete_judgements_are_not_mentioned_and_errors_are_one_line(folder: Path) -> None:
    assert "Judged" not in score(folder / "qrels.txt", folder / "good.run", "--measure", "nDCG@6")
    assert "did you mean 'good'" in score(
        folder / "qrels.txt", folder / "good.run", "--baseline", "god", code=2
    )
    assert "unknown measure" in score(
        folder / "qrels.txt", folder / "good.run", "--measure", "nDGC@6", code=2
    )
    assert "could not be read" in score(folder / "qrels.txt", folder / "gone.run", code=2)
    exchanged = score(folder / "good.run", folder / "qrels.txt", code=2)
    assert "qrels.txt holds judgements, not a run" in exchanged


def test_a_run_is_a_recorded_system_that_retrieves_only(folder: Path) -> None:
    corpus = {f"d{d}": Document(f"d{d}", f"text {d}") for d in range(9)}
    cases = [Case(f"q{q}", f"question {q}?") for q in range(31)]
    judged = {**rb.metrics.read_qrels(folder / "qrels.txt"), "q30": {"d0": 1}}
    data = Dataset("demo", "test", corpus, cases, judged)
    result = rb.evaluate(data, folder / "good.run", perspectives=["retrieval", "answer"])
    values = result.scores.pivot_table(index="query_id", columns="measure", values="value")
    assert (values.loc["q0", "RR"], values.loc["q30", "RR"]) == (1.0, 0.0)  # q30 is not in the run
    assert "answered" not in values
    assert "Judged@10" in values  # the judgements are pooled, and q30 has no complete ranking
    full = replace(
        data, cases=data.cases[:30], qrels={q: judged[q] for q in data.queries if q != "q30"}
    )
    assert "Judged@5" not in rb.evaluate(full, folder / "good.run").scores["measure"].tolist()


def test_judged_is_next_to_ndcg_in_leaderboards_and_reports(folder: Path) -> None:
    corpus = {f"d{d}": Document(f"d{d}", f"text {d}") for d in range(9)}
    cases = [Case(f"q{q}", f"question {q}?") for q in range(30)]
    data = Dataset("demo", "test", corpus, cases, rb.metrics.read_qrels(folder / "qrels.txt"))
    good, bad = (
        rb.evaluate(data, folder / f"{name}.run", perspectives=["retrieval"])
        for name in ("good", "bad")
    )
    results = rb.Results([replace(good, name="good"), replace(bad, name="bad")])
    board: Any = results.leaderboard().set_index("name")
    assert board.loc["good", "Judged@10"] == board.loc["good", "Judged@10_ci_low"] == 1.0
    assert (
        board.loc["bad", "Judged@10"]
        == bad.scores.query("measure == 'Judged@10'")["value"].mean()
        < 1
    )
    assert board.loc["good", "Judged@10_n"] == "30/30"
    assert "| Judged@10 |" in rb.report.leaderboard_markdown(board.reset_index(), "nDCG@10")
    assert "Judged@10" in repr(results.leaderboard())
    assert "Judged" not in repr(rb.Results([good]).leaderboard())
    shown = [row.measure for row in shown_measures(bad)["retrieval"]]
    assert shown.index("Judged@5") == shown.index("nDCG@5") + 1
    assert "Judged@5" in [row.measure for row in brief_measures(bad)["retrieval"]]
    assert "Judged@5" in repr(bad)
    assert "Judged@k" in [name for name, _ in depth_table(bad)[1]]
    assert "Judged" not in str(depth_table(good))
