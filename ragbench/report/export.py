"""Saved results as a table for colleagues."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from ragbench.errors import ConfigError, MissingExtraError, require
from ragbench.evaluation import Result, Results
from ragbench.files import check_writable, write_durably
from ragbench.text import escape_formula

_TABLES = (".csv", ".parquet", ".xlsx")


def export_table(
    results: Result | Sequence[Result],
    path: str | Path,
    *,
    questions: bool = False,
    force: bool = False,
) -> Path:
    """Write scores as a table: name (of the result), query_id, category, measure, value (empty =
    unscored).

    Args:
        path: a file that ends in .csv, .parquet or .xlsx (the extra `xlsx`). In .csv and .xlsx a
        text that a
            spreadsheet would take for a formula has an apostrophe before it.
        questions: one row per result and question instead: question, answer, outcome, passed,
        cause, main measures. force: replace the file.

    Raises:
        ConfigError: the name ends otherwise, the file is there, or cannot be written.
    """
    path = Path(path)
    several = Results([results] if isinstance(results, Result) else results)
    suffix = path.suffix.lower()
    if suffix not in _TABLES:
        raise ConfigError(f"{path} is not the name of a table; end it in {', '.join(_TABLES)}")
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already; name another file, or replace it with --force")
    table = several.questions if questions else several.scores
    if not questions:
        categories = {
            (result.name, case.query_id): case.category
            for result in several
            for case in result.cases
        }
        table.insert(
            2,
            "category",
            [categories.get(key, "") for key in zip(table["name"], table["query_id"], strict=True)],
        )
    if suffix != ".parquet":
        texts = table.select_dtypes(["object", "str"]).columns
        table[texts] = table[texts].map(
            lambda cell: escape_formula(cell) if isinstance(cell, str) else cell
        )
    out = io.BytesIO()
    try:
        check_writable(path)
        if suffix == ".csv":
            out.write(table.to_csv(index=False, lineterminator="\n").encode())
        elif suffix == ".parquet":
            table.to_parquet(out, index=False)
        else:
            illegal = require("openpyxl.cell.cell", "xlsx").ILLEGAL_CHARACTERS_RE
            table[texts] = table[texts].replace(illegal, " ", regex=True)
            table.to_excel(out, index=False, freeze_panes=(1, 0))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, out.getvalue())
    except MissingExtraError:
        raise
    except (OSError, ValueError) as exc:  # a sheet has 1,048,576 rows at most
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    return path
