"""Which field of another tool's record is the question, the expected answer, a quote or a document,
and when an answer or context is a system's instead; `fields` has their names.
"""

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
"""Fields of an object that hold a quote."""
_TEXTS_OF_OTHERS = {*_QUOTE} - {"quote"}
_QUOTED_FROM = "doc_name doc_uri doc_id document url source title file_path wikipedia_id".split()
"""Fields of an object that name the document of its quote."""
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


def labels_of(record: Mapping[str, Any], case_fields: Collection[str] = ()) -> Labels:
    """Return the labels of a record (question, reference answer, quotes, documents, ...), by whatever
    names ragbench or another tool calls them.

    Contexts next to an answer are taken for the output of a system, not for labels, except in
    DeepEval's records.

    Args:
        record: fields by name.
        case_fields: names of fields that keep their names and values: the labels of ragbench's own
            test sets.

    >>> row = {"question": "Why?", "contexts": ["A."], "answer": "So.", "ground_truth": "Therefore."}
    >>> labels_of(row).case, labels_of(row).quotes
    ({'text': 'Why?', 'reference_answer': 'Therefore.'}, [])
    >>> labels_of({"question": "Why?", "context": ["A."], "ground_truth": "Therefore."}).quotes
    [Quote(text='A.', source='')]
    """
    # `fields` has names in one spelling; `name_in_record` has the record's spelling of each
    fields, is_deepeval, name_in_record = record_fields(record, case_fields)
    reader = _Reader(fields)
    expected = _expected(fields, case_fields, reader, is_deepeval=is_deepeval)
    sources, alternatives = reader.sources(() if is_ares(fields) else SOURCES)
    sources += [quote.source for quote in expected.quotes if quote.source]
    known_names = _names_with_a_meaning(fields, reader.source_name)

    case, renamed = _take_renamed(fields, name_in_record, case_fields)
    answers = list(dict.fromkeys((*expected.references, *expected.aliases)))
    has_own_reference = _has_any(fields, {*case_fields} & {*REFERENCES})
    if answers and not has_own_reference:
        case["reference_answer"] = answers[0]
        name = first_name(fields, (*REFERENCES, *ALIAS_LISTS, *ANSWERS))
        renamed["reference_answer"] = name_in_record[name]
    has_own_facts = "gold_facts" in case or "gold_facts" in fields
    # long texts are whole answers: no other answer would state one literally
    if _are_short(expected.facts) and not has_own_facts:
        case["gold_facts"] = expected.facts
    for name, value in fields.items():  # the other fields are kept unchanged
        if name not in known_names or _is_ragbench_label(name, fields, case_fields):
            kept_name = name if name in case_fields else name_in_record[name]
            case[kept_name] = value
    if "gold_facts" not in case:  # gold facts would hold all answers
        _add_other_references(case, answers[1:])
    # other tools' names of labels, and names in another spelling
    foreign_names = [
        name
        for name in fields
        if name not in case_fields and (name in known_names or name not in case)
    ]
    return Labels(
        case,
        names=renamed,
        quotes=expected.quotes,
        sources=list(dict.fromkeys(sources)),
        alternatives=alternatives,
        doubtful=expected.doubtful,
        unreadable={name_in_record[name]: form for name, form in reader.unreadable.items()},
        is_foreign=bool(renamed or expected.quotes or sources or foreign_names),
    )


def _add_other_references(case: dict[str, Any], answers: Sequence[str]) -> None:
    """Put further reference answers into the metadata of a case; do nothing for none, or if the record
    has a field "metadata" that is no object.
    """
    metadata = case.get("metadata", {})
    if answers and isinstance(metadata, Mapping):
        case["metadata"] = {"other_references": list(answers), **metadata}


