"""`ragbench audit`: the cost first, the probes, what is kept, and where it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.judges.card import card_path, find_card
from ragbench.judges.criterion import BUILT_IN
from ragbench.llms import load_llm
from ragbench.report.page import report_html, report_markdown
from ragbench.types import Answer, Case, Dataset, Document

MODULE = """
import json, re

def part(prompt, kind):
    return re.search(rf"<{kind}-\\w+>\\n(.*?)\\n</{kind}-", prompt, re.S)[1]

def right(prompt):
    number = part(prompt, "reference").split()[-1].strip(".")
    words = part(prompt, "answer").split(" (")[0].replace(".", " ").split()
    return json.dumps({"reason": "r", "verdict": number in words})

def always_no(prompt):
    return json.dumps({"reason": "r", "verdict": False, "score": 0})

def unreadable(prompt):
    return "I like it."
"""
CASES = [
    Case(f"q{i}", f"What comes after {i}?", reference_answer=f"It is {i + 1}.")
    for i in range(100, 112)
]
DATA = Dataset("numbers", "test", {"d": Document("d", "Numbers.")}, CASES, {"q100": {"d": 1}})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragbench.judges.card.user_data_path", lambda *_, **__: tmp_path / "data")
    (tmp_path / "audited_judges.py").write_text(MODULE)
    rb.testsets.save_testset(DATA, tmp_path / "set.yaml", "yaml")
    return tmp_path


def audit(judge: str, *options: str) -> tuple[int, str]:
    command = ["audit", f"audited_judges:{judge}", "--criteria", "correctness", "--n", "12"]
    done = CliRunner().invoke(app, [*command, "--test-set", "set.yaml", *options])
    return done.exit_code, done.output


def test_the_cost_comes_first_and_a_dry_run_sends_nothing(place: Path) -> None:
    code, shown = audit("right", "--dry-run")
    assert code == 0, shown
    assert "requests to send: 188" in shown
    assert not (place / "data").exists()


@pytest.mark.parametrize(
    ("judge", "code", "finding"),
    [
        ("right", 0, "no fault was found"),
        ("always_no", 1, "its verdict is 0 on right and on wrong answers"),
        ("unreadable", 2, "it gave no verdict that could be read"),
    ],
)
def test_an_audit_names_the_fault_and_ends_with_its_status(
    place: Path, judge: str, code: int, finding: str
) -> None:
    found, shown = audit(judge)
    assert found == code, shown
    assert finding in shown
    assert "kept in" in shown


def test_a_card_is_shown_in_every_report_of_what_the_judge_decides(place: Path) -> None:
    answers = [
        Answer(case.query_id, case.reference_answer or "", outcome="success") for case in CASES
    ]
    options: dict[str, Any] = {"judge": "audited_judges:always_no", "criteria": "correctness"}
    before = rb.evaluate(DATA, answers, **options)
    assert "not audited here" in report_markdown(before)
    code, shown = audit("always_no", "--json")
    assert code == 1
    record = json.loads(shown)
    assert record["criteria"]["correctness"]["findings"]
    card = find_card(load_llm("audited_judges:always_no").name, BUILT_IN["correctness"])
    assert card is not None
    result = rb.evaluate(DATA, answers, **options)
    rb.save(result, place / "out")
    for each in (result, rb.load_result(place / "out")):
        for text in (
            report_markdown(each),
            report_markdown(each, is_brief=True),
            report_html(each),
        ):
            assert "its verdict is 0 on right and on wrong answers" in text
            assert "not audited here" not in text
    relevance = rb.evaluate(DATA, answers, **{**options, "criteria": "relevance"})
    assert "not audited here" in report_markdown(relevance), "audited by another criterion"


def test_a_damaged_card_is_no_card(place: Path) -> None:
    path = card_path("m", BUILT_IN["correctness"])
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"judge": 3}'):
        path.write_text(text)
        assert find_card("m", BUILT_IN["correctness"]) is None


def test_labels_give_the_agreement_with_people(place: Path) -> None:
    answers = [
        Answer(case.query_id, f"It is {i + i % 2}.", outcome="success")
        for i, case in enumerate(CASES, 101)
    ]
    result = rb.evaluate(DATA, answers)
    items = rb.labelling.draw_items([result], "correctness", dataset=DATA, n=12)
    sheet = rb.labelling.label_sheet(items, place / "labels.csv")
    rows = rb.labelling.read_sheet(sheet)
    wrong = rows["answer"].str.removeprefix("It is ").str.rstrip(".").astype(int) % 2 == 0
    rows.assign(verdict=wrong.map({True: "no", False: "yes"})).drop(columns="value").to_csv(
        sheet, index=False
    )
    judge = "audited_judges:always_no"
    table = rb.labelling.sheet_agreement(sheet, "correctness", judge)
    accuracy = table[table["statistic"] == "accuracy"].iloc[0]
    assert (accuracy["n"], accuracy["value"]) == (12, pytest.approx(wrong.mean()))
    code, shown = audit("always_no", "--labels", "labels.csv")
    assert code == 1, shown
    assert "agreement with people" in shown
    code, shown = audit("always_no", "--labels", "labels.csv", "--dry-run")
    assert code == 0, shown
