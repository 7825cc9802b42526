"""Requests to a judge: how many samples, when a reply is repaired by one more request, and the
judgement that is recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import BaseModel

from ragbench import llms
from ragbench.judges.criterion import SUPPORT_FORMS, Criterion
from ragbench.judges.material import Material
from ragbench.judges.parser import Scored, UnreadableError, read_verdicts, reply_schema, score
from ragbench.judges.prompts import JUDGE_SYSTEM
from ragbench.judges.request_text import MAX_ANSWER, write_request
from ragbench.types import LLM, Completion, Judgement

SAMPLING_TEMPERATURE = 0.7
"""The temperature of repeated samples; a single judgement is requested at 0."""

_TURNS = "earlier turns"
_BETWEEN = "\n\n--- repair ---\n\n"


class JudgeTask(NamedTuple):
    """The criteria to ask about in one request, and the position of the answer that they are about."""

    answer: int
    criteria: tuple[Criterion, ...]


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


Judged = dict[tuple[int, str, int], Judgement]
"""(Position of the answer, name of the criterion, number of the sample) -> judgement."""


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
    """Judge every material by one criterion, and return for each the values of its samples; None is an
    unscored sample.

    Args:
        n_samples: how often each material is judged.
        temperature: None means 0 for a single sample, else SAMPLING_TEMPERATURE.
        concurrency, timeout_s: as in `generate_many`.
    """
    judged = request_judgements(
        llm,
        _one_task_each(materials, criterion),
        materials,
        n_samples,
        temperature,
        concurrency=concurrency,
        timeout_s=timeout_s,
    )
    values = []
    for i in range(len(materials)):
        values.append([judged[i, criterion.name, sample].value for sample in range(n_samples)])
    return values


def judged_materials(
    materials: Sequence[Material], criterion: Criterion, llm: LLM, **request_options: Any
) -> list[Judgement]:
    """Return for each material its judgement; every material is sent to the judge.

    Args:
        request_options: options of `generate_many`.
    """
    judged = request_judgements(
        llm, _one_task_each(materials, criterion), materials, **request_options
    )
    return [judged[i, criterion.name, 0] for i in range(len(materials))]


def _one_task_each(materials: Sequence[Material], criterion: Criterion) -> list[JudgeTask]:
    return [JudgeTask(i, (criterion,)) for i in range(len(materials))]


def request_judgements(
    llm: LLM,
    tasks: Sequence[JudgeTask],
    materials: Sequence[Material],
    n_samples: int = 1,
    temperature: float | None = None,
    **request_options: Any,
) -> Judged:
    """Send requests to a judge, and return (position of the answer, name of the criterion, number of the
    sample) -> judgement.

    If a reply cannot be read, the judge is told the problem and asked once more (a repair); if the second
    reply cannot be read either, the judgement is unscored.

    Args:
        llm: the judge.
        tasks: the answers and criteria to judge them by.
        materials: the texts about each answer that the judge sees.
        n_samples: how often each request is sent.
        temperature: as in `verdicts`.
        request_options: options of `generate_many`.
    """
    if temperature is None:
        temperature = SAMPLING_TEMPERATURE if n_samples > 1 else 0.0
    judged: Judged = {}
    requests = []
    for i, criteria in tasks:  # position of an answer, and its criteria
        prompt = write_request(criteria, materials[i])
        requests += [_Request(i, sample, criteria, prompt) for sample in range(n_samples)]
    for is_repair in (False, True):  # first the requests, then the repairs that they need
        repairs = []
        for request, completion in _send(requests, llm, temperature, is_repair, request_options):
            material = materials[request.answer]
            # adds them to `judged`; returns criterion -> problem, for unreadable verdicts
            problem_of = _add_judgements(request, completion, material, judged, llm.name)
            if problem_of:
                repairs.append(_repair(request, material, completion.text, problem_of))
        requests = repairs
    return judged


def _send(
    requests: Sequence[_Request],
    llm: LLM,
    temperature: float,
    is_repair: bool,
    request_options: Mapping[str, Any],
) -> Iterator[tuple[_Request, Completion]]:
    """Yield each request with its completion; requests by the same criteria are sent together.

    Args:
        requests: each with its prompt, its criteria and the number of the sample.
        is_repair: True for second attempts, after replies that could not be read.
        request_options: options of `generate_many`.
    """
    # each combination of criteria once
    for criteria in dict.fromkeys(request.criteria for request in requests):
        batch = [request for request in requests if request.criteria == criteria]
        max_tokens = sum(criterion.max_tokens for criterion in criteria)
        names = ", ".join(criterion.name for criterion in criteria)
        completions = llms.generate_many(
            llm,
            [request.prompt for request in batch],
            system=JUDGE_SYSTEM,
            # a reply that was cut would be cut again at the same length
            max_tokens=2 * max_tokens if is_repair else max_tokens,
            temperature=temperature,
            schema=reply_schema(criteria),
            samples=[request.sample for request in batch],
            **request_options,
            label=f"repair of {names}" if is_repair else names,
        )
        yield from zip(batch, completions, strict=True)


def _repair(
    request: _Request, material: Material, reply: str, problem_of: Mapping[str, str]
) -> _Request:
    """Return the request for the verdicts that could not be read in a reply (criterion -> problem)."""
    # those that could be read are not asked again
    unread = tuple(each for each in request.criteria if each.name in problem_of)
    problem = "; ".join(dict.fromkeys(problem_of.values()))  # each once
    prompt = write_request(unread, material, problem=problem, reply=reply)
    return replace(request, criteria=unread, prompt=prompt)


def _add_judgements(
    request: _Request, completion: Completion, material: Material, judged: Judged, model: str
) -> dict[str, str]:
    """Add the judgements of one reply to `judged`: one for each criterion of the request.

    If the request was a repair (a second attempt after a reply that could not be read), its judgement
    replaces the earlier one, and has the usage of both requests.

    Args:
        request: the request that was sent.
        completion: the judge's reply.
        material: the texts that the judge saw.
        judged: receives the judgements.
        model: the name of the judge, for a completion that names no model.

    Returns:
        criterion -> problem, for verdicts that could not be read.
    """
    # criterion -> its score (unscored if its verdict could not be read), and criterion -> problem
    score_of, problem_of = _score_completion(request, completion, material)
    for number, criterion in enumerate(request.criteria):
        scored = score_of[criterion.name]
        explanation = scored.explanation
        length = len(material.answer)
        if "answer" in criterion.shows and length > MAX_ANSWER:
            note = f"Judged by the first {MAX_ANSWER} of {length} characters."
            explanation = f"{note}\n{explanation}"
        # the usage of a request counts once, at its first criterion
        usage = (replace(completion, text=""),) if number == 0 else ()  # the text is in `response`
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
        is_repair = key in judged  # the first reply could not be read
        if is_repair:
            judgement = _join_repair(judged[key], judgement)
        judged[key] = judgement
    return problem_of


def _join_repair(earlier: Judgement, repair: Judgement) -> Judgement:
    """Return the judgement of a repair with the prompt of the first request, both replies, and the
    usage of both requests.
    """
    return replace(
        repair,
        prompt=earlier.prompt,
        response=f"{earlier.response}{_BETWEEN}{repair.response}",
        usage=earlier.usage + repair.usage,
    )


def _score_completion(
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
    # criterion -> its verdict, or the error with the reason why it cannot be read
    is_cut = completion.finish == "length"
    verdicts = read_verdicts(completion.text, request.criteria, cut=is_cut, material=material.texts)
    score_of = {}
    problem_of = {}
    for criterion in request.criteria:
        name = criterion.name
        try:
            score_of[name] = _score_verdict(verdicts[name], criterion, material)
        except UnreadableError as exc:
            note = " (it was cut at max_tokens)" if is_cut else ""
            problem_of[name] = f"{exc}{note}"
            explanation = f"the judge's reply could not be read: {problem_of[name]}"
            score_of[name] = Scored(None, explanation, "unreadable")
    return score_of, problem_of


def _score_verdict(
    verdict: BaseModel | UnreadableError, criterion: Criterion, material: Material
) -> Scored:
    """Return the score of a verdict; raises UnreadableError if it could not be read, or is incomplete."""
    if isinstance(verdict, UnreadableError):
        raise verdict
    # a verdict refers to documents and facts by their numbers in the request
    names, texts = _numbered_parts(criterion, material)
    return score(verdict, names, texts)


def _numbered_parts(
    criterion: Criterion, material: Material
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the texts of the documents that a verdict refers to by their numbers; for the
    form "facts", the facts as names, and no texts.
    """
    if criterion.form == "facts":
        return material.facts, ()
    if criterion.form in SUPPORT_FORMS and material.history:
        # the earlier turns of a conversation count as the last document
        turns = "\n".join(message["content"] for message in material.history)
        return (*material.chunk_ids, _TURNS), (*material.documents, turns)
    return material.chunk_ids, material.documents
