"""Do the statistics keep their promises on real scores? 2,000 experiments each (`pytest -m simulation
-s`); and how long a sweep's take (`pytest -m benchmark`).

Experiments are drawn from per-query scores of real runs: the 12 configurations of
results/quickstart, and three retrievers on 1,000 questions of PubMedQA and of SQuAD each. "A/A"
swaps the two configurations of a pair query by query at random, so that truly neither is better.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.stats

from ragbench.metrics import score_run
from ragbench.retrieval import make_retriever, retrieve, to_documents
from ragbench.retrieval.chunkers import chunk
from ragbench.statistics import compare, compare_all, summarise
from ragbench.testsets.loader import load_dataset
from tests.benchmark_table import Benchmark

Floats = npt.NDArray[np.float64]
EXPERIMENTS = 2000
AT_ONCE = 125
GRADED = ["pydoc nDCG@10", "pydoc span_recall@500tok", "pubmedqa nDCG@10"]
BINARY = ["pydoc Success@5", "pubmedqa Success@1", "squad Success@1"]


@pytest.fixture(scope="module")
def real(shared_data: Path) -> dict[str, Floats]:
    """Name of collection and measure -> values (queries, configurations), only queries that all
    have scored.
    """
    found: dict[str, Floats] = {}
    folder = Path(__file__).parents[1] / "results" / "quickstart"
    quickstart = [pd.read_csv(path) for path in sorted(folder.glob("*/scores.csv"))]
    for measure in ("nDCG@10", "span_recall@500tok", "token_f1", "Success@5"):
        columns = [f[f["measure"] == measure].set_index("query_id")["value"] for f in quickstart]
        found[f"pydoc {measure}"] = pd.concat(columns, axis=1).dropna().to_numpy()
    for name in ("pubmedqa", "squad"):
        data = load_dataset(str(shared_data / name), split="test")
        chunks = chunk(data, "document")
        runs = [
            retrieve(make_retriever(retriever, chunks), data.queries, chunks)
            for retriever in ("bm25", "dense:wordllama", "hybrid:wordllama")
        ]
        scores = [
            score_run(data.qrels, to_documents(run, chunks), ["nDCG@10", "Success@1"])
            for run in runs
        ]
        for measure in ("nDCG@10", "Success@1"):
            columns = [f[f["measure"] == measure].set_index("query_id")["value"] for f in scores]
            found[f"{name} {measure}"] = pd.concat(columns, axis=1).dropna().to_numpy()
    return found


def tidy(values: Floats) -> pd.DataFrame:
    """Experiments (rows) as measures of one frame: many comparisons in one call."""
    experiments, n = values.shape
    return pd.DataFrame(
        {
            "query_id": np.tile(np.arange(n), experiments),
            "measure": np.repeat([f"m{i}" for i in range(experiments)], n),
            "value": values.ravel(),
        }
    )


def pairs(
    scores: Floats, n: int, rng: np.random.Generator, *, swapped: bool
) -> tuple[Floats, Floats, Floats]:
    """Baselines and contenders (experiments, n) of random pairs of configurations, and the true
    differences.
    """
    before, after, truth = (
        np.empty((EXPERIMENTS, n)),
        np.empty((EXPERIMENTS, n)),
        np.zeros(EXPERIMENTS),
    )
    for i in range(EXPERIMENTS):
        a, b = rng.choice(scores.shape[1], 2, replace=False)
        drawn = scores[rng.integers(0, len(scores), n)]
        swap = rng.random(n) < 0.5 if swapped else np.zeros(n, dtype=bool)
        before[i], after[i] = (
            np.where(swap, drawn[:, b], drawn[:, a]),
            np.where(swap, drawn[:, a], drawn[:, b]),
        )
        truth[i] = 0.0 if swapped else scores[:, b].mean() - scores[:, a].mean()
    return before, after, truth


def compared(before: Floats, after: Floats) -> pd.DataFrame:
    parts = [
        compare(tidy(before[i : i + AT_ONCE]), tidy(after[i : i + AT_ONCE]))
        for i in range(0, len(before), AT_ONCE)
    ]
    return pd.concat(parts, ignore_index=True)


def coverage(table: pd.DataFrame, truth: Floats) -> float:
    low, high = table["ci_low"].to_numpy(dtype=float), table["ci_high"].to_numpy(dtype=float)
    return float(((low <= truth + 1e-12) & (high >= truth - 1e-12)).mean())


@pytest.mark.simulation
def test_no_difference_is_called_one_in_twenty_times(real: dict[str, Floats]) -> None:
    """A/A: false positives of at most 0.05 + 0.012, coverage of at least 0.95 - 0.015."""
    rng = np.random.default_rng(0)
    print("\nA/A experiments       queries (that differ)  false positives  coverage")
    rates = []
    for name in [*GRADED, *BINARY]:
        for n in (30, 100, 300):
            before, after, truth = pairs(real[name], n, rng, swapped=True)
            table = compared(before, after)
            moving = float((np.abs(after - before) > 1e-12).sum(axis=1).mean())
            rate, covered = float((table["p_value"] <= 0.05).mean()), coverage(table, truth)
            rates.append((name, rate, covered))
            print(
                f"{name:26s} {n:4d} ({moving:3.0f})   {rate:.3f}            {covered:.3f}",
                flush=True,
            )
    for name, rate, covered in rates:
        assert rate <= 0.062, name
        assert covered >= 0.935, name


@pytest.mark.simulation
def test_intervals_cover_the_true_difference(real: dict[str, Floats]) -> None:
    """Pairs that do differ: the mean difference over all queries is the truth, of which n are
    drawn.
    """
    rng = np.random.default_rng(1)
    print("\nreal differences      queries  coverage  mean length")
    for name in [*GRADED, *BINARY, "pydoc token_f1"]:
        for n in (30, 100, 300):
            before, after, truth = pairs(real[name], n, rng, swapped=False)
            table = compared(before, after)
            covered = coverage(table, truth)
            length = float((table["ci_high"] - table["ci_low"]).mean())
            print(f"{name:26s} {n:4d}   {covered:.3f}     {length:.3f}", flush=True)
            assert covered >= 0.935, (name, n)


@pytest.mark.simulation
def test_intervals_cover_the_true_mean(real: dict[str, Floats]) -> None:
    rng = np.random.default_rng(2)
    print("\nmeans                 queries  coverage")
    for name in [*GRADED, *BINARY]:
        for n in (30, 100, 300):
            values, truth = np.empty((EXPERIMENTS, n)), np.empty(EXPERIMENTS)
            for i in range(EXPERIMENTS):
                column = real[name][:, rng.integers(real[name].shape[1])]
                values[i], truth[i] = column[rng.integers(0, len(column), n)], column.mean()
            parts = [
                summarise(tidy(values[i : i + AT_ONCE])) for i in range(0, EXPERIMENTS, AT_ONCE)
            ]
            covered = coverage(pd.concat(parts, ignore_index=True), truth)
            print(f"{name:26s} {n:4d}   {covered:.3f}", flush=True)
            assert covered >= 0.935, (name, n)


@pytest.mark.simulation
def test_holm_holds_the_rate_of_families(real: dict[str, Floats]) -> None:
    """2,000 families: any Holm-adjusted p <= 0.05 without a true difference; that is min p <= 0.05
    / tests.
    """
    rng = np.random.default_rng(3)
    scores = real["pydoc nDCG@10"]
    n, k = scores.shape
    shared, apart = [], []
    for start in range(0, EXPERIMENTS, AT_ONCE):
        drawn = scores[rng.integers(0, n, (AT_ONCE, n))]
        mixed = rng.permuted(
            drawn, axis=2
        )  # which configuration a value belongs to is left to chance
        frames = {f"c{i}": tidy(mixed[:, :, i]) for i in range(k)}
        table = compare_all(frames, "c0")
        least = table["p_value"].astype(float).groupby(table["measure"]).min()
        shared += (least <= 0.05 / (k - 1)).tolist()
        if start == 0:  # the same through the front door, for a few families
            for name in ("m0", "m1", "m2"):
                own = {key: frame[frame["measure"] == name] for key, frame in frames.items()}
                adjusted = compare_all(own, "c0")["p_adjusted"].min()
                assert (adjusted <= 0.05) == (least[name] <= 0.05 / (k - 1))
    before, after, _ = pairs(scores, n, rng, swapped=True)
    for _ in range(9):
        more = pairs(scores, n, rng, swapped=True)
        apart.append(compared(more[0], more[1])["p_value"].to_numpy(dtype=float))
    apart.append(compared(before, after)["p_value"].to_numpy(dtype=float))
    independent = float((np.min(apart, axis=0) <= 0.05 / 10).mean())
    together = float(np.mean(shared))
    print(
        f"\nfamily-wise rate: 10 unrelated pairs {independent:.3f}; 11 contenders of one "
        f"baseline {together:.3f}"
    )
    assert independent <= 0.062
    assert together <= 0.062


@pytest.mark.benchmark
def test_a_sweep_compares_within_ten_seconds(benchmark: Benchmark) -> None:
    """12 configurations x 10 measures x 1,000 queries, compared with scipy's
    bootstrap in a loop.
    """
    rng = np.random.default_rng(5)
    names, n = [f"m{i}" for i in range(10)], 1000
    runs = {
        f"c{i}": pd.DataFrame(
            {
                "query_id": np.tile(np.arange(n), 10),
                "measure": np.repeat(names, n),
                "value": rng.random(10 * n),
            }
        )
        for i in range(12)
    }
    begun = time.perf_counter()
    table = compare_all(runs, "c0")
    ours = time.perf_counter() - begun
    few = 3
    begun = time.perf_counter()
    for i in range(few):
        own = (
            runs["c1"]["value"].to_numpy()[i * n : (i + 1) * n]
            - runs["c0"]["value"].to_numpy()[i * n : (i + 1) * n]
        )
        scipy.stats.bootstrap((own,), np.mean, n_resamples=10_000, method="BCa", rng=rng)
    theirs = (time.perf_counter() - begun) / few * len(table)
    work = f"compare_all, {len(table)} comparisons of 1,000 questions"
    peer = f"scipy.stats.bootstrap in a loop, {benchmark.peer(work, 'scipy')}"
    benchmark.record(work, peer, ours / theirs)
    benchmark.record(work, "-", ours, at_most=10, unit="s")


@pytest.mark.benchmark
def test_200_configurations_cost_three_times_a_matrix_product(benchmark: Benchmark) -> None:
    """200 configurations x 10 measures x 1,000 queries, against the product of 10,000 weights of
    each query with the same differences, and against the means of the same values by pandas; and at
    most 400 MB.

    Of the CPU four tenths are the safe intervals, a seventh the numbers of questions that would
    decide, a tenth each the reading of the frames, the differences with their means, and the smallest
    detectable differences. It was 4.4 to 5.6 times the means by groupby in seven runs.
    """
    rng = np.random.default_rng(5)
    arms, n, names = 200, 1000, [f"m{i}" for i in range(10)]
    ids, measures = np.tile([f"q{i}" for i in range(n)], 10), np.repeat(names, n)
    base = rng.random(10 * n)
    runs = {}
    for i in range(arms):
        value = np.clip(base + rng.normal(0, 0.2, 10 * n), 0, 1)
        runs[f"c{i}"] = pd.DataFrame({"query_id": ids, "measure": measures, "value": value})
    weights, differences = rng.random((10_000, n + 1)), rng.random((n + 1, 10 * (arms - 1)))
    values = pd.concat(runs.values(), keys=runs, names=["configuration"])
    values = values.reset_index("configuration")
    product, ours, means = [], [], []
    for _ in range(2):
        begun = time.process_time()
        values.groupby(["configuration", "measure"])["value"].mean()
        means.append(time.process_time() - begun)
        begun = time.process_time()
        weights @ differences
        product.append(time.process_time() - begun)
        begun = time.process_time()
        compare_all(runs, "c0")
        ours.append(time.process_time() - begun)
    del weights, differences, values
    tracemalloc.start()
    compare_all(runs, "c0")
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    ratio = min(ours) / min(product)
    work = f"CPU of compare_all, {arms} configurations, 10 measures, 1,000 questions"
    peer = f"a matrix product, {benchmark.peer(work, 'numpy')}"
    benchmark.record(work, peer, ratio, at_most=3)
    peer = f"the means by groupby, {benchmark.peer(work, 'pandas')}"
    benchmark.record(work, peer, min(ours) / min(means), at_most=5, bound=7)
    benchmark.record("memory of the same", "-", peak, at_most=400, unit="MB")
