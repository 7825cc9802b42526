"""The figures of the notebooks: records and tidy frames in, a matplotlib figure out.

One colour stands for one retriever and one marker and line style for one chunking, in every figure
of every notebook; the palette is Okabe and Ito's, which people with any colour vision can
distinguish (https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.evaluation import CAUSES, STAGE_OF
from ragbench.types import Chunk, Dataset, Run

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
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
    "plot_span_coverage",
    "plot_trend",
    "style_legend",
    "styles",
]

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
GREY = "#8C8C8C"


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
    """Return the colour of a retriever; one that ragbench does not name takes the next spare, by
    its place in `among`.

    >>> colour_of("bm25")
    '#E69F00'
    """
    if retriever in _KNOWN:
        return _KNOWN[retriever]
    others = [name for name in dict.fromkeys(among) if name not in _KNOWN]
    return _SPARE[others.index(retriever) % len(_SPARE)] if retriever in others else _SPARE[0]


def styles(configurations: pd.DataFrame) -> dict[str, Style]:
    """Return name -> style, for a frame with the columns `name`, `label`, `retriever` and
    `chunking`.

    Configurations that share both (they differ in model, prompt or k) have markers and lines of
    their own.
    """
    retrievers = sorted(set(configurations["retriever"]))
    rows = configurations.to_dict("records")
    rest_of = {
        row["name"]: str(row.get("label", "")).removeprefix(f"{row['retriever']}, ") for row in rows
    }
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
    """Sort "fixed 128" before "fixed 1024"."""
    return [
        (0, int(part)) if part.isdigit() else (1, part) for part in text.replace("-", " ").split()
    ]


@lru_cache(maxsize=1)
def _figure_type() -> type[Figure]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    class NotebookFigure(Figure):
        """A figure of its own, not pyplot's: no backend is chosen, and nothing stays open after a
        hundred notebooks.

        A notebook shows it as a PNG of 64 colours: executed notebooks are kept and shared, and that
        is a third of the size at no difference to the eye. Its texts are questions and ids of any
        dataset, so "$" is a dollar in them and never the begin of a formula.
        """

        def draw(self, renderer: RendererBase) -> None:
            with rc_context(
                {"text.parse_math": False}
            ):  # for the labels of ticks, which are made while drawing
                for text in self.findobj(Text):
                    text.set_parse_math(False)
                super().draw(renderer)

        def _repr_png_(self) -> bytes:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from PIL import Image

            canvas: Any = FigureCanvasAgg(self)
            small = BytesIO()
            canvas.draw()  # once, where savefig draws twice
            drawn = Image.frombuffer(
                "RGBA", canvas.get_width_height(), canvas.buffer_rgba()
            ).convert("RGB")
            drawn.quantize(64, dither=Image.Dither.NONE).save(small, "png", optimize=True)
            return small.getvalue()

    return NotebookFigure


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure of this many inches with axes next to each other."""
    figure = _figure_type()(figsize=(width, height), layout="constrained", dpi=80)
    panels = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    return figure, panels


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure of this many inches with one pair of axes."""
    figure, [axes] = new_figure(width, height)
    return figure, axes


def nothing_to_draw(why: str) -> Figure:
    """Make a figure with the reason why it is empty, so that a notebook continues."""
    figure, axes = new_axes(8, 0.8)
    axes.axis("off")
    axes.text(0, 0.5, why, va="center", color="#444444")
    return figure


def plot_trend(rows: pd.DataFrame, label: str, *, scale: float = 1.0) -> Figure:
    """Draw a measure over time, as from `ragbench.trend`: means with their intervals as bands, a
    line per epoch.

    Grey vertical lines mark what changed (versions, parameters, the dataset), red ones the runs
    that raised an alarm.
    """
    figure, axes = new_axes(9, 2.8)
    colours = [BLUE, ORANGE, GREEN, PURPLE, SKY, BLACK]
    lines = list(dict.fromkeys(rows["configuration"]))
    for (configuration, _), part in rows.groupby(["configuration", "epoch"], sort=False):
        colour = colours[lines.index(configuration) % len(colours)]
        axes.plot(part["made_at"], part["mean"] * scale, color=colour, marker=".", linewidth=1)
        low, high = part["ci_low"] * scale, part["ci_high"] * scale
        axes.fill_between(part["made_at"], low, high, color=colour, alpha=0.15, linewidth=0)
    for row in rows.to_dict("records"):
        if row["changed"] not in ("", "first run", "unchanged scores"):
            axes.axvline(row["made_at"], color=GREY, linestyle=":", linewidth=1)
            axes.annotate(
                row["changed"][:40],
                (row["made_at"], 0.02),
                xycoords=("data", "axes fraction"),
                rotation=90,
                fontsize=7,
                color=GREY,
                ha="right",
            )
        if row["state"] in ("fall", "rise"):
            axes.axvline(row["made_at"], color=VERMILLION, linewidth=1)
    axes.set_ylabel(label)
    axes.tick_params(axis="x", labelrotation=20, labelsize=8)
    if len(lines) > 1:
        legend_below(axes, [(name, colours[i % len(colours)]) for i, name in enumerate(lines)][:6])
    return figure


def legend_below(axes: Axes, entries: Sequence[tuple[str, str]]) -> None:
    """Draw label and colour of each entry below the figure."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=label) for label, colour in entries]
    axes.figure.legend(
        handles=handles, loc="outside lower center", ncol=len(entries), frameon=False
    )


