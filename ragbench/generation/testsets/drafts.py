"""Questions drafted by a language model from chunks, and the checks of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ragbench import cache, llms
from ragbench.embedders import load_embedder
from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.generation.testsets.checks import Words, duplicates, flaw, locate
from ragbench.prompts.generation_prompts import (
    LABELLING_SYSTEM,
    QUESTIONS,
    QUESTIONS_SCHEMA,
    SUPPORT,
    SUPPORT_SCHEMA,
    ask_for_questions,
    ask_for_support,
)
from ragbench.prompts.replies import UnreadableError, json_objects, without_thoughts
from ragbench.types import LLM, Chunk, Completion, Dataset, Embedder, LLMLike, Span

MAX_OVERLAP = 0.5
"""Maximum fraction of a question's word trigrams that its chunk may contain. Of questions by people (SQuAD, CLAPNQ,
PubMedQA) 2 to 6 % have more, of those by a model in the set of Smith & Troynikov 7 %."""

MAX_SIMILARITY = 0.92
"""Cosine (minilm) from which two questions are the same. From SQuAD: at 0.93 they are, at 0.90 not."""

_PER_QUESTION_TOKENS = 300
_CHECK_TOKENS = 250
_TIMEOUT_S = 300.0

_Form = TypeVar("_Form", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its answer and evidence, as a model wrote it about a chunk, and its state.

    `state` is "accepted", or the kind of rejection (`ragbench.generation.testsets.STATES`), explained in `reason`. A
    chunk whose request failed, could not be read or gave no question has one draft with an empty `question`.
    """

    chunk_id: str
    doc_id: str
    question: str = ""
    answer: str = ""
    quote: str = ""
    evidence: Span | None = None
    state: str = "open"
    reason: str = ""
    model: str = ""
    checker: str = ""

    @property
    def query_id(self) -> str:
        """The id that the question has in a test set: the same for the same question about the same document."""
        return f"q-{cache.digest(self.doc_id, self.question)[:12]}"


class _Case(BaseModel):
    quote: str
    question: str
    answer: str


class _Cases(BaseModel):
    cases: list[_Case]


class _Support(BaseModel):
    reason: str = ""
    clear: bool
    supported: bool


def generate_drafts(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    llm: LLMLike,
    *,
    checker: LLMLike | None = None,
    per_chunk: int = 2,
    max_overlap: float = MAX_OVERLAP,
    max_similarity: float = MAX_SIMILARITY,
    embedder: str | Embedder = "minilm",
    concurrency: int = 8,
) -> list[Draft]:
    """Draft `per_chunk` questions about each chunk and check each; in the order of the chunks.

    Free checks come first: form, yes/no questions, questions about "the passage", evidence that is not in the chunk,
    questions that repeat the chunk. Then `checker` (default: `llm` itself) decides whether the question can be
    understood alone and the chunk supports the answer; then duplicates, also of the dataset's own questions, are found.
    The remaining drafts are "accepted".

    Args:
        max_overlap: maximum fraction of a question's word trigrams that its chunk may contain, in [0, 1].
        max_similarity: cosine from which two questions are the same, in [0, 1]; the first one is kept.

    Raises:
        ConfigError: a number out of range.
        ModelError: no request at all succeeded.
    """
    for name, bound in (("max_overlap", max_overlap), ("max_similarity", max_similarity)):
        if not 0 <= bound <= 1:
            raise ConfigError(f"{name} is {bound}; expected a number from 0 to 1")
    if not 1 <= per_chunk <= 10:
        raise ConfigError(f"per_chunk is {per_chunk}; expected 1 to 10 questions per chunk")
    writer = llms.load_llm(llm)
    judge = writer if checker is None else llms.load_llm(checker)
    replies = llms.generate_many(
        writer,
        [ask_for_questions(chunk.text, per_chunk, dataset.corpus[chunk.doc_id].title) for chunk in chunks],
        system=LABELLING_SYSTEM,
        max_tokens=_PER_QUESTION_TOKENS * per_chunk + 100,
        schema=QUESTIONS_SCHEMA,
        concurrency=concurrency,
        timeout_s=_TIMEOUT_S,
        label="questions",
    )
    drafts = [draft for chunk, reply in zip(chunks, replies, strict=True) for draft in _read(chunk, reply, per_chunk)]
    if drafts and all(draft.state == "failed" for draft in drafts):
        raise ModelError(f"none of the requests about {len(chunks)} chunks succeeded: {drafts[0].reason}")
    chunk_of = {chunk.chunk_id: chunk for chunk in chunks}
    words_of = {chunk.chunk_id: Words(chunk.text) for chunk in chunks}
    drafts = [_checked(d, chunk_of[d.chunk_id], words_of[d.chunk_id], dataset, max_overlap) for d in drafts]
    drafts = _supported(drafts, words_of, judge, concurrency)
    model = load_embedder(embedder)
    left = [i for i, draft in enumerate(drafts) if draft.state == "open"]
    twins = duplicates([drafts[i].question for i in left], list(dataset.queries.values()), model, max_similarity)
    for i, twin in zip(left, twins, strict=True):
        drafts[i] = replace(
            drafts[i],
            state="duplicate" if twin else "accepted",
            reason=f"asks the same as {twin!r}" if twin else drafts[i].reason,
        )
    return drafts


