"""nDCG and P by people's labels, from labels of a sample and a lenient model's of all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import DataError
from ragbench.statistics import ranking_interval

Frames = tuple[dict[str, dict[str, float]], pd.DataFrame, pd.DataFrame]


def _labels(rng: np.random.Generator, n: int = 200, k: int = 20) -> Frames:
    """A run over k documents of n queries; people grade 0 to 3 by a hidden relevance, which the run
    follows. The model misses a fifth of what is relevant, and calls a fifth of the rest relevant.
    """
    hidden = rng.normal(size=(n, k)) + rng.normal(size=(n, 1)) - 0.8
    people = np.digitize(hidden, [0.0, 0.7, 1.5])
    model = np.where(rng.random((n, k)) < 0.2, rng.integers(0, 4, (n, k)), people)
    model = np.where((model == 0) & (rng.random((n, k)) < 0.15), rng.integers(1, 3, (n, k)), model)
    order = hidden + 1.2 * rng.normal(size=(n, k))
    ids = [(f"q{i}", f"d{j}") for i in range(n) for j in range(k)]
    frame = pd.DataFrame(ids, columns=["query_id", "doc_id"])
    run = {f"q{i}": {f"d{j}": float(order[i, j]) for j in range(k)} for i in range(n)}
    return run, frame.assign(grade=model.ravel()), frame.assign(grade=people.ravel())


def _outcome(run_number: int) -> dict[str, float]:
    rng = np.random.default_rng(run_number)
    run, model, people = _labels(rng)
    sampled = people[people["query_id"].isin([f"q{i}" for i in rng.permutation(200)[:40]])]
    limits = ranking_interval(run, model, sampled, ["nDCG@10"])[["ci_low", "ci_high"]].to_numpy(
        float
    )
    by_people, by_model = (
        rb.score_run(frame.rename(columns={"grade": "relevance"}), run, ["nDCG@10"])[
            "value"
        ].to_numpy(float)
        for frame in (people, model)
    )
    truth, error = by_people.mean(), 1.96 * by_model.std(ddof=1) / np.sqrt(200)
    alone = 1.96 * by_people.std(ddof=1) * np.sqrt(1 / 40 - 1 / 200)
    return {
        "holds": float(limits[0, 0] <= truth <= limits[0, 1]),
        "naive holds": float(abs(by_model.mean() - truth) <= error),
        "width": float(limits[0, 1] - limits[0, 0]),
        "width of a t interval of the labels alone": 2 * alone,
    }


@pytest.mark.simulation
def test_the_interval_holds_with_labels_of_a_fifth_of_the_pairs() -> None:
    means = pd.DataFrame([_outcome(i) for i in range(1000)]).mean()
    print(f"\n{means}")
    assert means["holds"] >= 0.94
    assert means["naive holds"] < 0.6


def test_it_holds_in_a_few_runs_and_shows_the_naive_value() -> None:
    assert sum(_outcome(i)["holds"] for i in range(5)) >= 4
    run, model, people = _labels(np.random.default_rng(0))
    rows = ranking_interval(
        run, model, people[people["query_id"] < "q3"], ["nDCG@10", "P(rel=2)@5"]
    )
    assert rows["measure"].tolist() == ["nDCG@10", "P(rel=2)@5"]
    assert rows["n_labelled"].nunique() == 1
    assert (rows["judged"] == rows["n_labelled"] / 200).all()
    assert (rows["by_model"] > 0).all()
    everything = ranking_interval(run, model, people, ["nDCG@10"]).iloc[0]
    assert everything["ci_low"] == everything["ci_high"] == pytest.approx(everything["estimate"])
    with pytest.raises(DataError, match="an interval needs 20"):
        ranking_interval(run, model, people.head(100))
