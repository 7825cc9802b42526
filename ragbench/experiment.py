"""Deprecated: names of the first edition, for notebooks that were written for it; all are in the package root now."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def save_run(folder: str | Path, **parts: Any) -> Path | None:
    """`rb.save(rb.evaluation.new_result(...), folder)`."""
    from ragbench.evaluation import new_result, save

    warnings.warn("save_run is now rb.save(rb.evaluation.new_result(...), folder)", DeprecationWarning, stacklevel=2)
    return save(new_result(**parts), folder)


def __getattr__(name: str) -> Any:
    from ragbench import evaluation

    new = {"load_run": "load_result", "load_sweep": "load_results"}.get(name, name)
    if new not in evaluation.__all__:
        raise AttributeError(f"module 'ragbench.experiment' has no attribute {name!r}; see ragbench.evaluation")
    warnings.warn(f"ragbench.experiment.{name} is now ragbench.evaluation.{new}", DeprecationWarning, stacklevel=2)
    return getattr(evaluation, new)
