"""A model's reply -> Answer: its citations as chunk ids, and whether it answers at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragbench.prompts import read_outcome, without_thoughts
from ragbench.types import Answer, Chunk, Completion

# Code is no place for citations: `items[0]` and `[1, 2]` are Python there.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CITATION = re.compile(
    r"[\[【]\s*(?:(?:documents?|docs?|sources?|passages?)\s*\.?\s*)?"
    r"(\d{1,3}(?:\s*(?:[,;&]|and|[-–—])\s*(?:(?:document|doc|source|passage)\s*)?\d{1,3})*)\s*(?:†[^\]】]*)?[\]】]",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")


def parse_citations(text: str, contexts: Sequence[str]) -> tuple[str, ...]:
    """The chunk ids that a text cites by their number from 1, each once, in the order of their first citation.

    Read are [1], [1, 2], [1][3], [1-3], [Document 1] and 【1】. A number that no context has is kept as "invalid:7", so
    that made-up citations count. Numbers of four digits and more are years and the like; code between backticks is
    not read.

    >>> parse_citations("Built in 1881 [2], rebuilt later [1, 7].", ["rail#0", "rail#3"])
    ('rail#3', 'rail#0', 'invalid:7')
    """
    cited: dict[str, None] = {}
    for match in _CITATION.finditer(_CODE.sub(" ", text)):
        for first, last in _ITEM.findall(match[1]):
            for number in range(int(first), max(int(first), int(last or 0)) + 1):
                cited[contexts[number - 1] if 1 <= number <= len(contexts) else f"invalid:{number}"] = None
    return tuple(cited)


def read_reply(query_id: str, completion: Completion, contexts: Sequence[Chunk], cut: tuple[str, ...] = ()) -> Answer:
    """The answer that a completion holds.

    A failed request and an empty reply have the outcome "failed" and say why; a provider's refusal is "blocked". A
    reply that was cut at max_tokens has the flag "truncated". A cached reply has no latency: nobody waited for it.
    """
    ids = tuple(chunk.chunk_id for chunk in contexts)
    text = without_thoughts(completion.text)
    error = completion.error
    if error is None and not text and completion.finish != "refusal":
        thought = " after thinking" if completion.text.strip() else ""
        error = f"{completion.model} replied with nothing{thought} (finish: {completion.finish})"
    if error is not None:
        return Answer(query_id, "", ids, outcome="failed", usage=completion, error=error, cut=cut)
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
