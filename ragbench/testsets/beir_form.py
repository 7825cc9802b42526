"""BEIR folders as test sets: which labels are in case_labels.jsonl, because BEIR's own files do not
hold them; `datasets/beir` reads the others.

case_labels.jsonl has one line for each case with such labels: `query_id`, and labels with the names
of `forms`, which replace the labels of the other files. `"relevant": {}` keeps a question that no
document answers; other grades are in qrels/. safety_inputs.jsonl and safety_outputs.jsonl are the
files of `perspectives`. `datasets.beir` reads the other files, `writer` writes them all.
"""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ragbench.datasets.beir import load_beir_folder, qrels_files, unique_records
from ragbench.datasets.jsonl import shown
from ragbench.datasets.passages import Texts
from ragbench.datasets.raw_records import Flaws, identifier, warn_all
from ragbench.errors import DataError, warn_of_flaw
from ragbench.testsets.assembly import quoted_spans
from ragbench.testsets.cases import CASE_FIELDS, CaseLine, Content, Entry, Labels, entry_of
from ragbench.testsets.perspective_files import SAFETY_FILES, records_in
from ragbench.testsets.problems import Problem, refuse
from ragbench.types import Case, Dataset

LABELS = "case_labels.jsonl"


def load_labelled_folder(folder: Path, split: str = "test") -> Dataset:
    """Return the dataset in a BEIR folder, with the labels of ragbench's own files next to BEIR's.

    Raises:
        DataError: a file has problems; all problems of ragbench's files are named.
    """
    if not any((folder / file).is_file() for file in (LABELS, *SAFETY_FILES)):
        return load_beir_folder(folder, split)
    content, label_names = _read_own_files(folder)
    refuse(folder, content.problems)
    # BEIR's judgements have no line for a question that no document answers. ragbench's own file has the
    # label `relevant` for such questions only, with the value {}.
    unanswerable = [query_id for query_id, names in label_names.items() if "relevant" in names]
    dataset = load_beir_folder(folder, split, kept=unanswerable)
    queries = unique_records(folder / "queries.jsonl", identifier, "query")
    source = str(folder / LABELS)
    unknown = [query_id for query_id in label_names if query_id not in queries]
    warn_of_flaw(source, "queries are not in queries.jsonl and are left out", unknown)
    return replace(
        dataset,
        cases=_relabelled(dataset, content.entries, label_names, source),
        safety_inputs=tuple(content.inputs),
        safety_outputs=tuple(content.outputs),
    )


def _relabelled(
    dataset: Dataset, entries: Iterable[Entry], label_names: Mapping[str, set[str]], source: str
) -> tuple[Case, ...]:
    """Return the cases of a dataset; the labels in their entries replace the same labels of the cases.

    `label_names` is query_id -> the names of the labels in its entry. Evidence is located by its
    quote; a warning, which names `source`, counts evidence that has moved or has no place.
    """
    flaws: Flaws = defaultdict(list)
    texts = Texts(dataset.corpus)
    cases = {case.query_id: case for case in dataset.cases}
    for entry in entries:
        query_id = entry.case.query_id
        if query_id not in cases:
            continue
        names = label_names[query_id].intersection(CASE_FIELDS)
        labels = {name: getattr(entry.case, name) for name in names}
        if "evidence" in labels:
            spans = quoted_spans(entry, dataset.corpus, texts, flaws)
            labels["evidence"] = tuple(dict.fromkeys(spans))
        cases[query_id] = replace(cases[query_id], **labels)
    warn_all(source, flaws)
    return tuple(cases.values())


def read_beir(folder: Path) -> Dataset:
    """Return the split "test" of a folder, or its only split.

    Raises:
        DataError: the folder has several splits, none of them "test", or a file has problems.
    """
    splits = list(qrels_files(folder))
    if len(splits) > 1 and "test" not in splits:
        raise DataError(
            f"{folder} has the splits {', '.join(splits)}; name one: load_dataset(folder, split)"
        )
    return load_labelled_folder(folder, splits[0] if len(splits) == 1 else "test")


def beir_problems(folder: Path) -> list[Problem]:
    """Return the problems in ragbench's own files of a folder, else the first error of BEIR's files."""
    content, _ = _read_own_files(folder)
    if content.problems:
        return content.problems
    try:
        # flaws that are not problems are reported when the set is loaded
        with warnings.catch_warnings(action="ignore"):
            read_beir(folder)
    except DataError as exc:
        return [Problem(0, "", str(exc), "", folder.name)]
    return []


def _read_own_files(folder: Path) -> tuple[Content, dict[str, set[str]]]:
    """Return the content of ragbench's own files in a BEIR folder (labels of cases, and safety samples),
    with their problems; and query_id -> the names of the labels in its line.

    The content has an entry for each line of labels. The question of an entry is its query_id for now,
    because the real one is in BEIR's queries.jsonl.
    """
    content = Content()
    label_names = {}
    for line, record in content.unique(Labels, records_in(folder, LABELS, content), "query_id"):
        if line.relevant:
            content.problems.append(
                record.problem(("relevant",), shown(line.relevant), "{}: grades are in qrels/")
            )
        label_names[line.query_id] = line.model_fields_set - {"query_id", "metadata"}
        case = CaseLine.model_construct(text=line.query_id, **dict(line))
        content.entries.append(entry_of(case, record))
    inputs, outputs = (records_in(folder, file, content) for file in SAFETY_FILES)
    content.add(inputs=inputs, outputs=outputs)
    return content, label_names
