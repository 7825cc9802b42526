"""report.json: written with the same bytes for the same report, read back with every error named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ragbench.errors import DataError
from ragbench.evaluation.records import SCHEMA, Report
from ragbench.files import read_json
from ragbench.registry import Measure, declare, find_measure

_NAMED = 5  # errors in one message
_DIGITS = 6  # beyond them the same embedding may differ between machines


def report_json(report: Report) -> str:
    """The text of report.json: fields in their order, "schema" first, numbers to 6 decimals, never
    NaN.
    """
    fields = asdict(report)
    ordered = {"schema": fields.pop("schema"), **fields}
    return json.dumps(plain(ordered), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_report(path: str | Path) -> Report:
    """Read the report.json of an evaluation; for a folder, the report.json in it.

    Raises:
        DataError: the file is missing, is not a report, has another version, or has invalid fields,
        of which the first
            are named with their place.
    """
    file = Path(path)
    file = file / "report.json" if file.is_dir() else file
    data = read_json(
        file, "expected the report.json of an evaluation", parse_constant=_refuse_constant
    )
    return parse_report(data, str(file))


def parse_report(data: object, where: str = "report") -> Report:
    """The report in parsed JSON; `where` names its source in errors."""
    if not isinstance(data, dict) or "schema" not in data:
        raise DataError(
            f'{where} is not a report of an evaluation: it has no "schema"; ragbench eval writes '
            "such files"
        )
    if data["schema"] != SCHEMA or isinstance(data["schema"], bool):
        raise DataError(
            f"{where} has schema {data['schema']!r}; this ragbench reads {SCHEMA}. Make the "
            "report again, or read it with the version that wrote it (made.environment.ragbench)"
        )
    try:
        return _with_measures(_adapter().validate_python(data))
    except ValidationError as exc:
        problems = [_problem(error) for error in exc.errors(include_url=False)]
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise DataError(f"{where} is damaged: {'; '.join(problems[:_NAMED])}{more}") from exc


def _with_measures(report: Report) -> Report:
    """The report, once the user's own measures in it are declared in this process, too."""
    for one in report.settings.get("measures", ()):
        if find_measure(one["name"]) is None:
            declare(Measure(**{**one, "bounds": tuple(one["bounds"])}))
    return report


def report_schema() -> dict[str, Any]:
    """The JSON schema of report.json (draft 2020-12), for readers in other languages.

    >>> report_schema()["title"], "measures" in report_schema()["required"]
    ('Report', True)
    """
    return _adapter().json_schema()


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Report]:
    return TypeAdapter(with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(Report))


def _problem(error: Mapping[str, Any]) -> str:
    place = ".".join(map(str, error["loc"])) or "the whole"
    given = (
        ""
        if error["type"] in {"missing", "extra_forbidden"}
        else f", not {str(error['input'])[:60]!r}"
    )
    return f"{place}: {error['msg']}{given}"


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is not a number")


def plain(value: Any) -> Any:
    """Records and mappings as plain data for JSON, numbers to 6 decimals."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value  # + 0.0: no "-0.0"
