"""Sweeps with small notebooks of the tests' own: real processes, real kernels, real kills."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from rich.console import Console

from ragbench.errors import ConfigError, RagbenchError, SweepError
from ragbench.evaluation import FILES, load_results
from ragbench.files import STAGING
from ragbench.report import conclusion_markdown
from ragbench.sweep import plan, processes, read_grid, sweep, verify
from ragbench.sweep.grid import chosen
from ragbench.sweep.notebooks import read_notebook, without_machine
from ragbench.sweep.progress_display import Progress
from ragbench.sweep.sweep_folder import SweepFolder

PARAMETERS = """
quality: float = 0.5  # fraction of the questions that are answered: 0 = none
behaviour: str = "ok"
pause: float = 0.0
seed: int = 0
results_dir: str = ""  # "" = keep nothing
"""

RUN = """
import os, time
import pandas as pd
from ragbench.evaluation import new_result, save
from ragbench.types import Case, Dataset, Document

names = [f"q{i}" for i in range(12)]
dataset = Dataset(
    "tiny", "test", {n: Document(n, n) for n in names}, [Case(n, n) for n in names], {n: {n: 1} for n in names}
)
run = {n: ({n: 1 / 3} if i < 12 * quality else {}) for i, n in enumerate(names)}
frame = {"query_id": names, "measure": "nDCG@10", "value": [1.0 if run[n] else 0.0 for n in names]}
time.sleep(pause)
"""

BEHAVE = """
if behaviour == "raise":
    raise ValueError("no such luck")
if behaviour == "hang":
    time.sleep(600)
if behaviour == "die":
    os._exit(3)
print("saved in", results_dir, os.path.abspath(results_dir))
"""

SAVE = """
if behaviour != "forget":
    parameters = {"quality": quality, "behaviour": behaviour, "pause": pause, "seed": seed}
    result = new_result(
        parameters=parameters, dataset=dataset, run=run, scores=pd.DataFrame(frame)
    )
    save(result, results_dir)
