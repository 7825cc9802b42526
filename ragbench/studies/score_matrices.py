"""The scores of the chunking study as matrices: questions that real configurations answered."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ragbench.errors import DataError
from ragbench.files import read_json
from ragbench.studies.collections import collection_name

MEASURE = "span_recall@500tok"
"""The measure of the studies: evidence found in an equal 500 tokens."""

_CONFIGURATION = ["retriever", "chunker", "size", "overlap"]


def load_score_matrices(folder: str | Path, measure: str = MEASURE) -> dict[str, pd.DataFrame]:
    """Load the scores that `ragbench sweep notebooks/chunking.toml` wrote.

    Args:
        folder: the folder of that sweep, such as results/chunking.
        measure: one of the measures of the study.

    Returns:
        Name of the collection -> its scores, questions down (sorted by id), configurations across.

    Raises:
        DataError: the folder holds no such scores, or they lack the measure.
    """
    matrices = {}
    for path in sorted(Path(folder).glob("*/chunkings.parquet")):
        parameters = read_json(path.with_name("config.json"), "")["parameters"]
        name = collection_name(parameters["collection"], parameters["join_titles"])
        scores = pd.read_parquet(path)
        if measure not in scores:
            raise DataError(
                f"{path} has no {measure!r}; expected one of {', '.join(map(str, scores.columns))}"
            )
        matrix = scores.pivot(index="query_id", columns=_CONFIGURATION, values=measure)
        names = matrix.columns.to_frame(index=False).astype(str)
        matrix.columns = pd.Index(names.apply(" ".join, axis="columns"))
        matrices[name] = matrix.astype(float)
    if not matrices:
        raise DataError(
            f"{folder} holds no chunkings.parquet; expected the folder that `ragbench sweep "
            "notebooks/chunking.toml` wrote"
        )
    return dict(sorted(matrices.items()))
