"""Scores of context ablations: the same questions answered from other contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.embedders import load_embedder
from ragbench.scoring.answers import score_answers
from ragbench.scoring.judgements import score_judgements
from ragbench.types import Answer, Dataset, Embedder, Judgement

if TYPE_CHECKING:
    import pandas as pd


def score_ablations(
    dataset: Dataset,
    ablations: Mapping[str, Sequence[Answer]],
    judgements: Mapping[str, Sequence[Judgement]] | None = None,
    *,
    embedder: str | Embedder = "minilm",
) -> pd.DataFrame:
    """Tidy scores of each ablation, named "<ablation>_<measure>": query_id, measure, value.

    The measures are those of `score_answers` and, of `judgements` (name -> judgements), those of `score_judgements`.
    Unlike there, an abstention on an answerable question is 0, so that all ablations are compared on the same
    questions. Unscored (NaN) are failed requests, unreadable verdicts, questions without the label, and those that were
    left out of an ablation.

    Args:
        ablations: name -> its answers; `ragbench.generation.answer_ablations` gives "oracle", "best_chunks" and
            "empty", and the answers of the configuration itself are to be added as "actual".

    >>> from ragbench.types import Case
    >>> data = Dataset("demo", "test", {}, [Case("q", "When?", gold_facts=(("1889",),))], {})
    >>> ablations = {"actual": [Answer("q", "Not found.", outcome="no_results")], "oracle": [Answer("q", "In 1889.")]}
    >>> scores = score_ablations(data, ablations)
    >>> scores[scores["measure"].str.endswith("gold_fact_coverage")][["measure", "value"]].values.tolist()
    [['actual_gold_fact_coverage', 0.0], ['oracle_gold_fact_coverage', 1.0]]
    """
    import pandas as pd

    needed = any(case.reference_answer for case in dataset.cases)
    model = load_embedder(embedder) if needed else embedder
    labelled = {
        "semantic_similarity": {case.query_id for case in dataset.cases if case.reference_answer},
        "token_f1": {case.query_id for case in dataset.cases if case.reference_answer},
        "gold_fact_coverage": {case.query_id for case in dataset.cases if case.gold_facts},
    }
    parts = []
    for name, answers in ablations.items():
        abstained = {answer.query_id for answer in answers if answer.abstained}
        abstained &= {case.query_id for case in dataset.cases if case.answerable}
        free = score_answers(dataset, answers, embedder=model)
        judged = score_judgements((judgements or {}).get(name, ()))
        for part in (free, judged):
            zero = part["query_id"].isin(abstained) & part["value"].isna()
            known = [q in labelled.get(m, abstained) for q, m in zip(part["query_id"], part["measure"], strict=True)]
            part = part.assign(value=part["value"].mask(zero & pd.Series(known, index=part.index, dtype=bool), 0.0))
            parts.append(part.assign(measure=f"{name}_" + part["measure"]))
    if not parts:
        return pd.DataFrame(columns=["query_id", "measure", "value"]).astype({"value": float})
    return pd.concat([part for part in parts if len(part)], ignore_index=True)
