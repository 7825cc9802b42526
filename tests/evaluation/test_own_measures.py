"""A measure of one's own: from a function to the report, its targets, its comparison and the
command line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import registry
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import compare_results, load_result, load_targets, save
from ragbench.types import Answer, Case, Dataset, Document

CASES = [Case(f"q{i}", f"Do cats sleep in week {i}?") for i in range(12)]
CORPUS = {"cats": Document("cats", "Cats sleep.")}
DATA = Dataset("pets", "test", CORPUS, CASES, {case.query_id: {"cats": 1} for case in CASES})
MODULE = """
import ragbench as rb

def exclaims(case, answer, contexts):
    "answers with an exclamation mark"
    return float("!" in answer.text)

words = rb.Measure("answer_words", lambda case, answer, contexts: len(answer.text.split()), bounds=(0, None),
                   higher_is_better=False, meaning="words of the answer")
number = 5
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module in the working directory; afterwards no measure of a test is known."""
    (tmp_path / "my_measures.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield
    registry._own.clear()
    registry._registered.cache_clear()
    sys.modules.pop("my_measures", None)


def answers(text: str) -> list[Answer]:
    own = (rb.Passage("p", "Cats sleep.", "cats"),)
    texts = [f"{text * (1 + i % 3)} {'very ' * i}" for i in range(len(CASES))]
    return [
        Answer(case.query_id, one, ("p",), passages=own)
        for case, one in zip(CASES, texts, strict=True)
    ]


def evaluated(text: str = "Yes!", **options: Any) -> Any:
    return rb.evaluate(DATA, answers(text), perspectives=["pipeline"], **options)


def test_a_function_becomes_a_row_with_a_target() -> None:
    def quoted(case: Case, answer: Answer, contexts: Sequence[str]) -> float | None:
        return None if case.query_id == "q0" else float(contexts[0] == "Cats sleep.")

    mine = rb.Measure("quoted", quoted, meaning="contexts quoted")
    report = evaluated(measures=[mine], targets=load_targets(fail_under="quoted=0.5"))
    row = next(row for row in report.rows if row.measure == "quoted")
    assert (row.value, row.n_scored, row.n, row.verdict, row.perspective) == (
        1.0,
        11,
        12,
        "passed",
        "own",
    )
    assert (rb.measures().set_index("measure").loc["quoted", "meaning"]) == "contexts quoted"


def test_direction_and_bounds_are_those_of_the_measure_also_in_another_process(
    tmp_path: Path,
) -> None:
    texts = ("Yes. ", "Yes it is so indeed, my friend. ")
    short, long = (evaluated(text, measures="my_measures:words") for text in texts)
    save(short, tmp_path / "short")
    save(long, tmp_path / "long")
    registry._own.clear()
    registry._registered.cache_clear()
    read = [load_result(tmp_path / name) for name in ("short", "long")]
    assert registry.bounds_of("answer_words") == (0, None)
    assert compare_results(*read).regressions == ("answer_words",)


def test_from_the_command_line() -> None:
    command = ["eval", "--suite", "smoke", "--perspective", "retrieval", "--output", "mine"]
    mine = ["--measure", "my_measures:words,my_measures:exclaims", "--fail-under", "Answer_Words=1"]
    done = CliRunner().invoke(app, [*command, *mine])
    assert done.exit_code == 1, done.output
    assert "answer_words" in done.output
    assert "exclaims" in done.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("my_measures", "unknown measure 'my_measures'"),
        ("my_measures:none", "could not be loaded"),
        ("no_such_module:none", "could not be loaded"),
        ("my_measures:number", "is not a measure"),
        ([5], "is not a measure"),
    ],
)
def test_what_is_not_a_measure_is_refused_before_any_request(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluated(measures=given)


def test_names_and_values_are_checked() -> None:
    for name, message in (("ndcg@5", "is a measure of ragbench"), ("my words", "cannot be named")):
        with pytest.raises(ConfigError, match=message):
            rb.Measure(name, lambda case, answer, contexts: 1.0)
    with pytest.raises(
        DataError, match=r"twice is 2.0 at query 'q0'; expected a number within \(0.0, 1.0\)"
    ):
        evaluated(measures=[rb.Measure("twice", lambda case, answer, contexts: 2.0)])
    with pytest.raises(DataError, match="broken failed at query 'q0': ZeroDivisionError"):
        evaluated(measures=[rb.Measure("broken", lambda case, answer, contexts: 1 / 0)])
