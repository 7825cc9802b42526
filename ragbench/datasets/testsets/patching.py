"""A copy of a test set with one case put in, changed or taken out, in each of the forms."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.beir import load_beir_folder
from ragbench.datasets.testsets import (
    PERSPECTIVE_FILES,
    json_forms,
    parsing,
    perspectives,
    single_file,
    splicing,
    yaml_form,
)
from ragbench.datasets.testsets.beir_form import beir_split
from ragbench.datasets.testsets.checking import Reading
from ragbench.datasets.testsets.lists import CaseList, derived_id
from ragbench.datasets.writing import CASE_FILES, record_lines
from ragbench.errors import DataError
from ragbench.types import Case, Span

_BOM = b"\xef\xbb\xbf"


def write_patched(
    place: Path, new: Path, form: str, query_id: str, case: Case | None, relevant: Mapping[str, int], *, force: bool
) -> None:
    """Write to `new` what `place` holds, but for this case; `case` None takes it out."""
    if form == "perspectives":
        records: dict[str, dict[str, Any]] = {file: {} for file in PERSPECTIVE_FILES[:5]}
        if case is not None:
            records = perspectives.perspective_records(case, relevant)
        lines = {file: [single_file.line(record)] if record else [] for file, record in records.items()}
        _patch_folder(place, new, lines, query_id, lambda line: _field(line, "case_id"))
    elif form == "beir":
        _patch_beir(place, new, query_id, case, relevant)
    else:
        raw = place.read_bytes()
        mark = _BOM if raw.startswith(_BOM) else b""
        raw = raw.removeprefix(_BOM)
        if form == "jsonl":
            reading = single_file.read_raw(raw, place)
            own = []
            if case is not None:
                quotes = _quotes(reading, query_id)
                own = [single_file.line(single_file.own_record(case, relevant, reading.documents, quotes))]
            changed = splicing.spliced_lines(raw, lambda line: _field(line, "query_id"), query_id, own)
        else:
            lists = {"yaml": yaml_form.YAML, "json": json_forms.JSON, "json-cases": json_forms.JSON_CASES}
            changed = _patched_list(raw.decode(), place, lists[form], form, query_id, case, relevant, force).encode()
        new.write_bytes(mark + changed)


def _patched_list(
    text: str, place: Path, form: CaseList, name: str, query_id: str, case: Case | None, relevant: Mapping[str, int],
    force: bool,
) -> str:  # fmt: skip
    parse, splice = (
        (parsing.parse_yaml, splicing.spliced_yaml) if name == "yaml" else (parsing.parse_json, splicing.spliced_json)
    )
    parsed = parse(text, place.name)
    keys: parsing.Keys = (form.field,) if isinstance(parsed.value, dict) else ()
    items: list[dict[str, Any]] = parsed.value[form.field] if keys else parsed.value
    number = next((i for i, item in enumerate(items) if _item_id(item) == query_id), None)
    reading = yaml_form.read_yaml(parsed, place) if name == "yaml" else Reading()
    record = None if case is None else form.record(case, relevant, reading.documents, _quotes(reading, query_id))
    changed = [item for i, item in enumerate(items) if i != number or record is not None]
    if record is not None:
        changed = [record if i == number else item for i, item in enumerate(items)]
        changed += [record] if number is None else []
    if name == "yaml" and number is not None and not force:
        start, end = splicing.extent(text, parsed, keys, number)
        if splicing.comments_in(text, parsed, start, end):
            raise DataError(
                f"{place}: case {query_id!r} has comments, which would be lost; change it by hand, or with --force "
                "(force=True)"
            )
    candidate = splice(text, parsed, keys, number, record)
    if candidate is not None:
        again = parse(candidate, place.name)
        if again.whole and not again.mistakes and (again.value[form.field] if keys else again.value) == changed:
            return candidate
    if name == "yaml" and not force and splicing.comments_in(text, parsed):
        raise DataError(
            f"{place} has comments and a layout in which a case cannot be changed by itself; change it by hand, or "
            "with --force (force=True), which loses the comments"
        )
    whole: Any = {**parsed.value, form.field: changed} if keys else changed
    if name == "yaml":
        return yaml_form.dumped(whole)
    return json_forms.dumped(whole) + "\n"


def _quotes(reading: Reading, query_id: str) -> dict[Span, str]:
    """What a file quotes as the evidence of a case: the documents may be elsewhere."""
    return {
        span: quote
        for entry in reading.entries
        if entry.case.query_id == query_id
        for span, quote in zip(entry.case.evidence, entry.quotes, strict=True)
        if quote
    }


def _item_id(item: Mapping[str, Any]) -> str:
    own = item.get("id")
    return derived_id(str(item.get("query"))) if own is None else str(own)


def _patch_beir(place: Path, new: Path, query_id: str, case: Case | None, relevant: Mapping[str, int]) -> None:
    split = beir_split(place)
    lines: dict[str, list[str]] = {name: [] for name in CASE_FILES}
    rows: list[str] = []
    if case is not None:
        dataset = load_beir_folder(place, split)
        single = replace(dataset, cases=(case,), qrels={query_id: dict(relevant)})
        lines |= {name: record_lines(single, name) for name in lines}
        table = io.StringIO()
        writer = csv.writer(table, delimiter="\t", lineterminator="\n")
        writer.writerows([query_id, doc_id, grade] for doc_id, grade in relevant.items())
        rows = table.getvalue().splitlines(keepends=True)
    _patch_folder(place, new, lines, query_id, lambda line: _field(line, "_id", "query_id"))
    for path in sorted((place / "qrels").glob("*.tsv")):
        if case is not None and path.stem != split:
            continue  # another split may judge the same question in its own way
        raw = path.read_bytes()
        changed = splicing.spliced_lines(raw, _first_column, query_id, rows)
        _swap(new / "qrels" / path.name, changed if path.stem == split or changed != raw else raw)


def _patch_folder(
    place: Path, new: Path, lines: Mapping[str, Sequence[str]], query_id: str, key: Callable[[bytes], str]
) -> None:
    shutil.copytree(place, new, copy_function=_link)
    for file, own in lines.items():
        raw = (place / file).read_bytes() if (place / file).is_file() else b""
        mark = _BOM if raw.startswith(_BOM) else b""
        changed = splicing.spliced_lines(raw.removeprefix(_BOM), key, query_id, own)
        if changed != raw.removeprefix(_BOM):
            _swap(new / file, mark + changed if changed else b"")


def _swap(path: Path, content: bytes) -> None:
    """Another file of that name: the old one is the same on the disk as in the folder that is copied."""
    path.unlink(missing_ok=True)
    if content:
        path.write_bytes(content)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _field(line: bytes, *names: str) -> str:
    value = json.loads(line.decode("utf-8-sig"))
    return next((str(value[name]) for name in names if name in value), "\0")


def _first_column(line: bytes) -> str:
    row = next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")], delimiter="\t"))
    return row[0] if row else "\0"
