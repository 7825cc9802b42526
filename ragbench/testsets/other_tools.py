"""Test sets of other tools, read::

    ragas       JSONL: user_input, reference, reference_contexts            (EvaluationDataset.to_jsonl, .to_csv)
    deepeval    JSON: [{input, expected_output, context}]                   (EvaluationDataset.save_as, any file type)
    promptfoo   YAML: tests: [{vars: {question}, assert: [{type, value}]}]; what `promptfoo eval -o out.json` writes
    table       CSV, TSV or XLSX: question, answer, source
    traces      OTLP as JSON, spans of Phoenix, traces of Langfuse, runs of LangSmith: questions (see `traces`)

Which one a file is, its fields tell, and which of them hold what is expected (`fields`). Reference
contexts are looked for in the documents and become evidence; one that no document holds stays in
the case's metadata, with a warning. A source is a relevant document.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import json_lines, located
from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.datasets.records import warn
from ragbench.errors import DataError, MissingExtraError, require
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import Content, Entry, derived_id
from ragbench.testsets.fields import QUESTIONS, TABLES, labels_of, tool_of
from ragbench.testsets.parser import Keys, Record, UnreadableError, parse, read_bytes
from ragbench.testsets.traces import trace_records
from ragbench.types import Case, Document, Span

_EXPECTING = (
    "equals",
    "similar",
    "factuality",
    "model-graded-factuality",
    "rouge-n",
    "context-recall",
)


def other_form(path: Path) -> str:
    """Return the tool that a file is of, by its fields; "" for ragbench's own forms and for what is
    no test set.

    Raises:
        DataError: a table that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return "table"
    try:
        if suffix == ".jsonl":
            return next((tool_of(record) for _, record in json_lines(path)), "")
        if suffix != ".json" and b"vars" not in read_bytes(path):
            return ""
        content = _content(path)
    except DataError:
        return ""  # ragbench's own readers name the problem
    if isinstance(content, dict):
        if "results" in _part(content, "results"):
            return "promptfoo"
        content = _rows_in(content)
    first = content[0] if isinstance(content, list) and content else None
    if not isinstance(first, dict):
        return ""
    return "promptfoo" if "vars" in first else tool_of(first)


