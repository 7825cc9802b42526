"""Student's t of means, in which values that resemble their neighbours in the file count as fewer."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Floats
from ragbench.statistics.autocorrelation import n_independent_of_rows
from ragbench.statistics.columns import TIE, blocks_of_rows, deviations_of_rows, mean


class Errors(NamedTuple):
    """The standard error of the mean of each column, and its degrees of freedom; NaN for fewer than two
    values. Both count values that resemble their neighbours as fewer.
    """

    sizes: Floats
    degrees_of_freedom: Floats


def errors_of_means(columns: Sequence[Floats]) -> Errors:
    """Compute the standard error of the mean of each column."""
    sizes = np.full(len(columns), math.nan)
    degrees_of_freedom = np.full(len(columns), math.nan)
    for block, rows in blocks_of_rows(columns):
        if rows.shape[1] < 2:
            continue
        n = n_independent_of_rows(rows)
        sizes[block] = deviations_of_rows(rows) / np.sqrt(n)
        degrees_of_freedom[block] = n - 1
    return Errors(sizes, degrees_of_freedom)


def students_half_widths(errors: Errors, alpha: float) -> Floats:
    """Compute the half width of Student's 1 - alpha interval of the mean of each column; NaN for equal
    values, and for fewer than two.
    """
    from scipy.special import stdtrit

    half_widths: Floats = -stdtrit(errors.degrees_of_freedom, alpha / 2) * errors.sizes
    return np.where(errors.sizes > TIE, half_widths, math.nan)


def students_p_values(columns: Sequence[Floats]) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each column by Student's t; for equal values 0,
    or 1 if they are 0; NaN below two values.

    >>> students_p_values([np.array([0.1, 0.3, 0.2]), np.full(3, 0.1), np.zeros(3)]).round(3)
    array([0.074, 0.   , 1.   ])
    """
    means = np.array([mean(column) for column in columns])
    return p_values_by_student(means, errors_of_means(columns))


def p_values_by_student(means: Floats, errors: Errors) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each mean by Student's t; for equal values 0, or 1
    if they are 0; NaN below two values.
    """
    from scipy.special import stdtr

    p_values = np.full(len(means), math.nan)
    are_equal = errors.sizes <= TIE
    p_values[are_equal] = np.where(np.abs(means[are_equal]) > TIE, 0.0, 1.0)
    vary = errors.sizes > TIE
    means_in_errors = np.abs(means[vary]) / errors.sizes[vary]
    p_values[vary] = 2 * stdtr(errors.degrees_of_freedom[vary], -means_in_errors)
    return p_values
