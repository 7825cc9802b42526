"""report.html: its bars and forest plots, its filters, and how many failed questions it lists; one
file that asks nothing of any network.

Its only script, `report.js`, filters questions and opens the one that a link names; without it all
are listed.

Its figures are drawn here, as SVG inside the page: they follow the reader's colours and print
sharply.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Template

from ragbench.errors import visible
from ragbench.evaluation import Result
from ragbench.evaluation.records import CaseResult, Change, MeasureResult
from ragbench.registry import HEADLINE, PERSPECTIVES, bounds_of, meaning_of, perspective_of
from ragbench.report.page import sentences
from ragbench.report.page.question_details import Details, leading_measures, question_details

_WIDE = 220.0  # of an interval bar, in the units of its view box
_EDGE = 6.0
_COLUMNS = 9  # of the table of all cases
_CASES = 200  # failed cases that are shown, and doubtful claims; report.json has all


def report_html(result: Result) -> str:
    """Write the report as one HTML page; all texts in it are escaped.

    Secrets in answers and retrieved texts are masked. Retrieved texts are shown if the documents are
    at hand.
    """
    variables = sentences.shared_variables(result)
    failed = variables["failed"]  # questions
    # perspective -> the measure that represents it
    leading = leading_measures(variables["brief"], result.cases)
    details, notes = question_details(result, failed[:_CASES], leading)
    provenance = {
        "Test set": {name: result.dataset[name] for name in ("name", "split", "fingerprint")},
        "System": dict(result.system),
        "Settings": dict(result.settings),
        "Made": {"at": result.made_at, "seconds": dict(result.timings), **result.environment},
    }
    script = files(__package__).joinpath("report.js").read_text(encoding="utf-8")
    shown_rows = [row for rows in variables["measures"].values() for row in rows]
    return _template().render(
        variables,
        counts=Counter(row.verdict for row in result.rows),
        case_measures=_case_measures(result),
        case_scores=[row.measure for row in shown_rows],
        details=details,
        notes=notes,
        filters=_filters(failed, details, leading),
        script=script,
        script_hash=script_hash(script),
        forest=forest_marks(variables["changes"]),
        provenance=[
            (name, json.dumps(value, indent=2, ensure_ascii=False, default=str))
            for name, value in provenance.items()
        ],
    )


def script_hash(text: str) -> str:
    """Return the hash by which a content security policy allows a script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _filters(
    failed: Sequence[CaseResult],
    details: Mapping[str, Details],
    leading: Mapping[str, MeasureResult],
) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return the filters by which a reader narrows the failed questions: category, cause, weak perspective.

    Args:
        failed: the failed questions.
        details: query_id -> its details.
        leading: perspective -> the measure that represents it. A question is weak in a perspective
            if its value of this measure is worse than the mean.

    Returns:
        Filters with options, as (name, label, options). An option is (value, words with the number of
        its questions), such as ("retrieval", "retrieval: nDCG@10 below the mean 0.712 (4)").
    """
    details_of_failed = [details[case.query_id] for case in failed]
    words_of_perspective = {}
    for name, row in leading.items():
        side = "above" if row.lower_is_better else "below"
        mean = sentences.number(row.value)
        words_of_perspective[name] = f"{name}: {row.measure} {side} the mean {mean}"
    categories = [case.category for case in failed]
    causes = [each.cause for each in details_of_failed]
    weak = [name for each in details_of_failed for name in each.weak]
    filters = [
        ("category", "Category", _filter_options(categories, {})),
        ("cause", "Cause of failure", _filter_options(causes, {})),
        ("weak", "Weak perspective", _filter_options(weak, words_of_perspective)),
    ]
    return [each for each in filters if each[-1]]


def _filter_options(values: Iterable[str], words_of: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each value but "" once, with its words (or itself) and how often it occurs.

    >>> _filter_options(["b", "a", "", "b"], {"b": "B"})
    [('a', 'a (1)'), ('b', 'B (2)')]
    """
    counts = sorted(Counter(filter(None, values)).items())
    return [(value, f"{words_of.get(value, value)} ({n})") for value, n in counts]


