"""Draft questions from chunks by a language model: which flaws and checks reject a draft, when two
drafts ask the same, and the test set of those that are accepted.
"""

import datetime
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, ValidationError

from ragbench import llms, store
from ragbench.datasets.passages import NOWHERE, Texts
from ragbench.datasets.raw_records import testset_record
from ragbench.errors import ConfigError, DataError, FailureKind, ModelError
from ragbench.files import expanded
from ragbench.generation.chunk_sample import sample_chunks
from ragbench.generation.generator_prompts import (
    LABELLING_SYSTEM,
    QUESTIONS,
    SUPPORT,
    ask_for_questions,
    ask_for_support,
)
from ragbench.hints.attributes import suggesting
from ragbench.language import terms
from ragbench.llms.reply_json import UnreadableError, json_spans
from ragbench.llms.reply_text import plain_schema, without_thoughts
from ragbench.retrieval.embedders import load_embedder
from ragbench.testsets.reference_answers import generated_label
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Chunk, Completion, Dataset, Document, Embedder, LLMLike, Span

# English only; in other languages the prompt and the check by a model must suffice.
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|can|could|has|have|had"
    r"|will|would|shall|should|may|might|must)(?:n't|n’t)?"
)
_BEGINS_YES_NO = re.compile(
    rf"(?:^|[,:;]\s*(?:and|or|then|but)?\s*){_AUXILIARY}\s+\w", re.IGNORECASE
)
_WH = re.compile(
    r"\b(?:what|which|who|whom|whose|when|where|why|how)\b|^(?:name|list|describe|explain)\b",
    re.IGNORECASE,
)
_YES_NO_ANSWER = re.compile(
    r"^\W*(?:yes|no)\b(?=\W|$)(?!\s+(?:one|longer|more|other)\b)", re.IGNORECASE
)
_REFERS_TO_PASSAGE = re.compile(
    r"\b(?:according to|in|from|by|does|of|as per|based on|mentioned in|described in)\s+"
    r"(?:the|this|these|that)\s+(?:given\s+|above\s+|provided\s+|following\s+)?"
    r"(?:passage|text|excerpt|section|chunk|paragraph|snippet|extract|context|document)s?\b"
    r"|\bthe\s+(?:given|above|provided|following)\s+(?:passage|text|excerpt|section|paragraph|document|example|table)\b"
    r"|\b(?:mentioned|described|shown|listed|discussed)\s+(?:above|below|here)\b",
    re.IGNORECASE,
)

_FORM_OF_REQUEST = re.compile(r"<[^<>]*>")


class CheckOutcome(NamedTuple):
    """The state of a draft after a check (a key of `STATES`), and the reason, for people."""

    state: str
    reason: str


def flaw(draft: "Draft", passage: str, max_overlap: float) -> CheckOutcome | None:
    """Return the first flaw of a draft that is found without a model; None for a draft without one.

    Args:
        draft: the question, its answer and quote.
        passage: the text of the chunk about which it was asked.
        max_overlap: maximum fraction of the question's word trigrams that the passage may contain.
    """
    question = draft.question
    parts = {"question": question, "answer": draft.answer, "quote": draft.quote}
    missing = [name for name, text in parts.items() if not text.strip()]
    if missing:
        return CheckOutcome("incomplete", f"it has no {' and no '.join(missing)}")
    # a placeholder of the request, such as "<question>", that the model has copied
    if _FORM_OF_REQUEST.fullmatch(question.strip()):
        reason = f"its question, {question!r}, repeats the form of the request"
        return CheckOutcome("incomplete", reason)
    if is_yes_no(question, draft.answer):
        return CheckOutcome("yes_no", "it can be answered by yes or no")
    reference = _REFERS_TO_PASSAGE.search(question)
    if reference is not None:
        return CheckOutcome("vague", f"it refers to the passage: {reference[0]!r}")
    fraction = overlap(question, passage)
    if fraction > max_overlap:
        reason = f"{fraction:.0%} of its word trigrams are in the chunk; the maximum is {max_overlap:.0%}"
        return CheckOutcome("quotes_chunk", reason)
    return None


