"""Popular changes to retrieval, one at a time from a plain hybrid search, on several collections."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataWarning
from ragbench.evaluation import system_of
from ragbench.metrics import score_spans
from ragbench.retrieval.steps.index_text import index_texts
from ragbench.statistics import compare_all
from ragbench.studies.collections import stored_files
from ragbench.sweep.grid import read_grid
from ragbench.systems import Pipeline
from ragbench.text import count_tokens
from ragbench.types import Chunk, Dataset, Run

BUDGETS = (500, 1000, 2000)
"""Tokens that are handed over."""

N_PASSAGES = 5
"""Passages that are handed over where no budget ends them."""

MEASURES = ("span_recall@500tok", "span_recall@1000tok", "span_recall@2000tok", "span_recall@5")
"""Evidence found in an equal number of tokens, the first of which decides, and in five chunks."""

N_SAMPLES = 200
"""Samples of questions for the spread of Kendall's tau."""

BASELINE = "plain hybrid"
"""The arm that the others are compared with: the first of the grid."""

_PLAIN = {"retriever": "hybrid:minilm", "chunker": "recursive", "chunk_size": 256}
_AXES = ("retriever", "fusion", "index_text", "diversity", "expand", "chunker", "chunk_size")


def arm_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of an arm: its change to the plain hybrid search.

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
    """Score every arm of a grid, which is a configuration of the search, on a collection.

    Args:
        data: the collection.
        grid: a grid of `evaluate.ipynb`, by default notebooks/techniques.toml.

    Returns:
        Columns arm, query_id, the `MEASURES`, and costs: `chunks` and `tokens` of its index (titles
        and headings before a chunk included), and `handed_over`, the mean number of tokens in the
        best five passages of a question.

    Raises:
        ConfigError: the grid names a system, which has no index to measure.
    """
    # only in these documents can a passage hold evidence
    gold_documents = {span.doc_id for case in data.cases for span in case.evidence}
    tables = []
    for parameters in read_grid(grid).runs.values():
        pipeline, run = _retrieve(parameters, data, grid)
        passages = pipeline.passages(gold_documents)
        scores = score_spans(data, run, passages, ks=[N_PASSAGES], budgets=BUDGETS)
        # a row per question, a column per measure; then the costs, the same in all rows
        wide = scores.pivot(index="query_id", columns="measure", values="value")
        table = wide[list(MEASURES)].astype("float32").round(4).reset_index()
        table.insert(0, "arm", arm_name(parameters))
        table["chunks"] = len(pipeline.chunks)
        table["tokens"] = _tokens_of_index(pipeline, data, parameters.get("index_text", ""))
        table["handed_over"] = _tokens_handed_over(run, passages)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _retrieve(
    parameters: Mapping[str, Any], data: Dataset, grid: str | Path
) -> tuple[Pipeline, Run]:
    """Make the pipeline of an arm, and search for all questions.

    Raises:
        ConfigError: the parameters name another system than ragbench's own pipeline.
    """
    with warnings.catch_warnings():  # minilm reads 256 tokens; stated in the study's limits
        warnings.simplefilter("ignore", DataWarning)
        pipeline = system_of(parameters, data)
        if not isinstance(pipeline, Pipeline):
            raise ConfigError(
                f"{grid} names the system {pipeline!r}; expected a grid of ragbench's own pipeline"
            )
        return pipeline, pipeline.retrieve(data.queries)


def _tokens_of_index(pipeline: Pipeline, data: Dataset, index_text: str) -> int:
    """Count the tokens of all texts that are indexed.

    They are the chunks of the pipeline; with `index_text` ("" for none), the longer texts that it
    puts in their place, such as a chunk with its title.
    """
    indexed: Sequence[Chunk] = pipeline.chunks
    if index_text:
        indexed, _ = index_texts(pipeline.chunks, data.corpus, index_text)
    return sum(count_tokens([chunk.text for chunk in indexed]))


def _tokens_handed_over(run: Run, passages: Sequence[Chunk]) -> float:
    """Compute the mean number of tokens in the best `N_PASSAGES` passages of a question.

    Args:
        run: query_id -> passage id -> score, the best passage first.
        passages: the passages, with their texts.
    """
    # the ids of the best passages of each question; a run has the best one first
    best_ids = [list(scores)[:N_PASSAGES] for scores in run.values()]
    all_best_ids = set().union(*best_ids)
    # each text is counted once, although several questions may find it
    texts = {
        passage.chunk_id: passage.text for passage in passages if passage.chunk_id in all_best_ids
    }
    n_tokens = dict(zip(texts, count_tokens(list(texts.values())), strict=True))
    totals = [sum(n_tokens[passage_id] for passage_id in ids) for ids in best_ids]
    return round(sum(totals) / len(totals), 1)


