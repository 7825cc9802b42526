"""What all figures of the notebooks share: size, the colour of each retriever, markers, legend,
alternative text.

One colour stands for one retriever and one marker for one chunking, in every figure of every
notebook; the palette is Okabe and Ito's, which people with any colour vision can
distinguish (https://jfly.uni-koeln.de/color/).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from itertools import cycle
from typing import Any, NamedTuple

import pandas as pd
from matplotlib import font_manager as fonts
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter
from PIL import Image

from ragbench.errors import warn_user

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW = (
    "#0072B2 #E69F00 #009E73 #D55E00 #CC79A7 #56B4E9 #F0E442".split()
)
GREY = "#8C8C8C"
INK = "#757575"  # of texts and lines: a contrast of 4.6 with white and with black


# The retrievers that ragbench names by itself keep their colour in every sweep.
_KNOWN = {
    "bm25": ORANGE,
    "dense:wordllama": GREEN,
    "dense:minilm": BLUE,
    "hybrid:minilm": PURPLE,
    "hybrid:wordllama": SKY,
}
_SPARE = [VERMILLION, GREY, YELLOW, SKY]
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


class Style(NamedTuple):
    """The look of one configuration: colour for its retriever, marker for its chunking, or for
    whatever else it differs in (`kind`).
    """

    colour: str
    marker: str
    kind: str


def colour_of(retriever: str) -> str:
    """Return the colour of a retriever; red for one that ragbench does not name.

    >>> colour_of("bm25")
    '#E69F00'
    """
    return _KNOWN.get(retriever, _SPARE[0])


def styles(configurations: pd.DataFrame) -> dict[str, Style]:
    """Return name -> style: the colour of a configuration is its retriever, the marker its chunking.

    A retriever that ragbench does not know takes the next spare colour. If configurations have the same
    retriever and chunking (they differ in model, prompt or k), each marker stands for all settings but
    the retriever.

    Args:
        configurations: columns `name`, `label`, `retriever` and `chunking`.
    """
    others = sorted(set(configurations["retriever"]) - _KNOWN.keys())
    # colours are used again if there are more retrievers
    colour_of_retriever = _KNOWN | dict(zip(others, cycle(_SPARE), strict=False))
    rows = configurations.to_dict("records")
    kinds = [row["chunking"] for row in rows]
    if configurations.duplicated(["retriever", "chunking"]).any():
        # all that distinguishes configurations with the same retriever
        kinds = [row["label"].removeprefix(f"{row['retriever']}, ") for row in rows]
    ordered_kinds = sorted(set(kinds), key=_natural)
    marker_of_kind = dict(zip(ordered_kinds, cycle(_MARKERS), strict=False))
    return {
        row["name"]: Style(colour_of_retriever[row["retriever"]], marker_of_kind[kind], kind)
        for row, kind in zip(rows, kinds, strict=True)
    }


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Return a key for sorting that puts "fixed 128" before "fixed 1024"."""
    return [
        (0, int(part)) if part.isdigit() else (1, part) for part in text.replace("-", " ").split()
    ]


