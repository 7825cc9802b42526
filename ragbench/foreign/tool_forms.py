"""Scores in exports of evaluation tools in JSON, each with a form of its own: DeepEval, promptfoo,
lm-evaluation-harness, OpenAI evals, Braintrust, LangSmith, Pydantic Evals, Haystack, Weave, Phoenix
and ragas (and Inspect, in `inspect_logs`).

A form has a function that recognises it and one that reads it; `FORMS` lists them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.errors import DataError, printable, warn_of_flaw
from ragbench.foreign.cells import id_of, is_blank, number_of, question_of, score_of
from ragbench.foreign.inspect_logs import is_inspect_log, rows_of_inspect_log
from ragbench.foreign.nested_scores import measure_in, named_scores, score_in, stated_directions
from ragbench.foreign.score_columns import Record, Scored, with_ids_of_inputs
from ragbench.testsets.fields import QUESTIONS, column_name


def _is_deepeval(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(_deepeval_cases(value))


def _deepeval_cases(value: Mapping[str, Any]) -> list[Record]:
    """Return the test cases of a run of DeepEval; [] if the value is not such a run. The field with
    the cases has another name in each version.
    """
    cases: list[Record] = []
    for name in (
        "testCases",
        "conversationalTestCases",
        "test_cases",
        "test_results",
        "testResults",
    ):
        part = value.get(name)
        if isinstance(part, list):
            cases += [case for case in part if isinstance(case, Mapping)]
    # the test results of Opik are tables of another form
    return [case for case in cases if "score_results" not in case]


def _rows_of_deepeval(value: Mapping[str, Any]) -> list[Scored]:
    """Read a test run of DeepEval: a metric that failed has an error and no score."""
    rows = []
    for case in _deepeval_cases(value):
        # versions of DeepEval spell the fields in snake case or in camel case
        by_field = {column_name(name): part for name, part in case.items()}
        metrics = by_field.get("metrics_data") or []
        scores = named_scores(metrics)
        if scores:
            # if a metric could not be computed, DeepEval sets success to false; here it is missing
            is_complete = not any(map(math.isnan, scores.values()))
            success = score_of(by_field.get("success")) if is_complete else math.nan
            scores.setdefault("success", success)
        question = by_field.get("input")
        if not question and isinstance(by_field.get("turns"), list):  # a conversation
            question = by_field["turns"]
        query_id = id_of(by_field.get("name"))
        row = Scored(query_id, question_of(question), scores, directions=stated_directions(metrics))
        rows.append(row)
    return rows


def _is_promptfoo(value: Any) -> bool:
    """Return True if a value is the output of promptfoo, by the fields of its rows."""
    rows = _promptfoo_rows(value)
    return (
        bool(rows)
        and all("vars" in row or "testCase" in row for row in rows)
        and any("gradingResult" in row or "success" in row for row in rows)
    )


def _promptfoo_rows(value: Any) -> list[Record]:
    """Return the rows of promptfoo's output: a list (its JSON Lines), or in `results`, or, by the
    version, in `results` of `results`; [] for another value.
    """
    for _ in range(2):  # `results` may hold an object with the rows in its own `results`
        if isinstance(value, Mapping):
            value = value.get("results")
    if not isinstance(value, list):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def _rows_of_promptfoo(value: Any) -> list[Scored]:
    """Read the output of promptfoo: a row per test, provider and prompt.

    A row that failed with an error has score 0 in the file; here its scores are NaN, and its time and
    cost stay. A system is a provider or, if there are several prompts, a provider with a prompt. The
    name of a single system is "".
    """
    results = _promptfoo_rows(value)
    prompts = {id_of(row.get("promptIdx")) for row in results}  # numbers of the prompts
    rows = []
    for row in results:
        query_id, question = _question_of_promptfoo(row)
        system = _system_of_promptfoo(row)
        if len(prompts) > 1:
            system += f", prompt {id_of(row.get('promptIdx'))}"
        rows.append(Scored(query_id, question, _scores_of_promptfoo(row), system))
    if not any(row.query_id for row in rows):
        rows = with_ids_of_inputs(rows, [_variables_of_promptfoo(row) for row in results])
    systems = {row.system for row in rows}
    if len(systems) > 1:
        return rows
    return [row._replace(system="") for row in rows]


def _question_of_promptfoo(row: Record) -> tuple[str, str]:
    """Return the id and the question of a row of promptfoo.

    The question is in the variables of the test, and the id is "": a repeated test has the same variables,
    but another number (testIdx) each time. For a test without variables, the id is its number and the
    question its description.
    """
    variables = _variables_of_promptfoo(row)
    if variables:
        return "", question_of(variables)
    description = _test_of_promptfoo(row).get("description", "")
    return id_of(row.get("testIdx")), question_of(description)


def _test_of_promptfoo(row: Record) -> Record:
    """Return the test in a row of promptfoo; {} without one."""
    case = row.get("testCase")
    return case if isinstance(case, Mapping) else {}


def _variables_of_promptfoo(row: Record) -> Any:
    """Return the variables of the test in a row of promptfoo; None, or an empty object, without any."""
    return row.get("vars") or _test_of_promptfoo(row).get("vars")


def _scores_of_promptfoo(row: Record) -> dict[str, float]:
    """Return measure -> value of a row of promptfoo: its scores, its time and its cost. If the row
    failed with an error, its scores are NaN.
    """
    cells: dict[str, Any] = {"score": row.get("score"), "pass": row.get("success")}
    for name, cell in (row.get("namedScores") or {}).items():
        cells.setdefault(printable(str(name)), cell)
    is_failed = _failed_in_promptfoo(row)
    scores = {}
    for name, cell in cells.items():
        scores[name] = math.nan if is_failed else score_of(cell)
    for name in ("latencyMs", "cost"):
        if isinstance(row.get(name), int | float):
            scores.setdefault(name, float(row[name]))
    return scores


def _system_of_promptfoo(row: Record) -> str:
    """Return the provider of a row of promptfoo: a text, or a record with a label or an id."""
    provider = row.get("provider")
    if isinstance(provider, Mapping):
        return id_of(provider.get("label") or provider.get("id"))
    return id_of(provider)


def _failed_in_promptfoo(row: Record) -> bool:
    """Return True if a provider or a grader failed: `failureReason` is 2 (1: an assertion failed).

    Older versions lack it, and an answer that fails its assertions has an `error`, too: there, only a row
    without an answer and without a grade has failed.
    """
    reason = row.get("failureReason")
    if reason is not None:
        return bool(reason == 2)
    response = row.get("response")
    has_output = isinstance(response, Mapping) and response.get("output") is not None
    return bool(row.get("error")) and not has_output and not row.get("gradingResult")


def _is_lm_eval(value: Any) -> bool:
    """Return True for samples of lm-evaluation-harness, by the fields of the first record."""
    return _first_has(value, {"doc_id"}) and (
        _first_has(value, {"filtered_resps"}) or _first_has(value, {"doc_hash"})
    )


def _rows_of_lm_eval(records: Sequence[Record]) -> list[Scored]:
    """Read the samples of lm-evaluation-harness, a row per document and filter.

    A filter extracts the answer from the output; with several filters, each measure bears the name of
    its filter, as in "exact_match,strict-match".
    """
    filters = {str(record.get("filter", "none")) for record in records}
    rows = []
    for record in records:
        suffix = f",{record.get('filter')}" if len(filters) > 1 else ""
        scores = _scores_of_lm_eval(record, suffix)
        # every task numbers its documents from 0: the hash distinguishes documents of equal number
        id_parts = [id_of(record.get("doc_id")), id_of(record.get("doc_hash"))[:8]]
        query_id = " ".join(filter(None, id_parts))
        rows.append(Scored(query_id, _question_of_lm_eval(record), scores))
    return rows


def _question_of_lm_eval(record: Record) -> str:
    """Return the question of a sample of lm-evaluation-harness. It is in its document, which,
    unlike the prompt, is the same for all models. Without a document it is the arguments of the
    requests as JSON, or "".
    """
    document = record.get("doc")
    if isinstance(document, Mapping):
        return question_of(document)
    arguments = record.get("arguments")
    if not arguments:
        return ""
    return json.dumps(arguments, sort_keys=True, default=str, ensure_ascii=False)


def _scores_of_lm_eval(record: Record, suffix: str) -> dict[str, float]:
    """Return measure -> score of a sample; NaN if the score is not a number. `suffix` is appended to
    each name.
    """
    names = record.get("metrics")
    if not isinstance(names, list):
        # a record that does not list its measures: any other field may be one
        names = [name for name in record if name not in ("doc_id", "target", "filter")]
    scores = {}
    for name in names:
        score = record.get(name)
        # texts and lists are inputs of a corpus-level measure (BLEU, perplexity), not scores
        if not isinstance(score, str | list | Mapping):
            scores[printable(f"{name}{suffix}")] = score_of(score)
    return scores


def _is_openai_evals(value: Any) -> bool:
    """Return True for a log of OpenAI evals: its first line is no event, so any record counts."""
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return False
    return any("event_id" in row and "type" in row for row in value)


def _rows_of_openai_evals(records: Sequence[Record]) -> list[Scored]:
    """Read the log of OpenAI evals: several events per sample, each with its question or with scores."""
    questions: dict[str, str] = {}  # id of a sample -> its question
    scores: dict[str, dict[str, float]] = {}  # id of a sample -> measure -> score
    for event in records:
        sample = id_of(event.get("sample_id"))
        data = event.get("data")
        if not sample or not isinstance(data, Mapping):
            continue
        scores_of_sample = scores.setdefault(sample, {})
        match event.get("type"):
            case "sampling" if data.get("prompt"):
                questions.setdefault(sample, question_of(data["prompt"]))
            case "match":  # whether the answer equals the expected one
                scores_of_sample["correct"] = score_of(data.get("correct"))
            case "metrics":
                for name, cell in data.items():
                    number = number_of(cell)
                    if number is not None:
                        scores_of_sample[printable(str(name))] = number
    return [Scored(sample, questions.get(sample, ""), found) for sample, found in scores.items()]


def _is_braintrust(value: Any) -> bool:
    """Return True for an experiment of Braintrust, by the fields of its first event."""
    return _first_has(_braintrust_events(value), {"scores", "root_span_id"})


def _braintrust_events(value: Any) -> Any:
    """Return the events of an experiment: its field `events` (`data`, of a query), or the value itself
    if it is no object.
    """
    if isinstance(value, Mapping):
        return value.get("events") or value.get("data")
    return value


def _rows_of_braintrust(value: Any) -> list[Scored]:
    """Read experiments of Braintrust: a row for each root event with scores or an error. With an error
    the scores are NaN, or there are none. If there are several experiments, each is a system.

    The id is the question's in the data set (`origin`), else the event's.
    """
    rows = []
    for event in _braintrust_events(value):
        is_root = event.get("is_root")
        if is_root is None:  # an event is the root of its trace if it is its own root
            is_root = event.get("span_id") == event.get("root_span_id")
        has_scores = isinstance(event.get("scores"), Mapping)
        is_failed = not is_blank(event.get("error"))
        if not is_root or not (has_scores or is_failed):
            continue
        scores = named_scores(event["scores"]) if has_scores else {}
        if is_failed:
            scores = dict.fromkeys(scores, math.nan)  # each measure, without a value
        origin = event.get("origin")
        # the id of an event differs between experiments, the id of its question does not
        identified = origin if isinstance(origin, Mapping) else event
        query_id = id_of(identified.get("id"))
        system = id_of(event.get("experiment_name") or event.get("experiment_id"))
        rows.append(Scored(query_id, question_of(event.get("input")), scores, system))
    return rows


def _is_langsmith_examples(value: Any) -> bool:
    """Return True for the examples of LangSmith with their runs, by the fields of the first one."""
    examples = _langsmith_examples(value)
    return _first_has(examples, {"inputs", "runs"}) and isinstance(examples[0]["runs"], list)


def _langsmith_examples(value: Any) -> Any:
    """Return the examples of an experiment: its field `examples_with_runs`, or the value itself if it
    is no object.
    """
    return value.get("examples_with_runs") if isinstance(value, Mapping) else value


def _rows_of_langsmith_examples(value: Any) -> list[Scored]:
    """Read the examples of LangSmith with their runs: a row per run, without scores if the run failed."""
    rows = []
    for example in _langsmith_examples(value):
        question = question_of(example.get("inputs"))
        for run in example["runs"]:
            scores = {}
            if is_blank(run.get("error")):
                scores = named_scores(run.get("feedback_stats") or {})
            rows.append(Scored(id_of(example.get("id")), question, scores))
    return rows


def _is_pydantic_evals(value: Any) -> bool:
    """Return True for a report of Pydantic Evals, by its fields and the fields of its first case."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("failures"), list)
        and _first_has(value.get("cases"), {"scores", "assertions"})
    )


