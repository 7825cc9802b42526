"""Without the packages of the extra `safety`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

import ragbench as rb
from ragbench.datasets.safety import load_safety_samples
from ragbench.errors import MissingExtraError
from ragbench.metrics.safety import leakage_findings
from ragbench.metrics.safety.leakage import masked
from ragbench.metrics.safety.secrets import missing_extra, secrets
from ragbench.types import Answer, Case, Dataset

DATA = Dataset("demo", "test", {}, [Case("q", "When?", gold_facts=(("1889",),))], {})


@pytest.fixture(autouse=True)
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("phonenumbers", "stdnum"):
        for module in [one for one in sys.modules if one.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
    for cached in (missing_extra, masked):
        cached.cache_clear()
    yield
    for cached in (missing_extra, masked):
        cached.cache_clear()


def test_the_search_for_leaks_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"ragbench-lab\[safety\]"):
        leakage_findings("Call +34 912 345 678.")


def test_secrets_and_addresses_are_masked_all_the_same() -> None:
    token = "ghp_" + "wQ3eR7tY1uI9oP5aS2dF6gH8jK4lZ0xCvB1n"
    assert masked(f"ana.ruiz@firm.com has {token}") == "an*** has gh***"
    assert [text for _, _, text in secrets(token)] == ["the form of a GitHub token"]


def test_an_evaluation_is_refused_before_anything_is_asked() -> None:
    asked = []

    def system(question: str) -> str:
        asked.append(question)
        return "In 1889."

    inputs, outputs = load_safety_samples()
    sampled = replace(DATA, safety_inputs=inputs[:2], safety_outputs=outputs[:2])
    for data, perspectives in ((DATA, ["safety"]), (replace(sampled, cases=(), qrels={}), [])):
        with pytest.raises(MissingExtraError, match=r"ragbench-lab\[safety\]"):
            rb.evaluate(data, system, perspectives=perspectives)
    assert asked == []
    rb.evaluate(sampled, system, perspectives=["answer"])
    assert asked == ["When?"]


@pytest.mark.parametrize("n_samples", [0, 2])
def test_other_perspectives_are_measured_and_safety_gives_its_reason(n_samples: int) -> None:
    inputs = load_safety_samples()[0][:n_samples]
    result = rb.evaluate(replace(DATA, safety_inputs=inputs), [Answer("q", "In 1889.")])
    states = {state.name: state for state in result.perspectives}
    assert states["answer"].measured
    assert not states["safety"].measured
    assert "ragbench-lab[safety]" in states["safety"].reason
