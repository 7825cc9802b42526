"""Chunks that match a query: BM25, Dense, Hybrid, a reranker on top, and from chunks to documents.

Constructing a retriever is indexing. All queries are searched in one batch. Scores are rounded to 6 decimals before
they are ranked, and equal scores stand in the order of the chunks, exactly so at the k-th place too: what a search
returns does not depend on the machine's last bits.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench import cache
from ragbench.embedders import check_embedder, load_embedder, load_model, model_identity
from ragbench.errors import ConfigError, DataError, ModelError, unknown
from ragbench.types import Chunk, Run

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragbench.types import Embedder, FloatArray, Retriever

    Rows = npt.NDArray[np.int64]

RETRIEVERS = ("bm25", "dense", "hybrid")

_DECIMALS = 6
_BLOCK_SCORES = 8_000_000  # scores held at once: 32 MB of float32
_BLOCK_PAIRS = 20_000  # candidates scored exactly at once
_SLACK = 2e-5  # more than rounding to 6 decimals and float32 together can move a score of about 1
_HYBRID_DEPTH = 100


def make_retriever(name: str, chunks: Sequence[Chunk]) -> Retriever:
    """Index `chunks` with the retriever of that name, default settings.

    "bm25", "dense:<embedder>" or "hybrid:<embedder>", where the embedder is anything that `load_embedder` takes:
    "dense:minilm", "hybrid:wordllama", "dense:sentence-transformers/all-mpnet-base-v2", "dense:models/mine".

    >>> make_retriever("bm25", [Chunk("d1#0", "d1", 0, 6, "a text")])
    BM25(1 chunk)
    """
    kind, model = _parse(name)
    if kind == "bm25":
        return BM25(chunks)
    return Dense(chunks, model) if kind == "dense" else Hybrid(chunks, model)


def check_retriever(name: str) -> None:
    """Raise ConfigError when `name` is no retriever, without loading anything.

    >>> check_retriever("hybrid:minilm")
    >>> check_retriever("bm-25")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown retriever 'bm-25'; did you mean 'bm25'? Known: bm25, dense:<embedder>, \
