"""The registry of measures: complete, found in any case, and the only place that knows bounds and
directions.
"""

from __future__ import annotations

import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.evaluation.targets import check_measure, load_targets
from ragbench.judges.criterion import CRITERIA
from ragbench.metrics.ranking_measures import DEFAULT_MEASURES
from ragbench.registry import (
    BRIEF,
    HEADLINE,
    LEADERBOARD,
    PERSPECTIVES,
    bounds_of,
    find_measure,
    higher_is_better,
    measure_of,
    named_among,
)

LOWER = {
    "attack_false_positive_rate",
    "boundary_cuts",
    "cost_usd",
    "fact_dispersion",
    "false_positive_rate",
    "false_block_rate",
    "harmless_blocked",
    "latency_{stage}_ms",
    "leak_false_positive_rate",
    "ngram_redundancy",
    "overall_hallucination",
    "overall_llm_hallucination",
    "overlap_ratio",
    "tfidf_redundancy",
}


def test_every_measure_has_what_a_reader_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragbench.registry._own", {})  # other tests declare measures of their own
    table = rb.measures()
    assert table["measure"].is_unique
    assert (table[["meaning", "source", "level"]] != "").all(axis=None)
    assert set(table["perspective"]) - {"own"} == {*PERSPECTIVES, ""} - {"own"}
    assert set(table.loc[table["better"] == "lower", "measure"]) == LOWER
    assert set(table.loc[table["perspective"] == "judge", "measure"]) == {
        f"llm_{name}" for name in CRITERIA
    }
    assert table.loc[table["perspective"] == "judge", "judged"].all()


def test_what_is_shown_first_is_registered_under_that_name() -> None:
    for name in (*HEADLINE, *BRIEF, *LEADERBOARD, *DEFAULT_MEASURES, *load_targets().measures):
        assert measure_of(name).name == name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ndcg@10", "nDCG@10"),
        ("NDCG@10", "nDCG@10"),
        ("Recall@5", "R@5"),
        ("hit rate@3", "Success@3"),
        ("mrr", "RR"),
        ("map", "AP"),
        ("SPAN:ndcg@7", "span:nDCG@7"),
        ("chunk:recall@3", "chunk:R@3"),
        ("Span_Recall@750TOK", "span_recall@750tok"),
        ("Claim_Support", "claim_support"),
        ("LATENCY_P95_MS", "latency_p95_ms"),
        ("Pass_Rate", "pass_rate"),
        ("LLM_Correctness", "llm_correctness"),
    ],
)
def test_names_are_accepted_in_any_case(written: str, meant: str) -> None:
    assert measure_of(written).name == measure_of(meant).name == meant
    assert check_measure(written) == meant
    assert named_among(written, ["other", meant]) == meant


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("ndgc@10", "nDCG@10"),
        ("claim_suport", "claim_support"),
        ("span:nDGC@5", "span:nDCG@5"),
        ("precison@5", "Precision@5"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(written: str, near: str) -> None:
    assert find_measure(written) is None
    with pytest.raises(ConfigError, match=f"unknown measure '{written}'; did you mean '{near}'"):
        measure_of(written)


@pytest.mark.parametrize("name", ["nDCG@0", "P", "span_recall@tok", "doc:nDCG@5", "", "latency_ms"])
def test_malformed_names_are_not_measures(name: str) -> None:
    assert find_measure(name) is None


@pytest.mark.parametrize(
    "name", ["boundary_cuts", "auc", "latency_generate_ms", "correct:gold-only"]
)
def test_what_no_evaluation_reports_has_no_target(name: str) -> None:
    with pytest.raises(ConfigError, match="can have no target"):
        check_measure(name)


def test_bounds_and_direction_of_what_is_not_registered() -> None:
    assert (bounds_of("of_my_own"), higher_is_better("of_my_own")) == ((None, None), True)
    assert bounds_of("fact_dispersion") == (1.0, None)
    assert measure_of("span_iou@5").best is None
    assert (measure_of("harmless_blocked").best, measure_of("latency_p95_ms").best) == (0.0, None)


def test_statistics_take_a_measure_in_any_case_and_report_its_name() -> None:
    frame = pd.DataFrame(
        {"query_id": range(8), "measure": "nDCG@10", "value": [0.1 * i for i in range(8)]}
    )
    other = frame.assign(value=frame["value"] + [0.1, 0.0] * 4)
    assert rb.compare(frame, other, measures=["ndcg@10"])["measure"].tolist() == ["nDCG@10"]
    within = rb.statistics.within_margin(
        {"a": frame, "b": other}, {"a": 1, "b": 2}, 0.5, measure="NDCG@10"
    )
    assert within.table["mean"].notna().all()
    with pytest.raises(ConfigError, match="nDCG@1 was not measured here; did you mean 'nDCG@10'"):
        rb.compare(frame, other, measures=["nDCG@1"])


def test_the_name_of_a_users_function_keeps_its_capitals_and_a_built_in_name_any_case() -> None:
    assert measure_of("Robust:NO-GOLD").name == "robust:no-gold"
    assert measure_of("robust:mine.words:Shout").name == "robust:mine.words:Shout"


def test_a_missing_measure_of_a_judge_names_the_measured_ones_also_a_similar_one() -> None:
    with pytest.raises(ConfigError, match=r"it needs a judge, .*\. Measured: llm_relevance_old"):
        named_among("llm_relevance", ["llm_relevance_old"])


@pytest.mark.parametrize(
    "name", ["claim_support", "recall@5", "SPAN_RECALL@500TOK", "latency_p95_ms"]
)
def test_a_known_measure_without_scores_is_missing_and_not_unknown(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"was not measured here.* Measured: nDCG@10, RR"
    ) as caught:
        named_among(name, ["nDCG@10", "RR"])
    assert "unknown" not in str(caught.value)
    with pytest.raises(ConfigError, match="unknown measure 'clam_support'"):
        named_among("clam_support", ["nDCG@10", "RR"])
