"""Order: the results of a search, sorted again by a cross-encoder (`rerank`) or for variety
(`diversify`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import FloatArray, Floats
from ragbench.errors import ConfigError, DataError, ModelError, unknown_chunk
from ragbench.extension import imported, is_import, object_name
from ragbench.hints import explaining_calls
from ragbench.retrieval.hosted_reranker import HostedReranker, is_hosted
from ragbench.retrieval.ranks import best, check_k, checked_ids
from ragbench.retrieval.steps.fusion import normalised
from ragbench.retrieval.steps.values import read_step
from ragbench.retrieval.weights import Weights
from ragbench.types import Chunk, Run, chunk_places, chunks_by_id

_DECIMALS = 6  # of compared values: the last bits differ between machines


@explaining_calls()
def rerank(
    run: Run,
    queries: Mapping[str, str],
    chunks: Sequence[Chunk],
    model: str | HostedReranker | Callable[..., Any],
    *,
    k: int,
    depth: int = 0,
    **asking: Any,
) -> Run:
    """Return the best `k` chunks of each query of `run`, in the order of a cross-encoder's scores.

    A cross-encoder reads query and chunk together (Nogueira & Cho 2019): slower and better than
    comparing vectors, so it gets the results of a first search, for example 100 chunks. `model` is
    the folder of a sentence-transformers CrossEncoder or its name on the hub
    ("cross-encoder/ms-marco-MiniLM-L6-v2"). Scores are the model's own (usually 0 to 1, or logits);
    all pairs go to it in one batch, and they are kept in the cache. `run` is not changed. With a
    `depth` it reads the first `depth` chunks of each query alone (0 = all); the others follow in
    their order, with scores that are 1, 2, ... below the lowest of those.

    "cohere:<model>", "voyage:<model>" and "jina:<model>" are asked over HTTP
    (`ragbench.retrieval.hosted_reranker`), as is a `HostedReranker`, which keeps its replies;
    `asking` (concurrency, timeout_s) are options of `generate_many` for these requests.

    A reranker of your own is a function of a query and a list of texts that returns a score for
    each text, or an object with `predict` of a list of pairs (query, text), such as a CrossEncoder,
    or "package.module:attribute", which names one. Its scores are not kept.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "long text"), Chunk("b#0", "b", 0, 1, "text")]
    >>> rerank({"q": {"a#0": 2.0, "b#0": 1.0}}, {"q": "?"}, chunks, lambda query, texts: [-len(t) for t in texts], k=1)
    {'q': {'b#0': -4.0}}

    A query of `run` that is not in `queries`, or a chunk that is not in `chunks`, is a DataError.
    """
    check_k(k)
    checked_ids(chunks)
    by_id = chunks_by_id(chunks)
    positions = chunk_places(chunks)
    to_score = {}  # query_id -> its chunks that the model reads
    for query_id, matches in run.items():
        to_score[query_id] = list(islice(matches, depth or None))  # None: all
    pairs: list[tuple[str, str]] = []
    for query_id, chunk_ids in to_score.items():
        if query_id not in queries:
            raise DataError(
                f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries "
                "given"
            )
        for chunk_id in chunk_ids:
            if chunk_id not in by_id:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
            pairs.append((queries[query_id], by_id[chunk_id].text))
    user_model = check_reranker(model)
    if isinstance(user_model, HostedReranker):
        requests = []
        for query_id, chunk_ids in to_score.items():
            texts = [by_id[chunk_id].text for chunk_id in chunk_ids]
            requests.append((queries[query_id], texts))
        scores = iter(user_model.scores(requests, **asking))
    elif user_model is None:
        scores = iter(_cross_encode(pairs, str(model)))
    else:
        counts = [len(chunk_ids) for chunk_ids in to_score.values()]
        scores = iter(_scores_of_user_model(counts, pairs, user_model))
    reranked: Run = {}
    for query_id, chunk_ids in to_score.items():
        # the scores come in the order of the pairs: query by query, chunk by chunk
        new_scores = {chunk_id: next(scores) for chunk_id in chunk_ids}
        ranking = best(new_scores, positions, len(chunk_ids))
        lowest = min(ranking.values(), default=0.0)
        unread = islice(run[query_id], len(chunk_ids), None)
        for number, chunk_id in enumerate(unread, start=1):
            ranking[chunk_id] = lowest - number
        reranked[query_id] = dict(islice(ranking.items(), k))
    return reranked


def check_reranker(model: str | HostedReranker | Callable[..., Any]) -> Any:
    """Return the reranker that `model` is or names: the object or function of a user, imported if it
    is named, or a `HostedReranker` of a server. None means a cross-encoder, by its name or folder.

    Raises:
        ConfigError: `model` is none of these.
    """
    if isinstance(model, HostedReranker):
        return model
    if is_hosted(model):
        return HostedReranker(str(model))
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


def _scores_of_user_model(
    counts: Iterable[int], pairs: list[tuple[str, str]], user_model: Any
) -> list[float]:
    """Return the scores that a user's model has for all pairs (query, text), in their order.

    `counts` is the number of pairs of each query, in the order of `pairs`. The model is called once
    for each query that has pairs.
    """
    scores: list[float] = []
    predict = getattr(user_model, "predict", None)
    who = f"reranker {object_name(user_model)}"
    for n in counts:
        if n == 0:
            continue
        start = len(scores)
        pairs_of_query = pairs[start : start + n]
        if predict:
            predicted = predict(pairs_of_query)
        else:
            query = pairs_of_query[0][0]
            predicted = user_model(query, [text for _, text in pairs_of_query])
        scores += _checked_scores(predicted, n, who).tolist()
    return scores


def _checked_scores(given: Any, n: int, who: str, way_out: str = "") -> Floats:
    """Return a model's scores as an array of shape (n,).

    `who` names the model in an error message, `way_out` ends the message.

    Raises:
        ModelError: the scores are not numbers, not finite, or not `n`.
    """
    try:
        scores = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ModelError(
            f"{who} returned no numbers: {exc}; expected one finite score for each{way_out}"
        ) from exc
    if scores.shape != (n,) or not np.isfinite(scores).all():
        expected = f"expected one finite score for each{way_out}"
        raise ModelError(
            f"{who} returned an array of shape {scores.shape} for {n} pairs; {expected}"
        )
    return scores


def _cross_encode(pairs: list[tuple[str, str]], model: str) -> list[float]:
    """Return the scores of a cross-encoder, aligned with `pairs`; each distinct pair is read once, the
    longest first.
    """
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


def diversify(
    run: Run,
    queries: Mapping[str, str],
    chunks: Sequence[Chunk],
    diversity: str | Callable[..., Any],
    vectors_of: Callable[[Sequence[str]], FloatArray],
    *,
    depth: int,
) -> Run:
    """Return the chunks of `run` in an order that puts unlike chunks first; scores are 1 / rank.

    "mmr:w" is maximal marginal relevance (Carbonell & Goldstein 1998) of the first `depth` chunks of
    each question. Their relevance is the score in `run`, brought to 0 (the lowest of them) to 1 (the
    highest; 1 for all if they are equal). The next chunk is always the one with the highest ``w *
    relevance - (1 - w) * similarity``, similarity being the highest cosine with a chunk that is
    chosen already (0 before there is one): w = 1 keeps the order, w = 0 looks at variety alone.
    Values are compared after rounding to 6 decimals; of equal ones the chunk that comes first in
    `run` is taken. The chunks below `depth` follow in their order.

    Args:
        run: query_id -> chunk_id -> score, best first.
        queries: query_id -> question.
        chunks: that the run names.
        diversity: "mmr:w", or a function of a question and its chunks, best first, that returns
            them, or some of them, in another order.
        vectors_of: the vectors of length 1 of chunks, named by their ids.
        depth: number of chunks that are put in order.

    >>> vectors = {"a": (1.0, 0.0), "b": (1.0, 0.0), "c": (0.0, 1.0)}
    >>> rows = lambda ids: np.array([vectors[one] for one in ids])
    >>> diversify({"q": {"a": 3.0, "b": 2.5, "c": 1.0}}, {}, [], "mmr:0.5", rows, depth=10)  # b: .375 - .5, c: 0 - 0
    {'q': {'a': 1.0, 'c': 0.5, 'b': 0.3333333333333333}}
    """
    step = read_step("diversity", diversity)
    by_id = chunks_by_id(chunks) if step.function else {}
    ordered: Run = {}
    for query_id, scores in run.items():
        first = dict(islice(scores.items(), depth))
        if not first:
            chosen: list[str] = []
        elif step.function:
            found = step.function(queries[query_id], [by_id[chunk_id] for chunk_id in first])
            chosen = _ids_of(found, first)
        else:
            chosen = _marginal(normalised(first), vectors_of([*first]), step.number)
        rest = [chunk_id for chunk_id in scores if chunk_id not in first]
        ordered[query_id] = {
            chunk_id: 1 / rank for rank, chunk_id in enumerate([*chosen, *rest], start=1)
        }
    return ordered


def _marginal(relevance: Mapping[str, float], vectors: FloatArray, weight: float) -> list[str]:
    """Return the chunk ids in the order of maximal marginal relevance.

    `relevance` is chunk_id -> relevance from 0 to 1, `vectors` has the vector of each of these
    chunks, `weight` is the w of "mmr:w".
    """
    ids = [*relevance]
    rows = np.asarray(vectors, dtype=np.float64)
    weighted_relevance = weight * np.array([*relevance.values()])
    similarity = np.zeros(len(ids))  # of each chunk: the highest with a chosen one
    is_left = np.ones(len(ids), dtype=bool)
    chosen: list[str] = []
    while len(chosen) < len(ids):
        values = np.round(weighted_relevance - (1 - weight) * similarity, _DECIMALS)
        values_of_left = np.where(is_left, values, -np.inf)
        number = int(np.argmax(values_of_left))  # the first of equal ones
        cosines = rows @ rows[number]
        similarity = np.maximum(similarity, cosines) if chosen else cosines
        is_left[number] = False
        chosen.append(ids[number])
    return chosen


def _ids_of(found: Any, known: Mapping[str, float]) -> list[str]:
    """Return the ids of the chunks that a user's function has returned (chunks, or ids), each once;
    ConfigError if anything else is among them.
    """
    chunks = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else [found]
    ids = [chunk.chunk_id if isinstance(chunk, Chunk) else chunk for chunk in chunks]
    if all(isinstance(chunk_id, str) and chunk_id in known for chunk_id in ids):
        return list(dict.fromkeys(ids))
    raise ConfigError(
        f"diversity returned {found!r:.80}; expected chunks that it was given, in another order"
    )
