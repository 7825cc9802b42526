"""Tables and sentences about reference answers that a model wrote: what `reference_answers.ipynb` shows
between its figures."""

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from ragbench.testsets.reference_answers import reference_origin
from ragbench.types import Answer, Chunk, Dataset

_FEW_WORDS = 0.5  # fraction of an answer's words in its sources, below which it is doubtful


def origin_counts(dataset: Dataset) -> pd.DataFrame:
    """Count the questions by who wrote their reference answer: queries; the index is the origin."""
    origins = [reference_origin(case) for case in dataset.cases]
    return pd.Series(origins, name="reference answer by").value_counts().to_frame("queries")


def source_table(dataset: Dataset, sources: Mapping[str, Sequence[Chunk]]) -> pd.DataFrame:
    """Return from how much text each answer is written: question, sources, characters; the index is the
    query_id.
    """
    rows = []
    for query_id, chunks in sources.items():
        n_characters = sum(len(chunk.text) for chunk in chunks)
        rows.append((dataset.queries[query_id], len(chunks), n_characters))
    index = pd.Index(sources, name="query_id")
    return pd.DataFrame(rows, columns=["question", "sources", "characters"], index=index)


def trial_pairs(dataset: Dataset, tried: Sequence[Answer]) -> pd.DataFrame:
    """Return answers by people next to a model's answers: question, by a person, by the model."""
    reference_of = {case.query_id: case.reference_answer for case in dataset.cases}
    rows = [
        (dataset.queries[answer.query_id], reference_of[answer.query_id], answer.text)
        for answer in tried
    ]
    return pd.DataFrame(rows, columns=["question", "by a person", "by the model"])


def reference_table(
    dataset: Dataset, answers: Sequence[Answer], sources: Mapping[str, Sequence[Chunk]]
) -> pd.DataFrame:
    """Return the reference answers that a model wrote, the most doubtful first.

    Args:
        sources: query_id -> the chunks from which its answer was written.

    Returns:
        question, outcome, in_sources (the fraction of the answer's words that its sources contain, in
        [0, 1]; NaN without an answer), answer (or the error), sources (ids of documents); the index is
        the query_id.
    """
    rows = []
    for answer in answers:
        chunks = sources[answer.query_id]
        documents = dict.fromkeys(chunk.doc_id for chunk in chunks)  # each once, in their order
        rows.append(
            {
                "query_id": answer.query_id,
                "question": dataset.queries[answer.query_id],
                "outcome": answer.outcome,
                "in_sources": _fraction_of_words(answer, chunks),
                "answer": answer.error or answer.text,
                "sources": ", ".join(documents),
            }
        )
    columns = ["query_id", "question", "outcome", "in_sources", "answer", "sources"]
    table = pd.DataFrame(rows, columns=columns).astype({"in_sources": float})
    return table.sort_values("in_sources", kind="stable").set_index("query_id")


def _fraction_of_words(answer: Answer, chunks: Sequence[Chunk]) -> float:
    """Return the fraction of an answer's words that its sources (`chunks`) contain; only words of more
    than three letters, and numbers, count. NaN without an answer or without such words.
    """
    if answer.outcome != "success":
        return float("nan")
    source_text = " ".join(chunk.text for chunk in chunks)
    source_words = set(re.findall(r"\w+", source_text.casefold()))
    words = re.findall(r"\w+", answer.text.casefold())
    words = [word for word in words if len(word) > 3 or word.isdecimal()]
    if not words:
        return float("nan")
    return sum(word in source_words for word in words) / len(words)


def reference_findings(table: pd.DataFrame, writer: str) -> list[str]:
    """Return the findings of writing reference answers, in sentences of Markdown.

    Args:
        table: as from `reference_table`.
        writer: the model's name.
    """
    counts = table["outcome"].value_counts()
    n_written = counts.get("success", 0)
    sentences = [f"**{n_written} of {len(table)}** reference answers were written by `{writer}`."]
    for outcome, n in counts.drop("success", errors="ignore").items():
        sentences.append(f"{n} without an answer: {outcome}.")
    n_doubtful = int(table["in_sources"].lt(_FEW_WORDS).sum())
    if n_doubtful:
        sentences.append(
            f"In {n_doubtful} answers, less than half the words are in their sources: check these "
            "first."
        )
    sentences.append(
        'What you change in `answers.jsonl`, or mark with `"reviewed": true`, is yours and never '
        "replaced."
    )
    return sentences
