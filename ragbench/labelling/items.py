"""What people label: the question and the scale of each criterion with its keys, and the texts that
a labeller sees of an answer.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragbench.errors import ConfigError, DataError, unknown, warn_user
from ragbench.evaluation import Result
from ragbench.groups import grouped
from ragbench.hints.attributes import suggesting
from ragbench.judges.criterion import find_criterion
from ragbench.judges.material import Material, materials_of
from ragbench.types import Case, Chunk, Dataset

YES_NO: Mapping[str, tuple[float, str]] = {"y": (1.0, "yes"), "n": (0.0, "no")}
_DEGREES = ("not at all", "a little", "about half", "mostly", "fully")
FIVE: Mapping[str, tuple[float, str]] = {str(i): (i / 4, name) for i, name in enumerate(_DEGREES)}
_GRADES = ("unrelated", "on the subject", "a part of the answer", "the answer")


class Scale(NamedTuple):
    """The question to a labeller, and key -> (value, name) of each verdict.

    `by_documents` is True if an answer is judged by its documents, so that a missing answer is not
    wrong; `by_reference` if it is compared with the reference answer.
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
"""Criterion -> its scale. The values are on the scale of the judge of that name; "document" is for a
retrieved document.
"""


def is_answer_criterion(criterion: str) -> bool:
    """Return True for a criterion by which people can label answers: a built-in one, or a user's criterion
    that this process knows (from a result that has it, or from `load_criteria`). Return False for
    "document", and for a measure such as "nDCG@10".
    """
    if criterion in LABELLED:
        return criterion != "document"
    known = find_criterion(criterion)
    return known is not None and known.is_own and known.about == "answer"


def has_scale(criterion: str) -> bool:
    """Return True if `scale_of` knows the criterion: "document", or one of answers."""
    return criterion in LABELLED or is_answer_criterion(criterion)


def scale_of(criterion: str) -> Scale:
    """Return the scale of a criterion: the question to the labeller, and key -> (value, name) of each
    verdict.

    For a user's criterion, the keys are y and n if its levels are yes and no, else the numbers of
    the levels from 0, the lowest.

    Raises:
        ConfigError: the criterion is unknown.
    """
    if criterion in LABELLED:
        return LABELLED[criterion]
    known = find_criterion(criterion)
    if known is None or not is_answer_criterion(criterion):
        raise ConfigError(
            f"{unknown('criterion', criterion, LABELLED)}; one of your own is known once a result "
            "that has it is loaded"
        )
    value_of_level = known.values
    lowest_first = sorted(value_of_level, key=lambda level: value_of_level[level])
    if lowest_first == ["no", "yes"]:
        level_of_key = {"y": "yes", "n": "no"}
    else:
        level_of_key = {str(i): level for i, level in enumerate(lowest_first)}
    question = known.question or known.meaning or known.name
    meanings = [f"{level} = {text}" for level, text in known.anchors.items()]
    return Scale(
        " ".join([question, *meanings]),
        {key: (value_of_level[level], level) for key, level in level_of_key.items()},
        by_documents="contexts" in known.needs,
        by_reference="reference" in known.needs,
    )


@suggesting()
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


_Texts = tuple[str, ...]


def items_by_query(
    results: Sequence[Result],
    criterion: str,
    dataset: Dataset,
    chunks: Mapping[str, Sequence[Chunk]] | None,
) -> dict[str, list[LabelItem]]:
    """Return query_id -> the answers that can be labelled by a criterion.

    Configurations with the same answer share one item. For a criterion by the documents (faithfulness,
    and a user's criterion that needs the contexts) the documents must be the same, too. Failed answers,
    abstentions and empty answers are left out. For a criterion by the reference (correctness, and a
    user's criterion that needs it), questions without a reference answer and gold facts are left out, too.

    Raises:
        ConfigError: the criterion is by the documents, and the texts of a result's contexts are unknown
            (see `_materials_of_result`).
        DataError: nothing can be labelled, or an answer's chunk is not among `chunks`.
    """
    scale = scale_of(criterion)
    _warn_of_other_data(results, dataset)
    cases = dataset.case_of
    # The key of an item is (query_id, answer), for a criterion by the documents with these.
    sources_of: dict[_Texts, list[str]] = {}  # key -> the configurations with this answer
    contexts_of: dict[_Texts, _Texts] = {}  # key -> the contexts of the first of them
    for result in results:
        result_chunks = (chunks or {}).get(result.name)
        materials = _materials_of_result(result, result_chunks, criterion, dataset)
        for answer, material in zip(result.answers, materials, strict=True):
            lacks_reference = scale.by_reference and not _reference_text(cases[answer.query_id])
            if not answer.attempted or lacks_reference:
                continue
            documents = material.documents if scale.by_documents else ()
            key = (answer.query_id, answer.text.strip(), *documents)
            sources_of.setdefault(key, []).append(result.name)
            contexts_of.setdefault(key, material.documents)
    if not sources_of:
        raise DataError(
            f"no answer of {len(results)} results can be labelled by {criterion}: all failed, "
            "abstained, or lack a reference answer"
        )
    items = []
    for key, names in sources_of.items():
        query_id, *texts = key
        sources = [name for name in names if name]  # a result may have no name
        item = make_item(
            cases[query_id], criterion, texts, contexts=contexts_of[key], sources=sources
        )
        items.append(item)
    return grouped(items, lambda item: item.query_id)


