"""Which differences from a baseline are shown, and their forest plot: its scale, and the plot as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.evaluation.records import Change, Report
from ragbench.registry import bounds_of, perspective_of
from ragbench.report.evaluation.sentences import brief_measures

CHANGE_SIGNS = {"regression": "✗", "improvement": "✓"}


def shown_changes(report: Report, *, every: bool = True) -> list[Change]:
    """The rows of the comparison: regressions first, then improvements, then the others.

    Without `every`, the others are only those of the brief table.
    """
    changes = report.comparison.changes if report.comparison is not None else ()
    brief = {row.measure for rows in brief_measures(report).values() for row in rows}
    order = {verdict: place for place, verdict in enumerate(CHANGE_SIGNS)}
    kept = [one for one in changes if every or one.measure in brief or one.verdict in CHANGE_SIGNS]
    return sorted(kept, key=lambda one: order.get(one.verdict, len(order)))


def plotted(changes: Sequence[Change]) -> list[Change]:
    """The changes that a forest plot shows: those with an interval, of known measures that lie in [0, 1]."""
    known = [one for one in changes if perspective_of(one.measure) and None not in bounds_of(one.measure)]
    return [one for one in known if one.ci_low is not None and one.ci_high is not None]


def forest_scale(changes: Sequence[Change]) -> float:
    """The end of a forest plot's axis: its widest interval, rounded up to 1, 2 or 5 times a power of ten.

    >>> forest_scale([Change("RR", "retrieval", 0.6, 0.7, 0.1, -0.1, 0.34, 0.4, 0.2, 20, 5, 3, "")])
    0.5
    """
    ends = [abs(end) for one in changes for end in (one.ci_low, one.ci_high, one.difference) if end is not None]
    furthest = min(max([*ends, 0.01]), 1.0)
    power = 10.0 ** math.floor(math.log10(furthest))
    return next(round(step * power, 10) for step in (1, 2, 5, 10) if step * power >= furthest - 1e-12)


def forest_lines(changes: Sequence[Change], width: int = 41) -> list[str]:
    """A forest plot as text: a line for each measure, with its difference in its interval, then the axis.

    >>> one = Change("RR", "retrieval", 0.6, 0.7, 0.1, -0.1, 0.3, 0.4, 0.2, 20, 5, 3, "")
    >>> for line in forest_lines([one], width=21):
    ...     print(line)
    RR         --│-●----
       -0.5      0       0.5
    """
    rows = plotted(changes)
    if not rows:
        return []
    end, label = forest_scale(rows), max(len(one.measure) for one in rows)

    def place(value: float | None) -> int:
        return round((min(max((value or 0.0) / end, -1.0), 1.0) + 1) / 2 * (width - 1))

    lines = []
    for one in rows:
        low, high = place(one.ci_low), place(one.ci_high)
        line = [" "] * low + ["-"] * (high - low + 1) + [" "] * (width - high - 1)
        line[place(0.0)] = "│"
        line[place(one.difference)] = "●"
        lines.append(f"{one.measure:<{label}} {''.join(line)}".rstrip())
    half = (width - 1) // 2
    return [*lines, f"{'':<{label}} {f'{-end:g}':<{half}}0{f'{end:g}':>{half}}"]
