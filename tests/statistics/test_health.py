"""The health of a test set, on cases small enough to count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.statistics import dataset_health


def scores(matrix: list[list[float]], measure: str = "RR") -> dict[str, pd.DataFrame]:
    """One list per configuration."""
    return {
        f"c{i}": pd.DataFrame(
            {"query_id": [f"q{j}" for j in range(len(row))], "measure": measure, "value": row}
        )
        for i, row in enumerate(matrix)
    }


def test_discrimination_is_the_item_rest_correlation() -> None:
    values = np.random.default_rng(0).random((6, 9))
    table = dataset_health(scores(values.tolist()), measure="RR").questions.set_index("query_id")
    for j in range(9):
        rest = np.delete(values, j, axis=1).mean(axis=1)
        assert table.loc[f"q{j}", "discrimination"] == pytest.approx(
            np.corrcoef(values[:, j], rest)[0, 1]
        )
        assert table.loc[f"q{j}", "difficulty"] == pytest.approx(1 - values[:, j].mean())
    assert table["difficulty"].is_monotonic_decreasing


def test_a_question_with_a_turned_label_runs_against_the_rest() -> None:
    matrix = [[q * 0.2 * c / 4 for q in range(1, 6)] for c in range(1, 5)]
    for row in matrix:
        row[2] = 1 - row[2]
    found = dataset_health(scores(matrix), measure="RR")
    table = found.questions.set_index("query_id")
    assert table.loc["q2", "discrimination"] == pytest.approx(-1.0)
    assert any(
        "1 run against the rest" in line and line.endswith("q2.") for line in found.sentences
    )


def test_questions_without_spread_and_too_few_configurations() -> None:
    table = dataset_health(
        scores([[1, 0, 0.5], [1, 0, 0.7], [1, 0, 0.9]]), measure="RR"
    ).questions.set_index("query_id")
    assert table["moves"].to_dict() == {"q0": False, "q1": False, "q2": True}
    assert table.loc["q0", "discrimination"] is pd.NA
    two = dataset_health(scores([[1, 0, 0.5], [1, 0.2, 0.7]]), measure="RR").questions
    assert two["discrimination"].isna().all()


def test_difficulty_where_lower_is_better() -> None:
    table = dataset_health(
        scores([[0.2, 0.8], [0.4, 0.8]], "ngram_redundancy"), measure="ngram_redundancy"
    ).questions
    assert table.set_index("query_id")["difficulty"].to_dict() == pytest.approx(
        {"q0": 0.3, "q1": 0.8}
    )
    with pytest.raises(DataError, match="needs \\[0, 1\\]"):
        dataset_health(
            scores([[20.0, 30.0], [10.0, 1.0]], "latency_total_ms"), measure="latency_total_ms"
        )
