"""A server in this process, with keys of two clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ragbench.history import add_key
from ragbench.server.app import create_app


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "runs.sqlite")


@pytest.fixture
def keys(database: str) -> dict[str, str]:
    made = {f"acme {role}": add_key(role, client="acme", role=role, database=database) for role in
            ("reader", "runner", "admin")}  # fmt: skip
    made["other"] = add_key("other", client="other", role="admin", database=database)
    made["*"] = add_key("all", client="*", role="admin", database=database)
    return made


@pytest.fixture
def client(root: Path, database: str) -> Iterator[TestClient]:
    with TestClient(create_app(root, database)) as client:
        yield client
