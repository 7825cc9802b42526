"""What a gate or a target names is computed; what has no value never passes."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError, DataWarning
from ragbench.evaluation import Result, evaluate, load_result, load_targets, perspectives
from ragbench.evaluation.perspectives import ceilings_of
from ragbench.llms import ScriptedLLM
from ragbench.report.page import banner
from ragbench.types import Answer, Case, Dataset, Document, Passage, Span

CORPUS = {
    name: Document(name, f"{name} is a document. It is about {name}.")
    for name in ("a", "b", "c", "d")
}
DATA = Dataset(
    "letters",
    "test",
    CORPUS,
    (
        Case(
            "q1",
            "What is a?",
            reference_answer="A document.",
            evidence=(Span("a", 0, 16),),
            min_citations=1,
        ),
        Case("q2", "What is b?", reference_answer="A document.", evidence=(Span("b", 0, 16),)),
    ),
    {"q1": {"a": 1, "b": 1}, "q2": {"b": 1}},
)
BY_DOCUMENT = Dataset(
    "letters", "test", CORPUS, (Case("q1", "What is a?"), Case("q2", "What is b?")), DATA.qrels
)


def answer(query_id: str, *documents: str) -> Answer:
    passages = tuple(Passage(one, CORPUS[one].text, one) for one in documents)
    return Answer(
        query_id, "A document. [1]", documents, documents[:1], outcome="success", passages=passages
    )


ANSWERS = [answer("q1", "c", "a", "d"), answer("q2", "b", "c", "d")]


def evaluated(data: Dataset, **options: object) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return evaluate(data, ANSWERS, embedder="wordllama", **options)  # type: ignore[arg-type]


def test_a_gate_of_any_depth_is_computed() -> None:
    targets = load_targets().gated("F1@2=0.1,nDCG@1=0.4,R@3=0.7,AP@4=0.1,Success@1=0.9")
    report = evaluated(BY_DOCUMENT, targets=targets, perspectives=["retrieval"])
    rows = {row.measure: row for row in report.rows}
    # q1: relevant at rank 2 of two relevant; q2: the only relevant one at rank 1
    assert rows["F1@2"].value == pytest.approx((0.5 + 2 / 3) / 2)
    assert rows["nDCG@1"].value == 0.5
    assert rows["R@3"].value == 0.75
    assert rows["AP@4"].value == pytest.approx((0.25 + 1) / 2)
    assert {name: rows[name].verdict for name in targets.gates} == {
        "F1@2": "passed",
        "nDCG@1": "passed",
        "R@3": "passed",
        "AP@4": "passed",
        "Success@1": "missed",
    }
    assert not report.passed


def test_a_gate_on_evidence_within_a_budget_is_computed() -> None:
    plain = evaluated(DATA, perspectives=["retrieval"])
    gated = evaluated(
        DATA, perspectives=["retrieval"], targets=load_targets().gated("span_recall@40tok=0.1")
    )
    before, after = ({row.measure: row.value for row in one.rows} for one in (plain, gated))
    assert after["span_recall@40tok"] is not None
    assert {name: after[name] for name in before} == before, (
        "asking for more must not change the others"
    )


def test_a_gate_on_a_criterion_asks_the_judge_for_it() -> None:
    reply = '{"context_precision": {"reason": "r", "verdicts": [{"document": 1, "useful": true}]}}'
    judge = ScriptedLLM([reply] * 20)
    targets = load_targets().gated("llm_context_precision=0.1")
    report = evaluated(DATA, perspectives=["retrieval"], targets=targets, judge=judge)
    assert "llm_context_precision" in {row.measure for row in report.rows}
    with pytest.raises(
        ConfigError, match="'llm_context_precison'; did you mean 'llm_context_precision'"
    ):
        evaluated(DATA, judge=judge, targets=load_targets().gated("llm_context_precison=0.1"))


@pytest.mark.parametrize("name", ["expected_claims", "required_flags", "contains_all", "cost_usd"])
def test_a_gate_without_any_value_does_not_pass(name: str) -> None:
    report = evaluated(DATA, targets=load_targets().gated({name: 0.5}))
    row = next(row for row in report.rows if row.measure == name)
    assert (row.value, row.n_scored, row.verdict) == (None, 0, "unscored")
    assert not report.passed
    word, sentence = banner(report)
    assert word == "failed"
    assert f"not measured: {name}" in sentence


def test_a_target_without_any_value_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[targets]\nexpected_claims = 0.5\nclaim_support = 0.1\n")
    targets = load_targets(tmp_path / "mine.toml").gated("RR=0.1")
    report = evaluated(DATA, targets=targets, perspectives=["retrieval"])
    verdicts = {row.measure: row.verdict for row in report.rows if row.target is not None}
    assert verdicts["expected_claims"] == verdicts["claim_support"] == "unscored"
    assert "not measured: claim_support, expected_claims" in banner(report)[1]
    assert "citation_form" not in verdicts, (
        "a default target of what was left out does not concern this run"
    )


def test_the_command_refuses_to_pass_what_it_did_not_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.md").write_text("Cats sleep most of the day.")
    cases = [{"id": "q1", "question": "How long do cats sleep?", "expectedDocumentId": "cats.md"}]
    (tmp_path / "tests.json").write_text(json.dumps(cases))
    context = {"id": "cats.md", "text": "Cats sleep most of the day.", "doc_id": "cats.md"}
    (tmp_path / "log.jsonl").write_text(
        json.dumps({"query_id": "q1", "answer": "All day. [1]", "contexts": [context]})
    )
    command = [
        "eval",
        "--test-set",
        "tests.json",
        "--docs",
        "docs",
        "log.jsonl",
        "--output",
        "mine",
    ]
    done = CliRunner().invoke(app, [*command, "--fail-under", "F1@5=0.1,nDCG@1=0.5,R@3=0.9"])
    measured = {row.measure: row.value for row in load_result(tmp_path / "mine").rows}
    assert (measured["nDCG@1"], measured["R@3"]) == (1.0, 1.0)
    assert measured["F1@5"] == pytest.approx(1 / 3)
    done = CliRunner().invoke(app, [*command, "--force", "--fail-under", "expected_claims=0.5"])
    assert done.exit_code == 2, done.output
    assert (
        "--fail-under names expected_claims, of which nothing could be measured here" in done.output
    )


def test_ceilings_are_computed_before_the_system_is_asked_for_gates_alone() -> None:
    for gates, n_computed in (({}, 1), ({"R@5": 0.1}, 2)):
        with mock.patch.object(perspectives, "ceilings_of", wraps=ceilings_of) as ceilings:
            evaluate(BY_DOCUMENT, "bm25", perspectives=["retrieval"], fail_under=gates)
        assert ceilings.call_count == n_computed
