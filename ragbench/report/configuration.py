"""Tables and sentences about one configuration: what `evaluate.ipynb` shows between its figures."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ragbench.evaluation import CORRECTNESS, Result, Results
from ragbench.evaluation.decision import draft_note
from ragbench.report.failures import count_causes, plain
from ragbench.statistics import summarise
from ragbench.statistics.comparison import with_interval
from ragbench.statistics.ranking import main_measure

MAIN = (
    "pass_rate nDCG@10 R@10 span_recall_auc span_recall@500tok claim_support answered "
    "semantic_similarity gold_fact_coverage llm_correctness llm_faithfulness"
).split()
"""What is shown first of one configuration, as far as it was measured."""


def budget_curve(scores: pd.DataFrame) -> pd.DataFrame:
    """Summarise evidence recall at each context budget.

    Returns:
        budget (tokens), mean, ci_low, ci_high, n_scored, n; no rows where the scores hold no such
        measure.
    """
    rows = scores[scores["measure"].str.fullmatch(r"span_recall@\d+tok")]
    if rows.empty:
        return summarise(scores).head(0).drop(columns="measure").assign(budget=[])
    table = summarise(rows)
    table.insert(0, "budget", table["measure"].str.extract(r"@(\d+)tok", expand=False).astype(int))
    return table.drop(columns="measure").sort_values("budget", ignore_index=True)


def findings(result: Result, summary: pd.DataFrame) -> list[str]:
    """Return what one configuration has shown, in sentences computed from its result: verdict,
    figures, causes, what to do.

    Args:
        result: from `evaluate`.
        summary: of its scores, as from `summarise`.
    """
    of: dict[str, Mapping[Any, Any]] = {
        row["measure"]: row for row in summary.to_dict("records") if row["n_scored"]
    }
    test_set, lines = result.dataset, []
    if "pass_rate" in of:
        passed = round(of["pass_rate"]["mean"] * of["pass_rate"]["n_scored"])
        lines.append(
            f"**{passed} of {of['pass_rate']['n_scored']} questions passed** all their thresholds: "
            f"{_intervals(of, 'pass_rate')}{_most_missed(result)}."
        )
    missed = [row for row in result.rows if row.verdict == "missed"]
    if missed:
        listed = ", ".join(
            f"{row.measure} {row.value:.3f} (target {row.target:g})" for row in missed[:4]
        )
        lines.append(
            f"{len(missed)} targets are missed: {listed}{' ...' if len(missed) > 4 else ''}."
        )
    main = main_measure(result.scores)
    about = f"over {len(result.queries)} questions and {test_set['documents']:,} documents"
    means = _intervals(of, main, "nDCG@10", "R@10")
    lines.append(
        f"Retrieval: {means} {about}." if means else f"Retrieval could not be scored {about}."
    )
    if {"span_recall@5", "span_recall@500tok"} <= of.keys():
        lines.append(
            f"Of the gold evidence {of['span_recall@5']['mean']:.0%} is in the best 5 chunks and "
            f"{of['span_recall@500tok']['mean']:.0%} in the best 500 tokens."
        )
    answer = next((name for name in CORRECTNESS if name in of), "")
    if means := _intervals(of, answer, "claim_support", "answered"):
        lines.append(f"Answers: {means}.")
    if missing := [
        f"{part.name} ({part.reason})" for part in result.perspectives if not part.measured
    ]:
        lines.append(f"Not measured: {', '.join(missing)}.")
    lines += [f"Note: {part.warning}." for part in result.perspectives if part.warning]
    if result.diagnosis is not None and result.diagnosis["failed"].any():
        causes = count_causes(result.diagnosis)
        causes = causes[(causes["questions"] > 0) & (causes["cause"] != "none")].sort_values(
            "questions", ascending=False, kind="stable"
        )
        parts = ", ".join(
            f"{row['questions']} {row['meaning']}" for row in causes.head(3).to_dict("records")
        )
        n_failed = int(result.diagnosis["failed"].sum())
        lines.append(f"**Causes** of the {n_failed} failures, where each was lost first: {parts}.")
    results = Results([result])
    lines += draft_note(results.deciding())
    conclusion = results.conclude()
    lines.append(f"**Next:** {plain(conclusion.next_step)}.")
    return lines


def _most_missed(result: Result) -> str:
    """Return the reasons for which most questions did not pass, without their values."""
    reasons = (
        re.split(r"[:(\d]", reason)[0].strip() for case in result.cases for reason in case.reasons
    )
    counts = Counter(reasons).most_common(3)
    return (
        f"; most frequent reasons why not: {', '.join(f'{reason} ({n})' for reason, n in counts)}"
        if counts
        else ""
    )


def _intervals(of: Mapping[str, Mapping[Any, Any]], *names: str) -> str:
    """List measures, as far as they are there, with mean, interval and, where some questions have no
    value, how many have one.
    """
    texts = []
    for name in dict.fromkeys(name for name in names if name in of):
        row = of[name]
        partly = f" ({row['n_scored']} scored)" if row["n_scored"] < row["n"] else ""
        value = with_interval(row["mean"], row["ci_low"], row["ci_high"])
        texts.append(f"{name} {value}{partly}")
    return ", ".join(texts)
