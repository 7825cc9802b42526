"""The winner's curse is there, and held-out queries lift it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError
from ragbench.statistics import held_out


def frames(matrix: np.ndarray, measure: str = "RR") -> dict[str, pd.DataFrame]:
    return {
        f"c{i:02d}": pd.DataFrame({"query_id": range(len(row)), "measure": measure, "value": row})
        for i, row in enumerate(matrix)
    }


def test_the_best_of_many_equals_looks_better_than_it_is() -> None:
    """Twelve configurations of one true mean, 0.5: chosen and measured on the same half, and on the
    other one.
    """
    rng = np.random.default_rng(0)
    found = [held_out(frames(rng.random((12, 60))), measure="RR") for _ in range(12)]
    there = np.mean([one.mean_choosing for one in found])
    here = np.mean([one.mean for one in found])
    assert (
        there > 0.55
    )  # the largest of 12 means of 30 numbers: 0.5 + 1.63 * 0.289 / sqrt(30) = 0.586
    assert here == pytest.approx(0.5, abs=0.06)  # 4 standard errors
    assert there - here > 0.06


def test_one_that_is_better_is_chosen_by_both_halves() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.random((3, 100)) * 0.3
    matrix[1] += 0.5
    found = held_out(frames(matrix), measure="RR")
    assert found.chosen == "c01"
    assert "p < 0.001" in found.sentence
    assert found.sentence.startswith("Chosen on 50 queries and measured on the 50 others, c01 has")
    assert "The other half chooses the same configuration." in found.sentence
    assert found.sentence == held_out(frames(matrix), measure="RR").sentence


def test_the_best_is_the_lowest_where_lower_is_better() -> None:
    matrix = np.random.default_rng(2).random((2, 60))
    matrix[0] += 5
    found = held_out(frames(matrix, "latency_total_ms"), measure="latency_total_ms")
    assert found.chosen == "c01"


def test_halves_that_disagree_are_reported() -> None:
    order = np.random.default_rng([0, 2]).permutation(50)
    matrix = np.zeros((2, 50))
    matrix[0, order[:25]] = 1.0
    matrix[1, order[25:]] = 1.0
    found = held_out(frames(matrix), measure="RR")
    assert (found.chosen, found.mean_choosing, found.mean) == ("c00", 1.0, 0.0)
    assert "against the runner-up c01 -1.000" in found.sentence, "on the half that did not choose"
    assert "would have chosen c01: these queries do not settle which is best" in found.sentence


def test_too_few_queries_are_reported() -> None:
    found = held_out(frames(np.random.default_rng(3).random((2, 49))), measure="RR")
    assert found.chosen == ""
    assert found.sentence.startswith("Too few queries to hold half of them out: 49 that all 2")
    with pytest.raises(ConfigError, match="1 configurations"):
        held_out(frames(np.zeros((1, 60))), measure="RR")
