"""The drawing of a decision: the difference of each configuration from the baseline."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ragbench.report.plots.figure import BLUE, GREY, INK, VERMILLION, NotebookFigure


def plot_decision(board: pd.DataFrame, measure: str, comparison: pd.DataFrame) -> Figure:
    """Draw the difference of each configuration from the baseline as a mark on its interval, best first.

    Next to it are its mean, the questions won and lost, the decision in words, latency and cost. At
    most 30 configurations are drawn.

    A mark is blue for a better configuration and red for a worse one; it is filled if that is safe, and
    light if it is only likely. A grey mark is filled if the difference is within the margin, and hollow
    if nothing is decided.

    Args:
        board: as from `Results.leaderboard`.
        measure: the measure that ranks.
        comparison: as from `Results.compare` by that measure.
    """
    rows = board.merge(comparison, on="name", how="left").head(_MAX_ROWS)
    figure = NotebookFigure(figsize=(11, 1.1 + 0.27 * len(rows)), layout="constrained", dpi=80)
    axes, *columns = figure.subplots(1, 6, sharey=True, width_ratios=(5, 1, 1.6, 2, 1, 1.2))
    axes.axvline(0, color=INK, linewidth=1)
    for y, row in enumerate(rows.to_dict("records")):
        _draw_difference(axes, y, row)
        for column, text in zip(columns, _texts_of_row(row, measure), strict=True):
            # x is a fraction of the column's width, y the number of the row
            place = column.get_yaxis_transform()
            column.text(0.5, y, text, ha="center", va="center", transform=place)
    axes.set_yticks(range(len(rows)), rows["label"])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"difference in {measure} from the baseline, 95 % interval")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    headings = ("mean", "better / worse", "decision", "p50 ms", "$ per 1,000")
    for column, heading in zip(columns, headings, strict=True):
        column.set_title(heading, fontsize=10)
        column.axis("off")
    return figure


def _draw_difference(axes: Axes, y: int, row: Mapping[Any, Any]) -> None:
    """Draw the difference of a configuration from the baseline as a mark on its interval. The baseline
    itself is drawn as a bar at 0.

    Args:
        y: the number of the row.
        row: the configuration: difference, ci_low, ci_high, decision (NaN for the baseline).
    """
    is_baseline = pd.isna(row["decision"])
    colour, face = _MARKS.get(row["decision"], (GREY, "none"))
    if not pd.isna(row["ci_low"]):
        axes.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=2.5)
    marker = "|" if is_baseline else "o"
    x = 0 if is_baseline else row["difference"]
    axes.plot(x, y, marker, color=colour, markerfacecolor=face, markersize=8, mew=1.8)


def _texts_of_row(row: Mapping[Any, Any], measure: str) -> list[str]:
    """Return the texts that are drawn next to a difference; "–" for an unknown number.

    They are the mean, the questions won and lost, the decision, the latency and the cost.
    """
    is_baseline = pd.isna(row["decision"])
    won_lost = "baseline" if is_baseline else f"{row['wins']:.0f} / {row['losses']:.0f}"
    latency, cost = row["latency_p50_ms"], row["cost_per_1000_usd"]
    return [
        f"{row[measure]:.3f}",
        won_lost,
        "" if is_baseline else row["decision"],
        "–" if pd.isna(latency) else f"{latency:,.0f}",
        "–" if pd.isna(cost) else f"{cost:,.2f}",
    ]


_MAX_ROWS = 30
_MARKS = {  # decision -> the colour of its interval and edge, and of its mark
    "better": (BLUE, BLUE),
    "likely better": (BLUE, "#BFDDF0"),
    "within the margin": (GREY, GREY),
    "likely worse": (VERMILLION, "#F7D3BF"),
    "worse": (VERMILLION, VERMILLION),
}
