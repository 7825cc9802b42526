"""HttpSystem against real servers on loopback: what they should do, and everything else they do."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataWarning, FailureKind
from ragbench.systems import HttpSystem, ask, distinct_contexts, load_system
from ragbench.systems.templates import fill
from ragbench.types import Answer, Case, Dataset, Passage

DATA = Dataset("demo", "test", {}, [Case(f"q{i}", f"question {i}?") for i in range(12)], {})
ASKED: dict[str, Any] = {"body": {"query": "{query}"}}
SECRET = "s3cr3t-7f3a9d-do-not-show"


@pytest.fixture
def serve(loopback: Any, wire: Any) -> Callable[..., Any]:
    """A server that gives these replies one after another, the last one again and again."""

    def start(*replies: Any) -> Any:
        left = list(replies)
        lock = threading.Lock()

        def reply(asked: Any) -> Any:
            with lock:
                found = left.pop(0) if len(left) > 1 else left[0]
            return found if isinstance(found, wire.Answered) else wire.Answered(found)

        return loopback(reply)

    return start


def test_the_usual_names_need_no_paths(serve: Any) -> None:
    server = serve(
        {"answer": "In 1881 [1].", "contexts": [{"id": "a", "text": "Opened 1881.", "score": 2}]}
    )
    answer = HttpSystem(server.url, **ASKED).answer("q1", 'Say "when"?')
    assert (answer.text, answer.citations, answer.outcome) == ("In 1881 [1].", ("a",), "success")
    assert answer.passages == (Passage("a", "Opened 1881.", score=2.0),)
    assert 0 < answer.latency_ms["first_byte"] <= answer.latency_ms["total"]
    assert server.asked[0].body == {"query": 'Say "when"?'}


def test_every_part_of_an_answer_has_a_path(serve: Any) -> None:
    reply = {
        "data": {"text": ["Ye", "s."], "sure": 0.7, "note": "weak"},
        "hits": [
            {"note": {"id": 7}, "body": "one", "rank": 3.5},
            {"note": {"id": 8}, "body": "two", "rank": 1},
        ],
        "cites": [{"note": {"id": 8}}],
        "use": {"input_tokens": 11, "completion_tokens": 7, "model": "m"},
        "ms": {"search": 3},
    }
    paths = {
        "answer": "$.data['text'][*]",
        "contexts": "$.hits[*]",
        "citations": "$.cites[*].note.id",
        "confidence": "$.data.sure",
        "flags": "$.data.note",
        "usage": "$.use",
        "latency_ms": "$.ms",
        "context": {"id": "note.id", "text": "body", "score": "rank"},
    }
    answer = HttpSystem(serve(reply).url, reply=paths, **ASKED).answer("q1", "?")
    assert (answer.contexts, answer.citations, answer.flags, answer.confidence) == (
        ("7", "8"),
        ("8",),
        ("weak",),
        0.7,
    )
    assert answer.passages[0] == Passage("7", "one", score=3.5)
    assert answer.usage is not None
    assert (answer.usage.model, answer.usage.input_tokens, answer.usage.output_tokens) == (
        "m",
        11,
        7,
    )
    assert answer.latency_ms["search"] == 3


REPLY = {
    "output": {"answer": "In 1881.", "context": [{"ref": 7, "body": "Opened 1881."}]},
    "took": 3,
}


def test_get_with_the_question_in_the_address(serve: Any) -> None:
    server = serve({"answer": "Yes."})
    HttpSystem(f"{server.url}/ask?q={{query}}", method="GET").answer("q1", "why & how?")
    assert server.asked[0].path == "/ask?q=why%20%26%20how%3F"


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text())
def test_no_question_can_break_the_request(query: str, query_id: str) -> None:
    template = {"a": "{query}", "b": ["Q: {query} ({query_id})", {"k": 5}], "c": "{other}"}
    values = {"query": query, "query_id": query_id}
    made = json.loads(json.dumps(fill(template, values)))
    assert made == {"a": query, "b": [f"Q: {query} ({query_id})", {"k": 5}], "c": "{other}"}


def test_half_a_character_in_a_question_does_not_stop_it(serve: Any) -> None:
    server = serve({"answer": "Yes."})
    assert HttpSystem(server.url, **ASKED).answer("q1", "why \ud83d?").text == "Yes."


# --- streams
# ----------------------------------------------------------------------------------------------------------


def stream(*events: Any, kind: str = "text/event-stream") -> tuple[bytes, dict[str, str]]:
    return "".join(
        event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in events
    ).encode(), {"content-type": kind}


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


def test_a_stream_of_pieces_is_read_to_its_end(serve: Any, wire: Any) -> None:
    body, headers = stream(
        ": keep-alive\n\n",
        delta("In "),
        delta("18"),
        "event: note\ndata: {}\n\n",
        delta("81."),
        {"choices": [{"delta": {}}], "sources": ["It opened in 1881."]},
        "data: [DONE]\n\n",
        "data: not read\n\n",
    )
    server = serve(wire.Answered(body, headers=headers))
    system = HttpSystem(
        server.url, delta="$.choices[0].delta.content", reply={"contexts": "$.sources"}, **ASKED
    )
    answer = system.answer("q1", "When?")
    assert answer.text == "In 1881."
    assert [passage.text for passage in answer.passages] == ["It opened in 1881."]


def test_a_stream_of_whole_states_gives_its_last(serve: Any, wire: Any) -> None:
    body, headers = stream({"answer": "In"}, {"answer": "In 1881."}, {"contexts": ["Opened 1881."]})
    answer = HttpSystem(serve(wire.Answered(body, headers=headers)).url, **ASKED).answer(
        "q1", "When?"
    )
    assert (answer.text, len(answer.contexts)) == ("In 1881.", 1)


def test_json_lines_are_a_stream_too(serve: Any, wire: Any) -> None:
    body = b'{"t": "In "}\n{"t": "1881."}\n\n'
    server = serve(
        wire.Answered(body, headers={"content-type": "application/x-ndjson; charset=utf-8"})
    )
    assert HttpSystem(server.url, delta="$.t", **ASKED).answer("q1", "When?").text == "In 1881."


def test_data_of_several_lines_is_one_event(serve: Any, wire: Any) -> None:
    body, headers = stream('data: {"answer":\r\ndata: "Yes."}\r\n\r\n')
    assert (
        HttpSystem(serve(wire.Answered(body, headers=headers)).url, **ASKED).answer("q1", "?").text
        == "Yes."
    )


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((), "it is no event"),
        (("data: {half\n\n",), "an event of the stream is not JSON: {half"),
        (("event: error\ndata: out of memory\n\n",), "the stream reports: out of memory"),
        (({"noise": 1},), "nothing at answer = 'answer'; it is {'noise': 1}"),
    ],
)
def test_a_stream_that_is_none_is_a_failed_answer(
    serve: Any, wire: Any, events: Any, error: str
) -> None:
    body, headers = stream(*events)
    answer = HttpSystem(serve(wire.Answered(body, headers=headers)).url, **ASKED).answer("q1", "?")
    assert answer.outcome == "failed"
    assert error in (answer.error or "")


# --- servers that misbehave
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"<html>proxy</html>", 200, "cannot be read: '<html>proxy</html>'"),
        (b"", 200, "cannot be read"),
        (b"12", 200, "12 (int); expected a text"),
        ({"reply": "Yes."}, 200, "expected a field 'answer', found reply"),
        ({"answer": [1], "contexts": []}, 200, "answer is [1]"),
        ({"detail": "no such route"}, 404, "there is nothing at this address; check url (404"),
        ({"error": "bad key"}, 401, "(401: bad key)"),
        ({"detail": "q missing"}, 422, "check body (422"),
    ],
)
def test_a_wrong_reply_is_a_failed_answer_with_the_reason(
    serve: Any, wire: Any, body: Any, status: int, error: str
) -> None:
    answer = HttpSystem(serve(wire.Answered(body, status=status)).url, tries=1, **ASKED).answer(
        "q1", "?"
    )
    assert answer.outcome == "failed"
    assert error in (answer.error or "")


def test_a_path_that_finds_nothing_shows_what_there_is(serve: Any) -> None:
    system = HttpSystem(
        serve({"data": {"txt": "Yes."}}).url, reply={"answer": "$.data.text"}, **ASKED
    )
    assert "nothing at answer = '$.data.text'; it is {'data': {'txt': 'Yes.'}}" in (
        system.answer("q", "?").error or ""
    )


def test_a_busy_server_is_waited_for_as_long_as_it_asks(serve: Any, wire: Any) -> None:
    server = serve(
        wire.Answered({}, status=429, headers={"retry-after": "0.3"}), {"answer": "Yes."}
    )
    start = time.perf_counter()
    answer = HttpSystem(server.url, **ASKED).answer("q1", "?")
    assert answer.text == "Yes."
    waited = (
        time.perf_counter() - start - answer.latency_ms["total"] / 1000
    )  # which is that of the good try alone
    assert waited >= 0.3


def test_tries_are_counted(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({"error": "boom"}, status=500))
    answer = HttpSystem(server.url, tries=2, **ASKED).answer("q1", "?")
    assert len(server.asked) == 2
    assert "500: boom after 2 tries" in (answer.error or "")
    assert answer.failure is FailureKind.SERVER_ERROR


def test_a_reply_that_is_late_has_failed_and_is_not_asked_for_again(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({"answer": "Yes."}, delay_s=4.0))
    answer = HttpSystem(server.url, timeout_s=0.2, **ASKED).answer("q1", "?")
    assert "no reply within 0.2 s" in (answer.error or "")
    assert answer.failure is FailureKind.TIMEOUT
    assert len(server.asked) == 1


def test_a_reply_that_drips_for_too_long_has_failed(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({"answer": "Yes." * 20}, drip_s=0.02))
    assert "no reply within 0.3 s" in (
        HttpSystem(server.url, timeout_s=0.3, **ASKED).answer("q", "?").error or ""
    )


def test_a_cut_reply_is_asked_for_again(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({"answer": "Yes."}, cut_after=5), {"answer": "Yes."})
    assert HttpSystem(server.url, **ASKED).answer("q1", "?").text == "Yes."


def test_a_server_that_dies_in_the_middle_fails_the_rest(loopback: Any, wire: Any) -> None:
    def reply(asked: Any) -> Any:
        if len(server.asked) == 6:
            server.socket.close()
        return wire.Answered({"answer": asked.body["query"]}, headers={"connection": "close"})

    server = loopback(reply)
    system = HttpSystem(server.url, tries=2, **ASKED)
    with pytest.warns(
        DataWarning, match=r"6 of 12 answers failed, the first for query 'q6': .*no server answers"
    ):
        answers = ask(system, DATA, concurrency=1)
    assert [answer.outcome for answer in answers] == ["success"] * 6 + ["failed"] * 6


def test_redirects_are_reported_and_not_followed(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({}, status=307, headers={"location": "http://elsewhere.invalid/"}))
    answer = HttpSystem(server.url, **ASKED).answer("q1", "?")
    assert "redirected to 'http://elsewhere.invalid/'" in (answer.error or "")


# --- secrets and specs
# ------------------------------------------------------------------------------------------------


def test_a_secret_comes_from_the_environment_and_is_shown_nowhere(
    serve: Any, wire: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    server = serve(wire.Answered({"error": f"wrong key {SECRET}"}, status=401))
    system = HttpSystem(server.url, headers={"Authorization": "Bearer {env:MY_TOKEN}"}, **ASKED)
    answer = system.answer("q1", "?")
    assert server.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert "wrong key ***" in (answer.error or "")
    assert SECRET not in f"{system!r} {answer!r} {caplog.text}"


def test_a_secret_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="set MY_TOKEN in the environment"):
        HttpSystem("http://localhost:1/", headers={"X-Api-Key": "{env:MY_TOKEN}"}, **ASKED)


@pytest.mark.parametrize(
    "headers", [{"Authorization": SECRET}, {"x-api-key": SECRET}, {"X-Thing": f"Bearer {SECRET}"}]
)
def test_a_secret_in_the_file_is_refused_and_not_shown(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="holds a secret, which belongs in no file") as caught:
        HttpSystem("http://localhost:1/", headers=headers, **ASKED)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"body": {"query": "{query}", "api_key": SECRET}},
        {"body": {"query": "{query}", "auth": {"accessToken": SECRET}}},
        {"body": {"query": "{query}", "options": [{"text": "sk-ant-api03-Zx81kQbPq7Lw2Vt9Ym4N"}]}},
        {"form": {"q": "{query}", "key": "AIzaSyD3m0Key9xQw7Lp2Zt5Vb8Nc1Rf4Gh6Jk0"}},
        {"form": {"q": "{query}", "token": SECRET}},
        {"url": f"http://localhost:1/ask?subscription-key={SECRET}", **ASKED},
    ],
)
def test_a_secret_written_into_a_template_is_refused_and_not_shown(options: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match=r"holds a secret, which belongs in no file; write \{env:MY_VARIABLE\}"
    ) as caught:
        HttpSystem(**{"url": "http://localhost:1/", **options})
    for secret in (SECRET, "sk-ant", "AIza"):
        assert secret not in str(caught.value)


def test_ordinary_fields_of_a_request_are_not_secrets() -> None:
    body = {
        "query": "{query}",
        "max_tokens": "512",
        "tokenizer": "minilm",
        "author": "Smith",
        "token_type": "word",
        "key": "title",
        "token": "{query_id}",
        "secret": "",
        "model": "gpt-4o-2024-08-06",
        "api_key": "{env:HOME}",
    }
    HttpSystem("http://localhost:1/?v=2024-01", body=body)


@pytest.mark.parametrize("status", [200, 401])
def test_a_variable_of_the_environment_goes_into_any_template_and_comes_back_in_nothing(
    serve: Any,
    wire: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("MY_TENANT", "acme")
    server = serve(
        wire.Answered(
            {"answer": f"{SECRET} of acme", "error": f"wrong key {SECRET}"}, status=status
        )
    )
    system = HttpSystem(
        f"{server.url}/{{env:MY_TENANT}}/ask?code={{env:MY_TOKEN}}",
        body={"query": "{query}", "auth": {"token": "Token {env:MY_TOKEN}"}},
        headers={"X-Api-Key": "{env:MY_TOKEN}"},
    )
    answer = system.answer("q1", "what is {env:MY_TOKEN}?")
    [asked] = server.asked
    assert asked.body == {"query": "what is {env:MY_TOKEN}?", "auth": {"token": f"Token {SECRET}"}}
    assert asked.path == f"/acme/ask?code={SECRET}"
    assert asked.headers["x-api-key"] == SECRET
    assert (
        (answer.error or "").endswith("(401: wrong key ***)")
        if status == 401
        else answer.error == "wrong key ***"
    )
    # a reply is never changed
    assert answer.text == ("" if status == 401 else f"{SECRET} of acme")
    assert SECRET not in f"{system!r} {system.name} {answer.error} {caplog.text}"


def test_a_variable_of_a_template_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="set MY_TOKEN in the environment"):
        HttpSystem("http://localhost:1/?key={env:MY_TOKEN}", **ASKED)


SPEC = """
[http]
url = "URL/ask"
headers = {X-Api-Key = "{env:MY_TOKEN}"}
body = {messages = [{role = "user", content = "{query}"}], top_k = 3}
timeout_s = 30

