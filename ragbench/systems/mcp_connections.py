"""Connections to an MCP server: opened when needed, replaced when they end; and what a tool returned."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
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
from ragbench.systems.function import EventLoop
from ragbench.systems.model_requests import Sampling

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

_CLOSED = -32000  # the SDK's code of a connection that ended
_UNSUPPORTED_VERSION = -32022
_SAME_REASON_S = 10.0
_N_CONNECTIONS = 8


@dataclass(eq=False)
class Pool:
    """Connections to an MCP server, by its address or the command that starts it; threads may share
    it.
    """

    name: str
    where: str | list[str]
    headers: Mapping[str, str]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    timeout_s: float
    max_samplings: int
    samples: bool

    def __post_init__(self) -> None:
        """Prepare the event loop and the limits; the first connection is opened by the first call."""
        self.loop = EventLoop(self.name)
        # With sampling each call has a connection to itself, so that tokens and limits belong to
        # the call. A connection to a command is a process, so there is one alone.
        max_connections = 1 if isinstance(self.where, list) else _N_CONNECTIONS
        # entered for each call; it waits while all connections are in use
        self._free_connection: AbstractContextManager[Any] = nullcontext()
        if self.samples:
            self._free_connection = threading.BoundedSemaphore(max_connections)
        self._choosing = threading.Lock()  # so that two threads do not open two connections at once
        self._idle: list[_Connection] = []
        # when the server could not be reached the last time, and the reason
        self._unreached = (-math.inf, "")

    def tools(self) -> dict[str, Any]:
        """Return the server's tools, name -> the schema of its arguments."""
        with self._connection() as connection:
            return connection.tools

    def call(
        self, tool: str, arguments: dict[str, Any], sampling: Sampling | None
    ) -> tuple[Any, float]:
        """Return the result of one call, and the seconds that it took.

        `sampling` answers a tool that asks for texts of a language model (which MCP calls sampling);
        None if it must not ask.

        Raises:
            RefusalError: there is no such tool, or the server or the tool reports an error.
            SystemsError: there is no result in time, or the server could not be reached, or the
                connection ended.
        """
        with self._connection() as connection:
            if tool not in connection.tools:
                raise RefusalError(unknown("tool", tool, connection.tools))
            connection.sampling = sampling
            start = time.perf_counter()
            try:
                result = self.loop.run(connection.client.call_tool(tool, arguments), self.timeout_s)
            except InterruptedError:  # the pool was closed
                raise
            except TimeoutError:
                raise SystemsError(
                    f"no result within {self.timeout_s:g} s; raise timeout_s or ask for less",
                    FailureKind.TIMEOUT,
                ) from None
            except Exception as exc:
                message = self._explain(exc, connection)  # closes a connection that is lost
                if connection.ended:
                    raise SystemsError(message) from None
                raise RefusalError(message) from None
            finally:
                connection.sampling = None
            seconds = time.perf_counter() - start
        return content_of(result, self.secrets), seconds

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        """Yield a connection to the server for the block: one that is open, else a new one.

        If the server may ask for completions of a model (sampling), no other call uses the connection
        until the block has ended. Otherwise all calls share one, which stays among the idle ones.
        """
        is_shared = not self.samples
        with self._free_connection:
            with self._choosing:
                connection = self._idle_or_new()
                if is_shared:
                    self._idle.append(connection)  # at once: other calls use it during the block
            try:
                yield connection
            finally:
                if not is_shared:
                    self._idle.append(connection)

    def _idle_or_new(self) -> _Connection:
        """Take a connection that has not ended out of the idle ones, and return it; a new one if none is
        left.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.ended:
                return connection
        return self._connect()

    def _connect(self) -> _Connection:
        """Return a new, open connection. The older version of the protocol is tried first; if the server
        refuses it, the client of the MCP SDK chooses the version.

        A failure is remembered for `_SAME_REASON_S` seconds, and raised again without another try.

        Raises:
            SystemsError: the server cannot be reached.
        """
        since, reason = self._unreached
        if time.monotonic() - since < _SAME_REASON_S:  # a try may take long: not for each question
            raise SystemsError(reason, FailureKind.UNREACHABLE)
        # "legacy" is the older version: with it, a tool can ask us for a model's reply ("sampling") at
        # any time
        for protocol in ("legacy", "auto"):
            connection = _Connection(self)
            try:
                connection.open(protocol)
                return connection
            except InterruptedError:  # the pool was closed
                raise
            except Exception as exc:
                reason = self._explain(exc, connection)
                is_version_refused = (
                    getattr(_first_cause(exc), "code", None) == _UNSUPPORTED_VERSION
                )
                if not is_version_refused:
                    break
        self._unreached = (time.monotonic(), reason)
        raise SystemsError(reason, FailureKind.UNREACHABLE)

    def _explain(self, exc: BaseException, connection: _Connection) -> str:
        """Return the reason of a failure in words, without secrets.

        A connection that is lost is closed (its `ended` becomes True), so that the next call gets a
        new one. An error that the server itself reports has a code of its own and ends nothing.
        """
        cause = _first_cause(exc)
        is_reported = getattr(cause, "code", _CLOSED) != _CLOSED
        if not is_reported:
            connection.close()  # which sets its `last_words`
        return scrubbed(self._message(cause, is_reported, connection.last_words), self.secrets)

    def _message(self, cause: BaseException, is_reported: bool, last_words: str) -> str:
        """Return a failure in words: first what ragbench itself found out, then the server's own error, else
        that the connection ended.

        Args:
            cause: the exception.
            is_reported: True for an error that the server reports.
            last_words: the end of a command's standard error, for the end of the message.
        """
        where = self.where
        if isinstance(cause, FileNotFoundError) and isinstance(where, list):
            return f"there is no command {where[0]!r}; check server"
        if isinstance(cause, TimeoutError):  # of `_session`, while it connects
            return f"no handshake within {self.timeout_s:g} s{last_words}"
        if isinstance(cause, OutOfBoundsError):  # a reply is too large, late or redirected
            return str(cause)
        if is_reported:
            return f"the server reports: {cause}"
        is_from_sdk = hasattr(cause, "code")  # with the code `_CLOSED`: the connection ended
        kind = "the connection ended" if is_from_sdk else type(cause).__name__
        at_address = f" at {where}" if isinstance(where, str) else ""
        return f"{kind}{at_address}: {cause}{last_words}"


class _Connection:
    """One session with the server."""

    def __init__(self, pool: Pool) -> None:
        self.client: Client
        self.tools: dict[str, Any] = {}
        self.sampling: Sampling | None = None
        self.ended = False
        self.last_words = ""  # the end of a command's standard error, for a message
        # The task of a session refers to this connection. With a weak reference to the pool, the task
        # does not keep the pool alive: a pool that is no longer used ends its loop, and the task.
        self._pool = weakref.proxy(pool)
        self._stack = ExitStack()

    def open(self, protocol: str) -> None:
        """Start the server or reach it, and shake hands."""
        self.client = self._stack.enter_context(self._pool.loop.held(self._session(protocol)))

    def close(self) -> None:
        """Leave the session; a started server ends."""
        self.ended = True
        with suppress(Exception):  # it may have ended by an error
            self._stack.close()

    @asynccontextmanager
    async def _session(self, protocol: str) -> AsyncIterator[Client]:
        """Hold a session with the server within the block, its tools listed in `tools`; at its end
        `last_words` are set.
        """
        # A started server writes its errors to this file. It cannot use this process's standard
        # error, which is not a file in Jupyter.
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(self._pool.timeout_s):
                        unconnected = await self._client(protocol, stack, errors)
                        client = await stack.enter_async_context(unconnected)
                        self.tools = await _tools_of(client)
                    yield client
            finally:
                errors.seek(0)
                self.last_words = _last_words(errors.read())

    async def _client(self, protocol: str, stack: AsyncExitStack, errors: Any) -> Client:
        """Return a client of the MCP SDK, which is not connected yet.

        For a command, the client will start the server; the server's standard error goes to the file
        `errors`. For an address, the client uses HTTP connections, which are closed with `stack`.
        """
        from mcp import Client, StdioServerParameters, stdio_client

        pool = self._pool
        # In a round the server asks for a model's reply. One round more than allowed: `Sampling` then
        # refuses the first request too many, with a message of ours, before the SDK gives up.
        max_rounds = pool.max_samplings + 1
        options: dict[str, Any] = {"mode": protocol, "input_required_max_rounds": max_rounds}
        if pool.samples:
            options["sampling_callback"] = self._sample
        if isinstance(pool.where, list):
            command, *args = pool.where
            parameters = StdioServerParameters(command=command, args=args, env=dict(pool.env))
            return Client(stdio_client(parameters, errlog=errors), **options)
        from mcp.client.streamable_http import streamable_http_client

        http = await stack.enter_async_context(_http_client(pool))
        return Client(streamable_http_client(pool.where, http_client=http), **options)

    async def _sample(self, context: Any, params: Any) -> Any:
        """Answer a tool's request for a language model's text; if no call of a tool is at work, the
        answer is an error.
        """
        from mcp.types import ErrorData

        if self.sampling is None:
            return ErrorData(
                code=-1, message="ragbench: no tool call is on its way that this could belong to"
            )
        return await self.sampling.answer(params)


def _http_client(pool: Pool) -> Any:
    """Return the HTTP client for a server's address, with its headers and bounds on replies."""
    import httpx2

    bounds = Bounds(pool.name, same_host=True).async_options()
    headers = {**pool.headers, "accept-encoding": "gzip"}
    timeout = httpx2.Timeout(30.0, read=pool.timeout_s + 30.0)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, **bounds)


