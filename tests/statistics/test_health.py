"""The health of a test set, on cases small enough to count."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.statistics import dataset_health, document_sizes, evidence_overlap, judged_share, question_health
from ragbench.types import Case, Dataset, Document, Span


def scores(matrix: list[list[float]], measure: str = "RR") -> dict[str, pd.DataFrame]:
    """One list per configuration."""
    return {
        f"c{i}": pd.DataFrame({"query_id": [f"q{j}" for j in range(len(row))], "measure": measure, "value": row})
        for i, row in enumerate(matrix)
    }


def test_discrimination_is_the_item_rest_correlation() -> None:
    values = np.random.default_rng(0).random((6, 9))
    table = question_health(scores(values.tolist()), measure="RR").set_index("query_id")
    for j in range(9):
        rest = np.delete(values, j, axis=1).mean(axis=1)
        assert table.loc[f"q{j}", "discrimination"] == pytest.approx(np.corrcoef(values[:, j], rest)[0, 1])
        assert table.loc[f"q{j}", "difficulty"] == pytest.approx(1 - values[:, j].mean())
    assert table["difficulty"].is_monotonic_decreasing


def test_a_question_with_a_turned_label_runs_against_the_rest() -> None:
    matrix = [[q * 0.2 * c / 4 for q in range(1, 6)] for c in range(1, 5)]
    for row in matrix:
        row[2] = 1 - row[2]
    found = dataset_health(scores(matrix), measure="RR")
    table = found.questions.set_index("query_id")
    assert table.loc["q2", "discrimination"] == pytest.approx(-1.0)
    assert any("1 run against the rest" in line and line.endswith("q2.") for line in found.sentences)


def test_questions_without_spread_and_too_few_configurations() -> None:
    table = question_health(scores([[1, 0, 0.5], [1, 0, 0.7], [1, 0, 0.9]]), measure="RR").set_index("query_id")
    assert table["moves"].to_dict() == {"q0": False, "q1": False, "q2": True}
    assert table.loc["q0", "discrimination"] is pd.NA
    two = question_health(scores([[1, 0, 0.5], [1, 0.2, 0.7]]), measure="RR")
    assert two["discrimination"].isna().all()


def test_difficulty_where_lower_is_better() -> None:
    table = question_health(scores([[0.2, 0.8], [0.4, 0.8]], "ngram_redundancy"), measure="ngram_redundancy")
    assert table.set_index("query_id")["difficulty"].to_dict() == pytest.approx({"q0": 0.3, "q1": 0.8})
    with pytest.raises(DataError, match="needs \\[0, 1\\]"):
        question_health(scores([[20.0, 30.0], [10.0, 1.0]], "latency_total_ms"), measure="latency_total_ms")


CORPUS = {
    "d1": Document("d1", "Generators are lazy. They yield their values one at a time."),
    "d2": Document("d2", "Lists hold all of their values at once."),
}
CASES = [
    Case("q0", "Which values do generators yield?", evidence=(Span("d1", 21, 60),)),
    Case("q1", "What holds everything at once?"),
    Case("q2", "Is there any?"),
]
DATA = Dataset("mine", "test", CORPUS, CASES, {"q0": {"d1": 1}, "q1": {"d2": 1, "d1": 0}})


def test_overlap_of_question_and_evidence() -> None:
    overlap = evidence_overlap(DATA)
    # "They yield their values one at a time": 2 of {value, generat, yield}; "holds" is in d2, "everything" is not
    assert overlap["q0"] == pytest.approx(2 / 3)
    assert 0 < overlap["q1"] < 1
    assert "q2" not in overlap


def test_documents_shorter_than_a_chunk() -> None:
    table = document_sizes(DATA, [5, 10, 1000])
    assert table["shorter"].tolist() == [0, 1, 2]
    assert document_sizes(Dataset("none", "test", {}, [], {}), [5])["share"].tolist() == [0.0]
    with pytest.raises(ConfigError, match="sizes is"):
        document_sizes(DATA, [])


QRELS = {"q0": {"a": 1, "b": 0}, "q1": {"c": 2, "d": 0}}


def test_judged_share_by_hand() -> None:
    runs = {
        "old": {"q0": {"b": 3.0, "a": 2.0}, "q1": {"c": 2.0, "d": 1.0}},
        "new": {"q0": {"x": 3.0, "a": 2.0}, "q1": {"y": 3.0, "z": 2.0, "c": 1.0}},
    }
    table = judged_share(QRELS, runs, k=2).set_index("name")
    assert table["judged"].to_dict() == {"old": 1.0, "new": 1 / 4}
    assert table["queries_unjudged"].to_dict() == {"old": 0, "new": 2}
    half = 1 / math.log2(3)
    assert table["ndcg"].to_dict() == pytest.approx({"old": (half + 1) / 2, "new": half / 2})
    assert table["ndcg_condensed"].to_dict() == pytest.approx({"old": (half + 1) / 2, "new": 1.0})
    # bpref: q0 of old has its one judged non-relevant document above the relevant one: 1 - 1/1 = 0
    assert table["bpref"].to_dict() == pytest.approx({"old": 0.5, "new": 1.0})
    assert table[["rank", "rank_condensed"]].to_numpy().tolist() == [[1, 2], [2, 1]]


def test_with_relevant_documents_alone_nothing_can_be_condensed() -> None:
    table = judged_share({"q0": {"a": 1}}, {"run": {"q0": {"x": 2.0, "a": 1.0}}, "none": {}}, k=5).set_index("name")
    assert table["ndcg_condensed"].isna().all()
    assert table["bpref"].isna().all()
    assert table.loc["none", "judged"] is pd.NA
    assert table.loc["none", "ndcg"] == 0.0


def test_all_of_it_in_sentences() -> None:
    matrix = [[1.0, 0.5], [1.0, 1.0], [1.0, 0.2]]
    runs = {f"c{i}": {"q0": {"d1": 2.0, "d2": 1.0}, "q1": {"d2": 1.0, "d1": 0.5}} for i in range(3)}
    found = dataset_health(scores(matrix), measure="RR", dataset=DATA, runs=runs, sizes=[5, 20])
    assert found.questions["question"].tolist() == [
        "What holds everything at once?",
        "Which values do generators yield?",
    ]
    sentences = "\n".join(found.sentences)
    assert "1 of 2 questions never move" in sentences
    assert "100% of 2 documents are shorter than 20 tokens" in sentences
    assert "75% (c0) to 75% are judged" in sentences
    assert "the order of the configurations stays the same" in sentences
    with pytest.raises(ConfigError, match="give dataset, too"):
        dataset_health(scores(matrix), measure="RR", runs=runs)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="0 runs"):
        judged_share(QRELS, {})
    with pytest.raises(DataError, match="judge no query"):
        judged_share({"q0": {}}, {"run": {}})
