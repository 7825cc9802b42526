"""Tests of a difference, and how often each is wrong: level and power on generated and real scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.errors import DataError
from ragbench.statistics import compare
from ragbench.statistics.thresholds import ALPHA

SIZES = (20, 50)
"""Numbers of questions."""

N_GENERATED = 200
"""Experiments with each generator and number of questions."""

N_REAL = 60
"""Experiments with each collection and number of questions."""

GENERATORS: dict[str, float] = {
    "symmetric": 0.0,
    "skewed gains": 0.0,
    "rare losses": 0.0,
    "rarer, larger losses": 0.0,
    "reciprocal ranks": 0.0,
    "right or wrong": 0.0,
    "symmetric gain": 0.08,
    "right or wrong, gain": 0.2,
    "hidden loss": -0.012,
}
"""Generator -> its true mean difference; `draw_differences` states each."""

# Pairs of real systems that differ by at least this have a true difference. The questions of other
# pairs are weighted so that there is none (`tilted_weights`).
_NEAR = 0.05


class Experiment(NamedTuple):
    """The scores of two systems on n questions that were drawn from a population with a known mean
    difference, `truth`.
    """

    scenario: str
    truth: float
    before: Floats
    after: Floats


def draw_differences(generator: str, n: int, rng: np.random.Generator) -> Floats:
    """Draw the differences between the scores of two systems on n questions; a score is from 0 to 1.

    The name of the generator says how they are distributed; `GENERATORS` has their true means.

    >>> draw_differences("hidden loss", 4, np.random.default_rng(0))
    array([ 0.04,  0.04, -1.  , -1.  ])
    """
    match generator:
        case "symmetric":
            return rng.normal(0, 0.2, n).clip(-1, 1)
        case "symmetric gain":
            return rng.normal(0.08, 0.2, n).clip(-1, 1)
        case "skewed gains":
            return rng.exponential(0.1, n).clip(0, 1) - 0.1
        case "rare losses":
            return np.where(rng.random(n) < 1 / 11, -0.5, 0.05)
        case "rarer, larger losses":
            return np.where(rng.random(n) < 0.05, -0.95, 0.05)
        case "hidden loss":
            return np.where(rng.random(n) < 0.05, -1.0, 0.04)
        case "reciprocal ranks":
            return rng.choice([1 / 6, 0.0, -1.0], p=[0.3, 0.65, 0.05], size=n)
        case "right or wrong":
            return rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=n)
        case "right or wrong, gain":
            return rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.6, 0.3], size=n)
    raise ValueError(f"{generator!r} is not a generator; expected one of {', '.join(GENERATORS)}")


def tilted_weights(differences: Floats) -> Floats | None:
    """Compute weights of questions with which neither system is better: the weighted mean difference
    is 0, and the weights are as near to equal as that allows.

    The method is exponential tilting (Efron 1981): a weight is proportional to exp(tilt * difference).

    Returns:
        Weights that sum to 1; None where one of the systems wins no question.

    >>> tilted_weights(np.array([0.2, 0.0, -0.1])).round(3)
    array([0.218, 0.346, 0.436])
    """
    from scipy.optimize import brentq

    if differences.min() >= 0 or differences.max() <= 0:
        return None

    def weights(tilt: float) -> Floats:
        """Return weights that sum to 1, greater for larger differences if `tilt` is above 0."""
        exponents = tilt * differences
        unscaled = np.exp(exponents - exponents.max())  # the largest is 1, so none overflows
        scaled: Floats = unscaled / unscaled.sum()
        return scaled

    def weighted_mean(tilt: float) -> float:
        return float(weights(tilt) @ differences)

    return weights(brentq(weighted_mean, -1e4, 1e4, xtol=1e-12))


def experiments(
    matrices: Mapping[str, pd.DataFrame], n: int, *, seed: int = 0
) -> Iterator[Experiment]:
    """Draw experiments: scores of two systems on n questions each, of which the true mean difference is
    known. The scores are generated (`GENERATORS`), then drawn from the scores of real collections.

    Args:
        matrices: as of `load_score_matrices`: collection -> scores, configurations across.
        n: number of questions.
        seed: random seed.
    """
    for number, (generator, truth) in enumerate(GENERATORS.items()):
        rng = np.random.default_rng([seed, n, number])
        for _ in range(N_GENERATED):
            differences = draw_differences(generator, n, rng)
            # Scores with these differences: one of the two is 0.
            before = np.maximum(-differences, 0)
            after = np.maximum(differences, 0)
            yield Experiment(generator, truth, before, after)
    for number, (name, matrix) in enumerate(matrices.items(), len(GENERATORS)):
        rng = np.random.default_rng([seed, n, number])
        yield from _real_experiments(name, matrix.to_numpy(), n, rng)


def _real_experiments(
    name: str, scores: Floats, n: int, rng: np.random.Generator
) -> Iterator[Experiment]:
    """Draw experiments from the scores of one collection: `N_REAL` with a true difference, and as many
    without.

    An experiment is two random configurations on n questions, drawn with replacement. If their means
    over the whole collection differ by at least `_NEAR`, this is the true difference. Otherwise the
    questions are drawn with `tilted_weights`, which make the true difference 0; a pair without such
    weights is left out.

    Args:
        name: of the collection, for the names of both scenarios.
        scores: questions down, configurations across.
        n: number of questions.
        rng: draws both.
    """
    with_difference = f"{name}, difference"
    without_difference = f"{name}, no difference"
    n_missing = {without_difference: N_REAL, with_difference: N_REAL}
    while any(n_missing.values()):
        first, second = rng.choice(scores.shape[1], 2, replace=False)
        differences = scores[:, second] - scores[:, first]
        mean = float(differences.mean())
        if abs(mean) >= _NEAR:
            scenario, truth, weights = with_difference, mean, None  # all questions weigh the same
        else:
            scenario, truth, weights = without_difference, 0.0, tilted_weights(differences)
            if weights is None:
                continue
        questions = rng.choice(len(scores), n, p=weights)  # with replacement
        is_needed = n_missing[scenario] > 0  # False: only the other scenario lacks experiments
        if is_needed:
            n_missing[scenario] -= 1
            yield Experiment(scenario, truth, scores[questions, first], scores[questions, second])


TESTS = {
    "MLflow 3.18, p": "mlflow_p",
    "MLflow 3.18, BCa interval": "mlflow_interval",
    "TruLens 2.16, sign-flip": "trulens_p",
    "TruLens 2.16, bootstrap": "trulens_interval",
    "Student's t": "student",
    "ragbench, safe tier": "safe",
    "ragbench, both tiers": "both",
}
"""Name of a test -> its column in `call_tests`."""

_AT_ONCE = 100  # experiments that one call of `compare` takes, each as a measure


def call_tests(drawn: list[Experiment], other_tools: pd.DataFrame) -> pd.DataFrame:
    """Let every statistical test decide each experiment: is the second system better, worse, or neither?

    Args:
        drawn: as of `experiments`, all with the same number of questions.
        other_tools: the results of MLflow's and TruLens's tests on the same experiments, in this
            order: a row of `notebooks/other_tests.parquet` each.

    Returns:
        A row for each experiment: scenario, truth, n, and for each test of `TESTS` 1 if it calls
            the second system better, -1 if it calls it worse, 0 if it decides nothing.

    Raises:
        DataError: `other_tools` is about other experiments.
    """
    before = np.array([experiment.before for experiment in drawn])  # experiments down
    after = np.array([experiment.after for experiment in drawn])
    differences = after - before
    means = differences.mean(axis=1)
    _check_same_experiments(other_tools, means)
    signs = np.sign(means).astype(int)

    def call_where(is_significant: Any) -> Any:
        """Return the direction of each difference where it is significant, else 0."""
        return np.where(is_significant, signs, 0)

    calls = {}
    for tool in ("mlflow", "trulens"):
        p_values = other_tools[f"{tool}_p"].to_numpy()
        calls[f"{tool}_p"] = call_where(p_values < ALPHA)
        low, high = other_tools[f"{tool}_low"].to_numpy(), other_tools[f"{tool}_high"].to_numpy()
        calls[f"{tool}_interval"] = _sides_of_zero(low, high)  # 0 for an interval with 0 in it
    calls["student"] = call_where(_p_of_student(differences) < ALPHA)
    p_safe, p_likely = _p_of_compare(before, after)
    calls["safe"] = call_where(p_safe < ALPHA)
    # "both tiers": a decision of either tier counts
    calls["both"] = call_where((p_safe < ALPHA) | (p_likely < ALPHA))
    return pd.DataFrame(
        {
            "scenario": [experiment.scenario for experiment in drawn],
            "truth": [experiment.truth for experiment in drawn],
            "n": differences.shape[1],
            **calls,
        }
    )


def _check_same_experiments(other_tools: pd.DataFrame, means: Floats) -> None:
    """Raise DataError unless the rows of other tools have these mean differences."""
    if len(other_tools) != len(means) or not np.allclose(other_tools["difference"], means):
        raise DataError(
            "the p-values of MLflow and TruLens belong to other experiments; make them again by "
            "`python -m tests.fitting.tests_of_other_tools`"
        )


def _sides_of_zero(low: Floats, high: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return 1 for intervals above 0, -1 for intervals below, 0 for the others."""
    return np.where(low > 0, 1, np.where(high < 0, -1, 0))


