"""How often a judge failed, and which questions lack its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragbench.errors import printable
from ragbench.evaluation.secrets import masked
from ragbench.types import Judgement


class JudgeFailures(NamedTuple):
    """How much of what a judge was asked it answered, by the criterion on which it failed most.

    `failed` of `requested` judgements have no verdict, the first of them for this `reason`. `lost`
    are the questions that lack a verdict which decides whether they pass.
    """

    requested: int = 0
    failed: int = 0
    reason: str = ""
    lost: frozenset[str] = frozenset()

    @property
    def warning(self) -> str:
        """How much failed and why; "" where nothing did."""
        part = f"{self.failed} of {self.requested} judgements failed"
        return (
            f"{part} ({self.failed / self.requested:.0%}), the first: {self.reason}"
            if self.failed
            else ""
        )


def judge_failures(judgements: Sequence[Judgement]) -> JudgeFailures:
    """Return how many judgements were requested, and how many failed.

    >>> judge_failures([Judgement("q1", "correctness", None, "401", state="judge_failed", samples=(None,))])
    JudgeFailures(requested=1, failed=1, reason='401', lost=frozenset({'q1'}))
    """
    requested = [judgement for judgement in judgements if judgement.samples]
    failed = [
        judgement for judgement in requested if judgement.state in ("judge_failed", "unreadable")
    ]
    if not failed:
        return JudgeFailures(len(requested))
    worst = max((one.criterion for one in failed), key=[one.criterion for one in failed].count)
    lost = frozenset(
        one.query_id for one in failed if one.criterion in ("correctness", "faithfulness")
    )
    n_requested, n_failed = (
        sum(one.criterion == worst for one in some) for some in (requested, failed)
    )
    return JudgeFailures(n_requested, n_failed, printable(masked(failed[0].explanation)), lost)
