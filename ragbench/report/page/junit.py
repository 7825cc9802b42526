"""A result as the XML of JUnit, which CI servers show as tests: what is a test case, when it fails,
and when it is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragbench.errors import plural
from ragbench.evaluation import Result, Results
from ragbench.evaluation.perspectives import attribution_doubt
from ragbench.evaluation.records import SHOWN_ONLY, CaseResult, Comparison, MeasureResult
from ragbench.report.page.sentences import aim, failed_cases, number, signed, templates


class Check(NamedTuple):
    """One test case: its outcome is "passed", "failed" or "skipped".

    Attributes:
        message: the reason of a failure or a skip; it is not shown for a test case that passed.
        details: further lines of a failure.
        seconds: how long it took.
    """

    name: str
    outcome: str
    message: str = ""
    details: Sequence[str] = ()
    seconds: float = 0.0


def report_junit(result: Result) -> str:
    """Return a result as XML of JUnit. It has a failure if and only if `ragbench eval` ends with an
    exit status other than 0.

    Targets, gates, regressions and the judge are test cases. A question is a property if it passed or
    failed, as it decides nothing by itself, and a skipped test case if no label decides it. The
    conclusion and its next step are properties, too.
    """
    conclusion = Results([result]).conclude()
    template = templates(autoescape=True).get_template("report.xml.j2")
    return template.render(
        made_at=result.made_at,
        seconds_of_all=result.seconds,
        conclusion=conclusion,
        checks=_checks(result),
        decided=[
            (case, _passed_or_reasons(case)) for case in result.cases if case.passed is not None
        ],
        undecided=[_undecided_check(result, case) for case in result.cases if case.passed is None],
    )


def _checks(result: Result) -> list[Check]:
    """Return a test case of JUnit for each condition of `Result.passed`.

    The conditions are: something was measured, targets are met, there is no regression, the judge
    works, and passages are of the documents. The message of one that passed is not shown.
    """
    measured = "passed" if result.is_measured else "failed"
    checks = [Check("evaluation", measured, "nothing could be measured", seconds=result.seconds)]
    checks += [_target_check(result, row) for row in result.rows if row.target is not None]
    if result.comparison is not None:
        checks += _comparison_checks(result.comparison)
    if n_judged := result.counts.get("judgements"):
        outcome = "failed" if result.judge_failed else "passed"
        n_failed = result.counts["failed_judgements"]
        message = f"the judge failed on {n_failed} of {plural(n_judged, 'answer')}"
        checks.append(Check("judge", outcome, message))
    if "retrieval" in result.settings.get("perspectives", ()):
        outcome = "failed" if result.system.get("is_foreign") else "passed"
        message = attribution_doubt(result.system)
        checks.append(Check("passages are of the documents", outcome, message))
    return checks


def _comparison_checks(comparison: Comparison) -> list[Check]:
    """Return the test cases about the comparison with the baseline; a regression is a failure.

    There is one for each compared measure, one for each group of cases that pass or fail, such as the
    questions, and one if questions lost their labels with the documents. A heuristic without a target
    decides nothing, and is skipped. The message of one that passed is not shown.
    """
    against = f"against {comparison.baseline}"
    checks = []
    if comparison.lost:
        checks.append(Check(f"labels {against}", "failed", comparison.lost_sentence))
    for change in comparison.changes:
        if change.verdict == SHOWN_ONLY:
            message = "a heuristic without a target decides nothing"
            checks.append(Check(f"{change.measure} {against}", "skipped", message))
            continue
        outcome = "failed" if change.verdict == "regression" else "passed"
        values = f"{number(change.baseline)} -> {number(change.contender)}"
        message = f"regression: {values}, difference {signed(change.difference)}"
        checks.append(Check(f"{change.measure} {against}", outcome, message))
    for group in comparison.pass_fail:
        outcome = "failed" if group.verdict == "regression" else "passed"
        message = f"regression: {len(group.newly_failing)} newly failing of {group.n}"
        newly_failing = [f"{flip.query_id} {flip.question}" for flip in group.newly_failing]
        checks.append(Check(f"{group.what} {against}", outcome, message, newly_failing))
    return checks


def _target_check(result: Result, row: MeasureResult) -> Check:
    """Return the test case of a measure with a target.

    It is skipped if no system could reach the target on this test set. If the measure has no value,
    a gate (a target of --fail-under) fails, and another target is skipped.
    """
    target = aim(row.target, row.lower_is_better)
    name = f"{row.measure} {target}"
    seconds = result.timings.get(row.perspective, 0.0)
    if row.verdict == "passed":
        return Check(name, "passed", seconds=seconds)
    if row.verdict == "missed":
        message = f"{number(row.value)} misses the target {target}"
        details: list[str] = []
        if row.measure == "pass_rate":
            details = [
                f"{case.query_id} {_passed_or_reasons(case)}" for case in failed_cases(result)
            ]
        return Check(name, "failed", message, details, seconds)
    if row.verdict == "unreachable":
        return Check(name, "skipped", "beyond the ceiling of this test set", seconds=seconds)
    is_gate = row.measure in result.settings.get("gates", ())
    return Check(name, "failed" if is_gate else "skipped", "not measured", seconds=seconds)


def _passed_or_reasons(case: CaseResult) -> str:
    """Return whether a question passed and, if not, the reasons."""
    if case.passed:
        return f"passed: {case.question}"
    return f"failed: {case.question} ({'; '.join(case.reasons) or 'no reason'})"


def _undecided_check(result: Result, case: CaseResult) -> Check:
    """Return the test case of a question that no label decides."""
    milliseconds = result.answer_of[case.query_id].latency_ms.get("total", 0.0)
    name = f"{case.query_id} {case.question}"
    return Check(name, "skipped", "not decided by any label", seconds=milliseconds / 1000)
