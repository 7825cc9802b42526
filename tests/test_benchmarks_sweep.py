"""What forks save (`pytest -m benchmark`), and what 200 kills leave (`pytest -m simulation -s`)."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import nbformat
import pytest

from ragbench.sweep import read_grid, sweep
from ragbench.sweep.job import Job
from ragbench.sweep.processes import LocalExecutor
from ragbench.sweep.sweep_folder import SweepFolder
from tests.benchmark_table import Benchmark
from tests.test_sweep import FORKS, SLOW, alive_in, numbers_of, start_sweep, wait_until, write_grid

_SET_CHILD_SUBREAPER = 36

pytestmark = pytest.mark.skipif(not FORKS, reason="there are no forks here")


def cpu_seconds(work: Callable[[], object]) -> float:
    """What the processes that `work` starts take, those included that outlive it."""
    pid = os.fork()
    if pid == 0:  # as the process that inherits orphans
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if (inner := os.fork()) == 0:
            work()
            os._exit(0)
        status = os.waitpid(inner, 0)[1]
        with suppress(ChildProcessError):
            while True:
                os.wait()
        os._exit(status != 0)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.benchmark
def test_a_trivial_notebook_takes_a_fifth(tmp_path: Path, benchmark: Benchmark) -> None:
    notebook = nbformat.v4.new_notebook()
    parameters = nbformat.v4.new_code_cell("x: int = 1", metadata={"tags": ["parameters"]})
    notebook.cells = [parameters, nbformat.v4.new_code_cell("print(x)")]

    text = nbformat.writes(notebook)

    def run(count: int, *, fork: bool) -> None:
        executor = LocalExecutor([], side_by_side=2, fork=fork)
        for i in range(count):
            folder = tmp_path / f"{fork}-{count}-{i}"
            folder.mkdir()
            job = Job(
                "a", folder, folder, folder, 100.0, "n.ipynb", text, {"x": i}, None, {}, {}, False
            )
            executor.start(job)
            while not (ended := executor.ended()):
                time.sleep(0.01)
            assert ended[0].error == ""

    one_spawned, many_spawned = (cpu_seconds(partial(run, n, fork=False)) for n in (1, 6))
    one, many = (cpu_seconds(partial(run, n, fork=True)) for n in (1, 21))
    spawned, forked = (many_spawned - one_spawned) / 5, (many - one) / 20
    work = "CPU of a trivial notebook in a fork"
    benchmark.record(work, "a fresh Python", forked / spawned, at_most=0.2)


@pytest.fixture
def part() -> Iterator[Path]:
    """Four configurations of the quickstart, next to its notebook."""
    grid = Path("notebooks/quickstart.toml").absolute()
    path = grid.parent / f"benchmark-{os.getpid()}.toml"
    text = grid.read_text(encoding="utf-8").replace(', "hybrid:minilm"', "")
    path.write_text(text, encoding="utf-8")
    yield path
    path.unlink()


@pytest.mark.benchmark
def test_the_quickstart_takes_three_quarters_of_spawned_processes(
    part: Path, tmp_path: Path, benchmark: Benchmark
) -> None:
    """Four notebooks with their comparison, server included, all caches warm; next to a fresh
    Python for each.

    A notebook of the version before forks and kept evidence took 28 CPU s where a forked one takes
    3. What a fork saves is the start of Python, so its share grows as the cells get faster.
    """
    cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "cold"))
    forked = cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "forked"))
    spawned = cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "spawned", fork=False))
    made = numbers_of(tmp_path / "forked" / part.stem)
    assert len(made) == 8
    assert made == numbers_of(tmp_path / "spawned" / part.stem)
    work = "CPU of a warm sweep of four in forks"
    benchmark.record(work, "a fresh Python for each", forked / spawned, at_most=0.85)


@pytest.mark.benchmark
def test_dask_takes_little_more_than_jobs(part: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    """The same runs on two workers of a Dask cluster here, warm; its imports included."""
    work = "CPU of a warm sweep of four on two workers of Dask"
    workers = benchmark.peer(work, "distributed")
    cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "cold"))
    address = "dask://local?workers=2"
    jobs = cpu_seconds(lambda: sweep(part, jobs=2, out=tmp_path / "jobs"))
    by_dask = cpu_seconds(lambda: sweep(part, out=tmp_path / "dask", executor=address))
    made = numbers_of(tmp_path / "dask" / part.stem)
    assert made == numbers_of(tmp_path / "jobs" / part.stem)
    peer = f"--jobs 2, without {workers}"
    benchmark.record(work, peer, by_dask / jobs, at_most=1.2)


@pytest.mark.benchmark
def test_a_warm_configuration_takes_less_than_half_of_papermill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark
) -> None:
    """The command `ragbench sweep --force` with its comparison, per configuration, at six and at
    twelve of them, next to the command `papermill` on the same notebook; all caches warm for both.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    few = Path("notebooks/quickstart.toml").read_text(encoding="utf-8")
    last = '    { chunker = "recursive", chunk_size = 256 },\n'
    more = last.replace("256", "128") + last.replace("recursive", "sentence")
    assert last in few
    papermill = [sys.executable, "-m", "papermill", "evaluate.ipynb", str(tmp_path / "out.ipynb")]
    papermill += ["--no-progress-bar", "-k", "python3", "-p", "depth", "20"]
    papermill += ["-p", "results_dir", str(tmp_path / "result")]
    run = partial(subprocess.run, check=True, capture_output=True, cwd="notebooks")
    per_run: dict[int, float] = {}
    for n, text in ((12, few.replace(last, last + more)), (6, few)):
        grid = tmp_path / f"{n}.toml"
        notebook = Path("notebooks/evaluate.ipynb").absolute()
        grid.write_text(text.replace("[sweep]", f'[sweep]\nnotebook = "{notebook}"'), "utf-8")
        command = [sys.executable, "-m", "ragbench", "sweep", str(grid), "--jobs", "2", "--force"]
        command += ["--output", str(tmp_path)]
        if n == 12:
            run(command)  # fills the caches, for the six among the twelve too
        per_run[n] = cpu_seconds(partial(run, command)) / n
    retrievers = ("bm25", "dense:minilm", "hybrid:minilm")
    alone = [cpu_seconds(partial(run, [*papermill, "-p", "retriever", r])) for r in retrievers]
    mean = sum(alone) / len(alone)
    for n, goal, bound in ((6, 0.3, 0.5), (12, 0.25, 0.45)):
        work = f"CPU of a warm configuration of {n}, comparison included"
        peer = benchmark.peer(work, "papermill")
        benchmark.record(work, peer, per_run[n] / mean, at_most=goal, bound=bound)


