"""`ragbench export`: saved results as a table for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import Force, results_at


def export_command(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS...")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("scores.csv"),
    questions: bool = False,
    force: Force = False,
) -> None:
    """Write saved results as a table for colleagues and other tools: name, query_id, category,
    measure, value, over all results.

    Exit status: 0 exported, 2 not.

    Args:
        results: The folder of a sweep, or folders of single results.
        output: A .csv, .parquet or .xlsx file.
        questions: A row per question, with its answer, instead of one per score.

    Example: ragbench export results/quickstart -o scores.parquet
    """
    from ragbench.report import export_table

    written = export_table(results_at(results), output, questions=questions, force=force)
    typer.echo(f"Written to {shown(written)}")
