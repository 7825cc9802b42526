"""`pytest -m benchmark tests/test_benchmarks_import.py`: importing ragbench, scoring a first run
and a first evaluation against importing pandas.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.benchmark_table import Benchmark


def seconds(module: str) -> float:
    code = (
        f"import time; start = time.perf_counter(); import {module}; "
        "print(time.perf_counter() - start)"
    )
    return float(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.benchmark
def test_import_takes_less_than_a_third_of_pandas(benchmark: Benchmark) -> None:
    for module in ("ragbench", "pandas"):
        seconds(module)  # the files are in memory from here on
    pairs = []
    for _ in range(7):
        pairs.append((seconds("ragbench"), seconds("pandas")))
        time.sleep(0.05)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    work = "importing ragbench"
    peer = benchmark.peer(work, "pandas")
    benchmark.record(work, f"importing {peer}", ours / theirs, at_most=0.3)


SCORE = """
import ragbench
ragbench.score_run({"q": {"d": 1}}, {"q": {"d": 0.5, "e": 0.4}})
"""
EVALUATE = """
import sys
from ragbench.cli import app
sys.argv[1:] = ["eval", "--suite", "smoke", "--output", "result", "--force"]
try:
    app()
except SystemExit:
    pass
heavy = {"torch", "transformers", "datasets", "matplotlib", "sklearn", "scipy.stats"}
assert not heavy & {*sys.modules}, heavy & {*sys.modules}
"""


def cpu_seconds(code: str, folder: Path, **environment: str) -> float:
    """CPU seconds of a process, with those that it starts."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        check=True,
    )
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system


@pytest.mark.benchmark
def test_first_scores_and_a_first_evaluation_against_importing_pandas(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    """Scores are a frame, so pandas is part of both; before: 1.2 and 12 times (warm)."""
    kept = {
        "RAGBENCH_CACHE_DIR": str(tmp_path / "cache"),
        "RAGBENCH_DATABASE": str(tmp_path / "runs.sqlite"),
    }
    cpu_seconds(EVALUATE, tmp_path, **kept)
    rounds = [
        [cpu_seconds(code, tmp_path, **kept) for code in ("import pandas", SCORE, EVALUATE)]
        for _ in range(3)
    ]
    pandas, scores, warm = (min(times) for times in zip(*rounds, strict=True))
    peer = f"importing {benchmark.peer('first scores', 'pandas')}"
    benchmark.record("CPU of the first score_run of a process", peer, scores / pandas, at_most=1.6)
    benchmark.record("CPU of a warm eval --suite smoke", peer, warm / pandas, at_most=16)


@pytest.mark.benchmark
def test_help_against_importing_what_draws_it(tmp_path: Path, benchmark: Benchmark) -> None:
    plain = "import typer.rich_utils"
    for line in ("--help", "list", "sweep --help"):
        command = (
            f"import sys; sys.argv = ['ragbench', *{line.split()!r}]\n"
            "from ragbench.cli import app; app()"
        )
        cpu_seconds(command, tmp_path)  # the bytecode is kept from here on
        rounds = [(cpu_seconds(plain, tmp_path), cpu_seconds(command, tmp_path)) for _ in range(5)]
        theirs, ours = (min(times) for times in zip(*rounds, strict=True))
        work = f"CPU of ragbench {line}"
        peer = f"importing {benchmark.peer(work, 'typer', 'rich')}"
        benchmark.record(work, peer, ours / theirs, at_most=2)
