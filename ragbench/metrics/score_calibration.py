"""Calibration of a heuristic score: a threshold and probabilities, from human labels.

A score such as `claim_support` ranks texts, but no fixed value of it means "supported": that
depends on the kind of text. `calibrate_threshold` estimates the threshold and its uncertainty from
30 or more labels of the same kind of text.

There is no built-in threshold for a kind of text ("news", "dialogue"): that would need human labels
of supported and unsupported answers of each kind. The public sets (CLAPNQ, PubMedQA, XQuAD, Chroma)
have correct answers, and negatives made by rule, which need not resemble the errors of real
answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter

from ragbench.errors import ConfigError, DataError
from ragbench.files import read_json, write_durably
from ragbench.metrics.array_types import Bools, Floats, Ints
from ragbench.metrics.groundedness.entailment import SUPPORT_MODELS
from ragbench.metrics.groundedness.support import coefficients
from ragbench.metrics.safety.detection import auc_interval, rate_interval, roc_auc
from ragbench.metrics.safety.injection import HEAD
from ragbench.store import digest

MIN_LABELS = 30
"""Minimum number of labels for a calibration."""

MIN_OF_A_KIND = 5
"""Minimum number of positive and of negative labels."""

SCHEMA = 2
"""The version of a calibration file."""

_BIN = 12  # labels of a bin, about
_MAX_BINS = 8
_HELD_OUT_RESAMPLES = 50
_WEAK_RIDGE = 10.0  # keeps the slope finite where the labels are separated perfectly


@dataclass(frozen=True, slots=True)
class ScoreBin:
    """Labels of texts whose scores are from `low` to `high`: `positive` of `n`, their rate with
    Wilson's interval.
    """

    low: float
    high: float
    n: int
    positive: int
    rate: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The meaning of the scores of a measure on the labelled texts; made by `calibrate_threshold`.

    `threshold` separates positive from negative texts best (balanced accuracy), `logistic` is the
    estimate of it by logistic regression; `ci_low` and `ci_high` are a 95 % interval that spans
    both. `auc` with its 95 % interval is the quality of the ranking. `balanced_accuracy` is that of
    the threshold in cross-validation; 0.5 is guessing. `bins` holds the rate of positive labels by
    score. `model` is the model of the scores ("" where there is only one) and `version` its
    coefficients (`score_version`): scores of others have another scale.
    """

    measure: str
    threshold: float
    logistic: float
    ci_low: float
    ci_high: float
    n: int
    n_positive: int
    auc: float
    auc_low: float
    auc_high: float
    balanced_accuracy: float
    intercept: float
    slope: float
    bins: tuple[ScoreBin, ...]
    model: str = ""
    version: str = ""

    def probability(self, score: float) -> float:
        """Return the probability in [0, 1] that a person labels a text of this score positive, by a
        logistic regression.

        It holds for texts like the labelled ones, and depends on the rate of positive ones among
        those.
        """
        return float(1 / (1 + np.exp(-np.clip(self.intercept + self.slope * score, -700.0, 700.0))))

    def __str__(self) -> str:
        return (
            f"{self.measure}: positive from {self.threshold:.2f} "
            f"[{self.ci_low:.2f}, {self.ci_high:.2f}] on (by a logistic regression "
            f"from {self.logistic:.2f}), balanced accuracy {self.balanced_accuracy:.2f}, "
            f"AUC {self.auc:.2f} [{self.auc_low:.2f}, {self.auc_high:.2f}], {self.n} labels"
        )

    def save(self, path: str | Path) -> Path:
        """Write the calibration to a small JSON file, replacing one that is there."""
        file = Path(path)
        try:
            write_durably(
                file, json.dumps({"ragbench_calibration": SCHEMA, **asdict(self)}, indent=1) + "\n"
            )
        except OSError as exc:
            raise ConfigError(
                f"{file} cannot be written: {exc.strerror or exc}; name another file"
            ) from exc
        return file

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a file that `save` wrote.

        Raises:
            ConfigError: no such file, or it is not a calibration; with the reason.
        """
        file = Path(path)
        hint = "expected a file that `ragbench label` or Calibration.save wrote"
        saved = read_json(file, hint, error=ConfigError)
        version = saved.pop("ragbench_calibration", None) if isinstance(saved, dict) else None
        if version != SCHEMA:
            raise ConfigError(f"{file} is not a calibration of version {SCHEMA}; {hint}")
        try:
            calibration = TypeAdapter(cls).validate_python(saved)
            low, high = calibration.ci_low, calibration.ci_high
            is_finite = math.isfinite(low + high + calibration.intercept + calibration.slope)
            if not (is_finite and low <= calibration.threshold <= high):
                raise ValueError(f"the threshold is not in its interval [{low}, {high}]")
        except ValueError as exc:
            problem = " ".join(str(exc).split())
            raise ConfigError(f"{file} is damaged: {problem:.200}; {hint}") from exc
        return calibration


def calibrate_threshold(
    scores: Sequence[float] | Floats,
    labels: Sequence[bool] | Sequence[int] | npt.NDArray[Any],
    *,
    measure: str = "score",
    model: str = "",
    n_resamples: int = 300,
    seed: int = 0,
) -> Calibration:
    """Return the threshold of a score for one kind of text, from human labels.

    The threshold is the one of the best balanced accuracy, (sensitivity + specificity) / 2, among
    these labels, as the mean over bootstrap samples of the texts. Next to it is where a logistic
    regression of the labels on the scores crosses the rate of positive labels: more precise where
    the scores of both kinds are about normal (at 30 labels it loses 0.005 of balanced accuracy, the
    best one 0.009), far off where most scores are close to one end, as those of claim_support are
    (0.06 at any number of labels, the best one 0.03 at 30 and 0.003 at 200). The 95 % interval
    spans the percentile intervals of both; in simulations (50 experiments of 80 resamples, 17 to 80
    % positive) it covered the best threshold in 82 to 98 % (30 labels), 91 to 100 % (60) and 96 to
    100 % (200), for scores at one end in 68 %, 80 % and 98 % (`pytest -m simulation
    tests/metrics/test_score_calibration.py`). The rates by score, in bins of equal size, depend on
    neither.

    Args:
        scores: one finite number per text; a higher one should mean a positive label. labels: True
        or 1 where a person labels the text positive (supported, right, an attack), False or 0 where
        not.
            The texts must be drawn at random from those that the score will be used on, as
            `ragbench label` does.
        measure: the name of the score, such as "claim_support"; `evaluate` uses the calibration for
        that measure. model: the model of the scores where there are several, such as "minilm".
        n_resamples: of the bootstrap. seed: of the bootstrap.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.random(60) < 0.5
    >>> scores = np.clip(rng.normal(np.where(labels, 0.8, 0.6), 0.1), 0, 1)
    >>> found = calibrate_threshold(scores, labels, measure="claim_support", n_resamples=100)
    >>> round(found.threshold, 2), found.n
    (0.7, 60)

    Raises:
        DataError: labels and scores do not fit, fewer than 30 labels or 5 of a kind, a score that
        is not finite, or
            scores that do not separate the labels.
    """
    from sklearn import config_context  # type: ignore[import-untyped,unused-ignore]

    values, right = _checked(scores, labels)
    auc = roc_auc(right, values)
    auc_low, auc_high = auc_interval(right, values)
    intercept, slope = _fit(values, right)
    if not auc_low > 0.5 or slope <= 0:
        raise DataError(
            f"{measure} does not separate these {len(right)} labels: AUC {auc:.2f} "
            f"[{auc_low:.2f}, {auc_high:.2f}], where 0.5 is guessing. Label more texts, or use "
            "another measure or a judge"
        )
    samples = _resamples(right, n_resamples, seed)
    best = [_best_threshold(values[rows], right[rows]) for rows in samples]
    logistic, threshold = _logistic_threshold(values, right), float(np.mean(best))
    with config_context(
        skip_parameter_validation=True, assume_finite=True
    ):  # half the time of a fit
        drawn = [_logistic_threshold(values[rows], right[rows]) for rows in samples]
    limits = np.nanpercentile([best, drawn], [2.5, 97.5], axis=1)
    low, high = float(limits[0].min()), float(limits[1].max())
    return Calibration(
        measure=measure,
        threshold=round(threshold, 6),
        logistic=round(logistic, 6),
        ci_low=round(min(low, threshold, logistic), 6),
        ci_high=round(max(high, threshold, logistic), 6),
        n=len(right),
        n_positive=int(right.sum()),
        auc=round(auc, 6),
        auc_low=round(auc_low, 6),
        auc_high=round(auc_high, 6),
        balanced_accuracy=round(_held_out_accuracy(values, right), 6),
        intercept=intercept,
        slope=slope,
        bins=_bins(values, right),
        model=model,
        version=score_version(measure, model),
    )


def score_version(measure: str, model: str = "") -> str:
    """Return a digest of the coefficients by which this version of ragbench computes a score, 12
    hex digits.

    For claim_support by its built-in models and injection_score by its own; "" for all others,
    which are not fitted.

    >>> len(score_version("claim_support", "minilm")), score_version("semantic_similarity", "minilm")
    (12, '')
    """
    if measure == "claim_support" and model in SUPPORT_MODELS:
        return digest(json.dumps(coefficients()[model]))[:12]
    if measure == "injection_score" and not model:
        return digest(HEAD.read_bytes())[:12]
    return ""


def _checked(scores: Any, labels: Any) -> tuple[Floats, Bools]:
    try:
        values, right = np.asarray(scores, dtype=float), np.asarray(labels, dtype=float)
    except (TypeError, ValueError) as exc:
        raise DataError(
            "scores must be numbers and labels True or False (1 or 0), one of each per text"
        ) from exc
    if values.ndim != 1 or values.shape != right.shape:
        raise DataError(
            f"there are {values.size} scores and {right.size} labels; expected one of each per text"
        )
    for what, column, fits in (
        ("score", values, np.isfinite(values)),
        ("label", right, np.isin(right, (0.0, 1.0))),
    ):
        if not fits.all():
            at = int(np.argmin(fits))
            raise DataError(
                f"{what} {at} is {column[at]:g}; expected finite scores and labels that are True "
                "or False (1 or 0); leave texts without a score out"
            )
    n, positive = len(right), int(right.sum())
    if n < MIN_LABELS or min(positive, n - positive) < MIN_OF_A_KIND:
        raise DataError(
            f"there are {n} labels, {positive} positive and {n - positive} negative; expected at "
            f"least {MIN_LABELS}, with {MIN_OF_A_KIND} of each kind. Label more texts; `ragbench "
            "label` adds them to a sheet that exists"
        )
    return values, right.astype(bool)


def _fit(values: Floats, right: Bools) -> tuple[float, float]:
    """Return intercept and slope of the log odds of a positive label."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped,unused-ignore]

    center, spread = float(values.mean()), float(values.std()) or 1.0
    column = ((values - center) / spread).reshape(-1, 1)
    model = LogisticRegression(C=_WEAK_RIDGE, solver="newton-cholesky").fit(column, right)
    slope = float(model.coef_[0, 0]) / spread
    return float(model.intercept_[0]) - slope * center, slope


