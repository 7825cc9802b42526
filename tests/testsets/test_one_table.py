"""The same record means the same from every kind of file; labels never vanish without a word; public
test sets are read, or refused in one sentence."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.testsets.plain_data import dataset_of

Rows = list[dict[str, Any]]
SEVERAL = "ignore:.*several reference answers"
UNREAD = "ignore:.*which ragbench does not read"
TEXT = "The line opened in 1881, and was rebuilt later."
CORPUS = {
    "7": rb.Document("7", "Storks nest on chimneys."),
    "8": rb.Document("8", "Herons weigh two kilograms."),
    "rail.md": rb.Document("rail.md", TEXT),
}


def cells(rows: Rows) -> Rows:
    return [
        {
            key: json.dumps(value) if isinstance(value, list | dict) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def jsonl(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


WRITERS: dict[str, Callable[[Rows, Path], Any]] = {
    "csv": lambda rows, path: pd.DataFrame(cells(rows)).to_csv(path, index=False),
    "tsv": lambda rows, path: pd.DataFrame(cells(rows)).to_csv(path, index=False, sep="\t"),
    "json": lambda rows, path: path.write_text(json.dumps(rows)),
    "jsonl": lambda rows, path: path.write_text(jsonl(rows)),
    "yaml": lambda rows, path: path.write_text(yaml.safe_dump(rows)),
    "parquet": lambda rows, path: pd.DataFrame(rows).to_parquet(path),
}
if importlib.util.find_spec("openpyxl"):
    WRITERS["xlsx"] = lambda rows, path: pd.DataFrame(cells(rows)).to_excel(path, index=False)


def load(folder: Path, rows: Any, ending: str = "jsonl") -> rb.Dataset:
    path = folder / f"mine.{ending}"
    if ending == "text":
        path = folder / "mine.json"
        path.write_text(json.dumps(rows))
    else:
        WRITERS[ending](rows, path)
    return rb.load_testset(path, corpus=CORPUS)


SAME: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "a spreadsheet": (
        {"question": "When?", "answer": "In 1881.", "source": "rail.md"},
        {"reference_answer": "In 1881."},
        {"rail.md": 1},
    ),
    "a reference": (
        {"question": "When?", "reference_answer": "In 1881."},
        {"reference_answer": "In 1881."},
        {},
    ),
    "an expected answer": (
        {"query": "When?", "expected_answer": "In 1881."},
        {"reference_answer": "In 1881."},
        {},
    ),
    "grades": (
        {"id": "q1", "query": "When?", "relevant": {"rail.md": 2}},
        {"query_id": "q1"},
        {"rail.md": 2},
    ),
    "two sources": ({"query": "When?", "source": "rail.md; 7"}, {}, {"rail.md": 1, "7": 1}),
    "keywords": (
        {"query": "When?", "required_keywords": ["1881", "line"]},
        {"required_keywords": ("1881", "line")},
        {},
    ),
    "facts": (
        {"query": "When?", "gold_facts": [["1881", "in 1881"], ["later"]]},
        {"gold_facts": (("1881", "in 1881"), ("later",))},
        {},
    ),
    "evidence": (
        {
            "query": "When?",
            "evidence": [{"doc_id": "rail.md", "start": 0, "end": 8, "quote": "The line"}],
        },
        {"evidence": (rb.Span("rail.md", 0, 8),)},
        {},
    ),
    "contexts": (
        {"user_input": "When?", "reference": "In 1881.", "reference_contexts": [TEXT]},
        {"reference_answer": "In 1881.", "evidence": (rb.Span("rail.md", 0, len(TEXT)),)},
        {"rail.md": 1},
    ),
    "an outcome": (
        {"query": "Who?", "expected_outcome": "no_results"},
        {"expected_outcome": "no_results"},
        {},
    ),
    "a number as id": ({"id": 12, "query": "When?", "source": 7}, {"query_id": "12"}, {"7": 1}),
    "names of a spreadsheet": (
        {"Question": "When?", "Expected Answer": "In 1881.", "Source": "rail.md"},
        {"text": "When?", "reference_answer": "In 1881."},
        {"rail.md": 1},
    ),
    "inputs": (
        {"inputs": "When?", "expected_response": "In 1881."},
        {"text": "When?", "reference_answer": "In 1881."},
        {},
    ),
    "inputs and expectations": (
        {"inputs": {"question": "When?"}, "expectations": {"expected_response": "In 1881."}},
        {"text": "When?", "reference_answer": "In 1881."},
        {},
    ),
    "short answers": (
        {"query": "When?", "possible_answers": ["1881", "in 1881"]},
        {"reference_answer": "1881", "gold_facts": (("1881", "in 1881"),)},
        {},
    ),
}


@pytest.mark.parametrize("ending", [*WRITERS, "frame", "dicts"])
@pytest.mark.parametrize("name", SAME)
@pytest.mark.filterwarnings("ignore:.*only with the documents")
def test_a_record_means_the_same_from_every_kind_of_file(
    tmp_path: Path, name: str, ending: str
) -> None:
    row, labels, relevant = SAME[name]
    if ending in WRITERS:
        data = load(tmp_path, [row], ending)
    else:
        data = dataset_of(pd.DataFrame([row]) if ending == "frame" else [row])
        if "reference_contexts" in row:  # no documents are at hand
            labels, relevant = {"reference_answer": "In 1881."}, {}
    [case] = data.cases
    assert {label: getattr(case, label) for label in labels} == labels
    assert data.qrels[case.query_id] == relevant


SOURCE_COLUMNS = {
    "int64": pd.Series([7, 8], dtype="int64"),
    "int32": pd.Series([7, 8], dtype="int32"),
    "uint8": pd.Series([7, 8], dtype="uint8"),
    "float64": pd.Series([7, 8], dtype="float64"),
    "float32": pd.Series([7, 8], dtype="float32"),
    "Int64": pd.Series([7, 8], dtype="Int64"),
    "text": pd.Series(["7", "8"]),
    "lists": pd.Series([[7], [8]]),
    "lists of floats": pd.Series([[7.0], [8.0]]),
    "text of floats": pd.Series(["7.0", "8.0"]),
}


@pytest.mark.parametrize("name", ["source", "doc_id", "retrieval_gt", "doc-id-list"])
@pytest.mark.parametrize("kind", SOURCE_COLUMNS)
def test_ids_of_every_type_are_labels(tmp_path: Path, kind: str, name: str) -> None:
    frame = pd.DataFrame({"question": ["a?", "b?"], name: SOURCE_COLUMNS[kind]})
    frame.to_parquet(tmp_path / "mine.parquet")
    frame.to_csv(tmp_path / "mine.csv", index=False)
    for path in (tmp_path / "mine.parquet", tmp_path / "mine.csv"):
        assert list(rb.load_testset(path, corpus=CORPUS).qrels.values()) == [{"7": 1}, {"8": 1}]


@pytest.mark.parametrize("kind", ["float64", "Int64"])
def test_a_column_with_a_hole_keeps_its_ids(tmp_path: Path, kind: str) -> None:
    source = pd.Series([7, None], dtype=kind)
    frame = pd.DataFrame({"question": ["a?", "b?"], "source": source})
    frame.to_parquet(tmp_path / "mine.parquet")
    assert [*rb.load_testset(tmp_path / "mine.parquet").qrels.values()] == [{"7": 1}, {}]
    assert [*dataset_of(frame).qrels.values()] == [{"7": 1}, {}]


@pytest.mark.parametrize(
    "row",
    [
        {"question": "a?", "source": True},
        {"question": "a?", "source": 7.5},
        {"question": "a?", "source": [[None]]},
        {"question": "a?", "source": {"colour": "red"}},
        {"question": "a?", "ground_truth": [True]},
        {"question": "a?", "ground_truth": {"colour": "red"}},
        {"question": "a?", "reference_contexts": [7]},
        {"question": "a?", "reference_contexts": {"colour": "red"}},
    ],
)
@pytest.mark.parametrize("ending", ["json", "jsonl", "yaml"])
def test_a_label_that_cannot_be_read_is_an_error(
    tmp_path: Path, row: dict[str, Any], ending: str
) -> None:
    with pytest.raises(DataError, match=f"{[*row][1]} is .*expected"):
        load(tmp_path, [row], ending)


@pytest.mark.parametrize("ending", WRITERS)
def test_a_column_that_is_not_read_is_a_warning_everywhere(tmp_path: Path, ending: str) -> None:
    with pytest.warns(
        DataWarning, match="1 cases have the field 'colour', which ragbench does not"
    ):
        [case] = load(tmp_path, [{"question": "a?", "answer": "b", "colour": "red"}], ending).cases
    assert case.metadata == {"colour": "red"}


@pytest.mark.parametrize(
    "labels", ["Context_Relevance_Label", "Answer_Faithfulness_Label", "Answer_Relevance_Label", ""]
)
@pytest.mark.parametrize("ending", ["tsv", "json"])
@pytest.mark.filterwarnings(UNREAD)
def test_the_answer_of_ares_is_the_systems(tmp_path: Path, labels: str, ending: str) -> None:
    row = {"Query": "When?", "Document": f"{TEXT} It is short.", "Answer": "In 1881."}
    row |= {labels: "[[Yes]]"} if labels else {}
    data = load(tmp_path, [row], ending)
    assert (data.cases[0].reference_answer, data.qrels[data.cases[0].query_id]) == (None, {})
    if ending == "tsv":
        answer = rb.load_system(str(tmp_path / "mine.tsv"), data).answer("", "When?")
        assert (answer.text, [each.text for each in answer.passages]) == (
            "In 1881.",
            [row["Document"]],
        )


RAIL = "http://example.org/rail.md"
HOTPOT = {
    "_id": "q1",
    "question": "When?",
    "answer": "1881",
    "supporting_facts": [["Rail", 1]],
    "context": [["Rail", ["It is short.", " It opened in 1881."]], ["Cats", ["Cats nap."]]],
}
SQUAD = {"id": "q1", "question": "When?", "answers": [{"text": "1881", "answer_start": 19}]}
PUBLISHED: dict[str, tuple[Any, str, str | None, list[str], list[str]]] = {
    # content, ending, reference, relevant documents, evidence
    "SQuAD": (
        {"data": [{"title": "R", "paragraphs": [{"context": TEXT, "qas": [SQUAD]}]}]},
        "text",
        "1881",
        ["R/1"],
        ["1881"],
    ),
    "SQuAD of the hub": (
        [
            {
                "id": "q1",
                "title": "R",
                "context": TEXT,
                "question": "When?",
                "answers": {"text": ["1881"], "answer_start": [19]},
            }
        ],
        "parquet",
        "1881",
        ["R/3392359520"],
        ["1881"],
    ),
    "HotpotQA": ([HOTPOT], "text", "1881", ["Rail"], [" It opened in 1881."]),
    "HotpotQA of the hub": (
        [
            {
                **HOTPOT,
                "supporting_facts": {"title": ["Rail"], "sent_id": [1]},
                "context": {
                    "title": ["Rail"],
                    "sentences": [["It is short.", " It opened in 1881."]],
                },
            }
        ],
        "parquet",
        "1881",
        ["Rail"],
        [" It opened in 1881."],
    ),
    "BioASQ": (
        {
            "questions": [
                {
                    "id": "q1",
                    "body": "When?",
                    "type": "factoid",
                    "documents": [RAIL],
                    "snippets": [{"text": "The line opened in 1881", "document": RAIL}],
                    "ideal_answer": ["In 1881."],
                    "exact_answer": [["1881"]],
                }
            ]
        },
        "text",
        "In 1881.",
        ["rail.md"],
        ["The line opened in 1881"],
    ),
    "FinanceBench": (
        [
            {
                "financebench_id": "q1",
                "question": "When?",
                "answer": "In 1881.",
                "doc_name": "rail",
                "evidence": [{"doc_name": "rail", "evidence_text": TEXT, "evidence_page_num": 2}],
            }
        ],
        "jsonl",
        "In 1881.",
        ["rail.md"],
        [TEXT],
    ),
    "RAGTruth": (
        [
            {
                "source_id": "q1",
                "task_type": "QA",
                "prompt": "p",
                "source_info": {"question": "When?", "passages": TEXT},
            }
        ],
        "jsonl",
        None,
        ["q1"],
        [],
    ),
    "RAGChecker": (
        {
            "results": [
                {
                    "query_id": "q1",
                    "query": "When?",
                    "gt_answer": "In 1881.",
                    "response": "r",
                    "retrieved_context": [{"doc_id": "rail.md", "text": TEXT}],
                }
            ]
        },
        "text",
        "In 1881.",
        [],
        [],
    ),
    "MultiHop-RAG": (
        [
            {
                "query": "When?",
                "answer": "1881",
                "question_type": "temporal_query",
                "evidence_list": [{"title": "rail.md", "fact": "The line opened in 1881"}],
            }
        ],
        "text",
        "1881",
        ["rail.md"],
        ["The line opened in 1881"],
    ),
    "CRAG": (
        [{"interaction_id": "q1", "query": "When?", "answer": "1881", "alt_ans": ["in 1881"]}],
        "jsonl",
        "1881",
        [],
        [],
    ),
    "KILT": (
        [
            {
                "id": "q1",
                "input": "When?",
                "output": [{"answer": "1881", "provenance": [{"wikipedia_id": "7", "title": "R"}]}],
            }
        ],
        "jsonl",
        "1881",
        ["7"],
        [],
    ),
    "LegalBench-RAG": (
        {
            "tests": [
                {
                    "query": "When?",
                    "snippets": [{"file_path": "rail.md", "span": [0, 8], "answer": "The line"}],
                }
            ]
        },
        "text",
        None,
        ["rail.md"],
        ["The line"],
    ),
    "MLflow": (
        [
            {
                "inputs": {"question": "When?"},
                "outputs": "r",
                "expectations": {"expected_response": "1881", "expected_facts": ["1881"]},
            }
        ],
        "jsonl",
        "1881",
        [],
        [],
    ),
    "TruLens": (
        [{"query": "When?", "expected_response": "1881", "expected_chunks": [{"text": TEXT}]}],
        "text",
        "1881",
        ["rail.md"],
        [TEXT],
    ),
    "TruLens' log": ([{"input": "When?", "output": "r", "app_id": "a"}], "jsonl", None, [], []),
    "Braintrust": (
        [
            {
                "id": "q1",
                "input": {"question": "When?"},
                "expected": {"answer": "1881"},
                "output": "r",
            }
        ],
        "jsonl",
        "1881",
        [],
        [],
    ),
    "Azure": (
        {
            "rows": [
                {
                    "inputs.query": "When?",
                    "inputs.ground_truth": "1881",
                    "inputs.response": "r",
                    "outputs.relevance.relevance": 4.0,
                }
            ],
            "metrics": {},
        },
        "text",
        "1881",
        [],
        [],
    ),
    "MuSiQue": (
        [
            {
                "id": "q1",
                "question": "When?",
                "answer": "1881",
                "answer_aliases": ["in 1881"],
                "paragraphs": [{"title": "R", "paragraph_text": TEXT, "is_supporting": True}],
            }
        ],
        "jsonl",
        "1881",
        ["R/3392359520"],
        [],
    ),
    "CLAP NQ": (
        [
            {
                "id": "q1",
                "question": "When?",
                "doc-id-list": "rail.md",
                "answers": "It opened in the year 1881 as the first of all lines.::Another.",
            }
        ],
        "tsv",
        "It opened in the year 1881 as the first of all lines.",
        ["rail.md"],
        [],
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.filterwarnings(UNREAD, SEVERAL)
def test_public_test_sets_are_read(tmp_path: Path, name: str) -> None:
    content, ending, reference, relevant, evidence = PUBLISHED[name]
    path = tmp_path / f"mine.{'json' if ending == 'text' else ending}"
    if ending == "text":
        path.write_text(json.dumps(content))
    else:
        WRITERS[ending](content, path)
    holds_documents = any(doc_id not in CORPUS for doc_id in relevant)
    data = rb.load_testset(path, corpus=None if holds_documents else CORPUS)
    [case] = data.cases
    assert (case.text, case.reference_answer) == ("When?", reference)
    assert list(data.qrels[case.query_id]) == relevant
    texts = [data.corpus[span.doc_id].full_text[span.start : span.end] for span in case.evidence]
    assert texts == evidence


REFUSED: dict[str, tuple[str, str, str]] = {
    "nuggets": (
        "a.jsonl",
        jsonl([{"qid": "1", "nuggets": [{"text": "a"}]}] * 9),
        "without their topics",
    ),
    "nuggets as JSON": (
        "a.json",
        json.dumps([{"qid": "1", "nuggets": []}] * 9),
        "without their topics",
    ),
    "RAGTruth": (
        "a.jsonl",
        jsonl([{"id": "1", "source_id": "2", "labels": [], "response": "r"}] * 9),
        "load source_info.jsonl",
    ),
    "a summary of RAGTruth": (
        "a.jsonl",
        jsonl([{"source_id": "1", "task_type": "Summary", "source_info": "Text."}] * 9),
        "none of the 9 records has a question",
    ),
    "conversations": (
        "a.jsonl",
        jsonl([{"conversation": {"messages": []}}] * 9),
        "line for each question",
    ),
    "qrels": ("qrels.txt", "q1 0 d1 1\nq1 0 d2 0\n" * 9, "`ragbench score .*qrels.txt RUN`"),
    "qrels of TREC as .tsv": (
        "qrels.tsv",
        "q1\t0\td1\t1\n" * 9,
        "`ragbench score .*qrels.tsv RUN`",
    ),
    "qrels of BEIR": ("test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n" * 9, "name the folder"),
    "a run": ("my.txt", "q1 Q0 d1 1 2.5 x\n" * 9, "`ragbench score QRELS .*my.txt`"),
    "topics in XML": ("topics.xml", "<topics>\n<topic number='1'>", "number<tab>question"),
    "a table": (
        "a.csv",
        "frage,antwort\n" + "x,y\n" * 9,
        "no question among the fields frage, antwort",
    ),
    "lines": ("a.jsonl", jsonl([{"frage": "x"}] * 9), "a line with frage"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    file, text, message = REFUSED[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        rb.load_dataset(tmp_path / file)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("header", [False, True])
def test_topics_are_a_number_and_a_question(tmp_path: Path, header: bool) -> None:
    lines = "query_id\tquery\n" * header + '200\tHow does it work?\n201\tWhy "so?\n'
    (tmp_path / "topics.tsv").write_text(lines)
    data = rb.load_dataset(tmp_path / "topics.tsv")
    assert data.queries == {"200": "How does it work?", "201": 'Why "so?'}


PASSAGE_ROWS = [
    {
        "query_id": "1",
        "query": "How heavy?",
        "passage_id": "[1]",
        "passage": "A.",
        "generated_answer": "Two [1].",
    },
    {
        "query_id": "1",
        "query": "How heavy?",
        "passage_id": "[2]",
        "passage": "B.",
        "generated_answer": "",
    },
    {
        "query_id": "2",
        "query": "Where?",
        "passage_id": "[1]",
        "passage": "C.",
        "generated_answer": "There.",
    },
]


@pytest.mark.parametrize("ending", [*WRITERS, "frame"])
@pytest.mark.parametrize("name", ["passage", "passage_text", "chunk", "chunk_text"])
def test_a_row_for_each_passage_is_one_question_with_contexts(
    tmp_path: Path, ending: str, name: str
) -> None:
    rows = [{name if key == "passage" else key: row[key] for key in row} for row in PASSAGE_ROWS]
    if ending == "frame":
        data = dataset_of(pd.DataFrame(rows))
        answers = list(rb.evaluate(pd.DataFrame(rows), perspectives=["answer"]).answers)
    elif ending == "yaml":  # which holds no answers
        data = load(tmp_path, rows, "json")
        answers = list(rb.systems.RecordedSystem(tmp_path / "mine.json").answer_many(data.queries))
    else:
        data = load(tmp_path, rows, ending)
        system = rb.load_system(str(tmp_path / f"mine.{ending}"), data)
        answers = [system.answer(case.query_id, case.text) for case in data.cases]
    assert data.queries == {"1": "How heavy?", "2": "Where?"}
    assert [answer.text for answer in answers] == ["Two [1].", "There."]
    texts = [[passage.text for passage in answer.passages] for answer in answers]
    assert texts == [["A.", "B."], ["C."]]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_question_that_is_asked_again_is_a_case_of_its_own(tmp_path: Path, ending: str) -> None:
    rows = [{"question": "When?", "answer": text} for text in ("one", "two", "three")]
    data = load(tmp_path, rows, ending)
    first, second, third = data.cases
    assert {case.text for case in data.cases} == {"When?"}
    assert (second.query_id, third.query_id) == (f"{first.query_id}-2", f"{first.query_id}-3")
    if ending != "yaml":  # which holds no answers
        system = rb.systems.RecordedSystem(tmp_path / f"mine.{ending}")
        assert [answer.text for answer in system.answer_many(data.queries)] == [
            "one",
            "two",
            "three",
        ]
        with pytest.raises(DataError, match="a second answer to 'when"):
            system.answer_many({"q1": "When?"})


@pytest.mark.parametrize("ending", WRITERS)
def test_an_id_twice_is_refused_unless_the_rows_are_about_one_question(
    tmp_path: Path, ending: str
) -> None:
    row = {"id": "q1", "question": "When?", "answer": "x"}
    rows = [{**row, "source": "7"}, {**row, "source": "8"}]
    assert load(tmp_path, rows, ending).qrels == {"q1": {"7": 1, "8": 1}}
    with pytest.raises(DataError, match="expected another id"):
        load(tmp_path, [row, {**row, "question": "Who?"}], ending)


@pytest.mark.parametrize(
    "name",
    [
        "answer",
        "ground_truth",
        "Ground Truth",
        "expectedOutput",
        "expected-response",
        "generation_gt",
    ],
)
def test_further_references_are_named(tmp_path: Path, name: str) -> None:
    texts = ["It opened in the year 1881 as the first line.", "In 1881."]
    with pytest.warns(DataWarning, match="several reference answers; the first is read"):
        [case] = load(tmp_path, [{"question": "When?", name: texts}]).cases
    assert (case.reference_answer, case.metadata["other_references"]) == (texts[0], texts[1:])


def test_a_text_next_to_a_question_is_not_read_and_named(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="'text .not the question.'"):
        [case] = load(
            tmp_path, [{"question": "When?", "answer": "x", "text": "Body."}], "csv"
        ).cases
    assert (case.text, case.reference_answer) == ("When?", "x")
