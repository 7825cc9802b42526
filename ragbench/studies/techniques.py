"""Popular changes to retrieval, one at a time from a plain hybrid search, on several collections."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import DataWarning
from ragbench.evaluation import evaluate, spec_of, system_of
from ragbench.statistics import compare_all
from ragbench.studies.collections import stored_files
from ragbench.sweep.grid import read_grid
from ragbench.types import Dataset

MEASURES = ("span_recall@500tok", "span_recall@1000tok", "span_recall@2000tok", "span_recall@5")
"""Evidence found in an equal number of tokens, the first of which decides, and in five chunks."""

BASELINE = "plain hybrid"
"""The arm that the others are compared with: the first of the grid."""

_PLAIN = {"retriever": "hybrid:minilm", "chunker": "recursive", "chunk_size": 256}
_AXES = ("retriever", "fusion", "index_text", "diversity", "expand", "chunker", "chunk_size")


def arm_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of an arm: what it changes in the plain hybrid search.

    >>> arm_name({"retriever": "bm25", "chunker": "recursive", "chunk_size": 256})
    'retriever bm25'
    """
    changes = []
    for axis in _AXES:
        value = parameters.get(axis, "")
        if value not in ("", _PLAIN.get(axis)):
            changes.append(f"{axis} {value}")
    return ", ".join(changes) or BASELINE


def score_arms(data: Dataset, grid: str | Path = "techniques") -> pd.DataFrame:
    """Score every arm of a grid on a collection.

    Args:
        data: the collection.
        grid: a grid of `evaluate.ipynb`, by default notebooks/techniques.toml.

    Returns:
        Columns arm, query_id, the `MEASURES`, and `chunks` and `tokens`: of the index of that arm.
    """
    parts = []
    for parameters in read_grid(grid).runs.values():
        parameters = {**parameters, "results_dir": ""}
        with warnings.catch_warnings():  # minilm reads 256 tokens; said in the study's limits
            warnings.simplefilter("ignore", DataWarning)
            system = system_of(parameters, data)
            result = evaluate(data, system, spec_of(parameters), parameters=parameters)
        wide = result.scores.pivot(index="query_id", columns="measure", values="value")
        part = wide[list(MEASURES)].astype("float32").round(4).reset_index()
        part.insert(0, "arm", arm_name(parameters))
        part["chunks"] = int(result.facts["chunks"])
        part["tokens"] = round(result.facts["chunks"] * result.facts["tokens_mean"])
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def load_arms(folder: str | Path) -> dict[str, pd.DataFrame]:
    """Load the scores that `ragbench sweep notebooks/study_techniques.toml` wrote, by collection.

    Raises:
        DataError: the folder holds none.
    """
    paths = stored_files(folder, "arms.parquet", "notebooks/study_techniques.toml")
    return {name: pd.read_parquet(path) for name, path in paths.items()}


def compare_arms(arms: Mapping[str, pd.DataFrame], measure: str = MEASURES[0]) -> pd.DataFrame:
    """Compare each arm with the plain hybrid search, by `rb.statistics.compare_all`; the family of
    Holm's correction is the arms of one collection.

    Returns:
        Columns collection, arm, baseline, contender, difference, ci_low, ci_high, p_value,
        p_adjusted, decision, n; arms in the order of the grid.
    """
    tables = []
    for name, table in arms.items():
        frames = {}
        for arm, rows in table.groupby("arm", sort=False):
            scores = rows[["query_id", measure]].rename(columns={measure: "value"})
            frames[str(arm)] = scores.assign(measure=measure, value=scores["value"].astype(float))
        compared = pd.DataFrame(compare_all(frames, BASELINE, measures=measure))
        compared = compared.rename(columns={"name": "arm"}).assign(collection=name)
        tables.append(compared)
    columns = "collection arm baseline contender difference ci_low ci_high".split()
    columns += "p_value p_adjusted decision n".split()
    return pd.concat(tables, ignore_index=True)[columns]


def transfer(arms: Mapping[str, pd.DataFrame], measure: str = MEASURES[0]) -> pd.DataFrame:
    """Compute, for each ordered pair of collections, how well one chooses for the other.

    Returns:
        Columns chosen_on, used_on, `tau` (Kendall's tau-b between the two rankings of all arms),
        `best` (the best arm of the first collection), `its_rank` on the second, and `gain`: its
        difference from the plain hybrid search there.
    """
    from scipy.stats import kendalltau

    means = pd.DataFrame(
        {name: table.groupby("arm", sort=False)[measure].mean() for name, table in arms.items()}
    ).astype(float)
    rows = []
    for first, second in itertools.permutations(means.columns, 2):
        best = str(means[first].idxmax())
        ranks = means[second].rank(ascending=False, method="min").to_dict()
        values = means[second].to_dict()
        row = {
            "chosen_on": first,
            "used_on": second,
            "tau": float(kendalltau(means[first], means[second]).statistic),
            "best": best,
            "its_rank": int(ranks[best]),
            "gain": values[best] - values[BASELINE],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def costs(arms: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compute the size of each arm's index relative to the plain hybrid search: columns collection,
    arm, chunks, tokens, tokens_ratio.
    """
    tables = []
    for name, table in arms.items():
        index = table.groupby("arm", sort=False)[["chunks", "tokens"]].first()
        plain = index["tokens"].to_dict()[BASELINE]
        index["tokens_ratio"] = index["tokens"] / plain
        tables.append(index.reset_index().assign(collection=name))
    return pd.concat(tables, ignore_index=True)


def summarise_decisions(comparison: pd.DataFrame) -> pd.DataFrame:
    """Count the decisions on each arm over the collections, next to its mean difference.

    Returns:
        A row for each arm: mean difference, `smallest` and `largest` over the collections, and the
        number of collections with each decision; best first.
    """
    groups = comparison.groupby("arm", sort=False)["difference"]
    differences = groups.agg(["mean", "min", "max"]).astype(float)
    differences.columns = pd.Index(["mean difference", "smallest", "largest"])
    counts = pd.crosstab(comparison["arm"], comparison["decision"])
    order = ("better", "likely better", "within the margin", "undecided", "likely worse", "worse")
    counts = counts.reindex(columns=list(order), fill_value=0)
    table = differences.join(counts)
    return table.sort_values("mean difference", ascending=False, kind="stable")


def techniques_findings(comparison: pd.DataFrame, transferred: pd.DataFrame) -> list[str]:
    """Write what the comparison shows: how many of the tests decide, and how well the best arm of one
    collection does on the others.
    """
    decided = comparison[comparison["arm"] != BASELINE]["decision"].value_counts()
    counts = ", ".join(f"{n} {decision}" for decision, n in decided.items())
    better = comparison[comparison["decision"] == "better"]
    gains = "; ".join(
        f"{row['arm']} on {row['collection']} ({row['difference']:+.3f})"
        for _, row in better.iterrows()
    )
    tau = transferred["tau"]
    gain = transferred["gain"]
    n_loses = int((gain < 0).sum())
    return [
        f"Of {decided.sum()} comparisons with the plain hybrid search: {counts}.",
        f"Better by the safe tier: {gains or 'none'}.",
        f"The rankings of two collections agree with a Kendall's tau of {tau.min():.2f} to "
        f"{tau.max():.2f} (median {tau.median():.2f}).",
        f"The best arm of one collection gains {gain.mean():+.3f} on average on another one, and is "
        f"worse than the plain hybrid search there in {n_loses} of {len(gain)} cases.",
    ]
