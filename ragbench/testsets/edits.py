"""Add, replace and remove cases of a test set: the set is read under a lock, changed and saved as a
whole.

A reader finds the old set or the new one, and of two writers neither loses the cases of the other.
Adding cases leaves the rest of a YAML file unchanged; other changes write the file anew, and are
refused if that would lose comments.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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
    if not entries:
        return
    with _opened(path) as testset:
        testset.save([*testset.content.entries, *entries], appended=entries)


def replace_case(path: str | Path, case: Case, relevant: Mapping[str, int] | None = None) -> None:
    """Replace the case with the same id; `relevant` None keeps the relevant documents.

    Raises:
        DataError: the id is not there, the form cannot hold a label, or the set has problems;
            nothing is written.
    """
    with _opened(path) as testset:
        entries = list(testset.content.entries)
        position = testset.position_of(case.query_id)
        old = entries[position]
        grades = old.relevant if relevant is None else dict(relevant)
        quote_of = dict(old.evidence())  # evidence that stays keeps its quote
        quotes = tuple(quote_of.get(span) for span in case.evidence)
        entries[position] = Entry(case, grades, quotes=quotes)
        testset.save(entries)


def remove_case(path: str | Path, query_id: str) -> None:
    """Take a case out of a test set.

    Raises:
        DataError: the id is not there, or the set has problems; nothing is written.
    """
    with _opened(path) as testset:
        entries = list(testset.content.entries)
        del entries[testset.position_of(query_id)]
        testset.save(entries)


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


@dataclass(frozen=True)
class _OpenTestset:
    """A test set that is being edited: its file, form and content. Other writers wait."""

    path: Path
    form: str
    content: Content

    def position_of(self, query_id: str) -> int:
        """Return the position of a case; DataError if there is no case of this id."""
        ids = [entry.case.query_id for entry in self.content.entries]
        if query_id not in ids:
            hint = suggestion(query_id, ids, f"it has {len(ids)} cases")
            raise DataError(f"{self.path} has no case {shown(query_id)}; {hint}")
        return ids.index(query_id)

    def save(self, entries: Sequence[Entry], *, appended: Sequence[Entry] = ()) -> None:
        """Write the test set with these cases instead of its present ones.

        If the change only adds cases at the end, `appended` has them, so that the comments and the layout
        of a YAML file stay.

        Raises:
            DataError: the form cannot hold the change; nothing is written.
        """
        changed = replace(self.content, entries=list(entries))
        if self.form == "yaml":
            text = _yaml_text(self.path, changed, appended)
        else:
            text = text_of(changed, self.form)

        def check(written: Path) -> None:
            """Raise DataError if the written file does not read as the changed test set."""
            again = read(written, self.form)
            refuse(self.path, again.problems)
            if text_of(again, self.form) != text_of(changed, self.form):
                raise DataError(
                    f"{self.path} cannot hold the change in its layout; nothing is written: "
                    "edit it by hand, or convert it to jsonl"
                )

        # "": the text of the file itself, not of a file in a folder; `check` reads it before the move
        write_texts(self.path, {"": text}, check)


@contextmanager
def _opened(path: str | Path) -> Iterator[_OpenTestset]:
    """Read a test set for a change, and hold its lock until the block ends.

    Raises:
        DataError: the set has problems, or a form that is not edited.
    """
    testset = expanded(path).resolve()
    form = form_of(testset)
    if form not in ("yaml", "jsonl"):
        raise DataError(
            f"{testset} has the form {form!r}, which is not edited; convert it: `ragbench testset "
            "convert`"
        )
    # read within the lock, so that no change of another writer is lost
    with exclusive(testset):
        content = read(testset, form)
        refuse(testset, content.problems)
        yield _OpenTestset(testset, form, content)


def _yaml_text(testset: Path, changed: Content, appended: Sequence[Entry]) -> str:
    """Return the new text of a YAML file with the content `changed`.

    Cases that are only `appended` are put at the end of the old text, so that its comments and layout
    stay. For any other change, or if the layout cannot be extended, the whole text is written anew.

    Raises:
        DataError: writing the content anew would lose comments.
    """
    old_text = testset.read_text("utf-8-sig")
    text = text_of(changed, "yaml")
    if appended:
        with suppress(Exception):  # some layouts cannot be extended with ruamel.yaml
            text = extend_yaml(old_text, [yaml_case(case_line(entry)) for entry in appended])
    # a text that is written anew has no comments
    if count_comments(text) < count_comments(old_text):
        raise DataError(
            f"{testset} has comments, which would be lost; change it in an editor, or "
            "convert it to jsonl: `ragbench testset convert`"
        )
    return text
