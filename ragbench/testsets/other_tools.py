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
    SQuAD, HotpotQA, MuSiQue, KILT, LegalBench-RAG, RAGTruth: `ragbench.testsets.published`
    ARES, Azure, BioASQ, Braintrust, CLAP NQ, CRAG, FinanceBench, MLflow, MultiHop-RAG, RAGChecker,
    TruLens, open-rag-eval (a row for each passage), topics of TREC (.tsv)
    CSV, TSV, XLSX, .parquet, save_to_disk: question, answer, source

Folders and .zip files in BEIR's form, also with qrels/<split>.jsonl as MTEB has them, are read by
`ragbench.datasets.beir`.

One table of names (`fields`) tells what a field holds, whichever the file is: ragbench's own test
sets are read by it too. Reference contexts are looked for in the documents and become evidence; one
that no document holds stays in the case's metadata, with a warning. A source is a relevant
document.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.corpus import parquet_rows
from ragbench.datasets.jsonl import json_lines, located, shown
from ragbench.datasets.passages import NOWHERE, Texts
from ragbench.datasets.records import Flaws, warn_all
from ragbench.errors import DataError, RagbenchError, printable, require
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import CaseLine, Content, Entry, check, entry_of, fields_of, nth_id
from ragbench.testsets.fields import (
    ANSWERS,
    IDS,
    LISTS,
    PASSAGE_IDS,
    PASSAGE_SCORES,
    PASSAGES,
    QUESTIONS,
    REPLIES,
    TABLES,
    Labels,
    labels_of,
    read_cell,
    tool_of,
    with_whole_numbers,
    without_none,
)
from ragbench.testsets.parser import NoPlainValueError, Record, parse, read_bytes
from ragbench.testsets.problems import nearest
from ragbench.testsets.published import NO_QUESTION, expanded_row, refuse_foreign, refuse_trec
from ragbench.testsets.traces import trace_records
from ragbench.types import Document

_EXPECTING = "equals similar factuality model-graded-factuality rouge-n context-recall".split()
_UNMATCHED = "reference contexts are in no document of the corpus: they are metadata, not evidence"
_WITHOUT_DOCUMENTS = "reference contexts become evidence only with the documents (corpus=, --docs)"
_ALTERNATIVES = (
    "questions have alternative documents, of which one is enough for measures of a ranking of "
    "documents; measures of contexts, evidence and citations count each"
)
_SEVERAL = "questions have several reference answers; the first is read, the others are metadata"
_DOUBTFUL = (
    "questions have contexts and an answer, which are read as a system's: name what is expected "
    "reference and reference_contexts"
)


def other_form(path: Path) -> str:
    """Return the form of a file that is not ragbench's own: a tool by its fields ("promptfoo",
    "traces", "deepeval", ...), "table" for rows of no known tool; "" for ragbench's own forms and for
    what is no test set.

    Raises:
        DataError: a table that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        first = [without_none(row) for row in parquet_rows(path)[:1]]
        is_spans = any(tool_of(row) == "traces" for row in first)
        return "traces" if is_spans else "table"
    if suffix in TABLES:
        return "table"
    with suppress(DataError, LookupError, TypeError):  # ragbench's own readers name the problem
        if suffix == ".jsonl":
            return next((form_of_row(record) for _, record in json_lines(path)), "")
        if suffix == ".json" or b"vars" in read_bytes(path):
            content = _content(path)
            return form_of_value(content, _questions_of(content, path))
    return ""


def form_of_value(content: Any, questions: Any = None) -> str:
    """Return the tool that the value of a JSON or YAML file is of, as `other_form`.

    `questions` is the value of LlamaIndex's rag_dataset.json next to predictions.
    """
    if isinstance(content, dict) and "results" in _part(content, "results"):
        return "promptfoo"
    rows = _listed(content, questions)
    if not (isinstance(rows, list) and rows and isinstance(rows[0], dict)):
        return ""
    if "vars" in rows[0]:
        return "promptfoo"
    if form := form_of_row(rows[0]):
        return form
    return "table" if rows is not content and has_question(rows[0]) else ""


def form_of_row(row: Mapping[str, Any]) -> str:
    """Return the tool of a record, "table" for one of a public test set or with one passage."""
    tool = tool_of(row)
    if tool:
        return tool
    rows, _ = expanded_row(row)
    is_passage = labels_of(row).question is not None and not row.keys().isdisjoint(PASSAGES)
    return "table" if rows != [row] or is_passage else ""


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
        rows = rows_of_value(content, form, str(path), _questions_of(content, path))
        numbered = enumerate(rows, 1)
    yield from numbered_rows(numbered, form, str(path))


def rows_of_value(
    content: Any, form: str, source: str, questions: Any = None
) -> list[dict[str, Any]]:
    """Return the records in the value of a JSON or YAML file; `questions` as in `form_of_value`.

    Raises:
        DataError: it is not what its form has; `source` is its place in the message.
    """
    if isinstance(content, dict) and "results" in _part(content, "results"):
        content = _answered(content, source)
    with suppress(LookupError, TypeError):
        content = _listed(content, questions)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataError(f"{source}: expected a list of records{form and f' of {form}'}")
    return content


def numbered_rows(
    numbered: Iterable[tuple[int, dict[str, Any]]], form: str, source: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of each question in the rows of another tool."""
    if form == "traces":
        with located(source):
            numbered = enumerate([*trace_records(row for _, row in numbered)], 1)
    for number, record in one_per_question(numbered):
        if number == 1:
            with located(source):
                refuse_foreign(record)
        yield number, record


