"""Test sets of other tools in and out. The files of ragas and DeepEval were
written by those packages, the others follow their documentation."""

from __future__ import annotations

import copy
import importlib.util
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import DataError, DataWarning, RagbenchError
from ragbench.systems import RecordedSystem
from ragbench.testsets.forms import form_of
from ragbench.types import Document

FILES = Path(__file__).with_name("other_tools")
TEXT = "The line opened in 1881, and was rebuilt later."
CORPUS = {
    "rail.md": Document("rail.md", f"# Rail\n\n{TEXT} It is short."),
    "pets.md": Document("pets.md", "Cats nap."),
}
FORM_OF = {
    "ragas.jsonl": "ragas",
    "ragas.csv": "table",
    "deepeval.json": "deepeval",
    "deepeval.csv": "table",
    "promptfoo.yaml": "promptfoo",
    "promptfoo_output.json": "promptfoo",
    "sheet.csv": "table",
    "haystack.csv": "table",
    "ragas01.csv": "table",
    "ragas01.jsonl": "ragas",
    "deepeval_goldens.csv": "table",
    "deepeval_goldens.jsonl": "deepeval",
}
GOLDENS = ["deepeval_goldens.csv", "deepeval_goldens.jsonl"]
HAS_CONTEXTS = [
    "ragas.jsonl",
    "ragas.csv",
    "deepeval.json",
    "deepeval.csv",
    *GOLDENS,
]


@pytest.mark.parametrize("name", FORM_OF)
@pytest.mark.filterwarnings("ignore:.*judged documents are not in the corpus")
def test_a_file_of_another_tool_is_a_test_set(name: str) -> None:
    assert form_of(FILES / name) == FORM_OF[name]
    data = rb.load_testset(FILES / name, corpus=CORPUS)
    [case] = data.cases
    assert case.text == "When did the line open?"
    assert case.reference_answer == "In 1881."
    if name in HAS_CONTEXTS:
        span, *more = case.evidence
        assert CORPUS[span.doc_id].full_text[span.start : span.end] == TEXT
        assert len(more) == (name in GOLDENS)  # which have a second context
        assert data.qrels[case.query_id] == {"rail.md": 1}
    if name == "sheet.csv":
        assert data.qrels[case.query_id] == {"rail.md": 1}
    if FORM_OF[name] == "promptfoo":
        assert case.required_keywords == ("1881",)
    assert (
        rb.load_dataset(FILES / name).queries == data.queries if name not in HAS_CONTEXTS else True
    )


def test_convert_matches_contexts_and_names_those_that_are_nowhere(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "rail.md").write_text(f"# Rail\n\n{TEXT}\n")
    (tmp_path / "mine.jsonl").write_text(
        '{"user_input": "When?", "reference": "In 1881.", "reference_contexts": ["The line  '
        'opened in 1881, and was", "Nothing in the documents says so, not a word of it."]}\n'
    )
    words = [
        "testset",
        "convert",
        str(tmp_path / "mine.jsonl"),
        str(tmp_path / "mine.yaml"),
        "--docs",
        str(docs),
    ]
    with pytest.warns(DataWarning, match="in no document of the corpus"):
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    back = rb.load_testset(tmp_path / "mine.yaml")
    assert len(back.cases[0].evidence) == 1
    assert back.cases[0].metadata["reference_contexts"] == [
        "Nothing in the documents says so, not a word of it."
    ]


@pytest.mark.parametrize("name", ["ragas.jsonl", "ragas.csv", "deepeval.json", "deepeval.csv"])
def test_recorded_answers_of_other_tools_are_systems(name: str) -> None:
    data = rb.load_testset(FILES / "ragas.jsonl", corpus=CORPUS)
    answer = rb.load_system(str(FILES / name), data).answer("q1", "When did the line open?")
    assert (answer.text, [one.text for one in answer.passages]) == ("It was 1881.", [TEXT])


RETRIEVED = {
    "haystack.csv": [TEXT],
    "ragas01.csv": [TEXT, "Cats nap."],
    "ragas01.jsonl": [TEXT, "Cats nap."],
}


