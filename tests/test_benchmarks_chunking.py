"""How fast a sweep over chunkings is, compared with another package on the same work (`pytest -m
benchmark`); and what it measures (`pytest -m simulation -s`).
"""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.metrics import score_chunks, score_spans
from ragbench.retrieval import BM25
from ragbench.retrieval.chunkers import chunk
from ragbench.testsets.loader import load_dataset
from ragbench.types import Dataset, Document
from tests.benchmark_table import Benchmark

SIZES = (128, 256, 512)
DEPTH = 50


@pytest.fixture(scope="module")
def dataset(shared_data: Path) -> Dataset:
    return load_dataset(shared_data / "chunking")


@pytest.mark.benchmark
def test_chunk_sweep_compared_with_context_grid(
    dataset: Dataset, shared_data: Path, benchmark: Benchmark
) -> None:
    """Chunking, indexing, search and span scores of three recursive chunkings, with nothing kept
    from before.
    """
    work = "CPU of three recursive chunkings, from chunks to span scores"
    peer = benchmark.peer(work, "context-grid")
    contextgrid = pytest.importorskip("contextgrid")

    lines = (shared_data / "chunking" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    items = tuple(
        contextgrid.EvalItem(
            id=question["_id"],
            question=question["question"],
            anchors=tuple(
                contextgrid.GoldAnchor(source_id=question["corpus_id"], quote=reference["content"])
                for reference in question["references"]
            ),
        )
        for question in questions
    )
    texts = {doc_id: document.full_text for doc_id, document in dataset.corpus.items()}
    few = dataset.select([case.query_id for case in dataset.cases[:3]])
    small = {
        doc_id: Document(doc_id, document.full_text[:2000])
        for doc_id, document in dataset.corpus.items()
    }
    _sweep(
        replace(few, corpus=small)
    )  # what is imported on first use belongs to neither side's work

    ours = _sweep(dataset)

    start = time.process_time()
    lab = contextgrid.Lab(corpus=texts)
    lab.grid(
        chunker=[f"recursive:{size},overlap=0" for size in SIZES],
        embedder=[None],
        index=["bm25"],
        k=DEPTH,
    )
    results = lab.run(contextgrid.EvalSet(id="chunking", items=items))
    theirs = time.process_time() - start
    assert len(list(results)) == len(SIZES)

    benchmark.record(work, peer, ours / theirs, at_most=1 / 6)


def _sweep(dataset: Dataset) -> float:
    """CPU seconds, which other processes do not change."""
    start = time.process_time()
    for size in SIZES:
        chunks = chunk(dataset, "recursive", chunk_size=size)
        run = BM25(chunks).search(dataset.queries, k=DEPTH)
        frame = score_spans(dataset, run, chunks)
        assert frame["query_id"].nunique() == len(dataset.cases)
    return time.process_time() - start


@pytest.mark.benchmark
def test_span_scores_do_not_grow_as_chunks_times_spans(
    dataset: Dataset, benchmark: Benchmark
) -> None:
    """Chunks of 16 tokens are 32 times as many as chunks of 512."""
    seconds = []
    for size in (512, 16):
        chunks = chunk(dataset, "fixed", chunk_size=size)
        run = BM25(chunks).search(dataset.queries, k=DEPTH)
        score_spans(dataset, run, chunks)
        start = time.process_time()
        score_spans(dataset, run, chunks)
        seconds.append(time.process_time() - start)
    few, many = seconds
    work = "CPU of span scores of 472 questions, chunks of 16 tokens"
    benchmark.record(work, "chunks of 512", many / few, at_most=8)
    benchmark.record(work, "-", many, at_most=2, unit="CPU s")


@pytest.mark.simulation
def test_chunking_at_equal_k_and_at_equal_budget(dataset: Dataset, shared_data: Path) -> None:
    """No bound: what the chunkers give on the published questions, next to published figures of
    similar chunkers.
    """
    with (shared_data / "chunking" / "published_results.csv").open(encoding="utf-8") as file:
        published = {
            (row["chunker"], row["size_tokens"]): row
            for row in csv.DictReader(file)
            if row["overlap"] == "0"
        }
    print("\nchunker     size chunks  mean  cuts  coh.   omega (published)  R@5    R@500tok  AUC")
    for name in ("fixed", "sentence", "recursive", "markdown", "semantic"):
        for size in (128, 200, 256, 400, 512):
            chunks = chunk(dataset, name, chunk_size=size)
            stats = dict(score_chunks(dataset, chunks).itertuples(index=False, name=None))
            frame = score_spans(dataset, BM25(chunks).search(dataset.queries, k=DEPTH), chunks)
            mean = frame.groupby("measure")["value"].mean()
            like = {"fixed": "TokenText", "recursive": "Recursive"}.get(name, "")
            omega = published.get((like, str(size)), {}).get("precision_omega_mean", "-")
            print(
                f"{name:10} {size:5} {stats['chunks']:6.0f} {stats['tokens_mean']:5.0f} {stats['boundary_cuts']:5.2f} "
                f"{stats['coherence']:5.2f}  {100 * mean['span_precision_omega']:5.1f} "
                f"({omega:>4})       {mean['span_recall@5']:.3f} "
                f" {mean['span_recall@500tok']:.3f}     {mean['span_recall_auc']:.3f}"
            )
            assert 0 < mean["span_recall@500tok"] < 1
