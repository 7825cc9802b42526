"""Figures about gold labels: where sampled chunks lie, what became of drafts, how far sources hold an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.plots.drawing import BLUE, GREEN, GREY, ORANGE, VERMILLION, legend_below, new_axes, nothing_to_draw

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_topic_map(points: pd.DataFrame) -> Figure:
    """Every chunk as a point of the two directions in which the texts differ most; sampled ones in colour.

    Args:
        points: x, y, state ("not sampled", "sampled", or "accepted" and "nothing accepted" once questions are there).
    """
    if points.empty:
        return nothing_to_draw("There is no chunk to show.")
    figure, axes = new_axes(9, 5)
    colours = {"not sampled": GREY, "sampled": BLUE, "accepted": BLUE, "nothing accepted": ORANGE}
    entries = []
    for state, colour in colours.items():
        rows = points[points["state"] == state]
        if not rows.empty:
            faint = state == "not sampled"
            axes.scatter(
                rows["x"], rows["y"], s=9 if faint else 42, c=colour, alpha=0.35 if faint else 0.9, linewidths=0
            )
            entries.append((f"{state} ({len(rows)})", colour))
    axes.set(xticks=[], yticks=[], xlabel="first principal component", ylabel="second")
    legend_below(axes, entries)
    return figure


def plot_draft_states(table: pd.DataFrame) -> Figure:
    """One bar per state of the drafts, accepted first.

    Args:
        table: state, meaning, drafts, as from `drafts_table`.
    """
    if table.empty:
        return nothing_to_draw("There is no draft to show.")
    rows = table.iloc[::-1]
    figure, axes = new_axes(9, 0.9 + 0.42 * len(rows))
    colours = [GREEN if state == "accepted" else VERMILLION for state in rows["state"]]
    bars = axes.barh(rows["meaning"], rows["drafts"], color=colours, alpha=0.75, height=0.65)
    axes.bar_label(bars, padding=3)
    axes.set_xlabel("drafts")
    axes.margins(x=0.1)
    return figure


def plot_support(table: pd.DataFrame, *, rows: int = 25) -> Figure:
    """The share of each reference answer's words that its sources hold, lowest first; at most `rows` of them.

    Args:
        table: question, in_sources (share in [0, 1]), as from `report.reference_table`.
    """
    shown = table[table["in_sources"].notna()].sort_values("in_sources", kind="stable").head(rows).iloc[::-1]
    if shown.empty:
        return nothing_to_draw("No reference answer was written, so there is nothing to check against its sources.")
    figure, axes = new_axes(10, 1 + 0.34 * len(shown))
    places = range(len(shown))
    axes.hlines(places, 0, shown["in_sources"], color=GREY, linewidth=1)
    axes.plot(shown["in_sources"], places, "o", color=BLUE, markersize=7)
    labels = [text if len(text) <= 70 else f"{text[:69].rstrip()}…" for text in shown["question"]]
    axes.set_yticks(list(places), labels)
    axes.set(xlim=(0, 1.02), xlabel="share of the answer's words that its sources hold")
    return figure
