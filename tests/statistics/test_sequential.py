"""Limits of people's difference that hold whenever one stops, and what a judge saves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from ragbench.errors import ConfigError
from ragbench.statistics.sequential import (
    FIRST_LOOK,
    Look,
    control_variates,
    critical_values,
    decision_of,
    sequence,
    systematic_sample,
)

Values = npt.NDArray[np.float64]
Drawn = tuple[Values, Values]  # people's differences; judges' differences


def _binary(
    rng: np.random.Generator, gap: float, miss: float, likes: float = 0.0, n: int = 301
) -> Drawn:
    """Two systems whose skills differ by `gap` answer n questions of normal difficulty. The judge
    repeats the person's verdict but for the fraction `miss`, and calls the fraction `likes` of B's
    wrong answers right.
    """
    difficulty = 1.5 * rng.normal(size=n)
    a, b = (rng.random(n) < 1 / (1 + np.exp(-(s + difficulty))) for s in (0.2 + gap, 0.2))
    judged = [side ^ (rng.random(n) < miss) for side in (a, b)]
    judged[1] |= ~b & (rng.random(n) < likes)
    return a.astype(float) - b, (judged[0].astype(float) - judged[1])[:, None]


def _graded(rng: np.random.Generator, gap: float, noise: float) -> Drawn:
    """Verdicts of 0, 0.25, ..., 1 on 300 questions, and a judge with normal errors."""
    skill = rng.beta(2, 1.3, 300)
    levels = [skill + 0.22 * rng.normal(size=300) + shift for shift in (gap, 0.0)]
    a, b = (np.clip(np.round(4 * level) / 4, 0, 1) for level in levels)
    return a - b, (a - b + noise * rng.normal(size=300) - 0.05)[:, None]


def _rare(rng: np.random.Generator) -> Drawn:
    """Verdicts on 400 questions that differ in 5 %, nine of ten in favour of A; the judge sees 80 %."""
    sign = np.where(rng.random(400) < 0.9, 1.0, -1.0)
    people = np.where(rng.random(400) < 0.05, sign, 0.0)
    return people, np.where(rng.random(400) < 0.8, people, 0.0)[:, None]


def _useless(rng: np.random.Generator, gap: float, judges: int) -> Drawn:
    people, _ = _binary(rng, gap, 0.0)
    return people, rng.normal(size=(len(people), judges))


MODELS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "good judge, no difference": lambda rng: _binary(rng, 0.0, 0.05),
    "good judge": lambda rng: _binary(rng, 0.6, 0.05),
    "biased judge": lambda rng: _binary(rng, 0.8, 0.1, likes=0.15),
    "graded": lambda rng: _graded(rng, 0.06, 0.2),
    "rare differences": _rare,
    "useless judge": lambda rng: _useless(rng, 0.8, 1),
    "three useless judges": lambda rng: _useless(rng, 0.8, 3),
}


def _looks(drawn: Drawn, rng: np.random.Generator, *, alone: bool) -> list[Look]:
    people, judged = drawn
    judged = judged[:, :0] if alone else judged
    is_open, batches = np.ones(len(people), dtype=bool), []
    while is_open.any():
        left = np.flatnonzero(is_open)
        batches.append(left[systematic_sample([judged[left].sum(axis=1)], 10, rng)])
        is_open[batches[-1]] = False
    return sequence(batches, people, control_variates(judged))


def _outcomes(name: str, run: int, *, alone: bool) -> dict[str, float]:
    rng = np.random.default_rng([run, len(name)])
    drawn = MODELS[name](rng)
    truth, looks = drawn[0].mean(), _looks(drawn, rng, alone=alone)
    decisions = [decision_of(look.low, look.high, 0.02) for look in looks]
    stop = next(i for i, name in enumerate([*decisions[:-1], "last"]) if name != "undecided")
    holds = [look.low - 1e-9 <= truth <= look.high + 1e-9 for look in looks]
    wrong = {"better": truth <= 0, "worse": truth >= 0}.get(decisions[stop], False)
    return {
        "at the decision": holds[stop],
        "at a random time": holds[rng.integers(len(looks))],
        "wrong": wrong,
        "labels": looks[stop].n,
        "mean labels": looks[stop].n,
        "width": looks[4].high - looks[4].low,
        "correlation": float(np.corrcoef(drawn[0], drawn[1].mean(axis=1))[0, 1]),
    }


@pytest.mark.simulation
@pytest.mark.parametrize("name", MODELS)
def test_a_thousand_times_until_it_is_decided(name: str) -> None:
    """The limits hold at the decision and at a random time, few decisions have the wrong sign, and
    a judge saves labels where it follows people, and costs none where it does not.
    """
    means = [
        {
            key: (np.median if key == "labels" else np.mean)([run[key] for run in runs])
            for key in runs[0]
        }
        for runs in (
            [_outcomes(name, i, alone=alone) for i in range(1000)] for alone in (False, True)
        )
    ]
    print(f"\n{name}: with the judge {means[0]}\nalone {means[1]}")
    for state in means:
        assert state["at the decision"] >= 0.94
        assert state["at a random time"] >= 0.94
        assert state["wrong"] <= 0.05
    ratio, mean_ratio = (means[0][key] / means[1][key] for key in ("labels", "mean labels"))
    if means[0]["correlation"] > 0.7 and name != "good judge, no difference":
        assert ratio <= 0.65
    assert mean_ratio <= 1.05, "medians move by whole batches of ten"
    assert means[0]["width"] <= 1.05 * means[1]["width"]


@pytest.mark.parametrize("name", MODELS)
def test_limits_hold_in_a_few_runs(name: str) -> None:
    runs = [_outcomes(name, i, alone=False) for i in range(8)]
    assert sum(run["at a random time"] for run in runs) >= 6


def test_a_sample_has_equal_probabilities_and_its_part_of_every_level() -> None:
    values, rng = np.repeat([0.0, 1.0, 2.0], [10, 25, 15]), np.random.default_rng(1)
    counts = np.zeros(50)
    for _ in range(4000):
        sample = systematic_sample([values], 10, rng)
        assert len(set(sample.tolist())) == 10
        assert np.bincount(values[sample].astype(int)).tolist() == [2, 5, 3]
        counts[sample] += 1
    assert np.abs(counts / 4000 - 0.2).max() < 0.03
    assert sorted(systematic_sample([values], 99, rng)) == list(range(50))
    assert systematic_sample([values[:0]], 5, rng).tolist() == []


def test_critical_values_are_those_of_t_at_one_look() -> None:
    [value] = critical_values((50,), 50_000, 0.05)
    spent = 0.05 * (1 + 60 / 50_000) * 50 / 110  # t with 49 degrees of freedom
    assert value == pytest.approx(2.33, abs=0.06), spent


def test_all_labels_leave_nothing_open_and_few_show_nothing() -> None:
    people = np.array([1.0, 0.0, -1.0, 1.0] * 10)
    none = np.zeros((40, 0))
    order = np.arange(40)
    assert sequence([order[: FIRST_LOOK - 1]], people, none) == []
    assert sequence([], people, none) == []
    assert sequence(np.split(order, [10, 20]), people, none)[-1] == Look(40, 0.25, 0.25, 0.25, 40)


def test_limits_only_come_nearer() -> None:
    looks = _looks(
        MODELS["good judge"](np.random.default_rng(3)), np.random.default_rng(4), alone=False
    )
    assert (np.diff([look.low for look in looks]) >= 0).all()
    assert (np.diff([look.high for look in looks]) <= 0).all()
    assert all(look.needed >= look.n for look in looks)


def test_labels_without_any_difference_prove_little() -> None:
    look = sequence([np.arange(40)], np.zeros(300), np.zeros((300, 0)))[0]
    assert look.estimate == 0
    assert look.high == -look.low == pytest.approx(0.078, abs=0.002)


def test_an_unscored_value_counts_as_the_mean_and_a_constant_judge_as_none() -> None:
    variates = control_variates(np.array([[1.0, 2.0], [3.0, 2.0], [np.nan, np.nan]]))
    assert variates[:, 0].round(3).tolist() == [-1.225, 1.225, 0.0]
    assert variates[:, 1].tolist() == [0.0, 0.0, 0.0]


def test_alpha_is_a_probability() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        sequence([], np.zeros(3), np.zeros((3, 0)), alpha=5)
