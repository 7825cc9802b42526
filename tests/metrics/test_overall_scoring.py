"""decide_overall: the overall next to its parts, and reasons a person can act on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from ragbench.errors import ConfigError
from ragbench.metrics.overall import THRESHOLDS, decide_overall, failure_reasons, overall_parts
from ragbench.types import Answer, Case, Dataset

CASES = [
    Case(
        "q1",
        "When?",
        category="dates",
        required_keywords=("1889", "spring"),
        reference_answer="In spring 1889.",
    ),
    Case("q2", "Where?", reference_answer="In Paris."),
    Case("q3", "Why?", expected_outcome="no_results"),
    Case("q4", "How?"),
]
DATASET = Dataset("mine", "test", {}, CASES, {})
ANSWERS = [
    Answer("q1", "In 1889 [1].", ("d#0",), ("d#0",)),
    Answer("q2", "In Paris.", ("d#0",)),
    Answer("q3", "no answer found in the documents", ("d#0",), outcome="no_results"),
    Answer("q4", "So.", ("d#0",), outcome="success"),
]


def frame(values: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    rows = [
        (query_id, measure, value)
        for measure, own in values.items()
        for query_id, value in own.items()
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"])


SCORES = frame(
    {
        "semantic_similarity": {"q1": 0.62, "q2": 0.9, "q3": math.nan},
        "claim_support": {"q1": 1.0, "q2": 0.9, "q3": math.nan},
        "citation_content": {"q1": 1.0, "q2": math.nan},
        "token_f1": {"q1": 0.1},
    }
)


def score_overall(*data: Any, **options: Any) -> pd.DataFrame:
    return decide_overall(*data, **options)[0]


def scored(answers: Sequence[Answer], scores: pd.DataFrame) -> dict[str, list[float]]:
    table = score_overall(DATASET, answers, scores)
    assert (
        table.groupby("measure", sort=False)["query_id"]
        .agg(list)
        .map(lambda ids: ids == ["q1", "q2", "q3", "q4"])
        .all()
    )
    return {
        str(name): values.tolist() for name, values in table.groupby("measure", sort=False)["value"]
    }


def near(*values: float) -> list[object]:
    return [pytest.approx(value, abs=1e-9, nan_ok=True) for value in values]


def test_whole_and_parts_by_hand() -> None:
    nan, values = math.nan, scored(ANSWERS, SCORES)
    assert list(values) == [
        "overall",
        "overall_semantic",
        "overall_keyword",
        "overall_hallucination",
        "pass_rate",
    ]
    assert values["overall_semantic"] == near(0.62, 0.9, nan, nan)
    assert values["overall_keyword"] == near(0.5, nan, nan, nan)
    assert values["overall_hallucination"] == near(0.0, 0.1, nan, nan)
    assert values["overall"] == near((0.248 + 0.1 + 0.2) / 0.8, (0.36 + 0.18) / 0.6, nan, nan)
    assert values["pass_rate"] == near(0.0, nan, 1.0, nan), "similarity decides nothing"


def test_citations_count_once_they_have_a_weight() -> None:
    weights = {"semantic": 40, "keyword": 20, "citation": 20, "hallucination": 20}
    table = score_overall(DATASET, ANSWERS, SCORES, weights=weights)
    values = {
        str(name): own.tolist() for name, own in table.groupby("measure", sort=False)["value"]
    }
    assert values["overall_citation"] == near(
        1.0, 0.0, math.nan, 0.0
    )  # q2 and q4 cite nothing where q1 does
    assert values["overall"] == near(
        0.248 + 0.1 + 0.2 + 0.2, (0.36 + 0.0 + 0.18) / 0.8, math.nan, 0.0
    )


def test_citations_are_unscored_for_a_system_without_citations() -> None:
    answers = [Answer("q2", "In Paris.", ("d#0",))]
    values = scored(answers, SCORES)
    assert "overall_citation" not in values
    assert values["overall"] == near(0.0, (0.36 + 0.18) / 0.6, math.nan, 0.0), (
        "unanswered, but answerable: 0"
    )
    assert values["pass_rate"] == near(0.0, math.nan, 0.0, 0.0), "questions without an answer fail"


def test_an_answer_with_nothing_to_judge_it_by_is_unscored() -> None:
    values = scored([Answer("q4", "So.", ("d#0",), outcome="success")], frame({}))
    assert math.isnan(values["pass_rate"][3])
    assert set(values) == {"overall", "pass_rate"}


def test_content_replaces_missing_accuracy() -> None:
    case, answer = CASES[1], Answer("q2", "In Paris [1].", ("d#0",), ("d#0",))
    assert overall_parts(case, answer, {"citation_content": 0.5})["citation"] == 0.5
    assert (
        overall_parts(case, answer, {"citation_content": 0.5, "citation_accuracy": 0.25})[
            "citation"
        ]
        == 0.5
    )


@pytest.mark.parametrize(
    ("case", "answer", "scores", "reasons"),
    [
        (Case("q", "?"), None, {}, ["no answer"]),
        (Case("q", "?"), Answer("q", "", error="time-out"), {}, ["failed: time-out"]),
        (Case("q", "?"), Answer("q", "", outcome="failed"), {}, ["failed"]),
        (Case("q", "?"), Answer("q", "x"), {}, []),
        (
            Case("q", "?", required_keywords=("a",)),
            Answer("q", "-", outcome="blocked"),
            {},
            ["abstained (blocked) where an answer was expected"],
        ),
        (
            Case("q", "?"),
            Answer("q", "-", ("c",), flags=("guardrail_blocked",)),
            {},
            ["abstained (guardrail_blocked) where an answer was expected"],
        ),
        (
            Case("q", "?", expected_outcome="no_results"),
            Answer("q", "Yes [1].", ("c",), ("c",)),
            {},
            ["outcome success where no_results was expected"],
        ),
        (
            Case("q", "?", expected_outcome="blocked"),
            Answer("q", "-", ("c",), outcome="no_results"),
            {},
            ["outcome no_results where blocked was expected"],
        ),
        (
            Case("q", "?", expected_outcome="blocked"),
            Answer("q", "-", flags=("guardrail_blocked",)),
            {},
            [],
        ),
        (
            Case("q", "?", expected_outcome="no_results"),
            Answer("q", "It is 42."),
            {},
            ["answered without any context where no_results was expected"],
        ),
        (Case("q", "?", expected_outcome="no_results"), Answer("q", "I don't know."), {}, []),
        (
            Case("q", "?", expected_outcome="no_results"),
            Answer("q", "It is 42.", flags=("no_context",)),
            {},
            [],
        ),
        (
            Case("q", "?", expected_outcome="uncertain"),
            Answer("q", "Yes [1].", ("c",), ("c",)),
            {},
            ["outcome success where uncertain was expected"],
        ),
        (
            Case("q", "?", expected_outcome="success"),
            Answer("q", "Yes.", ("c",), confidence=0.1),
            {},
            ["outcome uncertain (confidence 0.10, no citations) where success was expected"],
        ),
        (
            Case("q", "?", required_keywords=("a", "b")),
            Answer("q", "b"),
            {"semantic_similarity": 0.62, "claim_support": 0.7, "forbidden_claims_absent": 0.5},
            [
                "missing keywords: a",
                "states a forbidden claim",
            ],
        ),
        (
            Case("q", "?", required_keywords=("a", "b", "c")),
            Answer("q", "a b"),
            {},
            [],
        ),  # 0.67 is enough
        (
            Case("q", "?", required_flags=("x", "y"), forbidden_flags=("z",), min_citations=2),
            Answer("q", "a [1]", ("c",), ("c", "invalid:2"), flags=("x", "z")),
            {"citation_content": 1.0},
            ["required flags not set: y", "forbidden flags set: z", "citations 1 < 2"],
        ),
    ],
)
def test_reasons_in_words(
    case: Case, answer: Answer | None, scores: dict[str, float], reasons: list[str]
) -> None:
    assert failure_reasons(case, answer, scores) == reasons


def test_cases_that_do_not_pass_have_reasons() -> None:
    assert decide_overall(DATASET, ANSWERS, SCORES)[1] == {"q1": ("missing keywords: spring",)}
    thresholds = {**THRESHOLDS, "semantic": 0.7, "citation": 0.8}
    scores, reasons = decide_overall(DATASET, ANSWERS, SCORES, thresholds=thresholds)
    assert reasons == {
        "q1": ("semantic similarity 0.62 < 0.70", "missing keywords: spring"),
        "q2": ("citation_content 0.00 < 0.80",),
        "q4": ("citation_content 0.00 < 0.80",),
    }
    failed = scores.query("measure == 'pass_rate' and value == 0")["query_id"]
    assert failed.tolist() == list(reasons)


def test_thresholds_and_weights_of_ones_own() -> None:
    assert decide_overall(DATASET, ANSWERS, SCORES, thresholds={"semantic": 0.6})[1] == {}
    one = score_overall(DATASET, ANSWERS, SCORES, weights={"semantic": 1}).query(
        "measure == 'overall'"
    )["value"]
    assert one.tolist() == near(0.62, 0.9, math.nan, math.nan)


def test_every_part_is_a_measure_and_a_judgement_replaces_the_heuristic() -> None:
    case = Case(
        "q", "?", required_keywords=("a", "b"), gold_facts=(("c",),), expected_citations=("d#0",)
    )
    answer = Answer("q", "a", ("d#0",), ("d#0",))
    scores = {
        "semantic_similarity": 0.9,
        "claim_support": 0.75,
        "expected_document": 0.5,
        "citation_content": 0.25,
        "gold_fact_coverage": 0.125,
        "expected_claims": 0.375,
        "expected_citations": 0.625,
    }
    heuristic = {
        "semantic": 0.9,
        "keyword": 0.5,
        "expected_document": 0.5,
        "citation": 0.25,
        "hallucination": 0.25,
        "gold_facts": 0.125,
        "expected_claims": 0.375,
        "expected_citations": 0.625,
    }

    def scored(
        answer: Answer | None, scores: Mapping[str, float], case: Case = case, **options: Any
    ) -> dict[str, float]:
        parts = overall_parts(case, answer, scores, **options)
        return {name: value for name, value in parts.items() if not math.isnan(value)}

    assert scored(answer, scores) == heuristic
    judged = scored(answer, {**scores, "llm_correctness": 1.0, "llm_faithfulness": 0.8})
    assert judged == {
        **{
            name: value
            for name, value in heuristic.items()
            if name not in ("semantic", "gold_facts", "expected_claims", "hallucination")
        },
        "llm_correctness": 1.0,
        "llm_hallucination": 0.2,
    }
    without = replace(answer, citations=())
    assert scored(without, scores)["citation"] == 0, "the case expects citations"
    assert scored(without, scores, replace(case, expected_citations=()))["citation"] == 0.25
    assert (
        scored(without, scores, replace(case, expected_citations=()), citing=True)["citation"] == 0
    )
    assert (
        scored(without, scores, replace(case, expected_citations=(), min_citations=1))["citation"]
        == 0
    )
    assert scored(None, scores) == {}
    assert scored(replace(answer, outcome="no_results"), scores) == {}
    assert scored(answer, scores, replace(case, expected_outcome="no_results")) == {}


@pytest.mark.parametrize(
    ("case", "answer", "passed"),
    [
        (Case("q", "?"), Answer("q", "So."), None),
        (Case("q", "?", required_flags=("a",)), Answer("q", "So.", flags=("a",)), 1.0),
        (Case("q", "?", forbidden_flags=("a",)), Answer("q", "So."), 1.0),
        (Case("q", "?", min_citations=0), Answer("q", "So."), 1.0),
        (Case("q", "?", expected_outcome="no_results"), Answer("q", "I don't know."), 1.0),
        (
            Case("q", "?", latency_budget_ms={"total": 9}),
            Answer("q", "So.", latency_ms={"total": 8.0}),
            1.0,
        ),
        (
            Case("q", "?", latency_budget_ms={"total": 9}),
            Answer("q", "So.", latency_ms={"total": 10.0}),
            0.0,
        ),
        (Case("q", "?", latency_budget_ms={"total": 9}), Answer("q", "So."), None),
        (Case("q", "?"), Answer("q", "", error="time-out"), 0.0),
    ],
)
def test_each_criterion_alone_decides_on_passing(
    case: Case, answer: Answer, passed: float | None
) -> None:
    table = score_overall(Dataset("mine", "test", {}, [case], {}), [answer], frame({}))
    value = table.set_index("measure")["value"]["pass_rate"]
    assert (None if math.isnan(value) else value) == passed


def test_reasons_name_what_is_missing() -> None:
    case = Case(
        "q",
        "?",
        gold_facts=(("1889", "in 89"), ("Eiffel",)),
        expected_claims=("It is high.", "It is red."),
        expected_citations=("d#0", "d#9"),
    )
    answer = Answer("q", "In 1889 [1].", ("d#0",), ("d#0", "d#1"))
    scores = {
        "gold_fact_coverage": 0.5,
        "expected_claims": 0.5,
        "expected_citations": 0.5,
        "expected_document": 0.0,
        "citation_content": 1.0,
    }
    reasons = failure_reasons(
        case,
        answer,
        scores,
        thresholds={**THRESHOLDS, "expected_claims": 0.6},
        relevant={"a": 1, "b": 3, "c": 2, "d": 1, "e": 0},
    )
    assert reasons == [
        "expected document not retrieved: b, c, a and 1 more",
        "missing gold facts: Eiffel",
        'states 50% of the expected claims: "It is high.", "It is red."',
        "cites d#0, d#1, expected d#0, d#9",
    ]
    assert failure_reasons(case, answer, {**scores, "expected_document": 0.0}, relevant={"a": 1})[
        0
    ].endswith(": a")
    assert failure_reasons(case, answer, {"expected_document": 0.0})[:1] == [
        "expected document not retrieved"
    ]
    none = failure_reasons(
        case,
        replace(answer, citations=()),
        {"expected_claims": 0.0, "expected_citations": 0.0},
        thresholds={"expected_claims": 0.6, "expected_citations": 0.6},
    )
    assert none == [
        'states 0% of the expected claims: "It is high.", "It is red."',
        "cites nothing, expected d#0, d#9",
    ]


def test_thresholds_of_zero_leave_outcome_and_latency_out() -> None:
    case = Case("q", "?", expected_outcome="uncertain", latency_budget_ms={"total": 9})
    answer = Answer("q", "Yes [1].", ("c",), ("c",), latency_ms={"total": 10.0})
    assert len(failure_reasons(case, answer, {})) == 2
    assert failure_reasons(case, answer, {}, thresholds={"outcome": 0, "latency": 0}) == []
    assert failure_reasons(case, answer, {}, thresholds={}) == []


def test_errors_are_refused_before_scoring() -> None:
    with pytest.raises(ConfigError, match="did you mean 'keyword'"):
        score_overall(DATASET, ANSWERS, SCORES, weights={"keywords": 1})
    with pytest.raises(ConfigError, match="from 0 to 1"):
        score_overall(DATASET, ANSWERS, SCORES, thresholds={"semantic": 70})


def test_a_system_that_answers_nothing_has_the_overall_0_and_one_without_scores_none() -> None:
    bare = Dataset("bare", "test", {}, [Case("q1", "?"), Case("q2", "?")], {})
    silent = [Answer(q, "", outcome="no_results") for q in ("q1", "q2")]

    def overall(answers: Sequence[Answer]) -> list[float]:
        table = score_overall(bare, answers, frame({}))
        return table.loc[table["measure"] == "overall", "value"].tolist()

    assert overall(silent) == [0.0, 0.0]
    assert all(map(math.isnan, overall([silent[0], Answer("q2", "Yes.", ("d#0",))])))


def test_a_missing_fact_is_named_by_its_first_wording() -> None:
    case = Case("q", "Who?", gold_facts=(("Eiffel", "Gustave"), ("1889", "89")))
    reasons = failure_reasons(case, Answer("q", "In 1889."), {"gold_fact_coverage": 0.5})
    assert reasons == ["missing gold facts: Eiffel"]


@pytest.mark.parametrize(("n", "named"), [(3, "d0, d1, d2"), (4, "d0, d1, d2 and 1 more")])
def test_three_documents_that_were_not_retrieved_are_named(n: int, named: str) -> None:
    reasons = failure_reasons(
        Case("q", "Who?"),
        Answer("q", "Yes."),
        {"expected_document": 0.0},
        relevant={f"d{i}": 1 for i in range(n)},
        thresholds={"expected_document": 1.0},
    )
    assert reasons == [f"expected document not retrieved: {named}"]
