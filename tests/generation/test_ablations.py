"""answer_ablations: gold evidence, the best chunks there are, and nothing; all else as it was."""

from __future__ import annotations

from ragbench.generation import answer_ablations
from ragbench.llms import ScriptedLLM
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.types import Case, Chunk, Dataset, Document, Span

TEXT = "The railway opened in 1881. It climbs two thousand metres in forty-eight miles."
CORPUS = {"rail": Document("rail", TEXT), "tea": Document("tea", "Tea is green.", title="Tea")}
CHUNKS = [
    Chunk("rail#0", "rail", 0, 40, TEXT[:40]),
    Chunk("rail#1", "rail", 40, len(TEXT), TEXT[40:]),
    Chunk("tea#0", "tea", 0, 18, "Tea\n\nTea is green."),
]


def dataset(*cases: Case, qrels: dict[str, dict[str, int]] | None = None) -> Dataset:
    return Dataset("tiny", "test", CORPUS, cases, qrels or {})


def test_oracle_shows_the_evidence_alone_best_chunks_whole_chunks_and_empty_nothing() -> None:
    llm = ScriptedLLM(lambda prompt: "Two thousand metres [1].")
    case = Case("q", "How high?", evidence=(Span("rail", 28, 57),))
    found = answer_ablations(dataset(case), CHUNKS, llm, k=1)
    oracle, best, empty = llm.prompts
    assert TEXT[28:57] in oracle
    assert TEXT[:27] not in oracle
    assert CHUNKS[1].text in best, "the second chunk holds more of the evidence than the first"
    assert CHUNKS[0].text not in best, "k is 1"
    assert "How high?" in empty
    assert "metres" not in empty
    assert list(found.answers) == ["oracle", "best_chunks", "empty"]
    assert found.answers["oracle"][0].contexts == ("rail#gold-28-57",)
    assert found.answers["best_chunks"][0].contexts == ("rail#1",)
    assert found.answers["empty"][0].contexts == ()
    assert found.answers["empty"][0].citations == ("invalid:1",)
    assert {chunk.chunk_id for chunk in found.chunks} == {
        "rail#0",
        "rail#1",
        "tea#0",
        "rail#gold-28-57",
    }
    gold = next(chunk for chunk in found.chunks if chunk.chunk_id == "rail#gold-28-57")
    assert gold.text == CORPUS["rail"].full_text[gold.start : gold.end]


def test_best_chunks_stop_when_all_evidence_is_covered() -> None:
    case = Case("q", "How high?", evidence=(Span("rail", 28, 57),))
    found = answer_ablations(
        dataset(case), [*CHUNKS, Chunk("rail#2", "rail", 45, 57, TEXT[45:57])], k=5
    )
    assert found.answers["best_chunks"][0].contexts == ("rail#1", "rail#0"), "rail#2 adds nothing"


def test_all_evidence_counts_even_where_it_has_more_spans_than_k() -> None:
    spans = (Span("rail", 0, 27), Span("rail", 28, 57), Span("tea", 5, 18))
    found = answer_ablations(dataset(Case("q", "What?", evidence=spans)), CHUNKS, k=2)
    assert len(found.answers["oracle"][0].contexts) == 3
    assert len(found.answers["best_chunks"][0].contexts) == 2


def test_oracle_from_judged_documents_without_best_chunks() -> None:
    llm = ScriptedLLM(lambda prompt: "Green.")
    data = dataset(Case("q", "Which colour?"), qrels={"q": {"rail": 1, "tea": 2, "lost": 3}})
    found = answer_ablations(data, CHUNKS, llm, k=1)
    assert list(found.answers) == ["oracle", "empty"]
    assert found.answers["oracle"][0].contexts == ("tea#gold-0-18",), (
        "the highest grade that is in the corpus"
    )


def test_questions_without_gold_labels_are_left_out() -> None:
    llm = ScriptedLLM(lambda prompt: "Yes.")
    cases = (
        Case("q1", "?", evidence=(Span("rail", 0, 27),), expected_outcome="no_results"),
        Case("q2", "?"),
    )
    found = answer_ablations(dataset(*cases), CHUNKS, llm)
    assert llm.prompts == []
    assert set(found.answers) == {"oracle", "empty"}
    assert not any(found.answers.values())


def test_the_extractive_baseline_has_no_closed_book_answers() -> None:
    found = answer_ablations(
        dataset(Case("q", "When was the railway opened?", evidence=(Span("rail", 0, 27),))), CHUNKS
    )
    assert found.answers["oracle"][0].outcome == "success"
    assert (found.answers["empty"][0].text, found.answers["empty"][0].outcome) == (
        NO_ANSWER,
        "no_results",
    )


def test_evidence_in_a_missing_document_is_ignored() -> None:
    lost = Case("lost", "Where?", evidence=(Span("nowhere", 0, 4),))
    answers = answer_ablations(dataset(lost), []).answers
    assert [len(own) for own in answers.values()] == [0] * len(answers)
