"""Figures of failures show every number they were given, and say so where there is none."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ragbench.diagnosis import CAUSES, count_causes
from ragbench.plots import plot_causes, plot_gaps
from ragbench.plots.failures import COLOUR_OF, STAGE_OF


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text().strip() for text in figure.axes[0].texts]


def test_every_cause_has_a_stage_and_every_stage_a_colour() -> None:
    assert set(STAGE_OF) == {*CAUSES, "none"}
    assert set(STAGE_OF.values()) == set(COLOUR_OF)


def test_the_flow_begins_with_all_and_loses_each_question_once() -> None:
    figure = plot_causes(count_causes(pd.DataFrame({"cause": ["", "not_used", "not_used", "below_cut"]})))
    assert texts(figure) == ["4", "1 (25%)", "2 (50%)", "1 (25%)"]
    assert [(bar.get_x(), bar.get_width()) for bar in bars(figure)] == [(0, 4), (3, 1), (1, 2), (0, 1)]


def test_no_questions_no_flow() -> None:
    assert "no questions" in texts(plot_causes(count_causes(pd.DataFrame({"cause": []}))))[0]


def test_gaps_draw_a_bar_for_each_part_of_each_configuration() -> None:
    gaps = pd.DataFrame(
        {
            "label": ["a", "a", "b", "b"],
            "part": ["answered", "retrieval"] * 2,
            "measure": "token_f1",
            "mean": [0.7, 0.3, 0.9, 0.1],
            "ci_low": [0.6, 0.2, 0.8, None],
            "ci_high": [0.8, 0.4, 1.0, None],
        }
    ).astype({"ci_low": "Float64", "ci_high": "Float64"})
    figure = plot_gaps(gaps)
    assert sorted(bar.get_width() for bar in bars(figure)) == [0.1, 0.3, 0.7, 0.9]
    figure.canvas.draw()
    assert "oracle" in texts(plot_gaps(gaps.head(0)))[0]