def interval_bar(
    value: float | None,
    low: float | None,
    high: float | None,
    target: float | None = None,
    ceiling: float | None = None,
    lower_is_better: bool = False,
) -> dict[str, Any]:
    """Return where to draw the parts of a measure's bar, from left to right, in SVG units.

    The parts are "value" and "target"; "low" and "width" of the interval; "beyond", the start and
    end of the part that no system can reach (past the ceiling).

    A part that is not known is None.

    The bar ends at 1, or a little beyond the largest of these numbers if that is greater.

    >>> bar = interval_bar(0.5, 0.25, 0.75, target=0.6)
    >>> bar["value"], bar["low"], bar["width"], bar["target"]
    (110.0, 58.0, 104.0, 130.8)
    """
    numbers = {"value": value, "low": low, "high": high, "target": target, "ceiling": ceiling}
    known = {name: number for name, number in numbers.items() if number is not None}
    largest = max([1.0, *known.values()])
    axis_end = 1.0 if largest <= 1.0 else largest * 1.05  # with a little space after the largest
    place_of = {name: _place(number / axis_end) for name, number in known.items()}
    start = width = None
    if "low" in place_of and "high" in place_of:
        start = place_of["low"]
        width = round(place_of["high"] - start, 1)
    beyond = None
    if ceiling is not None and 0 < ceiling < axis_end - 1e-9:
        if lower_is_better:
            beyond = (_place(0), place_of["ceiling"])
        else:
            beyond = (place_of["ceiling"], _place(1))
    return {
        "value": place_of.get("value"),
        "low": start,
        "width": width,
        "target": place_of.get("target"),
        "beyond": beyond,
    }


def _place(fraction: float) -> float:
    """Return where a fraction of the axis is, in the units of the view box."""
    return round(_EDGE + (_WIDE - 2 * _EDGE) * min(max(fraction, 0.0), 1.0), 1)


def forest_marks(changes: Sequence[Change]) -> dict[str, Any]:
    """Return where a forest plot (a row for each measure) draws differences and their intervals.

    A change is left out if it has no interval, or if its measure is unknown or has no bounds.

    Returns:
        "end" (the axis goes from -end to end), and "rows": measure -> the places of "low", "high"
        and "value", in SVG units.

    >>> marks = forest_marks([Change("RR", "", 0.6, 0.7, 0.1, -0.1, 0.5, 0.4, 0.2, 20, 5, 3, "")])
    >>> marks["end"], marks["rows"]["RR"]
    (0.5, {'low': 89.2, 'high': 214.0, 'value': 130.8})
    """
    values_of = {}
    for change in changes:
        low, high = change.ci_low, change.ci_high
        is_known = bool(perspective_of(change.measure))
        is_bounded = is_known and None not in bounds_of(change.measure)
        if is_bounded and low is not None and high is not None:
            difference = change.difference or 0.0
            values_of[change.measure] = {"low": low, "high": high, "value": difference}
    numbers: list[float] = []
    for values in values_of.values():
        numbers += values.values()
    axis_end = _axis_end(numbers)
    rows = {}
    for measure, values in values_of.items():
        # from [-end, end] to [0, 1], which is the width of the plot
        rows[measure] = {name: _place((x / axis_end + 1) / 2) for name, x in values.items()}
    return {"end": axis_end, "rows": rows}


def _axis_end(numbers: Sequence[float]) -> float:
    """Return the first of 0.01, 0.02, 0.05, 0.1, ... 1 that no absolute number exceeds; 1 at most.

    >>> _axis_end([-0.1, 0.03]), _axis_end([0.11]), _axis_end([])
    (0.1, 0.2, 0.01)
    """
    furthest = max(map(abs, numbers), default=0.01)
    steps = [step * 10.0**power for power in (-2, -1) for step in (1, 2, 5)]
    # the first that suffices
    return next((step for step in steps if step >= furthest - 1e-12), 1.0)


def _case_measures(result: Result) -> list[str]:
    """Return the columns of the table of all cases: the first headline measures whose values differ
    between cases.
    """
    columns = []
    for name in HEADLINE:
        values = {case.scores.get(name) for case in result.cases} - {None}
        if len(values) > 1 and not name.startswith("overall_"):
            columns.append(name)
    return columns[:_COLUMNS]


@cache
def _template() -> Template:
    """Return the template of report.html, with the functions and constants that it uses."""
    environment = sentences.templates(autoescape=True, finalize=visible)
    environment.filters["capitalize_first"] = lambda text: f"{text[:1].upper()}{text[1:]}"
    environment.globals.update(
        bar=interval_bar,
        meaning=meaning_of,
        wide=_WIDE,
        place=_place,
        most=_CASES,
        questions=PERSPECTIVES,
    )
    return environment.get_template("report.html.j2")
