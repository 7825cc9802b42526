"""ground_truth.json, the fixture file of a published design (adr): questions with reference answers
and expected documents, one record each.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.files import read_json, write_durably
from ragbench.testsets.writer import is_by_hand, unwritable
from ragbench.types import Case, Dataset

PLACE = Path("tests", "rag_evaluation", "fixtures", "ground_truth.json")
"""Where the fixtures of pytest look for it, below pytest's root folder."""
_EXPECTED = (
    'a list of {"query_id": ..., "query": ..., "ground_truth": ..., "expected_document_ids": [...]}'
)


def read_ground_truths(path: Path) -> dict[str, dict[str, Any]]:
    """Return query_id -> record of a file; {} without a file.

    Raises:
        DataError: it is not a list of records with a text as "query_id", "query" and "ground_truth"
            and a list as "expected_document_ids", or an id is in it twice.
    """
    if not path.is_file():
        return {}
    records = read_json(path, f"expected {_EXPECTED}")
    if not isinstance(records, list):
        raise DataError(f"{path} is {shown(records)}; expected {_EXPECTED}")
    by_id: dict[str, dict[str, Any]] = {}
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or not _is_valid(record):
            raise DataError(f"{path}, record {number}: {shown(record)}; expected {_EXPECTED}")
        if record["query_id"] in by_id:
            raise DataError(
                f"{path}, record {number}: query_id {record['query_id']!r} occurs twice"
            )
        by_id[record["query_id"]] = record
    return by_id


def with_ground_truths(dataset: Dataset, records: Mapping[str, Mapping[str, Any]]) -> Dataset:
    """Return a dataset whose questions have the reference answers of these records."""
    cases = []
    for case in dataset.cases:
        record = records.get(case.query_id, {})
        if record.get("ground_truth"):
            metadata = dict(case.metadata)
            for name in ("generated", "reviewed"):  # who wrote the answer
                if name in record:
                    metadata[name] = record[name]
            case = replace(case, reference_answer=record["ground_truth"], metadata=metadata)
        cases.append(case)
    return replace(dataset, cases=tuple(cases))


def dataset_of_ground_truths(path: Path) -> Dataset:
    """Return the questions of a file as a dataset without documents; expected documents have the
    grade 1.

    Raises:
        DataError: as `read_ground_truths`.
    """
    records = read_ground_truths(path)
    cases = []
    qrels = {}
    for query_id, record in records.items():
        cases.append(Case(query_id, record.get("query", "")))
        qrels[query_id] = dict.fromkeys(record.get("expected_document_ids", ()), 1)
    return with_ground_truths(Dataset(path.stem, "test", {}, tuple(cases), qrels), records)


def merge_ground_truths(
    path: Path, dataset: Dataset, answers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Put generated reference answers into a file of ground truths, next to those that it has; an answer
    that a person wrote or changed stays.

    Args:
        path: of the file; it is created if it is missing.
        dataset: with the questions.
        answers: query_id -> the text "answer", and "generated" (how it was made).

    Raises:
        DataError: the file holds a wrong record, or cannot be written.
    """
    records = read_ground_truths(path)  # anew: a person may have changed it meanwhile
    for query_id, new in answers.items():
        record = records.get(query_id, {})
        if _has_answer(record) and is_by_hand({**record, "answer": record["ground_truth"]}):
            continue
        generated = {"ground_truth": new["answer"], "generated": new["generated"]}
        records[query_id] = {**_new_record(dataset, query_id), **record, **generated}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(list(records.values()), ensure_ascii=False, indent=2)
        write_durably(path, f"{text}\n")
    except OSError as exc:
        raise unwritable(path, exc) from exc


def _new_record(dataset: Dataset, query_id: str) -> dict[str, Any]:
    """Return the record of a question without an answer; the expected documents with the highest grade
    come first.
    """
    grades = dataset.qrels.get(query_id, {})
    relevant = [doc_id for doc_id, grade in grades.items() if grade >= 1]
    return {
        "query_id": query_id,
        "query": dataset.queries[query_id],
        "expected_document_ids": sorted(relevant, key=lambda doc_id: -grades[doc_id]),
    }


def _has_answer(record: Mapping[str, Any]) -> bool:
    return bool(str(record.get("ground_truth") or "").strip())


def _is_valid(record: Mapping[str, Any]) -> bool:
    """Return True if a record has a "query_id", and each of its known fields has the right type."""
    texts = [record.get("query_id"), record.get("query", ""), record.get("ground_truth") or ""]
    expected = record.get("expected_document_ids", [])
    is_list = isinstance(expected, list) and all(isinstance(doc_id, str) for doc_id in expected)
    return is_list and bool(texts[0]) and all(isinstance(text, str) for text in texts)
