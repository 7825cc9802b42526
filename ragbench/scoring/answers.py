"""Answers against what is known to be right: tidy scores, and who abstained where."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.embedders import load_embedder
from ragbench.errors import DataError
from ragbench.metrics.answers import (
    contains_all,
    gold_fact_coverage,
    keyword_coverage,
    semantic_similarity,
    token_f1,
)

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Answer, Case, Dataset, Embedder

ANSWER_MEASURES = ("semantic_similarity", "token_f1", "gold_fact_coverage")
KEYWORD_MEASURES = ("required_keywords", "contains_all")

# "[2]", "[1][3]" or "[1, 3]" as a word of its own: an index stands at a name, as in "d[1]".
_CITATIONS = re.compile(r"\s(?:\[\d{1,4}(?:,\s*\d{1,4})*\])+(?=[\s.,;:!?]|$)")


def score_answers(dataset: Dataset, answers: Sequence[Answer], *, embedder: str | Embedder = "minilm") -> pd.DataFrame:
    """Score answers against the labels of the dataset's cases: columns query_id, measure, value.

    Measures, each in [0, 1], as defined in `ragbench.metrics.answers`: semantic_similarity and token_f1 to the
    reference answer, gold_fact_coverage, and where the dataset asks for keywords at all also required_keywords (the
    share of a case's keywords that stand in the answer) and contains_all (1 where all do). The numbers of cited
    contexts ("[2]") are no part of the answer. Every case has a row for each measure, by measure, then in the order of
    the cases. Unscored (NaN; counted by `summarise`, left out of its mean) is a case

    - without the label that the measure needs;
    - whose answer is missing or failed (`error` is set, or the outcome is "failed"): that is no answer to be judged;
    - whose system abstained (outcome "no_results" or "blocked"): abstaining is neither a good nor a bad wording. Means
      are therefore means *of the answers given*; read them beside `n_scored` and `abstention_table`, since a system
      that answers easy questions only has high ones;
    - that has no answer (expected outcome "no_results" or "blocked"): see `abstention_table`.

    Args:
        dataset: its cases hold `reference_answer`, `gold_facts` and `required_keywords`.
        answers: at most one per case, in any order.
        embedder: a name for `load_embedder`, or an embedder; only loaded if there is something to compare.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> case = Case("q1", "When?", reference_answer="It opened in 1889.", gold_facts=(("1889",), ("May", "spring")))
    >>> answer = Answer("q1", "It opened in spring. [1]", contexts=("d#0",))
    >>> scores = score_answers(Dataset("mine", "test", {}, [case], {}), [answer], embedder="wordllama")
    >>> scores.set_index("measure")["value"].drop("semantic_similarity").to_dict()
    {'token_f1': 0.75, 'gold_fact_coverage': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    import numpy as np
    import pandas as pd

    given = answered_cases(dataset, answers)
    words = {query_id: wording(answer) for query_id, (_, answer) in given.items()}
    similarity = dict.fromkeys(given, math.nan)
    pairs = [(query_id, words[query_id], case.reference_answer) for query_id, (case, _) in given.items()]
    compared = [(query_id, text, reference) for query_id, text, reference in pairs if _labelled(reference)]
    if compared:
        texts = list(dict.fromkeys(str(text) for _, *both in compared for text in both))
        model = load_embedder(embedder)
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = np.asarray(model.encode(texts))  # one batch, each text once
        left = vectors[[row_of[text] for _, text, _ in compared]]
        right = vectors[[row_of[str(reference)] for *_, reference in compared]]
        values = semantic_similarity(left, right).tolist()
        similarity |= {query_id: value for (query_id, *_), value in zip(compared, values, strict=True)}
    scores: dict[str, dict[str, float]] = {
        "semantic_similarity": similarity,
        "token_f1": {query_id: token_f1(text, str(reference)) for query_id, text, reference in compared},
        "gold_fact_coverage": {
            query_id: gold_fact_coverage(words[query_id], case.gold_facts) for query_id, (case, _) in given.items()
        },
    }
    if any(case.required_keywords for case in dataset.cases):
        asked = {query_id: (words[query_id], case.required_keywords) for query_id, (case, _) in given.items()}
        for measure, function in zip(KEYWORD_MEASURES, (keyword_coverage, contains_all), strict=True):
            scores[measure] = {query_id: function(*pair) for query_id, pair in asked.items()}
    rows = [
        (case.query_id, measure, scores[measure].get(case.query_id, math.nan))
        for measure in scores
        for case in dataset.cases
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": float})


def abstention_table(dataset: Dataset, answers: Sequence[Answer]) -> pd.DataFrame:
    """How many questions with and without an answer were answered, abstained from, or failed.

    Rows "answerable" and "unanswerable" (expected outcome "no_results" or "blocked"), columns "answered", "abstained"
    (outcome "no_results" or "blocked") and "failed" (`error` is set, outcome "failed", or no answer at all). The good
    cells are answerable x answered and unanswerable x abstained; the sum is the number of cases.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> cases = [Case("q1", "?"), Case("q2", "?", expected_outcome="no_results"), Case("q3", "?")]
    >>> answers = [Answer("q1", "Yes."), Answer("q2", "Not found.", outcome="no_results")]
    >>> abstention_table(Dataset("mine", "test", {}, cases, {}), answers)
                  answered  abstained  failed
    answerable           1          0       1
    unanswerable         0          1       0
    """
    import pandas as pd

    by_query = answers_by_query(dataset, answers)
    columns = ["answered", "abstained", "failed"]
    counts = Counter((case.answerable, state_of(by_query.get(case.query_id))) for case in dataset.cases)
    rows = [[counts[answerable, state] for state in columns] for answerable in (True, False)]
    return pd.DataFrame(rows, index=["answerable", "unanswerable"], columns=columns)


def answered_cases(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, tuple[Case, Answer]]:
    """The questions that have an answer and were given one."""
    by_query = answers_by_query(dataset, answers)
    return {
        case.query_id: (case, by_query[case.query_id])
        for case in dataset.cases
        if case.answerable and state_of(by_query.get(case.query_id)) == "answered"
    }


def answers_by_query(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, Answer]:
    """query_id -> its answer.

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    known = {case.query_id for case in dataset.cases}
    by_query: dict[str, Answer] = {}
    for answer in answers:
        if answer.query_id not in known:
            near = f"such as {dataset.cases[0].query_id!r}" if dataset.cases else "none at all"
            raise DataError(
                f"an answer belongs to query {answer.query_id!r}, which {dataset!r} does not hold (it has {near}); "
                "score answers with the dataset that they were made for"
            )
        if answer.query_id in by_query:
            raise DataError(f"two answers to query {answer.query_id!r}; score repeated runs one by one")
        by_query[answer.query_id] = answer
    return by_query


def wording(answer: Answer) -> str:
    """The answer without the numbers of the contexts that it cites: they are no words of it, and state no fact."""

    def kept(mark: re.Match[str]) -> str:
        numbers = map(int, re.findall(r"\d+", mark.group()))
        return "" if all(1 <= number <= len(answer.contexts) for number in numbers) else mark.group()

    return _CITATIONS.sub(kept, answer.text)


def state_of(answer: Answer | None) -> str:
    """ "answered", "abstained" (outcome "no_results" or "blocked") or "failed" (also where there is no answer)."""
    if answer is None or answer.failed:
        return "failed"
    return "abstained" if answer.abstained else "answered"


def _labelled(reference: str | None) -> bool:
    return reference is not None and bool(reference.strip())
