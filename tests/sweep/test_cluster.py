"""Sweeps on Dask clusters: real schedulers, real workers, kills."""

from __future__ import annotations

import collections
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataError, SweepError
from ragbench.evaluation.identity import criteria_digest
from ragbench.evaluation.spec import spec_of
from ragbench.files import STAGING
from ragbench.llms import Settings
from ragbench.sweep import budget, read_grid, remote, sweep
from ragbench.sweep.cluster import _connect
from ragbench.sweep.grid import sources_of, working_folder
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.sweep_folder import SweepFolder
from ragbench.sweep.worker import _check_criteria
from tests.service.conftest import _postgresql, new_database  # noqa: F401
from tests.sweep import test_language_models as language_models
from tests.test_sweep import alive_in, numbers_of, visible, wait_until, write_grid

pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default")


def jobs_of(path: Path, out: Path) -> list[Job]:
    grid = read_grid(path)
    place = Place(grid.notebook.path, grid.notebook.text, working_folder(grid), 60.0)
    sources = sources_of(grid)
    return [
        make_job(SweepFolder(out / "tiny"), name, place, own, source=sources[name], stamp={})
        for name, own in grid.runs.items()
    ]


def executed(path: Path) -> Any:
    """A notebook without its times."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"].pop("papermill")
    for cell in notebook["cells"]:
        cell.pop("id")  # that of the injected cell is drawn at random
        for key in ("papermill", "execution"):
            cell["metadata"].pop(key, None)
    return notebook


def test_a_cluster_on_this_machine_leaves_what_a_local_sweep_leaves(tmp_path: Path) -> None:
    path, out = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1"), tmp_path / "results"
    (name,) = sweep(path, out=out).finished
    local = out.rename(tmp_path / "local") / "tiny"
    far = sweep(path, out=out, executor="dask://local?workers=1")
    assert far.finished == (name,)
    assert visible(far.folder) == visible(local)
    assert numbers_of(far.folder) == numbers_of(local)
    assert executed(far.folder / f"{name}.ipynb") == executed(local / f"{name}.ipynb")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("dask://scheduler:8786", "would not be encrypted"),
        ("dask://scheduler", "expected dask://host:8786"),
        ("dask://local?workers=x", "expected dask://host:8786"),
        ("http://127.0.0.1:8786", "expected dask://host:8786"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _connect(address)


def test_a_task_holds_paths_below_one_folder_and_the_files_that_its_parameters_name(
    tmp_path: Path,
) -> None:
    path = write_grid(
        tmp_path / "notebooks", '[axes]\nbehaviour = ["my_part:thing", "../data/set", "/data/set"]'
    )
    (path.parent / "my_part.py").write_text("thing = 1")
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "corpus.jsonl").write_text("{}")
    jobs = jobs_of(path, tmp_path / "results")
    packer = remote.Packer(jobs)
    assert str(tmp_path) not in json.dumps([packer.packed(job) for job in jobs])
    with zipfile.ZipFile(io.BytesIO(packer.inputs)) as file:
        names = [str(packer._base / name) for name in file.namelist()]
    assert names == [f"{tmp_path}/data/set/corpus.jsonl", f"{tmp_path}/notebooks/my_part.py"]


def test_criteria_travel_to_workers_from_files_and_modules(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    (path.parent / "crit").mkdir()
    (path.parent / "crit" / "mine.toml").write_text("[polite]\nquestion = 'Is it polite?'\n")
    (path.parent / "my_judges.py").write_text(
        "def brevity(case, answer, contexts):\n    return 1\n"
    )
    (job,) = jobs_of(path, tmp_path / "results")
    named = {"criteria": "relevance, crit/mine.toml,my_judges:brevity"}
    packer = remote.Packer([replace(job, parameters={**job.parameters, **named})])
    with zipfile.ZipFile(io.BytesIO(packer.inputs)) as file:
        names = [str(packer._base / name) for name in file.namelist()]
    notebooks = path.parent
    assert names == [f"{notebooks}/crit/mine.toml", f"{notebooks}/my_judges.py"]


def test_the_module_of_an_embedder_travels_to_workers(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    (path.parent / "my_rag.py").write_text("letters = 1")
    (job,) = jobs_of(path, tmp_path / "results")
    named = {"retriever": "dense:my_rag:letters"}
    packer = remote.Packer([replace(job, parameters={**job.parameters, **named})])
    with zipfile.ZipFile(io.BytesIO(packer.inputs)) as file:
        names = [str(packer._base / name) for name in file.namelist()]
    assert names == [f"{path.parent}/my_rag.py"]


def test_the_host_of_a_service_is_no_folder_that_travels(tmp_path: Path) -> None:
    """A host such as "tmp" would be taken for the folder /tmp, because "//tmp" is one."""
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    (job,) = jobs_of(path, tmp_path / "results")
    named = {"system": "http://tmp:8000"}
    packer = remote.Packer([replace(job, parameters={**job.parameters, **named})])
    with zipfile.ZipFile(io.BytesIO(packer.inputs)) as file:
        assert file.namelist() == []


def test_a_worker_with_other_criteria_is_refused(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    mine = tmp_path / "notebooks" / "mine.toml"
    mine.write_text("[polite_or_not]\nquestion = 'Is it polite?'\n")
    (job,) = jobs_of(path, tmp_path / "results")
    parameters = {"judge": "openai:j", "criteria": str(mine)}
    digest = criteria_digest(spec_of(parameters), path.parent)
    job = replace(job, parameters=parameters, source={"criteria_sha256": digest})
    _check_criteria(job)
    _check_criteria(replace(job, source=None))
    mine.write_text("[polite_or_not]\nquestion = 'Is it kind?'\n")
    with pytest.raises(SweepError, match="not those with which the sweep began"):
        _check_criteria(job)


def test_a_task_with_a_key_or_a_url_with_credentials_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs_of(
        write_grid(tmp_path / "notebooks", '[fixed]\nbehaviour = "http://me:secret@host/v1"'),
        tmp_path,
    )
    with pytest.raises(ConfigError, match="URL with credentials"):
        remote.Packer([job])
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789")
    with pytest.raises(ConfigError, match="holds the value of MY_API_KEY"):
        remote.Packer([replace(job, text='{"source": "key = \'sk-0123456789\'"}')])


@pytest.mark.parametrize("what", ["ragbench", "python", "store"])
def test_a_worker_with_another_version_or_store_is_refused(tmp_path: Path, what: str) -> None:
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    (job,) = jobs_of(path, tmp_path / "results")
    packer = remote.Packer([job])
    task = packer.packed(job)
    if what == "store":
        task["store"], expected = (
            "of the client",
            "has another RAGBENCH_DATABASE than this sweep, or none",
        )
    else:
        task["versions"] = {**task["versions"], what: "9.9"}
        expected = f"has {what} {remote.versions()[what]} and this sweep has 9.9"
    came = remote.execute(task, packer.inputs, side_by_side=1, is_needed=lambda: True)
    assert expected in came["error"]
    assert came["files"] == {}


def test_a_file_that_is_no_part_of_a_result_is_refused(tmp_path: Path) -> None:
    (job,) = jobs_of(write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1"), tmp_path / "results")
    for name in ("../x", "/x", f"{job.name}/../../x", "other.ipynb"):
        with pytest.raises(SweepError, match="not part of a result"):
            remote.unpack({"error": "", "failure": None, "files": {name: b""}}, job, 1.0)


def test_paid_models_need_what_the_workers_share(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"llm": "anthropic:claude-haiku-4-5", "judge": "ollama:m"}]
    with pytest.raises(ConfigError, match="anthropic:claude-haiku-4-5 may cost money"):
        budget.check_shared("dask://127.0.0.1:8786", runs, Settings())
    budget.check_shared("dask://127.0.0.1:8786", runs, Settings(replies="offline"))
    budget.check_shared("dask://local", runs, Settings())
    monkeypatch.setenv("RAGBENCH_DATABASE", "postgresql://127.0.0.1:1/none")
    with pytest.raises(DataError, match="cannot be used"):
        budget.check_shared("dask://127.0.0.1:8786", runs, Settings())


# --- killed
# -----------------------------------------------------------------------------------------------------


@pytest.mark.simulation
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_a_stopped_client_ends_the_runs_and_continues(tmp_path: Path, how: signal.Signals) -> None:
    path, out = (
        write_grid(tmp_path / "notebooks", "[axes]\npause = [0.0, 600.0]"),
        tmp_path / "results",
    )
    command = [sys.executable, "-m", "ragbench", "sweep", str(path), "--output", str(out)]
    client = subprocess.Popen(
        [*command, "--executor", "dask://local?workers=2"],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SWEEP_OF_A_TEST": str(out)},
    )
    first, _ = read_grid(path).runs
    assert wait_until((out / "tiny" / f"{first}.ipynb").exists, 120)
    assert wait_until(lambda: "run" in alive_in(out).values(), 60)
    os.killpg(client.pid, how) if how is signal.SIGINT else client.send_signal(how)
    _, printed = client.communicate(timeout=120)
    assert client.returncode == (130 if how is signal.SIGINT else -how)
    assert how is signal.SIGKILL or "Stopped: 1 of 2" in printed
    assert wait_until(lambda: not alive_in(out), 60)
    left = [
        name
        for name in visible(out / "tiny")
        if how is signal.SIGINT or not name.startswith(STAGING)
    ]
    assert left == [first, f"{first}.ipynb"]
    assert sweep(path, out=out, only=first).skipped == (first,)


class Machines:
    """A scheduler, and workers that have nothing in common but the network."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.start_scheduler()

    def start_scheduler(self) -> None:
        port = str(self.port)
        self.start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")

    def start(self, name: str, *arguments: str, **variables: str) -> None:
        own = self.folder / name
        (own / "tmp").mkdir(parents=True, exist_ok=True)
        kind = name if name == "scheduler" else "worker"
        with (own / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments],
                cwd=own,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "HOME": str(own),
                    "TMPDIR": str(own / "tmp"),
                    "RAGBENCH_CACHE_DIR": str(own / "cache"),
                    "RAGBENCH_DATABASE": self.database,
                    **variables,
                },
            )

    def add(self, name: str, **variables: str) -> None:
        self.start(
            name,
            f"tcp://127.0.0.1:{self.port}",
            "--nthreads",
            "1",
            "--no-nanny",
            "--no-dashboard",
            **variables,
        )

    def stop(self, *names: str) -> None:
        for name in names or [*self.processes]:
            self.processes[name].kill()
            self.processes[name].wait()

    def workers(self) -> int:
        from distributed import Client

        with Client(f"tcp://127.0.0.1:{self.port}", timeout=60) as client:
            return len(client.scheduler_info()["workers"])


