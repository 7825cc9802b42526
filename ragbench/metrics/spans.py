"""Score a chunk-level run by evidence spans (span_recall, span_precision, iou): at equal k, and at
an equal budget of context tokens.

The measures follow Smith & Troynikov 2024, "Evaluating Chunking Strategies for Retrieval" (Chroma
technical report). With T the characters of the evidence, each counted once, and R the characters of
the retrieved chunks, each counted as often as it was retrieved::

    recall           |T and R| / |T|    the fraction of the evidence that was found; each character counts once
    precision        |T and R| / |R|    the fraction of the retrieved text that is evidence
    iou              |T and R| / (|T| + |R| - |T and R|)
    precision_omega  |T and O| / |O|, with O the characters of all chunks that contain a character
    of the evidence,
                     each once: the precision of the chunking when all evidence is found

All are in [0, 1], higher is better. With the report's tokenizer and evidence, these formulas give
its published precision-omega for windows with and without overlap. Unlike in the reference code,
ranges that only touch do not intersect, and the retrieved list is not cut at the number of chunks
that hold evidence.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Floats, Ints
from ragbench.errors import ConfigError, DataError, unknown_chunk
from ragbench.groups import grouped
from ragbench.metrics.tidy import text_behind, tidy
from ragbench.metrics.trec import read_run
from ragbench.registry import BUDGETS, KS
from ragbench.text import token_offsets, token_ranges, trim
from ragbench.types import Case, Chunk, Dataset, Run, Span, chunk_places

Range = tuple[str, int, int]
"""A document, and the characters from a start to an end."""


class Tokens(NamedTuple):
    """The tokens of a chunk: the `offsets` of all tokens of its document (a row with start and end
    each), the position of the chunk's `first` token among them, and the number `n` of its tokens.
    """

    offsets: Any
    first: int
    n: int


Borders = Mapping[str, Ints]
"""Document -> the starts and the ends of ranges, in two rows."""


def score_spans(
    dataset: Dataset,
    run: Run,
    chunks: Sequence[Chunk],
    *,
    ks: Sequence[int] = KS,
    budgets: Sequence[int] = BUDGETS,
    tokenizer: str = "minilm",
) -> pd.DataFrame:
    """Score the evidence of each question that the run's chunks contain: columns query_id, measure,
    value.

    `run` holds chunk ids; chunks rank by score, chunks of equal score in the order of `chunks`. The
    measures, all in [0, 1] and over characters (formulas at the top of this module):

    - span_recall@k, span_precision@k, span_iou@k: of the first k chunks, or of all found chunks if
      there are fewer.
    - span_precision_omega: the precision of the chunking alone, independent of the run.
    - span_recall@{b}tok: recall when the ranking is read until b tokens are used up. The chunk that
      exceeds the budget is cut at the last token that fits. Text in two chunks uses the budget
      twice and counts once.
    - span_recall_auc: the area under recall against budget, divided by the largest budget; linear
      between the budgets (trapezoids), from recall 0 at budget 0.

    Tokens are counted in the whole document, also if a chunk contains only part of one, so the
    same text uses the same budget in all chunkings.

    Every question that has evidence is in the result, in the order of the dataset; one that is
    missing from the run, or whose evidence is in no chunk, has 0 everywhere (`split_evidence` lists
    the latter). Questions without evidence are left out.

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

    Raises:
        ConfigError: a depth or a budget is not a whole number from 1.
        DataError: evidence that is not a range of characters, a run of another dataset, or of
            chunks that are not among `chunks`.
    """
    ks = _whole_numbers("ks", ks)
    budgets = _whole_numbers("budgets", budgets)
    names = [f"span_{name}@{k}" for name in ("recall", "precision", "iou") for k in ks]
    names.append("span_precision_omega")
    names += [f"span_recall@{budget}tok" for budget in budgets]
    cases = [case for case in dataset.cases if case.evidence]
    if not cases:
        return tidy([], [], [])
    rankings = _rankings(dataset, cases, run, chunks)
    tokens = _tokens(dataset, rankings, tokenizer) if budgets else {}
    chunk_borders = _chunk_borders(chunks, cases)
    rows = []  # of each case, the values in the order of `names`
    for case, ranked in zip(cases, rankings, strict=True):
        truth = _evidence(case.evidence)
        n_truth = sum(total_length(*spans) for spans in truth.values())
        at_depths = _scores_at_depths(truth, n_truth, ranked, ks)
        omega = _precision_omega(truth, chunk_borders)
        recalls = []
        for budget in budgets:
            ranges = _ranges_in_budget(budget, ranked, tokens)
            recalls.append(_n_covered(truth, ranges) / n_truth)
        rows.append([*at_depths, omega, *recalls])
    table = np.array(rows).T  # measures x cases
    if budgets:
        areas = _area(budgets, table[-len(budgets) :])
        table = np.vstack([table, areas])
        names.append("span_recall_auc")
    return tidy([case.query_id for case in cases], names, table)


def _scores_at_depths(
    truth: Borders, n_truth: int, ranked: Sequence[Chunk], ks: Sequence[int]
) -> list[float]:
    """Return the recalls of one question at all depths, then the precisions, then the intersections
    over unions.

    Args:
        truth: doc_id -> the ranges of its evidence.
        n_truth: number of characters of evidence.
        ranked: the chunks, best first.
        ks: the depths: how many of the first chunks count.
    """
    hits = []  # characters of evidence in the chunks, per depth
    sizes = []  # characters of the chunks, per depth
    for k in ks:
        ranges = [_range(chunk) for chunk in ranked[:k]]
        hits.append(_n_covered(truth, ranges))
        sizes.append(sum(end - start for _, start, end in ranges))
    n_hit = np.array(hits, dtype=float)
    n_read = np.array(sizes)
    recalls = n_hit / n_truth
    precisions = n_hit / np.maximum(n_read, 1)
    ious = n_hit / (n_truth + n_read - n_hit)
    return [*recalls, *precisions, *ious]


def split_evidence(dataset: Dataset, chunks: Sequence[Chunk]) -> pd.DataFrame:
    """List the questions whose evidence this chunking has split or lost, independent of any run.

    Columns: query_id; spans, their number; split, the number of them that no single chunk contains
    whole. White space at the ends of a span does not count.

    >>> from ragbench.types import Document
    >>> case = Case("q", "Who?", evidence=(Span("d", 0, 3), Span("d", 4, 11)))
    >>> dataset = Dataset("demo", "test", {"d": Document("d", "One two three")}, [case], {})
    >>> split_evidence(dataset, [Chunk("d#0", "d", 0, 7, "One two")]).to_dict("records")
    [{'query_id': 'q', 'spans': 2, 'split': 1}]

    Raises:
        DataError: evidence that is not a range of characters, or in a document that the corpus
            lacks.
    """
    borders = _chunk_borders(chunks, dataset.cases)
    rows = []
    for case in dataset.cases:
        n_split = 0
        for span in case.evidence:
            doc_id, start, end = _trimmed(dataset, case, span)
            starts, ends = borders[doc_id]
            is_whole = ((starts <= start) & (ends >= end)).any()
            if not is_whole:
                n_split += 1
        if n_split:
            rows.append((case.query_id, len(case.evidence), n_split))
    return pd.DataFrame(rows, columns=["query_id", "spans", "split"])


def evidence_recall(chunks: Sequence[Chunk], evidence: Sequence[Span]) -> float:
    """Return the fraction of the evidence's characters that the chunks contain, in [0, 1], each
    counted once.

    >>> evidence_recall([Chunk("d#1", "d", 10, 30, "x" * 20)], [Span("d", 5, 15), Span("d", 8, 20)])
    0.6666666666666666
    """
    truth = _evidence(evidence)
    n_truth = sum(total_length(*spans) for spans in truth.values())
    return _n_covered(truth, map(_range, chunks)) / n_truth


def total_length(starts: Ints, ends: Ints) -> int:
    """Return the number of characters in these ranges, each counted once.

    >>> total_length(np.array([5, 0, 20]), np.array([8, 6, 21]))
    9
    """
    total = 0
    counted_to = 0  # no later range has a new character before this one
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):  # most are few
        total += max(0, end - max(start, counted_to))
        counted_to = max(counted_to, end)
    return total


def evidence_chunks(
    dataset: Dataset, chunks: Sequence[Chunk], fraction: float
) -> dict[str, dict[str, int]]:
    """Return query_id -> chunk_id -> 1 for the relevant chunks.

    A chunk is relevant if the text that it shares with an evidence span is at least `fraction` of the
    shorter of the two. Evidence in no chunk counts as a further relevant chunk, with an id that no
    ranking has, so that it is missed in every ranking.
    """
    borders = _chunk_borders(chunks, dataset.cases)
    by_document = grouped(chunks, lambda chunk: chunk.doc_id)
    relevant: dict[str, dict[str, int]] = {}
    n_spans = 0
    for case in dataset.cases:
        grades = relevant.setdefault(case.query_id, {})
        for span in case.evidence:
            check_span(span)
            # one entry per chunk of the document
            starts, ends = borders[span.doc_id]
            n_shared = np.minimum(ends, span.end) - np.maximum(starts, span.start)
            n_shorter = np.minimum(ends - starts, span.end - span.start)
            is_relevant = n_shared >= np.maximum(fraction * n_shorter, 1)  # at least 1 character
            for position in np.flatnonzero(is_relevant).tolist():
                grades[by_document[span.doc_id][position].chunk_id] = 1
            if not is_relevant.any():
                grades[f"evidence {n_spans} that no chunk holds"] = 1
            n_spans += 1
    return relevant


def check_span(span: Span) -> None:
    """Raise DataError for a span that is empty, negative or ends before it begins.

    >>> check_span(Span("d", 3, 3))
    Traceback (most recent call last):
    ragbench.errors.DataError: evidence d[3:3] is not a range of characters: expected 0 <= start < end
    """
    if not 0 <= span.start < span.end:
        raise DataError(
            f"evidence {span.doc_id}[{span.start}:{span.end}] is not a range of characters: "
            "expected 0 <= start < end"
        )


def _whole_numbers(what: str, values: Sequence[int]) -> list[int]:
    """Return the values as int, each once, in their order; refuse other than whole numbers from 1."""
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ConfigError(f"{what} must be whole numbers of at least 1, not {value!r}")
    return list(dict.fromkeys(index(value) for value in values))


def _trimmed(dataset: Dataset, case: Case, span: Span) -> Range:
    """Return a span of evidence without white space at its ends.

    Raises:
        DataError: it is not a range of characters, or its document is not in the corpus.
    """
    check_span(span)
    if span.doc_id not in dataset.corpus:
        raise DataError(
            f"query {case.query_id!r} has evidence in document {span.doc_id!r}, which is not in "
            f"the corpus of {dataset.name!r}; offsets of evidence need the document they point into"
        )
    return span.doc_id, *trim(dataset.corpus[span.doc_id].full_text, span.start, span.end)


def _evidence(spans: Sequence[Span]) -> Borders:
    """Return the borders of spans by document; DataError for one that is no range of characters."""
    for span in spans:
        check_span(span)
    ranges = [(span.doc_id, span.start, span.end) for span in spans]
    return _borders(ranges, [span.doc_id for span in spans])


def _range(chunk: Chunk) -> Range:
    return chunk.doc_id, chunk.start, chunk.end


def _borders(ranges: Iterable[Range], doc_ids: Iterable[str]) -> Borders:
    """Return doc_id -> the borders of its ranges: an array of two rows, the starts and the ends. Ranges
    in other documents are left out.
    """
    pairs_of: dict[str, list[tuple[int, int]]] = {doc_id: [] for doc_id in doc_ids}
    for doc_id, start, end in ranges:
        if doc_id in pairs_of:
            pairs_of[doc_id].append((start, end))
    borders = {}
    for doc_id, pairs in pairs_of.items():
        # without ranges, too, the array has two rows
        borders[doc_id] = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return borders


def _chunk_borders(chunks: Iterable[Chunk], cases: Iterable[Case]) -> Borders:
    """Return the borders of the chunks in the documents that hold evidence."""
    return _borders(map(_range, chunks), {span.doc_id for case in cases for span in case.evidence})


def _n_shared(spans: Ints, ranges: Ints) -> int:
    """Return the number of characters in both: the lengths of both, less the length of their union."""
    if not ranges.size:  # as of a document of which nothing was retrieved
        return 0
    either = np.hstack([spans, ranges])
    return total_length(*spans) + total_length(*ranges) - total_length(*either)


def _n_covered(truth: Borders, ranges: Iterable[Range]) -> int:
    """Return the number of characters of the evidence in these ranges."""
    borders = _borders(ranges, truth)
    return sum(_n_shared(spans, borders[doc_id]) for doc_id, spans in truth.items())


def _precision_omega(truth: Borders, chunk_borders: Borders) -> float:
    """Return the precision of the best possible search, which finds exactly the chunks with a character
    of the evidence: the fraction of their text that is evidence. 0 if there is no such chunk.

    Both arguments are doc_id -> an array of two rows, the starts and the ends of ranges: `truth` of
    the evidence, `chunk_borders` of the chunks.
    """
    n_hits = n_read = 0
    for doc_id, spans in truth.items():
        chunks = chunk_borders[doc_id]
        chunk_starts, chunk_ends = chunks
        span_starts, span_ends = spans
        # (chunks, spans)
        overlaps = (chunk_starts[:, None] < span_ends) & (chunk_ends[:, None] > span_starts)
        read = chunks[:, overlaps.any(axis=1)]
        n_hits += _n_shared(spans, read)
        n_read += total_length(*read)  # text in several chunks counts once
    return n_hits / max(n_read, 1)


def _rankings(
    dataset: Dataset, cases: Sequence[Case], run: Run, chunks: Sequence[Chunk]
) -> list[list[Chunk]]:
    """Return the ranked chunks of each case, best first; [] for a case that the run lacks.

    Raises:
        DataError: the run is of another dataset, or has a chunk that is not among `chunks`.
    """
    run = read_run(run)
    if run and not any(query_id in run for query_id in dataset.queries):
        raise DataError(
            f"none of the run's {len(run):,} queries (the first is {next(iter(run))!r}) is a "
            f"question of {dataset.name!r}: the run belongs to another dataset"
        )
    place_of = chunk_places(chunks)
    rankings = []
    for case in cases:
        scores = run.get(case.query_id, {})
        for chunk_id in scores:
            if chunk_id not in place_of:
                raise DataError(unknown_chunk(chunk_id, case.query_id, len(chunks)))
        # negative scores sort the best first, places break ties
        best_first = sorted((-score, place_of[chunk_id]) for chunk_id, score in scores.items())
        rankings.append([chunks[place] for _, place in best_first])
    return rankings


def _tokens(
    dataset: Dataset, rankings: Iterable[Sequence[Chunk]], tokenizer: str
) -> dict[str, Tokens]:
    """Return chunk_id -> its tokens, for the chunks in the rankings. Each document is cut into tokens
    once, as a whole.
    """
    chunks = {chunk.chunk_id: chunk for ranked in rankings for chunk in ranked}
    by_document = grouped(chunks.values(), lambda chunk: chunk.doc_id).values()
    tokens: dict[str, Tokens] = {}
    texts = [text_behind(dataset, pieces[0]) for pieces in by_document]
    for offsets, pieces in zip(token_offsets(texts, tokenizer), by_document, strict=True):
        starts = [piece.start for piece in pieces]
        ends = [piece.end for piece in pieces]
        # of each chunk the first token, and the one after the last
        firsts, lasts = token_ranges(offsets, starts, ends)
        for piece, first, last in zip(pieces, firsts.tolist(), lasts.tolist(), strict=True):
            tokens[piece.chunk_id] = Tokens(offsets, first, last - first)
    return tokens


def _ranges_in_budget(
    budget: int, ranked: Sequence[Chunk], tokens: Mapping[str, Tokens]
) -> list[Range]:
    """Return the ranges of text that are read if a ranking is read until `budget` tokens are used up. The
    last range ends at the last token that fits.

    Args:
        ranked: the chunks, best first.
        tokens: chunk_id -> its tokens.
    """
    ranges = []
    n_left = budget
    for chunk in ranked:
        if n_left <= 0:
            break
        chunk_tokens = tokens[chunk.chunk_id]
        end = chunk.end if chunk_tokens.n <= n_left else _end_of_tokens(chunk, chunk_tokens, n_left)
        ranges.append((chunk.doc_id, chunk.start, end))
        n_left -= chunk_tokens.n
    return ranges


def _end_of_tokens(chunk: Chunk, tokens: Tokens, n: int) -> int:
    """Return the position in the document at which the text of a chunk's first `n` tokens ends; the chunk
    has more than n.

    Several tokens may share one character, such as an emoji in bytes. It is only a part of the text if all
    of its tokens are among the n: else the text ends where this character begins.
    """
    end_of_last = tokens.offsets[tokens.first + n - 1, 1]
    start_of_next = tokens.offsets[tokens.first + n, 0]
    end = min(end_of_last, start_of_next)
    return max(chunk.start, int(end))  # the first token may begin before the chunk


def _area(budgets: Sequence[int], recalls: Floats) -> Floats:
    """Return the mean recall over all budgets up to the largest (trapezoids, from recall 0 at budget
    0), one value per question; `recalls` has the shape (budgets, questions).
    """
    order = np.argsort(budgets)
    x = np.r_[0, np.asarray(budgets)[order]]
    y = np.vstack([np.zeros(recalls.shape[1]), recalls[order]])
    heights = (y[1:] + y[:-1]) / 2
    widths = np.diff(x)[:, None]
    mean_recalls: Floats = (heights * widths).sum(axis=0) / x[-1]
    return mean_recalls
