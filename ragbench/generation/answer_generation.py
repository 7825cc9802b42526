"""Answer each question from its best chunks, by a language model or the extractive baseline: how
many chunks, which are cut by a limit of tokens, and what a reply becomes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from ragbench import llms
from ragbench.errors import (
    ConfigError,
    DataError,
    FailureKind,
    unknown,
    unknown_chunk,
    warn_of_flaw,
    warn_user,
)
from ragbench.extension import FORM
from ragbench.generation.citations import parse_citations
from ragbench.generation.extractive import extract_answers
from ragbench.generation.generator_prompts import GENERATION_SYSTEM, check_prompt, fill
from ragbench.language import language_of
from ragbench.llms.reply_text import NO_ANSWER, read_outcome, without_thoughts
from ragbench.text import count_tokens
from ragbench.types import (
    RETRIEVAL_ONLY,
    Answer,
    Chunk,
    Completion,
    Dataset,
    Embedder,
    LLMLike,
    Run,
    chunk_places,
)


def context_chunks(
    dataset: Dataset, run: Run, chunks: Sequence[Chunk], k: int
) -> dict[str, list[Chunk]]:
    """Return query_id -> the best `k` chunks of a chunk-level run, best first, for every case of
    the dataset.

    Equal scores keep the order of `chunks`. A case that the run lacks has an empty list.

    Raises:
        ConfigError: `k` is below 1.
        DataError: the run names a chunk that is not in `chunks`.
    """
    if k < 1:
        raise ConfigError(f"k is {k}; expected the number of chunks to answer from, 1 or more")
    place_of = chunk_places(chunks)  # chunk_id -> its position in `chunks`
    best = {}
    for query_id in dataset.queries:
        ranked = []
        for chunk_id, score in run.get(query_id, {}).items():
            if chunk_id not in place_of:
                raise DataError(unknown_chunk(chunk_id, query_id, len(place_of)))
            ranked.append((-score, place_of[chunk_id]))  # best first, equal scores by place
        ranked.sort()
        best[query_id] = [chunks[place] for _, place in ranked[:k]]
    return best


class CutContexts(NamedTuple):
    """By query_id: the chunks that fit into the budget, and the ids of those that were cut off."""

    kept: dict[str, list[Chunk]]
    cut: dict[str, tuple[str, ...]]


def cut_to_budget(
    contexts: Mapping[str, Sequence[Chunk]], max_context_tokens: int | None
) -> CutContexts:
    """Cut the contexts of each question to a number of tokens; without a limit (None) every chunk
    is kept, and `cut` is {}. `contexts` maps each query to its chunks, best first.

    The best-ranked chunks that fit together are kept: the first chunk that does not fit ends the
    context, even if a later, shorter one would fit, so that the context is always the top of the
    ranking. For every model, tokens are counted by the "minilm" tokenizer, as in the measures at a
    context budget; the numbers and tags around the chunks are not counted.

    Raises:
        ConfigError: the budget is below 1.
    """
    if max_context_tokens is None:
        everything = {query_id: list(ranked) for query_id, ranked in contexts.items()}
        return CutContexts(everything, cut={})
    if max_context_tokens < 1:
        raise ConfigError(
            f"max_context_tokens is {max_context_tokens}; expected 1 or more, or None for no limit"
        )
    n_tokens = _n_tokens_of_chunks(contexts)  # chunk_id -> its number of tokens
    kept = {}
    cut = {}
    emptied = []  # questions that have chunks, of which none fits
    for query_id, ranked in contexts.items():
        # tokens of the first chunk, of the first two, of the first three, ...
        totals = accumulate(n_tokens[chunk.chunk_id] for chunk in ranked)
        n_fitting = sum(total <= max_context_tokens for total in totals)
        kept[query_id] = list(ranked[:n_fitting])
        cut[query_id] = tuple(chunk.chunk_id for chunk in ranked[n_fitting:])
        if ranked and not n_fitting:
            emptied.append(query_id)
    warn_of_flaw(
        "answers",
        f"questions are without any context at max_context_tokens={max_context_tokens}: their best "
        "chunk alone is longer; use smaller chunks or more tokens",
        emptied,
    )
    return CutContexts(kept, cut)


def _n_tokens_of_chunks(contexts: Mapping[str, Sequence[Chunk]]) -> dict[str, int]:
    """Return chunk_id -> number of tokens for the chunks of all questions; each is counted once."""
    text_of: dict[str, str] = {}
    for ranked in contexts.values():
        text_of |= {chunk.chunk_id: chunk.text for chunk in ranked}
    return dict(zip(text_of, count_tokens(list(text_of.values())), strict=True))


GENERATORS = (
    "extractive",
    llms.NO_ANSWERS,
    "env",
    "anthropic:<model>",
    "ollama:<model>",
    "openai:<model>",
)


def check_llm(llm: LLMLike) -> None:
    """Check that a generator exists and has its key, before anything is spent.

    Raises:
        ConfigError: `llm` is neither "extractive", nor "none", nor a usable language model.
    """
    if not isinstance(llm, str) or llm in llms.NO_MODEL:
        return
    if ":" not in llm and llm != "env":
        known = ", ".join([*GENERATORS, FORM])
        raise ConfigError(unknown("llm", llm, GENERATORS, known) + llms.provider_hint(llm))
    llms.check_llm(llm)


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
    timeout_s: float = llms.TIMEOUT_S,
    max_tokens: int = 512,
    temperature: float = 0.0,
) -> list[Answer]:
    """Answer every question of the dataset from the best `k` chunks that were retrieved for it.

    Args:
        dataset: the questions.
        run: chunk-level run, query_id -> chunk_id -> score.
        chunks: the chunks that the run's ids name.
        llm: "extractive", the baseline without a language model (see
            `ragbench.generation.extractive`); "none", which writes nothing: retrieval alone; or a
            language model: "anthropic:<model>", "ollama:<model>", "openai:<model>", "env", or an
            `LLM`.
        prompt: "cited", "concise", "plain", or your own text with {question} and {context};
            the question and each numbered document are inserted between tags that they cannot
            close. The extractive baseline uses none.
        k: number of chunks to answer from.
        max_context_tokens: maximum length of the context; chunks beyond it (`cut_to_budget`) are
            listed in `cut`.
        embedder: the embedder with which the extractive baseline compares sentences; a name or an
            `Embedder`.
        concurrency, timeout_s: as in `generate_many`: the maximum number of requests at a time, and
            the seconds that a reply may take.
        max_tokens: maximum length of each reply; an answer that was cut has the flag "truncated".
        temperature: 0 for the most likely reply.

    Returns:
        One answer per case, in the order of the cases. Its `outcome` is "success"; "no_results" if
        the text states that the documents do not contain the answer
        (`ragbench.llms.reply_text.read_outcome`), or if there is no context, for which no request
        is made; "blocked" if the model refuses; "failed" if the request failed, with the reason in
        `error`. With the `llm` "none" an answer holds its contexts alone, without a text or an
        outcome, and has the flag "retrieval_only". Failures are reported together in one
        DataWarning. `latency_ms` holds "generate", but not for a reply from the cache.

    Raises:
        ConfigError: `llm` or `prompt` is unknown, or a number is out of range.
        DataError: the run names a chunk that is not in `chunks`.
    """
    from ragbench.llms.stored_llm import StoredLLM  # only where a language model is asked

    template = check_prompt(prompt)
    check_llm(llm)
    kept, cut = cut_to_budget(context_chunks(dataset, run, chunks, k), max_context_tokens)
    if llm == llms.NO_ANSWERS:
        return _retrieval_only_answers(kept, cut)
    if llm == "extractive":
        extracted = extract_answers(
            dataset.cases, kept, embedder, language=language_of(chunks).code
        )
        return [replace(answer, cut=cut.get(answer.query_id, ())) for answer in extracted]

    prompts = {}  # of the questions with a context
    for case in dataset.cases:
        texts = [chunk.text for chunk in kept[case.query_id]]
        if texts:
            prompts[case.query_id] = fill(template, case.text, texts)
    model = llms.load_llm(llm)
    completions = llms.generate_many(
        model,
        list(prompts.values()),
        system=GENERATION_SYSTEM,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        timeout_s=timeout_s,
        label="answers",
    )
    reply_to = dict(zip(prompts, completions, strict=True))  # query_id -> the reply
    answers = []
    for query_id, contexts in kept.items():
        cut_ids = cut.get(query_id, ())
        if query_id in reply_to:
            answers.append(read_reply(query_id, reply_to[query_id], contexts, cut_ids))
        else:  # nothing was retrieved, or nothing fits
            answers.append(Answer(query_id, NO_ANSWER, outcome="no_results", cut=cut_ids))
    _warn_of_failures(answers, has_stored=isinstance(model, StoredLLM))
    return answers


def _retrieval_only_answers(
    contexts: Mapping[str, Sequence[Chunk]], cut: Mapping[str, tuple[str, ...]]
) -> list[Answer]:
    """Return an answer without a text for each question.

    Args:
        contexts: query_id -> the chunks that fit into the context.
        cut: query_id -> the ids of those that did not.
    """
    answers = []
    for query_id, ranked in contexts.items():
        ids = tuple(chunk.chunk_id for chunk in ranked)
        cut_ids = cut.get(query_id, ())
        answers.append(Answer(query_id, "", ids, flags=(RETRIEVAL_ONLY,), cut=cut_ids))
    return answers


def _warn_of_failures(answers: Sequence[Answer], *, has_stored: bool) -> None:
    """Warn once of all answers whose requests failed; `has_stored` tells whether replies of the model
    are stored, so that running again requests only the failed ones.
    """
    failed = [answer for answer in answers if answer.error is not None]
    if not failed:
        return
    way_out = "run again to request only these"
    if not has_stored:
        way_out = "replies of your own model are not stored, so running again requests all"
    warn_user(
        f"{len(failed)} of {len(answers)} answers failed, the first for "
        f"query {failed[0].query_id!r}: {failed[0].error}; {way_out}"
    )


def read_reply(
    query_id: str, completion: Completion, contexts: Sequence[Chunk], cut: tuple[str, ...] = ()
) -> Answer:
    """Turn a model's reply to a question into an answer.

    A failed request and an empty reply give the outcome "failed" with a reason in `error`; a
    provider's refusal gives "blocked"; for other replies the text decides (`read_outcome`). A reply
    that was cut at max_tokens has the flag "truncated". A reply from the store has no latency.

    Args:
        query_id: the question.
        completion: the reply, or the error in place of it.
        contexts: the chunks in the request; a citation [1] means the first one.
        cut: ids of the chunks that did not fit into the request.
    """
    ids = tuple(chunk.chunk_id for chunk in contexts)
    text = without_thoughts(completion.text)
    # the answer if there is no readable text
    answer = Answer(query_id, "", ids, outcome="failed", usage=completion, cut=cut)
    if completion.error is not None:
        return replace(answer, error=completion.error, failure=completion.failure)
    is_refusal = completion.finish == "refusal"
    if not text and not is_refusal:
        thought = " after thinking" if completion.text.strip() else ""
        error = f"{completion.model} replied with nothing{thought} (finish: {completion.finish})"
        return replace(answer, error=error, failure=FailureKind.EMPTY)
    outcome = "blocked" if is_refusal else read_outcome(text)
    return replace(
        answer,
        text=text,
        citations=parse_citations(text, ids) if outcome == "success" else (),
        flags=("truncated",) if completion.finish == "length" else (),
        outcome=outcome,
        latency_ms={} if completion.cached else {"generate": completion.latency_s * 1000},
    )
