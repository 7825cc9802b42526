"""The process of a server: its connections, its log and its proxies, all within bounds."""

from __future__ import annotations

import logging
import os
from asyncio import Transport
from ipaddress import ip_network
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragbench.errors import ConfigError

HEAD_S = 10.0
"""Seconds until the head of a request has come."""
_CONNECTIONS = 400  # most systems allow a process 1,024 open files
_LOG_BYTES, _LOG_FILES = 5_000_000, 3


class BoundedProtocol(H11Protocol):
    """A connection that ends where no head of a request comes in time, or where there are too many
    and another waits longer.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin; the first of those that wait for a request makes room."""
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS:
            others = (other for other in self.connections if other is not self and _waits(other))
            next(others, self).transport.abort()
        self.loop.call_later(HEAD_S, self._end, None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.loop.call_later(HEAD_S, self._end, self.cycle)
        super().on_response_complete()

    def _end(self, cycle: Any) -> None:
        if self.cycle is cycle:
            self.transport.abort()


def _waits(connection: Any) -> bool:
    return connection.cycle is None or connection.cycle.response_complete


def write_privately(log: Path) -> None:
    """Let this process and its children write files that no other user reads, and log to a file
    that stays small.
    """
    os.umask(0o077)
    handler = RotatingFileHandler(log, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, delay=True)
    layout = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(handlers=[handler], format=layout, force=True)
    logging.captureWarnings(True)


def server_config(app: Any, behind_proxy: str = "", **options: Any) -> Config:
    """Return the settings of uvicorn.

    Raises:
        ConfigError: a proxy is not an address.
    """
    try:
        proxies = [str(ip_network(text.strip())) for text in behind_proxy.split(",") if text]
    except ValueError as exc:
        raise ConfigError(
            f"--behind-proxy {behind_proxy!r}: {exc}; expected such as 10.0.0.1,10.1.0.0/16"
        ) from exc
    return Config(
        app,
        http=BoundedProtocol,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=5,
        **options,
    )
