"""Measures of a ranking: nDCG, P, R, F1, RR, AP, Success, SetP, SetR, SetF, RBP and Judged, as trec_eval has them.

Measures are named as in ir_measures: a name, and the depth after an @ ("nDCG@10", "R@5", "RR"); "P(rel=2)@5" counts
documents of grade 2 or more as relevant. All are in [0, 1], higher is better. The rules are those of trec_eval:

- a document is relevant if its grade is 1 or more (or `rel`); nDCG takes the grade itself as gain, discounted by
  log2(rank + 1);
- a ranking is ordered by score in single precision, equal scores by document id, descending;
- every judged query counts: one that is missing from the run scores 0, an unjudged query is left out;
- a query whose grades are all below 1 scores 0. A query with *no* judgements at all (an unanswerable question)
  is unscored: NaN, counted by `summarise` and left out of its mean.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ragbench.errors import ConfigError, DataError
from ragbench.registry import ALIASES, KS
from ragbench.types import Qrels, Run

_TREC = {  # name -> what trec_eval calls it without and with a depth; F1 is computed from P and R
    "nDCG": ("ndcg", "ndcg_cut_{}"),
    "P": ("", "P_{}"),
    "R": ("", "recall_{}"),
    "F1": ("", ""),
    "RR": ("recip_rank", "recip_rank"),
    "AP": ("map", "map_cut_{}"),
    "Success": ("", "success_{}"),
    "SetP": ("set_P", ""),
    "SetR": ("set_recall", ""),
    "SetF": ("set_P", ""),
    "RBP": ("own", "own"),
    "Judged": ("own", "own"),
}
_OPTIONS = {"SetF": ("rel", "beta"), "RBP": ("rel", "p"), "nDCG": (), "Judged": ()}  # of the others: rel
_DEFAULTS = {"beta": 1.0, "p": 0.8}

_NAMES = {known.casefold(): known for known in _TREC} | {other.casefold(): own for other, own in ALIASES.items()}

FAMILIES = tuple(_TREC)[:7]
"""The measures that are reported at several depths."""

DEFAULT_MEASURES: tuple[str, ...] = (
    *(f"{name}@{k}" for name in FAMILIES for k in KS),
    "RR",
    "AP",
)

# trec_eval keeps an array as long as the highest grade, for each query
_HIGHEST_GRADE = 1_000_000


class RankingMeasure(NamedTuple):
    """A measure and its depth; `cutoff` None means the whole ranking.

    Documents of the grade `rel` or more are relevant; `option` is the persistence p of RBP, or beta of SetF.
    """

    name: str
    cutoff: int | None
    rel: int = 1
    option: float = 0.0

    def __str__(self) -> str:
        names = [f"rel={self.rel}"] if self.rel != 1 else []
        names += [f"{key}={self.option:g}" for key in _OPTIONS.get(self.name, ())[1:] if self.option != _DEFAULTS[key]]
        whole = f"{self.name}({','.join(names)})" if names else self.name
        return whole if self.cutoff is None else f"{whole}@{self.cutoff}"


def parse_measure(text: str) -> RankingMeasure:
    """The measure of a name, in any case, or of a well-known alias (`ALIASES`).

    >>> parse_measure("nDCG@10").cutoff
    10
    >>> str(parse_measure("Hit Rate@5")), str(parse_measure("P(rel=2)@5")), str(parse_measure("RBP(rel=1, p=0.5)"))
    ('Success@5', 'P(rel=2)@5', 'RBP(p=0.5)')

    Raises:
        ConfigError: unknown name, a depth that is not a positive whole number, or a depth missing where one is needed.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a measure is a name such as 'nDCG@10', not {text!r}")
    name, at, depth = text.partition("@")
    name, opened, given = name.partition("(")
    name = _NAMES.get(name.casefold(), name)
    if name not in _TREC:
        folded = {known.casefold(): known for known in (*ALIASES, *_TREC)}
        near = difflib.get_close_matches(name.casefold(), folded, n=1)
        hint = f"; did you mean '{folded[near[0]]}{at}{depth}'?" if near else "."
        raise ConfigError(
            f"unknown measure {text!r}{hint} Known: {', '.join(f'{known}@k' for known in FAMILIES)} with any k from 1, "
            "nDCG, RR and AP of the whole ranking, SetP, SetR, SetF, RBP and Judged@k"
        )
    rel, option = _options(text, name, given if opened else "")
    if not at:
        if not _TREC[name][0]:
            raise ConfigError(f"measure {text!r} needs a depth: write '{name}@5', with any whole number from 1")
        return RankingMeasure(name, None, rel, option)
    if not _TREC[name][1] and name != "F1":
        raise ConfigError(f"measure {text!r} is of all that was retrieved; write {name!r}")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", depth):
        raise ConfigError(
            f"measure {text!r}: the depth after @ is a whole number from 1, as in '{name}@5', not {depth!r}"
        )
    return RankingMeasure(name, int(depth), rel, option)


