"""`judge`: which answers a judge is asked about, and which are judged without it (failed, empty or
abstaining ones; criteria that are functions); warnings about the judge.
"""

import re
from collections.abc import Sequence
from typing import Any

from ragbench import llms
from ragbench.errors import ConfigError, DataError, JudgeWarning, unknown, warn_user
from ragbench.extension import object_name, returned_number
from ragbench.hints.calls import explaining_calls
from ragbench.judges.criterion import CRITERIA, SUPPORT_FORMS, Criterion, load_criteria
from ragbench.judges.judge_requests import JudgeTask, request_judgements
from ragbench.judges.material import Material, materials_of
from ragbench.llms.providers import OWN_PREFIXES
from ragbench.llms.reply_text import read_outcome
from ragbench.types import GUARDRAIL_BLOCKED, LLM, Answer, Case, Chunk, Dataset, Judgement, LLMLike


@explaining_calls(
    "rb.judge(result.answers, criterion, llm, dataset=data, chunks=chunks); of rows in hand "
    "rb.evaluate(rows, judge='provider:model', criteria=[criterion])"
)
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

    A judgement with another `state` than "scored" has the value None, with one exception:

    - "generation_failed": the answer failed. "abstained": it is empty, an abstention or a refusal. Both
      only by criteria that look at the answer, which "context_recall" and "context_precision" do not.
    - "no_reference": the question lacks the reference answer or the facts that the criterion needs.
    - "retrieval_empty": nothing was retrieved, and the criterion needs contexts. The exception: by
      "context_recall" and "context_precision" the value is 0.
    - "unreadable": the judge's reply cannot be read, also after one attempt at repair.
    - "judge_failed": the judge returned no reply.
    - "excluded": the verdict is a level without a value, such as a wrong reference ("correctness").
    - "no_claims": the answer has no claim ("faithfulness").

    No request is sent for the first four.

    Args:
        answers: from `generate_answers` or any system; several answers to one question are allowed.
        criterion: one or several of the criteria above, or your own in any form that `Criterion` and
            `load_criteria` describe.
        llm: the judge: a name such as "anthropic:<model>", or an `LLM`. A JudgeWarning is issued if
            it also wrote the answers, because models prefer their own. Criteria that are functions
            need no judge.
        dataset: the questions and reference answers.
        chunks: the chunks that the answers' contexts name; not used by "correctness" and "relevance".
        combine_criteria: ask about all criteria of an answer in one request. Correctness, faithfulness
            and relevance then take about a sixth fewer tokens, but verdicts influence each other
            (halo), and a reply that is cut loses all of them.
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
    # a function may look at the contexts: it gets them if the chunks are here
    needs_contexts = shows_contexts or (has_function and bool(chunks))
    materials = materials_of(answers, dataset, chunks, contexts=needs_contexts)
    model = _judging_model(criteria, llm)
    if model is not None and not allow_same_model:
        warn_of_same_model(answers, model)

    cases = dataset.case_of
    judgement_of: dict[tuple[int, str], Judgement] = {}  # by position of the answer and criterion
    tasks: list[JudgeTask] = []
    for i, (answer, material) in enumerate(zip(answers, materials, strict=True)):
        for_judge = []  # the criteria that need a request
        for each in criteria:
            judgement = _judge_without_model(answer, material, each, cases[answer.query_id])
            if judgement is None:
                for_judge.append(each)
            else:
                judgement_of[i, each.name] = judgement
        if combine_criteria and for_judge:
            tasks.append(JudgeTask(i, tuple(for_judge)))
        else:
            tasks += [JudgeTask(i, (each,)) for each in for_judge]
    if model is not None:
        judged = request_judgements(
            model, tasks, materials, concurrency=concurrency, timeout_s=timeout_s
        )
        # a request that is repeated has several samples; here each has one
        for (i, name, _sample), judgement in judged.items():
            judgement_of[i, name] = judgement
    # by answer, then in the order of the criteria
    judgements = []
    for i in range(len(answers)):
        judgements += [judgement_of[i, each.name] for each in criteria]
    _warn_of_unscored(judgements, criteria)
    return judgements


