"""Measures of chunks: their overlap with the evidence, and statistics of a chunking.

The span measures follow Smith & Troynikov 2024, "Evaluating Chunking Strategies for Retrieval" (Chroma technical
report). With T the characters of the evidence, each counted once, and R the characters of the
retrieved chunks, each counted as often as it was retrieved::

    recall           |T and R| / |T|    the fraction of the evidence that was found; each character counts once
    precision        |T and R| / |R|    the fraction of the retrieved text that is evidence
    iou              |T and R| / (|T| + |R| - |T and R|)
    precision_omega  |T and O| / |O|, with O the characters of all chunks that contain a character of the evidence,
                     each once: the precision of the chunking when all evidence is found

All are in [0, 1], higher is better. Text in overlapping chunks counts once in O, and as often as it was retrieved in R,
as in the report's published figures: with its tokenizer and evidence, these formulas give its precision-omega for
windows with and without overlap. Unlike the reference code, ranges that
only touch do not intersect, and the retrieved list is not cut at the number of chunks that hold evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragbench.errors import DataError
from ragbench.types import Chunk, Span

if TYPE_CHECKING:
    from ragbench.types import FloatArray

IntArray = npt.NDArray[np.int64]
Ranges = tuple[IntArray, IntArray]
"""Starts and ends (exclusive) of ranges on one axis."""


def span_scores(retrieved: Sequence[Chunk], evidence: Sequence[Span], all_chunks: Iterable[Chunk]) -> dict[str, float]:
    """Recall, precision, precision-omega and IoU of one question; see the top of this module.

    `all_chunks` is the whole chunking, `retrieved` a part of it in any order; a repeated chunk counts twice. Nothing
    retrieved: recall, precision and IoU are 0. Evidence in no chunk: precision_omega is 0. No evidence: all four are
    NaN. A span that ends before it begins or is empty raises DataError.

    >>> a, b = Chunk("d#0", "d", 0, 10, "x" * 10), Chunk("d#1", "d", 10, 30, "x" * 20)
    >>> span_scores([b], [Span("d", 5, 15), Span("d", 8, 20)], [a, b])  # evidence: 5 to 20; found: 10 to 20
    {'recall': 0.6666666666666666, 'precision': 0.5, 'precision_omega': 0.5, 'iou': 0.4}
    """
    if not evidence:
        return dict.fromkeys(("recall", "precision", "precision_omega", "iou"), float("nan"))
    check_spans(evidence)
    documents = {span.doc_id for span in evidence}
    chunking = [chunk for chunk in all_chunks if chunk.doc_id in documents]
    found = [chunk for chunk in retrieved if chunk.doc_id in documents]
    place = places([*evidence, *chunking, *found])
    truth = union(*ranges(evidence, place))
    held = ranges(chunking, place)
    touching = np.unique(overlaps(truth, held)[1])
    held = union(held[0][touching], held[1][touching])

    n_truth = int((truth[1] - truth[0]).sum())
    n_found = sum(chunk.end - chunk.start for chunk in retrieved)
    n_omega = int((held[1] - held[0]).sum())
    hit = _covered(truth, ranges(found, place))
    return {
        "recall": hit / n_truth,
        "precision": hit / n_found if n_found else 0.0,
        "precision_omega": _covered(truth, held) / n_omega if n_omega else 0.0,
        "iou": hit / (n_truth + n_found - hit),
    }


def _covered(truth: Ranges, held: Ranges) -> int:
    lengths, _, first = first_cover(truth, held)
    return int(lengths[first < len(held[0])].sum())


def check_spans(spans: Iterable[Span]) -> None:
    """Raise DataError for a span that is empty, negative or ends before it begins.

    >>> check_spans([Span("d", 3, 3)])
    Traceback (most recent call last):
    ragbench.errors.DataError: evidence d[3:3] is not a range of characters: expected 0 <= start < end
    """
    for span in spans:
        if not 0 <= span.start < span.end:
            raise DataError(
                f"evidence {span.doc_id}[{span.start}:{span.end}] is not a range of characters: "
                "expected 0 <= start < end"
            )


# Ranges: the documents are concatenated on one axis, so that the questions and documents of a whole run are compared by
# a few sorted searches, and nothing grows as chunks x spans.


def places(pieces: Iterable[Span | Chunk]) -> dict[str, int]:
    """The start of each document on the axis, with room for all these pieces and a gap of one after it.

    >>> places([Span("a", 0, 5), Span("b", 2, 4), Span("a", 1, 9)])
    {'a': 0, 'b': 10}
    """
    lengths: dict[str, int] = {}
    for piece in pieces:
        if piece.end > lengths.get(piece.doc_id, -1):
            lengths[piece.doc_id] = piece.end
    ends = np.cumsum([0, *(length + 1 for length in lengths.values())]).tolist()
    return dict(zip(lengths, ends, strict=False))


def ranges(pieces: Sequence[Span | Chunk], place: Mapping[str, int]) -> Ranges:
    """The starts and ends of these pieces on the axis."""
    base, starts, ends = (
        np.fromiter(values, np.int64, count=len(pieces))
        for values in ((place[p.doc_id] for p in pieces), (p.start for p in pieces), (p.end for p in pieces))
    )
    return base + starts, base + ends


def union(starts: IntArray, ends: IntArray) -> Ranges:
    """The same characters as ranges that are in order and do not overlap; ranges that touch are joined.

    >>> [part.tolist() for part in union(np.array([5, 0, 7, 20]), np.array([8, 6, 9, 21]))]
    [[0, 20], [9, 21]]
    """
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    new = np.flatnonzero(np.r_[True, starts[1:] > reach[:-1]])
    return starts[new], reach[np.r_[new[1:] - 1, len(reach) - 1]]


def first_cover(truth: Ranges, held: Ranges) -> tuple[IntArray, IntArray, IntArray]:
    """Cut `truth` at the boundaries of `held`, and give for each part the first range of `held` that contains it.

    `truth` as `union` returns it; `held` in any order, best first. Returns the length of each part, the number of
    the range of `truth` that it is part of, and the number of its first holder (len(held) if it has none).

    >>> truth = np.array([0]), np.array([10])
    >>> held = np.array([4, 0, 2]), np.array([20, 3, 6])
    >>> [column.tolist() for column in first_cover(truth, held)]
    [[2, 1, 1, 2, 4], [0, 0, 0, 0, 0], [1, 1, 2, 0, 0]]
    """
    points = np.sort(np.concatenate([*truth, *held]))
    points = points[np.diff(points, prepend=-1) > 0]
    owner = np.searchsorted(truth[0], points, side="right") - 1
    inside = (owner >= 0) & (points < truth[1][owner])
    at = np.flatnonzero(inside)  # never the last point: that is the end of something
    begins, lengths, owner = points[at], points[at + 1] - points[at], owner[at]
    low, high = np.searchsorted(begins, held[0]), np.searchsorted(begins, held[1])
    part, holder = _expand(low, high)
    first = np.full(len(begins), len(held[0]), dtype=np.int64)
    first[part[::-1]] = holder[::-1]  # of several holders of one part the last assignment stays: the first holder
    return lengths, owner, first


def overlaps(truth: Ranges, held: Ranges) -> tuple[IntArray, IntArray]:
    """Which range of `truth` and which of `held` have a character in common, as two columns of numbers.

    >>> truth, held = (np.array([0, 5]), np.array([5, 9])), (np.array([5, 3]), np.array([7, 6]))
    >>> [column.tolist() for column in overlaps(truth, held)]
    [[0, 1, 1], [1, 1, 0]]
    """
    order = np.argsort(held[0], kind="stable")
    starts, ends = held[0][order], held[1][order]
    reach = np.maximum.accumulate(ends)  # chunks that end before an earlier one are rare: considered, then dropped
    position, owner = _expand(np.searchsorted(reach, truth[0], side="right"), np.searchsorted(starts, truth[1]))
    real = ends[position] > truth[0][owner]
    return owner[real], order[position[real]]


def _expand(low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers from low[i] up to high[i], and the i of each."""
    counts = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(low)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return low[owner] + within, owner


