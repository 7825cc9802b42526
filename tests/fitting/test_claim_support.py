"""The coefficients of `claim_support` are those that tests/fitting/claim_support.py writes."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench.metrics.groundedness.evidence import LEXICAL, SEMANTIC
from ragbench.metrics.groundedness.support import coefficients
from tests.fitting import claim_support as fitting


def test_coefficients_are_of_this_evidence_and_not_negative() -> None:
    assert list(coefficients()["minilm"]) == ["constant", *LEXICAL, *SEMANTIC]
    assert list(coefficients()["lexical"]) == ["constant", *LEXICAL]
    for learnt in coefficients().values():
        assert learnt["constant"] < 0
        assert min(value for name, value in learnt.items() if name != "constant") >= 0


def test_the_fit_prefers_what_separates_and_the_scale_is_as_promised() -> None:
    draw = np.random.default_rng(1)
    labels = [0, 1] * 100
    evidence = np.stack([draw.normal(2 * np.array(labels)), draw.normal(size=200)], axis=1)
    weights = fitting.fit(evidence, labels, ["a", "b"])
    assert weights[0] * evidence[:, 0].std() > weights[1] * evidence[:, 1].std() >= 0
    own, near, verbatim = np.array([[2.0, 0]]), np.array([[0.0, 0]]), np.array([[3.0, 0]])
    found = fitting.calibrated(weights, ["a", "b"], own, near, verbatim)
    assert found["constant"] + found["a"] * 1 == pytest.approx(0, abs=0.01)
    assert 1 / (1 + np.exp(-found["constant"] - found["a"] * 3)) == pytest.approx(0.97, abs=0.01)


@pytest.mark.simulation
@pytest.mark.skipif(not fitting.DATA.is_dir(), reason=f"{fitting.DATA} is not there")
def test_the_command_reproduces_the_coefficients_and_ranks_as_well_as_overlap() -> None:
    found = fitting.collections()
    for model in ("minilm", "lexical"):
        fresh = fitting.coefficients(found, semantic=model == "minilm")
        assert fresh == pytest.approx(coefficients()[model], abs=0.03)
    for task, row in fitting.held_out_table(fitting.held_out_tasks(found), coefficients()).items():
        print(task, {name: round(value, 4) for name, value in row.items()})
        assert row["minilm minus overlap"] >= -0.002, task
        assert min(row["minilm high"], row["lexical high"]) >= 0, task


def test_auc_and_the_interval_of_a_difference() -> None:
    better, worse = np.array([3.0, 4, 5, 0, 1, 2]), np.array([3.0, 0, 5, 0, 4, 2])
    assert fitting.auc(better, 3) == 1
    assert fitting.auc(worse, 3) == pytest.approx((2 + 0.5 + 3) / 9)
    low, high = fitting.difference_interval(better, worse, 3)
    assert low <= 1 - 5.5 / 9 <= high
    assert fitting.difference_interval(better, better, 3) == (0, 0)
