"""Judgements become tidy scores; what is unscored is NaN, counted and never averaged."""

from __future__ import annotations

import math

import pytest

from ragbench.errors import DataError
from ragbench.metrics.answer_similarity import score_judgements
from ragbench.types import Judgement


def test_a_row_per_judgement_by_measure_with_names_of_their_own() -> None:
    judgements = [
        Judgement("q1", "correctness", 1.0),
        Judgement("q1", "faithfulness", 0.25),
        Judgement("q0", "correctness", None, state="abstained"),
        Judgement("q0", "faithfulness", 0.0),
    ]
    scores = score_judgements(judgements)
    assert scores["query_id"].tolist() == ["q1", "q0", "q1", "q0"]
    assert scores["measure"].tolist() == ["llm_correctness"] * 2 + ["llm_faithfulness"] * 2
    assert scores["value"].fillna(-1).tolist() == [1.0, -1.0, 0.25, 0.0]
    assert scores["value"].dtype == float
    assert scores.groupby("measure")["value"].mean().to_dict() == {
        "llm_correctness": 1.0,
        "llm_faithfulness": 0.125,
    }


def test_nothing_judged_is_an_empty_table_with_its_columns_and_all_unscored_a_full_one() -> None:
    empty = score_judgements([])
    assert list(empty.columns) == ["query_id", "measure", "value"]
    assert len(empty) == 0
    assert empty["value"].dtype == float
    assert math.isnan(score_judgements([Judgement("q", "relevance", None)])["value"].iloc[0])


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_value_off_the_scale_is_refused(value: float) -> None:
    with pytest.raises(DataError, match=r"query 'q': relevance is .*; expected a value in"):
        score_judgements([Judgement("q", "relevance", value)])


def test_two_judgements_of_one_answer_are_refused() -> None:
    with pytest.raises(DataError, match="query 'q' has several judgements of relevance"):
        score_judgements([Judgement("q", "relevance", 1.0), Judgement("q", "relevance", 0.0)])
