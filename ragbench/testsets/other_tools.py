"""Files of other tools, read as test sets; those with answers also as systems (`RecordedSystem`)::

    tool                     questions               gold                                answers, contexts
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

One table of names (`fields`) states the meaning of every field, in all these files and in ragbench's
own test sets. Reference contexts are looked for in the documents and become evidence; a context that
no document holds stays in the case's metadata, with a warning. A source is a relevant document.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.corpus import parquet_rows
from ragbench.datasets.jsonl import json_lines, located, shown
from ragbench.datasets.passages import NOWHERE, Texts
from ragbench.datasets.raw_records import Flaws, warn_all
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
    first_name,
    read_cell,
    tool_of,
    with_whole_numbers,
    without_none,
)
from ragbench.testsets.located_data import NoPlainValueError, Record, parse, read_bytes
from ragbench.testsets.problems import nearest
from ragbench.testsets.published import NO_QUESTION, expanded_row, refuse_foreign, refuse_trec
from ragbench.testsets.record_labels import Labels, Quote, labels_of
from ragbench.testsets.traces import trace_records
from ragbench.types import Document, Span

_EXPECTING = "equals similar factuality model-graded-factuality rouge-n context-recall".split()
_UNMATCHED = "reference contexts are in no document of the corpus: they are metadata, not evidence"
_WITHOUT_DOCUMENTS = "reference contexts become evidence only with the documents (corpus=, --docs)"
_ALTERNATIVES = (
    "questions have alternative documents, of which one is enough; measures of evidence (passages) "
    "count each"
)
_SEVERAL = "questions have several reference answers; the first is read, the others are metadata"
_DOUBTFUL = (
    "questions have contexts and an answer, which are read as a system's: name expected ones "
    "reference and reference_contexts"
)


def other_form(path: Path) -> str:
    """Return the form of a file that is not ragbench's own: a tool by its fields ("promptfoo",
    "traces", "deepeval", ...), "table" for rows of no known tool; "" for ragbench's own forms and for
    any other file.

    Raises:
        DataError: the file is a table that cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        rows = parquet_rows(path)
        is_traces = bool(rows) and tool_of(without_none(rows[0])) == "traces"
        return "traces" if is_traces else "table"
    if suffix in TABLES:
        return "table"
    with suppress(DataError, LookupError, TypeError):  # ragbench's own readers name the problem
        if suffix == ".jsonl":
            for _, first_record in json_lines(path):
                return form_of_row(first_record)
            return ""
        if suffix == ".json" or b"vars" in read_bytes(path):  # YAML without vars is ragbench's own
            content = _content(path)
            return form_of_value(content, _questions_of(content, path))
    return ""


def form_of_value(content: Any, questions: Any = None) -> str:
    """Return the form of the value of a JSON or YAML file, as `other_form`.

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
    is_bare_list = rows is content  # ragbench's own form
    return "table" if not is_bare_list and has_question(rows[0]) else ""


def form_of_row(row: Mapping[str, Any]) -> str:
    """Return the tool of a record, "table" for a record of a public test set or with one passage; ""
    for any other.
    """
    tool = tool_of(row)
    if tool:
        return tool
    rows, _ = expanded_row(row)
    is_passage = labels_of(row).question is not None and not row.keys().isdisjoint(PASSAGES)
    return "table" if rows != [row] or is_passage else ""


def records(path: Path, form: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of every record of a file; `form` is "" for ragbench's own
    lines.

    Raises:
        DataError: the file does not have the form.
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
        DataError: the value does not have the form; `source` names its place in the message.
    """
    if isinstance(content, dict) and "results" in _part(content, "results"):
        content = _answered(content, source)
    with suppress(LookupError, TypeError):
        content = _listed(content, questions)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        of_form = f" of {form}" if form else ""
        raise DataError(f"{source}: expected a list of records{of_form}")
    return content


