"""The conclusion: each decision of the table, who decides, one next step, and the same sentence on
every surface.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import report
from ragbench.cli import app
from ragbench.cli.compare import print_decision
from ragbench.evaluation import Result, Results
from ragbench.evaluation.causes import CAUSES, STAGE_OF
from ragbench.evaluation.decision import (
    Arm,
    Conclusion,
    DecidingQuestions,
    difference_sentences,
    next_step_of,
)
from ragbench.evaluation.records import Latency, MeasureResult
from ragbench.report.explorer import explore
from ragbench.report.page.html_report import report_html
from ragbench.report.page.junit import report_junit
from ragbench.report.page.markdown import report_markdown
from ragbench.report.page.report_json import report_json
from ragbench.report.several import results_html, results_json, results_markdown
from ragbench.sweep.leaderboard_files import leaderboard_texts
from ragbench.types import Answer, Judgement

N = 40


def result(name: str, values: Any, **changes: Any) -> Result:
    """Return a result of `N` questions by nDCG@10; `verdicts`, `measure` and `more` change it."""
    ids = [f"q{i:02}" for i in range(len(values))]
    measure = changes.pop("measure", "nDCG@10")
    rows = [(query_id, measure, value) for query_id, value in zip(ids, values, strict=True)]
    for other, numbers in changes.pop("more", {}).items():
        rows += [(query_id, other, value) for query_id, value in zip(ids, numbers, strict=True)]
    verdicts = changes.pop("verdicts", {})
    config = {
        "parameters": {"retriever": name, **changes.pop("parameters", {})},
        "dataset": {"name": "tiny", "split": "test", "fingerprint": "abc"},
        "environment": {"python": "3.11", "cores": changes.pop("cores", 2)},
        "questions": {query_id: f"Question {query_id}?" for query_id in ids},
    }
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    return Result(name, config, {}, scores, verdicts=verdicts, **changes)


def concluded(*arms: Result, **options: Any) -> Conclusion:
    return Results(arms, baseline="base").conclude(**options)


RNG = np.random.default_rng(7)
BASE = RNG.uniform(0.2, 0.6, N).round(3)
NOISE = RNG.uniform(-0.1, 0.1, N).round(3)
ARMS: dict[str, Any] = {
    "better": BASE + 0.3 + NOISE,
    "likely better": BASE + 0.05 + 1.2 * NOISE,
    "undecided": BASE + 0.005 + 2 * NOISE,
    "likely worse": BASE - 0.05 + 1.2 * NOISE,
    "worse": BASE * 0.1,
}
STEPS = {
    "better": ("switch", "switch to other"),
    "likely better": ("switch", "switch to other"),
    "likely worse": ("keep", "keep the baseline, base"),
    "worse": ("keep", "keep the baseline, base"),
}


@pytest.mark.parametrize("decision", ARMS)
def test_each_decision_has_its_sentence_and_one_next_step(decision: str) -> None:
    conclusion = concluded(result("base", BASE), result("other", ARMS[decision]))
    assert conclusion.decision == decision
    if decision in STEPS:
        assert (conclusion.action, conclusion.next_step) == STEPS[decision]
    assert conclusion.choice == ("other" if "better" in decision else "base")
    assert conclusion.lines[0] == f"{conclusion.headline}."
    assert conclusion.lines[-1] == f"Next: {conclusion.next_step}."
    assert sum(line.startswith("Next: ") for line in conclusion.lines) == 1
    assert (conclusion.n, conclusion.total) == (N, N)
    is_likely = any("hits more than" in line for line in conclusion.evidence)
    assert is_likely == decision.startswith("likely")


def test_a_margin_makes_two_as_good_as_each_other() -> None:
    other = result("other", BASE + 0.1 * NOISE)
    conclusion = concluded(result("base", BASE), other, margin=0.2)
    assert conclusion.decision == "within the margin"
    assert conclusion.headline == "other is as good as base, within the margin"
    assert conclusion.action == "keep"


def test_a_tie_on_every_question_gives_one_instruction() -> None:
    conclusion = concluded(result("base", BASE), result("other", BASE))
    assert conclusion.headline == f"other and base are equal on every one of {N} questions"
    assert conclusion.action == "keep"
    assert "nan" not in str(conclusion)


def test_an_undecided_arm_that_leads_asks_for_more_questions() -> None:
    shift = np.where(np.arange(N) % 2, 0.15, -0.1)
    conclusion = concluded(result("base", BASE), result("other", BASE + shift))
    assert (conclusion.decision, conclusion.action) == ("undecided", "ask")
    n_more = int(conclusion.next_step.split()[2].replace(",", ""))
    [other] = [arm for arm in conclusion.arms if arm.name == "other"]
    assert other.n_to_decide == N + n_more
    assert conclusion.next_step.endswith("more questions; until then keep base")


def test_one_arm_is_no_comparison() -> None:
    verdicts = {"q00": {"passed": True}, "q01": {"passed": False}}
    conclusion = concluded(result("base", BASE, verdicts=verdicts))
    assert conclusion.decision == "not possible"
    assert conclusion.headline == f"base: 1 of {N} questions passed, 1 failed, {N - 2} not decided"


def test_one_arm_without_any_value_has_a_conclusion() -> None:
    conclusion = concluded(result("base", [None] * N, measure="RR"))
    assert conclusion.decision == "not possible"
    assert conclusion.headline == f"base: 0 of {N} questions passed, {N} not decided"


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_of_most_failures_has_an_instruction_for_its_stage(cause: str) -> None:
    diagnosis = pd.DataFrame({"query_id": ["q00"], "failed": [True], "cause": [cause]})
    conclusion = concluded(result("base", BASE, diagnosis=diagnosis))
    instructions = {
        "retrieval": "try another retriever",
        "chunking": "try another chunking",
        "generation": "try another model",
        "judge": "check the judge's verdicts by hand: most failures may be right answers",
        "label": "check the labels: most failures may be right answers",
        "unknown": "label the evidence: no label says where most failures lost it",
    }
    assert conclusion.action == "improve"
    assert conclusion.next_step.startswith(instructions[STAGE_OF[cause]])
    assert conclusion.next_step.endswith(f" (1 {CAUSES[cause]})")


def test_fewer_than_ten_questions_decide_nothing() -> None:
    conclusion = concluded(result("base", [0.1] * 9), result("other", [0.9] * 9))
    assert conclusion.decision == "not possible"
    assert conclusion.headline.startswith("No decision: only 9 questions can decide by nDCG@10")
    assert concluded(result("base", [0.1] * 10), result("other", [0.9] * 10)).decision == "better"


def origins(n_people: int, n_drafts: int, n_generated: int = 0) -> dict[str, dict[str, Any]]:
    """Return verdicts by which the first questions are people's, then drafts, then generated."""
    kinds = ["people"] * n_people + ["draft"] * n_drafts + ["generated"] * n_generated
    return {f"q{i:02}": {"origin": kind} for i, kind in enumerate(kinds) if kind != "people"}


