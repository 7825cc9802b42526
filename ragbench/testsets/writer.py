"""Writes a dataset as a BEIR folder that `load_dataset` reads back: which label is in which file,
and what is not overwritten, such as an answer that a person wrote.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench import store
from ragbench.datasets.jsonl import json_line, json_lines, shown
from ragbench.datasets.raw_records import document_line
from ragbench.errors import DataError
from ragbench.files import STAGING, expanded, locked, staged
from ragbench.testsets.cases import case_line, entry_of_case
from ragbench.testsets.perspective_files import safety_texts
from ragbench.types import Case, Dataset

CASE_FILES = ("queries.jsonl", "answers.jsonl", "case_labels.jsonl")
"""Files with a line per case; answers.jsonl and case_labels.jsonl only for cases with such labels."""

FILES = (
    "corpus.jsonl",
    *CASE_FILES,
    *"questions.jsonl qrels safety_inputs.jsonl safety_outputs.jsonl drafts.jsonl testset.json".split(),
)
"""The files of a dataset: `save_dataset` replaces no folder with another file in it."""

_WAIT_S = 60.0
_QUERY_FIELDS = ("text", "category", "query_type", "metadata")
_IN_OTHER_FILES = {*_QUERY_FIELDS, "query_id", "reference_answer", "relevant"}
"""Labels that are in queries.jsonl, answers.jsonl and qrels/; case_labels.jsonl has the others."""


def text_digest(answer: str) -> str:
    """Return 16 hex digits of SHA-256 over a text.

    >>> text_digest("Paris.") == text_digest("Paris. ")
    False
    """
    return store.digest("generated answer", answer)[:16]


def is_by_hand(record: Mapping[str, Any]) -> bool:
    """Return True if a person wrote, changed or reviewed the answer in a line of answers.jsonl. The
    line of a generated answer has the digest of its text, which shows later changes.

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
    """Write a dataset as a BEIR folder, complete or not at all, and return its path.

    The folder has corpus.jsonl, queries.jsonl and qrels/<split>.tsv; as needed answers.jsonl with
    reference answers, case_labels.jsonl with all other labels (gold spans, required keywords, ...)
    and files of safety samples. `load_dataset(folder, split)` returns the same dataset.

    Args:
        force: replace an existing folder. A folder that holds anything else than a dataset, or an
            answer that a person wrote or changed, is never replaced.
        extra: more files, file name -> text.

    Raises:
        DataError: the folder exists, or must not be replaced, or an id cannot be written.
    """
    target = expanded(folder)
    check_free(target, force)
    texts = {
        "corpus.jsonl": "".join(map(json_line, map(document_line, dataset.corpus.values()))),
        **_case_texts(dataset),
        **safety_texts(dataset.safety_inputs, dataset.safety_outputs),
        **(extra or {}),
    }
    return write_texts(target, {name: text for name, text in texts.items() if text})


def write_texts(
    target: Path, texts: Mapping[str, str], check: Callable[[Path], None] = lambda new: None
) -> Path:
    """Write files to `target`, all of them or none.

    They are written to a temporary place first, and moved to `target` when they are complete.

    Args:
        target: the path of the folder, or of the file.
        texts: name of a file in the folder -> its text; {"": text} makes `target` a single file.
        check: called with the temporary path before the move; raises if they must not be moved.

    Raises:
        DataError: the files cannot be written.
    """
    try:
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


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is read, changed and saved as a whole, so that no writer loses the
    changes of another.

    Raises:
        DataError: another process holds the lock for 60 seconds, or the file cannot be written.
    """
    try:
        with locked(path.with_name(f".{path.name}.lock"), timeout_s=_WAIT_S):
            yield
    except TimeoutError as exc:
        raise DataError(
            f"{path} has been locked by another process for {_WAIT_S:g} s; try again later"
        ) from exc
    except OSError as exc:
        raise unwritable(path, exc) from exc


def check_free(folder: Path, force: bool) -> None:
    """Raise DataError if `save_dataset` would not write to a folder: early, before any cost arises."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force:
        raise DataError(
            f"{folder} already exists; name another folder, or replace it with --force (force=True)"
        )
    if not folder.is_dir():
        raise DataError(f"{folder} is a file, not the folder of a dataset: it is not replaced")
    for name in sorted(path.name for path in folder.iterdir()):
        # names with `STAGING` are left-overs of an interrupted write
        if not name.startswith(STAGING) and name not in FILES:
            raise DataError(
                f"{folder} holds {shown(name)}, which is not part of a dataset: it is not replaced"
            )
    answers = folder / "answers.jsonl"
    if not answers.is_file():
        return
    edited = [record for _, record in json_lines(answers) if is_by_hand(record)]
    if edited:
        raise DataError(
            f"{answers} holds {len(edited)} answers that a person wrote or changed, first "
            f"{shown(edited[0].get('_id'))}: they are never replaced; name another folder, or "
            "move this one away"
        )


