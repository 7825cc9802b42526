"""The same question asked several times and the turns of a conversation are one observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragbench.statistics import compare
from ragbench.statistics.clusters import clusters_of
from ragbench.statistics.intervals import cluster_interval, safe_intervals


def scores(ids: list[str], values: Any) -> pd.DataFrame:
    return pd.DataFrame({"query_id": ids, "measure": "RR", "value": values})


def turns(*lengths: int) -> list[str]:
    return [f"c{i}<::>{turn}" for i, length in enumerate(lengths) for turn in range(length)]


def test_the_same_words_are_one_cluster_in_every_form() -> None:
    texts = {
        "a": "Wann wurde die Straße gebaut?",
        "b": " wann wurde die\nSTRASSE gebaut?",
        "c": "Wo?",
    }
    assert clusters_of("abc", texts) == {"a": "a", "b": "a", "c": "c"}
    assert clusters_of("abc", {}) == {}, "questions whose words are unknown"


def test_a_turn_of_the_same_words_is_another_question_in_another_conversation() -> None:
    texts = dict(
        zip(turns(2, 2, 2), ["Mill?", "When?", "Rail?", "When?", "Mill?", "When?"], strict=True)
    )
    clusters = clusters_of(texts, texts)
    assert list(clusters.values()) == ["c0", "c0", "c1", "c1", "c0", "c0"]


def test_a_question_asked_ten_times_counts_once() -> None:
    rng = np.random.default_rng(0)
    change = rng.uniform(-0.2, 0.5, 12)
    names = [f"q{i}" for i in range(12)]
    once = compare(scores(names, 0.4), scores(names, 0.4 + change)).iloc[0]
    ids = [f"q{i}_{copy}" for i in range(12) for copy in range(10)]
    texts = {query_id: f"Question {query_id.partition('_')[0]}?" for query_id in ids}
    before, after = scores(ids, 0.4), scores(ids, 0.4 + np.repeat(change, 10))
    row = compare(before, after, questions=texts).iloc[0]
    assert (row["n"], row["n_clusters"]) == (120, 12)
    for column in ("difference", "ci_low", "ci_high", "p_value", "p_likely", "mde"):
        assert row[column] == pytest.approx(once[column]), column
    assert row["decision"] == once["decision"] != "better"
    unknown = compare(before, after).iloc[0]
    assert unknown["n_clusters"] <= 12, "copies resemble their neighbours"
    assert unknown["decision"] != "better"
    shuffled = before.sample(frac=1, random_state=0)
    assert compare(shuffled, after)["decision"].tolist() == ["better"], (
        "if nothing is known of them"
    )


def test_six_questions_asked_ten_times_are_too_few() -> None:
    ids = [f"q{i}_{copy}" for i in range(6) for copy in range(10)]
    texts = {query_id: query_id.partition("_")[0] for query_id in ids}
    row = compare(scores(ids, 0.0), scores(ids, 1.0), questions=texts).iloc[0]
    assert (row["decision"], row["n_clusters"]) == ("not possible", 6)


def test_one_long_conversation_does_not_hide_what_all_show() -> None:
    ids = turns(*[1] * 19, 12)
    row = compare(scores(ids, 0.3), scores(ids, 0.65)).iloc[0]
    assert row["decision"] == "better"
    assert 0.1 < row["ci_low"] < 0.35 < row["ci_high"] < 0.6
    assert (row["n"], row["n_clusters"]) == (31, 20)


def test_an_unseen_conversation_may_be_as_long_as_those_seen() -> None:
    """By the mean length alone the p would be a fourth of it, and the decision "better"."""
    ids = turns(*[1] * 15, 12)
    row = compare(scores(ids, 0.3), scores(ids, 0.5)).iloc[0]
    assert row["p_value"] > 0.05
    assert row["decision"] == "likely better"


def test_turns_of_a_conversation_are_no_independent_questions() -> None:
    rng = np.random.default_rng(3)
    effect = rng.uniform(-0.2, 0.45, 12)
    ids = turns(*[12] * 12)
    row = compare(scores(ids, 0.4), scores(ids, 0.4 + np.repeat(effect, 12))).iloc[0]
    single = [query_id.replace("<::>", "-") for query_id in ids]
    before, after = scores(single, 0.4), scores(single, 0.4 + np.repeat(effect, 12))
    alone = compare(before.sample(frac=1, random_state=0), after).iloc[0]
    assert (row["n_clusters"], alone["n_clusters"]) == (12, 144)
    assert alone["decision"] == "better"
    in_order = compare(before, after).iloc[0]
    assert in_order["decision"] == "undecided", "neighbours resemble each other"
    assert row["decision"] == "undecided"
    assert row["n_to_decide"] > 144


def test_clusters_of_one_length_have_the_interval_of_their_means() -> None:
    values = np.random.default_rng(1).uniform(-0.3, 0.6, 15)
    plain = safe_intervals([values], [1.0], 0.05)
    low, high, p = cluster_interval(values, np.ones(15), 1.0, 0.05)
    assert (low, high, p) == pytest.approx((plain.low[0], plain.high[0], plain.p[0]), abs=1e-6)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_p_and_interval_of_clusters_agree(alpha: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        lengths = rng.integers(1, 8, 14)
        sums = lengths * rng.uniform(-0.6, 0.9, 14) / lengths.mean()
        low, high, p = cluster_interval(sums, lengths / lengths.mean(), 1.0, alpha)
        if abs(p - alpha) > 1e-5:
            assert (p < alpha) == (low > 0 or high < 0)
