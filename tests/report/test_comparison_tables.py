"""Tables of compare.ipynb, on results whose order is known."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from scipy.stats import kendalltau

from ragbench import report
from ragbench.evaluation import Results
from ragbench.report import plots
from ragbench.report.comparison_tables import _kendall_tau
from ragbench.statistics.race import Race
from ragbench.types import Judgement
from tests.report.test_leaderboard_of_results import QUESTIONS, result

MEASURE = "nDCG@10"


def at(value: float, **others: float) -> dict[str, list[float | None]]:
    """The same value on every question, but for those that are named."""
    return {MEASURE: [others.get(query_id, value) for query_id in QUESTIONS]}


RESULTS = Results(
    [
        result("a", at(0.5), chunk_size=128),
        result("b", at(0.5, q3=0.9, q4=0.6), chunk_size=256),
        result("c", at(0.25, q5=0.75), retriever="dense:minilm", chunk_size=128),
        result("d", at(0.25), retriever="dense:minilm", chunk_size=256),
    ],
    baseline="a",
)
BOARD = RESULTS.leaderboard(MEASURE)


def test_values_leave_out_what_a_configuration_cannot_score() -> None:
    unscored = result("e", {"RR": [1.0] * 20})
    values = report.values_by_question(Results([*RESULTS, unscored]), MEASURE)
    assert values.shape == (20, 4)
    assert [*values.loc["q3"]] == [0.5, 0.9, 0.25, 0.25]


def test_the_two_best_disagree_where_they_differ_most() -> None:
    table = report.disagreements(RESULTS, BOARD, MEASURE)
    assert BOARD["name"].head(2).tolist() == ["b", "a"]
    assert table.index.tolist() == ["q3", "q4"]
    assert [*table.loc["q3"]] == ["Question 3?", 0.9, 0.5]
    same = Results([RESULTS["a"], result("b", at(0.5), chunk_size=256)])
    assert report.disagreements(same, same.leaderboard(MEASURE), MEASURE).empty
    assert report.question_table(pd.DataFrame(), "a.ipynb") == ""


def test_the_parameter_that_decides_explains_most() -> None:
    shares = report.parameter_shares(RESULTS, MEASURE)
    assert shares.index[0] == "retriever"
    assert shares.loc["retriever", "share"] == pytest.approx(0.991, abs=0.01)
    one_axis = Results([RESULTS["a"], RESULTS["b"]])
    assert report.parameter_shares(one_axis, MEASURE).empty, "one parameter explains all"


def test_a_parameter_that_few_configurations_name_explains_no_more_than_all() -> None:
    """One change at a time, as in the grid `techniques`: most configurations lack most parameters."""
    results = Results(
        [
            result("a", at(0.5)),
            result("b", at(0.45), fusion="rrf:1"),
            result("c", at(0.55), expand="window:1"),
            result("d", at(0.1), diversity="mmr:0.5"),
            result("e", at(0.4), diversity="mmr:0.8"),
        ]
    )
    shares = report.parameter_shares(results, MEASURE)["share"]
    # means .5 .45 .55 .1 .4, of all .4; diversity: .5 (three), .1, .4
    assert shares["diversity"] == pytest.approx((3 * 0.01 + 0.09 + 0) / 0.125, abs=0.001)
    assert set(shares.index) == {"diversity", "expand", "fusion"}
    assert shares.between(0, 1).all()


def test_each_change_says_in_which_questions() -> None:
    table = report.question_gains(RESULTS, BOARD, MEASURE, "a")
    labels = dict(zip(BOARD["name"], BOARD["label"], strict=True))
    assert [*table.loc[labels["b"]]] == [2, 0, "q3 (+0.400), q4 (+0.100)", ""]
    better, worse, gains, losses = table.loc[labels["c"]]
    assert (better, worse, gains) == (1, 19, "q5 (+0.250)")
    assert str(losses).count("(-0.250)") == 3
    assert labels["a"] not in table.index
    assert report.question_gains(RESULTS, BOARD, MEASURE, "none").empty


def test_means_by_retriever_need_two_of_both() -> None:
    table = report.means_by_retriever(BOARD, MEASURE)
    assert set(table.index) == {"bm25", "dense:minilm"}
    assert table.shape == (2, 2)
    assert report.means_by_retriever(BOARD[BOARD["retriever"] == "bm25"], MEASURE).empty


def test_orders_at_k_and_at_a_budget() -> None:
    board = pd.DataFrame(
        {
            "label": ["big", "small", "tiny"],
            "span_recall@5": [0.9, 0.5, 0.4],
            "span_recall@500tok": [0.3, 0.5, 0.4],
        }
    )
    text = report.budget_orders(board)
    assert "brings" not in text
    assert "big leads; at an equal 500 tokens small." in text
    assert "tau of the two orders is -0.33" in text
    assert "tau" not in report.budget_orders(board.head(2)), "two orders are the same or reversed"
    assert report.budget_orders(board.head(1)) == ""
    assert report.budget_orders(board.drop(columns="span_recall@5")) == ""


@pytest.mark.parametrize("n_values", [2, 5, 1_000])
def test_tau_is_scipys_to_the_last_digit(n_values: int) -> None:
    draw = np.random.default_rng(n_values)
    for n in (3, 6, 25, 200):
        first, second = draw.integers(n_values, size=(2, n)) / 7
        board = pd.DataFrame({"label": [str(i) for i in range(n)]})
        board = board.assign(**{"span_recall@5": first, "span_recall@500tok": second})
        expected = kendalltau(first, second).statistic
        np.testing.assert_equal(_kendall_tau(first, second), expected)
        assert f"tau of the two orders is {expected:.2f} (" in report.budget_orders(board)


def test_a_comparison_loads_no_distributions() -> None:
    """scipy.stats would take a sixth of the time of a comparison notebook."""
    code = (
        "import sys; import pandas as pd; from ragbench import report; "
        "columns = dict.fromkeys(['span_recall@5', 'span_recall@500tok'], [0.1, 0.2, 0.3]); "
        "print(report.budget_orders(pd.DataFrame({'label': list('abc'), **columns}))); "
        "print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "two orders is 1.00" in done.stdout
    assert done.stdout.endswith("False\n")


def test_costs_decide_among_those_that_are_scored() -> None:
    assert report.varying_costs(BOARD.assign(chunks=[1, 2, 3, 4])) == ["chunks"]
    sentences, proven = report.choices_by_cost(RESULTS, BOARD.head(1), MEASURE, 0.02)
    assert sentences == [
        "Fewer than two configurations are scored: there is nothing to decide between."
    ]
    assert proven.empty
    same = [result(name, at(0.5), chunk_size=size) for name, size in (("a", 64), ("b", 128))]
    many = Results(same)
    board = many.leaderboard(MEASURE).assign(chunks=[7, 9], search_ms=1.0)
    (sentence,), proven = report.choices_by_cost(many, board, MEASURE, 0.9)
    assert "smallest of 2 configurations proven to be within 0.9" in sentence
    assert "chunks in the index: " in sentence
    assert len(proven) == 2
    assert proven["proven"].all()
    _, proven = report.choices_by_cost(many, board, MEASURE, 0.001)
    assert proven.empty


def test_questions_that_never_move_and_odd_ones() -> None:
    values = report.values_by_question(RESULTS, MEASURE)
    odd = values.copy()
    odd.loc["q7"] = [0.0, 0.0, 1.0, 1.0]  # right only where all others are worse
    assert report.still_questions(values.assign(c=0.5, d=0.5)).startswith("18 of 20 questions")
    table = report.odd_questions(odd, RESULTS)
    assert table.index.tolist() == ["q7"]
    assert table["discrimination"].lt(-0.9).all()
    assert report.odd_questions(odd[["a", "c"]], RESULTS).empty, "two points are always in line"


def test_bias_is_the_judge_minus_people() -> None:
    judged = result("a", at(0.5))
    verdicts = [
        Judgement("q0", "correctness", 1.0, "Right."),
        Judgement("q1", "correctness", 1.0, ""),
    ]
    judged = judged.__class__(**{**vars(judged), "judgements": tuple(verdicts)})
    people = pd.DataFrame(
        {
            "configuration": "a",
            "query_id": ["q0", "q1", "q2"],
            "criterion": "correctness",
            "value": [1.0, 0.0, 1.0],
        }
    )
    table = report.judge_bias(Results([judged]), people)
    assert table.loc["a", "bias"] == 0.5
    assert table.loc["a", "covered"] == pytest.approx(0.667)
    assert report.judge_bias(RESULTS, people).empty, "nothing was judged"
    absent = people.tail(1).assign(query_id="not among the answers")
    with_absent = report.judge_bias(
        Results([judged]), pd.concat([people, absent], ignore_index=True)
    )
    assert with_absent.loc["a", "covered"] == 0.5
    pd.testing.assert_frame_equal(with_absent.drop("a"), table.drop("a"))


def test_curves_have_a_panel_for_each_chunking_and_none_without_rows() -> None:
    curves = pd.DataFrame(
        {
            "name": ["a", "a", "b", "b"],
            "budget": [250, 500, 250, 500],
            "mean": [0.1, 0.2, 0.3, 0.4],
            "ci_low": 0.0,
            "ci_high": 0.5,
        }
    )
    figure = plots.budget_curves(curves, BOARD)
    assert figure is not None
    assert len(figure.axes) == 2
    assert figure.axes[0].get_lines()[0].get_ydata() is not None
    assert plots.budget_curves(curves.head(0), BOARD) is None


def test_the_front_joins_what_no_other_beats_on_both() -> None:
    board = BOARD.assign(chunks=[40, 10, 30, 5])
    figure = plots.cost_fronts(board, ["chunks"], MEASURE)
    assert figure is not None
    axes = figure.axes[0]
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [5, 10, 40], (
        "30 chunks are dearer than 10, and worse"
    )
    assert axes.get_xlabel() == "chunks in the index"
    assert plots.cost_fronts(board, [], MEASURE) is None


def test_a_cost_over_one_decade_has_labels_that_do_not_overlap() -> None:
    board = BOARD.assign(chunks=[12, 40, 90, 530])
    figure = plots.cost_fronts(board, ["chunks"], MEASURE)
    assert figure is not None
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    assert axis.get_scale() == "log"
    assert {label.get_text() for label in axis.get_minorticklabels()} == {""}
    assert "100" in [label.get_text() for label in axis.get_majorticklabels()]


def test_stages_are_fractions_of_all_questions() -> None:
    diagnosis = pd.DataFrame({"cause": ["not_retrieved", "", "", "not_used"]})
    figure = plots.stage_bars({"a": diagnosis}, BOARD)
    assert figure is not None
    widths = [bar.get_width() for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert sorted(widths) == [0.25, 0.25, 0.5]
    assert plots.stage_bars({}, BOARD) is None


def test_a_lane_for_each_configuration_of_a_race() -> None:
    draws = [[query_id] for query_id in QUESTIONS]
    race = Race(MEASURE, 0.02, draws, {"a": [0.9] * 20, "b": [0.1] * 20}, 20)
    axes = plots.race_lanes(race).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert "20" not in axes.get_xlabel()
    assert axes.get_xlabel().startswith("questions; each lane: nDCG@10")


def test_robustness_has_two_panels_and_none_without_rows() -> None:
    row = {
        "intervention": "typos",
        "label": "bm25",
        "n": 10,
        "p_holm": 0.01,
        "kept": 0.5,
        "ci_low": 0.2,
        "ci_high": 0.8,
        "difference": -0.1,
        "difference_ci_low": -0.3,
        "difference_ci_high": 0.1,
    }
    figure = plots.robustness_intervals(pd.DataFrame([row]))
    assert figure is not None
    assert [axes.get_xlabel()[:4] for axes in figure.axes] == ["kept", "corr"]
    assert plots.robustness_intervals(pd.DataFrame()) is None


def test_questions_that_do_not_decide_are_in_no_table() -> None:
    """15 questions of people and 5 drafts, on which the other one is much worse."""
    verdicts = {}
    for number, query_id in enumerate(QUESTIONS):
        verdicts[query_id] = {"origin": "people" if number < 15 else "draft"}
    drafts = [query_id for query_id, verdict in verdicts.items() if verdict["origin"] == "draft"]
    lost = dict.fromkeys(drafts, 0.0)
    curve = {f"span_recall@{budget}tok": at(0.5)[MEASURE] for budget in (250, 500, 1000, 2000)}
    curve_lost = {name: at(0.5, **lost)[MEASURE] for name in curve}
    arms = [
        replace(result("a", at(0.5) | curve), verdicts=verdicts),
        replace(
            result("b", at(0.5, q3=0.9, **lost) | curve_lost, retriever="dense:minilm"),
            verdicts=verdicts,
        ),
    ]
    results = Results(arms, baseline="a")
    board = results.leaderboard(MEASURE)
    assert len(report.values_by_question(results, MEASURE)) == 15
    assert report.disagreements(results, board, MEASURE).index.tolist() == ["q3"]
    gains = report.question_gains(results, board, MEASURE, "a")
    assert gains[["better", "worse"]].to_numpy().tolist() == [[1, 0]]
    assert report.budget_table(results)["mean"].eq(0.5).all()
    costs = board.assign(search_ms=[1.0, 2.0])
    [sentence], _ = report.choices_by_cost(results, costs, MEASURE, 0.02)
    assert "over 15 queries" in sentence
