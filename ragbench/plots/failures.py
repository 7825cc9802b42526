"""Where answers fail: the flow from all questions to the causes, and what each stage costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    legend_below,
    new_axes,
    nothing_to_draw,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STAGE_OF = {
    "not_in_corpus": "retrieval", "not_retrieved": "retrieval", "below_cut": "retrieval", "cut_by_budget": "chunking",
    "split_by_border": "chunking", "request_failed": "generation", "fabricated": "generation",
    "unknown_chunk": "unknown", "refused": "generation", "not_used": "generation", "judge_suspected": "judge",
    "unanswerable_answered": "generation", "none": "answered",
}  # fmt: skip
COLOUR_OF = {
    "answered": GREEN, "retrieval": BLUE, "chunking": ORANGE, "generation": VERMILLION, "judge": PURPLE,
    "unknown": GREY,
}  # fmt: skip


def plot_causes(counts: pd.DataFrame) -> Figure:
    """From all questions to the causes: each bar begins where the one above it ended, so that nothing counts twice.

    Args:
        counts: as from `ragbench.diagnosis.count_causes`.
    """
    total = int(counts["questions"].sum())
    if not total:
        return nothing_to_draw("There are no questions, so none has failed.")
    figure, axes = new_axes(9, 1.6 + 0.36 * (len(counts) + 1))
    axes.barh(0, total, color=GREY, height=0.62)
    axes.text(total, 0, f" {total}", va="center")
    left = total
    for y, row in enumerate(counts.to_dict("records"), 1):
        width = row["questions"]
        left -= width
        axes.barh(y, width, left=left, color=COLOUR_OF[STAGE_OF[row["cause"]]], height=0.62)
        axes.plot([left + width] * 2, [y - 0.69, y - 0.31], color=BLACK, linewidth=0.8)
        axes.text(left + width, y, f" {width} ({row['share']:.0%})", va="center")
    axes.set_yticks(range(len(counts) + 1), ["all questions", *counts["meaning"]])
    axes.invert_yaxis()
    axes.set(xlim=(0, total * 1.14), xlabel="questions")
    axes.set_title("Where questions are lost, in the order in which data flows", loc="left")
    used = dict.fromkeys(STAGE_OF[cause] for cause in counts["cause"])
    legend_below(axes, [(stage, COLOUR_OF[stage]) for stage in used])
    return figure


def plot_causes_by_configuration(shares: pd.DataFrame) -> Figure:
    """One bar per configuration, from the questions that did not fail to those that were lost first.

    Args:
        shares: as from `ragbench.report.cause_shares`.
    """
    if shares.empty:
        return nothing_to_draw("The failures of these configurations were not diagnosed.")
    from matplotlib.container import BarContainer
    from matplotlib.patches import Patch

    table = shares.pivot(index="label", columns="cause", values="share").fillna(0.0)
    order = [cause for cause in reversed(STAGE_OF) if cause in table]  # "none" comes first, at the axis
    table = table.sort_values("none", ascending=False)
    figure, axes = new_axes(10, 1.9 + 0.34 * len(table))
    meaning = dict(zip(shares["cause"], shares["meaning"], strict=True))
    left = table["none"] * 0.0
    shades: dict[str, int] = {}
    for cause in order:
        stage = STAGE_OF[cause]
        shade = 1.0 - 0.22 * shades.get(stage, 0)  # causes of one stage share its colour and differ in strength
        shades[stage] = shades.get(stage, 0) + 1
        axes.barh(
            table.index, table[cause], left=left, color=COLOUR_OF[stage], alpha=shade, height=0.7, edgecolor="white"
        )
        for y, (start, width) in enumerate(zip(left, table[cause], strict=True)):
            if width >= 0.04:
                axes.text(start + width / 2, y, f"{width:.0%}", ha="center", va="center", fontsize=8)
        left = left + table[cause]
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="share of all questions")
    axes.set_title("Where questions are lost", loc="left")
    handles = [
        Patch(facecolor=bar.patches[0].get_facecolor(), label=meaning[cause])
        for cause, bar in zip(order, axes.containers, strict=True)
        if isinstance(bar, BarContainer)
    ]
    axes.figure.legend(handles=handles, loc="outside lower center", ncol=4, frameon=False, fontsize=8)
    return figure


def plot_gaps(gaps: pd.DataFrame) -> Figure:
    """For each configuration what is reached of a perfect answer and what each stage loses, with 95 % intervals.

    Args:
        gaps: as from `ragbench.report.gap_table`.
    """
    if gaps.empty:
        return nothing_to_draw("No configuration was run with oracle on: the gap is not split between the stages.")
    labels = list(dict.fromkeys(gaps["label"]))
    parts = list(dict.fromkeys(gaps["part"]))
    figure, axes = new_axes(9, 1.8 + 0.26 * len(parts) * len(labels))
    height = 0.8 / len(parts)
    for i, part in enumerate(parts):
        rows = gaps[gaps["part"] == part].set_index("label").reindex(labels)
        at = [y + (i - (len(parts) - 1) / 2) * height for y in range(len(labels))]
        mean = rows["mean"].astype(float)
        whiskers = [mean - rows["ci_low"].astype(float), rows["ci_high"].astype(float) - mean]
        axes.barh(at, mean, height=height * 0.9, color=COLOUR_OF[part])
        axes.errorbar(mean, at, xerr=whiskers, fmt="none", ecolor=BLACK, elinewidth=1, capsize=2)
    axes.axvline(0, color=BLACK, linewidth=0.8)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        f"share of a perfect {', '.join(dict.fromkeys(gaps['measure']))}; the parts of one configuration sum to 1"
    )
    axes.set_title("What is reached, and which stage loses the rest", loc="left")
    legend_below(axes, [(part, COLOUR_OF[part]) for part in parts])
    return figure


def plot_two_parts(table: pd.DataFrame) -> Figure:
    """Each question's recall as a bar with its ceiling as a tick, coloured by what has failed.

    Args:
        table: as from `ragbench.diagnosis.two_part_table`.
    """
    rows = table.dropna(subset=["recall"])
    if rows.empty:
        return nothing_to_draw("No question has relevant documents, so there is no recall to show.")
    colours = {
        "none": GREEN, "retrieval failed": BLUE, "generation failed": VERMILLION, "both": PURPLE, "undecided": GREY,
    }  # fmt: skip
    figure, axes = new_axes(9, 1.8 + 0.42 * len(rows))
    recall, ceiling = rows["recall"].astype(float), rows["ceiling"].astype(float)
    labels = [f"{row['query_id']} ({row['relevant']} relevant)" for row in rows.to_dict("records")]
    axes.barh(range(len(rows)), recall, color=[colours[verdict] for verdict in rows["verdict"]], height=0.6)
    axes.plot(ceiling, range(len(rows)), "|", color=BLACK, markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.02), xlabel="recall of the relevant documents; the tick is the best that any system can have")
    axes.set_title("Which part failed", loc="left")
    used = [verdict for verdict in colours if verdict in set(rows["verdict"])]
    legend_below(axes, [("nothing failed" if verdict == "none" else verdict, colours[verdict]) for verdict in used])
    return figure
