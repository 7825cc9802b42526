"""The gain of the best of several configurations: as promised by the questions that chose it, and on others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.statistics.shrinkage import expected_gain

ARMS = (2, 3, 5, 9, 17, 39)
"""Numbers of configurations, the baseline among them."""

QUESTIONS = (20, 40, 80)
"""Numbers of questions that choose."""

_MODEL_QUESTIONS = 2000


def model_matrix(n_arms: int, *, seed: int = 0) -> pd.DataFrame:
    """Draw scores of `n_arms` configurations on 2,000 questions from a model in which gains are small.

    True gains have a deviation of .03. Each question is easier or harder for all configurations,
    and for the configurations of one of three families; a fifth of the scores deviate further, with
    a deviation of .4.

    >>> model_matrix(3).shape
    (2000, 3)
    """
    rng = np.random.default_rng(seed)
    true = rng.normal(0, 0.03, n_arms)
    family = rng.integers(0, 3, n_arms)
    shared = rng.normal(0, 0.15, (_MODEL_QUESTIONS, 1))
    of_family = rng.normal(0, 0.15, (_MODEL_QUESTIONS, 3))[:, family]
    shape = (_MODEL_QUESTIONS, n_arms)
    own = np.where(rng.random(shape) < 0.2, rng.normal(0, 0.4, shape), 0.0)
    names = [f"arm{number}" for number in range(n_arms)]
    return pd.DataFrame(true + shared + of_family + own, columns=names)


def choose_the_best(
    matrices: Mapping[str, pd.DataFrame], *, draws: int, seed: int = 0
) -> pd.DataFrame:
    """Choose the best of several configurations again and again, and measure it on other questions.

    A draw takes `ARMS` configurations at random, the first of which is the baseline, and `QUESTIONS`
    questions at random, at most half of all. The configuration with the largest mean gain on them is
    chosen, and its gain on the remaining questions is the real one.

    Args:
        matrices: name -> scores, questions down, configurations across.
        draws: of each number of configurations and questions.
        seed: random seed.

    Returns:
        A row for each draw in which a configuration was better than the baseline: collection, arms,
        questions, promised (its gain on the questions that chose it), shrunken (`expected_gain`),
        real.
    """
    rows = []
    for number, (name, matrix) in enumerate(matrices.items()):
        scores = matrix.to_numpy(dtype=float)
        for n_arms in ARMS:
            for n_questions in QUESTIONS:
                if n_arms > scores.shape[1] or n_questions > len(scores) / 2:
                    continue
                rng = np.random.default_rng([seed, number, n_arms, n_questions])
                for choice in _choices(scores, n_arms, n_questions, draws, rng):
                    rows.append((name, n_arms, n_questions, *choice))
    columns = ["collection", "arms", "questions", "promised", "shrunken", "real"]
    return pd.DataFrame(rows, columns=columns)


def _choices(
    scores: Floats, n_arms: int, n_questions: int, draws: int, rng: np.random.Generator
) -> Iterator[tuple[float, float, float]]:
    """Yield the promised, the shrunken and the real gain of random draws: the gain of the best arm over
    the first one on `n_questions`, its `expected_gain`, and its gain on all other questions.

    Draws in which no arm gains are left out.
    """
    for _ in range(draws):
        arms = rng.choice(scores.shape[1], n_arms, replace=False)
        order = rng.permutation(len(scores))
        gains = scores[:, arms[1:]] - scores[:, arms[:1]]
        chosen_by, others = gains[order[:n_questions]], gains[order[n_questions:]]
        best = expected_gain(pd.DataFrame(chosen_by.T))
        if best.observed > 0:
            place_of_best = int(best.name)
            yield best.observed, best.expected, float(others[:, place_of_best].mean())


def promises(choices: pd.DataFrame) -> pd.DataFrame:
    """Compute means by collection, number of configurations and number of questions.

    Returns:
        Columns collection, arms, questions, choices, promised, shrunken, real; `kept`: the fraction
        of the promised gain that is real; `no_gain`: the fraction of choices that are no better than
        the baseline on the other questions.
    """
    groups = choices.groupby(["collection", "arms", "questions"], sort=False)
    table = groups[["promised", "shrunken", "real"]].mean()
    table.insert(0, "choices", groups.size())
    table["kept"] = table["real"] / table["promised"]
    table["no_gain"] = (
        (choices["real"] <= 0)
        .groupby([choices[name] for name in ("collection", "arms", "questions")], sort=False)
        .mean()
    )
    return table.reset_index()


def promises_findings(table: pd.DataFrame) -> list[str]:
    """Write the findings on the promises, a sentence for each number of questions."""
    lines = []
    for n, rows in table.groupby("questions"):
        most = rows[rows["arms"] == rows["arms"].max()]
        two = rows[rows["arms"] == rows["arms"].min()]
        bias = (rows["promised"] - rows["real"]).mean()
        left = (rows["shrunken"] - rows["real"]).mean()
        lines.append(
            f"Chosen on {n} questions, the best of {most['arms'].iloc[0]} configurations promises "
            f"{most['promised'].mean():+.3f} and keeps {most['real'].mean():+.3f}; the better of "
            f"{two['arms'].iloc[0]} promises {two['promised'].mean():+.3f} and keeps "
            f"{two['real'].mean():+.3f}. Over all numbers of configurations the promise is too large "
            f"by {bias:+.3f}, the shrunken one by {left:+.3f}."
        )
    return lines
