"""Agreement of two sets of judgements of the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pandas as pd

from ragbench.errors import DataError
from ragbench.types import Judgement

_T = TypeVar("_T")


def agreement(first: Sequence[Judgement], second: Sequence[Judgement]) -> pd.DataFrame:
    """Compare two sets of judgements of the same answers, such as criteria judged together and one
    by one.

    Pairs are formed by query and criterion. Columns, one row per criterion in the order of `first`:

    - n: pairs; n_both: pairs that are scored on both sides, the basis of all that follows.
    - mean_first, mean_second: the means.
    - same: the fraction of pairs with equal values (to 1e-9), in [0, 1].
    - difference: the mean absolute difference, in [0, 1].
    - kappa: Cohen's kappa, 1 for full agreement and 0 for chance agreement, where all values are 0
      or 1 and both occur; otherwise NaN.

    >>> a = [Judgement("q1", "correctness", 1.0), Judgement("q2", "correctness", 0.0)]
    >>> b = [Judgement("q1", "correctness", 1.0), Judgement("q2", "correctness", None)]
    >>> agreement(a, b)[["criterion", "n", "n_both", "same"]]
         criterion  n  n_both  same
    0  correctness  2       1   1.0

    Raises:
        DataError: a query has several judgements of one criterion, or the two sets have none in
        common.
    """
    pairs = pd.concat(
        {"first": _values(first), "second": _values(second)}, axis="columns", join="inner"
    )
    if pairs.empty:
        raise DataError(
            "the two sets of judgements have no query and criterion in common; nothing can be "
            "compared"
        )
    criteria = pairs.index.get_level_values("criterion")
    rows = [_row(name, pairs[criteria == name]) for name in criteria.unique()]
    return pd.DataFrame(rows)


def spread(answers: Sequence[_T], n: int) -> list[_T]:
    """Return `n` of the answers, evenly spread over the list; all where there are fewer.

    For a second judgement of a sample: the first ones of a dataset are often all of one kind.

    >>> from ragbench.types import Answer
    >>> [answer.query_id for answer in spread([Answer(f"q{i}", "") for i in range(7)], 3)]
    ['q0', 'q2', 'q4']
    """
    return [answers[i * len(answers) // n] for i in range(n)] if n < len(answers) else list(answers)


def _values(judgements: Sequence[Judgement]) -> pd.Series:
    ids, criteria = (
        [judgement.query_id for judgement in judgements],
        [judgement.criterion for judgement in judgements],
    )
    index = pd.MultiIndex.from_arrays([ids, criteria], names=["query_id", "criterion"])
    if index.has_duplicates:
        query_id, criterion = index[index.duplicated()][0]
        raise DataError(
            f"query {query_id!r} has several judgements of {criterion}; compare one system's "
            "judgements at a time"
        )
    return pd.Series([judgement.value for judgement in judgements], index, dtype=float)


def _row(criterion: str, pairs: pd.DataFrame) -> dict[str, object]:
    both = pairs.dropna()
    a, b = both["first"], both["second"]
    gaps = (a - b).abs()
    same = (gaps <= 1e-9).mean()
    by_chance = a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
    is_binary = both.isin([0, 1]).all(axis=None) and by_chance < 1
    return {
        "criterion": criterion,
        "n": len(pairs),
        "n_both": len(both),
        "mean_first": a.mean(),
        "mean_second": b.mean(),
        "same": same,
        "difference": gaps.mean(),
        "kappa": (same - by_chance) / (1 - by_chance) if is_binary else float("nan"),
    }