class NotebookFigure(Figure):
    """A figure outside of pyplot, so that no backend is chosen and no figure stays open after a
    hundred notebooks.

    A notebook shows it as a PNG of 256 colours, which is half the size at no difference to the eye:
    executed notebooks are kept and shared. Its ground is transparent and its ink grey, for light
    and dark pages. Its alternative text describes the drawing: reports and published notebooks
    attach it to the image; JupyterLab 4.6 keeps it with the output and does not show it. Its texts
    are questions and ids of any dataset, so "$" is a dollar in them and never the begin of a
    formula.
    """

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure so that it is legible on light and dark pages: transparent, with axes and
        texts in one colour.

        Fonts are chosen for every script in the texts; characters that no font has become "?".
        """
        artists = self.findobj()  # once: each walk asks all axes for all of their ticks
        self._make_legible_on_any_background(artists)
        texts = [artist for artist in artists if isinstance(artist, Text)]
        families, replacements = _fonts_for(frozenset("".join(text.get_text() for text in texts)))
        for text in texts:
            written = text.get_text().translate(replacements)
            text.set(fontfamily=families, parse_math=False, text=written)
        if replacements:
            _replace_in_tick_labels(artists, replacements)
        # for the labels of ticks, which are made while drawing
        with rc_context({"text.parse_math": False}):
            super().draw(renderer)

    def _make_legible_on_any_background(self, artists: Iterable[Artist]) -> None:
        """Make all backgrounds transparent, and draw axes and black texts in the colour `INK`."""
        self.patch.set_alpha(0.0)
        for axes in self.axes:
            axes.patch.set_alpha(0.0)
            axes.tick_params(which="both", color=INK, labelcolor=INK)
            for spine in axes.spines.values():
                spine.set_edgecolor(INK)
        for artist in artists:
            if isinstance(artist, Legend):
                artist.get_frame().set_facecolor("none")
            elif isinstance(artist, Text) and artist.get_color() in ("black", "k"):
                artist.set_color(INK)

    def _repr_png_(self) -> bytes:
        canvas: Any = FigureCanvasAgg(self)
        small = BytesIO()
        canvas.draw()  # once, where savefig draws twice
        drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba())
        drawn.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(small, "png")
        return small.getvalue()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """Return the alternative text of the image, for a reader without it as its text."""
        alt = alternative_text(self)
        return {"text/plain": alt}, {"image/png": {"alt": alt}}


def _replace_in_tick_labels(artists: Iterable[Artist], replacements: Mapping[int, str]) -> None:
    """Replace characters in labels of ticks; `replacements` is code -> text, as for `str.translate`.

    Only labels that a function writes while the figure is drawn are changed: the function is replaced.
    """
    for artist in artists:
        if not isinstance(artist, Axis):
            continue
        formatter = artist.get_major_formatter()
        if isinstance(formatter, FuncFormatter):
            artist.set_major_formatter(
                lambda *tick, formatter=formatter: formatter(*tick).translate(replacements)
            )


def alternative_text(figure: Figure) -> str:
    """Describe a figure in words: titles, axes, series, and the labels of rows.

    >>> figure, axes = new_axes(3, 2)
    >>> _ = axes.set(xlabel="k", ylabel="recall", title="short questions")
    >>> alternative_text(figure)
    'Figure. short questions: recall against k.'
    """
    parts = [_text_of_axes(axes) for axes in figure.axes if axes.axison]
    # `findobj` would find them by making the ticks of all axes
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    series: dict[str, None] = {}  # the texts of the legends, each once
    for legend in legends:
        if legend:  # axes may have none
            series |= dict.fromkeys(text.get_text() for text in legend.get_texts())
    if series:
        parts.append(f"series: {', '.join(series)}")
    return f"Figure. {'; '.join(filter(None, parts))}."


def _text_of_axes(axes: Axes) -> str:
    """Return "title: y against x (the names of the rows)" of axes, as far as they have these; rows that
    are numbers are not listed.
    """
    text = " against ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
    rows = [label.get_text() for label in axes.get_yticklabels() if label.get_text()]
    if any(not _is_number(row) for row in rows):
        text += f" ({'; '.join(dict.fromkeys(rows))})"
    return ": ".join(filter(None, (axes.get_title(), text.strip())))


def _is_number(text: str) -> bool:
    """Return True for the label of a tick that is a number, with a typographic minus too."""
    return text.replace("\u2212", "").replace(".", "").replace(",", "").isdigit()


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure of this many inches with axes next to each other."""
    figure = NotebookFigure(figsize=(width, height), layout="constrained", dpi=80)
    panels = figure.subplots(1, columns, squeeze=False)[0].tolist()
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    return figure, panels


@lru_cache
def _fonts_for(letters: frozenset[str]) -> tuple[list[str], dict[int, str]]:
    """Return the names of fonts that together can draw the letters, and replacements for the others.

    The replacements are code -> "?", as `str.translate` takes them, for letters that no installed font
    has; the user is warned of these.
    """
    families = ["DejaVu Sans"]
    missing = {ord(letter) for letter in letters if letter.isprintable()}
    missing -= fonts.get_font(fonts.findfont("DejaVu Sans")).get_charmap().keys()
    installed = fonts.findSystemFonts() if missing else []  # the list in its cache may be old
    # regular fonts without serifs first
    for path in sorted(installed, key=lambda path: ("Regular" not in path, "Serif" in path, path)):
        with suppress(OSError, RuntimeError):  # of files that the library cannot read
            font = fonts.get_font(path)
            if covered := missing & font.get_charmap().keys():
                fonts.fontManager.addfont(path)
                families.append(font.family_name)
                missing -= covered
    if missing:
        warn_user(
            f'no installed font has {"".join(map(chr, sorted(missing)[:40]))}: a figure has "?" '
            "in their place; install a font for them, such as one of the Noto fonts"
        )
    return families, dict.fromkeys(missing, "?")  # code -> "?"


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure of this many inches with one pair of axes."""
    figure, [axes] = new_figure(width, height)
    return figure, axes


def style_legend(figure: Figure, configurations: pd.DataFrame, look: Mapping[str, Style]) -> None:
    """Draw the legend to the right of a figure in which colours are retrievers and markers chunkings.

    Colours are left out if all configurations have the same, and so are markers. Of more than seven
    entries it shows the first six and how many more there are.

    Args:
        configurations: name and retriever of each drawn configuration.
        look: name -> style, as from `styles`.
    """
    looks = [look[name] for name in configurations["name"]]
    colour_of = dict(
        zip(configurations["retriever"], (style.colour for style in looks), strict=True)
    )
    marker_of = {style.kind: style.marker for style in looks}
    entries: list[tuple[str, Line2D]] = []
    if len(colour_of) > 1:
        for name in sorted(colour_of):
            entries.append((name, Line2D([], [], color=colour_of[name], linewidth=6)))
    if len(marker_of) > 1:
        for name in sorted(marker_of, key=_natural):
            marker = Line2D([], [], color=INK, marker=marker_of[name], linestyle="")
            entries.append((name, marker))
    if len(entries) > _MAX_ENTRIES:
        n_more = len(entries) - _MAX_ENTRIES + 1
        nothing = Line2D([], [], linestyle="")
        entries = [*entries[: _MAX_ENTRIES - 1], (f"and {n_more} more", nothing)]
    if entries:
        names = [name for name, _ in entries]
        handles = [handle for _, handle in entries]
        figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)


_MAX_ENTRIES = 7


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
