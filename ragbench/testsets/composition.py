"""Where the questions of a test set come from, and how far they repeat the words of their evidence."""

import math
from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import Stemmer

import ragbench.text
from ragbench import store
from ragbench.language import Language, detect_language, n_words, terms, word_code
from ragbench.testsets.known_items import KINDS, KNOWN_ITEM
from ragbench.text import sentence_spans
from ragbench.types import Case, Dataset, Span

ORIGINS = ("people", "generated", "draft")
"""Who wrote a question: a person, a language model, or `draft_known_items`."""

PEOPLES_OVERLAP = {"SQuAD": 0.52, "CLAP NQ": 0.43}
"""Mean of `wording_overlaps` over questions that people wrote: 1,190 of SQuAD 1.1 (Rajpurkar et al.
2016; written while reading the paragraph) and 300 of CLAP NQ (Rosenthal et al. 2024; asked of a search
engine). `tests/testsets/test_composition.py` computes both again."""

PEOPLES_EVIDENCE_WORDS = {"SQuAD": 2, "CLAP NQ": 58}
"""Median of `evidence_words` over the same questions: an answer in SQuAD, sentences in CLAP NQ. The
same test computes both again."""

_AROUND = 1_000  # characters before and after a passage in which its sentences begin and end

_KEPT_CASES = 20  # of fewer questions the overlaps are computed in the time that reading them takes

EXAMPLE = "example"
"""The category of the drafts that `ragbench init` puts into a new test set."""


def origin_of(case: Case) -> str:
    """Return who wrote a question: one of ORIGINS.

    The examples of `ragbench init` are drafts of known items under another category, and count as drafts.
    A draft that a person has rewritten gets another category than "known-item draft"; a generated
    question that a person has checked has `reviewed` in its metadata.

    >>> origin_of(Case("draft-1", "alpha beta", category=KNOWN_ITEM)), origin_of(Case("q1", "Why?"))
    ('draft', 'people')
    """
    if case.category == KNOWN_ITEM:
        return "draft"
    if case.category == EXAMPLE and case.query_type in KINDS:
        return "draft"
    if case.metadata.get("generated") and not case.metadata.get("reviewed"):
        return "generated"
    return "people"


def wording_overlaps(dataset: Dataset) -> Mapping[str, float]:
    """Return query_id -> the fraction of the question's words that its evidence repeats, in [0, 1].

    Words are stemmed, and function words are left out. The evidence of a question is the sentences
    that hold its passages (gold evidence may be two words); without passages, the relevant document
    that repeats most words. Questions without either, or without a word to look for, are left out.

    >>> from ragbench.types import Document, Span
    >>> corpus = {"d": Document("d", "Cats sleep most of the day.")}
    >>> case = Case("q", "How long does a cat sleep at night?", evidence=(Span("d", 0, 26),))
    >>> wording_overlaps(Dataset("pets", "test", corpus, [case], {"q": {"d": 1}}))  # cat, sleep of six
    {'q': 0.3333}
    """
    if len(dataset.cases) < _KEPT_CASES:
        overlaps = _overlaps(dataset)
    else:  # kept on disk: each configuration of a sweep asks the same questions
        with store.arrays("wording", store.digest(_code_digest(), dataset.fingerprint)) as entry:
            if not entry:
                entry["overlaps"] = np.array(_overlaps(dataset), dtype=np.float64)
        overlaps = entry["overlaps"].tolist()
    overlap_of = {}
    for case, overlap in zip(dataset.cases, overlaps, strict=True):
        if not math.isnan(overlap):
            overlap_of[case.query_id] = overlap
    return overlap_of


def _overlaps(dataset: Dataset) -> list[float]:
    """Return the fraction of each question's words that its evidence repeats, in the order of cases;
    NaN for a question without words or evidence.
    """
    language = detect_language(case.text for case in dataset.cases)
    stems_of = cache(partial(_stems, language=language))  # questions share documents
    overlaps = []
    for case in dataset.cases:
        stems = stems_of(case.text)
        texts = _evidence_texts(dataset, case)
        overlap = math.nan
        if stems and texts:
            # of the relevant document that repeats most
            n_repeated = max(len(stems & stems_of(text)) for text in texts)
            overlap = round(n_repeated / len(stems), 4)
        overlaps.append(overlap)
    return overlaps


@cache
def _code_digest() -> str:
    """Return the digest of the code and the packages that the overlaps depend on."""
    here = Path(__file__).read_bytes()
    sentences = Path(ragbench.text.__file__).read_bytes()
    packages = [version(name) for name in ("PyStemmer", "py3langid", "sentencex")]
    return store.digest(here, sentences, word_code(), *packages)


def evidence_words(dataset: Dataset) -> Mapping[str, int]:
    """Return query_id -> the approximate number of words in all gold evidence of the question.

    Questions without gold evidence are left out, and so are questions whose evidence has no words.

    >>> from ragbench.types import Document, Span
    >>> corpus = {"d": Document("d", "Cats sleep most of the day.")}
    >>> case = Case("q", "How long does a cat sleep?", evidence=(Span("d", 11, 26),))
    >>> evidence_words(Dataset("pets", "test", corpus, [case], {}))
    {'q': 4}
    """
    counts = {}
    for case in dataset.cases:
        passages = []
        for span in case.evidence:
            if span.doc_id in dataset.corpus:
                text = dataset.corpus[span.doc_id].full_text
                passages.append(text[span.start : span.end])
        # `n_words` may be a fraction, in scripts without spaces
        count = round(sum(map(n_words, passages)))
        if count:
            counts[case.query_id] = count
    return counts


def _evidence_texts(dataset: Dataset, case: Case) -> list[str]:
    """Return the texts to compare with a question: one text with the sentences of its evidence; without
    evidence, the text of each relevant document. (The caller takes the most similar text.)
    """
    corpus = dataset.corpus
    sentences: list[str] = []
    for span in case.evidence:
        if span.doc_id in corpus:
            sentences += _sentences_at(span, corpus[span.doc_id].full_text)
    if sentences:
        return ["\n".join(sentences)]
    grades = dataset.qrels.get(case.query_id, {})
    relevant = [doc_id for doc_id, grade in grades.items() if grade > 0 and doc_id in corpus]
    return [corpus[doc_id].full_text for doc_id in relevant]


def _sentences_at(span: Span, text: str) -> list[str]:
    """Return the sentences of a document's text that overlap a span. Only 1,000 characters around the
    span are split, as documents may be long.
    """
    window_start = max(0, span.start - _AROUND)
    window = text[window_start : span.end + _AROUND]
    sentences = []
    for start, end in sentence_spans(window):
        overlaps = window_start + start < span.end and span.start < window_start + end
        if overlaps:
            sentences.append(window[start:end])
    return sentences


def _stems(text: str, language: Language) -> frozenset[str]:
    """Return the stems of the words of a text that are not function words."""
    words = [word for word in terms(text) if word not in language.function_words]
    if language.stemmer:
        words = _stemmer(language.stemmer).stemWords(words)
    return frozenset(words)


_stemmer = cache(Stemmer.Stemmer)
