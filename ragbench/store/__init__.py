"""The data kept on disk between runs: arrays that are slow to compute, and replies that language
models were paid for.

`arrays` (and `info`, `clear` for them) keeps what can be computed again; `ragbench.store.replies`
keeps what cannot be had again without paying, in one SQLite file or a PostgreSQL database;
`ragbench.store.budgets`, in the same place, the spending of budgets.
"""

from ragbench.store.arrays import (
    Arrays,
    arrays,
    bypassed,
    cache_folder,
    check_environment,
    clear,
    digest,
    info,
    kept,
)

__all__ = [
    "Arrays",
    "arrays",
    "bypassed",
    "cache_folder",
    "check_environment",
    "clear",
    "digest",
    "info",
    "kept",
]
