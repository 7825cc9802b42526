"""Whether the outcome of the pipeline separates unanswerable questions from answerable ones, on
real ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from ragbench.generation import generate_answers
from ragbench.metrics import score_context
from ragbench.metrics.pipeline import MIN_CONFIDENCE, outcome_of
from ragbench.retrieval import BM25, Dense
from ragbench.retrieval.chunkers import chunk
from ragbench.testsets.loader import load_dataset
from ragbench.types import Dataset

pytestmark = pytest.mark.benchmark

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def dataset(shared_data: Path) -> Dataset:
    return load_dataset(shared_data / "clapnq")


def balanced_accuracy(answerable: Bools, success: Bools) -> float:
    return float((success[answerable].mean() + (~success)[~answerable].mean()) / 2)


def area(answerable: Bools, confidence: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answerable, confidence))


def interval(
    answerable: Bools, values: npt.NDArray[np.generic], statistic: object
) -> tuple[float, float]:
    """95 % by the percentile bootstrap, answerable and unanswerable questions drawn apart."""
    assert callable(statistic)
    rng = np.random.default_rng(0)
    groups = np.flatnonzero(answerable), np.flatnonzero(~answerable)
    drawn = []
    for _ in range(1000):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        drawn.append(statistic(answerable[rows], values[rows]))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


@pytest.mark.parametrize("retriever", ["bm25", "dense:wordllama"])
def test_outcomes_tell_unanswerable_questions_from_answerable_ones(
    dataset: Dataset, retriever: str
) -> None:
    """The extractive baseline on 300 + 300 questions; no border was set on them: 0.5 is the rule's,
    0.25 older.
    """
    chunks = chunk(dataset, "recursive", chunk_size=256, chunk_overlap=0)
    found = BM25(chunks) if retriever == "bm25" else Dense(chunks, "wordllama")
    answers = generate_answers(dataset, found.search(dataset.queries, k=5), chunks, k=5)
    answerable = np.array([case.answerable for case in dataset.cases])
    success = np.array([outcome_of(answer) == "success" for answer in answers])
    given = np.array([answer.outcome == "success" for answer in answers])
    confidence = np.array([answer.confidence or 0.0 for answer in answers])

    by_outcome, by_abstaining = (balanced_accuracy(answerable, own) for own in (success, given))
    accuracy_low, accuracy_high = interval(answerable, success, balanced_accuracy)
    auc = area(answerable, confidence)
    auc_low, auc_high = interval(answerable, confidence, area)
    print(
        f"\nclapnq, {retriever}, recursive 256, 5 chunks: {answerable.sum()} "
        f"answerable, {(~answerable).sum()} not"
    )
    print(pd.Series([outcome_of(answer) for answer in answers]).value_counts())
    print(
        f"outcome 'success' or not: balanced accuracy {by_outcome:.3f} "
        f"[{accuracy_low:.3f}, {accuracy_high:.3f}]"
    )
    print(f"its own abstentions alone: balanced accuracy {by_abstaining:.3f}")
    print(f"confidence: AUC {auc:.3f} [{auc_low:.3f}, {auc_high:.3f}]")

    # A border chosen on one half of the questions, by the best balanced accuracy, and held on the
    # other.
    order = np.random.default_rng(0).permutation(len(answers))
    halves = order[::2], order[1::2]
    held = []
    for own, other in (halves, halves[::-1]):
        borders = np.unique(confidence[own].round(2))
        best = max(
            borders,
            key=lambda b: balanced_accuracy(answerable[own], given[own] & (confidence[own] >= b)),
        )
        kept = given[other] & (confidence[other] >= best)
        held.append(balanced_accuracy(answerable[other], kept))
        print(
            f"border {best:.2f} of one half, instead of {MIN_CONFIDENCE}: {held[-1]:.3f} on the "
            "other"
        )

    assert accuracy_low > 0.6, "better than chance (0.5), and by more than its own abstentions"
    assert auc_low > 0.65
    assert abs(float(np.mean(held)) - by_outcome) < 0.05, (
        "the rule's own border is about as good as a fitted one"
    )


def test_redundant_contexts_are_seen(dataset: Dataset) -> None:
    """The same contexts with and without their best chunk repeated."""
    from dataclasses import replace

    chunks = chunk(dataset, "recursive", chunk_size=256, chunk_overlap=0)
    answers = generate_answers(dataset, BM25(chunks).search(dataset.queries, k=5), chunks, k=5)
    answers = [answer for answer in answers if len(answer.contexts) == 5]
    twice = [
        replace(answer, contexts=(answer.contexts[0], *answer.contexts[:4])) for answer in answers
    ]
    print()
    for measure in ("ngram_redundancy", "tfidf_redundancy", "unique_token_ratio"):
        values = []
        for own in (answers, twice):
            frame = score_context(dataset, own, chunks)
            values.append(frame[frame["measure"] == measure]["value"].dropna().to_numpy())
        better = np.concatenate(
            [np.zeros(len(values[0]), dtype=bool), np.ones(len(values[1]), dtype=bool)]
        )
        sign = -1 if measure == "unique_token_ratio" else 1
        auc = area(better, sign * np.concatenate(values))
        medians = ", ".join(f"{np.median(own):.3f}" for own in values)
        print(f"{measure}: medians {medians} (as retrieved, best chunk twice); AUC {auc:.3f}")
        assert auc > 0.7
