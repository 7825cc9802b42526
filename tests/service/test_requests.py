"""Jobs that were asked for once: in the queue of the schedules, each completed once."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench.service import run_due, schedules
from ragbench.service.job_process import run_command
from ragbench.service.job_queue import (
    QueueFullError,
    cancel_job,
    claim_job,
    complete_job,
    jobs,
    place_of,
    progress_of,
    request_job,
)

COMMAND = ["eval", "--test-set", "t.jsonl"]


def done(claimed: object, lost: object) -> tuple[int, str, None]:
    return 0, "fine", None


def test_a_request_is_run_once_and_is_no_schedule(database: str) -> None:
    made = request_job(COMMAND, series="nightly", client="acme", database=database)
    assert schedules(database=database).empty
    [row] = jobs(client="acme", database=database)
    assert (row["id"], row["state"], row["series"], row["command"]) == (
        made,
        "waiting",
        "nightly",
        COMMAND,
    )
    assert jobs(client="other", database=database) == []
    [ended] = run_due(database=database, work=done)
    assert ended.exit_code == 0
    assert run_due(database=database, work=done) == []
    assert [row["state"] for row in jobs(job_id=made, database=database)] == ["done"]


def test_the_queue_has_an_end_and_jobs_can_be_cancelled(database: str) -> None:
    first = request_job(COMMAND, series="s", max_waiting=1, client="acme", database=database)
    with pytest.raises(QueueFullError):
        request_job(COMMAND, series="s", max_waiting=1, client="acme", database=database)
    request_job(COMMAND, series="s", max_waiting=1, client="other", database=database)
    assert not cancel_job(first, client="other", database=database)
    assert cancel_job(first, client="acme", database=database)
    assert not cancel_job(first, client="acme", database=database), "it has ended"
    assert [row["state"] for row in jobs(job_id=first, database=database)] == ["cancelled"]


def test_a_worker_that_stops_returns_its_job(database: str) -> None:
    def stopped(claimed: object, lost: object) -> tuple[int, str, None]:
        raise InterruptedError

    made = request_job(COMMAND, series="s", database=database)
    claimed = claim_job(database, "one", 60)
    assert claimed is not None
    assert complete_job(claimed, "one", database, stopped, 60) is None
    [row] = jobs(job_id=made, database=database)
    assert (row["state"], row["attempts"]) == ("waiting", 0)
    assert len(run_due(database=database, work=done)) == 1


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    claimed: Any = SimpleNamespace(
        command='["sweep"]', options="{}", folder=str(tmp_path), name="n", client_id=""
    )
    program = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(60)")
    ran = partial(run_command, claimed, threading.Event(), program=program)
    code, output, _ = ran(timeout_s=0.6)
    assert code == 2
    assert "0.6 s that a job may take" in output
    stop = threading.Event()
    stop.set()
    with pytest.raises(InterruptedError):
        ran(stop=stop)


def test_a_running_evaluation_states_how_far_it_is(tmp_path: Path, database: str) -> None:
    request_job(COMMAND, series="nightly", folder=tmp_path, database=database)
    assert [row["progress"] for row in jobs(database=database)] == [""]
    claimed = claim_job(database, "one", 60)
    assert claimed is not None
    [row] = jobs(database=database)
    assert (row["state"], row["progress"]) == ("running", "")
    code = (
        "import os; from pathlib import Path; from ragbench.progress import Progress; "
        "Progress(48, 'asking', 'questions', 12)._show('asking: 12 of 48 questions'); "
        "print(Path(os.environ['RAGBENCH_PROGRESS']).read_text())"
    )
    program = (sys.executable, "-c", code)
    _, output, result = run_command(claimed, threading.Event(), program=program)
    assert output == "asking: 12 of 48 questions\n"
    assert result == place_of(claimed)
    file = progress_of(place_of(claimed))
    assert not file.exists(), "it ends with the process"
    file.write_text("asking: 13 of 48 questions", encoding="utf-8")
    assert [row["progress"] for row in jobs(database=database)] == ["asking: 13 of 48 questions"]
