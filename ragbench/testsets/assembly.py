"""Builds a Dataset from the content of a file: evidence is found in the documents, flaws become
warnings.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from ragbench.datasets.jsonl import shown
from ragbench.datasets.passages import Texts
from ragbench.datasets.records import Flaws, warn_all
from ragbench.testsets.cases import Content, Entry
from ragbench.testsets.problems import Problem, suggestion
from ragbench.testsets.sections import locate
from ragbench.types import Case, Dataset, Document, Span, grouped

_NO_DOCUMENTS = (
    "quotes without a place become evidence only with the documents (corpus=, --docs); they are "
    "left out"
)
_NO_PLACE = "quotes are in no document, or more than once; the evidence is left out"


def check_evidence(content: Content, documents: Mapping[str, Document]) -> list[Problem]:
    """Return evidence whose place in the documents is not known: without a quote behind the end of
    its document, or a quote alone that is not there, or more than once.
    """
    ids = DocumentIds(documents)
    texts = Texts(documents)
    problems = []
    for entry in content.entries:
        for number, (span, quote) in enumerate(ids.in_entry(entry).evidence()):
            document = documents.get(span.doc_id)
            field, value, expected = "", "", ""
            if _is_quote_alone(span) and documents:
                field, value, expected = _check_quote(quote or "", span.doc_id, texts, documents)
            elif document is not None and not quote and span.end > len(document.full_text):
                length = len(document.full_text)
                field, value = "end", str(span.end)
                expected = f"at most {length}, the characters of {shown(span.doc_id, 40)}"
            if field:
                problems.append(entry.record.problem(("evidence", number, field), value, expected))
    return problems


def _is_quote_alone(span: Span) -> bool:
    """Return True if the evidence is a quote that has still to be found."""
    return span.end == 0


def _check_quote(
    quote: str, doc_id: str, texts: Texts, documents: Mapping[str, Document]
) -> tuple[str, str, str]:
    """Return the wrong field of evidence that is a quote alone, its value, and what was expected; ""
    where nothing is wrong.
    """
    if doc_id and doc_id not in documents:
        known = f"one of the {len(documents)} documents"
        return "doc_id", shown(doc_id, 40), suggestion(doc_id, documents, known)
    places = find_quote(quote, doc_id, texts, documents)
    if len(places) == 1:
        return "", "", ""
    where = shown(doc_id, 40) if doc_id else f"one of the {len(documents)} documents"
    expected = f"a text that is in {where} word for word"
    if places:
        expected = (
            f"a text that is in {where} once: it is there {len(places)} times, so quote more of it"
        )
    return "quote", shown(quote, 60), expected


def find_quote(
    quote: str, doc_id: str, texts: Texts, documents: Mapping[str, Document]
) -> list[Span]:
    """Return where the document, or every document where none is named, holds a quote."""
    named = [doc_id] if doc_id in documents else []
    candidates = named if doc_id else documents
    return [span for name in candidates for span in texts.places(quote, name)]


def to_dataset(name: str, content: Content, corpus: Mapping[str, Document], source: str) -> Dataset:
    """Return the dataset; one warning for each kind of flaw, with its count and the first ids."""
    flaws: Flaws = defaultdict(list)
    texts = Texts(corpus)
    cases = []
    qrels = {}
    for entry in map(DocumentIds(corpus).in_entry, content.entries):
        qrels[entry.case.query_id] = entry.relevant
        absent = [doc_id for doc_id in entry.relevant if corpus and doc_id not in corpus]
        flaws[
            "judged documents are not in the corpus, or the name of several files; they stay in "
            "the qrels and count in the ideal"
        ] += absent
        spans = [
            *quoted_spans(entry, corpus, texts, flaws),
            *_of_sections(entry.case, corpus, flaws),
        ]
        cases.append(replace(entry.case, evidence=tuple(dict.fromkeys(spans))))
    if content.unknown:
        names = ", ".join(shown(name, 40) for name in content.unknown)
        what = f"the field {names}" if len(content.unknown) == 1 else f"the fields {names}"
        lines = [line for lines in content.unknown.values() for line in lines]
        flaws[f"cases have {what}, which ragbench does not read: metadata"] = lines
    warn_all(source, flaws)
    samples = tuple(content.inputs), tuple(content.outputs)
    return Dataset(name, content.split, corpus, tuple(cases), qrels, *samples)


class DocumentIds:
    """The documents of a corpus by their ids and by the names of their files, as test sets often
    give them.
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
        return grouped(self._corpus, _composed)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names = defaultdict(list)
        for doc_id in self._corpus:
            path = PurePosixPath(doc_id)
            known = {path.name, path.stem, doc_id.removesuffix(path.suffix)} - {"", doc_id}
            for name in set(map(_composed, known)):
                names[name].append(doc_id)
        return names

    def full(self, doc_id: str) -> str:
        """Return the id of the document that is meant: "mcp_guide" means "mcp_guide.md" where no
        other is called so.

        >>> ids = DocumentIds(dict.fromkeys(("mcp_guide.md", "a/setup.md", "b/setup.md")))
        >>> ids.full("mcp_guide"), ids.full("setup"), ids.full("a/setup"), ids.full("docs/mcp_guide.md")
        ('mcp_guide.md', 'setup', 'a/setup.md', 'mcp_guide.md')
        """
        if not self._corpus or doc_id in self._corpus:
            return doc_id
        for names in (self._by_form, self._by_name):
            same_name = names.get(_composed(doc_id), [])
            if len(same_name) == 1:
                return same_name[0]
        number = doc_id.removesuffix(".0")  # of a column that has become one of decimals
        if number.isdecimal() and number in self._corpus:
            return number
        tail = doc_id.replace("\\", "/").rpartition("/")[2]  # of an address or a path
        return tail if tail in self._corpus else doc_id

    def in_entry(self, entry: Entry) -> Entry:
        """Return an entry whose documents may be named by their files, with their ids."""
        case = replace(
            entry.case,
            evidence=tuple(
                replace(span, doc_id=self.full(span.doc_id)) for span in entry.case.evidence
            ),
            expected_sections=tuple(
                (self.full(doc_id), section) for doc_id, section in entry.case.expected_sections
            ),
            expected_citations=tuple(map(self.full, entry.case.expected_citations)),
        )
        relevant: dict[str, int] = {}
        for doc_id, grade in entry.relevant.items():
            full = self.full(doc_id)
            relevant[full] = max(grade, relevant.get(full, grade))
        return entry._replace(case=case, relevant=relevant)


