"""The health of a test set: can it distinguish configurations?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import matrix_of

MIN_CONFIGURATIONS = 3
"""A correlation across fewer configurations is always +1 or -1."""


@dataclass(frozen=True, eq=False)
class DatasetHealth:
    """The result of `dataset_health`: a table of the questions, hardest first, and the findings in
    sentences.

    Columns: query_id; difficulty: 1 - mean over the configurations, in [0, 1] (where lower is
    better: the mean); spread: largest minus smallest value; moves: whether it is more than 1e-9;
    discrimination: item-rest correlation in [-1, 1], that of this question's values with the
    configurations' means over all other questions (Lord & Novick 1968). Around 0 it is noise; a
    clearly negative one is worth a look: better configurations do worse here, often due to a wrong
    label. pd.NA with fewer than three configurations or without any movement; with a dozen, chance
    alone reaches +-0.6.
    """

    questions: pd.DataFrame
    sentences: list[str]


def dataset_health(scores_by_name: Mapping[str, pd.DataFrame], *, measure: str) -> DatasetHealth:
    """Describe how well the questions of a test set distinguish configurations, as in the analysis
    of exam questions.

    Args:
        scores_by_name: name -> tidy scores of the same queries.
        measure: the measure, in [0, 1].

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": ["q1", "q2", "q3"], "measure": "RR", "value": values})
    >>> runs = {"a": scores(1, 0, 0.2), "b": scores(1, 0.5, 0.4), "c": scores(1, 1, 0.1)}
    >>> health = dataset_health(runs, measure="RR")
    >>> health.sentences[0]
    '1 of 3 questions never move: all 3 configurations score the same on them (1 at the top, 0 at the bottom). They do not distinguish any two of these.'
    >>> health.questions.round(3)
      query_id  difficulty  spread  discrimination  moves
    0       q3       0.767     0.3          -0.327   True
    1       q2       0.500     1.0          -0.327   True
    2       q1       0.000     0.0            <NA>  False

    Raises:
        ConfigError: fewer than two configurations, or a measure that is not there.
        ComparisonError: other queries, or none that all have scored.
        DataError: values beyond [0, 1].
    """  # noqa: E501
    measure, matrix = matrix_of(scores_by_name, measure)
    values = matrix.to_numpy()
    if values.min() < -1e-9 or values.max() > 1 + 1e-9:
        raise DataError(
            f"{measure}: values from {values.min():g} to {values.max():g}; difficulty needs [0, 1]"
        )
    mean, spread = values.mean(axis=1), np.ptp(values, axis=1)
    n, k = values.shape
    discrimination = np.full(n, math.nan)
    if k >= MIN_CONFIGURATIONS and n > 1:  # item-rest correlations
        rest = values.sum(axis=0) - values
        item, others = (side - side.mean(axis=1, keepdims=True) for side in (values, rest))
        norms = np.sqrt((item**2).sum(axis=1) * (others**2).sum(axis=1))
        norms[norms <= 1e-12] = math.nan
        discrimination = (item * others).sum(axis=1) / norms
    table = pd.DataFrame(
        {
            "query_id": matrix.index,
            "difficulty": 1 - mean if higher_is_better(measure) else mean,
            "spread": spread,
            "discrimination": pd.array(discrimination, dtype="Float64"),
            "moves": spread > 1e-9,
        }
    )
    table = table.sort_values(
        ["difficulty", "query_id"], ascending=[False, True], ignore_index=True
    )
    return DatasetHealth(table, _sentences(table, k))


def _sentences(table: pd.DataFrame, configurations: int) -> list[str]:
    still = table.loc[~table["moves"], "difficulty"]
    sentences = [
        f"{len(still)} of {len(table)} questions never move: all {configurations} configurations "
        f"score the same on them ({(still <= 1e-9).sum()} at the top, "
        f"{(still >= 1 - 1e-9).sum()} at the bottom). They do not distinguish any two of these."
    ]
    against = table[table["discrimination"].fillna(0.0) < -0.5]
    if len(against):
        sentences.append(
            f"{len(against)} run against the rest (discrimination below -0.5): read them, their "
            f"labels may be wrong; the first "
            f"are {', '.join(map(str, against['query_id'].head(5)))}."
        )
    return sentences
