"""A hundred thousand passages, ten thousand questions and a thousand configurations (`pytest -m
benchmark`); a million passages and fifty thousand questions (`pytest -m simulation -s
tests/test_benchmarks_large.py`).

Each size is a process of its own with an empty cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmark_table import PEAK_MEMORY, Benchmark

QUESTIONS = 1_000
LOAD_TO_SCORES = """
import json, sys, time, warnings
from pathlib import Path
folder, retriever, passages = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
from ragbench.retrieval.chunkers import chunk
from ragbench.datasets import large
from ragbench.testsets.loader import load_dataset
from ragbench.retrieval import make_retriever, to_documents
from ragbench.metrics import score_run
import pandas, pytrec_eval, pyarrow, bm25s, tantivy
def peak(): return peak_memory() / 1e6
times, peaks, last = {}, {"imports": peak()}, time.process_time()
def done(stage):
    global last
    times[stage], peaks[stage], last = time.process_time() - last, peak(), time.process_time()
large.LARGE_BYTES = 0 if retriever == "bm25@disk" else 10**12
data = load_dataset(folder); done("load")
chunks = chunk(data, "document"); done("chunk")
index = make_retriever(retriever, chunks); done("index")
run = index.search(data.queries, 100); done("search")
scores = score_run(data.qrels, to_documents(run, chunks), ["nDCG@10"]); done("score")
assert len(chunks) == len(data.corpus) == passages and len(scores) == len(data.cases)
print(json.dumps({"times": times, "peaks": peaks, "nDCG@10": scores["value"].mean()}))
"""


def write_set(folder: Path, passages: int, questions: int = QUESTIONS) -> Path:
    """Passages of 20 to 80 words whose frequencies fall as 1 / rank; a question is 8 words of the
    one that answers.
    """
    random = np.random.default_rng(0)
    words = np.array([f"w{i}x" for i in range(60_000)])
    cumulated = np.cumsum(1 / np.arange(1, len(words) + 1))
    asked = set(random.choice(passages, questions, replace=False).tolist())
    asked_questions = []
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for i, length in enumerate(random.integers(20, 80, size=passages).tolist()):
            own = words[np.searchsorted(cumulated, random.random(length) * cumulated[-1])].tolist()
            file.write(json.dumps({"_id": f"d{i}", "text": " ".join(own)}) + "\n")
            if i in asked:
                asked_questions.append((f"q{i}", f"d{i}", " ".join(random.choice(own, 8).tolist())))
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"_id": query_id, "text": text}) + "\n"
            for query_id, _, text in asked_questions
        )
    rows = "".join(f"{query_id}\t{doc_id}\t1\n" for query_id, doc_id, _ in asked_questions)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def printed_by(script: str, *arguments: str, cache: Path) -> dict[str, Any]:
    """Return the JSON that a script prints in a process of its own with this cache."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY + script, *arguments],
        env={**os.environ, "RAGBENCH_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measured(folder: Path, retriever: str, passages: int, benchmark: Benchmark) -> dict[str, Any]:
    cache = folder.parent / f"cache-{retriever}-{passages}"
    found = printed_by(LOAD_TO_SCORES, str(folder), retriever, str(passages), cache=cache)
    work = f"{retriever}, {passages:,} passages x {QUESTIONS:,} questions"
    total = sum(found["times"].values())
    benchmark.record(f"load to scores, {work}", "-", total, unit="CPU s")
    goal = 2.0 if retriever == "bm25@disk" else None
    benchmark.record(f"peak memory, {work}", "-", found["peaks"]["score"], at_most=goal, unit="GB")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak of memory on Linux only")
@pytest.mark.parametrize(
    "passages",
    [
        pytest.param(100_000, marks=pytest.mark.benchmark, id="100_000"),
        pytest.param(1_000_000, marks=pytest.mark.simulation, id="1_000_000"),
    ],
)
def test_from_load_to_scores_within_2_gb(
    passages: int, tmp_path: Path, benchmark: Benchmark
) -> None:
    totals = {}
    for size in (passages // 4, passages):
        folder = write_set(tmp_path / f"set-{size}", size)
        found = measured(folder, "bm25@disk", size, benchmark)
        totals[size] = sum(found["times"].values())
    growth = totals[passages] / (4 * totals[passages // 4])
    benchmark.record(
        f"CPU of a passage of {passages:,}", f"of {passages // 4:,}", growth, at_most=1.25
    )
    held = measured(tmp_path / f"set-{passages}", "bm25", passages, benchmark)
    if passages >= 1_000_000:
        assert found["times"]["search"] < held["times"]["search"]
    assert found["peaks"]["index"] < held["peaks"]["index"]
    assert found["nDCG@10"] >= held["nDCG@10"] - 0.02


EVALUATE = """
import json, sys, time
import ragbench as rb
few, folder, out = sys.argv[1:]
def evaluate(folder, out):
    data = rb.load_dataset(folder)
    system = rb.Pipeline(data, retriever="bm25", chunker="document", llm="none")
    result = rb.evaluate(data, system)
    rb.save(result, out)
    return system, data.queries
evaluate(few, out + "-few")  # what is imported and compiled once
start = time.process_time()
system, queries = evaluate(folder, out)
cpu = time.process_time() - start
peak = peak_memory() / 1e6
start = time.process_time()
system.retrieve(queries)
search = time.process_time() - start
print(json.dumps({"cpu": cpu, "search": search, "peak": peak, "n_questions": len(queries)}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak of memory on Linux only")
@pytest.mark.parametrize(
    "questions",
    [
        pytest.param(10_000, marks=pytest.mark.benchmark, id="10_000"),
        pytest.param(50_000, marks=pytest.mark.simulation, id="50_000"),
    ],
)
def test_an_evaluation_grows_no_faster_than_its_questions_and_passages(
    questions: int, tmp_path: Path, benchmark: Benchmark
) -> None:
    """Beyond the search: each question of more is compared with more passages."""
    few = write_set(tmp_path / "few", 200, 100)
    seconds = {}
    for size in (questions // 4, questions):
        folder = write_set(tmp_path / f"set-{size}", 2 * size, size)
        out = tmp_path / f"out-{size}"
        cache = tmp_path / f"cache-{size}"
        found = printed_by(EVALUATE, str(few), str(folder), str(out), cache=cache)
        assert found["n_questions"] == size
        seconds[size] = found["cpu"] - found["search"]
        work = f"load, evaluate and save, {size:,} questions on {2 * size:,} passages"
        benchmark.record(work, "-", found["cpu"], unit="CPU s")
        benchmark.record(f"search alone, {work}", "-", found["search"], unit="CPU s")
        benchmark.record(f"peak memory, {work}", "-", found["peak"], unit="GB")
    growth = seconds[questions] / (4 * seconds[questions // 4])
    work = f"CPU of an evaluated question of {questions:,}, without the search"
    benchmark.record(work, f"of {questions // 4:,}", growth, at_most=1.25)


STEPS = """
import json, shutil, sys, time, warnings
from pathlib import Path
from ragbench.evaluation import load_results
from ragbench.evaluation.results import ranking_measure
from ragbench.report import leaderboard_markdown
from ragbench.sweep import plan, read_grid
from ragbench.sweep.sweep_folder import SweepFolder
from ragbench.sweep.grid import sources_of
warnings.simplefilter("ignore")
path, saved = Path(sys.argv[1]), Path(sys.argv[2])
times, last = {}, 0.0
def timed(step, work):
    start = time.process_time()
    found = work()
    times[step] = time.process_time() - start
    return found
grid = timed("grid", lambda: read_grid(path))
source = timed("sources", lambda: sources_of(grid))
folder = SweepFolder(path.parent / grid.name)
config = json.loads((saved / "config.json").read_text())
for name, parameters in grid.runs.items():
    shutil.copytree(saved, folder.path / name)
    own = {**config, "parameters": parameters, "source": source[name]}
    (folder.path / name / "config.json").write_text(json.dumps(own))
    folder.notebook(name).write_text("{}")
found = timed("plan", lambda: plan(path, out=path.parent))
assert len(found.finished) == len(grid.runs) and not found.to_run
timed("skip", lambda: [folder.is_finished(name, grid.runs[name], source[name]) for name in grid.runs])
results = timed("load", lambda: load_results(folder.path))
table = timed("leaderboard", lambda: results.leaderboard())
main = ranking_measure(results)
compared = timed("compare", lambda: results.compare(measures=[main]))
timed("markdown", lambda: leaderboard_markdown(table, main, compared))
timed("digest", folder.digest)
print(json.dumps(times))
"""


@pytest.mark.benchmark
def test_steps_over_1_000_configurations_grow_no_faster_than_their_number(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    root = Path(__file__).parents[1]
    saved = next((root / "results" / "quickstart").glob("bm25-fixed-512-*/"))
    taken: dict[int, dict[str, float]] = {}
    for n in (250, 1_000):
        folder = tmp_path / str(n)
        folder.mkdir()
        for name in ("evaluate", "compare"):
            (folder / f"{name}.ipynb").write_bytes(
                (root / "notebooks" / f"{name}.ipynb").read_bytes()
            )
        grid = f"""
            [sweep]
            name = "many"
            [fixed]
            dataset = "pydoc"
            retriever = "bm25"
            [axes]
            chunk_size = {list(range(100, 100 + n // 2))}
            k = [4, 5]
        """
        (folder / "grid.toml").write_text(grid)
        command = [sys.executable, "-c", STEPS, str(folder / "grid.toml"), str(saved)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        taken[n] = json.loads(done.stdout)
    for step, own in taken[1_000].items():
        # Half a second more is allowed: of a step that takes less, the clock is measured.
        growth = max(0.0, own - 0.5) / (4 * taken[250][step])
        work = f"CPU of a configuration of 1,000, step {step}"
        benchmark.record(work, "of 250", growth, at_most=1.5)
