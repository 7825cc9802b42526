"""A report states what makes its judge doubtful, and no claim counts where none were judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragbench.evaluation import Result
from ragbench.report.page import report_html, report_markdown
from ragbench.types import Answer, Completion, Judgement
from tests.report.page.test_junit import result

QUESTIONS: dict[str, bool | None] = dict.fromkeys(("q0", "q1", "q2"), True)


def judged(criterion: str, values: list[float], writer: str = "openai:other") -> Result:
    """Return a result whose answers were judged by `openai:mine` and written by another model."""
    verdicts = zip(QUESTIONS, values, strict=True)
    judgements = [
        Judgement(query_id, criterion, value, samples=(value,)) for query_id, value in verdicts
    ]
    made = result(QUESTIONS, judgements=judgements, settings={"judge": "openai:mine"})
    usage = Completion("Yes.", writer, input_tokens=1, output_tokens=1)
    answers = [Answer(query_id, "Yes.", usage=usage) for query_id in QUESTIONS]
    return replace(made, answers=answers)


def texts(shown: Result) -> list[str]:
    """Return the long report, what the command prints, and the page."""
    return [
        report_markdown(shown).replace("\\", ""),
        report_markdown(shown, is_brief=True).replace("\\", ""),
        report_html(shown),
    ]


@pytest.mark.parametrize(("criterion", "n"), [("correctness", 0), ("faithfulness", 2)])
def test_claims_are_counted_by_the_judge_only_where_faithfulness_was_judged(
    criterion: str, n: int
) -> None:
    markdown, _, page = texts(judged(criterion, [1.0, 0.0, 1.0]))
    assert markdown.count("0 invented claims by the judge") == page.count("invented claim") == n / 2


@pytest.mark.parametrize("writer", ["openai:mine", "openai:mine-2026-01-01", "openai:other"])
def test_a_judge_that_wrote_the_answers_is_named(writer: str) -> None:
    wrote = writer == "openai:mine"
    for text in texts(judged("correctness", [1.0, 0.0, 1.0], writer)):
        assert ("it also wrote the answers" in text) == wrote
        assert "not audited here" in text


def test_a_judge_that_is_set_by_another_name_than_its_model_is_recognised() -> None:
    shown = judged("correctness", [1.0, 0.0, 1.0], "served-model")
    judgements = [replace(each, model="served-model") for each in shown.judgements]
    for text in texts(replace(shown, judgements=judgements)):
        assert "it also wrote the answers" in text


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
def test_a_constant_judge_is_called_constant(values: list[float]) -> None:
    is_constant = len({*values}) == 1
    for text in texts(judged("correctness", values)):
        sentence = f"constant: its verdict by correctness is {values[0]:.2f} on all 3 answers"
        assert (sentence in text) == is_constant


def test_without_a_judge_nothing_is_said_of_one() -> None:
    for text in texts(result(QUESTIONS)):
        assert "audited" not in text
