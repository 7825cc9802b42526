"""Pairwise preferences: wins and losses of each pair, and a ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics.columns import Floats, check_settings, nullable, with_nullable
from ragbench.statistics.intervals import Bounds, bounded_intervals, decided
from ragbench.types import MOST_INCONSISTENT, Preference

# In a resample a system may win everything, without a finite ability: this part of a tie with each opponent bounds it.
_PSEUDO_TIE = 0.02

_STEPS = 100


def preference_table(preferences: Sequence[Preference], *, alpha: float = 0.05) -> pd.DataFrame:
    """Wins, ties and losses of each pair of systems.

    Columns:
        a, b; wins, ties, losses: of a against b, decisions only.
        n: decisions; `n_undecided`: choices that changed with the order; `n_unscored`: the rest.
        win_rate: (wins + ties / 2) / n, 0.5 where neither is better, over the decisions.
        ci_low, ci_high: its 1 - alpha interval, the wider the fewer decisions there are (Gaffke 2005; it excludes 0.5
            exactly where p_value < alpha).
        p_value: two-sided sign test of wins against losses (exact binomial).
        inconsistent: fraction of the judged pairs where the choice changed with the order.
        result: "a is better", "b is better" (p_value < alpha), "no difference shown", or, if inconsistent is
            `MOST_INCONSISTENT` or more, "this judge cannot tell". Neither of the last two proves the systems equal.

    pd.NA where a number is unknown.

    >>> verdicts = [Preference(f"q{i}", "a", "b", value, consistent=True) for i, value in enumerate([1, 1, 1, 0.5])]
    >>> preference_table(verdicts)[["a", "b", "wins", "ties", "losses", "win_rate", "p_value"]]
       a  b  wins  ties  losses  win_rate  p_value
    0  a  b     3     1       0     0.875     0.25

    Raises:
        DataError: there are no preferences, a value is outside [0, 1], or a pair has two verdicts on a query.
    """
    from scipy.stats import binomtest

    check_settings(10_000, alpha, 0)
    frame = _frame(preferences)
    rows = []
    for (a, b), group in frame.groupby(["a", "b"], sort=False):
        values = group["value"].dropna().to_numpy(dtype=float)
        # a win is +1, a loss -1: the difference of two proportions
        wins, losses = int((values > 0.5).sum()), int((values < 0.5).sum())
        p = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0 if len(values) else math.nan
        ahead = 2 * values - 1
        limits = bounded_intervals([ahead], [Bounds(-1.0, 1.0)], alpha)
        limits = decided(*limits, np.array([ahead.mean() if len(ahead) else math.nan]), np.array([p]), alpha)
        low, high = ((float(limit[0]) + 1) / 2 for limit in limits)
        asked = group["consistent"].dropna()
        inconsistent = 1 - asked.astype(float).mean() if len(asked) else math.nan
        undecided = int(((group["consistent"] == False) & group["value"].isna()).sum())  # noqa: E712
        better = f"{a if wins > losses else b} is better" if p < alpha else "no difference shown"
        rows.append(
            {
                "a": a,
                "b": b,
                "wins": wins,
                "ties": len(values) - wins - losses,
                "losses": losses,
                "n": len(values),
                "n_undecided": undecided,
                "n_unscored": len(group) - len(values) - undecided,
                "win_rate": values.mean() if len(values) else math.nan,
                "ci_low": low,
                "ci_high": high,
                "p_value": p,
                "inconsistent": inconsistent,
                "result": "this judge cannot tell" if inconsistent >= MOST_INCONSISTENT else better,
            }
        )
    return with_nullable(pd.DataFrame(rows), "win_rate", "ci_low", "ci_high", "p_value", "inconsistent")


def bradley_terry(
    preferences: Sequence[Preference],
    *,
    n_resamples: int = 1000,
    alpha: float = 0.05,
    prior: float = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank systems by pairwise verdicts: the model of Bradley & Terry (1952), P(a beats b) = 1 / (1 + exp(b - a)).

    Maximum-likelihood abilities on a log-odds scale with mean 0: a system that is 1 above another wins
    73 % of their comparisons. A tie is half a win of each. (Davidson 1970 gives ties a parameter of their own; it
    does not change the ranks where all meet equally often.) Preferences without a value are left out.

    Intervals are percentile bootstrap over queries: a query's preferences on all pairs are drawn together, because
    a hard question is hard for all systems.

    Args:
        prior: number of pseudo-ties between each two that met. 0 is the plain model, which has no finite abilities
            where some systems win all comparisons with the others; 0.5 or 1 shrinks them a little and always works.

    Returns:
        One row per system, best first: rank (1 is best), name, ability, ci_low, ci_high, win_rate (against an average
        opponent, 1 / (1 + exp(-ability))), wins, ties, losses, n (comparisons with a verdict).

    >>> rounds = [("a", "b", 1.0), ("a", "b", 1.0), ("a", "b", 0.0), ("b", "c", 1.0), ("b", "c", 0.5), ("a", "c", 0.5)]
    >>> verdicts = [Preference(f"q{i}", *verdict) for i, verdict in enumerate(rounds)]
    >>> bradley_terry(verdicts)[["rank", "name", "ability", "wins", "ties", "losses"]].round(2)
       rank name  ability  wins  ties  losses
    0     1    a     0.44     2     1       1
    1     2    b     0.07     2     1       2
    2     3    c    -0.51     0     2       1

    Raises:
        ComparisonError: there are groups that never met, or a system won or lost everything and `prior` is 0.
        DataError: no comparison has a verdict, or a pair has two on a query.
    """
    check_settings(n_resamples, alpha, seed)
    if not 0 <= prior < math.inf:
        raise ConfigError(f"prior is {prior!r}; expected a number from 0, such as 0.5")
    frame = _frame(preferences)
    frame = frame[frame["value"].notna()]
    if frame.empty:
        raise DataError("no comparison has a verdict, so there is no ranking")
    names = list(dict.fromkeys([*frame["a"], *frame["b"]]))
    a, b = (np.array([names.index(name) for name in frame[side]]) for side in ("a", "b"))
    values = frame["value"].to_numpy(dtype=float)
    queries = pd.factorize(frame["query_id"])[0]
    k = len(names)
    per_query = np.zeros((queries.max() + 1, k * k))
    np.add.at(per_query, (queries, a * k + b), values)
    np.add.at(per_query, (queries, b * k + a), 1 - values)
    won = per_query.sum(axis=0).reshape(k, k)
    met = (won + won.T > 0).astype(float)
    _check_rankable(won, met, names, prior)
    ability = _abilities((won + prior / 2 * met)[None])[0]
    low = high = np.full(k, math.nan)
    if len(per_query) > 1:
        rng = np.random.default_rng([seed, len(per_query)])
        share = np.full(len(per_query), 1 / len(per_query))
        draws = rng.multinomial(len(per_query), share, size=n_resamples).astype(float) @ per_query
        drawn = _abilities(draws.reshape(-1, k, k) + max(prior, _PSEUDO_TIE) / 2 * met)
        low, high = np.quantile(drawn, [alpha / 2, 1 - alpha / 2], axis=0)
    order = np.argsort(-ability, kind="stable")
    both, share = np.concatenate([a, b]), np.concatenate([values, 1 - values])
    wins, losses, met_in = (
        np.bincount(both[chosen], minlength=k)[order] for chosen in (share > 0.5, share < 0.5, slice(None))
    )
    return pd.DataFrame(
        {
            "rank": [1 + int((ability > ability[i] + 1e-9).sum()) for i in order],
            "name": [names[i] for i in order],
            "ability": nullable(ability[order]),
            "ci_low": nullable(low[order]),
            "ci_high": nullable(high[order]),
            "win_rate": nullable(1 / (1 + np.exp(-ability[order]))),
            "wins": wins,
            "ties": met_in - wins - losses,
            "losses": losses,
            "n": met_in,
        }
    )


