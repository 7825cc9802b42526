"""The answers that people should label."""

from __future__ import annotations

import hashlib
import json
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from ragbench.errors import ConfigError, DataError, DataWarning, check_known
from ragbench.evaluation import Result
from ragbench.types import Answer, Case, Chunk, Dataset, grouped

YES_NO: Mapping[str, tuple[float, str]] = {"y": (1.0, "yes"), "n": (0.0, "no")}
_DEGREES = ("not at all", "a little", "about half", "mostly", "fully")
FIVE: Mapping[str, tuple[float, str]] = {str(i): (i / 4, name) for i, name in enumerate(_DEGREES)}


class Scale(NamedTuple):
    """The question to a labeller, and the key, value and name of each verdict."""

    question: str
    verdicts: Mapping[str, tuple[float, str]]


LABELLED: Mapping[str, Scale] = {
    "correctness": Scale(
        "Does the answer agree with the reference answer, as an answer to this question?", YES_NO
    ),
    "relevance": Scale(
        "How far does the answer address the question? Whether it is true does not matter.", FIVE
    ),
    "faithfulness": Scale("How much of the answer do the documents below support?", FIVE),
}
"""Criterion -> the question to a labeller. The values are on the scale of the judge of that name.
"""

DRAWS = ("questions", "answers")

_BY_DOCUMENTS = {"faithfulness"}
_MAX_PER_QUESTION = 2
_SPREAD_OF = ("semantic_similarity", "token_f1")  # where there are no judgements


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One text to label. `sources` names the configurations that answered with it; `picked` is
    "random", drawn from all questions, or "informative"."""

    item_id: str
    query_id: str
    criterion: str
    question: str
    answer: str
    reference: str = ""
    contexts: tuple[str, ...] = ()
    category: str = ""
    sources: tuple[str, ...] = ()
    picked: str = "random"


def choose_items(
    results: Sequence[Result],
    criterion: str = "correctness",
    *,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]] | None = None,
    n: int = 40,
    random_share: float = 0.5,
    draw: str = "questions",
    seed: int = 0,
) -> list[LabelItem]:
    """Choose answers to label: a part drawn at random, which `calibrate` needs, and the most
    informative of the rest.

    Drawn at random are whole questions with the answers of all configurations, so that paired
    differences can be calibrated, or single answers, which are more informative about the means of
    many configurations; all with equal probability. Informative are answers to questions on
    which the configurations differ (by the judge's values, or where there are none by semantic
    similarity or token F1); of one question the two answers that are
    furthest from the others. Both alternate, informative first, so that a partly labelled sheet has
    some of each.

    Configurations that answered with the same text share one item (for faithfulness also the
    documents must be the same). Left out, as in `judge`, are failed answers, abstentions and empty
    ones, and for correctness questions without a reference answer.

    Args:
        results: of one sweep, or one run in a list.
        criterion: "correctness", "relevance" or "faithfulness".
        dataset: the questions, with reference answers and categories.
        chunks: configuration -> what its answers were made from, shown as context; None shows none.
        n: number of items; a few more where whole questions are drawn.
        random_share: fraction of the items that are drawn at random, in [0, 1].
        draw: unit of the random draw, "questions" or "answers".

    Raises:
        ConfigError: an unknown criterion, a number out of range; faithfulness without `chunks`.
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    check_known("criterion", LABELLED, criterion)
    if n < 1 or not 0 <= random_share <= 1 or seed < 0:
        raise ConfigError(
            f"n is {n}, random_share {random_share}, seed {seed}; expected 1 or more, a number "
            "from 0 to 1, 0 or more"
        )
    check_known("draw", DRAWS, draw)
    if (
        criterion in _BY_DOCUMENTS
        and chunks is None
        and not any(a.passages for r in results for a in r.answers)
    ):
        raise ConfigError(
            f"{criterion} is judged by the documents; pass chunks={{configuration: its chunks}}"
        )
    if not results:
        raise DataError("there is no result to label; name the folder of a sweep or of a run")
    fingerprints = {r.name: r.config.get("dataset", {}).get("fingerprint") for r in results}
    if other := [
        n for n, value in fingerprints.items() if value not in (None, dataset.fingerprint)
    ]:
        warnings.warn(
            f"{len(other)} of {len(results)} results, first {other[0]!r}, were made from other "
            f"data than {dataset!r}; references and contexts may not be those of the answers",
            DataWarning,
            stacklevel=2,
        )
    by_query = _items_by_query(results, criterion, dataset, chunks or {})
    if not by_query:
        raise DataError(
            f"no answer of {len(results)} results can be labelled by {criterion}: all failed, "
            "abstained, or lack a reference answer"
        )
    groups = [*by_query.values()]
    if draw == "answers":
        groups = [[item] for items in groups for item in items]
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    drawn: list[list[LabelItem]] = []
    while len(drawn) < len(order) and sum(map(len, drawn)) < round(n * random_share):
        drawn.append(groups[order[len(drawn)]])
    drawn_ids = {item.item_id for group in drawn for item in group}
    rest = {
        query_id: [item for item in items if item.item_id not in drawn_ids]
        for query_id, items in by_query.items()
    }
    informative = _informative(rest, results, criterion, max(0, n - len(drawn_ids)))
    pairs = zip_longest(informative, drawn, fillvalue=())
    return [item for pair in pairs for group in pair for item in group]


