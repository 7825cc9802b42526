"""Test sets of other tools, read and written::

    ragas       JSONL: user_input, reference, reference_contexts            (EvaluationDataset.to_jsonl, .to_csv)
    deepeval    JSON: [{input, expected_output, context}]                   (EvaluationDataset.save_as, json or csv)
    promptfoo   YAML: tests: [{vars: {question}, assert: [{type, value}]}]; what `promptfoo eval -o out.json` writes
    langsmith   JSONL: {inputs: {question}, outputs: {answer}}
    llamaindex  JSON: {examples: [{query, reference_answer, reference_contexts}]}, or QA pairs: {queries, corpus,
                relevant_docs}
    table       CSV, TSV or XLSX: question, answer, source; also Phoenix's columns input and output, which hold JSON

Which one a file is, its fields tell. Reference contexts are looked for in the documents and become evidence; one that
no document holds stays in the case's metadata, with a warning. A source is a relevant document.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.datasets.passages import Texts
from ragbench.datasets.records import warn
from ragbench.datasets.testsets import TABLES
from ragbench.datasets.testsets.validation import Entry, Reading, derived_id
from ragbench.errors import DataError, require
from ragbench.types import Case, Dataset, Document

_QUESTION = ("user_input", "input", "question", "query", "prompt", "q")
_ANSWER = (
    "reference",
    "expected_output",
    "reference_answer",
    "expected_answer",
    "ground_truth",
    "answer",
    "output",
    "ideal",
)
_CONTEXTS = ("reference_contexts", "context", "contexts", "ground_truth_contexts", "expected_context")
_SOURCES = ("source", "sources", "doc_id", "document", "source_file", "file", "url", "reference_context_ids")
_IDS = ("id", "_id", "query_id", "case_id", "example_id")
_USAGE = {"input_tokens": "prompt", "output_tokens": "completion"}
_THRESHOLD = 90.0  # of the likeness of a context and its place, as in `match_passages`


def other_form(path: Path) -> str:
    """The tool that a file is of, by its fields; "" for ragbench's own forms and for what is no test set.

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
            return _form_of_record(record) if isinstance(record, dict) else ""
        text = path.read_text(encoding="utf-8-sig")
        if suffix == ".json":
            found = json.loads(text)
        elif suffix in (".yaml", ".yml") and ("tests" in text or "vars" in text):
            import yaml

            found = yaml.safe_load(text)
            tests = found.get("tests") if isinstance(found, dict) and "cases" not in found else found
            first = tests[0] if isinstance(tests, list) and tests else {}
            return "promptfoo" if isinstance(first, dict) and "vars" in first else ""
        else:
            return ""
    except (OSError, ValueError, ImportError, RecursionError):
        return ""  # ragbench's own readers name the problem
    except Exception as exc:
        if type(exc).__module__.startswith("yaml"):
            return ""
        raise
    if isinstance(found, dict):
        if isinstance(found.get("results"), dict) and "results" in found["results"]:
            return "promptfoo"
        pairs = {"queries", "corpus", "relevant_docs"} <= found.keys()
        return "llamaindex" if pairs or ("examples" in found and "cases" not in found) else ""
    first = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
    return _form_of_record(first)


def _form_of_record(first: Mapping[str, Any]) -> str:
    if "user_input" in first:
        return "ragas"
    if isinstance(first.get("inputs"), Mapping):
        return "langsmith"
    is_golden = "input" in first and {"expected_output", "actual_output", "retrieval_context"} & first.keys()
    return "deepeval" if is_golden else ""


def records(path: Path, form: str) -> list[dict[str, Any]]:
    """The rows of a file, with the fields of `inputs`, `outputs` and `vars` among their own.

    Raises:
        DataError: it is not what its form has.
    """
    try:
        if form == "table":
            header, *rows = _cells(path)
            return [
                _flat(
                    {str(k).strip(): _cell(v) for k, v in zip(header, cells, strict=False) if k and v not in (None, "")}
                )
                for cells in rows
                if any(cells)
            ]
        text = path.read_text(encoding="utf-8-sig")
        if form == "promptfoo" and path.suffix.lower() != ".json":
            import yaml

            found = yaml.safe_load(text)
        elif path.suffix.lower() == ".jsonl":
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            found = json.loads(text)
    except (OSError, ValueError, csv.Error) as exc:
        raise DataError(f"{path} could not be read as {form}: {exc}") from exc
    if isinstance(found, dict) and "queries" in found:
        relevant = found["relevant_docs"]
        return [{"id": key, "query": text, "sources": relevant.get(key, [])} for key, text in found["queries"].items()]
    if isinstance(found, dict) and isinstance(found.get("results"), dict):
        found = _answered(found["results"]["results"], path)
    listed = found if isinstance(found, list) else found.get("examples", found.get("tests", []))
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise DataError(f"{path}: expected a list of records of {form}")
    return [_flat(row) for row in listed]


