"""Which advice of advice.toml applies to a result, and the figures behind it.

These are the first things an experienced engineer would check, not proofs: only the next run shows
whether they help. Their rules and texts are in advice.toml.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from ragbench.errors import FailureKind
from ragbench.evaluation.records import Advice, MeasureResult
from ragbench.files import bundled
from ragbench.metrics.rates import wilson_interval
from ragbench.statistics.comparison import with_interval

_Figures = dict[str, list[str]]
_MAX_ABSTAINED = 0.1  # of the answerable questions; and of the unanswerable ones that are answered


def recommend(
    rows: Iterable[MeasureResult],
    abstentions: pd.DataFrame | None = None,
    failing: Sequence[str] = (),
    never_retrieved: Sequence[str] = (),
    failures: Sequence[FailureKind] = (),
    *,
    is_extractive: bool = False,
) -> tuple[Advice, ...]:
    """Return advice for one evaluated system, the earliest stage first; none where everything meets
    its target and no question failed.

    A rule of advice.toml names measures that must have missed, or met, their targets. It gives no advice
    if the advice of another rule, one that it lists as "unless", explains the figures already.

    Only measures that have a target and a mean count. If a target is missed, but lies within the
    interval of the mean, the evidence notes it. A target beyond the ceiling of its measure is reported
    as out of reach, and nothing else is concluded from missing it.

    Args:
        rows: the measures, compared with their targets.
        abstentions: as from `abstention_table`.
        failing: texts with the number of failed questions and their causes, for the advice that is
            given if there is no other.
        never_retrieved: texts that name a type of files of which no document is retrieved, with the
            number of questions that failed on it.
        failures: the kind of each failed request. The most frequent kind decides what is advised where
            questions have no answer: a higher maximum cost helps against other failures than a longer
            time-out.
        is_extractive: no language model wrote the answers. Then one advice, to ask a language model,
            takes the place of all advice about its instructions.

    >>> support = MeasureResult("claim_support", "groundedness", 0.6, 0.5, 0.7, 40, 50, target=0.85,
    ...                         verdict="missed")
    >>> recall = MeasureResult("R@5", "retrieval", 0.9, 0.8, 0.95, 50, 50, target=0.7, verdict="passed")
    >>> [advice] = recommend([recall, support])
    >>> advice.title
    'Answers state what their context does not support, although the context is good'
    >>> advice.evidence
    ('claim_support 0.600 [0.500, 0.700] < 0.85 (40 of 50 scored)', 'R@5 0.900 [0.800, 0.950] >= 0.7 (50 of 50 scored)')
    """
    # measure without its depth, or the name of a fault -> figures in words
    missed: _Figures = {} if abstentions is None else _faults_of_abstentions(abstentions)
    met: _Figures = {}
    for row in rows:
        if row.target is None or row.value is None:
            continue
        name = row.measure.partition("@")[0]
        text = figure(row)
        if row.verdict == "unreachable":
            name = "out_of_reach"
            text = f"{text}, ceiling {row.ceiling:.3f}"
        figures = met if row.verdict == "passed" else missed
        figures.setdefault(name, []).append(text)
    advice: dict[str, Advice] = {}
    if never_retrieved:
        advice["never_retrieved"] = _advice(_rules()["never_retrieved"], never_retrieved)
    for name, rule in _rules()["advice"].items():
        is_explained_already = not advice.keys().isdisjoint(rule.get("unless", ()))
        evidence = _evidence_for(rule, missed, met)  # [] if the rule does not apply
        if evidence and not is_explained_already:
            advice[name] = _advice(rule, evidence)
    if is_extractive:
        advice = _without_instructions(advice)
    if "failed" in advice and failures:
        [(kind, _)] = Counter(failures).most_common(1)
        action = _rules()["actions_after_failures"].get(kind, advice["failed"].action)
        advice["failed"] = replace(advice["failed"], action=action)
    if failing and not advice:
        advice["failing"] = _advice(_rules()["last_resort"], failing)
    return tuple(advice.values())


@cache
def _rules() -> dict[str, Any]:
    return bundled(__file__, "advice.toml")


def _advice(rule: Mapping[str, Any], evidence: Iterable[str]) -> Advice:
    return Advice(rule["title"], rule["cause"], rule["action"], tuple(evidence))


def _without_instructions(advice: Mapping[str, Advice]) -> dict[str, Advice]:
    """Return advice for a system without a language model: name of a rule -> advice.

    Advice about the instructions of a model is left out. If there was any, the last advice is to ask a
    model, with the figures of what is left out.
    """
    kept = {}
    figures: dict[str, None] = {}  # each once, in their order
    for name, each in advice.items():
        if _rules()["advice"].get(name, {}).get("instructs_model"):
            figures.update(dict.fromkeys(each.evidence))
        else:
            kept[name] = each
    if figures:
        kept["extractive"] = _advice(_rules()["extractive"], figures)
    return kept


def _evidence_for(rule: Mapping[str, Any], missed: _Figures, met: _Figures) -> list[str]:
    """Return the figures that show that a rule of advice.toml applies; [] if it does not.

    A rule applies if each of the lists that it has is fulfilled. A list names measures: of "missed" and of
    "also_missed" at least one must have missed its target, of "also_met" one must have met it.

    Args:
        rule: a table of advice.toml.
        missed, met: measure -> its figures in words.
    """
    evidence: list[str] = []
    for key, figures in (("missed", missed), ("also_missed", missed), ("also_met", met)):
        if key in rule:
            found = _figures_of(rule[key], figures)
            if not found:
                return []
            evidence += found
    return evidence


def _figures_of(names: Sequence[str], figures: _Figures) -> list[str]:
    """Return the figures of measures, or of all measures of a group that advice.toml defines."""
    groups = _rules()["groups"]
    found: list[str] = []
    for name in names:
        for measure in groups.get(name, (name,)):
            found += figures.get(measure, ())
    return found


def _faults_of_abstentions(abstentions: pd.DataFrame) -> dict[str, list[str]]:
    """Return the faults that a table of abstentions shows: the name of a fault in advice.toml -> its
    figures; {} if there is no fault.
    """
    counts = abstentions.astype(int).to_dict("index")
    answerable = counts["answerable"]
    unanswerable = counts["unanswerable"]
    n_answerable = sum(answerable.values())
    n_unanswerable = sum(unanswerable.values())
    faults = {}
    n_failed = answerable["failed"] + unanswerable["failed"]
    if n_failed:
        n_questions = n_answerable + n_unanswerable
        faults["failed"] = [f"{n_failed} of {n_questions} questions failed"]
    n_abstained = answerable["abstained"]
    if n_abstained > _MAX_ABSTAINED * n_answerable:
        rate = _rate(n_abstained, n_answerable, "answerable questions abstained from")
        faults["abstained"] = [rate]
    n_answered = unanswerable["answered"]
    if n_answered > _MAX_ABSTAINED * n_unanswerable:
        rate = _rate(n_answered, n_unanswerable, "unanswerable questions answered")
        faults["answered_anyway"] = [rate]
    return faults


def _rate(count: int, n: int, noun: str) -> str:
    """Return a rate above `_MAX_ABSTAINED` in words, with its interval."""
    low, high = wilson_interval(count, n)
    return f"{count} of {n} {noun}: {count / n:.3f} [{low:.3f}, {high:.3f}] > {_MAX_ABSTAINED:g}"


def figure(row: MeasureResult) -> str:
    """Return a measure next to its target in words, with its interval and the number of scored
    questions, such as "R@5 0.900 [0.800, 0.950] >= 0.7 (50 of 50 scored)". The row has a target.
    """
    assert row.target is not None
    passed = row.verdict == "passed"
    if row.lower_is_better:
        sign = "<=" if passed else ">"
    else:
        sign = ">=" if passed else "<"
    doubt = ""
    if not passed and row.sure is False:
        doubt = "; the interval includes the target: evaluate more questions"
    value = with_interval(row.value, row.ci_low, row.ci_high)
    return f"{row.measure} {value} {sign} {row.target:g} ({row.n_scored} of {row.n} scored{doubt})"
