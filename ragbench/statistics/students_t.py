"""Student's t of means, in which values that resemble their neighbours in the file count as fewer."""

import math
from collections.abc import Sequence

import numpy as np

from ragbench.array_types import Floats
from ragbench.statistics.autocorrelation import n_independent
from ragbench.statistics.columns import TIE, deviation, mean


def error_of_mean(values: Floats) -> tuple[float, float]:
    """Return the standard error of the mean of two or more values, and its degrees of freedom; both
    count values that resemble each other as fewer.
    """
    n = n_independent(values)
    return deviation(values) / math.sqrt(n), n - 1


def errors_of_means(columns: Sequence[Floats]) -> list[tuple[float, float]]:
    """Return `error_of_mean` of each column; (NaN, NaN) for fewer than two values."""
    errors = []
    for column in columns:
        errors.append(error_of_mean(column) if len(column) > 1 else (math.nan, math.nan))
    return errors


def students_half_widths(errors: Sequence[tuple[float, float]], alpha: float) -> Floats:
    """Compute the half width of Student's 1 - alpha interval of the mean of each column; NaN for equal
    values, and for fewer than two.

    `errors` has the standard error of each mean, and its degrees of freedom.
    """
    from scipy.special import stdtrit

    half_widths = np.full(len(errors), math.nan)
    for row, (error, degrees_of_freedom) in enumerate(errors):
        if error > TIE:
            half_widths[row] = -stdtrit(degrees_of_freedom, alpha / 2) * error
    return half_widths


def students_p_values(columns: Sequence[Floats]) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each column by Student's t; for equal values 0,
    or 1 if they are 0; NaN below two values.

    >>> students_p_values([np.array([0.1, 0.3, 0.2]), np.full(3, 0.1), np.zeros(3)]).round(3)
    array([0.074, 0.   , 1.   ])
    """
    return p_values_by_student(columns, errors_of_means(columns))


def p_values_by_student(columns: Sequence[Floats], errors: Sequence[tuple[float, float]]) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each column by Student's t; for equal values 0,
    or 1 if they are 0; NaN below two values.

    `errors` has the standard error of each mean, and its degrees of freedom.
    """
    from scipy.special import stdtr

    p_values = np.full(len(columns), math.nan)
    for row, (column, (error, degrees_of_freedom)) in enumerate(zip(columns, errors, strict=True)):
        if len(column) < 2:
            continue
        if error > TIE:
            p_values[row] = 2 * stdtr(degrees_of_freedom, -abs(mean(column)) / error)
        else:
            p_values[row] = 0.0 if abs(mean(column)) > TIE else 1.0
    return p_values
