"""The client's side of MCP sampling: a server asks for completions, a ragbench model gives them, within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragbench.types import LLM, Completion

if TYPE_CHECKING:
    from mcp.types import CreateMessageRequestParams, CreateMessageResult, ErrorData

REFUSED = "sampling_refused"
"""The flag of an answer whose system asked for more completions than it may have."""

_REJECTED = -1  # the code of the specification's own example of a refusal
_INVALID, _INTERNAL = -32602, -32603
_STOPS = {"stop": "endTurn", "length": "maxTokens", "refusal": "refusal"}


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
    max_requests: int
    max_tokens: int
    max_at_once: int

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
        if sampled.asked > self.max_requests:
            return f"more than {self.max_requests} sampling requests in one call (max_samplings)"
        if params.max_tokens > self.max_tokens:
            return f"{params.max_tokens} tokens asked for, and {self.max_tokens} allowed (max_sampling_tokens)"
        if sampled.at_once >= self.max_at_once:
            return f"more than {self.max_at_once} sampling requests at once (max_samplings_at_once)"
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
