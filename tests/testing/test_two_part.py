"""The two-part evaluation as a test file: a retrieval tool and an answering tool, question by
question.

By default the five questions of BEIR's nfcorpus for which most documents are highly relevant (grade
2). Point it at your folder and your system:

    pytest tests/testing/test_two_part.py --ragbench-dataset path/to/nfcorpus --ragbench-system
    my-server.toml

Any BEIR folder will do in the place of nfcorpus: then all its questions are asked, or those of
--ragbench-queries. Without a folder (or a download in the cache) the tests are skipped. An answer
is compared with its reference answer by the model of the RAG_EVAL_* environment where both are
there (`ragbench answers` writes references), else with the gold facts or the relevant documents.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragbench.evaluation import evaluate
from ragbench.llms import load_llm, unavailable
from ragbench.metrics import claim_support
from ragbench.testing import (
    LabelledCase,
    assert_answer_correct,
    assert_context_recall,
    labelled_cases,
)
from ragbench.testsets.loader import load_dataset
from ragbench.types import Dataset

NFCORPUS = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
K = 10
SHARE = 0.8  # of the ceiling: with 21 relevant documents and K = 10 no recall exceeds 0.476


def folder(config: pytest.Config) -> str:
    named = str(config.getoption("--ragbench-dataset"))
    return os.environ.get("RAGBENCH_NFCORPUS", "") if named == "pydoc" else named


@pytest.fixture(scope="module")
def dataset(request: pytest.FixtureRequest) -> Dataset:
    named = folder(request.config)
    if not named or not Path(named).expanduser().is_dir():
        pytest.skip("no BEIR folder: name one with --ragbench-dataset or RAGBENCH_NFCORPUS")
    data = load_dataset(Path(named), str(request.config.getoption("--ragbench-split")))
    chosen = [one for one in str(request.config.getoption("--ragbench-queries")).split(",") if one]
    return data.select(
        chosen or [one for one in NFCORPUS if one in data.queries] or list(data.queries)
    )


@pytest.fixture(scope="module")
def result(request: pytest.FixtureRequest, dataset: Dataset) -> Any:
    return evaluate(
        dataset, str(request.config.getoption("--ragbench-system")), perspectives=["retrieval"]
    )


def lowest_grade(data: Dataset) -> int:
    """Grade 2 where the collection grades, else 1."""
    return min(2, max((grade for own in data.qrels.values() for grade in own.values()), default=1))


def failures(dataset: Dataset, test: Any) -> list[str]:
    failed = []
    for case in labelled_cases(dataset, min_grade=lowest_grade(dataset)):
        try:
            test(case)
        except AssertionError as exc:
            failed.append(f"{case.query_id}: {exc}")
    return failed


def test_context_recall(dataset: Dataset, result: Any) -> None:
    def recall(case: LabelledCase) -> None:
        if case.relevant:
            ceiling = min(K, len(case.relevant)) / len(case.relevant)
            assert_context_recall(result.run.get(case.query_id, {}), case, K, SHARE * ceiling)

    failed = failures(dataset, recall)
    assert not failed, "\n" + "\n".join(failed)


def test_answers(dataset: Dataset, result: Any) -> None:
    judge = None if unavailable("env") else load_llm("env")
    answers = {answer.query_id: answer for answer in result.answers}

    def correct(case: LabelledCase) -> None:
        answer = answers[case.query_id]
        if (
            case.case.gold_facts
            or not case.case.answerable
            or (judge and case.case.reference_answer)
        ):
            assert_answer_correct(answer, case, judge)
        else:
            texts = [
                dataset.corpus[doc_id].full_text
                for doc_id in case.relevant
                if doc_id in dataset.corpus
            ]
            assert claim_support(answer.text, texts[:5]) >= 0.5, (
                "the relevant documents do not support the answer"
            )

    failed = failures(dataset, correct)
    assert not failed, "\n" + "\n".join(failed)
