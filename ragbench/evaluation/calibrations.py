"""Calibrations in an evaluation: which scores have one, what it changes, and how scores without one
are reported.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, DataWarning
from ragbench.metrics.score_calibration import Calibration, score_version
from ragbench.registry import CALIBRATED, measure_of, perspective_of

INJECTION = "injection_score"

HEURISTICS = ("claim_support", "semantic_similarity")
"""Scores without a scale of their own: they rank answers, and the meaning of a value depends on the
kind of text.
"""

_PARTS = {
    "semantic": "semantic_similarity",
    "hallucination": "claim_support",
    "expected_claims": "expected_claims",
}
# Part of a case's verdict -> the heuristic score that it is judged by.
_LOWEST = 3

CalibrationLike = Calibration | str | Path | Sequence[Calibration | str | Path]


def load_calibrations(given: CalibrationLike) -> dict[str, Calibration]:
    """measure -> its calibration, from calibrations or the files that hold them; a text names
    files, commas between.

    Raises:
        ConfigError: a file that is not a calibration, two of one measure, of a measure that does
        not exist, or of
            scores by other coefficients.
    """
    found: dict[str, Calibration] = {}
    if isinstance(given, str):
        given = [name for part in given.split(",") if (name := part.strip())]
    for one in [given] if isinstance(given, Calibration | Path) else given:
        own = one if isinstance(one, Calibration) else Calibration.load(one)
        name = own.measure if own.measure == INJECTION else measure_of(own.measure).name
        if name in found:
            raise ConfigError(f"there are two calibrations of {name}; give one")
        _check_version(name, own)
        found[name] = own
    return found


def _check_version(name: str, own: Calibration) -> None:
    version = score_version(name, own.model)
    if own.version and own.version != version:
        raise ConfigError(
            f"the calibration of {name} is for scores by coefficients {own.version}, and this "
            f"version of ragbench has {version}: the scores have another scale now; label and "
            "calibrate again (`ragbench label`)"
        )
    if version and not own.version:
        warnings.warn(
            f"the calibration of {name} does not record the coefficients of its scores; if it "
            "was made by an earlier version of ragbench, label and calibrate again (`ragbench "
            "label`)",
            DataWarning,
            stacklevel=4,
        )


def check_models(calibrations: Mapping[str, Calibration], models: Mapping[str, str]) -> None:
    """Refuse a calibration of scores that another model computed: they have another scale.

    Args:
        calibrations: measure -> calibration.
        models: measure -> the model that computes it in this evaluation.
    """
    for name, own in calibrations.items():
        if own.model and models.get(name, own.model) != own.model:
            raise ConfigError(
                f"the calibration of {name} is for scores by {own.model!r}, and here they are "
                f"computed by {models[name]!r}; evaluate with the same model, or label and "
                "calibrate again"
            )


def with_probabilities(
    frame: pd.DataFrame, calibrations: Mapping[str, Calibration]
) -> pd.DataFrame:
    """The scores, and below them "calibrated:<measure>" for each measure with a calibration: its
    probability.
    """
    more = []
    for name, own in calibrations.items():
        rows = frame[frame["measure"] == name]
        values = rows["value"].map(own.probability, na_action="ignore")
        more.append(rows.assign(measure=f"{CALIBRATED}{name}", value=values))
    return pd.concat([frame, *(rows for rows in more if len(rows))], ignore_index=True)


def case_thresholds(
    thresholds: Mapping[str, float], calibrations: Mapping[str, Calibration]
) -> dict[str, float]:
    """The thresholds of a single answer: those of the calibrations where there are any."""
    found = dict(thresholds)
    for part, name in _PARTS.items():
        if name in calibrations:
            threshold = calibrations[name].threshold
            found[part] = min(
                1.0, max(0.0, 1 - threshold if part == "hallucination" else threshold)
            )
    return found


def scale_note(
    perspective: str, frame: pd.DataFrame, calibrations: Mapping[str, Calibration]
) -> str:
    """What the heuristic scores of a perspective mean: their calibration, or only how they rank; ""
    without any.
    """
    notes = []
    for name in dict.fromkeys((*HEURISTICS, *calibrations)):
        rows = frame[frame["measure"] == name].dropna(subset=["value"])
        if perspective_of(name) != perspective or rows.empty:
            continue
        if name in calibrations:
            notes.append(str(calibrations[name]))
        else:
            low, high = rows["value"].quantile([0.25, 0.75])
            lowest = rows.sort_values("value", kind="stable")["query_id"].head(_LOWEST)
            notes.append(
                f"{name} is uncalibrated: it ranks answers (half are from {low:.2f} "
                f"to {high:.2f}; lowest: {', '.join(map(str, lowest))}), and no value of it is a "
                "verdict; `ragbench label` calibrates it"
            )
    return "; ".join(notes)


def verdict_note(
    thresholds: Mapping[str, float], scores: pd.DataFrame, calibrations: Mapping[str, Calibration]
) -> str:
    """The parts by which questions pass or fail here without a calibration; "" where there are
    none.
    """
    scored = set(scores.dropna(subset=["value"])["measure"])
    loose = {"semantic": 0.0, "expected_claims": 0.0, "hallucination": 1.0}
    parts = [
        part
        for part, name in _PARTS.items()
        if name in scored
        and name not in calibrations
        and thresholds.get(part, loose[part]) != loose[part]
    ]
    return (
        f"uncalibrated thresholds "
        f"decide: {', '.join(f'{one} {thresholds[one]:g}' for one in parts)}"
        if parts
        else ""
    )


def plain(calibrations: Mapping[str, Calibration]) -> dict[str, Any]:
    """The calibrations as plain data, for the settings of a report."""
    wanted = (
        "threshold",
        "ci_low",
        "ci_high",
        "n",
        "n_positive",
        "auc",
        "auc_low",
        "auc_high",
        "balanced_accuracy",
    )
    return {name: {key: asdict(own)[key] for key in wanted} for name, own in calibrations.items()}