def _content(path: Path) -> Any:
    try:
        return parse(read_bytes(path), path.name).value
    except NoPlainValueError as exc:
        raise DataError(str(exc.problem)) from exc


def _questions_of(content: Any, path: Path) -> Any:
    """Return the value of LlamaIndex's rag_dataset.json next to a file of predictions, or None."""
    file = path.with_name("rag_dataset.json")
    is_predictions = isinstance(content, dict) and "predictions" in content
    return _content(file) if is_predictions and path != file and file.is_file() else None


def _listed(content: Any, questions: Any) -> Any:
    """Return the records of a JSON or YAML file: its list, that in a field, or the rows of columns.
    LlamaIndex's predictions get their questions from `questions`.
    """
    if not isinstance(content, dict):
        return content
    if tool_of(content) == "traces":
        return [content]
    for name in LISTS:
        if name == "predictions" and name in content and questions is not None:
            pairs = zip(_listed(questions, None), content[name], strict=False)
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
            return with_whole_numbers(saved.to_list())
        if path.suffix.lower() == ".parquet":
            return with_whole_numbers(parquet_rows(path))
        if path.suffix.lower() == ".xlsx":
            require("openpyxl", "xlsx")
            table = pd.read_excel(path, **options)
        else:
            refuse_trec(path)
            content = read_bytes(path)
            if not content.strip():
                raise DataError(f"{path} is empty")
            first = content.partition(b"\n")[0].decode()
            separator = max(",;\t", key=first.count)
            columns = first.rstrip("\r").split("\t")
            if len(columns) == 2 and labels_of(dict.fromkeys(columns, "?")).question is None:
                # topics of TREC and queries of MS MARCO: a number and a question, without a header
                options |= {"names": ["query_id", "query"], "quoting": csv.QUOTE_NONE}
            table = pd.read_csv(path, sep=separator, encoding="utf-8-sig", **options)
    except RagbenchError:
        raise
    except UnicodeDecodeError as exc:
        raise DataError(
            f"{path}: byte {exc.start:,} is not UTF-8; save the file as .csv in UTF-8"
        ) from exc
    except Exception as exc:  # of a damaged archive there are many kinds
        raise DataError(
            f"{path} could not be read as a table: {exc}; save it as .csv in UTF-8"
        ) from exc
    rows = [
        {
            str(name).strip(): _cell(str(name), text.strip())
            for name, text in row.items()
            if isinstance(text, str)
        }
        for row in table.to_dict("records")
    ]
    filled = [row for row in rows if any(row.values())]
    if not filled:
        header = ", ".join(printable(str(name)) for name in table)
        raise DataError(f"{path} has no rows below its columns {header}; add a row per question")
    return filled


def _cell(name: str, text: str) -> Any:
    """Return what a cell of a table holds; a question and an answer are texts, whatever they hold."""
    is_text = name.strip().casefold().replace(" ", "_") in (*QUESTIONS, *REPLIES, *ANSWERS)
    return text if is_text else read_cell(text)


