"""evaluate: check -> ask -> judge -> score -> decide. The only sequence; every surface calls it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from ragbench.errors import ConfigError, DataError, MissingExtraError
from ragbench.evaluation import cases, diagnose
from ragbench.evaluation import perspectives as views
from ragbench.evaluation.comparison import check_comparable, compare_results
from ragbench.evaluation.costs import cost_facts
from ragbench.evaluation.folder import load_result
from ragbench.evaluation.parameters import OF_PIPELINE
from ragbench.evaluation.records import BUILT_IN, MeasureResult, Perspective
from ragbench.evaluation.requests import SystemOutput, ask_all
from ragbench.evaluation.result import (
    Result,
    judge_failures,
    name_of,
    new_result,
)
from ragbench.evaluation.results import Results
from ragbench.evaluation.rows import bound_of, compare_with_target, latency_of, rows_of
from ragbench.evaluation.safety import SafetyResults
from ragbench.evaluation.spec import MEASURED, EvaluationPlan, EvaluationSpec
from ragbench.evaluation.suites import select_questions
from ragbench.evaluation.targets import Targets, check_reachable, load_targets
from ragbench.llms import check_servers, load_llm
from ragbench.metrics import score_interventions
from ragbench.metrics.groundedness import SUPPORT_MODELS, load_support_model
from ragbench.metrics.safety import load_detector
from ragbench.metrics.safety.secrets import missing_extra
from ragbench.progress import progress_bar
from ragbench.registry import declaration, load_measures, perspective_of
from ragbench.retrieval.beir_models import is_beir_model
from ragbench.retrieval.embedders import load_embedder
from ragbench.systems import FunctionSystem, Pipeline, RecordedSystem
from ragbench.testsets.fields import outputs_of
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.plain_data import dataset_of, rows_of_data
from ragbench.types import Answer, Dataset, System

SystemLike = str | Path | System | Callable[..., Any] | Sequence[Answer | Mapping[str, Any]]

if TYPE_CHECKING:
    from ragbench.evaluation.options import PipelineOptions


def evaluate(
    dataset: Any,
    system: SystemLike | list[str] | Mapping[str, SystemLike] = "",
    spec: EvaluationSpec | None = None,
    *,
    parameters: Mapping[str, Any] = MappingProxyType({}),
    journal: str | Path = "",
    **options: Unpack[PipelineOptions],
) -> Result:
    """Ask a system every question of a dataset, and score what it gave from every perspective.

    Args:
        dataset: from `load_dataset`, or what it takes; or data in hand: rows of question, answer,
        contexts and reference under the names that ragas or DeepEval use (a DataFrame, a list of
        dicts or test cases, a `datasets.Dataset`), or (corpus, queries, qrels) as beir loads them.
        Which labels its cases have decides what can be measured. system: "" means the answers in
        these rows, else "bm25"; a retriever's name for ragbench's own pipeline ("bm25",
        "hybrid:wordllama"), a TOML file that describes
            a pipeline or a service, the address of a service, a file of recorded answers, any
            `System`, a function from a question to its answer or a retriever, chain or engine of a framework (as
            `FunctionSystem` takes them), a retrieval model of BEIR, which searches whole documents
            (and is not timed, as each search encodes all of them), or the answers themselves. A
            list of systems, or a mapping name -> system, gives `Results`.
        spec: all options as one object; None means the defaults. parameters: of the configuration,
        as in `new_result`; none keep the name of the system. journal: a file or folder in which the
        answers of a service are kept as they come, so that the same call
            continues after an interruption; "" keeps nothing.
        options: fields of `EvaluationSpec`, in place of those of `spec`: perspectives, judge,
        targets and others; and those of `Pipeline` (k, chunk_size, llm, ...) for a retriever's
        name.

    Returns:
        The result: `scores` of every question, `questions` with answers and causes of failure,
        `measures` with targets, `claims` in doubt, `passed`. `save` keeps it, `write_report` shows
        it.

    >>> from ragbench.types import Case, Document
    >>> corpus = {"cats": Document("cats", "Cats sleep most of the day."), "dogs": Document("dogs", "Dogs bark.")}
    >>> case = Case("q1", "How long do cats sleep each day?", gold_facts=(("most of the day",),))
    >>> data = Dataset("pets", "test", corpus, [case], {"q1": {"cats": 1}})
    >>> result = evaluate(data, "bm25", perspectives=["retrieval"])
    >>> result.measures.set_index("measure").loc["nDCG@5", "verdict"]
    'passed'

    Raises:
        ConfigError: an unknown option, perspective or system, a gate (`fail_under`) that cannot be
        reached, or of a
            perspective that is not evaluated. One that turns out to have no value makes
            `Result.passed` False.
        DataError: the dataset has neither questions nor safety samples.
        ModelError: a model could not be loaded, or its server takes no connections.
        ComparisonError: the baseline is of other data.
    """
    if spec is not None and not isinstance(spec, EvaluationSpec):
        raise ConfigError(
            f"the third argument is {type(spec).__name__}; expected an EvaluationSpec. Data of beir "
            "is one argument, evaluate((corpus, queries, qrels), system); score_run(qrels, run) "
            "scores a run"
        )
    if isinstance(system, list) and system and not isinstance(system[0], Answer | Mapping):
        results = [evaluate(dataset, each, spec, **options) for each in system]
        return Results(results)  # type: ignore[return-value]  # so that one system gives a Result
    if isinstance(system, Mapping):
        results = [
            evaluate(dataset, each, spec, **(options | {"name": name}))
            for name, each in system.items()
        ]
        return Results(results)  # type: ignore[return-value]
    if not isinstance(dataset, Dataset | str | Path):
        if system == "" and not isinstance(dataset, tuple):
            system = _recorded(dataset)
        dataset = dataset_of(dataset)
    of_pipeline = {name: value for name, value in options.items() if name in OF_PIPELINE}
    others = {name: value for name, value in options.items() if name not in OF_PIPELINE}
    spec = (spec or EvaluationSpec()).replaced(**others)
    plan = check_evaluation(
        load_dataset(dataset) if isinstance(dataset, str | Path) else dataset, spec
    )
    output = ask_all(
        plan.dataset,
        _system_of(
            of_pipeline.pop("retriever", "bm25") if system == "" else system,
            plan.dataset,
            of_pipeline,
        ),
        plan.spec,
        criteria=plan.criteria,
        journal=journal,
    )
    return decide(plan, score(plan, output), parameters)


def _recorded(data: Any) -> RecordedSystem | str:
    """Return the answers that rows hold, "" for none."""
    rows = rows_of_data(data)
    answered = [row for row in rows if {"answer", "contexts"} & outputs_of(row).keys()]
    return RecordedSystem(answered) if answered else ""


def _system_of(system: Any, dataset: Dataset, of_pipeline: Mapping[str, Any]) -> Any:
    """Return a system that `ask_all` takes."""
    if is_beir_model(system):
        return Pipeline(dataset, system, **{"chunker": "document", **of_pipeline})
    if of_pipeline:
        if not isinstance(system, str):
            raise ConfigError(
                f"{', '.join(of_pipeline)} is an option of ragbench's own pipeline, which a "
                "retriever's name such as 'bm25' selects; set it in your system"
            )
        return Pipeline(dataset, system, **of_pipeline)
    if isinstance(system, list) and any(isinstance(answer, Mapping) for answer in system):
        return RecordedSystem(system)
    return system if isinstance(system, str | Path | Sequence | System) else FunctionSystem(system)


def check_evaluation(dataset: Dataset, spec: EvaluationSpec) -> EvaluationPlan:
    """Refuse everything that can be refused before the system is asked, and load what the spec
    names.

    Raises:
        DataError: nothing to ask. ConfigError: a gate that could never pass, or of a perspective
        that is left out or has no labels.
        MissingExtraError: the extra `safety` is not installed, and the perspective is named, or
        there is nothing but safety samples.
        ModelError: the support model could not be loaded, or the judge's server takes no
        connections. ComparisonError: a baseline of other data.
    """
    spec = spec.replaced(judge=spec.judge if isinstance(spec.judge, str) else load_llm(spec.judge))
    measures = load_measures(spec.measures)
    chosen = tuple(measure.name for measure in measures if measure.function is None)
    if chosen and not spec.perspectives and {*map(perspective_of, chosen)} <= {*MEASURED}:
        spec = spec.replaced(perspectives=[*map(perspective_of, chosen)])
    targets = (
        spec.targets if isinstance(spec.targets, Targets) else load_targets(spec.targets)
    ).gated(spec.fail_under)
    baseline = (
        load_result(spec.baseline) if isinstance(spec.baseline, str | Path) else spec.baseline
    )
    dataset = select_questions(dataset, spec)
    if not dataset.cases and not dataset.safety_inputs and not dataset.safety_outputs:
        raise DataError(
            f"test set {dataset.name!r} is empty: it has neither questions nor safety samples"
        )
    is_needed = "safety" in spec.perspectives or not dataset.cases
    if is_needed and "safety" in spec.perspective_names and (problem := missing_extra()):
        raise MissingExtraError(problem)
    embedder = spec.embedder if isinstance(spec.embedder, str) else load_embedder(spec.embedder)
    judged = tuple(name.removeprefix("llm_") for name in targets.named if name.startswith("llm_"))
    plan = EvaluationPlan(
        spec,
        dataset,
        targets,
        deciding=_deciding(targets, dataset, spec),
        criteria=EvaluationSpec(criteria=(*spec.criteria, *judged)).criteria,
        depths=tuple(views.at_depths(spec.ks)),
        embedder=embedder,
        detector=load_detector(spec.detector) if isinstance(spec.detector, str) else spec.detector,
        measures=tuple(measure for measure in measures if measure.function),
        chosen=chosen,
        baseline=baseline,
    )
    if (
        spec.support_model
        and spec.support_model not in SUPPORT_MODELS
        and "groundedness" in spec.perspective_names
    ):
        load_support_model(spec.support_model)
    _check_gates(plan)
    if plan.baseline is not None:
        query_ids = [case.query_id for case in dataset.cases]
        check_comparable(
            plan.baseline, dataset.fingerprint, query_ids, _compared_settings(plan, targets)
        )
    check_servers(spec.judge)
    return plan


def _deciding(targets: Targets, dataset: Dataset, spec: EvaluationSpec) -> Targets:
    """Return the targets without the default ones that decide nothing about the system under test."""
    if (
        dataset.name == BUILT_IN
    ):  # its questions avoid the words of the documents: no system of ragbench reaches them
        targets = targets.without(targets.defaults)
    if not spec.detector:  # the figures are about ragbench and not about the system
        targets = targets.without(name for name in targets.defaults if name.startswith("attack_"))
    return targets


def _check_gates(plan: EvaluationPlan) -> None:
    targets, dataset = plan.targets, plan.dataset
    looked_at = {kind.name for kind in views.kinds_of(plan)} | {"own", "overall"}
    for gate in sorted(targets.gates):
        robust, _, intervention = gate.partition(":")
        if robust == "robust" and intervention not in plan.spec.interventions:
            raise ConfigError(
                f"--fail-under names {gate}, and nothing is asked after {intervention!r}; add "
                f"--intervention {intervention}"
            )
        if (perspective := perspective_of(gate)) not in looked_at:
            raise ConfigError(
                f"--fail-under names {gate}, of the perspective {perspective!r}, which is not "
                "evaluated here"
            )
        kind = views.KINDS.get(perspective)
        if kind is not None and (reason := kind.unlabelled(dataset, targets.named)):
            raise ConfigError(
                f"--fail-under names {gate}, which this test set cannot show: {reason}"
            )
    best = {name: bound_of(name) for name in targets.gates if perspective_of(name) != "retrieval"}
    best |= views.ceilings_of(dataset, targets.named)
    check_reachable(targets, {name: bound for name, bound in best.items() if bound is not None})


@dataclass(frozen=True, eq=False)
class PerspectiveScores:
    """What the perspectives show of a system's output: `frames` perspective -> scores of single
    questions.

    `measured` are those frames of which something was scored, `states` why others were not, `seconds`
    what each took.
    """

    output: SystemOutput
    frames: Mapping[str, pd.DataFrame]
    states: Sequence[Perspective]
    rows: Sequence[MeasureResult]
    safety: SafetyResults
    claims: pd.DataFrame | None
    seconds: Mapping[str, float]

    @property
    def measured(self) -> dict[str, pd.DataFrame]:
        """Return the frames of the perspectives that were measured."""
        return {state.name: self.frames[state.name] for state in self.states if state.measured}


def score(plan: EvaluationPlan, output: SystemOutput) -> PerspectiveScores:
    """Score an output from every perspective of the plan that can be measured."""
    frames: dict[str, pd.DataFrame] = {}
    states: list[Perspective] = []
    rows: list[MeasureResult] = []
    safety = SafetyResults((), (), [])
    claims: pd.DataFrame | None = None
    seconds = dict(output.seconds)
    kinds = views.kinds_of(plan)
    with progress_bar(len(kinds), "scoring", "perspectives") as bar:
        for kind in kinds:
            start = time.perf_counter()
            if reason := kind.missing(plan, output):
                states.append(Perspective(kind.name, False, reason))
            else:
                measurement = kind.measure(plan, output)
                frames[kind.name] = measurement.scores
                states.append(_state(kind.name, plan, output, measurement))
                if states[-1].measured:
                    rows.extend(measurement.rows)
                    safety = measurement.safety or safety
                    claims = claims if measurement.claims is None else measurement.claims
            seconds[kind.name] = round(seconds.get(kind.name, 0.0) + time.perf_counter() - start, 3)
            bar.update()
    return PerspectiveScores(output, frames, states, rows, safety, claims, seconds)


def _state(
    name: str, plan: EvaluationPlan, output: SystemOutput, measurement: views.Measurement
) -> Perspective:
    if measurement.is_empty(plan.deciding.named):
        return Perspective(
            name, False, measurement.reason or _nothing_scored(output), warning=measurement.warning
        )
    return Perspective(name, True, "", measurement.note, measurement.warning)


def decide(
    plan: EvaluationPlan,
    scored: PerspectiveScores,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """Decide which questions pass and which targets are reached, and return the result."""
    measured, output = scored.measured, scored.output
    deciding = plan.deciding
    if measured.keys().isdisjoint(cases.OF_ANSWERS):
        deciding = deciding.without(["pass_rate"])  # which is about answers
    lost = judge_failures(output.judgements or ()).lost
    verdicts = cases.decide(output, measured, plan.targets.cases, deciding.weights, lost)
    passing = any(passed is not None for passed in verdicts.passed.values())
    reason = "" if passing else "nothing decides whether a question passes"
    frames = {**scored.frames, "overall": verdicts.scores}
    if output.variations:
        frames["interventions"] = score_interventions(
            plan.dataset,
            output.answers,
            {name: (each.cases, each.answers) for name, each in output.variations.items()},
            {"untouched": output.judgements or (), **output.variation_judgements},
        )
    states = [*scored.states, Perspective("overall", passing, reason)]
    scored = replace(scored, frames=frames, states=states)
    rows = _rows(plan, scored, deciding)
    settings = _settings(plan, deciding)
    return _result(plan, scored, verdicts, rows, settings, parameters)


def _rows(
    plan: EvaluationPlan, scored: PerspectiveScores, deciding: Targets
) -> list[MeasureResult]:
    """Return a row for each measure, and one for each named measure of which there is no score."""
    best = views.ceilings_of(plan.dataset, plan.named, scored.output)
    check_reachable(deciding, best)
    measured = {state.name for state in scored.states if state.measured}
    rows = [row for part in scored.frames.values() for row in rows_of(part, deciding, best)]
    rows = [row for row in [*rows, *scored.rows] if row.perspective in measured]
    missing = [name for name in deciding.named if name not in {row.measure for row in rows}]
    n = len(plan.dataset.cases)
    empty = [MeasureResult(name, perspective_of(name), None, None, None, 0, n) for name in missing]
    return rows + [compare_with_target(row, deciding) for row in empty]


def _result_name(plan: EvaluationPlan, output: SystemOutput) -> str:
    spec = plan.spec
    name = spec.name or f"{name_of(plan.dataset)}-{output.system['name']}"
    parts = [spec.suite] * (spec.suite != "full") + [f"{spec.limit} questions"] * (spec.limit > 0)
    return f"{name} ({', '.join(parts)})" if parts else name


def _result(
    plan: EvaluationPlan,
    scored: PerspectiveScores,
    verdicts: cases.CaseVerdicts,
    rows: Sequence[MeasureResult],
    settings: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> Result:
    dataset, output, measured = plan.dataset, scored.output, scored.measured
    frames = [frame for frame in scored.frames.values() if len(frame)]
    scores = pd.concat(frames or [verdicts.scores], ignore_index=True)
    scores = scores[["query_id", "measure", "value"]]
    scores = scores[scores["query_id"].isin(dataset.queries)].reset_index(drop=True)
    if plan.chosen:
        names = {*plan.chosen, *plan.targets.named, *(measure.name for measure in plan.measures)}
        scores = scores[scores["measure"].isin(names)]
        rows = [row for row in rows if row.measure in names]
    costs = cases.evaluation_costs(output)
    searched = {} if output.search_ms is None else {"search_ms": output.search_ms}
    result = new_result(
        name=_result_name(plan, output),
        parameters=parameters or {"system": str(output.system["name"])},
        dataset=dataset,
        run=output.documents,
        scores=scores,
        answers=output.answers,
        judgements=output.judgements or (),
        timings=scored.seconds,
        facts={
            **views.chunk_statistics(output),
            **searched,
            **cost_facts(costs, output.answers),
        },
        diagnosis=_diagnosed(plan, output, measured, scores),
        system=output.system,
        settings=settings,
        perspectives=tuple(scored.states),
        rows=tuple(rows),
        verdicts=cases.plain_verdicts(output, verdicts, scored.claims),
        safety=scored.safety.figures,
        samples=scored.safety.samples,
        latency=latency_of(output),
        costs=costs,
        output=output,
    )
    comparison = None if plan.baseline is None else compare_results(plan.baseline, result)
    advice = cases.advice_for(result, output, plan.targets)
    return replace(result, advice=advice, comparison=comparison)


def _diagnosed(
    plan: EvaluationPlan,
    output: SystemOutput,
    measured: Mapping[str, pd.DataFrame],
    scores: pd.DataFrame,
) -> pd.DataFrame | None:
    """Return the first cause of each failure, where both retrieval and answers were looked at."""
    if "retrieval" not in measured or measured.keys().isdisjoint(cases.OF_ANSWERS):
        return None
    texts = output.texts
    ids = {chunk.chunk_id for chunk in texts}
    run = {
        query_id: {chunk_id: value for chunk_id, value in ranked.items() if chunk_id in ids}
        for query_id, ranked in output.ranking.items()
    }
    return diagnose(
        output.dataset,
        run,
        output.answers,
        output.judgements or (),
        scores,
        texts,
        depth=output.depth,
    )


def _compared_settings(plan: EvaluationPlan, targets: Targets) -> dict[str, Any]:
    """Return the settings in which an evaluation and its baseline should agree."""
    return {
        "perspectives": list(plan.spec.perspective_names),
        "embedder": plan.embedder_name,
        "support_model": plan.support_model,
        "judge": plan.judge_name,
        "targets": dict(targets.measures),
        "cases": dict(targets.cases),
        "weights": {name: weight for name, weight in targets.weights.items() if weight},
        "gates": sorted(targets.gates),
    }


def _settings(plan: EvaluationPlan, deciding: Targets) -> dict[str, Any]:
    spec = plan.spec
    detector = getattr(plan.detector, "name", "given") if plan.detector else "built-in"
    return {
        "suite": spec.suite,
        **({"categories": list(spec.categories)} if spec.categories else {}),
        **({"limit": spec.limit, "seed": spec.seed} if spec.limit else {}),
        **_compared_settings(plan, deciding),
        "named": list(deciding.named),
        "detector": detector,
        "k": list(spec.ks),
        **({"criteria": list(plan.criteria)} if spec.judge else {}),
        **(
            {"measures": [declaration(measure) for measure in plan.measures]}
            if plan.measures
            else {}
        ),
    }


def _nothing_scored(output: SystemOutput) -> str:
    failed = sum(answer.failed for answer in output.answers)
    if failed and failed == len(output.answers):
        return f"nothing to score: all {failed} answers failed, first {output.answers[0].error}"
    return "nothing to score: no question has both the labels and an answer for any of its measures"
