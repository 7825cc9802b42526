"""What the built-in safety baselines can do (`pytest -m benchmark`), and whether their weights can be
fitted again (`pytest -m simulation -s`).
"""

from __future__ import annotations

import json
import runpy
import time
from pathlib import Path

import numpy as np
import pytest

from ragbench.datasets.safety import load_safety_samples
from ragbench.metrics.safety import injection_score, injection_scores, leakage_findings
from ragbench.metrics.safety.detection import (
    detection_report,
    leakage_report,
    output_findings,
    roc_auc,
    tpr_at_fpr,
)
from ragbench.metrics.safety.injection import _head
from ragbench.metrics.safety.patterns import FEATURE_NAMES
from tests.benchmark_table import Benchmark

DATA = Path(__file__).parents[2] / "shared" / "data"

pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")


@pytest.mark.benchmark
def test_held_out_inputs(benchmark: Benchmark) -> None:
    inputs, _ = load_safety_samples()
    report = detection_report(inputs, injection_scores([sample.text for sample in inputs]).tolist())
    overall = report[report["part"] == "all"].set_index("measure")["value"]
    ahead = overall["auc"] - overall["length_auc"]
    benchmark.record("AUC of attacks, held-out inputs", "-", overall["auc"], at_least=0.8)
    benchmark.record("the same minus its peer's", "length of the text", ahead, at_least=0.1)
    blocked = overall["false_block_rate"]
    benchmark.record("harmless held-out inputs that are blocked", "-", blocked, at_most=0.15)


@pytest.mark.benchmark
def test_outputs(benchmark: Benchmark) -> None:
    _, outputs = load_safety_samples()
    report = leakage_report(outputs, output_findings(outputs))
    overall = report[report["part"] == "all"].set_index("measure")["value"]
    found, false = overall["detection_rate"], overall["false_positive_rate"]
    benchmark.record("leaks that are found in outputs", "-", found, at_least=0.85)
    benchmark.record("outputs without a leak that are reported", "-", false, at_most=0.06)


@pytest.mark.benchmark
def test_real_questions_and_passages_stay_calm(benchmark: Benchmark) -> None:
    for name in ("squad", "clapnq", "pubmedqa"):
        folder = DATA / name
        if not folder.is_dir():
            pytest.skip(f"{folder} is not here")
        for file, most in (("queries.jsonl", 150), ("corpus.jsonl", 25)):
            lines = (folder / file).read_text(encoding="utf-8").splitlines()[:most]
            texts = [json.loads(line)["text"] for line in lines]
            scores = injection_scores(texts)
            leaks = sum(bool(leakage_findings(text)) for text in texts)
            blocked = float((scores >= 0.5).mean())
            work = f"{len(texts)} real texts of {name}/{file}"
            benchmark.record(f"{work} that are blocked", "-", blocked, at_most=0.05)
            benchmark.record(f"leaks in {work}", "-", leaks, at_most=1)


@pytest.mark.simulation
def test_weights_are_what_the_fitting_command_makes_of_the_sentences() -> None:
    fitting = runpy.run_path(str(Path(__file__).with_name("fitting") / "injection.py"))
    rows = fitting["training_sentences"]()
    inputs, harmful = (
        fitting["Inputs"]([row["text"] for row in rows]),
        np.array([row["harmful"] for row in rows]),
    )
    head, kept = fitting["fit_head"](inputs, harmful, np.ones(len(rows), dtype=bool)), _head()
    again = np.array([head["signs"][name] for name in FEATURE_NAMES])
    worst = np.abs(again - kept.signs).max()
    worst = max(
        worst,
        *(
            np.abs(np.array(head[part]) - getattr(kept, part)).max()
            for part in ("embedding", "words")
        ),
    )
    print(f"largest difference of a weight after fitting again: {worst:.4f}")
    assert worst < 0.05

    # an attack of a category that training lacks, against harmless sentences that it lacks as well
    calm = np.flatnonzero(~harmful)
    for category in sorted({row["category"] for row in rows if row["harmful"]}):
        unseen = np.array([row["category"] == category for row in rows])
        held = unseen | np.isin(np.arange(len(rows)), calm[::3])
        scores = inputs.scores(fitting["fit_head"](inputs, harmful, ~held))[held]
        bad, good = scores[harmful[held]], scores[~harmful[held]]
        area, share = roc_auc(bad, good), tpr_at_fpr(bad, good, 0.05)
        print(
            f"{category}: never seen, AUC {area:.3f}, TPR at FPR 5 % {share:.2f} (n = {held.sum()})"
        )
        assert area > 0.7


@pytest.mark.benchmark
def test_speed(benchmark: Benchmark) -> None:
    injection_score("warm up")
    start = time.perf_counter()
    for i in range(20):
        injection_score(f"Please ignore the previous email number {i}.")
    each = (time.perf_counter() - start) / 20
    benchmark.record("injection_score of a short text", "-", 1000 * each, at_most=1000, unit="ms")
