"""evaluate: check -> ask -> judge -> score -> decide. The only sequence; every surface calls it.
What it takes as a system, and which arguments it refuses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import case_verdicts, diagnose
from ragbench.evaluation import perspectives as views
from ragbench.evaluation.evaluation_plan import EvaluationPlan
from ragbench.evaluation.output import SystemOutput
from ragbench.evaluation.parameters import OF_PIPELINE
from ragbench.evaluation.preparation import check_evaluation, settings_of
from ragbench.evaluation.records import Cost, MeasureResult, Perspective, cost_facts
from ragbench.evaluation.regressions import compare_results
from ragbench.evaluation.requests import ask_all
from ragbench.evaluation.result import (
    FAILED_SAMPLES,
    Result,
    judge_failures,
    name_of,
    new_result,
)
from ragbench.evaluation.results import Results
from ragbench.evaluation.rows import compare_with_target, latency_of, rows_of
from ragbench.evaluation.spec import ELSEWHERE, EvaluationSpec, unknown_option
from ragbench.evaluation.targets import Targets, check_reachable
from ragbench.evaluation.wordings import (
    judgements_by_meaning,
    scores_by_meaning,
    users_measures_of,
    wordings_of,
)
from ragbench.hints.calls import explaining_calls
from ragbench.judges.card import find_card
from ragbench.llms import load_llm
from ragbench.metrics import score_interventions
from ragbench.progress import progress_bar
from ragbench.registry import perspective_of
from ragbench.retrieval.retrievers import is_beir_model, makes_retriever
from ragbench.systems import FunctionSystem, Pipeline, RecordedSystem
from ragbench.systems.function import to_callable
from ragbench.testsets.fields import outputs_of
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.plain_data import dataset_of, rows_of_data
from ragbench.types import (
    Answer,
    Dataset,
    Judgement,
    Retriever,
    System,
)

SystemLike = (
    str
    | Path
    | System
    | Retriever
    | Callable[..., Any]
    | Sequence[Answer | Mapping[str, Any]]
    | pd.DataFrame
)

if TYPE_CHECKING:
    from ragbench.evaluation.options import PipelineOptions


@explaining_calls(**ELSEWHERE)
def evaluate(
    dataset: Any,
    system: SystemLike | list[str] | Mapping[str, SystemLike] = "",
    spec: EvaluationSpec | None = None,
    *,
    parameters: Mapping[str, Any] = MappingProxyType({}),
    journal: str | Path = "",
    **options: Unpack[PipelineOptions],
) -> Result:
    """Ask a system every question of a dataset, and score its output from every perspective.

    Args:
        dataset: a dataset, or a name or path for `load_dataset`; or data in hand: rows of question,
            answer, contexts and reference under the names that ragas or DeepEval use (a DataFrame,
            a list of dicts or test cases, a `datasets.Dataset`), or (corpus, queries, qrels) as
            beir loads them. Which labels its cases have decides what can be measured.
        system: what is asked; "" means the answers in these rows, else "bm25". One of these:

            - A retriever's name for ragbench's own pipeline ("bm25", "hybrid:wordllama"), or a
              retriever of your own.
            - A TOML file that describes a pipeline or a service, or the address of a service.
            - A function from a question to its answer, or a retriever, chain or engine of a framework
              (as `FunctionSystem` takes them); or any `System`.
            - A retrieval model of BEIR. It searches whole documents, and is not timed, as each search
              encodes all of them.
            - The answers themselves: a file of recorded answers, a list of dicts or a DataFrame.
            - Several systems, in a list or a mapping name -> system: `Results` are returned.
        spec: all options as one object; None means the defaults.
        parameters: of the configuration, as in `new_result`; none keep the name of the system.
        journal: a file (.jsonl) or folder in which the answers of a service are kept as they come, so that
            the same call continues after an interruption; "" keeps nothing.
        options: fields of `EvaluationSpec`, in place of the fields of `spec`: perspectives, judge,
            targets and others; and, for a retriever's name, parameters of `Pipeline` (k,
            chunk_size, llm, ...).

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
            reached, or of a perspective that is not evaluated. One that turns out to have no value
            makes `Result.passed` False.
        DataError: the dataset has neither questions nor safety samples.
        ModelError: a model could not be loaded, or no server answers, of the model or the system.
        ComparisonError: the baseline is of other data.
    """
    _check_arguments(system, spec)
    if isinstance(system, pd.DataFrame):
        system = rows_of_data(system)
    several = _several_systems(system)
    if several:
        results = []
        for each, own_options in several:
            results.append(evaluate(dataset, each, spec, **{**options, **own_options}))
        return Results(results)  # type: ignore[return-value]  # one system returns a Result
    if isinstance(dataset, str | Path):
        dataset = load_dataset(dataset)
    elif not isinstance(dataset, Dataset):
        if system == "" and not isinstance(dataset, tuple):
            system = _recorded_in_rows(dataset)
        dataset = dataset_of(dataset)
    _check_retriever_is_no_system(options)
    known_options = [*EvaluationSpec.model_fields, *OF_PIPELINE]
    for name in options:
        if name not in known_options:
            raise ConfigError(unknown_option(name, ["system", *known_options]))
    of_evaluation: dict[str, Any] = {**options}
    of_pipeline = {name: of_evaluation.pop(name) for name in OF_PIPELINE if name in of_evaluation}
    if system == "":  # and the data have no answers
        retriever = of_pipeline.get("retriever", "bm25")
        if isinstance(retriever, str):
            system = retriever
            of_pipeline.pop("retriever", None)
    _refuse_lists(of_pipeline, system)
    if "embedder" in options:
        _check_retriever_names_embedder(system, options["embedder"])
    plan = check_evaluation(dataset, (spec or EvaluationSpec()).replaced(**of_evaluation))
    output = ask_all(
        plan.dataset,
        _system_of(system, plan.dataset, of_pipeline),
        plan.spec,
        criteria=plan.criteria,
        journal=journal,
    )
    return decide(plan, score(plan, output), parameters)


def _check_arguments(system: Any, spec: Any) -> None:
    """Raise ConfigError if arguments of `evaluate` are in the wrong place, or the system is a run."""
    if spec is not None and not isinstance(spec, EvaluationSpec):
        raise ConfigError(
            f"the third argument is {type(spec).__name__}; expected an EvaluationSpec. Data of beir "
            "is one argument, evaluate((corpus, queries, qrels), system); score_run(qrels, run) "
            "scores a run"
        )
    if system is None:
        raise ConfigError(
            "the system is None; leave it out for rows with answers, rb.evaluate(rows), or name a retriever, "
            "rb.evaluate(data, 'bm25')"
        )
    if isinstance(system, Dataset):
        raise ConfigError(
            "the system is a Dataset; evaluate(dataset, system) takes the dataset first: were the two "
            "given the other way round?"
        )
    if _is_run(system):
        raise ConfigError(
            "the system is a run, query -> document -> score; rb.score_run(data.qrels, run, measures) scores it, "
            "and rb.compare(scores, others) compares it"
        )


def _several_systems(system: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Return (system, its own options of `evaluate`) for each of several systems: {"a": f} ->
    [(f, {"name": "a"})], and [f, g] -> [(f, {}), (g, {})]. [] for a single system; a list of recorded
    answers is one.
    """
    if isinstance(system, Mapping):
        _refuse_options_as_systems(system)
        return [(each, {"name": name}) for name, each in system.items()]
    is_list = isinstance(system, list) and bool(system)
    if is_list and not isinstance(system[0], Answer | Mapping):
        return [(each, {}) for each in system]
    return []


