"""A race of configurations: all answer the same questions in one random order, and one stops as soon
as it is proven that it is not the best, or within a margin of a cheaper one.

Two bets are placed on each configuration i after every question (see `ragbench.statistics.betting`),
and each has half of alpha. The first is against "i is the best": on the difference of the leader so
far from i, so that one capital refutes the claim however many others there are. The
second is against "every cheaper one is worse than i by the margin or more": on the difference of
each cheaper j from i, plus the margin, where the capital is divided by how j did on the questions of
the first round, before these bets begin. What j's bets have won together with those of others that
are still in the race certifies that one of them is within the margin of i, for any set of them at
once. A configuration stops only if every one that stopped for the margin keeps such a certificate.

So by Ville's inequality (1939) the best configuration, or one within the margin of it, is among the
survivors with a probability of at least 1 - alpha, whenever one stops. The best is the one that is
best on all questions of the data set: they are drawn without replacement, so that what is still to
be drawn follows more and more from what has been (Waudby-Smith & Ramdas 2020, "Confidence sequences
for sampling without replacement", NeurIPS 33).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import ConfigError
from ragbench.registry import higher_is_better
from ragbench.statistics.betting import confidence_sequence
from ragbench.statistics.columns import Floats, bounds_of

STAKES = np.array([0.25, 0.5, 0.75, 0.95])
"""Fractions of the largest stake that cannot ruin; larger than those of an interval, because only
differences that are seen within a data set matter."""

LOSSES = np.array([0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
"""Fractions of the measure's range by which a configuration may be proven worse than the best."""

_SURE = 1e6  # times the capital, each time: what is impossible is refuted without infinities
_MOST = 1e200

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int_]


class Drops(NamedTuple):
    """What became of each configuration, in arrays of orders x configurations.

    `steps` is after how many draws it stopped (0: it did not), `against` the configuration that led
    then (or is cheaper and most surely within the margin), `within` whether it stopped for the
    margin, `worse_by` the largest of `losses` that is proven, and `decided` the larger capital of
    the two bets over what stops it.
    """

    steps: Ints
    against: Ints
    within: Bools
    worse_by: Floats
    decided: Floats


def round_ends(n: int, rounds: int = 16) -> list[int]:
    """Return after how many of n draws each round ends; the last is n.

    >>> round_ends(110), round_ends(3)
    ([7, 14, 21, 28, 35, 42, 49, 55, 62, 69, 76, 83, 90, 97, 104, 110], [1, 2, 3])
    """
    return sorted({math.ceil(n * i / rounds) for i in range(1, rounds + 1)})


def run_race(
    values: Floats,
    population: int,
    ends: Sequence[int],
    *,
    margin: float = 0.02,
    alpha: float = 0.05,
    losses: Floats = LOSSES[:1],
) -> Drops:
    """Run one race for each of several random orders of the same questions; higher is better.

    Args:
        values: orders x draws x questions of a draw x configurations, cheapest first, on a scale on
            which two differ by 1 at most; NaN where one is unscored (and that pair does not count)
            or has stopped.
        population: draws that there are; `values` holds the first of them.
        ends: draws after which it is decided which configurations stop. Those of the margin begin
            with the second.
        margin: loss that does not matter. alpha: probability that neither the best nor one within
            the margin of it survives.
        losses: candidates for `worse_by`, 0 first.

    >>> import numpy as np
    >>> chances = np.random.default_rng(0).random((1, 300, 1, 3))
    >>> run_race((chances < [0.7, 0.4, 0.7]).astype(float), 300, round_ends(300)).steps.tolist()
    [[0, 57, 0]]
    """
    n_orders, n_draws, size, n_arms = values.shape
    shape, stop = (n_orders, n_arms), 2 / alpha
    lead, shared = np.zeros((2, n_orders, n_arms, n_arms))
    totals, counts = np.zeros((2, *shape))
    capital = np.ones((*shape, len(losses), len(STAKES)))
    peak = np.ones(capital.shape[:-1])
    near = np.zeros((*lead.shape, len(STAKES)))
    drops = Drops(*(np.zeros(shape, kind) for kind in (int, int, bool, float, float)))
    others = ~np.eye(n_arms, dtype=bool)
    for t in range(n_draws):
        alive = drops.steps == 0
        x, left = np.where(alive[:, None], values[:, t], np.nan), population - t
        scored = ~np.isnan(x)
        x = np.where(scored, x, 0)
        both = scored[..., :, None] & scored[..., None, :]
        won = ((x[..., :, None] - x[..., None, :]) * both).sum(axis=1)  # [.., j, i]: j over i
        pairs = both.sum(axis=1)
        leader = _leaders(totals, counts, alive)
        change, before, new, old = (
            np.take_along_axis(each, leader[:, None], axis=1)[:, 0, :, None]
            for each in (won, lead, pairs, shared)
        )
        gains = _gains(change - losses * new, before - losses * old, left, -size * (1 + losses))
        capital = np.minimum(capital * gains, _MOST)
        peak = np.maximum(peak, np.where(alive[..., None], capital.mean(axis=-1), 0))
        if t >= ends[0]:
            gains = _gains(won + margin * pairs, lead + margin * shared, left, -size * (1 - margin))
            in_race = alive[:, :, None] & alive[:, None, :] & others
            near = np.where(in_race[..., None], np.minimum(near * gains, _MOST), near)
        lead, shared = lead + won, shared + pairs
        totals, counts = totals + x.sum(axis=1), counts + scored.sum(axis=1)
        if t + 1 == ends[0]:
            best = np.where(alive, totals, -np.inf).max(axis=1, keepdims=True)
            weights = np.where(others, (np.exp((totals - best) / 2) * alive)[..., None], 0)
            near[:] = (weights / (weights.sum(axis=1, keepdims=True) + 1e-300))[..., None]
            near /= len(STAKES)
        if t + 1 in ends and t + 1 < population:
            _drop(drops, t + 1, peak, near.sum(axis=-1), _leaders(totals, counts, alive), stop)
            drops.worse_by[:] = losses[np.maximum((peak >= stop).sum(axis=-1) - 1, 0)]
    return drops


