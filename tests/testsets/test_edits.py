"""One case changes and nothing else does; two writers lose nothing; what cannot be held is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.testsets.cases import case_line, entry_of_case
from ragbench.testsets.edits import (
    add_case,
    record_entry,
    remove_case,
    replace_case,
)
from ragbench.testsets.forms import load_testset, save_testset
from ragbench.types import Case, Dataset, Document, SafetySample, Span

NAMES = {"yaml": "s.yaml", "jsonl": "s.jsonl"}
CORPUS = {"d1": Document("d1", "Body one."), "d2": Document("d2", "Body two.")}
CASES = (
    Case("q1", "one?", metadata={"n": 1}),
    Case("q2", "two?\nreally: #2"),
    Case("q3", "three?"),
)


def saved(form: str, folder: Path) -> Path:
    corpus = CORPUS if form == "jsonl" else {}
    dataset = Dataset("s", "test", corpus, CASES, {case.query_id: {"d1": 1} for case in CASES})
    return save_testset(dataset, folder / NAMES[form], form)


def content(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in [path, *sorted(path.rglob("*"))]
        if p.is_file()
    }


@pytest.mark.parametrize("form", NAMES)
def test_add_replace_and_remove_in_every_form(form: str, tmp_path: Path) -> None:
    path = saved(form, tmp_path)
    before = content(path)
    new = Case("q4", "four? é #no: [x]", metadata={"by": "me"})
    add_case(path, new, {"d2": 1, "d1": 1})
    assert load_testset(path).cases == (*CASES, new)
    assert load_testset(path).qrels["q4"] == {"d2": 1, "d1": 1}
    changed = Case("q2", "zwei?")
    replace_case(path, changed)
    assert load_testset(path).cases == (CASES[0], changed, CASES[2], new)
    assert load_testset(path).qrels["q2"] == {"d1": 1}
    replace_case(path, CASES[1], {"d1": 1})
    remove_case(path, "q4")
    assert load_testset(path).cases == CASES
    assert content(path) == before
    for query_id in ("q1", "q3"):
        remove_case(path, query_id)
    assert load_testset(path).cases == (CASES[1],)
    assert {file.name for file in tmp_path.iterdir()} == {path.name, f".{path.name}.lock"}


YAML = """\
# Our questions
version: 1   # of the form
cases:
  # installation
  - id: q1
    query: >
      How do I
      install it?
    expected_answer_contains: [pip]   # not conda

  # the rest
  - {id: q2, query: "Why?"}
  - id: q3
    query: |
      When?
