"""Figures of the pipeline: what is in them, and that they say so when there is nothing to draw."""

from __future__ import annotations

from io import BytesIO

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ragbench.plots.perspectives import plot_latency, plot_outcomes
from ragbench.scoring import latency_table
from ragbench.types import Answer


def texts(figure: Figure) -> list[str]:
    from matplotlib.text import Text

    figure.savefig(BytesIO(), format="png")  # labels of ticks are made while drawing
    return [text.get_text() for text in figure.findobj(Text)]


def test_outcomes_show_counts_shares_and_frame_what_was_expected() -> None:
    from matplotlib.patches import Rectangle

    table = pd.DataFrame({"success": [189, 77], "no_results": [11, 90]}, index=["success", "no_results"])
    figure = plot_outcomes(table)
    written = texts(figure)
    assert "189\n94%" in written
    assert {"success (n = 200)", "no results (n = 167)", "outcome given", "outcome expected"} <= set(written)
    axes = figure.axes[0]
    framed = [patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.get_fill()]
    assert [(round(patch.get_x() + 0.48), round(patch.get_y() + 0.46)) for patch in framed] == [(0, 0), (1, 1)]


def test_outcomes_without_cases_say_so() -> None:
    assert "There is no case whose outcome could be shown." in texts(plot_outcomes(pd.DataFrame()))


@pytest.mark.parametrize("budgets", [{}, {"total": 150.0}, {"total": 900.0, "generate": 5.0}])
def test_latencies_stand_beside_their_budgets(budgets: dict[str, float]) -> None:
    answers = [Answer(f"q{i}", "Yes.", latency_ms={"retrieve": 0.0, "total": 10.0 * i}) for i in range(1, 31)]
    table = latency_table(answers, budgets)
    written = texts(plot_latency(table))
    assert {"retrieve (n = 30)", "total (n = 30)", "milliseconds", "median", "99th"} <= set(written)
    assert ("budget" in written) == bool(budgets)
    assert ("95th percentile, over budget" in written) == (budgets.get("total") == 150.0)
    assert not any("generate" in text for text in written)


def test_few_latencies_say_what_their_percentiles_are() -> None:
    answers = [Answer(f"q{i}", "Yes.", latency_ms={"total": 10.0 * i}) for i in range(1, 20)]
    written = texts(plot_latency(latency_table(answers)))
    assert "milliseconds; of fewer than 20 answers the 95th percentile is the slowest" in written


def test_latencies_of_nothing_say_so() -> None:
    written = texts(plot_latency(latency_table([], {"total": 100})))
    assert "No stage was measured: answers from the cache have no latency." in written
