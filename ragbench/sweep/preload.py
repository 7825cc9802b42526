"""Imports what runs use, once, in the process that they are forked from; importing this elsewhere
does nothing.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

from threadpoolctl import threadpool_limits

from ragbench.errors import one_line_warnings

# Modules that ragbench and the kernel import at their first use, on the way from a dataset to a
# comparison.
_MODULES = (
    "ipykernel.debugger ipykernel.inprocess.blocking ipykernel.inprocess.ipkernel "
    "IPython.core.application IPython.core.completerlib IPython.core.debugger IPython.core.magics "
    "IPython.core.oinspect IPython.extensions.storemagic tornado.platform.asyncio "
    "matplotlib.pyplot matplotlib.backends.backend_agg pandas.io.formats.html "
    "pandas.io.formats.string phonenumbers PIL.JpegImagePlugin psutil pyarrow.pandas_compat "
    "scipy.special sentencex stdnum.us.ssn Stemmer tokenizers ragbench.datasets.pydoc "
    "ragbench.evaluation.evaluator ragbench.report.failure_tables ragbench.report.plots.figure"
).split()

_VARIABLES = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a fork has one thread
    "OPENBLAS_NUM_THREADS": "1",  # a fork would start the threads again, which wait in loops
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "TOKENIZERS_PARALLELISM": "false",  # a fork would wait for threads that it does not have
    "TQDM_DISABLE": "1",  # bars would stay in the notebook of a run
}
"""Environment variables that modules read when they are imported."""

_BEFORE = dict(os.environ)
"""The environment before the imports, which set variables too."""


def packages_of(runs: Collection[Mapping[str, Any]]) -> list[str]:
    """Return the modules to import once, before the runs are forked, instead of in each run.

    They are the packages of embedding models and rerankers. Every run needs them, even if the vectors
    of chunks are stored: the vectors of questions and the reranking are computed in each run. For more
    than two runs `ragbench.sweep.warmup` is added, which takes as long as it saves in two.

    Args:
        runs: a table, parameter -> value, for each configuration.

    >>> packages_of([{"retriever": "bm25"}, {"retriever": "dense:wordllama"}])
    ['wordllama']
    """
    packages = {"ragbench.sweep.warmup"} if len(runs) > 2 else set()
    for parameters in runs:
        # "dense:wordllama" -> "dense" and "wordllama"; "bm25" has no model
        kind, _, model = str(parameters.get("retriever")).partition(":")
        # minilm is part of ragbench
        if kind in ("dense", "hybrid") and model != "minilm":
            packages.add("wordllama" if model == "wordllama" else "sentence_transformers")
        if parameters.get("reranker"):
            packages.add("sentence_transformers")
    return sorted(packages)


def _preload() -> None:
    """Import `_MODULES` in the process that runs are forked from; end it if the sweep ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the sweep
    sys.path[:] = filter(None, sys.path)  # nothing is imported from the working folder
    gc.disable()  # a collection writes to, and so copies, the memory that forks share
    os.environ.update(_VARIABLES)
    sweep_process = os.getppid()
    vars(builtins)["get_ipython"] = _get_ipython  # pandas looks for it at its import
    for name in _MODULES:
        has_sweep_ended = os.getppid() != sweep_process
        if has_sweep_ended:
            os._exit(0)
        with warnings.catch_warnings(), suppress(Exception):  # a cell that needs it shows the error
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    from ragbench.sweep.worker import load_papermill

    load_papermill().iorw.nbformat.validate(  # compiles the schema
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    )


def begin(
    job: str, environment: Mapping[str, str], threads: int, outcome: Connection[Any, Any]
) -> None:
    """Run a job in this process, a fork, as if the process had been started for it.

    Args:
        job: as JSON.
        environment: the variables of the run.
        threads: how many threads the run may use.
        outcome: the pipe by which the run reports its end.
    """
    if hasattr(os, "setsid"):
        os.setsid()  # this process leads a group with all that it starts, so that all can be ended
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.freeze()  # shared memory is not looked at by collections, which would copy it
    gc.enable()
    _set_environment(environment)
    os.environ["TOKENIZERS_PARALLELISM"] = str(threads > 1).lower()
    threadpool_limits(threads)
    if "numpy.random" in sys.modules:  # the standard library's `random` does this by itself
        sys.modules["numpy.random"].seed()
    # pandas and others look for this function at their import, to learn that they are in a notebook
    vars(builtins)["get_ipython"] = _get_ipython
    from ragbench.sweep.worker import run_job

    vars(builtins).pop("get_ipython")  # the kernel of the notebook brings its own
    one_line_warnings()
    run_job(job, outcome)


def _set_environment(environment: Mapping[str, str]) -> None:
    """Give this process the variables of a run, those that imported modules have set, and `_VARIABLES`;
    the others, which may be of an earlier sweep, are removed.
    """
    set_by_imports = {
        name: value for name, value in os.environ.items() if _BEFORE.get(name) != value
    }
    os.environ.clear()
    os.environ.update({**set_by_imports, **_VARIABLES, **environment})


def _get_ipython() -> Any:
    """Return what looks like a notebook: pandas asks when it is imported, and sets its options for
    it.
    """
    return SimpleNamespace(kernel=None)


def is_fork_server() -> bool:
    """Return True in the process that runs are forked from."""
    return getattr(sys.modules["__main__"], "main", None) is forkserver.main


if is_fork_server():
    _preload()
