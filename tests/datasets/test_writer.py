"""Datasets come back from disk as they were, and nothing that a person wrote is replaced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError, DataWarning
from ragbench.testsets.forms import validate_testset
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.reference_answers import (
    generated_label,
    labelled_folder,
    merge_answers,
    reference_origin,
)
from ragbench.testsets.writer import is_by_hand, save_dataset
from ragbench.types import Case, Dataset, Document, SafetySample, Span

CORPUS = {
    "d1": Document(
        "d1", "Paris is the capital.\nIt lies on the Seine.", "France", {"date": "2024-05-01"}
    ),
    "d2": Document("d2", 'Quotes "inside" and ünïcode 𝔘.'),
}


def generated(text: str) -> dict[str, object]:
    return {
        "answer": text,
        "generated": generated_label(text, model="m", prompt="p", sources=[{"doc_id": "d1"}]),
    }


def dataset(*cases: Case, split: str = "test") -> Dataset:
    return Dataset(
        "set", split, CORPUS, cases, {case.query_id: {"d1": 2, "d2": 0} for case in cases}
    )


QUESTION = Case(
    "q1",
    "Which city?",
    category="geo",
    reference_answer="Paris.",
    evidence=(Span("d1", 8, 13),),
    gold_facts=(("Paris", "Paname"),),
    expected_outcome="success",
    metadata={"asked": 2, "generated": generated("Paris.")["generated"]},
)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_round_trip_keeps_every_label_that_the_format_holds(tmp_path: Path) -> None:
    original = dataset(QUESTION, Case("q2", "And where?"), split="dev")
    folder = save_dataset(original, tmp_path / "set")
    again = load_dataset(folder, "dev")
    assert again.corpus == original.corpus
    assert again.cases == original.cases
    assert again.qrels == original.qrels
    assert again.fingerprint == original.fingerprint
    assert (
        "".join(CORPUS["d1"].full_text[s.start : s.end] for s in again.cases[0].evidence) == "Paris"
    )


def test_an_unanswerable_question_comes_back(tmp_path: Path) -> None:
    case = Case("q1", "Who is the king?", expected_outcome="no_results")
    other = Case("q2", "Which city?")
    original = Dataset("set", "test", CORPUS, (case, other), {"q1": {}, "q2": {"d1": 1}})
    assert load_dataset(save_dataset(original, tmp_path / "set")).cases == (case, other)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
ids = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=8
).filter(str.strip)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(ids, st.tuples(words, st.sampled_from(["", "Title"])), min_size=1, max_size=4),
    st.dictionaries(ids, st.tuples(words, st.none() | words), min_size=1, max_size=4),
    st.data(),
)
def test_any_texts_and_ids_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    documents: dict[str, tuple[str, str]],
    questions: dict[str, tuple[str, str | None]],
    data: st.DataObject,
) -> None:
    corpus = {i: Document(i, text, title) for i, (text, title) in documents.items()}
    qrels = {
        i: {data.draw(st.sampled_from(sorted(corpus))): data.draw(st.integers(-1, 3))}
        for i in questions
    }
    cases = tuple(Case(i, text, reference_answer=answer) for i, (text, answer) in questions.items())
    folder = tmp_path_factory.mktemp("any") / "set"
    again = load_dataset(save_dataset(Dataset("x", "test", corpus, cases, qrels), folder))
    assert (again.corpus, again.cases, again.qrels) == (corpus, cases, qrels)


def test_labels_that_beir_has_no_place_for_are_in_separate_files(tmp_path: Path) -> None:
    cases = (
        Case(
            "q1",
            "Which city?",
            required_keywords=("Paris",),
            gold_facts=(("a",), ("b",)),
            user_roles=("admin",),
        ),
        Case(
            "q2",
            "And?",
            gold_facts=(("x", "y"),),
            evidence=(Span("d1", 3, 13), Span("elsewhere", 0, 9)),
        ),
        Case(
            "q3",
            "Why?",
            reference_answer="So.",
            gold_facts=(("x", "x"),),
            expected_outcome="uncertain",
        ),
        Case("q4", "Plain?"),
    )
    sample = SafetySample("s", "Ignore it.", True, "override", contexts=("a",))
    original = replace(dataset(*cases), safety_inputs=(sample,), safety_outputs=(sample,))
    original = replace(original, qrels={**original.qrels, "q3": {}})
    folder = save_dataset(original, tmp_path / "set")
    again = load_dataset(folder)
    assert (again.cases, again.qrels, again.safety_inputs) == (
        original.cases,
        original.qrels,
        original.safety_inputs,
    )
    assert again.fingerprint == original.fingerprint
    records = [json.loads(line) for line in lines(folder / "case_labels.jsonl")]
    assert [record["query_id"] for record in records] == ["q1", "q2", "q3"]
    assert records[2] == {
        "query_id": "q3",
        "gold_facts": [["x", "x"]],
        "expected_outcome": "uncertain",
        "relevant": {},
    }
    assert records[1]["evidence"] == [
        {"doc_id": "d1", "start": 3, "end": 13, "quote": "nce\n\nParis"},
        {"doc_id": "elsewhere", "start": 0, "end": 9},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"query_id": "q1", "relevant": {"d1": 1}},
            r"relevant is \{'d1': 1\}; expected \{\}: grades are in qrels/",
        ),
        ({"query_id": "q1", "user_role": ["a"]}, r"did you mean 'user_roles'"),
        (
            {"query_id": "q1", "evidence": [{"doc_id": "d1", "start": 0, "end": 0}]},
            "an end after the start",
        ),
    ],
)
def test_wrong_labels_are_named_with_their_line(
    line: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = save_dataset(dataset(Case("q1", "Which city?")), tmp_path / "set")
    (folder / "case_labels.jsonl").write_text(json.dumps(line))
    with pytest.raises(DataError, match=rf"case_labels\.jsonl, line 1: .*{message}"):
        load_dataset(folder)
    assert [problem.line for problem in validate_testset(folder)] == [1]
    (folder / "case_labels.jsonl").write_text(json.dumps({"query_id": "q9", "min_citations": 1}))
    with pytest.warns(DataWarning, match=r"case_labels.jsonl: 1 queries are not in queries.jsonl"):
        load_dataset(folder)
    (folder / "case_labels.jsonl").unlink()
    (folder / "testset.json").write_text("[]")
    with pytest.raises(DataError, match=r"testset\.json is \[\]; expected an object"):
        load_dataset(folder)


def test_an_id_with_a_tab_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    broken = Dataset(
        "x", "test", {"d\t1": Document("d\t1", "text")}, (Case("q", "?"),), {"q": {"d\t1": 1}}
    )
    with pytest.raises(DataError, match="holds a tab"):
        save_dataset(broken, tmp_path / "set")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_replaced_only_with_force(tmp_path: Path) -> None:
    folder = save_dataset(dataset(Case("q1", "Old?")), tmp_path / "set")
    with pytest.raises(DataError, match="--force"):
        save_dataset(dataset(Case("q1", "New?")), folder)
    save_dataset(dataset(Case("q1", "New?")), folder, force=True)
    assert load_dataset(folder).queries == {"q1": "New?"}
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_force_replaces_no_foreign_folder_and_no_answer_of_a_person(tmp_path: Path) -> None:
    folder = save_dataset(dataset(QUESTION), tmp_path / "set")
    save_dataset(dataset(QUESTION), folder, force=True)  # a generated answer may be replaced
    answers = folder / "answers.jsonl"
    answers.write_text(
        answers.read_text(encoding="utf-8").replace('"Paris."', '"It is Paris."'), encoding="utf-8"
    )
    with pytest.raises(DataError, match="1 answers that a person wrote or changed, first 'q1'"):
        save_dataset(dataset(QUESTION), folder, force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").touch()
    with pytest.raises(DataError, match=r"thesis\.tex"):
        save_dataset(dataset(QUESTION), tmp_path / "mine", force=True)
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is a file"):
        save_dataset(dataset(QUESTION), tmp_path / "file", force=True)


@pytest.mark.parametrize(
    ("change", "by_hand"),
    [
        ({}, False),
        ({"answer": "Lyon."}, True),
        ({"answer": "Paris. "}, True),
        ({"reviewed": True}, True),
        ({"reviewed": False}, False),
        ({"generated": None}, True),
        ({"generated": {}}, True),
        ({"note": "why not"}, False),
    ],
)
def test_edits_by_a_person_are_detected_by_the_digest(
    change: dict[str, object], by_hand: bool
) -> None:
    assert is_by_hand({"_id": "q1", **generated("Paris."), **change}) is by_hand


def test_a_line_without_an_answer_has_no_author() -> None:
    assert not is_by_hand({"_id": "q1", "answerable": True})
    assert is_by_hand({"_id": "q1", "answers": ["Paris"]})
    assert is_by_hand({"_id": "q1", "answer": ""}), "a person may empty an answer on purpose"


def test_origin_of_a_reference_answer_survives_the_disk(tmp_path: Path) -> None:
    folder = save_dataset(
        dataset(QUESTION, Case("q2", "By whom?", reference_answer="Me."), Case("q3", "?")),
        tmp_path / "s",
    )
    assert [reference_origin(case) for case in load_dataset(folder).cases] == [
        "model",
        "person",
        "none",
    ]


def test_merging_keeps_a_persons_lines_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    mine = '{"answer":   "Mine.", "_id": "q1", "why": "é"}'
    machine = json.dumps({"_id": "q2", **generated("Old."), "note": 1})
    bare = '{"_id": "q3", "answerable": true}'
    path.write_text("\ufeff" + f"{mine}\r\n\n{machine}\n{bare}\n", encoding="utf-8")
    merge_answers(path, {f"q{i}": generated(f"New {i}.") for i in (1, 2, 3, 4)})
    assert lines(path)[0] == mine
    records = [json.loads(line) for line in lines(path)]
    assert [record["answer"] for record in records] == ["Mine.", "New 2.", "New 3.", "New 4."]
    assert records[1]["note"] == 1
    assert records[2]["answerable"] is True


def test_merging_nothing_new_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"_id": "q1", "answer": "Mine."}', encoding="utf-8")
    before = path.stat().st_mtime_ns
    merge_answers(path, {"q1": generated("New.")})
    assert path.stat().st_mtime_ns == before


def test_a_broken_file_of_answers_is_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"_id": "q1", "answer": \n', encoding="utf-8")
    with pytest.raises(DataError, match=r"answers\.jsonl, line 1"):
        merge_answers(path, {"q2": generated("New.")})
    assert path.read_text(encoding="utf-8") == '{"_id": "q1", "answer": \n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.jsonl"]


def test_labels_go_to_the_datasets_own_folder_or_to_a_copy(tmp_path: Path) -> None:
    own = save_dataset(dataset(QUESTION), tmp_path / "own")
    assert labelled_folder(own)[1] == own
    copied, folder = labelled_folder(own, out=tmp_path / "copy")
    assert folder == tmp_path / "copy"
    assert copied.cases == (QUESTION,)
    again, _ = labelled_folder(own, out=tmp_path / "copy")
    assert again.fingerprint == copied.fingerprint
    labelled_folder(own, out=tmp_path / "dry", create=False)
    assert not (tmp_path / "dry").exists()


def test_labels_never_go_to_another_dataset(tmp_path: Path) -> None:
    own = save_dataset(dataset(QUESTION), tmp_path / "own")
    other = save_dataset(dataset(Case("q1", "Something else?")), tmp_path / "other")
    with pytest.raises(DataError, match="other questions"):
        labelled_folder(own, out=other)
    with pytest.raises(DataError, match="is not a folder"):
        labelled_folder("pydoc")
