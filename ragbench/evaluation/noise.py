"""The noise of a gate: how often its verdict flips when nothing has changed (an A/A test)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.evaluation.evaluator import evaluate
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.metrics.rates import wilson_interval
from ragbench.types import Dataset, System


def verdict_noise(
    dataset: Dataset,
    system: str | Path | System,
    runs: int,
    spec: EvaluationSpec | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Evaluate a system several times, and count how often the verdict is not the usual one.

    Nothing may come from a store of replies (`--no-cache`, RAGBENCH_REPLIES=off): a reply that is
    read again has no noise. Few evaluations show too little: verdicts that flip in 27 % of them are
    reported as .20 by 3, .24 by 5 and .26 by 10, on average. Without a baseline in the spec one
    more evaluation comes first, and the others are compared with it.

    Args:
        dataset, system: as in `evaluate`.
        runs: the number of evaluations, 2 or more.
        spec, options: as in `evaluate`: targets, judge and others.

    Returns:
        A row for the gate's verdict (passed or not), and one for those on single questions (passed,
        failed or not decided): of, verdicts, flips (those that differ from the most frequent one),
        rate (flips / verdicts, in [0, 1]), ci_low, ci_high (95 %, Wilson).

    >>> from ragbench.types import Case, Document
    >>> case = Case("q", "How long do cats sleep?", gold_facts=(("all day",),))
    >>> data = Dataset("pets", "test", {"cats": Document("cats", "Cats sleep all day.")}, [case], {"q": {"cats": 1}})
    >>> noise = verdict_noise(data, "bm25", 3, perspectives=["retrieval"])
    >>> noise[["of", "verdicts", "flips", "rate"]].values.tolist()
    [['gate', 3, 0, 0.0], ['questions', 3, 0, 0.0]]

    Raises:
        ConfigError: fewer than 2 runs.
    """
    if runs < 2:
        raise ConfigError(
            f"{runs} evaluations cannot differ from each other; expected 2 or more, such as 20"
        )
    spec = (spec or EvaluationSpec()).replaced(**options)
    if spec.baseline is None:
        spec = spec.replaced(baseline=evaluate(dataset, system, spec))
    results = [evaluate(dataset, system, spec) for _ in range(runs)]
    verdicts: list[Sequence[bool | None]] = [[result.passed for result in results]]
    verdicts += zip(*([case.passed for case in result.cases] for result in results), strict=True)
    flips = [runs - Counter(repeated).most_common(1)[0][1] for repeated in verdicts]
    rows = []
    for of, counts in {"gate": flips[:1], "questions": flips[1:]}.items():
        if n := runs * len(counts):
            flipped = sum(counts)
            rows.append((of, n, flipped, flipped / n, *wilson_interval(flipped, n)))
    return pd.DataFrame(rows, columns=["of", "verdicts", "flips", "rate", "ci_low", "ci_high"])
