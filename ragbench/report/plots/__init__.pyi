from .bars import cause_bars, measure_bars, robustness_intervals, stage_bars, words_in_sources
from .chunks import chunk_sizes, evidence_map
from .curves import budget_curves, cost_fronts, race_lanes
from .differences import plot_decision
from .figure import STAGE_COLOURS, Style, colour_of, new_axes, new_figure, style_legend, styles
from .recalls import part_bars
from .scatter import passage_map
from .trends import trend_lines

__all__ = [
    "STAGE_COLOURS",
    "Style",
    "budget_curves",
    "cause_bars",
    "chunk_sizes",
    "colour_of",
    "cost_fronts",
    "evidence_map",
    "measure_bars",
    "new_axes",
    "new_figure",
    "part_bars",
    "passage_map",
    "plot_decision",
    "race_lanes",
    "robustness_intervals",
    "stage_bars",
    "style_legend",
    "styles",
    "trend_lines",
    "words_in_sources",
]
