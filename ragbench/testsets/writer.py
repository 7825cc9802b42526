"""Datasets to disk: a BEIR folder that `load_dataset` reads back. What a person wrote or changed is
never replaced.
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
from ragbench.datasets.records import document_line
from ragbench.errors import DataError
from ragbench.files import STAGING, expanded, locked, staged
from ragbench.testsets.cases import case_line, entry_of_case
from ragbench.testsets.perspectives import safety_texts
from ragbench.types import Dataset

CASE_FILES = ("queries.jsonl", "answers.jsonl", "case_labels.jsonl")
"""One line for each case, or for those that have what the file is for."""

FILES = (
    "corpus.jsonl",
    *CASE_FILES,
    *"questions.jsonl qrels safety_inputs.jsonl safety_outputs.jsonl drafts.jsonl testset.json".split(),
)
"""What a folder may hold that `save_dataset` replaces."""


_WAIT_S = 60.0
_QUERY_FIELDS = ("text", "category", "query_type", "metadata")
_ELSEWHERE = {*_QUERY_FIELDS, "query_id", "reference_answer", "relevant"}
"""Labels that are in queries.jsonl, answers.jsonl and qrels/; case_labels.jsonl has the others."""


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
    case_labels.jsonl with all other labels (gold spans, required keywords, ...) and files of safety
    samples where there are any; `extra` is file name -> text. `load_dataset(folder, split)` gives
    the same dataset.

    Args:
        force: replace a folder that is there. Never replaced is one that holds anything else than a
            dataset, or an answer that a person wrote or changed.

    Raises:
        DataError: the folder is there, or must not be replaced, or an id cannot be written.
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
    """Write a folder of files (name -> content), or one file (by the name ""), complete or not at
    all.

    `check` gets the path of what will be there, and raises where it must not be.

    Raises:
        DataError: it cannot be written.
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
    """Hold the lock of a file that is read, changed and saved as a whole: others wait, so that none
    loses what another one wrote.

    Raises:
        DataError: another process holds it for 60 seconds, or the file cannot be written.
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


def _case_texts(dataset: Dataset) -> dict[str, str]:
    """Return file name -> content, of the files with cases and their judgements; "" where there is
    nothing.
    """
    lines: dict[str, list[dict[str, Any]]] = {name: [] for name in CASE_FILES}
    for case in dataset.cases:
        query_id, metadata = {"_id": case.query_id}, dict(case.metadata)
        answer = {"answer": case.reference_answer} if case.reference_answer else {}
        if answer and "generated" in metadata:
            answer["generated"] = metadata.pop("generated")
        labels = case_line(entry_of_case(dataset, replace(case, metadata=metadata)))
        query = {name: labels[name] for name in _QUERY_FIELDS if name in labels}
        others = {name: value for name, value in labels.items() if name not in _ELSEWHERE}
        others |= {} if dataset.qrels.get(case.query_id) else {"relevant": {}}
        others |= {"reference_answer": ""} if case.reference_answer == "" else {}
        lines["queries.jsonl"].append(query_id | query)
        lines["answers.jsonl"] += [query_id | answer] if answer else []
        lines["case_labels.jsonl"] += [{"query_id": case.query_id, **others}] if others else []
    texts = {name: "".join(map(json_line, records)) for name, records in lines.items()}
    qrels = io.StringIO()
    table = csv.writer(qrels, delimiter="\t", lineterminator="\n")
    table.writerow(["query-id", "corpus-id", "score"])
    for topic, grades in dataset.qrels.items():
        for doc_id, grade in grades.items():
            for identifier in (topic, doc_id):
                if not identifier.strip() or {*identifier} & {*"\t\r\n"}:
                    raise DataError(
                        f"the id {shown(identifier)} is empty or holds a tab or a line break; "
                        "rename it"
                    )
            table.writerow([topic, doc_id, grade])
    return {f"qrels/{dataset.split}.tsv": qrels.getvalue(), **texts}


def unwritable(path: Path, exc: OSError) -> DataError:
    """Return the error for a place that cannot be written to."""
    return DataError(
        f"{path} could not be written: {exc.strerror or exc}; check its folder's permissions and "
        "free space"
    )
