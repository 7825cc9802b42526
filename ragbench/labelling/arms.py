"""Two configurations question by question: what judges and heuristics made of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import ConfigError, DataError, check_known
from ragbench.evaluation import Result
from ragbench.evaluation.results import ANSWER_MEASURES
from ragbench.statistics.columns import Floats, by_measure
from ragbench.types import Answer, Judgement


class Arms(NamedTuple):
    """The questions of two configurations, and their values by each of several judges (questions
    down, judges across; NaN = unscored).

    `silent` are answers, first and second, that need no label because there is none: failed,
    empty, or an abstention; people's verdict on them is 0. `alike` are questions that both answer
    with the same text, so that their difference is 0.
    """

    names: tuple[str, str]
    queries: pd.Index
    judges: tuple[str, ...]
    first: Floats
    second: Floats
    silent: npt.NDArray[np.bool_]
    alike: npt.NDArray[np.bool_]

    @property
    def difference(self) -> Floats:
        """Return first - second of each judge."""
        return self.first - self.second

    @property
    def sort_keys(self) -> list[Floats]:
        """Return what a sample is spread over: the judges' difference, then their level."""
        sides = [np.nan_to_num(side).sum(axis=1) for side in (self.first, self.second)]
        return [sides[0] - sides[1], sides[0] + sides[1]]


def silent_answer(answer: Answer) -> bool:
    """Return True if there is nothing that people could label."""
    return answer.failed or answer.abstained or not answer.text.strip()


def arms_of(
    results: Mapping[str, Any] | Sequence[Result],
    criterion: str = "correctness",
    *,
    arms: Sequence[str] = (),
    judges: Sequence[str] = (),
) -> Arms:
    """Pair two results, tables of scores or lists of judgements by question.

    Args:
        results: as for `trust`.
        criterion: what people judge, or a measure that they decide.
        arms: the two names; () means the only two.
        judges: measures that both have; () means the judge of the criterion, the measure of that
            name, and for correctness the similarity to the reference answer.

    Questions that none of the judges has scored in either are left out.

    Raises:
        ConfigError: not two arms, or a judge that one of them lacks.
        DataError: no question in common.
    """
    by_name = results if isinstance(results, Mapping) else {one.name: one for one in results}
    names = tuple(arms) or tuple(by_name)
    check_known("configuration", by_name, *names)
    if len(set(names)) != 2:
        raise ConfigError(
            f"{len(names)} configurations, {', '.join(names)}; name the two to compare as arms"
        )
    tables = [_table(by_name[name], criterion, name) for name in names]
    usual = (f"llm_{criterion}", criterion, *ANSWER_MEASURES[2:] * (criterion == "correctness"))
    shared = [name for name in tables[0] if name in tables[1]]
    check_known("judge", shared, *judges)
    chosen = tuple(judges) or tuple(name for name in usual if name in shared)
    first, second = (
        pd.DataFrame({name: table[name] for name in chosen or shared}, dtype=float)
        for table in tables
    )
    queries = first.index.intersection(second.index, sort=False)
    first, second = first.loc[queries], second.loc[queries]
    texts = [
        {answer.query_id: "" if silent_answer(answer) else answer.text.strip() for answer in one}
        for one in (getattr(by_name[name], "answers", ()) for name in names)
    ]
    scored = (first.notna() | second.notna()).any(axis=1)
    if by_documents := criterion == "faithfulness":  # there is none of what was not answered
        scored &= np.array([all(side.get(key) != "" for side in texts) for key in queries])
    queries = queries[scored]
    if queries.empty:
        raise DataError(f"{names[0]!r} and {names[1]!r} have no scored question in common")
    pairs = [[side.get(query_id) for side in texts] for query_id in queries]
    values = first.loc[queries, list(chosen)], second.loc[queries, list(chosen)]
    return Arms(
        (names[0], names[1]),
        queries,
        chosen,
        values[0].to_numpy(float),
        values[1].to_numpy(float),
        np.array([[text == "" for text in pair] for pair in pairs]),
        np.array(
            [pair[0] is not None and pair[0] == pair[1] and not by_documents for pair in pairs]
        ),
    )


def _table(scores: Any, criterion: str, name: str) -> dict[str, pd.Series[float]]:
    """Return measure -> values by query_id."""
    if isinstance(scores, Sequence) and all(isinstance(one, Judgement) for one in scores):
        rows = [
            (j.query_id, f"llm_{criterion}", j.value) for j in scores if j.criterion == criterion
        ]
        scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    if isinstance(scores, Result) and scores.scores.empty:  # answers only
        return {"": pd.Series(0.0, index=[answer.query_id for answer in scores.answers])}
    return by_measure(scores, f"scores of {name!r}")
