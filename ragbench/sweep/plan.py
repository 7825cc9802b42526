"""The plan of a sweep: what is checked before it starts, its runs, requests and costs by a dry run,
and requests sent ahead as batches.
"""

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, FailureKind, JudgeWarning, ModelError
from ragbench.evaluation import ask_all, select_questions, spec_of, system_of
from ragbench.extension import searched
from ragbench.llms import (
    NO_MODEL,
    DryRun,
    ModelPlan,
    Settings,
    answer_in_batches,
    current_settings,
    described,
    dry_run,
    pending_batches,
)
from ragbench.llms.batch_interface import FORGET
from ragbench.llms.environment import in_force
from ragbench.llms.prices import prices
from ragbench.retrieval.hosted_reranker import is_hosted
from ragbench.retrieval.steps.stepped_search import STEP_PARAMETERS, summary_llm
from ragbench.statistics.thresholds import MARGIN
from ragbench.sweep import budget
from ragbench.sweep.grid import (
    NEEDED,
    Grid,
    chosen,
    load_named,
    read_grid,
    resolved_name,
    sources_of,
    working_folder,
)
from ragbench.sweep.grid_race import contest_of
from ragbench.sweep.sweep_folder import SweepFolder
from ragbench.systems import Pipeline
from ragbench.systems.named_systems import RECORDED_SUFFIXES

