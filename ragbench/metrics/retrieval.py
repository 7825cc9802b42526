"""Measures of a ranking: nDCG, P, R, F1, RR, AP, Success, SetP, SetR, SetF, RBP and Judged, as
trec_eval has them.

Measures are named as in ir_measures: a name, and the depth after an @ ("nDCG@10", "R@5", "RR");
"P(rel=2)@5" counts documents of grade 2 or more as relevant. All are in [0, 1], higher is better.
The rules are those of trec_eval:

- a document is relevant if its grade is 1 or more (or `rel`); nDCG takes the grade itself as gain,
  discounted by log2(rank + 1);
- a ranking is ordered by score in single precision, equal scores by document id, descending;
- every judged query counts: one that is missing from the run scores 0, an unjudged query is left
  out;
- a query whose grades are all below 1 scores 0. A query with *no* judgements at all (an
  unanswerable question) is unscored: NaN, counted by `summarise` and left out of its mean.

Ids become numbers, and only the ranks of the judged documents are computed. Sums add up in the
order of the ranks, as those of trec_eval, so that the values are equal to its own to the last
digit; tests compare the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.array_types import Bools, Floats, Ints
from ragbench.registry import KS, is_ranking_measure, measure_of
from ragbench.types import Qrels, Run

FAMILIES = ("nDCG", "P", "R", "F1", "RR", "AP", "Success")
"""The measures that are reported at several depths."""

DEFAULT_MEASURES: tuple[str, ...] = (*(f"{name}@{k}" for name in FAMILIES for k in KS), "RR", "AP")

_OPTIONS = {
    "SetF": ("rel", "beta"),
    "RBP": ("rel", "p"),
    "nDCG": (),
    "Judged": (),
}  # of the others: rel
_DEFAULTS = {"beta": 1.0, "p": 0.8}
_FORM = re.compile(r"(\w+)(?:\((.*)\))?(?:@(\d+))?")

MAX_GRADE = 1_000_000  # trec_eval keeps an array as long as the highest grade, for each query


NAMES: dict[type, tuple[str, str]] = {int: ("qrels", "relevance"), float: ("run", "score")}
"""Of judgements and of runs, by the type of their numbers: what errors call them, and the name of
the column.
"""


class RankingMeasure(NamedTuple):
    """A measure and its depth; `cutoff` None means the whole ranking.

    Documents of the grade `rel` or more are relevant; `option` is the persistence p of RBP, or beta
    of SetF.
    """

    name: str
    cutoff: int | None
    rel: int = 1
    option: float = 0.0

    def __str__(self) -> str:
        names = [f"rel={self.rel}"] if self.rel != 1 else []
        names += [
            f"{key}={self.option:g}"
            for key in _OPTIONS.get(self.name, ())[1:]
            if self.option != _DEFAULTS[key]
        ]
        options = f"({','.join(names)})" if names else ""
        return (
            f"{self.name}{options}"
            if self.cutoff is None
            else f"{self.name}{options}@{self.cutoff}"
        )


def parse_measure(text: str) -> RankingMeasure:
    """Return the measure of a name, in any case, or of a well-known alias (`ALIASES`).

    >>> parse_measure("nDCG@10").cutoff
    10
    >>> str(parse_measure("Hit Rate@5")), str(parse_measure("P(rel=2)@5")), str(parse_measure("RBP(rel=1, p=0.5)"))
    ('Success@5', 'P(rel=2)@5', 'RBP(p=0.5)')

    Raises:
        ConfigError: unknown name, a depth that is not a positive whole number, or a depth missing
        where one is needed.
    """
    match = _FORM.fullmatch(measure_of(text).name)
    if match is None or not is_ranking_measure(match[0]):
        raise ConfigError(
            f"{text!r} is not a measure of a ranking of documents; expected a name such as "
            "'nDCG@10'"
        )
    name, options, depth = match.groups()
    keys = _OPTIONS.get(name, ("rel",))
    values = {key: _DEFAULTS.get(key, 1.0) for key in keys}
    for option in options.split(",") if options else ():
        key, _, value = option.partition("=")
        try:
            values[key] = int(value) if key == "rel" else float(value)
        except ValueError:
            values[key] = 0
        if key not in keys or values[key] <= 0 or (key == "p" and values[key] >= 1):
            takes = (
                ", ".join(f"{key}={'2' if key == 'rel' else '0.5'}" for key in keys) or "nothing"
            )
            raise ConfigError(
                f"measure {text!r}: in parentheses {name} takes {takes}, as in 'P(rel=2)@5'"
            )
    return RankingMeasure(
        name, int(depth) if depth else None, int(values.pop("rel", 1)), *values.values()
    )


def parse_measures(texts: Sequence[str]) -> list[RankingMeasure]:
    """Return `parse_measure` of each, in order; duplicates ("RR", "MRR") are kept once.

    >>> [str(measure) for measure in parse_measures(["RR", "P@1", "MRR"])]
    ['RR', 'P@1']
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ConfigError(f"measures is a list of names such as ['nDCG@10', 'RR'], not {texts!r}")
    measures = list(dict.fromkeys(parse_measure(text) for text in texts))
    if not measures:
        raise ConfigError("measures is empty: name at least one, such as 'nDCG@10'")
    return measures


