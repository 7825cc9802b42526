"""Stored results made again and compared, number by number."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.evaluation import (
    Result,
    check_parameters,
    environment,
    load_result,
    result_folders,
)
from ragbench.files import read_json
from ragbench.llms import current_settings
from ragbench.llms.environment import in_force
from ragbench.sweep import budget
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.notebooks import digest_of, read_notebook
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import LocalExecutor, default_jobs
from ragbench.sweep.progress import Progress
from ragbench.sweep.runs import run_all

_RUN_TIMEOUT = 3600.0


@dataclass(frozen=True)
class Verification:
    """The outcome of verifying one configuration: `differences` are lines, none when every number is
    the same.

    `compared` counts the numbers that were compared, `notes` state what is not as it was when the
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
    fork: bool = True,
) -> list[Verification]:
    """Execute every configuration in a sweep's folder again, elsewhere, and compare scores.csv and
    run.trec; one in the sixth decimal is not a difference.

    The cells that are executed are those of the stored notebooks, with the parameters in
    config.json; the results stay as they are. By default no request leaves: replies of language
    models come from the store.

    Args:
        folder: a folder that a sweep wrote, such as results/quickstart.
        jobs: how many runs side by side, as in `sweep`.
        replies: as in `sweep`; "on" sends what the store does not have.
        max_cost: as in `sweep`.
        fork: as in `sweep`.

    Raises:
        ConfigError: there is nothing to verify, or it cannot be run here (no key, an unknown
            model).
    """
    from rich.console import Console

    folder = Path(folder)
    if not folder.is_dir() or not (paths := result_folders(folder)):
        raise ConfigError(
            f"{folder} holds no results; expected the folder of a sweep, such as results/quickstart"
        )
    settings = budget.on_account(current_settings(replies, max_cost), folder)
    with tempfile.TemporaryDirectory(prefix="ragbench-verify-") as temporary, in_force(settings):
        again = SweepFolder(Path(temporary) / folder.resolve().name)
        verified: dict[str, Verification] = {}
        jobs_by_name: dict[str, Job] = {}
        notes: dict[str, tuple[str, ...]] = {}
        for path in paths:
            try:
                jobs_by_name[path.name], notes[path.name] = _job_of(path, again)
            except DataError as exc:
                verified[path.name] = Verification(path.name, 0, (str(exc),))
        console = Console(stderr=True)
        executor = LocalExecutor(
            packages_of(job.parameters for job in jobs_by_name.values()),
            side_by_side=min(jobs or default_jobs(), max(1, len(jobs_by_name))),
            fork=fork,
            log=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
        with again.locked():
            progress = Progress(console, len(jobs_by_name))
            outcomes = run_all(again, jobs_by_name, progress, executor)
        left = dict.fromkeys(outcomes.left, "not begun: the maximum cost is reached")
        errors = {**left, **outcomes.failed}
        for name in jobs_by_name:
            verified[name] = _compared(
                folder / name, again.path / name, notes[name], errors.get(name, "")
            )
    return [verified[path.name] for path in paths]


def _job_of(path: Path, again: SweepFolder) -> tuple[Job, tuple[str, ...]]:
    """Return the job that makes a stored result again, and notes on what is not as it was."""
    config, notebook = load_result(path).config, path.with_name(f"{path.name}.ipynb")
    try:
        executed = read_json(notebook, "")
        metadata = executed["metadata"]
        executed["cells"] = [
            cell | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})
            for cell in executed["cells"]
            if not {"injected-parameters", "race"} & {*cell["metadata"].get("tags", [])}
        ]
        digest, _ = digest_of(executed)
        written = path.parent / metadata.get("papermill", {}).get("input_path", "")
        grid = path.parent / (metadata.get("ragbench", {}).get("grid") or written)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(
            f"{notebook} cannot be read ({type(exc).__name__}: {exc}); it cannot be executed again"
        ) from exc
    source = config.get("source", {})
    if digest != source.get("notebook_sha256"):
        raise DataError(
            f"{notebook} was changed after the sweep: its cells are not those that made the "
            f"result (SHA-256 {digest[:12]}, not {str(source.get('notebook_sha256'))[:12]})"
        )
    parameters, notes = dict(config["parameters"]), list[str]()
    if parameters.get("system"):  # a service may answer otherwise today, and is not asked again
        parameters["system"] = str((path / "answers.jsonl").absolute())
        notes.append("the answers of its system are taken as recorded")
    try:
        check_parameters(parameters)
    except ConfigError as exc:
        raise ConfigError(f"{path.name} cannot be run here: {exc}") from exc
    notes += [*_changed_notebook(written, digest), *_changed_environment(config)]
    cwd = grid.resolve().parent
    location = Place(
        written, json.dumps(executed), cwd if cwd.is_dir() else Path.cwd(), _RUN_TIMEOUT
    )
    job = make_job(again, path.name, location, parameters, source=source, stamp={})
    return job, tuple(notes)


def _changed_notebook(path: Path, digest: str) -> Iterator[str]:
    try:
        is_same = not path.is_file() or read_notebook(path).digest == digest
    except ConfigError:
        is_same = False
    if not is_same:
        yield f"{path.name} has changed since; what is executed are the cells as they were then"


def _changed_environment(config: Mapping[str, Any]) -> Iterator[str]:
    then, now = (
        {**part, **part.get("libraries", {})}
        for part in (config.get("environment", {}), environment())
    )
    changed = [
        f"{key} {then.get(key)} -> {value}"
        for key, value in now.items()
        if key not in ("cores", "libraries") and then.get(key) != value
    ]
    if changed:
        yield f"made in another environment: {', '.join(changed)}"


def _compared(path: Path, again: Path, notes: tuple[str, ...], error: str) -> Verification:
    if error:
        return Verification(path.name, 0, (f"it could not be made again: {error}",), notes)
    try:
        then, now = load_result(path), load_result(again)
    except RagbenchError as exc:
        return Verification(path.name, 0, (str(exc),), notes)
    before, after = (str(result.config["dataset"].get("fingerprint")) for result in (then, now))
    numbers = _numbers(then)
    differences = list(_differences(numbers, _numbers(now)))
    if before != after:
        changed = f"the dataset has changed: fingerprint {before[:12]}, now {after[:12]}"
        differences.insert(0, changed)
    return Verification(path.name, len(numbers), tuple(differences), notes)


def _numbers(result: Result) -> dict[str, str]:
    """Return every number of scores.csv and run.trec under a name for it, as text."""
    scores = {
        f"scores.csv, {query_id}, {measure}": _text(float(value))
        for query_id, measure, value in result.scores.itertuples(index=False, name=None)
    }
    run = {
        f"run.trec, {query_id}, {doc_id}": _text(score)
        for query_id, ranking in result.run.items()
        for doc_id, score in ranking.items()
    }
    return {**scores, **run}


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in {**before, **after}:
        then, now = before.get(key, "not there"), after.get(key, "not there")
        if then != now and not _is_rounding(then, now):
            yield f"{key}: stored {then}, now {now}"


def _is_rounding(*numbers: str) -> bool:
    """Return True for two numbers that differ by one in the sixth decimal, to which vectors' scores are
    rounded: processors add in different orders.

    >>> _is_rounding("0.501366", "0.501367"), _is_rounding("0.5", "0.50001"), _is_rounding("0.5", "unscored")
    (True, False, False)
    """
    values = [float(text) for text in numbers if text[-1].isdigit()]
    return len(values) == 2 and abs(values[0] - values[1]) < 1.5e-6


def _text(value: float) -> str:
    return "unscored" if value != value else repr(value + 0.0)  # -0.0 is 0.0
