"""The two-part evaluation as a test file: a retrieval tool and an answering tool, question by question.

By default the five questions of BEIR's nfcorpus for which most documents are highly relevant (grade 2). Point it at
your folder and your system:

    pytest tests/testing/test_two_part.py --ragbench-dataset path/to/nfcorpus --ragbench-system my-server.toml

Any BEIR folder will do in the place of nfcorpus: then all its questions are asked, or those of --ragbench-queries.
Without a folder (or a download in the cache) the tests are skipped. An answer is compared with its reference answer by
the model of the RAG_EVAL_* environment where both are there (`ragbench answers` writes references), else with the gold
facts or the relevant documents.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ragbench.evaluation import answer_all, two_part_table
from ragbench.llms import load_llm, unavailable
from ragbench.testing import assert_context_recall, labelled_cases
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
    return data.select(chosen or [one for one in NFCORPUS if one in data.queries] or list(data.queries))


@pytest.fixture(scope="module")
def answered(request: pytest.FixtureRequest, dataset: Dataset) -> Any:
    return answer_all(dataset, str(request.config.getoption("--ragbench-system")), timed=0)


def lowest_grade(data: Dataset) -> int:
    """Grade 2 where the collection grades, else 1."""
    return min(2, max((grade for own in data.qrels.values() for grade in own.values()), default=1))


def test_context_recall(dataset: Dataset, answered: Any) -> None:
    failed = []
    for case in labelled_cases(dataset, min_grade=lowest_grade(dataset)):
        if case.relevant:
            ceiling = min(K, len(case.relevant)) / len(case.relevant)
            try:
                assert_context_recall(answered.documents.get(case.query_id, {}), case, K, SHARE * ceiling)
            except AssertionError as exc:
                failed.append(str(exc))
    assert not failed, "\n" + "\n".join(failed)


def test_verdict_of_both_parts(dataset: Dataset, answered: Any) -> None:
    from ragbench.judges import judge

    judgements = []
    if not unavailable("env") and any(case.reference_answer for case in dataset.cases):
        judgements = judge(answered.answers, "correctness", load_llm("env"), dataset=dataset, chunks=answered.chunks)
    table = two_part_table(
        dataset, answered.documents, answered.answers, judgements, k=K, min_grade=lowest_grade(dataset), share=SHARE
    )
    shown = table[["query_id", "recall", "ceiling", "tested_by", "value", "verdict"]].round(3).to_string(index=False)
    print(f"\n{shown}")
    assert (table["verdict"] == "none").all(), f"\n{shown}"