def records(path: Path, form: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of every record of a file; of ragbench's lines where there is
    no form.

    Raises:
        DataError: it is not what its form has.
    """
    is_lines = path.suffix.lower() == ".jsonl"
    if is_lines and form != "traces":
        yield from json_lines(path)
        return
    content: Any = [row for _, row in json_lines(path)] if is_lines else None
    if not is_lines:
        content = _rows(path) if path.suffix.lower() in TABLES else _content(path)
    if isinstance(content, dict):
        is_output = "results" in _part(content, "results")
        content = _answered(content, path) if is_output else _rows_in(content)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path}: expected a list of records{form and f' of {form}'}")
    with located(str(path)):
        content = [*trace_records(content)] if form == "traces" else content
    yield from enumerate(content, 1)


def _rows_in(content: dict[str, Any]) -> Any:
    """Return the records that a file which is one table holds."""
    return [content] if tool_of(content) else content.get("tests") or content.get("data")


def _content(path: Path) -> Any:
    try:
        return parse(read_bytes(path), path.name).value
    except UnreadableError as exc:
        raise DataError(str(exc.problem)) from exc


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, of a workbook its first sheet; empty cells are left out."""
    import pandas as pd

    options: dict[str, Any] = {"dtype": str, "keep_default_na": False}
    try:
        if path.suffix.lower() == ".xlsx":
            require("openpyxl", "xlsx")
            table = pd.read_excel(path, **options)
        else:
            first = read_bytes(path).partition(b"\n")[0].decode()
            separator = max(",;\t", key=first.count)
            table = pd.read_csv(path, sep=separator, encoding="utf-8-sig", **options)
    except MissingExtraError:
        raise
    except Exception as exc:  # of a damaged archive there are many kinds
        raise DataError(
            f"{path} could not be read as a table: {exc}; save it as .csv in UTF-8"
        ) from exc
    rows = (
        {str(name).strip(): _cell(text) for name, text in row.items() if isinstance(text, str)}
        for row in table.to_dict("records")
    )
    return [row for row in rows if any(row.values())]


def _answered(output: Mapping[str, Any], path: Path) -> Any:
    """Return what one prompt and provider of promptfoo answered: its tests, with the answers."""
    results = output["results"]["results"]
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    sources = {f"prompt {r.get('promptIdx')} of {_part(r, 'provider').get('id')}" for r in results}
    if len(sources) > 1:
        names = ", ".join(sorted(sources))
        raise DataError(
            f"{path} holds answers to {names}; write a file for each (promptfoo eval "
            "--filter-providers)"
        )
    rows = []
    for result in results:
        row = {"vars": _part(result, "vars"), "assert": _part(result, "testCase").get("assert")}
        reply = _part(result, "response").get("output")
        row |= reply if isinstance(reply, dict) else {"response": reply}
        row["error"] = result.get("error") if reply is None else None
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _part(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return part if isinstance(part := record.get(name), dict) else {}


def read_records(
    numbered: Iterable[tuple[int, dict[str, Any]]],
    path: Path,
    corpus: Mapping[str, Document] | None,
) -> Content:
    """Read the cases of `records` of another tool; contexts become evidence where `corpus` holds
    them.
    """
    content, documents = Content(), corpus or {}
    texts, ids = Texts(documents), DocumentIds(documents)
    seen: Counter[str] = Counter()
    lost: list[str] = []
    doubtful: list[str] = []
    for number, row in numbered:

        def line_of(_: Keys, line: int = number) -> int:
            return line

        record, labels = Record(row, path.name, (), line_of), labels_of(row)
        if not labels.question:
            expected = f"one of {', '.join(QUESTIONS)}"
            content.problems.append(
                record.problem(("question",), ", ".join(map(str, row)) or "none", expected)
            )
            continue
        query_id = labels.query_id or derived_id(labels.question)
        seen[query_id] += 1
        query_id += f"-{seen[query_id]}" if seen[query_id] > 1 else ""
        sources = [ids.full(source) for source in labels.sources]
        places = {context: texts.find(context) for context in labels.evidence}
        spans = [_at_source(match, sources) for match in places.values() if match != NOWHERE]
        unmatched = [context for context, match in places.items() if match == NOWHERE]
        matched = dict.fromkeys(span.doc_id for span in spans)
        # a name that no document has, and a document that has no name: one is the other
        unnamed = len(matched.keys() - {*sources})
        absent = [source for source in sources if documents and source not in documents][:unnamed]
        relevant = dict.fromkeys(
            [*(source for source in sources if source not in absent), *matched], 1
        )
        metadata = {"reference_contexts": unmatched, "sources": absent}
        keywords, answer = _asserted(row.get("assert"))
        case = Case(
            query_id,
            labels.question,
            evidence=tuple(spans),
            reference_answer=answer or labels.reference or None,
            required_keywords=tuple(keywords),
            category=labels.category,
            metadata={name: value for name, value in metadata.items() if value},
        )
        content.entries.append(Entry(case, relevant, record))
        lost += [query_id] if unmatched else []
        doubtful += [query_id] if labels.doubtful else []
    flaw = (
        "are in no document of the corpus: they are metadata, not evidence"
        if documents
        else "become evidence only with the documents (corpus=, --docs)"
    )
    warn(str(path), f"reference contexts {flaw}", lost)
    expected = "name what is expected reference and reference_contexts"
    warn(
        str(path),
        f"questions have contexts and an answer, which are read as a system's: {expected}",
        doubtful,
    )
    return content


def _at_source(place: Place, sources: Sequence[str]) -> Span:
    """Return where a context is: of the documents that hold it the one that is named as its source,
    else the first.
    """
    return next((span for span in place.holders if span.doc_id in sources), place.holders[0])


def _cell(text: str) -> Any:
    """Return a cell of a table, which may hold a list of texts as Python or numpy writes it."""
    text = text.strip()
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        if text.startswith("[") and all(isinstance(part, str) for part in ast.literal_eval(text)):
            # numpy writes no commas between texts, which Python would then join
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            strings = (token.string for token in tokens if token.type == tokenize.STRING)
            return list(map(ast.literal_eval, strings))
    return text


def _asserted(asserts: Any) -> tuple[list[str], str]:
    """Return the keywords and the reference answer that promptfoo's assertions hold."""
    keywords: list[str] = []
    answers: list[str] = []
    for rule in asserts if isinstance(asserts, list) else ():
        kind, value = (rule.get("type"), rule.get("value")) if isinstance(rule, dict) else ("", "")
        values = [
            str(part)
            for part in (value if isinstance(value, list) else [value])
            if part not in (None, "")
        ]
        if str(kind).removeprefix("i") in ("contains", "contains-all"):
            keywords += values
        elif kind in _EXPECTING:
            answers += values[:1]
    return keywords, (*answers, "")[0]
