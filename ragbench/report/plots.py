"""The figures of the notebooks: records and tidy frames in, a matplotlib figure out.

One colour stands for one retriever and one marker and line style for one chunking, in every figure
of every notebook; the palette is Okabe and Ito's, which people with any colour vision can
distinguish (https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.errors import DataWarning
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
    "STAGE_COLOURS",
    "Style",
    "colour_of",
    "new_axes",
    "new_figure",
    "plot_budget_curves",
    "plot_decision",
    "plot_span_coverage",
    "style_legend",
    "styles",
]

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2 #E69F00 #009E73 #D55E00 #CC79A7 #56B4E9 #F0E442 #000000".split()
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
    """The look of one configuration: colour for its retriever, marker and line for its chunking, or
    for whatever else it differs in (`kind`).
    """

    colour: str
    marker: str
    line: Any
    kind: str


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
    alike = configurations.duplicated(["retriever", "chunking"]).any()
    kinds = [
        row["label"].removeprefix(f"{row['retriever']}, ") if alike else row["chunking"]
        for row in rows
    ]
    order = {kind: i for i, kind in enumerate(sorted(set(kinds), key=_natural))}
    return {
        row["name"]: Style(
            colour_of(row["retriever"], retrievers),
            _MARKERS[order[kind] % len(_MARKERS)],
            _LINES[order[kind] % len(_LINES)],
            kind,
        )
        for row, kind in zip(rows, kinds, strict=True)
    }


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Sort "fixed 128" before "fixed 1024"."""
    return [
        (0, int(part)) if part.isdigit() else (1, part) for part in text.replace("-", " ").split()
    ]


@lru_cache(maxsize=1)
def _figure_type() -> type[Figure]:
    from matplotlib import rc_context
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    class NotebookFigure(Figure):
        """A figure of its own, not pyplot's: no backend is chosen, and nothing stays open after a
        hundred notebooks.

        A notebook shows it as a PNG of 64 colours: executed notebooks are kept and shared, and that
        is a third of the size at no difference to the eye. Its texts are questions and ids of any
        dataset, so "$" is a dollar in them and never the begin of a formula.
        """

        def draw(self, renderer: RendererBase) -> None:
            texts = self.findobj(Text)
            families, missing = _fonts_for(frozenset("".join(text.get_text() for text in texts)))
            for text in texts:
                written = text.get_text().translate(missing)
                text.set(fontfamily=families, parse_math=False, text=written)
            for axis in self.findobj(Axis) if missing else ():
                labels = axis.get_major_formatter()
                if isinstance(labels, FuncFormatter):
                    axis.set_major_formatter(_translated(labels, missing))
            # for the labels of ticks, which are made while drawing
            with rc_context({"text.parse_math": False}):
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


def _translated(labels: Any, missing: dict[int, str]) -> Callable[..., str]:
    return lambda *tick: str(labels(*tick)).translate(missing)


