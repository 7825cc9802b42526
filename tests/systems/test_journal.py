"""The journal of a system's answers: exact, durable, and refused where it belongs to something
else.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.errors import ConfigError, DataWarning
from ragbench.systems import FunctionSystem, RecordedSystem, ask
from ragbench.systems.questions import JournaledSystem
from ragbench.types import Answer, Case, Completion, Dataset, Passage

DATA = Dataset("demo", "test", {}, [Case(f"q{i}", f"question {i}") for i in range(4)], {})
FULL = Answer(
    "q1",
    "Yes.\u2028 Or\nno. [1]",
    ("a", "b"),
    ("a",),
    ("weak",),
    "success",
    0.5,
    Completion("Yes.", "m", 3, 4, 0.5),
    {"total": 1.5},
    None,
    ("c",),
    (Passage("a", "Text.", "doc", 0.25),),
)


class Recorder:
    """A system that gives one answer, and counts how often it is asked."""

    name = "mine"

    def __init__(self, answer: Answer) -> None:
        self.n_asked = 0
        self._answer = answer

    def answer(self, query_id: str, query: str) -> Answer:
        self.n_asked += 1
        return replace(self._answer, query_id=query_id)


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "answers.jsonl"
    first, second = Recorder(FULL), Recorder(FULL)
    assert JournaledSystem(first, path).answer("q1", "question 1") == FULL
    assert JournaledSystem(second, path).answer("q1", "question 1") == FULL
    assert (first.n_asked, second.n_asked) == (1, 0)
    assert RecordedSystem(path).answer("q1", "question 1").text == FULL.text


def test_what_is_there_is_not_asked_for_and_what_failed_is_asked_for_again(tmp_path: Path) -> None:
    asked: list[str] = []
    down = True

    def answer(question: str) -> str:
        asked.append(question)
        if question == "question 2" and down:
            raise RuntimeError("down")
        return question.upper()

    path = tmp_path / "answers.jsonl"
    with pytest.warns(DataWarning, match="1 of 4 answers failed"):
        ask(JournaledSystem(FunctionSystem(answer), path), DATA)
    assert path.read_bytes().count(b"\n") == 3
    asked.clear()
    down = False
    answers = ask(JournaledSystem(FunctionSystem(answer), path), DATA)
    assert asked == ["question 2"]
    assert [one.text for one in answers] == [f"QUESTION {i}" for i in range(4)]
    assert all(one.latency_ms["total"] > 0 for one in answers)


def test_a_line_that_was_cut_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    JournaledSystem(Recorder(Answer("", "a")), path).answer("q0", "question 0")
    path.write_bytes(path.read_bytes() + b'{"query_id": "q1", "te')
    JournaledSystem(Recorder(Answer("", "b")), path).answer("q1", "question 1")
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"query_id": "q0", "question": "question 0", "system": "other", "text": "a"}',
            "holds answers of 'other'",
        ),
        (
            '{"query_id": "q0", "question": "another?", "system": "mine", "text": "a"}',
            "answer to another question 'q0'",
        ),
        ('{"query_id": "q0", "text": "a"}', "is damaged"),
        ("[1]", "is damaged"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        JournaledSystem(Recorder(FULL), path).refuse_other_questions(DATA.queries)
