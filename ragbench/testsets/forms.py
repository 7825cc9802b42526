"""Test sets in the forms that teams have them in: read, checked, written and converted. No label is lost silently.

=============  ==================================================================================================
yaml           `cases: [{id, query, expected_chunks: [{doc_id, section}], expected_answer_contains}]`, and all of jsonl
json           `[{id, question, expectedAnswer, requiredKeywords, expectedDocumentId, category}]`
json-cases     `test_cases: [{query, expected_answer, expected_sources, category}]`
perspectives   a folder of JSONL files, joined by `case_id`: cases, retrieval_labels, context_labels, ...
beir           a folder with corpus.jsonl, queries.jsonl and qrels/<split>.tsv; what BEIR lacks is in labels.jsonl
jsonl          ragbench's own: one file, every label, the documents and the safety samples
=============  ==================================================================================================

Those of other tools (ragas, deepeval, promptfoo, langsmith, llamaindex, table) are in `other_tools`.
Each is described in the module of its name. Every form keeps fields that it does not know as metadata of the case,
with a warning; one that looks like a misspelt label is a problem.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.datasets.corpus import load_corpus as load_corpus  # one of the names of ragbench.testsets
from ragbench.datasets.records import warn
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.files import expanded
from ragbench.testsets.fields import TABLES
from ragbench.testsets.problems import refuse
from ragbench.testsets.sections import Heading, locate
from ragbench.testsets.writer import check_free, save_dataset, write_texts
from ragbench.types import Case, Dataset, Document

if TYPE_CHECKING:
    from ragbench.testsets.validation import Content

OTHER_FORMS = {
    "ragas": (".jsonl",),
    "deepeval": (".json",),
    "promptfoo": (".yaml", ".yml"),
    "langsmith": (".jsonl",),
    "llamaindex": (".json",),
    "table": (".csv", ".tsv"),
}
"""Form -> how the name of its file ends when it is written."""

FORMS = ("yaml", "json", "json-cases", "perspectives", "beir", "jsonl")

_LABELS = tuple(each.name for each in fields(Case) if each.name not in ("query_id", "text", "metadata"))
_HELD: Mapping[str, Collection[str]] = {
    "json": ("category", "reference_answer", "required_keywords"),
    "json-cases": ("category", "reference_answer"),
    "perspectives": {*_LABELS} - {"evidence"},
    **dict.fromkeys(("ragas", "deepeval", "llamaindex"), ("reference_answer", "evidence")),
    **dict.fromkeys(("langsmith", "table"), ("reference_answer",)),
    "promptfoo": ("reference_answer", "required_keywords"),
}
"""The labels that a form can hold, where it cannot hold all of them."""

_LISTS = ("json", "json-cases", *OTHER_FORMS)

PERSPECTIVE_FILES = (
    "cases.jsonl", "retrieval_labels.jsonl", "context_labels.jsonl", "groundedness_labels.jsonl",
    "pipeline_labels.jsonl", "safety_inputs.jsonl", "safety_outputs.jsonl",
)  # fmt: skip
"""The files of a folder by perspective, any of which may be missing."""

_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonl": "jsonl"}
_EXPECTED = (
    "a .yaml, .json or .jsonl file, a folder with cases.jsonl or safety_inputs.jsonl, or a BEIR folder "
    "(corpus.jsonl, queries.jsonl, qrels/)"
)


def save_testset(dataset: Dataset, path: str | Path, form: str, *, force: bool = False) -> Path:
    """Write a test set, complete or not at all, and give its path. `load_testset` reads back what the form can hold.

    What it cannot hold is left out with one DataWarning for each kind. What is written has been read again before.

    Args:
        form: one of `FORMS`, or of `OTHER_FORMS`.
        force: replace what is there. A folder that holds anything else than a test set is never replaced.

    Raises:
        ConfigError: there is no such form.
        DataError: something is there already, or the content cannot be written in this form.
    """
    target = expanded(path)
    lost = losses(dataset, form)
    _check_place(target, form, force)
    if form == "beir":
        if not dataset.corpus:
            raise DataError(
                f"{dataset.name} has no documents, which a BEIR folder needs; give them (corpus=, --corpus)"
            )
        extra = {}
        if dataset.name != target.resolve().name:
            extra = {"testset.json": json.dumps({"name": dataset.name}, ensure_ascii=False) + "\n"}
        return save_dataset(dataset, target, force=force, extra=extra)
    for what, ids in lost.items():
        warn(f"saving {dataset.name} as {form}", what, ids)

    def check(new: Path) -> None:
        refuse(f"{dataset.name} as {form}", read(new, form).problems)

    if form in OTHER_FORMS:
        from ragbench.testsets.other_tools import other_text

        return write_texts(target, {"": other_text(dataset, form, target.suffix.lower())}, check)
    return write_texts(target, texts_of(content_of(dataset), form), check)


def is_testset(path: Path) -> bool:
    """Return True if a file or folder has the name or the files of a test set, other than a BEIR folder."""
    if path.is_dir():
        return not (path / "queries.jsonl").is_file() and any((path / file).is_file() for file in PERSPECTIVE_FILES)
    return path.suffix.lower() in (*SUFFIXES, *TABLES) and path.name not in _BEIR_FILES


def form_of(path: str | Path) -> str:
    """Which of the `FORMS` the test set at a place has. For a JSON file the content decides which of the two.

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


def suffix_form(path: str | Path, source_form: str = "") -> str:
    """The form that the name of a new file asks for; .json keeps the JSON form of the source.

    >>> suffix_form("a.yml"), suffix_form("a.json"), suffix_form("a.json", "json-cases")
    ('yaml', 'json', 'json-cases')

    Raises:
        ConfigError: the name matches no form.
    """
    suffix = Path(path).suffix.lower()
    form = "table" if suffix in TABLES else SUFFIXES.get(suffix, "")
    if not form:
        raise ConfigError(f"{str(path)!r} is the name of no form; name one: --to {', '.join(FORMS)}")
    return source_form if form == "json" and source_form == "json-cases" else form