def prompts_name() -> str:
    """The prompts of this stage with a digest of their texts, which may change between versions."""
    return f"questions@{cache.digest(QUESTIONS, SUPPORT, LABELLING_SYSTEM)[:8]}"


def _read(chunk: Chunk, reply: Completion, per_chunk: int) -> list[Draft]:
    blank = Draft(chunk.chunk_id, chunk.doc_id, model=reply.model)
    if reply.failure is FailureKind.DRY_RUN:  # at most per_chunk checks follow, on some 60 words each
        unread = replace(blank, answer=llms.STAND_IN * 2, evidence=Span(chunk.doc_id, chunk.start, chunk.end))
        return [replace(unread, question=f"{llms.STAND_IN}{number}?") for number in range(per_chunk)]
    if reply.error is not None or reply.finish == "refusal":
        return [replace(blank, state="failed", reason=reply.error or f"{reply.model} refused")]
    try:
        found = _last(reply, _Cases, "cases").cases[:per_chunk]
    except UnreadableError as problem:
        return [replace(blank, state="unreadable", reason=str(problem))]
    if not found:
        return [replace(blank, state="nothing", reason="the model found nothing worth asking")]
    return [
        replace(blank, question=" ".join(case.question.split()), answer=case.answer.strip(), quote=case.quote.strip())
        for case in found
    ]


def _last(reply: Completion, form: type[_Form], key: str) -> _Form:
    """The last object of a reply that has this key, validated."""
    cut = " (it was cut at max_tokens)" if reply.finish == "length" else ""
    try:
        objects = [found for found in json_objects(without_thoughts(reply.text)) if key in found]
    except UnreadableError as problem:
        raise UnreadableError(f"{problem}{cut}") from problem
    if not objects:
        raise UnreadableError(f"it has no JSON object with {key!r}{cut}")
    try:
        return form.model_validate(objects[-1])
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise UnreadableError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}{cut}") from exc


def _checked(draft: Draft, chunk: Chunk, words: Words, dataset: Dataset, max_overlap: float) -> Draft:
    """The draft after the checks that need no model."""
    if draft.state != "open" or draft.evidence is not None:
        return draft
    if found := flaw(draft.question, draft.answer, draft.quote, words, max_overlap):
        return replace(draft, state=found[0], reason=found[1])
    # A gold span cannot lie in a title: the format of the folder counts characters of the text alone.
    document = dataset.corpus[chunk.doc_id]
    title_end = max(0, len(document.full_text) - len(document.text) - chunk.start)
    if (place := locate(draft.quote, words, title_end)) is None:
        return replace(draft, state="unquoted", reason="the quoted evidence is not in the chunk")
    return replace(draft, evidence=Span(chunk.doc_id, chunk.start + place[0], chunk.start + place[1]))


def _supported(drafts: Sequence[Draft], words_of: dict[str, Words], judge: LLM, concurrency: int) -> list[Draft]:
    asked = [i for i, draft in enumerate(drafts) if draft.state == "open"]
    replies = llms.generate_many(
        judge,
        [ask_for_support(words_of[d.chunk_id].text, d.question, d.answer) for d in (drafts[i] for i in asked)],
        system=LABELLING_SYSTEM,
        max_tokens=_CHECK_TOKENS,
        schema=SUPPORT_SCHEMA,
        concurrency=concurrency,
        timeout_s=_TIMEOUT_S,
        label="checks",
    )
    result = list(drafts)
    for i, reply in zip(asked, replies, strict=True):
        result[i] = replace(drafts[i], checker=reply.model, **_verdict(reply))
    return result


def _verdict(reply: Completion) -> dict[str, Any]:
    if reply.error is not None or reply.finish == "refusal":
        return {"state": "unchecked", "reason": reply.error or f"{reply.model} refused to check"}
    try:
        verdict = _last(reply, _Support, "supported")
    except UnreadableError as problem:
        return {"state": "unchecked", "reason": f"the check could not be read: {problem}"}
    if not verdict.clear:
        return {"state": "vague", "reason": verdict.reason or "cannot be understood without the passage"}
    if not verdict.supported:
        return {"state": "unsupported", "reason": verdict.reason or "the passage does not support the answer"}
    return {"reason": verdict.reason}
