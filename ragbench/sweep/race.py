"""A race of the configurations of a grid: rounds of questions, until those that are left answer all.

Each round of a configuration is a run of its own in `.race/<round>/` of the sweep's folder, so that it
is finished as a whole or made again. What is decided follows from `race.json` alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import (
    Result,
    check_requests,
    draws_of,
    evaluate,
    load_result,
    save,
    select_questions,
    spec_of,
    system_of,
)
from ragbench.evaluation.folder import JOURNAL, RACE
from ragbench.evaluation.results import only
from ragbench.evaluation.spec import MEASURED
from ragbench.files import read_json, write_durably
from ragbench.registry import load_measures, perspective_of
from ragbench.statistics.race import Race
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.grid import Grid, load_named, working_folder
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.processes import Executor
from ragbench.sweep.progress import Progress
from ragbench.sweep.runs import RunOutcomes, run_all

if TYPE_CHECKING:
    from rich.console import Console

_NEEDED = ("dataset", "seed", "draw")
_NOTEBOOK = """{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code",
 "id": "draws", "metadata": {}, "execution_count": null, "outputs": [],
 "source": "from ragbench.sweep.race import answer_draws\\nanswer_draws(globals())"}]}"""


@dataclass(frozen=True)
class Contest:
    """A race and where it is held; `sources` as in a sweep."""

    grid: Grid
    folder: SweepFolder
    sources: Mapping[str, Mapping[str, str]]
    race: Race
    allow_failed: bool = False

    @property
    def made_from(self) -> str:
        """Return the SHA-256 of everything that decides what a race asks."""
        runs = {name: [self.grid.runs[name], self.sources[name]] for name in self.grid.runs}
        parts = [runs, self.race.measure, self.race.margin, self.race.draws]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def stored(self) -> Race | None:
        """Return the race that is over, None where there is none."""
        path = self.folder.path / RACE
        record = read_json(path, "delete it") if path.is_file() else {}
        if record.get("made_from") != self.made_from or not record.get("is_over"):
            return None
        return replace(self.race, scores=record["scores"])

    def expected_saving(self) -> str:
        """Return which fraction of the evaluations a race takes, by races on stored results."""
        scores: dict[str, Sequence[float | None]] = {}
        for name in self.race.scores:
            with suppress(DataError):
                scores[name] = self._values(load_result(self.folder.path / name), self.race.draws)
        n_all = self.race.sizes[-1]
        scores = {name: values for name, values in scores.items() if None not in values}
        if len(scores) < 2:
            return "what a race saves cannot be foreseen: there are no stored scores to race on"
        used = replace(self.race, scores=scores).simulated()
        return (
            f"a race takes about {used:.0%} of the evaluations, by 100 races on the stored scores of "
            f"{len(scores)} configurations and {n_all} questions"
        )

    def _values(self, result: Result, draws: Sequence[Sequence[str]]) -> list[float | None]:
        """Return the scores of the questions of draws, None where one is unscored."""
        rows = only(result.scores, self.race.measure).dropna()
        values = dict(zip(rows["query_id"], rows["value"], strict=True))
        return [values.get(query_id) for query_id in chain.from_iterable(draws)]

    def forget(self) -> None:
        """Remove a race that was held in the folder."""
        (self.folder.path / RACE).unlink(missing_ok=True)
        shutil.rmtree(self.folder.path / ".race", ignore_errors=True)

    def hold(self, executor: Executor, console: Console) -> tuple[Race, RunOutcomes]:
        """Let the configurations answer round after round; return the race, and how the last round
        ended: where runs of it failed, or the maximum cost was reached, the race is not over.
        """
        race, outcomes = self.stored(), RunOutcomes({}, [], False)
        if race is not None:
            return race, outcomes
        race, start = self.race, 0
        costs: dict[str, float] = {}
        for number, end in enumerate(race.ends[:-1], 1):
            names = [name for name in race.scores if name not in race.stopped]
            if len(names) < 2:
                break
            outcomes = self._round(number, race, names, (start, end), executor, console)
            if outcomes.failed or outcomes.left:
                return race, outcomes
            scores = {name: list(values) for name, values in race.scores.items()}
            for name in names:
                result = load_result(self._round_folder(number).path / name)
                scores[name] += self._values(result, race.draws[start:end])
                if number == 1:
                    cost = result.facts.get("generator_cost_usd")
                    costs[name] = float("inf") if cost is None else float(cost)
            order = sorted(scores, key=lambda name: costs[name])
            race, start = replace(race, scores={name: scores[name] for name in order}), end
            self._write(race, is_over=False)
            _show(race, console)
        for name in race.scores:
            self._pass_on(name, len(race.ends), self.folder)
        self._write(race, is_over=True)
        shutil.rmtree(self.folder.path / ".race", ignore_errors=True)
        return race, outcomes

    def _round_folder(self, number: int) -> SweepFolder:
        return SweepFolder(self.folder.path / ".race" / f"{number:02}")

    def _round(
        self,
        number: int,
        race: Race,
        names: Sequence[str],
        draws: tuple[int, int],
        executor: Executor,
        console: Console,
    ) -> RunOutcomes:
        """Run what is not finished of a round, first those that are nearest to decided."""
        folder = self._round_folder(number)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.clear()
        jobs: dict[str, Job] = {}
        decided = dict(zip(race.scores, race.drops.decided[0], strict=True))
        for name in sorted(names, key=lambda name: -decided[name]):
            job = self._job(folder, name, draws)
            if not folder.is_finished(name, job.configuration, self.sources[name]):
                self._pass_on(name, number, folder)
                jobs[name] = job
        progress = Progress(console, len(names), skipped=len(names) - len(jobs), is_quiet=True)
        return run_all(folder, jobs, progress, executor)

    def _job(self, folder: SweepFolder, name: str, draws: tuple[int, int]) -> Job:
        grid, parameters = self.grid, self.grid.runs[name]
        place = Place(grid.notebook.path, _NOTEBOOK, working_folder(grid), grid.run_timeout)
        race = {
            "race_measure": self.race.measure,
            "race_draws": list(draws),
            "parameter_names": list(parameters),
        }
        return make_job(
            folder,
            name,
            place,
            {**parameters, **race},
            source=self.sources[name],
            stamp={},
            allow_failed=self.allow_failed,
        )

    def _pass_on(self, name: str, number: int, folder: SweepFolder) -> None:
        """Give a run the answers of a service that came in the rounds before."""
        journal = folder.journal(name, self.sources[name])
        for earlier in range(number - 1, 0, -1):
            path = self._round_folder(earlier).path / name / JOURNAL
            if path.is_file() and not journal.is_file():
                write_durably(journal, path.read_bytes())

    def _write(self, race: Race, *, is_over: bool) -> None:
        record = {**asdict(race), "made_from": self.made_from, "is_over": is_over}
        write_durably(self.folder.path / RACE, json.dumps(record, ensure_ascii=False) + "\n")

    def raced(self, race: Race) -> Contest:
        """Return the grid in which each configuration that stopped answers what it has answered."""
        runs, sources = dict(self.grid.runs), dict(self.sources)
        for name, n in race.stopped.items():
            runs[name] = {**runs[name], "draw": n}
            sources[name] = {**sources[name], "race": race.reason(name)}
        return replace(self, grid=replace(self.grid, runs=runs), sources=sources, race=race)


def contest_of(
    grid: Grid,
    folder: SweepFolder,
    sources: Mapping[str, Mapping[str, str]],
    measure: str,
    margin: float,
    allow_failed: bool = False,
) -> Contest:
    """Return the race of a grid's configurations by a measure, in which none has answered yet.

    Args:
        grid: with a notebook that has the parameters of evaluate.ipynb.
        folder: of the sweep.
        sources: what each result is made from.
        measure: that decides; "auto" = evidence found where the questions have evidence, else
            nDCG@10. margin: the loss in it that does not matter.
        allow_failed: as in `sweep`.

    Raises:
        ConfigError: a race is not possible.
    """
    if lacking := [name for name in _NEEDED if name not in grid.notebook.defaults]:
        raise ConfigError(
            f"{grid.notebook.path.name} has no parameter {lacking[0]}, which a race sets; take the "
            "parameters cell of evaluate.ipynb"
        )
    if len(grid.runs) < 2:
        raise ConfigError("a race needs two configurations or more; the grid has one")
    if not 0 < margin < 1:
        raise ConfigError(f"margin is {margin}; expected a loss that does not matter, such as 0.02")
    first = next(iter(grid.runs.values()))
    data = select_questions(load_named(first, working_folder(grid)), spec_of(first))
    if measure == "auto":
        has_evidence = any(case.evidence for case in data.cases)
        measure = "span_recall_auc" if has_evidence else "nDCG@10"
    [measure] = [each.name for each in load_measures((measure,))]
    scores: dict[str, Sequence[float | None]] = {name: [] for name in grid.runs}
    race = Race(measure, margin, draws_of(data, spec_of(first).seed), scores)
    return Contest(grid, folder, sources, race, allow_failed)


def answer_draws(values: Mapping[str, Any]) -> None:
    """Evaluate a configuration on the questions of some draws by the measure of a race, and save the
    result; `values` are the parameters of a run of `Contest`.
    """
    names, (start, end) = values["parameter_names"], values["race_draws"]
    parameters, measure = {name: values[name] for name in names}, values["race_measure"]
    spec = spec_of(parameters)
    data = select_questions(load_named(parameters, Path()), spec)
    view = perspective_of(measure)
    spec = spec.replaced(
        measures=(*spec.measures, measure),
        perspectives=(view,) if view in MEASURED else spec.perspectives,
        interventions=(),
        n_rejudged=0,
        categories=(),
        suite="full",
        limit=0,
    )
    query_ids = [*chain.from_iterable(draws_of(data, spec.seed)[start:end])]
    folder = Path(values["results_dir"])
    result = evaluate(
        data.select(query_ids),
        system_of(parameters, data),
        spec,
        parameters=parameters,
        journal=folder,
    )
    check_requests(result.answers, result.judgements)
    if measure not in set(result.scores["measure"]):
        raise DataError(f"{measure} was not scored, so no race can be decided by it")
    journal = (folder / JOURNAL).read_bytes() if (folder / JOURNAL).is_file() else b""
    save(result, folder)
    if journal:  # the next rounds need these answers
        write_durably(folder / JOURNAL, journal)


def _show(race: Race, console: Console) -> None:
    """Print where a race is: a table on a terminal, else a line."""
    n, stopped = max(map(len, race.scores.values())), race.stopped
    title = (
        f"{len(race.scores) - len(stopped)} of {len(race.scores)} configurations are in the race by "
        f"{race.measure} after {n} of {race.sizes[-1]} questions"
    )
    if not console.is_terminal:
        console.print(title, highlight=False, markup=False, soft_wrap=True)
        return
    from rich.table import Table

    table = Table(title=title)
    rows = race.table().sort_values(["n", "mean"], ascending=False).round(3)
    for column in rows:
        table.add_column(str(column))
    for row in rows.itertuples(index=False):
        table.add_row(*map(str, row))
    console.print(table)