# Statistics of a chunking.


def size_statistics(token_counts: Sequence[int] | IntArray) -> dict[str, float]:
    """Number of chunks, and mean, median and 95th percentile of their sizes in tokens (NaN without chunks).

    The percentile is interpolated between the two nearest sizes (numpy's default).

    >>> size_statistics([10, 20, 30, 40])
    {'chunks': 4.0, 'tokens_mean': 25.0, 'tokens_median': 25.0, 'tokens_p95': 38.5}
    """
    sizes = np.asarray(token_counts, dtype=np.float64)
    figures = [sizes.mean(), *np.percentile(sizes, [50, 95])] if len(sizes) else [np.nan] * 3
    names = ("chunks", "tokens_mean", "tokens_median", "tokens_p95")
    return dict(zip(names, map(float, [len(sizes), *figures]), strict=True))


def overlap_ratio(chunks: Sequence[Chunk]) -> float:
    """The fraction of the chunks' characters that another chunk contains as well: 1 - |union| / |sum|, in [0, 1).

    0 for chunks without overlap; NaN without chunks.

    >>> overlap_ratio([Chunk("d#0", "d", 0, 10, "x" * 10), Chunk("d#1", "d", 5, 15, "x" * 10)])
    0.25
    """
    starts, ends = ranges(chunks, places(chunks))
    total = int((ends - starts).sum())
    distinct = union(starts, ends)
    return 1 - int((distinct[1] - distinct[0]).sum()) / total if total else float("nan")


