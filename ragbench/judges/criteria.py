"""`judge`: the judgement of single answers by criteria."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench import llms
from ragbench.errors import DataError, DataWarning, JudgeWarning, check_known
from ragbench.judges.parser import (
    UnreadableError,
    read_verdicts,
    reply_schema,
    score,
    unsupported_claims,
)
from ragbench.judges.prompts import (
    CONVERSATION,
    CRITERIA,
    DOCUMENT,
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

# The material of each criterion. A criterion judged alone sees nothing else.
NEEDS = {
    "correctness": {"reference", "answer"},
    "relevance": {"answer"},
    "faithfulness": {"documents", "answer"},
    "context_recall": {"documents", "reference"},
    "context_precision": {"documents", "reference"},
    "vital_recall": {"facts", "answer"},
    "document": {"documents"},
}

# The maximum reply for each criterion in tokens: 30 claims with their reasons, judgements of 20
# documents.
REPLY_TOKENS = {
    "faithfulness": 2400,
    "context_recall": 1600,
    "context_precision": 1200,
    "vital_recall": 1600,
}

_BY_SUPPORT = ("faithfulness", "context_recall")
"""The criteria by which earlier turns of a conversation count as one more document."""

_TURNS = "earlier turns"
_MAX_SHOWN_REPLY = 4000
_BETWEEN = "\n\n--- repair ---\n\n"

# Five judgements with their reasons are a long reply for a local model.
TIMEOUT_S = 600.0


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


@dataclass(frozen=True, slots=True)
class _Request:
    """One request about one answer, the first or its repair."""

    answer: int
    sample: int
    criteria: tuple[str, ...]
    prompt: str


_Judged = dict[tuple[int, str, int], Judgement]  # number of the material, criterion, sample


def judge(
    answers: Sequence[Answer],
    criterion: str | Sequence[str],
    llm: LLMLike,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk],
    allow_same_model: bool = False,
) -> list[Judgement]:
    """Have a language model judge answers by one or several criteria; each value is in [0, 1],
    higher is better.

    - "correctness": does the answer agree with the reference answer? 1 or 0.
    - "relevance": does it address the question? 0, 0.25, 0.5, 0.75 or 1; truth plays no part.
    - "faithfulness": the fraction of its claims that the retrieved chunks support (hallucination is
      1 minus this); the explanation lists the unsupported claims, and for each other one the chunk
      that supports it.
    - "context_recall": the fraction of the reference answer's statements that the retrieved chunks
      support.
    - "context_precision": useful chunks first? See `rank_weighted_precision`. Useful is what the
      right answer needs: the reference answer where there is one.
    - "vital_recall": the fraction of the gold facts that the answer states in full, without those
      that the case's metadata `okay_facts` names; a part of a fact counts as nothing (strict vital
      recall of TREC's RAG track, Pradeep et al. 2024).

    The judge sees the earlier turns of a conversation (`Case.turns`), of more than 12,000 characters
    the latest; "faithfulness" and "context_recall" count them as one more document. The prompts are
    in `ragbench.judges.prompts`. Foreign text, such as the answer, is between tags
    that it cannot close. The judge sees the first 12,000 characters of an answer; the explanation
    notes where there is more.

    Some judgements need no request and have a `state`: an abstention, a refusal or an empty answer
    is "abstained" and a failed one "generation_failed" by the criteria that look at the answer
    (those of the context are judged all the same); a criterion that needs a missing reference
    answer is "no_reference"; where nothing was retrieved faithfulness is unscored and the context
    criteria are 0, all "retrieval_empty". A reply is "unreadable" after one attempt at repair; a
    request without a reply is "judge_failed". Unscored is None, never 0.

    Args:
        answers: from `generate_answers` or any system; several answers to one question are allowed.
        criterion: one or several of the above.
        llm: the judge: a name such as "anthropic:<model>", or an `LLM`. A JudgeWarning is given
            where it also wrote the answers, because models prefer their own.
        dataset: the questions and reference answers.
        chunks: what the answers' contexts name; not used by "correctness" and "relevance".
        allow_same_model: no warning where the judge also wrote the answers.

    Returns:
        One judgement per answer and criterion, by answer, then in the order of the criteria.

    Raises:
        ConfigError: an unknown criterion or model.
        DataError: an answer to a question, or from a chunk, that is not there.
    """
    criteria = (criterion,) if isinstance(criterion, str) else tuple(dict.fromkeys(criterion))
    check_known("criterion", CRITERIA, *(criteria or ("",)))
    materials = materials_of(
        answers, dataset, chunks, contexts=any("documents" in NEEDS[name] for name in criteria)
    )
    model = llms.load_llm(llm)
    if not allow_same_model:
        warn_of_same_model(answers, model)

    decided: dict[tuple[int, str], Judgement] = {}
    groups: list[tuple[int, tuple[str, ...]]] = []
    for i, (answer, material) in enumerate(zip(answers, materials, strict=True)):
        for name in criteria:
            if judgement := _without_request(answer, material, name):
                decided[i, name] = judgement
        names = tuple(name for name in criteria if (i, name) not in decided)
        groups += [(i, names)] if names else []
    for (i, name, _), judgement in _ask(model, groups, materials).items():
        decided[i, name] = judgement
    judgements = [decided[i, name] for i in range(len(answers)) for name in criteria]
    for state in ("judge_failed", "unreadable"):
        if lost := [judgement for judgement in judgements if judgement.state == state]:
            warnings.warn(
                f"{len(lost)} of {len(judgements)} judgements are unscored, {state}; the "
                f"first, {lost[0].criterion} of query {lost[0].query_id!r}: {lost[0].explanation}",
                DataWarning,
                stacklevel=2,
            )
    return judgements


def write_request(
    criteria: Sequence[str], material: Material, *, problem: str = "", reply: str = ""
) -> str:
    """Return one request for these criteria; with `problem` the repair of an earlier `reply` that could
    not be read.
    """
    needed = set().union(*(NEEDS[criterion] for criterion in criteria))
    answer = material.answer[:MAX_ANSWER] if "answer" in needed else ""
    reference = (material.reference or "") if "reference" in needed else ""
    documents = material.documents if "documents" in needed else ()
    facts = material.facts if "facts" in needed else ()
    reply = reply[-_MAX_SHOWN_REPLY:]
    history = _latest(material.history)
    earlier = [message["content"] for message in history]
    code = fence_code([material.question, answer, reference, reply, *documents, *facts, *earlier])

    parts = []
    if history:
        parts.append(CONVERSATION)
        parts += [fence(message["role"], message["content"], code) for message in history]
        if any(criterion in _BY_SUPPORT for criterion in criteria):
            parts.append(TURNS_AS_DOCUMENT.replace("{number}", str(len(documents) + 1)))
    parts.append(f"Question:\n{fence('question', material.question, code)}")
    if "documents" in needed:
        parts.append(
            f"Documents that were retrieved, best first, each after its "
            f"number:\n{numbered(documents, code)}"
        )
    if facts:
        parts.append(f"Facts, each after its number:\n{numbered(facts, code, 'fact')}")
    if reference:
        parts.append(f"Reference answer:\n{fence('reference', reference, code)}")
    if "answer" in needed:
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
        text = CRITERIA.get(criterion, DOCUMENT).replace("{limit}", str(MAX_CLAIMS))
        text = text.replace("{documents}", str(len(documents))).replace("{facts}", str(len(facts)))
        parts.append(f"{criterion}: {text}")
    form = ",\n".join(f'"{criterion}": {REPLY_FORMS[criterion]}' for criterion in criteria)
    parts.append(f"Reply with one JSON object and nothing else, in this form:\n{{{form}}}")
    if problem:
        earlier_reply = fence("reply", reply, code) if reply else "(it was empty)"
        parts.append(REPAIR.replace("{problem}", problem).replace("{reply}", earlier_reply))
    return "\n\n".join(parts)


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
    criterion: str,
    llm: LLM,
    *,
    n_samples: int = 1,
) -> list[list[float | None]]:
    """Return for each material the values of its samples; every material is sent to the judge."""
    groups = [(i, (criterion,)) for i in range(len(materials))]
    judged = _ask(llm, groups, materials, n_samples)
    return [[judged[i, criterion, sample].value for sample in range(n_samples)] for i, _ in groups]


def judgeable(
    answers: Sequence[Answer], criterion: str, dataset: Dataset, chunks: Sequence[Chunk]
) -> list[Material]:
    """Return the material of each answer that needs a request."""
    materials = materials_of(
        answers, dataset, chunks, contexts=bool(chunks) or "documents" in NEEDS[criterion]
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


def _without_request(answer: Answer, material: Material, criterion: str) -> Judgement | None:
    """Return the judgement that needs no judge; None if a request is needed."""
    needs = NEEDS[criterion]
    value, state, why = None, "", ""
    if "answer" in needs and answer.failed:
        state, why = (
            "generation_failed",
            f"the answer failed: {answer.error or 'no reason is given'}",
        )
    elif "answer" in needs and (how := no_answer(answer)):
        state, why = "abstained", how
    elif criterion in {"correctness", "context_recall"} and material.reference is None:
        state, why = "no_reference", "the question has no reference answer"
    elif criterion == "vital_recall" and not material.facts:
        state, why = "no_reference", "the question has no vital facts"
    elif (
        "documents" in needs
        and not material.documents
        and not (criterion in _BY_SUPPORT and material.history)
    ):
        state, why = "retrieval_empty", "nothing was retrieved, so nothing can support the answer"
        if criterion != "faithfulness":
            value, why = 0.0, "nothing was retrieved"
    return Judgement(answer.query_id, criterion, value, why, state=state) if state else None


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
    groups: Sequence[tuple[int, tuple[str, ...]]],
    materials: Sequence[Material],
    n_samples: int = 1,
) -> _Judged:
    """Return the judgements of each (number of a material, criteria), after one repair of the replies
    that could not be read.
    """
    judged: _Judged = {}
    requests = [
        _Request(i, sample, names, write_request(names, materials[i]))
        for i, names in groups
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
                max_tokens=sum(REPLY_TOKENS.get(name, 300) for name in criteria) * longer,
                temperature=SAMPLING_TEMPERATURE if n_samples > 1 else 0.0,
                schema=reply_schema(criteria),
                samples=[request.sample for request in group],
                timeout_s=TIMEOUT_S,
                label=f"{kind}{', '.join(criteria)}",
            )
            for request, completion in zip(group, completions, strict=True):
                material = materials[request.answer]
                if problems := _take(request, completion, material, judged, llm.name):
                    problem, names = "; ".join(dict.fromkeys(problems.values())), tuple(problems)
                    prompt = write_request(names, material, problem=problem, reply=completion.text)
                    unread.append(replace(request, criteria=names, prompt=prompt))
        requests = unread
    return judged


def _take(
    request: _Request, completion: Completion, material: Material, judged: _Judged, model: str
) -> dict[str, str]:
    """Add one completion to `judged`; return criterion -> problem where it could not be read."""
    failure, is_cut = completion.error, completion.finish == "length"
    if completion.finish == "refusal":
        failure = failure or "the judge refused to judge"
    verdicts = {} if failure else read_verdicts(completion.text, request.criteria, cut=is_cut)
    problems = {}
    for name in request.criteria:
        value, state, explanation = None, "judge_failed", failure or ""
        unsupported: tuple[str, ...] = ()
        try:
            if not failure:
                verdict = verdicts[name]
                if isinstance(verdict, UnreadableError):
                    raise verdict
                value, explanation = score(verdict, _names(name, material))
                state = "no_claims" if value is None else "scored"
                unsupported = unsupported_claims(verdict)
        except UnreadableError as problem:
            problems[name] = f"{problem}{' (it was cut at max_tokens)' if is_cut else ''}"
            state = "unreadable"
            explanation = f"the judge's reply could not be read: {problems[name]}"
        length = len(material.answer)
        if "answer" in NEEDS[name] and length > MAX_ANSWER:
            note = f"Judged by the first {MAX_ANSWER} of {length} characters."
            explanation = f"{note}\n{explanation}"
        key = (request.answer, name, request.sample)
        before = judged.get(key)
        usage = (replace(completion, text=""),) if name == request.criteria[0] else ()
        judged[key] = Judgement(
            material.query_id,
            name,
            value,
            explanation,
            prompt=before.prompt if before else request.prompt,
            response=_BETWEEN.join([*([before.response] if before else []), completion.text]),
            model=completion.model or model,
            state=state,
            samples=(value,),
            unsupported=unsupported,
            usage=before.usage + usage if before else usage,
        )
    return problems


def _names(criterion: str, material: Material) -> tuple[str, ...]:
    """Return the names of what a verdict numbers: facts, or documents."""
    if criterion == "vital_recall":
        return material.facts
    if criterion in _BY_SUPPORT and material.history:
        return (*material.chunk_ids, _TURNS)
    return material.chunk_ids


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
