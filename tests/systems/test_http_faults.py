"""Faults of a system behind HTTP: every one is a failed answer with its reason, in bounded time, and
the next question is not answered by what was left over.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragbench.errors import FailureKind
from ragbench.systems import HttpSystem
from ragbench.systems.answer_parser import read_answer

GOOD = json.dumps({"answer": "It does.", "contexts": []}).encode()
Fault = Callable[[socket.socket], None]


def response(body: bytes, *, length: int | None = None, headers: str = "") -> bytes:
    length = len(body) if length is None else length
    kind = "" if "content-type" in headers else "content-type: application/json\r\n"
    head = f"HTTP/1.1 200 OK\r\n{kind}content-length: {length}\r\n{headers}\r\n"
    return head.encode() + body


def chunked(*pieces: bytes) -> bytes:
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head.encode() + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def sends(content: bytes) -> Fault:
    def fault(connection: socket.socket) -> None:
        connection.sendall(content)

    return fault


def hangs_after(content: bytes) -> Fault:
    def fault(connection: socket.socket) -> None:
        connection.sendall(content)
        connection.recv(1)  # until the client gives up

    return fault


def drips(content: bytes) -> Fault:
    def fault(connection: socket.socket) -> None:
        for byte in content:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    return fault


def resets_after(content: bytes) -> Fault:
    def fault(connection: socket.socket) -> None:
        connection.sendall(content)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return fault


def continues_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.02)


def redirects_to(address: str) -> Fault:
    return sends(f"HTTP/1.1 307 Moved\r\nlocation: {address}\r\ncontent-length: 0\r\n\r\n".encode())


@pytest.fixture
def serve() -> Iterator[Callable[[Fault], str]]:
    """Start a server that reads a request, does a fault, and closes; return its address."""
    listeners: list[socket.socket] = []

    def handle(connection: socket.socket, fault: Fault) -> None:
        try:
            with connection:
                received = b""
                while not received.endswith(b"}"):  # the body of the question
                    received += connection.recv(65536)
                fault(connection)
        except OSError:  # the client gave up
            return

    def accept(listener: socket.socket, fault: Fault) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the end of the test
                return
            threading.Thread(target=handle, args=(connection, fault), daemon=True).start()

    def start(fault: Fault) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=accept, args=(listener, fault), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/ask"

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


FAULTS: dict[str, tuple[Fault, FailureKind]] = {
    "silence": (hangs_after(b""), FailureKind.TIMEOUT),
    "silence after the head": (hangs_after(response(b"", length=9)), FailureKind.TIMEOUT),
    "silence in the body": (hangs_after(response(GOOD[:9], length=38)), FailureKind.TIMEOUT),
    "silence in a stream": (hangs_after(chunked(b'data: {"answer": "It"}')), FailureKind.TIMEOUT),
    "a dripping head": (drips(response(GOOD)), FailureKind.TIMEOUT),
    "100 for ever": (continues_for_ever, FailureKind.TIMEOUT),
    "half a body": (sends(response(GOOD[:9], length=38)), FailureKind.DISCONNECTED),
    "half a stream": (sends(chunked(b'data: {"answer": "It"}')), FailureKind.DISCONNECTED),
    "closed at once": (sends(b""), FailureKind.DISCONNECTED),
    "reset at once": (resets_after(b""), FailureKind.DISCONNECTED),
    "reset in the body": (resets_after(response(GOOD[:9], length=38)), FailureKind.DISCONNECTED),
    "another protocol": (sends(b"220 mail ESMTP\r\n"), FailureKind.DISCONNECTED),
    "a huge head": (
        sends(b"HTTP/1.1 200 OK\r\n" + b"x: " + b"a" * 300_000 + b"\r\n\r\n"),
        FailureKind.DISCONNECTED,
    ),
    "half a gzip": (
        sends(
            response(
                gzip.compress(b'data: {"answer": "It"}\n\n' + bytes(range(256)) * 50)[:40],
                headers="content-encoding: gzip\r\ncontent-type: text/event-stream\r\n",
            )
        ),
        FailureKind.UNREADABLE,
    ),
    "nothing": (sends(response(b"")), FailureKind.UNREADABLE),
    "a page": (sends(response(b"<html>502 Bad Gateway</html>")), FailureKind.UNREADABLE),
    "half a JSON": (sends(response(GOOD[:9])), FailureKind.UNREADABLE),
    "deep nesting": (sends(response(b"[" * 100_000)), FailureKind.UNREADABLE),
    "redirect": (redirects_to("http://example.org/x"), FailureKind.REFUSED),
    "redirect without scheme": (redirects_to("//example.org/x"), FailureKind.REFUSED),
    "redirect to a file": (redirects_to("file:///etc/passwd"), FailureKind.REFUSED),
    "redirect on this host": (redirects_to("/other"), FailureKind.REFUSED),
    "redirect to no address": (redirects_to("http://[::1"), FailureKind.REFUSED),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_failed_answer_in_bounded_time(
    name: str, serve: Callable[[Fault], str]
) -> None:
    fault, kind = FAULTS[name]
    with HttpSystem(serve(fault), body={"q": "{query}"}, timeout_s=1.0, tries=1) as system:
        begun = time.monotonic()
        answer = system.answer("q1", "Does it?")
    assert time.monotonic() - begun < 30
    assert (answer.outcome, answer.failure, answer.text) == ("failed", kind, ""), answer.error
    assert answer.error


FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"error": "out of memory"}, "out of memory"),
    ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
    ({"error": {"code": 7}}, "{'code': 7}"),
    ({"error": True, "message": "boom"}, "boom"),
    ({"error": True}, "error is True"),
    ({"errors": [{"message": "no such field"}], "data": None}, "no such field"),
    ({"errors": ["first", "second"]}, "first"),
    ({"status": "error", "message": "bad"}, "bad"),
    ({"status": "failed", "answer": ""}, "status is 'failed'"),
    ({"answer": "Sorry.", "status": "error"}, "status is 'error'"),
    ({"answer": "Half.", "error": "cut"}, "cut"),
    ({"success": False, "message": "busy"}, "busy"),
    ({"ok": False}, "ok is False"),
    ({"code": 500, "message": "bad", "data": None}, "bad"),
    ({"statusCode": 503, "body": "x"}, "status_code is 503"),
    ({"type": "error", "error": {"type": "x", "message": "Overloaded"}}, "Overloaded"),
    ({"jsonrpc": "2.0", "error": {"code": -1, "message": "no"}}, "no"),
    ({"fault": {"faultstring": "limit"}}, "limit"),
    ({"exception": "ValueError"}, "ValueError"),
    ({"contexts": [], "errors": [{"detail": "index is gone"}]}, "index is gone"),
]


@pytest.mark.parametrize(("body", "reason"), FAILURES)
def test_an_error_in_a_reply_of_status_200_is_a_failed_answer(
    body: dict[str, Any], reason: str, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered(body))
    with HttpSystem(server.url, body={"q": "{query}"}) as system:
        answer = system.answer("q1", "Does it?")
    assert (answer.outcome, answer.error) == ("failed", reason)
    assert answer.text == body.get("answer", ""), "what the system said is kept"


@pytest.mark.parametrize(
    "body",
    [
        {"answer": "Yes.", "error": None},
        {"answer": "Yes.", "error": ""},
        {"answer": "Yes.", "error": {}},
        {"answer": "Yes.", "error": {"code": 0, "message": ""}},
        {"answer": "Yes.", "error": False, "errors": []},
        {"answer": "Yes.", "error": float("nan")},
        {"answer": "Yes.", "status": "ok", "code": 200},
        {"answer": "Yes.", "status": "success", "message": "done"},
        {"answer": "Yes.", "code": 404},
        {"answer": "Yes.", "success": False},
        {"message": "Yes."},
    ],
)
def test_a_reply_without_an_error_has_not_failed(body: dict[str, Any]) -> None:
    answer = read_answer("q1", body)
    assert (answer.text, answer.outcome, answer.error) == ("Yes.", "success", None)
