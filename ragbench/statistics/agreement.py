"""Agreement of a judge with people, and of people with each other; judgements and human labels
joined.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import DataError, DataWarning
from ragbench.metrics.rates import wilson_interval
from ragbench.statistics.columns import Floats, check_alpha
from ragbench.types import Judgement

Judgements = Sequence[Judgement] | Mapping[str, Sequence[Judgement]]
Human = pd.DataFrame | Sequence[Mapping[str, Any]]

KEYS = ["configuration", "query_id", "criterion"]

# States of judgements that were requested; others (an abstention, a failed answer) are not compared
# with labels.
_REQUESTED = {"scored", "judge_failed", "unreadable", "no_claims"}


def judged_frame(judgements: Judgements) -> pd.DataFrame:
    """Return the columns configuration ("" where there is one only), query_id, criterion, judge
    (Float64, missing = unscored).

    Judgements without a request are left out.
    """
    by_name = judgements if isinstance(judgements, Mapping) else {"": judgements}
    rows = [
        (str(name), j.query_id, j.criterion, j.value)
        for name, group in by_name.items()
        for j in group
        if j.value is not None or j.state in _REQUESTED
    ]
    if not rows:
        raise DataError("no answer was judged; expected judgements as `judge` returns them")
    frame = pd.DataFrame(rows, columns=[*KEYS, "judge"]).astype({"judge": "Float64"})
    return _checked(frame, KEYS, "judge", "judgement")


def human_frame(human: Human) -> pd.DataFrame:
    """Return the columns configuration, query_id, criterion, annotator, picked, human (float);
    without blank labels.
    """
    frame = pd.DataFrame(human)
    columns = ["query_id", "criterion", "value"]
    if missing := [name for name in columns if name not in frame]:
        raise DataError(
            f"human labels: no column {', '.join(missing)}; expected {columns}, got {[*frame]}"
        )
    texts = [*KEYS, "annotator", "picked"]
    frame = frame.rename(columns={"value": "human"}).reindex(columns=[*texts, "human"])
    frame[texts] = frame[texts].astype(object).where(frame[texts].notna(), "").astype(str)
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
    return _checked(frame, [*KEYS, "annotator"], "human", "human label")


def _checked(frame: pd.DataFrame, keys: list[str], column: str, what: str) -> pd.DataFrame:
    """Refuse values beyond [0, 1] and two values of one answer."""
    for wrong, problem in (
        (~frame[column].between(0, 1).fillna(True), "expected one value in [0, 1]"),
        (
            frame.duplicated(keys),
            "expected one by each rater, keep one row; several systems have names each",
        ),
    ):
        if wrong.any():
            raise DataError(f"{what}: {problem}, got {frame[wrong].iloc[0].to_dict()}")
    return frame


def joined_labels(judgements: Judgements, human: Human) -> pd.DataFrame:
    """Return each human label with the judge's value in `judge`.

    Labels without a requested judgement are left out, with a warning that counts them.
    """
    judged, labels = judged_frame(judgements), human_frame(human)
    names, labelled = set(judged["configuration"]), set(labels["configuration"])
    if len(names) == len(labelled) == 1 and "" in names | labelled:  # one side may lack the name
        judged["configuration"] = labels["configuration"] = max(names | labelled)
    elif "" in names | labelled:
        raise DataError(
            f"judgements are of the configurations {sorted(names)}, human labels of "
            f"{sorted(labelled)}; name both: {{configuration: judgements}}, and the column "
            "`configuration` of the labels"
        )
    both = labels.merge(judged, on=KEYS, how="left", indicator=True)
    is_judged = both["_merge"] == "both"
    if not is_judged.all():
        lost = (
            f"{(~is_judged).sum()} of {len(both)} human labels are of answers that were not "
            f"judged, first {both.loc[~is_judged, KEYS].iloc[0].to_dict()}"
        )
        if not is_judged.any():
            raise DataError(f"{lost}; pass the judgements of the answers that were labelled")
        warnings.warn(f"{lost}; they are left out", DataWarning, stacklevel=3)
    return both[is_judged].drop(columns="_merge").reset_index(drop=True)


SCALES = {
    "nominal": ("accuracy", "kappa", "ac1"),
    "ordinal": ("accuracy", "kappa", "kappa_quadratic", "ac1"),
}
"""The statistics of each scale of measurement: categories; ordered levels."""

LEVELS = {"nominal": (0.0, 1.0), "ordinal": (0.0, 0.25, 0.5, 0.75, 1.0)}
"""The labels of a scale."""

N_RESAMPLES = 2000


def judge_agreement(
    judgements: Judgements, human: Human, *, alpha: float = 0.05, seed: int = 0
) -> pd.DataFrame:
    """Compare a judge with people: one row per criterion, pair of raters and statistic.

    Statistics, by the scale that the people's labels are on:

    - "nominal" (all labels 0 or 1; the judge's value counts as 1 from 0.5 on): `accuracy`,
      the fraction of equal verdicts; `kappa` of Cohen (1960), 1 for full agreement and 0 for chance
      agreement; `ac1` of Gwet (2008), which does not collapse where nearly all labels are the same,
      as kappa does.
    - "ordinal" (all others; a value counts as the nearest of 0, 0.25, ..., 1): these, and
      `kappa_quadratic` (Cohen 1968, disagreement weighted by the squared distance).

    All are at most 1; but for accuracy 0 is chance and below 0 is worse. Rows of two kinds
    (`between`): "judge-human" pairs the judge with each label of each person; "human-human" pairs
    people who labelled the same answer, in the order of their names. This is the ceiling: no judge
    can be expected to agree with people more than they do. Read accuracy together with kappa: where
    95 % of the answers are right, a judge that always says yes has 0.95.

    Intervals (1 - alpha) are percentile bootstrap over whole queries, so several labels of one
    question do not count as several questions. Resamples in which a statistic is undefined are left
    out. Accuracy has the interval of Wilson (1927), over queries. With few labels and few errors the
    others are too short, or have no width, which is no certainty: simulated with 30 labels and an
    accuracy of 0.93, that of kappa covers 88 %.

    Args:
        judgements: of one system, or {configuration: judgements}; at most one per answer and
            criterion.
        human: a frame (or a list of dicts) with query_id, criterion, value in [0, 1], and
            optionally annotator and configuration, as from `ragbench.labelling.load_labels`.

    Returns:
        criterion, between, scale, statistic, value, ci_low, ci_high, n (pairs of
        values), n_queries, n_unscored (labels that the judge has no value for). Where a
        statistic is undefined, as beyond chance where both sides always say the same, `value` is pd.NA.

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
        both = part[part["judge"].notna()]
        sides = {"judge-human": both[["judge", "human", "query_id"]].to_numpy(dtype=object)}
        answers = part.sort_values("annotator", kind="stable").groupby(KEYS, sort=False)
        sides["human-human"] = np.array(  # in the order of the annotators' names
            [(*two, key[1]) for key, answer in answers for two in combinations(answer["human"], 2)],
            dtype=object,
        ).reshape(-1, 3)
        for between, values in sides.items():
            if len(values) or between == "judge-human":
                table = _table(values, scale, alpha, seed).assign(
                    criterion=criterion,
                    between=between,
                    scale=scale,
                    n_unscored=len(part) - len(both),
                )
                tables.append(table)
    columns = "criterion between scale statistic value ci_low ci_high n n_queries n_unscored"
    frame = pd.concat(tables, ignore_index=True)[columns.split()]
    return frame.astype(dict.fromkeys(["value", "ci_low", "ci_high"], "Float64"))


def _table(values: npt.NDArray[np.object_], scale: str, alpha: float, seed: int) -> pd.DataFrame:
    """Return a row per statistic of these rows of two values and a query."""
    query, query_ids = pd.factorize(values[:, 2])
    n_queries = len(query_ids)
    first, second = (_on_scale(column.astype(float), scale) for column in values.T[:2])
    # the first draw has each query once, the others are resamples
    draws = np.ones((1, n_queries))
    if n_queries > 1:
        rng, rates = np.random.default_rng([seed, n_queries]), np.full(n_queries, 1 / n_queries)
        draws = np.vstack([draws, rng.multinomial(n_queries, rates, size=N_RESAMPLES)])
    statistics = _statistics(first, second, query, draws, scale) if n_queries else {}
    rows = []
    for name in SCALES[scale]:
        value, *drawn = statistics.get(name, [math.nan])
        drawn = [each for each in drawn if math.isfinite(each)]
        low = high = math.nan
        if math.isfinite(value) and drawn:
            low, high = np.quantile(drawn, [alpha / 2, 1 - alpha / 2])
            if name == "accuracy":  # of no resample of 30 right verdicts is one wrong
                rates = np.bincount(query, first == second) / np.bincount(query)
                low, high = wilson_interval(rates.sum(), n_queries, alpha)
        rows.append((name, value, low, high, len(values), n_queries))
    return pd.DataFrame(rows, columns="statistic value ci_low ci_high n n_queries".split())


def _statistics(
    first: Floats, second: Floats, query: npt.NDArray[np.int64], draws: Floats, scale: str
) -> dict[str, Floats]:
    """Compute each statistic in each of the (resamples, queries) draws, the weights of the
    queries.
    """
    values = np.unique(np.concatenate([first, second]))
    k = len(values)
    cell = np.searchsorted(values, first) * k + np.searchsorted(values, second)
    per_query = np.zeros((draws.shape[1], k * k))
    np.add.at(per_query, (query, cell), 1.0)
    tables = (draws @ per_query).reshape(-1, k, k)
    rates = tables / tables.sum(axis=(1, 2), keepdims=True)
    accuracy = np.trace(rates, axis1=1, axis2=2)
    second_rates, first_rates = rates.sum(axis=1), rates.sum(axis=2)
    chance = first_rates[:, :, None] * second_rates[:, None]
    squares = (values[:, None] - values) ** 2
    q = (first_rates + second_rates) / 2
    # disagreement, and how much of it is expected by chance
    pairs = {
        "kappa": (1 - accuracy, 1 - np.trace(chance, axis1=1, axis2=2)),
        "kappa_quadratic": (
            (rates * squares).sum(axis=(1, 2)),
            (chance * squares).sum(axis=(1, 2)),
        ),
        "ac1": (1 - accuracy, 1 - (q * (1 - q)).sum(axis=1) / (len(LEVELS[scale]) - 1)),
    }
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"accuracy": accuracy} | {
            name: np.where(by_chance > 1e-12, 1 - observed / by_chance, math.nan)
            for name, (observed, by_chance) in pairs.items()
        }


def _on_scale(values: Floats, scale: str) -> Floats:
    """Round values to the nearest level of the scale, 0.5 to 1 on the nominal one."""
    level: Floats = np.floor(values + 0.5) if scale == "nominal" else np.ceil(4 * values - 0.5) / 4
    return level
