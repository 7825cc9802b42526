"""The page of examples for [http]: each is loaded as it is printed, and asked a question by a real server."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ragbench.systems import load_system
from ragbench.types import Answer, Dataset

PAGE = (Path(__file__).parents[2] / "ragbench/README.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("### A service by HTTP") : PAGE.index("### Runs over time")]
EXAMPLES = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
HOST = "https://rag.example.com"
DATA = Dataset("demo", "test", {}, [], {})
QUESTION = 'Why "a/b"?\nAnd {k}?'
TEXTS = {"7": "It opened in 1881.", "8": "It has two lines.", "9": "It closed in 1964."}
PASSWORD = "pass-word-4711"


class Service:
    """Every server of the page."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.tokens: list[str] = []
        self.token = ""
        self.polls = 0

    def __call__(self, asked: Any) -> Any:
        name = urlsplit(asked.path).path.split("/")[1]
        found = getattr(self, name)(asked)
        return found if isinstance(found, self.wire.Answered) else self.wire.Answered(found)

    def form(self, asked: Any) -> Any:
        assert asked.headers["authorization"] == "Basic bWU6cGFzcy13b3JkLTQ3MTE="
        assert asked.body == {"question": [QUESTION], "rerank": ["true"], "top": ["3"], "sources": ["wiki", "mail"]}
        assert asked.path == "/form/q%2F1?version=2"
        return {"answer": "In 1881.", "contexts": [{"id": "7", "text": f"{TEXTS['7']} {PASSWORD}"}]}

    def columns(self, asked: Any) -> Any:
        assert asked.body == {"query_texts": [QUESTION], "n_results": 2, "include_text": True}
        return {"ids": [["7", "8"]], "documents": [[TEXTS["7"], TEXTS["8"]]]}

    def stream(self, text: str) -> Any:
        return self.wire.Answered(text.encode(), headers={"content-type": "text/event-stream"})

    def plain(self, asked: Any) -> Any:
        sources = json.dumps({"sources": [TEXTS["7"]]})
        return self.stream(f"data: It opened in\n\ndata:  1881\n\ndata: [1]\n\ndata: {sources}\n\ndata: [DONE]\n\n")

    def named(self, asked: Any) -> Any:
        token = "event: token\ndata: "
        sources = f"event: sources\ndata: {json.dumps([{'id': '7', 'text': TEXTS['7']}])}\n\n"
        return self.stream(f'event: ping\ndata: 12:00\n\n{token}In \n\n{token}1881\n\n{token}"[1].\\n"\n\n{sources}')

    def typed(self, asked: Any) -> Any:
        kinds: list[Any] = [{"type": "status", "text": "searching"}, {"type": "token", "text": "In "}]
        kinds += [{"type": "sources", "found": [TEXTS["7"]]}, {"type": "token", "text": "1881."}]
        return self.stream("".join(f"data: {json.dumps(one)}\n\n" for one in kinds))

    def login(self, asked: Any) -> Any:
        assert asked.body == {"user": ["me"], "password": [PASSWORD]}
        assert "authorization" not in asked.headers
        self.token = f"t0ken-of-{len(self.tokens)}"
        self.tokens.append(self.token)
        return {"access_token": self.token}

    def sessions(self, asked: Any) -> Any:
        if asked.headers["authorization"] != f"Bearer {self.token}":
            return self.wire.Answered({"error": f"expired: {asked.headers['authorization']}"}, status=401)
        return self.wire.Answered(b"", status=204) if asked.method == "DELETE" else {"id": "s/1?"}

    def private(self, asked: Any) -> Any:
        assert asked.body == {"query": QUESTION, "session": "s/1?"}
        return {"answer": f"In 1881. {self.token}"}

    def signin(self, asked: Any) -> Any:
        return self.wire.Answered(
            b"", status=302, headers={"location": "/home", "set-cookie": "sid=c00kie-4711; Path=/"}
        )

    def cookie(self, asked: Any) -> Any:
        assert asked.headers["cookie"] == "sid=c00kie-4711"  # and not the one of the question before
        text = json.dumps({"answer": "In 1881: c00kie-4711"}).encode()
        return self.wire.Answered(text, headers={"set-cookie": "history=long; Path=/"})

    def jobs(self, asked: Any) -> Any:
        if asked.method == "POST":
            return {"id": "job/1", "status": "queued"}
        assert asked.path == "/jobs/job%2F1"
        self.polls += 1
        done = {"status": "done", "answer": "In 1881.", "contexts": [TEXTS["7"]]}
        return done if self.polls % 3 == 0 else {"status": "running"}

    def search(self, asked: Any) -> Any:
        return {"summary": "In 1881.", "hits": [{"id": one} for one in TEXTS]}

    def documents(self, asked: Any) -> Any:
        name = asked.path.rpartition("/")[2]
        return {"document": {"id": name, "body": TEXTS[name]}}

    def items(self, start: int) -> list[Any]:
        return [{"id": one, "text": TEXTS[one]} for one in list(TEXTS)[start : start + 2]]

    def offset(self, asked: Any) -> Any:
        return {"items": self.items(asked.body["from"])}

    def cursor(self, asked: Any) -> Any:
        second = asked.body == {"query": QUESTION, "cursor": "after 8"}
        assert second or asked.body == {"query": QUESTION}
        return {"items": self.items(2 * second), "next_cursor": None if second else "after 8"}

    def linked(self, asked: Any) -> Any:
        second = asked.path == "/linked?start=2"
        assert second or parse_qs(urlsplit(asked.path).query) == {"q": [QUESTION]}
        return {"items": self.items(2 * second), "links": {"next": None if second else "?start=2"}}


