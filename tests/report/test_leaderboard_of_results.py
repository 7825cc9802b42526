"""The leaderboard and the sentences about a sweep, on results whose order is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench import report
from ragbench.errors import ComparisonError, ConfigError
from ragbench.evaluation import Result, configurations, results
from ragbench.statistics import compare_all
from ragbench.types import Case, Dataset, Document

QUESTIONS = {f"q{i}": f"Question {i}?" for i in range(20)}


def result(name: str, by_measure: dict[str, list[float | None]], **changes: Any) -> Result:
    parameters = {
        "retriever": "bm25",
        "chunker": "fixed",
        "chunk_size": 128,
        "chunk_overlap": 0,
        "reranker": "",
        "k": 5,
    }
    environment = {
        "python": "3.11",
        "platform": "Linux",
        "machine": "x86_64",
        "cores": changes.pop("cores", 2),
    }
    fingerprint = changes.pop("fingerprint", "abc")
    rows = [
        (query_id, measure, value)
        for measure, values in by_measure.items()
        for query_id, value in zip(QUESTIONS, values, strict=False)
    ]
    return Result(
        name,
        {
            "parameters": {**parameters, **changes},
            "dataset": {"name": "tiny", "split": "test", "fingerprint": fingerprint},
            "facts": {"chunks": 10 * len(name), "search_ms": 2.0},
            "environment": environment,
            "questions": QUESTIONS,
        },
        run={"q0": {"d1": 1.0}},
        scores=pd.DataFrame(rows, columns=["query_id", "measure", "value"]),
        timings={"index": 0.5, "search": 0.04},
    )


def constant(at_k: float, at_budget: float, auc: float) -> dict[str, list[float | None]]:
    return {
        "nDCG@10": [at_k] * 20,
        "span_recall@5": [at_k] * 20,
        "span_recall@250tok": [at_budget] * 20,
        "span_recall@500tok": [at_budget] * 20,
        "span_recall_auc": [auc] * 20,
    }


SMALL = result("small", constant(0.5, 0.6, 0.7))
BIG = result("big", constant(0.9, 0.4, 0.5), chunk_size=512)
DENSE = result("dense", constant(0.6, 0.5, 0.6), retriever="dense:minilm")
SWEEP = [SMALL, BIG, DENSE]


def test_configurations_are_labelled_by_what_they_are() -> None:
    table = configurations.configurations(SWEEP).set_index("name")
    assert table.loc["big", "label"] == "bm25, fixed 512"
    assert table.loc["dense", "label"] == "dense:minilm, fixed 128"


def test_labels_name_every_other_difference() -> None:
    table = configurations.configurations(
        [SMALL, result("other", constant(1, 1, 1), k=10)]
    ).set_index("name")
    assert table.loc["small", "label"] == "bm25, fixed 128, k 5"
    assert table.loc["other", "label"] == "bm25, fixed 128, k 10"


def test_a_label_names_no_parameter_that_its_system_does_not_have() -> None:
    own = result("service", constant(1, 1, 1))
    service = replace(
        own, config={**own.config, "parameters": {"system": "service.toml", "seed": 0}}
    )
    table = configurations.configurations([SMALL, service]).set_index("name")
    assert table.loc["service", "label"] == "service.toml"


def test_leaderboard_ranks_by_equal_budget_and_shows_the_place_at_equal_k() -> None:
    board = results.Results(SWEEP).leaderboard().set_index("name")
    assert list(board.index) == ["small", "dense", "big"]
    assert board["rank"].tolist() == [1, 2, 3]
    assert board.loc["big", "rank_equal_k"] == 1
    assert board.loc["big", "rank_equal_budget"] == 3
    assert board.loc["small", "search_ms"] == 2.0
    assert board.loc["big", "span_recall@5_n"] == "20/20"


def test_leaderboard_by_another_measure() -> None:
    assert results.Results(SWEEP).leaderboard(measure="nDCG@10")["name"].tolist() == [
        "big",
        "dense",
        "small",
    ]


def compared(own: list[Result], baseline: str) -> pd.DataFrame:
    return compare_all({one.name: one.scores for one in own}, baseline, measures=["nDCG@10"])


def test_leaderboard_rows_rank_first_and_show_differences() -> None:
    pair = [
        result("a", {"nDCG@10": [0.2, 0.4] * 10}),
        result("b", {"nDCG@10": [0.6, 0.9] * 10}, chunk_size=512),
    ]
    rows = report.leaderboard_rows(
        results.Results(pair).leaderboard(), "nDCG@10", compared(pair, "a")
    )
    assert rows["configuration"].tolist() == ["bm25, fixed 512", "bm25, fixed 128"]
    assert rows["nDCG@10 (ranked by)"].str.match(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\]").all()
    assert rows["difference from the baseline"].iloc[0].startswith("+0.450 [+")
    assert rows["better / worse"].tolist() == ["20 / 0", "–"]
    assert rows["difference from the baseline"].iloc[1] == "baseline"
    text = report.leaderboard_markdown(
        results.Results(pair).leaderboard(), "nDCG@10", compared(pair, "a")
    )
    assert [line.count("|") for line in text.splitlines()] == [rows.shape[1] + 1] * 4
    assert "nan" not in text.lower()


def test_the_drawing_shows_better_worse_and_undecided() -> None:
    values: dict[str, list[float | None]] = {"ngram_redundancy": [0.1, 0.2] * 10}
    more: dict[str, list[float | None]] = {"ngram_redundancy": [0.6, 0.8] * 10}
    same: dict[str, list[float | None]] = {"ngram_redundancy": [0.2, 0.1] * 10}
    three = [result("a", values), result("b", more, k=1), result("c", same, k=2)]
    measure = "ngram_redundancy"
    found = compare_all({one.name: one.scores for one in three}, "a", measures=[measure])
    figure = report.plots.plot_decision(
        results.Results(three).leaderboard(measure=measure), measure, found
    )
    axes, *columns = figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    # a lower redundancy is better
    assert {line.get_color() for line in dots} == {"#D55E00", "#8C8C8C"}
    assert {"0 / 20", "10 / 10", "baseline"} == {text.get_text() for text in columns[1].texts}


def test_the_drawing_shows_both_tiers_and_says_the_decision() -> None:
    names = ["better", "likely better", "within the margin", "undecided", "likely worse", "worse"]
    plain: dict[str, list[float | None]] = {"nDCG@10": [0.1, 0.2] * 10}
    several = [result(name, plain) for name in ["base", *names, "not possible"]]
    comparison = compared(several, "base")
    comparison["decision"] = comparison["name"]
    board = results.Results(several).leaderboard()
    axes, *columns = report.plots.plot_decision(board, "nDCG@10", comparison).axes
    marks = {}
    for line in axes.lines:
        if line.get_marker() == "o":
            [y] = np.asarray(line.get_ydata()).tolist()
            row = board["name"].iloc[int(y)]
            marks[row] = (line.get_color(), line.get_markerfacecolor())
    assert len(set(marks.values())) == 6
    assert marks["not possible"] == marks["undecided"] == ("#8C8C8C", "none")
    for likely in ("better", "worse"):
        sure = marks[likely]
        assert sure[0] == sure[1] == marks[f"likely {likely}"][0]
    assert [text.get_text() for text in columns[2].texts] == [
        "" if name == "base" else name for name in board["name"]
    ]


def test_unscored_measures_are_stated_not_printed_as_nan() -> None:
    none: list[float | None] = [None] * 20
    text = report.leaderboard_markdown(
        results.Results([result("a", {"nDCG@10": none, "RR": [1.0] * 20})]).leaderboard(
            measure="RR"
        ),
        "RR",
    )
    assert "| unscored | " in text
    assert "nan" not in text.lower()


def test_nothing_is_ranked_where_nothing_was_scored() -> None:
    unscored: dict[str, list[float | None]] = {"nDCG@10": [None] * 20}
    both = [result("one", unscored), result("another", unscored)]
    board = results.Results(both).leaderboard(measure="nDCG@10")
    assert board["rank"].isna().all()
    assert "| unranked |" in report.leaderboard_markdown(board, "nDCG@10")
    conclusion = results.Results(both).conclude("one", measure="nDCG@10")
    assert conclusion.decision == "not possible"
    assert conclusion.headline == "No decision: no question has nDCG@10 in every configuration"


def test_different_data_is_refused_and_named() -> None:
    with pytest.raises(ComparisonError, match=r"2 different datasets.*--force"):
        results.Results([SMALL, result("x", constant(1, 1, 1), fingerprint="def")]).leaderboard()


def test_a_leaderboard_prints_short_and_keeps_its_columns() -> None:
    board = results.Results(SWEEP).leaderboard()
    with pd.option_context("display.width", 200, "display.max_columns", 20):
        header, row = repr(board.head(1)).splitlines()
    assert header.split() == [
        "rank",
        "label",
        "span_recall_auc",
        "nDCG@10",
        "chunks",
        "rank_equal_k",
        "rank_equal_budget",
    ]
    assert "0.700 [0." in row
    assert {"span_recall_auc_ci_low", "index_s", "with_llm", "cost_usd"} <= set(board)


def test_nothing_to_compare_is_reported() -> None:
    with pytest.raises(ComparisonError, match="no finished configuration"):
        results.Results([]).leaderboard()


def test_what_an_answer_takes_and_costs_is_known_of_every_system(tmp_path: Path) -> None:
    corpus = {"rail": Document("rail", "The line opened in 1881. It was rebuilt later.")}
    cases = [
        Case(f"q{i}", f"When did line {i} open?", reference_answer="In 1881.") for i in range(4)
    ]
    data = Dataset("demo", "test", corpus, cases, {case.query_id: {"rail": 1} for case in cases})

    def service(question: str) -> dict[str, Any]:
        return {
            "answer": "In 1881.",
            "contexts": [{"id": "rail", "text": "The line opened in 1881."}],
        }

    usage = {"model": "anthropic:claude-haiku-4-5", "input_tokens": 1_000, "output_tokens": 200}
    arms: dict[str, Any] = {
        "ours": "bm25",
        "service": service,
        "priced": lambda question: {**service(question), "usage": usage},
    }
    for name, system in arms.items():
        rb.save(rb.evaluate(data, system, name=name), tmp_path / name)
    board = rb.load_results(tmp_path).leaderboard().set_index("name")
    rankings = rb.Results(
        [rb.evaluate(data, service, name="rankings only", perspectives=["retrieval"])]
    )
    assert (rankings.leaderboard()["latency_p50_ms"] > 0).all()
    assert (board["latency_p50_ms"] > 0).all()
    assert (board["latency_p95_ms"] >= board["latency_p50_ms"]).all()
    assert board["cost_per_1000_usd"].fillna(-1).to_dict() == {
        "ours": 0,
        "service": -1,
        "priced": pytest.approx(2.0),
    }
    found = rb.load_result(tmp_path / "service").latency
    assert board.loc["service", "latency_p95_ms"] == next(
        one.p95 for one in found if one.stage == "total"
    )
    assert {"latency_p50_ms", "latency_p95_ms", "cost_per_1000_usd"} <= {*report.COSTS}
    text = report.leaderboard_markdown(board.reset_index(), "nDCG@10")
    assert "| p50 (ms) | p95 (ms) | dollars per 1,000 questions |" in text


def test_baseline_name_is_checked() -> None:
    assert configurations.baseline_name(SWEEP) == "big"
    assert configurations.baseline_name(SWEEP, "dense") == "dense"
    assert configurations.baseline_name(results.Results(SWEEP, baseline="small")) == "small"
    assert configurations.baseline_name(results.Results(SWEEP, baseline="gone")) == "big"
    with pytest.raises(ConfigError, match="did you mean 'small'"):
        configurations.baseline_name(SWEEP, "smal")


def test_a_single_question_has_means_without_intervals() -> None:
    few = [result("a", {"nDCG@10": [0.5]}), result("b", {"nDCG@10": [1.0]}, chunk_size=512)]
    board = results.Results(few).leaderboard()
    assert board["name"].tolist() == ["b", "a"]
    assert "| 1.000 | 1/20 |" in report.leaderboard_markdown(board, "nDCG@10")
    conclusion = results.Results(few).conclude()
    assert conclusion.headline == (
        "No decision: only 1 question can decide by nDCG@10; a decision takes 10 or more"
    )


def test_what_is_unscored_is_neither_ranked_nor_compared() -> None:
    unscored = result("a", {"token_f1": [None] * 20})
    scored = result("b", {"token_f1": [0.5] * 20}, chunk_size=512)
    assert results.Results([unscored]).leaderboard(measure="token_f1")["token_f1"].isna().all()
    assert "| unscored | 0/20 |" in report.leaderboard_markdown(
        results.Results([unscored, scored]).leaderboard(measure="token_f1"), "token_f1"
    )
    conclusion = results.Results([unscored, scored]).conclude("a", measure="token_f1")
    assert conclusion.decision == "not possible"
    assert [arm.mean for arm in conclusion.arms] == [0.5, None]


def test_the_same_values_in_another_order_share_a_place() -> None:
    values: list[float | None] = [0.1, 0.2, 0.3]
    other: list[float | None] = [0.3, 0.2, 0.1]
    assert pd.Series(values).mean() != pd.Series(other).mean(), "they differ in the last bit"
    pair = [
        result(name, {"span_recall@5": own, "span_recall@500tok": own, "span_recall_auc": own}, k=k)
        for name, own, k in (("a", values, 1), ("b", other, 2))
    ]
    board = results.Results(pair).leaderboard()
    assert board["name"].tolist() == ["a", "b"]
    assert board["rank_equal_k"].tolist() == board["rank_equal_budget"].tolist() == [1, 1]


def test_what_a_reader_ranks_by_is_tested_too() -> None:
    pair = [
        result("a", {"nDCG@10": [0.5] * 20, "RR": [0.5] * 20}),
        result("b", {"nDCG@10": [0.5] * 20, "RR": [1] * 20}),
    ]
    board = results.Results(pair).leaderboard(measure="RR")
    assert "| RR (ranked by) | scored | nDCG@10 |" in report.leaderboard_markdown(board, "RR")


def test_where_lower_is_better_the_lowest_is_best() -> None:
    measure = "ngram_redundancy"
    some = [
        result("a", {measure: [0.9, 0.8] * 10}),
        result("b", {measure: [0.1, 0.2] * 10}, k=3),
        result("c", {measure: [0.5, 0.6] * 10}, retriever="dense:minilm"),
    ]
    assert results.Results(some).leaderboard(measure=measure)["name"].tolist() == ["b", "c", "a"]
    conclusion = results.Results(some).conclude("a", measure=measure)
    assert (conclusion.decision, conclusion.choice) == ("better", "b")
    assert [arm.name for arm in conclusion.arms] == ["b", "c", "a"]


def test_any_measures_are_columns_of_a_leaderboard_with_their_deviations() -> None:
    pair = [
        result("a", {"nDCG@10": [1.0, 0.0], "span_iou@5": [0.1, 0.3]}),
        result("b", {"nDCG@10": [0.0, 0.0], "span_iou@5": [0.2, 0.2]}),
    ]
    board = results.Results(pair).leaderboard(measures=["SPAN_IOU@5", "nDCG@10"]).set_index("name")
    assert board["span_iou@5"].tolist() == pytest.approx([0.2, 0.2])
    assert board["span_iou@5_std"].tolist() == pytest.approx([0.2 / 2**0.5, 0.0])
    assert board["nDCG@10_std"].tolist() == pytest.approx([2**-0.5, 0.0])
    assert "span_iou@5_std" in str(rb.Results(pair).leaderboard(measures=["span_iou@5"]))
    for one in pair:  # a named recall is printed like any other measure
        one.scores.loc[one.scores["measure"] == "span_iou@5", "measure"] = "span_recall@7"
    printed = str(results.Results(pair).leaderboard(measures=["span_recall@7"]))
    assert "span_recall@7_std" in printed
    with pytest.raises(ConfigError, match="span_iou@7 was not measured here"):
        results.Results(pair).leaderboard(measures=["span_iou@7"])
