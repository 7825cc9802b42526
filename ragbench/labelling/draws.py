"""The questions that people label next, and the difference of two systems by their labels: `trust`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, check_known, warn_user
from ragbench.evaluation import Result, Results
from ragbench.labelling.items import LabelItem, is_labelled, items_by_query, scale_of
from ragbench.labelling.relevance import document_items, unjudged, with_labels
from ragbench.labelling.sheet import COLUMNS, load_labels, read_sheet, source_code
from ragbench.metrics import score_run
from ragbench.registry import higher_is_better
from ragbench.statistics.agreement import human_frame
from ragbench.statistics.thresholds import ALPHA, MARGIN
from ragbench.statistics.trust import Trust, draw_order, estimate_difference
from ragbench.types import Chunk, Dataset, Qrels

PROXIES = {
    "correctness": ("llm_correctness", "gold_fact_coverage", "semantic_similarity", "token_f1"),
    "relevance": ("llm_relevance", "semantic_similarity"),
    "completeness": ("llm_completeness", "semantic_similarity"),
    "faithfulness": ("llm_faithfulness", "claim_support"),
}
"""Criterion -> the measures that may follow people's verdicts, a judge's first; other criteria have
only the judge's measure.
"""

_Values = TypeVar("_Values", pd.DataFrame, "pd.Series[float]")
_DRAWN = re.compile(r"drawn (\d+)")


def trust(
    results: Result | Sequence[Result],
    labels: Any = None,
    *,
    criterion: str = "correctness",
    margin: float = MARGIN,
    alpha: float = ALPHA,
    dataset: Dataset | None = None,
    grades: Qrels | None = None,
) -> Trust:
    """Return the difference of two systems by people's labels, second minus first, and the number of
    labels that will likely decide; for one system, its mean by people's labels.

    The interval is valid if labelling stops at the decision, or before, and holds for people's
    verdicts over all questions, however biased the judge is: see
    `ragbench.statistics.estimate_difference`. For correctness and relevance a missing answer counts
    0, and two answers of the same text differ by 0 without a label; for faithfulness only questions
    that both systems answered count.

    Args:
        results: one or two, of the same questions.
        labels: sheets (paths), or a frame with query_id, criterion, value, and for two results
            configuration. The labelled questions must be drawn by `ragbench label`, or at random
            (rows with another `picked` than "drawn 7", "random" or "" are left out). For a ranking
            measure: such a sheet of documents, with `dataset`; or relevance by people, query_id,
            doc_id, value, of all documents that count, for questions drawn at random.
        criterion: "correctness", "relevance", "completeness", "faithfulness", your own criterion
            that the results have, or a ranking measure of documents ("nDCG@10").
        margin: a difference that does not matter.
        alpha: probability that the interval is wrong.
        dataset: for a ranking measure, the documents and the existing labels.
        grades: labels of all documents that count, from a model where people's are missing, as from
            `ragbench.labelling.judge_relevance`; None = the labels of the dataset, or the results'
            scores.

    Raises:
        ConfigError: there are more than two results, or the criterion or measure is unknown.
        DataError: no label is of these answers.
    """
    if isinstance(results, Result):
        results = [results]
    # proxies: measures that predict the labels; settled: differences that need no label
    frame, settled = proxy_differences(Results(results), criterion, dataset, grades)
    if _are_paths(labels):
        answers = None
        if is_labelled(criterion):
            answers = {result.name: result.answers for result in results}
        labels = load_labels(labels, answers=answers)
    if labels is None or not len(labels):
        values = pd.Series(dtype=float)
    elif is_labelled(criterion):
        values = _of_answers(results, labels, criterion)
    else:
        values = _of_documents(results, labels, criterion, dataset)
    values = values[values.index.isin(frame.index)]
    estimate = estimate_difference(frame, values, settled=settled, margin=margin, alpha=alpha)
    if len(results) == 1:
        return replace(estimate, decision="mean", more=None, decided_after=None)
    is_lower_better = is_labelled(criterion) and not higher_is_better(f"llm_{criterion}")
    opposite = {"better": "worse", "worse": "better"}
    if is_lower_better and estimate.decision in opposite:
        return replace(estimate, decision=opposite[estimate.decision])
    return estimate


def _are_paths(labels: Any) -> bool:
    if isinstance(labels, str | Path):
        return True
    return isinstance(labels, Sequence) and bool(labels) and isinstance(labels[0], str | Path)


def draw_items(
    results: Sequence[Result],
    criterion: str = "correctness",
    *,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]] | None = None,
    grades: Qrels | None = None,
    sheet: str | Path = "",
    annotator: str = "me",
    n: int = 10,
    seed: int = 0,
) -> list[LabelItem]:
    """Return the answers of the next `n` questions to label; `picked` has the number of the question
    in the draw ("drawn 7").

    Wherever labelling ends, the labelled questions represent all strata (see `draw_order`): a label
    counts for as many questions as its stratum has per label. Answers that the annotator was given
    are not drawn again; questions that another annotator was given come first.

    Args:
        results: one or two.
        criterion: "correctness", "relevance", "faithfulness", or a ranking measure: then documents
            are labelled, the unlabelled ones among the first k.
        dataset: the questions, with reference answers.
        chunks: configuration -> the chunks that its answers were made from, shown as context.
        grades: as in `trust`.
        sheet: the sheet with earlier draws, "" for none.

    Raises:
        ConfigError: the criterion is unknown, there are more than two results, or faithfulness has no
            contexts.
        DataError: nothing can be labelled.
    """
    frame, _ = proxy_differences(results, criterion, dataset, grades)
    if is_labelled(criterion):
        items = items_by_query(results, criterion, dataset, chunks)
    else:
        items = document_items(dataset, [result.run for result in results], criterion)
    rows = _rows_by_criterion(sheet, criterion)
    known_items = {item.item_id for of_question in items.values() for item in of_question}
    if len(rows) and not rows["item"].isin(known_items).any():
        raise DataError(
            f"{Path(sheet).name} is of other results: none of its {len(rows)} rows by {criterion} is "
            f"of {_names(results)}; name another sheet"
        )
    rows["number"] = rows["picked"].str.extract(_DRAWN, expand=False)
    drawn_rows = rows.dropna(subset=["number"])
    order = [query_id for query_id in draw_order(frame, seed=seed) if query_id in items]
    given_items = {*drawn_rows.loc[drawn_rows["annotator"] == annotator, "item"]}
    next_items: list[LabelItem] = []
    n_questions = 0
    for query_id, number in _numbers_in_draw(drawn_rows, order).items():
        items_of_question = items.get(query_id, [])
        has_all = all(item.item_id in given_items for item in items_of_question)
        if n_questions == n or has_all:
            continue
        n_questions += 1
        for item in sorted(items_of_question, key=lambda item: item.item_id):
            next_items.append(replace(item, picked=f"drawn {number}"))
    return next_items


def _rows_by_criterion(sheet: str | Path, criterion: str) -> pd.DataFrame:
    """Return the rows of a sheet by a criterion; none if the sheet does not exist."""
    rows = pd.DataFrame(columns=COLUMNS, dtype=str)
    if sheet and Path(sheet).exists():
        rows = read_sheet(sheet)
    is_by_criterion = rows["criterion"] == _criterion_of_rows(criterion)
    return rows[is_by_criterion].copy()


def _numbers_in_draw(drawn_rows: pd.DataFrame, order: Sequence[str]) -> dict[str, int]:
    """Return question -> its number in the draw: first the questions that were drawn before, with
    their numbers, then the others in the `order` of the draw.
    """
    numbers = drawn_rows["number"].astype(int)
    first_numbers = numbers.groupby(drawn_rows["query_id"]).min().sort_values()
    number_of = {str(query_id): number for query_id, number in first_numbers.items()}
    next_number = max(number_of.values(), default=0) + 1
    for query_id in order:
        if query_id not in number_of:
            number_of[query_id] = next_number
            next_number += 1
    return number_of


def open_items(
    sheet: str | Path, criterion: str = "correctness", *, annotator: str = "me"
) -> pd.DataFrame:
    """Return the rows of a sheet that an annotator has not labelled by a criterion; no rows if the
    sheet does not exist.

    Raises:
        DataError: the file is not a sheet.
    """
    if not Path(sheet).exists():
        return pd.DataFrame(columns=COLUMNS, dtype=str)
    rows = read_sheet(sheet, annotator=annotator)
    return rows[rows["value"].isna() & (rows["criterion"] == _criterion_of_rows(criterion))]


def _criterion_of_rows(criterion: str) -> str:
    """Return the criterion in the rows of a sheet: "document" for a ranking measure."""
    return criterion if is_labelled(criterion) else "document"


def proxy_differences(
    results: Sequence[Result],
    criterion: str,
    dataset: Dataset | None = None,
    grades: Qrels | None = None,
) -> tuple[pd.DataFrame, list[float]]:
    """Return the proxies of the questions that need a label, and the differences of the questions that
    need none ([] if all need one).

    A proxy is a measure that is computed without people and tells something of what they would say,
    such as token F1. The frame has a row per question and a column per proxy: second result minus
    first, or the values of the only result. The list has the difference of each question that needs
    no label, because both results have the same answer (or the same documents, with `dataset`); a
    criterion that is a measure of the results has none.

    Raises:
        ConfigError: there are more than two results, or the criterion is unknown.
    """
    if not 1 <= len(results) <= 2:
        raise ConfigError(f"{len(results)} results; expected one, or the two to decide between")
    if is_labelled(criterion):
        return _by_answers(results, criterion)
    check_known("criterion", [*PROXIES, *results[0].scores["measure"].unique()], criterion)
    if dataset is not None:
        return _by_documents(results, criterion, dataset, grades or dataset.qrels)
    shared_questions = _shared(results)
    frames = [frame.loc[shared_questions] for frame in _columns(results, [criterion])]
    return _last_minus_first(frames).dropna(axis=1, how="all"), []


def _by_answers(results: Sequence[Result], criterion: str) -> tuple[pd.DataFrame, list[float]]:
    """Return `proxy_differences` for a criterion of answers.

    A question with two answers of the same text needs no label, and its difference is 0. If the
    criterion is about an answer's documents (faithfulness), only questions that both systems answered
    count, and all of them need a label; otherwise a missing answer counts 0.
    """
    needs_both = scale_of(criterion).by_documents
    texts = [_texts(result) for result in results]
    proxies = PROXIES.get(criterion, (f"llm_{criterion}",))
    frames = _columns(results, proxies)  # for each result, a row per question
    query_ids = _answered_and_scored(results, texts, frames, needs_both=needs_both)
    frames = [frame.loc[query_ids] for frame in frames]
    if needs_both:
        return _last_minus_first(frames).dropna(axis=1, how="all"), []
    for frame, answers in zip(frames, texts, strict=True):
        has_no_answer = ~frame.index.isin([*answers])
        frame[has_no_answer] = 0.0  # every proxy of these questions
    differences = _last_minus_first(frames).dropna(axis=1, how="all")
    if len(results) == 1:
        return differences, []
    first, second = texts
    is_same = np.array([first.get(i) == second.get(i) for i in differences.index], dtype=bool)
    n_settled = int(is_same.sum())  # equal answers, whose difference is 0
    return differences[~is_same], [0.0] * n_settled


def _answered_and_scored(
    results: Sequence[Result],
    texts: Sequence[Mapping[str, str]],
    frames: Sequence[pd.DataFrame],
    *,
    needs_both: bool,
) -> list[str]:
    """Return the questions that can be labelled: asked in every result, answered in one of them, and
    with a proxy value, if there are any.

    Args:
        results: one result or two.
        texts: for each result, question -> its answer.
        frames: for each result, its proxies, a row per question.
        needs_both: a question counts only if every result answered it.
    """
    has_proxies = frames[0].shape[1] > 0
    with_proxy: set[str] = set()
    for frame in frames:
        with_proxy.update(frame.dropna(how="all").index)
    min_answers = len(results) if needs_both else 1
    query_ids = []
    for query_id in _shared(results):
        n_answers = sum(query_id in answers for answers in texts)
        is_scored = query_id in with_proxy or not has_proxies
        if n_answers >= min_answers and is_scored:
            query_ids.append(query_id)
    return query_ids


def _shared(results: Sequence[Result]) -> list[str]:
    """Return the questions of both results, in the order of the first."""
    return [query_id for query_id in results[0].queries if query_id in results[-1].queries]


def _columns(results: Sequence[Result], measures: Sequence[str]) -> list[pd.DataFrame]:
    """Return each result's columns of the measures that are scored in all results, at least on one
    question.
    """
    tables = [result.wide for result in results]
    common = []
    for name in measures:
        if all(name in table and table[name].notna().any() for table in tables):
            common.append(name)
    return [table[common] for table in tables]


def _by_documents(
    results: Sequence[Result], measure: str, dataset: Dataset, grades: Qrels
) -> tuple[pd.DataFrame, list[float]]:
    """Return `proxy_differences` for a ranking measure: the proxy is the measure by the labels in
    `grades`, and a question needs people's labels if one of its first k documents has none in the
    dataset.
    """
    pools = unjudged(dataset, [result.run for result in results], measure)
    is_open = [bool(pool) for pool in pools.values()]  # a document of the question has no label
    values = _difference(results, measure, {q: grades.get(q, {}) for q in pools})
    judged_measure = "Judged@" + measure.rpartition("@")[2]
    people_grades = {q: dataset.qrels.get(q, {}) for q in pools}
    judged = _difference(results[:1], judged_measure, people_grades)
    name = f"{measure} by the labels at hand (people's: {judged_measure} {judged.mean():.2f})"
    return values[is_open].to_frame(name), values.drop(values.index[is_open]).tolist()


def _difference(results: Sequence[Result], measure: str, qrels: Qrels) -> pd.Series[float]:
    """Return question -> the difference of a ranking measure by the labels `qrels`, second result minus
    first, or the value of the only result; an unscored question counts 0. Empty without labels.
    """
    if not qrels:
        return pd.Series(dtype=float)
    values = []
    for result in results:
        scores = score_run(qrels, result.run, [measure])
        values.append(scores.set_index("query_id")["value"].fillna(0.0))
    return _last_minus_first(values)


def _last_minus_first(values: Sequence[_Values]) -> _Values:
    """Return the difference of the two, or the only one."""
    return values[0] if len(values) == 1 else values[1] - values[0]


def _texts(result: Result) -> dict[str, str]:
    """Return query_id -> answer with single blanks, for the questions that were answered."""
    return {
        answer.query_id: " ".join(answer.text.split())
        for answer in result.answers
        if answer.attempted
    }


def _table(labels: Any, criterion: str) -> pd.DataFrame:
    """Return people's labels by a criterion, of questions that were drawn at random.

    The column `number` is the question's number in the draw, NaN for "random". Labels of questions
    that were picked by hand would bias the estimate: they are left out with a warning.

    Raises:
        DataError: no label is by this criterion.
    """
    table = human_frame(labels)
    by_criterion = table["criterion"] == criterion
    if not by_criterion.any():
        others = ", ".join(sorted(table["criterion"].unique()))
        raise DataError(
            f"none of {len(table)} labels is by {criterion}: they are by {others}; name that "
            "criterion, or another sheet"
        )
    table = table[by_criterion]
    is_drawn = table["picked"].str.fullmatch(r"(random|drawn \d+)?")
    if not is_drawn.all():
        first = table["picked"][~is_drawn].iloc[0]
        warn_user(
            f"{(~is_drawn).sum()} of {len(table)} labels are of questions that were picked ({first!r}) "
            "and not drawn at random; they are left out"
        )
    table = table[is_drawn]
    table["number"] = table["picked"].str.extract(_DRAWN, expand=False).astype(float)
    return table


def _in_turn(query_ids: list[str], table: pd.DataFrame) -> pd.Index[str]:
    """Return questions in the order of the draw, up to the first gap: a skipped question may be a hard
    one, so it holds back the later ones. Questions without a number come last, in random order.
    """
    numbers = table.groupby("query_id")["number"].min().reindex(query_ids)
    numbers = numbers.sample(frac=1, random_state=0).sort_values(kind="stable")
    return numbers.index[numbers.rank(method="min").eq(numbers) | numbers.isna()]


def _of_answers(results: Sequence[Result], labels: Any, criterion: str) -> pd.Series[float]:
    """Return question -> the difference of people's labels, second result minus first (the label itself
    for one result), for the questions with a label of each answer, in the order of the draw.
    """
    table = _table(labels, criterion)
    if len(results) == 1:
        table = table[table["configuration"].isin(["", results[0].name])]
        table = table.assign(configuration=results[0].name)
    is_known = table["configuration"].isin([result.name for result in results])
    _check_known(is_known & table["query_id"].isin(results[0].queries), labels, results)
    values = table.pivot_table(index="query_id", columns="configuration", values="human")
    values = values.reindex(columns=[result.name for result in results])
    if not scale_of(criterion).by_documents:
        for result in results:
            is_missing = ~values.index.isin([*_texts(result)])
            values.loc[is_missing, result.name] = 0.0
    values = values.dropna()
    values = values.loc[_in_turn([*values.index], table)]
    return _last_minus_first([values[result.name] for result in results])


def _check_known(is_known: pd.Series[bool], labels: Any, results: Sequence[Result]) -> None:
    """Raise DataError if there are labels, and none is of these results."""
    if len(is_known) and not is_known.any():
        raise DataError(
            f"none of {len(labels)} labels is of {_names(results)}; pass the results that were "
            "labelled, or their sheet"
        )


def _names(results: Sequence[Result]) -> str:
    return " and ".join(repr(result.name) for result in results)


def _of_documents(
    results: Sequence[Result], labels: Any, measure: str, dataset: Dataset | None
) -> pd.Series[float]:
    """Return question -> the difference of a ranking measure by people's relevance labels.

    Args:
        results: one result or two.
        labels: a frame with query_id, doc_id and value (a grade); or the rows of a sheet of
            documents, whose labels are added to the labels of `dataset`. A question of a sheet counts
            once every document among the first k of any result is labelled, in the dataset or the
            sheet.
        measure: the ranking measure.
        dataset: the dataset of the results; None is enough for a frame.

    Raises:
        ConfigError: the labels are a sheet, and `dataset` is None.
        DataError: no label is of these results.
    """
    labels = pd.DataFrame(labels)
    if "doc_id" in labels:
        return _difference(results, measure, _grades_of_frame(results, labels))
    if dataset is None:
        raise ConfigError(f"{measure} by a sheet of documents takes the dataset; pass dataset=")
    open_documents = unjudged(dataset, [result.run for result in results], measure)
    table = _table(labels, "document")
    codes = table["configuration"]  # a sheet has the code of the document in this column
    doc_id_of = {}
    for doc_ids in open_documents.values():
        for doc_id in doc_ids:
            doc_id_of[source_code(doc_id)] = doc_id
    is_known = codes.isin(doc_id_of) & table["query_id"].isin(open_documents)
    _check_known(is_known, labels, results)
    table = table.assign(doc_id=codes.map(doc_id_of))
    return _difference(results, measure, _grades_of_sheet(table, dataset, open_documents))


def _grades_of_sheet(
    table: pd.DataFrame, dataset: Dataset, open_documents: Mapping[str, Sequence[str]]
) -> Qrels:
    """Return the grades of each question whose open documents all have a label in a sheet, in the order
    of the draw; the labels of `dataset` are among the grades.

    Args:
        table: the labels of the sheet, as from `_table`, with a column `doc_id`.
        dataset: the dataset, with its labels.
        open_documents: query_id -> the documents among the first k of any result that have no label
            in `dataset`.
    """
    mean_labels = table.groupby(["query_id", "doc_id"])["human"].mean()
    grades = with_labels(dataset, mean_labels.items())
    complete = []
    for query_id, doc_ids in open_documents.items():
        if doc_ids and all(doc_id in grades[query_id] for doc_id in doc_ids):
            complete.append(query_id)
    return {query_id: grades[query_id] for query_id in _in_turn(complete, table)}


def _grades_of_frame(results: Sequence[Result], labels: pd.DataFrame) -> Qrels:
    """Return the grades of a frame of relevance labels, its questions in random order."""
    _check_known(labels["query_id"].astype(str).isin(results[0].queries), labels, results)
    grades: Qrels = {}
    for row in labels.sample(frac=1, random_state=0).to_dict("records"):
        of_query = grades.setdefault(str(row["query_id"]), {})
        of_query[str(row["doc_id"])] = int(row["value"])
    return grades
