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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ConfigError, DataError, unknown_chunk, warn_user
from ragbench.hints import explaining_calls
from ragbench.metrics.dict_runs import JudgedRanks, falling, ranks_of_dicts, single_precision
from ragbench.metrics.tidy import TidyScores, tidy
from ragbench.metrics.trec import refuse_duplicates, to_frame
from ragbench.registry import (
    KS,
    Measure,
    is_ranking_measure,
    load_measures,
    measure_of,
)
from ragbench.types import Chunk, Dataset, Qrels, Run, chunks_by_id, same_form

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


Number = TypeVar("Number", int, float)


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
        names = [f"rel={self.rel}"] if self.rel != 1 else []
        for key in _OPTIONS.get(self.name, ()):
            if key == "rel" or self.option == _DEFAULTS[key]:
                continue
            names.append("dcg='exp-log2'" if key == "dcg" else f"{key}={self.option:g}")
        options = f"({','.join(names)})" if names else ""
        depth = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}{options}{depth}"


def parse_measure(text: str) -> RankingMeasure:
    """Return the measure of a name, in any case, or of a well-known alias (`ALIASES`).

    >>> parse_measure("nDCG@10").cutoff
    10
    >>> str(parse_measure('ndcg(dcg="exp-log2")@10'))
    "nDCG(dcg='exp-log2')@10"
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
        number = _option_value(key, value) if key in keys else None
        if number is None:
            takes = ", ".join(f"{key}={_EXAMPLES[key]}" for key in keys) or "nothing"
            raise ConfigError(
                f"measure {text!r}: in parentheses {name} takes {takes}, as in 'P(rel=2)@5'"
            )
        values[key] = number
    cutoff = int(depth) if depth else None
    rel = int(values.pop("rel", 1))
    option_value = next(iter(values.values()), 0.0)  # no measure has two options next to rel
    return RankingMeasure(name, cutoff, rel, option_value)


def _option_value(key: str, text: str) -> float | None:
    """Return the number of an option in the name of a measure; None if it is invalid."""
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
    return _table(_judged_ranks(data), measures, ideal=ideal)


def _table(
    judged: JudgedRanks, measures: Sequence[RankingMeasure], *, ideal: bool = False
) -> Floats:
    """Compute `value_table` from the ranks of the judged documents."""
    n = len(judged.sizes)
    order = np.lexsort((-judged.judged_grade, judged.judged_query))
    query, grade = judged.judged_query[order], judged.judged_grade[order]
    best = _Hits(query, np.arange(len(query)) - np.searchsorted(query, query), grade)
    table = np.empty((len(measures), n))
    ranked = _Hits(judged.query, judged.rank, judged.grade)
    for row, measure in enumerate(measures):
        relevant = best.where(best.grade >= measure.rel)
        if ideal:
            documents = JudgedDocuments(measure, n, relevant, _count(relevant, n), relevant, best)
        else:
            documents = JudgedDocuments(measure, n, ranked, judged.sizes, relevant, best)
        table[row] = _FORMULAS[measure.name](documents)
    table[:, np.bincount(judged.judged_query, minlength=n) == 0] = np.nan
    return table


def _judged_ranks(data: JudgedRun) -> JudgedRanks:
    judged, run, n = data.qrels, data.run, len(data.documents)
    # few documents are judged: look up the pairs of those only
    row = np.flatnonzero(np.isin(run.document, judged.document))
    keys, pairs = judged.query * n + judged.document, run.query[row] * n + run.document[row]
    _, match, hit = np.intersect1d(keys, pairs, assume_unique=True, return_indices=True)
    query, rank = run.query[row[hit]], _ranks(data)[row[hit]]
    order = np.lexsort((rank, query))
    grade = judged.value[match[order]]
    n_queries = len(data.query_ids)
    sizes = np.bincount(run.query, minlength=n_queries)[:n_queries]
    return JudgedRanks(judged.query, judged.value, query[order], rank[order], grade, sizes)


def _ranks(data: JudgedRun) -> Ints:
    """Return the rank of each row of the run among the rows of its query, from 0."""
    query, document, value = data.run
    key = (query << 32) + falling(single_precision(value))  # one number sorts faster than two keys
    order = np.argsort(key, kind="stable")
    if (np.diff(key[order]) == 0).any():  # ties: code points sort as trec_eval's bytes do
        by_id = np.empty(len(data.documents), dtype=np.int64)
        by_id[data.documents.argsort()] = np.arange(len(by_id))
        order = np.lexsort((-by_id[document], key))
    ranks = np.empty(len(order), dtype=np.int64)
    ordered = query[order]
    ranks[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return ranks


@dataclass(frozen=True, eq=False)
class JudgedDocuments:
    """The judged documents of all rankings, as a formula needs them: `hits` are those in the rankings,
    whose lengths are `sizes`; `relevant` are all relevant ones and `best` all judged ones, in the
    ideal order.
    """

    measure: RankingMeasure
    n: int
    hits: _Hits
    sizes: Ints
    relevant: _Hits
    best: _Hits

    @cached_property
    def depths(self) -> Ints:
        """Return the number of documents that count in each ranking: the depth of the measure, else the
        length of the ranking.
        """
        cutoff = self.measure.cutoff
        return self.sizes if cutoff is None else np.full(self.n, cutoff)

    @cached_property
    def seen(self) -> _Hits:
        """Return the relevant documents within the depth of the measure."""
        return self.hits.where(self.hits.grade >= self.measure.rel).first(self.measure.cutoff)

    @cached_property
    def n_relevant(self) -> Ints:
        return _count(self.relevant, self.n)

    @cached_property
    def precision(self) -> Floats:
        return _divide(_count(self.seen, self.n), self.depths)

    @cached_property
    def recall(self) -> Floats:
        return _divide(_count(self.seen, self.n), self.n_relevant)


def _ndcg(judged: JudgedDocuments) -> Floats:
    ideal = judged.relevant.first(judged.measure.cutoff)
    is_exponential = judged.measure.option == 1
    return _divide(
        _dcg(judged.seen, judged.n, is_exponential), _dcg(ideal, judged.n, is_exponential)
    )


def _f_measure(judged: JudgedDocuments) -> Floats:
    beta = judged.measure.option if judged.measure.name == "SetF" else 1
    precision, recall = judged.precision, judged.recall
    return _divide((1 + beta) * precision * recall, beta * precision + recall)


def _success(judged: JudgedDocuments) -> Floats:
    return np.minimum(_count(judged.seen, judged.n), 1.0)


def _reciprocal_rank(judged: JudgedDocuments) -> Floats:
    seen = judged.seen
    return _sums(seen, (_nth(seen) == 0) / (seen.rank + 1), judged.n)


def _average_precision(judged: JudgedDocuments) -> Floats:
    seen = judged.seen
    return _divide(_sums(seen, (_nth(seen) + 1) / (seen.rank + 1), judged.n), judged.n_relevant)


def _rank_biased_precision(judged: JudgedDocuments) -> Floats:
    p = judged.measure.option
    seen = judged.seen
    return _sums(seen, _by_rank(seen, lambda rank: (1 - p) * p**rank), judged.n)


def _fraction_judged(judged: JudgedDocuments) -> Floats:
    n_read = judged.sizes
    if judged.measure.cutoff is not None:
        n_read = np.minimum(n_read, judged.measure.cutoff)
    return _divide(_count(judged.hits.first(judged.measure.cutoff), judged.n), n_read)


def _r_precision(judged: JudgedDocuments) -> Floats:
    n_relevant = judged.n_relevant
    in_front = judged.seen.where(judged.seen.rank < n_relevant[judged.seen.query])
    return _divide(_count(in_front, judged.n), n_relevant)


def _binary_preference(judged: JudgedDocuments) -> Floats:
    """Compute Bpref as trec_eval: judged documents alone, a relevant one loses by the fraction of
    not relevant ones above it.
    """
    rel = judged.measure.rel
    not_relevant = judged.best.where(judged.best.grade < rel)
    n_relevant = judged.n_relevant
    limit = np.minimum(_count(not_relevant, judged.n), n_relevant)
    is_relevant = judged.hits.grade >= rel
    n_above = _running_count(judged.hits.query, ~is_relevant)[is_relevant]
    seen = judged.seen
    lost = _divide(np.minimum(n_above, n_relevant[seen.query]), limit[seen.query])
    return _divide(_sums(seen, 1 - lost, judged.n), n_relevant)


def _running_count(query: Ints, counts: Bools) -> Ints:
    """Return for each row how many rows of its query up to it count; rows are ordered by query."""
    total = np.cumsum(counts)
    before = np.concatenate([[0], total])[np.searchsorted(query, query)]
    running: Ints = total - before
    return running


def _expected_reciprocal_rank(judged: JudgedDocuments) -> Floats:
    """Compute ERR as gdeval: a document of grade g satisfies with probability (2^g - 1) / 16."""
    seen = judged.hits.where(judged.hits.grade > 0).first(judged.measure.cutoff)
    values = np.zeros(judged.n)
    still_reading = np.ones(judged.n)
    for query, rank, grade in zip(
        seen.query.tolist(), seen.rank.tolist(), seen.grade.tolist(), strict=True
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


def _nth(hits: _Hits) -> Ints:
    """Return how many of these documents are ranked above each in its query."""
    nth: Ints = np.arange(len(hits.query)) - np.searchsorted(hits.query, hits.query)
    return nth


def _dcg(hits: _Hits, n: int, is_exponential: bool) -> Floats:
    gain = 2.0**hits.grade - 1 if is_exponential else hits.grade
    return _sums(hits, gain / _by_rank(hits, lambda rank: math.log2(rank + 2)), n)


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


# A chunk is relevant if it overlaps a piece of evidence by at least this fraction of the shorter of
# the two.
_SHARED = 0.5

_GRADES = (0, 1, 2, 3, 4)  # of nearly all judgements


@explaining_calls(
    k="measures=['nDCG@10']",
    ks="measures=['nDCG@5', 'nDCG@10']",
    relevance_level="measures=['AP(rel=2)']",
    **dict.fromkeys(["aggregate", "average", "mean"], "score_run(qrels, run).mean()"),
    **dict.fromkeys(["per_query", "per_question"], "score_run(qrels, run), a value per question"),
)
def score_run(
    qrels: Dataset | Qrels | Mapping[str, Collection[str]] | pd.DataFrame | str | Path,
    run: Run | Mapping[str, Sequence[str]] | pd.DataFrame | str | Path,
    measures: str | Measure | Sequence[str | Measure] = DEFAULT_MEASURES,
) -> pd.DataFrame:
    """Score a ranking of documents: columns query_id, measure, value; by measure, then by query in
    the order of qrels.

    Values are in [0, 1], as defined in `ragbench.metrics.retrieval`. Every judged query has a row
    for each measure: 0 where the run lacks it, NaN (unscored) where its judgements are empty, as
    for an unanswerable question. Unjudged queries of the run are left out. If no query of the run
    is judged at all, the run has chunk ids where documents are judged, or the two arguments look
    exchanged, there is a DataWarning.

    Args:
        qrels: a dataset, {query_id: {doc_id: relevance}}, {query_id: [relevant doc_id, ...]}, or a DataFrame
            with the columns query_id, doc_id, relevance; also what `read_qrels` takes: a file of
            TREC, a frame of PyTerrier (qid, docno, label), an object of ranx.
        run: {query_id: {doc_id: score}}, {query_id: [doc_id, ...]} with the best documents first, or a
            DataFrame with the columns query_id, doc_id, score;
            or as `read_run`.
        measures: names as in ir_measures, e.g. ["nDCG@10", "P(rel=2)@5", "Judged@10"], and your own
            of the level "document" (`rb.Measure`, "package.module:attribute"). Default:
            nDCG, P, R, F1, RR, AP and Success at 1, 3, 5 and 10, and RR and AP of the whole
            ranking.

    >>> score_run({"q1": {"a": 1, "b": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "RR"])
      query_id measure  value
    0       q1     P@2    0.5
    1       q1      RR    0.5

    Raises:
        ConfigError: a measure is not known, or scores answers.
        DataError: a measure of the user fails; wrong columns, ids that are not text, a score or
            grade that is not a number, a repeated row.
    """
    named, own = _named_and_own(measures)
    if isinstance(qrels, Dataset):
        qrels = qrels.qrels
    _refuse_several(run)
    frames = []
    if named or not own:
        frames.append(_score_named(qrels, run, parse_measures(named)))
    if own:
        frames.append(_score_own(qrels, run, own))
    if len(frames) == 1:
        return frames[0]
    return TidyScores(pd.concat(frames, ignore_index=True))


def _refuse_several(run: Any) -> None:
    """Raise DataError for a mapping of names to runs."""
    first = next(iter(run.values()), None) if isinstance(run, Mapping) else None
    row = next(iter(first.values()), None) if isinstance(first, Mapping) else None
    if isinstance(row, Mapping | list):
        raise DataError(
            "run has several runs by name; score each, as in "
            "{name: rb.score_run(qrels, run) for name, run in runs.items()}, which rb.compare takes"
        )


def _named_and_own(measures: Any) -> tuple[Any, list[Measure]]:
    """Return the measures of ragbench by their names, and those of the user.

    Raises:
        ConfigError: a measure of the user scores answers, or cannot be loaded.
    """
    if isinstance(measures, str):
        measures = [name.strip() for name in measures.split(",")]
    elif isinstance(measures, Measure) or callable(measures):
        measures = [measures]
    if not isinstance(measures, Iterable):
        return measures, []  # parsing them raises
    named: list[Any] = []
    own: list[Measure] = []
    for item in measures:
        [measure] = load_measures([item])
        if measure.function is None:
            named.append(item if isinstance(item, str) else measure.name)
        elif measure.level == "document":
            own.append(measure)
        else:
            raise ConfigError(
                f"measure {measure.name!r} scores answers, and there is only a ranking; name it in "
                f"rb.evaluate(data, system, measures=[...]), or define it with level='document'"
            )
    return named, own


def _score_own(qrels: Any, run: Any, measures: Sequence[Measure]) -> pd.DataFrame:
    """Score a ranking by measures of the user, as `score_run`; NaN for a query without judgements and
    where a measure returns None.
    """
    judged, ranked = _judged_and_ranked(qrels, run)
    query_ids = _numbered(qrels, judged, ranked).query_ids
    grades_of: Qrels = {query_id: {} for query_id in query_ids}
    for query_id, doc_id, grade in judged.itertuples(index=False):
        grades_of[query_id][doc_id] = int(grade)
    scores_of: Run = {}
    for query_id, doc_id, score in ranked.itertuples(index=False):
        scores_of.setdefault(query_id, {})[doc_id] = float(score)
    values = []
    for measure in measures:
        value_of = own_ranking_values(measure, scores_of, grades_of)
        values.append([value_of.get(query_id, math.nan) for query_id in query_ids])
    return tidy(query_ids, [measure.name for measure in measures], values)


def own_ranking_values(measure: Measure, run: Run, qrels: Qrels) -> dict[str, float]:
    """Return query_id -> the value of a user's measure of rankings. Queries without a judgement and
    queries for which the measure returns None are left out; for a query that is not in the run
    nothing was found.

    Raises:
        DataError: as `own_value`.
    """
    from ragbench.metrics.own_measures import own_value  # without it `score_run` is light

    values = {}
    for query_id, grades in qrels.items():
        if not grades:
            continue
        value = own_value(measure, query_id, ranking(run.get(query_id, {})), grades)
        if value is not None:
            values[query_id] = value
    return values


_EXCHANGED = "score_run(qrels, run) takes judgements first: were the two given the other way round?"


def _score_named(qrels: Any, run: Any, parsed: Sequence[RankingMeasure]) -> pd.DataFrame:
    """Score a ranking by ragbench's measures, as `score_run`."""
    names = [str(measure) for measure in parsed]
    ranks = ranks_of_dicts(qrels, run)
    if ranks is not None:
        table = _table(ranks, parsed)
        if np.nansum(table) > 0:  # else a warning may be due
            return tidy([*cast(Qrels, qrels)], names, table)
    if _are_all(qrels, float) and _are_all(run, int):
        raise DataError(
            "the grades are numbers with a point and the scores are whole numbers; "
            f"{_EXCHANGED} If not, make the grades whole with int()"
        )
    if _are_lists(qrels) and _are_all(run, int):
        raise DataError(
            "the judgements are lists of documents and the scores are whole numbers; "
            f"{_EXCHANGED} If not, make the scores numbers with a point"
        )
    judged, ranked = _judged_and_ranked(qrels, run)
    doc_ids = ranked["doc_id"].unique()
    if not all(map(str.isascii, doc_ids)):
        same = same_form(doc_ids, set(judged["doc_id"]))
        ranked = ranked.assign(doc_id=ranked["doc_id"].replace(same))
    _warn_of_exchange(judged, ranked)
    data = _numbered(qrels, judged, ranked)
    table = value_table(data, parsed)
    if not np.nansum(table) > 0:
        _warn_of_foreign_ids(data.query_ids, judged, ranked)
    return tidy(data.query_ids, names, table)


def _judged_and_ranked(qrels: Any, run: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return judgements and a run in any form as frames (`to_frame`).

    Raises:
        DataError: one of them cannot be read; if both can be the other way round, it says so.
    """
    try:
        return to_frame(qrels, int), to_frame(run, float)
    except DataError as exc:
        try:
            to_frame(run, int)
            to_frame(qrels, float)
        except DataError:
            raise exc from None
        raise DataError(f"{exc}; {_EXCHANGED}") from exc


def _are_lists(nested: Any) -> bool:
    """Return True for a mapping of queries to lists."""
    is_mapping = isinstance(nested, Mapping) and bool(nested)
    return is_mapping and all(isinstance(row, list) for row in nested.values())


def _are_all(nested: Any, kind: type) -> bool:
    """Return True if all values of a nested mapping are of a type; False for anything else."""
    if not isinstance(nested, Mapping):
        return False
    rows = [row.values() for row in nested.values() if isinstance(row, Mapping)]
    return any(rows) and all(type(value) is kind for values in rows for value in values)


def _warn_of_exchange(judged: pd.DataFrame, ranked: pd.DataFrame) -> None:
    """Warn where the judgements look like scores of a ranking and the run looks like judgements.

    Scores of a ranking differ from document to document of a query, and exceed the usual grades or
    rank three documents or more. Judgements are whole numbers from 0 to 4 for fewer documents, or
    with documents of the same grade.
    """
    values = judged.groupby("query_id", sort=False)["relevance"]
    n_documents = values.size()
    differ = bool((values.nunique() == n_documents).all())
    many = judged["relevance"].max() > max(_GRADES) or n_documents.max() >= 3
    if not (differ and many and n_documents.max() > 1):
        return
    grades = ranked.groupby("query_id", sort=False)["score"]
    n_graded = grades.size()
    fewer = n_graded.median() < n_documents.median()
    tied = bool((grades.nunique() < n_graded).any())
    if ranked["score"].isin(_GRADES).all() and (fewer or tied):
        warn_user(
            "the first argument looks like a run (no two documents of a query have the same value) "
            "and the second like judgements (grades from 0 to 4); judgements come first: "
            "score_run(qrels, run)"
        )


def _warn_of_foreign_ids(
    query_ids: Sequence[str], judged: pd.DataFrame, ranked: pd.DataFrame
) -> None:
    """Warn that no query of the run is judged, or that the run has ids of chunks and the judgements
    ids of documents.
    """
    scored = ranked["query_id"].unique().tolist()
    if scored and set(query_ids).isdisjoint(scored):
        warn_user(
            f"no query of the run is judged, so every measure is 0: the run has {len(scored)} "
            f"queries such as {scored[0]!r}, the qrels {len(query_ids)} such as {query_ids[0]!r}; "
            "are both of the same dataset and split?"
        )
    documents = set(judged["doc_id"])
    foreign = set(ranked["doc_id"]) - documents
    if chunks := sorted(doc_id for doc_id in foreign if doc_id.rpartition("#")[0] in documents):
        warn_user(
            f"the run has chunk ids such as {chunks[0]!r} where documents are judged, so every "
            "measure is 0; turn it into a run of documents first: to_documents(run, chunks)"
        )


def ceilings(
    qrels: Qrels | pd.DataFrame, measures: Sequence[str] = DEFAULT_MEASURES
) -> pd.DataFrame:
    """Return the best value that any system could reach on each query: columns query_id, measure, value,
    as in `score_run`.

    With n relevant documents R@k and AP@k reach min(k, n) / n, P@k reaches min(k, n) / k, F1@k 2
    min(k, n) / (k + n) and all others 1. It is 0 if no document is relevant and NaN if none
    is judged. Judged documents that the corpus lacks count as relevant, as in the scores.

    >>> ceilings({"q1": {"a": 1, "b": 2}, "q2": {"a": 1}}, ["R@1", "P@5"])
      query_id measure  value
    0       q1     R@1    0.5
    1       q2     R@1    1.0
    2       q1     P@5    0.4
    3       q2     P@5    0.2
    """
    parsed = parse_measures(measures)
    data = _numbered(qrels, to_frame(qrels, int), to_frame({}, float))
    return tidy(
        data.query_ids, [str(measure) for measure in parsed], value_table(data, parsed, ideal=True)
    )


def _numbered(qrels: Any, judged: pd.DataFrame, ranked: pd.DataFrame) -> JudgedRun:
    """Return judgements and a run with a number in place of each query id and document id.

    `judged` and `ranked` are the frames (`to_frame`) of `qrels` and of the run. The queries of `qrels`
    have the first numbers, in their order; queries of a dictionary without a judgement are among them.

    Raises:
        DataError: there are no judgements, or a document is there twice for one query.
    """
    query_ids: list[str] = list(qrels) if isinstance(qrels, Mapping) else []
    query_ids = query_ids or judged["query_id"].unique().tolist()
    if not query_ids:
        raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
    first_queries = pd.Series(query_ids, dtype=judged["query_id"].dtype)
    queries, _ = pd.factorize(pd.concat([first_queries, judged["query_id"], ranked["query_id"]]))
    queries = queries[len(query_ids) :].astype(np.int64)
    documents, doc_ids = pd.factorize(pd.concat([judged["doc_id"], ranked["doc_id"]]))
    documents = documents.astype(np.int64)
    end = len(judged)
    judged_pairs = Pairs(queries[:end], documents[:end], judged.iloc[:, 2].to_numpy())
    ranked_pairs = Pairs(queries[end:], documents[end:], ranked.iloc[:, 2].to_numpy())
    if _has_duplicates(judged_pairs, len(doc_ids)):
        refuse_duplicates(judged, "qrels")
    if _has_duplicates(ranked_pairs, len(doc_ids)):
        refuse_duplicates(ranked, "run")
    return JudgedRun(query_ids, doc_ids, judged_pairs, ranked_pairs)


def _has_duplicates(pairs: Pairs, n_documents: int) -> bool:
    """Return True if a document is there twice for one query."""
    keys = pairs.query * n_documents + pairs.document
    # faster than hashing; most runs are sorted almost, and timsort uses that
    ordered = np.sort(keys, kind="stable")
    return bool(np.any(ordered[1:] == ordered[:-1]))


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    joined: Collection[str] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Score a ranking by documents, by gold evidence and by labelled chunks: columns query_id,
    measure, value.

    The name of a measure carries its level: "nDCG@10" is about documents, "span:nDCG@10" and
    "chunk:nDCG@10" are about chunks; all are `score_run` on other judgements. By labelled chunks,
    those in `Case.relevant_chunks` are relevant with their grades. By gold evidence, a chunk is
    relevant (grade 1) if it overlaps a span of the case by at least half of the shorter of the two;
    evidence in no chunk counts as a relevant chunk that cannot be found. How many chunks are
    relevant then depends on the chunking, so compare chunkings by `score_spans` or by documents.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels.
        run: document-level run.
        chunk_run: chunk-level run; without one, documents are scored.
        chunks: the chunks that `chunk_run` ranks; needed for gold evidence.
        joined: ids of those `chunks` that were joined of others for single questions. They count for
            the questions that rank them, in the place of the chunks that they hold.
        measures: names such as "nDCG@10" and "span:RR", of the levels in `retrieval_levels`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 10, 20),))
    >>> chunks = [Chunk("d#0", "d", 0, 9, "x" * 9), Chunk("d#1", "d", 9, 30, "x" * 21)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> ranked = {"q": {"d#0": 2.0, "d#1": 1.0}}
    >>> score_retrieval(dataset, {"q": {"d": 2.0}}, chunk_run=ranked, chunks=chunks, measures=["RR", "span:RR"])
      query_id  measure  value
    0        q       RR    1.0
    1        q  span:RR    0.5

    Raises:
        ConfigError: a measure is not known.
        DataError: invalid ids or scores; nothing is judged at the level of
            a measure; gold evidence is asked for, and none of the chunks of `chunk_run` is among
            `chunks`.
    """
    frames = []
    for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, joined, measures):
        if not prefix:
            ranked = one_of_each(dataset, run)
        elif chunk_run is not None:
            ranked = chunk_run
        else:
            ranked = run
        frame = score_run(qrels, ranked, names)
        frames.append(frame.assign(measure=prefix + frame["measure"]))
    return pd.concat(frames, ignore_index=True)


def one_of_each(
    dataset: Dataset, values: Mapping[str, dict[str, Number]]
) -> dict[str, dict[str, Number]]:
    """Return grades or scores with one document for each group of `Case.alternatives`, which has the
    highest value of its group: finding one of them is enough, finding another adds nothing.

    >>> from ragbench.types import Case, Dataset
    >>> case = Case("q", "?", metadata={"alternatives": [["7", "8"]]})
    >>> data = Dataset("mine", "test", {}, [case], {"q": {"7": 1, "8": 1}})
    >>> one_of_each(data, data.qrels), one_of_each(data, {"q": {"8": 0.5, "9": 0.4}})
    ({'q': {'7': 1}}, {'q': {'7': 0.5, '9': 0.4}})
    """
    reduced = dict(values)
    for case in dataset.cases:
        if not case.alternatives or case.query_id not in values:
            continue
        first_of = {doc_id: group[0] for group in case.alternatives for doc_id in group}
        best: dict[str, Number] = {}
        for doc_id, value in values[case.query_id].items():
            first = first_of.get(doc_id, doc_id)
            best[first] = max(value, best.get(first, value))
        reduced[case.query_id] = best
    return reduced


def retrieval_levels(
    dataset: Dataset, *, chunk_run: Run | None = None, chunks: Sequence[Chunk] = ()
) -> tuple[str, ...]:
    """Return the levels among "document", "span" and "chunk" at which these labels and this run can
    be scored.

    Chunk labels name chunks of one system: they are only used if the run holds at least one of
    them.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {"q": {"d": 1}})
    >>> retrieval_levels(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_levels(dataset)
    (('document', 'chunk'), ('document',))
    """
    named = {chunk.chunk_id for chunk in chunks}.union(*(chunk_run or {}).values())
    of_chunks, cases = chunk_run is not None, dataset.cases
    allowed = {
        "document": any(map(bool, dataset.qrels.values())),
        "span": of_chunks and bool(chunks) and any(case.evidence for case in cases),
        "chunk": of_chunks and any(i in named for case in cases for i in case.relevant_chunks),
    }
    return tuple(level for level, is_allowed in allowed.items() if is_allowed)


def _judgements(
    dataset: Dataset,
    chunk_run: Run | None,
    chunks: Sequence[Chunk],
    joined: Collection[str],
    measures: Sequence[str],
) -> Iterator[tuple[str, Qrels, list[str]]]:
    """Yield for each level that is asked for the prefix of its names, its judgements, and its measures
    without prefix.
    """
    levels = retrieval_levels(dataset, chunk_run=chunk_run, chunks=chunks)
    names_of: dict[str, list[str]] = {}
    for name in measures:
        measure = measure_of(name)
        parsed = parse_measure(measure.name.removeprefix(f"{measure.level}:"))
        names_of.setdefault(measure.level, []).append(str(parsed))
    for level, names in names_of.items():
        if level == "document":
            yield "", one_of_each(dataset, dataset.qrels), names
            continue
        if level not in levels:
            lacks = (
                "gold evidence in these chunks"
                if level == "span"
                else "a labelled chunk in this run"
            )
            raise DataError(
                f"{level}:{names[0]} cannot be measured on {dataset.name!r}: no question has {lacks}"
            )
        labelled: Qrels = {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}
        if level == "span":
            from ragbench.metrics.spans import evidence_chunks  # without it `score_run` is light

            # Passages of other systems may have no offsets in the documents, so some unknown ids
            # are not an error.
            ranked = {i: query_id for query_id, row in (chunk_run or {}).items() for i in row}
            chunk_ids = {chunk.chunk_id for chunk in chunks}
            if len(chunk_ids) < len(chunks):
                raise DataError("two chunks have the same id; pass the chunks of one chunking")
            if ranked and chunk_ids.isdisjoint(ranked):
                raise DataError(unknown_chunk(*next(iter(ranked.items())), len(chunks)))
            labelled = evidence_chunks(dataset, chunks, _SHARED)
            if joined:
                labelled = _in_reach(labelled, chunk_run or {}, chunks, joined)
        yield f"{level}:", labelled, names


def _in_reach(labelled: Qrels, run: Run, chunks: Sequence[Chunk], joined: Collection[str]) -> Qrels:
    """Return the judgements of the chunks that each question can have: the joined ones that it ranks,
    and those others that lie in none of these.
    """
    by_id = chunks_by_id(chunks)
    reachable: Qrels = {}
    for query_id, grades in labelled.items():
        own = [by_id[chunk_id] for chunk_id in run.get(query_id, {}) if chunk_id in joined]
        reachable[query_id] = {}
        for chunk_id, grade in grades.items():
            chunk = by_id.get(chunk_id)  # None: evidence that no chunk holds
            if chunk_id in joined:
                is_reachable = chunk in own
            else:
                is_reachable = chunk is None or not any(each.holds(chunk) for each in own)
            if is_reachable:
                reachable[query_id][chunk_id] = grade
    return reachable


def retrieval_ceilings(
    dataset: Dataset,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    joined: Collection[str] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Return the best value that any system could reach on each query, by the judgements of
    `score_retrieval`.

    Columns query_id, measure, value, as from `ceilings`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 0, 9), Span("d", 20, 30)))
    >>> chunks = [Chunk("d#0", "d", 0, 15, "x" * 15), Chunk("d#1", "d", 15, 30, "x" * 15)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> best = retrieval_ceilings(dataset, chunk_run={"q": {"d#0": 1.0}}, chunks=chunks, measures=["R@1", "span:R@1"])
    >>> best["value"].tolist()
    [1.0, 0.5]
    """
    frames = [
        (frame := ceilings(qrels, names)).assign(measure=prefix + frame["measure"])
        for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, joined, measures)
    ]
    return pd.concat(frames, ignore_index=True)
