"""Connections to a real server: half requests, slow bodies, proxies, and what its process writes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from ragbench.cli.serve import server_config
from ragbench.errors import ConfigError
from ragbench.service import server_connections
from ragbench.service.app import create_app

_WAIT_S = 60.0


def started(app: Any, behind_proxy: str = "") -> tuple[uvicorn.Server, threading.Thread, int]:
    """A server in a thread, and its port."""
    config = server_config(app, behind_proxy)
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread, int(server.servers[0].sockets[0].getsockname()[1])


@pytest.fixture
def serve(root: Path, database: str) -> Iterator[Callable[..., int]]:
    """Start a server in a thread; its port."""
    with ExitStack() as stack:

        def start(behind_proxy: str = "") -> int:
            server, thread, port = started(create_app(root, database), behind_proxy)

            def stop() -> None:
                server.should_exit = True
                thread.join()

            stack.callback(stop)
            return port

        yield start


def connected(port: int, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_WAIT_S)
    connection.sendall(text.encode())
    return connection


def until_closed(connection: socket.socket) -> bytes:
    """What the server still sent; it fails where the server does not end the connection."""
    content = b""
    with connection, suppress(ConnectionError):
        while part := connection.recv(65536):
            content += part
    return content


def test_half_requests_make_room_for_whole_ones(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connections, "_CONNECTIONS", 20)
    port = serve()
    halves = [
        connected(port, "GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Half") for _ in range(60)
    ]
    for _ in range(5):
        assert httpx.get(f"http://127.0.0.1:{port}/api/v1/health").status_code == 200
    for half in halves:
        half.close()


def test_a_head_that_does_not_come_ends_the_connection(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connections, "HEAD_S", 1.0)
    port, request = serve(), "GET /api/v1/health HTTP/1.1\r\nHost: x\r\n"
    for text in (
        "",
        request,
        f"{request}\r\n{request}",
    ):  # the last: a second one, on the same connection
        content = until_closed(connected(port, text))
        assert content.count(b"200 OK") == text.count("\r\n\r\n")


def test_a_body_that_does_not_come_is_408(
    serve: Callable[..., int], keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.app.BODY_S", 0.2)
    port = serve()
    for path in ("/ingest", "/api/v1/datasets?name=slow"):
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {keys['acme runner']}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        answer = until_closed(connected(port, head))
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("proxies", "is_trusted"), [("127.0.0.1", True), ("10.0.0.1", False), ("", False)]
)
def test_only_named_proxies_state_who_calls_and_how(
    serve: Callable[..., int],
    keys: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    proxies: str,
    is_trusted: bool,
) -> None:
    monkeypatch.setattr("ragbench.service.app.MAX_RATE", 40)
    url = f"http://127.0.0.1:{serve(proxies)}"
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.1", "Origin": url}
    answer = httpx.post(f"{url}/login", data={"key": keys["acme reader"]}, headers=forwarded)
    assert answer.status_code == 303
    assert ("Secure" in answer.headers["set-cookie"]) is is_trusted
    statuses = [
        httpx.get(
            f"{url}/api/v1/health", headers={"X-Forwarded-For": f"203.0.113.{number}"}
        ).status_code
        for number in (1, 2, 2, 3)
    ]
    assert statuses == ([200, 200, 200, 200] if is_trusted else [200, 429, 429, 429])


@pytest.mark.parametrize("proxies", ["*", "proxy.example.com", "10.0.0.0/99"])
def test_a_proxy_is_named_by_its_address(proxies: str) -> None:
    with pytest.raises(ConfigError, match="--behind-proxy"):
        server_config(None, proxies)


def test_the_log_is_bounded_and_files_are_private(tmp_path: Path) -> None:
    script = """
import logging, sys, warnings
from pathlib import Path
from ragbench.cli import serve
serve.LOG_BYTES = 10_000
serve.log_privately(Path(sys.argv[1], "server.log"))
for number in range(2_000):
    logging.getLogger("asyncio").error("socket.accept() out of system resource %s", number)
warnings.warn("the last")
Path(sys.argv[1], "new").mkdir()
"""
    subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        check=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    logs = sorted(tmp_path.glob("server.log*"))
    assert len(logs) == 4
    assert sum(log.stat().st_size for log in logs) < 50_000
    assert "the last" in logs[0].read_text()
    modes = {path.stat().st_mode & 0o777 for path in logs}
    assert (modes, (tmp_path / "new").stat().st_mode & 0o777) == ({0o600}, 0o700)


def test_an_error_of_the_server_states_that_the_connection_ends(
    serve: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.api.own_version", lambda: 1 / 0)
    with connected(serve(), "GET /api/v1/health HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close" in answer.lower()
    assert b"content-security-policy" in answer.lower()
    assert b"ZeroDivision" not in answer


def test_after_other_errors_the_connection_takes_the_next_request(
    serve: Callable[..., int], keys: dict[str, str]
) -> None:
    port, key = serve(), f"X-API-Key: {keys['acme runner']}\r\n"
    health = "GET /api/v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for head, body in (
        ("GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://[::1\r\n", ""),
        ("POST /login HTTP/1.1\r\nHost: x\r\nOrigin: http://[::1\r\n", "key=a"),
        ("POST /ingest HTTP/1.1\r\nHost: x\r\n", "{}"),
        (f"POST /ingest HTTP/1.1\r\nHost: x\r\n{key}", "x" * 2_000_000),
        (f"POST /evaluation/run HTTP/1.1\r\nHost: x\r\n{key}", "[[["),
        (f"GET /nowhere HTTP/1.1\r\nHost: [::1\r\n{key}", ""),
        (f"GET /evaluation/test-cases?limit={10**20} HTTP/1.1\r\nHost: x\r\n{key}", ""),
    ):
        text = f"{head}Content-Length: {len(body)}\r\n\r\n{body}{health}"
        answer = until_closed(connected(port, text))
        assert answer.count(b"HTTP/1.1 ") == 2, (head, answer)
        assert answer.startswith(b"HTTP/1.1 4"), (head, answer)
        assert b"HTTP/1.1 200 " in answer


def test_a_server_that_is_stopped_waits_for_no_test_set_that_it_reads(
    root: Path, database: str, keys: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "process"
    program = (
        "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()} '); time.sleep(600)"
    )
    command = (sys.executable, "-c", program, str(file))
    monkeypatch.setattr("ragbench.service.received_uploads._PROGRAM", command)
    server, thread, port = started(create_app(root, database))
    server.config.timeout_graceful_shutdown = 0
    head = (
        f"POST /api/v1/datasets?name=slow HTTP/1.1\r\nHost: x\r\nX-API-Key: {keys['acme runner']}"
    )
    with connected(port, f"{head}\r\nContent-Length: 2\r\n\r\n[]"):
        while not file.exists() or not file.read_text().endswith(" "):
            time.sleep(0.01)
        server.should_exit = True
        thread.join(_WAIT_S)
    assert not thread.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
