"""What an evaluation would ask of language models, and what that costs, before anything is sent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

from ragbench.errors import DataWarning, JudgeWarning
from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.evaluating import CRITERIA
from ragbench.evaluation.perspectives import judgements_of
from ragbench.llms import Estimate, RehearsedLLM, price_of
from ragbench.systems import Pipeline, RecordedSystem, load_system
from ragbench.types import Dataset


def rehearse(
    dataset: Dataset,
    system: str | Path,
    judge: str = "",
    criteria: Sequence[str] = CRITERIA,
    *,
    attacks: bool = False,
) -> tuple[dict[str, Estimate], list[str]]:
    """Estimates of the requests for answers and for verdicts, and sentences on what cannot be foreseen.

    Nothing is sent. A pipeline is rehearsed as a whole; recorded answers are read; a service is not asked, so that only
    the number of its questions is known. `attacks` as in `answer_all`.
    """
    estimates: dict[str, Estimate] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JudgeWarning)
        warnings.simplefilter("ignore", DataWarning)  # stand-ins are no failures
        loaded = load_system(system, dataset, dry_run=True)
        writer: RehearsedLLM | None = None
        answered: Answered | None = None
        if isinstance(loaded, Pipeline):
            if loaded.llm != "extractive":
                writer = RehearsedLLM(loaded.llm if isinstance(loaded.llm, str) else loaded.llm.name)
            answered = answer_all(dataset, loaded.with_llm(writer or "extractive"), timed=0, attacks=attacks)
        elif isinstance(loaded, RecordedSystem):
            answered = answer_all(dataset, loaded)
        if writer is not None:
            estimates["answers"] = _estimate(writer)
        if answered is None:
            samples = f" and {len(dataset.safety_inputs)} safety inputs" if attacks and dataset.safety_inputs else ""
            notes = [
                f"{len(dataset.cases)} questions{samples} would be sent to {system}; what that costs is not known here"
            ]
            return estimates, notes + ([f"{judge} would judge its answers, one request each"] if judge else [])
        if judge:
            judging = RehearsedLLM(judge, stand_in=False)
            judgements_of(answered, judging, criteria)
            estimates["verdicts"] = _estimate(judging)
    return estimates, []


def _estimate(llm: RehearsedLLM) -> Estimate:
    requests = list(llm.missing.values())
    sizes = [
        math.ceil(sum(len((text or "").encode()) for text in (one.prompt, one.system, one.schema_text)) / 4)
        for one in requests
    ]
    price = price_of(llm.name)
    most = [one.max_tokens for one in requests]
    cost = None if price is None else math.fsum(price.cost(a, b) for a, b in zip(sizes, most, strict=True))
    return Estimate(len(llm.known), len(requests), sum(sizes), sum(most), cost)
