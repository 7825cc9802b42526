"""evaluate: a test set, a system, every perspective, targets -> one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.assembling import (
    advice_for,
    aimed,
    bound_of,
    cases_of,
    categories_of,
    latency_of,
    overall_frame,
    overall_state,
    rows_of,
    scores_by_case,
)
from ragbench.evaluation.cases import decide
from ragbench.evaluation.perspectives import ceilings_of, document_ceilings, level_of, measure, unlabelled, unmeasurable
from ragbench.evaluation.safety import safety_results
from ragbench.evaluation.targets import Targets, check_reachable, load_targets
from ragbench.report.environment import environment
from ragbench.report.evaluation import (
    PERSPECTIVES,
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
from ragbench.types import LLM, Answer, Dataset, Embedder, System

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = tuple(name for name in PERSPECTIVES if name not in ("judge", "overall"))
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
    check_reachable(targets, {**best, **{name: top for name in gates if (top := bound_of(name)) is not None}})
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
                    rows += [aimed(row, aims) for row in safety_rows]
                if not frames[one]["value"].notna().any() and not (one == "safety" and figures):
                    reason = _nothing_scored(one, answered)
            level = level_of(answered) if one == "retrieval" and not reason else ""
            states.append(Perspective(one, not reason, reason, f"judged by {level}" if level else ""))
            seconds[one] = round(time.perf_counter() - start, 3)
            bar.update()
    measured = {one.name: frames[one.name] for one in states if one.measured and one.name in frames}
    decided = decide(answered, measured, aims.cases)
    states.append(overall_state(decided))
    frames["overall"] = overall_frame(decided)
    best = ceilings_of(answered)
    check_reachable(aims, best)
    rows = [*(row for part in frames.values() for row in rows_of(part, aims, best)), *rows]
    rows = [row for row in rows if any(one.name == row.perspective and one.measured for one in states)]
    cases = cases_of(answered, scores_by_case(dataset, frames), decided)
    latency = latency_of(answered) if "pipeline" in chosen else ()
    report = Report(
        name=name or f"{dataset.name}-{answered.system['name']}",
        test_set=_test_set(dataset),
        system=answered.system,
        settings=_settings(chosen, aims, embedder, judge),
        perspectives=tuple(states),
        measures=tuple(rows),
        cases=cases,
        categories=categories_of(cases),
        safety=figures,
        samples=samples,
        made=Made(_now(), seconds, environment(), latency),
    )
    return replace(report, advice=advice_for(report, answered))


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
    failed = sum(answer.failed for answer in answered.answers)
    if failed and failed == len(answered.answers):
        return f"nothing to score: all {failed} answers failed, first {answered.answers[0].error}"
    return "nothing to score: no question has both the labels and an answer for any of its measures"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
