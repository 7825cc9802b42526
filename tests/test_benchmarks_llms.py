"""How fast many requests are, and that a kill costs only what was in flight: real servers, real
processes.
"""

from __future__ import annotations

import collections
import subprocess
import sys
import time
from typing import Any

import pytest

from ragbench import llms
from ragbench.llms import generate_many
from tests.benchmark_table import Benchmark

pytestmark = pytest.mark.benchmark

REQUESTS, LATENCY_S, CONCURRENCY = 400, 0.2, 16
IDEAL_S = REQUESTS * LATENCY_S / CONCURRENCY


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_400_requests_take_little_more_than_the_server_and_nothing_from_the_store(
    loopback: Any, wire: Any, llm_environment: Any, provider: str, benchmark: Benchmark
) -> None:
    server = loopback(
        lambda asked: wire.Answered(getattr(wire, provider)("TRUE"), delay_s=LATENCY_S)
    )
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", server.url)
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "k")
    llm = llms.load_llm(f"{provider}:m")
    llm.generate("warm the imports up")
    prompts = [f"Is answer {number} right? {'context ' * 300}" for number in range(REQUESTS)]
    start = time.perf_counter()
    found = generate_many(llm, prompts, concurrency=CONCURRENCY)
    first_s = time.perf_counter() - start
    start = time.perf_counter()
    again = generate_many(llm, prompts, concurrency=CONCURRENCY)
    second_s = time.perf_counter() - start
    assert all(reply.error is None and not reply.cached for reply in found)
    assert all(reply.cached for reply in again)
    assert len(server.asked) == REQUESTS + 1
    work = f"{REQUESTS} requests to {provider}, {CONCURRENCY} at once"
    benchmark.record(work, "the server's own time", first_s / IDEAL_S, at_most=1.15)
    benchmark.record(
        f"{REQUESTS} replies of {provider} from the store",
        "the first time",
        second_s / first_s,
        at_most=0.02,
    )


CLIENT = """
from ragbench.llms import generate_many, load_llm
prompts = [f"prompt {i}" for i in range(400)]
assert all(reply.error is None for reply in generate_many(load_llm("openai:m"), prompts, concurrency=16))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
def test_killed_in_the_middle_of_400_paid_requests_only_those_in_flight_are_sent_again(
    loopback: Any, wire: Any, llm_environment: Any, benchmark: Benchmark
) -> None:
    server = loopback(lambda asked: wire.Answered(wire.openai("TRUE"), delay_s=LATENCY_S))
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    process = subprocess.Popen([sys.executable, "-c", CLIENT])
    while len(server.asked) < 200:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(2 * LATENCY_S)
    subprocess.run([sys.executable, "-c", CLIENT], check=True)
    counts = collections.Counter(asked.body["messages"][0]["content"] for asked in server.asked)
    twice = sum(count - 1 for count in counts.values())
    assert len(counts) == 400
    benchmark.record(
        "requests sent twice after a kill at 200 of 400", "-", twice, at_most=CONCURRENCY
    )
    assert max(counts.values()) <= 2
