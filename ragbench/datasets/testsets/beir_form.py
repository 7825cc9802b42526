"""BEIR folders as test sets: every mistake of the files at once. Reading and writing them is `datasets.beir`'s."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragbench.datasets.beir import load_beir_folder, read_qrels
from ragbench.datasets.collection import add_judgement, case, document, grade
from ragbench.datasets.gold import read_answers, read_questions
from ragbench.datasets.lines import shown
from ragbench.datasets.testsets.mistakes import Mistake
from ragbench.datasets.testsets.parsing import decoded, json_records, read_bytes
from ragbench.errors import DataError
from ragbench.types import Qrels

_Read = Callable[[dict[str, Any]], object]


def beir_split(folder: Path) -> str:
    """The split that a folder is read with: test, or the only one that is there."""
    splits = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
    if len(splits) > 1 and "test" not in splits:
        raise DataError(f"{folder} has the splits {', '.join(splits)}; name one: load_dataset(folder, split)")
    return splits[0] if len(splits) == 1 else "test"


def beir_mistakes(folder: Path, split: str = "") -> list[Mistake]:
    """What is wrong in a folder: in each line of its files, or else in how they fit together."""
    found: list[Mistake] = []
    readers: dict[str, _Read] = {"corpus.jsonl": document, "queries.jsonl": case}
    for file, read in readers.items():
        if (folder / file).is_file():
            found += _record_mistakes(folder / file, read)
    for path in sorted((folder / "qrels").glob("*.tsv")):
        found += _qrels_mistakes(path)
    if found:
        return found
    # What is left concerns how the files fit together, and is found one at a time.
    for name, load in (("answers.jsonl", read_answers), ("questions.jsonl", read_questions)):
        if (folder / name).is_file():
            found += _as_mistakes(lambda load=load, name=name: load(folder / name), name)  # type: ignore[misc]
    return found or _as_mistakes(lambda: load_beir_folder(folder, split or beir_split(folder)), folder.name)


def _record_mistakes(path: Path, read: _Read) -> list[Mistake]:
    found: list[Mistake] = []
    lines: dict[str, int] = {}
    for number, parsed in json_records(read_bytes(path), path.name):
        found += parsed.mistakes
        if not parsed.whole:
            continue
        try:
            read(parsed.value)
        except DataError as exc:
            found.append(_of_line(exc, number, path))
            continue
        own_id = str(parsed.value["_id"])
        if own_id in lines:
            expected = f"an id of its own: line {lines[own_id]} has this one"
            found.append(Mistake(number, "_id", shown(own_id), expected, path.name))
        lines.setdefault(own_id, number)
    return found


def _qrels_mistakes(path: Path) -> list[Mistake]:
    found: list[Mistake] = []
    qrels: Qrels = {}
    header = False
    for number, raw in enumerate(read_bytes(path).split(b"\n"), start=1):
        text = decoded(raw, path.name, number)
        if isinstance(text, Mistake):
            found.append(text)
            continue
        columns = text.rstrip("\r").split("\t")
        if not text.strip():
            continue
        if not header:
            header = True
            continue
        if '"' in text:  # a quoted column: read_qrels knows how
            continue
        try:
            if len(columns) != 3 or not (columns[0].strip() and columns[1].strip()):
                raise DataError(f"{shown(columns)} is a row; expected query-id, corpus-id, score, separated by tabs")
            add_judgement(qrels, columns[0], columns[1], grade(columns[2]))
        except DataError as exc:
            found.append(_of_line(exc, number, path))
    return found or _as_mistakes(lambda: read_qrels(path), path.name)


def _of_line(exc: DataError, number: int, path: Path) -> Mistake:
    value, _, expected = str(exc).partition("; ")
    return Mistake(number, "", value, expected.removeprefix("expected ") or "a record of this form", path.name)


def _as_mistakes(read: Callable[[], object], file: str) -> list[Mistake]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flaws that are no mistakes are said when the set is loaded
            read()
    except DataError as exc:
        value, _, expected = str(exc).partition("; ")
        return [Mistake(0, "", value, expected.removeprefix("expected ") or "a folder in BEIR's format", file)]
    return []
