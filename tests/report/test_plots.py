"""Figures show what they are given: labelled axes, one look per configuration, words where there is
nothing.
"""

from __future__ import annotations

import itertools
from io import BytesIO
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from ragbench.errors import DataWarning
from ragbench.report import plots

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


def test_the_parts_of_a_figure_are_collected_once() -> None:
    """Each time, all axes would make all of their ticks."""
    figure, axes = plots.figure.new_axes(3, 2)
    axes.plot([1, 2], label="line")
    axes.legend()
    with mock.patch.object(figure, "findobj", wraps=figure.findobj) as collected:
        FigureCanvasAgg(figure).draw()
    assert collected.call_count == 1


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


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for own in figure.legends for text in own.get_texts()]


def drawn_legend(board: pd.DataFrame) -> list[str]:
    figure, _ = plots.new_axes(8, 2)
    plots.style_legend(figure, board, plots.styles(board))
    return legend(drawn(figure))


def test_a_legend_names_retrievers_then_chunkings_by_their_size() -> None:
    rows = [
        (f"{r}{c}", f"{r}, {c}", r, c)
        for r in ("bm25", "dense:minilm", "x")
        for c in ("fixed 1024", "fixed 512")
    ]
    board = pd.DataFrame(rows, columns=["name", "label", "retriever", "chunking"])
    assert drawn_legend(board) == ["bm25", "dense:minilm", "x", "fixed 512", "fixed 1024"]


def test_no_legend_has_more_than_seven_entries() -> None:
    rows = [(f"m{i}", f"m{i}, c{i % 3}", f"m{i}", f"c{i % 3}") for i in range(20)]
    board = pd.DataFrame(rows, columns=["name", "label", "retriever", "chunking"])
    found = drawn_legend(board)
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


def test_a_figure_is_transparent_and_has_alternative_text() -> None:
    figure, axes = plots.new_axes(4, 2)
    axes.barh(["bm25", "$1 dense"], [0.2, 0.4], label="recall")
    axes.set(xlabel="nDCG@10", title="short questions")
    axes.legend()
    alt = "Figure. short questions: nDCG@10 (bm25; $1 dense); series: recall."
    display = DisplayFormatter()
    data, metadata = display.format(figure)
    assert metadata["image/png"]["alt"] == data["text/plain"] == alt
    pixels = np.asarray(Image.open(BytesIO(data["image/png"])).convert("RGBA"))
    assert pixels[0, 0, 3] == 0
    opaque = pixels[pixels[..., 3] == 255][:, :3]
    assert len(opaque)
    assert opaque.max(axis=1).min() > 80, "nothing is lost on a dark page"
