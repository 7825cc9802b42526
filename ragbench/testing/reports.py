"""The measurements of the assertions of a session, as plain data that can be sent between
processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragbench.types import Answer, DatasetSource

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True)
class Check:
    """One assertion: `value` is None if it could not be scored, with the reason in `reason`."""

    test: str
    query_id: str
    measure: str
    value: float | None
    passed: bool | None
    reason: str = ""


@dataclass
class Recorder:
    """The measurements and answers of the assertions of one process.

    The source of an answer's dataset is None for questions that were not loaded.
    """

    checks: list[Check] = field(default_factory=list)
    kept: list[tuple[DatasetSource | None, Answer]] = field(default_factory=list)

    @property
    def answers(self) -> dict[DatasetSource | None, dict[str, Answer]]:
        """Return source -> query_id -> answer, with the passages of a separate search."""
        sources: dict[DatasetSource | None, dict[str, Answer]] = {}
        for source, answer in self.kept:
            answers = sources.setdefault(source, {})
            before = answers.get(answer.query_id, answer)
            answers[answer.query_id] = _joined(before, answer)
        return sources

    def to_plain(self) -> Any:
        """Return the records as JSON types."""
        return _adapter().dump_python(self, mode="json")

    def add_plain(self, plain: Any) -> None:
        """Add the records of another process."""
        other = _adapter().validate_python(plain)
        self.checks += other.checks
        self.kept += other.kept


def _adapter() -> TypeAdapter[Recorder]:
    from pydantic import TypeAdapter

    return TypeAdapter(Recorder)


active: Recorder | None = None
"""The recorder of the assertions; None outside of pytest."""

current_test = ""
"""The id of the running test."""


def _joined(before: Answer, answer: Answer) -> Answer:
    first, second = (answer, before) if answer.text or not before.text else (before, answer)
    if first.contexts or first.passages:
        return first
    return replace(first, contexts=second.contexts, passages=second.passages)


def table(checks: Sequence[Check]) -> list[tuple[str, str, str, str]]:
    """Return a row to print for each measure, in the order of the checks: measure, mean of the scored
    checks ("unscored" if there is none), "scored/all", "passed/decided".
    """
    rows = []
    for measure in dict.fromkeys(check.measure for check in checks):
        same = [check for check in checks if check.measure == measure]
        values = [check.value for check in same if check.value is not None]
        decided = [check.passed for check in same if check.passed is not None]  # True or False each
        mean = f"{sum(values) / len(values):.3f}" if values else "unscored"
        rows.append((measure, mean, f"{len(values)}/{len(same)}", f"{sum(decided)}/{len(decided)}"))
    return rows