def evaluate(
    qrels: Qrels, run: Run, measures: Sequence[str] = DEFAULT_MEASURES
) -> dict[str, dict[str, float]]:
    """Return measure -> query_id -> value in [0, 1], for every judged query, in the order of
    `qrels`.

    nDCG is that of Jarvelin & Kekalainen (2002), with linear gain; AP that of trec_eval (`map`,
    `map_cut`), divided by the number of *all* relevant documents; RR@k is RR where the first
    relevant document is among the first k, else 0; Success@k is 1 if any of the first k is
    relevant; F1@k = 2PR / (P + R) of P@k and R@k, 0 where both are 0. SetP and SetR are precision
    and recall of all that was retrieved, SetF is (1 + beta) P R / (beta P + R) of them (beta = 1),
    as trec_eval has it. RBP is the sum of (1 - p) p^(rank - 1) over the relevant documents (Moffat
    & Zobel 2008; p = 0.8, relevance is binary). Judged@k is the fraction of the first k that has a
    judgement. Rankings shorter than k are not padded: P@k divides by k all the same, but Judged@k
    by their length. Pandas is not loaded.

    >>> scores = evaluate({"q1": {"a": 1, "b": 1}, "q2": {"c": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "R@2", "RR"])
    >>> scores["P@2"], scores["RR"]
    ({'q1': 0.5, 'q2': 0.0}, {'q1': 0.5, 'q2': 0.0})

    Raises:
        ConfigError: a measure is not known. DataError: ids that are not text, scores that are not
        finite numbers, grades that are not whole numbers.
    """
    parsed = parse_measures(measures)
    data = judged_run(qrels, run)
    table = value_table(data, parsed).tolist()
    return {
        str(m): dict(zip(data.query_ids, row, strict=True))
        for m, row in zip(parsed, table, strict=True)
    }


def ranking(scores: Mapping[str, float]) -> list[str]:
    """Return the ids of one query's documents in trec_eval's order, best first.

    By score in single precision; of equal scores the id that sorts last comes first.

    >>> ranking({"a": 1.0, "c": 2.0, "b": 1.0})
    ['c', 'b', 'a']
    """
    single = _single(np.array([*scores.values()], dtype=np.float64)).tolist()
    return [doc_id for _, doc_id in sorted(zip(single, scores, strict=True), reverse=True)]


class Pairs(NamedTuple):
    """Rows of judgements (`value` is the grade) or of a run (`value` is the score), with a number
    for each id.
    """

    query: Ints
    document: Ints
    value: npt.NDArray[Any]


class JudgedRun(NamedTuple):
    """A run and its judgements. Query i is `query_ids[i]`; unjudged queries of the run have higher
    numbers.

    `documents` is an array of ids, or an Index of pandas.
    """

    query_ids: list[str]
    documents: Any
    qrels: Pairs
    run: Pairs


def judged_run(qrels: Qrels, run: Run) -> JudgedRun:
    """Number the ids of nested dictionaries, once they are checked.

    >>> judged_run({"q": {"a": 1, "z": 1}}, {"q": {"b": 2.0, "a": 1.0}}).qrels.document.tolist()
    [1, 2]
    """
    judged = checked_records(qrels, int)
    if not judged:
        raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
    scores = checked_run(run)
    ranked = [scores.get(query_id, {}) for query_id in judged]
    documents = [
        *chain.from_iterable(ranked),
        "",
    ]  # one for each rank of each query, and one for what was not found
    numbers: list[int] = []
    start = 0
    for row, grades in zip(ranked, judged.values(), strict=True):
        number = dict(zip(row, range(start, start + len(row)), strict=True))
        numbers += [number.get(doc_id, len(documents) - 1) for doc_id in grades]
        start += len(row)
    query = np.arange(len(judged))
    values = (
        np.array([*chain.from_iterable(row.values() for row in rows)])
        for rows in (judged.values(), ranked)
    )
    grade, score = (
        column.astype(kind) for column, kind in zip(values, (np.int64, np.float64), strict=True)
    )
    qrels_pairs = Pairs(
        np.repeat(query, [*map(len, judged.values())]), np.array(numbers, dtype=np.int64), grade
    )
    run_pairs = Pairs(np.repeat(query, [*map(len, ranked)]), np.arange(start), score)
    return JudgedRun([*judged], np.array(documents, dtype=object), qrels_pairs, run_pairs)


