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
from ragbench.hints.attributes import suggesting
from ragbench.judges.criterion import Criterion, load_criteria
from ragbench.judges.judge_requests import judged_materials
from ragbench.judges.material import Material
from ragbench.labelling.judge_agreement import LabelledAnswers, labelled_materials
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
    answers = labelled_materials(sheets, loaded)
    n = len(answers.materials)
    if n < MIN_LABELS:
        raise DataError(f"{n} answers are labelled by {loaded.name}; tuning needs {MIN_LABELS}")
    wordings = {_ORIGINAL: loaded.question}  # name -> question
    wordings |= {name: f"{loaded.question}\n{text}" for name, text in _WORDINGS.items()}
    wordings |= {f"wording {i}": text for i, text in enumerate(questions, 1)}
    n_requests = 2 * len(wordings) * n  # with and without examples
    if n_requests > max_requests:
        raise ConfigError(
            f"tuning takes {n_requests} requests (and repairs), and max_requests is {max_requests}; "
            "give fewer labels or wordings, or allow more"
        )
    model = llms.load_llm(llm)
    options = {"concurrency": concurrency, "timeout_s": timeout_s}

    # Each candidate judges all answers: each wording, with and without examples.
    # (wording, "labelled" or "none") -> the agreement of the judge with people on each answer
    agreements: dict[_Candidate, list[float]] = {}
    for wording, question in wordings.items():
        plain = replace(loaded, question=question)
        with_examples = _with_examples_of_other_half(plain, answers, n_examples)
        agreements[wording, "none"] = _agreement_of_answers(answers, [plain] * n, model, options)
        agreements[wording, "labelled"] = _agreement_of_answers(
            answers, with_examples, model, options
        )

    # The criterion that is returned: the candidate that agrees best on all answers.
    wording, examples = _best_candidate(agreements, range(n))
    tuned = _tuned_criterion(loaded, wordings[wording])
    if examples == "labelled":
        tuned = _with_examples(tuned, answers, range(n), n_examples)
    if path:
        _write_criterion(tuned, Path(path))

    # The agreement of this candidate on all answers would be too high, because it was chosen by it. So
    # `after` is measured on answers that had no part in the choice.
    held_out_sum = _held_out_agreement(answers.materials, agreements)
    low, high = wilson_interval(held_out_sum, n)
    rows = [(*candidate, fmean(values)) for candidate, values in agreements.items()]
    return Tuning(
        criterion=tuned,
        before=fmean(agreements[_ORIGINAL, "none"]),
        after=held_out_sum / n,
        ci_low=low,
        ci_high=high,
        n_labels=n,
        candidates=pd.DataFrame(rows, columns=["wording", "examples", "agreement"]),
    )


def _tuned_criterion(original: Criterion, question: str) -> Criterion:
    """Return the criterion with another wording of its question, named "correctness_tuned" for
    "correctness".
    """
    return replace(
        original,
        name=f"{original.name}_tuned",
        question=question,
        meaning=f"{original.measure.meaning}, tuned to labels",
        origin="",  # the source of the original question
        wording_of=original.meant,  # if the original is a wording itself: of the same criterion
    )


def _held_out_agreement(
    materials: Sequence[Material], agreements: Mapping[_Candidate, Sequence[float]]
) -> float:
    """Return the sum over all answers of the agreement of the best candidate with people.

    A candidate is a wording of the criterion, with or without examples. The agreement of a
    candidate that was chosen on the same answers would be too high. So the questions are split into
    five folds. For each fold, the candidate is chosen on the other four, and its agreement on this
    fold is added. The choice may differ between folds.

    Args:
        materials: the labelled answers.
        agreements: candidate -> its agreement with people on each answer, in [0, 1], in the order
            of `materials`.
    """
    # the fold of each answer, from 0 to 4; all answers to a question are in one
    folds = [_hash_part(material.query_id, _FOLDS) for material in materials]
    total = 0.0
    for fold in range(_FOLDS):
        inside = [i for i, other in enumerate(folds) if other == fold]
        outside = [i for i, other in enumerate(folds) if other != fold]
        if inside and outside:
            candidate = _best_candidate(agreements, outside)
            total += sum(agreements[candidate][i] for i in inside)
    return total


