"""BEIR folders as test sets: labels that BEIR's files do not hold, and every problem of the files at once.

case_labels.jsonl has one line for each case that needs one: `query_id` and labels with the names and forms of JSONL
(see `single_file`). They take the place of what the other files hold. `"relevant": {}` keeps a question that no
document answers; other grades are in qrels/. safety_inputs.jsonl and safety_outputs.jsonl are those of perspectives.
Reading and writing the rest is `datasets.beir`'s and `datasets.writing`'s.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ragbench.datasets.beir import OWN_FILES, load_beir_folder, read_qrels
from ragbench.datasets.gold import read_answers, read_questions
from ragbench.datasets.jsonl import shown
from ragbench.datasets.records import add_judgement, case, document, grade, warn
from ragbench.datasets.testsets.assembly import quoted_spans
from ragbench.datasets.testsets.parser import decoded, json_records, read_bytes
from ragbench.datasets.testsets.perspectives import good_lines, read_safety
from ragbench.datasets.testsets.problems import Problem
from ragbench.datasets.testsets.single_file import Labels, labelled_entry
from ragbench.datasets.testsets.validation import Reading, Word, check, once
from ragbench.errors import DataError
from ragbench.types import Case, Dataset, Qrels

LABELS = OWN_FILES[0]

_Read = Callable[[dict[str, Any]], object]


def beir_split(folder: Path) -> str:
    """The split that a folder is read with: test, or the only one that is there."""
    splits = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
    if len(splits) > 1 and "test" not in splits:
        raise DataError(f"{folder} has the splits {', '.join(splits)}; name one: load_dataset(folder, split)")
    return splits[0] if len(splits) == 1 else "test"


class LabelLine(Labels, BaseModel):
    """A line of case_labels.jsonl."""

    query_id: Word


def read_labels(folder: Path) -> Reading:
    """The labels in case_labels.jsonl, as entries without a question, and the safety samples.

    `Entry.relevant` is {} where the line keeps an unjudged question; the labels that a line has are in its metadata
    under "labels".
    """
    reading = Reading()
    entries = []
    for number, parsed in good_lines(folder, LABELS, reading) if (folder / LABELS).is_file() else ():
        if (item := check(LabelLine, parsed, (), reading, LABELS)) is None:
            continue
        if item.relevant:
            reading.problems.append(
                Problem(number, "relevant", shown(item.relevant), "{}: grades are in qrels/", LABELS)
            )
        entry = labelled_entry(item, item.query_id, item.query_id)._replace(line=number, file=LABELS)
        entries.append(entry._replace(case=replace(entry.case, metadata={"labels": item.model_fields_set})))
    once(reading, entries, "query_id")
    read_safety(folder, reading)
    return reading


def with_labels(dataset: Dataset, reading: Reading, source: str) -> Dataset:
    """The dataset with the labels and safety samples that `read_labels` found."""
    flaws: dict[str, list[str]] = {}
    found = {entry.case.query_id: entry for entry in reading.entries}

    def labelled(case: Case) -> Case:
        if (entry := found.get(case.query_id)) is None:
            return case
        names = entry.case.metadata["labels"] - {"query_id", "relevant", "metadata"}
        labels = {name: getattr(entry.case, name) for name in names}
        if "evidence" in labels:
            labels["evidence"] = tuple(dict.fromkeys(quoted_spans(entry, dataset.corpus, flaws)))
        return replace(case, **labels)

    cases = tuple(labelled(case) for case in dataset.cases)
    for flaw, ids in flaws.items():
        warn(source, flaw, ids)
    return replace(
        dataset, cases=cases, safety_inputs=tuple(reading.inputs), safety_outputs=tuple(reading.outputs)
    )  # fmt: skip


def beir_problems(folder: Path, split: str = "") -> list[Problem]:
    """What is wrong in a folder: in each line of its files, or else in how they fit together."""
    found: list[Problem] = []
    readers: dict[str, _Read] = {"corpus.jsonl": document, "queries.jsonl": case}
    for file, read in readers.items():
        if (folder / file).is_file():
            found += _record_problems(folder / file, read)
    for path in sorted((folder / "qrels").glob("*.tsv")):
        found += _qrels_problems(path)
    found += read_labels(folder).problems
    if found:
        return found
    # What is left concerns how the files fit together, and is found one at a time.
    for name, load in (("answers.jsonl", read_answers), ("questions.jsonl", read_questions)):
        if (folder / name).is_file():
            found += _as_problems(lambda load=load, name=name: load(folder / name), name)  # type: ignore[misc]
    return found or _as_problems(lambda: load_beir_folder(folder, split or beir_split(folder)), folder.name)


def _record_problems(path: Path, read: _Read) -> list[Problem]:
    found: list[Problem] = []
    lines: dict[str, int] = {}
    for number, parsed in json_records(read_bytes(path), path.name):
        found += parsed.problems
        if not parsed.whole:
            continue
        try:
            read(parsed.value)
        except DataError as exc:
            found.append(Problem(number, "", str(exc), "", path.name))
            continue
        own_id = str(parsed.value["_id"])
        if own_id in lines:
            expected = f"an id of its own: line {lines[own_id]} has this one"
            found.append(Problem(number, "_id", shown(own_id), expected, path.name))
        lines.setdefault(own_id, number)
    return found


def _qrels_problems(path: Path) -> list[Problem]:
    found: list[Problem] = []
    qrels: Qrels = {}
    header = False
    for number, raw in enumerate(read_bytes(path).split(b"\n"), start=1):
        text = decoded(raw, path.name, number)
        if isinstance(text, Problem):
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
            found.append(Problem(number, "", str(exc), "", path.name))
    return found or _as_problems(lambda: read_qrels(path), path.name)


def _as_problems(read: Callable[[], object], file: str) -> list[Problem]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flaws that are not problems are reported when the set is loaded
            read()
    except DataError as exc:
        return [Problem(0, "", str(exc), "", file)]
    return []