def _resamples(right: Bools, n: int, seed: int) -> list[Ints]:
    """Return the rows of `n` bootstrap samples; one that has labels of one kind only is drawn
    again.
    """
    rng = np.random.default_rng(seed)
    samples: list[Ints] = []
    while len(samples) < n:
        rows = rng.integers(0, len(right), len(right))
        if 0 < right[rows].sum() < len(rows):
            samples.append(rows)
    return samples


def _best_threshold(values: Floats, right: Bools) -> float:
    """Return the middle one of the thresholds with the best balanced accuracy, half-way between
    scores.
    """
    scores, code = np.unique(values, return_inverse=True)
    positive, negative = np.bincount(code, right), np.bincount(code, ~right)
    # of a threshold just above each score but the last: the positive labels lost, the negative ones
    # gained
    gain = np.cumsum(negative / negative.sum() - positive / positive.sum())[:-1]
    best = np.flatnonzero(gain >= gain.max(initial=-1.0) - 1e-12)
    return (
        float(np.median((scores[best] + scores[best + 1]) / 2)) if len(best) else float(scores[0])
    )


def _logistic_threshold(values: Floats, right: Bools) -> float:
    """Return where the regression crosses the rate of positive labels, within the scores; NaN if it
    falls.
    """
    intercept, slope = _fit(values, right)
    rate = float(right.mean())
    crossing = (math.log(rate / (1 - rate)) - intercept) / slope if slope > 0 else math.nan
    return float(np.clip(crossing, values.min(), values.max()))


def _held_out_accuracy(values: Floats, right: Bools) -> float:
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped,unused-ignore]

    called = np.zeros(len(right), dtype=bool)
    for fitted, tested in StratifiedKFold(5, shuffle=True, random_state=0).split(
        values.reshape(-1, 1), right
    ):
        samples = (fitted[rows] for rows in _resamples(right[fitted], _HELD_OUT_RESAMPLES, seed=0))
        best = [_best_threshold(values[rows], right[rows]) for rows in samples]
        called[tested] = values[tested] >= np.mean(best)
    return float(balanced_accuracy_score(right, called))


def _bins(values: Floats, right: Bools) -> tuple[ScoreBin, ...]:
    """Return bins of about equal size, in the order of scores; equal scores are in one bin."""
    from scipy.stats import rankdata

    count = min(_MAX_BINS, len(values) // _BIN)
    codes = (rankdata(values, method="min") - 1) * count // len(values)
    bins = []
    for code in np.unique(codes):
        members = codes == code
        n, positive = int(members.sum()), int(right[members].sum())
        low, high = rate_interval(positive, n)
        inside = values[members]
        bins.append(
            ScoreBin(float(inside.min()), float(inside.max()), n, positive, positive / n, low, high)
        )
    return tuple(bins)
