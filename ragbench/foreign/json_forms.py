"""Values of JSON files that hold scores: the forms of DeepEval, promptfoo, lm-evaluation-harness, OpenAI
evals and Braintrust, measures by question (BEIR, pytrec_eval), and lists of records with nested scores
(MLflow, Phoenix, Langfuse, LangSmith, TruLens and others).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.datasets.raw_records import warn
from ragbench.errors import DataError, abridged, printable
from ragbench.foreign.cells import id_of, is_blank, is_category, number_of, question_of
from ragbench.foreign.inspect_logs import is_inspect_log, rows_of_inspect_log
from ragbench.foreign.scales import is_known_measure
from ragbench.foreign.score_columns import (
    IDS,
    MEASURES,
    Record,
    Scored,
    listed,
    scored_rows,
    with_reliable_ids,
)
from ragbench.registry import find_measure
from ragbench.testsets.fields import LISTS, QUESTIONS, column_name, read_cell

_LISTS = (
    *LISTS,
    *"events items samples runs experiment_runs item_results scores evaluations test_results details "
    "traces".split(),
)
_PER_QUERY = (
    "per_query per_question by_query query_results per_query_scores scores_per_query".split()
)
_SCORES = (
    "scores score metrics metrics_data named_scores metric_scores measures feedback feedbacks "
    "feedback_stats feedback_results evaluation evaluations evaluation_results eval evals assessments "
    "results annotations grades"
).split()
_MEANS = "metrics scores results means mean summary averages average aggregate aggregates".split()
_WITHOUT_SCORES = {
    "a summary of lm-evaluation-harness": (
        {"results", "configs"},
        "run it with --log_samples, and compare its samples_*.jsonl",
    ),
    "a summary of MTEB": (
        {"mteb_version", "scores"},
        "run it with a prediction folder, and score these runs with rb.score_run(qrels, run)",
    ),
    "predictions of MTEB": (
        {"mteb_model_meta"},
        "they are runs of documents, which rb.score_run(qrels, run) scores",
    ),
    "the header of a log of Inspect": (
        {"eval", "plan", "status"},
        "read the whole log, not its header, with `inspect log dump`",
    ),
}
"""Files of tools without scores of questions: the fields of one, and what to compare instead."""
_PAGE = {"data", "meta", "links", "object", "has_more", "next_cursor", "first_id", "last_id"}
"""Fields of a page of records, as interfaces return them."""
_NAMES = ("assessment_name", "key", *MEASURES)
_NUMBERS = ("score", "value", "number_value", "numeric_value")
_AMOUNTS = (*_NUMBERS, "passed", "pass", "success", "correct")
_ANNOTATION = re.compile(r"annotation_(.+)_(score|label|error)")
"""Columns of a table of Phoenix: each annotation has several."""


def rows_of_json(value: Any, source: str) -> list[Scored]:
    """Return the scores in the value of a JSON file, or in the records of JSON Lines.

    The forms of known tools (`_FORMS`) are tried first, then any list of records with scores.

    Raises:
        DataError: the value has neither form, or has means alone; the message names its fields.
    """
    value = _without_pages(_unwrapped(value))
    wrapped: list[
        Mapping[str, Any]
    ] = []  # objects in the fields of `value`, as DeepEval's testRunData
    if isinstance(value, Mapping):
        wrapped = [part for part in value.values() if isinstance(part, Mapping)]
    for part in (value, *wrapped):
        for fits, read in _FORMS:
            if fits(part):
                rows = with_reliable_ids(read(part))
                if not rows:
                    raise DataError(f"{source} has no answers with scores")
                return rows
    per_query = [part for part in wrapped if _is_field(part, value, _PER_QUERY)]
    lists = [part for part in wrapped if _is_field(part, value, _LISTS)]
    if not per_query:
        _refuse_means(value, source)
    for part in (*per_query, value, *lists):
        records = _records(part, source)
        if records:
            return rows_of_records(records, source)
    if isinstance(value, list) and not value:
        raise DataError(f"{source} has no rows")
    found = listed(value) if isinstance(value, Mapping) else type(value).__name__
    raise DataError(
        f"{source}: expected a list of records with scores, or a file of a known tool; found {found}"
    )


def _unwrapped(value: Any) -> Any:
    """Return the object with a list of records inside objects that have one field each, as
    {"data": {"runs": [...]}} wraps {"runs": [...]}; without such a list, the value itself.
    """
    inner = value
    while isinstance(inner, Mapping) and len(inner) == 1:
        inner = next(iter(inner.values()))
        if not isinstance(inner, Mapping):
            return value
        if any(isinstance(inner.get(name), list) and _are_records(inner[name]) for name in _LISTS):
            return inner
    return value


def _without_pages(value: Any) -> Any:
    """Return the records of all pages of an interface, one list; any other value unchanged."""
    if not isinstance(value, list) or not _are_records(value):
        return value
    pages = [page.get("data") for page in value if page.keys() <= _PAGE]
    if len(pages) < len(value) or not all(isinstance(page, list) for page in pages):
        return value
    return [record for page in pages for record in page]


def _is_field(part: Any, value: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return True if a part of a value is its field of one of these names."""
    return any(value.get(name) is part for name in names)


