"""Batches of requests that providers work on, kept where the replies are until theirs are stored.

A batch is written before it is submitted, and its id as soon as there is one: a process that is
killed in between leaves a tag by which the next one recognises the batch, instead of paying again.
"""

import json
from dataclasses import asdict
from typing import NamedTuple

from ragbench.store import database
from ragbench.store.replies import Request


class Batch(NamedTuple):
    """Requests to one model (`account` is its name and origin) at one provider.

    `id` is the provider's, "" until it is known; `reservation` is the budget's number, 0 without one.
    """

    tag: str
    account: str
    id: str
    created: float
    reservation: int
    requests: tuple[Request, ...]

    @property
    def name(self) -> str:
        """Return the provider's id, and the tag until that is known."""
        return self.id or self.tag


def pending(account: str = "") -> list[Batch]:
    """Return the batches, of a model or all, whose replies are not all stored, the oldest first."""
    query = "SELECT * FROM batch WHERE CAST(? AS TEXT) IN ('', account) ORDER BY created"
    return [
        Batch(*row, tuple(Request(**fields) for fields in json.loads(requests)))  # type: ignore[call-arg]
        for *row, requests in database.rows(query, (account,))
    ]


def put(batch: Batch) -> None:
    """Store a batch. If a batch with its tag is stored already, only replace the id of that batch."""
    query = "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tag) DO UPDATE SET id = excluded.id"
    requests = json.dumps([asdict(request) for request in batch.requests])
    database.write(lambda execute: execute(query, (*batch[:-1], requests)))


def remove(batch: Batch) -> None:
    """Forget a batch."""
    database.write(lambda execute: execute("DELETE FROM batch WHERE tag = ?", (batch.tag,)))
