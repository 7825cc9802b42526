"""Scores of a run by judgements: `score_run`, the best that any run could reach (`ceilings`), and
warnings about exchanged arguments or foreign ids.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, warn_user
from ragbench.hints.calls import explaining_calls
from ragbench.metrics.dict_runs import ranks_of_dicts
from ragbench.metrics.ranking_measures import (
    DEFAULT_MEASURES,
    JudgedRun,
    Pairs,
    RankingMeasure,
    parse_measures,
    ranking,
    table_of_ranks,
    value_table,
)
from ragbench.metrics.tidy import TidyScores, tidy
from ragbench.metrics.trec import refuse_duplicates, to_frame
from ragbench.plain_records import ids_in_known_form
from ragbench.registry import Measure, load_measures
from ragbench.types import Dataset, Qrels, Run

_GRADES = (0, 1, 2, 3, 4)  # of nearly all judgements


# options of other libraries -> what to write instead, for the error of a call that has them
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

    Values are in [0, 1], as defined in `ragbench.metrics.ranking_measures`. Every judged query has a row
    for each measure: 0 where the run lacks it, NaN (unscored) where its judgements are empty, as
    for an unanswerable question. Unjudged queries of the run are left out. If no query of the run
    is judged at all, the run has chunk ids where documents are judged, or the two arguments look
    exchanged, there is a DataWarning.

    Args:
        qrels: a dataset, {query_id: {doc_id: relevance}}, {query_id: [relevant doc_id, ...]}, or a DataFrame
            with the columns query_id, doc_id, relevance; also what `read_qrels` takes: a file of
            TREC, a frame of PyTerrier (qid, docno, label), an object of ranx.
        run: {query_id: {doc_id: score}}, {query_id: [doc_id, ...]} with the best documents first, or a
            DataFrame with the columns query_id, doc_id, score; also what `read_run` takes.
        measures: names as in ir_measures, e.g. ["nDCG@10", "P(rel=2)@5", "Judged@10"], and your own
            measures of the level "document" (`rb.Measure`, "package.module:attribute"). Default:
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
    """Raise DataError if `run` is several runs by name: these are mappings of three levels (name -> query ->
    documents), while a run has two.
    """
    if not isinstance(run, Mapping):
        return
    first = next(iter(run.values()), None)
    value = next(iter(first.values()), None) if isinstance(first, Mapping) else None
    if isinstance(value, Mapping | list):
        raise DataError(
            "run has several runs by name; score each, as in "
            "{name: rb.score_run(qrels, run) for name, run in runs.items()}, which rb.compare takes"
        )


def _named_and_own(measures: Any) -> tuple[Any, list[Measure]]:
    """Return the measures of ragbench by their names, and the user's own measures.

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
                f"measure {measure.name!r} scores answers, but there is only a ranking; name it in "
                f"rb.evaluate(data, system, measures=[...]), or define it with level='document'"
            )
    return named, own


def _score_own(qrels: Any, run: Any, measures: Sequence[Measure]) -> pd.DataFrame:
    """Score a ranking by measures of the user: rows as of `score_run`; NaN for a query without
    judgements (no function is called for it) and where a measure returns None.
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
    """Return query_id -> the value of a user's measure of rankings, for the queries with a judgement.

    A query that is not in the run has an empty ranking. Queries for which the measure returns None are
    left out.

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
    """Score a ranking by ragbench's measures, as `score_run` does. Warn if every value is 0 and the ids
    show why: no query is judged, or chunks are ranked where documents are judged.

    Raises:
        DataError: the types of the two arguments show that they are exchanged; or as in `score_run`.
    """
    names = [str(measure) for measure in parsed]
    ranks = ranks_of_dicts(qrels, run)  # fast, for plain dicts; None for any other form
    if ranks is not None:
        table = table_of_ranks(ranks, parsed)
        if np.nansum(table) > 0:  # else a warning may be due
            return tidy([*cast(Qrels, qrels)], names, table)
    _refuse_exchanged(qrels, run)
    judged, ranked = _judged_and_ranked(qrels, run)
    doc_ids = ranked["doc_id"].unique()
    if not all(map(str.isascii, doc_ids)):
        # the same id in another Unicode form, such as an accent as a separate sign
        known_form = ids_in_known_form(doc_ids, set(judged["doc_id"]))
        ranked = ranked.assign(doc_id=ranked["doc_id"].replace(known_form))
    _warn_of_exchange(judged, ranked)
    data = _numbered(qrels, judged, ranked)
    table = value_table(data, parsed)
    if not np.nansum(table) > 0:
        _warn_of_foreign_ids(data.query_ids, judged, ranked)
    return tidy(data.query_ids, names, table)


