"""p-values of several tests, adjusted for their number, and how a p-value is printed.

Not by statsmodels' multipletests: each call of it collects the garbage of the whole process, which costs more than
everything else in a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

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


def p_text(p: float | None, equals: str = "") -> str:
    """A p-value as every table, report and sentence prints it, never as 0; "–" where there is none.

    >>> p_text(0.0312), p_text(0.0312, "= "), p_text(0.00002), p_text(None), p_text(0.9996)
    ('0.031', '= 0.031', '< 0.001', '–', '1.000')
    """
    import pandas as pd

    if p is None or pd.isna(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def rounded(table: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """A table of statistics to look at: numbers rounded, p-values (columns p_...) as `p_text` has them.

    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"difference": [0.12345], "p_value": [0.00001]}))
       difference  p_value
    0       0.123  < 0.001
    """
    shown = table.round(digits)
    for name in table.columns:
        if str(name).startswith("p_"):
            shown[name] = [p_text(p) for p in table[name]]
    return shown
