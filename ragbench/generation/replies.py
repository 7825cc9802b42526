"""A model's reply -> Answer: its citations as chunk ids, and whether it answers at all."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.errors import FailureKind
from ragbench.metrics.groundedness.citations import parse_citations
from ragbench.prompts import read_outcome, without_thoughts
from ragbench.types import Answer, Chunk, Completion


def read_reply(query_id: str, completion: Completion, contexts: Sequence[Chunk], cut: tuple[str, ...] = ()) -> Answer:
    """The answer that a completion holds.

    A failed request and an empty reply have the outcome "failed" and say why; a provider's refusal is "blocked". A
    reply that was cut at max_tokens has the flag "truncated". A cached reply has no latency: nobody waited for it.
    """
    ids = tuple(chunk.chunk_id for chunk in contexts)
    text = without_thoughts(completion.text)
    error, failure = completion.error, completion.failure
    if error is None and not text and completion.finish != "refusal":
        thought = " after thinking" if completion.text.strip() else ""
        error = f"{completion.model} replied with nothing{thought} (finish: {completion.finish})"
        failure = FailureKind.EMPTY
    if error is not None:
        return Answer(query_id, "", ids, outcome="failed", usage=completion, error=error, cut=cut, failure=failure)
    outcome = "blocked" if completion.finish == "refusal" else read_outcome(text)
    return Answer(
        query_id,
        text,
        ids,
        citations=parse_citations(text, ids) if outcome == "success" else (),
        flags=("truncated",) if completion.finish == "length" else (),
        outcome=outcome,
        usage=completion,
        latency_ms={} if completion.cached else {"generate": completion.latency_s * 1000},
        cut=cut,
    )