def _rows_of_pydantic_evals(value: Mapping[str, Any]) -> list[Scored]:
    """Read a report of Pydantic Evals: a row per case with its scores, its assertions (1 if one holds),
    its metrics and its time; a case whose task failed has none.
    """
    rows = []
    for case in (*value["cases"], *value["failures"]):
        # the name of a repeated case has the number of the repetition; its source has not
        query_id = id_of(case.get("source_case_name") or case.get("name"))
        scores: dict[str, float] = {}
        for field in ("scores", "assertions", "metrics"):
            for measure, score in named_scores(case.get(field) or {}).items():
                scores.setdefault(measure, score)
        if case.get("task_duration") is not None:
            scores.setdefault("task_duration", score_of(case["task_duration"]))
        rows.append(Scored(query_id, question_of(case.get("inputs")), scores))
    return rows


def _is_haystack(value: Any) -> bool:
    """Return True for the results of Haystack, by the fields of each measure."""
    if not isinstance(value, Mapping):
        return False
    results = value.get("results", value)
    if not isinstance(results, Mapping) or not results:
        return False
    return all(
        isinstance(part, Mapping) and isinstance(part.get("individual_scores"), list)
        for part in results.values()
    )


def _rows_of_haystack(value: Mapping[str, Any]) -> list[Scored]:
    """Read the fields of an EvaluationRunResult of Haystack: a row per question, whose parts are lists
    in `inputs`.

    Raises:
        DataError: the scores have no questions next to them, or another number of them.
    """
    inputs = value.get("inputs")
    results = value.get("results")
    if not isinstance(inputs, Mapping) or not isinstance(results, Mapping):
        raise DataError(
            "results of Haystack have scores without questions; write them with "
            "detailed_report(output_format='csv', csv_file='scores.csv')"
        )
    by_field = {column_name(name): texts for name, texts in inputs.items()}
    names = [name for name in ("questions", "queries", *QUESTIONS) if name in by_field]
    questions = by_field[names[0]] if names else []
    if any(len(part["individual_scores"]) != len(questions) for part in results.values()):
        raise DataError(
            f"results of Haystack have {len(questions)} questions in `inputs`, but a different number "
            "of individual_scores"
        )
    rows = []
    for place, question in enumerate(questions):
        scores = {}
        for measure, part in results.items():
            scores[printable(measure)] = score_of(part["individual_scores"][place])
        rows.append(Scored("", question_of(question), scores))
    return rows


