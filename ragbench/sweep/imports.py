"""What the runs of a sweep import, found out without running them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_ALWAYS = (
    "faulthandler", "ipykernel.debugger", "ipykernel.kernelapp", "IPython.core.completerlib", "IPython.core.debugger",
    "IPython.extensions.storemagic", "psutil", "ragbench.sweep.provisioner", "tornado.platform.asyncio",
)  # fmt: skip

_RAGBENCH = (
    "bm25s", "IPython.display", "matplotlib.pyplot", "pandas", "pytrec_eval", "scipy.stats", "Stemmer", "tokenizers",
    "ragbench.chunkers", "ragbench.datasets.pydoc", "ragbench.diagnosis", "ragbench.evaluation", "ragbench.generation",
    "ragbench.judges", "ragbench.plots", "ragbench.report", "ragbench.retrievers", "ragbench.scoring",
)  # fmt: skip
"""ragbench loads these when they are first used."""


def imports_of(notebooks: Iterable[str], runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The modules that runs of these notebooks (their text) with these parameters would import each for itself.

    >>> cell = {"cell_type": "code", "source": "import json, csv\\nfrom html import parser", "metadata": {}}
    >>> imports_of([json.dumps({"cells": [cell]})], [])[-4:]
    ['json', 'csv', 'html', 'html.parser']
    """
    named = [name for text in notebooks for name in _named(text)]
    own = _RAGBENCH if "ragbench" in named else ()
    models = sorted({name for parameters in runs for name in _models(parameters)})
    return list(dict.fromkeys([*_ALWAYS, *own, *models, *named]))


def _named(text: str) -> Iterator[str]:
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            nodes = list(ast.walk(ast.parse("".join(cell["source"]))))
        except SyntaxError:  # magics of IPython
            continue
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)  # a module, or nothing to import


def _models(parameters: Mapping[str, Any]) -> Iterator[str]:
    """The packages that compute what is never stored: a question's vector while its search is timed, a reranking."""
    kind, _, model = str(parameters.get("retriever")).partition(":")
    if kind in ("dense", "hybrid"):
        yield "wordllama" if model == "wordllama" else "sentence_transformers"
    if parameters.get("reranker"):
        yield "sentence_transformers"
