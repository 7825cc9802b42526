"""Forked runs: as if freshly started, refused where they are not safe, started again where their server dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ragbench.sweep import forks
from ragbench.sweep.imports import imports_of
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Launcher, Outcome

pytestmark = pytest.mark.skipif(forks.unavailable() is not None, reason="there are no forks here")

NOTEBOOKS = [Path("notebooks", name).read_text(encoding="utf-8") for name in ("evaluate.ipynb", "compare.ipynb")]

STATE = """
import gc, json, os, random, resource, signal, sys, threading, warnings
import matplotlib.pyplot
import numpy
import pandas
import sklearn.feature_extraction.text
import statsmodels.stats.proportion
import ragbench.errors
own = sys.modules["__main__"]
json.dump({
    "argv": [os.path.basename(sys.argv[0]), *(a for a in sys.argv[1:] if "json" not in a)],
    "path": sys.path,
    "flags": str(sys.flags),
    "main": [own.__name__, own is sys.modules[__name__], hasattr(own, "main")],
    "cwd": os.getcwd(),
    "environment": {k: v for k, v in sorted(os.environ.items()) if k not in ("JPY_PARENT_PID", "JUPYTER_PATH", "_")},
    "backend": matplotlib.get_backend(),
    "settings": [str(pandas._config.config._global_config).lower(), str(dict(matplotlib.rcParams))],
    "warnings": warnings.formatwarning.__module__,
    "filters": sorted(map(str, set(warnings.filters))),
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)],
    "wakeup": signal.set_wakeup_fd(-1),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "group": os.getpgid(0) == os.getsid(0) == os.getpid(),
    "stdin": os.read(0, 1).decode(),
    "threads": threading.current_thread() is threading.main_thread(),
    "gc": gc.isenabled(),
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "history": get_ipython().history_manager.enabled,
}, open("state.json", "w"))
json.dump([random.random(), numpy.random.random()], open("random.json", "w"))
"""

MODULES = "import json, sys; json.dump(sorted(sys.modules), open('modules.json', 'w'))"

FIGURE = """
import subprocess, sys
import matplotlib.pyplot as plt
subprocess.run([sys.executable, "-c", "print('started')"], check=True, stdout=open("started.txt", "w"))
print(x)
plt.plot([1, 2, 1]);
"""

WARNING = """
import warnings
from ragbench.errors import DataWarning
warnings.warn("the data are odd", DataWarning)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    """Execute cells with a launcher, in the folder of that name."""

    def execute(launcher: Launcher, name: str, *cells: str) -> Outcome:
        folder = tmp_path / name
        folder.mkdir()
        notebook = nbformat.v4.new_notebook()
        parameters = nbformat.v4.new_code_cell("x: int = 1", metadata={"tags": ["parameters"]})
        notebook.cells = [parameters, *map(nbformat.v4.new_code_cell, cells)]
        job = Job(name, folder, folder, folder, 120.0, "n.ipynb", {"x": 2}, None, {}, {"OWN": "1"}, False)
        job.input.write_text(nbformat.writes(notebook), encoding="utf-8")
        while True:
            launcher.start(job)
            while not (ended := launcher.ended()):
                time.sleep(0.02)
            if not ended[0].lost:
                return ended[0]

    return execute


def outputs(path: Path) -> list[Any]:
    return [cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells]


