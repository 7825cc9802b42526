"""Every cause of failure has a stage, and every stage a colour."""

from __future__ import annotations

from ragbench.evaluation import CAUSES, STAGE_OF
from ragbench.report.plots.figure import STAGE_COLOURS


def test_every_cause_has_a_stage_and_every_stage_a_colour() -> None:
    assert set(STAGE_OF) == set(CAUSES)
    assert set(STAGE_OF.values()) | {"answered"} == set(STAGE_COLOURS)
    assert len(set(STAGE_COLOURS.values())) == len(STAGE_COLOURS)
