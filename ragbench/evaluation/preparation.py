"""The preparation of an evaluation: what is refused before a system is asked (questions, evidence,
gates, a missing judge), what is loaded, and which settings a result keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError, MissingExtraError, check_known, warn_user
from ragbench.evaluation import perspectives as views
from ragbench.evaluation.evaluation_plan import EvaluationPlan
from ragbench.evaluation.folder import load_result
from ragbench.evaluation.records import BUILT_IN
from ragbench.evaluation.regressions import check_comparable
from ragbench.evaluation.result import Result
from ragbench.evaluation.rows import bound_of
from ragbench.evaluation.spec import MEASURED, EvaluationSpec, select_questions
from ragbench.evaluation.targets import Targets, check_reachable, load_targets
from ragbench.evaluation.trial import try_functions
from ragbench.evaluation.wordings import measures_of, wordings_of
from ragbench.judges.criterion import Criterion, load_criteria
from ragbench.llms import check_servers, load_llm
from ragbench.llms.prices import prices
from ragbench.metrics.groundedness import SUPPORT_MODELS, load_support_model
from ragbench.metrics.safety import load_detector
from ragbench.metrics.safety.secrets import missing_extra
from ragbench.metrics.system_outcomes import OUTCOMES
from ragbench.registry import declaration, load_measures, perspective_of
from ragbench.retrieval.embedders import EMBEDDERS, TextEmbedder, is_remote, load_embedder
from ragbench.types import LATENCY_BUDGETS, Case, Dataset, Document, Embedder

_OPTIONAL_SETTINGS = (
    "categories",
    "limit",
    "preset",
    "shown_names",
    "criteria",
    "own_criteria",
    "measures",
    "chosen",
)


def check_evaluation(dataset: Dataset, spec: EvaluationSpec) -> EvaluationPlan:
    """Check all inputs before the system is asked, and load everything that the spec names.

    Raises:
        DataError: nothing to ask.
        ConfigError: a gate that could never pass, or of a perspective that is left out or has no
            labels; a wrong table of prices.
        MissingExtraError: the extra `safety` is not installed, and the perspective is named, or
            there is nothing but safety samples.
        ModelError: the support model could not be loaded, or the judge's server takes no
            connections.
        ComparisonError: a baseline of other data.
    """
    prices()  # raises, before anything is paid for, if the user's table is wrong
    if not isinstance(spec.judge, str):
        spec = spec.replaced(judge=load_llm(spec.judge))
    measures = load_measures(spec.measures)
    criteria = spec.loaded_criteria()
    # measures of ragbench, by name; a measure of the user has a function
    chosen = tuple(measure.name for measure in measures if measure.function is None)
    _check_judge(chosen, spec)
    perspectives_needed = {perspective_of(name) for name in chosen}
    if chosen and not spec.perspectives and perspectives_needed <= set(MEASURED):
        spec = spec.replaced(perspectives=perspectives_needed)
    targets = _load_targets(spec)
    dataset = select_questions(dataset, spec)
    _check_dataset(dataset, spec)
    if spec.judge:  # a target for a verdict has the judge asked for it
        criteria += _criteria_of_targets(targets, criteria)
    # ragbench's default target for a criterion is also one for the user's wording of this criterion
    targets = targets.for_wordings(measures_of(wordings_of(criteria)))
    plan = EvaluationPlan(
        spec,
        dataset,
        targets,
        deciding=_deciding_targets(targets, dataset, spec),
        criteria=criteria,
        depths=tuple(views.at_depths(spec.ks)),
        embedder=_checked_embedder(spec, dataset),
        detector=load_detector(spec.detector) if isinstance(spec.detector, str) else spec.detector,
        measures=tuple(measure for measure in measures if measure.function),
        chosen=chosen,
        baseline=_load_baseline(spec.baseline),
    )
    if plan.support_model not in SUPPORT_MODELS and "groundedness" in spec.perspective_names:
        load_support_model(plan.support_model)
    _check_gates(plan)
    if plan.baseline is not None:
        settings = settings_of(plan, targets)
        check_comparable(plan.baseline, dataset.queries, dataset.question_digests, settings)
    check_servers(spec.judge)
    try_functions(plan.measures, plan.criteria, dataset)
    return plan


def _check_judge(chosen: Sequence[str], spec: EvaluationSpec) -> None:
    """Refuse measures of a judge without a judge, of which no question would have a value."""
    judged = [name for name in chosen if name.startswith("llm_")]
    if judged and not spec.judge:
        raise ConfigError(
            f"{judged[0]} needs a judge, but none is named; name one, such as judge='openai:MODEL'"
        )


def _checked_embedder(spec: EvaluationSpec, dataset: Dataset) -> str | Embedder:
    """Return the embedder of a spec: a name as it is, an object of the user as an `Embedder`.

    It compares answers with reference answers. If there are any, the weights of a named model are looked for
    now, before the system is asked. If there are none, a warning states that the embedder is not used: it
    may have been meant for a search.

    Raises:
        ConfigError: it cannot be an embedder.
        ModelError: the model could not be loaded.
    """
    name = spec.embedder if isinstance(spec.embedder, str) else ""
    if name in EMBEDDERS:
        return name
    embedder = load_embedder(spec.embedder)  # reads no weights
    unused = ""
    if "answer" not in spec.perspective_names:
        unused = "the perspective 'answer' is left out"
    elif not any(case.reference_answer for case in dataset.cases):
        unused = "no question has one"
    if unused:
        to_search = f"'dense:{name}'"
        if not name:
            to_search = "retriever=lambda chunks: rb.retrieval.Dense(chunks, embedder)"
        warn_user(
            f"embedder {embedder.name} is not used: it compares answers with reference answers, and {unused}; "
            f"to search with it, write rb.evaluate(data, {to_search})"
        )
    elif isinstance(embedder, TextEmbedder) and not is_remote(name):
        _ = embedder.identity  # looks for the weights
    return name or embedder


def _load_targets(spec: EvaluationSpec) -> Targets:
    """Return the targets of a spec, with the measures that `fail_under` names as gates."""
    targets = spec.targets
    if not isinstance(targets, Targets):
        targets = load_targets(targets)
    return targets.gated(spec.fail_under)


def _load_baseline(baseline: Any) -> Result | None:
    """Return a result by its folder; a result and None as they are."""
    if isinstance(baseline, str | Path):
        return load_result(baseline)
    loaded: Result | None = baseline
    return loaded


def _check_dataset(dataset: Dataset, spec: EvaluationSpec) -> None:
    """Refuse wrong questions, an empty test set, and safety samples without the extra `safety`."""
    _check_cases(dataset)
    has_samples = bool(dataset.safety_inputs or dataset.safety_outputs)
    if not dataset.cases and not has_samples:
        raise DataError(
            f"test set {dataset.name!r} is empty: it has neither questions nor safety samples"
        )
    is_safety_alone = not dataset.cases and not spec.perspectives
    if "safety" in spec.perspectives or is_safety_alone:
        problem = missing_extra()
        if problem:
            raise MissingExtraError(problem)


def _criteria_of_targets(targets: Targets, criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """Return the criteria whose judged measures the user set a target for, and that are not in `criteria`."""
    asked = {criterion.measure.name for criterion in criteria}
    further: tuple[Criterion, ...] = ()
    for name in targets.named:
        if name.startswith("llm_") and name not in asked:
            further += load_criteria(name.removeprefix("llm_"))
    return further


def _check_cases(dataset: Dataset) -> None:
    """Refuse questions whose ids, turns, outcomes or evidence would cause wrong numbers. (Questions
    from files are checked when they are read.)
    """
    ids = [case.query_id for case in dataset.cases]
    if len(set(ids)) < len(ids):
        twice = next(query_id for query_id in ids if ids.count(query_id) > 1)
        raise DataError(f"two questions have the id {twice!r}; give each a different id")
    for case in dataset.cases:
        if case.expected_outcome is not None:
            check_known(f"{case.query_id}: expected_outcome", OUTCOMES, case.expected_outcome)
        check_known(f"{case.query_id}: latency budget", LATENCY_BUDGETS, *case.latency_budget_ms)
        if any(isinstance(turn, str) or len(turn) != 2 for turn in case.turns):
            raise DataError(
                f"question {case.query_id!r} has the turns {case.turns!r}; expected pairs of a "
                "question and its answer"
            )
        if dataset.corpus:
            _check_evidence(case, dataset.corpus)


def _check_evidence(case: Case, corpus: Mapping[str, Document]) -> None:
    """Refuse evidence that is not characters of a document in the corpus.

    Raises:
        DataError: a span is in an unknown document, beyond the document's end, or empty.
    """
    for span in case.evidence:
        document = corpus.get(span.doc_id)
        problem = ""
        if document is None:
            problem = "not in the corpus"
        elif not 0 <= span.start < span.end <= len(document.full_text):
            problem = f"one of {len(document.full_text)} characters"
        if problem:
            raise DataError(
                f"evidence of question {case.query_id!r}: {span} is in a document that is "
                f"{problem}; expected characters of the document, start < end"
            )


def _deciding_targets(targets: Targets, dataset: Dataset, spec: EvaluationSpec) -> Targets:
    """Return the targets that decide whether the evaluation passes: the user's targets, and ragbench's
    default targets with these exceptions.

    - Next to a baseline no default target decides: the comparison with the baseline does.
    - No default target decides on the built-in test set, whose questions are too hard for them: they
      avoid the words of their documents.
    - Default targets about attacks decide only if the user named a detector. Without it, they would
      measure the built-in detector and not the system.
    """
    if spec.baseline is not None or dataset.name == BUILT_IN:
        return targets.without_defaults_for(targets.defaults)
    if spec.detector:
        return targets
    about_attacks = [name for name in targets.defaults if name.startswith("attack_")]
    return targets.without_defaults_for(about_attacks)


def _check_gates(plan: EvaluationPlan) -> None:
    """Refuse gates that this evaluation could never pass. A gate is a target that --fail-under names: the
    command fails if a measure does not reach it.

    Raises:
        ConfigError: the measure of a gate is not evaluated here, or no result could reach its target.
    """
    gates = plan.targets.gates
    if not gates:
        return  # the best values, below, take longer than all other checks
    for gate in sorted(gates):
        problem = _problem_of_gate(gate, plan)
        if problem:
            raise ConfigError(f"--fail-under names {gate}, {problem}")
    check_reachable(plan.targets, _best_values(plan))


def _problem_of_gate(gate: str, plan: EvaluationPlan) -> str:
    """Return why a gate's measure (`gate` is its name) has no value in this evaluation, as a clause that
    follows the name in a message; "" if it can have a value.
    """
    # "robust:..." compares the answers with those after an intervention
    prefix, _, intervention = gate.partition(":")
    if prefix == "robust" and intervention not in plan.spec.interventions:
        return f"and nothing is asked after {intervention!r}; add --intervention {intervention}"
    perspective = perspective_of(gate)
    if perspective == "overall":  # it is computed from all others
        return ""
    evaluated = {kind.name for kind in views.kinds_of(plan)}
    if perspective not in (*evaluated, "own"):  # "own": a measure of the user
        return f"of the perspective {perspective!r}, which is not evaluated here"
    reason = views.KINDS[perspective].unlabelled(plan.dataset, plan.targets.named)
    if reason:
        return f"which this test set cannot show: {reason}"
    return ""


def _best_values(plan: EvaluationPlan) -> dict[str, float]:
    """Return measure -> the best value that any system could reach, for the measures that have one.

    For a measure of retrieval it depends on the labels of this test set (its ceiling); for any other
    measure of a gate it is the end of its range, such as 1.
    """
    best_values = {}
    for gate in plan.targets.gates:
        best_on_any_testset = bound_of(gate)
        if best_on_any_testset is not None and perspective_of(gate) != "retrieval":
            best_values[gate] = best_on_any_testset
    return best_values | views.ceilings_of(plan.dataset, plan.targets.named)


def settings_of(plan: EvaluationPlan, targets: Targets) -> dict[str, Any]:
    """Return the settings of an evaluation as plain data, as a result keeps them; options that are not
    used are left out. Objects of the user appear by their names.
    """
    spec = plan.spec
    settings = {
        "suite": spec.suite,
        "categories": list(spec.categories),
        "limit": spec.limit,
        "seed": spec.seed,
        "perspectives": list(spec.perspective_names),
        "shown_names": spec.shown_names,
        "embedder": getattr(plan.embedder, "name", plan.embedder),
        "support_model": plan.support_model,
        "judge": getattr(spec.judge, "name", spec.judge),
        "preset": targets.preset,
        "targets": dict(targets.measures),
        "cases": dict(targets.cases),
        "weights": {name: weight for name, weight in targets.weights.items() if weight},
        "gates": sorted(targets.gates),
        "named": list(targets.named),
        "detector": getattr(plan.detector, "name", "given") if plan.detector else "built-in",
        "k": list(spec.ks),
        "criteria": [criterion.name for criterion in plan.criteria],
        "own_criteria": [each.declaration for each in plan.criteria if each.is_own],
        "measures": [declaration(measure) for measure in plan.measures],
        "chosen": list(plan.chosen),
    }
    if not spec.limit:
        del settings["seed"]  # it draws the limited questions
    for name in _OPTIONAL_SETTINGS:
        if not settings[name]:
            del settings[name]
    return settings
