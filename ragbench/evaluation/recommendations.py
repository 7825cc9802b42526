"""Likely causes and their remedies, from the pattern of missed targets, with the figures behind each
recommendation.

These are the first things an experienced engineer would check, not proofs: only the next run shows
whether they help. Their rules and texts are in advice.toml.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pandas as pd

from ragbench.evaluation.records import Advice, MeasureResult
from ragbench.files import bundled
from ragbench.metrics.rates import wilson_interval
from ragbench.statistics.comparison import with_interval

_MAX_ABSTAINED = 0.1  # of the answerable questions; and of the unanswerable ones that are answered


def recommend(
    rows: Iterable[MeasureResult],
    abstentions: pd.DataFrame | None = None,
    failing: Sequence[str] = (),
    never_retrieved: Sequence[str] = (),
) -> tuple[Advice, ...]:
    """Return advice for one evaluated system, the earliest stage first; none where everything meets
    its target and no question failed.

    Only measures that have a target and a mean count. Where the interval reaches a missed target
    nevertheless, the evidence notes it. A target beyond its ceiling is reported as out of reach,
    and nothing else is concluded from missing it.

    Args:
        rows: the measures, compared with their targets.
        abstentions: as from `abstention_table`.
        failing: texts with the number of failed questions and their causes, for the advice that is
            given if there is no other.
        never_retrieved: texts that name a type of files of which no document is retrieved, with the
            number of questions that failed on it.

    >>> support = MeasureResult("claim_support", "groundedness", 0.6, 0.5, 0.7, 40, 50, target=0.85,
    ...                         verdict="missed")
    >>> recall = MeasureResult("R@5", "retrieval", 0.9, 0.8, 0.95, 50, 50, target=0.7, verdict="passed")
    >>> [advice] = recommend([recall, support])
    >>> advice.title
    'Answers state what their context does not support, although the context is good'
    >>> advice.evidence
    ('claim_support 0.600 [0.500, 0.700] < 0.85 (40 of 50 scored)', 'R@5 0.900 [0.800, 0.950] >= 0.7 (50 of 50 scored)')
    """
    missed = {} if abstentions is None else _of_abstentions(abstentions)
    met: dict[str, list[str]] = {}
    for row in rows:
        if row.target is None or row.value is None:
            continue
        name = row.measure.partition("@")[0]
        text = figure(row)
        if row.verdict == "unreachable":
            name = "out_of_reach"
            text = f"{text}, ceiling {row.ceiling:.3f}"
        group = met if row.verdict == "passed" else missed
        group.setdefault(name, []).append(text)
    advice: dict[str, Advice] = {}
    if never_retrieved:
        entry = _table()["never_retrieved"]
        advice["never_retrieved"] = Advice(
            entry["title"], entry["cause"], entry["action"], tuple(never_retrieved)
        )
    for name, entry in _table()["advice"].items():
        evidence = _figures(missed, entry["missed"])
        is_explained = not advice.keys().isdisjoint(entry.get("unless", ()))  # by earlier advice
        if not evidence or is_explained:
            continue
        for key, figures in (("also_missed", missed), ("also_met", met)):
            if key in entry:
                others = _figures(figures, entry[key])
                evidence = [*evidence, *others] if others else []
        if evidence:
            advice[name] = Advice(entry["title"], entry["cause"], entry["action"], tuple(evidence))
    if failing and not advice:
        entry = _table()["last_resort"]
        advice["failing"] = Advice(entry["title"], entry["cause"], entry["action"], tuple(failing))
    return tuple(advice.values())


@cache
def _table() -> dict[str, Any]:
    return bundled(__file__, "advice.toml")


def _figures(figures: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    groups = _table()["groups"]
    measures = [measure for name in names for measure in groups.get(name, (name,))]
    return [text for measure in measures for text in figures.get(measure, ())]


def _of_abstentions(abstentions: pd.DataFrame) -> dict[str, list[str]]:
    """Return the faults that a table of abstentions shows: the name of a fault in the table of advice ->
    its figures; {} if there is no fault.
    """
    counts = abstentions.astype(int).to_dict("index")
    n_questions = {kind: sum(row.values()) for kind, row in counts.items()}
    figures = {}
    n_failed = sum(row["failed"] for row in counts.values())
    if n_failed:
        figures["failed"] = [f"{n_failed} of {sum(n_questions.values())} questions failed"]
    for name, kind, column, text in (
        ("abstained", "answerable", "abstained", "answerable questions abstained from"),
        ("answered_anyway", "unanswerable", "answered", "unanswerable questions answered"),
    ):
        count = counts[kind][column]
        n = n_questions[kind]
        if count > _MAX_ABSTAINED * n:
            low, high = wilson_interval(count, n)
            rate = f"{count / n:.3f} [{low:.3f}, {high:.3f}] > {_MAX_ABSTAINED:g}"
            figures[name] = [f"{count} of {n} {text}: {rate}"]
    return figures


def figure(row: MeasureResult) -> str:
    """Return a measure next to its target, with its interval and the number of scored questions."""
    assert row.target is not None
    missed = row.verdict != "passed"
    sign = ("<=", ">") if row.lower_is_better else (">=", "<")
    is_open = missed and row.sure is False
    doubt = "; the interval includes the target: evaluate more questions" if is_open else ""
    value = with_interval(row.value, row.ci_low, row.ci_high)
    return (
        f"{row.measure} {value} {sign[missed]} {row.target:g} "
        f"({row.n_scored} of {row.n} scored{doubt})"
    )
