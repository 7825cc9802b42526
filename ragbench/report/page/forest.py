"""Which differences from a baseline are shown, and the scale of their forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.evaluation import Result
from ragbench.evaluation.records import Change
from ragbench.registry import bounds_of, perspective_of
from ragbench.report.page.sentences import brief_measures

CHANGE_SIGNS = {"regression": "✗", "improvement": "✓"}


def shown_changes(result: Result, *, every: bool = True) -> list[Change]:
    """Return the rows of the comparison: regressions first, then improvements, then the others.

    Without `every`, the others are only those of the brief table.
    """
    changes = result.comparison.changes if result.comparison is not None else ()
    brief = {row.measure for rows in brief_measures(result).values() for row in rows}
    order = {verdict: rank for rank, verdict in enumerate(CHANGE_SIGNS)}
    kept = [
        change
        for change in changes
        if every or change.measure in brief or change.verdict in CHANGE_SIGNS
    ]
    return sorted(kept, key=lambda change: order.get(change.verdict, len(order)))


def plotted(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that a forest plot shows: those with an interval, of known measures that
    lie in [0, 1].
    """
    bounded = [
        change
        for change in changes
        if perspective_of(change.measure) and None not in bounds_of(change.measure)
    ]
    return [
        change for change in bounded if change.ci_low is not None and change.ci_high is not None
    ]


def forest_scale(changes: Sequence[Change]) -> float:
    """Return the end of a forest plot's axis around 0: the first of 1, 2 or 5 times a power of ten
    that its widest interval does not pass, from 0.01 to 1.

    >>> forest_scale([Change("RR", "retrieval", 0.6, 0.7, 0.1, -0.1, 0.34, 0.4, 0.2, 20, 5, 3, "")])
    0.5
    """
    ends = [(change.ci_low, change.ci_high, change.difference) for change in changes]
    furthest = max([abs(end) for row in ends for end in row if end is not None], default=0.01)
    power = 10.0 ** math.floor(math.log10(max(furthest, 0.01)))
    steps = (round(step * power, 10) for step in (1, 2, 5, 10))
    return min(next(step for step in steps if step >= furthest - 1e-12), 1.0)
