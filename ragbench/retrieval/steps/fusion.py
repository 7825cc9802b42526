"""Fusion: one ranking of several (rrf, weights), for a hybrid's two searches and for several
wordings of a question.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from ragbench.errors import ConfigError
from ragbench.retrieval.ranks import best
from ragbench.retrieval.steps.values import read_step
from ragbench.types import Retriever, Run

Ranking = Mapping[str, float]
"""chunk_id -> score, best first."""

_DEPTH = 100  # the smallest depth of the fused searches
_DEFAULT = "rrf:60"  # the constant of Cormack, Clarke & Büttcher 2009


def fuse(
    rankings: Sequence[Ranking],
    fusion: str | Callable[..., Any] = _DEFAULT,
    weights: Sequence[float] = (),
) -> dict[str, float]:
    """Return chunk_id -> fused score of one question, in the order in which the chunks turn up.

    Args:
        rankings: best first; a ranking may lack chunks that another one has.
        fusion: "rrf:k" is reciprocal rank fusion (Cormack, Clarke & Büttcher 2009): the sum of
            ``1 / (k + rank)`` over the rankings that hold a chunk, rank from 1. "weights:w" is the
            weighted mean of scores: each ranking's scores become ``(score - lowest) / (highest -
            lowest)``, with the lowest and highest score of that ranking (1 for all if they are
            equal), and 0 for a chunk that a ranking lacks; their sum has the `weights`. A function
            gets the rankings and returns the fused one.
        weights: of "weights:w", one for each ranking; () = equal ones that sum to 1.

    >>> bm25, dense = {"a": 9.0, "b": 3.0}, {"b": 8.0, "c": 6.0, "a": 4.0}
    >>> fuse([bm25, dense], "rrf:0")  # a: 1/1 + 1/3, b: 1/2 + 1/1, c: 1/2
    {'a': 1.3333333333333333, 'b': 1.5, 'c': 0.5}
    >>> fuse([bm25, dense], "weights:0.75", (0.25, 0.75))  # a: 0.25 * 1 + 0.75 * 0, b: 0.25 * 0 + 0.75 * 1
    {'a': 0.25, 'b': 0.75, 'c': 0.375}
    """
    step = read_step("fusion", fusion)
    if step.function:
        # copies, so that a user's function cannot change the rankings
        returned = step.function([dict(ranking) for ranking in rankings])
        return _checked_fusion(returned, rankings)
    ranking_weights = weights or [1 / len(rankings)] * len(rankings)
    fused: dict[str, float] = {}
    for ranking, weight in zip(rankings, ranking_weights, strict=True):
        if step.name == "weights":
            added = {chunk_id: weight * score for chunk_id, score in normalised(ranking).items()}
        else:
            ranks = enumerate(ranking, start=1)
            added = {chunk_id: 1 / (step.number + rank) for rank, chunk_id in ranks}
        for chunk_id, score in added.items():
            fused[chunk_id] = fused.get(chunk_id, 0.0) + score
    return fused


def normalised(ranking: Ranking) -> dict[str, float]:
    """Return the scores of one ranking from 0 (the lowest) to 1 (the highest); 1 where all are equal.

    >>> normalised({"a": 9.0, "b": 5.0, "c": 1.0}), normalised({"a": 3.0})
    ({'a': 1.0, 'b': 0.5, 'c': 0.0}, {'a': 1.0})
    """
    if not ranking:
        return {}
    lowest, highest = min(ranking.values()), max(ranking.values())
    if lowest == highest:
        return dict.fromkeys(ranking, 1.0)
    return {chunk_id: (score - lowest) / (highest - lowest) for chunk_id, score in ranking.items()}


def fused_search(
    retrievers: Sequence[Retriever],
    wordings: Mapping[str, Sequence[str]],
    k: int,
    places: Mapping[str, int],
    fusion: str | Callable[..., Any] = "",
) -> Run:
    """Return for each question the `k` chunks of the highest fused score, best first.

    Each retriever searches for each wording of a question, to a depth of max(k, 100) chunks, and all
    rankings of the question are fused at once. With "weights:w" the rankings of the lexical retriever
    have the weight 1 - w, the rankings of the dense one w, divided by the number of wordings. Scores are
    rounded to 6 decimals; equal ones are in the order of the chunks.

    Args:
        retrievers: one, or a lexical and a dense one.
        wordings: query_id -> the texts that are searched for.
        k: number of chunks.
        places: chunk_id -> its place among the chunks.
        fusion: as in `fuse`; "" is "rrf:60".
    """
    fusion = fusion or _DEFAULT
    step = read_step("fusion", fusion)
    # of each question: lexical, dense ranking of its first wording, then of its second, ...
    rankings_of = _rankings_of_wordings(retrievers, wordings, max(k, _DEPTH))
    fused: Run = {}
    for query_id, rankings in rankings_of.items():
        if len(rankings) == 1:  # nothing to fuse
            fused[query_id] = dict(islice(rankings[0].items(), k))
            continue
        weights: list[float] = []  # none: `fuse` gives all rankings the same
        if step.name == "weights" and len(retrievers) == 2:
            n_wordings = len(wordings[query_id])
            lexical_weight = (1 - step.number) / n_wordings
            dense_weight = step.number / n_wordings
            # in the order of the rankings: lexical, dense, lexical, dense, ...
            weights = [lexical_weight, dense_weight] * n_wordings
        fused[query_id] = best(fuse(rankings, fusion, weights), places, k)
    return fused


def _rankings_of_wordings(
    retrievers: Sequence[Retriever], wordings: Mapping[str, Sequence[str]], depth: int
) -> dict[str, list[Ranking]]:
    """Return query_id -> its rankings (chunk_id -> score, best first), each of `depth` chunks.

    A question has one ranking for each wording and retriever: first the rankings of the first wording, by
    one retriever after the other, then the rankings of the second wording, and so on.
    """
    rankings_of: dict[str, list[Ranking]] = {query_id: [] for query_id in wordings}
    max_wordings = max(map(len, wordings.values()), default=0)
    # one search for the first wordings of all questions, one for the second ones, ...
    for number in range(max_wordings):
        queries = {}
        for query_id, texts in wordings.items():
            if number < len(texts):
                queries[query_id] = texts[number]
        for retriever in retrievers:
            run = retriever.search(queries, depth)
            for query_id in queries:
                rankings_of[query_id].append(run[query_id])
    return rankings_of


def _checked_fusion(returned: Any, rankings: Sequence[Ranking]) -> dict[str, float]:
    """Return the fused ranking that a user's function returned, with its scores as floats.

    Raises:
        ConfigError: it is not a mapping, or has a chunk that none of the `rankings` holds.
    """
    known = {chunk_id for ranking in rankings for chunk_id in ranking}  # ids that may be returned
    if isinstance(returned, Mapping) and returned.keys() <= known:
        return {chunk_id: float(score) for chunk_id, score in returned.items()}
    raise ConfigError(
        f"fusion returned {returned!r:.80}; expected {{chunk_id: score}} with ids of the rankings"
    )


def check_fusion(fusion: str | Callable[..., Any], *, is_hybrid: bool, is_rewritten: bool) -> None:
    """Refuse a fusion (the rule that makes one ranking of several) that a search could not use.

    Args:
        is_hybrid: True if the search is by words and by meaning.
        is_rewritten: True if it is for several wordings of a question.

    Raises:
        ConfigError: it is unknown; it has nothing to fuse, since one search for one wording returns one
            ranking; or it is "weights", a weight of the dense search, and the search is not a hybrid.
    """
    step = read_step("fusion", fusion)
    if step.name and not (is_hybrid or is_rewritten):
        raise ConfigError(
            f"fusion is {fusion!r}, which has no effect: this search returns one ranking; name a "
            "retriever such as 'hybrid:minilm', or leave fusion out"
        )
    if step.name == "weights" and not is_hybrid:
        raise ConfigError(
            f"fusion is {fusion!r}, a weight of the dense search of a hybrid; name a retriever such "
            "as 'hybrid:minilm', or fuse the wordings by 'rrf:60'"
        )
