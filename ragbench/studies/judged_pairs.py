"""Pairs of systems whose answers people and judges have judged: the difference by a judge alone,
and its correction by labels of people.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Bools, Floats, Ints
from ragbench.statistics.trust import draw_order, estimate_difference

NUMBERS_OF_LABELS = (20, 50, 100, 150)
"""Questions that people label, where their number is fixed."""

_MODEL_SYSTEMS = 12
_MODEL_QUESTIONS = 301


def model_verdicts(rng: np.random.Generator) -> pd.DataFrame:
    """Draw verdicts on 12 systems and 301 questions from a model of a biased judge.

    Systems rise in skill, questions are of normal difficulty, and people call an answer right with the
    probability of a logistic curve. The judge gives people's verdict, with two errors: 12 % of its
    verdicts are the opposite; and it likes the style of every second system, of whose wrong answers it
    calls a further 15 % right.

    Returns:
        A row per answer: system, question, person, judge (both verdicts are True or False).
    """
    # people: an answer is right by the skill of its system and the difficulty of its question
    skill = np.linspace(-0.4, 0.9, _MODEL_SYSTEMS)[:, None]  # systems down, questions across
    difficulty = rng.normal(size=_MODEL_QUESTIONS)
    chance_of_right = 1 / (1 + np.exp(-(skill + difficulty)))
    shape = chance_of_right.shape
    person = rng.random(shape) < chance_of_right
    # the judge: errs at random, and calls some more wrong answers of the systems it likes right
    judge_errs = rng.random(shape) < 0.12
    is_liked = (np.arange(_MODEL_SYSTEMS) % 2 == 0)[:, None]
    is_flattered = is_liked & ~person & (rng.random(shape) < 0.15)
    judge = (person ^ judge_errs) | is_flattered
    answers = pd.MultiIndex.from_product(
        [range(_MODEL_SYSTEMS), range(_MODEL_QUESTIONS)], names=["system", "question"]
    )
    columns = {"person": person.ravel(), "judge": judge.ravel()}
    return pd.DataFrame(columns, index=answers).reset_index()


def pair_differences(verdicts: pd.DataFrame) -> list[pd.DataFrame]:
    """Subtract the verdicts on two systems, question by question, for all pairs of systems.

    Args:
        verdicts: a row per answer: question, system, person, and a column for each judge.

    Returns:
        A table for each pair: questions down, `person` and the judges across; the verdict on the second
        system minus the verdict on the first. Only questions that have every verdict on both.
    """
    sources = [name for name in verdicts if name not in ("question", "system")]
    # Columns: source of the verdict, then system.
    wide = verdicts.pivot(index="question", columns="system", values=sources).astype(float)
    tables = []
    for first, second in itertools.combinations(wide["person"].columns, 2):
        differences = {source: wide[source][second] - wide[source][first] for source in sources}
        tables.append(pd.DataFrame(differences).dropna())
    return tables


def compare_with_people(differences: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Count for how many pairs of systems each judge alone contradicts people's verdicts.

    Args:
        differences: of each pair, as `pair_differences` returns them.

    Returns:
        A row for each judge: `wrong winners`, pairs of which it names the other winner; `missed`, pairs
        whose difference people's 95 % interval shows and the judge's does not; `intervals that hold`,
        the fraction of pairs whose mean by people lies in the judge's 95 % interval.
    """
    # The arrays have an item for each pair.
    by_people = _mean_differences(differences, "person")
    is_shown_by_people = shown_by_people(differences)
    rows = []
    for judge in differences[0].columns.drop("person"):
        by_judge = _mean_differences(differences, judge)
        half_width = _half_widths(differences, judge)
        is_wrong_winner = by_people * by_judge < 0
        is_missed = is_shown_by_people & (np.abs(by_judge) <= half_width)
        holds_people = np.abs(by_judge - by_people) <= half_width
        rows.append((judge, is_wrong_winner.sum(), is_missed.sum(), holds_people.mean()))
    columns = ["judge", "wrong winners", "missed", "intervals that hold"]
    return pd.DataFrame(rows, columns=columns).set_index("judge")


