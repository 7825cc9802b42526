"""Schedules: when jobs are due, and that each is completed exactly once, also where workers die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import Row, func, select, update
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError, DataError, MissingExtraError
from ragbench.service import (
    add_alert,
    add_schedule,
    alerts,
    history,
    import_results,
    import_schedules,
    next_due,
    pause_schedule,
    raised_alerts,
    record,
    remove_schedule,
    run_due,
    run_of,
    schedules,
)
from ragbench.service.history_database import connected, timestamp
from ragbench.service.job_queue import jobs as history_jobs
from ragbench.service.scheduler import due_before
from ragbench.service.tables import job
from tests.service.test_history import result

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command prints; its runs are in a database of the test."""
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))

    def printed(*arguments: str, status: int = 0) -> str:
        ended = CliRunner().invoke(app, list(arguments))
        assert ended.exit_code == status, ended.output
        return ended.output

    return printed


def test_a_schedule_with_an_option_that_its_command_lacks_is_refused(
    printed: Callable[..., str],
) -> None:
    def add(*command: str, status: int = 0) -> str:
        return printed("schedule", "add", "nightly", "0 2 * * *", "--", *command, status=status)

    assert "No such option: --bogus" in add("eval", "--bogus", status=2)
    assert "'--jobs'" in add("sweep", "grid.toml", "--jobs", "0", status=2)
    assert "nightly" not in printed("schedule", "list")
    assert "next due" in add("eval", "--judge", "--k", "3")


def done(claimed: object, lost: object) -> tuple[int, str, None]:
    return 0, "fine", None


def test_times_follow_the_zone_and_sunday_is_0() -> None:
    sunday = datetime(2026, 11, 22, tzinfo=UTC)
    assert next_due("0 0 * * 0", "UTC", sunday - timedelta(days=3)) == timestamp(sunday)
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert next_due("30 2 * * *", "Europe/Vienna", before) == "2026-03-29T01:00:00.000Z", (
        "02:30 does not exist"
    )
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    once = next_due("30 2 * * *", "Europe/Vienna", autumn)
    assert once == "2026-10-25T00:30:00.000Z"
    later = next_due("30 2 * * *", "Europe/Vienna", datetime(2026, 10, 25, 0, 31, tzinfo=UTC))
    assert later == "2026-10-26T01:30:00.000Z", "02:30 comes twice and is run once"
    at = datetime(2026, 3, 2, 2, 0, tzinfo=UTC)
    assert due_before("0 2 * * *", "UTC", at) == timestamp(at)
    assert due_before("0 2 * * *", "UTC", at - timedelta(seconds=1)) == timestamp(
        at - timedelta(days=1)
    )


def test_what_was_missed_is_run_once_and_a_second_call_runs_nothing(database: str) -> None:
    add_schedule("nightly", "0 2 * * *", ["eval"], database=database, now=START)
    late = START + timedelta(days=5)
    [ended] = run_due(database=database, now=late, work=done)
    assert (ended.name, ended.due_at, ended.exit_code) == ("nightly", "2026-03-05T02:00:00.000Z", 0)
    assert run_due(database=database, now=late, work=done) == []
    assert run_due(database=database, now=START, work=done) == []
    pause_schedule("nightly", database=database)
    assert run_due(database=database, now=late + timedelta(days=1), work=done) == []
    pause_schedule("nightly", paused=False, database=database)
    assert len(run_due(database=database, now=late + timedelta(days=1), work=done)) == 1
    [row] = schedules(database=database).to_dict("records")
    assert (row["last_state"], row["last_exit_code"]) == ("done", 0)
    remove_schedule("nightly", database=database)
    assert schedules(database=database).empty
    with pytest.raises(ConfigError, match="there is no schedule yet"):
        remove_schedule("nightly", database=database)


def test_nothing_runs_where_evaluation_is_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    assert run_due(database=str(tmp_path / "runs.sqlite")) == []
    assert not list(tmp_path.iterdir())


