"""Clocks that change: daylight saving in both directions, jumps forward and back, and kills while runs
and labels are written.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from sqlalchemy import func, select, update

from ragbench.labelling import label_sheet, read_sheet
from ragbench.labelling.items import make_item
from ragbench.service import add_schedule, history, job_queue, run_due, scheduler
from ragbench.service.history_database import connected
from ragbench.service.job_queue import claim_job, complete_job, jobs
from ragbench.service.scheduler import plan_due
from ragbench.service.tables import job, score
from ragbench.types import Case

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("zone", "day", "times"),
    [  # east and west of Greenwich; 02:30 does not exist, or comes twice (in New York 01:30 does)
        ("Australia/Sydney", "2026-10-04", ["02:30+1000", "03:00+1100", "02:30+1100"]),
        ("Australia/Sydney", "2026-04-05", ["02:30+1100", "02:30+1100", "02:30+1000"]),
        ("Europe/Vienna", "2026-10-25", ["02:30+0200", "02:30+0200", "02:30+0100"]),
        ("America/New_York", "2026-03-08", ["02:30-0500", "03:00-0400", "02:30-0400"]),
        ("America/New_York", "2026-11-01", ["02:30-0400", "02:30-0500", "02:30-0500"]),
    ],
)
def test_on_the_days_on_which_clocks_change_a_schedule_runs_once(
    tmp_path: Path, zone: str, day: str, times: list[str]
) -> None:
    database, local = str(tmp_path / "runs.sqlite"), ZoneInfo(zone)
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=local).astimezone(UTC)
    start = noon - 47 * HOUR
    add_schedule("s", "30 2 * * *", ["eval"], zone=zone, database=database, now=start)
    ran, noticed = list[str](), list[timedelta]()
    for half_hours in range(150):  # a worker looks every half an hour, a minute late
        at = start + half_hours * HOUR / 2 + timedelta(minutes=1)
        plan_due(database, at)
        if (claimed := claim_job(database, "w", 60)) is not None:
            complete_job(claimed, "w", database, lambda *_: (0, "", None), 60)
            due = datetime.fromisoformat(claimed.due_at)
            ran.append(due.astimezone(local).strftime("%H:%M%z"))
            noticed.append(at - due)
    assert ran == times
    assert max(noticed) < HOUR / 2


def test_a_clock_that_jumps_back_and_forth_repeats_no_job(database: str) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    add_schedule("s", "0 * * * *", ["eval"], database=database, now=start)
    rng = np.random.default_rng(0)
    at, due = start, set[str]()
    for _ in range(40):
        at += HOUR * float(rng.choice([-5, -1, 1, 2, 6]))
        for outcome in run_due(database=database, now=at, work=lambda *_: (0, "", None)):
            assert outcome.due_at not in due
            due.add(outcome.due_at)
    assert len(due) > 5
    assert len(jobs(limit=1000, database=database)) == len(due)


def test_a_clock_that_was_a_day_ahead_stops_no_schedule(database: str) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    add_schedule("s", "0 * * * *", ["eval"], database=database, now=start)
    due = []
    for hours in (1, 2, 26, 3, 4, 5):
        outcomes = run_due(
            database=database, now=start + hours * HOUR, work=lambda *_: (0, "", None)
        )
        due += [outcome.due_at for outcome in outcomes]
    times = [datetime.fromisoformat(each) - start for each in due]
    assert [each / HOUR for each in times] == [1, 2, 26, 3, 4, 5]


def test_a_clock_that_is_set_back_by_an_hour_repeats_nothing(database: str) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    add_schedule("s", "0 * * * *", ["eval"], database=database, now=start)
    ran = [
        len(run_due(database=database, now=start + hours * HOUR, work=lambda *_: (0, "", None)))
        for hours in (1, 2, 3, 2, 2.5, 3, 3.5, 4)
    ]
    assert ran == [1, 1, 1, 0, 0, 0, 0, 1]


class Clock:
    """Seconds that a worker counts, apart from the clock that shows the time of day."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(job_queue, "monotonic", lambda: self.seconds)

    def wait(self, seconds: float) -> None:
        """Let the time pass that a worker sleeps."""
        self.seconds += seconds


