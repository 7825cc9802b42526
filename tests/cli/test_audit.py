"""`ragbench audit`: the cost first, the probes, what is kept, and where it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import registry
from ragbench.cli import app
from ragbench.judges.card import card_path, find_card
from ragbench.judges.criterion import BUILT_IN
from ragbench.llms import load_llm
from ragbench.report.page import report_html, report_markdown
from ragbench.types import Answer, Case, Dataset, Document

MODULE = """
import json, re
import ragbench as rb

def part(prompt, kind):
    return re.search(rf"<{kind}-\\w+>\\n(.*?)\\n</{kind}-", prompt, re.S)[1]

def right(prompt):
    number = part(prompt, "reference").split()[-1].strip(".")
    words = part(prompt, "answer").split(" (")[0].replace(".", " ").split()
    return json.dumps({"reason": "r", "verdict": number in words})

def always_no(prompt):
    return json.dumps({"reason": "r", "verdict": False, "score": 0})

def polite(prompt):
    answer = part(prompt, "answer")
    is_even = int(re.findall(r"[0-9]+", answer)[0]) % 2 == 0
    level = "yes" if is_even else "no"
    return json.dumps({"politeness": {"reason": "r", "verdict": level}})

def polite_by_all(prompt):
    level = json.loads(polite(prompt))["politeness"]
    return json.dumps({name: level for name in ("politeness", "kindness", "politeness_tuned")})

POLITE = rb.Criterion("politeness", "Is the answer polite?")

def brevity(case, answer, contexts):
    return 1.0

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
    command = ["audit", f"audited_judges:{judge}", "--n", "12", "--test-set", "set.yaml", *options]
    if "--criteria" not in options:
        command += ["--criteria", "correctness"]
    done = CliRunner().invoke(app, command)
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


@pytest.fixture
def own() -> Iterator[None]:
    """Nothing that these tests declare stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragbench.judges.criterion._own", {})
        patch.setattr("ragbench.registry._own", {})
        registry._registered.cache_clear()
        yield
    registry._registered.cache_clear()


@pytest.mark.parametrize("criteria", ["mine.toml", "audited_judges:POLITE"])
def test_an_own_criterion_is_audited_and_its_card_shown(
    place: Path, own: None, criteria: str
) -> None:
    (place / "mine.toml").write_text('[politeness]\nquestion = "Is the answer polite?"\n')
    code, shown = audit("polite", "--criteria", criteria)
    assert code == 0, shown
    assert "by politeness" in shown
    assert "accepts answers to other questions" not in shown
    code, shown = audit("always_no", "--criteria", criteria)
    assert code == 0, shown
    assert "its verdict is the same on all answers" in shown
    answers = [Answer(case.query_id, case.reference_answer or "") for case in CASES]
    result = rb.evaluate(DATA, answers, judge="audited_judges:always_no", criteria=criteria)
    assert "audited by politeness" in report_markdown(result)
    code, shown = audit("polite", "--criteria", "audited_judges:brevity")
    assert code == 2
    assert "brevity is a function, which asks no judge" in shown


def test_labels_by_one_of_the_criteria_are_enough(place: Path, own: None) -> None:
    (place / "mine.toml").write_text(
        '[politeness]\nquestion = "Is the answer polite?"\n'
        '[kindness]\nquestion = "Is the answer kind?"\n'
        '[politeness_tuned]\nquestion = "Polite?"\nwording_of = "politeness"\n'
    )
    rb.judges.load_criteria("mine.toml")
    answers = [Answer(case.query_id, case.reference_answer or "") for case in CASES]
    items = rb.labelling.draw_items([rb.evaluate(DATA, answers)], "politeness", dataset=DATA, n=12)
    sheet = rb.labelling.label_sheet(items, place / "labels.csv")
    rows = rb.labelling.read_sheet(sheet)
    even = rows["answer"].str.extract(r"(\d+)")[0].astype(int) % 2 == 0
    rows.assign(verdict=even.map({True: "yes", False: "no"})).drop(columns="value").to_csv(
        sheet, index=False
    )
    code, shown = audit(
        "polite_by_all", "--criteria", "mine.toml", "--labels", "labels.csv", "--json"
    )
    assert code == 0, shown
    criteria = json.loads(shown)["criteria"]
    for name, n_rows in (("politeness", 3), ("kindness", 0), ("politeness_tuned", 3)):
        assert len(criteria[name]["agreement"]) == n_rows, name
    assert criteria["politeness_tuned"]["agreement"][0]["value"] == 1.0
    assert criteria["politeness_tuned"]["findings"] == []
    code, shown = audit("polite", "--criteria", "correctness", "--labels", "labels.csv")
    assert code == 2
    assert "no label is by correctness" in shown


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
