"""How fast many requests are, and that a kill costs only what was in flight: real servers, real
processes.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


SERVER = """
import json, socket, threading
choice = {"message": {"content": "TRUE"}, "finish_reason": "stop"}
body = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}).encode()
head = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
def serve(connection):
    received = b""
    while True:
        while b"\\r\\n\\r\\n" not in received:
            part = connection.recv(65536)
            if not part:
                return
            received += part
        lines, _, received = received.partition(b"\\r\\n\\r\\n")
        length = int(lines.lower().partition(b"content-length:")[2].split(b"\\r\\n")[0])
        while len(received) < length:
            received += connection.recv(65536)
        received = received[length:]
        connection.sendall(head % len(body) + body)
server = socket.create_server(("127.0.0.1", 0), backlog=128)
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def server_url() -> Iterator[str]:
    """A server that replies at once, in a process of its own: its CPU is not measured."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.kill()


def test_cpu_of_a_request_32_at_a_time(
    server_url: str, llm_environment: Any, benchmark: Benchmark
) -> None:
    """What limits many requests at a time is the CPU of each: the replies come to one process.

    With the reply store, a request is claimed by a file lock, looked up and stored before its reply is
    used; the lock of filelock 4.3 takes a fourth of the CPU.
    """
    import httpx

    work = "CPU of a request, 32 at a time"
    peer = benchmark.peer(work, "httpx")
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server_url)
    llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
    llm = llms.load_llm("openai:m")
    client = httpx.Client(limits=httpx.Limits(max_keepalive_connections=64))
    llm.generate("warm the imports up")

    def by_httpx(prompt: str) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
        reply = client.post(f"{server_url}/chat/completions", json=body)
        assert json.loads(reply.text)["choices"]

    spent: dict[str, list[float]] = {"httpx": [], "stored": [], "unstored": []}
    for i in range(3):
        prompts = [f"{i} is answer {number} right? {'context ' * 300}" for number in range(300)]
        start = time.process_time()
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(by_httpx, prompts))
        spent["httpx"].append(time.process_time() - start)
        for name, mode in (("stored", "on"), ("unstored", "off")):
            llm_environment.setenv("RAGBENCH_REPLIES", mode)
            start = time.process_time()
            found = generate_many(llm, prompts, concurrency=32)
            spent[name].append(time.process_time() - start)
            assert not any(reply.cached or reply.error for reply in found)
    client.close()
    best = {name: min(seconds) for name, seconds in spent.items()}
    benchmark.record(work, peer, best["stored"] / best["httpx"], at_most=2, bound=4.5)
    without = f"{work}, without the reply store"
    benchmark.record(without, peer, best["unstored"] / best["httpx"], at_most=1.5, bound=2)


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
