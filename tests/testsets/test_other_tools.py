"""Test sets of other tools in and out. The files of ragas and DeepEval were
written by those packages, the others follow their documentation."""

from __future__ import annotations

import copy
import dataclasses
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
from ragbench.testsets.fields import record_fields
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
UNREAD = "ignore:.*which ragbench does not read"
HAS_CONTEXTS = [
    "ragas.jsonl",
    "ragas.csv",
    "deepeval.json",
    "deepeval.csv",
    *GOLDENS,
]


@pytest.mark.parametrize("name", FORM_OF)
@pytest.mark.filterwarnings(UNREAD)
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


@pytest.mark.filterwarnings(UNREAD)
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


@pytest.mark.filterwarnings(UNREAD)
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


def test_what_an_answer_must_not_hold_is_read_and_other_assertions_are_named(
    tmp_path: Path,
) -> None:
    asserts = [
        {"type": "not-icontains", "value": "Telford"},
        {"type": "llm-rubric", "value": "is polite"},
    ]
    tests = {"tests": [{"vars": {"question": "Who built it?"}, "assert": asserts}]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    with pytest.warns(DataWarning, match="assertions 'llm-rubric' are not read"):
        [case] = rb.load_testset(tmp_path / "tests.yaml").cases
    assert case.forbidden_claims == ("Telford",)


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


OWN_FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a text among vars": (
        {"vars": {"topic": "trains"}, "user_input": "When?"},
        {"topic": "trains", "user_input": "When?"},
    ),
    "a text among vars, and a question": (
        {"vars": {"topic": "trains"}, "Question": "When?"},
        {"topic": "trains", "question": "When?"},
    ),
    "a text in inputs": ({"inputs": "trains", "question": "When?"}, {"question": "When?"}),
    "a text in outputs": ({"outputs": "trains", "answer": "In 1881."}, {"answer": "In 1881."}),
    "a text in input, and a question in inputs": (
        {"inputs": {"question": "When?"}, "input": {"topic": "trains"}},
        {"question": "When?", "topic": "trains"},
    ),
    "no question of its own": (
        {"vars": {"topic": "trains"}, "question": " "},
        {"topic": "trains", "user_input": "trains", "question": " "},
    ),
    "a text in inputs alone": ({"inputs": "When?"}, {"question": "When?"}),
}


@pytest.mark.parametrize("name", OWN_FIELDS)
def test_the_fields_of_a_record_win_over_the_nested_ones(name: str) -> None:
    record, expected = OWN_FIELDS[name]
    fields, _, _ = record_fields(record)
    assert fields == expected


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


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(content).to_parquet(path)
    elif isinstance(content, pd.DataFrame):
        content.to_csv(path, index=False)
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path


QUESTION, ANSWER = "When did the line open?", "In 1881."


def test_a_folder_of_autorag_has_questions_gold_documents_and_the_corpus(tmp_path: Path) -> None:
    """Columns of AutoRAG 0.3: lists of alternative documents, lists of answers, a time."""
    row = {"qid": "q1", "query": QUESTION, "retrieval_gt": [["d1"], ["d2", "d3"]]}
    qa = write(tmp_path / "qa.parquet", [{**row, "generation_gt": [ANSWER, "1881"]}])
    documents = [
        {"doc_id": f"d{i}", "contents": f"Text {i}.", "metadata": {"at": pd.Timestamp(0)}}
        for i in range(1, 4)
    ]
    write(tmp_path / "corpus.parquet", documents)
    with (
        pytest.warns(DataWarning, match="1 questions have alternative documents"),
        pytest.warns(DataWarning, match="1 questions have several reference answers"),
    ):
        data = rb.load_dataset(qa)
    assert (data.queries, data.cases[0].reference_answer) == ({"q1": QUESTION}, ANSWER)
    assert data.cases[0].alternatives == (("d2", "d3"),)
    assert data.qrels == {"q1": {"d1": 1, "d2": 1, "d3": 1}}
    assert data.corpus["d2"].text == "Text 2."
    with (
        pytest.warns(DataWarning, match="alternative documents"),
        pytest.warns(DataWarning, match="several reference answers"),
        pytest.warns(DataWarning, match="3 judged documents are not in the corpus"),
    ):
        assert rb.load_testset(qa, corpus=CORPUS).corpus == CORPUS, "documents that are named"


@pytest.mark.parametrize("splits", [("test",), ("train", "test"), ()])
def test_rows_saved_to_disk_or_as_parquet(tmp_path: Path, splits: tuple[str, ...]) -> None:
    import datasets

    rows = [{"question": QUESTION, "answer": ANSWER, "source": "rail.md"}]
    table = datasets.Dataset.from_list(rows)
    saved = datasets.DatasetDict(dict.fromkeys(splits, table)) if splits else table
    saved.save_to_disk(str(tmp_path / "saved"))
    for path in (tmp_path / "saved", write(tmp_path / "rows.parquet", rows)):
        assert form_of(path) == "table"
        data = rb.load_testset(path, corpus=CORPUS)
        [case] = data.cases
        assert (case.text, case.reference_answer) == (QUESTION, ANSWER)
        assert list(data.qrels.values()) == [{"rail.md": 1}]


@pytest.mark.filterwarnings(UNREAD)
def test_columns_of_haystack_as_json(tmp_path: Path) -> None:
    """As EvaluationRunResult.detailed_report writes them."""
    columns = {"question": [QUESTION], "predicted_answer": ["It was 1881."]}
    path = write(tmp_path / "report.json", {**columns, "ground_truth": [ANSWER], "score": [0.5]})
    data = rb.load_testset(path)
    assert data.cases[0].reference_answer == ANSWER
    assert rb.load_system(str(path), data).answer("", QUESTION).text == "It was 1881."