def checked_run(run: Run) -> Run:
    """Return the run with plain floats, or raise a DataError that names the query and the document."""
    return checked_records(run, float)


def checked_records(records: Any, kind: type) -> dict[str, dict[str, Any]]:
    """Return judgements (`kind` int) or a run (float) with plain numbers, or raise a DataError that
    names the entry.
    """
    what, value = NAMES[kind]
    if not isinstance(records, Mapping):
        raise DataError(
            f"{what} must be {{query_id: {{doc_id: {value}}}}} or a DataFrame, "
            f"not {type(records).__name__}"
        )
    checked = {}
    for query_id, row in records.items():
        if not isinstance(query_id, str):
            raise DataError(
                f"{what}: query id {query_id!r} is {type(query_id).__name__}; ids are text: use "
                "str(query_id)"
            )
        if not isinstance(row, Mapping):
            raise DataError(
                f"{what}: query {query_id!r} holds {type(row).__name__}, expected "
                f"{{doc_id: {value}}}"
            )
        if (
            wrong := []
            if set(map(type, row)) <= {str}
            else [d for d in row if not isinstance(d, str)]
        ):
            raise DataError(
                f"{what}: document id {wrong[0]!r} of query {query_id!r} "
                f"is {type(wrong[0]).__name__}; ids are text: use str(doc_id)"
            )
        numbers = row.values()
        # a sum is finite only if each part is; where it overflows, each value is checked
        if set(map(type, numbers)) <= {kind} and (
            math.isfinite(sum(numbers))
            if kind is float
            else max(map(abs, numbers), default=0) <= MAX_GRADE
        ):
            checked[query_id] = dict(row)
        else:
            checked[query_id] = {
                doc_id: checked_number(v, kind, query_id, doc_id) for doc_id, v in row.items()
            }
    return checked


def checked_number(number: Any, kind: type, query_id: str, doc_id: str, row: str = "") -> Any:
    """Return a plain grade (`kind` int) or score (float), or raise a DataError that names the
    entry.
    """
    try:
        plain = kind(number) if isinstance(number, Integral if kind is int else Real) else math.nan
    except OverflowError:
        plain = math.inf
    if math.isfinite(plain) if kind is float else abs(plain) <= MAX_GRADE:
        return plain
    what, value = NAMES[kind]
    whole = f"whole number up to {MAX_GRADE:,}" if kind is int else "finite number"
    raise DataError(
        f"{what}: {value} {number!r} of document {doc_id!r} for query {query_id!r}{row} is not "
        f"a {whole}; convert text with {kind.__name__}(), and leave out what was "
        f"not {'judged' if kind is int else 'found'}"
    )


class _Hits(NamedTuple):
    """Judged documents in a ranking, ordered by query, then rank (from 0)."""

    query: Ints
    rank: Ints
    grade: Ints

    def where(self, chosen: Bools) -> _Hits:
        return _Hits(*(column[chosen] for column in self))

    def first(self, k: int | None) -> _Hits:
        return self if k is None else self.where(self.rank < k)


def value_table(
    data: JudgedRun, measures: Sequence[RankingMeasure], *, ideal: bool = False
) -> Floats:
    """Compute values in [0, 1], shape (measures, queries); `ideal`: of the best possible ranking
    instead of the run.

    A query without judgements is unscored (NaN).

    >>> value_table(judged_run({"q": {"a": 1, "b": 1}}, {}), parse_measures(["R@1", "P@4"]), ideal=True).tolist()
    [[0.5], [0.5]]
    """
    n, judged = len(data.query_ids), data.qrels
    order = np.lexsort((-judged.value, judged.query))
    query, grade = judged.query[order], judged.value[order]
    best = _Hits(query, np.arange(len(query)) - np.searchsorted(query, query), grade)
    table = np.empty((len(measures), n))
    hits = best if ideal else _hits(data)
    sizes = np.bincount(data.run.query, minlength=n)[:n]
    for row, measure in enumerate(measures):
        relevant = best.where(best.grade >= measure.rel)
        ranked = (relevant, _count(relevant, n)) if ideal else (hits, sizes)
        table[row] = _values(measure, *ranked, relevant)
    table[:, np.bincount(judged.query, minlength=n) == 0] = np.nan
    return table


def _hits(data: JudgedRun) -> _Hits:
    judged, run, n = data.qrels, data.run, len(data.documents)
    is_judged = np.zeros(n, dtype=bool)
    is_judged[judged.document] = True
    row = np.flatnonzero(
        is_judged[run.document]
    )  # few documents are judged: look up the pairs of those only
    keys, pairs = judged.query * n + judged.document, run.query[row] * n + run.document[row]
    order = np.argsort(keys)
    match = order.take(np.searchsorted(keys, pairs, sorter=order), mode="clip")
    same = keys[match] == pairs
    row, match = row[same], match[same]
    rank = _ranks(data, row)
    order = np.lexsort((rank, run.query[row]))
    return _Hits(run.query[row][order], rank[order], judged.value[match][order])


