"""A made-up history of 50 nights: what `history.ipynb` shows as it is, and what tests of trends use."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragbench.evaluation import Result, new_result
from ragbench.service.recording import record
from ragbench.types import Case, Dataset

_CATEGORIES = np.array(["billing", "delivery", "returns"])
_N_NIGHTS = 50
_NEW_VERSION = 20  # from this night on: a new version, with the same quality
_WORSE_BILLING = 30  # from this night on: questions on billing lose .2
_MORE_QUESTIONS = 42  # from this night on: 80 questions, 60 before


def made_up_nights() -> list[Result]:
    """Return one made-up result for each of 50 nights; every call returns the same numbers.

    A new version on night 20 changes nothing, billing gets worse on night 30, and the test set grows
    on night 42.
    """
    rng = np.random.default_rng(0)
    usual_quality = rng.beta(5, 2, 80)  # of each question
    nights = []
    for night in range(_N_NIGHTS):
        n_questions = 60 if night < _MORE_QUESTIONS else 80
        numbers = np.arange(n_questions)
        categories = _CATEGORIES[numbers % 3]
        is_worse = (categories == "billing") & (night >= _WORSE_BILLING)
        noise = rng.normal(0, 0.12, n_questions)
        loss = np.where(is_worse, 0.2, 0.0)
        quality = usual_quality[:n_questions] + noise - loss
        latency = rng.gamma(20, 25 if night < _NEW_VERSION else 22, n_questions)
        scores = pd.DataFrame(
            {
                "query_id": [f"q{number:02}" for number in numbers],
                "nDCG@10": np.clip(quality + 0.05, 0, 1),
                "claim_support": np.clip(quality + 0.15, 0, 1),
                "pass_rate": (quality > 0.5).astype(float),
                "latency_total_ms": latency,
            }
        )
        nights.append(_result(night, scores, categories.tolist()))
    return nights


def _result(night: int, scores: pd.DataFrame, categories: list[str]) -> Result:
    """Return the result of a night from the scores of its questions, a row each; `categories` are the categories
    of the questions.
    """
    cases = [Case(query_id, f"Made-up question {query_id}?") for query_id in scores["query_id"]]
    result = new_result(
        name="example, made up",
        parameters={"retriever": "bm25"},
        dataset=Dataset("made-up", "test", {}, cases, {}),
        run={},
        scores=scores.melt("query_id", var_name="measure"),
        facts={"cost_usd": round(0.002 * len(cases), 4)},
        timings={"ask": 60.0},
    )
    made_at = pd.Timestamp("2026-01-01T02:00Z") + pd.Timedelta(days=night)
    environment = {
        "ragbench": "0.1.0",
        "libraries": {"app": "1.4" if night < _NEW_VERSION else "1.5"},
    }
    changed = {"made_at": made_at.isoformat(), "environment": environment, "series": "example"}
    verdicts: dict[str, dict[str, Any]] = {}
    questions = zip(scores["query_id"], categories, scores["pass_rate"], strict=True)
    for query_id, category, pass_rate in questions:
        verdicts[query_id] = {"category": category, "passed": pass_rate == 1}
    return replace(result, config={**result.config, **changed}, verdicts=verdicts)


def example_database() -> str:
    """Record the made-up nights in a new database in a temporary folder; return its path."""
    database = str(Path(tempfile.mkdtemp(), "example.sqlite"))
    record([(night, None) for night in made_up_nights()], database=database)
    return database
