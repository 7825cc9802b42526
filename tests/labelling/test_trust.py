"""From labels of people to the decision between two systems."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import Result
from ragbench.labelling import extend_sheet, read_sheet, save_label
from ragbench.types import Answer, Case, Dataset, Document, Judgement

IDS = [f"q{i}" for i in range(60)]
DATA = Dataset(
    "set",
    "test",
    {"d": Document("d", "Text.")},
    tuple(Case(query_id, f"Question {query_id}?", reference_answer="R") for query_id in IDS),
    {},
)


def result(
    name: str, good: set[str], same: Collection[str] = (), none: Collection[str] = ()
) -> Result:
    answers = [
        Answer(q, "", outcome="no_results")
        if q in none
        else Answer(q, "same" if q in same else f"{name} {q}", outcome="success")
        for q in IDS
    ]
    rows = [(q, "llm_correctness", float(q in good)) for q in IDS]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    return Result(
        name, {"parameters": {}, "dataset": {"fingerprint": DATA.fingerprint}}, {}, scores, answers
    )


A = result("a", set(IDS[:50]), same=set(IDS[50:]), none={"q9"})
B = result("b", set(IDS[:20]), same=set(IDS[50:]))


def label(path: Path, right: dict[str, set[str]], annotator: str = "me") -> None:
    """Label what waits, by whether the text's system is right on the question."""
    for row in read_sheet(path, annotator=annotator).to_dict("records"):
        if pd.isna(row["value"]):
            name = row["answer"].split()[0]
            save_label(
                path, row["item"], float(row["query_id"] in right[name]), annotator=annotator
            )


def test_batches_are_drawn_and_counted_until_it_is_decided(tmp_path: Path) -> None:
    path, right = tmp_path / "labels.csv", {"a": set(IDS[:45]), "b": set(IDS[:20])}
    state = rb.trust([A, B])
    assert (state.decision, state.n_questions, state.difference) == ("undecided", 60, None)
    assert "llm_correctness alone: better, +0.500" in str(state)
    assert "not people's verdict" in state.judge_sentence
    for batch in range(1, 6):
        assert extend_sheet(path, [A, B], dataset=DATA, n=10) in (19, 20)
        sheet = read_sheet(path)
        assert sheet["batch"].astype(int).max() == batch
        if batch == 3:
            first = sheet[sheet["batch"] == "3"]["item"].iloc[0]
            save_label(path, first, 1.0)
            assert extend_sheet(path, [A, B], dataset=DATA, n=10) in (18, 19), "nothing is drawn"
            state = rb.trust([A, B], path)
            assert (state.n_labelled, state.n_pending) == (20, 1)
            assert "1 questions of an incomplete batch" in str(state)
        label(path, right)
    state = rb.trust([A, B], path)
    assert extend_sheet(path, [A, B], dataset=DATA, n=10) == 0
    assert read_sheet(path)["item"].is_unique
    # all 50 that are not alike are labelled: 25 better, but A has no answer to q9
    labelled = state.difference
    assert labelled is not None
    assert labelled == state.low == state.high
    assert abs(labelled - 24 / 60) < 0.02
    assert state.decision == "better"
    assert state.sentence.startswith(
        "By people's verdicts (correctness) on 50 of 60 questions, a is better than b"
    )


def test_a_second_annotator_gets_the_same_batches(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    extend_sheet(path, [A, B], dataset=DATA, n=5)
    label(path, {"a": set(IDS), "b": set()})
    extend_sheet(path, [A, B], dataset=DATA, n=5)
    first = read_sheet(path)
    extend_sheet(path, [A, B], dataset=DATA, n=5, annotator="bob")
    mine = read_sheet(path, annotator="bob")
    assert mine["item"].tolist() == first.query("batch == '1'")["item"].tolist()
    assert mine["value"].isna().all()


def test_tables_of_scores_and_lists_of_judgements_do_as_well() -> None:
    judged = {
        name: [Judgement(q, "relevance", float((i + shift) % 4 > 0)) for i, q in enumerate(IDS)]
        for shift, name in enumerate("ab")
    }
    labels = pd.DataFrame(
        [
            (q, name, float(i % 3 == 0) if name == "a" else 0.0)
            for i, q in enumerate(IDS[:30])
            for name in "ab"
        ],
        columns=["query_id", "configuration", "value"],
    )
    state = rb.trust(judged, labels, criterion="relevance")
    assert (state.judge, state.n_labelled) == ("llm_relevance", 30)
    assert state.difference == pytest.approx(1 / 3, abs=0.1)
    scores = {
        name: pd.DataFrame(
            {"query_id": IDS, "measure": "nDCG@10", "value": np.linspace(0, top, 60)}
        )
        for name, top in (("a", 0.9), ("b", 0.4))
    }
    people = labels.assign(value=labels["configuration"].map({"a": 0.6, "b": 0.5}))
    state = rb.trust(scores, people, criterion="nDCG@10", judges=["nDCG@10"], margin=0.2)
    assert (state.decision, round(state.judge_difference or 0, 2)) == ("better", 0.25)


def test_alike_answers_need_no_label() -> None:
    twins = [result(name, set(IDS), same=set(IDS)) for name in "ab"]
    state = rb.trust(twins)
    assert (state.decision, state.difference, state.n_needed) == ("within the margin", 0.0, 0)
    by_documents = rb.trust(twins, criterion="faithfulness", judges=["llm_correctness"])
    assert by_documents.decision == "undecided"


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ConfigError, match="name the two to compare"):
        rb.trust([A])
    with pytest.raises(ConfigError, match="unknown judge 'llm_corectness'"):
        rb.trust([A, B], judges=["llm_corectness"])
    with pytest.raises(DataError, match="no column value"):
        rb.trust([A, B], pd.DataFrame({"query_id": ["q1"], "configuration": ["a"]}))
    with pytest.raises(DataError, match="verdicts: no column person"):
        rb.trust(pd.DataFrame({"question": [1], "system": ["a"], "judge": [1]}))
