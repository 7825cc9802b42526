"""`ragbench history`: runs over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragbench.cli.console import clean_errors, print_json, print_table
from ragbench.cli.help import Commands, with_options
from ragbench.cli.options import AtLeast0, Database, Json
from ragbench.errors import printable

if TYPE_CHECKING:
    import pandas as pd

history_app = Commands(
    "Runs over time, as `sweep` and `eval` record them: the newest with what changed, trends, "
    "comparisons. RAGBENCH_DATABASE names another database, RAGBENCH_HISTORY=off ends the "
    "recording.",
    "history trend nDCG@10 --series nightly",
    invoke_without_command=True,
    no_args_is_help=False,
)


def _newest(
    ctx: typer.Context,
    *,
    limit: AtLeast0 = 20,
    series: str = "",
    client: str | None = None,
    database: Database = "",
    as_json: Json = False,
) -> None:
    """List the newest runs.

    Args:
        limit: How many; 0 = all.
        series: Only this series: the name of a sweep or an evaluation.
        client: Only the runs of this client.
    """
    if ctx.invoked_subcommand is not None:
        return
    with clean_errors():
        from ragbench.service import history

        runs = history(series=series, client=client, limit=limit, database=database)
    if as_json:
        print_json(runs)
        return
    if runs.empty:
        typer.echo("No run is recorded yet. `ragbench history import results/` adds earlier ones.")
        return
    runs = runs.assign(
        run=runs["run"].str[:10],
        configuration=runs["configuration"].mask(runs["configuration"] == runs["series"], ""),
        passed=runs.apply(_passed, axis=1),
    )
    headings = {name: name for name in ("series", "configuration", "passed", "changed")}
    print_table(runs, {"run": "run", "made_at": "made (UTC)", **headings})


history_app.callback()(with_options(_newest))


@history_app.register()
def show(run: str, *, database: Database = "", as_json: Json = False) -> None:
    """Show one run: what it was, its measures, where its files are.

    Args:
        run: The beginning of a run's id.

    Example: ragbench history show 8d463f58c3
    """
    from ragbench.service import WATCHED, run_of

    row, scores, _ = run_of(run, database)
    first = {name: rank for rank, name in enumerate(WATCHED)}
    scores = scores.assign(rank=scores["measure"].map(first)).sort_values(["rank", "measure"])
    if as_json:
        print_json(scores.drop(columns=["rank", "case_values"]))  # packed values of questions
        return
    hidden = "versions parameters categories case_set epoch content".split()
    for name, value in row.items():
        if name not in hidden and value not in (None, ""):
            typer.echo(f"{name + ':':18}{value}")
    _print_means(scores, {"measure": "measure"})


@history_app.register()
def trend(
    measure: str,
    *,
    series: str = "",
    client: str | None = None,
    database: Database = "",
    as_json: Json = False,
) -> None:
    """Show a measure over time, what changed between runs, and whether it drifted.

    Every run is compared with all earlier ones on the same data and parameters, question by
    question. With all measures of the series together there is on average at most one false alarm
    in 1,000 runs.

    Args:
        measure: Such as nDCG@10 or pass_rate.
        series: Only this series: the name of a sweep or an evaluation.
        client: Only the runs of this client.

    Example: ragbench history trend nDCG@10 --series nightly
    """
    from ragbench import service

    options: dict[str, Any] = {"series": series, "client": client, "database": database}
    runs, drifts = service.trend(measure, **options), service.drifts(measure, **options)
    runs["note"] = [
        "; ".join(filter(None, texts)) for texts in zip(runs["changed"], runs["note"], strict=True)
    ]
    runs["made_at"] = runs["made_at"].map(str)
    if as_json:
        print_json(runs)
        return
    for (name, configuration), part in runs.groupby(["series", "configuration"], sort=False):
        typer.echo(f"{name}, {configuration}" if configuration != name else name)
        _print_means(part, {"made_at": "made (UTC)"}, state="state", note="changed")
        for change in (
            each for run in part["run"] if run in drifts for each in drifts[run].changes
        ):
            moved = ", ".join(f"{name} {moved:+.2f}" for name, moved in change.questions.items())
            typer.echo(
                f"Noticed {change.noticed}: {change.text}; the questions that moved most: {moved}"
            )


@history_app.register("import")
def import_folder(folder: Path, *, client: str = "", database: Database = "") -> int:
    """Add earlier results; what is known already is left as it is.

    Exit status: 0 done, 1 a folder could not be read.

    Args:
        folder: A folder with results: of a sweep, of evaluations, results/.
        client: Whose runs they are.

    Example: ragbench history import results/
    """
    from ragbench.service import import_results

    done = import_results(folder, client=client, database=database)
    for path, error in done.failed.items():
        typer.echo(f"Failed: {path}: {printable(error)}", err=True)
    typer.echo(f"{done.added} runs added, {done.known} known already, {len(done.failed)} failed")
    return bool(done.failed)


def _passed(run: pd.Series) -> str:
    import pandas as pd

    counts = (
        ""
        if pd.isna(run["questions_passed"])
        else f"{run['questions_passed']:.0f}/{run['questions']}"
    )
    word = "" if pd.isna(run["passed"]) else "passed" if run["passed"] else "FAILED"
    return f"{word} {counts}".strip()


def _print_means(scores: pd.DataFrame, first: dict[str, str], **others: str) -> None:
    """Print means with their intervals, between other columns."""
    from ragbench.statistics.frames import with_interval

    means = zip(scores["mean"], scores["ci_low"], scores["ci_high"], strict=True)
    scores = scores.assign(
        mean=[with_interval(*row) for row in means],
        scored=scores["n_scored"].map(str) + "/" + scores["n"].map(str),
    )
    print_table(scores, {**first, "mean": "mean [95 %]", "scored": "scored", **others})
