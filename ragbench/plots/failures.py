"""Where answers fail: the flow from all questions to the causes, and the colours of stages and causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.diagnosis import CAUSES, STAGE_OF
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

STAGE_COLOURS = {
    "answered": GREEN, "retrieval": BLUE, "chunking": ORANGE, "generation": VERMILLION, "judge": PURPLE,
    "unknown": GREY,
}  # fmt: skip
"""The colour of each stage that can lose a question, and of what was answered."""


def _cause_colours() -> dict[str, str]:
    """Causes of one stage share its colour, each lighter than the one before."""
    colours, shades = {"none": GREEN}, dict.fromkeys(STAGE_COLOURS, 0)
    for cause, stage in STAGE_OF.items():
        paper = min(0.22 * shades[stage], 0.8)
        shades[stage] += 1
        parts = [int(STAGE_COLOURS[stage][i : i + 2], 16) for i in (1, 3, 5)]
        colours[cause] = "#" + "".join(f"{round(part + (255 - part) * paper):02X}" for part in parts)
    return colours


CAUSE_COLOURS = _cause_colours()
"""The colour of each cause of `ragbench.diagnosis.CAUSES`, and of "none"."""


def plot_causes(counts: pd.DataFrame) -> Figure:
    """From all questions to the causes: each bar begins where the one above it ended, so that nothing counts twice.

    Args:
        counts: as from `ragbench.diagnosis.count_causes`.
    """
    stage_of = {**STAGE_OF, "none": "answered"}
    total = int(counts["questions"].sum())
    if not total:
        return nothing_to_draw("The test set has no questions, so none has failed.")
    figure, axes = new_axes(9, 1.6 + 0.36 * (len(counts) + 1))
    axes.barh(0, total, color=GREY, height=0.62)
    axes.text(total, 0, f" {total}", va="center")
    left = total
    for y, row in enumerate(counts.to_dict("records"), 1):
        width = row["questions"]
        left -= width
        axes.barh(y, width, left=left, color=STAGE_COLOURS[stage_of[row["cause"]]], height=0.62)
        axes.plot([left + width] * 2, [y - 0.69, y - 0.31], color=BLACK, linewidth=0.8)
        axes.text(left + width, y, f" {width} ({row['share']:.0%})", va="center")
    axes.set_yticks(range(len(counts) + 1), ["all questions", *counts["meaning"]])
    axes.invert_yaxis()
    axes.set(xlim=(0, total * 1.14), xlabel="questions")
    axes.set_title("Where questions are lost, in the order in which data flows", loc="left")
    used = dict.fromkeys(stage_of[cause] for cause in counts["cause"])
    legend_below(axes, [(stage, STAGE_COLOURS[stage]) for stage in used])
    return figure


def plot_cause_shares(shares: pd.DataFrame) -> Figure:
    """A bar for each configuration: the fraction of its questions by cause, in the order of the rows, first on top.

    Args:
        shares: a row for each configuration, a column for each cause of `CAUSE_COLOURS`. Of more than seven causes the
            rarest are drawn as one.
    """
    names = {**CAUSES, "none": "not failed", "other": "other causes"}
    surplus = shares.shape[1] - _MAX_CAUSES
    rare = list(shares.mean().nsmallest(surplus + 1).index) if surplus > 0 else []
    drawn = shares.drop(columns=rare)[[cause for cause in CAUSE_COLOURS if cause in shares and cause not in rare]]
    if rare:
        drawn = drawn.assign(other=shares[rare].sum(axis=1))
    figure, axes = new_axes(12, 1.5 + 0.26 * len(drawn))
    left = drawn.cumsum(axis=1) - drawn
    for cause in drawn:
        colour = CAUSE_COLOURS.get(str(cause), "#D9D9D9")
        bars = axes.barh(drawn.index, drawn[cause], left=left[cause], color=colour, height=0.8, label=names[str(cause)])
        texts = [f"{value:.0%}" if value > 0.03 else "" for value in drawn[cause]]
        axes.bar_label(bars, texts, label_type="center", fontsize=9)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="fraction of all questions")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(loc="outside lower center", ncol=4, frameon=False, fontsize=9)
    return figure


_MAX_CAUSES = 7