_RETRIEVAL_PARAMETERS = [
    *"chunker chunk_size chunk_overlap tokenizer language retriever reranker depth".split(),
    *STEP_PARAMETERS,
]


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep. `spent` is the cost of its account so far under a maximum cost.

    `questions` counts, per service or function, the questions that it would be asked.
    """

    folder: Path
    to_run: tuple[str, ...]
    finished: tuple[str, ...]
    models: tuple[ModelPlan, ...]
    notes: tuple[str, ...]
    spent: float
    questions: Mapping[str, int]


def plan(
    grid_file: str | Path,
    *,
    force: bool = False,
    out: str | Path = "results",
    replies: str | None = None,
    max_cost: float | None = None,
    allow_unpriced: bool = False,
    only: str = "",
    race: str = "",
    margin: float = MARGIN,
    overrides: Sequence[str] = (),
) -> SweepPlan:
    """Return what `sweep` with the same arguments would run, send and pay; nothing is run, sent or
    written to `out`.

    Raises:
        ConfigError, DataError: as `sweep` does before it runs anything.
    """
    settings = current_settings(replies, max_cost, allow_unpriced)
    grid, names, folder, settings = open_sweep(grid_file, out, only, settings, overrides)
    sources = sources_of(grid)
    notes = list(grid.notes)
    if race:  # configurations that were dropped in earlier rounds do not run
        contest = contest_of(grid, folder, sources, race, margin)
        is_decided = not contest.race.next_end
        notes.append(contest.race.summary if is_decided else contest.expected_saving())
        names = [name for name in names if name not in contest.race.stopped]
    finished = []
    if not force:
        finished = [
            name for name in names if folder.is_finished(name, grid.runs[name], sources[name])
        ]
    to_run = [name for name in names if name not in finished]
    requests = _foreseen_requests(grid, to_run, settings, notes)
    return SweepPlan(
        folder=folder.path,
        to_run=tuple(to_run),
        finished=tuple(finished),
        models=requests.models,
        notes=tuple(notes),
        spent=budget.dollars_spent(settings),
        questions=requests.questions,
    )


def _foreseen_requests(
    grid: Grid, names: Iterable[str], settings: Settings, notes: list[str]
) -> DryRun:
    """Return the requests to models that configurations would send, by a dry run.

    If the notebook of the grid lacks a parameter that a dry run needs, no request is returned, and a
    note is added to `notes`. Warnings about judges in the dry run are added to `notes`, too.
    """
    asking = _configurations_that_ask(grid, names)  # their parameters
    missing = _missing_parameter(grid)  # a name, or "" if none is missing
    if asking and missing:
        notes.append(
            f"{grid.notebook.path.name} has no parameter {missing}, so its requests cannot be "
            "foreseen"
        )
        return DryRun()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        requests = _dry_run(working_folder(grid), asking, settings)
    for warning in caught:
        text = str(warning.message)
        if issubclass(warning.category, JudgeWarning) and text not in notes:
            notes.append(text)
    return requests


def open_sweep(
    grid_file: str | Path | Mapping[str, Any],
    out: str | Path,
    only: str,
    settings: Settings,
    overrides: Sequence[str] = (),
) -> tuple[Grid, list[str], SweepFolder, Settings]:
    """Read a grid file and return (the grid, the names of its chosen configurations, the folder of its
    sweep, the settings with which it runs). All sweeps into this folder share one account of costs,
    which is set in the settings.

    Args:
        grid_file: as for `read_grid`, with its `overrides`.
        out: the folder of all sweeps.
        only: chooses configurations (`chosen`); "" chooses all.
        settings: of the calls of models.
    """
    prices()  # raises, before anything is paid for, if the user's table is wrong
    with in_force(settings):
        grid = read_grid(grid_file, overrides)
    names = chosen(grid, only)
    folder = SweepFolder(Path(out).absolute() / grid.name, tuple(names) if only else ())
    return grid, names, folder, budget.on_account(settings, folder.path)


def ask_in_batches(
    grid: Grid, names: Iterable[str], settings: Settings, log: Callable[[str], None]
) -> None:
    """Have providers answer, by their batch interfaces, all requests that configurations would send:
    for answers, then for verdicts on them, then again for replies that could not be read.

    Raises:
        ConfigError: requests cannot be foreseen, or a model has no batch interface.
        ModelError: see `ragbench.llms.answer_in_batches`.
    """
    asking = _configurations_that_ask(grid, names)  # their parameters
    missing = _missing_parameter(grid)  # a name, or "" if none is missing
    # if no configuration asks, there are no requests to foresee
    cannot_foresee = bool(asking and missing)
    if settings.replies != "on" or cannot_foresee:
        # evaluate.ipynb has the parameter that this notebook lacks
        which = f", which has {missing}" if missing else ""
        raise ConfigError(
            "--batch needs the reply store, and a notebook with the parameters of evaluate.ipynb"
            f"{which}"
        )
    submitted = set[str]()  # keys of requests: each is submitted once, also if it fails
    # Requests for verdicts are foreseen only once the answers are there, so the dry run is repeated
    # until it foresees nothing new.
    while asking:
        foreseen = _dry_run(working_folder(grid), asking, settings).to_send
        not_submitted = [request for request in foreseen if request.key not in submitted]
        try:
            new_keys = answer_in_batches(not_submitted, log)
        except ModelError as exc:
            if exc.failure is not FailureKind.BUDGET:
                raise
            return  # the runs come to the same request, and report it
        if not new_keys:
            return
        submitted |= new_keys


def check_batches(
    grid: Grid, names: Iterable[str], settings: Settings, log: Callable[[str], None]
) -> None:
    """Check that this sweep does not pay again for requests that an earlier command has sent as batches
    and whose replies have not come yet. Log these batches if they have other requests.

    If the requests of this sweep cannot be foreseen, the batches are only logged. Nothing is done
    without the reply store, or if no configuration sends requests.

    Raises:
        ConfigError: a batch has a request that this sweep would send.
    """
    asking = _configurations_that_ask(grid, names)
    if settings.replies != "on" or not asking:
        return
    batches = pending_batches()
    if not batches:
        return
    foreseen_keys: set[str] = set()
    if not _missing_parameter(grid):
        foreseen = _dry_run(working_folder(grid), asking, settings)
        foreseen_keys = {request.key for request in foreseen.to_send}
    again = []  # batches with a request that this sweep would send, too
    for batch in batches:
        if any(request.key in foreseen_keys for request in batch.requests):
            again.append(batch)
    if again:
        raise ConfigError(
            f"without --batch, this sweep would pay again for requests that are on their way: "
            f"{described(again)}. The same command with --batch waits for it. To give it up, "
            "cancel it at the provider, and set "
            f'{FORGET}="{" ".join(batch.name for batch in again)}"'
        )
    log(f"Batches are not collected yet, by their sweep with --batch: {described(batches)}")


def _configurations_that_ask(grid: Grid, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the parameters of the configurations that ask a language model or another system."""
    asking = []
    for name in names:
        parameters = grid.runs[name]
        has_generator = parameters.get("llm", "extractive") not in NO_MODEL
        if (
            parameters.get("system")
            or parameters.get("judge")
            or has_generator
            or parameters.get("rewrite_llm")
            or summary_llm(parameters)
            or is_hosted(parameters.get("reranker"))
        ):
            asking.append(parameters)
    return asking


