"""Measures compared with their targets, as a sentence of evidence and as a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.registry import higher_is_better

if TYPE_CHECKING:
    import pandas as pd


_SLACK = 1e-9  # the mean of many values of 0.7 is not 0.7 to the last bit


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure compared with its target."""

    measure: str
    text: str
    missed: bool
    reachable: bool


def figures_of(summary: pd.DataFrame, targets: Mapping[str, float], ceilings: Mapping[str, float]) -> dict[str, Figure]:
    """measure -> its figure, for each measure of the summary that has a target and a mean."""
    import pandas as pd

    figures = {}
    for row in summary.to_dict("records"):
        measure = str(row["measure"])
        if measure not in targets or pd.isna(row["mean"]):
            continue
        target, mean, higher = targets[measure], float(row["mean"]), higher_is_better(measure)
        missed = mean < target - _SLACK if higher else mean > target + _SLACK
        sign = ("<" if missed else ">=") if higher else (">" if missed else "<=")
        interval, doubt = "", ""
        if not (pd.isna(row["ci_low"]) or pd.isna(row["ci_high"])):
            low, high = float(row["ci_low"]), float(row["ci_high"])
            interval = f" [{low:.3f}, {high:.3f}]"
            if missed and (high >= target if higher else low <= target):
                doubt = "; the interval includes the target: evaluate more questions"
        counted = f"({row['n_scored']} of {row['n']} scored{doubt})"
        ceiling = ceilings.get(measure, math.nan)
        beyond = ceiling < target - _SLACK if higher else ceiling > target + _SLACK
        figures[measure] = Figure(
            measure, f"{measure} {mean:.3f}{interval} {sign} {target:g} {counted}", missed, not beyond
        )
    return figures


def texts_of(figures: Mapping[str, Figure], names: Sequence[str], *, missed: bool) -> tuple[str, ...]:
    """The figures of these measures, at any depth, that miss their reachable target, or that meet it."""
    return tuple(
        figure.text
        for measure, figure in figures.items()
        if measure.partition("@")[0] in names and figure.missed == missed and (figure.reachable or not missed)
    )
