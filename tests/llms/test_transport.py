"""Servers that never end, flood, or send the request elsewhere: every client is bounded by the same
network.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import importlib
import json
import re
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from ragbench import llms
from ragbench.errors import FailureKind
from ragbench.llms.providers import stored_llm
from ragbench.network import Bounds
from ragbench.systems import HttpSystem, McpSystem

NAMES = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "ollama": "ollama:llama3.1:8b",
    "openai": "openai:gpt-4o-mini",
}
CLIENTS = [*NAMES, "system"]
Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(llm_environment: pytest.MonkeyPatch) -> Ask:
    """Ask one client of the server at an address, with a deadline; gives the error and its kind."""

    def asked(client: str, url: str, timeout_s: float = 20.0) -> tuple[str, str]:
        if client == "system":
            with HttpSystem(url, body={"q": "{query}"}, timeout_s=timeout_s, tries=1) as system:
                answer = system.answer("q1", "Hi?")
            return answer.error or "", str(answer.failure or "")
        llm_environment.setenv(f"RAG_EVAL_{client.upper()}_BASE_URL", url)
        llm_environment.setenv(f"RAG_EVAL_{client.upper()}_API_KEY", "sk-none")
        provider = stored_llm(NAMES[client])
        with pytest.raises(llms.failures.RequestError) as raised:
            provider.client.send(provider.request("Hi?", None, 9, 0.0, None, 0), timeout_s)
        return str(raised.value), str(raised.value.failure)

    return asked


@pytest.fixture
def listen() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start a server that does anything with each connection; gives its address."""
    listeners: list[socket.socket] = []

    def start(serve: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def one(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                serve(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


@pytest.fixture
def raw(
    listen: Callable[[Callable[[socket.socket], None]], str],
) -> Callable[[Callable[[socket.socket], None]], str]:
    """Start a server that reads a request, then does anything; gives its address."""

    def start(answer: Callable[[socket.socket], None]) -> str:
        def serve(connection: socket.socket) -> None:
            connection.recv(65536)
            answer(connection)

        return listen(serve)

    return start


def drip(head: bytes, piece: bytes, seconds: float = 60.0) -> Callable[[socket.socket], None]:
    """Send `head`, then one piece every 0.05 s."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            connection.sendall(piece)
            time.sleep(0.05)

    return serve


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nx-drip: ",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n",
    ],
    ids=["headers", "body"],
)
def test_a_server_that_drips_does_not_hold_a_client(
    client: str, head: bytes, ask: Ask, raw: Any
) -> None:
    url = raw(drip(head, b" "))
    importlib.import_module("anthropic")  # takes seconds
    begun = time.monotonic()
    error, kind = ask(client, url, 0.6)
    assert time.monotonic() - begun < 30
    assert "no reply within 0.6 s" in error
    assert kind == FailureKind.TIMEOUT


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_that_is_looked_up_for_ever_does_not_hold_a_client(
    client: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        asked.set()
        answer.wait(30)
        raise socket.gaierror("too late")

    importlib.import_module("anthropic")  # takes seconds
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    start = time.monotonic()
    error, _ = ask(client, "http://slow.invalid:9", 1.0)
    answer.set()
    assert asked.is_set()
    assert time.monotonic() - start < 25
    assert "slow.invalid" in error or "no reply within 1 s" in error


def test_a_connection_that_comes_too_late_is_closed(
    ask: Ask, loopback: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, look_up = loopback(lambda asked: wire.Answered(b"{}")), socket.getaddrinfo

    def slow(*args: Any, **options: Any) -> Any:
        time.sleep(1.5)
        return look_up(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert "127.0.0.1" in ask("system", server.url, 0.5)[0]
    time.sleep(2)  # an open socket would be a ResourceWarning, which is an error
    gc.collect()
    assert server.asked == []


def test_a_server_that_never_reads_does_not_hold_a_client(ask: Ask, raw: Any) -> None:
    url = raw(lambda connection: time.sleep(60))
    with HttpSystem(url, body={"q": "{query}"}, timeout_s=0.6, tries=1) as system:
        begun = time.monotonic()
        answer = system.answer("q1", "long " * 4_000_000)
    assert time.monotonic() - begun < 30
    assert answer.failure == FailureKind.TIMEOUT


@cache
def bomb(times: int) -> bytes:
    """120 MB of zeros, compressed that many times."""
    packer = zlib.compressobj(9, wbits=31)
    data = b"".join([*(packer.compress(bytes(10**6)) for _ in range(120)), packer.flush()])
    for _ in range(times - 1):
        data = gzip.compress(data, 9)
    return data


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("encoding", ["gzip, gzip, gzip", "deflate", "br"])
def test_an_encoding_that_was_not_asked_for_is_refused(
    client: str, encoding: str, ask: Ask, loopback: Any, wire: Any
) -> None:
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    server = loopback(
        lambda asked: wire.Answered(bomb(3) if "," in encoding else b"?", headers=headers)
    )
    tracemalloc.start()
    error, kind = ask(client, server.url)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"encoded as {encoding!r}" in error
    assert kind == FailureKind.UNREADABLE
    assert most < 60e6
    assert server.asked[-1].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("packed", [True, False], ids=["gzip", "plain"])
def test_a_reply_is_read_up_to_50_mb_decompressed(
    client: str, packed: bool, ask: Ask, loopback: Any, wire: Any
) -> None:
    body = bomb(1) if packed else bytes(120 * 10**6)
    headers = {"content-encoding": "gzip"} if packed else {}
    server = loopback(
        lambda asked: wire.Answered(body, headers={"content-type": "application/json", **headers})
    )
    tracemalloc.start()
    error, kind = ask(client, server.url)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "longer than 50 MB" in error
    assert kind == FailureKind.UNREADABLE
    assert most < 250e6


@pytest.mark.parametrize("provider", list(NAMES))
def test_one_gzip_is_read(
    provider: str, ask: Ask, loopback: Any, wire: Any, llm_environment: Any
) -> None:
    body = gzip.compress(json.dumps(getattr(wire, provider)("Hello.")).encode())
    server = loopback(lambda asked: wire.Answered(body, headers={"content-encoding": "gzip"}))
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", server.url)
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "sk-none")
    assert stored_llm(NAMES[provider]).generate("Hi?").text == "Hello."


@pytest.mark.parametrize("client", CLIENTS)
def test_a_proxy_of_the_environment_is_used(
    client: str, ask: Ask, loopback: Any, wire: Any, llm_environment: Any
) -> None:
    proxy = loopback(lambda asked: wire.Answered({"error": "from the proxy"}, status=422))
    llm_environment.setenv("HTTP_PROXY", proxy.url.replace("//", "//me:pw@"))
    llm_environment.setenv("http_proxy", proxy.url.replace("//", "//me:pw@"))
    llm_environment.setenv("no_proxy", "direct.invalid")
    assert "from the proxy" in ask(client, "http://rag.invalid:9/ask")[0]
    assert proxy.asked[0].path.startswith("http://rag.invalid:9/ask")
    assert proxy.asked[0].headers["proxy-authorization"] == "Basic bWU6cHc="
    n_asked = len(proxy.asked)
    ask(client, "http://direct.invalid:9/ask")
    assert len(proxy.asked) == n_asked


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [302, 307])
def test_no_request_goes_to_another_host(
    client: str, status: int, ask: Ask, loopback: Any, wire: Any
) -> None:
    other = loopback(lambda asked: wire.Answered(wire.openai("Stolen.")))
    place = other.url.replace("127.0.0.1", "localhost") + "/there"
    server = loopback(lambda asked: wire.Answered(b"", status, {"location": place}))
    error, kind = ask(client, server.url)
    assert f"redirected to {place!r}" in error
    assert kind == FailureKind.REFUSED
    assert other.asked == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_redirect_to_what_is_no_address_is_refused(
    client: str, ask: Ask, loopback: Any, wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered(b"", 302, {"location": "http://[::1"}))
    error, kind = ask(client, server.url)
    assert "redirected to 'http://[::1'" in error
    assert kind == FailureKind.REFUSED


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("pause_s", [0.0, 0.1], ids=["at once", "later"])
def test_a_second_response_is_not_taken_for_the_next_reply(
    client: str, pause_s: float, listen: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    def response(text: str) -> bytes:
        body = {"answer": text} if client == "system" else getattr(wire, client)(text)
        content = json.dumps(body).encode()
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"
        return f"{head} {len(content)}\r\n\r\n".encode() + content

    def serve(connection: socket.socket) -> None:
        while asked := connection.recv(65536):
            while not (numbers := re.findall(rb"question (\d+)", asked)):
                asked += connection.recv(65536)  # head and body may come apart
            answer = response(f"reply {numbers[0].decode()}")
            if pause_s:
                connection.sendall(answer)
                time.sleep(pause_s)
                connection.sendall(response("extra"))
            else:
                connection.sendall(answer + response("extra"))

    url = listen(serve)
    if client == "system":
        system = HttpSystem(url, body={"q": "{query}"}, timeout_s=20)
        ask = lambda text: system.answer("q", text).text  # noqa: E731
    else:
        llm_environment.setenv(f"RAG_EVAL_{client.upper()}_BASE_URL", url)
        llm_environment.setenv(f"RAG_EVAL_{client.upper()}_API_KEY", "sk-none")
        llm = stored_llm(NAMES[client])
        ask = lambda text: llm.generate(text).text  # noqa: E731
    for number in range(4):
        assert ask(f"question {number}") == f"reply {number}"
        time.sleep(2 * pause_s)
    if client == "system":
        system.close()


def test_an_asynchronous_client_takes_no_second_response_for_the_next_reply(listen: Any) -> None:
    httpx2 = pytest.importorskip("httpx2", reason="needs the extra `mcp`")

    def serve(connection: socket.socket) -> None:
        while asked := connection.recv(65536):
            number = re.findall(rb"question=(\d+)", asked)[0]
            head = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n"
            connection.sendall(head + b"reply " + number + head + b"extra !")

    url = listen(serve)

    async def ask_three_times() -> list[str]:
        options = Bounds("server").async_options()
        async with httpx2.AsyncClient(trust_env=False, timeout=20, **options) as client:
            return [(await client.get(url, params={"question": i})).text for i in range(3)]

    assert asyncio.run(ask_three_times()) == ["reply 0", "reply 1", "reply 2"]


@pytest.mark.parametrize("attack", ["redirect", "encodings", "flood", "drip"])
def test_mcp_by_http_is_bounded(attack: str, loopback: Any, wire: Any, raw: Any) -> None:
    pytest.importorskip("mcp", reason="needs the extra `mcp`")
    other = loopback(lambda asked: wire.Answered(b"{}"))
    answers = {
        "redirect": lambda asked: wire.Answered(b"", 307, {"location": f"{other.url}/there"}),
        "encodings": lambda asked: wire.Answered(
            bomb(3), headers={"content-encoding": "gzip, gzip, gzip"}
        ),
        "flood": lambda asked: wire.Answered(bomb(1), headers={"content-encoding": "gzip"}),
    }
    url = (
        raw(drip(b"HTTP/1.1 200 OK\r\nx-drip: ", b" "))
        if attack == "drip"
        else loopback(answers[attack]).url
    )
    begun = time.monotonic()
    tracemalloc.start()
    with McpSystem(f"{url}/mcp", tool="echo", timeout_s=3) as system:
        answer = system.answer("q1", "Hi?")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.failed
    assert time.monotonic() - begun < 45
    assert most < 250e6
    assert other.asked == []
