"""score_ablations: the same questions under each ablation's name, and an abstention scores nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ragbench.metrics import score_ablations
from ragbench.types import Answer, Case, Dataset, Judgement

CASES = [
    Case("q1", "When?", reference_answer="in 1889", gold_facts=(("1889",),)),
    Case("q2", "Who?", gold_facts=(("Eiffel",),)),
    Case("q3", "Colour of tomorrow?", gold_facts=(("x",),), expected_outcome="no_results"),
]
DATASET = Dataset("mine", "test", {}, CASES, {})


def values(
    answers: dict[str, list[Answer]],
    judged: Mapping[str, list[Judgement]] = MappingProxyType({}),
) -> dict[str, float]:
    frame = score_ablations(DATASET, answers, judged)
    return {f"{m} {q}": v for q, m, v in frame.itertuples(index=False, name=None)}


def test_prefix_of_the_ablation_and_zero_for_abstentions() -> None:
    found = values(
        {
            "actual": [Answer("q1", "No.", outcome="no_results"), Answer("q2", "Eiffel.")],
            "oracle": [
                Answer("q1", "in 1889"),
                Answer("q2", "", outcome="failed", error="timeout"),
            ],
        }
    )
    assert found["actual_gold_fact_coverage q1"] == 0.0
    assert found["actual_token_f1 q1"] == 0.0
    assert found["actual_semantic_similarity q1"] == 0.0
    assert found["actual_gold_fact_coverage q2"] == 1.0
    assert found["oracle_token_f1 q1"] == 1.0
    assert math.isnan(found["oracle_gold_fact_coverage q2"]), "a failed request is unscored"
    assert math.isnan(found["actual_token_f1 q2"]), "no reference, nothing to be 0"


def test_an_abstention_on_an_unanswerable_question_is_unscored() -> None:
    assert math.isnan(
        values({"actual": [Answer("q3", "No.", outcome="no_results")]})[
            "actual_gold_fact_coverage q3"
        ]
    )


def test_judgements_of_ablations_have_their_prefix_and_abstentions_are_zero() -> None:
    judged = {
        "oracle": [
            Judgement("q1", "correctness", 1.0),
            Judgement("q2", "correctness", None, state="abstained"),
        ],
        "actual": [Judgement("q1", "correctness", None, state="unreadable")],
    }
    answers = {
        "oracle": [Answer("q1", "in 1889"), Answer("q2", "No.", outcome="blocked")],
        "actual": [Answer("q1", "in 1889")],
    }
    found = values(answers, judged)
    assert found["oracle_llm_correctness q1"] == 1.0
    assert found["oracle_llm_correctness q2"] == 0.0
    assert math.isnan(found["actual_llm_correctness q1"])


def test_no_ablations_no_scores() -> None:
    assert score_ablations(DATASET, {}).empty
