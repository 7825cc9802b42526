"""Sentences about judges, and the people that they are compared with."""

from __future__ import annotations

from typing import Any

import pandas as pd

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
