"""Scores that are nested in the fields of a record: objects and lists of named scores, and records of one
score each, as MLflow, Phoenix, Langfuse, LangSmith, TruLens and others write them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.errors import printable
from ragbench.foreign.cells import direction_of, is_blank, is_category, number_of
from ragbench.foreign.score_columns import MEASURES, Record, direction_column
from ragbench.testsets.fields import column_name, read_cell

_SCORES = (
    "scores score metrics metrics_data named_scores metric_scores measures feedback feedbacks "
    "feedback_stats feedback_results feedback_scores item_feedback_scores score_results evaluation "
    "evaluations evaluation_results eval evals assessments results annotations grades"
).split()
"""Fields in which scores are nested."""
_NAMES = ("assessment_name", "key", *MEASURES)
"""Fields of a record of one score that hold the name of the measure."""
_NUMBERS = ("score", "value", "number_value", "numeric_value", "avg")  # LangSmith: avg
_NUMBERS_AND_VERDICTS = (*_NUMBERS, "passed", "pass", "success", "correct")
"""Fields of a record of one score that hold its value."""
_TIMES = ("start", "end")
"""Names next to the scores of Braintrust that are times, in seconds since 1970."""
_PARTS_OF_EXPERIMENT = ("run", "example", "item", "test_case")
"""Fields that hold the answer or the question of an experiment as an object."""
_ANNOTATION = re.compile(r"annotation_(.+)_(score|label|error)")
"""Columns of a table of Phoenix: each annotation has several."""


def flattened(record: Record, *, decimal_comma: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return a record with its nested scores as separate columns, and the names of these columns.

    - A field such as `scores` holds an object or a list of scores, or the JSON text of one: each
      score becomes a column. If it states its direction, this becomes the column "NAME direction".
    - Phoenix's columns `annotation_NAME_score`, `..._label` and `..._error` become one column NAME:
      the score, else the number of the label; NaN with an error.
    - A field `result` that holds the record of one score gets the number of the score. It is not among
      the returned names: the caller judges it by its values, as any other column.
    - The objects `run`, `example`, `item` and `test_case` of an experiment: their fields become columns.

    Of nested scores of one name the first counts; it replaces a column of this name.

    Args:
        record: the columns of a row.
        decimal_comma: numbers are written 0,5.

    >>> flattened({"id": "q1", "scores": {"recall": 1, "mrr": 0.5}})
    ({'id': 'q1', 'recall': 1.0, 'mrr': 0.5}, ['recall', 'mrr'])
    """
    flat: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for name, value in record.items():
        column = column_name(name)
        if _ANNOTATION.fullmatch(str(name)):  # read below, all columns of a NAME together
            continue
        if column in _SCORES or column.endswith("_score"):  # NAME_score of Phoenix
            if isinstance(value, str):  # a cell of a table may hold the JSON of an object
                value = read_cell(value.strip())
            if isinstance(value, Mapping | list):
                for measure, score in named_scores(value).items():
                    if measure not in _TIMES:  # times are not scores
                        scores.setdefault(measure, score)
                for measure, is_higher in stated_directions(value).items():
                    flat.setdefault(direction_column(measure), is_higher)
                continue
        if column == "result":
            value = _number_if_score(value)
        flat[str(name)] = value
    for measure, score in _annotation_scores(record, decimal_comma).items():
        scores.setdefault(measure, score)
    for part in _PARTS_OF_EXPERIMENT:
        inner = flat.get(part)
        if isinstance(inner, Mapping):
            del flat[part]
            flat = {**inner, **flat}  # a column of the record itself wins
    return {**flat, **scores}, list(scores)


def _annotation_scores(record: Record, decimal_comma: bool) -> dict[str, float]:
    """Return measure -> score from Phoenix's columns `annotation_NAME_score`, `..._label` and
    `..._error`; {} for a record without them.
    """
    # measure -> the fields "score", "label" and "error" that the record has of it
    fields_by_measure: dict[str, dict[str, Any]] = {}
    for name, value in record.items():
        annotation = _ANNOTATION.fullmatch(str(name))
        if annotation:
            measure, field = annotation.groups()
            if decimal_comma and field == "score":
                value = number_of(value, decimal_comma=True)
            fields_by_measure.setdefault(measure, {})[field] = value
    scores: dict[str, float] = {}
    for measure, fields in fields_by_measure.items():
        scores.setdefault(printable(measure), score_in(fields))
    return scores


def _number_if_score(value: Any) -> Any:
    """Return the number of a value that is a record of one score (it has a number or a label), NaN if
    the score is missing; return any other value as it is.

    The value may be the JSON text of an object, which is read first.
    """
    if isinstance(value, str) and value.startswith("{"):
        value = read_cell(value)
    if isinstance(value, Mapping) and not {*_NUMBERS, "label"}.isdisjoint(value):
        return score_in(value)
    return value


