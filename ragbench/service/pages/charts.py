"""Where the parts of a line chart are: values over time with the band of their intervals, as SVG of
a page.
"""

import math
from typing import Any

import pandas as pd

from ragbench.registry import bounds_of
from ragbench.service.responses import records

WIDTH, HEIGHT = 640.0, 210.0
LEFT, RIGHT, ABOVE, BELOW = 46.0, 12.0, 24.0, 24.0
"""What is kept free for labels, in the units of the view box."""


def line_chart(runs: pd.DataFrame, measure: str) -> dict[str, Any]:
    """Return the lines, bands, points and ticks of the values of a measure.

    A line ends where the runs stop being comparable: at another `epoch`. The axis shows every
    interval, and at least 0.2 of a measure that lies between 0 and 1, so that noise does not look
    like a change.

    Args:
        runs: in order of time, at least one: made_at, mean, ci_low, ci_high, epoch.
        measure: its bounds limit the axis.
    """
    low, high = axis(runs, measure)
    times = [at.timestamp() for at in runs["made_at"]]
    span = times[-1] - times[0]

    def x(at: float) -> float:
        part = (at - times[0]) / span if span else 0.5
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        part = (value - low) / (high - low)
        return round(HEIGHT - BELOW - part * (HEIGHT - ABOVE - BELOW), 1)

    def marks(rows: pd.DataFrame, column: str) -> list[str]:
        return [f"{at},{y(value)}" for at, value in zip(rows["x"], rows[column], strict=True)]

    drawn = runs.assign(x=[x(at) for at in times]).dropna(subset=["mean"])
    lines = []
    for _, rows in drawn.groupby((drawn["epoch"] != drawn["epoch"].shift()).cumsum()):
        band = rows.dropna(subset=["ci_low", "ci_high"])
        outline = marks(band, "ci_high") + marks(band, "ci_low")[::-1]
        lines.append({"line": " ".join(marks(rows, "mean")), "band": " ".join(outline)})
    points = [{"x": row["x"], "y": y(row["mean"]), "run": row} for row in records(drawn)]
    ticks = [(y(value), _label(value)) for value in (low, (low + high) / 2, high)]
    days = {x(at): f"{day:%d %b %Y}" for at, day in zip(times, runs["made_at"], strict=True)}
    ends = [*days.items()]
    return {
        "lines": lines,
        "points": points,
        "ticks": ticks,
        "days": ends[:1] + ends[1:][-1:],
    }


def _label(value: float) -> str:
    """Return a value at an axis.

    >>> [_label(value) for value in (0.0, 0.0004, 0.75, 1250.0)]
    ['0.00', '0.0004', '0.75', '1,250']
    """
    if 0 < abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def axis(runs: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return the ends of the axis of values.

    >>> import pandas as pd
    >>> axis(pd.DataFrame({"mean": [0.71], "ci_low": [0.66], "ci_high": [0.77]}), "nDCG@10")
    (0.6, 0.8)
    >>> axis(pd.DataFrame({"mean": [410.0], "ci_low": [380.0], "ci_high": [441.0]}), "latency_total_ms")
    (0.0, 500.0)
    """
    values = runs[["mean", "ci_low", "ci_high"]].astype(float).stack().dropna()
    if bounds_of(measure) != (0.0, 1.0):
        top = max([*values, 0.0])
        step = 10.0 ** math.floor(math.log10(top)) if top > 0 else 1.0
        return min([*values, 0.0]), math.ceil(top / step) * step or 1.0
    low = min(max(0, math.floor(min([*values, 1.0]) * 10 + 1e-9)), 8)
    high = max(min(10, math.ceil(max([*values, 0.0]) * 10 - 1e-9)), low + 2)
    return low / 10, high / 10
