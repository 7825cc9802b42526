"""What report.html shows of one question beyond its record: a permalink, what filters find it by,
its contexts.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.evaluation import CAUSES, Result
from ragbench.evaluation.records import CaseResult, MeasureResult
from ragbench.metrics.safety.leakage import masked, masked_id
from ragbench.report.source_documents import data_of, locate
from ragbench.types import Answer, Case, Span

_CONTEXTS = 10  # of a question that are shown
_LONG = 600  # characters without evidence; a longer text is abridged

Part = tuple[str, bool]
"""Characters of a context, and whether they are gold evidence."""


@dataclass(frozen=True, slots=True)
class Details:
    """`weak` has the perspectives in which a question is below average, `contexts` their ids and
    texts, `lost` the gold evidence that is in none of them."""

    anchor: str
    cause: str
    why: str
    weak: tuple[str, ...]
    contexts: Sequence[tuple[str, list[Part]]]
    more: int
    lost: list[str]


def anchor(query_id: str) -> str:
    """Return the fragment of a question's permalink: letters, digits, dots, - and _ only, different
    for different ids.

    >>> anchor("q7"), anchor("What's <new>?")
    ('q-q7', 'q-What-s-new--7cd0dd21')
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", query_id)
    same = safe == query_id and len(safe) <= 60
    return (
        f"q-{safe}"
        if same
        else f"q-{safe[:50]}-{hashlib.sha256(query_id.encode()).hexdigest()[:8]}"
    )


def leading_measures(
    rows: dict[str, list[MeasureResult]], cases: Sequence[CaseResult]
) -> dict[str, MeasureResult]:
    """Return perspective -> the first of its measures that not all questions have alike."""
    leading: dict[str, MeasureResult] = {}
    for perspective, measures in rows.items():
        for row in measures if perspective != "overall" else ():
            if len({case.scores.get(row.measure) for case in cases} - {None}) > 1:
                leading.setdefault(perspective, row)
    return leading


def question_details(
    result: Result, shown: Sequence[CaseResult], leading: dict[str, MeasureResult]
) -> tuple[dict[str, Details], list[str]]:
    """Return query_id -> details of every question, and notes for the reader about missing texts. The
    questions in `shown` have the texts of their contexts, the others only the ids.
    """
    texts, notes = _texts(result, shown) if shown else ({}, [])
    details = {}
    for case in result.cases:
        cause = result.cause_of.get(case.query_id, {})
        unread: list[tuple[str, list[Part]]] = [(context_id, []) for context_id in case.retrieved]
        contexts, lost = texts.get(case.query_id, (unread, []))
        details[case.query_id] = Details(
            anchor(case.query_id),
            CAUSES.get(cause.get("cause", ""), ""),
            masked(cause.get("evidence", "")),
            tuple(name for name, row in leading.items() if _below(case.scores[row.measure], row)),
            contexts[:_CONTEXTS],
            max(0, len(contexts) - _CONTEXTS),
            lost,
        )
    return details, notes


def _below(value: float | None, row: MeasureResult) -> bool:
    if value is None or row.value is None:
        return False
    return value > row.value if row.lower_is_better else value < row.value


_Shown = tuple[list[tuple[str, list[Part]]], list[str]]


def _texts(result: Result, shown: Sequence[CaseResult]) -> tuple[dict[str, _Shown], list[str]]:
    data, notes = data_of(result, None)
    full = {doc_id: document.full_text for doc_id, document in data.corpus.items()}
    cases = data.case_of
    return {
        case.query_id: _of_question(cases[case.query_id], result.answer_of[case.query_id], full)
        for case in shown
    }, notes


def _of_question(case: Case, answer: Answer, full: dict[str, str]) -> _Shown:
    """Return the contexts of an answer, with the evidence in them marked, and the texts of the evidence
    spans of which no context has a character. `full` is document id -> text.
    """
    passages = answer.passage_of
    contexts: list[tuple[str, list[Part]]] = []
    lost = [span for span in case.evidence if span.doc_id in full]
    for context_id in answer.contexts or passages:
        passage = passages.get(context_id)
        if located := locate(context_id, passage, full):
            doc_id, start, end = located
            evidence = [
                span
                for span in sorted(case.evidence, key=lambda span: span.start)
                if span.doc_id == doc_id and span.start < end and start < span.end
            ]
            lost = [span for span in lost if span not in evidence]
            parts = _marked(full[doc_id], start, end, evidence)
        else:
            parts = [(masked(passage.text) if passage else "", False)]
        contexts.append((masked_id(context_id), _abridged(parts)))
    return contexts, [masked(full[span.doc_id][span.start : span.end]) for span in lost]


def _marked(text: str, start: int, end: int, spans: Sequence[Span]) -> list[Part]:
    """Return the characters from start to end, cut where evidence begins and ends; without marks
    where a secret is masked.

    >>> _marked("abcdef", 0, 5, [Span("d", 1, 3), Span("d", 2, 4)])
    [('a', False), ('bc', True), ('d', True), ('e', False)]
    """
    if (safe := masked(text[start:end])) != text[start:end]:
        return [(safe, False)]
    parts, at = [], start
    for span in spans:
        parts += [
            (text[at : span.start], False),
            (text[max(at, span.start) : min(span.end, end)], True),
        ]
        at = max(at, span.end)
    return [part for part in [*parts, (text[at:end], False)] if part[0]]


def _abridged(parts: Sequence[Part]) -> list[Part]:
    """Abridge long stretches without evidence to their beginning and end."""
    half = _LONG // 2
    return [
        (
            f"{text[:half]} […] {text[-half:]}" if len(text) > _LONG + 100 and not gold else text,
            gold,
        )
        for text, gold in parts
        if text
    ]
