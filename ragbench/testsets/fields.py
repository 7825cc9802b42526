"""Names of fields in the records of other tools, and the meaning of each.

`answer`, `output`, `contexts` and `context` are ambiguous: labels (what is expected), or the output
of a system. The other fields of the record decide, see `labels_of` and `outputs_of`. Names are
compared in any case, with blanks, hyphens and borders of words (expectedOutput) as underscores.
"""

import ast
import io
import math
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
"""Answers of which each is right; the first is the reference where there is no other."""
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
"""Fields of a system's output: they are no labels."""
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

_JOINED = r"\|"  # the delimiter of DeepEval, in tables and lines
_LISTED = r"[;|]"  # the delimiters of people

_QUOTE = "text content evidence_text fact passage page_content quote".split()
_TEXTS_OF_OTHERS = {*_QUOTE} - {"quote"}
_QUOTED_FROM = "doc_name doc_uri doc_id document url source title file_path wikipedia_id".split()
_ANSWER_INSIDE = "text answer value content response output expected_response".split()
_LOGGED = ("record_json", "app_id", "scores", "trace", "expectations")
"""Fields of logs: an `output` next to one of them is a system's."""
_MAX_FACT = 8  # words; no answer states a longer text word by word
_RENAMED = {"text": QUESTIONS, "query_id": IDS, "query_type": QUERY_TYPES, "gold_facts": FACTS}
"""Label of a case -> the names that records have for it."""


class Quote(NamedTuple):
    """A text that a document should hold, and the name of that document ("": not given)."""

    text: str
    source: str = ""


class Labels(NamedTuple):
    """The labels of a record.

    `case` has the labels under the names of ragbench's own test sets, `names` the record's own names
    for them where they differ. `quotes` and `sources` are not looked up in the documents yet; of each
    group of `alternatives` one document is enough. `doubtful` is True if the record's answer and
    contexts may be labels or a system's output. `unreadable` maps fields whose value has the wrong
    form to the expected form. `is_foreign` is True if a field has a name that only other tools use.
    """

    case: dict[str, Any]
    names: dict[str, str]
    quotes: list[Quote]
    sources: list[str]
    alternatives: list[list[str]]
    doubtful: bool
    unreadable: dict[str, str]
    is_foreign: bool

    @property
    def question(self) -> Any:
        """Return the question, None without one."""
        return first(self.case, ("text", *QUESTIONS))


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


def labels_of(record: Mapping[str, Any], own: Collection[str] = ()) -> Labels:
    """Return the labels of a record, whatever their names. Contexts next to an answer are the
    contexts that a system retrieved, except in DeepEval's records.

    Args:
        record: fields by name.
        own: names of labels in ragbench's own test sets, which keep their names and values.

    >>> row = {"question": "Why?", "contexts": ["A."], "answer": "So.", "ground_truth": "Therefore."}
    >>> labels_of(row).case, labels_of(row).quotes
    ({'text': 'Why?', 'reference_answer': 'Therefore.'}, [])
    >>> labels_of({"question": "Why?", "context": ["A."], "ground_truth": "Therefore."}).quotes
    [Quote(text='A.', source='')]
    """
    fields, is_deepeval, names = _fields(record, own)
    reader = _Reader(fields)
    expected = _expected(fields, own, reader, is_deepeval=is_deepeval)
    sources, groups = reader.sources([] if _is_ares(fields) else SOURCES)
    sources += [quote.source for quote in expected.quotes if quote.source]
    read = _names_with_a_meaning(fields, reader.source_name)

    case, names_of = _take_renamed(fields, names, own)
    answers = list(dict.fromkeys((*expected.references, *expected.aliases)))
    if answers and fields.keys().isdisjoint({*own} & {*REFERENCES}):
        case["reference_answer"] = answers[0]
        name = first_name(fields, (*REFERENCES, *ALIAS_LISTS, *ANSWERS))
        names_of["reference_answer"] = names[name]
    if _are_short(expected.facts) and "gold_facts" not in (*case, *fields):
        case["gold_facts"] = expected.facts
    for name, value in fields.items():
        if name not in read or _is_of_ours(name, fields, own):
            case[name if name in own else names[name]] = value
    if len(answers) > 1 and "gold_facts" not in case:
        metadata = case.setdefault("metadata", {})
        if isinstance(metadata, Mapping):
            case["metadata"] = {"other_references": answers[1:], **metadata}
    has_foreign_name = bool(names_of) or any(
        name not in own and (name in read or name not in case) for name in fields
    )
    return Labels(
        case,
        names_of,
        expected.quotes,
        list(dict.fromkeys(sources)),
        groups,
        expected.doubtful,
        {names[name]: form for name, form in reader.unreadable.items()},
        has_foreign_name or bool(expected.quotes or sources),
    )


