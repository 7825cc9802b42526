"""Which part of a test set is evaluated: all of it, or a sample that is soon done."""

from collections.abc import Sequence
from dataclasses import replace

from ragbench.datasets.safety import load_safety_samples
from ragbench.errors import ConfigError, check_known
from ragbench.evaluation.result import Result
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.types import Dataset, SafetySample, evenly

SMOKE_QUESTIONS = 40
SMOKE_SAMPLES = 120
"""Of inputs and of outputs."""


def select_questions(dataset: Dataset, spec: EvaluationSpec) -> Dataset:
    """Return the part of a dataset that an evaluation takes: its categories, its suite, its limit."""
    dataset = select_suite(select_categories(dataset, spec.categories), spec.suite)
    return dataset.sample(spec.limit, spec.seed) if spec.limit else dataset


def select_suite(dataset: Dataset, suite: str) -> Dataset:
    """Return the questions and safety samples of a suite, in the order of the dataset.

    "smoke" takes up to 40 questions and up to 120 safety inputs and outputs each, evenly from all
    categories and from questions with and without an answer. Which ones depends on their ids alone:
    the same on every call, and independent of the other contents of the test set.

    >>> from ragbench.types import Case
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

    >>> from ragbench.types import Case
    >>> cases = [Case("q1", "?", category="faq"), Case("q2", "?", category="how-to")]
    >>> select_categories(Dataset("demo", "test", {}, cases, {}), ["faq"]).queries
    {'q1': '?'}

    Raises:
        ConfigError: a category that the dataset does not have.
    """
    if not names:
        return dataset
    samples = (dataset.safety_inputs, dataset.safety_outputs)
    categories = dict.fromkeys(each.category for part in samples for each in part)
    categories |= dict.fromkeys(case.category for case in dataset.cases)
    categories.pop("", None)
    if not categories:
        raise ConfigError(f"{dataset.name!r} has no categories")
    check_known("category", categories, *names)
    chosen = dataset.select([case.query_id for case in dataset.cases if case.category in names])
    inputs, outputs = (tuple(each for each in part if each.category in names) for part in samples)
    return replace(chosen, safety_inputs=inputs, safety_outputs=outputs)


def _some(samples: Sequence[SafetySample]) -> tuple[SafetySample, ...]:
    chosen = evenly(
        samples, SMOKE_SAMPLES, lambda one: one.sample_id, lambda one: (one.harmful, one.category)
    )
    return tuple(chosen)


def is_of(result: Result, dataset: Dataset) -> bool:
    """Return True if the result was measured on this dataset: on all of it, on its smoke suite, or
    on these questions.
    """
    bases = [dataset]
    if dataset.name == "pydoc":  # `ragbench eval` adds the samples that come with ragbench
        inputs, outputs = load_safety_samples()
        bases.append(replace(dataset, safety_inputs=inputs, safety_outputs=outputs))
    parts = (
        part
        for base in bases
        for part in (base, select_suite(base, "smoke"), base.select(result.queries))
    )
    return any(part.fingerprint == result.dataset["fingerprint"] for part in parts)
