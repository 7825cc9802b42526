"""One case put into a test set, changed or taken out: the set is read under a lock, changed and
saved as a whole.

A reader finds the old set or the new one, and of two writers neither loses the cases of the other.
New cases leave the rest of a YAML file as it is; other changes write it anew, which is refused
where that would lose comments.
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
from ragbench.testsets.parser import Record, count_comments, extend_yaml
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
    """Put a case in the place of the one with its id; `relevant` None keeps the documents of that
    one.

    Raises:
        DataError: the id is not there, the form cannot hold a label, or the set has problems;
            nothing is written.
    """

    def replaced(old: Sequence[Entry]) -> list[Entry]:
        quotes = dict(old[0].evidence())
        grades = old[0].relevant if relevant is None else dict(relevant)
        return [Entry(case, grades, quotes=tuple(map(quotes.get, case.evidence)))]

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
        DataError: a field is not what it should be; all that are wrong are named.
    """
    content = Content()
    content.add([Record(dict(record), "the case")])
    refuse("the case", content.problems)
    return content.entries[0]


def _change(
    path: str | Path, query_id: str, change: Callable[[Sequence[Entry]], Sequence[Entry]]
) -> None:
    """Save a test set with what `change` makes of the case of that id, or of none at its end."""
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
        before, ids = content.entries, [entry.case.query_id for entry in content.entries]
        if query_id and query_id not in ids:
            hint = suggestion(query_id, ids, f"it has {len(ids)} cases")
            raise DataError(f"{path} has no case {shown(query_id)}; {hint}")
        at = ids.index(query_id) if query_id else len(ids)
        new = change(before[at : at + 1])
        after = replace(content, entries=[*before[:at], *new, *before[at + 1 :]])
        text = text_of(after, form)
        if form == "yaml":
            old = testset.read_text("utf-8-sig")
            if not query_id:
                with suppress(Exception):  # layouts with which ruamel.yaml has trouble
                    text = extend_yaml(old, [yaml_case(case_line(entry)) for entry in new])
            if count_comments(text) < count_comments(old):
                raise DataError(
                    f"{testset} has comments, which would be lost; change it in an editor, or "
                    "convert it to jsonl: `ragbench testset convert`"
                )

        def check(written: Path) -> None:
            again = read(written, form)
            refuse(testset, again.problems)
            if text_of(again, form) != text_of(after, form):
                raise DataError(
                    f"{testset} cannot hold the change in its layout; nothing is written: "
                    "edit it by hand, or convert it to jsonl"
                )

        write_texts(testset, {"": text}, check)