def test_labelled_examples_and_predictions_of_llamaindex(tmp_path: Path) -> None:
    example = {"query": QUESTION, "reference_answer": ANSWER, "reference_contexts": [TEXT]}
    content = {"class_name": "LabelledRagDataset", "examples": [example]}
    path = write(tmp_path / "rag_dataset.json", content)
    data = rb.load_testset(path, corpus=CORPUS)
    assert (data.cases[0].reference_answer, len(data.cases[0].evidence)) == (ANSWER, 1)
    reply = {"response": "It was 1881.", "contexts": [TEXT]}
    predictions = write(tmp_path / "predictions.json", {"predictions": [reply]})
    answer = rb.load_system(str(predictions), data).answer("", QUESTION)
    assert (answer.text, [passage.text for passage in answer.passages]) == ("It was 1881.", [TEXT])


@pytest.mark.parametrize(
    "content", [{"predictions": 5}, {"predictions": [5]}, {"examples": {"a": 1}}, {"tests": None}]
)
def test_lists_that_are_none_are_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    write(tmp_path / "rag_dataset.json", {"examples": [{"query": QUESTION}]})
    path = write(tmp_path / "odd.json", content)
    with pytest.raises(DataError, match=r"odd\.json: expected a list of records"):
        RecordedSystem(path)
    with pytest.raises(DataError):
        rb.load_testset(path)


def test_examples_of_langsmith_by_columns_and_by_objects(tmp_path: Path) -> None:
    columns = pd.DataFrame([{"id": "q1", "input_question": QUESTION, "output_answer": ANSWER}])
    example = {"id": "q1", "inputs": {"question": QUESTION}, "outputs": {"answer": ANSWER}}
    cells = pd.DataFrame([{name: json.dumps(example[name]) for name in ("inputs", "outputs")}])
    for path in (
        write(tmp_path / "columns.csv", columns),
        write(tmp_path / "cells.csv", cells),
        write(tmp_path / "lines.jsonl", example),
    ):
        data = rb.load_testset(path)
        assert (data.cases[0].text, data.cases[0].reference_answer) == (QUESTION, ANSWER)
        assert rb.load_system(str(path), data).answer("q1", QUESTION).text == ANSWER


def test_a_table_of_spans_gives_the_roots_with_what_was_retrieved(tmp_path: Path) -> None:
    """The columns of Phoenix's get_spans_dataframe."""
    root = {
        "context.trace_id": "t1",
        "context.span_id": "s1",
        "parent_id": None,
        "span_kind": "CHAIN",
        "attributes.input.value": QUESTION,
        "attributes.output.value": "It was 1881.",
        "attributes.retrieval.documents": None,
    }
    found = [{"document.id": "rail.md", "document.content": TEXT, "document.score": 0.5}]
    search = {"context.span_id": "s2", "parent_id": "s1", "span_kind": "RETRIEVER"}
    result = {"attributes.output.value": None, "attributes.retrieval.documents": found}
    spans = [root, {**root, **search, **result}]
    path = write(tmp_path / "spans.parquet", spans)
    data = rb.load_testset(path)
    assert list(data.queries.values()) == [QUESTION]
    answer = rb.load_system(str(path), data).answer("", QUESTION)
    assert (answer.text, [passage.text for passage in answer.passages]) == ("It was 1881.", [TEXT])


def test_a_parquet_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_text("x")
    with pytest.raises(DataError, match=r"broken\.parquet could not be read as a table"):
        rb.load_testset(path)


def test_nuggets_of_trec_in_and_out(tmp_path: Path) -> None:
    nuggets = [
        {"text": "1881", "importance": "vital"},
        {"text": "rebuilt later", "importance": "okay"},
    ]
    path = tmp_path / "nuggets.jsonl"
    path.write_text(json.dumps({"qid": "q1", "query": QUESTION, "nuggets": nuggets}) + "\n")
    data = rb.load_testset(path)
    assert data.cases[0].gold_facts == (("1881",), ("rebuilt later",))
    assert data.cases[0].metadata == {"okay_facts": ["rebuilt later"]}
    command = ["testset", "convert", str(path), str(tmp_path / "mine.yaml")]
    assert CliRunner().invoke(app, command).exit_code == 0
    back = [str(tmp_path / "mine.yaml"), str(tmp_path / "again.jsonl"), "--to", "nuggets"]
    done = CliRunner().invoke(app, ["testset", "convert", *back])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "again.jsonl").read_text() == path.read_text()


def test_vital_facts_are_scored_apart_where_others_are_okay() -> None:
    """Of three facts the answer states one vital one and the okay one: 2/3 of all, 1/2 of the vital."""
    facts = (("1881",), ("rebuilt",), ("short", "not long"))
    case = rb.Case("q1", QUESTION, gold_facts=facts, metadata={"okay_facts": ["short"]})
    data = rb.Dataset("mine", "test", {}, [case], {})
    answers = [rb.Answer("q1", "It opened in 1881 and is short.")]
    scores = rb.metrics.score_answers(data, answers).set_index("measure")["value"]
    assert scores["gold_fact_coverage"] == pytest.approx(2 / 3)
    assert scores["vital_fact_coverage"] == 0.5
    without = rb.Dataset("mine", "test", {}, [dataclasses.replace(case, metadata={})], {})
    assert "vital_fact_coverage" not in set(rb.metrics.score_answers(without, answers)["measure"])
