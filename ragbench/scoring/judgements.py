"""Judgements -> tidy scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.types import Judgement

if TYPE_CHECKING:
    import pandas as pd


def score_judgements(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Judgements as tidy scores: columns query_id, measure, value; by measure, then in the order of the judgements.

    A measure is the criterion after "llm_", so that judged and computed measures never share a name. Values are in
    [0, 1]; unscored judgements are NaN.

    >>> score_judgements([Judgement("q1", "correctness", 1.0), Judgement("q2", "correctness", None)])
      query_id          measure  value
    0       q1  llm_correctness    1.0
    1       q2  llm_correctness    NaN

    Raises:
        DataError: a query has several judgements of one criterion, or a value is outside [0, 1].
    """
    import pandas as pd

    criteria = list(dict.fromkeys(judgement.criterion for judgement in judgements))
    ordered = sorted(judgements, key=lambda judgement: criteria.index(judgement.criterion))
    seen = set()
    for judgement in ordered:
        pair = (judgement.query_id, judgement.criterion)
        if pair in seen:
            raise DataError(
                f"query {pair[0]!r} has several judgements of {pair[1]}; score the judgements of one system at a time, "
                "and repeated verdicts as one judgement with n_samples"
            )
        seen.add(pair)
        if judgement.value is not None and not 0 <= judgement.value <= 1:
            raise DataError(f"query {pair[0]!r}: {pair[1]} is {judgement.value}; expected a value in [0, 1], or None")
    return pd.DataFrame(
        {
            "query_id": pd.Series([judgement.query_id for judgement in ordered], dtype=str),
            "measure": pd.Series([f"llm_{judgement.criterion}" for judgement in ordered], dtype=str),
            "value": pd.Series([judgement.value for judgement in ordered], dtype=float),
        }
    )


def judgement_states(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Counts of the judgements of each criterion by state: columns criterion, scored, and each other state that occurs.

    >>> lost = Judgement("q2", "correctness", None, state="abstained")
    >>> judgement_states([Judgement("q1", "correctness", 1.0), lost])
         criterion  scored  abstained
    0  correctness       1          1
    """
    import pandas as pd

    states = list(dict.fromkeys(["scored", *(judgement.state for judgement in judgements)]))
    counts: dict[str, Counter[str]] = {}
    for judgement in judgements:
        counts.setdefault(judgement.criterion, Counter())[judgement.state] += 1
    rows = [[criterion, *(own[state] for state in states)] for criterion, own in counts.items()]
    return pd.DataFrame(rows, columns=["criterion", *states])
