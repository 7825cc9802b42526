"""The cost of language models, and their columns in the leaderboard, on records whose numbers are
known.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ragbench.evaluation import Result, results
from ragbench.evaluation.deciding import deciding_questions
from ragbench.evaluation.records import cost_facts, costs_of
from ragbench.types import Answer, Completion, Judgement

MODEL = "anthropic:claude-haiku-4-5"  # 1 and 5 dollars per million tokens


def answer(query_id: str, *, cached: bool = False, ms: float = 0.0, **usage: Any) -> Answer:
    reply = Completion("Yes.", usage.pop("model", MODEL), 1_000, 200, ms / 1000, cached, **usage)
    return Answer(
        query_id, "Yes.", usage=reply, latency_ms={} if cached or usage else {"generate": ms}
    )


def facts_of(answers: list[Answer], *others: Any) -> dict[str, float | None]:
    return cost_facts(costs_of(answers, *others), answers)


def test_cost_is_that_of_all_replies_and_time_that_of_those_that_were_waited_for() -> None:
    answers = [
        answer("q1", ms=100),
        answer("q2", ms=300),
        answer("q3", cached=True),
        Answer("q4", "No context."),
    ]
    facts = facts_of(answers)
    # 1000 tokens in and 200 out are 0.001 + 0.001 dollars, three times.
    assert facts["cost_usd"] == pytest.approx(0.006)
    assert facts["generate_ms"] == 200.0


def test_an_unknown_price_is_no_cost_of_zero_and_stored_replies_have_no_time() -> None:
    assert (
        facts_of([answer("q1", model="openai:mine", ms=5), answer("q2", ms=7)])["cost_usd"] is None
    )
    assert facts_of([answer("q1", cached=True)])["generate_ms"] is None


def test_the_judge_is_a_part_of_the_cost_with_a_name_of_its_own() -> None:
    reply = Completion("", MODEL, 2_000, 400)
    judged = [
        Judgement("q1", "correctness", 1.0, usage=(reply, reply)),
        Judgement("q1", "relevance", 0.5),
    ]
    facts = facts_of([answer("q1", ms=100)], judged, [answer("q1", ms=1)])
    assert facts["generator_cost_usd"] == pytest.approx(0.002)
    assert facts["judge_cost_usd"] == pytest.approx(0.008)
    assert facts["cost_usd"] == pytest.approx(0.012)
    unknown = facts_of(
        [answer("q1")], [Judgement("q1", "c", 1.0, usage=(Completion("", "openai:x"),))]
    )
    assert unknown["generator_cost_usd"] == pytest.approx(0.002)
    assert (unknown["cost_usd"], unknown["judge_cost_usd"]) == (None, None)


def scores(by_measure: dict[str, list[float | None]]) -> pd.DataFrame:
    rows = [
        (f"q{i}", measure, value)
        for measure, values in by_measure.items()
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"])


def result(name: str, values: dict[str, list[float | None]], llm: str, **facts: Any) -> Result:
    parameters = {"retriever": "bm25", "chunker": "fixed", "chunk_size": 128, "llm": llm}
    return Result(
        name,
        {
            "parameters": parameters,
            "dataset": {"fingerprint": "abc"},
            "facts": {"chunks": 3, **facts},
        },
        run={},
        scores=scores(values),
        timings={},
    )


SMALL = result(
    "small", {"nDCG@10": [1.0, 0.0], "llm_correctness": [0.0, 1.0]}, "ollama:small", cost_usd=0.0
)
LARGE = result(
    "large",
    {"nDCG@10": [1.0, 0.0], "llm_correctness": [1.0, 1.0]},
    MODEL,
    cost_usd=0.5,
    generate_ms=900.0,
)


def test_a_sweep_of_models_alone_is_ranked_by_their_answers() -> None:
    assert deciding_questions([SMALL, LARGE]).measure == "llm_correctness"
    assert results.Results([SMALL, LARGE]).leaderboard()["name"].tolist() == ["large", "small"]
    other = result("other", {"nDCG@10": [1.0, 0.5], "llm_correctness": [0.0, 0.0]}, "extractive")
    assert deciding_questions([SMALL, other]).measure == "nDCG@10", "they retrieve differently"
    assert deciding_questions([other, other]).measure == "nDCG@10"
    assert (
        deciding_questions([SMALL, result("bare", {"nDCG@10": [1.0, 0.0]}, MODEL)]).measure
        == "nDCG@10"
    )


def test_the_leaderboard_has_the_costs_of_answers_and_judge() -> None:
    board = results.Results([SMALL, LARGE]).leaderboard()
    assert board["generate_ms"].tolist()[:1] == [900]
    costs = {"cost_usd": 0.75, "generator_cost_usd": 0.5, "judge_cost_usd": 0.25}
    judged = results.Results([result("a", {"nDCG@10": [1.0]}, MODEL, **costs)]).leaderboard()
    assert judged[list(costs)].iloc[0].to_dict() == costs
