"""A sweep, from its grid to the comparison: which configurations run, are skipped or stay as they
are, and what is noted about changed data and files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, RagbenchError, SweepError
from ragbench.evaluation import check_models, load_results, save_roles
from ragbench.evaluation.data_changes import config_of, data_changes
from ragbench.evaluation.folder import RACE, compared_folders
from ragbench.evaluation.spec import select_questions, spec_of
from ragbench.extension import imports_reported
from ragbench.files import read_json
from ragbench.hints.calls import explaining_calls
from ragbench.llms import Settings, active_dry_run, current_settings
from ragbench.llms.environment import in_force
from ragbench.statistics.thresholds import MARGIN
from ragbench.sweep import budget
from ragbench.sweep.code import remember_code
from ragbench.sweep.grid import (
    Grid,
    dataset_source,
    input_files,
    load_named,
    sources_of,
    working_folder,
)
from ragbench.sweep.grid_race import Contest, contest_of
from ragbench.sweep.job import Job, Place, make_job, relative
from ragbench.sweep.leaderboard_files import leaderboard_texts, write_changed
from ragbench.sweep.plan import ask_in_batches, check_batches, open_sweep
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import Executor, LocalExecutor, default_jobs
from ragbench.sweep.progress_display import Progress
from ragbench.sweep.runs import RunOutcomes, run_all
from ragbench.sweep.sweep_folder import COMPARISON, SweepFolder, tables_of
from ragbench.testsets.snapshot import SNAPSHOT_VARIABLE, changed_since, take_snapshot

if TYPE_CHECKING:
    from rich.console import Console

    from ragbench.evaluation import Results


@dataclass(frozen=True)
class SweepResult:
    """The outcome of a sweep.

    Attributes:
        folder: the folder of the results.
        finished, skipped: the configurations that ran now, and those that had finished before.
        failed: name of a configuration -> error.
        left, stopped: if the maximum cost ended the sweep, the configurations that were not begun,
            and a sentence that says so; else () and "".
        notes: sentences for the user.
        results: the results that the leaderboard and the comparison are about; None without a
            leaderboard.
    """

    folder: Path
    finished: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: Mapping[str, str]
    comparison: Path | None = None
    leaderboard: Path | None = None
    left: tuple[str, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)
    seconds: float = 0.0
    results: Results | None = field(default=None, repr=False, compare=False)


@explaining_calls(
    "rb.evaluate(data, ['bm25', 'dense:minilm']), with two axes rb.Results({f'{name}, k={k}': "
    "rb.evaluate(data, name, k=k) for name in ['bm25', 'dense:minilm'] for k in [3, 5]}), or "
    "rb.sweep('grid.toml')",
    **dict.fromkeys(
        "dataset system retriever retrievers chunker chunkers chunk_size k top_k embedder reranker llm axes "
        "grid".split(),
        "rb.sweep({'fixed': {'dataset': 'pydoc'}, 'axes': {'retriever': ['bm25', 'dense:minilm'], 'k': [3, 5]}})",
    ),
)
def sweep(
    grid_file: str | Path | Mapping[str, Any],
    *,
    jobs: int | None = None,
    force: bool = False,
    out: str | Path = "results",
    replies: str | None = None,
    max_cost: float | None = None,
    allow_unpriced: bool = False,
    allow_failed: bool = False,
    fork: bool = True,
    only: str = "",
    executor: str = "",
    race: str = "",
    margin: float = MARGIN,
    batch: bool = False,
    overrides: Sequence[str] = (),
    compare_all: bool = False,
) -> SweepResult:
    """Run every configuration of a grid that is not finished yet, then compare them all.

    Paths in the grid (notebooks, dataset folders) are relative to the grid file. Progress is shown
    on standard error.

    Args:
        grid_file: a TOML file such as notebooks/quickstart.toml, or its tables: {"fixed": {...},
            "axes": {...}}.
        jobs: how many runs side by side; None = one per core, as far as there are 1.5 GB of memory
            for each.
        force: run finished configurations again too.
        out: folder that holds the sweep's own folder.
        replies: how the reply store is used, as in RAGBENCH_REPLIES: "on", "off" or "offline"
            (nothing is sent).
        max_cost: US dollars that the requests of all sweeps into this folder may cost together, as
            RAGBENCH_MAX_COST. A request that might exceed it is not sent; its run does not finish,
            and no other run is begun.
        allow_unpriced: models without a known price are not refused under a maximum cost, and not
            counted.
        allow_failed: a run whose requests failed in part counts as finished. Otherwise it has failed;
            running it again sends the missing requests only, because all replies are stored.
        fork: on Linux, import the notebooks' packages once, and fork each run from that process.
        only: run the configurations of this name, pattern ("bm25*") or number in the grid (from 0),
            and compare none. Several such calls may work in one folder at once; a last one without
            `only` compares their results.
        executor: where the configurations run: "" is this process's machine, "dask://host:8786" or
            "tls://host:8786" the workers of a Dask scheduler, "dask://local?workers=4" some of them
            started here.
        race: a measure, or "auto" for the measure that ranks the leaderboard. The configurations
            answer in rounds; one that is proven not to be better than the leader by `margin` or more
            is dropped, and its answers so far are its result. With a probability of 95 %, the best
            configuration, or one within the margin of it, is left; see `ragbench.statistics.race`.
        margin: the loss in that measure that does not matter.
        batch: first have the providers answer all requests by their batch interfaces, at half the
            price, and wait for them: minutes to a day. If this process ends meanwhile, the same call
            continues to wait, and a call without `batch` is refused if it would pay a second time for
            requests of a batch. RAGBENCH_FORGET_BATCHES names batches that are given up.
        overrides: parameters of every configuration, NAME=VALUE, in place of their values in
            the grid.
        compare_all: also compare the results in the folder that are not in the grid (any more).

    Returns:
        Which configurations ran, were skipped and failed, and the paths of the results.

    Raises:
        ConfigError: the grid, a notebook or a parameter is invalid; nothing has run.
        DataError: the dataset cannot be loaded; nothing has run.
        ModelError: the server of a model cannot be reached; nothing has run.
        SweepError: another sweep works in the same folder, or it holds results on other data.
        KeyboardInterrupt: after the runs have been stopped; finished results stay, and the same
            call continues.
    """
    _check_call(jobs, batch=batch, race=race)
    from rich.console import Console

    began = time.monotonic()
    console = Console(stderr=True)
    settings = current_settings(replies, max_cost, allow_unpriced)
    imported_names = list[str]()  # of the user's modules
    with imports_reported(imported_names.append):
        grid, names, folder, settings = open_sweep(grid_file, out, only, settings, overrides)
    with TemporaryDirectory(prefix="ragbench-sweep-") as snapshot:
        session = _Session(grid, folder, sources_of(grid), settings, console, Path(snapshot))
        files = input_files(grid)
        take_snapshot(session.snapshot, files, dataset_source(grid), session.fingerprint)
        with _stop_reported(session), folder.locked(), in_force(settings):
            notes = [*grid.notes, *session.check_others(compare_all=compare_all)]
            contest = session.contest(race, margin, force=force, only=only)
            if contest:
                names = [name for name in names if name not in contest.race.stopped]
            skipped = [] if force else list(filter(session.is_finished, names))
            unfinished = [name for name in names if name not in skipped]
            notes += session.what_changed(unfinished)
            to_run = session.jobs(unfinished, force, allow_failed)
            if batch:
                ask_in_batches(grid, to_run, settings, session.log)
            else:
                check_batches(grid, to_run, settings, session.log)
            session.remember_code(imported_names)
            # the comparison notebook is executed on this machine, wherever the runs are
            local_executor, opened_for_runs = session.executors(executor, to_run, jobs, fork=fork)
            with opened_for_runs as executor_of_runs:
                result = session.run(to_run, executor_of_runs, skipped, contest)
            result = replace(result, notes=(*notes, *result.notes))
            if only:
                result = _with_notes(result, [_note_on_only(grid_file)])
            else:
                result = _compare(session, result, local_executor, compare_all=compare_all)
            result = _with_notes(result, _notes_on_changed_files(session, files))
    return replace(result, seconds=time.monotonic() - began)


def _with_notes(result: SweepResult, notes: Sequence[str]) -> SweepResult:
    """Return the result with further notes."""
    return replace(result, notes=(*result.notes, *notes))


def _note_on_only(grid_file: str | Path | Mapping[str, Any]) -> str:
    return f"the leaderboard and the comparison are made by `ragbench sweep {grid_file}` without --only"


def _notes_on_changed_files(session: _Session, files: Sequence[Path]) -> list[str]:
    """Return a note on the input files that changed during the sweep; [] if none did."""
    changed = changed_since(session.snapshot, files)
    if not changed:
        return []
    return [
        f"{', '.join(changed)} changed while the sweep ran: the results are of the state at its start; "
        "run it again"
    ]


def _check_call(jobs: int | None, *, batch: bool, race: str) -> None:
    """Refuse arguments of `sweep` that contradict each other, and a sweep in a dry run."""
    if batch and race:
        raise ConfigError(
            "a batch asks all questions at once, and a race leaves most of them out; use one of the two"
        )
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; expected 1 or more")
    if active_dry_run():
        raise ConfigError(
            "sweep: its processes would not be part of this dry run; call ragbench.sweep.plan "
            "instead"
        )


@dataclass(frozen=True)
class _Session:
    """State that the steps of a sweep share.

    Attributes:
        sources: name of a configuration -> fingerprints of all inputs of its result.
        snapshot: the folder with copies of the input files at the start.
    """

    grid: Grid
    folder: SweepFolder
    sources: Mapping[str, Mapping[str, str]]
    settings: Settings
    console: Console
    snapshot: Path

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the dataset at the start; "" without one."""
        return next(iter(self.sources.values()))["dataset_fingerprint"]

    def is_finished(self, name: str) -> bool:
        """Return True if the folder has the result of a configuration on the present inputs."""
        return self.folder.is_finished(name, self.grid.runs[name], self.sources[name])

    def contest(self, measure: str, margin: float, *, force: bool, only: str) -> Contest | None:
        """Return the race of the configurations by a measure, as far as an earlier sweep held it; None if
        the measure is "".

        In a race, configurations answer in rounds, and those that are proven not to be the best are
        dropped. The stored race of an earlier sweep is removed with `force`, and if this sweep runs all
        configurations without a race.
        """
        if force or not (measure or only):
            (self.folder.path / RACE).unlink(missing_ok=True)
        if not measure:
            return None
        return contest_of(self.grid, self.folder, self.sources, measure, margin)

    def what_changed(self, names: Sequence[str]) -> list[str]:
        """Return notes on changes of the data since the older results of these configurations, and log
        them. Each note describes a change and counts the configurations that run again because of it.
        """
        outdated: dict[str, list[str]] = {}  # changes in words -> names of configurations
        config_now: dict[str, Any] = {}
        for name in names:
            config = self.folder.config(name)
            source = config.get("source") or {}
            fingerprint = source.get("dataset_fingerprint", "")  # "": there is no older result
            if not fingerprint or fingerprint == self.fingerprint:
                continue
            if not config_now:  # reads the whole dataset, so only when it is needed
                config_now = self._config_of_data()
            changes = data_changes(config, config_now) or "the data changed"
            outdated.setdefault(changes, []).append(name)
        notes = []
        for changes, outdated_names in outdated.items():
            note = (
                f"since the last run: {changes}; {len(outdated_names)} of {len(self.grid.runs)} "
                "configurations saw the old data and run again"
            )
            self.log(f"note: {note}")
            notes.append(note)
        return notes

    def _config_of_data(self) -> dict[str, Any]:
        """Return the part of config.json about the dataset and questions, for the present data."""
        first = next(iter(self.grid.runs.values()))
        dataset = load_named(first, working_folder(self.grid))
        return config_of(select_questions(dataset, spec_of(first)))

    def log(self, message: str) -> None:
        """Print a message next to the progress bar."""
        self.console.print(message, highlight=False, markup=False, soft_wrap=True)

    def check_others(self, *, compare_all: bool) -> list[str]:
        """Return a note that states whether results in the folder that are not of this grid are compared
        too; [] if there are no such results.

        Raises:
            SweepError: they would be compared, but one of them is on other data than this grid.
        """
        others = self.folder.others(self.grid.runs)
        if not others:
            return []
        names = ", ".join(others)
        has_tables = any(tables_of(self.folder.path / name) for name in others)
        is_compared = compare_all or has_tables  # a notebook of tables reads all of them
        if not is_compared:
            return [f"not compared, because not in this grid: {names}; --all compares them too"]
        for name in others:
            source = self.folder.config(name).get("source", {})
            other = source.get("dataset_fingerprint", self.fingerprint)  # if unknown: the same
            if other != self.fingerprint:
                raise SweepError(
                    f"{self.folder.path} holds {name}, which is not in this grid and was measured "
                    f"on other data (fingerprint {str(other)[:12]}); delete it, or use another "
                    "--output or another name"
                )
        return [f"compared too, though not in this grid: {names}"]

    def jobs(self, names: Sequence[str], force: bool, allow_failed: bool) -> dict[str, Job]:
        """Return configuration -> the job that runs it.

        An environment variable of the job names the snapshot, so that its run reads the input files
        as they were at the start of the sweep.

        Args:
            names: the configurations to run.
            force: remove the journals, in which earlier runs kept their answers, so that all is asked
                again.
            allow_failed: see `sweep`.

        Raises:
            ConfigError, ModelError: a model of a configuration is not available.
        """
        notebook = self.grid.notebook
        cwd = working_folder(self.grid)
        place = Place(notebook.path, notebook.text, cwd, self.grid.run_timeout)
        # goes into the metadata of each executed notebook
        stamp = {"grid": relative(self.grid.path.resolve(), self.folder.path)}
        jobs = {}
        for name in names:
            if force:
                self.folder.forget_journals(name)
            parameters = self.grid.runs[name]
            check_models(parameters, folder=cwd)  # also connects to the models' servers
            how_requests_are_sent = self.grid.requests[name]  # parameters, too, such as `timeout_s`
            job = make_job(
                self.folder,
                name,
                place,
                {**parameters, **how_requests_are_sent},
                source=self.sources[name],
                stamp=stamp,
                allow_failed=allow_failed,
            )
            variables = {**job.environment, SNAPSHOT_VARIABLE: str(self.snapshot)}
            jobs[name] = replace(job, environment=variables)
        return jobs

    def remember_code(self, imports: Sequence[str]) -> None:
        """Record the user's code that the notebooks and the named objects of the grid come from."""
        remember_code([self.grid.notebook.digest], imports, working_folder(self.grid))
        if self.grid.compare:
            remember_code([self.grid.compare.digest], [], self.folder.path)

    def executors(
        self, address: str, to_run: Mapping[str, Job], jobs: int | None, *, fork: bool
    ) -> tuple[LocalExecutor, AbstractContextManager[Executor]]:
        """Return two executors: one on this machine, which executes the comparison notebook; and one for
        the runs, as a context manager that opens it.

        Args:
            address: of workers that execute the runs; "" means this machine.
            to_run: configuration -> its job.
            jobs: how many runs side by side; None chooses.
            fork: see `sweep`.
        """
        configurations = [self.grid.runs[name] for name in to_run]
        packages = packages_of(configurations)
        side_by_side = min(jobs or default_jobs(), max(1, len(to_run)))
        local = LocalExecutor(packages, side_by_side=side_by_side, fork=fork, log=self.log)
        if not (address and to_run):
            return local, nullcontext(local)
        from ragbench.sweep.cluster import DaskExecutor
        from ragbench.sweep.remote import Packer

        # the database that the workers must share with this process, or ""
        store = budget.check_shared(address, configurations, self.settings)
        packer = Packer(to_run.values(), store, packages)
        return local, DaskExecutor(address, packer, jobs, self.log)

    def run(
        self,
        to_run: Mapping[str, Job],
        executor: Executor,
        skipped: Sequence[str],
        contest: Contest | None,
    ) -> SweepResult:
        """Run the race of the configurations, if there is one, and then the jobs of those that it did not
        drop.

        Args:
            to_run: configuration -> its job.
            executor: runs the jobs.
            skipped: configurations that are finished already.
            contest: the race; None without one.

        Returns:
            The configurations that finished, failed or were not begun, and a note on the race.
        """
        outcomes = RunOutcomes({}, [], False)
        notes: list[str] = []
        if contest:
            race_outcome = contest.run_rounds(to_run, executor, self.console)
            to_run = race_outcome.jobs
            outcomes = race_outcome.outcomes
            notes.append(race_outcome.decision)
        if to_run:
            outcomes = self._run_all(to_run, executor, skipped)
        unfinished = {*outcomes.failed, *outcomes.left}
        return SweepResult(
            folder=self.folder.path,
            finished=tuple(name for name in to_run if name not in unfinished),
            skipped=tuple(skipped),
            failed=outcomes.failed,
            left=tuple(outcomes.left),
            stopped=budget.stop_message(self.settings, len(unfinished)) if outcomes.budget else "",
            notes=tuple(notes),
        )

    def _run_all(
        self, to_run: Mapping[str, Job], executor: Executor, skipped: Sequence[str]
    ) -> RunOutcomes:
        """Run jobs with a progress bar that counts the `skipped` configurations as done."""
        for note in self.grid.notes:
            self.log(f"Note: {note}")
        at_once = min(executor.side_by_side, len(to_run))
        self.log(
            f"{self.grid.name}: {len(to_run)} to run, {at_once} at a time; {len(skipped)} "
            "finished already"
        )
        progress = Progress(self.console, len(to_run) + len(skipped), skipped=len(skipped))
        return run_all(self.folder, to_run, progress, executor)


