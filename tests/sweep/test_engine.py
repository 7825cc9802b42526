"""Notebooks run in the process itself: outputs as from a kernel, processes as if freshly started,
ended in time.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import papermill
import pytest

from ragbench.sweep import processes
from ragbench.sweep.engine import NAME, InProcessEngine
from ragbench.sweep.job import Job
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import LocalExecutor, Outcome

engine = sys.modules[InProcessEngine.__module__]

OUTPUTS = (
    "import sys\nprint('out', x)\nprint('err', file=sys.stderr)\nx",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2, 1]);",
    "from IPython.display import HTML, display\nhandle = display('one', display_id='d'); "
    "display(HTML('<b>two</b>'))",
    "from IPython.display import clear_output, update_display\nupdate_display('three', "
    "display_id='d')",
    "print('gone')\nclear_output()\nprint('left')",
    "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "import threading\nthread = threading.Thread(target=print, "
    "args=('thread',))\nthread.start()\nthread.join()",
    "import ipywidgets\nipywidgets.HTML('text')",
    "import warnings\nfrom ragbench.errors import DataWarning\nwarnings.warn('the data are odd', "
    "DataWarning)",
    "import os\nos.path.basename(os.getcwd()), sys.modules['__main__'].__dict__ is globals()",
    "import pandas\npandas.DataFrame({'a': range(30)})",
    "def fail():\n    raise ValueError('no such luck')\nfail()",
    "print('never')",
)

STATE = """
import gc, json, os, random, signal, sys, threading
import matplotlib, numpy, pandas
json.dump({
    "environment": {name: os.environ.get(name) for name in ("OWN", "CHANGED", "OMP_NUM_THREADS", "TQDM_DISABLE")},
    "columns": pandas.get_option("display.max_columns"),
    "backend": matplotlib.get_backend(),
    "warnings": __import__("warnings").formatwarning.__module__,
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "group": os.getpgid(0) == os.getsid(0) == os.getpid(),
    "stdin": os.read(0, 1).decode(),
    "main": threading.current_thread() is threading.main_thread(),
    "gc": gc.isenabled(),
    "history": get_ipython().history_manager.enabled,
    "getter": get_ipython().kernel is not None,
    "models": sorted({"torch", "sentence_transformers", "wordllama", "anthropic"} & set(sys.modules)),
}, open("state.json", "w"))
json.dump([random.random(), numpy.random.random()], open("random.json", "w"))
"""


def write_notebook(path: Path, *cells: str) -> str:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    parameters = nbformat.v4.new_code_cell("x: int = 1", metadata={"tags": ["parameters"]})
    notebook.cells = [parameters, *map(nbformat.v4.new_code_cell, cells)]
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return str(path)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Outcome]:
    """Execute cells with an executor, in the folder of that name."""

    def execute(
        executor: LocalExecutor, name: str, *cells: str, run_timeout: float = 0.0
    ) -> Outcome:
        folder = tmp_path / name
        folder.mkdir()
        text = Path(write_notebook(folder / "n.ipynb", *cells)).read_text(encoding="utf-8")
        job = Job(
            name,
            folder,
            folder,
            folder,
            run_timeout,
            "n.ipynb",
            text,
            {"x": 2},
            None,
            {},
            {"OWN": "1"},
            False,
        )
        executor.start(job)
        while not (ended := executor.ended()):
            time.sleep(0.02)
        return ended[0]

    return execute


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Restore the variables (FORCE_COLOR and others) that a kernel in this process sets."""
    with patch.dict(os.environ):
        yield


def cells_of(path: Path) -> list[dict[str, Any]]:
    """Code cells without what differs from run to run: ids, times, and where a kernel keeps the
    source of a cell.
    """
    text = path.read_text(encoding="utf-8")
    cells = []
    for cell in nbformat.reads(text, as_version=4).cells:
        times = sorted(cell.metadata.get("execution", {}))
        marks = {
            key: cell.metadata.get("papermill", {}).get(key) for key in ("status", "exception")
        }
        outputs = [
            {
                key: "?" if "ipykernel_" in str(value) or "widget" in str(value) else value
                for key, value in output.items()
            }
            for output in cell.get("outputs", [])
        ]
        count = cell.get("execution_count")
        cells.append(
            {
                "source": cell.source,
                "outputs": outputs,
                "count": count,
                "times": times,
                "papermill": marks,
            }
        )
    return cells