def _is_weave_calls(value: Any) -> bool:
    """Return True for calls of Weave that evaluate an answer, by the names of functions."""
    names = {"op_name", "inputs", "output"}
    return _first_has(value, names) and any(map(_evaluates_answer, value))


def _evaluates_answer(call: Record) -> bool:
    """Return True for a call of Weave that asks a model and scores its answer."""
    return "predict_and_score" in str(call.get("op_name"))


def _rows_of_weave_calls(calls: Sequence[Record]) -> list[Scored]:
    """Read calls of Weave: a row for each answer, without scores if the model or a scorer failed (such a
    call has no output). The systems are the models. A scorer has one score, or several with names.
    """
    rows = []
    for call in calls:
        inputs = call.get("inputs")
        if not _evaluates_answer(call) or not isinstance(inputs, Mapping):
            continue
        output = call.get("output")
        by_scorer = None  # for a call that failed
        if isinstance(output, Mapping):
            by_scorer = output.get("scores")
        scores: dict[str, float] = {}
        for scorer, result in (by_scorer or {}).items():
            # {name: score, ...}, or the only score of the scorer, which has the scorer's name
            named = result if isinstance(result, Mapping) else {scorer: result}
            for measure, score in named_scores(named).items():
                scores.setdefault(measure, score)
        question = question_of(inputs.get("example"))
        rows.append(Scored("", question, scores, id_of(inputs.get("model"))))
    return rows


