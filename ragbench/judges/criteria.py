"""`judge`: the judgement of single answers by criteria."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench import llms
from ragbench.errors import ConfigError, DataError, DataWarning, JudgeWarning, unknown
from ragbench.extension import object_name
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
    """The material for the judgement of one answer; `reference` is None where there is none,
    `history` are the messages before the question, the oldest first.
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
        """Return all texts of others."""
        turns = (message["content"] for message in self.history)
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
    """One request about one answer, the first or its repair."""

    answer: int
    sample: int
    criteria: tuple[Criterion, ...]
    prompt: str


_Judged = dict[tuple[int, str, int], Judgement]  # number of the material, criterion, sample


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
    - "relevance": how much of it is about what was asked? 0, 0.25, 0.5, 0.75 or 1; neither truth nor
      completeness plays a part.
    - "completeness": how much of what was asked does it answer? The same levels.
    - "faithfulness": the fraction of its claims that the retrieved chunks support (hallucination is
      1 minus this). The judge quotes the evidence of each claim, and a claim whose quote is in no
      chunk counts as unsupported; the explanation lists the unsupported claims, and the quote and
      chunk of each other one.
    - "context_recall": the fraction of the reference answer's statements that the retrieved chunks
      support, with quotes as faithfulness has them.
    - "context_precision": useful chunks first? See `rank_weighted_precision`. Useful is what the
      right answer needs: the reference answer where there is one.
    - "vital_recall": the fraction of the gold facts that the answer states in full, without those
      that the case's metadata `okay_facts` names; a part of a fact counts as nothing (strict vital
      recall of TREC's RAG track, Pradeep et al. 2024).
    - one of your own: see `Criterion`.

    The judge sees the earlier turns of a conversation (`Case.turns`), of more than 12,000 characters
    the latest; "faithfulness" and "context_recall" count them as one more document. The criteria are
    in `ragbench/judges/criteria.toml`. Foreign text, such as the answer, is between tags
    that it cannot close. The judge sees the first 12,000 characters of an answer; the explanation
    notes where there is more.

    Some judgements need no request and have a `state`: an abstention, a refusal or an empty answer
    is "abstained" and a failed one "generation_failed" by the criteria that look at the answer
    (those of the context are judged all the same); a criterion that needs a missing reference
    answer is "no_reference"; where nothing was retrieved a criterion of the answer that needs
    contexts is unscored and the context criteria are 0, all "retrieval_empty". A reply is
    "unreadable" after one attempt at repair; a request without a reply is "judge_failed". Unscored
    is None, never 0.

    Args:
        answers: from `generate_answers` or any system; several answers to one question are allowed.
        criterion: one or several of the above, or of your own in any form that `Criterion` and
            `load_criteria` describe.
        llm: the judge: a name such as "anthropic:<model>", or an `LLM`. A JudgeWarning is given
            where it also wrote the answers, because models prefer their own. Criteria that are
            functions need none.
        dataset: the questions and reference answers.
        chunks: what the answers' contexts name; not used by "correctness" and "relevance".
        combine_criteria: ask about all criteria of an answer in one request. The three default
            criteria then take about a sixth fewer tokens, but verdicts influence each other (halo),
            and a reply that is cut loses all of them.
        allow_same_model: no warning where the judge also wrote the answers.
        concurrency, timeout_s: as in `generate_many`.

    Returns:
        One judgement per answer and criterion, by answer, then in the order of the criteria.

    Raises:
        ConfigError: an unknown criterion or model, or no model where one is needed.
        DataError: an answer to a question, or from a chunk, that is not there; a function that
            fails, or returns something else than a value from 0 to 1.
    """
    criteria = load_criteria(criterion)
    if not criteria:
        raise ConfigError(unknown("criterion", "", CRITERIA))
    contexts = any("contexts" in each.shows for each in criteria)
    contexts = contexts or (bool(chunks) and any(each.function for each in criteria))
    materials = materials_of(answers, dataset, chunks, contexts=contexts)
    model = None
    asking = [each for each in criteria if each.function is None]
    if asking:
        if llm is None or llm == "":
            raise ConfigError(
                f"criterion {asking[0].name!r} is judged by a language model; name one"
            )
        model = llms.load_llm(llm)
        if not allow_same_model:
            warn_of_same_model(answers, model)

    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    decided: dict[tuple[int, str], Judgement] = {}
    groups: list[tuple[int, tuple[Criterion, ...]]] = []
    for i, (answer, material) in enumerate(zip(answers, materials, strict=True)):
        open_criteria = []
        for each in criteria:
            judgement = _without_request(answer, material, each)
            if judgement is None and each.function is not None:
                judgement = _computed(each, dataset.case_of[answer.query_id], answer, material)
            if judgement is None:
                open_criteria.append(each)
            else:
                decided[i, each.name] = judgement
        if combine_criteria and open_criteria:
            groups.append((i, tuple(open_criteria)))
        else:
            groups += [(i, (each,)) for each in open_criteria]
    if model is not None:
        for (i, name, _), judgement in _ask(model, groups, materials, **options).items():
            decided[i, name] = judgement
    judgements = [decided[i, each.name] for i in range(len(answers)) for each in criteria]
    for state in ("judge_failed", "unreadable"):
        if lost := [judgement for judgement in judgements if judgement.state == state]:
            warnings.warn(
                f"{len(lost)} of {len(judgements)} judgements are unscored, {state}; the "
                f"first, {lost[0].criterion} of query {lost[0].query_id!r}: {lost[0].explanation}",
                DataWarning,
                stacklevel=2,
            )
    return judgements


def _computed(criterion: Criterion, case: Case, answer: Answer, material: Material) -> Judgement:
    """Return the judgement of a criterion that is a function."""
    where = f"criterion {criterion.name!r}, query {case.query_id!r}"
    function = criterion.function
    assert function is not None
    try:
        returned = function(case, answer, material.documents)
    except Exception as exc:  # a user's function may fail in any way
        raise DataError(f"{where}: {type(exc).__name__}: {exc}") from exc
    value, reason = (
        returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, "")
    )
    state = "scored"
    if value is None:
        state = "excluded"
    else:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0 <= number <= 1:
            raise DataError(
                f"{where}: the function returned {returned!r}; expected a value from 0 to 1, None, or "
                "(value, reason)"
            )
        value = number
    model = f"function {object_name(function)}"
    return Judgement(case.query_id, criterion.name, value, str(reason), model=model, state=state)


def write_request(
    criteria: Sequence[Criterion], material: Material, *, problem: str = "", reply: str = ""
) -> str:
    """Return one request for these criteria; with `problem` the repair of an earlier `reply` that could
    not be read.
    """
    shown = frozenset[str]().union(*(criterion.shows for criterion in criteria))
    answer = material.answer[:MAX_ANSWER] if "answer" in shown else ""
    reference = (material.reference or "") if "reference" in shown else ""
    documents = material.documents if "contexts" in shown else ()
    facts = material.facts if "facts" in shown else ()
    reply = reply[-_MAX_SHOWN_REPLY:]
    history = _latest(material.history)
    earlier = [message["content"] for message in history]
    examples = [text for each in criteria for part in each.examples for text in part.values()]
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
        cut = (
            f"\n(Only the first {MAX_ANSWER} characters of the answer.)"
            if answer != material.answer
            else ""
        )
        parts.append(
            f"Answer to judge; the numbers in brackets cite "
            f"documents:\n{fence('answer', answer, code)}{cut}"
        )
        parts += name_language(material.question, answer)
    parts.append(
        "Decide this:"
        if len(criteria) == 1
        else f"Decide these {len(criteria)} things, each by itself:"
    )
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
    """Return the question of a criterion, with what each level means."""
    question = criterion.question.strip()
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
    """Return the latest messages that have MAX_ANSWER characters together, the oldest first; the last
    one is cut where it alone has more.
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
    """Return for each material the values of its samples; every material is sent to the judge.
    `temperature` None means 0 for a single sample, else SAMPLING_TEMPERATURE.
    """
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    judged = _ask(llm, _alone(materials, criterion), materials, n_samples, temperature, **options)
    return [
        [judged[i, criterion.name, sample].value for sample in range(n_samples)]
        for i in range(len(materials))
    ]


