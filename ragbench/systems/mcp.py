"""A system reached by the Model Context Protocol: one tool call per question, by stdio or streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ragbench.errors import ConfigError, DataError, require, unknown
from ragbench.llms import load_llm
from ragbench.llms.failures import scrubbed
from ragbench.systems.function import failed
from ragbench.systems.loops import LoopThread
from ragbench.systems.mapping import (
    ReplyPaths,
    check_header_variables,
    check_literal_headers,
    filled,
    mentions,
    secret_headers,
    to_record,
    without_surrogates,
)
from ragbench.systems.reading import mistakes, read_answer
from ragbench.systems.sampling import REFUSED, Sampled, Sampler
from ragbench.types import LLM, Answer

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

_CLOSED = -32000  # the SDK's code of a connection that ended
_UNSUPPORTED_VERSION = -32022
_SAME_REASON_S = 10.0
_LONGEST_CLOSE_S = 10.0


class McpSpec(BaseModel):
    """The table [mcp] of a system's file; see `McpSystem` for what the entries mean."""

    model_config = ConfigDict(extra="forbid")
    server: str | list[str]
    tool: str = Field(min_length=1)
    name: str = ""
    arguments: dict[str, Any] = {"query": "{query}"}
    sampling: str = ""
    reply: ReplyPaths = Field(default_factory=ReplyPaths)
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    env: list[str] = []
    cwd: str = ""
    protocol: Literal["", "legacy", "auto"] = ""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    start_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    connections: Annotated[int, Field(ge=1)] | None = None
    max_samplings: Annotated[int, Field(ge=1)] = 20
    max_sampling_tokens: Annotated[int, Field(ge=1)] = 4096
    max_samplings_at_once: Annotated[int, Field(ge=1)] = 4

    @field_validator("server")
    @classmethod
    def _reached(cls, server: str | list[str]) -> str | list[str]:
        if isinstance(server, str) and not server.startswith(("http://", "https://")):
            server = shlex.split(server)
        if not server or not server[0].strip():
            raise ValueError('expected a command such as ["python", "server.py"] or an address such as http://host/mcp')
        if isinstance(server, str) and "@" in server.split("/")[2]:
            raise ValueError("an address holds no password; put it into the environment and name it in headers_env")
        return server

    @field_validator("headers")
    @classmethod
    def _literal(cls, headers: dict[str, str]) -> dict[str, str]:
        return check_literal_headers(headers)

    @field_validator("headers_env")
    @classmethod
    def _variables(cls, headers: dict[str, str]) -> dict[str, str]:
        return check_header_variables(headers)

    @model_validator(mode="after")
    def _asks(self) -> McpSpec:
        if isinstance(self.server, list) and (self.headers or self.headers_env):
            raise ValueError("headers belong to an address; a command gets the variables that env names")
        return self


