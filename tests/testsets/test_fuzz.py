"""Damaged files give a DataError or a valid dataset, and nothing else; nothing is written."""

from __future__ import annotations

import copy
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.testsets.cases import Head
from ragbench.testsets.edits import add_case
from ragbench.testsets.forms import load_testset, validate_testset
from ragbench.types import Case, Dataset

CASE = {
    "query_id": "q1",
    "text": "How?",
    "relevant": {"d1": 2},
    "evidence": [{"doc_id": "d1", "start": 0, "end": 3}],
    "gold_facts": [["a", "b"]],
    "expected_sections": [{"doc_id": "d1", "section": "Head"}],
    "min_citations": 1,
    "latency_budget_ms": {"total": 5.5},
    "expected_outcome": "success",
    "metadata": {"x": [1]},
}
RECORDS: dict[str, Any] = {
    "a.yaml": {
        "version": 1,
        "name": "n",
        "cases": [
            {"id": "q1", "query": "How?", "expected_chunks": [{"doc_id": "d", "section": "s"}]},
            {"id": "q2", "query": "Why?", "expected_answer_contains": ["x"], "metadata": {"a": 1}},
        ],
    },
    "a.json": [
        {
            "id": "q1",
            "question": "How?",
            "expectedAnswer": "So.",
            "requiredKeywords": ["x"],
            "expectedDocumentId": "d",
        },
        {"id": 2, "question": "Why?", "category": "c"},
    ],
    "b.json": {
        "test_cases": [
            {"query": "How?", "expected_answer": "So.", "expected_sources": ["d"], "category": "c"}
        ]
    },
    "a.jsonl": [
        {"testset": "n", "split": "test"},
        CASE,
        {"doc_id": "d1", "text": "abc", "title": "Head"},
        {"sample_id": "s", "kind": "input", "text": "x", "label": "attack", "category": "c"},
    ],
}
JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    3.5,
    10**30,
    "",
    " ",
    "no",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "\ud800",
    "x" * 300,
]

NAMES = {"cases": ("test_cases",), "name": ("testset",)}


def as_bytes(name: str, records: Any) -> bytes:
    if name.endswith(".jsonl"):
        return "".join(json.dumps(record) + "\n" for record in records).encode()
    if name.endswith(".yaml"):
        return str(yaml.safe_dump(records, sort_keys=False)).encode("utf-8", "surrogatepass")
    return json.dumps(records, indent=1).encode()


def check(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        path.write_bytes(content)
        problems = validate_testset(path)
        try:
            dataset = load_testset(path)
        except DataError:
            assert problems
            with pytest.raises(DataError):
                add_case(path, Case("new", "New?"))
            assert path.read_bytes() == content
        else:
            assert problems == []
            assert isinstance(dataset, Dataset)
            assert dataset.fingerprint
        assert {file.name for file in Path(folder).iterdir()} <= {name, f".{name}.lock"}


def places(value: Any, keys: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [keys, *(place for key, each in inside for place in places(each, (*keys, key)))]


@pytest.mark.parametrize("name", RECORDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_bytes(name: str, data: st.DataObject) -> None:
    content = bytearray(as_bytes(name, RECORDS[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 2, 10]))
        content[start : start + length] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"\n", b"&a *a"])
        )
    check(name, bytes(content))


@pytest.mark.parametrize("name", ["a.yaml", "b.json"])
def test_each_field_next_to_the_cases_with_each_value(name: str) -> None:
    for field in {*Head.model_fields} - {"corpus"}:  # it names documents elsewhere
        for other_name in (field, *NAMES.get(field, ())):
            for value in [*JUNK, "ab"]:
                check(name, as_bytes(name, {other_name: value, **RECORDS[name]}))


@pytest.mark.parametrize("value", [[], "ab", [{"query": "Why?"}]])
def test_two_lists_of_cases_are_no_test_set(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"test_cases": value, "cases": [{"query": "How?"}]}))
    with pytest.raises(DataError, match=r"test_cases .*next to cases.*one list of cases"):
        load_testset(path)


@pytest.mark.parametrize("name", RECORDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_values_of_other_types(name: str, data: st.DataObject) -> None:
    records = copy.deepcopy(RECORDS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        *keys, last = data.draw(st.sampled_from(places(records)[1:]))
        parent = records
        for key in keys:
            parent = parent[key]
        parent[last] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
        if len(places(records)) < 2:
            break
    check(name, as_bytes(name, records))


@settings(max_examples=40, deadline=None)
@given(
    file=st.sampled_from(["cases.jsonl", "retrieval_labels.jsonl", "safety_inputs.jsonl"]),
    data=st.data(),
)
def test_damaged_folders(file: str, data: st.DataObject) -> None:
    files = {
        "cases.jsonl": b'{"case_id": "c1", "query": "How?"}\n',
        "retrieval_labels.jsonl": b'{"case_id": "c1", "relevant_docs": ["d"], '
        b'"relevance_grades": {"d": 3}}\n',
        "safety_inputs.jsonl": b'{"text": "x", "label": "attack", "category": "c"}\n',
    }
    content = bytearray(files[file])
    start = data.draw(st.integers(0, len(content)))
    content[start : start + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=3))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, own in {**files, file: bytes(content)}.items():
            (Path(folder) / name).write_bytes(own)
        if validate_testset(folder):
            with pytest.raises(DataError):
                load_testset(folder)
        else:
            assert load_testset(folder).fingerprint
