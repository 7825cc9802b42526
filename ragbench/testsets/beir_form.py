"""BEIR folders as test sets: labels that BEIR's files do not hold.

case_labels.jsonl has one line for each case that needs one: `query_id` and labels with the names of
`forms`. They take the place of what the other files hold. `"relevant": {}` keeps a question that no
document answers; other grades are in qrels/. safety_inputs.jsonl and safety_outputs.jsonl are those
of perspectives. Reading the rest is `datasets.beir`'s, writing is `writer`'s.
"""

import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from ragbench.datasets.beir import load_beir_folder, qrels_files, unique_records
from ragbench.datasets.jsonl import shown
from ragbench.datasets.passages import Texts
from ragbench.datasets.records import Flaws, identifier, warn, warn_all
from ragbench.errors import DataError
from ragbench.testsets.assembly import quoted_spans
from ragbench.testsets.cases import CASE_FIELDS, CaseLine, Content, Labels, entry_of
from ragbench.testsets.perspectives import SAFETY_FILES, lines_of
from ragbench.testsets.problems import Problem, refuse
from ragbench.types import Dataset

LABELS = "case_labels.jsonl"


def load_labelled_folder(folder: Path, split: str = "test") -> Dataset:
    """Return the dataset in a BEIR folder with the labels of ours that are there."""
    if not any((folder / file).is_file() for file in (LABELS, *SAFETY_FILES)):
        return load_beir_folder(folder, split)
    content, names = _read_labels(folder)
    refuse(folder, content.problems)
    kept = [query_id for query_id in names if "relevant" in names[query_id]]
    dataset = load_beir_folder(folder, split, kept=kept)
    queries = unique_records(folder / "queries.jsonl", identifier, "query")
    source = str(folder / LABELS)
    warn(
        source,
        "queries are not in queries.jsonl and are left out",
        [q for q in names if q not in queries],
    )
    flaws: Flaws = defaultdict(list)
    texts = Texts(dataset.corpus)
    cases = dataset.case_of
    for entry in content.entries:
        query_id = entry.case.query_id
        if query_id not in cases:
            continue
        changes = {name: getattr(entry.case, name) for name in names[query_id] & {*CASE_FIELDS}}
        if "evidence" in changes:
            changes["evidence"] = tuple(
                dict.fromkeys(quoted_spans(entry, dataset.corpus, texts, flaws))
            )
        cases[query_id] = replace(cases[query_id], **changes)
    warn_all(source, flaws)
    return replace(
        dataset,
        cases=tuple(cases.values()),
        safety_inputs=tuple(content.inputs),
        safety_outputs=tuple(content.outputs),
    )


def read_beir(folder: Path) -> Dataset:
    """Return the dataset in a folder with its split "test", or the only one it has."""
    splits = list(qrels_files(folder))
    if len(splits) > 1 and "test" not in splits:
        raise DataError(
            f"{folder} has the splits {', '.join(splits)}; name one: load_dataset(folder, split)"
        )
    return load_labelled_folder(folder, splits[0] if len(splits) == 1 else "test")


def beir_problems(folder: Path) -> list[Problem]:
    """Return what is wrong in a folder: in the labels of ours, or the first error of BEIR's files."""
    problems = _read_labels(folder)[0].problems
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # flaws that are not problems are reported when the set is loaded
            if not problems:
                read_beir(folder)
    except DataError as exc:
        problems.append(Problem(0, "", str(exc), "", folder.name))
    return problems


def _read_labels(folder: Path) -> tuple[Content, dict[str, set[str]]]:
    """Return the labels as entries without a question, with the safety samples; and the labels of
    each line by name.
    """
    content = Content()
    names = {}
    for line, record in content.unique(Labels, lines_of(folder, LABELS, content), "query_id"):
        if line.relevant:
            content.problems.append(
                record.problem(("relevant",), shown(line.relevant), "{}: grades are in qrels/")
            )
        names[line.query_id] = line.model_fields_set - {"query_id", "metadata"}
        entry = entry_of(CaseLine.model_construct(text=line.query_id, **dict(line)), record)
        content.entries.append(entry)
    inputs, outputs = (lines_of(folder, file, content) for file in SAFETY_FILES)
    content.add(inputs=inputs, outputs=outputs)
    return content, names
