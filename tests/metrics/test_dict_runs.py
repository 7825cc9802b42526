"""Dicts are ranked without a frame: the same digits, and the same errors and warnings."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError, DataWarning
from ragbench.metrics import score_run
from ragbench.metrics.dict_runs import ranks_of_dicts
from ragbench.types import Dataset

MEASURES = (
    "nDCG@10 nDCG P@5 P(rel=2)@5 R@5 RR RR@3 AP Judged@3 SetP SetR SetF RBP Success@1".split()
)
SCORES: tuple[float, ...] = (
    0.1,
    0.5,
    0.25,
    1e39,
    2e39,
    -1.5,
    1,
    0.0,
    -0.0,
    float(np.float32(0.3)),
    0.1 + 1e-9,
)


def frame(nested: dict[str, dict[str, Any]], value: str) -> pd.DataFrame:
    rows = [(query, *item) for query, row in nested.items() for item in row.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", value])


def drawn(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements and a run with ties, unjudged queries, and queries that the run lacks."""
    draw = random.Random(seed)
    documents = [f"d{i}" for i in range(draw.choice([3, 20, 200]))]
    most = min(len(documents), 8)
    qrels = {
        f"q{i}": {d: draw.choice([-1, 0, 0, 1, 1, 2]) for d in draw.sample(documents, most)}
        for i in range(draw.randint(1, 9))
    }
    run = {
        f"q{i}": {
            d: draw.choice([*SCORES, draw.random()])
            for d in draw.sample(documents, draw.randint(0, len(documents)))
        }
        for i in draw.sample(range(12), draw.randint(1, 12))
    }
    return qrels, run


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_dicts_and_frames_give_the_same_digits(seed: int) -> None:
    qrels, run = drawn(seed)
    from_dicts = score_run(qrels, run, MEASURES)
    from_frames = score_run(frame(qrels, "relevance"), frame(run, "score"), MEASURES)
    pd.testing.assert_frame_equal(from_dicts, from_frames, check_exact=True)


def test_most_draws_go_without_frames() -> None:
    assert sum(ranks_of_dicts(*drawn(seed)) is not None for seed in range(60)) > 40


def test_judgements_of_a_dataset_go_without_frames() -> None:
    data = Dataset.from_dicts({"d1": "Cats nap."}, {"q1": "Who naps?"}, {"q1": {"d1": 1}})
    assert ranks_of_dicts(data.qrels, {"q1": {"d1": 1.0}}) is not None


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"q": {"a": "1.0"}}, "not a finite number"),
        ({"q": {"a": None}}, "not a finite number"),
        ({"q": {"a": math.nan}}, "not a finite number"),
        ({"q": {"a": math.inf}}, "not a finite number"),
        ({"q": {"a": 10**400}}, "not a finite number"),
        ({"q": {1: 1.0}}, "is not text"),
        ({"q": [7]}, "DataFrame"),
        ({"unjudged": {"a": math.nan}, "q": {"a": 1.0}}, "not a finite number"),
    ],
)
def test_what_is_no_run_is_refused_as_from_a_frame(run: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_run({"q": {"a": 1, "b": 1}}, run)


@pytest.mark.parametrize("grade", [1.5, "1", None, 10**7, 10**30, 10**400, math.inf, math.nan])
def test_what_is_no_grade_is_refused_as_from_a_frame(grade: Any) -> None:
    with pytest.raises(DataError, match="not a whole number"):
        score_run({"q": {"a": 1, "b": grade}}, {"q": {"a": 1.0}})


def test_a_run_of_other_queries_is_warned_of() -> None:
    with pytest.warns(DataWarning, match="no query of the run is judged"):
        score_run({"q": {"a": 1, "b": 1}}, {"other": {"a": 1.0}})


def test_a_query_without_judgements_is_unscored_and_a_missing_one_is_0() -> None:
    qrels: dict[str, dict[str, int]] = {
        "none": {},
        "missing": {"a": 1, "b": 1},
        "q": {"a": 1, "b": 1},
    }
    scores = score_run(qrels, {"q": {"b": 2.0}, "none": {"a": 1.0}}, ["RR"])
    assert scores["query_id"].tolist() == ["none", "missing", "q"]
    assert scores["value"].fillna(-1).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("truth", [(True, False), (np.True_, np.False_)])
def test_truth_values_are_grades(truth: tuple[Any, Any]) -> None:
    relevant, irrelevant = truth
    run = {"q": {"a": 2.0, "b": 1.0}}
    qrels: dict[str, dict[str, Any]] = {"q": {"a": irrelevant, "b": relevant}}
    for labels in (qrels, frame(qrels, "relevance"), frame(qrels, "relevance").astype(object)):
        assert score_run(labels, run, ["RR"])["value"].tolist() == [0.5]
