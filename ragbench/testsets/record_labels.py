"""The labels in a record of another tool: question, expected answers and texts, and documents."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.testsets.fields import (
    ALIAS_LISTS,
    ANSWER_PARTS,
    ANSWERS,
    ARES_LABELS,
    CONTEXTS,
    DEEPEVAL_DELIMITER,
    EVIDENCE,
    FACTS,
    IDS,
    NUGGETS,
    PASSAGE_IDS,
    PASSAGE_SCORES,
    PASSAGES,
    QUERY_TYPES,
    QUESTIONS,
    REFERENCES,
    REPLIES,
    SOURCES,
    SYSTEM_FIELDS,
    first,
    first_name,
    is_ares,
    read_cell,
    read_list,
    record_fields,
    split_text,
)

_DELIMITERS = r"[;|]"  # of people, between names of documents
_QUOTE = "text content evidence_text fact passage page_content quote".split()
_TEXTS_OF_OTHERS = {*_QUOTE} - {"quote"}
_QUOTED_FROM = "doc_name doc_uri doc_id document url source title file_path wikipedia_id".split()
_LOGGED = ("record_json", "app_id", "scores", "trace", "expectations")
"""Fields of logs: an `output` next to one of them is the output of a system."""
_MAX_FACT = 8  # words; no answer states a longer text word by word
_RENAMED = {"text": QUESTIONS, "query_id": IDS, "query_type": QUERY_TYPES, "gold_facts": FACTS}
"""Label of a case -> the names that records have for it."""


class Quote(NamedTuple):
    """A text that a document should hold, and the name of that document ("": not given)."""

    text: str
    source: str = ""


class Labels(NamedTuple):
    """The labels of a record.

    Attributes:
        case: label -> value, under the names of ragbench's own test sets.
        names: label -> the record's name for it, if that is different.
        quotes: expected texts, which are not looked up in the documents yet.
        sources: names of relevant documents, which are not looked up yet either.
        alternatives: groups of documents of which one is enough.
        doubtful: True if the record's answer and contexts may be labels or the output of a system.
        unreadable: field whose value has the wrong form -> the expected form.
        is_foreign: True if a field has a name that only other tools use.
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
        """Return the question; None without one."""
        return first(self.case, ("text", *QUESTIONS))


def labels_of(record: Mapping[str, Any], own: Collection[str] = ()) -> Labels:
    """Return the labels of a record, whatever their names.

    Contexts next to an answer are the contexts that a system retrieved, except in DeepEval's records.

    Args:
        record: fields by name.
        own: names of labels in ragbench's own test sets, which keep their names and values.

    >>> row = {"question": "Why?", "contexts": ["A."], "answer": "So.", "ground_truth": "Therefore."}
    >>> labels_of(row).case, labels_of(row).quotes
    ({'text': 'Why?', 'reference_answer': 'Therefore.'}, [])
    >>> labels_of({"question": "Why?", "context": ["A."], "ground_truth": "Therefore."}).quotes
    [Quote(text='A.', source='')]
    """
    fields, is_deepeval, names = record_fields(record, own)
    reader = _Reader(fields)
    expected = _expected(fields, own, reader, is_deepeval=is_deepeval)
    source_fields = () if is_ares(fields) else SOURCES
    sources, groups = reader.sources(source_fields)
    sources += [quote.source for quote in expected.quotes if quote.source]
    names_with_meaning = _names_with_a_meaning(fields, reader.source_name)

    case, names_of = _take_renamed(fields, names, own)
    answers = list(dict.fromkeys((*expected.references, *expected.aliases)))
    has_own_reference = not fields.keys().isdisjoint({*own} & {*REFERENCES})
    if answers and not has_own_reference:
        case["reference_answer"] = answers[0]
        name = first_name(fields, (*REFERENCES, *ALIAS_LISTS, *ANSWERS))
        names_of["reference_answer"] = names[name]
    has_own_facts = "gold_facts" in case or "gold_facts" in fields
    if _are_short(expected.facts) and not has_own_facts:
        case["gold_facts"] = expected.facts
    for name, value in fields.items():
        if name not in names_with_meaning or _is_own_label(name, fields, own):
            case[name if name in own else names[name]] = value
    if len(answers) > 1 and "gold_facts" not in case:
        metadata = case.setdefault("metadata", {})
        if isinstance(metadata, Mapping):
            case["metadata"] = {"other_references": answers[1:], **metadata}
    is_foreign = bool(names_of or expected.quotes or sources)
    for name in fields:
        is_foreign_name = name in names_with_meaning or name not in case
        if name not in own and is_foreign_name:
            is_foreign = True
    return Labels(
        case,
        names_of,
        expected.quotes,
        list(dict.fromkeys(sources)),
        groups,
        expected.doubtful,
        {names[name]: form for name, form in reader.unreadable.items()},
        is_foreign,
    )


