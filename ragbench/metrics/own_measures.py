"""Calls a user's measure for one question: which of its values and errors are accepted; `registry`
declares and checks such measures.
"""

import math
from typing import Any

from ragbench.errors import DataError
from ragbench.extension import returned_number
from ragbench.registry import Measure


def own_value(measure: Measure, query_id: str, *arguments: Any) -> float | None:
    """Return the value of a user's measure; None where there is nothing to score.

    Raises:
        DataError: the function fails, or returns neither a number within the measure's bounds nor
            None.
    """
    function: Any = measure.function
    try:
        value = function(*arguments)
    except Exception as exc:
        # a function that takes the answer for its text, as in len(answer)
        hint = "; answer.text is its text" if "'Answer'" in str(exc) else ""
        raise DataError(
            f"{measure.name} failed at query {query_id!r}: {type(exc).__name__}: {exc}{hint}"
        ) from exc
    if value is None:
        return None
    low, high = measure.bounds
    number = returned_number(value)
    is_below = low is not None and number < low
    is_above = high is not None and number > high
    if is_below or is_above or not math.isfinite(number):
        expected = "a number"
        if low is not None and high is not None:
            expected = f"a number from {low:g} to {high:g}"
        elif low is not None:
            expected = f"a number of {low:g} or more"
        elif high is not None:
            expected = f"a number of {high:g} or less"
        raise DataError(
            f"{measure.name} is {value!r} at query {query_id!r}; expected {expected}, or None where "
            "there is nothing to score (bounds=(0, None) allows any number from 0)"
        )
    return number
