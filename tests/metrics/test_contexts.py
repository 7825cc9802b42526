"""The texts behind an answer's contexts."""

from __future__ import annotations

import pytest

from ragbench.errors import DataError
from ragbench.metrics.tidy import answered_cases, context_texts, state_of, wording
from ragbench.types import Answer, Case, Chunk, Dataset, Passage

CHUNKS = [Chunk("a#0", "a", 0, 3, "one"), Chunk("a#1", "a", 4, 7, "two")]


def test_chunks_in_the_order_of_the_contexts() -> None:
    assert context_texts([Answer("q", "x", contexts=("a#1", "a#0"))], CHUNKS) == {
        "q": ["two", "one"]
    }


def test_own_passages_come_before_chunks_of_the_same_id() -> None:
    answer = Answer("q", "x", contexts=("a#0", "a#1"), passages=(Passage("a#0", "own"),))
    assert context_texts([answer], CHUNKS) == {"q": ["own", "two"]}


def test_passages_without_contexts_all_count() -> None:
    answer = Answer("q", "x", passages=(Passage("p", "own"), Passage("r", "other")))
    assert context_texts([answer]) == {"q": ["own", "other"]}


def test_nothing_retrieved_is_an_empty_list() -> None:
    assert context_texts([Answer("q", "x")], CHUNKS) == {"q": []}


def test_a_context_without_text_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"'q' had the context 'b#0'.*no chunks given.*another chunking.*Pass the chunks",
    ):
        context_texts([Answer("q", "x", contexts=("b#0",))])


def test_only_numbers_of_contexts_are_citations() -> None:
    answer = Answer("q", "It is so [1] and [0], not [3].", contexts=("a", "b"))
    assert wording(answer) == "It is so and [0], not [3]."


def test_answered_cases_are_answerable_and_neither_abstained_nor_failed() -> None:
    cases = [Case("yes", "?"), Case("silent", "?"), Case("lost", "?"), Case("none", "?")]
    cases[3] = Case("none", "?", expected_outcome="no_results")
    answers = [
        Answer("yes", "It is."),
        Answer("silent", "No.", outcome="no_results"),
        Answer("lost", "", error="time-out"),
        Answer("none", "It is."),
    ]
    dataset = Dataset("mine", "test", {}, cases, {})
    assert list(answered_cases(dataset, answers)) == ["yes"]
    assert [state_of(answer) for answer in (*answers, None)] == [
        "answered",
        "abstained",
        "failed",
        "answered",
        "failed",
    ]


def test_the_first_context_without_a_text_is_named() -> None:
    answer = Answer("q", "x", contexts=("a#0", "b#7", "c#8"))
    with pytest.raises(DataError, match="'b#7'"):
        context_texts([answer], CHUNKS)
