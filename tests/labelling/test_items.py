"""What is picked for people, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import Result
from ragbench.labelling import choose_items
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Judgement, Passage

CASES = tuple(
    Case(f"q{i}", f"Question {i}?", reference_answer=f"Reference {i}", category="easy")
    for i in range(20)
)
DATA = Dataset("set", "test", {"d": Document("d", "Some text.")}, CASES, {})
CHUNKS = [Chunk("d#0", "d", 0, 10, "Some text.")]
NO_SCORES = pd.DataFrame({"query_id": [], "measure": [], "value": []})


def result(
    name: str,
    texts: Mapping[str, str],
    values: Mapping[str, float] | None = None,
    scores: pd.DataFrame = NO_SCORES,
) -> Result:
    answers = [
        Answer(query_id, text, ("d#0",), outcome="success") for query_id, text in texts.items()
    ]
    verdicts = [
        Judgement(query_id, "correctness", value) for query_id, value in (values or {}).items()
    ]
    config = {"parameters": {}, "dataset": {"fingerprint": DATA.fingerprint}}
    return Result(name, config, {}, scores, answers, verdicts)


def scored(values: Mapping[str, float]) -> pd.DataFrame:
    rows = {"query_id": [*values], "measure": "llm_correctness", "value": [*values.values()]}
    return pd.DataFrame(rows)


def texts(name: str, same: Sequence[str] = ()) -> dict[str, str]:
    return {case.query_id: "shared" if case.query_id in same else f"by {name}" for case in CASES}


def test_a_batch_is_spread_over_the_difference_of_the_judge() -> None:
    values = {case.query_id: float(i % 2) for i, case in enumerate(CASES)}
    a = result("a", texts("a"), scores=scored(values))
    b = result("b", texts("b"), scores=scored(dict.fromkeys(values, 0.0)))
    for seed in range(10):
        items = choose_items([a, b], dataset=DATA, n=4, seed=seed)
        drawn = {item.query_id for item in items}
        assert len(items) == 8
        assert sum(values[query_id] for query_id in drawn) == 2
        assert {item.probability for item in items} == {0.2}


def test_every_open_question_is_drawn_equally_often() -> None:
    values = {case.query_id: float(i < 3) for i, case in enumerate(CASES)}
    results = [
        result("a", texts("a", same=["q0", "q1"]), scores=scored(values)),
        result("b", texts("b", same=["q0", "q1"]), scores=scored(dict.fromkeys(values, 0.0))),
    ]
    drawn: Counter[str] = Counter()
    for seed in range(400):
        items = choose_items(results, dataset=DATA, n=2, drawn=["q5"], seed=seed)
        drawn.update({item.query_id for item in items})
    assert drawn.keys() == values.keys() - {"q0", "q1", "q5"}, "alike, or drawn before"
    assert 25 < min(drawn.values()) <= max(drawn.values()) < 75


def test_the_order_of_two_answers_does_not_give_away_their_configuration() -> None:
    results = [result(name, texts(name)) for name in "ab"]
    items = choose_items(results, dataset=DATA, n=20)
    assert len(items) == 40
    assert 4 < sum(item.sources == ("a",) for item in items[::2]) < 16
    assert (items[0].reference, items[0].category) == (
        items[0].query_id.replace("q", "Reference "),
        "easy",
    )


def test_faithfulness_items_depend_on_documents() -> None:
    a, b = (result(name, {"q0": "same"}) for name in "ab")
    other = [Chunk("d#0", "d", 0, 4, "Some")]
    items = choose_items([a, b], "faithfulness", dataset=DATA, chunks={"a": CHUNKS, "b": other})
    assert sorted(item.contexts for item in items) == [("Some",), ("Some text.",)]
    assert not choose_items([a, b], "relevance", dataset=DATA, chunks={"a": CHUNKS, "b": other})
    with pytest.raises(ConfigError, match="judged by the documents"):
        choose_items([a, b], "faithfulness", dataset=DATA)
    with pytest.raises(DataError, match=r"has the context 'd#0', which is not among its 0 chunks"):
        choose_items([a, b], "faithfulness", dataset=DATA, chunks={"a": []})
    outside = Result(
        "x", a.config, {}, NO_SCORES, [Answer("q0", "t", passages=(Passage("p", "Passage."),))]
    )
    assert choose_items([outside, replace(outside, name="y")], "faithfulness", dataset=DATA)[
        0
    ].contexts == ("Passage.",)


def test_answers_that_need_no_judge_are_left_out() -> None:
    answers = [
        Answer("q0", "", outcome="success"),
        Answer("q1", "no answer found in the documents", outcome="no_results"),
        Answer("q2", "text", outcome="failed", error="timeout"),
        Answer("q3", "text", outcome="success"),
    ]
    lacking = Dataset("set", "test", {}, (*CASES[:3], Case("q3", "Question 3?")), {})
    made = Result("a", {}, {}, NO_SCORES, answers)
    pair = [made, result("b", texts("b"))]
    sources: dict[str, list[str]] = {item.query_id: [] for item in choose_items(pair, dataset=DATA)}
    for item in choose_items(pair, dataset=DATA):
        sources[item.query_id] += item.sources
    assert sources == {"q0": ["b"], "q1": ["b"], "q2": ["b"], "q3": sources["q3"]}
    assert sorted(sources["q3"]) == ["a", "b"]
    short = replace(pair[1], answers=pair[1].answers[:4], config={})
    chosen = choose_items([made, short], "relevance", dataset=lacking)
    assert {item.query_id for item in chosen} == {"q0", "q1", "q2", "q3"}
    with pytest.raises(DataError, match="lack a reference answer"):
        choose_items([made, replace(made, name="b")], dataset=lacking)


def test_same_seed_same_items() -> None:
    results = [result(name, texts(name)) for name in "ab"]
    assert choose_items(results, dataset=DATA, seed=3) == choose_items(
        results, dataset=DATA, seed=3
    )
    assert choose_items(results, dataset=DATA, seed=3) != choose_items(
        results, dataset=DATA, seed=4
    )


def test_what_cannot_be_chosen_from_is_refused() -> None:
    pair = [result(name, texts(name)) for name in "ab"]
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        choose_items(pair, "correctnes", dataset=DATA)
    with pytest.raises(ConfigError, match="n is 0"):
        choose_items(pair, dataset=DATA, n=0)
    with pytest.raises(ConfigError, match="name the two to compare"):
        choose_items(pair[:1], dataset=DATA)
    bare = [replace(one, config={}) for one in pair]
    with pytest.raises(DataError, match="answers query 'q0'"):
        choose_items(bare, dataset=Dataset("none", "test", {}, (), {}))
    with pytest.warns(DataWarning, match="made from other data"):
        choose_items(pair, dataset=Dataset("set", "test", {}, CASES, {}))