@contextmanager
def _stop_reported(session: _Session) -> Iterator[None]:
    """Log how many configurations are finished if the user stops the sweep (Ctrl-C) during the block.

    Raises:
        KeyboardInterrupt: the user stopped the sweep.
        SweepError: the folder cannot be written.
    """
    try:
        yield
    except KeyboardInterrupt:
        runs = session.grid.runs
        n_finished = sum(map(session.is_finished, runs))
        session.log(
            f"Stopped: {n_finished} of {len(runs)} configurations are "
            f"finished in {session.folder.path}; the same command (without --force) continues "
            "from there."
        )
        raise
    except OSError as exc:
        raise SweepError(f"cannot write to {session.folder.path}: {exc}") from exc


def _compare(
    session: _Session, result: SweepResult, executor: LocalExecutor, *, compare_all: bool
) -> SweepResult:
    """Compare the finished configurations: write the leaderboard and execute the comparison notebook.
    Return `result` with the paths of both.

    If no configuration is finished, a note on this is added instead. If a configuration wrote
    tables of its own in place of a result, there is no leaderboard, and only a comparison notebook
    that the user wrote is executed. An error in the comparison is an entry of `result.failed`.
    """
    if not (result.finished or result.skipped):
        return _with_notes(result, ["no configuration succeeded, so there is nothing to compare"])
    grid, folder = session.grid, session.folder
    # Not compared: configurations that were not begun, since an older result of theirs is outdated, and
    # results of other grids. `compared_folders` and `load_results` read this and leave them out.
    left_out = list(result.left)
    if not compare_all:
        left_out += folder.others(grid.runs)
    save_roles(folder.path, grid.baseline, sorted(left_out))
    paths = compared_folders(folder.path)
    if any(map(tables_of, paths)):
        # ragbench's own compare.ipynb reads results only
        is_for_results = grid.compare and grid.compare.path.name == "compare.ipynb"
        if is_for_results or len(paths) < 2:
            return result
        return _with_comparison(session, result, executor, "", {})
    board = folder.path / "leaderboard.csv"
    try:
        results = load_results(folder.path)
        table = results.leaderboard()
    except RagbenchError as exc:
        return replace(result, failed={**result.failed, COMPARISON: str(exc)})
    has_baseline = any(other.name == grid.baseline for other in results)
    baseline = grid.baseline if has_baseline else ""
    board_texts = leaderboard_texts(board, results, table, baseline)
    result = replace(result, leaderboard=board, results=results)
    result = _with_notes(result, _notes_on_comparison(results, grid.baseline))
    if len(results) < 2:
        write_changed(board_texts)
        return result
    return _with_comparison(session, result, executor, baseline, board_texts)