def test_drafts_never_decide_between_retrievers() -> None:
    verdicts = origins(0, N)
    arms = [result(name, values, verdicts=verdicts) for name, values in two().items()]
    conclusion = concluded(*arms)
    assert conclusion.decision == "not possible"
    assert "repeat the words of their passages" in conclusion.headline
    assert conclusion.action == "write"
    assert conclusion.next_step.startswith("write 20 questions of your own")
    assert conclusion.composition == {"draft": N}


def two() -> dict[str, Any]:
    return {"base": BASE, "other": ARMS["better"]}


def test_drafts_decide_between_models_that_retrieve_the_same() -> None:
    verdicts = origins(0, N)
    same = {"nDCG@10": BASE}
    arms = [
        result(
            name,
            values,
            measure="llm_correctness",
            more=same,
            verdicts=verdicts,
            parameters={"llm": f"openai:{name}"},
        )
        for name, values in {"base": BASE, "other": BASE + 0.3}.items()
    ]
    conclusion = concluded(*arms)
    assert (conclusion.decision, conclusion.measure) == ("better", "llm_correctness")
    assert conclusion.measure_reason == "all configurations retrieve the same"


def test_questions_of_people_decide_and_drafts_do_not_enter() -> None:
    """With the drafts the other one would be worse: they are as many, and lexical."""
    verdicts = origins(20, 20)
    other = np.concatenate([BASE[:20] + 0.3, BASE[20:] - 0.2])
    conclusion = concluded(
        result("base", BASE, verdicts=verdicts), result("other", other, verdicts=verdicts)
    )
    assert (conclusion.decision, conclusion.choice) == ("better", "other")
    assert (conclusion.n, conclusion.total) == (20, N)
    assert conclusion.left_out == {
        "are known-item drafts, which repeat the words of their passages": 20
    }
    [arm] = [arm for arm in conclusion.arms if arm.name == "other"]
    assert (arm.n, round(arm.difference or 0, 3)) == (20, 0.3)
    line = "20 of 40 questions decide: 20 are known-item drafts, which repeat the words of their passages."
    assert line in conclusion.evidence


