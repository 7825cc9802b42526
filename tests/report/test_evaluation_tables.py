"""Tables of evaluate.ipynb, on a dataset small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import ragbench as rb
from ragbench import report
from ragbench.evaluation import Result
from ragbench.evaluation.output import SystemOutput
from ragbench.report import plots
from ragbench.types import Answer, Call, Case, Dataset, Document, Span

CATS = "Cats sleep most of the day. They hunt at night."
DATA = Dataset(
    "pets",
    "test",
    {"cats": Document("cats", CATS), "dogs": Document("dogs", "Dogs bark.")},
    (
        Case("q1", "When do cats hunt?", category="cats", evidence=(Span("cats", 28, 47),)),
        Case("q2", "What do cats do all day?", category="cats", reference_answer="Sleep."),
        Case("q3", "Who barks?", category="dogs"),
        Case("q4", "What do birds do?", expected_outcome="no_results"),
    ),
    {"q1": {"cats": 1}, "q2": {"cats": 1}, "q3": {"dogs": 1}, "q4": {}},
)


@pytest.fixture(scope="module")
def result() -> Result:
    return rb.evaluate(DATA, "bm25", support_model="lexical")


@pytest.fixture
def output(result: Result) -> SystemOutput:
    assert result.output is not None
    return result.output


def test_labels_are_counted_by_category() -> None:
    counts = report.label_counts(DATA)
    assert counts.index.tolist() == ["cats", "dogs", "no category", "all"]
    assert [*counts.loc["cats"]] == [2, 2, 1, 1, 0]
    assert [*counts.loc["all"]] == [4, 3, 1, 1, 1]


def test_categories_have_their_means_and_their_number(result: Result) -> None:
    table = report.means_by_category(result, DATA, "R@5")
    assert table.index.tolist() == ["cats (n = 2)", "dogs (n = 1)"], "q4 has no relevant document"
    assert table["mean"].tolist() == [1.0, 1.0]
    one = replace(DATA, cases=[replace(case, category="x") for case in DATA.cases])
    assert report.means_by_category(result, one, "R@5").empty
    assert report.means_by_category(result, DATA, "llm_correctness").empty, "it was not measured"


def test_turns_are_those_of_the_ids(result: Result) -> None:
    assert report.means_by_turn(result, ["RR"]).empty, "no conversation"
    rows = [("a<::>1", "RR", 1.0), ("a<::>2", "RR", 0.5), ("b<::>2", "RR", 0.0), ("c", "RR", 0.0)]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    table = report.means_by_turn(replace(result, scores=scores), ["RR", "AP"])
    assert table.columns.tolist() == ["questions", "RR"], "AP was not measured"
    assert [*table.loc[1]] == [1, 1.0]
    assert [*table.loc[2]] == [2, 0.25]


def test_searches_are_ranked_by_their_first_relevant_document(output: SystemOutput) -> None:
    calls = (
        Call("search", query="cats", contexts=("dogs", "cats")),
        Call("search", query="dogs", contexts=("dogs",)),
    )
    answer = Answer("q1", "At night.", calls=calls)
    table = report.search_calls(replace(output, answers=[answer], chunks=()))
    assert table[["call", "query", "documents"]].to_numpy().tolist() == [
        [1, "cats", ["dogs", "cats"]],
        [2, "dogs", ["dogs"]],
    ]
    assert table["gold_rank"].fillna(0).tolist() == [2, 0]
    by_call = report.searches_by_call(table)
    assert by_call["gold_found"].tolist() == [1.0, 0.0]
    assert by_call["questions"].tolist() == [1, 1]
    assert report.searches_by_call(report.search_calls(output)).empty


def test_what_only_a_pipeline_knows_is_not_shown_of_others(
    result: Result, output: SystemOutput
) -> None:
    other = replace(output, searched=())
    assert not report.chunk_facts(result).empty
    assert report.chunk_facts(replace(result, output=other)).empty
    assert report.cut_evidence(other) == ""
    assert plots.chunk_sizes(other) is None
    assert plots.evidence_map(other, 5) is None
    assert "no single chunk holds all" in report.cut_evidence(output)


def test_a_system_without_answers_has_no_abstentions(output: SystemOutput) -> None:
    assert report.abstentions(output).to_numpy().sum() == 4
    assert report.abstentions(replace(output, has_answers=False)).empty


def test_measures_of_answers_say_unscored_for_what_is_missing(result: Result) -> None:
    summary = rb.summarise(result.scores)
    table = report.answer_measures(summary)
    assert "retrieval" not in table.index.get_level_values("perspective")
    assert not table.isna().any().any()
    assert set(report.ranking_measures(summary).index) >= {"nDCG@10", "R@5"}
    assert "nDCG@10" in report.main_measures(summary).index


def test_times_and_costs(result: Result) -> None:
    times = report.time_table(result)
    assert times.index.tolist() == ["seconds"]
    assert times["search_ms"].iloc[0] == result.facts["search_ms"]
    unpaid = replace(result, costs=())
    assert report.cost_table(unpaid).empty
    assert report.cut_texts(unpaid) == ""


def test_the_map_shows_evidence_and_what_was_retrieved(output: SystemOutput) -> None:
    figure = plots.evidence_map(output, 5)
    assert isinstance(figure, Figure)
    pixels = figure.axes[0].get_images()[0].get_array()
    assert pixels is not None
    green = [0, 158, 115]
    row = pixels[0].tolist()
    assert [place for place, pixel in enumerate(row) if pixel == green] == list(range(28, 47))
    none = plots.evidence_map(replace(output, ranking={}), 5)
    assert none is not None
    missed = none.axes[0].get_images()[0].get_array()
    assert missed is not None
    assert missed[0].tolist()[28] == [213, 94, 0], "evidence that was not retrieved is red"


def test_bars_draw_means_from_top_to_bottom() -> None:
    summary = pd.DataFrame(
        {"mean": [0.5, 0.25], "ci_low": [0.4, 0.1], "ci_high": [0.6, 0.5]}, index=["AP", "RR"]
    )
    figure = plots.measure_bars(summary, "mean", best=pd.Series({"AP": 1.0}))
    assert figure is not None
    axes = figure.axes[0]
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == [0.25, 0.5], (
        "the first row is on top"
    )
    assert "tick" in axes.get_xlabel()
    plain = plots.measure_bars(summary, "mean")
    assert plain is not None
    assert "tick" not in plain.axes[0].get_xlabel()
    assert plots.measure_bars(summary.head(0), "mean") is None
