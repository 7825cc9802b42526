"""Figures of the pipeline perspective: outcomes expected and given, latencies beside their budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.plots.drawing import BLACK, BLUE, GREY, ORANGE, SKY, VERMILLION, new_axes, nothing_to_draw

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_WORDS = {"no_results": "no results", "not stated": "not stated"}


def plot_outcomes(table: pd.DataFrame) -> Figure:
    """Expected outcomes down, given ones across, with counts; what was as expected is framed.

    Args:
        table: as from `outcome_table`; counts.
    """
    import numpy as np
    from matplotlib.patches import Rectangle

    if table.empty or not table.to_numpy().sum():
        return nothing_to_draw("There is no case whose outcome could be shown.")
    counts = table.to_numpy(dtype=float)
    of_row = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = new_axes(2.8 + 1.15 * table.shape[1], 1.7 + 0.6 * table.shape[0])
    image = axes.imshow(of_row, cmap="cividis", aspect="auto", vmin=0, vmax=1)
    for (i, j), share in np.ndenumerate(of_row):
        text = f"{int(counts[i, j]):,}\n{share:.0%}"
        axes.text(j, i, text, ha="center", va="center", fontsize=10, color="black" if share > 0.5 else "white")
    for i, expected in enumerate(table.index):
        if expected in table.columns:
            j = list(table.columns).index(expected)
            axes.add_patch(Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, fill=False, edgecolor=ORANGE, linewidth=3))
    labels = [[_WORDS.get(str(name), str(name)) for name in names] for names in (table.columns, table.index)]
    axes.set_xticks(range(table.shape[1]), labels[0])
    numbers = counts.sum(axis=1)
    axes.set_yticks(
        range(table.shape[0]), [f"{name} (n = {n:,.0f})" for name, n in zip(labels[1], numbers, strict=True)]
    )
    axes.set(xlabel="outcome given", ylabel="outcome expected")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label="share of the row", format="{x:.0%}")
    axes.set_title("Outcomes; those as expected are framed", loc="left")
    return figure


def plot_latency(table: pd.DataFrame) -> Figure:
    """Median, 95th and 99th percentile of each stage, with a tick at its budget; a logarithmic axis.

    Args:
        table: as from `latency_table`; milliseconds.
    """
    rows = table[table["n"] > 0].iloc[::-1].reset_index(drop=True)
    if rows.empty:
        return nothing_to_draw("No stage was measured: answers from the cache have no latency.")
    numbers = rows[["p50", "p95", "p99", "budget"]].astype("Float64").to_numpy(dtype=float, na_value=float("nan"))
    numbers = numbers.clip(min=1e-3)  # nothing takes no time, and a logarithm has no zero
    figure, axes = new_axes(9, 1.6 + 0.5 * len(rows))
    for y, (p50, p95, p99, budget) in enumerate(numbers):
        over = rows["verdict"].iloc[y] == "over"
        axes.plot([p50, p99], [y, y], color=GREY, linewidth=1.5, zorder=1)
        axes.plot(p50, y, "o", color=SKY, markersize=8)
        axes.plot(p95, y, "D" if over else "s", color=VERMILLION if over else BLUE, markersize=9)
        axes.plot(p99, y, "|", color=GREY, markersize=12, markeredgewidth=2)
        if budget == budget:
            axes.plot(budget, y, "|", color=BLACK, markersize=24, markeredgewidth=2.5)
    axes.set_xscale("log")
    low, high = float(numbers[numbers == numbers].min()), float(numbers[numbers == numbers].max())
    axes.set_xlim(low / 1.6, high * 1.6)
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 1000 else (1,)))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [f"{row['stage']} (n = {row['n']:,})" for row in rows.to_dict("records")])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(axis="x", alpha=0.3)
    few = "; of fewer than 20 answers the 95th percentile is the slowest" if (rows["n"] < 20).any() else ""
    axes.set_xlabel(f"milliseconds{few}")
    axes.set_title("Latency per stage", loc="left")
    _explain(figure, any_over=bool((rows["verdict"] == "over").any()), any_budget=bool(rows["budget"].notna().any()))
    return figure


def _explain(figure: Figure, *, any_over: bool, any_budget: bool) -> None:
    from matplotlib.lines import Line2D

    entries = [
        ("median", "o", SKY, 8, 1.0),
        ("95th percentile", "s", BLUE, 9, 1.0),
        *([("95th percentile, over budget", "D", VERMILLION, 9, 1.0)] if any_over else []),
        ("99th", "|", GREY, 12, 2.0),
        *([("budget", "|", BLACK, 16, 2.5)] if any_budget else []),
    ]
    handles = [
        Line2D(
            [], [], linestyle="none", label=label, marker=marker, color=colour, markersize=size, markeredgewidth=edge
        )
        for label, marker, colour, size, edge in entries
    ]
    figure.legend(handles=handles, loc="outside lower center", ncol=len(entries), frameon=False)
