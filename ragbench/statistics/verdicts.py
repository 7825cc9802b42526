"""Verdicts of people and of judges on the same answers, in the forms in which they are published."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ragbench.errors import DataError

_NAMES = {"question_id": "question", "query_id": "question", "human": "person"}


def load_verdicts(path: str | Path) -> pd.DataFrame:
    """Return verdicts on answers: question, system, person, and a column per judge, from 0 to 1; one row
    per answer.

    The file is a CSV with the columns question (or question_id, query_id), system, person (or
    human) and one or more judges; other columns of text are left out. An empty verdict is missing.

    Raises:
        DataError: a column is missing, a verdict is not a number from 0 to 1, or an answer comes
            twice; with the first such row.
    """
    path = Path(path)
    try:
        table = pd.read_csv(path, dtype={"question": str, "question_id": str, "query_id": str})
    except (OSError, ValueError) as exc:
        raise DataError(f"{path} cannot be read as a CSV file of verdicts: {exc}") from exc
    ids = [name for name in ("question_id", "query_id", "question") if name in table]
    table = table.drop(columns=[name for name in ids[1:] if name == "question"])
    table = table.rename(columns=_NAMES)
    for name in ("question", "system", "person"):
        if name not in table:
            raise DataError(
                f"{path} has no column {name!r}; expected question, system, person and a judge, found "
                f"{', '.join(map(str, table.columns))}"
            )
    judges = [
        str(name)
        for name in table.columns.drop(["question", "system", "person"])
        if pd.api.types.is_numeric_dtype(table[name])
    ]
    if not judges:
        raise DataError(f"{path} has no column with a judge's verdicts")
    verdicts = table[["person", *judges]].astype(float)
    wrong = ~(verdicts.isna() | verdicts.ge(0) & verdicts.le(1)).all(axis=1)
    if wrong.any():
        raise DataError(
            f"{path}: {verdicts[wrong].iloc[0].to_dict()} in line {int(wrong.to_numpy().argmax()) + 2}; expected "
            "verdicts from 0 to 1"
        )
    table = table[["question", "system"]].astype(str).join(verdicts)
    twice = table.duplicated(["question", "system"])
    if twice.any():
        first = table[twice].iloc[0]
        raise DataError(
            f"{path} has two verdicts on question {first['question']!r} of {first['system']!r}"
        )
    return table