def _is_phoenix_experiment(value: Any) -> bool:
    """Return True for an experiment of Phoenix: an object with lists of runs and evaluations."""
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(value.get(name), list) for name in ("task_runs", "evaluation_runs"))


def _rows_of_phoenix_experiment(value: Mapping[str, Any]) -> list[Scored]:
    """Read an experiment of Phoenix's client: a row per run, with the scores of its evaluations, NaN if
    the run failed.

    Raises:
        DataError: runs or evaluations are not objects with fields.
    """
    runs = value["task_runs"]
    evaluations = value["evaluation_runs"]
    if not all(isinstance(part, Mapping) for part in (*runs, *evaluations)):
        raise DataError(
            "the task_runs or evaluation_runs of an experiment of Phoenix are texts, not records; write "
            "it with json.dump(experiment, file, default=lambda part: getattr(part, '__dict__', str(part)))"
        )
    scores_by_run: dict[str, dict[str, float]] = {id_of(run.get("id")): {} for run in runs}
    unknown_runs = []
    for evaluation in evaluations:
        run_id = id_of(evaluation.get("experiment_run_id"))
        if run_id in scores_by_run:
            scores_by_run[run_id].update(_scores_of_phoenix_evaluation(evaluation))
        else:
            unknown_runs.append(run_id)
    warn_of_flaw(
        "the evaluation_runs of an experiment",
        "left out because no task_run has their id",
        unknown_runs,
    )
    rows = []
    for run in runs:
        scores = scores_by_run[id_of(run.get("id"))]
        if not is_blank(run.get("error")):
            scores = dict.fromkeys(scores, math.nan)
        rows.append(Scored(id_of(run.get("dataset_example_id")), "", scores))
    return rows


