"""The mean of human labels over all answers, from a few labels and a judge that may be biased."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import DataError, DataWarning
from ragbench.statistics.agreement import Human, Judgements, joined_labels
from ragbench.statistics.columns import Floats, check_alpha

MIN_LABELS = 10
"""With fewer labels there is no interval, because the normal approximation is too rough."""


def calibrate(judgements: Judgements, human: Human, *, alpha: float = 0.05) -> pd.DataFrame:
    """Estimate the mean of people's verdicts over all questions like these, from labels of a few
    answers and a judge's verdicts on all.

    Prediction-powered inference with power tuning, PPI++ (Angelopoulos, Duchi & Zrnic 2023): with
    judge values f and labels y, the estimate is mean(y) over the labelled + weight * (mean(f) over
    the others - mean(f) over the labelled), so the judge's bias cancels. `weight` in [0, 1] is
    chosen from the data: near 1 for a judge that follows people (many answers then count nearly as
    labelled), 0 for one that does not, where only the labels count. So the interval is never much
    wider than that of the labels alone.

    **It holds only if the labelled answers were drawn at random from all of them.** Labels that
    were chosen in another way have a value other than "random" in the column `picked` (as
    `ragbench.labelling` writes it), and are left out. Labels without that column are taken to be
    random; they are not if hard answers were skipped.

    The interval adds four pseudo-observations, right and wrong in equal parts, as Agresti & Coull
    (1998) do for a proportion, and uses Student's t: so a judge without errors on 30 labels is not
    taken as perfect. With fewer than 10 labels there is an estimate and no interval.

    Args:
        judgements: of one system, or {configuration: judgements}. A requested judgement that is
        unscored has the mean
            of the others as its f; answers that were not judged, such as abstentions, are not part
            of the mean.
        human: labels as for `judge_agreement`; those of several people on one answer are averaged.
        alpha: 1 minus the coverage of the interval.

    Returns:
        One row per criterion and configuration: criterion, configuration, estimate, ci_low,
        ci_high; judge_mean, the uncorrected mean over all answers; judge_bias, judge - people on
        the labelled; labels_mean, labels_low, labels_high, from the labels alone; weight;
        n_labelled, n, note. pd.NA where a number is unknown.

    >>> from ragbench.types import Judgement
    >>> judged = [Judgement(f"q{i}", "correctness", float(i % 4 > 0)) for i in range(200)]
    >>> i = range(0, 200, 5)
    >>> people = [{"query_id": f"q{j}", "criterion": "correctness", "value": float(j % 4 > 1)} for j in i]
    >>> calibrate(judged, people)[["estimate", "ci_low", "ci_high", "judge_mean", "n_labelled"]].round(3)
       estimate  ci_low  ci_high  judge_mean  n_labelled
    0       0.5   0.376    0.648        0.75          40

    Raises:
        DataError: no label was drawn at random, or labels and judgements have nothing in common.
        ConfigError: alpha is out of range.
    """
    check_alpha(alpha)
    judged, labels = joined_labels(judgements, human)
    labels, picked = _random_ones(labels)
    keys = ["criterion", "configuration"]
    labelled, left_out = dict(list(labels.groupby(keys))), picked.groupby(keys).size().to_dict()
    rows = []
    for key, answers in judged.groupby(keys, sort=False):
        if key in labelled:
            f = answers.set_index("query_id")["judge"].astype(float)
            if f.isna().all():
                raise DataError(
                    f"the judge scored none of {len(f)} answers; nothing can be calibrated by it"
                )
            y = labelled[key].groupby("query_id")["human"].mean().reindex(f.index)
            row = _row(y.to_numpy(float), f.fillna(f.mean()).to_numpy(), alpha)
            if key in left_out:
                skipped = f"{left_out[key]} labels that were not drawn at random are left out"
                row["note"] = "; ".join(filter(None, [row["note"], skipped]))
            rows.append(dict(zip(keys, key, strict=True)) | row)
    table = pd.DataFrame(rows)
    return table.astype(dict.fromkeys(table.columns[2:-3], "Float64"))


def _weight(y: Floats, f: Floats, u: Floats) -> float:
    """Compute the weight with the smallest variance, cov(y, f) / ((1 + n / N) var(f)), within
    [0, 1]; the factor is that of the judge's own mean, which varies too.
    """
    everything = np.concatenate([f, u])
    if not len(u) or len(y) < 2 or np.ptp(everything) == 0:
        return 0.0
    covariance = np.mean((y - y.mean()) * (f - f.mean()))
    best = covariance / ((1 + len(y) / len(u)) * np.var(everything, ddof=1))
    return float(np.clip(best, 0.0, 1.0))


def _estimate(
    y: Floats, f: Floats, u: Floats, weight: float, alpha: float
) -> tuple[float, float, float]:
    """Estimate the mean, with its interval (NaN with too few labels)."""
    from scipy.stats import t

    n = len(y)
    value = float(y.mean() + (weight * (u.mean() - f.mean()) if len(u) else 0.0))
    if n < MIN_LABELS:
        return value, math.nan, math.nan
    residuals = np.concatenate([y - weight * f, [0.0, 1.0, -weight, 1.0 - weight]])
    middle, variance = residuals.mean(), np.var(residuals) / len(residuals)
    if len(u):
        middle += weight * u.mean()
    if len(u) > 1:
        variance += weight**2 * np.var(u, ddof=1) / len(u)
    reach = t.ppf(1 - alpha / 2, n - 1) * math.sqrt(variance)
    return value, float(max(0.0, middle - reach)), float(min(1.0, middle + reach))


def _row(labels: Floats, judged: Floats, alpha: float) -> dict[str, Any]:
    """Calibrate the judge's values by people's, NaN where there is none."""
    labelled = ~np.isnan(labels)
    y, f, u = labels[labelled], judged[labelled], judged[~labelled]
    weight = _weight(y, f, u)
    estimate, low, high = _estimate(y, f, u, weight, alpha)
    mean, labels_low, labels_high = _estimate(y, f, u, 0.0, alpha)
    few = f"{len(y)} labels drawn at random are too few for an interval: label {MIN_LABELS} or more"
    return {
        "estimate": estimate,
        "ci_low": low,
        "ci_high": high,
        "judge_mean": float(judged.mean()),
        "judge_bias": float(f.mean() - y.mean()),
        "labels_mean": mean,
        "labels_low": labels_low,
        "labels_high": labels_high,
        "weight": weight,
        "n_labelled": len(y),
        "n": len(judged),
        "note": few if math.isnan(low) else "",
    }


def _random_ones(labels: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    drawn = labels["picked"].isin(["", "random"])
    if not drawn.any():
        raise DataError(
            f"all {len(labels)} labels were picked ({labels['picked'].iloc[0]!r}), none drawn at "
            "random; labels picked because a judge is unsure are not representative. Label the "
            "random part of the sheet"
        )
    if (labels["picked"] == "").any() and not drawn.all():
        warnings.warn(
            f"{(labels['picked'] == '').sum()} labels have no value in `picked`, and others do; "
            "they are taken as drawn at random",
            DataWarning,
            stacklevel=3,
        )
    return labels[drawn], labels[~drawn]
