"""Figures about decisions: which knob matters, a comparison as it grows, the health of a test set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    new_axes,
    nothing_to_draw,
)
from ragbench.statistics import p_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_PARAMETERS = (BLUE, GREEN, PURPLE, SKY, YELLOW, VERMILLION)


def plot_variance_shares(table: pd.DataFrame, *, measure: str = "") -> Figure:
    """What share of what the configurations differ by each parameter explains, and of all variance in words.

    Args:
        table: as from `anova`: source, share, share_of_configurations, p_value.
        measure: the name of what varies, for the title.
    """
    import pandas as pd

    rows = table[table["share_of_configurations"].notna()]
    if rows.empty:
        return nothing_to_draw("The configurations do not differ, so there is no variance between them to split.")
    rows = rows.sort_values("share_of_configurations", kind="stable")
    figure, axes = new_axes(9, 1.6 + 0.42 * len(rows))
    shares = rows["share_of_configurations"].astype(float) * 100
    named = rows["source"] != "interactions of the parameters"
    believed = rows["p_value"].astype("Float64").fillna(1.0) < 0.05
    colours = [GREY if not own else (BLUE if sure else "white") for own, sure in zip(named, believed, strict=True)]
    edges = [GREY if not own else BLUE for own in named]
    axes.barh(rows["source"], shares, color=colours, edgecolor=edges, height=0.6)
    axes.axvline(0, color=BLACK, linewidth=1)
    for y, row in enumerate(rows.to_dict("records")):
        p = "" if pd.isna(row["p_value"]) else f", p {p_text(row['p_value'], '= ')}"
        place = max(float(row["share_of_configurations"]) * 100, 0.0) + 1
        axes.text(
            place, y, f"{row['share_of_configurations']:.0%} ({row['share']:.1%} of all){p}", va="center", fontsize=9
        )
    shown = table.set_index("source")["share"].astype("Float64")
    axes.set(xlim=(min(0.0, float(shares.min()) * 1.1), max(100.0, float(shares.max())) * 1.3))
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel(
        "share of the variance between configurations (%); filled: p < 0.05 against the queries\n"
        f"of all variance {shown['query']:.0%} is between queries, {shown['query x configuration']:.0%} is which "
        "configuration suits which query"
    )
    axes.set_title(f"Which parameter matters{f' for {measure}' if measure else ''}", loc="left")
    return figure


def plot_sequential(path: pd.DataFrame, *, measure: str = "", alpha: float = 0.05) -> Figure:
    """The difference with its confidence sequence after every look, and where it first was settled.

    Args:
        path: as from `sequential`: n, difference, ci_low, ci_high, p_value, decision.
        measure: the name of what is compared.
        alpha: that of the path.
    """
    if path.empty:
        return nothing_to_draw("There are no looks to draw.")
    figure, axes = new_axes(9, 4.2)
    marks = "o" if len(path) <= 60 else ""
    axes.fill_between(path["n"], path["ci_low"], path["ci_high"], color=SKY, alpha=0.35, linewidth=0)
    axes.plot(path["n"], path["difference"], marks or "-", color=BLUE, markersize=4, linestyle="-", label="difference")
    axes.axhline(0, color=BLACK, linewidth=1)
    settled = path[path["decision"] != "go on"]
    if len(settled):
        first = settled.iloc[0]
        axes.axvline(first["n"], color=VERMILLION, linestyle="--")
        said = f" settled after {first['n']} queries: {first['decision']}, p {p_text(first['p_value'], '= ')}"
        # on the side that has room
        right = bool(first["n"] > (path["n"].iloc[0] + path["n"].iloc[-1]) / 2)
        axes.text(
            first["n"], 0.98, said + " " * right, color=VERMILLION, va="top", ha="right" if right else "left",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.set(xlabel="queries scored so far", ylabel=f"difference in {measure or 'the mean'}, contender - baseline")
    axes.grid(alpha=0.3)
    axes.set_title(f"Looking after every batch ({1 - alpha:.0%} band that holds at all looks together)", loc="left")
    return figure


def plot_question_health(table: pd.DataFrame, *, measure: str = "") -> Figure:
    """Each question's difficulty against its discrimination; those that tell nothing apart stand at the foot.

    Args:
        table: as from `question_health`: query_id, difficulty, discrimination, moves, overlap.
        measure: the name of what was scored.
    """
    import numpy as np

    moving = table[table["discrimination"].notna()]
    if moving.empty:
        return nothing_to_draw("No question tells three or more configurations apart, so there is nothing to show.")
    figure, axes = new_axes(9, 4.8)
    x, y = moving["difficulty"].astype(float), moving["discrimination"].astype(float)
    overlap = moving["overlap"].astype("Float64")
    axes.axhline(0, color=BLACK, linewidth=1)
    axes.axhspan(-1.05, -0.5, color=VERMILLION, alpha=0.08, linewidth=0)
    if overlap.notna().any():
        colour = overlap.astype(float).to_numpy(na_value=np.nan)
        known = ~np.isnan(colour)
        points = axes.scatter(
            x[known], y[known], c=colour[known], cmap="cividis", vmin=0, vmax=1, s=40, edgecolors=BLACK, linewidths=0.4
        )
        axes.scatter(x[~known], y[~known], color="white", s=40, edgecolors=BLACK, linewidths=0.8)
        figure.colorbar(points, ax=axes, label="words of the question found in its evidence (share)")
    else:
        axes.scatter(x, y, color=BLUE, s=40, edgecolors=BLACK, linewidths=0.4, alpha=0.8)
    still = table[~table["moves"]]
    axes.plot(
        still["difficulty"], np.full(len(still), -1.15), "|", color=ORANGE, markersize=10, markeredgewidth=2,
        label=f"{len(still)} of {len(table)} questions never move",
    )  # fmt: skip
    for row in moving.sort_values("discrimination").head(5).to_dict("records"):
        if row["discrimination"] < -0.5:
            axes.annotate(
                str(row["query_id"]), (row["difficulty"], row["discrimination"]), xytext=(6, 4),
                textcoords="offset points", fontsize=8,
            )  # fmt: skip
    axes.set(xlim=(-0.03, 1.03), ylim=(-1.25, 1.08))
    axes.set_xlabel(f"difficulty (1 - mean {measure or 'score'} over the configurations): hard questions to the right")
    axes.set_ylabel("discrimination (item-rest correlation)")
    axes.set_title("Which questions tell the configurations apart; shaded: read their labels", loc="left")
    figure.legend(loc="outside lower center", frameon=False)
    return figure
