"""The built-in default: the language reference that ships inside CPython, with questions of our
own; how their quotes and grades are fitted to this Python.

The corpus is `pydoc_data.topics` (79 topics, about 0.5 MB), so there is nothing to download. The
questions, graded documents, gold quotes, gold facts and reference answers are ours and are in
`pydoc_cases.jsonl` next to this file, one JSON object per line:

    query_id, text, category, query_type      as in `Case`
    reference_answer                          one to three sentences, null where the topics hold no answer
    gold_facts                                [[fact, alias, ...], ...]
    evidence                                  [{"doc_id": topic, "quote": text that is in it}, ...]
    relevant                                  {topic: grade}; 3 = direct answer, 2 = much of it, 1 = related
    expected_outcome                          "success" or "no_results"
    absent                                    only with "no_results": words an answer would need and no topic has

The topics differ a little between editions of Python; `Dataset.fingerprint` distinguishes the
editions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.array_types import Ints
from ragbench.errors import DataError, unknown, warn_of_flaw
from ragbench.types import Case, Dataset, Document, Span

_DIRECT_ANSWER = 3


def load_pydoc(split: str = "test") -> Dataset:
    """Return the topics of this Python as corpus, and our questions about them with every label.

    Six categories: factual_lookup, multi_hop, entity_specific, comparison, unanswerable, and
    temporal (in which release something changed, and how it was before). A quote is evidence in
    every topic that holds it (the topic "with" is repeated inside "compound"); a topic that repeats
    it is graded at least as high as its source, and a topic that holds every quote of a question has
    grade 3. Unanswerable questions have no evidence and an empty qrel.

    Quotes that this edition of the topics does not contain are dropped with one `DataWarning`; the
    grades stay, so a question is never lost. White space and the shape of quotation marks may
    differ between editions: a span covers the text of this edition.

    >>> dataset = load_pydoc()
    >>> case = dataset.cases[0]
    >>> case.query_id, case.category, case.gold_facts[0][0]
    ('p001', 'factual_lookup', 'evaluated once')
    >>> dataset.qrels["p001"]
    {'function': 3, 'calls': 2, 'compound': 3}
    >>> [span.doc_id for span in case.evidence]
    ['compound', 'function', 'compound', 'function', 'calls']
    >>> span = case.evidence[1]
    >>> dataset.corpus[span.doc_id].full_text[span.start : span.end].split()[:5]
    ['This', 'means', 'that', 'the', 'expression']

    Raises `DataError` for a split other than "test".
    """
    if split != "test":
        raise DataError(
            f'{unknown("split of pydoc", split, ["test"])}; use load_dataset("pydoc", split="test")'
        )
    # The order is part of the fingerprint, and must not depend on how the mapping was put together.
    corpus = {name: Document(name, text) for name, text in sorted(own_topics().items())}
    find_spans = _quote_finder(tuple((name, document.text) for name, document in corpus.items()))
    lines = Path(__file__).with_name("pydoc_cases.jsonl").read_bytes().splitlines()
    records = [json.loads(line) for line in lines]
    cases = []
    qrels = {}
    spans_by_query = {}
    for record in records:
        # of each quote every place where a topic has it; () if none has
        spans_of_quotes = [find_spans(quote["quote"]) for quote in record["evidence"]]
        cases.append(_case(record, spans_of_quotes))
        qrels[record["query_id"]] = _grades(record, spans_of_quotes)
        spans_by_query[record["query_id"]] = spans_of_quotes
    _warn_of_missing_quotes(records, spans_by_query)
    return Dataset("pydoc", split, corpus, tuple(cases), qrels)


def _warn_of_missing_quotes(
    records: Sequence[Mapping[str, Any]],
    spans_by_query: Mapping[str, Sequence[Sequence[Span]]],
) -> None:
    """Warn of quotes that are in no topic, and of questions that have no evidence left.

    Args:
        records: the lines of pydoc_cases.jsonl.
        spans_by_query: query id -> the places of each quote, in the order of the record's evidence.
    """
    missing_quotes = []
    without_evidence = []
    for record in records:
        query_id = record["query_id"]
        spans_of_quotes = spans_by_query[query_id]
        for quote, spans in zip(record["evidence"], spans_of_quotes, strict=True):
            if not spans:
                missing_quotes.append(f"{query_id} {quote['doc_id']}")
        if spans_of_quotes and not any(spans_of_quotes):
            without_evidence.append(query_id)
    dropped = "quotes are not in this edition of the topics and were dropped"
    warn_of_flaw("pydoc", dropped, missing_quotes)
    warn_of_flaw("pydoc", "questions are left without any evidence by that", without_evidence)


def own_topics() -> Mapping[str, str]:
    """Return the topics of the help of this Python, name -> text.

    Raises:
        DataError: this Python comes without them.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as exc:
        raise DataError(
            "this Python comes without pydoc_data.topics, the corpus of pydoc (some "
            "distributions leave it out); install the full standard library"
        ) from exc
    return topics


