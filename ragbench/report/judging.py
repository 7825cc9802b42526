"""Tables and sentences about judges and the people they are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
            "With the labels of one person nobody knows how far people agree: ask a second one to label some too."
        )
    return lines


def people_table(agreement: pd.DataFrame) -> pd.DataFrame:
    """`judge_agreement` as a table to read: one row per criterion, group and pair of raters, all text.

    Returns:
        criterion, group, between, answers (pairs of verdicts), then each statistic as "0.75 [0.60, 0.88]", or "none"
        where it cannot be had.
    """
    import pandas as pd

    keys = ["criterion", "by", "group", "between"]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in agreement.to_dict("records"):
        key = tuple(str(row[name]) for name in keys)
        group = "all" if row["by"] == "all" else f"{row['by']} {row['group']}"
        about = {"criterion": key[0], "group": group, "between": key[3], "answers": str(row["n"])}
        rows.setdefault(key, about)[row["statistic"]] = _with_interval(row["value"], row["ci_low"], row["ci_high"])
    return pd.DataFrame(list(rows.values())).fillna(_NONE)


def calibration_table(calibrated: pd.DataFrame) -> pd.DataFrame:
    """`calibrate` or `calibrate_difference` as a table to read, all text.

    Returns:
        criterion, configuration (or baseline and contender), people (of all answers, with interval), judge, labels
        (alone, with interval), labelled ("40 of 200"), note.
    """
    import pandas as pd

    names = [name for name in ("criterion", "configuration", "baseline", "contender") if name in calibrated]
    rows = [
        {
            **{name: str(row[name]) for name in names},
            "people": _with_interval(row["estimate"], row["ci_low"], row["ci_high"]),
            "judge": f"{row['judge_mean']:.2f}",
            "labels": _with_interval(row["labels_mean"], row["labels_low"], row["labels_high"]),
            "labelled": f"{row['n_labelled']} of {row['n']}",
            "note": row["note"],
        }
        for row in calibrated.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=[*names, "people", "judge", "labels", "labelled", "note"])


def judge_findings(agreement: pd.DataFrame, calibrated: pd.DataFrame) -> list[str]:
    """What people's labels say about the judge, in sentences.

    Args:
        agreement: as from `judge_agreement`.
        calibrated: as from `calibrate`; may be empty.
    """
    import pandas as pd

    lines = []
    overall = agreement[agreement["by"] == "all"]
    for criterion in dict.fromkeys(overall["criterion"]):
        own = overall[(overall["criterion"] == criterion) & (overall["statistic"] == "alpha")].set_index("between")
        judge = own.loc["judge-human"]
        said = _with_interval(judge["value"], judge["ci_low"], judge["ci_high"])
        if pd.isna(judge["value"]):
            lines.append(f"By {criterion}, agreement of judge and people cannot be told: {judge['note']}.")
            continue
        line = f"By {criterion}, judge and people agree with alpha {said} on {judge['n']} verdicts"
        if "human-human" in own.index and not pd.isna(own.loc["human-human", "value"]):
            people = own.loc["human-human"]
            line += f"; people among themselves with {people['value']:.2f} on {people['n']}, which is the ceiling"
        lines.append(f"{line}.")
    for row in calibrated.to_dict("records"):
        name = f" of `{row['configuration']}`" if row.get("configuration") else ""
        said = _with_interval(row["estimate"], row["ci_low"], row["ci_high"])
        bias = row["judge_bias"]
        kinder = "as high as" if abs(bias) < 0.005 else f"{abs(bias):.2f} {'higher' if bias > 0 else 'lower'} than"
        lines.append(
            f"People would rate {row['n']} answers{name} {said} by {row['criterion']}; the judge says "
            f"{row['judge_mean']:.2f}, on the labelled ones {kinder} people."
        )
    return lines


def _with_interval(value: Any, low: Any, high: Any) -> str:
    import pandas as pd

    if pd.isna(value):
        return _NONE
    return f"{value:.2f}" if pd.isna(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"