"""

COMPARE = """
from ragbench.evaluation import load_results
names = [result.name for result in load_results(sweep_dir)]
print(len(names), "compared with", baseline)
"""


def write_notebook(path: Path, parameters: str, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook()
    # A kernel that is not installed: a sweep must bring its own.
    notebook.metadata["kernelspec"] = {
        "name": "of-another-machine",
        "display_name": "?",
        "language": "python",
    }
    first = nbformat.v4.new_code_cell(parameters.strip(), metadata={"tags": ["parameters"]})
    notebook.cells = [first, *(nbformat.v4.new_code_cell(cell.strip()) for cell in cells)]
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"  # the same notebook each time
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    return path


def write_grid(folder: Path, text: str) -> Path:
    """A grid file next to an evaluate.ipynb and a compare.ipynb."""
    folder.mkdir(exist_ok=True)
    write_notebook(folder / "evaluate.ipynb", PARAMETERS, RUN, BEHAVE, SAVE)
    write_notebook(folder / "compare.ipynb", 'sweep_dir: str = ""\nbaseline: str = ""', COMPARE)
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


FORKS = sys.platform == "linux"

# Where there are forks, fresh processes are tested by a killed sweep, by tests/sweep/test_engine.py
# and as simulations.
SPAWN = pytest.param("spawn", marks=pytest.mark.simulation) if FORKS else "spawn"


@pytest.fixture(params=["fork", SPAWN])
def fork(request: pytest.FixtureRequest) -> bool:
    """Both ways to start a run; what they leave must be the same."""
    if request.param == "fork" and not FORKS:
        pytest.skip("there are no forks here")
    return bool(request.param == "fork")


@pytest.fixture
def grid(tmp_path: Path) -> Callable[[str], Path]:
    return lambda text: write_grid(tmp_path / "notebooks", text)


# --- the grid file
# ----------------------------------------------------------------------------------------------


def qualities(path: Path) -> list[Any]:
    return [parameters["quality"] for parameters in read_grid(path).runs.values()]


def test_axes_are_crossed_in_the_order_of_the_file(grid: Callable[[str], Path]) -> None:
    runs = read_grid(grid("[axes]\nquality = [1, 0.5]\nseed = [7, 8]")).runs
    assert [(own["quality"], own["seed"]) for own in runs.values()] == [
        (1.0, 7),
        (1.0, 8),
        (0.5, 7),
        (0.5, 8),
    ]


def test_all_parameters_stand_in_a_run_but_where_it_goes(grid: Callable[[str], Path]) -> None:
    (own,) = read_grid(grid("[fixed]\nseed = 3")).runs.values()
    assert own == {"quality": 0.5, "behaviour": "ok", "pause": 0.0, "seed": 3}


def test_coupled_values_move_together(grid: Callable[[str], Path]) -> None:
    text = (
        "[axes]\nboth = [{quality = 0.1, seed = 1}, {quality = 0.2, seed = 2}]\npause = [0.0, 1.0]"
    )
    runs = read_grid(grid(text)).runs.values()
    assert [(own["quality"], own["seed"], own["pause"]) for own in runs] == [
        (0.1, 1, 0.0),
        (0.1, 1, 1.0),
        (0.2, 2, 0.0),
        (0.2, 2, 1.0),
    ]


def test_exclude_takes_partial_matches_out(grid: Callable[[str], Path]) -> None:
    text = "exclude = [{quality = 0.1, seed = 2}]\n[axes]\nquality = [0.1, 0.2]\nseed = [1, 2]"
    assert qualities(grid(text)) == [0.1, 0.2, 0.2]


def test_exclude_that_fits_nothing_is_noted(grid: Callable[[str], Path]) -> None:
    (note,) = read_grid(grid("[[exclude]]\nseed = 9\n[axes]\nquality = [0.1]")).notes
    assert "fits no combination" in note


def test_explicit_runs_come_on_top_of_fixed(grid: Callable[[str], Path]) -> None:
    path = grid("[fixed]\nseed = 1\n[axes]\nquality = [0.1]\n[[run]]\nquality = 0.9\nseed = 5")
    assert [(own["quality"], own["seed"]) for own in read_grid(path).runs.values()] == [
        (0.1, 1),
        (0.9, 5),
    ]


def test_explicit_runs_alone(grid: Callable[[str], Path]) -> None:
    assert qualities(grid("[[run]]\nquality = 0.9")) == [0.9]


def test_the_same_configuration_twice_is_run_once_and_noted(grid: Callable[[str], Path]) -> None:
    path = grid("[axes]\nquality = [0.5, 0.1]\n[[run]]\nseed = 0")
    assert qualities(path) == [0.5, 0.1]
    assert "more than once" in read_grid(path).notes[0]


def test_name_and_time_limit_have_defaults(grid: Callable[[str], Path]) -> None:
    found = read_grid(grid("[axes]\nquality = [0.5]"))
    assert (found.name, found.run_timeout, found.baseline) == ("tiny", 3600.0, "")
    assert found.compare is not None


def test_baseline_is_found_by_a_part(grid: Callable[[str], Path]) -> None:
    found = read_grid(grid("[sweep]\nbaseline = {quality = 1}\n[axes]\nquality = [0.5, 1.0]"))
    assert found.runs[found.baseline]["quality"] == 1.0


def test_baseline_is_a_system_of_the_axis(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    for system, retriever in {
        "bm25": "bm25",
        "dense:minilm": "dense:minilm",
        "": "hybrid:minilm",
    }.items():
        grid.write_text(
            f'[sweep]\nbaseline = {{ system = "{system}" }}\n[fixed]\nretriever = "hybrid:minilm"\n'
            '[axes]\nsystem = ["", "dense:minilm", "bm25"]\n'
        )
        found = read_grid(grid)
        assert found.runs[found.baseline]["retriever"] == retriever


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[axes]\nqualty = [1]",
            r"\[axes\]: unknown parameter of evaluate.ipynb 'qualty'; did you mean 'quality'",
        ),
        ("[fixed]\nseeds = 1", "did you mean 'seed'"),
        ("[fixed]\nseed = '1'", r"\[fixed\]: seed is '1'; expected a whole number"),
        ("[fixed]\nseed = true", "seed is True; expected a whole number"),
        ("[fixed]\nbehaviour = 1", "behaviour is 1; expected text"),
        ("[fixed]\nbehaviour = 2026-01-01", "expected text"),
        ("[fixed]\nquality = nan", "finite number"),
        ("[fixed]\nresults_dir = 'x'", "sweep sets itself; use --output"),
        ("[axes]\nquality = 1", r"line 2: axes.quality is 1: expected a list"),
        ("[axes]\nquality = []", "axes.quality is .*expected a list of values"),
        ("[axes]\nquality = [{seed = 1}, 2]", "mixes tables"),
        ("[axes]\nquality = [1]\nexclude = [{seed = 1}]", "which is a section"),
        ("[axes]\nboth = [{seed = 1}]\nseed = [1]", "seed is in axis both and in axis seed"),
        ("[fixed]\nseed = 1\n[axes]\nseed = [1]", r"seed is in \[fixed\] and in axis seed"),
        ("[axis]\nquality = [1]", "line 1: unknown key 'axis'; did you mean 'axes'"),
        ("[sweep]\nnotbook = 'x'\n[fixed]\nseed = 1", "did you mean 'notebook'"),
        (
            "[sweep]\nname = 3\n[fixed]\nseed = 1",
            "line 2: sweep.name is 3: expected the plain name",
        ),
        ("[sweep]\nname = '../x'\n[fixed]\nseed = 1", "plain name of a folder"),
        ("[sweep]\nrun_timeout = -1\n[fixed]\nseed = 1", "run_timeout is -1"),
        ("[sweep]\nrun_timeout = inf\n[fixed]\nseed = 1", "run_timeout is inf"),
        ("[sweep]\nrun_timeout = nan\n[fixed]\nseed = 1", "run_timeout is nan"),
        ("[sweep]\nbaseline = 'x'\n[fixed]\nseed = 1", "sweep.baseline is 'x'"),
        ("[sweep]\nbaseline = {seed = 2}\n[fixed]\nseed = 1", "fits 0 configurations"),
        (
            "[sweep]\nbaseline = {seed = 1}\n[axes]\nseed = [1]\nquality = [0.1, 0.2]",
            r"fits 2 configurations .*; add, for example, quality = 0\.1$",
        ),
        (
            "[sweep]\nnotebook = 'none.ipynb'\n[fixed]\nseed = 1",
            "there is no notebook .*none.ipynb",
        ),
        ("[sweep]\ncompare = 'none.ipynb'\n[fixed]\nseed = 1", "there is no notebook .*none.ipynb"),
        ("[sweep]\nnotebook = 'tiny.toml'\n[fixed]\nseed = 1", "is not a notebook"),
        (
            "[sweep]\nnotebook = 'compare.ipynb'\n[fixed]\nbaseline = 'x'",
            "has no parameter results_dir",
        ),
        ("[sweep]\ncompare = 'evaluate.ipynb'\n[fixed]\nseed = 1", "has no parameter sweep_dir"),
        ("run = 1", "run is 1: expected tables"),
        ("sweep = 1", "line 1: sweep is 1: Input should be a valid dictionary$"),
        ("", "the grid is empty"),
        ("[[exclude]]\nseed = 0\n[axes]\nseed = [0]", "every combination is excluded"),
        ("[axes\nseed = [0]", r"tiny.toml is not valid TOML: .*line 1"),
    ],
)
def test_bad_grids_are_refused(grid: Callable[[str], Path], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read_grid(grid(text))
    assert "tiny.toml" in str(caught.value) or ".ipynb" in str(caught.value)


def test_missing_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no grid file"):
        read_grid(tmp_path / "none.toml")


def test_grid_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read as UTF-8"):
        read_grid(tmp_path / "x.toml")


def test_values_are_checked_for_the_parameters_that_a_notebook_has(tmp_path: Path) -> None:
    write_notebook(
        tmp_path / "evaluate.ipynb", 'chunker: str = "fixed"\nk: int = 5\nresults_dir: str = ""'
    )
    path = tmp_path / "grid.toml"
    path.write_text("[axes]\nchunker = ['fixd']", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"configuration fixd-\w+: unknown chunker 'fixd'; did you mean 'fixed'"
    ):
        read_grid(path)
    path.write_text("[axes]\nk = [0]", encoding="utf-8")
    with pytest.raises(ConfigError, match="k is 0; expected 1 or more"):
        read_grid(path)


def test_two_datasets_in_one_grid_are_refused(tmp_path: Path) -> None:
    write_notebook(tmp_path / "evaluate.ipynb", 'dataset: str = "a"\nresults_dir: str = ""')
    (tmp_path / "grid.toml").write_text("[axes]\ndataset = ['a', 'b']", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"dataset takes 2 values \(a, b\).*own grid file"):
        read_grid(tmp_path / "grid.toml")


def test_the_quickstart_is_six_configurations_against_bm25() -> None:
    quickstart = read_grid(Path(__file__).parents[1] / "notebooks" / "quickstart.toml")
    assert len(quickstart.runs) == 6
    assert quickstart.baseline.startswith("bm25-fixed-512-")
    assert quickstart.compare is not None
    assert quickstart.notes == ()


# --- notebooks
# --------------------------------------------------------------------------------------------------


def test_parameters_are_read_with_types_and_defaults(tmp_path: Path) -> None:
    source = (
        'a: int = 1  # k = 5\nb = [\n  1,  # one\n  2,\n]\nc: str | None = None\nd: "float" '
        "= -1e3\ne = None\nimport os"
    )
    notebook = read_notebook(write_notebook(tmp_path / "n.ipynb", source))
    assert notebook.defaults == {"a": 1, "b": [1, 2], "c": None, "d": -1000.0, "e": None}
    assert notebook.types == {"a": [int], "b": [list], "c": [str], "d": [float], "e": []}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a = len('x')", "the default of a is `len"),
        ("a = = 1", "line 1 of the parameters cell is not Python"),
    ],
)
def test_parameters_that_are_not_plain_values_are_refused(
    tmp_path: Path, source: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read_notebook(write_notebook(tmp_path / "n.ipynb", source))


def test_a_notebook_without_parameters_is_refused(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "n.ipynb", "a = 1")
    path.write_text(
        path.read_text(encoding="utf-8").replace('"parameters"', '"other"'), encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="no code cell tagged `parameters`"):
        read_notebook(path)


def test_running_a_source_by_hand_does_not_change_its_digest(tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "n.ipynb", "a = 1", "print(a)")
    before = read_notebook(path).digest
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"][1] |= {
        "execution_count": 3,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}],
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert read_notebook(path).digest == before
    notebook["cells"][1]["source"] = "print(a + 1)"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert read_notebook(path).digest != before


def test_machine_paths_go_and_other_text_stays() -> None:
    notebook = {
        "cells": [
            {
                "source": 'results_dir = "../r/.running-x-1/x"  # not /srv/a/b',
                "outputs": [
                    {
                        "text": [
                            "/srv/a/f.py and /srv/abc and https://e.org/srv/a/f; "
                            "/srv/a/.running-x-1/x/scores.csv",
                            "/tmp/ipykernel_12/345.py:1: UserWarning",
                            "File \x1b[32m/srv/a/f.py:3\x1b[39m",
                        ],
                        "data": {"image/png": "/srv/a/", "text/plain": "'/srv/a/b'"},
                    }
                ],
            }
        ],
        "metadata": {"p": "/srv/a/x"},
    }
    cleaned = without_machine(notebook, {".running-x-1/x": "x"}, {"/srv/a": "."})
    (cell,) = cleaned["cells"]
    assert cell["source"] == 'results_dir = "../r/x"  # not /srv/a/b'
    assert cell["outputs"][0]["text"] == [
        "./f.py and /srv/abc and https://e.org/srv/a/f; ./x/scores.csv",
        "<cell>:1: UserWarning",
        "File \x1b[32m./f.py:3\x1b[39m",
    ]
    assert cell["outputs"][0]["data"] == {"image/png": "/srv/a/", "text/plain": "'./b'"}
    assert cleaned["metadata"] == {"p": "./x"}


# --- processes
# --------------------------------------------------------------------------------------------------


def test_threads_are_shared_among_jobs_and_a_smaller_number_of_the_user_holds() -> None:
    cores = processes.available_cores()
    assert processes.threads_of(1, {"OMP_NUM_THREADS": "9999", "MKL_NUM_THREADS": "0"}) == cores
    assert processes.threads_of(1, {"MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "9999"}) == 1
    assert processes.threads_of(10 * cores, {}) == 1


def test_default_jobs_are_at_least_one_and_at_most_the_cores() -> None:
    assert 1 <= processes.default_jobs() <= processes.available_cores()


def test_progress_is_a_line_for_each_end() -> None:
    output = io.StringIO()
    progress = Progress(Console(file=output, width=100), 3, skipped=1)
    progress.update(0)
    progress.ended("[a]", 75.0, "")
    progress.ended("b", 5.0, "no")
    assert output.getvalue() == "[2/3] [a] done in 1:15\n[3/3] b failed after 0:05: no\n"


def test_the_line_of_a_run_at_work_is_shown_within_the_line_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sweep.txt"
    monkeypatch.setenv("RAGBENCH_PROGRESS", str(file))
    monkeypatch.setenv("COLUMNS", "120")
    now = [0.0]
    monkeypatch.setattr("ragbench.progress.time.monotonic", lambda: now[0])
    progress = Progress(Console(file=io.StringIO()), 2)
    runs = [tmp_path / "a.txt", tmp_path / "b.txt"]
    shown = []
    for text in ("", "answers: 3 of 15 replies, 0:00:18, 10.0 a minute, 0:01:12 left", ""):
        runs[1].write_text(text)
        now[0] += 30
        progress.look_at(runs)
        shown.append(file.read_text())
    assert shown == [
        "sweep: 0 of 2 runs, 0:00:30",
        "sweep: 0 of 2 runs; answers: 3 of 15 replies, 0:00:18, 10.0 a minute, 0:01:12 left",
        "sweep: 0 of 2 runs, 0:01:30",
    ]


def test_jobs_below_one_are_refused(grid: Callable[[str], Path]) -> None:
    with pytest.raises(ConfigError, match="jobs is 0"):
        sweep(grid("[fixed]\nseed = 1"), jobs=0)


@pytest.fixture
def beir_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "", "text": "Some text."}\n', encoding="utf-8"
    )
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Which?"}\n', encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq1\td1\t1\n", encoding="utf-8"
    )
    return folder


@pytest.mark.parametrize("name", ["../dta", "data", "no-such-set"])
def test_a_missing_dataset_is_reported_before_anything_runs(
    tmp_path: Path, beir_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grids").mkdir()
    write_notebook(
        tmp_path / "grids" / "evaluate.ipynb", 'dataset: str = "x"\nresults_dir: str = ""'
    )
    path = tmp_path / "grids" / "grid.toml"
    path.write_text(f"[fixed]\ndataset = '{name}'", encoding="utf-8")
    with pytest.raises(RagbenchError) as caught:
        sweep(path, out=tmp_path / "results")
    assert name in str(caught.value)
    assert ("relative to the grid file" in str(caught.value)) is (name == "data")
    assert not (tmp_path / "results").exists()


def test_a_dataset_folder_is_looked_for_next_to_the_grid_file(
    tmp_path: Path, beir_folder: Path
) -> None:
    write_notebook(
        tmp_path / "evaluate.ipynb", 'dataset: str = "x"\nresults_dir: str = ""', "1 / 0"
    )
    (tmp_path / "grid.toml").write_text("[fixed]\ndataset = 'data'", encoding="utf-8")
    assert list(sweep(tmp_path / "grid.toml", out=tmp_path / "results").failed.values()) == [
        "ZeroDivisionError: division by zero"
    ]


@pytest.mark.parametrize("command", ["sweep", "plan"])
def test_a_grid_without_documents_is_refused_before_anything_runs(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "my.yaml").write_text(
        "cases:\n  - {id: q1, query: How long do cats sleep?}\n", encoding="utf-8"
    )
    write_notebook(
        tmp_path / "evaluate.ipynb",
        'dataset: str = ""\ncorpus: str = ""\nchunker: str = "fixed"\nresults_dir: str = ""',
    )
    (tmp_path / "grid.toml").write_text("[fixed]\ndataset = 'my.yaml'", encoding="utf-8")
    with pytest.raises(ConfigError, match="'my' has none; name them with `corpus`"):
        (sweep if command == "sweep" else plan)(tmp_path / "grid.toml", out=tmp_path / "results")
    assert not (tmp_path / "results").exists()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.md").write_text("Cats sleep most of the day.", encoding="utf-8")
    (tmp_path / "grid.toml").write_text(
        "[fixed]\ndataset = 'my.yaml'\ncorpus = 'docs'", encoding="utf-8"
    )
    assert len(plan(tmp_path / "grid.toml", out=tmp_path / "results").to_run) == 1


# --- sweeps
# -----------------------------------------------------------------------------------------------------


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def numbers_of(folder: Path) -> dict[str, bytes]:
    return {
        name: data
        for name, data in files_of(folder).items()
        if name.endswith(("scores.csv", "run.trec"))
    }


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".running-lock")


def test_a_sweep_runs_compares_and_is_skipped_the_next_time(
    grid: Callable[[str], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], fork: bool
) -> None:
    path = grid("[sweep]\nbaseline = {quality = 0.25}\n[axes]\nquality = [0.25, 1.0, 1.0]")
    result = sweep(path, jobs=2, out=tmp_path / "results", fork=fork)
    assert dict(result.failed) == {}
    assert (len(result.finished), result.skipped) == (2, ())
    folder = tmp_path / "results" / "tiny"
    expected = [*result.finished, *(f"{name}.ipynb" for name in result.finished)]
    expected += ["comparison.ipynb", "leaderboard.csv", "leaderboard.md", "sweep.json"]
    assert visible(folder) == sorted(expected)
    conclusion = load_results(folder).conclude()
    assert result.results is not None, "which the command shows without reading them again"
    assert result.results.conclude() == conclusion
    board_text = (folder / "leaderboard.md").read_text(encoding="utf-8")
    assert board_text.startswith(conclusion_markdown(conclusion))
    for name in result.finished:
        assert sorted(p.name for p in (folder / name).iterdir()) == sorted(
            [*FILES, "verdicts.json"]
        )

    text = (folder / f"{result.finished[0]}.ipynb").read_text(encoding="utf-8")
    assert f'results_dir = \\"{result.finished[0]}\\"' in text, "from where the notebook lies"
    assert str(tmp_path) not in text
    assert ".running-" not in text
    metadata = json.loads(text)["metadata"]["papermill"]
    assert metadata["input_path"] == "../../notebooks/evaluate.ipynb"
    assert metadata["output_path"] == f"{result.finished[0]}.ipynb"
    assert "duration" not in metadata, "times are in timings.json"
    baseline = next(
        name
        for name in result.finished
        if json.loads((folder / name / "config.json").read_text())["parameters"]["quality"] == 0.25
    )
    comparison = (folder / "comparison.ipynb").read_text(encoding="utf-8")
    assert f"2 compared with {baseline}" in comparison
    results = load_results(folder)  # as compare.ipynb does, opened by hand
    assert results.baseline == baseline
    assert baseline not in set(results.compare()["name"])
    assert 'sweep_dir = \\".\\"' in comparison, "so that it can be run again where it lies"
    progress = capfd.readouterr().err
    assert "done in" in progress
    assert "Python of its own" not in progress
    assert progress.index("more than once") < progress.index("2 to run")

    board = folder / "leaderboard.csv"
    values = [
        field
        for line in board.read_text().splitlines()[1:]
        for field in line.split(",")
        if "." in field
    ]
    assert all(
        len(value.replace(".", "").strip("-0")) <= 12
        for value in values
        if value.replace(".", "").isdigit()
    )
    table = pd.read_csv(board)
    counts = [name for name in map(str, table) if name.endswith(("_n", "_of"))]
    assert {"nDCG@10_n", "nDCG@10_of"} <= {*counts}
    assert (table[counts].dropna() % 1 == 0).all(axis=None)
    board.write_text(
        board.read_text().replace("0.5", "0.500000000001")
    )  # as another machine would have written it
    before = files_of(folder)
    again = sweep(path, jobs=2, out=tmp_path / "results", fork=fork)
    assert (again.finished, again.skipped) == ((), result.finished)
    assert again.comparison == folder / "comparison.ipynb"
    assert files_of(folder) == before  # not one byte, and no new time stamp


def test_what_is_outdated_or_damaged_is_run_again(
    grid: Callable[[str], Path], tmp_path: Path
) -> None:
    path = grid("[axes]\nquality = [0.25, 0.5, 1.0]")
    (path.parent / "compare.ipynb").unlink()
    out = tmp_path / "results"
    result = sweep(path, out=out)
    first, second, third = result.finished
    assert result.comparison is None
    assert "no compare.ipynb" in result.notes[0]
    (out / "tiny" / first / "run.trec").unlink()
    (out / "tiny" / f"{second}.ipynb").unlink()
    again = sweep(path, out=out)
    assert (again.finished, again.skipped) == ((first, second), (third,))
    write_notebook(path.parent / "evaluate.ipynb", PARAMETERS, RUN, BEHAVE, SAVE, "# changed")
    assert sweep(path, out=out).finished == (first, second, third)


def test_force_runs_finished_configurations_again(
    grid: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Jupyter would find first belongs to a Python that is not there.
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {
        "argv": ["/none/python", "-m", "ipykernel_launcher"],
        "display_name": "x",
        "language": "python",
    }
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    path = grid("[fixed]\nquality = 1.0")
    assert len(sweep(path, out=tmp_path).finished) == 1
    assert len(sweep(path, out=tmp_path, force=True).finished) == 1


def test_the_command_reports_what_failed_and_where_everything_is(tmp_path: Path) -> None:
    folder = tmp_path / "a {b} ü"  # names that papermill, TOML and shells have trouble with
    folder.mkdir()
    write_grid(folder / "notebooks", "[axes]\nbehaviour = ['ok', 'raise']\n[[run]]\nquality = 1.0")
    command = [sys.executable, "-m", "ragbench", "sweep", "notebooks/tiny.toml", "--jobs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 1
    (failed,) = (folder / "results" / "tiny").glob("*.failed.ipynb")
    name = failed.name.removesuffix(".failed.ipynb")
    assert f"{name} failed after" in done.stderr
    assert f"Failed: {name}: ValueError: no such luck" in done.stderr
    assert "2 run, 0 finished before, 1 failed" in done.stdout
    for line in (
        "Notebooks:   results/tiny",
        "Leaderboard: results/tiny/leaderboard.md and leaderboard.csv",
        "Comparison:  results/tiny/comparison.ipynb",
        "jupyter lab results/tiny/comparison.ipynb",
    ):
        assert line in done.stdout
    assert str(tmp_path) not in "".join(
        p.read_text(encoding="utf-8") for p in folder.rglob("results/tiny/*.ipynb")
    )


def test_failures_are_kept_and_the_others_continue(
    grid: Callable[[str], Path], tmp_path: Path, fork: bool
) -> None:
    path = grid("[axes]\nbehaviour = ['raise', 'die', 'forget', 'ok']")
    out = tmp_path / "results"
    result = sweep(path, out=out, fork=fork)
    behaviour = {name: own["behaviour"] for name, own in read_grid(path).runs.items()}
    errors = {behaviour[name]: error for name, error in result.failed.items()}
    assert [behaviour[name] for name in result.finished] == ["ok"]
    assert errors["raise"] == "ValueError: no such luck"
    assert "status 3" in errors["die"]
    assert "rb.save" in errors["forget"]
    assert "one finished configuration only" in result.notes[-1]
    assert result.leaderboard is not None
    for name, error in result.failed.items():
        kept = (out / "tiny" / f"{name}.failed.ipynb").read_text(encoding="utf-8")
        assert error.split(":")[-1].strip()[:30] in kept
        assert str(tmp_path) not in kept.replace("/private", "")
        nbformat.validate(nbformat.reads(kept, as_version=4))
        assert not (out / "tiny" / name).exists()

    # What failed is run again, and its failed notebook goes when it succeeds.
    write_notebook(
        path.parent / "evaluate.ipynb", PARAMETERS, RUN, SAVE.replace('"forget"', '"never"')
    )
    again = sweep(path, out=out)
    assert len(again.finished) == 4
    assert not list((out / "tiny").glob("*.failed.ipynb"))


def test_a_success_that_fails_when_done_again_is_compared_no_longer(
    grid: Callable[[str], Path], tmp_path: Path
) -> None:
    path = grid("[fixed]\nquality = 1.0")
    out = tmp_path / "results"
    (name,) = sweep(path, out=out).finished
    write_notebook(path.parent / "evaluate.ipynb", PARAMETERS, "raise RuntimeError('now it fails')")
    result = sweep(path, out=out)
    assert result.failed == {name: "RuntimeError: now it fails"}
    assert f"{name}.failed.ipynb" in visible(out / "tiny")
    assert name not in visible(out / "tiny")
    assert "nothing to compare" in result.notes[-1]
    assert result.comparison is None


def test_a_full_disk_is_named_and_leaves_no_part_of_a_notebook(
    grid: Callable[[str], Path], tmp_path: Path
) -> None:
    resource = pytest.importorskip(
        "resource", reason="a limit of the size of files stands for a full disk"
    )
    path = grid("[fixed]\nquality = 1.0")
    write_notebook(
        path.parent / "evaluate.ipynb", PARAMETERS, "print('before')", "print('x' * 600_000)", SAVE
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ragbench",
            "sweep",
            str(path),
            "--output",
            str(tmp_path / "out"),
            "--no-fork",
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)),
        capture_output=True,
        text=True,
    )
    assert "disk full" in done.stdout + done.stderr
    (failed,) = (tmp_path / "out" / "tiny").glob("*.failed.ipynb")
    notebook = json.loads(failed.read_text(encoding="utf-8"))
    assert "disk full" in notebook["cells"][0]["source"]


def test_a_hung_run_is_stopped_and_reported(
    grid: Callable[[str], Path], tmp_path: Path, fork: bool
) -> None:
    path = grid("[sweep]\nrun_timeout = 6\n[fixed]\nbehaviour = 'hang'")
    began = time.monotonic()
    ((name, error),) = sweep(path, out=tmp_path / "results", fork=fork).failed.items()
    assert "did not end within 6 s (run_timeout" in error
    assert "did not end within" in (
        tmp_path / "results" / "tiny" / f"{name}.failed.ipynb"
    ).read_text(encoding="utf-8")
    assert time.monotonic() - began < 60


def test_a_failing_comparison_is_a_failure(grid: Callable[[str], Path], tmp_path: Path) -> None:
    path = grid("[axes]\nquality = [0.25, 1.0]")
    write_notebook(
        path.parent / "compare.ipynb", 'sweep_dir = ""\nbaseline = ""', "raise KeyError('x')"
    )
    result = sweep(path, out=tmp_path / "results")
    assert list(result.failed) == ["comparison"]
    assert (tmp_path / "results" / "tiny" / "comparison.failed.ipynb").is_file()


def test_a_second_sweep_in_the_same_folder_is_refused(
    grid: Callable[[str], Path], tmp_path: Path
) -> None:
    path = grid("[fixed]\nseed = 1")
    with (
        SweepFolder(tmp_path / "results" / "tiny").locked(),
        pytest.raises(SweepError, match="another sweep"),
    ):
        sweep(path, out=tmp_path / "results")


def test_tables_take_the_place_of_results_and_are_verified(tmp_path: Path) -> None:
    """As a study does that scores many systems in one notebook; the comparison writes one too."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    imports = "from pathlib import Path\nimport pandas as pd"
    parameters = 'collection: str = "a"\nresults_dir: str = ""'
    write = (
        'Path(results_dir).mkdir()\npd.DataFrame({"text": ["x", "y"], "value": [0.5, None]})'
        '.assign(c=collection).to_parquet(Path(results_dir, "t.parquet"))'
    )
    write_notebook(folder / "score.ipynb", parameters, imports, write)
    read = (
        'tables = [pd.read_parquet(path) for path in sorted(Path(sweep_dir).glob("*/t.parquet"))]\n'
        'pd.concat(tables).to_csv(Path(sweep_dir, "all.csv"), index=False)'
    )
    write_notebook(folder / "page.ipynb", 'sweep_dir: str = ""\nbaseline: str = ""', imports, read)
    (tmp_path / "data").mkdir()
    path = folder / "study.toml"
    path.write_text(
        '[sweep]\nnotebook = "score.ipynb"\ncompare = "page.ipynb"\n'
        '[axes]\ncollection = ["a", "../data"]\n',
        encoding="utf-8",
    )
    done = sweep(path, out=tmp_path / "results", jobs=1)
    assert (len(done.finished), dict(done.failed), done.leaderboard) == (2, {}, None)
    study = tmp_path / "results" / "study"
    assert len(pd.read_csv(study / "all.csv")) == 4
    assert len(sweep(path, out=tmp_path / "results", jobs=1).skipped) == 2
    verified = verify(study, jobs=1)
    assert [(each.compared, each.differences) for each in verified] == [(6, ()), (6, ()), (12, ())]
    (tmp_path / "data").rmdir()
    (table,) = study.glob("a-*/t.parquet")
    pd.read_parquet(table).assign(value=[0.25, float("nan")]).to_parquet(table)
    first, absent, page = verify(study, jobs=1)
    damaged, difference = first.differences
    assert "t.parquet is damaged (changed after it was written" in damaged
    assert difference == "t.parquet, 0, value: stored 0.25, now 0.5"
    assert (absent.compared, absent.differences) == (0, ())
    assert "../data is not here" in absent.notes[0]
    assert page.differences == ("all.csv, 0, value: stored 0.5, now 0.25",)


