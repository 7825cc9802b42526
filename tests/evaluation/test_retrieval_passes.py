"""What decides where only retrieval is measured, and where passages are not matched."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.evaluation import case_verdicts, check_parameters
from ragbench.generation import answer_generation
from ragbench.llms import ScriptedLLM
from ragbench.metrics.tidy import score_frame
from ragbench.systems import Pipeline
from ragbench.types import Case, Dataset, Document

PETS = Dataset(
    "pets",
    "test",
    {"cats": Document("cats", "Cats sleep most of the day.")},
    [Case("q", "Do cats sleep?", reference_answer="Yes.")],
    {"q": {"cats": 1}},
)


@pytest.mark.parametrize(
    ("scores", "passed"),
    [
        ({"chunk:Success@5": 0.0, "span:Success@5": 1.0, "Success@5": 1.0}, False),
        ({"chunk:Success@5": 1.0, "span:Success@5": 0.0, "Success@5": 0.0}, True),
        ({"span:Success@5": 0.0, "Success@5": 1.0}, False),
        ({"span:Success@5": 1.0, "Success@5": 0.0}, True),
        ({"Success@5": 1.0}, True),
        ({"Success@5": 0.0, "Success@1": 1.0}, False),
    ],
)
def test_the_finest_level_of_success_decides(scores: dict[str, float], passed: bool) -> None:
    output: Any = SimpleNamespace(
        dataset=Dataset("mine", "test", {}, [Case("q", "?")], {"q": {"d": 1}}), answers=()
    )
    frame = score_frame([("q", measure, value) for measure, value in scores.items()])
    rates, reasons = case_verdicts.decide_passing(output, {"retrieval": frame}, {}, {}, ())
    assert rates["value"].tolist() == [float(passed)]
    assert ("q" in reasons) is not passed


def test_passages_that_are_in_no_document_do_not_pass() -> None:
    corpus = {"cats": Document("cats", "Cats sleep most of the day.")}
    data = Dataset("pets", "test", corpus, [Case("q", "Do cats sleep?")], {"q": {"cats": 1}})
    result = rb.evaluate(data, "bm25", perspectives="retrieval")
    assert result.passed
    foreign = {**result.config, "system": {**result.system, "is_foreign": True}}
    assert not replace(result, config=foreign).passed
    elsewhere = {**foreign, "settings": {**result.settings, "perspectives": ["answer"]}}
    assert replace(result, config=elsewhere).passed


def _without_times(result: rb.Result) -> list[Any]:
    facts = {name: value for name, value in result.facts.items() if not name.endswith("_ms")}
    contexts = [answer.contexts for answer in result.answers]
    return [result.run, contexts, result.verdicts, result.counts, result.perspectives, facts]


@pytest.mark.parametrize(
    "options", [{}, {"expand": "window:1", "k": 3, "max_context_tokens": 1500}]
)
def test_without_answers_retrieval_is_measured_as_with_them(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rb.load_dataset("pydoc")
    written = rb.evaluate(data, "bm25", perspectives="retrieval", **options)
    monkeypatch.setattr(answer_generation, "extract_answers", None)  # is not called
    found = rb.evaluate(data, "bm25", perspectives="retrieval", llm="none", **options)
    pd.testing.assert_frame_equal(found.scores, written.scores)
    assert _without_times(found) == _without_times(written)
    assert {(each.text, each.flags) for each in found.answers} == {("", ("retrieval_only",))}
    assert "generate" not in found.timings


def test_a_pipeline_without_answers_says_so_as_other_systems_that_only_retrieve() -> None:
    result = rb.evaluate(PETS, "bm25", llm="none")
    reasons = {state.name: state.reason for state in result.perspectives}
    nothing = "the system retrieves and gives no answers"
    assert [reasons[name] for name in ("groundedness", "answer")] == [nothing] * 2
    assert result.passed
    assert not {"answered", "claim_support"} & {*result.scores["measure"]}
    written = rb.evaluate(PETS, "bm25", parameters={"llm": "extractive"})
    board = rb.Results([result, written]).leaderboard()
    assert board["with_llm"].tolist() == [False, False]


@pytest.mark.parametrize("option", [{"judge": "ollama:m"}, {"interventions": "typos:0.05"}])
def test_what_asks_about_answers_is_refused_where_nobody_answers(option: dict[str, Any]) -> None:
    [name] = option
    refused = f'{name} is set, but llm "none" writes no answers'
    with pytest.raises(ConfigError, match=refused):
        check_parameters({"retriever": "bm25", "llm": "none", **option})
    pipeline = Pipeline(PETS, llm="none")
    if name == "judge":
        option = {name: ScriptedLLM(["yes"])}
    with pytest.raises(ConfigError, match=refused):
        rb.evaluate(PETS, pipeline, **option)
    assert pipeline.run == {}  # nothing was asked


def test_nobody_rewrites_where_nobody_answers() -> None:
    with pytest.raises(ConfigError, match="name one as llm or rewrite_llm"):
        Pipeline(PETS, llm="none", rewrite="hyde")
    with pytest.raises(ConfigError, match="judge is 'none', which is not a language model"):
        rb.EvaluationSpec(judge="none")


def test_questions_are_counted_without_a_search_for_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(text: str) -> str:
        raise AssertionError(f"masked {text!r}")

    monkeypatch.setattr("ragbench.evaluation.result.masked", refuse)
    result = rb.evaluate(PETS, "bm25", perspectives=["retrieval"])
    assert result.counts == {"passed": 1, "failed": 0, "undecided": 0}
    assert result.passed_sentence == "1 of 1 questions passed"
