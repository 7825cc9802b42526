"""BEIR folders as test sets: labels that BEIR's files do not hold, and every problem of the files at once.

case_labels.jsonl has one line for each case that needs one: `query_id` and labels with the names and forms of JSONL
(see `single_file`). They take the place of what the other files hold. `"relevant": {}` keeps a question that no
document answers; other grades are in qrels/. safety_inputs.jsonl and safety_outputs.jsonl are those of perspectives.
Reading and writing the rest is `datasets.beir`'s and `datasets.writing`'s.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from ragbench.datasets.beir import OWN_FILES, check_qrels, load_beir_folder
from ragbench.datasets.gold import read_answers, read_questions
from ragbench.datasets.jsonl import shown
from ragbench.datasets.records import case, document, warn
from ragbench.errors import DataError
from ragbench.testsets.assembly import quoted_spans
from ragbench.testsets.perspectives import good_lines, read_records, read_safety
from ragbench.testsets.problems import Problem
from ragbench.testsets.single_file import Labels
from ragbench.testsets.validation import Entry, Reading, Word, check, entry_of, once
from ragbench.types import Case, Dataset

LABELS = OWN_FILES[0]


def beir_split(folder: Path) -> str:
    """The split that a folder is read with: test, or the only one that is there."""
    splits = sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))
    if len(splits) > 1 and "test" not in splits:
        raise DataError(f"{folder} has the splits {', '.join(splits)}; name one: load_dataset(folder, split)")
    return splits[0] if len(splits) == 1 else "test"


def read_beir(folder: Path) -> Reading:
    """A folder as any other test set."""
    dataset = load_beir_folder(folder, beir_split(folder))
    entries = [Entry(case, dataset.qrels[case.query_id]) for case in dataset.cases]
    samples = list(dataset.safety_inputs), list(dataset.safety_outputs)
    return Reading(dataset.name, dataset.split, dict(dataset.corpus), entries, *samples)


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
    for number, parsed in good_lines(folder, LABELS, reading):
        if (item := check(LabelLine, parsed, (), reading)) is None:
            continue
        if item.relevant:
            reading.wrong(number, "relevant", shown(item.relevant), "{}: grades are in qrels/", LABELS)
        entry = entry_of(item, text=item.query_id, metadata={"labels": item.model_fields_set})
        entries.append(entry._replace(line=number, file=LABELS))
    once(reading, entries, "query_id")
    read_safety(folder, reading)
    return reading


def with_labels(dataset: Dataset, reading: Reading, source: str) -> Dataset:
    """The dataset with the labels and safety samples that `read_labels` found."""
    flaws: defaultdict[str, list[str]] = defaultdict(list)
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
    return replace(dataset, cases=cases, safety_inputs=tuple(reading.inputs), safety_outputs=tuple(reading.outputs))


def beir_problems(folder: Path) -> list[Problem]:
    """What is wrong in a folder: in each line of its files, or else in how they fit together."""
    reading = Reading()
    read_records(folder, "corpus.jsonl", document, reading)
    read_records(folder, "queries.jsonl", case, reading)
    for path in sorted((folder / "qrels").glob("*.tsv")):
        _note(reading, path.name, partial(check_qrels, path, report=partial(_of_line, reading, path.name)))
    reading.problems += read_labels(folder).problems
    if not reading.problems:  # what is left concerns how the files fit together, and is found one at a time
        for name, load in (("answers.jsonl", read_answers), ("questions.jsonl", read_questions)):
            if (folder / name).is_file():
                _note(reading, name, partial(load, folder / name))
    if not reading.problems:
        _note(reading, folder.name, lambda: load_beir_folder(folder, beir_split(folder)))
    return reading.problems


def _of_line(reading: Reading, file: str, number: int, exc: DataError) -> None:
    reading.wrong(number, "", str(exc), "", file)


def _note(reading: Reading, file: str, read: Callable[[], object]) -> None:
    """Note the error of a function that reads; flaws that are not problems are reported when the set is loaded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except DataError as exc:
        reading.wrong(0, "", str(exc), "", file)
