"""`rb.trust`: which questions people label next, up to which of the drawn questions labels are
used, and the measures that may predict them; the estimate is in `statistics/trust`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, check_known, warn_user
from ragbench.evaluation import Result, Results
from ragbench.labelling.items import LabelItem, is_answer_criterion, items_by_query, scale_of
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
    labels that will likely decide; for one system, return its mean by people's labels.

    The interval holds for people's verdicts over all questions, however biased the judge is, and
    labelling may stop at the decision or before: see `ragbench.statistics.estimate_difference`.

    A missing answer counts 0, and two answers of the same text differ by 0 without a label. For
    faithfulness, however, only questions that both systems answered count, and all need labels.

    Args:
        results: one or two, of the same questions.
        labels: sheets (paths), or a frame with query_id, criterion, value, and for two results
            configuration. The labelled questions must be drawn by `ragbench label`, or at random:
            rows whose `picked` is neither "drawn" with a number, "random" nor "" are left out. For a
            ranking measure: such a sheet of documents, with `dataset`; or a frame with query_id,
            doc_id and value, people's grades of all documents that count, for questions drawn at
            random.
        criterion: "correctness", "relevance", "completeness", "faithfulness", your own criterion
            that the results have, or a ranking measure of documents ("nDCG@10").
        margin: a difference that does not matter.
        alpha: probability that the interval is wrong.
        dataset: for a ranking measure, the documents and the existing labels. Without it, the scores in
            the results predict people's labels.
        grades: for a ranking measure with `dataset`, grades of all documents that count, such as those
            of `ragbench.labelling.judge_relevance`, which adds a model's to people's. None means the
            labels of the dataset.

    Raises:
        ConfigError: there are more than two results, or the criterion or measure is unknown.
        DataError: no label is of these answers.
    """
    if isinstance(results, Result):
        results = [results]
    # known without people: predictions of their labels, and the questions that need none
    differences = proxy_differences(Results(results), criterion, dataset, grades)
    if _are_paths(labels):
        labels = _load_sheets(labels, results, criterion)
    by_people = _label_differences(results, labels, criterion, dataset)
    # labels of settled questions, which need none, are ignored
    by_people = by_people[by_people.index.isin(differences.proxies.index)]
    estimate = estimate_difference(
        differences.proxies, by_people, settled=differences.settled, margin=margin, alpha=alpha
    )
    if len(results) == 1:  # there is nothing to decide, only a mean to state
        return replace(estimate, decision="mean", more=None, decided_after=None)
    is_lower_better = is_answer_criterion(criterion) and not higher_is_better(f"llm_{criterion}")
    # the estimate takes a higher value for the better one. The difference keeps its sign; only the
    # word for it is turned
    opposite = {"better": "worse", "worse": "better"}
    if is_lower_better and estimate.decision in opposite:
        return replace(estimate, decision=opposite[estimate.decision])
    return estimate


def _label_differences(
    results: Sequence[Result], labels: Any, criterion: str, dataset: Dataset | None
) -> pd.Series[float]:
    """Return question -> the difference of people's labels, second result minus first, in the order
    of the draw; for one result, question -> its label. Without labels, return an empty series.
    """
    if labels is None or not len(labels):
        return pd.Series(dtype=float)
    if is_answer_criterion(criterion):
        return _answer_label_differences(results, labels, criterion)
    return _document_label_differences(results, labels, criterion, dataset)


def _are_paths(labels: Any) -> bool:
    """Return True for the path of a sheet, or a list of paths."""
    if isinstance(labels, str | Path):
        return True
    return isinstance(labels, Sequence) and bool(labels) and isinstance(labels[0], str | Path)


