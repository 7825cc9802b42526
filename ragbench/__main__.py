"""`python -m ragbench` is `ragbench`."""

from ragbench.cli import app

if __name__ == "__main__":
    app()
