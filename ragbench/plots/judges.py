"""The figure of a judge's audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.plots.drawing import GREEN, GREY, VERMILLION, legend_below, new_axes, nothing_to_draw

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_judge_audit(audit: pd.DataFrame) -> Figure:
    """Each probe's value with its interval, on the band that is tolerated.

    Args:
        audit: as from `judge_audit`.
    """
    import pandas as pd

    rows = audit[audit["verdict"] != "unscored"].iloc[::-1]
    if rows.empty:
        return nothing_to_draw("The judge gave no verdict that can be read, so there is nothing to draw.")
    figure, axes = new_axes(9, 1.2 + 0.5 * len(rows))
    for place, row in enumerate(rows.to_dict("records")):
        both = row["probe"] in ("padded", "famous author", "instruction to the judge")
        axes.barh(
            place,
            row["bound"] * (2 if both else 1),
            left=-row["bound"] if both else 0,
            height=0.72,
            color=GREY,
            alpha=0.3,
        )
        colour, marker = (GREEN, "o") if row["verdict"] == "pass" else (VERMILLION, "X")
        if not pd.isna(row["ci_low"]):
            axes.hlines(place, float(row["ci_low"]), float(row["ci_high"]), color=colour, linewidth=2)
        axes.plot(float(row["value"]), place, marker, color=colour, markersize=9)
    labels = [f"{row['probe']} (n = {row['n']})" for row in rows.to_dict("records")]
    axes.set_yticks(range(len(rows)), labels)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.03)
    axes.set_xlabel("change of the verdict, or the verdict itself, on the scale of verdicts (0 to 1)")
    legend_below(axes, [("tolerated", "#D9D9D9"), ("passes", GREEN), ("fails", VERMILLION)])
    return figure