@lru_cache
def _fonts_for(letters: frozenset[str]) -> tuple[list[str], dict[int, str]]:
    """Return fonts that together have the letters, and what is written for letters that no installed
    font has.
    """
    from matplotlib import font_manager as fonts

    families = ["DejaVu Sans"]
    missing = {ord(letter) for letter in letters if letter.isprintable()}
    missing -= fonts.get_font(fonts.findfont("DejaVu Sans")).get_charmap().keys()
    installed = fonts.findSystemFonts() if missing else []  # the list in its cache may be old
    for path in sorted(installed, key=lambda path: ("Regular" not in path, "Serif" in path, path)):
        with suppress(OSError, RuntimeError):  # of files that the library cannot read
            font = fonts.get_font(path)
            if covered := missing & font.get_charmap().keys():
                fonts.fontManager.addfont(path)
                families.append(font.family_name)
                missing -= covered
    if missing:
        warnings.warn(
            f'no installed font has {"".join(map(chr, sorted(missing)[:40]))}: a figure has "?" '
            "in their place; install a font for them, such as those of Noto",
            DataWarning,
            stacklevel=2,
        )
    return families, dict.fromkeys(missing, "?")


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure of this many inches with one pair of axes."""
    figure, [axes] = new_figure(width, height)
    return figure, axes


def plot_decision(board: pd.DataFrame, measure: str, comparison: pd.DataFrame) -> Figure:
    """Draw the difference of each configuration from the baseline in its interval, best first, next
    to its mean, the questions won and lost, latency and cost.

    Filled marks are differences whose interval and Holm-adjusted p show better (blue) or worse
    (red); hollow ones are undecided. At most 30 configurations are drawn.

    Args:
        board: as from `Results.leaderboard`.
        measure: what it is ranked by.
        comparison: as from `Results.compare` by that measure.
    """
    rows = board.merge(comparison, on="name", how="left").head(_MAX_ROWS)
    figure = _figure_type()(
        figsize=(11, 1.1 + 0.27 * len(rows)), layout="constrained", facecolor="white", dpi=80
    )
    panels = figure.subplots(1, 5, sharey=True, width_ratios=(6, 1, 1.6, 1, 1.2))
    axes, *columns = panels
    axes.axvline(0, color="black", linewidth=1)
    for y, row in enumerate(rows.to_dict("records")):
        decision = row["decision"] if isinstance(row["decision"], str) else ""
        colour = {"better": BLUE, "worse": VERMILLION}.get(decision, GREY)
        if not math.isnan(float(row["ci_low"] if decision else "nan")):
            axes.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=2.5)
        face = "white" if colour == GREY else colour
        difference = row["difference"] if decision else 0.0
        axes.plot(difference, y, "o" if decision else "|", color=colour, markerfacecolor=face)
        won = f"{row['wins']:.0f} / {row['losses']:.0f}" if decision else "baseline"
        latency, cost = row["latency_p50_ms"], row["cost_per_1000_usd"]
        texts = (f"{row[measure]:.3f}", won, _short(latency, ",.0f"), _short(cost, ",.2f"))
        for column, text in zip(columns, texts, strict=True):
            column.text(
                0.5, y, text, ha="center", va="center", transform=column.get_yaxis_transform()
            )
    axes.set_yticks(range(len(rows)), rows["label"])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"difference in {measure} from the baseline, 95 % interval")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    headings = ("mean", "better / worse", "p50 ms", "$ per 1,000")
    for column, heading in zip(columns, headings, strict=True):
        column.set_title(heading, fontsize=10)
        column.axis("off")
    return figure


_MAX_ROWS = 30


def _short(value: Any, form: str) -> str:
    return "–" if value is None or math.isnan(value) else format(value, form)


def plot_span_coverage(
    dataset: Dataset, chunks: Sequence[Chunk], run: Run, doc_id: str, *, k: int = 5, rows: int = 12
) -> Figure:
    """Draw one document from its first to its last character in lines: chunk borders, gold
    evidence, what was retrieved.

    Args:
        dataset: gives the document and the evidence of every question in it. chunks: the chunking
        to show. run: chunk-level run; a chunk counts as retrieved when it is among the best `k` of
        a question whose evidence lies in this document.
        doc_id: the document.
        k: depth of what counts as retrieved.
        rows: maximum number of lines.
    """
    import numpy as np
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    chunks = [chunk for chunk in chunks if chunk.doc_id == doc_id]
    length = max(len(dataset.corpus[doc_id].full_text), 1)
    lines = max(1, min(rows, math.ceil(length / 1500)))
    per_line = math.ceil(length / lines)
    cases = [case for case in dataset.cases if any(span.doc_id == doc_id for span in case.evidence)]
    rankings = [run.get(case.query_id, {}) for case in cases]
    retrieved = {
        chunk_id for scores in rankings for chunk_id in sorted(scores, key=lambda c: -scores[c])[:k]
    }
    states = np.zeros(lines * per_line)  # 1: retrieved, 2: evidence, 3: both
    for chunk in chunks:
        if chunk.chunk_id in retrieved:
            states[chunk.start : chunk.end] = 1
    evidence = np.zeros(len(states), dtype=bool)
    for span in (span for case in cases for span in case.evidence if span.doc_id == doc_id):
        evidence[span.start : span.end] = True
    states += 2 * evidence
    states[length:] = math.nan
    figure, axes = new_axes(10, 1.5 + 0.42 * lines)
    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": 3}
    colours = ["#EDEDED", SKY, VERMILLION, GREEN]
    axes.imshow(states.reshape(lines, per_line), cmap=ListedColormap(colours), **look)
    line, column = np.divmod([chunk.start for chunk in chunks], per_line)
    axes.vlines(column, line - 0.45, line + 0.45, color=BLACK, linewidth=0.8)
    axes.hlines(np.arange(1, lines) - 0.5, 0, per_line, color="white", linewidth=4)
    axes.set(
        xlim=(0, per_line),
        xlabel="character within the line",
        ylabel="first character of the line",
    )
    axes.set_yticks(range(lines), [f"{start:,}" for start in range(0, lines * per_line, per_line)])
    axes.set_title(
        f"{doc_id}: {len(chunks)} chunks, evidence of {len(cases)} questions, best {k} chunks of "
        "each",
        loc="left",
    )
    names = ["not retrieved", "retrieved", "evidence, not retrieved", "evidence, retrieved"]
    entries = [*zip(names, colours, strict=True), ("chunk border", BLACK)]
    handles = [Patch(facecolor=colour, label=label) for label, colour in entries]
    figure.legend(handles=handles, loc="outside lower center", ncol=len(entries), frameon=False)
    return figure


def style_legend(figure: Figure, configurations: pd.DataFrame, look: Mapping[str, Style]) -> None:
    """Draw the legend of a figure whose colours are retrievers and whose markers are chunkings, on
    its right.

    At most seven entries: of many, the first and how many more there are.
    """
    from matplotlib.lines import Line2D

    rows = configurations.to_dict("records")
    colours = {row["retriever"]: look[row["name"]].colour for row in rows}
    markers = {look[row["name"]].kind: look[row["name"]].marker for row in rows}
    entries = [
        (name, Line2D([], [], color=colour, linewidth=6))
        for name, colour in sorted(colours.items())
        if len(colours) > 1
    ]
    entries += [
        (name, Line2D([], [], color="#555555", marker=markers[name], linestyle=""))
        for name in sorted(markers, key=_natural)
        if len(markers) > 1
    ]
    if len(entries) > _MAX_ENTRIES:
        more = len(entries) - _MAX_ENTRIES + 1
        entries = [*entries[: _MAX_ENTRIES - 1], (f"and {more} more", Line2D([], [], linestyle=""))]
    if entries:
        names, handles = zip(*entries, strict=True)
        figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)


_MAX_ENTRIES = 7


def plot_budget_curves(curves: pd.DataFrame, look: Mapping[str, Style]) -> Figure:
    """Draw evidence recall against the context budget, a line with its 95 % interval for each
    configuration.

    Chunkings are drawn next to each other, on the same axes.

    Args:
        curves: `budget_curve` of every configuration: name, retriever, chunking, budget (tokens), mean, ci_low,
        ci_high.
        look: name -> style.
    """
    chunkings = sorted(set(curves["chunking"]), key=_natural)
    groups = [[name] for name in chunkings] if len(chunkings) <= _MAX_PANELS else [chunkings]
    figure, panels = new_figure(max(9, 3.1 * len(groups) + 2), 3.6, columns=len(groups))
    budgets = sorted(set(curves["budget"]))
    for axes, group in zip(panels, groups, strict=True):
        for name, curve in curves[curves["chunking"].isin(group)].groupby("name", sort=False):
            numbers = dict.fromkeys(("mean", "ci_low", "ci_high"), float)
            style, curve = look[str(name)], curve.sort_values("budget").astype(numbers)
            line = "-" if len(groups) > 1 else style.line
            axes.plot(
                curve["budget"], curve["mean"], style.marker, color=style.colour, linestyle=line
            )
            band = curve["budget"], curve["ci_low"], curve["ci_high"]
            axes.fill_between(*band, color=style.colour, alpha=0.12, linewidth=0)
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
    title = "Evidence recall at an equal context budget, with 95 % intervals"
    figure.suptitle(title, x=0.01, ha="left")
    style_legend(figure, curves.drop_duplicates("name"), look)
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