def numbered_rows(
    numbered: Iterable[tuple[int, dict[str, Any]]], form: str, source: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of each question in the rows of another tool.

    Raises:
        DataError: the rows are no questions; `source` names their place in the message.
    """
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
    if not isinstance(content, dict) or "predictions" not in content:
        return None
    questions = path.with_name("rag_dataset.json")
    if questions == path or not questions.is_file():
        return None
    return _content(questions)


def _listed(content: Any, questions: Any) -> Any:
    """Return the records of a JSON or YAML file: its list, the list in one of its fields, or the rows
    of its columns; None for any other object.

    `questions` is the content of LlamaIndex's file of questions, whose predictions are in another
    file without the questions; None if there is no such file.
    """
    if not isinstance(content, dict):
        return content
    if tool_of(content) == "traces":
        return [content]
    for name in LISTS:
        if name not in content:
            continue
        if name == "predictions" and questions is not None:
            examples = _listed(questions, None)
            pairs = zip(examples, content[name], strict=False)
            return [{"query": example["query"], **reply} for example, reply in pairs]
        return content[name]
    columns = content.values()
    if not all(isinstance(column, list) for column in columns):
        return None
    if len({len(column) for column in columns}) != 1:
        return None
    return [dict(zip(content, row, strict=True)) for row in zip(*columns, strict=True)]


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table without empty cells: the first sheet of a workbook, the split "test"
    of several splits (else the first).

    Raises:
        DataError: the table cannot be read, or has no rows.
    """
    try:
        if path.is_dir():
            import datasets

            saved = datasets.load_from_disk(str(path))
            if isinstance(saved, dict):
                saved = saved["test"] if "test" in saved else next(iter(saved.values()))
            return with_whole_numbers(saved.to_list())
        if path.suffix.lower() == ".parquet":
            return with_whole_numbers(parquet_rows(path))
        table = _table(path)
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
    rows = []
    for record in table.to_dict("records"):
        row = {}
        for name, text in record.items():
            if isinstance(text, str):
                row[str(name).strip()] = _cell(str(name), text.strip())
        if any(row.values()):
            rows.append(row)
    if not rows:
        header = ", ".join(printable(str(name)) for name in table)
        raise DataError(f"{path} has no rows below its columns {header}; add a row per question")
    return rows


def _table(path: Path) -> Any:
    """Return a workbook or a text file as a frame of texts."""
    import pandas as pd

    options: dict[str, Any] = {"dtype": str, "keep_default_na": False}
    if path.suffix.lower() == ".xlsx":
        require("openpyxl", "xlsx")
        return pd.read_excel(path, **options)
    refuse_trec(path)
    content = read_bytes(path)
    if not content.strip():
        raise DataError(f"{path} is empty")
    first_line = content.partition(b"\n")[0].decode()
    separator = max(",;\t", key=first_line.count)
    columns = first_line.rstrip("\r").split("\t")
    if len(columns) == 2 and labels_of(dict.fromkeys(columns, "?")).question is None:
        # topics of TREC and queries of MS MARCO: a number and a question, without a header
        options |= {"names": ["query_id", "query"], "quoting": csv.QUOTE_NONE}
    return pd.read_csv(path, sep=separator, encoding="utf-8-sig", **options)


def _cell(name: str, text: str) -> Any:
    """Return the value of a cell; questions and answers stay texts, even if they look like lists."""
    is_text = name.strip().casefold().replace(" ", "_") in (*QUESTIONS, *REPLIES, *ANSWERS)
    return text if is_text else read_cell(text)


def _answered(output: Mapping[str, Any], source: str) -> Any:
    """Return the tests of promptfoo's output with their answers.

    Raises:
        DataError: the answers are of several prompts or providers.
    """
    results = output["results"]["results"]
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    sources = set()
    for result in results:
        provider = _part(result, "provider").get("id")
        sources.add(f"prompt {result.get('promptIdx')} of {provider}")
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
    """Return the object in a field; {} where the field holds another value."""
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def one_per_question(
    numbered: Iterable[tuple[int, dict[str, Any]]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield rows with one passage each as one record for each question, with all its passages.

    The rows of a question need not be neighbours; an empty field takes its value from a later row.
    Rows without a column of passages are yielded unchanged, before all others.

    >>> rows = [{"query": "Why?", "passage": "A."}, {"query": "Why?", "passage": "B."}]
    >>> list(one_per_question(enumerate(rows, 1)))
    [(1, {'query': 'Why?', 'retrieved_contexts': [{'text': 'A.'}, {'text': 'B.'}]})]
    """
    merged: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
    for number, row in numbered:
        names = {str(name).strip().casefold(): name for name in row}
        columns = {  # part of a context -> folded name of its column, "" without one
            "id": first_name(names, PASSAGE_IDS),
            "text": first_name(names, PASSAGES),
            "score": first_name(names, PASSAGE_SCORES),
        }
        if not columns["text"]:
            yield number, row
            continue
        context = {part: row[names[column]] for part, column in columns.items() if column}
        passage_id = context.get("id")
        if isinstance(passage_id, list):  # an id written as "[1]" was read as a list
            context["id"] = ", ".join(map(str, passage_id))
        passage_columns = [names[column] for column in columns.values() if column]
        rest = {name: value for name, value in row.items() if name not in passage_columns}
        question = []  # the values that rows of one question have in common
        for key in (*IDS, *QUESTIONS, "query_run", "run", "run_id"):
            if names.get(key) in rest:
                question.append(str(rest[names[key]]))
        _, record = merged.setdefault(tuple(question), (number, rest))
        for name, value in rest.items():  # a later row fills empty fields
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
    """Return the cases of numbered records (`records`), and their documents.

    Reference contexts are looked for in `corpus`; None looks in the documents of the records.

    Raises:
        DataError: no record has a question.
    """
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
    """Add the cases of records of any form to `content.entries`, and the problems of the others to
    `content.problems`.

    The names of their fields are listed in `fields`. Expected texts become evidence where a document
    of `corpus` (None: of the content) holds them. A question that is asked several times without an
    id gets a number for each; rows with one id and one question are one case with the documents of
    all. Records that are no test set are one problem, and add no entry.

    Raises:
        DataError: the records are a known file of another kind.
    """
    records = list(records)
    own = fields_of(CaseLine)
    labels_of_records = [
        labels_of(record.value, own) if isinstance(record.value, dict) else None
        for record in records
    ]
    if _refused_as_no_test_set(content, records, labels_of_records, source):
        return
    documents = content.documents if corpus is None else corpus
    texts = Texts(documents)
    ids = DocumentIds(documents)
    n_copies: Counter[str] = Counter()
    places: dict[str, tuple[int, Record]] = {}  # of the first entry with an id
    flaws: Flaws = defaultdict(list)
    for record, labels in zip(records, labels_of_records, strict=True):
        if labels is None:
            check(CaseLine, record, content)  # notes the problem
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
            n_copies[query_id] += 1
            query_id = nth_id(query_id, n_copies[query_id])
            entry = entry._replace(case=replace(entry.case, query_id=query_id))
        if query_id not in places:
            places[query_id] = (len(content.entries), record)
            content.entries.append(entry)
            continue
        place, earlier = places[query_id]
        joined = _joined(content.entries[place], entry)
        if joined is None:
            expected = f"another id: line {earlier.line} has this one"
            content.problems.append(record.problem(("query_id",), shown(query_id), expected))
        else:
            content.entries[place] = joined
    warn_all(source, flaws)


def _refused_as_no_test_set(
    content: Content, records: Sequence[Record], labels: Sequence[Labels | None], source: str
) -> bool:
    """Return True, and add one problem to `content`, if no record has a question and some field's name
    is unlike every field of a test set; False if the records may be a (wrong) test set.

    Raises:
        DataError: the records are a known file of another kind.
    """
    without_question = [each for each in labels if each is not None and each.question is None]
    if not records or len(without_question) < len(records):
        return False
    with located(source):
        refuse_foreign(records[0].value)
    own = fields_of(CaseLine)
    names = {name for each in without_question for name in each.case}
    if all(name in own or nearest(name, own) for name in names):
        return False
    found = ", ".join(map(str, records[0].value))
    problem = records[0].problem((), f"no question among the fields {found}", NO_QUESTION)
    content.problems.append(problem)
    return True


def _joined(first: Entry, second: Entry) -> Entry | None:
    """Return two rows about one question as one case with the documents of both; None if they differ
    in any other label.
    """
    second_case = replace(second.case, evidence=first.case.evidence, metadata=first.case.metadata)
    if second_case != first.case:
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
    """Return an entry with its quotes located in the documents, and with the gold facts of its nuggets
    (TREC) and the labels of its assertions (promptfoo).

    Texts and names that cannot be used go to the metadata of the case, and to `flaws` (kind -> ids).
    """
    sources = [ids.full(source) for source in labels.sources]
    spans, unmatched = _evidence(labels.quotes, sources, texts)
    matched = dict.fromkeys(span.doc_id for span in spans)
    # a source that is the id of no document is taken for another name of a document that holds a
    # quoted text and that no source names; it is then not one more relevant document
    n_unnamed = len(matched.keys() - {*sources})
    absent = [source for source in sources if ids.is_absent(source)][:n_unnamed]
    relevant = [doc_id for doc_id in (*sources, *matched) if doc_id not in absent]
    importances = _nuggets(record.value.get("nuggets"))
    assertions = _asserted(record.value.get("assert"))
    okay_facts = [text for text, importance in importances.items() if importance == "okay"]
    alternatives = []
    for group in labels.alternatives:
        alternatives.append([ids.full(name) for name in group])
    metadata = {
        "reference_contexts": unmatched,
        "sources": absent,
        "okay_facts": okay_facts,
        "alternatives": alternatives,
    }
    case = entry.case
    reference = case.reference_answer
    if assertions["reference"]:
        reference = assertions["reference"][0]
    nuggets = [(text,) for text in importances]
    filled = {name: value for name, value in metadata.items() if value}
    case = replace(
        case,
        evidence=tuple(dict.fromkeys((*case.evidence, *spans))),
        reference_answer=reference,
        gold_facts=(*case.gold_facts, *nuggets),
        required_keywords=(*case.required_keywords, *assertions["required"]),
        forbidden_claims=(*case.forbidden_claims, *assertions["forbidden"]),
        metadata={**case.metadata, **filled},
    )
    kinds = []
    if unmatched:
        kinds.append(_WITHOUT_DOCUMENTS if ids.is_empty else _UNMATCHED)
    if "other_references" in case.metadata:
        kinds.append(_SEVERAL)
    if labels.alternatives:
        kinds.append(_ALTERNATIVES)
    kinds += [f"assertions {kind!r} are not read" for kind in assertions["unread"]]
    if labels.doubtful:
        kinds.append(_DOUBTFUL)
    for kind in kinds:
        flaws[kind].append(case.query_id)
    grades = dict.fromkeys(relevant, 1)
    return entry._replace(case=case, relevant={**grades, **entry.relevant})


def _evidence(
    quotes: Iterable[Quote], sources: Sequence[str], texts: Texts
) -> tuple[list[Span], list[str]]:
    """Return a span per quote that a document holds, and the quotes that none holds.

    Where several documents hold a quote, the one among `sources` counts, else the first.
    """
    spans = []
    unmatched = []
    for text in dict.fromkeys(quote.text for quote in quotes):
        place = texts.find(text)
        if place == NOWHERE:
            unmatched.append(text)
            continue
        in_sources = [span for span in place.holders if span.doc_id in sources]
        spans.append(in_sources[0] if in_sources else place.holders[0])
    return spans, unmatched


def _nuggets(value: Any) -> dict[str, Any]:
    """Return fact -> importance of TREC's nuggets; {} for any other value."""
    if not isinstance(value, list):
        return {}
    importances = {}
    for nugget in value:
        if isinstance(nugget, dict) and nugget.get("text"):
            importances[str(nugget["text"])] = nugget.get("importance")
    return importances


def _asserted(asserts: Any) -> dict[str, list[str]]:
    """Return the contents of promptfoo's assertions: "reference" answers, "required" keywords,
    "forbidden" texts, and as "unread" the kinds of assertions that are not read.
    """
    contents: dict[str, list[str]] = {
        "reference": [],
        "required": [],
        "forbidden": [],
        "unread": [],
    }
    for rule in asserts if isinstance(asserts, list) else []:
        if not isinstance(rule, dict) or not rule.get("type"):
            continue
        kind = rule["type"]
        value = rule.get("value")
        parts = value if isinstance(value, list) else [value]
        texts = [str(part) for part in parts if part not in (None, "")]
        # "icontains" and "not-icontains" are the same assertions, ignoring case
        if str(kind).removeprefix("i") in ("contains", "contains-all"):
            contents["required"] += texts
        elif kind in _EXPECTING:
            contents["reference"] += texts[:1]
        elif str(kind).replace("-i", "-") in ("not-contains", "not-contains-any"):
            contents["forbidden"] += texts
        else:
            contents["unread"].append(str(kind))
    return contents