_OUTPUT_FIELDS = {"answer", "contexts", "error", "flags", "outcome"}
"""The fields of a row that come from a system; the others are labels."""


def _is_run(system: Any) -> bool:
    """Return True for a run (rankings of documents): query -> document -> score, or query -> list of
    document ids.
    """
    if not isinstance(system, Mapping) or not system:
        return False
    rankings = list(system.values())
    if all(isinstance(ids, list) for ids in rankings):
        return all(isinstance(doc_id, str) for ids in rankings for doc_id in ids)
    for scores in rankings:
        if not isinstance(scores, Mapping):
            return False
        is_options_of_pipeline = bool(scores.keys() & OF_PIPELINE)  # such as {"k": 5}
        has_numbers = all(isinstance(score, int | float) for score in scores.values())
        if is_options_of_pipeline or not has_numbers:
            return False
    return True


def _refuse_options_as_systems(systems: Mapping[str, Any]) -> None:
    """Raise ConfigError if the systems, or one of them, are a dict of options of the pipeline."""
    if systems and set(systems) <= set(OF_PIPELINE):
        options = ", ".join(f"{option}={value!r}" for option, value in systems.items())
        raise ConfigError(f"the system is a dict of options; call rb.evaluate(data, {options})")
    for name, system in systems.items():
        if isinstance(system, Mapping) and system.keys() & OF_PIPELINE:
            options = ", ".join(f"{option}={value!r}" for option, value in system.items())
            raise ConfigError(
                f"system {name!r} is a dict of options; call rb.evaluate(data, {name!r}, {options}) "
                "for each system, or rb.sweep(grid)"
            )


