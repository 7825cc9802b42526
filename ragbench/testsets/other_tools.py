"""Test sets of other tools, read::

    ragas       JSONL: user_input, reference, reference_contexts            (EvaluationDataset.to_jsonl, .to_csv)
    deepeval    JSON: [{input, expected_output, context}]                   (EvaluationDataset.save_as, any file type)
    promptfoo   YAML: tests: [{vars: {question}, assert: [{type, value}]}]; what `promptfoo eval -o out.json` writes
    langsmith   JSONL: {inputs: {question}, outputs: {answer}}
    llamaindex  JSON: {examples: [{query, reference_answer, reference_contexts}]}, or QA pairs:
    {queries, corpus,
                relevant_docs}
    table       CSV, TSV or XLSX: question, answer, source; also Phoenix's columns input and output, which hold JSON,
                and Haystack's report in columns, as CSV or JSON

Which one a file is, its fields tell, and which of them hold what is expected (`fields`). Reference
contexts are looked for in the documents and become evidence; one that no document holds stays in
the case's metadata, with a warning. A source is a relevant document.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import json_lines
from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.datasets.records import warn
from ragbench.errors import DataError, MissingExtraError, require
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import Content, Entry, derived_id
from ragbench.testsets.fields import QUESTIONS, TABLES, labels_of, tool_of
from ragbench.testsets.parser import Keys, Record, UnreadableError, parse, read_bytes
from ragbench.types import Case, Document, Span

_QA_PAIRS = {"queries", "corpus", "relevant_docs"}
_EXPECTING = (
    "equals",
    "similar",
    "factuality",
    "model-graded-factuality",
    "rouge-n",
    "context-recall",
)
_USAGE = {"input_tokens": "prompt", "output_tokens": "completion"}


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
        if content.keys() >= _QA_PAIRS or ("examples" in content and "cases" not in content):
            return "llamaindex"
        if tool_of(content):
            return "table"
        content = content.get("tests")
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
    if path.suffix.lower() == ".jsonl":
        yield from json_lines(path)
        return
    content = _rows(path) if path.suffix.lower() in TABLES else _content(path)
    if isinstance(content, dict):
        content = _listed(content, path)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{path}: expected a list of records{form and f' of {form}'}")
    yield from enumerate(content, 1)


def _content(path: Path) -> Any:
    try:
        return parse(read_bytes(path), path.name).value
    except UnreadableError as exc:
        raise DataError(str(exc.problem)) from exc


def _listed(content: dict[str, Any], path: Path) -> Any:
    """Return the records in an object: under a name, of questions and their sources by ids, or in
    columns.
    """
    if content.keys() >= _QA_PAIRS:
        queries, relevant = _part(content, "queries"), _part(content, "relevant_docs")
        return [
            {"id": query_id, "query": text, "sources": relevant.get(query_id)}
            for query_id, text in queries.items()
        ]
    if "results" in _part(content, "results"):
        return _answered(content["results"]["results"], path)
    if tool_of(content):
        columns = {name: values for name, values in content.items() if isinstance(values, list)}
        return [dict(zip(columns, row, strict=True)) for row in zip_longest(*columns.values())]
    return content.get("examples", content.get("tests"))


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


def _answered(results: Any, path: Path) -> Any:
    """Return what one prompt and provider of promptfoo answered: its tests, with the answers."""
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    asked = {f"prompt {r.get('promptIdx')} of {_part(r, 'provider').get('id')}" for r in results}
    if len(asked) > 1:
        names = ", ".join(sorted(asked))
        raise DataError(
            f"{path} holds answers to {names}; write a file for each (promptfoo eval "
            "--filter-providers)"
        )
    rows = []
    for result in results:
        reply = _part(result, "response")
        usage, output = _part(reply, "tokenUsage"), reply.get("output")
        row = {"vars": _part(result, "vars"), "assert": _part(result, "testCase").get("assert")}
        row |= output if isinstance(output, dict) else {"response": output}
        row["error"] = result.get("error") if output is None else None
        if usage:
            row["usage"] = {name: usage.get(theirs, 0) for name, theirs in _USAGE.items()}
        if "latencyMs" in result:
            row["latency_ms"] = {"total": result["latencyMs"]}
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _part(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return part if isinstance(part := record.get(name), dict) else {}


def read_other(path: Path, form: str, corpus: Mapping[str, Document] | None) -> Content:
    """Read the cases of a file of another tool; contexts become evidence where `corpus` holds them."""
    content = Content()
    if form == "llamaindex" and corpus is None:
        content_of = _content(path)
        nodes = _part(content_of, "corpus") if isinstance(content_of, dict) else {}
        content.documents = {
            doc_id: Document(doc_id, text)
            for doc_id, text in nodes.items()
            if isinstance(text, str)
        }
    documents = content.documents if corpus is None else corpus
    texts, ids = Texts(documents), DocumentIds(documents)
    seen: Counter[str] = Counter()
    lost: list[str] = []
    doubtful: list[str] = []
    for number, row in records(path, form):

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
        spans = [_at_source(place, sources) for place in places.values() if place != NOWHERE]
        unmatched = [context for context, place in places.items() if place == NOWHERE]
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
        else "become evidence only with the documents (corpus=, --corpus)"
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
    """Return a cell of a table, which may hold JSON, or a list as Python or numpy writes it."""
    text = text.strip()
    if text[:1] in ("[", "{"):
        for parse in (json.loads, _literal):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return parse(text)
    return text


def _literal(text: str) -> Any:
    value = ast.literal_eval(text)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        return value
    # numpy writes no commas between texts, which Python would then join
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [ast.literal_eval(token.string) for token in tokens if token.type == tokenize.STRING]


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