def is_yes_no(question: str, answer: str) -> bool:
    """Return True if a question can be answered by yes or no, by its English wording.

    >>> is_yes_no("Does a tuple compare by identity?", "It compares its items.")
    True
    >>> is_yes_no("In Python, can a set hold a list?", "Its items must be hashable.")
    True
    >>> is_yes_no("What is, and does, a context manager?", "It sets up and tears down.")
    False
    """
    if _YES_NO_ANSWER.match(answer):
        return True
    return bool(_BEGINS_YES_NO.search(question)) and not _WH.search(question)


def overlap(question: str, passage: str) -> float:
    """Return the fraction of a question's word trigrams that a passage contains, in [0, 1]; 0 for a
    shorter question.

    >>> overlap("Which cat sat on the mat?", "The cat sat on the mat.")
    0.75
    """
    trigrams = _trigrams(question)
    if not trigrams:
        return 0.0
    of_passage = set(_trigrams(passage))
    n_repeated = sum(trigram in of_passage for trigram in trigrams)
    return n_repeated / len(trigrams)


def duplicates(
    questions: Sequence[str], known: Sequence[str], embedder: Embedder
) -> list[str | None]:
    """Find the questions that were asked before: return for each question the one that it repeats, or
    None if it is new.

    A question may repeat one of `known`, or an earlier one of `questions` that is itself new. Two
    questions are the same if the cosine of their vectors is `MAX_SIMILARITY` or more.
    """
    if not questions:
        return []
    texts = [*known, *questions]
    # (texts, dimensions), of length 1; rounded, as the last digits depend on the machine
    vectors = np.round(embedder.encode(texts), 6)
    distinct = list(range(len(known)))  # the numbers of the texts that have no twin before them
    twins: list[str | None] = []
    for i in range(len(known), len(texts)):
        cosines = np.round(vectors[distinct] @ vectors[i], 6)
        if cosines.max(initial=0.0) >= MAX_SIMILARITY:  # 0 if there is no text before it
            nearest = distinct[int(cosines.argmax())]
            twins.append(texts[nearest])
        else:
            twins.append(None)
            distinct.append(i)
    return twins


def _trigrams(text: str) -> list[tuple[str, str, str]]:
    text_terms = terms(text)
    return list(zip(text_terms, text_terms[1:], text_terms[2:], strict=False))


MAX_OVERLAP = 0.5
"""Maximum fraction of a question's word trigrams that its chunk may contain. 2 to 6 % of questions by
people (SQuAD, CLAPNQ, PubMedQA) have more, and 7 % of questions by a model (Smith & Troynikov)."""

MAX_SIMILARITY = 0.92
"""Questions with this cosine (minilm) or more are the same. From SQuAD: at 0.93 they are, at 0.90 not.
"""

_ROUNDS = 5  # of further chunks in place of rejected drafts
_PER_QUESTION_TOKENS = 300
_CHECK_TOKENS = 250

_Form = TypeVar("_Form", bound=BaseModel)


@suggesting()
@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its answer and evidence, which a model wrote about a chunk, and its state.

    `state` is "open" before the checks, then "accepted" or the kind of rejection
    (`ragbench.generation.STATES`), explained in `reason`. A chunk has one draft with an empty
    `question` if its request failed, or its reply could not be read or has no question.
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
        """Return the id of the question in a test set, which depends on question and document alone."""
        return f"q-{store.digest(self.doc_id, self.question)[:12]}"


