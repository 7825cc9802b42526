"""Context ablations: the same questions answered from the gold evidence, the best chunks, and no
context at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench import llms
from ragbench.generation.answers import check_llm, generate_answers, read_reply
from ragbench.generation.prompts import GENERATION_SYSTEM, closed_book
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.types import Answer, Case, Chunk, Dataset, LLMLike, Run, grouped


class Ablations(NamedTuple):
    """The answers by ablation, and the chunks that their contexts name."""

    answers: dict[str, list[Answer]]
    chunks: list[Chunk]


def answer_ablations(
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
) -> Ablations:
    """Answer every answerable question that has gold evidence again, from contexts that no
    retriever chose.

    - "oracle": from the gold evidence alone, or, where the dataset judges documents only, from up
      to `k` relevant documents, highest grade first: the upper bound for any retriever and
      chunking.
    - "best_chunks": from the `k` chunks that together contain most of the evidence: what a perfect
      retriever would find with this chunking. Absent where no case has evidence spans.
    - "empty": without any document (closed-book). Correct answers here are not due to retrieval;
      "extractive" has none.

    The arguments are those of `generate_answers`, so that only the context differs. Questions that
    are unanswerable or have no gold labels are left out.

    Raises:
        ConfigError, DataError: as `generate_answers`.
    """
    check_llm(llm)
    model = llm if llm == "extractive" else llms.load_llm(llm)
    gold = {
        case.query_id: evidence
        for case in dataset.cases
        if case.answerable and (evidence := _gold(dataset, case, k))
    }
    answerable = dataset.select(gold)
    runs = {"oracle": _ranked(gold)}
    if with_evidence := [case for case in answerable.cases if case.evidence]:
        chunks_of = grouped(chunks, lambda chunk: chunk.doc_id)
        runs["best_chunks"] = _ranked(
            {case.query_id: _covering(case, chunks_of, k) for case in with_evidence}
        )
    texts = [
        *chunks,
        *{chunk.chunk_id: chunk for evidence in gold.values() for chunk in evidence}.values(),
    ]
    answers = {
        name: generate_answers(
            answerable.select(run),
            run,
            texts,
            model,
            prompt=prompt,
            k=max([k, *map(len, run.values())]),  # all evidence counts, however many spans it has
            max_context_tokens=max_context_tokens,
            concurrency=concurrency,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        for name, run in runs.items()
    }
    if isinstance(model, str):  # the extractive baseline has nothing to extract from
        answers["empty"] = [
            Answer(case.query_id, NO_ANSWER, outcome="no_results") for case in answerable.cases
        ]
        return Ablations(answers, texts)
    replies = llms.generate_many(
        model,
        [closed_book(case.text) for case in answerable.cases],
        system=GENERATION_SYSTEM,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        label="answers without documents",
    )
    answers["empty"] = [
        read_reply(case.query_id, reply, ())
        for case, reply in zip(answerable.cases, replies, strict=True)
    ]
    return Ablations(answers, texts)


def _gold(dataset: Dataset, case: Case, k: int) -> list[Chunk]:
    """Return the evidence of a question as chunks, or else its relevant documents."""
    spans = [
        (s.doc_id, s.start, s.end)
        for s in dict.fromkeys(case.evidence)
        if s.doc_id in dataset.corpus
    ]
    if not spans:
        grades = dataset.qrels.get(case.query_id, {})
        relevant = sorted(
            (d for d in grades if grades[d] >= 1 and d in dataset.corpus),
            key=lambda d: (-grades[d], d),
        )
        spans = [(doc_id, 0, len(dataset.corpus[doc_id].full_text)) for doc_id in relevant[:k]]
    return [
        Chunk(f"{d}#gold-{a}-{b}", d, a, b, dataset.corpus[d].full_text[a:b]) for d, a, b in spans
    ]


def _covering(case: Case, chunks: Mapping[str, Sequence[Chunk]], k: int) -> list[Chunk]:
    """Return up to `k` chunks that contain most of the evidence: greedily the one that adds most
    characters.
    """
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
        near = [
            chunk for chunk, gain in zip(near, gains, strict=True) if gain and chunk is not best
        ]
    return chosen


def _ranked(chunks_of: Mapping[str, Sequence[Chunk]]) -> Run:
    return {
        q: {chunk.chunk_id: float(len(ranked) - i) for i, chunk in enumerate(ranked)}
        for q, ranked in chunks_of.items()
    }
