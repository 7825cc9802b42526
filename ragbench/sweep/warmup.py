"""Evaluates two of the built-in questions in the process that runs are forked from, after its
imports: objects of their first use (patterns, adapters, weights, words of the built-in documents)
are then in the memory that forks share.

Importing this elsewhere does nothing.
"""

from __future__ import annotations

import warnings
from contextlib import suppress

from ragbench import store
from ragbench.evaluation import evaluate
from ragbench.llms.reply_text import read_outcome
from ragbench.report.plots.figure import new_axes
from ragbench.retrieval.embedders import TextEmbedder, load_embedder
from ragbench.sweep.preload import is_fork_server
from ragbench.testsets import load_dataset


def warm_up() -> None:
    """Evaluate two questions, and draw a figure, so that the objects of their first use are in memory."""
    minilm = load_embedder("minilm")
    with store.bypassed():
        minilm.encode(["a question"])
        if isinstance(minilm, TextEmbedder):
            minilm.encode_exactly(["a question"])  # loads the weights in double precision too
    read_outcome("A fact.")  # compiles its patterns
    evaluate(load_dataset("pydoc"), "bm25", limit=2)
    new_axes(8, 2)[0]._repr_png_()  # type: ignore[attr-defined]


if is_fork_server():
    with warnings.catch_warnings(), suppress(Exception):  # a cell that needs it shows the error
        warnings.simplefilter("ignore")
        warm_up()
