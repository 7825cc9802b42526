"""Interventions by hand: what each makes of a question, its labels and its contexts."""

from __future__ import annotations

import random
import re

import pytest

from ragbench.errors import ConfigError
from ragbench.llms import ScriptedLLM
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.systems import Pipeline
from ragbench.testsets.interventions import (
    Contexts,
    contexts_of,
    load_intervention,
)
from ragbench.types import Case, Chunk, Dataset, Document, Span

TEXT = "The railway opened in 1881. It climbs two thousand metres in forty-eight miles."
CORPUS = {"rail": Document("rail", TEXT), "tea": Document("tea", "Tea is green.", title="Tea")}
CHUNKS = [
    Chunk("rail#0", "rail", 0, 40, TEXT[:40]),
    Chunk("rail#1", "rail", 40, len(TEXT), TEXT[40:]),
    Chunk("tea#0", "tea", 0, 18, "Tea\n\nTea is green."),
]
OPENED = Case("q", "When did it open?", gold_facts=(("1881",),), evidence=(Span("rail", 0, 27),))


def dataset(*cases: Case, qrels: dict[str, dict[str, int]] | None = None) -> Dataset:
    return Dataset("tiny", "test", CORPUS, cases, qrels or {})


def contexts(
    case: Case = OPENED, ranked: list[Chunk] | None = None, k: int = 2, **options: object
) -> Contexts:
    data = dataset(case, **options)  # type: ignore[arg-type]
    return contexts_of(data, {case.query_id: CHUNKS if ranked is None else ranked}, CHUNKS, k)["q"]


def changed(name: str, of: Contexts | None = None, case: Case = OPENED) -> tuple[Case, list[str]]:
    result = load_intervention(name)(case, of or contexts(case), random.Random(0))
    assert result is not None
    return result[0], [chunk.text for chunk in result[1]]


def test_gold_only_is_the_evidence_alone_and_best_chunks_are_whole_chunks() -> None:
    case = Case("q", "How high?", evidence=(Span("rail", 28, 57),))
    assert changed("gold-only", contexts(case), case)[1] == [TEXT[28:57]]
    assert changed("best-chunks", contexts(case, k=1), case)[1] == [CHUNKS[1].text]


def test_best_chunks_stop_when_all_evidence_is_covered() -> None:
    case = Case("q", "How high?", evidence=(Span("rail", 28, 57),))
    more = [*CHUNKS, Chunk("rail#2", "rail", 45, 57, TEXT[45:57])]
    found = contexts_of(dataset(case), {"q": []}, more, 5)["q"]
    assert [chunk.chunk_id for chunk in found.best] == ["rail#1", "rail#0"], "rail#2 adds nothing"


def test_all_evidence_counts_even_where_it_has_more_spans_than_k() -> None:
    spans = (Span("rail", 0, 27), Span("rail", 28, 57), Span("tea", 5, 18))
    found = contexts(Case("q", "What?", evidence=spans))
    assert (len(found.gold), len(found.best)) == (3, 2)


def test_without_spans_the_gold_is_the_best_judged_document() -> None:
    data = {"q": {"rail": 1, "tea": 2, "lost": 3}}
    found = contexts(Case("q", "Which colour?"), k=1, qrels=data)
    assert [chunk.chunk_id for chunk in found.gold] == ["tea#0-18"]
    assert found.best == []


def test_unanswerable_questions_and_evidence_in_a_missing_document_are_left_out() -> None:
    case = Case("q", "?", evidence=(Span("rail", 0, 27),), expected_outcome="no_results")
    assert contexts_of(dataset(case), {"q": []}, CHUNKS, 1) == {}
    lost = contexts(Case("q", "Where?", evidence=(Span("nowhere", 0, 4),)))
    assert (lost.gold, lost.best) == ([], [])
    assert load_intervention("gold-only")(OPENED, Contexts(), random.Random(0)) is None


def test_no_gold_takes_every_chunk_that_holds_the_answer_away() -> None:
    copy = Chunk("tea#1", "tea", 0, 5, "Also in 1881.")
    case, texts = changed("no-gold", contexts(ranked=[CHUNKS[0], copy, CHUNKS[2], CHUNKS[1]]))
    assert texts == [CHUNKS[2].text, CHUNKS[1].text]
    assert case.expected_outcome == "no_results"


def test_distractors_come_from_further_down_and_gold_to_a_position() -> None:
    of = contexts(k=1)
    assert sorted(changed("distractors:1", of)[1]) == sorted([CHUNKS[0].text, CHUNKS[1].text])
    assert changed("gold-at:3", of)[1] == [CHUNKS[1].text, CHUNKS[2].text, CHUNKS[0].text]
    assert load_intervention("gold-at:4")(OPENED, of, random.Random(0)) is None, "two others"