def _whiskers(rows: pd.DataFrame) -> list[FloatArray]:
    """Return how far the interval reaches below and above each mean; nothing where there is none (a
    single question)."""
    import numpy as np

    mean, low, high = (
        rows[name].to_numpy(dtype=float, na_value=np.nan) for name in ("mean", "ci_low", "ci_high")
    )
    # Equal numbers may differ in their last bit, and matplotlib refuses a whisker shorter than
    # nothing.
    return [np.nan_to_num(mean - low).clip(min=0.0), np.nan_to_num(high - mean).clip(min=0.0)]


def plot_ceilings(summary: pd.DataFrame, ceilings: pd.DataFrame, *, retriever: str = "") -> Figure:
    """Draw bars of the mean of each measure with its interval, and a tick where no system could do
    better.

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
    axes.errorbar(
        mean,
        rows["measure"],
        xerr=_whiskers(rows),
        fmt="none",
        ecolor=BLACK,
        elinewidth=1,
        capsize=2,
    )
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
    axes.set(
        xlim=(0, 1.02),
        xlabel="mean over the queries (bar), 95 % interval (whisker), best reachable (tick)",
    )
    axes.set_title("Every measure against the best that any system could reach", loc="left")
    return figure


def plot_categories(table: pd.DataFrame, measure: str, *, retriever: str = "") -> Figure:
    """Draw one bar per category with its interval; the label shows the number of questions.

    Args:
        table: category, mean, ci_low, ci_high, n_scored, n.
        measure: the name of what is drawn, for the axis.
        retriever: gives the bars their colour.
    """
    rows = table[table["mean"].notna()].iloc[::-1]
    figure, axes = new_axes(8, 1.1 + 0.45 * max(len(rows), 1))
    mean = rows["mean"].astype(float)
    labels = [
        f"{row['category'] or 'no category'} (n = {row['n_scored']})"
        for row in rows.to_dict("records")
    ]
    axes.barh(labels, mean, color=colour_of(retriever), alpha=0.6, height=0.6)
    axes.errorbar(
        mean, labels, xerr=_whiskers(rows), fmt="none", ecolor=BLACK, elinewidth=1.2, capsize=3
    )
    axes.set(xlim=(0, 1.02), xlabel=f"mean {measure}, with its 95 % interval")
    axes.set_title("Where it is strong and where it is weak", loc="left")
    return figure


def plot_span_coverage(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    run: Run,
    doc_id: str | None,
    *,
    k: int = 5,
    rows: int = 12,
) -> Figure:
    """Draw one document from its first to its last character in lines: chunk borders, gold
    evidence, what was retrieved.

    Args:
        dataset: gives the document and the evidence of every question in it. chunks: the chunking
        to show. run: chunk-level run; a chunk counts as retrieved when it is among the best `k` of
        a question whose evidence
            lies in this document.
        doc_id: the document; None (no document has evidence) gives a figure with that message.
        k: depth of what counts as retrieved.
        rows: maximum number of lines.
    """
    if doc_id is None:
        return nothing_to_draw(
            "This dataset has no gold evidence spans, so there is no coverage to show."
        )
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
    axes.set(
        ylim=(lines, 0),
        xlim=(-per_line * 0.005, per_line * 1.005),
        xlabel="character within the line",
    )
    axes.set_yticks(
        [line + 0.5 for line in range(lines)], [f"{line * per_line:,}" for line in range(lines)]
    )
    axes.set_ylabel("first character of the line")
    axes.set_title(
        f"{doc_id}: {len(own)} chunks, evidence of {len(cases)} questions, best {k} chunks of each",
        loc="left",
    )
    legend_below(
        axes,
        [
            ("gold evidence", VERMILLION),
            ("retrieved", SKY),
            ("not retrieved", "#EDEDED"),
            ("chunk border", BLACK),
        ],
    )
    return figure


def style_legend(figure: Figure, configurations: pd.DataFrame, look: Mapping[str, Style]) -> None:
    """Draw the legend of a figure whose colours are retrievers and whose markers are chunkings, on
    its right.

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


