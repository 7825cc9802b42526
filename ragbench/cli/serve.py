"""`ragbench serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.history import Database
from ragbench.errors import ConfigError, MissingExtraError


def serve_command(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port.")] = 8000,
    root: Annotated[
        Path, typer.Option(help="The folder of the test sets, systems and results.")
    ] = Path(),
    rate: Annotated[int, typer.Option(min=1, help="Requests per minute and key.")] = 1200,
    jobs: Annotated[
        int, typer.Option(min=0, help="Evaluations at a time; 0 = only take requests.")
    ] = 1,
    job_minutes: Annotated[
        float, typer.Option(min=0, help="How long one may take; 0 = any time.")
    ] = 60,
    job_memory: Annotated[
        int, typer.Option(min=0, help="Megabytes that one may use, on Linux; 0 = any.")
    ] = 8192,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that jobs have to finish when it is stopped.")
    ] = 5,
    lease: Annotated[
        float, typer.Option(min=3, help="Seconds until the jobs of a dead server are taken over.")
    ] = 30,
    database: Database = "",
) -> None:
    """Serve the API (/api/v1) and the dashboard to everyone who has a key of `ragbench key add`.

    Where there is no key yet, it listens on loopback only and prints an admin key that holds until
    it ends. Stopped, it puts jobs that do not finish in time back into the queue. Exit status: 0
    stopped, 2 it could not start.
    """
    try:
        import uvicorn

        from ragbench.service.app import create_app
        from ragbench.service.workers import Queue
    except ModuleNotFoundError as exc:
        raise MissingExtraError(
            f"the server needs {exc.name}; pip install 'ragbench-lab[server]'"
        ) from exc
    from ragbench.service import api_keys

    if not root.is_dir():
        raise ConfigError(f"--root {root} is not a directory; name the one with your test sets")
    admin_key = ""
    if api_keys(database=database).empty:
        if not _is_loopback(host):
            raise ConfigError(
                f"there is no key yet, so nothing is served at {host}; make one: ragbench key "
                "add NAME --role admin"
            )
        admin_key = secrets.token_urlsafe(32)
    listening = _listening(host, port)
    if admin_key:
        typer.echo(f"No key yet. Admin key until this server ends: {admin_key}")
    typer.echo(
        f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/ and /api/v1"
    )
    queue = Queue(
        database,
        workers=jobs,
        timeout_s=60 * job_minutes,
        memory_mb=job_memory,
        lease_s=lease,
        grace_s=grace,
    )
    config = uvicorn.Config(
        create_app(root, database, admin_key=admin_key, rate=rate, queue=queue),
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # named, or asyncio delays replies
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as exc:
        listening.close()
        raise ConfigError(
            f"cannot listen at {host}:{port} ({exc.strerror}); choose another --port or --host"
        ) from exc
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