def named_scores(value: Mapping[str, Any] | Sequence[Any]) -> dict[str, float]:
    """Return measure -> score; {} if the value holds no score. It is a list of named scores, one
    named score, or a mapping of names to scores.

    >>> named_scores([{"name": "recall", "score": 1}]), named_scores({"recall": {"value": 1}, "mrr": "0.5"})
    ({'recall': 1.0}, {'recall': 1.0, 'mrr': 0.5})
    """
    if not isinstance(value, Mapping):
        return _scores_in_list(value)
    measure = measure_in(value)
    # a mapping that is itself one named score
    if measure and any(name in value for name in _NUMBERS_AND_VERDICTS):
        return {measure: score_in(value)}
    results = value.get("results")
    if isinstance(results, list):  # LangSmith's evaluation_results
        return _scores_in_list(results)
    scores = {}
    for name, cell in value.items():  # else a mapping of names to scores, or to records of one
        number = number_of(cell)
        if isinstance(cell, Mapping) and _is_score(cell):
            number = score_in(cell)
        if number is not None:
            scores[printable(str(name))] = number
    return scores


def _scores_in_list(items: Sequence[Any]) -> dict[str, float]:
    """Return measure -> score from the records of a list that name a measure; the first of a name counts."""
    scores: dict[str, float] = {}
    for item in items:
        # an expectation of MLflow is a label, not a score
        if isinstance(item, Mapping) and measure_in(item) and "expectation" not in item:
            scores.setdefault(measure_in(item), score_in(item))
    return scores


def stated_directions(value: Mapping[str, Any] | Sequence[Any]) -> dict[str, bool]:
    """Return measure -> True if a higher score is better, for those of a list of named scores, or of one
    named score, that state it (`_higher_is_better_in`).

    >>> stated_directions([{"name": "harm", "score": 0.1, "direction": "minimize"}, {"name": "mrr", "score": 1}])
    {'harm': False}
    """
    items = [value] if isinstance(value, Mapping) else value
    directions: dict[str, bool] = {}
    for item in items:
        if isinstance(item, Mapping) and measure_in(item):
            is_higher = _higher_is_better_in(item)
            if is_higher is not None:
                directions.setdefault(measure_in(item), is_higher)
    return directions


def _higher_is_better_in(item: Mapping[str, Any]) -> bool | None:
    """Return True if a higher score is better, as the record of one score states it in `direction`, or by
    whether its score passes a threshold; None if it states neither.

    >>> _higher_is_better_in({"name": "tone", "score": 0.8, "threshold": 0.5, "success": True})
    True
    >>> _higher_is_better_in({"name": "jargon", "score": 0.8, "threshold": 0.5, "success": False})
    False
    """
    by_field = {column_name(name): value for name, value in item.items()}
    stated = direction_of(by_field.get("direction"))
    if stated is not None:
        return stated
    threshold = number_of(by_field.get("threshold"))
    passed = number_of(by_field.get("success"))
    if threshold is None or passed not in (0.0, 1.0):
        return None
    score = score_in(item)
    is_above = score > threshold
    is_below = score < threshold
    if not is_above and not is_below:  # equal, which passes in both directions, or one is missing
        return None
    return is_above == (passed == 1.0)


def _is_score(item: Mapping[str, Any]) -> bool:
    """Return True if a record has a field of one score: a number, a verdict, a label or an error."""
    return any(column_name(name) in (*_NUMBERS_AND_VERDICTS, "error", "label") for name in item)


def measure_in(item: Mapping[str, Any]) -> str:
    """Return the name of the measure in a record of one score; "" if it names none."""
    by_field = {column_name(name): value for name, value in item.items()}
    for name in _NAMES:
        if isinstance(by_field.get(name), str):
            return printable(by_field[name])
    return ""


def score_in(item: Mapping[str, Any]) -> float:
    """Return the number in a record of one score; NaN if the scorer failed or the record has no number.

    The fields are tried in this order: fields of numbers, such as `score`; fields of verdicts, such as
    `passed`; the label. Empty fields ("n/a" is empty, too) and other texts are passed over. A record
    with a field of a number, even an empty one, has no verdict: then only the label is tried after it.

    >>> score_in({"name": "recall", "score": 0.5}), score_in({"name": "exact", "passed": True})
    (0.5, 1.0)
    >>> score_in({"score": None, "success": False}), score_in({"score": None, "label": "passed"})
    (nan, 1.0)
    """
    by_field = {column_name(name): value for name, value in item.items()}
    if not is_blank(by_field.get("error")) or number_of(by_field.get("scoring_failed")) == 1:
        return math.nan  # with Opik, a metric that failed has the value 0
    if isinstance(by_field.get("feedback"), Mapping):  # a tool that nests the score once more
        return score_in(by_field["feedback"])
    if is_category(by_field):  # Langfuse's score in words, whose own `value` is always 0
        by_field["value"] = by_field.get("string_value")
    has_number_field = not by_field.keys().isdisjoint(_NUMBERS)
    # next to an empty number, tools write success = false, which is not a verdict about the answer
    names = _NUMBERS if has_number_field else _NUMBERS_AND_VERDICTS
    for name in (*names, "label"):
        cell = by_field.get(name)
        if is_blank(cell):
            continue
        number = number_of(cell)  # NaN for a failure such as "error", None for another text
        if number is not None:
            return number
    return math.nan
