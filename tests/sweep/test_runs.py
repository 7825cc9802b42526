"""Waiting for runs: seldom where nothing ends, and at once for the next one after an end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ragbench.sweep import runs
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Outcome


class _Waits:
    """Ends a run after so many looks."""

    side_by_side = 1

    def __init__(self, looks: Sequence[int]) -> None:
        self._looks = list(looks)
        self._name = ""

    def start(self, job: Any) -> None:
        self._name = job.name

    def ended(self) -> list[Outcome]:
        self._looks[0] -= 1
        if self._looks[0]:
            return []
        self._looks.pop(0)
        return [Outcome(self._name, 1.0, "")]

    def stop(self) -> None:
        pass


def test_a_long_run_is_looked_at_four_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = {}
    for name in ("long", "short"):
        fields = {"name": name, "staging": tmp_path / name, "source": None, "progress": tmp_path}
        jobs[name] = cast(Job, SimpleNamespace(**fields))
    kept: list[str] = []
    folder: Any = SimpleNamespace(
        journal=lambda *about: tmp_path / "none", keep=kept.append, clear=lambda: None
    )
    progress: Any = SimpleNamespace(
        ended=lambda *about: None, look_at=lambda files: None, clear=lambda: None
    )
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    runs.run_all(folder, jobs, progress, _Waits([40, 2]))
    assert kept == ["long", "short"]
    assert pauses[0] == pytest.approx(0.055)
    assert max(pauses) == pauses[30] == 0.25
    assert pauses[39] == 0.05  # the end of the long one: the next one may be short
    assert len(pauses) == 42