def test_a_worker_that_lost_its_job_commits_nothing(database: str) -> None:
    add_schedule("nightly", "0 2 * * *", ["eval"], database=database, now=START)

    def robbed(claimed: object, lost: object) -> tuple[int, str, None]:
        with connected(database, write=True) as connection:
            connection.execute(update(job).values(holder="another"))
        return 0, "late", None

    assert run_due(database=database, now=START + timedelta(days=1), work=robbed) == []
    with connected(database) as connection:
        assert connection.execute(select(job.c.state, job.c.output)).one() == ("running", None)


WORKER = """
import sys, time
from ragbench.service import run_due
def work(claimed, lost):
    time.sleep(0.02)
    return 0, "done", None
while True:
    run_due(database=sys.argv[1], work=work, lease_s=1.0)
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.simulation)]
)
def test_jobs_are_completed_exactly_once_though_workers_are_killed(
    kind: str, new_database: Callable[[str], str]
) -> None:
    """4 workers, 60 jobs, 6 kills (12 and 150 with `-m simulation`)."""
    kill_workers(new_database(kind), jobs=60, kills=6)


@pytest.mark.simulation
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_12_kills_among_150_jobs(kind: str, new_database: Callable[[str], str]) -> None:
    kill_workers(new_database(kind), jobs=150, kills=12)


def kill_workers(database: str, *, jobs: int, kills: int) -> None:
    rng = np.random.default_rng(0)
    start = datetime.now(UTC) - timedelta(days=1)
    for i in range(jobs):
        add_schedule(f"s{i}", "* * * * *", ["eval"], database=database, now=start)
        pause_schedule(f"s{i}", database=database)
    from ragbench.service.job_queue import insert_job
    from ragbench.service.tables import schedule

    with connected(database, write=True) as connection:
        for one in connection.execute(select(schedule.c.id)).scalars().all():
            insert_job(connection, one, timestamp(start))

    def worker() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORKER, database])

    def count(state: str) -> int:
        with connected(database) as connection:
            return (
                connection.execute(select(func.count()).where(job.c.state == state)).scalar() or 0
            )

    workers = [worker() for _ in range(4)]
    try:
        killed, limit = 0, time.monotonic() + 300
        while count("done") < jobs:
            assert time.monotonic() < limit, f"{count('done')} done, {count('running')} running"
            if killed < kills and count("done") >= killed * jobs / kills / 2 and count("running"):
                victim = int(rng.integers(4))
                os.kill(workers[victim].pid, signal.SIGKILL)
                workers[victim].wait()
                workers[victim] = worker()
                killed += 1
            time.sleep(0.05)
    finally:
        for one in workers:
            one.kill()
            one.wait()
    assert killed == kills
    with connected(database) as connection:
        rows = connection.execute(select(job)).mappings().all()
    assert len(rows) == jobs
    assert all(row["state"] == "done" and row["output"] == "done" for row in rows)


def test_a_job_runs_its_evaluation_and_its_run_is_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    monkeypatch.setenv("EVALUATION_DEFAULT_K", "5")
    monkeypatch.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "9")  # of pairs to generate
    monkeypatch.chdir(tmp_path)

    evaluation = [
        "--",
        "eval",
        "--suite",
        "smoke",
        "--limit",
        "12",
        "--perspective",
        "retrieval",
        "--fail-under",
        "R@5=0.99",
    ]
    assert "next due" in printed(
        "schedule",
        "add",
        "nightly",
        "* * * * *",
        "--zone",
        "Europe/Vienna",
        "--client",
        "acme",
        *evaluation,
    )
    assert "nothing" not in printed("schedule", "list")
    with connected(write=True) as connection:
        from ragbench.service.tables import schedule

        connection.execute(update(schedule).values(made_at="2026-01-01T00:00:00.000Z"))
    assert "exit status 1" in printed("schedule", "run-due", status=1)
    [run] = history().to_dict("records")
    assert (run["series"], run["kind"], run["passed"]) == ("nightly", "eval", False)
    assert Path(run["location"]).is_relative_to(tmp_path / "results" / "eval" / "acme" / "nightly")
    row, _, cases = run_of(run["run"])
    settings = json.loads(row["parameters"])["settings"]
    assert (run["client_id"], len(cases), settings["limit"], settings["seed"]) == (
        "acme",
        12,
        12,
        0,
    )
    again = str(tmp_path / "again.sqlite")
    assert import_results("results", database=again)[:2] == (1, 0)
    pd.testing.assert_frame_equal(history(), history(database=again))
    assert "done" in printed("schedule", "list")
    mine = ("--client", "acme")
    printed("schedule", "pause", "nightly", *mine)
    assert "paused" in printed("schedule", "list")
    assert "unknown schedule 'nihgtly'" in printed("schedule", "remove", "nihgtly", *mine, status=2)
    printed("schedule", "remove", "nightly", *mine)


CRON = (
    "cron:\n  jobs:\n    - id: rag-eval\n      schedule: '0 0 * * 0'\n      handler: "
    "rag.evaluate\n      config: {test_set: tests/set.yaml, alert_threshold: 0.8}\n"
)
"""The block as a design prints it: nothing names the documents."""


@pytest.fixture
def cron_file(tmp_path: Path) -> Path:
    """A file with one job, next to the test set that it names and its documents in docs/."""
    file = tmp_path / "cron.yaml"
    file.write_text(CRON)
    for folder in ("tests", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "cats.md").write_text("Cats sleep most of the day.")
    (tmp_path / "tests" / "set.yaml").write_text(
        "cases:\n  - {id: q1, question: When do cats sleep?, expected_chunks: [cats.md]}\n"
    )
    return file


def test_schedules_of_a_yaml_file(cron_file: Path, tmp_path: Path) -> None:
    database, file = str(tmp_path / "runs.sqlite"), cron_file
    assert import_schedules(file, corpus=str(tmp_path / "docs"), database=database) == ["rag-eval"]
    [row] = schedules(database=database).to_dict("records")
    assert row["command"] == f"eval --test-set=tests/set.yaml --docs={tmp_path / 'docs'}"
    (tmp_path / "my.toml").write_text('[pipeline]\nretriever = "bm25"\n')
    file.write_text(CRON.replace("test_set:", "system: my.toml, corpus: docs, test_set:"))
    import_schedules(file, database=database)
    [row] = schedules(database=database).to_dict("records")
    assert row["command"] == "eval my.toml --test-set=tests/set.yaml --docs=docs"
    file.write_text(CRON.replace("rag.evaluate", "rag.evalaute"))
    with pytest.raises(
        DataError, match=r"jobs\.0\.handler is 'rag\.evalaute'; expected: .*'rag\.evaluate'"
    ):
        import_schedules(file, database=database)
    file.write_text("jobs: []")
    with pytest.raises(DataError, match="expected cron: jobs"):
        import_schedules(file, database=database)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("test_set: tests/set.yaml", "holds no documents, in which bm25 searches; name them"),
        ("test_set: tests/no.yaml, corpus: docs", "tests/no.yaml"),
        ("test_set: tests/set.yaml, corpus: no_docs", "no_docs"),
        ("test_set: tests/set.yaml, corpus: docs, system: no.toml", "no.toml"),
        ("test_set: tests/set.yaml, corpus: docs, system: no.jsonl", "there is no file no.jsonl"),
        ("test_set: tests/set.yaml, corpus: docs, system: bm52", "unknown system 'bm52'"),
        ("test_set: tests/set.yaml, corpus: docs, baseline: results/no", "the baseline results/no"),
        ("baseline: results/no", "the baseline results/no"),
        ("test_set: pydoc, baseline: results/no", "the baseline results/no"),
        ("test_set: pydoc, auto_generate_datasets: true", "leave test_set out"),
        ("test_set: docs/cats.md, corpus: docs", "cats.md"),
    ],
)
def test_an_imported_job_that_could_not_run_is_not_added(
    cron_file: Path, tmp_path: Path, config: str, problem: str
) -> None:
    database = str(tmp_path / "runs.sqlite")
    good = CRON + CRON.partition("jobs:\n")[2].replace("rag-eval", "other")
    cron_file.write_text(good.replace("test_set: tests/set.yaml", config, 1))
    expected = f"these jobs could not run: rag-eval: .*{re.escape(problem)}"
    with pytest.raises(DataError, match=expected):
        import_schedules(cron_file, database=database)
    assert schedules(database=database).empty
    assert alerts(database=database).empty


def test_an_imported_job_of_a_service_needs_no_documents(cron_file: Path, tmp_path: Path) -> None:
    cron_file.write_text(CRON.replace("test_set:", "system: 'http://127.0.0.1:9/ask', test_set:"))
    database = str(tmp_path / "runs.sqlite")
    assert import_schedules(cron_file, database=database) == ["rag-eval"]


def test_the_threshold_of_an_imported_schedule_is_an_alert(
    cron_file: Path, tmp_path: Path, printed: Callable[..., str]
) -> None:
    file, text = cron_file, CRON.replace("test_set:", "corpus: docs, test_set:")
    file.write_text(text)
    shown = printed("schedule", "import", str(file))
    assert "alert of rag-eval: pass_rate<0.8, sent to the log only" in shown
    assert "alert of rag-eval: failed, sent to the log only" in shown  # it cannot run
    shown = printed("schedule", "import", str(file), "--to", "${TEAM_URL}")
    assert "alert of rag-eval: pass_rate<0.8, sent to ${TEAM_URL}" in shown
    assert "alert of rag-eval: failed, sent to ${TEAM_URL}" in shown
    file.write_text(text.replace("0.8", "0.7"))
    shown = printed("schedule", "import", str(file))
    assert "alert of rag-eval: pass_rate<0.7, sent to ${TEAM_URL}" in shown
    rules = alerts().set_index("rule")
    assert set(rules.index) == {"pass_rate<0.7", "failed"}
    assert set(rules["series"]) == {"rag-eval"}
    assert set(rules["to"]) == {"${TEAM_URL}"}
    assert rules.loc["pass_rate<0.7", "point"]
    file.write_text(text.replace("0.8", "80"))
    assert "alert_threshold is 80" in printed("schedule", "import", str(file), status=2)
    file.write_text(text)
    refused = printed("schedule", "import", str(file), "--to", "slack://token", status=2)
    assert "token" not in refused
    assert set(alerts()["rule"]) == {"pass_rate<0.7", "failed"}
    file.write_text(CRON)
    shown = printed("schedule", "import", str(file), "--docs", str(tmp_path / "docs"))
    assert "added: rag-eval" in shown


def test_an_imported_threshold_is_crossed_by_the_mean(database: str, tmp_path: Path) -> None:
    file = tmp_path / "cron.yaml"
    file.write_text(
        "cron: {jobs: [{id: nightly, schedule: '0 0 * * 0', handler: rag.evaluate, config: "
        "{alert_threshold: 0.8}}]}"
    )
    import_schedules(file, database=database)
    passed = [
        result(np.repeat([1.0, 0.0], [count, 20 - count]), f"2026-01-0{count - 14}T00:00Z")
        for count in (15, 16)
    ]
    runs = [replace(one, scores=one.scores.assign(measure="pass_rate")) for one in passed]
    record([(one, None) for one in runs], series="nightly", database=database)
    raised = raised_alerts(database=database).set_index("kind")["text"].to_dict()
    assert set(raised) == {"breach", "recovery"}
    assert "pass_rate is below 0.8" in raised["breach"]
    assert "0.750" in raised["breach"]


def test_a_schedule_for_every_client_runs_for_each(database: str, tmp_path: Path) -> None:
    for client in ("acme", "beta"):
        (tmp_path / "clients" / client).mkdir(parents=True)
    add_schedule(
        "nightly", "0 2 * * *", ["eval"], client="*", folder=tmp_path, database=database, now=START
    )
    add_alert("failed", client="*", database=database)
    ran = []

    def work(claimed: Row[Any], lost: object) -> tuple[int, str, None]:
        ran.append((claimed.client_id, Path(claimed.folder).name, json.loads(claimed.command)))
        return (2, "broken", None) if claimed.client_id == "beta" else (0, "fine", None)

    ended = run_due(database=database, now=START + timedelta(days=1), work=work)
    assert sorted(ran) == [("acme", "acme", ["eval"]), ("beta", "beta", ["eval"])]
    assert [one.name for one in ended] == ["nightly", "nightly"]
    assert run_due(database=database, now=START + timedelta(days=1), work=work) == []
    [row] = schedules(database=database).to_dict("records")
    assert (row["client_id"], row["last_state"]) == ("*", "done")
    listed = history_jobs(database=database)
    assert {each["client_id"]: each["series"] for each in listed if each["client_id"] != "*"} == {
        "acme": "nightly",
        "beta": "nightly",
    }
    [raised] = raised_alerts(database=database).to_dict("records")
    assert raised["text"].startswith("ragbench: nightly: the job due 2026-03-01T02:00 UTC failed")
    assert len(run_due(database=database, now=START + timedelta(days=2), work=work)) == 2


def test_a_schedule_for_every_client_evaluates_the_files_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[..., str]
) -> None:
    for client in ("acme", "beta"):
        folder = tmp_path / "clients" / client
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "guide.md").write_text(
            f"# Reset\n\nThe {client} password is reset in the settings menu.\n"
        )
        cases = [
            {
                "id": "q",
                "question": f"Where is the {client} password reset?",
                "expectedDocumentId": "guide.md",
            }
        ]
        (folder / "set.json").write_text(json.dumps(cases))
    monkeypatch.chdir(tmp_path)
    command = ("eval", "--test-set", "set.json", "--docs", "docs", "--perspective", "retrieval")
    printed("schedule", "add", "nightly", "* * * * *", "--client", "*", "--", *command)
    assert len(run_due(now=datetime.now(UTC) + timedelta(minutes=2))) == 2
    runs = history()
    assert dict(zip(runs["client_id"], runs["series"], strict=True)) == {
        "acme": "nightly",
        "beta": "nightly",
    }
    for run in runs.itertuples():
        assert Path(str(run.location)).is_relative_to(tmp_path / "clients" / str(run.client_id))
    assert import_results("clients", database=str(tmp_path / "again.sqlite")).added == 2


@pytest.mark.parametrize(
    ("cron", "zone", "command", "message"),
    [
        ("0 25 * * *", "UTC", ["eval"], "'0 25 \\* \\* \\*' is not a cron line"),
        ("0 2 * * *", "Vienna", ["eval"], "'Vienna' is not a time zone"),
        (
            "0 2 * * *",
            "UTC",
            ["cache", "clear"],
            "a schedule runs eval, sweep, .*; got cache clear",
        ),
        ("0 2 * * *", "UTC", ["testset", "convert", "a.yaml", "b.yaml"], "got testset convert"),
        ("0 2 * * *", "UTC", [], "got no command"),
        ("0 2 * * *", "UTC", ["eval", "--output=x"], "leave --output out"),
    ],
)
def test_wrong_schedules_are_refused(
    cron: str, zone: str, command: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        add_schedule("x", cron, command, zone=zone, database=str(tmp_path / "runs.sqlite"))


def test_without_cronsim_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(MissingExtraError, match=r"ragbench-lab\[schedules\]"):
        add_schedule("n", "0 2 * * *", ["eval"], database=str(tmp_path / "runs.sqlite"))
