"""Where answers fail, for readers: links that lead somewhere, texts that stay texts, shares that
sum to one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from ragbench.evaluation import Result
from ragbench.evaluation.output import SystemOutput
from ragbench.report import (
    by_severity,
    failure_details,
    question_table,
    robustness_table,
)
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Span

DIAGNOSIS = pd.DataFrame(
    {
        "query_id": ["q/1", "q2", "q3"],
        "category": "",
        "question": ["Which <b>|one|?", "When?", "Why?"],
        "failed": [True, False, True],
        "cause": ["not_used", "", "refused"],
        "evidence": ["it's $5 [here](http://x)", "", "no answer given"],
        "measure": ["token_f1", "token_f1", ""],
        "value": pd.array([0.25, 1.0, None], dtype="Float64"),
        "held": pd.array([1.0, 1.0, None], dtype="Float64"),
    }
)


def result(name: str, scores: dict[str, list[float]]) -> Result:
    rows = [
        (f"q{i}", measure, value) for measure, own in scores.items() for i, value in enumerate(own)
    ]
    frame = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    parameters = {"retriever": name, "chunker": "fixed", "chunk_size": 128}
    questions = {f"q{i}": "?" for i in range(3)}
    return Result(name, {"parameters": parameters, "questions": questions}, {}, frame)


def test_false_answers_come_first_then_the_lowest_values_then_the_least_evidence() -> None:
    rows = [
        ("a", "not_used", 0.3, 1.0),
        ("b", "refused", None, 1.0),
        ("c", "not_retrieved", None, 0.0),
        ("d", "below_cut", None, 0.4),
        ("e", "unanswerable_answered", None, None),
        ("f", "judge_suspected", 0.0, 1.0),
        ("g", "fabricated", 0.2, 1.0),
    ]
    table = pd.DataFrame(rows, columns=["query_id", "cause", "value", "held"]).assign(failed=True)
    assert "".join(by_severity(table)["query_id"]) == "egcdbaf"
    assert by_severity(table.assign(failed=False)).empty


def shown(notebook: str) -> str:
    failed = by_severity(DIAGNOSIS).set_index("query_id")[["question", "evidence"]]
    return question_table(failed, notebook)


def test_ids_are_links_into_an_executed_notebook(tmp_path: Path) -> None:
    shows = {"data": {"text/markdown": ["Worst:\n", "#### question-q3\n", "**Why?**"]}}
    cells = [{"id": "a"}, {"id": "worst", "outputs": [{"text": "#### question-q3"}, shows]}]
    (tmp_path / "bm25.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    head, _, *lines = shown(f"{tmp_path}/bm25.ipynb").splitlines()
    assert head == "| id | question | evidence |"
    assert lines[0] == "| [q3](bm25.ipynb#cell-id=worst) | Why? | no answer given |"
    assert lines[1].startswith("| [q/1](bm25.ipynb) | ")
    assert "[q3](none.ipynb)" in shown("none.ipynb")


def test_links_work_and_foreign_text_stays_text() -> None:
    text = shown("none.ipynb")
    assert "<b>" not in text
    assert "](http" not in text
    assert "&lt;b&gt;&#124;one&#124;?" in text


def test_details_have_the_heading_that_the_link_names() -> None:
    document = Document("d", "The tower opened in 1889. *Really*.")
    case = Case("q/1", "Which <b>?", reference_answer="in 1889", evidence=(Span("d", 0, 25),))
    data = Dataset("tiny", "test", {"d": document}, (case, Case("q3", "Why?")), {})
    chunks = [Chunk("d#0", "d", 0, 35, document.text)]
    answers = [Answer("q/1", "In <i>1900</i>", ("d#0",))]
    output = SystemOutput(data, answers, {}, {}, chunks, answers, {"kind": "Pipeline"})
    assert failure_details(output, None) == []
    details = failure_details(output, DIAGNOSIS)
    assert [text.splitlines()[0] for text in details] == ["#### question-q3", "#### question-q-1"]
    text = "\n\n".join(details)
    assert "#### question-q-1\n**Which &lt;b&gt;?**" in text
    assert "- answered: In &lt;i&gt;1900&lt;/i&gt;" in text
    assert "- evidence in d: The tower opened in 1889." in text
    assert "- context 1, d#0: The tower opened in 1889. &#42;Really&#42;." in text
    assert "- answered: nothing" in text, "q3 has no answer"


def test_without_interventions_there_is_no_robustness() -> None:
    assert robustness_table([result("bm25", {"RR": [1.0, 0.5, 0.0]})]).empty


def test_robustness_by_hand() -> None:
    values = {
        "robust:no-gold": [1.0, 0.0, 0.0],
        "correct:untouched": [1.0, 1.0, 0.0],
        "correct:no-gold": [1.0, 0.0, 0.0],
    }
    [row] = robustness_table([result("bm25", values)]).to_dict("records")
    assert (row["intervention"], row["expected"], row["n"]) == ("no-gold", "abstain", 3)
    assert row["kept"] == pytest.approx(1 / 3)
    assert row["p"] == pytest.approx(3 * 0.95 * 0.05**2 + 0.05**3), "one of three or none"
    assert row["correct"] == pytest.approx(1 / 3)
    assert row["difference"] == pytest.approx(-1 / 3)