@pytest.mark.parametrize(("n_people", "n_generated"), [(9, 0), (9, 20), (1, 20)])
def test_fewer_than_ten_questions_of_people_next_to_others_decide_nothing(
    n_people: int, n_generated: int
) -> None:
    verdicts = origins(n_people, N - n_people - n_generated, n_generated)
    arms = [result(name, values, verdicts=verdicts) for name, values in two().items()]
    conclusion = concluded(*arms)
    assert conclusion.decision == "not possible"
    assert f"only {n_people} question" in conclusion.headline
    assert "of people" in conclusion.headline
    assert conclusion.next_step.startswith(f"write {20 - n_people} questions")


def test_the_users_questions_without_gold_evidence_choose_another_measure() -> None:
    """22 questions with documents only, next to 37 drafts and 3 examples that have gold evidence."""
    n = 62
    verdicts = {f"q{i:02}": {"origin": "draft"} for i in range(22, n)}
    lexical = np.where(np.arange(n) < 22, 0.3, 0.9)
    hybrid = np.where(np.arange(n) < 22, 0.9, 0.3)
    evidence = [None if i < 22 else 1.0 for i in range(n)]
    less = [None if i < 22 else 0.5 for i in range(n)]
    conclusion = concluded(
        result("base", lexical, verdicts=verdicts, more={"span_recall_auc": evidence}),
        result("other", hybrid, verdicts=verdicts, more={"span_recall_auc": less}),
    )
    assert (conclusion.measure, conclusion.decision) == ("nDCG@10", "better")
    assert (conclusion.n, conclusion.total) == (22, 62)
    board = Results(
        [
            result("base", lexical, verdicts=verdicts, more={"span_recall_auc": evidence}),
            result("other", hybrid, verdicts=verdicts, more={"span_recall_auc": less}),
        ]
    ).leaderboard()
    assert board["nDCG@10_n"].tolist() == ["22/62", "22/62"]
    assert board["name"].tolist() == ["other", "base"]


@pytest.mark.parametrize(
    ("n_evidence", "measure"), [(40, "span_recall_auc"), (38, "span_recall_auc"), (37, "nDCG@10")]
)
def test_a_measure_ranks_if_95_percent_of_the_questions_have_it(
    n_evidence: int, measure: str
) -> None:
    evidence = [0.5 if i < n_evidence else None for i in range(N)]
    more = {"span_recall_auc": evidence}
    conclusion = concluded(result("base", BASE, more=more), result("other", BASE, more=more))
    assert conclusion.measure == measure
    if n_evidence == 38:
        assert conclusion.left_out == {"have no gold evidence": 2}
        assert (conclusion.n, conclusion.total) == (38, N)


def test_questions_without_an_answer_are_no_lack_of_labels() -> None:
    verdicts = {f"q{i:02}": {"expected_outcome": "no_results"} for i in range(10)}
    values = [None if i < 10 else BASE[i] for i in range(N)]
    conclusion = concluded(
        result("base", values, verdicts=verdicts), result("other", values, verdicts=verdicts)
    )
    assert conclusion.left_out == {"have no answer in the documents": 10}


