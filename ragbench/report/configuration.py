"""Sentences about one configuration at the top of `evaluate.ipynb`: verdict, missed targets,
evidence, causes; and which measures it shows first.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ragbench.errors import as_sentence
from ragbench.evaluation import CORRECTNESS, Result, Results
from ragbench.evaluation.decision import draft_note
from ragbench.report.failure_tables import count_causes, plain
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
        # a table without rows that has the same columns
        return summarise(scores).head(0).drop(columns="measure").assign(budget=[])
    table = summarise(rows)
    # "span_recall@500tok" -> 500
    table.insert(0, "budget", table["measure"].str.extract(r"@(\d+)tok", expand=False).astype(int))
    return table.drop(columns="measure").sort_values("budget", ignore_index=True)


def findings(result: Result, summary: pd.DataFrame) -> list[str]:
    """Describe one configuration in sentences computed from its result: verdict, figures, causes, the
    next step.

    Args:
        result: from `evaluate`.
        summary: of its scores, as from `summarise`.
    """
    scored: dict[str, Mapping[Any, Any]] = {}  # measure -> its row of the summary
    for row in summary.to_dict("records"):
        if row["n_scored"]:
            scored[row["measure"]] = row
    results = Results([result])  # the next step is concluded from results, here from one
    # each helper returns "" if it has nothing to say
    sentences = [
        _verdict_line(result, scored),
        as_sentence(result.unchecked_sentence),
        _missed_targets_line(result),
        _retrieval_line(result, scored),
        _evidence_line(scored),
        _answers_line(scored),
        *_measurement_lines(result),
        _causes_line(result.diagnosis),
        *draft_note(results.deciding()),
        f"**Next:** {plain(results.conclude().next_step)}.",
    ]
    return [sentence for sentence in sentences if sentence]


def _verdict_line(result: Result, scored: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence that states how many questions passed and why most of the others failed; "" if
    no question was decided. `scored` is measure -> its row of `summarise`.
    """
    rate = _means_in_words(scored, "pass_rate")
    # with undecided questions: the result's own sentence, because it states them, too
    if result.passed_sentence and result.counts["undecided"]:
        details = f": {rate}{_most_missed(result)}" if rate else ""
        return f"**{result.passed_sentence}**{details}."
    if not rate:
        return ""
    # the mean of ones and zeros, times their number, is how many passed
    n = scored["pass_rate"]["n_scored"]
    n_passed = round(scored["pass_rate"]["mean"] * n)
    return f"**{n_passed} of {n} questions passed** all their thresholds: {rate}{_most_missed(result)}."


def _missed_targets_line(result: Result) -> str:
    """Return a sentence with the first four measures that miss their targets; "" if none does."""
    missed = [row for row in result.rows if row.verdict == "missed"]
    if not missed:
        return ""
    targets = [f"{row.measure} {row.value:.3f} (target {row.target:g})" for row in missed[:4]]
    more = " ..." if len(missed) > 4 else ""
    count = "1 target is" if len(missed) == 1 else f"{len(missed)} targets are"
    return f"{count} missed: {', '.join(targets)}{more}."


def _evidence_line(scored: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with how much gold evidence was found; "" if this was not scored.

    Gold evidence is the passages that a test set names as those that answer a question. `scored` is
    measure -> its row of `summarise`.
    """
    if not {"span_recall@5", "span_recall@500tok"} <= scored.keys():
        return ""
    return (
        f"Of the gold evidence {scored['span_recall@5']['mean']:.0%} is in the best 5 chunks and "
        f"{scored['span_recall@500tok']['mean']:.0%} in the best 500 tokens."
    )


def _answers_line(scored: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the main measures of the answers; "" if none was scored.

    `scored` is measure -> its row of `summarise`.
    """
    # one measure of correctness is shown: the first in the order of CORRECTNESS
    correctness = next((name for name in CORRECTNESS if name in scored), "")
    means = _means_in_words(scored, correctness, "claim_support", "answered")
    return f"Answers: {means}." if means else ""


def _measurement_lines(result: Result) -> list[str]:
    """Return sentences about what could not be measured, with the reason, and the warnings."""
    unmeasured = [
        f"{each.name} ({each.reason})" for each in result.perspectives if not each.measured
    ]
    lines = [f"Not measured: {', '.join(unmeasured)}."] if unmeasured else []
    return lines + [f"Note: {each.warning}." for each in result.perspectives if each.warning]


def _retrieval_line(result: Result, scored: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the main measures of retrieval, or that it could not be scored.

    `scored` is measure -> its row of `summarise`.
    """
    means = _means_in_words(scored, main_measure(result.scores), "nDCG@10", "R@10")
    about = f"over {len(result.queries)} questions and {result.dataset['documents']:,} documents"
    if not means:
        return f"Retrieval could not be scored {about}."
    return f"Retrieval: {means} {about}."


def _causes_line(diagnosis: pd.DataFrame | None) -> str:
    """Return a sentence with the three most frequent causes of failures, and the number of failures by
    other causes; "" without a failure.

    Args:
        diagnosis: a row for each question; `failed` is True for a failure. None if there are no
            causes.
    """
    if diagnosis is None or not diagnosis["failed"].any():
        return ""
    causes = count_causes(diagnosis)  # the row "none" counts the questions that did not fail
    causes = causes[(causes["questions"] > 0) & (causes["cause"] != "none")]
    most_frequent = causes.sort_values("questions", ascending=False, kind="stable").head(3)
    parts = [f"{row['questions']} {row['meaning']}" for row in most_frequent.to_dict("records")]
    n_failed = int(diagnosis["failed"].sum())
    n_others = n_failed - int(most_frequent["questions"].sum())
    if n_others:
        parts.append(f"{n_others} other")
    return f"**Causes** of the {n_failed} failures, where each was lost first: {', '.join(parts)}."


def _most_missed(result: Result) -> str:
    """Return the three most frequent reasons why questions did not pass, as the end of a sentence; ""
    if there are none.

    A reason is a text such as "recall@5: 0.2 < 0.5"; reasons that differ only in their values count
    as the same.
    """
    counts: Counter[str] = Counter()
    for query_id in result.queries:
        for reason in result.verdicts.get(query_id, {}).get("reasons", ()):
            # "recall@5: 0.2 < 0.5" -> "recall@"
            before_value = re.split(r"[:(\d]", reason)[0].strip()
            counts[before_value] += 1
    reasons = [f"{reason} ({n})" for reason, n in counts.most_common(3)]
    return f"; most frequent reasons why not: {', '.join(reasons)}" if reasons else ""


def _means_in_words(scored: Mapping[str, Mapping[Any, Any]], *names: str) -> str:
    """Return the means of measures in words, with their intervals, such as "pass_rate 0.70 [0.60, 0.80]
    (9 scored), ...". "(9 scored)" is added if some questions have no value.

    Measures without a score are left out; "" if none is scored. `scored` is measure -> its row of
    `summarise`.
    """
    texts = []
    for name in dict.fromkeys(names):  # each once
        if name not in scored:
            continue
        row = scored[name]
        partly = f" ({row['n_scored']} scored)" if row["n_scored"] < row["n"] else ""
        value = with_interval(row["mean"], row["ci_low"], row["ci_high"])
        texts.append(f"{name} {value}{partly}")
    return ", ".join(texts)