def plot_budget_curves(
    curves: pd.DataFrame, look: Mapping[str, Style], *, title: str = ""
) -> Figure:
    """Draw evidence recall against the context budget, a line with its 95 % interval for each
    configuration.

    Chunkings are drawn next to each other, on the same axes.

    Args:
        curves: name, label, budget (tokens), mean, ci_low, ci_high (the last two may be missing);
        retriever and
            chunking, if known, give the panels and the legend.
        look: name -> style.
        title: what to look for.
    """
    if curves.empty:
        return nothing_to_draw(
            "This dataset has no gold evidence spans, so there is no recall at a budget to show."
        )
    rows = curves if "chunking" in curves else curves.assign(retriever=curves["label"], chunking="")
    chunkings = sorted(set(rows["chunking"]), key=_natural)
    groups = [[one] for one in chunkings] if 1 < len(chunkings) <= _MAX_PANELS else [chunkings]
    figure, panels = new_figure(max(9, 3.1 * len(groups) + 2), 3.6, columns=len(groups))
    budgets = sorted(set(rows["budget"]))
    for axes, group in zip(panels, groups, strict=True):
        for name, own in rows[rows["chunking"].isin(group)].groupby("name", sort=False):
            style, own = look[str(name)], own.sort_values("budget")
            line = "-" if len(groups) > 1 else style.line
            axes.plot(
                own["budget"], own["mean"], color=style.colour, marker=style.marker, linestyle=line
            )
            if "ci_low" in own:
                mean = own["mean"].to_numpy(dtype=float)
                below, above = _whiskers(own)
                axes.fill_between(
                    own["budget"],
                    mean - below,
                    mean + above,
                    color=style.colour,
                    alpha=0.12,
                    linewidth=0,
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
    figure.suptitle(
        title or "Evidence recall at an equal context budget, with 95 % intervals",
        x=0.01,
        ha="left",
    )
    style_legend(figure, rows.drop_duplicates("name"), look)
    return figure


_MAX_PANELS = 4

STAGE_COLOURS = {
    "answered": GREEN,
    "retrieval": BLUE,
    "chunking": ORANGE,
    "generation": VERMILLION,
    "judge": PURPLE,
    "label": YELLOW,
    "unknown": GREY,
}
"""The colour of each stage that can lose a question, and of what was answered."""


def _cause_colours() -> dict[str, str]:
    """Give causes of one stage its colour, each lighter than the one before."""
    colours, shades = {"none": GREEN}, dict.fromkeys(STAGE_COLOURS, 0)
    for cause, stage in STAGE_OF.items():
        paper = 0.15 * shades[stage]
        shades[stage] += 1
        parts = [int(STAGE_COLOURS[stage][i : i + 2], 16) for i in (1, 3, 5)]
        colours[cause] = "#" + "".join(
            f"{round(part + (255 - part) * paper):02X}" for part in parts
        )
    return colours


CAUSE_COLOURS = _cause_colours()
"""The colour of each cause of `ragbench.evaluation.CAUSES`, and of "none"."""


def plot_causes(counts: pd.DataFrame) -> Figure:
    """Draw from all questions to the causes: each bar begins where the one above it ended, so that
    nothing counts twice.

    Args:
        counts: as from `ragbench.evaluation.count_causes`.
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
    """Draw a bar for each configuration: the fraction of its questions by cause, in the order of
    the rows, first on top.

    Args:
        shares: a row for each configuration, a column for each cause of `CAUSE_COLOURS`. Of more
        than seven causes the
            rarest are drawn as one.
    """
    names = {**CAUSES, "none": "not failed", "other": "other causes"}
    surplus = shares.shape[1] - _MAX_CAUSES
    rare = list(shares.mean().nsmallest(surplus + 1).index) if surplus > 0 else []
    drawn = shares.drop(columns=rare)[
        [cause for cause in CAUSE_COLOURS if cause in shares and cause not in rare]
    ]
    if rare:
        drawn = drawn.assign(other=shares[rare].sum(axis=1))
    figure, axes = new_axes(12, 1.5 + 0.26 * len(drawn))
    left = drawn.cumsum(axis=1) - drawn
    for cause in drawn:
        colour = CAUSE_COLOURS.get(str(cause), "#D9D9D9")
        bars = axes.barh(
            drawn.index,
            drawn[cause],
            left=left[cause],
            color=colour,
            height=0.8,
            label=names[str(cause)],
        )
        texts = [f"{value:.0%}" if value > 0.03 else "" for value in drawn[cause]]
        axes.bar_label(bars, texts, label_type="center", fontsize=9)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="fraction of all questions")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(loc="outside lower center", ncol=4, frameon=False, fontsize=9)
    return figure


_MAX_CAUSES = 7