# The order of the fields is the order in which a model writes them: evidence before question,
# reason before verdict.
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
    embedder: str | Embedder = "minilm",
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> list[Draft]:
    """Draft `per_chunk` questions about each chunk, check every draft, and return all drafts, also the
    rejected ones, in the order of the chunks.

    Free checks come first: form, yes/no questions, questions about "the passage", evidence that is
    not in the chunk, questions that repeat the chunk. Then `checker` (default: `llm` itself)
    decides whether the question can be understood alone and the chunk supports the answer; then
    duplicates, also of the dataset's own questions, are found. The remaining drafts are "accepted".

    Args:
        max_overlap: maximum fraction of a question's word trigrams that its chunk may contain, in
            [0, 1].

    Raises:
        ConfigError: a number is out of range.
        ModelError: every request about the chunks failed.
    """
    if not 0 <= max_overlap <= 1:
        raise ConfigError(f"max_overlap is {max_overlap}; expected a number from 0 to 1")
    _check_per_chunk(per_chunk)
    ask = partial(
        llms.generate_many,
        system=LABELLING_SYSTEM,
        concurrency=concurrency,
        timeout_s=timeout_s,
    )
    writer = llms.load_llm(llm)
    prompts = []
    for chunk in chunks:
        title = dataset.corpus[chunk.doc_id].title
        prompts.append(ask_for_questions(chunk.text, per_chunk, title))
    replies = ask(
        writer,
        prompts,
        max_tokens=_PER_QUESTION_TOKENS * per_chunk + 100,
        schema=plain_schema(_Cases),
        label="questions",
    )
    drafts: list[Draft] = []
    for chunk, reply in zip(chunks, replies, strict=True):
        for draft in _drafts_of_reply(chunk, reply, per_chunk):
            drafts.append(_check_formally(draft, chunk, max_overlap))
    if drafts and all(draft.state == "failed" for draft in drafts):
        raise ModelError(
            f"none of the requests about {len(chunks)} chunks succeeded: {drafts[0].reason}"
        )
    checking_model = writer if checker is None else llms.load_llm(checker)
    text_of = {chunk.chunk_id: chunk.text for chunk in chunks}
    drafts = _check_by_model(drafts, text_of, partial(ask, checking_model))
    return _mark_duplicates(drafts, list(dataset.queries.values()), load_embedder(embedder))


def _check_by_model(
    drafts: Sequence[Draft],
    text_of: Mapping[str, str],
    ask_checker: Callable[..., Sequence[Completion]],
) -> list[Draft]:
    """Let a model check the open drafts, and return all drafts in their order. A checked draft gets a new
    state and a reason; the others are unchanged.

    The model decides whether a question is clear without its chunk, and whether the chunk supports the
    answer.

    Args:
        drafts: the drafts in any state; those in the state "open" are checked.
        text_of: chunk_id -> text.
        ask_checker: sends prompts to the model; takes the options of `generate_many`.
    """
    places = [i for i, draft in enumerate(drafts) if draft.state == "open"]
    prompts = []
    for i in places:
        passage = text_of[drafts[i].chunk_id]
        prompts.append(ask_for_support(passage, drafts[i].question, drafts[i].answer))
    replies = ask_checker(
        prompts, max_tokens=_CHECK_TOKENS, schema=plain_schema(_Support), label="checks"
    )
    checked = list(drafts)
    for i, reply in zip(places, replies, strict=True):
        state, reason = _outcome_of_check(reply)
        checked[i] = replace(drafts[i], state=state, reason=reason, checker=reply.model)
    return checked


def _mark_duplicates(
    drafts: Sequence[Draft], known_questions: Sequence[str], embedder: Embedder
) -> list[Draft]:
    """Return the drafts; an accepted one that asks the same as a known question, or as an accepted one
    before it, becomes a "duplicate".
    """
    accepted = [i for i, draft in enumerate(drafts) if draft.state == "accepted"]
    twins = duplicates([drafts[i].question for i in accepted], known_questions, embedder)
    marked = list(drafts)
    for i, twin in zip(accepted, twins, strict=True):
        if twin:
            reason = f"asks the same as {twin!r}"
            marked[i] = replace(drafts[i], state="duplicate", reason=reason)
    return marked


