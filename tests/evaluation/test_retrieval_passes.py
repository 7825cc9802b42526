"""What decides where only retrieval is measured, and where passages are not matched."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import ragbench as rb
from ragbench.evaluation import cases
from ragbench.metrics.tidy import score_frame
from ragbench.types import Case, Dataset, Document


@pytest.mark.parametrize(
    ("scores", "passed"),
    [
        ({"chunk:Success@5": 0.0, "span:Success@5": 1.0, "Success@5": 1.0}, False),
        ({"chunk:Success@5": 1.0, "span:Success@5": 0.0, "Success@5": 0.0}, True),
        ({"span:Success@5": 0.0, "Success@5": 1.0}, False),
        ({"span:Success@5": 1.0, "Success@5": 0.0}, True),
        ({"Success@5": 1.0}, True),
        ({"Success@5": 0.0, "Success@1": 1.0}, False),
    ],
)
def test_the_finest_level_of_success_decides(scores: dict[str, float], passed: bool) -> None:
    output: Any = SimpleNamespace(
        dataset=Dataset("mine", "test", {}, [Case("q", "?")], {"q": {"d": 1}}), answers=()
    )
    frame = score_frame([("q", measure, value) for measure, value in scores.items()])
    rates, reasons = cases.decide(output, {"retrieval": frame}, {}, {}, ())
    assert rates["value"].tolist() == [float(passed)]
    assert ("q" in reasons) is not passed


def test_passages_that_are_in_no_document_do_not_pass() -> None:
    corpus = {"cats": Document("cats", "Cats sleep most of the day.")}
    data = Dataset("pets", "test", corpus, [Case("q", "Do cats sleep?")], {"q": {"cats": 1}})
    result = rb.evaluate(data, "bm25", perspectives="retrieval")
    assert result.passed
    foreign = {**result.config, "system": {**result.system, "is_foreign": True}}
    assert not replace(result, config=foreign).passed
    elsewhere = {**foreign, "settings": {**result.settings, "perspectives": ["answer"]}}
    assert replace(result, config=elsewhere).passed
