"""One place says in which direction a measure is better."""

from __future__ import annotations

import pytest

from ragbench.metrics import LOWER_IS_BETTER, higher_is_better
from ragbench.metrics.retrieval import DEFAULT_MEASURES


@pytest.mark.parametrize("measure", sorted(LOWER_IS_BETTER))
def test_named_measures_are_better_when_lower(measure: str) -> None:
    assert not higher_is_better(measure)


@pytest.mark.parametrize("stage", ["retrieve", "generate", "guardrail_input", "guardrail_output", "total", "my_own2"])
def test_the_latency_of_every_stage_is_better_when_lower(stage: str) -> None:
    assert not higher_is_better(f"latency_{stage}_ms")


@pytest.mark.parametrize(
    "measure", [*DEFAULT_MEASURES, "claim_support", "latency_in_budget", "latency_total_ms_in_budget", "of_my_own", ""]
)
def test_everything_else_is_better_when_higher(measure: str) -> None:
    assert higher_is_better(measure)