def _leaders(totals: Floats, counts: Floats, alive: Bools) -> Ints:
    """Return for each configuration the best of the others in the race, by the mean so far."""
    means = np.where(alive, totals / np.maximum(counts, 1), -np.inf)[..., None]
    leaders: Ints = np.where(np.eye(totals.shape[1], dtype=bool), -np.inf, means).argmax(axis=1)
    return leaders


def _gains(values: Floats, sums: Floats, left: int, low: float | Floats) -> Floats:
    """Return what each stake's capital is multiplied by after `values`, of which the next `left`
    have a mean of -sums / left or less if the sum of all is 0 or less, and none is below `low`.
    """
    supposed = -sums / left
    room = supposed - low
    rate = (values - supposed) / np.maximum(room, 1e-12)
    gains = np.where((room < -1e-9)[..., None], _SURE, 1 + STAKES * rate[..., None])
    return np.clip(gains, 1e-3, _SURE)


def _drop(drops: Drops, step: int, peak: Floats, near: Floats, leader: Ints, stop: float) -> None:
    """Enter which configurations stop now, the dearest first."""
    worse = peak[..., 0] >= stop
    for i in reversed(range(worse.shape[1])):
        alive = drops.steps == 0
        cheaper = np.where(alive[:, :i], near[:, :i, i], 0)
        certified = cheaper.sum(axis=1)
        drops.decided[:, i] = np.maximum(peak[:, i, 0], certified) / stop
        within = drops.within.copy()
        within[:, i] = ~worse[:, i]
        alive[:, i] &= ~worse[:, i] & (certified < stop)
        sums = np.where(alive[..., None], near, 0).sum(axis=1)
        is_safe = alive.any(axis=1) & ((sums >= stop) | ~within).all(axis=1)
        stops = (drops.steps[:, i] == 0) & ~alive[:, i] & is_safe
        drops.steps[stops, i] = step
        drops.within[stops, i] = ~worse[stops, i]
        against = leader[:, i]
        if i:
            against = np.where(worse[:, i], against, cheaper.argmax(axis=1))
        drops.against[stops, i] = against[stops]


