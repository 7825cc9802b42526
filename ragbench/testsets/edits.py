"""One case put into a test set, changed or taken out: the set is read under a lock, changed and
saved as a whole.

A reader finds the old set or the new one, and of two writers neither loses the cases of the other.
(Of a folder there is a moment between two renames when it is not there.) Comments of a YAML file
stay; a change that would lose some is refused.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.files import expanded, locked, staged
from ragbench.testsets.assembly import check_evidence
from ragbench.testsets.case_lists import yaml_record, yaml_text
from ragbench.testsets.forms import WRITTEN, form_of, read, text_of
from ragbench.testsets.parser import dump_yaml, parse_json, yaml_comments
from ragbench.testsets.problems import nearest, refuse
from ragbench.testsets.single_file import CASE_FIELDS, OwnCase, case_line, entry_of_case
from ragbench.testsets.validation import Content, Entry, check, entry_of
from ragbench.testsets.writer import case_texts, unwritable
from ragbench.types import Case, Dataset

_WAIT_S = 60.0


def add_case(
    path: str | Path, case: Case, relevant: Mapping[str, int] | None = None, *, force: bool = False
) -> None:
    """Put a new case at the end of a test set; `relevant` is doc_id -> grade.

    Raises:
        DataError: the id is there already, the form cannot hold a label, or the set has problems;
        nothing is written.
    """
    add_entries(path, [Entry(case, dict(relevant or {}))], force=force)


def add_entries(path: str | Path, entries: Sequence[Entry], *, force: bool = False) -> None:
    """Put new cases with their relevant documents at the end of a test set, as `add_case`."""
    with _locked(path) as place:
        content = _content(place)
        ids = {entry.case.query_id for entry in content.entries}
        for query_id in (entry.case.query_id for entry in entries):
            if query_id in ids:
                raise DataError(
                    f"{place} has a case {query_id!r} already; give the new one another id, or "
                    "change that one"
                )
        _save(place, content, [*content.entries, *entries], force=force)


def replace_case(
    path: str | Path, case: Case, relevant: Mapping[str, int] | None = None, *, force: bool = False
) -> None:
    """Put a case in the place of the one with its id; `relevant` None keeps the documents of that
    one.

    Args:
        force: write also where that loses comments of a YAML file.

    Raises:
        DataError: the id is not there, the form cannot hold a label, or the set has problems;
        nothing is written.
    """
    with _locked(path) as place:
        content = _content(place)
        number = _number(content, case.query_id, place)
        _replace(place, content, number, case, relevant, force=force)


def remove_case(path: str | Path, query_id: str, *, force: bool = False) -> None:
    """Take a case out of a test set, with its labels in every file.

    Raises:
        DataError: the id is not there, or the set has problems; nothing is written.
    """
    with _locked(path) as place:
        content = _content(place)
        number = _number(content, query_id, place)
        _save(place, content, content.entries[:number] + content.entries[number + 1 :], force=force)


def change_case(
    path: str | Path,
    query_id: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    force: bool = False,
) -> None:
    """Replace a case by what `change` makes of its record (see `case_record`), read under the same
    lock.

    Raises:
        DataError: as for `replace_case`, or the new record is not what it should be.
    """
    with _locked(path) as place:
        content = _content(place)
        number = _number(content, query_id, place)
        case, relevant = record_case(change(case_line(content.entries[number])))
        if case.query_id != query_id:
            raise DataError(
                f"the id of a case stays: {query_id!r}; remove it and add one with another id"
            )
        _replace(place, content, number, case, relevant, force=force)


def case_record(dataset: Dataset, query_id: str) -> dict[str, Any]:
    """Return a case with its relevant documents as plain data, the fields named as in ragbench's
    own form.
    """
    for case in dataset.cases:
        if case.query_id == query_id:
            return case_line(entry_of_case(dataset, case))
    raise _absent([case.query_id for case in dataset.cases], query_id, dataset.name)


def record_case(record: Mapping[str, Any]) -> tuple[Case, dict[str, int]]:
    """Return a case and its relevant documents from plain data; unknown fields are problems.

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
    content = Content()
    try:  # one way in for everything from outside
        parsed = parse_json(json.dumps(dict(record)), "the case", content.problems, line=1)
    except (TypeError, ValueError) as exc:
        raise DataError(f"{shown(record)} is not plain data: {exc}") from exc
    item = check(OwnCase, parsed, content)
    refuse("the case", content.problems)
    if content.unknown or item is None:
        raise DataError(
            f"{', '.join(content.unknown)}: no label of a case; expected one "
            f"of {', '.join(CASE_FIELDS)}; anything else goes into metadata"
        )
    entry = entry_of(item, parsed)
    return entry.case, entry.relevant


def _content(place: Path) -> Content:
    if (form := form_of(place)) not in WRITTEN:
        raise DataError(
            f"{place} has the form {form!r}, which is read only; convert it: `ragbench testset "
            "convert`"
        )
    content = read(place, form)
    refuse(place, content.problems)
    return content


def _number(content: Content, query_id: str, place: Path) -> int:
    ids = [entry.case.query_id for entry in content.entries]
    if query_id not in ids:
        raise _absent(ids, query_id, place)
    return ids.index(query_id)


