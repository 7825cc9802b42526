"""Forms of test sets: how the form of a file or folder is recognised, how it is read and written, and
which fields and lines are ragbench's own; `other_tools` has the forms of others.

All of these are read; the forms that can hold every label are also written:

=============  ==================================================================================================
yaml           `{version, name, split, corpus, cases: [...], documents, safety_inputs, safety_outputs}`, or the cases
jsonl          the same in one file of lines; the kind of a line follows from its id, see below
beir           a folder with corpus.jsonl, queries.jsonl and qrels/<split>.tsv; the rest is in case_labels.jsonl
json           the fields of yaml; also `{test_cases: [...]}`
perspectives   a folder of JSONL files, joined by `case_id`: cases, retrieval_labels, context_labels, ...
=============  ==================================================================================================

A case, with every label of `Case` under its name there, or a name of another form::

    id: q1                           # query_id, case_id; made from the question where it is left out
    query: How do I install it?      # text, question
    expected_chunks:                 # {doc_id}: is relevant; {doc_id, section}: its section is evidence; {chunk_id}
      - {doc_id: setup_guide, section: Installation}
    relevant: {setup_guide: 3}       # or a list, with grade 1; expected_sources, expectedDocumentId
    evidence: [{doc_id: setup_guide, start: 10, end: 22, quote: Use version 3}]
    expected_answer_contains: [pip, "3.11"]                  # required_keywords, requiredKeywords
    reference_answer: With pip, on Python 3.11.              # expected_answer, expectedAnswer
    gold_facts: [pip, [Python 3.11, "3.11"]]                 # the second with an alias
    metadata: {okay_facts: [pip]}                            # gold facts that an answer may lack; the others are vital

`evidence` counts characters of title and text as `Document.full_text` joins them. A quote is
compared with the text there, found again if the document has changed, and dropped with a warning if
it is gone. A quote alone is enough: `evidence: [{doc_id: setup_guide, quote: Use version 3}]`. It
must be exactly once in its document (in all documents if none is named); white space may differ.
`corpus` names the documents as `load_corpus` takes them, relative to the file: a folder of texts, a
corpus.jsonl, the name of a dataset. Lines of JSONL::

    {"testset": "handbook", "split": "test", "corpus": "docs"}                 at most one, anywhere
    {"query_id": "q1", "text": "...", "relevant": {"setup_guide": 2}, ...}     a case
    {"doc_id": "setup_guide", "text": "...", "title": "...", "metadata": {}}   a document
    {"sample_id": "s1", "kind": "input", "text": "...", "label": "attack"}     a safety sample; kind input or output

Files of other tools and public test sets are read by `other_tools`. Names of fields mean the same
in all files: a reference is also `answer`, `ground_truth` or `expected_output`, a relevant document
also `source` or `doc_id`, see `ragbench.testsets.fields`. In a cell of a table, and in any text in
the place of a list, `;` or `|` separate names and keywords, `|` facts and claims. Unknown fields
become metadata of the case, with a warning; a field that looks like a misspelt label is a problem.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.corpus import load_corpus as load_corpus  # a name of ragbench.testsets
from ragbench.datasets.jsonl import json_line, located, shown
from ragbench.errors import ConfigError, DataError, RagbenchError, check_known
from ragbench.files import expanded
from ragbench.groups import grouped
from ragbench.hints.calls import explaining_calls
from ragbench.testsets.assembly import DocumentIds, check_evidence, to_dataset
from ragbench.testsets.beir_form import beir_problems, read_beir
from ragbench.testsets.cases import Content, case_line, entry_of_case, plain, sample_line
from ragbench.testsets.fields import SIGNATURES, TABLES, names_question, without_none
from ragbench.testsets.located_data import (
    NoPlainValueError,
    Record,
    dump_yaml,
    json_records,
    parse,
    read_bytes,
)
from ragbench.testsets.other_tools import (
    form_of_other_tool,
    form_of_row,
    form_of_value,
    numbered_rows,
    records,
    rows_of_value,
)
from ragbench.testsets.perspective_files import PERSPECTIVE_FILES, read_perspectives
from ragbench.testsets.problems import Problem, refuse, suggestion
from ragbench.testsets.published import refuse_foreign
from ragbench.testsets.record_cases import add_cases, read_records
from ragbench.testsets.writer import save_dataset, write_texts
from ragbench.types import Case, Dataset, Document

WRITTEN = ("yaml", "jsonl", "beir", "nuggets")
OTHER_FORMS = ("promptfoo", "table", *SIGNATURES)
_SAVED = ("state.json", "dataset_dict.json")  # by save_to_disk of the package datasets

SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".jsonl": "jsonl"}
"""The suffixes of ragbench's own files -> their forms."""
_KINDS = {"query_id": "cases", "doc_id": "documents", "sample_id": "inputs", "testset": "heads"}
"""Field -> the kind of the lines of JSONL that have it."""
_SHORT = {"query_id": "id", "text": "query"}
_BEIR_FILES = ("corpus.jsonl", "queries.jsonl")
_EXPECTED = (
    "a .yaml, .json or .jsonl file, a folder with cases.jsonl or safety_inputs.jsonl, or a BEIR "
    "folder (corpus.jsonl, queries.jsonl, qrels/)"
)