Ask = Callable[[str], Answer]


@pytest.fixture
def ask(loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The answer of the system of the example with this word in its address."""
    for name, value in (("RAG_USER", "me"), ("RAG_PASSWORD", PASSWORD)):
        monkeypatch.setenv(name, value)
    service = Service(wire)
    server = loopback(service)

    def answer(word: str) -> Answer:
        [text] = [one for one in EXAMPLES if f"{HOST}/{word}" in one]
        (tmp_path / "my.toml").write_text(text.replace(HOST, server.url), encoding="utf-8")
        system: Any = load_system(tmp_path / "my.toml", DATA)
        with system:
            found: Answer = system.answer("q/1", QUESTION)
            assert found.error is None
            service.token += "-expired"
            again = system.answer("q/1", QUESTION)
        assert replace(again, latency_ms={}) == replace(found, latency_ms={})
        return found

    return answer


def test_each_example_is_tested() -> None:
    words = {urlsplit(re.findall(f'"({HOST}.*?)"', text)[0]).path.split("/")[1] for text in EXAMPLES}
    assert words <= {name for name in vars(Service) if not name.startswith("_")}
    assert len(words) == len(EXAMPLES)


def test_a_form_with_basic_auth(ask: Ask) -> None:
    answer = ask("form")
    assert (answer.text, answer.contexts) == ("In 1881.", ("7",))
    assert answer.passages[0].text == "It opened in 1881. ***"


def test_lists_in_parallel(ask: Ask) -> None:
    answer = ask("columns")
    assert [(one.passage_id, one.text) for one in answer.passages] == [("7", TEXTS["7"]), ("8", TEXTS["8"])]
    assert answer.flags == ("retrieval_only",)


@pytest.mark.parametrize(
    ("word", "text"), [("plain", "It opened in 1881[1]"), ("named", "In 1881[1]."), ("typed", "In 1881.")]
)
def test_streams_of_text_and_of_named_events(ask: Ask, word: str, text: str) -> None:
    answer = ask(word)
    assert (answer.text, answer.passages[0].text) == (text, TEXTS["7"])


@pytest.mark.parametrize("word", ["private", "cookie"])
def test_a_login_is_renewed_once_and_shown_nowhere(ask: Ask, word: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = ask(word)
    assert answer.text.endswith("***")
    assert not re.search(f"t0ken-of|c00kie-4711|{PASSWORD}", f"{answer!r} {caplog.text}")


def test_a_job_is_waited_for(ask: Ask) -> None:
    answer = ask("jobs")
    assert (answer.text, answer.passages[0].text) == ("In 1881.", TEXTS["7"])
    assert answer.latency_ms["total"] >= 200 > answer.latency_ms["first_byte"]


def test_contexts_by_a_second_request(ask: Ask) -> None:
    answer = ask("search")
    assert answer.text == "In 1881."
    assert [(one.passage_id, one.text) for one in answer.passages] == [("7", TEXTS["7"]), ("8", TEXTS["8"])]


@pytest.mark.parametrize("word", ["offset", "cursor", "linked"])
def test_pages(ask: Ask, word: str) -> None:
    assert ask(word).contexts == ("7", "8", "9")
