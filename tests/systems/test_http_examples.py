"""The page of examples for [http]: each is loaded as it is printed, and asked a question by a real server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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


Ask = Callable[[str], Answer]


@pytest.fixture
def ask(loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The answer of the system of the example with this word in its address."""
    for name, value in (("RAG_USER", "me"), ("RAG_PASSWORD", PASSWORD)):
        monkeypatch.setenv(name, value)
    server = loopback(Service(wire))

    def answer(word: str) -> Answer:
        [text] = [one for one in EXAMPLES if f"{HOST}/{word}" in one]
        (tmp_path / "my.toml").write_text(text.replace(HOST, server.url), encoding="utf-8")
        system: Any = load_system(tmp_path / "my.toml", DATA)
        with system:
            found: Answer = system.answer("q/1", QUESTION)
        assert found.error is None
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
