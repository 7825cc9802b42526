"""Connections to an MCP server: opened when needed, entered and left by one task each, replaced when they end.

A server may ask for completions (sampling): a model of ragbench gives them, within limits.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ragbench.errors import ConfigError, FailureKind, unknown
from ragbench.llms.failures import scrubbed
from ragbench.network import Bounds, OutOfBoundsError
from ragbench.systems.credentials import (
    HeaderVariables,
    LiteralHeaders,
    Scrubber,
    check_server,
    check_template,
    from_environment,
    scrubbed_json,
    secret_headers,
    secret_variables,
)
from ragbench.systems.reply_paths import ReplyPaths
from ragbench.types import LLM, Completion

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, CreateMessageRequestParams, CreateMessageResult, ErrorData

REFUSED = "sampling_refused"
"""The flag of an answer whose system asked for more completions than it may have."""

_REJECTED = -1  # the code of the specification's own example of a refusal
_INVALID, _INTERNAL = -32602, -32603
_STOPS = {"stop": "endTurn", "length": "maxTokens", "refusal": "refusal"}

_CLOSED = -32000  # the SDK's code of a connection that ended
_UNSUPPORTED_VERSION = -32022
_SAME_REASON_S = 10.0
_OLD = (
    "the server speaks only the old HTTP+SSE transport of MCP; name the address of its streamable HTTP (it often ends "
    "in /mcp), or start it by a command (stdio)"
)
_LONGEST_CLOSE_S = 10.0


class McpSpec(BaseModel):
    """The table [mcp] of a system's file; see `McpSystem` for what the entries mean."""

    model_config = ConfigDict(extra="forbid")
    server: str | list[str]
    tool: str = Field(min_length=1)
    name: str = ""
    arguments: Annotated[dict[str, Any], AfterValidator(check_template)] = {"query": "{query}"}
    sampling: str = ""
    reply: ReplyPaths = Field(default_factory=ReplyPaths)
    headers: LiteralHeaders = {}
    headers_env: HeaderVariables = {}
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
        check_server(server)
        return server

    @model_validator(mode="after")
    def _asks(self) -> McpSpec:
        if isinstance(self.server, list) and (self.headers or self.headers_env):
            raise ValueError("headers belong to an address; a command gets the variables that env names")
        return self


@dataclass
class Sampled:
    """What one tool call asked for: the completions that it got, and why others were refused."""

    completions: list[Completion] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    asked: int = 0
    at_once: int = 0

    def usage(self, model: str) -> Completion | None:
        """All completions as one: tokens and seconds summed, cached where all of them were; None without any."""
        if not self.completions:
            return None
        return Completion(
            self.completions[-1].text,
            model,
            sum(one.input_tokens for one in self.completions),
            sum(one.output_tokens for one in self.completions),
            sum(one.latency_s for one in self.completions),
            all(one.cached for one in self.completions),
            self.completions[-1].finish,
        )


@dataclass(frozen=True)
class Sampler:
    """A model, and how much of it one tool call may use."""

    llm: LLM
    limits: McpSpec

    async def answer(self, sampled: Sampled, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """The model's completion, or an MCP error that gives the reason for its absence."""
        from anyio import to_thread
        from mcp.types import CreateMessageResult, ErrorData, TextContent

        sampled.asked += 1
        refusal = self._refusal(sampled, params)
        prompt = "" if refusal else _prompt(params)
        if not refusal and prompt is None:
            refusal = "only texts can be sampled from, and this request holds something else"
        if refusal:
            sampled.refused.append(refusal)
            return ErrorData(code=_REJECTED if prompt is not None else _INVALID, message=f"ragbench: {refusal}")
        sampled.at_once += 1
        try:
            reply = await to_thread.run_sync(
                lambda: self.llm.generate(
                    prompt or "",
                    system=params.system_prompt,
                    max_tokens=params.max_tokens,
                    temperature=params.temperature or 0.0,
                ),
                abandon_on_cancel=True,
            )
        except Exception as exc:  # the server gets an error for any exception of a user's model
            sampled.refused.append(f"{self.llm.name}: {exc}")
            return ErrorData(code=_INTERNAL, message=f"{self.llm.name}: {exc}")
        finally:
            sampled.at_once -= 1
        if reply.error is not None:
            sampled.refused.append(reply.error)
            return ErrorData(code=_INTERNAL, message=reply.error)
        sampled.completions.append(reply)
        text, stopped = _stopped(reply.text, params.stop_sequences or ())
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=text),
            model=reply.model,
            stop_reason="stopSequence" if stopped else _STOPS.get(reply.finish, reply.finish),
        )

    def _refusal(self, sampled: Sampled, params: CreateMessageRequestParams) -> str:
        limits = self.limits
        if sampled.asked > limits.max_samplings:
            return f"more than {limits.max_samplings} sampling requests in one call (max_samplings)"
        if params.max_tokens > limits.max_sampling_tokens:
            allowed = limits.max_sampling_tokens
            return f"{params.max_tokens} tokens asked for, and {allowed} allowed (max_sampling_tokens)"
        if sampled.at_once >= limits.max_samplings_at_once:
            return f"more than {limits.max_samplings_at_once} sampling requests at once (max_samplings_at_once)"
        if params.tools:
            return "the model that answers cannot use tools"
        return ""


