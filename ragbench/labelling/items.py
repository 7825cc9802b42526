"""The answers that people should label."""

import hashlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragbench.errors import ConfigError, DataError, DataWarning, unknown
from ragbench.evaluation import Result
from ragbench.judges.criteria import materials_of
from ragbench.judges.criterion import find_criterion
from ragbench.types import Case, Chunk, Dataset, grouped

YES_NO: Mapping[str, tuple[float, str]] = {"y": (1.0, "yes"), "n": (0.0, "no")}
_DEGREES = ("not at all", "a little", "about half", "mostly", "fully")
FIVE: Mapping[str, tuple[float, str]] = {str(i): (i / 4, name) for i, name in enumerate(_DEGREES)}
_GRADES = ("unrelated", "on the subject", "a part of the answer", "the answer")


class Scale(NamedTuple):
    """The question to a labeller, and the key, value and name of each verdict; whether an answer is
    judged by its documents, so that a missing one is not wrong, and whether by the reference.
    """

    question: str
    verdicts: Mapping[str, tuple[float, str]]
    by_documents: bool = False
    by_reference: bool = False


LABELLED: Mapping[str, Scale] = {
    "correctness": Scale(
        "Does the answer agree with the reference answer, as an answer to this question?",
        YES_NO,
        by_reference=True,
    ),
    "relevance": Scale(
        "How much of the answer is about what was asked? Whether it is true or complete does not "
        "matter.",
        FIVE,
    ),
    "completeness": Scale(
        "How much of what was asked does the answer answer? Whether it is true does not matter.",
        FIVE,
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


def is_labelled(criterion: str) -> bool:
    """Return True if people can label answers by a criterion: a built-in one, or one of the user's that
    is known in this process (from a result that has it, or from `load_criteria`).
    """
    if criterion in LABELLED:
        return criterion != "document"
    known = find_criterion(criterion)
    return known is not None and known.is_own and known.about == "answer"


def scale_of(criterion: str) -> Scale:
    """Return the scale of a criterion; of one of the user's its question and levels.

    Raises:
        ConfigError: an unknown criterion.
    """
    if criterion in LABELLED:
        return LABELLED[criterion]
    known = find_criterion(criterion)
    if known is None or not is_labelled(criterion):
        raise ConfigError(
            f"{unknown('criterion', criterion, LABELLED)}; one of your own is known once a result "
            "that has it is loaded"
        )
    values = known.values
    ordered = sorted(values, key=lambda level: values[level])
    keys = ["n", "y"] if ordered == ["no", "yes"] else [str(i) for i in range(len(ordered))]
    verdicts = {key: (values[level], level) for key, level in zip(keys, ordered, strict=True)}
    question = known.question or known.meaning or known.name
    meanings = [f"{level} = {text}" for level, text in known.anchors.items()]
    return Scale(
        " ".join([question, *meanings]),
        dict(reversed(verdicts.items())) if keys == ["n", "y"] else verdicts,
        by_documents="contexts" in known.needs,
        by_reference="reference" in known.needs,
    )


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
        ConfigError: faithfulness of a result whose contexts are neither in `chunks` nor passages, nor
            chunks of the dataset's documents by their ids.
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    scale = scale_of(criterion)
    by_documents = scale.by_documents
    if other := [r.name for r in results if r.dataset["fingerprint"] and not r.is_of(dataset)]:
        warnings.warn(
            f"{len(other)} of {len(results)} results, first {other[0]!r}, were made from other "
            f"data than {dataset!r}; references and contexts may not be those of the answers",
            DataWarning,
            stacklevel=2,
        )
    cases = dataset.case_of
    # what identifies an answer -> the configurations that gave it, with its contexts
    groups: dict[tuple[str, ...], list[tuple[str, tuple[str, ...]]]] = {}
    for result in results:
        pieces = (chunks or {}).get(result.name)
        if pieces is None:
            pieces = _named_chunks(result, dataset)
        at_hand = pieces is not None or any(answer.passages for answer in result.answers)
        if by_documents and not at_hand:
            raise ConfigError(
                f"{criterion} is judged by the documents, and {result.name!r} has none; pass "
                "chunks={configuration: its chunks}"
            )
        materials = materials_of(result.answers, dataset, pieces or (), contexts=at_hand)
        for answer, material in zip(result.answers, materials, strict=True):
            lacks = scale.by_reference and not _reference(cases[answer.query_id])
            if answer.attempted and not lacks:
                documents = material.documents if by_documents else ()
                key = (answer.query_id, answer.text.strip(), *documents)
                groups.setdefault(key, []).append((result.name, material.documents))
    items = [
        make_item(cases[query_id], criterion, texts, origins)
        for (query_id, *texts), origins in groups.items()
    ]
    if not items:
        raise DataError(
            f"no answer of {len(results)} results can be labelled by {criterion}: all failed, "
            "abstained, or lack a reference answer"
        )
    return grouped(items, lambda item: item.query_id)


_CHUNK_ID = re.compile(r"(.*)#(\d+)-(\d+)", re.DOTALL)


def _named_chunks(result: Result, dataset: Dataset) -> list[Chunk] | None:
    """Return the chunks that answers without passages name, cut from the documents by their ids; None
    where an id is not one of ragbench's own.
    """
    chunks = {}
    for answer in result.answers:
        for chunk_id in () if answer.passages else answer.contexts:
            match = _CHUNK_ID.fullmatch(chunk_id)
            if match is None or match[1] not in dataset.corpus:
                return None
            text = dataset.corpus[match[1]].full_text
            chunks[chunk_id] = Chunk.cut(match[1], text, int(match[2]), int(match[3]))
    return [*chunks.values()] or None


def _reference(case: Case) -> str:
    """Return what a labeller compares an answer with: the reference answer, else the gold facts."""
    facts = "; ".join(" or ".join(forms) for forms in case.gold_facts)
    return (case.reference_answer or "").strip() or facts


def item_id_of(query_id: str, criterion: str, key: Sequence[str]) -> str:
    """Return the id of an item; `key` is its text and what else identifies it."""
    digest = hashlib.sha256(json.dumps([query_id, criterion, *key]).encode()).hexdigest()[:10]
    return f"item-{digest}"


def make_item(
    case: Case, criterion: str, key: Sequence[str], origins: Sequence[tuple[str, tuple[str, ...]]]
) -> LabelItem:
    """Return the item of an answer: `key` is its text and what else identifies it, `origins` its
    configurations and contexts.
    """
    return LabelItem(
        item_id_of(case.query_id, criterion, key),
        case.query_id,
        criterion,
        case.text,
        key[0],
        _reference(case),
        origins[0][1],
        case.category,
        tuple(name for name, _ in origins if name),
    )
