"""The YAML form::

    version: 1
    name: handbook
    cases:
      - id: q1
        query: How do I install it?
        expected_chunks:
          - {doc_id: setup_guide, section: Installation}
        expected_answer_contains: [pip, "3.11"]

Each expected document is relevant with grade 1; a section (a heading of the document) becomes evidence where the
documents are known. `expected_answer_contains` are required keywords: an answer should contain each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ragbench.datasets.testsets.checking import STRICT, Entry, Section, Text, Word, sections_of
from ragbench.datasets.testsets.lists import CaseList, head_and_list
from ragbench.types import Case


class YamlCase(BaseModel):
    """An item of `cases`."""

    model_config = STRICT
    id: Word
    query: Text
    expected_chunks: list[Section] = []
    expected_answer_contains: list[Word] = []
    metadata: dict[str, Any] = {}


def _entry(item: YamlCase) -> Entry:
    case = Case(
        item.id,
        item.query,
        required_keywords=tuple(item.expected_answer_contains),
        expected_sections=sections_of(item.expected_chunks),
        metadata=item.metadata,
    )
    return Entry(case, {chunk.doc_id: 1 for chunk in item.expected_chunks})


def _record(case: Case, relevant: Mapping[str, int]) -> dict[str, Any]:
    chunks = [{"doc_id": doc_id, "section": section} for doc_id, section in case.expected_sections]
    named = {doc_id for doc_id, _ in case.expected_sections}
    chunks += [{"doc_id": doc_id} for doc_id, grade in relevant.items() if grade > 0 and doc_id not in named]
    labels = {
        "expected_chunks": chunks,
        "expected_answer_contains": list(case.required_keywords),
        "metadata": dict(case.metadata),
    }
    return {"id": case.query_id, "query": case.text, **{name: value for name, value in labels.items() if value}}


YAML = CaseList("cases", YamlCase, _entry, _record)


def yaml_text(name: str, records: list[dict[str, Any]]) -> str:
    """A whole file."""
    return dumped(head_and_list(name, YAML, records))


def dumped(value: Any) -> str:
    """Plain data as YAML, in the order it has."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # PyYAML writes these line ends without quotes, and reads them as spaces.
        style = '"' if any(sign in text for sign in "\x85\u2028\u2029\ufeff") else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, quoted)
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text
