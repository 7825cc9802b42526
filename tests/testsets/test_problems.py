"""Every problem is listed at once, with its line, and nothing that is not plain data gets in."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import DataError, DataWarning
from ragbench.testsets.case_lists import YamlCase
from ragbench.testsets.loader import load_dataset, load_testset, validate_testset
from ragbench.testsets.validation import fields_of

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
  - query: 5
    id: q3
    expected_chunks: nowhere
  - just a text
  - id: q5
    id: q6
    query: twice?
"""


def listed(path: Path) -> list[str]:
    return [str(problem) for problem in validate_testset(path)]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_yaml_errors_are_listed_at_once_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", YAML)
    word = "expected a text that is not empty (numbers with a point, true and false need quotes)"
    assert listed(path) == [
        "a.yaml, line 8: cases[0].expected_chunks[0].sektion is an unknown field; expected one "
        "of doc_id, section, chunk_id (did you mean 'section'?)",
        f"a.yaml, line 9: cases[0].expected_answer_contains[1] is 3.1; {word}",
        f"a.yaml, line 9: cases[0].expected_answer_contains[2] is True; {word}",
        "a.yaml, line 10: cases[1].query is missing; expected a value",
        f"a.yaml, line 11: cases[1].qeury is an unknown field; expected one "
        f"of {', '.join(fields_of(YamlCase))} (did you mean 'query'?)",
        "a.yaml, line 12: cases[2].query is 5; expected a text that is not empty",
        "a.yaml, line 14: cases[2].expected_chunks is 'nowhere'; expected a list",
        "a.yaml, line 15: cases[3] is 'just a text'; expected {...} with fields",
        "a.yaml, line 17: cases[4].id is there twice; expected each field once",
    ]
    with pytest.raises(DataError, match=r"a\.yaml has 9 problems:\n  a\.yaml, line 8: ") as caught:
        load_dataset(path)
    assert len(str(caught.value).splitlines()) == 10


def test_json_errors_have_their_lines(tmp_path: Path) -> None:
    text = (
        '[\n {"id": 1, "question": "a?"},\n {"id": "1",\n  "question": "b?",\n  '
        '"requiredKeywords": "pip"},\n'
    )
    text += ' {"id": "3", "question": "c?", "expectedanswer": "x", "id": "4"}\n]'
    assert listed(write(tmp_path / "a.json", text)) == [
        "a.json, line 5: [1].requiredKeywords is 'pip'; expected a list",
        "a.json, line 6: [2].id is there twice; expected each field once",
        "a.json, line 6: [2].expectedanswer is an unknown field; expected one of id, question, "
        "expectedAnswer, requiredKeywords, expectedDocumentId, category, metadata (did you mean "
        "'expectedAnswer'?)",
    ]
    text = '{"test_cases": [{"query": "a?"},\n{"query": "a?"}]}'
    assert [(m.line, m.value) for m in validate_testset(write(tmp_path / "b.json", text))] == [
        (2, "'q-5289f1df3e'")
    ]


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
                '{"query_id": "q7", "text": "?", "gold_facts": [[], {"fakt": "x"}, 3.5]}',
                '{"sample_id": "s1", "kind": "input", "text": "x", "label": "maybe"}',
                '{"query_id": "q8"',
            ]
        ),
    )
    found = [(m.line, m.field, m.value) for m in validate_testset(path)]
    assert found == [
        (1, "relevant.d", "1.5"),
        (1, "min_citations", "-1"),
        (2, "expected_outcome", "'fine'"),
        (2, "latency_budget_ms.total", "0"),
        (3, "evidence[0]", "{'doc_id': 'd', 'start': 5, 'end': 5}"),
        (4, "", "[1]"),
        (5, "", "not valid JSON: the number 'NaN'"),
        (6, "text", "'\\ud800' with half of a surrogate pair"),
        (7, "", "a line with quary_id, text"),
        (8, "gold_facts[0]", "[]"),
        (8, "gold_facts[1].fact", "missing"),
        (8, "gold_facts[1].fakt", "an unknown field"),
        (8, "gold_facts[2]", "3.5"),
        (9, "label", "'maybe'"),
        (10, "", "not valid JSON: the text ends (Expecting ',' delimiter)"),
    ]
    assert "did you mean 'query_id'?" in listed(path)[8]


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
        pipeline_labels=[{"case_id": "case1", "min_citations": "2"}, {"case_id": "case1"}],
        groundedness_labels=[{"case_id": "case1", "expected_claim": []}],
        safety_inputs=[{"text": "x", "label": 2}, {"text": "x"}],
    )
    assert [(m.file, m.line, m.field, m.value) for m in validate_testset(folder)] == [
        ("cases.jsonl", 2, "case_id", "'case1'"),
        ("cases.jsonl", 3, "query", "missing"),
        ("groundedness_labels.jsonl", 1, "expected_claim", "an unknown field"),
        ("pipeline_labels.jsonl", 1, "min_citations", "'2'"),
        ("retrieval_labels.jsonl", 1, "case_id", "'case2'"),
        ("retrieval_labels.jsonl", 3, "relevance_grades", "[4]"),
        ("safety_inputs.jsonl", 1, "label", "2"),
        ("safety_inputs.jsonl", 2, "label", "missing"),
    ]
    assert "did you mean 'case1'?" in listed(folder)[4]


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ({"a": 4}, "a grade: 0 (not relevant), 1, 2 or 3"),
        ({"a": True}, "a grade: 0 (not relevant), 1, 2 or 3"),
        ({"a": 0}, "1, 2 or 3 as the grade of 'a', since relevant_docs names it"),
        ([1], "2 grades, one for each of relevant_docs"),
        ("high", "fields with values {...}"),
    ],
)
def test_grades_of_perspectives(grades: object, expected: str, tmp_path: Path) -> None:
    labels = {"case_id": "c", "relevant_docs": ["a", "b"], "relevance_grades": grades}
    folder = folder_of(tmp_path, cases=[{"case_id": "c", "query": "?"}], retrieval_labels=[labels])
    assert [problem.expected for problem in validate_testset(folder)] == [expected]