def test_a_decision_that_depends_on_the_wording_says_so() -> None:
    overlap = np.linspace(0, 1, N)
    verdicts = {f"q{i:02}": {"wording_overlap": float(overlap[i])} for i in range(N)}
    change = np.where(overlap < 0.5, -0.05, 0.35) + NOISE / 10
    arms = [result("base", BASE, verdicts=verdicts)]
    arms.append(result("other", BASE + change, verdicts=verdicts))
    assert any("sign changes" in line for line in concluded(*arms).evidence)
    arms[1] = result("other", BASE + 0.3 + NOISE, verdicts=verdicts)
    assert not any("sign changes" in line for line in concluded(*arms).evidence)


def test_the_length_of_the_evidence_is_shown_where_evidence_ranks() -> None:
    verdicts = {f"q{i:02}": {"evidence_words": 2 * i} for i in range(N)}
    more = {"span_recall_auc": [0.5] * N}
    arms = [result(name, BASE, more=more, verdicts=verdicts) for name in ("base", "other")]
    lines = [line for line in concluded(*arms).evidence if "at the median" in line]
    assert lines
    assert f"has {N - 1} words at the median" in lines[0]
    arms = [result(name, BASE, verdicts=verdicts) for name in ("base", "other")]
    assert not any("at the median" in line for line in concluded(*arms).evidence)


def test_costs_choose_between_two_that_are_as_good_as_each_other() -> None:
    arms = []
    for name, usd in (("base", 4.0), ("other", 1.0)):
        arm = result(name, BASE)
        arms.append(replace(arm, config={**arm.config, "facts": {"generator_cost_usd": usd}}))
    conclusion = concluded(*arms)
    assert (conclusion.action, conclusion.choice) == ("choose by cost", "other")
    assert conclusion.next_step.startswith("choose by cost: other costs less (25.00 dollars")


def test_two_machines_are_pointed_out() -> None:
    conclusion = concluded(result("base", BASE), result("other", BASE, cores=64))
    assert "2 different environments" in conclusion.evidence[-1]


def turns(made: Result) -> Result:
    """Return a result whose questions are turns of conversations, four of each."""
    ids = [f"c{i // 4:02}<::>{i % 4}" for i in range(len(made.queries))]
    names = dict(zip(made.queries, ids, strict=True))
    questions = {names[query_id]: text for query_id, text in made.queries.items()}
    scores = made.scores.assign(query_id=made.scores["query_id"].map(names))
    return replace(made, scores=scores, config={**made.config, "questions": questions})


LONG = np.tile(BASE, 10)
UNLABELLED = [None if i < 2 else 0.5 for i in range(N)]
PASSED = {"q00": {"passed": True}, "q01": {"passed": False}}
ROW = MeasureResult("nDCG@10", "retrieval", 0.4, None, None, N, N)


def unpriced(name: str, p50: float) -> Result:
    """Return a result of a model whose price is unknown, with the median time of its answers."""
    return result(name, BASE, latency=(Latency("total", N, p50, p50, p50, p50),))


KINDS: dict[str, Sequence[Result]] = {
    **{name: [result("base", BASE), result("other", ARMS[name])] for name in ARMS},
    "within the margin": [result("base", LONG), result("other", LONG + 0.001)],
    "too few questions": [result("base", BASE[:9]), result("other", BASE[:9] + 0.3)],
    "drafts alone": [
        result(name, values, verdicts=origins(0, N), rows=(ROW,)) for name, values in two().items()
    ],
    "one arm": [result("base", BASE, verdicts=PASSED, rows=(ROW,))],
    "race": [result("base", BASE), result("other", ARMS["better"])],
    "conversations": [turns(result("base", BASE)), turns(result("other", ARMS["better"]))],
    "unknown prices": [unpriced("base", 90.0), unpriced("other", 20.0)],
    "missing labels": [
        result("base", BASE, more={"span_recall_auc": UNLABELLED}),
        result("other", BASE, more={"span_recall_auc": [0.9] * N}),
    ],
}
"""Every decision, and every reason why none is possible or fewer questions decide; two arms or one."""
DECISIONS_OF = {
    "too few questions": "not possible",
    "drafts alone": "not possible",
    "one arm": "not possible",
    "race": "better",
    "unknown prices": "undecided",
    "conversations": "likely better",
    "missing labels": "better",
}
RACE = {
    "measure": "nDCG@10",
    "margin": 0.02,
    "draws": [[query_id] for query_id in KINDS["race"][0].queries],
    "scores": {
        "base": list(BASE),
        "other": list(ARMS["better"]),
        "dropped": [0.0] * N,
    },
    "drawn": N,
}


