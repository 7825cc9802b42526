"""Scoring against its bounds; ratios are measured side by side in one run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragbench.metrics import score_run
from tests.benchmark_table import Benchmark

pytestmark = pytest.mark.benchmark


def best_of(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """The shortest time of each call in seconds, taking turns so that a busy machine hits them
    alike.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for spent, call in zip(times, calls, strict=True):
            begun = time.perf_counter()
            call()
            spent.append(time.perf_counter() - begun)
    return [min(spent) for spent in times]


def frames(*, ties: bool, shuffled: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """5,000 queries x 100 results of 100,000 documents; 5 in 100 results are judged, and 5
    documents more a query.
    """
    rng = np.random.default_rng(0)
    queries = np.repeat([f"q{i}" for i in range(5000)], 100)
    documents = np.concatenate([rng.choice(100_000, 100, replace=False) for _ in range(5000)])
    scores = np.tile(np.linspace(30, 1, 100), 5000) + rng.normal(0, 0.1, 500_000)
    run = pd.DataFrame(
        {
            "query_id": queries,
            "doc_id": [f"doc{i}" for i in documents],
            "score": scores.round(0) if ties else scores,
        }
    )
    judged = run.loc[rng.random(len(run)) < 0.05, ["query_id", "doc_id"]]
    missed = pd.DataFrame(
        {
            "query_id": np.repeat(run["query_id"].unique(), 5),
            "doc_id": [f"x{i}" for i in range(25_000)],
        }
    )
    qrels = pd.concat([judged, missed], ignore_index=True)
    qrels["relevance"] = rng.integers(0, 3, len(qrels))
    if shuffled:
        run = run.sample(frac=1, random_state=0).reset_index(drop=True)
    return qrels, run


@pytest.mark.parametrize(("ties", "shuffled"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(
    "names", [["nDCG@10", "R@10", "P@5", "RR", "AP", "Success@5"], "all"], ids=["six", "all"]
)
def test_score_run_is_ten_times_faster_than_ir_measures(
    names: list[str] | str, ties: bool, shuffled: bool, benchmark: Benchmark
) -> None:
    work = "score_run of frames, 5,000 questions"
    peer = benchmark.peer(work, "ir-measures", "pytrec-eval-terrier")
    ir_measures = pytest.importorskip("ir_measures")
    if isinstance(names, str):
        shared = ("nDCG", "P", "R", "AP", "Success")
        names = [*(f"{name}@{k}" for name in shared for k in (1, 3, 5, 10)), "RR", "AP"]
    qrels, run = frames(ties=ties, shuffled=shuffled)
    measures = [ir_measures.parse_measure(name) for name in names]

    def ours() -> pd.Series[float]:
        return score_run(qrels, run, names).groupby("measure", sort=False)["value"].mean()

    def theirs() -> Any:
        return ir_measures.calc_aggregate(measures, qrels, run)

    mine, reference = ours(), theirs()
    for name, measure in zip(names, measures, strict=True):
        assert mine[name] == pytest.approx(reference[measure], abs=1e-9)
    fast, slow = best_of(4, ours, theirs)
    order = "shuffled" if shuffled else "in order"
    values = "ties" if ties else "no ties"
    work += f", {len(names)} measures, {order}, {values}"
    benchmark.record(work, peer, fast / slow, at_most=0.1)


@pytest.mark.parametrize("n_queries", [100, 5_000, 20_000])
def test_dicts_are_scored_in_at_most_twice_the_time_of_pytrec_eval(
    n_queries: int, benchmark: Benchmark
) -> None:
    work = f"score_run of dicts, {n_queries:,} questions"
    peer = benchmark.peer(work, "pytrec-eval-terrier")
    pytrec_eval = pytest.importorskip("pytrec_eval")
    draw = random.Random(0)
    documents = [f"doc{i}" for i in range(100_000)]
    qrels = {}
    run = {}
    for number in range(n_queries):
        judged = draw.sample(documents, 20)
        found = {*judged[:10], *draw.sample(documents, 90)}
        qrels[f"q{number}"] = {document: draw.choice([0, 1, 2]) for document in judged}
        run[f"q{number}"] = {document: draw.random() for document in found}
    measures = ["nDCG@10", "RR", "AP", "P@5", "P@10", "R@5", "R@10"]
    theirs = {"ndcg_cut.10", "recip_rank", "map", "P.5,10", "recall.5,10"}

    def by_pytrec_eval() -> object:
        return pytrec_eval.RelevanceEvaluator(qrels, theirs).evaluate(run)

    repeats = 3 if n_queries <= 5_000 else 1
    ours, slow = best_of(repeats, lambda: score_run(qrels, run, measures), by_pytrec_eval)
    benchmark.record(work, peer, ours / slow, at_most=2)
