"""The drawing of which part of a system failed, question by question."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ragbench.report.plots.figure import BLUE, GREEN, GREY, INK, PURPLE, VERMILLION, new_axes

_COLOURS = {
    "retrieval failed": BLUE,
    "generation failed": VERMILLION,
    "both": PURPLE,
    "none": GREEN,
}


def part_bars(table: pd.DataFrame, k: int) -> Figure | None:
    """Draw the recall of each question next to its ceiling (a tick), coloured by the part that failed.

    Args:
        table: as from `ragbench.report.part_verdicts`.
        k: documents that count as found.

    Returns:
        None if no question has a relevant document.
    """
    rows = table.dropna(subset=["recall"])[::-1]
    if rows.empty:
        return None
    colours = rows["verdict"].map(_COLOURS).fillna(GREY)
    figure, axes = new_axes(9, 1.3 + 0.3 * len(rows))
    axes.barh(rows["query_id"], rows["recall"], color=colours.tolist(), height=0.6)
    axes.plot(rows["ceiling"], rows["query_id"], "|", color=INK, markersize=14, markeredgewidth=2)
    axes.set(xlim=(0, 1.02), xlabel=f"recall of the relevant documents at k = {k}")
    handles = [Patch(color=colour, label=name) for name, colour in _COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncol=4, frameon=False)
    return figure
