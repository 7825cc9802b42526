"""Files of other tools, read as test sets; those with answers also as systems (`RecordedSystem`)::

    of                       questions               gold                                answers, contexts
    ragas JSONL, CSV         user_input, question    reference, reference_contexts       response, retrieved_contexts
    DeepEval JSON(L), CSV    input                   expected_output, context           actual_output, retrieval_context
    promptfoo YAML           vars                    assert: contains, equals, ...
    promptfoo output JSON    vars                    assert                              response.output
    Haystack CSV, JSON       question, query         ground_truth                        predicted_answer, contexts
    LlamaIndex JSON          examples: query         reference_answer, _contexts
    - predictions            of rag_dataset.json                                         response, contexts
    LangSmith CSV, JSONL     input_question, inputs  output_answer, outputs              the same, of an experiment
    OTLP, Phoenix, Langfuse, LangSmith: the questions and answers of traces (`ragbench.testsets.traces`)
    AutoRAG qa.parquet       query, qid              retrieval_gt, generation_gt
    - corpus.parquet         documents, next to qa.parquet or as corpus=
    TREC nuggets JSONL       query, qid              nuggets: text, importance (vital or okay)
    CSV, TSV, XLSX, .parquet, save_to_disk: question, answer, source

Folders and .zip files in BEIR's form, also with qrels/<split>.jsonl as MTEB has them, are read by
`ragbench.datasets.beir`.

Which one a file is, its fields tell, and which of them hold what is expected (`fields`). Reference
contexts are looked for in the documents and become evidence; one that no document holds stays in
the case's metadata, with a warning. A source is a relevant document.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.datasets.corpus import parquet_rows
from ragbench.datasets.jsonl import json_lines, located
from ragbench.datasets.passages import NOWHERE, Texts
from ragbench.datasets.records import Flaws, warn_all
from ragbench.errors import DataError, RagbenchError, require
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import Content, Entry, derived_id, nth_id
from ragbench.testsets.fields import (
    LISTS,
    QUESTIONS,
    TABLES,
    labels_of,
    read_cell,
    tool_of,
    without_none,
)
from ragbench.testsets.parser import Record, UnreadableError, parse, read_bytes
from ragbench.testsets.traces import trace_records
from ragbench.types import Case, Document

_EXPECTING = "equals similar factuality model-graded-factuality rouge-n context-recall".split()
_UNMATCHED = "reference contexts are in no document of the corpus: they are metadata, not evidence"
_WITHOUT_DOCUMENTS = "reference contexts become evidence only with the documents (corpus=, --docs)"
_DOUBTFUL = (
    "questions have contexts and an answer, which are read as a system's: name what is expected "
    "reference and reference_contexts"
)


def other_form(path: Path) -> str:
    """Return the tool that a file is of, by its fields; "" for ragbench's own forms and for what is
    no test set.

    Raises:
        DataError: a table that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix in TABLES:
        is_spans = suffix == ".parquet" and "traces" in map(tool_of, parquet_rows(path)[:1])
        return "traces" if is_spans else "table"
    with suppress(DataError, LookupError, TypeError):  # ragbench's own readers name the problem
        if suffix == ".jsonl":
            return next((tool_of(record) for _, record in json_lines(path)), "")
        if suffix == ".json" or b"vars" in read_bytes(path):
            content = _content(path)
            if isinstance(content, dict) and "results" in _part(content, "results"):
                return "promptfoo"
            rows = _listed(content, path)
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                if "vars" in rows[0]:
                    return "promptfoo"
                is_table = rows is not content and labels_of(rows[0]).question != ""
                return tool_of(rows[0]) or "table" * is_table
    return ""


