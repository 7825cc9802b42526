"""`ragbench schedule`: adds, lists, pauses, removes and imports schedules; `service/scheduler`
decides when one is due.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import service
from ragbench.cli.console import print_table
from ragbench.cli.help import Commands
from ragbench.cli.options import Database, Json

schedule_app = Commands(
    "Evaluations at set times; `ragbench schedule run-due` runs them, from cron, systemd, CI or a "
    "server.",
    'schedule add nightly "0 2 * * *" --zone Europe/Vienna -- eval',
)


@schedule_app.register()
def add(
    ctx: typer.Context,
    name: str,
    cron: Annotated[str, typer.Argument(metavar="[CRON]")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...")] = None,
    *,
    zone: str = "UTC",
    client: str = "",
    database: Database = "",
) -> None:
    """Add a schedule, or replace the one with this name. Its command runs in this folder.

    The options of the command are checked now, not when the schedule is due.

    Args:
        name: Name of the schedule, and of its runs in the history.
        cron: Times as in crontab; default: EVALUATION_SCHEDULE_CRON, else 0 2 * * *.
        command: eval, sweep, testset generate or testset draft, with options.
        zone: Time zone of the times, such as Europe/Vienna.
        client: Client of the schedule; '*': it runs for each client in clients/ of this folder, eval
            --auto-generate-datasets only for clients with documents.

    Example: ragbench schedule add nightly "0 2 * * *" --zone Europe/Vienna -- eval
    """
    words = command or []
    # then the first word is the command, not a time
    if cron in ("eval", "sweep", "testset"):  # the time is left out
        words = [cron, *words]
        cron = ""
    _check_command(ctx, words)
    service.add_schedule(name, cron, words, zone=zone, client=client, database=database)
    table = service.schedules(client=client, database=database)
    # exactly one schedule of the client has this name
    [due] = table.loc[table["name"] == name, "next_due"]
    typer.echo(f"{name}: next due {due}")


def _check_command(ctx: typer.Context, words: list[str]) -> None:
    """Raise the error of a wrong option in a command of ragbench, without running the command.

    An unknown command raises nothing: `add_schedule` refuses it with the list of possible ones.
    """
    context: Any = ctx.find_root()
    words = list(words)
    while words:
        name = words.pop(0)
        command = context.command.get_command(context, name)
        if command is None:
            return
        is_group = hasattr(command, "get_command")  # such as testset: the next word is its command
        if not is_group:
            command.make_context(name, words, parent=context)  # parses the options
            return
        # go on with the commands of the group
        context = type(context)(command, info_name=name, parent=context)


@schedule_app.register("list")
def list_schedules(*, database: Database = "", as_json: Json = False) -> None:
    """List the schedules: when each is due, and how its last job ended.

    Example: ragbench schedule list
    """
    table = service.schedules(database=database)
    table = table.assign(
        # the times to the minute, such as 2026-01-31T02:00; none: the schedule is paused
        next=table["next_due"].str[:16].replace("", "paused"),
        last=(table["last_due"].str[:16] + " " + table["last_state"]).str.strip(),
    )
    columns = "name client_id cron zone next last command".split()
    headings = {"next": "next (UTC)", "last": "last (UTC)"}
    print_table(table, columns, headings, as_json=as_json)
    for sentence in service.overdue(database=database):
        typer.echo(sentence, err=True)


@schedule_app.register()
def pause(name: str, *, resume: bool = False, client: str = "", database: Database = "") -> None:
    """Pause a schedule, or resume it.

    Args:
        name: Name of the schedule.
        resume: Resume the schedule.
        client: Client of the schedule.

    Example: ragbench schedule pause nightly
    """
    service.pause_schedule(name, paused=not resume, client=client, database=database)


@schedule_app.register()
def remove(name: str, *, client: str = "", database: Database = "") -> None:
    """Remove a schedule and its jobs; its runs stay in the history.

    Args:
        name: Name of the schedule.
        client: Client of the schedule.

    Example: ragbench schedule remove nightly
    """
    service.remove_schedule(name, client=client, database=database)


@schedule_app.register("import")
def import_file(
    file: Path,
    *,
    docs: str = "",
    to: list[str] | None = None,
    client: str = "",
    database: Database = "",
) -> None:
    """Add the schedules of a file. Each job with an alert_threshold also gets two alerts: for a value
    below the threshold, and for a failed job.

    Every test set and its documents are loaded first; after an error nothing is added. Exit status:
    0 added, 2 an error.

    Args:
        file: YAML: cron: jobs: a list of id, schedule, handler, config.
        docs: The documents of jobs whose config names no corpus.
        to: '${NAME}': where alerts are sent, as in `alert add`; may be repeated.
        client: Client of the schedules.

    Example: ragbench schedule import cron.yaml
    """
    names = service.import_schedules(
        file, to=to or (), corpus=docs, client=client, database=database
    )
    typer.echo(f"added: {', '.join(names)}")
    alerts = service.alerts(client=client, database=database)
    # the note on an alert without an address
    log_only = "the log only; --to '${NAME}' names the variable with an address"
    for alert in alerts[alerts["series"].isin(names)].to_dict("records"):
        receiver = alert["to"] or log_only
        typer.echo(f"alert of {alert['series']}: {alert['rule']}, sent to {receiver}")


@schedule_app.register("run-due")
def run_due_jobs(*, database: Database = "") -> int:
    """Run due jobs and jobs whose worker died; then check alerts. May be called at any time, on
    many machines.

    A time that was missed is run once. EVALUATION_ENABLED=false turns schedules off,
    EVALUATION_DEFAULT_K is the --k of evaluations, EVALUATION_DEFAULT_SAMPLE_SIZE the number of
    pairs in generated data sets. Exit status: the worst status of all jobs, as for `ragbench eval`;
    0 if no job was due.

    Example: ragbench schedule run-due
    """
    outcomes = service.run_due(database=database)
    for outcome in outcomes:
        typer.echo(f"{outcome.name}, due {outcome.due_at[:16]}: exit status {outcome.exit_code}")
        if outcome.exit_code:
            typer.echo(outcome.output, err=True)
    return max((outcome.exit_code for outcome in outcomes), default=0)
