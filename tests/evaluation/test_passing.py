"""Which answers pass, why others do not, and what the overall rests on."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.errors import DataWarning
from ragbench.evaluation import Result, Results, evaluate, load_targets
from ragbench.evaluation.records import CaseResult
from ragbench.llms import ScriptedLLM
from ragbench.report.page import sentences
from ragbench.types import Answer, Case, Dataset, Document, Passage

CORPUS = {
    "vacation": Document("vacation", "Employees get 25 days of vacation each year."),
    "bananas": Document("bananas", "Bananas are yellow. They grow in warm places."),
}
CASE = Case(
    "q1",
    "How many vacation days do employees get?",
    reference_answer="Employees get 25 days of vacation each year.",
    gold_facts=(("25 days",),),
    expected_claims=("Employees get 25 days of vacation.",),
    expected_citations=("vacation",),
    required_keywords=("25 days",),
)
RIGHT = Answer(
    "q1",
    "Employees get 25 days of vacation each year. [1]",
    ("vacation",),
    ("vacation",),
    outcome="success",
    passages=(Passage("vacation", CORPUS["vacation"].text, "vacation"),),
)
BANANAS = replace(
    RIGHT,
    text="Bananas are yellow. [1]",
    contexts=("bananas",),
    citations=("bananas",),
    passages=(Passage("bananas", CORPUS["bananas"].text, "bananas"),),
)


def evaluated(answer: Answer, case: Case = CASE, **options: object) -> Result:
    data = Dataset("staff", "test", CORPUS, (case,), {"q1": {"vacation": 1}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return evaluate(data, [answer], embedder="wordllama", **options)  # type: ignore[arg-type]


def one(report: Result) -> CaseResult:
    [case] = report.cases
    return case


def value(report: Result, measure: str) -> float | None:
    return next((row.value for row in report.rows if row.measure == measure), None)


def test_the_right_answer_passes() -> None:
    report = evaluated(RIGHT)
    assert one(report).passed, one(report).reasons
    assert value(report, "overall") == pytest.approx(1.0, abs=0.02)


ONLY_DOCUMENTS = Case("q1", CASE.text, reference_answer=CASE.reference_answer)


def test_passing_by_documents_alone_is_said_and_a_judge_is_the_next_step() -> None:
    report = evaluated(RIGHT, ONLY_DOCUMENTS)
    assert one(report).passed
    assert report.n_unchecked == 1
    said = "no label or judge decides whether 1 passed answer is right"
    assert report.unchecked_sentence == said
    assert said in sentences.banner(report)[1]
    conclusion = Results([report]).conclude()
    assert conclusion.evidence[0] == f"N{said[1:]}."
    assert conclusion.action == "label"
    assert conclusion.next_step.startswith("let a judge or gold facts decide")


@pytest.mark.parametrize(
    "case",
    [
        replace(ONLY_DOCUMENTS, gold_facts=(("25 days",),)),
        replace(ONLY_DOCUMENTS, required_keywords=("25 days",)),
        replace(ONLY_DOCUMENTS, forbidden_claims=("Employees get 30 days of vacation.",)),
    ],
)
def test_a_label_of_what_an_answer_says_checks_it(case: Case) -> None:
    report = evaluated(RIGHT, case)
    assert one(report).passed
    assert report.unchecked_sentence == ""
    assert "label or judge" not in sentences.banner(report)[1]


def test_a_verdict_or_a_threshold_of_similarity_checks_an_answer(tmp_path: Path) -> None:
    reply = '{"correctness": {"reason": "same", "verdict": "correct"}}'
    assert evaluated(RIGHT, ONLY_DOCUMENTS, judge=ScriptedLLM([reply] * 5)).n_unchecked == 0
    (tmp_path / "targets.toml").write_text("[cases]\nsemantic = 0.5\n")
    strict = load_targets(tmp_path / "targets.toml")
    assert evaluated(RIGHT, ONLY_DOCUMENTS, targets=strict).n_unchecked == 0


def test_what_failed_or_has_no_answer_is_not_called_unchecked() -> None:
    assert evaluated(BANANAS, ONLY_DOCUMENTS).n_unchecked == 0  # fails by its documents
    unanswerable = Case("q1", CASE.text, expected_outcome="no_results")
    abstained = Answer("q1", "no answer found in the documents", outcome="no_results")
    assert evaluated(abstained, unanswerable).n_unchecked == 0


def test_an_answer_that_misses_every_label_fails_and_the_reasons_name_them() -> None:
    bare = replace(CASE, reference_answer=None, required_keywords=())
    case = one(evaluated(BANANAS, bare))
    assert case.passed is False
    assert case.reasons == (
        "expected document not retrieved: vacation",
        "missing gold facts: 25 days",
        "cites bananas, expected vacation",
    )


def test_a_heuristic_fails_an_answer_only_where_a_threshold_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[cases]\nsemantic = 0.7\n")
    case = Case("q1", CASE.text, reference_answer="Twenty-five days, it is written there.")
    short = replace(RIGHT, text="25 [1]")
    assert one(evaluated(short, case)).passed is True  # by its document
    astray = replace(BANANAS, text="25 [1]")
    assert one(evaluated(astray, case)).passed is False  # another document was found
    alone = Dataset("staff", "test", CORPUS, (case,), {"q1": {}})
    undecided = evaluate(alone, [short], embedder="wordllama")
    assert one(undecided).passed is None
    assert (undecided.counts["passed"], undecided.counts["undecided"]) == (0, 1)
    named = evaluated(short, case, targets=load_targets(tmp_path / "mine.toml"))
    assert one(named).passed is False
    assert one(named).reasons[0].startswith("semantic similarity")


@pytest.mark.parametrize("threshold", ["gold_facts", "expected_citations"])
def test_the_targets_file_sets_each_threshold(threshold: str, tmp_path: Path) -> None:
    case = replace(Case("q1", CASE.text), **{threshold: getattr(CASE, threshold)})
    file = tmp_path / "mine.toml"
    file.write_text("[cases]\nexpected_document = 0\n")
    assert one(evaluated(BANANAS, case, targets=load_targets(file))).passed is False
    file.write_text(f"[cases]\nexpected_document = 0\n{threshold} = 0\n")
    assert one(evaluated(BANANAS, case, targets=load_targets(file))).passed is True


def test_an_uncertain_answer_fails_where_success_was_expected(tmp_path: Path) -> None:
    case = replace(CASE, expected_outcome="success")
    unsure = replace(RIGHT, confidence=0.2)
    assert one(evaluated(RIGHT, case)).passed
    assert one(evaluated(unsure, case)).reasons == (
        "outcome uncertain (confidence 0.20) where success was expected",
    )
    (tmp_path / "mine.toml").write_text("[cases]\noutcome = 0\n")
    assert one(evaluated(unsure, case, targets=load_targets(tmp_path / "mine.toml"))).passed


def test_the_wrong_document_costs_a_fifth_of_the_overall_and_fails() -> None:
    right = evaluated(RIGHT, replace(CASE, expected_citations=()))
    copied = Passage(
        "bananas", CORPUS["vacation"].text, "bananas"
    )  # the words of the right document, in a wrong one
    wrong = evaluated(
        replace(RIGHT, contexts=("bananas",), citations=("bananas",), passages=(copied,)),
        replace(CASE, expected_citations=()),
    )
    before, after = value(right, "overall"), value(wrong, "overall")
    assert before is not None
    assert after == pytest.approx(before - 0.2, abs=1e-6)
    assert one(wrong).reasons == ("expected document not retrieved: vacation",)
    assert (value(right, "expected_document"), value(wrong, "expected_document")) == (1.0, 0.0)


def test_a_part_that_is_switched_off_leaves_the_overall(tmp_path: Path) -> None:
    copied = Passage("bananas", CORPUS["vacation"].text, "bananas")
    wrong = replace(RIGHT, contexts=("bananas",), citations=("bananas",), passages=(copied,))
    perspectives = ["groundedness", "answer"]
    without = evaluated(wrong, replace(CASE, expected_citations=()), perspectives=perspectives)
    assert value(without, "overall_expected_document") is None
    assert value(without, "overall") == pytest.approx(1.0, abs=0.02)
    assert one(without).passed
    (tmp_path / "mine.toml").write_text("[weights]\nexpected_document = 0\n")
    weighted = evaluated(wrong, targets=load_targets(tmp_path / "mine.toml"))
    assert value(weighted, "overall_expected_document") is None
    assert value(weighted, "overall") == pytest.approx(1.0, abs=0.02)
    grounded = evaluated(replace(RIGHT, text="Yes. [1]"), perspectives=["groundedness"])
    assert not any("keyword" in reason for reason in one(grounded).reasons)


def test_the_judges_hallucination_takes_part_where_a_judge_ran(tmp_path: Path) -> None:
    reply = (
        '{"correctness": {"reason": "same", "verdict": "correct"}, "relevance": {"reason": '
        '"yes", "score": 1}, "faithfulness": {"claims": [{"claim": "25 days", "supported": true, '
        '"document": 1, "quote": "25 days"}, {"claim": "each year", "supported": false, "document": null}]}}'
    )
    judged = evaluated(RIGHT, judge=ScriptedLLM([reply] * 5))
    assert value(judged, "llm_faithfulness") == 0.5, [
        row for row in judged.rows if row.perspective == "judge"
    ]
    assert value(judged, "overall_llm_hallucination") == 0.5
    assert value(judged, "overall_hallucination") is None
    assert value(judged, "overall") == pytest.approx(0.9, abs=0.02)
    assert one(judged).reasons == ("hallucination by the judge 0.50 > 0.20",)


def test_an_unanswered_question_counts_0_in_the_overall() -> None:
    cases = (
        CASE,
        replace(CASE, query_id="q2"),
        Case("q3", "Who rules the moon?", expected_outcome="no_results"),
    )
    data = Dataset(
        "staff", "test", CORPUS, cases, {"q1": {"vacation": 1}, "q2": {"vacation": 1}, "q3": {}}
    )
    silent = Answer(
        "q2",
        "no answer found in the documents",
        ("vacation",),
        outcome="no_results",
        passages=RIGHT.passages,
    )
    report = evaluate(data, [RIGHT, silent, replace(silent, query_id="q3")], embedder="wordllama")
    row = next(row for row in report.rows if row.measure == "overall")
    assert row.value == pytest.approx(0.5, abs=0.01)
    assert (row.n_scored, row.n) == (2, 3)
