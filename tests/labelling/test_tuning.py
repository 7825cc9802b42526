"""A criterion that is tuned to labels, with judges whose errors depend on the wording or the examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataError
from ragbench.judges import load_criteria
from ragbench.labelling import tune_criterion
from ragbench.llms import ScriptedLLM, dry_run
from ragbench.types import Answer, Case, Dataset

N = 40
CASES = [Case(f"q{i}", f"What is {i}?", reference_answer=f"It is {i}.") for i in range(N)]
DATA = Dataset("n", "test", {}, CASES, {})


def is_right(i: int) -> bool:
    return i % 3 != 0


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    answers = [
        Answer(f"q{i}", f"It is {i if is_right(i) else i + 1}.", outcome="success")
        for i in range(N)
    ]
    result = rb.evaluate(DATA, answers)
    items = rb.labelling.draw_items([result], "correctness", dataset=DATA, n=N)
    path = rb.labelling.label_sheet(items, tmp_path / "labels.csv")
    rows = rb.labelling.read_sheet(path)
    numbers = rows["query_id"].str.removeprefix("q").astype(int)
    verdict = numbers.map(is_right).map({True: "yes", False: "no"})
    rows.assign(verdict=verdict).drop(columns="value").to_csv(path, index=False)
    return path


def part(prompt: str, kind: str) -> str:
    match = re.search(rf"<{kind}-\w+>\n(.*?)\n</{kind}-", prompt, re.DOTALL)
    assert match is not None
    return match[1]


def honest(prompt: str) -> bool:
    return part(prompt, "answer") == part(prompt, "reference")


def judge(condition: Any) -> ScriptedLLM:
    """Right where a condition holds for the prompt, else it always says yes."""
    return ScriptedLLM(
        lambda prompt: {"reason": "r", "verdict": honest(prompt) if condition(prompt) else True}
    )


def test_the_wording_by_which_a_judge_follows_people_is_chosen(sheet: Path) -> None:
    llm = judge(lambda prompt: "choose the lower level" in prompt)
    tuning = tune_criterion(sheet, "correctness", llm, path=sheet.with_name("tuned.toml"))
    assert tuning.before == pytest.approx(26 / 40)
    assert tuning.after == 1.0
    assert 0.9 < tuning.ci_low < tuning.ci_high == 1.0
    assert "choose the lower level" in tuning.criterion.question
    [again] = load_criteria(str(sheet.with_name("tuned.toml")))
    assert (again.name, again.question) == ("correctness_tuned", tuning.criterion.question)
    assert again.levels == tuning.criterion.levels
    assert again.wording_of == "correctness"


def test_examples_are_labelled_answers_and_none_judges_itself(sheet: Path) -> None:
    llm = judge(lambda prompt: "The right verdict: false" in prompt)
    tuning = tune_criterion(sheet, "correctness", llm, n_examples=2)
    assert tuning.before == pytest.approx(26 / 40)
    assert tuning.after == 1.0
    assert [each["verdict"] for each in tuning.criterion.examples] in (
        ["true", "false"],
        ["false", "true"],
    )
    for prompt in llm.prompts:
        shown = re.findall(r"<example_question-\w+>\n(.*?)\n</", prompt)
        assert part(prompt, "question") not in shown


def test_a_judge_that_no_wording_helps_is_not_called_better(sheet: Path) -> None:
    tuning = tune_criterion(sheet, "correctness", judge(lambda prompt: False))
    assert tuning.before == tuning.after == pytest.approx(26 / 40)
    assert len(tuning.candidates) == 6


def test_the_loop_is_bounded_and_counted(sheet: Path) -> None:
    llm = judge(lambda prompt: True)
    with pytest.raises(ConfigError, match="tuning takes 240 requests"):
        tune_criterion(sheet, "correctness", llm, max_requests=100)
    assert llm.prompts == []
    with dry_run() as plan:
        tune_criterion(sheet, "correctness", llm)
    assert plan.models[0].to_send == 240
    tune_criterion(sheet, "correctness", llm)
    assert len(llm.prompts) == 240


def test_few_labels_and_criteria_without_levels_are_refused(sheet: Path) -> None:
    lines = sheet.read_text(encoding="utf-8-sig").splitlines()
    sheet.write_text("\n".join(lines[:20]))
    with pytest.raises(DataError, match="19 answers are labelled by correctness"):
        tune_criterion(sheet, "correctness", ScriptedLLM([]))
    with pytest.raises(ConfigError, match="faithfulness has no levels"):
        tune_criterion(sheet, "faithfulness", ScriptedLLM([]))
    assert json.dumps(lines[:1])
