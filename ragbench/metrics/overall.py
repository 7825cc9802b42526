"""The weighted overall of an answer from its parts, and the thresholds to pass.

Parts are in [0, 1]; higher is better but for "hallucination" and "llm_hallucination".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ragbench.errors import ConfigError, DataError, unknown


class Part(NamedTuple):
    """A part of the overall: its label in reasons, its default weight and threshold."""

    label: str
    weight: float
    threshold: float


_PARTS = {
    "semantic": Part("semantic similarity", 40, 0.7),
    "llm_correctness": Part("correctness by the judge", 40, 0.5),  # 0 or 1, the mean of repeated samples
    "keyword": Part("required keywords", 20, 0.6),
    "expected_document": Part("expected document retrieved", 20, 1.0),
    "citation": Part("citations that hold", 0, 0.8),
    "hallucination": Part("hallucination", 20, 1.0),  # uncalibrated: decides only with a threshold of the user
    "llm_hallucination": Part("hallucination by the judge", 20, 0.2),
    "gold_facts": Part("gold facts", 0, 0.6),
    "expected_claims": Part("expected claims", 0, 0.6),
    "expected_citations": Part("expected citations", 0, 0.6),
}

PARTS = tuple(_PARTS)

LOWER_PARTS = frozenset({"hallucination", "llm_hallucination"})
"""Parts that are better when lower."""

WEIGHTS: Mapping[str, float] = MappingProxyType({name: part.weight for name, part in _PARTS.items()})
"""The weight of each part; only their ratios matter. A part of weight 0 only affects passing."""

THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {**{name: part.threshold for name, part in _PARTS.items()}, "outcome": 1.0, "latency": 1.0}
)
"""The value that each part must reach for an answer to pass; those in `LOWER_PARTS` must not exceed it. "outcome" (as
expected) and "latency" (within the budget) are 1 or 0; a threshold of 0 leaves them out."""


def weighted_overall(parts: Mapping[str, float], *, weights: Mapping[str, float] = WEIGHTS) -> float:
    """The weighted mean of the parts that are scored, in [0, 1]; higher is better; NaN where none is.

    A part that is better when lower counts as 1 - its value. Parts that are NaN or missing (no reference, no keywords,
    switched off) are left out, and the weights of the others make up the whole. Two values are comparable only if they
    have the same parts, so show them together.

    >>> weighted_overall({"semantic": 0.8, "keyword": 0.5, "expected_document": 1.0, "hallucination": 0.1})
    0.8
    >>> round(weighted_overall({"semantic": 0.8, "hallucination": 0.1}), 4)
    0.8333

    Raises:
        ConfigError: a weight of a part that does not exist, below 0, or all of them 0.
        DataError: a part that does not exist, or a value outside [0, 1].
    """
    check_weights(weights)
    good = {
        name: 1 - value if name in LOWER_PARTS else value
        for name, value in _checked(parts).items()
        if not math.isnan(value) and weights.get(name, 0) > 0
    }
    total = sum(weights[name] for name in good)
    return round(sum(weights[name] * value for name, value in good.items()) / total, 9) if good else math.nan


def shortfalls(parts: Mapping[str, float], *, thresholds: Mapping[str, float] = THRESHOLDS) -> dict[str, str]:
    """The parts that do not reach their threshold, in the order of `PARTS`, each with a description.

    Parts that are NaN or missing pass. A value equal to its threshold passes; both are compared unrounded and shown
    with enough decimals to differ.

    >>> shortfalls({"semantic": 0.62, "keyword": 1.0, "llm_hallucination": 0.3})
    {'semantic': 'semantic similarity 0.62 < 0.70', 'llm_hallucination': 'hallucination by the judge 0.30 > 0.20'}

    Raises:
        ConfigError: a threshold of a part that does not exist, or outside [0, 1].
        DataError: a part that does not exist, or a value outside [0, 1].
    """
    check_thresholds(thresholds)
    found = {}
    values = _checked(parts)
    for name, part in _PARTS.items():
        value, threshold = values.get(name, math.nan), thresholds.get(name)
        if threshold is None or math.isnan(value):
            continue
        sign = ">" if name in LOWER_PARTS else "<"
        if value > threshold if sign == ">" else value < threshold:
            found[name] = f"{part.label} {_compared(value, threshold, sign)}"
    return found


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights that name no part, are below 0 or not a number, or are all 0."""
    for name, weight in weights.items():
        if name not in PARTS:
            raise ConfigError(unknown("part of the overall", name, PARTS))
        if not _is_number(weight) or weight < 0:
            raise ConfigError(f"the weight of {name!r} is {weight!r}; expected a number of 0 or more, such as 20")
    if not any(weight > 0 for weight in weights.values()):
        raise ConfigError("all weights of the overall are 0; give at least one part a weight, such as {'semantic': 40}")


def check_thresholds(thresholds: Mapping[str, float]) -> None:
    """Refuse thresholds that name no part or lie outside [0, 1]."""
    for name, threshold in thresholds.items():
        if name not in THRESHOLDS:
            raise ConfigError(unknown("part of the overall", name, THRESHOLDS))
        if not _is_number(threshold) or not 0 <= threshold <= 1:
            raise ConfigError(f"the threshold of {name!r} is {threshold!r}; expected a number from 0 to 1, such as 0.7")


def _checked(parts: Mapping[str, float]) -> Mapping[str, float]:
    for name, value in parts.items():
        if name not in PARTS:
            raise DataError(unknown("part of the overall", name, PARTS))
        if not 0 <= value <= 1 and not math.isnan(value):
            raise DataError(f"the part {name!r} is {value!r}; expected a number from 0 to 1, or NaN where unscored")
    return parts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _compared(value: float, threshold: float, sign: str) -> str:
    """Both numbers with two decimals, or as many more as are needed for them to differ."""
    shown = ((f"{value:.{digits}f}", f"{threshold:.{digits}f}") for digits in range(2, 10))
    left, right = next((pair for pair in shown if pair[0] != pair[1]), (repr(value), repr(threshold)))
    return f"{left} {sign} {right}"
