"""Robustness: did the answers after an intervention do what they had to?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from ragbench.generation import INTERVENTIONS
from ragbench.metrics.answers import score_answers, score_judgements
from ragbench.registry import ABLATIONS
from ragbench.types import Answer, Case, Dataset, Judgement

_DECIDING = ("llm_correctness", "gold_fact_coverage", "token_f1")


def score_interventions(
    dataset: Dataset,
    answers: Sequence[Answer],
    variations: Mapping[str, tuple[Sequence[Case], Sequence[Answer]]],
    judgements: Mapping[str, Sequence[Judgement]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Score the answers after interventions: query_id, measure, value.

    "robust:<name>" is 1 where the answer met the labels of the changed question, else 0: it abstained
    where it had to ("no_results"; "uncertain" allows it), held no forbidden claim, and was correct by
    the changed gold facts; with the question's own labels, where the untouched answer was correct, it
    is correct as well. Where "the same answer" is expected, one that becomes correct is 0 too. Correct: the
    first of llm_correctness, gold_fact_coverage and token_f1 that is known is at least 0.5. Unscored
    (NaN) are failed requests and questions that cannot show it.

    "<name>_<measure>", for the untouched answers ("actual") and for those after "gold-only",
    "best-chunks" and "empty", are the measures of `score_answers` and `score_judgements` with the
    question's own labels; an abstention on an answerable question is 0 there, so that all are
    compared on the same questions.

    Args:
        answers: the untouched ones. variations: name -> changed cases and their answers, one each.
        judgements: name -> judgements of these answers; "actual" has those of the untouched ones.

    >>> from ragbench.types import Case
    >>> data = Dataset("demo", "test", {}, [Case("q", "When?", gold_facts=(("1889",),))], {})
    >>> changed = Case("q", "When?", gold_facts=(("1902",),))
    >>> swapped = {"swap-number": ([changed], [Answer("q", "In 1889.")])}
    >>> score_interventions(data, [Answer("q", "In 1889.")], swapped).tail(1).values.tolist()
    [['q', 'robust:swap-number', 0.0]]
    """
    case_of = {case.query_id: case for case in dataset.cases}
    before = _correct(dataset, answers, judgements.get("actual", ()))
    parts = [pd.DataFrame(columns=["query_id", "measure", "value"]).astype({"value": float})]
    if any(name in ABLATIONS for name in variations):
        parts.append(_prefixed("actual", dataset, answers, judgements.get("actual", ())))
    for name, (cases, varied) in variations.items():
        if name in ABLATIONS:
            parts.append(_prefixed(name, dataset, varied, judgements.get(name, ())))
        changed = replace(dataset, cases=cases, qrels={})
        after = _correct(changed, varied, judgements.get(name, ()))
        is_same = INTERVENTIONS.get(name.partition(":")[0], ("", ""))[1] == "the same answer"
        values = {
            case.query_id: _met(
                case, case_of[case.query_id], answer, before, after, is_same=is_same
            )
            for case, answer in zip(cases, varied, strict=True)
        }
        rows = pd.Series(values, dtype=float).rename("value").rename_axis("query_id").reset_index()
        parts.append(rows.assign(measure=f"robust:{name}")[["query_id", "measure", "value"]])
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _met(
    case: Case,
    original: Case,
    answer: Answer,
    before: Mapping[str, bool],
    after: Mapping[str, bool],
    *,
    is_same: bool,
) -> float:
    """Return 1.0 if an answer meets the labels of a changed question, 0.0 if not, NaN if that is open."""
    if answer.failed:
        return math.nan
    if case.expected_outcome == "no_results":
        return float(answer.abstained)
    if any(claim.casefold() in answer.text.casefold() for claim in case.forbidden_claims):
        return 0.0
    if case.expected_outcome == "uncertain" and answer.abstained:
        return 1.0
    if not case.gold_facts and not case.reference_answer and case.forbidden_claims:
        return 1.0
    correct, was = after.get(case.query_id), before.get(case.query_id, False)
    if correct is None:
        return math.nan
    if case.gold_facts != original.gold_facts:
        return math.nan if answer.abstained and not was else float(correct)
    return float(correct == was) if was or (correct and is_same) else math.nan


def _correct(
    dataset: Dataset, answers: Sequence[Answer], judgements: Sequence[Judgement]
) -> dict[str, bool]:
    """Return query_id -> True where the answer is correct, as far as that is known."""
    frame = _prefixed("", dataset, answers, judgements, "wordllama").dropna()
    ranks = {f"_{name}": rank for rank, name in enumerate(_DECIDING)}
    frame = frame.assign(rank=frame["measure"].map(ranks)).dropna().sort_values("rank")
    first = frame.drop_duplicates("query_id")
    return dict(zip(first["query_id"], first["value"] >= 0.5, strict=True))


def _prefixed(
    name: str,
    dataset: Dataset,
    answers: Sequence[Answer],
    judgements: Sequence[Judgement],
    embedder: str = "minilm",
) -> pd.DataFrame:
    """Return the measures of answers as "<name>_<measure>", an abstention on an answerable question 0."""
    with_reference = {case.query_id for case in dataset.cases if case.reference_answer}
    labelled = {"semantic_similarity": with_reference, "token_f1": with_reference}
    labelled["gold_fact_coverage"] = {case.query_id for case in dataset.cases if case.gold_facts}
    answerable = {case.query_id for case in dataset.cases if case.answerable}
    abstained = {answer.query_id for answer in answers if answer.abstained} & answerable
    parts = [score_answers(dataset, answers, embedder=embedder), score_judgements(judgements)]
    frame = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    pairs = zip(frame["query_id"], frame["measure"], strict=True)
    zero = np.array(
        [q in abstained and q in labelled.get(m, abstained) for q, m in pairs], dtype=bool
    )
    value = frame["value"].mask(zero & frame["value"].isna().to_numpy(), 0.0)
    return frame.assign(measure=f"{name}_" + frame["measure"], value=value)
