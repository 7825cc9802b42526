"""evaluate: a test set, a system, every perspective, targets -> one report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.diagnosis import recommend
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.cases import Decided, decide
from ragbench.evaluation.perspectives import ceilings_of, document_ceilings, level_of, measure, unlabelled, unmeasurable
from ragbench.evaluation.safety import safety_results
from ragbench.evaluation.targets import Targets, check_reachable, load_targets, reaches, verdict
from ragbench.metrics import higher_is_better
from ragbench.metrics.pipeline import outcome_of
from ragbench.report.environment import environment
from ragbench.report.evaluation import (
    HEADLINE,
    PERSPECTIVES,
    Advice,
    CaseResult,
    CategoryResult,
    Latency,
    Made,
    MeasureResult,
    Perspective,
    Report,
    SafetyFigure,
    SampleResult,
    TestSet,
    check_comparable,
    compare_reports,
    perspective_of,
)
from ragbench.scoring import abstention_table
from ragbench.scoring.pipeline import latency_table
from ragbench.statistics import summarise
from ragbench.types import LLM, Answer, Dataset, Embedder, System

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = tuple(name for name in PERSPECTIVES if name not in ("judge", "overall"))
# Not bounded by 1, or by something that depends on the chunks.
_NO_CEILING = ("span_precision", "span_iou")
CRITERIA = ("correctness", "faithfulness", "relevance")
"""What a judge is asked about each answer."""


def evaluate(
    dataset: Dataset,
    system: str | Path | System | Sequence[Answer] = "bm25",
    *,
    perspectives: Sequence[str] = (),
    targets: Targets | None = None,
    embedder: str | Embedder = "minilm",
    detector: Callable[[str], float] | None = None,
    judge: str | LLM = "",
    baseline: Report | None = None,
    name: str = "",
) -> Report:
    """Ask a system every question of a dataset, and score what it gave from every perspective.

    Args:
        dataset: from `load_dataset`; which labels its cases have decides what can be measured.
        system: a retriever's name for ragbench's own pipeline ("bm25", "hybrid:wordllama"), a TOML file that describes
            a pipeline or a service, a file of recorded answers, any `System`, or the answers themselves.
        perspectives: of "retrieval", "context", "groundedness", "answer", "pipeline", "safety"; () means all. One
            without labels is reported as not measured, never as 0.
        targets: from `load_targets`; None means the defaults.
        embedder: what measures likeness of texts.
        detector: text -> score in [0, 1], the detector of attacks that the safety samples are put to; None means the
            built-in one.
        judge: the language model that judges the answers; "" means none.
        baseline: an earlier report to compare with; refused before anything is asked if it is of other questions.
        name: of the report; "" makes one from the dataset and the system.

    Returns:
        The report: `summary` is its table, `passed` its verdict. `write_report` keeps it.

    >>> from ragbench.types import Case, Document
    >>> corpus = {"cats": Document("cats", "Cats sleep most of the day."), "dogs": Document("dogs", "Dogs bark.")}
    >>> case = Case("q1", "How long do cats sleep each day?", gold_facts=(("most of the day",),))
    >>> data = Dataset("pets", "test", corpus, [case], {"q1": {"cats": 1}})
    >>> report = evaluate(data, "bm25", perspectives=["retrieval"])
    >>> report.summary.set_index("measure").loc["nDCG@5", "verdict"]
    'passed'

    Raises:
        ConfigError: an unknown perspective or system, a gate (`fail_under`) that cannot be reached or measured.
        DataError: there are no questions and no safety samples.
        ComparisonError: the baseline is of other data.
    """
    chosen = check_perspectives(perspectives)
    aims = load_targets() if targets is None else targets
    check_evaluation(dataset, chosen, aims, baseline, embedder=embedder, judge=judge)
    start = time.perf_counter()
    answered = answer_all(dataset, system)
    asked = time.perf_counter() - start
    report = report_of(
        answered, perspectives=chosen, targets=aims, embedder=embedder, detector=detector, judge=judge, name=name
    )
    report = replace(report, made=replace(report.made, seconds={"ask": round(asked, 3), **report.made.seconds}))
    return report if baseline is None else replace(report, comparison=compare_reports(baseline, report))


def check_perspectives(names: Sequence[str]) -> tuple[str, ...]:
    """The perspectives named, in the order of a report; all for ().

    Raises:
        ConfigError: one that does not exist.
    """
    if isinstance(names, str):
        raise ConfigError(f"perspectives is a list of names such as ['retrieval'], not {names!r}")
    for name in names:
        if name not in _MEASURED:
            raise ConfigError(unknown("perspective", name, _MEASURED))
    return tuple(name for name in _MEASURED if not names or name in names)


def check_evaluation(
    dataset: Dataset,
    perspectives: Sequence[str],
    targets: Targets,
    baseline: Report | None = None,
    *,
    embedder: str | Embedder = "minilm",
    judge: str | LLM = "",
) -> None:
    """Everything that can be refused before the system is asked.

    Raises:
        DataError: nothing to ask.
        ConfigError: a gate that could never pass, or of a perspective that is left out or has no labels.
        ComparisonError: a baseline of other data.
    """
    if not dataset.cases and not dataset.safety_inputs and not dataset.safety_outputs:
        raise DataError(f"test set {dataset.name!r} is empty: it has neither questions nor safety samples")
    judged = ("judge",) if judge else ()
    for gate in sorted(targets.gates):
        wanted = perspective_of(gate)
        if wanted not in (*perspectives, *judged, "overall"):
            raise ConfigError(f"--fail-under names {gate}, of the perspective {wanted!r}, which is not evaluated here")
        if wanted in perspectives and (reason := unlabelled(wanted, dataset)):
            raise ConfigError(f"--fail-under names {gate}, which this test set cannot show: {reason}")
    best = document_ceilings(dataset)
    gates = [name for name in targets.gates if perspective_of(name) != "retrieval"]
    check_reachable(targets, {**best, **{name: top for name in gates if (top := _bound(name)) is not None}})
    if baseline is not None:
        query_ids = [case.query_id for case in dataset.cases]
        settings = _settings(perspectives, targets, embedder, judge)
        check_comparable(baseline, dataset.fingerprint, query_ids, settings)


def report_of(
    answered: Answered,
    *,
    perspectives: Sequence[str] = (),
    targets: Targets | None = None,
    embedder: str | Embedder = "minilm",
    detector: Callable[[str], float] | None = None,
    judge: str | LLM = "",
    name: str = "",
) -> Report:
    """The report on answers that are there; the arguments are those of `evaluate`."""
    from tqdm import tqdm

    chosen = check_perspectives(perspectives)
    aims = load_targets() if targets is None else targets
    dataset = answered.dataset
    frames: dict[str, pd.DataFrame] = {}
    states: list[Perspective] = []
    seconds: dict[str, float] = {}
    figures: tuple[SafetyFigure, ...] = ()
    samples: tuple[SampleResult, ...] = ()
    rows: list[MeasureResult] = []
    with tqdm(total=len(chosen) + bool(judge), desc="scoring", delay=2, leave=False, disable=None) as bar:
        for one in (*chosen, *(["judge"] if judge else [])):
            bar.set_postfix_str(one, refresh=False)
            start = time.perf_counter()
            reason = unmeasurable(one, answered)
            if not reason:
                frames[one] = measure(one, answered, embedder=embedder, judge=judge, criteria=CRITERIA)
                if one == "safety":
                    figures, samples, safety_rows = safety_results(dataset, detector)
                    rows += [_aimed(row, aims) for row in safety_rows]
                if not frames[one]["value"].notna().any() and not (one == "safety" and figures):
                    reason = _nothing_scored(one, answered)
            level = level_of(answered) if one == "retrieval" and not reason else ""
            states.append(Perspective(one, not reason, reason, f"judged by {level}" if level else ""))
            seconds[one] = round(time.perf_counter() - start, 3)
            bar.update()
    measured = {one.name: frames[one.name] for one in states if one.measured and one.name in frames}
    decided = decide(answered, measured, aims.cases)
    states.append(_overall_state(decided))
    frames["overall"] = _overall_frame(decided)
    best = ceilings_of(answered)
    check_reachable(aims, best)
    rows = [*(row for part in frames.values() for row in _rows(part, aims, best)), *rows]
    rows = [row for row in rows if any(one.name == row.perspective and one.measured for one in states)]
    cases = _cases(answered, _by_case(dataset, frames), decided)
    latency = _latency(answered) if "pipeline" in chosen else ()
    report = Report(
        name=name or f"{dataset.name}-{answered.system['name']}",
        test_set=_test_set(dataset),
        system=answered.system,
        settings=_settings(chosen, aims, embedder, judge),
        perspectives=tuple(states),
        measures=tuple(rows),
        cases=cases,
        categories=_categories(cases),
        safety=figures,
        samples=samples,
        made=Made(_now(), seconds, environment(), latency),
    )
    return replace(report, advice=_advice(report, answered))


def _settings(
    perspectives: Sequence[str], targets: Targets, embedder: str | Embedder, judge: str | LLM
) -> dict[str, Any]:
    return {
        "perspectives": list(perspectives),
        "embedder": embedder if isinstance(embedder, str) else embedder.name,
        "judge": judge if isinstance(judge, str) else judge.name,
        "targets": dict(targets.measures),
        "cases": dict(targets.cases),
        "gates": sorted(targets.gates),
    }


def _test_set(dataset: Dataset) -> TestSet:
    return TestSet(
        dataset.name, dataset.split, dataset.fingerprint, len(dataset.cases), len(dataset.corpus),
        len(dataset.safety_inputs), len(dataset.safety_outputs),
    )  # fmt: skip


def _nothing_scored(perspective: str, answered: Answered) -> str:
    failed = sum(answer.error is not None or answer.outcome == "failed" for answer in answered.answers)
    if failed and failed == len(answered.answers):
        return f"nothing to score: all {failed} answers failed, first {answered.answers[0].error}"
    return "nothing to score: no question has both the labels and an answer for any of its measures"


def _by_case(dataset: Dataset, frames: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, float | None]]:
    """query_id -> measure -> value; every case has every measure, None where it is unscored."""
    names = [name for frame in frames.values() for name in dict.fromkeys(frame["measure"])]
    scores: dict[str, dict[str, float | None]] = {case.query_id: dict.fromkeys(names) for case in dataset.cases}
    for frame in frames.values():
        for query_id, name, value in frame[["query_id", "measure", "value"]].itertuples(index=False, name=None):
            if query_id in scores and value is not None and math.isfinite(value):
                scores[query_id][name] = float(value)
    return scores


def _overall_frame(decided: Decided) -> pd.DataFrame:
    import pandas as pd

    rows = [(one, "pass_rate", math.nan if good is None else float(good)) for one, good in decided.passed.items()]
    passed = pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": "float64"})
    return pd.concat([decided.scores, passed], ignore_index=True) if len(decided.scores) else passed


def _overall_state(decided: Decided) -> Perspective:
    known = any(passed is not None for passed in decided.passed.values())
    return Perspective("overall", known, "" if known else "nothing decides whether a question passes")


def _rows(frame: pd.DataFrame, targets: Targets, best: Mapping[str, float]) -> list[MeasureResult]:
    if frame.empty:
        return []
    rows = []
    for row in summarise(frame).to_dict("records"):
        name = row["measure"]
        plain = MeasureResult(
            measure=name,
            perspective=perspective_of(name) or "answer",
            value=_number(row["mean"]),
            ci_low=_number(row["ci_low"]),
            ci_high=_number(row["ci_high"]),
            n_scored=int(row["n_scored"]),
            n=int(row["n"]),
            ceiling=best.get(name, _bound(name)),
        )
        rows.append(_aimed(plain, targets))
    return rows


def _aimed(row: MeasureResult, targets: Targets) -> MeasureResult:
    """The row with its target and what that says of it."""
    lower, target = not higher_is_better(row.measure), targets.measures.get(row.measure)
    said = verdict(row.value, target, ceiling=row.ceiling, lower_is_better=lower)
    sure = None
    if target is not None and row.ci_low is not None and row.ci_high is not None and said in ("passed", "missed"):
        sure = reaches(row.ci_low, target, lower) == reaches(row.ci_high, target, lower)
    return replace(row, target=target, verdict=said, sure=sure, lower_is_better=lower)


def _bound(measure: str) -> float | None:
    """The best value of a measure whatever the test set: 1, or 0 where lower is better; None where it is not known."""
    if measure == "fact_dispersion":
        return 1.0
    if not higher_is_better(measure):
        return 0.0 if "latency" not in measure else None
    return None if measure.startswith(_NO_CEILING) else 1.0


def _cases(
    answered: Answered,
    scores: Mapping[str, Mapping[str, float | None]],
    decided: Decided,
) -> tuple[CaseResult, ...]:
    from ragbench.evaluation.masking import masked

    given = {answer.query_id: answer for answer in answered.answers}
    rows = []
    for case in answered.dataset.cases:
        answer = given.get(case.query_id) or Answer(case.query_id, "", outcome="failed", error="no answer")
        grades = answered.dataset.qrels.get(case.query_id, {})
        rows.append(
            CaseResult(
                query_id=case.query_id,
                question=case.text,
                category=case.category,
                query_type=case.query_type,
                passed=decided.passed.get(case.query_id),
                reasons=tuple(masked(reason) for reason in decided.reasons.get(case.query_id, ())),
                outcome=outcome_of(answer),
                expected_outcome=case.expected_outcome,
                answer=masked(answer.text),
                retrieved=answer.contexts,
                relevant=tuple(
                    sorted((one for one, grade in grades.items() if grade > 0), key=lambda one: -grades[one])
                ),
                scores=scores[case.query_id],
            )
        )
    return tuple(rows)


def _categories(cases: Sequence[CaseResult]) -> tuple[CategoryResult, ...]:
    names = list(dict.fromkeys(case.category for case in cases))
    if not any(names):
        return ()
    import numpy as np

    from ragbench.statistics.intervals import wilson_interval

    rows = []
    for name in names:
        own = [case for case in cases if case.category == name]
        passed = [case.passed for case in own if case.passed is not None]
        low, high = wilson_interval(np.array(passed, dtype=float), 0.05) if passed else (None, None)
        means = {
            measure: _mean([case.scores[measure] for case in own]) for measure in own[0].scores if measure in HEADLINE
        }
        rate = sum(passed) / len(passed) if passed else None
        rows.append(CategoryResult(name, len(own), len(passed), rate, _number(low), _number(high), means))
    return tuple(rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _number(value: Any) -> float | None:
    import pandas as pd

    return None if value is None or pd.isna(value) else float(value)


def _latency(answered: Answered) -> tuple[Latency, ...]:
    budgets: dict[str, set[float]] = {}
    for case in answered.dataset.cases:
        for stage, budget in case.latency_budget_ms.items():
            budgets.setdefault(stage, set()).add(budget)
    # Percentiles over questions of different budgets can be held against none of them.
    shared = {stage: min(values) for stage, values in budgets.items() if len(values) == 1}
    rows = latency_table(answered.latency, shared).to_dict("records")
    return tuple(
        Latency(
            stage=row["stage"],
            n=int(row["n"]),
            **{name: _number(row[name]) for name in ("p50", "p95", "p99", "budget")},
            verdict=row["verdict"],
        )
        for row in rows
    )


def _advice(report: Report, answered: Answered) -> tuple[Advice, ...]:
    summary = report.summary.rename(columns={"value": "mean"})
    best = {row.measure: row.ceiling for row in report.measures if row.ceiling is not None}
    asked = answered.has_answers and bool(answered.dataset.cases)
    found = recommend(
        summary[["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]],
        {row.measure: row.target for row in report.measures if row.target is not None},
        ceilings=best,
        abstentions=abstention_table(answered.dataset, answered.answers) if asked else None,
    )
    return tuple(Advice(one.title, one.cause, one.action, one.evidence) for one in found)
