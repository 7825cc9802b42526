"""A question that is a document of the corpus itself, as in ArguAna and Quora, and documents of
which one is enough."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import DataWarning
from ragbench.testing import LabelledCase, assert_context_recall

TEXT = "Schools should teach programming because it trains the mind."
COUNTER = "Programming trains the mind of few, so schools should not teach it."
CORPUS = {"q1": TEXT, "a": COUNTER, "b": "Storks nest on chimneys."}


def own_system(question: str) -> list[dict[str, Any]]:
    return [{"id": doc_id, "text": CORPUS[doc_id]} for doc_id in ("q1", "a", "b")]


def chunked_system(question: str) -> list[dict[str, Any]]:
    return [
        {"id": f"{doc_id}-0", "doc_id": doc_id, "text": CORPUS[doc_id]} for doc_id in ("q1", "a")
    ]


def reciprocal_rank(data: rb.Dataset, system: Any) -> list[float]:
    result = rb.evaluate(data, system, perspectives=["retrieval"])
    scores = result.scores
    return [float(value) for value in scores[scores["measure"] == "RR"]["value"]]


@pytest.mark.parametrize(
    ("question", "corpus", "qrels"),
    [
        (TEXT, CORPUS, {"a": 1}),
        (TEXT.upper(), CORPUS, {"a": 1}),
        (f"  {TEXT}\n", CORPUS, {"a": 1}),
        (TEXT.replace(" ", "  "), CORPUS, {"a": 2}),
        (TEXT, {**CORPUS, "q1": {"title": "Schools", "text": TEXT}}, {"a": 1}),
        (f"Schools {TEXT}", {**CORPUS, "q1": {"title": "Schools", "text": TEXT}}, {"a": 1}),
        (TEXT, CORPUS, {"a": 1, "q1": 0}),
        (TEXT, {**CORPUS, "c": TEXT}, {"a": 1}),
    ],
)
@pytest.mark.parametrize("system", [own_system, chunked_system])
def test_a_question_is_left_out_of_its_own_ranking_and_counted(
    question: str, corpus: Any, qrels: dict[str, int], system: Any
) -> None:
    data = rb.Dataset.from_dicts(corpus, {"q1": question}, {"q1": qrels})
    with pytest.warns(DataWarning, match="1 of 1 questions are documents of the corpus themselves"):
        assert reciprocal_rank(data, system) == [1.0]


@pytest.mark.parametrize(
    ("question", "corpus", "qrels"),
    [
        ("Why teach it?", CORPUS, {"a": 1}),  # the ids agree by chance
        (TEXT, {"7": TEXT, "q1": "Another text.", "a": COUNTER}, {"a": 1}),
        (TEXT[:-1], CORPUS, {"a": 1}),
        (TEXT, CORPUS, {"q1": 1}),  # its own document is what it looks for
        (TEXT, {"Q1": TEXT, "a": COUNTER, "b": ""}, {"a": 1}),
        (TEXT, {"q1": TEXT + " It is so.", "a": COUNTER, "b": "B."}, {"a": 1}),
        ("12", {"q1": "1", "a": COUNTER, "b": "B."}, {"a": 1}),
        (TEXT, {"q1": {"title": TEXT, "text": "Other."}, "a": COUNTER}, {"a": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*documents are empty")
def test_other_questions_keep_all_of_their_ranking(
    question: str, corpus: Any, qrels: dict[str, int]
) -> None:
    data = rb.Dataset.from_dicts(corpus, {"q1": question}, {"q1": qrels})

    def search(_: str) -> list[dict[str, Any]]:
        return [{"id": doc_id} for doc_id in data.corpus]

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        expected = 1 / (1 + list(data.corpus).index(next(iter(qrels))))
        assert reciprocal_rank(data, search) == [pytest.approx(expected)]


def test_our_own_pipeline_leaves_it_out_of_documents_and_chunks() -> None:
    data = rb.Dataset.from_dicts(CORPUS, {"q1": TEXT}, {"q1": {"a": 1}})
    with pytest.warns(DataWarning, match="left out of their own ranking"):
        result = rb.evaluate(data, "bm25", perspectives=["retrieval"])
    assert "q1" not in result.run["q1"]
    assert next(iter(result.run["q1"])) == "a"


ALTERNATIVES = {
    "one": ([["7", "8"]], ["8"], 1.0, 1.0),
    "the other": ([["7", "8"]], ["7"], 1.0, 1.0),
    "both": ([["7", "8"]], ["7", "8"], 1.0, 1.0),
    "neither": ([["7", "8"]], ["9"], 0.0, 0.0),
    "second place": ([["7", "8"]], ["9", "8"], 1.0, 0.5),
    "and": ([["7", "8"], ["9"]], ["8"], 0.5, 1.0),
    "all groups": ([["7", "8"], ["9", "1"]], ["1", "7"], 1.0, 1.0),
    "three": ([["7", "8", "9"]], ["9"], 1.0, 1.0),
}


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_one_of_the_alternatives_is_enough(name: str) -> None:
    groups, ranked, recall, rank = ALTERNATIVES[name]
    case = rb.Case("q1", "a?", metadata={"alternatives": groups})
    corpus = {doc_id: rb.Document(doc_id, f"Text {doc_id}.") for doc_id in "1789"}
    qrels = {"q1": {doc_id: 1 for group in groups for doc_id in group}}
    data = rb.Dataset("mine", "test", corpus, [case], qrels)
    result = rb.evaluate(
        data, lambda _: [{"id": each} for each in ranked], perspectives=["retrieval"]
    )
    values = result.scores.set_index("measure")["value"]
    assert (values["R@5"], values["RR"]) == (recall, rank)
    ceiling = rb.metrics.retrieval_levels.retrieval_ceilings(data, measures=["R@5"])["value"]
    assert ceiling.tolist() == [1.0]


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_one_of_the_alternatives_is_enough_in_the_contexts(name: str) -> None:
    """Groups, the documents in the contexts, and the fraction of the groups that they are of."""
    groups, found, _, _ = ALTERNATIVES[name]
    n_found = sum(not set(found).isdisjoint(group) for group in groups)
    case = rb.Case("q1", "a?", gold_facts=(("blue",),), metadata={"alternatives": groups})
    corpus = {doc_id: rb.Document(doc_id, f"Text {doc_id}.") for doc_id in "1789"}
    qrels = {"q1": {doc_id: 1 for group in groups for doc_id in group}}
    data = rb.Dataset("mine", "test", corpus, [case], qrels)
    contexts = [{"id": each, "text": corpus[each].text} for each in found]
    result = rb.evaluate(data, lambda _: {"answer": "It is red.", "contexts": contexts})
    values = result.scores.set_index("measure")["value"]
    assert values["context_recall"] == n_found / len(groups)
    assert values["expected_document"] == float(n_found > 0)
    diagnosis = rb.diagnose(result).iloc[0]
    held = n_found == len(groups)  # as whole documents, so that the answer is to blame
    assert (diagnosis["cause"] in ("refused", "not_used", "contradicts")) == held
    labelled = LabelledCase(case, qrels["q1"])
    if held:
        assert assert_context_recall(found, labelled, k=5, at_least=1.0) == 1.0
    else:
        with pytest.raises(AssertionError):
            assert_context_recall(found, labelled, k=5, at_least=1.0)


@pytest.mark.parametrize("found", [["8"], ["9", "8"], ["7", "9"]])
def test_every_measure_takes_one_of_the_alternatives_for_the_only_document(
    found: list[str],
) -> None:
    corpus = {doc_id: rb.Document(doc_id, f"The mill burnt in 190{doc_id}.") for doc_id in "789"}
    contexts = [{"id": doc_id, "text": corpus[doc_id].text} for doc_id in found]
    [one] = [doc_id for doc_id in found if doc_id in "78"]
    scores = []
    for metadata, grades in (({"alternatives": [["7", "8"]]}, {"7": 1, "8": 1}), ({}, {one: 1})):
        case = rb.Case("q1", "When?", gold_facts=(("1908",),), metadata=metadata)
        data = rb.Dataset("mine", "test", corpus, [case], {"q1": grades})
        result = rb.evaluate(data, lambda _: {"answer": "In 1908 [1].", "contexts": contexts})
        scores.append(result.scores.set_index("measure")["value"])
    assert len(scores[0]) > 50
    pd.testing.assert_series_equal(scores[0], scores[1])


def test_scores_of_a_dataset_and_a_run_know_alternatives(tmp_path: Path) -> None:
    run = tmp_path / "a.run"
    run.write_text("q1 Q0 8 1 2.0 a\n", encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    rows: dict[str, list[dict[str, Any]]] = {
        "corpus.jsonl": [{"_id": name, "text": f"Text {name}."} for name in ("7", "8")],
        "queries.jsonl": [{"_id": "q1", "text": "a?", "metadata": {"alternatives": [["7", "8"]]}}],
    }
    for name, records in rows.items():
        (tmp_path / name).write_text(
            "\n".join(json.dumps(each) for each in records), encoding="utf-8"
        )
    qrels = "query-id\tcorpus-id\tscore\nq1\t7\t1\nq1\t8\t1\n"
    (tmp_path / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    arguments = ["score", str(tmp_path), str(run), "--measure", "R@5", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    [row] = json.loads(done.stdout)["means"]
    assert row["mean"] == 1.0