def _refuse_lists(of_pipeline: Mapping[str, Any], system: Any) -> None:
    """Raise ConfigError if an option of the pipeline is a list: several values, for which a call is named."""
    arguments = "data, system"
    if isinstance(system, str):
        arguments = f"data, {system!r}" if system else "data"  # "": a retriever is an option
    for name, value in of_pipeline.items():
        if not isinstance(value, list):
            continue
        evaluation = f"rb.evaluate({arguments}, {name}=x)"
        call = f"rb.Results({{f'{name}={{x}}': {evaluation} for x in {value!r}}})"
        raise ConfigError(f"{name} is {value!r}; a system has one value; for several write {call}")


def _check_retriever_names_embedder(retriever: Any, embedder: Any) -> None:
    """Raise ConfigError if the system is "dense" or "hybrid" without an embedder, and the user named one as
    the option `embedder`, which does not search.
    """
    if not isinstance(retriever, str) or retriever not in ("dense", "hybrid"):
        return
    if isinstance(embedder, str):
        advice = f"write '{retriever}:{embedder}' to search with it"
    else:
        advice = (
            "to search with your own, write rb.evaluate(data, retriever=lambda chunks: "
            f"rb.make_retriever({retriever!r}, chunks, embedder=embedder)); else '{retriever}:minilm'"
        )
    raise ConfigError(
        f"retriever {retriever!r} names no embedder, and the option embedder is for the similarity of "
        f"answers; {advice}"
    )


def _check_retriever_is_no_system(options: Mapping[str, Any]) -> None:
    """Raise ConfigError if the option `retriever` is an object with an index of its own, which is a system.

    The message has the working call. It comes before those about other options, such as `top_k`, which go
    with it.
    """
    retriever = options.get("retriever")
    if retriever is None or isinstance(retriever, str | type) or callable(retriever):
        return
    if isinstance(retriever, Retriever) or is_beir_model(retriever):
        return
    method = to_callable(retriever)
    if method is None:
        return
    name = type(retriever).__name__
    call = f"rb.evaluate(data, {name}(), ...)"
    try:
        FunctionSystem(retriever)
    except ConfigError:  # its method needs more than the question, such as the number of results
        call = f"rb.evaluate(data, lambda question: retriever.{method.__name__}(question, 5), ...)"
    raise ConfigError(
        f"the retriever is an object of {name}, which searches by itself and is a system: write {call}, without "
        "the options retriever and k"
    )


def _recorded_in_rows(data: Any) -> RecordedSystem:
    """Return a system that replies with the answers and contexts in rows of data. Rows without a field for
    the output of a system are left out.

    Raises:
        DataError: there are rows, and all these fields are empty.
    """
    rows = rows_of_data(data)
    answered = []
    has_output = False
    for row in rows:
        output = outputs_of(row)
        if not _OUTPUT_FIELDS.isdisjoint(output):
            answered.append(row)
        if any(output.get(name) for name in _OUTPUT_FIELDS):
            has_output = True
    if rows and not has_output:
        raise DataError(
            f"no row has an answer or contexts, and no system is named; the fields are "
            f"{', '.join(map(repr, rows[0]))}, expected fields such as 'answer' and 'contexts'; to ask a system these "
            "questions, write rb.evaluate(rows, system)"
        )
    return RecordedSystem(answered)


