"""Arrays that are kept, by a function that computes them."""

from collections.abc import Callable

from ragbench import store


def computed(kind: str, key: str, compute: Callable[[], store.Arrays]) -> store.Arrays:
    """What `compute` returns, from the store if it was computed before."""
    with store.arrays(kind, key) as entry:
        if not entry:
            entry |= compute()
    return entry
