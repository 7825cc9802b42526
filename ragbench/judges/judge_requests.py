"""Requests to a judge, with samples and one repair of each reply that cannot be read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    judged = ask(llm, _alone(materials, criterion), materials, n_samples, temperature, **options)
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
    judged = ask(llm, _alone(materials, criterion), materials, **asking)
    return [judged[i, criterion.name, 0] for i in range(len(materials))]


def _alone(
    materials: Sequence[Material], criterion: Criterion
) -> list[tuple[int, tuple[Criterion, ...]]]:
    return [(i, (criterion,)) for i in range(len(materials))]


def ask(
    llm: LLM,
    groups: Sequence[tuple[int, tuple[Criterion, ...]]],
    materials: Sequence[Material],
    n_samples: int = 1,
    temperature: float | None = None,
    **asking: Any,
) -> Judged:
    """Return the judgements by (number of the material, criterion, number of the sample).

    A reply that cannot be read is requested once more, with its problem; if the second reply cannot
    be read either, the judgement is unscored.

    Args:
        groups: (number of a material, the criteria to ask about in one request).
        materials: what the judge sees.
        n_samples: how often each request is sent.
        temperature: as in `verdicts`.
        asking: options of `generate_many`.
    """
    if temperature is None:
        temperature = SAMPLING_TEMPERATURE if n_samples > 1 else 0.0
    judged: Judged = {}
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
    request: _Request, completion: Completion, material: Material, judged: Judged, model: str
) -> dict[str, str]:
    """Add the judgements of one completion to `judged`; a repair is joined with the judgement of the
    first reply.

    Args:
        request: the request that was sent.
        completion: the judge's reply.
        material: what the judge saw.
        judged: receives the judgements.
        model: the name of the judge, for a completion that names no model.

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
    """Return the names and the texts of the parts that a verdict refers to by their numbers.

    These are the documents, by their ids; the earlier turns of a conversation count as the last one,
    for the forms that look for support. For the form "facts" the names are the facts, without texts.
    """
    if criterion.form == "facts":
        return material.facts, ()
    if criterion.form in SUPPORT_FORMS and material.history:
        turns = "\n".join(message["content"] for message in material.history)
        return (*material.chunk_ids, _TURNS), (*material.documents, turns)
    return material.chunk_ids, material.documents
