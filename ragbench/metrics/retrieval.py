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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ConfigError
from ragbench.registry import KS, is_ranking_measure, measure_of

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
        depth = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}{options}{depth}"


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
    >>> parse_measures("nDCG@10") == parse_measures(["nDCG@10"])
    True
    """
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, Iterable):
        raise ConfigError(f"measures is a list of names such as ['nDCG@10', 'RR'], not {texts!r}")
    measures = list(dict.fromkeys(parse_measure(text) for text in texts))
    if not measures:
        raise ConfigError("measures is empty: name at least one, such as 'nDCG@10'")
    return measures


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

    `documents` is an Index of pandas.
    """

    query_ids: list[str]
    documents: Any
    qrels: Pairs
    run: Pairs


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

    >>> judged = Pairs(np.array([0, 0]), np.array([0, 1]), np.array([1, 1]))
    >>> ranked = Pairs(np.array([0]), np.array([1]), np.array([0.5]))
    >>> data = JudgedRun(["q"], np.array(["a", "b"]), judged, ranked)
    >>> value_table(data, parse_measures(["R@1", "P@4"])).tolist()
    [[0.5], [0.25]]
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
    # few documents are judged: look up the pairs of those only
    row = np.flatnonzero(np.isin(run.document, judged.document))
    keys, pairs = judged.query * n + judged.document, run.query[row] * n + run.document[row]
    _, match, hit = np.intersect1d(keys, pairs, assume_unique=True, return_indices=True)
    query, rank = run.query[row[hit]], _ranks(data)[row[hit]]
    order = np.lexsort((rank, query))
    return _Hits(query[order], rank[order], judged.value[match[order]])


def _single(scores: Floats) -> npt.NDArray[np.float32]:
    with np.errstate(
        over="ignore"
    ):  # values beyond single precision are equal there, as in trec_eval
        return scores.astype(np.float32) + np.float32(0)  # -0.0 becomes 0.0


def _ranks(data: JudgedRun) -> Ints:
    """Return the rank of each row of the run among those of its query, from 0."""
    query, document, value = data.run
    bits = _single(value).view(np.int32)
    # IEEE 754: the bits of negative numbers are in reverse order
    falling = -(bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    key = (query << 32) + falling  # one number sorts faster than two keys
    order = np.argsort(key, kind="stable")
    if (np.diff(key[order]) == 0).any():  # ties: code points sort as trec_eval's bytes do
        by_id = np.empty(len(data.documents), dtype=np.int64)
        by_id[data.documents.argsort()] = np.arange(len(by_id))
        order = np.lexsort((-by_id[document], key))
    ranks = np.empty(len(order), dtype=np.int64)
    ordered = query[order]
    ranks[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return ranks


def _values(measure: RankingMeasure, hits: _Hits, sizes: Ints, relevant: _Hits) -> Floats:
    """Return the value of each query: `sizes` is the length of its ranking, `relevant` its
    documents, best first.
    """
    name, k, n = measure.name, measure.cutoff, len(sizes)
    if name == "Judged":
        return _divide(_count(hits.first(k), n), sizes if k is None else np.minimum(sizes, k))
    seen = hits.where(hits.grade >= measure.rel).first(k)
    n_seen, n_relevant = _count(seen, n), _count(relevant, n)
    precision, recall = (
        _divide(n_seen, sizes if k is None else np.full(n, k)),
        _divide(n_seen, n_relevant),
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
            return np.minimum(n_seen, 1.0)
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
