"""The measurements of the assertions of a session, as plain data that can be sent between
processes, and their summary.
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
            answers[answer.query_id] = _merge_answers(before, answer)
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


def _merge_answers(before: Answer, answer: Answer) -> Answer:
    """Merge two answers to one question, `before` and the newer `answer`.

    The newer answer is kept, unless only the older one has a text. If the kept answer has no contexts
    (they came from a separate search), it gets the contexts of the other one.
    """
    if before.text and not answer.text:
        kept, other = before, answer
    else:
        kept, other = answer, before
    if kept.contexts or kept.passages:
        return kept
    return replace(kept, contexts=other.contexts, passages=other.passages)


def summary_rows(checks: Sequence[Check]) -> list[tuple[str, str, str, str]]:
    """Return a row to print for each measure, in the order of the checks: measure, mean of the scored
    checks ("unscored" if there is none), "scored/all", "passed/decided".
    """
    by_measure: dict[str, list[Check]] = {}
    for check in checks:
        by_measure.setdefault(check.measure, []).append(check)
    rows = []
    for measure, of_measure in by_measure.items():
        values = [check.value for check in of_measure if check.value is not None]
        decisions = [check.passed for check in of_measure if check.passed is not None]
        mean = f"{sum(values) / len(values):.3f}" if values else "unscored"
        scored = f"{len(values)}/{len(of_measure)}"
        n_passed = sum(decisions)
        rows.append((measure, mean, scored, f"{n_passed}/{len(decisions)}"))
    return rows
