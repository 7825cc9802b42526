"""A second, closer look at what a search found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench import cache
from ragbench.embedders import load_model, model_identity
from ragbench.errors import ConfigError, DataError, ModelError, unknown_chunk
from ragbench.extension import imported, is_import, object_name
from ragbench.retrievers.ranking import best, check_k, checked_ids
from ragbench.types import Chunk, Run


def rerank(
    run: Run, queries: Mapping[str, str], chunks: Sequence[Chunk], model: str | Callable[..., Any], *, k: int
) -> Run:
    """The chunks of `run` in the order that a cross-encoder gives them; the best `k` of each query.

    A cross-encoder reads query and chunk together (Nogueira & Cho 2019): slower and better than comparing vectors, so
    it is given what a first search found, for example 100 chunks. `model` is the folder of a sentence-transformers
    CrossEncoder or its name on the hub ("cross-encoder/ms-marco-MiniLM-L6-v2"). Scores are the model's own (usually 0
    to 1, or logits); all pairs go to it in one batch, and they are kept in the cache. `run` is not changed.

    A reranker of your own is a function of a query and a list of texts that gives a score for each text, or an object
    with `predict` of a list of pairs (query, text), such as a CrossEncoder, or "package.module:attribute", which names
    one. Its scores are not kept.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "long text"), Chunk("b#0", "b", 0, 1, "text")]
    >>> rerank({"q": {"a#0": 2.0, "b#0": 1.0}}, {"q": "?"}, chunks, lambda query, texts: [-len(t) for t in texts], k=1)
    {'q': {'b#0': -4.0}}

    A query of `run` that is not in `queries`, or a chunk that is not in `chunks`, is a DataError.
    """
    check_k(k)
    by_id = _by_id(chunks)
    pairs: list[tuple[str, str]] = []
    for query_id, found in run.items():
        if query_id not in queries:
            raise DataError(f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries given")
        pairs += [(queries[query_id], _known(by_id, chunk_id, query_id).text) for chunk_id in found]
    own = check_reranker(model)
    scores = iter(_cross_encode(pairs, str(model)) if own is None else _own_scores(run, pairs, own))
    place = {chunk_id: place for place, chunk_id in enumerate(by_id)}
    return {query_id: best({chunk_id: next(scores) for chunk_id in found}, place, k) for query_id, found in run.items()}


def check_reranker(model: str | Callable[..., Any]) -> Any:
    """A user's reranker, imported where it is named; None for the name or folder of a cross-encoder.

    Raises:
        ConfigError: it is neither.
    """
    own: Any = imported(model, "reranker") if isinstance(model, str) and is_import(model) else model
    if isinstance(own, type):
        own = own()
    if isinstance(own, str) and own.strip():
        return None
    if isinstance(own, str) or not (callable(own) or hasattr(own, "predict")):
        raise ConfigError(
            f"rerank: model is {own!r}; expected the folder or the hub name of a CrossEncoder, or a function of a "
            "query and a list of texts"
        )
    return own


def _own_scores(run: Run, pairs: list[tuple[str, str]], own: Any) -> list[float]:
    """The scores of all pairs, in their order."""
    name, scores, start = object_name(own), [], 0
    predict = getattr(own, "predict", None)
    for found in run.values():
        part = pairs[start : start + len(found)]
        start += len(found)
        if not part:
            continue
        given = predict(part) if predict else own(part[0][0], [text for _, text in part])
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (len(part),) or not np.isfinite(values).all():
            raise ModelError(
                f"reranker {name} gave an array of shape {values.shape} for {len(part)} texts; expected one finite "
                "score for each text"
            )
        scores += values.tolist()
    return scores


def _cross_encode(pairs: list[tuple[str, str]], model: str) -> list[float]:
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


def _by_id(chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    return dict(zip(checked_ids(chunks), chunks, strict=True))


def _known(by_id: Mapping[str, Chunk], chunk_id: str, query_id: str) -> Chunk:
    if chunk_id not in by_id:
        raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
    return by_id[chunk_id]