def shown_by_people(differences: Sequence[pd.DataFrame]) -> Bools:
    """Mark the pairs whose difference people's verdicts show: the 95 % interval excludes 0."""
    by_people = _mean_differences(differences, "person")
    return np.asarray(np.abs(by_people) > _half_widths(differences, "person"))


class Estimate(NamedTuple):
    """An estimate of people's mean difference, with half of its 95 % interval."""

    value: float
    half_width: float


def _mean_differences(differences: Sequence[pd.DataFrame], source: str) -> Floats:
    """Return the mean difference of each pair by "person" or by a judge (pairs,)."""
    return np.array([table[source].mean() for table in differences])


def _half_widths(differences: Sequence[pd.DataFrame], source: str) -> Floats:
    """Return half of the 95 % interval of each pair's mean difference by one source (pairs,)."""
    errors = [table[source].std() / np.sqrt(len(table)) for table in differences]
    return 1.96 * np.array(errors)


def label_curves(
    differences: Sequence[pd.DataFrame], judge: str, *, draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Simulate that people label only some questions of two systems, and estimate from these labels the
    difference that people find over all questions: from the labels alone, and with a judge's verdicts.

    Each draw takes a pair of systems, and n of its questions to be labelled, at random.

    Args:
        differences: of each pair, as `pair_differences` returns them.
        judge: the column that corrects.
        draws: for each of `NUMBERS_OF_LABELS`.
        rng: what draws pairs and questions.

    Returns:
        A row per number of labels and interval ("labels alone" or "corrected"): labels, interval, holds
        (fraction of 95 % intervals that hold people's difference over all questions), width, wrong sign
        (fraction).
    """
    rows = []
    for n_labels in NUMBERS_OF_LABELS:
        for _ in range(draws):
            pair = differences[int(rng.integers(len(differences)))]
            labelled = rng.permutation(len(pair))[:n_labels]
            by_people = pair["person"].mean()
            estimates = {
                "labels alone": _estimate_by_labels(pair, labelled),
                "corrected": _estimate_corrected(pair, judge, labelled),
            }
            for interval, (value, half_width) in estimates.items():
                holds = abs(value - by_people) <= half_width
                has_wrong_sign = value * by_people < 0
                rows.append((n_labels, interval, holds, 2 * half_width, has_wrong_sign))
    columns = ["labels", "interval", "holds", "width", "wrong sign"]
    curves = pd.DataFrame(rows, columns=columns)
    return curves.groupby(["labels", "interval"], sort=False).mean().reset_index()


def _estimate_by_labels(pair: pd.DataFrame, labelled: Ints) -> Estimate:
    """Estimate people's mean by the labels of the questions at these positions."""
    labels = pair["person"].to_numpy()[labelled]
    return Estimate(labels.mean(), _half_width_of_sample(labels, len(pair)))


def _estimate_corrected(pair: pd.DataFrame, judge: str, labelled: Ints) -> Estimate:
    """Estimate people's mean by prediction-powered inference (Angelopoulos et al. 2023): the judge's
    weighted mean over all questions, plus the mean of its errors on the labelled questions.

    The judge's mean is known exactly, as it judges all questions. So the interval depends only on the
    errors, which are known for the labelled questions alone.

    Args:
        pair: questions down; the differences by "person" and by the judge across.
        judge: the column of the judge.
        labelled: the positions of the questions that people label (labels,).
    """
    by_judge = pair[judge].to_numpy()
    by_judge_where_labelled = by_judge[labelled]
    labels = pair["person"].to_numpy()[labelled]
    weight = _weight_of_judge(by_judge_where_labelled, labels)
    errors = labels - weight * by_judge_where_labelled
    value = weight * by_judge.mean() + errors.mean()
    return Estimate(value, _half_width_of_sample(errors, len(pair)))


def _weight_of_judge(by_judge: Floats, labels: Floats) -> float:
    """Return how much a judge counts, from 0 (its values tell nothing about the labels) to 1: the slope of
    the line that predicts people's labels from the judge's values (both: labels,), kept in this range.
    """
    covariances = np.cov(by_judge, labels)
    variance_of_judge = covariances[0, 0]
    if not variance_of_judge > 0:  # all values are the same
        return 0.0
    slope = covariances[0, 1] / variance_of_judge
    return float(min(max(slope, 0.0), 1.0))


def _half_width_of_sample(values: Floats, n_all: int) -> float:
    """Compute half of a 95 % interval of the mean over n_all questions, from `values` of a sample of them.

    1.2 / n approximates the greater quantile of Student's t. The variance is multiplied by the fraction of
    questions outside of the sample (the correction for a finite population), as the mean of all
    questions has no error.
    """
    n = len(values)
    fraction_left = 1 - n / n_all
    standard_error = np.sqrt(fraction_left * values.var(ddof=1) / n)
    return float(1.96 * (1 + 1.2 / n) * standard_error)


class LabelledUntilDecided(NamedTuple):
    """The result of labelling the questions of a pair until the estimate decided.

    Attributes:
        n_labels: the number of labels that decided; all questions if none did.
        holds: True if the interval then holds the difference over all questions.
        is_wrong: True if the decision is for the wrong system.
    """

    n_labels: int
    holds: bool
    is_wrong: bool


def label_until_decided(
    differences: Sequence[pd.DataFrame], judge: str, *, orders: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Simulate that people label questions one after another until `rb.trust` decides which of two
    systems is better; for each pair of systems, with and without a judge.

    Args:
        differences: the differences of each pair, as from `pair_differences`.
        judge: the column with the verdicts of the judge.
        orders: how often each pair is labelled, each time in another order.
        rng: draws the orders without the judge. With the judge, `draw_order` draws them, by the number
            of the order as the seed.

    Returns:
        A row "corrected" (with the judge) and a row "labels alone". Columns are means over pairs and
        orders: labels (the number of labels that decided; all questions if none did), holds (the
        fraction of intervals that hold people's difference over all questions), wrong sign (the
        fraction of decisions for the wrong system).
    """
    rows = []
    for pair, number in itertools.product(differences, range(orders)):
        table = pair.set_axis(pair.index.astype(str))
        random_order = [str(question) for question in rng.permutation(table.index)]
        # strata (questions with the same verdict of the judge) take turns in the order; `rb.trust`
        # needs this if a judge helps
        order_for_judge = draw_order(table[[judge]], seed=number)
        rows.append(("labels alone", *_label_in_order(table, [], random_order)))
        rows.append(("corrected", *_label_in_order(table, [judge], order_for_judge)))
    columns = ["interval", "labels", "holds", "wrong sign"]
    return pd.DataFrame(rows, columns=columns).groupby("interval").mean()


def _label_in_order(
    table: pd.DataFrame, judges: list[str], order: Sequence[str]
) -> LabelledUntilDecided:
    """Simulate labelling: people label the questions of two systems in an order, until the estimate
    of the difference decides which one is better.

    Args:
        table: the differences of the pair: questions down, `person` and the judges across.
        judges: the columns that help; none for labels alone.
        order: the questions.

    Returns:
        The result. If no number of labels below all decides, it is the result with all labels: the
        difference is then known, and its interval has no width.
    """
    proxies = table[judges]
    labels = table["person"]
    difference = labels.mean()
    # How many labels decide? One question stays unlabelled here, because with all labels there is
    # nothing to estimate.
    estimate = estimate_difference(proxies, labels.loc[list(order[:-1])])
    n_labels = estimate.decided_after or len(table)  # `decided_after` is None if none decide
    # the interval with just these labels, as the user who stops there sees it
    at_decision = estimate_difference(proxies, labels.loc[list(order[:n_labels])])
    low, high = at_decision.ci_low, at_decision.ci_high
    holds = low is not None and high is not None and low - 1e-9 <= difference <= high + 1e-9
    wrong_decision = "worse" if difference > 0 else "better"  # of the second system
    return LabelledUntilDecided(n_labels, holds, at_decision.decision == wrong_decision)


def labels_saved(stops: pd.DataFrame) -> float:
    """Return the fraction of labels that the judge saves when labelling goes on until a decision."""
    labels = stops["labels"]
    return float(1 - labels["corrected"] / labels["labels alone"])


def judge_findings(
    differences: Sequence[pd.DataFrame],
    alone: pd.DataFrame,
    curves: pd.DataFrame,
    stops: pd.DataFrame,
) -> list[str]:
    """Write the findings on a judge, in three paragraphs: the judge alone, labels until a decision, and
    a fixed number of labels.

    Args:
        differences: of each pair, as `pair_differences` returns them.
        alone: as `compare_with_people` returns it; the findings are on the judge of its first row.
        curves: as `label_curves` returns it.
        stops: as `label_until_decided` returns it.
    """
    judge = alone.index[0]
    # pairs of systems whose difference people's verdicts show
    n_shown_by_people = shown_by_people(differences).sum()
    return [
        _finding_alone(alone, len(differences), n_shown_by_people),
        _finding_until_decided(judge, stops),
        _finding_at_fixed_number(curves),
    ]


def _finding_alone(alone: pd.DataFrame, n_pairs: int, n_shown_by_people: int) -> str:
    """Write how often a judge without labels agrees with people's verdicts.

    Args:
        alone: a table of `compare_with_people`; its first row is the judge, the others are only named
            with their wrong winners.
        n_pairs: the number of pairs of systems.
        n_shown_by_people: the number of pairs whose difference people's verdicts show.
    """
    judge = alone.index[0]
    row = alone.iloc[0]
    others = "".join(
        f"; {name} in {wrong:.0f}" for name, wrong in alone["wrong winners"].iloc[1:].items()
    )
    return (
        f"{judge} alone names the wrong winner in {row['wrong winners']:.0f} of {n_pairs} pairs"
        f"{others}. It misses {row['missed']:.0f} of {n_shown_by_people} differences that "
        f"people show; its naive 95 % interval holds people's difference in "
        f"{row['intervals that hold']:.0%}."
    )


def _finding_until_decided(judge: str, stops: pd.DataFrame) -> str:
    """Write how many labels of people a judge saves if people label questions until it is decided
    which of two systems is better.

    Args:
        judge: its name.
        stops: from `label_until_decided`: a row "corrected" (people's labels and the judge's
            verdicts) and a row "labels alone" with the mean number of `labels` at the decision,
            `holds` (the fraction of intervals that hold people's difference) and `wrong sign` (the
            fraction of decisions for the wrong system).
    """
    corrected, alone = stops.loc["corrected"], stops.loc["labels alone"]
    return (
        f"Labelled until it is decided, as `rb.trust` does it: {corrected['labels']:.0f} labels with "
        f"{judge}, {alone['labels']:.0f} without, so it saves "
        f"{labels_saved(stops):.0%} of the labels. The interval then holds people's difference in "
        f"{corrected['holds']:.1%}, and {corrected['wrong sign']:.1%} of the decisions are wrong."
    )


def _finding_at_fixed_number(curves: pd.DataFrame) -> str:
    """Write how good intervals are at a fixed number of labels: how many of them hold (contain) people's
    difference over all questions, and how many labels the judge saves at the same width.

    `curves` is a table of `label_curves`.
    """
    widths = curves.pivot(index="labels", columns="interval", values="width")
    # Widths fall with the root of the number of labels, so the square of their ratio is the ratio of
    # the numbers of labels.
    saved = 1 - (widths["corrected"] / widths["labels alone"]) ** 2
    holds = curves[curves["labels"] == 100].set_index("interval")["holds"]
    return (
        f"With 100 labelled questions labels alone hold it in {holds['labels alone']:.1%}, the corrected "
        f"interval in {holds['corrected']:.1%}; at a fixed number it saves {saved.min():.0%} to "
        f"{saved.max():.0%} of the labels."
    )
