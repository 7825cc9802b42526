"""Reference answers that seem to state that there is no answer, such as "not in the handbook", of
which `ragbench testset` warns.
"""

from __future__ import annotations

from ragbench.llms.reply_text import has_negation, read_outcome
from ragbench.metrics.tidy import relevant_ids
from ragbench.types import Case, Dataset

_LONGEST = 8  # words of a reference that only states that there is no answer


def denying_references(dataset: Dataset) -> list[Case]:
    """Return the questions whose reference answer seems to state that there is no answer, and that are
    not marked as unanswerable.

    Such a reference has the words of an abstention. Or it is short, without a number, denies in some
    language, and has no document, although other questions have documents.
    """
    has_documents = any(map(relevant_ids, dataset.qrels.values()))
    found = []
    for case in dataset.cases:
        reference = case.reference_answer or ""
        if not reference.strip() or case.expected_outcome is not None:
            continue
        is_without_document = not relevant_ids(dataset.qrels.get(case.query_id, {}))
        lacks_what_others_have = has_documents and is_without_document and not case.evidence
        is_abstention = read_outcome(reference) == "no_results"
        if is_abstention or (lacks_what_others_have and _denies(reference)):
            found.append(case)
    return found


def _denies(reference: str) -> bool:
    """Return True if a short text without a number has a negation."""
    is_short = len(reference.split()) <= _LONGEST
    has_number = any(character.isdigit() for character in reference)
    return is_short and not has_number and has_negation(reference)
