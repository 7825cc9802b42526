"""How fast replies are kept by many at once, next to plain SQL and to no store at all."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ragbench import llms
from ragbench.llms import generate_many
from tests.benchmark_table import Benchmark
from tests.service.conftest import _postgresql, new_database  # noqa: F401
from tests.store.test_shared import store  # noqa: F401

pytestmark = pytest.mark.benchmark

N = 250  # replies of each client
OURS = """
import sys, time
from ragbench.store import replies
from ragbench.store.replies import Reply, Request
def request(i): return Request("openai", "m", f"client {sys.argv[1]} prompt {i} " + "text " * 400)
replies.store(request(-1), Reply("yes", "m", 400, 1, 0.1, "stop"))
print("ready", flush=True); input()
for i in range(int(sys.argv[2])):
    replies.store(request(i), Reply("yes", "m", 400, 1, 0.1, "stop"))
"""
PLAIN = """
import sys, time, psycopg
connection = psycopg.connect(sys.argv[3].replace("+psycopg", ""))
row = ["x" * 64, "openai", "m", "", None, "text " * 400, 512, 0.0, None, 0]
row += ["yes", "m", 400, 1, .1, "stop", .1, "y" * 64]
query = "INSERT INTO reply VALUES (%s" + ", %s" * len(row) + ") ON CONFLICT (key) DO NOTHING"
def keep(i):
    connection.execute(query, [f"plain {sys.argv[1]} {i}", *row])
    connection.commit()
keep(-1)
print("ready", flush=True); input()
for i in range(int(sys.argv[2])):
    keep(i)
"""


def rate(code: str, clients: int, url: str, folder: Path) -> float:
    """Return how many replies of this many processes are kept in a second."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"{time.time_ns()}-{i}", str(N), url],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(clients)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.perf_counter()
    for process in processes:
        process.communicate("\n")
        assert process.returncode == 0
    return clients * N / (time.perf_counter() - start)


def test_clients_of_a_shared_store_are_about_half_as_fast_as_plain_sql(
    store: str,  # noqa: F811
    tmp_path: Path,
    benchmark: Benchmark,
) -> None:
    with psycopg.connect(store.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = on")
        connection.execute("SELECT pg_reload_conf()")
    for clients in (1, 4, 8):
        ours, plain = (rate(code, clients, store, tmp_path) for code in (OURS, PLAIN))
        work = f"replies a second into a shared store, {clients} clients"
        peer = f"plain SQL by {benchmark.peer(work, 'psycopg')}"
        # Processes of Python and the server share few cores: a bound for the most clients alone.
        goal = 0.4 if clients == 8 else None
        benchmark.record(work, peer, ours / plain, at_least=goal)


def test_64_requests_side_by_side_take_little_more_than_the_server(
    loopback: Any, wire: Any, llm_environment: Any, benchmark: Benchmark
) -> None:
    seconds = 0.5
    server = loopback(lambda asked: wire.Answered(wire.openai("TRUE"), delay_s=seconds))
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
    prompts = [f"Is answer {number} right?" for number in range(64 * 10)]
    took = {}
    for mode in ("off", "on"):
        llm_environment.setenv("RAGBENCH_REPLIES", mode)
        llm = llms.load_llm("openai:m")
        llm.generate(f"warm {mode}")
        start = time.perf_counter()
        found = generate_many(llm, prompts, concurrency=64)
        took[mode] = (time.perf_counter() - start) / (10 * seconds)
        assert all(reply.error is None and not reply.cached for reply in found)
    server_time = "the server's own time"
    benchmark.record("640 requests, 64 at once", server_time, took["on"], at_most=1.3)
    benchmark.record("640 requests, 64 at once, without a store", server_time, took["off"])