def _load_sheets(
    paths: str | Path | Sequence[str | Path], results: Sequence[Result], criterion: str
) -> pd.DataFrame:
    """Return the labels of sheets; labels of answers only if the results have the answer now."""
    if not is_answer_criterion(criterion):  # labels of documents
        return load_labels(paths)
    return load_labels(paths, answers={result.name: result.answers for result in results})


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
    """Return the next `n` questions to label, an item for each answer; `picked` has the number of the
    question in the draw ("drawn 7").

    1. Questions that were drawn earlier, also for another annotator, come first, as they are numbered.
    2. The others follow in an order (see `draw_order`) in which the first ones represent all questions,
       wherever labelling ends.
    3. Questions of which this annotator was given all items are left out.
    4. The first `n` are returned, each with all its items; `label_sheet` adds those that the sheet lacks.

    Args:
        results: one or two.
        criterion: "correctness", "relevance", "faithfulness", or a ranking measure: then an item is
            a document among the first k that has no label.
        dataset: the questions, with reference answers.
        chunks: configuration -> the chunks that its answers were made from, shown as context.
        grades: for a ranking measure, grades of all documents that count; None means the labels of the
            dataset.
        sheet: the sheet with earlier draws, "" for none.

    Raises:
        ConfigError: the criterion is unknown, there are more than two results, or faithfulness has no
            contexts.
        DataError: nothing can be labelled.
    """
    proxies = proxy_differences(results, criterion, dataset, grades).proxies
    if is_answer_criterion(criterion):
        items = items_by_query(results, criterion, dataset, chunks)
    else:
        items = document_items(dataset, [result.run for result in results], criterion)
    # the rows of earlier draws
    rows = _rows_by_criterion(sheet, criterion)
    _check_sheet_is_of_items(rows, items, results, criterion, sheet)
    # "7" of "drawn 7"; missing in rows that were picked in another way
    rows["number"] = rows["picked"].str.extract(_DRAWN, expand=False)
    drawn_rows = rows.dropna(subset=["number"])
    order = [query_id for query_id in draw_order(proxies, seed=seed) if query_id in items]
    # question -> its number in the draw, the questions of earlier draws first, with their old numbers
    number_of = _numbers_in_draw(drawn_rows, order)

    ids_of_annotator = {*drawn_rows.loc[drawn_rows["annotator"] == annotator, "item"]}
    next_questions = []  # with an item that the annotator was not given yet
    for query_id in number_of:
        if any(item.item_id not in ids_of_annotator for item in items.get(query_id, [])):
            next_questions.append(query_id)
    next_items = []
    for query_id in next_questions[:n]:
        for item in sorted(items[query_id], key=lambda item: item.item_id):
            next_items.append(replace(item, picked=f"drawn {number_of[query_id]}"))
    return next_items


def _rows_by_criterion(sheet: str | Path, criterion: str) -> pd.DataFrame:
    """Return the rows of a sheet by a criterion; none if `sheet` is "" or does not exist."""
    if not sheet or not Path(sheet).exists():
        return pd.DataFrame(columns=COLUMNS, dtype=str)
    rows = read_sheet(sheet)
    return rows[rows["criterion"] == _criterion_of_rows(criterion)].copy()


def _check_sheet_is_of_items(
    rows: pd.DataFrame,
    items: Mapping[str, Sequence[LabelItem]],
    results: Sequence[Result],
    criterion: str,
    sheet: str | Path,
) -> None:
    """Raise DataError if a label sheet is of other results: it has `rows` by the criterion, and none of
    them is of the `items` to label (question -> items).
    """
    item_ids: set[str] = set()
    for items_of_question in items.values():
        item_ids.update(item.item_id for item in items_of_question)
    if len(rows) and not rows["item"].isin(item_ids).any():
        raise DataError(
            f"{Path(sheet).name} belongs to other results: none of its {len(rows)} rows by {criterion} is "
            f"about {_names(results)}; name another sheet"
        )


def _numbers_in_draw(drawn_rows: pd.DataFrame, order: Sequence[str]) -> dict[str, int]:
    """Return question -> its number in the draw, the order in which questions are labelled.

    Questions that were drawn before keep their numbers. The others follow in the `order` of the new
    draw. `drawn_rows` has the rows of a label sheet with query_id and number.
    """
    # the rows of a question, one for each answer and annotator, have one number
    earlier_numbers = drawn_rows["number"].astype(int).groupby(drawn_rows["query_id"]).min()
    number_of = {str(i): number for i, number in earlier_numbers.sort_values().items()}
    others = [query_id for query_id in order if query_id not in number_of]
    first_free = max(number_of.values(), default=0) + 1
    for number, query_id in enumerate(others, first_free):
        number_of[query_id] = number
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
    return criterion if is_answer_criterion(criterion) else "document"


