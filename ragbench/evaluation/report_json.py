"""report.json: everything that a result shows, as one text for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from ragbench.evaluation.result import Result

_DIGITS = 6  # beyond them the same embedding may differ between machines


def report_json(result: Result) -> str:
    """Return the text of report.json: fields in their order, numbers to 6 decimals, never NaN."""
    decided = result.decisions
    del decided["rows"], decided["verdicts"]
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
        "measures": result.rows,
        "questions": result.cases,
        "categories": result.categories,
        **decided,
        "seconds": result.timings,
        "environment": result.environment,
    }
    return json.dumps(plain(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return records and mappings as plain data for JSON, numbers to 6 decimals."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value  # + 0.0: no "-0.0"
