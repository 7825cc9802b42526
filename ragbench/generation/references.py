"""Reference answers by a model from a dataset's most relevant documents: which passages it gets; an
answer that a person wrote is never replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import llms, store
from ragbench.errors import ConfigError, DataError, FailureKind, ModelError, check_known
from ragbench.generation.answer_generation import read_reply
from ragbench.generation.generator_prompts import GENERATION_SYSTEM, REFERENCE, fill
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.embedders import load_embedder
from ragbench.testsets.ground_truth import merge_ground_truths
from ragbench.testsets.reference_answers import generated_label, merge_answers, reference_origin
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
    """Return the queries to write a reference answer for, in the order of the dataset.

    Unanswerable queries and queries without a relevant document in the corpus are always left out.

    Args:
        query_ids: only these queries; empty means all.
        limit: only the first N of them; 0 means all.
        written_by: origins of the present reference answer to include: "none" (no answer yet),
            "model", "person".

    Raises:
        ConfigError: an id is unknown.
    """
    check_known("query", dataset.queries, *query_ids)
    chosen = []
    for case in dataset.cases:
        if query_ids and case.query_id not in query_ids:
            continue
        if case.expected_outcome == "no_results" or reference_origin(case) not in written_by:
            continue
        if _relevant_documents(dataset, case):
            chosen.append(case.query_id)
    return chosen[:limit] if limit else chosen


def reference_sources(
    dataset: Dataset,
    query_ids: Sequence[str],
    *,
    k: int = 5,
    max_document_tokens: int = 1000,
) -> dict[str, list[Chunk]]:
    """Return the passages to write each query's reference answer from, best first.

    They are taken from at most `k` relevant documents: the highest grade first, among equal grades
    the document closer to the question (cosine of wordllama, six decimals), then the one earlier in
    the corpus. A document with more than `max_document_tokens` (of the "minilm" tokenizer) is
    reduced to one window of that size: the window with most of the query's gold evidence, then the
    closest to the question, then the first.

    Returns:
        query_id -> chunks; `start` and `end` are the window, or the whole of a short document.

    Raises:
        ConfigError: a number is below 1.
    """
    size = max_document_tokens
    if k < 1 or size < 1:
        raise ConfigError(f"k is {k} and max_document_tokens is {size}; expected 1 or more of each")
    model = load_embedder("wordllama")
    place_of = {doc_id: place for place, doc_id in enumerate(dataset.corpus)}
    cases = [case for case in dataset.cases if case.query_id in {*query_ids}]
    question_vectors = model.encode([case.text for case in cases])
    sources = {}
    for case, question_vector in zip(cases, question_vectors, strict=True):
        # by grade, then by closeness to the question
        best_first = _rank_relevant_documents(dataset, case, question_vector, model, place_of)
        passages = []
        for doc_id in best_first[:k]:
            document = {doc_id: dataset.corpus[doc_id]}
            windows = chunk(document, "fixed", chunk_size=size, chunk_overlap=size // 2)
            passages.append(_best_window(case, windows, question_vector, model))
        sources[case.query_id] = passages
    return sources


def _rank_relevant_documents(
    dataset: Dataset,
    case: Case,
    question_vector: Any,
    model: Embedder,
    place_of: Mapping[str, int],
) -> list[str]:
    """Return the relevant documents of a case: the highest grade first, then the closest to the question,
    then by their place in the corpus (doc_id -> place).
    """
    grade_of = _relevant_documents(dataset, case)
    texts = [dataset.corpus[doc_id].full_text for doc_id in grade_of]
    cosines = _cosines(model, question_vector, texts)  # of each document with the question
    sort_keys = []
    for (doc_id, grade), cosine in zip(grade_of.items(), cosines, strict=True):
        sort_keys.append((-grade, -cosine, place_of[doc_id], doc_id))
    return [doc_id for *_, doc_id in sorted(sort_keys)]


def generate_references(
    dataset: Dataset,
    sources: Mapping[str, Sequence[Chunk]],
    llm: LLMLike,
    *,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> list[Answer]:
    """Have a model write the reference answer to each query of `sources`; return the answers in this
    order.

    `sources` maps each query to the passages that the model reads (see `reference_sources`). The
    outcome is "success"; "no_results" if the documents do not contain the answer; "blocked" if the model
    refuses to answer; "failed" if the request failed, or the reply was empty or cut.

    Raises:
        DataError: a query is not in the dataset.
    """
    questions = dataset.queries
    prompts = []
    for query_id, passages in sources.items():
        if query_id not in questions:
            raise DataError(f"sources contain query {query_id!r}, which is not in {dataset!r}")
        texts = [passage.text for passage in passages]
        prompts.append(fill(REFERENCE, questions[query_id], texts))
    replies = llms.generate_many(
        llms.load_llm(llm),
        prompts,
        system=GENERATION_SYSTEM,
        max_tokens=MAX_TOKENS,
        concurrency=concurrency,
        timeout_s=timeout_s,
        label="reference answers",
    )
    answers = []
    for (query_id, passages), reply in zip(sources.items(), replies, strict=True):
        answer = read_reply(query_id, reply, passages)
        if "truncated" in answer.flags:  # half an answer is no reference
            why = (
                f"{reply.model} did not finish its one to four sentences within {MAX_TOKENS} "
                "tokens; name a more capable model"
            )
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
    """Generate reference answers, put them into `folder`/answers.jsonl, or into a .json file in the
    form of `ragbench.testsets.ground_truth`, and return them.

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
    lines = _reference_lines(dataset, sources, answers)
    if path.suffix == ".json":
        merge_ground_truths(path, dataset, lines)
    else:
        merge_answers(path / "answers.jsonl", lines)
    return answers


