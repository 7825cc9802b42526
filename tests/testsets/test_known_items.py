"""Questions drafted without a language model: what they ask for, and why nothing is asked for."""

from __future__ import annotations

import pytest

import ragbench as rb
from ragbench.errors import DataError
from ragbench.types import Dataset, Document

FRONT = "---\ntitle: npm-audit\nsection: 1\ndescription: Run a security audit\n---\n"
PROSE = (
    "The audit command submits a description of the dependencies configured in your project to "
    "the default registry. A lockfile is a record of exact versions that every later "
    "installation repeats without asking anyone again."
)


def drafted(*texts: str) -> Dataset:
    documents = {f"d{i}.md": Document(f"d{i}.md", text) for i, text in enumerate(texts)}
    return rb.testsets.draft_known_items(Dataset("docs", "test", documents, (), {}))


@pytest.mark.parametrize(
    "front", [FRONT, FRONT.replace("\n", "\r\n"), "+++\ntitle = 'npm-audit'\n+++\n"]
)
def test_front_matter_is_no_heading_and_offsets_stay(front: str) -> None:
    data = drafted(f"{front}\n## Description\n\n{PROSE}\n")
    queries = [case.text for case in data.cases]
    assert "npm-audit: Description" in queries
    assert not any(
        name in query for query in queries for name in ("section", "title", "Run a security")
    )
    for case in data.cases:
        [span] = case.evidence
        text = data.corpus[span.doc_id].full_text[span.start : span.end]
        assert text.split()[0] in ("The", "A")
        assert text in PROSE


def test_a_line_of_hyphens_is_no_front_matter() -> None:
    data = drafted(f"---\n\n{PROSE}\n\n---\n\n# Later\n\nSome more.\n")
    assert data.cases


def test_numbered_clauses_of_a_contract_are_prose() -> None:
    clauses = (
        "1.1 The Supplier shall deliver the goods to the warehouse of the Purchaser within "
        "thirty days of the order.",
        "(b) The Purchaser shall inspect every consignment and report visible damage before the "
        "carrier departs again.",
        "2. Invoices fall due on the last working day of the calendar month that follows "
        "complete delivery.",
    )
    assert len(drafted("\n\n".join(clauses)).cases) == 3


def test_paragraphs_of_a_plain_text_may_be_indented() -> None:
    text = (
        "                    SUPPLY AGREEMENT\n\n"
        "  1. The Supplier shall deliver the goods to the warehouse of the\n"
        "     Purchaser within thirty days of the order.\n\n"
        "   Invoices fall due on the last working day of the calendar month\n   that follows "
        "complete delivery.\n"
    )
    found = drafted(text)
    quoted = sorted(
        found.corpus[span.doc_id].full_text[span.start : span.end]
        for [span] in (case.evidence for case in found.cases)
    )
    assert [quote[:12] for quote in quoted] == ["Invoices fal", "The Supplier"]
    assert all(quote.endswith(".") for quote in quoted)


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n\n- one\n\n- two",
        "Too short.\n\nThis too.",
        " ".join(["The Supplier shall deliver all goods as agreed."] * 40),
        "The Supplier " + "and the Purchaser of the goods " * 12 + "agree.",
        "The goods are sold as seen. They may not be returned.",
        "It is so that we do not do it and you do not do it.",
        "    The Supplier shall deliver all goods as agreed here.",
        "",
    ],
)
def test_documents_without_prose_are_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(DataError, match="expected paragraphs of prose with 8 to 250 words"):
        drafted(text)


def test_drafts_of_headings_come_before_those_of_sentences() -> None:
    sections = "\n\n".join(
        f"## Topic number{i} of herons{i}\n\nThe first paragraph of section{i} has some words.\n\n"
        + PROSE.replace("dependencies", f"dependencies{i}").replace("exact", f"exact{i}")
        for i in range(3)
    )
    kinds = [case.query_type for case in drafted(sections).cases]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"heading", "sentence"}
