"""What is done with a retriever: a deep enough search, a second look, from chunks to documents, and
its latency.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import Floats
from ragbench.errors import ConfigError, DataError, ModelError, unknown_chunk
from ragbench.extension import imported, is_import, object_name
from ragbench.retrieval.ranks import best, check_k, checked_ids
from ragbench.retrieval.weights import Weights
from ragbench.types import Chunk, Queries, Retriever, Run, as_queries, chunk_places, chunks_by_id


def retrieve(
    retriever: Retriever,
    queries: Queries,
    chunks: Sequence[Chunk] | None = None,
    *,
    depth: int = 100,
    documents: int = 10,
) -> Run:
    """Search so deep that enough documents remain when several chunks of one document count once.

    `depth` chunks per query; queries whose chunks come from fewer than `documents` documents are
    searched deeper, all in one batch, until they have as many or nothing more matches.

    `queries` are {query_id: text}, those of a dataset, or texts, which are their own ids then.
    `chunks` are those that the retriever was made from; the retrievers of ragbench know theirs.

    >>> from ragbench.retrieval import BM25
    >>> chunks = [Chunk(f"a#{i}", "a", 0, 8, "cats nap") for i in range(9)] + [Chunk("b#0", "b", 0, 8, "cats eat")]
    >>> len(BM25(chunks).search({"q1": "cats"}, k=3)["q1"])
    3
    >>> len(to_documents(retrieve(BM25(chunks), {"q1": "cats"}, chunks, depth=3), chunks)["q1"])
    2
    """
    check_k(depth)
    queries = as_queries(queries)
    searched: Any = getattr(retriever, "chunks", ()) if chunks is None else chunks
    by_id, doc_ids = chunks_by_id(searched), set[str]()
    for chunk in searched:
        doc_ids.add(chunk.doc_id)
        if len(doc_ids) >= documents:
            break
    run = _searched(retriever, queries, depth)
    while depth < len(by_id):
        short = {
            query_id: queries[query_id]
            for query_id, scores in run.items()
            if len(scores) == depth
            and len({getattr(by_id.get(i), "doc_id", None) for i in scores}) < len(doc_ids)
        }
        if not short:
            break
        depth = min(4 * depth, len(by_id))
        run = {**run, **_searched(retriever, short, depth)}  # a query keeps its place
    return run


def _searched(retriever: Retriever, queries: Mapping[str, str], k: int) -> Run:
    """Search, and refuse what is not a run: a retriever may be the user's."""
    run: Any = retriever.search(queries, k)
    if isinstance(run, Mapping) and all(isinstance(scores, Mapping) for scores in run.values()):
        return run  # type: ignore[return-value]
    raise ConfigError(
        f"retriever {type(retriever).__name__}: search({len(queries)} queries, k={k}) "
        f"returned {run!r:.80}; expected {{query_id: {{chunk_id: score}}}}"
    )


def to_documents(run: Run, chunks: Sequence[Chunk]) -> Run:
    """Turn chunks into documents: a document's score is that of its best chunk (MaxP, Dai & Callan
    2019).

    Several chunks of one document count once, so nothing that is measured on documents exceeds 1.
    Documents of equal score are in the order in which the run has them. `retrieve` searches deep
    enough that k documents remain. A chunk id that is not in `chunks` is a DataError.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "x"), Chunk("a#1", "a", 1, 2, "y"), Chunk("b#0", "b", 0, 1, "z")]
    >>> to_documents({"q1": {"a#1": 3.0, "b#0": 2.5, "a#0": 1.0}}, chunks)
    {'q1': {'a': 3.0, 'b': 2.5}}
    """
    by_id = chunks_by_id(chunks)
    documents: Run = {}
    for query_id, scores in run.items():
        best: dict[str, float] = {}
        for chunk_id, score in scores.items():
            chunk = by_id.get(chunk_id)
            if chunk is None:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
            best[chunk.doc_id] = max(score, best.get(chunk.doc_id, score))
        documents[query_id] = dict(sorted(best.items(), key=lambda item: -item[1]))
    return documents


