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
so that the later draws follow more and more from the earlier ones (Waudby-Smith & Ramdas 2020,
"Confidence sequences for sampling without replacement", NeurIPS 33). The stake is what maximises the
growth that earlier differences let expect (the same, 2024, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86(1)). If the leader fails no
other can lose to it, and if it is right none can win, so that its answers to the question, whose
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
from ragbench.errors import ConfigError, plural
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import Floats, bounds_of
from ragbench.statistics.thresholds import ALPHA, MARGIN

ROUNDS = 16  # after each of which configurations may stop
_STAKES = (0.1, 0.95)  # fractions of the stake that could ruin
_STEPS = 500  # supposed means, from the smallest value to the largest


class Drops(NamedTuple):
    """The state of a race: for each configuration the number of draws after which it stopped (0: it
    did not), the index of the leader then, and the largest logarithm of the capital against it; and
    the indices of the configurations that have `led`, in order.
    """

    steps: Ints
    leaders: Ints
    capital: Floats
    led: list[int]


def round_ends(n: int) -> list[int]:
    """Return the number of draws at the end of each round, of n draws in all; without the last round,
    which decides nothing.

    >>> round_ends(110)[:4], round_ends(3)
    ([7, 14, 21, 28], [1, 2])
    """
    return sorted({math.ceil(n * i / ROUNDS) for i in range(1, ROUNDS)} - {n})


def run_race(
    values: Floats, costs: Floats, *, drawn: int, margin: float = MARGIN, alpha: float = ALPHA
) -> Drops:
    """Drop configurations that are not better than the leader, while the questions are asked; higher
    is better.

    A bettor bets against each configuration that it is better than the leader; after each round the
    configurations against which the largest capital so far is 1 / alpha or more stop. Two always
    stay. The leader changes if another configuration is ahead of it by more than the margin.

    Args:
        values: (draws, questions of a draw, configurations), from 0 to 1; NaN if a configuration is
            unscored (the pair does not count) or has not answered. A draw is a question, or several
            that are asked together. A leader has answered all draws.
        costs: cost of each configuration.
        drawn: the number of draws that all other configurations have answered.
        margin: a loss that does not matter.
        alpha: probability that all configurations within the margin of the best stop.

    >>> chances = np.random.default_rng(0).random((300, 1, 3))
    >>> answers = (chances < [0.7, 0.4, 0.7]).astype(float)
    >>> run_race(answers, np.zeros(3), drawn=300).steps.tolist()
    [0, 38, 0]
    """
    n_arms = values.shape[2]
    steps = np.zeros(n_arms, dtype=int)
    leaders = np.zeros(n_arms, dtype=int)
    capital = np.zeros(n_arms)  # of the bettor against each configuration; a logarithm
    peak = np.zeros(n_arms)  # the largest capital so far
    led: list[int] = []  # the leaders so far
    start = 0
    for end in round_ends(len(values)):
        if end > drawn:
            break
        if led:
            leader = led[-1]
            # of this round's draws, as logarithms: sums are the growth over several draws
            growth = _growth_against_leader(values, costs, leader, end, margin)[start:]
            peak = np.maximum(peak, capital + np.cumsum(growth, axis=0).max(axis=0))
            capital = capital + growth.sum(axis=0)
            is_running = steps == 0
            may_stop = is_running & (peak >= -math.log(alpha))
            may_stop[led] = False  # a configuration that has led is never stopped
            candidates = np.flatnonzero(may_stop)
            largest_first = candidates[np.argsort(-peak[candidates], kind="stable")]
            stopped = largest_first[: is_running.sum() - 2]  # two always stay
            steps[stopped] = end
            leaders[stopped] = leader
        means = _means_of_arms(values[:end])
        means = np.where(steps == 0, means, -1)  # a stopped configuration cannot lead
        best = _cheapest_near_best(means, costs, margin / 2)
        # the first round has no leader yet, so it only chooses one
        if not led or means[best] > means[led[-1]] + margin:
            led.append(best)
        start = end
    return Drops(steps, leaders, peak, led)