def test_processes_with_their_own_configurations_share_a_folder_and_the_last_one_compares(
    grid: Callable[[str], Path], tmp_path: Path, undisturbed: Path
) -> None:
    path, out = grid(SLOW), tmp_path / "results"
    left = out / "tiny" / f"{STAGING}of-another-1"
    left.mkdir(parents=True)
    command = [
        sys.executable,
        "-m",
        "ragbench",
        "sweep",
        str(path),
        "--no-fork",
        "--output",
        str(out),
        "--only",
    ]
    tasks = [
        subprocess.Popen([*command, number], stderr=subprocess.PIPE, text=True) for number in "01"
    ]
    assert wait_until(lambda: len(list((out / "tiny").glob(f"{STAGING}*/job.json"))) == 2, 60)
    with pytest.raises(SweepError, match="another sweep"):
        sweep(path, out=out)
    names = list(read_grid(path).runs)
    with pytest.raises(SweepError, match="another sweep is writing to " + re.escape(names[0])):
        sweep(path, out=out, only="0")
    assert [task.communicate()[1] and task.returncode for task in tasks] == [0, 0]
    assert left.is_dir()  # whose it is only a whole sweep knows
    assert sweep(path, out=out, only=names[2]).comparison is None
    whole = sweep(path, out=out)
    assert set(whole.skipped) == set(names)
    assert whole.comparison is not None
    assert [*(out / "tiny").glob(f"{STAGING}*")] == [out / "tiny" / f"{STAGING}lock"]
    assert numbers_of(out / "tiny") == numbers_of(undisturbed)