def save_testset(
    dataset: Dataset, path: str | Path, form: str, *, corpus: str = "", force: bool = False
) -> Path:
    """Write a test set, complete or not at all, after reading the new text once more; return its path.

    Args:
        form: "yaml", "jsonl" or "beir", which hold every label; "nuggets", a .jsonl of TREC's with
            questions and gold facts alone.
        corpus: the documents that a .yaml or .jsonl names, relative to itself, instead of holding
            them; "" writes them into it.
        force: replace an existing file or folder. A folder that holds anything else than a test set
            is never replaced.

    Raises:
        ConfigError: test sets are not written in this form.
        DataError: something is there already, or the content cannot be written in this form.
    """
    target = expanded(path)
    check_known("form to write", WRITTEN, form)
    if form == "beir":
        return _save_beir_folder(dataset, target, force=force)
    _check_target(target, form, force=force)
    content = content_of(dataset)
    if corpus:
        content = replace(content, documents={}, corpus=corpus)
    return write_texts(
        target,
        {"": text_of(content, form)},
        lambda new: refuse(f"{dataset.name} as {form}", read(new, form).problems),
    )


def _save_beir_folder(dataset: Dataset, folder: Path, *, force: bool) -> Path:
    """Write a test set as a BEIR folder, with its name if the folder has another one."""
    if not dataset.corpus:
        raise DataError(
            f"{dataset.name} has no documents, which a BEIR folder needs; give them "
            "(corpus=, --docs)"
        )
    extra = {}
    if dataset.name != folder.resolve().name:
        extra = {"testset.json": json_line({"name": dataset.name})}
    return save_dataset(dataset, folder, force=force, extra=extra)


def _check_target(file: Path, form: str, *, force: bool) -> None:
    """Raise if a test set cannot be written to this file in this form: ConfigError for its suffix,
    DataError for a file that is there already.
    """
    suffix = "jsonl" if form == "nuggets" else form
    if SUFFIXES.get(file.suffix.lower()) != suffix:
        raise ConfigError(
            f"{file.name!r} cannot be the name of a test set in the form {form!r}; end it in .{suffix}"
        )
    if file.is_dir():
        raise DataError(f"{file} is a folder, which the form {form!r} is not: it is not replaced")
    if os.path.lexists(file) and not force:
        raise DataError(
            f"{file} already exists; name another place, or replace it with --force (force=True)"
        )


def is_testset(path: Path) -> bool:
    """Return True if a file has the name of a test set, or a folder the files of one; False for a BEIR
    folder and its files, which `load_dataset` reads in another way.
    """
    if not path.is_dir():
        return path.suffix.lower() in (*SUFFIXES, *TABLES) and path.name not in _BEIR_FILES
    if (path / "queries.jsonl").is_file():  # a BEIR folder
        return False
    return any((path / file).is_file() for file in (*PERSPECTIVE_FILES, *_SAVED))


def form_of(path: str | Path) -> str:
    """Return the form of a test set: "yaml", "json", "jsonl", "beir", "perspectives", or one of
    `OTHER_FORMS`, such as "table".

    Raises:
        DataError: the path does not exist, or is not a test set.
    """
    testset = expanded(path)
    if (testset / "queries.jsonl").is_file():
        return "beir"
    if not os.path.exists(testset):
        raise DataError(f"there is no file or folder {str(testset)!r}; expected {_EXPECTED}")
    if not is_testset(testset):
        raise DataError(f"{testset} is not a test set; expected {_EXPECTED}")
    if testset.is_dir():
        return "table" if any((testset / file).is_file() for file in _SAVED) else "perspectives"
    return form_of_other_tool(testset) or SUFFIXES[testset.suffix.lower()]


