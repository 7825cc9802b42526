"""`ragbench alert`: who is told when runs get worse, fail, or do not come."""

from __future__ import annotations

from typing import Annotated

import typer

from ragbench.cli.help import Command, Group
from ragbench.cli.history import Database, table

alert_app = typer.Typer(
    help="Tell people when runs get worse, fail, or do not come: rules, checked when a run is "
    "recorded and by `ragbench schedule run-due`. The extra alerts sends e-mail, Slack, Teams "
    "and webhooks.",
    epilog="Example: ragbench alert add 'claim_support<0.8' --to '${SLACK_URL}'",
    no_args_is_help=True,
    cls=Group,
)
Rule = Annotated[str, typer.Argument(metavar="RULE", help="The rule, or the beginning of its id.")]


@alert_app.command(
    "add",
    cls=Command,
    epilog="Example: ragbench alert add 'claim_support<0.8' --series nightly --to '${SLACK_URL}'",
)
def add(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE", help="'MEASURE<0.8', 'MEASURE>0.2', drift, failed, or 'silent 2d'."
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="'${NAME}': the environment variable with the address, in apprise's form; may "
            "be repeated. Without one it is a line in the log."
        ),
    ] = None,
    series: Annotated[
        str, typer.Option(help="Of this evaluation, sweep or schedule; default: all evaluations.")
    ] = "",
    point: Annotated[
        bool, typer.Option("--point", help="The mean decides, not the whole 95 % interval.")
    ] = False,
    client: Annotated[str, typer.Option(help="Of the runs of this client.")] = "",
    database: Database = "",
) -> None:
    """Add a rule, or replace the same one. Each alert is sent once per run and rule.

    A threshold is crossed where the whole interval is beyond it; drift, where a headline measure or
    one with a target got worse; failed, where a run missed a target of its user or a job broke off.
    """
    from ragbench.service import add_alert

    made = add_alert(
        rule, to=to or (), series=series, point=point, client=client, database=database
    )
    typer.echo(f"{made[:10]} added; `ragbench alert test {made[:10]}` sends a test message")


@alert_app.command("list", cls=Command, epilog="Example: ragbench alert list")
def list_alerts(
    limit: Annotated[
        int, typer.Option(min=0, help="How many of the alerts that were raised.")
    ] = 10,
    database: Database = "",
) -> None:
    """List the rules, and the newest alerts that they raised."""
    from ragbench.service import alerts, raised_alerts

    rules, raised = alerts(database=database), raised_alerts(limit=limit, database=database)
    rows = [
        [
            row["id"][:10],
            f"{row['rule']}{' --point' * row['point']}",
            row["series"],
            row["client_id"],
            row["to"] or "log",
            f"{row['raised']} {row['last'][:16]}".strip(),
        ]
        for row in rules.to_dict("records")
    ]
    table(["id", "rule", "series", "client", "to", "raised, last (UTC)"], rows)
    for row in raised.to_dict("records"):
        title, error = row["text"].partition("\n")[0], f" ({row['error']})" if row["error"] else ""
        typer.echo(f"{row['made_at'][:16]}  {row['rule_id'][:10]}  {row['state']}{error}  {title}")


@alert_app.command("test", cls=Command, epilog="Example: ragbench alert test 'claim_support<0.8'")
def send(rule: Rule, database: Database = "") -> None:
    """Send a test message to the targets of a rule. Exit status: 0 sent, 1 a target did not take
    it.
    """
    from ragbench.service import send_test

    done = send_test(rule, database=database)
    for target, error in done.items():
        typer.echo(f"{target}: {error or 'sent'}", err=bool(error))
    if not done:
        typer.echo("This rule has no target: its alerts are lines in the log.")
    raise typer.Exit(1 if any(done.values()) else 0)


@alert_app.command(
    "remove", cls=Command, epilog="Example: ragbench alert remove 'claim_support<0.8'"
)
def remove(rule: Rule, database: Database = "") -> None:
    """Remove a rule; the alerts that it raised stay listed."""
    from ragbench.service import remove_alert

    remove_alert(rule, database=database)