hybrid:<embedder>
    """
    _parse(name)


class BM25:
    """Lexical search: Okapi BM25 as Lucene computes it, by bm25s.

    The score of a chunk for a query is the sum over the query's words (a repeated word counts each time) of
    ``idf * tf / (tf + k1 * (1 - b + b * length / mean length))`` with ``idf = ln(1 + (n - df + 0.5) / (df + 0.5))``
    (Robertson & Zaragoza 2009; Kamphuis et al. 2020 for the variant). It is above 0 for a chunk that holds a word of
    the query, without an upper bound; chunks that hold none are not returned, so a result can be shorter than k.

    Words are runs of two or more letters, digits or underscores, in lower case, without `stopwords` (a language of
    bm25s such as "en", a list of words, or None), cut to their stems by the Snowball `stemmer` (a language such as
    "english", or None). `k1` (0 or more) is how much repetition counts, `b` (0 to 1) how much length does; the defaults
    are those of Pyserini and Anserini. The index is kept in the cache.

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
        self._words = _Words(stemmer, stopwords)
        self._chunk_ids = _chunk_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        key = cache.digest(self._words.identity, json.dumps([k1, b]), *texts)
        index = cache.arrays("bm25", key, lambda: self._index(texts, k1, b))
        vocabulary = index["vocabulary"].tobytes().decode()
        self._column = {word: i for i, word in enumerate(vocabulary.split("\n"))} if vocabulary else {}
        self._scores = (index["data"], index["indices"], index["indptr"])

    def __repr__(self) -> str:
        return f"BM25({_counted(self._chunk_ids)})"

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """For each query the `k` chunks of the highest score, best first; chunks without a word of it are left out."""
        _check_k(k)
        from scipy.sparse import csr_matrix

        texts = list(queries.values())
        tokenised, words = self._words.of(texts)
        column = np.array([self._column.get(word, -1) for word in words], dtype=np.int64)
        counts = np.array([len(tokens) for tokens in tokenised], dtype=np.int64)
        tokens = np.fromiter((token for row in tokenised for token in row), dtype=np.int64, count=int(counts.sum()))
        columns = column[tokens] if len(tokens) else tokens
        rows = np.repeat(np.arange(len(texts)), counts)[columns >= 0]
        columns = columns[columns >= 0]
        bounds = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=len(texts)), out=bounds[1:])
        # One entry per word as it stands in the query, repeated words repeated: the sums run in the order in which
        # bm25s adds, so they are its sums to the bit.
        asked = csr_matrix((np.ones(len(columns), np.float32), columns, bounds), shape=(len(texts), len(self._column)))
        # by vocabulary, then chunk: the columns of the one are the rows of the other
        index = csr_matrix(self._scores, shape=(len(self._column), len(self._chunk_ids)))

        def scores(start: int, end: int) -> FloatArray:
            block: FloatArray = (asked[start:end] @ index).toarray()
            return block

        return _ranked(queries, self._chunk_ids, scores, k, positive=True)

    def _index(self, texts: list[str], k1: float, b: float) -> cache.Arrays:
        tokenised, words = self._words.of(texts)
        if not words:  # no chunk, or not one word in them
            data, indices, indptr = np.empty(0, np.float32), np.empty(0, np.int32), np.zeros(1, np.int64)
        else:
            bm25s = _import_bm25s()
            bm25 = bm25s.BM25(k1=k1, b=b, method="lucene", csc_backend="scipy")  # sorts faster; the same index
            vocabulary = {word: i for i, word in enumerate(words)}
            bm25.index((tokenised, vocabulary), create_empty_token=False, show_progress=False)
            data, indices, indptr = (bm25.scores[part] for part in ("data", "indices", "indptr"))
        joined = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
        return {"data": data, "indices": indices, "indptr": indptr, "vocabulary": joined}


class Dense:
    """Search by meaning: the cosine between the vectors of query and chunk, in [-1, 1], over all chunks (exact).

    `embedder` is a name that `load_embedder` takes, or any object that `ragbench.Embedder` describes. Every chunk has a
    score, so a result has k chunks where there are k; a query without any text has no result.

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> run = Dense(chunks, "wordllama").search({"q1": "a kitten's nap"}, k=2)
    >>> list(run["q1"])
    ['a#0', 'b#0']
    """

    def __init__(self, chunks: Sequence[Chunk], embedder: str | Embedder = "minilm") -> None:
        self._embedder = load_embedder(embedder) if isinstance(embedder, str) else embedder
        self._chunk_ids = _chunk_ids(chunks)
        self._vectors = _checked(self._embedder.encode([chunk.text for chunk in chunks]), len(chunks), self._embedder)

    @property
    def name(self) -> str:
        return f"dense:{self._embedder.name}"

    def __repr__(self) -> str:
        return f"Dense({_counted(self._chunk_ids)}, {self._embedder.name!r})"

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """For each query the `k` chunks of the highest cosine, best first."""
        _check_k(k)
        if not queries or not self._chunk_ids:
            return {query_id: {} for query_id in queries}
        encode = getattr(self._embedder, "encode_queries", self._embedder.encode)
        asked = _checked(encode(list(queries.values())), len(queries), self._embedder)

        def scores(start: int, end: int) -> FloatArray:
            block: FloatArray = asked[start:end] @ self._vectors.T
            return block

        def exact(rows: Rows, columns: Rows) -> npt.NDArray[np.float64]:
            # float32 products differ in the last bits with the machine, the batch and the place in the matrix; in
            # float64 they are equal far below the 6 decimals that count.
            products: npt.NDArray[np.float64] = np.einsum(
                "ij,ij->i", asked[rows].astype(np.float64), self._vectors[columns].astype(np.float64)
            )
            return products

        run = _ranked(queries, self._chunk_ids, scores, k, exact=exact)
        # A zero vector is a query without text: all cosines are 0, and the first k chunks would be no answer to it.
        return {query_id: found if asked[row].any() else {} for row, (query_id, found) in enumerate(run.items())}


