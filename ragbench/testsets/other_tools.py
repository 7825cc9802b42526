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
from ragbench.errors import DataError, require
from ragbench.files import parse_json
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import Content, Entry, derived_id
from ragbench.testsets.fields import QUESTIONS, TABLES, labels_of, tool_of
from ragbench.testsets.parser import Keys, Record, UnreadableError, parse
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
            with path.open(encoding="utf-8-sig") as lines:
                record = json.loads(next((line for line in lines if line.strip()), "{}"))
            return tool_of(record) if isinstance(record, dict) else ""
        text = path.read_text(encoding="utf-8-sig")
        if suffix == ".json":
            found = json.loads(text)
        elif suffix in (".yaml", ".yml") and ("tests" in text or "vars" in text):
            found = parse(text.encode(), path.name).value
            tests = (
                found.get("tests") if isinstance(found, dict) and "cases" not in found else found
            )
            first = tests[0] if isinstance(tests, list) and tests else {}
            return "promptfoo" if isinstance(first, dict) and "vars" in first else ""
        else:
            return ""
    except (OSError, ValueError, RecursionError, UnreadableError):
        return ""  # ragbench's own readers name the problem
    if isinstance(found, dict):
        if isinstance(found.get("results"), dict) and "results" in found["results"]:
            return "promptfoo"
        if "examples" in found and "cases" not in found:
            return "llamaindex"
        return "llamaindex" if found.keys() >= _QA_PAIRS else tool_of(found) and "table"
    first = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
    return tool_of(first)


def records(path: Path, form: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of every record of a file; of ragbench's lines where there is
    no form.

    Raises:
        DataError: it is not what its form has.
    """
    if path.suffix.lower() == ".jsonl":
        yield from json_lines(path)
        return
    found = _content(path, form)
    if isinstance(found, dict):
        found = _listed(found, path)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise DataError(f"{path}: expected a list of records{form and f' of {form}'}")
    yield from enumerate(found, 1)


def _content(path: Path, form: str) -> Any:
    try:
        if path.suffix.lower() in TABLES:
            return _rows(path)
        text = path.read_text(encoding="utf-8-sig")
        if form != "promptfoo" or path.suffix.lower() == ".json":
            return parse_json(text)
        return parse(text.encode(), path.name).value
    except UnreadableError as exc:
        raise DataError(str(exc.problem)) from exc
    except (OSError, ValueError, RecursionError) as exc:
        raise DataError(f"{path} could not be read as {form or 'records'}: {exc}") from exc


def _listed(found: dict[str, Any], path: Path) -> Any:
    """Return the records in an object: under a name, of questions and their sources by ids, or in
    columns.
    """
    if found.keys() >= _QA_PAIRS:
        queries, relevant = _part(found, "queries"), _part(found, "relevant_docs")
        return [
            {"id": query_id, "query": text, "sources": relevant.get(query_id)}
            for query_id, text in queries.items()
        ]
    if "results" in _part(found, "results"):
        return _answered(found["results"]["results"], path)
    if tool_of(found):
        columns = {name: values for name, values in found.items() if isinstance(values, list)}
        return [dict(zip(columns, row, strict=True)) for row in zip_longest(*columns.values())]
    return found.get("examples", found.get("tests"))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, of a workbook its first sheet; empty cells are left out."""
    import pandas as pd

    if path.suffix.lower() == ".xlsx":
        require("openpyxl", "xlsx")
        try:
            table = pd.read_excel(path, dtype=str)
        except Exception as exc:  # of a damaged archive there are many kinds
            raise DataError(
                f"{path} could not be read as a workbook: {exc}; save it as .csv"
            ) from exc
    else:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
        separator = max(",;\t", key=first.count)
        options: dict[str, Any] = {"encoding": "utf-8-sig", "keep_default_na": False}
        table = pd.read_csv(path, sep=separator, dtype=str, **options)
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
        found = _content(path, form)
        nodes = _part(found, "corpus") if isinstance(found, dict) else {}
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
