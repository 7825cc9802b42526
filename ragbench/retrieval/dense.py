"""Search by meaning, alone (`dense:`) and together with search by words (`hybrid:`): cosines over
all chunks; how two rankings become one is in `retrieval/steps/fusion`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import FloatArray, Floats, Ints
from ragbench.errors import ModelError
from ragbench.hints.attributes import suggesting
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
_PAIRS_AT_ONCE = 20_000  # 120 MB for the two vectors of each pair, of 384 components


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
        """Encode all chunks; `language` is their code, or "" to detect it. Warns if the embedder
        does not know their language.
        """
        self.embedder = load_embedder(embedder)
        self.name = f"dense:{self.embedder.name}"
        effect = "dense and hybrid search with it rank them worse than 'bm25' does"
        warn_of_language(self.embedder, language_of(chunks, language), effect)
        self.chunks = chunks
        self._chunk_ids = checked_ids(chunks)
        if isinstance(chunks, LargeChunks):
            self._vectors = _vectors_in_file(chunks, self.embedder)
        else:
            encoded = self.embedder.encode([chunk.text for chunk in chunks])
            self._vectors = _checked_vectors(encoded, len(chunks), self.embedder)

    def __repr__(self) -> str:
        return f"Dense({counted(self._chunk_ids)}, {self.embedder.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest cosine, best first."""
        check_k(k)
        queries = as_queries(queries)
        if not queries or not self._chunk_ids:
            return {query_id: {} for query_id in queries}
        texts = list(queries.values())
        # an embedder may encode queries in another way than chunks
        encode = getattr(self.embedder, "encode_queries", self.embedder.encode)
        query_vectors = _checked_vectors(encode(texts), len(queries), self.embedder)

        def candidates(start: int, end: int) -> Candidates:
            """Return the pairs of these queries and chunks that may be among the best `k`."""
            vectors = query_vectors[start:end]
            # The products are in float32; those that may be among the best are computed again.
            rows, columns, _ = best_of_products(vectors, self._vectors, k)
            cosines = self._cosines(vectors, rows, columns)
            self._make_near_ties_exact(texts[start:end], rows, columns, cosines)
            return Candidates(rows, columns, cosines)

        run = ranked(queries, self._chunk_ids, candidates, k, block=QUERIES_AT_ONCE)
        # A zero vector is a query without text: all cosines are 0, and the first k chunks would be
        # no answer to it.
        for query_id, vector in zip(queries, query_vectors, strict=True):
            if not vector.any():
                run[query_id] = {}
        return run

    def vectors_of(self, chunk_ids: Sequence[str]) -> FloatArray:
        """Return the vectors of these chunks, one row each."""
        return np.asarray(self._vectors[[self._place[chunk_id] for chunk_id in chunk_ids]])

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return chunk_places(self.chunks)

    def _cosines(self, query_vectors: FloatArray, rows: Ints, columns: Ints) -> Floats:
        """Return the cosine of each pair of a query and a chunk: pair i is the query of the number
        `rows[i]` among the `query_vectors` and the chunk of the number `columns[i]`.

        They are computed in float64: float32 products differ in the last bits with the machine, the
        batch and the place in the matrix, float64 products only far below the 6 decimals that count.
        """
        cosines = np.empty(len(rows), dtype=np.float64)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            of_queries = query_vectors[rows[part]].astype(np.float64)
            of_chunks = self._vectors[columns[part]].astype(np.float64)
            cosines[part] = _row_products(of_queries, of_chunks)
        return cosines

    def _make_near_ties_exact(
        self, questions: Sequence[str], rows: Ints, columns: Ints, cosines: Floats
    ) -> None:
        """Replace nearly equal cosines of a question by exact ones, in place, so that the order of chunks
        is the same on every machine; do nothing if the embedder cannot compute exact vectors.

        Vectors in float32 differ between processors, which moves a cosine by up to 4e-7 and would
        change the order of chunks whose cosines differ by less.

        Args:
            questions: texts.
            rows: of each pair of a question and a chunk, the number of the question.
            columns: of each pair, the number of the chunk.
            cosines: of each pair.
        """
        if not (isinstance(self.embedder, TextEmbedder) and self.embedder.is_exact):
            return
        near = _near_ties(rows, cosines)  # indices of pairs
        if not near.size:
            return
        # Each question and each chunk is encoded once; a pair has the place of both among them.
        question_rows, question_of_pair = np.unique(rows[near], return_inverse=True)
        chunk_numbers, chunk_of_pair = np.unique(columns[near], return_inverse=True)
        texts = [questions[row] for row in question_rows]
        texts += [self.chunks[number].text for number in chunk_numbers.tolist()]
        exact_vectors = self.embedder.encode_exactly(texts)
        question_vectors = exact_vectors[: len(question_rows)]
        chunk_vectors = exact_vectors[len(question_rows) :]
        cosines[near] = _row_products(
            question_vectors[question_of_pair], chunk_vectors[chunk_of_pair]
        )


