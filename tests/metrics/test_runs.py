"""score_run and ceilings: the same numbers for every form of input, and a clear error for bad
input.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytrec_eval

from ragbench.errors import DataError, DataWarning
from ragbench.metrics import ceilings, score_run
from ragbench.metrics.ranking_measures import DEFAULT_MEASURES
from ragbench.types import Qrels, Run

QRELS: Qrels = {"q2": {"a": 1, "b": 2}, "q1": {"c": 1}}
RUN: Run = {"q1": {"c": 1.0, "d": 2.0}, "q2": {"b": 1.0}}


def qrels_frame(qrels: Qrels) -> pd.DataFrame:
    rows = [(q, d, grade) for q, docs in qrels.items() for d, grade in docs.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


def run_frame(run: Run) -> pd.DataFrame:
    rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])


def nested(scores: pd.DataFrame) -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    for query_id, measure, value in scores.itertuples(index=False):
        values.setdefault(measure, {})[query_id] = value
    return values


def test_rows_come_by_measure_then_by_query_in_the_order_of_qrels() -> None:
    scores = score_run(QRELS, RUN, ["R@1", "RR"])
    assert scores.to_dict("list") == {
        "query_id": ["q2", "q1", "q2", "q1"],
        "measure": ["R@1", "R@1", "RR", "RR"],
        "value": [0.5, 0.0, 1.0, 0.5],
    }


def test_names_of_others_become_ours() -> None:
    assert score_run(QRELS, RUN, ["MRR", "Recall@5"])["measure"].unique().tolist() == ["RR", "R@5"]


@pytest.mark.parametrize("as_frames", [(True, True), (True, False), (False, True)])
def test_frames_and_dictionaries_agree(as_frames: tuple[bool, bool]) -> None:
    expected = score_run(QRELS, RUN)
    qrels = qrels_frame(QRELS) if as_frames[0] else QRELS
    run = run_frame(RUN) if as_frames[1] else RUN
    pd.testing.assert_frame_equal(score_run(qrels, run), expected)


@pytest.mark.parametrize("dtype", ["object", "str", "string", "category"])
def test_ids_may_be_kept_in_any_kind_of_text_column(dtype: Any) -> None:
    kinds = {"query_id": dtype, "doc_id": dtype}
    scores = score_run(qrels_frame(QRELS).astype(kinds), run_frame(RUN).astype(kinds))
    assert nested(scores) == nested(score_run(QRELS, RUN))


def test_kinds_of_text_columns_may_differ() -> None:
    run = run_frame(RUN).astype({"query_id": "category", "doc_id": object, "score": "Float64"})
    qrels = qrels_frame(QRELS).astype({"relevance": "Int64"})
    assert nested(score_run(qrels, run)) == nested(score_run(QRELS, RUN))
    assert nested(score_run(qrels.astype({"relevance": object}), run)) == nested(
        score_run(QRELS, RUN)
    )


def test_an_index_that_is_not_a_range_does_not_matter() -> None:
    qrels, run = qrels_frame(QRELS), run_frame(RUN)
    qrels.index = run.index = pd.Index([5, 5, 5])
    assert nested(score_run(qrels, run)) == nested(score_run(QRELS, RUN))


def test_a_big_tied_run_equals_pytrec_eval_to_the_last_digit() -> None:
    rng = np.random.default_rng(3)
    run: Run = {}
    qrels: Qrels = {}
    for query in range(200):
        documents = [f"d{i}" for i in rng.permutation(400)[:60]]
        run[f"q{query}"] = dict(zip(documents, rng.normal(size=60).round(1).tolist(), strict=True))
        judged = [*documents[:20], *(f"x{i}" for i in range(3))]
        qrels[f"q{query}"] = dict(zip(judged, rng.integers(0, 4, 23).tolist(), strict=True))
    names = {
        "nDCG": "ndcg",
        "nDCG@10": "ndcg_cut_10",
        "AP": "map",
        "AP@5": "map_cut_5",
        "R@10": "recall_10",
        "P@3": "P_3",
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(run)
    expected = {
        own: {query_id: row[name] for query_id, row in theirs.items()}
        for own, name in names.items()
    }
    shuffled = run_frame(run).sample(frac=1, random_state=0)
    for form in (run, run_frame(run), shuffled, shuffled.astype({"doc_id": "category"})):
        assert nested(score_run(qrels, form, [*names])) == expected
        assert nested(score_run(qrels_frame(qrels), form, [*names])) == expected


def test_missing_and_unjudged_and_unanswerable_queries() -> None:
    qrels: Qrels = {"found": {"a": 1}, "missing": {"a": 1}, "junk": {"a": 0}, "none": {}}
    run: Run = {"found": {"a": 1.0}, "junk": {"a": 1.0}, "none": {"a": 1.0}, "other": {"a": 1.0}}
    for form in (run, run_frame(run)):
        scores = score_run(qrels, form, ["AP"])
        assert scores["query_id"].tolist() == ["found", "missing", "junk", "none"]
        assert scores["value"].tolist()[:3] == [1.0, 0.0, 0.0]
        assert math.isnan(scores["value"].iloc[3])


@pytest.mark.parametrize("empty", [{}, run_frame({}), {"q1": {}, "q2": {}}])
def test_an_empty_run_scores_zero_without_a_warning(empty: Any) -> None:
    assert score_run(QRELS, empty)["value"].eq(0).all()
    assert score_run(qrels_frame(QRELS), empty)["value"].eq(0).all()


@pytest.mark.parametrize("to_frame", [False, True])
def test_disjoint_ids_are_warned_about(to_frame: bool) -> None:
    run: Run = {"Q1": {"c": 1.0}}
    with pytest.warns(DataWarning, match="such as 'Q1', the qrels 2 such as 'q2'"):
        scores = score_run(QRELS, run_frame(run) if to_frame else run)
    assert scores["value"].eq(0).all()


@pytest.mark.parametrize("to_frame", [False, True])
def test_chunks_where_documents_are_judged_are_pointed_out(to_frame: bool) -> None:
    run: Run = {"q1": {"c#0": 1.0, "d#1": 0.5}}
    with pytest.warns(DataWarning, match=r"chunk ids such as 'c#0' .* to_documents"):
        score_run(QRELS, run_frame(run) if to_frame else run)


def test_no_warning_for_a_retriever_without_relevant_results() -> None:
    assert score_run(QRELS, {"q1": {"z": 1.0, "z#1": 0.5}})["value"].eq(0).all()


def test_arguments_stay_as_they_were() -> None:
    qrels, run = qrels_frame({"q": {"a": -1, "b": 1}}), run_frame({"q": {"a": -0.0, "b": 1.0}})
    before = qrels.copy(), run.copy()
    score_run(qrels, run)
    pd.testing.assert_frame_equal(qrels, before[0])
    pd.testing.assert_frame_equal(run, before[1])


def bad(frame: pd.DataFrame, column: str, row: int, value: object) -> pd.DataFrame:
    values = frame[column].astype(object)
    values.iloc[row] = value
    return frame.assign(**{column: values})


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        (qrels_frame({}), RUN, "qrels are empty"),
        (
            qrels_frame(QRELS).rename(columns={"doc_id": "docid"}),
            RUN,
            r"qrels: no column 'doc_id'; .* found \['query_id', 'docid'",
        ),
        (
            QRELS,
            run_frame(RUN).drop(columns=["score", "doc_id"]),
            "run: no column 'doc_id', 'score'",
        ),
        (
            QRELS,
            run_frame(RUN).assign(query_id=1),
            r"run: query_id 1 in row 0 is not text; .*astype\(\{'query_id': str\}\)",
        ),
        (QRELS, bad(run_frame(RUN), "doc_id", 1, 7), "run: doc_id 7 in row 1 is not text"),
        (QRELS, bad(run_frame(RUN), "doc_id", 2, None), "run: doc_id None in row 2 is not text"),
        (
            QRELS,
            bad(run_frame(RUN), "query_id", 2, None).astype({"query_id": "string"}),
            "run: query_id <NA> in row 2",
        ),
        (bad(qrels_frame(QRELS), "query_id", 0, 1.5), RUN, "qrels: query_id 1.5 in row 0"),
        (
            QRELS,
            bad(run_frame(RUN), "score", 1, math.nan),
            r"score nan .*'d' .*'q1' \(row 1\) is not a finite number",
        ),
        (QRELS, bad(run_frame(RUN), "score", 2, math.inf), r"score inf .*\(row 2\)"),
        (QRELS, bad(run_frame(RUN), "score", 2, "0.5"), r"score '0.5' .*\(row 2\) .* float\(\)"),
        (QRELS, run_frame(RUN).astype({"score": str}), r"score '1.0' .*\(row 0\) .* float\(\)"),
        (
            qrels_frame(QRELS).astype({"relevance": float}).assign(relevance=1.5),
            RUN,
            r"relevance 1.5 .*\(row 0\)",
        ),
        (bad(qrels_frame(QRELS), "relevance", 1, None), RUN, r"relevance None .*\(row 1\)"),
        (
            bad(qrels_frame(QRELS), "relevance", 1, 2**40),
            RUN,
            r"relevance 1099511627776 .*\(row 1\) .*up to 1,000,000",
        ),
        (
            pd.concat([qrels_frame(QRELS)] * 2),
            RUN,
            r"qrels: document 'a' is repeated for query 'q2' \(row 3\)",
        ),
        (
            QRELS,
            pd.concat([run_frame(RUN)] * 2),
            r"run: document 'c' is repeated for query 'q1' \(row 3\)",
        ),
        (QRELS, [1], "run must be .* not list"),
        ("qrels.tsv", RUN, "qrels.tsv could not be read"),
    ],
)
def test_bad_input_is_named(qrels: Any, run: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_run(qrels, run, ["RR"])


@pytest.mark.parametrize("form", [lambda qrels: qrels, qrels_frame])
def test_ceilings_are_the_scores_of_the_ideal_run(form: Any) -> None:
    rng = np.random.default_rng(0)
    qrels = {
        f"q{n}": {f"d{i}": int(rng.integers(1, 4)) for i in range(n)}
        for n in (1, 2, 3, 4, 7, 10, 25)
    }
    qrels["junk"] = {"d1": 0}
    ideal = {q: {d: float(grade) for d, grade in docs.items()} for q, docs in qrels.items()}
    measures = [*DEFAULT_MEASURES, "nDCG", "R@20"]
    pd.testing.assert_frame_equal(
        ceilings(form(qrels), measures),
        score_run(qrels, ideal, measures),
        check_exact=False,
        rtol=0,
        atol=1e-12,
    )


def test_ceilings_by_hand() -> None:
    table = ceilings(
        {"q": {f"d{i}": 1 for i in range(20)}, "none": {}},
        ["R@5", "P@5", "F1@5", "AP@5", "AP", "nDCG@5"],
    )
    values = table[table["query_id"] == "q"]["value"].tolist()
    assert values == pytest.approx([0.25, 1.0, 0.4, 0.25, 1.0, 1.0])
    assert table[table["query_id"] == "none"]["value"].isna().all()


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ({}, "qrels are empty"),
        (qrels_frame({}), "qrels are empty"),
        (pd.concat([qrels_frame(QRELS)] * 2), "is repeated"),
    ],
)
def test_ceilings_refuse_the_same_input_as_scores(qrels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ceilings(qrels)


def test_real_judgements(shared_data: Path) -> None:
    qrels = pd.read_csv(
        shared_data / "squad" / "qrels" / "test.tsv",
        sep="\t",
        dtype={0: str, 1: str, 2: int},
        header=0,
    ).set_axis(["query_id", "doc_id", "relevance"], axis=1)
    perfect = qrels.rename(columns={"relevance": "score"})
    assert score_run(qrels, perfect, ["RR", "R@1", "nDCG@10"])["value"].eq(1).all()