class McpSystem:
    """A RAG system that is a tool of an MCP server.

    Args:
        server: an address ("http://localhost:8000/mcp": streamable HTTP), or a command with its arguments (a list, or
            one text), which is started and spoken to over stdio.
        tool: the tool that answers a question. One that only finds passages will do: its answers have no text, carry
            the flag "retrieval_only", and count for retrieval alone.
        arguments: of the tool, with "{query}" and "{query_id}" in the places of the question's text and id.
        sampling: who answers the server's *sampling* requests, so that this model is the one that is compared: a name
            for `load_llm`, or an `LLM`. Each request is sent on with its system prompt, max_tokens and temperature (0
            where it says none); a conversation of several messages becomes one prompt; stop sequences cut the reply.
            The tokens of all requests of a call are summed in `usage`. None: the server is told that there is none.
        reply: JSONPath of each part of the answer in the tool's structured result (or in the JSON of its text), see
            `ReplyPaths`. Left out, it is read by the usual names; a list is contexts, a plain text is the answer.
        headers, headers_env: for an address, as in `HttpSystem`.
        env: names of the variables that a command gets besides PATH, HOME and the like; `cwd` is where it starts.
        protocol: "legacy" (the handshake, in which a tool can ask for samples whenever it likes), "auto" (the newest
            that both speak), or "": the first, where the server does not know it the second.
        timeout_s: seconds for a call; `start_timeout_s` for the server to start and shake hands.
        connections: calls on their way at once. With `sampling` each call has a connection of its own, so that tokens
            and limits belong to it: 8 to an address, 1 to a command (each is a process). Without, all share one.
        max_samplings, max_samplings_at_once: requests that one call may make, and have open; max_sampling_tokens: the
            max_tokens of each. More is refused with an MCP error; the answer then has the flag "sampling_refused".

    The server is reached at the first question and again after it died. `latency_ms` has "total" (but not where a
    completion came from the reply store: nobody waited) and "sampling". What fails is a failed answer with the reason,
    and the last line that a command wrote to its standard error. Threads may share it. `close`, the end of a `with`
    block, or the end of its use ends the connections and the process.
    """

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        sampling: str | LLM | None = None,
        reply: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        headers_env: Mapping[str, str] | None = None,
        env: Sequence[str] = (),
        cwd: str = "",
        protocol: str = "",
        timeout_s: float = 120.0,
        start_timeout_s: float = 60.0,
        connections: int | None = None,
        max_samplings: int = 20,
        max_sampling_tokens: int = 4096,
        max_samplings_at_once: int = 4,
        name: str = "",
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "sampling") and value is not None}
        try:
            spec = McpSpec.model_validate({**given, "env": list(env)})
        except ValidationError as exc:
            raise ConfigError(f"McpSystem: {mistakes(exc)}") from None
        if not mentions(spec.arguments, "query"):
            raise ConfigError('McpSystem: the question is sent nowhere; write arguments = {query = "{query}"}')
        require("mcp.client", "mcp")
        llm = load_llm(sampling) if isinstance(sampling, str) and sampling else sampling or None
        sampler = None
        if llm is not None and not isinstance(llm, str):
            sampler = Sampler(llm, max_samplings, max_sampling_tokens, max_samplings_at_once)
        self._name = name or f"{tool}{f' with {sampler.llm.name}' if sampler else ''}"
        self._spec = spec
        self._pool = Pool(spec, sampler, self._name)
        self._loop = LoopThread(self._name)

    @property
    def name(self) -> str:
        """The tool, and the model that samples; or the name given at construction."""
        return self._name

    def __repr__(self) -> str:
        return f"McpSystem({self.name!r})"

    def __enter__(self) -> McpSystem:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections, and the server where it was started from here."""
        with suppress(RuntimeError, TimeoutError):  # closed already
            self._loop.run(self._pool.close(), _LONGEST_CLOSE_S)
        self._loop.close()

    def tools(self) -> list[str]:
        """The names of the server's tools; ConfigError where it cannot be reached."""
        try:
            return self._loop.run(self._pool.tools())
        except Unreached as exc:
            raise ConfigError(f"{self.name}: {exc}") from exc

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call any tool of the server once: its result as JSON, or its text. Raises ToolError."""
        return self._loop.run(self._pool.call(tool, dict(arguments), Sampled()))

    def answer(self, query_id: str, query: str) -> Answer:
        """What the tool answers; a failed answer where it does not."""
        arguments = filled(self._spec.arguments, {"query": without_surrogates(query), "query_id": query_id})
        sampled = Sampled()
        try:
            reply, total = self._loop.run(self._pool.timed(self._spec.tool, arguments, sampled))
        except (Unreached, ToolError) as exc:
            reason = f" ({sampled.refused[0]})" if sampled.refused else ""
            return self._with_usage(failed(query_id, f"{self.name}: {exc}{reason}"), sampled)
        except RuntimeError:
            return failed(query_id, f"{self.name} was closed")
        try:
            answer = read_answer(query_id, self._record(reply), model=self.name)
        except DataError as exc:
            answer = failed(query_id, f"{self.name}: {exc}")
        if not any(completion.cached for completion in sampled.completions):
            answer = replace(answer, latency_ms={"total": 1000 * total, **answer.latency_ms})
        return self._with_usage(answer, sampled)

    def _record(self, reply: Any) -> dict[str, Any]:
        named = self._spec.reply != ReplyPaths()
        if not named and isinstance(reply, str):
            return {"answer": reply}
        if not named and isinstance(reply, list):
            return {"contexts": reply}
        return to_record(reply, self._spec.reply)

    def _with_usage(self, answer: Answer, sampled: Sampled) -> Answer:
        usage = sampled.usage(self._pool.model)
        if usage is not None:
            latency = dict(answer.latency_ms)
            if not any(completion.cached for completion in sampled.completions):
                latency["sampling"] = 1000 * usage.latency_s
            answer = replace(answer, usage=usage, latency_ms=latency)
        return replace(answer, flags=(*answer.flags, REFUSED)) if sampled.refused else answer


class Unreached(Exception):  # noqa: N818 - an outcome that becomes a failed answer or a ConfigError
    """The server could not be started or reached."""


class ToolError(Exception):
    """The server was reached, and the call gave no result."""


class Pool:
    """Connections to one server; lives on one event loop."""

    def __init__(self, spec: McpSpec, sampler: Sampler | None, name: str) -> None:
        self._spec, self._sampler = spec, sampler
        self._secret, self._secrets = secret_headers(spec.headers_env, name)
        missing = [variable for variable in spec.env if variable not in os.environ]
        if missing:
            raise ConfigError(f"{name}: set {' and '.join(missing)} in the environment; env names them")
        self.model = sampler.llm.name if sampler else ""
        most = spec.connections or (1 if isinstance(spec.server, list) else 8)
        self._places = asyncio.Semaphore(most) if sampler or spec.connections else None
        self._opening = asyncio.Lock()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._unreached: tuple[float, str] = (-_SAME_REASON_S, "")

    async def tools(self) -> list[str]:
        """The names of the server's tools."""
        return (await self._connection(for_itself=False)).tools

    async def call(self, tool: str, arguments: dict[str, Any], sampled: Sampled) -> Any:
        """The result of one call."""
        return (await self.timed(tool, arguments, sampled))[0]

    async def timed(self, tool: str, arguments: dict[str, Any], sampled: Sampled) -> tuple[Any, float]:
        """The result of one call, and the seconds that it took."""
        if self._places is None:
            return await self._call(await self._connection(for_itself=False), tool, arguments, sampled)
        async with self._places:
            connection = await self._connection(for_itself=True)
            try:
                return await self._call(connection, tool, arguments, sampled)
            finally:
                connection.sampled = None
                if not connection.ended:
                    self._idle.append(connection)

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(connection.close() for connection in list(self._open)), return_exceptions=True)

    async def _connection(self, *, for_itself: bool) -> Connection:
        while self._idle:
            connection = self._idle.pop() if for_itself else self._idle[0]
            if not connection.ended:
                return connection
            self._idle = [one for one in self._idle if not one.ended]
        async with self._opening:
            if not for_itself and self._idle:
                return self._idle[0]
            since, reason = self._unreached
            if time.monotonic() - since < _SAME_REASON_S:  # each try may take long: not once more for each question
                raise Unreached(reason)
            try:
                connection = await self._connected()
            except Unreached as exc:
                self._unreached = (time.monotonic(), str(exc))
                raise
            if not for_itself:
                self._idle.append(connection)
            return connection

    async def _connected(self) -> Connection:
        protocols = [self._spec.protocol] if self._spec.protocol else ["legacy", "auto"]
        for number, protocol in enumerate(protocols, 1):
            connection = Connection(self._spec, protocol, self._sampler, {**self._spec.headers, **self._secret})
            try:
                async with asyncio.timeout(self._spec.start_timeout_s):
                    await connection.start()
            except TimeoutError:
                await connection.close()
                raise Unreached(f"no handshake within {self._spec.start_timeout_s:g} s{connection.said()}") from None
            except Exception as exc:
                await connection.close()
                leaf = _leaf(exc)
                if number < len(protocols) and getattr(leaf, "code", None) == _UNSUPPORTED_VERSION:
                    continue
                raise Unreached(self._worded(leaf, connection)) from None
            self._open = {one for one in self._open if not one.ended} | {connection}
            return connection
        raise AssertionError("unreachable")

    async def _call(
        self, connection: Connection, tool: str, arguments: dict[str, Any], sampled: Sampled
    ) -> tuple[Any, float]:
        if tool not in connection.tools:
            raise ToolError(unknown("tool", tool, connection.tools))
        connection.sampled = sampled
        start = time.perf_counter()
        try:
            async with asyncio.timeout(self._spec.timeout_s):
                result = await connection.client.call_tool(tool, arguments)
        except TimeoutError:
            raise ToolError(f"no result within {self._spec.timeout_s:g} s; raise timeout_s or ask for less") from None
        except Exception as exc:
            leaf = _leaf(exc)
            if getattr(leaf, "code", None) == _CLOSED or not hasattr(leaf, "code"):
                await connection.close()  # the next call gets a new one
            raise ToolError(self._worded(leaf, connection)) from None
        return _result(result), time.perf_counter() - start

    def _worded(self, exc: BaseException, connection: Connection) -> str:
        if isinstance(exc, FileNotFoundError) and isinstance(self._spec.server, list):
            return f"there is no command {self._spec.server[0]!r}; check server"
        code = getattr(exc, "code", None)
        if code is not None and code != _CLOSED:
            said = f"the server says: {exc}"
        else:
            where = f" at {self._spec.server}" if isinstance(self._spec.server, str) else ""
            kind = "the connection ended" if code == _CLOSED else type(exc).__name__
            said = f"{kind}{where}: {exc}{connection.said()}"
        return scrubbed(said, self._secrets)


