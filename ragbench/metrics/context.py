"""Measures of the context of an answer, independent of the answer.

Input are the texts of one context in rank order. Recall and the ratio of distinct words are better when higher; the
redundancies and the dispersion when lower (`ragbench.registry`). None of them measures whether the context is about
the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.answers import stated_facts, words


class Diversity(NamedTuple):
    """The diversity that suits a kind of question, both limits included."""

    low: float
    high: float


DIVERSITY_FOR = {"faq": Diversity(0.0, 0.90), "comparison": Diversity(0.40, 0.95), "research": Diversity(0.60, 1.0)}
"""query_type -> the diversity (1 - `tfidf_redundancy`) that suits it: low, medium, high.

Measured with the documents as background, five chunks of 128 tokens: neighbours in one document have 0.73 to 0.90
(medians of four collections), chunks of five documents drawn at random 0.86 to 0.98, BM25's best five 0.65 to 0.91.
"""


def ngram_redundancy(texts: Sequence[str], *, n: int = 3) -> float:
    """Word n-gram overlap between the texts of a context, in [0, 1]; lower is better.

    For two texts: the distinct n-grams of words that both have, divided by those of the text that has fewer (the
    overlap coefficient of Szymkiewicz and Simpson), so a text within a longer one gives 1. The result is the mean over
    all pairs. A text of fewer than `n` words is one n-gram; one without words shares nothing. One text: 0. No text:
    NaN.

    >>> ngram_redundancy(["the tower opened in 1889", "it opened in 1889 in Paris"])
    0.333333333

    Raises:
        ConfigError: `n` is below 1.
    """
    return ngram_redundancies([texts], n=n)[0]


def tfidf_redundancy(texts: Sequence[str], *, background: Sequence[str] = ()) -> float:
    """TF-IDF similarity of the texts of a context, in [0, 1]; lower is better.

    Mean cosine over all pairs of TF-IDF vectors as of scikit-learn's TfidfVectorizer: counts of words times
    ln((1 + N) / (1 + df)) + 1. df and N are those of `background`, such as the documents of the corpus; if it is empty,
    of the texts themselves. Prefer a background: words like "the" alone give unrelated English passages 0.2 by their
    own df, and 0.1 by that of a corpus (medians over 150 questions each on CLAPNQ and SQuAD, five chunks of 256
    tokens). One text: 0. No text: NaN.

    >>> round(tfidf_redundancy(["the red tower", "the red bridge", "a boat"]), 3)
    0.179
    >>> round(tfidf_redundancy(["the red tower", "the red bridge"], background=["the", "the", "the red"]), 3)
    0.404
    """
    return tfidf_redundancies([texts], background=background)[0]


def ngram_redundancies(contexts: Sequence[Sequence[str]], *, n: int = 3) -> list[float]:
    """`ngram_redundancy` of many contexts at once; each distinct text is cut into n-grams once.

    >>> ngram_redundancies([["one two three four", "one two three"], ["alone"], []])
    [1.0, 0.0, nan]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigError(f"n is {n!r}; expected the length of an n-gram in words, 1 or more")
    from scipy.sparse import csr_matrix

    rows = _rows(contexts)
    number: dict[tuple[str, ...], int] = {}
    columns: list[int] = []
    ends = [0]
    for text in rows:
        own = words(text)
        grams = {tuple(own[i : i + n]) for i in range(max(len(own) - n + 1, 1))} if own else ()
        columns += [number.setdefault(gram, len(number)) for gram in grams]
        ends.append(len(columns))
    held = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(rows), max(len(number), 1)))
    sizes = np.diff(ends)

    def alike(own: list[int]) -> npt.NDArray[Any]:
        shared = (held[own] @ held[own].T).toarray()
        smaller = np.minimum.outer(sizes[own], sizes[own])
        share: npt.NDArray[Any] = np.divide(shared, smaller, out=np.zeros_like(shared), where=smaller > 0)
        return share

    return [_mean_over_pairs([rows[text] for text in texts], alike) for texts in contexts]


