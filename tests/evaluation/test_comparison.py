"""A report against an earlier one: what counts as worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from ragbench.errors import ComparisonError
from ragbench.evaluation import Result, check_comparable, compare_results
from ragbench.evaluation.records import MeasureResult, Perspective, SampleResult
from ragbench.metrics.tidy import score_frame
from ragbench.registry import Measure, declare
from ragbench.statistics import compare


def report_of(
    values: Sequence[float | None],
    passed: Sequence[bool | None] = (),
    measure: str = "RR",
    name: str = "one",
) -> Result:
    ids = [f"q{i}" for i in range(len(values))]
    good = passed or [None] * len(values)
    config = {
        "dataset": {"name": "pets", "split": "test", "fingerprint": "f" * 64},
        "questions": {one: f"question {one}" for one in ids},
        "system": {"name": "bm25"},
        "settings": {"cases": {"semantic": 0.7}, "embedder": "minilm", "judge": ""},
    }
    return Result(
        name,
        config,
        {},
        score_frame((one, measure, value) for one, value in zip(ids, values, strict=True)),
        rows=(MeasureResult(measure, "retrieval", 0.5, None, None, 1, 1),),
        perspectives=(Perspective("retrieval", True, note="judged by documents"),),
        verdicts={
            one: {"passed": passed, "reasons": () if passed else ("too short",)}
            for one, passed in zip(ids, good, strict=True)
        },
    )


def configured(result: Result, **parts: Any) -> Result:
    return replace(result, config={**result.config, **parts})


def also_scored(result: Result, value: float | None, *measures: str) -> Result:
    more = score_frame((one, name, value) for name in measures for one in result.queries)
    return replace(result, scores=pd.concat([result.scores, more], ignore_index=True))


def test_an_evaluation_compared_with_itself_has_no_regression() -> None:
    report = report_of([0.1, 0.9, None, 1.0] * 10, [True, False, None, True] * 10)
    found = compare_results(report, report)
    assert found.regressions == ()
    assert found.changes[0].difference == 0
    assert (found.changes[0].n, found.changes[0].better, found.changes[0].worse) == (30, 0, 0)
    assert (found.pass_fail[0].n, found.pass_fail[0].p_value, found.pass_fail[0].verdict) == (
        30,
        1.0,
        "no difference shown",
    )


def test_a_clear_drop_is_a_regression_and_a_clear_gain_is_not() -> None:
    low, high = report_of([0.1, 0.2] * 15), report_of([0.8, 0.7] * 15)
    worse, better = compare_results(high, low), compare_results(low, high)
    assert worse.regressions == ("RR",)
    assert worse.changes[0].difference == pytest.approx(-0.6)
    assert (worse.changes[0].better, worse.changes[0].worse) == (0, 30)
    assert (better.regressions, better.changes[0].verdict) == ((), "improvement")


def test_a_rise_is_a_regression_where_lower_is_better() -> None:
    low = with_target(report_of([0.1, 0.2] * 15, measure="ngram_redundancy"))
    high = with_target(report_of([0.8, 0.7] * 15, measure="ngram_redundancy"))
    assert compare_results(low, high).regressions == ("ngram_redundancy",)
    assert compare_results(low, high).changes[0].worse == 30
    assert compare_results(high, low).changes[0].verdict == "improvement"


def with_target(result: Result) -> Result:
    return replace(result, rows=tuple(replace(row, target=0.5) for row in result.rows))


HEURISTICS = (
    "ngram_redundancy tfidf_redundancy unique_token_ratio claim_support numeric_support "
    "citation_form citation_content citation_coverage token_f1 expected_claims answer_leak_free cost_usd overall"
).split()


@pytest.mark.parametrize("measure", HEURISTICS)
def test_a_heuristic_without_a_target_is_shown_and_decides_nothing(measure: str) -> None:
    low, high = (
        report_of(values, measure=measure) for values in ([0.1, 0.2] * 15, [0.9, 0.8] * 15)
    )
    for before, after in ((low, high), (high, low)):
        found = compare_results(before, after)
        assert found.regressions == ()
        assert found.noticeable == "too few questions to notice a fall: 30"
        for change in found.changes:  # token_f1 is not even in the table
            assert (change.verdict, change.p_adjusted) == ("shown only", None)
            assert change.ci_low is not None
    both = compare_results(low, with_target(high)), compare_results(high, with_target(low))
    assert {found.regressions for found in both} == {(), (measure,)}


@pytest.mark.parametrize(
    ("part", "measure", "nothing"),
    [
        ("semantic", "semantic_similarity", 0.0),
        ("citation", "citation_content", 0.0),
        ("hallucination", "claim_support", 1.0),
        ("expected_claims", "expected_claims", 0.0),
    ],
)
def test_a_heuristic_with_a_threshold_for_answers_decides(
    part: str, measure: str, nothing: float
) -> None:
    def found(threshold: float) -> tuple[str, ...]:
        sides = []
        for values in ([0.9, 0.8] * 15, [0.1, 0.2] * 15):
            result = report_of(values, measure=measure)
            settings = {**result.settings, "cases": {part: threshold}}
            sides.append(configured(result, settings=settings))
        return compare_results(*sides).regressions

    assert found(0.5) == (measure,)
    assert found(nothing) == ()


def test_a_heuristic_takes_no_part_in_the_correction() -> None:
    before, after = report_of([0.8] * 8), report_of([0.2] * 8)
    before, after = also_scored(before, 0.1, *HEURISTICS), also_scored(after, 0.9, *HEURISTICS)
    changes = {change.measure: change for change in compare_results(before, after).changes}
    assert changes["RR"].p_adjusted == pytest.approx(changes["RR"].p_value)
    assert changes["tfidf_redundancy"].verdict == "shown only"


@pytest.mark.parametrize("measure", ["R@5", "span_recall@5", "gold_fact_coverage", "answered"])
def test_a_measure_of_labels_decides_without_a_target(measure: str) -> None:
    low, high = (
        report_of(values, measure=measure) for values in ([0.1, 0.2] * 15, [0.9, 0.8] * 15)
    )
    assert compare_results(high, low).regressions == (measure,)


def test_the_measure_that_ranks_decides_and_names_the_fall() -> None:
    values = [0.9, 0.5, 0.7] * 10
    before, after = report_of(values), report_of(values[1:] + values[:1])
    for measure in ("span_recall_auc", "nDCG@10"):
        columns = [
            score_frame(zip(one.queries, [measure] * 30, numbers, strict=True))
            for one, numbers in ((before, [0.8, 0.6] * 15), (after, [0.2, 0.1] * 15))
        ]
        ranked = [
            replace(one, scores=pd.concat([one.scores, more]))
            for one, more in zip((before, after), columns, strict=True)
        ]
        found = compare_results(*ranked)
        assert found.ranking == measure
        assert found.regressions == (measure,)
        assert f"in {measure} would have been noticed" in found.noticeable


def test_without_any_difference_the_interval_states_the_fall() -> None:
    low = also_scored(report_of([0.5] * 30), 0.3, "nDCG@10", "tfidf_redundancy")
    found = compare_results(low, low)
    limit = next(abs(one.ci_low or 0) for one in found.changes if one.measure == "nDCG@10")
    assert found.noticeable == (
        f"a fall of more than {limit:.3f} in nDCG@10 is ruled out (95 % interval)"
    )


def labelled(
    documents: str, *, relevant: str = "ab", words: int | None = 9, digest: str = "then"
) -> Result:
    """Return a result of 12 questions, of which q3 has labels; each letter is a document."""
    result = report_of([1.0] * 12, [True] * 12)
    verdict = {"passed": True, "relevant": tuple(relevant), "evidence_words": words}
    result = replace(result, verdicts={**result.verdicts, "q3": verdict})
    return configured(
        result,
        dataset={**result.dataset, "corpus": documents},
        document_digests=dict.fromkeys(documents, "0"),
        question_digests=dict.fromkeys(result.queries, "same") | {"q3": digest},
    )


def test_a_question_that_lost_its_documents_is_named_and_the_gate_fails() -> None:
    before = labelled("abc")
    for now in (labelled("ac", digest="now"), labelled("abcd", words=None, digest="now")):
        found = compare_results(before, now)
        assert (found.lost, found.changed, found.regressions) == (("q3",), ("q3",), ())
        assert found.lost_sentence.startswith("1 question of the baseline lost ")
        assert "(q3)" in found.lost_sentence
        assert not replace(now, comparison=found).passed


def test_labels_changed_on_purpose_lose_nothing() -> None:
    before = labelled("abc")
    same_documents = labelled("abc", relevant="a", words=3, digest="now")
    renamed = labelled("axc", relevant="ax", digest="now")
    only_edited = labelled("abcd", words=12, digest="now")
    for now in (same_documents, renamed, only_edited):
        found = compare_results(before, now)
        assert (found.lost, found.changed, found.lost_sentence) == ((), ("q3",), "")
        assert replace(now, comparison=found).passed
    # labels that are as they were: the question is compared, and shows what the gone document costs
    assert compare_results(before, labelled("ac")).lost == ()


def test_a_drop_on_few_cases_is_not_shown() -> None:
    found = compare_results(report_of([1.0, 1.0, 0.5]), report_of([0.5, 1.0, 0.5]))
    assert found.regressions == ()
    assert found.changes[0].difference == pytest.approx(-1 / 6)


def test_newly_failing_and_fixed_cases_with_mcnemar() -> None:
    before = report_of([None] * 12, [True] * 10 + [False, None])
    after = report_of([None] * 12, [False] * 8 + [True, True, True, False])
    [flips] = compare_results(before, after).pass_fail
    assert [one.query_id for one in flips.newly_failing] == [f"q{i}" for i in range(8)]
    assert flips.newly_failing[0].reasons == ("too short",)
    assert [one.query_id for one in flips.fixed] == ["q10"]
    assert flips.p_value == pytest.approx(2 * (1 + 9) / 2**9)  # 8 of 9: exact, two-sided
    assert flips.verdict == "regression"
    assert compare_results(before, after).regressions == ("questions",)
    assert compare_results(after, before).pass_fail[0].verdict == "improvement"


def test_unchanged_measures_take_no_part_in_the_correction() -> None:
    same = tuple(SampleResult(f"s{i}", "input", True, "jailbreak", 0.9, True) for i in range(10))
    before = replace(report_of([0.8] * 8, [True] * 8), samples=same)
    after = replace(report_of([0.2] * 8, [False] * 6 + [True] * 2), samples=same)
    still = ("R@5", "nDCG@5", "AP", "Success@5", "answered")

    found = compare_results(*(also_scored(one, 1.0, *still) for one in (before, after)))
    change = next(one for one in found.changes if one.measure == "RR")
    assert change.p_adjusted == pytest.approx(change.p_value), "not times 5"
    assert change.p_value == pytest.approx(compare(before.scores, after.scores)["p_value"].iloc[0])
    assert {one.p_adjusted for one in found.changes if one.measure != "RR"} == {1.0}
    questions, samples = found.pass_fail
    assert questions.p_value == pytest.approx(2 / 2**6)
    assert (questions.verdict, samples.p_value, samples.verdict) == (
        "regression",
        1.0,
        "no difference shown",
    )


def test_safety_samples_are_paired_by_id() -> None:
    right = tuple(SampleResult(f"s{i}", "input", True, "jailbreak", 0.9, True) for i in range(10))
    wrong = tuple(replace(one, score=0.1, correct=False) for one in right)
    base = report_of([1.0])
    found = compare_results(replace(base, samples=right), replace(base, samples=wrong))
    assert found.regressions == ("safety inputs",)
    assert found.pass_fail[0].newly_failing[0].reasons == ("harmful, score 0.10",)


def test_the_order_of_cases_does_not_matter() -> None:
    report = report_of([0.1, 0.9, 0.3, 0.4])
    turned = replace(report, scores=report.scores.iloc[::-1])
    assert compare_results(report, turned).changes[0].difference == 0


def test_only_the_questions_that_both_have_are_compared_and_the_others_are_named() -> None:
    more = compare_results(report_of([1.0] * 12), report_of([1.0] * 14))
    assert (more.n, more.new, more.removed, more.changed) == (12, ("q12", "q13"), (), ())
    assert "2 questions are new and not compared: q12, q13" in more.notes
    fewer = compare_results(report_of([1.0] * 14), report_of([1.0] * 12))
    assert (fewer.n, fewer.removed) == (12, ("q12", "q13"))
    assert all(change.n == 12 for change in (*more.changes, *fewer.changes))


def test_a_question_with_another_text_or_other_labels_is_changed() -> None:
    def digests(report: Result, changed: int) -> Result:
        values = {name: f"{i == changed}{name}" for i, name in enumerate(report.queries)}
        config = {**report.config, "question_digests": values}
        return replace(report, config=config)

    before, now = report_of([1.0] * 12), report_of([1.0] * 12)
    found = compare_results(digests(before, -1), digests(now, 3))
    assert (found.n, found.changed) == (11, ("q3",))
    queries = {**before.queries, "q5": "Another one?"}
    old = replace(before, config={**before.config, "questions": queries})
    assert compare_results(old, now).changed == ("q5",)


def test_no_question_in_common_is_refused() -> None:
    report = report_of([1.0, 0.5])
    other = replace(report, config={**report.config, "questions": {"x": "?", "y": "?"}})
    with pytest.raises(ComparisonError, match="no question in common"):
        compare_results(other, report)


def test_changed_documents_are_compared_with_a_note() -> None:
    report = report_of([1.0, 0.5] * 6)
    other = configured(report, dataset={**report.dataset, "corpus": "0" * 12})
    found = compare_results(other, report)
    assert found.notes == ("the documents have changed since the baseline",)
    assert found.n == 12


def test_how_large_a_fall_could_have_been_noticed() -> None:
    found = compare_results(report_of([0.9, 0.5] * 20), report_of([0.5, 0.9] * 20))
    [change] = found.changes
    assert found.noticeable == (
        f"a fall of {change.mde:.3f} in {change.measure} would have been noticed (80 % power)"
    )
    assert compare_results(report_of([1.0]), report_of([1.0])).noticeable.startswith("too few")


def test_another_embedder_is_refused() -> None:
    report = report_of([1.0, 0.5])
    with pytest.raises(
        ComparisonError,
        match="measured with the embedder 'minilm', this evaluation with 'wordllama'",
    ):
        check_comparable(report, report.queries, {}, {"embedder": "wordllama"})


def test_other_thresholds_leave_passed_questions_out_with_a_note() -> None:
    report = report_of([1.0] * 8, [True] * 8)
    other = configured(report, settings={**report.settings, "cases": {"semantic": 0.5}})
    found = compare_results(report, other)
    assert found.pass_fail == ()
    assert found.notes == ("passed questions are not compared: other thresholds (semantic)",)


def test_rankings_of_other_chunks_are_left_out_with_a_note() -> None:
    aimed = (MeasureResult("span:RR", "retrieval", 0.5, None, None, 1, 1, target=0.5),)
    one = configured(report_of([0.9] * 20, measure="span:RR"), system={"chunking": "abc"})
    low = replace(report_of([0.1] * 20, measure="span:RR"), rows=aimed)
    two = configured(low, system={"chunking": "def"})
    found = compare_results(one, two)
    assert (found.changes, found.regressions) == ((), ())
    assert found.notes[0].startswith(
        "span:RR cannot be compared: the documents are cut differently"
    )
    same = compare_results(one, configured(low, system={"chunking": "abc"}))
    assert same.regressions == ("span:RR",)


def test_each_difference_has_its_p() -> None:
    before, after = (
        report_of([0.4, 0.5, 0.6, 0.5, 0.3, 0.7]),
        report_of([0.5, 0.5, 0.5, 0.6, 0.4, 0.7]),
    )
    [change] = compare_results(before, after).changes
    assert change.difference == pytest.approx(0.2 / 6)
    assert change.p_value == pytest.approx(compare(before.scores, after.scores)["p_value"].iloc[0])
    [same] = compare_results(before, before).changes
    assert same.p_value == 1.0


def test_what_one_of_the_two_did_not_measure_is_not_listed() -> None:
    before, after = report_of([1.0, 0.5, 0.5]), report_of([0.5, 0.5, 1.0])
    found = compare_results(also_scored(before, 1.0, "R@5"), also_scored(after, None, "R@5"))
    assert [one.measure for one in found.changes] == ["RR"]


def test_a_question_asked_ten_times_flips_once() -> None:
    def repeated(passed: bool) -> Result:
        report = report_of([1.0] * 20, [passed] * 20)
        queries = {name: f"Question {i // 10}?" for i, name in enumerate(report.queries)}
        return configured(report, questions=queries)

    [group] = compare_results(repeated(True), repeated(False)).pass_fail
    assert len(group.newly_failing) == 20
    assert group.p_value == 0.5  # of two questions, and not of twenty
    assert group.verdict == "no difference shown"


@pytest.mark.parametrize(("n_failing", "verdict"), [(5, "no difference shown"), (6, "regression")])
def test_a_regression_takes_a_p_below_5_percent(n_failing: int, verdict: str) -> None:
    """Five of five that fail have p .0625, six of six .031."""
    before = report_of([None] * 12, [True] * 12)
    after = report_of([None] * 12, [False] * n_failing + [True] * (12 - n_failing))
    [flips] = compare_results(before, after).pass_fail
    assert (flips.p_value, flips.verdict) == (2 / 2**n_failing, verdict)


@pytest.mark.parametrize("sign", [1, -1])
def test_measures_that_only_fell_or_only_rose_take_part_in_the_correction(sign: int) -> None:
    change = [0.5 + sign * (0.3 if i % 3 == 0 else 0.0) for i in range(18)]
    before, after = report_of([0.5] * 18), report_of(change)
    both = [
        replace(one, scores=pd.concat([one.scores, one.scores.assign(measure="R@5")]))
        for one in (before, after)
    ]
    changes = compare_results(*both).changes
    assert [one.measure for one in changes] == ["RR", "R@5"]
    for one in changes:
        assert one.p_value is not None
        assert one.p_adjusted == pytest.approx(2 * one.p_value)


def test_a_changed_question_that_fails_is_no_regression() -> None:
    before, after = report_of([1.0] * 12, [True] * 12), report_of([1.0] * 12, [False] * 12)
    asked = {**before.queries, **{f"q{i}": f"another {i}" for i in range(6)}}
    found = compare_results(configured(before, questions=asked), after)
    [flips] = found.pass_fail
    assert (found.n, flips.n, len(flips.newly_failing)) == (6, 6, 6)
    assert [flip.query_id for flip in flips.newly_failing] == [f"q{i}" for i in range(6, 12)]


def test_a_measure_of_the_users_own_is_compared() -> None:
    declare(Measure("tone", meaning="how kind an answer is"))
    low, high = (report_of(values, measure="tone") for values in ([0.1] * 30, [0.9] * 30))
    assert compare_results(high, low).regressions == ("tone",)
