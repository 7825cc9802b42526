"""Names of fields in the records of other tools, and what each of them holds.

`answer`, `output`, `contexts` and `context` mean different things: what is expected, or what a
system gave. What else is in the record decides, see `labels_of` and `outputs_of`. Names are
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
"""Fields of what a system gave: they are no labels."""
ALIASES = {
    "input_question": "question",
    "input_query": "query",
    "input_input": "input",
    "output_answer": "answer",
    "output_output": "output",
    "reference_output_answer": "reference",
}
"""Columns of LangSmith -> the field that each is."""

LISTS = ("tests", "examples", "predictions", "data", "questions", "results", "rows", "records")
"""Fields of JSON and YAML files with their records: of promptfoo and LegalBench-RAG, LlamaIndex,
Langfuse and SQuAD, BioASQ, RAGChecker, Azure.
"""

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


_QUOTE = "text content evidence_text fact passage page_content quote".split()
_TEXTS_OF_OTHERS = {*_QUOTE} - {"quote"}
_QUOTED_FROM = "doc_name doc_uri doc_id document url source title file_path wikipedia_id".split()
_ANSWER_INSIDE = "text answer value content response output expected_response".split()
_LOGGED = ("record_json", "app_id", "scores", "trace", "expectations")
"""Fields next to which an `output` is the system's."""
_MAX_FACT = 8  # words; no answer states a longer text word by word


class Quote(NamedTuple):
    """A text that a document should hold, and the name of that document ("": not given)."""

    text: str
    source: str = ""


class Labels(NamedTuple):
    """What a record expects.

    `case` has the labels under the names of ragbench's own test sets, `names` the names that the
    record has for them where they differ. `quotes` and `sources` are still to be found in the
    documents; of each group of `alternatives` one document is enough. `doubtful` where its answer
    and contexts may be expected, or what a system gave. `unreadable` are fields with labels that
    are not what they should be, and what was expected. `is_foreign` where a field has a name that
    only other tools have.
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
        """Return the question, None where there is none."""
        return first(self.case, ("text", *QUESTIONS))


@lru_cache(maxsize=10_000)
def column_name(name: str) -> str:
    """Return the name of a field or column in one spelling, in which case, blanks and hyphens do not
    matter.

    >>> column_name("expectedOutput"), column_name(" Query-ID "), column_name("Answer Relevancy")
    ('expected_output', 'query_id', 'answer_relevancy')
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s-]+", "_", spaced.casefold())


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


