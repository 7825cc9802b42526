"""The measures of contexts, answers and pipeline in one table, ordered by what they look at."""

from __future__ import annotations

import pandas as pd

from ragbench.registry import PERSPECTIVES, higher_is_better, meaning_of, perspective_of

_SHOWN = ("context", "groundedness", "pipeline", "overall")


def perspective_table(summary: pd.DataFrame) -> pd.DataFrame:
    """What was given, how well the answers rest on it, and how the pipeline behaved.

    Args:
        summary: as from `summarise`.

    Returns:
        perspective, measure, meaning, better ("higher" or "lower"), mean, ci_low, ci_high, scored ("scored/all");
        measures that nothing could be scored by are left out.
    """
    order = list(PERSPECTIVES)
    rows = [
        {
            "perspective": perspective_of(row["measure"]),
            "measure": row["measure"],
            "meaning": meaning_of(row["measure"]),
            "better": "higher" if higher_is_better(row["measure"]) else "lower",
            "mean": row["mean"],
            "ci_low": row["ci_low"],
            "ci_high": row["ci_high"],
            "scored": f"{row['n_scored']}/{row['n']}",
        }
        for row in summary.to_dict("records")
        if perspective_of(row["measure"]) in _SHOWN and row["n_scored"]
    ]
    columns = ["perspective", "measure", "meaning", "better", "mean", "ci_low", "ci_high", "scored"]
    rows.sort(key=lambda row: order.index(str(row["perspective"])))
    table = pd.DataFrame(rows, columns=columns)
    return table.astype(dict.fromkeys(["mean", "ci_low", "ci_high"], "Float64")).round(3)
