"""A copy of a test set with one case put in, changed or taken out, in each of the forms.

In files of lines and in JSON the other characters stay as they are. In YAML the item of the case is changed by
`ruamel.yaml`, which keeps its comments and layout, and put back in its lines; where an item has no lines of its own
(lists in one line, anchors of other items), ruamel.yaml writes the whole file.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.beir import load_beir_folder
from ragbench.datasets.jsonl import json_line
from ragbench.errors import DataError
from ragbench.testsets import parser, perspectives, single_file, yaml_form
from ragbench.testsets.beir_form import beir_split
from ragbench.testsets.case_lists import JSON_FORMS, json_text
from ragbench.testsets.forms import PERSPECTIVE_FILES
from ragbench.testsets.parser import Keys, Parsed, Place
from ragbench.testsets.validation import Reading, derived_id
from ragbench.testsets.writer import CASE_FILES, record_lines
from ragbench.types import Case, Span

_BOM = b"\xef\xbb\xbf"
_MAX_WHOLE = 1_000_000  # characters of a file that ruamel.yaml writes as a whole: it takes about 10 s for these

Record = dict[str, Any]


def write_patched(
    place: Path, new: Path, form: str, query_id: str, case: Case | None, relevant: Mapping[str, int], *, force: bool
) -> None:
    """Write to `new` what `place` holds, except for this case; `case` None takes it out."""
    if form == "perspectives":
        records: dict[str, Record] = {file: {} for file in PERSPECTIVE_FILES[:5]}
        if case is not None:
            records = perspectives.perspective_records(case, relevant)
        lines = {file: [json_line(record)] if record else [] for file, record in records.items()}
        _patch_folder(place, new, lines, query_id, lambda line: _field(line, "case_id"))
    elif form == "beir":
        _patch_beir(place, new, query_id, case, relevant)
    else:
        raw = place.read_bytes()
        mark = _BOM if raw.startswith(_BOM) else b""
        raw = raw.removeprefix(_BOM)
        if form == "jsonl":
            reading = single_file.read_single(place, raw)
            own = []
            if case is not None:
                quotes = _quotes(reading, query_id)
                own = [json_line(single_file.own_record(case, relevant, reading.documents, quotes))]
            changed = _patched_lines(raw, lambda line: _field(line, "query_id"), query_id, own)
        else:
            changed = _patched_list(raw.decode(), place, form, query_id, case, relevant, force).encode()
        new.write_bytes(mark + changed)


def _patched_list(
    text: str, place: Path, form: str, query_id: str, case: Case | None, relevant: Mapping[str, int], force: bool
) -> str:
    kind = yaml_form.YAML if form == "yaml" else JSON_FORMS[form]
    parse = parser.parse_yaml if form == "yaml" else parser.parse_json
    parsed = parse(text, place.name)
    keys: Keys = (kind.field,) if isinstance(parsed.value, dict) else ()
    items: list[Record] = parsed.value[kind.field] if keys else parsed.value
    number = next((i for i, item in enumerate(items) if _item_id(item) == query_id), len(items))
    reading = yaml_form.read_yaml(parsed, place) if form == "yaml" else Reading()
    record = None if case is None else kind.record(case, relevant, reading.documents, _quotes(reading, query_id))
    changed = [*items[:number], *([] if record is None else [record]), *items[number + 1 :]]
    whole: Any = {**parsed.value, kind.field: changed} if keys else changed
    candidates = _yaml_texts if form == "yaml" else _json_texts
    before = _comments(text, parsed) if form == "yaml" else Counter[str]()
    own = _comments(text, parsed, (*keys, number)) if record is None and form == "yaml" else Counter[str]()
    for candidate in candidates(text, parsed, keys, number, record, whole):
        again = parse(candidate, place.name)
        if not again.whole or again.problems or again.value != whole:
            continue
        if force or form != "yaml" or _comments(candidate, again) >= before - own:
            return candidate
    raise DataError(
        f"{place}: case {query_id!r} cannot be changed without losing comments; change it by hand, or with --force "
        "(force=True)"
    )


def _json_texts(text: str, parsed: Parsed, keys: Keys, number: int, record: Record | None, whole: Any) -> Iterator[str]:
    """The changed text: with the other items as they are, or else written anew."""
    items = _items(parsed, keys)
    line_end = "\r\n" if "\r\n" in text else "\n"
    if record is None:
        start, end = items[number].start, items[number].end
        if number + 1 < len(items):
            end = items[number + 1].start
        elif number:
            start = items[number - 1].end
        yield text[:start] + text[end:]
    elif items:
        place = items[min(number, len(items) - 1)]
        before = text[text.rfind("\n", 0, place.start) + 1 : place.start]
        indent = before if not before.strip() else ""
        one_line = not indent and "\n" not in text[items[0].start : items[-1].end]
        body = json_text(record, indent=None if one_line else 2).replace("\n", line_end + indent)
        if number < len(items):
            yield text[: place.start] + body + text[place.end :]
        else:
            gap = line_end + indent if indent or before == "" else " "
            yield text[: place.end] + "," + gap + body + text[place.end :]
    yield json_text(whole) + "\n"


def _yaml_texts(text: str, parsed: Parsed, keys: Keys, number: int, record: Record | None, whole: Any) -> Iterator[str]:
    """The changed text: in the lines of this item, then written by ruamel.yaml, then without any comment."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    items = _items(parsed, keys)
    blocks = [_block(text, place) for place in items]
    old: list[Record] = parsed.value[keys[0]] if keys else parsed.value
    if blocks and None not in blocks:
        start, end, indent, dash = blocks[min(number, len(blocks) - 1)] or (0, 0, "", "")
        body = "" if record is None else textwrap.indent(yaml_form.dumped([record]), indent)
        if number == len(items):
            start, body = end, body if text[:end].endswith("\n") else "\n" + body
        elif record is not None:
            own = " " * len(indent + dash) + text[start + len(indent + dash) : end].replace("\r\n", "\n")
            merged = _round_trip(textwrap.dedent(own), lambda item: _merge(item, old[number], record))
            if merged is not None:
                lines = textwrap.indent(merged, " " * len(indent + dash))
                yield text[:start] + (indent + dash + lines[len(indent + dash) :]).replace("\n", line_end) + text[end:]
        yield text[:start] + body.replace("\n", line_end) + text[end:]
    if len(text) <= _MAX_WHOLE:

        def change(content: Any) -> None:
            cases = content[keys[0]] if keys else content
            if record is None:
                del cases[number]
            elif number < len(cases):
                _merge(cases[number], old[number], record)
            else:
                cases.append(_fresh(record))

        if (changed := _round_trip(text.replace("\r\n", "\n"), change)) is not None:
            yield changed.replace("\n", line_end)
    yield yaml_form.dumped(whole)