def _scores_of_phoenix_evaluation(evaluation: Record) -> dict[str, float]:
    """Return measure -> score of one evaluation; NaN under the evaluator's name if it failed. An
    evaluator may return several scores with names.
    """
    name = printable(str(evaluation.get("name")))
    results = evaluation.get("result")
    if isinstance(results, Mapping):  # a single score
        results = [results]
    if not isinstance(results, list) or not is_blank(evaluation.get("error")):
        return {name: math.nan}
    return {measure_in(result) or name: score_in(result) for result in results}


def _is_ragas_annotation(value: Any) -> bool:
    """Return True for annotations of ragas: an object measure -> runs, by the fields of each first
    run.
    """
    if not isinstance(value, Mapping) or not value:
        return False
    return all(_first_has(part, {"metric_input", "metric_output"}) for part in value.values())


def _rows_of_ragas_annotation(value: Mapping[str, list[Record]]) -> list[Scored]:
    """Read a file of annotations of ragas, {measure: [run, ...]}: a row for each run of a measure.
    The score is the run's output, NaN if it is not a number.
    """
    rows = []
    for measure, runs in value.items():
        for run in runs:
            metric_input = run.get("metric_input")
            question = ""
            if isinstance(metric_input, Mapping):
                question = question_of(metric_input.get("user_input"))
            scores = {printable(measure): score_of(run.get("metric_output"))}
            rows.append(Scored("", question, scores))
    return rows


def _first_has(value: Any, names: set[str]) -> bool:
    """Return True if a value is a list of records, the first with these fields."""
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return is_list and names <= value[0].keys()


FORMS: Sequence[tuple[Callable[[Any], bool], Callable[[Any], list[Scored]]]] = (
    (is_inspect_log, rows_of_inspect_log),
    (_is_deepeval, _rows_of_deepeval),
    (_is_promptfoo, _rows_of_promptfoo),
    (_is_lm_eval, _rows_of_lm_eval),
    (_is_openai_evals, _rows_of_openai_evals),
    (_is_braintrust, _rows_of_braintrust),
    (_is_langsmith_examples, _rows_of_langsmith_examples),
    (_is_pydantic_evals, _rows_of_pydantic_evals),
    (_is_haystack, _rows_of_haystack),
    (_is_weave_calls, _rows_of_weave_calls),
    (_is_phoenix_experiment, _rows_of_phoenix_experiment),
    (_is_ragas_annotation, _rows_of_ragas_annotation),
)
"""For each tool: whether the value of a file is its export, and the scores in such a value."""
