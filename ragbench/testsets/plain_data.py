"""Data in hand as a dataset, for `rb.evaluate(rows, ...)`: rows of a frame or a list, test cases of
other tools, the three mappings of `beir`; their fields are read like a file's.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.testsets.assembly import to_dataset
from ragbench.testsets.fields import QUESTIONS, is_missing, with_whole_numbers
from ragbench.testsets.other_tools import one_per_question
from ragbench.testsets.problems import refuse
from ragbench.testsets.record_cases import read_records
from ragbench.types import Dataset


def rows_of_data(data: Any) -> list[dict[str, Any]]:
    """Return the rows of a frame, a `datasets.Dataset`, a mapping of columns, or a list of questions,
    mappings and test cases.

    >>> rows_of_data({"question": ["Who naps?"], "answer": ["Cats."]})
    [{'question': 'Who naps?', 'answer': 'Cats.'}]

    Raises:
        DataError: the data has another form.
    """
    if hasattr(data, "itertuples"):  # a frame of pandas
        data = data.to_dict("records")
    elif isinstance(data, Mapping):
        data = _rows_of_mapping(data)
    elif isinstance(data, bytes) or not isinstance(data, Iterable):
        raise DataError(
            f"the data is {type(data).__name__}; expected a Dataset, its name, questions, rows (a "
            "DataFrame, dicts or test cases with question, answer, contexts, reference), or the "
            "tuple (corpus, queries, qrels)"
        )
    numbered = enumerate(with_whole_numbers([_plain_row(item) for item in data]), 1)
    return [row for _, row in one_per_question(numbered)]


def _rows_of_mapping(data: Mapping[Any, Any]) -> list[Any]:
    """Return the rows of a mapping of columns, or of a mapping that is itself a row.

    Raises:
        DataError: it is neither.
    """
    if any(isinstance(data.get(name), str) for name in QUESTIONS):
        return [data]
    columns = [
        list(values)
        for values in data.values()
        if isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping)
    ]
    lengths = {len(column) for column in columns}
    if len(columns) < len(data) or len(lengths) > 1:
        raise DataError(
            "the data is a dict whose values are not columns of one length; "
            "expected {'question': [...], 'answer': [...]}; a run is scored by "
            "rb.score_run(qrels, run), and beir's data are the tuple (corpus, queries, qrels)"
        )
    return [dict(zip(data, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_row(item: Any) -> dict[str, Any]:
    """Return an item of the data as a row of plain values: an empty cell (NaN, NA) becomes None, an
    array a list.
    """
    row = {}
    for name, value in _fields_of(item).items():
        plain = value.tolist() if hasattr(value, "tolist") else value
        row[name] = None if is_missing(plain) else plain
    return row


def _fields_of(item: Any) -> Mapping[str, Any]:
    """Return the fields of an item: a mapping, an object with attributes, or the text of a question.

    Raises:
        DataError: it is anything else.
    """
    if isinstance(item, str):
        return {QUESTIONS[0]: item}
    if isinstance(item, Mapping):
        return item
    attributes: Mapping[str, Any] = getattr(item, "__dict__", {})
    if not attributes:
        raise DataError(
            f"a row is {type(item).__name__}; expected a question, or a dict such as "
            "{'question': ..., 'answer': ..., 'contexts': [...]}"
        )
    return attributes


def dataset_of(data: Any) -> Dataset:
    """Return rows, as `rows_of_data` takes them, or the (corpus, queries, qrels) of `beir` as a
    dataset.

    A system's output in the rows (answers, retrieved contexts) is left out: `RecordedSystem` reads it
    from the same rows.

    >>> dataset_of([{"user_input": "Who naps?", "reference": "Cats."}]).cases[0].reference_answer
    'Cats.'

    Raises:
        DataError: the data has another form, or a row has no question.
    """
    if isinstance(data, tuple) and len(data) == 3:
        return Dataset.from_dicts(*data)
    source = Path("data")
    content = read_records(enumerate(rows_of_data(data), 1), source, None)
    refuse(source, content.problems)
    return to_dataset(source.name, content, {}, source.name)