def judged_materials(
    materials: Sequence[Material], criterion: Criterion, llm: LLM
) -> list[Judgement]:
    """Return for each material its judgement; every material is sent to the judge."""
    judged = _ask(llm, _alone(materials, criterion), materials)
    return [judged[i, criterion.name, 0] for i in range(len(materials))]


def _alone(
    materials: Sequence[Material], criterion: Criterion
) -> list[tuple[int, tuple[Criterion, ...]]]:
    return [(i, (criterion,)) for i in range(len(materials))]


def judgeable(
    answers: Sequence[Answer], criterion: Criterion, dataset: Dataset, chunks: Sequence[Chunk]
) -> list[Material]:
    """Return the material of each answer that needs a request."""
    materials = materials_of(
        answers, dataset, chunks, contexts=bool(chunks) or "contexts" in criterion.shows
    )
    return [
        material
        for answer, material in zip(answers, materials, strict=True)
        if _without_request(answer, material, criterion) is None
    ]


def materials_of(
    answers: Sequence[Answer], dataset: Dataset, chunks: Sequence[Chunk], *, contexts: bool = True
) -> list[Material]:
    """Return the material for the judgement of each answer; without `contexts` their texts are not looked
    up.
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
        named = answer.contexts if contexts else ()
        if missing := [chunk_id for chunk_id in named if chunk_id not in texts]:
            raise DataError(
                f"the answer to query {answer.query_id!r} has the context {missing[0]!r}, which "
                f"is not among the {len(texts)} chunks; was it answered from another chunking? "
                "Pass the chunks that it was answered from"
            )
        case = cases[answer.query_id]
        documents = tuple(texts[chunk_id].text for chunk_id in named)
        reference = case.reference_answer if (case.reference_answer or "").strip() else None
        facts = tuple(fact[0] for fact in case.vital_facts)
        materials.append(
            Material(
                answer.query_id,
                case.text,
                answer.text,
                reference,
                documents,
                named,
                facts,
                case.history,
            )
        )
    return materials


def _without_request(answer: Answer, material: Material, criterion: Criterion) -> Judgement | None:
    """Return the judgement that needs no judge; None if a request is needed."""
    value, state, why = None, "", ""
    is_of_answer = criterion.about == "answer"
    has_turns = criterion.form in _BY_SUPPORT and bool(material.history)
    if is_of_answer and answer.failed:
        state, why = (
            "generation_failed",
            f"the answer failed: {answer.error or 'no reason is given'}",
        )
    elif is_of_answer and (how := no_answer(answer)):
        state, why = "abstained", how
    elif "reference" in criterion.needs and material.reference is None:
        state, why = "no_reference", "the question has no reference answer"
    elif "facts" in criterion.needs and not material.facts:
        state, why = "no_reference", "the question has no vital facts"
    elif "contexts" in criterion.needs and not material.documents and not has_turns:
        state, why = "retrieval_empty", "nothing was retrieved, so nothing can support the answer"
        if not is_of_answer:
            value, why = 0.0, "nothing was retrieved"
    if not state:
        return None
    return Judgement(answer.query_id, criterion.name, value, why, state=state)


def no_answer(answer: Answer) -> str:
    """Return why a text is not an answer; "" if it is one."""
    if not answer.text.strip():
        return "the answer is empty"
    outcome = str(answer.outcome if answer.abstained else read_outcome(answer.text))
    if GUARDRAIL_BLOCKED in answer.flags:
        outcome = "blocked"
    return {"no_results": "the answer is an abstention", "blocked": "the answer is a refusal"}.get(
        outcome, ""
    )


def _ask(
    llm: LLM,
    groups: Sequence[tuple[int, tuple[Criterion, ...]]],
    materials: Sequence[Material],
    n_samples: int = 1,
    temperature: float | None = None,
    **asking: Any,
) -> _Judged:
    """Return the judgements of each (number of a material, criteria), after one repair of the replies
    that could not be read. `asking` are options of `generate_many`.
    """
    if temperature is None:
        temperature = SAMPLING_TEMPERATURE if n_samples > 1 else 0.0
    judged: _Judged = {}
    requests = [
        _Request(i, sample, criteria, write_request(criteria, materials[i]))
        for i, criteria in groups
        for sample in range(n_samples)
    ]
    for longer, kind in ((1, ""), (2, "repair of ")):
        unread = []
        for criteria in dict.fromkeys(request.criteria for request in requests):
            group = [request for request in requests if request.criteria == criteria]
            completions = llms.generate_many(
                llm,
                [request.prompt for request in group],
                system=JUDGE_SYSTEM,
                # A reply that was cut would be cut again at the same length.
                max_tokens=sum(criterion.max_tokens for criterion in criteria) * longer,
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
                    rest = tuple(each for each in criteria if each.name in problems)
                    prompt = write_request(rest, material, problem=problem, reply=completion.text)
                    unread.append(replace(request, criteria=rest, prompt=prompt))
        requests = unread
    return judged


def _take(
    request: _Request, completion: Completion, material: Material, judged: _Judged, model: str
) -> dict[str, str]:
    """Add one completion to `judged`; return criterion -> problem where it could not be read."""
    failure, is_cut = completion.error, completion.finish == "length"
    if completion.finish == "refusal":
        failure = failure or "the judge refused to judge"
    verdicts = {}
    if not failure:
        verdicts = read_verdicts(
            completion.text, request.criteria, cut=is_cut, material=material.texts
        )
    problems = {}
    for criterion in request.criteria:
        name = criterion.name
        scored = Scored(None, failure or "", "judge_failed")
        if not failure:
            try:
                verdict = verdicts[name]
                if isinstance(verdict, UnreadableError):
                    raise verdict
                scored = score(verdict, *_numbered_material(criterion, material))
            except UnreadableError as problem:
                problems[name] = f"{problem}{' (it was cut at max_tokens)' if is_cut else ''}"
                why = f"the judge's reply could not be read: {problems[name]}"
                scored = Scored(None, why, "unreadable")
        explanation, length = scored.explanation, len(material.answer)
        if "answer" in criterion.shows and length > MAX_ANSWER:
            note = f"Judged by the first {MAX_ANSWER} of {length} characters."
            explanation = f"{note}\n{explanation}"
        key = (request.answer, name, request.sample)
        before = judged.get(key)
        usage = (replace(completion, text=""),) if criterion is request.criteria[0] else ()
        judged[key] = Judgement(
            material.query_id,
            name,
            scored.value,
            explanation,
            prompt=before.prompt if before else request.prompt,
            response=_BETWEEN.join([*([before.response] if before else []), completion.text]),
            model=completion.model or model,
            state=scored.state,
            samples=(scored.value,),
            unsupported=scored.unsupported,
            invented_quotes=scored.invented_quotes,
            usage=before.usage + usage if before else usage,
        )
    return problems


def _numbered_material(
    criterion: Criterion, material: Material
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the texts of what a verdict numbers: facts, or documents."""
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
    """Return the model of the answers that is the judge of this name; "" where the judge wrote none."""
    if judge.endswith("<lambda>"):  # the name that all functions without a name share
        return ""
    writers = {_bare(answer.usage.model): answer.usage.model for answer in answers if answer.usage}
    return writers.get(_bare(judge), "")


def warn_of_same_model(answers: Sequence[Answer], llm: LLM) -> None:
    """Warn if the judge wrote the answers, too; for functions that the user calls: the warning
    points two frames up.
    """
    if writer := writer_among(answers, llm.name):
        warnings.warn(
            f"the judge {llm.name!r} is the model that wrote the answers "
            f"({writer!r}), and models prefer their own answers; use another "
            "judge, or pass allow_same_model=True to study this",
            JudgeWarning,
            stacklevel=3,
        )
