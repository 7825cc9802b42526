"""Agreement of a judge with people, and of people with each other; judgements and human labels
joined.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.array_types import Floats
from ragbench.errors import DataError, warn_user
from ragbench.metrics.rates import wilson_interval
from ragbench.statistics.columns import check_alpha
from ragbench.statistics.thresholds import ALPHA
from ragbench.types import Judgement

Judgements = Sequence[Judgement] | Mapping[str, Sequence[Judgement]]
Human = pd.DataFrame | Sequence[Mapping[str, Any]]

KEYS = ["configuration", "query_id", "criterion"]

# States of judgements that were requested; others (an abstention, a failed answer) are not compared
# with labels.
_REQUESTED = {"scored", "judge_failed", "unreadable", "no_claims"}


def judged_frame(judgements: Judgements) -> pd.DataFrame:
    """Return a row per judgement that a judge was asked for: configuration ("" for a sequence of
    judgements), query_id, criterion, judge (Float64, missing = unscored).

    Raises:
        DataError: no answer was judged, a value is outside [0, 1], or an answer has two judgements.
    """
    by_name = judgements if isinstance(judgements, Mapping) else {"": judgements}
    rows = []
    for name, group in by_name.items():
        for judgement in group:
            if judgement.value is not None or judgement.state in _REQUESTED:
                row = (str(name), judgement.query_id, judgement.criterion, judgement.value)
                rows.append(row)
    if not rows:
        raise DataError("no answer was judged; expected judgements as `judge` returns them")
    frame = pd.DataFrame(rows, columns=[*KEYS, "judge"]).astype({"judge": "Float64"})
    _check_values(frame, KEYS, "judge", "judgement")
    return frame


def human_frame(human: Human) -> pd.DataFrame:
    """Return a row per human label with a value: configuration, query_id, criterion, annotator, picked,
    human (float); missing texts are "".

    Raises:
        DataError: a column is missing, a value is not a number from 0 to 1, no label has a value, or an
            annotator has two labels of the same answer.
    """
    frame = pd.DataFrame(human)
    columns = ["query_id", "criterion", "value"]
    if missing := [name for name in columns if name not in frame]:
        raise DataError(
            f"human labels: no column {', '.join(missing)}; expected {columns}, got {[*frame]}"
        )
    texts = [*KEYS, "annotator", "picked"]
    frame = frame.rename(columns={"value": "human"}).reindex(columns=[*texts, "human"])
    is_given = frame[texts].notna()
    frame[texts] = frame[texts].astype(object).where(is_given, "").astype(str)
    try:
        frame["human"] = pd.to_numeric(frame["human"]).astype("Float64")
    except (TypeError, ValueError) as exc:
        raise DataError(
            f"human labels: {exc}; expected numbers from 0 to 1, or nothing where unlabelled"
        ) from exc
    frame = frame.dropna(subset="human").reset_index(drop=True).astype({"human": float})
    if frame.empty:
        raise DataError(
            "there is no human label with a value; label some answers first, as in "
            "notebooks/label.ipynb"
        )
    _check_values(frame, [*KEYS, "annotator"], "human", "human label")
    return frame


def _check_values(frame: pd.DataFrame, keys: list[str], column: str, what: str) -> None:
    """Raise DataError if a value of `column` is outside [0, 1] (a missing value is allowed), or two rows
    have the same `keys`; `what` names a row in the message.
    """
    is_allowed = frame[column].isna() | frame[column].between(0, 1).fillna(False)
    repeated = frame.duplicated(keys)  # such as rows of two systems that are not named
    if not is_allowed.all():
        row = frame[~is_allowed].iloc[0].to_dict()
        raise DataError(f"{what}: expected one value in [0, 1], got {row}")
    if repeated.any():
        row = frame[repeated].iloc[0].to_dict()
        raise DataError(
            f"{what}: expected one value by each rater; keep one row, or give each of several systems a "
            f"name; got {row}"
        )


def joined_labels(judgements: Judgements, human: Human) -> pd.DataFrame:
    """Return the human labels (as `human_frame`) with the judge's value in the column `judge`.

    Labels of answers that no judge was asked about are left out, with a warning that counts them. If
    one side has no names of configurations, it gets the name of the other side's only configuration.

    Raises:
        DataError: no label has a judgement, or one side has no names and the other has several.
    """
    judged = judged_frame(judgements)
    labels = human_frame(human)
    judged_names = set(judged["configuration"])
    labelled_names = set(labels["configuration"])
    names = judged_names | labelled_names
    if "" in names:  # a side has no names
        if len(judged_names) > 1 or len(labelled_names) > 1:
            raise DataError(
                f"judgements are of the configurations {sorted(judged_names)}, human labels of "
                f"{sorted(labelled_names)}; name both: {{configuration: judgements}}, and the "
                "column `configuration` of the labels"
            )
        name = max(names)  # any name comes after ""
        judged["configuration"] = name
        labels["configuration"] = name
    # a row per label; the column `_merge` is "both" where there is a judgement
    joined = labels.merge(judged, on=KEYS, how="left", indicator=True)
    is_judged = joined["_merge"] == "both"
    if not is_judged.all():
        lost = (
            f"{(~is_judged).sum()} of {len(joined)} human labels are of answers that were not "
            f"judged, first {joined.loc[~is_judged, KEYS].iloc[0].to_dict()}"
        )
        if not is_judged.any():
            raise DataError(f"{lost}; pass the judgements of the answers that were labelled")
        warn_user(f"{lost}; they are left out")
    return joined[is_judged].drop(columns="_merge").reset_index(drop=True)


SCALES = {
    "nominal": ("accuracy", "kappa", "ac1"),
    "ordinal": ("accuracy", "kappa", "kappa_quadratic", "ac1"),
}
"""The statistics of each scale of measurement: categories; ordered levels."""

LEVELS = {"nominal": (0.0, 1.0), "ordinal": (0.0, 0.25, 0.5, 0.75, 1.0)}
"""The labels of a scale."""

N_RESAMPLES = 2000


def judge_agreement(
    judgements: Judgements, human: Human, *, alpha: float = ALPHA, seed: int = 0
) -> pd.DataFrame:
    """Compare a judge with people: one row per criterion, pair of raters and statistic.

    Statistics, by the scale that the people's labels are on:

    - "nominal" (all labels 0 or 1; the judge's value counts as 1 from 0.5 on): `accuracy`,
      the fraction of equal verdicts; `kappa` of Cohen (1960), 1 for full agreement and 0 for chance
      agreement; `ac1` of Gwet (2008), which does not collapse where nearly all labels are the same,
      as kappa does.
    - "ordinal" (all others; a value counts as the nearest of 0, 0.25, ..., 1): these, and
      `kappa_quadratic` (Cohen 1968, disagreement weighted by the squared distance).

    All are at most 1; for all but accuracy, 0 is chance and below 0 is worse. There are two kinds of
    rows (`between`): "judge-human" pairs the judge with each label of each person; "human-human"
    pairs people who labelled the same answer, in the order of their names. The agreement of people
    is the ceiling: no judge can be expected to agree with people more than they do. Read accuracy
    together with kappa: if 95 % of the answers are right, a judge that always says yes has 0.95.

    Intervals (1 - alpha) are percentile bootstrap over whole queries, so several labels of one
    question do not count as several questions. Resamples in which a statistic is undefined are left
    out. Accuracy has the interval of Wilson (1927) for the mean of the queries' accuracies, with n the
    number of queries. With few labels and few errors the
    other intervals are too short, or have no width, which is no certainty: simulated with 30 labels
    and an accuracy of 0.93, the interval of kappa covers 88 %.

    Args:
        judgements: of one system, or {configuration: judgements}; at most one per answer and
            criterion.
        human: a frame (or a list of dicts) with query_id, criterion, value in [0, 1], and
            optionally annotator and configuration, as from `ragbench.labelling.load_labels`.

    Returns:
        criterion, between, scale, statistic, value, ci_low, ci_high, n (pairs of
        values), n_queries, n_unscored (labels that the judge has no value for). `value` is pd.NA
        where a statistic is undefined, as kappa is if both sides give every answer the same label.

    >>> import pandas as pd
    >>> from ragbench.types import Judgement
    >>> judged = [Judgement(f"q{i}", "correctness", value) for i, value in enumerate([1.0, 1.0, 0.0, 0.0])]
    >>> ids = [f"q{i}" for i in range(4)]
    >>> people = pd.DataFrame({"query_id": ids, "criterion": "correctness", "value": [1, 1, 0, 1]})
    >>> judge_agreement(judged, people)[["statistic", "value", "n"]].round(3)
      statistic  value  n
    0  accuracy   0.75  4
    1     kappa    0.5  4
    2       ac1  0.529  4

    Raises:
        DataError: labels and judgements have nothing in common, or a value is outside [0, 1] or
            repeated.
        ConfigError: alpha is out of range.
    """
    check_alpha(alpha)
    labels = joined_labels(judgements, human)
    tables = []
    for criterion, part in labels.groupby("criterion", sort=False):
        scale = "nominal" if part["human"].isin(LEVELS["nominal"]).all() else "ordinal"
        scored = part[part["judge"].notna()]
        # between whom -> a row per pair of values: the first, the second, the query
        pairs = {"judge-human": scored[["judge", "human", "query_id"]].to_numpy(dtype=object)}
        pairs_of_people = _pairs_of_people(part)
        if len(pairs_of_people):
            pairs["human-human"] = pairs_of_people
        for between, values in pairs.items():
            table = _statistics_with_intervals(values, scale, alpha, seed).assign(
                criterion=criterion,
                between=between,
                scale=scale,
                n_unscored=len(part) - len(scored),
            )
            tables.append(table)
    columns = "criterion between scale statistic value ci_low ci_high n n_queries n_unscored"
    frame = pd.concat(tables, ignore_index=True)[columns.split()]
    return frame.astype(dict.fromkeys(["value", "ci_low", "ci_high"], "Float64"))


def _pairs_of_people(labels: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return (first value, second value, query_id) for each pair of people who labelled the same
    answer, in the order of their names.
    """
    answers = labels.sort_values("annotator", kind="stable").groupby(KEYS, sort=False)
    rows = []
    for (_, query_id, _), answer in answers:
        for first, second in combinations(answer["human"], 2):
            rows.append((first, second, query_id))
    return np.array(rows, dtype=object).reshape(-1, 3)


def _statistics_with_intervals(
    values: npt.NDArray[np.object_], scale: str, alpha: float, seed: int
) -> pd.DataFrame:
    """Return a row per statistic of the scale, with its interval: Wilson's for accuracy, else bootstrap.

    `values` has a row per pair of values: the first rater's, the second rater's, and the query. A
    statistic that cannot be computed is NaN, and has no interval.
    """
    query, query_ids = pd.factorize(values[:, 2])
    n_queries = len(query_ids)
    first = _on_scale(values[:, 0].astype(float), scale)
    second = _on_scale(values[:, 1].astype(float), scale)
    draws = _draws_of_queries(n_queries, seed)
    statistics = _statistics(first, second, query, draws, scale) if n_queries else {}
    rows = []
    for name in SCALES[scale]:
        # the first draw is the data themselves, the others are resamples
        value, *resampled = statistics.get(name, [math.nan])
        resampled = [number for number in resampled if math.isfinite(number)]
        low = math.nan
        high = math.nan
        has_interval = math.isfinite(value) and len(resampled) > 0
        if has_interval and name == "accuracy":
            # no resample of 30 right verdicts has a wrong one: a bootstrap interval would have no width
            accuracies = np.bincount(query, first == second) / np.bincount(query)  # of each query
            low, high = wilson_interval(accuracies.sum(), n_queries, alpha)
        elif has_interval:
            low, high = np.quantile(resampled, [alpha / 2, 1 - alpha / 2])
        rows.append((name, value, low, high, len(values), n_queries))
    return pd.DataFrame(rows, columns="statistic value ci_low ci_high n n_queries".split())


def _draws_of_queries(n_queries: int, seed: int) -> Floats:
    """Return how often each draw has each query (draws, queries): the first draw has each once, the
    others are bootstrap resamples; fewer than two queries are not resampled.
    """
    all_once = np.ones((1, n_queries))
    if n_queries < 2:
        return all_once
    rng = np.random.default_rng([seed, n_queries])
    rates = np.full(n_queries, 1 / n_queries)
    return np.vstack([all_once, rng.multinomial(n_queries, rates, size=N_RESAMPLES)])


def _statistics(
    first: Floats, second: Floats, query: npt.NDArray[np.int64], draws: Floats, scale: str
) -> dict[str, Floats]:
    """Compute each statistic of two raters in each draw: name -> (draws,), NaN where it is undefined.

    All but accuracy compare the observed disagreement with the disagreement by chance.

    Args:
        first, second: values of each pair (pairs,).
        query: the number of the query of each pair (pairs,).
        draws: the weight of each query in each draw (a resample of the queries): (draws, queries).
        scale: "nominal" or "ordinal".
    """
    levels, rates = _rates_of_values(first, second, query, draws)
    statistics = {"accuracy": np.trace(rates, axis1=1, axis2=2)}  # the rate of equal values
    with np.errstate(invalid="ignore", divide="ignore"):
        for name, (observed, by_chance) in _disagreements(levels, rates, scale).items():
            statistics[name] = np.where(by_chance > 1e-12, 1 - observed / by_chance, math.nan)
    return statistics


def _disagreements(levels: Floats, rates: Floats, scale: str) -> dict[str, tuple[Floats, Floats]]:
    """Return name of a statistic -> the observed disagreement of two raters, and the disagreement that
    chance would give (draws,). The statistic is 1 - observed / by chance: Cohen's kappa (1960), kappa
    weighted by squared distances (Cohen 1968), and AC1 (Gwet 2008).

    Args:
        levels: the values that occur (levels,).
        rates: how often the raters give each combination of two levels (draws, level of the first rater,
            level of the second).
        scale: a key of `SCALES`.
    """
    first_rates = rates.sum(axis=2)  # (draws, levels)
    second_rates = rates.sum(axis=1)
    disagreement = 1 - np.trace(rates, axis1=1, axis2=2)
    # the rates of independent raters with the same rates of values
    chance = first_rates[:, :, None] * second_rates[:, None]
    squares = (levels[:, None] - levels) ** 2
    mean_rates = (first_rates + second_rates) / 2
    n_levels = len(LEVELS[scale])
    chance_agreement_of_ac1 = (mean_rates * (1 - mean_rates)).sum(axis=1) / (n_levels - 1)
    return {
        "kappa": (disagreement, 1 - np.trace(chance, axis1=1, axis2=2)),
        "kappa_quadratic": (
            (rates * squares).sum(axis=(1, 2)),
            (chance * squares).sum(axis=(1, 2)),
        ),
        "ac1": (disagreement, 1 - chance_agreement_of_ac1),
    }


def _rates_of_values(
    first: Floats, second: Floats, query: npt.NDArray[np.int64], draws: Floats
) -> tuple[Floats, Floats]:
    """Return the levels (the values that occur, ascending, such as 0, 0.5 and 1), and how often two
    raters give each combination of two levels, in each draw.

    Args:
        first, second: the values of the two raters for each pair of values (pairs,).
        query: the number of the query of each pair (pairs,).
        draws: the weight of each query in each draw (draws, queries).

    Returns:
        The levels, and the rates of their combinations (draws, level of the first rater, level of the
        second); the rates of a draw add up to 1.
    """
    levels = np.unique(np.concatenate([first, second]))
    k = len(levels)
    # a combination is a cell of a k x k table; cells are numbered row by row
    cell = np.searchsorted(levels, first) * k + np.searchsorted(levels, second)
    counts_by_query = np.zeros((draws.shape[1], k * k))
    np.add.at(counts_by_query, (query, cell), 1.0)
    counts = (draws @ counts_by_query).reshape(-1, k, k)
    return levels, counts / counts.sum(axis=(1, 2), keepdims=True)


def _on_scale(values: Floats, scale: str) -> Floats:
    """Round values to the nearest level of the scale; 0.5 becomes 1 on the nominal scale, and a value in
    the middle of two levels the lower one on the ordinal scale.
    """
    levels: Floats
    if scale == "nominal":
        levels = np.floor(values + 0.5)
    else:
        levels = np.ceil(4 * values - 0.5) / 4
    return levels
