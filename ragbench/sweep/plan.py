"""What a sweep would run, send and cost, found out by a dry run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragbench.errors import JudgeWarning
from ragbench.evaluation import ask_all, select_questions, spec_of, system_of
from ragbench.extension import searched
from ragbench.llms import DryRun, ModelPlan, Settings, current_settings, dry_run, load_llm
from ragbench.llms.environment import in_force
from ragbench.sweep import budget
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.grid import (
    Grid,
    chosen,
    load_named,
    located,
    read_grid,
    sources_of,
    system_path,
    working_folder,
)
from ragbench.systems import Pipeline

# A notebook with these parameters is taken to work as evaluate.ipynb does.
_NEEDED = ("dataset", "retriever", "chunker", "llm")
_RETRIEVAL = (
    "chunker",
    "chunk_size",
    "chunk_overlap",
    "tokenizer",
    "retriever",
    "reranker",
    "depth",
)


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do. `spent` is what its account has spent so far under a maximum cost.

    `questions` counts, per service or function, the questions that it would be asked.
    """

    folder: Path
    to_run: tuple[str, ...]
    finished: tuple[str, ...]
    models: tuple[ModelPlan, ...]
    notes: tuple[str, ...] = ()
    spent: float = 0.0
    questions: Mapping[str, int] = field(default_factory=dict)


def plan(
    grid_file: str | Path,
    *,
    force: bool = False,
    out: str | Path = "results",
    replies: str | None = None,
    max_cost: float | None = None,
    allow_unpriced: bool = False,
    only: str = "",
) -> SweepPlan:
    """What `sweep` with the same arguments would run, send and pay; nothing is run, sent or written
    to `out`.

    Raises:
        ConfigError, DataError: as `sweep` does before it runs anything.
    """
    settings = current_settings(replies, max_cost, allow_unpriced)
    grid = read_grid(grid_file, settings)
    folder = SweepFolder(Path(out).absolute() / grid.name)
    settings = budget.on_account(settings, folder.path)
    grid = replace(grid, runs={name: grid.runs[name] for name in chosen(grid, only)})
    sources = sources_of(grid)
    finished = [
        name
        for name, own in grid.runs.items()
        if not force and folder.is_finished(name, own, sources[name])
    ]
    there = set(finished)
    to_run = {name: parameters for name, parameters in grid.runs.items() if name not in there}
    asking = [p for p in to_run.values() if _asks(p)]
    if asking and (lacking := [name for name in _NEEDED if name not in grid.notebook.parameters]):
        note = (
            f"{grid.notebook.path.name} has no parameter {lacking[0]}, so its requests cannot "
            "be foreseen"
        )
        return SweepPlan(
            folder.path,
            tuple(to_run),
            tuple(finished),
            (),
            (*grid.notes, note),
            budget.spent(settings),
        )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = _dry_run(grid, asking, settings)
    notes = dict.fromkeys(
        str(one.message) for one in warned if issubclass(one.category, JudgeWarning)
    )
    return SweepPlan(
        folder.path,
        tuple(to_run),
        tuple(finished),
        found.models,
        (*grid.notes, *notes),
        budget.spent(settings),
        found.questions,
    )


def _asks(parameters: Mapping[str, Any]) -> bool:
    """Whether a configuration asks a language model or another system."""
    named = (parameters.get("system"), parameters.get("judge"))
    return any(named) or parameters.get("llm", "extractive") != "extractive"


def _dry_run(grid: Grid, asking: Sequence[Mapping[str, Any]], settings: Settings) -> DryRun:
    """Everything that evaluate.ipynb asks with these parameters; what is computed is in the cache
    for the sweep.
    """
    folder, kept = working_folder(grid), ""
    with dry_run() as found, searched(folder), in_force(settings):
        # Configurations that share chunks and run follow each other, so that one of each is kept at
        # a time.
        for p in sorted(asking, key=_retrieval):
            if _retrieval(p) != kept:
                kept, data = _retrieval(p), load_named(p, folder)
                if p.get("max_queries"):
                    data = data.select(list(data.queries)[: p["max_queries"]])
                system = system_of(_from_here(p, folder), data)
            if isinstance(system, Pipeline) and p.get("llm", "extractive") != "extractive":
                options = {
                    name: p[name]
                    for name in ("prompt", "k", "max_tokens", "temperature")
                    if name in p
                }
                options["max_context_tokens"] = p.get("max_context_tokens") or None
                system = system.with_llm(load_llm(p["llm"], settings), **options)
            ask_all(select_questions(data, spec_of(p)), system, spec_of(p))
    return found


def _retrieval(parameters: Mapping[str, Any]) -> str:
    return str([parameters.get(name) for name in ("system", *_RETRIEVAL)])


def _from_here(parameters: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The parameters with their files and folders as this process finds them."""
    own = {
        name: _found(value, folder) if name in _RETRIEVAL else value
        for name, value in parameters.items()
    }
    return {**own, **({"system": system_path(own["system"], folder)} if own.get("system") else {})}


def _found(value: Any, folder: Path) -> Any:
    """A parameter whose text ends in a folder, such as "dense:models/mine", with that folder as the
    run finds it.
    """
    kind, colon, rest = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return f"{kind}{colon}{located(rest, folder)}" if "/" in rest else value