def _replace(
    place: Path,
    content: Content,
    number: int,
    case: Case,
    relevant: Mapping[str, int] | None,
    *,
    force: bool,
) -> None:
    """Save a content with another case of that number; quotes of evidence that stays, stay."""
    old = content.entries[number]
    quotes = dict(zip(old.case.evidence, old.quotes, strict=False))
    grades = old.relevant if relevant is None else dict(relevant)
    entry = Entry(case, grades, quotes=tuple(quotes.get(span) for span in case.evidence))
    entries = [*content.entries[:number], entry, *content.entries[number + 1 :]]
    _save(place, content, entries, force=force)


def _save(place: Path, before: Content, entries: Sequence[Entry], *, force: bool) -> None:
    """Save a content with these entries; what is written is read again and compared first."""
    form, content = form_of(place), replace(before, entries=list(entries))
    try:
        with staged(place) as new:
            if form == "yaml":
                new.write_text(
                    _yaml_text(place, before, content, force), encoding="utf-8", newline=""
                )
            elif form == "beir":
                _write_folder(place, new, before, content)
            else:
                new.write_text(text_of(content, form), encoding="utf-8", newline="")
            try:
                again = read(new, form)
                refuse(place, again.problems + check_evidence(again, again.documents))
            except DataError as exc:
                raise DataError(
                    f"nothing is written, because then: {str(exc).replace(str(new), str(place))}"
                ) from exc
            if [_labels(entry) for entry in again.entries] != [_labels(entry) for entry in entries]:
                raise DataError(
                    f"{place} cannot hold the change as it is (its layout, or a label that the "
                    "form holds in another way); nothing is written: edit it by hand, or convert "
                    "it to jsonl"
                )
    except UnicodeEncodeError as exc:
        raise DataError(f"{place}: half of a surrogate pair cannot be written to a file") from exc
    except OSError as exc:
        raise unwritable(place, exc) from exc


def _labels(entry: Entry) -> tuple[Case, dict[str, int]]:
    return entry.case, entry.relevant


def _yaml_text(place: Path, before: Content, content: Content, force: bool) -> str:
    """Return the text of a YAML file with other cases, and all of its comments."""
    text = place.read_bytes().decode("utf-8-sig")
    old = {entry.case.query_id: yaml_record(entry) for entry in before.entries}
    new = {entry.case.query_id: yaml_record(entry) for entry in content.entries}
    ids = [entry.case.query_id for entry in before.entries]

    def change(head: Any) -> None:
        items = head["cases"] if isinstance(head, dict) else head
        for number in reversed(range(len(ids))):
            record = new.get(ids[number])
            if record is None:
                del items[number]
            elif record != old[ids[number]]:
                _update(items[number], old[ids[number]], record)
        items.extend(record for query_id, record in new.items() if query_id not in old)

    try:
        changed = dump_yaml(text, change=change)
    except (
        Exception
    ):  # layouts with which ruamel.yaml has trouble, and fields that are merged with <<
        changed = yaml_text(content)
    lost = Counter(yaml_comments(text)) - Counter(yaml_comments(changed))
    if lost and not force:
        raise DataError(
            f"{place} cannot be changed without losing the comment {shown(next(iter(lost)))}; "
            "change it by hand, or with force=True"
        )
    return changed


def _update(item: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Change the fields of an item that differ; the others keep their form and comments."""
    for name in [name for name in item if name not in new]:
        del item[name]
    for name, value in new.items():
        if name not in item or old.get(name) != value:
            item[name] = value


def _write_folder(place: Path, new: Path, before: Content, content: Content) -> None:
    """Write a BEIR folder again; its documents, and what is not of test sets, stay."""
    shutil.copytree(place, new, copy_function=_link)
    cases = tuple(entry.case for entry in content.entries)
    qrels = {entry.case.query_id: entry.relevant for entry in content.entries}
    texts = case_texts(Dataset(content.name, content.split, content.documents, cases, qrels))
    removed = {entry.case.query_id for entry in before.entries} - qrels.keys()
    for path in new.glob("qrels/*.tsv"):
        rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
        texts.setdefault(
            f"qrels/{path.name}", "".join(r for r in rows if r.partition("\t")[0] not in removed)
        )
    for name, text in texts.items():
        (new / name).unlink(missing_ok=True)  # on the disk it is the one of the old folder
        if text:
            (new / name).write_text(text, encoding="utf-8", newline="\n")


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


@contextmanager
def _locked(path: str | Path) -> Iterator[Path]:
    place = expanded(path).resolve()
    lock_file = place.with_name(f".{place.name}.lock")
    if not lock_file.exists():  # where it does, a writer may be between its two renames
        form_of(place)
    try:
        with locked(lock_file, timeout_s=_WAIT_S):
            yield place
    except TimeoutError as exc:
        raise DataError(
            f"{place} has been locked by another writer for {_WAIT_S:.0f} s; try again later"
        ) from exc
    except OSError as exc:
        raise DataError(
            f"{place} could not be changed: {exc.strerror or exc}; check the rights of its folder"
        ) from exc


def _absent(ids: Sequence[str], query_id: str, place: Path | str) -> DataError:
    near = nearest(query_id, ids)
    hint = f"; did you mean {near!r}?" if near else f"; it has {len(ids)} cases"
    return DataError(f"{place} has no case {shown(query_id)}{hint}")
