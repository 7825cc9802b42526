"""Tables and sentences about language models and judges: answers, cost, judgement, agreement with people."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.evaluation.costs import costs_of, replies_of, waited_ms
from ragbench.evaluation.records import Cost, total_cost
from ragbench.evaluation.results import ANSWER_MEASURES
from ragbench.judges import agreement
from ragbench.registry import perspective_of
from ragbench.report.page.sentences import COST_HEADS, cost_rows
from ragbench.types import Answer, Judgement


def generation_table(answers: Sequence[Answer]) -> pd.DataFrame:
    """How answers were made: columns "what" and "value", both text.

    Tokens and cost are those of all replies, whether they were paid for now or taken from the reply store: they belong
    to the configuration. Latency is that of replies that somebody waited for now. Without a language model there is
    one row that states it.
    """
    replies = replies_of(answers)
    if not replies:
        return pd.DataFrame([("language model", "none was asked")], columns=["what", "value"])
    usd = total_cost(costs_of(answers))
    cached, failed = sum(reply.cached for reply in replies), sum(reply.error is not None for reply in replies)
    waited = waited_ms(answers)
    rows = [
        ("language model", ", ".join(sorted({reply.model for reply in replies}))),
        ("requests", f"{len(replies):,}, of which {failed:,} failed"),
        ("from the reply store", f"{cached / len(replies):.0%}"),
        ("tokens in", f"{sum(reply.input_tokens for reply in replies):,}"),
        ("tokens out", f"{sum(reply.output_tokens for reply in replies):,}"),
        ("cost", "unknown" if usd is None else f"{usd:.4f} dollars where nothing is stored"),
        (
            "median time of a reply",
            f"{statistics.median(waited):,.0f} ms, of {len(waited)}" if waited else "all were stored",
        ),
        ("context cut at the token limit", f"{sum(bool(answer.cut) for answer in answers):,} answers"),
        ("reply cut at its limit", f"{sum('truncated' in answer.flags for answer in answers):,} answers"),
    ]
    return pd.DataFrame(rows, columns=["what", "value"])


def cost_table(costs: Sequence[Cost], n_queries: int) -> pd.DataFrame:
    """`costs_of` as a table of text: a row per part and model, then their sum where there are several.

    Returns:
        part, model, requests, cached, tokens in, tokens out, dollars, dollars per question; no rows without a language
        model. A sum is unknown where a part of it is.
    """
    return pd.DataFrame(cost_rows(costs, n_queries), columns=list(COST_HEADS))


def invented_table(judgements: Sequence[Judgement], questions: Mapping[str, str]) -> pd.DataFrame:
    """The claims of answers that the judge found in no context: query_id, question, claim; a row per claim.

    No rows where every claim is supported, or faithfulness was not judged.
    """
    rows = [(one.query_id, questions.get(one.query_id, ""), claim) for one in judgements for claim in one.unsupported]
    return pd.DataFrame(rows, columns=["query_id", "question", "claim"])


def answer_scores(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of a summary (from `summarise`) that are about answers: computed measures, then those of a judge.

    Returns:
        measure, judged_by ("computed" or "language model"), mean, ci_low, ci_high, scored ("n_scored/n"); all text,
        "unscored" where a measure has no value or no interval.
    """
    table = summary[summary["measure"].map(perspective_of).isin(("answer", "judge"))].copy()
    judged_by = ["language model" if perspective_of(name) == "judge" else "computed" for name in table["measure"]]
    table.insert(1, "judged_by", judged_by)
    table["scored"] = table["n_scored"].astype(str) + "/" + table["n"].astype(str)
    for column in ("mean", "ci_low", "ci_high"):
        table[column] = ["unscored" if pd.isna(value) else f"{value:.3f}" for value in table[column]]
    return table.drop(columns=["n_scored", "n"]).reset_index(drop=True)


