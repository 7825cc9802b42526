"""The measures of `metrics.retrieval` computed from columns, for runs in tables.

Converting a table of half a million rows to nested dictionaries costs more than scoring it. Here ids become numbers,
and only the *ranks* of the relevant documents are computed. The values are those of `metrics.retrieval.evaluate`, to
the last bit where sums have the same order; tests compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import DataError
from ragbench.metrics.retrieval import RankingMeasure

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Columns(NamedTuple):
    """Rows of qrels (`value` is the grade) or of a run (`value` is the score)."""

    query_id: pd.Series[str]
    doc_id: pd.Series[str]
    value: npt.NDArray[np.int64] | npt.NDArray[np.float64]


class Hits(NamedTuple):
    """The relevant documents that were retrieved, ordered by query, then rank (from 0)."""

    query: Ints
    rank: Ints
    grade: Ints


def evaluate_columns(
    query_ids: Sequence[str], qrels: Columns, run: Columns, measures: Sequence[RankingMeasure]
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Values in [0, 1], shape (measures, queries), and the run's query ids.

    `query_ids` are the judged queries in the wanted order; one without rows in `qrels` is unscored.

    Raises:
        DataError: a (query, document) pair is repeated in `qrels` or in `run`.
    """
    n = len(query_ids)
    (judged_query, run_query), queries = _codes(qrels.query_id, run.query_id, first=query_ids)
    (judged_doc, run_doc), documents = _codes(qrels.doc_id, run.doc_id)
    judged_key, run_key = judged_query * len(documents) + judged_doc, run_query * len(documents) + run_doc
    refuse_duplicates(qrels, "qrels", judged_key)
    refuse_duplicates(run, "run", run_key)
    grades = np.maximum(qrels.value.astype(np.int64), 0)
    relevant = grades > 0
    # few documents are relevant to anything: look up the pairs of those only
    wanted = np.zeros(len(documents), dtype=bool)
    wanted[judged_doc[relevant]] = True
    row = np.flatnonzero(wanted[run_doc])
    match = pd.Index(judged_key[relevant]).get_indexer(pd.Index(run_key[row]))
    row, match = row[match >= 0], match[match >= 0]
    rank = _ranks(_place(run_query, run.value.astype(np.float64, copy=False)), run_doc, documents, row)
    order = np.lexsort((rank, run_query[row]))
    hits = Hits(run_query[row][order], rank[order], grades[relevant][match][order])
    best = np.lexsort((-grades[relevant], judged_query[relevant]))  # the best possible ranking: by grade
    best_query = judged_query[relevant][best]
    best_rank = np.arange(len(best)) - np.searchsorted(best_query, best_query, "left")
    ideal = Hits(best_query, best_rank, grades[relevant][best])
    n_relevant = np.bincount(judged_query[relevant], minlength=n).astype(np.float64)
    table = np.empty((len(measures), n))
    for position, measure in enumerate(measures):
        table[position] = _values(measure, hits, ideal, n_relevant)
    table[:, np.bincount(judged_query, minlength=n) == 0] = np.nan
    return table, queries.take(np.flatnonzero(np.bincount(run_query))).tolist()


def _codes(
    judged: pd.Series[str], found: pd.Series[str], first: Sequence[str] = ()
) -> tuple[tuple[Ints, Ints], pd.Index[str]]:
    """Numbers for the ids of qrels and run, from 0 as they come, those in `first` before all; and the ids."""
    ids = [pd.Series(first, dtype=judged.dtype)] if len(first) else []
    codes, unique = pd.factorize(pd.concat([*ids, judged, found], ignore_index=True))
    codes = codes.astype(np.int64, copy=False)[len(first) :]
    return (codes[: len(judged)], codes[len(judged) :]), pd.Index(unique)


