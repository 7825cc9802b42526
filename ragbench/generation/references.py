"""Reference answers from a dataset's most relevant documents; those that a person wrote are never
replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import llms, store
from ragbench.errors import ConfigError, DataError, FailureKind, ModelError, check_known
from ragbench.generation.answers import read_reply
from ragbench.generation.prompts import GENERATION_SYSTEM, REFERENCE, fill
from ragbench.retrieval.embedders import load_embedder
from ragbench.testsets.answers import generated_label, merge_answers, reference_origin
from ragbench.text import token_offsets
from ragbench.types import Answer, Case, Chunk, Dataset, Embedder, LLMLike

MAX_TOKENS = 400
"""Maximum length of a reference answer; four sentences need a third of it."""


def choose_queries(
    dataset: Dataset,
    *,
    query_ids: Sequence[str] = (),
    limit: int = 0,
    written_by: Sequence[str] = ("none",),
) -> list[str]:
    """Return the queries that a reference answer can be written for, in the order of the dataset.

    Unanswerable queries and those without a relevant document in the corpus are always left out.

    Args:
        query_ids: only these; empty means all. limit: only the first N of them; 0 means all.
        written_by: origins of the present reference answer to include: "none" (there is none),
        "model", "person".

    Raises:
        ConfigError: an id that is not there.
    """
    check_known("query", dataset.queries, *query_ids)
    chosen = [
        case.query_id
        for case in dataset.cases
        if (not query_ids or case.query_id in query_ids)
        and case.expected_outcome != "no_results"
        and reference_origin(case) in written_by
        and _relevant(dataset, case)
    ]
    return chosen[:limit] if limit else chosen


def reference_sources(
    dataset: Dataset,
    query_ids: Sequence[str],
    *,
    k: int = 5,
    max_document_tokens: int = 1000,
) -> dict[str, list[Chunk]]:
    """Return the passages that each query's reference answer is to be written from, best first.

    The relevant documents by their grade, highest first; of one grade those closer to the question
    (cosine of wordllama, six decimals), then those earlier in the corpus; at most `k`. Of a
    document with more than `max_document_tokens` (of the "minilm" tokenizer) one window of that
    size is taken: the one that contains most of the query's gold evidence, then the one closest to
    the question, then the first.

    Returns:
        query_id -> chunks; `start` and `end` are the window, the whole document where it is short
        enough.
    """
    if k < 1 or max_document_tokens < 1:
        raise ConfigError(
            f"k is {k} and max_document_tokens is {max_document_tokens}; expected 1 or more of each"
        )
    chosen = set(query_ids)
    cases = [case for case in dataset.cases if case.query_id in chosen]
    model = load_embedder("wordllama")
    relevant = {case.query_id: _relevant(dataset, case) for case in cases}
    used = list(dict.fromkeys(doc_id for documents in relevant.values() for doc_id in documents))
    windows = dict(zip(used, _windows(dataset, used, max_document_tokens), strict=True))
    position = {doc_id: i for i, doc_id in enumerate(dataset.corpus)}
    questions = model.encode([case.text for case in cases])
    sources: dict[str, list[Chunk]] = {}
    for case, question in zip(cases, questions, strict=True):
        grades = relevant[case.query_id]
        nearness = model.encode([dataset.corpus[doc_id].full_text for doc_id in grades]) @ question
        near = dict(zip(grades, np.round(nearness, 6).tolist(), strict=True))
        ranked = sorted(
            grades, key=lambda doc_id: (-grades[doc_id], -near[doc_id], position[doc_id])
        )[:k]
        sources[case.query_id] = [
            _best_window(case, windows[doc_id], question, model) for doc_id in ranked
        ]
    return sources


def generate_references(
    dataset: Dataset,
    sources: Mapping[str, Sequence[Chunk]],
    llm: LLMLike,
    *,
    concurrency: int = 8,
) -> list[Answer]:
    """Answer each query of `sources` (see `reference_sources`) as a reference, in their order.

    Where the documents do not contain the answer, the outcome is "no_results"; a request that
    failed, or a reply that was cut, is "failed".
    """
    questions = dataset.queries
    if missing := [query_id for query_id in sources if query_id not in questions]:
        raise DataError(f"sources contain query {missing[0]!r}, which is not in {dataset!r}")
    replies = llms.generate_many(
        llms.load_llm(llm),
        [
            fill(REFERENCE, questions[query_id], [c.text for c in passages])
            for query_id, passages in sources.items()
        ],
        system=GENERATION_SYSTEM,
        max_tokens=MAX_TOKENS,
        concurrency=concurrency,
        label="reference answers",
    )
    answers = []
    for (query_id, passages), reply in zip(sources.items(), replies, strict=True):
        answer = read_reply(query_id, reply, passages)
        if "truncated" in answer.flags:
            why = f"{reply.model} did not finish within {MAX_TOKENS} tokens"
            answer = replace(
                answer, text="", outcome="failed", error=why, failure=FailureKind.UNREADABLE
            )
        answers.append(answer)
    return answers


def write_references(
    folder: str | Path,
    dataset: Dataset,
    sources: Mapping[str, Sequence[Chunk]],
    llm: LLMLike,
    *,
    concurrency: int = 8,
) -> list[Answer]:
    """Generate reference answers and put them into `folder`/answers.jsonl, in batches.

    Each line records model, prompt and source documents. A line that a person wrote, changed or
    reviewed is kept, always (`ragbench.testsets.writer.is_by_hand`). After an interruption the file
    holds all but the last batch, and the replies of that batch so far are in the reply store:
    nothing is paid for twice.

    Raises:
        ModelError: every request of a batch failed; earlier batches are in the file.
    """
    path = Path(folder) / "answers.jsonl"
    size = max(32, 4 * concurrency)
    query_ids = list(sources)
    answers: list[Answer] = []
    for first in range(0, len(query_ids), size):
        part = {query_id: sources[query_id] for query_id in query_ids[first : first + size]}
        new = generate_references(dataset, part, llm, concurrency=concurrency)
        answers += new
        merge_answers(path, dict(_reference_lines(dataset, part, new)))
        if all(answer.error is not None for answer in new):
            raise ModelError(
                f"all of {len(new)} requests for reference answers failed; {first} earlier ones "
                f"are in {path}: {new[0].error}"
            )
    return answers


def _reference_lines(
    dataset: Dataset, sources: Mapping[str, Sequence[Chunk]], answers: Sequence[Answer]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the query and the fields in answers.jsonl of each successful answer."""
    prompt = f"reference@{store.digest(REFERENCE, GENERATION_SYSTEM)[:8]}"
    for answer in answers:
        usage = answer.usage
        if answer.outcome != "success" or usage is None or usage.failure is FailureKind.DRY_RUN:
            continue
        grades = dataset.qrels[answer.query_id]
        passages = [
            {"doc_id": c.doc_id, "start": c.start, "end": c.end, "grade": grades.get(c.doc_id)}
            for c in sources[answer.query_id]
        ]
        label = generated_label(answer.text, model=usage.model, prompt=prompt, sources=passages)
        yield answer.query_id, {"answer": answer.text, "generated": label}


