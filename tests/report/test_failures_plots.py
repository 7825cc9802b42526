"""Figures of failures show every number they were given, and say so where there is none."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ragbench.evaluation import CAUSES, STAGE_OF, count_causes
from ragbench.report.plots import CAUSE_COLOURS, STAGE_COLOURS, plot_cause_shares, plot_causes


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


def test_causes_of_configurations_are_in_order_and_the_rarest_are_one() -> None:
    shares = pd.DataFrame({cause: [0.01, 0.02] for cause in CAUSES}, index=["best", "worst"])
    shares = shares.assign(none=[0.5, 0.4], not_used=[0.39, 0.38])
    figure = plot_cause_shares(shares)
    figure.canvas.draw()
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["best", "worst"]
    assert axes.yaxis_inverted()
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(names) == 7
    assert names[0] == "not failed"
    assert names[-1] == "other causes"
    assert {"50%", "39%"} <= set(texts(figure))
