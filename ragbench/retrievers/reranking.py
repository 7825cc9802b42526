"""A second, closer look at what a search found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragbench import cache
from ragbench.embedders import load_model, model_identity
from ragbench.errors import ConfigError, DataError, ModelError, unknown_chunk
from ragbench.retrievers.ranking import best, check_k, checked_ids
from ragbench.types import Chunk, Run


def rerank(run: Run, queries: Mapping[str, str], chunks: Sequence[Chunk], model: str, *, k: int) -> Run:
    """The chunks of `run` in the order that a cross-encoder gives them; the best `k` of each query.

    A cross-encoder reads query and chunk together (Nogueira & Cho 2019): slower and better than comparing vectors, so
    it is given what a first search found, for example 100 chunks. `model` is the folder of a sentence-transformers
    CrossEncoder or its name on the hub ("cross-encoder/ms-marco-MiniLM-L6-v2"). Scores are the model's own (usually 0
    to 1, or logits); all pairs go to it in one batch, and they are kept in the cache. `run` is not changed.

    A query of `run` that is not in `queries`, or a chunk that is not in `chunks`, is a DataError.
    """
    check_k(k)
    by_id = _by_id(chunks)
    pairs: list[tuple[str, str]] = []
    for query_id, found in run.items():
        if query_id not in queries:
            raise DataError(f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries given")
        pairs += [(queries[query_id], _known(by_id, chunk_id, query_id).text) for chunk_id in found]
    scores = iter(_cross_encode(pairs, model))
    place = {chunk_id: place for place, chunk_id in enumerate(by_id)}
    return {query_id: best({chunk_id: next(scores) for chunk_id in found}, place, k) for query_id, found in run.items()}


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


def _by_id(chunks: Sequence[Chunk]) -> dict[str, Chunk]:
    return dict(zip(checked_ids(chunks), chunks, strict=True))


def _known(by_id: Mapping[str, Chunk], chunk_id: str, query_id: str) -> Chunk:
    if chunk_id not in by_id:
        raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
    return by_id[chunk_id]
