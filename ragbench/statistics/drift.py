"""Drift: whether runs over time moved, tested after every run without crying wolf.

A p-value below .05 against the previous run is an alarm in one night of twenty, for each measure. Here one number is
stated and kept: on average at most one false alarm in `run_length` runs, over all measures that are watched together.

Each run is compared question by question with the mean of all earlier runs (recursive residuals: Brown, Durbin & Evans
1975, "Techniques for testing the constancy of regression relationships over time", JRSS B 37(2)). For run t with values
x_ti of n questions, and v the variance of a question's values between runs (of the earlier runs, pooled)::

    z_t = mean_i(x_ti - mean_{s<t} x_si) / sqrt(v / n * (1 + 1 / (t - 1)) * r_t)

r_t >= 1 is how much more the means of earlier runs varied from one to the next than v explains: a provider's bad day
moves all questions together. The second run has no v yet; there z = sum(d) / sqrt(sum(d^2)) over the differences d,
which are symmetric where nothing changed. z is cut at +-3, so that no single run raises an alarm alone.

The evidence is summed up in an e-detector (Shin, Ramdas & Rinaldo 2024, "E-detectors: a nonparametric framework for
sequential change detection", NEJSDS 2(2)), of the Shiryaev-Roberts kind, for each lambda in +-(1, 2, 3)::

    M_t = (M_{t-1} + 1) * exp(lambda * z_t - lambda^2 / 2)        alarm where mean over lambda of M_t >= run_length * K

With K measures watched together, the probability of any false alarm within N runs is at most about N / run_length.
After an alarm the detector starts again from the estimated date of the change.

Simulated with 20 measures, 97 questions and 120 nights: a false alarm in .03 of the histories (scores of a judge; right
or wrong); a fall of .05 is seen after 4 nights (judge) and 19 (right or wrong). Nights on which all questions move
together break the guarantee, which supposes independent questions: shocks as large as the noise of a mean gave a false
alarm in .15 of the histories, shocks three times as large in .75 (tests/statistics/test_drift.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError
from ragbench.statistics.columns import Floats

RUN_LENGTH = 1000
_BETS = np.array([1.0, 2.0, 3.0, -1.0, -2.0, -3.0])
_CUT = 3.0
_PRIOR = 10  # as many differences between runs are supposed to be as v explains
_MAX_NOTICE = 365


@dataclass(frozen=True)
class Change:
    """An alarm: noticed at a run, with the run of the change and the range that holds it with 95 % confidence.

    `since`, `earliest`, `latest` and `noticed` are labels of runs. `before` and `after` are means over the questions
    that both have. `questions` is query_id -> difference, of those that moved most in the direction of the change.
    """

    direction: str
    noticed: Any
    since: Any
    earliest: Any
    latest: Any
    before: float
    after: float
    questions: dict[str, float]

    @property
    def text(self) -> str:
        """The change in one line."""
        between = "" if self.earliest == self.latest else f" (between {self.earliest} and {self.latest})"
        return f"{self.direction} from {self.before:.3f} to {self.after:.3f} since {self.since}{between}"


@dataclass(frozen=True)
class Drift:
    """What `drift` found. `path` has a row per run: mean, z, evidence (1 = alarm), state; `changes` are the alarms."""

    path: pd.DataFrame
    changes: tuple[Change, ...]
    fall: float
    notice: int | None

    @property
    def text(self) -> str:
        """The conclusion in one line; never "no change"."""
        if self.changes:
            return self.changes[-1].text
        if self.notice is None:
            return f"nothing shown; too few runs to notice a fall of {self.fall:.2g}"
        return f"nothing shown; a fall of {self.fall:.2g} or more would be noticed within about {self.notice} runs"


def drift(values: pd.DataFrame, *, streams: int = 1, run_length: int = RUN_LENGTH, fall: float = 0.05) -> Drift:
    """Test after every run whether the mean of a measure moved; see the module for the method and its guarantee.

    States of a run: "first"; "unchanged", where every value is that of the run before, which is not evidence;
    "nothing shown"; "fall" or "rise", where an alarm is raised.

    Args:
        values: a row per run in order of time, labelled by its date; a column per question, NaN where unscored.
        streams: how many measures are watched together.
        run_length: runs between two false alarms on average, at least, over all of them.
        fall: the size of a change for which the number of runs to notice it is estimated.

    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> nights = pd.DataFrame(0.7 + rng.normal(0, 0.15, (40, 97)), columns=[f"q{i}" for i in range(97)])
    >>> drift(nights, streams=20).text
    'nothing shown; a fall of 0.05 or more would be noticed within about 3 runs'
    >>> nights.loc[30:] -= 0.06
    >>> drift(nights, streams=20).text
    'fall from 0.695 to 0.647 since 30 (between 28 and 30)'

    Raises:
        ConfigError: `streams`, `run_length` or `fall` is not positive.
    """
    for name, given in (("streams", streams), ("run_length", run_length), ("fall", fall)):
        if not given > 0:
            raise ConfigError(f"{name} is {given!r}; expected a number above 0")
    table = values.to_numpy(dtype=float)
    threshold = float(streams * run_length)
    rows: list[tuple[float, float, float, str]] = []
    changes: list[Change] = []
    kept: list[int] = []  # runs since the last change, without those that repeat the one before
    capital: Floats = np.zeros(len(_BETS))
    for t, row in enumerate(table):
        z, state = math.nan, "nothing shown"
        if t == 0:
            state = "first"
        elif np.array_equal(row, table[t - 1], equal_nan=True):
            state = "unchanged"
        else:
            z, _ = _residual(table[kept], row)
            capital = _next(capital, z)
        if state != "unchanged":
            kept.append(t)
        evidence = float(capital.mean() / threshold)
        if evidence >= 1:
            change, first = _change(values, kept)
            changes.append(change)
            state, kept = change.direction, kept[first:]
            capital = np.zeros(len(_BETS))
        rows.append((_mean(row), z, evidence, state))
    path = pd.DataFrame(rows, columns=["mean", "z", "evidence", "state"], index=values.index)
    return Drift(path, tuple(changes), fall, _notice(table[kept], threshold, fall))


def _next(capital: Floats, z: float) -> Floats:
    moved: Floats = (capital + 1) * np.exp(_BETS * max(-_CUT, min(_CUT, z)) - _BETS**2 / 2)
    return moved


def _mean(row: Floats) -> float:
    scored = row[~np.isnan(row)]
    return float(scored.mean()) if len(scored) else math.nan


def _residual(earlier: Floats, row: Floats) -> tuple[float, float]:
    """z of a run against the earlier ones, and its standard error; 0 and NaN where they share no question."""
    there = ~np.isnan(earlier)
    count = there.sum(axis=0)
    both = (count > 0) & ~np.isnan(row)
    if not both.any():
        return 0.0, math.nan
    filled = np.where(there, earlier, 0.0)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    away = (row - mean)[both]
    spread = float((np.where(there, earlier - mean, 0.0) ** 2).sum())
    freedom = int(np.maximum(count - 1, 0).sum())
    if freedom == 0 or spread == 0:
        own = math.sqrt(float((away**2).sum()))
        return (float(away.sum()) / own, own / len(away)) if own else (0.0, math.nan)
    variance = spread / freedom
    steps = np.diff(earlier[:, both], axis=0)
    steps = steps[~np.isnan(steps).all(axis=1)] if len(steps) else steps
    jumps = float((np.nanmean(steps, axis=1) ** 2).sum()) / (2 * variance / both.sum())
    ratio = max(1.0, (_PRIOR + jumps) / (_PRIOR + len(steps)))
    error = math.sqrt(variance * ratio * float((1 + 1 / count[both]).sum())) / int(both.sum())
    return float(away.mean()) / error, error


def _change(values: pd.DataFrame, kept: list[int]) -> tuple[Change, int]:
    """Where the mean moved (the split with the highest likelihood, and the range), and its place among `kept`.

    With l(j) the logarithm of the likelihood ratio of a change at run j, the range is every j with l(max) - l(j) <= x
    where (1 - exp(-x))^2 = .95 (Siegmund 1988, "Confidence sets in change-point problems", Int. Stat. Review 56(1)).
    """
    table = values.to_numpy(dtype=float)[kept]
    there = ~np.isnan(table)
    count, total = there.cumsum(axis=0), np.where(there, table, 0.0).cumsum(axis=0)
    _, error = _residual(table[:-1], table[-1])
    error /= math.sqrt(1 + 1 / (len(kept) - 1))
    gains, moves = [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for j in range(1, len(kept)):
            move = (total[-1] - total[j - 1]) / (count[-1] - count[j - 1]) - total[j - 1] / count[j - 1]
            moves.append(move)
            scored = move[~np.isnan(move)]
            shift = float(scored.mean()) if len(scored) else 0.0
            gains.append(shift**2 / (2 * error**2 * (1 / j + 1 / (len(kept) - j))))
    best = int(np.argmax(gains))
    inside = np.flatnonzero(np.asarray(gains) >= gains[best] + math.log(1 - math.sqrt(0.95)))
    move = moves[best]
    shared = ~np.isnan(move)
    down = move[shared].mean() < 0
    before = float((total[best] / np.maximum(count[best], 1))[shared].mean())
    order = [i for i in np.argsort(move if down else -move, kind="stable") if shared[i] and (move[i] < 0) == down]
    since, earliest, latest = (values.index[kept[int(i) + 1]] for i in (best, inside[0], inside[-1]))
    change = Change(
        "fall" if down else "rise", values.index[kept[-1]], since, earliest, latest, before,
        before + float(move[shared].mean()), {str(values.columns[i]): float(move[i]) for i in order[:5]},
    )  # fmt: skip
    return change, best + 1


def _notice(earlier: Floats, threshold: float, fall: float) -> int | None:
    """After how many runs a fall of this size is expected to raise an alarm; None where not within a year of nights."""
    if len(earlier) < 3:
        return None
    _, error = _residual(earlier[:-1], earlier[-1])
    runs = len(earlier)
    capital: Floats = np.ones(len(_BETS))
    for k in range(1, _MAX_NOTICE + 1):  # the mean of the earlier runs comes to hold the fall too
        capital = _next(capital, -fall * runs / (runs + k - 1) / error)
        if capital.mean() >= threshold:
            return k
    return None