def _frame(preferences: Sequence[Preference]) -> pd.DataFrame:
    if not preferences:
        raise DataError("no comparison given; expected preferences as `pairwise` returns them")
    rows: dict[tuple[str, frozenset[str]], tuple[object, ...]] = {}
    sides: dict[frozenset[str], tuple[str, str]] = {}
    for one in preferences:
        if one.a == one.b:
            raise DataError(f"query {one.query_id!r}: {one.a!r} is compared with itself")
        if one.value is not None and not 0 <= one.value <= 1:
            raise DataError(f"query {one.query_id!r}: value {one.value!r}; expected 1, 0.5, 0 or None")
        pair = frozenset((one.a, one.b))
        if (one.query_id, pair) in rows:
            raise DataError(f"query {one.query_id!r} has two verdicts on {one.a!r} against {one.b!r}; keep one")
        a, b = sides.setdefault(pair, (one.a, one.b))
        value = None if one.consistent is False else one.value
        if value is not None and one.a != a:
            value = 1 - value
        rows[one.query_id, pair] = (one.query_id, a, b, value, one.consistent)
    frame = pd.DataFrame(list(rows.values()), columns=["query_id", "a", "b", "value", "consistent"])
    return frame.astype({"value": float, "consistent": object})


def _check_rankable(won: Floats, met: Floats, names: Sequence[str], prior: float) -> None:
    from scipy.sparse.csgraph import connected_components

    number, group = connected_components(met, directed=False)
    if number > 1:
        groups = [", ".join(names[i] for i in np.flatnonzero(group == g).tolist()) for g in range(number)]
        raise ComparisonError(
            f"there are {number} groups of systems that never met ({'; '.join(groups)}), so they have no common "
            "scale; compare at least one of each group with one of another"
        )
    number, group = connected_components(won > 0, directed=True, connection="strong")
    if number > 1 and prior == 0:
        best = next(g for g in range(number) if not won[np.ix_(group != g, group == g)].any())
        some = ", ".join(names[i] for i in np.flatnonzero(group == best).tolist())
        raise ComparisonError(
            f"{some} never lost a point to any of the others, so no finite ability is the most likely; pass prior=0.5 "
            "for abilities that are shrunk a little, or compare on more questions"
        )


def _abilities(won: Floats) -> Floats:
    """Abilities with mean 0 for each (resamples, k, k) table of wins, by damped Newton steps."""
    played = won + won.transpose(0, 2, 1)
    k = won.shape[1]
    ability = np.zeros(won.shape[:2])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(ability[:, None, :] - ability[:, :, None]))
        slope = (won - played * chance).sum(axis=2)
        weight = played * chance * (1 - chance)
        curve = -weight + (np.eye(k) * weight.sum(axis=2)[:, :, None]) + 1 / k  # singular but for the last term
        step = np.linalg.solve(curve + 1e-12 * np.eye(k), slope[:, :, None])[:, :, 0]
        ability = ability + np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-10:
            break
    centred: Floats = ability - ability.mean(axis=1, keepdims=True)
    return centred
