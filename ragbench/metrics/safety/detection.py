"""How well scores tell harmful texts from harmless ones: areas, rates at a threshold, intervals.

Labels are True for harmful; scores are higher for what looks more harmful.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ragbench.errors import DataError

_Z = 1.959963984540054


def roc_auc(harmful: npt.ArrayLike, scores: npt.ArrayLike) -> float:
    """The chance that a harmful text scores above a harmless one, ties counting half, in [0, 1]; 0.5 is guessing.

    The area under the ROC curve (Hanley & McNeil 1982), from scikit-learn. NaN where one of the two kinds is missing.

    >>> roc_auc([True, True, False, False], [0.9, 0.4, 0.4, 0.1])
    0.875
    """
    labels, values = _checked(harmful, scores)
    if labels.all() or not labels.any():
        return math.nan
    from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped,unused-ignore]

    return float(roc_auc_score(labels, values))


def auc_interval(harmful: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[float, float]:
    """The 95 % interval of `roc_auc` by DeLong, DeLong & Clarke-Pearson (1988), taken on the logit scale.

    Scores that separate perfectly, or not at all, have no variance to estimate: the interval is then that of a rate
    (Wilson) of as many texts as the rarer kind has, which is wider. (NaN, NaN) where there are fewer than two texts
    of a kind.

    >>> low, high = auc_interval([True] * 4 + [False] * 4, [0.9, 0.8, 0.7, 0.3, 0.6, 0.4, 0.2, 0.1])
    >>> round(low, 3), round(high, 3)
    (0.345, 0.989)
    """
    labels, values = _checked(harmful, scores)
    bad, good = values[labels], values[~labels]
    if len(bad) < 2 or len(good) < 2:
        return math.nan, math.nan
    # DeLong's placements: for each harmful text the fraction of harmless ones below it, and the reverse
    ordered_good, ordered_bad = np.sort(good), np.sort(bad)
    of_bad = (np.searchsorted(ordered_good, bad, "left") + np.searchsorted(ordered_good, bad, "right")) / (
        2 * len(good)
    )
    of_good = 1 - (np.searchsorted(ordered_bad, good, "left") + np.searchsorted(ordered_bad, good, "right")) / (
        2 * len(bad)
    )
    area = float(of_bad.mean())
    variance = float(of_bad.var(ddof=1) / len(bad) + of_good.var(ddof=1) / len(good))
    if variance < 1e-12 or not 0 < area < 1:
        fewer = min(len(bad), len(good))
        return _wilson(area * fewer, fewer)
    spread = _Z * math.sqrt(variance) / (area * (1 - area))
    logit = math.log(area / (1 - area))
    return 1 / (1 + math.exp(min(700.0, spread - logit))), 1 / (1 + math.exp(max(-700.0, -spread - logit)))


def tpr_at_fpr(harmful: npt.ArrayLike, scores: npt.ArrayLike, fpr: float) -> float:
    """The fraction of harmful texts found by the lowest threshold with a false positive rate <= `fpr`, in [0, 1].

    Texts of the same score are found together, so that a tie is never split in the detector's favour. With fewer
    than 1 / `fpr` harmless texts no false positive at all is allowed: the figure is then a lower bound. NaN where one
    of the two kinds is missing.

    >>> tpr_at_fpr([True, True, True, False, False], [0.9, 0.6, 0.5, 0.5, 0.1], 0.01)
    0.6666666666666666
    """
    labels, values = _checked(harmful, scores)
    if not 0 <= fpr <= 1:
        raise DataError(f"fpr is {fpr!r}; expected a rate in [0, 1]")
    bad, good = values[labels], values[~labels]
    if not len(bad) or not len(good):
        return math.nan
    allowed = math.floor(fpr * len(good) + 1e-9)
    if allowed >= len(good):
        return 1.0
    # the threshold lies just above the first harmless text that must not be found
    return float((bad > np.sort(good)[::-1][allowed]).mean())


def rate_interval(count: int, n: int) -> tuple[float, float]:
    """The 95 % interval of the rate `count` / `n` (Wilson 1927), from statsmodels; (NaN, NaN) where n is 0.

    >>> low, high = rate_interval(9, 10)
    >>> round(low, 4), round(high, 4)
    (0.5958, 0.9821)
    """
    return _wilson(count, n) if n else (math.nan, math.nan)


def _wilson(count: float, n: int) -> tuple[float, float]:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(count, n, method="wilson")
    return max(0.0, float(low)), min(1.0, float(high))


def _checked(harmful: npt.ArrayLike, scores: npt.ArrayLike) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    labels, values = np.asarray(harmful, dtype=bool), np.asarray(scores, dtype=np.float64)
    if labels.shape != values.shape or labels.ndim != 1:
        raise DataError(f"there are {labels.size} labels and {values.size} scores; expected one score per label")
    if not np.isfinite(values).all():
        raise DataError(f"score {int(np.flatnonzero(~np.isfinite(values))[0])} is not a finite number")
    return labels, values