def draft_questions(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    n: int,
    llm: LLMLike,
    *,
    how: str = "random",
    seed: int = 0,
    per_chunk: int = 2,
    **options: Any,
) -> list[Draft]:
    """Draft questions until `n` are accepted, and return all drafts, also the rejected ones.

    For drafts that were rejected, a further round uses further chunks, up to five rounds. Accepted
    drafts beyond `n` get the state "surplus". Fewer than `n` are accepted if the chunks or the
    rounds are used up.

    Args:
        chunks: the chunks to choose from; `how` and `seed` as in `sample_chunks`.
        per_chunk: questions to ask for per chunk.
        options: as for `generate_drafts`.

    Raises:
        ConfigError, DataError, ModelError: as `sample_chunks` and `generate_drafts`.
    """
    _check_per_chunk(per_chunk)
    drafts: list[Draft] = []
    cases = list(dataset.cases)  # and the accepted questions, which must not be asked twice
    n_used_chunks = 0
    n_accepted = 0
    for _ in range(_ROUNDS):
        n_more = math.ceil((n - n_accepted) / per_chunk)  # chunks, if every draft were accepted
        # a larger sample begins with the smaller one, which was used in earlier rounds
        larger_sample = sample_chunks(dataset, chunks, n_used_chunks + n_more, how, seed=seed)
        new_chunks = larger_sample[n_used_chunks:]
        if not new_chunks:
            break
        known = replace(dataset, cases=tuple(cases))
        for draft in generate_drafts(known, new_chunks, llm, per_chunk=per_chunk, **options):
            if draft.state == "accepted":
                n_accepted += 1
                cases.append(Case(draft.query_id, draft.question))
                if n_accepted > n:
                    draft = replace(draft, state="surplus", reason=STATES["surplus"])
            drafts.append(draft)
        n_used_chunks += len(new_chunks)
        if n_accepted >= n:
            break
    return drafts


def _check_per_chunk(per_chunk: int) -> None:
    """Raise ConfigError unless the number of questions per chunk is from 1 to 10."""
    if not 1 <= per_chunk <= 10:
        raise ConfigError(f"per_chunk is {per_chunk}; expected 1 to 10 questions per chunk")


def prompts_name() -> str:
    """Return the prompts of this stage with a digest of their texts, which may change between versions."""
    return f"questions@{store.digest(QUESTIONS, SUPPORT, LABELLING_SYSTEM)[:8]}"


def _drafts_of_reply(chunk: Chunk, reply: Completion, per_chunk: int) -> list[Draft]:
    """Return the drafted questions in a reply about a chunk.

    If there are none, return one draft without a question whose `state` tells why: "failed" (the
    request), "unreadable" (the reply), or "nothing" (the model found nothing to ask). In a dry run,
    return placeholders, so that the requests for their checks are counted.
    """
    blank = Draft(chunk.chunk_id, chunk.doc_id, model=reply.model)
    if reply.failure is FailureKind.DRY_RUN:
        return _placeholders(blank, Span(chunk.doc_id, chunk.start, chunk.end), per_chunk)
    try:
        cases = _last_object(reply, _Cases, "cases").cases
    except ModelError as problem:
        return [replace(blank, state="failed", reason=str(problem))]
    except UnreadableError as problem:
        cases = _finished_cases(reply)  # some may be complete if the reply was cut at its maximum
        if not cases:
            return [replace(blank, state="unreadable", reason=str(problem))]
    if not cases:
        return [replace(blank, state="nothing", reason="the model found nothing worth asking")]
    drafts = []
    for case in cases[:per_chunk]:
        question = " ".join(case.question.split())
        draft = replace(
            blank, question=question, answer=case.answer.strip(), quote=case.quote.strip()
        )
        drafts.append(draft)
    return drafts


def _placeholders(blank: Draft, evidence: Span, n: int) -> list[Draft]:
    """Return `n` drafts of a dry run, with texts about as long as a model writes them."""
    answer = llms.STAND_IN * 2  # an answer is about twice as long as a question
    questions = [f"{llms.STAND_IN}{number}?" for number in range(n)]
    return [replace(blank, question=q, answer=answer, evidence=evidence) for q in questions]


def _finished_cases(reply: Completion) -> list[_Case]:
    """Return the questions that a reply holds in full before it was cut at max_tokens; [] for a reply that
    was not cut.

    `{"cases": [{"question": "Who?", ...}, {"question": "Wh` -> the first one
    """
    cases: list[_Case] = []
    if reply.finish != "length":
        return cases
    list_of_cases = without_thoughts(reply.text).partition('"cases"')[2]  # the text after this word
    # `json_spans` yields one object after the other, and raises at the last one, which was cut
    with suppress(UnreadableError, ValidationError):
        for record, _, _ in json_spans(list_of_cases):
            cases.append(_Case.model_validate(record))
    return cases


