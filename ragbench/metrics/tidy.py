"""Answers matched with their cases, which answers count as answered, abstained or failed, and the
tidy frame of scores that every perspective returns.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.language import Language, detect_language
from ragbench.metrics.named_rows import ExplainedSeries, PropertyTable
from ragbench.registry import find_measure, named_among
from ragbench.types import Answer, Case, Chunk, Dataset, chunks_by_id


class TidyScores(PropertyTable):
    """The columns query_id, measure, value, where `scores.mean()` is the mean by measure, and
    `scores["nDCG@10"]` are the values of a measure by question.

    >>> scores = TidyScores({"query_id": ["q1", "q2"], "measure": "RR", "value": [1.0, 0.5]})
    >>> scores.mean().to_dict(), scores["rr"].to_dict()
    ({'RR': 0.75}, {'q1': 1.0, 'q2': 0.5})
    """

    def __deepcopy__(self, memo: Any = None) -> "TidyScores":
        return TidyScores(self.copy())

    def mean(self, *args: Any, **options: Any) -> Any:
        """Return measure -> mean of its values that are not NaN; with arguments as any DataFrame."""
        if args or options:
            return super().mean(*args, **options)
        means = pd.DataFrame(self).groupby("measure", sort=False)["value"].mean()
        return ExplainedSeries(means)

    def pivot(self, **options: Any) -> pd.DataFrame:  # type: ignore[override]  # stricter stubs
        """Return a row per question and a column per measure; with arguments as any DataFrame."""
        rows = {"index": "query_id", "columns": "measure", "values": "value"}
        return super().pivot(**options or rows)

    def unstack(self, *args: Any, **options: Any) -> Any:
        """Return a row per question and a column per measure; with arguments as any DataFrame."""
        is_wide = not options and args in ((), ("measure",))
        return self.pivot() if is_wide else super().unstack(*args, **options)

    def __getitem__(self, key: Any) -> Any:
        """Return the values of a measure by query_id if `key` is its name; else what any DataFrame
        returns.

        Raises:
            ConfigError: the measure is known, and not among these.
        """
        is_measure = isinstance(key, str) and key not in self.columns and find_measure(key)
        if not is_measure:
            return super().__getitem__(key)
        rows = pd.DataFrame(self)
        name = named_among(key, rows["measure"].unique())
        return ExplainedSeries(rows[rows["measure"] == name].set_index("query_id")["value"])


def tidy(query_ids: Sequence[str], measures: Sequence[str], values: Any) -> pd.DataFrame:
    """Return a table of values as a tidy frame: a row (query_id, measure, value) for each value, by
    measure, then by query. `values` has a row per measure and a column per query.

    >>> tidy(["q1", "q2"], ["RR"], [[1.0, 0.5]])
      query_id measure  value
    0       q1      RR    1.0
    1       q2      RR    0.5
    """
    queries = pd.Index(list(query_ids), dtype="str")
    names = pd.Index(list(measures), dtype="str")
    query_numbers = np.tile(np.arange(len(query_ids)), len(measures))  # 0 1 2 0 1 2
    measure_numbers = np.repeat(np.arange(len(measures)), len(query_ids))  # 0 0 0 1 1 1
    return TidyScores(
        {
            "query_id": queries.take(query_numbers),
            "measure": names.take(measure_numbers),
            "value": np.asarray(values, dtype=np.float64).ravel(),
        }
    )


def tidy_cases(
    cases: Sequence[Case], measures: Iterable[str], rows: Mapping[str, Mapping[str, float]]
) -> pd.DataFrame:
    """Return scores of cases as a tidy frame (query_id, measure, value), in the order of the cases.

    `rows` is query_id -> measure -> value; a missing value becomes NaN, which means unscored.
    """
    names = list(measures)
    query_ids = [case.query_id for case in cases]
    row_of = [rows.get(query_id, {}) for query_id in query_ids]
    values = [[row.get(name, np.nan) for row in row_of] for name in names]
    return tidy(query_ids, names, values)


def score_frame(rows: Iterable[tuple[str, str, float | None]]) -> pd.DataFrame:
    """Return rows of scores as a tidy frame: query_id, measure, value (NaN = unscored)."""
    frame = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    return frame.astype({"query_id": "str", "measure": "str", "value": float})


def relevant_ids(grades: Mapping[str, int]) -> list[str]:
    """Return the documents of a grade above 0, the highest grade first.

    >>> relevant_ids({"a": 1, "b": 0, "c": 2})
    ['c', 'a']
    """
    relevant = [doc_id for doc_id, grade in grades.items() if grade > 0]
    return sorted(relevant, key=grades.__getitem__, reverse=True)


def values_by_query(scores: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return query_id -> measure -> value of tidy scores."""
    values: dict[str, dict[str, float]] = {}
    # lists, because a loop over rows of a frame is slow
    columns = (scores[name].tolist() for name in ("query_id", "measure", "value"))
    for query_id, measure, value in zip(*columns, strict=True):
        values.setdefault(query_id, {})[measure] = float(value)
    return values


