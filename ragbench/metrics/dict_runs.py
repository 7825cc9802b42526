"""The ranks of judged documents straight from dicts of judgements and scores, for speed; the same
order and digits as in `ranking_measures`.

A frame of a run costs more time than its measures. Here the ids are not copied: each row of the run
looks up its grade in the dict of its query, and only scores and grades become arrays. Runs that
need a check, a warning or an error are scored as frames (`ragbench.metrics.trec`), with the same
digits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from ragbench.array_types import Floats, Ints
from ragbench.metrics.trec import MAX_GRADE

_UNJUDGED = -MAX_GRADE - 1  # lower than any grade
_NUMBERS = {float, int, np.float64, np.float32}


class JudgedRanks(NamedTuple):
    """What measures read of a run and its judgements; queries are numbers from 0.

    `judged_query` and `judged_grade` have an entry per judgement. `query`, `rank` (from 0) and
    `grade` have an entry per judged document that the run holds, by query, then by rank.
    `ranking_sizes` has the length of each query's ranking.
    """

    judged_query: Ints
    judged_grade: Ints
    query: Ints
    rank: Ints
    grade: Ints
    ranking_sizes: Ints


def ranks_of_dicts(qrels: Any, run: Any) -> JudgedRanks | None:
    """Return the ranks of the judged documents, fast; None for input that only the slower way by data
    frames can check or score.

    The fast way takes dicts of dicts only (query_id -> doc_id -> grade or score), with ASCII text as
    ids, whole numbers as grades and finite numbers as scores. It refuses judgements that look like
    scores, as the slower way reports them.

    >>> qrels = {"q": {"a": 1, "b": 2, "c": 1}}
    >>> ranks = ranks_of_dicts(qrels, {"q": {"x": 3.0, "b": 2.0, "a": 1.0}})
    >>> ranks.rank.tolist(), ranks.grade.tolist(), ranks.ranking_sizes.tolist()
    ([1, 2], [2, 1], [3])
    """
    if not (_has_plain_ids(qrels) and _has_plain_ids(run)):
        return None
    judged_grade = _grades(qrels)
    scores = _scores(run)
    if judged_grade is None or scores is None or _look_like_scores(qrels):
        return None
    numbers = np.arange(len(qrels))  # of the queries
    judged_query = np.repeat(numbers, _lengths(qrels, qrels))

    # arrays with an entry per row of the run whose query is judged, by the order of the qrels
    sizes = _lengths(run, qrels)
    query = np.repeat(numbers, sizes)
    has_other_queries = len(query) < len(scores)
    is_in_other_order = list(run) != [query_id for query_id in qrels if query_id in run]
    if has_other_queries or is_in_other_order:
        # the scores are in the order of the run: read them in the order of the judged queries
        scores = _scores({query_id: run.get(query_id, {}) for query_id in qrels})
        assert scores is not None  # they were finite numbers above
    rank = _ranks(query, single_precision(scores), qrels, run)
    grade = _grades_of_rows(qrels, run, len(query))
    judged_rows = np.flatnonzero(grade != _UNJUDGED)
    by_query_and_rank = np.lexsort((rank[judged_rows], query[judged_rows]))
    rows = judged_rows[by_query_and_rank]
    return JudgedRanks(judged_query, judged_grade, query[rows], rank[rows], grade[rows], sizes)


def _grades_of_rows(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]], n_rows: int
) -> Ints:
    """Return the grade of each document that the run ranks for a judged query, in the order of the
    qrels, then of the run; `_UNJUDGED` for a document without a grade.
    """
    grades = []  # an iterator per query
    for query_id, grade_of in qrels.items():
        grades.append(map(grade_of.get, run.get(query_id, ()), repeat(_UNJUDGED)))
    return np.fromiter(chain.from_iterable(grades), np.int64, n_rows)


def single_precision(scores: Floats) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return scores as trec_eval compares them: values beyond single precision are equal there."""
    with np.errstate(over="ignore"):
        return scores.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0


