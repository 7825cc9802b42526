"""What a sweep decides: sentences from the data, nothing claimed that is not proven, other data
refused.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ragbench import report
from ragbench.evaluation import Result, Results


def result(
    name: str, values: np.ndarray, *, fingerprint: str = "f", chunks: int = 10, **parameters: object
) -> Result:
    scores = pd.DataFrame(
        {"query_id": [f"q{i}" for i in range(len(values))], "measure": "nDCG@10", "value": values}
    )
    config = {
        "parameters": {
            "retriever": name.partition("-")[0],
            "chunker": "fixed",
            "chunk_size": 128,
            **parameters,
        },
        "dataset": {"fingerprint": fingerprint},
        "facts": {"chunks": chunks, "search_ms": float(chunks)},
        "environment": {},
        "questions": {f"q{i}": f"Question {i}?" for i in range(len(values))},
    }
    run = {f"q{i}": {"d1": 1.0} for i in range(len(values))}
    return Result(name, config, run, scores)


def sweep(n: int = 100) -> list[Result]:
    rng = np.random.default_rng(0)
    good = rng.beta(2, 2, n)
    return [
        result("bm25", good * 0.5, chunks=5),
        result("dense", np.clip(good + rng.normal(0, 0.02, n), 0, 1), chunks=20),
        result("hybrid", good, chunks=80),
    ]


def test_the_smallest_proven_within_the_margin() -> None:
    results = sweep(600)
    board = Results(results).leaderboard("nDCG@10")
    table, sentences = report.margin_decisions(results, board, measure="nDCG@10", margin=0.02)
    assert table["label"].str.startswith(("dense", "hybrid", "bm25")).all()
    assert table["proven"].tolist() == [True, True, False]
    assert len(sentences) == 2  # by the time to search, and by the chunks in the index
    assert sentences[0].startswith(
        "The fastest to search of 3 configurations proven to be within 0.02 of the best by "
        "nDCG@10 is dense"
    )
    assert "chunks in the index: 20" in sentences[1]
    assert table["chunks"].tolist() in ([20, 80, 5], [80, 20, 5])


def test_costs_that_are_unknown_or_all_the_same_decide_nothing() -> None:
    results = [result("bm25", np.linspace(0, 1, 60)), result("dense", np.linspace(0, 1, 60))]
    board = Results(results).leaderboard("nDCG@10")
    assert report.known_costs(board) == []
    table, sentences = report.margin_decisions(results, board, measure="nDCG@10")
    assert sentences == []
    assert table["proven"].tolist() == [False, False], (
        "60 ties do not show that no question differs"
    )


def test_one_configuration_is_nothing_to_decide_between() -> None:
    one = sweep()[:1]
    board = Results(one).leaderboard("nDCG@10")
    table, sentences = report.margin_decisions(one, board, measure="nDCG@10")
    assert table.empty
    assert sentences == [
        "Fewer than two configurations are scored by nDCG@10: there is nothing to decide between."
    ]


def test_decisions_where_lower_is_better() -> None:
    measure = "ngram_redundancy"
    results = [
        Result(one.name, one.config, one.run, one.scores.assign(measure=measure))
        for one in sweep(300)
    ]
    board = Results(results).leaderboard(measure)
    assert board["name"].iloc[0] == "bm25"
    table, sentences = report.margin_decisions(results, board, measure=measure, margin=0.02)
    assert table["label"].iloc[0].startswith("bm25")
    assert table["proven"].tolist() == [True, False, False]
    assert all(" is bm25" in one for one in sentences)