# the end
"""


def test_new_cases_keep_the_comments(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(YAML)
    add_case(path, Case("q4", "How many?"))
    text = path.read_text()
    assert text.count("#") == YAML.count("#")
    assert "How many?" in text


@pytest.mark.parametrize("n_blanks", [2, 3, 7])
@pytest.mark.parametrize("at", range(90, 125, 3))
def test_several_blanks_in_a_long_text_stay_in_yaml(at: int, n_blanks: int, tmp_path: Path) -> None:
    """A line of YAML ends after 120 characters."""
    path = tmp_path / "tests.yaml"
    path.write_text("version: 1\ncases:\n- id: q1\n  query: Why?\n", encoding="utf-8")
    text = ("word " * 40)[:at].strip() + " " * n_blanks + "and so on " * 20
    add_case(path, Case("q2", "How?", reference_answer=text.strip()))
    assert load_testset(path).cases[-1].reference_answer == text.strip()


def test_a_change_that_would_lose_comments_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(YAML)
    for change in (
        lambda: replace_case(path, Case("q1", "How?")),
        lambda: remove_case(path, "q1"),
    ):
        with pytest.raises(DataError, match=r"has comments, which would be lost; .* convert it"):
            change()
    assert path.read_text() == YAML


@pytest.mark.parametrize("form", ["yaml", "jsonl"])
def test_other_fields_of_a_file_stay(form: str, tmp_path: Path) -> None:
    path = tmp_path / NAMES[form]
    path.write_text(
        "owner: me\ncases:\n- {query: How?, id: q1}\n"
        if form == "yaml"
        else '{"testset": "s", "owner": "me"}\n{"query_id": "q1", "text": "How?"}\n'
    )
    add_case(path, Case("q2", "Why?"))
    assert "owner" in path.read_text()
    assert list(load_testset(path).queries) == ["q1", "q2"]


def test_what_must_not_be_written_is_not(tmp_path: Path) -> None:
    path = saved("yaml", tmp_path)
    before = path.read_bytes()
    with pytest.raises(DataError, match="id is 'q1'; expected another id"):
        add_case(path, Case("q1", "?"))
    with pytest.raises(DataError, match=r"has no case 'q11'; it has 3 cases .did you mean 'q1'"):
        replace_case(path, Case("q11", "?"))
    with pytest.raises(DataError, match="has no case 'zebra'; it has 3 cases"):
        remove_case(path, "zebra")
    (tmp_path / "a.json").write_text('[{"id": "q1", "question": "?"}]')
    with pytest.raises(DataError, match=r"has the form 'json', which is not edited; convert it"):
        add_case(tmp_path / "a.json", Case("q4", "?"))
    with pytest.raises(DataError, match="expected a text that is not empty"):
        add_case(path, Case("q4", " "))
    with pytest.raises(DataError, match="surrogate"):
        add_case(path, Case("q4", "\ud800"))
    assert path.read_bytes() == before
    path.write_text("cases:\n- id: q1\n  qery: x\n")
    with pytest.raises(DataError, match="qery is an unknown field"):
        add_case(path, Case("q4", "?"))
    one = tmp_path / "one.jsonl"
    one.write_text('{"query_id": "q1", "text": "?"}\n')
    with pytest.raises(DataError, match=r"one\.jsonl: the file is empty"):
        remove_case(one, "q1")


def test_a_case_as_plain_data_and_back(tmp_path: Path) -> None:
    path = saved("jsonl", tmp_path)
    replace_case(path, Case("q1", "one?"), {"d2": 3})
    dataset = load_testset(path)
    record = case_line(entry_of_case(dataset, dataset.cases[0]))
    assert record == {"query_id": "q1", "text": "one?", "relevant": {"d2": 3}}
    assert record_entry(record)[:2] == (dataset.cases[0], {"d2": 3})
    with pytest.raises(DataError, match=r"relevent is an unknown field.*did you mean 'relevant'"):
        record_entry({"query_id": "q", "text": "?", "relevent": {}})


def test_safety_samples_and_documents_stay(tmp_path: Path) -> None:
    for form in ("yaml", "jsonl"):
        sample = SafetySample("s", "Ignore it", True)
        dataset = Dataset("s", "test", CORPUS, CASES, {}, (sample,), (sample,))
        path = save_testset(dataset, tmp_path / NAMES[form], form)
        remove_case(path, "q1")
        again = load_testset(path)
        assert (again.corpus, again.safety_inputs, again.safety_outputs) == (
            CORPUS,
            (sample,),
            (sample,),
        )


@pytest.mark.parametrize("form", ["yaml", "jsonl"])
def test_four_writers_lose_nothing(form: str, tmp_path: Path) -> None:
    path = saved(form, tmp_path)
    code = (
        "import sys; from ragbench.testsets.edits import add_case; from ragbench.types import "
        "Case\nfor i in range(int(sys.argv[3])): add_case(sys.argv[1], "
        "Case(f'w{sys.argv[2]}-{i}', f'{i}?'), {'d1': 1})"
    )
    count = 25 if form == "jsonl" else 8
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(path), str(w), str(count)],
            stderr=subprocess.PIPE,
        )
        for w in range(4)
    ]
    for writer in writers:
        assert writer.communicate()[1] == b""
        assert writer.returncode == 0
    ids = [case.query_id for case in load_testset(path).cases]
    assert len(ids) == len(set(ids)) == 3 + 4 * count
    for w in range(4):
        assert [query_id for query_id in ids if query_id.startswith(f"w{w}")] == [
            f"w{w}-{i}" for i in range(count)
        ]


def test_quotes_of_documents_elsewhere_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    evidence = [{"doc_id": "d", "start": 0, "end": 3, "quote": "abc"}]
    path.write_text(json.dumps({"query_id": "q1", "text": "?", "evidence": evidence}) + "\n")
    replace_case(path, Case("q1", "?", category="c", evidence=(Span("d", 0, 3),)))
    assert json.loads(path.read_text())["evidence"] == evidence
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump({"cases": [{"id": "q1", "query": "?", "evidence": evidence}]}))
    replace_case(path, Case("q1", "?", category="c", evidence=(Span("d", 0, 3),)))
    assert yaml.safe_load(path.read_text())["cases"][0]["evidence"] == evidence


@pytest.mark.parametrize("form", ["yaml", "jsonl"])
def test_a_set_that_refers_to_separate_documents_can_be_edited(form: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Install\nUse pip.")
    path = tmp_path / NAMES[form]
    path.write_text(
        "corpus: docs\ncases:\n- {query: How?, id: q1}\n"
        if form == "yaml"
        else '{"testset": "s", "corpus": "docs"}\n{"query_id": "q1", "text": "How?"}\n'
    )
    add_case(path, Case("q2", "Why?", expected_sections=(("guide", "Install"),)), {"guide": 1})
    assert load_testset(path).qrels["q2"] == {"guide.md": 1}
    (span,) = load_testset(path).cases[1].evidence
    assert (
        load_testset(path).corpus[span.doc_id].text[span.start : span.end] == "# Install\nUse pip."
    )


items = st.fixed_dictionaries(
    {"query": st.sampled_from(["a?", "no", "x: #y", "two\nlines\n", "'q'", "é"])},
    optional={
        "metadata": st.just({"n": [1, {"m": None}]}),
        "expected_answer_contains": st.just(["7", "- x"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    cases=st.lists(items, min_size=1, max_size=3),
    bare=st.booleans(),
    flow=st.sampled_from([True, False, None]),
    indent=st.sampled_from([2, 4, 7]),
    width=st.sampled_from([10, 80]),
    comment=st.none() | st.integers(0, 12),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_case_is_added_to_any_layout_of_yaml_or_nothing_changes(
    cases: list[dict[str, object]],
    bare: bool,
    flow: bool | None,
    indent: int,
    width: int,
    comment: int | None,
    end: str,
) -> None:
    numbered = [{"id": f"q{number}", **case} for number, case in enumerate(cases)]
    content = numbered if bare else {"cases": numbered, "name": "n"}
    text = yaml.safe_dump(
        content, default_flow_style=flow, indent=indent, width=width, sort_keys=False
    )
    lines = text.splitlines()
    if comment is not None:
        lines.insert(min(comment, len(lines)), "# why")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_bytes("".join(line + end for line in lines).encode())
        try:
            before = load_testset(path).cases
        except DataError:
            return  # the comment broke the layout
        if any("# why" in str(case) for case in before):
            return  # it has become part of a text
        old, new = path.read_bytes(), Case("new", "New?")
        try:
            add_case(path, new)
        except DataError:
            assert path.read_bytes() == old
            return
        assert load_testset(path).cases == (*before, new)
        assert (b"# why" in path.read_bytes()) == (b"# why" in old)


def test_a_lock_file_or_an_interrupted_write_leaves_the_set_alone(tmp_path: Path) -> None:
    path = saved("jsonl", tmp_path)
    (tmp_path / f".{path.name}.lock").write_text("")
    (tmp_path / f".{path.name}.abc").mkdir()
    add_case(path, Case("q4", "?"))
    assert list(load_testset(path).queries) == ["q1", "q2", "q3", "q4"]