def _cheapest_near_best(means: Floats, costs: Floats, distance: float) -> int:
    """Return the index of the cheapest configuration whose mean is within a distance of the best mean; of
    equally cheap ones, the best.
    """
    near_best = np.flatnonzero(means >= means.max() - distance)
    return int(min(near_best, key=lambda i: (costs[i], -means[i])))


def _means_of_arms(values: Floats) -> Floats:
    """Return the mean value of each configuration (configurations,); 0 if it has none."""
    n_scored = (~np.isnan(values)).sum(axis=(0, 1))
    means: Floats = np.nansum(values, axis=(0, 1)) / np.maximum(n_scored, 1)
    return means


def _growth_against_leader(
    values: Floats, costs: Floats, leader: int, end: int, margin: float
) -> Floats:
    """Return the growth of the capital by the first `end` draws (draws, configurations) in the bets that
    each configuration is not better than the leader by the margin; a cheaper one, not better at all.
    """
    tolerance = np.where(costs[leader] <= costs, margin, 0)  # 0 for a cheaper configuration
    # how far the leader is ahead, plus the tolerance (draws, questions, configurations): a mean of
    # 0 or less is the claim that the configuration is better by the tolerance or more
    change = values[:end, :, leader, None] - values[:end] + tolerance
    leader_values = np.nansum(values[:, :, leader], axis=1)
    return _growth(change, tolerance - 1, leader_values)


def _growth(change: Floats, low: Floats, control: Floats) -> Floats:
    """Return the logarithm of the factor by which each draw changes a bettor's capital, (draws, bets).

    A bet is against the claim that the mean change over all draws is 0 or less; a large capital refutes
    it. If the mean were 0, the mean of the draws that are left would follow from the earlier ones
    (`supposed`). The bettor gains as far as the next change is above it, and loses as far as it is
    below, in proportion to a stake that is chosen by the earlier changes.

    Args:
        change: changes of each question so far (draws so far, questions of a draw, bets).
        low: the smallest possible change of a question in each bet (bets,).
        control: a value of every draw that is known beforehand (all draws,). As far as earlier
            changes followed it, its deviation from the expected value is subtracted from the change.
    """
    lowest = change.shape[1] * low  # the smallest possible change of a draw
    change = np.nan_to_num(change).sum(axis=1)
    n_earlier = np.arange(len(change))[:, None]
    n_left = len(control) - n_earlier
    centred = (control - control.mean())[: len(change), None]
    # the means of the draws that are left, if the mean over all is 0
    expected_control = -_earlier_sum(centred) / n_left
    supposed = -_earlier_sum(change) / n_left
    # the slope of the earlier changes on the control
    products = _earlier_sum(change * centred)
    squares = _earlier_sum(centred**2)
    slope = np.clip(products / np.maximum(squares + control.var(), 1e-12), 0, -low)
    adjusted = change - slope * (centred - expected_control)
    lowest_adjusted = lowest + slope * (control.mean() + expected_control)
    # the stake: the expected gain over its mean square, both from the earlier changes
    expected_gain = _earlier_sum(change) / np.maximum(n_earlier, 1) - supposed
    earlier_squares = _earlier_sum(change**2) - 2 * slope * products + slope**2 * squares
    mean_square = (earlier_squares + np.square(lowest)) / (n_earlier + 1)
    largest_loss = np.maximum(supposed - lowest_adjusted, 1e-9)
    stake = np.clip(expected_gain / mean_square * largest_loss, *_STAKES)
    factors = 1 + stake * (adjusted - supposed) / largest_loss
    is_refuted = supposed < lowest_adjusted - 1e-9  # the draws that are left cannot be so low
    return np.log(np.where(is_refuted, 1e6, np.clip(factors, 1e-6, 1e6)))


def _earlier_sum(values: Floats) -> Floats:
    """Return for each row the sum of the rows before it."""
    return np.cumsum(values, axis=0) - values


