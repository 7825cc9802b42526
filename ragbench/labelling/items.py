"""Which answers people should label."""

from __future__ import annotations

import hashlib
import json
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ragbench.errors import ConfigError, DataError, DataWarning, unknown
from ragbench.evaluation import Result
from ragbench.types import Answer, Case, Chunk, Dataset

YES_NO: Mapping[str, tuple[float, str]] = {"y": (1.0, "yes"), "n": (0.0, "no")}
FIVE: Mapping[str, tuple[float, str]] = {
    "0": (0.0, "not at all"),
    "1": (0.25, "a little"),
    "2": (0.5, "about half"),
    "3": (0.75, "mostly"),
    "4": (1.0, "fully"),
}


class Scale(NamedTuple):
    """What a labeller is asked, and the key, value and name of each verdict."""

    question: str
    verdicts: Mapping[str, tuple[float, str]]


LABELLED: Mapping[str, Scale] = {
    "correctness": Scale(
        "Does the answer say the same as the reference answer, as an answer to this question?", YES_NO
    ),
    "relevance": Scale("How far does the answer address the question? Whether it is true does not matter.", FIVE),
    "support": Scale("Do the documents below support everything that the answer says?", YES_NO),
    "faithfulness": Scale("How much of what the answer says stands in the documents below?", FIVE),
}
"""Criterion -> what a labeller is asked. The values are on the scale of the judge of that name."""

DRAWS = ("questions", "answers")

_BY_DOCUMENTS = {"faithfulness", "support"}
_MOST_PER_QUESTION = 2
_SPREAD_OF = ("semantic_similarity", "token_f1")  # where no judge has spoken


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One text to label. `sources` names the configurations that answered with it; `picked` is "random", drawn from
    all questions, or "informative", with the reason in `why`."""

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
    why: str = ""


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
    """Answers to label: a part drawn at random, which `calibrate` needs, and the most informative of the rest.

    Drawn at random are whole questions with the answers of all configurations, so that paired differences can be
    calibrated, or single answers, which tell more about the means of many configurations; all are equally likely.
    Informative are answers on which the judge's samples differ, to questions on which the configurations do (by the
    judge's values, or where there are none by semantic similarity or token F1); of one question the two answers that
    are furthest from the others. Both come by turns, informative first, so whoever stops early has some of each.

    Configurations that answered with the same text share one item (for faithfulness also the documents must be the
    same). Failed answers, abstentions and empty ones are not asked about: `judge` does not judge them either. Nor, for
    correctness, are questions without a reference answer.

    Args:
        results: of one sweep, or one run in a list.
        criterion: "correctness", "relevance" or "faithfulness".
        dataset: the questions, with reference answers and categories.
        chunks: configuration -> what its answers were made from, shown as context; None shows none.
        n: how many items; a few more where whole questions are drawn.
        random_share: the share of items that are drawn at random, in [0, 1].
        draw: "questions" or "answers": what is drawn at random.

    Raises:
        ConfigError: an unknown criterion, a number out of range; faithfulness without `chunks`.
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    if criterion not in LABELLED:
        raise ConfigError(unknown("criterion", criterion, LABELLED))
    if n < 1 or not 0 <= random_share <= 1 or seed < 0:
        raise ConfigError(
            f"n is {n}, random_share {random_share}, seed {seed}; expected 1 or more, a share from 0 to 1, 0 or more"
        )
    if draw not in DRAWS:
        raise ConfigError(unknown("draw", draw, DRAWS))
    if criterion in _BY_DOCUMENTS and chunks is None and not any(a.passages for r in results for a in r.answers):
        raise ConfigError(f"{criterion} is judged by the documents; pass chunks={{configuration: its chunks}}")
    _check_same_data(results, dataset)
    by_query = _items_by_query(results, criterion, dataset, chunks or {})
    if not by_query:
        raise DataError(
            f"no answer of {len(results)} results can be labelled by {criterion}: all failed, abstained, or lack a "
            "reference answer"
        )
    groups = list(by_query.values()) if draw == "questions" else [[item] for own in by_query.values() for item in own]
    order = [groups[i] for i in np.random.default_rng(seed).permutation(len(groups))]
    drawn: list[list[LabelItem]] = []
    while len(drawn) < len(order) and sum(map(len, drawn)) < round(n * random_share):
        drawn.append(order[len(drawn)])
    taken = {item.item_id for group in drawn for item in group}
    rest = {query_id: [item for item in own if item.item_id not in taken] for query_id, own in by_query.items()}
    informative = _informative(rest, results, criterion, max(0, n - len(taken)))
    by_turns: list[LabelItem] = []
    for i in range(max(len(informative), len(drawn))):
        for part in (informative, drawn):
            by_turns += part[i] if i < len(part) else []
    return by_turns


def _check_same_data(results: Sequence[Result], dataset: Dataset) -> None:
    if not results:
        raise DataError("there is no result to label; name the folder of a sweep or of a run")
    other = [
        r.name for r in results if r.config.get("dataset", {}).get("fingerprint") not in (None, dataset.fingerprint)
    ]
    if other:
        warnings.warn(
            f"{len(other)} of {len(results)} results, first {other[0]!r}, were made from other data than {dataset!r}; "
            "references and contexts may not be those of the answers",
            DataWarning,
            stacklevel=3,
        )


