"""`ragbench history`: runs over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench.cli.console import clean_errors
from ragbench.cli.help import Command, Group
from ragbench.errors import printable

history_app = typer.Typer(
    help="Runs over time, as `sweep` and `eval` record them: the newest with what changed, "
    "trends, comparisons. RAGBENCH_DATABASE names another database, RAGBENCH_HISTORY=off ends "
    "the recording.",
    epilog="Example: ragbench history trend nDCG@10 --series nightly",
    cls=Group,
    invoke_without_command=True,
)

Database = Annotated[
    str,
    typer.Option(
        help="A file, or a URL such as postgresql://host/name; default: RAGBENCH_DATABASE."
    ),
]
Client = Annotated[str | None, typer.Option(help="Only the runs of this client.")]
Series = Annotated[
    str, typer.Option(help="Only this series: the name of a sweep or an evaluation.")
]
_RUN = typer.Argument(metavar="RUN", help="The beginning of a run's id.")
_SHORT = 10


@history_app.callback()
def _newest(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=0, help="How many; 0 = all.")] = 20,
    series: Series = "",
    client: Client = None,
    database: Database = "",
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    with clean_errors():
        from ragbench.service import history

        runs = history(series=series, client=client, limit=limit, database=database)
    if runs.empty:
        typer.echo("No run is recorded yet. `ragbench history import results/` adds earlier ones.")
        return
    rows = [
        [
            row["run"][:_SHORT],
            row["made_at"][:16].replace("T", " "),
            row["series"],
            "" if row["configuration"] == row["series"] else row["configuration"],
            _passed(row),
            row["changed"],
        ]
        for row in runs.to_dict("records")
    ]
    table(["run", "made (UTC)", "series", "configuration", "passed", "changed"], rows)


@history_app.command("show", cls=Command, epilog="Example: ragbench history show 8d463f58c3")
def show(run: Annotated[str, _RUN], database: Database = "") -> None:
    """Show one run: what it was, its measures, where its files are."""
    from ragbench.service import WATCHED, run_of

    row, scores, _ = run_of(run, database)
    hidden = ("versions", "parameters", "categories", "case_set", "epoch", "content")
    for name, value in row.items():
        if name not in hidden and value not in (None, ""):
            typer.echo(f"{name + ':':18}{value}")
    first = {name: place for place, name in enumerate(WATCHED)}
    scores = scores.assign(place=scores["measure"].map(first).fillna(len(first))).sort_values(
        ["place", "measure"]
    )
    rows = [
        [one["measure"], _number(one["mean"]), _interval(one), f"{one['n_scored']}/{one['n']}"]
        for one in scores.to_dict("records")
    ]
    table(["measure", "mean", "95 % interval", "scored"], rows)


@history_app.command(
    "compare", cls=Command, epilog="Example: ragbench history compare 8d463f58c3 c51fa5c6db"
)
def compare(
    before: Annotated[str, _RUN],
    after: Annotated[str, _RUN],
    measure: Annotated[
        list[str] | None, typer.Option(help="May be repeated; default: the headline measures.")
    ] = None,
    database: Database = "",
) -> None:
    """Compare two runs, question by question, on the questions that both have."""
    from ragbench.service import compare_runs

    typer.echo(
        compare_runs(before, after, measures=measure or (), database=database).to_string(
            index=False
        )
    )


@history_app.command(
    "trend", cls=Command, epilog="Example: ragbench history trend nDCG@10 --series nightly"
)
def trend(
    measure: Annotated[
        str, typer.Argument(metavar="MEASURE", help="Such as nDCG@10 or pass_rate.")
    ],
    series: Series = "",
    client: Client = None,
    database: Database = "",
) -> None:
    """Show a measure over time, what changed between runs, and whether it drifted.

    Every run is compared with all earlier ones on the same data and parameters, question by
    question. With all measures of the series together there is on average at most one false alarm
    in 1,000 runs.
    """
    from ragbench.service import drifts
    from ragbench.service import trend as trend_of

    runs = trend_of(measure, series=series, client=client, database=database)
    found = drifts(measure, series=series, client=client, database=database)
    for (one, configuration), part in runs.groupby(["series", "configuration"], sort=False):
        typer.echo(f"{one}, {configuration}" if configuration != one else one)
        rows = [
            [
                row["made_at"].strftime("%Y-%m-%d %H:%M"),
                _number(row["mean"]),
                _interval(row),
                _scored(row),
                row["state"],
                "; ".join(filter(None, [row["changed"], row["note"]])),
            ]
            for row in part.to_dict("records")
        ]
        table(["made (UTC)", "mean", "95 % interval", "scored", "state", "changed"], rows)
        for change in (one for run in part["run"] if run in found for one in found[run].changes):
            moved = ", ".join(
                f"{query_id} {difference:+.2f}" for query_id, difference in change.questions.items()
            )
            typer.echo(
                f"Noticed {change.noticed}: {change.text}; the questions that moved most: {moved}"
            )


@history_app.command("import", cls=Command, epilog="Example: ragbench history import results/")
def import_folder(
    folder: Annotated[
        Path, typer.Argument(help="A folder with results: of a sweep, of evaluations, results/.")
    ],
    client: Annotated[str, typer.Option(help="Whose runs they are.")] = "",
    database: Database = "",
) -> None:
    """Add earlier results; what is known already is left as it is.

    Exit status: 0 done, 1 a folder could not be read.
    """
    from ragbench.service import import_results

    done = import_results(folder, client=client, database=database)
    for place, error in done.failed.items():
        typer.echo(f"Failed: {place}: {printable(error)}", err=True)
    typer.echo(f"{done.added} runs added, {done.known} known already, {len(done.failed)} failed")
    raise typer.Exit(1 if done.failed else 0)


def _passed(row: Any) -> str:
    import pandas as pd

    passed, counted = row["passed"], row["questions_passed"]
    counts = "" if pd.isna(counted) else f"{counted}/{row['questions']}"
    return counts if pd.isna(passed) else f"{'passed' if passed else 'FAILED'} {counts}".strip()


def _scored(row: Any) -> str:
    return f"{row['n_scored']}/{row['n']}"


def _number(value: float | None) -> str:
    return (
        ""
        if value is None or value != value
        else f"{value:.3f}"
        if abs(value) < 100
        else f"{value:,.0f}"
    )


def _interval(row: Any) -> str:
    low, high = _number(row["ci_low"]), _number(row["ci_high"])
    return f"[{low}, {high}]" if low and high else ""


def table(header: list[str], rows: list[list[str]]) -> None:
    """One line per row, columns as wide as what they hold; the last one is cut by no terminal."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        line = "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())
