"""What a judge is asked about two answers to one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.prompts.fences import fence, fence_code, numbered
from ragbench.prompts.judging import REPAIR

# Origin: pairwise comparison with a tie allowed, as in MT-Bench (Zheng et al. 2023, "Judging LLM-as-a-Judge"), who also
# show the bias for a place; the order of what decides is ours.
PREFERENCE = """Which of the two answers serves better the person who asked? What decides, in this order: whether it \
is right (by the reference answer where there is one, else by the documents where there are some, else by what you \
know); whether it answers all that was asked; whether it says nothing beside the point. Length, style, confidence and \
the place in which an answer stands do not count. Numbers in brackets cite documents in an order of each answer's \
own and do not count either. Saying that there is no answer is better than a wrong answer and worse than a right one. \
If neither is better, say "tie"."""

PREFERENCE_FORM = '{"reason": "<two or three sentences on both answers>", "better": <"first", "second" or "tie">}'

PREFERENCE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "better": {"type": "string", "enum": ["first", "second", "tie"]}},
    "required": ["reason", "better"],
    "additionalProperties": False,
}


def ask_for_preference(
    question: str, first: str, second: str, *, reference: str = "", documents: Sequence[str] = ()
) -> str:
    """The request to choose between two answers, in this order."""
    code = fence_code([question, first, second, reference, *documents])
    parts = [f"Question:\n{fence('question', question, code)}"]
    if documents:
        parts.append(f"Documents that the answers were written from:\n{numbered(documents, code)}")
    if reference:
        parts.append(f"Reference answer, which is right:\n{fence('reference', reference, code)}")
    parts.append(f"First answer:\n{fence('first', first, code)}")
    parts.append(f"Second answer:\n{fence('second', second, code)}")
    parts.append(PREFERENCE)
    parts.append(f"Reply with one JSON object and nothing else, in this form:\n{PREFERENCE_FORM}")
    return "\n\n".join(parts)


def repair_preference(request: str, problem: str, reply: str) -> str:
    """The same request once more, with the reply that could not be used."""
    code = fence_code([request, reply])
    shown = fence("reply", reply, code) if reply else "(it was empty)"
    return f"{request}\n\n{REPAIR.replace('{problem}', problem).replace('{reply}', shown)}"