def losses(dataset: Dataset, form: str) -> dict[str, list[str]]:
    """What this form cannot hold of a dataset: a sentence -> the ids of what loses it. Empty where nothing is lost.

    >>> from ragbench.types import Case
    >>> case = Case("q1", "?", category="geo", user_roles=("admin",))
    >>> losses(Dataset("d", "test", {}, (case,), {}), "json")
    {'cases lose their user_roles': ['q1']}

    Raises:
        ConfigError: there is no such form.
    """
    if form not in (*FORMS, *OTHER_FORMS):
        raise ConfigError(unknown("form", form, (*FORMS, *OTHER_FORMS)))
    found: dict[str, list[str]] = {}
    for label in (label for label in _LABELS if label not in _HELD.get(form, _LABELS)):
        if label == "evidence":
            ids = _without_sections(dataset)
        else:
            ids = [case.query_id for case in dataset.cases if getattr(case, label) not in ("", None, (), {})]
        if ids:
            found[f"cases lose their {label}"] = ids
    top = 1 if form in _LISTS else 3
    if form in (*_LISTS, "perspectives"):
        grades = [q for q, judged in dataset.qrels.items() if any(_unlike(grade, top) for grade in judged.values())]
        what = (
            "grade above 1 becomes 1, and what is not relevant is left out" if top == 1 else "grade is kept in 0 to 3"
        )
        found |= {f"cases lose grades of documents: each {what}": grades} if grades else {}
    if form == "perspectives":
        chunks = [c.query_id for c in dataset.cases if any(_unlike(grade, 3) for grade in c.relevant_chunks.values())]
        found |= {"cases lose grades of chunks: each is kept in 0 to 3": chunks} if chunks else {}
    empty = [case.query_id for case in dataset.cases if case.reference_answer == ""]
    if form in _LISTS and empty:
        found["cases lose their reference_answer, which is empty"] = empty
    if form in _LISTS and dataset.corpus:
        found["documents are not in the file: give them when it is loaded (corpus=, --corpus)"] = list(dataset.corpus)
    if form in _LISTS:
        samples = [sample.sample_id for sample in (*dataset.safety_inputs, *dataset.safety_outputs)]
        found |= {"safety samples are lost": samples} if samples else {}
    return found


def read(path: Path, form: str, corpus: Mapping[str, Document] | None = None) -> Content:
    """Return the content of a test set, and what is wrong with it; `corpus` holds the contexts of other tools."""
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


def texts_of(content: Content, form: str) -> dict[str, str]:
    """Return file name -> text of what holds a content, in a form of ours; "" is the name of the only file."""
    from ragbench.testsets import case_lists, perspectives, single_file

    try:
        if form == "perspectives":
            return perspectives.perspective_texts(content)
        return single_file.single_texts(content) if form == "jsonl" else case_lists.list_texts(content, form)
    except (TypeError, ValueError) as exc:
        raise DataError(f"{content.name} holds metadata that cannot be written as plain data: {exc}") from exc


def content_of(dataset: Dataset) -> Content:
    """Return what a file holds of a dataset."""
    from ragbench.testsets.single_file import entry_of_case
    from ragbench.testsets.validation import Content

    entries = [entry_of_case(dataset, case) for case in dataset.cases]
    samples = list(dataset.safety_inputs), list(dataset.safety_outputs)
    return Content(dataset.name, dataset.split, "", dict(dataset.corpus), entries, *samples)


def _check_place(target: Path, form: str, force: bool) -> None:
    if form == "beir":
        return check_free(target, force)
    there = os.path.lexists(target)
    if form == "perspectives" and target.is_dir():
        inside = sorted(path.name for path in target.iterdir())
        if foreign := [name for name in inside if name not in (*PERSPECTIVE_FILES, "corpus.jsonl")]:
            raise DataError(f"{target} holds {foreign[0]!r}, which is not part of a test set: it is not replaced")
        there = bool(inside)
    elif target.is_dir() or (there and form == "perspectives"):
        kind = "folder" if target.is_dir() else "file"
        raise DataError(f"{target} is a {kind}, which the form {form!r} is not: it is not replaced")
    if there and not force:
        raise DataError(f"{target} is there already; name another place, or replace it with --force (force=True)")
    if form in OTHER_FORMS:
        if target.suffix.lower() not in OTHER_FORMS[form]:
            ends = ", ".join(OTHER_FORMS[form])
            raise ConfigError(
                f"{target.name!r} cannot be the name of a test set in the form {form!r}; end it in {ends}"
            )
    elif form != "perspectives" and SUFFIXES.get(target.suffix.lower(), "")[:4] != form[:4]:
        known = ", ".join(suffix for suffix, found in SUFFIXES.items() if found[:4] == form[:4])
        raise ConfigError(f"{target.name!r} cannot be the name of a test set in the form {form!r}; end it in {known}")
    return None


def _unlike(grade: int, top: int) -> bool:
    return grade != 1 if top == 1 else not 0 <= grade <= top


def _without_sections(dataset: Dataset) -> list[str]:
    """The cases with evidence that is not that of their sections, which come back where the documents are known."""
    headings: dict[str, list[Heading]] = {}
    found = []
    for case in dataset.cases:
        spans = set(case.evidence)
        for doc_id, section in case.expected_sections if spans else ():
            if doc_id in dataset.corpus and (place := locate(dataset.corpus[doc_id], section, headings)):
                spans.discard(place.span)
        if spans:
            found.append(case.query_id)
    return found
