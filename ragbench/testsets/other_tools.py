"""Files of other tools, read as rows: how the tool of a file is recognised, and where in the file its
questions are; what their labels mean is decided in `record_labels` and `record_cases`.

Files with answers are also read as systems (`RecordedSystem`)::

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
own test sets. `record_cases` makes cases of the records.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.datasets.corpus import parquet_rows
from ragbench.datasets.jsonl import json_lines, located
from ragbench.errors import DataError, RagbenchError, printable, require
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
from ragbench.testsets.located_data import NoPlainValueError, parse, read_bytes
from ragbench.testsets.published import expanded_row, refuse_foreign, refuse_trec
from ragbench.testsets.record_labels import labels_of
from ragbench.testsets.traces import trace_records

_PARTS_OF_PASSAGE = {"id": PASSAGE_IDS, "text": PASSAGES, "score": PASSAGE_SCORES}
"""Part of a retrieved passage -> the names that its column may have."""


def form_of_other_tool(path: Path) -> str:
    """Return the form of a file of another tool: the name of the tool ("promptfoo", "traces",
    "deepeval", ...), which its fields show, or "table" for rows of no known tool.

    Return "" for ragbench's own forms and for any other file.

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
            _, first_record = next(json_lines(path), (0, None))
            return "" if first_record is None else form_of_row(first_record)
        if suffix == ".json" or b"vars" in read_bytes(path):  # YAML without vars is ragbench's own
            content = _parsed(path)
            return form_of_value(content, _questions_of_predictions(content, path))
    return ""


def form_of_value(content: Any, questions: Any = None) -> str:
    """Return the form of a JSON or YAML file by its value, as `form_of_other_tool` names it: the tool that
    wrote it, "table" for records of no known tool; "" for ragbench's own forms and for any other value.

    Args:
        content: the value of the file.
        questions: the value of LlamaIndex's rag_dataset.json, if the file is predictions next to it.
    """
    if _is_promptfoo_output(content):
        return "promptfoo"
    rows = _records_in(content, questions)
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return ""  # no list of records
    first = rows[0]
    if "vars" in first:
        return "promptfoo"
    form = form_of_row(first)
    if form:
        return form
    if isinstance(content, list):  # ragbench's own form: records without an object around them
        return ""
    return "table" if has_question(first) else ""


def form_of_row(row: Mapping[str, Any]) -> str:
    """Return the form of a record: the tool that wrote it ("promptfoo", "deepeval", ...), or "table"
    for a record of a public test set (such as SQuAD) and for a record with a question and a passage;
    "" for any other record.
    """
    tool = tool_of(row)
    if tool:
        return tool
    rows, _ = expanded_row(row)
    is_of_public_set = rows != [row]  # any other record is its only row, unchanged
    has_passage = not row.keys().isdisjoint(PASSAGES) and labels_of(row).question is not None
    return "table" if is_of_public_set or has_passage else ""


