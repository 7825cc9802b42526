"""Names of fields in the records of other tools, and what each of them holds.

`answer`, `output`, `contexts` and `context` mean different things: what is expected, or what a
system gave. What else is in the record decides, see `labels_of` and `outputs_of`. Names are
compared in any case, with blanks as underscores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

QUESTIONS = ("user_input", "input", "question", "query", "prompt", "q")
IDS = ("query_id", "_id", "id", "question_id", "case_id", "example_id")
REFERENCES = (
    "reference",
    "expected_output",
    "reference_answer",
    "expected_answer",
    "ground_truth",
    "ground_truths",
    "ideal",
)
REPLIES = ("predicted_answer", "actual_output", "generated_answer", "response", "generation")
ANSWERS = ("answer", "output")
EVIDENCE = ("reference_contexts", "ground_truth_contexts", "expected_context")
RETRIEVED = ("retrieved_contexts", "retrieval_context")
CONTEXTS = ("contexts", "context")
SOURCES = (
    "source",
    "sources",
    "doc_id",
    "document",
    "source_file",
    "file",
    "url",
    "reference_context_ids",
)

TABLES = (".csv", ".tsv", ".xlsx")
"""How the names of tables end."""

_DEEPEVAL = (
    {"input", "expected_output"},
    {"input", "actual_output"},
    {"input", "retrieval_context"},
)
SIGNATURES: Mapping[str, Sequence[set[str]]] = {
    "ragas": (
        {"user_input"},
        {"question", "contexts"},
        {"question", "ground_truth"},
        {"question", "ground_truths"},
    ),
    "deepeval": _DEEPEVAL,
    "traces": (
        {"resourceSpans"},
        {"observations", "input"},
        {"traceId", "startTime"},
        {"trace_id", "run_type"},
        {"context.trace_id"},
        {"context", "span_kind"},
    ),
}
"""Tool -> sets of fields, of which its records have one."""

_JOINED = r"\|"  # by DeepEval, in tables and lines
_LISTED = r"[;|]"  # by people


class Labels(NamedTuple):
    """What a record expects; `doubtful` where its answer and contexts may be expected, or what a
    system gave.
    """

    query_id: str
    question: str
    reference: str
    evidence: list[str]
    sources: list[str]
    category: str
    doubtful: bool


def tool_of(record: Mapping[str, Any]) -> str:
    """Return the tool whose fields a record has, "" for none.

    >>> tool_of({"input": "Why?", "expected_output": "So."}), tool_of({"question": "Why?"})
    ('deepeval', '')
    """
    return next(
        (
            tool
            for tool, signs in SIGNATURES.items()
            if any(sign <= record.keys() for sign in signs)
        ),
        "",
    )


def labels_of(record: Mapping[str, Any]) -> Labels:
    """Return what a record expects. Contexts next to an answer are what a system retrieved, but for
    DeepEval's.

    >>> row = {"question": "Why?", "contexts": ["A."], "answer": "So.", "ground_truth": "Therefore."}
    >>> labels_of(row).reference, labels_of(row).evidence
    ('Therefore.', [])
    >>> labels_of({"question": "Why?", "context": ["A."], "ground_truth": "Therefore."}).evidence
    ['A.']
    """
    fields = _flat(record)
    is_deepeval = _is_deepeval(fields)
    replied = any(_holds(fields, name) for name in REPLIES)
    is_answered = replied or any(_holds(fields, name) for name in ANSWERS)
    contexts = _texts(fields, CONTEXTS, _JOINED if is_deepeval else "")
    evidence = _texts(fields, EVIDENCE) or (contexts if is_deepeval or not is_answered else [])
    reference = _text(fields, REFERENCES)
    doubtful = bool(contexts) and not (reference or evidence or replied)
    if not (reference or doubtful):
        reference = _text(fields, ANSWERS)
    query_id = next((str(fields[name]) for name in IDS if _holds(fields, name)), "")
    sources, category = _texts(fields, SOURCES, _LISTED), str(fields.get("category") or "")
    return Labels(
        query_id, _text(fields, QUESTIONS), reference, evidence, sources, category, doubtful
    )


def outputs_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without what it expects, and what a system gave as `answer` and `contexts`.

    >>> outputs_of({"input": "Why?", "actual_output": "So.", "retrieval_context": "A.|B.", "context": "A."})
    {'input': 'Why?', 'answer': 'So.', 'contexts': ['A.', 'B.']}
    """
    fields = _flat(record)
    is_deepeval = _is_deepeval(fields)
    answers = REPLIES if any(name in fields for name in REPLIES) else ANSWERS
    expected = {*REFERENCES, *EVIDENCE, *REPLIES, *ANSWERS, *RETRIEVED, *CONTEXTS}
    outputs = {
        name: value
        for name, value in fields.items()
        # an answer of ours has a text, also an empty one: its contexts are ids
        if name not in expected and (name == "text" or _holds(fields, name))
    }
    answer = next((fields[name] for name in answers if _holds(fields, name)), None)
    names = RETRIEVED if is_deepeval else (*RETRIEVED, *CONTEXTS)
    contexts = next((fields[name] for name in names if _holds(fields, name)), None)
    if isinstance(contexts, str):
        contexts = _split(contexts, _JOINED if is_deepeval else "")
    return outputs | {
        name: value
        for name, value in (("answer", answer), ("contexts", contexts))
        if value is not None
    }


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields under their folded names, with promptfoo's `vars` among them, of which the
    first text is the question where none has the name of one.
    """
    flat = dict(record)
    variables = flat.pop("vars", None)
    if isinstance(variables, Mapping):
        texts = [value for value in variables.values() if isinstance(value, str)]
        if texts and variables.keys().isdisjoint(QUESTIONS):
            flat[QUESTIONS[0]] = texts[0]
        flat = {**variables, **flat}
    return {str(name).strip().casefold().replace(" ", "_"): value for name, value in flat.items()}


def _is_deepeval(fields: Mapping[str, Any]) -> bool:
    return any(sign <= fields.keys() for sign in _DEEPEVAL) and fields.keys().isdisjoint(ANSWERS)


def _holds(fields: Mapping[str, Any], name: str) -> bool:
    return fields.get(name) not in (None, "", [])


def _text(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first text under these names, of a list its first: ragas 0.1 has several ground
    truths.
    """
    values = (fields[name] for name in names if _holds(fields, name))
    texts = (value[0] if isinstance(value, list) else value for value in values)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


def _texts(fields: Mapping[str, Any], names: Iterable[str], delimiter: str = "") -> list[str]:
    value: Any = next((fields[name] for name in names if _holds(fields, name)), [])
    if isinstance(value, str):
        return _split(value, delimiter)
    return [str(part) for part in value if part] if isinstance(value, list) else []


def _split(text: str, delimiter: str) -> list[str]:
    return (
        [part.strip() for part in re.split(delimiter, text) if part.strip()]
        if delimiter
        else [text]
    )
