"""How long agreement with people takes, and what an audit shows of a small model."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import ragbench as rb
from ragbench.judges import judge_audit
from ragbench.statistics import judge_agreement
from ragbench.types import Judgement
from tests.benchmark_table import Benchmark

ANSWERS = 400
Values = npt.NDArray[np.float64]


def judgements(values: Values, criterion: str = "correctness") -> list[Judgement]:
    return [Judgement(f"q{i}", criterion, float(value)) for i, value in enumerate(values)]


@pytest.mark.benchmark
def test_agreement_on_a_sweep_takes_seconds(benchmark: Benchmark) -> None:
    rng = np.random.default_rng(0)
    names = [f"configuration {i}" for i in range(6)]
    verdicts = {name: judgements(rng.integers(0, 5, ANSWERS) / 4) for name in names}
    frame = _frame([(name, i, float(rng.integers(0, 5)) / 4) for name in names for i in range(200)])
    start = time.perf_counter()
    table = judge_agreement(verdicts, frame)
    seconds = time.perf_counter() - start
    assert len(table) == 4
    work = "agreement of 1,200 labels, 4 statistics of 2,000 resamples"
    benchmark.record(work, "-", seconds, at_most=20, unit="s")


def _frame(rows: list[tuple[str, int, float]]) -> pd.DataFrame:
    named = [(name, f"q{i}", "correctness", value) for name, i, value in rows]
    return pd.DataFrame(named, columns=["configuration", "query_id", "criterion", "value"])


@pytest.mark.simulation  # a model on two cores takes ten minutes
def test_the_audit_of_the_smallest_model(
    small_model: str, llm_environment: pytest.MonkeyPatch, benchmark: Benchmark
) -> None:
    """A model of 98 MB is not fit as a judge, and the audit reports so."""
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.reference_answer][:4])
    answers = [rb.Answer(case.query_id, case.reference_answer or "") for case in data.cases]
    audit = judge_audit(answers, "correctness", small_model, dataset=data, n=4)
    passed = (audit["verdict"] == "pass").mean()
    work = "checks of a judge that SmolLM2-135M passes"
    benchmark.record(work, "-", float(passed), at_most=(len(audit) - 1) / len(audit))
