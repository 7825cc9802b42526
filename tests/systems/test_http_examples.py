"""The examples in the docstring of ragbench.systems.http_system: each is used as it is printed, against a
real server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ragbench.errors import ConfigError
from ragbench.systems import http_system, load_system
from ragbench.systems.named_systems import check_system
from ragbench.types import Dataset

SECTION = http_system.__doc__ or ""
FILES = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
MODULES = {
    re.findall(r"# (\w+)\.py", text)[0]: text
    for text in re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
}
HOST = "https://rag.example.com"
DATA = Dataset("demo", "test", {}, [], {})
QUESTION = 'Why "a/b"?\nAnd {k}?'
TEXTS = {"7": "It opened in 1881.", "8": "It has two lines.", "9": "It closed in 1964."}
PASSWORD = "pass-word-4711"


class Service:
    """The servers of the examples, by the first part of the path."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.is_open, self.n_polls = True, 0

    def __call__(self, asked: Any) -> Any:
        reply = getattr(self, urlsplit(asked.path).path.split("/")[1])(asked)
        return reply if isinstance(reply, self.wire.Answered) else self.wire.Answered(reply)

    def form(self, asked: Any) -> Any:
        assert asked.headers["authorization"] == f"Bearer {PASSWORD}"
        assert asked.body == {
            "question": [QUESTION],
            "rerank": ["true"],
            "top": ["3"],
            "sources": ["wiki", "mail"],
        }
        assert asked.path == "/form/q%2F1?version=2"
        return {
            "out": {"text": "In 1881."},
            "hits": [{"ref": "7", "body": f"{TEXTS['7']} {PASSWORD}"}],
        }

    def stream(self, asked: Any) -> Any:
        assert asked.body == {"query": QUESTION, "stream": True}
        pieces = [{"choices": [{"delta": {"content": piece}}]} for piece in ("In ", "1881.")]
        events = [json.dumps(event) for event in (*pieces, {"sources": [TEXTS["7"]]})]
        text = "".join(f"data: {event}\n\n" for event in (*events, "[DONE]"))
        return self.wire.Answered(text.encode(), headers={"content-type": "text/event-stream"})

    def login(self, asked: Any) -> Any:
        assert asked.body == {"user": ["me"], "password": [PASSWORD]}
        return (
            {"access_token": "t0ken"}
            if self.is_open
            else self.wire.Answered({"error": "locked"}, status=401)
        )

    def jobs(self, asked: Any) -> Any:
        assert asked.headers["authorization"] == "Bearer t0ken"
        if asked.method == "POST":
            assert asked.body == {"query": QUESTION}
            return self.wire.Answered({"id": "j1", "status": "queued"}, status=202)
        self.n_polls += 1
        done = {"status": "done", "answer": "In 1881.", "contexts": [TEXTS["7"]]}
        return done if self.n_polls % 2 == 0 else {"id": "j1", "status": "running"}

    def search(self, asked: Any) -> Any:
        second = asked.path == "/search?from=2"
        assert second or parse_qs(urlsplit(asked.path).query) == {"q": [QUESTION]}
        ids = list(TEXTS)[2:] if second else list(TEXTS)[:2]
        return {
            "ids": ids,
            "scores": [1 / int(doc_id) for doc_id in ids],
            "next": None if second else "/search?from=2",
        }

    def texts(self, asked: Any) -> Any:
        return {doc_id: TEXTS[doc_id] for doc_id in asked.body["ids"]}


@pytest.fixture
def service(
    loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The server; the examples are files in the working directory that name its address."""
    for name, value in (("RAG_USER", "me"), ("RAG_PASSWORD", PASSWORD), ("RAG_TOKEN", PASSWORD)):
        monkeypatch.setenv(name, value)
    server = loopback(Service(wire))
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text.replace(HOST, server.url), encoding="utf-8")
    for text in FILES:
        name = re.findall(f"{HOST}/(\\w+)", text)[0]
        (tmp_path / f"{name}.toml").write_text(text.replace(HOST, server.url), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    clients: list[httpx.Client] = []  # which end with the process

    class Client(httpx.Client):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            clients.append(self)

    monkeypatch.setattr(httpx, "Client", Client)
    yield server
    for client in clients:
        client.close()
    for name in MODULES:
        sys.modules.pop(name, None)


def test_each_example_is_tested() -> None:
    assert (len(FILES), sorted(MODULES)) == (2, ["my_search", "my_service"])


def test_a_form_with_a_key(service: Any) -> None:
    answer = load_system("form.toml", DATA).answer("q/1", QUESTION)
    assert (answer.text, answer.contexts, answer.error) == ("In 1881.", ("7",), None)
    assert answer.passages[0].text == f"It opened in 1881. {PASSWORD}"


def test_a_stream(service: Any) -> None:
    answer = load_system("stream.toml", DATA).answer("q/1", QUESTION)
    assert (answer.text, answer.passages[0].text) == ("In 1881.", TEXTS["7"])


def test_a_login_and_a_job_are_a_class(service: Any) -> None:
    system = load_system("my_service:Service", DATA)
    for _ in range(2):
        answer = system.answer("q1", QUESTION)
        assert (answer.text, answer.passages[0].text, answer.error) == (
            "In 1881.",
            TEXTS["7"],
            None,
        )
    assert [asked.path for asked in service.asked].count("/login") == 1


def test_a_login_that_is_refused_is_one_error_and_sent_once(service: Any) -> None:
    service.reply.is_open = False
    with pytest.raises(ConfigError, match="401"):
        check_system("my_service:Service")
    assert [asked.path for asked in service.asked] == ["/login"]


def test_pages_second_requests_and_lists_in_parallel_are_a_function(service: Any) -> None:
    answer = load_system("my_search:search", DATA).answer("q1", QUESTION)
    assert answer.error is None
    assert [(one.passage_id, one.text) for one in answer.passages] == list(TEXTS.items())
    assert answer.flags == ("retrieval_only",)
