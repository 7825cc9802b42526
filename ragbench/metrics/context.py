"""Measures of the contexts of answers, independent of the answers: redundancy, diversity for a type
of question, recall of documents, chunks, evidence and facts.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np
import pandas as pd

from ragbench.metrics.answer_similarity import stated_facts, words
from ragbench.metrics.spans import evidence_recall
from ragbench.metrics.tidy import (
    context_ids,
    context_texts,
    relevant_ids,
    tidy_cases,
    usable_cases,
)
from ragbench.types import Answer, Case, Chunk, Dataset, chunks_by_id

Item = TypeVar("Item")

_NEEDED_LABELS = {  # measure -> the label of a case that it needs; "" for none
    "ngram_redundancy": "",
    "tfidf_redundancy": "",
    "unique_token_ratio": "",
    "context_recall": "",
    "expected_document": "",
    "fact_dispersion": "gold_facts",
    "context_fact_recall": "gold_facts",
    "context_evidence_recall": "evidence",
    "context_chunk_recall": "expected_chunks",
}
MIN_DIVERSITY = {"faq": 0.0, "comparison": 1 / 3, "research": 2 / 3}
"""Type of a question -> the least context_diversity that it needs: low, medium, high."""
_DIVERSITY_MEASURES = ("context_diversity", "context_diversity_met")
# documents of a large corpus, evenly spread, that give the document frequencies of words
_BACKGROUND = 2_000
_MAX_TEXTS = 200  # of a context that are compared with each other, evenly spread
_WORDS = 3  # of an n-gram


def score_context(
    dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk] = ()
) -> pd.DataFrame:
    """Score the context behind each answer: columns query_id, measure, value; by measure, then in
    the order of cases.

    In [0, 1] except fact_dispersion; * marks measures of which a lower value is better. Whether the
    context is about the question is not measured.

    - ngram_redundancy*: word 3-grams that two texts share (`ngram_redundancy`).
      tfidf_redundancy*: their similarity (`tfidf_redundancies`) by the documents of the corpus, at
      most 2,000 evenly spread ones; where a system keeps its own documents, by all the texts that
      any answer was given.
    - unique_token_ratio: distinct words over all words, the type-token ratio of linguistics. It
      falls with the length of any text, because common words recur: compare contexts of similar
      length only.
    - fact_dispersion*: the number of texts that hold a gold fact (by the rules of
      `gold_fact_coverage`); an answer is easier to compose from few. Unscored if none does.
      context_fact_recall: the fraction of the gold facts that some text holds; a fact that is split
      at a chunk boundary does not count.
    - context_evidence_recall: the fraction of the characters of the case's evidence that the
      context's chunks contain.
    - context_recall: the fraction of the case's relevant documents that the context has a text of:
      R@k of what reached the model, after every cut. expected_document: 1 where at least one of
      them is there, else 0. Both are unscored if there are contexts, and none of them
      names its document.
    - context_chunk_recall: the fraction of the case's `expected_chunks` that are in the context.
    - context_diversity: the number of distinct documents over the number of contexts.
      context_diversity_met: 1 where that is at least `MIN_DIVERSITY` of the case's query_type, else
      0. Both only for questions of a type in `MIN_DIVERSITY`.

    A measure that needs a label (`_NEEDED_LABELS`) has rows only if some case of the dataset has it. A
    case is unscored (NaN) without the label, without an answer, or where the answer failed; an empty
    context has a recall of 0 and no other score.

    Args:
        dataset: the cases and their labels.
        answers: at most one per case, in any order.
        chunks: those that the answers' contexts name; not needed for answers that carry their own
            passages.

    >>> from ragbench.types import Answer, Case, Chunk, Dataset
    >>> case = Case("q", "When?", gold_facts=(("1889",), ("Eiffel",)))
    >>> chunks = [Chunk("d#0", "d", 0, 14, "Opened in 1889"), Chunk("d#1", "d", 15, 28, "and in Paris.")]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1, "e": 1}})
    >>> frame = score_context(dataset, [Answer("q", "In 1889.", contexts=("d#0", "d#1"))], chunks)
    >>> frame.set_index("measure")["value"].drop("tfidf_redundancy").round(3).to_dict()
    ... # doctest: +NORMALIZE_WHITESPACE
    {'ngram_redundancy': 0.0, 'unique_token_ratio': 0.833, 'context_recall': 0.5, 'expected_document': 1.0,
     'fact_dispersion': 1.0, 'context_fact_recall': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, two answers to one question, or a
            context without a text.
    """
    usable = usable_cases(dataset, answers)
    chunk_of = chunks_by_id(chunks)
    texts_of = context_texts([answer for _, answer in usable], chunks)
    documents_of = {case.query_id: _documents(answer, chunk_of) for case, answer in usable}
    # a chunk names its document, a passage may not; without any context the documents are known, too
    has_passages = any(answer.passages for answer in answers)
    documents_are_known = any(documents_of.values()) or not has_passages
    background = _background(dataset, list(texts_of.values()))
    n_documents, frequencies = _document_frequencies(tuple(background))
    rows = {}
    for case, answer in usable:
        texts = texts_of[case.query_id]
        documents = documents_of[case.query_id]
        # one context after the other, so that `words` reads each of its texts once for all measures
        row = {
            "ngram_redundancy": ngram_redundancy(texts),
            "tfidf_redundancy": _tfidf_redundancy(texts, n_documents, frequencies),
        }
        context_words = [word for text in texts for word in words(text)]
        if context_words:
            row["unique_token_ratio"] = len(set(context_words)) / len(context_words)
        if documents_are_known:
            row |= _document_scores(case, documents, dataset.qrels.get(case.query_id, {}))
        if case.gold_facts:
            row |= _fact_scores(texts, case.gold_facts)
        ids = context_ids(answer)
        row |= _chunk_scores(case, ids, chunk_of)
        if ids and documents:
            row |= _diversity_scores(case.query_type, len(documents) / len(ids))
        rows[case.query_id] = row
    measures = []
    for name, label in _NEEDED_LABELS.items():
        if not label or any(getattr(case, label) for case in dataset.cases):
            measures.append(name)
    if any(case.query_type in MIN_DIVERSITY for case in dataset.cases):
        measures += _DIVERSITY_MEASURES
    return tidy_cases(dataset.cases, measures, rows)


def _document_scores(
    case: Case, documents: Collection[str], grades: Mapping[str, int]
) -> dict[str, float]:
    """Return context_recall and expected_document of a context; {} if no document is relevant.

    Args:
        case: its alternatives are groups of documents of which one is enough.
        documents: the documents of the context.
        grades: doc_id -> grade of the judged documents.
    """
    # the first document of a group of alternatives stands for each of them
    relevant = case.first_alternatives(relevant_ids(grades))
    if not relevant:
        return {}
    n_found = len(relevant & case.first_alternatives(documents))
    return {"context_recall": n_found / len(relevant), "expected_document": float(n_found > 0)}


def _chunk_scores(
    case: Case, ids: Sequence[str], chunk_of: Mapping[str, Chunk]
) -> dict[str, float]:
    """Return context_evidence_recall and context_chunk_recall of the contexts with these ids, each if
    the case has its label.
    """
    scores = {}
    chunks = [chunk_of[chunk_id] for chunk_id in ids if chunk_id in chunk_of]
    has_no_offsets = bool(ids) and not chunks  # the contexts are passages without a known place
    if case.evidence and not has_no_offsets:
        scores["context_evidence_recall"] = evidence_recall(chunks, case.evidence)
    expected = set(case.expected_chunks)
    if expected:
        scores["context_chunk_recall"] = len(expected.intersection(ids)) / len(expected)
    return scores


def _diversity_scores(query_type: str, diversity: float) -> dict[str, float]:
    """Return context_diversity and whether it is enough for this type of question; {} for a type
    without a minimum.
    """
    if query_type not in MIN_DIVERSITY:
        return {}
    is_met = diversity >= MIN_DIVERSITY[query_type] - 1e-9
    return {"context_diversity": diversity, "context_diversity_met": float(is_met)}


def _fact_scores(texts: Sequence[str], facts: Sequence[tuple[str, ...]]) -> dict[str, float]:
    """Return fact_dispersion and context_fact_recall of the texts of one context."""
    rows = [stated_facts(text, facts) for text in texts]
    is_stated = np.array(rows, dtype=bool).reshape(-1, len(facts))  # texts x facts
    n_texts = float(is_stated.any(axis=1).sum())
    return {
        "fact_dispersion": n_texts or math.nan,
        "context_fact_recall": float(is_stated.any(axis=0).mean()),
    }


def ngram_redundancy(texts: Sequence[str]) -> float:
    """Return the overlap of word 3-grams between the texts of a context, in [0, 1]; lower is
    better.

    For two texts: the distinct 3-grams of words that both have, divided by the 3-grams of the text
    that has fewer (the overlap coefficient of Szymkiewicz and Simpson), so it is 1 for a text
    within a longer one. The result is the mean over all pairs (of a context of more than 200 texts,
    over the pairs of at most 200 of them, evenly spread). A text of fewer than three words is one
    n-gram; one without words shares nothing. One text: 0. No text: NaN.

    >>> ngram_redundancy(["the tower opened in 1889", "it opened in 1889 in Paris"])
    0.333333333
    """
    if not texts:
        return math.nan
    ngrams = [_ngrams(text) for text in _evenly_spread(texts, _MAX_TEXTS)]
    overlaps = []
    for first, second in combinations(ngrams, 2):
        n_fewer = max(min(len(first), len(second)), 1)  # 1: a text without words shares nothing
        overlaps.append(len(first & second) / n_fewer)
    return round(float(np.mean(overlaps or [0.0])), 9)


@lru_cache(maxsize=500)  # questions share their contexts
def _ngrams(text: str) -> frozenset[tuple[str, ...]]:
    """Return the distinct 3-grams of a text's words; all its words if it has fewer than three."""
    text_words = words(text)
    if not text_words:
        return frozenset()
    n_ngrams = max(len(text_words) - _WORDS + 1, 1)
    return frozenset(text_words[start : start + _WORDS] for start in range(n_ngrams))


def tfidf_redundancies(contexts: Sequence[Sequence[str]], background: Sequence[str]) -> list[float]:
    """Return the TF-IDF similarity of the texts of each context, in [0, 1]; lower is better.

    Mean cosine over all pairs of TF-IDF vectors as of scikit-learn's TfidfVectorizer, with the
    document frequencies of `background`, such as the documents of the corpus. By the df of the
    texts themselves, words like "the" alone would give unrelated English passages 0.2, by the df of
    a corpus 0.1 (medians over 150 questions each on CLAPNQ and SQuAD, five chunks of 256 tokens).
    One text: 0. No text: NaN.

    >>> [round(value, 3) for value in tfidf_redundancies([["the red tower", "the red bridge"]], ["the", "the", "red"])]
    [0.443]
    """
    n_documents, frequencies = _document_frequencies(tuple(background or [""]))
    return [_tfidf_redundancy(texts, n_documents, frequencies) for texts in contexts]


def _tfidf_redundancy(texts: Sequence[str], n_documents: int, frequencies: Counter[str]) -> float:
    """Return the mean cosine over all pairs of TF-IDF vectors of the texts of one context, in [0, 1]; 0
    for one text, NaN for none. Of more than 200 texts at most 200, evenly spread, are compared.

    Args:
        texts: the texts of the context.
        n_documents: the number of texts in the background.
        frequencies: word -> number of texts in the background that have it.
    """
    if not texts:
        return math.nan
    compared = _evenly_spread(texts, _MAX_TEXTS)
    # A vector of length 1 times the sum of such vectors is the sum of its cosines with them. So each text
    # is compared with the sum of all texts before it, and every pair is met once.
    sum_of_cosines = 0.0
    sum_before: defaultdict[str, float] = defaultdict(float)  # word -> value
    for text in compared:
        vector = _tfidf_vector(text, n_documents, frequencies)
        length = math.sqrt(math.fsum(value**2 for value in vector.values()))
        for word, value in vector.items():
            sum_of_cosines += 2 * sum_before[word] * value / length  # 2: of (a, b) and (b, a)
            sum_before[word] += value / length
    n_ordered_pairs = max(len(compared) * (len(compared) - 1), 1)
    mean = min(max(sum_of_cosines / n_ordered_pairs, 0.0), 1.0)
    return round(mean, 9)


def _tfidf_vector(text: str, n_documents: int, frequencies: Counter[str]) -> dict[str, float]:
    """Return word -> its count in a text, times its inverse document frequency as scikit-learn smooths
    it: ln((1 + n_documents) / (1 + frequency)) + 1.
    """
    vector = {}
    for word, count in Counter(words(text)).items():
        idf = math.log((1 + n_documents) / (1 + frequencies[word])) + 1
        vector[word] = count * idf
    return vector


@lru_cache(maxsize=2)
def _document_frequencies(texts: tuple[str, ...]) -> tuple[int, Counter[str]]:
    """Return the number of texts, and word -> number of texts that have it."""
    frequencies: Counter[str] = Counter()
    for text in texts:
        frequencies.update(set(words(text)))
    return len(texts), frequencies


def _evenly_spread(items: Sequence[Item], n_most: int) -> Sequence[Item]:
    """Return every n-th item, with the smallest n that gives at most `n_most` of them."""
    step = max(1, math.ceil(len(items) / n_most))
    return items[::step]


def _background(dataset: Dataset, contexts: Sequence[Sequence[str]]) -> list[str]:
    """Return the texts by which words are common or rare: at most `_BACKGROUND` documents, evenly
    spread; without a corpus, the distinct texts of all contexts.
    """
    documents = list(dataset.corpus.values())
    if not documents:
        return list(dict.fromkeys(text for texts in contexts for text in texts))
    return [document.full_text for document in _evenly_spread(documents, _BACKGROUND)]


def _documents(answer: Answer, chunk_of: Mapping[str, Chunk]) -> set[str]:
    """Return the documents that the contexts of an answer are from, without those of passages that do not
    name their document.

    `chunk_of` is chunk_id -> chunk, and has each context that is not a passage of the answer.
    """
    documents = set()
    passage_of = answer.passage_of
    for context_id in context_ids(answer):
        source = passage_of.get(context_id) or chunk_of[context_id]
        if source.doc_id:
            documents.add(source.doc_id)
    return documents