def _p_of_student(differences: Floats) -> Floats:
    """Return p of Student's t in each experiment (row); 1 where all differences are 0."""
    from scipy.stats import ttest_1samp

    with warnings.catch_warnings():  # equal differences have a p of 0, or no p if they are 0
        warnings.simplefilter("ignore", RuntimeWarning)
        p_values = ttest_1samp(differences, 0, axis=1).pvalue
    filled: Floats = np.nan_to_num(np.asarray(p_values, dtype=float), nan=1.0)
    return filled


def _p_of_compare(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the two p-values that `rb.statistics.compare` has for each experiment (row); 1 where it has
    none.

    The first ("safe") holds for every distribution of the scores; the second ("likely") is Student's,
    which finds more differences. Single calls are slow, so many experiments (`_AT_ONCE`) are passed in
    one call, each as if it were a measure.
    """
    tables = []
    for start in range(0, len(before), _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        tables.append(compare(_as_measures(before[block]), _as_measures(after[block])))
    compared = pd.concat(tables)
    p_safe = np.array(compared["p_value"].astype(float).fillna(1.0), dtype=np.float64)
    p_likely = np.array(compared["p_likely"].astype(float).fillna(1.0), dtype=np.float64)
    return p_safe, p_likely


def _as_measures(scores: Floats) -> pd.DataFrame:
    """Return scores of experiments (rows) on questions (columns) as a table for `compare`: a row per
    score, with a made-up measure for each experiment.
    """
    n_experiments, n_questions = scores.shape
    # names that `compare` knows as measures from 0 to 1
    measures = [f"span_recall@{number}tok" for number in range(1, n_experiments + 1)]
    return pd.DataFrame(
        {
            "query_id": np.tile(np.arange(n_questions), n_experiments),
            "measure": np.repeat(measures, n_questions),
            "value": scores.ravel(),
        }
    )


def compute_error_rates(decisions: pd.DataFrame) -> pd.DataFrame:
    """Compute how often each statistical test is right and wrong, by scenario and number of questions.

    The experiments with real scores make two scenarios over all collections: without and with a true
    difference.

    Args:
        decisions: as `decide_all` returns them.

    Returns:
        Columns scenario, has_difference, n, test, experiments; `called`: the fraction of
        experiments with a difference called in either direction, which is the level of the test if
        there is no difference; `right` and `wrong`: called in the direction of the true difference,
        and in the other (NaN if there is none).
    """
    table = decisions.copy()
    is_real = ~table["scenario"].isin(list(GENERATORS))
    has_difference = table["truth"] != 0
    table.loc[is_real & has_difference, "scenario"] = "real scores, difference"
    table.loc[is_real & ~has_difference, "scenario"] = "real scores, no difference"
    rows = []
    for (scenario, n), group in table.groupby(["scenario", "n"], sort=False):
        for test, column in TESTS.items():
            rates = _rates(calls=group[column], truths=group["truth"])
            rows.append({"scenario": scenario, "n": n, "test": test, **rates})
    columns = "scenario has_difference n test experiments called right wrong".split()
    return pd.DataFrame(rows, columns=columns)


def _rates(calls: pd.Series, truths: pd.Series) -> dict[str, Any]:
    """Compute how often one test is right and wrong on the experiments of one scenario. These all
    have a true difference, or all have none.

    Args:
        calls: 1, -1 or 0, as from `call_tests`.
        truths: true mean differences.
    """
    has_difference = bool(truths.iloc[0] != 0)  # of the first experiment, and so of all
    direction = np.sign(truths)
    return {
        "has_difference": has_difference,
        "experiments": len(calls),
        "called": (calls != 0).mean(),
        "right": (calls == direction).mean() if has_difference else math.nan,
        "wrong": (calls == -direction).mean() if has_difference else math.nan,
    }


def decide_all(
    matrices: Mapping[str, pd.DataFrame], other_tools: pd.DataFrame, *, seed: int = 0
) -> pd.DataFrame:
    """Let every statistical test decide the experiments, for each number of questions (`SIZES`).

    Args:
        matrices: as of `load_score_matrices`.
        other_tools: `notebooks/other_tests.parquet`, the results of MLflow's and TruLens's tests.
        seed: of the experiments; the results of other tools belong to 0.

    Returns:
        The tables of `call_tests`, one below the other.
    """
    tables = []
    for n in SIZES:
        drawn = list(experiments(matrices, n, seed=seed))
        tables.append(call_tests(drawn, other_tools[other_tools["n"] == n]))
    return pd.concat(tables, ignore_index=True)


def error_rates_findings(rates: pd.DataFrame) -> list[str]:
    """Write the findings on the error rates, a sentence for each statistical test in `TESTS`.

    A sentence has three parts:

    - how often the test at most calls a difference where there is none: the worst generated scenario,
      and the worst rate on real scores;
    - how many of the true differences on real scores it finds, for each number of questions;
    - how often at most it calls the worse system better, in the scenario "hidden loss".

    Args:
        rates: as `compute_error_rates` returns them: a row for each scenario, number of questions and
            test, with the fractions `called`, `right` and `wrong`.
    """
    lines = []
    for test in TESTS:
        rows = rates[rates["test"] == test]
        is_real = rows["scenario"].str.startswith("real")
        has_difference = rows["has_difference"]
        generated = rows[~has_difference & ~is_real]
        worst_generated = generated.sort_values("called", ascending=False, kind="stable").iloc[0]
        worst_real_rate = rows[~has_difference & is_real]["called"].max()
        power_by_n = rows[has_difference & is_real].set_index("n")["right"]
        powers = ", ".join(f"{power_by_n[n]:.0%}" for n in SIZES)
        wrong_rate = rows[rows["scenario"] == "hidden loss"]["wrong"].max()
        lines.append(
            f"{test}: where nothing differs it calls a difference in up to "
            f"{worst_generated['called']:.0%} ({worst_generated['scenario']}, "
            f"{worst_generated['n']} questions), on real scores in up to {worst_real_rate:.0%}; of "
            f"real differences it finds {powers} (n = {', '.join(map(str, SIZES))}); it names the "
            f"worse system the winner in up to {wrong_rate:.0%} where 5 % of the questions hide "
            "the loss."
        )
    return lines