# "[2]", "[1][3]" or "[1, 3]" as a separate word; an index follows a name, as in "d[1]".
_CITATIONS = re.compile(r"\s(?:\[\d{1,4}(?:,\s*\d{1,4})*\])+(?=[\s.,;:!?]|$)")


def context_texts(answers: Sequence[Answer], chunks: Sequence[Chunk] = ()) -> dict[str, list[str]]:
    """Return query_id -> the texts behind the answer's `contexts`, in their order.

    A text is taken from the answer's own `passages` if they have its id, else from the chunk of
    that id. If an answer lists no `contexts`, all its passages count, in their order. The list is
    empty if nothing was retrieved.

    >>> from ragbench.types import Answer, Chunk, Passage
    >>> own = Answer("q1", "It opened in 1889.", passages=(Passage("p7", "Opened in 1889."),))
    >>> shared = Answer("q2", "In Paris.", contexts=("tower#1", "tower#0"))
    >>> chunks = [Chunk("tower#0", "tower", 0, 9, "The tower"), Chunk("tower#1", "tower", 10, 21, "is in Paris")]
    >>> context_texts([own, shared], chunks)
    {'q1': ['Opened in 1889.'], 'q2': ['is in Paris', 'The tower']}

    Raises:
        DataError: a context is neither among the passages nor among the chunks.
    """
    by_id = chunks_by_id(chunks)
    texts: dict[str, list[str]] = {}
    for answer in answers:
        passages = {passage.passage_id: passage.text for passage in answer.passages}
        texts_of_answer = []
        for context_id in context_ids(answer):
            if context_id in passages:
                texts_of_answer.append(passages[context_id])
            elif context_id in by_id:
                texts_of_answer.append(by_id[context_id].text)
            else:
                raise DataError(
                    f"the answer to {answer.query_id!r} had the context {context_id!r}, whose text "
                    f"is not there ({len(passages)} passages of its own, {len(by_id) or 'no'} chunks "
                    "given); was it made from another chunking? Pass the chunks that it was made from"
                )
        texts[answer.query_id] = texts_of_answer
    return texts


def answer_language(dataset: Dataset, answers: Sequence[Answer]) -> Language:
    """Return the language that the answers are in, and the questions where these are few."""
    texts = [answer.text for answer in answers if not answer.abstained]
    # 200 of each are enough to tell
    return detect_language([*texts[:200], *list(dataset.queries.values())[:200]])


def answered_cases(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, tuple[Case, Answer]]:
    """Return the answerable questions that were answered: query_id -> case and answer, in the order
    of the cases.
    """
    return {
        case.query_id: (case, answer)
        for case, answer in usable_cases(dataset, answers)
        if case.answerable and not answer.abstained
    }


def usable_cases(dataset: Dataset, answers: Sequence[Answer]) -> list[tuple[Case, Answer]]:
    """Return the cases whose answer did not fail, with it, in the order of the cases."""
    by_query = answers_by_query(dataset, answers)
    pairs = [(case, by_query[case.query_id]) for case in dataset.cases if case.query_id in by_query]
    return [(case, answer) for case, answer in pairs if not answer.failed]


def answers_by_query(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return query_id -> its answer.

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    query_ids = {case.query_id for case in dataset.cases}
    by_query: dict[str, Answer] = {}
    for answer in answers:
        if answer.query_id not in query_ids:
            near = f"such as {dataset.cases[0].query_id!r}" if dataset.cases else "none at all"
            raise DataError(
                f"an answer belongs to query {answer.query_id!r}, which {dataset!r} does not "
                f"hold (it has {near}); score answers with the dataset that they were made for"
            )
        if answer.query_id in by_query:
            raise DataError(
                f"two answers to query {answer.query_id!r}; score repeated runs one by one"
            )
        by_query[answer.query_id] = answer
    return by_query


def wording(answer: Answer) -> str:
    """Return the answer without the numbers of the contexts that it cites, such as " [2]" or " [1, 3]".

    Numbers in brackets that no context has stay, because they may be part of the text.
    """

    def replacement(mark: re.Match[str]) -> str:
        numbers = map(int, re.findall(r"\d+", mark[0]))
        return "" if all(1 <= number <= len(answer.contexts) for number in numbers) else mark[0]

    return _CITATIONS.sub(replacement, answer.text)


def text_behind(dataset: Dataset, chunk: Chunk) -> str:
    """Return the whole text of a chunk's document.

    Raises:
        DataError: the dataset does not have it.
    """
    if chunk.doc_id not in dataset.corpus:
        raise DataError(
            f"chunk {chunk.chunk_id!r} is of document {chunk.doc_id!r}, which is not in the "
            f"corpus of {dataset.name!r}: chunks and dataset do not belong together"
        )
    return dataset.corpus[chunk.doc_id].full_text


def state_of(answer: Answer | None) -> str:
    """Return "answered", "abstained" (outcome "no_results" or "blocked", or an empty text) or "failed"
    (also without an answer).
    """
    if answer is None or answer.failed:
        return "failed"
    return "answered" if answer.attempted else "abstained"


def context_ids(answer: Answer) -> tuple[str, ...]:
    """Return the ids of the contexts of an answer, in rank order."""
    return answer.contexts or tuple(passage.passage_id for passage in answer.passages)
