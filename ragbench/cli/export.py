"""`ragbench export`: saved results for others: a table, OpenTelemetry traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import Force, Output, results_at
from ragbench.errors import ConfigError


def export_command(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS...")],
    *,
    output: Output = None,
    questions: bool = False,
    otlp: Annotated[str, typer.Option(metavar="URL")] = "",
    content: bool = False,
    force: Force = False,
) -> None:
    """Give saved results to colleagues and other tools.

    -o writes a table: name, query_id, category, measure, value, over all results.

    --otlp (extra `otel`) sends a trace per question to a collector of OpenTelemetry, by its
    conventions for generative AI: retrieval, model, judge, tokens, and each score as
    gen_ai.evaluation.result; texts only with --content. Durations are those measured; a result does
    not hold when each began, so questions are laid out one after another. A second export has the same ids.

    Exit status: 0 exported, 2 not.

    Args:
        results: The folder of a sweep, or folders of single results.
        output: A .csv, .parquet or .xlsx file.
        questions: A row per question, with its answer, instead of one per score.
        otlp: Send traces there, such as http://localhost:4318.
        content: Traces with questions, answers, what was found.

    Example: ragbench export results/quickstart -o scores.parquet
    """
    from ragbench.report import export_table, export_traces

    if output is None and not otlp:
        raise ConfigError("nothing to export to; name a file with -o, or give --otlp")
    loaded = results_at(results)
    if output is not None:
        written = export_table(loaded, output, questions=questions, force=force)
        typer.echo(f"Written to {shown(written)}")
    if otlp:
        typer.echo(f"{export_traces(loaded, otlp, content=content)} spans sent")
