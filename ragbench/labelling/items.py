"""The answers that people should label."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ragbench.errors import ConfigError, DataError, DataWarning, check_known
from ragbench.evaluation import Result
from ragbench.labelling.arms import arms_of, silent_answer
from ragbench.retrieval import chunk
from ragbench.statistics.sequential import systematic_sample
from ragbench.types import Answer, Case, Chunk, Dataset

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

_BY_DOCUMENTS = {"faithfulness"}


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One text to label. `sources` names the configurations that answered with it; `probability` is
    that with which its question was drawn into its `batch`, from those that were open."""

    item_id: str
    query_id: str
    criterion: str
    question: str
    answer: str
    reference: str = ""
    contexts: tuple[str, ...] = ()
    category: str = ""
    sources: tuple[str, ...] = ()
    batch: int = 1
    probability: float = 1.0


def choose_items(
    results: Sequence[Result],
    criterion: str = "correctness",
    *,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]] | None = None,
    n: int = 10,
    judges: Sequence[str] = (),
    drawn: Collection[str] = (),
    batch: int = 1,
    seed: int = 0,
) -> list[LabelItem]:
    """Draw the next batch of questions to label, with the answers of both configurations in random
    order.

    All questions that are open have the same probability, which the items record. The sample is
    spread evenly over the judges' difference of the two, then over their mean. Not drawn are
    questions of which the verdict is known: both answer with the same text, or not at all; for
    correctness also those without a reference answer. Answers that failed, are empty or an
    abstention are no items: `trust` counts them as 0.

    Args:
        results: the two that are compared.
        criterion: "correctness", "relevance" or "faithfulness".
        dataset: the questions, with reference answers and categories.
        chunks: configuration -> what its answers were made from, shown as context; None shows none.
        n: number of questions; fewer where fewer are open.
        judges: as for `trust`.
        drawn: the questions of earlier batches. batch: the number of this one.

    Raises:
        ConfigError: an unknown criterion, a number out of range; faithfulness without `chunks`.
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    check_known("criterion", LABELLED, criterion)
    if n < 1 or seed < 0:
        raise ConfigError(f"n is {n}, seed {seed}; expected 1 or more, 0 or more")
    if (
        criterion in _BY_DOCUMENTS
        and chunks is None
        and not any(a.passages for r in results for a in r.answers)
    ):
        raise ConfigError(
            f"{criterion} is judged by the documents; pass chunks={{configuration: its chunks}}"
        )
    arms = arms_of(results, criterion, judges=judges)
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
    is_open = arms.queries.isin([*by_query]) & ~arms.queries.isin([*drawn]) & ~arms.alike
    left = arms.queries[is_open]
    rng = np.random.default_rng([seed, batch])
    sample = systematic_sample([key[is_open] for key in arms.sort_keys], n, rng)
    items: list[LabelItem] = []
    for query_id in left[sample]:
        group = [by_query[query_id][i] for i in rng.permutation(len(by_query[query_id]))]
        items += [replace(item, batch=batch, probability=len(sample) / len(left)) for item in group]
    return items


def chunks_of(results: Sequence[Result], dataset: Dataset) -> dict[str, list[Chunk]]:
    """Return configuration -> the documents cut as it cut them, where its parameters name how."""
    chunks = {}
    for result in results:
        settings = result.parameters
        if "chunker" in settings:
            sizes = {
                name: settings[name] for name in ("chunk_size", "chunk_overlap") if name in settings
            }
            tokenizer = settings.get("tokenizer", "minilm")
            chunks[result.name] = chunk(dataset, settings["chunker"], **sizes, tokenizer=tokenizer)
    return chunks


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
            if not (silent_answer(answer) or lacks):
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
