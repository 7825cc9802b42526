"""Tables and sentences about a whole sweep: what `compare.ipynb` shows between its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from ragbench.evaluation import CAUSES, STAGE_OF, Result
from ragbench.evaluation.comparison import unreadable_note_of
from ragbench.evaluation.results import configurations, only, per_question
from ragbench.registry import higher_is_better, meaning_of
from ragbench.report.configuration import known_item_note
from ragbench.report.failures import plain
from ragbench.statistics import compare, p_text
from ragbench.statistics.comparison import with_interval


def headline(
    results: Sequence[Result], comparison: pd.DataFrame, baseline: str, measure: str
) -> str:
    """State the decision of a sweep in one sentence without its full stop, for a title.

    Labels are as they are; where Markdown is shown, escape the sentence with `plain`.

    The arguments are those of `conclusion`.
    """
    label = configurations(results).set_index("name")["label"]
    order = list(_ranked(results, measure).index)
    if not order:
        return _UNSCORED.format(measure).rstrip(".")
    best = order[0]
    if len(order) == 1:
        return f"{label[best]} alone is scored by {measure}: nothing to compare"
    if best == baseline:
        return f"Keep the baseline, {label[baseline]}: no configuration is better by {measure}"
    rows = comparison[(comparison["measure"] == measure) & (comparison["name"] == best)]
    if rows["decision"].tolist() != ["better"]:
        return f"Keep the baseline, {label[baseline]}: no configuration is shown to be better"
    row = rows.iloc[0]
    return (
        f"{label[best]} is better than {label[baseline]}: better in {row['wins']} of {row['n']} "
        f"questions, worse in {row['losses']}"
    )


def _ranked(results: Sequence[Result], measure: str) -> pd.Series[float]:
    """Return the means that are ranked by name, best first."""
    means = {result.name: only(result.scores, measure)["value"].mean() for result in results}
    # rounded, as the last bit depends on the order of the values
    ranked = pd.Series(means, dtype=float).round(12).dropna().sort_index()
    return ranked.sort_values(ascending=not higher_is_better(measure), kind="stable")


def _price(result: Result) -> str:
    """Return what an answer takes and costs, as far as it is known."""
    amounts = per_question(result)
    latency, cost = amounts["latency_p50_ms"], amounts["cost_per_1000_usd"]
    texts = [f"{latency:,.0f} ms per question (p50)"] if latency is not None else []
    texts += [f"{cost:,.2f} dollars per 1,000 questions"] if cost is not None else []
    return f"; {' and '.join(texts)}" if texts else ""


def conclusion(
    results: Sequence[Result],
    comparison: pd.DataFrame,
    baseline: str,
    measure: str,
) -> list[str]:
    """State the key findings of a sweep, in sentences that the data supports: the decision first.

    Args:
        results: the configurations.
        comparison: as from `compare_all` against `baseline`: name, measure, difference, interval,
            p_adjusted, n.
        baseline: name of the configuration that the others are compared with.
        measure: what they are ranked by.
    """
    by_name = {result.name: result for result in results}
    label = configurations(results).set_index("name")["label"].map(plain)
    means = _ranked(results, measure)
    order = [str(name) for name in means.index]
    if not order:
        return [_UNSCORED.format(measure)]
    best = order[0]
    lines = [
        f"**Best:** {label[best]}, with {means[best]:.3f} by {measure} ({meaning_of(measure)}), of "
        f"{len(results)} configurations{_price(by_name[best])}."
    ]
    lines += known_item_note(by_name[best])
    if note := unreadable_note_of(by_name, measure):
        lines.append(f"**Unreadable verdicts:** {plain(note)}.")
    if race := getattr(results, "race", None):
        lines.append(f"**Race:** {race.summary.removeprefix('race ')}.")
    if len(order) < len(results):
        lines.append(f"{len(results) - len(order)} of them could not be scored by it.")
    if len(order) == 1:
        return [*lines, "With one configuration there is nothing to compare."]
    second = order[1]
    pair = compare(by_name[second].scores, by_name[best].scores, measures=[measure]).iloc[0]
    rows = comparison[(comparison["measure"] == measure) & (comparison["name"] == best)]
    against = rows.iloc[0] if len(rows) and rows.iloc[0]["n"] else None
    if against is not None:
        lines.append(
            f"**Against the "
            f"baseline**, {label[baseline]}: {tested(against, 'p_adjusted', 'Holm-adjusted p')}."
        )
    if pair["n"] > 1:
        power = ""
        if pair["mde"] is not pd.NA:  # every question moved alike: no power to report
            power = (
                f"; this many questions show a difference of {pair['mde']:.3f} or more (80 % power)"
            )
        lines.append(
            f"**Against the runner-up**, {label[second]}: {tested(pair, 'p_value', 'p')}{power}"
            f"{_price(by_name[second])}."
        )
    else:
        lines.append(
            f"The runner-up, {label[second]}, and it have too few scored questions in "
            f"common: {pair['n']}."
        )
    other = label[second] if pd.isna(pair["p_value"]) or pair["p_value"] >= ALPHA else ""
    decision = plain(headline(results, comparison, baseline, measure))
    if best != baseline and against is not None and against["decision"] == "better":
        decision += (
            f"; {other} cannot be distinguished from it"
            if other
            else f", and better than the runner-up, {label[second]}"
        )
    lines.append(f"**Next:** {_next_step(by_name[best], label[best], other)}")
    return [f"**Decision:** {decision}.", *lines, *_machines(results)]


ALPHA = 0.05
_UNSCORED = "No question could be scored by {}, so no configuration is better than another."
_ACTIONS = {
    "retrieval": "Try another retriever, a reranker or a larger k",
    "chunking": "Try another chunking or a larger context budget",
    "generation": "Try another model or prompt",
    "judge": "Check these verdicts by hand",
    "label": "Check the labels of these questions",
    "unknown": "Label the evidence of these questions: no label shows where they fail",
}


def _next_step(best: Result, label: str, other: str) -> str:
    choice = "choose between the two by cost (below). " if other else ""
    diagnosis = best.diagnosis
    failed = None if diagnosis is None else diagnosis.loc[diagnosis["failed"], "cause"]
    if failed is None or failed.empty:
        return (
            choice[:1].upper() + choice[1:].strip()
            or "read the questions on which the two best disagree (below)."
        )
    stages = failed.map(STAGE_OF)
    stage = stages.mode().iloc[0]
    causes = failed[stages == stage].value_counts()
    words = ", ".join(f"{count} {CAUSES[cause]}" for cause, count in causes.items())
    lost = (
        f"{label} fails on {len(failed)} of {len(best.queries)} questions, most of them by {stage}"
    )
    return f"{choice}{lost}: {words}. {_ACTIONS[stage]}."


def tested(row: Any, p: str, p_name: str) -> str:
    """Describe a row of a comparison in words; a tie on every question is not presented as a test."""
    questions = "1 question" if row["n"] == 1 else f"{row['n']} questions"
    if row["ties"] == row["n"]:
        return f"equal on every one of {questions}"
    difference = with_interval(row["difference"], row["ci_low"], row["ci_high"], "{:+.3f}")
    test = "" if pd.isna(row[p]) else f", {p_name} {p_text(row[p], '= ')}"
    doubt = (
        "" if test and row[p] < ALPHA else ", which does not distinguish them, nor prove them equal"
    )
    return f"{difference}{test}, over {questions}{doubt}"


def _machines(results: Sequence[Result]) -> list[str]:
    """Warn where latencies come from more than one machine or Python."""
    keys = ("platform", "machine", "cores", "python")
    seen = {tuple(str(result.environment.get(key)) for key in keys) for result in results}
    if len(seen) < 2:
        return []
    return [
        f"These results were made in {len(seen)} different environments: compare their quality, "
        "not their latency."
    ]