def _missing_parameter(grid: Grid) -> str:
    """Return the first parameter without which the requests of a grid's notebook cannot be foreseen;
    "" if the notebook has all.
    """
    return next((name for name in NEEDED if name not in grid.notebook.defaults), "")


def _dry_run(folder: Path, asking: Sequence[Mapping[str, Any]], settings: Settings) -> DryRun:
    """Return the requests that evaluate.ipynb would send with the parameters of each configuration;
    nothing is sent. Indexes and searches are computed, and stay in the cache for the sweep.
    """
    with dry_run() as requests, searched(folder), in_force(settings):
        # Configurations that retrieve alike follow each other, so that only one system has its chunks
        # and its index in memory.
        in_order = sorted(asking, key=_retrieval_key)
        for _, group in itertools.groupby(in_order, key=_retrieval_key):
            alike = list(group)
            dataset = load_named(alike[0], folder)
            system = system_of(_with_paths_from_here(alike[0], folder), dataset)
            # they retrieve with one system, and differ in how they answer and are judged
            for parameters in alike:
                answering = _with_generator(system, parameters)
                spec = spec_of(parameters)
                ask_all(select_questions(dataset, spec), answering, spec)
    return requests


def _with_generator(system: str | Pipeline, parameters: Mapping[str, Any]) -> str | Pipeline:
    """Return a pipeline that answers as a configuration says; the name of another system as it is."""
    if not isinstance(system, Pipeline):
        return system
    names = ("prompt", "k", "max_tokens", "temperature")
    options = {name: parameters[name] for name in names if name in parameters}
    options["max_context_tokens"] = parameters.get("max_context_tokens") or None
    return system.with_llm(parameters.get("llm", "extractive"), **options)


def _retrieval_key(parameters: Mapping[str, Any]) -> str:
    """Return the parameters that decide which passages are retrieved, as a text to sort by."""
    names = ["system", *_RETRIEVAL_PARAMETERS]
    if parameters.get("expand") == "merge":
        names.append("k")  # neighbours among the best k chunks are joined
    return str([parameters.get(name) for name in names])


def _with_paths_from_here(parameters: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return parameters with their paths, which are relative to `folder`, as this process finds them."""
    return {name: _path_from_here(name, value, folder) for name, value in parameters.items()}


def _path_from_here(name: str, value: Any, folder: Path) -> Any:
    """Return the value of a parameter as this process finds it: with the path of `folder`, the grid's
    folder, put before a path that exists there. Other values are unchanged.

    A path is the file of a `system`, or a folder at the end of a retrieval parameter: with the folder
    "/grids", "dense:models/mine" becomes "dense:/grids/models/mine".
    """
    if name == "system" and value.endswith((".toml", *RECORDED_SUFFIXES)):
        return resolved_name(value, folder)
    kind, colon, path = str(value).rpartition(":")
    has_folder = name in _RETRIEVAL_PARAMETERS and "/" in path
    if has_folder:
        return f"{kind}{colon}{resolved_name(path, folder)}"
    return value
