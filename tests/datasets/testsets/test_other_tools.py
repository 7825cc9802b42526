"""Test sets of other tools in and out. ragas.* and deepeval.* were written by those packages, the others follow their
documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.datasets.testsets import OTHER_FORMS, form_of, save_testset
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.types import Document

FILES = Path(__file__).with_name("other_tools")
TEXT = "The line opened in 1881, and was rebuilt later."
CORPUS = {"rail.md": Document("rail.md", f"# Rail\n\n{TEXT} It is short."), "pets.md": Document("pets.md", "Cats nap.")}
FORM_OF = {
    "ragas.jsonl": "ragas", "ragas.csv": "table", "deepeval.json": "deepeval", "deepeval.csv": "table",
    "promptfoo.yaml": "promptfoo", "langsmith.jsonl": "langsmith", "llamaindex_rag.json": "llamaindex",
    "llamaindex_qa.json": "llamaindex", "phoenix.csv": "table", "sheet.csv": "table",
}  # fmt: skip
HAS_CONTEXTS = ["ragas.jsonl", "ragas.csv", "deepeval.json", "deepeval.csv", "llamaindex_rag.json"]


@pytest.mark.parametrize("name", FORM_OF)
@pytest.mark.filterwarnings("ignore:.*judged documents are not in the corpus")
def test_a_file_of_another_tool_is_a_test_set(name: str) -> None:
    assert form_of(FILES / name) == FORM_OF[name]
    own = None if name == "llamaindex_qa.json" else CORPUS
    data = rb.load_testset(FILES / name, corpus=own)
    [case] = data.cases
    assert case.text == "When did the line open?"
    assert case.reference_answer == (None if name == "llamaindex_qa.json" else "In 1881.")
    if name in HAS_CONTEXTS:
        [span] = case.evidence
        assert CORPUS[span.doc_id].full_text[span.start : span.end] == TEXT
        assert data.qrels[case.query_id] == {"rail.md": 1}
    if name == "sheet.csv":
        assert data.qrels[case.query_id] == {"rail.md": 1}
    if name == "promptfoo.yaml":
        assert case.required_keywords == ("1881",)
    if name == "llamaindex_qa.json":
        assert (data.qrels, data.corpus["n1"].text) == ({"q1": {"n1": 1}}, TEXT)
    assert rb.load_dataset(FILES / name).queries == data.queries if name not in HAS_CONTEXTS else True


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_what_is_written_is_read_again(form: str, tmp_path: Path) -> None:
    data = rb.load_testset(FILES / "ragas.jsonl", corpus=CORPUS)
    with pytest.warns(DataWarning):  # what the form cannot hold, such as the documents
        path = save_testset(data, tmp_path / f"out{OTHER_FORMS[form][0]}", form)
    assert form_of(path) == form
    [case] = rb.load_testset(path, corpus=CORPUS).cases
    assert (case.text, case.reference_answer) == (data.cases[0].text, "In 1881.")
    if form in ("ragas", "deepeval", "llamaindex"):
        assert case.evidence == data.cases[0].evidence


def test_convert_reports_what_matched(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "rail.md").write_text(f"# Rail\n\n{TEXT}\n")
    (tmp_path / "mine.jsonl").write_text(
        '{"user_input": "When?", "reference": "In 1881.", "reference_contexts": ["The line  opened in 1881, and was",'
        ' "Nothing in the documents says so, not a word of it."]}\n'
    )
    words = ["testset", "convert", str(tmp_path / "mine.jsonl"), str(tmp_path / "mine.yaml"), "--corpus", str(docs)]
    with pytest.warns(DataWarning, match="in no document of the corpus"):
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "Reference contexts: 1 unmatched, 1 white space" in done.output
    back = rb.load_testset(tmp_path / "mine.yaml")
    assert len(back.cases[0].evidence) == 1
    assert back.cases[0].metadata["reference_contexts"] == ["Nothing in the documents says so, not a word of it."]
    done = CliRunner().invoke(
        app, ["testset", "convert", str(FILES / "sheet.csv"), str(tmp_path / "p.yaml"), "--to", "promptfoo"]
    )
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["ragas.jsonl", "ragas.csv", "deepeval.json", "deepeval.csv"])
def test_recorded_answers_of_other_tools_are_systems(name: str) -> None:
    data = rb.load_testset(FILES / "ragas.jsonl", corpus=CORPUS)
    answer = rb.load_system(str(FILES / name), data).answer("q1", "When did the line open?")
    assert (answer.text, [one.text for one in answer.passages]) == ("It was 1881.", [TEXT])


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("frage,antwort\nWann?,1881\n")
    with pytest.raises(DataError, match=r"bad.csv.*question"):
        rb.load_testset(tmp_path / "bad.csv")
    case_id = rb.load_testset(FILES / "sheet.csv").cases[0].query_id
    with pytest.raises(DataError, match="of another tool"):
        rb.testsets.remove_case(FILES / "sheet.csv", case_id)
    with pytest.warns(DataWarning, match="only with the documents"):
        data = rb.load_testset(FILES / "ragas.jsonl")
    assert data.cases[0].metadata["reference_contexts"] == [TEXT]
    with pytest.raises(ConfigError, match=r"end it in \.jsonl"):
        save_testset(data, tmp_path / "x.json", "ragas")
