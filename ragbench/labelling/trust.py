"""`trust`: is A better than B by people's verdicts, and how many more labels would tell?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.evaluation import Result
from ragbench.labelling.arms import Arms, arms_of
from ragbench.labelling.sheet import load_labels
from ragbench.statistics.columns import Floats, deviation, mean
from ragbench.statistics.sequential import FIRST_LOOK, Look, control_variates, decision_of, sequence

_VERDICTS = ["question", "system", "judge", "person"]


@dataclass(frozen=True)
class Trust:
    """What people's labels show of A - B, and what the judge alone would.

    `difference` and its limits `low` and `high`, which hold at any time of stopping, are of
    people's verdicts over all `n_questions`; None without enough labels. `decision` is "better"
    (A is), "worse", "within the margin" or "undecided"; `n_labelled` counts the questions in it,
    `n_pending` those of a batch that is not complete and so does not count yet, `n_needed` how many
    more are expected to be needed for a decision. `judge_difference`, `judge_low` and `judge_high`
    are of the `judge`, over all questions: **not people's verdict**.
    """

    first: str
    second: str
    criterion: str
    margin: float
    decision: str
    difference: float | None
    low: float | None
    high: float | None
    n_labelled: int
    n_pending: int
    n_needed: int | None
    n_questions: int
    judge: str
    judge_difference: float | None
    judge_low: float | None
    judge_high: float | None

    @property
    def sentence(self) -> str:
        """Return the decision in one sentence."""
        if self.difference is None:
            return (
                f"Undecided by people's verdicts ({self.criterion}): {self.n_labelled} of "
                f"{self.n_questions} questions are labelled, and an interval needs {FIRST_LOOK}."
            )
        shown = f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        what = {
            "undecided": "is not decided against",
            "within the margin": f"is within {self.margin:g} of",
        }.get(self.decision, f"is {self.decision} than")
        more = f" About {self.n_needed} more labelled questions are expected to decide it."
        return (
            f"By people's verdicts ({self.criterion}) on {self.n_labelled} of {self.n_questions} "
            f"questions, {self.first} {what} {self.second}: {shown}, valid whenever you stop."
            f"{more if self.decision == 'undecided' else ''}"
        )

    @property
    def judge_sentence(self) -> str:
        """Return what the judge alone shows, and whether it agrees with people's labels."""
        if self.judge_difference is None or self.judge_low is None or self.judge_high is None:
            return "There is no judge or heuristic with scores of both."
        shown = f"{self.judge_difference:+.3f} [{self.judge_low:+.3f}, {self.judge_high:+.3f}]"
        alone = decision_of(self.judge_low, self.judge_high, self.margin)
        verdict = "whether it can decide this comparison is open"
        if self.decision != "undecided":
            agrees = alone == self.decision
            verdict = (
                f"it {'decides' if agrees else 'does not decide'} this comparison as people do"
            )
        return f"{self.judge} alone: {alone}, {shown}, which is not people's verdict; {verdict}."

    def __str__(self) -> str:
        pending = f"{self.n_pending} questions of an incomplete batch do not count yet."
        lines = [self.sentence, *[pending] * (self.n_pending > 0), self.judge_sentence]
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        first, *rest = str(self).splitlines()
        return "\n".join([f"**{first}**\n", *(f"- {line}" for line in rest)])


def trust(
    results: Mapping[str, Any] | Sequence[Result] | pd.DataFrame,
    labels: pd.DataFrame | str | Path | Sequence[str | Path] | None = None,
    *,
    criterion: str = "correctness",
    arms: Sequence[str] = (),
    judges: Sequence[str] = (),
    margin: float = 0.02,
    alpha: float = 0.05,
) -> Trust:
    """Estimate the difference A - B of people's verdicts from labels of some questions and the
    judge's values of all, with an interval that holds at any time of stopping.

    Label in batches, look after each, and stop when it is decided or when you like: how is in
    `ragbench.statistics.sequential`. Labels are drawn by `ragbench label` or
    `rb.labelling.extend_sheet`; those that people chose themselves are no random sample, and prove
    nothing. The judge makes the interval narrower as far as it follows people, and cannot bias it.

    Args:
        results: two results, or {name: judgements or table of scores}; or verdicts as a table with
            the columns question, system, judge and person (NaN where unlabelled).
        labels: label sheets; or a table with query_id, configuration, value (NaN while pending) and
            optionally criterion and batch; None where there are no labels yet.
        criterion: what people judged; or a measure of ranking that their labels give per question.
        arms: the names of A and B; () means the only two, in their order.
        judges: measures that serve as control variates, the first as "the judge"; () means
            llm_<criterion>, and for correctness the similarity to the reference answer.
        margin: the difference that does not matter.
        alpha: 1 minus the coverage of the interval.

    >>> rng = np.random.default_rng(0)
    >>> person, names = rng.random((2, 200)) < [[0.8], [0.5]], ["a", "b"]
    >>> table = pd.DataFrame({"question": [*range(200)] * 2, "system": np.repeat(names, 200)})
    >>> table["judge"] = (person ^ (rng.random((2, 200)) < 0.1)).ravel().astype(float)
    >>> table["person"] = np.where(table["question"] < 60, person.ravel(), np.nan)
    >>> state = trust(table)
    >>> state.decision, state.n_labelled, round(state.low, 2), round(state.high, 2)
    ('better', 60, 0.14, 0.3)

    Raises:
        ConfigError: not two arms, an unknown judge, alpha out of range.
        DataError: nothing in common, a label outside the questions, or one that cannot be read.
    """
    if isinstance(results, pd.DataFrame):
        results, labels = _verdicts(results)
        judges = judges or ("judge",)
    pair = arms_of(results, criterion, arms=arms, judges=judges)
    is_open = ~(pair.alike | pair.silent.all(axis=1))
    share = float(is_open.mean())
    differences, batches, n_pending = _labelled(_frame(labels, results, criterion), pair)
    places = np.cumsum(is_open) - 1
    looks = sequence(
        [places[batch[is_open[batch]]] for batch in batches],
        differences[is_open],
        control_variates(pair.difference[is_open]),
        margin=margin / share if share else margin,
        alpha=alpha,
    )
    if not share:  # all answers are alike
        looks = [Look(0, 0.0, 0.0, 0.0, 0)]
    look = looks[-1] if looks else None
    judge_difference, judge_low, judge_high = _naive(pair)
    return Trust(
        first=pair.names[0],
        second=pair.names[1],
        criterion=criterion,
        margin=margin,
        decision=decision_of(look.low * share, look.high * share, margin) if look else "undecided",
        difference=look.estimate * share if look else None,
        low=look.low * share if look else None,
        high=look.high * share if look else None,
        n_labelled=sum(map(len, batches)),
        n_pending=n_pending,
        n_needed=look.needed - look.n if look else None,
        n_questions=len(pair.queries),
        judge=pair.judges[0] if pair.judges else "",
        judge_difference=judge_difference,
        judge_low=judge_low,
        judge_high=judge_high,
    )


