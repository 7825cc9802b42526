"""Assertions about one question: what passes, what fails and with which words, and what is an error
of the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.llms import ScriptedLLM
from ragbench.testing import (
    LabelledCase,
    assert_answer_correct,
    assert_context_recall,
    labelled_cases,
    reports,
)
from ragbench.testing.reports import Recorder
from ragbench.testsets.loader import load_dataset
from ragbench.types import Answer, Case, Completion, Dataset, DatasetSource, Passage, Span

CASE = LabelledCase(Case("q1", "When did it open?"), {"a": 2, "b": 1})


@pytest.fixture(autouse=True)
def recorder() -> Iterator[Recorder]:
    before, reports.active = reports.active, Recorder()
    yield reports.active
    reports.active = before


@pytest.mark.parametrize(
    "results",
    [
        ["c", "a#0", "a#3", "b#1"],
        {"c": 3.0, "a": 2.0, "b": 1.0},
        [{"id": "c#0", "text": "x"}, {"doc_id": "a", "text": "y"}, {"id": "b", "text": "z"}],
        [Passage("p1", "x", doc_id="c"), Passage("p2", "y", doc_id="a"), Passage("b#1", "z")],
        Answer("q1", "In 1881.", ("c#0", "a#0", "b#2")),
        {"answer": "In 1881.", "contexts": [{"id": "c"}, {"id": "a"}, {"id": "b"}]},
    ],
)
def test_results_in_every_form_are_documents_in_their_order(results: Any) -> None:
    assert assert_context_recall(results, CASE, k=3, at_least=1.0) == 1.0
    assert assert_context_recall(results, CASE, k=2, at_least=0.5) == 0.5


def test_a_failure_shows_question_expectation_result_and_ceiling() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_context_recall(["c", "a", "d"], CASE, k=3, at_least=0.8)
    assert str(caught.value) == (
        "query 'q1': When did it open?\n"
        "  expected: at least 0.80 of a, b among the first 3\n"
        "  result: c, a, d\n"
        "  recall 0.50; missing: b\n"
        "  ceiling at k = 3: 1.00"
    )


def test_a_document_whose_alternative_came_back_is_not_missing() -> None:
    same = Case("q1", "When did it open?", metadata={"alternatives": [["a", "a2"]]})
    with pytest.raises(AssertionError, match=r"recall 0\.50; missing: b\n"):
        assert_context_recall(["a2", "c"], LabelledCase(same, {"a": 1, "b": 1}), k=2)


def test_nothing_came_back() -> None:
    with pytest.raises(AssertionError, match="result: nothing"):
        assert_context_recall([], CASE)


def test_a_threshold_above_the_ceiling_is_an_error_of_the_test() -> None:
    with pytest.raises(
        ConfigError, match=r"2 relevant documents, so no system can exceed 0\.50: raise k"
    ):
        assert_context_recall(["a", "b"], CASE, k=1, at_least=0.8)


def test_a_case_without_labels_cannot_be_tested() -> None:
    with pytest.raises(ConfigError, match="no relevance labels"):
        assert_context_recall(["a"], Case("q", "?"))
    with pytest.raises(ConfigError, match="neither a reference answer nor gold facts"):
        assert_answer_correct("x", Case("q", "?"))
    with pytest.raises(ConfigError, match="give a judge"):
        assert_answer_correct("x", Case("q", "?", reference_answer="y"))


def test_a_plain_case_is_taken_by_its_evidence_or_its_chunks() -> None:
    assert assert_context_recall(["a#7"], Case("q", "?", evidence=(Span("a", 0, 3),))) == 1.0
    by_chunk = Case("q", "?", relevant_chunks={"a#7": 2, "a#8": 0}, expected_chunks=("b#1",))
    assert assert_context_recall(["a#7", "b#1"], by_chunk, at_least=1.0) == 1.0
    with pytest.raises(AssertionError, match=r"missing: b#1"):
        assert_context_recall(["a#7", "b#2"], by_chunk, at_least=1.0)


@pytest.mark.parametrize("settings", [{"k": 0}, {"at_least": 1.5}, {"at_least": -0.1}])
def test_settings_out_of_range(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected k from 1"):
        assert_context_recall(["a"], CASE, **settings)


def test_results_that_are_none() -> None:
    with pytest.raises(DataError, match="results are 7"):
        assert_context_recall(7, CASE)  # type: ignore[arg-type]


def test_a_failed_request_is_reported(recorder: Recorder) -> None:
    failed = Answer("q1", "", outcome="failed", error="timeout after 5 s")
    with pytest.raises(AssertionError, match="the request failed: timeout after 5 s"):
        assert_context_recall(failed, CASE)
    with pytest.raises(AssertionError, match="the request failed: timeout after 5 s"):
        assert_answer_correct(failed, CASE)
    assert [(check.value, check.passed) for check in recorder.checks] == [(None, False)] * 2


REFERENCE = Case("q1", "When did it open?", reference_answer="In 1881.", gold_facts=(("1881",),))


def test_the_judge_decides_where_there_is_one() -> None:
    right = ScriptedLLM([{"correctness": {"reason": "Same year.", "verdict": True}}])
    assert assert_answer_correct("It opened in 1881.", REFERENCE, right) == 1.0
    assert "It opened in 1881." in right.prompts[0]


def test_a_function_is_a_judge_too() -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return '{"correctness": {"reason": "Other year.", "verdict": false}}'

    with pytest.raises(AssertionError, match=r"result: In 1900\.\n  the judge: Other year\."):
        assert_answer_correct("In 1900.", REFERENCE, judge)
    assert len(asked) == 1


def test_an_unreadable_verdict_skips_and_is_counted_as_unscored(recorder: Recorder) -> None:
    reason = ""
    try:  # pytest.raises lets a skip through
        assert_answer_correct(
            "In 1881.", REFERENCE, ScriptedLLM([Completion("", "m", error="503")] * 3)
        )
    except pytest.skip.Exception as exc:
        reason = str(exc)
    assert reason == "the judge returned no verdict (judge_failed): 503"
    assert [(check.value, check.passed) for check in recorder.checks] == [(None, None)]
    assert reports.summary_rows(recorder.checks) == [("answer_correct", "unscored", "0/1", "0/0")]


def test_without_a_judge_every_gold_fact_must_be_stated() -> None:
    two = Case("q", "?", gold_facts=(("1881",), ("May", "spring")))
    assert assert_answer_correct("In spring 1881.", two) == 1.0
    with pytest.raises(AssertionError, match="50% of the gold facts are stated"):
        assert_answer_correct("In 1881.", two)


def test_abstaining_is_correct_only_on_unanswerable_questions() -> None:
    none = Case("q", "?", expected_outcome="no_results")
    assert assert_answer_correct(Answer("q", "Not found.", outcome="no_results"), none) == 1.0
    with pytest.raises(AssertionError, match="the question has no answer, and one was given"):
        assert_answer_correct("It is blue.", none)
    with pytest.raises(AssertionError, match="no answer was given"):
        assert_answer_correct(Answer("q1", "Not found.", outcome="no_results"), REFERENCE)


@pytest.mark.parametrize("text", ["Not found.", ""])
def test_the_reason_of_an_abstention_that_passes_is_that_none_was_given(
    text: str, recorder: Recorder
) -> None:
    none = Case("q", "?", expected_outcome="no_results")
    assert assert_answer_correct(Answer("q", text, outcome="no_results"), none) == 1.0
    [check] = recorder.checks
    assert (check.passed, check.reason) == (True, "the question has no answer, and none was given")


def test_answers_and_searches_of_one_question_are_kept_as_one(recorder: Recorder) -> None:
    case = LabelledCase(REFERENCE, {"a": 1}, DatasetSource("pydoc"))
    assert_context_recall(["a"], case)
    assert_answer_correct("In 1881.", case)
    (kept,) = recorder.answers[DatasetSource("pydoc")].values()
    assert (kept.text, kept.contexts) == ("In 1881.", ("a",))
    other = Recorder()
    other.add_plain(recorder.to_plain())
    assert other == recorder


def test_labelled_cases_hold_the_relevant_documents_of_a_grade() -> None:
    data = Dataset("d", "dev", {}, (Case("q", "?"), Case("r", "?")), {"q": {"x": 2, "y": 1}})
    assert [case.relevant for case in labelled_cases(data, min_grade=2)] == [{"x": 2}, {}]
    assert labelled_cases(data)[0].source is None
    assert labelled_cases(load_dataset("pydoc"))[0].source == DatasetSource("pydoc")
