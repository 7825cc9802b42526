"""Evidence that is a quote alone: found in the documents, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import DataError, DataWarning
from ragbench.testsets import load_dataset, save_testset
from ragbench.testsets.edits import add_case
from ragbench.testsets.forms import load_testset, validate_testset
from ragbench.types import Case

TOWER = "# Tower\n\nIt opened in 1889. It is\n330 m tall. It opened again in 1945."
HEAD = "corpus: docs\ncases:\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "tower.md").write_text(TOWER, encoding="utf-8")
    (docs / "dogs.md").write_text("Dogs bark. It opened a door.", encoding="utf-8")
    return tmp_path


def written(folder: Path, evidence: str) -> Path:
    path = folder / "tests.yaml"
    path.write_text(
        f"{HEAD}- query: When?\n  relevant: tower.md\n  evidence: [{evidence}]\n", "utf-8"
    )
    return path


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ("{doc_id: tower.md, quote: opened in 1889}", "opened in 1889"),
        ("{doc_id: tower, quote: opened in 1889}", "opened in 1889"),
        ("{doc_id: tower.md, quote: It is 330 m tall}", "It is\n330 m tall"),
        ("{quote: Dogs  bark}", "Dogs bark"),
    ],
)
def test_a_quote_alone_is_found_in_its_document(folder: Path, evidence: str, text: str) -> None:
    path = written(folder, evidence)
    assert validate_testset(path) == []
    data = load_dataset(path)
    [span] = data.cases[0].evidence
    assert data.corpus[span.doc_id].full_text[span.start : span.end] == text


def texts_of_evidence(path: Path) -> list[str]:
    data = load_dataset(path, corpus=path.parent / "docs")
    [case] = data.cases
    return [data.corpus[one.doc_id].full_text[one.start : one.end] for one in case.evidence]


@pytest.mark.parametrize("doc_id", ["", "doc_id: tower.md, "])
def test_each_of_several_quotes_alone_is_found(folder: Path, doc_id: str) -> None:
    """Quotes that are not found yet have equal spans, which must not be taken for one."""
    quotes = ["opened in 1889", "opened again in 1945"]
    path = written(folder, ", ".join(f"{{{doc_id}quote: {quote}}}" for quote in quotes))
    assert texts_of_evidence(path) == quotes


def test_rows_of_one_question_keep_their_quotes(folder: Path) -> None:
    """The first row has fewer quotes than evidence: that of another tool's label has its place."""
    path = folder / "tests.yaml"
    row = "- {id: q1, query: When?, evidence: [%s]%s}\n"
    rows = [
        row % ("{quote: opened in 1889}", ", reference_contexts: [tall. It opened]"),
        row % ("{quote: opened again in 1945}, {quote: Dogs bark}", ""),
    ]
    path.write_text("cases:\n" + "".join(rows), "utf-8")
    expected = ["opened in 1889", "tall. It opened", "opened again in 1945", "Dogs bark"]
    assert texts_of_evidence(path) == expected


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        (
            "{doc_id: tower.md, quote: It opened}",
            "line 5: cases[0].evidence[0].quote is 'It opened'; expected a text that is in "
            "'tower.md' once: it is there 2 times, so quote more of it",
        ),
        (
            "{quote: It opened}",
            "expected a text that is in one of the 2 documents once: it is there 3 times, so quote "
            "more of it",
        ),
        (
            "{doc_id: tower.md, quote: Dogs bark}",
            "evidence[0].quote is 'Dogs bark'; expected a text that is in 'tower.md' word for word",
        ),
        (
            "{doc_id: towr.md, quote: 330 m}",
            "evidence[0].doc_id is 'towr.md'; expected one of the 2 documents (did you mean 'tower.md'?)",
        ),
        ("{doc_id: tower.md}", "expected a quote, or doc_id, start and end"),
        ("{doc_id: tower.md, quote: ' '}", "expected a quote, or doc_id, start and end"),
        ("{doc_id: tower.md, start: 3, quote: It}", "expected a quote, or doc_id, start and end"),
        ("{start: 0, end: 3}", "expected a quote, or doc_id, start and end"),
    ],
)
def test_a_quote_without_one_place_is_refused_in_one_sentence(
    folder: Path, evidence: str, message: str
) -> None:
    path = written(folder, evidence)
    [problem] = validate_testset(path)
    assert message in str(problem)
    with pytest.raises(DataError) as caught:
        load_testset(path)
    assert str(caught.value).count("\n") == 0


def test_an_unknown_field_of_evidence_is_told_the_known_ones_once(folder: Path) -> None:
    [problem] = validate_testset(written(folder, "{doc_id: tower.md, where: 3, quote: x}"))
    assert "one of doc_id, start, end, quote" in str(problem)


def test_without_documents_quotes_are_left_out_with_a_warning(folder: Path) -> None:
    path = folder / "tests.jsonl"
    path.write_text(
        '{"query_id": "q1", "text": "When?", "evidence": [{"quote": "330 m"}]}\n', encoding="utf-8"
    )
    with pytest.warns(DataWarning, match="quotes without a place become evidence only with"):
        data = load_testset(path)
    assert data.cases[0].evidence == ()


def test_an_edit_keeps_quotes_that_have_no_place_in_the_file(folder: Path) -> None:
    for name, text in (
        ("tests.yaml", f"{HEAD}- query: When?\n  evidence: [{{quote: 330 m}}]\n"),
        (
            "tests.jsonl",
            '{"corpus": "docs", "testset": "t"}\n'
            '{"query_id": "q1", "text": "When?", "evidence": [{"doc_id": "tower.md", "quote": "330 m"}]}\n',
        ),
    ):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        add_case(path, Case("q2", "Which dog?"))
        lines = path.read_text(encoding="utf-8")
        assert "330 m" in lines
        assert "start" not in lines
        assert len(load_testset(path).cases[0].evidence) == 1


def test_a_converted_set_has_the_places(folder: Path) -> None:
    data = load_dataset(written(folder, "{quote: 330 m tall}"))
    saved = save_testset(data, folder / "beir", "beir")
    [span] = load_dataset(saved).cases[0].evidence
    assert data.cases[0].evidence == (span,)
