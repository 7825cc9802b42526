"""A race of configurations: all answer the same questions in one random order, in rounds, and one stops
as soon as it is proven that it is not better than one that leads by a margin that matters.

One that leads is chosen after the first round, and replaced where another leads by more than the
margin; it answers all questions at once. From then on a bettor stakes a part of a capital of 1 on
each question, for each configuration i, on the difference of the leader from i: against the
hypothesis that i is better by the margin or more, or, where the leader is dearer, that i is as good
or better. Where that is true no bet gains on average, however earlier answers decide it, so that by
Ville's inequality (1939) the capital ever reaches 1 / alpha with a probability of at most alpha: then
i stops. One that has led never stops. So, with a probability of at least 1 - alpha, whenever one
looks, the best configuration is still there, or one that has led and is within the margin of it: only
the bets against the best can go wrong, and only where all that have led are worse than it by more than
the margin. That needs no correction for the number of configurations.

The best is the one that is best on all questions of the data set. They are drawn without replacement,
so that what is to come follows more and more from what was drawn (Waudby-Smith & Ramdas 2020,
"Confidence sequences for sampling without replacement", NeurIPS 33). The stake is what maximises the
growth that earlier differences let expect (the same, 2024, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86(1)). Where the leader fails no
other can lose to it, and where it is right none can win, so that its answers to the question, whose
mean is known, are a control variate of the difference. The two that are left at the end answer
everything, for a comparison of the usual kind.

Of the evaluations of a whole grid a race took on stored scores of `span_recall_auc` (1,000 orders each,
margin 0.02): 25 % of 31 configurations and 472 questions of the chunking study, 25 % of 25 on CLAP NQ,
39 and 43 % on two sets of SQuAD, 52 % on the 93 questions of pydoc. None lost the best by more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Ints
from ragbench.errors import ConfigError
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import Floats, bounds_of

ALPHA = 0.05
ROUNDS = 16
_STAKES = 0.1, 0.95  # fractions of the stake that could ruin
_STEPS = 500  # supposed means, from the smallest value to the largest


class Drops(NamedTuple):
    """What became of each configuration: after how many draws it stopped (0: it did not), which led
    then, and the largest logarithm of the capital against it; and those that have `led`, in order.
    """

    steps: Ints
    leaders: Ints
    capital: Floats
    led: list[int]


def round_ends(n: int) -> list[int]:
    """Return after how many of n draws each round ends, but the last, which decides nothing.

    >>> round_ends(110)[:4], round_ends(3)
    ([7, 14, 21, 28], [1, 2])
    """
    return sorted({math.ceil(n * i / ROUNDS) for i in range(1, ROUNDS)} - {n})


def run_race(
    values: Floats, costs: Floats, *, drawn: int, margin: float = 0.02, alpha: float = ALPHA
) -> Drops:
    """Run a race; higher is better.

    Args:
        values: draws x questions of a draw x configurations, from 0 to 1; NaN where one is unscored
            (that pair does not count) or has not answered. One that leads has answered all.
        costs: of each configuration.
        drawn: how many of the draws all others have answered.
        margin: loss that does not matter.
        alpha: probability that all within it of the best stop.

    >>> chances = np.random.default_rng(0).random((300, 1, 3))
    >>> answers = (chances < [0.7, 0.4, 0.7]).astype(float)
    >>> run_race(answers, np.zeros(3), drawn=300).steps.tolist()
    [0, 38, 0]
    """
    n_arms = values.shape[2]
    steps, leaders = np.zeros((2, n_arms), dtype=int)
    capital, peak = np.zeros((2, n_arms))
    led: list[int] = []
    start = 0
    for end in round_ends(len(values)):
        if end > drawn:
            break
        if led:
            shift = np.where(costs[led[-1]] <= costs, margin, 0)
            change = values[:end, :, led[-1], None] - values[:end] + shift
            control = np.nansum(values[:, :, led[-1]], axis=1)
            growth = _growth(change, shift - 1, control)[start:]
            peak = np.maximum(peak, capital + np.cumsum(growth, axis=0).max(axis=0))
            capital = capital + growth.sum(axis=0)
            decided = (peak >= -math.log(alpha)) & (steps == 0)
            decided[led] = False
            order = np.argsort(-np.where(decided, peak, 0), kind="stable")
            stopped = order[: min(decided.sum(), (steps == 0).sum() - 2)]
            steps[stopped], leaders[stopped] = end, led[-1]
        scored = np.maximum((~np.isnan(values[:end])).sum(axis=(0, 1)), 1)
        means = np.where(steps == 0, np.nansum(values[:end], axis=(0, 1)) / scored, -1)
        near = np.flatnonzero(means >= means.max() - margin / 2)
        best = min(near, key=lambda i: (costs[i], -means[i]))
        if not led or means[best] > means[led[-1]] + margin:
            led.append(int(best))
        start = end
    return Drops(steps, leaders, peak, led)


def _growth(change: Floats, low: Floats, control: Floats) -> Floats:
    """Return by what each draw changes the logarithm of the capital that is staked against a mean of
    0 or less over all draws, where no change of a question is below `low`.

    `control` is what is known of all draws beforehand. As far as earlier changes followed it, its
    difference from what could be expected of the draw is taken off the change.
    """
    size, n = change.shape[1], len(control)
    change = np.nan_to_num(change).sum(axis=1)
    drawn = np.arange(len(change))[:, None]
    centred = (control - control.mean())[: len(change), None]
    ahead, supposed = (-_earlier(each) / (n - drawn) for each in (centred, change))
    both, squares = _earlier(change * centred), _earlier(centred**2)
    slope = np.clip(both / np.maximum(squares + control.var(), 1e-12), 0, -low)
    least = size * low + slope * (control.mean() + ahead)
    room = np.maximum(supposed - least, 1e-9)
    rest = _earlier(change**2) - 2 * slope * both + slope**2 * squares + np.square(size * low)
    expected = _earlier(change) / np.maximum(drawn, 1) - supposed
    stake = np.clip(expected / (rest / (drawn + 1)) * room, *_STAKES)
    gains = 1 + stake * (change - slope * (centred - ahead) - supposed) / room
    return np.log(np.where(supposed < least - 1e-9, 1e6, np.clip(gains, 1e-6, 1e6)))


def _earlier(values: Floats) -> Floats:
    """Return the sum of the values before each."""
    return np.cumsum(values, axis=0) - values


def _lower_limits(values: Floats, bounds: tuple[int, int], population: int, alpha: float) -> Floats:
    """Return after each draw the largest supposed mean that is refuted, all at once."""
    supposed = np.linspace(*bounds, _STEPS, endpoint=False)
    control = np.zeros(population)
    growth = _growth(values[..., None] - supposed, bounds[0] - supposed - 1e-9, control)
    refuted = np.maximum.accumulate(growth.cumsum(axis=0), axis=0) >= -math.log(alpha)
    n_refuted = np.logical_and.accumulate(refuted, axis=1).sum(axis=1)
    return np.asarray(supposed[np.maximum(n_refuted - 1, 0)])


@dataclass(frozen=True)
class Race:
    """A race as far as it has come; what it has decided is computed again whenever it is asked for.

    `draws` are the questions of each draw in order, `scores` configuration -> its values in that
    order, as far as it has answered, None where one is unscored; all that have not stopped have
    answered `drawn`. `costs` are dollars, as far as they are known.
    """

    measure: str
    margin: float
    draws: Sequence[Sequence[str]]
    scores: Mapping[str, Sequence[float | None]]
    drawn: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> Ints:
        """Return how many questions there are up to each draw."""
        return np.cumsum([len(draw) for draw in self.draws])

    @cached_property
    def values(self) -> Floats:
        """Return draws x questions of a draw x configurations, higher is better; NaN where there is
        no value.

        Raises:
            ConfigError: of a measure that is not one from 0 to 1.
        """
        if (bounds := bounds_of(self.measure)) != (0.0, 1.0):
            raise ConfigError(
                f"a race by {self.measure} is not possible: its values are from {bounds[0]:g} to "
                f"{bounds[1]:g}; take a measure from 0 to 1, such as nDCG@10"
            )
        sizes = np.diff(self.sizes, prepend=0)
        values = np.full((len(sizes), max(sizes), len(self.scores)), np.nan)
        rows, places = np.nonzero(np.arange(max(sizes)) < sizes[:, None])
        for arm, column in enumerate(self.scores.values()):
            values[rows[: len(column)], places[: len(column)], arm] = np.array(column, dtype=float)
        return values if higher_is_better(self.measure) else 1 - values

    @cached_property
    def drops(self) -> Drops:
        """Return which configurations have stopped."""
        return self._run(self.values, self.drawn)

    def _run(self, values: Floats, drawn: int) -> Drops:
        costs = np.array([self.costs.get(name, math.inf) for name in self.scores])
        return run_race(values, costs, drawn=drawn, margin=self.margin)

    def simulate(self, orders: int = 50) -> float:
        """Return the mean fraction of all evaluations that races in random orders take, where all
        scores are there.
        """
        rng, n = np.random.default_rng(0), len(self.draws)
        steps = np.array([self._run(rng.permutation(self.values), n).steps for _ in range(orders)])
        return float(np.where(steps == 0, n, steps).mean() / n)

    @property
    def stopped(self) -> dict[str, int]:
        """Return after how many questions each configuration has stopped, for those that have."""
        steps = zip(self.scores, self.drops.steps, strict=True)
        return {name: int(self.sizes[step - 1]) for name, step in steps if step}

    @property
    def next_end(self) -> int:
        """Return after how many draws the next round ends; 0 where the race is over."""
        if len(self.scores) - len(self.stopped) < 3:
            return 0
        return next((end for end in round_ends(len(self.draws)) if end > self.drawn), 0)

    @property
    def summary(self) -> str:
        """Return what the answers so far have decided, in a sentence."""
        n, n_arms = int(self.sizes[-1]), len(self.scores)
        asked_of = {name: self.stopped.get(name, n) for name in self.scores}
        answers = sum(asked_of.values())
        dollars = sum(self.costs.get(name, 0) * count for name, count in asked_of.items())
        paid = f" and about ${dollars:.2f}" * (dollars > 0)
        return (
            f"race by {self.measure}: {len(self.stopped)} of {n_arms} configurations were dropped "
            f"before all {n} questions, which takes {answers / n / n_arms:.0%} of the evaluations{paid}; "
            f"the best, or one within {self.margin:g} of it, is among the others with a probability of "
            f"{1 - ALPHA:.0%} or more"
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return a row for each configuration that was dropped, by name: n (questions), leader (that
        led then), gain over it on these questions, ci_low, ci_high, reason (in words).

        The intervals are of the gain on all questions, and hold all at once, whenever one looks.
        """
        names, rows = list(self.scores), {}
        for name, n in self.stopped.items():
            arm = names.index(name)
            step, leader = self.drops.steps[arm], self.drops.leaders[arm]
            gain = self.values[:step, :, arm] - self.values[:step, :, leader]
            low, high = self._interval(gain, -1, ALPHA / (len(names) - 1))
            proven = f"not better than {names[leader]} by {self.margin:g} or more"
            if high[-1] < 0:
                proven = f"worse than {names[leader]} by at least {-high[-1]:.3f}"
            reason = f"dropped after {n} of {self.sizes[-1]} questions: {proven}"
            rows[name] = n, names[leader], np.nanmean(gain), low[-1], high[-1], reason
        columns = ["n", "leader", "gain", "ci_low", "ci_high", "reason"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def limits(self, name: str) -> pd.DataFrame:
        """Return how a configuration fared: after each number of questions (the index) its mean (1 is
        best), and ci_low and ci_high of that over all questions, which hold at any time.
        """
        n = int(np.searchsorted(self.sizes, len(self.scores[name]), side="right"))
        values = self.values[:n, :, list(self.scores).index(name)]
        scored = (~np.isnan(values)).sum(axis=1).cumsum()
        means = np.nansum(values, axis=1).cumsum() / np.maximum(scored, 1)
        low, high = self._interval(values, 0, ALPHA)
        return pd.DataFrame({"mean": means, "ci_low": low, "ci_high": high}, self.sizes[:n])

    def _interval(self, values: Floats, lowest: int, alpha: float) -> tuple[Floats, Floats]:
        """Return the limits of the mean of values from `lowest` to 1 after each draw."""
        n = len(self.draws)
        low = _lower_limits(values, (lowest, 1), n, alpha / 2)
        return low, -_lower_limits(-values, (-1, -lowest), n, alpha / 2)