def _verdicts(table: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Return the scores of each system, and people's labels."""
    if missing := [name for name in _VERDICTS if name not in table]:
        raise DataError(f"verdicts: no column {', '.join(missing)}; expected {_VERDICTS}")
    names = {"question": "query_id", "system": "configuration", "person": "value"}
    rows = table.rename(columns=names)
    scores = rows[["query_id"]].assign(measure="judge", value=rows["judge"])
    by_name = {
        str(name): scores.loc[part] for name, part in rows.groupby("configuration").groups.items()
    }
    return by_name, rows.dropna(subset="value").drop(columns="judge")


def _frame(labels: Any, results: Any, criterion: str) -> pd.DataFrame:
    """Return the labels by this criterion: query_id, configuration, value, batch."""
    if labels is None:
        labels = pd.DataFrame(columns=["query_id", "configuration", "value"])
    if not isinstance(labels, pd.DataFrame):
        by_name = results if isinstance(results, Mapping) else {one.name: one for one in results}
        answers = {name: getattr(one, "answers", ()) for name, one in by_name.items()}
        labels = load_labels(labels, answers=answers, pending=True)
    columns = ["query_id", "configuration", "value"]
    if missing := [name for name in columns if name not in labels]:
        raise DataError(
            f"labels: no column {', '.join(missing)}; expected {columns}, got {[*labels]}"
        )
    if "criterion" in labels:
        labels = labels[labels["criterion"] == criterion]
    batch = labels["batch"].replace("", 0).astype(int) if "batch" in labels else 0
    frame: pd.DataFrame = labels[columns].assign(batch=batch)
    return frame.astype({"value": float, "configuration": str})


def _labelled(labels: pd.DataFrame, pair: Arms) -> tuple[Floats, list[Any], int]:
    """Return people's differences (NaN = none), the places of the questions of each complete batch
    up to the first incomplete one, and the number of questions that are labelled beyond.
    """
    labels = labels[labels["configuration"].isin(pair.names)]
    values = labels.groupby(["query_id", "configuration"])["value"].mean().unstack()
    values = values.reindex(index=pair.queries, columns=[*pair.names])
    values = values.mask(values.isna() & pair.silent, 0.0)
    differences = (values[pair.names[0]] - values[pair.names[1]]).to_numpy(float)
    differences = np.where(pair.alike, 0.0, differences)
    batches: list[Any] = []
    seen = np.zeros(len(pair.queries), dtype=bool)
    for _, rows in labels.groupby("batch"):
        batch = np.flatnonzero(pair.queries.isin(rows["query_id"]) & ~seen & ~pair.alike)
        if np.isnan(differences[batch]).any():
            break
        seen[batch] = True
        batches.append(batch)
    beyond = (
        pair.queries.isin(labels.loc[labels["value"].notna(), "query_id"]) & ~seen & ~pair.alike
    )
    return differences, batches, int(beyond.sum())


def _naive(pair: Arms) -> tuple[float | None, float | None, float | None]:
    """Return the first judge's own difference over all questions, with Student's interval."""
    from scipy.stats import t

    values = pair.difference[:, 0] if pair.judges else np.empty(0)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return None, None, None
    reach = float(t.ppf(0.975, len(values) - 1) * deviation(values) / math.sqrt(len(values)))
    return mean(values), mean(values) - reach, mean(values) + reach