class Hybrid:
    """BM25 and Dense together, by reciprocal rank fusion (Cormack, Clarke & Büttcher 2009).

    The score of a chunk is the sum of ``1 / (rrf_k + rank)`` over the two rankings that hold it, rank from 1: above 0
    and at most ``2 / (rrf_k + 1)``. Only ranks count, so the scales of the two need not agree. Each is searched to a
    depth of max(k, 100).

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> Hybrid(chunks, "wordllama").search({"q1": "Does a cat sleep?"}, k=2)  # 2/61, and 1/62 for the second of one
    {'q1': {'a#0': 0.032787, 'b#0': 0.016129}}
    """

    def __init__(self, chunks: Sequence[Chunk], embedder: str | Embedder = "minilm", *, rrf_k: float = 60) -> None:
        if not rrf_k >= 0 or rrf_k == float("inf"):
            raise ConfigError(f"rrf_k is {rrf_k!r}; expected a number of 0 or more, such as 60")
        self._rrf_k = rrf_k
        self._lexical = BM25(chunks)
        self._dense = Dense(chunks, embedder)
        self._place = {chunk.chunk_id: place for place, chunk in enumerate(chunks)}

    @property
    def name(self) -> str:
        return f"hybrid:{self._dense.name.partition(':')[2]}"

    def __repr__(self) -> str:
        return f"Hybrid({_counted(self._place)}, {self._dense.name.partition(':')[2]!r})"

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """For each query the `k` chunks of the highest fused score, best first."""
        _check_k(k)
        depth = max(k, _HYBRID_DEPTH)
        runs = [retriever.search(queries, depth) for retriever in (self._lexical, self._dense)]
        fused: Run = {}
        for query_id in queries:
            scores: dict[str, float] = {}
            for run in runs:
                for rank, chunk_id in enumerate(run[query_id], start=1):
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + 1 / (self._rrf_k + rank)
            fused[query_id] = _best(scores, self._place, k)
        return fused


