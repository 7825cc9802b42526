"""Names of fields in files of all tools: questions, ids, reference answers, contexts, documents;
the fields by which a tool is recognised; and how a cell of a table is read.

`answer`, `output`, `contexts` and `context` are ambiguous: they are labels (expected answers and
texts), or the output of a system. The other fields of the record decide, see
`ragbench.testsets.record_labels` and `outputs_of`. Names are compared in any case, with blanks, hyphens
and borders of words (expectedOutput) as underscores.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

from ragbench.files import parse_json

QUESTIONS = "user_input input question query prompt q request body question_text".split()
IDS = (
    "query_id _id id qid question_id case_id example_id financebench_id interaction_id request_id "
    "topic_id"
).split()
REFERENCES = (
    "reference expected_output reference_answer expected_answer expected_response expected "
    "ground_truth ground_truths generation_gt ideal ideal_answer gt_answer gold_answer "
    "golden_answer correct_answer targets"
).split()
ALIAS_LISTS = (
    "answers possible_answers gold_answers golden_answers short_answers answer_aliases alt_ans "
    "exact_answer"
).split()
"""Lists of answers, each of which is right; the first is the reference if there is no other."""
REPLIES = "predicted_answer actual_output generated_answer response generation".split()
ANSWERS = ("answer", "output")
EVIDENCE = (
    "reference_contexts ground_truth_contexts expected_context expected_contexts "
    "expected_retrieved_context gold_contexts gold_context golden_contexts reference_context "
    "ground_truth_context gold_passages evidence evidence_list snippets expected_chunks"
).split()
RETRIEVED = ("retrieved_contexts", "retrieval_context", "retrieved_context")
CONTEXTS = ("contexts", "context")
SOURCES = (
    "reference_context_ids retrieval_gt doc_id doc_ids doc_id_list document_id document_ids "
    "gold_doc gold_docs gold_ids gold_doc_ids relevant_doc_ids relevant_documents relevant_ids "
    "provenance wikipedia_id doc_name source sources document documents source_file file url "
    "file_name filename file_path"
).split()
FACTS = ("expected_facts",)
QUERY_TYPES = ("question_type", "type")
PASSAGES = "passage passage_text chunk chunk_text retrieved_passage".split()
PASSAGE_IDS = ("passage_id", "chunk_id")
PASSAGE_SCORES = "passage_score score rank passage_rank".split()
ARES_LABELS = (
    "context_relevance_label",
    "answer_faithfulness_label",
    "answer_relevance_label",
)
NUGGETS = ("nuggets", "assert")
"""Lists of facts and assertions, which `other_tools` reads."""
SYSTEM_FIELDS = (
    *REPLIES,
    *RETRIEVED,
    *"citations flags outcome confidence usage latency_ms error calls".split(),
)
"""Fields of a system's output, which are not labels."""
ALIASES = {
    "input_question": "question",
    "input_query": "query",
    "input_input": "input",
    "output_answer": "answer",
    "output_output": "output",
    "reference_output_answer": "reference",
}
"""Column of LangSmith -> field."""

LISTS = ("tests", "examples", "predictions", "data", "questions", "results", "rows", "records")
"""Fields of JSON and YAML files with their records: of promptfoo and LegalBench-RAG, LlamaIndex,
Langfuse and SQuAD, BioASQ, RAGChecker, Azure.
"""

TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
"""Suffixes of the files of tables."""

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
"""Tool -> sets of fields; a record of the tool has all fields of one set."""

DEEPEVAL_DELIMITER = r"\|"
"""The delimiter of DeepEval between the texts in a cell."""
ANSWER_PARTS = "text answer value content response output expected_response".split()
"""Fields of an object that hold its answer."""
_MAX_WORDS_OF_NAME = 8  # a longer `document` is a passage