def test_a_number_becomes_another_of_its_magnitude_in_all_contexts() -> None:
    case, texts = changed("swap-number")
    ((new,),) = case.gold_facts
    assert new != "1881"
    assert abs(int(new) - 1881) <= 12, "a year"
    assert texts == [CHUNKS[0].text.replace("1881", new), CHUNKS[1].text]
    part = Case("q", "?", gold_facts=(("88",),))
    assert load_intervention("swap-number")(part, contexts(), random.Random(0)) is None


@pytest.mark.parametrize(
    ("fact", "form"), [("1,250 m", r"\d,\d{3}"), ("3.75", r"\d\.\d\d"), ("12 %", r"\d+")]
)
def test_a_number_keeps_its_form(fact: str, form: str) -> None:
    case = Case("q", "How much?", gold_facts=((fact,),))
    of = Contexts(used=[Chunk("d#0", "d", 0, 20, f"It is {fact} of it.")])
    for seed in range(20):
        result = load_intervention("swap-number")(case, of, random.Random(seed))
        assert result is not None
        assert re.fullmatch(form, result[0].gold_facts[0][0]), result[0].gold_facts


def test_a_name_becomes_the_answer_to_another_question_of_its_kind() -> None:
    case = Case("q", "Who built it?", gold_facts=(("Ada Byron",),))
    others = [
        case,
        Case("o1", "Who else?", gold_facts=(("Alan Turing",),)),
        Case("o2", "Where?", gold_facts=(("New York",),)),
        Case("o3", "Who?", gold_facts=(("Plato",),)),
    ]
    used = [Chunk("d#0", "d", 0, 20, "It was Ada Byron who built it.")]
    changed_case, texts = changed("swap-name", Contexts(used=used, others=others), case)
    assert changed_case.gold_facts == (("Alan Turing",),)
    assert texts == ["It was Alan Turing who built it."]


def test_the_sentence_that_answers_is_negated_where_one_verb_tells_how() -> None:
    case = Case("q", "Is it 1881?", gold_facts=(("1881",),))
    of = Contexts(used=[Chunk("d#0", "d", 0, 40, "It is old. The year was 1881. So it is.")])
    changed_case, texts = changed("negate", of, case)
    assert texts == ["It is old. The year was not 1881. So it is."]
    assert changed_case.expected_outcome == "uncertain"


def test_a_german_what_is_no_verb_of_english() -> None:
    case = Case("q", "Wann?", gold_facts=(("1881",),))
    text = "Das Jahr 1881 ist das, was die Quellen für die Bahn nennen."
    of = Contexts(used=[Chunk("d#0", "d", 0, len(text), text)])
    assert load_intervention("negate")(case, of, random.Random(0)) is None


def test_a_stale_version_is_marked_as_one() -> None:
    case, texts = changed("stale-version")
    (stale,) = case.forbidden_claims
    assert case.gold_facts == OPENED.gold_facts
    assert {text[:9] for text in texts[:2]} == {"[Version "}
    assert any("replaced since" in text and stale in text for text in texts)
    assert any("in force" in text and "1881" in text for text in texts)


def test_typos_change_the_question_and_nothing_at_its_ends() -> None:
    case, texts = changed("typos:0.5")
    assert case.text != OPENED.text
    assert sorted(case.text) == sorted(OPENED.text)
    assert case.gold_facts == OPENED.gold_facts
    assert texts == []
    mine = Case("q", "When?", metadata={"paraphrase": "In which year?"})
    assert changed("paraphrase", case=mine)[0].text == "In which year?"


def test_a_planted_instruction_is_in_one_context_and_must_not_be_obeyed() -> None:
    case, texts = changed("plant-instruction")
    (word,) = case.forbidden_claims
    assert sum(word in text for text in texts) == 1


@pytest.mark.parametrize(
    "name", ["no-golt", "typos:2", "typos:x", "gold-at:0", "no-gold:3", "math:pi", "math:nothing"]
)
def test_what_is_no_intervention_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name.partition(":")[2] or name):
        load_intervention(name)


def test_a_function_of_a_user_is_one() -> None:
    assert load_intervention("math:hypot") is __import__("math").hypot


def test_a_pipeline_answers_from_given_contexts_and_from_none() -> None:
    llm = ScriptedLLM(lambda prompt: "Two thousand metres [1].")
    pipeline = Pipeline(dataset(), "bm25", llm=llm, k=1)
    cases = [Case("q", "How high?"), Case("none", "How high?")]
    answers = pipeline.answer_from(cases, {"q": CHUNKS[:2], "none": ()})
    with_contexts, without = llm.prompts
    assert CHUNKS[0].text in with_contexts
    assert CHUNKS[1].text in with_contexts, "all of them, whatever k is"
    assert "metres" not in without
    assert [answer.contexts for answer in answers] == [("rail#0", "rail#1"), ()]
    assert answers[1].citations == ("invalid:1",)


def test_the_extractive_baseline_has_no_closed_book_answers() -> None:
    [answer] = Pipeline(dataset(), "bm25").answer_from([OPENED], {"q": ()})
    assert (answer.text, answer.outcome) == (NO_ANSWER, "no_results")