def _last_object(reply: Completion, form: type[_Form], key: str) -> _Form:
    """Return the last JSON object of a reply that has this key, validated.

    Raises:
        ModelError: the request failed, or the model refused.
        UnreadableError: the reply has no such object, or the object has another form.
    """
    if reply.error is not None or reply.finish == "refusal":
        raise ModelError(reply.error or f"{reply.model} refused")
    cut = " (it was cut at max_tokens)" if reply.finish == "length" else ""
    try:
        spans = json_spans(without_thoughts(reply.text))
        objects = [record for record, _, _ in spans if key in record]
    except ValueError as exc:
        raise UnreadableError(f"{exc}{cut}") from exc
    if not objects:
        raise UnreadableError(f"it has no JSON object with {key!r}{cut}")
    try:
        return form.model_validate(objects[-1])
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UnreadableError(f"{place}: {first['msg']}{cut}") from exc


def _check_formally(draft: Draft, chunk: Chunk, max_overlap: float) -> Draft:
    """Check a draft as far as this needs no model.

    A draft that passes gets its evidence: the place of its quote in the document. One that fails gets a
    state that names its flaw. Drafts that are not open are returned as they are.
    """
    is_placeholder = draft.evidence is not None  # of a dry run
    if draft.state != "open" or is_placeholder:
        return draft
    first_flaw = flaw(draft, chunk.text, max_overlap)
    if first_flaw is not None:
        return replace(draft, state=first_flaw.state, reason=first_flaw.reason)
    # the quote is searched for in the chunk alone, as if it were the only document
    place = Texts({"": Document("", chunk.text)}).find(draft.quote)
    if place == NOWHERE:
        return replace(draft, state="unquoted", reason=STATES["unquoted"])
    in_chunk = place.holders[0]  # start and end count from the start of the chunk
    evidence = Span(chunk.doc_id, chunk.start + in_chunk.start, chunk.start + in_chunk.end)
    return replace(draft, evidence=evidence)


def _outcome_of_check(reply: Completion) -> CheckOutcome:
    """Read a model's check of a draft: "accepted", "vague" if its question cannot be understood
    alone, "unsupported" if the chunk does not support its answer, "unchecked" without a readable
    reply.
    """
    try:
        verdict = _last_object(reply, _Support, "supported")
    except (ModelError, UnreadableError) as problem:
        return CheckOutcome("unchecked", f"the check failed: {problem}")
    if verdict.clear and verdict.supported:
        return CheckOutcome("accepted", verdict.reason)
    state = "unsupported" if verdict.clear else "vague"
    return CheckOutcome(state, verdict.reason or STATES[state])


STATES: Mapping[str, str] = {
    "accepted": "in the test set",
    "incomplete": "question, answer or quote is empty, or copied from the request",
    "yes_no": "can be answered by yes or no",
    "vague": "cannot be understood without the passage",
    "quotes_chunk": "repeats the words of the chunk",
    "unquoted": "the quoted evidence is not in the chunk",
    "unsupported": "the chunk does not support the answer",
    "duplicate": "the same as another question",
    "surplus": "good, but more than the number of questions asked for",
    "unchecked": "the check failed or could not be read",
    "nothing": "the model found nothing worth asking in the chunk",
    "unreadable": "the reply could not be read",
    "failed": "the request failed",
}
"""The states of a draft; all but the first are reasons for its rejection."""

_FORM_STATES = (
    "unreadable",
    "incomplete",
    "unquoted",
)  # the model does not follow the instructions


def drafts_table(drafts: Sequence[Draft]) -> pd.DataFrame:
    """Count the drafts in each state, in the order of `STATES`; states without drafts are left
    out.

    Returns:
        state, meaning, drafts (their number), share (fraction of all), example (the reason of the
        first, or the question of an accepted draft).
    """
    rows = []
    for state, meaning in STATES.items():
        in_state = [draft for draft in drafts if draft.state == state]
        if not in_state:
            continue
        example = in_state[0].question if state == "accepted" else in_state[0].reason
        rows.append((state, meaning, len(in_state), len(in_state) / len(drafts), example))
    return pd.DataFrame(rows, columns=["state", "meaning", "drafts", "share", "example"])


