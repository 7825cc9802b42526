"""Answers compared with the labels of their cases: tidy scores, and a table of abstentions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.embedders import load_embedder
from ragbench.errors import DataError
from ragbench.metrics.answers import contains_all, gold_fact_coverage, keyword_coverage, semantic_similarity, token_f1
from ragbench.scoring.tidy import tidy_cases

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Answer, Case, Dataset, Embedder

ANSWER_MEASURES = ("semantic_similarity", "token_f1", "gold_fact_coverage")
KEYWORD_MEASURES = ("required_keywords", "contains_all")

# "[2]", "[1][3]" or "[1, 3]" as a word of its own; an index follows a name, as in "d[1]".
_CITATIONS = re.compile(r"\s(?:\[\d{1,4}(?:,\s*\d{1,4})*\])+(?=[\s.,;:!?]|$)")


def score_answers(dataset: Dataset, answers: Sequence[Answer], *, embedder: str | Embedder = "minilm") -> pd.DataFrame:
    """Score answers against the labels of the dataset's cases: columns query_id, measure, value.

    Measures, each in [0, 1], as defined in `ragbench.metrics.answers`: semantic_similarity and token_f1 to the
    reference answer, gold_fact_coverage, and where the dataset asks for keywords at all also required_keywords (the
    fraction of a case's keywords that the answer contains) and contains_all (1 where all do). The numbers of cited
    contexts ("[2]") are not part of the answer. Every case has a row for each measure, by measure, then in the order of
    the cases. Unscored (NaN; counted by `summarise`, left out of its mean) is a case

    - without the label that the measure needs;
    - whose answer is missing or failed (`error` is set, or the outcome is "failed");
    - whose system abstained (outcome "no_results" or "blocked"). Means are therefore means *of the answers given*; read
      them together with `n_scored` and `abstention_table`, since a system that answers only easy questions has high
      ones;
    - that is unanswerable (expected outcome "no_results" or "blocked"): see `abstention_table`.

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

    given = answered_cases(dataset, answers)
    words = {query_id: wording(answer) for query_id, (_, answer) in given.items()}
    references = {query_id: case.reference_answer or "" for query_id, (case, _) in given.items()}
    compared = {q: (words[q], reference) for q, reference in references.items() if reference.strip()}
    similarity: dict[str, float] = {}
    if compared:
        texts = list(dict.fromkeys(text for both in compared.values() for text in both))
        model = load_embedder(embedder)
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = np.asarray(model.encode(texts))  # one batch, each text once
        left, right = (vectors[[row_of[both[side]] for both in compared.values()]] for side in (0, 1))
        similarity = dict(zip(compared, semantic_similarity(left, right).tolist(), strict=True))
    scores: dict[str, dict[str, float]] = {
        "semantic_similarity": similarity,
        "token_f1": {query_id: token_f1(*both) for query_id, both in compared.items()},
        "gold_fact_coverage": {
            query_id: gold_fact_coverage(words[query_id], case.gold_facts) for query_id, (case, _) in given.items()
        },
    }
    if any(case.required_keywords for case in dataset.cases):
        asked = {query_id: (words[query_id], case.required_keywords) for query_id, (case, _) in given.items()}
        for measure, function in zip(KEYWORD_MEASURES, (keyword_coverage, contains_all), strict=True):
            scores[measure] = {query_id: function(*pair) for query_id, pair in asked.items()}
    return tidy_cases(dataset.cases, scores)


def abstention_table(dataset: Dataset, answers: Sequence[Answer]) -> pd.DataFrame:
    """Counts of answerable and unanswerable questions that were answered, abstained from, or failed.

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
    """The answerable questions that were answered."""
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
    """The answer without the numbers of the contexts that it cites."""

    def kept(mark: re.Match[str]) -> str:
        numbers = map(int, re.findall(r"\d+", mark.group()))
        return "" if all(1 <= number <= len(answer.contexts) for number in numbers) else mark.group()

    return _CITATIONS.sub(kept, answer.text)


def state_of(answer: Answer | None) -> str:
    """ "answered", "abstained" (outcome "no_results" or "blocked") or "failed" (also where there is no answer)."""
    if answer is None or answer.failed:
        return "failed"
    return "abstained" if answer.abstained else "answered"
