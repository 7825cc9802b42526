"""A chunk-level run scored by evidence spans: at equal k, and at an equal budget of context tokens."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown_chunk
from ragbench.metrics.chunks import (
    IntArray,
    Ranges,
    check_spans,
    first_cover,
    overlaps,
    places,
    ranges,
    recall_auc,
    union,
)
from ragbench.metrics.retrieval import checked_run
from ragbench.registry import BUDGETS, KS
from ragbench.scoring.tidy import tidy
from ragbench.segments import token_offsets, token_ranges, trim
from ragbench.types import Case, Chunk, Dataset, Run, Span, chunk_places

FloatColumn = npt.NDArray[np.float64]


def score_spans(
    dataset: Dataset,
    run: Run,
    chunks: Sequence[Chunk],
    *,
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    tokenizer: str = "minilm",
) -> pd.DataFrame:
    """The evidence of each question that the run's chunks contain, as a frame of query_id, measure and value.

    `run` holds chunk ids; chunks rank by score, those of equal score in the order of `chunks`. The measures, all in
    [0, 1] and over characters (formulas in `ragbench.metrics.chunks`):

    - span_recall@k, span_precision@k, span_iou@k: of the first k chunks; where fewer were found, of those.
    - span_precision_omega: of the chunking alone, independent of the run.
    - span_recall@{b}tok: recall when the ranking is read until b tokens are used up. The chunk that exceeds the
      budget is cut at the last token that fits. Text in two chunks uses the budget twice and counts once.
    - span_recall_auc: area under recall against budget, see `ragbench.metrics.chunks.recall_auc`.

    Tokens are those of the whole document, also where a chunk contains only part of one, so the same text uses the same
    budget in all chunkings.

    Every question that has evidence is in the result, in the order of the dataset; one that is missing from the run, or
    whose evidence is in no chunk, has 0 everywhere (`split_evidence` lists the latter). Questions without
    evidence are left out.

    >>> from ragbench.types import Document
    >>> corpus = {"d": Document("d", "One two three. Four five six.")}
    >>> case = Case("q", "What comes after two?", evidence=(Span("d", 8, 14),))
    >>> chunks = [Chunk("d#0", "d", 0, 14, "One two three."), Chunk("d#1", "d", 15, 29, "Four five six.")]
    >>> dataset = Dataset("demo", "test", corpus, [case], {})
    >>> frame = score_spans(dataset, {"q": {"d#1": 2.0, "d#0": 1.0}}, chunks, ks=[1, 2], budgets=[7])
    >>> frame.set_index("measure")["value"].round(3).to_dict()  # 7 tokens: all of d#1, then "One two three" without "."
    ... # doctest: +NORMALIZE_WHITESPACE
    {'span_recall@1': 0.0, 'span_recall@2': 1.0, 'span_precision@1': 0.0, 'span_precision@2': 0.214,
     'span_iou@1': 0.0, 'span_iou@2': 0.214, 'span_precision_omega': 0.429, 'span_recall@7tok': 0.833,
     'span_recall_auc': 0.417}
    """
    ks, budgets = _numbers("ks", ks), _numbers("budgets", budgets)
    cases = [case for case in dataset.cases if case.evidence]
    if not cases:
        return tidy([], [], [])
    axis = _axis(cases, chunks)
    ranking = _rank(dataset, cases, run, chunks)

    values = _at_ranks(axis, ranking, ks)
    values["span_precision_omega"] = _omega(axis)
    if budgets:
        recalls = _at_budgets(axis, ranking, budgets, _tokens(dataset, chunks, ranking, tokenizer))
        values |= {f"span_recall@{budget}tok": recalls[:, i] for i, budget in enumerate(budgets)}
        values["span_recall_auc"] = recall_auc(budgets, recalls)
    return tidy([case.query_id for case in cases], list(values), list(values.values()))


def split_evidence(dataset: Dataset, chunks: Sequence[Chunk]) -> pd.DataFrame:
    """The questions whose evidence this chunking has lost or split, worst first; independent of any run.

    Columns: query_id; spans, their number; split, the number of them that no single chunk contains whole; share_lost,
    the fraction of the evidence's characters, without white space, that no chunk contains: 1 means that the question
    scores 0 with any run. The chunkers of ragbench lose nothing; other chunks may.

    >>> from ragbench.types import Document
    >>> case = Case("q", "Who?", evidence=(Span("d", 0, 3), Span("d", 4, 11)))
    >>> dataset = Dataset("demo", "test", {"d": Document("d", "One two three")}, [case], {})
    >>> split_evidence(dataset, [Chunk("d#0", "d", 0, 7, "One two")]).round(3).to_dict("records")
    [{'query_id': 'q', 'spans': 2, 'split': 1, 'share_lost': 0.333}]
    """
    cases = [case for case in dataset.cases if case.evidence]
    spans = [_trimmed(dataset, case, span) for case in cases for span in case.evidence]
    place = places([*spans, *chunks])
    held = ranges(chunks, place)
    starts, ends = ranges(spans, place)
    owner = np.repeat(np.arange(len(cases)), [len(case.evidence) for case in cases])
    first_of = np.searchsorted(owner, np.arange(len(cases) + 1)).tolist()

    order = np.argsort(held[0], kind="stable")
    reach = np.r_[-1, np.maximum.accumulate(held[1][order])]
    split = reach[np.searchsorted(held[0][order], starts, side="right")] < ends

    kept = union(*held)
    n_all, n_lost = np.zeros(len(cases), dtype=np.int64), np.zeros(len(cases), dtype=np.int64)
    for i in range(len(cases)):
        own = spans[first_of[i] : first_of[i + 1]]
        for doc_id in dict.fromkeys(span.doc_id for span in own):
            text = dataset.corpus[doc_id].full_text
            truth = union(*ranges([span for span in own if span.doc_id == doc_id], place))
            for start, end in zip(*(edge.tolist() for edge in truth), strict=True):
                low, high = np.searchsorted(kept[1], start, side="right"), np.searchsorted(kept[0], end)
                gaps = zip([start, *kept[1][low:high].tolist()], [*kept[0][low:high].tolist(), end], strict=True)
                base = place[doc_id]
                n_all[i] += _n_visible(text[start - base : end - base])
                n_lost[i] += sum(_n_visible(text[a - base : b - base]) for a, b in gaps if a < b)
    frame = pd.DataFrame(
        {
            "query_id": pd.Series([case.query_id for case in cases], dtype="str"),
            "spans": np.bincount(owner, minlength=len(cases)),
            "split": np.bincount(owner, weights=split, minlength=len(cases)).astype(np.int64),
            "share_lost": n_lost / np.maximum(n_all, 1),
        }
    )
    frame = frame[(frame["split"] > 0) | (frame["share_lost"] > 0)]
    return frame.sort_values(["share_lost", "split"], ascending=False, kind="stable", ignore_index=True)


def _n_visible(text: str) -> int:
    return len("".join(text.split()))


def _trimmed(dataset: Dataset, case: Case, span: Span) -> Span:
    check_spans([span])
    if span.doc_id not in dataset.corpus:
        raise DataError(
            f"query {case.query_id!r} has evidence in document {span.doc_id!r}, which is not in the corpus of "
            f"{dataset.name!r}; offsets of evidence need the document they point into"
        )
    start, end = trim(dataset.corpus[span.doc_id].full_text, span.start, span.end)
    return Span(span.doc_id, start, end) if start < end else span


def _numbers(what: str, values: Sequence[int]) -> list[int]:
    """Each once, as given."""
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ConfigError(f"{what} must be whole numbers of at least 1, not {value!r}")
    return list(dict.fromkeys(index(value) for value in values))


class _Axis(NamedTuple):
    """Evidence and chunks on one axis (see `ragbench.metrics.chunks`), which the evidence has once per question."""

    n_cases: int
    length: int
    truth: Ranges
    """Of question i, shifted by i * length."""
    n_truth: IntArray
    """Characters of evidence per question."""
    held: Ranges
    """Per chunk, not shifted."""

    def of(self, case: IntArray, chunk: IntArray) -> Ranges:
        """These chunks, as these questions see them."""
        return case * self.length + self.held[0][chunk], case * self.length + self.held[1][chunk]

    def hits(self, held: Ranges) -> tuple[IntArray, IntArray, IntArray]:
        """For each part of the evidence its length, its question, and the first of `held` to contain it."""
        lengths, owner, first = first_cover(self.truth, held)
        return lengths, self.truth[0][owner] // self.length, first

    def per_case(self, case: IntArray, weights: npt.NDArray[Any]) -> FloatColumn:
        return np.bincount(case, weights, minlength=self.n_cases).astype(np.float64)


def _axis(cases: Sequence[Case], chunks: Sequence[Chunk]) -> _Axis:
    evidence = [span for case in cases for span in case.evidence]
    check_spans(evidence)
    place = places([*evidence, *chunks])
    held, (starts, ends) = ranges(chunks, place), ranges(evidence, place)
    length = max(int(held[1].max(initial=0)), int(ends.max(initial=0))) + 1
    shift = np.repeat(np.arange(len(cases)), [len(case.evidence) for case in cases]) * length
    truth = union(shift + starts, shift + ends)
    n_truth = np.bincount(truth[0] // length, truth[1] - truth[0], minlength=len(cases)).astype(np.int64)
    return _Axis(len(cases), length, truth, n_truth, held)


class _Ranking(NamedTuple):
    """One row per retrieved chunk, ordered by question, then rank."""

    case: IntArray
    rank: IntArray
    chunk: IntArray


def _rank(dataset: Dataset, cases: Sequence[Case], run: Run, chunks: Sequence[Chunk]) -> _Ranking:
    run = checked_run(run)
    if run and not any(query_id in run for query_id in dataset.queries):
        raise DataError(
            f"none of the run's {len(run):,} queries (the first is {next(iter(run))!r}) is a question of "
            f"{dataset.name!r}: the run belongs to another dataset"
        )
    number = chunk_places(chunks)
    found = [run.get(case.query_id, {}) for case in cases]
    for asked, scores in zip(cases, found, strict=True):
        if unknown := [chunk_id for chunk_id in scores if chunk_id not in number]:
            raise DataError(unknown_chunk(unknown[0], asked.query_id, len(chunks)))
    ids = [chunk_id for scores in found for chunk_id in scores]
    counts = [len(scores) for scores in found]
    case = np.repeat(np.arange(len(cases)), counts)
    chunk = np.fromiter((number[chunk_id] for chunk_id in ids), np.int64, count=len(ids))
    score = np.fromiter((value for scores in found for value in scores.values()), np.float64, count=len(ids))
    order = np.lexsort((chunk, -score, case))
    rank = np.arange(len(ids)) - np.repeat(np.cumsum(counts, dtype=np.int64) - counts, counts)
    return _Ranking(case, rank, chunk[order])


def _at_ranks(axis: _Axis, ranking: _Ranking, ks: Sequence[int]) -> dict[str, FloatColumn]:
    lengths, case, first = axis.hits(axis.of(ranking.case, ranking.chunk))
    rank = np.r_[ranking.rank, np.iinfo(np.int64).max][first]  # the last for what no chunk of the run holds
    size = (axis.held[1] - axis.held[0])[ranking.chunk]
    values: dict[str, dict[int, FloatColumn]] = {"span_recall": {}, "span_precision": {}, "span_iou": {}}
    for k in ks:
        hit = axis.per_case(case, lengths * (rank < k))
        found = axis.per_case(ranking.case, size * (ranking.rank < k))
        values["span_recall"][k] = hit / axis.n_truth
        values["span_precision"][k] = hit / np.maximum(found, 1)
        values["span_iou"][k] = hit / (axis.n_truth + found - hit)
    return {f"{name}@{k}": column for name, columns in values.items() for k, column in columns.items()}


def _omega(axis: _Axis) -> FloatColumn:
    starts, ends = axis.truth
    owner, chunk = overlaps((starts % axis.length, ends % axis.length), axis.held)
    held = union(*axis.of(starts[owner] // axis.length, chunk))  # text in several chunks counts once
    lengths, case, first = axis.hits(held)
    hit = axis.per_case(case, lengths * (first < len(held[0])))
    return hit / np.maximum(axis.per_case(held[0] // axis.length, held[1] - held[0]), 1)


class _Tokens(NamedTuple):
    """The tokens of the ranked chunks' documents, one document behind the other."""

    starts: IntArray
    ends: IntArray
    """Characters in the document."""
    first: IntArray
    """Per row of the ranking the first token of its chunk, and how many tokens it has."""
    cost: IntArray
    begin: IntArray
    """Per row the first character of its chunk in the document."""


