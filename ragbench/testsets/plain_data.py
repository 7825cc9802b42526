"""Data in hand as a dataset: rows of a frame or a list, test cases, the three mappings of `beir`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.testsets.assembly import to_dataset
from ragbench.testsets.fields import QUESTIONS, is_missing, with_whole_numbers
from ragbench.testsets.other_tools import one_per_question, read_records
from ragbench.testsets.problems import refuse
from ragbench.types import Dataset


def rows_of_data(data: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame, of a `datasets.Dataset`, of a mapping of columns, or of a list of
    questions, mappings and test cases.

    >>> rows_of_data({"question": ["Who naps?"], "answer": ["Cats."]})
    [{'question': 'Who naps?', 'answer': 'Cats.'}]

    Raises:
        DataError: something has another form.
    """
    if hasattr(data, "itertuples"):
        data = data.to_dict("records")
    elif isinstance(data, Mapping):
        data = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    elif isinstance(data, bytes) or not isinstance(data, Iterable):
        raise DataError(
            f"the data is {type(data).__name__}; expected a Dataset, its name, questions, rows (a "
            "DataFrame, dicts or test cases with question, answer, contexts, reference), or the "
            "tuple (corpus, queries, qrels)"
        )
    numbered = enumerate(with_whole_numbers([_row(item) for item in data]), 1)
    return [row for _, row in one_per_question(numbered)]


def _row(item: Any) -> dict[str, Any]:
    """Return the fields of a row; an empty cell (NaN, NA) is None."""
    fields = {QUESTIONS[0]: item} if isinstance(item, str) else item
    fields = fields if isinstance(fields, Mapping) else getattr(item, "__dict__", {})
    plain = {name: getattr(value, "tolist", lambda v=value: v)() for name, value in fields.items()}
    return {name: None if is_missing(value) else value for name, value in plain.items()}


def dataset_of(data: Any) -> Dataset:
    """Return the dataset of rows as `rows_of_data` takes them, or of (corpus, queries, qrels) as
    `beir` has them.

    What a system gave (answers, retrieved contexts) is left out: `RecordedSystem` reads it from the
    same rows.

    >>> dataset_of([{"user_input": "Who naps?", "reference": "Cats."}]).cases[0].reference_answer
    'Cats.'

    Raises:
        DataError: something has another form, or a row has no question.
    """
    if isinstance(data, tuple) and len(data) == 3:
        return Dataset.from_dicts(*data)
    source = Path("data")
    content = read_records(enumerate(rows_of_data(data), 1), source, None)
    refuse(source, content.problems)
    return to_dataset(source.name, content, {}, source.name)
