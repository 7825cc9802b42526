"""Labelled texts for detectors, as they are in files: harmful or not, in the words that people use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator

from ragbench.testsets.parser import Keys, Parsed
from ragbench.testsets.problems import field_name
from ragbench.testsets.validation import STRICT, Reading, Text, Word, check
from ragbench.types import SafetySample

HARMFUL = ("attack", "injection", "jailbreak", "malicious", "unsafe", "harmful", "leak", "leaked", "positive")
HARMLESS = ("benign", "safe", "harmless", "clean", "legitimate", "no_leak", "none", "negative")
_LABELS: Mapping[str, bool] = {
    **dict.fromkeys((*HARMFUL, "true", "1"), True), **dict.fromkeys((*HARMLESS, "false", "0"), False)
}  # fmt: skip

Kind = Literal["input", "output"]


def _harm(value: object) -> bool:
    """The label of a text; True and 1 are labels too.

    >>> _harm("Injection"), _harm("clean"), _harm(1), _harm(False)
    (True, False, True, False)
    """
    key = str(value).strip().lower().replace(" ", "_").replace("-", "_")
    if not isinstance(value, str | int) or key not in _LABELS:
        raise ValueError(f"a label: {', '.join(HARMFUL)}, true or 1; {', '.join(HARMLESS)}, false or 0")
    return _LABELS[key]


class SampleLine(BaseModel):
    """A line of safety_inputs.jsonl or safety_outputs.jsonl."""

    model_config = STRICT
    sample_id: Word | None = None
    text: Text
    label: Annotated[bool, BeforeValidator(_harm)]
    category: str = ""
    source: str = ""
    contexts: list[str] = []


def read_samples(lines: Iterable[tuple[int, Parsed, Keys]], kind: Kind, reading: Reading) -> None:
    """Put the samples at these places (line, parsed text, keys in it) into `reading`; an absent id is made."""
    samples = reading.inputs if kind == "input" else reading.outputs
    numbers = {sample.sample_id: 0 for sample in samples}
    for number, parsed, keys in lines:
        if (line := check(SampleLine, parsed, keys, reading)) is None:
            continue
        sample_id = line.sample_id or _derived(kind, line.text, numbers)
        if reading.is_new(numbers, sample_id, number, field_name((*keys, "sample_id")), parsed.file):
            fields = (line.text, line.label, line.category, line.source, tuple(line.contexts))
            samples.append(SafetySample(sample_id, *fields))


def sample_record(sample: SafetySample, kind: Kind) -> dict[str, Any]:
    """The line of a sample."""
    words = ("attack", "benign") if kind == "input" else ("leak", "clean")
    labels = {"category": sample.category, "source": sample.source, "contexts": list(sample.contexts)}
    return {
        "sample_id": sample.sample_id,
        "text": sample.text,
        "label": words[0] if sample.harmful else words[1],
        **{name: value for name, value in labels.items() if value},
    }


def _derived(kind: Kind, text: str, taken: Mapping[str, int]) -> str:
    stem = f"{kind}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"
    name, copy = stem, 1
    while name in taken:
        copy += 1
        name = f"{stem}-{copy}"
    return name
