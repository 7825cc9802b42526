"""Sweeps on Dask clusters: real schedulers, real workers, kills."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataError, SweepError
from ragbench.llms import Settings
from ragbench.sweep import read_grid, remote, spending, sweep
from ragbench.sweep.cluster import _connected
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.grid import sources_of, working_folder
from ragbench.sweep.job import Job, Place, make_job
from tests.test_sweep import numbers_of, visible, write_grid

pytest.importorskip("distributed")
pytestmark = [pytest.mark.usefixtures("warm_sweeps"), pytest.mark.filterwarnings("default")]


def jobs_of(path: Path, out: Path) -> list[Job]:
    grid = read_grid(path)
    place = Place(grid.notebook.path, working_folder(grid), 60.0)
    sources = sources_of(grid)
    return [
        make_job(SweepFolder(out / "tiny"), name, place, own, Settings(), source=sources[name], stamp={})
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
        _connected(address)


def test_a_task_holds_paths_below_one_folder_and_the_files_that_its_parameters_name(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "notebooks", '[axes]\nbehaviour = ["my_part:thing", "../data/set", "/data/set"]')
    (path.parent / "my_part.py").write_text("thing = 1")
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "corpus.jsonl").write_text("{}")
    jobs = jobs_of(path, tmp_path / "results")
    packer = remote.Packer("{}", jobs)
    assert str(tmp_path) not in json.dumps([packer.packed(job) for job in jobs])
    with zipfile.ZipFile(io.BytesIO(packer.inputs)) as file:
        names = [str(packer._base / name) for name in file.namelist()]
    assert names == [f"{tmp_path}/data/set/corpus.jsonl", f"{tmp_path}/notebooks/my_part.py"]


def test_a_task_with_a_key_or_a_url_with_credentials_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs_of(write_grid(tmp_path / "notebooks", '[fixed]\nbehaviour = "http://me:secret@host/v1"'), tmp_path)
    with pytest.raises(ConfigError, match="URL with credentials"):
        remote.Packer("{}", [job])
    monkeypatch.setenv("MY_API_KEY", "sk-0123456789")
    with pytest.raises(ConfigError, match="holds the value of MY_API_KEY"):
        remote.Packer('{"source": "key = \'sk-0123456789\'"}', [job])


@pytest.mark.parametrize("what", ["ragbench", "python", "notebook", "store"])
def test_a_worker_with_another_version_or_notebook_is_refused(tmp_path: Path, what: str) -> None:
    path = write_grid(tmp_path / "notebooks", "[fixed]\nseed = 1")
    (job,) = jobs_of(path, tmp_path / "results")
    packer = remote.Packer(read_grid(path).notebook.text, [job])
    task = packer.packed(job)
    if what == "notebook":
        task["notebook"] = task["notebook"].replace("0.5", "0.6")
        expected = "the notebook that came to the worker is not the one of this sweep"
    elif what == "store":
        task["store"], expected = "of the client", "has another RAGBENCH_DATABASE than this sweep, or none"
    else:
        task["versions"] = {**task["versions"], what: "9.9"}
        expected = f"has {what} {remote.versions()[what]} and this sweep has 9.9"
    came = remote.execute(task, packer.inputs, side_by_side=1, wanted=lambda: True)
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
        spending.check_shared("dask://127.0.0.1:8786", runs, Settings())
    spending.check_shared("dask://127.0.0.1:8786", runs, Settings(replies="offline"))
    spending.check_shared("dask://local", runs, Settings())
    monkeypatch.setenv("RAGBENCH_DATABASE", "postgresql://127.0.0.1:1/none")
    with pytest.raises(DataError, match="cannot be used"):
        spending.check_shared("dask://127.0.0.1:8786", runs, Settings())
