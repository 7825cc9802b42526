"""The best of many configurations, measured on held-out questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragbench.registry import higher_is_better
from ragbench.statistics.columns import check_settings
from ragbench.statistics.comparison import compare
from ragbench.statistics.p_values import p_text
from ragbench.statistics.pairing import matrix_of, measure_among
from ragbench.statistics.summary import summarise

if TYPE_CHECKING:
    import pandas as pd

MIN_HALF = 25
"""Queries that each half must have: the error of a mean over fewer is as large as the optimism to be measured."""


@dataclass(frozen=True)
class HeldOut:
    """The choice on one half of the queries, and its score on the other.

    `chosen` is best on the `n_choosing` queries, with a mean of `mean_choosing` there. On the `n_held_out` others its
    mean is `mean`, with the interval `ci_low` to `ci_high`; `difference` is that from `runner_up` (second on the
    choosing half), with its interval and `p_value`. `optimism` is how much better the choice looks where it was
    chosen, averaged over both directions (choose on one half, measure on the other, and the reverse), so 0 where both
    choose the same (`same_choice`). With too few queries all numbers are None.
    """

    sentence: str
    n_choosing: int
    n_held_out: int
    chosen: str | None = None
    runner_up: str | None = None
    mean_choosing: float | None = None
    mean: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_value: float | None = None
    optimism: float | None = None
    same_choice: bool | None = None


def held_out(
    scores_by_name: Mapping[str, pd.DataFrame],
    *,
    measure: str,
    alpha: float = 0.05,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> HeldOut:
    """Choose the best configuration on a random half of the queries, and measure it on the other half.

    The best of many was chosen for its score, luck included, so its score on the same queries is too good (the winner's
    curse); on other queries it is unbiased. With halves of fewer than 25 queries there is a sentence and no numbers,
    and no error, so that a notebook continues.

    Args:
        scores_by_name: name -> tidy scores of the same queries; queries that not all have scored are left out.
        measure: the measure to choose by.
        alpha: 1 minus the coverage of the intervals.
        n_resamples: of the intervals and the test.
        seed: of the random halves.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> held_out({"a": scores(*[0.0, 1.0] * 10), "b": scores(*[1.0, 0.5] * 10)}, measure="RR").sentence
    'Too few queries to hold half of them out: 20 that all 2 configurations scored, and 50 are needed.'

    Raises:
        ConfigError: fewer than two configurations, a measure that is not there, a setting out of range.
        ComparisonError: the configurations do not have the same queries.
    """
    import pandas as pd

    check_settings(n_resamples, alpha, seed)
    measure = measure_among(scores_by_name, measure)
    matrix = matrix_of(scores_by_name, measure, may_be_empty=True)
    n = len(matrix)
    order = np.random.default_rng([seed, 2]).permutation(n)
    choosing, others = matrix.iloc[np.sort(order[: n // 2])], matrix.iloc[np.sort(order[n // 2 :])]
    if n < 2 * MIN_HALF:
        sentence = (
            f"Too few queries to hold half of them out: {n} that all {matrix.shape[1]} configurations scored, "
            f"and {2 * MIN_HALF} are needed."
        )
        return HeldOut(sentence, len(choosing), len(others))
    sign = 1 if higher_is_better(measure) else -1

    def ranked(half: pd.DataFrame) -> list[str]:  # ties by name
        means = {str(name): round(sign * float(mean), 12) for name, mean in half.mean().items()}
        return sorted(means, key=lambda name: (-means[name], name))

    chosen, runner_up = ranked(choosing)[:2]
    reverse = ranked(others)[0]
    tidy = {
        name: pd.DataFrame({"query_id": others.index, "measure": measure, "value": others[name].to_numpy()})
        for name in (chosen, runner_up)
    }
    own = summarise(tidy[chosen], n_resamples=n_resamples, alpha=alpha, seed=seed).iloc[0]
    pair = compare(tidy[runner_up], tidy[chosen], n_resamples=n_resamples, alpha=alpha, seed=seed).iloc[0]
    there, here = float(choosing[chosen].mean()), float(others[chosen].mean())
    optimism = sign * (there - here + float(others[reverse].mean()) - float(choosing[reverse].mean())) / 2
    same = reverse == chosen
    sentence = (
        f"Chosen on {len(choosing)} queries and measured on the {len(others)} others, {chosen} has a mean {measure} of "
        f"{here:.3f} [{own['ci_low']:.3f}, {own['ci_high']:.3f}] ({there:.3f} where it was chosen); against the "
        f"runner-up {runner_up} {pair['difference']:+.3f} [{pair['ci_low']:+.3f}, {pair['ci_high']:+.3f}], "
        f"p {p_text(pair['p_value'], '= ')}. "
    ) + (
        "The other half chooses the same configuration."
        if same
        else f"The other half would have chosen {reverse}: these queries do not settle which is best."
    )
    return HeldOut(
        sentence,
        len(choosing),
        len(others),
        chosen=chosen,
        runner_up=runner_up,
        mean_choosing=there,
        mean=here,
        ci_low=float(own["ci_low"]),
        ci_high=float(own["ci_high"]),
        difference=float(pair["difference"]),
        difference_low=float(pair["ci_low"]),
        difference_high=float(pair["ci_high"]),
        p_value=float(pair["p_value"]),
        optimism=optimism,
        same_choice=same,
    )