@cache
def _squeezed(text: str) -> tuple[str, Ints]:
    """Return a text without white space, with straight quotation marks and dashes, and for each of
    its characters the offset in the original text.
    """
    letters = np.array([text]).view("U1")  # an array of its characters
    origins = np.flatnonzero(~np.char.isspace(letters))
    # `translate` looks at every letter, so that six replacements are faster
    for sign, plain in zip("‘’“”–—", "''\"\"--", strict=True):
        text = text.replace(sign, plain)
    return "".join(text.split()), origins


@cache
def _quote_finder(topics: tuple[tuple[str, str], ...]) -> Callable[[str], tuple[Span, ...]]:
    """Return a function that returns every place of a quote in these topics (name, text); () if no
    topic has it.

    Topics that repeat a passage break its lines differently, so the search ignores white space and
    the shape of quotation marks and dashes.
    """

    # the processes of a sweep inherit the cache when they are forked, so they need not search again
    @cache
    def places(quote: str) -> tuple[Span, ...]:
        spans = []
        squeezed_quote, _ = _squeezed(quote)  # without white space, and with plain quotation marks
        for name, topic in topics:
            # origins[i]: the offset in `topic` of the character i of `squeezed_topic`
            squeezed_topic, origins = _squeezed(topic)
            start = squeezed_topic.find(squeezed_quote)
            while start >= 0:
                end = start + len(squeezed_quote)
                spans.append(Span(name, int(origins[start]), int(origins[end - 1]) + 1))
                start = squeezed_topic.find(squeezed_quote, end)
        return tuple(spans)

    return places


def _case(record: Mapping[str, Any], spans_of_quotes: Sequence[Sequence[Span]]) -> Case:
    """Return the case of a record, with every place of its quotes as evidence."""
    names = "query_id text category query_type reference_answer expected_outcome".split()
    return Case(
        **{name: record[name] for name in names},
        evidence=tuple(dict.fromkeys(chain(*spans_of_quotes))),
        gold_facts=tuple(map(tuple, record["gold_facts"])),
    )


def _grades(record: Mapping[str, Any], spans_of_quotes: Sequence[Sequence[Span]]) -> dict[str, int]:
    """Return topic -> grade of a question: the grades in its record, raised for topics that repeat its
    quotes.

    A topic that repeats a quote gets at least the grade of the topic that it is quoted from. A topic
    that holds every quote gets the highest grade, because it answers the question directly.

    Args:
        record: a line of pydoc_cases.jsonl.
        spans_of_quotes: the places of each quote, in the order of the record's evidence.
    """
    grades = dict(record["relevant"])
    # for each quote the topics that hold it, without repeats
    topics_of_quotes = [
        list(dict.fromkeys(span.doc_id for span in spans)) for spans in spans_of_quotes
    ]
    for quote, topics in zip(record["evidence"], topics_of_quotes, strict=True):
        grade_of_source = record["relevant"][quote["doc_id"]]
        for topic in topics:
            grades[topic] = max(grades.get(topic, 0), grade_of_source)
    if topics_of_quotes:
        # the topics that hold every quote
        for topic in set.intersection(*map(set, topics_of_quotes)):
            grades[topic] = _DIRECT_ANSWER
    return grades
