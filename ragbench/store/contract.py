"""The tables, statements and error of the local file and the shared database of replies alike."""

from collections.abc import Callable
from typing import Any

TABLES = """
CREATE TABLE reply (
    key TEXT PRIMARY KEY, portable TEXT NOT NULL,
    provider TEXT NOT NULL, model TEXT NOT NULL, origin TEXT NOT NULL,
    system TEXT, prompt TEXT NOT NULL, max_tokens INTEGER NOT NULL, temperature REAL NOT NULL,
    schema TEXT, sample INTEGER NOT NULL,
    text TEXT NOT NULL, served TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    latency_s REAL NOT NULL, finish TEXT NOT NULL, created REAL NOT NULL, checksum TEXT NOT NULL
);
CREATE INDEX reply_portable ON reply (portable);
CREATE TABLE spending (
    id INTEGER PRIMARY KEY, budget TEXT NOT NULL, bound REAL NOT NULL, actual REAL, expires REAL NOT NULL,
    request TEXT NOT NULL DEFAULT ''
);
CREATE INDEX spending_budget ON spending (budget);
"""

BATCHES = (
    "CREATE TABLE IF NOT EXISTS batch (tag TEXT PRIMARY KEY, account TEXT NOT NULL, id TEXT NOT NULL, "
    "created DOUBLE PRECISION NOT NULL, reservation BIGINT NOT NULL, requests TEXT NOT NULL)"
)
"""Another table, which stores of an earlier ragbench do not have."""

SPOOLED = "CREATE TABLE IF NOT EXISTS spooled (key TEXT PRIMARY KEY)"
"""The keys of replies in the file that the shared database did not take, and gets later."""


class StoreError(OSError):
    """The reply store cannot be opened, read or written; the message states what to do."""


Execute = Callable[..., list[tuple[Any, ...]]]
"""Executes a statement, in which a value is "?", with these values; returns its rows."""
