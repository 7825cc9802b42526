"""Search by meaning, alone and together with search by words."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import FloatArray, Floats, Ints
from ragbench.errors import ModelError
from ragbench.hints import suggesting
from ragbench.language import language_of
from ragbench.retrieval.bm25 import BM25
from ragbench.retrieval.embedders import TextEmbedder, load_embedder, warn_of_language
from ragbench.retrieval.large_chunks import LargeChunks
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.ranks import (
    QUERIES_AT_ONCE,
    SEARCH_CALLS,
    Candidates,
    best_of_products,
    check_k,
    checked_ids,
    counted,
    ranked,
)
from ragbench.retrieval.steps.fusion import check_fusion, fused_search
from ragbench.types import Chunk, Embedder, EmbedderLike, Run, chunk_places

_TEXTS_AT_ONCE = 20_000
_NEAR = 2e-6  # processors differ by up to 4e-7 a cosine, and scores are rounded to 1e-6
_PAIRS_AT_ONCE = 20_000  # 120 MB for vectors of 384 components


@suggesting(**SEARCH_CALLS)
class Dense:
    """Search by meaning: the cosine between the vectors of query and chunk, in [-1, 1], over all
    chunks (exact). The chunks go through in blocks, with all questions together, at every size.

    `embedder` is a name that `load_embedder` takes, or one of your own as it takes it. Every chunk
    has a score, so a result has k chunks where there are k; a query without any text has no result.

    Processors compute float32 vectors that differ in their last bits, which moves a cosine by up to
    4e-7. Near ties of minilm are computed again in double precision, and the vectors of wordllama
    have the same bits everywhere: both rank alike on every processor. Near ties of other embedders
    may change places on another processor, and so may near ties of scores that are computed from
    the cosines of minilm: by fusion with weights or a function, and by mmr.

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> run = Dense(chunks, "wordllama").search({"q1": "a kitten's nap"}, k=2)
    >>> list(run["q1"])
    ['a#0', 'b#0']
    """

    def __init__(
        self, chunks: Sequence[Chunk], embedder: EmbedderLike = "minilm", *, language: str = ""
    ) -> None:
        self.embedder = load_embedder(embedder)
        self.name = f"dense:{self.embedder.name}"
        effect = "dense and hybrid search with it rank them worse than 'bm25' does"
        warn_of_language(self.embedder, language_of(chunks, language), effect)
        self.chunks = chunks
        self._chunk_ids = checked_ids(chunks)
        if isinstance(chunks, LargeChunks):
            self._vectors = _on_disk(chunks, self.embedder)
        else:
            encoded = self.embedder.encode([chunk.text for chunk in chunks])
            self._vectors = _checked(encoded, len(chunks), self.embedder)

    def __repr__(self) -> str:
        return f"Dense({counted(self._chunk_ids)}, {self.embedder.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest cosine, best first."""
        check_k(k)
        queries = as_queries(queries)
        if not queries or not self._chunk_ids:
            return {query_id: {} for query_id in queries}
        texts = list(queries.values())
        encode = getattr(self.embedder, "encode_queries", self.embedder.encode)
        vectors = _checked(encode(texts), len(queries), self.embedder)

        def candidates(start: int, end: int) -> Candidates:
            query_vectors = vectors[start:end]
            # The products are in float32; those that may be among the best are computed again.
            rows, columns, _ = best_of_products(query_vectors, self._vectors, k)
            cosines = self._cosines(query_vectors, rows, columns)
            self._decide_near_ties(texts[start:end], rows, columns, cosines)
            return rows, columns, cosines

        run = ranked(queries, self._chunk_ids, candidates, k, block=QUERIES_AT_ONCE)
        # A zero vector is a query without text: all cosines are 0, and the first k chunks would be
        # no answer to it.
        return {
            query_id: scores if vectors[row].any() else {}
            for row, (query_id, scores) in enumerate(run.items())
        }

    def vectors_of(self, chunk_ids: Sequence[str]) -> FloatArray:
        """Return the vectors of these chunks, one row each."""
        return np.asarray(self._vectors[[self._place[chunk_id] for chunk_id in chunk_ids]])

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return chunk_places(self.chunks)

    def _cosines(self, query_vectors: FloatArray, rows: Ints, columns: Ints) -> Floats:
        """Return the cosine of each pair: the query in a row of `query_vectors`, and the chunk of
        the number in `columns`.

        They are computed in float64: float32 products differ in the last bits with the machine, the
        batch and the place in the matrix, float64 products only far below the 6 decimals that count.
        """
        cosines = np.empty(len(rows), dtype=np.float64)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            of_queries = query_vectors[rows[part]].astype(np.float64)
            of_chunks = self._vectors[columns[part]].astype(np.float64)
            cosines[part] = np.einsum("ij,ij->i", of_queries, of_chunks)
        return cosines

    def _decide_near_ties(
        self, questions: Sequence[str], rows: Ints, columns: Ints, cosines: Floats
    ) -> None:
        """Replace the cosines of a question that are nearly equal by exact ones, in place, if the
        embedder can compute exact vectors.

        Vectors in float32 differ between processors, which moves a cosine by up to 4e-7 and would
        change the order of chunks whose cosines differ by less.
        """
        if not (isinstance(self.embedder, TextEmbedder) and self.embedder.is_exact):
            return
        near = _near_ties(rows, cosines)
        if not near.size:
            return
        # Each question and each chunk is encoded once; a pair has the place of both among them.
        question_rows, question_of_pair = np.unique(rows[near], return_inverse=True)
        chunk_numbers, chunk_of_pair = np.unique(columns[near], return_inverse=True)
        texts = [questions[row] for row in question_rows]
        texts += [self.chunks[number].text for number in chunk_numbers.tolist()]
        exact = self.embedder.encode_exactly(texts)
        n_questions = len(question_rows)
        of_questions = exact[:n_questions][question_of_pair]
        of_chunks = exact[n_questions:][chunk_of_pair]
        cosines[near] = np.einsum("ij,ij->i", of_questions, of_chunks)