@lru_cache(maxsize=10_000)
def column_name(name: str) -> str:
    """Return the name of a field or column in one spelling, which ignores case, blanks and hyphens.

    >>> column_name("expectedOutput"), column_name(" Query-ID "), column_name("Answer Relevancy")
    ('expected_output', 'query_id', 'answer_relevancy')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s-]+", "_", spaced.casefold())


def names_question(record: Mapping[str, Any]) -> bool:
    """Return True if a field is named as a question, in any spelling, or `inputs`.

    >>> names_question({"Question": "Why?"}), names_question({"inputs": {"q": "Why?"}}), names_question({"text": "So."})
    (True, True, False)
    """
    names = map(column_name, map(str, record))
    return any(name in QUESTIONS or name == "inputs" for name in names)


def tool_of(record: Mapping[str, Any]) -> str:
    """Return the first tool of `SIGNATURES` whose fields a record has; "" for none.

    >>> tool_of({"input": "Why?", "expected_output": "So."}), tool_of({"question": "Why?"})
    ('deepeval', '')
    """
    for tool, signatures in SIGNATURES.items():
        if any(signature <= record.keys() for signature in signatures):
            return tool
    return ""


def is_ares(fields: Mapping[str, Any]) -> bool:
    """Return True if a record has the columns of ARES: `document` is a passage, `answer` the answer
    of a system.
    """
    document = fields.get("document")
    is_passage = isinstance(document, str) and len(document.split()) > _MAX_WORDS_OF_NAME
    is_triple = is_passage and {"query", "answer"} <= fields.keys()
    return is_triple or not fields.keys().isdisjoint(ARES_LABELS)


def outputs_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its labels, with the system's output as `answer` and `contexts`, under
    whatever names the tool has for them.

    If the field of the answer is empty ("", null or NaN, which a table does not distinguish), the
    answer is ""; a record without such a field has no `answer`. Contexts may be a text, if a table has
    turned a list into a text.

    >>> outputs_of({"input": "Why?", "actual_output": "So.", "retrieval_context": "A.|B.", "context": "A."})
    {'input': 'Why?', 'answer': 'So.', 'contexts': ['A.', 'B.']}
    >>> outputs_of({"question": "Why?", "answer": None, "contexts": "['A.', 'B.']"})
    {'question': 'Why?', 'answer': '', 'contexts': ['A.', 'B.']}
    """
    fields, is_deepeval, _ = record_fields(record, skip_empty=False)
    if is_ares(fields):
        # ARES has one document per record, and it is the context
        fields["contexts"] = [fields.pop("document", "")]
    renamed = {*REFERENCES, *EVIDENCE, *REPLIES, *ANSWERS, *RETRIEVED, *CONTEXTS}
    outputs = {name: value for name, value in fields.items() if name not in renamed}
    answers = [fields[name] for name in (*REPLIES, *ANSWERS) if name in fields]
    if answers:
        outputs["answer"] = _first_filled(answers, default="")
    # the other contexts of DeepEval are labels
    context_names = RETRIEVED if is_deepeval else (*RETRIEVED, *CONTEXTS)
    lists = [fields[name] for name in context_names if name in fields]
    if lists:
        contexts = _first_filled(lists, default=[])
        outputs["contexts"] = read_list(contexts, DEEPEVAL_DELIMITER if is_deepeval else "")
    # null and NaN are left out; an empty answer "" stays
    return {name: value for name, value in outputs.items() if not is_missing(value)}


def _first_filled(values: Iterable[Any], default: Any) -> Any:
    """Return the first value that is not empty, else `default`."""
    return next((value for value in values if not is_empty(value)), default)


def is_missing(value: Any) -> bool:
    """Return True for null and for a missing value of pandas (NaN, NA, NaT).

    >>> [is_missing(value) for value in (None, float("nan"), "", 0, [])]
    [True, True, False, False, False]
    """
    if value is None:
        return True
    if isinstance(value, str | bytes | Mapping | list | tuple):
        return False
    try:
        return not value == value  # noqa: SIM201  # NaN and NaT are not equal to themselves
    except (TypeError, ValueError):  # NA is neither true nor false; an array is many values
        return type(value).__name__ == "NAType"


def is_empty(value: Any) -> bool:
    """Return True for a missing value and for a text of white space alone."""
    return is_missing(value) or (isinstance(value, str) and not value.strip())


def read_list(value: Any, delimiter: str = "") -> Any:
    """Return a text as a list; any other value unchanged.

    The text of a list, as a table holds it, becomes that list, and the text of an object a list of
    this object. Any other text is split at the `delimiter`, a regular expression; with "" it is one
    entry, or none if it is blank.

    >>> read_list("['a', 'b']"), read_list("('a', 'b')"), read_list("array(['a', 'b'], dtype=object)")
    (['a', 'b'], ['a', 'b'], ['a', 'b'])
    >>> read_list("[]"), read_list("[1] shows it"), read_list("")
    ([], ['[1] shows it'], [])
    """
    if not isinstance(value, str):
        return value
    content = read_cell(value.strip())
    if isinstance(content, list):
        return content
    if isinstance(content, Mapping):
        return [content]
    return split_text(value, delimiter)


