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
    if not as_json:
        print_decision(loaded, measure, len(loaded))
        return
    print_json(loaded.compare(measures=[measure] if measure else ()))


def print_decision(results: evaluation.Results, measure: str = "", n_rows: int = 3) -> None:
    """Print the decision, and the best configurations with their differences from the baseline."""
    from ragbench.errors import printable
    from ragbench.evaluation.results import baseline_name, ranking_measure
    from ragbench.registry import meaning_of

    if len(results) < 2:
        return
    measure, baseline = ranking_measure(results, measure), baseline_name(results)
    comparison = results.compare(baseline, measures=[measure])
    board = results.leaderboard(measure)
    best = board[(board.index < n_rows) | (board["name"] == baseline)]
    rows = report.leaderboard_rows(best, measure, comparison)
    typer.echo(f"\n{printable(report.headline(results, comparison, baseline, measure))}.")
    typer.echo(f"Ranked by {measure}: {meaning_of(measure)}.\n")
    columns = {
        "configuration": "best",
        f"{measure} (ranked by)": f"{measure} [95 % interval]",
        "difference from the baseline": "difference",
    }
    if rows["scored"].nunique() > 1:  # means of different questions
        columns["scored"] = "scored"
    print_table(rows, columns, columns)
    typer.echo("")
