"""Connections to an MCP server: opened when needed, replaced when they end."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragbench.errors import FailureKind, RefusalError, SystemsError, unknown
from ragbench.llms.failures import scrubbed
from ragbench.network import Bounds, OutOfBoundsError
from ragbench.systems.credentials import scrubbed_json
from ragbench.systems.function import EventLoop
from ragbench.systems.model_requests import Sampling

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

_CLOSED = -32000  # the SDK's code of a connection that ended
_UNSUPPORTED_VERSION = -32022
_SAME_REASON_S = 10.0
_N_CONNECTIONS = 8


@dataclass(frozen=True)
class Server:
    """An MCP server, by its address or the command that starts it, and what it may take."""

    name: str
    where: str | list[str]
    headers: Mapping[str, str]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    timeout_s: float
    max_samplings: int
    samples: bool


class Pool:
    """Connections to one server; threads may share it."""

    def __init__(self, server: Server, loop: EventLoop) -> None:
        self._server, self._loop = server, loop
        # With sampling each call has a connection to itself, so that tokens and limits belong to
        # it. Each to a command is a process.
        most = 1 if isinstance(server.where, list) else _N_CONNECTIONS
        self._places = threading.BoundedSemaphore(most) if server.samples else nullcontext()
        self._opening = threading.Lock()
        self._idle: list[_Connection] = []
        self._unreached = (-math.inf, "")

    def tools(self) -> dict[str, Any]:
        """Return the server's tools, name -> the schema of its arguments."""
        with self._connection() as connection:
            return connection.tools

    def call(
        self, tool: str, arguments: dict[str, Any], sampling: Sampling | None
    ) -> tuple[Any, float]:
        """Return the result of one call, and the seconds that it took."""
        with self._connection() as connection:
            if tool not in connection.tools:
                raise RefusalError(unknown("tool", tool, connection.tools))
            connection.sampling = sampling
            start = time.perf_counter()
            try:
                result = self._loop.run(
                    connection.client.call_tool(tool, arguments), self._server.timeout_s
                )
            except InterruptedError:
                raise
            except TimeoutError:
                late = (
                    f"no result within {self._server.timeout_s:g} s; raise timeout_s or ask "
                    "for less"
                )
                raise SystemsError(late, FailureKind.TIMEOUT) from None
            except Exception as exc:
                cause = _first_cause(exc)
                if is_lost := getattr(cause, "code", _CLOSED) == _CLOSED:
                    connection.close()  # the next call gets a new one
                raise (SystemsError if is_lost else RefusalError)(
                    self._explain(cause, connection)
                ) from None
            finally:
                connection.sampling = None
            took = time.perf_counter() - start
        return scrubbed_json(content_of(result, self._server.secrets), self._server.secrets), took

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        with self._places:
            with self._opening:
                self._idle = [connection for connection in self._idle if not connection.ended]
                connection = self._idle.pop() if self._idle else self._connect()
                if not self._server.samples:
                    self._idle.append(connection)
            try:
                yield connection
            finally:
                if self._server.samples:
                    self._idle.append(connection)

    def _connect(self) -> _Connection:
        since, reason = self._unreached
        if (
            time.monotonic() - since > _SAME_REASON_S
        ):  # each try may take long: not once more for each question
            for protocol in (
                "legacy",
                "auto",
            ):  # in the first, a tool can ask for samples whenever it likes
                connection = _Connection(self._server)
                try:
                    connection.open(protocol, self._loop)
                except InterruptedError:
                    raise
                except Exception as exc:
                    cause = _first_cause(exc)
                    reason = self._explain(cause, connection)
                    if getattr(cause, "code", None) == _UNSUPPORTED_VERSION:
                        continue
                    break
                return connection
            self._unreached = (time.monotonic(), reason)
        raise SystemsError(reason, FailureKind.UNREACHABLE)

    def _explain(self, exc: BaseException, connection: _Connection) -> str:
        where, code = self._server.where, getattr(exc, "code", None)
        if isinstance(exc, FileNotFoundError) and isinstance(where, list):
            return f"there is no command {where[0]!r}; check server"
        if isinstance(exc, TimeoutError):
            message = f"no handshake within {self._server.timeout_s:g} s{connection.last_words}"
        elif isinstance(exc, OutOfBoundsError):
            message = str(exc)
        elif code is not None and code != _CLOSED:
            message = f"the server reports: {exc}"
        else:
            at = f" at {where}" if isinstance(where, str) else ""
            kind = "the connection ended" if code == _CLOSED else type(exc).__name__
            message = f"{kind}{at}: {exc}{connection.last_words}"
        return scrubbed(message, self._server.secrets)


