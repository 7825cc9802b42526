"""Several requests per question to servers that misbehave: one clear sentence for each, and nothing without end."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataWarning, FailureKind
from ragbench.systems import HttpSystem, ask
from ragbench.types import Answer, Case, Dataset

TOKEN = "t0ken-4711-do-not-show"
DATA = Dataset("demo", "test", {}, [Case(f"q{i}", f"question {i}?") for i in range(8)], {})
BODY: dict[str, Any] = {"body": {"query": "{query}"}}
Served = Callable[..., Any]


@pytest.fixture
def serve(loopback: Any, wire: Any) -> Served:
    """A server that replies by the first part of the path: a reply, or a function of the request."""

    def start(**replies: Any) -> Any:
        def reply(asked: Any) -> Any:
            found = replies[asked.path.strip("/").partition("/")[0].partition("?")[0]]
            found = found(asked) if callable(found) else found
            return found if isinstance(found, wire.Answered) else wire.Answered(found)

        return loopback(reply)

    return start


def answered(server: Any, **options: Any) -> Answer:
    """The answer to one question; addresses are below that of the server."""
    options = copy.deepcopy(options)
    for call in [options.get("login"), *options.get("before", ()), *options.get("then", ())]:
        if call and call["url"].startswith("/"):
            call["url"] = f"{server.url}{call['url']}"
    with HttpSystem(f"{server.url}/ask", **{**BODY, **options}, name="ours") as system:
        return system.answer("q1", "When?")


def error(server: Any, **options: Any) -> str:
    answer = answered(server, **options)
    assert answer.failed
    assert "\n" not in (answer.error or "")
    return answer.error or ""


ITEMS: dict[str, Any] = {"k": 5, "reply": {"contexts": "$.items"}}


def test_pages_without_end_are_not_read_without_end(serve: Served) -> None:
    empty: Any = serve(ask=lambda asked: {"items": [], "next": f"/ask?{len(empty.asked)}"})
    assert answered(empty, next="$.next", **ITEMS).contexts == ()
    assert len(empty.asked) == 1
    same = serve(ask={"items": [{"id": "a"}], "next": "again"})
    assert answered(same, next="$.next", body={"query": "{query}", "at": "{next}"}, **ITEMS).contexts == ("a",)
    assert len(same.asked) == 2
    more: Any = serve(ask=lambda asked: {"items": [{"id": f"a{len(more.asked)}"}], "next": "on"})
    options = {**ITEMS, "k": 50, "next": "$.next", "body": {"query": "{query}", "at": "{next}"}}
    assert len(answered(more, pages=7, **options).contexts) == len(more.asked) == 7


def test_contexts_are_cut_at_k(serve: Served) -> None:
    server = serve(ask={"items": [{"id": f"a{i}"} for i in range(9)], "next": None})
    assert len(answered(server, next="$.next", **ITEMS).contexts) == 5


@pytest.mark.parametrize(
    "place", ["http://elsewhere.invalid/x", "https://127.0.0.1/x", "//elsewhere.invalid", "http://["]
)
def test_a_link_to_another_server_is_not_followed(serve: Served, place: str) -> None:
    server = serve(ask={"items": [{"id": "a"}], "next": place})
    found = error(server, next="$.next", **ITEMS)
    assert found == f"ours: the reply gives the address {place!r}, which is not on the server of url"
    assert len(server.asked) == 1


def test_a_job_that_is_never_done_ends_at_the_deadline(serve: Served) -> None:
    server = serve(ask={"id": 7}, jobs={"status": "running"})
    then = [{"method": "GET", "url": "/jobs/{id}", "until": {"path": "$.status", "equals": ["done"], "every_s": 0.1}}]
    start = time.perf_counter()
    found = answered(server, save={"id": "$.id"}, then=then, timeout_s=0.5)
    assert time.perf_counter() - start < 3
    assert found.failure is FailureKind.TIMEOUT
    assert (found.error or "").startswith("ours, then 1: $.status is still 'running' after 0.")
    assert 2 <= len(server.asked) <= 6


def test_slow_requests_share_one_deadline(serve: Served, wire: Any) -> None:
    slow = wire.Answered({"answer": "Yes."}, delay_s=0.4)
    found = error(
        serve(ask=slow, more=slow), then=[{"url": "/more"}, {"url": "/more"}, {"url": "/more"}], timeout_s=1.0
    )
    assert "ours, then 2: no reply within 0." in found


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({"status": "failed"}, "ours, then 1: $.status is 'failed', which `fails` names"),
        ({"id": 7}, "ours, then 1: $.status is still None after"),
        (b"<html>", "ours, then 1: the server's reply cannot be read: '<html>'"),
    ],
)
def test_jobs_that_fail(serve: Served, jobs: Any, message: str) -> None:
    until = {"path": "$.status", "equals": ["done"], "fails": ["failed"], "every_s": 0.1}
    server = serve(ask={"id": 7}, jobs=jobs)
    assert message in error(server, then=[{"url": "/jobs", "until": until}], timeout_s=0.4, tries=1)


@pytest.mark.parametrize("reply", [{"other": {"a": TOKEN}}, {"id": None}, {"id": ""}])
def test_a_value_that_is_not_there_is_named_without_showing_the_reply(serve: Served, reply: Any) -> None:
    found = error(serve(start=reply, ask={}), before=[{"url": "/start", "save": {"id": "$.id"}}])
    keys = "other.a" if "other" in reply else "id"
    assert found == f"ours, before 1: the reply has nothing at save.id = '$.id'; it has the keys {keys}"


@pytest.mark.parametrize("value", ["a/b", "../x", 'say "no"\n', "é?&#%2f", True, 7, ["a", "b"], {"n": [1]}])
def test_saved_values_stay_in_their_places(serve: Served, value: Any) -> None:
    server = serve(start={"id": value}, ask=lambda asked: {"answer": json.dumps(asked.body)})
    body = {"query": "{query}", "alone": "{id}", "inside": ["<{id}>"]}
    then = [{"method": "GET", "url": "/ask/{id}/end", "params": {"a": "{id}", "b": "x {id}"}}]
    answered(server, before=[{"url": "/start", "save": {"id": "$.id"}}], body=body, then=then)
    _, asked, last = server.asked
    assert asked.body["alone"] == value
    assert len(last.path.partition("?")[0].split("/")) == 4
    assert last.path.partition("?")[0].endswith("/end")
    assert last.path.count("?") == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("\ud800", ""),
        ("a" * 70_000, "ours, then 1: the values of this question make no address of url (URL too long)"),
        ([], "ours, then 1: {id} is '', which cannot be a part of url"),
        ("..", "ours, then 1: {id} is '..', which cannot be a part of url"),
    ],
)
def test_saved_values_that_make_no_address(serve: Served, value: Any, message: str) -> None:
    server = serve(ask={"answer": "Yes.", "id": value}, d={})
    found = answered(server, save={"id": "$.id"}, then=[{"url": "/d/{id}", "form": {"a": "{id}"}}])
    assert (found.error or "") == message


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "a\tb"])
def test_a_saved_value_that_no_header_can_hold(serve: Served, value: str) -> None:
    before = [{"url": "/start", "save": {"id": "$.id"}}]
    found = error(serve(start={"id": value}), before=before, headers={"X-Session": "id {id}"})
    assert found == "ours: the header 'X-Session' would hold characters that no header has"


def test_a_header_of_a_reply_is_saved_and_its_address_asked(serve: Served, wire: Any) -> None:
    server = serve(ask=wire.Answered(b"{}", status=202, headers={"Location": "/jobs/7?x=1"}), jobs={"answer": "Yes."})
    found = answered(server, save={"place": "header:location"}, then=[{"method": "GET", "url": "{place}"}])
    assert (found.text, server.asked[1].path) == ("Yes.", "/jobs/7?x=1")
    assert "no such" not in (found.error or "")
    assert "save.p = 'header:x-p'" in error(server, save={"p": "header:x-p"}, then=[{"url": "{p}"}])


def test_other_hosts_get_none_of_the_headers(serve: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    elsewhere = serve(more={"contexts": ["It opened in 1881."]})
    server = serve(ask={"answer": f"Yes. {TOKEN}"})
    options = {"headers_env": {"X-Key": "MY_TOKEN"}, "then": [{"url": f"{elsewhere.url}/more"}]}
    found = answered(server, **options)
    assert (found.text, len(found.contexts)) == ("Yes. ***", 1)
    assert server.asked[0].headers["x-key"] == TOKEN
    assert "x-key" not in elsewhere.asked[0].headers


def test_a_request_has_the_headers_whose_values_are_known_and_its_own_first(serve: Served, wire: Any) -> None:
    cookie = {"set-cookie": "sid=s3ssion-0815; Path=/"}
    server = serve(start=wire.Answered({"id": "a"}, headers=cookie), ask={"answer": "s3ssion-0815"}, end={})
    headers = {"X-Session": "{id}", "X-Kind": "main"}
    calls: Any = {
        "before": [{"url": "/start", "save": {"id": "$.id"}}],
        "then": [{"url": "/end", "headers": {"x-kind": "own"}}],
    }
    assert answered(server, headers=headers, **calls).text == "***"  # the session's cookie is a secret too
    shown = [
        (asked.headers.get("x-session"), asked.headers["x-kind"], asked.headers.get("cookie")) for asked in server.asked
    ]
    assert shown == [(None, "main", None), ("a", "main", "sid=s3ssion-0815"), ("a", "own", "sid=s3ssion-0815")]


LOGIN: dict[str, Any] = {"url": "/login", "body": {"password": "{env:MY_TOKEN}"}, "save": {"t": "$.t"}}
BEARER: dict[str, Any] = {"headers": {"Authorization": "Bearer {t}"}}


@pytest.mark.parametrize(("status", "reply"), [(401, {"error": f"wrong: {TOKEN}"}), (200, {"session": TOKEN})])
def test_a_login_that_is_refused_is_not_tried_again(
    serve: Served, wire: Any, monkeypatch: pytest.MonkeyPatch, status: int, reply: Any
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    server = serve(login=wire.Answered(reply, status=status), ask={"answer": "Yes."})
    login = {**LOGIN, "url": f"{server.url}/login"}
    with (
        HttpSystem(f"{server.url}/ask", login=login, name="ours", **BODY, **BEARER) as system,
        pytest.warns(DataWarning),
    ):
        answers = ask(system, DATA, concurrency=8)
    assert [asked.path for asked in server.asked] == ["/login"]
    assert {answer.failed for answer in answers} == {True}
    assert all((answer.error or "").startswith("ours, login: ") for answer in answers)
    assert TOKEN not in repr(answers)


def test_a_token_that_never_works_is_not_renewed(serve: Served, wire: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    server = serve(login={"t": "s3ssion-0815"}, ask=wire.Answered({"error": "no s3ssion-0815"}, status=401))
    assert "(401: no ***)" in error(server, login=dict(LOGIN), **BEARER)
    assert [asked.path for asked in server.asked] == ["/login", "/ask"]


def test_one_login_serves_all_threads_and_one_renewal_too(
    serve: Served, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    tokens: list[str] = []
    used, lock = [0], threading.Lock()

    def login(asked: Any) -> Any:
        tokens.append(f"s3ssion-{len(tokens)}")
        return {"t": tokens[-1]}

    def reply(asked: Any) -> Any:
        with lock:
            used[0] += 1
            if used[0] > 6 and asked.headers["authorization"].endswith("-0"):
                return wire.Answered({}, status=401)
        return {"answer": "Yes."}

    server = serve(login=login, ask=reply)
    with HttpSystem(f"{server.url}/ask", login={**LOGIN, "url": f"{server.url}/login"}, **BODY, **BEARER) as system:
        assert {answer.text for answer in ask(system, DATA, concurrency=4)} == {"Yes."}
    assert len(tokens) == 2


@pytest.mark.parametrize("part", ["login", "before", "then"])
def test_redirects_and_refusals_name_the_request(
    serve: Served, wire: Any, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    options: Any = {part: {"url": "/other"} if part == "login" else [{"url": "/other"}]}
    where = part if part == "login" else f"{part} 1"
    if part != "login":  # whose redirect counts as taken
        moved = wire.Answered({}, status=302, headers={"location": "http://elsewhere.invalid/"})
        assert f"ours, {where}: redirected to" in error(serve(ask={"answer": "x"}, other=moved), **options)
    broken = wire.Answered({"error": "boom"}, status=500)
    assert error(serve(ask={"answer": "x"}, other=broken), tries=1, **options) == f"ours, {where}: 500: boom"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"then": [{"ulr": "http://h/"}]}, "then.0.ulr"),
        ({"then": [{"url": "http://h/", "until": {"path": "$.a", "equal": 1}}]}, "then.0.until.equal"),
        ({"login": {"url": "http://h/", "until": {"path": "$.a"}}}, "login.until"),
        ({"then": [{"url": "http://h/{jbo}"}], "save": {"job": "$.id"}}, "unknown value 'jbo'; did you mean 'job'?"),
        ({"login": {"url": "http://h/", "form": {"q": "{query}"}}}, "login: unknown value 'query'"),
        ({"then": [{"url": "http://h/", "each": "ids"}], "k": 2, "reply": {"contexts": "$"}}, "unknown value 'ids'"),
        ({"before": [{"url": "http://h/{t}"}], "save": {"t": "$.t"}}, "before 1: unknown value 't'"),
        ({"body": {"query": "{query}", "n": "{k}"}}, "unknown value 'k'"),
        ({"body": {"query": "{query}", "n": "{next}"}}, "unknown value 'next'"),
        ({"headers": {"X-Id": "{quer_id}"}}, "unknown value 'quer_id'; did you mean 'query_id'?"),
        ({"url": "{place}"}, "url is the address of the server"),
        ({"next": "$.next"}, "need k and the path of reply.contexts"),
        ({"next": "$.next", "then": [{"url": "http://h/"}], **ITEMS}, "only the last request has pages"),
        ({"save": {"query": "$.q"}}, "expected a name of letters and digits, and none of query"),
        ({"save": {"a": "$.[["}}, "expected a JSONPath"),
        ({"login": {"url": "http://h/", "body": {"password": TOKEN}}}, "'password' holds a secret"),
        ({"before": [{"url": "http://h/", "headers": {"Authorization": f"Bearer {TOKEN}"}}]}, "holds a secret"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpSystem(**{"url": "http://h/", **BODY, **options})
    assert message in str(caught.value)
    assert TOKEN not in str(caught.value)
