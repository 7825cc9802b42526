"""The two JSON forms::

    [{"id": "q1", "question": "...", "expectedAnswer": "...", "requiredKeywords": ["..."],
      "expectedDocumentId": "setup_guide", "category": "install"}]          form "json"; also as {"cases": [...]}

    {"test_cases": [{"query": "...", "expected_answer": "...", "expected_sources": ["setup_guide"],
                     "category": "install"}]}                               form "json-cases"

Each expected document is relevant with grade 1; `expectedDocumentId` may be a list of several. A case of the second
form may have an `id`; without, it is made from the question, so that it stays when other cases come and go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from ragbench.datasets.testsets.case_lists import CaseList, derived_id, head_and_list
from ragbench.datasets.testsets.parser import Parsed
from ragbench.datasets.testsets.validation import STRICT, Entry, Text, Word
from ragbench.types import Case


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


class QuestionCase(BaseModel):
    """An item of the form "json"."""

    model_config = STRICT
    id: Word
    question: Text
    expectedAnswer: str = ""  # noqa: N815
    requiredKeywords: list[Word] = []  # noqa: N815
    expectedDocumentId: Annotated[list[Word], BeforeValidator(_listed)] = []  # noqa: N815
    category: str = ""
    metadata: dict[str, Any] = {}


class SourceCase(BaseModel):
    """An item of the form "json-cases"."""

    model_config = STRICT
    id: Word | None = None
    query: Text
    expected_answer: str = ""
    expected_sources: list[Word] = []
    category: str = ""
    metadata: dict[str, Any] = {}


def _question_entry(item: QuestionCase) -> Entry:
    case = Case(
        item.id,
        item.question,
        category=item.category,
        reference_answer=item.expectedAnswer or None,
        required_keywords=tuple(item.requiredKeywords),
        metadata=item.metadata,
    )
    return Entry(case, dict.fromkeys(item.expectedDocumentId, 1))


def _question_record(case: Case, relevant: Mapping[str, int], *_: object) -> dict[str, Any]:
    documents = [doc_id for doc_id, grade in relevant.items() if grade > 0]
    labels = {
        "expectedAnswer": case.reference_answer,
        "requiredKeywords": list(case.required_keywords),
        "expectedDocumentId": documents[0] if len(documents) == 1 else documents,
        "category": case.category,
        "metadata": dict(case.metadata),
    }
    return {"id": case.query_id, "question": case.text, **{name: value for name, value in labels.items() if value}}


def _source_entry(item: SourceCase) -> Entry:
    case = Case(
        item.id or derived_id(item.query),
        item.query,
        category=item.category,
        reference_answer=item.expected_answer or None,
        metadata=item.metadata,
    )
    return Entry(case, dict.fromkeys(item.expected_sources, 1))


def _source_record(case: Case, relevant: Mapping[str, int], *_: object) -> dict[str, Any]:
    labels = {
        "expected_answer": case.reference_answer,
        "expected_sources": [doc_id for doc_id, grade in relevant.items() if grade > 0],
        "category": case.category,
        "metadata": dict(case.metadata),
    }
    own = {} if case.query_id == derived_id(case.text) else {"id": case.query_id}
    return {**own, "query": case.text, **{name: value for name, value in labels.items() if value}}


JSON = CaseList("cases", QuestionCase, _question_entry, _question_record)
JSON_CASES = CaseList("test_cases", SourceCase, _source_entry, _source_record)


def json_form(parsed: Parsed) -> str:
    """Which of the two forms a file has: "json" or "json-cases"."""
    value = parsed.value
    if isinstance(value, dict):
        return "json-cases" if "test_cases" in value else "json"
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    named = {name for item in items for name in item}
    return "json-cases" if "query" in named and "question" not in named else "json"


def json_text(name: str, form: CaseList, records: list[dict[str, Any]]) -> str:
    """A whole file."""
    return dumped(head_and_list(name, form, records)) + "\n"


def dumped(value: Any, indent: int | None = 2) -> str:
    """Plain data as JSON that people can read."""
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
