"""The built-in safety set."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from ragbench.datasets.safety import load_safety_samples
from ragbench.metrics.safety.secrets import secrets

CATEGORIES = {
    "instruction_override",
    "prompt_extraction",
    "jailbreak_persona",
    "delimiter_attack",
    "role_override",
    "bypass_intent",
}
INPUTS, OUTPUTS = load_safety_samples()


def test_every_category_is_there_with_both_labels() -> None:
    assert {sample.category for sample in INPUTS if sample.harmful} == set(CATEGORIES)
    assert {sample.category for sample in INPUTS if not sample.harmful} == {"hard_benign"}
    assert {"email", "phone", "card", "ssn", "iban", "secret", "verbatim"} <= {
        s.category for s in OUTPUTS if s.harmful
    }
    assert len({sample.sample_id for sample in (*INPUTS, *OUTPUTS)}) == len(INPUTS) + len(OUTPUTS)


def test_inputs_are_held_out() -> None:
    lines = (
        (Path(__file__).parents[1] / "fitting" / "injection_training.jsonl")
        .read_text(encoding="utf-8")
        .split("\n")
    )
    rows = [json.loads(line) for line in lines if line]
    assert {row["category"] for row in rows if row["harmful"]} >= set(CATEGORIES)
    known = {" ".join(row["text"].casefold().split()) for row in rows}
    assert not known & {" ".join(sample.text.casefold().split()) for sample in INPUTS}
    words = [set(text.split()) for text in known]
    for sample in INPUTS:
        own = set(sample.text.casefold().split())
        assert (
            max(len(own & other) / len(own | other) for other in words if len(other) > 3) < 0.7
        ), sample.text


def test_the_file_itself_holds_no_key_that_a_scanner_finds() -> None:
    raw = (
        resources.files("ragbench.datasets")
        .joinpath("safety_outputs.jsonl")
        .read_text(encoding="utf-8")
    )
    assert "~~" in raw
    assert [name for _, _, name in secrets(raw) if name.startswith(("the form", "a private"))] == []