def saved_kind(kind: str, folder: Path) -> Results:
    """Save the results of a kind, and load them."""
    for arm in KINDS[kind]:
        rb.save(arm, folder / arm.name)
    if kind == "race":
        text = json.dumps({"race": RACE, "made_from": "x"})
        (folder / "race.json").write_text(text, encoding="utf-8")
    return rb.load_results(folder)


def words_of(text: str) -> str:
    """Return the words of a text, without tags, signs of Markdown, and line breaks."""
    without_tags = unescape(re.sub("<[^>]*>", "", text))
    return " ".join(re.sub(r"[*\\]", "", without_tags).split())


def cells_of_compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run compare.ipynb until a cell shows something; return the title and the findings that it shows."""
    path = Path(__file__).parents[2] / "notebooks/compare.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown: list[str] = []
    monkeypatch.setattr(
        report,
        "section",
        lambda *parts: shown.extend(part for part in parts if isinstance(part, str)),
    )
    variables: dict[str, Any] = {}
    exec(codes[0], variables)
    variables["sweep_dir"] = str(folder)
    for code in codes[1:]:
        exec(code, variables)
        if shown:
            break
    return "\n".join(shown)


@pytest.mark.parametrize("kind", KINDS)
def test_every_surface_has_the_same_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dashboard's test is in tests/service/server/test_decisions.py."""
    folder = tmp_path / "sweep"
    results = saved_kind(kind, folder)
    conclusion = results.conclude()
    assert conclusion.decision == DECISIONS_OF.get(kind, kind)
    as_dict = json.loads(json.dumps(conclusion.to_dict()))

    def command(*options: str) -> str:
        return CliRunner().invoke(app, ["compare", str(folder), *options]).output

    assert json.loads(command("--json")) == as_dict
    in_report = json.loads(results_json(results))["conclusion"]
    for name in ("decision", "headline", "next_step", "evidence", "n", "total", "left_out"):
        assert in_report[name] == as_dict[name], name
    capsys.readouterr()
    print_decision(results)
    board = leaderboard_texts(
        folder / "leaderboard.csv", results, results.leaderboard(), results.baseline
    )
    surfaces = {
        "compare": command(),
        "compare --markdown": command("--markdown"),
        "sweep": capsys.readouterr().out,
        "leaderboard.md": board[folder / "leaderboard.md"],
        "report.md of several": results_markdown(results),
        "report.html of several": results_html(results),
        "repr": str(conclusion),
    }
    if len(results) > 1:
        surfaces["notebook"] = cells_of_compare(folder, monkeypatch)
        surfaces["explorer"] = explore(results).conclusion
    for name, text in surfaces.items():
        words = words_of(text)
        assert words_of(conclusion.headline) in words, name
        assert words.count("Next: ") == 1, name
        assert f"Next: {words_of(conclusion.next_step)}." in words, name
        if name != "explorer":
            for sentence in conclusion.evidence:
                assert words_of(sentence) in words, name
    if len(results) > 1:
        rows = report.leaderboard_rows(results.leaderboard(), conclusion.measure, results.compare())
        assert set(rows["decision"]) == {"", conclusion.decision}