def refuse_duplicates(columns: Columns, what: str, key: Ints | None = None) -> None:
    """A DataError that names the first repeated (query, document) pair of `columns`.

    `key` is a number per pair, where there is one already.
    """
    if key is None:
        queries, _ = pd.factorize(columns.query_id)
        documents, names = pd.factorize(columns.doc_id)
        key = queries.astype(np.int64) * len(names) + documents
    ordered = np.sort(key, kind="stable")  # faster than hashing; most runs are sorted almost, and timsort uses that
    if np.any(ordered[1:] == ordered[:-1]):
        row = int(np.flatnonzero(pd.Index(key).duplicated())[0])
        raise DataError(
            f"{what}: document {columns.doc_id.iloc[row]!r} is repeated for query {columns.query_id.iloc[row]!r} "
            f"(row {row}); keep one row per query and document, e.g. frame.drop_duplicates(['query_id', 'doc_id'])"
        )


def _place(query: Ints, score: Floats) -> Ints:
    """One number per row that sorts by query, then by score in single precision, best first."""
    with np.errstate(over="ignore"):  # values beyond single precision are equal there, as in trec_eval
        single = score.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0
    bits = single.view(np.int32)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # IEEE 754: the bits of negative numbers are in reverse order
    return (query << 32) + (0x7FFFFFFF - rising.astype(np.int64))


def _ranks(place: Ints, document: Ints, documents: pd.Index[str], row: Ints) -> Ints:
    """The rank of these rows among all rows of their query, from 0."""
    ordered = np.sort(place, kind="stable")
    first = np.searchsorted(ordered, place[row], "left")
    size = np.searchsorted(ordered, place[row], "right") - first
    rank = first - np.searchsorted(ordered, (place[row] >> 32) << 32, "left")
    if np.any(size > 1):
        starts, which = np.unique(first[size > 1], return_index=True)
        rank[size > 1] += _behind_in_ties(place, document, documents, starts, size[size > 1][which])[row[size > 1]]
    return rank


def _behind_in_ties(place: Ints, document: Ints, documents: pd.Index[str], starts: Ints, sizes: Ints) -> Ints:
    """For the rows of these groups of equal query and score: how many come before, by id descending; else 0."""
    ends = np.cumsum(sizes)
    group = np.repeat(np.arange(len(starts)), sizes)
    members = np.argsort(place, kind="stable")[np.arange(ends[-1]) - (ends - sizes)[group] + starts[group]]
    tied = np.unique(document[members])
    by_id = np.empty(len(documents), dtype=np.int64)
    by_id[tied[documents[tied].argsort()]] = np.arange(len(tied))  # code points order as trec_eval's bytes do
    members = members[np.lexsort((-by_id[document[members]], group))]
    behind = np.zeros(len(place), dtype=np.int64)
    behind[members] = np.arange(ends[-1]) - (ends - sizes)[group]
    return behind


def _values(measure: RankingMeasure, hits: Hits, ideal: Hits, n_relevant: Floats) -> Floats:
    name, k = measure.name, measure.cutoff
    n = len(n_relevant)
    seen, ideal = (part if k is None else Hits(*(column[part.rank < k] for column in part)) for part in (hits, ideal))
    if name == "nDCG":
        return _divide(_dcg(seen, n), _dcg(ideal, n))
    found = np.bincount(seen.query, minlength=n).astype(np.float64)
    if name == "P":
        return found / (k or 1)
    if name == "R":
        return _divide(found, n_relevant)
    if name == "F1":
        precision, recall = found / (k or 1), _divide(found, n_relevant)
        return _divide(2 * precision * recall, precision + recall)
    if name == "Success":
        return np.minimum(found, 1.0)
    position = np.arange(len(seen.query)) - np.searchsorted(seen.query, seen.query, "left")
    if name == "RR":
        lead = position == 0
        values = np.zeros(n)
        values[seen.query[lead]] = 1 / (seen.rank[lead] + 1)
        return values
    return _divide(_sums(seen.query, (position + 1) / (seen.rank + 1), n), n_relevant)


def _dcg(hits: Hits, n: int) -> Floats:
    # the C library's log2, as in trec_eval: numpy's may differ in the last bit
    discount = np.array([math.log2(rank + 2) for rank in range(int(hits.rank.max(initial=-1)) + 1)])
    return _sums(hits.query, hits.grade / discount[hits.rank], n)


def _sums(query: Ints, weights: Floats, n: int) -> Floats:
    return np.bincount(query, weights, minlength=n).astype(np.float64, copy=False)  # it counts in ints if empty


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