def _composed(name: str) -> str:
    """Return a name in the one Unicode form in which names are compared."""
    return unicodedata.normalize("NFC", name)


def quoted_spans(
    entry: Entry, corpus: Mapping[str, Document], texts: Texts, flaws: Flaws
) -> list[Span]:
    """Return the evidence of a case where its quotes are in the documents (`texts` holds the same);
    what has moved, or has no place, is added to `flaws`.
    """
    spans = []
    for span, quote in entry.evidence():
        where = f"{entry.case.query_id} {span.doc_id}".strip()
        if _is_quote_alone(span):
            places = find_quote(quote or "", span.doc_id, texts, corpus)
            spans += places if len(places) == 1 else []
            if not corpus:
                flaws[_NO_DOCUMENTS].append(where)
            elif len(places) != 1:
                flaws[_NO_PLACE].append(where)
            continue
        text = corpus[span.doc_id].full_text if span.doc_id in corpus else ""
        if not (quote and text) or text[span.start : span.end] == quote:
            spans.append(span)
        elif (start := text.find(quote)) >= 0:
            spans.append(Span(span.doc_id, start, start + len(quote)))
            flaws["quotes are elsewhere in their document; the evidence is moved"].append(where)
        else:
            flaws["quotes are not in their document any more; the evidence is left out"].append(
                where
            )
    return spans


def _of_sections(
    case: Case,
    corpus: Mapping[str, Document],
    flaws: Flaws,
) -> list[Span]:
    spans = []
    for doc_id, section in case.expected_sections if corpus else ():
        what = f"{doc_id} > {section}"
        if doc_id not in corpus:
            flaws["sections are expected of documents that are not in the corpus"].append(doc_id)
        elif match := locate(corpus[doc_id], section):
            spans.append(match.span)
            if match.alike > 1:
                flaw = "sections are more than once in their document; the first is taken"
                flaws[flaw].append(what)
        else:
            flaws["sections are not in their document; there is no evidence of them"].append(what)
    return spans
