"""PDF and DOCX files as documents. `two_columns.pdf` is a justified print in two columns, typeset
by pdfTeX from prose of this project; `two_columns.txt` has its sentences, one a line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import docx
import pytest
from docx.enum.text import WD_BREAK
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.datasets.corpus import load_corpus
from ragbench.datasets.documents import text_of_pages
from ragbench.errors import DataError, DataWarning

PRINT = Path(__file__).with_name("documents") / "two_columns.pdf"


def word_document() -> bytes:
    document = docx.Document()
    document.add_heading("Railways", 0)
    document.add_heading("Opening", 2)
    document.add_paragraph(
        "The line opened in 1881, and was re\u00adbuilt later."
    ).add_run().add_break(WD_BREAK.PAGE)
    document.add_paragraph("Two tracks.", style="List Bullet")
    table = document.add_table(1, 2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "length", "12 km"
    document.add_paragraph("")
    document.add_paragraph("It closed.")
    content = io.BytesIO()
    document.save(content)
    return content.getvalue()


def test_sentences_of_a_print_in_two_columns_are_found_in_it(tmp_path: Path) -> None:
    sentences = PRINT.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/print.pdf").write_bytes(PRINT.read_bytes())
    rows = [
        {"user_input": f"Question {i}?", "reference_contexts": [text]}
        for i, text in enumerate(sentences)
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = rb.load_dataset(tmp_path / "mine.jsonl", corpus=tmp_path / "docs")
    found = sum(bool(case.evidence) for case in data.cases)
    assert len(sentences) > 60
    assert found >= 0.97 * len(sentences)
    text = " ".join(data.corpus["print.pdf"].text.split())
    assert sum(sentence in text for sentence in sentences) >= 0.97 * len(sentences)  # to the letter
    assert not any(margin in text for margin in ("Second printing", "Notes on evaluation"))
    assert "\n\nPart two of the notes\n\n" in data.corpus["print.pdf"].text


def test_a_word_document_is_read_with_its_headings_and_tables(tmp_path: Path) -> None:
    (tmp_path / "rail.docx").write_bytes(word_document())
    [document] = load_corpus(tmp_path).corpus.values()
    assert document.text == (
        "# Railways\n\n## Opening\n\nThe line opened in 1881, and was rebuilt later.\n\n- Two "
        "tracks.\n\nlength 12 km\n\nIt closed."
    )


@pytest.mark.parametrize(
    ("pages", "text"),
    [
        (
            ["A re\ufffebuilt line, well-\nknown. Well-known."],
            "A rebuilt line, well-known. Well-known.",
        ),
        (["The line of 1881-\n1890 by Jean-\nPaul"], "The line of 1881-1890 by Jean-Paul"),
        (["Divi\u00ad\nded, and a dash -\nhere"], "Divided, and a dash - here"),
        (["ABC 1\nThe line is", "ABC 2\nshort and", "ABC 3\nold."], "The line is short and old."),
        (
            ["Chapter 1\nThe tram.", "Chapter 7\nThe line."],
            "Chapter 1 The tram. Chapter 7 The line.",
        ),
        (["线路于一八八一年\n开通。"], "线路于一八八一年开通。"),
        (
            [
                "The \ufb01rst line of this page is long enough to be usual.\nShort.\nNext paragraph."
            ],
            "The first line of this page is long enough to be usual. Short.\n\nNext paragraph.",
        ),
        ([], ""),
    ],
)
def test_lines_hyphens_and_pages_are_undone(pages: list[str], text: str) -> None:
    assert text_of_pages(pages) == text


def test_every_file_that_is_not_read_is_counted_by_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(
        "# Install\n\nThe installer needs a network and about ten minutes of your time.\n"
    )
    (docs / "print.pdf").write_bytes(PRINT.read_bytes())
    for name in ("a.png", "b.png", "slides.PPTX", "Makefile"):
        (docs / name).write_bytes(b"\x89")
    with pytest.warns(
        DataWarning, match=r"4 of 6 files were not read.*: 2 \.png, 1 without an ending, 1 \.pptx$"
    ):
        assert set(load_corpus(docs).corpus) == {"guide.md", "print.pdf"}
    with pytest.warns(DataWarning, match="2 .png"):
        done = CliRunner().invoke(app, ["init", "--docs", str(docs), str(tmp_path / "evaluation")])
    assert done.exit_code == 0, done.output
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.warns(DataWarning, match=r"1 \.pdf.*pip install 'ragbench-lab\[documents\]'"):
        assert set(load_corpus(docs).corpus) == {"guide.md"}
    (docs / "guide.md").unlink()
    with pytest.raises(
        DataError, match=r"neither corpus.jsonl.*2 \.png.*ragbench-lab\[documents\]"
    ):
        load_corpus(docs)


def test_a_damaged_document_is_named_and_a_scan_is_counted(tmp_path: Path) -> None:
    import pypdfium2

    (tmp_path / "guide.md").write_text("Some text.")
    scan = pypdfium2.PdfDocument.new()
    scan.new_page(200, 200)
    scan.save(tmp_path / "scan.pdf")
    with pytest.warns(DataWarning, match=r"1 of 2 files .* 1 \.pdf without text"):
        assert set(load_corpus(tmp_path).corpus) == {"guide.md"}
    (tmp_path / "scan.pdf").unlink()
    for name, content in {"bad.pdf": b"%PDF-1.4 nothing", "bad.docx": b"PK no archive"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name} could not be read: .*expected"):
            load_corpus(tmp_path)
        (tmp_path / name).unlink()


def test_images_alone_need_no_warning(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text("# Install\n\nUse pip.\n", encoding="utf-8")
    for name in ("a.png", "b.SVG", "c.jpeg", "d.mp4", "e.woff2"):
        (tmp_path / name).write_bytes(b"\x89")
    assert set(load_corpus(tmp_path).corpus) == {"guide.md"}  # here warnings are errors


def test_unread_files_are_shown_once_in_commands_and_notebooks(tmp_path: Path) -> None:
    """Each process is a command or a kernel of its own; a script is told each time."""
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "# Install\n\nThe installer needs a network and about ten minutes of your time.\n"
    (docs / "guide.md").write_text(text, encoding="utf-8")
    (docs / "slides.pptx").write_bytes(b"PK")
    environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(tmp_path / "cache")}
    load = "from ragbench.datasets.corpus import load_corpus; load_corpus('docs')"
    kernel = f"from ragbench.errors import one_line_warnings; one_line_warnings(); {load}"

    def said(*arguments: str) -> int:
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stderr.count("were not read")

    assert said("-c", load) == 1
    assert said("-m", "ragbench", "init", "--docs", "docs") == 1
    assert said("-m", "ragbench", "init", "--docs", str(docs), "--force", "again") == 0
    assert said("-c", kernel) == 0
    assert said("-c", load) == 1
    (docs / "more.pptx").write_bytes(b"PK")
    assert said("-c", kernel) == 1
    assert said("-c", kernel) == 0