def rows_of_records(
    records: Sequence[Record], source: str, *, decimal_comma: bool = False
) -> list[Scored]:
    """Return the scores in the rows of a table, also scores that are nested in a cell or written there
    as JSON.

    Raises:
        DataError: the rows have no scores; the message names the columns.
    """
    flat_records = []
    measures: set[str] = set()
    for record in records:
        flat, names = _flattened(record, decimal_comma=decimal_comma)
        flat_records.append(flat)
        measures.update(names)
    return scored_rows(flat_records, source, measures=measures, decimal_comma=decimal_comma)


def _refuse_means(value: Any, source: str) -> None:
    """Raise DataError for a summary of another tool, or if each measure has one value, its mean."""
    if not isinstance(value, Mapping):
        return
    for kind, (names, instead) in _WITHOUT_SCORES.items():
        if names <= value.keys():
            raise DataError(f"{source} is {kind} without scores of questions; {instead}")
    candidates = [value]
    candidates += [part for name, part in value.items() if name in _MEANS]
    for part in candidates:
        if isinstance(part, Mapping) and _are_means(part):
            raise DataError(
                f"{source} has one value of each measure, no scores of questions; found {listed(part)}; "
                "write the scores of each question to a file"
            )


def _are_means(part: Mapping[str, Any]) -> bool:
    """Return True for measure -> number, and for measure -> measure at a depth -> number."""
    if not part or not all(map(is_known_measure, part)):
        return False
    values = list(part.values())
    if all(isinstance(each, Mapping) and each for each in values):
        return all(is_known_measure(name) for each in values for name in each)
    return all(isinstance(each, int | float) for each in values)


def _records(value: Any, source: str) -> list[Record] | None:
    """Return the records in a JSON value; None if it has no records.

    The value is a list of records, an object with such a list in one field, or a table: pandas'
    "split" form, lists by column, mappings by column or by row, or {question id: score}.
    """
    if isinstance(value, list):
        return value if _are_records(value) else None
    if not isinstance(value, Mapping):
        return None
    columns = value.get("columns")
    data = value.get("data")
    if isinstance(columns, list) and isinstance(data, list):  # pandas' orient="split", MLflow
        if all(isinstance(row, list) and len(row) == len(columns) for row in data):
            names = [str(column) for column in columns]
            return [dict(zip(names, row, strict=True)) for row in data]
        return None
    for name in _LISTS:
        rows = value.get(name)
        if isinstance(rows, list) and _are_records(rows):
            return rows
    parts = list(value.values())
    if not parts:
        return None
    if all(isinstance(part, list) for part in parts) and len({*map(len, parts)}) == 1:
        return [dict(zip(value, row, strict=True)) for row in zip(*parts, strict=True)]
    if all(isinstance(part, Mapping) for part in parts):
        return _records_of_tables(value, source)
    if all(isinstance(part, int | float) or part is None for part in parts):
        return [{"query_id": name, "score": part} for name, part in value.items()]
    return None


