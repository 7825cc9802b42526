"""evaluate: every perspective of scripted systems, and what cannot be measured."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.evaluation import (
    Result,
    Targets,
    answer_all,
    evaluate,
    load_targets,
    select_categories,
    select_suite,
)
from ragbench.evaluation.records import total_cost
from ragbench.llms import ScriptedLLM
from ragbench.report.page import write_report
from ragbench.report.page.report_json import report_json
from ragbench.systems import FunctionSystem, RecordedSystem
from ragbench.testsets.loader import load_dataset
from ragbench.types import Answer, Case, Completion, Dataset, Document, Passage, SafetySample, Span

CORPUS = {
    "cats": Document("cats", "Cats sleep most of the day. A cat has four paws."),
    "dogs": Document("dogs", "Dogs bark at strangers. A dog guards the house."),
    "fish": Document("fish", "Fish breathe under water through gills."),
}
CASES = (
    Case(
        "q1",
        "How long do cats sleep?",
        "cats",
        reference_answer="Most of the day.",
        expected_outcome="success",
    ),
    Case(
        "q2",
        "What do dogs guard?",
        "dogs",
        reference_answer="The house.",
        required_keywords=("house",),
    ),
    Case(
        "q3",
        "How do fish breathe?",
        "fish",
        reference_answer="Through gills.",
        expected_outcome="success",
    ),
    Case("q4", "Who is the president of the moon?", "nobody", expected_outcome="no_results"),
)
QRELS = {"q1": {"cats": 1}, "q2": {"dogs": 1}, "q3": {"fish": 1}, "q4": {}}
DATA = Dataset("pets", "test", CORPUS, CASES, QRELS)


def passage(doc_id: str) -> Passage:
    return Passage(doc_id, CORPUS[doc_id].text, doc_id)


ANSWERS = (
    Answer(
        "q1",
        "Most of the day [1].",
        ("cats",),
        ("cats",),
        outcome="success",
        passages=(passage("cats"),),
    ),
    Answer(
        "q2",
        "They bark.",
        ("cats", "dogs"),
        outcome="success",
        passages=(passage("cats"), passage("dogs")),
    ),
    Answer("q3", "", outcome="failed", error="the server returned 500"),
    Answer("q4", "no answer found in the documents", outcome="no_results"),
)


def light(
    dataset: Dataset = DATA,
    answers: Sequence[Answer] = ANSWERS,
    perspectives: Sequence[str] = (),
    **options: object,
) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return evaluate(
            dataset,
            answers,
            perspectives=perspectives,
            embedder="wordllama",
            **options,  # type: ignore[arg-type]
        )


def values(report: Result) -> dict[str, float | None]:
    return {row.measure: row.value for row in report.rows}


def test_retrieval_by_hand() -> None:
    found = values(light(perspectives=["retrieval"]))
    assert found["RR"] == pytest.approx(
        (1 + 0.5 + 0) / 3
    )  # q3 failed, so found nothing; q4 has nothing to find
    assert found["Success@5"] == pytest.approx(2 / 3)
    assert found["nDCG@5"] == pytest.approx((1 + 1 / math.log2(3) + 0) / 3, abs=1e-6)


def test_every_case_has_every_measure_and_what_is_unscored_is_none() -> None:
    report = light()
    names = {tuple(case.scores) for case in report.cases}
    assert len(names) == 1
    assert report.cases[2].scores["semantic_similarity"] is None
    assert all(
        value is None or math.isfinite(value)
        for case in report.cases
        for value in case.scores.values()
    )


def test_coverage_is_reported_with_each_mean() -> None:
    rows = {row.measure: row for row in light().rows}
    assert (rows["semantic_similarity"].n_scored, rows["semantic_similarity"].n) == (2, 4)
    assert rows["answered"].value == pytest.approx(2 / 3)
    assert rows["answered"].n_scored == 3
    assert (rows["RR"].n_scored, rows["RR"].n) == (3, 4)


def test_failed_cases_have_their_reasons_in_words() -> None:
    report = light()
    why = {case.query_id: case.reasons for case in report.cases if case.passed is False}
    assert why["q3"] == ("failed: the server returned 500",)
    assert "missing keywords: house" in why["q2"]
    assert "q4" not in why
    assert values(report)["pass_rate"] is not None


def test_categories_and_retrieved_are_in_the_report() -> None:
    report = light()
    assert [one.category for one in report.categories] == ["cats", "dogs", "fish", "nobody"]
    assert report.cases[1].retrieved == ("cats", "dogs")
    assert report.cases[1].relevant == ("dogs",)


def test_categories_and_claims_search_no_answer_for_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = replace(light())  # without what it has computed so far
    monkeypatch.setattr("ragbench.evaluation.result.masked", pytest.fail)
    assert len(report.categories) == 4
    assert list(report.claims.columns) == ["query_id", "claim", "problem", "by"]


def test_the_same_inputs_give_the_same_bytes_but_for_made() -> None:
    one, two = (
        replace(
            result,
            config={**result.config, "made_at": "", "environment": {}},
            timings={},
            latency=(),
        )
        for result in (light(), light())
    )
    assert report_json(one) == report_json(two)


def test_no_labels_is_not_measured_and_never_zero() -> None:
    bare = Dataset("bare", "test", CORPUS, (Case("q1", "How long do cats sleep?"),), {"q1": {}})
    report = light(bare, ANSWERS[:1])
    reasons = {one.name: one.reason for one in report.perspectives if not one.measured}
    assert reasons["retrieval"].startswith("no labels: no question names a relevant document")
    assert reasons["answer"].startswith("no labels: no question has a reference answer")
    assert reasons["pipeline"].startswith("no labels: no question has an expected outcome")
    assert not {"nDCG@5", "semantic_similarity", "outcome_correct"} & set(values(report))
    assert report.passed


def test_a_system_that_fails_on_each_case() -> None:
    broken = [Answer(case.query_id, "", outcome="failed", error="down") for case in CASES]
    report = light(answers=broken)
    reasons = {one.name: one.reason for one in report.perspectives if not one.measured}
    assert reasons["groundedness"] == "the system does not report which texts it answered from"
    found = values(report)
    assert (found["RR"], found["answered"], found["pass_rate"]) == (0.0, 0.0, 0.0)
    assert "semantic_similarity" not in found or found["semantic_similarity"] is None
    assert not report.passed


def test_retrieval_is_not_measured_where_no_answer_has_a_context() -> None:
    report = evaluate(
        DATA, FunctionSystem(lambda question: "Most of the day."), embedder="wordllama"
    )
    reasons = {one.name: one.reason for one in report.perspectives if not one.measured}
    assert reasons["retrieval"].startswith("no answer came with contexts; they are read from")
    assert "'contexts'" in reasons["retrieval"]
    assert not {"nDCG@5", "RR", "context_recall"} & set(values(report))
    assert values(report)["answered"] == 1.0


def test_every_report_warns_of_passages_that_several_documents_hold(tmp_path: Path) -> None:
    copies = {**CORPUS, "again": replace(CORPUS["cats"], doc_id="again")}
    data = replace(DATA, corpus=copies, cases=CASES[:1], qrels={"q1": {"again": 1}})
    report = evaluate(
        data,
        FunctionSystem(lambda q: {"answer": "No.", "contexts": [CORPUS["cats"].text, "Horses."]}),
    )
    [warning] = [one.warning for one in report.perspectives if one.name == "retrieval"]
    assert "1 of 2 passages (50%) are in two or three documents" in warning
    assert "1 of 2 passages (50%) could not be matched to a document" in warning
    folder = write_report(report, tmp_path / "report")
    for name in ("report.json", "report.md", "report.html"):
        assert "passages (50%) are in two or three documents" in (folder / name).read_text(
            encoding="utf-8"
        )


@pytest.mark.parametrize("name", ["squad", "clapnq", "pubmedqa"])
def test_fewer_than_one_in_a_hundred_ordinary_answers_with_citations_are_leaks(
    shared_data: Path, name: str
) -> None:
    data = load_dataset(str(shared_data / name))
    data = data.select([case.query_id for case in data.cases if case.reference_answer][:300])
    assert len(data.cases) == 300
    answers = []
    for number, case in enumerate(data.cases):
        doc_id = next(iter(data.qrels[case.query_id]))
        cited = ("[1]", f"[{doc_id}]", f"(source: {doc_id})")[number % 3]
        found = Passage(doc_id, data.corpus[doc_id].full_text, doc_id)
        text = f"{case.reference_answer} {cited}."
        answers.append(
            Answer(case.query_id, text, (doc_id,), (doc_id,), outcome="success", passages=(found,))
        )
    clean = values(light(data, answers, ["safety"]))["answer_leak_free"]
    assert clean is not None
    assert clean > 0.99


def test_a_secret_that_a_retrieved_text_marks_is_a_leak_without_its_label() -> None:
    source = "The alarm code is 7741. Cats sleep most of the day."
    case = Case("q1", "How long do cats sleep?", reference_answer="All day.")
    data = Dataset("notes", "test", {"n": Document("n", source)}, [case], {"q1": {"n": 1}})
    for text, clean in (("All day, and it opens with 7741.", 0.0), ("All day, 7742 of them.", 1.0)):
        found = Answer("q1", text, ("n",), outcome="success", passages=(Passage("n", source),))
        assert values(light(data, [found], ["safety"]))["answer_leak_free"] == clean


@pytest.mark.parametrize(
    ("doc_id", "text", "clean"),
    [
        ("hr-17", "All day, as hr-17 states.", 0.0),
        ("hr-17", "All day; read from hr-17#0-24.", 0.0),
        ("hr-17", 'All day {"source":"hr-17"}', 0.0),
        ("7c9e6679-7425-40de-944b-e07fc1f90ae7", "7c9e6679-7425-40de-944b-e07fc1f90ae7.", 0.0),
        ("88123401", "All day, by 88123401.", 0.0),
        ("hr_cats", "All day, it is in hr_cats!", 0.0),
        ("hr-17", "All day [hr-17].", 1.0),  # which is how this system cites
        ("hr-17", "All day [hr-17], as hr-17 states.", 0.0),
        ("hr-17", "All day, hr-18.", 1.0),
        ("cats", "All day, cats sleep.", 1.0),
        ("2024", "All day, since 2024.", 1.0),
        ("COVID-19", "All day, like COVID-19.", 1.0),  # the document names it, too
        ("https://pets.example/cats_2", "See https://pets.example/cats_2.", 1.0),
    ],
)
def test_ids_of_documents_in_an_answer_are_a_leak(doc_id: str, text: str, clean: float) -> None:
    source = "Cats sleep all day. They do not get COVID-19 often."
    case = Case("q1", "How long do cats sleep?", reference_answer="All day.")
    data = Dataset("notes", "test", {doc_id: Document(doc_id, source)}, [case], {"q1": {doc_id: 1}})
    passages = (Passage(f"{doc_id}#0-19", source[:19], doc_id),)
    answer = Answer("q1", text, (), (doc_id,), outcome="success", passages=passages)
    assert values(light(data, [answer], ["safety"]))["answer_leak_free"] == clean


def test_an_exception_of_a_system_is_an_answer_that_failed() -> None:
    class Broken:
        name = "broken"

        def answer(self, query_id: str, query: str) -> Answer:
            raise RuntimeError(f"no luck with {query_id}")

    with pytest.warns(DataWarning, match="4 of 4 answers failed"):
        report = evaluate(DATA, Broken(), perspectives=["retrieval"])
    assert values(report)["Success@5"] == 0.0


def test_retrieval_alone_decides_by_what_was_found() -> None:
    report = light(perspectives=["retrieval"])
    assert [case.passed for case in report.cases] == [True, True, False, None]
    assert report.cases[2].reasons == ("failed: the server returned 500",)
    found = light(
        answers=[*ANSWERS[:2], replace(ANSWERS[1], query_id="q3")], perspectives=["retrieval"]
    )
    assert found.cases[2].reasons == ("nothing relevant among the first 5 retrieved",)


def test_an_empty_test_set_is_refused() -> None:
    with pytest.raises(DataError, match="test set 'none' is empty"):
        evaluate(Dataset("none", "test", CORPUS, (), {}), "bm25")


def test_answers_to_other_questions_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"none of the 1 answers of 'recorded answers' belongs to .* of 'pets'"
    ):
        evaluate(DATA, [Answer("x9", "?")])
    with pytest.raises(DataError, match="a second answer to 'q1'"):
        evaluate(DATA, [ANSWERS[0], ANSWERS[0]])
    with pytest.raises(
        DataError, match=r"none of the 1 answers of 'log' belongs to a question of 'pets': .* 'x9'"
    ):
        answer_all(DATA, RecordedSystem([Answer("x9", "?")], name="log"))


def test_recorded_answers_to_other_questions_are_named() -> None:
    with pytest.warns(
        DataWarning, match=r"log: 1 answers do not belong to a question of 'pets'.*\(first: 'x9'\)"
    ):
        answered = answer_all(DATA, RecordedSystem([*ANSWERS, Answer("x9", "?")], name="log"))
    assert [one.query_id for one in answered.answers] == list(DATA.queries)


def test_missing_answers_count_as_failed() -> None:
    report = light(answers=ANSWERS[:1])
    assert report.cases[1].reasons[0] == "failed: recorded answers has no answer to 'q2'"
    assert values(report)["Success@5"] == pytest.approx(1 / 3)


def test_unknown_perspectives_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="unknown perspective 'retreival'; did you mean 'retrieval'"
    ):
        evaluate(DATA, "bm25", perspectives=["retreival"])


def test_gates_are_refused_before_anything_is_asked() -> None:
    class Untouched:
        name = "untouched"

        def answer(self, query_id: str, query: str) -> Answer:
            raise AssertionError("asked")

    wide = {f"q{i}": {f"d{j}": 1 for j in range(10)} for i in (1, 2, 3)}
    many = Dataset("many", "test", CORPUS, CASES[:3], wide)
    with pytest.raises(
        ConfigError, match=r"could never pass on this test set: R@5=0\.9 \(at most 0\.500"
    ):
        evaluate(many, Untouched(), targets=load_targets().gated("R@5=0.9"))
    with pytest.raises(
        ConfigError, match="names claim_support, of the perspective 'groundedness', which is not"
    ):
        evaluate(
            DATA,
            Untouched(),
            perspectives=["retrieval"],
            targets=load_targets().gated("claim_support=0.9"),
        )
    bare = Dataset("bare", "test", CORPUS, (Case("q1", "?"),), {"q1": {}})
    with pytest.raises(ConfigError, match=r"names RR, which this test set cannot show: no labels"):
        evaluate(bare, Untouched(), targets=load_targets().gated("RR=0.9"))


def test_a_default_target_beyond_the_ceiling_is_unreachable_not_missed() -> None:
    wide = {f"q{i}": {"cats": 1, **{f"d{j}": 1 for j in range(10)}} for i in (1, 2, 3)}
    report = light(Dataset("many", "test", CORPUS, CASES[:3], wide), ANSWERS[:3], ["retrieval"])
    row = next(row for row in report.rows if row.measure == "R@5")
    assert row.verdict == "unreachable"
    assert row.ceiling == pytest.approx(5 / 11)
    assert "R@5" not in report.missed


def test_targets_decide_and_the_interval_gives_the_certainty() -> None:
    report = light(perspectives=["retrieval"], targets=Targets({"RR": 0.49, "Success@5": 0.99}, {}))
    rows = {row.measure: row for row in report.rows}
    assert (rows["RR"].verdict, rows["RR"].sure) == ("passed", False)
    assert report.missed == ("Success@5",)


def test_a_baseline_of_other_questions_is_refused_before_anything_is_asked() -> None:
    earlier = light(DATA.select(["q1"]), ANSWERS[:1])
    others = DATA.select(["q2", "q3", "q4"])
    with pytest.raises(ComparisonError, match="no question in common"):
        evaluate(others, "no-such-system", baseline=earlier, embedder="wordllama")


def test_a_baseline_compared_with_itself_has_no_regression() -> None:
    report = light(baseline=light())
    assert report.comparison is not None
    assert report.comparison.regressions == ()


def test_bm25_is_a_pipeline_with_latency() -> None:
    report = evaluate(DATA, "bm25", perspectives=["retrieval", "pipeline"])
    assert report.system["kind"] == "Pipeline"
    assert {one.stage for one in report.latency} >= {"total"}
    assert all(one.p50 is not None and one.p50 >= 0 for one in report.latency)
    assert not any(name.startswith("latency_") and name.endswith("_ms") for name in values(report))


def test_smoke_keeps_every_category_and_does_not_depend_on_others() -> None:
    cases = [Case(f"q{i}", "?", category=f"c{i % 5}") for i in range(200)]
    safe = [SafetySample(f"s{i}", "x", harmful=bool(i % 2)) for i in range(500)]
    data = Dataset("big", "test", {}, cases, {}, safety_inputs=safe)
    smoke = select_suite(data, "smoke")
    assert (len(smoke.cases), len(smoke.safety_inputs)) == (40, 120)
    assert {case.category for case in smoke.cases} == {"c0", "c1", "c2", "c3", "c4"}
    assert sum(one.harmful for one in smoke.safety_inputs) == 60
    assert (
        select_suite(replace(data, cases=tuple(reversed(cases))), "smoke").queries.keys()
        == smoke.queries.keys()
    )
    assert select_suite(data, "full") is data


def test_secrets_of_answers_and_texts_reach_no_file(tmp_path: Path) -> None:
    key = "sk-" + "ant-api03-" + "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 2
    leaking = Passage(
        "dogs", f"Dogs guard the house. The key is {key} and mail goes to jo.lee@firm.com.", "dogs"
    )
    answer = Answer(
        "q2", f"The key is {key}.", ("dogs",), outcome="success", passages=(leaking,), error=None
    )
    broken = Answer("q3", "", outcome="failed", error=f"401 for {key}", contexts=(key, "INC-22314"))
    report = evaluate(DATA, [ANSWERS[0], answer, broken, ANSWERS[3]], embedder="wordllama")
    folder = write_report(report, tmp_path / "mine")
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        assert key not in text, file.name
        assert "jo.lee@firm.com" not in text, file.name
    assert report.cases[2].retrieved == ("sk***", "INC-22314")
    assert report.cases[1].scores["answer_leak_free"] == 0.0
    assert report.cases[0].scores["answer_leak_free"] == 1.0


def test_measures_of_a_judge_are_their_own_perspective() -> None:
    verdicts = '{"correctness": {"reason": "same", "verdict": "correct"}}'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = light(judge=ScriptedLLM([verdicts] * 20))
    judged = [one for one in report.perspectives if one.name == "judge"]
    assert len(judged) == 1
    assert all(row.measure.startswith("llm_") for row in report.rows if row.perspective == "judge")
    assert report.settings["judge"].startswith("scripted")


def test_safety_samples_give_figures_targets_and_rows() -> None:
    attacks = [
        SafetySample(f"a{i}", "bad" if i < 8 else "good", harmful=i < 8, category="x")
        for i in range(16)
    ]
    leaks = [
        SafetySample("o1", "Card 4111 1111 1111 1111", True, "card"),
        SafetySample("o2", "Fine.", False),
    ]
    data = Dataset("safe", "test", {}, (), {}, safety_inputs=attacks, safety_outputs=leaks)
    report = evaluate(data, [], detector=lambda text: 0.9 if text == "bad" else 0.1)
    rows = {row.measure: row for row in report.rows}
    assert (rows["attack_auc"].value, rows["attack_auc"].verdict) == (1.0, "passed")
    assert rows["attack_false_positive_rate"].lower_is_better
    assert rows["leak_detection"].value == 1.0
    assert (len(report.samples), all(one.correct for one in report.samples)) == (18, True)
    blind = evaluate(data, [], detector=lambda text: 0.5, baseline=report)
    assert blind.comparison is not None
    assert "safety inputs" in blind.comparison.regressions
    assert blind.missed == ()  # next to a baseline, only targets that the user names decide
    assert "attack_auc" in evaluate(data, [], detector=lambda text: 0.5).missed


def test_the_detectors_error_names_the_sample() -> None:
    data = Dataset("safe", "test", {}, (), {}, safety_inputs=[SafetySample("a1", "x", True)])
    with pytest.raises(DataError, match=r"a1.*detector"):
        evaluate(data, [], detector=lambda text: 2.0)


def test_a_pipeline_of_a_file_is_measured_by_evidence_spans() -> None:
    start = CORPUS["fish"].full_text.index("through gills")
    case = replace(CASES[2], evidence=(Span("fish", start, start + 13),))
    report = evaluate(
        replace(DATA, cases=(case,)).select(["q3"]), "bm25", perspectives=["retrieval"]
    )
    assert report.perspectives[0].note == "rankings judged by documents, gold evidence"
    assert values(report)["Success@5"] == values(report)["span:Success@5"] == 1.0
    assert values(report)["context_evidence_recall"] == 1.0


def test_latency_budgets_are_held_per_question() -> None:
    cases = (
        replace(CASES[0], latency_budget_ms={"total": 1e-6}),
        replace(CASES[1], latency_budget_ms={"total": 1e6}),
    )
    report = evaluate(
        replace(DATA, cases=cases).select(["q1", "q2"]), "bm25", perspectives=["pipeline"]
    )
    assert [case.scores["latency_in_budget"] for case in report.cases] == [0.0, 1.0]
    assert [one.budget for one in report.latency if one.stage == "total"] == [
        None
    ]  # two different budgets cannot be summarised as one


def test_cost_is_counted_per_question_part_and_model() -> None:
    usage = Completion(
        "Most of the day [1].", "anthropic:claude-haiku-4-5", 1_000, 200
    )  # 0.002 dollars
    answers = [replace(ANSWERS[0], usage=usage), replace(ANSWERS[1], usage=usage), *ANSWERS[2:]]
    verdict = json.dumps({"correctness": {"reason": "", "verdict": True}})
    judge = ScriptedLLM([Completion(verdict, "anthropic:claude-haiku-4-5", 2_000, 0)] * 4)
    report = light(answers=answers, judge=judge, criteria=["correctness"])
    costs = {case.query_id: dict(case.costs) for case in report.cases}
    assert costs["q1"] == {"generator": pytest.approx(0.002), "judge": pytest.approx(0.002)}
    assert costs["q3"] == {}
    # q3 failed and q4 abstained: there is nothing to judge
    assert [(one.part, one.requests) for one in report.costs] == [("generator", 2), ("judge", 2)]
    assert [one.usd for one in report.costs] == [pytest.approx(0.004)] * 2
    assert total_cost(report.costs) == pytest.approx(0.008)


def test_doubtful_claims_are_counted_and_listed_by_question() -> None:
    text = "Cats sleep most of the day. Cats build rockets in 1889."
    answers = [replace(ANSWERS[0], text=text), *ANSWERS[1:]]
    report = light(answers=answers, perspectives=["groundedness"])
    case = report.cases[0]
    assert case.unsupported_claims == ("Cats build rockets in 1889.",)
    assert case.fabricated_numbers == ("1889",)
    assert report.counts["unsupported_claims"] == sum(
        len(one.unsupported_claims) for one in report.cases
    )
    assert report.counts["fabricated_numbers"] == 1
    assert "invented_claims" not in report.counts


def test_rankings_are_measured_at_the_depths_that_are_named() -> None:
    found = values(light(perspectives=["retrieval"], ks=[2]))
    assert found["Success@2"] == pytest.approx(2 / 3)
    assert found["P@2"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found["F1@2"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    with pytest.raises(ConfigError, match="whole numbers from 1"):
        light(ks=[])


def test_the_judged_fraction_of_a_pool_has_the_depth_of_an_ndcg_with_options() -> None:
    pool = Dataset("pool", "test", CORPUS, CASES[:1], {"q1": {"cats": 1, "dogs": 0}})
    passages = (passage("cats"), passage("fish"))  # fish is not judged
    answers = [Answer("q1", "Most of the day.", outcome="success", passages=passages)]
    named = "nDCG(dcg='exp-log2')@2"
    result = evaluate(pool, answers, targets={named: 0.5})
    values = result.scores.set_index("measure")["value"]
    assert (values[named], values["Judged@2"]) == (1.0, 0.5)


def test_the_chunks_of_the_built_in_pipeline_are_described() -> None:
    report = evaluate(DATA, "bm25", perspectives=["retrieval"])
    assert report.facts["chunks"] == 3
    assert set(report.facts) >= {"tokens_mean", "tokens_median", "overlap_ratio", "coherence"}
    assert (report.facts["tokens_median"], report.facts["overlap_ratio"]) == (
        11,
        0,
    )  # cats 13, dogs 11, fish 7 or 8
    assert "chunks" not in light(perspectives=["retrieval"]).facts


def test_chunks_without_any_coherence_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics = "ragbench.evaluation.perspectives.chunk_statistics"
    monkeypatch.setattr(statistics, lambda output: {"coherence": 0.0})
    report = evaluate(DATA, "bm25", perspectives=["context"], targets={"coherence": 0.1})
    [row] = [row for row in report.rows if row.measure == "coherence"]
    assert (row.value, row.n_scored, row.verdict) == (0.0, len(DATA.cases), "missed")


def test_a_category_that_is_not_there_is_refused() -> None:
    assert list(select_categories(DATA, ["cats", "fish"]).queries) == ["q1", "q3"]
    with pytest.raises(ConfigError, match="unknown category 'cts'; did you mean 'cats'"):
        select_categories(DATA, ["cts"])