def test_a_part_of_a_grid_is_named_by_name_pattern_or_number(grid: Callable[[str], Path]) -> None:
    read = read_grid(grid("[axes]\nquality = [0.25, 0.5, 1.0]"))
    names = list(read.runs)
    assert [chosen(read, only) for only in (names[1], "2", f"*{names[1][4:]}", "")] == [
        [names[1]],
        [names[2]],
        [names[1]],
        names,
    ]
    for wrong in ("3", "x*"):
        with pytest.raises(ConfigError, match="a number below 3"):
            chosen(read, wrong)


def test_results_of_an_earlier_grid_are_compared_only_where_asked_for(
    grid: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "results"
    (old,) = sweep(grid("[fixed]\nquality = 0.25"), out=out).finished
    path = grid("[axes]\nquality = [0.5, 1.0]")
    result = sweep(path, out=out)
    expected = f"not compared, because not in this grid: {old}; --all compares them too"
    assert expected in result.notes
    assert {each.name for each in load_results(out / "tiny")} == {*result.finished}
    assert result.leaderboard is not None
    assert old not in result.leaderboard.read_text(encoding="utf-8")
    assert result.comparison is not None
    assert "2 compared with" in result.comparison.read_text(encoding="utf-8")
    with_all = sweep(path, out=out, compare_all=True)
    assert f"compared too, though not in this grid: {old}" in with_all.notes
    assert with_all.leaderboard is not None
    assert old in with_all.leaderboard.read_text(encoding="utf-8")
    assert result.comparison is not None
    assert "3 compared with" in result.comparison.read_text(encoding="utf-8")
    config = out / "tiny" / old / "config.json"
    data = json.loads(config.read_text(encoding="utf-8"))
    data["source"]["dataset_fingerprint"] = "other"
    config.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(SweepError, match="measured on other data"):
        sweep(path, out=out, compare_all=True)
    without = sweep(path, out=out)
    assert without.skipped == result.finished
    assert {each.name for each in load_results(out / "tiny")} == {*result.finished}


# --- killed
# -----------------------------------------------------------------------------------------------------

SLOW = "[fixed]\npause = 0.4\n[axes]\nquality = [0.25, 0.5, 1.0]"


def start_sweep(path: Path, out: Path, *, fork: bool) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "ragbench",
        "sweep",
        str(path),
        "--jobs",
        "2",
        "--output",
        str(out),
    ]
    return subprocess.Popen(
        [*command, *([] if fork else ["--no-fork"])],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "SWEEP_OF_A_TEST": str(out)},
    )