class ProxyDifferences(NamedTuple):
    """The differences of two results, second minus first (or the values of one), without people.

    `proxies` has a row for each question that needs a label, and a column for each proxy: a measure
    that is computed without people and predicts their labels, such as token F1. `settled` has the
    difference of each question that needs no label.
    """

    proxies: pd.DataFrame
    settled: list[float]


def proxy_differences(
    results: Sequence[Result],
    criterion: str,
    dataset: Dataset | None = None,
    grades: Qrels | None = None,
) -> ProxyDifferences:
    """Return for each question the difference of two results by proxies; for one result, its values.

    A proxy is a measure that is known without people's labels, such as a judge's verdict. A question that
    needs no label is settled: both results have the same answer or, for a ranking measure, all documents
    that it looks at have a label in `dataset`.

    Args:
        results: one or two.
        criterion: a criterion of answers, or a ranking measure such as "nDCG@10".
        dataset: for a ranking measure, has the existing labels. Without it no question is settled, and
            the proxy is the score in the results.
        grades: for a ranking measure with `dataset`, the labels by which the proxy is computed; None
            means the labels of the dataset.

    Raises:
        ConfigError: there are more than two results, or the criterion is unknown.
    """
    if not 1 <= len(results) <= 2:
        raise ConfigError(f"{len(results)} results; expected one, or the two to decide between")
    if is_answer_criterion(criterion):
        return _answer_proxies(results, criterion)
    measures = results[0].scores["measure"].unique()
    check_known("criterion", [*PROXIES, *measures], criterion)  # PROXIES: the criteria of answers
    if dataset is not None:
        return _document_proxies(results, criterion, dataset, grades or dataset.qrels)
    query_ids = _shared_questions(results)
    frames = [frame.loc[query_ids] for frame in _scored_columns(results, [criterion])]
    return ProxyDifferences(_differences_by_proxy(frames), settled=[])


def _answer_proxies(results: Sequence[Result], criterion: str) -> ProxyDifferences:
    """Return for each question the difference of two results by the proxies of a criterion of answers; for
    one result, its values. A proxy is a measure that is known without people's labels.

    For most criteria a missing answer counts 0, and a question with two answers of the same text is
    settled: its difference is 0, and it needs no label. If the criterion is about an answer's documents
    (faithfulness), only questions that both systems answered count, and all of them need a label. With one
    result no question is settled.
    """
    needs_both = scale_of(criterion).by_documents
    texts = [_answer_texts(result) for result in results]  # question -> answer
    proxies = PROXIES.get(criterion, (f"llm_{criterion}",))
    # for each result, a row per question and a column per proxy that it has
    frames = _scored_columns(results, proxies)
    query_ids = _questions_to_label(results, texts, frames, needs_both=needs_both)
    frames = [frame.loc[query_ids] for frame in frames]
    if not needs_both:
        for frame, text_of in zip(frames, texts, strict=True):
            has_no_answer = ~frame.index.isin([*text_of])
            frame.loc[has_no_answer, :] = 0.0
    differences = _differences_by_proxy(frames)
    if needs_both or len(results) == 1:
        return ProxyDifferences(differences, settled=[])
    first, second = texts
    # the same text gets the same verdict (each question has an answer in at least one result)
    is_settled = np.array([first.get(i) == second.get(i) for i in differences.index], dtype=bool)
    return ProxyDifferences(differences[~is_settled], settled=[0.0] * int(is_settled.sum()))


