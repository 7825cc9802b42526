"""Which differences from a baseline are shown, and their forest plot: its scale, and the plot as
text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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
    order = {verdict: place for place, verdict in enumerate(CHANGE_SIGNS)}
    kept = [one for one in changes if every or one.measure in brief or one.verdict in CHANGE_SIGNS]
    return sorted(kept, key=lambda one: order.get(one.verdict, len(order)))


def plotted(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that a forest plot shows: those with an interval, of known measures that
    lie in [0, 1].
    """
    known = [
        one for one in changes if perspective_of(one.measure) and None not in bounds_of(one.measure)
    ]
    return [one for one in known if one.ci_low is not None and one.ci_high is not None]


def forest_scale(changes: Sequence[Change]) -> float:
    """Return the end of a forest plot's axis: its widest interval, rounded up by `axis_end`.

    >>> forest_scale([Change("RR", "retrieval", 0.6, 0.7, 0.1, -0.1, 0.34, 0.4, 0.2, 20, 5, 3, "")])
    0.5
    """
    ends = [
        end
        for one in changes
        for end in (one.ci_low, one.ci_high, one.difference)
        if end is not None
    ]
    return min(axis_end(ends), 1.0)


def axis_end(values: Iterable[float]) -> float:
    """Return the end of an axis around 0 that shows these values: 1, 2 or 5 times a power of ten,
    at least 0.01.

    >>> axis_end([-0.1, 0.34]), axis_end([3.0]), axis_end([])
    (0.5, 5.0, 0.01)
    """
    furthest = max([abs(value) for value in values], default=0.01)
    power = 10.0 ** math.floor(math.log10(max(furthest, 0.01)))
    return next(
        round(step * power, 10) for step in (1, 2, 5, 10) if step * power >= furthest - 1e-12
    )


def forest_line(
    low: float,
    value: float,
    high: float,
    end: float,
    *,
    width: int = 41,
    dot: str = "●",
    empty: str = " ",
) -> str:
    """Draw one line of a forest plot as text, its axis from -end to end.

    >>> forest_line(-0.1, 0.1, 0.3, 0.5, width=11, empty="·")
    '····-│●--··'
    """

    def place(own: float) -> int:
        return round((min(max(own / end, -1.0), 1.0) + 1) / 2 * (width - 1))

    line = (
        [empty] * place(low)
        + ["-"] * (place(high) - place(low) + 1)
        + [empty] * (width - place(high) - 1)
    )
    line[place(0.0)] = "│"
    line[place(value)] = dot
    return "".join(line)


def forest_lines(changes: Sequence[Change], width: int = 41) -> list[str]:
    """Draw a forest plot as text: a line for each measure, with its difference in its interval,
    then the axis.

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

    marks = [(one.ci_low or 0.0, one.difference or 0.0, one.ci_high or 0.0) for one in rows]
    drawn = [forest_line(*mark, end, width=width) for mark in marks]
    lines = [
        f"{one.measure:<{label}} {line}".rstrip() for one, line in zip(rows, drawn, strict=True)
    ]
    half = (width - 1) // 2
    return [*lines, f"{'':<{label}} {f'{-end:g}':<{half}}0{f'{end:g}':>{half}}"]
