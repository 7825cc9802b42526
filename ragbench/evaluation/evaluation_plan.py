"""The record of an evaluation that can begin: its options with everything that they name loaded, by
`preparation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragbench.evaluation.result import Result
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.evaluation.targets import Targets
from ragbench.hints.attributes import suggesting
from ragbench.judges.criterion import Criterion
from ragbench.registry import Measure
from ragbench.types import Dataset, Embedder


@suggesting()
@dataclass(frozen=True, eq=False)
class EvaluationPlan:
    """A spec with everything that it names loaded, for one dataset; `check_evaluation` returns it.

    `dataset` holds the questions that take part. `targets` are shown to the user, `deciding` are
    the targets that count here; `criteria` are for the judge, `depths` the measures at the depths
    of the spec, `measures` the user's own, `chosen` the names of the only ones to report (() =
    all).
    """

    spec: EvaluationSpec
    dataset: Dataset
    targets: Targets
    deciding: Targets
    criteria: tuple[Criterion, ...]
    depths: tuple[str, ...]
    embedder: str | Embedder
    detector: Callable[[str], float] | None
    measures: tuple[Measure, ...]
    chosen: tuple[str, ...]
    baseline: Result | None

    @property
    def named(self) -> tuple[str, ...]:
        """Return the measures that are reported in addition to the usual ones."""
        return (*self.depths, *self.chosen, *self.deciding.named)

    @property
    def support_model(self) -> str:
        """Return what measures whether contexts support claims."""
        return self.spec.support_model or "minilm"