def as_dataset(
    dataset: Dataset, drafts: Sequence[Draft], *, name: str = "", split: str = "test"
) -> Dataset:
    """Return a dataset of the accepted drafts with the documents of `dataset`; the document from which a
    question was drafted has grade 1.

    Other documents that answer the question, too, are unjudged, and count as not relevant.

    Raises:
        DataError: no draft is accepted.
    """
    cases = {}
    qrels = {}
    for draft in drafts:
        if draft.state == "accepted" and draft.evidence is not None:
            cases[draft.query_id] = _case_of_draft(draft, draft.evidence)
            qrels[draft.query_id] = {draft.evidence.doc_id: 1}
    if not cases:
        raise DataError(_why_none_accepted(drafts))
    return replace(
        dataset, name=name or dataset.name, split=split, cases=tuple(cases.values()), qrels=qrels
    )


def _case_of_draft(draft: Draft, evidence: Span) -> Case:
    """Return an accepted draft as a case, with a record of how it was generated."""
    label = generated_label(
        draft.answer, model=draft.model, prompt=prompts_name(), sources=[asdict(evidence)]
    )
    return Case(
        draft.query_id,
        draft.question,
        reference_answer=draft.answer,
        evidence=(evidence,),
        expected_outcome="success",
        metadata={"generated": {**label, "chunk": draft.chunk_id, "checked_by": draft.checker}},
    )


def _why_none_accepted(drafts: Sequence[Draft]) -> str:
    """Return the message for drafts of which none is accepted, with the number in each state."""
    counts = ", ".join(f"{row.drafts} {row.state}" for row in drafts_table(drafts).itertuples())
    advice = "other chunks (another seed) or another model may give some"
    misformed = [draft for draft in drafts if draft.state in _FORM_STATES]
    if len(misformed) > len(drafts) / 2:
        advice = (
            f"{misformed[0].model} does not follow the form of the request (first: "
            f"{misformed[0].reason}); name a more capable model"
        )
    return (
        f"none of {len(drafts)} drafts is accepted ({counts or 'there are none'}), so there "
        f"is no test set; {advice}"
    )


def identity(folder: str | Path, *, name: str = "", client: str = "") -> dict[str, str]:
    """Return name, created_at (UTC) and client of a test set: the given values, else the values in the
    testset.json of `folder`, else new ones.

    Raises:
        DataError: the testset.json cannot be read.
    """
    target = expanded(folder)
    record = testset_record(target)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "name": name or str(record.get("name") or target.resolve().name),
        "created_at": str(record.get("created_at") or now),
        "client": client or str(record.get("client") or ""),
    }


def save_drafts(
    dataset: Dataset,
    drafts: Sequence[Draft],
    folder: str | Path,
    *,
    parameters: Mapping[str, Any],
    about: Mapping[str, str] | None = None,
    force: bool = False,
) -> Path:
    """Write a test set (from `as_dataset`) as a BEIR folder, with drafts.jsonl and testset.json in
    it, and return the path of the folder.

    drafts.jsonl holds every draft with its state and reason, testset.json the metadata of the set
    (`about`, by default from `identity`), the `parameters` and the counts. See
    `ragbench.testsets.writer.save_dataset` for the files that are never replaced.
    """
    lines = []
    for draft in drafts:
        fields = {**asdict(draft), "query_id": draft.query_id}
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    table = drafts_table(drafts)
    record = {
        **(about or identity(folder, name=dataset.name)),
        "parameters": dict(parameters),
        "prompts": prompts_name(),
        "questions": len(dataset.cases),
        "drafts": dict(zip(table["state"], table["drafts"].tolist(), strict=True)),
        "documents": replace(dataset, cases=(), qrels={}).fingerprint,
        "fingerprint": dataset.fingerprint,
    }
    extra = {
        "drafts.jsonl": "".join(lines),
        "testset.json": f"{json.dumps(record, ensure_ascii=False, indent=2)}\n",
    }
    return save_dataset(dataset, folder, force=force, extra=extra)
