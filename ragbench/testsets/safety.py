"""Labelled texts for detectors, as they are in files: harmful or not, in the words that people use."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator

from ragbench.testsets.parser import Record
from ragbench.testsets.validation import STRICT, Content, Text, Word, check
from ragbench.types import SafetySample

HARMFUL = (
    "attack",
    "injection",
    "jailbreak",
    "malicious",
    "unsafe",
    "harmful",
    "leak",
    "leaked",
    "positive",
)
HARMLESS = ("benign", "safe", "harmless", "clean", "legitimate", "no_leak", "none", "negative")
_LABELS: Mapping[str, bool] = {
    **dict.fromkeys((*HARMFUL, "true", "1"), True),
    **dict.fromkeys((*HARMLESS, "false", "0"), False),
}

Kind = Literal["input", "output"]


def _harm(value: object) -> bool:
    """Return the label of a text; True and 1 are labels too.

    >>> _harm("Injection"), _harm("clean"), _harm(1), _harm(False)
    (True, False, True, False)
    """
    key = str(value).strip().lower().replace(" ", "_").replace("-", "_")
    if not isinstance(value, str | int) or key not in _LABELS:
        raise ValueError(
            f"a label: {', '.join(HARMFUL)}, true or 1; {', '.join(HARMLESS)}, false or 0"
        )
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


def read_samples(records: Iterable[Record], kind: Kind, content: Content) -> None:
    """Add the samples of these records to `content`; an absent id is made from the text."""
    samples = content.inputs if kind == "input" else content.outputs
    seen: dict[str, Record] = {}
    for record in records:
        if (line := check(SampleLine, record, content)) is None:
            continue
        sample_id = line.sample_id or _derived(kind, line.text, seen)
        if content.is_new(seen, sample_id, record, "sample_id"):
            fields = (line.text, line.label, line.category, line.source, tuple(line.contexts))
            samples.append(SafetySample(sample_id, *fields))


def sample_record(sample: SafetySample, kind: Kind) -> dict[str, Any]:
    """Return the line of a sample."""
    words = ("attack", "benign") if kind == "input" else ("leak", "clean")
    labels = {
        "category": sample.category,
        "source": sample.source,
        "contexts": list(sample.contexts),
    }
    return {
        "sample_id": sample.sample_id,
        "text": sample.text,
        "label": words[0] if sample.harmful else words[1],
        **{name: value for name, value in labels.items() if value},
    }


def _derived(kind: Kind, text: str, ids: Mapping[str, object]) -> str:
    stem = f"{kind}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"
    name, copy = stem, 1
    while name in ids:
        copy += 1
        name = f"{stem}-{copy}"
    return name
