"""Reference answers from a dataset's most relevant documents; those that a person wrote are never
replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import llms, store
from ragbench.errors import ConfigError, DataError, FailureKind, ModelError, check_known
from ragbench.generation.answers import read_reply
from ragbench.generation.prompts import GENERATION_SYSTEM, REFERENCE, fill
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.embedders import load_embedder
from ragbench.testsets.answers import generated_label, merge_answers, reference_origin
from ragbench.testsets.ground_truth import merge_ground_truths
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
        query_ids: only these; empty means all.
        limit: only the first N of them; 0 means all.
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
    size = max_document_tokens
    if k < 1 or size < 1:
        raise ConfigError(f"k is {k} and max_document_tokens is {size}; expected 1 or more of each")
    cases = [case for case in dataset.cases if case.query_id in {*query_ids}]
    corpus, model = dataset.corpus, load_embedder("wordllama")
    position = {doc_id: i for i, doc_id in enumerate(corpus)}
    sources = {}
    for case, question in zip(cases, model.encode([case.text for case in cases]), strict=True):
        grades = _relevant(dataset, case)
        near = _nearness(model, question, [corpus[doc_id].full_text for doc_id in grades])
        ranked = sorted(
            zip(grades, near, strict=True),
            key=lambda pair: (-grades[pair[0]], -pair[1], position[pair[0]]),
        )
        sources[case.query_id] = [
            _best_window(
                case,
                chunk({doc_id: corpus[doc_id]}, "fixed", chunk_size=size, chunk_overlap=size // 2),
                question,
                model,
            )
            for doc_id, _ in ranked[:k]
        ]
    return sources


def generate_references(
    dataset: Dataset,
    sources: Mapping[str, Sequence[Chunk]],
    llm: LLMLike,
    *,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
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
        timeout_s=timeout_s,
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
    timeout_s: float = llms.TIMEOUT_S,
) -> list[Answer]:
    """Generate reference answers and put them into `folder`/answers.jsonl, or into a file .json with
    the form of `ragbench.testsets.ground_truth`.

    Each line records model, prompt and source documents. A line that a person wrote, changed or
    reviewed is kept, always (`ragbench.testsets.writer.is_by_hand`). After an interruption all
    replies so far are in the reply store: nothing is paid for twice.

    Raises:
        ModelError: every request failed.
    """
    path = Path(folder)
    answers = generate_references(
        dataset, sources, llm, concurrency=concurrency, timeout_s=timeout_s
    )
    if answers and all(answer.error is not None for answer in answers):
        raise ModelError(
            f"all of {len(answers)} requests for reference answers failed: {answers[0].error}"
        )
    lines = dict(_reference_lines(dataset, sources, answers))
    if path.suffix == ".json":
        merge_ground_truths(path, dataset, lines)
    else:
        merge_answers(path / "answers.jsonl", lines)
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


def _best_window(case: Case, windows: Sequence[Chunk], question: Any, model: Embedder) -> Chunk:
    near = _nearness(model, question, [window.text for window in windows])
    covered = [
        sum(
            max(0, min(span.end, window.end) - max(span.start, window.start))
            for span in case.evidence
            if span.doc_id == window.doc_id
        )
        for window in windows
    ]
    return windows[max(range(len(windows)), key=lambda i: (covered[i], near[i]))]


def _nearness(model: Embedder, question: Any, texts: Sequence[str]) -> list[float]:
    """Return the cosine of each text with a question, in six decimals."""
    cosines: list[float] = np.round(model.encode(texts) @ question, 6).tolist()
    return cosines