def rerank(run: Run, queries: Mapping[str, str], chunks: Sequence[Chunk], model: str, *, k: int) -> Run:
    """The chunks of `run` in the order that a cross-encoder gives them; the best `k` of each query.

    A cross-encoder reads query and chunk together (Nogueira & Cho 2019): slower and better than comparing vectors, so
    it is given what a first search found, for example 100 chunks. `model` is the folder of a sentence-transformers
    CrossEncoder or its name on the hub ("cross-encoder/ms-marco-MiniLM-L6-v2"). Scores are the model's own (usually 0
    to 1, or logits); all pairs go to it in one batch, and they are kept in the cache. `run` is not changed.

    A query of `run` that is not in `queries`, or a chunk that is not in `chunks`, is a DataError.
    """
    _check_k(k)
    by_id = _by_id(chunks)
    pairs: list[tuple[str, str]] = []
    for query_id, found in run.items():
        if query_id not in queries:
            raise DataError(f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries given")
        pairs += [(queries[query_id], _known(by_id, chunk_id, query_id).text) for chunk_id in found]
    scores = iter(_cross_encode(pairs, model))
    place = {chunk_id: place for place, chunk_id in enumerate(by_id)}
    return {
        query_id: _best({chunk_id: next(scores) for chunk_id in found}, place, k) for query_id, found in run.items()
    }


def to_documents(run: Run, chunks: Sequence[Chunk]) -> Run:
    """From chunks to documents: a document's score is that of its best chunk (MaxP, Dai & Callan 2019).

    Several chunks of one document count once, so nothing that is measured on documents exceeds 1. Documents of equal
    score stand in the order in which the run has them. Search deep enough in chunks that k documents remain. A chunk id
    that is not in `chunks` is a DataError.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "x"), Chunk("a#1", "a", 1, 2, "y"), Chunk("b#0", "b", 0, 1, "z")]
    >>> to_documents({"q1": {"a#1": 3.0, "b#0": 2.5, "a#0": 1.0}}, chunks)
    {'q1': {'a': 3.0, 'b': 2.5}}
    """
    doc_of = {chunk.chunk_id: chunk.doc_id for chunk in chunks}
    documents: Run = {}
    for query_id, found in run.items():
        best: dict[str, float] = {}
        for chunk_id, score in found.items():
            doc_id = doc_of.get(chunk_id)
            if doc_id is None:
                raise DataError(_stranger(chunk_id, query_id, len(doc_of)))
            if doc_id not in best or score > best[doc_id]:
                best[doc_id] = score
        documents[query_id] = dict(sorted(best.items(), key=lambda item: -item[1]))
    return documents


class _Words:
    """Texts to words, the same way for chunks and queries."""

    def __init__(self, stemmer: str | None, stopwords: str | Sequence[str] | None) -> None:
        import Stemmer

        if stemmer is not None and stemmer not in Stemmer.algorithms():
            raise ConfigError(unknown("stemmer", stemmer, Stemmer.algorithms()) + " (or None)")
        self._stemmer = stemmer
        self._stopwords = (
            stopwords if isinstance(stopwords, str) else sorted({word.lower() for word in stopwords or ()})
        )
        try:
            self.of([])
        except ValueError as exc:  # bm25s knows which languages it has
            raise ConfigError(
                f"stop words {stopwords!r}: expected a language such as 'en', 'english' or 'german', a list of words, "
                f"or None; bm25s says: {exc}"
            ) from exc
        self.identity = json.dumps([stemmer, self._stopwords, version("bm25s"), version("PyStemmer")])

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
        warnings.simplefilter("ignore")  # in a kernel without ipywidgets its progress bars, unused here, warn
        import bm25s
    return bm25s


def _parse(name: str) -> tuple[str, str]:
    kind, colon, model = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind == "bm25" and not colon:
        return kind, ""
    if kind not in ("dense", "hybrid"):
        nearest = unknown("retriever", name, RETRIEVERS).partition(" Known: ")[0]
        raise ConfigError(f"{nearest} Known: bm25, dense:<embedder>, hybrid:<embedder>")
    if not model.strip():
        raise ConfigError(f"retriever {name!r} names no embedder; write '{kind}:minilm' or '{kind}:wordllama'")
    check_embedder(model)
    return kind, model


def _ranked(
    queries: Mapping[str, str],
    chunk_ids: list[str],
    scores: Callable[[int, int], FloatArray],
    k: int,
    *,
    positive: bool = False,
    exact: Callable[[Rows, Rows], npt.NDArray[np.float64]] | None = None,
) -> Run:
    """The exact top k of `scores(start, end)` (a block of queries x all chunks), equal ones in the order of the chunks.

    Candidates are all chunks that could be among the best k once rounded; these are scored by `exact(rows, columns)`
    where that is given, rounded, sorted, and cut.
    """
    ids = list(queries)
    n = len(chunk_ids)
    run: Run = {query_id: {} for query_id in ids}
    if n == 0:
        return run
    step = max(1, _BLOCK_SCORES // n)
    for start in range(0, len(ids), step):
        block = scores(start, min(start + step, len(ids)))
        candidates = np.ones(block.shape, dtype=bool)
        if k < n:
            kth = np.partition(block, n - k, axis=1)[:, n - k : n - k + 1]
            candidates = block >= kth - _SLACK * np.maximum(1.0, np.abs(kth))
        if positive:
            candidates &= block > 0
        rows, columns = np.nonzero(candidates)
        values = np.asarray(block[rows, columns], dtype=np.float64)
        if exact is not None:
            for part in _parts(len(rows)):
                values[part] = exact(start + rows[part], columns[part])
        values = np.round(values, _DECIMALS) + 0.0  # -0.0 would print as such
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        first = np.searchsorted(rows, np.arange(len(block) + 1))
        found_ids = [chunk_ids[column] for column in columns.tolist()]
        found_scores = values.tolist()
        for row in range(len(block)):
            best = slice(first[row], min(first[row] + k, first[row + 1]))
            run[ids[start + row]] = dict(zip(found_ids[best], found_scores[best], strict=True))
    return run


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_PAIRS) for start in range(0, n, _BLOCK_PAIRS))


