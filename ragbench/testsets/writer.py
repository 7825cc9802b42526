"""Datasets to disk: a BEIR folder that `load_dataset` reads back. What a person wrote or changed is
never replaced.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench import store
from ragbench.datasets.jsonl import json_line, json_lines, shown
from ragbench.datasets.records import document_line
from ragbench.errors import DataError
from ragbench.files import STAGING, expanded, staged
from ragbench.types import Case, Dataset, Span

CASE_FILES = ("queries.jsonl", "answers.jsonl", "questions.jsonl", "case_labels.jsonl")
"""One line for each case, or for those that have what the file is for."""

FILES = (
    "corpus.jsonl",
    *CASE_FILES,
    "qrels",
    "safety_inputs.jsonl",
    "safety_outputs.jsonl",
    "drafts.jsonl",
    "testset.json",
)
"""What a folder may hold that `save_dataset` replaces."""


_MORE_LABELS = (
    "required_keywords",
    "expected_claims",
    "forbidden_claims",
    "expected_citations",
    "expected_sections",
    "expected_chunks",
    "relevant_chunks",
    "required_flags",
    "forbidden_flags",
    "min_citations",
    "latency_budget_ms",
    "user_roles",
)
"""Labels for which BEIR's files have no place."""


def text_digest(answer: str) -> str:
    """Return 16 hex digits of SHA-256 over a text.

    >>> text_digest("Paris.") == text_digest("Paris. ")
    False
    """
    return store.digest("generated answer", answer)[:16]


def is_by_hand(record: Mapping[str, Any]) -> bool:
    """Return True if the answer in a line of answers.jsonl is a person's: written, changed or
    reviewed by one.

    >>> line = {"_id": "q1", "answer": "Paris.", "generated": {"digest": text_digest("Paris.")}}
    >>> is_by_hand(line), is_by_hand({**line, "answer": "Lyon."}), is_by_hand({**line, "reviewed": True})
    (False, True, True)
    """
    generated = record.get("generated")
    if not isinstance(generated, Mapping) or record.get("reviewed"):
        return "answer" in record or "answers" in record
    return generated.get("digest") != text_digest(str(record.get("answer")))


def save_dataset(
    dataset: Dataset,
    folder: str | Path,
    *,
    force: bool = False,
    extra: Mapping[str, str] | None = None,
) -> Path:
    """Write a dataset as a BEIR folder, complete or not at all, and give its path.

    corpus.jsonl, queries.jsonl, qrels/<split>.tsv; answers.jsonl with reference answers,
    questions.jsonl with gold spans, case_labels.jsonl with labels that those cannot hold (such as
    required keywords) and files of safety samples where there are any; `extra` is file name ->
    text. `load_dataset(folder, split)` gives the same dataset.

    Args:
        force: replace a folder that is there. Never replaced is one that holds anything else than a
        dataset, or an
            answer that a person wrote or changed.

    Raises:
        DataError: the folder is there, or must not be replaced, or an id cannot be written.
    """
    from ragbench.testsets.perspectives import (
        safety_texts,
    )  # here, as it takes time and memory to load

    target = expanded(folder)
    check_free(target, force)
    texts = {
        "corpus.jsonl": "".join(
            json_line(document_line(document)) for document in dataset.corpus.values()
        )
    }
    texts |= (
        case_texts(dataset)
        | safety_texts(dataset.safety_inputs, dataset.safety_outputs)
        | dict(extra or {})
    )
    return write_texts(target, {name: text for name, text in texts.items() if text})


def write_texts(
    target: Path, texts: Mapping[str, str], check: Callable[[Path], None] = lambda new: None
) -> Path:
    """Write a folder of files (name -> content), or one file (by the name ""), complete or not at
    all.

    `check` gets the path of what will be there, and raises where it must not be.

    Raises:
        DataError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with staged(target) as new:
            if "" not in texts:
                new.mkdir()
            for name, text in texts.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_text(text, encoding="utf-8", newline="\n")
            check(new)
    except UnicodeEncodeError as exc:
        raise DataError(
            f"{target}: half of a surrogate pair cannot be written to a file: {exc}"
        ) from exc
    except OSError as exc:
        raise unwritable(target, exc) from exc
    return target


def check_free(folder: Path, force: bool) -> None:
    """Raise DataError where `save_dataset` would not write: early, before anything is paid for."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force:
        raise DataError(
            f"{folder} is there already; name another folder, or replace it with --force "
            "(force=True)"
        )
    if not folder.is_dir():
        raise DataError(f"{folder} is a file, not the folder of a dataset: it is not replaced")
    if foreign := sorted(
        path.name
        for path in folder.iterdir()
        if not path.name.startswith(STAGING) and path.name not in FILES
    ):
        raise DataError(
            f"{folder} holds {shown(foreign[0])}, which is not part of a dataset: it is not "
            "replaced"
        )
    answers = folder / "answers.jsonl"
    if answers.is_file() and (
        edited := [record for _, record in json_lines(answers) if is_by_hand(record)]
    ):
        raise DataError(
            f"{answers} holds {len(edited)} answers that a person wrote or changed, first "
            f"{shown(edited[0].get('_id'))}: they are never replaced; name another folder, or "
            "move this one away"
        )


