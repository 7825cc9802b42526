"""Hands runs to an executor: how often one that was lost is started again, when no more are
started, and where the result of each goes.
"""

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ragbench.errors import FailureKind
from ragbench.evaluation.folder import JOURNAL
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Executor, Outcome
from ragbench.sweep.progress_display import Progress
from ragbench.sweep.sweep_folder import SweepFolder

# of one run, with the process or the machine that it depends on; then it is taken to be the cause
_MAX_LOSSES = 3

# Between two looks at the runs: each look costs CPU, which a long wait on a busy machine adds up.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.25


class RunOutcomes(NamedTuple):
    """How runs ended: `failed` is name -> error. When the maximum cost was reached, `left` were not
    begun, or not begun again after a loss.
    """

    failed: dict[str, str]
    left: list[str]
    budget: bool


def run_all(
    folder: SweepFolder,
    jobs: Mapping[str, Job],
    progress: Progress,
    executor: Executor,
) -> RunOutcomes:
    """Run every job, as many side by side as the executor is made for, and keep the files of each in
    the sweep's folder; return how the runs ended.

    A run that is lost with its process or machine is begun again, at most twice. Once the maximum
    cost is reached no further run is begun.
    """
    waiting = list(jobs)  # names of the jobs that were not begun, or begin again
    running: list[str] = []  # in the order in which they began
    n_losses: Counter[str] = Counter()
    failed: dict[str, str] = {}
    is_budget_spent = False
    pause_s = _FIRST_PAUSE_S
    try:
        # Runs at work when the maximum is reached may finish from stored replies.
        while (waiting and not is_budget_spent) or running:
            # fill the free places
            while waiting and not is_budget_spent and len(running) < executor.side_by_side:
                name = waiting.pop(0)
                _begin(folder, jobs[name], executor)
                running.append(name)
            ended = executor.ended()  # since the last look; often none
            # runs are looked at less and less often while none ends
            pause_s = _FIRST_PAUSE_S if ended else min(1.1 * pause_s, _LONGEST_PAUSE_S)
            for outcome in ended:
                name = outcome.name
                running.remove(name)
                n_losses[name] += outcome.lost  # True counts as 1
                if outcome.lost and n_losses[name] < _MAX_LOSSES:
                    folder.drop_all_but_journal(name)
                    waiting.insert(0, name)  # it begins again, before the others
                    continue
                if outcome.failure is FailureKind.BUDGET:
                    is_budget_spent = True
                if outcome.error:
                    failed[name] = outcome.error
                _keep(folder, outcome)
                progress.ended(name, outcome.seconds, outcome.error)
            progress.look_at([jobs[name].progress for name in running])
            time.sleep(pause_s)
    finally:  # also after Ctrl-C: no process and no unfinished files stay
        progress.clear()
        executor.stop()
        folder.clear()
    return RunOutcomes(failed, waiting, is_budget_spent)


def _keep(folder: SweepFolder, outcome: Outcome) -> None:
    """Move the files of a run that has ended into the sweep's folder: its result, or, if it failed, its
    notebook alone.
    """
    if outcome.error:
        folder.keep_failed(outcome.name)
    else:
        folder.keep(outcome.name)


def _begin(folder: SweepFolder, job: Job, executor: Executor) -> None:
    """Start a run in its new staging folder, with the journal of answers that came before an earlier
    run of it was stopped, if there is one.
    """
    job.staging.mkdir()
    journal = folder.journal(job.name, job.source or {})
    if journal.is_file():
        job.results.mkdir()
        shutil.copyfile(journal, job.results / JOURNAL)
    executor.start(job)
