"""What asking a system costs beyond the system itself: a real server whose own time is known."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import httpx
import pytest

from ragbench.systems import HttpSystem, ask
from ragbench.types import Case, Dataset
from tests.benchmark_table import Benchmark

pytestmark = pytest.mark.benchmark

QUERIES, CONCURRENCY, SERVER_S = 1000, 16, 0.1


def serve(port: Connection) -> None:
    """A service that takes SERVER_S for each request, and answers with five passages of 1,000
    characters.

    It measures its own time, from a request's arrival to the last byte of its reply handed over:
    /spent gives the sum.
    """
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()
    contexts = [
        {"id": f"d{i}#0", "text": "a passage of some length " * 40, "score": 1 / (i + 1)}
        for i in range(5)
    ]

    @app.post("/ask")
    async def answer(question: dict[str, str]) -> dict[str, Any]:
        await asyncio.sleep(SERVER_S)
        return {"answer": f"{question['query']} Yes [1].", "contexts": contexts}

    # named as TCP: else asyncio leaves Nagle's algorithm on, and each reply waits 40 ms for an
    # acknowledgement
    spent = [0.0]

    @app.get("/spent")
    async def say() -> float:
        return spent[0]

    async def measured(scope: Any, receive: Any, send: Any) -> None:
        start = time.perf_counter()
        await app(scope, receive, send)
        spent[0] += time.perf_counter() - start if scope["path"] == "/ask" else 0.0

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    port.send(listening.getsockname()[1])
    asyncio.run(
        uvicorn.Server(uvicorn.Config(measured, lifespan="off", log_level="error")).serve(
            sockets=[listening]
        )
    )


@pytest.fixture
def service() -> Iterator[str]:
    """The service in a process of its own, so that its work is not ours."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{ours.recv()}"
    process.kill()
    process.join()
    ours.close()
    theirs.close()


def test_1000_queries_over_http_cost_little_more_than_the_server(
    service: str, benchmark: Benchmark
) -> None:
    data = Dataset("d", "test", {}, [Case(f"q{i}", f"Is {i} prime?") for i in range(QUERIES)], {})
    system = HttpSystem(f"{service}/ask", body={"query": "{query}"})
    ask(
        system, data.select([f"q{i}" for i in range(2 * CONCURRENCY)]), concurrency=CONCURRENCY
    )  # both are warm
    ratios = []
    for _ in range(2):  # the better of two: other work on the machine is not what is measured
        before = httpx.get(f"{service}/spent").json()
        start = time.perf_counter()
        answers = ask(system, data, concurrency=CONCURRENCY)
        taken = time.perf_counter() - start
        own = (httpx.get(f"{service}/spent").json() - before) / CONCURRENCY
        ratios.append(taken / own)
        assert all(answer.error is None and len(answer.contexts) == 5 for answer in answers)
    system.close()
    benchmark.record(
        f"{QUERIES:,} questions over HTTP, {CONCURRENCY} at once",
        "the server's own time",
        min(ratios),
        at_most=1.10,
    )
