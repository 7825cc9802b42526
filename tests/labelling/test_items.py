"""What is drawn for people, and what their labels show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ragbench.datasets.safety import load_safety_samples
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import Result
from ragbench.labelling import (
    LabelItem,
    draw_items,
    label_sheet,
    load_labels,
    open_items,
    save_label,
    trust,
)
from ragbench.labelling.draws import proxy_differences
from ragbench.labelling.items import items_by_query
from ragbench.testsets.loader import load_dataset
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
    config["questions"] = {case.query_id: case.text for case in CASES}
    return Result(name, config, {}, scores, answers, verdicts)


def texts(name: str, same: Sequence[str] = ()) -> dict[str, str]:
    return {case.query_id: "shared" if case.query_id in same else f"by {name}" for case in CASES}


def judged(name: str, values: Mapping[str, float], same: Sequence[str] = ()) -> Result:
    rows = [(query_id, "llm_correctness", value) for query_id, value in values.items()]
    return result(
        name,
        texts(name, same),
        values,
        pd.DataFrame(rows, columns=["query_id", "measure", "value"]),
    )


def pair(same: Sequence[str] = ()) -> list[Result]:
    """Two systems; of four questions the judge sees a difference in one."""
    ones = {case.query_id: 1.0 for case in CASES}
    fewer = {query_id: float(i % 4 > 0) for i, query_id in enumerate(ones)}
    return [judged("a", fewer, same), judged("b", ones, same)]


def numbers(items: Sequence[LabelItem]) -> list[str]:
    return list(dict.fromkeys(item.picked for item in items))


def test_questions_are_drawn_with_their_part_of_those_on_which_the_judge_sees_a_difference() -> (
    None
):
    items = draw_items(pair(), dataset=DATA, n=8)
    assert numbers(items) == [f"drawn {i}" for i in range(1, 9)]
    assert len(items) == 16
    differing = {f"q{i}" for i in range(0, 20, 4)}
    assert len({item.query_id for item in items} & differing) == 2, "a quarter of eight"


def test_two_results_of_one_name_are_refused() -> None:
    result, _ = pair()
    with pytest.raises(ConfigError, match="two results are named"):
        trust([result, result])


def test_every_question_is_drawn_equally_often() -> None:
    firsts = [draw_items(pair(), dataset=DATA, n=1, seed=seed)[0].query_id for seed in range(400)]
    counts = [firsts.count(case.query_id) for case in CASES]
    assert max(counts) < 42
    assert min(counts) > 5


def test_what_the_sheet_has_is_not_drawn_again_and_a_second_annotator_gets_the_same(
    tmp_path: Path,
) -> None:
    sheet = tmp_path / "labels.csv"
    first = draw_items(pair(), dataset=DATA, n=3, sheet=sheet)
    label_sheet(first, sheet)
    second = draw_items(pair(), dataset=DATA, n=3, sheet=sheet)
    assert numbers(second) == ["drawn 4", "drawn 5", "drawn 6"]
    assert {i.query_id for i in first}.isdisjoint({i.query_id for i in second})
    other = draw_items(pair(), dataset=DATA, n=4, sheet=sheet, annotator="bob")
    assert [i.item_id for i in other[:6]] == [i.item_id for i in first]
    assert numbers(other)[-1] == "drawn 4"


def test_what_an_annotator_has_not_labelled_is_open(tmp_path: Path) -> None:
    sheet = tmp_path / "labels.csv"
    assert open_items(sheet).empty
    items = draw_items(pair(), dataset=DATA, n=1, sheet=sheet)
    label_sheet(items, sheet)
    assert [*open_items(sheet)["item"]] == [item.item_id for item in items]
    assert open_items(sheet, annotator="bob").empty
    assert open_items(sheet, "nDCG@10").empty
    for item in items:
        save_label(sheet, item.item_id, 0.0)
    assert open_items(sheet).empty


def test_answers_of_the_same_text_are_settled_without_a_label() -> None:
    same = ["q1", "q2", "q3"]
    arms = pair(same)
    drawn = {item.query_id for item in draw_items(arms, dataset=DATA, n=20)}
    assert drawn == {case.query_id for case in CASES} - {*same}
    people = [
        {"query_id": q, "criterion": "correctness", "configuration": name, "value": name == "b"}
        for q in drawn
        for name in "ab"
    ]
    assert trust(arms, people).difference == pytest.approx(17 / 20)


def test_from_the_sheet_to_a_decision(tmp_path: Path) -> None:
    sheet, arms = tmp_path / "labels.csv", pair()
    assert trust(arms).sentence.startswith("Undecided: 0 of 20 questions are labelled")
    assert "llm_correctness alone: +0.250, which is not people's verdict" in trust(arms).sentence
    for _ in range(2):
        items = draw_items(arms, dataset=DATA, n=10, sheet=sheet)
        label_sheet(items, sheet)
        for item in items:
            save_label(sheet, item.item_id, float("a" in item.sources))
    state = trust(arms, sheet)
    assert (state.decision, state.n_labelled) == ("worse", 20)
    assert state.difference == pytest.approx(-1.0)


def test_a_proxy_that_scored_nothing_is_left_out() -> None:
    a, b = pair()
    rows = [(case.query_id, "token_f1", float("nan")) for case in CASES]
    unscored = pd.DataFrame(rows, columns=a.scores.columns)
    arms = [replace(each, scores=pd.concat([each.scores, unscored])) for each in (a, b)]
    columns = [proxy_differences(each, "correctness")[0].columns for each in ([a, b], arms)]
    assert [*map(list, columns)] == [["llm_correctness"]] * 2
    assert trust(arms, None, criterion="correctness") == trust(
        [a, b], None, criterion="correctness"
    )


def test_what_is_drawn_after_a_skipped_question_waits_for_it(tmp_path: Path) -> None:
    sheet, arms = tmp_path / "labels.csv", pair()
    items = draw_items(arms, dataset=DATA, n=10, sheet=sheet)
    label_sheet(items, sheet)
    for item in items:
        if item.picked != "drawn 5":
            save_label(sheet, item.item_id, 1.0)
    assert trust(arms, sheet).n_labelled == 4


def test_labels_of_questions_that_were_picked_by_hand_are_left_out() -> None:
    people = [
        {
            "query_id": case.query_id,
            "criterion": "correctness",
            "configuration": name,
            "value": name == "b",
            "picked": ("hard", "random", "", f"drawn {i // 4 + 1}")[i % 4],
        }
        for i, case in enumerate(CASES)
        for name in "ab"
    ]
    with pytest.warns(DataWarning, match=r"^10 of 40 labels are of .* picked \('hard'\) and not"):
        state = trust(pair(), people)
    assert state.n_labelled == 15
    with pytest.warns(DataWarning, match="20 of 20 labels"):
        none = trust(pair(), [row | {"picked": "hard"} for row in people[::2]])
    assert (none.n_labelled, none.decision) == (0, "undecided")


def test_a_missing_answer_counts_as_wrong_and_one_result_has_a_mean() -> None:
    ones = {case.query_id: 1.0 for case in CASES}
    a, b = judged("a", ones), judged("b", ones)
    b = replace(b, answers=b.answers[:10])
    people = [
        {"query_id": q, "criterion": "correctness", "configuration": name, "value": 1.0}
        for q in ones
        for name in "ab"
    ]
    assert trust([a, b], people).difference == pytest.approx(-0.5)
    alone = trust([a], [{**row, "configuration": ""} for row in people[::2]])
    assert alone.decision == "mean"
    assert alone.difference == pytest.approx(1.0)


def test_a_ranking_measure_is_corrected_by_relevance_that_people_labelled() -> None:
    """A model calls every document relevant; people call those of b relevant and those of a not."""
    ids = [f"q{i}" for i in range(60)]
    scores = pd.DataFrame({"query_id": ids, "measure": "P@1", "value": 1.0})
    config = {"questions": dict.fromkeys(ids, "?")}
    runs = [{query_id: {name: 1.0} for query_id in ids} for name in ("bad", "good")]
    arms = [Result(name, config, run, scores) for name, run in zip("ab", runs, strict=True)]
    labels = [
        {"query_id": query_id, "doc_id": doc_id, "value": doc_id == "good"}
        for query_id in ids[::2]
        for doc_id in ("good", "bad")
    ]
    state = trust(arms, labels, criterion="P@1")
    assert (state.naive, state.decision, state.n_labelled) == (0.0, "better", 30)
    assert state.difference == pytest.approx(1.0)


def test_one_text_of_several_configurations_is_one_item() -> None:
    results = [result(name, texts(name, same=["q0"])) for name in "ab"]
    items = items_by_query(results, "correctness", DATA, None)
    assert sum(map(len, items.values())) == 39
    [shared] = items["q0"]
    assert shared.sources == ("a", "b")
    assert (shared.question, shared.reference, shared.category) == (
        "Question 0?",
        "Reference 0",
        "easy",
    )


def test_faithfulness_items_depend_on_documents() -> None:
    a, b = (result(name, {"q0": "same"}) for name in "ab")
    chunks = {"a": CHUNKS, "b": [Chunk("d#0", "d", 0, 4, "Some")]}
    items = items_by_query([a, b], "faithfulness", DATA, chunks)["q0"]
    assert sorted(item.contexts for item in items) == [("Some",), ("Some text.",)]
    assert len(items_by_query([a, b], "relevance", DATA, chunks)["q0"]) == 1
    with pytest.raises(ConfigError, match="judged by the documents"):
        items_by_query([a], "faithfulness", DATA, None)
    with pytest.raises(DataError, match=r"has the context 'd#0', which is not among the 0 chunks"):
        items_by_query([a], "faithfulness", DATA, {"a": []})
    with pytest.raises(ConfigError, match="judged by the documents"):
        items_by_query([a], "faithfulness", DATA, {})
    passages = [Answer("q0", "t", ("p",), passages=(Passage("p", "Passage."),))]
    outside = Result("x", a.config, {}, NO_SCORES, passages)
    [item] = items_by_query([outside], "faithfulness", DATA, None)["q0"]
    assert item.contexts == ("Passage.",)


def test_answers_that_need_no_judge_are_left_out() -> None:
    answers = [
        Answer("q0", "", outcome="success"),
        Answer("q1", "no answer found in the documents", outcome="no_results"),
        Answer("q2", "text", outcome="failed", error="timeout"),
        Answer("q3", "text", outcome="success"),
    ]
    lacking = Dataset("set", "test", {}, (*CASES[:3], Case("q3", "Question 3?")), {})
    facts = Case("q3", "Question 3?", gold_facts=(("1889", "in 1889"),))
    with_facts = Dataset("set", "test", {}, (*CASES[:3], facts), {})
    made = Result("a", {}, {}, NO_SCORES, answers)
    assert list(items_by_query([made], "correctness", DATA, None)) == ["q3"]
    assert list(items_by_query([made], "relevance", lacking, None)) == ["q3"]
    [item] = items_by_query([made], "correctness", with_facts, None)["q3"]
    assert item.reference == "1889 or in 1889"
    with pytest.raises(DataError, match="lack a reference answer"):
        items_by_query([made], "correctness", lacking, None)


def test_what_cannot_be_labelled_is_refused() -> None:
    made = judged("a", {"q0": 1.0})
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        draw_items([made], "correctnes", dataset=DATA)
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        trust([made], criterion="correctnes")
    with pytest.raises(ConfigError, match="3 results; expected one, or the two"):
        trust([replace(made, name=name) for name in "abc"])
    with pytest.raises(DataError, match="answer to query 'q0'"):
        items_by_query([replace(made, config={})], "relevance", replace(DATA, cases=()), None)
    with pytest.warns(DataWarning, match="made from other data"):
        items_by_query([made], "relevance", Dataset("set", "test", {}, CASES, {}), None)


def test_results_of_ragbench_eval_are_of_the_built_in_questions() -> None:
    """It adds the samples that come with ragbench; here warnings are errors."""
    data = load_dataset("pydoc")
    inputs, outputs = load_safety_samples()
    measured = replace(data, safety_inputs=inputs, safety_outputs=outputs)
    config = {"dataset": {"fingerprint": measured.fingerprint}, "questions": data.queries}
    answers = [Answer(query_id, "text", outcome="success") for query_id in data.queries]
    evaluated = Result("a", config, {}, NO_SCORES, answers)
    assert len(items_by_query([evaluated], "relevance", data, None)) == len(answers)


def test_labels_of_other_texts_are_left_out(tmp_path: Path) -> None:
    sheet, arms = tmp_path / "labels.csv", pair()
    items = draw_items(arms, dataset=DATA, n=2, sheet=sheet)
    label_sheet(items, sheet)
    save_label(sheet, items[0].item_id, 1.0)
    assert len(load_labels(sheet, answers={arm.name: arm.answers for arm in arms})) == 1


def test_labels_of_other_results_are_named_and_not_none_of_all() -> None:
    """Not "0 of 20 labelled"."""
    label = {"query_id": "q1", "criterion": "correctness", "configuration": "a", "value": 1.0}
    for changed, message in (
        ({"configuration": "c"}, "none of 1 labels is about 'a' and 'b'"),
        ({"configuration": ""}, "none of 1 labels is about 'a' and 'b'"),
        ({"query_id": "x9"}, "none of 1 labels is about 'a' and 'b'"),
        ({"criterion": "relevance"}, "none of 1 labels is by correctness: they are by relevance"),
    ):
        with pytest.raises(DataError, match=message):
            trust(pair(), [label | changed])
    assert trust(pair(), [label]).n_labelled == 0, "the other answer has no label yet"


def test_a_sheet_of_other_results_is_not_continued(tmp_path: Path) -> None:
    others = [result(name, texts(name)) for name in ("c", "d")]
    sheet = label_sheet(draw_items(others, dataset=DATA, n=3), tmp_path / "labels.csv")
    with pytest.raises(
        DataError, match=r"labels\.csv belongs to other results: none of its 6 rows"
    ):
        draw_items(pair(), dataset=DATA, n=3, sheet=sheet)
    with pytest.raises(DataError, match="other results"):
        draw_items(pair(), dataset=DATA, n=3, sheet=sheet, annotator="ann")
