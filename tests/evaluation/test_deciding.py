"""Which questions and which measure decide, which arm leads, and which next step follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from ragbench.evaluation import Result, Results
from ragbench.evaluation.deciding import deciding_questions
from ragbench.evaluation.decision import Conclusion, DecidingQuestions
from ragbench.evaluation.records import Cost, Latency
from ragbench.report.explorer import explore
from ragbench.statistics.race import Race
from ragbench.statistics.unreadable import compare_readable
from ragbench.testsets.known_items import KNOWN_ITEM

N = 40
RNG = np.random.default_rng(7)
BASE = RNG.uniform(0.2, 0.6, N).round(3)
NOISE = RNG.uniform(-0.1, 0.1, N).round(3)
MAYBE = np.where(np.arange(N) % 2, 0.15, -0.1)
"""Differences whose mean is above 0, and decide nothing."""

Column = Any


def arm(name: str, measures: dict[str, Column], **changes: Any) -> Result:
    """Return a configuration with a column of values for each measure."""
    ids = [f"q{i:02}" for i in range(N)]
    rows = [
        (query_id, measure, value)
        for measure, column in measures.items()
        for query_id, value in zip(ids, column, strict=True)
    ]
    config = {
        "parameters": {"retriever": name, **changes.pop("parameters", {})},
        "dataset": {"name": "tiny", "split": "test", "fingerprint": "abc"},
        "questions": {query_id: f"Question {query_id}?" for query_id in ids},
        "facts": changes.pop("facts", {}),
    }
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    return Result(name, config, {}, scores, **changes)


def ranked(name: str, column: Column, **changes: Any) -> Result:
    return arm(name, {"nDCG@10": column}, **changes)


def concluded(*arms: Result, **options: Any) -> Conclusion:
    return Results(arms, baseline="base").conclude(**options)


def verdicts(n: int, **verdict: Any) -> dict[str, dict[str, Any]]:
    """Return the same verdict for each of the first `n` questions."""
    return {f"q{i:02}": dict(verdict) for i in range(n)}


def until(n: int, column: Column) -> list[float | None]:
    """Return the first `n` values of a column; the others are unscored."""
    return [float(value) if i < n else None for i, value in enumerate(column)]


def after(n: int, column: Column) -> list[float | None]:
    """Return a column without its first `n` values."""
    return [float(value) if i >= n else None for i, value in enumerate(column)]


# which measure


def test_questions_without_an_answer_do_not_count_as_lacking_evidence() -> None:
    """29 of the 30 that have an answer have gold evidence: more than 95 %; 29 of all 40 are less."""
    unanswerable = verdicts(10, expected_outcome="no_results")
    evidence = after(11, BASE)
    arms = [
        arm(name, {"span_recall_auc": evidence, "nDCG@10": after(10, BASE)}, verdicts=unanswerable)
        for name in ("base", "other")
    ]
    assert concluded(*arms).measure == "span_recall_auc"


def test_a_measure_that_one_configuration_lacks_on_many_questions_does_not_rank() -> None:
    full = arm("base", {"span_recall_auc": BASE, "nDCG@10": BASE})
    half = arm("other", {"span_recall_auc": until(20, BASE), "nDCG@10": BASE + NOISE})
    assert concluded(full, half).measure == "nDCG@10"
    assert concluded(replace(full, name="other"), replace(half, name="base")).measure == "nDCG@10"


def with_answers(name: str, retrieval: Column, llm: str) -> Result:
    measures = {"nDCG@10": retrieval, "token_f1": BASE + NOISE}
    return arm(name, measures, parameters={"llm": llm} if llm else {})


def test_answers_rank_only_where_all_retrieve_the_same_and_a_model_wrote_some() -> None:
    same = [with_answers("base", BASE, ""), with_answers("other", BASE, "openai:small")]
    assert concluded(*same).measure == "token_f1"
    assert concluded(with_answers("base", BASE, ""), with_answers("other", BASE, "")).measure == (
        "nDCG@10"
    )
    third = with_answers("third", BASE + NOISE, "openai:small")
    assert concluded(*same, third).measure == "nDCG@10"
    assert concluded(with_answers("base", BASE, "openai:small")).measure == "nDCG@10"


def test_answers_of_services_rank_where_all_retrieve_the_same() -> None:
    arms = []
    for name, answers in (("base", BASE), ("other", BASE + 0.3)):
        measures = {"nDCG@10": BASE, "token_f1": answers}
        arms.append(arm(name, measures, parameters={"system": f"https://{name}.example/ask"}))
    conclusion = concluded(*arms)
    assert (conclusion.measure, conclusion.decision) == ("token_f1", "better")
    assert conclusion.measure_reason == "all configurations retrieve the same"


# which questions


@pytest.mark.parametrize("outcome", ["no_results", "blocked"])
def test_unanswerable_questions_are_left_out_by_that_reason(outcome: str) -> None:
    labels = verdicts(10, expected_outcome=outcome)
    arms = [ranked(name, after(10, BASE), verdicts=labels) for name in ("base", "other")]
    assert concluded(*arms).left_out == {"have no answer in the documents": 10}


def test_unanswerable_questions_that_are_scored_decide() -> None:
    labels = verdicts(10, expected_outcome="no_results")
    arms = [
        arm(name, {"nDCG@10": after(10, BASE), "pass_rate": np.arange(N) % 2}, verdicts=labels)
        for name in ("base", "other")
    ]
    conclusion = concluded(*arms, measure="pass_rate")
    assert (conclusion.n, conclusion.left_out) == (N, {})


def test_known_items_of_a_result_without_origins_are_drafts() -> None:
    labels = verdicts(N, category=KNOWN_ITEM)
    arms = [ranked("base", BASE, verdicts=labels), ranked("other", BASE + 0.3, verdicts=labels)]
    conclusion = concluded(*arms)
    assert conclusion.decision == "not possible"
    assert conclusion.composition == {"draft": N}


def test_a_measure_that_only_drafts_have_is_compared_on_no_question() -> None:
    labels = {f"q{i:02}": {"origin": "draft"} for i in range(20, N)}
    arms = []
    for name, column in (("base", BASE), ("other", BASE + NOISE)):
        measures = {"nDCG@10": column, "span_recall@5": after(20, column)}
        arms.append(arm(name, measures, verdicts=labels))
    results = Results(arms, baseline="base")
    rows = results.compare(measures=["nDCG@10", "span_recall@5"]).set_index("measure")
    assert rows["n"].to_dict() == {"nDCG@10": 20, "span_recall@5": 0}
    assert rows["difference"].isna().tolist() == [False, True]
    assert results.conclude(measure="span_recall@5").decision == "not possible"
    assert [each["name"] for each in explore(results).data["measures"]] == ["nDCG@10"]


# which arm leads


def test_where_lower_is_better_the_lowest_is_first_and_a_fall_is_better() -> None:
    arms = [
        arm(name, {"ngram_redundancy": column})
        for name, column in (
            ("base", BASE),
            ("half", BASE / 2),
            ("less", BASE / 10),
            ("more", 0.3 + BASE),
        )
    ]
    conclusion = concluded(*arms, measure="ngram_redundancy")
    assert [each.name for each in conclusion.arms] == ["less", "half", "base", "more"]
    assert (conclusion.decision, conclusion.choice) == ("better", "less")


def test_an_undecided_arm_that_may_be_better_leads_one_that_is_as_good() -> None:
    column, change = 0.3 + BASE / 2, np.where(np.arange(N) % 2, 0.39, -0.3)
    base, even = ranked("base", column), ranked("even", column + 0.1 * NOISE)
    hopeful = concluded(base, even, ranked("maybe", column + change), margin=0.15)
    assert (hopeful.decision, hopeful.action, hopeful.choice) == ("undecided", "ask", "base")
    hopeless = concluded(base, even, ranked("maybe", column - change), margin=0.15)
    assert hopeless.decision == "within the margin"


def test_the_larger_gain_leads_where_decisions_are_the_same() -> None:
    arms = [ranked("base", BASE), ranked("large", BASE + 0.4), ranked("small", BASE + 0.3)]
    for order in (arms, [arms[0], arms[2], arms[1]]):
        assert concluded(*order).choice == "large"


def test_all_arms_worse_keeps_the_baseline_and_says_so_of_all() -> None:
    conclusion = concluded(
        ranked("base", BASE), ranked("bad", BASE * 0.1), ranked("poor", BASE * 0.2)
    )
    assert conclusion.headline == ("Keep the baseline, base: all other configurations are worse")
    assert (conclusion.action, conclusion.choice) == ("keep", "base")


def costing(usd: float) -> dict[str, float]:
    return {"generator_cost_usd": usd}


def test_what_is_worse_is_not_chosen_because_it_is_cheaper() -> None:
    conclusion = concluded(
        ranked("base", BASE, facts=costing(4.0)), ranked("other", BASE * 0.1, facts=costing(1.0))
    )
    assert (conclusion.decision, conclusion.choice) == ("worse", "base")


@pytest.mark.parametrize(("base_usd", "usd", "choice"), [(4.0, 1.0, "other"), (1.0, 4.0, "base")])
def test_of_two_that_are_as_good_the_cheaper_one_is_chosen(
    base_usd: float, usd: float, choice: str
) -> None:
    conclusion = concluded(
        ranked("base", BASE, facts=costing(base_usd)),
        ranked("other", BASE + 0.1 * NOISE, facts=costing(usd)),
        margin=0.2,
    )
    assert (conclusion.decision, conclusion.choice) == ("within the margin", choice)
    assert conclusion.next_step.startswith(f"choose by cost: {choice} costs less")


def test_of_two_that_answer_at_one_price_the_cheaper_index_is_chosen() -> None:
    """A model wrote texts for the index of the faster one, which each question has for nothing."""
    arms = []
    for name, column, p50, usd in (
        ("base", BASE, 90.0, 0.0),
        ("other", BASE + 0.1 * NOISE, 20.0, 0.5),
    ):
        total = Latency("total", N, p50, p50, p50, p50)
        written = Cost("index", "openai:m", 30, 0, 9000, 600, usd)
        arms.append(ranked(name, column, facts=costing(1.0), latency=(total,), costs=(written,)))
    conclusion = concluded(*arms, margin=0.2)
    assert (conclusion.decision, conclusion.choice) == ("within the margin", "base")
    assert any("0.5000 dollars for the index" in line for line in conclusion.evidence)


def timed(name: str, column: Column, p50: float, **changes: Any) -> Result:
    """Return a configuration with the median time of its answers."""
    return ranked(name, column, latency=(Latency("total", N, p50, p50, p50, p50),), **changes)


FREE = costing(0.0)
UNPRICED: dict[str, Any] = {}


@pytest.mark.parametrize("is_other_faster", [True, False])
@pytest.mark.parametrize(
    ("base_facts", "facts", "choices", "ending"),
    [
        (FREE, FREE, ("other", "base"), ""),
        (UNPRICED, UNPRICED, ("other", "base"), "; their prices are not known"),
        (FREE, UNPRICED, ("base", "base"), "; keep base until the price of other is known"),
        (UNPRICED, FREE, ("base", "base"), "; keep base until the price of base is known"),
    ],
)
def test_a_faster_one_is_not_called_cheaper(
    base_facts: dict[str, float],
    facts: dict[str, float],
    choices: tuple[str, str],
    ending: str,
    *,
    is_other_faster: bool,
) -> None:
    base_ms, ms = (90.0, 20.0) if is_other_faster else (20.0, 90.0)
    conclusion = concluded(
        timed("base", BASE, base_ms, facts=base_facts),
        timed("other", BASE + 0.1 * NOISE, ms, facts=facts),
        margin=0.2,
    )
    faster = "other" if is_other_faster else "base"
    assert conclusion.next_step == (
        f"choose by cost: {faster} takes less time (20 ms per question (p50)){ending}"
    )
    assert conclusion.choice == choices[0 if is_other_faster else 1]


def test_times_that_hardly_differ_or_are_of_two_machines_choose_nothing() -> None:
    close = concluded(timed("base", BASE, 20.0), timed("other", BASE, 19.0))
    assert (close.action, close.choice) == ("keep", "base")
    tiny = concluded(timed("base", BASE, 0.9), timed("other", BASE, 0.1))
    assert (tiny.action, tiny.choice) == ("keep", "base")
    far = timed("other", BASE, 2.0)
    elsewhere = replace(far, config={**far.config, "environment": {"cores": 64}})
    two_machines = concluded(timed("base", BASE, 20.0), elsewhere)
    assert (two_machines.action, two_machines.choice) == ("keep", "base")
    assert any("other (2 ms per question" in line for line in two_machines.evidence)
    unmeasured = concluded(ranked("base", BASE), timed("other", BASE, 20.0))
    assert (unmeasured.action, unmeasured.choice) == ("keep", "base")


# which step


def test_ten_questions_of_people_without_labels_are_to_be_labelled() -> None:
    """Nine are too few, labelled or not."""
    for n_people, action in ((10, "label"), (9, "write")):
        drafts = {f"q{i:02}": {"origin": "draft"} for i in range(n_people, N)}
        arms = [
            ranked(name, after(n_people - 1, BASE), verdicts=drafts) for name in ("base", "other")
        ]
        conclusion = concluded(*arms)
        assert (conclusion.decision, conclusion.action) == ("not possible", action)


def diagnosed(n_doubtful: int, n_failed: int) -> pd.DataFrame:
    """Return a diagnosis with questions whose label is in doubt, which did not fail, and others."""
    causes = ["label_in_doubt"] * n_doubtful + ["not_used"] * n_failed
    return pd.DataFrame(
        {
            "query_id": [f"q{i:02}" for i in range(len(causes))],
            "failed": [False] * n_doubtful + [True] * n_failed,
            "cause": causes,
        }
    )


@pytest.mark.parametrize(
    ("n_doubtful", "n_failed", "action"),
    [(3, 15, "label"), (3, 16, "ask"), (2, 5, "ask"), (8, 15, "label"), (0, 10, "ask")],
)
def test_labels_are_checked_first_where_a_judge_doubts_three_and_a_fifth_of_the_failures(
    n_doubtful: int, n_failed: int, action: str
) -> None:
    other = ranked("other", BASE + MAYBE, diagnosis=diagnosed(n_doubtful, n_failed))
    conclusion = concluded(ranked("base", BASE), other)
    assert (conclusion.decision, conclusion.action) == ("undecided", action)


def test_no_questions_are_asked_for_where_the_arm_is_behind() -> None:
    conclusion = concluded(ranked("base", BASE), ranked("other", BASE - MAYBE))
    assert (conclusion.decision, conclusion.action) == ("undecided", "keep")


def test_no_questions_are_asked_for_where_hardly_any_number_would_decide() -> None:
    hardly = np.where(np.arange(N) % 2, 0.15, -0.1499)
    conclusion = concluded(ranked("base", BASE), ranked("other", BASE + hardly), margin=0.0)
    [other] = [each for each in conclusion.arms if each.name == "other"]
    assert (other.n_to_decide or 10**6) > 10_000
    assert (conclusion.decision, conclusion.action) == ("undecided", "keep")


def test_a_baseline_that_a_race_dropped_is_to_be_replaced() -> None:
    ids = [f"q{i:02}" for i in range(N)]
    columns = {"gone": BASE * 0.1, "base": BASE + 0.3, "third": BASE + 0.3 + NOISE}
    race = Race(
        "nDCG@10",
        0.02,
        [[query_id] for query_id in ids],
        {name: [float(value) for value in column] for name, column in columns.items()},
        drawn=N,
    )
    assert "gone" in race.stopped
    left = [ranked(name, columns[name]) for name in ("base", "third")]
    conclusion = Results(left, baseline="gone", race=race).conclude()
    assert (conclusion.decision, conclusion.action) == ("likely better", "switch")
    assert conclusion.headline.startswith(f"Change to {conclusion.arms[0].label}")
    first, about_tables, second, *rest = conclusion.evidence
    row = race.table.to_dict("index")["gone"]
    assert "are from base, which stands in for your baseline" in about_tables
    assert first.startswith(f"gone against {row['leader']} by the race: -0.")
    assert row["reason"] in first
    assert second.startswith(f"{conclusion.arms[0].label} has ")
    assert not [line for line in rest if "against" in line or "next to the baseline" in line]
    kept = Results(left, baseline="base", race=race).conclude()
    assert not kept.headline.startswith("Change to")


def test_a_baseline_that_a_race_dropped_as_no_better_is_not_called_worse() -> None:
    """The leader costs less, so an arm that is not better by the margin is dropped."""
    ids = [f"q{i:02}" for i in range(N)]
    columns = {"gone": BASE + NOISE - NOISE.mean(), "base": BASE, "third": BASE + 0.05}
    race = Race(
        "nDCG@10",
        0.4,
        [[query_id] for query_id in ids],
        {name: [float(value) for value in column] for name, column in columns.items()},
        drawn=N,
        costs={"gone": 3.0, "base": 1.0, "third": 2.0},
    )
    assert "gone" in race.stopped
    left = [ranked(name, columns[name]) for name in ("base", "third")]
    conclusion = Results(left, baseline="gone", race=race).conclude()
    assert (conclusion.decision, conclusion.action) == ("within the margin", "switch")
    assert "not better than base by 0.4 or more" in conclusion.evidence[0]


def test_the_questions_that_decide_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(results: Sequence[Result], measure: str = "") -> DecidingQuestions:
        calls.append(measure)
        return deciding_questions(results, measure)

    monkeypatch.setattr("ragbench.evaluation.results.deciding_questions", counted)
    results = Results([ranked("base", BASE), ranked("other", BASE + MAYBE)])
    results.leaderboard()
    results.compare()
    results.conclude()
    assert calls == [""]


def test_a_loss_on_every_wording_does_not_depend_on_the_wording() -> None:
    overlap = np.linspace(0, 1, N)
    labels = {f"q{i:02}": {"wording_overlap": float(overlap[i])} for i in range(N)}
    arms = [ranked("base", BASE, verdicts=labels)]
    arms.append(ranked("other", BASE * 0.5, verdicts=labels))
    evidence = concluded(*arms).evidence
    assert any("repeat least of their evidence" in line for line in evidence)
    assert not any("sign changes" in line for line in evidence)


@pytest.mark.parametrize(
    ("n_passages", "sentence"),
    [
        (N, "These questions repeat 55% of their words in their evidence (people's questions: 52%"),
        (10, "The 10 questions with gold evidence repeat 40% of their words in their evidence ("),
        (9, "These questions repeat 55% of their words in their documents (the figures of public"),
    ],
)
def test_the_overlap_with_documents_is_not_compared_with_figures_of_passages(
    n_passages: int, sentence: str
) -> None:
    labels: dict[str, dict[str, Any]] = {}
    for i in range(N):
        labels[f"q{i:02}"] = {"wording_overlap": 0.4 if i < 10 else 0.6}
        if i < n_passages:
            labels[f"q{i:02}"]["evidence_words"] = 5
    arms = [ranked(name, BASE, verdicts=labels) for name in ("base", "other")]
    [line] = [line for line in concluded(*arms).evidence if " repeat " in line]
    assert line.startswith(sentence)


def test_a_comparison_is_computed_once() -> None:
    results = Results([ranked("a", BASE), ranked("b", BASE + MAYBE)])
    compare = "ragbench.evaluation.results.compare_readable"
    with mock.patch(compare, wraps=compare_readable) as comparisons:
        first = results.compare("a")
        first["decision"] = "changed by the caller"
        again = results.compare("a")
        conclusion = results.conclude("a")
        assert comparisons.call_count == 1
        assert results.compare("b")["name"].tolist() == ["a"]
        results.compare("a", margin=0.5)
        results.compare("a", not_possible="these questions decide nothing")
        assert comparisons.call_count == 4
    assert again["decision"].tolist() == [conclusion.arms["b"].decision] == ["undecided"]
    assert repr(again) == repr(Results(list(results)).compare("a")), "printed short, too"