def records(path: Path, form: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number (from 1) and the fields of every record of a file.

    `form` is as `form_of_other_tool` names it: the tool that wrote the file, "" for ragbench's own lines.

    Raises:
        DataError: the file does not have the form.
    """
    if path.suffix.lower() == ".jsonl":
        numbered = json_lines(path)
    else:
        is_table = path.is_dir() or path.suffix.lower() in TABLES
        content: Any = _rows_of_table(path) if is_table else _parsed(path)
        # LlamaIndex has its questions in a file next to the predictions
        questions = _questions_of_predictions(content, path)
        rows = rows_of_value(content, form, str(path), questions)
        numbered = enumerate(rows, 1)
    yield from numbered_rows(numbered, form, str(path))


def rows_of_value(
    content: Any, form: str, source: str, questions: Any = None
) -> list[dict[str, Any]]:
    """Return the records in the value of a JSON or YAML file: a list of objects, an object that holds
    such a list, one trace, columns (name -> values), or the output of promptfoo.

    Args:
        content: the value.
        form: the tool that wrote it, for the message.
        source: the place of the value, for the message.
        questions: the value of LlamaIndex's rag_dataset.json next to a file of predictions; None
            without one.

    Raises:
        DataError: the value holds no list of records.
    """
    if _is_promptfoo_output(content):
        content = _rows_of_promptfoo(content, source)
    with suppress(LookupError, TypeError):  # a value of another form is refused below
        content = _records_in(content, questions)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        of_form = f" of {form}" if form else ""
        raise DataError(f"{source}: expected a list of records{of_form}")
    return content


def numbered_rows(
    numbered: Iterable[tuple[int, dict[str, Any]]], form: str, source: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the fields of each question in the rows of another tool, whose form is
    `form`.

    Rows with one passage each are joined to one record per question, and the spans of a trace to one
    record per trace.

    Raises:
        DataError: the rows are no questions; `source` names their place in the message.
    """
    if form == "traces":
        with located(source):
            questions = list(trace_records(row for _, row in numbered))
        numbered = enumerate(questions, 1)
    for number, record in one_per_question(numbered):
        if number == 1:  # one record is enough to see that the file is no test set
            with located(source):
                refuse_foreign(record)
        yield number, record


def _parsed(path: Path) -> Any:
    """Return the value of a JSON or YAML file."""
    try:
        return parse(read_bytes(path), path.name).value
    except NoPlainValueError as exc:
        raise DataError(str(exc.problem)) from exc


def _questions_of_predictions(content: Any, path: Path) -> Any:
    """Return the value of LlamaIndex's rag_dataset.json next to a file of predictions (`path`, with
    the value `content`); None for any other file, or without rag_dataset.json.
    """
    if not isinstance(content, dict) or "predictions" not in content:
        return None
    questions = path.with_name("rag_dataset.json")
    if questions == path or not questions.is_file():
        return None
    return _parsed(questions)


def _records_in(content: Any, questions: Any) -> Any:
    """Return the records in the value of a JSON or YAML file: ideally a list of objects.

    A list is returned unchanged. An object may be one trace, hold the records in a field such as
    "predictions", or hold columns (name -> values). Return None for any other object.

    Args:
        content: the value of the file.
        questions: the questions of LlamaIndex's predictions, which are in another file: its value;
            None without one.
    """
    if not isinstance(content, dict):
        return content
    if tool_of(content) == "traces":
        return [content]
    name = first_name(content, LISTS)
    if name == "predictions" and questions is not None:
        # both files have the same order
        examples = _records_in(questions, None)
        pairs = zip(examples, content[name], strict=False)
        return [{"query": example["query"], **reply} for example, reply in pairs]
    if name:
        return content[name]
    return _rows_of_columns(content)


def _rows_of_columns(columns: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of columns (name -> values); None if they are not lists of the same length.

    >>> _rows_of_columns({"question": ["Why?", "Who?"], "answer": ["So.", "I."]})
    [{'question': 'Why?', 'answer': 'So.'}, {'question': 'Who?', 'answer': 'I.'}]
    """
    if not all(isinstance(column, list) for column in columns.values()):
        return None
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _rows_of_table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table as column -> value: a text file, the first sheet of a workbook, or
    data that `datasets` saved.

    Raises:
        DataError: the table cannot be read, or has no rows.
    """
    try:
        if path.is_dir():
            return with_whole_numbers(_saved_rows(path))
        if path.suffix.lower() == ".parquet":
            return with_whole_numbers(parquet_rows(path))
        table = _frame_of_texts(path)
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
    rows = _filled_rows(table.to_dict("records"))
    if not rows:
        header = ", ".join(printable(str(name)) for name in table)
        raise DataError(f"{path} has no rows below its columns {header}; add a row per question")
    return rows


def _saved_rows(folder: Path) -> Any:
    """Return the rows that the package `datasets` saved in a folder. If it has several splits, they are
    the rows of "test", or of the first split if there is no "test".
    """
    import datasets

    saved = datasets.load_from_disk(str(folder))
    # several splits, by name
    if isinstance(saved, dict):
        saved = saved["test"] if "test" in saved else next(iter(saved.values()))
    return saved.to_list()


def _frame_of_texts(path: Path) -> Any:
    """Return a workbook or a text file as a frame of texts; an empty cell is "".

    The columns of a text file are separated by the most frequent of comma, semicolon and tab in its
    first line. That line is the header, except in a file of two columns, number and question.
    """
    import pandas as pd

    options: dict[str, Any] = {"dtype": str, "keep_default_na": False}
    if path.suffix.lower() == ".xlsx":
        require("openpyxl", "xlsx")
        return pd.read_excel(path, **options)
    refuse_trec(path)
    content = read_bytes(path)
    if not content.strip():
        raise DataError(f"{path} is empty")
    first_line = content.partition(b"\n")[0].decode().rstrip("\r")
    # the most frequent of the three
    separator = max(",;\t", key=first_line.count)
    columns = first_line.split("\t")
    # Topics of TREC and queries of MS MARCO have no header. Their first line names no column of
    # questions, which `labels_of` finds by the names of the fields alone.
    has_no_header = len(columns) == 2 and labels_of(dict.fromkeys(columns, "?")).question is None
    if has_no_header:
        options |= {"names": ["query_id", "query"], "quoting": csv.QUOTE_NONE}
    return pd.read_csv(path, sep=separator, encoding="utf-8-sig", **options)


def _filled_rows(table: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table of texts, each text as the value that it means ("[1, 2]" is a list).

    Blank rows are left out, and so are cells that are not texts.
    """
    rows = []
    for texts in table:
        row = {}
        for name, text in texts.items():
            if isinstance(text, str):
                row[str(name).strip()] = _value_of_cell(str(name), text.strip())
        if any(row.values()):
            rows.append(row)
    return rows


def _value_of_cell(column: str, text: str) -> Any:
    """Return the list or object that the text of a cell means, such as "['a', 'b']"; the text itself
    if it means none. Questions and answers stay texts, even if they look like lists.
    """
    is_text = column.strip().casefold().replace(" ", "_") in (*QUESTIONS, *REPLIES, *ANSWERS)
    return text if is_text else read_cell(text)


def _is_promptfoo_output(content: Any) -> bool:
    """Return True for the output of promptfoo: {"results": {"results": [...]}}."""
    return isinstance(content, dict) and "results" in _object_in(content, "results")


def _rows_of_promptfoo(output: Mapping[str, Any], source: str) -> Any:
    """Return a row for each test in promptfoo's output: its variables ("vars"), its assertions
    ("assert"), and the answer ("response") or the "error"; results that are not a list of objects
    are returned unchanged.

    Raises:
        DataError: the answers are of several prompts or providers.
    """
    results = output["results"]["results"]
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        return results
    # each combination of a prompt and a provider is a system of its own
    systems = set()
    for result in results:
        provider = _object_in(result, "provider").get("id")
        systems.add(f"prompt {result.get('promptIdx')} of {provider}")
    if len(systems) > 1:
        raise DataError(
            f"{source} holds answers to {', '.join(sorted(systems))}; write a file for each "
            "(promptfoo eval --filter-providers)"
        )
    rows = []
    for result in results:
        reply = _object_in(result, "response").get("output")
        row: dict[str, Any] = {
            "vars": _object_in(result, "vars"),
            "assert": _object_in(result, "testCase").get("assert"),
        }
        if isinstance(reply, dict):
            row |= reply  # a system's output with several fields
        else:
            row["response"] = reply
        row["error"] = result.get("error") if reply is None else None
        rows.append(without_none(row))
    return rows


def _object_in(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object in a field; {} where the field holds another value."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def one_per_question(
    numbered: Iterable[tuple[int, dict[str, Any]]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Join rows that hold one passage each: yield one record per question, with all its passages.

    The rows of a question need not be neighbours; an empty field takes its value from a later row.
    Rows without a column of passages are yielded unchanged, before all others.

    >>> rows = [{"query": "Why?", "passage": "A."}, {"query": "Why?", "passage": "B."}]
    >>> list(one_per_question(enumerate(rows, 1)))
    [(1, {'query': 'Why?', 'retrieved_contexts': [{'text': 'A.'}, {'text': 'B.'}]})]
    """
    # values that rows of one question share -> the number of its first row, and its record
    record_of_question: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}
    for number, row in numbered:
        passage, fields = _split_passage(row)
        if passage is None:
            yield number, row
            continue
        _, record = record_of_question.setdefault(_question_key(fields), (number, fields))
        for name, value in fields.items():  # a later row fills empty fields
            record[name] = record.get(name) or value
        if passage.get("text"):
            record.setdefault("retrieved_contexts", []).append(passage)
    yield from record_of_question.values()


def _split_passage(row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the passage in a row and the other fields; the passage is None for a row without a column
    of passages.

    >>> _split_passage({"query": "Why?", "passage": "A.", "rank": 1})
    ({'text': 'A.', 'score': 1}, {'query': 'Why?'})
    """
    names = _folded_names(row)
    column_of = {}  # part of a passage -> its column
    for part, known_names in _PARTS_OF_PASSAGE.items():
        name = first_name(names, known_names)
        if name:
            column_of[part] = names[name]
    if "text" not in column_of:
        return None, dict(row)
    passage = without_none({part: row[column] for part, column in column_of.items()})
    if isinstance(passage.get("id"), list):  # an id written as "[1]" was read as a list
        passage["id"] = ", ".join(map(str, passage["id"]))
    passage_columns = column_of.values()
    return passage, {name: value for name, value in row.items() if name not in passage_columns}


def _question_key(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that the rows of one question have in common: ids, question and run."""
    names = _folded_names(fields)
    keys = (*IDS, *QUESTIONS, "query_run", "run", "run_id")
    return tuple(str(fields[names[key]]) for key in keys if key in names)


def _folded_names(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of fields without case and surrounding blanks -> the names in the row."""
    return {str(name).strip().casefold(): name for name in row}


def has_question(row: Mapping[str, Any]) -> bool:
    """Return True if a record has a question, under any name and in any of the published forms."""
    rows, _ = expanded_row(row)
    return any(isinstance(labels_of(each).question, str) for each in rows)
