"""Names of fields in the records of other tools, and what each of them holds.

`answer`, `output`, `contexts` and `context` mean different things: what is expected, or what a
system gave. What else is in the record decides, see `labels_of` and `outputs_of`. Names are
compared in any case, with blanks as underscores.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from ragbench.files import parse_json

QUESTIONS = "user_input input question query prompt q".split()
IDS = "query_id _id id qid question_id case_id example_id".split()
REFERENCES = (
    "reference expected_output reference_answer expected_answer "
    "ground_truth ground_truths generation_gt ideal"
).split()
REPLIES = "predicted_answer actual_output generated_answer response generation".split()
ANSWERS = ("answer", "output")
EVIDENCE = ("reference_contexts", "ground_truth_contexts", "expected_context")
RETRIEVED = ("retrieved_contexts", "retrieval_context")
CONTEXTS = ("contexts", "context")
SOURCES = (
    "source sources doc_id document source_file file url reference_context_ids retrieval_gt"
).split()
ALIASES = {
    "input_question": "question",
    "input_query": "query",
    "input_input": "input",
    "output_answer": "answer",
    "output_output": "output",
    "reference_output_answer": "reference",
}
"""Columns of LangSmith -> the field that each is."""

LISTS = ("tests", "examples", "predictions", "data")
"""Fields of JSON and YAML files with their records: of promptfoo, LlamaIndex and Langfuse."""

TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
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
    "langsmith": ({"inputs", "outputs"},),
    "nuggets": ({"query", "nuggets"},),
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
    fields, is_deepeval = _filled(record)
    replied = not fields.keys().isdisjoint(REPLIES)
    contexts = _texts(fields, CONTEXTS, _JOINED if is_deepeval else "")
    is_answered = replied or not fields.keys().isdisjoint(ANSWERS)
    evidence = _texts(fields, EVIDENCE) or (contexts if is_deepeval or not is_answered else [])
    reference = _text(fields, REFERENCES)
    doubtful = bool(contexts) and not (reference or evidence or replied)
    return Labels(
        str(first(fields, IDS, "")),
        _text(fields, QUESTIONS),
        reference if reference or doubtful else _text(fields, ANSWERS),
        evidence,
        _texts(fields, SOURCES, _LISTED),
        str(fields.get("category", "")),
        doubtful,
    )


def outputs_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without what it expects, and what a system gave as `answer` and `contexts`.

    >>> outputs_of({"input": "Why?", "actual_output": "So.", "retrieval_context": "A.|B.", "context": "A."})
    {'input': 'Why?', 'answer': 'So.', 'contexts': ['A.', 'B.']}
    """
    fields, is_deepeval = _filled(record)
    expected = {*REFERENCES, *EVIDENCE, *REPLIES, *ANSWERS, *RETRIEVED, *CONTEXTS}
    contexts = first(fields, RETRIEVED if is_deepeval else (*RETRIEVED, *CONTEXTS))
    if isinstance(contexts, str):
        contexts = _split(contexts, _JOINED if is_deepeval else "")
    outputs = {name: value for name, value in fields.items() if name not in expected}
    outputs |= {"answer": first(fields, (*REPLIES, *ANSWERS)), "contexts": contexts}
    return without_none(outputs)


def read_cell(text: str) -> Any:
    """Return what a cell of a table or an attribute of a span holds: JSON, a list of texts as Python
    or numpy writes it, or the text.

    >>> read_cell('{"k": 3}'), read_cell("['a' 'b']"), read_cell("[1] shows it")
    ({'k': 3}, ['a', 'b'], '[1] shows it')
    """
    if text.startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return parse_json(text)
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        if text.startswith("[") and all(isinstance(part, str) for part in ast.literal_eval(text)):
            # numpy writes no commas between texts, which Python would then join
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            strings = (token.string for token in tokens if token.type == tokenize.STRING)
            return list(map(ast.literal_eval, strings))
    return text


def _filled(record: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the fields that are not empty under their folded names, with promptfoo's `vars` and
    LangSmith's `inputs` and `outputs` among them, of which the first text is the question where none
    has the name of one; and whether the record is DeepEval's.
    """
    flat = dict(record)
    for part in ("vars", "inputs", "outputs"):
        if isinstance(variables := flat.get(part), Mapping):
            texts = [value for value in variables.values() if isinstance(value, str)]
            if texts and part != "outputs" and variables.keys().isdisjoint(QUESTIONS):
                flat[QUESTIONS[0]] = texts[0]
            flat = {**variables, **flat}
            del flat[part]
    names = {name: str(name).strip().casefold().replace(" ", "_") for name in flat}
    flat = {ALIASES.get(names[name], names[name]): value for name, value in flat.items()}
    is_deepeval = any(sign <= flat.keys() for sign in _DEEPEVAL) and flat.keys().isdisjoint(ANSWERS)
    # an answer of ours has a text, also an empty one: its contexts are ids
    return {
        name: value
        for name, value in flat.items()
        if value not in (None, "", []) or (name, value) == ("text", "")
    }, is_deepeval


def without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that are not null, which is the same as a missing field.

    >>> without_none({"_id": "q1", "text": "", "answer": None})
    {'_id': 'q1', 'text': ''}
    """
    return {name: value for name, value in record.items() if value is not None}


def first(fields: Mapping[str, Any], names: Iterable[str], default: Any = None) -> Any:
    """Return the first of these fields that is there and not None.

    >>> first({"output": None, "answer": "So."}, ANSWERS), first({}, IDS, "")
    ('So.', '')
    """
    return next((fields[name] for name in names if fields.get(name) is not None), default)


def _text(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first text under these names, of a list its first: ragas 0.1 has several ground
    truths.
    """
    values = (fields[name] for name in names if name in fields)
    texts = (value[0] if isinstance(value, list) else value for value in values)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


def _texts(fields: Mapping[str, Any], names: Iterable[str], delimiter: str = "") -> list[str]:
    value = first(fields, names)
    if isinstance(value, str):
        return _split(value, delimiter)
    parts = value if isinstance(value, list) else []
    # AutoRAG has lists of alternatives
    nested = (part if isinstance(part, list) else [part] for part in parts)
    return [str(part) for part in chain.from_iterable(nested) if part]


def _split(text: str, delimiter: str) -> list[str]:
    parts = re.split(delimiter, text) if delimiter else [text]
    return [part.strip() for part in parts if part.strip()]
