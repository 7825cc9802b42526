"""Drawings of curves: evidence by context budget, quality by cost, and the lanes of a race."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ragbench.report.leaderboard import COSTS
from ragbench.report.plots.figure import (
    BLUE,
    VERMILLION,
    new_axes,
    new_figure,
    style_legend,
    styles,
)
from ragbench.statistics.race import Race
from ragbench.statistics.ranking import ANSWER_MEASURES

_MAX_PANELS = 4  # chunkings that have a panel each; more of them share one
_MAX_LANES = 30


def budget_curves(curves: pd.DataFrame, board: pd.DataFrame) -> Figure | None:
    """Draw how much of the gold evidence fits into a budget of tokens, a panel for each chunking.

    Args:
        curves: name, budget, mean, ci_low and ci_high, as from `ragbench.report.budget_table`.
        board: name, label, retriever and chunking of the configurations.

    Returns:
        None for curves without rows.
    """
    if curves.empty:
        return None
    rows = curves.merge(board[["name", "chunking"]], on="name")
    rows = rows.astype({"mean": float, "ci_low": float, "ci_high": float})
    if rows["chunking"].nunique() > _MAX_PANELS:  # one panel for all
        rows["chunking"] = "all chunkings"
    groups = rows.groupby("chunking", sort=False)
    figure, panels = new_figure(max(9, 3.1 * len(groups) + 2), 3.6, columns=len(groups))
    style_of = styles(board)
    for axes, (chunking, group) in zip(panels, groups, strict=True):
        for name, curve in group.groupby("name", sort=False):
            colour, marker, _ = style_of[str(name)]
            budgets, low, high = curve["budget"], curve["ci_low"], curve["ci_high"]
            axes.plot(budgets, curve["mean"], f"{marker}-", color=colour)
            axes.fill_between(budgets, low, high, color=colour, alpha=0.12, linewidth=0)
        axes.set(xlabel="context budget (tokens)", ylim=(0, 1.02), title=chunking)
        axes.set_xticks(group["budget"].unique())
        axes.label_outer()
    panels[0].set_ylabel("gold evidence inside the budget")
    style_legend(figure, board, style_of)
    return figure


def cost_fronts(board: pd.DataFrame, costs: Sequence[str], measure: str) -> Figure | None:
    """Draw quality against each cost; a line joins the configurations that no other beats on both.

    Args:
        board: as from `Results.leaderboard`.
        costs: columns of the board, see `ragbench.report.COSTS`.
        measure: the column of quality. Dollars are paid for answers: their panel shows the first
            measure of answers instead, if the board has one.

    Returns:
        None without a cost.
    """
    if not costs:
        return None
    style_of = styles(board)
    answer_measures = [
        name for name in ANSWER_MEASURES if name in board and board[name].notna().any()
    ]
    figure, panels = new_figure(13, 3.4, columns=len(costs))
    for axes, cost in zip(panels, costs, strict=True):
        quality = measure
        if cost == "cost_per_1000_usd" and answer_measures:
            quality = answer_measures[0]
        rows = board.dropna(subset=[cost, quality])
        rows = rows.sort_values([cost, quality], ascending=[True, False])
        # the front: configurations that are better than all cheaper ones
        best_of_cheaper = rows[quality].cummax().shift(fill_value=float("-inf"))
        front = rows[rows[quality] > best_of_cheaper]
        axes.plot(front[cost], front[quality], color="grey")
        for row in rows.to_dict("records"):
            style = style_of[row["name"]]
            axes.plot(row[cost], row[quality], style.marker, color=style.colour, markersize=9)
        if 0 < 20 * rows[cost].min() < rows[cost].max():  # too far apart for a linear axis
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())  # labels between powers overlap
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set(xlabel=COSTS[cost][1], ylabel=quality)
    style_legend(figure, board, style_of)
    return figure


def race_lanes(race: Race) -> Figure:
    """Draw the race of a sweep, which answers more and more questions and drops configurations that
    can no longer win.

    Each configuration has a lane: its mean within its confidence limits, by the number of questions
    answered. A cross ends the lane of one that was dropped. The limits hold at any time and for all
    configurations at once. At most 30 lanes are drawn: those that ran longest.
    """
    n_questions = {name: race.stopped.get(name, race.sizes[-1]) for name in race.scores}
    lanes = pd.Series(n_questions).nlargest(_MAX_LANES).index
    limits = {name: race.limits(name) for name in lanes}  # mean, ci_low, ci_high by questions
    last = pd.concat([limits[name].tail(1) for name in lanes])
    least, most = last["ci_low"].min(), last["ci_high"].max()  # the ends of each lane's axis
    figure, axes = new_axes(11, 1 + 0.4 * len(lanes))
    for lane, name in enumerate(lanes):
        # heights in [0, 1], from the least to the most of all lanes
        heights = (limits[name].clip(least, most) - least) / (most - least)
        y = lane + 0.4 - 0.8 * heights  # within 0.4 of the lane; the axis points down
        is_dropped = name in race.stopped
        colour = VERMILLION if is_dropped else BLUE
        axes.fill_between(y.index, y["ci_low"], y["ci_high"], color=colour, alpha=0.2)
        axes.plot(y["mean"], color=colour, marker="X" if is_dropped else "", markevery=[-1])
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlabel(f"questions; each lane: {race.measure}, {least:.2f} to {most:.2f}")
    return figure
