"""The workers of a server: threads that take jobs from the queue of the database, plan due
schedules, and run each job in a separate process.
"""

import logging
import sys
import threading
import time
from dataclasses import KW_ONLY, dataclass
from functools import partial

from ragbench.service.alert_rules import check_alerts
from ragbench.service.job_process import run_command
from ragbench.service.job_queue import Work, claim_job, complete_job, new_holder
from ragbench.service.scheduler import evaluation_enabled, plan_due

_LOG = logging.getLogger("ragbench.service")
_PLAN_S = 20.0  # schedules have whole minutes


@dataclass
class Queue:
    """Threads that work at the jobs of a database, `workers` at a time; others may work at them
    too.

    Args:
        timeout_s: a job is killed after so long.
        memory_mb: memory of a job's process; 0 = any amount.
        lease_s: seconds after which the jobs of a dead server are taken by another.
        grace_s: seconds that jobs have to finish when it is stopped.
        work: does a job, for tests; None = its command in a process.
    """

    database: str
    _: KW_ONLY
    workers: int = 1
    timeout_s: float = 3600
    memory_mb: int = 8192
    lease_s: float = 30
    grace_s: float = 5
    work: Work | None = None

    def __post_init__(self) -> None:
        """Set up the state that the threads of the queue share; `start` starts them."""
        program = (sys.executable, "-m", "ragbench.service.child", str(self.memory_mb))
        self._stopping = threading.Event()  # no job is taken any more
        self._returning = threading.Event()  # jobs at work are stopped, and go back to the queue
        self._work = self.work or partial(
            run_command, stop=self._returning, timeout_s=self.timeout_s, program=program
        )
        self._wake = threading.Semaphore(0)  # released to have a thread look for jobs at once
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to work."""
        loops = [self._follow_schedules, *[self._work_at_jobs] * self.workers]
        self._threads = [threading.Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Look for a new job."""
        self._wake.release()

    def stop(self) -> None:
        """Take no job any more; a job that is not finished in `grace_s` goes back to the queue."""
        self._stopping.set()
        # wake the threads that wait for jobs, so that they see it
        for _ in range(self.workers):
            self._wake.release()
        end = time.monotonic() + self.grace_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        # the running job is stopped, and its thread puts it back into the queue
        self._returning.set()
        for thread in self._threads:
            thread.join()

    def _follow_schedules(self) -> None:
        """Put due schedules into the queue, and check alerts, every 20 seconds until the server stops."""
        while not self._stopping.is_set():
            try:
                if evaluation_enabled():
                    plan_due(self.database)
                    check_alerts(self.database)
            except Exception:
                _LOG.exception("schedules could not be looked at")
            self._stopping.wait(_PLAN_S)

    def _work_at_jobs(self) -> None:
        """Do the jobs of the queue until the server stops; without jobs look for new ones every second,
        and when `wake` is called.
        """
        holder = new_holder()
        while not self._stopping.is_set():
            try:
                self._empty_queue(holder)
            except Exception:
                _LOG.exception(
                    "a job could not be completed; it is tried again when its lease has run out"
                )
            self._wake.acquire(timeout=1.0)

    def _empty_queue(self, holder: str) -> None:
        """Do one job after the other, until there is none or the server stops."""
        while not self._stopping.is_set():
            claimed = claim_job(self.database, holder, self.lease_s)
            if claimed is None:  # the queue is empty
                return
            complete_job(claimed, holder, self.database, self._work, self.lease_s)
