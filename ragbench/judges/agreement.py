"""Agreement of two sets of judgements of the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
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
    - difference: the mean absolute difference, in [0, 1]; largest: the largest one.
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
    values = [_by_pair(judgements) for judgements in (first, second)]
    common = [pair for pair in values[0] if pair in values[1]]
    if not common:
        raise DataError(
            "the two sets of judgements have no query and criterion in common; nothing can be "
            "compared"
        )
    rows = []
    for criterion in dict.fromkeys(name for _, name in common):
        pairs = [(values[0][pair], values[1][pair]) for pair in common if pair[1] == criterion]
        scored = np.array(
            [(a, b) for a, b in pairs if a is not None and b is not None], dtype=float
        ).reshape(-1, 2)
        row = {"criterion": criterion, "n": len(pairs), "n_both": len(scored)}
        if len(scored):
            gaps = np.abs(scored[:, 0] - scored[:, 1])
            row |= {"mean_first": scored[:, 0].mean(), "mean_second": scored[:, 1].mean()}
            row |= {"same": (gaps <= 1e-9).mean(), "difference": gaps.mean(), "largest": gaps.max()}
            row |= {"kappa": _kappa(scored[:, 0], scored[:, 1])}
        rows.append(row)
    columns = [
        "criterion",
        "n",
        "n_both",
        "mean_first",
        "mean_second",
        "same",
        "difference",
        "largest",
        "kappa",
    ]
    return pd.DataFrame(rows, columns=columns)


def spread(answers: Sequence[_T], n: int) -> list[_T]:
    """`n` of the answers, evenly spread over the list; all where there are fewer.

    For a second judgement of a sample: the first ones of a dataset are often all of one kind.

    >>> from ragbench.types import Answer
    >>> [answer.query_id for answer in spread([Answer(f"q{i}", "") for i in range(7)], 3)]
    ['q0', 'q2', 'q4']
    """
    return [answers[i * len(answers) // n] for i in range(n)] if n < len(answers) else list(answers)


def _by_pair(judgements: Sequence[Judgement]) -> dict[tuple[str, str], float | None]:
    values: dict[tuple[str, str], float | None] = {}
    for judgement in judgements:
        pair = (judgement.query_id, judgement.criterion)
        if pair in values:
            raise DataError(
                f"query {pair[0]!r} has several judgements of {pair[1]}; compare one system's "
                "judgements at a time"
            )
        values[pair] = judgement.value
    return values


def _kappa(first: np.ndarray, second: np.ndarray) -> float:
    if not np.isin([first, second], (0, 1)).all():
        return float("nan")
    by_chance = first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean())
    return (
        float(((first == second).mean() - by_chance) / (1 - by_chance))
        if by_chance < 1
        else float("nan")
    )