def _with_comparison(
    session: _Session,
    result: SweepResult,
    executor: LocalExecutor,
    baseline: str,
    board_texts: Mapping[Path, str],
) -> SweepResult:
    """Write the leaderboard and execute the comparison notebook; return `result` with the path of the
    executed notebook, or with the error if it failed.

    The notebook is not executed if it was made from the same results before, or if the grid has
    no comparison notebook: then only the leaderboard is written.

    Args:
        baseline: the configuration that the others are compared with; "" is the first by name.
        board_texts: path -> text of the files of the leaderboard; {} if there is none.
    """
    grid, folder = session.grid, session.folder
    if grid.compare is None:
        write_changed(board_texts)
        return result
    # is kept in the executed notebook, and states what it was made from
    stamp = {
        "baseline": baseline,
        "notebook_sha256": grid.compare.digest,
        "results_sha256": folder.digest(),
    }
    notebook = folder.notebook(COMPARISON)
    is_current = not result.finished and _stamp_of(notebook) == stamp
    has_leaderboard = all(file.is_file() for file in board_texts)
    # A current leaderboard is not written again: another machine's last digits may differ.
    if not (is_current and has_leaderboard):
        write_changed(board_texts)
    if not is_current:
        # It runs in the folder in which it is saved, so that "Run All" works there, too.
        location = Place(grid.compare.path, grid.compare.text, folder.path, grid.run_timeout)
        parameters = {"sweep_dir": relative(folder.path, location.cwd), "baseline": baseline}
        job = make_job(folder, COMPARISON, location, parameters, source=None, stamp=stamp)
        progress = Progress(session.console, 1)
        failed = run_all(folder, {COMPARISON: job}, progress, executor).failed
        if failed:
            return replace(result, failed={**result.failed, **failed})
    return replace(result, comparison=notebook)


def _notes_on_comparison(results: Results, baseline: str) -> list[str]:
    """Return notes on a baseline that has no result (unless a race dropped it), and on a comparison of
    a single result.
    """
    notes = []
    was_dropped = results.race is not None and baseline in results.race.stopped
    has_result = any(result.name == baseline for result in results)
    if baseline and not has_result and not was_dropped:
        notes.append(
            f"the baseline {baseline} has no result; the comparison takes the first "
            "configuration by name"
        )
    if len(results) < 2:
        notes.append("one finished configuration only, so there is nothing to compare it with")
    return notes


def _stamp_of(notebook: Path) -> Any:
    """Return the stamp in the metadata of a comparison notebook; None if there is none."""
    with suppress(DataError, KeyError, TypeError):
        return read_json(notebook, hint="")["metadata"].get("ragbench")
    return None