def case_texts(dataset: Dataset) -> dict[str, str]:
    """Return file name -> content, of the files with cases and their judgements; "" where there is
    nothing.
    """
    texts = {
        name: "".join(json_line(record) for record in _records(dataset, name))
        for name in CASE_FILES
    }
    return {f"qrels/{dataset.split}.tsv": _qrels(dataset), **texts}


def _records(dataset: Dataset, file: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of one of the files with cases."""
    bodies = {doc_id: len(doc.full_text) - len(doc.text) for doc_id, doc in dataset.corpus.items()}
    for case in dataset.cases:
        if file == "queries.jsonl":
            yield _query_line(case)
        elif file == "questions.jsonl":
            if references := _references(case, dataset, bodies):
                yield {"_id": case.query_id, "question": case.text, "references": references}
        elif line := _answer_line(case) if file == "answers.jsonl" else _label_line(case, dataset):
            yield line


def _query_line(case: Case) -> dict[str, Any]:
    line: dict[str, Any] = {"_id": case.query_id, "text": case.text}
    line |= {name: value for name in ("category", "query_type") if (value := getattr(case, name))}
    metadata = {
        key: value
        for key, value in case.metadata.items()
        if key != "generated" or not case.reference_answer
    }
    return {**line, "metadata": metadata} if metadata else line


def _answer_line(case: Case) -> dict[str, Any]:
    line: dict[str, Any] = {"answer": case.reference_answer} if case.reference_answer else {}
    if _is_short_answer(case):
        line["answers"] = list(case.gold_facts[0])
    if case.expected_outcome in ("success", "no_results"):
        line["answerable"] = case.expected_outcome == "success"
    if case.reference_answer and "generated" in case.metadata:
        line["generated"] = case.metadata["generated"]
    return {"_id": case.query_id, **line} if line else {}


def _is_short_answer(case: Case) -> bool:
    """Return True if the gold facts are one with aliases, which answers.jsonl holds next to a
    reference answer.
    """
    if not case.reference_answer or len(case.gold_facts) != 1:
        return False
    (fact,) = case.gold_facts
    return len(set(fact)) == len(fact)


def _label_line(case: Case, dataset: Dataset) -> dict[str, Any]:
    """Return the labels that no other file holds as they are."""
    from ragbench.testsets.single_file import case_line, entry_of_case

    labels = case_line(entry_of_case(dataset, case))
    names = [name for name in _MORE_LABELS if name in labels]
    if case.gold_facts and not _is_short_answer(case):
        names.append("gold_facts")
    if case.expected_outcome in ("uncertain", "blocked"):
        names.append("expected_outcome")
    if case.reference_answer == "":
        names.append("reference_answer")
    if any(_is_outside(span, dataset) for span in case.evidence):
        names.append("evidence")
    line = {name: labels[name] for name in names}
    if not dataset.qrels.get(case.query_id) and case.expected_outcome != "no_results":
        line["relevant"] = {}
    return {"query_id": case.query_id, **line} if line else {}


def _is_outside(span: Span, dataset: Dataset) -> bool:
    """Return True if a span begins in a title or is in no document of the corpus: not what
    questions.jsonl can hold.
    """
    document = dataset.corpus.get(span.doc_id)
    return document is None or span.start < len(document.full_text) - len(document.text)


def _references(case: Case, dataset: Dataset, bodies: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return gold spans as characters of `text`; the format has none for what is in a title or
    elsewhere.
    """
    references = []
    for span in case.evidence:
        if span.doc_id not in bodies:
            continue
        start, end = max(span.start - bodies[span.doc_id], 0), span.end - bodies[span.doc_id]
        if end > start:
            content = dataset.corpus[span.doc_id].text[start:end]
            references.append(
                {
                    "corpus_id": span.doc_id,
                    "content": content,
                    "start_index": start,
                    "end_index": end,
                }
            )
    return references


def _qrels(dataset: Dataset) -> str:
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(["query-id", "corpus-id", "score"])
    for query_id, grades in dataset.qrels.items():
        for doc_id, grade in grades.items():
            for identifier in (query_id, doc_id):
                if not identifier.strip() or any(sign in identifier for sign in "\t\r\n"):
                    raise DataError(
                        f"the id {shown(identifier)} is empty or holds a tab or a line break; "
                        "rename it"
                    )
            table.writerow([query_id, doc_id, grade])
    return text.getvalue()


def unwritable(path: Path, exc: OSError) -> DataError:
    """Return the error for a place that cannot be written to."""
    return DataError(
        f"{path} could not be written: {exc.strerror or exc}; check its folder's permissions and "
        "free space"
    )