def _options(text: str, name: str, given: str) -> tuple[int, float]:
    """What the parentheses of a measure state: the lowest grade that is relevant, and p or beta."""
    known = _OPTIONS.get(name, ("rel",))
    found: dict[str, float] = {}
    for part in given.removesuffix(")").split(",") if given else ():
        key, equals, value = (word.strip() for word in part.partition("="))
        try:
            found[key] = float(value) if key != "rel" else int(value)
        except ValueError:
            equals = ""
        if not given.endswith(")") or not equals or key not in known or not found[key] > 0 or not found.get("p", 0) < 1:
            takes = ", ".join(f"{key}={'2' if key == 'rel' else '0.5'}" for key in known) or "nothing"
            raise ConfigError(f"measure {text!r}: in parentheses {name} takes {takes}, as in 'P(rel=2)@5'")
    return int(found.get("rel", 1)), next((found.get(key, _DEFAULTS[key]) for key in known[1:]), 0.0)


def parse_measures(texts: Sequence[str]) -> list[RankingMeasure]:
    """`parse_measure` for each, in order; duplicates ("RR", "MRR") are kept once.

    >>> [str(measure) for measure in parse_measures(["RR", "P@1", "MRR"])]
    ['RR', 'P@1']
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ConfigError(f"measures is a list of names such as ['nDCG@10', 'RR'], not {texts!r}")
    measures = list(dict.fromkeys(parse_measure(text) for text in texts))
    if not measures:
        raise ConfigError("measures is empty: name at least one, such as 'nDCG@10'")
    return measures


def evaluate(qrels: Qrels, run: Run, measures: Sequence[str] = DEFAULT_MEASURES) -> dict[str, dict[str, float]]:
    """Measure -> query_id -> value in [0, 1], for every judged query, in the order of `qrels`.

    nDCG is that of Jarvelin & Kekalainen (2002), with linear gain; AP that of trec_eval (`map`, `map_cut`), divided
    by the number of *all* relevant documents; RR@k is RR where the first relevant document is among the first k, else
    0; Success@k is 1 if any of the first k is relevant; F1@k = 2PR / (P + R) of P@k and R@k, 0 where both are 0.
    SetP and SetR are precision and recall of all that was retrieved, SetF is (1 + beta) P R / (beta P + R) of them
    (beta = 1), as trec_eval has it. RBP is the sum of (1 - p) p^(rank - 1) over the relevant documents (Moffat & Zobel
    2008; p = 0.8, relevance is binary). Judged@k is the fraction of the first k that has a judgement.
    Computed by pytrec_eval (Van Gysel & de Rijke 2018), except F1, SetF, RBP and Judged. Rankings shorter than k are
    not padded: P@k divides by k all the same, but Judged@k by their length.

    >>> scores = evaluate({"q1": {"a": 1, "b": 1}, "q2": {"c": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "R@2", "RR"])
    >>> scores["P@2"], scores["RR"]
    ({'q1': 0.5, 'q2': 0.0}, {'q1': 0.5, 'q2': 0.0})

    Raises:
        ConfigError: a measure is not known.
        DataError: ids that are not text, scores that are not finite numbers, grades that are not whole numbers.
    """
    import pytrec_eval

    parsed = parse_measures(measures)
    qrels, run = checked_qrels(qrels), checked_run(run)
    # trec_eval has no empty rankings, and crashes on a query without judgements
    found = {query_id: run[query_id] for query_id, grades in qrels.items() if grades and run.get(query_id)}
    rows: dict[int, dict[str, dict[str, float]]] = {}
    for rel in {measure.rel for measure in parsed} if found else ():
        names = {name for measure in parsed if measure.rel == rel for name in _trec_names(measure)} - {"own"}
        evaluator = pytrec_eval.RelevanceEvaluator({q: qrels[q] for q in found}, names, relevance_level=rel)
        rows[rel] = evaluator.evaluate(found) if names else {}
    ranked = {q: ranking(found[q]) for q in found} if any(measure.name in _OWN for measure in parsed) else {}

    def value(measure: RankingMeasure, query_id: str) -> float:
        if query_id not in found:
            return 0.0 if qrels[query_id] else math.nan
        if own := _OWN.get(measure.name):
            return own(measure, ranked[query_id][: measure.cutoff], qrels[query_id])
        return _value(measure, rows[measure.rel][query_id])

    return {str(measure): {query_id: value(measure, query_id) for query_id in qrels} for measure in parsed}


def _rbp(measure: RankingMeasure, ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    p = measure.option
    return sum((1 - p) * p**rank for rank, doc_id in enumerate(ranked) if grades.get(doc_id, 0) >= measure.rel)


def _judged(_: RankingMeasure, ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    return sum(doc_id in grades for doc_id in ranked) / len(ranked)


_OWN = {"RBP": _rbp, "Judged": _judged}


def ranking(scores: Mapping[str, float]) -> list[str]:
    """The ids of one query's documents in trec_eval's order, best first.

    By score in single precision; of equal scores the id that sorts last comes first.

    >>> ranking({"a": 1.0, "c": 2.0, "b": 1.0})
    ['c', 'b', 'a']
    """
    with np.errstate(over="ignore"):
        single = np.array([*scores.values()], dtype=np.float64).astype(np.float32).tolist()
    return [doc_id for _, doc_id in sorted(zip(single, scores, strict=True), reverse=True)]


def ceiling(measure: RankingMeasure, n_relevant: int) -> float:
    """The best value that any ranking can reach for a query with `n_relevant` relevant documents.

    Of n relevant documents at most min(k, n) fit into the first k: R@k and AP@k reach min(k, n) / n, P@k reaches
    min(k, n) / k and F1@k 2 min(k, n) / (k + n); the others reach 1. Without relevant documents it is 0.

    >>> ceiling(parse_measure("R@5"), 20), ceiling(parse_measure("P@5"), 1), ceiling(parse_measure("nDCG@5"), 20)
    (0.25, 0.2, 1.0)
    """
    if n_relevant == 0:
        return 0.0
    name, k = measure.name, measure.cutoff
    if name == "RBP":
        return float(1 - measure.option ** min(n_relevant, k or n_relevant))
    if k is None or name in {"nDCG", "RR", "Success", "Judged"}:
        return 1.0
    best = min(k, n_relevant)
    if name == "P":
        return best / k
    if name == "F1":
        return _f1(best / k, best / n_relevant)
    return best / n_relevant


def checked_qrels(qrels: Qrels) -> Qrels:
    """The judgements with plain ints, or a DataError that names the query and the document.

    Grades below 0 (junk, in TREC's web collections) become 0: trec_eval treats both as not relevant, but can crash on
    the former.
    """
    checked: Qrels = {}
    for query_id, grades in _judgements(qrels, "qrels", "relevance"):
        if set(map(type, grades.values())) <= {int} and min(grades.values(), default=0) >= 0:
            whole = dict(grades)
        else:
            for doc_id, grade in grades.items():
                if not isinstance(grade, Integral):
                    raise DataError(
                        f"qrels: relevance {grade!r} of document {doc_id!r} for query {query_id!r} is not a whole "
                        "number; grades are integers, 1 and above is relevant"
                    )
            whole = {doc_id: max(0, int(grade)) for doc_id, grade in grades.items()}
        if max(whole.values(), default=0) > _HIGHEST_GRADE:
            raise DataError(
                f"qrels: query {query_id!r} has the grade {max(whole.values())}; "
                f"the highest possible is {_HIGHEST_GRADE}"
            )
        checked[query_id] = whole
    if not checked:
        raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
    return checked


def checked_run(run: Run) -> Run:
    """The run with plain floats, or a DataError that names the query and the document."""
    checked: Run = {}
    for query_id, scores in _judgements(run, "run", "score"):
        # a sum is finite only if each part is; where it overflows, each value is checked
        if set(map(type, scores.values())) <= {float} and math.isfinite(sum(scores.values())):
            checked[query_id] = dict(scores)
        else:
            checked[query_id] = {doc_id: _finite(query_id, doc_id, score) for doc_id, score in scores.items()}
    return checked


def _judgements(records: object, what: str, value: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The queries of nested dictionaries with their documents, validated."""
    if not isinstance(records, Mapping):
        raise DataError(
            f"{what} must be {{query_id: {{doc_id: {value}}}}} or a DataFrame, not {type(records).__name__}"
        )
    for query_id, documents in records.items():
        if not isinstance(query_id, str):
            raise DataError(
                f"{what}: query id {query_id!r} is {type(query_id).__name__}; ids are text: use str(query_id)"
            )
        if not isinstance(documents, Mapping):
            raise DataError(
                f"{what}: query {query_id!r} holds {type(documents).__name__}, expected {{doc_id: {value}}}"
            )
        if wrong := [] if set(map(type, documents)) <= {str} else [d for d in documents if not isinstance(d, str)]:
            raise DataError(
                f"{what}: document id {wrong[0]!r} of query {query_id!r} is {type(wrong[0]).__name__}; ids are text: "
                "use str(doc_id)"
            )
        yield query_id, documents


def _finite(query_id: object, doc_id: object, score: object) -> float:
    try:
        number = float(score) if isinstance(score, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(
            f"run: score {score!r} of document {doc_id!r} for query {query_id!r} is not a finite number; "
            "leave out what was not found"
        )
    return number


def _trec_names(measure: RankingMeasure) -> list[str]:
    name, cutoff = measure.name, measure.cutoff
    names = {"F1": ("P", "R"), "SetF": ("SetP", "SetR")}.get(name, (name,))
    return [_TREC[own][cutoff is not None].format(cutoff) for own in names]


def _value(measure: RankingMeasure, row: Mapping[str, float]) -> float:
    values = [row[name] for name in _trec_names(measure)]
    if measure.name == "F1":
        return _f1(*values)
    if measure.name == "SetF":
        (precision, recall), beta = values, measure.option
        return (1 + beta) * precision * recall / (beta * precision + recall) if precision + recall else 0.0
    # trec_eval has no depth for RR; the reciprocal gives the rank
    beyond = measure.name == "RR" and measure.cutoff is not None and values[0] < 1 / measure.cutoff
    return 0.0 if beyond else values[0]


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