def _near_ties(rows: Ints, cosines: Floats) -> Ints:
    """Return the places in `cosines` of near ties: another cosine of the same question (`rows` names
    the question) is at most 2e-6 away, but not equal.

    >>> _near_ties(np.array([0, 0, 0, 0, 1]), np.array([0.5, 0.3, 0.5000001, 0.3, 0.5])).tolist()
    [2, 0]
    """
    if not rows.size:
        return rows
    order = np.lexsort((-cosines, rows))
    falling = cosines[order]
    gaps = falling[:-1] - falling[1:]
    is_other_question = rows[order][:-1] != rows[order][1:]
    # a group: neighbours of one question that are at most _NEAR apart
    group_starts = np.flatnonzero(np.append(True, is_other_question | (gaps > _NEAR)))
    group_sizes = np.diff(np.append(group_starts, len(rows)))
    group_ends = group_starts + group_sizes - 1
    has_different = falling[group_starts] > falling[group_ends]
    return order[np.repeat(has_different, group_sizes)]


@suggesting(**SEARCH_CALLS)
class Hybrid:
    """BM25 and Dense together: `retrievers`, whose rankings are fused (`ragbench.retrieval.steps.fusion`).

    `fusion` is "rrf:60" by default: the score of a chunk is the sum of ``1 / (60 + rank)`` over the
    two rankings that hold it, rank from 1: above 0 and at most ``2 / 61``. Only ranks count, so the
    scales of the two need not agree. Each is searched to a depth of max(k, 100).

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> Hybrid(chunks, "wordllama").search({"q1": "Does a cat sleep?"}, k=2)  # 2/61, and 1/62 for the second of one
    {'q1': {'a#0': 0.032787, 'b#0': 0.016129}}
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        embedder: EmbedderLike = "minilm",
        *,
        language: str = "",
        fusion: str | Callable[..., Any] = "",
    ) -> None:
        check_fusion(fusion, is_hybrid=True, is_rewritten=False)
        self.chunks = chunks
        lexical = BM25(chunks, language=language)
        dense = Dense(chunks, embedder, language=lexical.language.code)
        self.retrievers = (lexical, dense)
        self.name = dense.name.replace("dense", "hybrid", 1)
        self._fusion = fusion
        self._place = chunk_places(chunks)

    def __repr__(self) -> str:
        return f"Hybrid({counted(self._place)}, {self.name.partition(':')[2]!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest fused score, best first."""
        check_k(k)
        wordings = {query_id: (text,) for query_id, text in as_queries(queries).items()}
        return fused_search(self.retrievers, wordings, k, self._place, self._fusion)


def _on_disk(chunks: LargeChunks, embedder: Embedder) -> FloatArray:
    """Return the vectors of all chunks, computed a part at a time, in a file of the cache that is
    mapped into memory.
    """

    def build(path: Path) -> None:
        with store.bypassed(), path.open("wb") as file:
            for start in range(0, len(chunks), _TEXTS_AT_ONCE):
                texts = [chunk.text for chunk in chunks[start : start + _TEXTS_AT_ONCE]]
                part = _checked(embedder.encode(texts), len(texts), embedder)
                if start == 0:
                    shape = (len(chunks), part.shape[1])
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, header)
                file.write(np.ascontiguousarray(part, dtype="<f4").tobytes())

    identity = getattr(embedder, "identity", "")
    key = store.digest(str(identity), stream=(chunk.text for chunk in chunks))
    # an embedder without an identity may return other vectors next time: nothing is kept of it
    with nullcontext() if identity else store.bypassed():
        return store.kept("vectors", key, build, lambda path: np.load(path, mmap_mode="r"))


def _checked(vectors: FloatArray, n: int, embedder: Embedder) -> FloatArray:
    """Return an embedder's vectors as float32.

    Raises:
        ModelError: they are not `n` rows, or a row is neither of unit length nor all zeros.
    """
    if vectors.ndim != 2 or len(vectors) != n:
        raise ModelError(
            f"{embedder.name} gave an array of shape {vectors.shape} for {n} texts; expected "
            f"({n}, any)"
        )
    norms = np.linalg.norm(vectors, axis=1)
    is_unit_or_zero = (np.abs(norms - 1) < 1e-3) | (norms == 0)
    if not np.all(is_unit_or_zero):
        raise ModelError(
            f"{embedder.name} gave vectors of length {norms.min():.3g} to {norms.max():.3g}; "
            "expected unit length (divide each row by its norm)"
        )
    return vectors.astype(np.float32, copy=False)