def unscored_table(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """What the judge gave no score and why: criterion, state, answers (their number), example, reason (of the example).

    No rows where everything is scored, or nothing was judged.
    """
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judgements:
        if judgement.value is None:
            groups.setdefault((judgement.criterion, judgement.state), []).append(judgement)
    rows = [
        (criterion, state, len(group), group[0].query_id, " ".join(group[0].explanation.split())[:200])
        for (criterion, state), group in groups.items()
    ]
    return pd.DataFrame(rows, columns=["criterion", "state", "answers", "example", "reason"])


def agreement_table(combined: Sequence[Judgement], per_criterion: Sequence[Judgement]) -> pd.DataFrame:
    """`agreement` of criteria judged in one request and each in its own, rounded, with text where there is no value.

    Returns:
        criterion, answers, scored_both, mean_together, mean_apart, same (fraction of equal values), difference (mean
        absolute), largest, kappa; no rows where nothing was judged per criterion.
    """
    names = {"n": "answers", "n_both": "scored_both", "mean_first": "mean_together", "mean_second": "mean_apart"}
    if not per_criterion:
        columns = ["criterion", *names.values(), "same", "difference", "largest", "kappa"]
        return pd.DataFrame(columns=columns)
    table = agreement(combined, per_criterion).rename(columns=names).round(3).astype(object)
    return table.where(table.notna(), "none")


def answer_measure(board: pd.DataFrame) -> str:
    """The measure of a leaderboard by which answers are compared with their cost: a judge's where there is one.

    Retrieval measures, which rank configurations, do not depend on the model that writes the answer.
    """
    for name in ANSWER_MEASURES:
        if name in board and board[name].notna().any():
            return name
    return "semantic_similarity"


_NONE = "none"


def label_findings(progress: pd.DataFrame, criterion: str, path: str) -> list[str]:
    """How far the labelling is, in sentences.

    Args:
        progress: annotator, picked, labelled, of; as from `ragbench.labelling.progress_table`.
        path: the sheet's name, as it is shown.
    """
    lines = []
    for annotator, rows in progress.groupby("annotator", sort=False):
        done, of = int(rows["labelled"].sum()), int(rows["of"].sum())
        lines.append(f"**{annotator}** has labelled **{done} of {of}** answers by {criterion} in `{path}`.")
        drawn = int(rows.loc[rows["picked"] == "random", "labelled"].sum())
        if done and drawn < 30:
            lines.append(
                f"{drawn} of these were drawn at random: `calibrate` has wide intervals below 30, and none below 10."
            )
    if len(set(progress["annotator"])) < 2:
        lines.append(
            "The agreement between people is unknown with labels of one person: ask a second one to label some too."
        )
    return lines


def judge_findings(agreement: pd.DataFrame, calibrated: pd.DataFrame) -> list[str]:
    """The agreement of judge and people, in sentences.

    Args:
        agreement: as from `judge_agreement`.
        calibrated: as from `calibrate`; may be empty.
    """
    lines = []
    overall = agreement[agreement["by"] == "all"]
    for criterion in dict.fromkeys(overall["criterion"]):
        own = overall[(overall["criterion"] == criterion) & (overall["statistic"] == "alpha")].set_index("between")
        judge = own.loc["judge-human"]
        shown = _with_interval(judge["value"], judge["ci_low"], judge["ci_high"])
        if pd.isna(judge["value"]):
            lines.append(f"By {criterion}, the agreement of judge and people is unknown: {judge['note']}.")
            continue
        line = f"By {criterion}, judge and people agree with alpha {shown} on {judge['n']} verdicts"
        if "human-human" in own.index and not pd.isna(own.loc["human-human", "value"]):
            people = own.loc["human-human"]
            line += f"; people among themselves with {people['value']:.2f} on {people['n']}, which is the ceiling"
        lines.append(f"{line}.")
    for row in calibrated.to_dict("records"):
        name = f" of `{row['configuration']}`" if row.get("configuration") else ""
        shown = _with_interval(row["estimate"], row["ci_low"], row["ci_high"])
        bias = row["judge_bias"]
        kinder = "as high as" if abs(bias) < 0.005 else f"{abs(bias):.2f} {'higher' if bias > 0 else 'lower'} than"
        lines.append(
            f"People would rate {row['n']} answers{name} {shown} by {row['criterion']}; the mean of the judge is "
            f"{row['judge_mean']:.2f}, on the labelled ones {kinder} people."
        )
    return lines


def _with_interval(value: Any, low: Any, high: Any) -> str:
    if pd.isna(value):
        return _NONE
    return f"{value:.2f}" if pd.isna(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"
