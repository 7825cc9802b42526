"""Which part failed, question by question, on verdicts that are counted by hand."""

from __future__ import annotations

import pandas as pd
import pytest

import ragbench as rb
from ragbench import report
from ragbench.report import plots
from ragbench.types import Case, Dataset, Document

TEXTS = {
    "cats": "Cats sleep most of the day.",
    "dogs": "Dogs bark at night.",
    "fish": "Fish swim in the sea.",
}
DATA = Dataset(
    "pets",
    "test",
    {doc_id: Document(doc_id, text) for doc_id, text in TEXTS.items()},
    (
        Case("found and right", "Cats?", gold_facts=(("most of the day",),)),
        Case("found and wrong", "Dogs?", gold_facts=(("at night",),)),
        Case("lost and right", "Fish?", gold_facts=(("in the sea",),)),
        Case("lost and silent", "Which cats?"),
        Case("no answer known", "Birds?", expected_outcome="no_results"),
        Case("by documents", "What of cats?"),
    ),
    {
        "found and right": {"cats": 2},
        "found and wrong": {"dogs": 2},
        "lost and right": {"fish": 2},
        "lost and silent": {"cats": 2, "dogs": 1},
        "no answer known": {},
        "by documents": {"cats": 2},
    },
)
ANSWERS = {
    "found and right": ("They sleep most of the day.", ["cats"]),
    "found and wrong": ("Dogs bark in the morning.", ["dogs"]),
    "lost and right": ("In the sea.", ["dogs"]),
    "lost and silent": ("", ["dogs"]),
    "no answer known": ("", []),
    "by documents": ("Cats sleep most of the day.", ["cats"]),
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    by_text = {case.text: ANSWERS[case.query_id] for case in DATA.cases}

    def system(question: str) -> dict[str, object]:
        text, documents = by_text[question]
        contexts = [{"id": one, "doc_id": one, "text": TEXTS[one]} for one in documents]
        return {"answer": text, "contexts": contexts}

    result = rb.evaluate(DATA, system, perspectives="retrieval,answer")
    return report.part_verdicts(DATA, result, result, k=10, min_grade=2, share=0.8)


def test_each_part_fails_by_itself(table: pd.DataFrame) -> None:
    assert dict(zip(table["query_id"], table["verdict"], strict=True)) == {
        "found and right": "none",
        "found and wrong": "generation failed",
        "lost and right": "retrieval failed",
        "lost and silent": "both",
        "no answer known": "undecided",
        "by documents": "none",
    }


def test_what_tested_an_answer_is_said(table: pd.DataFrame) -> None:
    assert table["tested_by"].tolist() == [
        "gold facts",
        "gold facts",
        "gold facts",
        "outcome",
        "outcome",
        "relevant documents",
    ]
    assert table["recall"].fillna(-1).tolist() == [1, 1, 0, 0, -1, 1], "a grade of 1 is below 2"


def test_findings_count_questions_and_name_the_ceiling(table: pd.DataFrame) -> None:
    found = report.part_findings(table, 10)
    assert "2 of 6 questions: nothing failed (found and right, by documents)" in found
    assert "Mean recall at k = 10 is 0.600; no system could exceed 1.000." in found
    assert found[-1].startswith("1 answers were compared with the relevant documents only")


def test_bars_leave_out_questions_without_relevant_documents(table: pd.DataFrame) -> None:
    figure = plots.part_bars(table, 10)
    assert figure is not None
    assert len(figure.axes[0].get_yticklabels()) == 5
    handles = figure.legends[0].get_patches()
    assert len({handle.get_facecolor() for handle in handles}) == 4, "a colour for each verdict"
    assert plots.part_bars(table[table["recall"].isna()], 10) is None
