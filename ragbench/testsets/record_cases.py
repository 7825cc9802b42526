"""What the labels in another tool's record mean: promptfoo's assertions (contains, equals, ...;
others are not read), TREC's nuggets, alternative documents; quotes are looked up, rows of one
question joined.

Reference contexts are looked for in the documents and become evidence; a context that no document holds
stays in the case's metadata, with a warning. A source is a relevant document.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.datasets.jsonl import located, shown
from ragbench.datasets.passages import NOWHERE, Texts
from ragbench.datasets.raw_records import Flaws, warn_all
from ragbench.errors import DataError
from ragbench.testsets.assembly import DocumentIds
from ragbench.testsets.cases import CaseLine, Content, Entry, check, entry_of, fields_of, nth_id
from ragbench.testsets.located_data import Record
from ragbench.testsets.problems import Problem, nearest
from ragbench.testsets.published import NO_QUESTION, expanded_row, refuse_foreign
from ragbench.testsets.record_labels import Labels, Quote, labels_of
from ragbench.types import Case, Document, Span

_REQUIRING = "contains icontains contains-all icontains-all".split()
"""Types of promptfoo's assertions that require keywords, and below those that forbid texts and those
with a reference answer. The letter i means that case is ignored."""
_FORBIDDING = "not-contains not-icontains not-contains-any not-icontains-any".split()
_EXPECTING = "equals similar factuality model-graded-factuality rouge-n context-recall".split()
_UNMATCHED = "reference contexts are in no document of the corpus: they are metadata, not evidence"
_WITHOUT_DOCUMENTS = "reference contexts become evidence only with the documents (corpus=, --docs)"
_ALTERNATIVES = (
    "questions have alternative documents, of which one is enough; measures of evidence (passages) "
    "count each"
)
_SEVERAL = "questions have several reference answers; the first is read, the others are metadata"
_DOUBTFUL = (
    "questions have contexts and an answer, which are read as a system's: name expected ones "
    "reference and reference_contexts"
)


def read_records(
    numbered: Iterable[tuple[int, dict[str, Any]]],
    path: Path,
    corpus: Mapping[str, Document] | None,
) -> Content:
    """Return the cases of numbered records (`records`), and their documents.

    Args:
        corpus: doc_id -> document, in which the records' reference contexts are looked for; None
            looks in the documents that the records hold.

    Raises:
        DataError: no record has a question.
    """
    content = Content()
    records: list[Record] = []
    skipped = []
    for number, row in numbered:
        rows, documents = expanded_row(row)
        if not rows:
            skipped.append(f"line {number}")
        content.documents |= documents
        records += [_record_at(number, each, path.name) for each in rows]
    if skipped and not records:
        raise DataError(
            f"{path}: none of the {len(skipped)} records has a question; choose the part of the "
            "collection that has questions and answers"
        )
    warn_all(str(path), {"records have no question and are left out": skipped})
    add_cases(content, records, str(path), corpus)
    return content


def _record_at(line: int, value: Mapping[str, Any], file: str) -> Record:
    """Return a record whose fields are all on one line of its file."""
    return Record(value, file, (), lambda keys: line)


def add_cases(
    content: Content,
    records: Iterable[Record],
    source: str,
    corpus: Mapping[str, Document] | None,
) -> None:
    """Add the cases of records to `content.entries`, and the problems of wrong records to
    `content.problems`.

    If no record has a question, the whole file is one problem, and no case is added.

    Args:
        records: of any form: ragbench's own, or another tool's.
        source: the path of the file, for warnings.
        corpus: doc_id -> document. An expected text becomes evidence if one of these holds it; None
            means the documents of the content.

    Raises:
        DataError: the records are a known file of another kind, not a test set.
    """
    records = list(records)
    case_fields = fields_of(CaseLine)
    labels_of_records: list[Labels | None] = []
    for record in records:
        is_object = isinstance(record.value, dict)
        labels_of_records.append(labels_of(record.value, case_fields) if is_object else None)
    problem = _problem_of_other_file(records, labels_of_records, source)
    if problem is not None:
        content.problems.append(problem)
        return
    adder = _CaseAdder(content, content.documents if corpus is None else corpus)
    for record, labels in zip(records, labels_of_records, strict=True):
        if labels is None:
            check(CaseLine, record, content)  # notes that the record is no object
        else:
            adder.add(record, labels)
    warn_all(source, adder.flaws)


class _CaseAdder:
    """Adds one record after the other to the cases of a file.

    Attributes:
        flaws: kind of flaw -> ids of the cases that have it, for warnings.
    """

    def __init__(self, content: Content, documents: Mapping[str, Document]) -> None:
        self.flaws: Flaws = defaultdict(list)
        self._content = content
        self._ids = DocumentIds(documents)
        self._texts = Texts(documents)
        self._n_copies: Counter[str] = Counter()  # derived id -> cases that have it so far
        # id of a case -> its position in the entries, and the first record with this id
        self._first_with_id: dict[str, tuple[int, Record]] = {}

    def add(self, record: Record, labels: Labels) -> None:
        """Add the case of a record with these labels; if the record is wrong, add its problems.

        A second record with the same id is joined with the first if the two differ in their documents
        only. Unknown fields are an error in ragbench's own records, not in another tool's.
        """
        for name, expected in labels.unreadable.items():
            value = shown(record.value.get(name), 60)
            self._content.problems.append(record.problem((name,), value, expected))
        if labels.unreadable:
            return
        # the record with its labels under ragbench's names; problems use the names in the file
        labelled = replace(record, value=labels.case, names=labels.names)
        line = check(CaseLine, labelled, self._content, is_lenient=labels.is_foreign)
        if line is None:  # `check` has noted why
            return
        entry = self._with_foreign_labels(entry_of(line, labelled), labels, record.value)
        # an id that is derived from the question is not unique if two cases ask the same question
        has_id = not labels.case.keys().isdisjoint(("query_id", "id", "case_id"))
        if not has_id and not line.turns:
            entry = self._with_unique_id(entry)
        self._add_or_join(entry, record)

    def _with_foreign_labels(
        self, entry: Entry, labels: Labels, fields: Mapping[str, Any]
    ) -> Entry:
        """Return a case with the labels that only other tools' records have: quotes and names of
        documents (both are looked up in the corpus), TREC's nuggets and promptfoo's assertions.

        Labels that cannot be used go to the metadata of the case, and are noted in `flaws`.

        Args:
            labels: the labels in the record of the case.
            fields: the fields of the record.
        """
        lookup = _look_up(labels, self._ids, self._texts)
        importance_of = _importance_of_facts(fields.get("nuggets"))
        assertions = _labels_of_assertions(fields.get("assert"))
        okay_facts = [fact for fact, value in importance_of.items() if value == "okay"]
        metadata = {
            "reference_contexts": lookup.unmatched,
            "sources": lookup.absent,
            # they are gold facts, too; here it is kept that TREC calls them "okay", not "vital"
            "okay_facts": okay_facts,
            # groups of documents, each of which answers the question alone
            "alternatives": [[*map(self._ids.id_of, group)] for group in labels.alternatives],
        }
        filled = {name: value for name, value in metadata.items() if value}
        facts = [(fact,) for fact in importance_of]  # each with one wording
        # The evidence of the record stays as it is, in step with its quotes.
        new_spans = [
            span for span in dict.fromkeys(lookup.spans) if span not in entry.case.evidence
        ]
        old = entry.case
        case = replace(
            old,
            evidence=(*old.evidence, *new_spans),
            reference_answer=next(iter(assertions["reference"]), old.reference_answer),
            gold_facts=(*old.gold_facts, *facts),
            required_keywords=(*old.required_keywords, *assertions["required"]),
            forbidden_claims=(*old.forbidden_claims, *assertions["forbidden"]),
            metadata={**old.metadata, **filled},
        )
        self._note_flaws(case, labels, lookup, assertions["unread"])
        grades = dict.fromkeys(lookup.relevant, 1)
        grades_with_stated = {**grades, **entry.relevant}  # a grade that the record states wins
        return entry._replace(case=case, relevant=grades_with_stated)

    def _note_flaws(
        self, case: Case, labels: Labels, lookup: "_Lookup", unread_assertions: Iterable[str]
    ) -> None:
        """Note in `flaws` each part of a record that is ignored or may be read wrongly.

        `lookup` has the quotes and documents that were found in the corpus, `unread_assertions` the types
        of promptfoo's assertions that are not read.
        """
        flaws = []
        if lookup.unmatched:
            flaws.append(_WITHOUT_DOCUMENTS if self._ids.is_empty else _UNMATCHED)
        if "other_references" in case.metadata:
            flaws.append(_SEVERAL)
        if labels.alternatives:
            flaws.append(_ALTERNATIVES)
        flaws += [f"assertions {kind!r} are not read" for kind in unread_assertions]
        if labels.doubtful:
            flaws.append(_DOUBTFUL)
        for flaw in flaws:
            self.flaws[flaw].append(case.query_id)

    def _with_unique_id(self, entry: Entry) -> Entry:
        """Return a case whose id was derived from its question, with a number if an earlier case asks
        the same question.
        """
        derived_id = entry.case.query_id
        self._n_copies[derived_id] += 1
        query_id = nth_id(derived_id, self._n_copies[derived_id])
        return entry._replace(case=replace(entry.case, query_id=query_id))

    def _add_or_join(self, entry: Entry, record: Record) -> None:
        """Add a case, or join it with the earlier case of the same id; if they differ in more than
        their documents, the repeated id is a problem.
        """
        entries = self._content.entries
        query_id = entry.case.query_id
        if query_id not in self._first_with_id:
            self._first_with_id[query_id] = (len(entries), record)
            entries.append(entry)
            return
        position, first_record = self._first_with_id[query_id]
        joined = _joined_rows(entries[position], entry)
        if joined is not None:
            entries[position] = joined
            return
        expected = f"another id: line {first_record.line} has this one"
        problem = record.problem(("query_id",), shown(query_id), expected)
        self._content.problems.append(problem)


def _problem_of_other_file(
    records: Sequence[Record], labels: Sequence[Labels | None], source: str
) -> Problem | None:
    """Return the problem of a file that is not a test set at all; None for a test set, even with errors.

    A file is not a test set if no record has a question, and a field has a name unlike every field of a
    test set. (If all names are only misspelt, they are reported one by one elsewhere.)

    Args:
        labels: the labels of each record; None for a record that is no object.

    Raises:
        DataError: the records are a known file of another kind.
    """
    without_question = [each for each in labels if each is not None and each.question is None]
    # any other record has a question, or is no object, which is a problem of its own
    has_other_records = len(without_question) < len(records)
    if not records or has_other_records:
        return None
    with located(source):
        refuse_foreign(records[0].value)
    case_fields = fields_of(CaseLine)
    field_names = chain.from_iterable(each.case for each in without_question)
    if all(name in case_fields or nearest(name, case_fields) for name in field_names):
        return None
    fields = ", ".join(map(str, records[0].value))
    return records[0].problem((), f"no question among the fields {fields}", NO_QUESTION)


def _joined_rows(first: Entry, second: Entry) -> Entry | None:
    """Return two rows about one question as one case, with the documents and evidence of both. (Some
    tools write a row per document.)

    Return None if the rows differ in anything but documents, evidence and metadata, because then they
    are not about the same question.
    """
    # the second case with all fields that may differ taken from the first
    second_case = replace(second.case, evidence=first.case.evidence, metadata=first.case.metadata)
    if second_case != first.case:
        return None
    # A piece of evidence and its quote stay together: pieces whose quotes are not found yet have equal
    # spans.
    evidence = dict.fromkeys((*first.evidence(), *second.evidence()))
    return first._replace(
        case=replace(first.case, evidence=tuple(span for span, _ in evidence)),
        relevant={**first.relevant, **second.relevant},
        quotes=tuple(quote for _, quote in evidence),
    )


class _Lookup(NamedTuple):
    """The quotes and document names of a record, looked up in the corpus.

    Attributes:
        spans: the evidence: a place of each quote that a document holds.
        unmatched: the quotes that no document holds.
        relevant: the ids of the relevant documents.
        absent: names of documents that are not in the corpus, and not among the relevant ones.
    """

    spans: list[Span]
    unmatched: list[str]
    relevant: list[str]
    absent: list[str]


def _look_up(labels: Labels, ids: DocumentIds, texts: Texts) -> _Lookup:
    """Look up the quotes and document names of a record in the corpus (`ids` and `texts`).

    Relevant are the documents that the record names, and the documents that hold a quote. A name that
    is not in the corpus may mean a document that holds a quote, and this document must not count twice.
    So names that are not in the corpus are `absent`, not relevant, up to the number of quoted documents
    that the record does not name. Example: a record names "Guide.pdf", which the corpus lacks, and
    quotes a sentence of guide.md: guide.md is relevant, "Guide.pdf" is absent.
    """
    named = [ids.id_of(source) for source in labels.sources]
    spans, unmatched = _find_quotes(labels.quotes, named, texts)
    quoted = dict.fromkeys(span.doc_id for span in spans)
    n_quoted_but_not_named = len(quoted.keys() - {*named})
    not_in_corpus = [doc_id for doc_id in named if ids.is_absent(doc_id)]
    absent = not_in_corpus[:n_quoted_but_not_named]
    relevant = [doc_id for doc_id in (*named, *quoted) if doc_id not in absent]
    return _Lookup(spans, unmatched, relevant, absent)


def _find_quotes(
    quotes: Iterable[Quote], sources: Sequence[str], texts: Texts
) -> tuple[list[Span], list[str]]:
    """Return the place of each quote that a document holds, and the quotes that no document holds.

    If several documents hold a quote, its place is in the first of them that the record names, else in
    the first of them. `sources` are the ids of the documents that the record names.
    """
    spans = []
    unmatched = []
    for text in dict.fromkeys(quote.text for quote in quotes):
        place = texts.find(text)
        if place == NOWHERE:
            unmatched.append(text)
            continue
        in_sources = [span for span in place.holders if span.doc_id in sources]
        spans.append(in_sources[0] if in_sources else place.holders[0])
    return spans, unmatched


def _importance_of_facts(nuggets: Any) -> dict[str, Any]:
    """Return fact -> importance ("vital" or "okay") of TREC's nuggets; {} for any other value.

    >>> _importance_of_facts([{"text": "It opened in 1881.", "importance": "vital"}])
    {'It opened in 1881.': 'vital'}
    """
    if not isinstance(nuggets, list):
        return {}
    importance_of = {}
    for nugget in nuggets:
        if isinstance(nugget, dict) and nugget.get("text"):
            importance_of[str(nugget["text"])] = nugget.get("importance")
    return importance_of


def _labels_of_assertions(assertions: Any) -> dict[str, list[str]]:
    """Return the labels in promptfoo's assertions: "reference" answers, "required" keywords,
    "forbidden" texts, and as "unread" the types of assertions that are not read.

    >>> labels = _labels_of_assertions([{"type": "icontains", "value": "1881"}, {"type": "latency"}])
    >>> labels["required"], labels["unread"]
    (['1881'], ['latency'])
    """
    labels: dict[str, list[str]] = {"reference": [], "required": [], "forbidden": [], "unread": []}
    for assertion in assertions if isinstance(assertions, list) else []:
        if not isinstance(assertion, dict) or not assertion.get("type"):
            continue
        kind = str(assertion["type"])
        value = assertion.get("value")
        values = value if isinstance(value, list) else [value]
        texts = [str(each) for each in values if each not in (None, "")]
        if kind in _REQUIRING:
            labels["required"] += texts
        elif kind in _EXPECTING:
            labels["reference"] += texts[:1]
        elif kind in _FORBIDDING:
            labels["forbidden"] += texts
        else:
            labels["unread"].append(kind)
    return labels