def _round_trip(text: str, change: Callable[[Any], None]) -> str | None:
    """A YAML text with a change made to its content; comments, quotes and order stay. None where that fails."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 10**9
    if nested := re.search(r"^((?:- +| )*)[^\s#-][^\n]*:[ ]*\n([ ]*)(-[ ]+)\S", text, re.MULTILINE):
        offset = max(0, len(nested[2]) - len(nested[1]))
        yaml.indent(mapping=2, sequence=offset + len(nested[3]), offset=offset)
    out = io.StringIO()
    try:
        content = yaml.load(text)
        change(content)
        yaml.dump(content, out)
    except Exception:  # an alias of something outside of the text; and layouts with which ruamel.yaml has trouble
        return None
    return out.getvalue()


def _merge(item: Any, old: Record, new: Record) -> None:
    """Make the item `new`; fields that are as in `old` keep their form and comments."""
    fresh = _fresh(new)
    for name in [name for name in item if name not in new]:
        del item[name]
    for name, value in new.items():
        if name not in item or old.get(name) != value:
            item[name] = fresh[name]


def _fresh(record: Record) -> Any:
    """A record as ruamel.yaml has it, with quotes where readers of YAML 1.1 need them."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    return yaml.load(yaml_form.dumped(record))


def _comments(text: str, parsed: Parsed, keys: Keys = ()) -> Counter[str]:
    """The comments in a YAML text, or in the item at `keys`."""
    start, end = (parsed.places[keys].start, parsed.places[keys].end) if keys else (0, len(text))
    if keys and (block := _block(text, parsed.places[keys])):
        start, end = block[:2]
    scalars = [place for keys, place in parsed.places.items() if not isinstance(_at(parsed.value, keys), dict | list)]
    found = re.finditer(r"(?:^|(?<=\s))#[^\r\n]*", text[start:end], re.MULTILINE)
    return Counter(
        match[0].rstrip()
        for match in found
        if not any(place.start <= start + match.start() < place.end for place in scalars)
    )


def _items(parsed: Parsed, keys: Keys) -> list[Place]:
    places: list[Place] = []
    while (*keys, len(places)) in parsed.places:
        places.append(parsed.places[(*keys, len(places))])
    return places


def _block(text: str, place: Place) -> tuple[int, int, str, str] | None:
    """The whole lines of an item of a list, the white space before its dash, and the dash with what follows it."""
    start = text.rfind("\n", 0, place.start) + 1
    match = re.fullmatch(r"([ ]*)(-[ ]+)", text[start : place.start])
    if not match:
        return None
    if text[place.end - 1 : place.end] == "\n":  # a block text ends behind its line
        return start, place.end, match[1], match[2]
    line_end = text.find("\n", place.end)
    return start, len(text) if line_end < 0 else line_end + 1, match[1], match[2]


def _at(value: Any, keys: Keys) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return value


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
        changed = _patched_lines(raw, _first_column, query_id, rows)
        _swap(new / "qrels" / path.name, changed if path.stem == split or changed != raw else raw)


def _patch_folder(
    place: Path, new: Path, lines: Mapping[str, Sequence[str]], query_id: str, key: Callable[[bytes], str]
) -> None:
    shutil.copytree(place, new, copy_function=_link)
    for file, own in lines.items():
        raw = (place / file).read_bytes() if (place / file).is_file() else b""
        mark = _BOM if raw.startswith(_BOM) else b""
        changed = _patched_lines(raw.removeprefix(_BOM), key, query_id, own)
        if changed != raw.removeprefix(_BOM):
            _swap(new / file, mark + changed if changed else b"")


def _patched_lines(raw: bytes, key: Callable[[bytes], str], case_id: str, new: Sequence[str]) -> bytes:
    """Lines with `new` in the place of those whose key is `case_id`, at the end where there are none."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", raw)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    fresh = [line.rstrip("\n").encode() + end for line in new]
    result: list[bytes] = []
    for line in lines:
        if not line.strip() or key(line) != case_id:
            result.append(line)
        else:
            result += fresh
            fresh = []
    if fresh and result and not result[-1].endswith(b"\n"):
        result[-1] += end
    return b"".join([*result, *fresh])


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
