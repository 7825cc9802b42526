"""Which part of a system failed, question by question: the search, the answer, both or none; when a
search or an answer counts as good for this.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from ragbench.evaluation import Result
from ragbench.evaluation.wordings import measures_of, wordings_in
from ragbench.metrics.groundedness.support import claim_support
from ragbench.metrics.retrieval import ceilings, score_run
from ragbench.metrics.retrieval_levels import merge_alternatives
from ragbench.types import Dataset, Qrels, Run

_TESTS = {"llm_correctness": "judge", "gold_fact_coverage": "gold facts"}
"""Measure -> what tested the answer; the first that was scored decides."""

_BY_DOCUMENTS = "relevant documents"
_BY_OUTCOME = "outcome"
_ANSWERED = ("success", "uncertain")
"""Outcomes with an answer; one without citations is uncertain, and may be right."""

_RIGHT = 0.5  # value from which an answer is right
_MOST = 5  # relevant documents that an answer is compared with
_ROUNDING = 1e-9

VERDICTS = ("retrieval failed", "generation failed", "both", "none")
_UNDECIDED = "undecided"


def part_verdicts(
    dataset: Dataset, answered: Result, searched: Result, *, k: int, min_grade: int, share: float
) -> pd.DataFrame:
    """Return for each question the part that failed: retrieval, generation, both or none.

    Retrieval has failed if its recall is below a fraction (`share`) of the best possible recall.

    Generation has failed if the answer is wrong. It is tested by the first of these that exists: a
    judge's verdict of correctness; the gold facts (statements that the right answer makes); the
    relevant documents, which show only whether they support the answer, not whether it is true.

    The verdicts are: "retrieval failed" (the answer is right all the same), "generation failed"
    (enough was found, the answer is wrong), "both", "none", and "undecided" if no document is
    relevant or nothing tested the answer.

    Args:
        dataset: the questions.
        answered: the result of the system whose answers are judged.
        searched: the result of the system whose passages are judged.
        k: documents that count as found.
        min_grade: the grade from which a document is relevant.
        share: fraction of the best possible recall at `k` below which retrieval has failed.

    Returns:
        query_id, question, answer, outcome, relevant (the number of relevant documents), recall and
        ceiling (the best possible recall; both NaN if no document is relevant), tested_by (the test
        of the answer), value (its result in [0, 1]; right from 0.5), verdict.
    """
    relevant: dict[str, dict[str, int]] = {}  # query_id -> doc_id -> 1, of relevant documents only
    for query_id in dataset.queries:
        grades = dataset.qrels.get(query_id, {})
        relevant[query_id] = {doc_id: 1 for doc_id, grade in grades.items() if grade >= min_grade}
    run = {query_id: dict(searched.run.get(query_id, {})) for query_id in relevant}
    table = answered.questions.set_index("query_id")[["question", "answer", "outcome"]]
    # documents that are alternatives to each other count as one
    recall = _recall_and_ceiling(
        merge_alternatives(dataset, relevant), merge_alternatives(dataset, run), k
    )
    table = table.join(recall)
    tests = _answer_tests(table, answered, dataset, relevant)  # columns tested_by and value
    table = table.join(tests)
    is_answerable = {case.query_id: case.answerable for case in dataset.cases}
    verdicts = []
    for question_id, row in table.to_dict("index").items():
        has_answer = row["outcome"] in _ANSWERED
        is_found = _is_found(row["recall"], row["ceiling"], share)
        is_right = _is_right(row["value"], has_answer, is_answerable[str(question_id)])
        verdicts.append(_verdict(is_found, is_right))
    table["verdict"] = verdicts
    return table.reset_index()


def _answer_tests(
    table: pd.DataFrame, answered: Result, dataset: Dataset, relevant: Mapping[str, Iterable[str]]
) -> pd.DataFrame:
    """Test the answer to each question: by a judge or gold facts if there are, else by the relevant
    documents.

    Args:
        table: answer and outcome; the index is the query_id.
        answered: the result with the values of the judge and of gold facts.
        relevant: query_id -> the ids of its relevant documents.

    Returns:
        tested_by (the name of the test) and value (in [0, 1]; NaN without an answer, whose outcome
        decides), with the index of `table`.
    """
    tested = _tests_by_judge_or_facts(answered)
    rows: list[tuple[str, float]] = []
    for query_id, answer, outcome in table[["answer", "outcome"]].itertuples():
        if outcome not in _ANSWERED:
            rows.append((_BY_OUTCOME, math.nan))
        elif query_id in tested.index:
            tested_by, value = tested.loc[query_id]
            rows.append((tested_by, value))
        else:
            texts = _full_texts(dataset, relevant.get(query_id, ()))
            rows.append((_BY_DOCUMENTS, _support_by_documents(str(answer), texts)))
    tests = pd.DataFrame(rows, table.index, ["tested_by", "value"])
    return tests.astype({"value": float})


def _recall_and_ceiling(qrels: Qrels, run: Run, k: int) -> pd.DataFrame:
    """Return relevant (the number of relevant documents), recall and ceiling (the best possible recall) of
    each question, both at `k`; NaN without a relevant document. The index is the query_id.
    """
    numbers = {query_id: len(grades) for query_id, grades in qrels.items()}
    table = pd.DataFrame({"relevant": pd.Series(numbers)})
    table["recall"] = score_run(qrels, run, [f"R@{k}"]).set_index("query_id")["value"]
    table["ceiling"] = ceilings(qrels, [f"R@{k}"]).set_index("query_id")["value"]
    table.loc[table["relevant"] == 0, ["recall", "ceiling"]] = float("nan")
    return table


def _tests_by_judge_or_facts(answered: Result) -> pd.DataFrame:
    """Return the questions whose answers were tested by a judge or by gold facts; the index is the
    query_id.

    The columns are tested_by (the name of the test; of two tests of an answer, the judge's counts)
    and value.
    """
    tests = []
    # a criterion that the user worded anew counts as the built-in one
    replaced_measures = measures_of(wordings_in(answered.settings))
    values_of_questions = answered.wide.rename(columns=replaced_measures)  # question x measure
    for measure, test in _TESTS.items():  # the judge first
        if measure in values_of_questions:
            values = values_of_questions[measure].dropna()
            tests.append(pd.DataFrame({"tested_by": test, "value": values}))
    if not tests:
        return pd.DataFrame(columns=["tested_by", "value"])
    table = pd.concat(tests)
    return table[~table.index.duplicated(keep="first")]


def _full_texts(dataset: Dataset, doc_ids: Iterable[str]) -> list[str]:
    return [dataset.corpus[doc_id].full_text for doc_id in doc_ids if doc_id in dataset.corpus]


def _support_by_documents(answer: str, texts: Sequence[str]) -> float:
    """Return how well the texts that share most words with an answer support it; NaN without any."""
    if not texts:
        return float("nan")
    words = set(answer.casefold().split())
    n_shared = pd.Series([len(words & set(text.casefold().split())) for text in texts])
    nearest = [texts[place] for place in n_shared.nlargest(_MOST).index]
    return claim_support(answer, nearest)


def _is_found(recall: float, ceiling: float, share: float) -> bool | None:
    """Return True if retrieval found enough, False if not; None if no document is relevant."""
    if math.isnan(recall):
        return None
    return recall >= share * ceiling - _ROUNDING


def _is_right(value: float, has_answer: bool, is_answerable: bool) -> bool | None:
    """Return True if a question was answered as it must be, False if not: one that the documents do not
    answer must have no answer. None where nothing tested the answer (`value` is NaN).
    """
    if not is_answerable:
        return not has_answer
    if not has_answer:
        return False
    return None if math.isnan(value) else value >= _RIGHT


def _verdict(is_found: bool | None, is_right: bool | None) -> str:
    """Return the part that failed, given whether the search found enough and the answer is right; None
    stands for unknown.
    """
    if is_found is None or is_right is None:
        return _UNDECIDED
    if is_found:  # then retrieval did not fail
        return "none" if is_right else "generation failed"
    return "retrieval failed" if is_right else "both"


def part_findings(table: pd.DataFrame, k: int) -> list[str]:
    """Return the findings of `part_verdicts` in sentences.

    They state the questions by verdict, the mean recall next to its ceiling (the best possible
    recall), and how many answers were tested for support only.

    Args:
        table: as from `part_verdicts`.
        k: the number of documents that count as found.
    """
    sentences = []
    words_of_verdict = {"none": "nothing failed", "both": "both failed"}
    for verdict, rows in table.groupby("verdict", sort=False):
        words = words_of_verdict.get(str(verdict), str(verdict))
        query_ids = ", ".join(rows["query_id"].head(10))
        sentences.append(f"{len(rows)} of {len(table)} questions: {words} ({query_ids})")
    if table["recall"].notna().any():
        recall, ceiling = table["recall"].mean(), table["ceiling"].mean()
        sentences.append(
            f"Mean recall at k = {k} is {recall:.3f}; no system could exceed {ceiling:.3f}."
        )
    n_by_documents = int(table["tested_by"].eq(_BY_DOCUMENTS).sum())
    if n_by_documents:
        sentences.append(
            f"{n_by_documents} answers were compared with the relevant documents only: that tests "
            "support, not truth."
        )
    return sentences


def outcome_table(result: Result) -> pd.DataFrame:
    """Count the questions by the outcome that was expected (rows) and the outcome (columns)."""
    expected = [case.expected_outcome or "not stated" for case in result.cases]
    outcomes = [case.outcome for case in result.cases]
    return pd.crosstab(pd.Series(expected, name="expected"), pd.Series(outcomes, name="outcome"))
