"""Add, replace and remove cases of a test set: the set is read under a lock, changed and saved as a
whole.

A reader finds the old set or the new one, and of two writers neither loses the cases of the other.
Adding cases leaves the rest of a YAML file unchanged; other changes write the file anew, and are
refused if that would lose comments.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.files import expanded
from ragbench.testsets.cases import Content, Entry, case_line
from ragbench.testsets.forms import form_of, read, text_of, yaml_case
from ragbench.testsets.located_data import Record, count_comments, extend_yaml
from ragbench.testsets.problems import refuse, suggestion
from ragbench.testsets.writer import exclusive, write_texts
from ragbench.types import Case


def add_case(path: str | Path, case: Case, relevant: Mapping[str, int] | None = None) -> None:
    """Put a new case at the end of a test set; `relevant` is doc_id -> grade.

    Raises:
        DataError: the id is there already, the form cannot hold a label, or the set has problems;
            nothing is written.
    """
    add_entries(path, [Entry(case, dict(relevant or {}))])


def add_entries(path: str | Path, entries: Sequence[Entry]) -> None:
    """Put new cases with their relevant documents at the end of a test set, as `add_case`."""
    if entries:
        _change(path, "", lambda _: entries)


def replace_case(path: str | Path, case: Case, relevant: Mapping[str, int] | None = None) -> None:
    """Replace the case with the same id; `relevant` None keeps the relevant documents.

    Raises:
        DataError: the id is not there, the form cannot hold a label, or the set has problems;
            nothing is written.
    """

    def replaced(entries: Sequence[Entry]) -> list[Entry]:
        """Return the changed case; evidence that stays keeps its quote."""
        [old] = entries
        quote_of = dict(old.evidence())
        grades = old.relevant if relevant is None else dict(relevant)
        quotes = tuple(quote_of.get(span) for span in case.evidence)
        return [Entry(case, grades, quotes=quotes)]

    _change(path, case.query_id, replaced)


def remove_case(path: str | Path, query_id: str) -> None:
    """Take a case out of a test set.

    Raises:
        DataError: the id is not there, or the set has problems; nothing is written.
    """
    _change(path, query_id, lambda old: [])


def record_entry(record: Mapping[str, Any]) -> Entry:
    """Return a case and its relevant documents from plain data.

    >>> record_entry({"query_id": "q1", "text": "Why?", "relevant": {"d1": 2}}).relevant
    {'d1': 2}

    Raises:
        DataError: fields are wrong; all of them are named.
    """
    content = Content()
    content.add([Record(dict(record), "the case")])
    refuse("the case", content.problems)
    return content.entries[0]


def _change(
    path: str | Path, query_id: str, change: Callable[[Sequence[Entry]], Sequence[Entry]]
) -> None:
    """Replace the entry of a case by the entries that `change([entry])` returns ([] deletes it); for the
    id "", append those of `change([])`.

    Raises:
        DataError: the case does not exist, the set has problems, or its form cannot hold the change;
            nothing is written.
    """
    testset = expanded(path).resolve()
    form = form_of(testset)
    if form not in ("yaml", "jsonl"):
        raise DataError(
            f"{testset} has the form {form!r}, which is not edited; convert it: `ragbench testset "
            "convert`"
        )
    with exclusive(testset):
        content = read(testset, form)
        refuse(testset, content.problems)
        entries = content.entries
        ids = [entry.case.query_id for entry in entries]
        if query_id and query_id not in ids:
            hint = suggestion(query_id, ids, f"it has {len(ids)} cases")
            raise DataError(f"{path} has no case {shown(query_id)}; {hint}")
        position = ids.index(query_id) if query_id else len(ids)
        before = entries[:position]
        old = entries[position : position + 1]  # [] behind the last case
        after = entries[position + 1 :]
        new = change(old)
        changed = replace(content, entries=[*before, *new, *after])
        if form == "yaml":
            appended = [] if query_id else new
            text = _yaml_text(testset, changed, appended)
        else:
            text = text_of(changed, form)

        def check(written: Path) -> None:
            """Raise DataError if the written file does not read as the changed test set."""
            again = read(written, form)
            refuse(testset, again.problems)
            if text_of(again, form) != text_of(changed, form):
                raise DataError(
                    f"{testset} cannot hold the change in its layout; nothing is written: "
                    "edit it by hand, or convert it to jsonl"
                )

        write_texts(testset, {"": text}, check)


def _yaml_text(testset: Path, changed: Content, appended: Sequence[Entry]) -> str:
    """Return the new text of a YAML file.

    With `appended` cases, the old text is extended, so that its comments and layout stay. Other
    changes, and layouts that cannot be extended, write the whole content anew.

    Raises:
        DataError: writing the content anew would lose comments.
    """
    old_text = testset.read_text("utf-8-sig")
    text = text_of(changed, "yaml")
    if appended:
        with suppress(Exception):  # layouts with which ruamel.yaml has trouble
            text = extend_yaml(old_text, [yaml_case(case_line(entry)) for entry in appended])
    if count_comments(text) < count_comments(old_text):
        raise DataError(
            f"{testset} has comments, which would be lost; change it in an editor, or "
            "convert it to jsonl: `ragbench testset convert`"
        )
    return text
