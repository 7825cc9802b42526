"""Changed documents and questions: what changed is said, and what both have is compared."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ComparisonError
from ragbench.evaluation import Results, new_result
from ragbench.evaluation.configurations import questions_of_all
from ragbench.evaluation.data_changes import config_of, data_changes
from ragbench.types import Case, Document

N = 30


def dataset(
    *, n: int = N, texts: dict[str, str] | None = None, questions: dict[str, str] | None = None
) -> rb.Dataset:
    """Documents d0, d1, ... and a question about each; some of them with another text."""
    bodies = {f"d{i}": f"Bridge {i} opened in {1900 + i}." for i in range(n)} | (texts or {})
    corpus = {doc_id: Document(doc_id, text) for doc_id, text in bodies.items() if text}
    asked = {f"q{i}": f"When did bridge {i} open?" for i in range(n)} | (questions or {})
    cases = [Case(query_id, text) for query_id, text in asked.items() if text]
    qrels = {case.query_id: {f"d{case.query_id[1:]}": 1} for case in cases}
    return rb.Dataset("bridges", "test", corpus, cases, qrels)


def result(name: str, data: rb.Dataset, value: float, **values: float) -> rb.Result:
    rows = [(q, "nDCG@10", values.get(q, value)) for q in data.queries]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    return new_result(
        name=name, parameters={"retriever": name}, dataset=data, run={}, scores=scores
    )


def test_what_changed_is_said_in_numbers_and_names() -> None:
    before = result("a", dataset(), 0.5).config
    edited = dataset(
        texts={"d3": "", "d4": "It never opened.", "new.md": "News."},
        questions={"q5": "", "q6": "In which year did bridge 6 open?", "q99": "Who?"},
    )
    assert data_changes(before, config_of(edited)) == (
        "1 document added (new.md), 1 document changed (d4), 1 document removed (d3); "
        "1 question added (q99), 1 question changed (q6), 1 question removed (q5)"
    )
    assert data_changes(before, config_of(dataset())) == ""


def test_many_are_counted_and_a_few_named() -> None:
    changes = data_changes(config_of(dataset()), config_of(dataset(n=37)))
    assert "7 documents added (d30, d31, d32 and 4 more)" in changes


def test_labels_that_changed_are_a_changed_question() -> None:
    data = dataset()
    relabelled = replace(data, qrels={**data.qrels, "q1": {"d2": 1}})
    assert data_changes(config_of(data), config_of(relabelled)) == "1 question changed (q1)"


@pytest.mark.parametrize("older", [0, 1])
def test_a_result_without_digests_of_documents_says_so(older: int) -> None:
    configs = [dict(config_of(dataset())), dict(config_of(dataset(texts={"d1": "x"})))]
    del configs[older]["document_digests"]
    which = "earlier" if older == 0 else "later"
    changes = data_changes(configs[0], configs[1])
    assert changes.startswith("documents changed; ")
    assert f"the {which} result" in changes


def test_the_comparison_goes_over_the_questions_that_both_have() -> None:
    """Without the restriction q30 to q39 and the reworded q0 would count."""
    old = result("old", dataset(), 0.5)
    grown = dataset(n=40, questions={"q0": "In which year did bridge 0 open?"})
    new = result("new", grown, 0.5, **{f"q{i}": 1.0 for i in [0, *range(30, 40)]})
    results = Results([old, new], baseline="old")
    assert questions_of_all(results) == {f"q{i}" for i in range(1, 30)}
    [row] = results.compare("old").to_dict("records")
    assert (row["n"], row["difference"]) == (29, 0.0)
    conclusion = results.conclude("old")
    assert (conclusion.n, conclusion.total) == (29, 40)
    said = " ".join(conclusion.evidence)
    assert "29 of 40 questions decide: 11 were not asked of all, or not with the same" in said
    assert "Measured on other data than old: new (10 documents added" in said
    board = results.leaderboard().set_index("name")
    assert board.loc["new", "nDCG@10"] == 0.5


def test_pydoc_of_two_versions_of_python_is_named() -> None:
    edited = dataset(texts={"d3": "It never opened."})
    both = []
    for name, data, version in (("old", dataset(), "3.11.7"), ("new", edited, "3.12.1")):
        one = result(name, replace(data, name="pydoc"), 0.5)
        environment = {**one.environment, "python": version}
        both.append(replace(one, config={**one.config, "environment": environment}))
    said = " ".join(Results(both, baseline="old").conclude("old").evidence)
    assert "The documents of pydoc come with Python, here 3.11.7, 3.12.1; run all with one" in said


def test_results_without_a_question_in_common_are_refused() -> None:
    other = dataset(questions={f"q{i}": f"Is bridge {i} open?" for i in range(N)})
    with pytest.raises(
        ComparisonError, match=r"2 different datasets .* without a question in common"
    ):
        Results([result("a", dataset(), 0.5), result("b", other, 0.5)]).conclude()
