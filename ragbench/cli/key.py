"""`ragbench key`: keys for the server."""

from __future__ import annotations

from typing import Annotated

import typer

from ragbench.cli.help import Command, Group
from ragbench.cli.history import Database, table

key_app = typer.Typer(
    help="Keys for the server: who may read, run or administer, and for which client.",
    epilog="Example: ragbench key add ci --client acme --role runner --expires 90d",
    no_args_is_help=True,
    cls=Group,
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called.")]


@key_app.command(
    "add",
    cls=Command,
    epilog="Example: ragbench key add ci --client acme --role runner --expires 90d",
)
def add(
    name: Name,
    client: Annotated[str, typer.Option(help="Whose data it opens; '*' = everyone's.")] = "",
    role: Annotated[
        str,
        typer.Option(
            help="reader, runner (also starts evaluations), admin (also schedules, alerts, keys)."
        ),
    ] = "reader",
    expires: Annotated[str, typer.Option(help="After this age, such as 90d; default: never.")] = "",
    database: Database = "",
) -> None:
    """Make a key and print it, this once: only its SHA-256 is stored."""
    from ragbench.service import add_key

    typer.echo(add_key(name, client=client, role=role, expires=expires, database=database))
    typer.echo("It is not shown again; send it as X-API-Key, or Authorization: Bearer.", err=True)


@key_app.command("list", cls=Command, epilog="Example: ragbench key list")
def list_keys(database: Database = "") -> None:
    """List the keys: for whom, until when, and when each was last used."""
    from ragbench.service import api_keys

    found = api_keys(database=database)
    rows = [
        [
            row["id"],
            row["name"],
            row["client_id"],
            row["role"],
            row["created_at"][:16],
            row["expires_at"][:16],
            row["last_used_at"][:16],
        ]
        for row in found.to_dict("records")
    ]
    table(["id", "name", "client", "role", "created (UTC)", "expires", "last used"], rows)


@key_app.command("remove", cls=Command, epilog="Example: ragbench key remove ci --client acme")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or id.")],
    client: Annotated[
        str | None, typer.Option(help="Whose it is, where several have this name.")
    ] = None,
    database: Database = "",
) -> None:
    """Remove a key: it opens nothing from then on."""
    from ragbench.service import remove_key

    remove_key(name, client=client, database=database)
