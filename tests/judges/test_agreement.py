"""How far two sets of judgements agree, by hand."""

from __future__ import annotations

import math

import pytest

from ragbench.errors import DataError
from ragbench.judges import agreement
from ragbench.types import Judgement


def judgements(criterion: str, values: list[float | None]) -> list[Judgement]:
    return [Judgement(f"q{i}", criterion, value) for i, value in enumerate(values)]


def test_two_valued_verdicts_by_hand() -> None:
    """4 of 6 agree, and both say 1 three times: chance gives 1/2, so kappa is (4/6 - 1/2) / (1 -
    1/2).
    """
    first, second = [1, 1, 0, 0, 1, 0], [1, 0, 0, 0, 1, 1]
    row = agreement(judgements("correctness", [*first]), judgements("correctness", [*second])).iloc[
        0
    ]
    assert row["n"] == row["n_both"] == 6
    assert row["same"] == pytest.approx(4 / 6)
    assert row["difference"] == pytest.approx(2 / 6)
    assert row["kappa"] == pytest.approx(1 / 3)


def test_shares_have_means_and_differences_and_no_kappa() -> None:
    row = agreement(
        judgements("faithfulness", [0.5, 1.0, 0.2]), judgements("faithfulness", [0.75, 1.0, 0.3])
    ).iloc[0]
    assert row["mean_first"] == pytest.approx(1.7 / 3)
    assert row["mean_second"] == pytest.approx(2.05 / 3)
    assert row["same"] == pytest.approx(1 / 3)
    assert row["difference"] == pytest.approx(0.35 / 3)
    assert math.isnan(row["kappa"])


def test_unscored_pairs_are_counted_and_left_out() -> None:
    table = agreement(
        judgements("relevance", [1.0, None, 0.5]), judgements("relevance", [1.0, 1.0, None])
    )
    assert table[["n", "n_both", "same"]].to_numpy().tolist() == [[3, 1, 1.0]]
    none = agreement(judgements("relevance", [None]), judgements("relevance", [1.0]))
    assert none.loc[0, "n_both"] == 0
    assert none["same"].isna().all()


def test_pairs_do_not_depend_on_the_order() -> None:
    first = judgements("correctness", [1.0, 0.0]) + judgements("relevance", [0.5, 0.5])
    table = agreement(first, [*reversed(first), Judgement("q9", "relevance", 0.0)])
    assert table["criterion"].tolist() == ["correctness", "relevance"]
    assert table["same"].tolist() == [1.0, 1.0]
    assert table["n"].tolist() == [2, 2]


def test_all_equal_verdicts_have_no_kappa() -> None:
    assert (
        agreement(judgements("correctness", [1.0, 1.0]), judgements("correctness", [1.0, 1.0]))[
            "kappa"
        ]
        .isna()
        .all()
    )


def test_nothing_in_common_and_repeated_judgements_are_refused() -> None:
    with pytest.raises(DataError, match="no query and criterion in common"):
        agreement(judgements("correctness", [1.0]), judgements("relevance", [1.0]))
    with pytest.raises(DataError, match="query 'q0' has several judgements of relevance"):
        agreement(judgements("relevance", [1.0]) * 2, judgements("relevance", [1.0]))