@dataclass(frozen=True)
class Race:
    """A race as far as it has come; what follows from it is computed again whenever it is asked for.

    `draws` are the questions of each draw in order, `scores` configuration (cheapest first) -> its
    values in that order, as far as it has answered; None where one is unscored.
    """

    measure: str
    margin: float
    draws: Sequence[Sequence[str]]
    scores: Mapping[str, Sequence[float | None]]
    alpha: float = 0.05

    @cached_property
    def sizes(self) -> Ints:
        """Return how many questions there are up to each draw."""
        return np.cumsum([len(draw) for draw in self.draws])

    @cached_property
    def ends(self) -> list[int]:
        """Return after how many draws each round ends."""
        return round_ends(len(self.draws))

    @cached_property
    def values(self) -> Floats:
        """Return draws x questions of a draw x configurations on a scale from 0 to 1, higher is
        better, up to the draw that any configuration has reached; NaN where there is no value.
        """
        low, high = bounds_of(self.measure)
        if not math.isfinite(high - low):
            raise ConfigError(
                f"a race by {self.measure} is not possible: its values have no bounds (registry: "
                f"{low:g} to {high:g}); take a measure that has, such as nDCG@10"
            )
        n = int(np.searchsorted(self.sizes, max(map(len, self.scores.values()), default=0))) + 1
        sizes = np.diff(self.sizes, prepend=0)
        values = np.full((n, max(sizes), len(self.scores)), np.nan)
        filled = np.arange(max(sizes)) < sizes[:n, None]
        for arm, column in enumerate(self.scores.values()):
            rows, places = (each[: len(column)] for each in np.nonzero(filled))
            values[rows, places, arm] = np.array(column, dtype=float)
        values = (values - low) / (high - low)
        return values if higher_is_better(self.measure) else 1 - values

    @cached_property
    def drops(self) -> Drops:
        """Return which configurations have stopped."""
        return run_race(
            self.values[None],
            len(self.draws),
            self.ends,
            margin=self._margin,
            alpha=self.alpha,
            losses=LOSSES,
        )

    def simulated(self, orders: int = 100) -> float:
        """Return the mean fraction of all evaluations that races in random orders make, from the
        scores of all questions.
        """
        rng, n = np.random.default_rng(0), len(self.draws)
        values = np.stack([self.values[rng.permutation(n)] for _ in range(orders)])
        steps = run_race(values, n, self.ends, margin=self._margin, alpha=self.alpha).steps
        return float(np.where(steps == 0, n, steps).mean() / n)

    @property
    def _margin(self) -> float:
        low, high = bounds_of(self.measure)
        return self.margin / (high - low)

    @property
    def stopped(self) -> dict[str, int]:
        """Return after how many questions each configuration has stopped, for those that have."""
        steps = dict(zip(self.scores, self.drops.steps[0].tolist(), strict=True))
        return {name: int(self.sizes[step - 1]) for name, step in steps.items() if step}

    def summary(self) -> str:
        """Return what the answers so far have decided, in words."""
        answered = sum(self.stopped.get(name, self.sizes[-1]) for name in self.scores)
        fraction = answered / (len(self.scores) * self.sizes[-1])
        return (
            f"race by {self.measure}: {len(self.stopped)} of {len(self.scores)} configurations are "
            f"decided, with which the grid takes {fraction:.0%} of its evaluations"
        )

    def reason(self, name: str) -> str:
        """Return why a configuration has stopped, in words."""
        names = list(self.scores)
        drops, i = self.drops, names.index(name)
        low, high = bounds_of(self.measure)
        other, loss = names[drops.against[0, i]], drops.worse_by[0, i] * (high - low)
        if drops.within[0, i]:
            why = f"within {self.margin:g} of a cheaper one (most surely {other})"
        else:
            why = f"worse than the best{f' by at least {loss:g}' if loss else ''} ({other} led)"
        return f"dropped after {self.stopped[name]} of {self.sizes[-1]} questions: {why}"

    def limits(self, name: str) -> tuple[Floats, ...]:
        """Return after each draw the number of questions that a configuration had answered, the mean
        of the draws, and limits of that over all draws that hold at once.
        """
        n = int(np.searchsorted(self.sizes, len(self.scores[name]), side="right"))
        column = self.values[:n, :, list(self.scores).index(name)]
        is_scored = ~np.isnan(column).all(axis=1)
        values = np.nanmean(column[is_scored], axis=1)
        lower, upper = confidence_sequence(
            values, alpha=self.alpha, population=len(self.draws) if is_scored.all() else 0
        )
        means = np.cumsum(values) / np.arange(1, len(values) + 1)
        low, high = bounds_of(self.measure)
        if not higher_is_better(self.measure):
            low, high, lower, upper = high, low, upper, lower
        ends = self.sizes[:n][is_scored]
        return ends.astype(float), *(low + (high - low) * each for each in (means, lower, upper))

    def table(self) -> pd.DataFrame:
        """Return a row for each configuration: name, n, mean, ci_low, ci_high (at n), state.

        >>> race = Race("RR", 0.02, [["a"], ["b"]], {"cheap": [1.0, 0.5], "dear": [0.5]})
        >>> race.table().round(2)
            name  n  mean  ci_low  ci_high        state
        0  cheap  2  0.75     0.5      1.0  in the race
        1   dear  1  0.50     0.0      1.0  in the race
        """
        rows = []
        for name, scores in self.scores.items():
            limits = [each[-1] if len(each) else None for each in self.limits(name)[1:]]
            state = self.reason(name) if name in self.stopped else "in the race"
            rows.append((name, len(scores), *limits, state))
        return pd.DataFrame(rows, columns="name n mean ci_low ci_high state".split())
