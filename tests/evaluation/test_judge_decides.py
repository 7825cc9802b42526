"""Where a judge was asked, its verdict decides, and a judge that did not answer lets nothing pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import FailureKind
from ragbench.evaluation import compare_results
from ragbench.evaluation.records import MeasureResult
from ragbench.llms import ScriptedLLM
from ragbench.report.page import banner, report_html, report_markdown
from ragbench.report.page.report_json import report_json
from ragbench.types import Case, Completion, Dataset, Document

N = 100
CORPUS = {
    "rail": Document(
        "rail", "The railway of the valley was opened in the year 1881 after ten years of work."
    )
}
CASES = tuple(
    Case(f"q{i:03}", f"When was line {i} opened?", reference_answer="It was opened in 1881.")
    for i in range(N)
)
RIGHT, OTHER = "It was opened in 1881.", "Bananas are yellow and grow in warm places."
pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")


def evaluated(judge: object, text: str = RIGHT, n: int = 4, **options: object) -> rb.Result:
    data = Dataset(
        "rail", "test", CORPUS, CASES[:n], {case.query_id: {"rail": 1} for case in CASES[:n]}
    )
    answer = {"answer": text, "contexts": [{"id": "rail", "text": CORPUS["rail"].text}]}
    options = {
        "perspectives": ["answer", "retrieval"],
        "criteria": ["correctness"],
        "embedder": "wordllama",
    } | options
    return rb.evaluate(data, lambda question: answer, judge=judge, **options)  # type: ignore[arg-type]


def verdicts(*found: bool) -> ScriptedLLM:
    return ScriptedLLM(
        [json.dumps({"correctness": {"reason": "r", "verdict": verdict}}) for verdict in found]
    )


def row(result: rb.Result, measure: str) -> MeasureResult:
    return next(row for row in result.rows if row.measure == measure)


def test_a_false_verdict_fails_an_answer_that_is_like_the_reference() -> None:
    result = evaluated(verdicts(False, False, False, False))
    assert row(result, "semantic_similarity").value == pytest.approx(1)
    assert result.counts["passed"] == 0
    assert result.cases[0].reasons == ("correctness by the judge 0.00 < 0.50",)
    assert (row(result, "llm_correctness").verdict, row(result, "pass_rate").verdict) == (
        "missed",
        "missed",
    )
    assert not result.passed
    assert banner(result)[0] == "failed"


def test_a_true_verdict_passes_an_answer_in_other_words() -> None:
    result = evaluated(verdicts(True, True, True, True), OTHER)
    assert row(result, "semantic_similarity").value == pytest.approx(0, abs=0.2)
    assert (result.counts["passed"], row(result, "llm_correctness").verdict) == (4, "passed")
    assert result.passed


def test_the_verdict_takes_the_place_of_the_similarity_in_the_overall() -> None:
    by_case = evaluated(verdicts(True, False, True, False)).scores.pivot(
        index="query_id", columns="measure"
    )["value"]
    assert by_case["overall"].tolist() == pytest.approx(
        [1, 20 / 60, 1, 20 / 60]
    )  # the other part: the right document
    assert by_case["overall_llm_correctness"].tolist() == [1, 0, 1, 0]
    assert "overall_semantic" not in by_case


def test_without_a_judge_similarity_to_the_reference_decides_nothing() -> None:
    for answer in (OTHER, RIGHT):
        counts = evaluated("", answer, perspectives=["answer"]).counts
        assert (counts["passed"], counts["failed"], counts["undecided"]) == (0, 0, 4)


class Failing:
    """A judge that fails on some of the answers, by request or by what it replies."""

    name = "failing"

    def __init__(self, n_failed: int, *, unreadable: bool = False) -> None:
        self.fails = [case.text for case in CASES[:n_failed]]
        self.unreadable = unreadable

    def generate(self, prompt: str, **options: object) -> Completion:
        if not any(question in prompt for question in self.fails):
            return Completion('{"correctness": {"reason": "r", "verdict": true}}', self.name)
        if self.unreadable:
            return Completion("Well.", self.name)
        return Completion(
            "", self.name, error="401: the key is refused", failure=FailureKind.REFUSED
        )


@pytest.mark.parametrize("unreadable", [False, True])
@pytest.mark.parametrize(
    ("n_failed", "passed"), [(0, True), (19, True), (20, True), (21, False), (100, False)]
)
def test_a_judge_that_fails_on_more_than_a_fifth_lets_nothing_pass(
    n_failed: int, passed: bool, unreadable: bool
) -> None:
    result = evaluated(Failing(n_failed, unreadable=unreadable), n=N)
    counts = result.counts
    assert result.passed == passed
    assert (counts["passed"], counts["failed"], counts["undecided"]) == (N - n_failed, 0, n_failed)
    assert row(result, "pass_rate").n_scored == N - n_failed if n_failed < N else True
    verdict, sentence = banner(result)
    assert verdict == ("passed" if passed else "failed")
    assert (f"the judge failed on {n_failed} of 100 answers" in sentence) == (n_failed > 0)


def test_the_answers_that_a_judge_failed_on_are_not_decided_by_their_similarity() -> None:
    result = evaluated(Failing(1), OTHER, n=10)
    assert [case.passed for case in result.cases] == [None] + [True] * 9
    assert result.cases[0].scores["overall"] is None


def test_a_question_on_which_the_judge_failed_is_not_decided_by_other_labels() -> None:
    data = Dataset("rail", "test", CORPUS, CASES[:1], {CASES[0].query_id: {"elsewhere": 1}})
    answer = {"answer": RIGHT, "contexts": [{"id": "rail", "text": CORPUS["rail"].text}]}
    report = rb.evaluate(data, lambda question: answer, judge=Failing(1), criteria=["correctness"])
    assert (report.cases[0].passed, report.cases[0].reasons) == (None, ())
    assert report.counts["undecided"] == 1


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[int, str]]:
    """Run `ragbench eval` on ten right answers with a judge of the module `judges`."""
    cases = [
        {"id": case.query_id, "query": case.text, "reference_answer": RIGHT} for case in CASES[:10]
    ]
    (tmp_path / "tests.yaml").write_text(json.dumps({"cases": cases}))
    lines = [
        json.dumps({"query_id": case.query_id, "answer": RIGHT, "contexts": [CORPUS["rail"].text]})
        for case in CASES[:10]
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rail.md").write_text(CORPUS["rail"].text)
    (tmp_path / "judges_of_this_test.py").write_text(
        "from tests.evaluation.test_judge_decides import Failing\n"
        "some, many, all_ = Failing(2), Failing(3), Failing(10)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RAGBENCH_YES", "1")

    def run(judge: str) -> tuple[int, str]:
        command = (
            "eval --test-set tests.yaml --docs docs answers.jsonl --perspective "
            "answer --force --output out"
        )
        done = CliRunner().invoke(
            app,
            [
                *command.split(),
                "--judge",
                f"judges_of_this_test:{judge}",
                "--criteria",
                "correctness",
            ],
        )
        return done.exit_code, " ".join(done.output.split())

    return run


def test_the_exit_status_of_a_judge_that_fails(files: Callable[[str], tuple[int, str]]) -> None:
    code, shown = files("some")
    assert code == 0, shown
    assert "the judge failed on 2 of 10 answers" in shown[shown.rindex("PASSED") :]
    for judge, n_failed in (("many", 3), ("all_", 10)):
        code, shown = files(judge)
        assert code == 2, shown
        assert f"he judge failed on {n_failed} of 10 answers" in shown[shown.rindex("FAILED") :]
        assert (
            f"{n_failed} of 10 judgements failed ({n_failed * 10}%), the first: 401: the key is "
            "refused" in shown
        )


def test_bounds_over_unreadable_verdicts_are_next_to_the_mean_and_decide() -> None:
    before = evaluated(Failing(0), n=N)
    lost = evaluated(Failing(15, unreadable=True), n=N)
    assert lost.judged_bounds == {"llm_correctness": (0.85, 1.0)}
    assert not before.judged_bounds
    sentence = "0.850 to 1.000 with the unreadable verdicts"
    assert f"1.000 ({sentence})" in report_markdown(lost)
    assert sentence in report_html(lost)
    assert json.loads(report_json(lost))["judged_bounds"] == {"llm_correctness": [0.85, 1.0]}
    board = rb.Results([replace(before, name="a"), replace(lost, name="b")]).leaderboard()
    assert board["llm_correctness_bound_low"].dropna().tolist() == [0.85]
    [change] = [
        each for each in compare_results(before, lost).changes if each.measure == "llm_correctness"
    ]
    assert change.ci_low is not None
    assert change.ci_low < -0.1
    [note] = [each for each in compare_results(before, lost).notes if "missing" in each]
    assert "0 of 100 answers of the baseline, 15 of 100 of this evaluation" in note


TUNED = rb.judges.Criterion(
    "correctness_tuned",
    "Does the answer state what the reference states, to the year?",
    {"yes": 1.0, "no": 0.0},
    ["reference"],
    wording_of="correctness",
)


def tuned_verdicts(*levels: str) -> ScriptedLLM:
    return ScriptedLLM(
        [json.dumps({TUNED.name: {"reason": "r", "verdict": level}}) for level in levels]
    )


def test_a_tuned_wording_decides_as_the_criterion_that_it_words(tmp_path: Path) -> None:
    plain = evaluated(verdicts(True, False, True, False))
    tuned = evaluated(tuned_verdicts("yes", "no", "yes", "no"), criteria=[TUNED])
    assert {"llm_correctness", "overall_llm_correctness"} - {*tuned.scores["measure"]} == {
        "llm_correctness"
    }
    for result in (plain, tuned):
        assert [case.passed for case in result.cases] == [True, False, True, False]
        assert result.cases[1].reasons == ("correctness by the judge 0.00 < 0.50",)
    assert plain.diagnosis is not None
    assert tuned.diagnosis is not None
    assert tuned.diagnosis["cause"].tolist() == plain.diagnosis["cause"].tolist()
    assert row(tuned, "llm_correctness_tuned").target == row(plain, "llm_correctness").target == 0.8
    rb.save(tuned, tmp_path / "tuned")
    assert rb.load_results(tmp_path)[0].counts == plain.counts


def test_answers_are_ranked_by_a_tuned_wording_before_a_heuristic() -> None:
    options: dict[str, Any] = {"criteria": [TUNED], "n": 12, "perspectives": ["answer"]}
    good = evaluated(tuned_verdicts(*["yes"] * 12), OTHER, **options)
    bad = evaluated(tuned_verdicts(*["no"] * 12), RIGHT, **options)
    results = rb.Results([replace(good, name="good"), replace(bad, name="bad")])
    conclusion = results.conclude("bad")
    assert conclusion.measure == "llm_correctness_tuned"
    assert "(good) is better than" in conclusion.headline


def test_beside_the_criterion_itself_a_tuned_wording_decides_nothing() -> None:
    both = [
        json.dumps(
            {
                "correctness": {"reason": "r", "verdict": True},
                TUNED.name: {"reason": "r", "verdict": "no"},
            }
        )
    ]
    result = evaluated(
        ScriptedLLM(both * 4), criteria=["correctness", TUNED], combine_criteria=True
    )
    assert result.counts["passed"] == 4