@pytest.mark.parametrize("name", RETRIEVED)
def test_what_was_retrieved_is_no_evidence(name: str) -> None:
    data = rb.load_testset(FILES / name, corpus=CORPUS)
    [case] = data.cases
    assert (case.evidence, data.qrels[case.query_id], case.reference_answer) == ((), {}, "In 1881.")
    answer = rb.load_system(str(FILES / name), data).answer(case.query_id, case.text)
    assert (answer.text, [one.text for one in answer.passages]) == ("It was 1881.", RETRIEVED[name])


@pytest.mark.parametrize("contexts", ["context", "contexts"])
def test_an_answer_next_to_contexts_may_be_a_system_and_is_no_label(
    tmp_path: Path, contexts: str
) -> None:
    (tmp_path / "mine.csv").write_text(f'question,{contexts},answer\nWhen?,"{TEXT}",In 1881.\n')
    with pytest.warns(DataWarning, match="reference_contexts"):
        data = rb.load_testset(tmp_path / "mine.csv", corpus=CORPUS)
    assert (data.cases[0].evidence, data.cases[0].reference_answer) == ((), None)
    assert rb.load_system(str(tmp_path / "mine.csv"), data).answer("", "When?").text == "In 1881."
    (tmp_path / "gold.csv").write_text(
        f'question,{contexts},ground_truth\nWhen?,"{TEXT}",In 1881.\n'
    )
    data = rb.load_testset(tmp_path / "gold.csv", corpus=CORPUS)
    assert [span.doc_id for span in data.cases[0].evidence] == ["rail.md"]


@pytest.mark.parametrize("name", ["deepeval_goldens.csv", "deepeval_goldens.jsonl"])
def test_recorded_goldens_have_what_was_retrieved_and_not_the_gold_context(name: str) -> None:
    data = rb.load_testset(FILES / name, corpus=CORPUS)
    answer = rb.load_system(str(FILES / name), data).answer("q1", "When did the line open?")
    assert (answer.text, [one.text for one in answer.passages]) == (
        "It was 1881.",
        ["Cats nap.", TEXT],
    )


