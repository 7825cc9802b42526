"""The figures of the studies."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ragbench.report.plots.figure import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    new_figure,
)
from ragbench.studies.chunking_claims import AT_K
from ragbench.studies.chunking_pairs import BUDGETS

_TOOL_COLOURS = {"MLflow": VERMILLION, "TruLens": ORANGE, "ragbench": BLUE}


def _colour_of_test(test: str) -> str:
    """Return the colour of the tool that a test's name begins with; grey for other tests."""
    for tool, colour in _TOOL_COLOURS.items():
        if test.startswith(tool):
            return colour
    return GREY


def plot_error_rates(rates: pd.DataFrame, n: int) -> Figure:
    """Draw how often each statistical test is wrong and right, at one number of questions, with a mark for
    each scenario.

    Left: how often a test calls a difference where there is none; the line is at 5 %. Right: how often
    it finds a true difference.

    Args:
        rates: as `compute_error_rates` returns them.
        n: number of questions.
    """
    at_n = rates[rates["n"] == n]
    has_difference = at_n["has_difference"]
    tests = list(dict.fromkeys(at_n["test"]))[::-1]  # the first one on top
    figure, (left, right) = new_figure(11, 2.4 + 0.34 * len(tests), columns=2)
    _plot_scenarios(left, at_n[~has_difference], "called", tests)
    _plot_scenarios(right, at_n[has_difference], "right", tests)
    left.axvline(0.05, color=GREY, linewidth=1)
    left.set(title=f"no difference, {n} questions", xlabel="fraction called different")
    right.set(title=f"a difference, {n} questions", xlabel="fraction found")
    right.set_yticklabels([])
    return figure


def _plot_scenarios(axes: Axes, rates: pd.DataFrame, column: str, tests: list[str]) -> None:
    """Draw a column of the rates: a line for each test, and on it a marker for each scenario."""
    colours = [_colour_of_test(test) for test in tests]
    for number, scenario in enumerate(dict.fromkeys(rates["scenario"])):
        rows = rates[rates["scenario"] == scenario].set_index("test").loc[tests]  # a row per test
        heights = np.arange(len(tests)) + 0.09 * (number - 3)  # so that no mark hides another
        marker = "osD^vPX<"[number]
        axes.scatter(rows[column], heights, c=colours, marker=marker, s=36, label=scenario)
    axes.set_yticks(range(len(tests)), tests)
    axes.set_xlim(-0.03, 1.03)  # fractions, with room for the marks at 0 and 1
    below = (0.5, -0.16)
    axes.legend(loc="upper center", bbox_to_anchor=below, ncol=3, frameon=False, fontsize=8)


def plot_promises(promises: pd.DataFrame) -> Figure:
    """Draw three gains of the best of several configurations by their number: the gain on the questions
    that chose it ("promised"), this gain corrected for luck ("shrunken"), and the gain on other
    questions ("real"). There is a panel for each number of questions; gains are means over the
    collections.

    Args:
        promises: as `promises` of the studies returns them.
    """
    means = promises.groupby(["questions", "arms"])[["promised", "shrunken", "real"]].mean()
    numbers_of_questions = sorted(set(promises["questions"]))
    figure, panels = new_figure(11, 3.4, columns=len(numbers_of_questions))
    lines = (("promised", VERMILLION, "o"), ("shrunken", BLUE, "s"), ("real", GREEN, "^"))
    for axes, n_questions in zip(panels, numbers_of_questions, strict=True):
        by_arms = means.loc[n_questions]
        for column, colour, marker in lines:
            axes.plot(by_arms.index, by_arms[column], marker=marker, color=colour, label=column)
        axes.set(title=f"{n_questions} questions choose", xlabel="configurations", xscale="log")
        axes.set_xticks(list(by_arms.index), [str(n_arms) for n_arms in by_arms.index])
        axes.minorticks_off()
        axes.set_ylim(0, 1.1 * means["promised"].max())
    panels[0].set_ylabel("gain over the baseline")
    panels[0].legend(frameon=False)
    return figure


_COLLECTION_COLOURS = [BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY]
_FILLED = ("better", "worse")


def plot_arms(comparison: pd.DataFrame) -> Figure:
    """Draw how every arm (a configuration of the search) differs from the plain hybrid search on every
    collection: a mark in its 95 % interval, filled if the decision is "better" or "worse" (which holds
    for every distribution of the scores). The arm with the best mean is on top.

    Args:
        comparison: as `compare_arms` returns it: a row for each arm and collection.
    """
    # The best one comes last, and is drawn on top.
    arms = comparison.groupby("arm")["difference"].mean().astype(float).sort_values().index
    collections = list(dict.fromkeys(comparison["collection"]))  # without duplicates
    figure, [axes] = new_figure(9, 1.2 + 0.5 * len(arms))
    axes.axvline(0, color=GREY, linewidth=1)
    for number, collection in enumerate(collections):
        rows = comparison[comparison["collection"] == collection].set_index("arm").loc[arms]
        # The collections lie around the line of the arm, the first one on top.
        heights = np.arange(len(rows)) + 0.15 * (len(collections) / 2 - number)
        _plot_differences(axes, rows, heights, _COLLECTION_COLOURS[number], collection)
    axes.set_yticks(range(len(arms)), arms)
    axes.set_ylim(-0.7, len(arms) - 0.3)
    axes.set_xlabel("difference in evidence found in 500 tokens, from the plain hybrid search")
    axes.legend(loc="center left", frameon=False)
    return figure


