"""Drawings of rows: measures with their intervals, causes of failures, answers after interventions."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from ragbench.evaluation.causes import STAGE_OF
from ragbench.report.failure_tables import count_causes
from ragbench.report.plots.figure import (
    BLUE,
    GREY,
    SKY,
    STAGE_COLOURS,
    VERMILLION,
    colour_of,
    new_axes,
    new_figure,
)

_ANSWERED = "answered"
_DARK = "#111111"  # on bars of any colour; black would become the grey of other texts
_ALARM = 0.05  # p below which an intervention is drawn as an alarm


def measure_bars(
    summary: pd.DataFrame,
    xlabel: str,
    *,
    best: "pd.Series[float] | None" = None,
    retriever: str = "",
) -> Figure | None:
    """Draw means as bars, with a line for the 95 % interval of each.

    Args:
        summary: mean, ci_low and ci_high; the index names the rows, drawn from top to bottom.
        xlabel: the measure of the means.
        best: row of the summary -> the best value that any system could reach, drawn as a tick.
        retriever: decides the colour.

    Returns:
        None where the summary has no row.
    """
    if summary.empty:
        return None
    rows = summary[::-1]  # bars are drawn from the bottom up
    values = rows[["mean", "ci_low", "ci_high"]].astype(float)
    figure, axes = new_axes(8, 1 + 0.36 * len(rows))
    colour = colour_of(retriever) if retriever else GREY
    axes.barh(rows.index, values["mean"], color=colour, alpha=0.6, height=0.65)
    axes.hlines(rows.index, values["ci_low"], values["ci_high"], color="grey", linewidth=1)
    if best is not None:
        ticks = best.reindex(rows.index).dropna()
        axes.plot(ticks, ticks.index, "|", color=VERMILLION, markersize=13, markeredgewidth=2.5)
        xlabel += "; tick: best that any system could reach"
    axes.set(xlim=(0, 1.02), xlabel=f"{xlabel}; line: 95 % interval")
    return figure


def cause_bars(diagnosis: pd.DataFrame | None) -> Figure | None:
    """Draw where the questions of one configuration are lost, in the order in which data flows.

    Each bar ends, on the right, where the bar above begins, so that the last one, of the questions that
    did not fail, begins at 0. It includes right abstentions, although its stage is called "answered".

    Args:
        diagnosis: as in `Result.diagnosis`.

    Returns:
        None without a diagnosis.
    """
    if diagnosis is None:
        return None
    counts = count_causes(diagnosis)
    # the questions that are left after each cause: where its bar begins on the left
    n_left = len(diagnosis) - counts["questions"].cumsum()
    stages = counts["cause"].map({**STAGE_OF, "none": _ANSWERED})
    figure, axes = new_axes(9, 1.6 + 0.36 * len(counts))
    for stage, rows in counts.groupby(stages, sort=False):
        bars = axes.barh(
            rows.index,
            rows["questions"],
            left=n_left[rows.index],
            color=STAGE_COLOURS[str(stage)],
            height=0.62,
            label=stage,
        )
        numbers = zip(rows["questions"], rows["share"], strict=True)
        axes.bar_label(bars, [f" {n:.0f} ({share:.0%})" for n, share in numbers])
    axes.set_yticks(counts.index, counts["meaning"])
    axes.set(xlim=(0, len(diagnosis) * 1.14), xlabel="questions", ylim=(len(counts) - 0.5, -0.5))
    axes.set_title("Where questions are lost, in the order in which data flows", loc="left")
    figure.legend(loc="outside lower center", ncol=6, frameon=False)
    return figure


def stage_bars(diagnoses: Mapping[str, pd.DataFrame], board: pd.DataFrame) -> Figure | None:
    """Draw for each configuration the fraction of its questions that each stage lost.

    Args:
        diagnoses: name -> diagnosis, as in `Results.diagnoses`.
        board: name and label of the configurations in the order of the drawing.

    Returns:
        None if no configuration has a diagnosis.
    """
    stage_of = pd.Series({**STAGE_OF, "": _ANSWERED})
    fractions = {}
    for name, label in zip(board["name"], board["label"], strict=True):
        if name in diagnoses:
            stages = diagnoses[name]["cause"].map(stage_of)
            fractions[label] = stages.value_counts(normalize=True)
    # configuration x stage; rows are drawn from the bottom up
    table = pd.DataFrame(fractions, index=[*STAGE_COLOURS]).fillna(0.0).T.loc[::-1]
    table = table.loc[:, table.sum() > 0]
    if table.empty:
        return None
    figure, axes = new_axes(12, 1.5 + 0.26 * len(table))
    left = pd.Series(0.0, index=table.index)
    for stage, width in table.items():
        colour = STAGE_COLOURS[str(stage)]
        bars = axes.barh(table.index, width, left=left, color=colour, height=0.8, label=stage)
        texts = [_percent(fraction) for fraction in width]
        axes.bar_label(bars, texts, label_type="center", fontsize=9, color=_DARK)
        left += width
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    axes.set(xlim=(0, 1), xlabel="fraction of all questions")
    return figure


def _percent(fraction: float) -> str:
    """Return the label inside a bar; "" if it would not fit."""
    return f"{fraction:.0%}" if fraction > 0.03 else ""


def robustness_intervals(robust: pd.DataFrame) -> Figure | None:
    """Draw two panels with a row for each intervention (a change such as typos) and configuration.

    Left: the fraction of answers that are as the intervention expects. Right: the difference in
    correct answers from the untouched ones. Red marks fractions that a test proves to be too low.

    Args:
        robust: as from `ragbench.report.robustness_table`.

    Returns:
        None for a table without rows.
    """
    if robust.empty:
        return None
    rows = robust.sort_values(["intervention", "label"], ascending=False)
    names = rows["intervention"] + ": " + rows["label"] + " (n = " + rows["n"].astype(str) + ")"
    is_alarm = rows["p_holm"] < _ALARM
    colours = is_alarm.map({True: VERMILLION, False: BLUE}).tolist()
    figure, [left, right] = new_figure(13, 1.2 + 0.25 * len(rows), columns=2)
    # axes, the column of the value, the prefix of the columns of its interval
    for axes, column, prefix in ((left, "kept", ""), (right, "difference", "difference_")):
        low = rows[f"{prefix}ci_low"].astype(float)
        high = rows[f"{prefix}ci_high"].astype(float)
        axes.hlines(names, low, high, color=SKY)
        axes.scatter(rows[column].astype(float), names, c=colours)
    left.set(xlim=(-0.02, 1.02), xlabel="kept: fraction of answers that are as they must be")
    right.set(xlim=(-1, 1), xlabel="correct: difference from the untouched answers", yticklabels=[])
    return figure


def words_in_sources(table: pd.DataFrame, *, rows: int = 25) -> Figure | None:
    """Draw the fraction of each written answer's words that its sources contain, the lowest on top.

    Args:
        table: as from `ragbench.report.reference_table`.
        rows: how many answers are drawn at most.

    Returns:
        None if no answer was written.
    """
    lowest = table.dropna(subset=["in_sources"]).head(rows)[::-1]
    if lowest.empty:
        return None
    figure, axes = new_axes(10, 1 + 0.28 * len(lowest))
    axes.plot(lowest["in_sources"], range(len(lowest)), "o", color=BLUE)
    axes.set_yticks(range(len(lowest)), lowest["question"].str.slice(0, 70))
    axes.set(xlim=(0, 1.02), xlabel="fraction of the answer's words that its sources contain")
    return figure