def _single(scores: Floats) -> npt.NDArray[np.float32]:
    with np.errstate(
        over="ignore"
    ):  # values beyond single precision are equal there, as in trec_eval
        return scores.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0


def _ranks(data: JudgedRun, row: Ints) -> Ints:
    """Return the rank of these rows of the run among all rows of their query, from 0."""
    run = data.run
    bits = _single(run.value).view(np.int32)
    rising = bits ^ (
        (bits >> 31) & 0x7FFFFFFF
    )  # IEEE 754: the bits of negative numbers are in reverse order
    place = (run.query << 32) + (
        0x7FFFFFFF - rising.astype(np.int64)
    )  # by query, then score, best first
    ordered = np.sort(place, kind="stable")
    first = np.searchsorted(ordered, place[row])
    size = np.searchsorted(ordered, place[row], side="right") - first
    rank: Ints = first - np.searchsorted(ordered, run.query[row] << 32)
    tied = size > 1
    if tied.any():
        starts, which = np.unique(first[tied], return_index=True)
        rank[tied] += _ranks_in_ties(
            data, np.argsort(place, kind="stable"), starts, size[tied][which]
        )[row[tied]]
    return rank


def _ranks_in_ties(data: JudgedRun, order: Ints, starts: Ints, sizes: Ints) -> Ints:
    """Return for the rows of these groups of equal query and score their rank in it, by id
    descending; else 0.
    """
    ends = np.cumsum(sizes)
    group = np.repeat(np.arange(len(starts)), sizes)
    within = np.arange(ends[-1]) - (ends - sizes)[group]
    rows = order[within + starts[group]]
    document, n = data.run.document[rows], len(data.documents)
    is_tied = np.zeros(n, dtype=bool)
    is_tied[document] = True
    tied = np.flatnonzero(is_tied)
    by_id = np.empty(n, dtype=np.int64)
    by_id[tied[data.documents.take(tied).argsort()]] = np.arange(
        len(tied)
    )  # code points sort as trec_eval's bytes do
    ranks = np.zeros(len(order), dtype=np.int64)
    ranks[rows[np.lexsort((-by_id[document], group))]] = within
    return ranks


def _values(measure: RankingMeasure, hits: _Hits, sizes: Ints, relevant: _Hits) -> Floats:
    """Return the value of each query: `sizes` is the length of its ranking, `relevant` its
    documents, best first.
    """
    name, k, n = measure.name, measure.cutoff, len(sizes)
    if name == "Judged":
        return _divide(_count(hits.first(k), n), sizes if k is None else np.minimum(sizes, k))
    seen = hits.where(hits.grade >= measure.rel).first(k)
    found, n_relevant = _count(seen, n), _count(relevant, n)
    precision, recall = (
        _divide(found, sizes if k is None else np.full(n, k)),
        _divide(found, n_relevant),
    )
    nth = np.arange(len(seen.query)) - np.searchsorted(
        seen.query, seen.query
    )  # relevant ones of the query before
    match name:
        case "nDCG":
            return _divide(_dcg(seen, n), _dcg(relevant.first(k), n))
        case "P" | "SetP":
            return precision
        case "R" | "SetR":
            return recall
        case "F1" | "SetF":
            beta = measure.option if name == "SetF" else 1
            return _divide((1 + beta) * precision * recall, beta * precision + recall)
        case "Success":
            return np.minimum(found, 1.0)
        case "RR":
            return _sums(seen, (nth == 0) / (seen.rank + 1), n)
        case "AP":
            return _divide(_sums(seen, (nth + 1) / (seen.rank + 1), n), n_relevant)
    p = measure.option
    return _sums(seen, _by_rank(seen, lambda rank: (1 - p) * p**rank), n)


def _dcg(hits: _Hits, n: int) -> Floats:
    return _sums(hits, hits.grade / _by_rank(hits, lambda rank: math.log2(rank + 2)), n)


def _by_rank(hits: _Hits, function: Callable[[int], float]) -> Floats:
    """Return the function of each rank, by the C library as in trec_eval: numpy's may differ in the
    last bit.
    """
    table: Floats = np.array(
        [function(rank) for rank in range(int(hits.rank.max(initial=-1)) + 1)]
    )[hits.rank]
    return table


def _count(hits: _Hits, n: int) -> Ints:
    return np.bincount(hits.query, minlength=n)


def _sums(hits: _Hits, weights: Floats, n: int) -> Floats:
    return np.bincount(hits.query, weights, minlength=n).astype(
        np.float64, copy=False
    )  # it counts in ints if empty


def _divide(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Floats:
    quotient: Floats = np.divide(
        numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0
    )
    return quotient
