"""Pairs of chunkings: which of two is significantly better, in the data and in samples of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from ragbench.array_types import Bools, Floats, Ints
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
    n_documents = pd.Series({name: table["document"].nunique() for name, table in tables.items()})
    return {str(name): tables[str(name)] for name in n_documents.sort_values().index}


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
    """Draw samples of a collection: its documents, with replacement, each with all its questions. If there
    are fewer than 20 documents, the questions within them are drawn, too.

    The first sample is the data themselves. Then, with fewer than 20 documents only, one sample for each
    document alone; then the draws.

    Args:
        table: a table of `load_chunkings`; its columns query_id and document count here.
        draws: number of samples.
        rng: draws them.

    Returns:
        The samples as weights: how often each document counts in each sample, or how often each
        question counts if there are fewer than 20 documents.
    """
    # The number of the document of each question.
    documents = table.drop_duplicates("query_id")["document"].factorize(sort=True)[0]
    n_documents = int(documents.max()) + 1
    # How often each document is drawn: samples down, documents across.
    drawn = rng.multinomial(n_documents, np.full(n_documents, 1 / n_documents), size=draws)
    if n_documents >= ENOUGH_DOCUMENTS:
        return Samples(units=documents, weights=np.vstack([np.ones(n_documents), drawn]))
    # each question is a unit
    n_questions = len(documents)
    # documents down, questions across
    is_in_document = documents == np.arange(n_documents)[:, None]
    drawn_questions = _draw_questions(is_in_document, drawn, rng)
    weights = np.vstack([np.ones(n_questions), is_in_document, drawn_questions])
    return Samples(units=np.arange(n_questions), weights=weights)


def _draw_questions(is_in_document: Bools, times_drawn: Ints, rng: np.random.Generator) -> Floats:
    """Draw as many questions of each document as it has, for each time that the document was drawn.

    Args:
        is_in_document: documents down, questions across.
        times_drawn: samples down, documents across.
        rng: draws with replacement.

    Returns:
        How often each question is drawn: samples down, questions across.
    """
    weights = np.zeros((len(times_drawn), is_in_document.shape[1]))
    # of one document: how often it was drawn in each sample, and which questions are about it
    for times, is_inside in zip(times_drawn.T, is_in_document, strict=True):
        n_inside = is_inside.sum()
        equal_chances = np.full(n_inside, 1 / n_inside)
        weights[:, is_inside] = rng.multinomial(times * n_inside, equal_chances)
    return weights


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

    The test is Student's t on the paired differences, with Holm's correction over all pairs. It takes
    documents as independent, and not the questions about one document; if there are few documents, it
    takes questions as independent.

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
    for collection, table in tables.items():
        studied = table[table["size"].isin(SIZES)]
        # the same samples for all retrievers and measures of the collection
        samples = draw_samples(studied, draws, rng)
        for retriever, rows in studied.groupby("retriever"):
            for measure in _TESTED:
                scores = rows.pivot(index="query_id", columns=CHUNKING, values=measure).astype(
                    float
                )
                key = collection, str(retriever), measure
                tests[key] = _test_pairs(scores, samples, alpha)
    return tests


def _test_pairs(scores: pd.DataFrame, samples: Samples, alpha: float) -> PairTests:
    """Test for all pairs of chunkings, in each sample, which one is significantly better.

    Args:
        scores: questions down, chunkings across.
        samples: the data themselves first, then draws; with the units that a test takes as
            independent.
        alpha: level of all pairs of a sample together.
    """
    first, second = np.triu_indices(scores.shape[1], 1)  # the columns of each pair
    values = scores.to_numpy()
    means, errors = _clustered_means(values[:, first] - values[:, second], samples)
    # Means over errors are Student's t. A difference without an error (of equal chunkings) gets 0:
    # undecided.
    ratios = np.divide(means, errors, out=np.zeros_like(means), where=errors > 1e-9)
    degrees_of_freedom = samples.weights.shape[1] - 1
    signs = _significant_signs(ratios, degrees_of_freedom, alpha)
    return PairTests(scores.mean(), errors[0], signs)  # the first sample is the data themselves


def _clustered_means(differences: Floats, samples: Samples) -> tuple[Floats, Floats]:
    """Compute mean and clustered standard error of each difference in each sample.

    Clusters have unequal sizes, so a mean is the ratio of the sum of differences to the number of
    questions. Its variance is the variance of a ratio (Cochran 1977): the squares of (sum - mean * count),
    added over all clusters of a sample, times n / (n - 1) for n clusters. A cluster is a unit of the
    samples: a document with its questions, or a question. A unit that was drawn twice is two clusters.

    Args:
        differences: questions down, pairs across.
        samples: the number of the unit of each question, and how often each unit was drawn (samples
            down, units across).

    Returns:
        Two arrays, means and errors, samples down and pairs across. A sample with a single cluster
        has no error: it is NaN or infinite.
    """
    weights = samples.weights
    count = np.bincount(samples.units)[:, None]  # questions of each unit
    sums = np.zeros((len(count), differences.shape[1]))  # units down, pairs across
    np.add.at(sums, samples.units, differences)
    n_questions = weights @ count  # of each sample
    n_units = weights.sum(axis=1, keepdims=True)
    means = weights @ sums / n_questions
    # (sum - mean * count)^2 = sum^2 - 2 mean * sum * count + mean^2 * count^2
    squares = weights @ sums**2 - 2 * means * (weights @ (sums * count))
    squares = squares + means**2 * (weights @ count**2)
    variances_of_sums = np.maximum(squares, 0) * n_units / (n_units - 1)
    errors = np.sqrt(variances_of_sums) / n_questions
    return means, errors


def _significant_signs(ratios: Floats, degrees_of_freedom: int, alpha: float) -> Signs:
    """Mark significant ratios by their sign, by Holm's correction over each row.

    Args:
        ratios: mean / standard error, samples down and pairs across.
        degrees_of_freedom: of Student's t.
        alpha: level of a row.

    Returns:
        1 or -1 for a significant ratio, else 0.
    """
    n_pairs = ratios.shape[1]
    sizes = np.abs(ratios)
    largest_first = np.argsort(-sizes, axis=1)
    # Holm tests the largest of n ratios at alpha / n, the next one at alpha / (n - 1), and so on, and
    # stops at the first that is not beyond its critical value.
    levels = alpha / 2 / np.arange(n_pairs, 0, -1)
    critical = student.isf(levels, degrees_of_freedom)
    is_beyond = np.take_along_axis(sizes, largest_first, axis=1) > critical
    # True up to the first that is not beyond its critical value
    is_significant = np.logical_and.accumulate(is_beyond, axis=1)
    marks = np.zeros(ratios.shape, dtype=np.int8)
    # Back in the order of the pairs.
    np.put_along_axis(marks, largest_first, is_significant, axis=1)
    return marks * np.sign(ratios).astype(np.int8)