def test_the_surfaces_of_one_evaluation_have_the_same_sentence(tmp_path: Path) -> None:
    [made] = saved_kind("one arm", tmp_path)
    conclusion = Results([made]).conclude()
    sentence = conclusion.headline.removeprefix("base: ")
    stated = {
        one.get("name"): one.get("value")
        for one in ElementTree.fromstring(report_junit(made)).iter("property")
    }
    assert (stated["conclusion"], stated["next step"]) == (
        conclusion.headline,
        conclusion.next_step,
    )
    record = json.loads(report_json(made))
    assert record["conclusion"]["headline"] == conclusion.headline
    assert record["conclusion"]["next_step"] == conclusion.next_step
    surfaces = {
        "eval": report_markdown(made, is_brief=True),
        "report.md": report_markdown(made),
        "report.html": report_html(made),
        "notebook": "\n".join(report.findings(made, rb.summarise(made.scores))),
    }
    for name, text in surfaces.items():
        words = words_of(text)
        assert sentence in words, name
        assert words.count("Next: ") == 1, name
        assert f"Next: {words_of(conclusion.next_step)}." in words, name


def test_the_best_of_many_is_expected_to_gain_less_than_was_observed() -> None:
    """Twenty arms as good as the baseline but for luck, and one of two that is really better."""
    rng = np.random.default_rng(3)
    lucky = [result(f"arm{i}", (BASE + rng.normal(0, 0.3, N)).clip(0, 1)) for i in range(20)]
    arms = concluded(result("base", BASE), *lucky).arms
    [best] = [arm for arm in arms if arm.expected is not None]
    assert best.difference is not None
    assert best.difference > 0.05
    assert best.expected is not None
    assert best.expected < best.difference / 2
    conclusion = concluded(result("base", BASE), result("other", ARMS["better"]))
    [better] = [arm for arm in conclusion.arms if arm.name == "other"]
    assert better.expected == pytest.approx(better.difference, abs=0.02)
    line = f"Observed {better.difference:+.3f}; expected on new questions about "
    assert any(sentence.startswith(line) for sentence in conclusion.evidence)


@pytest.mark.parametrize(
    ("n", "n_more", "difference", "action"),
    [
        (50, 1, 0.05, "ask"),
        (50, 999, 0.05, "ask"),
        (50, 1000, 0.05, "keep"),
        (200, 1999, 0.05, "ask"),
        (200, 2000, 0.05, "keep"),
        (50, 100, -0.05, "keep"),
        (50, None, 0.05, "keep"),
    ],
)
def test_questions_are_asked_for_only_where_they_can_be_written(
    n: int, n_more: int | None, difference: float, action: str
) -> None:
    """At most ten times as many as there are, or 1,000, and only for a gain."""
    n_to_decide = None if n_more is None else n + n_more
    leading = Arm(
        "b", "b", 0.5, "undecided", difference=difference, n=n, ties=5, n_to_decide=n_to_decide
    )
    deciding = DecidingQuestions("nDCG@10", "", frozenset(), n, n, {}, {"people": n}, "")
    kind, step = next_step_of(leading, Arm("a", "a", 0.45), deciding)
    assert kind == action
    if kind == "ask":
        assert step == f"ask about {n_more:,} more questions; until then keep a"
    else:
        assert step == "keep the baseline, a"


@pytest.mark.parametrize(
    ("ci_low", "n_tests", "reason"),
    [
        (0.062, 5, "Likely: its p is 0.060 after Holm's correction for 5 comparisons."),
        (
            -0.01,
            5,
            "Likely, unless a loss that none of these 40 questions showed hits more than 26",
        ),
        (
            0.062,
            1,
            "Likely, unless a loss that none of these 40 questions showed hits more than 26",
        ),
    ],
)
def test_likely_states_the_reason_why_it_is_no_more(
    ci_low: float, n_tests: int, reason: str
) -> None:
    """An interval without 0 is no reason for a doubt about losses: the correction is."""
    leading = Arm(
        "b",
        "b",
        0.7,
        "likely better",
        difference=0.26,
        ci_low=ci_low,
        ci_high=0.434,
        shared_mean=0.7,
        baseline_shared_mean=0.44,
        n=N,
        n_independent=N,
        p_adjusted=0.06,
        n_tests=n_tests,
        loss_rate_to_overturn=0.26,
    )
    deciding = DecidingQuestions("nDCG@10", "", frozenset(), N, N, {}, {"people": N}, "")
    lines = difference_sentences(leading, Arm("a", "a", 0.44, n=N), deciding)
    assert lines[1].startswith(reason)
    assert len(lines) == 2


