"""`pytest -m benchmark -s tests/test_benchmarks_import.py`: importing ragbench against importing
pandas.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import pytest


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
def test_import_takes_less_than_a_third_of_pandas() -> None:
    for module in ("ragbench", "pandas"):
        seconds(module)  # the files are in memory from here on
    pairs = []
    for _ in range(7):
        pairs.append((seconds("ragbench"), seconds("pandas")))
        time.sleep(0.05)
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(
        f"\nimport ragbench {ours * 1000:.1f} ms, import pandas {theirs * 1000:.1f} ms: "
        f"ratio {ours / theirs:.3f}"
    )
    assert ours / theirs < 0.3
