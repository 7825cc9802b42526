"""One reader for answers: the same record has the same numbers, whichever way it comes."""

from __future__ import annotations

import csv
import json
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.systems import HttpSystem, McpSystem
from ragbench.systems.answer_parser import EMPTY_CONTEXT, read_answer
from ragbench.testsets.fields import read_list

NAN = math.nan
RAIL, MILL = "The railway line opened in 1881 in the north.", "The old mill burnt down in 1902."
DATA = rb.Dataset(
    "lines",
    "test",
    {"rail": rb.Document("rail", RAIL), "mill": rb.Document("mill", MILL)},
    [
        rb.Case(f"q{number}", f"Question {number}?", reference_answer="In 1881.")
        for number in range(3)
    ],
    {f"q{number}": {"rail": 1} for number in range(3)},
)
BASE = {"answer": "In 1881 [1].", "contexts": [RAIL, MILL]}
RECORDS: dict[str, dict[str, Any]] = {
    "plain": BASE,
    "an empty answer": {"answer": "", "contexts": [RAIL]},
    "a null answer": {"answer": None, "contexts": [RAIL]},
    "NaN for an answer": {"answer": NAN, "contexts": [RAIL]},
    "an answer of white space": {"answer": "  ", "contexts": [RAIL]},
    "no contexts": {"answer": "In 1881.", "contexts": []},
    "null contexts": {"answer": "In 1881.", "contexts": None},
    "an empty context": {"answer": "In 1881 [2].", "contexts": ["", RAIL]},
    "a null context": {"answer": "In 1881 [3].", "contexts": [MILL, None, RAIL]},
    "tables": {
        "answer": "In 1881 [1].",
        "contexts": [
            {"id": "rail", "text": RAIL, "score": 0.9},
            {"id": "mill", "text": MILL, "score": 0.4},
        ],
    },
    "equal scores": {
        "answer": "In 1881.",
        "contexts": [{"id": "rail", "score": 1.0}, {"id": "mill", "score": 1.0}],
    },
    "one context as a text": {"answer": "In 1881.", "contexts": RAIL},
    "an answer like a list": {"answer": "['1881', '1882']", "contexts": [RAIL]},
    "an answer like JSON": {"answer": '{"year": 1881}', "contexts": [RAIL]},
    "a number": {"answer": 1881, "contexts": [RAIL]},
    "citations": {"answer": "In 1881.", "contexts": [RAIL, MILL], "citations": [1]},
    "flags": {"answer": "", "contexts": [], "flags": ["guardrail_blocked"]},
    "an outcome": {"answer": "Perhaps.", "contexts": [RAIL], "outcome": "uncertain"},
    "names of ragas": {"response": "In 1881.", "retrieved_contexts": [RAIL, MILL]},
    "capital names": {"Answer": "In 1881.", "Contexts": [RAIL, MILL]},
    "quotes": {"answer": 'It\'s "1881".', "contexts": ["It's said: \"1881\", isn't it?", RAIL]},
    "an empty error": {"answer": "In 1881.", "contexts": [RAIL], "error": ""},
    "confidence": {"answer": "In 1881.", "contexts": [RAIL], "confidence": 0.25},
}


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record as the answer to the second question, between two that are well."""
    others = dict.fromkeys(record)
    return [
        {"query_id": "q0", **others, **_like(record)},
        {"query_id": "q1", **record},
        {"query_id": "q2", **others, **_like(record)},
    ]


def _like(record: dict[str, Any]) -> dict[str, Any]:
    names = {name.lower(): name for name in record}
    answer = names.get("answer") or names.get("response") or "answer"
    contexts = names.get("contexts") or names.get("retrieved_contexts") or "contexts"
    given = record.get(contexts)
    has_tables = isinstance(given, list) and given and isinstance(given[0], dict)
    return {answer: "In 1881.", contexts: [{"id": "rail"}] if has_tables else [RAIL]}


def jsonl(records: list[dict[str, Any]], folder: Path) -> str:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def json_file(records: list[dict[str, Any]], folder: Path) -> str:
    path = folder / "answers.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return str(path)


def csv_file(records: list[dict[str, Any]], folder: Path) -> str:
    pd.DataFrame(records).astype(object).to_csv(folder / "answers.csv", index=False)
    return str(folder / "answers.csv")


def csv_of_json(records: list[dict[str, Any]], folder: Path) -> str:
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        for record in records:
            plain = {
                name: json.dumps(value) if isinstance(value, list | dict) else value
                for name, value in record.items()
            }
            writer.writerow(
                {name: "" if value != value else value for name, value in plain.items()}
            )
    return str(folder / "answers.csv")


def parquet(records: list[dict[str, Any]], folder: Path) -> str:
    frame = pd.DataFrame(records)
    for name in frame:
        kinds = {type(value) for value in frame[name] if value is not None and value == value}
        if len(kinds) > 1:  # a column of a parquet file has one type
            frame[name] = [
                None if value is None or value != value else str(value) for value in frame[name]
            ]
    frame.to_parquet(folder / "answers.parquet")
    return str(folder / "answers.parquet")


def frame(records: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    return pd.DataFrame(records).astype(object).to_dict("records")  # type: ignore[return-value]


def frame_of_csv(records: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    read = pd.read_csv(csv_file(records, folder), dtype={"answer": object})
    return read.to_dict("records")  # type: ignore[return-value]


def dicts(records: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    return records


def by_question(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        f"Question {number}?": {name: value for name, value in record.items() if name != "query_id"}
        for number, record in enumerate(records)
    }


def function(records: list[dict[str, Any]], folder: Path) -> Callable[[str], Any]:
    replies = by_question(records)
    return lambda question: replies[question]


WAYS = [jsonl, json_file, csv_file, csv_of_json, parquet, frame, frame_of_csv, dicts]


def numbers(system: Any) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = rb.evaluate(DATA, system, perspectives=["retrieval", "answer", "groundedness"])
    scores = result.scores.sort_values(["query_id", "measure"]).reset_index(drop=True)
    return scores[["query_id", "measure", "value"]]


def check(system: Any, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(numbers(system), expected, check_exact=True)


@pytest.mark.parametrize("name", RECORDS)
def test_one_record_has_one_set_of_numbers(name: str, tmp_path: Path) -> None:
    records = rows(RECORDS[name])
    expected = numbers(function(records, tmp_path))
    for way in WAYS:
        if way is not json_file or name != "NaN for an answer":  # which is not JSON
            check(way(records, tmp_path), expected)


@pytest.mark.parametrize("name", RECORDS)
def test_a_frame_with_its_own_questions_has_the_same_numbers(name: str, tmp_path: Path) -> None:
    records = rows(RECORDS[name])
    asked = [
        {"question": case.text, "reference": "In 1881.", **record}
        for case, record in zip(DATA.cases, records, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        by_frame = rb.evaluate(pd.DataFrame(asked), perspectives=["answer"])
        by_function = rb.evaluate(DATA, function(records, tmp_path), perspectives=["answer"])
    assert [answer.text for answer in by_frame.answers] == [
        answer.text for answer in by_function.answers
    ]
    measures = ["token_f1", "answered", "exact_match"]
    for measure in measures:
        values = [
            list(result.scores[result.scores["measure"] == measure]["value"])
            for result in (by_frame, by_function)
        ]
        np.testing.assert_array_equal(values[0], values[1])


def test_by_http_and_by_mcp(tmp_path: Path, loopback: Any, wire: Any) -> None:
    for name, record in RECORDS.items():
        records = rows(record)
        expected = numbers(function(records, tmp_path))
        replies = by_question(records)
        server = loopback(lambda asked, known=replies: wire.Answered(known[asked.body["query"]]))
        check(HttpSystem(server.url, body={"query": "{query}"}), expected)
        if name in ("plain", "a null answer", "an empty context", "tables", "flags", "a number"):
            pytest.importorskip("mcp")
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(replies), encoding="utf-8")
            script = str(Path(__file__).with_name("record_server.py"))
            with McpSystem([sys.executable, script, str(path)], tool="ask") as system:
                check(system, expected)


LISTS = {
    "['a', 'b']": ["a", "b"],
    '["a", "b"]': ["a", "b"],
    "('a', 'b')": ["a", "b"],
    "('a',)": ["a"],
    "array(['a', 'b'], dtype=object)": ["a", "b"],
    "array(['a', 'b'], dtype='<U1')": ["a", "b"],
    "['a' 'b']": ["a", "b"],
    "['a'\n 'b']": ["a", "b"],
    "[]": [],
    "()": [],
    "array([], dtype=object)": [],
    "": [],
    "['it\\'s', \"b\"]": ["it's", "b"],
    "[{'id': 'a', 'text': 'x', 'score': nan}]": [{"id": "a", "text": "x", "score": NAN}],
    "[{'text': 'x', 'score': -0.5} {'text': 'y', 'score': None}]": [
        {"text": "x", "score": -0.5},
        {"text": "y", "score": None},
    ],
    "[array(['a'], dtype=object) array(['b'], dtype=object)]": [["a"], ["b"]],
    "[('a', np.float32(0.5)), ('b', 0.25)]": [["a", 0.5], ["b", 0.25]],
    "['a', None]": ["a", None],
}


@pytest.mark.parametrize("text", LISTS)
def test_a_list_that_went_through_a_table(text: str) -> None:
    np.testing.assert_equal(read_list(text), LISTS[text])


@pytest.mark.parametrize(
    "text",
    [
        "[1] shows it.",
        "[1] [2]",
        "(see page 3)",
        "The list ['a'] is short.",
        "[__import__('os').getcwd()]",
        "[a, b]",
        "('a')",
        "[open('x')]",
        "array",
        "[" * 5000,
    ],
)
def test_any_other_text_is_one_context(text: str) -> None:
    assert read_list(text) == [text]


@pytest.mark.parametrize(
    ("contexts", "n_contexts", "n_notes"),
    [
        ([RAIL, ""], 1, 1),
        ([None, RAIL], 1, 1),
        ([NAN, RAIL, None, "  "], 1, 3),
        ([{"text": ""}, RAIL], 1, 1),
        ([{"text": None, "score": 0.5}, {"id": "", "text": RAIL}], 1, 1),
        ([{}, RAIL], 1, 1),
        ([("", 0.5), (RAIL, 0.4)], 1, 1),
        ([(RAIL, None), (MILL, 0.4)], 2, 0),
        ([("", 0.5), (RAIL, None), (None, None)], 1, 2),
        ([{"page_content": "", "metadata": {}}, {"page_content": RAIL}], 1, 1),
        ([{"text": RAIL, "score": NAN}], 1, 1),
        ([{"text": RAIL, "score": math.inf}, {"text": MILL, "score": 0.1}], 2, 1),
        ([(RAIL, NAN)], 1, 1),
        ([pd.NA, RAIL, pd.NaT], 1, 2),
        (["", None], 0, 2),
    ],
)
def test_a_hole_is_left_out_and_counted(contexts: Any, n_contexts: int, n_notes: int) -> None:
    answer = read_answer("q", {"answer": "In 1881.", "contexts": contexts})
    assert (len(answer.contexts), len(answer.notes)) == (n_contexts, n_notes)
    assert all(passage.score is None or math.isfinite(passage.score) for passage in answer.passages)


def test_a_number_in_the_text_counts_empty_contexts() -> None:
    answer = read_answer("q", {"answer": "In 1881 [3], not [2].", "contexts": [MILL, "", RAIL]})
    assert answer.citations == (answer.contexts[1], "invalid:2")


def test_holes_are_reported_once() -> None:
    replies = {case.text: {"answer": "So.", "contexts": [RAIL, ""]} for case in DATA.cases}
    with pytest.warns(DataWarning, match=f"{EMPTY_CONTEXT}, 3 in all") as caught:
        result = rb.evaluate(DATA, lambda question: replies[question], perspectives=["answer"])
    assert sum(EMPTY_CONTEXT in str(each.message) for each in caught) == 1
    assert dict(result.system["unread"]) == {EMPTY_CONTEXT: 3}


ARRAYS: dict[str, Any] = {
    "an array of no dimension": np.array("It opened."),
    "a pair": np.array(["It opened.", 0.5], dtype=object),
    "a text of numpy": np.str_("It opened."),
    "a table": np.array({"id": "a", "text": "It opened."}, dtype=object),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_among_the_contexts_is_read(name: str) -> None:
    answer = read_answer("q1", {"answer": "1881", "contexts": [ARRAYS[name]]})
    assert [passage.text for passage in answer.passages] == ["It opened."]
    assert not answer.notes


@pytest.mark.parametrize("given", [np.array(["a", "b"]), ["a", "b"], ("a",), np.array(["a"])])
def test_a_list_of_texts_in_place_of_a_context_is_refused(given: Any) -> None:
    with pytest.raises(DataError, match="a list of texts is not one context"):
        read_answer("q1", {"answer": "1881", "contexts": [given]})
