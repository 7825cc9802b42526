"""Measures of a user: tidy scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.registry import Measure
from ragbench.scoring.answers import answers_by_query
from ragbench.scoring.context import context_texts

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Answer, Chunk, Dataset


def score_own(
    dataset: Dataset, answers: Sequence[Answer], measures: Sequence[Measure], chunks: Sequence[Chunk] = ()
) -> pd.DataFrame:
    """Score answers by measures of a user: columns query_id, measure, value; by measure, then in the order of cases.

    Unscored (NaN) is a question without an answer, one whose answer failed, and one for which the function returns
    None.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> words = Measure("answer_words", lambda case, answer, contexts: len(answer.text.split()), bounds=(0, None))
    >>> score_own(Dataset("mine", "test", {}, [Case("q", "?")], {}), [Answer("q", "In May.")], [words])
      query_id       measure  value
    0        q  answer_words    2.0

    Raises:
        DataError: a function fails, or returns something else than a number within its bounds or None.
    """
    import pandas as pd

    given = {one: answer for one, answer in answers_by_query(dataset, answers).items() if not answer.failed}
    texts = context_texts([*given.values()], chunks)
    rows = []
    for measure in measures:
        for case in dataset.cases:
            value = math.nan
            if measure.function is not None and case.query_id in given:
                try:
                    found = measure.function(case, given[case.query_id], texts[case.query_id])
                except Exception as exc:
                    raise DataError(
                        f"{measure.name} failed at query {case.query_id!r}: {type(exc).__name__}: {exc}"
                    ) from exc
                value = math.nan if found is None else _checked(measure, case.query_id, found)
            rows.append((case.query_id, measure.name, value))
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": float})


def _checked(measure: Measure, query_id: str, found: object) -> float:
    low, high = measure.bounds
    try:
        value = float(found)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.inf
    if math.isinf(value) or (low is not None and value < low) or (high is not None and value > high):
        raise DataError(
            f"{measure.name} is {found!r} at query {query_id!r}; expected a number within {measure.bounds}, or None"
        )
    return value
