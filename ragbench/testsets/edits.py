"""One case put into a test set, changed or taken out: in one step, and with nothing else touched.

The file is read under a lock, changed, read again as changed, and swapped in whole: a reader finds the old set or the
new one, and of two writers neither loses the cases of the other. (Of a folder there is a moment between two renames
when it is not there.) The rest of the file stays as it is, comments and layout too (see `patches`); what would lose a
comment of a case that stays is refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError, DataWarning
from ragbench.files import expanded, locked, staged
from ragbench.testsets import patches
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.forms import OTHER_FORMS, form_of, load_testset, losses
from ragbench.testsets.parser import parse_json
from ragbench.testsets.problems import nearest, refuse
from ragbench.testsets.single_file import CASE_FIELDS, OwnCase, own_record
from ragbench.testsets.validation import Entry, Reading, check, entry_of
from ragbench.testsets.writer import unwritable
from ragbench.types import Case, Dataset, Document

_WAIT_S = 60.0


def add_case(path: str | Path, case: Case, relevant: Mapping[str, int] | None = None, *, force: bool = False) -> None:
    """Put a new case at the end of a test set; `relevant` is doc_id -> grade.

    Raises:
        DataError: the id is there already, the form cannot hold a label, or the set has problems; nothing is written.
    """
    _edit(path, case.query_id, case, relevant or {}, new=True, force=force)


def replace_case(
    path: str | Path, case: Case, relevant: Mapping[str, int] | None = None, *, force: bool = False
) -> None:
    """Put a case in the place of the one with its id; `relevant` None keeps the documents of that one.

    Args:
        force: write also where that loses comments of a YAML file.

    Raises:
        DataError: the id is not there, the form cannot hold a label, or the set has problems; nothing is written.
    """
    _edit(path, case.query_id, case, relevant, new=False, force=force)


def remove_case(path: str | Path, query_id: str, *, force: bool = False) -> None:
    """Take a case out of a test set, with its labels in every file.

    Raises:
        DataError: the id is not there, or the set has problems; nothing is written.
    """
    _edit(path, query_id, None, None, new=False, force=force)


def change_case(
    path: str | Path, query_id: str, change: Callable[[dict[str, Any]], dict[str, Any]], *, force: bool = False
) -> None:
    """Replace a case by what `change` makes of its record (see `case_record`), read under the same lock.

    Raises:
        DataError: as for `replace_case`, or the new record is not what it should be.
    """
    with _locked(path) as place:
        dataset = _load(place)
        case, relevant = record_case(change(case_record(dataset, query_id)))
        if case.query_id != query_id:
            raise DataError(f"the id of a case stays: {query_id!r}; remove it and add one with another id")
        _write(place, dataset, query_id, case, relevant, force=force)


def case_record(dataset: Dataset, query_id: str) -> dict[str, Any]:
    """A case with its relevant documents as plain data, the fields named as in ragbench's own form."""
    for case in dataset.cases:
        if case.query_id == query_id:
            return own_record(case, dataset.qrels.get(query_id, {}), dataset.corpus)
    raise _absent(dataset, query_id)


def record_case(record: Mapping[str, Any]) -> tuple[Case, dict[str, int]]:
    """A case and its relevant documents from plain data; unknown fields are problems.

    >>> record_case({"query_id": "q1", "text": "Why?", "relevant": {"d1": 2}})[1]
    {'d1': 2}
    >>> record_case({"query_id": "q1", "text": "Why?", "relevent": {"d1": 2}})
    Traceback (most recent call last):
    ragbench.errors.DataError: the case, line 1: relevent is an unknown field; expected one of query_id, text, \
category, query_type, reference_answer, relevant, evidence, gold_facts, required_keywords, expected_claims, \
forbidden_claims, expected_citations, expected_outcome, expected_sections, expected_chunks, relevant_chunks, \
required_flags, forbidden_flags, min_citations, latency_budget_ms, user_roles, metadata (did you mean 'relevant'?)

    Raises:
        DataError: a field is not what it should be; all that are wrong are named.
    """
    reading = Reading()
    try:
        parsed = parse_json(json.dumps(dict(record)), "the case")  # one way in for everything from outside
    except (TypeError, ValueError) as exc:
        raise DataError(f"{shown(record)} is not plain data: {exc}") from exc
    item = check(OwnCase, parsed, (), reading)
    refuse("the case", [*parsed.problems, *reading.problems])
    if reading.unknown or item is None:
        raise DataError(
            f"{', '.join(reading.unknown)}: no label of a case; expected one of {', '.join(CASE_FIELDS)}; "
            "anything else goes into metadata"
        )
    entry = entry_of(item)
    return entry.case, entry.relevant


