"""`ragbench export`: saved results for others: a table, OpenTelemetry traces, a run of MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import results_at
from ragbench.errors import ConfigError


def export_command(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...", help="The folder of a sweep, or folders of single results."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .parquet or .xlsx file.")
    ] = None,
    questions: Annotated[
        bool,
        typer.Option(
            "--questions", help="A row per question, with its answer, instead of one per score."
        ),
    ] = False,
    otlp: Annotated[
        str, typer.Option(metavar="URL", help="Send traces there, such as http://localhost:4318.")
    ] = "",
    mlflow: Annotated[
        str, typer.Option(metavar="URI", help="Of MLflow's tracking, such as sqlite:///mlflow.db.")
    ] = "",
    experiment: Annotated[str, typer.Option(help="The experiment of MLflow.")] = "ragbench",
    content: Annotated[
        bool, typer.Option("--content", help="Traces with questions, answers, what was found.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Give saved results to colleagues and other tools.

    -o writes a table: name, query_id, category, measure, value, over all results.

    --otlp (extra `otel`) sends a trace per question to a collector of OpenTelemetry, by its
    conventions for generative AI: retrieval, model, judge, tokens, and each score as
    gen_ai.evaluation.result; texts only with --content. Durations are those measured; a result does
    not hold when each began, so questions are laid out one after another.

    --mlflow (extra `mlflow`) writes a run per result: parameters, means with intervals, and its
    reports, which hold questions and answers. A second export adds nothing: runs and spans keep
    their ids.

    Exit status: 0 exported, 2 not.
    """
    from ragbench.report import export_mlflow, export_table, export_traces

    if output is None and not otlp and not mlflow:
        raise ConfigError("nothing to export to; name a file with -o, or give --otlp or --mlflow")
    found = results_at(results)
    if output is not None:
        typer.echo(
            f"Written to {shown(export_table(found, output, questions=questions, force=force))}"
        )
    if otlp:
        typer.echo(f"{export_traces(found, otlp, content=content)} spans sent")
    if mlflow:
        typer.echo(
            f"{len(export_mlflow(found, mlflow, experiment=experiment))} runs in "
            f"MLflow's {experiment!r}"
        )
