"""Tables and sentences about one configuration: what `evaluate.ipynb` shows between its figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.evaluation import CORRECTNESS, Result, count_causes
from ragbench.evaluation.results import main_measure, only
from ragbench.registry import PERSPECTIVES, higher_is_better, meaning_of, perspective_of
from ragbench.statistics import summarise
from ragbench.testsets import KNOWN_ITEM
from ragbench.text import count_tokens
from ragbench.types import Chunk, Dataset

MAIN = (
    "pass_rate", "nDCG@10", "R@10", "span_recall_auc", "span_recall@500tok", "claim_support", "answered",
    "semantic_similarity", "gold_fact_coverage", "llm_correctness", "llm_faithfulness",
)  # fmt: skip
"""What is shown first of one configuration, as far as it was measured."""


def dataset_table(dataset: Dataset) -> pd.DataFrame:
    """What a dataset holds: one row per category and one for all.

    Returns:
        category, questions, with_judgements, with_evidence, with_reference, unanswerable; the index is the row number
        and the last row, "all", sums the others. `attrs["documents"]` is the size of the corpus.
    """
    rows = [
        (case.category or "no category", 1, bool(dataset.qrels.get(case.query_id)), bool(case.evidence),
         case.reference_answer is not None, not case.answerable)
        for case in dataset.cases
    ]  # fmt: skip
    columns = ["category", "questions", "with_judgements", "with_evidence", "with_reference", "unanswerable"]
    frame = pd.DataFrame(rows, columns=columns)
    table = frame.groupby("category", sort=False).sum().astype(int)
    table.loc["all"] = table.sum()
    table = table.reset_index()
    table.attrs["documents"] = len(dataset.corpus)
    return table


def chunk_tokens(chunks: Sequence[Chunk], tokenizer: str = "minilm") -> list[int]:
    """The size of each chunk in tokens of the named tokenizer."""
    return count_tokens([chunk.text for chunk in chunks], tokenizer)


def category_table(dataset: Dataset, scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The mean of one measure within each category, with its interval.

    Returns:
        category, mean, ci_low, ci_high, n_scored, n; categories in the order of the dataset, those without any
        scored question left out.
    """
    category_of = {case.query_id: case.category for case in dataset.cases}
    own = only(scores, measure)
    rows = []
    for category in dict.fromkeys(category_of.values()):
        part = own[own["query_id"].map(category_of) == category]
        if part["value"].notna().any():
            rows.append(summarise(part).drop(columns="measure").assign(category=category))
    columns = ["category", "mean", "ci_low", "ci_high", "n_scored", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def busiest_document(dataset: Dataset, chunks: Sequence[Chunk]) -> str | None:
    """The document with evidence for the most questions, where a coverage figure shows most; None without evidence.

    Of documents with equally many the one with the most chunks is taken, then the first by id.
    """
    asked = Counter(doc_id for case in dataset.cases for doc_id in {span.doc_id for span in case.evidence})
    size = Counter(chunk.doc_id for chunk in chunks)
    return min(asked, key=lambda doc_id: (-asked[doc_id], -size[doc_id], doc_id)) if asked else None


def budget_curve(scores: pd.DataFrame) -> pd.DataFrame:
    """Evidence recall at each context budget.

    Returns:
        budget (tokens), mean, ci_low, ci_high, n_scored, n; no rows where the scores hold no such measure.
    """
    own = scores[scores["measure"].str.fullmatch(r"span_recall@\d+tok")]
    if own.empty:
        return summarise(scores).head(0).drop(columns="measure").assign(budget=[])
    table = summarise(own)
    table.insert(0, "budget", table["measure"].str.extract(r"@(\d+)tok", expand=False).astype(int))
    return table.drop(columns="measure").sort_values("budget", ignore_index=True)


def known_item_note(result: Result) -> list[str]:
    """What drafted questions cannot show, in a sentence; empty where there are none."""
    categories = [case.category for case in result.report.cases]
    drafts = categories.count(KNOWN_ITEM)
    return [] if not drafts else [
        f"**{drafts} of {len(categories)} questions are known-item drafts**: they ask for a passage by its own words, "
        "which favours lexical search. Decide by questions of your users."
    ]  # fmt: skip


def findings(result: Result, summary: pd.DataFrame) -> list[str]:
    """What one configuration has shown, in sentences computed from its result: verdict, figures, causes, what to do.

    Args:
        result: from `evaluate`.
        summary: of its scores, as from `summarise`.
    """
    of: dict[str, Mapping[Any, Any]] = {row["measure"]: row for row in summary.to_dict("records") if row["n_scored"]}
    test_set, lines = result.report.test_set, []
    if "pass_rate" in of:
        passed = round(of["pass_rate"]["mean"] * of["pass_rate"]["n_scored"])
        lines.append(
            f"**{passed} of {of['pass_rate']['n_scored']} questions passed** all their thresholds: "
            f"{_interval(of, 'pass_rate')}{_most_missed(result)}."
        )
    missed = [row for row in result.report.measures if row.verdict == "missed"]
    if missed:
        shown = ", ".join(f"{row.measure} {row.value:.3f} (target {row.target:g})" for row in missed[:4])
        lines.append(f"{len(missed)} targets are missed: {shown}{' ...' if len(missed) > 4 else ''}.")
    main = main_measure(result.scores)
    about = f"over {test_set.questions} questions and {test_set.documents:,} documents"
    shown = ", ".join(_interval(of, name) for name in dict.fromkeys((main, "nDCG@10", "R@10")) if name in of)
    lines.append(f"Retrieval: {shown} {about}." if shown else f"Retrieval could not be scored {about}.")
    if found := {name: value for name, value in result.config["facts"].items() if name.startswith("ann_recall@")}:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        lines.append(f"The search is approximate; of the exact best chunks it found: {shown}.")
    lines += known_item_note(result)
    if {"span_recall@5", "span_recall@500tok"} <= of.keys():
        lines.append(
            f"Of the gold evidence {of['span_recall@5']['mean']:.0%} is in the best 5 chunks and "
            f"{of['span_recall@500tok']['mean']:.0%} in the best 500 tokens."
        )
    answer = next((name for name in CORRECTNESS if name in of), "")
    if shown := ", ".join(_interval(of, name) for name in (answer, "claim_support", "answered") if name in of):
        lines.append(f"Answers: {shown}.")
    if missing := [f"{one.name} ({one.reason})" for one in result.report.perspectives if not one.measured]:
        lines.append(f"Not measured: {', '.join(missing)}.")
    if result.diagnosis is not None and result.diagnosis["failed"].any():
        causes = count_causes(result.diagnosis)
        causes = causes[(causes["questions"] > 0) & (causes["cause"] != "none")].sort_values(
            "questions", ascending=False, kind="stable"
        )
        parts = ", ".join(f"{row['questions']} {row['meaning']}" for row in causes.head(3).to_dict("records"))
        lines.append(f"{_without_right_answer(result, result.diagnosis)}; where it was lost first: {parts}.")
    advice = next(iter(result.report.advice), None)
    lines.append(f"**Next:** {advice.action}." if advice else "**Next:** read the worst questions below.")
    return lines


def _most_missed(result: Result) -> str:
    """The reasons for which most questions did not pass, without their values."""
    reasons = (re.split(r"[:(\d]", reason)[0].strip() for case in result.report.cases for reason in case.reasons)
    counts = Counter(reasons).most_common(3)
    return f"; most frequent reasons why not: {', '.join(f'{reason} ({n})' for reason, n in counts)}" if counts else ""


def _without_right_answer(result: Result, diagnosis: pd.DataFrame) -> str:
    """What the diagnosis counts, and why that is another number than that of the questions that did not pass."""
    failed = set(diagnosis.loc[diagnosis["failed"], "query_id"])
    others = sum(case.passed is False and case.query_id not in failed for case in result.report.cases)
    right = f" ({others} more have one and missed only another threshold)" if others else ""
    return f"**Causes**: {len(failed)} of {len(diagnosis)} questions lack a right answer or the evidence for one{right}"


def _interval(of: Mapping[str, Mapping[Any, Any]], name: str) -> str:
    """A measure with its mean, its interval and, where some questions have no value, how many have one."""
    row = of[name]
    interval = f" [{row['ci_low']:.3f}, {row['ci_high']:.3f}]" if row["n_scored"] > 1 else ""
    partly = f" ({row['n_scored']} scored)" if row["n_scored"] < row["n"] else ""
    return f"{name} {row['mean']:.3f}{interval}{partly}"


_SHOWN = ("context", "groundedness", "pipeline", "overall")


def perspective_table(summary: pd.DataFrame) -> pd.DataFrame:
    """What was given, how well the answers rest on it, and how the pipeline behaved.

    Args:
        summary: as from `summarise`.

    Returns:
        perspective, measure, meaning, better ("higher" or "lower"), mean, ci_low, ci_high, scored ("scored/all");
        measures that nothing could be scored by are left out.
    """
    rows = [
        (perspective_of(name := row["measure"]), name, meaning_of(name),
         "higher" if higher_is_better(name) else "lower",
         row["mean"], row["ci_low"], row["ci_high"], f"{row['n_scored']}/{row['n']}")
        for row in summary.to_dict("records")
        if perspective_of(row["measure"]) in _SHOWN and row["n_scored"]
    ]  # fmt: skip
    columns = ["perspective", "measure", "meaning", "better", "mean", "ci_low", "ci_high", "scored"]
    rows.sort(key=lambda row: list(PERSPECTIVES).index(str(row[0])))
    table = pd.DataFrame(rows, columns=columns)
    return table.astype(dict.fromkeys(["mean", "ci_low", "ci_high"], "Float64")).round(3)