def _judging_model(criteria: Sequence[Criterion], llm: LLMLike | None) -> LLM | None:
    """Load the judge; return None if all criteria are functions, which need no judge.

    Raises:
        ConfigError: a criterion needs a judge and none is named.
    """
    names = [criterion.name for criterion in criteria if criterion.function is None]
    if not names:
        return None
    if llm is None or llm == "":
        raise ConfigError(f"criterion {names[0]!r} is judged by a language model; name one")
    return llms.load_llm(llm)


def _warn_of_unscored(judgements: Sequence[Judgement], criteria: Sequence[Criterion]) -> None:
    """Warn of requests without a reply and of unreadable replies, with the first of each kind."""
    by_function = [criterion.name for criterion in criteria if criterion.function is not None]
    for state in ("judge_failed", "unreadable"):
        unscored = [judgement for judgement in judgements if judgement.state == state]
        if unscored:
            first = unscored[0]
            expected = ""
            if state == "unreadable" and first.criterion not in by_function:
                expected = '; expected the JSON object that the prompt asks for, such as {"verdict": "yes"}'
            warn_user(
                f"{len(unscored)} of {len(judgements)} judgements are unscored, {state}; the "
                f"first, {first.criterion} of query {first.query_id!r}: {first.explanation}{expected}"
            )


def _judge_without_model(
    answer: Answer, material: Material, criterion: Criterion, case: Case
) -> Judgement | None:
    """Return the judgement of an answer that needs no model: since nothing can be judged, or by the
    criterion's function; None if a model is needed.
    """
    judgement = _judge_without_request(answer, material, criterion)
    if judgement is None and criterion.function is not None:
        return _judge_by_function(criterion, case, answer, material)
    return judgement


def _judge_by_function(
    criterion: Criterion, case: Case, answer: Answer, material: Material
) -> Judgement:
    """Return the judgement of a criterion that is a function.

    Its state is "scored"; "excluded" if the function returns None; "judge_failed" if it raises; and
    "unreadable" if its value is not a number from 0 to 1.
    """
    model = f"function {object_name(criterion.function)}"
    try:
        value, reason = computed_value(criterion, case.query_id, case, answer, material.documents)
    except DataError as exc:
        has_raised = exc.__cause__ is not None  # else the error is about the returned value
        return Judgement(
            case.query_id,
            criterion.name,
            None,
            str(exc),
            model=model,
            state="judge_failed" if has_raised else "unreadable",
            samples=(None,),  # one sample without a value
        )
    state = "excluded" if value is None else "scored"
    return Judgement(case.query_id, criterion.name, value, reason, model=model, state=state)


def computed_value(
    criterion: Criterion, query_id: str, case: Case, answer: Answer, contexts: Sequence[str]
) -> tuple[float | None, str]:
    """Call the function of a criterion, and return its value and its reason.

    The value is None if the function returns None; the reason is "" if it returns a value alone.

    Raises:
        DataError: the function fails, or returns something else than a number from 0 to 1, None or
            (value, reason).
    """
    where = f"criterion {criterion.name!r}, query {query_id!r}"
    function = criterion.function
    assert function is not None
    try:
        returned = function(case, answer, contexts)
    except Exception as exc:  # a user's function may fail in any way
        raise DataError(f"{where}: {type(exc).__name__}: {exc}") from exc
    if isinstance(returned, tuple) and len(returned) == 2:
        value, reason = returned
    else:
        value, reason = returned, ""
    if value is None:
        return None, str(reason)
    number = returned_number(value)  # NaN for a text, a list and the like
    is_in_range = 0 <= number <= 1  # False for NaN
    if not is_in_range:
        raise DataError(
            f"{where}: the function returned {returned!r}; expected a value from 0 to 1, None, or "
            "(value, reason)"
        )
    return number, str(reason)


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
    for_judge = []
    for answer, material in zip(answers, materials, strict=True):
        if _judge_without_request(answer, material, criterion) is None:
            for_judge.append(material)
    return for_judge