class _Expected(NamedTuple):
    """The expected answers and texts of a record; `doubtful` as in `Labels`."""

    references: list[str]
    aliases: list[str]
    facts: list[list[str]]
    quotes: list[Quote]
    doubtful: bool


def _expected(
    fields: Mapping[str, Any], own: Collection[str], reader: "_Reader", *, is_deepeval: bool
) -> _Expected:
    """Read the expected answers and texts, as distinct from the output of a system."""
    is_logged = _is_ares(fields) or not fields.keys().isdisjoint(_LOGGED)
    is_replied = is_logged or not fields.keys().isdisjoint(REPLIES)
    has_answer = is_replied or not fields.keys().isdisjoint(ANSWERS)
    contexts = reader.quotes(CONTEXTS, _JOINED if is_deepeval else "")
    quotes = reader.quotes([name for name in EVIDENCE if not _is_of_ours(name, fields, own)])
    if not quotes and (is_deepeval or not has_answer):
        quotes = contexts
    elif has_answer and not is_deepeval:  # the contexts are the system's, in any form
        for name in CONTEXTS:
            reader.unreadable.pop(name, None)
    references = reader.answers(REFERENCES)
    aliases = reader.answers(ALIAS_LISTS)
    facts = reader.facts(ALIAS_LISTS)
    is_labelled = bool(references or aliases or quotes)
    doubtful = bool(contexts) and not (is_labelled or is_replied)
    has_output = is_logged or bool(aliases and (contexts or is_replied))
    if not (references or doubtful or has_output):
        references = reader.answers(ANSWERS)
        if facts:
            facts = [[*references, *facts[0]], *facts[1:]]
    return _Expected(references, aliases, facts, quotes, doubtful)


def _names_with_a_meaning(fields: Mapping[str, Any], source_name: str) -> set[str]:
    """Return the names of fields that are read as labels, or belong to a system's output."""
    read = {*REFERENCES, *ALIAS_LISTS, *ANSWERS, *CONTEXTS, *EVIDENCE, *SYSTEM_FIELDS}
    read |= {*PASSAGES, *ARES_LABELS, *_LOGGED, *NUGGETS, source_name}
    if _is_ares(fields):
        read.add("document")
    if not fields.keys().isdisjoint(PASSAGES):
        read |= {*PASSAGE_IDS, *PASSAGE_SCORES}
    return read