def _system_of(system: Any, dataset: Dataset, of_pipeline: Mapping[str, Any]) -> Any:
    """Return what the user gave as `system` in a form that `ask_all` takes.

    - A retriever becomes a `Pipeline`: an object that searches, a class or function that makes one from
      chunks (`makes_retriever`), a retrieval model of BEIR.
    - A name becomes a `Pipeline` with this retriever if there are options of the pipeline. Else it is
      returned unchanged, as a `System` is.
    - A sequence becomes recorded answers.
    - Anything else is a function, chain or engine, and becomes a `FunctionSystem`.

    Args:
        of_pipeline: the options of `Pipeline` that the user named, among them perhaps "retriever".

    Raises:
        ConfigError: options of the pipeline for another system, or a system next to a retriever.
    """
    if isinstance(system, type) and hasattr(system, "answer"):
        system = system()
    if "retriever" in of_pipeline:
        is_named = not (isinstance(system, str) and system == "")
        if is_named:
            raise ConfigError(
                f"the system is {system!r:.80} and the retriever {of_pipeline['retriever']!r:.80}; "
                "name one of them"
            )
        return Pipeline(dataset, **of_pipeline)
    if is_beir_model(system):
        return Pipeline(dataset, system, **{"chunker": "document", **of_pipeline})
    is_retriever = makes_retriever(system) or (
        isinstance(system, Retriever) and not callable(system)
    )
    if of_pipeline:
        if not isinstance(system, str) and not is_retriever:
            raise ConfigError(
                f"{', '.join(of_pipeline)} is an option of ragbench's own pipeline, which a "
                "retriever's name such as 'bm25' selects; set it in your system, or if that makes a "
                "retriever from chunks, pass it as retriever=..."
            )
        return Pipeline(dataset, system, **of_pipeline)
    if isinstance(system, str | Path | System):  # also an object that answers and searches
        return system
    if isinstance(system, Sequence):
        return RecordedSystem(system, name="recorded answers")
    if is_retriever:
        return Pipeline(dataset, system)
    return FunctionSystem(system, corpus=dataset.corpus)


class PerspectiveScores(NamedTuple):
    """The scores of a system's output: perspective -> measurement; `states` tells for each whether it
    was measured or why not, and `seconds` how long it took.
    """

    output: SystemOutput
    measurements: Mapping[str, views.Measurement]
    states: Sequence[Perspective]
    seconds: Mapping[str, float]


def score(plan: EvaluationPlan, output: SystemOutput) -> PerspectiveScores:
    """Score an output from every perspective of the plan that can be measured."""
    measurements: dict[str, views.Measurement] = {}
    states: list[Perspective] = []
    seconds = dict(output.seconds)
    kinds = views.kinds_of(plan)
    with progress_bar(len(kinds), "scoring", "perspectives") as bar:
        for kind in kinds:
            start = time.perf_counter()
            missing = kind.missing(plan, output)
            if missing:
                measurement = views.Measurement(reason=missing)
            else:
                measurement = kind.measure(plan, output)
            measurements[kind.name] = measurement
            states.append(_state(kind.name, measurement, plan, output))
            seconds[kind.name] = round(seconds.get(kind.name, 0.0) + time.perf_counter() - start, 3)
            bar.update()
    return PerspectiveScores(output, measurements, states, seconds)


def _state(
    name: str, measurement: views.Measurement, plan: EvaluationPlan, output: SystemOutput
) -> Perspective:
    """Return whether a perspective was measured, with the note on how, or the reason why not."""
    if measurement.is_empty(plan.deciding.named):
        reason = measurement.reason or _nothing_scored(output)
        return Perspective(name, False, reason, "", measurement.warning)
    return Perspective(name, True, "", measurement.note, measurement.warning)