def _materials_of_result(
    result: Result, chunks: Sequence[Chunk] | None, criterion: str, dataset: Dataset
) -> list[Material]:
    """Return the texts that a labeller sees for each answer of a result: question, answer and contexts.

    The contexts of an answer are its passages, if it has any. Else they are chunks: from `chunks`, or,
    if that is None, cut from the documents by ids such as "doc#0-330". If neither is possible for this
    result, the materials have no contexts.

    Raises:
        ConfigError: the criterion is about the contexts, and there are none.
        DataError: `chunks` lacks a context.
    """
    if chunks is None:
        chunks = _chunks_by_ids(result, dataset)  # None if the contexts have other ids
    has_contexts = chunks is not None or any(answer.passages for answer in result.answers)
    if scale_of(criterion).by_documents and not has_contexts:
        raise ConfigError(
            f"{criterion} is judged by the documents, and {result.name!r} has none; pass "
            "chunks={configuration: its chunks}"
        )
    return materials_of(result.answers, dataset, chunks or (), contexts=has_contexts)


def _warn_of_other_data(results: Sequence[Result], dataset: Dataset) -> None:
    """Warn of results that were made from other data than this dataset, as far as they state it."""
    others = []
    for result in results:
        if result.dataset["fingerprint"] and not result.is_of(dataset):
            others.append(result.name)
    if others:
        warn_user(
            f"{len(others)} of {len(results)} results, first {others[0]!r}, were made from other "
            f"data than {dataset!r}; references and contexts may not be those of the answers"
        )


_CHUNK_ID = re.compile(r"(.*)#(\d+)-(\d+)", re.DOTALL)  # document, start, end


def _chunks_by_ids(result: Result, dataset: Dataset) -> list[Chunk] | None:
    """Return the chunks in the contexts of a result's answers, cut from the documents by their ids.

    The id "doc#0-330" means characters 0 to 330 of the document "doc". Answers with passages are left
    out, because a passage has its text. Return None if there is no chunk, or if an id has another form
    or names an unknown document.
    """
    chunks = {}
    for answer in result.answers:
        if answer.passages:
            continue
        for chunk_id in answer.contexts:
            match = _CHUNK_ID.fullmatch(chunk_id)
            if match is None or match[1] not in dataset.corpus:
                return None
            doc_id, start, end = match.groups()
            text = dataset.corpus[doc_id].full_text
            chunks[chunk_id] = Chunk.cut(doc_id, text, int(start), int(end))
    return list(chunks.values()) or None


def _reference_text(case: Case) -> str:
    """Return the text that a labeller compares an answer with: the reference answer, else the gold
    facts; "" without both.
    """
    facts = "; ".join(" or ".join(forms) for forms in case.gold_facts)
    return (case.reference_answer or "").strip() or facts


def item_id_of(query_id: str, criterion: str, key: Sequence[str]) -> str:
    """Return the id of an item; `key` is its text and further texts that identify it."""
    digest = hashlib.sha256(json.dumps([query_id, criterion, *key]).encode()).hexdigest()[:10]
    return f"item-{digest}"


def make_item(
    case: Case,
    criterion: str,
    key: Sequence[str],
    contexts: tuple[str, ...],
    sources: Sequence[str],
) -> LabelItem:
    """Return the item to label for an answer to a question, or for a document found for it.

    Args:
        key: the text to label, and further texts that identify the item.
        contexts: the texts to show next to it.
        sources: the names of the configurations with this answer, or the id of the document.
    """
    return LabelItem(
        item_id_of(case.query_id, criterion, key),
        case.query_id,
        criterion,
        case.text,
        answer=key[0],
        reference=_reference_text(case),
        contexts=contexts,
        category=case.category,
        sources=tuple(sources),
    )
