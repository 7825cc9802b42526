"""Measures of a ranking by people's labels, from labels of some queries and a model's of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.metrics import score_run
from ragbench.statistics.columns import by_measure
from ragbench.statistics.sequential import FIRST_LOOK, control_variates, sequence
from ragbench.types import Run

_COLUMNS = ["measure", "estimate", "ci_low", "ci_high", "by_model", "judged", "n_labelled", "n"]


def ranking_interval(
    run: Run,
    model: pd.DataFrame,
    people: pd.DataFrame,
    measures: Sequence[str] = ("nDCG@10", "P(rel=2)@10"),
    *,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Estimate what measures of a ranking would be by people's labels of all pairs.

    Queries are sampled at random, and people label all pairs of a sampled query that the model
    labelled. The measure by the model's labels of all queries is the control variate, so that its
    leniency cancels; see `ragbench.statistics.sequential`.

    Args:
        run: the ranking.
        model: query_id, doc_id, grade of all queries, as from `rb.judges.judge_relevance`.
        people: the same columns, of the sampled queries; 20 or more.
        measures: names with a cutoff, as in ir_measures.

    Returns:
        measure, estimate with ci_low and ci_high; next to it by_model, the naive mean, and judged,
        the Judged@k of people's labels over all queries; n_labelled queries and n.

    >>> ids = [f"q{i}" for i in range(100)]
    >>> run = {query_id: {"d": 1.0} for query_id in ids}
    >>> model = pd.DataFrame({"query_id": ids, "doc_id": "d", "grade": [3, 2, 3, 0] * 25})
    >>> people = model.assign(grade=[3, 0, 3, 0] * 25).head(40)
    >>> ranking_interval(run, model, people, ["P(rel=2)@1"])[["estimate", "by_model", "judged"]]
       estimate  by_model  judged
    0       0.5      0.75     0.4

    Raises:
        DataError: fewer than 20 queries of `model` have people's labels.
    """
    qrels = [
        {
            str(query_id): dict(zip(rows["doc_id"], rows["grade"].astype(int), strict=True))
            for query_id, rows in frame.dropna(subset="grade").groupby("query_id", sort=False)
        }
        for frame in (model, people)
    ]
    tables = [by_measure(score_run(labels, run, list(measures)), "scores") for labels in qrels]
    rows = []
    for measure, by_model in tables[0].items():
        labels = tables[1][measure].reindex(by_model.index).to_numpy(float)
        labelled = np.flatnonzero(~np.isnan(labels))
        if len(labelled) < FIRST_LOOK:
            raise DataError(
                f"{len(labelled)} of {len(labels)} queries have people's labels; an interval needs "
                f"{FIRST_LOOK}"
            )
        variates = control_variates(by_model.to_numpy(float)[:, None])
        [look] = sequence([labelled], labels, variates, alpha=alpha)
        limits = max(look.low, 0.0), min(look.high, 1.0)
        name = f"Judged@{measure.rpartition('@')[2]}"
        judged = score_run(qrels[1], run, [name])["value"].sum() / len(labels)
        rows.append((measure, look.estimate, *limits, by_model.mean(), judged, look.n, len(labels)))
    return pd.DataFrame(rows, columns=_COLUMNS)
