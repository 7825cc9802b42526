"""Span scores against numbers worked out by hand and against sets of characters; what chunks are like."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.metrics.chunks import (
    boundary_cuts,
    coherence,
    first_cover,
    overlap_ratio,
    overlaps,
    places,
    recall_auc,
    size_statistics,
    span_scores,
    union,
)
from ragbench.types import Chunk, Span


def piece(start: int, end: int, doc_id: str = "d") -> Chunk:
    return Chunk(f"{doc_id}#{start}-{end}", doc_id, start, end, "x" * (end - start))


# Ten characters each: 0-10, 10-20, 20-30, 30-40.
TILES = [piece(i, i + 10) for i in range(0, 40, 10)]


def scores(retrieved: list[Chunk], evidence: list[Span], chunks: list[Chunk] = TILES) -> tuple[float, ...]:
    found = span_scores(retrieved, evidence, chunks)
    assert list(found) == ["recall", "precision", "precision_omega", "iou"]
    return tuple(found.values())


def test_one_chunk_is_the_evidence() -> None:
    assert scores([TILES[1]], [Span("d", 10, 20)]) == (1, 1, 1, 1)


def test_evidence_over_a_border_half_found() -> None:
    # T = 15..25; found 15..20: recall 5/10, precision 5/10, omega 10/20, iou 5/(10+10-5)
    assert scores([TILES[1]], [Span("d", 15, 25)]) == (0.5, 0.5, 0.5, 5 / 15)


def test_evidence_that_overlaps_itself_counts_once() -> None:
    # T = 12..19, 7 characters
    assert scores([TILES[1]], [Span("d", 12, 17), Span("d", 14, 19), Span("d", 12, 17)]) == (1, 0.7, 0.7, 0.7)


def test_retrieved_twice_is_paid_twice_and_found_once() -> None:
    # |T| = 5, |R| = 20, hit 5: precision 5/20, iou 5/(5+20-5)
    assert scores([TILES[0], TILES[0]], [Span("d", 0, 5)]) == (1, 0.25, 0.5, 0.25)


def test_overlapping_chunks() -> None:
    chunks = [piece(0, 10), piece(5, 15), piece(10, 20)]
    # T = 8..12, found by 0-10 (8, 9) and 5-15 (all): |R| = 20, hit 4; omega: all three hold some of it, 0..20 once
    assert scores(chunks[:2], [Span("d", 8, 12)], chunks) == (1, 4 / 20, 4 / 20, 4 / 20)


def test_ranges_that_only_touch_do_not_intersect() -> None:
    # evidence 10-20 touches the chunks before and after it: omega needs the middle one only
    assert scores([TILES[0], TILES[2]], [Span("d", 10, 20)]) == (0, 0, 1, 0)


def test_evidence_in_several_documents() -> None:
    chunks = [*TILES, piece(0, 10, "e"), piece(10, 30, "e")]
    evidence = [Span("d", 0, 10), Span("e", 15, 25)]
    # found: e 10-30, hit 10 of 20; |R| = 20; omega: d 0-10 and e 10-30: 20/30
    assert scores([chunks[-1]], evidence, chunks) == (0.5, 0.5, 20 / 30, 10 / 30)


def test_the_same_offsets_in_another_document_are_not_a_hit() -> None:
    chunks = [*TILES, piece(0, 10, "e")]
    assert scores([chunks[-1]], [Span("d", 0, 10)], chunks) == (0, 0, 1, 0)


def test_other_documents_count_in_what_was_retrieved() -> None:
    chunks = [*TILES, piece(0, 30, "e")]
    assert scores([TILES[0], chunks[-1]], [Span("d", 0, 10)], chunks) == (1, 0.25, 1, 0.25)


def test_nothing_retrieved() -> None:
    assert scores([], [Span("d", 0, 10)]) == (0, 0, 1, 0)


def test_no_chunk_holds_the_evidence() -> None:
    assert scores([TILES[0]], [Span("d", 50, 60)]) == (0, 0, 0, 0)
    assert scores([], [Span("d", 50, 60)], []) == (0, 0, 0, 0)


def test_evidence_contained_in_part() -> None:
    assert scores(TILES, [Span("d", 35, 55)]) == (0.25, 5 / 40, 0.5, 5 / (20 + 40 - 5))


def test_no_evidence_gives_nan() -> None:
    assert all(math.isnan(value) for value in scores(TILES, []))


@pytest.mark.parametrize("span", [Span("d", 3, 3), Span("d", 5, 2), Span("d", -1, 4)])
def test_invalid_spans_are_refused(span: Span) -> None:
    with pytest.raises(DataError, match="expected 0 <= start < end"):
        span_scores(TILES, [span], TILES)


RANGES = st.tuples(st.sampled_from("de"), st.integers(0, 25), st.integers(1, 12)).map(
    lambda r: (r[0], r[1], r[1] + r[2])
)


@settings(max_examples=200, deadline=None)
@given(
    evidence=st.lists(RANGES, min_size=1, max_size=5),
    chunks=st.lists(RANGES, max_size=8),
    picks=st.lists(st.integers(0, 7), max_size=8),
)
def test_equal_to_sets_of_characters(
    evidence: list[tuple[str, int, int]], chunks: list[tuple[str, int, int]], picks: list[int]
) -> None:
    def characters(ranges: list[tuple[str, int, int]]) -> Counter[tuple[str, int]]:
        return Counter((doc_id, i) for doc_id, start, end in ranges for i in range(start, end))

    retrieved = [chunks[i] for i in picks if i < len(chunks)]
    truth, found = set(characters(evidence)), characters(retrieved)
    omega = characters([chunk for chunk in chunks if truth & set(characters([chunk]))])
    hit, n_found = len(truth & set(found)), found.total()
    expected = {
        "recall": hit / len(truth),
        "precision": hit / n_found if n_found else 0,
        "precision_omega": len(truth & set(omega)) / len(omega) if omega else 0,
        "iou": hit / (len(truth) + n_found - hit),
    }
    records = [Chunk(f"{d}#{i}", d, start, end, "") for i, (d, start, end) in enumerate(chunks)]
    actual = span_scores([records[i] for i in picks if i < len(chunks)], [Span(*span) for span in evidence], records)
    assert actual == expected
    assert all(0 <= value <= 1 for value in actual.values())


NUMBERS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(truth=NUMBERS, held=NUMBERS)
def test_first_cover_and_overlaps_equal_to_the_slow_way(
    truth: list[tuple[int, int]], held: list[tuple[int, int]]
) -> None:
    starts, ends = union(np.array([a for a, _ in truth]), np.array([a + n for a, n in truth]))
    assert (starts[1:] > ends[:-1]).all()
    ranges = np.array([a for a, _ in held]), np.array([a + n for a, n in held])
    lengths, owner, first = first_cover((starts, ends), ranges)
    expected: Counter[tuple[int, int]] = Counter()
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        for position in range(start, end):
            holders = [j for j, (a, n) in enumerate(held) if a <= position < a + n]
            expected[i, min(holders, default=len(held))] += 1
    actual: Counter[tuple[int, int]] = Counter()
    for length, i, j in zip(lengths.tolist(), owner.tolist(), first.tolist(), strict=True):
        actual[i, j] += length
    assert actual == expected
    pairs = {(int(i), int(j)) for i, j in zip(*overlaps((starts, ends), ranges), strict=True)}
    assert pairs == {
        (i, j)
        for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
        for j, (a, n) in enumerate(held)
        if a < end and a + n > start
    }


def test_documents_have_a_gap_between_them() -> None:
    assert places([piece(0, 10), piece(0, 5, "e"), Span("f", 3, 4)]) == {"d": 0, "e": 11, "f": 17}
    assert places([]) == {}


def test_size_statistics() -> None:
    assert size_statistics([4, 4, 8, 8]) == {"chunks": 4, "tokens_mean": 6, "tokens_median": 6, "tokens_p95": 8}
    assert size_statistics([])["chunks"] == 0
    assert math.isnan(size_statistics([])["tokens_p95"])


def test_overlap_ratio() -> None:
    assert overlap_ratio(TILES) == 0
    assert overlap_ratio([piece(0, 10), piece(5, 15), piece(10, 20)]) == 1 - 20 / 30
    assert overlap_ratio([piece(0, 10), piece(0, 10, "e")]) == 0
    assert overlap_ratio([piece(0, 10), piece(0, 10)]) == 0.5
    assert math.isnan(overlap_ratio([]))


# "Aaaa bbb. Cccc ddd. Eeee." with sentences 0-9, 10-19, 20-25.
SENTENCES = {"d": [(0, 9), (10, 19), (20, 25)]}


def test_boundary_cuts() -> None:
    assert boundary_cuts([piece(0, 9), piece(10, 25)], SENTENCES) == 0
    assert boundary_cuts([piece(0, 14), piece(15, 25)], SENTENCES) == 1
    assert boundary_cuts([piece(0, 14), piece(10, 25)], SENTENCES) == 0.5  # overlap: ends at 14, begins at 10
    assert boundary_cuts([piece(0, 4), piece(5, 9), piece(10, 25)], SENTENCES) == 0.5


def test_the_ends_of_the_document_are_not_boundaries() -> None:
    assert math.isnan(boundary_cuts([piece(0, 25)], SENTENCES))
    assert math.isnan(boundary_cuts([], SENTENCES))
    assert math.isnan(boundary_cuts([piece(0, 3)], {"d": []}))


def test_coherence() -> None:
    rows = {"d": np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)}
    chunks = [piece(0, 25), piece(10, 25), piece(0, 18), piece(3, 25), piece(10, 19)]
    values = coherence(chunks, SENTENCES, rows)
    assert values[:2] == pytest.approx([0.4, 0.8])
    assert math.isnan(values[2])  # holds one sentence whole
    assert values[3] == pytest.approx(0.8)
    assert math.isnan(values[4])


def test_area_under_recall() -> None:
    # (0, 0) to (100, 1): 50; (100, 1) to (200, 1): 100; of 200
    assert recall_auc([100, 200], [1, 1]) == 0.75
    assert recall_auc([200, 100], [1, 0.5]) == 0.5  # the order of the budgets does not matter
    assert recall_auc([100], np.array([[0.0], [1.0]])).tolist() == [0, 0.5]