def _row_products(a: Floats, b: Floats) -> Floats:
    """Return the dot product of each row of `a` with the row of `b` of the same number."""
    products: Floats = np.einsum("ij,ij->i", a, b)
    return products


def _near_ties(rows: Ints, cosines: Floats) -> Ints:
    """Return the indices of the cosines that are near ties: another cosine of the same question is
    at most 2e-6 away, but not equal. `rows` has the number of each cosine's question.

    >>> _near_ties(np.array([0, 0, 0, 0, 1]), np.array([0.5, 0.3, 0.5000001, 0.3, 0.5])).tolist()
    [2, 0]
    """
    if not rows.size:
        return rows
    order = np.lexsort((-cosines, rows))  # by question, then from the highest cosine
    falling = cosines[order]
    questions = rows[order]
    gaps = falling[:-1] - falling[1:]
    is_other_question = questions[:-1] != questions[1:]
    # a group: cosines of one question, each at most _NEAR from the one before
    starts_group = np.append(True, is_other_question | (gaps > _NEAR))
    group_starts = np.flatnonzero(starts_group)
    group_sizes = np.diff(np.append(group_starts, len(rows)))
    group_ends = group_starts + group_sizes - 1
    is_near_tie = falling[group_starts] > falling[group_ends]  # for each group: not all are equal
    return order[np.repeat(is_near_tie, group_sizes)]


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
        """Index the chunks twice, by words and by meaning; `fusion` is "rrf:<k>", "weights:<w>", a
        function of the two rankings, or "" for "rrf:60".
        """
        check_fusion(fusion, is_hybrid=True, is_rewritten=False)
        self.chunks = chunks
        lexical = BM25(chunks, language=language)
        dense = Dense(chunks, embedder, language=lexical.language.code)
        self.retrievers = (lexical, dense)
        self.name = dense.name.replace("dense", "hybrid", 1)
        self._fusion = fusion
        self._places = chunk_places(chunks)

    def __repr__(self) -> str:
        return f"Hybrid({counted(self._places)}, {self.name.partition(':')[2]!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest fused score, best first."""
        check_k(k)
        wordings = {query_id: (text,) for query_id, text in as_queries(queries).items()}
        return fused_search(self.retrievers, wordings, k, self._places, self._fusion)


def _vectors_in_file(chunks: LargeChunks, embedder: Embedder) -> FloatArray:
    """Return the vectors of the chunks of a corpus that is too large for memory: an array whose rows
    are read from a file of the cache as they are used. The file is written once per embedder and
    chunks.
    """

    def write(path: Path) -> None:
        with store.bypassed():  # the vectors of single texts are not stored a second time
            _write_vectors(path, chunks, embedder)

    def open_mapped(path: Path) -> FloatArray:
        vectors: FloatArray = np.load(path, mmap_mode="r")
        return vectors

    identity = getattr(embedder, "identity", "")
    key = store.digest(str(identity), stream=(chunk.text for chunk in chunks))
    # An embedder without an identity may return other vectors next time. If the store is bypassed,
    # `kept` writes a temporary file, which is removed when the process ends.
    with nullcontext() if identity else store.bypassed():
        return store.kept("vectors", key, write, open_mapped)


def _write_vectors(path: Path, chunks: LargeChunks, embedder: Embedder) -> None:
    """Write the vectors of the chunks into a new file in NumPy's format, one part after the other."""
    with path.open("wb") as file:
        for start in range(0, len(chunks), _TEXTS_AT_ONCE):
            texts = [chunk.text for chunk in chunks[start : start + _TEXTS_AT_ONCE]]
            part = _checked_vectors(embedder.encode(texts), len(texts), embedder)
            if start == 0:
                shape = (len(chunks), part.shape[1])
                # rows of float32, as `np.load` reads them
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(part, dtype="<f4").tobytes())


def _checked_vectors(vectors: FloatArray, n_texts: int, embedder: Embedder) -> FloatArray:
    """Return the vectors that an embedder computed for texts, as float32.

    Raises:
        ModelError: they are not one row per text, or a row is neither of unit length nor all zeros.
    """
    if vectors.ndim != 2 or len(vectors) != n_texts:
        raise ModelError(
            f"{embedder.name} gave an array of shape {vectors.shape} for {n_texts} texts; expected "
            f"({n_texts}, any)"
        )
    norms = np.linalg.norm(vectors, axis=1)
    is_unit_or_zero = (np.abs(norms - 1) < 1e-3) | (norms == 0)
    if not np.all(is_unit_or_zero):
        raise ModelError(
            f"{embedder.name} gave vectors of length {norms.min():.3g} to {norms.max():.3g}; "
            "expected unit length (divide each row by its norm)"
        )
    return vectors.astype(np.float32, copy=False)
