"""A race of configurations: all answer the same questions in one random order, in rounds; the proof
by which one stops, because another leads it by a margin that matters.

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

from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ConfigError, plural
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import bounds_of
from ragbench.statistics.thresholds import ALPHA, MARGIN

ROUNDS = 16  # after each of which configurations may stop
_STAKE_BOUNDS = (0.1, 0.95)  # parts of the capital that are lost at the largest possible loss
_STEPS = 500  # supposed means, from the smallest value to the largest
_MAX_FACTOR = 1e6  # by which one draw may multiply or divide a capital


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
    """Drop configurations that are proven not to be better than the leader, round by round, while the
    questions are asked.

    The proof of each is a bet: a bettor with a capital of 1 bets that the configuration is not better
    than the leader. If it is, the capital reaches 1 / alpha with a probability of at most alpha (Ville
    1939). So a configuration stops after the round in which the capital against it has reached 1 / alpha.
    Two always stay. The leader changes if another configuration is ahead of it by more than the margin.

    Args:
        values: (draws, questions of a draw, configurations), from 0 to 1, higher is better; NaN if a
            configuration is unscored (the pair does not count) or has not answered. A draw is a
            question, or several that are asked together. A leader has answered all draws.
        costs: cost of each configuration.
        drawn: the number of draws that all other configurations have answered.
        margin: a loss that does not matter.
        alpha: probability that all configurations within the margin of the best stop.

    Returns:
        For each configuration the number of draws after which it stopped (0: it did not), the leader
        then, and the logarithm of the largest capital against it; and the indices of all leaders.

    >>> chances = np.random.default_rng(0).random((300, 1, 3))
    >>> answers = (chances < [0.7, 0.4, 0.7]).astype(float)
    >>> run_race(answers, np.zeros(3), drawn=300).steps.tolist()
    [0, 38, 0]
    """
    n_configurations = values.shape[2]
    steps = np.zeros(n_configurations, dtype=int)
    leaders = np.zeros(n_configurations, dtype=int)
    capital = np.zeros(n_configurations)  # of the bettor against each configuration; a logarithm
    peak = np.zeros(n_configurations)  # the largest capital so far
    led: list[int] = []  # the leaders so far
    start = 0
    for end in round_ends(len(values)):
        if end > drawn:
            break
        if led:
            leader = led[-1]
            # logarithms, a row per draw: of all draws, since the stakes follow from the earlier ones
            growth = _growth_against_leader(values, costs, leader, end, margin)
            growth_in_round = growth[start:]
            # The capital is kept where the leader has changed: no bet against a configuration that is
            # better than each leader by the margin gains on average.
            peak = np.maximum(peak, capital + np.cumsum(growth_in_round, axis=0).max(axis=0))
            capital = capital + growth_in_round.sum(axis=0)
            stopped = _stopped_now(peak, steps == 0, led, alpha)
            steps[stopped] = end
            leaders[stopped] = leader
        means = _means_of_configurations(values[:end])
        means = np.where(steps == 0, means, -1)  # a stopped configuration cannot lead
        best = _cheapest_near_best(means, costs, margin / 2)
        # the first round has no leader yet, so it only chooses one
        if not led or means[best] > means[led[-1]] + margin:
            led.append(best)
        start = end
    return Drops(steps, leaders, peak, led)


def _stopped_now(peak: Floats, is_running: Bools, led: list[int], alpha: float) -> Ints:
    """Return the indices of the running configurations that stop: the largest capital against them has
    reached 1 / alpha, and they have never led. Two running configurations always stay.

    `peak` is the logarithm of that capital (configurations,), and `led` the indices of all leaders.
    """
    may_stop = is_running & (peak >= -math.log(alpha))
    may_stop[led] = False
    candidates = np.flatnonzero(may_stop)
    largest_first = candidates[np.argsort(-peak[candidates], kind="stable")]
    stopped: Ints = largest_first[: is_running.sum() - 2]
    return stopped


def _cheapest_near_best(means: Floats, costs: Floats, distance: float) -> int:
    """Return the index of the cheapest configuration whose mean is within a distance of the best mean;
    among equally cheap configurations, the one with the highest mean.
    """
    near_best = np.flatnonzero(means >= means.max() - distance)
    return int(min(near_best, key=lambda i: (costs[i], -means[i])))


def _means_of_configurations(values: Floats) -> Floats:
    """Return the mean value of each configuration (configurations,); 0 if it has none."""
    n_scored = (~np.isnan(values)).sum(axis=(0, 1))
    means: Floats = np.nansum(values, axis=(0, 1)) / np.maximum(n_scored, 1)
    return means


def _growth_against_leader(
    values: Floats, costs: Floats, leader: int, end: int, margin: float
) -> Floats:
    """Return the growth of the capital in the bets that a configuration is not better than the leader by
    the margin or more, for the first `end` draws: the logarithms of its factors (draws, configurations).

    If the configuration is cheaper than the leader, the bet is that it is worse than the leader.
    """
    tolerance = np.where(costs[leader] <= costs, margin, 0)  # 0 for a cheaper configuration
    # how far the leader is ahead, plus the tolerance (draws, questions, configurations): its mean is
    # 0 or less if the configuration is better by the tolerance or more
    gains = values[:end, :, leader, None] - values[:end] + tolerance
    leader_values = np.nansum(values[:, :, leader], axis=1)
    return _growth_of_capital(gains, tolerance - 1, leader_values)


def _growth_of_capital(gains: Floats, smallest_gain: Floats, control: Floats) -> Floats:
    """Return the logarithm of the factor by which each draw changes a bettor's capital (draws, bets).

    The bettor bets that the mean gain over all draws is above 0; a large capital proves it. If the mean
    were 0, the mean of the draws that are left would follow from the earlier draws, since draws are
    without replacement (`supposed`; Waudby-Smith & Ramdas 2020). The capital grows as far as the next
    gain is above this mean, and shrinks as far as it is below, in proportion to a stake that is chosen
    by the earlier gains.

    Args:
        gains: the gain of each question so far (draws so far, questions of a draw, bets); NaN counts
            as 0.
        smallest_gain: the smallest possible gain of a question in each bet (bets,).
        control: a value of every draw that is known beforehand (all draws,), as a control variate: as
            far as earlier gains followed it, its deviation from its expected value is subtracted from
            the gain, which makes gains vary less. It must not be below 0, and a scored gain must be at
            least the smallest gain plus the control. Unless it is 0, `smallest_gain` is at least -1,
            so that the slope is at most 1.
    """
    lowest = gains.shape[1] * smallest_gain  # the smallest possible gain of a draw
    gain = np.nan_to_num(gains).sum(axis=1)  # of each draw
    n_earlier = np.arange(len(gain))[:, None]
    n_left = len(control) - n_earlier
    centred = (control - control.mean())[: len(gain), None]
    # the means of the draws that are left, if the mean over all draws is 0
    expected_control = -_earlier_sum(centred) / n_left
    supposed = -_earlier_sum(gain) / n_left
    # the slope of the earlier gains on the control, with one more observation that is not correlated
    products = _earlier_sum(gain * centred)
    squares = _earlier_sum(centred**2)
    slope = np.clip(products / np.maximum(squares + control.var(), 1e-12), 0, -smallest_gain)
    adjusted = gain - slope * (centred - expected_control)
    # A bound of every adjusted gain: from gain >= lowest + control follows
    #   adjusted >= lowest + (1 - slope) control + slope (control.mean() + expected_control),
    # whose middle term is 0 or more. An unscored gain, 0, keeps the bound, as slope <= -smallest_gain.
    lowest_adjusted = lowest + slope * (control.mean() + expected_control)
    # The expected growth is largest if the bet per unit of gain is the mean gain divided by the mean
    # square (Waudby-Smith & Ramdas 2024), both of the earlier gains. The mean square counts the lowest
    # gain as one more, which keeps early bets small.
    expected = _earlier_sum(gain) / np.maximum(n_earlier, 1) - supposed
    earlier_squares = _earlier_sum(gain**2) - 2 * slope * products + slope**2 * squares
    mean_square = (earlier_squares + np.square(lowest)) / (n_earlier + 1)
    bet = expected / mean_square
    # the stake is the part of the capital that is lost at the largest loss
    largest_loss = np.maximum(supposed - lowest_adjusted, 1e-9)
    stake = np.clip(bet * largest_loss, *_STAKE_BOUNDS)
    factors = 1 + stake * (adjusted - supposed) / largest_loss
    # the mean is surely above 0: the draws that are left cannot be as low as `supposed`
    is_proven = supposed < lowest_adjusted - 1e-9
    return np.log(np.where(is_proven, _MAX_FACTOR, np.clip(factors, 1 / _MAX_FACTOR, _MAX_FACTOR)))


def _earlier_sum(values: Floats) -> Floats:
    """Return for each row the sum of the rows before it."""
    return np.cumsum(values, axis=0) - values


def _lower_limits_by_betting(
    values: Floats, bounds: tuple[int, int], n_draws: int, alpha: float
) -> Floats:
    """Return the lower limit of the mean over all draws, after each draw so far (draws,); all limits hold
    at once.

    For each of many supposed means, in ascending order, a bettor bets that the true mean is above it. A
    capital of 1 / alpha refutes the supposed mean. The limit is the last of the refuted means that come
    before the first one that is not refuted; the smallest supposed mean if none is refuted.

    Args:
        values: (draws so far, questions of a draw), between `bounds`; NaN, no value, counts as the
            supposed mean.
        n_draws: the number of all draws.
        alpha: probability that any of the limits is above the true mean.
    """
    supposed_means = np.linspace(*bounds, _STEPS, endpoint=False)
    gains = values[..., None] - supposed_means  # (draws, questions, supposed means)
    smallest_gains = bounds[0] - supposed_means - 1e-9
    growth = _growth_of_capital(gains, smallest_gains, control=np.zeros(n_draws))
    capital = growth.cumsum(axis=0)  # as a logarithm (draws, supposed means)
    largest_so_far = np.maximum.accumulate(capital, axis=0)
    # True if the supposed mean and all smaller ones are refuted (draws, supposed means)
    is_refuted = np.logical_and.accumulate(largest_so_far >= -math.log(alpha), axis=1)
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
        for column, scores in enumerate(self.scores.values()):
            n = len(scores)
            values[draws[:n], places[:n], column] = np.array(scores, dtype=float)
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
        the evaluations this takes, at which price if it is known, and the guarantee.
        """
        n = int(self.sizes[-1])
        n_configurations = len(self.scores)
        n_asked = {name: self.stopped.get(name, n) for name in self.scores}
        fraction_asked = sum(n_asked.values()) / n / n_configurations
        dollars = sum(self.costs.get(name, 0) * count for name, count in n_asked.items())
        n_unpriced = len(self.scores.keys() - self.costs.keys())
        paid = f" and about ${dollars:.2f}" if dollars > 0 else ""
        if paid and n_unpriced:
            paid += f" without {plural(n_unpriced, 'configuration')} of unknown price"
        return (
            f"race by {self.measure}: {len(self.stopped)} of {n_configurations} configurations were "
            f"dropped before all {n} questions, which takes {fraction_asked:.0%} of the "
            f"evaluations{paid}; "
            f"the best, or one within {self.margin:g} of it, is among the others with a probability of "
            f"{1 - ALPHA:.0%} or more"
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return a row for each dropped configuration, by name: n (the questions until then), leader (at
        that time), gain over the leader on these questions, ci_low, ci_high, reason (in words).

        The intervals are of the gain on all questions. All intervals hold at once.
        """
        names = list(self.scores)
        rows = {}
        for name, n in self.stopped.items():
            column = names.index(name)
            n_draws = self.drops.steps[column]
            column_of_leader = self.drops.leaders[column]
            leader = names[column_of_leader]
            gains = self.values[:n_draws, :, column] - self.values[:n_draws, :, column_of_leader]
            # all configurations but the leader share alpha, so that all intervals hold at once
            lows, highs = self._limits_of_mean(gains, lowest=-1, alpha=ALPHA / (len(names) - 1))
            low = lows[-1]  # after the last draw
            high = highs[-1]
            proven = f"not better than {leader} by {self.margin:g} or more"
            if high < 0:
                proven = f"worse than {leader} by at least {-high:.3f}"
            reason = f"dropped after {n} of {self.sizes[-1]} questions: {proven}"
            rows[name] = n, leader, np.nanmean(gains), low, high, reason
        columns = ["n", "leader", "gain", "ci_low", "ci_high", "reason"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def limits(self, name: str) -> pd.DataFrame:
        """Return the mean of a configuration, and its interval, after each draw of questions.

        The index is the number of questions so far. `mean` is the mean over these questions, where 1
        is best; unscored answers do not count. ci_low and ci_high are the interval of the mean over all
        questions; all intervals of the configuration hold at once.
        """
        # the draws whose questions it has all answered
        n_draws = int(np.searchsorted(self.sizes, len(self.scores[name]), side="right"))
        column = list(self.scores).index(name)
        values = self.values[:n_draws, :, column]
        n_scored = (~np.isnan(values)).sum(axis=1).cumsum()
        means = np.nansum(values, axis=1).cumsum() / np.maximum(n_scored, 1)
        low, high = self._limits_of_mean(values, lowest=0, alpha=ALPHA)
        return pd.DataFrame({"mean": means, "ci_low": low, "ci_high": high}, self.sizes[:n_draws])

    def _limits_of_mean(self, values: Floats, lowest: int, alpha: float) -> tuple[Floats, Floats]:
        """Return the lower and the upper limits of the mean of values from `lowest` to 1, each after
        every draw (draws,); all hold at once.
        """
        n = len(self.draws)
        low = _lower_limits_by_betting(values, (lowest, 1), n, alpha / 2)
        # an upper limit is the negative of a lower limit of the negative values
        high = -_lower_limits_by_betting(-values, (-1, -lowest), n, alpha / 2)
        return low, high
