"""What a report says in words, the same in Markdown, HTML and on the console. Every sentence is computed from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragbench.report.evaluation.measures import HEADLINE
from ragbench.report.evaluation.records import CaseResult, Change, MeasureResult, Report

SIGNS = {"passed": "✓", "missed": "✗", "unreachable": "⊘", "unscored": "?", "no target": "·"}
"""A sign for each verdict, so that none is told by its colour alone."""


def banner(report: Report) -> tuple[str, str]:
    """The verdict in a word, and the sentence behind it.

    "passed", "failed", or "no verdict" where there was neither a target to reach nor a baseline to hold.
    """
    counts = Counter(row.verdict for row in report.measures)
    said = []
    if aimed := counts["passed"] + counts["missed"]:
        said.append(f"{counts['passed']} of {aimed} targets reached")
        if counts["missed"]:
            said[-1] += f", missed: {', '.join(report.missed)}"
    if counts["unreachable"]:
        said.append(f"{plural(counts['unreachable'], 'target')} beyond the ceiling of this test set")
    if counts["unscored"]:
        said.append(f"{plural(counts['unscored'], 'target')} without anything to score")
    if report.comparison is not None:
        worse = report.comparison.regressions
        said.append(f"{plural(len(worse), 'regression')}: {', '.join(worse)}" if worse else "no regression")
    sentence = "; ".join(said)
    if not aimed and report.comparison is None:
        return "no verdict", f"{sentence or 'No target applies to what was measured'}."
    return ("passed" if report.passed else "failed"), f"{sentence[:1].upper()}{sentence[1:]}."


def shown_measures(report: Report, *, every: bool = False) -> dict[str, list[MeasureResult]]:
    """Perspective -> the rows of the table: the headline measures and those with a target, or every one.

    A measure that nothing was scored by is left out unless a target wants it.
    """
    places = {name: i for i, name in enumerate(HEADLINE)}
    table: dict[str, list[MeasureResult]] = {}
    for perspective in report.perspectives:
        rows = [row for row in report.measures if row.perspective == perspective.name]
        kept = [
            row
            for row in rows
            if row.target is not None
            or (row.n_scored and (every or row.measure in places or row.measure[:4] == "llm_"))
        ]
        table[perspective.name] = sorted(kept, key=lambda row: places.get(row.measure, len(places)))
    return table


def failed_cases(report: Report) -> list[CaseResult]:
    """The cases that did not pass, most reasons first, then in the order of the test set."""
    return sorted((case for case in report.cases if case.passed is False), key=lambda case: -len(case.reasons))


def number(value: float | None) -> str:
    """A number for readers: three decimals, fewer for large ones, a dash for none.

    >>> number(0.61249), number(3.0), number(1234.5), number(None)
    ('0.612', '3.000', '1234', '–')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.0f}"


def aim(target: float | None, lower_is_better: bool) -> str:
    """A target with its direction.

    >>> aim(0.6, False), aim(3.0, True), aim(None, False)
    ('≥ 0.6', '≤ 3', '–')
    """
    return "–" if target is None else f"{'≤' if lower_is_better else '≥'} {target:g}"


def interval(low: float | None, high: float | None) -> str:
    """An interval, "" where there is none.

    >>> interval(0.1, 0.25)
    '[0.100, 0.250]'
    """
    return "" if low is None or high is None else f"[{number(low)}, {number(high)}]"


def sureness(row: MeasureResult) -> str:
    """Whether the verdict could be another with other questions of the kind; "" where that cannot be said.

    >>> sureness(MeasureResult("RR", "retrieval", 0.7, 0.5, 0.8, 9, 9, target=0.6, verdict="passed", sure=False))
    'not sure: the target lies in the interval'
    """
    if row.sure is None or row.verdict not in ("passed", "missed"):
        return ""
    return "" if row.sure else "not sure: the target lies in the interval"


def change_sentence(change: Change) -> str:
    """A difference in words: by how much, how sure, on how many cases."""
    sign = "" if change.difference is None or change.difference < 0 else "+"
    bounds = interval(change.ci_low, change.ci_high)
    p = "" if change.p_adjusted is None else f", p = {change.p_adjusted:.3f} (Holm)"
    return (
        f"{change.measure}: {number(change.baseline)} → {number(change.contender)} "
        f"({sign}{number(change.difference)} {bounds}{p}; {change.better} better, {change.worse} worse of {change.n})"
    )


def plural(count: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "question"), plural(0, "question")
    ('1 question', '0 questions')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names in a sentence, the first few of many.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
