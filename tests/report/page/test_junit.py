"""JUnit of an evaluation: a build is red where the exit status is not 0, and only there."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

import ragbench as rb
from ragbench.evaluation import Result
from ragbench.evaluation.records import Change, Comparison, Flip, MeasureResult, PassFail
from ragbench.report.page.junit import report_junit
from ragbench.types import Answer, Judgement

N = 22


def result(passed: dict[str, bool | None], **changes: Any) -> Result:
    """Return a result whose questions passed, failed or are not decided."""
    verdicts: dict[str, dict[str, Any]] = {}
    for query_id, outcome in passed.items():
        reasons = ["gold facts 0.00 < 1.00"] if outcome is False else []
        verdicts[query_id] = {"passed": outcome, "reasons": reasons}
    rows = [(query_id, "nDCG@10", 0.5) for query_id in passed]
    config = {
        "parameters": {"retriever": "bm25"},
        "dataset": {"name": "tiny", "split": "test", "fingerprint": "abc"},
        "questions": {query_id: f"What is <{query_id}> & why?" for query_id in passed},
        "settings": changes.pop("settings", {}),
        "system": changes.pop("system", {}),
        "made_at": "2026-01-01T02:00:00+00:00",
    }
    changes.setdefault("rows", (target("nDCG@10", 0.5, "passed"),))
    return Result(
        "bm25",
        config,
        {},
        pd.DataFrame(rows, columns=["query_id", "measure", "value"]),
        answers=[Answer(query_id, "Yes.", latency_ms={"total": 250.0}) for query_id in passed],
        verdicts=verdicts,
        timings={"ask": 5.5, "search": 2.0, "retrieval": 0.25},
        **changes,
    )


def target(measure: str, value: float | None, verdict: str) -> MeasureResult:
    return MeasureResult(measure, "retrieval", value, None, None, N, N, target=0.4, verdict=verdict)


def suites(result: Result) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(report_junit(result))
    for name in ("tests", "failures", "skipped"):
        assert int(root.get(name, "")) == sum(int(suite.get(name, "")) for suite in root), name
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.get(name, "")) == len(suite.findall(f"testcase/{tag}"))
    return {str(suite.get("name")): suite for suite in root}


def properties(suite: ElementTree.Element) -> dict[str, str]:
    return {str(one.get("name")): str(one.get("value")) for one in suite.iter("property")}


FAILING = {f"q{i:02}": False if i < 18 else (None if i < 20 else True) for i in range(N)}
REGRESSION = Comparison(
    "before",
    "",
    (
        Change(
            "nDCG@10", "retrieval", 0.9, 0.5, -0.4, -0.5, -0.3, 0.001, 0.1, N, 0, 9, "regression"
        ),
    ),
    (PassFail("questions", N, (Flip("q00", "Why?", ()),), (), 0.001, "regression"),),
)
STATES: dict[str, dict[str, Any]] = {
    "green": {},
    "no targets": {"rows": (MeasureResult("nDCG@10", "retrieval", 0.5, None, None, N, N),)},
    "missed": {"rows": (target("nDCG@10", 0.3, "missed"),)},
    "beyond the ceiling": {"rows": (target("nDCG@10", 0.3, "unreachable"),)},
    "unmeasured target": {
        "rows": (target("nDCG@10", 0.5, "passed"), target("RR", None, "unscored")),
    },
    "unmeasured gate": {
        "rows": (target("nDCG@10", 0.5, "passed"), target("RR", None, "unscored")),
        "settings": {"gates": ["RR"]},
    },
    "nothing measured": {"rows": (target("nDCG@10", None, "unscored"),)},
    "regression": {"comparison": REGRESSION},
    "no regression": {"comparison": Comparison("before", "", (), ())},
    "judge failed": {
        "judgements": [
            Judgement(f"q{i:02}", "correctness", None, state="judge_failed", samples=(None,))
            for i in range(N)
        ]
    },
    "judge answered": {"judgements": [Judgement("q00", "correctness", 1.0, samples=(1.0,))]},
    "passages of other documents": {
        "settings": {"perspectives": ["retrieval"]},
        "system": {"is_foreign": True},
    },
}


RED = {
    "missed",
    "unmeasured gate",
    "nothing measured",
    "regression",
    "judge failed",
    "passages of other documents",
}


@pytest.mark.parametrize("state", STATES)
def test_a_build_is_red_where_the_exit_status_is_not_0(state: str) -> None:
    shown = result(FAILING, **STATES[state])
    assert shown.passed == (state not in RED)
    failures = sum(int(suite.get("failures", "")) for suite in suites(shown).values())
    assert (failures > 0) == (not shown.passed)


def test_questions_are_properties_or_skipped() -> None:
    """18 questions failed, 2 are not decided, 2 passed: none of them is a failure of CI."""
    questions = suites(result(FAILING))["questions"]
    assert (questions.get("tests"), questions.get("failures")) == ("2", "0")
    assert [case.get("name") for case in questions.findall("testcase")] == [
        "q18 What is <q18> & why?",
        "q19 What is <q19> & why?",
    ]
    states = properties(questions)
    assert len(states) == 20
    assert states["q00"] == "failed: What is <q00> & why? (gold facts 0.00 < 1.00)"
    assert states["q21"] == "passed: What is <q21> & why?"


def test_a_missed_pass_rate_lists_the_failed_questions() -> None:
    missed = result(FAILING, rows=(target("pass_rate", 0.1, "missed"),))
    [failure] = suites(missed)["targets"].iter("failure")
    assert failure.get("message") == "0.100 misses the target ≥ 0.4"
    assert len((failure.text or "").splitlines()) == 18


def test_the_suite_has_the_conclusion_and_times() -> None:
    shown = result(FAILING)
    conclusion = rb.evaluation.Results([shown]).conclude()
    both = suites(shown)
    stated = properties(both["targets"])
    assert stated == {"conclusion": conclusion.headline, "next step": conclusion.next_step}
    assert "18 failed, 2 not decided" in stated["conclusion"]
    assert both["targets"].get("time") == "5.750"  # of which the search is a part
    times = {case.get("name"): case.get("time") for case in both["targets"].iter("testcase")}
    assert times == {"evaluation": "5.750", "nDCG@10 ≥ 0.4": "0.250"}
    assert {case.get("time") for case in both["questions"].iter("testcase")} == {"0.250"}
    assert both["questions"].get("time") == "0.500"
    assert {suite.get("timestamp") for suite in both.values()} == {"2026-01-01T02:00:00+00:00"}


def test_hostile_texts_are_escaped_and_printable() -> None:
    shown = result({'q"<&\x1b[31m': False, "q2\x00": None})
    assert set(properties(suites(shown)["questions"])) == {'q"<&'}
