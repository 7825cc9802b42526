"""`pytest -m benchmark -s tests/test_benchmarks_sweep.py`: what forks save, and what 200 kills leave."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest

from ragbench.sweep import forks, read_grid, sweep
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.imports import imports_of
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Launcher
from tests.test_sweep import SLOW, alive_in, numbers_of, start_sweep, wait_until, write_grid

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(forks.unavailable() is not None, reason="there are no forks here"),
]


def cpu_seconds(work: Callable[[], object]) -> float:
    """What the processes that `work` starts and waits for take."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_trivial_notebook_takes_a_fifth(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    parameters = nbformat.v4.new_code_cell("x: int = 1", metadata={"tags": ["parameters"]})
    notebook.cells = [parameters, nbformat.v4.new_code_cell("print(x)")]

    def run(count: int, *, fork: bool) -> None:
        with Launcher(imports_of([], []), side_by_side=2, fork=fork) as launcher:
            for i in range(count):
                folder = tmp_path / f"{fork}-{count}-{i}"
                folder.mkdir()
                job = Job("a", folder, folder, folder, 100.0, "n.ipynb", {"x": i}, None, {}, {}, False)
                job.input.write_text(nbformat.writes(notebook), encoding="utf-8")
                launcher.start(job)
                while not (ended := launcher.ended()):
                    time.sleep(0.01)
                assert ended[0].error == ""

    spawned = cpu_seconds(lambda: run(5, fork=False)) / 5
    one, many = cpu_seconds(lambda: run(1, fork=True)), cpu_seconds(lambda: run(21, fork=True))
    forked = (many - one) / 20
    print(f"\na trivial notebook: spawned {spawned:.2f} CPU s, forked {forked:.2f}: ratio {forked / spawned:.2f} "
          f"(and {one - forked:.2f} once for the server)")  # fmt: skip
    assert forked <= 0.2 * spawned


def test_the_quickstart_takes_little_more_than_half(tmp_path: Path) -> None:
    """Four notebooks with their comparison, server included, all caches warm; next to a fresh Python for each.

    A notebook of the version before forks and kept evidence took 28 CPU s where a forked one takes 5.5.
    """
    grid = Path("notebooks/quickstart.toml").absolute()
    part = grid.parent / f"benchmark-{os.getpid()}.toml"
    text = grid.read_text(encoding="utf-8").replace(', "dense:minilm", "hybrid:minilm"', "")
    part.write_text(text.replace('    { chunker = "fixed", chunk_size = 128 },\n', ""), encoding="utf-8")
    try:
        sweep(part, jobs=2, out=tmp_path / "cold")
        forked = cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "forked"))
        spawned = cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "spawned", fork=False))
    finally:
        part.unlink()
    print(f"\na part of the quickstart: forked {forked:.1f} CPU s, spawned {spawned:.1f}: ratio {forked / spawned:.2f}")
    made = numbers_of(tmp_path / "forked" / part.stem)
    assert len(made) == 8
    assert made == numbers_of(tmp_path / "spawned" / part.stem)
    assert forked <= 0.6 * spawned


def test_200_kills_leave_no_process_and_no_half_result(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "notebooks", SLOW.replace("[0.25, 0.5, 1.0]", str([i / 12 for i in range(12)])))
    (path.parent / "compare.ipynb").unlink()
    assert not sweep(path, jobs=2, out=tmp_path / "undisturbed", fork=False).failed
    undisturbed = numbers_of(tmp_path / "undisturbed" / "tiny")
    out = tmp_path / "killed"
    kills, seed = dict.fromkeys(("sweep", "server", "run", "kernel", "group"), 0), int.from_bytes(os.urandom(4))
    drawn = random.Random(seed)
    print(f"\nseed {seed}")
    running = start_sweep(path, out, fork=True)
    while sum(kills.values()) < 200:
        # The kind first and each as often; then a moment in the life of one of them.
        victim, before = drawn.choice(list(kills)), sum(kills.values())
        while sum(kills.values()) == before:
            wait_until(lambda: running.poll() is not None or victim in ("group", *alive_in(out).values()), 60)  # noqa: B023
            time.sleep(drawn.random() * (1 if victim in ("run", "kernel") else 3))
            with suppress(ProcessLookupError):
                if victim == "group" and running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)
                    kills[victim] += 1
                elif of_kind := [pid for pid, kind in alive_in(out).items() if kind == victim]:
                    os.kill(drawn.choice(of_kind), signal.SIGKILL)
                    kills[victim] += 1
            print(f"\r{kills}", end="", flush=True)
            if victim in ("sweep", "group") or running.poll() is not None:
                running.communicate(timeout=120)
                assert wait_until(lambda: not alive_in(out), 10), f"after {kills}: {alive_in(out)}"
                folder, found = SweepFolder(out / "tiny"), numbers_of(out / "tiny")
                for name in read_grid(path).runs:
                    whole = {f"{name}/scores.csv", f"{name}/run.trec"} if folder.notebook(name).is_file() else set()
                    assert {key: found[key] for key in whole} == {key: undisturbed[key] for key in whole}, name
                if len(found) == 24:
                    shutil.rmtree(out)
                running = start_sweep(path, out, fork=True)
    running.kill()
    running.communicate(timeout=120)
    assert wait_until(lambda: not alive_in(out), 10), f"lives on: {alive_in(out)}"
    assert not sweep(path, jobs=2, out=out).failed
    assert numbers_of(out / "tiny") == undisturbed
