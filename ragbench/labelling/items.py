"""The answers that people should label."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import Result
from ragbench.types import Answer, Case, Chunk, Dataset

YES_NO: Mapping[str, tuple[float, str]] = {"y": (1.0, "yes"), "n": (0.0, "no")}
_DEGREES = ("not at all", "a little", "about half", "mostly", "fully")
FIVE: Mapping[str, tuple[float, str]] = {str(i): (i / 4, name) for i, name in enumerate(_DEGREES)}
_GRADES = ("unrelated", "on the subject", "a part of the answer", "the answer")


class Scale(NamedTuple):
    """The question to a labeller, and the key, value and name of each verdict; whether an answer is
    judged by its documents, and whether a missing one is wrong.
    """

    question: str
    verdicts: Mapping[str, tuple[float, str]]
    by_documents: bool = False
    missing_is_wrong: bool = False


LABELLED: Mapping[str, Scale] = {
    "correctness": Scale(
        "Does the answer agree with the reference answer, as an answer to this question?",
        YES_NO,
        missing_is_wrong=True,
    ),
    "relevance": Scale(
        "How far does the answer address the question? Whether it is true does not matter.",
        FIVE,
        missing_is_wrong=True,
    ),
    "faithfulness": Scale(
        "How much of the answer do the documents below support?", FIVE, by_documents=True
    ),
    "document": Scale(
        "How useful is this text for someone who asks the question?",
        {str(i): (i / 3, name) for i, name in enumerate(_GRADES)},
    ),
}
"""Criterion -> the question to a labeller. The values are on the scale of the judge of that name;
"document" is of a document that was retrieved.
"""


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One text to label. `sources` names the configurations that answered with it; `picked` is
    "drawn" with its number, or "random"."""

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


def items_by_query(
    results: Sequence[Result],
    criterion: str,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]] | None,
) -> dict[str, list[LabelItem]]:
    """Return query_id -> the answers that can be labelled by a criterion.

    Configurations that answered with the same text share one item (for faithfulness also the
    documents must be the same). Left out are failed answers, abstentions and empty ones, and for
    correctness questions without a reference answer or gold facts.

    Raises:
        ConfigError: faithfulness of a result without `chunks` and passages.
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    by_documents = LABELLED[criterion].by_documents
    for result in results if by_documents else ():
        if result.name not in (chunks or {}) and not any(a.passages for a in result.answers):
            raise ConfigError(
                f"{criterion} is judged by the documents, and {result.name!r} has none; pass "
                "chunks={configuration: its chunks}"
            )
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
    cases = {case.query_id: case for case in dataset.cases}
    texts = {
        name: {chunk.chunk_id: chunk.text for chunk in pieces}
        for name, pieces in (chunks or {}).items()
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
            lacks = criterion == "correctness" and not _reference(case)
            if answer.attempted and not lacks:
                contexts = _contexts(result.name, answer, texts)
                key = (answer.text.strip(), *(contexts if by_documents else ()))
                groups[answer.query_id].setdefault(key, []).append((result.name, contexts))
    items = {
        query_id: [make_item(cases[query_id], criterion, *pair) for pair in group.items()]
        for query_id, group in groups.items()
        if group
    }
    if not items:
        raise DataError(
            f"no answer of {len(results)} results can be labelled by {criterion}: all failed, "
            "abstained, or lack a reference answer"
        )
    return items


def _reference(case: Case) -> str:
    """Return what a labeller compares an answer with: the reference answer, else the gold facts."""
    facts = "; ".join(" or ".join(forms) for forms in case.gold_facts)
    return (case.reference_answer or "").strip() or facts


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
        _reference(case),
        origins[0][1],
        case.category,
        tuple(name for name, _ in origins if name),
    )