def _best(scores: Mapping[str, float], place: Mapping[str, int], k: int) -> dict[str, float]:
    rounded = {chunk_id: round(float(score), _DECIMALS) for chunk_id, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], place[item[0]]))[:k])


def _cross_encode(pairs: list[tuple[str, str]], model: str) -> list[float]:
    if not isinstance(model, str) or not model.strip():
        raise ConfigError(f"rerank: model is {model!r}; expected the folder or the hub name of a CrossEncoder")
    unique = sorted(set(pairs), key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
    if not unique:
        return []

    def compute() -> cache.Arrays:
        scores = np.asarray(
            load_model(model, "CrossEncoder").predict(unique, batch_size=32, show_progress_bar=False),
            dtype=np.float64,
        )
        if scores.shape != (len(unique),) or not np.isfinite(scores).all():
            raise ModelError(
                f"rerank: {model!r} gave an array of shape {scores.shape} for {len(unique)} pairs; expected one finite "
                "score per pair: take a cross-encoder that was trained to rank (num_labels = 1)"
            )
        return {"scores": scores}

    key = cache.digest(model_identity(model, "CrossEncoder"), *(part for pair in unique for part in pair))
    score_of = dict(zip(unique, cache.arrays("rerank", key, compute)["scores"].tolist(), strict=True))
    return [score_of[pair] for pair in pairs]


def _checked(vectors: FloatArray, n: int, embedder: Embedder) -> FloatArray:
    if vectors.ndim != 2 or len(vectors) != n:
        raise ModelError(f"{embedder.name} gave an array of shape {vectors.shape} for {n} texts; expected ({n}, any)")
    norms = np.linalg.norm(vectors, axis=1)
    if not np.all((np.abs(norms - 1) < 1e-3) | (norms == 0)):
        raise ModelError(
            f"{embedder.name} gave vectors of length {norms.min():.3g} to {norms.max():.3g}; expected unit length "
            "(divide each row by its norm)"
        )
    return vectors.astype(np.float32, copy=False)


def _chunk_ids(chunks: Sequence[Chunk]) -> list[str]:
    ids = [chunk.chunk_id for chunk in chunks]
    if len(set(ids)) != len(ids):
        repeated, times = Counter(ids).most_common(1)[0]
        raise DataError(f"chunk id {repeated!r} occurs {times} times in {len(ids)} chunks; expected unique ids")
    return ids


def _by_id(chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    return dict(zip(_chunk_ids(chunks), chunks, strict=True))


def _known(by_id: Mapping[str, Chunk], chunk_id: str, query_id: str) -> Chunk:
    if chunk_id not in by_id:
        raise DataError(_stranger(chunk_id, query_id, len(by_id)))
    return by_id[chunk_id]


def _stranger(chunk_id: str, query_id: str, n: int) -> str:
    return (
        f"the run has chunk {chunk_id!r} for query {query_id!r}, which is not among the {n} chunks given; "
        "give the chunks that were searched"
    )


def _check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a whole number of 1 or more")


def _counted(chunk_ids: Sequence[str] | Mapping[str, int]) -> str:
    return f"{len(chunk_ids):,} chunk{'' if len(chunk_ids) == 1 else 's'}"