class _Expected(NamedTuple):
    """The expected answers and texts of a record; `doubtful` as in `Labels`.

    Attributes:
        references: reference answers.
        aliases: further answers that are right.
        facts: the aliases as facts, each a list of wordings.
        quotes: texts that documents should hold.
    """

    references: list[str]
    aliases: list[str]
    facts: list[list[str]]
    quotes: list[Quote]
    doubtful: bool


def _expected(
    fields: Mapping[str, Any], own: Collection[str], reader: "_Reader", *, is_deepeval: bool
) -> _Expected:
    """Return the expected answers and texts of a record, as distinct from the output of a system.

    Fields such as `answer` and `contexts` hold either: they count as expected unless other fields show
    that the record logs a system. `doubtful` is True if no field decides between the two.
    """
    is_logged = is_ares(fields) or not fields.keys().isdisjoint(_LOGGED)
    has_reply = is_logged or not fields.keys().isdisjoint(REPLIES)
    has_answer = has_reply or not fields.keys().isdisjoint(ANSWERS)
    contexts = reader.quotes(CONTEXTS, DEEPEVAL_DELIMITER if is_deepeval else "")
    quotes = reader.quotes([name for name in EVIDENCE if not _is_own_label(name, fields, own)])
    are_contexts_retrieved = has_answer and not is_deepeval
    if not quotes and not are_contexts_retrieved:
        quotes = contexts
    elif are_contexts_retrieved:  # contexts of a system are not read, so their form is no problem
        for name in CONTEXTS:
            reader.unreadable.pop(name, None)
    references = reader.answers(REFERENCES)
    aliases = reader.answers(ALIAS_LISTS)
    facts = reader.facts(ALIAS_LISTS)
    is_labelled = bool(references or aliases or quotes)
    doubtful = bool(contexts) and not is_labelled and not has_reply
    has_output = is_logged or bool(aliases and (contexts or has_reply))
    if not references and not doubtful and not has_output:
        references = reader.answers(ANSWERS)
        if facts:
            facts = [[*references, *facts[0]], *facts[1:]]
    return _Expected(references, aliases, facts, quotes, doubtful)


def _names_with_a_meaning(fields: Mapping[str, Any], source_name: str) -> set[str]:
    """Return the names of fields that are read as labels, or belong to a system's output."""
    names = {*REFERENCES, *ALIAS_LISTS, *ANSWERS, *CONTEXTS, *EVIDENCE, *SYSTEM_FIELDS}
    names |= {*PASSAGES, *ARES_LABELS, *_LOGGED, *NUGGETS, source_name}
    if is_ares(fields):
        names.add("document")
    if not fields.keys().isdisjoint(PASSAGES):
        names |= {*PASSAGE_IDS, *PASSAGE_SCORES}
    return names


