"""Figures of failures show every number they were given, and say so where there is none."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ragbench.diagnosis import CAUSES, STAGE_OF, count_causes
from ragbench.plots import CAUSE_COLOURS, STAGE_COLOURS, plot_causes


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text().strip() for text in figure.axes[0].texts]


def test_every_cause_has_a_stage_and_a_colour_of_its_own() -> None:
    assert set(STAGE_OF) == set(CAUSES)
    assert set(STAGE_OF.values()) | {"answered"} == set(STAGE_COLOURS)
    assert set(CAUSE_COLOURS) == {*CAUSES, "none"}
    assert len(set(CAUSE_COLOURS.values())) == len(CAUSE_COLOURS)


def test_the_flow_begins_with_all_and_loses_each_question_once() -> None:
    figure = plot_causes(count_causes(pd.DataFrame({"cause": ["", "not_used", "not_used", "below_cut"]})))
    assert texts(figure) == ["4", "1 (25%)", "2 (50%)", "1 (25%)"]
    assert [(bar.get_x(), bar.get_width()) for bar in bars(figure)] == [(0, 4), (3, 1), (1, 2), (0, 1)]


def test_no_questions_no_flow() -> None:
    assert "no questions" in texts(plot_causes(count_causes(pd.DataFrame({"cause": []}))))[0]
