"""The gain of the best of several configurations: as promised by the questions that chose it, and on others."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

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

    A score is the sum of the configuration's true mean (deviation .03), an effect of the question on
    all configurations, an effect of the question on one of three families of configurations, and,
    in a fifth of the scores, a further deviation of .4.

    >>> model_matrix(3).shape
    (2000, 3)
    """
    rng = np.random.default_rng(seed)
    shape = (_MODEL_QUESTIONS, n_arms)
    true_means = rng.normal(0, 0.03, n_arms)
    family_of_arm = rng.integers(0, 3, n_arms)
    question_effects = rng.normal(0, 0.15, (_MODEL_QUESTIONS, 1))
    family_effects = rng.normal(0, 0.15, (_MODEL_QUESTIONS, 3))
    deviates_further = rng.random(shape) < 0.2
    further = np.where(deviates_further, rng.normal(0, 0.4, shape), 0.0)
    scores = true_means + question_effects + family_effects[:, family_of_arm] + further
    return pd.DataFrame(scores, columns=[f"arm{number}" for number in range(n_arms)])


class Choice(NamedTuple):
    """The mean gain of a chosen configuration over the baseline.

    Attributes:
        promised: on the questions that chose it.
        shrunken: the gain to expect (`expected_gain`), which is lower: the best is partly lucky.
        real: on all other questions.
    """

    promised: float
    shrunken: float
    real: float


def choose_the_best(
    matrices: Mapping[str, pd.DataFrame], *, draws: int, seed: int = 0
) -> pd.DataFrame:
    """Simulate how much of the gain of the best of several configurations is chance: choose the best on
    some questions, and measure its gain over the baseline on all others.

    The numbers of configurations are `ARMS`, the numbers of questions that choose `QUESTIONS`. A
    collection that has too few configurations, or less than twice as many questions, is left out.

    Args:
        matrices: name of the collection -> scores, questions down, configurations across.
        draws: of each number of configurations and questions.
        seed: random seed.

    Returns:
        A row for each draw in which a configuration was better than the baseline, which is the first
        configuration drawn: collection, arms, questions (both are numbers), and three mean gains over
        the baseline: `promised` (on the choosing questions), `shrunken` (the promised gain without the
        luck of the best of many) and `real` (on all other questions).
    """
    rows = []
    for number, (name, matrix) in enumerate(matrices.items()):
        scores = matrix.to_numpy(dtype=float)
        n_all_questions, n_all_arms = scores.shape
        for n_arms, n_questions in itertools.product(ARMS, QUESTIONS):
            if n_arms > n_all_arms or n_questions > n_all_questions / 2:
                continue
            # a seed for each case, so that leaving one out does not change the others
            rng = np.random.default_rng([seed, number, n_arms, n_questions])
            for _ in range(draws):
                choice = _choose_once(scores, n_arms, n_questions, rng)
                if choice is not None:  # None: no configuration was better than the baseline
                    rows.append((name, n_arms, n_questions, *choice))
    columns = ["collection", "arms", "questions", "promised", "shrunken", "real"]
    return pd.DataFrame(rows, columns=columns)


def _choose_once(
    scores: Floats, n_arms: int, n_questions: int, rng: np.random.Generator
) -> Choice | None:
    """Choose the best of some random configurations by its mean gain on some random questions. The gain
    is over a baseline, which is the first configuration that is drawn.

    Args:
        scores: questions down, configurations across.
        n_arms: configurations to draw.
        n_questions: questions to draw; the gain on all others is the real one.
        rng: draws both.

    Returns:
        The gains of the best configuration: promised (on the choosing questions), shrunken (the
        promised gain without the luck of the best of many) and real (on the other questions); None if
        no configuration is better than the baseline.
    """
    arms = rng.choice(scores.shape[1], n_arms, replace=False)
    questions = rng.permutation(len(scores))  # the first ones choose, the others measure
    baseline, contenders = scores[:, arms[:1]], scores[:, arms[1:]]
    gains = contenders - baseline
    choosing_gains = gains[questions[:n_questions]]
    other_gains = gains[questions[n_questions:]]
    # finds the row with the greatest mean, and how much of this gain to expect on new questions
    best = expected_gain(pd.DataFrame(choosing_gains.T))
    if best.observed <= 0:
        return None
    column_of_best = int(best.name)
    return Choice(best.observed, best.expected, float(other_gains[:, column_of_best].mean()))


def promises(choices: pd.DataFrame) -> pd.DataFrame:
    """Average the gains of chosen configurations. Averages are by collection, by the number of
    configurations to choose from, and by the number of questions that choose.

    Args:
        choices: as `choose_the_best` returns them.

    Returns:
        Columns collection, arms, questions, choices (their number), and the mean gains promised,
        shrunken and real; `kept`: the fraction of the promised gain that is real; `no_gain`: the
        fraction of choices that are no better than the baseline on the other questions.
    """
    is_no_gain = choices["real"] <= 0  # on the questions that did not choose
    groups = choices.assign(no_gain=is_no_gain).groupby(
        ["collection", "arms", "questions"], sort=False
    )
    table = groups[["promised", "shrunken", "real"]].mean()
    table.insert(0, "choices", groups.size())
    table["kept"] = table["real"] / table["promised"]
    table["no_gain"] = groups["no_gain"].mean()
    return table.reset_index()


def promises_findings(table: pd.DataFrame) -> list[str]:
    """Write the findings of `promises`, two sentences for each number of questions.

    Args:
        table: a row for each collection, number of configurations ("arms") and number of questions,
            with the gain promised on these questions, the shrunken one, and the real one on others.
    """
    lines = []
    for n_questions, rows in table.groupby("questions"):
        most_arms, fewest_arms = rows["arms"].max(), rows["arms"].min()
        bias = (rows["promised"] - rows["real"]).mean()
        bias_of_shrunken = (rows["shrunken"] - rows["real"]).mean()
        lines.append(
            f"Chosen on {n_questions} questions, the best of {most_arms} configurations "
            f"{_promised_and_kept(rows, most_arms)}; the better of {fewest_arms} "
            f"{_promised_and_kept(rows, fewest_arms)}. Over all numbers of configurations the promise "
            f"is too large by {bias:+.3f}, the shrunken one by {bias_of_shrunken:+.3f}."
        )
    return lines


def _promised_and_kept(rows: pd.DataFrame, n_arms: int) -> str:
    """Write the mean promised and the mean real gain of the best of `n_arms` configurations, over
    the rows of `promises` with that number: "promises +0.050 and keeps +0.030".
    """
    means = rows[rows["arms"] == n_arms][["promised", "real"]].mean()
    return f"promises {means['promised']:+.3f} and keeps {means['real']:+.3f}"