def _take_renamed(
    fields: dict[str, Any], names: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Move the question, the id, the type and the facts out of `fields`.

    Returns:
        The labels by the names of ragbench's test sets, and for those that the record calls
        otherwise, its own name.
    """
    case: dict[str, Any] = {}
    names_of: dict[str, str] = {}
    for label, known in _RENAMED.items():
        name = first_name(fields, known)
        if name and label == "text" and "text" in fields:
            case["text (not the question)"] = fields.pop("text")
        is_there = label in fields and label in own
        if not name or is_there:
            continue
        value = fields.pop(name)
        if name in own:
            case[name] = value
        else:
            case[label] = value
            names_of[label] = names[name]
        if label == "text":  # the same question under a second name
            for again in [name for name in QUESTIONS if fields.get(name) == value]:
                fields.pop(again, None)
    return case, names_of


def _are_short(facts: Sequence[Sequence[str]]) -> bool:
    """Return True if there are facts, and each is so short that an answer may state it literally."""
    texts = [text for fact in facts for text in fact]
    return bool(facts) and all(len(text.split()) <= _MAX_FACT for text in texts)


def _is_ares(fields: Mapping[str, Any]) -> bool:
    """Return True if a record has the columns of ARES: `document` is a passage, `answer` the answer
    of a system.
    """
    document = fields.get("document")
    is_passage = isinstance(document, str) and len(document.split()) > _MAX_FACT
    is_triple = is_passage and {"query", "answer"} <= fields.keys()
    return is_triple or not fields.keys().isdisjoint(ARES_LABELS)


def _is_of_ours(name: str, fields: Mapping[str, Any], own: Collection[str]) -> bool:
    """Return True if a field has the name and the form of a label in ragbench's test sets (`own`).

    The `evidence` of FinanceBench and the `expected_chunks` of TruLens have only the name: they are
    texts.
    """
    if name not in own:
        return False
    if name not in EVIDENCE:
        return True
    value = fields.get(name)
    entries = value if isinstance(value, list) else [value]
    return not any(_is_text_of_others(entry) for entry in entries)


def _is_text_of_others(entry: Any) -> bool:
    if isinstance(entry, str):
        return len(entry.split()) > 3
    return isinstance(entry, Mapping) and not entry.keys().isdisjoint(_TEXTS_OF_OTHERS)


class _Reader:
    """Reads labels of any shape from the fields of a record.

    `unreadable` collects the fields of another shape, with the shape that was expected;
    `source_name` is the field that names documents, "" without one.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.unreadable: dict[str, str] = {}
        self.source_name = ""

    def answers(self, names: Iterable[str]) -> list[str]:
        """Return the texts in the first of these fields that the record has; [] for none."""
        name = first_name(self.fields, names)
        if not name:
            return []
        value = self.fields[name]
        if isinstance(value, str) and name in ALIAS_LISTS:
            value = read_cell(value.strip())
            if isinstance(value, str):
                value = value.split("::")
        elif isinstance(value, str) and name in ANSWERS:
            content = read_cell(value.strip())
            if isinstance(content, list):
                value = content
        texts = list(dict.fromkeys(_answer_texts(value)))
        if not texts:
            self.unreadable[name] = "a text, or a list of texts (numbers with a point need quotes)"
        return texts

    def facts(self, names: Iterable[str]) -> list[list[str]]:
        """Return the answers in the first of these fields as facts with aliases: a list of lists
        holds several facts, as BioASQ's `exact_answer` does.
        """
        name = first_name(self.fields, names)
        value = self.fields.get(name)
        if isinstance(value, list) and all(isinstance(part, list) for part in value):
            return [list(_answer_texts(part)) for part in value]
        texts = self.answers([name])
        return [texts] if texts else []

    def quotes(self, names: Iterable[str], delimiter: str = "") -> list[Quote]:
        """Return the texts in the first of these fields, with their documents."""
        name = first_name(self.fields, names)
        if not name:
            return []
        value = read_list(self.fields[name], delimiter)
        quotes = []
        for part in value if isinstance(value, list) else [value]:
            text: Any = part
            source: Any = ""
            if isinstance(part, Mapping):
                text = first(part, _QUOTE, "")
                source = first(part, _QUOTED_FROM, "")
            if isinstance(text, str) and text.strip():
                quotes.append(Quote(text, as_name(source) or ""))
        if not quotes:
            self.unreadable[name] = "a text, a list of texts, or objects with a text"
        return quotes

    def sources(self, names: Iterable[str]) -> tuple[list[str], list[list[str]]]:
        """Return the documents in the first of these fields, and the groups of alternatives."""
        self.source_name = first_name(self.fields, names)
        if not self.source_name:
            return [], []
        value = self.fields[self.source_name]
        if isinstance(value, str):
            value = read_cell(value.strip())
        if isinstance(value, str):
            return _split(value, _LISTED), []
        sources: list[str] = []
        groups = []
        for part in value if isinstance(value, list) else [value]:
            entries = part if isinstance(part, list) else [part]
            group = [as_name(entry) for entry in entries]
            if None in group:
                self.unreadable[self.source_name] = (
                    "the name of a document, or a list of names (numbers with a point need quotes)"
                )
                continue
            named = [name for name in group if name]
            sources += named
            if len(named) > 1:
                groups.append(named)
        return sources, groups


def _answer_texts(value: Any) -> Iterator[str]:
    """Yield the texts of an answer, which is a text, a whole number, a list or an object with a text."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list):
        for part in value:
            yield from _answer_texts(part)
    elif isinstance(value, Mapping):
        yield from _answer_texts(first(value, _ANSWER_INSIDE))


def as_name(value: Any) -> str | None:
    """Return the name of a document: the id or title of an object, the digits of a whole number;
    None for any other value.

    >>> as_name(7.0), as_name({"wikipedia_id": 290, "title": "A"}), as_name(True), as_name("")
    ('7', '290', None, '')
    """
    if isinstance(value, Mapping):
        return as_name(first(value, ("wikipedia_id", *_QUOTED_FROM)))
    if isinstance(value, str):
        return value.strip()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and value == value // 1:
        return str(int(value))
    return None


def outputs_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without its labels, with the system's output as `answer` and `contexts`.

    An empty field for the answer ("", null, NaN: a table does not distinguish them) is an empty
    answer; a record without such a field has no `answer`. Contexts may be a list that went through
    a table and became a text.

    >>> outputs_of({"input": "Why?", "actual_output": "So.", "retrieval_context": "A.|B.", "context": "A."})
    {'input': 'Why?', 'answer': 'So.', 'contexts': ['A.', 'B.']}
    >>> outputs_of({"question": "Why?", "answer": None, "contexts": "['A.', 'B.']"})
    {'question': 'Why?', 'answer': '', 'contexts': ['A.', 'B.']}
    """
    fields, is_deepeval, _ = _fields(record, is_filled=False)
    if _is_ares(fields):
        fields["contexts"] = [fields.pop("document", "")]
    expected = {*REFERENCES, *EVIDENCE, *REPLIES, *ANSWERS, *RETRIEVED, *CONTEXTS}
    outputs = {name: value for name, value in fields.items() if name not in expected}
    replies = [fields[name] for name in (*REPLIES, *ANSWERS) if name in fields]
    if replies:
        outputs["answer"] = next((reply for reply in replies if not is_empty(reply)), "")
    names = RETRIEVED if is_deepeval else (*RETRIEVED, *CONTEXTS)
    lists = [fields[name] for name in names if name in fields]
    if lists:
        contexts: Any = next((value for value in lists if not is_empty(value)), [])
        outputs["contexts"] = read_list(contexts, _JOINED if is_deepeval else "")
    return {name: value for name, value in outputs.items() if not is_missing(value)}


def is_missing(value: Any) -> bool:
    """Return True for null and for a missing value of pandas (NaN, NA, NaT): they are all the same.

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
    """Return the list that a table holds as a text; for a text that is not a list, its parts between
    delimiters (without a `delimiter`: the whole text); any other value unchanged.

    >>> read_list("['a', 'b']"), read_list("('a', 'b')"), read_list("array(['a', 'b'], dtype=object)")
    (['a', 'b'], ['a', 'b'], ['a', 'b'])
    >>> read_list("[]"), read_list("[1] shows it"), read_list("")
    ([], ['[1] shows it'], [])
    """
    if not isinstance(value, str):
        return value
    content = read_cell(value.strip())
    if isinstance(content, Mapping):
        return [content]
    return content if isinstance(content, list) else _split(value, delimiter)


def read_cell(text: str) -> Any:
    """Return the value that a text in a table or a span stands for: JSON, a list as Python, numpy or
    pandas writes it; else the text itself.

    >>> read_cell('{"k": 3}'), read_cell("['a' 'b']"), read_cell("[1] shows it")
    ({'k': 3}, ['a', 'b'], '[1] shows it')
    >>> read_cell("[{'text': 'a', 'score': nan}]")
    [{'text': 'a', 'score': nan}]
    """
    if not text.startswith(_OPENINGS):
        return text
    with suppress(ValueError, RecursionError):
        return parse_json(text)
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        content = _literal(ast.parse(_with_commas(text), mode="eval").body)
        if isinstance(content, list | dict):
            return content
    return text


_OPENINGS = ("{", "[", "(", "array(")
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
    """Return the source of a list with commas where numpy writes two values without one.

    Raises:
        tokenize.TokenError, SyntaxError: the text cannot be source.
    """
    source: list[str] = []
    depth = 0
    is_after_value = False
    last = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            continue
        opens = token.string in ("[", "(", "{")
        closes = token.string in ("]", ")", "}")
        is_value = token.type in (tokenize.STRING, tokenize.NUMBER, tokenize.NAME)
        is_call = token.string == "(" and last in _FACTORIES
        begins_value = (opens or is_value) and not is_call
        if depth > 0 and is_after_value and begins_value:
            source.append(",")
        source.append(token.string)
        if opens:
            depth += 1
        elif closes:
            depth -= 1
        is_after_value = is_value or closes
        last = token.string
    return " ".join(source)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal of Python, numpy or pandas.

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


def _fields(
    record: Mapping[str, Any], own: Collection[str] = (), *, is_filled: bool = True
) -> tuple[dict[str, Any], bool, dict[str, str]]:
    """Return the fields of a record under their folded names, see `column_name`.

    Among the fields are the nested ones, see `_flat`. Empty fields are left out if `is_filled`.
    Names in `own` are kept as they are, and so are their values, also empty ones.

    Returns:
        (folded name -> value, True for a record of DeepEval, folded name -> name in the record)
    """
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in _flat(record).items():
        folded_name = name
        if name not in own:
            folded_name = column_name(str(name))
            folded_name = re.sub(r"^inputs[./]", "", folded_name)  # of Azure and MLflow
            folded_name = re.sub(r"^(input|output)[./]", r"\1_", folded_name)
            folded_name = ALIASES.get(folded_name, folded_name)
            # an answer of ragbench has a text, even an empty one: its contexts are ids
            is_answer_text = folded_name == "text" and value == ""
            if is_filled and value in (None, "", [], {}) and not is_answer_text:
                continue
        elif value == "" and name not in (*QUESTIONS, *IDS, "text"):  # an empty cell of a table
            continue
        if folded_name in QUESTIONS and isinstance(value, Mapping | list):
            value = _question_of_request(value)
        fields.setdefault(folded_name, value)
        names.setdefault(folded_name, str(name))
    is_deepeval = any(signature <= fields.keys() for signature in _DEEPEVAL)
    return fields, is_deepeval and fields.keys().isdisjoint(ANSWERS), names


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the fields inside of promptfoo's `vars`, of `inputs` and `outputs`
    (LangSmith, MLflow) and of `expectations`.

    Its own fields go before nested ones of the same name. The first text among the inputs is the
    question where no input has the name of one.
    """
    flat = dict(record)
    for part in ("vars", "inputs", "outputs", "expectations", "input", "expected"):
        value = flat.get(part)
        if isinstance(value, str) and part in ("inputs", "outputs"):
            del flat[part]
            flat["question" if part == "inputs" else "answer"] = value
        if not isinstance(value, Mapping):
            continue
        del flat[part]
        if part == "expected":
            flat[part] = first(value, _ANSWER_INSIDE, "")
            continue
        if part == "expectations":
            flat[part] = True
        flat = {**value, **flat}
        texts = [text for text in value.values() if isinstance(text, str)]
        is_input = part in ("vars", "inputs", "input")
        if texts and is_input and value.keys().isdisjoint(QUESTIONS):
            flat[QUESTIONS[0]] = texts[0]
    return flat


def _question_of_request(request: Any) -> Any:
    """Return the question in a request to a chat model: the last message of a user, or the request's
    own text; the request itself where it has neither.
    """
    messages = request.get("messages") if isinstance(request, Mapping) else request
    if not isinstance(messages, list):
        return first(request, QUESTIONS, request)
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role", "user") == "user":
            return message.get("content", request)
    return request


def with_whole_numbers(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which the columns of whole numbers hold ints: an empty cell makes a table hold
    them as floats.

    >>> with_whole_numbers([{"source": 7.0, "score": 0.5}, {"source": 8.0, "score": 1.0}])
    [{'source': 7, 'score': 0.5}, {'source': 8, 'score': 1.0}]
    """
    others = set()  # columns with another value than a whole number
    for row in rows:
        for name, value in row.items():
            is_whole = isinstance(value, float) and value == value // 1
            if value is not None and not is_whole:
                others.add(name)
    converted = []
    for row in rows:
        cells = dict(row)
        for name, value in row.items():
            if name not in others and value is not None:
                cells[name] = int(value)
        converted.append(cells)
    return converted


def without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that are not null: null is the same as a missing field.

    >>> without_none({"_id": "q1", "text": "", "answer": None})
    {'_id': 'q1', 'text': ''}
    """
    return {name: value for name, value in record.items() if value is not None}


def first(fields: Mapping[str, Any], names: Iterable[str], default: Any = None) -> Any:
    """Return the value of the first of these fields that is not None, else `default`.

    >>> first({"output": None, "answer": "So."}, ANSWERS), first({}, IDS, "")
    ('So.', '')
    """
    return next((fields[name] for name in names if fields.get(name) is not None), default)


def first_name(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of these names that is a field; "" for none."""
    return next((name for name in names if name in fields), "")


def _split(text: str, delimiter: str) -> list[str]:
    """Return the parts of a text that are not blank; one part without a delimiter."""
    parts = re.split(delimiter, text) if delimiter else [text]
    return [part.strip() for part in parts if part.strip()]