def suffix_form(path: str | Path) -> str:
    """Return the form to write for the name of a new file or folder.

    >>> suffix_form("a.yml"), suffix_form("a.jsonl"), suffix_form("my-testset")
    ('yaml', 'jsonl', 'beir')

    Raises:
        ConfigError: the name belongs to none of the forms to write.
    """
    form = ({"": "beir"} | SUFFIXES).get(Path(path).suffix.lower())
    if form not in WRITTEN:
        raise ConfigError(
            f"{str(path)!r} is not the name of a form to write; expected .yaml, .jsonl or a folder"
        )
    return form


@explaining_calls("rb.load_testset(path), or rb.evaluate(rows, system) for rows in hand")
def load_testset(path: str | Path, *, corpus: Mapping[str, Document] | None = None) -> Dataset:
    """Return the test set in a file or folder of any form.

    Every case has an entry in `qrels`, an empty one if it names no document. The documents are
    `corpus`, else the documents of the file; without any, the corpus is empty, as for a system that
    keeps its own. Where the documents are known, expected sections become evidence: from the heading
    to the next one of the same level. A missing document or section is a DataWarning that names it.

    A BEIR folder is read with its split "test", or its only split.

    Raises:
        DataError: the file has problems; the message has their number and the first 20, each with its
            line.
    """
    path = expanded(path)
    content, documents = _with_its_documents(path, corpus)
    refuse(path, content.problems)
    name = content.name or (path.resolve().name if path.is_dir() else path.stem)
    return to_dataset(name, content, documents, str(path))


def validate_testset(
    path: str | Path, *, corpus: Mapping[str, Document] | None = None
) -> list[Problem]:
    """Return every problem in a test set, in the order of its lines; [] if `load_testset` accepts it.

    With `corpus`, labels are compared with these documents: evidence that ends behind its document,
    and names of documents that do not exist, are problems too.

    Raises:
        DataError: the path is not a test set, or cannot be read.
    """
    path = expanded(path)
    if form_of(path) == "beir":
        return beir_problems(path)
    content, _ = _with_its_documents(path, corpus)
    if corpus is None or content.problems:
        return content.problems
    return _unknown_documents(content, corpus)


def _unknown_documents(content: Content, corpus: Mapping[str, Document]) -> list[Problem]:
    """Return a problem for each document that a case names as relevant or in its evidence, and that is
    not in the corpus.
    """
    ids = DocumentIds(corpus)
    expected = f"one of the {len(corpus)} documents of the corpus"
    problems = []
    for entry in content.entries:
        evidence_names = [span.doc_id for span in entry.case.evidence]
        for name in dict.fromkeys((*entry.relevant, *evidence_names)):
            if ids.id_of(name) not in corpus:
                line, file = entry.record.line, entry.record.file
                problems.append(Problem(line, "document", repr(name), expected, file))
    return problems


def _with_its_documents(
    path: Path, corpus: Mapping[str, Document] | None
) -> tuple[Content, Mapping[str, Document]]:
    """Return the content of a test set with its problems, and its documents (doc_id -> document).

    The documents are `corpus` if it is given, else the documents in the file, else the documents at
    the path that the file names in its field `corpus`.
    """
    form = form_of(path)
    content = read(path, form, corpus)
    documents: Mapping[str, Document] = {}
    if corpus is not None:
        documents = corpus
    elif content.documents:
        documents = content.documents
    elif content.corpus:  # a path or a name
        try:
            documents = _named_documents(path, content.corpus)
        except (RagbenchError, OSError, ValueError) as exc:
            expected = f"documents that can be read ({exc})"
            content.problems.append(
                Problem(0, "corpus", shown(content.corpus), expected, path.name)
            )
    if form != "beir":  # a BEIR folder was checked when it was read
        content.problems += check_evidence(content, documents)
        content.problems.sort(key=lambda problem: (problem.file, problem.line))
    return content, documents


def _named_documents(testset: Path, path_or_name: str) -> Mapping[str, Document]:
    """Return doc_id -> document, for the documents that a test set names: at a path relative to its
    folder, else at this path, or in the dataset of this name.
    """
    next_to_it = testset.parent / path_or_name
    return load_corpus(next_to_it if next_to_it.exists() else path_or_name).corpus


