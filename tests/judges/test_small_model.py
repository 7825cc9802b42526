"""A real model answers and judges. It is weak: what is tested is the machinery, not its wisdom."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from ragbench.errors import DataWarning
from ragbench.generation import generate_answers
from ragbench.judges import judge
from ragbench.metrics import score_judgements
from ragbench.types import Case, Chunk, Dataset, Document


@pytest.mark.simulation  # a model on two cores takes its time
def test_a_small_model_answers_and_judges_end_to_end(
    small_model: str, llm_environment: Any
) -> None:
    text = "The railway of Darjeeling opened in 1881."
    chunks = [Chunk("rail#0", "rail", 0, len(text), text)]
    case = Case("q0", "When did the railway of Darjeeling open?", reference_answer="In 1881.")
    data = Dataset("tiny", "test", {"rail": Document("rail", text)}, (case,), {})
    llm = small_model

    answers = generate_answers(
        data, {"q0": {"rail#0": 1.0}}, chunks, llm, prompt="concise", max_tokens=40
    )
    answer = answers[0]
    assert answer.outcome in {"success", "no_results", "blocked"}
    assert answer.contexts == ("rail#0",)
    assert set(answer.citations) <= {"rail#0"} | {
        c for c in answer.citations if c.startswith("invalid:")
    }
    assert answer.usage is not None
    assert answer.usage.input_tokens > 100
    assert 1 <= answer.usage.output_tokens <= 40
    assert answer.latency_ms["generate"] > 0
    assert (
        generate_answers(
            data, {"q0": {"rail#0": 1.0}}, chunks, llm, prompt="concise", max_tokens=40
        )[0].latency_ms
        == {}
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # it may be unreadable, as the state shows
        judged = judge(
            answers, "correctness", llm, dataset=data, chunks=chunks, allow_same_model=True
        )[0]
    if judged.state == "scored":
        assert judged.value in {0.0, 1.0}
        assert isinstance(
            json.loads(judged.response.rpartition("--- repair ---")[2])["correctness"]["verdict"],
            bool,
        )
    else:
        assert judged.value is None
        assert judged.state in {"unreadable", "abstained"}
    assert score_judgements([judged])["value"].isna().tolist() == [judged.value is None]
