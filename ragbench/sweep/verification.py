"""Stored results made again and compared, number by number."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.evaluation import (
    check_parameters,
    environment,
    load_result,
    load_results,
    result_folders,
)
from ragbench.evaluation.formats import short
from ragbench.files import read_json
from ragbench.llms import Settings, current_settings
from ragbench.sweep import budget
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.notebooks import read_notebook
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import LocalExecutor, default_jobs
from ragbench.sweep.progress import Progress
from ragbench.sweep.runs import run_all

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.evaluation import Result

_RUN_TIMEOUT = 3600.0


@dataclass(frozen=True)
class Verification:
    """What came of verifying one configuration: `differences` are lines, none when every number is
    the same.

    `compared` counts the numbers that were compared, `notes` say what is not as it was when the
    result was made.
    """

    name: str
    compared: int
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()


def verify(
    folder: str | Path,
    *,
    jobs: int | None = None,
    replies: str | None = "offline",
    max_cost: float | None = None,
    tolerance: float = 0.0,
    fork: bool = True,
) -> list[Verification]:
    """Execute every configuration in a sweep's folder again, elsewhere, and compare scores.csv and
    run.trec.

    The leaderboard is compared with what follows from the stored results.

    The cells that are executed are those of the stored notebooks, with the parameters in
    config.json; the results stay as they are. By default no request leaves: replies of language
    models come from the store.

    Args:
        folder: a folder that a sweep wrote, such as results/quickstart.
        jobs: how many runs side by side, as in `sweep`.
        replies: as in `sweep`; "on" sends what the store does not have.
        max_cost: as in `sweep`.
        tolerance: by how much numbers may differ; 0 means not at all.
        fork: as in `sweep`.

    Raises:
        ConfigError: there is nothing to verify, or it cannot be run here (no key, an unknown
        model).
    """
    from rich.console import Console

    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"tolerance is {tolerance}; expected 0 or more")
    folder = Path(folder)
    if not folder.is_dir() or not (results := result_folders(folder)):
        raise ConfigError(
            f"{folder} holds no results; expected the folder of a sweep, such as results/quickstart"
        )
    settings = budget.on_account(current_settings(replies, max_cost), folder)
    with tempfile.TemporaryDirectory(prefix="ragbench-verify-") as temporary:
        verified: dict[str, Verification] = {}
        again = SweepFolder(Path(temporary) / folder.resolve().name)
        made: dict[str, Job] = {}
        notes: dict[str, tuple[str, ...]] = {}
        for path in results:
            try:
                made[path.name], notes[path.name] = _job_of(folder, path.name, again, settings)
            except DataError as exc:
                verified[path.name] = Verification(path.name, 0, (str(exc),))
        console = Console(stderr=True)
        executor = LocalExecutor(
            packages_of(job.parameters for job in made.values()),
            side_by_side=min(jobs or default_jobs(), max(1, len(made))),
            fork=fork,
            log=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
        with again.locked():
            ended = run_all(again, made, Progress(console, len(made)), executor)
        errors = {
            **dict.fromkeys(ended.left, "not begun: the maximum cost is reached"),
            **ended.failed,
        }
        for name in made:
            verified[name] = _compared(
                folder / name, again.path / name, notes[name], errors.get(name, ""), tolerance
            )
    board = (
        []
        if any(result.compared == 0 for result in verified.values())
        else _board(folder, tolerance)
    )
    return [*(verified[path.name] for path in results), *board]


def _job_of(
    folder: Path, name: str, again: SweepFolder, settings: Settings
) -> tuple[Job, tuple[str, ...]]:
    """Return the job that makes a stored result again, and notes on what is not as it was."""
    config, notebook = load_result(folder / name).config, folder / f"{name}.ipynb"
    try:
        executed = read_json(notebook, "")
        metadata = executed["metadata"]
        executed["cells"] = [
            _as_written(cell) for cell in executed["cells"] if not _is_injected(cell)
        ]
        written = metadata.get("papermill", {}).get("input_path", "")
        grid = metadata.get("ragbench", {}).get("grid") or written
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(
            f"{notebook} cannot be read ({type(exc).__name__}: {exc}); it cannot be executed again"
        ) from exc
    source = config.get("source", {})
    cells = [
        (c["cell_type"], "".join(c["source"]), c["metadata"].get("tags", []))
        for c in executed["cells"]
    ]
    digest = hashlib.sha256(json.dumps(cells).encode()).hexdigest()
    if digest != source.get("notebook_sha256"):
        raise DataError(
            f"{notebook} was changed after the sweep: its cells are not those that made the "
            f"result (SHA-256 {digest[:12]}, not {str(source.get('notebook_sha256'))[:12]})"
        )
    parameters = dict(config["parameters"])
    recorded: tuple[str, ...] = ()
    if parameters.get("system"):  # a service may answer otherwise today, and is not asked again
        parameters["system"] = str((folder / name / "answers.jsonl").absolute())
        recorded = ("the answers of its system are taken as recorded",)
    try:
        check_parameters(parameters, settings)
    except ConfigError as exc:
        raise ConfigError(f"{name} cannot be run here: {exc}") from exc
    cwd = (folder / grid).resolve().parent
    place = Place(
        folder / written, json.dumps(executed), cwd if cwd.is_dir() else Path.cwd(), _RUN_TIMEOUT
    )
    notes = (*recorded, *_changed_notebook(folder / written, digest), *_changed_environment(config))
    return make_job(again, name, place, parameters, settings, source=source, stamp={}), notes


def _is_injected(cell: Mapping[str, Any]) -> bool:
    return "injected-parameters" in cell["metadata"].get("tags", [])


def _as_written(cell: Mapping[str, Any]) -> dict[str, Any]:
    cell = dict(cell)
    if cell["cell_type"] == "code":
        cell |= {"outputs": [], "execution_count": None}
    return cell


def _changed_notebook(path: Path, digest: str) -> Iterator[str]:
    if not path.is_file():
        return
    try:
        now = read_notebook(path).digest
    except ConfigError:
        now = ""
    if now != digest:
        yield f"{path.name} has changed since; what is executed are the cells as they were then"


def _changed_environment(config: Mapping[str, Any]) -> Iterator[str]:
    then, now = config.get("environment", {}), environment()
    flat = [
        {
            **{k: e.get(k) for k in ("ragbench", "python", "platform", "machine")},
            **e.get("libraries", {}),
        }
        for e in (then, now)
    ]
    changed = [
        f"{key} {flat[0].get(key)} -> {flat[1].get(key)}"
        for key in flat[1]
        if flat[0].get(key) != flat[1][key]
    ]
    if changed:
        yield f"made in another environment: {', '.join(changed)}"


def _compared(
    path: Path, again: Path, notes: tuple[str, ...], error: str, tolerance: float
) -> Verification:
    if error:
        return Verification(path.name, 0, (f"it could not be made again: {error}",), notes)
    try:
        then, now = load_result(path), load_result(again)
    except RagbenchError as exc:
        return Verification(path.name, 0, (str(exc),), notes)
    fingerprints = [str(result.config["dataset"].get("fingerprint")) for result in (then, now)]
    differences = []
    if fingerprints[0] != fingerprints[1]:
        differences.append(
            f"the dataset has changed: fingerprint {fingerprints[0][:12]}, "
            f"now {fingerprints[1][:12]}"
        )
    before = _numbers(then)
    differences += _differences(before, _numbers(now), tolerance)
    return Verification(path.name, len(before), tuple(differences), notes)


def _board(folder: Path, tolerance: float) -> Iterator[Verification]:
    """The leaderboard against what follows from the stored results, as far as both have the same
    columns.
    """
    import pandas as pd

    from ragbench.evaluation import leaderboard

    path = folder / "leaderboard.csv"
    if not path.is_file():
        return
    try:
        then, now = (
            pd.read_csv(path).set_index("name"),
            leaderboard(load_results(folder)).set_index("name"),
        )
    except (RagbenchError, ValueError, KeyError) as exc:
        yield Verification(path.name, 0, (f"it cannot be read or made again: {exc}",))
        return
    columns = [
        c for c in then.columns if c in now.columns and pd.api.types.is_numeric_dtype(then[c])
    ]
    before, after = (
        {
            f"{name}, {c}": math.nan if pd.isna(row[c]) else float(short(float(row[c])))
            for name, row in rows.items()
            for c in columns
        }
        for rows in (then.to_dict("index"), now.to_dict("index"))
    )
    yield Verification(path.name, len(before), tuple(_differences(before, after, tolerance)))


def _differences(
    before: Mapping[str, float], after: Mapping[str, float], tolerance: float
) -> Iterator[str]:
    for key in [*before, *(key for key in after if key not in before)]:
        a, b = before.get(key), after.get(key)
        if a is None or b is None or not (a == b or (a != a and b != b) or abs(a - b) <= tolerance):
            yield f"{key}: stored {_shown(a)}, now {_shown(b)}"


def _numbers(result: Result) -> dict[str, float]:
    """Every number of scores.csv and run.trec under a name for it."""
    scores: pd.DataFrame = result.scores
    rows = scores.itertuples(index=False, name=None)
    numbers = {
        f"scores.csv, {query_id}, {measure}": float(value) for query_id, measure, value in rows
    }
    for query_id, found in result.run.items():
        numbers |= {f"run.trec, {query_id}, {doc_id}": score for doc_id, score in found.items()}
    return numbers


def _shown(value: float | None) -> str:
    return "not there" if value is None else "unscored" if value != value else repr(value)
