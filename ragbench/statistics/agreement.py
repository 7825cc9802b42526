"""Agreement of a judge with people, and of people with each other; judgements and human labels
joined.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import ConfigError, DataError, DataWarning, unknown
from ragbench.statistics.columns import Floats, check_settings, with_nullable
from ragbench.statistics.intervals import wilson_interval
from ragbench.types import Judgement

Judgements = Sequence[Judgement] | Mapping[str, Sequence[Judgement]]
Human = pd.DataFrame | Sequence[Judgement] | Mapping[tuple[str, str], float | None]

KEYS = ["configuration", "query_id", "criterion"]

# States of judgements that were requested; others (an abstention, a failed answer) are not compared
# with labels.
_ASKED = {"scored", "judge_failed", "unreadable", "no_claims"}


def judged_frame(judgements: Judgements) -> pd.DataFrame:
    """Columns configuration ("" where there is one only), query_id, criterion, judge (Float64,
    missing = unscored).

    Judgements without a request are left out.
    """
    by_name = judgements if isinstance(judgements, Mapping) else {"": judgements}
    rows = [
        (str(name), j.query_id, j.criterion, j.value)
        for name, group in by_name.items()
        for j in group
        if j.value is not None or j.state in _ASKED
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, "judge"])
    if frame.empty:
        raise DataError("no answer was judged; expected judgements as `judge` returns them")
    frame["judge"] = pd.to_numeric(frame["judge"]).astype("Float64")
    _check_range(frame, "judge", "a judgement")
    _check_unique(frame, KEYS, "judgements; pass those of several systems as {name: judgements}")
    return frame


def human_frame(human: Human) -> pd.DataFrame:
    """Columns configuration, query_id, criterion, annotator, category, picked, human (float);
    without blank labels.
    """
    if isinstance(human, pd.DataFrame):
        wanted = ["query_id", "criterion", "value"]
        if lacking := [name for name in wanted if name not in human.columns]:
            raise DataError(
                f"human labels: no column {', '.join(lacking)}; expected {wanted}, "
                f"found {[*human.columns]}"
            )
        frame = human.rename(columns={"value": "human"})
    else:
        rows: list[tuple[object, ...]] = (
            [(*key, value) for key, value in human.items()]
            if isinstance(human, Mapping)
            else [(one.query_id, one.criterion, one.value) for one in human]
        )
        frame = pd.DataFrame(rows, columns=["query_id", "criterion", "human"])
    for name in ("configuration", "annotator", "category", "picked"):
        texts = (
            frame[name].astype(object)
            if name in frame
            else pd.Series("", index=frame.index, dtype=object)
        )
        frame = frame.assign(**{name: texts.where(texts.notna(), "").astype(str)})
    try:
        frame["human"] = pd.to_numeric(frame["human"]).astype("Float64")
    except (TypeError, ValueError) as exc:
        raise DataError(
            f"human labels: {exc}; expected numbers from 0 to 1, or nothing where unlabelled"
        ) from exc
    frame = frame[frame["human"].notna()]
    frame = frame[[*KEYS, "annotator", "category", "picked", "human"]].reset_index(drop=True)
    if frame.empty:
        raise DataError(
            "there is no human label with a value; label some answers first, as in "
            "notebooks/label.ipynb"
        )
    _check_range(frame, "human", "a human label")
    _check_unique(frame, [*KEYS, "annotator"], "labels by one person; keep one of them")
    frame["human"] = frame["human"].astype(float)
    return frame


def side_by_side(
    judgements: Judgements, human: Human, *, others: Collection[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All judgements, and each human label with the judge's value in `judge`.

    Labels without a requested judgement are left out, with a warning that counts them; those of the
    configurations `others` without one.
    """
    judged, labels = judged_frame(judgements), human_frame(human)
    labels = labels[~labels["configuration"].isin(list(others))]
    if labels.empty:
        raise DataError(
            f"there is no human label of {', '.join(map(repr, judged['configuration'].unique()))}"
        )
    judged, labels = _same_configurations(judged, labels)
    known = judged.set_index(KEYS)["judge"]
    places = known.index.get_indexer(labels.set_index(KEYS).index)
    if (places < 0).all():
        first = labels.iloc[0]
        raise DataError(
            f"none of the {len(labels)} human labels is of an answer that was judged; the first "
            f"is of query {first['query_id']!r} by {first['criterion']!r}"
            + (f" of configuration {first['configuration']!r}" if first["configuration"] else "")
            + "; pass the judgements of the answers that were labelled"
        )
    if (places < 0).any():
        first = labels[places < 0].iloc[0]
        warnings.warn(
            f"{(places < 0).sum()} of {len(labels)} human labels are of answers that were not "
            f"judged, first query {first['query_id']!r} by {first['criterion']!r}; they are left "
            "out",
            DataWarning,
            stacklevel=3,
        )
    labels = labels[places >= 0].reset_index(drop=True)
    return judged, labels.assign(judge=known.to_numpy(dtype=object)[places[places >= 0]]).astype(
        {"judge": "Float64"}
    )


