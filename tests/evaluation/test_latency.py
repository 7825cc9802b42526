"""Latency: budgets of a question and of the whole set, and figures that do not hold the time of a
queue.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import ragbench as rb
from ragbench import store
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import Result, answer_all, evaluate, load_targets
from ragbench.evaluation.records import Latency
from ragbench.evaluation.rows import latency_of
from ragbench.llms import ScriptedLLM
from ragbench.report.page import banner, report_html, report_markdown
from ragbench.retrieval import Dense
from ragbench.systems import FunctionSystem, Pipeline, RecordedSystem, ask
from ragbench.testsets.loader import load_dataset
from ragbench.types import Answer, Case, Completion, Dataset, Document

CORPUS = {"cats": Document("cats", "Cats sleep most of the day.")}


def dataset(n: int, **budget: float) -> Dataset:
    cases = [
        Case(f"q{i}", "How long do cats sleep?", latency_budget_ms=budget, min_citations=0)
        for i in range(n)
    ]
    return Dataset("pets", "test", CORPUS, cases, {case.query_id: {"cats": 1} for case in cases})


def recorded(*milliseconds: dict[str, float]) -> list[Answer]:
    return [
        Answer(
            f"q{i}", "Most of the day [1].", ("cats",), ("cats",), outcome="success", latency_ms=own
        )
        for i, own in enumerate(milliseconds)
    ]


def evaluated(data: Dataset, answers: list[Answer], **options: object) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return evaluate(
            data,
            answers,
            perspectives=["pipeline"],
            embedder="wordllama",
            **options,  # type: ignore[arg-type]
        )


def test_a_percentile_is_one_of_the_total_over_the_set() -> None:
    targets = load_targets().gated("latency_p95_ms=5000")
    report = evaluated(dataset(1), recorded({"total": 90_000.0}), targets=targets)
    [row] = [row for row in report.rows if row.target is not None and row.measure != "pass_rate"]
    assert (row.measure, row.value, row.target, row.verdict) == (
        "latency_p95_ms",
        90_000,
        5000,
        "missed",
    )
    assert not report.passed
    assert "missed: latency_p95_ms" in banner(report)[1]
    # 20 answers: the 95th percentile is the 19th, so one slow answer is within it, two are not
    for slow, verdict in ((1, "passed"), (2, "missed")):
        times = [{"total": 100.0}] * (20 - slow) + [{"total": 9000.0}] * slow
        report = evaluated(dataset(20), recorded(*times), targets=targets)
        assert (
            next(row.verdict for row in report.rows if row.measure == "latency_p95_ms") == verdict
        )


def test_a_missed_budget_fails_the_question(tmp_path: Path) -> None:
    data, answers = dataset(2, total=5000), recorded({"total": 100.0}, {"total": 90_000.0})
    report = evaluated(data, answers)
    assert [case.passed for case in report.cases] == [True, False]
    assert report.cases[1].reasons == ("latency: total 90000 ms > 5000 ms",)
    (tmp_path / "mine.toml").write_text("[cases]\nlatency = 0\n")
    report = evaluated(data, answers, targets=load_targets(tmp_path / "mine.toml"))
    assert [case.passed for case in report.cases] == [True, True]


@pytest.mark.parametrize(
    ("budget", "stage"), [("retrieve", "search"), ("search", "retrieve"), ("search", "search")]
)
def test_retrieve_and_search_are_one_stage(budget: str, stage: str) -> None:
    report = evaluated(dataset(1, **{budget: 100.0}), recorded({stage: 300.0, "total": 400.0}))
    assert report.cases[0].reasons == ("latency: retrieve 300 ms > 100 ms",)
    rows = {row.stage: row for row in report.latency}
    assert (rows["retrieve"].p50, rows["retrieve"].budget, rows["retrieve"].verdict) == (
        300,
        100,
        "over",
    )
    assert "search" not in rows


def test_latencies_by_hand() -> None:
    data = dataset(101, total=950, generate=94.5, guardrail_input=5)
    answers = recorded(
        *({"total": 10.0 * i, "mine": 1.0, "generate": float(i)} for i in range(1, 101))
    )
    failed = Answer("q100", "", error="time-out", latency_ms={"total": 1e6})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        rows = latency_of(answer_all(data, RecordedSystem([*answers, failed])))
    assert [(row.stage, row.n, row.verdict) for row in rows] == [
        ("guardrail_input", 0, "not measured"),
        ("generate", 100, "over"),
        ("mine", 100, "no budget"),
        ("total", 100, "within"),
    ]
    assert rows[-1] == Latency("total", 100, 500.0, 950.0, 990.0, 950.0, "within", 505.0)
    assert (rows[0].mean, rows[0].p50) == (None, None)
    assert latency_of(answer_all(dataset(1), RecordedSystem([Answer("q0", "Yes.")]))) == ()


def test_mean_median_and_percentile_are_in_every_report() -> None:
    report = evaluated(dataset(3), recorded({"total": 100.0}, {"total": 200.0}, {"total": 600.0}))
    [row] = report.latency
    assert (row.stage, row.mean, row.p50, row.p95) == ("total", 300, 200, 600)
    for text in (report_markdown(report), report_html(report)):
        assert "mean" in text
        assert "300" in text


def test_a_target_may_name_a_percentile() -> None:
    targets = load_targets().gated("latency_p50_ms=150,latency_mean_ms=500")
    bare = dataset(3)
    data = replace(
        bare, cases=[replace(case, min_citations=None) for case in bare.cases]
    )  # no label is needed
    report = evaluated(
        data, recorded({"total": 100.0}, {"total": 200.0}, {"total": 600.0}), targets=targets
    )
    rows = {
        row.measure: f"{row.value:g} {row.verdict}" for row in report.rows if row.value is not None
    }
    assert rows["latency_p50_ms"] == "200 missed"
    assert rows["latency_mean_ms"] == "300 passed"
    silent = evaluated(data, recorded({}, {}, {}), targets=targets)
    assert banner(silent) == (
        "failed",
        "0 of 3 questions passed, 3 not decided; not measured: latency_mean_ms, latency_p50_ms.",
    )


class OneAtATime:
    """A service that answers one request after the other: the second one waits."""

    name = "one at a time"

    def __init__(self, seconds: float) -> None:
        self._lock, self._seconds = threading.Lock(), seconds
        self.asked: list[str] = []
        self.waited: set[str] = set()  # the questions that came while another was answered

    def answer(self, query_id: str, query: str) -> Answer:
        if self._lock.locked():
            self.waited.add(query_id)
        with self._lock:
            self.asked.append(query_id)
            time.sleep(self._seconds)
        return Answer(query_id, "Most of the day [1].", ("cats",), ("cats",))


def test_latency_is_timed_without_a_queue_and_no_question_is_asked_twice() -> None:
    system = OneAtATime(0.02)
    answered = answer_all(dataset(30), system, concurrency=8, timed=6)
    assert sorted(system.asked) == sorted(f"q{i}" for i in range(30))
    assert [answer.query_id for answer in answered.answers] == [f"q{i}" for i in range(30)]
    assert len(answered.latency) == 6
    assert system.waited.isdisjoint(answer.query_id for answer in answered.latency)
    assert answered.concurrency == 1


def test_questions_with_a_budget_are_asked_one_at_a_time() -> None:
    data = dataset(8)
    data = replace(
        data, cases=[replace(case, latency_budget_ms={"total": 60}) for case in data.cases]
    )
    report = evaluate(data, OneAtATime(0.02), perspectives=["pipeline"], embedder="wordllama")
    assert [case.scores["latency_in_budget"] for case in report.cases] == [1.0] * 8
    assert [(row.n, row.concurrency) for row in report.latency] == [(8, 1)]
    assert "one at a time" in report_markdown(report)
    assert "one at a time" in report_html(report)


def test_the_time_of_recorded_answers_is_as_recorded() -> None:
    [row] = evaluated(dataset(1), recorded({"total": 100.0})).latency
    assert row.concurrency is None


def test_failures_of_the_timed_sample_are_counted_with_the_others() -> None:
    def broken(question: str) -> str:
        raise RuntimeError("down")

    with pytest.warns(DataWarning, match="30 of 30 answers failed") as caught:
        answer_all(dataset(30), FunctionSystem(broken), timed=6)
    assert len([one for one in caught if "answers failed" in str(one.message)]) == 1


def test_what_a_pipeline_raises_ends_the_run() -> None:
    class Broken(ScriptedLLM):
        def generate(self, prompt: str, **options: object) -> Completion:
            raise ConfigError("no key")

    with pytest.raises(ConfigError, match="no key"):
        answer_all(dataset(2), Pipeline(CORPUS, llm=Broken([])))


def test_a_pipeline_with_a_language_model_is_timed_one_at_a_time() -> None:
    model = ScriptedLLM(["Most of the day [1]."] * 12)
    answered = answer_all(dataset(12), Pipeline(CORPUS, llm=model), timed=5)
    assert len(answered.latency) == 5
    assert all({"retrieve", "search"} & set(answer.latency_ms) for answer in answered.latency)
    assert [answer.query_id for answer in answered.answers] == [f"q{i}" for i in range(12)]


def test_a_search_is_timed_alone_and_takes_nothing_from_the_cache() -> None:
    embedded: list[list[str]] = []

    class Watched:
        name = "watched"

        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            with store.arrays("watched", store.digest(*texts)) as entry:
                if not entry:
                    embedded.append(list(texts))
                    entry["vectors"] = np.ones((len(texts), 1), dtype=np.float32)
            return entry["vectors"].astype(np.float32)

    data = dataset(5)
    data = replace(data, cases=[replace(each, text=each.query_id) for each in data.cases])
    system = Pipeline(CORPUS, Dense(rb.chunk(data, "document"), Watched()), chunker="document")
    ask(system, data)
    embedded.clear()
    output = answer_all(data, system, timed=3)
    assert embedded == [["q0"], ["q0"], ["q1"], ["q2"]], "the first once more, unmeasured"
    assert output.search_ms is not None
    assert 0 < output.search_ms < 1000
    assert answer_all(data, system, timed=0).search_ms is None


@pytest.mark.parametrize(("figure", "value"), [("p50", 100.0), ("p95", 900.0), ("mean", 180.0)])
def test_a_budget_of_a_percentile_is_one_of_all_questions_with_it(
    figure: str, value: float
) -> None:
    """Of 20 totals the p95 is the 19th, here the lower of two slow ones; 18 of 100 ms."""
    times = [{"total": 100.0}] * 18 + [{"total": 900.0}] * 2
    report = evaluated(dataset(20, **{figure: value}), recorded(*times))
    assert {case.passed for case in report.cases} == {True}
    assert report.passed
    report = evaluated(dataset(20, **{figure: value - 0.1}), recorded(*times))
    assert {case.passed for case in report.cases} == {False}
    assert not report.passed
    assert (
        report.cases[7]
        .reasons[0]
        .startswith(
            f"latency: {figure} of the total over all questions with this budget {value:g} ms > "
        )
    )


def test_questions_with_another_budget_are_another_group() -> None:
    data = dataset(4)
    budgets: list[dict[str, float]] = [{"p95": 500.0}, {"p95": 500.0}, {"p95": 900.0}, {}]
    cases = [
        replace(case, latency_budget_ms=budget)
        for case, budget in zip(data.cases, budgets, strict=True)
    ]
    totals = (600.0, 100.0, 800.0, 5000.0)
    report = evaluated(replace(data, cases=cases), recorded(*({"total": ms} for ms in totals)))
    assert [case.passed for case in report.cases] == [False, False, True, True]
    assert "p95" not in {row.stage for row in report.latency}


def test_a_stage_and_a_percentile_are_both_kept() -> None:
    times = recorded({"total": 100.0, "retrieve": 70.0}, {"total": 100.0, "retrieve": 20.0})
    report = evaluated(dataset(2, retrieve=50, p99=100), times)
    assert [case.passed for case in report.cases] == [False, True]


@pytest.mark.parametrize("name", ["totl", "p59", "P95", "avg", "rerank"])
def test_an_unknown_latency_budget_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"q0: latency budget '{name}'.*Known: guardrail_input"):
        evaluated(dataset(1, **{name: 100.0}), recorded({"total": 1.0}))


def test_a_misspelt_budget_of_a_file_names_the_near_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"query_id": "q", "query": "How?", "latency_budget_ms": {"totl": 5}}\n')
    with pytest.raises(DataError, match=r"not of 'totl' .did you mean 'total'"):
        load_dataset(str(file))
