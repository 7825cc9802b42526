"""Tables and sentences to decide by: what matters, what is proven good enough, what is worth its
price.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ragbench.evaluation import Result
from ragbench.evaluation.results import check_comparable, configurations, only
from ragbench.registry import higher_is_better
from ragbench.report.failures import plain
from ragbench.statistics import within_margin

# column of the leaderboard -> what least of it is called, its unit
COSTS = {
    "cost_per_1000_usd": ("cheapest", "dollars per 1,000 questions"),
    "latency_p50_ms": ("quickest to answer", "ms until half of the answers are complete"),
    "latency_p95_ms": ("quickest at its slowest", "ms until 95 % of the answers are complete"),
    "search_ms": ("fastest to search", "ms per search"),
    "chunks": ("smallest", "chunks in the index"),
}


def known_costs(board: pd.DataFrame) -> list[str]:
    """Return the cost columns of a leaderboard that are known and differ: those one can choose by."""
    return [name for name in COSTS if name in board and board[name].nunique(dropna=True) > 1]


def margin_decisions(
    results: Sequence[Result],
    board: pd.DataFrame,
    *,
    measure: str,
    margin: float = 0.02,
) -> tuple[pd.DataFrame, list[str]]:
    """Return which configurations are proven within a margin of the best, and the one that costs
    least of each known cost.

    Args:
        results: the configurations.
        board: as from `leaderboard`: name and the columns of `COSTS`.
        measure: what "best" means.
        margin: the loss that you would not notice.

    Returns:
        label, mean, difference (from the best mean), p_adjusted, proven, n and the known costs,
        best first; and one sentence per cost. No sentence takes a difference that is not
        significant for a proof of equality.
    """
    check_comparable(results)
    scored = [result for result in results if only(result.scores, measure)["value"].notna().any()]
    columns = ["label", "mean", "difference", "p_adjusted", "proven", "n"]
    if len(scored) < 2:
        return pd.DataFrame(columns=columns), [
            f"Fewer than two configurations are scored by {measure}: there is nothing to decide "
            "between."
        ]
    table = configurations(results)
    twice = table["label"].duplicated(keep=False)
    label = table["label"].where(~twice, table["name"]).set_axis(table["name"])
    scores = {plain(label[result.name]): result.scores for result in scored}
    costs = known_costs(board)
    rows = board.assign(label=board["name"].map(label)).set_index("label")
    sentences = []
    for cost in costs:
        word, unit = COSTS[cost]
        amounts = dict(zip(map(plain, rows.index), rows[cost], strict=True))
        choice = within_margin(scores, amounts, margin, measure=measure, word=word)
        sentences.append(choice.sentence.replace("cost ", f"{unit}: ", 1 if choice.chosen else 0))
    table = within_margin(scores, dict.fromkeys(scores, 0.0), margin, measure=measure).table
    table["label"] = table["name"].map({plain(text): text for text in label})
    order = [not higher_is_better(measure), True]
    table = table.sort_values(["difference", "label"], ascending=order, ignore_index=True)
    return table[columns].join(rows[costs], on="label"), list(dict.fromkeys(sentences))
