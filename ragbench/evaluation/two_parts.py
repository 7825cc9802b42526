"""Retrieval and generation of a system judged separately: which of the two failed a question?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.metrics.answers import gold_fact_coverage
from ragbench.metrics.groundedness import claim_support
from ragbench.metrics.groundedness.checks import STRICT
from ragbench.metrics.retrieval import ranking
from ragbench.types import Answer, Case, Dataset, Judgement, Run

VERDICTS = ("none", "retrieval failed", "generation failed", "both")
"""What has failed; "undecided" where one of the two could not be tested."""

_TESTED = 5  # relevant documents that an answer is compared with; all 86 of a question would take minutes


def two_part_table(
    dataset: Dataset,
    run: Run,
    answers: Sequence[Answer],
    judgements: Sequence[Judgement] = (),
    *,
    k: int = 10,
    min_grade: int = 1,
    share: float = 0.8,
    support_threshold: float = STRICT,
) -> pd.DataFrame:
    """For each question whether a search and an answer, of one system or of two, have failed.

    Retrieval has failed where the recall of the relevant documents among the first `k` is below `share` of its ceiling
    min(k, relevant) / relevant: with 21 relevant documents and k = 10 no system exceeds 0.476.

    Generation has failed where no answer came, where the judge finds that it differs from the reference, or, without
    such a verdict, where less than half of the gold facts are stated, or, without those, where the relevant documents
    (the 5 that share most words with it) support it by less than `support_threshold` (`claim_support` of
    `ragbench.metrics.groundedness`): free of charge; it measures support, not truth.

    Args:
        run: document-level, query_id -> doc_id -> score, of the search; at least `k` documents deep where the search
            can, which may be deeper than what an answer was made from (`ragbench.evaluation.answer_all` gives both).
        answers: of the answering system.
        judgements: with the criterion "correctness", if there is a judge.
        min_grade: the grade from which a document is relevant.
        share: of the ceiling, in (0, 1].
        support_threshold: in [0, 1]. The default, 0.5, is uncalibrated: where supported answers begin differs by the
            kind of text. `metrics.calibrate_threshold` finds yours: `Calibration.load("calibration.json").threshold`.

    Returns:
        query_id, question, relevant (their number), recall, ceiling, retrieval ("passed", "failed", "undecided"),
        tested_by, value, generation (the same words), verdict (of `VERDICTS`, or "undecided").

    Raises:
        ConfigError: a setting out of range.
    """
    if k < 1 or not 0 < share <= 1:
        raise ConfigError(f"k is {k} and share {share}; expected k from 1 and a share above 0 and up to 1")
    if not 0 <= support_threshold <= 1:
        raise ConfigError(f"support_threshold is {support_threshold!r}; expected a number in [0, 1], such as 0.5")
    answer_of = {answer.query_id: answer for answer in answers}
    judged = {one.query_id: one.value for one in judgements if one.criterion == "correctness"}
    rows = []
    for case in dataset.cases:
        grades = dataset.qrels.get(case.query_id, {})
        relevant = {doc_id for doc_id, grade in grades.items() if grade >= min_grade}
        ceiling = min(k, len(relevant)) / len(relevant) if relevant else None
        found = ranking(run.get(case.query_id, {}))[:k]
        recall = len(relevant & set(found)) / len(relevant) if relevant else None
        retrieval = None if recall is None or ceiling is None else recall >= share * ceiling - 1e-9
        texts = [dataset.corpus[doc_id].full_text for doc_id in sorted(relevant) if doc_id in dataset.corpus]
        answer = answer_of.get(case.query_id)
        tested_by, value, generation = _generation(case, answer, judged, texts, support_threshold)
        rows.append(
            (
                case.query_id, case.text, len(relevant), recall, ceiling, _word(retrieval), tested_by, value,
                _word(generation), _verdict(retrieval, generation),
            )
        )  # fmt: skip
    columns = [
        "query_id", "question", "relevant", "recall", "ceiling", "retrieval", "tested_by", "value", "generation",
        "verdict",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns).astype({"recall": "Float64", "ceiling": "Float64", "value": "Float64"})


def _generation(
    case: Case, answer: Answer | None, judged: Mapping[str, float | None], texts: Sequence[str], threshold: float
) -> tuple[str, float | None, bool | None]:
    """What tested the answer, its value, and whether it passed."""
    if answer is None or answer.failed:
        return "request", None, False
    abstained = answer.abstained or not answer.text.strip()
    if abstained or not case.answerable:
        return "abstention", None, abstained != case.answerable
    if (value := judged.get(case.query_id)) is not None:
        return "judge", value, value >= 0.5
    if case.gold_facts:
        value = gold_fact_coverage(answer.text, case.gold_facts)
        return "gold facts", value, value >= 0.5
    if not texts:
        return "nothing", None, None
    words = _words(answer.text)
    nearest = sorted(texts, key=lambda text: -len(words & _words(text)))[:_TESTED]
    value = claim_support(answer.text, nearest)
    return "relevant documents", value, value >= threshold


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.casefold()))


def _word(passed: bool | None) -> str:
    return "undecided" if passed is None else "passed" if passed else "failed"


def _verdict(retrieval: bool | None, generation: bool | None) -> str:
    if retrieval is None or generation is None:
        return "undecided"
    return VERDICTS[(not retrieval) + 2 * (not generation)]