def _first_cause(exc: BaseException) -> BaseException:
    """Return the first exception inside groups of exceptions: a person can act on it."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


async def _tools_of(client: Client) -> dict[str, Any]:
    """Return the tools that a server lists on one or more pages: name -> schema of the arguments."""
    tools: dict[str, Any] = {}
    cursor: str | None = None  # of the next page; None: the first one
    while True:
        page = await client.list_tools(cursor=cursor)
        tools |= {tool.name: tool.input_schema for tool in page.tools}
        if not page.next_cursor:
            return tools
        cursor = page.next_cursor


def _last_words(errors: str) -> str:
    """Return the end of a message with the last line of a server's standard error; "" if it wrote
    none.
    """
    lines = errors[-4000:].rstrip().splitlines()
    return f"; its last error line: {lines[-1].strip()[:300]}" if lines else ""


def content_of(result: CallToolResult, secrets: tuple[str, ...]) -> Any:
    """Return the structured result of a call, else the JSON of its text, else its text.

    Raises:
        RefusalError: the tool reports that it failed.
    """
    blocks = [block.text for block in result.content if block.type == "text"]
    text = "\n".join(blocks)
    if result.is_error:
        raise RefusalError(scrubbed(f"the tool failed: {text or 'it does not say why'}", secrets))
    content: Any = result.structured_content
    if content is None:
        content = _json_of(blocks)
    if content is None:
        return text
    # Frameworks wrap results that are not objects.
    is_wrapped = isinstance(content, dict) and content.keys() == {"result"}
    return content["result"] if is_wrapped else content


def _json_of(blocks: list[str]) -> dict[str, Any] | list[Any] | None:
    """Return the object or list in the texts of a result; None if they hold neither.

    Older servers give a list as one text for each of its entries.
    """
    try:
        entries = [json.loads(block) for block in blocks]
    except (ValueError, RecursionError):
        return None
    content = entries[0] if len(entries) == 1 else entries
    return content if isinstance(content, dict | list) else None
