"""ask: order, time limits, systems that misbehave."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataWarning
from ragbench.systems import FunctionSystem, HttpSystem, ask
from ragbench.systems.questions import JournaledSystem
from ragbench.types import Answer, Case, Dataset

DATA = Dataset("demo", "test", {}, [Case(f"q{i}", str(i)) for i in range(12)], {})


def test_answers_are_in_the_order_of_the_cases() -> None:
    def slow_at_first(question: str) -> str:
        time.sleep(0.03 if int(question) < 4 else 0)
        return question

    assert [answer.text for answer in ask(FunctionSystem(slow_at_first), DATA)] == [
        case.text for case in DATA.cases
    ]


def test_no_more_than_concurrency_at_a_time() -> None:
    lock = threading.Lock()
    now = most = 0

    def count(question: str) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1
        return question

    ask(FunctionSystem(count), DATA, concurrency=3)
    assert most == 3


@dataclass
class Odd:
    """A system of somebody else's that breaks its promise."""

    returned: Any
    name: str = "odd"

    def answer(self, query_id: str, query: str) -> Answer:
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("returned", "error"),
    [(None, "odd returned what cannot be read"), (RuntimeError("down"), "RuntimeError: down")],
)
def test_a_system_that_breaks_its_promise_gives_failed_answers(returned: Any, error: str) -> None:
    with pytest.warns(DataWarning, match=error):
        answers = ask(Odd(returned), DATA)
    assert all(answer.outcome == "failed" and error in (answer.error or "") for answer in answers)


def test_an_answer_to_another_question_is_put_right() -> None:
    answers = ask(Odd(Answer("q99", "Yes.")), DATA)
    assert [answer.query_id for answer in answers] == list(DATA.queries)


def test_no_questions_give_no_answers() -> None:
    assert ask(Odd(None), Dataset("none", "test", {}, [], {})) == []


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="concurrency is 0"):
        ask(Odd(None), DATA, concurrency=0)
    with pytest.raises(ConfigError, match="is not a system"):
        ask("bm25", DATA)  # type: ignore[arg-type]


def test_the_roles_of_a_case_reach_a_system_that_takes_them(
    loopback: Any, wire: Any, tmp_path: Path
) -> None:
    cases = [Case("q1", "one?", user_roles=("admin", "hr")), Case("q2", "two?")]
    data = Dataset("demo", "test", {}, cases, {})

    def answer(question: str, *, user_roles: tuple[str, ...]) -> str:
        return f"{question} {'+'.join(user_roles)}".strip()

    assert [found.text for found in ask(FunctionSystem(answer), data)] == ["one? admin+hr", "two?"]
    journaled = JournaledSystem(FunctionSystem(answer), tmp_path / "kept.jsonl")
    assert [found.text for found in ask(journaled, data)] == ["one? admin+hr", "two?"]
    server = loopback(lambda asked: wire.Answered({"answer": "Yes."}))
    body = {"q": "{query}", "user": {"roles": "{user_roles}"}, "note": "as {user_roles}"}
    ask(HttpSystem(f"{server.url}/?role={{user_roles}}", body=body), data, concurrency=1)
    assert server.asked[0].body == {
        "q": "one?",
        "user": {"roles": ["admin", "hr"]},
        "note": "as admin,hr",
    }
    assert server.asked[1].body == {"q": "two?", "user": {"roles": []}, "note": "as "}
    assert server.asked[0].path.endswith("?role=admin%2Chr")
