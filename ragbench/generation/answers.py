"""generate_answers: one answer per question, whoever writes it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from ragbench import llms
from ragbench.errors import ConfigError, DataWarning, unknown
from ragbench.generation.context import context_chunks, cut_to_budget
from ragbench.generation.extractive import extract_answers
from ragbench.generation.replies import read_reply
from ragbench.prompts import GENERATION_SYSTEM, NO_ANSWER, check_prompt, fill
from ragbench.types import Answer, Chunk, Dataset, Embedder, LLMLike, Run

GENERATORS = ("extractive", "env", "anthropic:<model>", "ollama:<model>", "openai:<model>", "gguf:<file>")


def check_llm(llm: LLMLike, settings: llms.Settings | None = None) -> None:
    """Refuse a generator that does not exist or lacks its key, before anything is spent.

    Raises:
        ConfigError: `llm` is neither "extractive" nor a language model that can be used here.
    """
    if not isinstance(llm, str) or llm == "extractive":
        return
    if ":" not in llm and llm != "env":
        raise ConfigError(unknown("llm", llm, GENERATORS))
    llms.check_llm(llm, settings)


def generate_answers(
    dataset: Dataset,
    run: Run,
    chunks: Sequence[Chunk],
    llm: LLMLike = "extractive",
    *,
    prompt: str = "cited",
    k: int = 5,
    max_context_tokens: int | None = None,
    embedder: str | Embedder = "wordllama",
    concurrency: int = 8,
    max_tokens: int = 512,
    temperature: float = 0.0,
) -> list[Answer]:
    """Answer every question of the dataset from the best `k` chunks that were retrieved for it.

    Args:
        dataset: the questions.
        run: chunk-level run, query_id -> chunk_id -> score.
        chunks: the chunks that the run's ids name.
        llm: "extractive", the baseline without a language model (see `ragbench.generation.extractive`), or a language
            model: "anthropic:<model>", "ollama:<model>", "openai:<model>", "gguf:<file>", "env", or an `LLM`.
        prompt: "cited", "concise", "plain", or a text of your own with {question} and {context}; the question and each
            numbered document are put there between tags that they cannot close. The extractive baseline has none.
        k: how many chunks to answer from.
        max_context_tokens: bound of the context, cut at whole chunks (`cut_to_budget`); what was cut is in `cut`.
        embedder: what the extractive baseline compares sentences with; a name or an `Embedder`.
        concurrency: how many requests wait at a time.
        max_tokens: bound of each reply; one that was cut there has the flag "truncated".
        temperature: 0 for the most likely reply.

    Returns:
        One answer per case, in the order of the cases. `outcome` is "success"; "no_results" where the answer says that
        the documents do not hold it (`ragbench.prompts.read_outcome`), or where there was no context, for which no
        request is made; "blocked" where the model refuses; "failed" where the request failed, with the reason in
        `error`. Failures are reported together in one DataWarning. `latency_ms` holds "generate", but not for a reply
        from the cache.

    Raises:
        ConfigError: unknown `llm` or `prompt`, a number out of range.
        DataError: the run names a chunk that is not in `chunks`.
    """
    template = check_prompt(prompt)
    check_llm(llm)
    if max_tokens < 1:
        raise ConfigError(f"max_tokens is {max_tokens}; expected the longest reply in tokens, 1 or more")
    kept, cut = cut_to_budget(context_chunks(dataset, run, chunks, k), max_context_tokens)
    if llm == "extractive":
        extracted = extract_answers(dataset.cases, kept, embedder)
        return [replace(answer, cut=cut.get(answer.query_id, ())) for answer in extracted]

    model = llms.load_llm(llm)
    asked = [case for case in dataset.cases if kept[case.query_id]]
    replies = llms.generate_many(
        model,
        [fill(template, case.text, [chunk.text for chunk in kept[case.query_id]]) for case in asked],
        system=GENERATION_SYSTEM,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        label="answers",
    )
    reply_of = {case.query_id: reply for case, reply in zip(asked, replies, strict=True)}
    answers = []
    for query_id in (case.query_id for case in dataset.cases):
        left_out = cut.get(query_id, ())
        if query_id in reply_of:
            answers.append(read_reply(query_id, reply_of[query_id], kept[query_id], left_out))
        else:
            answers.append(Answer(query_id, NO_ANSWER, outcome="no_results", cut=left_out))
    _warn_of_failures(answers)
    return answers


def _warn_of_failures(answers: Sequence[Answer]) -> None:
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(answers)} answers failed, the first for query {failed[0].query_id!r}: "
            f"{failed[0].error}; run again to ask for these only",
            DataWarning,
            stacklevel=3,
        )
