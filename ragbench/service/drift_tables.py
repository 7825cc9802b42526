"""Tables and sentences of `history.ipynb` between its figures: which measures moved and when,
costs, categories.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.service.measure_trends import trend
from ragbench.statistics.drift import Change, Drift

_NEWEST = 7


def known_trends(
    measures: Iterable[str], *, series: str = "", client: str | None = None, database: str = ""
) -> dict[str, pd.DataFrame]:
    """Return measure -> its `trend`, with these options. A measure that no run has is left out."""
    trends = {}
    for measure in dict.fromkeys(measures):  # each once
        with suppress(ConfigError):
            trends[measure] = trend(measure, series=series, client=client, database=database)
    return trends


def drift_sentences(drifts: Mapping[str, Mapping[str, Drift]]) -> list[str]:
    """Return a sentence of Markdown on each measure and epoch that changed, or has enough runs to
    notice a change.

    Args:
        drifts: measure -> the id of the newest run of each epoch -> its drift, as from `drifts`.
    """
    sentences = []
    for measure, epochs in drifts.items():
        for drift in epochs.values():
            if drift.changes or drift.notice:
                sentences.append(f"**{measure}**: {drift.text}")
    return sentences or ["too few runs of any configuration"]


def change_table(drifts: Mapping[str, Mapping[str, Drift]]) -> pd.DataFrame:
    """Return one row for each change that was shown: measure, change ("fall" or "rise"), since,
    earliest and latest (they hold the date with 95 % confidence), noticed, before and after (means),
    questions (that moved most).

    Args:
        drifts: as for `drift_sentences`.
    """
    rows = []
    for measure, epochs in drifts.items():
        for drift in epochs.values():
            rows += [_change_row(measure, change) for change in drift.changes]
    return pd.DataFrame(rows).round(3)


def _change_row(measure: str, change: Change) -> dict[str, Any]:
    """Return a change of a measure as a row of `change_table`."""
    return {
        "measure": measure,
        "change": change.direction,
        "since": change.since,
        "earliest": change.earliest,
        "latest": change.latest,
        "noticed": change.noticed,
        "before": change.before,
        "after": change.after,
        "questions": ", ".join(change.questions),
    }


def cost_per_hundred(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the US dollars per 100 questions of each configuration: newest, oldest, mean.

    Args:
        runs: as from `history`, the newest first.
    """
    dollars = runs.assign(usd=100 * runs["cost_usd"] / runs["questions"])
    table = dollars.groupby("configuration")["usd"].agg(["first", "last", "mean"])
    return table.rename(columns={"first": "newest", "last": "oldest"}).round(4)


def category_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the fraction of questions that passed, by configuration and category, in the newest seven runs
    and in all earlier runs. The table has no row if no run has categories.

    Args:
        runs: as from `history`; `categories` is category -> [pass rate, number of questions].
    """
    rows = []
    for run in runs.to_dict("records"):
        for category, (pass_rate, *_) in run["categories"].items():
            rows.append((run["made_at"], run["configuration"], category, pass_rate))
    table = pd.DataFrame(rows, columns=["made_at", "configuration", "category", "pass_rate"])
    table = table.astype({"pass_rate": float}).dropna(subset=["pass_rate"])
    newest = sorted(table["made_at"].unique())[-_NEWEST:]
    is_newest = table["made_at"].isin(newest)
    table["when"] = is_newest.map({True: f"newest {_NEWEST}", False: "before"})
    rates = table.pivot_table("pass_rate", ["configuration", "category"], "when", "mean")
    return rates.round(3)