def records(path: Path, form: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of every record of a file; of ragbench's lines where there is
    no form.

    Raises:
        DataError: it is not what its form has.
    """
    if path.suffix.lower() == ".jsonl":
        numbered = json_lines(path)
    else:
        is_table = path.is_dir() or path.suffix.lower() in TABLES
        content: Any = _rows(path) if is_table else _content(path)
        if isinstance(content, dict) and "results" in _part(content, "results"):
            content = _answered(content, path)
        with suppress(LookupError, TypeError):
            content = _listed(content, path)
        if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
            raise DataError(f"{path}: expected a list of records{form and f' of {form}'}")
        numbered = enumerate(content, 1)
    if form == "traces":
        with located(str(path)):
            numbered = enumerate([*trace_records(row for _, row in numbered)], 1)
    yield from numbered


def _content(path: Path) -> Any:
    try:
        return parse(read_bytes(path), path.name).value
    except UnreadableError as exc:
        raise DataError(str(exc.problem)) from exc


def _listed(content: Any, path: Path) -> Any:
    """Return the records of a JSON or YAML file: its list, that in a field, or the rows of columns.
    LlamaIndex's predictions have the questions of the rag_dataset.json next to them.
    """
    if not isinstance(content, dict):
        return content
    if tool_of(content) == "traces":
        return [content]
    questions = path.with_name("rag_dataset.json")
    for name in LISTS:
        if name == "predictions" and name in content and questions.is_file():
            pairs = zip(_listed(_content(questions), path), content[name], strict=False)
            return [{"query": example["query"], **reply} for example, reply in pairs]
        if name in content:
            return content[name]
    columns = content.values()
    if all(isinstance(column, list) for column in columns) and len({*map(len, columns)}) == 1:
        return [dict(zip(content, row, strict=True)) for row in zip(*columns, strict=True)]
    return None


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, of a workbook its first sheet, of several splits "test"; empty
    cells are left out.
    """
    import pandas as pd

    options: dict[str, Any] = {"dtype": str, "keep_default_na": False}
    try:
        if path.is_dir():
            import datasets

            saved = datasets.load_from_disk(str(path))
            if isinstance(saved, dict):
                saved = saved["test"] if "test" in saved else next(iter(saved.values()))
            return list(saved.to_list())
        if path.suffix.lower() == ".parquet":
            return parquet_rows(path)
        if path.suffix.lower() == ".xlsx":
            require("openpyxl", "xlsx")
            table = pd.read_excel(path, **options)
        else:
            first = read_bytes(path).partition(b"\n")[0].decode()
            separator = max(",;\t", key=first.count)
            table = pd.read_csv(path, sep=separator, encoding="utf-8-sig", **options)
    except RagbenchError:
        raise
    except Exception as exc:  # of a damaged archive there are many kinds
        raise DataError(
            f"{path} could not be read as a table: {exc}; save it as .csv in UTF-8"
        ) from exc
    cells = (
        {
            str(name).strip(): read_cell(text.strip())
            for name, text in row.items()
            if isinstance(text, str)
        }
        for row in table.to_dict("records")
    )
    return [row for row in cells if any(row.values())]


def _answered(output: Mapping[str, Any], path: Path) -> Any:
    """Return what one prompt and provider of promptfoo answered: its tests, with the answers."""
    results = output["results"]["results"]
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    sources = {f"prompt {r.get('promptIdx')} of {_part(r, 'provider').get('id')}" for r in results}
    if len(sources) > 1:
        raise DataError(
            f"{path} holds answers to {', '.join(sorted(sources))}; write a file for each "
            "(promptfoo eval --filter-providers)"
        )
    rows = []
    for result in results:
        reply = _part(result, "response").get("output")
        row = {
            "vars": _part(result, "vars"),
            "assert": _part(result, "testCase").get("assert"),
            **(reply if isinstance(reply, dict) else {"response": reply}),
            "error": result.get("error") if reply is None else None,
        }
        rows.append(without_none(row))
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
    flaws: Flaws = defaultdict(list)
    for number, row in numbered:
        record = Record(row, path.name, (), lambda keys, line=number: line)  # type: ignore[misc]
        labels = labels_of(row)
        if not labels.question:
            expected = f"one of {', '.join(QUESTIONS)}"
            content.problems.append(
                record.problem(("question",), ", ".join(map(str, row)) or "none", expected)
            )
            continue
        query_id = labels.query_id or derived_id(labels.question)
        seen[query_id] += 1
        query_id = nth_id(query_id, seen[query_id])
        sources = list(map(ids.full, labels.sources))
        places = {context: texts.find(context) for context in labels.evidence}
        unmatched = [context for context, match in places.items() if match == NOWHERE]
        # of the documents that hold a context the one that is named as its source, else the first
        spans = [
            next((span for span in match.holders if span.doc_id in sources), match.holders[0])
            for match in places.values()
            if match != NOWHERE
        ]
        matched = dict.fromkeys(span.doc_id for span in spans)
        # a name that no document has, and a document that has no name: one is the other
        unnamed = len(matched.keys() - {*sources})
        absent = [source for source in sources if documents and source not in documents][:unnamed]
        relevant = [source for source in (*sources, *matched) if source not in absent]
        nuggets = _nuggets(row.get("nuggets"))
        okay = [text for text, importance in nuggets.items() if importance == "okay"]
        metadata = {"reference_contexts": unmatched, "sources": absent, "okay_facts": okay}
        asserted = _asserted(row.get("assert"))
        case = Case(
            query_id,
            labels.question,
            evidence=tuple(spans),
            reference_answer=next(iter(asserted["reference"]), "") or labels.reference or None,
            gold_facts=tuple((text,) for text in nuggets),
            required_keywords=tuple(asserted["required"]),
            forbidden_claims=tuple(asserted["forbidden"]),
            category=labels.category,
            metadata={name: value for name, value in metadata.items() if value},
        )
        content.entries.append(Entry(case, dict.fromkeys(relevant, 1), record))
        if unmatched:
            flaws[_UNMATCHED if documents else _WITHOUT_DOCUMENTS].append(query_id)
        for kind in asserted[""]:
            flaws[f"assertions {kind!r} are not read"].append(query_id)
        if labels.doubtful:
            flaws[_DOUBTFUL].append(query_id)
    warn_all(str(path), flaws)
    return content


def _nuggets(value: Any) -> dict[str, Any]:
    """Return the facts of TREC's nuggets, and their importance."""
    nuggets = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return {str(item["text"]): item.get("importance") for item in nuggets if item.get("text")}


def _asserted(asserts: Any) -> dict[str, list[str]]:
    """Return what promptfoo's assertions hold: "reference" answers, "required" keywords, "forbidden"
    texts, and under "" the kinds that are not read.
    """
    labels: dict[str, list[str]] = {"reference": [], "required": [], "forbidden": [], "": []}
    for rule in asserts if isinstance(asserts, list) else ():
        kind, value = (rule.get("type"), rule.get("value")) if isinstance(rule, dict) else ("", "")
        parts = value if isinstance(value, list) else [value]
        values = [str(part) for part in parts if part not in (None, "")]
        if str(kind).removeprefix("i") in ("contains", "contains-all"):
            labels["required"] += values
        elif kind in _EXPECTING:
            labels["reference"] += values[:1]
        elif str(kind).replace("-i", "-") in ("not-contains", "not-contains-any"):
            labels["forbidden"] += values
        elif kind:
            labels[""].append(str(kind))
    return labels
