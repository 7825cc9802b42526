"""`ragbench schedule`: evaluations at set times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.help import Command, Group
from ragbench.cli.history import Database, table

schedule_app = typer.Typer(
    help="Evaluations at set times; `ragbench schedule run-due` runs them, from cron, systemd, "
    "CI or a server.",
    epilog='Example: ragbench schedule add nightly "0 2 * * *" --zone Europe/Vienna -- eval',
    no_args_is_help=True,
    cls=Group,
)
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="What the schedule is called; also its runs in the history."
    ),
]
Client = Annotated[
    str, typer.Option(help="Whose it is; '*': it runs for each client in clients/ of this folder.")
]


@schedule_app.command(
    "add",
    cls=Command,
    epilog='Example: ragbench schedule add nightly "0 2 * * *" --zone Europe/Vienna -- eval',
)
def add(
    name: Name,
    cron: Annotated[
        str, typer.Argument(metavar="CRON", help='As in crontab; "" = EVALUATION_SCHEDULE_CRON.')
    ],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="eval or sweep, with options.")
    ],
    zone: Annotated[str, typer.Option(help="Of the times, such as Europe/Vienna.")] = "UTC",
    fresh: Annotated[
        str,
        typer.Option(
            help="Such as 7d: draft the questions anew when they are older, or the documents "
            "changed."
        ),
    ] = "",
    fresh_from: Annotated[
        str, typer.Option(help="With --fresh: the folder of the documents.")
    ] = "",
    client: Client = "",
    database: Database = "",
) -> None:
    """Add a schedule, or replace the one of this name. It runs in this folder."""
    from datetime import UTC, datetime

    from ragbench.service import FreshQuestions, add_schedule, next_due

    questions = FreshQuestions(fresh, fresh_from) if fresh or fresh_from else None
    add_schedule(name, cron, command, zone=zone, client=client, database=database, fresh=questions)
    typer.echo(
        f"{name}: next due {next_due(cron, zone, datetime.now(UTC))}" if cron else f"{name} added"
    )


@schedule_app.command("list", cls=Command, epilog="Example: ragbench schedule list")
def list_schedules(database: Database = "") -> None:
    """List the schedules: when each is due, and how its last job ended."""
    from ragbench.service import schedules

    found = schedules(database=database)
    rows = [
        [
            row["name"],
            row["client_id"],
            row["cron"],
            row["zone"],
            row["next_due"][:16] or "paused",
            f"{row['last_due'][:16]} {row['last_state']}".strip(),
            row["command"],
        ]
        for row in found.to_dict("records")
    ]
    table(["name", "client", "cron", "zone", "next (UTC)", "last (UTC)", "command"], rows)


@schedule_app.command("pause", cls=Command, epilog="Example: ragbench schedule pause nightly")
def pause(
    name: Name,
    resume: Annotated[bool, typer.Option("--resume", help="Resume it.")] = False,
    client: Client = "",
    database: Database = "",
) -> None:
    """Pause a schedule, or resume it."""
    from ragbench.service import pause_schedule

    pause_schedule(name, paused=not resume, client=client, database=database)


@schedule_app.command("remove", cls=Command, epilog="Example: ragbench schedule remove nightly")
def remove(name: Name, client: Client = "", database: Database = "") -> None:
    """Remove a schedule and its jobs; its runs stay in the history."""
    from ragbench.service import remove_schedule

    remove_schedule(name, client=client, database=database)


@schedule_app.command("import", cls=Command, epilog="Example: ragbench schedule import cron.yaml")
def import_file(
    file: Annotated[
        Path, typer.Argument(help="YAML: cron: jobs: a list of id, schedule, handler, config.")
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(help="'${NAME}': where alerts are sent, as in `alert add`; may be repeated."),
    ] = None,
    client: Client = "",
    database: Database = "",
) -> None:
    """Add the schedules of a file, and an alert for each alert_threshold; one error, and nothing is
    added.
    """
    from ragbench.service import alerts, import_schedules

    names = import_schedules(file, to=to or (), client=client, database=database)
    typer.echo(f"added: {', '.join(names)}")
    rules = alerts(database=database)
    for row in rules[rules["series"].isin(names) & (rules["client_id"] == client)].to_dict(
        "records"
    ):
        where = (
            row["to"]
            or "the log only; --to '${NAME}' names the variable with an address, `alert test` "
            "tries it"
        )
        typer.echo(f"alert of {row['series']}: {row['rule']}, sent to {where}")


@schedule_app.command("run-due", cls=Command, epilog="Example: ragbench schedule run-due")
def run_due_jobs(database: Database = "") -> None:
    """Run due jobs and jobs whose lease expired; then check alerts. May be called at any time, on
    many machines.

    A time that was missed is run once. EVALUATION_ENABLED=false turns it off, EVALUATION_DEFAULT_K
    gives evaluations their --k, EVALUATION_DEFAULT_SAMPLE_SIZE their --sample, or the number of
    fresh questions. Exit status: that of the worst job, as of `ragbench eval`; 0 where nothing was
    due.
    """
    from ragbench.service import run_due

    outcomes = run_due(database=database)
    for outcome in outcomes:
        typer.echo(f"{outcome.name}, due {outcome.due_at[:16]}: exit status {outcome.exit_code}")
        if outcome.exit_code:
            typer.echo(outcome.output, err=True)
    raise typer.Exit(max((outcome.exit_code for outcome in outcomes), default=0))
