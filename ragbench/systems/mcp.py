"""A system reached by the Model Context Protocol: one tool call per question, by stdio or streamable HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

from ragbench.errors import ConfigError, require
from ragbench.llms import load_llm
from ragbench.systems.connections import REFUSED, McpSpec, Pool, Sampled, Sampler, ToolError, Unreached
from ragbench.systems.credentials import checked
from ragbench.systems.function import EventLoop, failed
from ragbench.systems.reply_paths import PathMatches, Replies, ReplyPaths, filled, names_in, question_values, read_reply
from ragbench.types import Answer, LLMLike

_LONGEST_CLOSE_S = 10.0


class McpOptions(TypedDict, total=False):
    """The keyword arguments of `McpSystem`, for editors and type checkers; `McpSpec` checks their values."""

    name: str
    arguments: Mapping[str, Any]
    reply: Mapping[str, Any] | ReplyPaths
    headers: Mapping[str, str]
    headers_env: Mapping[str, str]
    env: Sequence[str]
    cwd: str
    protocol: Literal["", "legacy", "auto"]
    timeout_s: float
    start_timeout_s: float
    connections: int | None
    max_samplings: int
    max_sampling_tokens: int
    max_samplings_at_once: int


class McpSystem:
    """A RAG system that is a tool of an MCP server.

    Args:
        server: an address ("http://localhost:8000/mcp": streamable HTTP), or a command with its arguments (a list, or
            one text), which is started and spoken to over stdio.
        tool: the tool that answers a question. One that only finds passages will do: its answers have no text, carry
            the flag "retrieval_only", and count for retrieval alone.
        arguments: of the tool, with "{query}" and "{query_id}" in the places of the question's text and id, and
            "{user_roles}" in that of the case's roles: a list, or in a longer text "a,b". In them, in headers and in
            server "{env:MY_TOKEN}" becomes what that variable of the environment holds; a secret that is written out is
            refused.
        sampling: who answers the server's *sampling* requests, so that this model is the one that is compared: a name
            for `load_llm`, or an `LLM`. Each request is sent on with its system prompt, max_tokens and temperature (0
            where it gives none); a conversation of several messages becomes one prompt; stop sequences cut the reply.
            The tokens of all requests of a call are summed in `usage`. None: sampling is not offered to the server.
        reply: JSONPath of each part of the answer in the tool's structured result (or in the JSON of its text), see
            `ReplyPaths`. Left out, it is read by the usual names; a list is contexts, a plain text is the answer.
        headers, headers_env: for an address, as in `HttpSystem`.
        env: names of variables that a command gets in addition to PATH, HOME and the like; `cwd` is where it starts.
            The value of one named like a secret (MY_TOKEN, MY_KEY) becomes *** where the server echoes it.
        protocol: "legacy" (the handshake, in which a tool can ask for samples whenever it likes), "auto" (the newest
            that both speak), or "": the first, where the server does not know it the second.
        timeout_s: seconds for a call; `start_timeout_s` for the server to start and shake hands.
        connections: calls on their way at once. With `sampling` each call has a connection of its own, so that tokens
            and limits belong to it: 8 to an address, 1 to a command (each is a process). Without, all share one.
        max_samplings, max_samplings_at_once: requests that one call may make, and have open; max_sampling_tokens: the
            max_tokens of each. More is refused with an MCP error; the answer then has the flag "sampling_refused".

    The server is reached at the first question and again after it died. `latency_ms` has "total" (but not where a
    completion came from the reply store) and "sampling". What fails is a failed answer with the reason,
    and the last line that a command wrote to its standard error. Threads may share it. `close`, the end of a `with`
    block, or the end of its use ends the connections and the process. `name` is the tool and the model that samples
    unless given.
    """

    def __init__(
        self, server: str | Sequence[str], *, tool: str, sampling: LLMLike | None = None, **options: Unpack[McpOptions]
    ) -> None:
        given = {key: value for key, value in options.items() if value is not None}
        spec = checked(McpSpec, {"server": server, "tool": tool, **given}, "McpSystem")
        if "query" not in names_in(spec.arguments):
            raise ConfigError('McpSystem: the question is sent nowhere; write arguments = {query = "{query}"}')
        require("mcp.client", "mcp")
        llm = load_llm(sampling) if sampling else None
        sampler = None if llm is None else Sampler(llm, spec)
        self.name = spec.name or f"{tool}{f' with {sampler.llm.name}' if sampler else ''}"
        self._spec = spec
        self._matches = PathMatches(self.name, spec.reply)
        self._pool = Pool(spec, sampler, self.name)
        self._loop = EventLoop(self.name)

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
        return list(self.schemas())

    def schemas(self) -> dict[str, Any]:
        """The JSON schema of the arguments of each tool, by its name; ConfigError where it cannot be reached."""
        try:
            return self._loop.run(self._pool.tools())
        except Unreached as exc:
            raise ConfigError(f"{self.name}: {exc}") from exc

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call any tool of the server once: its result as JSON, or its text. Raises ToolError."""
        return self._loop.run(self._pool.call(tool, dict(arguments), Sampled()))[0]

    def reply(self, query: str) -> Replies:
        """The tool's result for one question, before any path is applied. Raises ToolError."""
        return Replies([self.call(self._spec.tool, filled(self._pool.arguments, question_values("probe", query, ())))])

    def check_replies(self, *, ended: bool) -> None:
        """Raise ConfigError where a path of `reply` has matched in no reply so far; see `PathMatches`."""
        self._matches.check(ended=ended)

    def answer(self, query_id: str, query: str, *, user_roles: Sequence[str] = ()) -> Answer:
        """What the tool answers; a failed answer where it does not."""
        arguments = filled(self._pool.arguments, question_values(query_id, query, user_roles))
        sampled = Sampled()
        try:
            reply, total = self._loop.run(self._pool.call(self._spec.tool, arguments, sampled))
        except (Unreached, ToolError) as exc:
            reason = f" ({sampled.refused[0]})" if sampled.refused else ""
            return self._with_usage(failed(query_id, f"{self.name}: {exc}{reason}", exc.kind), sampled)
        except RuntimeError:
            return failed(query_id, f"{self.name} was closed")
        answer = self._matches.read(query_id, lambda: self._record(reply))
        if not any(completion.cached for completion in sampled.completions):
            answer = replace(answer, latency_ms={"total": 1000 * total, **answer.latency_ms})
        return self._with_usage(answer, sampled)

    def _record(self, reply: Any) -> Mapping[str, Any]:
        self._matches.see([reply])
        return read_reply(reply, self._spec.reply)

    def _with_usage(self, answer: Answer, sampled: Sampled) -> Answer:
        usage = sampled.usage(self._pool.model)
        if usage is not None:
            latency = dict(answer.latency_ms)
            if not any(completion.cached for completion in sampled.completions):
                latency["sampling"] = 1000 * usage.latency_s
            answer = replace(answer, usage=usage, latency_ms=latency)
        return replace(answer, flags=(*answer.flags, REFUSED)) if sampled.refused else answer