def test_labels_without_cases(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, context_labels=[{"case_id": "c", "gold_facts": ["x"]}])
    assert listed(folder) == [
        "context_labels.jsonl, line 1: case_id is 'c'; expected cases.jsonl, which holds its query"
    ]


@pytest.mark.parametrize(
    ("name", "content", "value"),
    [
        ("a.yaml", b"", "the file is empty"),
        ("a.json", b"", "not valid JSON: the text ends"),
        ("a.jsonl", b"\n\n", "the file is empty"),
        ("a.yaml", b"cases:\n- \xff", "byte 0xff is not UTF-8"),
        ("a.json", b'{"cases": [\n"\xff"]}', "byte 0xff is not UTF-8"),
        ("a.jsonl", b'\n{"query_id": "\xff"}', "byte 0xff is not UTF-8"),
        ("a.yaml", b"cases: [\x07]", "not valid YAML: special characters are not allowed"),
        ("a.yaml", b"cases: [", "not valid YAML: "),
        ("a.yaml", b"cases: []\n---\ncases: []", "a second document (---)"),
        (
            "a.yaml",
            b"cases: !!python/object/apply:os.system [ls]",
            "the tag 'tag:yaml.org,2002:python/object/apply",
        ),
        ("a.yaml", b"cases: *there", "not valid YAML: found undefined alias 'there'"),
        ("a.yaml", b"&a [*a]", "too deep"),
        ("a.yaml", b"? [a]\n: b", "a field name that is a list"),
        ("a.yaml", b"cases: " + b"[" * 400 + b"]" * 400, "too deep"),
        ("a.yaml", b"cases: " + b"[" * 200_000, "too deep"),
        ("a.json", b"[" * 200_000, "not valid JSON: too deep"),
        ("a.jsonl", b'{"a":' * 100_000, "not valid JSON: too deep"),
        ("a.json", b"[1" + b"0" * 5000 + b"]", "not valid JSON: the number"),
        ("a.json", b"[1e999]", "not valid JSON: the number"),
        ("a.json", b'[{"a": Infinity}]', "not valid JSON: the number 'Infinity"),
        ("a.json", b"[1,]", "not valid JSON: ']'"),
        ("a.json", b"[] x", "not valid JSON: 'x'"),
        ("a.json", b"{'a': 1}", "not valid JSON: "),
        ("a.json", b'"\n"', "not valid JSON: '"),
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


def test_aliases_are_bounded(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    assert listed(write(tmp_path / "a.yaml", bomb + "cases: [*i]")) == [
        "a.yaml, line 1: too many aliases; expected aliases that expand to 100,000 values at most"
    ]
    fair = (
        "shared: &s {query: same?}\ncases:\n- {id: q1, <<: *s}\n- id: q2\n  <<: *s\n  query: own?\n"
    )
    assert load_testset(write(tmp_path / "b.yaml", fair)).queries == {"q1": "same?", "q2": "own?"}


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
        match=r"1 cases have the field 'difficulty', which this form does not know: it is",
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
        ("a.txt", "is not the name of a test set; expected a .yaml"),
        ("empty", "holds no test set; expected a .yaml"),
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
        "cases:\n" + "- {id: q1, query: Why?, expected_answer: x}\n" * 300, encoding="utf-8"
    )
    with pytest.raises(DataError, match="300 problems"):
        load_testset(file)
    assert len(searched) < 10
