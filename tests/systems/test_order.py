"""The list that a system returns is its ranking, also where its scores tie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ragbench as rb

IDS = ("a", "b", "c", "d", "e")
DATA = rb.Dataset(
    "letters",
    "test",
    {name: rb.Document(name, f"{name} {name}") for name in IDS},
    [rb.Case("q1", "Which letter?")],
    {"q1": {"a": 1}},
)
HALF = 0.5
NEXT = HALF * (1 - 2**-26)  # another double, the same in single precision


def reciprocal_rank(system: Any) -> float:
    result = rb.evaluate(DATA, system, perspectives=["retrieval"])
    scores = result.scores.set_index("measure")["value"]
    return float(scores["RR"])


def hits(*scores: Any) -> list[dict[str, Any]]:
    return [
        {"id": name, "text": f"{name} {name}", "score": score}
        for name, score in zip(IDS, scores, strict=False)
    ]


LISTS = {
    "two equal": hits(1.0, 1.0),
    "five equal": hits(*[0.7] * 5),
    "zeros": hits(0, 0, 0),
    "negative": hits(-1.0, -1.0),
    "equal in single precision": hits(HALF, NEXT),
    "float32": hits(np.float32(0.1), np.float32(0.1)),
    "float64 of numpy": hits(np.float64(0.1), np.float64(0.1)),
    "beyond single precision": hits(1e300, 1e299),
    "rising": hits(0.1, 0.2),
    "pairs": [("a a", 1.0), ("b b", 1.0)],
    "rows": [("a", "a a", 1.0), ("b", "b b", 1.0)],
    "a tie at the end": hits(0.9, 0.5, 0.5),
    "one score is missing": hits(0.5, None, 0.5),
    "integers": hits(3, 3, 3, 3),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_first_of_a_list_is_first(name: str) -> None:
    assert reciprocal_rank(lambda question: LISTS[name]) == 1.0


@pytest.mark.parametrize("name", ["two equal", "five equal", "equal in single precision", "rows"])
def test_recorded_lists_keep_their_order(name: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"query_id": "q1", "contexts": LISTS[name]}) + "\n")
    assert reciprocal_rank(str(path)) == 1.0


def test_a_tie_below_the_gold_document_does_not_lift_it() -> None:
    backwards = [{"id": name, "score": 1.0} for name in reversed(IDS)]
    assert reciprocal_rank(lambda question: backwards) == 0.2


def test_a_long_list_keeps_its_order() -> None:
    many = [{"id": f"x{number}"} for number in range(3000)]
    result = rb.evaluate(
        DATA, lambda question: [*many, {"id": "a"}, {"id": "b"}], perspectives=["retrieval"]
    )
    scores = result.scores.set_index("measure")["value"]
    assert float(scores["RR"]) == pytest.approx(1 / 3001)


def test_scores_that_fall_are_used_as_they_are() -> None:
    result = rb.evaluate(DATA, lambda question: hits(9.5, 7.25, -1), perspectives=["retrieval"])
    assert result.run["q1"] == {"a": 9.5, "b": 7.25, "c": -1.0}


def test_a_run_of_trec_keeps_the_order_of_trec_eval(tmp_path: Path) -> None:
    path = tmp_path / "tie.run"
    path.write_text("q1 Q0 a 1 1.0 x\nq1 Q0 b 2 1.0 x\n")
    assert reciprocal_rank(str(path)) == 0.5
