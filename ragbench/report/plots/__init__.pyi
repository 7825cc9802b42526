from .decision import plot_decision
from .figure import STAGE_COLOURS, Style, colour_of, new_axes, new_figure, style_legend, styles

__all__ = [
    "STAGE_COLOURS",
    "Style",
    "colour_of",
    "new_axes",
    "new_figure",
    "plot_decision",
    "style_legend",
    "styles",
]