def write_paid_grid(folder: Path, axes: str) -> Path:
    """A grid whose runs ask two paid models about two questions, with its dataset next to it."""
    grid_text = '[fixed]\ndataset = "../data/set"\njudge = "openai:j"\ncriteria = "relevance"\n'
    data = folder / "data" / "set"
    (data / "qrels").mkdir(parents=True)
    texts = [
        f"Document {i} is about {word} and nothing else."
        for i, word in enumerate(("red", "green", "blue"))
    ]
    lines = [
        json.dumps({"_id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(texts)
    ]
    (data / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    questions = [
        json.dumps({"_id": f"q{i}", "text": f"What is {word}?"})
        for i, word in enumerate(("red", "blue"))
    ]
    (data / "queries.jsonl").write_text("\n".join(questions) + "\n")
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td2\t1\n")
    return language_models.write_grid(folder / "notebooks", f"{grid_text}[axes]\n{axes}")


@pytest.mark.simulation
def test_machines_that_share_no_folder_give_the_same_bytes_and_pay_once(
    tmp_path: Path,
    new_database: Callable[[str], str],  # noqa: F811
    wire: Any,
    loopback: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_paid_grid(
        tmp_path, 'prompt = ["cited", "plain"]\nk = [1, 2]\nchunk_size = [64, 128]'
    )

    def answered(asked: Any) -> Any:
        if len(server.asked) == 6 and far:
            with server.lock:
                in_flight.extend(language_models.prompts_of(server))
            machines.stop("a")
        time.sleep(0.3)
        return language_models.reply_to(asked, wire)

    in_flight: list[Any] = []
    far = False
    server = loopback(answered)
    language_models.settings(monkeypatch, tmp_path / "cache", server.url, tmp_path)
    local = sweep(path, out=tmp_path / "local")
    assert not local.failed
    paid = sorted(language_models.prompts_of(server))
    assert max(collections.Counter(paid).values()) == 1

    server.asked.clear()
    far, database = True, new_database("postgresql")
    with pytest.raises(ConfigError, match="set RAGBENCH_DATABASE to one PostgreSQL database"):
        sweep(path, out=tmp_path / "far", executor="dask://127.0.0.1:1")
    monkeypatch.setenv("RAGBENCH_DATABASE", database)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "another cache"))
    machines = Machines(tmp_path / "machines", database)
    try:
        other = tmp_path / "other" / "ragbench_lab-9.9.dist-info"
        other.mkdir(parents=True)
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: ragbench-lab\nVersion: 9.9\n")
        machines.add("old", PYTHONPATH=str(other.parent))
        assert wait_until(lambda: machines.workers() == 1, 120)
        address = f"dask://127.0.0.1:{machines.port}"
        with pytest.raises(SweepError, match=r"has ragbench 9\.9 and this sweep has"):
            sweep(path, out=tmp_path / "far", executor=address)
        machines.stop("old")
        for name in "abcd":
            machines.add(name)
        assert wait_until(lambda: machines.workers() == 4, 120)
        result = sweep(path, out=tmp_path / "far", executor=address, max_cost=1000)
        assert not result.failed, result.failed
        assert machines.processes["a"].poll() is not None
    finally:
        machines.stop()
    assert numbers_of(result.folder) == numbers_of(local.folder)
    asked = collections.Counter(language_models.prompts_of(server))
    assert sorted(asked) == paid
    twice = {prompt for prompt, times in asked.items() if times > 1}
    print(
        f"\n{len(paid)} requests; of {len(in_flight)} before the kill {len(twice)} were sent again"
    )
    assert twice <= set(in_flight[-4:])  # at most what was on its way when the worker was killed
    assert len(twice) <= 1
    account = budget.on_account(Settings(), result.folder)
    assert budget.dollars_spent(account) == pytest.approx(
        0.018 * len(paid), abs=0.018 * len(twice) + 1e-9
    )


@pytest.mark.simulation
def test_a_killed_scheduler_is_an_error_and_the_same_command_buys_no_reply_again(
    tmp_path: Path,
    new_database: Callable[[str], str],  # noqa: F811
    wire: Any,
    loopback: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived: list[Any] = []
    is_killed = False

    def answered(asked: Any) -> Any:
        nonlocal is_killed
        with server.lock:
            kills = not is_killed and len(server.asked) >= 3
            is_killed = is_killed or kills
        if kills:
            machines.stop("scheduler")
        time.sleep(0.5)
        arrived.append(asked)
        return language_models.reply_to(asked, wire)

    path, out = (
        write_paid_grid(tmp_path, 'prompt = ["cited", "plain"]\nk = [1, 2]'),
        tmp_path / "far",
    )
    server = loopback(answered)
    language_models.settings(monkeypatch, tmp_path / "cache", server.url, tmp_path)
    database = new_database("postgresql")
    monkeypatch.setenv("RAGBENCH_DATABASE", database)
    machines = Machines(tmp_path / "machines", database)
    address = f"dask://127.0.0.1:{machines.port}"
    workers = ("a", "b")
    try:
        for name in workers:
            machines.add(name)
        assert wait_until(lambda: machines.workers() == 2, 300)
        with pytest.raises(SweepError, match=r"is lost \(.*; the same command continues with"):
            sweep(path, out=out, executor=address, max_cost=1000)
        # Workers without a scheduler end, and with them their runs.
        ends = [machines.processes[name] for name in workers]
        assert wait_until(lambda: all(process.poll() is not None for process in ends), 120)
        before = len(server.asked)
        print(f"\n{before} requests before the workers ended, {len(arrived)} were replied to")
        machines.start_scheduler()
        for name in workers:
            machines.add(name)
        assert wait_until(lambda: machines.workers() == 2, 300)
        result = sweep(path, out=out, executor=address, max_cost=1000)
    finally:
        machines.stop()
    assert not result.failed, result.failed
    assert len(result.finished) == 4
    asked = collections.Counter(language_models.prompts_of(server))
    twice = {prompt for prompt, times in asked.items() if times > 1}
    print(f"{len(asked)} prompts, of which {len(twice)} were sent again")
    assert before < len(asked)  # it did not just finish
    last = set(language_models.prompts_of(server)[before - 2 : before])
    assert twice <= last  # at most what was on its way of two workers