def labels_of(record: Mapping[str, Any], own: Collection[str] = ()) -> Labels:
    """Return what a record expects, under whichever names. Contexts next to an answer are what a
    system retrieved, but for DeepEval's.

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
    is_ares = _is_ares(fields)
    is_logged = is_ares or not fields.keys().isdisjoint(_LOGGED)
    is_replied = is_logged or not fields.keys().isdisjoint(REPLIES)
    has_answer = is_replied or not fields.keys().isdisjoint(ANSWERS)
    reader = _Reader(fields)
    contexts = reader.quotes(CONTEXTS, _JOINED if is_deepeval else "")
    quotes = reader.quotes([name for name in EVIDENCE if not _is_of_ours(name, fields, own)])
    if not quotes and (is_deepeval or not has_answer):
        quotes = contexts
    elif has_answer and not is_deepeval:  # contexts next to an answer are the system's
        for name in CONTEXTS:
            reader.unreadable.pop(name, None)
    references, aliases = reader.answers(REFERENCES), reader.answers(ALIAS_LISTS)
    is_labelled = bool(references or aliases or quotes)
    doubtful = bool(contexts) and not (is_labelled or is_replied)
    is_outputs = is_logged or bool(aliases and (contexts or is_replied))
    facts = reader.facts(ALIAS_LISTS)
    if not (references or doubtful or is_outputs):
        references = reader.answers(ANSWERS)
        facts = [[*references, *facts[0]], *facts[1:]] if facts else []
    sources, groups = reader.sources([] if is_ares else SOURCES)
    sources += [quote.source for quote in quotes if quote.source]

    renamed = {"text": QUESTIONS, "query_id": IDS, "query_type": QUERY_TYPES, "gold_facts": FACTS}
    case: dict[str, Any] = {}
    names_of: dict[str, str] = {}
    for label, known in renamed.items():
        name = next((name for name in known if name in fields), "")
        if name and label == "text" and "text" in fields:
            case["text (not the question)"] = fields.pop("text")
        if not name or (label in fields and label in own):
            continue
        value = fields.pop(name)
        case[name if name in own else label] = value
        if name not in own:
            names_of[label] = names[name]
        if label == "text":  # the same question under a second name
            again = [name for name in QUESTIONS if fields.get(name) == value]
            fields = {name: other for name, other in fields.items() if name not in again}
    answers = list(dict.fromkeys((*references, *aliases)))
    if answers and fields.keys().isdisjoint({*own} & {*REFERENCES}):
        case["reference_answer"] = answers[0]
        known = (*REFERENCES, *ALIAS_LISTS, *ANSWERS)
        names_of["reference_answer"] = next(names[name] for name in known if name in fields)
    is_short = all(len(text.split()) <= _MAX_FACT for fact in facts for text in fact)
    if facts and is_short and "gold_facts" not in (*case, *fields):
        case["gold_facts"] = facts
    read = {*REFERENCES, *ALIAS_LISTS, *ANSWERS, *CONTEXTS, *EVIDENCE, *SYSTEM_FIELDS}
    read |= {*PASSAGES, *ARES_LABELS, *_LOGGED, *NUGGETS, reader.source_name}
    if is_ares:
        read.add("document")
    if not fields.keys().isdisjoint(PASSAGES):
        read |= {*PASSAGE_IDS, *PASSAGE_SCORES}
    for name, value in fields.items():
        if name not in read or _is_of_ours(name, fields, own):
            case[name if name in own else names[name]] = value
    if len(answers) > 1 and "gold_facts" not in case:
        case.setdefault("metadata", {})
        if isinstance(case["metadata"], Mapping):
            case["metadata"] = {"other_references": answers[1:], **case["metadata"]}
    is_foreign = bool(quotes or sources) or any(
        name not in own and (name in read or name not in case) for name in fields
    )
    unreadable = {names[name]: expected for name, expected in reader.unreadable.items()}
    return Labels(
        case,
        names_of,
        quotes,
        list(dict.fromkeys(sources)),
        groups,
        doubtful,
        unreadable,
        is_foreign or bool(names_of),
    )


def _is_ares(fields: Mapping[str, Any]) -> bool:
    """Return True if a record has the columns of ARES, in which `document` is a passage and
    `answer` is the system's.
    """
    document = fields.get("document")
    is_passage = isinstance(document, str) and len(document.split()) > _MAX_FACT
    is_triple = is_passage and {"query", "answer"} <= fields.keys()
    return is_triple or not fields.keys().isdisjoint(ARES_LABELS)


def _is_of_ours(name: str, fields: Mapping[str, Any], own: Collection[str]) -> bool:
    """Return True if a field has the name of a label of ours, and the form of it: the `evidence` of
    FinanceBench and the `expected_chunks` of TruLens are texts.
    """
    if name not in own:
        return False
    if name not in EVIDENCE:
        return True
    value = fields.get(name)
    entries = value if isinstance(value, list) else [value]
    return not any(
        (isinstance(entry, str) and len(entry.split()) > 3)
        or (isinstance(entry, Mapping) and not entry.keys().isdisjoint(_TEXTS_OF_OTHERS))
        for entry in entries
    )


class _Reader:
    """Reads labels of any shape from the fields of a record, and collects those that it cannot."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.unreadable: dict[str, str] = {}
        self.source_name = ""

    def answers(self, names: Iterable[str]) -> list[str]:
        """Return the texts under the first of these names that is there."""
        name = next((name for name in names if name in self.fields), "")
        if not name:
            return []
        value = self.fields[name]
        if isinstance(value, str) and name in ALIAS_LISTS:
            value = read_cell(value.strip())
            value = value.split("::") if isinstance(value, str) else value
        elif isinstance(value, str) and name in ANSWERS:
            content = read_cell(value.strip())
            value = content if isinstance(content, list) else value
        texts = list(dict.fromkeys(_answer_texts(value)))
        if not texts:
            self.unreadable[name] = "a text, or a list of texts (numbers with a point need quotes)"
        return texts

    def facts(self, names: Iterable[str]) -> list[list[str]]:
        """Return the answers under the first of these names as facts with aliases: a list of lists
        has several facts, as BioASQ's `exact_answer` has.
        """
        name = next((name for name in names if name in self.fields), "")
        value = self.fields.get(name)
        if isinstance(value, list) and all(isinstance(part, list) for part in value):
            return [list(_answer_texts(part)) for part in value]
        texts = self.answers([name])
        return [texts] if texts else []

    def quotes(self, names: Iterable[str], delimiter: str = "") -> list[Quote]:
        """Return the texts under the first of these names, with their documents."""
        name = next((name for name in names if name in self.fields), "")
        if not name:
            return []
        value = read_list(self.fields[name], delimiter)
        quotes = []
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                text, source = first(part, _QUOTE, ""), first(part, _QUOTED_FROM, "")
            else:
                text, source = part, ""
            if isinstance(text, str) and text.strip():
                quotes.append(Quote(text, as_name(source) or ""))
        if not quotes:
            self.unreadable[name] = "a text, a list of texts, or objects with a text"
        return quotes

    def sources(self, names: Iterable[str]) -> tuple[list[str], list[list[str]]]:
        """Return the documents under the first of these names, and the groups of alternatives."""
        self.source_name = next((name for name in names if name in self.fields), "")
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
    """Yield the texts that an answer in any shape holds: itself, a list, an object with a text."""
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
    """Return the name of a document: of an object its id or title, of a whole number its digits;
    None for what is no name.

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
    """Return a record without what it expects, and what a system gave as `answer` and `contexts`.

    A field for an answer that is empty ("", null, NaN: a table does not distinguish them) is an
    empty answer; without such a field there is none. Contexts may be a text as a table holds a list.

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
        contexts: Any = next((each for each in lists if not is_empty(each)), [])
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
    """Return the list that a text holds which went through a table, else a list of the text; any
    other value as it is.

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
    """Return what a cell of a table or an attribute of a span holds: JSON, a list as Python, numpy or
    pandas writes it, or the text.

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
    """Return the source of a list with a comma between two values that numpy writes without one."""
    source: list[tuple[int, str]] = []
    depth, is_after_value, last = 0, False, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            continue
        opens = token.string in ("[", "(", "{")
        is_value = token.type in (tokenize.STRING, tokenize.NUMBER, tokenize.NAME)
        is_call = token.string == "(" and last in _FACTORIES
        if depth and is_after_value and (opens or is_value) and not is_call:
            source.append((tokenize.OP, ","))
        source.append((token.type, token.string))
        depth += opens - (token.string in ("]", ")", "}"))
        is_after_value = is_value or token.string in ("]", ")", "}")
        last = token.string
    return " ".join(string for _, string in source)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal of Python, numpy or pandas; ValueError for any other code."""
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
    """Return the fields under their folded names (`is_filled`: those that are not empty); whether the record is
    DeepEval's; and the names as they are in the record.

    Among the fields are the parts of promptfoo's `vars`, of `inputs` and `outputs` (LangSmith,
    MLflow) and of `expectations`; the first text is the question where none has the name of one.
    Names in `own` are kept, and so are their values, also empty ones.
    """
    flat = dict(record)
    for part in ("vars", "inputs", "outputs", "expectations", "input", "expected"):
        value = flat.get(part)
        if isinstance(value, str) and part in ("inputs", "outputs"):
            del flat[part]
            flat["question" if part == "inputs" else "answer"] = value
        if not isinstance(value, Mapping):
            continue
        texts = [text for text in value.values() if isinstance(text, str)]
        is_question = part in ("vars", "inputs", "input") and value.keys().isdisjoint(QUESTIONS)
        del flat[part]
        if part == "expected":
            flat[part] = first(value, _ANSWER_INSIDE, "")
            continue
        if part == "expectations":
            flat[part] = True
        flat = {**value, **flat}
        if texts and is_question:
            flat[QUESTIONS[0]] = texts[0]
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, value in flat.items():
        folded_name = name
        if name not in own:
            folded_name = column_name(str(name))
            folded_name = re.sub(r"^inputs[./]", "", folded_name)  # of Azure and MLflow
            folded_name = re.sub(r"^(input|output)[./]", r"\1_", folded_name)
            folded_name = ALIASES.get(folded_name, folded_name)
            # an answer of ours has a text, also an empty one: its contexts are ids
            is_empty = value in (None, "", [], {}) and (folded_name, value) != ("text", "")
            if is_filled and is_empty:
                continue
        elif value == "" and name not in (*QUESTIONS, *IDS, "text"):  # an empty cell of a table
            continue
        if folded_name in QUESTIONS and isinstance(value, Mapping | list):
            value = _asked(value)
        fields.setdefault(folded_name, value)
        names.setdefault(folded_name, str(name))
    is_deepeval = any(sign <= fields.keys() for sign in _DEEPEVAL)
    return fields, is_deepeval and fields.keys().isdisjoint(ANSWERS), names


def _asked(request: Any) -> Any:
    """Return the question of a request: the last message of a user, or its own text."""
    messages = request.get("messages") if isinstance(request, Mapping) else request
    if isinstance(messages, list):
        asked = [each for each in messages if isinstance(each, Mapping)]
        asked = [each for each in asked if each.get("role", "user") == "user"]
        return asked[-1].get("content", request) if asked else request
    return first(request, QUESTIONS, request)


def with_whole_numbers(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which a column of whole numbers has no points: one with an empty cell has.

    >>> with_whole_numbers([{"source": 7.0, "score": 0.5}, {"source": 8.0, "score": 1.0}])
    [{'source': 7, 'score': 0.5}, {'source': 8, 'score': 1.0}]
    """
    names = dict.fromkeys(name for row in rows for name in row)
    values_of = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
    whole = {
        name
        for name, values in values_of.items()
        if all(isinstance(value, float) and value == value // 1 for value in values)
    }
    return [
        {
            name: int(value) if name in whole and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


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


def _split(text: str, delimiter: str) -> list[str]:
    parts = re.split(delimiter, text) if delimiter else [text]
    return [part.strip() for part in parts if part.strip()]
