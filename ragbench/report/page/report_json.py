"""report.json: everything that a result shows, as one text for other programs."""

import json
from typing import Any

from ragbench.evaluation import Result, Results
from ragbench.evaluation.formats import plain
from ragbench.registry import DESIGN_NAMES


def report_json(result: Result) -> str:
    """Return the text of report.json: fields in their order, numbers to 6 decimals, never NaN."""
    decisions = {}
    for name, value in result.decisions.items():
        if name not in ("rows", "verdicts"):  # "measures" and "questions" hold these
            decisions[name] = value
    is_pipeline_preset = result.settings.get("preset") == "pipeline"
    record = {
        "ragbench": "report",
        "name": result.name,
        "passed": result.passed,
        "made_at": result.made_at,
        "dataset": result.dataset,
        "system": result.system,
        "settings": result.settings,
        "facts": result.facts,
        "counts": result.counts,
        **({"metrics": _design_metrics(result)} if is_pipeline_preset else {}),
        "measures": result.rows,
        "questions": result.cases,
        "categories": result.categories,
        **decisions,
        "seconds": result.timings,
        "environment": result.environment,
    }
    if len(result.scores):
        record["conclusion"] = Results([result]).conclude().to_dict()
    if result.judged_bounds:
        record["judged_bounds"] = result.judged_bounds
    return json_text(record)


def _design_metrics(result: Result) -> dict[str, float | None]:
    """Return the measures of the preset "pipeline", by the names that its published design gives them;
    None where not measured.
    """
    values = {**result.facts, **{row.measure: row.value for row in result.rows}}
    return {name: values.get(measure) for name, measure in DESIGN_NAMES.items()}


def json_text(record: dict[str, Any]) -> str:
    """Write a record as JSON; a value that JSON does not know is written as its text."""
    return (
        json.dumps(plain(record), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    )
