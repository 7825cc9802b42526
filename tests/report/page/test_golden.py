"""The three reports of a small scripted evaluation, byte for byte.

After a change that is meant, write them anew with RAGBENCH_WRITE_GOLDEN=1 and read the difference.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ragbench.errors import DataWarning
from ragbench.evaluation import Result, evaluate
from ragbench.evaluation.records import Latency
from ragbench.report.page import write_report
from ragbench.types import Answer, Case, Dataset, Document, Passage, SafetySample

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

GOLDEN = Path(__file__).parents[1] / "golden"
CORPUS = {
    "cats": Document("cats", "Cats sleep most of the day. A cat has four paws.", title="Cats"),
    "dogs": Document("dogs", "Dogs bark at strangers. A dog guards the house.", title="Dogs"),
    "fish": Document("fish", "Fish breathe under water through gills.", title="Fish"),
}
ABOUT = (
    ("cats", "How long do cats sleep?", "Most of the day."),
    ("dogs", "What do dogs guard?", "The house."),
    ("fish", "How do fish <b>breathe</b>?", "Through gills."),
)


class Letters:
    """An embedder whose vectors count letters: the same on every machine."""

    name = "letters"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        counts = np.array(
            [
                [text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
                for text in texts
            ]
        )
        lengths = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)
        vectors: npt.NDArray[np.float32] = (counts / lengths).astype(np.float32)
        return vectors


def dataset() -> Dataset:
    cases = [
        Case(
            f"q{i:02}",
            f"{ABOUT[i % 3][1]} (asked in week {i})",  # the same text would be one question
            ABOUT[i % 3][0],
            "faq",
            ABOUT[i % 3][2],
            expected_outcome="success",
        )
        for i in range(18)
    ]
    cases.append(Case("q90", "Who rules the moon?", "nobody", expected_outcome="no_results"))
    attacks = [
        SafetySample(f"a{i}", "obey" * i, harmful=i > 2, category="jailbreak_persona")
        for i in range(6)
    ]
    leaks = [
        SafetySample("l1", "Card: 4111 1111 1111 1111", True, "card"),
        SafetySample("l2", "A clean text.", False),
    ]
    qrels = {case.query_id: {case.category: 1} if case.category in CORPUS else {} for case in cases}
    return Dataset(
        "pets", "test", CORPUS, cases, qrels, safety_inputs=attacks, safety_outputs=leaks
    )


def answers(*, wrong: bool) -> list[Answer]:
    given = []
    for case in dataset().cases[:-1]:
        found = "cats" if wrong else case.category
        passages = (Passage(found, CORPUS[found].full_text, found, 0.5),)
        text = f"{CORPUS[found].text.split('.')[0]}." if wrong else str(case.reference_answer)
        given.append(
            Answer(
                case.query_id,
                f"{text} [1]",
                (found,),
                (found,),
                outcome="success",
                passages=passages,
            )
        )
    failed = replace(
        given[1], text="", outcome="failed", error="the server returned <500>", citations=()
    )
    return [
        given[0],
        failed,
        *given[2:],
        Answer("q90", "no answer found in the documents", outcome="no_results"),
    ]


@pytest.fixture(scope="module")
def result() -> Result:
    chosen = ["retrieval", "context", "answer", "pipeline", "safety"]

    def score(text: str) -> float:
        return min(1.0, len(text) / 20)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        options = {"perspectives": chosen, "embedder": Letters(), "detector": score}
        baseline = evaluate(dataset(), answers(wrong=False), name="before", **options)  # type: ignore[arg-type]
        found = evaluate(
            dataset(),
            answers(wrong=True),
            name="golden",
            baseline=baseline,
            **options,  # type: ignore[arg-type]
        )
    assert found.comparison is not None
    latency = (
        Latency("generate", 18, 120.0, 250.0, 900.0, 500.0, "within"),
        Latency("total", 18, 200.0, 400.0, 990.0),
    )
    config = {
        **found.config,
        "made_at": "2026-01-01T00:00:00Z",
        "environment": {"ragbench": "0", "python": "3"},
    }
    comparison = replace(found.comparison, baseline_made="2025-12-31T00:00:00Z")
    return replace(
        found, config=config, timings={"ask": 1.0}, latency=latency, comparison=comparison
    )


@pytest.mark.parametrize("name", ["report.json", "report.md", "report.html"])
def test_the_report_is_what_it_was(result: Result, name: str, tmp_path: Path) -> None:
    text = write_report(result, tmp_path / name).read_text(encoding="utf-8")
    if os.environ.get("RAGBENCH_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(text, encoding="utf-8", newline="\n")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_the_stored_report_holds_the_expected_figures() -> None:
    import json

    stored = json.loads((GOLDEN / "report.json").read_text(encoding="utf-8"))
    values = {row["measure"]: row["value"] for row in stored["measures"]}
    assert values["Success@5"] == pytest.approx(
        6 / 18, abs=1e-6
    )  # "cats" is found for each; 6 of 18 are about cats
    assert values["answered"] == pytest.approx(17 / 18, abs=1e-6)
    changes = {one["measure"]: one["verdict"] for one in stored["comparison"]["changes"]}
    assert changes["nDCG@5"] == "regression"
    assert {one["kind"] for one in stored["safety"]} == {"input", "output"}