def _same_configurations(
    judged: pd.DataFrame, labels: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """With one system, either side may lack its name."""
    ours, theirs = list(judged["configuration"].unique()), list(labels["configuration"].unique())
    if len(ours) == 1 and len(theirs) == 1 and "" in (*ours, *theirs):
        name = ours[0] or theirs[0]
        return judged.assign(configuration=name), labels.assign(configuration=name)
    if "" in ours:
        raise DataError(
            f"the human labels are of {len(theirs)} configurations "
            f"({', '.join(map(repr, theirs[:3]))}); pass the judgements as {{configuration: "
            f"judgements}}"
        )
    if "" in theirs:
        raise DataError(
            f"the judgements are of {len(ours)} configurations, "
            f"and {(labels['configuration'] == '').sum()} human labels do not name theirs; "
            "expected the column `configuration`"
        )
    return judged, labels


def _check_range(frame: pd.DataFrame, column: str, what: str) -> None:
    wrong = frame[~frame[column].isna() & ~frame[column].between(0, 1).fillna(True)]
    if len(wrong):
        row = wrong.iloc[0]
        raise DataError(
            f"{what} of query {row['query_id']!r} by {row['criterion']!r} is {row[column]}; "
            "expected a value in [0, 1]"
        )


def _check_unique(frame: pd.DataFrame, keys: list[str], what: str) -> None:
    twice = frame[frame.duplicated(keys)]
    if len(twice):
        row = twice.iloc[0]
        raise DataError(f"query {row['query_id']!r} by {row['criterion']!r} has several {what}")


SCALES = ("nominal", "ordinal", "interval")
"""The scales of measurement: categories; ordered levels; numbers."""

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The levels of an ordinal scale; a judge's value counts as the nearest."""

_BLOCK = 4_000_000  # numbers in memory at once


class _Pairs(NamedTuple):
    """Two values of each item, and the number (from 0) of the query that it belongs to."""

    first: Floats
    second: Floats
    query: npt.NDArray[np.int64]


def judge_agreement(
    judgements: Judgements,
    human: Human,
    *,
    scale: str | None = None,
    threshold: float = 0.5,
    n_resamples: int = 2000,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare a judge with people: one row per criterion, group, pair of raters and statistic.

    Statistics, by the scale that the people's labels are on:

    - "nominal" (all labels 0 or 1; the judge's value counts as 1 from `threshold` on): `accuracy`,
      the fraction of equal verdicts; `kappa` of Cohen (1960), 1 for full agreement and 0 for chance
      agreement; `alpha` of Krippendorff; `ac1` of Gwet (2008), which does not collapse where nearly
      all labels are the same, as kappa and alpha do.
    - "ordinal" (levels 0, 0.25, ..., 1; the judge's value counts as the nearest): these,
      `kappa_quadratic` (Cohen 1968, disagreement weighted by the squared distance), and `spearman`
      and `kendall` (tau-b) of the values as they are.
    - "interval" (any number): `alpha`, `spearman`, `kendall`.

    All are at most 1; but for accuracy 0 is chance and below 0 is worse. Rows of two kinds
    (`between`): "judge-human" pairs the judge with each label of each person; "human-human" pairs
    people who labelled the same answer, in the order of their names. This is the ceiling: no judge
    can be expected to agree with people more than they do. Read accuracy together with kappa: where
    95 % of the answers are right, a judge that always says yes has 0.95.

    Groups (`by`): "all", then each "category" and "configuration" where the labels have several of
    them.

    Intervals (1 - alpha) are percentile bootstrap over whole queries, so several labels of one
    question do not count as several questions. Resamples in which a statistic is undefined are left
    out. Accuracy has the interval of Wilson (1927) where it is a fraction of queries (one pair
    each, or several that are alike), since no resample of 30 right verdicts has a wrong one; for
    the others `note` reports an interval without width. With few labels and few errors they are too
    short: simulated with 30 labels and an accuracy of 0.93, that of kappa covers 88 %.

    Args:
        judgements: of one system, or {configuration: judgements}; at most one per answer and
        criterion. human: a DataFrame with query_id, criterion, value in [0, 1], and optionally
        annotator, configuration, category
            (as from `ragbench.labelling.load_labels`); or judgements; or {(query_id, criterion):
            value}.
        scale: one of the above; None derives it from the labels of each criterion.
        threshold: smallest value of the judge that counts as yes on a nominal scale.

    Returns:
        criterion, by, group, between, scale, statistic, value, ci_low, ci_high, n (pairs of
        values), n_queries, n_unscored (labels that the judge has no value for), note. Where a
        statistic is undefined, `value` is pd.NA and `note` gives the reason.

    >>> from ragbench.types import Judgement
    >>> judged = [Judgement(f"q{i}", "correctness", value) for i, value in enumerate([1.0, 1.0, 0.0, 0.0])]
    >>> people = {(f"q{i}", "correctness"): value for i, value in enumerate([1, 1, 0, 1])}
    >>> judge_agreement(judged, people)[["statistic", "value", "n"]].round(3)
      statistic  value  n
    0  accuracy   0.75  4
    1     kappa    0.5  4
    2     alpha  0.533  4
    3       ac1  0.529  4

    Raises:
        DataError: labels and judgements have nothing in common, or a value is outside [0, 1] or
        repeated. ConfigError: an unknown scale, or a setting out of range.
    """
    check_settings(alpha, n_resamples, seed)
    if scale is not None and scale not in SCALES:
        raise ConfigError(unknown("scale", scale, SCALES))
    if not 0 <= threshold <= 1:
        raise ConfigError(f"threshold is {threshold!r}; expected a number from 0 to 1")
    _, labels = side_by_side(judgements, human)
    rows = []
    for criterion in dict.fromkeys(labels["criterion"]):
        own = labels[labels["criterion"] == criterion]
        on = [
            name
            for name, levels in (("nominal", (0.0, 1.0)), ("ordinal", LEVELS))
            if own["human"].isin(levels).all()
        ]
        found = scale or [*on, "interval"][0]
        groups = [("all", "", own)]
        for by in ("category", "configuration"):
            if own[by].nunique() > 1:
                groups += [(by, str(name), part) for name, part in own.groupby(by, sort=False)]
        for by, group, part in groups:
            about = {"criterion": criterion, "by": by, "group": group, "scale": found}
            both = part[part["judge"].notna()]
            queries = pd.factorize(both["query_id"])[0]
            pairs = _Pairs(
                both["judge"].to_numpy(dtype=float), both["human"].to_numpy(dtype=float), queries
            )
            about["n_unscored"] = len(part) - len(both)
            rows += _rows(
                {**about, "between": "judge-human"}, pairs, threshold, n_resamples, alpha, seed
            )
            answers = part.sort_values("annotator", kind="stable").groupby(KEYS, sort=False)
            labelled = [
                (*two, one["query_id"].iloc[0])
                for _, one in answers
                for two in combinations(one["human"], 2)
            ]
            if labelled:  # each two labels of one answer, in the order of the annotators' names
                first, second, queries = zip(*labelled, strict=True)
                people = _Pairs(
                    np.array(first),
                    np.array(second),
                    pd.factorize(np.array(queries, dtype=object))[0],
                )
                rows += _rows(
                    {**about, "between": "human-human"}, people, threshold, n_resamples, alpha, seed
                )
    frame = with_nullable(pd.DataFrame(rows), "value", "ci_low", "ci_high")
    columns = [
        "criterion",
        "by",
        "group",
        "between",
        "scale",
        "statistic",
        "value",
        "ci_low",
        "ci_high",
    ]
    return frame[[*columns, "n", "n_queries", "n_unscored", "note"]]


def _alpha(coincidences: Floats, values: Floats, scale: str) -> Floats:
    """Alpha of each (resamples, values, values) symmetric coincidence matrix; NaN where undefined."""
    margins = coincidences.sum(axis=2)
    total = margins.sum(axis=1)
    if scale == "ordinal":
        up_to = np.cumsum(margins, axis=1) - margins / 2
        distance = (up_to[:, :, None] - up_to[:, None, :]) ** 2
    elif scale == "interval":
        distance = ((values[:, None] - values[None, :]) ** 2)[None]
    else:
        distance = (values[:, None] != values[None, :]).astype(float)[None]
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (margins[:, :, None] * margins[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, 1 - (total - 1) * observed / expected, math.nan)


def _rows(
    about: dict[str, object],
    pairs: _Pairs,
    threshold: float,
    n_resamples: int,
    alpha: float,
    seed: int,
) -> list[dict[str, object]]:
    scale = str(about["scale"])
    n, n_queries = len(pairs.first), len(set(pairs.query.tolist()))
    names = {
        "nominal": ("accuracy", "kappa", "alpha", "ac1"),
        "ordinal": ("accuracy", "kappa", "kappa_quadratic", "alpha", "spearman", "kendall", "ac1"),
        "interval": ("alpha", "spearman", "kendall"),
    }[scale]
    once = np.ones((1, n_queries))
    values = _statistics(pairs, once, scale, threshold) if n else {}
    spread = {}
    if n_queries > 1:
        draws = np.random.default_rng([seed, n_queries]).multinomial(
            n_queries, np.full(n_queries, 1 / n_queries), size=n_resamples
        )
        spread = _statistics(pairs, draws.astype(float), scale, threshold)
    rows = []
    for name in names:
        value = float(values[name][0]) if n else math.nan
        drawn = spread.get(name, np.empty(0))
        drawn = drawn[np.isfinite(drawn)]
        low, high = (
            np.quantile(drawn, [alpha / 2, 1 - alpha / 2])
            if len(drawn) and n_queries > 1
            else (math.nan, math.nan)
        )
        if not math.isfinite(value):
            low = high = math.nan
        elif (
            name == "accuracy"
            and n_queries > 1
            and (right := _right(pairs, scale, threshold)) is not None
        ):
            low, high = wilson_interval(right, alpha)
        note = _note(name, value, pairs, len(drawn) / n_resamples if spread else 1.0)
        if not note and high - low < 1e-12:
            note = (
                "the same in every resample, so the interval has no width, which is not "
                "certainty: label more answers"
            )
        rows.append(
            {
                **about,
                "statistic": name,
                "value": value,
                "ci_low": low,
                "ci_high": high,
                "n": n,
                "n_queries": n_queries,
                "note": note,
            }
        )
    return rows


def _note(name: str, value: float, pairs: _Pairs, defined: float) -> str:
    if not len(pairs.first):
        return "no answer has both values"
    if not math.isfinite(value):
        if name in ("spearman", "kendall"):
            return "one side gives every answer the same value, so there is no order to agree on"
        return (
            "both sides give every answer the same value, so agreement is undefined beyond chance"
        )
    if len(set(pairs.query.tolist())) < 2:
        return "one query only, so there is no interval"
    if defined < 0.99:
        return (
            f"undefined in {1 - defined:.0%} of the resamples, so the interval is rough: "
            "label more answers"
        )
    return ""


def _statistics(pairs: _Pairs, draws: Floats, scale: str, threshold: float) -> dict[str, Floats]:
    """Each statistic in each of the (resamples, queries) draws, the weights of the queries."""
    first, second = _on_scale(pairs, scale, threshold)
    values = np.unique(np.concatenate([first, second]))
    k = len(values)
    cell = np.searchsorted(values, first) * k + np.searchsorted(values, second)
    per_query = np.zeros((draws.shape[1], k * k))
    np.add.at(per_query, (pairs.query, cell), 1.0)
    found: dict[str, list[Floats]] = {}
    step = max(1, _BLOCK // max(k * k, len(first)))
    for start in range(0, len(draws), step):
        part = draws[start : start + step]
        tables = (part @ per_query).reshape(-1, k, k)
        coincidences = tables + tables.transpose(0, 2, 1)
        found.setdefault("alpha", []).append(_alpha(coincidences, values, scale))
        if scale != "interval":
            shares = tables / tables.sum(axis=(1, 2), keepdims=True)
            found.setdefault("accuracy", []).append(np.trace(shares, axis1=1, axis2=2))
            found.setdefault("kappa", []).append(_kappa(shares, 1.0 - np.eye(k)))
            found.setdefault("ac1", []).append(
                _ac1(shares, 2 if scale == "nominal" else len(LEVELS))
            )
            squares = (values[:, None] - values[None, :]) ** 2
            found.setdefault("kappa_quadratic", []).append(_kappa(shares, squares))
        if scale != "nominal":
            weights = part[:, pairs.query]
            found.setdefault("spearman", []).append(_spearman(pairs, weights))
            found.setdefault("kendall", []).append(_kendall(pairs, weights))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _on_scale(pairs: _Pairs, scale: str, threshold: float) -> tuple[Floats, Floats]:
    if scale == "nominal":
        return np.where(pairs.first >= threshold, 1.0, 0.0), np.where(
            pairs.second >= threshold, 1.0, 0.0
        )
    if scale == "ordinal":
        levels = np.array(LEVELS)
        first, second = (
            levels[np.abs(side[:, None] - levels).argmin(axis=1)]
            for side in (pairs.first, pairs.second)
        )
        return first, second
    return pairs.first, pairs.second


def _right(pairs: _Pairs, scale: str, threshold: float) -> Floats | None:
    """For each query whether its values are equal; None where they are for some of its pairs only,
    or counts differ.
    """
    first, second = _on_scale(pairs, scale, threshold)
    counts = np.bincount(pairs.query)
    shares: Floats = np.bincount(pairs.query, first == second) / counts
    alike = bool(np.isin(shares, (0.0, 1.0)).all())
    return shares if alike and (np.ptp(counts) == 0 or np.ptp(shares) == 0) else None


def _kappa(shares: Floats, distance: Floats) -> Floats:
    observed = (shares * distance).sum(axis=(1, 2))
    by_chance = (shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :] * distance).sum(
        axis=(1, 2)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(by_chance > 1e-12, 1 - observed / by_chance, math.nan)


def _ac1(shares: Floats, categories: int) -> Floats:
    """Compute AC1, whose agreement by chance is sum(q (1 - q)) / (categories - 1), q the mean rates
    of the values.
    """
    rates = (shares.sum(axis=1) + shares.sum(axis=2)) / 2
    by_chance = (rates * (1 - rates)).sum(axis=1) / (categories - 1)
    agreement: Floats = (np.trace(shares, axis1=1, axis2=2) - by_chance) / (1 - by_chance)
    return agreement


def _spearman(pairs: _Pairs, weights: Floats) -> Floats:
    ranks = []
    for side in (pairs.first, pairs.second):
        values, place = np.unique(side, return_inverse=True)
        counts = np.zeros((len(weights), len(values)))
        np.add.at(counts.T, place, weights.T)
        ranks.append(
            (np.cumsum(counts, axis=1) - counts / 2)[:, place]
        )  # of tied values the middle one
    total = weights.sum(axis=1, keepdims=True)
    one, other = (rank - (weights * rank).sum(axis=1, keepdims=True) / total for rank in ranks)
    joint, a, b = (
        (weights * x * y).sum(axis=1) for x, y in ((one, other), (one, one), (other, other))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((a > 1e-9) & (b > 1e-9), joint / np.sqrt(a * b), math.nan)


def _kendall(pairs: _Pairs, weights: Floats) -> Floats:
    one, other = (np.sign(side[:, None] - side[None, :]) for side in (pairs.first, pairs.second))

    def total(signs: Floats) -> Floats:
        return np.asarray(((weights @ signs) * weights).sum(axis=1))

    joint, a, b = total(one * other), total(np.abs(one)), total(np.abs(other))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((a > 0) & (b > 0), joint / np.sqrt(a * b), math.nan)
