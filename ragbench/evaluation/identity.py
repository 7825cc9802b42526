"""Digests of test set, system and options, by which `ragbench eval` recognises the same evaluation
in its folder or names what differs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragbench.evaluation.folder import FILES, VERDICTS
from ragbench.evaluation.spec import REQUESTS, EvaluationSpec
from ragbench.evaluation.targets import Targets
from ragbench.systems.named_systems import system_digest
from ragbench.types import Dataset

PARTS = {"test_set": "test set or documents", "system": "system", "options": "options"}
"""The keys of `made_from`, in words."""

_NOT_COMPARED = ("name", *REQUESTS)  # the name of the result, and options of speed


def made_from(
    dataset: Dataset, system: str, spec: EvaluationSpec, of_pipeline: Mapping[str, Any]
) -> dict[str, str]:
    """Return the SHA-256 of each thing that an evaluation is made from: the test set with its
    documents, the system, and the options (of the evaluation, and of the pipeline).

    A file that names the system or an option counts by its content, the folder of a baseline by the
    files of its result, "package.module:attribute" by the source of its module, and a service by
    its address. The name of the result and how requests are sent do not count.
    """
    options = {}
    for name, value in sorted(spec):
        if name not in _NOT_COMPARED:
            options[name] = _comparable(value)
    options["criteria"] = criteria_digest(spec)  # with the prompts, which decide verdicts
    for name in sorted(of_pipeline):
        options[f"pipeline {name}"] = _comparable(of_pipeline[name])
    return {
        "test_set": dataset.fingerprint,
        "system": system_digest(system),
        "options": hashlib.sha256(json.dumps(options).encode()).hexdigest(),
    }


def criteria_digest(spec: EvaluationSpec, folder: str | Path = "") -> str:
    """Return the SHA-256 of the criteria that a judge or their own functions decide: questions, levels,
    examples, sources of functions; "" if there are none. Without a judge only functions count.
    """
    digests = [criterion.digest for criterion in spec.loaded_criteria(folder)]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words which parts of two evaluations differ; "" if none does.

    >>> difference({"test_set": "a", "system": "b", "options": "c"}, {"test_set": "a", "system": "d", "options": "e"})
    'system, options'
    """
    return ", ".join(words for part, words in PARTS.items() if before.get(part) != now[part])


def _comparable(value: Any) -> Any:
    """Return the value of an option as plain data that is equal for equal options: JSON of it is digested.

    A text is replaced by its digest, or if it names a file, the folder of a result or a module, by the
    digest of the content of that. Mappings and sets become sorted lists.
    """
    if isinstance(value, str | Path):
        return _digest_of_named(str(value))
    if isinstance(value, Targets):
        value = asdict(value)
    if isinstance(value, Mapping):
        return [[name, _comparable(value[name])] for name in sorted(value)]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    return value


def _digest_of_named(name: str) -> str:
    """Return the SHA-256 of the result in a folder of this name, else `system_digest`."""
    if not os.path.isdir(name):
        return system_digest(name)
    folder = Path(name)
    sha = hashlib.sha256()
    for file in (*FILES, VERDICTS):
        if (folder / file).is_file():
            content = (folder / file).read_bytes()
            sha.update(f"{file}:{len(content)}:".encode() + content)
    return sha.hexdigest()