def decide(
    plan: EvaluationPlan,
    scored: PerspectiveScores,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """Decide which questions pass and which targets are reached, and return the result.

    Args:
        plan: the options of the evaluation.
        scored: the output of the system with its scores from every perspective.
        parameters: of the configuration; {} keeps the name of the system.
    """
    output = scored.output
    deciding = plan.deciding  # the targets that decide
    frames = {name: each.scores for name, each in scored.measurements.items()}
    measured = {state.name: frames[state.name] for state in scored.states if state.measured}
    if measured.keys().isdisjoint(case_verdicts.PERSPECTIVES_OF_ANSWERS):
        deciding = deciding.without_defaults_for(["pass_rate"])  # a target for answers
    # a verdict by the user's wording of a criterion counts as a verdict by this criterion
    judgements = judgements_by_meaning(output.judgements, wordings_of(plan.criteria))
    decisions = _pass_decisions(plan, output, measured, judgements, deciding.weights)
    frames["overall"] = decisions.scores
    if output.variations:
        frames["interventions"] = _intervention_scores(plan, output)
    is_pass_rate = decisions.scores["measure"] == "pass_rate"
    passed = decisions.scores[is_pass_rate].set_index("query_id")["value"]
    states = [*scored.states, _overall_state(passed)]
    names_measured = {state.name for state in states if state.measured}
    rows = _rows(plan, scored, frames, names_measured, deciding)
    scores = _all_scores(frames, plan.dataset)
    diagnosis = _diagnosis(plan, replace(output, judgements=judgements), measured, scores)
    if plan.chosen:  # the user named measures: others are not reported
        reported = _reported_measures(plan)
        scores = scores[scores["measure"].isin(reported)]
        rows = [row for row in rows if row.measure in reported]
    groundedness = scored.measurements.get("groundedness", views.Measurement())
    safety = scored.measurements.get("safety", views.Measurement())
    costs = case_verdicts.evaluation_costs(output)
    result = new_result(
        name=_result_name(plan, output),
        parameters=parameters or {"system": str(output.system["name"])},
        dataset=plan.dataset,
        run=output.documents,
        scores=scores.reset_index(drop=True),
        answers=output.answers,
        judgements=output.judgements,
        timings=scored.seconds,
        facts=_facts(output, costs),
        diagnosis=diagnosis,
        system=output.system,
        settings=settings_of(plan, deciding),
        perspectives=tuple(states),
        rows=tuple(rows),
        verdicts=case_verdicts.plain_verdicts(
            output, passed, decisions.reasons, groundedness.claims
        ),
        safety=safety.figures,
        samples=safety.samples,
        latency=latency_of(output),
        costs=costs,
        output=output,
    )
    cards = _judge_cards(plan)
    if cards:
        result = replace(result, config={**result.config, "judge_cards": cards})
    comparison = None if plan.baseline is None else compare_results(plan.baseline, result)
    # advice is about all targets, also those that do not decide here
    advice = case_verdicts.advice_for(result, output, plan.targets)
    return replace(result, advice=advice, comparison=comparison)


def _pass_decisions(
    plan: EvaluationPlan,
    output: SystemOutput,
    measured: Mapping[str, pd.DataFrame],
    judgements: Sequence[Judgement],
    weights: Mapping[str, float],
) -> case_verdicts.PassDecisions:
    """Decide which questions pass. If the user reworded a criterion of ragbench, the verdicts by the new
    wording count as verdicts by this criterion.

    Args:
        measured: perspective -> its scores.
        judgements: the judge's verdicts, renamed to the criteria of ragbench already.
        weights: part of an answer -> how much it counts in the overall.
    """
    meanings = wordings_of(plan.criteria)  # reworded criterion -> the criterion that it replaces
    by_meaning = {name: scores_by_meaning(frame, meanings) for name, frame in measured.items()}
    lost = judge_failures(judgements).lost
    return case_verdicts.decide_passing(output, by_meaning, plan.targets.cases, weights, lost)


def _reported_measures(plan: EvaluationPlan) -> set[str]:
    """Return the measures that are reported if measures are chosen: these, and the measures of the
    user's targets, of the user's own functions, and of the user's own criteria.
    """
    names = {*plan.chosen, *plan.targets.named}
    names.update(measure.name for measure in plan.measures)
    names.update(criterion.measure.name for criterion in plan.criteria if criterion.is_own)
    return names


def _intervention_scores(plan: EvaluationPlan, output: SystemOutput) -> pd.DataFrame:
    """Return the scores of the answers after each intervention, next to the untouched answers."""
    variations = {name: (each.cases, each.answers) for name, each in output.variations.items()}
    meanings = wordings_of(plan.criteria)
    judgements = {"untouched": judgements_by_meaning(output.judgements, meanings)}
    for name, of_variation in output.variation_judgements.items():
        judgements[name] = judgements_by_meaning(of_variation, meanings)
    return score_interventions(plan.dataset, output.answers, variations, judgements)


def _overall_state(passed: pd.Series) -> Perspective:
    """Return whether anything decides which questions pass; `passed` has NaN where nothing does."""
    is_decided = bool(passed.notna().any())
    reason = "" if is_decided else "nothing decides whether a question passes"
    return Perspective("overall", is_decided, reason)


def _all_scores(frames: Mapping[str, pd.DataFrame], dataset: Dataset) -> pd.DataFrame:
    """Return the scores of all perspectives as one tidy frame, of the questions of the dataset."""
    filled = [frame for frame in frames.values() if len(frame)]
    if not filled:
        filled = [frames["overall"]]  # has the columns, and no row
    scores = pd.concat(filled)
    is_asked = scores["query_id"].isin(dataset.queries)
    return scores.loc[is_asked, ["query_id", "measure", "value"]]


def _facts(output: SystemOutput, costs: Sequence[Cost]) -> dict[str, Any]:
    """Return the statistics of the chunks, the costs, and, if there are any, the time of a search and
    the number of failed safety samples.
    """
    facts: dict[str, Any] = {**views.chunk_statistics(output)}
    if output.search_ms is not None:
        facts["search_ms"] = output.search_ms
    facts |= cost_facts(costs, output.answers)
    if output.n_failed_samples:
        facts[FAILED_SAMPLES] = output.n_failed_samples
    return facts


def _judge_cards(plan: EvaluationPlan) -> list[dict[str, Any]]:
    """Return what audits have shown of the judge by the criteria of the plan."""
    if not plan.spec.judge:
        return []
    judge = load_llm(plan.spec.judge).name
    asked = [criterion for criterion in plan.criteria if criterion.function is None]
    cards = [find_card(judge, criterion) for criterion in asked]
    return [card for card in cards if card is not None]


def _rows(
    plan: EvaluationPlan,
    scored: PerspectiveScores,
    frames: Mapping[str, pd.DataFrame],
    measured: Collection[str],
    deciding: Targets,
) -> list[MeasureResult]:
    """Return the rows of a result: one per measure, with its mean and target. A measure that the user named
    and that has no score gets a row without a value.

    Args:
        plan: the options of the evaluation.
        scored: the output with its scores.
        frames: perspective -> its scores.
        measured: the perspectives whose measures get rows.
        deciding: the targets that decide.

    Raises:
        ConfigError: a gate is above the best value that is possible with these chunks.
    """
    ceilings = views.ceilings_of(plan.dataset, plan.named, scored.output)
    check_reachable(deciding, ceilings)
    rows: list[MeasureResult] = []
    for frame in frames.values():
        rows += rows_of(frame, deciding, ceilings)
    for measurement in scored.measurements.values():
        rows += measurement.rows
    rows = [row for row in rows if row.perspective in measured]
    scored_names = {row.measure for row in rows}
    for name in deciding.named:
        if name not in scored_names:
            rows.append(_unscored_row(name, plan, deciding))
    return rows


def _unscored_row(measure: str, plan: EvaluationPlan, deciding: Targets) -> MeasureResult:
    """Return the row of a measure that has no value, next to its target."""
    row = MeasureResult(
        measure,
        perspective_of(measure),
        value=None,
        ci_low=None,
        ci_high=None,
        n_scored=0,
        n=len(plan.dataset.cases),
    )
    return compare_with_target(row, deciding)


def _diagnosis(
    plan: EvaluationPlan,
    output: SystemOutput,
    measured: Mapping[str, pd.DataFrame],
    scores: pd.DataFrame,
) -> pd.DataFrame | None:
    """Return the table of `diagnose`, with the first cause of each failure; None unless both retrieval and
    answers were measured.

    If the user reworded a criterion of ragbench, `diagnose` gets its scores as scores by this criterion
    (llm_correctness), and the table names the user's measure again (llm_my_words).
    """
    measured_answers = not measured.keys().isdisjoint(case_verdicts.PERSPECTIVES_OF_ANSWERS)
    if "retrieval" not in measured or not measured_answers:
        return None
    meanings = wordings_of(plan.criteria)  # reworded criterion -> the criterion that it replaces
    # each chunk once: those that were searched, and those that only the contexts have
    chunk_of = {chunk.chunk_id: chunk for chunk in (*output.searched, *output.texts)}
    table = diagnose(
        output.dataset,
        output.chunk_run,
        output.answers,
        output.judgements,
        scores_by_meaning(scores, meanings),
        list(chunk_of.values()),
        depth=output.depth,
        stages=output.stages,
        filtered=output.filtered,
        thresholds=plan.targets.cases,
    )
    return table.assign(measure=table["measure"].replace(users_measures_of(meanings)))


def _result_name(plan: EvaluationPlan, output: SystemOutput) -> str:
    """Return the name of the result, such as "pydoc-bm25 (smoke, 10 questions)" for a part of the
    questions.
    """
    spec = plan.spec
    name = spec.name or f"{name_of(plan.dataset)}-{output.system['name']}"
    parts = []
    if spec.suite != "full":
        parts.append(spec.suite)
    if spec.limit > 0:
        parts.append(f"{spec.limit} questions")
    return f"{name} ({', '.join(parts)})" if parts else name


def _nothing_scored(output: SystemOutput) -> str:
    """Return why a perspective that could be measured has no value."""
    answers = output.answers
    if answers and all(answer.failed for answer in answers):
        return f"nothing to score: all {len(answers)} answers failed, first {answers[0].error}"
    return "nothing to score: no question has both the labels and an answer for any of its measures"