[http.reply]
answer = "$.message"
contexts = "$.documents"
context = {id = "ref", text = "body"}
"""


def test_a_file_describes_a_whole_system(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    server = serve({"message": "Yes.", "documents": [{"ref": 7, "body": "So it is."}]})
    (tmp_path / "ours.toml").write_text(SPEC.replace("URL", server.url))
    system = load_system(tmp_path / "ours.toml", DATA)
    assert system.name == "ours"
    answers = ask(system, DATA)
    assert {answer.contexts for answer in answers} == {("7",)}
    assert sorted(asked.body["messages"][0]["content"] for asked in server.asked) == sorted(
        DATA.queries.values()
    )


def test_all_errors_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(
        '[http]\nurl = "localhost:8000"\nmethod = "FETCH"\ntries = 0\nheaders = {Cookie = "c"}\n'
        '[http.reply]\nanswer = "$.[["\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_system(tmp_path / "wrong.toml", DATA)
    for problem in (
        "line 2, url is 'localhost:8000'",
        "line 3, method is 'FETCH'",
        "line 4, tries is 0",
        "'Cookie' holds a secret",
        "line 7, reply.answer is '$.[['",
    ):
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://me:pw@host/", **ASKED}, "an address holds no password"),
        (
            {"url": "http://host/", "form": {"q": "?"}, **ASKED},
            "body is sent as JSON and form as a form",
        ),
        ({"url": "http://{query}/", **ASKED}, "expected an address such as"),
        ({"url": "ftp://host/", **ASKED}, "expected an address such as"),
        ({"url": "http://host/", "body": {"q": "{question}"}}, "the question is sent nowhere"),
        ({"url": "http://host/", "timeout_s": 0, **ASKED}, "timeout_s is 0"),
        ({"url": "http://host/", "reply": {"anwser": "$.a"}, **ASKED}, "reply.anwser"),
        (
            {"url": "http://host/", "headers": {"X-Id": "{quer_id}"}, **ASKED},
            "did you mean 'query_id'?",
        ),
        ({"url": "http://host/", "then": [{"url": "http://host/"}], **ASKED}, "then"),
        (
            {"url": "http://host/", "reply": {"context": {"text": "body"}}, **ASKED},
            "give the path of contexts, too",
        ),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HttpSystem(**options)
    assert message in str(caught.value)
    assert "pw" not in str(caught.value)


def test_more_arguments_than_options_are_refused() -> None:
    with pytest.raises(TypeError, match="HttpSystem takes 10 options, but 11 were given"):
        HttpSystem("http://host/", "GET", None, {}, {}, {}, "", 3.0, 2, "name", "too many")  # type: ignore[call-arg]


@pytest.mark.parametrize("value", ["a/b?c#d%", "..%2f", "a\r\nX: y", "\u00e9 \U0001f600"])
def test_a_value_cannot_leave_its_place_in_the_address(serve: Any, value: str) -> None:
    server = serve({"answer": "Yes."})
    HttpSystem(f"{server.url}/a/{{query}}/b?x={{query}}", method="GET").answer("q", value)
    encoded = quote(value, safe="")
    assert [asked.path for asked in server.asked] == [f"/a/{encoded}/b?x={encoded}"]


def test_a_closed_system_is_reported(serve: Any) -> None:
    with HttpSystem(serve({"answer": "Yes."}).url, **ASKED) as system:
        assert system.answer("q1", "?").text == "Yes."
    closed = Answer(
        "q1", "", outcome="failed", error=f"{system.name} was closed", failure=FailureKind.ERROR
    )
    assert system.answer("q1", "?") == closed


def test_a_redirect_that_carries_the_secret_does_not_show_it(
    serve: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cr3t/7f+3a=9d")
    places = ("/l?k=s3cr3t/7f+3a=9d", "/l?k=s3cr3t%2F7f%2B3a%3D9d", "/l?k=s3cr3t/7f%2B3a%3D9d")
    for place in places:
        server = serve(wire.Answered(b"", status=302, headers={"Location": place}))
        answer = HttpSystem(server.url, headers={"X-Key": "{env:MY_KEY}"}, **ASKED).answer("q", "?")
        assert "redirected to '/l?k=***'" in (answer.error or "")


def test_half_a_character_in_a_reply_costs_that_character_only(serve: Any, wire: Any) -> None:
    body = b'{"answer": "So \\ud800.", "contexts": [{"id": "a\\udfff", "text": "\\udfff x"}]}'
    answer = HttpSystem(serve(wire.Answered(body)).url, **ASKED).answer("q", "?")
    assert (answer.text, answer.contexts) == ("So \ufffd.", ("a\ufffd",))
    assert [passage.text for passage in answer.passages] == ["\ufffd x"]


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_a_reply_that_is_nested_without_end_is_a_failed_answer(
    serve: Any, wire: Any, content_type: str
) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    body = b"data: " + deep + b"\n\n" if content_type == "text/event-stream" else deep
    server = serve(wire.Answered(body, headers={"Content-Type": content_type}))
    answer = HttpSystem(server.url, tries=1, **ASKED).answer("q", "?")
    assert answer.outcome == "failed"


def test_numbers_in_the_text_mean_the_contexts_as_they_were_given(serve: Any) -> None:
    twice = {"id": "a", "text": "Opened 1881."}
    reply = {
        "answer": "It opened [2], and more [3].",
        "contexts": [twice, twice, {"id": "b", "text": "More."}],
    }
    answer = HttpSystem(serve(reply).url, **ASKED).answer("q", "?")
    assert answer.contexts == ("a", "a~2", "b")
    assert answer.citations == ("a", "b")
    assert distinct_contexts(answer) == ("a", "b")
    assert answer.passages[1] == Passage("a~2", "Opened 1881.", doc_id="a")


def test_a_context_of_two_ids_alone_keeps_both(serve: Any) -> None:
    reply = {"answer": "Yes.", "contexts": [{"id": "c7", "doc_id": "rail"}]}
    assert HttpSystem(serve(reply).url, **ASKED).answer("q", "?").passages == (
        Passage("c7", "", doc_id="rail"),
    )


@pytest.mark.parametrize(
    "path",
    [
        "$.a[?(@.t =~ '(a+)+$')]",
        "$..*..*..*..*",
        "$.a.`sub(/(a+)+$/, b)`",
        "$.[[",
        "$.a[1:2]",
        "a" * 50 + "[",
    ],
)
def test_a_path_that_is_not_one_place_after_the_other_is_refused(path: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ConfigError, match=r"expected a path such as \$.answer"):
        HttpSystem("http://127.0.0.1:9/", body={"q": "{query}"}, reply={"answer": path})
    assert time.monotonic() - begun < 30  # patterns are not tried, which would take for ever


def test_a_job_is_not_an_answer(serve: Any, wire: Any) -> None:
    server = serve(wire.Answered({"id": 7, "status": "queued"}, status=202))
    answer = HttpSystem(server.url, **ASKED).answer("q", "?")
    assert "answers later" in (answer.error or "")
    assert (answer.failure, len(server.asked)) == (FailureKind.REFUSED, 1)


def test_a_value_that_no_header_can_hold_is_not_sent(serve: Any) -> None:
    server = serve({"answer": "Yes."})
    system = HttpSystem(server.url, headers={"X-Question": "{query}"}, **ASKED)
    assert system.answer("q", "a\r\nX-Evil: 1").failed
    assert not server.asked
    assert system.answer("q", "\u00e9").text == "Yes."


def test_a_form_and_basic_authorization(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_BASIC", "bWU6cGFzcy13b3JkLTQ3MTE=")  # base64 of "me:pass-word-4711"
    server = serve({"answer": "In 1881: bWU6cGFzcy13b3JkLTQ3MTE="})
    form: dict[str, Any] = {"question": "{query}", "rerank": True, "sources": ["wiki", "mail"]}
    system = HttpSystem(server.url, form=form, headers={"Authorization": "Basic {env:RAG_BASIC}"})
    assert system.answer("q", "When?").text == "In 1881: bWU6cGFzcy13b3JkLTQ3MTE="
    [asked] = server.asked
    assert asked.body == {"question": ["When?"], "rerank": ["true"], "sources": ["wiki", "mail"]}
    assert asked.headers["authorization"] == "Basic bWU6cGFzcy13b3JkLTQ3MTE="