def _lower_limits(values: Floats, bounds: tuple[int, int], population: int, alpha: float) -> Floats:
    """Return a lower limit of the mean after each draw (draws,); all hold at once.

    A bettor bets against each of many supposed means, from low to high, that the true mean is no larger;
    a capital of 1 / alpha refutes it. The limit is the last mean before the first that is not refuted.

    Args:
        values: (draws so far, questions of a draw), between `bounds`.
        population: the number of all draws.
        alpha: probability that some limit is too high.
    """
    supposed_means = np.linspace(*bounds, _STEPS, endpoint=False)  # ascending
    no_control = np.zeros(population)
    lowest = bounds[0] - supposed_means - 1e-9  # the smallest possible value less each mean
    growth = _growth(values[..., None] - supposed_means, lowest, no_control)
    peak = np.maximum.accumulate(growth.cumsum(axis=0), axis=0)  # of the capital, by draw and mean
    # refuted, as are all smaller supposed means (draws, means)
    is_refuted = np.logical_and.accumulate(peak >= -math.log(alpha), axis=1)
    n_refuted = is_refuted.sum(axis=1)
    return np.asarray(supposed_means[np.maximum(n_refuted - 1, 0)])


@dataclass(frozen=True)
class Race:
    """A race so far; its decisions are computed from the answers.

    `draws` are the questions of each draw in order, `scores` configuration -> its values in that
    order as far as it has answered, None for an unscored answer. Configurations that have not stopped
    have answered `drawn` draws. `costs` are dollars; unknown costs are missing.
    """

    measure: str
    margin: float
    draws: Sequence[Sequence[str]]
    scores: Mapping[str, Sequence[float | None]]
    drawn: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> Ints:
        """Return the number of questions up to each draw (draws,)."""
        return np.cumsum([len(draw) for draw in self.draws])

    @cached_property
    def values(self) -> Floats:
        """Return the scores (draws, questions of a draw, configurations), higher is better; NaN for a
        missing value.

        Raises:
            ConfigError: the measure has other bounds than 0 and 1.
        """
        lowest, highest = bounds_of(self.measure)
        if (lowest, highest) != (0.0, 1.0):
            raise ConfigError(
                f"a race by {self.measure} is not possible: its values are from {lowest:g} to "
                f"{highest:g}; take a measure from 0 to 1, such as nDCG@10"
            )
        sizes = np.diff(self.sizes, prepend=0)
        values = np.full((len(sizes), max(sizes), len(self.scores)), np.nan)
        # the draw, and the place in it, of each question in the order of asking
        draws, places = np.nonzero(np.arange(max(sizes)) < sizes[:, None])
        for arm, scores in enumerate(self.scores.values()):
            n = len(scores)
            values[draws[:n], places[:n], arm] = np.array(scores, dtype=float)
        return values if higher_is_better(self.measure) else 1 - values

    @cached_property
    def drops(self) -> Drops:
        """Return which configurations have stopped."""
        return self._run(self.values, self.drawn)

    def _run(self, values: Floats, drawn: int) -> Drops:
        costs = np.array([self.costs.get(name, math.inf) for name in self.scores])
        return run_race(values, costs, drawn=drawn, margin=self.margin)

    def simulate(self, orders: int = 50) -> float:
        """Return the mean fraction of all evaluations that races in random orders take; all scores
        must be known.
        """
        rng = np.random.default_rng(0)
        n = len(self.draws)
        races = [self._run(rng.permutation(self.values), n) for _ in range(orders)]
        steps = np.array([race.steps for race in races])
        n_answered = np.where(steps == 0, n, steps)  # 0: the configuration did not stop
        return float(n_answered.mean() / n)

    @property
    def stopped(self) -> dict[str, int]:
        """Return configuration -> the number of questions after which it stopped, for stopped ones."""
        n_questions = {}
        for name, step in zip(self.scores, self.drops.steps, strict=True):
            if step > 0:
                n_questions[name] = int(self.sizes[step - 1])
        return n_questions

    @property
    def next_end(self) -> int:
        """Return the number of draws at the end of the next round; 0 if the race is over."""
        if len(self.scores) - len(self.stopped) < 3:
            return 0
        for end in round_ends(len(self.draws)):
            if end > self.drawn:
                return end
        return 0

    @property
    def summary(self) -> str:
        """Describe the race in a sentence: how many configurations were dropped, which fraction of
        the evaluations this takes, at which price if it is known, and what is guaranteed.
        """
        n = int(self.sizes[-1])
        n_arms = len(self.scores)
        n_asked = {name: self.stopped.get(name, n) for name in self.scores}
        fraction_asked = sum(n_asked.values()) / n / n_arms
        dollars = sum(self.costs.get(name, 0) * count for name, count in n_asked.items())
        n_unpriced = len(self.scores.keys() - self.costs.keys())
        paid = f" and about ${dollars:.2f}" if dollars > 0 else ""
        if paid and n_unpriced:
            paid += f" without {plural(n_unpriced, 'configuration')} of unknown price"
        return (
            f"race by {self.measure}: {len(self.stopped)} of {n_arms} configurations were dropped "
            f"before all {n} questions, which takes {fraction_asked:.0%} of the evaluations{paid}; "
            f"the best, or one within {self.margin:g} of it, is among the others with a probability of "
            f"{1 - ALPHA:.0%} or more"
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return a row for each dropped configuration, by name: n (questions), leader (at that time),
        gain over the leader on these questions, ci_low, ci_high, reason (in words).

        The intervals are of the gain on all questions, and hold all at once, whenever one looks.
        """
        names = list(self.scores)
        rows = {}
        for name, n in self.stopped.items():
            arm = names.index(name)
            n_draws = self.drops.steps[arm]
            leader_arm = self.drops.leaders[arm]
            leader = names[leader_arm]
            gains = self.values[:n_draws, :, arm] - self.values[:n_draws, :, leader_arm]
            # alpha is shared by all configurations but the leader, so that all intervals hold at
            # once
            lows, highs = self._interval(gains, -1, ALPHA / (len(names) - 1))
            low, high = lows[-1], highs[-1]  # after the last draw
            proven = f"not better than {leader} by {self.margin:g} or more"
            if high < 0:
                proven = f"worse than {leader} by at least {-high:.3f}"
            reason = f"dropped after {n} of {self.sizes[-1]} questions: {proven}"
            rows[name] = n, leader, np.nanmean(gains), low, high, reason
        columns = ["n", "leader", "gain", "ci_low", "ci_high", "reason"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def limits(self, name: str) -> pd.DataFrame:
        """Return how the mean of a configuration developed while questions were asked.

        There is a row after each draw of questions (the index is their number so far): its mean,
        where 1 is best, and ci_low, ci_high, the interval of its mean over all questions, which
        holds at any time.
        """
        # the draws whose questions it has all answered
        n_draws = int(np.searchsorted(self.sizes, len(self.scores[name]), side="right"))
        arm = list(self.scores).index(name)
        values = self.values[:n_draws, :, arm]
        n_scored = (~np.isnan(values)).sum(axis=1).cumsum()
        means = np.nansum(values, axis=1).cumsum() / np.maximum(n_scored, 1)
        low, high = self._interval(values, 0, ALPHA)
        return pd.DataFrame({"mean": means, "ci_low": low, "ci_high": high}, self.sizes[:n_draws])

    def _interval(self, values: Floats, lowest: int, alpha: float) -> tuple[Floats, Floats]:
        """Return the lower and the upper limits of the mean of values from `lowest` to 1, each after
        every draw (draws,).
        """
        n = len(self.draws)
        low = _lower_limits(values, (lowest, 1), n, alpha / 2)
        # an upper limit is the negative of a lower limit of the negative values
        high = -_lower_limits(-values, (-1, -lowest), n, alpha / 2)
        return low, high