def read(path: Path, form: str, corpus: Mapping[str, Document] | None = None) -> Content:
    """Return the content of a test set and its problems, which are noted in it, not raised.

    Args:
        path: the file or folder.
        form: its form, as `form_of` returns it.
        corpus: doc_id -> document: where the contexts and quotes of other tools are looked for; None
            means in the documents of the file. (`Content.corpus`, in the result, is a text: the path or
            name of documents that the file refers to.)
    """
    if form == "beir":
        return content_of(read_beir(path))
    if form == "perspectives":
        return read_perspectives(path)
    if form == "jsonl":
        return _read_jsonl(path, corpus)
    if form in OTHER_FORMS:
        content = read_records(records(path, form), path, corpus)
        if path.name == "qa.parquet" and path.with_name("corpus.parquet").is_file():
            # AutoRAG has its documents next to its questions; they are read later, from this path
            content.corpus = "corpus.parquet"
        return content
    return _read_yaml_or_json(path, corpus)


def content_of(dataset: Dataset) -> Content:
    """Return a dataset as the content of a file."""
    return Content(
        dataset.name,
        dataset.split,
        documents=dict(dataset.corpus),
        entries=[entry_of_case(dataset, case) for case in dataset.cases],
        inputs=list(dataset.safety_inputs),
        outputs=list(dataset.safety_outputs),
    )


def text_of(content: Content, form: str) -> str:
    """Return the text of a test set's file in the form "yaml", "jsonl" or "nuggets".

    Raises:
        DataError: the metadata of a record is not plain data.
    """
    if form == "nuggets":
        return "".join(json_line(_nuggets_line(entry.case)) for entry in content.entries)
    cases = [case_line(entry) for entry in content.entries]
    documents = [plain(document) for document in content.documents.values()]
    inputs = [sample_line(sample, "input") for sample in content.inputs]
    outputs = [sample_line(sample, "output") for sample in content.outputs]
    about_testset = without_none(
        {"split": content.split, "corpus": content.corpus or None, **content.others}
    )
    try:
        if form == "jsonl":
            heads = [{"testset": content.name, **about_testset}] if content.name else []
            return "".join(map(json_line, (*heads, *cases, *inputs, *outputs, *documents)))
        parts: dict[str, Any] = {
            "version": 1,
            "name": content.name,
            **about_testset,
            "cases": [yaml_case(line) for line in cases],
            "safety_inputs": inputs,
            "safety_outputs": outputs,
            "documents": documents,
        }
        # an empty list of cases is written, other empty parts are not
        return dump_yaml({name: part for name, part in parts.items() if part or name == "cases"})
    except (TypeError, ValueError) as exc:
        raise DataError(
            f"{content.name} holds metadata that cannot be written as plain data: {exc}"
        ) from exc


def _nuggets_line(case: Case) -> dict[str, Any]:
    """Return a case as a line of TREC's nuggets: its id, question and gold facts."""
    return {"qid": case.query_id, "query": case.text, "nuggets": _nuggets(case)}


def _nuggets(case: Case) -> list[dict[str, str]]:
    """Return the gold facts of a case in the form of TREC's nuggets."""
    vital_facts = case.vital_facts
    nuggets = []
    for fact in case.gold_facts:
        importance = "vital" if fact in vital_facts else "okay"
        nuggets.append({"text": fact[0], "importance": importance})
    return nuggets


def yaml_case(line: Mapping[str, object]) -> dict[str, object]:
    """Return a case with the short names of fields that people write in YAML."""
    return {_SHORT.get(name, name): value for name, value in line.items()}


def read_lines(raw: bytes, file: str) -> Content:
    """Return the content of a test set in JSON Lines, ragbench's own or another tool's.

    Documents that the text names in another place are not read. `file` names the text in messages.
    """
    content = Content()
    records = list(json_records(raw, file, content.problems))
    tool = form_of_row(records[0].value) if records else ""
    if not tool:
        return _add_lines(content, records, file=file, source=file, corpus=None)
    rows = numbered_rows(((record.line, record.value) for record in records), tool, file)
    return read_records(rows, Path(file), None)


def read_value(record: Record) -> Content:
    """Return the content of a test set in the value of a YAML or JSON text, ragbench's own or another
    tool's. Documents that it names in another place are not read.
    """
    tool = ""
    with suppress(LookupError, TypeError):  # a wrong value: ragbench's own reader names the problem
        tool = form_of_value(record.value)
    if not tool:
        return _add_value(Content(), record, record.file, None)
    rows = enumerate(rows_of_value(record.value, tool, record.file), 1)
    return read_records(numbered_rows(rows, tool, record.file), Path(record.file), None)


