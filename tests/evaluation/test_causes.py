"""diagnose: an example question per cause, and one cause per failed question."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.evaluation import CAUSES, diagnose
from ragbench.evaluation.causes import DISPUTED
from ragbench.evaluation.evidence_reach import EvidenceReach
from ragbench.metrics.overall import THRESHOLDS
from ragbench.report import count_causes
from ragbench.types import (
    Answer,
    Call,
    Case,
    Chunk,
    Dataset,
    Document,
    Judgement,
    Passage,
    Run,
    Span,
)

TEXT = "The railway opened in 1881. It climbs two thousand metres in forty-eight miles."
CHUNKS = [
    Chunk("rail#0", "rail", 0, 27, TEXT[:27]),
    Chunk("rail#1", "rail", 28, 50, TEXT[28:50]),
    Chunk("rail#2", "rail", 50, len(TEXT), TEXT[50:]),
    Chunk("tea#0", "tea", 0, 12, "Tea is green"),
]
OPENED = (Span("rail", 4, 27),)
CLIMB = (Span("rail", 28, len(TEXT)),)
CORPUS = {"rail": Document("rail", TEXT), "tea": Document("tea", "Tea is green")}


def case(**labels: object) -> Case:
    return Case("q", "When?", **{"gold_facts": (("1881",),), "evidence": OPENED, **labels})  # type: ignore[arg-type]


def scores(**values: float) -> pd.DataFrame:
    return pd.DataFrame(
        {"query_id": "q", "measure": list(values), "value": list(values.values())}
    ).astype({"value": float})


def row_of(
    one: Case,
    answer: Answer | None,
    *,
    run: Run | None = None,
    judgements: tuple[Judgement, ...] = (),
    qrels: dict[str, int] | None = None,
    depth: int = 100,
    stages: dict[str, Run] | None = None,
    filtered: tuple[str, ...] = (),
    **values: float,
) -> dict[str, object]:
    data = Dataset("tiny", "test", CORPUS, (one,), {"q": qrels} if qrels else {})
    table = diagnose(
        data,
        run or {},
        [answer] if answer else [],
        judgements,
        scores(**values),
        CHUNKS,
        depth=depth,
        stages=stages or {},
        filtered={"q": filtered},
    )
    assert len(table) == 1
    return {str(name): value for name, value in table.iloc[0].items()}


def cause_of(one: Case, answer: Answer | None, **given: object) -> object:
    return row_of(one, answer, **given)["cause"]  # type: ignore[arg-type]


GOOD = Answer("q", "In 1881.", ("rail#0",), outcome="success")
WRONG = Answer("q", "In 1900.", ("rail#0",), outcome="success")
ASTRAY = Answer("q", "In 1900.", ("tea#0",), outcome="success")


def test_a_right_answer_has_not_failed_even_where_its_evidence_was_not_retrieved() -> None:
    row = row_of(case(), ASTRAY, gold_fact_coverage=1.0)
    assert (row["failed"], row["cause"], row["evidence"]) == (False, "", "")
    assert (row["measure"], row["value"]) == ("gold_fact_coverage", 1.0)


def test_no_relevant_document_in_the_corpus() -> None:
    row = row_of(case(evidence=()), WRONG, qrels={"lost": 1, "tea": 0}, gold_fact_coverage=0.0)
    assert row["cause"] == "not_in_corpus"
    assert "(lost)" in str(row["evidence"])


def test_evidence_outside_the_depth_is_not_retrieved_and_inside_it_is_below_the_cut() -> None:
    run = {"q": {"tea#0": 3.0, "rail#2": 2.0, "rail#0": 1.0}}
    assert cause_of(case(), ASTRAY, run=run, depth=2, gold_fact_coverage=0.0) == "not_retrieved"
    row = row_of(case(), ASTRAY, run=run, depth=3, gold_fact_coverage=0.0)
    assert row["cause"] == "below_cut"
    in_context, in_ranking = str(row["evidence"]).split(", ")
    assert in_context.startswith("0% ")
    assert in_ranking.startswith("100% ")
    assert in_ranking.endswith("best 3 chunks")


def test_evidence_that_the_token_budget_cut() -> None:
    answer = Answer("q", "In 1900.", ("tea#0",), outcome="success", cut=("rail#0",))
    row = row_of(case(), answer, gold_fact_coverage=0.0)
    assert row["cause"] == "cut_by_budget"
    in_context, with_cut_chunks = str(row["evidence"]).split(", ")
    assert in_context.startswith("0% ")
    assert with_cut_chunks.startswith("100% ")
    assert "1 chunk " in with_cut_chunks


def test_a_rewritten_query_that_finds_less_than_the_question_alone() -> None:
    rewritten = (Call("rewrite", "When did tea open?"), Call("last", "When?", ("rail#0",)))
    answer = dataclasses.replace(ASTRAY, calls=rewritten)
    row = row_of(case(), answer, gold_fact_coverage=0.0)
    assert (row["cause"], CAUSES["rewritten"]) == ("rewritten", "query rewritten wrongly")
    by_query, by_question = str(row["evidence"]).split(", ")
    assert by_query.startswith("0% ")
    assert "'When did tea open?'" in by_query
    assert by_question.startswith("100% ")
    documents = case(evidence=(), gold_facts=())
    row = row_of(documents, answer, qrels={"rail": 1}, gold_fact_coverage=0.0)
    assert row["cause"] == "rewritten"
    neither = (rewritten[0], Call("last", "When?", ("tea#0",)))
    answer = dataclasses.replace(ASTRAY, calls=neither)
    assert cause_of(case(), answer, gold_fact_coverage=0.0) == "not_retrieved"
    answer = dataclasses.replace(WRONG, calls=rewritten)  # found by both, and not used
    assert cause_of(case(), answer, gold_fact_coverage=0.0) == "not_used"
    answer = dataclasses.replace(ASTRAY, calls=rewritten, cut=("rail#0",))
    assert cause_of(case(), answer, gold_fact_coverage=0.0) == "cut_by_budget"


def test_a_question_that_was_rewritten_into_several() -> None:
    several = (Call("several:2", "When?"), Call("several:2", "Tea?"))
    answer = dataclasses.replace(ASTRAY, calls=(*several, Call("question", "When?", ("rail#0",))))
    row = row_of(case(), answer, gold_fact_coverage=0.0)
    assert row["cause"] == "rewritten"
    assert str(row["evidence"]).endswith(
        "by the queries 'When?', 'Tea?', 100% of the evidence by the question alone"
    )


@pytest.mark.parametrize("by_documents", [False, True])
def test_the_step_that_lost_the_evidence(by_documents: bool) -> None:
    first: Run = {"q": {"rail#0": 3.0, "tea#0": 2.0}}
    last: Run = {"q": {"tea#0": 3.0, "rail#0": 2.0}}
    labels = {"evidence": (), "gold_facts": ()} if by_documents else {}
    qrels = {"rail": 1}
    known = {"run": last, "qrels": qrels, "gold_fact_coverage": 0.0}
    reranked = {"search": first, "reranker": last}
    row = row_of(case(**labels), ASTRAY, stages=reranked, **known)  # type: ignore[arg-type]
    assert row["cause"] == "lost_by_reranker"
    assert str(row["evidence"]).endswith("before the reranker")
    for stages, cause in (
        ({"search": first, "diversity": last}, "lost_by_diversity"),
        ({"search": first, "reranker": first, "diversity": last}, "lost_by_diversity"),
        ({"search": last, "reranker": last}, "below_cut"),
        ({"search": first, "reranker": last, "diversity": first}, "lost_by_reranker"),
    ):
        assert cause_of(case(**labels), ASTRAY, stages=stages, **known) == cause
    # as many as were handed over: with two of them both steps hold it
    both = dataclasses.replace(ASTRAY, cut=("tea#0",))
    assert cause_of(case(**labels), both, stages=reranked, **known) == "below_cut"


def test_a_filter_that_keeps_the_evidence_back() -> None:
    known = {"run": {"q": {"tea#0": 1.0}}, "gold_fact_coverage": 0.0}
    row = row_of(case(), ASTRAY, filtered=("rail",), **known)  # type: ignore[arg-type]
    assert (row["cause"], CAUSES["filtered"]) == (
        "filtered",
        "kept from the question by the filter",
    )
    assert str(row["evidence"]).endswith("the filter allows documents with 0% of the evidence")
    documents = case(evidence=(), gold_facts=())
    assert cause_of(documents, ASTRAY, filtered=("rail",), qrels={"rail": 1}, **known) == "filtered"
    one_of_two = {"rail": 1, "tea": 1, "other": 1}
    cause = cause_of(documents, ASTRAY, filtered=("rail",), qrels=one_of_two, **known)
    assert cause != "filtered", "what is allowed would have done"


def test_evidence_beyond_the_budget_after_expanding() -> None:
    answer = Answer("q", "In 1900.", ("tea#0",), outcome="success", cut=("rail#0",))
    stages: dict[str, Run] = {"search": {"q": {"rail#0": 1.0}}, "expand": {"q": {"rail#0": 1.0}}}
    row = row_of(case(), answer, stages=stages, gold_fact_coverage=0.0)
    assert row["cause"] == "cut_after_expanding"
    assert CAUSES["cut_after_expanding"] == "found, but beyond the budget after expanding"


def test_a_passage_split_at_a_chunk_boundary() -> None:
    answer = Answer("q", "Some.", ("rail#1",), outcome="success")
    run = {"q": {"rail#1": 2.0, "rail#2": 1.0}}
    assert (
        cause_of(case(evidence=CLIMB), answer, run=run, gold_fact_coverage=0.0) == "split_by_border"
    )
    both = Answer("q", "Some.", ("rail#1", "rail#2"), outcome="success")
    assert cause_of(case(evidence=CLIMB), both, run=run, gold_fact_coverage=0.0) == "not_used"


def test_with_the_evidence_in_the_context_the_generator_is_to_blame() -> None:
    assert (
        cause_of(case(), Answer("q", "", ("rail#0",), outcome="failed", error="timeout"))
        == "request_failed"
    )
    assert (
        row_of(case(), Answer("q", "", ("rail#0",), outcome="failed", error="timeout"))["evidence"]
        == "timeout"
    )
    assert cause_of(case(), Answer("q", "No.", ("rail#0",), outcome="no_results")) == "refused"
    assert cause_of(case(), Answer("q", "No.", ("rail#0",), outcome="blocked")) == "refused"
    assert cause_of(case(), WRONG, gold_fact_coverage=0.0) == "not_used"
    assert cause_of(case(), WRONG, gold_fact_coverage=0.0, claim_support=0.9) == "not_used"


@pytest.mark.parametrize(
    ("text", "labels", "cause"),
    [
        ("In 1900.", {}, "contradicts"),
        (
            "It was in 1900 that it opened.",
            {"reference_answer": "It opened in 1881."},
            "contradicts",
        ),
        ("It never opened.", {"reference_answer": "It opened in 1881."}, "contradicts"),
        (
            "John Smith opened it.",
            {"reference_answer": "Mary Jones opened it.", "gold_facts": ()},
            "contradicts",
        ),
        ("In 1900.", {"gold_facts": ()}, "contradicts"),  # by the evidence alone
        ("Tea is grown on hills.", {}, "not_used"),
        ("Nothing is known of that.", {"reference_answer": "It opened in 1881."}, "not_used"),
    ],
)
def test_a_wrong_answer_from_the_right_context_contradicts_it_or_does_not_use_it(
    text: str, labels: dict[str, object], cause: str
) -> None:
    answer = Answer("q", text, ("rail#0",), outcome="success")
    for name in ("claim_support", "llm_faithfulness"):
        values = {name: 0.1, "llm_correctness": 0.0}
        assert cause_of(case(**labels), answer, **values) == cause
    assert cause_of(case(**labels), answer, llm_correctness=0.0, claim_support=0.9) == "not_used"


def test_an_invention_is_fabricated_where_no_label_names_the_evidence_and_a_forbidden_claim_contradicts() -> (
    None
):
    bare = case(evidence=())
    assert cause_of(bare, WRONG, gold_fact_coverage=0.0, claim_support=0.2) == "fabricated"
    assert cause_of(bare, WRONG, gold_fact_coverage=0.0, claim_support=0.9) == "not_used"
    judge = Judgement("q", "faithfulness", 0.0, "No document gives 1900.")
    row = row_of(case(), WRONG, judgements=(judge,), gold_fact_coverage=0.0, llm_faithfulness=0.0)
    assert row["cause"] == "contradicts"
    assert str(row["evidence"]).startswith("llm_faithfulness is 0.00")
    assert str(row["evidence"]).endswith("the judge: No document gives 1900.")
    assert (
        cause_of(case(), GOOD, gold_fact_coverage=0.0, forbidden_claims_absent=0.0) == "contradicts"
    )


def test_a_label_is_in_doubt_where_a_judge_agrees_with_the_answer_against_it() -> None:
    other = case(gold_facts=(("1889",),), reference_answer="In 1889.")
    judged = {"llm_faithfulness": 1.0, "llm_relevance": 1.0}
    against = {"llm_correctness": 0.0, "gold_fact_coverage": 0.0}
    assert cause_of(other, GOOD, **against, **judged) == "label_in_doubt"
    assert cause_of(other, GOOD, gold_fact_coverage=0.0, **judged) == "label_in_doubt"
    row = row_of(other, GOOD, llm_correctness=1.0, gold_fact_coverage=0.0)
    assert (row["failed"], row["cause"]) == (False, "label_in_doubt")  # the judge decides
    # the judge has a doubt of its own, or the evidence is not there: then the answer is to blame
    for doubt in ({"llm_faithfulness": 0.75}, {"llm_relevance": 0.5}):
        assert cause_of(other, GOOD, **(against | judged | doubt)) == "not_used"
    assert cause_of(other, GOOD, **against, llm_faithfulness=1.0) == "not_used"
    assert cause_of(other, ASTRAY, **against, **judged) == "not_retrieved"
    refused = Answer("q", "No.", ("rail#0",), outcome="no_results")
    assert cause_of(other, refused, gold_fact_coverage=0.0, llm_correctness=1.0) == "refused"


def test_retrieval_comes_before_generation_as_data_flows() -> None:
    refused = Answer("q", "No.", ("tea#0",), outcome="no_results")
    assert cause_of(case(), refused) == "not_retrieved"
    assert (
        cause_of(case(), Answer("q", "", ("tea#0",), outcome="failed", error="x"))
        == "not_retrieved"
    )


def test_a_judge_against_the_labels_is_the_suspect() -> None:
    judge = Judgement("q", "correctness", 0.0, "I think not.")
    row = row_of(case(), GOOD, judgements=(judge,), llm_correctness=0.0, gold_fact_coverage=1.0)
    assert row["cause"] == "judge_suspected"
    assert "0.00" in str(row["evidence"])
    assert str(row["evidence"]).endswith("I think not.")
    assert cause_of(case(), GOOD, llm_correctness=0.0, token_f1=0.85) == "judge_suspected"
    assert cause_of(case(), WRONG, llm_correctness=0.0, gold_fact_coverage=0.5) == "not_used"


def test_unanswerable_questions() -> None:
    none = case(expected_outcome="no_results", evidence=(), gold_facts=())
    assert cause_of(none, WRONG) == "unanswerable_answered"
    assert cause_of(none, Answer("q", "No.", outcome="no_results")) == ""
    assert cause_of(none, Answer("q", "No.", outcome="blocked")) == "requirement_missed"
    assert cause_of(none, Answer("q", "", outcome="failed", error="x")) == "request_failed"


def test_a_missing_answer_is_a_failed_request() -> None:
    assert row_of(case(evidence=()), None)["evidence"] == "no answer came back"


def test_the_same_words_in_two_documents_are_one_passage() -> None:
    copied = {**CORPUS, "copy": Document("copy", TEXT)}
    both = case(evidence=(*OPENED, Span("copy", 4, 27)))
    table = diagnose(
        Dataset("tiny", "test", copied, (both,), {}),
        {},
        [WRONG],
        [],
        scores(gold_fact_coverage=0.0),
        CHUNKS,
    )
    assert table["cause"].tolist() == ["not_used"], (
        "one copy is in the context, the other is not needed"
    )


def test_one_of_two_relevant_documents_blames_no_one() -> None:
    row = row_of(
        case(evidence=(), gold_facts=(("1889",),)),
        WRONG,
        qrels={"rail": 1, "tea": 1},
        gold_fact_coverage=0.0,
    )
    assert row["cause"] == "unknown_chunk"
    assert str(row["evidence"]).startswith("gold_fact_coverage is 0.00; ")
    assert "1 of 2 relevant documents (1 of 2 relevant documents in the best 100)" in str(
        row["evidence"]
    )


def test_another_chunk_of_the_right_document_is_unknown_and_the_whole_document_or_its_facts_are_not() -> (
    None
):
    labels = {"evidence": (), "gold_facts": (("1889",),)}
    one = Answer("q", "In 1900.", ("rail#2",), outcome="success")
    assert (
        cause_of(case(**labels), one, qrels={"rail": 1}, gold_fact_coverage=0.0) == "unknown_chunk"
    )
    silent = Answer("q", "No.", ("rail#2",), outcome="no_results")
    assert cause_of(case(**labels), silent, qrels={"rail": 1}) == "unknown_chunk"
    every = Answer("q", "In 1900.", ("rail#0", "rail#1", "rail#2"), outcome="success")
    row = row_of(case(**labels), every, qrels={"rail": 1}, gold_fact_coverage=0.0)
    assert row["cause"] == "not_used"
    assert str(row["evidence"]).startswith("gold_fact_coverage is 0.00 ")
    assert "1 of 1 relevant document" in str(row["evidence"])
    assert (
        cause_of(case(evidence=()), WRONG, qrels={"rail": 1}, gold_fact_coverage=0.0) == "not_used"
    )  # it says 1881
    assert (
        cause_of(case(**labels), one, qrels={"rail": 1}, gold_fact_coverage=0.0, claim_support=0.1)
        == "fabricated"
    )


def test_documents_as_labels_are_lost_where_no_chunk_of_them_came() -> None:
    row = row_of(case(evidence=()), ASTRAY, qrels={"rail": 1}, gold_fact_coverage=0.0)
    assert row["cause"] == "not_retrieved"
    in_context, in_ranking = str(row["evidence"]).split(", ")
    assert in_context.startswith("0 of 1 ")
    assert in_ranking.startswith("0 of 1 ")
    assert in_ranking.endswith("best 100 chunks")


def test_a_system_with_passages_of_its_own_is_looked_at_by_documents() -> None:
    def answer(text: str, doc_id: str) -> Answer:
        return Answer(
            "q",
            "In 1900.",
            ("p1",),
            outcome="success",
            passages=(Passage("p1", text, doc_id=doc_id),),
        )

    assert cause_of(case(), answer(TEXT, "rail"), gold_fact_coverage=0.0) == "not_used"
    assert cause_of(case(), answer("...", "rail"), gold_fact_coverage=0.0) == "unknown_chunk"
    assert cause_of(case(), answer("...", "tea"), gold_fact_coverage=0.0) == "not_retrieved"


def test_how_similar_an_answer_is_to_its_reference_decides_nothing() -> None:
    unlabelled = case(reference_answer="1881", gold_facts=())
    row = row_of(unlabelled, WRONG, semantic_similarity=0.1, token_f1=0.0)
    assert (row["failed"], row["measure"]) == (False, "")
    row = row_of(case(reference_answer="1881"), WRONG, gold_fact_coverage=0.0, token_f1=0.1)
    assert (row["failed"], row["measure"]) == (True, "gold_fact_coverage")


def test_lost_evidence_is_the_cause_of_a_failure_and_no_failure_by_itself() -> None:
    unlabelled = case(gold_facts=())
    assert cause_of(unlabelled, ASTRAY) == ""
    assert cause_of(unlabelled, ASTRAY, expected_document=0.0) == "not_retrieved"
    assert cause_of(unlabelled, GOOD, expected_document=1.0) == ""


@pytest.mark.parametrize(
    ("labels", "answer", "evidence"),
    [
        ({"min_citations": 1}, GOOD, "citations 0 < 1"),
        ({"required_flags": ("checked",)}, GOOD, "required flags not set: checked"),
        (
            {"latency_budget_ms": {"total": 10}},
            dataclasses.replace(GOOD, latency_ms={"total": 20.0}),
            "latency: total 20 ms > 10 ms",
        ),
    ],
)
def test_a_right_answer_that_misses_another_requirement_has_failed_by_that(
    labels: dict[str, object], answer: Answer, evidence: str
) -> None:
    row = row_of(case(**labels), answer, gold_fact_coverage=1.0)
    assert (row["failed"], row["cause"]) == (True, "requirement_missed")
    assert str(row["evidence"]).startswith(evidence[:20])


@pytest.mark.parametrize(("rate", "failed"), [(0.0, True), (1.0, False)])
def test_what_passed_by_the_scores_has_not_failed(rate: float, failed: bool) -> None:
    row = row_of(case(), WRONG, gold_fact_coverage=0.0, pass_rate=rate)
    assert (row["failed"], bool(row["cause"])) == (failed, failed)


def test_the_first_measure_that_is_scored_decides() -> None:
    row = row_of(case(), GOOD, llm_correctness=1.0, gold_fact_coverage=1.0)
    assert row["measure"] == "llm_correctness"
    missing = float("nan")
    row = row_of(case(), GOOD, llm_correctness=missing, gold_fact_coverage=1.0)
    assert row["measure"] == "gold_fact_coverage"


def test_counts_are_in_the_order_of_the_flow_and_sum_to_all() -> None:
    causes = ["not_used", "", "not_retrieved", "not_used"]
    table = pd.DataFrame({"cause": causes, "failed": [bool(cause) for cause in causes]})
    counts = count_causes(table)
    assert counts.to_dict("records") == [
        {"cause": "not_retrieved", "meaning": "not retrieved", "questions": 1, "share": 0.25},
        {"cause": "not_used", "meaning": "in the context, not used", "questions": 2, "share": 0.5},
        {"cause": "none", "meaning": "not failed", "questions": 1, "share": 0.25},
    ]
    assert count_causes(table.head(0))["questions"].tolist() == [0]


@settings(deadline=None, max_examples=150)
@given(
    contexts=st.lists(st.sampled_from([chunk.chunk_id for chunk in CHUNKS]), unique=True),
    outcome=st.sampled_from(["success", "no_results", "blocked", "failed", None]),
    evidence=st.sampled_from([(), OPENED, CLIMB, OPENED + CLIMB]),
    answerable=st.booleans(),
    values=st.dictionaries(
        st.sampled_from(
            ["llm_correctness", "gold_fact_coverage", "semantic_similarity", "claim_support"]
        ),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
)
def test_each_failed_question_has_exactly_one_cause_with_evidence(
    contexts: list[str],
    outcome: str | None,
    evidence: tuple[Span, ...],
    answerable: bool,
    values: dict[str, float],
) -> None:
    one = case(evidence=evidence, expected_outcome=None if answerable else "no_results")
    row = row_of(one, Answer("q", "x", tuple(contexts), outcome=outcome), **values)  # type: ignore[arg-type]
    assert (row["cause"] in CAUSES) == bool(row["evidence"])
    assert row["failed"] == (row["cause"] not in ("", "label_in_doubt")) or row["cause"] in DISPUTED
    if outcome == "failed":
        assert row["failed"]


def test_evidence_in_a_document_that_is_not_there() -> None:
    one = case(evidence=(Span("lost", 0, 5),))
    row = row_of(one, Answer("q", "x", ("rail#0",)), gold_fact_coverage=0.0)
    assert row["cause"] == "not_in_corpus"
    assert "lost" in str(row["evidence"])


def test_scores_of_a_nullable_column_may_be_missing() -> None:
    frame = scores(token_f1=0.0).assign(value=pd.array([None], dtype="Float64"))
    table = diagnose(
        Dataset("d", "t", CORPUS, [case()], {}),
        {},
        [Answer("q", "x", ("rail#0",))],
        [],
        frame,
        CHUNKS,
    )
    assert table["value"].isna().all()


def test_an_empty_text_is_no_answer() -> None:
    empty = Answer("q", " ", ("rail#0",), outcome="success")
    row = row_of(case(), empty, gold_fact_coverage=0.0)
    assert (row["cause"], str(row["evidence"])[:15]) == ("refused", "no answer given")
    assert cause_of(case(expected_outcome="no_results"), empty) == "requirement_missed"


def test_two_answers_to_one_question_are_refused() -> None:
    data = Dataset("d", "t", CORPUS, [case()], {})
    with pytest.raises(DataError, match="two answers to query"):
        diagnose(data, {}, [Answer("q", "x"), Answer("q", "y")], [], scores(token_f1=0.0), CHUNKS)


@pytest.mark.parametrize(("facts", "cause"), [(0.49, "label_in_doubt"), (0.5, "")])
def test_a_label_is_in_doubt_below_half_of_the_facts(facts: float, cause: str) -> None:
    judged = {"llm_correctness": 1.0, "gold_fact_coverage": facts, "pass_rate": 1.0}
    assert cause_of(case(), GOOD, run={"q": {"rail#0": 1.0}}, **judged) == cause


@pytest.mark.parametrize(
    ("fraction", "documents", "holds"),
    [(0.8, 0, True), (0.799, 0, False), (1.0, 0, True), (0.1, 3, True), (0.0, 3, False)],
)
def test_four_fifths_of_the_evidence_or_any_document_is_enough(
    fraction: float, documents: int, holds: bool
) -> None:
    reach = EvidenceReach(1.0, 1.0, 1.0, 1.0, 1.0, documents=documents)
    assert reach.is_enough(fraction) is holds


@pytest.mark.parametrize(("threshold", "cause"), [(0.5, "requirement_missed"), (0.8, "not_used")])
def test_an_answer_is_right_from_the_value_from_which_it_passes(
    threshold: float, cause: str
) -> None:
    """A judge that was asked several times gives 0.6, and the user wants 0.8."""
    data = Dataset("tiny", "test", CORPUS, (case(),), {"q": {"rail": 1}})
    values = scores(llm_correctness=0.6, llm_faithfulness=1.0, pass_rate=0.0)
    answer = Answer("q", "It opened.", contexts=("rail#0",))
    table = diagnose(
        data,
        {"q": {"rail#0": 1.0}},
        [answer],
        [],
        values,
        CHUNKS,
        thresholds={"llm_correctness": threshold},
    )
    assert table["cause"].tolist() == [cause]


def test_the_reasons_of_a_cause_are_by_the_thresholds_of_the_user() -> None:
    """Two of three keywords pass by default, and the user wants all of them."""
    keywords = ("1881", "railway", "steam")
    question = case(required_keywords=keywords)
    answer = Answer("q", "The railway opened in 1881 [1].", contexts=("rail#0",))
    data = Dataset("tiny", "test", CORPUS, (question,), {"q": {"rail": 1}})
    values = scores(gold_fact_coverage=1.0)
    given: Any = data, {"q": {"rail#0": 1.0}}, [answer], [], values, CHUNKS
    assert not diagnose(*given)["failed"].any()
    [row] = diagnose(*given, thresholds={**THRESHOLDS, "keyword": 1.0}).to_dict("records")
    assert (row["failed"], row["cause"]) == (True, "requirement_missed")
    assert row["evidence"] == "missing keywords: steam"


def test_a_late_answer_has_missed_nothing_where_the_latency_does_not_count() -> None:
    late = dataclasses.replace(GOOD, latency_ms={"total": 20.0})
    data = Dataset(
        "tiny", "test", CORPUS, (case(latency_budget_ms={"total": 10}),), {"q": {"rail": 1}}
    )
    values = scores(gold_fact_coverage=0.0, latency_in_budget=0.0)
    given: Any = data, {"q": {"rail#0": 1.0}}, [late], [], values, CHUNKS
    assert diagnose(*given)["cause"].tolist() == ["requirement_missed"]
    [cause] = diagnose(*given, thresholds={**THRESHOLDS, "latency": 0.0})["cause"]
    assert cause != "requirement_missed"