def rerank(
    run: Run,
    queries: Mapping[str, str],
    chunks: Sequence[Chunk],
    model: str | Callable[..., Any],
    *,
    k: int,
) -> Run:
    """Return the chunks of `run` in the order that a cross-encoder gives them; the best `k` of each
    query.

    A cross-encoder reads query and chunk together (Nogueira & Cho 2019): slower and better than
    comparing vectors, so it is given what a first search found, for example 100 chunks. `model` is
    the folder of a sentence-transformers CrossEncoder or its name on the hub
    ("cross-encoder/ms-marco-MiniLM-L6-v2"). Scores are the model's own (usually 0 to 1, or logits);
    all pairs go to it in one batch, and they are kept in the cache. `run` is not changed.

    A reranker of your own is a function of a query and a list of texts that gives a score for each
    text, or an object with `predict` of a list of pairs (query, text), such as a CrossEncoder, or
    "package.module:attribute", which names one. Its scores are not kept.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "long text"), Chunk("b#0", "b", 0, 1, "text")]
    >>> rerank({"q": {"a#0": 2.0, "b#0": 1.0}}, {"q": "?"}, chunks, lambda query, texts: [-len(t) for t in texts], k=1)
    {'q': {'b#0': -4.0}}

    A query of `run` that is not in `queries`, or a chunk that is not in `chunks`, is a DataError.
    """
    check_k(k)
    checked_ids(chunks)
    by_id, positions = chunks_by_id(chunks), chunk_places(chunks)
    pairs: list[tuple[str, str]] = []
    for query_id, matches in run.items():
        if query_id not in queries:
            raise DataError(
                f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries "
                "given"
            )
        for chunk_id in matches:
            if chunk_id not in by_id:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
            pairs.append((queries[query_id], by_id[chunk_id].text))
    user_model = check_reranker(model)
    scores = iter(
        _cross_encode(pairs, str(model))
        if user_model is None
        else _own_scores(run, pairs, user_model)
    )
    return {
        query_id: best({chunk_id: next(scores) for chunk_id in matches}, positions, k)
        for query_id, matches in run.items()
    }


def check_reranker(model: str | Callable[..., Any]) -> Any:
    """Return a user's reranker, imported where it is named; None for the name or folder of a
    cross-encoder.

    Raises:
        ConfigError: it is neither.
    """
    is_named = isinstance(model, str) and is_import(model)
    user_model: Any = imported(str(model), "reranker") if is_named else model
    if isinstance(user_model, type):
        user_model = user_model()
    if isinstance(user_model, str) and user_model.strip():
        return None
    if not (callable(user_model) or hasattr(user_model, "predict")):
        raise ConfigError(
            f"rerank: model is {user_model!r}; expected the folder or the hub name of a CrossEncoder, "
            "or a function of a query and a list of texts"
        )
    return user_model


def _own_scores(run: Run, pairs: list[tuple[str, str]], own: Any) -> list[float]:
    """Return the scores of all pairs, in their order."""
    scores: list[float] = []
    predict = getattr(own, "predict", None)
    for n in filter(None, map(len, run.values())):
        part = pairs[len(scores) : len(scores) + n]
        predicted = predict(part) if predict else own(part[0][0], [text for _, text in part])
        scores += _checked_scores(predicted, n, f"reranker {object_name(own)}").tolist()
    return scores


def _checked_scores(given: Any, n: int, who: str, way_out: str = "") -> Floats:
    scores = np.asarray(given, dtype=np.float64)
    if scores.shape != (n,) or not np.isfinite(scores).all():
        expected = f"expected one finite score for each{way_out}"
        raise ModelError(f"{who} gave an array of shape {scores.shape} for {n} pairs; {expected}")
    return scores


def _cross_encode(pairs: list[tuple[str, str]], model: str) -> list[float]:
    unique = sorted(set(pairs), key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
    if not unique:
        return []
    weights = Weights(model, "CrossEncoder")
    key = store.digest(weights.identity, *(part for pair in unique for part in pair))
    with store.arrays("rerank", key) as kept:
        if not kept:
            predicted = weights.model.predict(unique, batch_size=32, show_progress_bar=False)
            way_out = ": take a cross-encoder that was trained to rank (num_labels = 1)"
            who = f"rerank: {model!r}"
            kept["scores"] = _checked_scores(predicted, len(unique), who, way_out)
    score_of = dict(zip(unique, kept["scores"].tolist(), strict=True))
    return [score_of[pair] for pair in pairs]
