"""How long `ragbench eval` takes, from the command to the reports."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest


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
        f"\nragbench eval --suite smoke: first {taken[0]:.1f} s, warm {', '.join(f'{one:.1f}' for one in taken[1:])} s"
    )
    assert len(list((tmp_path / "results" / "eval").iterdir())) == 4
    assert best < 10
