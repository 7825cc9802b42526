"""Expected sections become evidence where the documents are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import DataWarning
from ragbench.testsets.forms import load_testset
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.sections import headings_of, locate
from ragbench.types import Document, Span

GUIDE = Document(
    "guide",
    "Intro.\n\n## Getting started\n\nUse pip.\n\n### On Windows\n\nUse it too.\n\n```\n# Not a "
    "heading\n```\n\n## Using it\n\nCall it.\n\nReading on\n----------\n\nMore.\n\n## Getting "
    "started\n\nAgain.\n",
    "The guide",
)
PLAIN = Document(
    "plain",
    "THE RULES\n\nFirst text.\nIt goes on.\n\nExceptions\n~~~~~~~~~~\n\nNone.\n\nThe end\n\nBye.\n",
)


def text_of(document: Document, section: str) -> str:
    place = locate(document, section)
    assert place is not None
    return document.full_text[place.span.start : place.span.end]


@pytest.mark.parametrize(
    ("document", "section", "start", "end"),
    [
        (GUIDE, "Getting started", "## Getting started", "# Not a heading\n```"),
        (GUIDE, "getting-started", "## Getting started", "# Not a heading\n```"),
        (GUIDE, "on windows", "### On Windows", "# Not a heading\n```"),
        (GUIDE, "Using it", "## Using it", "Call it."),
        (GUIDE, "Reading on", "Reading on\n---", "More."),
        (GUIDE, "The Guide", "The guide\n\nIntro.", "Again.\n"),
        (PLAIN, "The rules", "THE RULES", "Bye."),
        (PLAIN, "Exceptions", "Exceptions\n~~~", "Bye."),
        (PLAIN, "the end", "The end", "Bye."),
    ],
)
def test_sections_go_to_the_next_heading_of_their_level(
    document: Document, section: str, start: str, end: str
) -> None:
    found = text_of(document, section)
    assert found.startswith(start)
    if document is not PLAIN:
        assert found.endswith(end)
    assert "Using it" not in found or start in ("## Using it", "The guide\n\nIntro.")


def test_text_that_is_not_a_heading_is_not_found() -> None:
    assert locate(GUIDE, "Not a heading") is None
    assert locate(GUIDE, "Appendix") is None
    assert locate(Document("empty", ""), "x") is None
    assert [heading.text for heading in headings_of(PLAIN)] == [
        "THE RULES",
        "Exceptions",
        "The end",
    ]


def test_repeated_headings_are_counted() -> None:
    twice = locate(GUIDE, "Getting started")
    assert twice is not None
    assert twice.alike == 2


def test_spans_and_warnings_of_a_loaded_set(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "cases:\n- id: q1\n  query: a?\n  expected_chunks:\n  - {doc_id: guide, section: Using "
        "it}\n  - {doc_id: guide, section: Getting started}\n  - {doc_id: guide, section: Nowhere}\n"
        "  - {doc_id: gone, section: x}\n  - {doc_id: plain}\n"
    )
    unplaced = load_testset(path)
    assert (unplaced.corpus, unplaced.cases[0].evidence) == ({}, ())
    assert unplaced.cases[0].expected_sections[0] == ("guide", "Using it")
    assert unplaced.qrels == {"q1": {"guide": 1, "gone": 1, "plain": 1}}
    corpus = {"guide": GUIDE, "plain": PLAIN}
    with pytest.warns(DataWarning) as caught:
        placed = load_testset(path, corpus=corpus)
    spans = placed.cases[0].evidence
    assert [GUIDE.full_text[span.start : span.end][:12] for span in spans] == [
        "## Using it\n",
        "## Getting s",
    ]
    messages = "\n".join(str(warning.message) for warning in caught)
    assert "1 judged documents are not in the corpus" in messages
    assert "not in the corpus (first: 'gone')" in messages
    assert "(first: 'guide > Nowhere')" in messages
    assert "the first is taken (first: 'guide > Getting started')" in messages


def test_a_document_may_be_named_without_its_folder_and_ending_where_no_other_is_called_so(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text(
        "cases:\n- id: q1\n  query: a?\n  expected_chunks:\n  - {doc_id: mcp_guide, section: "
        "Start}\n  - {doc_id: guides/setup}\n"
    )
    texts = {"mcp_guide.md": "# Start\nRun it.", "guides/setup.md": "Set it up."}
    placed = load_testset(path, corpus={name: Document(name, text) for name, text in texts.items()})
    assert placed.qrels == {"q1": {"mcp_guide.md": 1, "guides/setup.md": 1}}
    assert placed.cases[0].expected_sections[0] == ("mcp_guide.md", "Start")
    assert placed.cases[0].evidence == (Span("mcp_guide.md", 0, 15),)


def test_of_documents_that_are_called_alike_none_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "tests.json"
    path.write_text('[{"id": "q1", "question": "?", "expectedDocumentId": "setup"}]')
    corpus = {name: Document(name, "Run it.") for name in ("a/setup.md", "b/setup.md")}
    with pytest.warns(DataWarning, match="or the name of several files.*'setup'"):
        assert load_testset(path, corpus=corpus).qrels == {"q1": {"setup": 1}}


def test_the_titles_of_pydoc_are_found() -> None:
    corpus = load_dataset("pydoc").corpus
    place = locate(corpus["compound"], 'The "try" statement')
    assert place is not None
    text = corpus["compound"].full_text[place.span.start : place.span.end]
    assert text.startswith('The "try" statement\n')
    assert "except" in text
    assert 'The "with" statement\n' not in text
