"""Whether the outcome of the pipeline separates unanswerable questions from answerable ones, on
real ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ragbench.generation import generate_answers
from ragbench.metrics import score_context
from ragbench.metrics.system_outcomes import outcome_of
from ragbench.retrieval import BM25, Dense
from ragbench.retrieval.chunkers import chunk
from ragbench.testsets.loader import load_dataset
from ragbench.types import Dataset
from tests.benchmark_table import Benchmark

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
    dataset: Dataset, retriever: str, benchmark: Benchmark
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
    accuracy_low, _ = interval(answerable, success, balanced_accuracy)
    auc = area(answerable, confidence)
    auc_low, _ = interval(answerable, confidence, area)

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

    questions = f"answerable or not, clapnq, {retriever}"
    work = f"balanced accuracy of the outcome, {questions}"
    benchmark.record(work, "its own abstentions alone", by_outcome / by_abstaining)
    benchmark.record(f"{work}, lower end", "-", accuracy_low, at_least=0.6)
    benchmark.record(f"AUC of the confidence, {questions}", "-", auc)
    benchmark.record("lower end of the same", "-", auc_low, at_least=0.65)
    gap = abs(float(np.mean(held)) - by_outcome)
    benchmark.record(f"distance from a fitted border, {questions}", "-", gap, at_most=0.05)


def test_redundant_contexts_are_seen(dataset: Dataset, benchmark: Benchmark) -> None:
    """The same contexts with and without their best chunk repeated."""
    from dataclasses import replace

    chunks = chunk(dataset, "recursive", chunk_size=256, chunk_overlap=0)
    answers = generate_answers(dataset, BM25(chunks).search(dataset.queries, k=5), chunks, k=5)
    answers = [answer for answer in answers if len(answer.contexts) == 5]
    twice = [
        replace(answer, contexts=(answer.contexts[0], *answer.contexts[:4])) for answer in answers
    ]
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
        work = f"AUC of {measure}, best chunk twice"
        benchmark.record(work, "-", auc, at_least=0.7)
