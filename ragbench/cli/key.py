"""`ragbench key`: keys for the server."""

from __future__ import annotations

import typer

from ragbench import service
from ragbench.cli.console import print_table
from ragbench.cli.help import Commands
from ragbench.cli.options import Database, Json

key_app = Commands(
    "Keys for the server: who may read, run or administer, and for which client.",
    "key add ci --client acme --role runner",
)


@key_app.register()
def add(name: str, *, client: str = "", role: str = "reader", database: Database = "") -> None:
    """Create a key and print it, only this once: ragbench stores no more than its SHA-256.

    Args:
        name: Name of the key.
        client: The client whose data the key opens; '*': all clients.
        role: reader, runner (also starts evaluations), admin (also schedules, alerts, keys).

    Example: ragbench key add ci --client acme --role runner
    """
    typer.echo(service.add_key(name, client=client, role=role, database=database))
    typer.echo("It is not shown again; send it as X-API-Key, or log in with it.", err=True)


@key_app.register("list")
def list_keys(*, database: Database = "", as_json: Json = False) -> None:
    """List the keys with their clients and roles.

    Example: ragbench key list
    """
    columns = "id name client_id role created_at".split()
    print_table(service.api_keys(database=database), columns, as_json=as_json)


@key_app.register()
def remove(name: str, *, client: str | None = None, database: Database = "") -> None:
    """Remove a key; it gives no access from then on.

    Args:
        name: Name or id of the key.
        client: Client of the key, if several keys have this name.

    Example: ragbench key remove ci --client acme
    """
    service.remove_key(name, client=client, database=database)