def _refuse_exchanged(qrels: Any, run: Any) -> None:
    """Raise DataError if the types of the values show that judgements and run are exchanged."""
    if not _are_all(run, int):
        return
    if _are_all(qrels, float):
        raise DataError(
            "the grades are numbers with a point and the scores are whole numbers; "
            f"{_EXCHANGED} If not, make the grades whole with int()"
        )
    if _are_lists(qrels):
        raise DataError(
            "the judgements are lists of documents and the scores are whole numbers; "
            f"{_EXCHANGED} If not, make the scores numbers with a point"
        )


def _judged_and_ranked(qrels: Any, run: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return judgements and a run in any form as frames (`to_frame`).

    Raises:
        DataError: one of them cannot be read; if both can be read the other way round, the message
            asks whether they were exchanged.
    """
    try:
        return to_frame(qrels, int), to_frame(run, float)
    except DataError as exc:
        try:
            to_frame(run, int)
            to_frame(qrels, float)
        except DataError:  # not exchanged
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
    values = judged.groupby("query_id", sort=False, observed=True)["relevance"]
    n_documents = values.size()
    all_differ = bool((values.nunique() == n_documents).all())
    exceed_grades = judged["relevance"].max() > max(_GRADES)
    most_documents = n_documents.max()
    look_like_scores = all_differ and most_documents > 1 and (exceed_grades or most_documents >= 3)
    if not look_like_scores:
        return
    grades = ranked.groupby("query_id", sort=False)["score"]
    n_graded = grades.size()
    are_fewer = n_graded.median() < n_documents.median()
    are_tied = bool((grades.nunique() < n_graded).any())
    if ranked["score"].isin(_GRADES).all() and (are_fewer or are_tied):
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
    unjudged = set(ranked["doc_id"]) - documents
    chunk_ids = [each for each in unjudged if each.rpartition("#")[0] in documents]
    if chunk_ids:
        warn_user(
            f"the run has chunk ids such as {min(chunk_ids)!r} where documents are judged, so every "
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
    """Return judgements and a run with a number in place of each query id and document id, from 0.

    The queries of `qrels` have the first numbers, in their order.

    Args:
        qrels: as the user gave them; a dictionary may have queries without a judgement, which count.
        judged: the same as a frame (`to_frame`).
        ranked: the run as a frame.

    Raises:
        DataError: there are no judgements, or a document is there twice for one query.
    """
    query_ids: list[str] = list(qrels) if isinstance(qrels, Mapping) else []
    query_ids = query_ids or judged["query_id"].unique().tolist()
    if not query_ids:
        raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
    # `factorize` numbers values in the order of their first occurrence: query_ids get 0, 1, 2, ...
    in_order = pd.Series(query_ids, dtype=judged["query_id"].dtype)
    queries, _ = pd.factorize(pd.concat([in_order, judged["query_id"], ranked["query_id"]]))
    queries = queries[len(query_ids) :].astype(np.int64)
    documents, doc_ids = pd.factorize(pd.concat([judged["doc_id"], ranked["doc_id"]]))
    documents = documents.astype(np.int64)
    n_judged = len(judged)
    grades = judged["relevance"].to_numpy()
    scores = ranked["score"].to_numpy()
    judged_pairs = Pairs(queries[:n_judged], documents[:n_judged], grades)
    ranked_pairs = Pairs(queries[n_judged:], documents[n_judged:], scores)
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
