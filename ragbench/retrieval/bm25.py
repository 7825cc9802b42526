"""Lexical search in memory (`bm25`): the formula of BM25, and the stems of words."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from itertools import count

import numpy as np

from ragbench import store
from ragbench.errors import ConfigError
from ragbench.hints.attributes import suggesting
from ragbench.language import Language, language_of, terms, word_code
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.ranks import (
    SEARCH_CALLS,
    Candidates,
    best_of_sparse,
    check_k,
    checked_ids,
    counted,
    ranked,
)
from ragbench.types import Chunk, Run

_STEMMER = version("PyStemmer")


@suggesting(**SEARCH_CALLS)
class BM25:
    """Lexical search: Okapi BM25 as Lucene computes it.

    The score of a chunk for a query is the sum over the query's words (a repeated word counts each
    time) of ``idf * tf / (tf + k1 * (1 - b + b * length / mean length))`` with ``idf = ln(1 + (n -
    df + 0.5) / (df + 0.5))`` (Robertson & Zaragoza 2009; Kamphuis et al. 2020 for the variant). It
    is above 0 for a chunk that holds a word of the query, without an upper bound; chunks that hold
    none are not returned, so a result can be shorter than k.

    Words are found by `ragbench.language.terms`, without function words, cut to their stems by
    Snowball, both of the `language`: a code such as "de", "none", or "" for that
    of the chunks (`ragbench.language`). `k1` (0 or more) is how much repetition
    counts, `b` (0 to 1) how much length does; the defaults are the same as in Pyserini and Anserini. The
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
        language: str = "",
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        if not k1 >= 0 or k1 == float("inf"):
            raise ConfigError(f"k1 is {k1!r}; expected a number of 0 or more, such as 0.9")
        if not 0 <= b <= 1:
            raise ConfigError(f"b is {b!r}; expected a number from 0 to 1, such as 0.4")
        self.language = language_of(chunks, language)
        self._words = Words(self.language)
        self.chunks = chunks
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        key = store.digest(self._words.identity, json.dumps([k1, b]), *texts)
        with store.arrays("bm25", key) as index:
            if not index:
                index |= self._index(texts, k1, b)
        # the words, joined by line feeds, in the order of their columns
        vocabulary = index["vocabulary"].tobytes().decode()
        self._column = (
            {word: i for i, word in enumerate(vocabulary.split("\n"))} if vocabulary else {}
        )
        # the three arrays of a sparse matrix, see `_index`
        self._scores = (index["data"], index["indices"], index["indptr"])

    def __repr__(self) -> str:
        return f"BM25({counted(self._chunk_ids)})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first; chunks without a
        word of it are left out.
        """
        check_k(k)
        queries = as_queries(queries)
        from scipy.sparse import csr_matrix

        rows = [
            [column for word in row if (column := self._column.get(word)) is not None]
            for row in self._words.of(list(queries.values()))
        ]
        columns = [column for row in rows for column in row]
        # the words of query i are columns[bounds[i]:bounds[i + 1]]
        bounds = np.cumsum([0, *map(len, rows)])
        # One entry per word as written in the query, repeated words repeated: the sums run in the
        # order in which bm25s adds, so they are equal to its sums to the bit.
        query_words = csr_matrix(
            (np.ones(len(columns), np.float32), columns, bounds),
            shape=(len(rows), len(self._column)),
        )
        # bm25s is not used: its index takes up to twice the time of `_index`. Its search is faster, but
        # compiles for 5 to 7 seconds in each process (a sweep has many), which pays only for thousands
        # of queries.
        # A row per word and a column per chunk: the columns of the index are the rows of this matrix.
        index = csr_matrix(self._scores, shape=(len(self._column), len(self._chunk_ids)))

        def candidates(start: int, end: int) -> Candidates:
            return best_of_sparse(query_words[start:end] @ index, k)

        return ranked(queries, self._chunk_ids, candidates, k)

    def _index(self, texts: list[str], k1: float, b: float) -> store.Arrays:
        """Return the index of the texts: the score of each word in each chunk as a sparse matrix (data,
        indices, indptr; a column per word), and the words, joined by line feeds.
        """
        from scipy.sparse import csc_matrix

        # stem -> its column; a new stem gets the next number when it is looked up
        column_of: defaultdict[str, int] = defaultdict(count().__next__)
        stems = self._words.of(texts)
        columns = [column_of[stem] for row in stems for stem in row]
        n_words = np.array([len(row) for row in stems], dtype=np.int64)
        rows = np.repeat(np.arange(len(texts), dtype=np.int32), n_words)
        shape = (len(texts), len(column_of))
        # an entry per word and chunk: entries of the same place are added up
        matrix = csc_matrix((np.ones(len(columns), np.float32), (rows, columns)), shape=shape)
        frequency = matrix.data
        n_chunks_with = np.diff(matrix.indptr)  # for each word
        mean_length = n_words.mean() if len(texts) else 1.0
        # The types are the same as in bm25s, so that the scores are equal to its scores to the bit.
        idf = np.array(
            [math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for n in n_chunks_with.tolist()],
            dtype=np.float32,
        )
        # the number of words of the chunk of each entry
        length_of_entry = n_words[matrix.indices]
        saturation = k1 * ((1 - b) + b * length_of_entry / mean_length)
        scores = np.repeat(idf, n_chunks_with) * (frequency / (saturation + frequency))
        return {
            "data": scores.astype(np.float32),
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "vocabulary": np.frombuffer("\n".join(column_of).encode(), dtype=np.uint8),
        }


class Words:
    """Texts to stems, the same way for chunks and queries."""

    def __init__(self, language: Language) -> None:
        self._stem_of = _Stems(language)
        code = store.digest(word_code())
        self.identity = json.dumps([language.stemmer, language.words, _STEMMER, code])

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stems of each text, without function words."""
        stem_of = self._stem_of.__getitem__
        return [[stem for stem in map(stem_of, terms(text)) if stem is not None] for text in texts]


class _Stems(dict[str, str | None]):
    """Word -> its stem, None for a function word.

    A word is stemmed when it is first asked for: a corpus repeats its words, and looking one up takes
    a quarter of the time of stemming it.
    """

    def __init__(self, language: Language) -> None:
        super().__init__()
        import Stemmer

        self._function_words = language.function_words
        self._stemmer = Stemmer.Stemmer(language.stemmer) if language.stemmer else None

    def __missing__(self, word: str) -> str | None:
        stem = None
        if word not in self._function_words:
            stem = word if self._stemmer is None else self._stemmer.stemWord(word)
        self[word] = stem
        return stem
