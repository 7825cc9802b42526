"""Figures about decisions: what is drawn is what was computed, and words stand where there is nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ragbench import plots
from ragbench.statistics import anova, question_health, sequential


def texts(figure: Figure) -> str:
    figure.canvas.draw()
    return "\n".join(text.get_text() for text in figure.axes[0].texts)


def grid() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (f"q{q}", retriever, k, 0.3 * (retriever == "dense") + 0.2 * rng.random())
        for q in range(12)
        for retriever in ("bm25", "dense")
        for k in (1, 5)
    ]
    return pd.DataFrame(rows, columns=["query_id", "retriever", "k", "value"])


def test_variance_shares_are_bars_with_their_numbers() -> None:
    table = anova(grid())
    figure = plots.plot_variance_shares(table, measure="RR")
    axes = figure.axes[0]
    drawn = sorted(float(bar.get_path().get_extents(bar.get_patch_transform()).width) for bar in axes.patches)
    assert drawn == pytest.approx(sorted(100 * table["share_of_configurations"].dropna().astype(float)))
    assert "p < 0.001" in texts(figure)
    assert "%" in axes.get_xlabel()
    assert axes.get_title(loc="left") == "Which parameter matters for RR"
    filled = {
        label.get_text(): bar.get_facecolor() for label, bar in zip(axes.get_yticklabels(), axes.patches, strict=True)
    }
    assert filled["retriever"] != filled["k"]  # the one is proven to matter, the other is not


def test_no_variance_is_said() -> None:
    assert "do not differ" in texts(plots.plot_variance_shares(anova(grid().assign(value=0.5))))


def path(gain: float, n: int = 60) -> pd.DataFrame:
    before = pd.DataFrame({"query_id": range(n), "measure": "RR", "value": 0.0})
    return sequential(before, before.assign(value=gain), measure="RR", batch=10)


def test_the_path_shows_where_it_was_settled() -> None:
    figure = plots.plot_sequential(path(0.5), measure="RR")
    assert "settled after" in texts(figure)
    assert "RR" in figure.axes[0].get_ylabel()
    assert "settled" not in texts(plots.plot_sequential(path(0.0)))
    assert "no looks" in texts(plots.plot_sequential(path(0.5).head(0)))


def test_questions_are_dots_and_those_that_never_move_ticks() -> None:
    rng = np.random.default_rng(1)
    frames = {
        f"c{i}": pd.DataFrame({"query_id": range(20), "measure": "RR", "value": [1.0] * 5 + rng.random(15).tolist()})
        for i in range(5)
    }
    table = question_health(frames, measure="RR")
    table["overlap"] = pd.array([0.5] * 10 + [pd.NA] * 10, "Float64")
    figure = plots.plot_question_health(table, measure="RR")
    figure.canvas.draw()
    assert sum(np.shape(points.get_offsets())[0] for points in figure.axes[0].collections) >= 15
    assert [text.get_text() for text in figure.legends[0].texts] == ["5 of 20 questions never move"]
    assert "words of the question" in figure.axes[1].get_ylabel()
    plain = plots.plot_question_health(table.assign(overlap=pd.array([pd.NA] * 20, "Float64")))
    assert len(plain.axes) == 1


def test_too_few_configurations_are_said() -> None:
    frames = {name: pd.DataFrame({"query_id": range(3), "measure": "RR", "value": 0.5}) for name in "ab"}
    assert "nothing to show" in texts(plots.plot_question_health(question_health(frames, measure="RR")))
