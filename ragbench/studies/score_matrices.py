"""The scores of the chunking study as matrices: questions that real configurations answered."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ragbench.errors import DataError
from ragbench.studies.collections import stored_files

MEASURE = "span_recall@500tok"
"""The measure of the studies: evidence found in an equal 500 tokens."""

_CONFIGURATION = ["retriever", "chunker", "size", "overlap"]


def load_score_matrices(folder: str | Path, measure: str = MEASURE) -> dict[str, pd.DataFrame]:
    """Load the scores that `ragbench sweep notebooks/chunking.toml` wrote.

    Args:
        folder: the folder of that sweep, such as results/chunking.
        measure: one of the measures of the study.

    Returns:
        Name of the collection -> its scores, questions down (sorted by id), configurations across
        (named such as "bm25 fixed 512 0").

    Raises:
        DataError: the folder holds no such scores, or they lack the measure.
    """
    matrices = {}
    paths = stored_files(folder, "chunkings.parquet", "notebooks/chunking.toml")
    for collection, path in paths.items():
        scores = pd.read_parquet(path)
        if measure not in scores:
            raise DataError(
                f"{path} has no {measure!r}; expected one of {', '.join(map(str, scores.columns))}"
            )
        matrix = scores.pivot(index="query_id", columns=_CONFIGURATION, values=measure)
        matrix.columns = pd.Index([" ".join(map(str, levels)) for levels in matrix.columns])
        matrices[collection] = matrix.astype(float)
    return matrices
