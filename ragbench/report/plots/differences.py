"""The drawing of a decision: the difference of each configuration from the baseline."""

import pandas as pd
from matplotlib.figure import Figure

from ragbench.report.plots.figure import BLUE, GREY, INK, VERMILLION, NotebookFigure


def plot_decision(board: pd.DataFrame, measure: str, comparison: pd.DataFrame) -> Figure:
    """Draw the difference of each configuration from the baseline in its interval, best first, next
    to its mean, the questions won and lost, the decision in words, latency and cost.

    Marks are blue for a better configuration and red for a worse one: filled by the safe tier,
    light by the likely tier. A grey mark is filled within the margin, and hollow if nothing is
    decided. At most 30 configurations are drawn.

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
        is_baseline = not isinstance(row["decision"], str)
        decision = "" if is_baseline else row["decision"]
        colour, face = _MARKS.get(decision, (GREY, "none"))
        low, high, difference = row["ci_low"], row["ci_high"], row["difference"]
        if not pd.isna(low):
            axes.plot([low, high], [y, y], color=colour, linewidth=2.5)
        marker = "|" if is_baseline else "o"
        x = 0 if is_baseline else difference
        axes.plot(x, y, marker, color=colour, markerfacecolor=face, markersize=8, mew=1.8)
        won = "baseline" if is_baseline else f"{row['wins']:.0f} / {row['losses']:.0f}"
        costs = [(row["latency_p50_ms"], ",.0f"), (row["cost_per_1000_usd"], ",.2f")]
        amounts = ("–" if pd.isna(value) else format(value, form) for value, form in costs)
        texts = (f"{row[measure]:.3f}", won, decision, *amounts)
        for column, text in zip(columns, texts, strict=True):
            where = column.get_yaxis_transform()
            column.text(0.5, y, text, ha="center", va="center", transform=where)
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


_MAX_ROWS = 30
_MARKS = {  # decision -> the colour of its interval and edge, and of its mark
    "better": (BLUE, BLUE),
    "likely better": (BLUE, "#BFDDF0"),
    "within the margin": (GREY, GREY),
    "likely worse": (VERMILLION, "#F7D3BF"),
    "worse": (VERMILLION, VERMILLION),
}
