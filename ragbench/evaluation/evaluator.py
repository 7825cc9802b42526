"""evaluate: a dataset, a system, every perspective, targets -> one result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from ragbench.datasets import load_dataset
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.evaluation import calibrations, diagnose
from ragbench.evaluation import perspectives as views
from ragbench.evaluation import rows as case_rows
from ragbench.evaluation.comparison import check_comparable, compare_reports
from ragbench.evaluation.costs import cost_facts
from ragbench.evaluation.folder import load_result
from ragbench.evaluation.provenance import environment
from ragbench.evaluation.records import BUILT_IN, Made, MeasureResult, Perspective, Report, TestSet
from ragbench.evaluation.requests import CRITERIA, Answered, ask_all, criteria_named, judgements_of, texts_of
from ragbench.evaluation.results import Result, name_of, new_result
from ragbench.evaluation.safety import SafetyResults, safety_results
from ragbench.evaluation.targets import Targets, check_reachable, load_targets
from ragbench.judges import prompts as judge_prompts
from ragbench.llms import check_servers, load_llm
from ragbench.metrics import score_ablations, score_judgements, score_own
from ragbench.metrics.groundedness import SUPPORT_MODELS, check_support_model, load_support_model
from ragbench.metrics.groundedness.checks import STRICT
from ragbench.metrics.pipeline import is_latency_measure
from ragbench.metrics.safety import load_detector
from ragbench.metrics.safety_scores import WARN
from ragbench.metrics.score_calibration import Calibration
from ragbench.progress import progress_bar
from ragbench.registry import KS, PERSPECTIVES, Measure, declaration, load_measures, perspective_of
from ragbench.retrieval.embedders import load_embedder
from ragbench.systems import FunctionSystem
from ragbench.types import LLM, Answer, Dataset, Embedder, EmbedderLike, Judgement, LLMLike, System

CLAIMS = "claim_support"
_ALIASES = {"context_quality": "context"}  # as published designs of such evaluations name it
_MEASURED = tuple(name for name in PERSPECTIVES if name not in ("judge", "own", "overall"))


def evaluate(
    dataset: Dataset | str | Path,
    system: str | Path | System | Callable[..., Any] | Sequence[Answer] = "bm25",
    *,
    perspectives: Sequence[str] = (),
    targets: Targets | None = None,
    embedder: EmbedderLike = "minilm",
    support_model: str = "",
    detector: str | Callable[[str], float] | None = None,
    judge: LLMLike = "",
    criteria: Sequence[str] = CRITERIA,
    ks: Sequence[int] = KS,
    calibration: calibrations.Given = (),
    measures: str | Iterable[str | Measure] = (),
    baseline: Result | Report | str | Path | None = None,
    name: str = "",
) -> Result:
    """Ask a system every question of a dataset, and score what it gave from every perspective.

    Args:
        dataset: from `load_dataset`, or what it takes; which labels its cases have decides what can be measured.
        system: a retriever's name for ragbench's own pipeline ("bm25", "hybrid:wordllama"), a TOML file that describes
            a pipeline or a service, a file of recorded answers, any `System`, a function from a question to its answer
            or a retriever, chain or engine of a framework (as `FunctionSystem` takes them), or the answers themselves.
        perspectives: of "retrieval", "context", "groundedness", "answer", "pipeline", "safety"; () means all. One
            without labels is reported as not measured, never as 0.
        targets: from `load_targets`; None means the defaults.
        embedder: what measures likeness of texts.
        support_model: what measures whether contexts support claims, as in `claim_support`: "minilm", "lexical", or
            the folder or hub name of a cross-encoder for NLI; "" means "minilm" with that embedder, else "lexical".
        detector: of attacks, which scores the safety samples: a function text -> score in [0, 1], or a public
            classifier, "hf:<text-classification model>" (see `ragbench.metrics.safety.load_detector`); None means the
            built-in one.
        judge: the language model that judges the answers; "" means none.
        criteria: what it judges, as in `ragbench.judge`; those of targets such as "llm_context_recall" are added.
        ks: the depths at which rankings are measured.
        calibration: what heuristic scores mean on texts like these: one or several `Calibration`, or their files. A
            calibrated measure M gets "calibrated:M", the probability that a person would judge yes, and its threshold
            decides in place of the one in `targets`. Without one, reports show how the scores rank, marked
            "uncalibrated".
        measures: of your own: `Measure(name, function)`, or "package.module:attribute".
        baseline: an earlier result to compare with, or its folder; refused before any request if its questions
            differ.
        name: of the result; "" makes one from the dataset and the system.

    Returns:
        The result: `scores` of every question, `questions` with answers and causes of failure, `summary` with targets,
        `passed`. `save` keeps it, `write_report` shows it.

    >>> from ragbench.types import Case, Document
    >>> corpus = {"cats": Document("cats", "Cats sleep most of the day."), "dogs": Document("dogs", "Dogs bark.")}
    >>> case = Case("q1", "How long do cats sleep each day?", gold_facts=(("most of the day",),))
    >>> data = Dataset("pets", "test", corpus, [case], {"q1": {"cats": 1}})
    >>> result = evaluate(data, "bm25", perspectives=["retrieval"])
    >>> result.summary.set_index("measure").loc["nDCG@5", "verdict"]
    'passed'

    Raises:
        ConfigError: an unknown perspective or system, a gate (`fail_under`) that cannot be reached, or of a perspective
            that is not evaluated. One that turns out to have no value makes `Result.passed` False.
        DataError: the dataset has neither questions nor safety samples.
        ComparisonError: the baseline is of other data.
    """
    dataset = load_dataset(dataset) if isinstance(dataset, str | Path) else dataset
    judge = judge if isinstance(judge, str) else load_llm(judge)
    embedder = embedder if isinstance(embedder, str) else load_embedder(embedder)
    if not isinstance(system, str | Path | Sequence | System):
        system = FunctionSystem(system)
    chosen = check_perspectives(perspectives)
    aims = load_targets() if targets is None else targets
    earlier = load_result(baseline) if isinstance(baseline, str | Path) else baseline
    earlier = earlier.report if isinstance(earlier, Result) else earlier
    options: dict[str, Any] = {"embedder": embedder, "support_model": support_model, "judge": judge}
    options |= {"criteria": criteria, "ks": ks, "calibration": calibration}
    check_evaluation(dataset, chosen, aims, earlier, **options)
    own = load_measures(measures)
    check_servers(judge)
    if isinstance(detector, str):
        detector = load_detector(detector)
    start = time.perf_counter()
    answered = ask_all(dataset, system, judge=judge, criteria=_criteria(criteria, aims), attacks="safety" in chosen)
    asked = time.perf_counter() - start
    return result_of(
        answered, perspectives=chosen, targets=aims, detector=detector, measures=own, baseline=earlier, name=name,
        seconds={"ask": round(asked, 3)}, **options,
    )  # fmt: skip


def check_perspectives(names: Sequence[str]) -> tuple[str, ...]:
    """The perspectives named, in the order of a report; all for ().

    Raises:
        ConfigError: one that does not exist.
    """
    if isinstance(names, str):
        raise ConfigError(f"perspectives is a list of names such as ['retrieval'], not {names!r}")
    names = [_ALIASES.get(name, name) for name in names]
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
    support_model: str = "",
    judge: str | LLM = "",
    criteria: Sequence[str] = CRITERIA,
    ks: Sequence[int] = KS,
    calibration: calibrations.Given = (),
) -> None:
    """Everything that can be refused before the system is asked.

    Raises:
        DataError: nothing to ask.
        ConfigError: a gate that could never pass, or of a perspective that is left out or has no labels; an unknown
            criterion, a depth below 1, or a support model that is not one for NLI.
        ModelError: the support model could not be loaded.
        ComparisonError: a baseline of other data.
    """
    if not dataset.cases and not dataset.safety_inputs and not dataset.safety_outputs:
        raise DataError(f"test set {dataset.name!r} is empty: it has neither questions nor safety samples")
    judged = ("judge",) if judge else ()
    models = {CLAIMS: support_model or "minilm", "semantic_similarity": _name(embedder)}
    calibrations.check_models(calibrations.load_calibrations(calibration), models)
    _criteria(criteria, targets)
    views.at_depths(ks)
    if support_model:
        check_support_model(support_model)
        if support_model not in SUPPORT_MODELS and "groundedness" in perspectives:
            load_support_model(support_model)
    for gate in sorted(targets.gates):
        wanted = perspective_of(gate)
        if wanted not in (*perspectives, *judged, "own", "overall"):
            raise ConfigError(f"--fail-under names {gate}, of the perspective {wanted!r}, which is not evaluated here")
        if wanted in perspectives and (reason := views.unlabelled(wanted, dataset, targets.named)):
            raise ConfigError(f"--fail-under names {gate}, which this test set cannot show: {reason}")
    tops = {name: case_rows.bound_of(name) for name in targets.gates if perspective_of(name) != "retrieval"}
    tops |= views.document_ceilings(dataset, targets.named)
    check_reachable(targets, {name: top for name, top in tops.items() if top is not None})
    if baseline is not None:
        query_ids = [case.query_id for case in dataset.cases]
        settings = _settings(perspectives, targets, embedder, judge, support_model)
        check_comparable(baseline, dataset.fingerprint, query_ids, settings)


def result_of(
    answered: Answered,
    *,
    perspectives: Sequence[str] = (),
    targets: Targets | None = None,
    embedder: str | Embedder = "minilm",
    support_model: str = "",
    detector: Callable[[str], float] | None = None,
    judge: str | LLM = "",
    criteria: str | Sequence[str] = CRITERIA,
    ks: Sequence[int] = KS,
    calibration: calibrations.Given = (),
    measures: str | Iterable[str | Measure] = (),
    baseline: Report | None = None,
    name: str = "",
    settings: Mapping[str, Any] = MappingProxyType({}),
    parameters: Mapping[str, Any] = MappingProxyType({}),
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> Result:
    """The result of answers that are there, judged now where `ask_all` has not asked the judge already.

    Args:
        settings: further settings, kept with the others.
        parameters: of the configuration, as in `new_result`; none keep the name of the system.
        seconds: of what was done before.
        The other arguments are those of `evaluate`.
    """
    chosen = check_perspectives(perspectives)
    wanted = load_targets() if targets is None else targets
    known = calibrations.load_calibrations(calibration)
    dataset, aims = answered.dataset, wanted
    if dataset.name == BUILT_IN:  # its questions avoid the words of the documents: no system of ragbench reaches them
        aims = aims.without(aims.defaults)
    if detector is None:  # the figures are about ragbench and not about the system
        aims = aims.without(name for name in aims.defaults if name.startswith("attack_"))
    criteria, named = _criteria(criteria, aims), (*views.at_depths(ks), *aims.named)
    limit = known[CLAIMS].threshold if CLAIMS in known else STRICT
    frames: dict[str, pd.DataFrame] = {}
    states: list[Perspective] = []
    taken: dict[str, float] = {**seconds, **answered.seconds}
    safety = SafetyResults((), (), [])
    judgements: list[Judgement] = []
    judging = case_rows.Judging()
    with progress_bar(len(chosen) + bool(judge), "scoring", "perspective") as bar:
        for one in (*chosen, *(["judge"] if judge else [])):
            bar.set_postfix_str(one, refresh=False)
            start = time.perf_counter()
            reason = views.unmeasurable(one, answered, aims.named)
            notes, warning = [], ""
            if not reason:
                if one == "judge":
                    given = answered.judgements
                    judgements = judgements_of(answered, judge, criteria) if given is None else list(given)
                    frames[one] = score_judgements(judgements)
                    judging = case_rows.judging_of(judgements)
                    warning = judging.warning
                else:
                    scored = views.measure(
                        one, answered, embedder=embedder, support_model=support_model, named=named, threshold=limit
                    )
                    frames[one] = calibrations.with_probabilities(scored, known)
                if one == "safety":
                    warn = known[calibrations.INJECTION].threshold if calibrations.INJECTION in known else WARN
                    safety = safety_results(dataset, detector, answered.safety_answers, warn=warn)
                timed = one == "pipeline" and any(map(is_latency_measure, aims.named))
                if not frames[one]["value"].notna().any() and not timed and not (one == "safety" and safety.figures):
                    reason = warning or _nothing_scored(answered)
            if not reason and one == "retrieval":
                notes, warning = [views.judged_by(answered)], views.passages_in_doubt(answered)
            if not reason and one != "judge":
                notes.append(calibrations.scale_note(one, frames[one], known))
            if one == "safety" and not (dataset.safety_inputs or dataset.safety_outputs):
                reason = reason and "no safety samples"
                notes.append("not measured: no safety samples; only leaks in the answers were looked for")
            elif one == "safety" and any(figure.kind != "system" for figure in safety.figures):
                notes = ["leak_*: built-in detector" if detector else "attack_*, leak_*: built-in detectors"]
            states.append(Perspective(one, not reason, reason, "; ".join(filter(None, notes)), warning))
            taken[one] = round(time.perf_counter() - start, 3)
            bar.update()
    if own := load_measures(measures):
        frames["own"] = score_own(dataset, answered.answers, own, texts_of(answered))
        reason = "" if frames["own"]["value"].notna().any() else _nothing_scored(answered)
        states.append(Perspective("own", not reason, reason))
    measured = {one.name: frames[one.name] for one in states if one.measured and one.name in frames}
    if measured.keys().isdisjoint(case_rows.OF_ANSWERS):
        aims = aims.without(["pass_rate"])  # which is about answers
    thresholds = calibrations.case_thresholds(wanted.cases, known)
    decided = case_rows.decide(answered, measured, thresholds, aims.weights, judging.lost)
    frames["overall"] = decided.scores
    note = calibrations.verdict_note(thresholds, pd.concat([*measured.values(), decided.scores.head(0)]), known)
    passing = any(passed is not None for passed in decided.passed.values())
    reason = "" if passing else "nothing decides whether a question passes"
    states.append(Perspective("overall", passing, reason, note))
    best = views.ceilings_of(answered, named)
    check_reachable(aims, best)
    rows = [row for part in frames.values() for row in case_rows.rows_of(part, aims, best)]
    rows += [case_rows.aimed(row, aims) for row in safety.rows]
    there = {one.name for one in states if one.measured}
    rows = [row for row in rows if row.perspective in there]
    if "pipeline" in there:
        rows += case_rows.latency_rows(answered, aims)
    for absent in aims.named:
        if absent not in {row.measure for row in rows}:
            none = MeasureResult(absent, perspective_of(absent), None, None, None, 0, len(dataset.cases))
            rows.append(case_rows.aimed(none, aims))
    model, grounded = support_model or "minilm", "groundedness" in measured
    claims = views.claims_of(answered, list(dataset.queries), model, limit) if grounded else {}
    if answered.ablations:
        frames["ablations"] = score_ablations(dataset, answered.ablations, answered.ablation_judgements)
    cases = case_rows.cases_of(answered, frames, decided, claims, judgements)
    spent = case_rows.evaluation_costs(answered, judgements)
    report = Report(
        name=name or f"{name_of(dataset)}-{answered.system['name']}",
        test_set=TestSet(
            name_of(dataset), dataset.split, dataset.fingerprint, len(dataset.cases), len(dataset.corpus),
            len(dataset.safety_inputs), len(dataset.safety_outputs),
        ),
        system=answered.system,
        settings={
            **settings,
            **_settings(chosen, aims, embedder, judge, support_model),
            "named": list(aims.named),
            "cases": thresholds,
            **({"calibration": calibrations.plain(known)} if known else {}),
            "detector": getattr(detector, "name", "given") if detector else "built-in",
            "k": list(ks),
            **({"criteria": list(criteria)} if judge else {}),
            **({"measures": [declaration(one) for one in own]} if own else {}),
        },
        perspectives=tuple(states),
        measures=tuple(rows),
        cases=cases,
        categories=case_rows.categories_of(cases),
        safety=safety.figures,
        samples=safety.samples,
        counts=case_rows.counts_of(cases, claimed=grounded, judging=judging),
        costs=spent,
        chunks=views.chunk_statistics(answered),
        made=Made(
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), seconds=taken, environment=environment(),
            latency=case_rows.latency_of(answered),
        ),
    )  # fmt: skip
    report = replace(
        report,
        advice=case_rows.advice_for(report, answered, wanted),
        comparison=None if baseline is None else compare_reports(baseline, report),
    )
    filled = [frame for frame in frames.values() if len(frame)] or [frames["overall"]]
    scores = pd.concat(filled, ignore_index=True)[["query_id", "measure", "value"]]
    scores = scores[scores["query_id"].isin(dataset.queries)].reset_index(drop=True)
    facts = {"chunks": len(answered.chunks)} if answered.system.get("kind") == "Pipeline" else {}
    facts |= {name: value for name, value in answered.system.items() if name.startswith("ann_recall@")}
    searched = {} if answered.search_ms is None else {"search_ms": answered.search_ms}
    result = new_result(
        name=report.name,
        parameters=parameters or {"system": str(answered.system["name"])},
        dataset=dataset,
        run=answered.documents,
        scores=scores,
        answers=answered.answers,
        judgements=judgements,
        timings=taken,
        facts={**facts, **searched, **cost_facts(spent, answered.answers)},
        diagnosis=_diagnosed(answered, measured, judgements, scores, known),
        verdicts=report,
    )
    return replace(result, answered=answered)


def _diagnosed(
    answered: Answered,
    measured: Mapping[str, pd.DataFrame],
    judgements: Sequence[Judgement],
    scores: pd.DataFrame,
    calibrations: Mapping[str, Calibration],
) -> pd.DataFrame | None:
    """The first cause of each failure, where both retrieval and answers were looked at."""
    if "retrieval" not in measured or measured.keys().isdisjoint(case_rows.OF_ANSWERS):
        return None
    texts = texts_of(answered)
    held = {chunk.chunk_id for chunk in texts}
    run = {query: {one: score for one, score in found.items() if one in held}
           for query, found in answered.ranking.items()}  # fmt: skip
    return diagnose(
        answered.dataset, run, answered.answers, judgements, scores, texts,
        depth=answered.depth, calibrations=calibrations,
    )  # fmt: skip


def _criteria(criteria: str | Sequence[str], targets: Targets) -> tuple[str, ...]:
    """The criteria of the judge: those given, and those of measures that the user named a target for.

    Raises:
        ConfigError: a criterion that does not exist.
    """
    criteria = criteria_named(criteria)
    named = [name.removeprefix("llm_") for name in targets.named if name.startswith("llm_")]
    for name in (*criteria, *named):
        if name not in judge_prompts.CRITERIA:
            raise ConfigError(unknown("criterion", name, judge_prompts.CRITERIA))
    return tuple(dict.fromkeys([*criteria, *named]))


def _name(model: str | Embedder | LLM) -> str:
    return model if isinstance(model, str) else model.name


def _settings(
    perspectives: Sequence[str], targets: Targets, embedder: str | Embedder, judge: str | LLM, support_model: str
) -> dict[str, Any]:
    return {
        "perspectives": list(perspectives),
        "embedder": _name(embedder),
        "support_model": support_model or "minilm",
        "judge": _name(judge),
        "targets": dict(targets.measures),
        "cases": dict(targets.cases),
        "weights": {name: weight for name, weight in targets.weights.items() if weight},
        "gates": sorted(targets.gates),
    }


def _nothing_scored(answered: Answered) -> str:
    failed = sum(answer.failed for answer in answered.answers)
    if failed and failed == len(answered.answers):
        return f"nothing to score: all {failed} answers failed, first {answered.answers[0].error}"
    return "nothing to score: no question has both the labels and an answer for any of its measures"
