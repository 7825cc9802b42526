"""Reference answers in a BEIR folder: whose an answer is (a model's or a person's), and that a
generated one never replaces one that a person wrote or changed.

A generated answer is stored with the digest of its text. A line is a person's if its text has
another digest, if it has no digest, or if it has `"reviewed": true`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import json_line, json_lines, lines, shown
from ragbench.errors import DataError
from ragbench.files import expanded, write_durably
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.writer import is_by_hand, save_dataset, text_digest, unwritable
from ragbench.types import Case, Dataset


def generated_label(
    answer: str, *, model: str, prompt: str, sources: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the field `generated` of an answer's line: its origin, and the digest of its text."""
    return {
        "model": model,
        "prompt": prompt,
        "sources": [*map(dict, sources)],
        "digest": text_digest(answer),
    }


def reference_origin(case: Case) -> str:
    """Return who wrote the reference answer of a case: "none", "model" or "person".

    >>> reference_origin(Case("q1", "Which city?", reference_answer="Paris."))
    'person'
    """
    if not (case.reference_answer or "").strip():
        return "none"
    return "person" if is_by_hand({"answer": case.reference_answer, **case.metadata}) else "model"


def merge_answers(path: Path, answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Put generated answers (query_id -> fields of its line) into an answers.jsonl; an answer that a
    person wrote stays.

    The file is read again here, so that changes of a person during the requests to a model are kept,
    and it is replaced as a whole. A changed line keeps its place and its other fields, and all other
    lines keep their bytes. New lines come last.

    Raises:
        DataError: the file holds a wrong line, or cannot be written.
    """
    remaining = dict(answers)  # the answers without a line in the file so far
    merged: list[str] = []
    is_changed = False
    # each line as (number, text) and as (number, fields)
    both_readings = zip(lines(path), json_lines(path), strict=True) if path.exists() else ()
    for (number, text), (_, record) in both_readings:
        if "_id" not in record:
            raise DataError(
                f"{path}, line {number}: '_id' is missing; the record has {', '.join(record)}"
            )
        new = remaining.pop(str(record["_id"]), None)
        if new is None or is_by_hand(record):
            merged.append(f"{text}\n")
        else:
            merged.append(json_line({**record, **new, "_id": record["_id"]}))
            is_changed = True
    merged += [json_line({"_id": query_id, **new}) for query_id, new in remaining.items()]
    if not is_changed and not remaining:
        return
    try:
        write_durably(path, "".join(merged))
    except OSError as exc:
        raise unwritable(path, exc) from exc


def labelled_folder(
    name: str | Path, split: str = "test", out: str | Path = "", *, create: bool = True
) -> tuple[Dataset, Path]:
    """Return the dataset and the folder for its new labels.

    Without `out` the labels go to the dataset's own folder. Otherwise the dataset is copied to `out`
    first, unless `out` holds it already; labels that an earlier run or a person put there are then
    part of the returned dataset.

    Args:
        create: False returns the dataset unchanged and copies nothing.

    Raises:
        DataError: the dataset is not a folder and there is no `out`, or `out` holds other
            questions.
    """
    target = expanded(out or name)
    if not out and not target.is_dir():
        raise DataError(
            f"{str(name)!r} is not a folder that answers can be written to; name one with "
            "--output (out_dir)"
        )
    dataset = load_dataset(name, split)
    if not out:
        return dataset, target
    is_filled = target.is_dir() and any(target.iterdir())
    if is_filled:
        copy = load_dataset(target, split)
        for query_id, text in dataset.queries.items():
            if copy.queries.get(query_id) != text:
                raise DataError(
                    f"{target} holds other questions than {str(name)!r}, first {shown(query_id)}; "
                    "name another folder"
                )
        return copy, target
    if create:
        dataset = load_dataset(save_dataset(dataset, target), split)
    return dataset, target
