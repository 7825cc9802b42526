"""Test sets in the forms that teams have them in. They are read in all of these, and written where
every label fits:

=============  ==================================================================================================
yaml           `cases: [{id, query, expected_chunks: [{doc_id, section}], expected_answer_contains}]`, and all of jsonl
jsonl          ragbench's own: one file, every label, the documents and the safety samples
beir           a folder with corpus.jsonl, queries.jsonl and qrels/<split>.tsv; the rest is in case_labels.jsonl
json           `[{id, question, expectedAnswer, requiredKeywords, expectedDocumentId, category}]`
json-cases     `test_cases: [{query, expected_answer, expected_sources, category}]`
perspectives   a folder of JSONL files, joined by `case_id`: cases, retrieval_labels, context_labels, ...
=============  ==================================================================================================

Those of other tools (ragas, deepeval, promptfoo, langsmith, llamaindex, table) are in
`other_tools`. Each is described in the module of its name. Every form keeps fields that it does not
know as metadata of the case, with a warning; one that looks like a misspelt label is a problem.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.datasets.corpus import (
    load_corpus as load_corpus,
)  # one of the names of ragbench.testsets
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.files import expanded
from ragbench.testsets.fields import TABLES
from ragbench.testsets.problems import refuse
from ragbench.testsets.writer import save_dataset, write_texts
from ragbench.types import Dataset, Document

if TYPE_CHECKING:
    from ragbench.testsets.validation import Content

WRITTEN = ("yaml", "jsonl", "beir")
FORMS = (*WRITTEN, "json", "json-cases", "perspectives")
OTHER_FORMS = ("ragas", "deepeval", "promptfoo", "langsmith", "llamaindex", "table")

PERSPECTIVE_FILES = (
    "cases.jsonl",
    "retrieval_labels.jsonl",
    "context_labels.jsonl",
    "groundedness_labels.jsonl",
    "pipeline_labels.jsonl",
    "safety_inputs.jsonl",
    "safety_outputs.jsonl",
)
"""The files of a folder by perspective, any of which may be missing."""

_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonl": "jsonl"}
_EXPECTED = (
    "a .yaml, .json or .jsonl file, a folder with cases.jsonl or safety_inputs.jsonl, or a BEIR "
    "folder (corpus.jsonl, queries.jsonl, qrels/)"
)


def save_testset(dataset: Dataset, path: str | Path, form: str, *, force: bool = False) -> Path:
    """Write a test set, complete or not at all, and give its path. What is written has been read
    again before.

    Args:
        form: "yaml", "jsonl" or "beir", which hold every label. force: replace what is there. A
        folder that holds anything else than a test set is never replaced.

    Raises:
        ConfigError: test sets are not written in this form.
        DataError: something is there already, or the content cannot be written in this form.
    """
    target = expanded(path)
    if form not in WRITTEN:
        raise ConfigError(unknown("form to write", form, WRITTEN))
    if form == "beir":
        if not dataset.corpus:
            raise DataError(
                f"{dataset.name} has no documents, which a BEIR folder needs; give them "
                "(corpus=, --corpus)"
            )
        extra = {}
        if dataset.name != target.resolve().name:
            extra = {"testset.json": json.dumps({"name": dataset.name}, ensure_ascii=False) + "\n"}
        return save_dataset(dataset, target, force=force, extra=extra)
    if SUFFIXES.get(target.suffix.lower()) != form:
        ends = ", ".join(suffix for suffix, found in SUFFIXES.items() if found == form)
        raise ConfigError(
            f"{target.name!r} cannot be the name of a test set in the form {form!r}; end it "
            f"in {ends}"
        )
    if target.is_dir():
        raise DataError(f"{target} is a folder, which the form {form!r} is not: it is not replaced")
    if os.path.lexists(target) and not force:
        raise DataError(
            f"{target} is there already; name another place, or replace it with --force "
            "(force=True)"
        )

    def check(new: Path) -> None:
        refuse(f"{dataset.name} as {form}", read(new, form).problems)

    return write_texts(target, {"": text_of(content_of(dataset), form)}, check)


def is_testset(path: Path) -> bool:
    """Return True if a file or folder has the name or the files of a test set, other than a BEIR
    folder.
    """
    if path.is_dir():
        return not (path / "queries.jsonl").is_file() and any(
            (path / file).is_file() for file in PERSPECTIVE_FILES
        )
    return path.suffix.lower() in (*SUFFIXES, *TABLES) and path.name not in _BEIR_FILES


def form_of(path: str | Path) -> str:
    """Return which of the `FORMS` a test set has. For a JSON file the content decides which of the
    two.

    Raises:
        DataError: nothing is there, or no test set.
    """
    place = expanded(path)
    if os.path.isdir(place):
        if (place / "queries.jsonl").is_file():
            return "beir"
        if is_testset(place):
            return "perspectives"
        raise DataError(f"{place} holds no test set; expected {_EXPECTED}")
    if not os.path.isfile(place):
        raise DataError(f"there is no file or folder {str(place)!r}; expected {_EXPECTED}")
    from ragbench.testsets.other_tools import other_form

    if place.name not in _BEIR_FILES and (other := other_form(place)):
        return other
    form = SUFFIXES.get(place.suffix.lower())
    if form is None or place.name in _BEIR_FILES:
        raise DataError(f"{place} is not the name of a test set; expected {_EXPECTED}")
    if form == "json":
        from ragbench.testsets.case_lists import json_form

        return json_form(place)
    return form


def suffix_form(path: str | Path) -> str:
    """Return the form that the name of a new file or folder asks for.

    >>> suffix_form("a.yml"), suffix_form("a.jsonl"), suffix_form("my-testset")
    ('yaml', 'jsonl', 'beir')

    Raises:
        ConfigError: the name matches no form that is written.
    """
    suffix = Path(path).suffix.lower()
    form = SUFFIXES.get(suffix, "") if suffix else "beir"
    if form not in WRITTEN:
        raise ConfigError(
            f"{str(path)!r} is not the name of a form to write; expected .yaml, .jsonl or a folder"
        )
    return form


def read(path: Path, form: str, corpus: Mapping[str, Document] | None = None) -> Content:
    """Return the content of a test set, and what is wrong with it; `corpus` holds the contexts of
    other tools.
    """
    if form == "beir":
        from ragbench.testsets.beir_form import read_beir

        return read_beir(path)
    if form == "perspectives":
        from ragbench.testsets.perspectives import read_perspectives

        return read_perspectives(path)
    if form == "jsonl":
        from ragbench.testsets.single_file import read_single

        return read_single(path)
    if form in OTHER_FORMS:
        from ragbench.testsets.other_tools import read_other

        return read_other(path, form, corpus)
    from ragbench.testsets.case_lists import read_list

    return read_list(path, form)


def text_of(content: Content, form: str) -> str:
    """Return the file that holds a content, in the form "yaml" or "jsonl"."""
    from ragbench.testsets import case_lists, single_file

    try:
        return case_lists.yaml_text(content) if form == "yaml" else single_file.single_text(content)
    except (TypeError, ValueError) as exc:
        raise DataError(
            f"{content.name} holds metadata that cannot be written as plain data: {exc}"
        ) from exc


def content_of(dataset: Dataset) -> Content:
    """Return what a file holds of a dataset."""
    from ragbench.testsets.single_file import entry_of_case
    from ragbench.testsets.validation import Content

    entries = [entry_of_case(dataset, case) for case in dataset.cases]
    samples = list(dataset.safety_inputs), list(dataset.safety_outputs)
    return Content(dataset.name, dataset.split, "", dict(dataset.corpus), entries, *samples)