def _are_records(rows: list[Any]) -> bool:
    """Return True for one record or more."""
    return bool(rows) and all(isinstance(row, Mapping) for row in rows)


def _records_of_tables(table: Mapping[str, Mapping[str, Any]], source: str) -> list[Record]:
    """Return the rows of {column: {row: cell}}, as pandas writes a table, or of {row: {column: cell}},
    as pytrec_eval does.

    The columns are the level with more known names (of measures, ids or questions); if both levels
    have as many, the level with fewer names.

    Raises:
        DataError: the value is a run of documents, which has no scores of questions.
    """
    inner = dict.fromkeys(str(name) for part in table.values() for name in part)
    if _is_run(table):
        raise DataError(
            f"{source}: {abridged(printable(str(next(iter(inner)))), 40)!r} is in one row alone, as in a run of "
            "documents; score runs with rb.score_run(qrels, run), and compare these scores"
        )
    n_known_inner = _n_known(inner)
    n_known_outer = _n_known(table)
    is_by_column = n_known_outer > n_known_inner
    if n_known_inner == n_known_outer:
        is_by_column = len(table) < len(inner)
    if not is_by_column:
        return [{"query_id": name, **part} for name, part in table.items()]
    has_ids = any(column_name(name) in IDS for name in table)
    rows: list[Record] = []
    for row in inner:
        cells = {name: part.get(row) for name, part in table.items()}
        rows.append(cells if has_ids else {"query_id": row, **cells})
    return rows