def alive_in(folder: Path) -> dict[int, str]:
    """Processes of a sweep by their ids: "sweep", "server", "run" or the name of what else they
    started.
    """
    kinds = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            command, name = (
                (process / "cmdline").read_text(),
                (process / "comm").read_text().strip(),
            )
            state, _, group, *_ = (process / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if f"SWEEP_OF_A_TEST={folder}\0".encode() in environment and state != "Z":
            started = "multiprocessing." in command and "resource_tracker" not in command
            runs = {
                "run": started and group == process.name,
                "server": started,
                "sweep": "\0sweep\0" in command,
            }
            kinds[int(process.name)] = next(
                (kind for kind, matches in runs.items() if matches), name
            )
    return kinds


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if done():
            return True
        time.sleep(0.05)
    return done()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    path = write_grid(folder / "notebooks", SLOW)
    (path.parent / "compare.ipynb").unlink()
    assert not sweep(path, jobs=2, out=folder / "results", fork=False).failed
    return folder / "results" / "tiny"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("fork", "victim"),
    [
        *(("fork", victim) for victim in ("sweep", "run", "server")),
        pytest.param("fork", "group", marks=pytest.mark.simulation),
        *(
            pytest.param("spawn", victim, marks=pytest.mark.simulation)
            for victim in ("sweep", "run", "group")
        ),
    ],
    indirect=["fork"],
)
def test_a_killed_sweep_leaves_nothing_alive_and_continues_to_the_same_bytes(
    grid: Callable[[str], Path], tmp_path: Path, undisturbed: Path, victim: str, fork: bool
) -> None:
    path = grid(SLOW)
    (path.parent / "compare.ipynb").unlink()
    # What a notebook has started ends with it, whichever process is killed.
    write_notebook(
        path.parent / "evaluate.ipynb",
        PARAMETERS,
        "import subprocess; subprocess.Popen(['sleep', '900'])",
        RUN,
        SAVE,
    )
    out = tmp_path / "killed"
    running = start_sweep(path, out, fork=fork)
    assert wait_until(lambda: "sleep" in alive_in(out).values(), 240), "a run is at work"
    time.sleep(0.4 if fork else 1.6)
    if victim == "group":
        os.killpg(running.pid, signal.SIGKILL)
    else:
        for pid, kind in alive_in(out).items():
            if kind == victim:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=600)
    assert wait_until(lambda: not alive_in(out), 60), f"lives on: {alive_in(out)}"
    if victim == "server":
        assert running.returncode == 0, "its runs were started again"

    result = sweep(path, jobs=1 if victim == "sweep" else 2, out=out, fork=fork)
    assert dict(result.failed) == {}
    assert len(result.finished) + len(result.skipped) == 3
    assert numbers_of(out / "tiny") == numbers_of(undisturbed)
    assert len(numbers_of(undisturbed)) == 6
    assert visible(out / "tiny") == visible(undisturbed)


