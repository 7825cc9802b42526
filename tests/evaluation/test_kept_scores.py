"""Scores that come from the cache are those that would be computed, or they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ragbench as rb
from ragbench.evaluation import perspectives, requests, result
from ragbench.evaluation.requests import SystemOutput
from ragbench.types import Answer, Case, Dataset, Document, Span

CORPUS = {
    "cats": Document("cats", "Cats sleep for 16 hours of the day. They hunt at night."),
    "dogs": Document("dogs", "Dogs bark at strangers. A dog has 42 teeth, and eats twice."),
}
CASES = [
    Case("q1", "How long do cats sleep?", evidence=(Span("cats", 0, 35),), gold_facts=(("16",),)),
    Case("q2", "How many teeth has a dog?", reference_answer="42 teeth"),
]
QRELS = {"q1": {"cats": 1}, "q2": {"dogs": 1}}
DATA = Dataset("pets", "test", CORPUS, CASES, QRELS)


@pytest.fixture(autouse=True)
def settled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no file had changed for long, with an empty cache."""
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGBENCH_SCORES", "")
    monkeypatch.setattr(result, "_LOADED_AT", float("inf"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that have scored, in order."""
    names: list[str] = []

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            names.append(name)
            return function(*args, **options)

        return count

    for module, name in (
        (requests, "score_context"),
        (perspectives, "check_groundedness"),
    ):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    return names


def scored(data: Dataset = DATA, **options: Any) -> rb.Result:
    return rb.evaluate(data, "bm25", **{"chunk_size": 8, "k": 2} | options)


def test_what_is_kept_is_what_was_computed(
    computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = scored()
    assert len(computed) == len(set(computed)) == 2
    computed.clear()
    second = scored()
    assert computed == []
    monkeypatch.setenv("RAGBENCH_SCORES", "new")
    third = scored()
    assert len(computed) == 2
    for other in (second, third):
        pd.testing.assert_frame_equal(first.scores, other.scores, check_exact=True)
        pd.testing.assert_frame_equal(first.claims, other.claims, check_exact=True)
        assert first.config["facts"] | {"search_ms": 0} == other.config["facts"] | {"search_ms": 0}
    assert first.scores["value"].isna().any()


def test_other_data_and_other_answers_are_computed(computed: list[str]) -> None:
    base = scored()
    longer = {**CORPUS, "dogs": Document("dogs", "Dogs bark at strangers. A dog has 42 teeth.")}
    graded = {"q1": {"cats": 1}, "q2": {"dogs": 1, "cats": 1}}
    relabelled = [replace(CASES[0], gold_facts=(("17",),)), CASES[1]]
    for options in (
        {"data": replace(DATA, corpus=longer)},
        {"data": replace(DATA, qrels=graded)},
        {"data": replace(DATA, cases=relabelled)},
        {"k": 1},
        {"chunk_size": 9},
    ):
        computed.clear()
        scored(**options)
        assert "score_context" in computed, options
    computed.clear()
    scored(support_model="lexical")
    assert computed == ["check_groundedness"]
    computed.clear()
    pd.testing.assert_frame_equal(base.scores, scored().scores, check_exact=True)
    assert computed == []


def output_of(answers: Sequence[Answer], **fields: Any) -> SystemOutput:
    return SystemOutput(DATA, answers, {}, {}, (), (), {}, **fields)


def test_times_and_costs_are_no_part_of_what_is_scored() -> None:
    answer = Answer("q1", "16 hours [1]", contexts=("cats",))
    identity = output_of([answer]).identity
    timed = replace(answer, latency_ms={"search": 1.5})
    assert output_of([timed]).identity == identity != ""
    for other in (
        replace(answer, text="17 hours [1]"),
        replace(answer, contexts=("dogs",)),
        replace(answer, outcome="uncertain"),
        replace(answer, query_id="q2"),
    ):
        assert output_of([other]).identity not in (identity, "")
    assert output_of([answer, answer]).identity != identity


def test_where_the_code_may_have_changed_nothing_is_kept(
    computed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(result, "_LOADED_AT", 0.0)  # so that all files are newer
    assert output_of([]).identity == result.code_identity() == ""
    scored()
    assert len(computed) == 2
    scored()
    assert len(computed) == 4
    assert not list(tmp_path.glob("cache/arrays/scores/*"))


def test_code_that_changes_while_it_computes_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = output_of([])
    assert output.identity

    with output.kept("demo") as tables:
        tables.append(pd.DataFrame({"value": [0.1]}))
        monkeypatch.setattr(result, "_LOADED_AT", 0.0)
    with output.kept("demo") as tables:
        assert tables == []


def test_other_packages_are_another_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = result.code_identity()
    folder = tmp_path / "numpy-99.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: numpy\nVersion: 99\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert result.code_identity() not in ("", before)