@pytest.mark.simulation
def test_200_kills_leave_no_process_and_no_half_result(tmp_path: Path) -> None:
    path = write_grid(
        tmp_path / "notebooks", SLOW.replace("[0.25, 0.5, 1.0]", str([i / 12 for i in range(12)]))
    )
    (path.parent / "compare.ipynb").unlink()
    assert not sweep(path, jobs=2, out=tmp_path / "undisturbed", fork=False).failed
    undisturbed = numbers_of(tmp_path / "undisturbed" / "tiny")
    out = tmp_path / "killed"
    kills, seed = (
        dict.fromkeys(("sweep", "server", "run", "group"), 0),
        int.from_bytes(os.urandom(4)),
    )
    drawn = random.Random(seed)
    print(f"\nseed {seed}")
    running = start_sweep(path, out, fork=True)
    while sum(kills.values()) < 200:
        # The kind first and each as often; then a moment in the life of one of them.
        victim, before = drawn.choice(list(kills)), sum(kills.values())
        while sum(kills.values()) == before:
            wait_until(
                lambda: running.poll() is not None or victim in ("group", *alive_in(out).values()),  # noqa: B023
                60,
            )
            time.sleep(drawn.random() * (1 if victim == "run" else 3))
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
                assert wait_until(lambda: not alive_in(out), 60), f"after {kills}: {alive_in(out)}"
                folder, found = SweepFolder(out / "tiny"), numbers_of(out / "tiny")
                for name in read_grid(path).runs:
                    whole = (
                        {f"{name}/scores.csv", f"{name}/run.trec"}
                        if folder.notebook(name).is_file()
                        else set()
                    )
                    assert {key: found[key] for key in whole} == {
                        key: undisturbed[key] for key in whole
                    }, name
                if len(found) == 24:
                    shutil.rmtree(out)
                running = start_sweep(path, out, fork=True)
    running.kill()
    running.communicate(timeout=120)
    assert wait_until(lambda: not alive_in(out), 60), f"lives on: {alive_in(out)}"
    assert not sweep(path, jobs=2, out=out).failed
    assert numbers_of(out / "tiny") == undisturbed
