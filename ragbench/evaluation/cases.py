"""Whether a single question passed, and if not, why in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragbench.metrics.answers import missing_keywords, stated_facts
from ragbench.report.evaluation import failing, missed_reason
from ragbench.types import Answer, Case, Dataset

_ERROR = 200  # characters of a system's error that a reason repeats


def decide(
    dataset: Dataset,
    answers: Mapping[str, Answer],
    scores: Mapping[str, Mapping[str, float | None]],
    thresholds: Mapping[str, float],
) -> dict[str, tuple[bool | None, tuple[str, ...]]]:
    """query_id -> whether the case passed, and each reason why not. None where no threshold could be applied.

    >>> case = Case("q1", "When?", required_keywords=("1889", "Paris"))
    >>> answer = Answer("q1", "In Paris.")
    >>> data = Dataset("demo", "test", {}, [case], {})
    >>> decide(data, {"q1": answer}, {"q1": {"keyword_coverage": 0.5}}, {"keyword_coverage": 0.6})
    {'q1': (False, ('keyword coverage 0.50 < 0.60; missing keywords: 1889',))}
    """
    decided: dict[str, tuple[bool | None, tuple[str, ...]]] = {}
    for case in dataset.cases:
        missed = failing(scores.get(case.query_id, {}), thresholds)
        if missed is None:
            decided[case.query_id] = (None, ())
        else:
            answer = answers.get(case.query_id) or Answer(case.query_id, "", outcome="failed", error="no answer")
            decided[case.query_id] = (not missed, _reasons(case, answer, missed, thresholds))
    return decided


def _reasons(
    case: Case, answer: Answer, missed: Mapping[str, float], thresholds: Mapping[str, float]
) -> tuple[str, ...]:
    if not missed:
        return ()
    reasons = []
    if answer.error is not None or answer.outcome == "failed":
        reasons.append(f"the system failed: {' '.join((answer.error or 'no reason given').split())[:_ERROR]}")
    for name, value in missed.items():
        own = _IN_WORDS.get(name)
        said = own(case, answer) if own is not None else ""
        if own is None or name in _WITH_FIGURE:
            said = "; ".join(filter(None, (missed_reason(name, value, thresholds), said)))
        if said and not (reasons and name in ("answered", "outcome_correct") and reasons[0].startswith("the system")):
            reasons.append(said)
    return tuple(reasons) or ("the system failed",)


def _keywords(case: Case, answer: Answer) -> str:
    missing = missing_keywords(answer.text, case.required_keywords)
    return f"missing keywords: {_some(missing)}" if missing else ""


def _facts(case: Case, answer: Answer) -> str:
    held = stated_facts(answer.text, case.gold_facts)
    missing = [fact[0] for fact, there in zip(case.gold_facts, held, strict=True) if not there]
    return f"missing facts: {_some(missing)}" if missing else ""


def _answered(case: Case, answer: Answer) -> str:
    return f"no answer given (outcome {answer.outcome or 'unknown'}) although there is one"


def _outcome(case: Case, answer: Answer) -> str:
    return f"outcome {answer.outcome or 'unknown'} where {case.expected_outcome} is expected"


def _required(case: Case, answer: Answer) -> str:
    return f"missing flags: {_some([flag for flag in case.required_flags if flag not in answer.flags])}"


def _forbidden(case: Case, answer: Answer) -> str:
    return f"forbidden flags raised: {_some([flag for flag in case.forbidden_flags if flag in answer.flags])}"


def _citations(case: Case, answer: Answer) -> str:
    return f"{len(answer.citations)} citations where {case.min_citations} are the least"


def _latency(case: Case, answer: Answer) -> str:
    over = [
        f"{stage} {answer.latency_ms[stage]:.0f} ms > {budget:.0f} ms"
        for stage, budget in case.latency_budget_ms.items()
        if answer.latency_ms.get(stage, 0.0) > budget
    ]
    return f"too slow: {_some(over)}"


def _success(case: Case, answer: Answer) -> str:
    return "nothing relevant in the first 5 retrieved"


_IN_WORDS: dict[str, Callable[[Case, Answer], str]] = {
    "keyword_coverage": _keywords,
    "contains_all": _keywords,
    "gold_fact_coverage": _facts,
    "answered": _answered,
    "outcome_correct": _outcome,
    "required_flags": _required,
    "forbidden_flags_absent": _forbidden,
    "min_citations": _citations,
    "latency_in_budget": _latency,
    "Success@5": _success,
}
_WITH_FIGURE = frozenset({"keyword_coverage", "gold_fact_coverage"})


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
