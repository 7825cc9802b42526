"""Reference answers in a BEIR folder: generated ones are put in, what a person wrote or changed is
never replaced.

A generated answer carries the digest of its own text, so a line whose text has another digest, or
that has none, is a person's, and so is one with `"reviewed": true`.
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
    """Return the field `generated` of an answer's line: where it comes from, and the digest of its
    text.
    """
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
    """Put generated answers (query_id -> fields of its line) into an answers.jsonl, in one step; an
    answer that a person wrote stays.

    The file is read anew, so what a person changes while a model is being asked is kept as well.
    Lines keep their order and, unless replaced, their bytes; new ones come last. A line without an
    answer keeps its other fields.

    Raises:
        DataError: the file is not what it should be, or cannot be written.
    """
    left, result, is_changed = dict(answers), [], False
    numbered = zip(lines(path), json_lines(path), strict=True) if path.exists() else ()
    for (number, text), (_, record) in numbered:
        if "_id" not in record:
            raise DataError(
                f"{path}, line {number}: '_id' is missing; the record has {', '.join(record)}"
            )
        new = left.pop(str(record["_id"]), None)
        if new is not None and not is_by_hand(record):
            text, is_changed = json_line({**record, **new, "_id": record["_id"]})[:-1], True
        result.append(f"{text}\n")
    result += [json_line({"_id": query_id, **new}) for query_id, new in left.items()]
    if is_changed or left:
        try:
            write_durably(path, "".join(result))
        except OSError as exc:
            raise unwritable(path, exc) from exc


def labelled_folder(
    name: str | Path, split: str = "test", out: str | Path = "", *, create: bool = True
) -> tuple[Dataset, Path]:
    """Return the dataset and the folder that its new labels go to.

    Without `out` that is the dataset's own folder. Otherwise the dataset is copied to `out` first,
    if it is not there yet; labels that are there already, by an earlier run or a person, are part
    of the dataset that is given back.

    Args:
        create: False gives the dataset as it is and copies nothing.

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
    if target.is_dir() and any(target.iterdir()):
        existing = load_dataset(target, split)
        if other := [q for q, text in dataset.queries.items() if existing.queries.get(q) != text]:
            raise DataError(
                f"{target} holds other questions than {str(name)!r}, first {shown(other[0])}; "
                "name another folder"
            )
        return existing, target
    return load_dataset(save_dataset(dataset, target), split) if create else dataset, target
