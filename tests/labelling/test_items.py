"""What is picked for people, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import Result
from ragbench.labelling import LabelItem, choose_items
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


def texts(name: str, same: Sequence[str] = ()) -> dict[str, str]:
    return {case.query_id: "shared" if case.query_id in same else f"by {name}" for case in CASES}


def ids(items: Sequence[LabelItem], picked: str) -> list[str]:
    return [item.query_id for item in items if item.picked == picked]


def test_informative_are_the_questions_on_which_configurations_differ() -> None:
    ones = {case.query_id: 1.0 for case in CASES}
    a = result("a", texts("a"), ones)
    b = result("b", texts("b"), {**ones, "q7": 0.0, "q3": 0.5, "q5": 0.75})
    items = choose_items([a, b], dataset=DATA, n=6, random_share=0.0)
    # q7 differs by 1, q3 by 0.5, q5 by 0.25
    assert ids(items, "informative") == [
        "q7",
        "q7",
        "q3",
        "q3",
        "q5",
        *ids(items, "informative")[5:],
    ]


def test_spread_is_by_similarity_without_a_judge() -> None:
    scores = [
        pd.DataFrame(
            {
                "query_id": [c.query_id for c in CASES],
                "measure": "semantic_similarity",
                "value": [0.9 if c.query_id == "q4" and low else 0.2 for c in CASES],
            }
        )
        for low in (True, False)
    ]
    results = [
        result(name, texts(name), scores=frame) for name, frame in zip("ab", scores, strict=True)
    ]
    assert ids(choose_items(results, dataset=DATA, n=2, random_share=0), "informative") == [
        "q4",
        "q4",
    ]


def test_random_questions_come_with_all_their_answers_by_turns_with_the_informative() -> None:
    results = [result(name, texts(name)) for name in "ab"]
    items = choose_items(results, dataset=DATA, n=12, random_share=0.5)
    assert list(Counter(ids(items, "random")).values()) == [2, 2, 2]
    assert [item.picked for item in items[:4]] == ["informative", "informative", "random", "random"]
    assert len(items) == len({item.item_id for item in items}) == 12
    assert set(ids(items, "random")).isdisjoint(ids(items, "informative"))


def test_every_question_is_drawn_equally_often() -> None:
    """For any judgement, and for any number of texts that answer it."""
    results = [
        result("a", texts("a", same=["q0", "q1"]), {"q0": 0.0}),
        result("b", texts("b", same=["q0", "q1"])),
    ]
    drawn: Counter[str] = Counter()
    for seed in range(300):
        items = choose_items(results, dataset=DATA, n=1, random_share=1.0, seed=seed)
        drawn.update({item.query_id for item in items})
    assert max(drawn.values()) < 35
    assert min(drawn.values()) > 3
    answers: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for seed in range(300):
        chosen = choose_items(
            results, dataset=DATA, n=4, random_share=1.0, draw="answers", seed=seed
        )
        answers.update((item.query_id, item.sources) for item in chosen)
    assert len(answers) == 38
    assert 15 < min(answers.values()) <= max(answers.values()) < 55


def test_one_text_of_several_configurations_is_one_item() -> None:
    results = [result(name, texts(name, same=["q0"])) for name in "ab"]
    items = choose_items(results, dataset=DATA, n=100, random_share=1.0)
    assert len(items) == 39
    shared = next(item for item in items if item.query_id == "q0")
    assert shared.sources == ("a", "b")
    assert (shared.question, shared.reference, shared.category) == (
        "Question 0?",
        "Reference 0",
        "easy",
    )


def test_faithfulness_items_depend_on_documents() -> None:
    a, b = (result(name, {"q0": "same"}) for name in "ab")
    other = [Chunk("d#0", "d", 0, 4, "Some")]
    items = choose_items([a, b], "faithfulness", dataset=DATA, chunks={"a": CHUNKS, "b": other})
    assert sorted(item.contexts for item in items) == [("Some",), ("Some text.",)]
    assert (
        len(choose_items([a, b], "relevance", dataset=DATA, chunks={"a": CHUNKS, "b": other})) == 1
    )
    with pytest.raises(ConfigError, match="judged by the documents"):
        choose_items([a], "faithfulness", dataset=DATA)
    with pytest.raises(DataError, match=r"has the context 'd#0', which is not among its 0 chunks"):
        choose_items([a], "faithfulness", dataset=DATA, chunks={"a": []})
    outside = Result(
        "x", a.config, {}, NO_SCORES, [Answer("q0", "t", passages=(Passage("p", "Passage."),))]
    )
    assert choose_items([outside], "faithfulness", dataset=DATA)[0].contexts == ("Passage.",)


def test_answers_that_need_no_judge_are_left_out() -> None:
    answers = [
        Answer("q0", "", outcome="success"),
        Answer("q1", "no answer found in the documents", outcome="no_results"),
        Answer("q2", "text", outcome="failed", error="timeout"),
        Answer("q3", "text", outcome="success"),
    ]
    lacking = Dataset("set", "test", {}, (*CASES[:3], Case("q3", "Question 3?")), {})
    made = Result("a", {}, {}, NO_SCORES, answers)
    assert [item.query_id for item in choose_items([made], dataset=DATA)] == ["q3"]
    assert [item.query_id for item in choose_items([made], "relevance", dataset=lacking)] == ["q3"]
    with pytest.raises(DataError, match="lack a reference answer"):
        choose_items([made], dataset=lacking)


def test_same_seed_same_items() -> None:
    results = [result(name, texts(name)) for name in "ab"]
    assert choose_items(results, dataset=DATA, seed=3) == choose_items(
        results, dataset=DATA, seed=3
    )
    assert choose_items(results, dataset=DATA, seed=3) != choose_items(
        results, dataset=DATA, seed=4
    )


def test_what_cannot_be_chosen_from_is_refused() -> None:
    made = result("a", texts("a"))
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        choose_items([made], "correctnes", dataset=DATA)
    with pytest.raises(ConfigError, match="n is 0"):
        choose_items([made], dataset=DATA, n=0)
    with pytest.raises(ConfigError, match="unknown draw 'question'"):
        choose_items([made], dataset=DATA, draw="question")
    with pytest.raises(DataError, match="no result to label"):
        choose_items([], dataset=DATA)
    with pytest.raises(DataError, match="answers query 'q0'"):
        choose_items([replace(made, config={})], dataset=Dataset("none", "test", {}, (), {}))
    other = Dataset("set", "test", {}, CASES, {})
    with pytest.warns(DataWarning, match="made from other data"):
        choose_items([made], dataset=other)