def _answered(output: Mapping[str, Any], source: str) -> Any:
    """Return what one prompt and provider of promptfoo answered: its tests, with the answers."""
    results = output["results"]["results"]
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    sources = {f"prompt {r.get('promptIdx')} of {_part(r, 'provider').get('id')}" for r in results}
    if len(sources) > 1:
        raise DataError(
            f"{source} holds answers to {', '.join(sorted(sources))}; write a file for each "
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


def one_per_question(
    numbered: Iterable[tuple[int, dict[str, Any]]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with one passage each as one record for each question, with all its passages.

    Rows of one question follow each other or not; what only the first of them has, such as the
    answer, counts for all. Other rows stay as they are.

    >>> rows = [{"query": "Why?", "passage": "A."}, {"query": "Why?", "passage": "B."}]
    >>> list(one_per_question(enumerate(rows, 1)))
    [(1, {'query': 'Why?', 'retrieved_contexts': [{'text': 'A.'}, {'text': 'B.'}]})]
    """
    merged: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
    for number, row in numbered:
        names = {str(name).strip().casefold(): name for name in row}
        passage = next((names[name] for name in PASSAGES if name in names), None)
        if passage is None:
            yield number, row
            continue
        parts = {
            "id": next((names[name] for name in PASSAGE_IDS if name in names), None),
            "text": passage,
            "score": next((names[name] for name in PASSAGE_SCORES if name in names), None),
        }
        context = {part: row[name] for part, name in parts.items() if name is not None}
        if isinstance(passage_id := context.get("id"), list):  # "[1]", which is a list in JSON
            context["id"] = ", ".join(map(str, passage_id))
        rest = {name: value for name, value in row.items() if name not in parts.values()}
        keys = (*IDS, *QUESTIONS, "query_run", "run", "run_id")
        key = tuple(str(rest[names[name]]) for name in keys if names.get(name) in rest)
        _, record = merged.setdefault(key, (number, rest))
        for name, value in rest.items():
            record[name] = record.get(name) or value
        if context.get("text"):
            record.setdefault("retrieved_contexts", []).append(without_none(context))
    yield from merged.values()


def has_question(row: Mapping[str, Any]) -> bool:
    """Return True if a record has a question, under any name and in any of the published forms."""
    rows, _ = expanded_row(row)
    return any(isinstance(labels_of(each).question, str) for each in rows)


def read_records(
    numbered: Iterable[tuple[int, dict[str, Any]]],
    path: Path,
    corpus: Mapping[str, Document] | None,
) -> Content:
    """Read the cases of `records`; documents that they hold are the corpus where there is none."""
    content = Content()
    records = []
    skipped = []
    for number, row in numbered:
        rows, documents = expanded_row(row)
        if not rows:
            skipped.append(f"line {number}")
        content.documents |= documents
        records += [
            Record(each, path.name, (), lambda keys, line=number: line)  # type: ignore[misc]
            for each in rows
        ]
    if skipped and not records:
        raise DataError(
            f"{path}: none of the {len(skipped)} records has a question; choose the part of the "
            "collection that has questions and answers"
        )
    warn_all(str(path), {"records have no question and are left out": skipped})
    add_cases(content, records, str(path), corpus)
    return content


def add_cases(
    content: Content,
    records: Iterable[Record],
    source: str,
    corpus: Mapping[str, Document] | None,
) -> None:
    """Add the cases of records of any form to `content`, with what is wrong with them.

    The names of their fields are those of the table in `fields`. Texts that are expected become
    evidence where a document of `corpus` (None: of the content) holds them. A question that is
    asked several times without an id gets a number for each; rows with one id and one question are
    one case with the documents of all.
    """
    documents = content.documents if corpus is None else corpus
    texts, ids = Texts(documents), DocumentIds(documents)
    records = list(records)
    own = fields_of(CaseLine)
    copies: Counter[str] = Counter()
    places: dict[str, tuple[int, Record]] = {}
    flaws: Flaws = defaultdict(list)
    labelled = [
        (record, labels_of(record.value, own) if isinstance(record.value, dict) else None)
        for record in records
    ]
    without = [labels for _, labels in labelled if labels and labels.question is None]
    if without and len(without) == len(records):
        with located(source):
            refuse_foreign(records[0].value)
    is_foreign = any(
        name not in own and not nearest(name, own) for labels in without for name in labels.case
    )
    if is_foreign and len(without) == len(records):
        names = ", ".join(map(str, records[0].value))
        problem = records[0].problem((), f"no question among the fields {names}", NO_QUESTION)
        content.problems.append(problem)
        return
    for record, labels in labelled:
        if labels is None:
            check(CaseLine, record, content)
            continue
        for name, expected in labels.unreadable.items():
            value = shown(record.value.get(name), 60)
            content.problems.append(record.problem((name,), value, expected))
        if labels.unreadable:
            continue
        named = replace(record, value=labels.case, names=labels.names)
        line = check(CaseLine, named, content, is_lenient=labels.is_foreign)
        if line is None:
            continue
        entry = _with_documents(entry_of(line, named), labels, record, ids, texts, flaws)
        has_id = not labels.case.keys().isdisjoint(("query_id", "id", "case_id"))
        query_id = entry.case.query_id
        if not has_id and not line.turns:
            copies[query_id] += 1
            query_id = nth_id(query_id, copies[query_id])
            entry = entry._replace(case=replace(entry.case, query_id=query_id))
        if query_id in places:
            place, earlier = places[query_id]
            joined = _joined(content.entries[place], entry)
            if joined is None:
                expected = f"an id of its own: line {earlier.line} has this one"
                content.problems.append(record.problem(("query_id",), shown(query_id), expected))
            else:
                content.entries[place] = joined
            continue
        places[query_id] = (len(content.entries), record)
        content.entries.append(entry)
    warn_all(source, flaws)


def _joined(first: Entry, second: Entry) -> Entry | None:
    """Return two rows about one question as one case with the documents of both; None where they
    differ in any other label.
    """
    alike = replace(second.case, evidence=first.case.evidence, metadata=first.case.metadata)
    if alike != first.case:
        return None
    evidence = tuple(dict.fromkeys((*first.case.evidence, *second.case.evidence)))
    case = replace(first.case, evidence=evidence)
    return first._replace(
        case=case,
        relevant={**first.relevant, **second.relevant},
        quotes=(*first.quotes, *second.quotes),
    )


def _with_documents(
    entry: Entry,
    labels: Labels,
    record: Record,
    ids: DocumentIds,
    texts: Texts,
    flaws: Flaws,
) -> Entry:
    """Return an entry with its texts found in the documents, and with nuggets and assertions."""
    query_id = entry.case.query_id
    sources = list(map(ids.full, labels.sources))
    found = {quote.text: texts.find(quote.text) for quote in labels.quotes}
    unmatched = [text for text, match in found.items() if match == NOWHERE]
    # of the documents that hold a text the one that is named as its source, else the first
    spans = [
        next((span for span in match.holders if span.doc_id in sources), match.holders[0])
        for match in found.values()
        if match != NOWHERE
    ]
    matched = dict.fromkeys(span.doc_id for span in spans)
    # a name that no document has, and a document that has no name: one is the other
    unnamed = len(matched.keys() - {*sources})
    absent = [source for source in sources if ids.is_absent(source)][:unnamed]
    relevant = [source for source in (*sources, *matched) if source not in absent]
    nuggets = _nuggets(record.value.get("nuggets"))
    okay = [text for text, importance in nuggets.items() if importance == "okay"]
    asserted = _asserted(record.value.get("assert"))
    metadata = {
        "reference_contexts": unmatched,
        "sources": absent,
        "okay_facts": okay,
        "alternatives": [list(map(ids.full, group)) for group in labels.alternatives],
    }
    case = entry.case
    case = replace(
        case,
        evidence=tuple(dict.fromkeys((*case.evidence, *spans))),
        reference_answer=next(iter(asserted["reference"]), "") or case.reference_answer,
        gold_facts=(*case.gold_facts, *((text,) for text in nuggets)),
        required_keywords=(*case.required_keywords, *asserted["required"]),
        forbidden_claims=(*case.forbidden_claims, *asserted["forbidden"]),
        metadata={**case.metadata, **{name: each for name, each in metadata.items() if each}},
    )
    if unmatched:
        flaws[_WITHOUT_DOCUMENTS if ids.is_empty else _UNMATCHED].append(query_id)
    if "other_references" in case.metadata:
        flaws[_SEVERAL].append(query_id)
    if labels.alternatives:
        flaws[_ALTERNATIVES].append(query_id)
    for kind in asserted[""]:
        flaws[f"assertions {kind!r} are not read"].append(query_id)
    if labels.doubtful:
        flaws[_DOUBTFUL].append(query_id)
    return entry._replace(case=case, relevant={**dict.fromkeys(relevant, 1), **entry.relevant})


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