def _prompt(params: CreateMessageRequestParams) -> str | None:
    """The conversation as one prompt; None where it holds anything but text. One message is its text alone."""
    turns = []
    for message in params.messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [getattr(block, "text", None) for block in blocks]
        if not all(isinstance(text, str) for text in texts):
            return None
        turns.append((message.role, "\n".join(filter(None, texts))))
    if len(turns) == 1:
        return turns[0][1]
    return "\n\n".join(f"{role.capitalize()}: {text}" for role, text in turns)


def _stopped(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text up to the first of the stop sequences."""
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


class Unreached(Exception):  # noqa: N818 - an outcome that becomes a failed answer or a ConfigError
    """The server could not be started or reached."""

    kind = FailureKind.UNREACHABLE


class ToolError(Exception):
    """The server was reached, and the call gave no result; `done`: it may have done the work all the same."""

    def __init__(self, message: str, *, done: bool = False, kind: FailureKind = FailureKind.ERROR) -> None:
        super().__init__(message)
        self.done, self.kind = done, kind


class Pool:
    """Connections to one server; lives on one event loop."""

    def __init__(self, spec: McpSpec, sampler: Sampler | None, name: str) -> None:
        templates = {"server": spec.server, "headers": spec.headers, "arguments": spec.arguments}
        filled, in_templates = from_environment(templates, name)
        self._spec, self._sampler = spec.model_copy(update=filled), sampler
        self.arguments: Mapping[str, Any] = filled["arguments"]
        self._secret, in_headers = secret_headers(spec.headers_env, (), name)
        missing = [variable for variable in spec.env if variable not in os.environ]
        if missing:
            raise ConfigError(f"{name}: set {' and '.join(missing)} in the environment; env names them")
        self._secrets = (*in_templates, *in_headers, *secret_variables(spec.env))
        self._scrubber = Scrubber(self._secrets)
        self._scrubber.start()
        self.model = sampler.llm.name if sampler else ""
        most = spec.connections or (1 if isinstance(spec.server, list) else 8)
        self._places = asyncio.Semaphore(most) if sampler or spec.connections else None
        self._opening = asyncio.Lock()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._unreached: tuple[float, str] = (-_SAME_REASON_S, "")

    async def tools(self) -> dict[str, Any]:
        """The server's tools, name -> the schema of its arguments."""
        return (await self._connection(for_itself=False)).tools

    async def call(self, tool: str, arguments: dict[str, Any], sampled: Sampled) -> tuple[Any, float]:
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
        self._scrubber.stop()

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
                message = f"no handshake within {self._spec.start_timeout_s:g} s{connection.last_error_line()}"
                raise Unreached(scrubbed(message, self._secrets)) from None
            except Exception as exc:
                await connection.close()
                leaf = _leaf(exc)
                if number < len(protocols) and getattr(leaf, "code", None) == _UNSUPPORTED_VERSION:
                    continue
                raise Unreached(_OLD if await self._is_old() else self._worded(leaf, connection)) from None
            self._open = {one for one in self._open if not one.ended} | {connection}
            return connection
        raise AssertionError("unreachable")

    async def _is_old(self) -> bool:
        """Whether the address opens a stream with the event "endpoint", as servers did before streamable HTTP."""
        if isinstance(self._spec.server, str):
            import httpx2

            options = Bounds(self._spec.name).options(is_async=True)
            headers = {**self._spec.headers, **self._secret, "accept": "text/event-stream"}
            with suppress(Exception):  # then it is something else, which has its own message
                async with (
                    asyncio.timeout(5),
                    httpx2.AsyncClient(**options) as http,
                    http.stream("GET", self._spec.server, headers=headers) as reply,
                ):
                    return str(await anext(reply.aiter_lines())).replace(" ", "") == "event:endpoint"
        return False

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
            late = f"no result within {self._spec.timeout_s:g} s; raise timeout_s or ask for less"
            raise ToolError(late, done=True, kind=FailureKind.TIMEOUT) from None
        except Exception as exc:
            leaf = _leaf(exc)
            lost = getattr(leaf, "code", _CLOSED) == _CLOSED
            if lost:
                await connection.close()  # the next call gets a new one
            raise ToolError(self._worded(leaf, connection), done=lost) from None
        took = time.perf_counter() - start
        try:
            return scrubbed_json(_result(result), self._secrets), took
        except ToolError as exc:
            raise ToolError(scrubbed(str(exc), self._secrets)) from None

    def _worded(self, exc: BaseException, connection: Connection) -> str:
        if isinstance(exc, FileNotFoundError) and isinstance(self._spec.server, list):
            return f"there is no command {self._spec.server[0]!r}; check server"
        code = getattr(exc, "code", None)
        if isinstance(exc, OutOfBoundsError):
            message = str(exc)
        elif code is not None and code != _CLOSED:
            message = f"the server reports: {exc}"
        else:
            where = f" at {self._spec.server}" if isinstance(self._spec.server, str) else ""
            kind = "the connection ended" if code == _CLOSED else type(exc).__name__
            message = f"{kind}{where}: {exc}{connection.last_error_line()}"
        return scrubbed(message, self._secrets)


class Connection:
    """One session with the server, entered and left by one task, as the SDK's cancel scopes want it."""

    def __init__(self, spec: McpSpec, protocol: str, sampler: Sampler | None, headers: Mapping[str, str]) -> None:
        self.client: Client
        self.tools: dict[str, Any] = {}
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

    def last_error_line(self) -> str:
        """The last line that a started server wrote to its standard error, for a message."""
        return f"; its last error line: {self._last_words}" if self._read_errors() else ""

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._prepared(stack))
                listed = await client.list_tools()
                self.tools = {tool.name: tool.input_schema for tool in listed.tools}
                while listed.next_cursor:
                    listed = await client.list_tools(cursor=listed.next_cursor)
                    self.tools |= {tool.name: tool.input_schema for tool in listed.tools}
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
            # Not this process's standard error, which is not a file in Jupyter. The last line explains an end.
            self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
            variables = {name: os.environ[name] for name in self._spec.env}
            parameters = StdioServerParameters(
                command=server[0], args=server[1:], env=variables, cwd=self._spec.cwd or None
            )
            return Client(stdio_client(parameters, errlog=self._errors), **options)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(30.0, read=self._spec.timeout_s + 30.0)
        bounds = Bounds(self._spec.name or server.partition("?")[0], same_host=True)
        headers = {**self._headers, "accept-encoding": "gzip"}
        options_of_client = {**bounds.options(is_async=True), "headers": headers, "timeout": timeout}
        http = await stack.enter_async_context(httpx2.AsyncClient(**options_of_client))
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


