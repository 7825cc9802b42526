"""A folder of JSONL files by perspective, joined by `case_id`: which files there are, and how their
labels are joined.

Each file and each field but the ids may be missing::

    cases.jsonl                {case_id, query, user_roles, query_type, category, reference_answer, required_keywords}
    retrieval_labels.jsonl     {case_id, relevant_docs, relevance_grades, relevant_chunks, chunk_relevance_grades}
    context_labels.jsonl       {case_id, gold_facts, expected_chunks}
    groundedness_labels.jsonl  {case_id, expected_claims, expected_citations, forbidden_claims}
    pipeline_labels.jsonl      {case_id, expected_outcome, required_flags, forbidden_flags, min_citations,
                                latency_budget_ms}
    safety_inputs.jsonl, safety_outputs.jsonl   {text, label, category, sample_id, source, contexts}
    corpus.jsonl               {_id, title, text}: the documents, if they belong to the set

A file of another name is named in a warning. Any label may be in any of the files. Grades are
{id: grade}, or a list as long as the ids; without one, a named document or chunk has grade 1. A
fact is a text, [text, alias, ...] or {fact, aliases}; an expected chunk is an id or {doc_id,
section}. A latency budget is {stage: milliseconds} of retrieve, generate, guardrail_input, guardrail_output or
total, or of p50, p95, p99 or mean: of the total over all cases with that budget; or one number for
the total.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import json_line, shown
from ragbench.errors import warn_of_flaw
from ragbench.testsets.cases import Content, Kind, Labels, sample_line
from ragbench.testsets.located_data import Record, json_records, read_bytes
from ragbench.testsets.problems import suggestion
from ragbench.types import SafetySample

SAFETY_FILES: dict[str, Kind] = {"safety_inputs.jsonl": "input", "safety_outputs.jsonl": "output"}
CASES = "cases.jsonl"
_LABEL_FILES = (
    "retrieval_labels.jsonl",
    "context_labels.jsonl",
    "groundedness_labels.jsonl",
    "pipeline_labels.jsonl",
)
PERSPECTIVE_FILES = (CASES, *_LABEL_FILES, *SAFETY_FILES)
"""The files of a folder by perspective, any of which may be missing."""

_DATA_SUFFIXES = ".jsonl .json .yaml .yml .csv .tsv".split()


def read_perspectives(folder: Path) -> Content:
    """Return the cases of a folder with their labels, its documents and safety samples, and problems.

    A folder has one file of cases and one file of labels for each perspective (retrieval, generation,
    ...), all joined by the id of the case.
    """
    content = Content(name=folder.resolve().name)
    names = {path.name for path in folder.iterdir() if path.suffix in _DATA_SUFFIXES}
    unread = names - {*PERSPECTIVE_FILES, "corpus.jsonl", "testset.json"}
    warn_of_flaw(
        folder.name, "files have the name of no perspective and are not read", sorted(unread)
    )
    records = list(records_in(folder, CASES, content))
    labels_of_case: dict[str, dict[str, Any]] = {_case_id(record): {} for record in records}
    for file in _LABEL_FILES:
        _add_labels(labels_of_case, folder, file, content)
    cases = []
    for record in records:
        fields = record.value | labels_of_case[_case_id(record)]
        cases.append(replace(record, value=fields))
    input_file, output_file = SAFETY_FILES
    content.add(
        cases,
        documents=records_in(folder, "corpus.jsonl", content),
        inputs=records_in(folder, input_file, content),
        outputs=records_in(folder, output_file, content),
    )
    return content


def _case_id(record: Record) -> str:
    return str(record.value.get("case_id"))


def safety_texts(inputs: Iterable[SafetySample], outputs: Iterable[SafetySample]) -> dict[str, str]:
    """Return file name -> content for the files of safety samples; "" for a file without samples."""
    texts = {}
    for (file, kind), samples in zip(SAFETY_FILES.items(), (inputs, outputs), strict=True):
        texts[file] = "".join(json_line(sample_line(sample, kind)) for sample in samples)
    return texts


def records_in(folder: Path, file: str, content: Content) -> Iterator[Record]:
    """Yield the object of each line of a file that may be missing."""
    if (folder / file).is_file():
        yield from json_records(read_bytes(folder / file), file, content.problems)


def _add_labels(
    labels_of_case: dict[str, dict[str, Any]], folder: Path, file: str, content: Content
) -> None:
    """Add the fields in the lines of a file of labels to `labels_of_case`, by the id of their case; the
    problems of wrong lines are added to `content`.

    Expected chunks that name a section become expected sections, which, unlike chunks, do not make
    their document relevant.
    """
    for line, record in content.unique(Labels, records_in(folder, file, content), "query_id"):
        case_id = line.query_id
        if case_id not in labels_of_case:
            expected = suggestion(case_id, labels_of_case, f"a case of {CASES}")
            content.problems.append(record.problem(("case_id",), shown(case_id), expected))
            continue
        fields = dict(record.value)
        fields.pop("case_id", None)
        chunks = fields.pop("expected_chunks", [])
        if chunks:
            sections = [part for part in chunks if isinstance(part, dict) and "section" in part]
            fields["expected_sections"] = sections
            fields["expected_chunks"] = [part for part in chunks if part not in sections]
        labels_of_case[case_id] |= fields