def falling(single: np.ndarray[Any, np.dtype[np.float32]]) -> Ints:
    """Return a whole number for each score, the smaller the larger the score is: sorted by it, the
    highest score is first. Equal scores have equal numbers.
    """
    bits = single.view(np.int32)
    # IEEE 754: the bits of negative numbers are in reverse order
    return -(bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)


def _has_plain_ids(nested: Any) -> bool:
    """Return True for a dict of dicts, not empty, whose query ids are text and whose document ids are
    all ASCII text.
    """
    if not isinstance(nested, dict) or not nested:
        return False
    if set(map(type, nested.values())) != {dict} or set(map(type, nested)) != {str}:
        return False
    if not set(map(type, chain.from_iterable(nested.values()))) <= {str}:
        return False
    return all(map(str.isascii, chain.from_iterable(nested.values())))


def _values(nested: Mapping[str, Mapping[str, Any]]) -> chain[Any]:
    """Return the grades or scores of all queries, one after the other."""
    return chain.from_iterable(row.values() for row in nested.values())


def _grades(qrels: Mapping[str, Mapping[str, Any]]) -> Ints | None:
    """Return all grades in their order; None where one is not an `int` up to MAX_GRADE."""
    if set(map(type, _values(qrels))) != {int}:
        return None
    try:
        grades = np.fromiter(_values(qrels), np.int64)
    except OverflowError:
        return None
    return grades if np.abs(grades).max() <= MAX_GRADE else None


def _scores(run: Mapping[str, Mapping[str, Any]]) -> Floats | None:
    """Return all scores in their order; None where one is not a finite number."""
    if not set(map(type, _values(run))) <= _NUMBERS:
        return None
    try:
        scores = np.fromiter(_values(run), np.float64)
    except OverflowError:
        return None
    return scores if np.isfinite(scores).all() else None


def _look_like_scores(qrels: Mapping[str, Mapping[str, int]]) -> bool:
    """Return True where several documents of a query are judged, and no two of them have the same
    grade, as in a run.
    """
    if max(map(len, qrels.values())) == 1:
        return False
    return all(len(set(row.values())) == len(row) for row in qrels.values())


def _lengths(nested: Mapping[str, Mapping[str, Any]], query_ids: Collection[str]) -> Ints:
    """Return the number of documents of each of these queries; 0 for one that is not there."""
    lengths = (len(nested.get(query_id, ())) for query_id in query_ids)
    return np.fromiter(lengths, np.int64, len(query_ids))


def _ranks(
    query: Ints,
    single: np.ndarray[Any, np.dtype[np.float32]],
    qrels: Mapping[str, Mapping[str, int]],
    run: Mapping[str, Mapping[str, float]],
) -> Ints:
    """Return the rank of each row of the run among the rows of its query, from 0: the highest score is
    first, and of equal scores the id that sorts last, as in trec_eval.

    Args:
        query: the number of the query of each row, in ascending order.
        single: the score of each row, in single precision.
        qrels: its keys are the queries in the order of their numbers.
        run: query_id -> doc_id -> score, for the ids of rows with equal scores.
    """
    # by query, then by falling score; one number sorts faster than two keys
    key = (query << 32) + falling(single)
    order = np.argsort(key, kind="stable")
    sizes = np.bincount(query, minlength=len(qrels))
    first_rows = np.cumsum(sizes) - sizes  # of each query
    # the rows are in the order of the queries, and sorting keeps them within their query: so
    # `query[i]` is also the query of the row at position i of the sorted rows
    ranks = np.empty(len(query), dtype=np.int64)
    ranks[order] = np.arange(len(query)) - first_rows[query]
    # queries with equal scores, which are few, are ranked again with the ids
    ordered = key[order]
    is_tied = ordered[1:] == ordered[:-1]  # True for a sorted row that equals the one before it
    query_ids = list(qrels)
    for number in np.unique(query[1:][is_tied]).tolist():
        start, size = int(first_rows[number]), int(sizes[number])
        doc_ids = list(run[query_ids[number]])
        scores = single[start : start + size].tolist()
        best_first = sorted(range(size), key=lambda row: (scores[row], doc_ids[row]), reverse=True)
        ranks[start + np.array(best_first)] = np.arange(size)
    return ranks