def _cells(path: Path) -> list[list[Any]]:
    """The rows of a table, of which the first names the columns; of a workbook its first sheet."""
    if path.suffix.lower() == ".xlsx":
        openpyxl = require("openpyxl", "xlsx")
        try:
            sheet = openpyxl.load_workbook(io.BytesIO(path.read_bytes()), read_only=True, data_only=True).worksheets[0]
            return [list(row) for row in sheet.iter_rows(values_only=True)] or [[]]
        except Exception as exc:  # of a damaged archive there are many kinds
            raise DataError(f"{path} could not be read as a workbook: {exc}; save it as .csv") from exc
    text = path.read_text(encoding="utf-8-sig")
    first = text.partition("\n")[0]
    return list(csv.reader(io.StringIO(text), delimiter=max(",;\t", key=first.count))) or [[]]


def _answered(results: Any, path: Path) -> Any:
    """What one prompt and provider of promptfoo answered: its tests, with the answers."""
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        return results
    asked = {(one.get("promptIdx"), str(_part(one, "provider").get("id", ""))) for one in results}
    if len(asked) > 1:
        names = ", ".join(sorted(f"prompt {prompt} of {provider}" for prompt, provider in asked))
        raise DataError(f"{path} holds answers to {names}; write a file for each (promptfoo eval --filter-providers)")
    rows = []
    for one in results:
        reply = _part(one, "response")
        usage, output = _part(reply, "tokenUsage"), reply.get("output")
        row = {"vars": _part(one, "vars"), "assert": _part(one, "testCase").get("assert")}
        row |= output if isinstance(output, dict) else {"response": output}
        row["error"] = one.get("error") if output is None else None
        row["usage"] = {ours: usage.get(theirs, 0) for ours, theirs in _USAGE.items()} if usage else None
        row["latency_ms"] = {"total": one["latencyMs"]} if "latencyMs" in one else None
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _part(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return part if isinstance(part := record.get(name), dict) else {}


def read_other(path: Path, form: str, corpus: Mapping[str, Document] | None) -> Reading:
    """The cases of a file of another tool; contexts become evidence where `corpus` holds them."""
    reading = Reading()
    if form == "llamaindex" and corpus is None:
        own = json.loads(path.read_text(encoding="utf-8-sig")).get("corpus", {})
        reading.documents = {doc_id: Document(doc_id, text) for doc_id, text in own.items()}
    documents = reading.documents if corpus is None else corpus
    texts = Texts(documents, _THRESHOLD)
    seen: Counter[str] = Counter()
    lost: list[str] = []
    for number, row in enumerate(records(path, form), 1):
        question = _text(row, _QUESTION)
        if not question:
            reading.wrong(number, "question", ", ".join(row) or "none", f"one of {', '.join(_QUESTION)}", path.name)
            continue
        query_id = str(next((row[key] for key in _IDS if row.get(key) not in (None, "")), "") or derived_id(question))
        seen[query_id] += 1
        query_id += f"-{seen[query_id]}" if seen[query_id] > 1 else ""
        contexts = _list(row, _CONTEXTS)
        places = [texts.find(context) if documents else None for context in contexts]
        spans = tuple(p.holders[0] for p in places if p is not None and p.how != "unmatched")
        unmatched = [c for c, p in zip(contexts, places, strict=True) if p is None or p.how == "unmatched"]
        lost += [query_id] if unmatched else []
        keywords, answer = _asserted(row.get("assert") or ())
        case = Case(
            query_id, question, evidence=spans, reference_answer=answer or _text(row, _ANSWER) or None,
            required_keywords=tuple(keywords), category=str(row.get("category") or ""),
            metadata={"reference_contexts": unmatched} if unmatched else {},
        )  # fmt: skip
        relevant = dict.fromkeys([*_list(row, _SOURCES, split=True), *(span.doc_id for span in spans)], 1)
        reading.entries.append(Entry(case, relevant, number, path.name))
    if lost and documents:
        warn(str(path), "reference contexts are in no document of the corpus: they are metadata, not evidence", lost)
    elif lost:
        warn(str(path), "reference contexts become evidence only with the documents (corpus=, --corpus)", lost)
    return reading


def matched_contexts(path: Path, form: str, corpus: Mapping[str, Document]) -> dict[str, int]:
    """How many reference contexts of a file were found "exact", "white space", "fuzzy", and "unmatched"."""
    texts = Texts(corpus, _THRESHOLD)
    found = (texts.find(context) for row in records(path, form) for context in _list(row, _CONTEXTS))
    return dict(Counter(place.how for place in found))


def other_text(dataset: Dataset, form: str, suffix: str = "") -> str:
    """A test set as another tool reads it; evidence becomes reference contexts."""
    rows = [_Row(case, dataset) for case in dataset.cases]
    if form == "ragas":
        return _lines({"user_input": r.question, "reference": r.answer, "reference_contexts": r.contexts} for r in rows)
    if form == "langsmith":
        return _lines(
            {"inputs": {"question": r.question}, "outputs": {"answer": r.answer}, "metadata": {"id": r.id}}
            for r in rows
        )
    if form == "deepeval":
        return _json([{"input": r.question, "expected_output": r.answer, "context": r.contexts} for r in rows])
    if form == "llamaindex":
        examples = [
            {"query": r.question, "query_by": None, "reference_contexts": r.contexts, "reference_answer": r.answer,
             "reference_answer_by": None}
            for r in rows
        ]  # fmt: skip
        return _json({"examples": examples})
    if form == "promptfoo":
        import yaml

        tests = [{"description": r.id, "vars": {"question": r.question}, "assert": r.asserts} for r in rows]
        return str(yaml.safe_dump({"tests": tests}, sort_keys=False, allow_unicode=True))
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    writer.writerow(["id", "question", "answer", "source"])
    writer.writerows([r.id, r.question, r.answer or "", ";".join(r.sources)] for r in rows)
    return out.getvalue()


class _Row:
    def __init__(self, case: Case, dataset: Dataset) -> None:
        self.id, self.question, self.answer = case.query_id, case.text, case.reference_answer
        self.sources = [doc_id for doc_id, grade in dataset.qrels.get(case.query_id, {}).items() if grade > 0]
        known = [span for span in case.evidence if span.doc_id in dataset.corpus]
        self.contexts = [dataset.corpus[span.doc_id].full_text[span.start : span.end] for span in known]
        self.asserts = [{"type": "factuality", "value": self.answer}] if self.answer else []
        self.asserts += [{"type": "icontains", "value": keyword} for keyword in case.required_keywords]


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A record with what its `inputs`, `outputs` and `vars` hold, under our names."""
    flat = {key: value for key, value in row.items() if key not in ("inputs", "outputs", "vars")}
    for part, names in (
        ("inputs", _QUESTION),
        ("vars", _QUESTION),
        ("input", _QUESTION),
        ("outputs", _ANSWER),
        ("output", _ANSWER),
    ):
        inner = row.get(part)
        if isinstance(inner, Mapping):
            flat.pop(part, None)
            flat = {**inner, **flat}
            texts = [value for value in inner.values() if isinstance(value, str)]
            if texts and not any(isinstance(inner.get(name), str) for name in names):
                flat[names[0]] = texts[0]
    return flat


def _cell(value: Any) -> Any:
    """A cell of a table, which may hold JSON, or a list as Python writes it."""
    text = str(value).strip()
    if text[:1] in "[{" and text:
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(text)
            except (ValueError, SyntaxError):
                continue
    return text


def _by_name(row: Mapping[str, Any], names: Sequence[str]) -> Iterator[Any]:
    folded = {str(key).casefold().replace(" ", "_"): value for key, value in row.items()}
    return (folded[name] for name in names if folded.get(name) not in (None, "", []))


def _text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((value.strip() for value in _by_name(row, names) if isinstance(value, str)), "")


def _list(row: Mapping[str, Any], names: Sequence[str], split: bool = False) -> list[str]:
    found: Any = next(_by_name(row, names), [])
    if isinstance(found, str):
        found = [part.strip() for part in found.replace("|", ";").split(";")] if split else [found]
    return [str(one) for one in found if one] if isinstance(found, list) else []


def _asserted(asserts: Sequence[Any]) -> tuple[list[str], str]:
    """The keywords and the reference answer that promptfoo's assertions hold."""
    keywords: list[str] = []
    answer = ""
    for one in asserts:
        kind, value = str(one.get("type", "")), one.get("value")
        if kind in ("contains", "icontains", "contains-all", "icontains-all"):
            keywords += [str(part) for part in (value if isinstance(value, list) else [value])]
        elif (
            kind in ("equals", "similar", "factuality", "model-graded-factuality", "rouge-n", "context-recall")
            and value
        ):
            answer = answer or str(value if not isinstance(value, list) else value[0])
    return keywords, answer


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _lines(rows: Iterator[dict[str, Any]] | Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
