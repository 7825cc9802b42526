"""The best of many: what it promises and what other questions show."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.studies import best_of_many as study


def test_a_gain_on_every_question_is_kept() -> None:
    rng = np.random.default_rng(0)
    baseline = rng.random(100)
    matrix = pd.DataFrame({"a": baseline, "b": baseline + 0.1})
    choices = study.choose_the_best({"toy": matrix}, draws=6)
    assert set(choices["arms"]) == {2}
    assert set(choices["questions"]) == {20, 40}  # 80 are more than half of all
    assert choices[["promised", "shrunken", "real"]].to_numpy() == pytest.approx(0.1)


def test_luck_is_promised_and_not_kept() -> None:
    rng = np.random.default_rng(1)
    matrix = pd.DataFrame(rng.normal(0, 0.3, (400, 20)))  # twenty equal configurations
    table = study.promises(study.choose_the_best({"luck": matrix}, draws=30))
    rows = table[(table["arms"] == 17) & (table["questions"] == 40)]
    [row] = rows.to_dict("records")
    assert row["promised"] > 0.08
    assert abs(row["real"]) < 0.03
    assert abs(row["shrunken"] - row["real"]) < 0.04
    assert row["no_gain"] > 0.25


def test_promises_by_hand() -> None:
    rows = [("c", 3, 20, 0.4, 0.2, 0.1), ("c", 3, 20, 0.2, 0.2, -0.1)]
    columns = ["collection", "arms", "questions", "promised", "shrunken", "real"]
    [row] = study.promises(pd.DataFrame(rows, columns=columns)).to_dict("records")
    assert row["choices"] == 2
    assert row["promised"] == pytest.approx(0.3)
    assert row["kept"] == pytest.approx(0.0)
    assert row["no_gain"] == 0.5
