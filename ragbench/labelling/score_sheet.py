"""A label sheet for the calibration of a heuristic score: answers sampled evenly over the score, and read back.

The sheet is that of `label_sheet`; the labeller does not see the scores, which are in a file next to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragbench.errors import ConfigError, DataError
from ragbench.files import write_durably
from ragbench.labelling.items import make_item
from ragbench.labelling.sheet import label_sheet, read_sheet
from ragbench.metrics.score_calibration import MIN_LABELS, Calibration, calibrate_threshold, score_version
from ragbench.registry import measure_of
from ragbench.types import Answer, Case

_SCHEMA = 1
_YES = 0.5  # the smallest positive label, where a person gave a number instead of yes or no


def scores_file(sheet: str | Path) -> Path:
    """The file with the scores of a sheet: labels.scores.json next to labels.csv."""
    return Path(sheet).with_suffix(".scores.json")


def write_score_sheet(
    cases: Sequence[Case],
    answers: Sequence[Answer],
    scores: Mapping[str, float],
    contexts: Mapping[str, Sequence[str]],
    path: str | Path,
    *,
    measure: str = "claim_support",
    model: str = "",
    source: str = "",
    n: int = 60,
    annotator: str = "me",
    seed: int = 0,
) -> int:
    """Write a sheet of `n` answers to label, sampled over the whole range of a score; returns their number.

    A systematic sample of the answers in the order of their score: each has the same probability, and the whole range
    is covered. In the sheet they are in random order.

    Args:
        cases: the questions.
        answers: of one system, one per question.
        scores: query_id -> score of the answer; answers without one are not drawn.
        contexts: query_id -> the texts that the answer was made from.
        path: the sheet, ending in .csv; it must not exist.
        measure: the score. For a groundedness measure the question is whether the documents support the answer, else
            whether it agrees with the reference answer.
        model: the model that computed the scores, kept for the calibration.
        source: the system's name.
        n: number of answers.
        annotator: name of the labeller.
        seed: seed of the sample.

    Raises:
        ConfigError: the file exists, or does not end in .csv; `n` is below 30.
        DataError: fewer than 30 answers have a score.
    """
    file = Path(path)
    if file.suffix.lower() != ".csv" or file.exists():
        why = "exists already" if file.exists() else "does not end in .csv"
        raise ConfigError(f"{file} {why}; name a new sheet, such as labels.csv")
    if n < MIN_LABELS:
        raise ConfigError(f"n is {n}; a calibration needs {MIN_LABELS} labels or more, and 60 are better")
    criterion = "support" if measure_of(measure).perspective == "groundedness" else "correctness"
    case_of, answer_of = {case.query_id: case for case in cases}, {answer.query_id: answer for answer in answers}
    scored = sorted(
        (score, query_id)
        for query_id, score in scores.items()
        if query_id in case_of and query_id in answer_of and math.isfinite(score)
    )
    if len(scored) < MIN_LABELS:
        raise DataError(
            f"{len(scored)} of {len(cases)} answers have a {measure}; a calibration needs {MIN_LABELS} labels or more"
        )
    rng = np.random.default_rng(seed)
    count = min(n, len(scored))
    items, kept = [], {}
    for rank in np.floor((np.arange(count) + rng.random()) * len(scored) / count).astype(int):
        score, query_id = scored[rank]
        items.append(
            make_item(
                case_of[query_id], criterion, [answer_of[query_id].text], [(source, tuple(contexts.get(query_id, ())))]
            )
        )
        kept[items[-1].item_id] = {"score": score, "rank": int(rank) + 1}
    label_sheet([items[i] for i in rng.permutation(len(items))], file, annotator=annotator)
    about = {
        "ragbench_scores": _SCHEMA,
        "measure": measure,
        "model": model,
        "version": score_version(measure, model),
        "picked": "systematic sample by score",
        "seed": seed,
        "scored": len(scored),
        "items": kept,
    }
    write_durably(scores_file(file), json.dumps(about, indent=1) + "\n")
    return len(items)


def calibrate_sheet(path: str | Path) -> Calibration:
    """The calibration from a completed sheet; rows without a verdict are left out.

    Yes, or a number from 0.5, is positive; labels of several people are averaged.

    Raises:
        DataError: no such sheet, no file with its scores, or too few labels; see `calibrate_threshold`.
    """
    sheet = read_sheet(path)
    file = scores_file(path)
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        scores = {item: float(own["score"]) for item, own in about["items"].items()}
        measure, model, version = str(about["measure"]), str(about["model"]), str(about.get("version", ""))
    except FileNotFoundError as exc:
        raise DataError(
            f"{file.name} is not next to {Path(path).name}; it has the scores, and `ragbench label` wrote both: keep "
            "them together"
        ) from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(f"{file.name} is damaged ({exc!r}); make the sheet again with `ragbench label`") from exc
    labelled = sheet[sheet["value"].notna()]
    if foreign := sorted(set(labelled["item"]) - set(scores)):
        raise DataError(
            f"{Path(path).name} holds {foreign[0]!r}, of which {file.name} has no score; keep them together"
        )
    means = labelled.assign(value=labelled["value"].astype(float)).groupby("item", sort=True)["value"].mean()
    values = [scores[str(item)] for item in means.index]
    found = calibrate_threshold(values, means.to_numpy() >= _YES, measure=measure, model=model)
    return replace(found, version=version)  # of the scores in the sheet, which may be older
