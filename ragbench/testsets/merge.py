"""Several test sets of the same documents as one: when a question counts as one that asks the same
and is left out, and which ids the others get.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from ragbench.errors import DataError
from ragbench.language import terms
from ragbench.testsets.composition import origin_of
from ragbench.types import TURN_MARK, Case, Dataset

Twins = Callable[[Sequence[str], Sequence[str]], Sequence[str | None]]
"""New questions and known ones -> for each new one an earlier or known one that asks the same, or None."""


class Addition(NamedTuple):
    """The cases and labels to add to a test set; `twins` has (question that is left out, known question
    that asks the same) pairs.
    """

    cases: tuple[Case, ...]
    qrels: dict[str, dict[str, int]]
    twins: tuple[tuple[str, str], ...]


def missing_cases(dataset: Dataset, other: Dataset, twins: Twins) -> Addition:
    """Return the cases of `other` that are to be added to `dataset`, under ids that are free there.

    A case is left out if its question has a twin: a known question that asks the same. A question by a
    person is left out only if a person also wrote its twin, and the twin has all its labels, because
    questions with similar words may have different answers. If one question of a conversation is added,
    all its questions are.

    Args:
        twins: returns the twin of each question in a first list: an earlier question, or one of a
            second list, the known ones. None stands for a question without a twin.
    """
    known = [_question(case) for case in dataset.cases]
    twin_of_each = twins([_question(case) for case in other.cases], known)
    pairs = list(zip(other.cases, twin_of_each, strict=True))
    kept = _kept_conversations(dataset, other, pairs)
    free_name = _free_names({_conversation(case) for case in dataset.cases}, kept)
    cases = []
    qrels = {}
    left_out = []
    for case, twin in pairs:
        if _conversation(case) not in kept:
            left_out.append((_question(case), str(twin)))  # what is left out has a twin
            continue
        # an id is the name of the conversation and the number of the turn; only the name may be taken
        conversation, mark, turn = case.query_id.partition(TURN_MARK)
        query_id = f"{free_name[conversation]}{mark}{turn}"
        cases.append(replace(case, query_id=query_id))
        qrels[query_id] = other.qrels.get(case.query_id, {})
    return Addition(tuple(cases), qrels, tuple(left_out))


def _kept_conversations(
    dataset: Dataset, other: Dataset, pairs: Iterable[tuple[Case, str | None]]
) -> set[str]:
    """Return the conversations of `other` with a question that is to be added to `dataset`.

    Args:
        pairs: each case of `other` with the known question that asks the same, None without one.
    """
    known: dict[str, list[_Comparable]] = {}  # question -> the cases that ask it
    for case in dataset.cases:
        known.setdefault(_question(case), []).append(_comparable(dataset, case))
    kept = set()
    for case, twin in pairs:
        candidate = _comparable(other, case)
        twin_cases = [] if twin is None else known.get(twin, [])
        is_known = any(_can_stand_for(each, candidate) for each in twin_cases)
        if not is_known:
            kept.add(_conversation(case))
            # a twin of the next cases
            known.setdefault(_question(case), []).append(candidate)
    return kept


class _Comparable(NamedTuple):
    """Who wrote a question, and its labels by their kind; those that it lacks are empty."""

    origin: str
    labels: Mapping[str, Collection[object]]


def _comparable(dataset: Dataset, case: Case) -> _Comparable:
    """Return the origin and the labels of a case, in a form that can be compared (texts as terms)."""
    grades = dataset.qrels.get(case.query_id, {})
    labels = {
        "answer": terms(case.reference_answer or ""),
        "facts": {tuple(terms(fact[0])) for fact in case.gold_facts},
        "keywords": {tuple(terms(keyword)) for keyword in case.required_keywords},
        "evidence": {(span.doc_id, span.start, span.end) for span in case.evidence},
        "sections": set(case.expected_sections),
        "documents": {doc_id for doc_id, grade in grades.items() if grade > 0},
        "outcome": case.expected_outcome or "",
    }
    return _Comparable(origin_of(case), labels)


def _can_stand_for(known: _Comparable, candidate: _Comparable) -> bool:
    """Return True if a candidate may be left out because a known case asks the same.

    Return True if no person wrote the candidate. Otherwise a person must have written the known case,
    and it must have every label that the candidate has.
    """
    if candidate.origin != "people":
        return True
    if known.origin != "people":
        return False
    return all(not label or label == known.labels[kind] for kind, label in candidate.labels.items())


def merged(dataset: Dataset, other: Dataset, addition: Addition) -> Dataset:
    """Return a test set with the missing cases of another one, and the documents and safety samples of
    both.

    Raises:
        DataError: the two have documents of the same id that differ.
    """
    for doc_id in dataset.corpus.keys() & other.corpus.keys():
        if dataset.corpus[doc_id].full_text != other.corpus[doc_id].full_text:
            raise DataError(
                f"document {doc_id!r} differs between {dataset.name} and {other.name}; merge only test sets of "
                "the same documents"
            )
    # of samples with one id, the one of `dataset` stays
    inputs = {each.sample_id: each for each in (*other.safety_inputs, *dataset.safety_inputs)}
    outputs = {each.sample_id: each for each in (*other.safety_outputs, *dataset.safety_outputs)}
    return replace(
        dataset,
        corpus={**dataset.corpus, **other.corpus},
        cases=(*dataset.cases, *addition.cases),
        qrels={**dataset.qrels, **addition.qrels},
        safety_inputs=tuple(inputs.values()),
        safety_outputs=tuple(outputs.values()),
    )


def _question(case: Case) -> str:
    """Return the question of a case, after the earlier questions of its conversation."""
    return " ".join([*(question for question, _ in case.turns), case.text])


def _conversation(case: Case) -> str:
    """Return the name of the conversation of a case; without one, the id of the case."""
    return case.query_id.partition(TURN_MARK)[0]


def _free_names(taken: set[str], names: set[str]) -> dict[str, str]:
    """Return name -> a name that is free: the same one, or one with a number if it is taken.

    >>> _free_names({"q1", "q1-2"}, {"q1", "q7"})
    {'q1': 'q1-3', 'q7': 'q7'}
    """
    free = {}
    used = taken | names
    for name in sorted(names):
        free[name] = name
        if name in taken:
            candidates = (f"{name}-{number}" for number in count(2))
            free[name] = next(candidate for candidate in candidates if candidate not in used)
            used.add(free[name])
    return free
