"""Directories of files with scores: each file is a system, but files of several tasks, as
lm-evaluation-harness and Inspect write them, are the questions of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ragbench.errors import DataError, printable
from ragbench.foreign.inspect_logs import task_of_inspect_log
from ragbench.foreign.readers import SUFFIXES, load_scores
from ragbench.foreign.score_columns import Scored, ScoreTable

_SAMPLES = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?\.jsonl")


class _TaskFile(NamedTuple):
    """A file with the scores of one task; `run` distinguishes several runs of a task: the time of a run
    of lm-evaluation-harness, the model of a run of Inspect.
    """

    path: Path
    task: str
    run: str


def sources_in(folder: Path) -> list[Path | ScoreTable]:
    """Return the systems in a directory.

    - Samples of lm-evaluation-harness (samples_*.jsonl): each run is a system. A run is the files that
      the tool wrote together, one for each task; its table has the questions of all tasks. Other files
      next to samples are left out.
    - Files that all name their task, as Inspect's do, of two tasks or more: each run is a system, too.
    - Other files with scores: each file is a system; its path is returned, in the order of names.
    - No file with scores: the systems in the inner directories with samples.

    Raises:
        DataError: the directory has no file with scores, or one that cannot be read.
    """
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]
    samples = [path for path in files if _SAMPLES.fullmatch(path.name)]
    if samples:
        files = samples  # lm-evaluation-harness writes a summary next to them
    if not files:
        return _sources_in_inner(folder)
    # files that name their task: in their own name (lm-evaluation-harness), or inside (Inspect)
    task_files = [task_file for path in files if (task_file := _task_file(path))]
    all_name_a_task = len(task_files) == len(files)
    n_tasks = len({task_file.task for task_file in task_files})
    if samples or (all_name_a_task and n_tasks > 1):
        return _runs_of_tasks(folder, task_files)
    return list(files)


def _sources_in_inner(folder: Path) -> list[Path | ScoreTable]:
    """Return the systems in the directories of samples that a directory holds.

    Raises:
        DataError: it holds none.
    """
    sources: list[Path | ScoreTable] = []
    for path in sorted(folder.iterdir()):
        if any(path.glob("samples_*.jsonl")):
            sources += sources_in(path)
    if not sources:
        raise DataError(
            f"{folder} holds neither results of ragbench nor files with scores; expected files such "
            f"as {', '.join(SUFFIXES[:5])}"
        )
    return sources


def _task_file(path: Path) -> _TaskFile | None:
    """Return the task and the run of a file; None if it does not name them."""
    match = _SAMPLES.fullmatch(path.name)
    if match:
        return _TaskFile(path, match["task"], match["date"] or "")
    task, model = task_of_inspect_log(path)
    return _TaskFile(path, task, model) if task else None


def _runs_of_tasks(folder: Path, files: Sequence[_TaskFile]) -> list[Path | ScoreTable]:
    """Return a table for each run, with the rows of all its tasks. With several tasks, the id in a row
    is "TASK/ID".

    If no two files have the same task, all files belong to one run, although they may have been written
    at different times. Otherwise a run is the files with the same `_TaskFile.run`.
    """
    tasks = {file.task for file in files}
    is_one_run = len(tasks) == len(files)
    rows_by_run: dict[str, list[Scored]] = {}
    for file in files:
        [table] = load_scores(file.path)
        rows = list(table.rows)
        if len(tasks) > 1:
            rows = [_with_task_in_id(row, file.task) for row in rows]
        rows_by_run.setdefault("" if is_one_run else file.run, []).extend(rows)
    name = printable(folder.resolve().name)
    tables: list[Path | ScoreTable] = []
    for run, rows in rows_by_run.items():
        run_name = name if is_one_run else f"{name} {printable(run)}"
        tables.append(ScoreTable(run_name, tuple(rows), place=f"{folder} {run}".rstrip()))
    return tables


def _with_task_in_id(row: Scored, task: str) -> Scored:
    """Return a row whose id names its task: tasks number their documents alike."""
    return row._replace(query_id=f"{task}/{row.query_id}") if row.query_id else row
