"""The same questions from other contexts: what could a better retriever bring, what does the model know by heart?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragbench import llms
from ragbench.generation.answers import check_llm, generate_answers
from ragbench.generation.replies import read_reply
from ragbench.prompts import GENERATION_SYSTEM, NO_ANSWER, closed_book
from ragbench.types import LLM, Answer, Case, Chunk, Dataset, LLMLike, Run

if TYPE_CHECKING:
    import numpy.typing as npt

ARMS = ("oracle", "best_chunks", "empty")
"""In the order of what they are given: the gold evidence, the best chunks that there are, nothing."""


class Arms(NamedTuple):
    """The answers of each arm, by its name, and the chunks that their contexts name."""

    answers: dict[str, list[Answer]]
    chunks: list[Chunk]


def answer_arms(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    llm: LLMLike = "extractive",
    *,
    prompt: str = "cited",
    k: int = 5,
    max_context_tokens: int | None = None,
    concurrency: int = 8,
    max_tokens: int = 512,
    temperature: float = 0.0,
) -> Arms:
    """Answer every answerable question that has gold evidence again, from contexts that no retriever chose.

    - "oracle": from the gold evidence alone, or, where the dataset judges documents only, from the (up to `k`) relevant
      documents, the highest grade first. No retriever and no chunking can give a generator more.
    - "best_chunks": from the `k` chunks that together hold most of the evidence: what a perfect retriever would find
      with this chunking. Only where there are evidence spans; otherwise the arm is missing.
    - "empty": without any document. What is right here, no retriever can claim. "extractive" knows nothing by heart.

    All else is as in `generate_answers`, whose arguments these are, so that only the context differs. Questions without
    an answer or without gold are left out: there is no better context for them.

    Raises:
        ConfigError, DataError: as `generate_answers`.
    """
    check_llm(llm)
    model = llm if llm == "extractive" else llms.load_llm(llm)
    gold = {case.query_id: found for case in dataset.cases if case.answerable and (found := _gold(dataset, case, k))}
    asked = dataset.select(gold)
    pieces = {chunk.chunk_id: chunk for found in gold.values() for chunk in found}
    runs = {"oracle": _in_order(gold)}
    if with_evidence := [case for case in asked.cases if case.evidence]:
        own: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            own.setdefault(chunk.doc_id, []).append(chunk)
        runs["best_chunks"] = _in_order({case.query_id: _covering(case, own, k) for case in with_evidence})
    known = [*chunks, *pieces.values()]
    answers = {
        arm: generate_answers(
            asked.select(run),
            run,
            known,
            model,
            prompt=prompt,
            k=max([k, *map(len, run.values())]),  # all evidence counts, however many spans it has
            max_context_tokens=max_context_tokens,
            concurrency=concurrency,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        for arm, run in runs.items()
    }
    answers["empty"] = _by_heart(asked.cases, model, concurrency, max_tokens, temperature)
    return Arms(answers, known)


def _gold(dataset: Dataset, case: Case, k: int) -> list[Chunk]:
    """The evidence of a question as chunks, or else its relevant documents."""
    if spans := [span for span in dict.fromkeys(case.evidence) if span.doc_id in dataset.corpus]:
        return [
            Chunk(
                f"{span.doc_id}#gold-{span.start}-{span.end}",
                span.doc_id,
                span.start,
                span.end,
                dataset.corpus[span.doc_id].full_text[span.start : span.end],
            )
            for span in spans
        ]
    judged = dataset.qrels.get(case.query_id, {})
    relevant = sorted((d for d in judged if judged[d] >= 1 and d in dataset.corpus), key=lambda d: (-judged[d], d))
    texts = [(doc_id, dataset.corpus[doc_id].full_text) for doc_id in relevant[:k]]
    return [Chunk(f"{doc_id}#gold-0-{len(text)}", doc_id, 0, len(text), text) for doc_id, text in texts]


def _covering(case: Case, chunks: Mapping[str, Sequence[Chunk]], k: int) -> list[Chunk]:
    """Up to `k` chunks that hold most of the evidence: each time the one that adds most characters, of equal ones the
    first."""
    missing: dict[str, npt.NDArray[np.bool_]] = {}
    for doc_id in dict.fromkeys(span.doc_id for span in case.evidence):
        spans = [span for span in case.evidence if span.doc_id == doc_id]
        ends = [span.end for span in spans] + [chunk.end for chunk in chunks.get(doc_id, ())]
        missing[doc_id] = np.zeros(max(ends), dtype=np.bool_)
        for span in spans:
            missing[doc_id][span.start : span.end] = True
    near = [chunk for doc_id in missing for chunk in chunks.get(doc_id, ())]
    chosen: list[Chunk] = []
    while near and len(chosen) < k:
        gains = [int(missing[chunk.doc_id][chunk.start : chunk.end].sum()) for chunk in near]
        best = near[int(np.argmax(gains))]
        if not max(gains):
            break
        chosen.append(best)
        missing[best.doc_id][best.start : best.end] = False
        near = [chunk for chunk, gain in zip(near, gains, strict=True) if gain and chunk is not best]
    return chosen


def _in_order(found: dict[str, list[Chunk]]) -> Run:
    return {
        query_id: {chunk.chunk_id: float(len(own) - rank) for rank, chunk in enumerate(own)}
        for query_id, own in found.items()
    }


def _by_heart(
    cases: Sequence[Case], llm: str | LLM, concurrency: int, max_tokens: int, temperature: float
) -> list[Answer]:
    if isinstance(llm, str):  # the extractive baseline has nothing to extract from
        return [Answer(case.query_id, NO_ANSWER, outcome="no_results") for case in cases]
    replies = llms.generate_many(
        llm,
        [closed_book(case.text) for case in cases],
        system=GENERATION_SYSTEM,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        label="answers without documents",
    )
    return [read_reply(case.query_id, reply, ()) for case, reply in zip(cases, replies, strict=True)]
