"""What the built-in safety baselines can do; run with `pytest -m benchmark -s`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from ragbench.datasets.safety import load_safety_samples
from ragbench.metrics.safety import injection_score, injection_scores, leakage_findings
from ragbench.metrics.safety.detection import roc_auc, tpr_at_fpr
from ragbench.metrics.safety.injection import _head, fit_head, training_sentences
from ragbench.metrics.safety.patterns import FEATURE_NAMES
from ragbench.scoring.safety import detection_report, score_safety_outputs
from ragbench.types import Dataset

DATA = Path(__file__).parents[2] / "shared" / "data"

pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")]


def test_held_out_inputs() -> None:
    inputs, _ = load_safety_samples()
    report = detection_report(inputs, injection_scores([sample.text for sample in inputs]).tolist())
    print(report[report["split"].isin(["all", "category"])].round(3).to_string(index=False))
    overall = report[report["split"] == "all"].set_index("measure")["value"]
    assert overall["auc"] > overall["length_auc"] + 0.1
    assert overall["auc"] > 0.8
    assert overall["false_block_rate"] < 0.15


def test_outputs() -> None:
    _, outputs = load_safety_samples()
    report = score_safety_outputs(Dataset("built-in", "test", {}, [], {}, (), outputs))
    print(report.round(3).to_string(index=False))
    overall = report[report["split"] == "all"].set_index("measure")["value"]
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
            print(f"{name}/{file}: {len(texts)} texts, blocked {(scores >= 0.5).mean():.3f}, leaks {leaks}")
            assert (scores >= 0.5).mean() <= 0.05
            assert leaks <= 1


def test_weights_are_what_the_recipe_makes_of_the_sentences() -> None:
    head, kept = fit_head(training_sentences()), _head()
    again = np.array([head["signs"][name] for name in FEATURE_NAMES])
    worst = max(np.abs(again - kept.signs).max(), np.abs(np.array(head["embedding"]) - kept.embedding).max())
    print(f"largest difference of a weight after fitting again: {worst:.4f}")
    assert worst < 0.05


def test_categories_never_seen_in_training() -> None:
    from ragbench.metrics.safety import injection

    rows = training_sentences()
    calm_all = [row for row in rows if not row["harmful"]]
    # every third harmless sentence is held out with the category
    held, kept = calm_all[::3], [row for i, row in enumerate(calm_all) if i % 3]
    for category in injection.CATEGORIES:
        others = [row for row in rows if row["harmful"] and row["category"] != category]
        unseen = [row for row in rows if row["harmful"] and row["category"] == category]
        weights = fit_head([*others, *kept])
        head = injection._Head(
            weights["bias"],
            np.array([weights["signs"][name] for name in FEATURE_NAMES]),
            np.array(weights["embedding"]),
        )
        scores = []
        for row in (*unseen, *held):
            read = injection._read(row["text"])
            logits = injection._embed_stored([w.text for w in read.windows]) @ head.embedding + read.rows @ head.signs
            scores.append(float(logits.max()))
        labels = [True] * len(unseen) + [False] * len(held)
        area, share = roc_auc(labels, scores), tpr_at_fpr(labels, scores, 0.05)
        print(
            f"{category}: never seen, AUC {area:.3f}, TPR at FPR 5 % {share:.2f} (n={len(unseen)} against {len(held)})"
        )
        assert area > 0.7


def test_speed() -> None:
    injection_score("warm up")
    start = time.perf_counter()
    for i in range(20):
        injection_score(f"Please ignore the previous email number {i}.")
    print(f"one short text: {(time.perf_counter() - start) / 20 * 1000:.1f} ms")
    assert time.perf_counter() - start < 20