def boundary_cuts(chunks: Sequence[Chunk], sentences: Mapping[str, Sequence[tuple[int, int]]]) -> float:
    """The fraction of chunk boundaries inside a sentence, in [0, 1]; lower is better.

    `sentences` holds the sentences of each document, in order (`ragbench.segments.sentence_spans`). A boundary is
    the start or the end of a chunk, other than those of the document. NaN if there is none.

    >>> chunks = [Chunk("d#0", "d", 0, 3, "One"), Chunk("d#1", "d", 4, 14, "two. Three")]
    >>> boundary_cuts(chunks, {"d": [(0, 8), (9, 19)]})  # both boundaries between "One" and "two", and the last end
    1.0
    """
    n_borders = n_inside = 0
    for doc_id, own in _by_document(chunks).items():
        spans = np.asarray(sentences[doc_id], dtype=np.int64).reshape(-1, 2)
        if not len(spans):
            continue
        borders = np.array([border for i in own for border in (chunks[i].start, chunks[i].end)], dtype=np.int64)
        borders = borders[(borders > spans[0, 0]) & (borders < spans[-1, 1])]
        sentence = np.searchsorted(spans[:, 0], borders) - 1  # the last one that begins before the border
        n_borders += len(borders)
        n_inside += int((borders < spans[sentence, 1]).sum())
    return n_inside / n_borders if n_borders else float("nan")


def coherence(
    chunks: Sequence[Chunk],
    sentences: Mapping[str, Sequence[tuple[int, int]]],
    vectors: Mapping[str, FloatArray],
) -> npt.NDArray[np.float64]:
    """For each chunk the mean cosine of its neighbouring sentences, in [-1, 1]; higher is better.

    `vectors` holds a row of unit length for each of the document's `sentences`. Only sentences wholly within
    the chunk count; a chunk with fewer than two has NaN.

    >>> rows = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
    >>> chunks = [Chunk("d#0", "d", 0, 20, "Abc. Defgh. Ijklmno."), Chunk("d#1", "d", 0, 11, "Abc. Defgh.")]
    >>> coherence(chunks, {"d": [(0, 4), (5, 11), (12, 20)]}, {"d": rows}).round(6).tolist()
    [0.7, 0.6]
    """
    values = np.full(len(chunks), np.nan)
    for doc_id, own in _by_document(chunks).items():
        spans = np.asarray(sentences[doc_id], dtype=np.int64).reshape(-1, 2)
        rows = np.asarray(vectors[doc_id], dtype=np.float64)
        sums = np.r_[0.0, np.cumsum(np.einsum("ij,ij->i", rows[:-1], rows[1:]))]
        first = np.searchsorted(spans[:, 0], [chunks[i].start for i in own])
        last = np.searchsorted(spans[:, 1], [chunks[i].end for i in own], side="right") - 1
        whole = np.flatnonzero(last > first)
        first, last = first[whole], last[whole]
        values[np.asarray(own)[whole]] = (sums[last] - sums[first]) / (last - first)
    return values


def _by_document(chunks: Sequence[Chunk]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for i, chunk in enumerate(chunks):
        grouped.setdefault(chunk.doc_id, []).append(i)
    return grouped


def recall_auc(budgets: Sequence[int], recalls: Any) -> Any:
    """The area under recall against budget, divided by the largest budget: the mean recall over all budgets up to it.

    Linear between the given budgets (trapezoids), starting at recall 0 with budget 0. `recalls` holds one
    value per budget along its last axis. In [0, 1]; an immediate full recall would give 1 - budgets[0] / (2 * max).

    >>> float(recall_auc([250, 500, 1000], [0.25, 0.5, 1.0]))
    0.5
    """
    order = np.argsort(budgets)
    x = np.r_[0, np.asarray(budgets)[order]]
    y = np.asarray(recalls, dtype=np.float64)[..., order]
    y = np.concatenate([np.zeros((*y.shape[:-1], 1)), y], axis=-1)
    return ((y[..., 1:] + y[..., :-1]) / 2 * np.diff(x)).sum(axis=-1) / x[-1]
