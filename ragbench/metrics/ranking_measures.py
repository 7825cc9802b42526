"""Measures of a ranking: nDCG, P, R, F1, RR, AP, Success, SetP, SetR, SetF, RBP, Judged, Rprec and Bpref
as trec_eval has them, and ERR and nDCG(dcg='exp-log2') as gdeval.

Measures are named as in ir_measures: a name, and the depth after an @ ("nDCG@10", "R@5", "RR");
"P(rel=2)@5" counts documents of grade 2 or more as relevant. All are in [0, 1], higher is better.
The rules are trec_eval's:

- a document is relevant if its grade is 1 or more (or `rel`); nDCG takes the grade itself as gain,
  discounted by log2(rank + 1), or 2^grade - 1 with dcg='exp-log2';
- a ranking is ordered by score in single precision, equal scores by document id, descending
  (ir_measures orders them ascending for RR@k and Judged@k, so that these differ where scores tie);
- every judged query counts: one that is missing from the run scores 0, an unjudged query is left
  out;
- a query whose grades are all below 1 scores 0. A query with *no* judgements at all (an
  unanswerable question) is unscored: NaN, counted by `summarise` and left out of its mean.

Ids become numbers, and only the ranks of the judged documents are computed. Sums add up in the
order of the ranks, as in trec_eval, so that the values are equal to its values to the last digit;
tests compare the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ConfigError
from ragbench.metrics.dict_runs import JudgedRanks, falling, single_precision
from ragbench.registry import KS, is_ranking_measure, measure_of

FAMILIES = ("nDCG", "P", "R", "F1", "RR", "AP", "Success")
"""The measures that are reported at several depths."""

DEFAULT_MEASURES: tuple[str, ...] = (*(f"{name}@{k}" for name in FAMILIES for k in KS), "RR", "AP")

_OPTIONS = {
    "SetF": ("rel", "beta"),
    "RBP": ("rel", "p"),
    "nDCG": ("dcg",),
    "Judged": (),
    "ERR": (),
}  # of the others: rel
_DEFAULTS = {"beta": 1.0, "p": 0.8, "dcg": 0.0}
_EXAMPLES = {"rel": "2", "beta": "0.5", "p": "0.5", "dcg": "'exp-log2'"}
_GAINS = {"log2": 0.0, "exp-log2": 1.0}
"""Gain of nDCG in ir_measures -> `RankingMeasure.option`: the grade, or 2^grade - 1."""
_FORM = re.compile(r"(\w+)(?:\((.*)\))?(?:@(\d+))?")


class RankingMeasure(NamedTuple):
    """A measure and its depth; `cutoff` None means the whole ranking.

    Documents of the grade `rel` or more are relevant; `option` is the persistence p of RBP, beta of
    SetF, or 1 for nDCG with exponential gain.
    """

    name: str
    cutoff: int | None
    rel: int = 1
    option: float = 0.0

    def __str__(self) -> str:
        """Return the name as ir_measures writes it, as in "nDCG(dcg='exp-log2')@10": options that
        have their default are left out.
        """
        settings = []
        if self.rel != 1:
            settings.append(f"rel={self.rel}")
        for key in _OPTIONS.get(self.name, ()):
            if key == "rel" or self.option == _DEFAULTS[key]:
                continue
            if key == "dcg":
                settings.append("dcg='exp-log2'")
            else:
                settings.append(f"{key}={self.option:g}")
        options = f"({','.join(settings)})" if settings else ""
        depth = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}{options}{depth}"


def parse_measure(text: str) -> RankingMeasure:
    """Return the measure that a name means. The name may be in upper or lower case, or a well-known alias
    (`ALIASES`).

    >>> parse_measure("P(rel=2)@5")
    RankingMeasure(name='P', cutoff=5, rel=2, option=0.0)
    >>> parse_measure("RBP(p=0.5)").option, parse_measure("nDCG(dcg='exp-log2')@10").option
    (0.5, 1.0)
    >>> str(parse_measure('ndcg(dcg="exp-log2")@10'))
    "nDCG(dcg='exp-log2')@10"
    >>> str(parse_measure("Hit Rate@5")), str(parse_measure("P(rel=2)@5")), str(parse_measure("RBP(rel=1, p=0.5)"))
    ('Success@5', 'P(rel=2)@5', 'RBP(p=0.5)')

    Raises:
        ConfigError: unknown name, a depth that is not a positive whole number, or a depth missing
            where one is needed; or an option that the measure does not have.
    """
    registered_name = measure_of(text).name  # refuses unknown names and wrong or missing depths
    match = _FORM.fullmatch(registered_name)
    if match is None or not is_ranking_measure(match[0]):
        raise ConfigError(
            f"{text!r} is not a measure of a ranking of documents; expected a name such as "
            "'nDCG@10'"
        )
    name, written_options, depth = match.groups()  # such as "P", "rel=2", "5"
    keys = _OPTIONS.get(name, ("rel",))  # the options that the measure has
    values = {key: _DEFAULTS.get(key, 1.0) for key in keys}
    for option in written_options.split(",") if written_options else []:
        key, _, value = option.partition("=")
        # every value is a number, also that of dcg='exp-log2' (1.0); None if it is invalid
        number = _option_value(key, value) if key in keys else None
        if number is None:
            takes = ", ".join(f"{key}={_EXAMPLES[key]}" for key in keys) or "nothing"
            raise ConfigError(
                f"measure {text!r}: in parentheses {name} takes {takes}, as in 'P(rel=2)@5'"
            )
        values[key] = number
    cutoff = int(depth) if depth else None
    rel = int(values.pop("rel", 1))
    # the value of p, beta or dcg; no measure has two of these
    option_value = next(iter(values.values()), 0.0)
    return RankingMeasure(name, cutoff, rel, option_value)


def _option_value(key: str, text: str) -> float | None:
    """Return the value of an option in the name of a measure as a number; None if it is invalid.

    The option "dcg" has a word as its value, which has a number in `_GAINS`; "rel" must be a whole
    number, "p" below 1, and all are above 0.
    """
    if key == "dcg":
        return _GAINS.get(text.strip("'\""))
    try:
        number = int(text) if key == "rel" else float(text)
    except ValueError:
        return None
    is_too_high = key == "p" and number >= 1
    return None if number <= 0 or is_too_high else number


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
    single = single_precision(np.array([*scores.values()], dtype=np.float64)).tolist()
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


class _RankedDocuments(NamedTuple):
    """Judged documents of rankings, ordered by query, then by `rank`: the place in the ranking, from 0,
    at which unjudged documents count, too.
    """

    query: Ints
    rank: Ints
    grade: Ints

    def where(self, chosen: Bools) -> _RankedDocuments:
        """Return the chosen documents; they keep their ranks."""
        return _RankedDocuments(*(column[chosen] for column in self))

    def within_depth(self, k: int | None) -> _RankedDocuments:
        """Return the documents in the first k places of their rankings; all if k is None."""
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
    return table_of_ranks(_judged_ranks(data), measures, ideal=ideal)


def table_of_ranks(
    judged: JudgedRanks, measures: Sequence[RankingMeasure], *, ideal: bool = False
) -> Floats:
    """Return the values of measures as an array, measures x queries, from the ranks of the judged
    documents; NaN for a query without judgements.

    Args:
        judged: ranks and grades.
        measures: in the order of the rows.
        ideal: compute the values of the best possible rankings instead, which have the relevant
            documents alone, by falling grade.
    """
    n = len(judged.ranking_sizes)
    all_judged = _by_falling_grade(judged)
    of_run = _RankedDocuments(judged.query, judged.rank, judged.grade)
    table = np.empty((len(measures), n))
    for row, measure in enumerate(measures):
        relevant = all_judged.where(all_judged.grade >= measure.rel)
        retrieved, ranking_sizes = of_run, judged.ranking_sizes
        if ideal:
            retrieved, ranking_sizes = relevant, _count(relevant, n)
        documents = JudgedDocuments(measure, n, retrieved, ranking_sizes, relevant, all_judged)
        table[row] = _FORMULAS[measure.name](documents)
    n_judged = np.bincount(judged.judged_query, minlength=n)
    table[:, n_judged == 0] = np.nan
    return table


def _by_falling_grade(judged: JudgedRanks) -> _RankedDocuments:
    """Return all judged documents of each query, also the not relevant ones, ranked by their grade, the
    highest first.
    """
    order = np.lexsort((-judged.judged_grade, judged.judged_query))
    query = judged.judged_query[order]
    first_of_query = np.searchsorted(query, query)  # the row at which its query begins
    return _RankedDocuments(
        query, np.arange(len(query)) - first_of_query, judged.judged_grade[order]
    )


def _judged_ranks(data: JudgedRun) -> JudgedRanks:
    """Return the ranks of the judged documents in a run, by query, then by rank."""
    judged, run = data.qrels, data.run
    # few documents are judged: look up the pairs of query and document of those only
    rows = np.flatnonzero(np.isin(run.document, judged.document))
    n_documents = len(data.documents)
    judged_pairs = judged.query * n_documents + judged.document  # a number per pair
    run_pairs = run.query[rows] * n_documents + run.document[rows]
    _, in_judged, in_run = np.intersect1d(
        judged_pairs, run_pairs, assume_unique=True, return_indices=True
    )
    judged_rows = rows[in_run]  # rows of the run with a judged document
    query = run.query[judged_rows]
    rank = _ranks(data)[judged_rows]
    grade = judged.value[in_judged]
    order = np.lexsort((rank, query))
    n_queries = len(data.query_ids)
    sizes = np.bincount(run.query, minlength=n_queries)[:n_queries]  # without unjudged queries
    return JudgedRanks(judged.query, judged.value, query[order], rank[order], grade[order], sizes)


def _ranks(data: JudgedRun) -> Ints:
    """Return the rank of each row of the run among the rows of its query, from 0. The highest score comes
    first; of equal scores, as in trec_eval, the document whose id sorts last.
    """
    query, document, value = data.run  # arrays with an item per row of the run; ids are numbers
    # The query in the upper 32 bits, in the lower ones a number that falls as the score rises:
    # sorted by it, rows are by query, then by falling score. One number sorts faster than two keys.
    key = (query << 32) + falling(single_precision(value))
    order = np.argsort(key, kind="stable")  # order[i]: the row at position i of the sorted run
    has_ties = (np.diff(key[order]) == 0).any()
    if has_ties:
        # place_of_id[d]: the place of document d if all ids are sorted. Python sorts code points,
        # which gives the order of trec_eval's bytes. The minus puts the id that sorts last first.
        place_of_id = np.empty(len(data.documents), dtype=np.int64)
        place_of_id[data.documents.argsort()] = np.arange(len(place_of_id))
        order = np.lexsort((-place_of_id[document], key))  # by key (the last one given), then by id
    ordered = query[order]
    # for each position in the sorted run the position at which its query begins
    first_of_query = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - first_of_query  # back in the order of the run's rows
    return ranks


@dataclass(frozen=True, eq=False)
class JudgedDocuments:
    """The judged documents of n queries and their rankings, as the formula of a measure needs them.

    `retrieved` are the judged documents in the rankings, at any depth; `ranking_sizes` are the lengths
    of the rankings. Independent of the rankings, `all_judged` are all judged documents and `relevant`
    the relevant ones among them, both ranked by falling grade.
    """

    measure: RankingMeasure
    n: int
    retrieved: _RankedDocuments
    ranking_sizes: Ints
    relevant: _RankedDocuments
    all_judged: _RankedDocuments

    @cached_property
    def depths(self) -> Ints:
        """Return the number of documents that count in each ranking: the depth of the measure, else the
        length of the ranking.
        """
        cutoff = self.measure.cutoff
        return self.ranking_sizes if cutoff is None else np.full(self.n, cutoff)

    @cached_property
    def relevant_retrieved(self) -> _RankedDocuments:
        """Return the relevant documents in the rankings, within the depth of the measure."""
        within_depth = self.retrieved.within_depth(self.measure.cutoff)
        return within_depth.where(within_depth.grade >= self.measure.rel)

    @cached_property
    def n_relevant(self) -> Ints:
        return _count(self.relevant, self.n)

    @cached_property
    def precision(self) -> Floats:
        return _divide_or_0(_count(self.relevant_retrieved, self.n), self.depths)

    @cached_property
    def recall(self) -> Floats:
        return _divide_or_0(_count(self.relevant_retrieved, self.n), self.n_relevant)


def _ndcg(judged: JudgedDocuments) -> Floats:
    ideal = judged.relevant.within_depth(judged.measure.cutoff)
    is_exponential = judged.measure.option == 1
    return _divide_or_0(
        _dcg(judged.relevant_retrieved, judged.n, is_exponential),
        _dcg(ideal, judged.n, is_exponential),
    )


def _f_measure(judged: JudgedDocuments) -> Floats:
    beta = judged.measure.option if judged.measure.name == "SetF" else 1
    precision, recall = judged.precision, judged.recall
    return _divide_or_0((1 + beta) * precision * recall, beta * precision + recall)


def _success(judged: JudgedDocuments) -> Floats:
    return np.minimum(_count(judged.relevant_retrieved, judged.n), 1.0)


def _reciprocal_rank(judged: JudgedDocuments) -> Floats:
    relevant_retrieved = judged.relevant_retrieved
    is_first = _nth(relevant_retrieved) == 0
    return _sums(relevant_retrieved, is_first / (relevant_retrieved.rank + 1), judged.n)


def _average_precision(judged: JudgedDocuments) -> Floats:
    relevant_retrieved = judged.relevant_retrieved
    precisions = (_nth(relevant_retrieved) + 1) / (relevant_retrieved.rank + 1)
    return _divide_or_0(_sums(relevant_retrieved, precisions, judged.n), judged.n_relevant)


def _rank_biased_precision(judged: JudgedDocuments) -> Floats:
    p = judged.measure.option
    relevant_retrieved = judged.relevant_retrieved
    weights = _by_rank(relevant_retrieved, lambda rank: (1 - p) * p**rank)
    return _sums(relevant_retrieved, weights, judged.n)


def _fraction_judged(judged: JudgedDocuments) -> Floats:
    cutoff = judged.measure.cutoff
    n_read = judged.ranking_sizes
    if cutoff is not None:
        n_read = np.minimum(n_read, cutoff)
    return _divide_or_0(_count(judged.retrieved.within_depth(cutoff), judged.n), n_read)


def _r_precision(judged: JudgedDocuments) -> Floats:
    n_relevant = judged.n_relevant
    retrieved = judged.relevant_retrieved
    in_front = retrieved.where(retrieved.rank < n_relevant[retrieved.query])
    return _divide_or_0(_count(in_front, judged.n), n_relevant)


def _binary_preference(judged: JudgedDocuments) -> Floats:
    """Compute Bpref (binary preference) as trec_eval does, for each query. Only judged documents count.

    Each relevant document that was retrieved adds 1, less the fraction of the not relevant documents (at
    most as many as there are relevant ones) that are ranked above it. The sum is divided by the number of
    relevant documents. A query without relevant documents has 0.
    """
    rel = judged.measure.rel
    # of each query, in the judgements: the relevant documents, the not relevant ones, and how many of
    # these can count
    n_relevant = judged.n_relevant
    n_not_relevant = _count(judged.all_judged.where(judged.all_judged.grade < rel), judged.n)
    most_above = np.minimum(n_not_relevant, n_relevant)
    # of each relevant document in a ranking: how many not relevant ones are above it
    retrieved = judged.retrieved
    is_relevant = retrieved.grade >= rel
    n_above = _running_count(retrieved.query, ~is_relevant)[is_relevant]
    relevant_retrieved = retrieved.where(is_relevant)
    query = relevant_retrieved.query
    lost = _divide_or_0(np.minimum(n_above, n_relevant[query]), most_above[query])
    return _divide_or_0(_sums(relevant_retrieved, 1 - lost, judged.n), n_relevant)


def _running_count(query: Ints, counts: Bools) -> Ints:
    """Return for each row how many rows of its query, from the first to this one, are True in `counts`.
    Rows are ordered by query.
    """
    total = np.cumsum(counts)
    first_of_query = np.searchsorted(query, query)
    before_query = np.concatenate([[0], total])[first_of_query]
    running: Ints = total - before_query
    return running


def _expected_reciprocal_rank(judged: JudgedDocuments) -> Floats:
    """Compute ERR (expected reciprocal rank) as gdeval does, for each query: the expected 1 / rank of the
    document with which a reader stops.

    The reader goes down the ranking to the depth of the measure, and stops at a document of grade g
    with the probability (2^g - 1) / 16.
    """
    within_depth = judged.retrieved.within_depth(judged.measure.cutoff)
    graded = within_depth.where(within_depth.grade > 0)  # at others no reader stops
    values = np.zeros(judged.n)
    still_reading = np.ones(judged.n)
    for query, rank, grade in zip(
        graded.query.tolist(), graded.rank.tolist(), graded.grade.tolist(), strict=True
    ):
        satisfied = min(1.0, (2**grade - 1) / 2**_HIGHEST_GRADE)
        values[query] += still_reading[query] * satisfied / (rank + 1)
        still_reading[query] *= 1 - satisfied
    return values


_HIGHEST_GRADE = 4
"""The grade from which on ERR takes a document as all but certain to satisfy, as in gdeval."""

_FORMULAS: dict[str, Callable[[JudgedDocuments], Floats]] = {
    "nDCG": _ndcg,
    "P": lambda judged: judged.precision,
    "R": lambda judged: judged.recall,
    "F1": _f_measure,
    "RR": _reciprocal_rank,
    "AP": _average_precision,
    "Success": _success,
    "SetP": lambda judged: judged.precision,
    "SetR": lambda judged: judged.recall,
    "SetF": _f_measure,
    "RBP": _rank_biased_precision,
    "Judged": _fraction_judged,
    "Rprec": _r_precision,
    "Bpref": _binary_preference,
    "ERR": _expected_reciprocal_rank,
}
"""The formula of each measure of rankings in measures.toml. A new one needs a line in both places."""


def _nth(documents: _RankedDocuments) -> Ints:
    """Return for each document how many of the given ones are ranked above it, for the same query."""
    nth: Ints = np.arange(len(documents.query)) - np.searchsorted(documents.query, documents.query)
    return nth


def _dcg(documents: _RankedDocuments, n: int, is_exponential: bool) -> Floats:
    """Return the discounted cumulative gain of each of n queries; the gain of a grade is the grade, or
    if `is_exponential` 2^grade - 1.
    """
    gain = 2.0**documents.grade - 1 if is_exponential else documents.grade
    return _sums(documents, gain / _by_rank(documents, lambda rank: math.log2(rank + 2)), n)


def _by_rank(documents: _RankedDocuments, function: Callable[[int], float]) -> Floats:
    """Return the function of each rank, by the C library as in trec_eval: numpy's may differ in the
    last bit.
    """
    lowest_rank = int(documents.rank.max(initial=-1))
    value_at = np.array([function(rank) for rank in range(lowest_rank + 1)])
    values: Floats = value_at[documents.rank]
    return values


def _count(documents: _RankedDocuments, n: int) -> Ints:
    """Return for each of n queries the number of its documents."""
    return np.bincount(documents.query, minlength=n)


def _sums(documents: _RankedDocuments, weights: Floats, n: int) -> Floats:
    """Return for each of n queries the sum of the weights of its documents."""
    sums = np.bincount(documents.query, weights, minlength=n)
    return sums.astype(np.float64, copy=False)  # it counts in ints if empty


def _divide_or_0(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Floats:
    """Return the quotients; 0 where the denominator is 0."""
    quotient: Floats = np.divide(
        numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0
    )
    return quotient
