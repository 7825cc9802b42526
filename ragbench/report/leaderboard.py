"""The leaderboard for readers: headings, digits and columns of the ranking measure, the difference
from the baseline, the cost; `evaluation/results` has the rows.

Every other measure is a column of `Results.leaderboard`, which a sweep writes to leaderboard.csv.
"""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from ragbench.evaluation.results import judged_at_k_columns
from ragbench.registry import own_names
from ragbench.report.failure_tables import markdown_table, plain
from ragbench.statistics import p_text
from ragbench.statistics.comparison import with_interval

COSTS = {
    "cost_per_1000_usd": ("cheapest", "dollars per 1,000 questions"),
    "latency_p50_ms": ("quickest to answer", "ms per answer, median"),
    "latency_p95_ms": ("quickest at its slowest", "ms per answer, 95th percentile"),
    "search_ms": ("fastest to search", "ms per search"),
    "chunks": ("smallest", "chunks in the index"),
}
"""Column of the leaderboard -> word for the configuration with the least of it, and its unit."""

_COSTS = {
    "latency_p50_ms": ("p50 (ms)", "{:,.1f}"),
    "latency_p95_ms": ("p95 (ms)", "{:,.1f}"),
    "cost_per_1000_usd": ("dollars per 1,000 questions", "{:,.2f}"),
}


def leaderboard_rows(
    board: pd.DataFrame, measure: str, comparison: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the leaderboard as texts, one row for each configuration, best first.

    Args:
        board: as from `Results.leaderboard`.
        measure: the measure that ranks it.
        comparison: as from `Results.compare` by that measure; None leaves out the differences.

    Returns:
        Columns: "#" (the rank), configuration, the measure with its 95 % interval, scored; with a
        comparison also the difference from the baseline, decision, p (Holm), better and worse
        questions; nDCG@10, Judged@k and the user's own measures if known; latency and cost.
    """
    ranks = board["rank"].astype(object).where(board["rank"].notna(), "unranked")
    columns: dict[str, object] = {
        "#": ranks.astype(str),
        "configuration": board["label"],
        f"{measure} (ranked by)": _means_with_intervals(board, measure),
        "scored": board[f"{measure}_n"],
    }
    if comparison is not None:
        columns |= _comparison_columns(board, comparison)
    for name in ("nDCG@10", *judged_at_k_columns(board), *own_names()):
        if name in board and name != measure:
            columns[name] = _means_with_intervals(board, name)
    for cost, (heading, form) in _COSTS.items():
        columns[heading] = [
            "unknown" if pd.isna(amount) else form.format(amount) for amount in board[cost]
        ]
    return pd.DataFrame(columns)


def _comparison_columns(board: pd.DataFrame, comparison: pd.DataFrame) -> dict[str, object]:
    """Return heading -> texts of the columns that compare with the baseline, in the order of the board.

    Args:
        board: the leaderboard; its `name` is the name of a configuration.
        comparison: as from `Results.compare`; it has no row of the baseline.
    """
    changes = board[["name"]].merge(comparison, on="name", how="left")
    better_worse = []
    for wins, losses in zip(changes["wins"], changes["losses"], strict=True):
        better_worse.append("–" if pd.isna(wins) else f"{wins:.0f} / {losses:.0f}")
    return {
        "difference from the baseline": _differences(changes, set(comparison["name"])),
        "decision": changes["decision"].fillna("").to_numpy(),
        "p (Holm)": changes["p_adjusted"].map(p_text).to_numpy(),
        "better / worse": better_worse,
    }


def _differences(changes: pd.DataFrame, compared: Collection[str]) -> list[str]:
    """Return the difference of each row with its interval, as a text such as "+0.031 [+0.010,
    +0.052]".

    A configuration that is not among the names in `compared` is the baseline: its text is
    "baseline".
    """
    texts = []
    columns = changes[["name", "difference", "ci_low", "ci_high"]]
    for name, difference, low, high in columns.itertuples(index=False):
        if name in compared:
            texts.append(with_interval(difference, low, high, "{:+.3f}"))
        else:
            texts.append("baseline")
    return texts


def leaderboard_markdown(
    board: pd.DataFrame, measure: str, comparison: pd.DataFrame | None = None
) -> str:
    """Write `leaderboard_rows` as a Markdown table."""
    rows = leaderboard_rows(board, measure, comparison)
    rows["configuration"] = rows["configuration"].map(plain)
    return f"{markdown_table(rows.columns.tolist(), rows.astype(str).to_numpy().tolist())}\n"


def _means_with_intervals(board: pd.DataFrame, measure: str) -> pd.Series[str]:
    """Return each mean with its interval, if it has one (as a single question has not)."""
    columns = board[[measure, f"{measure}_ci_low", f"{measure}_ci_high"]]
    texts = [with_interval(*row) for row in columns.itertuples(index=False)]
    return pd.Series(texts, index=board.index).replace("–", "unscored")