def read_cell(text: str) -> Any:
    """Return the value of JSON, or the list or object that Python, numpy or pandas wrote as a text;
    any other text unchanged.

    >>> read_cell('{"k": 3}'), read_cell("['a' 'b']"), read_cell("[1] shows it")
    ({'k': 3}, ['a', 'b'], '[1] shows it')
    >>> read_cell("[{'text': 'a', 'score': nan}]")
    [{'text': 'a', 'score': nan}]
    """
    if not text.startswith(_OPENINGS):
        return text
    # JSON first; a text that is not JSON may be the text of a Python object
    with suppress(ValueError, RecursionError):
        return parse_json(text)
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        content = _literal(ast.parse(_with_commas(text), mode="eval").body)
        if isinstance(content, list | dict):
            return content
    return text


_OPENINGS = ("{", "[", "(", "array(")
"""How the texts of lists and objects start."""
_NUMBERS = {
    "nan": math.nan,
    "NaN": math.nan,
    "inf": math.inf,
    "NaT": None,
    "NA": None,
    "null": None,
}
_FACTORIES = ("array", "Series", "float32", "float64", "int32", "int64", "str_", "bool_")


def _with_commas(text: str) -> str:
    """Return the source of a list with a comma between neighbouring values, which numpy's `str` writes
    without one: "['a' 'b']" becomes "[ 'a' , 'b' ]".

    Raises:
        tokenize.TokenError, SyntaxError: the text cannot be source.
    """
    words: list[str] = []
    depth = 0  # brackets that are open
    is_after_value = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            continue
        word = token.string
        opens = word in ("[", "(", "{")
        closes = word in ("]", ")", "}")
        is_value = token.type in (tokenize.STRING, tokenize.NUMBER, tokenize.NAME)
        is_call = word == "(" and bool(words) and words[-1] in _FACTORIES  # array(
        begins_value = is_value or (opens and not is_call)
        if depth > 0 and is_after_value and begins_value:  # two values without a comma
            words.append(",")
        words.append(word)
        depth += int(opens) - int(closes)
        is_after_value = is_value or closes
    return " ".join(words)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal of Python, numpy or pandas; a call such as `array([1, 2])` has the
    value of its first argument, and a tuple becomes a list.

    Raises:
        ValueError: the expression is any other code.
    """
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return value
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_literal(part) for part in parts]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_literal(key): _literal(value) for key, value in pairs if key is not None}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand)
        case ast.Name(id=name) if name in _NUMBERS:
            return _NUMBERS[name]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first_argument, *_]):
            if name in _FACTORIES:
                return _literal(first_argument)
    raise ValueError("not a literal")


class RecordFields(NamedTuple):
    """The fields of a record of any tool, under names in one spelling ("folded" names).

    `values` maps each folded name to its value, `name_in_record` to its name in the record.
    `is_deepeval` is True for a record of DeepEval.
    """

    values: dict[str, Any]
    is_deepeval: bool
    name_in_record: dict[str, str]


def record_fields(
    record: Mapping[str, Any], case_fields: Collection[str] = (), *, skip_empty: bool = True
) -> RecordFields:
    """Return the fields of a record of any tool, also the nested ones, under names in one spelling:
    `expectedOutput` becomes `expected_output`.

    Args:
        record: fields by name.
        case_fields: names of labels in ragbench's own test sets, which keep their spelling.
        skip_empty: leave out other tools' empty fields (None, "", [] and {}), except an empty `text`:
            with it ragbench writes an answer without text. Of the fields in `case_fields`, an empty text
            is left out in any case, unless it is a question or an id; None, [] and {} stay.
    """
    fields: dict[str, Any] = {}
    name_in_record: dict[str, str] = {}
    for name, value in _without_nesting(record).items():
        if name in case_fields:
            folded_name = name
            is_skipped = value == "" and name not in (*QUESTIONS, *IDS, "text")
        else:
            folded_name = _folded_name(str(name))
            is_answer_text = folded_name == "text" and value == ""
            is_skipped = skip_empty and value in (None, "", [], {}) and not is_answer_text
        if is_skipped:
            continue
        if folded_name in QUESTIONS and isinstance(value, Mapping | list):
            value = _question_of_request(value)
        fields.setdefault(folded_name, value)
        name_in_record.setdefault(folded_name, str(name))
    # a signature: names that only records of DeepEval have together
    has_deepeval_fields = any(signature <= fields.keys() for signature in _DEEPEVAL)
    is_deepeval = has_deepeval_fields and fields.keys().isdisjoint(ANSWERS)
    return RecordFields(fields, is_deepeval, name_in_record)


def _folded_name(name: str) -> str:
    """Return the folded name of a field, without prefixes such as "inputs." and "output." """
    folded_name = column_name(name)
    folded_name = re.sub(r"^inputs[./]", "", folded_name)  # of Azure and MLflow
    folded_name = re.sub(r"^(input|output)[./]", r"\1_", folded_name)
    return ALIASES.get(folded_name, folded_name)


_NAME_OF_TEXT = {"inputs": "question", "outputs": "answer"}
"""Field of inputs or outputs that is a single text -> field of this text."""


def _without_nesting(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record in which nested objects are replaced by their fields: {"inputs": {"question":
    "Why?"}} becomes {"question": "Why?"}.

    The objects are promptfoo's `vars`, the `inputs` and `outputs` of LangSmith and MLflow,
    `expectations`, and `input`. If the record itself has a field of the same name, the nested field is
    dropped. An object in `expected` is replaced by its answer. A text in `inputs` or `outputs` becomes
    the field `question` or `answer`, unless the record has this field. If neither the record nor an input
    has the name of a question, the first text among the inputs is the question, whatever its name:
    {"vars": {"topic": "Why?"}} has the question "Why?".
    """
    flat = dict(record)
    # in this order: a field that one of them brings, such as "input", is unfolded when its turn comes
    for field in ("vars", "inputs", "outputs", "expectations", "input"):
        value = flat.get(field)
        if isinstance(value, str) and field in _NAME_OF_TEXT:
            del flat[field]
            flat.setdefault(_NAME_OF_TEXT[field], value)
        elif isinstance(value, Mapping):
            del flat[field]
            has_question = _has_question(flat)
            if field == "expectations":
                # the field alone marks the record as a log of a system's outputs
                flat[field] = True
            flat = {**value, **flat}  # the record's own fields win
            if field in ("vars", "inputs", "input") and not has_question:
                flat.update(_text_as_question(value))
    expected = flat.get("expected")
    if isinstance(expected, Mapping):
        flat["expected"] = first(expected, ANSWER_PARTS, "")
    return flat