def _has_any(fields: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Return True if a record has at least one of these fields."""
    return not fields.keys().isdisjoint(names)


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
    fields: Mapping[str, Any], case_fields: Collection[str], reader: "_Reader", *, is_deepeval: bool
) -> _Expected:
    """Return the expected answers and texts of a record, as distinct from the output of a system.

    Fields such as `answer` and `contexts` may hold a label or a system's output:

    - contexts next to an answer are a system's output, except in DeepEval's records;
    - contexts without any answer are a label (the texts of the evidence);
    - an answer is a label, unless the record has a reference answer, or is the log of a system.

    `doubtful` is True if contexts stand next to an answer, and no other field shows whether the two are
    labels or the output of a system: then neither is taken as a label.

    Args:
        fields: fields of the record by name.
        case_fields: names of labels in ragbench's own test sets.
        reader: reads the fields of this record.
        is_deepeval: True for a record of DeepEval, whose `context` is a label.
    """
    is_log = is_ares(fields) or _has_any(fields, _LOGGED)
    has_system_answer = is_log or _has_any(fields, REPLIES)
    has_answer = has_system_answer or _has_any(fields, ANSWERS)  # of a system, or a label

    contexts = reader.quotes(CONTEXTS, DEEPEVAL_DELIMITER if is_deepeval else "")
    evidence_names = [
        name for name in EVIDENCE if not _is_ragbench_label(name, fields, case_fields)
    ]
    quotes = reader.quotes(evidence_names)
    contexts_are_retrieved = has_answer and not is_deepeval
    if contexts_are_retrieved:  # they are no labels, so they may have any form
        for name in CONTEXTS:
            reader.unreadable.pop(name, None)
    elif not quotes:
        quotes = contexts

    references = reader.answers(REFERENCES)
    aliases = reader.answers(ALIAS_LISTS)
    facts = reader.facts(ALIAS_LISTS)
    is_labelled = bool(references or aliases or quotes)
    doubtful = bool(contexts) and not is_labelled and not has_system_answer
    has_labels_and_output = bool(aliases) and (bool(contexts) or has_system_answer)
    is_answer_of_system = is_log or has_labels_and_output
    if not references and not doubtful and not is_answer_of_system:
        references = reader.answers(ANSWERS)
        if facts:  # the answer is one more wording of the first fact
            facts = [[*references, *facts[0]], *facts[1:]]
    return _Expected(references, aliases, facts, quotes, doubtful)


def _names_with_a_meaning(fields: Mapping[str, Any], source_name: str) -> set[str]:
    """Return the names of fields that are read as labels, or belong to a system's output: all other
    fields of a record are kept as they are.

    Args:
        source_name: the field from which the document of a quote is read.
    """
    names = {*REFERENCES, *ALIAS_LISTS, *ANSWERS, *CONTEXTS, *EVIDENCE, *SYSTEM_FIELDS}
    names |= {*PASSAGES, *ARES_LABELS, *_LOGGED, *NUGGETS, source_name}
    if is_ares(fields):
        names.add("document")  # the context, in a record of ARES only
    if _has_any(fields, PASSAGES):
        names |= {*PASSAGE_IDS, *PASSAGE_SCORES}
    return names


def _take_renamed(
    fields: dict[str, Any], name_in_record: Mapping[str, str], case_fields: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Move the question, the id, the type and the facts out of `fields`, which is changed in place.

    {"question": "Why?", "qid": "q1"} gives the case {"text": "Why?", "query_id": "q1"}. A label that
    already has ragbench's own name stays in `fields`, because nothing is to be renamed. In {"question":
    "Why?", "text": "A passage."} the field `text` is not the question, and gets a name that says so.

    Args:
        fields: folded name -> value.
        name_in_record: name in `fields` -> name in the record.
        case_fields: names of fields that keep their names: the labels of ragbench's own test sets.

    Returns:
        (label -> value, label -> the record's name for it, if that is different)
    """
    case: dict[str, Any] = {}
    renamed: dict[str, str] = {}
    for label, foreign_names in _RENAMED.items():
        name = first_name(fields, foreign_names)
        if name and label == "text" and "text" in fields:
            # the question is in the field `name`, and "text" is another text; it is renamed, because
            # ragbench's cases call the question "text"
            case["text (not the question)"] = fields.pop("text")
        has_own_label = label in fields and label in case_fields
        if not name or has_own_label:  # nothing to rename
            continue
        value = fields.pop(name)
        if name in case_fields:
            # ragbench's own test sets also have a field of this name
            case[name] = value
        else:
            case[label] = value
            renamed[label] = name_in_record[name]
        if label == "text":
            # copies of the question in other fields are dropped
            for other in QUESTIONS:
                if fields.get(other) == value:
                    fields.pop(other, None)
    return case, renamed


def _are_short(facts: Sequence[Sequence[str]]) -> bool:
    """Return True if there are facts, and each is so short that an answer may state it literally."""
    for fact in facts:
        for text in fact:
            if len(text.split()) > _MAX_FACT:
                return False
    return bool(facts)


def _is_ragbench_label(name: str, fields: Mapping[str, Any], case_fields: Collection[str]) -> bool:
    """Return True if a field is a label as in ragbench's own test sets, whose names are `case_fields`.

    For most fields the name decides. A field of evidence must also have ragbench's form, because other
    tools have texts in fields of the same name, such as the `evidence` of FinanceBench. A missing
    field has no other form: it counts as ragbench's.
    """
    if name not in case_fields:
        return False
    if name not in EVIDENCE:
        return True
    value = fields.get(name)
    entries = value if isinstance(value, list) else [value]
    return not any(_is_evidence_of_other_tools(entry) for entry in entries)


def _is_evidence_of_other_tools(entry: Any) -> bool:
    """Return True for evidence in the form of another tool: a text of more than three words (a shorter
    text is an id), or an object with a text.
    """
    if isinstance(entry, str):
        return len(entry.split()) > 3
    return isinstance(entry, Mapping) and _has_any(entry, _TEXTS_OF_OTHERS)


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

        A field of aliases (`ALIAS_LISTS`) may be a text that holds several: "['1881', 'in 1881']", or
        "1881::in 1881". A field without any text is added to `unreadable`.
        """
        name = first_name(self.fields, names)
        if not name:
            return []
        value = self.fields[name]
        if isinstance(value, str) and name in (*ALIAS_LISTS, *ANSWERS):
            content = read_cell(value.strip())
            if name in ALIAS_LISTS:
                value = content.split("::") if isinstance(content, str) else content
            elif isinstance(content, list):
                value = content
        texts = list(dict.fromkeys(_answer_texts(value)))
        if not texts:
            self.unreadable[name] = "a text, or a list of texts (numbers with a point need quotes)"
        return texts

    def facts(self, names: Iterable[str]) -> list[list[str]]:
        """Return the answers in the first of these fields as facts. Each fact is the list of its wordings.

        A list of texts is one fact: ["1881", "in 1881"] -> [["1881", "in 1881"]]. A list of lists is
        several facts, as in BioASQ's `exact_answer`.
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
        entries = value if isinstance(value, list) else [value]
        quotes = []
        for entry in entries:
            text: Any = entry
            source: Any = ""
            if isinstance(entry, Mapping):
                text = first(entry, _QUOTE, "")
                source = first(entry, _QUOTED_FROM, "")
            if isinstance(text, str) and text.strip():
                quotes.append(Quote(text, _document_name(source) or ""))
        if not quotes:
            self.unreadable[name] = "a text, a list of texts, or objects with a text"
        return quotes

    def sources(self, names: Iterable[str]) -> tuple[list[str], list[list[str]]]:
        """Return the names of the documents in the first of these fields that the record has, and the
        groups of alternatives among them; ([], []) if it has none of the fields.

        A list within the list is a group of alternatives, of which one document is enough: [["a", "b"],
        "c"] gives (["a", "b", "c"], [["a", "b"]]). Documents without a name are left out, and so is a
        part of the list in which a name has the wrong form; then the field is added to `unreadable`.
        `source_name` is set to the name of the field, "" for none.
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
            if None in names_in_part:  # an entry has the wrong form
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