def _case_texts(dataset: Dataset) -> dict[str, str]:
    """Return file name -> text for the files of a BEIR folder with cases and their judgements; "" for a
    file without a line.

    Labels that BEIR's own files cannot hold go to case_labels.jsonl.
    """
    queries: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    label_lines: list[dict[str, Any]] = []
    for case in dataset.cases:
        metadata = dict(case.metadata)
        if case.reference_answer:
            answer = {"_id": case.query_id, "answer": case.reference_answer}
            if "generated" in metadata:  # how a model wrote the answer
                answer["generated"] = metadata.pop("generated")
            answers.append(answer)
        # all labels of the case by name, without empty ones
        labels = case_line(entry_of_case(dataset, replace(case, metadata=metadata)))
        query = {name: labels[name] for name in _QUERY_FIELDS if name in labels}
        queries.append({"_id": case.query_id, **query})
        is_judged = bool(dataset.qrels.get(case.query_id))
        others = _labels_beside_beir(case, labels, is_judged=is_judged)
        if others:
            label_lines.append({"query_id": case.query_id, **others})
    return {
        f"qrels/{dataset.split}.tsv": _qrels_text(dataset),
        "queries.jsonl": "".join(map(json_line, queries)),
        "answers.jsonl": "".join(map(json_line, answers)),
        "case_labels.jsonl": "".join(map(json_line, label_lines)),
    }


def _labels_beside_beir(
    case: Case, labels: Mapping[str, Any], *, is_judged: bool
) -> dict[str, Any]:
    """Return the labels of a case that go to case_labels.jsonl: those that BEIR's other files do not hold.

    Empty labels are among them: "no document is relevant" is a label, but would look like a missing
    label in the other files, which have no line for it.

    Args:
        labels: all labels of the case, by name.
        is_judged: True if the judgements of BEIR have a document for the question.
    """
    others = {name: value for name, value in labels.items() if name not in _IN_OTHER_FILES}
    if not is_judged:
        others["relevant"] = {}
    # an empty answer, unlike a missing one (None), is a label
    if case.reference_answer == "":
        others["reference_answer"] = ""
    return others


def _qrels_text(dataset: Dataset) -> str:
    """Return the judgements as the text of BEIR's qrels file: columns query-id, corpus-id and score,
    separated by tabs.

    Raises:
        DataError: an id is empty, or holds a tab or a line break.
    """
    text = io.StringIO()
    table = csv.writer(text, delimiter="\t", lineterminator="\n")
    table.writerow(["query-id", "corpus-id", "score"])
    for query_id, grades in dataset.qrels.items():
        for doc_id, grade in grades.items():
            _check_cell(query_id)
            _check_cell(doc_id)
            table.writerow([query_id, doc_id, grade])
    return text.getvalue()


def _check_cell(identifier: str) -> None:
    """Raise DataError for an id that a cell of tab-separated values cannot hold."""
    if not identifier.strip() or {*identifier} & {*"\t\r\n"}:
        raise DataError(
            f"the id {shown(identifier)} is empty or holds a tab or a line break; rename it"
        )


def unwritable(path: Path, exc: OSError) -> DataError:
    """Return the error for a place that cannot be written to."""
    return DataError(
        f"{path} could not be written: {exc.strerror or exc}; check its folder's permissions and "
        "free space"
    )