def _read_yaml_or_json(path: Path, corpus: Mapping[str, Document] | None) -> Content:
    """Return the content of a YAML or JSON file: fields next to the list of cases, or the list. Quotes
    are looked for in `corpus` (None: in the documents of the file).
    """
    content = Content()
    try:
        record = parse(read_bytes(path), path.name)
    except NoPlainValueError as exc:
        content.problems.append(exc.problem)
        return content
    return _add_value(content, record, str(path), corpus)


def _add_value(
    content: Content, record: Record, source: str, corpus: Mapping[str, Document] | None
) -> Content:
    """Add the cases, documents and safety samples in the value of a YAML or JSON text to `content`,
    note its problems there, and return `content`.

    Args:
        record: the value, a list of cases or an object with the list "cases" (or "test_cases").
        source: the file in messages.
        corpus: the documents in which quotes are looked for; None means the documents of the value.
    """
    if record.value is None:
        content.problems.append(record.problem((), "the file is empty", "cases: a list of cases"))
        return content
    if isinstance(record.value, list):
        add_cases(content, record.items(), source, corpus)
        return content
    # the name, split and corpus of the test set; False: one is wrong, which `content` has noted
    if not content.take_head(record):
        return content
    # the field with the cases, which has one of two names
    list_name = "test_cases" if "test_cases" in record.value else "cases"
    if list_name == "test_cases" and "cases" in record.value:
        problem = record.problem((list_name,), "a second list, next to cases", "one list of cases")
        content.problems.append(problem)
        return content
    if list_name not in record.value:
        content.problems.append(record.problem((list_name,), "missing", "a list of cases"))
    # the other lists; a missing one has no items
    content.add(
        documents=record.items("documents"),
        inputs=record.items("safety_inputs"),
        outputs=record.items("safety_outputs"),
    )
    add_cases(content, record.items(list_name), source, corpus)
    return content


def _read_jsonl(path: Path, corpus: Mapping[str, Document] | None) -> Content:
    """Return the content of a JSONL file; quotes are looked for in `corpus` (None: in the documents of
    the file).
    """
    content = Content()
    records = json_records(read_bytes(path), path.name, content.problems)
    return _add_lines(content, records, path.name, str(path), corpus)


def _add_lines(
    content: Content,
    records: Iterable[Record],
    file: str,
    source: str,
    corpus: Mapping[str, Document] | None,
) -> Content:
    """Add the cases, documents and safety samples in the lines of a JSONL file to `content`, note its
    problems there, and return `content`.

    Args:
        records: the lines.
        file: the name of the file in problems.
        source: the path of the file in messages.
        corpus: the documents in which quotes are looked for; None means the documents of the file.
    """
    # kind of line ("heads", "cases", "documents", "inputs", "outputs", or "" for any other) -> lines
    by_kind = grouped(records, lambda record: _kind_of_line(record.value))
    unknown = by_kind.pop("", [])
    if not by_kind:  # the first line is enough to name the problem
        unknown = unknown[:1]
    content.problems += [_problem_of_unknown_line(record, source) for record in unknown]
    if not by_kind and not content.problems:
        content.problems.append(
            Problem(0, "", "the file is empty", "one object with a query_id per line", file)
        )
    heads = by_kind.pop("heads", [])  # lines about the whole test set
    for record in heads[1:]:
        expected = f"one such line: line {heads[0].line} is one"
        content.problems.append(record.problem(("testset",), "there twice", expected))
    if heads:
        content.take_head(heads[0])
    cases = by_kind.pop("cases", [])
    content.add(**by_kind)  # the documents and safety samples
    add_cases(content, cases, source, corpus)
    return content


def _problem_of_unknown_line(record: Record, source: str) -> Problem:
    """Return the problem of a line that is neither a case, a document, a safety sample nor a head (a line
    about the whole test set).

    Raises:
        DataError: the line is of a known kind of file that is not a test set.
    """
    with located(source):
        refuse_foreign(record.value)
    names = list(record.value)
    value = f"a line with {', '.join(names[:5]) or 'no field'}"
    expected = "query_id or a question (a case), doc_id (a document), sample_id or testset"
    first_name = names[0] if names else ""
    return record.problem((), value, suggestion(first_name, _KINDS, expected))


def _kind_of_line(line: Mapping[str, Any]) -> str:
    """Return the kind of a line of JSONL: "cases", "documents", "inputs", "outputs", "heads", or ""
    for an unknown one.
    """
    kind = next((kind for name, kind in _KINDS.items() if name in line), "")
    if kind in ("", "documents") and names_question(line):  # a question with its document
        return "cases"
    if kind == "inputs" and line.get("kind") == "output":
        return "outputs"
    return kind
