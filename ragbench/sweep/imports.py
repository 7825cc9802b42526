"""What the runs of a sweep import, found out without running them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_KERNEL = (
    "faulthandler", "ipykernel.debugger", "ipykernel.kernelapp", "IPython.core.completerlib", "IPython.core.debugger",
    "IPython.extensions.storemagic", "psutil", "ragbench.sweep.provisioner", "tornado.platform.asyncio",
)  # fmt: skip
_RAGBENCH = (
    "bm25s", "cachetools", "IPython.display", "matplotlib.backends.backend_agg", "matplotlib.pyplot", "pandas",
    "pytrec_eval", "scipy.stats", "sentencex", "sklearn.feature_extraction.text", "statsmodels.stats.proportion",
    "Stemmer", "tokenizers",
)  # fmt: skip
"""What ragbench imports where it is first used, on the way from a dataset to a comparison."""


def imports_of(notebooks: Iterable[str], runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Modules, and names in modules of ragbench, that each run of these notebooks (their text) would import by itself.

    What only some parameters need is there when a run has them.

    >>> source = "import json\\nimport ragbench as rb\\ndata = rb.load_dataset('pydoc')"
    >>> cell = {"cell_type": "code", "source": source, "metadata": {}}
    >>> imports_of([json.dumps({"cells": [cell]})], [{"retriever": "dense:wordllama"}])[-4:]
    ['wordllama', 'json', 'ragbench', 'ragbench.load_dataset']
    """
    named = list(dict.fromkeys(name for text in notebooks for name in _named(text)))
    own = _RAGBENCH if "ragbench" in named else ()
    models = sorted({name for parameters in runs for name in _models(parameters)})
    return [*_KERNEL, *own, *models, *named]


def _named(notebook: str) -> Iterator[str]:
    bound: dict[str, str] = {}
    for cell in json.loads(notebook)["cells"]:
        try:
            nodes = list(ast.walk(ast.parse("".join(cell["source"])))) if cell["cell_type"] == "code" else []
        except SyntaxError:  # magics of IPython
            continue
        for node in nodes:
            if isinstance(node, ast.Import):
                bound |= {alias.asname or alias.name: alias.name for alias in node.names}
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = bound.get(node.value.id, "")
                if module.split(".")[0] == "ragbench":  # whose names are loaded when they are first used
                    yield f"{module}.{node.attr}"


def _models(parameters: Mapping[str, Any]) -> Iterator[str]:
    """The packages that compute what is never stored: a question's vector while its search is timed, a reranking."""
    kind, _, model = str(parameters.get("retriever")).partition(":")
    if kind in ("dense", "hybrid") and model != "minilm":  # which needs only what all import
        yield "wordllama" if model == "wordllama" else "sentence_transformers"
    if parameters.get("reranker"):
        yield "sentence_transformers"
