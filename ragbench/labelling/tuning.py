"""Tune a criterion to labels: choose the wording and the examples with which a judge agrees most with
people.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from ragbench import llms
from ragbench.errors import ConfigError, DataError, ModelError
from ragbench.files import toml_text, write_durably
from ragbench.hints import suggesting
from ragbench.judges.criterion import Criterion, load_criteria
from ragbench.judges.judge_requests import judged_materials
from ragbench.judges.material import Material
from ragbench.labelling.judge_agreement import labelled_materials
from ragbench.metrics.rates import wilson_interval
from ragbench.types import LLM, LLMLike

MIN_LABELS = 30
"""The smallest number of labelled answers to tune a criterion."""

_Candidate = tuple[str, str]  # the name of a wording, and its examples: "none" or "labelled"
_FOLDS = 5
_ORIGINAL = "as it is"  # the name of the original wording
_WORDINGS = {
    "strict": "Where you are in doubt, choose the lower level.",
    "lenient": "Where you are in doubt, choose the higher level.",
}


@suggesting()
@dataclass(frozen=True, eq=False)
class Tuning:
    """A tuned criterion, and its agreement with people.

    `before` is the agreement of the original criterion, `after` the agreement of the choice on labels
    that did not take part in it, with a 95 % interval. Agreement is 1 - mean |judge - people|; a
    missing verdict counts as the greatest difference. `candidates` has a row for each wording, with
    and without examples.
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
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> Tuning:
    """Choose among wordings and examples of a criterion by the agreement of a judge with labels.

    Each candidate judges every labelled answer once. The examples in a request are labelled answers
    to the other half of the questions, so that no answer is judged with its own label in sight. The
    choice is made five times, each time without a fifth of the questions, on which the chosen
    candidate is then measured; `after` is the mean over all answers. The returned criterion is the
    choice by all labels.

    Args:
        sheets: label sheets with 30 or more labels by this criterion, or by the one of which it is a
            wording.
        criterion: a criterion with levels.
        llm: the judge.
        questions: other wordings of the question, in addition to a strict and a lenient one.
        n_examples: the number of labelled answers that a candidate with examples shows.
        max_requests: the maximum number of requests; `dry_run` counts them and their cost.
        path: a TOML file for the tuned criterion, `[<name>_tuned]`; "" writes none.
        concurrency, timeout_s: as in `generate_many`.

    Raises:
        DataError: there are fewer than 30 labelled answers.
        ConfigError: the criterion has no levels, or more requests are needed than allowed.
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
    wordings = {_ORIGINAL: loaded.question}
    wordings |= {name: f"{loaded.question}\n{text}" for name, text in _WORDINGS.items()}
    wordings |= {f"wording {i}": text for i, text in enumerate(questions, 1)}
    n_requests = 2 * len(wordings) * len(materials)
    if n_requests > max_requests:
        raise ConfigError(
            f"tuning takes {n_requests} requests (and repairs), and max_requests is {max_requests}; "
            "give fewer labels or wordings, or allow more"
        )
    model = llms.load_llm(llm)
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    halves = [_part(f"half {material.query_id}", 2) for material in materials]
    agreements: dict[_Candidate, list[float]] = {}
    for wording, question in wordings.items():
        plain = replace(loaded, question=question)
        without_examples = [plain] * len(materials)
        agreements[wording, "none"] = _agreement(
            materials, people, without_examples, model, options
        )
        with_examples = [
            _with_examples(plain, materials, people, halves, half, n_examples) for half in (0, 1)
        ]
        criteria = [with_examples[half] for half in halves]
        agreements[wording, "labelled"] = _agreement(materials, people, criteria, model, options)
    n = len(materials)
    after = _held_out_agreement(materials, agreements)
    low, high = wilson_interval(after, n)
    wording, examples = _best(agreements, range(n))
    tuned = replace(
        loaded,
        name=f"{loaded.name}_tuned",
        question=wordings[wording],
        meaning=f"{loaded.measure.meaning}, tuned to labels",
        origin="",
        wording_of=loaded.meant,
    )
    if examples == "labelled":
        tuned = _with_examples(tuned, materials, people, [0] * n, 1, n_examples)
    if path:
        _write(tuned, Path(path))
    rows = [(*candidate, fmean(values)) for candidate, values in agreements.items()]
    candidates = pd.DataFrame(rows, columns=["wording", "examples", "agreement"])
    before = fmean(agreements[_ORIGINAL, "none"])
    return Tuning(tuned, before, after / n, low, high, n, candidates)


def _held_out_agreement(
    materials: Sequence[Material], agreements: Mapping[_Candidate, Sequence[float]]
) -> float:
    """Return the sum of the agreements of all answers, where the candidate for a fold of questions is
    chosen by the other folds, so that no question chooses the candidate that it measures.

    Args:
        materials: the labelled answers.
        agreements: candidate -> its agreement with people on each answer, in [0, 1].
    """
    folds = [_part(material.query_id, _FOLDS) for material in materials]
    total = 0.0
    for fold in range(_FOLDS):
        inside = [i for i, other in enumerate(folds) if other == fold]
        outside = [i for i, other in enumerate(folds) if other != fold]
        if inside and outside:
            chosen = agreements[_best(agreements, outside)]
            total += sum(chosen[i] for i in inside)
    return total


def _best(agreements: Mapping[_Candidate, Sequence[float]], rows: Sequence[int]) -> _Candidate:
    """Return the candidate with the greatest agreement on the answers at `rows`, the first of equal
    ones.
    """
    means = {name: fmean(values[i] for i in rows) for name, values in agreements.items()}
    return max(means, key=lambda name: means[name])


def _write(criterion: Criterion, path: Path) -> None:
    """Write a criterion as a table of a TOML file."""
    lines = [f"[{criterion.name}]"]
    for name, value in criterion.declaration.items():
        if name != "name":
            lines.append(f"{name} = {toml_text(value)}")
    write_durably(path, "\n".join(lines) + "\n")


def _part(text: str, n: int) -> int:
    """Return the part of a text, from 0 to n - 1, the same on every machine."""
    return int(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), 16) % n


def _with_examples(
    criterion: Criterion,
    materials: Sequence[Material],
    people: Sequence[float],
    halves: Sequence[int],
    half: int,
    n: int,
) -> Criterion:
    """Return the criterion with up to `n` labelled answers of the other half as examples, one of each
    level in turn.

    `people` has the label of each material, `halves` its half (0 or 1).
    """
    level_of_value = {value: name for name, value in criterion.values.items()}
    by_level: dict[str, list[dict[str, str]]] = {}
    for material, value, its_half in zip(materials, people, halves, strict=True):
        if its_half == half or value not in level_of_value:
            continue
        level = level_of_value[value]
        example = {"question": material.question, "answer": material.answer}
        if "reference" in criterion.needs and material.reference:
            example["reference"] = material.reference
        example["verdict"] = level
        by_level.setdefault(level, []).append(example)
    rounds = zip_longest(*by_level.values())  # the first of each level, then the second, ...
    in_turn = [example for example in chain.from_iterable(rounds) if example is not None]
    return replace(criterion, examples=in_turn[:n])


def _agreement(
    materials: Sequence[Material],
    people: Sequence[float],
    criteria: Sequence[Criterion],
    model: LLM,
    asking: Mapping[str, Any],
) -> list[float]:
    """Return 1 - |judge's verdict - people's label| for each material; 0 without a verdict.

    Args:
        materials: the labelled answers.
        people: the label of each answer.
        criteria: the criterion by which each answer is judged; answers with one criterion are judged
            together.
        model: the judge.
        asking: options of `generate_many`.

    Raises:
        ModelError: a request failed, and this is not a dry run.
    """
    agreements = [0.0] * len(materials)
    # Criterion has eq=False: two objects are different keys, even if their fields are equal.
    for criterion in dict.fromkeys(criteria):
        rows = [i for i, other in enumerate(criteria) if other is criterion]
        judged = judged_materials([materials[i] for i in rows], criterion, model, **asking)
        failed = [judgement for judgement in judged if judgement.state == "judge_failed"]
        if failed and llms.active_dry_run() is None:
            raise ModelError(
                f"{len(failed)} of {len(judged)} requests failed, the first: "
                f"{failed[0].explanation}; what came back is stored, run it again to request the rest"
            )
        for i, judgement in zip(rows, judged, strict=True):
            if judgement.value is not None:
                agreements[i] = 1 - abs(judgement.value - people[i])
    return agreements
