"""The request to judge one answer: the material, the criteria, the form of the reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.prompts.fences import fence, fence_code, numbered
from ragbench.prompts.judge_prompts import CRITERIA, REPAIR, REPLY_FORMS

MAX_ANSWER = 12_000
"""Characters of an answer that a judge sees, some 2,000 words; the claims of more would not fit into a reply."""

MAX_CLAIMS = 30

# The material of each criterion. A criterion judged alone sees nothing else.
NEEDS = {
    "correctness": {"reference", "answer"},
    "relevance": {"answer"},
    "faithfulness": {"documents", "answer"},
    "context_recall": {"documents", "reference"},
    "context_precision": {"documents", "reference"},
}

# The maximum reply for each criterion in tokens: 30 claims with their reasons, judgements of 20 documents.
REPLY_TOKENS = {
    "correctness": 300,
    "relevance": 300,
    "faithfulness": 2400,
    "context_recall": 1600,
    "context_precision": 1200,
}

_MAX_SHOWN_REPLY = 4000


@dataclass(frozen=True, slots=True)
class Material:
    """The material for the judgement of one answer; `reference` is None where there is none."""

    question: str
    answer: str
    reference: str | None
    documents: tuple[str, ...]
    chunk_ids: tuple[str, ...]


def write_request(criteria: Sequence[str], material: Material, *, problem: str = "", reply: str = "") -> str:
    """One request for these criteria; with `problem` the repair of an earlier `reply` that could not be read."""
    needed = set().union(*(NEEDS[criterion] for criterion in criteria))
    answer = material.answer[:MAX_ANSWER] if "answer" in needed else ""
    reference = (material.reference or "") if "reference" in needed else ""
    documents = material.documents if "documents" in needed else ()
    reply = reply[-_MAX_SHOWN_REPLY:]
    code = fence_code([material.question, answer, reference, reply, *documents])

    parts = [f"Question:\n{fence('question', material.question, code)}"]
    if "documents" in needed:
        parts.append(f"Documents that were retrieved, best first, each after its number:\n{numbered(documents, code)}")
    if reference:
        parts.append(f"Reference answer:\n{fence('reference', reference, code)}")
    if "answer" in needed:
        cut = f"\n(Only the first {MAX_ANSWER} characters of the answer.)" if answer != material.answer else ""
        parts.append(f"Answer to judge; the numbers in brackets cite documents:\n{fence('answer', answer, code)}{cut}")
    parts.append("Decide this:" if len(criteria) == 1 else f"Decide these {len(criteria)} things, each by itself:")
    for criterion in criteria:
        asked = CRITERIA[criterion].replace("{limit}", str(MAX_CLAIMS)).replace("{documents}", str(len(documents)))
        parts.append(f"{criterion}: {asked}")
    form = ",\n".join(f'"{criterion}": {REPLY_FORMS[criterion]}' for criterion in criteria)
    parts.append(f"Reply with one JSON object and nothing else, in this form:\n{{{form}}}")
    if problem:
        shown = fence("reply", reply, code) if reply else "(it was empty)"
        parts.append(REPAIR.replace("{problem}", problem).replace("{reply}", shown))
    return "\n\n".join(parts)
