"""What report.html shows of one question beyond its record: a permalink, what filters find it by,
its contexts with the evidence marked, and how many and how long.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    if safe == query_id and len(safe) <= 60:
        return f"q-{safe}"
    digest = hashlib.sha256(query_id.encode()).hexdigest()
    return f"q-{safe[:50]}-{digest[:8]}"


def leading_measures(
    rows: dict[str, list[MeasureResult]], cases: Sequence[CaseResult]
) -> dict[str, MeasureResult]:
    """Return perspective -> its first measure on which the questions have different values.

    Perspectives without such a measure, and "overall", are left out.

    Args:
        rows: perspective -> its measures.
    """
    leading = {}
    for perspective, measures in rows.items():
        if perspective == "overall":
            continue
        for row in measures:
            values = {case.scores.get(row.measure) for case in cases} - {None}
            if len(values) > 1:
                leading[perspective] = row
                break
    return leading


def question_details(
    result: Result, shown: Sequence[CaseResult], leading: dict[str, MeasureResult]
) -> tuple[dict[str, Details], list[str]]:
    """Return query_id -> details of every question, and notes for the reader about missing texts.

    Args:
        shown: the questions whose contexts are shown with their texts; the others have only the ids.
        leading: perspective -> the measure that represents it. A question is weak in a perspective
            if its value of this measure is worse than the mean.
    """
    retrieved_of, notes = _retrieved_texts(result, shown) if shown else ({}, [])
    details = {}
    for case in result.cases:
        diagnosis = result.cause_of.get(case.query_id, {})
        retrieved = retrieved_of.get(case.query_id)
        if retrieved is None:
            ids_alone: list[tuple[str, list[Part]]] = []
            for context_id in case.retrieved:
                ids_alone.append((context_id, []))
            retrieved = _Retrieved(contexts=ids_alone, lost=[])
        weak = [
            name
            for name, row in leading.items()
            if _is_worse_than_mean(case.scores[row.measure], row)
        ]
        details[case.query_id] = Details(
            anchor=anchor(case.query_id),
            cause=CAUSES.get(diagnosis.get("cause", ""), ""),
            why=masked(diagnosis.get("evidence", "")),
            weak=tuple(weak),
            contexts=retrieved.contexts[:_CONTEXTS],
            more=max(0, len(retrieved.contexts) - _CONTEXTS),
            lost=retrieved.lost,
        )
    return details, notes


def _is_worse_than_mean(value: float | None, row: MeasureResult) -> bool:
    """Return True if the value of a question is worse than the mean of its measure."""
    if value is None or row.value is None:
        return False
    return value > row.value if row.lower_is_better else value < row.value


class _Retrieved(NamedTuple):
    """The contexts of an answer, as (id, parts of the text), and the texts of the evidence that is in none
    of them. A context without parts is shown by its id alone.
    """

    contexts: list[tuple[str, list[Part]]]
    lost: list[str]


def _retrieved_texts(
    result: Result, cases: Sequence[CaseResult]
) -> tuple[dict[str, _Retrieved], list[str]]:
    """Return query_id -> the contexts of these questions with their texts, and notes for the reader
    about missing documents.
    """
    data, notes = data_of(result, None)
    full_text_of = {doc_id: document.full_text for doc_id, document in data.corpus.items()}
    case_of = data.case_of
    retrieved_of = {}
    for case in cases:
        query_id = case.query_id
        retrieved_of[query_id] = _retrieved(
            case_of[query_id], result.answer_of[query_id], full_text_of
        )
    return retrieved_of, notes


def _retrieved(case: Case, answer: Answer, full_text_of: dict[str, str]) -> _Retrieved:
    """Return the contexts of an answer, with the gold evidence in them marked, and the lost evidence:
    the spans of which no context holds even a character.

    Evidence in documents that are not in `full_text_of` (document id -> text) is left out.
    """
    passage_of = answer.passage_of
    known_evidence = [span for span in case.evidence if span.doc_id in full_text_of]
    found: list[Span] = []
    contexts: list[tuple[str, list[Part]]] = []
    # a system that names no contexts may still have returned passages
    for context_id in answer.contexts or passage_of.keys():
        passage = passage_of.get(context_id)
        located = locate(context_id, passage, full_text_of)
        if located:  # (document, start, end); None if the context is in no known document
            doc_id, start, end = located
            inside = [
                span
                for span in known_evidence
                if span.doc_id == doc_id and span.start < end and start < span.end
            ]
            found += inside
            in_order = sorted(inside, key=lambda span: span.start)
            parts = _split_at_evidence(full_text_of[doc_id], start, end, in_order)
        else:
            parts = [(masked(passage.text) if passage else "", False)]
        contexts.append((masked_id(context_id), _abridge_long_parts(parts)))
    lost = [span for span in known_evidence if span not in found]
    texts = [masked(full_text_of[span.doc_id][span.start : span.end]) for span in lost]
    return _Retrieved(contexts, texts)


def _split_at_evidence(text: str, start: int, end: int, spans: Sequence[Span]) -> list[Part]:
    """Return the characters from start to end, cut where evidence begins and ends. A text with a
    secret, which is masked, is one part without marks.

    Args:
        spans: evidence in order of its starts. Each span overlaps the range from start to end, and
            spans may overlap one another.

    >>> _split_at_evidence("abcdef", 0, 5, [Span("d", 1, 3), Span("d", 2, 4)])
    [('a', False), ('bc', True), ('d', True), ('e', False)]
    """
    safe = masked(text[start:end])
    if safe != text[start:end]:
        return [(safe, False)]
    parts = []
    position = start
    for span in spans:
        # the part of the span that is in the range and after all earlier spans; it may be empty
        first = max(span.start, position)
        last = max(first, min(span.end, end))
        parts.append((text[position:first], False))
        parts.append((text[first:last], True))
        position = last
    parts.append((text[position:end], False))
    return [(part, is_evidence) for part, is_evidence in parts if part]


def _abridge_long_parts(parts: Sequence[Part]) -> list[Part]:
    """Shorten long parts without evidence to their beginning and end, "... […] ..."; drop empty parts.

    A part is (text, True if it is evidence).
    """
    half = _LONG // 2
    abridged = []
    for text, is_evidence in parts:
        if len(text) > _LONG + 100 and not is_evidence:
            text = f"{text[:half]} […] {text[-half:]}"
        if text:
            abridged.append((text, is_evidence))
    return abridged
