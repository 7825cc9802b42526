"""Connections to the database of runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, make_url
from sqlalchemy.engine import URL

from ragbench.store import engines


def test_threads_that_come_first_at_the_same_moment_use_one_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(4)
    new = engines._new_engine

    def slow(url: URL) -> Engine:
        together.wait(10)
        return new(url)

    monkeypatch.setattr(engines, "_new_engine", slow)
    url = make_url("sqlite:///")
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: engines.engine_of(url, 0), range(4)))) == 1
