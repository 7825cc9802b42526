"""Which of two parts failed: by hand, at the ceiling, with every way to test an answer."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import answer_all, two_part_table
from ragbench.judges import judge
from ragbench.llms import ScriptedLLM
from ragbench.metrics.groundedness import claim_support
from ragbench.types import Answer, Case, Dataset, Document, Judgement, Run

CORPUS = {
    "a": Document("a", "Coffee improves the function of the arteries within an hour."),
    "b": Document("b", "Tea is made from leaves."),
    "c": Document("c", "Bicycles have two wheels."),
}
CASE = Case("q", "What does coffee do to arteries?")
NO_ANSWER = Case("q", "?", expected_outcome="no_results")
RIGHT = Answer("q", "Coffee improves the function of the arteries.", outcome="success")
WRONG = Answer("q", "The museum in Oslo closes on Mondays.", outcome="success")


def row(
    answer: Answer | None,
    found: list[str],
    case: Case = CASE,
    qrels: dict[str, int] | None = None,
    judged: float | None = None,
    **settings: float,
) -> dict[str, object]:
    data = Dataset("tiny", "test", CORPUS, (case,), {"q": {"a": 2, "b": 1}} if qrels is None else {"q": qrels})
    run: Run = {"q": {doc_id: float(len(found) - i) for i, doc_id in enumerate(found)}}
    judgements = [] if judged is None else [Judgement("q", "correctness", judged)]
    table = two_part_table(data, run, [answer] if answer else [], judgements, **{"min_grade": 2, **settings})  # type: ignore[arg-type]
    return {str(name): value for name, value in table.iloc[0].items()}


@pytest.mark.parametrize(
    ("answer", "found", "verdict"),
    [
        (RIGHT, ["a"], "none"),
        (RIGHT, ["b", "c"], "retrieval failed"),
        (WRONG, ["c", "a"], "generation failed"),
        (WRONG, ["c"], "both"),
    ],
)
def test_the_four_verdicts(answer: Answer, found: list[str], verdict: str) -> None:
    assert row(answer, found)["verdict"] == verdict


def test_relevant_from_a_grade_and_recall_relative_to_its_ceiling() -> None:
    both = row(RIGHT, ["c", "a", "b"], min_grade=1, k=2)
    assert (both["relevant"], both["recall"], both["ceiling"], both["retrieval"]) == (2, 0.5, 1.0, "failed")
    one = row(RIGHT, ["a", "c"], min_grade=1, k=1)
    assert (one["recall"], one["ceiling"], one["retrieval"]) == (0.5, 0.5, "passed"), "more no system can reach"


@pytest.mark.parametrize(
    ("case", "answer", "judged", "tested_by", "generation"),
    [
        (CASE, None, None, "request", "failed"),
        (CASE, Answer("q", "", outcome="failed", error="x"), None, "request", "failed"),
        (CASE, Answer("q", "Not found.", outcome="no_results"), None, "abstention", "failed"),
        (NO_ANSWER, Answer("q", "No.", outcome="no_results"), None, "abstention", "passed"),
        (CASE, WRONG, 1.0, "judge", "passed"),
        (Case("q", "?", gold_facts=(("arteries",),)), RIGHT, None, "gold facts", "passed"),
        (Case("q", "?", gold_facts=(("veins",),)), RIGHT, None, "gold facts", "failed"),
        (CASE, RIGHT, None, "relevant documents", "passed"),
    ],
)  # fmt: skip
def test_what_tests_an_answer(
    case: Case, answer: Answer | None, judged: float | None, tested_by: str, generation: str
) -> None:
    found = row(answer, ["a"], case, judged=judged)
    assert (found["tested_by"], found["generation"]) == (tested_by, generation)


def test_what_cannot_be_tested_is_undecided() -> None:
    assert row(RIGHT, ["a"], qrels={})["verdict"] == "undecided"
    assert row(RIGHT, ["lost"], qrels={"lost": 2})["verdict"] == "undecided"


@pytest.mark.parametrize("settings", [{"k": 0}, {"share": 0.0}, {"share": 1.2}])
def test_settings_out_of_range(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="expected k from 1"):
        row(RIGHT, ["a"], **settings)  # type: ignore[arg-type]


def test_only_the_nearest_relevant_documents_test_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = {f"d{i}": Document(f"d{i}", f"Text {i} about bicycles.") for i in range(86)} | {"a": CORPUS["a"]}
    data = Dataset("many", "test", corpus, (CASE,), {"q": dict.fromkeys(corpus, 2)})
    seen: list[int] = []

    def counted(text: str, documents: list[str]) -> float:
        seen.append(len(documents))
        return claim_support(text, documents)

    monkeypatch.setattr("ragbench.evaluation.two_parts.claim_support", counted)
    table = two_part_table(data, {"q": {"a": 1.0}}, [RIGHT])
    assert (table["generation"].item(), seen) == ("passed", [5])
    table = two_part_table(data, {"q": {"a": 1.0}}, [RIGHT], support_threshold=1.0)
    assert table["generation"].item() == "failed", "by a threshold of one's own"


def test_the_recall_of_a_pipeline_is_that_of_its_whole_ranking() -> None:
    corpus = {f"d{i}": Document(f"d{i}", f"Coffee and arteries, part {i}.") for i in range(10)}
    data = Dataset("ten", "test", corpus, (CASE,), {"q": dict.fromkeys(corpus, 1)})
    given = answer_all(data, "bm25", timed=0)
    assert len(given.answers[0].contexts) == 5
    assert two_part_table(data, given.documents, given.answers, k=10)["recall"].item() == 1.0


def test_a_judge_of_correctness_needs_no_chunks() -> None:
    data = Dataset("one", "test", CORPUS, (Case("q", "What does coffee do?", reference_answer="It helps."),), {"q": {}})
    answer = Answer("q", "It helps.", ("somebody's#1",))
    replies = ScriptedLLM([{"correctness": {"reason": "same", "verdict": True}}])
    assert [one.value for one in judge([answer], "correctness", replies, dataset=data, chunks=())] == [1.0]
    with pytest.raises(DataError, match="not among the 0 chunks"):
        judge([answer], "faithfulness", replies, dataset=data, chunks=())
