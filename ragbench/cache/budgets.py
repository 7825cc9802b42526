"""What a budget has spent, in the reply store's file, so that all processes of a sweep share one account.

Before a request is sent, the most that it can cost is reserved; when the reply is there, the reservation is settled
with what it did cost. A reservation that is never settled (its process was killed: the request may have been paid) is
money spent once its time is over. So the sum never passes the maximum.
"""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple

from ragbench.cache import database


class Spent(NamedTuple):
    """US dollars: `settled` is gone, `open` is reserved by requests on their way."""

    settled: float
    open: float


def reserve(budget: str, bound: float, maximum: float, lasts_s: float) -> int | None:
    """Reserve `bound` dollars for a request that takes at most `lasts_s` seconds.

    Gives the reservation's number; 0 when it would fit once the requests now on their way have turned out cheaper than
    their bounds (ask again later); None when it cannot fit any more.
    """

    def work(connection: sqlite3.Connection) -> int | None:
        settled, still_open = _sums(connection, budget)
        # A thousandth of a cent of tolerance, because sums of floats are not exact.
        if settled + bound > maximum + 1e-5:
            return None
        if settled + still_open + bound > maximum + 1e-5:
            return 0
        row = (budget, bound, time.time() + lasts_s)
        done = connection.execute("INSERT INTO spending (budget, bound, expires) VALUES (?, ?, ?)", row)
        return done.lastrowid

    return database.write(work)


def settle(reservation: int, actual: float) -> None:
    """Replace the bound by what the request did cost; 0 when the server refused it."""
    database.write(lambda c: c.execute("UPDATE spending SET actual = ? WHERE id = ?", (actual, reservation)))


def spent(budget: str) -> Spent:
    """What the budget has spent so far.

    >>> spent("no such budget")
    Spent(settled=0.0, open=0.0)
    """
    if not database.path().exists():
        return Spent(0.0, 0.0)
    return database.read(lambda connection: _sums(connection, budget))


def _sums(connection: sqlite3.Connection, budget: str) -> Spent:
    query = (
        "SELECT TOTAL(CASE WHEN actual IS NOT NULL THEN actual WHEN expires <= ?1 THEN bound ELSE 0 END), "
        "TOTAL(CASE WHEN actual IS NULL AND expires > ?1 THEN bound ELSE 0 END) FROM spending WHERE budget = ?2"
    )
    settled, still_open = connection.execute(query, (time.time(), budget)).fetchone()
    return Spent(settled, still_open)
