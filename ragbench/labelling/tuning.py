"""A criterion that is tuned to labels: the wording and the examples by which a judge agrees most with
people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from ragbench import llms
from ragbench.errors import ConfigError, DataError, ModelError
from ragbench.files import toml_text, write_durably
from ragbench.judges.criteria import Material, judged_materials
from ragbench.judges.criterion import Criterion, load_criteria
from ragbench.labelling.agreement import labelled_materials
from ragbench.metrics.rates import wilson_interval
from ragbench.types import LLMLike

MIN_LABELS = 30
"""Labelled answers from which on a criterion can be tuned."""

_Candidate = tuple[str, str]  # its wording, and which examples
_FOLDS = 5
_WORDINGS = {
    "strict": "Where you are in doubt, choose the lower level.",
    "lenient": "Where you are in doubt, choose the higher level.",
}


@dataclass(frozen=True, eq=False)
class Tuning:
    """A tuned criterion, and its agreement with people.

    `before` is the agreement of the criterion as it was, `after` that of the choice, on labels that
    did not choose, with a 95 % interval; 1 - mean |judge - people|, a verdict that is missing counts
    as the greatest difference. `candidates` has a row for each wording, with and without examples.
    """

    criterion: Criterion
    before: float
    after: float
    ci_low: float
    ci_high: float
    n_labels: int
    candidates: pd.DataFrame


def tune_criterion(
    sheets: str | Path | Sequence[str | Path],
    criterion: Any,
    llm: LLMLike,
    *,
    questions: Sequence[str] = (),
    n_examples: int = 4,
    max_requests: int = 2_000,
    path: str | Path = "",
) -> Tuning:
    """Choose among wordings and examples of a criterion by the agreement of a judge with labels.

    Each candidate judges every labelled answer once. Examples are labelled answers of the other half
    of the questions, so that no example judges itself. The choice is made five times, each time
    without a fifth of the questions, on which it is then measured; `after` is the mean of these. The
    criterion that is returned is the choice by all labels.

    Args:
        sheets: label sheets with 30 or more labels by this criterion.
        criterion: one with levels.
        llm: the judge.
        questions: other wordings of the question, in addition to a strict and a lenient one.
        n_examples: labelled answers that a candidate with examples shows.
        max_requests: no more are sent; `dry_run` counts them and their cost.
        path: a TOML file for the tuned criterion, `[<name>_tuned]`; "" writes none.

    Raises:
        DataError: fewer than 30 labelled answers.
        ConfigError: a criterion without levels; more requests than allowed.
        ModelError: a request failed; the replies that came back are stored.
    """
    [loaded] = load_criteria(criterion)
    if loaded.function is not None or loaded.form not in ("level", "score"):
        raise ConfigError(f"{loaded.name} has no levels to choose from; it cannot be tuned")
    materials, people = labelled_materials(sheets, loaded)
    if len(materials) < MIN_LABELS:
        raise DataError(
            f"{len(materials)} answers are labelled by {loaded.name}; tuning takes {MIN_LABELS}"
        )
    wordings = {"as it is": loaded.question}
    wordings |= {name: f"{loaded.question}\n{text}" for name, text in _WORDINGS.items()}
    wordings |= {f"wording {i}": text for i, text in enumerate(questions, 1)}
    n_requests = 2 * len(wordings) * len(materials)
    if n_requests > max_requests:
        raise ConfigError(
            f"tuning takes {n_requests} requests (and repairs), and max_requests is {max_requests}; "
            "give fewer labels or wordings, or allow more"
        )
    model = llms.load_llm(llm)
    folds = [_fold(material.query_id, _FOLDS) for material in materials]
    halves = [_fold(f"half {material.query_id}", 2) for material in materials]
    agreements: dict[_Candidate, list[float]] = {}
    for wording, question in wordings.items():
        plain = replace(loaded, question=question)
        of_half = {
            half: _with_examples(plain, materials, people, halves, half, n_examples)
            for half in (0, 1)
        }
        agreements[wording, "none"] = _agreement(materials, people, [plain] * len(materials), model)
        shown = [of_half[half] for half in halves]
        agreements[wording, "labelled"] = _agreement(materials, people, shown, model)
    n = len(materials)
    after = 0.0
    for fold in range(_FOLDS):
        inside = [i for i in range(n) if folds[i] == fold]
        outside = [i for i in range(n) if folds[i] != fold]
        if inside and outside:
            chosen = agreements[_best(agreements, outside)]
            after += sum(chosen[i] for i in inside)
    low, high = wilson_interval(after, n)
    wording, kind = _best(agreements, range(n))
    tuned = replace(
        loaded,
        name=f"{loaded.name}_tuned",
        question=wordings[wording],
        meaning=f"{loaded.measure.meaning}, tuned to labels",
        origin="",
    )
    if kind == "labelled":
        tuned = _with_examples(tuned, materials, people, [0] * n, 1, n_examples)
    if path:
        fields = {name: value for name, value in tuned.declaration.items() if name != "name"}
        lines = [
            f"[{tuned.name}]",
            *(f"{name} = {toml_text(value)}" for name, value in fields.items()),
        ]
        write_durably(Path(path), "\n".join(lines) + "\n")
    rows = [(*candidate, fmean(values)) for candidate, values in agreements.items()]
    candidates = pd.DataFrame(rows, columns=["wording", "examples", "agreement"])
    before = fmean(agreements["as it is", "none"])
    return Tuning(tuned, before, after / n, low, high, n, candidates)


def _best(agreements: Mapping[_Candidate, Sequence[float]], places: Sequence[int]) -> _Candidate:
    """Return the candidate with the greatest agreement on some answers, the first of equal ones."""
    means = {name: fmean(values[i] for i in places) for name, values in agreements.items()}
    return max(means, key=lambda name: means[name])


def _fold(text: str, n: int) -> int:
    """Return the part of a question, the same on every machine."""
    return int(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), 16) % n


def _with_examples(
    criterion: Criterion,
    materials: Sequence[Material],
    people: Sequence[float],
    halves: Sequence[int],
    half: int,
    n: int,
) -> Criterion:
    """Return the criterion with labelled answers that are not in a half, of all levels in turn."""
    of_value = {value: name for name, value in criterion.values.items()}
    by_level: dict[str, list[dict[str, str]]] = {}
    for material, value, part in zip(materials, people, halves, strict=True):
        if part == half or value not in of_value:
            continue
        example = {"question": material.question, "answer": material.answer}
        if "reference" in criterion.needs and material.reference:
            example["reference"] = material.reference
        level = of_value[value]
        by_level.setdefault(level, []).append({**example, "verdict": level})
    chosen: list[dict[str, str]] = []
    while len(chosen) < n and any(by_level.values()):
        for rows in by_level.values():
            if rows and len(chosen) < n:
                chosen.append(rows.pop(0))
    return replace(criterion, examples=chosen)


def _agreement(
    materials: Sequence[Material],
    people: Sequence[float],
    criteria: Sequence[Criterion],
    model: Any,
) -> list[float]:
    """Return 1 - |judge - people| of each answer, judged by its criterion; 0 without a verdict."""
    agreements = [0.0] * len(materials)
    for criterion in dict.fromkeys(criteria):
        places = [i for i, each in enumerate(criteria) if each is criterion]
        judged = judged_materials([materials[i] for i in places], criterion, model)
        failed = [each for each in judged if each.state == "judge_failed"]
        if failed and llms.active_dry_run() is None:
            raise ModelError(
                f"{len(failed)} of {len(judged)} requests failed, the first: "
                f"{failed[0].explanation}; what came back is stored, run it again to request the rest"
            )
        for i, judgement in zip(places, judged, strict=True):
            if judgement.value is not None:
                agreements[i] = 1 - abs(judgement.value - people[i])
    return agreements
