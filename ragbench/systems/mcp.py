"""A system reached by the Model Context Protocol: its options, and one tool call per question;
`mcp_connections` has stdio, HTTP and the text of a result.
"""

import os
import shlex
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Self, Unpack

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    SkipValidation,
    field_validator,
    model_validator,
)

from ragbench.errors import ConfigError, SystemsError, require
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.llms import load_llm
from ragbench.llms.failures import is_secret
from ragbench.systems.credentials import (
    FlatTemplate,
    Scrubber,
    Template,
    check_address,
    check_set,
    check_template,
    checked_options,
    from_environment,
)
from ragbench.systems.function import Asker
from ragbench.systems.mcp_connections import Pool
from ragbench.systems.model_requests import REFUSED, Sampling
from ragbench.systems.reply_paths import Paths, RemoteSystem, ReplyPaths, SystemReply
from ragbench.systems.templates import check_names, fill, question_values
from ragbench.types import Answer, LLMLike


@checked_options
@suggesting()
class McpSystem(RemoteSystem, metaclass=Suggesting):
    """A RAG system that is a tool of an MCP server.

    Args:
        server: an address ("http://localhost:8000/mcp": streamable HTTP), or a command with its
            arguments (a list, or one text), which is started and used over stdio.
        tool: the tool that answers a question. If a tool only finds passages, its answers have no
            text, carry the flag "retrieval_only", and count for retrieval alone.
        arguments: arguments of the tool. In their texts, "{query}" and "{query_id}" are replaced by
            the question's text and id, "{user_roles}" by the case's roles (a list, or "a,b" in a
            longer text), and "{history}" by the earlier messages. In them, in headers and in
            `server`, "{env:MY_TOKEN}" is replaced by this variable of the environment; a secret that
            is written out is refused.
        sampling: the model that answers the server's *sampling* requests, so that this model is
            evaluated: a name for `load_llm`, or an `LLM`. Each request is sent on with its system
            prompt, max_tokens and temperature (0 if it has none); a conversation of several messages
            becomes one prompt; stop sequences cut the reply. The tokens of all requests of a call
            are summed in `usage`. None: sampling is not offered to the server.
        max_samplings: requests that a call may make. Further ones are refused with an MCP error; the
            answer then has the flag "sampling_refused".
        reply: the path of each part of the answer in the tool's structured result (or in the JSON of
            its text), see `ReplyPaths`. By default, the result is read by the usual names; a list is
            contexts, a plain text is the answer.
        headers: for an address.
        env: names of variables that a command gets in addition to PATH, HOME and the like. The value
            of a variable named like a secret (MY_TOKEN, MY_KEY) is masked as *** if the server
            echoes it.
        timeout_s: seconds for a call, and for the server to start and shake hands.
        name: the name of the system; default: the tool and the model that samples.

    The server is reached at the first question and again after it died. With `sampling` each call
    has a separate connection: up to 8 to an address, one to a command (each is a process).
    `latency_ms` has "total" (but not where a completion came from the reply store) and "sampling".
    What fails is a failed answer with the reason, and the last line that a command wrote to its
    standard error. Threads may share a system. `close`, the end of a `with` block, or the end of
    its use ends the connections and the process.
    """

    server: str | Sequence[str] = field(kw_only=False)
    tool: Annotated[str, Field(min_length=1)]
    arguments: Template = Field(default_factory=lambda: {"query": "{query}"})
    sampling: Annotated[LLMLike | None, SkipValidation] = None
    max_samplings: PositiveInt = 20
    reply: Paths = Field(default_factory=ReplyPaths)
    headers: FlatTemplate = Field(default_factory=dict)
    env: Sequence[str] = ()
    timeout_s: PositiveFloat = 120.0
    name: str = ""

    @field_validator("server")
    @classmethod
    def _check_server(cls, server: str | Sequence[str]) -> str | Sequence[str]:
        """Return an address as it is, and a command as a list of its words; ValueError if it is
        neither, or holds a secret.
        """
        if isinstance(server, str) and server.startswith(("http://", "https://")):
            return check_address(server)
        command = shlex.split(server) if isinstance(server, str) else list(server)
        if not command or not command[0].strip():
            raise ValueError(
                'expected a command such as ["python", "server.py"] or an address such as '
                "http://host/mcp"
            )
        check_template(command)
        return command

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if not isinstance(self.server, str) and self.headers:
            raise ValueError(
                "headers belong to an address; a command gets the variables that env names"
            )
        check_names(self.arguments, (), 'arguments = {query = "{query}"}')
        return self

    def __post_init__(self) -> None:
        """Load the model, fill in the variables of the environment, and prepare the connections; the
        server is reached at the first question.

        Raises:
            ConfigError: a variable of the environment is not set, or the model is unknown.
        """
        require("mcp.client", "mcp")
        self._llm = load_llm(self.sampling) if self.sampling else None
        if not self.name:
            self.name = f"{self.tool} with {self._llm.name}" if self._llm else self.tool
        check_set(self.env, self.name)
        templates = {"server": self.server, "headers": self.headers, "arguments": self.arguments}
        filled, secrets_in_templates = from_environment(templates, self.name)
        variables = {variable: os.environ[variable] for variable in self.env}
        secret_values = [
            value.strip() for variable, value in variables.items() if is_secret(variable, value)
        ]
        self.secrets = (*secrets_in_templates, *secret_values)
        self._arguments = filled["arguments"]
        self._pool = Pool(
            self.name,
            filled["server"],
            filled["headers"],
            variables,
            self.secrets,
            self.timeout_s,
            self.max_samplings,
            samples=self._llm is not None,
        )
        # secrets are masked in logs until the system is closed or no longer used
        self._finalizer = weakref.finalize(self, Scrubber(self.secrets).stop)

    def close(self) -> None:
        """End the connections, and the server if it was started from here."""
        self._pool.loop.close()
        self._finalizer()

    def tools(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments of each tool, by its name; ConfigError if there
        is no server.
        """
        try:
            return self._pool.tools()
        except SystemsError as exc:
            raise ConfigError(f"{self.name}: {exc}") from exc

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Call any tool of the server once: its result as JSON, or its text.

        Raises:
            RefusalError: the tool reports that it failed.
            SystemsError: there is no result for another reason.
        """
        return self._pool.call(tool, dict(arguments), self._sampling())[0]

    def ask_raw(self, query: str) -> SystemReply:
        """Return the tool's result for a question, before any path is applied; raises SystemsError."""
        return SystemReply(
            [self.call(self.tool, fill(self._arguments, question_values("probe", query)))]
        )

    def answer(self, query_id: str, query: str, **options: Unpack[Asker]) -> Answer:
        """Return the tool's answer; a failed answer if it sends none.

        During the call the server may ask for completions of a model, which MCP calls sampling. Their
        tokens and time are in `usage` and `latency_ms`; if some were refused, the answer has a flag.
        """
        arguments = fill(self._arguments, question_values(query_id, query, **options))
        sampling = self._sampling()

        def ask() -> SystemReply:
            result, seconds = self._pool.call(self.tool, arguments, sampling)
            # with a completion from the reply store the call took less time than a user would wait
            is_timed = sampling is None or not sampling.any_from_store
            return SystemReply([result], latency_ms={"total": 1000 * seconds} if is_timed else {})

        answer = self.read(query_id, ask)
        return answer if sampling is None else _with_use_of_model(answer, sampling)

    def _sampling(self) -> Sampling | None:
        """Return what answers the requests for samples of one call; None if none are offered."""
        return Sampling(self._llm, self.max_samplings) if self._llm else None


def _with_use_of_model(answer: Answer, sampling: Sampling) -> Answer:
    """Return an answer with the tokens and the time of the completions that its tool asked for, and
    with a flag if some were refused.
    """
    usage = sampling.usage()
    if usage is not None:
        latency_ms = dict(answer.latency_ms)
        if not sampling.any_from_store:
            latency_ms["sampling"] = 1000 * usage.latency_s
        answer = replace(answer, usage=usage, latency_ms=latency_ms)
    if sampling.refusals:
        error = answer.error
        if error:
            error = f"{error} ({sampling.refusals[0]})"
        answer = replace(answer, flags=(*answer.flags, REFUSED), error=error)
    return answer