def _take_renamed(
    fields: dict[str, Any], names: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Move the question, the id, the type and the facts out of `fields`.

    Returns:
        (label -> value, label -> the record's name for it, if that is different)
    """
    case: dict[str, Any] = {}
    names_of: dict[str, str] = {}
    for label, foreign_names in _RENAMED.items():
        name = first_name(fields, foreign_names)
        if name and label == "text" and "text" in fields:
            # in ragbench's cases, `text` is the question
            case["text (not the question)"] = fields.pop("text")
        has_own_label = label in fields and label in own
        if not name or has_own_label:
            continue
        value = fields.pop(name)
        if name in own:
            case[name] = value
        else:
            case[label] = value
            names_of[label] = names[name]
        if label == "text":
            repeated = [other for other in QUESTIONS if fields.get(other) == value]
            for other in repeated:
                fields.pop(other, None)
    return case, names_of


def _are_short(facts: Sequence[Sequence[str]]) -> bool:
    """Return True if there are facts, and each is so short that an answer may state it literally."""
    for fact in facts:
        for text in fact:
            if len(text.split()) > _MAX_FACT:
                return False
    return bool(facts)


def _is_own_label(name: str, fields: Mapping[str, Any], own: Collection[str]) -> bool:
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
    """Return True for evidence in the form of another tool: a text, or an object with a text."""
    if isinstance(entry, str):
        return len(entry.split()) > 3
    return isinstance(entry, Mapping) and not entry.keys().isdisjoint(_TEXTS_OF_OTHERS)


class _Reader:
    """Reads labels of any form from the fields of a record.

    Attributes:
        unreadable: field whose value has the wrong form -> the expected form.
        source_name: the field that names documents; "" without one.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.unreadable: dict[str, str] = {}
        self.source_name = ""

    def answers(self, names: Iterable[str]) -> list[str]:
        """Return the texts in the first of these fields that the record has; [] if it has none.

        A text of several aliases (`ALIAS_LISTS`) is a list in a table's cell, or separated by "::".
        """
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
        """Return the answers in the first of these fields as facts with aliases.

        A list of texts is one fact; a list of lists is several facts, as BioASQ's `exact_answer`.
        """
        name = first_name(self.fields, names)
        value = self.fields.get(name)
        if isinstance(value, list) and all(isinstance(part, list) for part in value):
            return [list(_answer_texts(part)) for part in value]
        texts = self.answers([name])
        return [texts] if texts else []

    def quotes(self, names: Iterable[str], delimiter: str = "") -> list[Quote]:
        """Return the texts in the first of these fields that the record has, with the names of their
        documents ("" if unknown); [] if it has none of the fields.

        A field without any text is added to `unreadable`.
        """
        name = first_name(self.fields, names)
        if not name:
            return []
        value = read_list(self.fields[name], delimiter)
        parts = value if isinstance(value, list) else [value]
        quotes = []
        for part in parts:
            text: Any = part
            source: Any = ""
            if isinstance(part, Mapping):
                text = first(part, _QUOTE, "")
                source = first(part, _QUOTED_FROM, "")
            if isinstance(text, str) and text.strip():
                quotes.append(Quote(text, _document_name(source) or ""))
        if not quotes:
            self.unreadable[name] = "a text, a list of texts, or objects with a text"
        return quotes

    def sources(self, names: Iterable[str]) -> tuple[list[str], list[list[str]]]:
        """Return the names of the documents in the first of these fields that the record has, and the
        groups of alternatives among them; ([], []) if it has none of the fields.

        A list of documents within the list is a group of alternatives; documents without a name are
        left out. The field becomes `source_name`. If a document's name has the wrong form, its part of
        the list is left out, and the field is added to `unreadable`.
        """
        self.source_name = first_name(self.fields, names)
        if not self.source_name:
            return [], []
        value = self.fields[self.source_name]
        if isinstance(value, str):
            value = read_cell(value.strip())
        if isinstance(value, str):
            return split_text(value, _DELIMITERS), []
        parts = value if isinstance(value, list) else [value]
        sources: list[str] = []
        groups = []
        for part in parts:
            entries = part if isinstance(part, list) else [part]
            names_in_part = [_document_name(entry) for entry in entries]
            if None in names_in_part:  # not the name of a document; "" is an empty name
                self.unreadable[self.source_name] = (
                    "the name of a document, or a list of names (numbers with a point need quotes)"
                )
                continue
            documents = [name for name in names_in_part if name]
            sources += documents
            if len(documents) > 1:
                groups.append(documents)
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
        yield from _answer_texts(first(value, ANSWER_PARTS))


def _document_name(value: Any) -> str | None:
    """Return the name of a document: the id or title of an object, the digits of a whole number;
    None for any other value.

    >>> _document_name(7.0), _document_name({"wikipedia_id": 290, "title": "A"})
    ('7', '290')
    >>> _document_name(True), _document_name("")
    (None, '')
    """
    if isinstance(value, Mapping):
        return _document_name(first(value, ("wikipedia_id", *_QUOTED_FROM)))
    if isinstance(value, str):
        return value.strip()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and value == value // 1:
        return str(int(value))
    return None