def _items_by_query(
    results: Sequence[Result], criterion: str, dataset: Dataset, chunks: Mapping[str, Sequence[Chunk]]
) -> dict[str, list[LabelItem]]:
    cases = {case.query_id: case for case in dataset.cases}
    texts = {name: {chunk.chunk_id: chunk.text for chunk in own} for name, own in chunks.items()}
    found: dict[str, dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]]] = {}
    for result in results:
        for answer in result.answers:
            case = cases.get(answer.query_id)
            if case is None:
                raise DataError(
                    f"{result.name!r} answers query {answer.query_id!r}, which is none of the {len(cases)} of "
                    f"{dataset!r}; pass the dataset that was answered"
                )
            if _worth_a_label(answer, case, criterion):
                contexts = _contexts(result.name, answer, texts)
                key = (answer.text.strip(), *(contexts if criterion in _BY_DOCUMENTS else ()))
                found.setdefault(answer.query_id, {}).setdefault(key, []).append((result.name, contexts))
    return {
        query_id: [_item(cases[query_id], key, made, criterion) for key, made in found[query_id].items()]
        for query_id in cases
        if query_id in found
    }


def _worth_a_label(answer: Answer, case: Case, criterion: str) -> bool:
    lacks = criterion == "correctness" and not (case.reference_answer or "").strip()
    return not (answer.failed or answer.abstained or lacks) and bool(answer.text.strip())


def _contexts(name: str, answer: Answer, texts: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    if answer.passages:
        return tuple(passage.text for passage in answer.passages)
    if name not in texts:
        return ()
    if missing := [chunk_id for chunk_id in answer.contexts if chunk_id not in texts[name]]:
        raise DataError(
            f"{name!r}: the answer to query {answer.query_id!r} has the context {missing[0]!r}, which is no id among "
            f"its {len(texts[name])} chunks; was it made from another chunking? Cut the documents as "
            "that configuration did"
        )
    return tuple(texts[name][chunk_id] for chunk_id in answer.contexts)


def _item(case: Case, key: tuple[str, ...], made: Sequence[tuple[str, tuple[str, ...]]], criterion: str) -> LabelItem:
    digest = hashlib.sha256(json.dumps([case.query_id, criterion, *key]).encode()).hexdigest()[:10]
    return LabelItem(
        f"item-{digest}",
        case.query_id,
        criterion,
        case.text,
        key[0],
        case.reference_answer or "",
        made[0][1],
        case.category,
        tuple(name for name, _ in made),
    )


def _informative(
    by_query: Mapping[str, Sequence[LabelItem]], results: Sequence[Result], criterion: str, n: int
) -> list[list[LabelItem]]:
    """The items that a label would tell most about, grouped by question, best first; those without a reason last."""
    values, samples = _values(results, criterion), _samples(results, criterion)
    names = [result.name for result in results]
    ranked: list[tuple[float, LabelItem]] = []
    for query_id, items in by_query.items():
        known = [values[name, query_id] for name in names if (name, query_id) in values]
        apart = max(known) - min(known) if known else 0.0
        middle = statistics.fmean(known) if known else 0.0
        own: list[tuple[float, LabelItem]] = []
        for item in items:
            unsure = max(samples.get((name, query_id), 0.0) for name in item.sources)
            off = max(abs(values.get((name, query_id), middle) - middle) for name in item.sources)
            reasons = [f"configurations differ by {apart:.2f}"] if apart > 0 else []
            reasons += [f"the judge's samples by {unsure:.2f}"] if unsure > 0 else []
            why = "; ".join(reasons) or "nothing tells it apart"
            own.append((off + unsure, replace(item, picked="informative", why=why)))
        own.sort(key=lambda pair: -pair[0])
        ranked += [(apart + score, item) for score, item in own[:_MOST_PER_QUESTION]]
    ranked.sort(key=lambda pair: -pair[0])
    groups: dict[str, list[LabelItem]] = {}
    for _, item in ranked[:n]:
        groups.setdefault(item.query_id, []).append(item)
    return list(groups.values())


def _values(results: Sequence[Result], criterion: str) -> dict[tuple[str, str], float]:
    """(configuration, query_id) -> what is known of the answer: the judge's value, else a computed one."""
    judged = {
        (r.name, j.query_id): j.value
        for r in results
        for j in r.judgements
        if j.criterion == criterion and j.value is not None
    }
    if judged:
        return judged
    for measure in _SPREAD_OF:
        found = {
            (result.name, str(query_id)): float(value)
            for result in results
            for query_id, value in result.scores.loc[result.scores["measure"] == measure, ["query_id", "value"]]
            .dropna()
            .itertuples(index=False)
        }
        if found:
            return found
    return {}


def _samples(results: Sequence[Result], criterion: str) -> dict[tuple[str, str], float]:
    """(configuration, query_id) -> standard deviation of the judge's samples."""
    spread = {}
    for result in results:
        for judgement in result.judgements:
            read = [value for value in judgement.samples if value is not None]
            if judgement.criterion == criterion and len(read) > 1:
                spread[result.name, judgement.query_id] = statistics.pstdev(read)
    return spread