def tfidf_redundancies(contexts: Sequence[Sequence[str]], *, background: Sequence[str] = ()) -> list[float]:
    """`tfidf_redundancy` of many contexts at once; each distinct text is vectorised once.

    Without a `background`, every context is weighted by its own texts.

    >>> tfidf_redundancies([["a boat", "a boat"], ["alone"], []])
    [1.0, 0.0, nan]
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    rows = _rows(contexts)
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(word for text in rows for word in words(text)))}
    if not vocabulary:  # scikit-learn refuses an empty one
        return [0.0 if texts else math.nan for texts in contexts]
    vectorizer = CountVectorizer(analyzer=words, vocabulary=vocabulary)
    counts = vectorizer.transform(rows).astype(np.float64)

    def weighted(texts: Any, frequency: Any) -> Any:
        weight = np.log((1 + frequency.shape[0]) / (1 + frequency.getnnz(axis=0))) + 1
        return normalize(texts.multiply(weight).tocsr())

    common = weighted(counts, vectorizer.transform(background)) if len(background) else None

    def alike(own: list[int]) -> npt.NDArray[Any]:
        vectors = weighted(counts[own], counts[own]) if common is None else common[own]
        return (vectors @ vectors.T).toarray()  # type: ignore[no-any-return]

    return [_mean_over_pairs([rows[text] for text in texts], alike) for texts in contexts]


def fact_dispersion(texts: Sequence[str], facts: Sequence[Sequence[str]]) -> float:
    """The number of texts of the context that contain a gold fact, by `gold_fact_coverage`; lower is better.

    1 means that one text has all the facts that were found; an answer is easier to compose from few. NaN where there is
    no fact, and where no text contains one (see `context_fact_recall`).

    >>> fact_dispersion(["opened in 1889", "built by Eiffel", "in Paris"], [["1889"], ["Gustave Eiffel", "Eiffel"]])
    2.0
    """
    holding = sum(any(stated_facts(text, facts)) for text in texts)
    return float(holding) if holding else math.nan


def context_fact_recall(texts: Sequence[str], facts: Sequence[Sequence[str]]) -> float:
    """The fraction of the gold facts that some text of the context contains, in [0, 1]; higher is better.

    By the rules of `gold_fact_coverage`, in one text: a fact that is split at a chunk boundary does not count. NaN
    where there is no fact; 0 where there is no text.

    >>> context_fact_recall(["opened in 1889", "in Paris"], [["1889"], ["Gustave Eiffel", "Eiffel"]])
    0.5
    """
    if not facts:
        return math.nan
    by_text = [stated_facts(text, facts) for text in texts]
    return sum(any(held) for held in zip(*by_text, strict=True)) / len(facts) if by_text else 0.0


def unique_token_ratio(texts: Sequence[str]) -> float:
    """Distinct words over all words of the context, in (0, 1]; higher is better; NaN where there is no word.

    It falls with the length of *any* text, because common words recur (the type-token ratio of linguistics; Heaps
    1978). BM25's best five chunks on CLAPNQ have 0.56 at 360 words and 0.50 at 720. Compare only contexts of similar
    length; `expected_unique_ratio` is the usual value for a length: 0.7 up to some 130 words.

    >>> unique_token_ratio(["the red tower", "the red bridge"])
    0.6666666666666666
    """
    found = [word for text in texts for word in words(text)]
    return len(set(found)) / len(found) if found else math.nan


def words_in(texts: Sequence[str]) -> int:
    """The number of words of a context.

    >>> words_in(["the red tower", "in Paris"])
    5
    """
    return sum(len(words(text)) for text in texts)


def expected_unique_ratio(n_words: int) -> float:
    """The `unique_token_ratio` of `n_words` words of English prose without repetition, in (0, 1].

    Heaps' law, 1.32 * n ** -0.13, fitted to chunks drawn at random from different documents of CLAPNQ and SQuAD (25 to
    1,600 words; within 0.03 of the medians). One context in twenty lies 0.1 above it at 50 words and 0.03 at 1,600.
    Code is far below: the Python reference has 0.49 at 400 words where this is 0.61. It estimates whether a target is
    within reach, not whether a context is good.

    >>> [round(expected_unique_ratio(n), 2) for n in (5, 100, 1000)]
    [1.0, 0.73, 0.54]

    Raises:
        ConfigError: `n_words` is below 1.
    """
    if n_words < 1:
        raise ConfigError(f"n_words is {n_words!r}; expected the number of words of a context, 1 or more")
    return float(min(1.0, 1.32 * n_words**-0.13))


def diversity_verdict(diversity: float, query_type: str) -> str:
    """Whether the diversity of a context suits the kind of question: "fitting", "too diverse" or "too uniform".

    Diversity is 1 - `tfidf_redundancy` with the documents as background. A question of type "faq" needs one topic, a
    "comparison" two or three, "research" many: the limits are in `DIVERSITY_FOR`. They are conventions, set from
    typical contexts, not from readers' judgements: above 0.90 texts are as different as those of different documents.
    "" where the diversity is NaN or the type is not one of these.

    >>> diversity_verdict(0.92, "faq"), diversity_verdict(0.92, "research"), diversity_verdict(0.3, "comparison")
    ('too diverse', 'fitting', 'too uniform')
    """
    if query_type not in DIVERSITY_FOR or math.isnan(diversity):
        return ""
    low, high = DIVERSITY_FOR[query_type]
    return "too uniform" if diversity < low else "too diverse" if diversity > high else "fitting"


def _rows(contexts: Iterable[Sequence[str]]) -> dict[str, int]:
    """The distinct texts of all contexts, each with its row."""
    rows: dict[str, int] = {}
    for texts in contexts:
        if isinstance(texts, str):
            raise DataError(f"a context is a sequence of texts, not one text such as {texts[:60]!r}; put it in a list")
        for text in texts:
            rows.setdefault(text, len(rows))
    return rows


_MOST_TEXTS = 1000


def _mean_over_pairs(own: list[int], alike: Callable[[list[int]], npt.NDArray[Any]]) -> float:
    """The mean of a symmetric table over its pairs, rounded: sums of floats may differ in the last bits.

    Of more than 1,000 texts, an even sample of at most as many: the pairs of 200,000 would fill no memory.
    """
    if len(own) < 2:
        return 0.0 if own else math.nan
    own = own[:: -(-len(own) // _MOST_TEXTS)]
    table = alike(own)
    n_pairs = len(own) * (len(own) - 1)
    return round(min(max(float(table.sum() - table.trace()) / n_pairs, 0.0), 1.0), 9)
