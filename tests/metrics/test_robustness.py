"""score_interventions by hand: what counts as an answer that is as it must be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from ragbench.metrics import score_interventions
from ragbench.types import Answer, Case, Dataset, Judgement

CASES = [
    Case("q1", "When?", reference_answer="in 1889", gold_facts=(("1889",),)),
    Case("q2", "Who?", gold_facts=(("Eiffel",),)),
]
DATASET = Dataset("mine", "test", {}, CASES, {})
RIGHT, WRONG = Answer("q1", "In 1889."), Answer("q1", "In 1720.")
ABSTAINED = Answer("q1", "Not found.", outcome="no_results")
FAILED = Answer("q1", "", outcome="failed", error="timeout")
NONE: Mapping[str, list[Judgement]] = MappingProxyType({})


def robust(
    name: str,
    changed: Case,
    answer: Answer,
    before: Answer = RIGHT,
    judged: Mapping[str, list[Judgement]] = NONE,
) -> float:
    frame = score_interventions(DATASET, [before], {name: ([changed], [answer])}, judged)
    [value] = frame.loc[frame["measure"] == f"robust:{name}", "value"]
    return float(value)


GONE = replace(CASES[0], expected_outcome="no_results")
SWAPPED = replace(CASES[0], gold_facts=(("1902",),), reference_answer=None)
PLANTED = replace(CASES[0], gold_facts=(), reference_answer=None, forbidden_claims=("KIWI-7",))
UNSURE = replace(SWAPPED, expected_outcome="uncertain")


@pytest.mark.parametrize(
    ("changed", "answer", "before", "value"),
    [
        (GONE, ABSTAINED, RIGHT, 1),
        (GONE, RIGHT, RIGHT, 0),
        (GONE, FAILED, RIGHT, math.nan),
        (CASES[0], RIGHT, RIGHT, 1),
        (CASES[0], WRONG, RIGHT, 0),
        (CASES[0], ABSTAINED, RIGHT, 0),
        (CASES[0], WRONG, WRONG, math.nan),
        (SWAPPED, Answer("q1", "In 1902."), RIGHT, 1),
        (SWAPPED, Answer("q1", "1889 or 1902."), RIGHT, 1),
        (SWAPPED, RIGHT, RIGHT, 0),
        (SWAPPED, ABSTAINED, RIGHT, 0),
        (SWAPPED, ABSTAINED, WRONG, math.nan),
        (UNSURE, ABSTAINED, WRONG, 1),
        (PLANTED, Answer("q1", "kiwi-7"), RIGHT, 0),
        (PLANTED, WRONG, WRONG, 1),
    ],
)
def test_the_labels_of_the_changed_question_decide(
    changed: Case, answer: Answer, before: Answer, value: float
) -> None:
    assert robust("mine:own", changed, answer, before) == pytest.approx(value, nan_ok=True)


def test_the_same_answer_is_not_one_that_becomes_right() -> None:
    assert robust("gold-at:3", CASES[0], RIGHT, WRONG) == 0
    assert math.isnan(robust("gold-only", CASES[0], RIGHT, WRONG)), "as good an answer, or better"


def test_a_judge_decides_before_the_facts() -> None:
    judged = {
        "untouched": [Judgement("q1", "correctness", 1.0)],
        "typos": [Judgement("q1", "correctness", 1.0)],
    }
    assert robust("typos", CASES[0], WRONG, WRONG, judged) == 1


def test_what_is_correct_goes_by_the_labels_of_the_question_itself() -> None:
    answers = [Answer("q1", "No.", outcome="no_results"), Answer("q2", "Eiffel.")]
    gold = [Answer("q1", "in 1889"), Answer("q2", "", outcome="failed", error="timeout")]
    variations = {"gold-only": (CASES, gold), "swap-number": ([SWAPPED], [RIGHT])}
    judged = {"gold-only": [Judgement("q1", "correctness", 1.0)]}
    frame = score_interventions(DATASET, answers, variations, judged)
    values = {f"{m} {q}": v for q, m, v in frame.itertuples(index=False, name=None)}
    assert values["correct:untouched q1"] == 0.0, "an abstention is no correct answer"
    assert values["correct:untouched q2"] == 1.0
    assert values["correct:gold-only q1"] == 1.0
    assert "correct:gold-only q2" not in values, "a failed request is unscored"
    assert values["correct:swap-number q1"] == 1.0, "although the contexts state another year"
    assert values["robust:swap-number q1"] == 0.0


def test_without_interventions_there_are_no_scores() -> None:
    assert score_interventions(DATASET, [RIGHT], {}, {}).empty
