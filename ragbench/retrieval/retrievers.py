"""Retrievers by name (bm25, dense, hybrid, sparse, late, ...): which kinds there are, what a name
or a user's object makes, and what is suggested for unknown ones; other files search.

Constructing a retriever is indexing. All queries are searched in one batch. Scores are rounded to 6
decimals before they are ranked, and equal scores keep the order of the chunks, exactly so at the
k-th place too: the results of BM25, minilm, wordllama and their reciprocal rank fusion do not
depend on the machine's last bits (`Dense` states which others may).

Search servers. A server is asked as it runs: by a file for `ragbench eval`, or, where the chunks of
each configuration are to be put into it, by `package.module:attribute` as the `retriever` of a
grid. PostgreSQL's full text (`retriever = ["bm25", "pg_search:FullText"]`; run by the tests against
a real server; the connection is set by `PGHOST`, `PGUSER`, ...):

```python
# pg_search.py, next to the grid; pip install 'ragbench-lab[postgres]'
import psycopg


class FullText:
    name = "postgres"

    def __init__(self, chunks):
        self.chunks, self.server = chunks, psycopg.connect(autocommit=True)
        words = "words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED"
        self.server.execute(f"CREATE TEMP TABLE chunk (place int, id text, text text, {words})")
        with self.server.cursor().copy("COPY chunk (place, id, text) FROM STDIN") as copy:
            for place, chunk in enumerate(chunks):
                copy.write_row((place, chunk.chunk_id, chunk.text))
        self.server.execute("CREATE INDEX ON chunk USING gin (words)")

    def search(self, queries, k):
        any_word = "replace(plainto_tsquery('english', %s)::text, '&', '|')::tsquery"
        best = "SELECT id, ts_rank_cd(words, q, 1) AS score FROM chunk, any_word AS t(q) WHERE words @@ q"
        asked = f"WITH any_word AS (SELECT {any_word}) {best} ORDER BY score DESC, place LIMIT %s"
        return {one: dict(self.server.execute(asked, (text, k)).fetchall()) for one, text in queries.items()}
```

With pgvector (`CREATE EXTENSION vector`; tried with 0.6.2 on PostgreSQL 16), exact, because there
is no index on the column:

```python
# pg_vectors.py
import psycopg
import ragbench as rb


class Vectors:
    name = "pgvector"

    def __init__(self, chunks):
        self.chunks, self.server = chunks, psycopg.connect(autocommit=True)
        self.embedder = rb.retrieval.load_embedder("minilm")
        self.server.execute("CREATE TEMP TABLE chunk (place int, id text, vector vector(384))")
        vectors = self.embedder.encode([chunk.text for chunk in chunks])
        with self.server.cursor().copy("COPY chunk FROM STDIN") as copy:
            for place, (chunk, vector) in enumerate(zip(chunks, vectors)):
                copy.write_row((place, chunk.chunk_id, str(vector.tolist())))

    def search(self, queries, k):
        best = "SELECT id, 1 - (vector <=> %s::vector) AS score FROM chunk ORDER BY score DESC, place LIMIT %s"
        vectors = map(str, self.embedder.encode(list(queries.values())).tolist())
        return {one: dict(self.server.execute(best, (vector, k)).fetchall()) for one, vector in zip(queries, vectors)}
```

OpenSearch and Elasticsearch, then Qdrant with inference on the server; both are run by the tests
against a server on loopback that follows their documentation, not against their own programs:

```toml
[http]
url = "http://localhost:9200/passages/_search"
body = { size = 10, query = { match = { text = "{query}" } } }

[http.reply]
contexts = "$.hits.hits"
context = { id = "_id", text = "_source.text", doc_id = "_source.doc_id", score = "_score" }
```

```toml
[http]
url = "http://localhost:6333/collections/passages/points/query"

[http.body]
query = { text = "{query}", model = "sentence-transformers/all-minilm-l6-v2" }
limit = 10
with_payload = true

[http.reply]
contexts = "$.result.points"
context = { id = "id", text = "payload.text", doc_id = "payload.doc_id", score = "score" }
```
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from ragbench.errors import (
    ConfigError,
    ModelError,
    RagbenchError,
    nearest,
    plural,
    require,
    unknown,
)
from ragbench.extension import FORM, check_call, imported, is_import, object_name, takes
from ragbench.hints.calls import explaining_calls
from ragbench.retrieval.bm25 import BM25
from ragbench.retrieval.dense import Dense, Hybrid
from ragbench.retrieval.disk import BM25Disk
from ragbench.retrieval.embedders import check_embedder
from ragbench.retrieval.ranks import best
from ragbench.types import Chunk, EmbedderLike, Retriever, Run

RETRIEVERS = ("bm25", "bm25@disk", "dense", "hybrid", "sparse", "late")
FORMS = (
    "bm25",
    "bm25@disk",
    "dense:<embedder>",
    "hybrid:<embedder>",
    "sparse:<model>",
    "late:<model>",
)

LEARNED = {
    "sparse": "a SparseEncoder of sentence-transformers, such as SPLADE: folder or hub name",
    "late": "a MultiVectorEncoder of sentence-transformers, such as ColBERT: folder or hub name",
}
"""Retrievers by a model of sparse vectors, or of a vector for each token of a text -> the model."""


@explaining_calls(
    **dict.fromkeys(["alpha", "weight", "weights"], "fusion"),
    **dict.fromkeys(["k", "top_k", "depth"], "retriever.search(queries, k)"),
)
def make_retriever(
    name: str | Retriever | Callable[[Sequence[Chunk]], Retriever] | EmbedderLike,
    chunks: Sequence[Chunk],
    *,
    embedder: EmbedderLike | None = None,
    language: str = "",
    fusion: str | Callable[..., Any] = "",
) -> Retriever:
    """Index `chunks`, and return the retriever that searches them.

    `name` is "bm25", "bm25@disk" (`BM25Disk`, extra "large"), "dense:<embedder>" or
    "hybrid:<embedder>", where the embedder is anything that `load_embedder` takes: "dense:minilm",
    "hybrid:wordllama", "dense:sentence-transformers/all-mpnet-base-v2", "dense:models/mine".
    "sparse:<model>" (`Sparse`) and "late:<model>" (`Late`) name a folder or a model of the hub.

    A retriever of your own is a class, or a function, that returns a `Retriever` for the chunks, or
    "package.module:attribute", which names one. A `Retriever` that is made already is returned
    unchanged. A retrieval model of BEIR, or an `EvaluateRetrieval` of one, is used, too.

    `embedder` is the embedder of "dense" or "hybrid": a name or an object, as `load_embedder` takes
    it. An object that embeds texts, in place of the name, means "dense" with this embedder.

    `language` is the language of the chunks: a code such as "de", "none", or "" to detect it.
    `fusion` is how a hybrid puts its two rankings together (`Hybrid`); others have one ranking.

    >>> make_retriever("bm25", [Chunk("d1#0", "d1", 0, 6, "a text")])
    BM25(1 chunk)

    Raises ConfigError for an unknown name, and if there are no chunks.
    """
    if _embeds(name):
        name, embedder = "dense", name
    if embedder is not None and name not in ("dense", "hybrid"):
        raise ConfigError(f"retriever {name!r} takes no embedder; write 'dense' or 'hybrid'")
    # None: one of ragbench's own retrievers
    user_object = user_retriever(name) if embedder is None else None
    if user_object is not None:
        _check_chunks(chunks)
        return _user_index(user_object, chunks)
    model: Any = embedder
    if embedder is not None:
        kind = str(name)
    else:
        # "dense:minilm" is the kind "dense" with the model "minilm"
        kind, model = _kind_and_model(name)
    _check_chunks(chunks)
    match kind:
        case "bm25":
            return BM25(chunks, language=language)
        case "bm25@disk":
            return BM25Disk(chunks, language=language)
        case "hybrid":
            return Hybrid(chunks, model, language=language, fusion=fusion)
        case "sparse":
            from ragbench.retrieval.learned import Sparse

            return Sparse(chunks, model)
        case "late":
            from ragbench.retrieval.learned import Late

            return Late(chunks, model)
        case _:
            return Dense(chunks, model, language=language)


def _check_chunks(chunks: Sequence[Chunk]) -> None:
    """Raise ConfigError if there is nothing to index, or something else than chunks."""
    if not chunks:
        raise ConfigError(
            "there are no chunks to index: every document is empty; name a corpus that holds texts"
        )
    # a mapping is refused: it begins with an id
    first = next(iter(chunks)) if isinstance(chunks, Mapping) else chunks[0]
    if not isinstance(first, Chunk):
        raise ConfigError(f"chunks begin with {first!r:.60}; expected chunks as from `rb.chunk`")


def _user_index(retriever: Any, chunks: Sequence[Chunk]) -> Retriever:
    """Return a user's retriever of these chunks: a model of BEIR in our form, an object that searches
    already as it is, else what the class or function returns for the chunks.

    Raises:
        ConfigError: the retriever has no `search(queries, k)`.
        ModelError: the class or function fails.
    """
    if is_beir_model(retriever):
        return BeirRetriever(chunks, retriever)
    what = f"retriever {object_name(retriever)!r}"
    index: Any = retriever
    # a class or function, which makes the retriever
    if not _searches_already(retriever):
        try:
            index = retriever(chunks)
        except RagbenchError:
            raise
        except Exception as exc:  # a user's code may fail in any way
            raise ModelError(
                f"{what} failed to index {plural(len(chunks), 'chunk')}: "
                f"{type(exc).__name__}: {exc}"
            ) from exc
    if not isinstance(index, Retriever):
        raise ConfigError(
            f"{what} returned {type(index).__name__} for the chunks; expected an object with "
            "search(queries, k) -> {query_id: {chunk_id: score}}"
        )
    check_call(f"search of {what}", index.search, "queries", "k")
    return index


def _searches_already(candidate: Any) -> bool:
    """Return True for a retriever that was made, False for a class or function that makes one."""
    return isinstance(candidate, Retriever) and not inspect.isclass(candidate)


def _embeds(candidate: Any) -> bool:
    """Return True for an object that embeds texts, and does not search."""
    if isinstance(candidate, str) or inspect.isclass(candidate) or hasattr(candidate, "search"):
        return False
    return hasattr(candidate, "encode") or hasattr(candidate, "embed_documents")


def check_retriever(name: str | Retriever | Callable[[Sequence[Chunk]], Retriever]) -> None:
    """Raise ConfigError if `name` is not a retriever; no model is loaded, but a module that it names
    is imported.

    >>> check_retriever("hybrid:minilm")
    >>> check_retriever("bm-25")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown retriever 'bm-25'; did you mean 'bm25'? Known: bm25, bm25@disk, \
