"""What a system gave to every question of a test set, in one form whatever the system is."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.retrievers import to_documents
from ragbench.systems import (
    RETRIEVAL_ONLY,
    Pipeline,
    RecordedSystem,
    ask,
    distinct_contexts,
    load_system,
    match_passages,
)
from ragbench.types import Answer, Chunk, Dataset, Run, System

_TIMED = 20  # questions that the built-in pipeline is asked once more, one at a time, for its latency


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of one system with what they were made from.

    `documents` ranks documents and `ranking` the ids of the passages that the system retrieved, both query_id -> id ->
    score. `chunks` are the texts behind these ids that stand in documents of the dataset. `has_texts` says whether the
    texts of the contexts are known, be it from `chunks` or from the answers' own passages, and `has_answers` whether
    the system answers at all or only retrieves. `latency` holds answers with their milliseconds per stage, `prompts`
    what a language model was sent, where that is known. `system` says in plain data what was asked.
    """

    dataset: Dataset
    answers: Sequence[Answer]
    documents: Run
    ranking: Run
    chunks: Sequence[Chunk]
    has_texts: bool
    has_answers: bool
    latency: Sequence[Answer]
    prompts: Mapping[str, str]
    system: Mapping[str, Any]


def answer_all(
    dataset: Dataset, system: str | Path | System | Sequence[Answer], *, concurrency: int = 8, timed: int = _TIMED
) -> Answered:
    """Ask a system every question of the dataset.

    Args:
        dataset: the questions, and the documents where the system does not hold its own.
        system: a name or file for `load_system`, a `System`, or the answers themselves.
        concurrency: questions that wait at a time.
        timed: the built-in pipeline answers all questions in one batch, which is nobody's waiting time; so many (all
            where a case has a budget) are asked once more, one at a time, for the latency. No language model is asked
            twice: a pipeline with one gives what its replies took.
    """
    if isinstance(system, str | Path):
        loaded = load_system(system, dataset)
        try:
            return answer_all(dataset, loaded, concurrency=concurrency, timed=timed)
        finally:
            if callable(close := getattr(loaded, "close", None)):
                close()
    if isinstance(system, Pipeline):
        return _pipeline(dataset, system, timed)
    answers: Sequence[Answer]
    if not isinstance(system, System):
        answers, plain = _given(dataset, system), {"name": "recorded answers", "kind": "answers"}
    else:
        if isinstance(system, RecordedSystem):
            _check_recorded(dataset, system)
        answers = ask(system, dataset, concurrency=concurrency)
        plain = {"name": system.name, "kind": type(system).__name__}
    matched = match_passages(answers, dataset)
    ranking = {answer.query_id: _ranked(answer) for answer in matched.answers}
    return Answered(
        dataset=dataset,
        answers=matched.answers,
        documents=matched.run,
        ranking=ranking,
        chunks=matched.chunks,
        has_texts=any(passage.text.strip() for answer in matched.answers for passage in answer.passages),
        has_answers=not matched.answers or any(RETRIEVAL_ONLY not in answer.flags for answer in matched.answers),
        latency=matched.answers,
        prompts={},
        system={**plain, "matched_passages": matched.counts},
    )


def _pipeline(dataset: Dataset, system: Pipeline, timed: int) -> Answered:
    answers, queries = ask(system, dataset), dataset.queries
    ranking = {case.query_id: system.run.get(case.query_id, {}) for case in dataset.cases}
    latency: Sequence[Answer] = answers
    if timed and system.llm == "extractive":
        wanted = len(queries) if any(case.latency_budget_ms for case in dataset.cases) else timed
        latency = [system.answer(query_id, query) for query_id, query in list(queries.items())[:wanted]]
        if wanted == len(queries):
            answers = [replace(one, latency_ms=own.latency_ms) for one, own in zip(answers, latency, strict=True)]
    return Answered(
        dataset=dataset,
        answers=answers,
        documents=to_documents(ranking, system.chunks),
        ranking=ranking,
        chunks=system.chunks,
        has_texts=True,
        has_answers=True,
        latency=latency,
        prompts={
            answer.query_id: text for answer in answers if (text := system.prompt_for(queries[answer.query_id], answer))
        },
        system={
            "name": system.name,
            "kind": "Pipeline",
            "chunks": len(system.chunks),
            "chunking": _chunking(system.chunks),
        },
    )


def _check_recorded(dataset: Dataset, system: RecordedSystem) -> None:
    """Answers to other questions are a mistake of the call; some that nobody asks for are only worth a warning."""
    strange = system.unasked(dataset.queries)
    if not strange or not dataset.cases:
        return
    known = len(system.unasked({})) - len(strange)
    if not known:
        raise DataError(
            f"none of the {len(strange)} answers of {system.name!r} belongs to a question of {dataset.name!r}: they "
            f"have ids such as {strange[0]!r}, the test set {dataset.cases[0].query_id!r}"
        )
    first = ", ".join(map(repr, strange[:3]))
    warnings.warn(
        f"{system.name}: {len(strange)} answers belong to no question of {dataset.name!r} and are left out (first: "
        f"{first})",
        DataWarning,
        stacklevel=3,
    )


def _given(dataset: Dataset, answers: Sequence[Answer]) -> list[Answer]:
    """One answer per case, in the order of the cases; a missing one is a failed one."""
    for answer in answers:
        if not isinstance(answer, Answer):
            raise ConfigError(f"the system is a list that holds {answer!r}; expected answers, a system, or its name")
    by_query = {answer.query_id: answer for answer in answers}
    if len(by_query) < len(answers):
        [(twice, _)] = Counter(answer.query_id for answer in answers).most_common(1)
        raise DataError(f"two answers to query {twice!r}; evaluate repeated runs one by one")
    if answers and not by_query.keys() & dataset.queries.keys():
        raise DataError(
            f"none of the {len(answers)} answers belongs to a question of {dataset.name!r}: they have ids such as "
            f"{answers[0].query_id!r}, the test set {next(iter(dataset.queries), '')!r}"
        )
    return [
        by_query.get(query_id) or Answer(query_id, "", outcome="failed", error="there is no answer to this question")
        for query_id in dataset.queries
    ]


def _ranked(answer: Answer) -> dict[str, float]:
    ids = distinct_contexts(answer) or tuple(dict.fromkeys(passage.passage_id for passage in answer.passages))
    return {passage_id: 1.0 / rank for rank, passage_id in enumerate(ids, 1)}


def _chunking(chunks: Sequence[Chunk]) -> str:
    """Which pieces the documents are cut into, in 12 hex digits."""
    borders = "\n".join(f"{chunk.doc_id} {chunk.start} {chunk.end}" for chunk in chunks)
    return hashlib.sha256(borders.encode()).hexdigest()[:12]
