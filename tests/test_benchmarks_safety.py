"""What the built-in safety baselines can do; run with `pytest -m benchmark -s`."""

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

DATA = Path(__file__).parents[2] / "shared" / "data"

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning"),
]


def test_held_out_inputs() -> None:
    inputs, _ = load_safety_samples()
    report = detection_report(inputs, injection_scores([sample.text for sample in inputs]).tolist())
    print(report.round(3).to_string(index=False))
    overall = report[report["part"] == "all"].set_index("measure")["value"]
    assert overall["auc"] > overall["length_auc"] + 0.1
    assert overall["auc"] > 0.8
    assert overall["false_block_rate"] < 0.15


def test_outputs() -> None:
    _, outputs = load_safety_samples()
    report = leakage_report(outputs, output_findings(outputs))
    print(report.round(3).to_string(index=False))
    overall = report[report["part"] == "all"].set_index("measure")["value"]
    assert overall["detection_rate"] > 0.85
    assert overall["false_positive_rate"] < 0.06


def test_real_questions_and_passages_stay_calm() -> None:
    for name in ("squad", "clapnq", "pubmedqa"):
        folder = DATA / name
        if not folder.is_dir():
            pytest.skip(f"{folder} is not here")
        for file, most in (("queries.jsonl", 150), ("corpus.jsonl", 25)):
            lines = (folder / file).read_text(encoding="utf-8").splitlines()[:most]
            texts = [json.loads(line)["text"] for line in lines]
            scores = injection_scores(texts)
            leaks = sum(bool(leakage_findings(text)) for text in texts)
            print(
                f"{name}/{file}: {len(texts)} texts, blocked {(scores >= 0.5).mean():.3f}, "
                f"leaks {leaks}"
            )
            assert (scores >= 0.5).mean() <= 0.05
            assert leaks <= 1


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


def test_speed() -> None:
    injection_score("warm up")
    start = time.perf_counter()
    for i in range(20):
        injection_score(f"Please ignore the previous email number {i}.")
    print(f"one short text: {(time.perf_counter() - start) / 20 * 1000:.1f} ms")
    assert time.perf_counter() - start < 20
