"""Coordinates of a line chart in SVG: size, margins and axes; values over time, with a band for
their intervals.
"""

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from ragbench.registry import bounds_of
from ragbench.service.responses import records

WIDTH, HEIGHT = 640.0, 210.0
LEFT, RIGHT, ABOVE, BELOW = 46.0, 12.0, 24.0, 24.0
"""Margins for labels, in the units of the view box."""


def line_chart(runs: pd.DataFrame, measure: str) -> dict[str, Any]:
    """Return the coordinates of a chart of a measure over time.

    A line ends where the runs stop being comparable: at another `epoch`. The axis shows every
    interval, and at least 0.2 of a measure that lies between 0 and 1, so that noise does not look
    like a change.

    Args:
        runs: in order of time, at least one: made_at, mean, ci_low, ci_high, epoch.
        measure: its bounds limit the axis.

    Returns:
        "lines": for each epoch the points of its "line" and of the "band" around it, as the attribute
        `points` of SVG; "points": x, y and the run of each point; "ticks": pairs (y, label);
        "days": pairs (x, date) of the first and the last run.
    """
    low, high = axis(runs, measure)
    times = [made_at.timestamp() for made_at in runs["made_at"]]
    duration = times[-1] - times[0]

    def x_of(time: float) -> float:
        fraction = 0.5  # a single time is in the middle
        if duration:
            fraction = (time - times[0]) / duration
        return round(LEFT + fraction * (WIDTH - LEFT - RIGHT), 1)

    def y_of(value: float) -> float:
        fraction = (value - low) / (high - low)
        return round(HEIGHT - BELOW - fraction * (HEIGHT - ABOVE - BELOW), 1)

    def coordinates(rows: pd.DataFrame, column: str) -> list[str]:
        pairs = zip(rows["x"], rows[column], strict=True)
        return [f"{x},{y_of(value)}" for x, value in pairs]

    all_x = [x_of(time) for time in times]
    drawn = runs.assign(x=all_x).dropna(subset=["mean"])
    begins_epoch = drawn["epoch"] != drawn["epoch"].shift()
    lines = []
    for _, rows in drawn.groupby(begins_epoch.cumsum()):
        band = rows.dropna(subset=["ci_low", "ci_high"])
        upper_edge = coordinates(band, "ci_high")
        lower_edge = coordinates(band, "ci_low")
        outline = [*upper_edge, *reversed(lower_edge)]
        lines.append({"line": " ".join(coordinates(rows, "mean")), "band": " ".join(outline)})
    points = [{"x": row["x"], "y": y_of(row["mean"]), "run": row} for row in records(drawn)]
    ticks = [(y_of(value), _label(value)) for value in (low, (low + high) / 2, high)]
    date_of = {}  # by x, so that runs at the same place have one label
    for x, made_at in zip(all_x, runs["made_at"], strict=True):
        date_of[x] = f"{made_at:%d %b %Y}"
    days = list(date_of.items())
    if len(days) > 2:
        days = [days[0], days[-1]]
    return {"lines": lines, "points": points, "ticks": ticks, "days": days}


def _label(value: float) -> str:
    """Return the label of a value at an axis.

    >>> [_label(value) for value in (0.0, 0.0004, 0.75, 1250.0)]
    ['0.00', '0.0004', '0.75', '1,250']
    """
    size = abs(value)
    if 0 < size < 0.1:
        return f"{value:.2g}"
    if size < 10:
        return f"{value:.2f}"
    return f"{value:,.0f}"


def axis(runs: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return the smallest and the largest value on the axis of a measure.

    A measure between 0 and 1 has an axis of whole tenths, at least 0.2 long. Any other axis contains
    0, and ends at a round number.

    >>> import pandas as pd
    >>> axis(pd.DataFrame({"mean": [0.71], "ci_low": [0.66], "ci_high": [0.77]}), "nDCG@10")
    (0.6, 0.8)
    >>> axis(pd.DataFrame({"mean": [410.0], "ci_low": [380.0], "ci_high": [441.0]}), "latency_total_ms")
    (0.0, 500.0)
    """
    values = runs[["mean", "ci_low", "ci_high"]].astype(float).stack().dropna()
    if bounds_of(measure) == (0.0, 1.0):
        return _axis_of_fraction([*values])
    bottom = min([*values, 0.0])
    top = max([*values, 0.0])
    if top == 0:
        return bottom, 1.0
    power_of_ten = 10.0 ** math.floor(math.log10(top))
    return bottom, math.ceil(top / power_of_ten) * power_of_ten


def _axis_of_fraction(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of an axis between 0 and 1 in whole tenths, at least 0.2 long."""
    rounding = 1e-9  # 0.7 * 10 is a little more than 7
    low = math.floor(min([*values, 1.0]) * 10 + rounding)
    high = math.ceil(max([*values, 0.0]) * 10 - rounding)
    low = min(max(low, 0), 8)
    high = max(min(high, 10), low + 2)
    return low / 10, high / 10
