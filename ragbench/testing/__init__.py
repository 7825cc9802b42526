"""For test suites: assertions on a RAG system, and pytest fixtures for data, models and systems.

The fixtures come with the plugin that an installed ragbench brings to pytest
(`ragbench.testing.plugin`).
"""

from ragbench.foreign import assert_not_worse
from ragbench.testing.assertions import (
    LabelledCase,
    assert_answer_correct,
    assert_context_recall,
    labelled_cases,
)

__all__ = [
    "LabelledCase",
    "assert_answer_correct",
    "assert_context_recall",
    "assert_not_worse",
    "labelled_cases",
]