def _plot_differences(
    axes: Axes, rows: pd.DataFrame, heights: np.ndarray, colour: str, name: str
) -> None:
    """Draw a mark and an interval for each row of a comparison, and one entry of the legend.

    A mark is filled if the decision is "better" or "worse", else empty (undecided, "likely better").
    """
    low, high = rows["ci_low"].astype(float), rows["ci_high"].astype(float)
    axes.hlines(heights, low, high, color=colour, linewidth=1)
    for height, (_, row) in zip(heights, rows.iterrows(), strict=True):
        face = colour if row["decision"] in _FILLED else "none"
        axes.plot(row["difference"], height, "o", color=colour, markerfacecolor=face, markersize=5)
    axes.plot([], [], "o-", color=colour, label=name, markersize=5)  # nothing but the legend


def plot_drafts(rankings: dict[str, pd.DataFrame], kinds: tuple[str, ...]) -> Figure:
    """Draw how drafted questions score configurations, compared with the collection's own
    questions.

    A mark is a configuration: its mean over drafts (y) against its mean over the own questions (x).
    There is a panel for each collection, and a colour for each kind of drafts.

    Args:
        rankings: collection -> what `rank_by_questions` returned for it.
        kinds: kinds of drafts, at most three; a collection may lack some.
    """
    figure, panels = new_figure(13, 3.1, columns=len(rankings))
    colours = (VERMILLION, BLUE, GREEN)
    legend: dict[str, Artist] = {}  # each kind once, whichever panels have it
    for axes, (collection, ranking) in zip(panels, rankings.items(), strict=True):
        for kind, colour in zip(kinds, colours, strict=False):
            if kind in ranking:
                marks = axes.scatter(
                    ranking["people"], ranking[kind], s=14, color=colour, label=kind
                )
                legend[kind] = marks
        axes.set(title=collection, xlabel="by its own questions")
    panels[0].set_ylabel("by drafts")
    figure.legend(
        list(legend.values()), list(legend), loc="outside lower center", ncol=3, frameon=False
    )
    return figure


def plot_label_curves(curves: pd.DataFrame, holds_alone: float) -> Figure:
    """Draw how good 95 % intervals from few labels are, by the number of labelled questions.

    Left: how often they contain the difference that people find over all questions; the dotted line
    is the promised rate. Right: how wide they are.

    Args:
        curves: as `label_curves` returns them.
        holds_alone: fraction of the judge's own intervals that hold people's difference.
    """
    figure, (left, right) = new_figure(11, 3.6, columns=2)
    colours = {"labels alone": ORANGE, "corrected": BLUE}
    for interval, colour in colours.items():
        rows = curves[curves["interval"] == interval]
        left.plot(rows["labels"], rows["holds"], marker="o", color=colour, label=interval)
        right.plot(rows["labels"], rows["width"], marker="o", color=colour)
    left.axhline(0.95, color=GREY, linestyle=":")
    left.axhline(holds_alone, color=VERMILLION, linestyle="--", label="judge alone")
    left.set(ylim=(0, 1.02), ylabel="intervals that hold the difference")
    right.set(ylim=(0, None), ylabel="width of the 95 % interval")
    for axes in (left, right):
        axes.set_xlabel("questions labelled by people")
    figure.legend(loc="outside lower center", ncol=3, frameon=False)
    return figure


def plot_claims(fractions: pd.DataFrame) -> Figure:
    """Draw what becomes of the claims "chunking A beats B at k = 5" at an equal number of tokens: a
    panel for each budget of tokens, in it a bar for each collection, divided into the fractions
    reversed, undecided and holding.

    Args:
        fractions: as `claim_fractions` returns them.
    """
    at_k = fractions[fractions["measure"] == AT_K].set_index("collection")
    figure, panels = new_figure(13, 1.5 + 0.34 * len(at_k), columns=len(BUDGETS))
    for axes, tokens in zip(panels, BUDGETS, strict=True):
        _plot_outcomes(axes, at_k, tokens)
    for axes in panels[1:]:  # the first panel names the collections
        axes.set_yticklabels([])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=4, frameon=False)
    return figure


def _plot_outcomes(axes: Axes, at_k: pd.DataFrame, tokens: int) -> None:
    """Draw a bar for each collection at a budget of tokens. Its parts, from the left: reversed
    claims, undecided ones, those that hold. A line is the 95 % interval of the reversed ones.
    """
    collections = at_k.index
    is_reversed, holds = at_k[f"reversed {tokens}"], at_k[f"holds {tokens}"]
    undecided = 1 - is_reversed - holds
    axes.barh(collections, is_reversed, color=ORANGE, label="reversed")
    axes.barh(collections, undecided, left=is_reversed, color="#D9D9D9", label="undecided")
    axes.barh(collections, holds, left=1 - holds, color=BLUE, label="holds")
    axes.hlines(
        collections,
        at_k[f"reversed {tokens} low"],
        at_k[f"reversed {tokens} high"],
        color=GREY,
        linewidth=1.5,
        label="95 % interval of reversed",
    )
    axes.set(xlim=(0, 1), xlabel="fraction of the claims at k = 5")
    axes.set_title(f"at an equal {tokens:,} tokens")
    axes.invert_yaxis()  # the first collection on top
