"""Files whose cases are in one list: what the YAML form and the two JSON forms share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from ragbench.datasets.jsonl import shown
from ragbench.datasets.testsets.parser import Parsed
from ragbench.datasets.testsets.problems import Problem, meant, nearest
from ragbench.datasets.testsets.validation import Entry, Reading, check, once
from ragbench.types import Case, Document, Span

_HEAD = ("version", "name")


class CaseList(NamedTuple):
    """A form: the field that holds the list, the model of its items, and the way from item to entry and back.

    `record` takes a case, its relevant documents, the corpus, and quotes of documents that are elsewhere. `head` are
    the fields next to the list, in addition to version and name.
    """

    field: str
    model: type[BaseModel]
    entry: Callable[[Any], Entry]
    record: Callable[[Case, Mapping[str, int], Mapping[str, Document], Mapping[Span, str]], dict[str, Any]]
    head: tuple[str, ...] = ()


def read_list(parsed: Parsed, form: CaseList, file: str) -> Reading:
    """The cases of a parsed text: `{version, name, <field>: [...]}`, or the bare list."""
    reading = Reading(problems=list(parsed.problems))
    if not parsed.whole:
        return reading
    keys: tuple[str | int, ...] = ()
    items = parsed.value
    if isinstance(items, dict):
        _check_head(parsed, form, reading, file)
        if form.field not in items:
            return reading
        keys, items = (form.field,), items[form.field]
    if not isinstance(items, list):
        found = "the file is empty" if items is None and not keys else shown(items, 60)
        expected = f"{form.field}: a list of cases" if not keys else "a list of cases"
        reading.problems.append(Problem(parsed.line(keys), "".join(map(str, keys)), found, expected, file))
        return reading
    entries = []
    for number in range(len(items)):
        if (item := check(form.model, parsed, (*keys, number), reading, file)) is not None:
            entries.append(form.entry(item)._replace(line=parsed.line((*keys, number)), file=file))
    once(reading, entries)
    return reading


def head_and_list(name: str, form: CaseList, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What a new file holds."""
    return {"version": 1, "name": name, form.field: records}


def derived_id(text: str) -> str:
    """The id of a case that has none: it stays the same when other cases come and go.

    >>> derived_id("How do I install it?")
    'q-5d1c69e247'
    """
    return f"q-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"


def _check_head(parsed: Parsed, form: CaseList, reading: Reading, file: str) -> None:
    title = parsed.value.get("name")
    if title is not None and (not isinstance(title, str | int) or isinstance(title, bool)):
        reading.problems.append(Problem(parsed.line(("name",)), "name", shown(title), "a text", file))
    elif title is not None:
        reading.name = str(title)
    version = parsed.value.get("version")
    if isinstance(version, dict | list | bool):
        reading.problems.append(Problem(parsed.line(("version",)), "version", shown(version), "a number", file))
    known = (*_HEAD, *form.head, form.field)
    for name in parsed.value:
        if name not in known and nearest(name, known):
            expected = meant(name, known, f"one of {', '.join(known)}")
            reading.problems.append(Problem(parsed.line((name,)), name, "an unknown field", expected, file))
    if form.field not in parsed.value:
        reading.problems.append(Problem(1, form.field, "missing", "a list of cases", file))