def test_an_output_next_to_what_is_expected_is_the_systems(tmp_path: Path) -> None:
    row = {
        "input": "When?",
        "output": "It was 1881.",
        "expected_output": "In 1881.",
        "context": [TEXT],
    }
    (tmp_path / "traces.jsonl").write_text(json.dumps(row))
    data = rb.load_testset(tmp_path / "traces.jsonl", corpus=CORPUS)
    assert (data.cases[0].evidence, data.cases[0].reference_answer) == ((), "In 1881.")
    answer = rb.load_system(str(tmp_path / "traces.jsonl"), data).answer("", "When?")
    assert (answer.text, [one.text for one in answer.passages]) == ("It was 1881.", [TEXT])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("docs/rail.pdf", {"rail.md": 1}),
        ("rail.md", {"rail.md": 1}),
        ("pets.md", {"pets.md": 1, "rail.md": 1}),
        ("copy.md", {"copy.md": 1}),
        ("rail.md;gone.md", {"rail.md": 1, "gone.md": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*judged documents are not in the corpus")
def test_the_file_that_a_context_is_from_is_the_document_that_holds_it(
    tmp_path: Path, source: str, expected: dict[str, int]
) -> None:
    golden = {
        "input": "When?",
        "expected_output": "In 1881.",
        "context": [TEXT],
        "source_file": source,
    }
    (tmp_path / "goldens.json").write_text(json.dumps([golden]))
    data = rb.load_testset(
        tmp_path / "goldens.json", corpus={**CORPUS, "copy.md": Document("copy.md", TEXT)}
    )
    assert list(data.qrels.values()) == [expected]
    assert len(data.cases[0].evidence) == 1


JUNK: list[Any] = [None, True, 0, 3.5, "", "x", [], {}, ["x"], [None], {"a": 1}, [[]], "\ud800"]


def _paths(value: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [keys, *(path for key, each in inside for path in _paths(each, (*keys, key)))]


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.parametrize("name", [name for name in FORM_OF if not name.endswith(".csv")])
def test_any_value_in_any_place_is_read_or_refused(tmp_path: Path, name: str) -> None:
    text = (FILES / name).read_text()
    content = yaml.safe_load(text) if name.endswith(".yaml") else json.loads(text)
    for *keys, last in _paths(content)[1:]:
        for junk in JUNK:
            changed = copy.deepcopy(content)
            parent = changed
            for key in keys:
                parent = parent[key]
            parent[last] = junk
            path = tmp_path / name
            path.write_text(
                yaml.safe_dump(changed) if name.endswith(".yaml") else json.dumps(changed)
            )
            for read in (
                lambda path: rb.load_testset(path, corpus=CORPUS),
                rb.load_testset,
                RecordedSystem,
            ):
                with suppress(RagbenchError):
                    read(path)


def test_assertions_of_promptfoo_that_are_no_table_or_have_no_value(tmp_path: Path) -> None:
    asserts = [
        "x",
        {"type": "icontains", "value": None},
        {"type": "equals", "value": None},
        {"type": "contains"},
    ]
    tests = {
        "tests": [
            {
                "vars": {"question": "When?"},
                "assert": [*asserts, {"type": "icontains", "value": 1881}],
            }
        ]
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    [case] = rb.load_testset(tmp_path / "tests.yaml").cases
    assert (case.required_keywords, case.reference_answer) == (("1881",), None)


def test_what_promptfoo_recorded_is_a_system(tmp_path: Path) -> None:
    data = rb.load_testset(FILES / "promptfoo_output.json", corpus=CORPUS)
    answer = rb.load_system(str(FILES / "promptfoo_output.json"), data).answer(
        "any", "When did the line open?"
    )
    assert answer.text == "It was 1881."
    [result] = json.loads((FILES / "promptfoo_output.json").read_text())["results"]["results"]
    two = [result, {**result, "provider": {"id": "other"}}]
    (tmp_path / "two.json").write_text(json.dumps({"results": {"results": two}}))
    with pytest.raises(
        DataError, match="prompt 0 of openai:chat:gpt-5, prompt 0 of other; write a file for each"
    ):
        rb.load_testset(tmp_path / "two.json")
    (tmp_path / "none.json").write_text('{"results": {"results": [3]}}')
    with pytest.raises(DataError, match="a list of records"):
        rb.load_testset(tmp_path / "none.json")


def test_a_spreadsheet_has_any_separator_or_is_a_workbook(tmp_path: Path) -> None:
    rows: list[Any] = [
        ["question", "answer", "source"],
        ["When did the line open?", "In 1881.", "rail.md"],
        [None, None, None],
    ]
    (tmp_path / "a.csv").write_text(
        "question;answer;source\nWhen did the line open?;In 1881.;rail.md\n"
    )
    pd.DataFrame(rows[1:2], columns=rows[0]).to_csv(tmp_path / "b.tsv", sep="\t", index=False)
    files = [tmp_path / "a.csv", tmp_path / "b.tsv"]
    if importlib.util.find_spec("openpyxl"):
        pd.DataFrame(rows[1:], columns=rows[0]).to_excel(tmp_path / "c.xlsx", index=False)
        files.append(tmp_path / "c.xlsx")
        (tmp_path / "bad.xlsx").write_bytes(b"PK not a workbook")
        with pytest.raises(
            DataError, match=r"bad.xlsx could not be read as a table.*save it as .csv"
        ):
            rb.load_testset(tmp_path / "bad.xlsx")
    expected = rb.load_testset(FILES / "sheet.csv", corpus=CORPUS)
    for file in files:
        data = rb.load_testset(file, corpus=CORPUS)
        assert (data.cases, data.qrels) == (expected.cases, expected.qrels)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("frage,antwort\nWann?,1881\n")
    with pytest.raises(DataError, match=r"bad.csv.*question"):
        rb.load_testset(tmp_path / "bad.csv")
    case_id = rb.load_testset(FILES / "sheet.csv").cases[0].query_id
    with pytest.raises(DataError, match="has the form 'table', which is not edited"):
        rb.testsets.remove_case(FILES / "sheet.csv", case_id)
    with pytest.warns(DataWarning, match="only with the documents"):
        data = rb.load_testset(FILES / "ragas.jsonl")
    assert data.cases[0].metadata["reference_contexts"] == [TEXT]
