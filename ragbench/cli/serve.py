"""`ragbench serve`: starts the HTTP API and the dashboard, with its address, its log and its first
key.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import service
from ragbench.cli.options import AtLeast0, Database
from ragbench.errors import ConfigError, require
from ragbench.network import is_loopback

LOG_BYTES = 5_000_000


def serve_command(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    root: Path = Path(),
    jobs: AtLeast0 = 1,
    job_minutes: Annotated[float, typer.Option(min=0)] = 60,
    job_memory: AtLeast0 = 8192,
    grace: Annotated[float, typer.Option(min=0)] = 5,
    lease: Annotated[float, typer.Option(min=3)] = 30,
    behind_proxy: str = "",
    database: Database = "",
) -> None:
    """Serve the API (/api/v1) and the dashboard to everyone who has a key from `ragbench key add`.

    If no key exists yet, the server listens on loopback only and prints an admin key that is valid
    until it stops. With EVALUATION_ENABLED=true, every client with documents is evaluated at the
    times in EVALUATION_SCHEDULE_CRON (0 2 * * *), on a data set that is generated again when it is
    older than 7 days. The log is server.log in the root folder, 20 MB at most. When the server is
    stopped, jobs that do not finish in time go back into the queue. Exit status: 0 stopped, 2 it
    could not start.

    Args:
        host: Address to listen on.
        port: Port to listen on.
        root: The folder of the test sets, systems and results.
        jobs: Number of evaluations at a time; 0: only accept requests.
        job_minutes: Minutes that an evaluation may take; 0: no limit.
        job_memory: Megabytes that an evaluation may use, on Linux; 0: no limit.
        grace: Seconds that jobs have to finish when the server is stopped.
        lease: Seconds until other servers take over the jobs of a dead server.
        behind_proxy: Addresses of trusted proxies, separated by commas. Their headers about the caller
            are believed.

    Example: ragbench serve --root my-evaluation
    """
    uvicorn = require("uvicorn", "server")
    require("fastapi", "server")
    from ragbench.service.app import create_app
    from ragbench.service.scheduler import add_automatic_schedule, automatic_enabled
    from ragbench.service.workers import Queue

    if not root.is_dir():
        raise ConfigError(f"--root {root} is not a directory; name the one with your test sets")
    admin_key = _first_admin_key(host, database)
    listener = _listener(host, port)
    if admin_key:
        typer.echo(f"There is no key yet. Admin key to log in with: {admin_key}")
    address = f"[{host}]" if ":" in host else host
    typer.echo(f"http://{address}:{listener.getsockname()[1]}/ and /api/v1")
    if automatic_enabled():
        add_automatic_schedule(root.absolute(), database)
    queue = Queue(
        database,
        workers=jobs,
        timeout_s=60 * job_minutes,
        memory_mb=job_memory,
        lease_s=lease,
        grace_s=grace,
    )
    app = create_app(root, database, admin_key=admin_key, queue=queue)
    config = server_config(app, behind_proxy)
    log_privately(root / "server.log")
    # When uvicorn has stopped because of Ctrl-C or SIGTERM, it sends this process the same signal again.
    # By this handler SIGTERM, too, becomes a KeyboardInterrupt, so that the command ends normally.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _first_admin_key(host: str, database: str) -> str:
    """Return a new admin key, valid for this run of the server, if no key exists yet; else "".

    Raises:
        ConfigError: no key exists, and the server would be reachable from other machines.
    """
    if not service.api_keys(database=database).empty:
        return ""
    if not is_loopback(host):
        raise ConfigError(
            f"there is no key yet, so nothing is served at {host}; make one: ragbench key add NAME "
            "--role admin"
        )
    return secrets.token_urlsafe(32)


def log_privately(log: Path) -> None:
    """Log to a file, which is made with the first message and kept small; neither it nor any other file
    that this process and its children make from now on can be read by other users.
    """
    from logging.handlers import RotatingFileHandler

    os.umask(0o077)
    handler = RotatingFileHandler(log, maxBytes=LOG_BYTES, backupCount=3, delay=True)
    layout = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(handlers=[handler], format=layout, force=True)
    logging.captureWarnings(True)


def server_config(app: Any, behind_proxy: str = "") -> Any:
    """Return the settings of uvicorn for the application.

    Args:
        behind_proxy: addresses or networks of trusted proxies, with commas between them.

    Raises:
        ConfigError: a proxy is not an address.
    """
    from ipaddress import ip_network

    from uvicorn import Config

    from ragbench.service.server_connections import BoundedProtocol

    try:
        proxies = [str(ip_network(text)) for text in behind_proxy.split(",") if text]
    except ValueError as exc:
        raise ConfigError(
            f"--behind-proxy {behind_proxy!r}: {exc}; expected addresses such as 10.0.0.1,10.1.0.0/16"
        ) from exc
    return Config(
        app,
        http=BoundedProtocol,
        log_config=None,
        log_level="warning",
        server_header=False,  # the replies do not name the software
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=5,
    )


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address.

    Raises:
        ConfigError: the address is in use or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, or asyncio delays replies.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # a server can start again at once, while connections of the one before are still closing
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as exc:
        listener.close()
        raise ConfigError(
            f"cannot listen at {host}:{port} ({exc.strerror}); choose another --port or --host"
        ) from exc
    return listener
