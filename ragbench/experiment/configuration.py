"""What a configuration is: its parameters, its name, what else decides its numbers."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ragbench.errors import ConfigError, unknown

WHERE = ("results_dir",)
"""Parameters that say where results go. They change no number, so they are no part of a configuration."""

# Named in the readable part of a configuration's name, in this order, as far as a notebook has them.
_READABLE = ("retriever", "reranker", "chunker", "chunk_size", "llm")
# Libraries that decide numbers; their versions stand in config.json.
_DECIDING = (
    "bm25s", "numpy", "pandas", "PyStemmer", "pytrec-eval-terrier", "scipy", "sentence-transformers",
    "sentencex", "tokenizers", "torch", "transformers", "wordllama",
)  # fmt: skip


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that make a configuration: all but those that only say where results go.

    Raises:
        ConfigError: if a value is not plain data (text, number, truth value, list or table of such).

    >>> configuration({"chunk_size": 128, "results_dir": "results/mine"})
    {'chunk_size': 128}
    """
    own = {key: value for key, value in parameters.items() if key not in WHERE}
    for key, value in own.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as exc:
            raise ConfigError(
                f"parameter {key!r} is {value!r}; expected text, a finite number, true or false, or a list of such"
            ) from exc
    return own


def config_name(parameters: Mapping[str, Any]) -> str:
    """A name that is readable, safe as a file name, and its own for each set of parameters.

    It ends in 8 hex digits of the SHA-256 of all parameters (whatever their order), so two configurations share a
    name with a probability of 1 in 4 billion per pair.

    >>> config_name({"retriever": "dense:minilm", "chunker": "fixed", "chunk_size": 128, "seed": 0})
    'dense-minilm-fixed-128-e00ec49f'
    """
    own = configuration(parameters)
    words = [_word(str(own[key])) for key in _READABLE if own.get(key) not in (None, "", "extractive")]
    readable = "-".join(word for word in words if word)[:80].strip("-.") or "run"
    canonical = json.dumps(own, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return f"{readable}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def _word(value: str) -> str:
    # The last part of a path or of owner/model says enough, and folders of this machine stay out of names.
    kind, colon, model = value.partition(":")
    last = re.split(r"[/\\]", (model if colon else value).rstrip("/\\"))[-1]
    text = f"{kind}-{last}" if colon and "/" not in kind and "\\" not in kind else last
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse values that no run could use, as far as that can be told without running; for the names it knows.

    Raises:
        ConfigError: naming the parameter, its value and what was expected.
    """
    if "chunker" in parameters:
        from ragbench.chunkers import CHUNKERS

        if parameters["chunker"] not in CHUNKERS:
            raise ConfigError(unknown("chunker", parameters["chunker"], CHUNKERS))
    if "retriever" in parameters:
        from ragbench.retrievers import check_retriever

        check_retriever(parameters["retriever"])
    if "llm" in parameters:
        from ragbench.generation import check_llm

        check_llm(parameters["llm"])
    smallest = {"chunk_size": 1, "chunk_overlap": 0, "depth": 1, "k": 1, "max_queries": 0, "seed": 0}
    for name, least in smallest.items():
        if name in parameters and parameters[name] < least:
            raise ConfigError(f"{name} is {parameters[name]}; expected {least} or more")
    size, overlap = parameters.get("chunk_size"), parameters.get("chunk_overlap", 0)
    if size is not None and overlap >= size:
        raise ConfigError(f"chunk_overlap is {overlap} with chunk_size {size}; expected less than the size")
    if "k" in parameters and "depth" in parameters and parameters["k"] > parameters["depth"]:
        raise ConfigError(f"k is {parameters['k']} with depth {parameters['depth']}; k chunks must have been retrieved")


def environment() -> dict[str, Any]:
    """What may change a number or a latency: Python, platform, cores, versions. Nothing that names a machine or user.

    >>> sorted(environment())
    ['cores', 'libraries', 'machine', 'platform', 'python', 'ragbench']
    """
    libraries = {}
    for name in _DECIDING:
        with suppress(PackageNotFoundError):
            libraries[name] = version(name)
    return {
        "ragbench": own_version(),
        "python": platform.python_version(),
        "platform": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
        "libraries": libraries,
    }


def own_version() -> str:
    """The version of ragbench that is installed."""
    try:
        return version("ragbench-lab")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "unknown"
