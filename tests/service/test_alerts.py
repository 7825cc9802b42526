"""Alerts: which runs raise one, that each is sent once, and that no address is ever shown."""

from __future__ import annotations

import json
import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.evaluation import new_result
from ragbench.service import (
    add_alert,
    add_schedule,
    alert_rules,
    alerts,
    raised_alerts,
    record,
    remove_alert,
    run_due,
    send_test,
)
from ragbench.service.alert_rules import check_alerts, send_alerts

START = datetime(2026, 3, 1, 2, tzinfo=UTC)
SECRET = "s3cr3t-t0ken"


def night(
    day: int, quality: float, *, name: str = "nightly", passed: bool = True
) -> tuple[rb.Result, None]:
    rng = np.random.default_rng(day)
    ids = [f"q{i:02}" for i in range(40)]
    values = np.clip(quality + rng.normal(0, 0.1, 40), 0, 1)
    scores = pd.concat(
        pd.DataFrame({"query_id": ids, "measure": m, "value": values})
        for m in ("claim_support", "R@5")
    )
    cases = tuple(rb.Case(one, f"Question {one}?") for one in ids)
    data = rb.Dataset("docs", "test", {}, cases, {})
    made = new_result(
        name=name, parameters={}, dataset=data, run={}, scores=scores.reset_index(drop=True)
    )
    at = (START + timedelta(days=day)).isoformat()
    config = {**made.config, "made_at": at, "series": name}
    if not passed:
        rows = tuple(replace(one, target=0.9, verdict="missed") for one in made.rows)
        made = replace(made, rows=rows)
        config |= {"settings": {"named": ["R@5"]}}
    return replace(made, config=config), None


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """A receiver of webhooks on loopback, in the variable HOOK; what it got. It refuses while `got`
    holds None.
    """
    pytest.importorskip("apprise", reason="pip install 'ragbench-lab[alerts]'")
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if refused := None in got:
                got.remove(None)
            else:
                got.append(body)
            self.send_response(500 if refused else 200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HOOK", f"json://user:{SECRET}@127.0.0.1:{server.server_port}/{SECRET}")
    yield got
    server.shutdown()
    server.server_close()


def test_a_threshold_is_crossed_by_the_whole_interval_and_sent_once(
    database: str, webhook: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    add_alert("CLAIM_SUPPORT < 0.80", to=["${HOOK}"], series="nightly", database=database)
    [rule] = alerts(database=database).to_dict("records")
    assert (rule["rule"], rule["to"], rule["raised"]) == ("claim_support<0.8", "${HOOK}", 0)
    runs = [night(0, 0.9), night(1, 0.79), night(2, 0.6)]
    ids = record(runs, database=database)
    assert record(runs, database=database) == []
    check_alerts(database)
    send_alerts(database, again=True)
    [message] = webhook
    title, body = message["title"], message["message"]
    assert title == "ragbench: nightly: the whole interval of claim_support is below 0.8"
    values = (
        night(2, 0.6)[0].scores.query("measure == 'claim_support'").set_index("query_id")["value"]
    )
    assert f"claim_support {values.mean():.3f}, 95 % interval [0." in body
    assert "Change: -0.1" in body
    assert f"Look: ragbench history show {ids[2][:10]}" in body
    assert raised_alerts(database=database)["state"].tolist() == ["sent"]
    assert alerts(database=database)["raised"].tolist() == [1]
    assert SECRET not in caplog.text
    remove_alert("claim_support<0.8", database=database)
    assert alerts(database=database).empty


def test_without_apprise_or_a_target_it_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "runs.sqlite")
    add_alert("R@5<0.75", point=True, database=database)
    record([night(0, 0.73)], database=database)
    assert "ragbench: nightly: R@5 is below 0.75" in caplog.text
    assert raised_alerts(database=database)["state"].tolist() == ["logged"]
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("HOOK", f"json://{SECRET}")
    add_alert("claim_support<0.7", to=["${HOOK}"], database=database)
    record([night(1, 0.5)], database=database)
    assert "claim_support is below 0.7" in caplog.text
    # two rules raise an alert in one millisecond, of which the other has no target
    assert "pip install 'ragbench-lab[alerts]'" in "".join(
        raised_alerts(database=database)["error"]
    )
    assert SECRET not in caplog.text


def test_failed_runs_and_jobs_and_drift(
    tmp_path: Path, webhook: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "runs.sqlite")
    for rule in ("failed", "drift"):
        add_alert(rule, to=["${HOOK}"], database=database)
    record([night(i, 0.8) for i in range(35)], database=database)
    assert webhook == []
    record([night(i, 0.6) for i in range(35, 38)], database=database)
    titles = [one["title"] for one in webhook]
    assert len(titles) == 1
    assert titles[0].startswith("ragbench: nightly: drift: R@5: fall from 0.")
    assert "Questions that moved most: q" in webhook[0]["message"]
    assert "Also claim_support: fall" in webhook[0]["message"]
    record([night(38, 0.6, name="other", passed=False)], database=database)
    assert webhook[1]["title"] == "ragbench: other: targets were missed"
    now = datetime.now(UTC)
    add_schedule("broken", "* * * * *", ["eval"], database=database, now=now - timedelta(days=1))
    for _ in range(2):
        run_due(
            database=database, work=lambda claimed, lost: (2, "Reading\nno such file: t.yaml", None)
        )
    [last] = webhook[2:]
    assert "broken: the job due " in last["title"]
    assert "no such file: t.yaml" in last["message"]


def test_sweeps_raise_alerts_only_where_they_are_named(tmp_path: Path) -> None:
    database = str(tmp_path / "runs.sqlite")
    add_alert("R@5<0.9", database=database)
    made = [
        replace(one, config={**one.config, "source": {"notebook": "x"}, "series": ""})
        for one, _ in (night(0, 0.5), night(1, 0.4))
    ]
    place = tmp_path / "mine" / "bm25"
    record([(made[0], place)], database=database)
    assert raised_alerts(database=database).empty
    add_alert("R@5<0.9", series="mine", database=database)
    record([(made[1], place)], database=database)
    assert len(raised_alerts(database=database)) == 1


def test_what_was_refused_is_tried_again_by_run_due(tmp_path: Path, webhook: list[Any]) -> None:
    database = str(tmp_path / "runs.sqlite")
    add_alert("R@5<0.9", to=["${HOOK}", "${NOWHERE}"], database=database)
    webhook.append(None)
    record([night(0, 0.5)], database=database)
    [row] = raised_alerts(database=database).to_dict("records")
    hook, nowhere = row["error"].split("; ")
    assert hook.startswith("${HOOK}: ")
    assert nowhere.startswith("${NOWHERE}: ")
    for _ in range(2):
        run_due(database=database)
    assert len(webhook) == 1, "sent to the target that had refused it, once"
    assert raised_alerts(database=database)["error"].tolist() == [
        "${NOWHERE}: this environment variable is not set"
    ]


SENDER = """
import sys
from ragbench.service.alert_rules import send_alerts
send_alerts(sys.argv[1])
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_processes_and_a_kill_send_each_alert_once(
    kind: str,
    new_database: Callable[[str], str],
    webhook: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = new_database(kind)
    add_alert("R@5<0.9", to=["${HOOK}"], database=database)  # of every evaluation
    with monkeypatch.context() as only_written:
        only_written.setattr(alert_rules, "send_or_warn", lambda database: None)
        record([night(i, 0.5, name=f"series {i}") for i in range(8)], database=database)
    senders = [
        subprocess.Popen([sys.executable, "-c", SENDER, database], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    while not webhook and any(one.poll() is None for one in senders):
        pass
    os.kill(senders[0].pid, signal.SIGKILL)
    for one in senders:
        one.communicate(timeout=120)
    send_alerts(database)
    states = raised_alerts(database=database)["state"].tolist()
    assert len(states) == 8
    assert states.count("sending") <= 1, "the one that the killed process was at is not sent twice"
    texts = [one["message"] for one in webhook]
    assert len(texts) == len(set(texts))
    assert 8 - states.count("sending") <= len(texts) <= 8


def test_mail_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("apprise", reason="pip install 'ragbench-lab[alerts]'")
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 test\r\n")
            for line in self.rfile:
                verb = line[:4].upper()
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 fine\r\n")
                if verb == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setenv(
            "MAIL",
            f"mailto://127.0.0.1:{port}?from=rag@example.com&to=team@example.com&format=text",
        )
        add_alert("drift", to=["${MAIL}"], database=str(tmp_path / "runs.sqlite"))
        assert send_test("drift", database=str(tmp_path / "runs.sqlite")) == {"${MAIL}": ""}
        server.shutdown()
    [mail] = mails
    assert "team@example.com" in mail
    assert "ragbench: a test of the alert drift" in mail


@pytest.mark.parametrize(
    "address", [f"nosuch://{SECRET}", f"json://{SECRET}@127.0.0.1:9/{SECRET}", f"mailto://{SECRET}"]
)
def test_no_address_is_shown_by_a_test_that_fails(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("apprise", reason="pip install 'ragbench-lab[alerts]'")
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))
    monkeypatch.setenv("HOOK", address)

    def said(*arguments: str, status: int = 0) -> str:
        done = CliRunner().invoke(app, ["alert", *arguments])
        assert done.exit_code == status, done.output
        assert SECRET not in done.output
        return done.output

    said("add", "failed", "--to", "${HOOK}")
    assert "${HOOK}: " in said("test", "failed", status=1)
    assert "${HOOK}" in said("list")
    refused = said("add", "drift", "--to", address, status=2)
    assert "1 of 1 targets are no reference to an environment variable" in refused
    said("remove", "failed")
    assert SECRET not in caplog.text
    assert not logging.getLogger("apprise").disabled


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("clam_support<0.8", "unknown measure 'clam_support'; did you mean 'claim_support'"),
        ("claim_support<80", "claim_support lies between 0 and 1; 80 is never crossed"),
        ("claim_support<=0.8", "is not a rule; expected a rule such as 'claim_support<0.8'"),
        ("drfit", "is not a rule"),
    ],
)
def test_wrong_rules_are_refused(rule: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        add_alert(rule, database=str(tmp_path / "runs.sqlite"))
    with pytest.raises(ConfigError, match="there is no alert yet"):
        remove_alert("drift", database=str(tmp_path / "runs.sqlite"))


def repeating_night(
    day: int, quality: float, *, passed: bool | None = None
) -> tuple[rb.Result, None]:
    """A night of a system that gives the same answers every night: 93 questions, nDCG@10."""
    values = np.random.default_rng(0).random(93)
    values *= quality / values.mean()
    ids = [f"q{i:02}" for i in range(93)]
    scores = pd.DataFrame({"query_id": ids, "measure": "nDCG@10", "value": values})
    data = rb.Dataset(
        "docs", "test", {}, tuple(rb.Case(each, f"Question {each}?") for each in ids), {}
    )
    result = new_result(name="search", parameters={}, dataset=data, run={}, scores=scores)
    if passed is not None:
        verdict = "passed" if passed else "missed"
        rows = tuple(replace(row, target=0.2, verdict=verdict) for row in result.rows)
        result = replace(result, rows=rows)
    at = (START + timedelta(days=day)).isoformat()
    config = {**result.config, "made_at": at, "series": "nightly"}
    config |= {"settings": {"named": ["nDCG@10"]}} if passed is not None else {}
    return replace(result, config=config), None


SIXTEEN = [*[0.375] * 4, *[0.0] * 3, *[0.375] * 3, *[0.325] * 4, *[0.375] * 2]
"""Mean nDCG@10: a collapse for three nights from night 4, a fall by .05 for four from night 10."""


def test_sixteen_nights_tell_of_each_breach_once_and_when_it_is_over(
    database: str, webhook: list[dict[str, Any]]
) -> None:
    for rule in ("drift", "nDCG@10<0.2", "failed"):
        add_alert(rule, to=["${HOOK}"], series="nightly", database=database)
    told: dict[int, list[tuple[str, str]]] = {}
    for day, quality in enumerate(SIXTEEN):
        webhook.clear()
        record([repeating_night(day, quality, passed=quality > 0.2)], database=database)
        check_alerts(database, START + timedelta(days=day, hours=1))
        if webhook:
            told[day] = sorted((each["type"], each["title"]) for each in webhook)
    assert list(told) == [4, 7, 10, 14]
    assert told[4] == [
        (
            "failure",
            "ragbench: nightly: drift: nDCG@10: fall from 0.375 to 0.000 since 2026-03-05 02:00",
        ),
        ("failure", "ragbench: nightly: targets were missed"),
        ("failure", "ragbench: nightly: the whole interval of nDCG@10 is below 0.2"),
    ]
    assert told[7] == [
        ("success", "ragbench: nightly: recovered after 3 nights: nDCG@10 is not below 0.2"),
        (
            "success",
            "ragbench: nightly: recovered after 3 nights: no measure is worse than before; "
            "nDCG@10: rise from 0.000 to 0.375 since 2026-03-08 02:00",
        ),
        ("success", "ragbench: nightly: recovered after 3 nights: targets are met"),
    ]
    [(kind, title)] = told[10]
    assert (kind, title) == (
        "failure",
        "ragbench: nightly: drift: nDCG@10: fall from 0.375 to 0.325 since 2026-03-11 02:00",
    )
    [(kind, title)] = told[14]
    assert kind == "success"
    assert title.startswith("ragbench: nightly: recovered after 4 nights: no measure is worse")
    kinds = raised_alerts(limit=100, database=database)["kind"].value_counts()
    assert kinds.to_dict() == {"breach": 4, "recovery": 4}
    shown = CliRunner().invoke(app, ["alert", "list", "--database", database])
    assert "drift of nDCG@10 in nightly search: rise from 0.325 to 0.375" in shown.output


@pytest.mark.parametrize(("remind_days", "reminders"), [(0, []), (3, [6, 9]), (7, [10])])
def test_a_breach_that_goes_on_is_told_again_after_the_chosen_days(
    tmp_path: Path, webhook: list[dict[str, Any]], remind_days: int, reminders: list[int]
) -> None:
    database = str(tmp_path / "runs.sqlite")
    add_alert("nDCG@10<0.2", to=["${HOOK}"], remind_days=remind_days, database=database)
    told = {}
    for day in range(12):
        record([repeating_night(day, 0.375 if day < 3 else 0.1)], database=database)
        if webhook:
            told[day] = webhook.pop()
    assert list(told) == [3, *reminders]
    for day in reminders:
        assert told[day]["type"] == "warning"
        assert f"nightly: still, after {day - 3} nights: the whole interval" in told[day]["title"]


def test_noise_around_a_limit_is_one_episode(tmp_path: Path, webhook: list[dict[str, Any]]) -> None:
    """The interval reaches the limit on some nights; it is over when the mean is back."""
    database = str(tmp_path / "runs.sqlite")
    add_alert("R@5<0.75", to=["${HOOK}"], database=database)
    qualities = [0.9, 0.68, 0.735, 0.68, 0.735, 0.68, 0.8]
    record([night(day, quality) for day, quality in enumerate(qualities)], database=database)
    assert [message["type"] for message in webhook] == ["failure", "success"]
    assert "recovered after 5 nights" in webhook[1]["title"]


def test_a_rule_that_is_added_during_a_breach_tells_of_it(
    tmp_path: Path, webhook: list[dict[str, Any]]
) -> None:
    database = str(tmp_path / "runs.sqlite")
    record([repeating_night(day, 0.375 if day < 3 else 0.1) for day in range(5)], database=database)
    for rule in ("drift", "nDCG@10<0.2"):
        add_alert(rule, to=["${HOOK}"], database=database)
    record([repeating_night(5, 0.1)], database=database)
    assert [message["type"] for message in webhook] == ["failure", "failure"]


def test_episodes_of_configurations_are_apart_and_unscored_nights_end_none(
    tmp_path: Path, webhook: list[dict[str, Any]]
) -> None:
    database = str(tmp_path / "runs.sqlite")
    add_alert("R@5<0.75", point=True, to=["${HOOK}"], database=database)
    unscored, _ = night(1, 0.5)
    unscored = replace(unscored, scores=unscored.scores.query("measure != 'R@5'"), rows=())
    record([night(0, 0.5), (unscored, None), night(2, 0.5)], database=database)
    record([night(3, 0.5, name="other")], database=database)
    assert [message["title"].split(": ")[1] for message in webhook] == ["nightly", "other"]


def test_jobs_that_fail_every_night_are_one_episode(
    tmp_path: Path, webhook: list[dict[str, Any]]
) -> None:
    database = str(tmp_path / "runs.sqlite")
    now = datetime.now(UTC)
    add_alert("failed", to=["${HOOK}"], database=database)
    minute = timedelta(minutes=1)
    add_schedule("broken", "* * * * *", ["eval"], database=database, now=now - timedelta(days=1))
    for number, status in enumerate((2, 2, 2, 0, 0)):
        run_due(
            database=database,
            now=now + number * minute,
            work=_ended_with(status),
        )
    assert [message["type"] for message in webhook] == ["failure", "success"]
    assert "broken: the job due " in webhook[0]["title"]
    assert "broken: recovered after 3 runs: the job due " in webhook[1]["title"]


def _ended_with(status: int) -> Callable[[object, object], tuple[int, str, None]]:
    return lambda claimed, lost: (status, "no such file: t.yaml", None)


def test_a_run_with_undecided_questions_is_counted_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = str(tmp_path / "runs.sqlite")
    answers = ["Paris", "Rome", "Rome", "Rome"]
    facts: list[tuple[tuple[str, ...], ...]] = [(("Paris",),), (("Madrid",),), (), ()]
    questions = [f"Question {name}?" for name in ("one", "two", "three", "four")]
    cases = [
        rb.Case(text, text, gold_facts=each) for text, each in zip(questions, facts, strict=True)
    ]
    data = rb.Dataset("capitals", "test", {}, cases, {})
    given = dict(zip(questions, answers, strict=True))
    result = rb.evaluate(data, given.__getitem__, targets={"pass_rate": 0.9})
    add_alert("failed", database=database)
    record([(result, None)], database=database)
    assert "targets were missed (1 of 4 passed, 1 failed, 2 not decided)" in caplog.text
    shown = CliRunner().invoke(app, ["history", "--database", database]).output
    assert "FAILED: 1 of 4 passed, 1 failed, 2 not decided" in " ".join(shown.split())
