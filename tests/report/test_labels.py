"""Tables and sentences about gold labels."""

from __future__ import annotations

import pytest

from ragbench import report
from ragbench.generation import Draft
from ragbench.generation.chunk_sample import spread
from ragbench.retrieval.chunkers import chunk
from ragbench.types import Answer, Case, Chunk, Completion, Dataset, Document

CORPUS = {
    f"d{i}": Document(f"d{i}", f"Document {i} speaks of {word} and of nothing else.") for i, word in enumerate("abc")
}
CASES = (Case("q1", "Which one?"), Case("q2", "And who?"), Case("q3", "Why?"))
DATA = Dataset("x", "test", CORPUS, CASES, {case.query_id: {"d1": 2} for case in CASES})
SOURCE = Chunk("d1#0", "d1", 0, 40, "The bridge opened in 1901 over the river.")
SOURCES = {case.query_id: [SOURCE] for case in CASES}
ANSWERS = [
    Answer("q1", "The bridge opened in 1901.", outcome="success", usage=Completion("", "m")),
    Answer("q2", "The tunnel closed in 1902.", outcome="success", usage=Completion("", "m")),
    Answer("q3", "", outcome="failed", error="timed out"),
]


def test_answers_whose_words_are_not_in_their_sources_come_first() -> None:
    table = report.reference_table(DATA, SOURCES, ANSWERS)
    assert list(table["query_id"]) == ["q2", "q1", "q3"]
    assert list(table["in_sources"][:2]) == [0.0, 1.0]  # tunnel, closed, 1902: none; bridge, opened, 1901: all
    assert table["in_sources"].isna()[2]
    lines = " ".join(report.reference_findings(table, "m"))
    assert "**2 of 3** reference answers were written by `m`" in lines
    assert "In 1 answers, less than half" in lines
    assert "1 gave no usable answer" in lines


def test_findings_about_drafts_name_the_main_loss() -> None:
    drafts = [Draft(f"c{i}", "d", state=state) for i, state in enumerate(["accepted", "yes_no", "yes_no", "failed"])]
    lines = " ".join(report.draft_findings(drafts, "made"))
    assert "**1 of 4** drafts are accepted" in lines
    assert "can be answered by yes or no (2)" in lines
    assert "1 requests failed" in lines
    assert "`made`" in lines


def test_points_of_the_topic_map_say_what_became_of_each_chunk() -> None:
    chunks = chunk(DATA, "document")
    points = report.topic_points(chunks, chunks[:2])
    assert sorted(points["state"]) == ["not sampled", "sampled", "sampled"]
    drafts = [Draft(chunks[0].chunk_id, "d0", state="accepted"), Draft(chunks[1].chunk_id, "d1", state="yes_no")]
    assert sorted(report.topic_points(chunks, chunks[:2], drafts)["state"]) == [
        "accepted",
        "not sampled",
        "nothing accepted",
    ]
    assert points[["x", "y"]].notna().all().all()


def test_spread_is_zero_where_everything_is_sampled_and_unknown_without_a_sample() -> None:
    import numpy as np

    vectors = np.eye(3, dtype=np.float32)
    assert spread(vectors, vectors) == pytest.approx(0, abs=1e-6)
    assert spread(vectors[:1], vectors) == pytest.approx(2 / 3)
    assert np.isnan(spread(np.zeros((0, 2), dtype=np.float32), np.eye(2, dtype=np.float32)))
