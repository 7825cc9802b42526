"""What the smallest model scores compared with the baseline without a model: the figures of the
README.
"""

from __future__ import annotations

import pytest

import ragbench as rb
from tests.benchmark_table import Benchmark

pytestmark = pytest.mark.simulation  # a model on two cores takes its time

QUESTIONS = 30


def test_smollm2_compared_with_extractive(small_model: str, benchmark: Benchmark) -> None:
    data = rb.load_dataset("pydoc")
    answerable = [case.query_id for case in data.cases if case.reference_answer]
    data = data.select(answerable[:: len(answerable) // QUESTIONS][:QUESTIONS])
    chunks = rb.chunk(data, "recursive", chunk_size=128)
    run = rb.retrieve(rb.make_retriever("hybrid:wordllama", chunks), data.queries, chunks)
    rows = {}
    for name, llm in (
        ("extractive", "extractive"),
        ("SmolLM2-135M-Instruct", small_model),
    ):
        answers = rb.generate_answers(data, run, chunks, llm, k=3, max_tokens=96)
        assert len(answers) == QUESTIONS
        assert all(answer.error is None for answer in answers)
        scores = rb.summarise(rb.metrics.score_answers(data, answers)).set_index("measure")
        rows[name] = scores
        for measure in scores.index:
            mean = float(scores.loc[measure, "mean"])
            benchmark.record(f"{measure} of {name}, {QUESTIONS} questions of pydoc", "-", mean)
    for scores in rows.values():
        assert scores["mean"].between(0, 1).all()
