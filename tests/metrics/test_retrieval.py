"""Ranking measures: hand-computed numbers, pytrec_eval's own results, and what is refused."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.metrics import ceilings, score_run
from ragbench.metrics.ranking_measures import (
    DEFAULT_MEASURES,
    RankingMeasure,
    parse_measure,
    parse_measures,
    ranking,
)
from ragbench.registry import ALIASES, is_ranking_measure, measures
from ragbench.types import Dataset, Qrels, Run

TREC_NAMES = {
    **{f"nDCG@{k}": f"ndcg_cut_{k}" for k in (1, 3, 5, 10)},
    **{f"P@{k}": f"P_{k}" for k in (1, 3, 5, 10)},
    **{f"R@{k}": f"recall_{k}" for k in (1, 3, 5, 10)},
    **{f"AP@{k}": f"map_cut_{k}" for k in (1, 3, 5, 10)},
    **{f"Success@{k}": f"success_{k}" for k in (1, 3, 5, 10)},
    "SetP": "set_P",
    "SetR": "set_recall",
    "nDCG": "ndcg",
    "RR": "recip_rank",
    "AP": "map",
    "Rprec": "Rprec",
    "Bpref": "bpref",
}


def evaluate(qrels: Any, run: Any, measures: Any = DEFAULT_MEASURES) -> dict[str, dict[str, float]]:
    """`score_run` as measure -> query_id -> value."""
    values: dict[str, dict[str, float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        table = score_run(qrels, run, measures)
    for query_id, measure, value in table.itertuples(index=False):
        values.setdefault(measure, {})[query_id] = value
    return values


def one(measure: str, grades: dict[str, int], scores: dict[str, float]) -> float:
    return evaluate({"q": grades}, {"q": scores}, [measure])[str(parse_measure(measure))]["q"]


# the ranking x a y b c; relevant: a (2), b (1), and z (1), which is not found
GRADES = {"a": 2, "b": 1, "z": 1, "x": 0}
SCORES = {"x": 5.0, "a": 4.0, "y": 3.0, "b": 2.0, "c": 1.0}
IDEAL = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("P@1", 0.0),
        ("P@3", 1 / 3),
        ("P@5", 2 / 5),
        ("P@10", 2 / 10),
        ("R@1", 0.0),
        ("R@3", 1 / 3),
        ("R@5", 2 / 3),
        ("F1@1", 0.0),
        ("F1@3", 1 / 3),
        ("F1@5", 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3)),
        ("RR", 1 / 2),
        ("RR@1", 0.0),
        ("RR@2", 1 / 2),
        ("AP", (1 / 2 + 2 / 4) / 3),
        ("AP@3", (1 / 2) / 3),
        ("Success@1", 0.0),
        ("Success@3", 1.0),
        ("nDCG@1", 0.0),
        ("nDCG@3", (2 / math.log2(3)) / IDEAL),
        ("nDCG@5", (2 / math.log2(3) + 1 / math.log2(5)) / IDEAL),
        ("nDCG", (2 / math.log2(3) + 1 / math.log2(5)) / IDEAL),
    ],
)
def test_hand_computed(measure: str, value: float) -> None:
    assert one(measure, GRADES, SCORES) == pytest.approx(value, abs=1e-15)


def test_ties_go_to_the_higher_document_id() -> None:
    assert one("RR", {"a": 1}, {"a": 1.0, "b": 1.0}) == 0.5
    assert one("RR", {"b": 1}, {"a": 1.0, "b": 1.0}) == 1.0


def test_scores_that_differ_beyond_single_precision_are_tied() -> None:
    assert one("RR", {"a": 1}, {"a": 1.0 + 1e-9, "b": 1.0}) == 0.5


def test_a_judged_query_that_the_run_lacks_scores_zero() -> None:
    scores = evaluate(
        {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}}, {"q1": {"a": 1.0}, "q3": {}}
    )
    assert {measure: values["q2"] for measure, values in scores.items()} == dict.fromkeys(
        DEFAULT_MEASURES, 0.0
    )
    assert {measure: values["q3"] for measure, values in scores.items()} == dict.fromkeys(
        DEFAULT_MEASURES, 0.0
    )


def test_an_unjudged_query_is_left_out() -> None:
    assert evaluate({"q1": {"a": 1}}, {"q1": {"a": 1.0}, "other": {"a": 1.0}}, ["RR"]) == {
        "RR": {"q1": 1.0}
    }


def test_a_query_without_judgements_is_unscored() -> None:
    scores = evaluate(
        {"q1": {"a": 1}, "none": {}}, {"q1": {"a": 1.0}, "none": {"a": 1.0}}, ["RR", "F1@3"]
    )
    assert all(math.isnan(values["none"]) for values in scores.values())
    assert scores["RR"]["q1"] == 1.0


@pytest.mark.parametrize("grade", [0, -1, -2])
def test_a_query_with_nothing_relevant_scores_zero(grade: int) -> None:
    scores = evaluate({"q": {"a": grade}}, {"q": {"a": 1.0, "b": 0.5}})
    assert {measure: values["q"] for measure, values in scores.items()} == dict.fromkeys(
        DEFAULT_MEASURES, 0.0
    )


def test_an_empty_run_scores_zero() -> None:
    assert evaluate({"q": {"a": 1}}, {}, ["nDCG@10"]) == {"nDCG@10": {"q": 0.0}}


def test_numbers_of_numpy_are_numbers() -> None:
    qrels: Any = {"q": {"a": np.int64(1), "b": np.int8(2)}}
    run: Any = {"q": {"a": np.float32(2), "b": 1, "c": np.int64(0)}}
    assert evaluate(qrels, run, ["P@1", "RR"]) == {"P@1": {"q": 1.0}, "RR": {"q": 1.0}}


def test_arguments_stay_as_they_were() -> None:
    qrels: Qrels = {"q": {"a": -2, "b": 1}}
    run: Any = {"q": {"a": 1, "b": np.float32(2)}}
    evaluate(qrels, run)
    assert qrels == {"q": {"a": -2, "b": 1}}
    assert type(run["q"]["b"]) is np.float32


def test_every_default_measure_is_there() -> None:
    names = {"nDCG", "P", "R", "F1", "RR", "AP", "Success"}
    assert {f"{name}@{k}" for name in names for k in (1, 3, 5, 10)} | {"RR", "AP"} == set(
        DEFAULT_MEASURES
    )
    assert list(evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}})) == list(DEFAULT_MEASURES)


IDS = st.sampled_from(
    ["a", "b", "c", "d", "e", "f", "é", "ß", "文", "a#1", "Z", "10", "9", "😀", "\uffff"]
)
SCORE = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, -1.0, 1e300, -1e300]), st.floats(-100, 100)
)
QRELS = st.dictionaries(
    st.sampled_from("qrstu"), st.dictionaries(IDS, st.integers(-2, 4)), min_size=1
)
RUN = st.dictionaries(st.sampled_from("qrstuvw"), st.dictionaries(IDS, SCORE))


OF_GRADE_2 = {
    re.sub(r"(@|$)", r"(rel=2)\1", name, count=1): trec
    for name, trec in TREC_NAMES.items()
    if name[0] != "n"
}


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@settings(max_examples=150, deadline=None, derandomize=True)
@given(QRELS, RUN)
def test_every_measure_equals_pytrec_eval_to_the_last_digit(qrels: Qrels, run: Run) -> None:
    """Ties, scores beyond single precision, ids of any script, missing and unjudged queries, empty
    rankings, junk.
    """
    judged = {
        query_id: {d: max(0, g) for d, g in grades.items()}
        for query_id, grades in qrels.items()
        if grades
    }
    found = {query_id: scores for query_id, scores in run.items() if query_id in judged and scores}
    expected = {}
    for rel, names in ((1, TREC_NAMES), (2, OF_GRADE_2)):
        evaluator = (
            pytrec_eval.RelevanceEvaluator(judged, set(names.values()), relevance_level=rel)
            if found
            else None
        )
        theirs = evaluator.evaluate(found) if evaluator else {}
        for measure, name in names.items():
            expected[measure] = {
                q: theirs.get(q, {name: 0.0})[name] if qrels[q] else None for q in qrels
            }

    def without_nan(values: dict[str, float]) -> dict[str, float | None]:
        return {
            query_id: None if math.isnan(value) else value for query_id, value in values.items()
        }

    ours = evaluate(qrels, run, [*expected])
    assert {measure: without_nan(values) for measure, values in ours.items()} == expected
    rows = [
        (query_id, doc_id, score)
        for query_id, scores in run.items()
        for doc_id, score in scores.items()
    ]
    if rows:
        frame = pd.DataFrame(rows[::-1], columns=["query_id", "doc_id", "score"])
        table = score_run(qrels, frame, [*expected])
        assert {
            m: without_nan(dict(zip(g["query_id"], g["value"], strict=True)))
            for m, g in table.groupby("measure")
        } == expected


def test_gains_of_gdeval_by_hand() -> None:
    # ranking x a y b c, grades a 2, b 1; z 1 is not found
    gain = 3 / math.log2(3) + 1 / math.log2(5)
    ideal = 3 + 1 / math.log2(3) + 1 / math.log2(4)
    assert one("nDCG(dcg='exp-log2')@10", GRADES, SCORES) == pytest.approx(gain / ideal)
    assert one("nDCG(dcg='exp-log2')@2", GRADES, SCORES) == pytest.approx(
        3 / math.log2(3) / (3 + 1 / math.log2(3))
    )
    assert one("ERR@10", GRADES, SCORES) == pytest.approx(3 / 16 / 2 + 13 / 16 * 1 / 16 / 4)
    assert one("ERR@2", GRADES, SCORES) == pytest.approx(3 / 16 / 2)
    best = ceilings({"q": GRADES}, ["ERR@10", "Bpref", "Rprec", "nDCG(dcg='exp-log2')@10"])
    values = best.set_index("measure")["value"]
    assert values["ERR@10"] == pytest.approx(3 / 16 + 13 / 16 / 16 / 2 + 13 / 16 * 15 / 16 / 16 / 3)
    assert values.drop("ERR@10").tolist() == [1.0, 1.0, 1.0]


def test_bpref_and_rprec_by_hand() -> None:
    # three relevant, one judged not relevant, which is ranked above a and b
    assert one("Rprec", GRADES, SCORES) == pytest.approx(1 / 3)
    assert one("Bpref", GRADES, SCORES) == 0.0
    assert one("Bpref", {**GRADES, "n": 0}, SCORES) == pytest.approx(2 * (1 - 1 / 2) / 3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(QRELS, RUN)
def test_measures_that_trec_eval_lacks_follow_from_the_others(qrels: Qrels, run: Run) -> None:
    ours = evaluate(
        qrels,
        run,
        [*DEFAULT_MEASURES, "SetP", "SetR", "SetF", "SetF(beta=2)", "RBP", "RBP@3", "Judged@3"],
    )
    for query_id, grades in qrels.items():
        value = {measure: values[query_id] for measure, values in ours.items()}
        ranked = ranking(run.get(query_id, {}))
        if not grades:
            assert all(map(math.isnan, value.values()))
            continue
        for k in (1, 3, 5, 10):
            p, r = value[f"P@{k}"], value[f"R@{k}"]
            assert value[f"F1@{k}"] == (2 * p * r / (p + r) if p + r else 0.0)
            assert value[f"RR@{k}"] == (value["RR"] if value["RR"] >= 1 / k else 0.0)
        p, r = value["SetP"], value["SetR"]
        assert value["SetF"] == (2 * p * r / (p + r) if p + r else 0.0)
        assert value["SetF(beta=2)"] == (3 * p * r / (2 * p + r) if p + r else 0.0)
        gains = [
            (1 - 0.8) * 0.8**rank for rank, doc_id in enumerate(ranked) if grades.get(doc_id, 0) > 0
        ]
        assert value["RBP"] == sum(gains)
        assert value["Judged@3"] == (
            sum(d in grades for d in ranked[:3]) / len(ranked[:3]) if ranked else 0.0
        )
        assert all(0 <= number <= 1 + 1e-12 for number in value.values())


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.dictionaries(IDS, st.integers(-1, 3), min_size=1))
def test_the_ideal_ranking_reaches_the_ceiling_and_no_more(grades: dict[str, int]) -> None:
    measures = [
        *DEFAULT_MEASURES,
        "nDCG",
        "P@20",
        "R@2",
        "P(rel=2)@3",
        "SetP(rel=2)",
        "SetF",
        "RBP",
        "RBP@2",
        "Judged@9",
    ]
    for rel in (1, 2):
        ideal = {doc_id: float(grade) for doc_id, grade in grades.items() if grade >= rel}
        names = [name for name in measures if ("rel=2" in name) == (rel == 2)]
        best = ceilings({"q": grades}, names)["value"]
        np.testing.assert_array_equal(
            best, [*(v["q"] for v in evaluate({"q": grades}, {"q": ideal}, names).values())]
        )
        n = len(ideal)
        assert best[names.index("P@5")] == min(n, 5) / 5 if rel == 1 else True


@pytest.mark.parametrize(("name", "canonical"), ALIASES.items())
def test_well_known_names_are_understood(name: str, canonical: str) -> None:
    assert (
        parse_measure(f"{name}@5")
        == parse_measure(f"{name.lower()}@5")
        == RankingMeasure(canonical, 5)
    )


def test_duplicate_measures_are_computed_once() -> None:
    assert parse_measures(["MRR", "RR", "Hit Rate@3", "HitRate@3"]) == [
        RankingMeasure("RR", None),
        RankingMeasure("Success", 3),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC@10", "'nDGC@10'; did you mean 'nDCG@10'"),
        ("recal@7", "'recal@7'; did you mean 'Recall@7'"),
        ("", "unknown measure ''"),
        ("P", "'P'; did you mean 'P@5'"),
        ("Hit Rate", "'Hit Rate'; did you mean 'Success@5'"),
        ("P@0", "'P@0'; did you mean 'P@5'"),
        ("P@", "'P@'; did you mean 'P@5'"),
        ("P@-1", "'P@-1'; did you mean 'P@5'"),
        ("P@2.5", "'P@2.5'; did you mean 'P@2'"),
        ("P@5@5", "'P@5@5'; did you mean 'P@5'"),
        ("P@05", "'P@05'; did you mean 'P@5'"),
        (5, "unknown measure 5"),
        (
            "claim_support",
            "'claim_support' is not a measure of a ranking of documents; .* 'nDCG@10'",
        ),
        ("span:RR", "'span:RR' is not a measure of a ranking of documents"),
    ],
)
def test_a_wrong_measure_is_named_with_the_way_out(text: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_measure(text)


@pytest.mark.parametrize(("measures", "message"), [([], "empty"), (3, "list of names")])
def test_measures_must_be_a_list(measures: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate({"q": {"a": 1}}, {}, measures)


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        ({}, {"q": {"a": 1.0}}, "qrels are empty"),
        ([1], {}, "qrels must be .* not list"),
        ({"q": {"a": 1}}, None, "run must be .* not NoneType"),
        ({"q": [7]}, {}, r"qrels must be .* holds .*\[7\]"),
        ({"q": ["a", "a"]}, {}, r"qrels: a document is repeated in \['a', 'a'\]"),
        ({"q": {"a": 1}}, {"q": {"a"}}, r"run must be .* other way round"),
        ({"q": ["a", "b"]}, {"q": {"a": 1}}, "judgements are lists .* other way round"),
        ([("q", "a", 0.5)], [("q", "a", 1)], "relevance 0.5 .* other way round"),
        ({"q": {"a": 1}}, {"new": {"q": {"a": 1.0}}}, "run has several runs by name"),
        ({"q": {"a": 1}}, {"q": [("a", 1.0)]}, r"run must be .* holds .*\[\('a', 1.0\)\]"),
        ({1: {"a": 1}}, {}, r"qrels: query_id 1 .* not text; .* str\(\)"),
        ({"q": {7: 1}}, {}, r"qrels: doc_id 7 .* not text"),
        ({"q": {"a": 1}}, {"q": {3: 1.0}}, r"run: doc_id 3 .* not text"),
        (
            {"q": {"a": 1.5}},
            {},
            r"relevance 1.5 of document 'a' for query 'q' .* not a whole number",
        ),
        ({"q": {"a": "1"}}, {}, "relevance '1'"),
        ({"q": {"a": 2.0}}, {"q": {"a": 1}}, r"score_run\(qrels, run\) .* other way round"),
        ({"q": {"a": None}}, {}, "relevance None"),
        ({"q": {"a": 2**40}}, {}, "relevance 1099511627776"),
        (
            {"q": {"a": 1}},
            {"q": {"a": math.nan}},
            "score nan of document 'a' for query 'q' .* not a finite number",
        ),
        ({"q": {"a": 1}}, {"q": {"b": 0.0, "a": math.inf}}, "score inf of document 'a'"),
        ({"q": {"a": 1}}, {"q": {"a": "0.5"}}, "score '0.5' of document 'a'"),
        ({"q": {"a": 1}}, {"q": {"a": None}}, "score None of document 'a'"),
        ({"q": {"a": 1}}, {"q": {"a": 10**400}}, "of document 'a'"),
    ],
)
def test_bad_input_is_named(qrels: Any, run: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(qrels, run, ["RR"])


def test_ranking_is_the_one_that_is_scored() -> None:
    # in single precision a, b and c are equal
    scores = {"a": 16.0000005, "b": 16.0, "z": 3.0, "c": 16.0, "far": -1e300}
    assert ranking(scores) == ["c", "b", "a", "z", "far"]
    for doc_id in scores:
        assert evaluate({"q": {doc_id: 1}}, {"q": scores}, ["RR"])["RR"]["q"] == pytest.approx(
            1 / (ranking(scores).index(doc_id) + 1)
        )
    assert ranking({}) == []


def test_scores_next_to_each_other_in_single_precision_keep_their_order() -> None:
    for score in (0.5, 3.0, -0.5, -3.0):
        near = float(np.nextafter(np.float32(score), np.float32(9)))
        assert one("RR", {"a": 1}, {"a": near, "b": score}) == 1.0
        assert one("RR", {"a": 1}, {"a": score, "b": near}) == 0.5


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"b": 1}}),
        ({"q": {"a": 90, "b": 20}, "r": {"c": 7, "a": 5}}, {"q": {"b": 1, "a": 1}, "r": {"c": 1}}),
        ({"q": {"a": 30, "b": 20, "c": 10}}, {"q": {"b": 2, "a": 0, "c": 0}}),
    ],
)
def test_exchanged_arguments_are_pointed_out(run: Any, qrels: Any) -> None:
    with pytest.warns(DataWarning, match=r"judgements come first: score_run\(qrels, run\)"):
        score_run(run, qrels, ["RR"])
    score_run(qrels, run, ["RR"])  # a warning is an error


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        ({"q": {"a": 2, "b": 1}}, {"q": {"a": 1.0}}),
        ({"q": {"a": 1, "b": 1, "c": 1}}, {"q": {"a": 1, "b": 1}}),
        ({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"a": 0.9, "b": 0.5}}),
        ({"q": {"a": 1}}, {"q": {"a": 3, "b": 2, "c": 1}}),
    ],
)
def test_arguments_in_their_order_are_not_doubted(qrels: Any, run: Any) -> None:
    score_run(qrels, run, ["RR"])


def test_exactly_the_measures_of_rankings_are_computed_by_score_run() -> None:
    table = measures()
    names = table["measure"][table["level"] == "document"].str.replace("{k}", "5")
    of_rankings = [name for name in names if is_ranking_measure(name)]
    others = [name for name in names if not is_ranking_measure(name)]
    assert {"nDCG@5", "Rprec", "Judged"} <= {*of_rankings}
    assert others == ["context_recall", "expected_document"]
    scores = score_run({"q": {"d": 1}}, {"q": {"d": 1.0}}, of_rankings)
    assert scores["value"].notna().all()
    for name in others:
        with pytest.raises(ConfigError, match=name):
            score_run({"q": {"d": 1}}, {"q": {"d": 1.0}}, [name])


def test_lists_of_documents() -> None:
    """Judgements without grades, and a ranking without scores: the best document comes first."""
    measures = ["nDCG@10", "RR"]
    listed = score_run({"q": ["a", "c"]}, {"q": ["b", "c", "a"]}, measures)
    scored = score_run({"q": {"a": 1, "c": 1}}, {"q": {"b": 3.0, "c": 2.0, "a": 1.0}}, measures)
    pd.testing.assert_frame_equal(listed, scored)
    pd.testing.assert_frame_equal(
        score_run({"q": {"a"}}, {"q": ("b", "a")}, ["RR"]),
        score_run({"q": {"a": 1}}, {"q": {"b": 2.0, "a": 1.0}}, ["RR"]),
    )


def test_a_dataset_as_judgements() -> None:
    data = Dataset.from_dicts({"a": "One.", "b": "Two."}, {"q": "Which?"}, {"q": {"a": 1}})
    assert score_run(data, {"q": ["b", "a"]}, ["RR"])["value"].tolist() == [0.5]