def _edit(
    path: str | Path, query_id: str, case: Case | None, relevant: Mapping[str, int] | None, *, new: bool, force: bool
) -> None:
    with _locked(path) as place:
        dataset = _load(place)
        there = {found.query_id for found in dataset.cases}
        if new and query_id in there:
            raise DataError(f"{place} has a case {query_id!r} already; give the new one another id, or edit that one")
        if not new and query_id not in there:
            raise _absent(dataset, query_id, place)
        if relevant is None:
            relevant = dataset.qrels.get(query_id, {})
        _write(place, dataset, query_id, case, relevant, force=force)


def _write(
    place: Path, dataset: Dataset, query_id: str, case: Case | None, relevant: Mapping[str, int], *, force: bool
) -> None:
    form = form_of(place)
    if form in OTHER_FORMS:
        raise DataError(f"{place} is of another tool ({form}); convert it first: `ragbench testset convert`")
    if case is not None:
        entry = DocumentIds(dataset.corpus).in_entry(Entry(case, dict(relevant)))
        case, relevant = entry.case, entry.relevant
        single = Dataset(dataset.name, dataset.split, dataset.corpus, (case,), {query_id: dict(relevant)})
        lost = losses(single, form)
        lost = {what: ids for what, ids in lost.items() if not what.startswith("documents ")}
        if lost:
            raise DataError(
                f"the form {form!r} of {place} cannot hold this: {'; '.join(lost)}; leave the label out, or convert "
                "the set to jsonl first"
            )
    try:
        with staged(place) as new:
            patches.write_patched(place, new, form, query_id, case, relevant, force=force)
            try:
                changed = _load(new, dataset.corpus)  # what the file refers to is not next to this copy
            except DataError as exc:
                raise DataError(f"nothing is written, because then: {str(exc).replace(str(new), str(place))}") from exc
            _check_change(changed, dataset, query_id, case, relevant, place)
    except UnicodeEncodeError as exc:
        raise DataError(f"case {query_id!r} holds half of a surrogate pair, which cannot be written to a file") from exc
    except OSError as exc:
        raise unwritable(place, exc) from exc


def _check_change(
    changed: Dataset, before: Dataset, query_id: str, case: Case | None, relevant: Mapping[str, int], place: Path
) -> None:
    """What is about to be swapped in is what was asked for, in any layout of the file."""
    cases = {found.query_id: found for found in changed.cases}
    others = [found for found in before.cases if found.query_id != query_id]
    right = [found for found in changed.cases if found.query_id != query_id] == others
    right = right and all(changed.qrels.get(c.query_id) == before.qrels.get(c.query_id) for c in others)
    if case is None:
        right = right and query_id not in cases
    else:
        right = right and query_id in cases and changed.qrels.get(query_id) == dict(relevant)
        right = right and replace(cases[query_id], evidence=()) == replace(case, evidence=())
    if not right:
        raise DataError(
            f"{place} could not be changed in this one case without changing others (its layout, or a label that the "
            "form holds in another way); nothing is written: edit it by hand, or convert it to jsonl"
        )


def _load(place: Path, corpus: Mapping[str, Document] | None = None) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # flaws of the other cases were reported when the set was loaded
        return load_testset(place, corpus=corpus)


@contextmanager
def _locked(path: str | Path) -> Iterator[Path]:
    place = expanded(path).resolve()
    lock_file = place.with_name(f".{place.name}.lock")
    if not lock_file.exists():  # where it does, a writer may be between its two renames
        form_of(place)
    try:
        with locked(lock_file, timeout_s=_WAIT_S):
            form_of(place)
            yield place
    except TimeoutError as exc:
        raise DataError(f"{place} has been locked by another writer for {_WAIT_S:.0f} s; try again later") from exc
    except OSError as exc:
        raise DataError(f"{place} could not be changed: {exc.strerror or exc}; check the rights of its folder") from exc


def _absent(dataset: Dataset, query_id: str, place: Path | None = None) -> DataError:
    near = nearest(query_id, [case.query_id for case in dataset.cases])
    hint = f"; did you mean {near!r}?" if near else f"; it has {len(dataset.cases)} cases"
    return DataError(f"{place or dataset.name} has no case {shown(query_id)}{hint}")
