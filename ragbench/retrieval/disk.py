"""Lexical search in an index on the disk (`bm25@disk`), for corpora that are too large for memory."""

import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import store
from ragbench.errors import require
from ragbench.hints.attributes import suggesting
from ragbench.language import language_of
from ragbench.retrieval.bm25 import Words
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.ranks import Candidates, check_k, checked_ids, counted, ranked
from ragbench.types import Chunk, Run

_BATCH = 10_000  # texts that are words in memory at a time
_HEAP_BYTES = 64_000_000
_DECIMALS = 4  # scores are sums of float32, whose last bits depend on the order of the words
_SLACK = 2e-4
# tantivy has k1 = 1.2 and b = 0.75. With 2/3 of the mean length added to each chunk, and a mean that
# is 2.5 times the true one, 1.2 * (0.25 + 0.75 * length / mean) is 0.9 * (0.6 + 0.4 * length / mean)
# of the true lengths: BM25's defaults. Documents that hold nothing else raise the mean.
_PADDING = "_ "


@suggesting()
class BM25Disk:
    """Lexical search by tantivy, for corpora that are too large for `BM25`: the index is mapped
    from the disk, not held in memory.

    It uses the words and the formula of `BM25`; scores are about 2.2 times as large, and the length
    of a chunk is rounded to 8 bits, as in Lucene. They are rounded to 4 decimals; equal ones keep
    the order of the chunks. The index is kept in the cache, by the content of the chunks.

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Dogs bark at night.")]
    >>> BM25Disk(chunks).search({"q1": "Does a cat sleep?", "q2": "the quantum"}, k=5)
    {'q1': {'a#0': 1.9156}, 'q2': {}}

    Raises:
        MissingExtraError: tantivy, of the extra "large", is not installed.
    """

    name = "bm25@disk"

    def __init__(
        self,
        chunks: Sequence[Chunk],
        *,
        language: str = "",
    ) -> None:
        """Index the chunks, or open the index of the same chunks that is in the cache; `language`
        is their code, or "" to detect it.
        """
        self._tantivy: Any = require("tantivy", "large")
        self.language = language_of(chunks, language)
        self._words = Words(self.language)
        self.chunks = chunks
        self._chunk_ids = checked_ids(chunks)
        builder = self._tantivy.SchemaBuilder()
        builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
        builder.add_integer_field("number", fast=True)
        self._schema = builder.build()
        texts = (chunk.text for chunk in chunks)
        key = store.digest(self._words.identity, version("tantivy"), _PADDING, stream=texts)
        self._index = store.kept("bm25-disk", key, self._build, self._open)

    def __repr__(self) -> str:
        return f"BM25Disk({counted(self._chunk_ids)})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first; chunks without a
        word of it are left out.
        """
        check_k(k)
        queries = as_queries(queries)
        word_lists = self._words.of(list(queries.values()))
        searcher = self._index.searcher()

        def candidates(start: int, end: int) -> Candidates:
            """Return the pairs of these queries and chunks that may be among the best `k`."""
            rows: list[int] = []  # for each hit the number of its query
            scores: list[float] = []
            addresses: list[Any] = []
            for row, words in enumerate(word_lists[start:end]):
                for score, address in self._hits_near_the_best(searcher, words, k):
                    rows.append(row)
                    scores.append(score)
                    addresses.append(address)
            chunk_numbers = searcher.fast_field_values("number", addresses) if addresses else []
            return Candidates(
                np.array(rows, dtype=np.int64),
                np.array(chunk_numbers, dtype=np.int64),
                np.array(scores, dtype=np.float64).round(_DECIMALS),
            )

        return ranked(queries, self._chunk_ids, candidates, k)

    def _hits_near_the_best(
        self, searcher: Any, words: list[str], k: int
    ) -> list[tuple[float, Any]]:
        """Return (score, address) of every chunk that could be among the best `k` once scores are rounded,
        best first. An address is the place of a chunk in the index of tantivy.

        A search returns the first `limit` hits only. If the last of them is nearly as good as the
        k-th, more such chunks may follow, and it is repeated with a higher limit.
        """
        query, any_of_them = self._tantivy.Query, self._tantivy.Occur.Should
        terms = []
        for word in words:
            terms.append((any_of_them, query.term_query(self._schema, "words", word, "freq")))
        any_word = query.boolean_query(terms)
        n_chunks = len(self._chunk_ids)
        limit = min(k + 10, n_chunks)
        while True:
            hits: list[tuple[float, Any]] = searcher.search(any_word, limit=limit, count=False).hits
            has_all_matches = len(hits) < limit or limit == n_chunks
            if has_all_matches:
                return hits
            worst_score = hits[-1][0]
            kth_score = hits[k - 1][0]
            if worst_score < kth_score - _SLACK:
                return hits
            limit = min(4 * limit, n_chunks)

    def _build(self, folder: Path) -> None:
        """Write the index of all chunks into a new folder.

        Each chunk is padded, and longer documents without any word of ours ("fillers") are added, so
        that tantivy's fixed k1 and b act as the ones of `BM25` (see `_PADDING`).
        """
        folder.mkdir()
        index = self._tantivy.Index(self._schema, path=str(folder))
        n_threads = 1
        writer = index.writer(_HEAP_BYTES, n_threads)
        n_chunks = len(self._chunk_ids)
        mean_words = self._mean_words_of_sample()
        padding = _PADDING * round(2 / 3 * mean_words)
        for first in range(0, n_chunks, _BATCH):
            texts = [chunk.text for chunk in self.chunks[first : first + _BATCH]]
            for number, words in enumerate(self._words.of(texts), start=first):
                document = self._tantivy.Document(words=padding + " ".join(words), number=number)
                writer.add_document(document)
        # The chunks have the mean length, their padding adds 2/3 of it, and the fillers 5/6 in
        # place of each chunk: together 2.5 times the mean.
        n_fillers = _n_fillers(n_chunks)
        for _ in range(n_fillers):
            filler = _PADDING * round(5 / 6 * mean_words * n_chunks / n_fillers)
            # no chunk has the number `n_chunks`: a filler is never returned by a search
            writer.add_document(self._tantivy.Document(words=filler, number=n_chunks))
        writer.commit()
        writer.wait_merging_threads()

    def _mean_words_of_sample(self) -> float:
        """Return the mean number of words of evenly spread chunks, about 10,000 to 20,000 of them."""
        every = max(1, len(self._chunk_ids) // _BATCH)
        texts = [chunk.text for chunk in self.chunks[::every]]
        lengths = [len(words) for words in self._words.of(texts)]
        return sum(lengths) / max(1, len(lengths))

    def _open(self, folder: Path) -> Any:
        """Return the index in a folder; OSError if not all of its documents were written."""
        index = self._tantivy.Index.open(str(folder))
        n = len(self._chunk_ids)
        if index.searcher().num_docs != n + _n_fillers(n):
            raise OSError(f"{folder} is not a whole index")
        return index


def _n_fillers(n_chunks: int) -> int:
    """Return the number of documents that raise the mean length: one for 120 chunks, rounded up."""
    return math.ceil(n_chunks / 120)
