"""Does the interval of `calibrate` hold what it promises, and what do labels buy? Printed next to
labels alone.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import ragbench as rb
from ragbench.judges import judge_audit
from ragbench.statistics import calibrate, judge_agreement
from ragbench.types import Judgement

pytestmark = pytest.mark.benchmark

ANSWERS = 400
RUNS, AT_ONCE = 1000, 100
# rate of right answers, of wrong ones that the judge calls right, of right ones that it calls wrong
JUDGES = {
    "good (2 % errors)": (0.7, 0.02, 0.02),
    "lenient (60 % of wrong pass)": (0.7, 0.6, 0.02),
    "harsh (40 % of right fail)": (0.7, 0.02, 0.4),
    "random": (0.7, 0.5, 0.5),
    "good, nearly all right": (0.95, 0.02, 0.02),
}
Values = npt.NDArray[np.float64]


def simulated(
    rng: np.random.Generator, right: float, false_yes: float, false_no: float
) -> tuple[Values, Values]:
    human = (rng.random(ANSWERS) < right).astype(float)
    judge = np.where(
        human == 1, rng.random(ANSWERS) >= false_no, rng.random(ANSWERS) < false_yes
    ).astype(float)
    return human, judge


def judgements(values: Values, criterion: str = "correctness") -> list[Judgement]:
    return [Judgement(f"q{i}", criterion, float(value)) for i, value in enumerate(values)]


@pytest.mark.parametrize("n", [15, 50, 150])
def test_coverage_and_width_of_calibrated_means(n: int) -> None:
    rng = np.random.default_rng(n)
    print(
        f"\n{n} of {ANSWERS} answers labelled, {RUNS} simulations: coverage of 95 % intervals, "
        "mean width"
    )
    print(f"{'judge':<30}{'its mean off by':>16}{'calibrate':>18}{'labels alone':>18}")
    for name, (right, false_yes, false_no) in JUDGES.items():
        held, width, off = [], [], []
        for _ in range(RUNS // AT_ONCE):
            pairs = [simulated(rng, right, false_yes, false_no) for _ in range(AT_ONCE)]
            # each simulation is a criterion of its own, so that one call does many
            verdicts = [
                one for r, (_, judge) in enumerate(pairs) for one in judgements(judge, f"run {r}")
            ]
            people = [
                {"query_id": f"q{i}", "criterion": f"run {r}", "value": human[i]}
                for r, (human, _) in enumerate(pairs)
                for i in range(n)
            ]
            rows = calibrate(verdicts, people)
            for (_, judge), row in zip(pairs, rows.to_dict("records"), strict=True):
                limits = [
                    (row["ci_low"], row["ci_high"]),
                    (row["labels_low"], row["labels_high"]),
                ]
                held.append([low <= right <= high for low, high in limits])
                width.append([high - low for low, high in limits])
                off.append(judge.mean() - right)
        covered, wide = np.mean(held, axis=0), np.mean(width, axis=0)
        shown = "".join(f"{c:>10.3f} ({w:.3f})" for c, w in zip(covered, wide, strict=True))
        print(f"{name:<30}{np.mean(off):>+16.3f}{shown}")
        assert covered[0] >= 0.935, name
        assert wide[0] <= 1.05 * wide[1], f"{name}: never much wider than labels alone"
        if name.startswith("good") and n >= 50:
            assert wide[0] < 0.8 * wide[1], f"{name}: a good judge is worth labels"


def test_agreement_on_a_sweep_takes_seconds() -> None:
    rng = np.random.default_rng(0)
    names = [f"configuration {i}" for i in range(6)]
    verdicts = {name: judgements(rng.integers(0, 5, ANSWERS) / 4) for name in names}
    frame = _frame([(name, i, float(rng.integers(0, 5)) / 4) for name in names for i in range(200)])
    start = time.perf_counter()
    table = judge_agreement(verdicts, frame)
    seconds = time.perf_counter() - start
    print(f"\n1,200 labels, 7 statistics, 2,000 resamples each: {seconds:.1f} s")
    assert len(table) == 7
    assert seconds < 20


def _frame(rows: list[tuple[str, int, float]]) -> pd.DataFrame:
    named = [(name, f"q{i}", "correctness", value) for name, i, value in rows]
    return pd.DataFrame(named, columns=["configuration", "query_id", "criterion", "value"])


def test_the_audit_of_the_smallest_model(
    small_model: str, llm_environment: pytest.MonkeyPatch
) -> None:
    """A model of 98 MB is not fit as a judge, and the audit reports so."""
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.reference_answer][:4])
    answers = [rb.Answer(case.query_id, case.reference_answer or "") for case in data.cases]
    start = time.perf_counter()
    audit = judge_audit(answers, "correctness", small_model, dataset=data, n=4)
    print(
        f"\n{audit.drop(columns='means').to_string(index=False)}\n{time.perf_counter() - start:.0f} s"
    )
    assert (audit["verdict"] == "pass").sum() < len(audit)
