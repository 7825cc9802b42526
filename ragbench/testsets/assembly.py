"""Builds a Dataset from the content of a file: names of documents, quotes and sections are looked
up, and those without a place, or with several, are left out with a warning.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from ragbench.datasets.jsonl import shown
from ragbench.datasets.passages import Texts
from ragbench.datasets.raw_records import Flaws, warn_all
from ragbench.groups import grouped
from ragbench.testsets.cases import Content, Entry
from ragbench.testsets.problems import Problem, suggestion
from ragbench.testsets.sections import locate
from ragbench.types import Case, Dataset, Document, Span

_ABSENT = (
    "judged documents are not in the corpus, or the name of several files; they still count "
    "as missed"
)
_NO_DOCUMENTS = (
    "quotes without a place become evidence only with the documents (corpus=, --docs); they are "
    "left out"
)
_NO_PLACE = "quotes are in no document, or more than once; the evidence is left out"
_MOVED = "quotes are elsewhere in their document; the evidence is moved"
_GONE = "quotes are not in their document any more; the evidence is left out"
_NO_DOCUMENT = "documents of quotes are not in the corpus any more; the evidence is left out"


def check_evidence(content: Content, documents: Mapping[str, Document]) -> list[Problem]:
    """Return a problem for each piece of evidence without a place in the documents: characters
    behind the end of their document, or a quote that no document holds, or more than once.
    """
    ids = DocumentIds(documents)
    texts = Texts(documents)
    problems = []
    for entry in content.entries:
        for number, (span, quote) in enumerate(ids.with_ids(entry).evidence()):
            wrong = None
            if _is_quote_alone(span):
                wrong = _check_quote(quote or "", span.doc_id, texts, documents)
            elif not quote:  # a quote that is not at its offsets is a warning, see `quoted_spans`
                wrong = _check_end(span, documents)
            if wrong is not None:
                keys = ("evidence", number, wrong.field)
                problems.append(entry.record.problem(keys, wrong.value, wrong.expected))
    return problems


class _WrongField(NamedTuple):
    """The wrong field of a piece of evidence, its value, and a description of the expected value."""

    field: str
    value: str
    expected: str


def _is_quote_alone(span: Span) -> bool:
    """Return True if the evidence is a quote whose place is not known yet."""
    return span.end == 0


def _check_quote(
    quote: str, doc_id: str, texts: Texts, documents: Mapping[str, Document]
) -> _WrongField | None:
    """Return the wrong field of evidence that has a quote but no offsets; None if one document holds
    the quote once, or if there are no documents to look in.
    """
    if not documents:
        return None
    any_document = f"one of the {len(documents)} documents"
    if doc_id and doc_id not in documents:
        expected = suggestion(doc_id, documents, any_document)
        return _WrongField("doc_id", shown(doc_id, 40), expected)
    n_places = len(find_quote(quote, doc_id, texts, documents))
    if n_places == 1:
        return None
    where = shown(doc_id, 40) if doc_id else any_document
    expected = f"a text that is in {where} word for word"
    if n_places > 1:
        expected = (
            f"a text that is in {where} once: it is there {n_places} times, so quote more of it"
        )
    return _WrongField("quote", shown(quote, 60), expected)


def _check_end(span: Span, documents: Mapping[str, Document]) -> _WrongField | None:
    """Return the wrong end of a span behind the end of its document; None if it fits, or if the
    document is not there.
    """
    document = documents.get(span.doc_id)
    if document is None or span.end <= len(document.full_text):
        return None
    length = len(document.full_text)
    expected = f"at most {length}, the characters of {shown(span.doc_id, 40)}"
    return _WrongField("end", str(span.end), expected)


def find_quote(
    quote: str, doc_id: str, texts: Texts, documents: Mapping[str, Document]
) -> list[Span]:
    """Return every place of a quote in the document `doc_id`, in every document if it is ""; [] if
    the document does not exist.
    """
    if doc_id:
        return texts.places(quote, doc_id) if doc_id in documents else []
    spans = []
    for name in documents:
        spans += texts.places(quote, name)
    return spans


def to_dataset(name: str, content: Content, corpus: Mapping[str, Document], source: str) -> Dataset:
    """Return the content of a file as a dataset with the documents of `corpus`.

    Flaws, such as judged documents that are not in the corpus, are one warning for each kind, with
    their count and the first ids. `source` names the file in the warnings.
    """
    flaws: Flaws = defaultdict(list)
    texts = Texts(corpus)
    cases = []
    qrels = {}
    ids = DocumentIds(corpus)
    for entry_in_file in content.entries:
        entry = ids.with_ids(entry_in_file)
        qrels[entry.case.query_id] = entry.relevant
        flaws[_ABSENT] += [doc_id for doc_id in entry.relevant if ids.is_absent(doc_id)]
        quoted = quoted_spans(entry, corpus, texts, flaws)
        # both note evidence that was not found in `flaws`
        of_sections = _spans_of_sections(entry.case, corpus, flaws)
        # each span once
        evidence = tuple(dict.fromkeys((*quoted, *of_sections)))
        cases.append(replace(entry.case, evidence=evidence))
    if content.unknown:
        names = ", ".join(shown(name, 40) for name in content.unknown)
        fields = "field" if len(content.unknown) == 1 else "fields"
        flaw = f"cases have the {fields} {names}, which ragbench does not read: metadata"
        flaws[flaw] = list(chain.from_iterable(content.unknown.values()))
    warn_all(source, flaws)
    return Dataset(
        name,
        content.split,
        corpus,
        tuple(cases),
        qrels,
        safety_inputs=tuple(content.inputs),
        safety_outputs=tuple(content.outputs),
    )


class DocumentIds:
    """The documents of a corpus by their ids and by the names of their files, which test sets often
    use in place of ids.
    """

    def __init__(self, corpus: Mapping[str, Document]) -> None:
        self._corpus = corpus

    @property
    def is_empty(self) -> bool:
        """Return True if there are no documents."""
        return not self._corpus

    def is_absent(self, doc_id: str) -> bool:
        """Return True if there are documents, and none has this id."""
        return bool(self._corpus) and doc_id not in self._corpus

    @cached_property
    def _by_form(self) -> dict[str, list[str]]:
        """Return the ids by their Unicode form."""
        return grouped(self._corpus, _in_one_unicode_form)

    @cached_property
    def _by_file_name(self) -> dict[str, list[str]]:
        """Return other names of documents -> their ids: an id "a/setup.md" has the names "setup.md",
        "setup" and "a/setup".
        """
        ids = defaultdict(list)
        for doc_id in self._corpus:
            path = PurePosixPath(doc_id)
            names = {path.name, path.stem, doc_id.removesuffix(path.suffix)} - {"", doc_id}
            for name in set(map(_in_one_unicode_form, names)):
                ids[name].append(doc_id)
        return ids

    def id_of(self, doc_id: str) -> str:
        """Return the id of the document that a test set names: "mcp_guide" is "mcp_guide.md" if no
        other document has this name. A name that fits no document, or several, is returned unchanged.

        >>> ids = DocumentIds(dict.fromkeys(("mcp_guide.md", "a/setup.md", "b/setup.md")))
        >>> ids.id_of("mcp_guide"), ids.id_of("setup"), ids.id_of("a/setup"), ids.id_of("docs/mcp_guide.md")
        ('mcp_guide.md', 'setup', 'a/setup.md', 'mcp_guide.md')
        """
        if not self._corpus or doc_id in self._corpus:
            return doc_id
        # first the same name in another Unicode form, then the name of a file
        for ids in (self._by_form, self._by_file_name):
            candidates = ids.get(_in_one_unicode_form(doc_id), [])
            if len(candidates) == 1:
                return candidates[0]
        number = doc_id.removesuffix(".0")  # tables turn a column of numbers into decimals
        if number.isdecimal() and number in self._corpus:
            return number
        file_name = doc_id.replace("\\", "/").rpartition("/")[2]  # of an address or a path
        if file_name in self._corpus:
            return file_name
        return doc_id

    def with_ids(self, entry: Entry) -> Entry:
        """Return an entry in which every document is named by its id. A relevant document with two
        names has the higher one of their grades.
        """
        old = entry.case
        evidence = [replace(span, doc_id=self.id_of(span.doc_id)) for span in old.evidence]
        sections = [(self.id_of(doc_id), section) for doc_id, section in old.expected_sections]
        case = replace(
            old,
            evidence=tuple(evidence),
            expected_sections=tuple(sections),
            expected_citations=tuple(map(self.id_of, old.expected_citations)),
        )
        relevant: dict[str, int] = {}
        for name, grade in entry.relevant.items():
            doc_id = self.id_of(name)
            # two names of the entry may be of one document
            relevant[doc_id] = max(grade, relevant.get(doc_id, grade))
        return entry._replace(case=case, relevant=relevant)


def _in_one_unicode_form(name: str) -> str:
    """Return a name in the one Unicode form in which names are compared."""
    return unicodedata.normalize("NFC", name)


def quoted_spans(
    entry: Entry, corpus: Mapping[str, Document], texts: Texts, flaws: Flaws
) -> list[Span]:
    """Return the evidence of a case at the places where `corpus` holds its quotes; evidence that has
    moved, or has no place or no document, is added to `flaws`. `texts` are the texts of `corpus`.
    """
    spans = []
    for span, quote in entry.evidence():
        if _is_quote_alone(span):
            place, flaw = _place_of_quote(quote or "", span.doc_id, corpus, texts)
        else:
            place, flaw = _present_place(span, quote, corpus)
        if place is not None:
            spans.append(place)
        if flaw:
            flaws[flaw].append(f"{entry.case.query_id} {span.doc_id}".strip())
    return spans


def _place_of_quote(
    quote: str, doc_id: str, corpus: Mapping[str, Document], texts: Texts
) -> tuple[Span | None, str]:
    """Return the only place of a quote and ""; None and the flaw if it has no place, or several."""
    if not corpus:
        return None, _NO_DOCUMENTS
    places = find_quote(quote, doc_id, texts, corpus)
    return (places[0], "") if len(places) == 1 else (None, _NO_PLACE)


def _present_place(
    span: Span, quote: str | None, corpus: Mapping[str, Document]
) -> tuple[Span | None, str]:
    """Return where evidence with offsets is now, and what is wrong with it ("" if nothing is).

    The quote was at `span` when the evidence was written; the document may have changed since. If the
    quote has moved, its new place is returned. If the quote or its document is gone, the place is None.
    Without a quote, or without a text to look in, nothing can be checked, and the place is `span`.
    """
    if not quote or not corpus:
        return span, ""
    if span.doc_id not in corpus:
        return None, _NO_DOCUMENT
    text = corpus[span.doc_id].full_text
    if not text or text[span.start : span.end] == quote:
        return span, ""
    start = text.find(quote)  # the document has changed
    if start < 0:
        return None, _GONE
    return Span(span.doc_id, start, start + len(quote)), _MOVED


def _spans_of_sections(case: Case, corpus: Mapping[str, Document], flaws: Flaws) -> list[Span]:
    """Return the spans of the sections that a case expects; sections that are missing or ambiguous
    are added to `flaws`. Without documents there are neither spans nor flaws.
    """
    spans: list[Span] = []
    if not corpus:
        return spans
    for doc_id, section in case.expected_sections:
        if doc_id not in corpus:
            flaws["sections are expected of documents that are not in the corpus"].append(doc_id)
            continue
        where = f"{doc_id} > {section}"
        match = locate(corpus[doc_id], section)
        if match is None:
            flaws["sections are not in their document; there is no evidence of them"].append(where)
            continue
        spans.append(match.span)
        if match.alike > 1:
            flaw = "sections are more than once in their document; the first is taken"
            flaws[flaw].append(where)
    return spans