def test_a_forked_kernel_is_as_a_fresh_one(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    messages: list[str] = []
    with Launcher(imports_of(NOTEBOOKS, [{"retriever": "bm25"}]), side_by_side=2, say=messages.append) as launcher:
        for name in ("a", "b"):
            assert run(launcher, name, MODULES, STATE, FIGURE, WARNING).error == ""
    with Launcher([], side_by_side=2, fork=False, say=messages.append) as launcher:
        assert run(launcher, "fresh", MODULES, STATE, FIGURE, WARNING).error == ""
    assert messages == []

    forked, fresh = (json.loads((tmp_path / name / "state.json").read_text()) for name in ("a", "fresh"))
    here = {str(tmp_path / name): "." for name in ("a", "fresh")}
    forked["cwd"], fresh["cwd"] = here[forked["cwd"]], here[fresh["cwd"]]
    assert forked.pop("environment") == fresh["environment"]
    assert forked == {key: fresh[key] for key in forked}
    assert fresh["environment"]["OWN"] == "1"
    assert forked["history"] is False
    first, second = (json.loads((tmp_path / name / "random.json").read_text()) for name in ("a", "b"))
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert outputs(tmp_path / "a" / "a.ipynb") == outputs(tmp_path / "fresh" / "fresh.ipynb")
    assert "image/png" in str(outputs(tmp_path / "a" / "a.ipynb"))
    assert "'DataWarning: the data are odd\\n'" in str(outputs(tmp_path / "a" / "a.ipynb"))
    assert (tmp_path / "a" / "started.txt").read_text() == "started\n"

    # What a grid of BM25 needs is there, and nothing that only others do.
    modules = set(json.loads((tmp_path / "a" / "modules.json").read_text()))
    assert {"bm25s", "matplotlib.pyplot", "pandas", "ragbench.metrics", "scipy.stats"} <= modules
    assert not {"torch", "sentence_transformers", "wordllama", "anthropic", "datasets"} & modules


@pytest.mark.parametrize(
    ("parameters", "needed"),
    [
        ({"retriever": "bm25"}, []),
        ({"retriever": "bm25", "reranker": "models/mine"}, ["sentence_transformers"]),
        ({"retriever": "dense:wordllama"}, ["wordllama"]),
        ({"retriever": "hybrid:minilm"}, []),
        ({"retriever": "hybrid:models/mine"}, ["sentence_transformers"]),
        ({"quality": 0.5}, []),
    ],
)
def test_models_are_imported_where_a_run_uses_them(parameters: dict[str, Any], needed: list[str]) -> None:
    assert imports_of([], [parameters])[len(imports_of([], [])) :] == needed


def test_magics_and_modules_next_to_a_notebook_are_left_to_it(tmp_path: Path, run: Callable[..., Outcome]) -> None:
    cells = ["%matplotlib inline\nimport csv", "import neighbour\nprint(neighbour.VALUE)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    modules = imports_of([nbformat.writes(notebook)], [])
    assert modules[-1] == "neighbour"
    with Launcher(modules, side_by_side=1) as launcher:
        write = "open('neighbour.py', 'w').write('VALUE = 3')"
        assert run(launcher, "a", write, *cells).error == ""
    assert "3\n" in str(outputs(tmp_path / "a" / "a.ipynb")[-1][0]["text"])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Sequence[str]]:
    """Make a module that a server imports."""

    def make(text: str) -> Sequence[str]:
        (tmp_path / "path").mkdir()
        (tmp_path / "path" / "peculiar.py").write_text(text, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
        return [*imports_of([], []), "peculiar"]

    return make


def test_what_starts_a_thread_is_not_forked(
    tmp_path: Path, run: Callable[..., Outcome], module: Callable[[str], Sequence[str]]
) -> None:
    messages: list[str] = []
    modules = module("import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
    with Launcher(modules, side_by_side=1, say=messages.append) as launcher:
        assert run(launcher, "a", "import peculiar").error == ""
    assert len(messages) == 1
    assert messages[0].startswith("Each run starts a Python of its own")
    assert "started 1 threads" in messages[0]


def test_what_holds_a_gpu_is_not_forked() -> None:
    code = "from ragbench.sweep import forkserver as f; f._GPUS = '/dev/zero'; g = open(f._GPUS); print(f._refusal())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "what the notebooks import opened /dev/zero\n"


def test_threads_of_numerical_libraries_are_no_reason(run: Callable[..., Outcome]) -> None:
    messages: list[str] = []
    with Launcher([*imports_of([], []), "numpy", "pandas"], side_by_side=1, say=messages.append) as launcher:
        assert run(launcher, "a", "import numpy as np; np.ones((300, 300)) @ np.ones((300, 300))").error == ""
    assert messages == []


def test_a_server_that_keeps_dying_is_given_up(
    run: Callable[..., Outcome], module: Callable[[str], Sequence[str]]
) -> None:
    messages: list[str] = []
    modules = module("import os, sys\nif 'ragbench.sweep.forkserver' in sys.modules:\n    os._exit(9)")
    with Launcher(modules, side_by_side=1, say=messages.append) as launcher:
        assert run(launcher, "a", "import peculiar").error == ""
    assert len(messages) == 3
    assert "has died (status 9); another takes its place" in messages[0]
    assert "has died 3 times (status 9)" in messages[2]


def test_an_installation_without_the_entry_point_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "PROVISIONER", "of-a-later-version")
    messages: list[str] = []
    Launcher([], side_by_side=1, say=messages.append)
    assert "install it again" in messages[0]


def test_elsewhere_than_on_linux_there_are_none_and_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    messages: list[str] = []
    Launcher([], side_by_side=1, say=messages.append)
    assert messages == []


def test_only_the_user_can_ask_for_forks_and_nothing_stays(run: Callable[..., Outcome]) -> None:
    with Launcher(imports_of([], []), side_by_side=1) as launcher:
        assert run(launcher, "a", "print(x)").error == ""
        assert launcher._server is not None
        folder, server = launcher._server.folder, launcher._server._process
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_uid == os.getuid()
        assert not list(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()), "all are reaped"
    assert not folder.exists()
    assert server.returncode == 0
