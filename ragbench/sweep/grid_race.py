"""A race of the configurations of a grid: its rounds of questions as runs, continued after an
interruption, until those that are left answer all; `statistics/race` decides who is dropped.

In each round every configuration that is left answers the questions up to its end, in a notebook of
one cell that scores the measure of the race alone; what earlier rounds have asked is not asked
again. The notebook of a dropped configuration stays as its result; the others run their full
notebooks. All decisions follow from `race.json` alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import (
    EvaluationSpec,
    Result,
    evaluate,
    load_result,
    save,
    select_questions,
    spec_of,
    system_of,
)
from ragbench.evaluation.configurations import rows_of_measure
from ragbench.evaluation.folder import JOURNAL, RACE, load_race
from ragbench.evaluation.parameters import DRAWS, OF_PIPELINE
from ragbench.evaluation.records import questions_cost
from ragbench.files import read_json, write_durably
from ragbench.groups import grouped
from ragbench.registry import load_measures
from ragbench.statistics.race import Race
from ragbench.sweep.grid import NEEDED, Grid, load_named, working_folder
from ragbench.sweep.job import Job
from ragbench.sweep.notebooks import digest_of, note_on_top, notebook_text
from ragbench.sweep.processes import Executor
from ragbench.sweep.progress_display import Progress
from ragbench.sweep.runs import RunOutcomes, run_all
from ragbench.sweep.sweep_folder import SweepFolder
from ragbench.types import Dataset

if TYPE_CHECKING:
    from rich.console import Console

_SOURCE = "from ragbench.sweep.grid_race import answer_round\n\nanswer_round(globals()).measures"
_CELL = {"cell_type": "code", "id": "round", "metadata": {}, "outputs": [], "source": _SOURCE}
_NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [{**_CELL, "execution_count": None}],
}
_SHOWN = 10  # configurations, while one watches


class ContestOutcome(NamedTuple):
    """How a race ended.

    Attributes:
        jobs: configuration -> its job, for the configurations that are left; empty if runs of a round
            failed, or the maximum cost was reached.
        outcomes: how the runs of the last round ended.
        decision: the decision of the race, in a sentence.
    """

    jobs: dict[str, Job]
    outcomes: RunOutcomes
    decision: str


@dataclass(frozen=True)
class Contest:
    """A race and its folder; `measure_as_named` is its measure as the user has named it, such as
    "module:function", and `made_from` the SHA-256 of everything that decides the requests.
    """

    folder: SweepFolder
    measure_as_named: str
    race: Race
    made_from: str

    def expected_saving(self) -> str:
        """Return a sentence that estimates how much a race saves: the fraction of the evaluations that it
        takes, by simulated races on the stored scores of earlier runs.

        With fewer than three configurations that have scores, the sentence states that there is no
        estimate.
        """
        stored_scores: dict[str, Sequence[float | None]] = {}
        for name in self.race.scores:
            with suppress(DataError, ConfigError):  # it has no result yet
                stored_scores[name], _ = self._stored_scores(name, len(self.race.draws))
        # Only the configurations with the fewest unscored questions are raced: one that an earlier
        # race has dropped answered few questions.
        n_unscored = {name: values.count(None) for name, values in stored_scores.items()}
        fewest = min(n_unscored.values(), default=0)
        scores = {name: stored_scores[name] for name, n in n_unscored.items() if n == fewest}
        if len(scores) < 3:
            return (
                "the savings of a race cannot be estimated: there are no stored scores to race on"
            )
        fraction_asked = replace(self.race, scores=scores).simulate()
        return (
            f"a race takes about {fraction_asked:.0%} of the evaluations, by 50 races on the stored scores of "
            f"{len(scores)} configurations and {self.race.sizes[-1]} questions"
        )

    def _stored_scores(self, name: str, n_draws: int) -> tuple[list[float | None], float | None]:
        """Return the stored scores of a configuration on the first `n_draws` draws, None for an unscored
        question, and its cost per question in dollars, None if unknown.

        The scores are in the order of the race. A draw is a question, or several that are asked
        together, such as the turns of a conversation (`draws_of`).
        """
        result = load_result(self.folder.path / name)
        rows = rows_of_measure(result.scores, self.race.measure).dropna()
        values = dict(zip(rows["query_id"], rows["value"], strict=True))
        query_ids = chain.from_iterable(self.race.draws[:n_draws])
        scores = [values.get(query_id) for query_id in query_ids]
        total_cost = questions_cost(result.facts)
        if total_cost is None:  # the price of a model is not known
            return scores, None
        return scores, total_cost / len(result.queries)

    def run_rounds(
        self, jobs: Mapping[str, Job], executor: Executor, console: Console
    ) -> ContestOutcome:
        """Run one round after another until the race is decided, or cannot go on.

        In a round, every configuration that is still in the race answers more questions
        (`_draws_to_answer`); then the configurations that are proven not to win are dropped.

        Args:
            jobs: configuration -> its job, for the configurations that may still be asked; the others
                take part with the answers that they have.
            executor: runs the jobs.
            console: shows the decisions of each round.
        """
        race = self.race
        outcomes = RunOutcomes({}, [], False)
        while race.next_end:  # 0 when the race is decided
            n_draws = _draws_to_answer(race, race.next_end)
            outcomes = self._ask(jobs, n_draws, executor, console)
            # configurations can be compared only by all scores of a round
            if outcomes.failed or outcomes.left:
                return ContestOutcome({}, outcomes, race.summary)
            race = self._after_round(race, n_draws, race.next_end)
            dropped = race.stopped.keys() & n_draws.keys()  # in this round
            for name in dropped & jobs.keys():
                self._note_reason(name, race.table["reason"][name])
            self._store(race)
            _print_round(race, dropped, console)
        jobs_left = {name: job for name, job in jobs.items() if name not in race.stopped}
        return ContestOutcome(jobs_left, outcomes, race.summary)

    def _ask(
        self,
        jobs: Mapping[str, Job],
        n_draws: Mapping[str, int],
        executor: Executor,
        console: Console,
    ) -> RunOutcomes:
        """Let each configuration answer its questions of a round, and return how the runs ended. A
        configuration that has answered them already is not run, so an interrupted race continues.

        Args:
            n_draws: configuration -> how many draws (questions) it answers in this round.
        """
        unfinished = self._unfinished(jobs, n_draws)
        quiet = type(console)(quiet=True)
        return run_all(self.folder, unfinished, Progress(quiet, len(unfinished)), executor)

    def _store(self, race: Race) -> None:
        """Write the race as far as it came, from which it can continue."""
        record = {"made_from": self.made_from, "race": asdict(race)}
        write_durably(self.folder.path / RACE, json.dumps(record, ensure_ascii=False) + "\n")

    def _unfinished(self, jobs: Mapping[str, Job], n_draws: Mapping[str, int]) -> dict[str, Job]:
        """Return configuration -> the job of a round, without configurations that have answered the
        round's questions already. The order is the same as in `n_draws`.

        Args:
            jobs: configuration -> its job; configurations without one are left out.
            n_draws: configuration -> how many draws it answers up to the end of the round. A draw is a
                question, or several that are asked together.
        """
        unfinished = {}
        for name, n in n_draws.items():
            if name not in jobs:
                continue
            job = self._job_of_round(jobs[name], n)
            if not self.folder.is_finished(name, job.configuration, job.source or {}):
                unfinished[name] = job
        return unfinished

    def _after_round(self, race: Race, n_draws: Mapping[str, int], end: int) -> Race:
        """Return the race with the scores that the results in the folder have after a round.

        The costs per question are the costs of the first round.

        Args:
            race: as it was before the round.
            n_draws: configuration -> how many draws it has answered. A draw is a question, or several
                that are asked together.
            end: the number of draws up to the end of the round.
        """
        scores, costs = dict(race.scores), dict(race.costs)  # by configuration
        is_first_round = race.drawn == 0
        for name, n in n_draws.items():
            scores[name], cost = self._stored_scores(name, n)
            if cost is not None and is_first_round:
                costs[name] = cost
        return replace(race, scores=scores, costs=costs, drawn=end)

    def _note_reason(self, name: str, reason: str) -> None:
        """State in the notebook of a configuration why it was dropped."""
        path = self.folder.notebook(name)
        notebook = read_json(path, "delete it")
        note_on_top(notebook, f"**In the race of this sweep:** {reason}.", RACE)
        write_durably(path, notebook_text(notebook))

    def _job_of_round(self, job: Job, n_draws: int) -> Job:
        """Return a job that evaluates a configuration for one round of the race, on the first `n_draws`
        draws of questions and by the race's measure alone.

        It is made from the `job` of the whole evaluation, whose notebook is replaced by one with a
        single cell, a call of `answer_round`.
        """
        notebook_sha256, _sources = digest_of(_NOTEBOOK)
        # `answer_round` reads these two parameters
        round_parameters = {"race_measure": self.measure_as_named, DRAWS: n_draws}
        return replace(
            job,
            text=json.dumps(_NOTEBOOK),
            parameters={**job.parameters, **round_parameters},
            source={
                **(job.source or {}),
                "notebook": "race",
                "notebook_sha256": notebook_sha256,
            },
        )


def _draws_to_answer(race: Race, end: int) -> dict[str, int]:
    """Return configuration -> how many draws it must have answered after a round; configurations that
    were dropped are left out. A draw is a question, or several that are asked together.

    A configuration answers the first `end` draws. One that has led at some time answers all, because
    the others are compared with it. The configuration that is nearest to being dropped comes first:
    the one with the most evidence against it (the "capital" of a bettor against it).
    """
    names = list(race.scores)
    nearest_to_drop = np.argsort(-race.drops.capital, kind="stable")  # numbers in `names`
    n_draws = {}
    for number in nearest_to_drop:
        name = names[number]
        if name in race.stopped:
            continue
        has_led = number in race.drops.led
        n_draws[name] = len(race.draws) if has_led else end
    return n_draws


def contest_of(
    grid: Grid,
    folder: SweepFolder,
    sources: Mapping[str, Mapping[str, str]],
    measure: str,
    margin: float,
) -> Contest:
    """Return the race of a grid's configurations by a measure: the one that was interrupted in this
    folder, if nothing has changed since, else a new one.

    Args:
        grid: its notebook must have the parameters of evaluate.ipynb.
        folder: the folder of the sweep.
        sources: configuration -> what its result is made from.
        measure: the measure that decides; "auto" is evidence recall if the questions have evidence,
            else nDCG@10.
        margin: the loss in the measure that does not matter.

    Raises:
        ConfigError: a race is not possible.
    """
    _check_race(grid, folder, margin)
    first = next(iter(grid.runs.values()))
    spec = spec_of(first)
    data = select_questions(load_named(first, working_folder(grid)), spec)
    if measure == "auto":
        has_evidence = any(case.evidence for case in data.cases)
        measure = "span_recall_auc" if has_evidence else "nDCG@10"
    # `measure` may name a function of the user, such as "module:function"
    [loaded_measure] = load_measures((measure,))
    no_scores: dict[str, Sequence[float | None]] = dict.fromkeys(grid.runs, ())
    race = Race(loaded_measure.name, margin, draws_of(data, spec.seed), no_scores)
    race.values  # noqa: B018  # raises an error for a measure that is not from 0 to 1
    # everything that decides the requests: a stored race made from something else is not continued
    parts = json.dumps([grid.runs, sources, race.measure, margin, race.draws], sort_keys=True)
    made_from = hashlib.sha256(parts.encode()).hexdigest()
    stored_race, stored_from = load_race(folder.path)
    if stored_race and stored_from == made_from:  # the same race, interrupted
        race = stored_race
    return Contest(folder, measure, race, made_from)


def _check_race(grid: Grid, folder: SweepFolder, margin: float) -> None:
    """Raise ConfigError if the configurations of a grid cannot race; see `contest_of`."""
    if folder.only:
        raise ConfigError("a race is between all configurations of a grid; leave out `only`")
    if lacking := [name for name in NEEDED if name not in grid.notebook.defaults]:
        raise ConfigError(
            f"{grid.notebook.path.name} has no parameter {lacking[0]}; a race takes the parameters "
            "of evaluate.ipynb"
        )
    if not 0 < margin < 1:
        raise ConfigError(f"margin is {margin}; expected a loss that does not matter, such as 0.02")
    first = next(iter(grid.runs.values()))
    if any(run.get("seed") != first.get("seed") for run in grid.runs.values()):
        raise ConfigError("seed takes several values; a race has one order of questions")


def draws_of(dataset: Dataset, seed: int = 0) -> list[list[str]]:
    """Return the questions in random order, questions of one cluster (`metadata["cluster"]`) together.

    The order depends on the seed and on the names of the clusters alone, or on ids if there are no
    clusters.

    >>> from ragbench.types import Case
    >>> cases = [Case(name, "?", metadata={"cluster": name[0]}) for name in ("a1", "b1", "a2")]
    >>> draws_of(Dataset("demo", "test", {}, cases, {}))
    [['b1'], ['a1', 'a2']]
    """
    clusters = grouped(dataset.cases, lambda case: str(case.metadata.get("cluster", case.query_id)))
    order = sorted(clusters, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return [[case.query_id for case in clusters[name]] for name in order]


def answer_round(values: Mapping[str, Any]) -> Result:
    """Evaluate a configuration on the questions that a race has asked up to this round, by the race's
    measure alone, and save the result. The notebook of a round calls this.

    Args:
        values: the global variables of the notebook: the parameters of the configuration, and those
            that `Contest._job_of_round` has added (the measure and the number of draws).
    """
    names = {*EvaluationSpec.model_fields, *OF_PIPELINE, "dataset", "corpus", "split", "system"}
    parameters = {name: values[name] for name in names if name in values}
    spec = spec_of(parameters)
    data = select_questions(load_named(parameters, Path()), spec)
    # a draw is a list of questions that are asked together
    draws = draws_of(data, spec.seed)[: values[DRAWS]]
    questions = data.select([*chain.from_iterable(draws)])
    system = system_of(parameters, data)
    spec = spec.replaced(measures=(values["race_measure"],), perspectives=(), interventions=())
    folder = Path(values["results_dir"])
    result = evaluate(questions, system, spec, parameters=parameters, journal=folder)
    journal = folder / JOURNAL
    answers = journal.read_bytes() if journal.is_file() else b""
    save(result, folder)
    if answers:  # `save` removes the journal of a complete result; the next rounds need it
        write_durably(journal, answers)
    return result


def _print_round(race: Race, dropped: Collection[str], console: Console) -> None:
    """Print the decisions of a round, and on a terminal a table of the leading configurations."""
    left = race.scores.keys() - race.stopped
    lines = [f"{name} {race.table['reason'][name]}" for name in sorted(dropped)]
    lines.append(
        f"{len(left)} of {len(race.scores)} configurations are in the race by {race.measure} after "
        f"{race.sizes[race.drawn - 1]} of {race.sizes[-1]} questions"
    )
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if console.is_terminal:
        from rich.table import Table

        table = Table("configuration", "mean", "95 % interval")
        ends = pd.DataFrame({name: race.limits(name).iloc[-1] for name in left}).T.round(3)
        for name, mean, low, high in ends.nlargest(_SHOWN, "mean").itertuples():
            table.add_row(name, f"{mean}", f"{low} to {high}")
        console.print(table)
