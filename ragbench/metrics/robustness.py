"""Robustness: did the answers after an intervention meet the labels of the changed questions, and
when that is not decided?
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from ragbench.metrics.answer_similarity import gold_fact_coverage, score_judgements, token_f1
from ragbench.metrics.tidy import answered_cases, score_frame, wording
from ragbench.testsets.interventions import expectation
from ragbench.types import Answer, Case, Dataset, Judgement

_RIGHT = 0.5


def score_interventions(
    dataset: Dataset,
    answers: Sequence[Answer],
    variations: Mapping[str, tuple[Sequence[Case], Sequence[Answer]]],
    judgements: Mapping[str, Sequence[Judgement]],
) -> pd.DataFrame:
    """Score the answers after interventions: query_id, measure, value.

    "robust:<name>" is 1 if the answer meets the labels of the changed question, 0 if not, and unscored
    (NaN) if this shows nothing. The first rule that applies decides:

    1. A failed request is unscored.
    2. If the expected outcome is "no_results", the answer has to abstain.
    3. It must not state a forbidden claim. If this is the only label, nothing else is asked.
    4. If the expected outcome is "uncertain", an abstention is right.
    5. If no label and no judge states whether the answer is correct, it is unscored.
    6. If the intervention changes the gold facts or the reference answer, the answer has to be correct by
       the changed ones. An abstention is unscored where the answer was not correct before.
    7. Else an answer that was correct before has to be correct again. One that was wrong before is
       unscored; but it is 0 if it becomes correct where the intervention expects "the same answer".

    An answer is correct if the first known one of llm_correctness, gold_fact_coverage and token_f1 is at
    least 0.5.

    "correct:<name>" is 1 if the answer is correct by the question's own labels, else 0;
    "correct:untouched" is the same for the answers without an intervention. So answers can be compared
    on the same questions: with perfect retrieval ("gold-only"), from memory, without documents
    ("empty"), and with contexts that state something else ("swap-number").

    Args:
        answers: the answers without an intervention.
        variations: name of the intervention -> changed cases and their answers, one each.
        judgements: name -> judgements of these answers; "untouched" has the judgements of the
            untouched answers.

    >>> from ragbench.types import Case
    >>> data = Dataset("demo", "test", {}, [Case("q", "When?", gold_facts=(("1889",),))], {})
    >>> changed = Case("q", "When?", gold_facts=(("1902",),))
    >>> swapped = {"swap-number": ([changed], [Answer("q", "In 1889.")])}
    >>> score_interventions(data, [Answer("q", "In 1889.")], swapped, {}).tail(1).values.tolist()
    [['q', 'robust:swap-number', 0.0]]
    """
    if not variations:
        return score_frame(())
    original_of = dataset.case_of
    correct_before = _correct_answers(dataset, answers, judgements.get("untouched", ()))
    rows: list[tuple[str, str, float]] = []
    for query_id, is_correct in correct_before.items():
        rows.append((query_id, "correct:untouched", is_correct))
    for name, (cases, varied) in variations.items():
        judged = judgements.get(name, ())
        # The judge saw the labels of the changed questions. Its verdict counts for "correct:" only where
        # these are the labels of the original question, too.
        same_labels = set()
        for case in cases:
            if _answer_labels(case) == _answer_labels(original_of[case.query_id]):
                same_labels.add(case.query_id)
        judged_alike = [judgement for judgement in judged if judgement.query_id in same_labels]
        for query_id, is_correct in _correct_answers(dataset, varied, judged_alike).items():
            rows.append((query_id, f"correct:{name}", is_correct))

        # "robust:" is by the labels of the changed questions
        changed = replace(dataset, cases=cases, qrels={})
        correct_after = _correct_answers(changed, varied, judged)
        expects_same_answer = expectation(name) == "the same answer"
        for case, answer in zip(cases, varied, strict=True):
            value = _robustness(
                case,
                answer,
                was_correct=correct_before.get(case.query_id, False),
                is_correct=correct_after.get(case.query_id),
                has_same_labels=case.query_id in same_labels,
                expects_same_answer=expects_same_answer,
            )
            rows.append((case.query_id, f"robust:{name}", value))
    return score_frame(rows)


def _answer_labels(case: Case) -> tuple[object, object]:
    """Return the gold facts and the reference answer of a question; both are empty if no label states
    the right answer.
    """
    return case.gold_facts, case.reference_answer


def _robustness(
    case: Case,
    answer: Answer,
    *,
    was_correct: bool,
    is_correct: bool | None,
    has_same_labels: bool,
    expects_same_answer: bool,
) -> float:
    """Return 1.0 if an answer meets the labels of a changed question, 0.0 if not, NaN if the labels do not
    decide it or the request failed.

    Args:
        case: the question with its labels after the intervention.
        answer: the answer after the intervention.
        was_correct: True if the answer before the intervention was correct; False also if the labels
            did not decide that.
        is_correct: True if the answer is correct by the changed labels; None if they do not decide it.
        has_same_labels: True if the intervention leaves gold facts and reference answer as they were.
        expects_same_answer: True if the intervention expects the same answer.
    """
    if answer.failed:
        return math.nan
    # labels that decide by themselves, without regard to the answer before
    if case.expected_outcome == "no_results":
        return float(answer.abstained)
    if any(claim.casefold() in answer.text.casefold() for claim in case.forbidden_claims):
        return 0.0
    if case.expected_outcome == "uncertain" and answer.abstained:
        return 1.0
    # with forbidden claims as the only label, an answer without them is right
    if not case.gold_facts and not case.reference_answer and case.forbidden_claims:
        return 1.0
    if is_correct is None:
        return math.nan
    # the right answer has changed with the question
    if not has_same_labels:
        # abstaining shows nothing if the answer was not known before
        shows_nothing = answer.abstained and not was_correct
        return math.nan if shows_nothing else float(is_correct)
    # the right answer is as before: a question shows robustness if it was answered correctly
    if was_correct:
        return float(is_correct)
    if is_correct and expects_same_answer:
        return 0.0  # it was to stay wrong
    return math.nan  # wrong before, so that a wrong answer now shows nothing


def _correct_answers(
    dataset: Dataset, answers: Sequence[Answer], judgements: Sequence[Judgement]
) -> dict[str, bool]:
    """Return query_id -> True if the answer is correct, else False, by the first rule that applies:

    1. An abstention on an answerable question with gold facts or a reference answer is wrong.
    2. A judge's verdict, llm_correctness, must be at least 0.5.
    3. gold_fact_coverage must be at least 0.5; without gold facts, token_f1 with the reference answer.

    Failed requests are left out, and questions to which no rule applies, such as unanswerable ones that
    no judge scored.
    """
    by_labels: dict[str, bool] = {}
    for query_id, (case, answer) in answered_cases(dataset, answers).items():
        text = wording(answer)
        reference = case.reference_answer or ""
        if case.gold_facts:
            by_labels[query_id] = gold_fact_coverage(text, case.gold_facts) >= _RIGHT
        elif reference.strip():
            by_labels[query_id] = token_f1(text, reference) >= _RIGHT
    judged = score_judgements(judgements).query("measure == 'llm_correctness'").dropna()
    by_judge = dict(zip(judged["query_id"], judged["value"] >= _RIGHT, strict=True))
    abstained = {answer.query_id for answer in answers if answer.abstained}
    wrong_abstentions = {}
    for case in dataset.cases:
        has_answer = case.answerable and any(_answer_labels(case))
        if has_answer and case.query_id in abstained:
            wrong_abstentions[case.query_id] = False
    return by_labels | by_judge | wrong_abstentions  # the later one decides
