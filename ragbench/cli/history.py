"""`ragbench history`: lists the newest runs, shows one, a measure over time and comparisons, and
imports earlier results; `service` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import typer

from ragbench import service
from ragbench.cli.console import clean_errors, print_json, print_table
from ragbench.cli.help import Commands, with_options
from ragbench.cli.options import AtLeast0, Database, Json
from ragbench.errors import printable

if TYPE_CHECKING:
    import pandas as pd

history_app = Commands(
    "Runs over time, as `sweep` and `eval` record them: the newest runs with what changed, trends, "
    "comparisons. RAGBENCH_DATABASE names another database, RAGBENCH_HISTORY=off turns the "
    "recording off.",
    "history trend nDCG@10 --series nightly",
    invoke_without_command=True,
    no_args_is_help=False,
)


def _list_newest_runs(
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
        limit: Number of runs; 0 = all.
        series: Only this series: the name of a sweep or an evaluation.
        client: Only the runs of this client.
    """
    if ctx.invoked_subcommand is not None:
        return
    with clean_errors():
        runs = service.history(series=series, client=client, limit=limit, database=database)
    if as_json:
        print_json(runs)
        return
    if runs.empty:
        of_what = f" of {series or client}" if series or client else ""
        typer.echo(
            f"No run{of_what} is recorded yet. `ragbench history import results/` adds earlier ones."
        )
        return
    runs = runs.assign(
        run=runs["run"].str[:10],
        configuration=runs["configuration"].mask(runs["configuration"] == runs["series"], ""),
        passed=runs.apply(_passed_text, axis=1),
    )
    print_table(runs, "run made_at series configuration passed changed".split())


history_app.callback()(with_options(_list_newest_runs))


@history_app.register()
def show(run: str, *, database: Database = "", as_json: Json = False) -> None:
    """Show one run: its settings, its measures, the place of its files.

    Args:
        run: The beginning of a run's id, latest, or the folder of a result.

    Example: ragbench history show 8d463f58c3
    """
    folder = Path(run)
    if folder.is_dir():
        from ragbench.service.recording import run_in

        row, scores = run_in(folder)
    else:
        row, scores, _ = service.run_of(run, database)
    if as_json:
        print_json(scores.drop(columns="case_values"))  # packed values of questions
        return
    # long, or only of use to the program
    hidden = "versions parameters categories case_set epoch content".split()
    for name, value in row.items():
        if name not in hidden and value not in (None, ""):
            typer.echo(f"{name + ':':18}{value}")
    _print_means(scores, "measure")


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
    question. All measures of the series together raise on average at most one false alarm in 1,000
    runs.

    Args:
        measure: A measure, such as nDCG@10 or pass_rate.
        series: Only this series: the name of a sweep or an evaluation.
        client: Only the runs of this client.

    Example: ragbench history trend nDCG@10 --series nightly
    """
    # A row per run. `changed`: what differs from the run before. `state`: the outcome of the test for
    # drift, an alarm if it is "fall" or "rise"; `note`: the alarm in words; `moved`: its questions.
    runs = service.trend(measure, series=series, client=client, database=database)
    notes = []
    for changed, note in zip(runs["changed"], runs["note"], strict=True):
        notes.append("; ".join(filter(None, (changed, note))))
    runs["note"] = notes  # shown below the heading "changed"
    runs["made_at"] = runs["made_at"].map(str)
    if as_json:
        print_json(runs)
        return
    for (name, configuration), rows in runs.groupby(["series", "configuration"], sort=False):
        is_sweep = configuration != name  # which has several configurations
        typer.echo(f"{name}, {configuration}" if is_sweep else name)
        _print_means(rows, "made_at", {"state": "state", "note": "changed"})
        alarms = rows[rows["moved"] != ""]
        for made_at, moved in zip(alarms["made_at"], alarms["moved"], strict=True):
            typer.echo(f"Noticed {made_at[:16]}; the questions that moved most: {moved}")


@history_app.register("import")
def import_folder(folder: Path, *, client: str = "", database: Database = "") -> int:
    """Add earlier results; recorded runs are left unchanged.

    Exit status: 0 done, 1 a folder could not be read.

    Args:
        folder: A folder with results: of a sweep, of evaluations, or results/ as a whole.
        client: The client to whom the runs belong.

    Example: ragbench history import results/
    """
    done = service.import_results(folder, client=client, database=database)
    for path, error in done.failed.items():
        typer.echo(f"Failed: {path}: {printable(error)}", err=True)
    typer.echo(f"{done.added} runs added, {done.known} known already, {len(done.failed)} failed")
    return bool(done.failed)


def _passed_text(run: pd.Series) -> str:
    """Return the outcome of a run in words, such as "FAILED: 17 of 20"; "" if nothing is known.

    The first part tells whether it met its targets, if it has any; the second how many questions passed.
    """
    import pandas as pd

    from ragbench.evaluation.formats import passed_text

    texts = []
    if not pd.isna(run["passed"]):
        texts.append("passed" if run["passed"] else "FAILED")
    n_passed = run["questions_passed"]
    n_decided = run["questions_decided"]
    if not pd.isna(n_passed) and not pd.isna(n_decided):
        texts.append(passed_text(int(n_passed), int(n_decided), int(run["questions"])))
    return ": ".join(texts)


def _print_means(
    scores: pd.DataFrame, first_column: str, headings: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table of means.

    Its columns are `first_column`, the mean with its 95 % interval, how many questions of how many
    are scored, and those in `headings` (column -> its heading).
    """
    from ragbench.statistics.comparison import with_interval

    intervals = zip(scores["mean"], scores["ci_low"], scores["ci_high"], strict=True)
    scores = scores.assign(
        mean=[with_interval(mean, low, high) for mean, low, high in intervals],
        scored=scores["n_scored"].map(str) + "/" + scores["n"].map(str),
    )
    columns = [first_column, "mean", "scored", *headings]
    print_table(scores, columns, {"mean": "mean [95 %]", **headings})
