"""What a sweep may send and spend: settings that its runs inherit, and the account that they share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragbench.cache import digest, ledger

_BUDGET = "RAGBENCH_BUDGET"
_MAX_COST = "RAGBENCH_MAX_COST"


@contextmanager
def settings(replies: str | None, max_cost: float | None, allow_unpriced: bool = False) -> Iterator[None]:
    """RAGBENCH_REPLIES, RAGBENCH_MAX_COST and RAGBENCH_ALLOW_UNPRICED for what runs inside, and in child processes.

    None and False leave them.
    """
    values = {
        "RAGBENCH_REPLIES": replies,
        _MAX_COST: None if max_cost is None else repr(float(max_cost)),
        "RAGBENCH_ALLOW_UNPRICED": "1" if allow_unpriced else None,
    }
    with _environment({name: value for name, value in values.items() if value is not None}):
        yield


@contextmanager
def account(folder: Path) -> Iterator[None]:
    """One account for all runs into a sweep's folder, today and when the sweep goes on another day.

    So a maximum is one for the whole sweep, however often it was interrupted. RAGBENCH_BUDGET names another.
    """
    own = {} if os.environ.get(_BUDGET) else {_BUDGET: f"sweep {digest(str(folder.absolute()))[:16]}"}
    with _environment(own):
        yield


def spent() -> float:
    """US dollars that the account has spent so far; requests that were sent without a maximum are not on it."""
    return sum(ledger.spent(os.environ.get(_BUDGET, "")))


def stopped(unfinished: int) -> str:
    """What to say when the maximum cost has ended a sweep."""
    if os.environ.get("RAGBENCH_REPLIES") == "off":
        kept = "Without the reply store (--no-cache) what unfinished ones have paid for is lost"
    else:
        kept = "What was paid for is stored: the same command with a higher --max-cost goes on from there and pays for "
        kept += "nothing twice"
    return (
        f"the maximum cost of {float(os.environ[_MAX_COST]):.2f} dollars is reached: {spent():.4f} are spent, and the "
        f"next request might pass it. {unfinished} configurations are not finished. {kept}"
    )


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