class _Connection:
    """One session with the server."""

    def __init__(self, server: Server) -> None:
        self.client: Client
        self.tools: dict[str, Any] = {}
        self.sampling: Sampling | None = None
        self.ended = False
        self.last_words = ""  # what a command wrote to its standard error last, for a message
        self._server, self._stack = server, ExitStack()

    def open(self, protocol: str, loop: EventLoop) -> None:
        """Start the server or reach it, and shake hands."""
        self.client = self._stack.enter_context(loop.held(self._session(protocol)))

    def close(self) -> None:
        """Leave the session; a started server ends."""
        self.ended = True
        with suppress(Exception):  # it may have ended by an error
            self._stack.close()

    @asynccontextmanager
    async def _session(self, protocol: str) -> AsyncIterator[Client]:
        # Not this process's standard error, which is not a file in Jupyter.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(self._server.timeout_s):
                        client = await stack.enter_async_context(
                            await self._client(protocol, stack, errors)
                        )
                        listed = await client.list_tools()
                        self.tools = {tool.name: tool.input_schema for tool in listed.tools}
                        while listed.next_cursor:
                            listed = await client.list_tools(cursor=listed.next_cursor)
                            self.tools |= {tool.name: tool.input_schema for tool in listed.tools}
                    yield client
            finally:
                errors.seek(0)
                lines = [
                    line.strip() for line in errors.read()[-4000:].splitlines() if line.strip()
                ]
                self.last_words = f"; its last error line: {lines[-1][:300]}" if lines else ""

    async def _client(self, protocol: str, stack: AsyncExitStack, errors: Any) -> Client:
        from mcp import Client, StdioServerParameters, stdio_client

        server = self._server
        options: dict[str, Any] = {
            "mode": protocol,
            "input_required_max_rounds": server.max_samplings + 1,
        }
        if server.samples:
            options["sampling_callback"] = self._sample
        if isinstance(server.where, list):
            command, *args = server.where
            parameters = StdioServerParameters(command=command, args=args, env=dict(server.env))
            return Client(stdio_client(parameters, errlog=errors), **options)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        bounds = Bounds(server.name, same_host=True).async_options()
        headers = {**server.headers, "accept-encoding": "gzip"}
        timeout = httpx2.Timeout(30.0, read=server.timeout_s + 30.0)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=headers, timeout=timeout, **bounds)
        )
        return Client(streamable_http_client(server.where, http_client=http), **options)

    async def _sample(self, context: Any, params: Any) -> Any:
        from mcp.types import ErrorData

        if self.sampling is None:
            return ErrorData(
                code=-1, message="ragbench: no tool call is on its way that this could belong to"
            )
        return await self.sampling.answer(params)


def _first_cause(exc: BaseException) -> BaseException:
    """Return the first cause inside groups of exceptions, which is what a person can act on."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def content_of(result: CallToolResult, secrets: tuple[str, ...] = ()) -> Any:
    """Return the structured result of a call, else the JSON of its text, else its text."""
    blocks = [block.text for block in result.content if block.type == "text"]
    text = "\n".join(blocks)
    if result.is_error:
        raise RefusalError(scrubbed(f"the tool failed: {text or 'it does not say why'}", secrets))
    content: Any = result.structured_content
    if content is None:
        with suppress(ValueError, RecursionError):
            # Older servers give a list as one block for each of its entries.
            entries = [json.loads(block) for block in blocks]
            content = entries[0] if len(entries) == 1 else entries
        if not isinstance(content, dict | list):
            return text
    # Frameworks wrap results that are not objects.
    is_wrapped = isinstance(content, dict) and content.keys() == {"result"}
    return content["result"] if is_wrapped else content