dense:<embedder>, hybrid:<embedder>, sparse:<model>, late:<model>, package.module:attribute
    """
    # one of ragbench's own: then its name is checked
    if user_retriever(name) is None:
        _kind_and_model(name)


def user_retriever(name: Any) -> Any:
    """Return the object of a user that retrieves, or that makes a retriever: a `Retriever`, a model of
    BEIR, or a class or function that takes the chunks.

    `name` is this object, or "package.module:attribute", which imports it. For any other text, the
    name of one of ragbench's retrievers or an unknown name, return None.

    Raises:
        ConfigError: the object is none of these, or cannot be imported.
    """
    candidate = name
    if is_import(name, RETRIEVERS):
        candidate = imported(name, "retriever")
    if isinstance(candidate, str):
        return None
    if _searches_already(candidate) or is_beir_model(candidate):
        return candidate
    if not callable(candidate):
        raise ConfigError(
            f"retriever {candidate!r}: expected a name, a Retriever, or a function of "
            "the chunks; one with an index of its own is a system, as in rb.evaluate(data, retriever)"
        )
    check_call(f"retriever {object_name(candidate)!r}", candidate, "chunks")
    return candidate


def makes_retriever(candidate: Any) -> bool:
    """Return True for what makes a retriever from chunks: a class that takes them and whose objects
    search, or a function whose first parameter is named `chunks`. (Any other function is a system:
    it is asked questions.)

    >>> makes_retriever(BM25), makes_retriever(lambda chunks: BM25(chunks)), makes_retriever(lambda question: "")
    (True, True, False)
    """
    if inspect.isclass(candidate):
        searches = callable(getattr(candidate, "search", None))
        return searches and takes(candidate, "chunks") and not hasattr(candidate, "answer")
    if not inspect.isfunction(candidate):
        return False
    first = next(iter(inspect.signature(candidate).parameters), "")
    return first == "chunks" and takes(candidate, "chunks")


_EXPECTED = {
    **dict.fromkeys(
        "faiss chroma chromadb qdrant milvus weaviate pinecone pgvector hnsw vector embedding embeddings "
        "semantic knn".split(),
        "dense:minilm",
    ),
    **dict.fromkeys(
        "keyword keywords lexical tfidf tf-idf elasticsearch opensearch lucene okapi".split(),
        "bm25",
    ),
    **dict.fromkeys("ensemble fusion rrf".split(), "hybrid:minilm"),
}
"""Words for retrievers, and names of search engines -> the retriever of this kind."""


def likely_retriever(name: str) -> str:
    """Return the retriever that an unknown name probably means; "" if none is likely.

    >>> likely_retriever("BM-25"), likely_retriever("faiss"), likely_retriever("colour")
    ('bm25', 'dense:minilm', '')
    """
    kind = name.partition(":")[0]
    return _EXPECTED.get(kind.casefold(), "") or nearest(kind, RETRIEVERS)


def _kind_and_model(name: Any) -> tuple[str, str]:
    """Return the kind of one of ragbench's retrievers, and its model or embedder: ("dense", "minilm")
    for "dense:minilm", ("bm25", "") for "bm25".

    Raises:
        ConfigError: the name is unknown, lacks its model, or has one where none is used.
        MissingExtraError: "bm25@disk" without tantivy.
    """
    kind, colon, model = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind not in RETRIEVERS:
        known = f"{', '.join(FORMS)}, {FORM}"
        near = likely_retriever(kind)
        raise ConfigError(unknown("retriever", kind or name, RETRIEVERS, known, near))
    has_model = bool(model.strip())
    match kind:
        case "bm25" | "bm25@disk":
            if colon:
                raise ConfigError(
                    f"retriever {name!r}: BM25 compares words and takes no embedder; write {kind!r}"
                )
            if kind == "bm25@disk":
                require("tantivy", "large")
        case "sparse" | "late":
            if not has_model:
                raise ConfigError(
                    f"retriever {name!r} names no model; write '{kind}:<folder or hub name>'"
                )
        case "dense" | "hybrid":
            if not has_model:
                raise ConfigError(
                    f"retriever {name!r} names no embedder; write '{kind}:minilm' or "
                    f"'{kind}:wordllama'"
                )
            check_embedder(model)
    return kind, model


def is_beir_model(candidate: object) -> TypeGuard[Any]:
    """Return True of an object with BEIR's `search(corpus, queries, top_k, ...)`, and of an
    `EvaluateRetrieval` around one.
    """
    search = getattr(getattr(candidate, "retriever", candidate), "search", None)
    return callable(search) and "corpus" in inspect.signature(search).parameters


class BeirRetriever:
    """A retrieval model of BEIR over chunks. It encodes all of them in each search.

    The score function is the one of an `EvaluateRetrieval`, else "cos_sim", if the model takes one.
    """

    def __init__(self, chunks: Sequence[Chunk], model: Any) -> None:
        """Put the chunks into the form of a corpus of BEIR; `model` is searched with them later."""
        self.chunks = chunks
        retrieval_model = getattr(model, "retriever", model)  # of an `EvaluateRetrieval`
        self._search = retrieval_model.search
        self._options: dict[str, Any] = {}
        if "score_function" in inspect.signature(self._search).parameters:
            self._options["score_function"] = getattr(model, "score_function", "cos_sim")
        self._corpus = {chunk.chunk_id: {"title": "", "text": chunk.text} for chunk in chunks}
        self._places = {chunk_id: place for place, chunk_id in enumerate(self._corpus)}

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """Return for each query the `k` best chunk ids with their scores, best first."""
        # beir 2.2 raises IndexError for a single query, so one more is searched for and left out
        padded = {**queries, "": "one query alone is an IndexError in beir 2.2"}
        run = self._search(self._corpus, padded, k, **self._options)
        return {query_id: best(run.get(query_id, {}), self._places, k) for query_id in queries}
