"""From what a file says to a Dataset: evidence is placed in the documents, flaws become warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ragbench.datasets.collection import warn
from ragbench.datasets.lines import shown
from ragbench.datasets.testsets.checking import Entry, Reading
from ragbench.datasets.testsets.mistakes import Mistake
from ragbench.datasets.testsets.sections import Heading, headings_of, locate
from ragbench.types import Case, Dataset, Document, Qrels, Span


def check_evidence(reading: Reading, corpus: Mapping[str, Document] | None) -> list[Mistake]:
    """Evidence without a quote that lies behind the end of its document: nothing could say where it should be."""
    documents = reading.documents if corpus is None else corpus
    found = []
    for entry in reading.entries:
        for number, span in enumerate(entry.case.evidence):
            quote = entry.quotes[number] if number < len(entry.quotes) else None
            if quote or span.doc_id not in documents:
                continue
            if span.end > (length := len(documents[span.doc_id].full_text)):
                expected = f"at most {length}, the characters of {shown(span.doc_id, 40)}"
                found.append(Mistake(entry.line, f"evidence[{number}].end", str(span.end), expected, entry.file))
    return found


def assembled(name: str, reading: Reading, corpus: Mapping[str, Document], source: str) -> Dataset:
    """The dataset; one warning for each kind of flaw, with its count and the first ids."""
    flaws: dict[str, list[str]] = {}
    headings: dict[str, list[Heading]] = {}
    cases = []
    for entry in reading.entries:
        spans = [*_quoted(entry, corpus, flaws), *_of_sections(entry.case, corpus, headings, flaws)]
        cases.append(replace(entry.case, evidence=tuple(dict.fromkeys(spans))))
    qrels: Qrels = {entry.case.query_id: dict(entry.relevant) for entry in reading.entries}
    if corpus:
        absent = {doc_id: None for judged in qrels.values() for doc_id in judged if doc_id not in corpus}
        near = next((f"{one!r} for {doc_id!r}" for doc_id in absent for one in corpus if _stem(one) == doc_id), "")
        meant = f"; did you mean {near}?" if near else ""
        warn(
            source,
            f"judged documents are not in the corpus; they stay in the qrels and count in the ideal{meant}",
            absent,
        )
    for field, ids in reading.unknown.items():
        warn(source, f"cases have the field {shown(field, 40)}, which this form does not know: it is metadata", ids)
    for flaw, ids in flaws.items():
        warn(source, flaw, list(dict.fromkeys(ids)))
    return Dataset(
        name, reading.split, corpus, tuple(cases), qrels, tuple(reading.inputs), tuple(reading.outputs)
    )  # fmt: skip


def _stem(doc_id: str) -> str:
    """The name of a file of a corpus folder without folders and ending: what test sets often say."""
    return doc_id.rpartition("/")[2].partition(".")[0]


def _quoted(entry: Entry, corpus: Mapping[str, Document], flaws: dict[str, list[str]]) -> list[Span]:
    spans = []
    for number, span in enumerate(entry.case.evidence):
        quote = entry.quotes[number] if number < len(entry.quotes) else None
        if not quote or span.doc_id not in corpus:
            spans.append(span)
            continue
        text = corpus[span.doc_id].full_text
        if text[span.start : span.end] == quote:
            spans.append(span)
        elif (start := text.find(quote)) >= 0:
            spans.append(Span(span.doc_id, start, start + len(quote)))
            flaws.setdefault("quotes stand elsewhere in their document; the evidence is moved", []).append(
                f"{entry.case.query_id} {span.doc_id}"
            )
        else:
            flaws.setdefault("quotes are not in their document any more; the evidence is left out", []).append(
                f"{entry.case.query_id} {span.doc_id}"
            )
    return spans


def _of_sections(
    case: Case, corpus: Mapping[str, Document], headings: dict[str, list[Heading]], flaws: dict[str, list[str]]
) -> list[Span]:
    if not corpus:
        return []
    spans = []
    for doc_id, section in case.expected_sections:
        if doc_id not in corpus:
            flaws.setdefault("sections are expected of documents that are not in the corpus", []).append(doc_id)
            continue
        if doc_id not in headings:
            headings[doc_id] = headings_of(corpus[doc_id])
        place = locate(corpus[doc_id], section, headings)
        if place is None:
            flaws.setdefault("sections are not in their document; there is no evidence of them", []).append(
                f"{doc_id} > {section}"
            )
            continue
        spans.append(place.span)
        if place.nearly:
            what = f"{doc_id} > {section} is {place.heading}"
            flaws.setdefault("sections are not quite there; the nearest heading is taken", []).append(what)
        elif place.alike > 1:
            what = f"{doc_id} > {section}"
            flaws.setdefault("sections stand more than once in their document; the first is taken", []).append(what)
    return spans
