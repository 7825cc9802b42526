"""The mean of human labels over all answers, from a few labels and a judge that may be biased."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, DataWarning, unknown
from ragbench.statistics.agreement import Human, Judgements, side_by_side
from ragbench.statistics.columns import Floats, check_settings, with_nullable

TARGETS = ("questions", "answers")

MIN_LABELS = 10
"""With fewer labels there is no interval, because the normal approximation is too rough."""

_COLUMNS = [
    "estimate",
    "ci_low",
    "ci_high",
    "judge_mean",
    "judge_bias",
    "labels_mean",
    "labels_low",
    "labels_high",
    "weight",
    "n_labelled",
    "n",
    "note",
]


class _Estimate(NamedTuple):
    value: float
    low: float
    high: float


def calibrate(
    judgements: Judgements, human: Human, *, target: str = "questions", alpha: float = 0.05
) -> pd.DataFrame:
    """The mean of people's verdicts over all answers, from labels of a few and a judge's verdicts
    on all.

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
        target: "questions", the mean over all questions like these, as every other interval of
        ragbench; "answers", the
            mean over these very answers, which has a narrower interval (and none where all are
            labelled).
        alpha: 1 minus the coverage of the interval.

    Returns:
        One row per criterion and configuration: criterion, configuration, estimate, ci_low,
        ci_high; judge_mean, the uncorrected mean over all answers; judge_bias, judge - people on
        the labelled; labels_mean, labels_low, labels_high, from the labels alone; weight;
        n_labelled, n, note. pd.NA where a number is unknown.

    >>> from ragbench.types import Judgement
    >>> judged = [Judgement(f"q{i}", "correctness", float(i % 4 > 0)) for i in range(200)]
    >>> people = {(f"q{i}", "correctness"): float(i % 4 > 1) for i in range(0, 200, 5)}
    >>> calibrate(judged, people)[["estimate", "ci_low", "ci_high", "judge_mean", "n_labelled"]].round(3)
       estimate  ci_low  ci_high  judge_mean  n_labelled
    0       0.5   0.376    0.648        0.75          40

    Raises:
        DataError: no label was drawn at random, or labels and judgements have nothing in common.
        ConfigError: an unknown target, or alpha out of range.
    """
    _check(target, alpha)
    judged, labels = side_by_side(judgements, human)
    labels, picked = _random_ones(labels)
    of_group = dict(list(labels.groupby(["criterion", "configuration"], sort=False)))
    rows = []
    for (criterion, configuration), answers in judged.groupby(
        ["criterion", "configuration"], sort=False
    ):
        own = of_group.get((criterion, configuration))
        if own is not None:
            about = {"criterion": criterion, "configuration": configuration}
            left_out = (
                (picked["criterion"] == criterion) & (picked["configuration"] == configuration)
            ).sum()
            rows.append({**about, **_row(_joined(answers, own), target, alpha, left_out)})
    return _table(pd.DataFrame(rows)[["criterion", "configuration", *_COLUMNS]])


def _weight(y: Floats, f: Floats, u: Floats, penalty: float) -> float:
    """The weight with the smallest variance, cov(y, f) / (penalty * var(f)), within [0, 1].

    For the mean over all questions the judge's own mean varies too, and `penalty` is 1 + n / N;
    otherwise 1.
    """
    everything = np.concatenate([f, u])
    if not len(u) or len(y) < 2 or np.ptp(everything) == 0:
        return 0.0
    best = np.mean((y - y.mean()) * (f - f.mean())) / (penalty * np.var(everything, ddof=1))
    return float(np.clip(best, 0.0, 1.0))


def _estimated(
    y: Floats, f: Floats, u: Floats, weight: float, target: str, alpha: float
) -> _Estimate:
    from scipy.stats import t

    n, others = len(y), len(u)
    share = others / (n + others)  # of all answers, those without label
    moved = weight * (u.mean() - f.mean()) if others else 0.0
    known = target == "answers" and not others
    # The mean over these very answers: what is labelled is known, and only the others' labels are
    # estimated.
    value = y.mean() + (share if target == "answers" else 1.0) * moved
    if known or n < MIN_LABELS:
        limit = value if known else math.nan
        return _Estimate(float(value), float(limit), float(limit))
    residuals = np.concatenate([y - weight * f, [0.0, 1.0, -weight, 1.0 - weight]])
    center, variance = residuals.mean(), np.var(residuals) / len(residuals)
    middle = center + (weight * u.mean() if others else 0.0)
    if target == "answers":
        middle, variance = (1 - share) * y.mean() + share * middle, share * variance
    elif others > 1:
        variance += weight**2 * np.var(u, ddof=1) / others
    reach = t.ppf(1 - alpha / 2, n - 1) * math.sqrt(variance)
    return _Estimate(float(value), float(max(0.0, middle - reach)), float(min(1.0, middle + reach)))


def _row(
    values: pd.DataFrame, target: str, alpha: float, left_out: int
) -> dict[str, float | int | str]:
    labelled = values["y"].notna().to_numpy()
    y = values["y"].to_numpy(dtype=float)[labelled]
    f, u = values["f"].to_numpy(dtype=float)[labelled], values["f"].to_numpy(dtype=float)[~labelled]
    weight = _weight(y, f, u, 1 + len(y) / max(len(u), 1) if target == "questions" else 1.0)
    tuned = _estimated(y, f, u, weight, target, alpha)
    alone = _estimated(y, f, u, 0.0, target, alpha)
    notes = []
    if math.isnan(tuned.low):
        notes.append(
            f"{len(y)} labels drawn at random are too few for an interval: label {MIN_LABELS} or "
            "more"
        )
    if left_out:
        notes.append(f"{left_out} labels that were not drawn at random are left out")
    return {
        "estimate": tuned.value,
        "ci_low": tuned.low,
        "ci_high": tuned.high,
        "judge_mean": float(values["f"].mean()),
        "judge_bias": float(f.mean() - y.mean()),
        "labels_mean": alone.value,
        "labels_low": alone.low,
        "labels_high": alone.high,
        "weight": weight,
        "n_labelled": len(y),
        "n": len(values),
        "note": "; ".join(notes),
    }


def _joined(answers: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """By query: the judge's value f, with the mean of the scored where it is missing, and the
    people's mean y.
    """
    f = answers.set_index("query_id")["judge"].astype(float)
    if f.isna().all():
        raise DataError(
            f"the judge scored none of {len(f)} answers; nothing can be calibrated by it"
        )
    y = labels.groupby("query_id")["human"].mean()
    return f.fillna(f.mean()).to_frame("f").assign(y=y.reindex(f.index).astype(float))


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


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    return with_nullable(
        frame, *(name for name in _COLUMNS if name not in ("n_labelled", "n", "note"))
    )


def _check(target: str, alpha: float) -> None:
    if target not in TARGETS:
        raise ConfigError(unknown("target", target, TARGETS))
    check_settings(alpha)
