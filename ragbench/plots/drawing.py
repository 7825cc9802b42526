"""The base of all figures: size, colours, legend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
GREY = "#8C8C8C"


@lru_cache(maxsize=1)
def _figure_type() -> type[Figure]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    class NotebookFigure(Figure):
        """A figure of its own, not pyplot's: no backend is chosen, and nothing stays open after a hundred notebooks.

        A notebook shows it as a PNG of 64 colours: executed notebooks are kept and shared, and that is a third of
        the size at no difference to the eye. Its texts are questions and ids of any dataset, so "$" is a dollar in them
        and never the begin of a formula.
        """

        def draw(self, renderer: RendererBase) -> None:
            with rc_context({"text.parse_math": False}):  # for the labels of ticks, which are made while drawing
                for text in self.findobj(Text):
                    text.set_parse_math(False)
                super().draw(renderer)

        def _repr_png_(self) -> bytes:
            from PIL import Image

            drawn, small = BytesIO(), BytesIO()
            self.savefig(drawn, format="png")
            Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(small, "png", optimize=True)
            return small.getvalue()

    return NotebookFigure


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of this many inches with axes next to each other."""
    figure = _figure_type()(figsize=(width, height), layout="constrained", dpi=80)
    panels = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    return figure, panels


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this many inches with one pair of axes."""
    figure, [axes] = new_figure(width, height)
    return figure, axes


def nothing_to_draw(why: str) -> Figure:
    """A figure with the reason why it is empty, so that a notebook continues."""
    figure, axes = new_axes(8, 0.8)
    axes.axis("off")
    axes.text(0, 0.5, why, va="center", color="#444444")
    return figure


def legend_below(axes: Axes, entries: Sequence[tuple[str, str]]) -> None:
    """Label and colour of each entry, below the figure."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=label) for label, colour in entries]
    axes.figure.legend(handles=handles, loc="outside lower center", ncol=len(entries), frameon=False)
