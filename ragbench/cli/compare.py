"""`ragbench compare`: which of several results is better, by how much, and how sure that is."""

from __future__ import annotations

from typing import Annotated

import typer

from ragbench import evaluation, report
from ragbench.cli.console import print_json, print_table
from ragbench.cli.options import Database, Json, results_at


def compare_command(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...")],
    *,
    measure: str = "",
    database: Database = "",
    as_json: Json = False,
) -> None:
    """Compare results with the first, or those of a sweep with its baseline: the decision, and the
    table of the comparison notebook.

    Args:
        results: Folders of results or sweeps; runs of the history by their name, the beginning of
            their id, or latest.
        measure: Ranked by this; default: evidence found, or nDCG@10.

    Example: ragbench compare results/eval/monday latest
    """
    loaded = results_at(results, database)
    if as_json:
        print_json(loaded.conclude(measure=measure).to_dict())
    else:
        print_decision(loaded, measure, len(loaded))


def print_decision(results: evaluation.Results, measure: str = "", n_rows: int = 3) -> None:
    """Print the conclusion, and the best configurations with their differences from the baseline."""
    from ragbench.errors import printable

    conclusion = results.conclude(measure=measure)
    typer.echo("")
    for line in conclusion.lines:
        typer.echo(printable(line))
    if len(results) < 2:
        return
    measure = conclusion.measure
    board = results.leaderboard(measure)
    best = board[(board.index < n_rows) | (board["name"] == conclusion.baseline)]
    rows = report.leaderboard_rows(best, measure, results.compare(measures=[measure]))
    columns = {
        "configuration": "best",
        f"{measure} (ranked by)": f"{measure} [95 % interval]",
        "difference from the baseline": "difference",
        "decision": "decision",
        "scored": "scored",
    }
    typer.echo("")
    print_table(rows, columns, columns)
    typer.echo("")
