"""A made-up history, for the notebook and for trying the commands: no run of it was ever made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ragbench.evaluation import Result, new_result
from ragbench.service.records import record
from ragbench.types import Case, Dataset

_NIGHTS, _CATEGORIES = 50, ("billing", "delivery", "returns")


def example_history(file: str | Path, *, seed: int = 0) -> str:
    """Record 50 made-up nights of one system in a new SQLite file; return its name.

    A new version comes on night 20 and changes nothing; on night 30 billing gets worse; on night 42
    the test set grows.

    >>> import tempfile
    >>> from ragbench.service import history
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(history(database=example_history(Path(folder, "example.sqlite")), limit=0))
    50
    """
    rng = np.random.default_rng(seed)
    usual = rng.beta(5, 2, 80)
    record(((_night(rng, night, usual), None) for night in range(_NIGHTS)), database=str(file))
    return str(file)


def _night(
    rng: np.random.Generator, night: int, usual: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> Result:
    count = 60 if night < 42 else 80
    ids = [f"q{i:02}" for i in range(count)]
    category = np.arange(count) % 3
    quality = usual[:count] + rng.normal(0, 0.12, count) - 0.2 * ((category == 0) & (night >= 30))
    columns = {
        "nDCG@10": np.clip(quality + 0.05, 0, 1),
        "claim_support": np.clip(quality + 0.15, 0, 1),
        "pass_rate": (quality > 0.5).astype(float),
        "latency_total_ms": rng.gamma(20, 25 if night < 20 else 22, count),
    }
    scores = pd.DataFrame({"query_id": ids, **columns}).melt("query_id", var_name="measure")
    cases = tuple(Case(query_id, f"Made-up question {query_id}?") for query_id in ids)
    data = Dataset("made-up", "test", {}, cases, {})
    result = new_result(
        name="example, made up",
        parameters={"retriever": "bm25"},
        dataset=data,
        run={},
        scores=scores,
        facts={"cost_usd": round(0.002 * count, 4)},
        timings={"ask": 60.0},
    )
    at = pd.Timestamp("2026-01-01T02:00Z") + pd.Timedelta(days=night)
    versions = {"ragbench": "0.1.0", "libraries": {"app": "1.4" if night < 20 else "1.5"}}
    verdicts = {
        query_id: {"category": _CATEGORIES[kind], "passed": bool(passed)}
        for query_id, kind, passed in zip(ids, category, columns["pass_rate"], strict=True)
    }
    config = {
        **result.config,
        "made_at": at.isoformat(),
        "environment": versions,
        "series": "example",
    }
    return replace(result, config=config, verdicts=verdicts)