def _relevant(dataset: Dataset, case: Case) -> dict[str, int]:
    grades = dataset.qrels.get(case.query_id, {})
    return {
        doc_id: grade
        for doc_id, grade in grades.items()
        if grade >= 1 and doc_id in dataset.corpus and dataset.corpus[doc_id].full_text.strip()
    }


def _windows(dataset: Dataset, doc_ids: Sequence[str], size: int) -> list[list[Chunk]]:
    """Cut each document into one chunk, or as windows of `size` tokens that overlap by half."""
    texts = [dataset.corpus[doc_id].full_text for doc_id in doc_ids]
    step = max(1, size // 2)
    result = []
    for doc_id, text, offsets in zip(doc_ids, texts, token_offsets(texts), strict=True):
        spans = [(0, len(text))]
        if len(offsets) > size:
            firsts = range(0, len(offsets) - size + step, step)
            spans = [
                (int(offsets[i][0]), int(offsets[min(i + size, len(offsets)) - 1][1]))
                for i in firsts
            ]
        result.append([Chunk.cut(doc_id, text, *span) for span in spans])
    return result


def _best_window(case: Case, windows: Sequence[Chunk], question: Any, model: Embedder) -> Chunk:
    if len(windows) == 1:
        return windows[0]
    near = np.round(model.encode([window.text for window in windows]) @ question, 6)
    covered = [
        sum(
            max(0, min(span.end, window.end) - max(span.start, window.start))
            for span in case.evidence
            if span.doc_id == window.doc_id
        )
        for window in windows
    ]
    return windows[max(range(len(windows)), key=lambda i: (covered[i], near[i], -i))]