def test_outputs_are_those_of_an_ordinary_kernel(tmp_path: Path) -> None:
    source = write_notebook(tmp_path / "in.ipynb", *OUTPUTS)
    registered = (
        "import sys; from papermill.engines import papermill_engines; from "
        "ragbench.sweep import engine; "
    )
    registered += "papermill_engines.register(engine.NAME, engine.InProcessEngine); "
    registered += "from papermill.cli import papermill; papermill(sys.argv[1:])"

    def execute(target: str, *options: str) -> subprocess.CompletedProcess[str]:
        arguments = [
            source,
            str(tmp_path / target),
            "--cwd",
            str(tmp_path),
            "-p",
            "x",
            "3",
            *options,
        ]
        environment = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        command = [sys.executable, "-c", registered, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    kernel, process = execute("kernel.ipynb"), execute("process.ipynb", "--engine", NAME)
    assert "no such luck" in kernel.stderr
    assert "no such luck" in process.stderr
    expected = cells_of(tmp_path / "kernel.ipynb")
    assert cells_of(tmp_path / "process.ipynb") == expected
    text = json.dumps(expected)
    assert all(
        part in text
        for part in (
            "out 3",
            "err",
            "image/png",
            "three",
            "left",
            "awaited",
            "ValueError",
            "thread",
        )
    )
    metadata = [
        nbformat.read(tmp_path / name, as_version=4).metadata
        for name in ("kernel.ipynb", "process.ipynb")
    ]
    assert metadata[0].language_info == metadata[1].language_info
    assert len(metadata[0].widgets["application/vnd.jupyter.widget-state+json"]["state"]) == len(
        metadata[1].widgets["application/vnd.jupyter.widget-state+json"]["state"]
    )


@pytest.mark.parametrize(
    "first", ["ragbench.sweep.engine", "papermill", "ragbench.sweep.papermill_entry"]
)
def test_the_entry_point_is_the_engine_whichever_module_is_imported_first(first: str) -> None:
    code = (
        f"from importlib import import_module as load; load('{first}'); load('papermill.engines'); "
    )
    code += (
        "entry, engine = load('ragbench.sweep.papermill_entry'), load('ragbench.sweep.engine'); "
    )
    code += "assert entry.execute_notebook == engine.InProcessEngine.execute_notebook"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_notebook_in_one_process_has_its_names_alone(tmp_path: Path) -> None:
    papermill.engines.papermill_engines.register(NAME, InProcessEngine)
    options = {"engine_name": NAME, "progress_bar": False}
    papermill.execute_notebook(
        write_notebook(tmp_path / "a.ipynb", "y = 1"), str(tmp_path / "out.ipynb"), **options
    )
    with pytest.raises(papermill.PapermillExecutionError, match="name 'y' is not defined"):
        papermill.execute_notebook(
            write_notebook(tmp_path / "b.ipynb", "y"), str(tmp_path / "out.ipynb"), **options
        )


def test_no_output_is_added_to_a_notebook_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing copies the notebook, which fails if its dictionaries grow meanwhile."""
    writes: list[bool] = []  # True during a write
    added_while_written: list[bool] = []
    process_message = engine._Cells.process_message

    def write_slowly(self: object, **options: object) -> None:
        writes.append(True)
        time.sleep(0.05)
        writes.append(False)

    def add(self: object, *args: object) -> object:
        added_while_written.append(bool(writes) and writes[-1])
        return process_message(self, *args)

    monkeypatch.setattr(engine, "_WRITE_EVERY_S", -1.0)  # before and after each cell
    monkeypatch.setattr(papermill.engines.NotebookExecutionManager, "save", write_slowly)
    monkeypatch.setattr(engine._Cells, "process_message", add)
    papermill.engines.papermill_engines.register(NAME, InProcessEngine)
    papermill.execute_notebook(
        write_notebook(tmp_path / "n.ipynb", *["print(x)"] * 10),
        str(tmp_path / "out.ipynb"),
        engine_name=NAME,
        progress_bar=False,
    )
    assert len(writes) > 20
    assert len(added_while_written) > 20
    assert not any(added_while_written)


def test_a_notebook_is_written_during_a_long_cell(tmp_path: Path) -> None:
    """papermill writes it when an output arrives, in the thread that adds the output."""
    cell = "import time\nfor i in range(6):\n    time.sleep(0.5)\n    print(i)"
    source = write_notebook(tmp_path / "in.ipynb", cell, cell)
    code = (
        "import sys, papermill\n"
        f"from {InProcessEngine.__module__} import NAME, InProcessEngine\n"
        f"sys.modules[{InProcessEngine.__module__!r}]._WRITE_EVERY_S = -1.0\n"
        "papermill.engines.papermill_engines.register(NAME, InProcessEngine)\n"
        "papermill.execute_notebook(*sys.argv[1:], engine_name=NAME, autosave_cell_every=1)"
    )
    command = [sys.executable, "-c", code, source, str(tmp_path / "out.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    last = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells[-1]
    assert "".join(output.text for output in last.outputs).split() == list("012345")


def test_a_fork_is_as_a_fresh_process(
    tmp_path: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    forks = LocalExecutor(packages_of([{"retriever": "bm25"}]), side_by_side=2, log=messages.append)
    monkeypatch.setenv("CHANGED", "after the server was started")
    for name in ("a", "b"):
        assert run(forks, name, STATE).error == ""
    assert run(LocalExecutor([], side_by_side=2, fork=False), "fresh", STATE).error == ""
    assert messages == []
    forked, fresh = (
        json.loads((tmp_path / name / "state.json").read_text()) for name in ("a", "fresh")
    )
    assert forked == fresh
    assert fresh["environment"]["OWN"] == "1"
    assert fresh["environment"]["CHANGED"] == "after the server was started"
    assert fresh["models"] == []
    assert fresh["stdin"] == ""
    assert (fresh["group"], fresh["main"], fresh["gc"], fresh["getter"]) == (True, True, True, True)
    assert (fresh["history"], fresh["columns"]) == (False, 20)
    first, second = (
        json.loads((tmp_path / name / "random.json").read_text()) for name in ("a", "b")
    )
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_the_warm_up_of_several_runs_loads_the_weights_and_leaves_no_thread_to_their_forks() -> (
    None
):
    assert packages_of([{}] * 2) == []
    [module] = packages_of([{}] * 3)
    code = f"""
import os, threading
from {module} import warm_up
from ragbench.retrieval.minilm import _network
before, loaded = dict(os.environ), [_network.cache_info().currsize]
warm_up()
loaded.append(_network.cache_info().currsize)
print(loaded, threading.active_count(), before == dict(os.environ))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[0, 2] 1 True\n", "")


BURNS = """
import os, resource, time
from ragbench.sweep.processes import LocalExecutor

def burn():
    while time.process_time() < 3:
        pass

if __name__ == "__main__":
    context = LocalExecutor((), side_by_side=1)._context
    process = context.Process(target=burn)
    process.start()
    process.join()
    own = resource.getrusage(resource.RUSAGE_SELF)
    print(own.ru_utime + own.ru_stime)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="runs are forks on Linux only")
def test_what_runs_cost_is_counted_as_the_cost_of_the_command(tmp_path: Path) -> None:
    script = tmp_path / "burns.py"
    script.write_text(BURNS, encoding="utf-8")
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as printed:
        own = float(printed.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    of_runs = usage.ru_utime + usage.ru_stime - own
    assert of_runs >= 3


def test_a_script_that_guards_nothing_runs_its_sweep_once(tmp_path: Path) -> None:
    write_notebook(tmp_path / "n.ipynb", "print(x)")
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nfrom pathlib import Path\nfrom ragbench.sweep.job import Job\n"
        "from ragbench.sweep.processes import LocalExecutor\nprint('begun', flush=True)\n"
        "here = Path(__file__).parent\n"
        "text = (here / 'n.ipynb').read_text()\n"
        "job = Job('a', here, here, here, 0.0, 'n.ipynb', text, {}, None, {}, {}, False)\n"
        "executor = LocalExecutor([], side_by_side=1)\nexecutor.start(job)\n"
        "while not (ended := executor.ended()):\n    time.sleep(0.02)\nprint(ended[0].error or "
        "'ended')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["begun", "ended"]


def test_magics_and_modules_next_to_a_notebook_work(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    cells = ["%matplotlib inline\nimport csv", "import neighbour\nprint(neighbour.VALUE)"]
    executor = LocalExecutor([], side_by_side=1)
    assert run(executor, "a", "open('neighbour.py', 'w').write('VALUE = 3')", *cells).error == ""
    assert "'3" in str(cells_of(tmp_path / "a" / "a.ipynb")[-1]["outputs"])


def test_a_run_past_its_time_is_killed_and_its_notebook_has_what_it_printed(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    hang = "print('step one', flush=True)\nimport time\ntime.sleep(600)"
    outcome = run(LocalExecutor([], side_by_side=1), "a", hang, run_timeout=8.0)
    assert "run_timeout" in outcome.error
    notebook = nbformat.read(tmp_path / "a" / "a.ipynb", as_version=4)
    assert "step one" in str(notebook.cells[-1].outputs)
    assert notebook.cells[-1].outputs[-1].ename == "RunStopped"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for a process in /proc")
def test_a_run_that_has_ended_leaves_nothing_alive_where_the_sweep_can_no_longer_kill_it(
    tmp_path: Path, run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys.modules[LocalExecutor.__module__], "_kill", lambda process: process.join()
    )
    begin = "import subprocess\nprint('pid', subprocess.Popen(['sleep', '900']).pid)"
    assert run(LocalExecutor([], side_by_side=1), "a", begin).error == ""
    printed = nbformat.read(tmp_path / "a" / "a.ipynb", as_version=4).cells[-1].outputs[0].text
    process = Path("/proc") / printed.split()[1]
    until = time.monotonic() + 60
    while process.is_dir() and ") Z" not in (process / "stat").read_text():
        assert time.monotonic() < until, "what the notebook has started lives on"
        time.sleep(0.02)


def test_the_end_of_a_process_is_reported_with_its_cause(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    executor = LocalExecutor([], side_by_side=1)
    assert "status 7" in run(executor, "a", "import os\nos._exit(7)").error
    assert "SIGKILL" in run(executor, "b", "import os\nos.kill(os.getpid(), 9)").error
    lost = run(executor, "c", f"import os\nos._exit({processes._SERVER_DIED})")
    assert lost.lost


def test_where_the_process_to_fork_from_cannot_start_each_run_has_a_fresh_one(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    executor = LocalExecutor([], side_by_side=1, log=messages.append)
    started = executor._start_process

    def refuse(job: Job) -> Any:
        if executor._context.get_start_method() == "forkserver":
            raise EOFError
        return started(job)

    monkeypatch.setattr(executor, "_start_process", refuse)
    assert run(executor, "a", "print(x)").error == ""
    assert len(messages) == (1 if "forkserver" in multiprocessing.get_all_start_methods() else 0)


def test_what_a_notebook_has_started_ends_with_it(
    tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    start = (
        "import subprocess\nprocess = subprocess.Popen(['sleep', '900'])\nopen('pid', "
        "'w').write(str(process.pid))"
    )
    assert run(LocalExecutor([], side_by_side=1), "a", start).error == ""
    pid = int((tmp_path / "a" / "pid").read_text())
    while Path(f"/proc/{pid}").is_dir() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
        time.sleep(0.02)
