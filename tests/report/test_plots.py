"""Figures show what they are given: labelled axes, one look per configuration, words where there is
nothing.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from ragbench.errors import DataWarning
from ragbench.report import plots
from ragbench.types import Case, Chunk, Dataset, Document, Span

BOARD = pd.DataFrame(
    [
        ("a", "bm25, fixed 128", "bm25", "fixed 128", 0.5, 1.0, 100),
        ("b", "bm25, fixed 1024", "bm25", "fixed 1024", 0.4, 2.0, 20),
        ("c", "dense:minilm, fixed 128", "dense:minilm", "fixed 128", 0.7, 9.0, 100),
    ],
    columns=["name", "label", "retriever", "chunking", "nDCG@10", "search_ms", "chunks"],
)
LOOK = plots.styles(BOARD)


def labels(figure: Figure) -> tuple[str, str]:
    axes = figure.axes[0]
    return axes.get_xlabel(), axes.get_ylabel()


def drawn(figure: Figure) -> Figure:
    figure.canvas.draw()
    return figure


def test_a_retriever_has_one_colour_and_a_chunking_one_marker() -> None:
    assert LOOK["a"].colour == LOOK["b"].colour == plots.colour_of("bm25")
    assert LOOK["a"].marker == LOOK["c"].marker
    assert LOOK["a"].marker != LOOK["b"].marker


def test_looks_do_not_depend_on_what_else_is_in_the_sweep() -> None:
    alone = plots.styles(BOARD[BOARD["name"] == "c"])
    assert alone["c"].colour == LOOK["c"].colour


def test_unnamed_retrievers_get_colours_of_their_own() -> None:
    names = ["dense:one", "dense:two", "dense:three"]
    board = pd.DataFrame({"name": names, "label": names, "retriever": names, "chunking": "fixed"})
    assert len({style.colour for style in plots.styles(board).values()}) == 3


def test_named_retrievers_are_distinguishable_by_any_eye() -> None:
    """At least 60 of 255 apart in lightness or in the blue-yellow channel, which nearly everybody
    sees.
    """

    def channels(colour: str) -> tuple[float, float]:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue, blue - (red + green) / 2

    named = ["bm25", "dense:wordllama", "dense:minilm", "hybrid:minilm"]
    for one, other in itertools.combinations(
        [channels(plots.colour_of(name)) for name in named], 2
    ):
        assert max(abs(one[0] - other[0]), abs(one[1] - other[1])) >= 40


def test_span_coverage_draws_every_border_and_all_evidence() -> None:
    text = "x" * 4000
    data = Dataset(
        "tiny",
        "test",
        {"d": Document("d", text)},
        (Case("q", "?", evidence=(Span("d", 1300, 1700),)),),
        {"q": {"d": 1}},
    )
    chunks = [Chunk(f"d#{i}", "d", 500 * i, 500 * (i + 1), text[:500]) for i in range(8)]
    figure = drawn(
        plots.plot_span_coverage(data, chunks, {"q": {"d#2": 2.0, "d#7": 1.0}}, "d", k=1)
    )
    axes = figure.axes[0]
    assert len(axes.collections[0].get_paths()) == 8, "one border per chunk"
    assert "8 chunks, evidence of 1 questions" in axes.get_title(loc="left")
    assert labels(figure) == ("character within the line", "first character of the line")
    states = np.asarray(axes.images[0].get_array()).ravel()
    assert states[:4000].tolist() == [0] * 1000 + [1] * 300 + [3] * 200 + [2] * 200 + [0] * 2300
    assert np.asarray(axes.images[0].get_array()).shape[0] == 3, (
        "the passage crosses the end of a line"
    )


def curves(board: pd.DataFrame) -> pd.DataFrame:
    rows = [(n, b, 0.1, 0.05, 0.2) for n in board["name"] for b in (250, 500, 1000)]
    return pd.DataFrame(rows, columns=["name", "budget", "mean", "ci_low", "ci_high"]).merge(
        board, on="name"
    )


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for own in figure.legends for text in own.get_texts()]


def test_budget_curves_have_a_panel_for_each_chunking_with_bands_and_a_short_legend() -> None:
    board = pd.DataFrame(
        [
            (f"{r}{c}", f"{r}, {c}", r, c)
            for r in ("bm25", "dense:minilm", "x")
            for c in ("fixed 512", "fixed 1024")
        ],
        columns=["name", "label", "retriever", "chunking"],
    )
    figure = drawn(plots.plot_budget_curves(curves(board), plots.styles(board)))
    assert [axes.get_title() for axes in figure.axes] == ["fixed 512", "fixed 1024"]
    assert labels(figure) == ("context budget (tokens)", "gold evidence inside the budget")
    assert (
        [len(axes.lines) for axes in figure.axes]
        == [len(axes.collections) for axes in figure.axes]
        == [3, 3]
    )
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()][:2] == ["0%", "20%"]
    assert legend(figure) == ["bm25", "dense:minilm", "x", "fixed 512", "fixed 1024"]


def test_no_legend_has_more_than_seven_entries() -> None:
    rows = [(f"m{i}", f"m{i}, c{i % 3}", f"m{i}", f"c{i % 3}") for i in range(20)]
    board = pd.DataFrame(rows, columns=["name", "label", "retriever", "chunking"])
    found = legend(drawn(plots.plot_budget_curves(curves(board), plots.styles(board))))
    assert len(found) == 7
    assert found[-1] == "and 17 more"


def test_configurations_that_differ_in_the_model_only_look_different() -> None:
    board = pd.DataFrame(
        [
            ("a", "bm25, fixed 128, llm x", "bm25", "fixed 128"),
            ("b", "bm25, fixed 128, llm y", "bm25", "fixed 128"),
        ],
        columns=["name", "label", "retriever", "chunking"],
    )
    look = plots.styles(board)
    assert look["a"].colour == look["b"].colour
    assert look["a"].marker != look["b"].marker


def test_figures_are_not_pyplots_so_none_stays_open() -> None:
    import matplotlib.pyplot as plt

    plots.new_axes(8, 2)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    "question", ["What is $\\LaTeX$?", "Is $5 more than 4$ or {", "a_b^c $\\frac{$"]
)
def test_dollars_in_questions_are_dollars_and_no_formula(question: str) -> None:
    figure, axes = plots.new_axes(4, 1)
    axes.set_yticks([0], [question])
    assert drawn(figure).axes[0].get_yticklabels()[0].get_text() == question


def test_letters_without_a_font_are_question_marks_and_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from matplotlib import font_manager

    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    figure, axes = plots.new_axes(4, 1)
    axes.set_yticks([0], ["bm25 𒀀𒀁"])
    title = axes.set_title("جسر 𒀀")
    with pytest.warns(DataWarning, match="𒀀𒀁"):
        figure.draw_without_rendering()
    assert (title.get_text(), axes.get_yticklabels()[0].get_text()) == ("جسر ?", "bm25 ??")