class Connection:
    """One session with the server, entered and left by one task, as the SDK's cancel scopes want it."""

    def __init__(self, spec: McpSpec, protocol: str, sampler: Sampler | None, headers: Mapping[str, str]) -> None:
        self.client: Client
        self.tools: list[str] = []
        self.sampled: Sampled | None = None
        self.ended = False
        self._spec, self._protocol, self._sampler, self._headers = spec, protocol, sampler, headers
        self._closing = asyncio.Event()
        self._errors: IO[str] | None = None
        self._last_words = ""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the server or reach it, and shake hands."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(ready))
        await ready

    async def close(self) -> None:
        """Leave the session; a started server ends."""
        self.ended = True
        self._closing.set()
        if self._task is not None:
            if not self._task.done() and not hasattr(self, "client"):
                self._task.cancel()
            await asyncio.wait([self._task], timeout=_LONGEST_CLOSE_S)

    def said(self) -> str:
        """The last line that a started server wrote to its standard error, for a message."""
        return f"; it said: {self._last_words}" if self._read_errors() else ""

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._prepared(stack))
                listed = await client.list_tools()
                self.tools = [tool.name for tool in listed.tools]
                while listed.next_cursor:
                    listed = await client.list_tools(cursor=listed.next_cursor)
                    self.tools += [tool.name for tool in listed.tools]
                self.client = client
                if not ready.done():
                    ready.set_result(None)
                await self._closing.wait()
        except BaseException as exc:
            if not ready.done():
                ready.set_exception(exc if isinstance(exc, Exception) else RuntimeError("cancelled"))
            if not isinstance(exc, Exception):
                raise
        finally:
            self.ended = True
            self._read_errors()
            if self._errors is not None:
                self._errors.close()

    async def _prepared(self, stack: AsyncExitStack) -> Client:
        from mcp import Client, StdioServerParameters, stdio_client

        options: dict[str, Any] = {"mode": self._protocol, "input_required_max_rounds": self._spec.max_samplings + 1}
        if self._sampler is not None:
            options["sampling_callback"] = self._sample
        server = self._spec.server
        if isinstance(server, list):
            # Not this process's standard error: in Jupyter that is no file, and what was said last explains a death.
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            variables = {name: os.environ[name] for name in self._spec.env}
            parameters = StdioServerParameters(
                command=server[0], args=server[1:], env=variables, cwd=self._spec.cwd or None
            )
            return Client(stdio_client(parameters, errlog=self._errors), **options)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(30.0, read=self._spec.timeout_s + 30.0)
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(self._headers), timeout=timeout))
        return Client(streamable_http_client(server, http_client=http), **options)

    async def _sample(self, context: Any, params: Any) -> Any:
        from mcp.types import ErrorData

        if self._sampler is None or self.sampled is None:
            return ErrorData(code=-1, message="ragbench: no tool call is on its way that this could belong to")
        return await self._sampler.answer(self.sampled, params)

    def _read_errors(self) -> str:
        if self._errors is not None and not self._errors.closed:
            self._errors.flush()
            self._errors.seek(0)
            lines = [line.strip() for line in self._errors.read()[-4000:].splitlines() if line.strip()]
            self._last_words = lines[-1][:300] if lines else ""
        return self._last_words


def _leaf(exc: BaseException) -> BaseException:
    """The first cause inside groups of exceptions, which is what a person can act on."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def _result(result: CallToolResult) -> Any:
    """The structured result of a call, else the JSON of its text, else its text; ToolError where the tool failed."""
    text = "\n".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        raise ToolError(f"the tool failed: {text or 'it does not say why'}")
    found = result.structured_content
    if found is None:
        with suppress(ValueError):
            found = json.loads(text)
        if not isinstance(found, dict | list):
            return text
    # Frameworks wrap what is no object.
    return found["result"] if isinstance(found, dict) and found.keys() == {"result"} else found
