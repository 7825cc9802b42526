"""Results in other tools' hands: names that MLflow takes, and the example of the guide."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.registry import measures

ROOT = Path(__file__).parents[2]
ALLOWED = re.compile(r"[/\w.\- ]+")  # mlflow.utils.validation, on every system
CORPUS = {"d": "The railway opened in 1881.", "e": "A dog sleeps at night."}
DATA = rb.Dataset.from_dicts(CORPUS, {"q": "When did the railway open?"}, {"q": {"d": 1}})


def test_the_example_of_the_guide_runs_and_every_name_is_one_of_mlflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: dict[str, Any] = {}

    def log_metrics(metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            assert ALLOWED.fullmatch(name), name
            assert isinstance(value, float)
        logged.update(metrics)

    fake: Any = types.ModuleType("mlflow")
    fake.start_run = lambda run_name: nullcontext(run_name)
    fake.log_params = lambda parameters: logged.update(parameters)
    fake.log_metrics = log_metrics
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    guide = (ROOT / "notebooks/guide/stack.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(with mlflow.*?)```", guide, re.DOTALL)
    assert len(example.splitlines()) == 3
    result = rb.evaluate(DATA, "bm25")
    exec(example, {"mlflow": fake, "rb": rb, "result": result})  # text of ours
    assert logged["nDCG_at_10"] == 1.0


def test_no_two_measures_have_one_name() -> None:
    names = [str(name) for name in measures()["measure"]]
    changed = {name.replace("@", "_at_").replace(":", "/") for name in names}
    assert len(changed) == len(set(names))
