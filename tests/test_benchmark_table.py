"""`pytest -m benchmark` ends with one table, which names peers that are not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.benchmark_table import Benchmark, as_text

ROOT = Path(__file__).parents[1]
BENCHMARKS = """
def test_within(benchmark):
    peer = benchmark.peer("sums", "pytest", "pluggy")
    benchmark.record("sums", peer, 0.5, at_most=1)

def test_beyond(benchmark):
    benchmark.record("products", "-", 7, at_least=10, unit="MB")
    benchmark.record("roots", "-", 3, at_most=2, bound=4)

def test_of_a_peer_that_is_not_here(benchmark):
    benchmark.peer("powers", "pytest", "no-such-backend")
    assert False, "skipped before"

def test_without_a_line():
    pass
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_table_has_every_line_and_a_goal_that_is_missed_fails(
    tmp_path: Path, processes: str
) -> None:
    """In one process and in another one of pytest-xdist."""
    file = tmp_path / "test_some.py"
    file.write_text(BENCHMARKS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.benchmark_table", "-n", processes]
    command += ["-c", str(tmp_path / "none.ini"), "--rootdir", str(tmp_path), str(file)]
    (tmp_path / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "1 failed, 2 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    versions = f"pytest {metadata.version('pytest')} with pluggy {metadata.version('pluggy')}"
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    start = printed.index("work peer ratio goal held")
    assert sorted(printed[start + 1 : start + 5]) == [
        "powers pytest with no-such-backend not installed -",
        "products - 7 MB >= 10 no",
        "roots - 3 <= 2 no",
        f"sums {versions} 0.5 <= 1 yes",
    ]
    assert "products, peer -: 7 MB, goal >= 10" in done.stdout


def test_columns_are_aligned_and_all_that_is_missed_is_named() -> None:
    lines: list[list[str]] = []

    def keep(_: str, line: object) -> None:
        assert isinstance(line, list)
        lines.append(line)

    benchmark = Benchmark(keep)
    benchmark.record("a", "-", 12345.6, at_most=2, unit="CPU s")
    benchmark.record("longer", "some 1.0", 0.01234)
    benchmark.record("b", "-", 1.5, at_most=1)
    assert as_text(lines) == (
        "work    peer      ratio         goal  held\n"
        "a       -         12,346 CPU s  <= 2  no\n"
        "longer  some 1.0  0.0123              -\n"
        "b       -         1.5           <= 1  no"
    )
    with pytest.raises(AssertionError, match=r"a, peer -: 12,346 CPU s.*\nb, peer -: 1.5"):
        benchmark.check()
