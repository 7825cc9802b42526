"""The figures of the notebooks: records and tidy frames in, a matplotlib figure out.

One colour stands for one retriever and one marker and line style for one chunking, in every figure of every
notebook; the palette is Okabe and Ito's, which people with any colour vision can distinguish
(https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.plots.drawing import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    legend_below,
    new_axes,
    new_figure,
    nothing_to_draw,
)
from ragbench.plots.failures import CAUSE_COLOURS, STAGE_COLOURS, plot_cause_shares, plot_causes
from ragbench.plots.judges import plot_judge_audit
from ragbench.types import Chunk, Dataset, Run

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.figure import Figure

    FloatArray = npt.NDArray[np.float64]

__all__ = [
    "CAUSE_COLOURS",
    "STAGE_COLOURS",
    "Style",
    "colour_of",
    "legend_below",
    "new_axes",
    "new_figure",
    "plot_budget_curves",
    "plot_categories",
    "plot_cause_shares",
    "plot_causes",
    "plot_ceilings",
    "plot_judge_audit",
    "plot_span_coverage",
    "style_legend",
    "styles",
]

# The retrievers that ragbench names by itself keep their colour in every sweep.
_KNOWN = {
    "bm25": ORANGE,
    "dense:wordllama": GREEN,
    "dense:minilm": BLUE,
    "hybrid:minilm": PURPLE,
    "hybrid:wordllama": SKY,
}
_SPARE = [VERMILLION, BLACK, YELLOW, SKY]
_LINES = ["-", "--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 4))]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


class Style(NamedTuple):
    """How one configuration looks: colour for its retriever, marker and line for its chunking."""

    colour: str
    marker: str
    line: Any


def colour_of(retriever: str, among: Sequence[str] = ()) -> str:
    """The colour of a retriever; one that ragbench does not name takes the next spare, by its place in `among`.

    >>> colour_of("bm25")
    '#E69F00'
    """
    if retriever in _KNOWN:
        return _KNOWN[retriever]
    others = [name for name in dict.fromkeys(among) if name not in _KNOWN]
    return _SPARE[others.index(retriever) % len(_SPARE)] if retriever in others else _SPARE[0]


def styles(configurations: pd.DataFrame) -> dict[str, Style]:
    """name -> style, for a frame with the columns `name`, `label`, `retriever` and `chunking`.

    Configurations that share both (they differ in model, prompt or k) have markers and lines of their own.
    """
    retrievers = sorted(set(configurations["retriever"]))
    rows = configurations.to_dict("records")
    rest_of = {row["name"]: str(row.get("label", "")).removeprefix(f"{row['retriever']}, ") for row in rows}
    alike = configurations.duplicated(["retriever", "chunking"]).any()
    look_of = {row["name"]: rest_of[row["name"]] if alike else row["chunking"] for row in rows}
    looks = list(dict.fromkeys(sorted(look_of.values(), key=_natural)))
    return {
        row["name"]: Style(
            colour_of(row["retriever"], retrievers),
            _MARKERS[looks.index(look_of[row["name"]]) % len(_MARKERS)],
            _LINES[looks.index(look_of[row["name"]]) % len(_LINES)],
        )
        for row in rows
    }


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sorts "fixed 128" before "fixed 1024"."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in text.replace("-", " ").split()]


def _whiskers(rows: pd.DataFrame) -> list[FloatArray]:
    """How far the interval reaches below and above each mean; nothing where there is none (a single question)."""
    import numpy as np

    mean, low, high = (rows[name].to_numpy(dtype=float, na_value=np.nan) for name in ("mean", "ci_low", "ci_high"))
    # Equal numbers may differ in their last bit, and matplotlib refuses a whisker shorter than nothing.
    return [np.nan_to_num(mean - low).clip(min=0.0), np.nan_to_num(high - mean).clip(min=0.0)]


def plot_ceilings(summary: pd.DataFrame, ceilings: pd.DataFrame, *, retriever: str = "") -> Figure:
    """Bars of the mean of each measure with its interval, and a tick where no system could do better.

    Args:
        summary: as from `summarise`: measure, mean, ci_low, ci_high, n_scored, n.
        ceilings: as from `ceilings`: query_id, measure, value.
        retriever: gives the bars their colour.
    """
    best = ceilings.groupby("measure")["value"].mean()
    rows = summary[summary["measure"].isin(best.index) & summary["mean"].notna()].iloc[::-1]
    figure, axes = new_axes(8, 1 + 0.32 * max(len(rows), 1))
    mean = rows["mean"].astype(float)
    axes.barh(rows["measure"], mean, color=colour_of(retriever), alpha=0.6, height=0.65)
    axes.errorbar(mean, rows["measure"], xerr=_whiskers(rows), fmt="none", ecolor=BLACK, elinewidth=1, capsize=2)
    axes.plot(
        best[rows["measure"]],
        rows["measure"],
        "|",
        color=VERMILLION,
        markersize=13,
        markeredgewidth=2.5,
        label="ceiling",
    )
    for y, (value, top) in enumerate(zip(mean, best[rows["measure"]], strict=True)):
        axes.text(0.01, y, f"{value:.3f} of {top:.3f}", va="center", fontsize=8)
    axes.margins(y=0.01)
    axes.set(xlim=(0, 1.02), xlabel="mean over the queries (bar), 95 % interval (whisker), best reachable (tick)")
    axes.set_title("Every measure against the best that any system could reach", loc="left")
    axes.legend(loc="lower right", frameon=True)
    return figure


def plot_categories(table: pd.DataFrame, measure: str, *, retriever: str = "") -> Figure:
    """One bar per category with its interval; the label shows the number of questions.

    Args:
        table: category, mean, ci_low, ci_high, n_scored, n.
        measure: the name of what is drawn, for the axis.
        retriever: gives the bars their colour.
    """
    rows = table[table["mean"].notna()].iloc[::-1]
    figure, axes = new_axes(8, 1.1 + 0.45 * max(len(rows), 1))
    mean = rows["mean"].astype(float)
    labels = [f"{row['category'] or 'no category'} (n = {row['n_scored']})" for row in rows.to_dict("records")]
    axes.barh(labels, mean, color=colour_of(retriever), alpha=0.6, height=0.6)
    axes.errorbar(mean, labels, xerr=_whiskers(rows), fmt="none", ecolor=BLACK, elinewidth=1.2, capsize=3)
    axes.set(xlim=(0, 1.02), xlabel=f"mean {measure}, with its 95 % interval")
    axes.set_title("Where it is strong and where it is weak", loc="left")
    return figure


def plot_span_coverage(
    dataset: Dataset, chunks: Sequence[Chunk], run: Run, doc_id: str | None, *, k: int = 5, rows: int = 12
) -> Figure:
    """One document from its first to its last character, in lines: chunk borders, gold evidence, what was retrieved.

    Args:
        dataset: gives the document and the evidence of every question in it.
        chunks: the chunking to show.
        run: chunk-level run; a chunk counts as retrieved when it is among the best `k` of a question whose evidence
            lies in this document.
        doc_id: the document; None (no document has evidence) gives a figure with that message.
        k: depth of what counts as retrieved.
        rows: maximum number of lines.
    """
    import math

    if doc_id is None:
        return nothing_to_draw("This dataset has no gold evidence spans, so there is no coverage to show.")
    own = [chunk for chunk in chunks if chunk.doc_id == doc_id]
    length = max(len(dataset.corpus[doc_id].full_text), 1)
    lines = max(1, min(rows, math.ceil(length / 1500)))
    per_line = math.ceil(length / lines)
    cases = [case for case in dataset.cases if any(span.doc_id == doc_id for span in case.evidence)]
    retrieved = {
        chunk_id
        for case in cases
        for chunk_id in sorted(run.get(case.query_id, {}), key=lambda c: -run[case.query_id][c])[:k]
    }
    figure, axes = new_axes(10, 1.5 + 0.42 * lines)

    def band(start: int, end: int, bottom: float, height: float, **look: Any) -> None:
        for line in range(start // per_line, max(start, end - 1) // per_line + 1):
            left = max(start, line * per_line) - line * per_line
            right = min(end, (line + 1) * per_line) - line * per_line
            axes.broken_barh([(left, max(right - left, 1))], (line + bottom, height), **look)

    band(0, length, 0.1, 0.8, facecolor="#EDEDED")
    for chunk in own:
        if chunk.chunk_id in retrieved:
            band(chunk.start, chunk.end, 0.1, 0.8, facecolor=SKY)
        line, left = divmod(chunk.start, per_line)
        axes.plot([left, left], [line + 0.05, line + 0.95], color=BLACK, linewidth=0.8)
    for case in cases:
        for span in case.evidence:
            if span.doc_id == doc_id:
                band(span.start, span.end, 0.3, 0.4, facecolor=VERMILLION)
    axes.set(ylim=(lines, 0), xlim=(-per_line * 0.005, per_line * 1.005), xlabel="character within the line")
    axes.set_yticks([line + 0.5 for line in range(lines)], [f"{line * per_line:,}" for line in range(lines)])
    axes.set_ylabel("first character of the line")
    axes.set_title(
        f"{doc_id}: {len(own)} chunks, evidence of {len(cases)} questions, best {k} chunks of each", loc="left"
    )
    legend_below(
        axes, [("gold evidence", VERMILLION), ("retrieved", SKY), ("not retrieved", "#EDEDED"), ("chunk border", BLACK)]
    )
    return figure


def style_legend(figure: Figure, configurations: pd.DataFrame, look: Mapping[str, Style]) -> None:
    """The legend of a figure whose colours are retrievers and whose markers are chunkings, on its right.

    At most seven entries: of many, the first and how many more there are.
    """
    from matplotlib.lines import Line2D

    rows = [(row, look[row["name"]]) for row in configurations.to_dict("records")]
    colours = {row["retriever"]: own.colour for row, own in rows}
    markers = {row["chunking"]: own for row, own in rows if row["chunking"]}
    if len({own.marker for _, own in rows}) > len(markers):  # they differ in more than the chunking
        markers = {row["label"].removeprefix(f"{row['retriever']}, "): own for row, own in rows}
    entries = [
        (name, Line2D([], [], color=colour, linewidth=6))
        for name, colour in sorted(colours.items())
        if len(colours) > 1
    ]
    entries += [
        (name, Line2D([], [], color="#555555", marker=own.marker, linestyle=""))
        for name, own in sorted(markers.items(), key=lambda one: _natural(one[0]))
        if len(markers) > 1
    ]
    if len(entries) > _MAX_ENTRIES:
        more = len(entries) - _MAX_ENTRIES + 1
        entries = [*entries[: _MAX_ENTRIES - 1], (f"and {more} more", Line2D([], [], linestyle=""))]
    if entries:
        names, handles = zip(*entries, strict=True)
        figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)


_MAX_ENTRIES = 7


def plot_budget_curves(curves: pd.DataFrame, look: Mapping[str, Style], *, title: str = "") -> Figure:
    """Evidence recall against the context budget, a line with its 95 % interval for each configuration.

    Chunkings are drawn next to each other, on the same axes.

    Args:
        curves: name, label, budget (tokens), mean, ci_low, ci_high (the last two may be missing); retriever and
            chunking, if known, give the panels and the legend.
        look: name -> style.
        title: what to look for.
    """
    if curves.empty:
        return nothing_to_draw("This dataset has no gold evidence spans, so there is no recall at a budget to show.")
    rows = curves if "chunking" in curves else curves.assign(retriever=curves["label"], chunking="")
    chunkings = sorted(set(rows["chunking"]), key=_natural)
    groups = [[one] for one in chunkings] if 1 < len(chunkings) <= _MAX_PANELS else [chunkings]
    figure, panels = new_figure(max(9, 3.1 * len(groups) + 2), 3.6, columns=len(groups))
    budgets = sorted(set(rows["budget"]))
    for axes, group in zip(panels, groups, strict=True):
        for name, own in rows[rows["chunking"].isin(group)].groupby("name", sort=False):
            style, own = look[str(name)], own.sort_values("budget")
            line = "-" if len(groups) > 1 else style.line
            axes.plot(own["budget"], own["mean"], color=style.colour, marker=style.marker, linestyle=line)
            if "ci_low" in own:
                mean = own["mean"].to_numpy(dtype=float)
                below, above = _whiskers(own)
                axes.fill_between(
                    own["budget"], mean - below, mean + above, color=style.colour, alpha=0.12, linewidth=0
                )
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
        axes.set(xlabel="context budget (tokens)", ylim=(0, 1.02))
        axes.grid(axis="y", alpha=0.3)
        axes.set_title(group[0] if len(groups) > 1 else "", fontsize=10)
    panels[0].set_ylabel("gold evidence inside the budget")
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axes in panels[1:]:
        axes.set_yticklabels([])
    figure.suptitle(title or "Evidence recall at an equal context budget, with 95 % intervals", x=0.01, ha="left")
    style_legend(figure, rows.drop_duplicates("name"), look)
    return figure


_MAX_PANELS = 4