@pytest.mark.parametrize("step", range(4))
def test_at_no_step_of_keeping_a_run_is_half_of_it_taken_for_finished(
    tmp_path: Path, step: int
) -> None:
    folder = SweepFolder(tmp_path)
    source = {"notebook": "n", "notebook_sha256": "2", "dataset_fingerprint": ""}

    def prepare() -> None:
        staging = folder.staging("x")
        (staging / "x").mkdir(parents=True)
        for name in FILES:
            (staging / "x" / name).write_text("{}", encoding="utf-8")
        (staging / "x" / "config.json").write_text(
            json.dumps({"parameters": {"a": 1}, "source": source}), encoding="utf-8"
        )
        (staging / "x.ipynb").write_text('"new"', encoding="utf-8")

    prepare()
    folder.keep("x")
    assert folder.is_finished("x", {"a": 1}, source)
    assert not folder.is_finished("x", {"a": 2}, source)
    whole = folder.notebook("x").read_bytes()
    folder.notebook("x").write_bytes(b"{")
    assert not folder.is_finished("x", {"a": 1}, source), "a damaged notebook is made again"
    folder.notebook("x").write_bytes(whole)
    assert not folder.is_finished("x", {"a": 1}, {**source, "notebook_sha256": "3"})
    prepare()
    staging = folder.staging("x")
    steps: list[Callable[[], object]] = [
        lambda: folder.notebook("x").unlink(),
        lambda: (tmp_path / "x").rename(staging / "old"),
        lambda: (staging / "x").rename(tmp_path / "x"),
        lambda: (staging / "x.ipynb").replace(folder.notebook("x")),
    ]
    for do in steps[: step + 1]:
        do()
    assert folder.is_finished("x", {"a": 1}, source) is (step == 3)
    folder.clear()
    assert not staging.exists()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_stops_the_runs_and_reports_how_to_continue(
    grid: Callable[[str], Path], tmp_path: Path, fork: bool
) -> None:
    out = tmp_path / "results"
    running = start_sweep(grid(SLOW.replace("0.4", "30")), out, fork=fork)
    assert wait_until(lambda: len(list((out / "tiny").glob(".running-*/job.json"))) == 2, 240)
    time.sleep(2)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=240)
    assert running.returncode == 130
    assert b"0 of 3 configurations are finished" in err
    assert b"continues from there" in err
    assert b"Traceback" not in err
    assert visible(out / "tiny") == []
