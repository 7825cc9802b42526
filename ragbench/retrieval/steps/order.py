"""Order: the results of a search, sorted again by a reranker (a cross-encoder, a user's or a
server's) or for variety (`diversify`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import FloatArray, Floats
from ragbench.errors import ConfigError, DataError, ModelError, unknown_chunk
from ragbench.extension import imported, is_import, object_name
from ragbench.hints.calls import explaining_calls
from ragbench.retrieval.hosted_reranker import HostedReranker, is_hosted
from ragbench.retrieval.ranks import best, check_k, checked_ids
from ragbench.retrieval.steps.fusion import normalised
from ragbench.retrieval.steps.values import read_step
from ragbench.retrieval.weights import Weights
from ragbench.types import Chunk, Run, chunk_places, chunks_by_id

_KINDS_OF_RERANKERS = ("cross-encoder", "cross_encoder", "crossencoder", "reranker", "default")
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
    all pairs go to it in one batch, and the scores are kept in the cache. `run` is not changed. With a
    `depth` the model reads only the first `depth` chunks of each query (0 = all). The others follow in
    their order; their scores are the lowest of the model's minus 1, 2, ...

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
    places = chunk_places(chunks)
    to_read = {}  # query_id -> its chunks that the model reads
    for query_id, matches in run.items():
        to_read[query_id] = list(islice(matches, depth or None))  # None: all
    # (question, texts of its chunks) for each query
    questions = _questions_with_texts(to_read, queries, by_id)
    scores = iter(_scores(questions, model, asking))
    reranked: Run = {}
    for query_id, chunk_ids in to_read.items():
        # the scores come query by query, chunk by chunk
        new_scores = {chunk_id: next(scores) for chunk_id in chunk_ids}
        ranking = best(new_scores, places, len(chunk_ids))
        # chunks that the model did not read follow in their old order, each with a score 1 lower
        lowest = min(ranking.values(), default=0.0)
        unread = islice(run[query_id], len(chunk_ids), None)
        for number, chunk_id in enumerate(unread, start=1):
            ranking[chunk_id] = lowest - number
        reranked[query_id] = dict(islice(ranking.items(), k))
    return reranked


def _questions_with_texts(
    chunk_ids_of: Mapping[str, Sequence[str]],
    queries: Mapping[str, str],
    by_id: Mapping[str, Chunk],
) -> list[tuple[str, list[str]]]:
    """Return for each query its text and the texts of its chunks, in the order of `chunk_ids_of`.

    Args:
        chunk_ids_of: query_id -> ids of its chunks.
        queries: query_id -> text.
        by_id: chunk_id -> chunk.

    Raises:
        DataError: a query or a chunk is unknown.
    """
    questions = []
    for query_id, chunk_ids in chunk_ids_of.items():
        if query_id not in queries:
            raise DataError(
                f"rerank: query {query_id!r} of the run is not among the {len(queries)} queries "
                "given"
            )
        for chunk_id in chunk_ids:
            if chunk_id not in by_id:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
        questions.append((queries[query_id], [by_id[chunk_id].text for chunk_id in chunk_ids]))
    return questions


def _scores(
    questions: Sequence[tuple[str, Sequence[str]]],
    model: str | HostedReranker | Callable[..., Any],
    asking: Mapping[str, Any],
) -> list[float]:
    """Return the scores of a reranker for the texts of all questions, in one list, question by question.

    Args:
        questions: the text of each question, and the texts that are scored for it.
        model: a reranker of any kind, see `rerank`.
        asking: options for the requests to a server.
    """
    reranker = check_reranker(model)
    if isinstance(reranker, HostedReranker):
        return reranker.scores(questions, **asking)
    if reranker is not None:
        return _scores_of_user_model(questions, reranker)
    pairs: list[tuple[str, str]] = []
    for query, texts in questions:
        pairs += [(query, text) for text in texts]
    return _cross_encode(pairs, str(model))


def check_reranker(model: str | HostedReranker | Callable[..., Any]) -> Any:
    """Return a reranker that is ready for use; None if `model` is the folder of a cross-encoder or its
    name on the hub, which is not loaded here.

    For a hosted model ("cohere:<model>") return its `HostedReranker`. For an object or function of the
    user, or "package.module:attribute", which names one, return this object or function.

    Raises:
        ConfigError: `model` is none of these.
    """
    if isinstance(model, HostedReranker):
        return model
    if is_hosted(model):
        return HostedReranker(str(model))
    user_model: Any = model
    if isinstance(model, str) and is_import(model):
        user_model = imported(model, "reranker")
    if isinstance(user_model, type):
        user_model = user_model()
    is_name = isinstance(user_model, str) and bool(user_model.strip())
    if is_name:
        is_kind_alone = user_model in _KINDS_OF_RERANKERS and not Path(user_model).exists()
        if is_kind_alone:
            raise ConfigError(
                f"reranker {user_model!r} names no model; write "
                "'cross-encoder/ms-marco-MiniLM-L6-v2', the name of one on the hub, or its folder"
            )
        return None
    if not (callable(user_model) or hasattr(user_model, "predict")):
        raise ConfigError(
            f"rerank: model is {user_model!r}; expected the folder or the hub name of a CrossEncoder, "
            "or a function of a query and a list of texts"
        )
    return user_model


def _scores_of_user_model(
    questions: Sequence[tuple[str, Sequence[str]]], user_model: Any
) -> list[float]:
    """Return the scores of a user's reranker for the texts of all questions, in one list, question by
    question. It is called once for each question that has texts.
    """
    scores: list[float] = []
    predict = getattr(user_model, "predict", None)
    who = f"reranker {object_name(user_model)}"
    for query, texts in questions:
        if not texts:
            continue
        if predict:  # an object such as a CrossEncoder
            predicted = predict([(query, text) for text in texts])
        else:
            predicted = user_model(query, list(texts))
        scores += _checked_scores(predicted, len(texts), who).tolist()
    return scores


def _checked_scores(predicted: Any, n_pairs: int, who: str, way_out: str = "") -> Floats:
    """Return the scores that a model has predicted as an array, one for each pair of a query and a
    text. `who` names the model in an error message, `way_out` ends the message.

    Raises:
        ModelError: the scores are not finite numbers, or not one for each pair.
    """
    expected = f"expected one finite score for each{way_out}"
    try:
        scores = np.asarray(predicted, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ModelError(f"{who} returned no numbers: {exc}; {expected}") from exc
    if scores.shape != (n_pairs,) or not np.isfinite(scores).all():
        raise ModelError(
            f"{who} returned an array of shape {scores.shape} for {n_pairs} pairs; {expected}"
        )
    return scores


def _cross_encode(pairs: list[tuple[str, str]], model: str) -> list[float]:
    """Return the score of each pair (query, text) by the cross-encoder of this folder or name. Scores
    are kept in the cache; each distinct pair is read once, the longest first.
    """
    # longest first: texts of similar length go through the model together
    distinct = sorted(set(pairs), key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
    if not distinct:
        return []
    weights = Weights(model, "CrossEncoder")
    texts = chain.from_iterable(distinct)
    key = store.digest(weights.identity, *texts)
    with store.arrays("rerank", key) as kept:
        if not kept:  # not in the cache, which keeps the arrays that are put into it
            predicted = weights.model.predict(distinct, batch_size=32, show_progress_bar=False)
            way_out = ": take a cross-encoder that was trained to rank (num_labels = 1)"
            who = f"rerank: {model!r}"
            kept["scores"] = _checked_scores(predicted, len(distinct), who, way_out)
    score_of = dict(zip(distinct, kept["scores"].tolist(), strict=True))
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
    # only a user's function is given chunks
    by_id = chunks_by_id(chunks) if step.function else {}
    ordered: Run = {}
    for query_id, scores in run.items():
        first = dict(islice(scores.items(), depth))
        chosen: list[str] = []
        if first and step.function:
            first_chunks = [by_id[chunk_id] for chunk_id in first]
            chosen = _checked_order(step.function(queries[query_id], first_chunks), first)
        elif first:
            relevance = normalised(first)
            chosen = _by_marginal_relevance(relevance, vectors_of([*first]), step.number)
        rest = [chunk_id for chunk_id in scores if chunk_id not in first]
        ranks = enumerate([*chosen, *rest], start=1)
        ordered[query_id] = {chunk_id: 1 / rank for rank, chunk_id in ranks}
    return ordered


def _by_marginal_relevance(
    relevance: Mapping[str, float], vectors: FloatArray, weight: float
) -> list[str]:
    """Return the chunk ids in an order of relevant and various chunks (maximal marginal relevance).

    The next chunk is always the one with the highest ``weight * relevance - (1 - weight) *
    similarity``; its similarity is the highest cosine with a chunk that was chosen before.

    Args:
        relevance: chunk_id -> relevance from 0 to 1.
        vectors: the vectors of these chunks, of length 1, one per row.
        weight: the w of "mmr:w".
    """
    ids = [*relevance]
    rows = np.asarray(vectors, dtype=np.float64)
    weighted_relevance = weight * np.array([*relevance.values()])
    similarity = np.zeros(len(ids))  # of each chunk: the highest cosine with a chosen one
    is_left = np.ones(len(ids), dtype=bool)
    chosen: list[str] = []
    while len(chosen) < len(ids):
        values = np.round(weighted_relevance - (1 - weight) * similarity, _DECIMALS)
        # a chosen chunk cannot be the highest again
        values_of_left = np.where(is_left, values, -np.inf)
        next_place = int(np.argmax(values_of_left))  # the first of equal ones
        cosines = rows @ rows[next_place]
        similarity = np.maximum(similarity, cosines) if chosen else cosines
        is_left[next_place] = False
        chosen.append(ids[next_place])
    return chosen


def _checked_order(returned: Any, known: Mapping[str, float]) -> list[str]:
    """Return the ids of the chunks that a user's function returned, each once.

    `returned` is a list of chunks or of their ids, or a single one.

    Raises:
        ConfigError: something in it is not in `known`, whose keys are the ids of allowed chunks.
    """
    is_list = isinstance(returned, Sequence) and not isinstance(returned, str)
    chunks = returned if is_list else [returned]
    ids = [chunk.chunk_id if isinstance(chunk, Chunk) else chunk for chunk in chunks]
    if all(isinstance(chunk_id, str) and chunk_id in known for chunk_id in ids):
        return list(dict.fromkeys(ids))
    raise ConfigError(
        f"diversity returned {returned!r:.80}; expected chunks that it was given, in another order"
    )
