"""Documents that may lack questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.datasets.corpus import load_corpus
from ragbench.errors import DataError, DataWarning, RagbenchError


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/notes.txt").write_text("hidden", encoding="utf-8")
    (tmp_path / "b.md").write_text("\ufeff# Head\n\nBody.", encoding="utf-8")
    (tmp_path / "sub/a.TXT").write_text("Text.", encoding="utf-8")
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with pytest.warns(DataWarning, match=r"2 of 4 files .* 1 \.png"):
        corpus = load_corpus(tmp_path).corpus
    assert {doc_id: doc.full_text for doc_id, doc in corpus.items()} == {
        "b.md": "# Head\n\nBody.",
        "sub/a.TXT": "Text.",
    }


def test_html_pages_are_read_as_text(tmp_path: Path) -> None:
    page = (
        "<!DOCTYPE html><html><head><title>T</title><meta charset='latin-1'><style>p "
        "{}</style></head><body><nav><a>Home</a></nav><!-- no -->"
        "<h1>Caf\xe9 <a>\xb6</a></h1><p>Opens\n at <b>nine</b>.</p><script>f()</script>"
        "<table><tr><td>tea</td><td>2</td></tr></table><pre>a\n\n\n  b</pre></body></html>"
    )
    (tmp_path / "a.html").write_bytes(page.encode("latin-1"))
    (document,) = load_corpus(tmp_path).corpus.values()
    assert document.full_text == "# Caf\xe9\n\nOpens at nine.\n\ntea 2\n\n```\na\n\n\n  b\n```"


def test_a_corpus_file_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": 1, "text": "One.", "date": "2024"}\n', encoding="utf-8"
    )
    assert load_corpus(tmp_path / "corpus.jsonl").corpus == load_corpus(tmp_path).corpus
    assert load_corpus(tmp_path).corpus["1"].metadata == {"date": "2024"}
    assert load_corpus(tmp_path).cases == ()


def test_questions_that_are_there_need_no_judgements(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "text": "One."}\n', encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "Which?"}\n', encoding="utf-8")
    assert load_corpus(tmp_path).queries == {"q": "Which?"}


def test_a_name_is_a_dataset() -> None:
    assert len(load_corpus("pydoc").corpus) > 50


def test_what_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(RagbenchError, match="pydok"):
        load_corpus("pydok")
    with pytest.raises(DataError, match=r"neither corpus\.jsonl nor"):
        load_corpus(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match=r"a\.txt"):
        load_corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "Müller wartet.".encode("cp1252")),
        ("a.md", "Café “quoted”".encode("cp1252")),
        ("a.rst", "Überschrift\n====".encode("latin-1")),
        ("sub/a.TXT", "Größe".encode("iso-8859-15")),
        ("a.txt", "Привет".encode("cp1251")),
        ("a.md", "日本語".encode("shift_jis")),
        ("a.txt", "中文".encode("gbk")),
        ("a.txt", "Plain words".encode("utf-16")),
    ],
)
def test_a_text_in_another_encoding_is_left_out_and_counted(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.txt").write_text("Storks nest.", encoding="utf-8")
    ending = (tmp_path / name).suffix.lower()
    expected = rf"1 of 2 files .*: 1 \{ending} not in UTF-8; convert '{name}'"
    with pytest.warns(DataWarning, match=expected):
        assert list(load_corpus(tmp_path).corpus) == ["b.txt"]