def load_arms(folder: str | Path) -> dict[str, pd.DataFrame]:
    """Load the scores that `ragbench sweep notebooks/study_techniques.toml` wrote, by collection.

    Raises:
        DataError: the folder holds none.
    """
    paths = stored_files(folder, "arms.parquet", "notebooks/study_techniques.toml")
    return {name: pd.read_parquet(path) for name, path in paths.items()}


def compare_arms(arms: Mapping[str, pd.DataFrame], measure: str = MEASURES[0]) -> pd.DataFrame:
    """Compare each arm (a configuration of the search) with the plain hybrid search on each collection,
    by `rb.statistics.compare_all`. P-values are corrected (Holm) for the number of arms.

    Args:
        arms: collection -> the scores of all arms on it, as of `load_arms`.
        measure: the column to compare by.

    Returns:
        Columns collection, arm, baseline, contender, difference, ci_low, ci_high, p_value,
        p_adjusted, decision, n; arms in the order of the grid.
    """
    tables = []
    for collection, scores in arms.items():
        scores_by_arm = {}
        for arm, rows in scores.groupby("arm", sort=False):
            values = rows[measure].astype(float)
            scores_by_arm[str(arm)] = rows[["query_id"]].assign(value=values, measure=measure)
        compared = pd.DataFrame(compare_all(scores_by_arm, BASELINE, measures=measure))
        tables.append(compared.rename(columns={"name": "arm"}).assign(collection=collection))
    columns = "collection arm baseline contender difference ci_low ci_high".split()
    columns += "p_value p_adjusted decision n".split()
    return pd.concat(tables, ignore_index=True)[columns]


def differences_by_collection(comparison: pd.DataFrame) -> pd.DataFrame:
    """Write how each arm (a configuration of the search) differs from the plain hybrid search on each
    collection, with the 95 % interval and the decision: "+0.031 [+0.002, +0.060] better".

    Args:
        comparison: as of `compare_arms`.

    Returns:
        A row for each arm, best mean difference first, and a column for each collection.
    """
    texts = [
        f"{row['difference']:+.3f} [{row['ci_low']:+.3f}, {row['ci_high']:+.3f}] {row['decision']}"
        for _, row in comparison.iterrows()
    ]
    table = comparison.assign(text=texts).pivot(index="arm", columns="collection", values="text")
    means = comparison.groupby("arm")["difference"].mean().astype(float)
    return table.loc[means.sort_values(ascending=False, kind="stable").index]


def transfer(arms: Mapping[str, pd.DataFrame], measure: str = MEASURES[0]) -> pd.DataFrame:
    """Compute how well one collection chooses an arm for another one, for each pair in both
    directions. An arm is a configuration of the search.

    Args:
        arms: collection -> the scores of all arms on it, as of `load_arms`.
        measure: the column to rank arms by.

    Returns:
        Columns chosen_on, used_on, `tau` (Kendall's tau-b between the two rankings of all arms),
        `tau_low` and `tau_high`: the middle 95 % of the taus of 200 pairs of samples of questions,
        drawn with replacement; `best` (the best arm of the first collection), `its_rank` on the
        second, and `gain`: its difference from the plain hybrid search there.
    """
    from scipy.stats import kendalltau

    # collection -> scores, questions down and arms across
    matrices = {
        collection: table.pivot(index="query_id", columns="arm", values=measure).astype(float)
        for collection, table in arms.items()
    }
    means = pd.DataFrame({collection: matrix.mean() for collection, matrix in matrices.items()})
    rows = []
    for chosen_on, used_on in itertools.permutations(means.columns, 2):
        # Sorted, so that both directions of a pair have the same samples.
        first, second = sorted((chosen_on, used_on))
        tau_low, tau_high = _spread_of_tau(matrices[first], matrices[second])
        row = {
            "chosen_on": chosen_on,
            "used_on": used_on,
            "tau": float(kendalltau(means[chosen_on], means[used_on]).statistic),
            "tau_low": tau_low,
            "tau_high": tau_high,
        }
        rows.append(row | _best_elsewhere(means[chosen_on], means[used_on]))
    return pd.DataFrame(rows)


def _best_elsewhere(means_here: pd.Series, means_there: pd.Series) -> dict[str, object]:
    """Return how the best arm on one collection does on another one: `best`, its name; `its_rank` there;
    and `gain`, its difference there from the plain hybrid search. An arm is a configuration of the
    search; `means_here` and `means_there` have the mean score of each.
    """
    best = str(means_here.idxmax())
    ranks_there = means_there.rank(ascending=False, method="min")
    return {
        "best": best,
        "its_rank": int(ranks_there.loc[best]),
        "gain": means_there.loc[best] - means_there.loc[BASELINE],
    }


