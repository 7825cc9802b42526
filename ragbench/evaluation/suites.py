"""Which part of a test set is evaluated: all of it, or a sample that is soon done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

from ragbench.errors import ConfigError, check_known
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.types import Case, Dataset, SafetySample, evenly, grouped

SMOKE_QUESTIONS = 40
SMOKE_SAMPLES = 120
"""Of inputs and of outputs."""


def select_questions(dataset: Dataset, spec: EvaluationSpec) -> Dataset:
    """Return the part of a dataset that an evaluation takes: its categories, its suite, its limit,
    what it draws.
    """
    dataset = select_suite(select_categories(dataset, spec.categories), spec.suite)
    dataset = dataset.sample(spec.limit, spec.seed) if spec.limit else dataset
    drawn = chain.from_iterable(draws_of(dataset, spec.seed))
    return dataset.select([*islice(drawn, spec.draw)]) if spec.draw else dataset


def draws_of(dataset: Dataset, seed: int = 0) -> list[list[str]]:
    """Return the questions in random order, those of one cluster (`metadata["cluster"]`) together.

    The order depends on the seed and on the names of the clusters, which are ids where there are
    none, alone.

    >>> cases = [Case(name, "?", metadata={"cluster": name[0]}) for name in ("a1", "b1", "a2")]
    >>> draws_of(Dataset("demo", "test", {}, cases, {}))
    [['b1'], ['a1', 'a2']]
    """
    clusters = grouped(dataset.cases, lambda case: str(case.metadata.get("cluster", case.query_id)))
    order = sorted(clusters, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return [[case.query_id for case in clusters[name]] for name in order]


def select_suite(dataset: Dataset, suite: str) -> Dataset:
    """Return the questions and safety samples of a suite, in the order of the dataset.

    "smoke" takes up to 40 questions and up to 120 safety inputs and outputs each, evenly from all
    categories and from questions with and without an answer. Which ones depends on their ids alone:
    the same on every call, and independent of the other contents of the test set.

    >>> cases = [Case(f"q{i}", "?", category="ab"[i % 2]) for i in range(100)]
    >>> chosen = select_suite(Dataset("demo", "test", {}, cases, {}), "smoke").cases
    >>> len(chosen), sum(case.category == "a" for case in chosen)
    (40, 20)
    """
    if suite == "full":
        return dataset
    chosen = dataset.sample(SMOKE_QUESTIONS)
    return replace(
        chosen,
        safety_inputs=_some(dataset.safety_inputs),
        safety_outputs=_some(dataset.safety_outputs),
    )


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
    chosen = evenly(
        samples, SMOKE_SAMPLES, lambda one: one.sample_id, lambda one: (one.harmful, one.category)
    )
    return tuple(chosen)
