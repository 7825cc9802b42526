"""What is needed to see why a case failed: one record per failed case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ragbench.evaluation.answering import Answered
from ragbench.evaluation.masking import masked
from ragbench.evaluation.perspectives import claims_of
from ragbench.evaluation.records import Report
from ragbench.types import Answer, Case

_DEEP = 20  # retrieved passages that a trace shows


def failure_traces(report: Report, answered: Answered) -> list[dict[str, Any]]:
    """For each case that did not pass: the question with its labels, what was retrieved with scores and texts, the
    prompt where a language model was asked, the answer, its claims with their verdicts, the scores, the reasons.

    Plain data in the order of the cases, without NaN; secrets are masked in every text.
    """
    failed = {case.query_id: case for case in report.cases if case.passed is False}
    if not failed:
        return []
    given = {answer.query_id: answer for answer in answered.answers}
    claims: dict[str, list[dict[str, object]]] = {}
    if any(one.name == "groundedness" and one.measured for one in report.perspectives):
        claims = claims_of(answered, list(failed), report.settings["support_model"])
    traces = []
    for case in answered.dataset.cases:
        if (result := failed.get(case.query_id)) is None:
            continue
        answer = given.get(case.query_id) or Answer(case.query_id, "", outcome="failed", error="no answer")
        trace = {
            "query_id": case.query_id,
            "query": case.text,
            "category": case.category,
            "reasons": list(result.reasons),
            "labels": _labels(case, answered),
            "retrieved": _retrieved(answer, answered),
            "context": list(answer.contexts),
            "prompt": answered.prompts.get(case.query_id),
            "answer": answer.text,
            "outcome": answer.outcome,
            "error": answer.error,
            "citations": list(answer.citations),
            "flags": list(answer.flags),
            "latency_ms": dict(answer.latency_ms),
            "claims": [_masked_claim(claim) for claim in claims.get(case.query_id, [])],
            "scores": dict(result.scores),
        }
        traces.append({name: _plain(value) for name, value in trace.items()})
    return traces


def _masked_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The claim without the fabricated numbers that are masked in its text, such as card or phone numbers."""
    left = masked(str(claim["claim"]))
    return {**claim, "fabricated_numbers": [one for one in claim["fabricated_numbers"] if str(one) in left]}


def _labels(case: Case, answered: Answered) -> dict[str, Any]:
    own = {name: value for name, value in asdict(case).items() if value not in ("", None, (), {})}
    own = {name: value for name, value in own.items() if name not in ("query_id", "text", "category", "metadata")}
    return {**own, "relevant_documents": dict(answered.dataset.qrels.get(case.query_id, {}))}


def _retrieved(answer: Answer, answered: Answered) -> list[dict[str, Any]]:
    texts = {chunk.chunk_id: (chunk.doc_id, chunk.text) for chunk in answered.chunks}
    texts |= {passage.passage_id: (passage.doc_id, passage.text) for passage in answer.passages}
    scores: Mapping[str, float] = answered.ranking.get(answer.query_id, {})
    own = {passage.passage_id: passage.score for passage in answer.passages if passage.score is not None}
    ranked = sorted(scores, key=lambda one: -scores[one])[:_DEEP]
    return [
        {
            "rank": rank,
            "id": one,
            "doc_id": texts.get(one, ("", ""))[0],
            "score": own.get(one, scores[one]),
            "in_context": one in answer.contexts,
            "text": texts.get(one, ("", None))[1],
        }
        for rank, one in enumerate(ranked, 1)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return masked(str(value))