def _differences_by_proxy(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the differences of one or two results, a row per question and a column per proxy, without
    the proxies that have no difference; `frames` has the proxies of each result.
    """
    return _last_minus_first(frames).dropna(axis=1, how="all")


def _questions_to_label(
    results: Sequence[Result],
    texts: Sequence[Mapping[str, str]],
    frames: Sequence[pd.DataFrame],
    *,
    needs_both: bool,
) -> list[str]:
    """Return the questions that can be labelled.

    These questions were asked in every result, and answered in at least one. If the results have proxies
    (measures that are known without people's labels), at least one result also has a value of at least one
    proxy for the question.

    Args:
        results: one result or two.
        texts: for each result, question -> its answer.
        frames: for each result, its proxies, a row per question.
        needs_both: a question counts only if every result answered it.
    """
    has_proxies = frames[0].shape[1] > 0
    with_value: set[str] = set()  # of any proxy in any result
    for frame in frames:
        with_value.update(frame.dropna(how="all").index)
    n_needed = len(texts) if needs_both else 1
    query_ids = []
    for query_id in _shared_questions(results):
        answers = [text_of[query_id] for text_of in texts if query_id in text_of]
        is_scored = query_id in with_value or not has_proxies
        if len(answers) >= n_needed and is_scored:
            query_ids.append(query_id)
    return query_ids


def _shared_questions(results: Sequence[Result]) -> list[str]:
    """Return the questions of both results, in the order of the first."""
    return [query_id for query_id in results[0].queries if query_id in results[-1].queries]


def _scored_columns(results: Sequence[Result], measures: Sequence[str]) -> list[pd.DataFrame]:
    """Return for each result a table of some measures, a row per question: the ones among `measures` that every
    result has a score of on some question.
    """
    tables = [result.wide for result in results]
    scored_in_all = []
    for name in measures:
        if all(name in table and table[name].notna().any() for table in tables):
            scored_in_all.append(name)
    return [table[scored_in_all] for table in tables]


def _document_proxies(
    results: Sequence[Result], measure: str, dataset: Dataset, grades: Qrels
) -> ProxyDifferences:
    """Return for each question the difference of two results by a ranking measure such as nDCG@10, computed
    with the labels in `grades`; for one result, its value.

    A question needs people's labels if a document among the first k of any result has no label in the
    dataset; else its difference is settled. The name of the column states the fraction of the first
    result's documents that people have judged.
    """
    # query_id -> the documents among the first k of any result that have no label in the dataset
    unlabelled = unjudged(dataset, [result.run for result in results], measure)
    all_grades = {query_id: grades.get(query_id, {}) for query_id in unlabelled}
    differences = _measure_differences(results, measure, all_grades)

    # the mean fraction of the first result's first k documents that people have judged
    k = measure.rpartition("@")[2]
    people_grades = {query_id: dataset.qrels.get(query_id, {}) for query_id in unlabelled}
    judged = _measure_values(results[0], f"Judged@{k}", people_grades)
    name = f"{measure} by the labels at hand (people's: Judged@{k} {judged.mean():.2f})"

    needs_labels = np.array([bool(unlabelled[i]) for i in differences.index], dtype=bool)
    settled = differences[~needs_labels].tolist()
    return ProxyDifferences(differences[needs_labels].to_frame(name), settled)


def _measure_differences(results: Sequence[Result], measure: str, qrels: Qrels) -> pd.Series[float]:
    """Return question -> the difference of a ranking measure by the labels `qrels`, second result minus
    first; for one result, question -> its value. An unscored question counts 0.
    """
    return _last_minus_first([_measure_values(result, measure, qrels) for result in results])


def _measure_values(result: Result, measure: str, qrels: Qrels) -> pd.Series[float]:
    """Return question -> the value of a ranking measure by the labels `qrels`, 0 if it is unscored; an
    empty series without labels.
    """
    if not qrels:
        return pd.Series(dtype=float)
    scores = score_run(qrels, result.run, [measure])
    return scores.set_index("query_id")["value"].fillna(0.0)


def _last_minus_first(values: Sequence[_Values]) -> _Values:
    """Return the second values minus the first; the values themselves if they are the only ones."""
    return values[0] if len(values) == 1 else values[1] - values[0]


def _answer_texts(result: Result) -> dict[str, str]:
    """Return query_id -> answer with single blanks, for the questions that were answered."""
    answered = [answer for answer in result.answers if answer.attempted]
    return {answer.query_id: " ".join(answer.text.split()) for answer in answered}


def _labels_of_drawn_questions(labels: Any, criterion: str) -> pd.DataFrame:
    """Return people's labels by a criterion, of questions that were drawn at random.

    The column `number` is the question's number in the draw, NaN for "random". Labels of questions
    that were picked by hand would bias the estimate: they are left out with a warning.

    Raises:
        DataError: no label is by this criterion.
    """
    every_label = human_frame(labels)
    by_criterion = every_label[every_label["criterion"] == criterion]
    if by_criterion.empty:
        others = ", ".join(sorted(every_label["criterion"].unique()))
        raise DataError(
            f"none of {len(every_label)} labels is by {criterion}: they are by {others}; name that "
            "criterion, or another sheet"
        )
    # an empty cell counts as drawn at random
    is_drawn = by_criterion["picked"].str.fullmatch(r"(random|drawn \d+)?")
    by_hand = by_criterion[~is_drawn]
    if len(by_hand):
        first = by_hand["picked"].iloc[0]
        warn_user(
            f"{len(by_hand)} of {len(by_criterion)} labels are of questions that were picked "
            f"({first!r}) and not drawn at random; they are left out"
        )
    drawn = by_criterion[is_drawn].copy()
    drawn["number"] = drawn["picked"].str.extract(_DRAWN, expand=False).astype(float)
    return drawn


def _drawn_until_first_gap(query_ids: list[str], table: pd.DataFrame) -> pd.Index[str]:
    """Return completely labelled questions in the order of the draw, up to the first drawn question that
    is not among them.

    The questions after a gap are left out, because a skipped question may be a hard one. Questions
    without a number come last, in random order: the numbers 1, 2, 4 and none become 1, 2 and none.

    Args:
        query_ids: the questions that have all their labels.
        table: labels, with the columns query_id and number (of the question in the draw, from 1).
    """
    numbers = table.groupby("query_id")["number"].min().reindex(query_ids)
    numbers = numbers.sample(frac=1, random_state=0).sort_values(kind="stable")  # NaN is last
    is_before_gap = numbers.rank(method="min").eq(numbers)  # 1st has number 1, 2nd number 2, ...
    return numbers.index[is_before_gap | numbers.isna()]


def _answer_label_differences(
    results: Sequence[Result], labels: Any, criterion: str
) -> pd.Series[float]:
    """Return question -> the difference of people's labels, second result minus first, in the order
    of the draw; for one result, question -> the label of its answer. The label of an answer is the mean
    over annotators.

    Only questions count whose answers all have a label, up to the first drawn question with an answer
    that has none.
    """
    table = _labels_of_drawn_questions(labels, criterion)
    names = [result.name for result in results]
    if len(results) == 1:  # the labels of a single result may name no configuration
        is_of_result = table["configuration"].isin(["", *names])
        table = table[is_of_result].assign(configuration=names[0])
    is_of_results = table["configuration"].isin(names) & table["query_id"].isin(results[0].queries)
    _check_any_of_results(is_of_results, labels, results)
    # a row per question and a column per result; without the questions that lack a label
    mean_labels = _mean_labels(table, results, criterion).dropna()
    # from `table` only the number of each question in the draw is used
    query_ids = _drawn_until_first_gap([*mean_labels.index], table)
    mean_labels = mean_labels.loc[query_ids]
    return _last_minus_first([mean_labels[name] for name in names])


def _mean_labels(table: pd.DataFrame, results: Sequence[Result], criterion: str) -> pd.DataFrame:
    """Return the mean label of the annotators, a row per question and a column per result; NaN for an
    answer without a label.

    A missing answer counts 0, unless the criterion is about the answer's documents.
    """
    # pivot_table takes the mean by default; the column "human" has the labels
    mean_labels = table.pivot_table(index="query_id", columns="configuration", values="human")
    mean_labels = mean_labels.reindex(columns=[result.name for result in results])
    if not scale_of(criterion).by_documents:
        for result in results:
            has_no_answer = ~mean_labels.index.isin([*_answer_texts(result)])
            mean_labels.loc[has_no_answer, result.name] = 0.0
    return mean_labels


def _check_any_of_results(
    is_of_results: pd.Series[bool], labels: Any, results: Sequence[Result]
) -> None:
    """Raise DataError if there are labels, and none of them is of these results.

    `is_of_results` is True for each label that is.
    """
    if len(is_of_results) and not is_of_results.any():
        raise DataError(
            f"none of {len(labels)} labels is about {_names(results)}; pass the results that were "
            "labelled, or their sheet"
        )


def _names(results: Sequence[Result]) -> str:
    """Return the names of one or two results, for a message: "'bm25' and 'dense'"."""
    return " and ".join(repr(result.name) for result in results)


def _document_label_differences(
    results: Sequence[Result], labels: Any, measure: str, dataset: Dataset | None
) -> pd.Series[float]:
    """Return question -> the difference of a ranking measure by people's relevance labels, second result
    minus first; for one result, question -> its value.

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
        grades = _grades_of_labels(results, labels)
        return _measure_differences(results, measure, grades)
    if dataset is None:
        raise ConfigError(
            f"{measure} from a sheet of labelled documents needs the dataset; pass dataset="
        )
    # query_id -> the documents among the first k of any result that have no label in the dataset
    unlabelled = unjudged(dataset, [result.run for result in results], measure)
    table = _with_doc_ids(_labels_of_drawn_questions(labels, "document"), unlabelled)
    is_of_results = table["doc_id"].notna() & table["query_id"].isin(unlabelled)
    _check_any_of_results(is_of_results, labels, results)
    grades = _grades_of_sheet(table, dataset, unlabelled)
    return _measure_differences(results, measure, grades)


def _with_doc_ids(table: pd.DataFrame, unlabelled: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the labels of a sheet of documents with the column `doc_id`, which is missing for a document
    that is not among the values of `unlabelled` (query_id -> documents).

    Instead of the name of a document the sheet has its code, in the column of the configuration.
    """
    doc_id_of: dict[str, str] = {}  # code -> document
    for doc_ids in unlabelled.values():
        doc_id_of |= {source_code(doc_id): doc_id for doc_id in doc_ids}
    return table.assign(doc_id=table["configuration"].map(doc_id_of))


def _grades_of_sheet(
    table: pd.DataFrame, dataset: Dataset, unlabelled: Mapping[str, Sequence[str]]
) -> Qrels:
    """Return query_id -> document -> grade, from the labels of `dataset` and of a sheet together.

    Only questions that lack labels in the dataset are returned, and of these only questions for which the
    sheet has all missing labels. They are in the order of the draw (their numbers 1, 2, 3, ...). The first
    number without such a question ends the list, whatever the reason: questions after it are left out.

    Args:
        table: the labels of the sheet, as from `_labels_of_drawn_questions`, with a column `doc_id`.
            Rows without a `doc_id` are left out.
        dataset: the dataset, with its labels.
        unlabelled: query_id -> the documents without a label in `dataset` that a result has among its
            first k.
    """
    # several annotators may label a document; rows without a doc_id are in no group
    mean_labels = table.groupby(["query_id", "doc_id"])["human"].mean()
    # a label from 0 to 1 is rounded to a grade of the dataset
    grades = with_labels(dataset, mean_labels.items())
    complete = []
    for query_id, doc_ids in unlabelled.items():
        lacks_labels_in_dataset = bool(doc_ids)
        has_all_labels = grades[query_id].keys() >= set(doc_ids)
        if lacks_labels_in_dataset and has_all_labels:
            complete.append(query_id)
    query_ids = _drawn_until_first_gap(complete, table)
    return {query_id: grades[query_id] for query_id in query_ids}


def _grades_of_labels(results: Sequence[Result], labels: pd.DataFrame) -> Qrels:
    """Return query_id -> doc_id -> grade from a frame with query_id, doc_id and value.

    The questions are in random order, because the estimate takes them for a random draw, and the order
    of the frame may depend on the questions.
    """
    is_of_results = labels["query_id"].astype(str).isin(results[0].queries)
    _check_any_of_results(is_of_results, labels, results)
    grades: Qrels = {}
    for row in labels.sample(frac=1, random_state=0).to_dict("records"):
        grades_of_query = grades.setdefault(str(row["query_id"]), {})
        grades_of_query[str(row["doc_id"])] = int(row["value"])
    return grades
