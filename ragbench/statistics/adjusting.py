"""p-values of several tests, adjusted for their number.

Not by statsmodels' multipletests: each call of it collects the garbage of the whole process, which costs more than
everything else in a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.floating]

CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "fdr_by", "none")


def adjusted_p_values(p_values: Sequence[float] | Floats, correction: str = "holm") -> Floats:
    """Adjusted p-values, in the order given; what is NaN stays NaN and does not count as a test.

    "holm" (Holm 1979): the i-th smallest of n is multiplied by n - i + 1, and none is smaller than one before it;
    "bonferroni": each by n; "fdr_bh", "fdr_by": Benjamini & Hochberg 1995, Benjamini & Yekutieli 2001, by scipy;
    "none". At most 1.

    >>> adjusted_p_values([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    tested = ~np.isnan(values)
    own, n = values[tested], int(tested.sum())
    if correction == "none" or not n:
        return values
    if correction == "holm":
        order = np.argsort(own, kind="stable")
        adjusted = np.empty(n)
        adjusted[order] = np.maximum.accumulate(own[order] * np.arange(n, 0, -1))
    elif correction == "bonferroni":
        adjusted = own * n
    else:
        from scipy.stats import false_discovery_control

        adjusted = false_discovery_control(own, method=correction.removeprefix("fdr_"))
    result = values.copy()
    result[tested] = np.minimum(adjusted, 1.0)
    return result
