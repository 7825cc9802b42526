"""Figures of failures show every number they were given, and say so where there is none."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ragbench.evaluation import CAUSES, STAGE_OF, count_causes
from ragbench.report.plots import STAGE_COLOURS, plot_causes


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text().strip() for text in figure.axes[0].texts]


def test_every_cause_has_a_stage_and_every_stage_a_colour() -> None:
    assert set(STAGE_OF) == set(CAUSES)
    assert set(STAGE_OF.values()) | {"answered"} == set(STAGE_COLOURS)
    assert len(set(STAGE_COLOURS.values())) == len(STAGE_COLOURS)


def test_the_flow_begins_with_all_and_loses_each_question_once() -> None:
    figure = plot_causes(
        count_causes(pd.DataFrame({"cause": ["", "not_used", "not_used", "below_cut"]}))
    )
    assert texts(figure) == ["4", "1 (25%)", "2 (50%)", "1 (25%)"]
    assert [(bar.get_x(), bar.get_width()) for bar in bars(figure)] == [
        (0, 4),
        (3, 1),
        (1, 2),
        (0, 1),
    ]
