"""Gold answers and spans in a BEIR folder: every shape, offsets moved behind the title and
verified.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ragbench.datasets.beir import load_beir_folder
from ragbench.errors import DataError, DataWarning
from ragbench.types import Case, Span

WriteFolder = Callable[..., Path]

HEADER = "query-id\tcorpus-id\tscore\n"


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def first_case(folder: Path) -> Case:
    return load_beir_folder(folder).cases[0]


def test_plain_answer_and_its_other_fields(write_folder: WriteFolder) -> None:
    answers = jsonl({"_id": "q1", "answer": "One.", "label": "yes"}, {"_id": "q2", "answer": None})
    dataset = load_beir_folder(write_folder({"answers.jsonl": answers}))
    assert dataset.cases[0] == Case(
        "q1", "one?", reference_answer="One.", metadata={"label": "yes"}
    )
    assert dataset.cases[1] == Case("q2", "two?")


def test_list_of_strings_is_one_fact_with_aliases(write_folder: WriteFolder) -> None:
    case = first_case(
        write_folder({"answers.jsonl": jsonl({"_id": "q1", "answers": ["US", "USA", "US"]})})
    )
    assert case.reference_answer == "US"
    assert case.gold_facts == (("US", "USA"),)
    assert case.evidence == ()


def test_short_answer_at_its_place_is_moved_behind_the_title(write_folder: WriteFolder) -> None:
    answers = jsonl(
        {"_id": "q1", "doc_id": "d1", "answers": [{"text": "one", "answer_start": 5}] * 2},
        {"_id": "q2", "doc_id": "d2", "answers": [{"text": "two", "answer_start": 5}]},
    )
    dataset = load_beir_folder(write_folder({"answers.jsonl": answers}))
    assert dataset.cases[0].evidence == (Span("d1", 11, 14),)  # "Head\n\n" is 6 characters
    assert dataset.cases[0].gold_facts == (("one",),)
    assert dataset.cases[1].evidence == (Span("d2", 5, 8),)  # no title, nothing to move


def test_grounded_answer_takes_the_first_with_content(write_folder: WriteFolder) -> None:
    record = {
        "_id": "q1",
        "answerable": True,
        "passage_ids": ["d2", "d1"],
        "sentences": [["Body one."]],
        "answers": [
            {"answer": "", "selected_sentences": []},
            {"answer": "It is one.", "selected_sentences": ["Body one."]},
            {"answer": "Or two.", "selected_sentences": ["Body two."]},
        ],
    }
    case = first_case(write_folder({"answers.jsonl": jsonl(record)}))
    assert case.reference_answer == "It is one."
    assert case.expected_outcome == "success"
    assert case.evidence == (Span("d1", 6, 15),)
    assert case.metadata == {}


def test_selected_sentence_that_is_nowhere_is_warned_about(write_folder: WriteFolder) -> None:
    record = {
        "_id": "q1",
        "passage_ids": ["d1"],
        "answers": [{"answer": "x", "selected_sentences": ["Body one.", "Not there."]}],
    }
    with pytest.warns(
        DataWarning, match=r"1 queries have a selected sentence that is not in its passage.*'q1'"
    ):
        case = first_case(write_folder({"answers.jsonl": jsonl(record)}))
    assert case.evidence == (Span("d1", 6, 15),)


def test_unanswerable_query_without_judgement_is_kept(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {
            "qrels/test.tsv": HEADER + "q2\td2\t1\n",
            "answers.jsonl": jsonl({"_id": "q1", "answerable": False, "answers": [{"answer": ""}]}),
        }
    )
    dataset = load_beir_folder(folder)
    assert dataset.qrels == {"q1": {}, "q2": {"d2": 1}}
    assert dataset.cases[0] == Case("q1", "one?", expected_outcome="no_results")


def test_unanswerable_query_that_another_split_judges_belongs_there(
    write_folder: WriteFolder,
) -> None:
    folder = write_folder(
        {
            "qrels/test.tsv": HEADER + "q2\td2\t1\n",
            "qrels/dev.tsv": HEADER + "q1\td1\t0\n",
            "answers.jsonl": jsonl({"_id": "q1", "is_impossible": True, "answers": []}),
        }
    )
    with pytest.warns(DataWarning, match="1 queries have no judgement in split 'test'"):
        assert list(load_beir_folder(folder).queries) == ["q2"]
    with pytest.warns(DataWarning, match="1 queries have no judgement in split 'dev'"):
        dataset = load_beir_folder(folder, "dev")
    assert dataset.qrels == {"q1": {"d1": 0}}
    assert dataset.cases[0].expected_outcome == "no_results"


def test_answers_to_other_queries_are_warned_about(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {"answers.jsonl": jsonl({"_id": "q9", "answer": "x"}, {"_id": "q1", "answer": "y"})}
    )
    with pytest.warns(
        DataWarning, match=r"answers.jsonl: 1 queries are not in queries.jsonl.*'q9'"
    ):
        assert first_case(folder).reference_answer == "y"


def test_questions_and_answers_are_joined_without_repeating_a_span(
    write_folder: WriteFolder,
) -> None:
    folder = write_folder(
        {
            "questions.jsonl": jsonl(
                {
                    "_id": "q1",
                    "corpus_id": "d1",
                    "question": "one?",
                    "references": [
                        {"content": "Body", "start_index": 0, "end_index": 4},
                        {"content": "one", "start_index": 5, "end_index": 8},
                    ],
                }
            ),
            "answers.jsonl": jsonl(
                {"_id": "q1", "doc_id": "d1", "answers": [{"text": "one", "answer_start": 5}]}
            ),
        }
    )
    assert first_case(folder).evidence == (Span("d1", 6, 10), Span("d1", 11, 14))


def test_offsets_count_characters_not_bytes(write_folder: WriteFolder) -> None:
    text = "naïve 🙂 body"
    folder = write_folder(
        {
            "corpus.jsonl": jsonl(
                {"_id": "d1", "title": "é", "text": text}, {"_id": "d2", "text": "x"}
            ),
            "questions.jsonl": jsonl(
                {
                    "_id": "q1",
                    "corpus_id": "d1",
                    "references": [{"content": "body", "start_index": 8, "end_index": 12}],
                }
            ),
        }
    )
    dataset = load_beir_folder(folder)
    (span,) = dataset.cases[0].evidence
    assert dataset.corpus["d1"].full_text[span.start : span.end] == "body"


def question(**changed: object) -> dict[str, object]:
    reference = {"content": "one", "start_index": 5, "end_index": 8, **changed}
    return {"_id": "q1", "corpus_id": "d1", "references": [reference]}


MALFORMED: dict[str, tuple[str, dict[str, object], list[str]]] = {
    "other text": (
        "questions",
        question(start_index=4, end_index=7),
        ["line 1", "' on'", "at character 4", "'one'"],
    ),
    "byte length": (
        "questions",
        question(end_index=9),
        ["from 5 to 9 quotes 3 characters", "not bytes"],
    ),
    "empty quote": ("questions", question(content="", end_index=5), ["no text"]),
    "negative": (
        "questions",
        question(start_index=-3, end_index=0),
        ["'start_index' is -3", "0"],
    ),
    "offset is text": ("questions", question(end_index="8"), ["'end_index' is '8'"]),
    "past the end": (
        "questions",
        question(start_index=7, end_index=10),
        ["'e.'", "at character 7"],
    ),
    "no document": ("questions", {**question(), "corpus_id": "d9"}, ["'d9'", "not in the corpus"]),
    "no corpus_id": (
        "questions",
        {"_id": "q1", "references": [{"content": "x"}]},
        ["no offset"],
    ),
    "no id": ("answers", {"answer": "x"}, ["'_id' is missing"]),
    "answer is a list": ("answers", {"_id": "q1", "answer": ["x"]}, ["'answer' is ['x']"]),
    "answers is text": ("answers", {"_id": "q1", "answers": "x"}, ["'answers' is 'x'", "list"]),
    "answers hold numbers": ("answers", {"_id": "q1", "answers": [3]}, ["'answers' is 3"]),
    "answerable": (
        "answers",
        {"_id": "q1", "answerable": "no"},
        ["'answerable' is 'no'", "boolean"],
    ),
    "no place": (
        "answers",
        {"_id": "q1", "answers": [{"text": "x", "answer_start": 0}]},
        ["no document"],
    ),
    "wrong place": (
        "answers",
        {"_id": "q1", "doc_id": "d1", "answers": [{"text": "one", "answer_start": 0}]},
        ["'Bod'", "at character 0"],
    ),
    "sentences": (
        "answers",
        {"_id": "q1", "answers": [{"answer": "x", "selected_sentences": [1]}]},
        ["'selected_sentences' is 1"],
    ),
    "passages": (
        "answers",
        {"_id": "q1", "passage_ids": "d1", "answers": [{"answer": "x"}]},
        ["'passage_ids' is 'd1'"],
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_line_is_one_clear_error(name: str, write_folder: WriteFolder) -> None:
    file, record, expected = MALFORMED[name]
    with pytest.raises(DataError) as caught:
        load_beir_folder(write_folder({f"{file}.jsonl": jsonl(record)}))
    for part in [f"{file}.jsonl, line 1", *expected]:
        assert part in str(caught.value)


def test_same_query_twice_is_refused(write_folder: WriteFolder) -> None:
    answers = jsonl({"_id": "q1", "answer": "x"}, {"_id": "q1", "answer": "y"})
    with pytest.raises(
        DataError, match=r"answers.jsonl, line 2: query id 'q1' is on line 1 already"
    ):
        load_beir_folder(write_folder({"answers.jsonl": answers}))


@pytest.mark.parametrize("name", ["answers.jsonl", "questions.jsonl"])
@pytest.mark.parametrize(
    "fields",
    [
        {"text": "One."},
        {"Answer": "One."},
        {"reference": "One.", "category": "easy"},
        {"question": "one?", "doc_id": "d1"},
        {},
    ],
)
def test_a_line_without_a_known_label_is_refused_with_its_number(
    name: str, fields: dict[str, str], write_folder: WriteFolder
) -> None:
    lines = jsonl({"_id": "q1", "answer": "One."}, {"_id": "q2", **fields})
    with pytest.raises(
        DataError, match=rf"{name}, line 2: no field of the line is known .*'answer'"
    ):
        load_beir_folder(write_folder({name: lines}))
