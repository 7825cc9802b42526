"""A measure of one's own: from a function to the report, its targets, its comparison and the
command line.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import registry
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.evaluation import Results, compare_results, load_result, load_targets, save
from ragbench.report.evaluation_tables import main_measures
from ragbench.report.leaderboard import leaderboard_rows
from ragbench.report.page.sentences import brief_measures
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
    report = evaluated(measures=[mine], targets=load_targets().gated("quoted=0.5"))
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
    defaults: dict[str, Any] = {"function": lambda case, answer, contexts: 1.0}
    for name, options, message in (
        (
            "few",
            {"function": lambda case: 1.0},
            "takes (case); it is called with (case, answer, contexts)",
        ),
        ("text", {"function": "1.0"}, "its function is '1.0'; expected a function"),
        ("turned", {"bounds": (1, 0)}, "its bounds are (1, 0)"),
        ("level", {"level": "sentence"}, "Known: answer, document"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            rb.Measure(name, **{**defaults, **options})


class Asked:
    """A system that counts its answers."""

    name = "asked"

    def __init__(self) -> None:
        self.n = 0

    def answer(self, query_id: str, query: str) -> Answer:
        self.n += 1
        return Answer(query_id, "Yes!")


def misspelled(case: Case, answer: Any, contexts: Sequence[str]) -> float:
    return len(answer.txt)


def undefined(case: Case, answer: Answer, contexts: Sequence[str]) -> float:
    return n_words(answer.text)  # type: ignore[name-defined, no-any-return]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda case, answer, contexts: 2.0,
            "mine is 2.0 at query 'q0'; expected a number from 0 to 1",
        ),
        (lambda case, answer, contexts: "1", "mine is '1' at query"),
        (lambda case, answer, contexts: float("nan"), "mine is nan at query"),
        (misspelled, "did you mean 'text'"),
        (undefined, "n_words"),
    ],
)
def test_a_measure_that_fails_on_every_answer_is_refused_before_any_request(
    function: Any, message: str
) -> None:
    system = Asked()
    with pytest.raises(ConfigError, match=message):
        rb.evaluate(DATA, system, measures=[rb.Measure("mine", function)])
    with pytest.raises(ConfigError, match="nothing was asked"):
        rb.evaluate(DATA, system, criteria=[rb.Criterion("mine", function=function)])
    assert system.n == 0


def test_a_measure_that_fails_on_some_answers_loses_no_answer() -> None:
    def broken(case: Case, answer: Answer, contexts: Sequence[str]) -> float:
        return 1.0 if case.query_id != "q3" else 1 / 0

    mine = [rb.Measure("broken", broken), rb.Measure("silent", lambda case, answer, contexts: None)]
    words = rb.Measure("words", lambda case, answer, contexts: 1.0)
    with pytest.warns(rb.errors.DataWarning) as caught:
        result = evaluated(measures=[*mine, words], targets=load_targets().gated("broken=0.5"))
    messages = [str(warning.message) for warning in caught]
    assert any("broken failed at query 'q3': ZeroDivisionError" in each for each in messages)
    assert any("silent has no value: its function returned None" in each for each in messages)
    assert len(result.answers) == len(CASES)
    assert result["words"].notna().all()
    assert not result.passed


def test_a_measure_of_rankings_has_the_documents_best_first_and_their_grades() -> None:
    def first(ranking: Sequence[str], grades: Mapping[str, int]) -> float:
        return float(grades.get(ranking[0], 0)) if ranking else 0.0

    mine = rb.Measure("first", first, level="document")
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"c": 1}, "q3": {}}
    run = {"q1": {"b": 1.0, "a": 2.0}, "q3": {"a": 1.0}}
    scores = rb.score_run(qrels, run, ["RR", mine]).set_index(["measure", "query_id"])["value"]
    assert scores["first", "q1"] == scores["RR", "q1"] == 1.0
    assert scores["first", "q2"] == scores["RR", "q2"] == 0.0
    assert math.isnan(scores["first", "q3"])
    result = evaluated(measures=[mine])
    assert set(result["first"]) == {1.0}
    with pytest.raises(ConfigError, match="scores answers, but there is only a ranking"):
        rb.score_run(qrels, run, [rb.Measure("words", lambda case, answer, contexts: 1.0)])
    with pytest.raises(ConfigError, match="two measures are named 'first'"):
        evaluated(
            measures=[mine, rb.Measure("first", lambda ranking, grades: 0.0, level="document")]
        )
    broken = rb.Measure("broken", lambda ranking, grades: grades["missing"], level="document")
    system = Asked()
    with pytest.raises(ConfigError, match="KeyError: 'missing'"):
        rb.evaluate(DATA, system, measures=[broken])
    assert system.n == 0


def test_a_measure_without_function_that_ragbench_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="measure 'mine' has no function"):
        evaluated(measures=[rb.Measure("mine")])


def test_runs_are_scored_by_a_measure_of_the_user_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_measures.py").write_text(
        "import ragbench as rb\n"
        "found = rb.Measure('found', lambda ranking, grades: float('a' in ranking), level='document')\n",
        encoding="utf-8",
    )
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n", encoding="utf-8")
    (tmp_path / "one.run").write_text("q1 Q0 a 1 2.0 x\n", encoding="utf-8")
    measure = "nDCG(dcg='exp-log2')@10,my_measures:found"
    done = CliRunner().invoke(
        app, ["score", "qrels.txt", "one.run", "--json", "--measure", measure]
    )
    assert done.exit_code == 0, done.output
    means = {row["measure"]: row["mean"] for row in json.loads(done.output)["means"]}
    assert means == {"nDCG(dcg='exp-log2')@10": 1.0, "found": 1.0}


def test_named_measures_and_own_criteria_are_shown_where_others_are_left_out() -> None:
    polite = rb.Criterion("politeness", function=lambda case, answer, contexts: 1.0)
    result = rb.evaluate(DATA, answers("Yes!"), measures="R@10", criteria=[polite])
    shown = [row.measure for rows in brief_measures(result).values() for row in rows]
    assert shown == ["R@10", "llm_politeness"]
    printed = [line.split()[0] for line in repr(result).splitlines()[2:]]
    assert printed == ["R@10", "llm_politeness"]


def test_own_and_chosen_measures_are_columns_of_the_leaderboard() -> None:
    found = rb.Measure("found", lambda ranking, grades: float("cats" in ranking), level="document")
    long = rb.Measure("long", lambda case, answer, contexts: len(answer.text) > 9, bounds=(0, 1))
    chosen: list[str | rb.Measure] = ["nDCG@10", "Rprec", found, long]
    arms = []
    for name in ("a", "b"):
        result = rb.evaluate(DATA, answers("Yes!"), measures=chosen)
        arms.append(replace(result, name=name))
    board = Results(arms).leaderboard("nDCG@10")
    for name in ("Rprec", "found", "long"):
        assert {name, f"{name}_ci_low", f"{name}_n"} <= {*board}
    rows = leaderboard_rows(board, "nDCG@10")
    assert rows["found"].str.startswith("1.000 [").all()
    assert "long" in rows


def test_own_measures_are_among_the_first_of_a_notebook() -> None:
    long = rb.Measure("long", lambda case, answer, contexts: len(answer.text) > 9, bounds=(0, 1))
    result = rb.evaluate(DATA, answers("Yes!"), measures=["nDCG@10", long])
    assert "long" in main_measures(rb.summarise(result.scores)).index