def _best_candidate(
    agreements: Mapping[_Candidate, Sequence[float]], rows: Sequence[int]
) -> _Candidate:
    """Return the candidate with the greatest agreement on the answers at `rows`, the first of equal
    ones.
    """
    means = {name: fmean(values[i] for i in rows) for name, values in agreements.items()}
    return max(means, key=lambda name: means[name])


def _write_criterion(criterion: Criterion, path: Path) -> None:
    """Write a criterion as a table of a TOML file."""
    lines = [f"[{criterion.name}]"]
    for name, value in criterion.declaration.items():
        if name != "name":
            lines.append(f"{name} = {toml_text(value)}")
    write_durably(path, "\n".join(lines) + "\n")


def _hash_part(text: str, n: int) -> int:
    """Return one of n parts (0 to n - 1) for a text by its hash, the same on every machine."""
    return int(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), 16) % n


def _with_examples_of_other_half(
    criterion: Criterion, answers: LabelledAnswers, n: int
) -> list[Criterion]:
    """Return for each labelled answer the criterion with examples by which it is judged.

    The examples are up to `n` labelled answers. The questions are split into two halves, and the
    examples are of the other half, so that no answer is judged with its own label in sight.
    """
    # the half, 0 or 1, of each answer's question
    halves = [_hash_part(f"half {material.query_id}", 2) for material in answers.materials]
    criterion_for_half = []
    for half in (0, 1):
        others = [i for i, half_of_answer in enumerate(halves) if half_of_answer != half]
        criterion_for_half.append(_with_examples(criterion, answers, others, n))
    return [criterion_for_half[half] for half in halves]


def _with_examples(
    criterion: Criterion, answers: LabelledAnswers, rows: Sequence[int], n: int
) -> Criterion:
    """Return the criterion with up to `n` labelled answers as examples.

    They are taken from the answers at the positions `rows` whose label is the value of a level: one of
    each level, then a second of each, and so on.
    """
    level_of_value = {value: level for level, value in criterion.values.items()}
    examples_by_level: dict[str, list[dict[str, str]]] = {}
    for i in rows:
        material = answers.materials[i]
        level = level_of_value.get(answers.mean_labels[i])
        if level is None:
            continue
        example = {"question": material.question, "answer": material.answer}
        if "reference" in criterion.needs and material.reference:
            example["reference"] = material.reference
        example["verdict"] = level
        examples_by_level.setdefault(level, []).append(example)
    # a round has one example of each level; None where a level has no more
    rounds = zip_longest(*examples_by_level.values())
    # round after round
    in_turn = [example for example in chain.from_iterable(rounds) if example is not None]
    return replace(criterion, examples=in_turn[:n])


def _agreement_of_answers(
    answers: LabelledAnswers,
    criteria: Sequence[Criterion],
    model: LLM,
    request_options: Mapping[str, Any],
) -> list[float]:
    """Have each labelled answer judged, and return 1 - |verdict - label| for each; 0 without a verdict.

    Args:
        answers: the labelled answers.
        criteria: the criterion by which each answer is judged; answers with one criterion are judged
            together.
        model: the judge.
        request_options: options of `generate_many`.

    Raises:
        ModelError: a request failed, and this is not a dry run.
    """
    agreements = [0.0] * len(answers.materials)
    # Criterion has eq=False: two objects are different keys, even if their fields are equal.
    for criterion in dict.fromkeys(criteria):
        rows = [i for i, other in enumerate(criteria) if other is criterion]
        materials = [answers.materials[i] for i in rows]
        judgements = judged_materials(materials, criterion, model, **request_options)
        failed = [judgement for judgement in judgements if judgement.state == "judge_failed"]
        if failed and llms.active_dry_run() is None:
            raise ModelError(
                f"{len(failed)} of {len(judgements)} requests failed, the first: "
                f"{failed[0].explanation}; what came back is stored, run it again to request the rest"
            )
        for i, judgement in zip(rows, judgements, strict=True):
            if judgement.value is not None:
                agreements[i] = 1 - abs(judgement.value - answers.mean_labels[i])
    return agreements
