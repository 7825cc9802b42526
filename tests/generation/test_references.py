"""Reference answers: which documents, in which order, and what is written where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError, ModelError
from ragbench.generation import references
from ragbench.llms import ScriptedLLM, dry_run
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Completion, Dataset, Document, Span

CORPUS = {
    "river": Document(
        "river", "The Seine flows through Paris and reaches the sea at Le Havre.", "Seine"
    ),
    "tower": Document("tower", "The Eiffel tower was built in 1889 for a world fair."),
    "metro": Document("metro", "The first metro line of Paris opened in July 1900."),
    "tax": Document("tax", "Income tax is due in May."),
}


def make(*cases: Case, qrels: dict[str, dict[str, int]] | None = None) -> Dataset:
    return Dataset(
        "set", "test", CORPUS, cases, qrels or {case.query_id: {"tower": 1} for case in cases}
    )


def of(data: Dataset, k: int = 5) -> dict[str, list[str]]:
    sources = references.reference_sources(data, list(data.queries), k=k)
    return {query_id: [chunk.doc_id for chunk in found] for query_id, found in sources.items()}


def test_grades_come_first_then_closeness_then_the_order_of_the_corpus() -> None:
    grades = {"tax": 1, "metro": 1, "river": 2, "tower": 0, "empty": 3, "not there": 3}
    asked = Case("q", "When did the first metro line of Paris open?")
    data = Dataset(
        "set", "test", {**CORPUS, "empty": Document("empty", "")}, (asked,), {"q": grades}
    )
    assert of(data) == {"q": ["river", "metro", "tax"]}
    assert of(data, k=2) == {"q": ["river", "metro"]}
    twins = {name: Document(name, "The same text.") for name in ("b", "a")}
    assert of(Dataset("x", "test", twins, (Case("q", "Which?"),), {"q": {"a": 1, "b": 1}})) == {
        "q": ["b", "a"]
    }


def test_of_a_long_document_the_part_with_the_evidence_is_taken() -> None:
    text = (
        " ".join(f"Sentence number {i} says nothing." for i in range(200))
        + " The key is under the mat."
    )
    corpus = {"long": Document("long", text)}
    start = text.index("The key")
    held = Case("held", "Zebra?", evidence=(Span("long", start, start + 26),))
    near = Case("near", "Where is the key, under the mat?")
    data = Dataset("x", "test", corpus, (held, near), {"held": {"long": 1}, "near": {"long": 1}})
    sources = references.reference_sources(data, ["held", "near"], max_document_tokens=60)
    for query_id in ("held", "near"):
        (window,) = sources[query_id]
        assert window.text == text[window.start : window.end]
        assert "The key is under the mat" in window.text
        assert len(window.text) < 500
    whole = references.reference_sources(data, ["held"], max_document_tokens=5000)["held"][0]
    assert (whole.start, whole.end, whole.chunk_id) == (0, len(text), f"long#0-{len(text)}")


def test_who_gets_an_answer() -> None:
    data = make(
        Case("none", "Open?"),
        Case("person", "Answered?", reference_answer="Yes, by me."),
        Case("nothing", "Unanswerable?", expected_outcome="no_results"),
        Case("unjudged", "Without a document?"),
        qrels={
            "none": {"tower": 1},
            "person": {"tower": 1},
            "nothing": {"tower": 1},
            "unjudged": {"tower": 0},
        },
    )
    assert references.choose_queries(data) == ["none"]
    assert references.choose_queries(data, written_by=["person", "none"]) == ["none", "person"]
    assert references.choose_queries(data, written_by=["person", "none"], limit=1) == ["none"]
    assert references.choose_queries(data, query_ids=["person"]) == []
    with pytest.raises(ConfigError, match="did you mean 'none'"):
        references.choose_queries(data, query_ids=["nonee"])


def test_an_answer_records_model_prompt_and_sources(tmp_path: Path) -> None:
    folder = save_dataset(make(Case("q", "When was the tower built?")), tmp_path / "set")
    data = load_dataset(folder)
    sources = references.reference_sources(data, ["q"])
    llm = ScriptedLLM(["It was built in 1889."])
    answers = references.write_references(folder, data, sources, llm)
    assert answers[0].outcome == "success"
    line = json.loads((folder / "answers.jsonl").read_text(encoding="utf-8"))
    assert line["answer"] == "It was built in 1889."
    assert line["generated"]["model"] == "scripted:test"
    assert line["generated"]["prompt"].startswith("reference@")
    assert line["generated"]["sources"] == [{"doc_id": "tower", "start": 0, "end": 52, "grade": 1}]
    assert load_dataset(folder).cases[0].reference_answer == "It was built in 1889."
    assert references.choose_queries(load_dataset(folder)) == []
    assert CORPUS["tower"].text in llm.prompts[0]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (NO_ANSWER, "no_results"),
        ("", "failed"),
        (Completion("", "m", error="gone"), "failed"),
        (Completion("Half an ans", "m", finish="length"), "failed"),
        (Completion("I will not.", "m", finish="refusal"), "blocked"),
    ],
)
def test_only_successful_answers_are_written(
    tmp_path: Path, reply: str | Completion, outcome: str
) -> None:
    data = make(Case("q", "When?"), Case("r", "Who?"))
    sources = references.reference_sources(data, ["q", "r"])
    answers = references.write_references(
        tmp_path, data, sources, ScriptedLLM([reply, "Gustave Eiffel."])
    )
    assert answers[0].outcome == outcome
    written = [
        json.loads(line)["_id"]
        for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert written == ["r"]


def test_a_model_that_does_not_come_to_an_end_is_named(tmp_path: Path) -> None:
    data = make(Case("q", "When?"))
    sources = references.reference_sources(data, ["q"])
    reply = Completion("The answer is the answer is", "m", finish="length")
    with pytest.raises(ModelError, match=r"did not finish .* name a more capable model"):
        references.write_references(tmp_path, data, sources, ScriptedLLM([reply]))


def test_a_persons_change_made_while_the_model_writes_is_kept(tmp_path: Path) -> None:
    data = make(Case("q", "When?"))
    path = tmp_path / "answers.jsonl"

    def slow(prompt: str) -> str:
        path.write_text('{"_id": "q", "answer": "Mine."}\n', encoding="utf-8")
        return "The model's."

    references.write_references(
        tmp_path, data, references.reference_sources(data, ["q"]), ScriptedLLM(slow)
    )
    assert path.read_text(encoding="utf-8") == '{"_id": "q", "answer": "Mine."}\n'


def test_replacing_asks_for_the_models_own_answers_only(tmp_path: Path) -> None:
    folder = save_dataset(make(Case("mine", "When?"), Case("its", "Who?")), tmp_path / "set")
    data = load_dataset(folder)
    sources = references.reference_sources(data, ["mine", "its"])
    references.write_references(folder, data, sources, ScriptedLLM(["In 1889.", "Eiffel."]))
    path = folder / "answers.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace("In 1889.", "In March 1889."), encoding="utf-8"
    )
    again = load_dataset(folder)
    assert references.choose_queries(again, written_by=["none", "model"]) == ["its"]
    references.write_references(folder, again, sources, ScriptedLLM(["1889!", "Koechlin."]))
    assert [case.reference_answer for case in load_dataset(folder).cases] == [
        "In March 1889.",
        "Koechlin.",
    ]


def test_requests_that_all_fail_are_an_error_and_write_nothing(tmp_path: Path) -> None:
    data = make(Case("q", "When?"), Case("r", "Where?"))
    sources = references.reference_sources(data, ["q", "r"])
    llm = ScriptedLLM([Completion("", "scripted", error="the key is wrong")] * 2)
    with pytest.raises(ModelError, match=r"all of 2 requests .* failed: the key is wrong"):
        references.write_references(tmp_path, data, sources, llm)
    assert not (tmp_path / "answers.jsonl").exists()


def test_a_dry_run_sends_and_writes_nothing(tmp_path: Path) -> None:
    data = make(Case("q", "When?"))
    llm = ScriptedLLM(["x"])
    with dry_run() as plan:
        references.write_references(tmp_path, data, references.reference_sources(data, ["q"]), llm)
    assert [model.to_send for model in plan.models] == [1]
    assert llm.prompts == []
    assert list(tmp_path.iterdir()) == []


def test_a_line_marked_as_reviewed_is_kept(tmp_path: Path) -> None:
    data = make(Case("q", "When?"))
    sources = references.reference_sources(data, ["q"])
    references.write_references(tmp_path, data, sources, ScriptedLLM(["In 1889."]))
    path = tmp_path / "answers.jsonl"
    path.write_text(
        json.dumps({**json.loads(path.read_text(encoding="utf-8")), "reviewed": True}),
        encoding="utf-8",
    )
    references.write_references(tmp_path, data, sources, ScriptedLLM(["Later."]))
    assert json.loads(path.read_text(encoding="utf-8"))["answer"] == "In 1889."


REPLIES = """
from ragbench.llms import ScriptedLLM

def reply(prompt):
    if "When?" in prompt:
        return "In 1889."
    if "Who?" in prompt:
        return "The documents do not contain the answer."
    return "I'm sorry, but I can't help with that."

writer = ScriptedLLM(reply, name="scripted:writer")
"""


def test_the_command_tells_missing_answers_from_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {"a": "When?", "b": "Who?", "c": "How to break it?"}
    labels = {query_id: {"tower": 1} for query_id in queries}
    data = Dataset.from_dicts({"tower": "The tower was built in 1889."}, queries, labels)
    save_dataset(data, tmp_path / "beir")
    (tmp_path / "reply_models.py").write_text(REPLIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = CliRunner().invoke(app, ["answers", "beir", "--llm", "reply_models:writer"])
    assert done.exit_code == 0, done.output
    assert "1 written to" in done.output
    assert "1 not written: according to the model, the relevant documents" in done.output
    assert "1 not written: the model refused to answer" in done.output
