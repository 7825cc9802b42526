"""The measurements of the assertions of a session, as plain data that can be sent between
processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ragbench.types import Answer, DatasetSource


@dataclass(frozen=True)
class Check:
    """One assertion: `value` is None where it could not be scored, with the reason in `reason`."""

    test: str
    query_id: str
    measure: str
    value: float | None
    passed: bool | None
    reason: str = ""


@dataclass
class Recorder:
    """The measurements and answers of the assertions of one process.

    `answers` is source of the dataset -> query_id -> answer; the source is None for questions that
    were not loaded.
    """

    checks: list[Check] = field(default_factory=list)
    answers: dict[DatasetSource | None, dict[str, Answer]] = field(default_factory=dict)

    def keep(self, source: DatasetSource | None, answer: Answer) -> None:
        """Keep the answer to a question, with the passages of a separate search."""
        answers = self.answers.setdefault(source, {})
        before = answers.get(answer.query_id)
        answers[answer.query_id] = answer if before is None else _joined(before, answer)

    def to_plain(self) -> dict[str, Any]:
        """Return the records as JSON types."""
        return {
            "checks": [asdict(check) for check in self.checks],
            "answers": [
                {"source": asdict(source) if source else None, "answer": asdict(answer)}
                for source, answers in self.answers.items()
                for answer in answers.values()
            ],
        }

    def add_plain(self, plain: Mapping[str, Any]) -> None:
        """Add the records of another process."""
        from pydantic import TypeAdapter

        adapter = TypeAdapter(Answer)
        self.checks.extend(Check(**check) for check in plain["checks"])
        for entry in plain["answers"]:
            self.keep(
                DatasetSource(**entry["source"]) if entry["source"] else None,
                adapter.validate_python(entry["answer"]),
            )


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
    """Return rows to print: measure, mean of the scored, "scored/all", "passed/decided"; by
    measure, in order.
    """
    rows = []
    for measure in dict.fromkeys(check.measure for check in checks):
        same = [check for check in checks if check.measure == measure]
        values = [check.value for check in same if check.value is not None]
        decided = [check.passed for check in same if check.passed is not None]
        mean = f"{sum(values) / len(values):.3f}" if values else "unscored"
        rows.append((measure, mean, f"{len(values)}/{len(same)}", f"{sum(decided)}/{len(decided)}"))
    return rows