def _is_run(table: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if most of the inner names are in one row alone, and none is known: they are documents."""
    counts = Counter(str(name) for part in table.values() for name in part)
    if len(table) < 2 or not counts or _n_known(counts) or _n_known(table):
        return False
    n_alone = sum(count == 1 for count in counts.values())
    return n_alone > len(counts) / 2


def _n_known(names: Mapping[str, Any]) -> int:
    """Count the names of measures, ids or questions."""
    n_known = 0
    for name in names:
        if column_name(name) in (*IDS, *QUESTIONS) or find_measure(name) is not None:
            n_known += 1
    return n_known


def _flattened(record: Record, *, decimal_comma: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return a record with its nested scores as separate columns, and the names of these columns.

    Scores are nested in a field such as `scores` (an object, a list, or the JSON text of one) and in
    Phoenix's columns `annotation_NAME_score`; an experiment's `run`, `example` and `item` have fields
    of their own, which become columns. A score that occurs twice keeps its first value.
    """
    flat: dict[str, Any] = {}
    scores: dict[str, Any] = {}
    annotations: dict[str, dict[str, Any]] = {}
    for name, value in record.items():
        column = column_name(name)
        annotation = _ANNOTATION.fullmatch(str(name))
        if annotation:
            measure, part = annotation.groups()
            cell = value
            if decimal_comma and part == "score":
                cell = number_of(value, decimal_comma=True)
            annotations.setdefault(measure, {})[part] = cell
            continue
        has_scores = column in _SCORES or column.endswith("_score")  # NAME_score of Phoenix
        if has_scores and isinstance(value, str):
            value = read_cell(value.strip())
        if has_scores and isinstance(value, Mapping | list):
            for measure, score in _named_scores(value).items():
                scores.setdefault(measure, score)
        elif column == "result":  # of one evaluation, next to its name
            flat[str(name)] = _result_cell(value)
        else:
            flat[str(name)] = value
    for measure, annotation_fields in annotations.items():
        scores.setdefault(printable(measure), _score_in(annotation_fields))
    for part in ("run", "example", "item"):  # of an experiment: the answer, and the question
        inner = flat.get(part)
        if isinstance(inner, Mapping):
            flat = {**inner, **{key: value for key, value in flat.items() if key != part}}
    return {**flat, **scores}, list(scores)


def _result_cell(value: Any) -> Any:
    """Return the score in a result that is a record, or the text of one; any other value unchanged."""
    if isinstance(value, str) and value.startswith("{"):
        value = read_cell(value)
    if isinstance(value, Mapping) and not {*_NUMBERS, "label"}.isdisjoint(value):
        return _score_in(value)
    return value


def _named_scores(value: Any) -> dict[str, float]:
    """Return measure -> score from a list of named scores, one named score, or a mapping of names to
    scores; {} if it holds no score.
    """
    scores: dict[str, float] = {}
    if isinstance(value, list):
        for item in value:
            name = _name_in(item) if isinstance(item, Mapping) else ""
            if (
                name and "expectation" not in item
            ):  # an expectation of MLflow is a label, not a score
                scores.setdefault(name, _score_in(item))
        return scores
    if _name_in(value) and any(name in value for name in _AMOUNTS):
        return {_name_in(value): _score_in(value)}
    for name, score in value.items():
        if isinstance(score, Mapping):
            if any(column_name(key) in (*_AMOUNTS, "error", "label") for key in score):
                scores[printable(str(name))] = _score_in(score)
        elif not isinstance(score, list):
            number = number_of(score)
            if number is not None:
                scores[printable(str(name))] = number
    return scores


def _name_in(item: Mapping[str, Any]) -> str:
    """Return the name of the measure in a record of one score; "" if it names none."""
    by_field = {column_name(name): value for name, value in item.items()}
    for name in _NAMES:
        if isinstance(by_field.get(name), str):
            return printable(by_field[name])
    return ""


def _score_in(item: Mapping[str, Any]) -> float:
    """Return the number in a record of one score; NaN if the scorer failed or the record has no number.

    The first field with a number counts: `_NUMBERS`, then verdicts such as `passed`, then the label.
    """
    by_field = {column_name(name): value for name, value in item.items()}
    if not is_blank(by_field.get("error")):
        return math.nan
    if isinstance(by_field.get("feedback"), Mapping):
        return _score_in(by_field["feedback"])
    if is_category(by_field):
        by_field["value"] = by_field.get("string_value")
    has_number = not by_field.keys().isdisjoint(_NUMBERS)
    # without its number a score did not fail: it is missing, whatever `success` is
    names = (*_NUMBERS, "label") if has_number else (*_AMOUNTS, "label")
    for name in names:
        cell = by_field.get(name)
        if isinstance(cell, Mapping | list) or is_blank(cell):
            continue
        number = number_of(cell)
        if number is not None:
            return number
    return math.nan


def _is_deepeval(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(_deepeval_cases(value))


def _deepeval_cases(value: Mapping[str, Any]) -> list[Record]:
    """Return the test cases of a run of DeepEval, whose versions name the field differently; [] if the
    value is not such a run.
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
    return cases


def _rows_of_deepeval(value: Mapping[str, Any]) -> list[Scored]:
    """Read a test run of DeepEval: a metric that failed has an error and no score."""
    rows = []
    for case in _deepeval_cases(value):
        by_field = {column_name(name): part for name, part in case.items()}
        metrics = by_field.get("metrics_data") or []
        scores = _named_scores(metrics)
        if scores:
            # if a metric could not be computed, DeepEval sets success to false; here it is missing
            is_complete = not any(map(math.isnan, scores.values()))
            success = number_of(by_field.get("success")) if is_complete else math.nan
            scores.setdefault("success", math.nan if success is None else success)
        turns = by_field.get("turns")
        question = by_field.get("input") or (turns if isinstance(turns, list) else "")
        rows.append(Scored(id_of(by_field.get("name")), question_of(question), scores))
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
    """Return the results of promptfoo's output, of each of its versions, or its JSON Lines."""
    for _ in range(2):
        if isinstance(value, Mapping):
            value = value.get("results")
    if not isinstance(value, list):
        return []
    return [row for row in value if isinstance(row, Mapping)]


def _rows_of_promptfoo(value: Any) -> list[Scored]:
    """Read the output of promptfoo: a row per test, provider and prompt.

    A row that failed with an error has score 0 in the file; here its scores are NaN, and its time and
    cost stay. The systems are the providers; with several prompts, the pairs of provider and prompt;
    "" if there is one system.
    """
    results = _promptfoo_rows(value)
    prompts = {id_of(row.get("promptIdx")) for row in results}
    rows = []
    for row in results:
        case = row.get("testCase")
        if not isinstance(case, Mapping):
            case = {}
        # a question is identified by its text: a repeated test has another testIdx each time
        query_id = ""
        variables = row.get("vars") or case.get("vars")
        question = question_of(variables)
        if not variables:
            query_id = id_of(row.get("testIdx"))
            question = question_of(case.get("description", ""))
        system = _system_of_promptfoo(row)
        if len(prompts) > 1:
            system += f", prompt {id_of(row.get('promptIdx'))}"
        rows.append(Scored(query_id, question, _scores_of_promptfoo(row), system))
    systems = {row.system for row in rows}
    if len(systems) > 1:
        return rows
    return [row._replace(system="") for row in rows]


def _scores_of_promptfoo(row: Record) -> dict[str, float]:
    """Return the scores of a row of promptfoo, NaN if it failed with an error, and its time and cost."""
    named: dict[str, Any] = {"score": row.get("score"), "pass": row.get("success")}
    for name, score in (row.get("namedScores") or {}).items():
        named.setdefault(printable(str(name)), score)
    scores = {}
    has_failed = _failed_in_promptfoo(row)
    for name, score in named.items():
        number = None if has_failed else number_of(score)
        scores[name] = math.nan if number is None else number
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
    """Return True if a provider or a grader failed; what fails its assertions has an `error` too."""
    reason = row.get("failureReason")
    if reason is not None:
        return bool(reason == 2)
    response = row.get("response")
    has_output = isinstance(response, Mapping) and response.get("output") is not None
    return bool(row.get("error")) and not has_output and not row.get("gradingResult")


def _is_lm_eval(value: Any) -> bool:
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
        document = record.get("doc")
        question = ""
        if isinstance(document, Mapping):  # prompts differ by model, documents do not
            question = question_of(document)
        elif record.get("arguments"):
            question = json.dumps(
                record["arguments"], sort_keys=True, default=str, ensure_ascii=False
            )
        # every task numbers its documents from 0: the hash distinguishes documents of equal number
        parts = [id_of(record.get("doc_id")), id_of(record.get("doc_hash"))[:8]]
        rows.append(Scored(" ".join(filter(None, parts)), question, scores))
    return rows


def _scores_of_lm_eval(record: Record, suffix: str) -> dict[str, float]:
    """Return measure -> score of a sample; NaN if the score is not a number. `suffix` is appended to
    each name.
    """
    names = record.get("metrics")
    if not isinstance(names, list):
        names = [name for name in record if name not in ("doc_id", "target", "filter")]
    scores = {}
    for name in names:
        score = record.get(name)
        # texts and lists are inputs of a corpus-level measure (BLEU, perplexity), not scores
        if isinstance(score, str | list | Mapping):
            continue
        number = number_of(score)
        scores[printable(f"{name}{suffix}")] = math.nan if number is None else number
    return scores


def _is_openai_evals(value: Any) -> bool:
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return False
    return any("event_id" in row and "type" in row for row in value)


def _rows_of_openai_evals(records: Sequence[Record]) -> list[Scored]:
    """Read the log of OpenAI evals: several events per sample, each with a part of its record."""
    questions: dict[str, str] = {}
    scores: dict[str, dict[str, float]] = {}
    for record in records:
        sample = id_of(record.get("sample_id"))
        data = record.get("data")
        if not sample or not isinstance(data, Mapping):
            continue
        sample_scores = scores.setdefault(sample, {})
        if record.get("type") == "sampling" and data.get("prompt"):
            questions.setdefault(sample, question_of(data["prompt"]))
        elif record.get("type") == "match":
            sample_scores["correct"] = number_of(data.get("correct")) or 0.0
        elif record.get("type") == "metrics":
            for name, score in data.items():
                number = None if isinstance(score, Mapping | list) else number_of(score)
                if number is not None:
                    sample_scores[printable(str(name))] = number
    rows = []
    for sample, sample_scores in scores.items():
        rows.append(Scored(sample, questions.get(sample, ""), sample_scores))
    return rows


def _is_braintrust(value: Any) -> bool:
    return _first_has(_braintrust_events(value), {"scores", "root_span_id"})


def _braintrust_events(value: Any) -> Any:
    return value.get("events") if isinstance(value, Mapping) else value


def _rows_of_braintrust(value: Any) -> list[Scored]:
    """Read an experiment of Braintrust: a row for each root event with scores, NaN if it has an error.

    The id is that of the question in the data set (`origin`), else that of the event.
    """
    rows = []
    for event in _braintrust_events(value):
        is_root = event.get("is_root")
        if is_root is None:
            is_root = event.get("span_id") == event.get("root_span_id")
        if not is_root or not isinstance(event.get("scores"), Mapping):
            continue
        scores = _named_scores(event["scores"])
        if not is_blank(event.get("error")):
            scores = dict.fromkeys(scores, math.nan)
        query_id = id_of(event.get("id"))
        origin = event.get("origin")
        if isinstance(origin, Mapping):
            query_id = id_of(origin.get("id"))
        rows.append(Scored(query_id, question_of(event.get("input")), scores))
    return rows


def _is_phoenix_experiment(value: Any) -> bool:
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
            "the task_runs or evaluation_runs of an experiment of Phoenix are texts, no records; write "
            "it with json.dump(experiment, file, default=lambda part: getattr(part, '__dict__', str(part)))"
        )
    by_run: dict[str, dict[str, float]] = {id_of(run.get("id")): {} for run in runs}
    unknown_runs = []
    for evaluation in evaluations:
        run_id = id_of(evaluation.get("experiment_run_id"))
        if run_id in by_run:
            by_run[run_id].update(_scores_of_phoenix_evaluation(evaluation))
        else:
            unknown_runs.append(run_id)
    warn(
        "the evaluation_runs of an experiment",
        "left out because no task_run has their id",
        unknown_runs,
    )
    rows = []
    for run in runs:
        scores = by_run.get(id_of(run.get("id")), {})
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
    if isinstance(results, Mapping):
        results = [results]
    if not isinstance(results, list) or not is_blank(evaluation.get("error")):
        return {name: math.nan}
    return {_name_in(result) or name: _score_in(result) for result in results}


def _is_ragas_annotation(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(_first_has(part, {"metric_input", "metric_output"}) for part in value.values())


def _rows_of_ragas_annotation(value: Mapping[str, list[Record]]) -> list[Scored]:
    """Return a row for each run of a measure in a file of annotations of ragas, {measure: [run, ...]};
    the score is the output of the measure, NaN if it is not a number.
    """
    rows = []
    for measure, runs in value.items():
        for run in runs:
            metric_input = run.get("metric_input")
            question: Any = ""
            if isinstance(metric_input, Mapping):
                question = metric_input.get("user_input")
            score = number_of(run.get("metric_output"))
            scores = {printable(measure): math.nan if score is None else score}
            rows.append(Scored("", question_of(question), scores))
    return rows


def _first_has(value: Any, names: set[str]) -> bool:
    """Return True if a value is a list of records, the first with these fields."""
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return is_list and names <= value[0].keys()


_FORMS: Sequence[tuple[Callable[[Any], bool], Callable[[Any], list[Scored]]]] = (
    (is_inspect_log, rows_of_inspect_log),
    (_is_deepeval, _rows_of_deepeval),
    (_is_promptfoo, _rows_of_promptfoo),
    (_is_lm_eval, _rows_of_lm_eval),
    (_is_openai_evals, _rows_of_openai_evals),
    (_is_braintrust, _rows_of_braintrust),
    (_is_phoenix_experiment, _rows_of_phoenix_experiment),
    (_is_ragas_annotation, _rows_of_ragas_annotation),
)
