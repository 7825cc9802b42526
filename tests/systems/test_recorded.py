"""RecordedSystem: ragbench's own answers, and logs that others wrote."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.evaluation.formats import json_lines
from ragbench.systems import Pipeline, RecordedSystem, ask
from ragbench.types import Answer, Case, Completion, Dataset, Passage

DATA = Dataset(
    "demo", "test", {}, [Case("q1", "When did it open?"), Case("q2", "Who built it?")], {}
)


def written(folder: Path, *records: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("own", [{"id": "d1"}, {}, {"id": "d1~2"}])
def test_contexts_of_one_id_are_read_in_linear_time(tmp_path: Path, own: dict[str, str]) -> None:
    contexts = [{"text": "Brunel did.", **own} for _ in range(30_000)]
    log = written(
        tmp_path,
        {"query_id": "q1", "answer": "Brunel.", "contexts": [{"id": "d1", "text": "a"}, *contexts]},
    )
    start = time.process_time()
    answer = RecordedSystem(log).answer("q1", "Who?")
    assert time.process_time() - start < 10  # in quadratic time 100
    ids = [one.passage_id for one in answer.passages]
    assert len(set(ids)) == 30_001
    assert (ids[0], ids[1].partition("~")[2], ids[2].rpartition("~")[2]) in (
        ("d1", "2", "3"),
        ("d1", "", "2"),
        ("d1", "2", "2"),
    )


def test_a_log_with_ids(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        {
            "query_id": "q2",
            "answer": "Brunel [1].",
            "contexts": [{"id": 5, "text": "Brunel did.", "score": 0.5}],
        },
        {
            "query_id": "q1",
            "answer": "1881",
            "latency_ms": {"total": 12},
            "usage": {"prompt_tokens": 3},
            "extra": 1,
        },
    )
    answers = ask(RecordedSystem(log), DATA)
    assert answers[0] == Answer(
        "q1", "1881", outcome="success", usage=Completion("1881", "", 3), latency_ms={"total": 12.0}
    )
    assert answers[1].passages == (Passage("5", "Brunel did.", score=0.5),)
    assert (answers[1].contexts, answers[1].citations) == (("5",), ("5",))


def test_a_log_with_questions_only_as_ragas_has_them(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        {
            "user_input": "when did  it open?",
            "response": "1881",
            "retrieved_contexts": ["It opened in 1881."],
        },
        {
            "user_input": "Who built it?",
            "response": "Brunel",
            "retrieved_contexts": ["Brunel built it."],
        },
    )
    answers = ask(RecordedSystem(log), DATA)
    assert [answer.text for answer in answers] == ["1881", "Brunel"]
    assert answers[0].contexts == (answers[0].passages[0].passage_id,)


def test_a_question_that_the_log_lacks_has_failed(tmp_path: Path) -> None:
    log = RecordedSystem(written(tmp_path, {"query_id": "q1", "answer": "1881"}))
    assert [answer.error for answer in ask(log, DATA)] == [None, "log has no answer to 'q2'"]


def test_the_answers_of_a_result_folder_come_back_as_they_were(tmp_path: Path) -> None:
    data = rb.load_dataset("pydoc")
    data = data.select(list(data.queries)[:8])
    llm = rb.llms.ScriptedLLM(lambda prompt: "It is a statement [1], not that [9].")
    answers = ask(Pipeline(data, llm=llm), data)
    scores = rb.score_run(data.qrels, {})
    rb.save(
        rb.evaluation.new_result(
            parameters={}, dataset=data, run={}, scores=scores, answers=answers
        ),
        tmp_path / "run",
    )
    file = tmp_path / "run" / "answers.jsonl"
    assert ask(RecordedSystem(file), data) == list(rb.load_result(tmp_path / "run").answers)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))
    assert len(RecordedSystem(file).unasked({})) == 3, "its times may be of more answers"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"answer": "1881"}, "line 2: which question?"),
        ({"query_id": "q1", "answer": "again"}, "line 2: a second answer to 'q1'"),
        (
            {"query_id": "q2", "answer": ["x"], "confidence": "high"},
            r"line 2: answer is \['x'\].*confidence is 'high'",
        ),
        ({"query_id": "q2", "contexts": [{"score": "x"}]}, "contexts.0.score is 'x'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, record: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        RecordedSystem(written(tmp_path, {"query_id": "q1", "answer": "1881"}, record))


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no answer"):
        RecordedSystem(written(tmp_path))


def test_a_dead_system_can_be_recorded_too(tmp_path: Path) -> None:
    log = written(
        tmp_path,
        {"query_id": "q1", "error": "timeout"},
        {"query_id": "q2", "answer": "x", "outcome": "failed"},
    )
    assert [answer.error for answer in ask(RecordedSystem(log), DATA)] == [
        "timeout",
        "the system reports a failure without a reason",
    ]


def test_records_of_memory(recwarn: pytest.WarningsRecorder) -> None:
    assert ask(RecordedSystem([Answer("q1", "a"), Answer("q2", "b")]), DATA)[1].text == "b"
    assert not [warning for warning in recwarn if issubclass(warning.category, DataWarning)]


def test_an_answer_without_a_text_keeps_its_passages(tmp_path: Path) -> None:
    passages = (Passage("cats#0-4", "Cats sleep.", "cats", 6.5),)
    kept = Answer("q1", "", ("cats#0-4",), flags=("retrieval_only",), passages=passages)
    log = tmp_path / "answers.jsonl"
    log.write_text(json_lines([kept]), encoding="utf-8")
    again = RecordedSystem(log).answer("q1", "How long?")
    assert (again.contexts, again.passages) == (kept.contexts, kept.passages)