def _has_question(fields: Mapping[str, Any]) -> bool:
    """Return True if a field with the name of a question has a text."""
    for name, value in fields.items():
        is_text = isinstance(value, str) and value.strip() != ""
        if is_text and _folded_name(str(name)) in QUESTIONS:
            return True
    return False


def _text_as_question(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the first text among the inputs of a system as its question, in a dict; {} if an input is
    named as a question, or none is a text.
    """
    if not inputs.keys().isdisjoint(QUESTIONS):
        return {}
    for text in inputs.values():
        if isinstance(text, str):
            return {QUESTIONS[0]: text}
    return {}


def _question_of_request(request: Any) -> Any:
    """Return the question in a request to a chat model: the last message of a user, or a field with
    the name of a question; the request itself if it has neither.
    """
    messages = request.get("messages") if isinstance(request, Mapping) else request
    if not isinstance(messages, list):
        return first(request, QUESTIONS, request)
    # the last message of a user is the question, the earlier ones are the conversation
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role", "user") == "user":
            return message.get("content", request)
    return request


def with_whole_numbers(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which columns of whole numbers hold ints. (pandas makes them floats if a cell is
    empty.) None stays None.

    >>> with_whole_numbers([{"source": 7.0, "score": 0.5}, {"source": 8.0, "score": 1.0}])
    [{'source': 7, 'score': 0.5}, {'source': 8, 'score': 1.0}]
    """
    other_columns = set()  # columns with a value that is not a whole number
    for row in rows:
        for name, value in row.items():
            is_whole = isinstance(value, float) and value.is_integer()  # False for NaN
            if value is not None and not is_whole:
                other_columns.add(name)
    converted = []
    for row in rows:
        cells = dict(row)
        for name, value in row.items():
            if name not in other_columns and value is not None:
                cells[name] = int(value)
        converted.append(cells)
    return converted


def without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that are not null.

    >>> without_none({"_id": "q1", "text": "", "answer": None})
    {'_id': 'q1', 'text': ''}
    """
    return {name: value for name, value in record.items() if value is not None}


def first(fields: Mapping[str, Any], names: Iterable[str], default: Any = None) -> Any:
    """Return the value of the first of these fields that is not None, else `default`.

    >>> first({"output": None, "answer": "So."}, ANSWERS), first({}, IDS, "")
    ('So.', '')
    """
    for name in names:
        if fields.get(name) is not None:
            return fields[name]
    return default


def first_name(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of these names that is a field; "" if none is."""
    for name in names:
        if name in fields:
            return name
    return ""


def split_text(text: str, delimiter: str) -> list[str]:
    """Return the parts of a text between delimiters (a regular expression), stripped, without blank
    parts; with the delimiter "" the text is one part.
    """
    parts = [text]
    if delimiter:
        parts = re.split(delimiter, text)
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if part]
