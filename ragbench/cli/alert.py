"""`ragbench alert`: adds, lists, tests and removes the rules by which people are told that runs got
worse or failed; `service/alert_rules` decides when and writes the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ragbench import service
from ragbench.cli.console import print_table
from ragbench.cli.help import Commands
from ragbench.cli.options import AtLeast0, Database, Json

if TYPE_CHECKING:
    import pandas as pd

alert_app = Commands(
    "Tell people when runs get worse or fail. Rules are checked when a run is recorded and by "
    "`ragbench schedule run-due`. The extra `alerts` sends e-mail, Slack, Teams and webhooks.",
    "alert add 'claim_support<0.8' --to '${SLACK_URL}'",
)


@alert_app.register()
def add(
    rule: str,
    *,
    to: list[str] | None = None,
    series: str = "",
    point: bool = False,
    remind_days: AtLeast0 = 7,
    client: str = "",
    database: Database = "",
) -> None:
    """Add a rule that states what a breach is, or replace the same rule.

    One message is sent when a breach begins (type failure), one when it is over (success), and
    reminders in between (warning).

    Args:
        rule: 'MEASURE<0.8': the whole 95 % interval of the mean is below 0.8; or 'MEASURE>0.2': it is
            above 0.2; or drift: a measure that has a target, or is in the headline table of reports,
            got worse; or failed: a run missed a target that its user named, or a job broke off.
        to: '${NAME}': the environment variable that holds the address, in apprise's form; may be
            repeated. Without an address, the alert is a line in the log.
        series: Only this evaluation, sweep or schedule; default: all evaluations.
        point: Compare the mean with the limit, not the whole 95 % interval.
        remind_days: Days after which a reminder of a continuing breach is sent; 0 = never.
        client: Only runs of this client.

    Example: ragbench alert add 'claim_support<0.8' --series nightly --to '${SLACK_URL}'
    """
    rule_id = service.add_alert(
        rule,
        to=to or (),
        series=series,
        point=point,
        remind_days=remind_days,
        client=client,
        database=database,
    )[:10]
    typer.echo(f"{rule_id} added; `ragbench alert test {rule_id}` sends a test message")


@alert_app.register("list")
def list_alerts(*, limit: AtLeast0 = 10, database: Database = "", as_json: Json = False) -> None:
    """List the rules, the newest alerts that they raised, and the shifts that the rule drift sees.

    Args:
        limit: Number of raised alerts to list.

    Example: ragbench alert list
    """
    rules = service.alerts(database=database)
    columns = "id rule series client_id to last".split()
    print_table(_with_shown_texts(rules), columns, {"last": "raised, last (UTC)"}, as_json=as_json)
    if as_json:
        return
    if (rules["rule"] == "drift").any():
        _print_drift(database)
    for alert in service.raised_alerts(limit=limit, database=database).to_dict("records"):
        title = alert["text"].partition("\n")[0]  # the first line
        error = f" ({alert['error']})" if alert["error"] else ""
        typer.echo(
            f"{alert['made_at'][:16]}  {alert['rule_id'][:10]}  {alert['state']}{error}  {title}"
        )


def _with_shown_texts(rules: pd.DataFrame) -> pd.DataFrame:
    """Return the rules of `service.alerts` with columns as the list shows them.

    `id` is short, `rule` ends in "--point" if the mean alone decides, `to` is "log" without a target, and
    `last` is how many alerts the rule raised and when the last one, such as "2 2026-01-31T09:45".
    """
    is_point = rules["point"] != 0
    counts_and_times = rules["raised"].map(str) + " " + rules["last"].str[:16]
    return rules.assign(
        id=rules["id"].str[:10],
        rule=rules["rule"].mask(is_point, rules["rule"] + " --point"),
        to=rules["to"].replace("", "log"),
        last=counts_and_times.str.strip(),  # no time if it raised none
    )


def _print_drift(database: str) -> None:
    """Print for each measure that the rule drift watches, in each configuration, whether it drifted."""
    from ragbench.service.measure_trends import overview  # loads numpy and pandas

    rows, _ = overview(None, database=database)
    for row in rows:
        name = f"{row['series']} {row['configuration']}"
        typer.echo(f"drift of {row['measure']} in {name}: {row['state'].text}")


@alert_app.register("test")
def send(rule: str, *, database: Database = "") -> int:
    """Send a test message to the targets of a rule. Exit status: 0 sent, 1 sending to a target
    failed.

    Args:
        rule: The rule, or the beginning of its id.

    Example: ragbench alert test 'claim_support<0.8'
    """
    errors = service.send_test(rule, database=database)
    for target, error in errors.items():
        typer.echo(f"{target}: {error or 'sent'}", err=bool(error))
    if not errors:
        typer.echo("This rule has no target: its alerts are lines in the log.")
    return any(errors.values())


@alert_app.register()
def remove(rule: str, *, database: Database = "") -> None:
    """Remove a rule; the alerts that it raised stay listed.

    Args:
        rule: The rule, or the beginning of its id.

    Example: ragbench alert remove 'claim_support<0.8'
    """
    service.remove_alert(rule, database=database)
