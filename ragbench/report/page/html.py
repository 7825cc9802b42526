"""report.html: one file, readable at a glance, that asks nothing of any network.

Its only script, `report.js`, filters questions and opens the one that a link names; without it all
are listed.

Its figures are drawn here, as SVG inside the page: they follow the reader's colours and print
sharply.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ragbench.evaluation import Result
from ragbench.evaluation.records import CategoryResult, Change, MeasureResult
from ragbench.registry import HEADLINE, PERSPECTIVES, meaning_of
from ragbench.report.page import sentences
from ragbench.report.page.forest import CHANGE_SIGNS, forest_scale, plotted, shown_changes
from ragbench.report.page.questions import Details, leading_measures, question_details

if TYPE_CHECKING:
    from jinja2 import Template

_WIDE = 220.0  # of an interval bar, in the units of its view box
_EDGE = 6.0
_COLUMNS = 9  # of the table of all cases
_ON_TOP = 12  # differences from the baseline
_CASES = 200  # failed cases that are shown, and doubtful claims; report.json has all


def report_html(result: Result) -> str:
    """Write the report as one HTML page. All texts of questions, answers, documents, names and
    errors are escaped.

    The texts that were retrieved are shown for a `Result` whose documents are at hand; answers and
    texts are masked.
    """
    failed = sentences.failed_cases(result)
    table = sentences.shown_measures(result)
    word, sentence = sentences.banner(result)
    changes, claims = shown_changes(result), sentences.doubtful_claims(result)
    leading = leading_measures(sentences.brief_measures(result), result.cases)
    details, notes = question_details(result, failed[:_CASES], leading)
    script = files(__package__).joinpath("report.js").read_text(encoding="utf-8")
    return _template().render(
        result=result,
        word=word,
        sentence=sentence,
        perspectives=[
            (perspective, PERSPECTIVES.get(perspective.name, ""), table[perspective.name])
            for perspective in result.perspectives
        ],
        failed=failed[:_CASES],
        left_out=max(0, len(failed) - _CASES),
        n_failed=len(failed),
        n_decided=sum(case.passed is not None for case in result.cases),
        counts={name: sum(row.verdict == name for row in result.rows) for name in sentences.SIGNS},
        case_measures=_case_measures(result),
        case_scores=[row.measure for rows in table.values() for row in rows],
        details=details,
        notes=notes,
        filters=_filters(result, details, leading),
        script=script,
        script_hash=script_hash(script),
        changes=changes,
        main_changes=shown_changes(result, every=False)[:_ON_TOP],
        forest=forest_marks(changes),
        claims=claims[:_CASES],
        claims_left_out=max(0, len(claims) - _CASES),
        depths=sentences.depth_table(result),
        figures=sentences.figures(result),
        cost_rows=sentences.cost_rows(result.costs, len(result.cases)),
        provenance=[
            (name, json.dumps(value, indent=2, ensure_ascii=False, default=str))
            for name, value in _provenance(result)
        ],
    )


def script_hash(text: str) -> str:
    """Return what a content security policy allows a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _filters(
    result: Result, details: Mapping[str, Details], leading: Mapping[str, MeasureResult]
) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return name, label and options of each filter, an option with its value and words; one value
    is no choice.
    """
    failed = [case for case in result.cases if case.passed is False]
    choices = {
        "category": ("Category", Counter(case.category for case in failed)),
        "cause": ("Cause of failure", Counter(details[case.query_id].cause for case in failed)),
        "weak": (
            "Weak perspective",
            Counter(name for case in failed for name in details[case.query_id].weak),
        ),
    }
    sides = {name: "above" if row.lower_is_better else "below" for name, row in leading.items()}
    words = {
        name: f"{name}: {row.measure} {sides[name]} the mean {sentences.number(row.value)}"
        for name, row in leading.items()
    }
    return [
        (
            name,
            label,
            [
                (value, f"{words.get(value, value)} ({n})")
                for value, n in sorted(counts.items())
                if value
            ],
        )
        for name, (label, counts) in choices.items()
        if any(counts)
    ]


def interval_bar(row: MeasureResult) -> dict[str, Any]:
    """Return where the parts of a measure's bar are: its interval, value, target and ceiling, left
    to right from 0.

    >>> bar = interval_bar(MeasureResult("RR", "retrieval", 0.5, 0.25, 0.75, 9, 9, target=0.6))
    >>> bar["value"], bar["low"], bar["width"], bar["target"]
    (110.0, 58.0, 104.0, 130.8)
    """
    numbers = [row.value, row.ci_high, row.target, row.ceiling]
    most = max([1.0, *(value for value in numbers if value is not None)])
    top = 1.0 if most <= 1.0 else most * 1.05

    def place(value: float | None) -> float | None:
        if value is None:
            return None
        return round(_EDGE + (_WIDE - 2 * _EDGE) * min(max(value / top, 0.0), 1.0), 1)

    low, high = place(row.ci_low), place(row.ci_high)
    has_interval = low is not None and high is not None
    return {
        "value": place(row.value),
        "low": low if has_interval else None,
        "width": round(high - low, 1) if low is not None and high is not None else None,
        "target": place(row.target),
        "beyond": _beyond(row, place(row.ceiling), top),
        "left": _EDGE,
        "right": _WIDE - _EDGE,
    }


def _beyond(row: MeasureResult, at: float | None, top: float) -> tuple[float, float] | None:
    """Return the part of a bar that no system could reach, None where all of it can be reached."""
    if row.ceiling is None or at is None or not 0 < row.ceiling < top - 1e-9:
        return None
    return (_EDGE, at) if row.lower_is_better else (at, _WIDE - _EDGE)


def forest_marks(changes: Sequence[Change]) -> dict[str, Any]:
    """Return where the marks of a forest plot are: its axis, and measure -> difference and
    interval, on one scale for all.

    >>> marks = forest_marks([Change("RR", "", 0.6, 0.7, 0.1, -0.1, 0.5, 0.4, 0.2, 20, 5, 3, "")])
    >>> marks["end"], marks["zero"], marks["rows"]["RR"]
    (0.5, 110.0, {'low': 89.2, 'high': 214.0, 'value': 130.8})
    """
    rows = plotted(changes)
    end = forest_scale(rows)

    def place(value: float | None) -> float:
        inside = min(max((value or 0.0) / end, -1.0), 1.0)
        return round(_WIDE / 2 + (_WIDE / 2 - _EDGE) * inside, 1)

    marks = {
        change.measure: {
            "low": place(change.ci_low),
            "high": place(change.ci_high),
            "value": place(change.difference),
        }
        for change in rows
    }
    return {"end": end, "zero": place(0.0), "left": place(-end), "right": place(end), "rows": marks}


def category_bar(row: CategoryResult) -> dict[str, Any]:
    """Return the bar of a category: the fraction of its questions that passed, as `interval_bar`."""
    return interval_bar(
        MeasureResult(
            "pass_rate",
            "overall",
            row.pass_rate,
            row.ci_low,
            row.ci_high,
            row.n_scored,
            row.questions,
        )
    )


def _case_measures(result: Result) -> list[str]:
    """Return the columns of the table of all cases: the headline measures that not every case has
    alike.
    """
    columns = []
    for name in HEADLINE:
        values = {case.scores.get(name) for case in result.cases} - {None}
        if len(values) > 1 and not name.startswith("overall_"):
            columns.append(name)
    return columns[:_COLUMNS]


def _provenance(result: Result) -> list[tuple[str, Any]]:
    provenance = {"at": result.made_at, "seconds": dict(result.timings), **result.environment}
    test_set = {name: result.dataset[name] for name in ("name", "split", "fingerprint")}
    return [
        ("Test set", test_set),
        ("System", dict(result.system)),
        ("Settings", dict(result.settings)),
        ("Made", provenance),
    ]


def visible(value: object) -> object:
    """Remove control signs and those that turn the reading direction from a text; lines and joiners
    stay.
    """
    if not isinstance(value, str) or value.isprintable() or hasattr(value, "__html__"):
        return value
    return "".join(sign if sign.isprintable() or sign in _HARMLESS else " " for sign in value)


_HARMLESS = "\n\t\u00a0\u200c\u200d"


@lru_cache(maxsize=1)
def _template() -> Template:
    environment = sentences.templates(autoescape=True, finalize=visible)
    environment.filters["capitalize_first"] = lambda text: f"{text[:1].upper()}{text[1:]}"
    environment.globals.update(
        bar=interval_bar,
        category_bar=category_bar,
        meaning=meaning_of,
        wide=_WIDE,
        change_signs=CHANGE_SIGNS,
    )
    return environment.get_template("report.html.j2")
