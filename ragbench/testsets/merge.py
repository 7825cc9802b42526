"""Several test sets of the same documents as one, without questions that ask the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from ragbench.errors import DataError
from ragbench.types import TURN_MARK, Case, Dataset

Twins = Callable[[Sequence[str], Sequence[str]], Sequence[str | None]]
"""New questions and known ones -> for each new one an earlier or known one that asks the same, or None."""


class Addition(NamedTuple):
    """The cases and labels of a test set that another one lacks; `twins` has (question that is left out,
    equal question) pairs.
    """

    cases: tuple[Case, ...]
    qrels: dict[str, dict[str, int]]
    twins: tuple[tuple[str, str], ...]


def missing_cases(dataset: Dataset, other: Dataset, twins: Twins) -> Addition:
    """Return the cases of `other` whose question no case of `dataset` asks, with free ids.

    The questions of one conversation stay together: they are left out where all of them are there.
    """
    known = [_question(case) for case in dataset.cases]
    found = twins([_question(case) for case in other.cases], known)
    pairs = list(zip(other.cases, found, strict=True))
    kept_stems = {_stem(case) for case, twin in pairs if twin is None}
    stems = _free_stems({_stem(case) for case in dataset.cases}, kept_stems)
    cases = []
    qrels = {}
    left_out = []
    for case, twin in pairs:
        if _stem(case) not in kept_stems:
            left_out.append((_question(case), str(twin)))
            continue
        stem, mark, turn = case.query_id.partition(TURN_MARK)
        query_id = f"{stems[stem]}{mark}{turn}"
        cases.append(replace(case, query_id=query_id))
        qrels[query_id] = other.qrels.get(case.query_id, {})
    return Addition(tuple(cases), qrels, tuple(left_out))


def merged(dataset: Dataset, other: Dataset, addition: Addition) -> Dataset:
    """Return a test set with the missing cases of another one, and the documents and safety samples of
    both.

    Raises:
        DataError: the two have documents of the same id that differ.
    """
    for doc_id in dataset.corpus.keys() & other.corpus.keys():
        if dataset.corpus[doc_id].full_text != other.corpus[doc_id].full_text:
            raise DataError(
                f"the document {doc_id!r} of {other.name} is another one in {dataset.name}; merge "
                "test sets of the same documents"
            )
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


def _stem(case: Case) -> str:
    """Return the name of the conversation of a case, or its id."""
    return case.query_id.partition(TURN_MARK)[0]


def _free_stems(taken: set[str], stems: set[str]) -> dict[str, str]:
    """Return each name, or the first that is free: q1-2 for q1."""
    free = {}
    used = taken | stems
    for stem in sorted(stems):
        free[stem] = stem
        if stem in taken:
            free[stem] = next(
                name for number in count(2) if (name := f"{stem}-{number}") not in used
            )
            used.add(free[stem])
    return free
