"""What is checked of data, systems and answers that are objects in code, before or after asking."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataError, ModelError, RagbenchError
from ragbench.evaluation import Results, load_result
from ragbench.report.page.html_report import report_html
from ragbench.types import Case, Dataset, Document, Run, Span

TEXT = "Cats sleep most of the day."
CORPUS = {"a": Document("a", TEXT), "b": Document("b", "Dogs bark.")}


def data(**labels: Any) -> Dataset:
    cases = [Case("q1", "How long do cats sleep?", **labels), Case("q2", "What do dogs do?")]
    return Dataset("pets", "test", CORPUS, cases, {"q1": {"a": 1}, "q2": {"b": 1}})


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"evidence": (Span("a", 22, 9999),)}, "one of 27 characters"),
        ({"evidence": (Span("a", 5, 5),)}, "start < end"),
        ({"evidence": (Span("zz", 0, 5),)}, "not in the corpus"),
        ({"expected_outcome": "foo"}, "q1: expected_outcome 'foo'"),
        ({"turns": ("Who?", "She.")}, "expected pairs of a question and its answer"),
    ],
)
def test_labels_that_would_score_wrong_are_refused_before_anything_is_asked(
    labels: dict[str, Any], problem: str
) -> None:
    def never(question: str) -> str:
        raise AssertionError("was asked")

    with pytest.raises(RagbenchError, match=problem):
        rb.evaluate(data(**labels), never)


def test_two_questions_with_one_id_are_refused() -> None:
    twice = replace(data(), cases=[Case("q1", "Who?"), Case("q1", "What?")])
    with pytest.raises(DataError, match="two questions have the id 'q1'"):
        rb.evaluate(twice, "bm25")


def test_judgements_of_questions_that_are_not_asked_are_not_scored() -> None:
    part = replace(data(), cases=data().cases[:1])
    result = rb.evaluate(part, "bm25", perspectives="retrieval")
    row = result.measures.set_index("measure").loc["nDCG@10"]
    assert (row["value"], row["n"]) == (1.0, 1)


def test_a_system_that_finds_nothing_scores_zero_and_empty_answers_do_not_pass() -> None:
    labelled = data(reference_answer="Most of the day.")
    found_nothing = rb.evaluate(labelled, lambda question: [], perspectives="retrieval")
    assert found_nothing.measures.set_index("measure").loc["nDCG@10", "value"] == 0.0
    assert not found_nothing.passed
    silent = rb.evaluate(
        labelled, lambda question: {"answer": "", "contexts": [{"id": "a", "text": TEXT}]}
    )
    assert not silent.passed
    assert {question.passed for question in silent.cases} == {False}


def test_a_retriever_that_finds_nothing_is_one_warning(tmp_path: Path) -> None:
    """Not one that fails, nor one that finds something for a single question."""
    cases = [Case(f"q{i}", f"What is {i}?") for i in range(12)]
    many = replace(data(), cases=cases, qrels={case.query_id: {"b": 1} for case in cases})

    class Finds:
        def __init__(self, *query_ids: str) -> None:
            self.query_ids = query_ids

        def search(self, queries: Any, k: int) -> Run:
            return {
                query_id: {"b#0-10": 1.0} if query_id in self.query_ids else {}
                for query_id in queries
            }

    systems = {"base": Finds("q3"), "other": Finds()}
    evaluated: Any = rb.evaluate(many, systems, perspectives="retrieval")
    for result in evaluated:
        rb.save(result, tmp_path / result.name)
    results = rb.load_results(tmp_path)
    warned = {result.name: result.perspectives[0].warning for result in results}
    assert warned == {"base": "", "other": "nothing was found for any of 12 questions"}
    lines = [line for line in results.conclude().lines if "othing was found" in line]
    assert lines == ["Nothing was found for any question by other."]
    page = unescape(re.sub("<[^>]*>", "", report_html(results["other"])))
    assert page.count("othing was found for any of 12 questions") == 1


def test_a_class_is_made_and_a_retriever_is_searched() -> None:
    class Mine:
        name = "mine"

        def answer(self, query_id: str, query: str) -> str:
            return "Most of the day."

    class Search:
        def search(self, queries: Any, k: int) -> Run:
            return {query_id: {"b#0-10": 1.0} for query_id in queries}

    answered = rb.evaluate(data(reference_answer="Most of the day."), Mine)
    assert answered.answers[0].text == "Most of the day."
    searched = rb.evaluate(data(), Search(), perspectives="retrieval")
    assert searched.run["q1"] == {"b": 1.0}


@pytest.mark.parametrize("hole", [None, float("nan"), "", "  "], ids=repr)
def test_a_frame_of_answers_is_read_as_its_rows_are(hole: object) -> None:
    cases = [Case(f"q{i}", f"Colour {i}?", reference_answer="blue") for i in range(3)]
    data = Dataset("colours", "test", {}, cases, {case.query_id: {} for case in cases})
    rows = [
        {"question": case.text, "answer": answer, "contexts": ["About colours."]}
        for case, answer in zip(cases, ["blue", hole, "red"], strict=True)
    ]
    results = [
        rb.evaluate(data, each, perspectives=["answer"]) for each in (pd.DataFrame(rows), rows)
    ]
    first, second = ([answer.text for answer in result.answers] for result in results)
    assert first == second == ["blue", "", "red"]
    assert results[0].scores.equals(results[1].scores)


def test_rows_without_an_answer_are_named_with_their_fields() -> None:
    with pytest.raises(DataError, match="the fields are 'question', 'reply'"):
        rb.evaluate([{"question": "Who naps?", "reply": "Cats."}])


def test_an_unreachable_service_ends_an_evaluation_at_once() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/answer"
        many = replace(data(), cases=[Case(f"q{i}", f"What is {i}?") for i in range(50)], qrels={})
        with pytest.raises(ModelError, match="no server answers"):
            rb.evaluate(many, address)


def test_results_of_answers_alone_are_ranked_and_compared() -> None:
    labelled = data(gold_facts=(("most of the day",),))
    systems = {"good": lambda question: TEXT, "bad": lambda question: "Dogs bark."}
    results = rb.evaluate(labelled, systems, perspectives="answer")
    board = results.leaderboard(measures="gold_fact_coverage")  # type: ignore[attr-defined]
    assert list(board["name"]) == ["good", "bad"]
    compared = results.compare(measures="gold_fact_coverage")  # type: ignore[attr-defined]
    assert compared["difference"].tolist() == [1.0]
    assert set(results.compare()["measure"]) <= {"gold_fact_coverage", "token_f1", "pass_rate"}  # type: ignore[attr-defined]


def test_a_folder_of_something_else_is_no_damaged_result(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="holds no result") as caught:
        load_result(tmp_path)
    assert "delete" not in str(caught.value)


def test_the_explorer_begins_with_the_baseline_of_the_results() -> None:
    labelled = data(gold_facts=(("most of the day",),))
    systems = {name: (lambda question: TEXT) for name in ("a", "b", "c")}
    results = rb.evaluate(labelled, systems)
    sweep = Results(results, baseline="c")
    assert rb.explore(sweep, dataset=labelled).data["sides"][0]["name"] == "c"


def test_an_object_of_another_form_is_refused_with_what_is_expected() -> None:
    with pytest.raises(ConfigError, match="search\\(queries, k\\)"):
        rb.evaluate(data(), object())  # type: ignore[arg-type]