def _resource(block: Any) -> dict[str, str]:
    """An embedded resource, or a link to one, as a context."""
    if block.type == "resource":
        return {"id": str(block.resource.uri), "text": getattr(block.resource, "text", "")}
    return {"id": str(block.uri), "text": block.description or block.title or ""}


def _result(result: CallToolResult) -> Any:
    """The structured result of a call, else the JSON of its text, else its text; ToolError where the tool failed."""
    blocks = [block.text for block in result.content if block.type == "text"]
    text = "\n".join(blocks)
    if result.is_error:
        raise ToolError(f"the tool failed: {text or 'it does not say why'}")
    found = result.structured_content
    resources = [_resource(block) for block in result.content if block.type in ("resource", "resource_link")]
    if found is None and resources:
        return {"answer": text, "contexts": resources} if text else resources
    if found is None:
        with suppress(ValueError, RecursionError):
            # Older servers give a list as one block for each of its entries.
            found = json.loads(text) if len(blocks) < 2 else [json.loads(block) for block in blocks]
        if not isinstance(found, dict | list) or (len(blocks) > 1 and not all(isinstance(one, dict) for one in found)):
            return text
    # Frameworks wrap results that are not objects.
    return found["result"] if isinstance(found, dict) and found.keys() == {"result"} else found
