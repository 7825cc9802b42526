"""Lexical search."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench import store
from ragbench.errors import ConfigError, unknown
from ragbench.retrieval.ranks import best_of_sparse, check_k, checked_ids, counted, ranked
from ragbench.types import Chunk, Queries, Run, as_queries

if TYPE_CHECKING:
    from ragbench.retrieval.ranks import Candidates


class BM25:
    """Lexical search: Okapi BM25 as Lucene computes it, by bm25s.

    The score of a chunk for a query is the sum over the query's words (a repeated word counts each
    time) of ``idf * tf / (tf + k1 * (1 - b + b * length / mean length))`` with ``idf = ln(1 + (n -
    df + 0.5) / (df + 0.5))`` (Robertson & Zaragoza 2009; Kamphuis et al. 2020 for the variant). It
    is above 0 for a chunk that holds a word of the query, without an upper bound; chunks that hold
    none are not returned, so a result can be shorter than k.

    Words are runs of two or more letters, digits or underscores, in lower case, without `stopwords`
    (a language of bm25s such as "en", a list of words, or None), cut to their stems by the Snowball
    `stemmer` (a language such as "english", or None). `k1` (0 or more) is how much repetition
    counts, `b` (0 to 1) how much length does; the defaults are those of Pyserini and Anserini. The
    index is kept in the cache.

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Dogs bark at night.")]
    >>> BM25(chunks).search({"q1": "Does a cat sleep?", "q2": "the quantum"}, k=5)
    {'q1': {'a#0': 0.7104}, 'q2': {}}
    """

    name = "bm25"

    def __init__(
        self,
        chunks: Sequence[Chunk],
        *,
        stemmer: str | None = "english",
        stopwords: str | Sequence[str] | None = "en",
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        if not k1 >= 0 or k1 == float("inf"):
            raise ConfigError(f"k1 is {k1!r}; expected a number of 0 or more, such as 0.9")
        if not 0 <= b <= 1:
            raise ConfigError(f"b is {b!r}; expected a number from 0 to 1, such as 0.4")
        self._words = Words(stemmer, stopwords)
        self.chunks = chunks
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        key = store.digest(self._words.identity, json.dumps([k1, b]), *texts)
        index = store.arrays("bm25", key, lambda: self._index(texts, k1, b))
        vocabulary = index["vocabulary"].tobytes().decode()
        self._column = (
            {word: i for i, word in enumerate(vocabulary.split("\n"))} if vocabulary else {}
        )
        self._scores = (index["data"], index["indices"], index["indptr"])

    def __repr__(self) -> str:
        return f"BM25({counted(self._chunk_ids)})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """For each query the `k` chunks of the highest score, best first; chunks without a word of
        it are left out.
        """
        check_k(k)
        queries = as_queries(queries)
        from scipy.sparse import csr_matrix

        texts = list(queries.values())
        tokenised, words = self._words.of(texts)
        column = np.array([self._column.get(word, -1) for word in words], dtype=np.int64)
        counts = np.array([len(tokens) for tokens in tokenised], dtype=np.int64)
        tokens = np.fromiter(
            (token for row in tokenised for token in row), dtype=np.int64, count=int(counts.sum())
        )
        columns = column[tokens] if len(tokens) else tokens
        rows = np.repeat(np.arange(len(texts)), counts)[columns >= 0]
        columns = columns[columns >= 0]
        bounds = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(texts)), out=bounds[1:])
        # One entry per word as written in the query, repeated words repeated: the sums run in the
        # order in which bm25s adds, so they are its sums to the bit.
        asked = csr_matrix(
            (np.ones(len(columns), np.float32), columns, bounds),
            shape=(len(texts), len(self._column)),
        )
        # by vocabulary, then chunk: the columns of the one are the rows of the other
        index = csr_matrix(self._scores, shape=(len(self._column), len(self._chunk_ids)))

        def candidates(start: int, end: int) -> Candidates:
            return best_of_sparse(asked[start:end] @ index, k)

        return ranked(queries, self._chunk_ids, candidates, k)

    def _index(self, texts: list[str], k1: float, b: float) -> store.Arrays:
        tokenised, words = self._words.of(texts)
        if not words:  # no chunk, or not one word in them
            data, indices, indptr = (
                np.empty(0, np.float32),
                np.empty(0, np.int32),
                np.zeros(1, np.int64),
            )
        else:
            bm25s = _import_bm25s()
            bm25 = bm25s.BM25(
                k1=k1, b=b, method="lucene", csc_backend="scipy"
            )  # sorts faster; the same index
            vocabulary = {word: i for i, word in enumerate(words)}
            bm25.index((tokenised, vocabulary), create_empty_token=False, show_progress=False)
            data, indices, indptr = (bm25.scores[part] for part in ("data", "indices", "indptr"))
        joined = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
        return {"data": data, "indices": indices, "indptr": indptr, "vocabulary": joined}


class Words:
    """Texts to words, the same way for chunks and queries."""

    def __init__(self, stemmer: str | None, stopwords: str | Sequence[str] | None) -> None:
        import Stemmer

        if stemmer is not None and stemmer not in Stemmer.algorithms():
            raise ConfigError(unknown("stemmer", stemmer, Stemmer.algorithms()) + " (or None)")
        self._stemmer = stemmer
        self._stopwords = (
            stopwords
            if isinstance(stopwords, str)
            else sorted({word.lower() for word in stopwords or ()})
        )
        try:
            self.of([])
        except ValueError as exc:  # bm25s knows which languages it has
            raise ConfigError(
                f"stop words {stopwords!r}: expected a language such as 'en', 'english' or "
                f"'german', a list of words, or None; bm25s reports: {exc}"
            ) from exc
        self.identity = json.dumps(
            [stemmer, self._stopwords, version("bm25s"), version("PyStemmer")]
        )

    def of(self, texts: list[str]) -> tuple[list[list[int]], list[str]]:
        """For each text its words as numbers, and the words by their numbers."""
        import Stemmer

        tokenised = _import_bm25s().tokenize(
            texts,
            stopwords=self._stopwords,
            stemmer=Stemmer.Stemmer(self._stemmer) if self._stemmer else None,
            show_progress=False,
        )
        words = [""] * len(tokenised.vocab)
        for word, number in tokenised.vocab.items():
            words[number] = word
        return tokenised.ids, words


def _import_bm25s() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # in a kernel without ipywidgets its progress bars, unused here, warn
        import bm25s
    logging.getLogger("bm25s").setLevel(
        logging.NOTSET
    )  # importing it switches its debug messages on
    return bm25s
