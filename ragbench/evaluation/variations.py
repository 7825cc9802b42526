"""Asks a system again after each intervention; `testsets/interventions` has the changes,
`metrics/robustness` the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.errors import ConfigError, warn_user
from ragbench.evaluation.output import SystemOutput, Variation
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.generation import context_chunks
from ragbench.systems import Pipeline, RecordedSystem, ask
from ragbench.testsets.interventions import (
    INTERVENTIONS,
    OF_QUESTIONS,
    Contexts,
    contexts_of,
    intervene,
)
from ragbench.types import Answer, Case, Dataset, System


def check_interventions(names: Sequence[str], system: System) -> None:
    """Refuse interventions that a system cannot be asked with, before it is asked anything.

    Raises:
        ConfigError: the system is a file of recorded answers; or it is not a `Pipeline`, and an
            intervention changes contexts.
    """
    if isinstance(system, Pipeline) or not names:
        return
    if isinstance(system, RecordedSystem):
        raise ConfigError(
            f"interventions {', '.join(names)} ask a system again, but these answers are recorded; leave "
            "the interventions out, or name the system"
        )
    for name in names:
        head = name.partition(":")[0]
        if head in INTERVENTIONS and head not in OF_QUESTIONS:
            raise ConfigError(
                f"intervention {name!r} changes contexts, which only ragbench's own pipeline takes; "
                f"for {system.name!r} name {' or '.join(OF_QUESTIONS)}, or package.module:attribute"
            )


def answer_variations(
    output: SystemOutput,
    system: System,
    spec: EvaluationSpec,
) -> dict[str, Variation]:
    """Ask a system again after each intervention of a spec; return name -> its new answers.

    Questions that an intervention does not apply to are left out: unanswerable ones (they have no contexts
    here, nor by `contexts_of`), and those without what it changes, such as a number to swap. The same
    seed changes the same questions in the same way.

    Only the chunks of a `Pipeline` are known. Any other system is asked the changed questions, also
    those of a user's function, which gets no chunks; `check_interventions` refuses the built-in
    interventions on contexts for it beforehand.
    """
    dataset = output.dataset
    # query_id -> what an intervention may use: the chunks of the question, and the other questions
    if isinstance(system, Pipeline):
        depth = max(1, output.depth)  # `context_chunks` refuses 0
        ranked = context_chunks(dataset, output.ranking, output.chunks, depth)
        contexts_by_query = contexts_of(dataset, ranked, output.chunks, system.k)
    else:  # another system is asked changed questions only: no chunks are needed
        without_chunks = Contexts(others=dataset.cases)
        contexts_by_query = {}
        for case in dataset.cases:
            if case.answerable:
                contexts_by_query[case.query_id] = without_chunks
    variations = {}
    for name in spec.interventions:
        changed = intervene(name, dataset, contexts_by_query, seed=spec.seed)
        cases = []
        contexts = {}
        for query_id, (case, chunks) in changed.items():
            cases.append(case)
            contexts[query_id] = chunks
        kind = name.partition(":")[0]  # "typos" of "typos:0.05"
        changes_contexts = kind not in OF_QUESTIONS
        if isinstance(system, Pipeline) and changes_contexts:
            # no search is needed: the pipeline answers from the changed contexts
            answers = system.answer_from(
                cases, contexts, concurrency=spec.concurrency, timeout_s=spec.timeout_s
            )
            all_chunks = [chunk for chunks in contexts.values() for chunk in chunks]
            variations[name] = Variation(cases, answers, all_chunks)
        else:
            answers = _ask_changed(system, dataset, cases, name, spec)
            variations[name] = Variation(cases, answers, [])
    unused = [name for name, variation in variations.items() if not variation.cases]
    if unused:
        warn_user(
            f"{', '.join(unused)}: applies to no question; a swap, for example, needs gold facts that "
            "are numbers or names"
        )
    return variations


def _ask_changed(
    system: System, dataset: Dataset, cases: Sequence[Case], name: str, spec: EvaluationSpec
) -> list[Answer]:
    """Ask a system changed questions and return the answers, aligned with `cases`."""
    if isinstance(system, Pipeline):
        system = system.with_llm(system.llm)  # a copy, so that its run of the dataset is kept
    # new ids, since answers to the unchanged questions may be kept by id
    renamed = [replace(case, query_id=f"{case.query_id}~{name}") for case in cases]
    questions = replace(dataset, cases=renamed, qrels={})
    answers = ask(
        system, questions, label=name, concurrency=spec.concurrency, timeout_s=spec.timeout_s
    )
    return [
        replace(answer, query_id=case.query_id) for case, answer in zip(cases, answers, strict=True)
    ]