def _items_by_query(
    results: Sequence[Result],
    criterion: str,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]],
) -> dict[str, list[LabelItem]]:
    cases = {case.query_id: case for case in dataset.cases}
    texts = {
        name: {chunk.chunk_id: chunk.text for chunk in pieces} for name, pieces in chunks.items()
    }
    # query_id -> what identifies an answer -> the configurations that gave it, with its contexts
    groups: dict[str, dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]] = {
        query_id: {} for query_id in cases
    }
    for result in results:
        for answer in result.answers:
            case = cases.get(answer.query_id)
            if case is None:
                raise DataError(
                    f"{result.name!r} answers query {answer.query_id!r}, which is not "
                    f"in {dataset!r}; pass the dataset that was answered"
                )
            lacks = criterion == "correctness" and not (case.reference_answer or "").strip()
            if not (answer.failed or answer.abstained or lacks) and answer.text.strip():
                contexts = _contexts(result.name, answer, texts)
                key = (answer.text.strip(), *(contexts if criterion in _BY_DOCUMENTS else ()))
                groups[answer.query_id].setdefault(key, []).append((result.name, contexts))
    return {
        query_id: [make_item(cases[query_id], criterion, *pair) for pair in group.items()]
        for query_id, group in groups.items()
        if group
    }


def _contexts(name: str, answer: Answer, texts: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    if answer.passages:
        return tuple(passage.text for passage in answer.passages)
    if name not in texts:
        return ()
    if missing := [chunk_id for chunk_id in answer.contexts if chunk_id not in texts[name]]:
        raise DataError(
            f"{name!r}: the answer to query {answer.query_id!r} has the context {missing[0]!r}, "
            f"which is not among its {len(texts[name])} chunks; was it made from another "
            "chunking? Cut the documents as that configuration did"
        )
    return tuple(texts[name][chunk_id] for chunk_id in answer.contexts)


def make_item(
    case: Case, criterion: str, key: Sequence[str], origins: Sequence[tuple[str, tuple[str, ...]]]
) -> LabelItem:
    """Return the item of an answer: `key` is its text and what else identifies it, `origins` its
    configurations and contexts.
    """
    digest = hashlib.sha256(json.dumps([case.query_id, criterion, *key]).encode()).hexdigest()[:10]
    return LabelItem(
        f"item-{digest}",
        case.query_id,
        criterion,
        case.text,
        key[0],
        case.reference_answer or "",
        origins[0][1],
        case.category,
        tuple(name for name, _ in origins if name),
    )


def _informative(
    by_query: Mapping[str, Sequence[LabelItem]], results: Sequence[Result], criterion: str, n: int
) -> list[list[LabelItem]]:
    """Return the items for which a label is most informative, grouped by question, best first."""
    values = _values(results, criterion)
    ranked: list[tuple[float, LabelItem]] = []
    for query_id, items in by_query.items():
        keys = [(result.name, query_id) for result in results]
        known_values = [values[key] for key in keys if key in values] or [0.0]
        spread, middle = max(known_values) - min(known_values), statistics.fmean(known_values)
        scores: list[tuple[float, LabelItem]] = []
        for item in items:
            keys = [(name, query_id) for name in item.sources]
            off = max(abs(values.get(key, middle) - middle) for key in keys)
            scores.append((spread + off, replace(item, picked="informative")))
        scores.sort(key=lambda pair: -pair[0])
        ranked += scores[:_MAX_PER_QUESTION]
    ranked.sort(key=lambda pair: -pair[0])
    groups = grouped((item for _, item in ranked[:n]), lambda item: item.query_id)
    return list(groups.values())


def _values(results: Sequence[Result], criterion: str) -> dict[tuple[str, str], float]:
    """Return (configuration, query_id) -> the judge's value of the answer, else that of a computed
    measure.
    """
    judged = {
        (r.name, j.query_id): j.value
        for r in results
        for j in r.judgements
        if j.criterion == criterion and j.value is not None
    }
    for measure in _SPREAD_OF if not judged else ():
        rows = {r.name: r.scores[r.scores["measure"] == measure].dropna() for r in results}
        judged = judged or {
            (name, str(query_id)): float(value)
            for name, scores in rows.items()
            for query_id, value in zip(scores["query_id"], scores["value"], strict=True)
        }
    return judged
