"""`judge`: the judgement of single answers by criteria."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench import llms
from ragbench.errors import ConfigError, DataError, JudgeWarning, unknown, warn_user
from ragbench.extension import object_name, returned_number
from ragbench.judges.criterion import CRITERIA, Criterion, load_criteria
from ragbench.judges.parser import (
    VERDICT_FIELDS,
    Scored,
    UnreadableError,
    read_verdicts,
    reply_schema,
    score,
)
from ragbench.judges.prompts import (
    CONVERSATION,
    JUDGE_SYSTEM,
    REPAIR,
    REPLY_FORMS,
    TURNS_AS_DOCUMENT,
    name_language,
)
from ragbench.llms.fences import fence, fence_code, numbered
from ragbench.llms.reply_text import read_outcome
from ragbench.types import (
    GUARDRAIL_BLOCKED,
    LLM,
    Answer,
    Case,
    Chunk,
    Completion,
    Dataset,
    Judgement,
    LLMLike,
    Passage,
    chunks_by_id,
)

SAMPLING_TEMPERATURE = 0.7
"""The temperature of repeated samples; a single judgement is requested at 0."""

MAX_ANSWER = 12_000
"""Characters of an answer that a judge sees, some 2,000 words; the claims of more would not fit
into a reply.
"""

MAX_CLAIMS = 30

_BY_SUPPORT = ("claims", "statements")
"""The forms by which earlier turns of a conversation count as one more document."""

_TURNS = "earlier turns"
_MAX_SHOWN_REPLY = 4000
_BETWEEN = "\n\n--- repair ---\n\n"


@dataclass(frozen=True, slots=True)
class Material:
    """The material for the judgement of one answer.

    `reference` is None for a question without a reference answer. `documents` are the texts of the
    chunks `chunk_ids`, in the same order. `history` are the messages before the question, the oldest
    first.
    """

    query_id: str
    question: str
    answer: str
    reference: str | None
    documents: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    facts: tuple[str, ...] = ()
    history: tuple[Mapping[str, str], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts that a judge may be shown, each as a whole.

        An object in them that looks like a verdict may be copied into the reply: `read_verdicts`
        does not count such a copy as the judge's verdict.
        """
        turns = [message["content"] for message in self.history]
        return (
            self.question,
            self.answer,
            self.reference or "",
            *self.documents,
            *self.facts,
            *turns,
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """A request about an answer, the first one or its repair.

    Attributes:
        answer: the position of the answer, and of its material.
        sample: the number of the repetition of the request.
    """

    answer: int
    sample: int
    criteria: tuple[Criterion, ...]
    prompt: str


_Judged = dict[tuple[int, str, int], Judgement]
"""(Position of the answer, name of the criterion, number of the sample) -> judgement."""


def judge(
    answers: Sequence[Answer],
    criterion: Any,
    llm: LLMLike | None = None,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk],
    combine_criteria: bool = False,
    allow_same_model: bool = False,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> list[Judgement]:
    """Have a language model judge answers by one or several criteria; each value is in [0, 1],
    higher is better unless a criterion states otherwise.

    - "correctness": does the answer agree with the reference answer? 1 or 0; unscored ("excluded")
      where the judge finds the reference wrong or incomplete.
    - "relevance": how much of it is about the question? 0, 0.25, 0.5, 0.75 or 1; neither truth nor
      completeness plays a part.
    - "completeness": how much of the question does it answer? The same levels.
    - "faithfulness": the fraction of its claims that the retrieved chunks support (hallucination is
      1 minus this). The judge quotes the evidence of each claim, and a claim whose quote is in no
      chunk counts as unsupported; the explanation lists the unsupported claims, and the quote and
      chunk of each other one.
    - "context_recall": the fraction of the reference answer's statements that the retrieved chunks
      support, with quotes as faithfulness has them.
    - "context_precision": useful chunks first? See `rank_weighted_precision`. A chunk is useful if
      the right answer needs it; the reference answer, if there is one, is the right answer.
    - "vital_recall": the fraction of the gold facts that the answer states in full; the facts in the
      case's metadata `okay_facts` are left out, and a part of a fact counts as nothing (strict vital
      recall of TREC's RAG track, Pradeep et al. 2024).
    - your own criterion: see `Criterion`.

    The judge sees the earlier turns of a conversation (`Case.turns`), the latest 12,000 characters;
    "faithfulness" and "context_recall" count them as one more document. The criteria are in
    `ragbench/judges/criteria.toml`. Foreign text, such as the answer, is between tags that it
    cannot close, and a verdict that is copied from it does not count; a judge that obeys an order
    in it and writes a new verdict is not recognised (`judge_audit` measures it). The judge sees the
    first 12,000 characters of an answer; the explanation notes a longer one.

    Some judgements need no request and have a `state`: an abstention, a refusal or an empty answer
    is "abstained" and a failed one "generation_failed" by the criteria that look at the answer
    (criteria of the context are judged all the same); a criterion that needs a missing reference
    answer is "no_reference"; if nothing was retrieved, a criterion of the answer that needs contexts
    is unscored and the context criteria are 0, all "retrieval_empty". A reply is "unreadable" after
    one attempt at repair; a request without a reply is "judge_failed". An unscored judgement has the
    value None, never 0.

    Args:
        answers: from `generate_answers` or any system; several answers to one question are allowed.
        criterion: one or several of the criteria above, or your own in any form that `Criterion` and
            `load_criteria` describe.
        llm: the judge: a name such as "anthropic:<model>", or an `LLM`. A JudgeWarning is issued if
            it also wrote the answers, because models prefer their own. Criteria that are functions
            need no judge.
        dataset: the questions and reference answers.
        chunks: the chunks that the answers' contexts name; not used by "correctness" and "relevance".
        combine_criteria: ask about all criteria of an answer in one request. The three default
            criteria then take about a sixth fewer tokens, but verdicts influence each other (halo),
            and a reply that is cut loses all of them.
        allow_same_model: issue no warning if the judge also wrote the answers.
        concurrency, timeout_s: as in `generate_many`.

    Returns:
        One judgement per answer and criterion, by answer, then in the order of the criteria.

    Raises:
        ConfigError: a criterion or model is unknown, or a needed model is missing.
        DataError: an answer belongs to an unknown question or chunk; a function fails, or returns
            something else than a value from 0 to 1.
    """
    criteria = load_criteria(criterion)
    if not criteria:
        raise ConfigError(unknown("criterion", "", CRITERIA))
    shows_contexts = any("contexts" in each.shows for each in criteria)
    has_function = any(each.function is not None for each in criteria)
    needs_contexts = shows_contexts or (has_function and bool(chunks))
    materials = materials_of(answers, dataset, chunks, contexts=needs_contexts)
    model = _judging_model(criteria, llm)
    if model is not None and not allow_same_model:
        warn_of_same_model(answers, model)

    judgement_of: dict[tuple[int, str], Judgement] = {}  # by position of the answer and criterion
    groups: list[tuple[int, tuple[Criterion, ...]]] = []  # criteria to ask about in one request
    for i, (answer, material) in enumerate(zip(answers, materials, strict=True)):
        open_criteria = []
        for each in criteria:
            judgement = _without_request(answer, material, each)
            if judgement is None and each.function is not None:
                case = dataset.case_of[answer.query_id]
                judgement = _computed(each, case, answer, material)
            if judgement is None:
                open_criteria.append(each)
            else:
                judgement_of[i, each.name] = judgement
        if combine_criteria and open_criteria:
            groups.append((i, tuple(open_criteria)))
        else:
            groups += [(i, (each,)) for each in open_criteria]
    if model is not None:
        judged = _ask(model, groups, materials, concurrency=concurrency, timeout_s=timeout_s)
        for (i, name, _), judgement in judged.items():
            judgement_of[i, name] = judgement
    judgements = []
    for i in range(len(answers)):
        judgements += [judgement_of[i, each.name] for each in criteria]
    _warn_of_unscored(judgements)
    return judgements


def _judging_model(criteria: Sequence[Criterion], llm: LLMLike | None) -> LLM | None:
    """Load the judge; return None if all criteria are functions, which need no judge.

    Raises:
        ConfigError: a criterion needs a judge and none is named.
    """
    for criterion in criteria:
        if criterion.function is None:
            if llm is None or llm == "":
                raise ConfigError(
                    f"criterion {criterion.name!r} is judged by a language model; name one"
                )
            return llms.load_llm(llm)
    return None


def _warn_of_unscored(judgements: Sequence[Judgement]) -> None:
    """Warn of requests without a reply and of unreadable replies, with the first of each kind."""
    for state in ("judge_failed", "unreadable"):
        unscored = [judgement for judgement in judgements if judgement.state == state]
        if unscored:
            first = unscored[0]
            warn_user(
                f"{len(unscored)} of {len(judgements)} judgements are unscored, {state}; the "
                f"first, {first.criterion} of query {first.query_id!r}: {first.explanation}"
            )


def _computed(criterion: Criterion, case: Case, answer: Answer, material: Material) -> Judgement:
    """Return the judgement of a criterion that is a function; one that fails is unscored, as that of a
    judge that does not answer.
    """
    model = f"function {object_name(criterion.function)}"
    state = "scored"
    try:
        value, reason = computed_value(criterion, case.query_id, case, answer, material.documents)
    except DataError as exc:
        value, reason = None, str(exc)
        state = "unreadable" if exc.__cause__ is None else "judge_failed"
        return Judgement(
            case.query_id,
            criterion.name,
            value,
            reason,
            model=model,
            state=state,
            samples=(None,),
        )
    state = "excluded" if value is None else "scored"
    return Judgement(case.query_id, criterion.name, value, reason, model=model, state=state)


def computed_value(
    criterion: Criterion, query_id: str, case: Case, answer: Answer, contexts: Sequence[str]
) -> tuple[float | None, str]:
    """Return the value of a criterion that is a function, and its reason.

    Raises:
        DataError: the function fails, or returns something else than a value from 0 to 1, None or
            (value, reason).
    """
    where = f"criterion {criterion.name!r}, query {query_id!r}"
    function = criterion.function
    assert function is not None
    try:
        returned = function(case, answer, contexts)
    except Exception as exc:  # a user's function may fail in any way
        raise DataError(f"{where}: {type(exc).__name__}: {exc}") from exc
    value = returned
    reason: object = ""
    if isinstance(returned, tuple) and len(returned) == 2:
        value, reason = returned
    if value is None:
        return None, str(reason)
    number = returned_number(value)
    if not 0 <= number <= 1:
        raise DataError(
            f"{where}: the function returned {returned!r}; expected a value from 0 to 1, None, or "
            "(value, reason)"
        )
    return number, str(reason)


def write_request(
    criteria: Sequence[Criterion], material: Material, *, problem: str = "", reply: str = ""
) -> str:
    """Return the text of one request for these criteria; with `problem` it asks to repair an earlier
    `reply` that could not be read.
    """
    shown = frozenset[str]().union(*(criterion.shows for criterion in criteria))
    answer = material.answer[:MAX_ANSWER] if "answer" in shown else ""
    reference = (material.reference or "") if "reference" in shown else ""
    documents = material.documents if "contexts" in shown else ()
    facts = material.facts if "facts" in shown else ()
    reply = reply[-_MAX_SHOWN_REPLY:]
    history = _latest(material.history)
    earlier = [message["content"] for message in history]
    examples: list[str] = []
    for criterion in criteria:
        for example in criterion.examples:
            examples += example.values()
    code = fence_code(
        [material.question, answer, reference, reply, *documents, *facts, *earlier, *examples]
    )

    parts = []
    if history:
        parts.append(CONVERSATION)
        parts += [fence(message["role"], message["content"], code) for message in history]
        if any(criterion.form in _BY_SUPPORT for criterion in criteria):
            parts.append(TURNS_AS_DOCUMENT.replace("{number}", str(len(documents) + 1)))
    parts.append(f"Question:\n{fence('question', material.question, code)}")
    if "contexts" in shown:
        parts.append(
            f"Documents that were retrieved, best first, each after its "
            f"number:\n{numbered(documents, code)}"
        )
    if facts:
        parts.append(f"Facts, each after its number:\n{numbered(facts, code, 'fact')}")
    if reference:
        parts.append(f"Reference answer:\n{fence('reference', reference, code)}")
    if "answer" in shown:
        note = ""
        if answer != material.answer:
            note = f"\n(Only the first {MAX_ANSWER} characters of the answer.)"
        parts.append(
            f"Answer to judge; the numbers in brackets cite "
            f"documents:\n{fence('answer', answer, code)}{note}"
        )
        parts += name_language(material.question, answer)
    if len(criteria) == 1:
        parts.append("Decide this:")
    else:
        parts.append(f"Decide these {len(criteria)} things, each by itself:")
    for criterion in criteria:
        parts.append(_task(criterion, len(documents), len(facts)))
        parts += _examples(criterion, code)
    form = ",\n".join(f'"{criterion.name}": {_reply_form(criterion)}' for criterion in criteria)
    parts.append(f"Reply with one JSON object and nothing else, in this form:\n{{{form}}}")
    if problem:
        earlier_reply = fence("reply", reply, code) if reply else "(it was empty)"
        parts.append(REPAIR.replace("{problem}", problem).replace("{reply}", earlier_reply))
    return "\n\n".join(parts)


def _task(criterion: Criterion, n_documents: int, n_facts: int) -> str:
    """Return the question of a criterion, with the meaning of each level.

    The questions of built-in criteria have the fields {limit} (the maximum number of claims),
    {documents} and {facts}, which are replaced by these numbers.
    """
    question = criterion.question.strip()
    # In a question of the form "level", as a user's own has it, braces are text: nothing is filled in.
    if criterion.form != "level":
        numbers = {"limit": MAX_CLAIMS, "documents": n_documents, "facts": n_facts}
        for name, number in numbers.items():
            question = question.replace(f"{{{name}}}", str(number))
    lines = [f"{criterion.name}: {question}"]
    lines += [f"{level} = {meaning}" for level, meaning in criterion.anchors.items()]
    return "\n".join(lines)


def _examples(criterion: Criterion, code: str) -> list[str]:
    """Return the examples of a criterion, their texts between tags."""
    shown = []
    for number, example in enumerate(criterion.examples, 1):
        lines = [f"Example {number} of {criterion.name}:"]
        for name, text in example.items():
            if name != "verdict":
                lines.append(fence(f"example_{name}", text, code))
        lines.append(f"The right {VERDICT_FIELDS[criterion.form]}: {example['verdict']}")
        shown.append("\n".join(lines))
    return shown


def _reply_form(criterion: Criterion) -> str:
    """Return the form of the reply to a criterion."""
    *others, last = criterion.levels
    levels = f"{', '.join(others)} or {last}"
    return REPLY_FORMS[criterion.form].replace("{levels}", levels)


def _latest(history: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the latest messages with at most MAX_ANSWER characters together, the oldest first; a
    longer last message is cut.
    """
    messages: list[Mapping[str, str]] = []
    left = MAX_ANSWER
    for message in reversed(history):
        if messages and len(message["content"]) > left:
            break
        messages.append({**message, "content": message["content"][:left]})
        left -= len(message["content"])
    return messages[::-1]


def verdicts(
    materials: Sequence[Material],
    criterion: Criterion,
    llm: LLM,
    *,
    n_samples: int = 1,
    temperature: float | None = None,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> list[list[float | None]]:
    """Judge every material by one criterion, and return for each the values of its samples (None:
    unscored). `temperature` None means 0 for a single sample, else SAMPLING_TEMPERATURE.
    """
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    judged = _ask(llm, _alone(materials, criterion), materials, n_samples, temperature, **options)
    return [
        [judged[i, criterion.name, sample].value for sample in range(n_samples)]
        for i in range(len(materials))
    ]


def judged_materials(
    materials: Sequence[Material], criterion: Criterion, llm: LLM, **asking: Any
) -> list[Judgement]:
    """Return for each material its judgement; every material is sent to the judge.

    Args:
        asking: options of `generate_many`.
    """
    judged = _ask(llm, _alone(materials, criterion), materials, **asking)
    return [judged[i, criterion.name, 0] for i in range(len(materials))]


def _alone(
    materials: Sequence[Material], criterion: Criterion
) -> list[tuple[int, tuple[Criterion, ...]]]:
    return [(i, (criterion,)) for i in range(len(materials))]


def judgeable(
    answers: Sequence[Answer], criterion: Criterion, dataset: Dataset, chunks: Sequence[Chunk]
) -> list[Material]:
    """Return the materials of the answers that need a request, in the order of the answers.

    Left out are answers without the reference answer, facts or contexts that the criterion needs,
    and, by a criterion about the answer, failed and empty answers, abstentions and refusals.

    Raises:
        DataError: an answer belongs to an unknown question or chunk.
    """
    # No chunks are given for external systems, whose answers carry their passages: contexts are
    # then looked up only for a criterion that shows them to the judge.
    looks_up_contexts = bool(chunks) or "contexts" in criterion.shows
    materials = materials_of(answers, dataset, chunks, contexts=looks_up_contexts)
    return [
        material
        for answer, material in zip(answers, materials, strict=True)
        if _without_request(answer, material, criterion) is None
    ]


def materials_of(
    answers: Sequence[Answer], dataset: Dataset, chunks: Sequence[Chunk], *, contexts: bool = True
) -> list[Material]:
    """Return the material for the judgement of each answer, in their order.

    Without `contexts` the texts of the answers' contexts are not looked up.

    Raises:
        DataError: an answer belongs to an unknown question or chunk.
    """
    cases = dataset.case_of
    by_id = chunks_by_id(chunks)
    materials = []
    for answer in answers:
        if answer.query_id not in cases:
            raise DataError(
                f"there is an answer to query {answer.query_id!r}, which is not among "
                f"the {len(cases)} of {dataset!r}; pass the dataset that was answered"
            )
        passages = answer.passage_of
        texts: Mapping[str, Passage | Chunk] = passages or by_id
        chunk_ids = answer.contexts if contexts else ()
        for chunk_id in chunk_ids:
            if chunk_id not in texts:
                raise DataError(
                    f"the answer to query {answer.query_id!r} has the context {chunk_id!r}, which "
                    f"is not among the {len(texts)} chunks; was it answered from another chunking? "
                    "Pass the chunks that it was answered from"
                )
        case = cases[answer.query_id]
        has_reference = bool((case.reference_answer or "").strip())
        materials.append(
            Material(
                answer.query_id,
                case.text,
                answer.text,
                reference=case.reference_answer if has_reference else None,
                documents=tuple(texts[chunk_id].text for chunk_id in chunk_ids),
                chunk_ids=chunk_ids,
                facts=tuple(first_wording for first_wording, *_ in case.vital_facts),
                history=case.history,
            )
        )
    return materials


def _without_request(answer: Answer, material: Material, criterion: Criterion) -> Judgement | None:
    """Return the judgement that needs no judge; None if a request is needed."""

    def unscored(state: str, explanation: str) -> Judgement:
        return Judgement(answer.query_id, criterion.name, None, explanation, state=state)

    is_of_answer = criterion.about == "answer"
    if is_of_answer:
        if answer.failed:
            reason = answer.error or "no reason is given"
            return unscored("generation_failed", f"the answer failed: {reason}")
        if reason := no_answer(answer):
            return unscored("abstained", reason)
    if "reference" in criterion.needs and material.reference is None:
        return unscored("no_reference", "the question has no reference answer")
    if "facts" in criterion.needs and not material.facts:
        return unscored("no_reference", "the question has no vital facts")
    has_turns = criterion.form in _BY_SUPPORT and bool(material.history)
    if "contexts" in criterion.needs and not material.documents and not has_turns:
        if is_of_answer:
            explanation = "nothing was retrieved, so nothing can support the answer"
            return unscored("retrieval_empty", explanation)
        explanation = "nothing was retrieved"
        return Judgement(answer.query_id, criterion.name, 0.0, explanation, state="retrieval_empty")
    return None


def no_answer(answer: Answer) -> str:
    """Return why a text is not an answer; "" if it is one."""
    if not answer.text.strip():
        return "the answer is empty"
    outcome = str(answer.outcome if answer.abstained else read_outcome(answer.text))
    if outcome == "blocked" or GUARDRAIL_BLOCKED in answer.flags:
        return "the answer is a refusal"
    if outcome == "no_results":
        return "the answer is an abstention"
    return ""


def _ask(
    llm: LLM,
    groups: Sequence[tuple[int, tuple[Criterion, ...]]],
    materials: Sequence[Material],
    n_samples: int = 1,
    temperature: float | None = None,
    **asking: Any,
) -> _Judged:
    """Request judgements, with one repair of the replies that cannot be read.

    Args:
        groups: (number of a material, the criteria to ask about in one request).
        asking: options of `generate_many`.
    """
    if temperature is None:
        temperature = SAMPLING_TEMPERATURE if n_samples > 1 else 0.0
    judged: _Judged = {}
    requests = []
    for i, criteria in groups:
        prompt = write_request(criteria, materials[i])
        requests += [_Request(i, sample, criteria, prompt) for sample in range(n_samples)]
    for kind in ("", "repair of "):
        # a reply that was cut would be cut again at the same length
        length_factor = 2 if kind else 1
        repairs = []
        for criteria in dict.fromkeys(request.criteria for request in requests):
            group = [request for request in requests if request.criteria == criteria]
            completions = llms.generate_many(
                llm,
                [request.prompt for request in group],
                system=JUDGE_SYSTEM,
                max_tokens=sum(criterion.max_tokens for criterion in criteria) * length_factor,
                temperature=temperature,
                schema=reply_schema(criteria),
                samples=[request.sample for request in group],
                **asking,
                label=f"{kind}{', '.join(criterion.name for criterion in criteria)}",
            )
            for request, completion in zip(group, completions, strict=True):
                material = materials[request.answer]
                problems = _take(request, completion, material, judged, llm.name)
                if problems:
                    problem = "; ".join(dict.fromkeys(problems.values()))
                    unread = tuple(each for each in criteria if each.name in problems)
                    prompt = write_request(unread, material, problem=problem, reply=completion.text)
                    repairs.append(replace(request, criteria=unread, prompt=prompt))
        requests = repairs
    return judged


def _take(
    request: _Request, completion: Completion, material: Material, judged: _Judged, model: str
) -> dict[str, str]:
    """Add the judgements of one completion to `judged`; a repair extends the earlier judgement.

    Returns:
        criterion -> problem, for verdicts that could not be read.
    """
    scored_by_criterion, problems = _scored(request, completion, material)
    for criterion in request.criteria:
        scored = scored_by_criterion[criterion.name]
        explanation = scored.explanation
        length = len(material.answer)
        if "answer" in criterion.shows and length > MAX_ANSWER:
            note = f"Judged by the first {MAX_ANSWER} of {length} characters."
            explanation = f"{note}\n{explanation}"
        # the usage of a request counts once, at its first criterion
        usage: tuple[Completion, ...] = ()
        if criterion is request.criteria[0]:
            usage = (replace(completion, text=""),)
        judgement = Judgement(
            material.query_id,
            criterion.name,
            scored.value,
            explanation,
            prompt=request.prompt,
            response=completion.text,
            model=completion.model or model,
            state=scored.state,
            samples=(scored.value,),
            unsupported=scored.unsupported,
            invented_quotes=scored.invented_quotes,
            usage=usage,
        )
        key = (request.answer, criterion.name, request.sample)
        earlier = judged.get(key)
        if earlier:
            judgement = _repaired(earlier, judgement)
        judged[key] = judgement
    return problems


def _repaired(earlier: Judgement, repair: Judgement) -> Judgement:
    """Return the judgement of a repair with the prompt of the first request, both replies, and the
    usage of both requests.
    """
    return replace(
        repair,
        prompt=earlier.prompt,
        response=f"{earlier.response}{_BETWEEN}{repair.response}",
        usage=earlier.usage + repair.usage,
    )


def _scored(
    request: _Request, completion: Completion, material: Material
) -> tuple[dict[str, Scored], dict[str, str]]:
    """Score the verdicts in a completion.

    Returns:
        (criterion -> score, criterion -> problem of a verdict that could not be read); if the request
        failed, every criterion is unscored, and there are no problems to repair.
    """
    failure = completion.error
    if completion.finish == "refusal" and not failure:
        failure = "the judge refused to judge"
    if failure:
        failed = Scored(None, failure, "judge_failed")
        return {criterion.name: failed for criterion in request.criteria}, {}
    is_cut = completion.finish == "length"
    verdicts = read_verdicts(completion.text, request.criteria, cut=is_cut, material=material.texts)
    scored = {}
    problems = {}
    for criterion in request.criteria:
        name = criterion.name
        try:
            verdict = verdicts[name]
            if isinstance(verdict, UnreadableError):
                raise verdict
            scored[name] = score(verdict, *_numbered_material(criterion, material))
        except UnreadableError as exc:
            note = " (it was cut at max_tokens)" if is_cut else ""
            problems[name] = f"{exc}{note}"
            explanation = f"the judge's reply could not be read: {problems[name]}"
            scored[name] = Scored(None, explanation, "unreadable")
    return scored, problems


def _numbered_material(
    criterion: Criterion, material: Material
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the texts that a verdict refers to by number: of the facts (without texts),
    or of the documents.
    """
    if criterion.form == "facts":
        return material.facts, ()
    if criterion.form in _BY_SUPPORT and material.history:
        turns = "\n".join(message["content"] for message in material.history)
        return (*material.chunk_ids, _TURNS), (*material.documents, turns)
    return material.chunk_ids, material.documents


def _bare(name: str) -> str:
    """Return a model's name without provider and date."""
    short = re.sub(r"^(anthropic|ollama|openai|scripted):", "", name)
    return re.sub(r"(-latest|[-@]\d{8}|:latest)$", "", short.casefold())


def writer_among(answers: Sequence[Answer], judge: str) -> str:
    """Return the model of the answers that is the judge of this name; "" if the judge wrote none."""
    if judge.endswith("<lambda>"):  # the name that all functions without a name share
        return ""
    writers = {_bare(answer.usage.model): answer.usage.model for answer in answers if answer.usage}
    return writers.get(_bare(judge), "")


def warn_of_same_model(answers: Sequence[Answer], llm: LLM) -> None:
    """Issue a JudgeWarning if the judge also wrote the answers."""
    if writer := writer_among(answers, llm.name):
        warn_user(
            f"the judge {llm.name!r} is the model that wrote the answers "
            f"({writer!r}), and models prefer their own answers; use another "
            "judge, or pass allow_same_model=True to study this",
            JudgeWarning,
        )
