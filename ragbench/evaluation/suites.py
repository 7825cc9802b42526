"""Which part of a test set is evaluated: all of it, or a sample that is soon done."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from ragbench.errors import ConfigError, check_known
from ragbench.evaluation.spec import SUITES, EvaluationSpec
from ragbench.types import Case, Dataset, SafetySample

SMOKE_QUESTIONS = 40
SMOKE_SAMPLES = 120
"""Of inputs and of outputs."""

_Item = TypeVar("_Item", Case, SafetySample)


def select_questions(dataset: Dataset, spec: EvaluationSpec) -> Dataset:
    """Return the part of a dataset that an evaluation takes: its categories, its suite, its sample."""
    return select_sample(
        select_suite(select_categories(dataset, spec.categories), spec.suite),
        spec.sample,
        spec.seed,
    )


def select_suite(dataset: Dataset, suite: str = "full") -> Dataset:
    """Return the questions and safety samples of a suite, in the order of the dataset.

    "smoke" takes up to 40 questions and up to 120 safety inputs and outputs each, evenly from all
    categories and from questions with and without an answer. Which ones depends on their ids alone:
    the same on every call, and independent of the other contents of the test set.

    >>> cases = [Case(f"q{i}", "?", category="ab"[i % 2]) for i in range(100)]
    >>> chosen = select_suite(Dataset("demo", "test", {}, cases, {}), "smoke").cases
    >>> len(chosen), sum(case.category == "a" for case in chosen)
    (40, 20)

    Raises:
        ConfigError: an unknown suite.
    """
    check_known("suite", SUITES, suite)
    if suite == "full":
        return dataset
    chosen = select_sample(dataset, SMOKE_QUESTIONS)
    return replace(
        chosen,
        safety_inputs=_some(dataset.safety_inputs),
        safety_outputs=_some(dataset.safety_outputs),
    )


def select_sample(dataset: Dataset, size: int = 0, seed: int = 0) -> Dataset:
    """Return up to `size` questions, evenly from all categories as in the suite "smoke", in the
    order of the dataset; 0 = all.

    Which ones depends on `seed` and their ids alone. The safety samples stay.

    >>> data = Dataset("demo", "test", {}, [Case(f"q{i}", "?", category="ab"[i % 2]) for i in range(100)], {})
    >>> [list(select_sample(data, 4, seed).queries) for seed in (0, 1, 1)]
    [['q7', 'q19', 'q60', 'q86'], ['q5', 'q18', 'q60', 'q81'], ['q5', 'q18', 'q60', 'q81']]
    """
    if not size:
        return dataset
    chosen = _spread(
        dataset.cases,
        size,
        lambda one: f"{seed or ''}{one.query_id}",
        lambda one: (one.category, one.answerable),
    )
    return dataset.select([case.query_id for case in chosen])


def select_categories(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Return the questions and safety samples of these categories; all for ().

    >>> cases = [Case("q1", "?", category="faq"), Case("q2", "?", category="how-to")]
    >>> select_categories(Dataset("demo", "test", {}, cases, {}), ["faq"]).queries
    {'q1': '?'}

    Raises:
        ConfigError: a category that the dataset does not have.
    """
    if not names:
        return dataset
    labelled: Sequence[Case | SafetySample] = [
        *dataset.cases,
        *dataset.safety_inputs,
        *dataset.safety_outputs,
    ]
    categories = dict.fromkeys(item.category for item in labelled if item.category)
    if not categories:
        raise ConfigError(f"{dataset.name!r} has no categories")
    check_known("category", categories, *names)
    chosen = dataset.select([case.query_id for case in dataset.cases if case.category in names])
    inputs, outputs = (
        tuple(sample for sample in samples if sample.category in names)
        for samples in (dataset.safety_inputs, dataset.safety_outputs)
    )
    return replace(chosen, safety_inputs=inputs, safety_outputs=outputs)


def _some(samples: Sequence[SafetySample]) -> tuple[SafetySample, ...]:
    chosen = _spread(
        samples, SMOKE_SAMPLES, lambda one: one.sample_id, lambda one: (one.harmful, one.category)
    )
    return tuple(chosen)


def _spread(
    items: Sequence[_Item],
    limit: int,
    id_of: Callable[[_Item], str],
    group_of: Callable[[_Item], Hashable],
) -> list[_Item]:
    """Return at most `limit` items, one of each group in turn; in their own order."""
    if len(items) <= limit:
        return list(items)
    groups: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(group_of(item), []).append(i)
    turn = {
        i: (turn_of, hashlib.sha256(str(group).encode()).hexdigest())
        for group, members in groups.items()
        for turn_of, i in enumerate(
            sorted(members, key=lambda i: hashlib.sha256(id_of(items[i]).encode()).hexdigest())
        )
    }
    return [items[i] for i in sorted(sorted(turn, key=turn.__getitem__)[:limit])]
