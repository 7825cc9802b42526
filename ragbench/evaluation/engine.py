"""Everything that is asked for one configuration: the system's answers, their judgements, and ablations.

The notebook, `evaluate`, the command line and the dry run of a sweep all ask through `ask_all`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.folder import JOURNAL
from ragbench.evaluation.parameters import OF_PIPELINE, configuration
from ragbench.evaluation.perspectives import judgements_of, texts_of
from ragbench.judges import judge as judge_answers
from ragbench.judges import spread
from ragbench.llms import Settings, check_llm
from ragbench.systems import Pipeline
from ragbench.types import LLM, Answer, Chunk, Dataset, Judgement, System

CRITERIA = ("correctness", "faithfulness", "relevance")
"""What a judge is asked about each answer, unless other criteria are named."""


def system_of(parameters: Mapping[str, Any], dataset: Dataset, settings: Settings | None = None) -> str | Pipeline:
    """The system that the parameters of `evaluate.ipynb` describe: what `system` names, or else a `Pipeline`.

    A `system` that is a retriever's name is the pipeline with that retriever. Constructing the pipeline is indexing.

    >>> from ragbench.types import Document
    >>> data = Dataset("demo", "test", {"d": Document("d", "Cats sleep.")}, [], {})
    >>> system_of({"retriever": "bm25", "chunk_size": 128}, data)
    Pipeline('bm25, recursive 128, extractive', 1 chunk)
    >>> system_of({"system": "service.toml", "retriever": "bm25"}, data)
    'service.toml'

    Raises:
        ConfigError, DataError, ModelError: as `Pipeline`.
    """
    own = configuration(parameters)
    if own.get("system"):
        return str(own["system"])
    options = {name: own[name] for name in OF_PIPELINE if name in own}
    options["max_context_tokens"] = own.get("max_context_tokens") or None
    if settings is not None and own.get("llm", "extractive") != "extractive":
        options["llm"] = check_llm(own["llm"], settings)
    return Pipeline(dataset, **options)


def ask_all(
    dataset: Dataset,
    system: str | Path | System | Sequence[Answer],
    *,
    judge: str | LLM = "",
    criteria: str | Sequence[str] = CRITERIA,
    judge_again: int = 0,
    ablations: bool = False,
    attacks: bool = False,
    concurrency: int = 8,
    results_dir: str | Path = "",
    settings: Settings | None = None,
) -> Answered:
    """Ask a system every question of the dataset, and a judge about its answers.

    Args:
        dataset: the questions.
        system: as in `answer_all`.
        judge: the language model that judges; "" means none.
        criteria: what it judges, as in `ragbench.judge`, or their names with commas between.
        judge_again: this many answers, evenly chosen, are judged again with a request for each criterion.
        ablations: also answer from other contexts (see `answer_ablations`), and judge these answers' correctness. Only
            ragbench's own pipeline can; other systems are not asked.
        attacks, concurrency, settings: as in `answer_all`.
        results_dir: the folder of the result: a service's answers are kept there as they come, so that the same call
            continues after an interruption; "" keeps nothing.

    Returns:
        The answers, with `judgements`, `repeated`, `ablations` and `ablation_judgements`.
    """
    keep = Path(results_dir) / JOURNAL if str(results_dir) else ""
    answered = answer_all(dataset, system, attacks=attacks, concurrency=concurrency, keep=keep, settings=settings)
    pieces: Sequence[Chunk] = ()
    start = time.perf_counter()
    if ablations and isinstance(system, Pipeline):
        found = system.answer_ablations()
        pieces = found.chunks
        answered = _and(answered, "ablations", start, ablations={"actual": answered.answers, **found.answers})
    if not judge or not answered.has_answers or not answered.answers:
        return answered
    start = time.perf_counter()
    wanted = [word for word in criteria.replace(" ", "").split(",") if word] if isinstance(criteria, str) else criteria
    model = check_llm(judge, settings) if isinstance(judge, str) else judge
    judgements = judgements_of(answered, model, wanted)
    repeated = judge_answers(
        spread(answered.answers, judge_again), wanted, model, dataset=dataset, chunks=texts_of(answered),
        mode="per_criterion", allow_same_model=True,
    )  # fmt: skip
    verdicts: dict[str, Sequence[Judgement]] = {
        source: judge_answers(own, ["correctness"], model, dataset=dataset, chunks=pieces, allow_same_model=True)
        for source, own in answered.ablations.items()
    }
    return _and(answered, "judge", start, judgements=judgements, repeated=repeated, ablation_judgements=verdicts)


def _and(answered: Answered, stage: str, start: float, **fields: Any) -> Answered:
    return replace(answered, seconds={**answered.seconds, stage: time.perf_counter() - start}, **fields)
