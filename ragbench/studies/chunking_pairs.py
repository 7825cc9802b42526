"""Pairs of chunkings: which of two is significantly better, in the data and in samples of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from ragbench.array_types import Floats, Ints
from ragbench.studies.collections import stored_files

CHUNKING = ["chunker", "size", "overlap"]
"""The columns that name a chunking."""

BUDGETS = (500, 1000, 2000)
"""Tokens that two chunkings may fill where they are compared at an equal budget."""

SIZES = (64, 128, 256, 512, 1024)
"""Chunk sizes in tokens that the study compares; others are only shown next to published numbers."""

_TESTED = ("span_recall@5", "span_iou@5", *(f"span_recall@{tokens}tok" for tokens in BUDGETS))
ENOUGH_DOCUMENTS = 20
"""Documents from which on a test takes documents as units; below it, questions."""

Signs = npt.NDArray[np.int8]


def load_chunkings(sweep_dir: str | Path) -> dict[str, pd.DataFrame]:
    """Read the scores that `notebooks/chunking.ipynb` wrote for each collection.

    Args:
        sweep_dir: folder with a folder `*/chunkings.parquet` and its config.json for each collection.

    Returns:
        Name of the collection -> a row per question, retriever and chunking; the collection with the
        fewest documents first. Where documents were joined by title the name ends in "-articles".

    Raises:
        DataError: the folder holds no such scores.
    """
    tables = {}
    paths = stored_files(sweep_dir, "chunkings.parquet", "notebooks/chunking.toml")
    for name, path in paths.items():
        tables[name] = pd.read_parquet(path).sort_values("query_id", kind="stable")
    documents = pd.Series({name: table["document"].nunique() for name, table in tables.items()})
    return {str(name): tables[str(name)] for name in documents.sort_values().index}


@dataclass(frozen=True)
class Samples:
    """The data of one collection, its single documents and draws with replacement, as weights of units.

    A test takes units as independent: documents, or questions if a collection has fewer than 20
    documents.

    Attributes:
        units: number of the unit of each question, in the order of query ids.
        weights: how often each unit counts, samples down and units across: first the data
            themselves, then each single document if there are fewer than 20, then the draws.
    """

    units: Ints
    weights: Floats


def draw_samples(table: pd.DataFrame, draws: int, rng: np.random.Generator) -> Samples:
    """Draw documents with replacement; where a collection has fewer than 20, questions within them, too."""
    documents = table.drop_duplicates("query_id")["document"].factorize(sort=True)[0]
    n_documents = int(documents.max()) + 1
    drawn = rng.multinomial(n_documents, np.full(n_documents, 1 / n_documents), size=draws)
    if n_documents >= ENOUGH_DOCUMENTS:
        return Samples(documents, np.vstack([np.ones(n_documents), drawn]))
    n_questions = len(documents)
    single_documents = documents == np.arange(n_documents)[:, None]
    drawn_questions = np.zeros((draws, n_questions))
    for times, is_inside in zip(drawn.T, single_documents, strict=True):
        size = is_inside.sum()
        drawn_questions[:, is_inside] = rng.multinomial(times * size, np.full(size, 1 / size))
    weights = np.vstack([np.ones(n_questions), single_documents, drawn_questions])
    return Samples(np.arange(n_questions), weights)


@dataclass(frozen=True)
class PairTests:
    """All pairs of the chunkings of one collection, searched by one retriever, in one measure.

    Attributes:
        means: mean score of each chunking.
        errors: standard error of the difference of each pair, in the data.
        signs: samples down, pairs across: 1 if the first chunking of a pair is significantly
            better, -1 if the second is, 0 if undecided.
    """

    means: pd.Series
    errors: Floats
    signs: Signs


def compare_chunkings(
    tables: Mapping[str, pd.DataFrame], *, alpha: float, draws: int, seed: int = 0
) -> dict[tuple[str, str, str], PairTests]:
    """Test all pairs of chunkings of each collection and retriever, in recall and IoU at k = 5 and at
    equal budgets.

    The test is Student's t on the paired differences, clustered by unit (`Samples`), with Holm's
    correction over all pairs.

    Args:
        tables: as `load_chunkings` returns them.
        alpha: level of each family of pairs.
        draws: samples with replacement, for intervals.
        seed: of the draws.

    Returns:
        (collection, retriever, measure) -> the tests.
    """
    rng = np.random.default_rng(seed)
    tests = {}
    for name, table in tables.items():
        studied = table[table["size"].isin(SIZES)]
        samples = draw_samples(studied, draws, rng)
        for retriever, rows in studied.groupby("retriever"):
            for measure in _TESTED:
                scores = rows.pivot(index="query_id", columns=CHUNKING, values=measure)
                tests[name, str(retriever), measure] = _test_pairs(
                    scores.astype(float), samples, alpha
                )
    return tests


def _test_pairs(scores: pd.DataFrame, samples: Samples, alpha: float) -> PairTests:
    first, second = np.triu_indices(scores.shape[1], 1)
    values = scores.to_numpy()
    means, errors = _clustered_means(values[:, first] - values[:, second], samples)
    ratios = np.divide(means, errors, out=np.zeros_like(means), where=errors > 1e-9)
    degrees = samples.weights.shape[1] - 1
    return PairTests(scores.mean(), errors[0], _significant_signs(ratios, degrees, alpha))


def _clustered_means(differences: Floats, samples: Samples) -> tuple[Floats, Floats]:
    """Compute mean and clustered standard error of each difference in each sample.

    The variance of a mean of clusters of unequal size is the variance of the ratio sum / count: the
    squares of (sum - mean * count), over all clusters of a sample.

    Args:
        differences: questions down, pairs across.
        samples: their units.

    Returns:
        Two arrays, samples down and pairs across.
    """
    weights = samples.weights
    count = np.bincount(samples.units)[:, None]
    sums = np.zeros((len(count), differences.shape[1]))
    np.add.at(sums, samples.units, differences)
    total = weights @ count
    n_units = weights.sum(axis=1, keepdims=True)
    means = weights @ sums / total
    squares = weights @ sums**2 - 2 * means * (weights @ (sums * count))
    squares = squares + means**2 * (weights @ count**2)
    errors = np.sqrt(np.maximum(squares, 0) * n_units / (n_units - 1)) / total
    return means, errors


def _significant_signs(ratios: Floats, degrees: int, alpha: float) -> Signs:
    """Mark significant ratios (mean / standard error) by their sign, by Holm's correction over a row."""
    n_pairs = ratios.shape[1]
    critical = student.isf(alpha / 2 / np.arange(n_pairs, 0, -1), degrees)
    largest_first = np.argsort(-np.abs(ratios), axis=1)
    is_beyond = np.take_along_axis(np.abs(ratios), largest_first, axis=1) > critical
    # Holm stops at the first pair that is not beyond its critical value.
    is_significant = np.logical_and.accumulate(is_beyond, axis=1)
    signs = np.zeros(ratios.shape, dtype=np.int8)
    np.put_along_axis(signs, largest_first, is_significant, axis=1)
    return signs * np.sign(ratios).astype(np.int8)