def test_the_means_next_to_a_difference_are_over_the_same_questions() -> None:
    """Of questions that only one side has scored, neither mean knows anything."""
    scored_by_one = np.append(np.full(30, 0.25), np.full(10, np.nan))
    scored_by_all = np.append(np.full(30, 0.5), np.full(10, 0.0))
    conclusion = concluded(result("base", scored_by_one), result("other", scored_by_all))
    assert "0.500 against 0.250, +0.250" in conclusion.evidence[0]
    assert conclusion.arms["other"].mean == 0.375


def test_failed_questions_are_stated_with_how_they_count() -> None:
    """Of five that failed, three count as 0, and two that nothing scores do not count."""
    values = np.where(np.arange(N) < 3, 0.0, BASE)
    values[3:5] = np.nan
    failed = [
        Answer(f"q{i:02}", "", outcome="failed", error="other: 500 after 3 tries") for i in range(5)
    ]
    conclusion = concluded(result("base", BASE), result("other", values, answers=failed))
    [line] = [line for line in conclusion.evidence if "failed" in line]
    assert line.startswith("5 of 40 questions failed in other (the first: 500 after 3 tries)")
    assert "3 count as 0 by nDCG@10, 2 do not count" in line


def test_a_judge_that_decides_is_named_with_the_findings_of_its_audit() -> None:
    verdicts = [
        Judgement(f"q{i:02}", "correctness", 1.0, model="openai:m", samples=(1.0,))
        for i in range(N)
    ]
    arms = [
        result(name, BASE, measure="llm_correctness", judgements=verdicts)
        for name in ("base", "other")
    ]
    [line] = [line for line in concluded(*arms).evidence if line.startswith("Judged by")]
    assert line.startswith("Judged by openai:m, not audited before")
    card = {
        "judge": "openai:m",
        "criterion": "correctness",
        "made_at": "2026-03-01T10:00:00+00:00",
        "findings": ["it accepts empty answers"],
        "probes": [{}],
    }
    audited = [replace(arm, config={**arm.config, "judge_cards": [card]}) for arm in arms]
    [line] = [line for line in concluded(*audited).evidence if line.startswith("Judged by")]
    assert line.startswith("Judged by openai:m; audited by correctness on 2026-03-01")
    assert "it accepts empty answers" in line


def test_a_measure_of_retrieval_that_too_few_questions_have_says_so() -> None:
    """The reason counts answerable questions alone: 36 of these 40, of which 33 have documents."""
    verdicts = {f"q{i:02}": {"expected_outcome": "no_results"} for i in range(36, N)}
    documents = [0.5 if i < 33 else None for i in range(N)]
    arms = [
        result(name, BASE, measure="pass_rate", more={"nDCG@10": documents}, verdicts=verdicts)
        for name in ("base", "other")
    ]
    changed = replace(arms[1], scores=arms[1].scores.assign(value=arms[1].scores["value"] / 2))
    conclusion = concluded(arms[0], changed)
    assert conclusion.measure == "pass_rate"
    assert conclusion.measure_reason == "36 of 36 questions have it"
    line = "nDCG@10 is scored on 33 of 36 answerable questions; it decides from 95 % on."
    assert line in conclusion.evidence


def test_the_table_of_a_sweep_counts_what_it_hides(capsys: pytest.CaptureFixture[str]) -> None:
    arms = [result(f"arm{i:02}", BASE + i / 100) for i in range(14)]
    results = Results(arms, baseline="arm00")
    print_decision(results)  # the best 12, and the baseline
    assert "1 more in leaderboard.md" in capsys.readouterr().out
    print_decision(Results(arms[:12], baseline="arm00"))
    assert "more in leaderboard.md" not in capsys.readouterr().out
