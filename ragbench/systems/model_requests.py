"""Completions of a model of ragbench for an MCP server that asks for them in the middle of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragbench.types import LLM, Completion

if TYPE_CHECKING:
    from mcp.types import CreateMessageRequestParams, CreateMessageResult, ErrorData

REFUSED = "sampling_refused"
"""The flag of an answer whose system asked for completions that it did not get."""

_STOPS = {"stop": "endTurn", "length": "maxTokens", "refusal": "refusal"}


@dataclass
class Sampling:
    """The requests of one tool call to a model: their completions, and why others were refused."""

    llm: LLM
    limit: int
    completions: list[Completion] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    n_requests: int = 0

    async def answer(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Answer one request of the server: return the model's completion, or an MCP error with the
        reason for its absence, which is added to `refusals`.
        """
        from anyio import to_thread
        from mcp.types import CreateMessageResult, ErrorData, TextContent

        def refused(reason: str) -> ErrorData:
            self.refusals.append(reason)
            return ErrorData(code=-1, message=f"ragbench: {reason}")

        self.n_requests += 1
        prompt = _prompt(params)
        if self.n_requests > self.limit:
            return refused(f"more than {self.limit} sampling requests in one call (max_samplings)")
        if prompt is None:
            return refused("only texts can be sampled from, and this request holds something else")
        try:
            reply = await to_thread.run_sync(
                lambda: self.llm.generate(
                    prompt,
                    system=params.system_prompt,
                    max_tokens=params.max_tokens,
                    temperature=params.temperature or 0.0,
                ),
                abandon_on_cancel=True,
            )
        except Exception as exc:  # the server gets an error for any exception of a user's model
            return refused(f"{self.llm.name}: {exc}")
        if reply.error is not None:
            return refused(reply.error)
        self.completions.append(reply)
        end = _first_place(params.stop_sequences or (), reply.text)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=reply.text[:end]),
            model=reply.model,
            stop_reason=_STOPS.get(reply.finish, reply.finish) if end is None else "stopSequence",
        )

    @property
    def any_from_store(self) -> bool:
        """Return True if a completion came from the reply store: its time then tells nothing."""
        return any(completion.cached for completion in self.completions)

    def usage(self) -> Completion | None:
        """Return all completions as one, tokens and seconds summed; None without any."""
        if not self.completions:
            return None
        last = self.completions[-1]
        return Completion(
            last.text,
            self.llm.name,
            input_tokens=sum(completion.input_tokens for completion in self.completions),
            output_tokens=sum(completion.output_tokens for completion in self.completions),
            latency_s=sum(completion.latency_s for completion in self.completions),
            cached=all(completion.cached for completion in self.completions),
            finish=last.finish,
        )


def _first_place(stops: Sequence[str], text: str) -> int | None:
    """Return where the first of some texts begins in another one; None if it holds none of them."""
    places = [text.find(stop) for stop in stops if stop and stop in text]
    return min(places, default=None)


def _prompt(params: CreateMessageRequestParams) -> str | None:
    """Return the conversation as one prompt; None if it holds anything but text. One message is
    its text alone.
    """
    turns = []
    for message in params.messages:
        content = message.content
        blocks = content if isinstance(content, list) else [content]
        texts = [getattr(block, "text", None) for block in blocks]
        if not all(isinstance(text, str) for text in texts):
            return None
        turns.append((message.role, "\n".join(filter(None, texts))))
    if len(turns) == 1:
        [(_, text)] = turns
        return text
    return "\n\n".join(f"{role.capitalize()}: {text}" for role, text in turns)
