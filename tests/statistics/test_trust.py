"""Labels of some questions show what people say of all: limits that hold whenever one stops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import norm, t

from ragbench.errors import ConfigError, DataError
from ragbench.statistics.trust import _looks, draw_order, estimate_difference

Values = npt.NDArray[np.floating]
N = 301
rng_of = np.random.default_rng


def verdicts(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """People's verdicts on two systems' answers: right where a normal skill, partly that of the
    question, exceeds a threshold.
    """
    common = 0.7 * rng.standard_normal(N)
    a, b = (common + 0.7 * rng.standard_normal(N) for _ in range(2))
    return (a > -0.3).astype(float), (b > -0.3 - gap).astype(float)


def good(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """A judge that errs in 5 % of the answers."""
    people = verdicts(rng, gap)
    judge = [np.where(rng.random(N) < 0.95, each, 1 - each) for each in people]
    return people[1] - people[0], judge[1] - judge[0]


def lenient(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """A judge that lets a quarter of the wrong answers of b pass, and a tenth of those of a."""
    a, b = verdicts(rng, gap)
    return b - a, np.maximum(b, rng.random(N) < 0.25) - np.maximum(a, rng.random(N) < 0.1)


def useless(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """A judge that throws a coin."""
    a, b = verdicts(rng, gap)
    return b - a, (rng.random(N) < 0.6) * 1.0 - (rng.random(N) < 0.6)


def graded(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """Graded verdicts, and a judge with a deviation of 0.1 from them."""
    common = 0.7 * rng.standard_normal(N)
    a, b = (norm.cdf(common + 0.7 * rng.standard_normal(N) + x) for x in (0, gap))
    judge = [np.clip(each + 0.1 * rng.standard_normal(N), 0, 1) for each in (a, b)]
    return b - a, judge[1] - judge[0]


def rare(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """Verdicts that differ in 3 % of the questions, and a judge without errors."""
    b = (rng.random(N) < 0.97) * 1.0
    a = np.where(rng.random(N) < 0.97, b, 1 - b)
    return b - a, b - a


def topics(rng: np.random.Generator, gap: float) -> tuple[Values, Values]:
    """Marks of 0, 1/4 ... 1, mostly 1, of questions that come in topics of ten, some of them hard; a
    judge that says yes or no, and yes to a third of what b has half right.
    """
    hard = np.repeat(rng.gamma(0.5, 1.0, N // 10 + 1), 10)[:N]
    lost = [np.minimum(rng.poisson(hard * rate), 4) for rate in (1.0, np.exp(-3 * gap))]
    a, b = (1 - each / 4 for each in lost)
    yes = (rng.random(N) < 1 / 3) & (b == 0.5)
    return b - a, np.maximum(b > 0.6, yes) * 1.0 - (a > 0.6)


def labelled_until_decided(
    values: Values, judge: Values | None, seed: int, stop: int = N
) -> tuple[int, float, float]:
    """Labels, and the limits when it is decided, or after `stop` labels."""
    proxies = pd.DataFrame(index=[f"q{i}" for i in range(N)])
    if judge is not None:
        proxies["judge"] = judge
    people = pd.Series(values, index=proxies.index)
    order = draw_order(proxies, seed=seed)
    decided_after = estimate_difference(proxies, people[order[: N - 1]]).decided_after
    n = min(decided_after or N, stop)
    state = estimate_difference(proxies, people[order[:n]])
    assert (state.decision != "undecided") == (n != stop or n in (N, decided_after))
    assert state.ci_low is not None
    assert state.ci_high is not None
    return n, state.ci_low, state.ci_high


def simulate(
    draw: Callable[[np.random.Generator, float], tuple[Values, Values]], gap: float, draws: int
) -> pd.Series[float]:
    """Coverage when it is decided, with labels alone, and where some are tired before; wrong signs;
    median labels over those of labels alone.
    """
    rng = rng_of([31, draws])
    rows = []
    for seed in range(draws):
        values, judge = draw(rng, gap)
        truth = values.mean()
        n, low, high = labelled_until_decided(values, judge, seed)
        n_alone, *alone = labelled_until_decided(values, None, seed)
        _, *tired = labelled_until_decided(values, judge, seed, int(rng.integers(20, N)))
        holds = [a - 1e-9 <= truth <= b + 1e-9 for a, b in ((low, high), alone, tired)]
        is_wrong = (low > 0 and truth <= 0) or (high < 0 and truth >= 0)
        rows.append([*holds, is_wrong, n, n_alone])
    table = pd.DataFrame(rows, columns=["decided", "alone", "tired", "wrong", "n", "n_alone"])
    summary = table.astype(float).mean()
    summary["ratio"] = table["n"].median() / table["n_alone"].median()
    return summary


@pytest.mark.simulation
@pytest.mark.parametrize("draw", [good, lenient, useless, graded, rare, topics])
@pytest.mark.parametrize("gap", [0.0, 0.2, 0.4])
def test_limits_cover_as_stated_where_one_stops_and_a_judge_saves_labels(
    draw: Callable[[np.random.Generator, float], tuple[Values, Values]], gap: float
) -> None:
    summary = simulate(draw, gap, 1000)
    print(f"\n{draw.__name__}, gap {gap}: {summary.round(3).to_dict()}")
    for when in ("decided", "alone", "tired"):
        assert summary[when] >= 0.94
    # A judge without errors leaves nothing to chance: its estimate is the truth in every draw, so that
    # limits hold always unless they exclude what they are the limits of.
    if draw is not rare:
        assert max(summary["decided"], summary["alone"]) <= 0.975
    assert summary["wrong"] <= 0.05
    assert summary["ratio"] <= 1.05
    if gap and draw in (good, graded, lenient):
        assert summary["ratio"] <= 0.65


@pytest.mark.simulation
@pytest.mark.parametrize("difference", [0.0, 0.01, 0.015, 0.018])
def test_limits_cover_every_difference_within_the_margin(difference: float) -> None:
    """Normal differences of deviation .1, of exactly this mean: with those of earlier looks that are
    taken for fixed samples limits would cover .92 at .015.
    """
    rng, holds = rng_of([5, int(1000 * difference)]), []
    for seed in range(1000):
        values = 0.1 * rng.standard_normal(N)
        _, low, high = labelled_until_decided(values - values.mean() + difference, None, seed)
        holds.append(low - 1e-9 <= difference <= high + 1e-9)
    print(f"\n{difference}: {np.mean(holds):.3f}")
    assert 0.94 <= np.mean(holds) <= 0.975


def test_what_is_within_the_margin_at_the_first_look_has_the_interval_of_student() -> None:
    """20 of 300 labels, half 0.001 and half -0.001: no other look can change what is decided here."""
    people = pd.Series([0.001, -0.001] * 10)
    state = estimate_difference(pd.DataFrame(index=range(300)), people)
    variance = (20 + 0.25 + 4 * np.exp(-20 / 2)) * 1e-6 / 19
    reach = t.isf(0.025, 19) * np.sqrt(variance * (1 / 20 - 1 / 300))
    assert state.decision == "within the margin"
    assert state.ci_low == pytest.approx(-reach, rel=0.01)
    assert state.ci_high == pytest.approx(reach, rel=0.01)


def test_limits_hold_in_a_few_cases() -> None:
    for draw in (lenient, rare):
        summary = simulate(draw, 0.2, 5)
        assert summary[["decided", "alone", "tired"]].mean() >= 0.8
        assert summary["wrong"] <= 0.2


def test_the_first_look_has_the_interval_of_student() -> None:
    """20 of 300 labels, 12 of them 1: the variance is 4.8 + .25 + 4 exp(-4.8 / 2) over 19."""
    people = pd.Series([1.0] * 12 + [0.0] * 8)
    state = estimate_difference(pd.DataFrame(index=range(300)), people)
    variance = (4.8 + 0.25 + 4 * np.exp(-4.8 / 2)) / 19
    reach = t.isf(0.025, 19) * np.sqrt(variance * (1 / 20 - 1 / 300))
    assert state.difference == pytest.approx(0.6)
    assert state.ci_low == pytest.approx(0.6 - reach, abs=0.001)
    assert state.ci_high == pytest.approx(0.6 + reach, abs=0.001)


def test_looks_are_at_20_and_every_ten_and_what_is_between_waits() -> None:
    proxies = pd.DataFrame(index=range(300))
    people = pd.Series(rng_of(2).permutation([1.0] * 150 + [0.0] * 150)) - 0.48
    states = [estimate_difference(proxies, people.head(n)) for n in (40, 47, 50)]
    assert states[0].difference == states[1].difference != states[2].difference
    assert "47 of 300 questions labelled. The last 7 wait for the next look" in states[1].sentence
    assert states[1].more is not None
    assert (states[1].more + 47) % 10 == 0


def test_looks_at_many_questions_share_alpha() -> None:
    """50,000 questions; 20,000 paths of no difference."""
    looks = _looks(50_000, 0.05)
    assert looks.counts[:3].tolist() == [20, 30, 40]
    assert (np.diff(looks.counts) <= np.maximum(10, looks.counts[:-1] / 40)).all()
    steps = np.sqrt(np.diff(looks.information, prepend=0.0))
    score, is_open = np.zeros(20_000), np.ones(20_000, dtype=bool)
    rng = rng_of(4)
    for step, information, limit in zip(steps, looks.information, looks.limits, strict=True):
        score += step * rng.standard_normal(20_000)
        is_open &= np.abs(score) <= limit * np.sqrt(information)
    assert is_open.mean() == pytest.approx(0.95, abs=0.005)
    people = pd.Series(0.3 * rng.standard_normal(1000))
    state = estimate_difference(pd.DataFrame(index=range(50_000)), people)
    assert state.n_waiting == 1000 - looks.counts[looks.counts <= 1000][-1] > 0
    assert f"The last {state.n_waiting} wait" in state.sentence


def test_who_labels_on_after_the_decision_gets_the_wider_interval() -> None:
    proxies = pd.DataFrame(index=range(300))
    people = pd.Series(rng_of(2).permutation([1.0] * 210 + [0.0] * 90))
    at, later = (estimate_difference(proxies, people.head(n)) for n in (20, 60))
    assert at.decided_after == later.decided_after == 20
    assert later.ci_high is not None
    assert later.ci_low is not None
    half = (later.ci_high - later.ci_low) / 2
    error = np.sqrt(people.head(60).var() * (1 / 60 - 1 / 300))
    assert half / error > 2.6, "and not 2"


def test_the_mean_is_known_when_all_is_labelled() -> None:
    judged = pd.DataFrame({"judge": [1.0, 0.0] * 20})
    state = estimate_difference(judged, pd.Series([1.0, 0.0, 0.0, 0.0] * 10))
    assert (state.difference, state.ci_low, state.ci_high) == pytest.approx((0.25, 0.25, 0.25))
    assert (state.decision, state.more) == ("better", 0)
    assert state.naive == 0.5


def test_equal_labels_are_no_certainty() -> None:
    judged = pd.DataFrame({"judge": [0.0] * 300})
    state = estimate_difference(judged, pd.Series([0.0] * 30))
    assert state.difference == 0.0
    assert state.ci_high is not None
    assert 0.05 < state.ci_high < 0.3
    assert state.decision == "undecided"
    assert state.more is not None
    assert 0 < state.more < 270


def test_several_proxies_and_missing_values_are_taken() -> None:
    rng = rng_of(3)
    values, judge = good(rng, 0.3)
    proxies = pd.DataFrame({"noise": rng.random(N), "judge": judge})
    proxies.iloc[::7, 1] = np.nan
    people = pd.Series(values)
    order = [int(i) for i in draw_order(proxies)]
    both = estimate_difference(proxies, people[order[:60]])
    one = estimate_difference(proxies[["noise"]], people[order[:60]])
    assert both.ci_high is not None
    assert both.ci_low is not None
    assert one.ci_high is not None
    assert one.ci_low is not None
    assert both.ci_high - both.ci_low < 0.8 * (one.ci_high - one.ci_low)
    assert both.ci_low <= values.mean() <= both.ci_high


def test_every_beginning_of_the_draw_has_its_part_of_each_stratum() -> None:
    proxies = pd.DataFrame({"judge": [1.0] * 30 + [0.0] * 60 + [-1.0] * 10})
    order = [int(i) for i in draw_order(proxies, seed=5)]
    assert sorted(order) == list(range(100))
    for n in (20, 50):
        counts = np.bincount(np.digitize(order[:n], [30, 90]), minlength=3)
        assert np.abs(counts - n * np.array([0.3, 0.6, 0.1])).max() <= 1


def test_what_cannot_be_estimated_is_refused() -> None:
    judged = pd.DataFrame({"judge": [1.0, 0.0]}, index=["a", "b"])
    with pytest.raises(DataError, match="1 labels are of questions that are not compared"):
        estimate_difference(judged, pd.Series({"c": 1.0}))
    with pytest.raises(ConfigError, match="margin is 2"):
        estimate_difference(judged, pd.Series({"a": 1.0}), margin=2)
    with pytest.raises(DataError, match="no question"):
        estimate_difference(judged.head(0), pd.Series(dtype=float))


def test_answers_that_are_all_the_same_are_within_the_margin() -> None:
    proxies = pd.DataFrame({"judge": pd.Series(dtype=float)})
    trust = estimate_difference(proxies, pd.Series(dtype=float), settled=[0.0] * 7)
    assert (trust.decision, trust.difference, trust.n, trust.more) == (
        "within the margin",
        0.0,
        7,
        0,
    )
    assert trust.naive is None
    assert "nan" not in str(trust)
    assert draw_order(proxies) == []


@pytest.mark.parametrize("n", [60, 3_000])
def test_a_difference_whose_interval_is_within_the_margin_is_not_called_worse(n: int) -> None:
    people = pd.Series([0.0] * 199 + [-1.0], index=range(200)).repeat(n // 60)
    people = people.sample(frac=1, random_state=1).reset_index(drop=True)
    proxies = pd.DataFrame({"judge": people})
    every = estimate_difference(proxies, people, margin=0.02)
    assert every.difference == pytest.approx(-0.005)
    assert every.decision == "within the margin"
    assert estimate_difference(proxies, people, margin=0.001).decision == "worse"
    for some in (100, 150, len(people) - 1):
        state = estimate_difference(proxies, people.iloc[:some], margin=0.02)
        if state.ci_low is not None and state.ci_high is not None:
            is_within = state.ci_low >= -0.02 and state.ci_high <= 0.02
            assert not (is_within and state.decision in ("better", "worse"))


def test_a_proxy_without_any_value_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    people = pd.Series(rng.choice([-1.0, 0.0, 1.0], 200))
    judge = people.where(rng.random(200) < 0.9, 0.0)
    plain = estimate_difference(pd.DataFrame({"judge": judge}), people.iloc[:60])
    unscored = pd.DataFrame({"broken": np.nan, "judge": judge})
    assert estimate_difference(unscored, people.iloc[:60]) == plain
    assert plain.proxy == "judge"
