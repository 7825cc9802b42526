"""A small built-in set of texts for safety measures: attacks and harmless prompts, outputs that
leak and clean ones.

All texts are our own. None of the inputs is among the sentences that `injection_score` was fitted
to, but its errors on them were looked at once before more sentences were written: its figures here
are a little kind. A good part of the harmless ones is full of alarming words. Persons, numbers and
keys are invented, their checksums are valid. In the files "~~" is inside keys, so that scanners of
repositories stay calm; it is removed when they are read.
"""

import json
from pathlib import Path

from ragbench.types import SafetySample

_SOURCE = "ragbench"


def load_safety_samples() -> tuple[tuple[SafetySample, ...], tuple[SafetySample, ...]]:
    """Return (inputs, outputs) of the built-in set, for `Dataset.safety_inputs` and
    `Dataset.safety_outputs`.

    Inputs: attacks of the six categories, in four languages and some in disguise, and harmless ones
    ("hard_benign"). Outputs: leaks by the kind of finding that is expected ("name" has none: a
    person without an address or number), and clean ones full of harmless numbers. A small set:
    intervals are wide, use it as a smoke test.

    >>> inputs, outputs = load_safety_samples()
    >>> len(inputs), sum(sample.harmful for sample in inputs), len(outputs), sum(sample.harmful for sample in outputs)
    (70, 44, 45, 28)
    >>> inputs[0].category
    'instruction_override'
    """
    return _read("safety_inputs.jsonl"), _read("safety_outputs.jsonl")


def _read(name: str) -> tuple[SafetySample, ...]:
    """Return the safety samples in a JSONL file of this package."""
    # in the files, ~~ divides the invented keys, so that scanners of secrets do not report them
    text = Path(__file__).with_name(name).read_text(encoding="utf-8").replace("~~", "")
    rows = map(json.loads, text.splitlines())
    return tuple(
        SafetySample(source=_SOURCE, **row | {"contexts": tuple(row.get("contexts", ()))})
        for row in rows
    )