def _tokens(dataset: Dataset, chunks: Sequence[Chunk], ranking: _Ranking, tokenizer: str) -> _Tokens:
    used = np.unique(ranking.chunk)
    by_document: dict[str, list[int]] = {}
    for i in used.tolist():
        by_document.setdefault(chunks[i].doc_id, []).append(i)
    for doc_id, own in by_document.items():
        if doc_id not in dataset.corpus:
            raise DataError(
                f"chunk {chunks[own[0]].chunk_id!r} is of document {doc_id!r}, which is not in the corpus of "
                f"{dataset.name!r}: chunks and dataset do not belong together"
            )
    offsets = token_offsets([dataset.corpus[doc_id].full_text for doc_id in by_document], tokenizer)
    first, cost = np.zeros(len(chunks), dtype=np.int64), np.zeros(len(chunks), dtype=np.int64)
    n_before = 0
    for own, tokens in zip(by_document.values(), offsets, strict=True):
        low, high = token_ranges(tokens, [chunks[i].start for i in own], [chunks[i].end for i in own])
        first[own], cost[own] = low + n_before, high - low
        n_before += len(tokens)
    joined = np.concatenate([np.empty((0, 2), dtype=np.int32), *offsets]).astype(np.int64)
    starts = np.fromiter((chunks[i].start for i in ranking.chunk.tolist()), np.int64, count=len(ranking.chunk))
    return _Tokens(joined[:, 0], joined[:, 1], first[ranking.chunk], cost[ranking.chunk], starts)


def _at_budgets(axis: _Axis, ranking: _Ranking, budgets: Sequence[int], tokens: _Tokens) -> npt.NDArray[np.float64]:
    """Recall per question and budget."""
    paid = np.cumsum(tokens.cost)
    before = paid - tokens.cost
    before = before - before[np.arange(len(before)) - ranking.rank]  # from the question's first chunk on
    starts, ends = axis.of(ranking.case, ranking.chunk)
    recalls = np.zeros((axis.n_cases, len(budgets)))
    for column, budget in enumerate(budgets):
        row = np.flatnonzero(before < budget)
        end = ends[row].copy()
        cut = np.flatnonzero(before[row] + tokens.cost[row] > budget)  # at most one chunk per question
        last = tokens.first[row[cut]] + budget - before[row[cut]] - 1
        # A character of several tokens (an emoji in bytes) that is not paid in full is not read.
        stop = np.minimum(tokens.ends[last], tokens.starts[last + 1])
        end[cut] = starts[row[cut]] + np.maximum(stop - tokens.begin[row[cut]], 0)
        lengths, case, holder = axis.hits((starts[row], end))
        recalls[:, column] = axis.per_case(case, lengths * (holder < len(row))) / axis.n_truth
    return recalls