def _spread_of_tau(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float]:
    """Return how far chance moves the agreement of two rankings of arms: the ends of the middle 95
    % of Kendall's tau if the questions are drawn anew, with replacement. Tau is 1 for equal
    rankings.

    Args:
        first: scores on one collection, questions down and arms across.
        second: scores on the other one, likewise.
    """
    from scipy.stats import kendalltau

    rng = np.random.default_rng(0)
    taus = []
    for _ in range(N_SAMPLES):
        sampled_means = []
        for matrix in (first, second):
            questions = rng.integers(0, len(matrix), len(matrix))
            sampled_means.append(matrix.iloc[questions].mean())
        taus.append(kendalltau(*sampled_means).statistic)
    low, high = np.nanquantile(taus, [0.025, 0.975])
    return float(low), float(high)


def costs(arms: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compute the cost of each arm in tokens, also as a multiple of the cost of the plain hybrid
    search. An arm is a configuration of the search.

    Args:
        arms: collection -> the scores of all arms on it, as of `load_arms`.

    Returns:
        Columns arm, chunks, tokens, handed_over (as `score_arms`), tokens_ratio, handed_over_ratio,
        collection.
    """
    tables = []
    for collection, table in arms.items():
        # The costs of an arm are the same in each of its rows.
        cost = table.groupby("arm", sort=False)[["chunks", "tokens", "handed_over"]].first()
        for column in ("tokens", "handed_over"):
            cost_of_baseline = cost[column].to_dict()[BASELINE]
            cost[f"{column}_ratio"] = cost[column] / cost_of_baseline
        tables.append(cost.reset_index().assign(collection=collection))
    return pd.concat(tables, ignore_index=True)


def summarise_decisions(comparison: pd.DataFrame) -> pd.DataFrame:
    """Count for each arm on how many collections it was better, worse or undecided, next to its
    mean difference from the plain hybrid search. An arm is a configuration of the search.

    Args:
        comparison: as of `compare_arms`.

    Returns:
        A row for each arm: mean difference, `smallest` and `largest` over the collections, and the
        number of collections with each decision; best first.
    """
    by_arm = comparison.groupby("arm", sort=False)["difference"]
    differences = by_arm.agg(["mean", "min", "max"]).astype(float)
    differences.columns = pd.Index(["mean difference", "smallest", "largest"])
    order = ["better", "likely better", "within the margin", "undecided", "likely worse", "worse"]
    # arms down, decisions across: numbers of collections; a decision that never occurs gets zeros
    counts = pd.crosstab(comparison["arm"], comparison["decision"])
    counts = counts.reindex(columns=order, fill_value=0)
    table = differences.join(counts)
    return table.sort_values("mean difference", ascending=False, kind="stable")


def techniques_findings(comparison: pd.DataFrame, transferred: pd.DataFrame) -> list[str]:
    """Write the findings of the comparison as four sentences: how many comparisons have each decision,
    which arms (configurations of the search) are better, how far the rankings of two collections
    agree, and how well the best arm of one collection does on another.

    "By the safe tier" in the sentences means: decided by a test that holds for every distribution of
    the scores; these decisions are "better" and "worse", without "likely".

    Args:
        comparison: as of `compare_arms`: a row for each arm but the plain hybrid search itself.
        transferred: as of `transfer`.
    """
    n_of_decision = comparison["decision"].value_counts()
    counts = ", ".join(f"{n} {decision}" for decision, n in n_of_decision.items())
    better_rows = comparison[comparison["decision"] == "better"]
    gains = [
        f"{row['arm']} on {row['collection']} ({row['difference']:+.3f})"
        for row in better_rows.to_dict("records")
    ]
    tau = transferred["tau"]
    # The decision on the best arm of one collection, on each other collection. If the best arm is the
    # plain hybrid search, it has no row here: it counts as a case, and is neither better nor worse.
    elsewhere = transferred.merge(
        comparison, left_on=["best", "used_on"], right_on=["arm", "collection"]
    )
    n_better = (elsewhere["decision"] == "better").sum()
    n_worse = (elsewhere["decision"] == "worse").sum()
    return [
        f"Of {n_of_decision.sum()} comparisons with the plain hybrid search: {counts}.",
        f"Better by the safe tier: {'; '.join(gains) or 'none'}.",
        f"The rankings of two collections agree with a Kendall's tau of {tau.min():.2f} to "
        f"{tau.max():.2f} (median {tau.median():.2f}).",
        f"The best arm of one collection, used on another one, is better than the plain hybrid search "
        f"there in {n_better} of {len(transferred)} cases, and worse in {n_worse}, by the safe tier.",
    ]