def _judge_without_request(
    answer: Answer, material: Material, criterion: Criterion
) -> Judgement | None:
    """Return the judgement of an answer if no judge is needed for it; None if a judge is needed.

    A failed answer, an abstention, and an answer without the reference or facts that the criterion needs
    get no score. If nothing was retrieved and the criterion needs contexts, the score is 0 by a criterion
    about the contexts alone; a criterion about the answer gives no score.
    """

    def unscored(state: str, explanation: str) -> Judgement:
        """Return a judgement without a value."""
        return Judgement(answer.query_id, criterion.name, None, explanation, state=state)

    # the text of the answer does not matter to a criterion about the contexts alone
    is_of_answer = criterion.about == "answer"
    if is_of_answer and answer.failed:
        reason = answer.error or "no reason is given"
        return unscored("generation_failed", f"the answer failed: {reason}")
    why_no_answer = no_answer(answer) if is_of_answer else ""
    if why_no_answer:
        return unscored("abstained", why_no_answer)
    if "reference" in criterion.needs and material.reference is None:
        return unscored("no_reference", "the question has no reference answer")
    if "facts" in criterion.needs and not material.facts:
        return unscored("no_reference", "the question has no vital facts")
    # a claim or statement may also be supported by the earlier turns of a conversation
    has_supporting_turns = criterion.form in SUPPORT_FORMS and bool(material.history)
    has_contexts = bool(material.documents) or has_supporting_turns
    if has_contexts or "contexts" not in criterion.needs:
        return None
    if is_of_answer:
        explanation = "nothing was retrieved, so nothing can support the answer"
        return unscored("retrieval_empty", explanation)
    explanation = "nothing was retrieved"
    return Judgement(answer.query_id, criterion.name, 0.0, explanation, state="retrieval_empty")


def no_answer(answer: Answer) -> str:
    """Return why the text of an `Answer` answers nothing (it is empty, a refusal or an abstention); "" if
    it is an answer.

    It is a refusal or an abstention if the system reports it, in `outcome` or `flags`, or if the text
    reads like it: "blocked" is a refusal, "no_results" an abstention.
    """
    if not answer.text.strip():
        return "the answer is empty"
    is_blocked_by_flag = GUARDRAIL_BLOCKED in answer.flags
    if answer.outcome in ("blocked", "no_results"):
        outcome = answer.outcome  # what the system reports counts more than the wording
    else:
        outcome = read_outcome(answer.text)
    if outcome == "blocked" or is_blocked_by_flag:
        return "the answer is a refusal"
    if outcome == "no_results":
        return "the answer is an abstention"
    return ""


def _bare_model_name(name: str) -> str:
    """Return a model's name without provider and date."""
    provider, _, model = name.partition(":")
    short = model if provider in OWN_PREFIXES else name
    return re.sub(r"(-latest|[-@]\d{8}|:latest)$", "", short.casefold())


def writer_among(answers: Sequence[Answer], judge: str) -> str:
    """Return the model of the answers that is the judge of this name; "" if the judge wrote none."""
    if judge.endswith("<lambda>"):  # the name that all functions without a name share
        return ""
    # names are compared without provider and date, which one of the two may lack
    writers = [answer.usage.model for answer in answers if answer.usage]
    writer_of_bare_name = {_bare_model_name(writer): writer for writer in writers}
    return writer_of_bare_name.get(_bare_model_name(judge), "")


def warn_of_same_model(answers: Sequence[Answer], llm: LLM) -> None:
    """Issue a JudgeWarning if the judge also wrote the answers."""
    if writer := writer_among(answers, llm.name):
        warn_user(
            f"the judge {llm.name!r} is the model that wrote the answers "
            f"({writer!r}), and models prefer their own answers; use another "
            "judge, or pass allow_same_model=True to study this",
            JudgeWarning,
        )
