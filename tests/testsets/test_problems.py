"""Every problem is listed at once, with its line, and nothing that is not plain data gets in."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import DataError, DataWarning
from ragbench.testsets.forms import load_testset, validate_testset
from ragbench.testsets.loader import load_dataset

YAML = """\
version: 1
name: handbook
cases:
  - id: q1
    query: How do I install it?
    expected_chunks:
      - doc_id: 7
        sektion: Installation
    expected_answer_contains: [pip, 3.10, true]
  - id: q1
    qeury: misspelt
  - query: 5.5
    id: q3
    expected_chunks: nowhere
  - just a text
"""


def listed(path: Path) -> list[str]:
    return [str(problem) for problem in validate_testset(path)]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_yaml_errors_are_listed_at_once_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", YAML)
    problems = validate_testset(path)
    assert [(p.line, p.field, p.value) for p in problems] == [
        (8, "cases[0].expected_chunks[0].sektion", "an unknown field"),
        (9, "cases[0].expected_answer_contains[1]", "3.1"),
        (9, "cases[0].expected_answer_contains[2]", "True"),
        (10, "cases[1].text", "missing"),
        (11, "cases[1].qeury", "an unknown field"),
        (12, "cases[2].query", "5.5"),
        (14, "cases[2].expected_chunks", "'nowhere'"),
        (15, "cases[3]", "'just a text'"),
    ]
    assert "did you mean 'section'?" in str(problems[0])
    assert "did you mean 'query'?" in str(problems[4])
    assert str(problems[1]).startswith("a.yaml, line 9: cases[0].expected_answer_contains[1] is")
    with pytest.raises(DataError, match=r"a\.yaml has 8 problems:\n  a\.yaml, line 8: ") as caught:
        load_dataset(path)
    assert len(str(caught.value).splitlines()) == 9


def test_json_errors_have_their_lines(tmp_path: Path) -> None:
    text = (
        '[\n {"id": 1, "question": "a?"},\n {"id": "1",\n  "question": "b?",\n  '
        '"requiredKeywords": 3.5},\n'
    )
    text += ' {"id": "3", "question": "c?", "expectedanswer": "x"}\n]'
    problems = validate_testset(write(tmp_path / "a.json", text))
    assert [(p.line, p.field, p.value) for p in problems] == [
        (5, "[1].requiredKeywords", "3.5"),
        (6, "[2].expectedanswer", "an unknown field"),
    ]
    assert "did you mean 'expectedAnswer'?" in str(problems[1])
    text = '{"test_cases": [{"id": 1, "query": "a?"},\n{"id": 1, "query": "b?"}]}'
    problems = validate_testset(write(tmp_path / "b.json", text))
    assert [(problem.line, problem.value) for problem in problems] == [(2, "'1'")]


def test_a_field_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    [problem] = validate_testset(write(tmp_path / "a.yaml", "cases:\n- id: q5\n  id: q6\n"))
    assert (problem.line, "id" in problem.value) == (3, True)
    line = '{"query_id": "a", "text": "?"}\n{"query_id": "q", "text": "?", "text": "!"}\n'
    [problem] = validate_testset(write(tmp_path / "a.jsonl", line))
    assert (problem.line, "'text' occurs twice" in problem.value) == (2, True)


def test_jsonl_errors_of_every_kind(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        "\n".join(
            [
                '{"query_id": "q1", "text": "?", "relevant": {"d": 1.5}, "min_citations": -1}',
                '{"query_id": "q2", "text": "?", "latency_budget_ms": {"total": 0}, '
                '"expected_outcome": "fine"}',
                '{"query_id": "q3", "text": "?", "evidence": [{"doc_id": "d", "start": 5, "end": '
                "5}]}",
                "[1]",
                '{"query_id": "q4", "text": NaN}',
                '{"query_id": "q5", "text": "\\ud800"}',
                '{"quary_id": "q6", "text": "?"}',
                '{"query_id": "q7", "text": "?", "gold_facts": [[], 3.5]}',
                '{"sample_id": "s1", "kind": "input", "text": "x", "label": "maybe"}',
                '{"query_id": "q8"',
            ]
        ),
    )
    found = validate_testset(path)
    assert {(problem.line, problem.field) for problem in found} == {
        (1, "relevant.d"),
        (1, "min_citations"),
        (2, "expected_outcome"),
        (2, "latency_budget_ms.total"),
        (3, "evidence[0]"),
        (4, ""),
        (5, ""),
        (6, ""),
        (7, ""),
        (8, "gold_facts[0]"),
        (8, "gold_facts[1][0]"),
        (9, "label"),
        (10, ""),
    }
    assert any("did you mean 'query_id'?" in str(problem) for problem in found)


def folder_of(tmp_path: Path, **files: list[object]) -> Path:
    folder = tmp_path / "set"
    folder.mkdir(exist_ok=True)
    for name, records in files.items():
        write(folder / f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    return folder


def test_perspective_errors_are_joined_by_case(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        cases=[
            {"case_id": "case1", "query": "?"},
            {"case_id": "case1", "query": "?"},
            {"case_id": "broken"},
        ],
        retrieval_labels=[
            {"case_id": "case2", "relevant_docs": ["d"]},
            {"case_id": "broken", "relevant_docs": ["d"]},
            {"case_id": "case1", "relevant_docs": ["a", "b"], "relevance_grades": [4]},
        ],
        pipeline_labels=[{"case_id": "case1", "min_citations": "two"}, {"case_id": "case1"}],
        groundedness_labels=[{"case_id": "case1", "expected_claim": []}],
        safety_inputs=[{"text": "x", "label": 2}, {"text": "x"}],
    )
    assert [(m.file, m.line, m.field, m.value) for m in validate_testset(folder)] == [
        ("cases.jsonl", 2, "query_id", "'case1'"),
        ("cases.jsonl", 3, "text", "missing"),
        ("groundedness_labels.jsonl", 1, "expected_claim", "an unknown field"),
        ("pipeline_labels.jsonl", 1, "min_citations", "'two'"),
        ("retrieval_labels.jsonl", 1, "case_id", "'case2'"),
        ("retrieval_labels.jsonl", 3, "relevance_grades", "[4]"),
        ("safety_inputs.jsonl", 1, "label", "2"),
        ("safety_inputs.jsonl", 2, "label", "missing"),
    ]
    assert "did you mean 'case1'?" in listed(folder)[4]


@pytest.mark.parametrize("grades", [{"a": 40_000}, {"a": True}, {"a": 1.5}, [1], "high"])
def test_grades_of_perspectives(grades: object, tmp_path: Path) -> None:
    labels = {"case_id": "c", "relevant_docs": ["a", "b"], "relevance_grades": grades}
    folder = folder_of(tmp_path, cases=[{"case_id": "c", "query": "?"}], retrieval_labels=[labels])
    [problem] = validate_testset(folder)
    assert problem.field.startswith("relevance_grades")


def test_labels_without_cases(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, context_labels=[{"case_id": "c", "gold_facts": ["x"]}])
    assert listed(folder) == [
        "context_labels.jsonl, line 1: case_id is 'c'; expected a case of cases.jsonl"
    ]


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("a.yaml", b"", "the file is empty"),
        ("a.json", b"", "not valid JSON: "),
        ("a.jsonl", b"\n\n", "the file is empty"),
        ("a.yaml", b"cases:\n- \xff", "byte 0xff is not UTF-8"),
        ("a.json", b'{"cases": [\n"\xff"]}', "byte 0xff is not UTF-8"),
        ("a.jsonl", b'\n{"query_id": "\xff"}', "byte 0xff is not UTF-8"),
        ("a.yaml", b"cases: [\x07]", "not valid YAML: unacceptable character"),
        ("a.yaml", b"cases: [", "not valid YAML: "),
        ("a.yaml", b"cases: []\n---\ncases: []", "not valid YAML: but found another document"),
        (
            "a.yaml",
            b"cases: !!python/object/apply:os.system [ls]",
            "not valid YAML: a tag (!name)",
        ),
        ("a.yaml", b"cases: *there", "not valid YAML: an alias"),
        ("a.yaml", b"&a [*a]", "not valid YAML: an alias"),
        ("a.yaml", b"? [a]\n: b", "not valid YAML: expected a scalar"),
        ("a.yaml", b"cases: " + b"[" * 400 + b"]" * 400, "not valid YAML: too deep"),
        ("a.yaml", b"cases: " + b"[" * 200_000, "not valid YAML: too deep"),
        ("a.json", b"[" * 200_000, "not valid JSON: it nests too deeply"),
        ("a.jsonl", b'{"a":' * 100_000, "not valid JSON: it nests too deeply"),
        ("a.json", b"[1" + b"0" * 5000 + b"]", "not valid JSON: Exceeds the limit"),
        ("a.json", b'[{"a": Infinity}]', "not valid JSON: the number Infinity"),
        ("a.json", b"[1,]", "not valid JSON: "),
        ("a.json", b"[] x", "not valid JSON: Extra data"),
        ("a.json", b"{'a': 1}", "not valid JSON: "),
        ("a.json", b'"\n"', "not valid JSON: "),
        ("a.yaml", b"name: x", "missing"),
        ("a.yaml", b"case: []", "an unknown field"),
        ("a.yaml", b"cases: {}", "{}"),
        ("a.json", b"3", "3"),
    ],
)
def test_files_that_are_not_test_sets(
    name: str, content: bytes, value: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    problems = validate_testset(path)
    assert problems[0].value.startswith(value), problems
    with pytest.raises(DataError, match=r"expected"):
        load_dataset(path)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_aliases_are_refused_before_they_expand(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    [problem] = validate_testset(write(tmp_path / "a.yaml", bomb + "cases: [*i]"))
    assert (problem.line, "an alias" in problem.value) == (2, True)


def test_plain_words_of_yaml_stay_texts(tmp_path: Path) -> None:
    text = (
        "cases:\n- {id: 007, query: no, expected_answer_contains: [no, on, 0x1F, 1_000, "
        "12:30, 2024-01-01, 42, =]}\n"
    )
    [case] = load_testset(write(tmp_path / "a.yaml", text)).cases
    assert (case.query_id, case.text) == ("007", "no")
    assert case.required_keywords == ("no", "on", "0x1F", "1_000", "12:30", "2024-01-01", "42", "=")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_marks_and_line_ends(mark: bytes, end: bytes, tmp_path: Path) -> None:
    files = {
        "a.yaml": b"cases:\n- id: q1\n  query: a?\n",
        "a.json": b'[\n{"id": "q1",\n"question": "a?"}\n]\n',
        "a.jsonl": b'\n{"query_id": "q1", "text": "a?"}\n\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(mark + content.replace(b"\n", end))
        assert load_testset(tmp_path / name).queries == {"q1": "a?"}


def test_unknown_fields_become_metadata_with_a_warning(tmp_path: Path) -> None:
    text = "cases:\n- {id: q1, query: a?, difficulty: hard, metadata: {by: me}}\n"
    with pytest.warns(
        DataWarning,
        match=r"1 cases have the field 'difficulty', which ragbench does not read: metadata",
    ):
        [case] = load_testset(write(tmp_path / "a.yaml", text)).cases
    assert case.metadata == {"by": "me", "difficulty": "hard"}


def test_at_most_twenty_are_named_when_loading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"query_id": ""}\n' * 30)
    assert len(validate_testset(path)) == 60
    with pytest.raises(
        DataError, match=r"(?s)has 60 problems:.*and 40 more: `ragbench testset validate"
    ) as caught:
        load_testset(path)
    assert len(str(caught.value).splitlines()) == 22


def test_the_first_error_of_a_beir_folder_is_listed_with_its_line(tmp_path: Path) -> None:
    files = {
        "corpus.jsonl": '{"_id": "d1", "text": "x"}\n{"_id": "d1", "text": "x"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "x"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq9\td1\t1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    [problem] = listed(tmp_path)
    assert "corpus.jsonl, line 2" in problem
    write(tmp_path / "corpus.jsonl", '{"_id": "d1", "text": "x"}\n')
    assert "judges none of the 1 queries" in listed(tmp_path)[0]
    write(tmp_path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.yaml", "there is no file or folder"),
        ("a.txt", "is not a test set; expected a .yaml"),
        ("empty", "is not a test set; expected a .yaml"),
    ],
)
def test_places_without_a_test_set(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.txt", "x")
    with pytest.raises(DataError, match=message):
        validate_testset(tmp_path / name)


def test_evidence_behind_the_end_of_its_document(tmp_path: Path) -> None:
    text = '{"query_id": "q", "text": "?", "evidence": [{"doc_id": "d", "start": 1, "end": 9}]}\n'
    text += '{"doc_id": "d", "text": "abc"}'
    path = write(tmp_path / "a.jsonl", text)
    assert listed(path) == [
        "a.jsonl, line 1: evidence[0].end is 9; expected at most 3, the characters of 'd'"
    ]


def test_split_of_a_test_set(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", '{"testset": "mine", "split": "dev"}\n{"query_id": "q", "text": "?"}'
    )
    assert load_dataset(path, "dev").split == load_dataset(path).split == "dev"
    assert load_dataset(path).name == "mine"
    with pytest.raises(
        DataError, match="has no split 'train'; a test set of this form has one, 'dev'"
    ):
        load_dataset(path, "train")


def test_a_field_that_is_wrong_in_every_case_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    search = difflib.get_close_matches

    def counted(word: str, known: Any, **options: Any) -> list[str]:
        searched.append(word)
        return search(word, known, **options)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    file = tmp_path / "cases.yaml"
    file.write_text(
        "cases:\n" + "- {id: q1, query: Why?, expected_anser: x}\n" * 300, encoding="utf-8"
    )
    with pytest.raises(DataError, match="300 problems"):
        load_testset(file)
    assert len(searched) < 10
