"""`python -m ragbench` is `ragbench`."""

from __future__ import annotations

from ragbench.cli import app

if __name__ == "__main__":
    app()
