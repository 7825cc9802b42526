"""The files leaderboard.csv (every column of `Results.leaderboard`) and leaderboard.md (as readers
see it) of a sweep: how their numbers and texts are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.evaluation.formats import twelve_digits
from ragbench.files import write_durably
from ragbench.text import escape_formula

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.evaluation import Results


def leaderboard_texts(
    board: Path, results: Results, table: pd.DataFrame, baseline: str
) -> dict[Path, str]:
    """Return path -> text of the files leaderboard.csv and leaderboard.md.

    leaderboard.md has the conclusion, the table and, after a race, the reasons why configurations
    were dropped.

    Args:
        board: the path of leaderboard.csv.
        results: the compared results.
        table: their leaderboard.
        baseline: the configuration that the others are compared with; "" is the first by name.
    """
    from ragbench.report import conclusion_markdown, leaderboard_markdown

    measure = results.deciding().measure
    compared = None
    if len(results) > 1:
        compared = results.compare(baseline, measures=[measure])
    parts = [
        conclusion_markdown(results.conclude()),
        leaderboard_markdown(table, measure, compared),
        f"Every measure is in {board.name}.\n",
    ]
    if results.race:
        reasons = results.race.table["reason"].items()
        items = [f"- {name}: {reason}\n" for name, reason in reasons]
        parts += ["By the race:\n", "".join(items)]
    return {board: _board_csv(table), board.with_suffix(".md"): "\n".join(parts)}


def _board_csv(table: pd.DataFrame) -> str:
    """Return a leaderboard as CSV, in which every figure is a number: "93/110" (questions scored, of
    all) in a column NAME_n becomes 93 there and 110 in a column NAME_of next to it.
    """
    rows = table.copy()
    for name in ("label", "retriever", "chunking"):
        rows[name] = rows[name].map(escape_formula)
    for name in map(str, table):
        if name.endswith("_n"):
            counts = rows[name].str.partition("/")  # columns 0 and 2: before and after the "/"
            rows[name] = counts[0].astype("Int64")
            position = list(map(str, rows)).index(name)
            rows.insert(position + 1, f"{name[:-2]}_of", counts[2].astype("Int64"))
    return rows.to_csv(index=False, lineterminator="\n", float_format=_short_number)


def _short_number(value: object) -> str:
    """Return a number with 12 significant digits; pandas passes it as an object of unknown type."""
    return twelve_digits(float(str(value)))


def write_changed(texts: Mapping[Path, str]) -> None:
    """Write files as a whole; a file that would not change is left as it is."""
    for path, text in texts.items():
        is_unchanged = path.is_file() and path.read_bytes() == text.encode()
        if not is_unchanged:
            write_durably(path, text)