def _reference_lines(
    dataset: Dataset, sources: Mapping[str, Sequence[Chunk]], answers: Sequence[Answer]
) -> dict[str, dict[str, Any]]:
    """Return query_id -> the fields of its line in answers.jsonl, for each successful answer;
    placeholders of a dry run are left out.
    """
    # the prompt's name with a digest of its words, so that a change of the words is seen
    prompt = f"reference@{store.digest(REFERENCE, GENERATION_SYSTEM)[:8]}"
    lines = {}
    for answer in answers:
        usage = answer.usage
        if answer.outcome != "success" or usage is None or usage.failure is FailureKind.DRY_RUN:
            continue
        grades = dataset.qrels[answer.query_id]
        passages = []
        for passage in sources[answer.query_id]:
            place = {"doc_id": passage.doc_id, "start": passage.start, "end": passage.end}
            passages.append({**place, "grade": grades.get(passage.doc_id)})
        label = generated_label(answer.text, model=usage.model, prompt=prompt, sources=passages)
        lines[answer.query_id] = {"answer": answer.text, "generated": label}
    return lines


def _relevant_documents(dataset: Dataset, case: Case) -> dict[str, int]:
    """Return doc_id -> grade for the relevant documents of a case that have a text."""
    grades = dataset.qrels.get(case.query_id, {})
    relevant = {}
    for doc_id, grade in grades.items():
        document = dataset.corpus.get(doc_id)
        if grade >= 1 and document is not None and document.full_text.strip():
            relevant[doc_id] = grade
    return relevant


def _best_window(case: Case, windows: Sequence[Chunk], question: Any, model: Embedder) -> Chunk:
    """Return the window with most characters of gold evidence; of equal windows the closest to the
    question (a vector), then the first.
    """
    cosines = _cosines(model, question, [window.text for window in windows])
    n_characters = [_n_evidence_characters(case, window) for window in windows]
    best = max(range(len(windows)), key=lambda i: (n_characters[i], cosines[i]))
    return windows[best]


def _n_evidence_characters(case: Case, window: Chunk) -> int:
    """Return the number of characters of a case's evidence that are in a window of a document."""
    total = 0
    for span in case.evidence:
        if span.doc_id == window.doc_id:
            # negative if they do not overlap
            n_shared = min(span.end, window.end) - max(span.start, window.start)
            total += max(0, n_shared)
    return total


def _cosines(model: Embedder, question: Any, texts: Sequence[str]) -> list[float]:
    """Return the cosine of each text with a question (a vector), in six decimals."""
    cosines: list[float] = np.round(model.encode(texts) @ question, 6).tolist()
    return cosines
