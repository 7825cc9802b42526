"""Judges and people: published and hand-computed numbers, parity with scikit-learn and scipy, what
cannot be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

from ragbench.errors import DataError, DataWarning
from ragbench.statistics import judge_agreement
from ragbench.types import Judgement


def judged(values: Sequence[float | None], criterion: str = "correctness") -> list[Judgement]:
    return [
        Judgement(f"q{i}", criterion, value, state="unreadable" if value is None else "scored")
        for i, value in enumerate(values)
    ]


def people(
    values: Sequence[float | None], criterion: str = "correctness", annotator: str = "ann"
) -> pd.DataFrame:
    rows = [(f"q{i}", criterion, value, annotator) for i, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["query_id", "criterion", "value", "annotator"])


def value_of(table: pd.DataFrame, statistic: str, between: str = "judge-human") -> float:
    row = table[(table["statistic"] == statistic) & (table["between"] == between)]
    return float(row["value"].iloc[0])


def test_ac1_of_gwet_by_hand() -> None:
    """118 both yes, 5 and 2 differ: q = (123 + 120) / 250 = .972, chance 2 q (1 - q) = .0544; kappa
    is below 0.
    """
    judge, human = [1.0] * 123 + [0.0] * 2, [1] * 118 + [0] * 5 + [1] * 2
    table = judge_agreement(judged(judge), people(human))
    chance = 2 * 0.972 * 0.028
    assert value_of(table, "ac1") == pytest.approx((118 / 125 - chance) / (1 - chance))
    assert value_of(table, "ac1") == pytest.approx(0.941, abs=5e-4)
    assert value_of(table, "kappa") < 0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 0.25, 0.5, 0.75, 1]), st.sampled_from([0, 0.25, 0.5, 0.75, 1])
        ),
        min_size=4,
    )
)
def test_parity_with_scikit_learn(pairs: list[tuple[float, float]]) -> None:
    judge, human = [one for one, _ in pairs], [other for _, other in pairs]
    if len(set(judge)) < 2 or len(set(human)) < 2 or set(human) <= {0, 1}:  # which is nominal
        return
    table = judge_agreement(judged(judge, "relevance"), people(human, "relevance"))
    levels = [[int(4 * value) for value in side] for side in (judge, human)]
    assert value_of(table, "accuracy") == pytest.approx(np.mean(np.equal(levels[0], levels[1])))
    assert value_of(table, "kappa") == pytest.approx(cohen_kappa_score(*levels))
    assert value_of(table, "kappa_quadratic") == pytest.approx(
        # which would take the levels that occur for neighbours
        cohen_kappa_score(*levels, labels=range(5), weights="quadratic")
    )


def test_shares_count_as_the_nearest_level() -> None:
    rng = np.random.default_rng(0)
    human = rng.random(30)
    judge = np.clip(human + rng.normal(0, 0.1, 30), 0, 1)
    nearest = [np.round(4 * values) / 4 for values in (judge, human)]
    table = judge_agreement(
        judged(list(judge), "faithfulness"), people(list(human), "faithfulness")
    )
    assert table["scale"].unique().tolist() == ["ordinal"]
    assert value_of(table, "accuracy") == pytest.approx(np.mean(np.equal(*nearest)))
    assert value_of(table, "kappa_quadratic") > 0.8


def test_a_mean_of_samples_counts_as_the_verdict_it_is_nearest_to() -> None:
    table = judge_agreement(judged([2 / 3, 1 / 3, 1.0, 0.5]), people([1, 0, 1, 0]))
    assert value_of(table, "accuracy") == 0.75


def test_one_value_everywhere_has_accuracy_alone() -> None:
    accuracy, kappa, _ = judge_agreement(judged([1.0, 1.0, 1.0]), people([1, 1, 1])).to_dict(
        "records"
    )
    assert accuracy["value"] == 1
    assert pd.isna(kappa["value"])


def test_unscored_judgements_are_counted_and_unrequested_ones_are_not() -> None:
    verdicts = [*judged([1.0, None, 0.0]), Judgement("q3", "correctness", None, state="abstained")]
    with pytest.warns(DataWarning, match="1 of 4 human labels are of answers that were not judged"):
        table = judge_agreement(verdicts, people([1, 1, 0, 1]))
    assert table["n"].tolist() == [2] * 3
    assert table["n_unscored"].tolist() == [1] * 3


def test_two_people_give_a_ceiling() -> None:
    labels = pd.concat(
        [people([1, 0, 1, 0], annotator="ann"), people([1, 1, 1, None], annotator="bob")]
    )
    table = judge_agreement(judged([1.0, 0.0, 0.0, 0.0]), labels)
    assert value_of(table, "accuracy") == pytest.approx((3 + 1) / 7), (
        "the judge with each label of each person"
    )
    assert value_of(table, "accuracy", "human-human") == pytest.approx(2 / 3)
    assert table[table["between"] == "human-human"]["n"].unique().tolist() == [3]


def test_intervals_draw_questions_not_labels() -> None:
    """Ten labels of each question say no more than one when they are all alike."""
    rng = np.random.default_rng(3)
    judge, human = rng.integers(0, 2, 40).astype(float), rng.integers(0, 2, 40).astype(float)
    one = judge_agreement(judged(list(judge)), people(list(human)))
    many = pd.concat([people(list(human), annotator=f"person {i}") for i in range(10)])
    ten = judge_agreement(judged(list(judge)), many)
    ten = ten[ten["between"] == "judge-human"].reset_index(drop=True)
    columns = ["statistic", "value", "ci_low", "ci_high"]
    pd.testing.assert_frame_equal(one[columns], ten[columns])


def test_the_interval_of_accuracy_is_that_of_a_proportion() -> None:
    table = judge_agreement(judged([1.0] * 100), people([1.0] * 70 + [0.0] * 30))
    row = table[table["statistic"] == "accuracy"].iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        proportion_confint(70, 100, method="wilson")
    )


def test_every_form_of_labels_gives_the_same() -> None:
    verdicts = judged([1.0, 0.0, 1.0])
    frame = people([1, 0, 0])
    forms: list[Any] = [frame, frame.to_dict("records"), frame.drop(columns="annotator")]
    tables = [judge_agreement(verdicts, form) for form in forms]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])


@pytest.mark.parametrize(
    ("human", "message"),
    [
        (people([1, 2]), "expected one value in .0, 1., got .*2.0"),
        (people([None, None]), "no human label with a value"),
        (people([1, 0], "relevance"), "2 of 2 human labels are of answers that were not judged"),
        (people([1, 0]).drop(columns="value"), "no column value"),
        (pd.concat([people([1]), people([0])]), "human label: expected one value by each rater"),
        (people([1, 0]).assign(value=["good", "bad"]), "expected numbers from 0 to 1"),
        (
            people([1, 0]).assign(configuration=["a", "b"]),
            "name both: {configuration: judgements}",
        ),
    ],
)
def test_labels_that_cannot_be_used_are_refused(human: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        judge_agreement(judged([1.0, 0.0]), human)


def test_judgements_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(DataError, match="judgement: expected one"):
        judge_agreement(judged([1.0]) * 2, people([1]))
    with pytest.raises(DataError, match="no answer was judged"):
        judge_agreement([Judgement("q0", "correctness", None, state="abstained")], people([1]))
    with pytest.raises(DataError, match="name both"):
        judge_agreement({"a": judged([1.0]), "b": judged([1.0])}, people([1]))


def test_full_agreement_on_a_few_is_not_certainty() -> None:
    values = [0.0, 1.0] * 6
    accuracy, kappa, _ = judge_agreement(judged(values), people(values)).to_dict("records")
    low, high = proportion_confint(12, 12, method="wilson")
    assert (accuracy["ci_low"], accuracy["ci_high"]) == pytest.approx((low, high))
    assert (kappa["ci_low"], kappa["ci_high"]) == (1.0, 1.0)


def test_resamples_in_which_a_statistic_is_undefined_are_left_out() -> None:
    """Of two questions, both draws are the same one with a probability of 1/2."""
    table = judge_agreement(judged([1.0, 0.0]), people([1, 0])).set_index("statistic")
    assert table["ci_low"]["kappa"] == 1.0


def test_criteria_keep_the_order_of_the_labels() -> None:
    both = [*judged([1.0, 0.0], "b"), *judged([1.0, 0.0], "a")]
    labels = pd.concat([people([1, 0], "b"), people([1, 0], "a")])
    assert judge_agreement(both, labels)["criterion"].unique().tolist() == ["b", "a"]


def test_too_little_to_compare_has_no_value() -> None:
    none = judge_agreement(judged([None]), people([1])).iloc[0]
    assert none["value"] is pd.NA
    single = judge_agreement(judged([1.0]), people([1])).iloc[0]
    assert (single["value"], single["ci_low"]) == (1.0, pd.NA)


def test_labels_of_yes_and_no_are_nominal_and_others_ordinal() -> None:
    def scale(*values: float) -> str:
        return str(judge_agreement(judged(values), people(values))["scale"].unique().item())

    assert [scale(0, 1, 1), scale(0, 0.25, 0.5, 0.75, 1), scale(0, 0.3, 1)] == [
        "nominal",
        "ordinal",
        "ordinal",
    ]