def shift(monkeypatch: pytest.MonkeyPatch, jump: timedelta) -> None:
    """Let the clock of the queue jump."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Shifted:
            return cls.fromtimestamp(datetime.now(tz).timestamp() + jump.total_seconds(), tz)

    monkeypatch.setattr(job_queue, "datetime", Shifted)


@pytest.mark.parametrize("jump", [-24 * HOUR, -HOUR, HOUR, 24 * HOUR])
@pytest.mark.parametrize("seen_before", [True, False])
def test_a_clock_that_jumps_lets_no_other_worker_repeat_a_running_job(
    database: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta, *, seen_before: bool
) -> None:
    clock = Clock(monkeypatch)
    job_queue.request_job(["eval"], series="s", database=database)

    def work(*_: object) -> tuple[int, str, None]:
        if seen_before:
            assert claim_job(database, "b", 30) is None
        clock.seconds += 29
        with monkeypatch.context() as shifted:
            shift(shifted, jump)
            assert claim_job(database, "b", 30) is None
        return 0, "a", None

    claimed = claim_job(database, "a", 30)
    assert claimed is not None
    assert complete_job(claimed, "a", database, work, 30) is not None
    [row] = jobs(database=database)
    assert (row["state"], row["output"], row["attempts"]) == ("done", "a", 1)


@pytest.mark.parametrize("jump", [-24 * HOUR, 0 * HOUR, 24 * HOUR])
def test_a_job_whose_worker_died_is_free_after_a_lease_on_any_clock(
    database: str, monkeypatch: pytest.MonkeyPatch, jump: timedelta
) -> None:
    clock = Clock(monkeypatch)
    job_queue.request_job(["eval"], series="s", database=database)
    assert claim_job(database, "a", 30) is not None  # and it dies
    shift(monkeypatch, jump)
    for second in range(0, 30, 3):
        clock.seconds = second
        assert claim_job(database, "b", 30) is None
    clock.seconds = 30
    taken = claim_job(database, "b", 30)
    assert taken is not None
    assert taken.attempts == 2
    assert claim_job(database, "c", 30) is None


def test_a_worker_that_renews_keeps_its_job_however_long_it_takes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    job_queue.request_job(["eval"], series="s", database=database)
    claimed = claim_job(database, "a", 30)
    assert claimed is not None
    for number in range(10):
        clock.seconds += 29
        assert claim_job(database, "b", 30) is None
        with connected(database, write=True) as connection:
            connection.execute(update(job).values(lease_until=f"renewal {number}"))


def test_run_due_waits_for_a_worker_that_died(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(scheduler, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(scheduler, "sleep", clock.wait)
    job_queue.request_job(["eval"], series="s", database=database)
    assert claim_job(database, "a", -1) is not None  # it died a second ago
    [outcome] = run_due(database=database, work=lambda *_: (0, "b", None), lease_s=20)
    assert outcome.output == "b"
    assert clock.seconds == pytest.approx(20)


RECORDER = """
import sys
from ragbench.service import record
from tests.service.test_history import nights
for number, (night, _) in enumerate(nights(40, seed=int(sys.argv[2]))):
    for run_id in record([(night, None)], series=f"s{sys.argv[2]}", database=sys.argv[1]):
        print(run_id, flush=True)
"""
LABELLER = """
import sys
from ragbench.labelling import save_label
items = sys.argv[3:]
for number in range(int(sys.argv[2]), 10**9):
    save_label(sys.argv[1], items[number % len(items)], number % 2, note=str(number))
    print(number, flush=True)
"""


def killed_after(script: str, *arguments: str, lines: int) -> list[str]:
    """The whole lines of a process that is killed after a number of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(lines)]
    time.sleep(0.01 * lines % 0.04)  # in the middle of another one
    process.kill()
    rest = process.communicate()[0].splitlines(keepends=True)
    return [line.strip() for line in (*first, *rest) if line.endswith("\n")]


@pytest.mark.simulation
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_runs_that_were_recorded_are_whole_after_kills(
    kind: str, new_database: Callable[[str], str]
) -> None:
    database, recorded = new_database(kind), set[str]()
    for seed in range(4):
        recorded |= {*killed_after(RECORDER, database, str(seed), lines=3 + seed)}
    runs = history(limit=0, database=database)
    assert recorded <= {*runs["run"]}
    with connected(database) as connection:
        counts = (
            connection.execute(select(func.count()).select_from(score).group_by(score.c.run_id))
            .scalars()
            .all()
        )
    assert (len(counts), len({*counts})) == (len(runs), 1)


@pytest.mark.simulation
def test_labels_that_were_saved_are_there_after_kills(tmp_path: Path) -> None:
    items = [
        make_item(Case(f"q{i}", f"Question {i}?"), "correctness", [f"Answer {i}."], (), ["a"])
        for i in range(20)
    ]
    sheet, ids = label_sheet(items, tmp_path / "labels.csv"), [item.item_id for item in items]
    for lines in range(1, 5):
        start = str(1000 * lines)
        [*_, last] = killed_after(LABELLER, str(sheet), start, *ids, lines=5 * lines)
        notes = [int(note or 0) for note in read_sheet(sheet)["note"]]
        assert len(notes) == len(items)
        assert max(notes) in (int(last), int(last) + 1)
