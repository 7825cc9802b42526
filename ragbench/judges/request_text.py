"""The text of a request to a judge: which parts of the material it is shown, in which order and at
which length, then each criterion; the fixed sentences are in `prompts`.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from ragbench.judges.criterion import SUPPORT_FORMS, Criterion
from ragbench.judges.material import Material
from ragbench.judges.parser import VERDICT_FIELDS
from ragbench.judges.prompts import (
    CONVERSATION,
    REPAIR,
    REPLY_FORMS,
    TURNS_AS_DOCUMENT,
    name_language,
)
from ragbench.llms.fences import fence, fence_code, numbered

MAX_ANSWER = 12_000
"""Characters of an answer that a judge sees, some 2,000 words; the claims of more would not fit
into a reply.
"""

MAX_CLAIMS = 30
_MAX_SHOWN_REPLY = 4000


def write_request(
    criteria: Sequence[Criterion], material: Material, *, problem: str = "", reply: str = ""
) -> str:
    """Return the text of a request to judge a material by these criteria.

    Foreign texts, such as the answer, are between tags with a code that none of these texts contains, so
    that no text can close its tag.

    Args:
        criteria: the criteria; a text is shown if one of them shows it.
        material: the question, the answer and all that belongs to it.
        problem: why an earlier reply could not be read; "" for a first request.
        reply: this earlier reply.
    """
    # the texts that any criterion shows, of "answer", "reference", "contexts" and "facts"
    shown = frozenset[str]().union(*(criterion.shows for criterion in criteria))
    # the texts as the judge sees them: a long answer or conversation is cut
    seen = _reduce_to_shown(material, shown)
    reply = reply[-_MAX_SHOWN_REPLY:]  # its end, where the verdict should be
    code = _code_of_tags(seen, reply, criteria)

    # the texts: the conversation, then the question with its material
    parts = []
    if seen.history:
        parts.append(CONVERSATION)
        parts += [fence(message["role"], message["content"], code) for message in seen.history]
        # a claim may be supported by an earlier turn: it is cited by the number after the last document
        if any(criterion.form in SUPPORT_FORMS for criterion in criteria):
            parts.append(TURNS_AS_DOCUMENT.replace("{number}", str(len(seen.documents) + 1)))
    is_answer_cut = "answer" in shown and len(material.answer) > MAX_ANSWER
    parts += _material_parts(seen, shown, code, is_answer_cut=is_answer_cut)
    # the task of the judge, and the form of its reply
    if len(criteria) == 1:
        parts.append("Decide this:")
    else:
        parts.append(f"Decide these {len(criteria)} things, each by itself:")
    for criterion in criteria:
        parts.append(_question_with_levels(criterion, len(seen.documents), len(seen.facts)))
        parts += _example_texts(criterion, code)
    form = ",\n".join(f'"{criterion.name}": {_reply_form(criterion)}' for criterion in criteria)
    parts.append(f"Reply with one JSON object and nothing else, in this form:\n{{{form}}}")
    # a second attempt: the error in the earlier reply
    if problem:
        earlier_reply = fence("reply", reply, code) if reply else "(it was empty)"
        parts.append(REPAIR.replace("{problem}", problem).replace("{reply}", earlier_reply))
    return "\n\n".join(parts)


def _material_parts(
    seen: Material, shown: Set[str], code: str, *, is_answer_cut: bool
) -> list[str]:
    """Return the paragraphs of a request that hold the question and the material shown with it.

    Args:
        seen: the texts; a text that is not shown is empty.
        shown: the names of the texts that are shown, of "answer", "reference", "contexts" and "facts".
            An answer or contexts that are shown have a paragraph even if they are empty.
        code: is in the tags around each text, such as <answer-311561e7>, so that no text can close its
            tag.
        is_answer_cut: state that only the beginning of the answer is shown.
    """
    parts = [f"Question:\n{fence('question', seen.question, code)}"]
    if "contexts" in shown:
        parts.append(
            f"Documents that were retrieved, best first, each after its "
            f"number:\n{numbered(seen.documents, code)}"
        )
    if seen.facts:
        parts.append(f"Facts, each after its number:\n{numbered(seen.facts, code, 'fact')}")
    if seen.reference:
        parts.append(f"Reference answer:\n{fence('reference', seen.reference, code)}")
    if "answer" in shown:
        note = ""
        if is_answer_cut:
            note = f"\n(Only the first {MAX_ANSWER} characters of the answer.)"
        parts.append(
            f"Answer to judge; the numbers in brackets cite "
            f"documents:\n{fence('answer', seen.answer, code)}{note}"
        )
        parts += name_language(seen.question, seen.answer)  # nothing if it is English
    return parts


def _reduce_to_shown(material: Material, shown: Set[str]) -> Material:
    """Return a material with the texts that the judge sees: the question, the latest messages before it,
    and the texts named in `shown` ("answer", "reference", "contexts", "facts"). A long answer is cut at
    `MAX_ANSWER` characters.
    """
    return replace(
        material,
        answer=material.answer[:MAX_ANSWER] if "answer" in shown else "",
        reference=material.reference if "reference" in shown else None,
        documents=material.documents if "contexts" in shown else (),
        facts=material.facts if "facts" in shown else (),
        history=tuple(_latest_messages(material.history)),
    )


def _code_of_tags(seen: Material, reply: str, criteria: Sequence[Criterion]) -> str:
    """Return a code for the tags around texts that none of the texts in a request contains."""
    texts = [seen.question, seen.answer, seen.reference or "", reply, *seen.documents, *seen.facts]
    texts += [message["content"] for message in seen.history]
    for criterion in criteria:
        for example in criterion.examples:
            texts += example.values()
    return fence_code(texts)


def _question_with_levels(criterion: Criterion, n_documents: int, n_facts: int) -> str:
    """Return the question of a criterion, with the meaning of each level.

    The questions of built-in criteria have the fields {limit} (the maximum number of claims),
    {documents} and {facts}, which are replaced by these numbers.
    """
    question = criterion.question.strip()
    # In a question of the form "level", as a user's own has it, braces are text: nothing is filled in.
    if criterion.form != "level":
        numbers = {"limit": MAX_CLAIMS, "documents": n_documents, "facts": n_facts}
        for name, number in numbers.items():
            question = question.replace(f"{{{name}}}", str(number))
    lines = [f"{criterion.name}: {question}"]
    lines += [f"{level} = {meaning}" for level, meaning in criterion.anchors.items()]
    return "\n".join(lines)


def _example_texts(criterion: Criterion, code: str) -> list[str]:
    """Return the judged examples of a criterion for a request, their texts between tags with the code.

    An example has texts by name, such as "answer", and the right "verdict", which is written after them.
    """
    shown = []
    for number, example in enumerate(criterion.examples, 1):
        lines = [f"Example {number} of {criterion.name}:"]
        for name, text in example.items():
            if name != "verdict":
                lines.append(fence(f"example_{name}", text, code))
        lines.append(f"The right {VERDICT_FIELDS[criterion.form]}: {example['verdict']}")
        shown.append("\n".join(lines))
    return shown


def _reply_form(criterion: Criterion) -> str:
    """Return the form of the reply to a criterion: a template of its kind, with its levels named.

    Levels "yes", "partly" and "no" are filled in as "yes, partly or no".
    """
    *others, last = criterion.levels
    levels = f"{', '.join(others)} or {last}"
    return REPLY_FORMS[criterion.form].replace("{levels}", levels)


def _latest_messages(history: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the latest messages with at most MAX_ANSWER characters together, the oldest first; a
    longer last message is cut.
    """
    newest_first: list[Mapping[str, str]] = []
    n_left = MAX_ANSWER  # characters
    for message in reversed(history):
        text = message["content"]
        is_last_message = not newest_first
        if len(text) > n_left and not is_last_message:
            break
        newest_first.append({**message, "content": text[:n_left]})
        n_left -= len(text)  # below 0 after a cut message: the next one ends the loop
    return newest_first[::-1]
