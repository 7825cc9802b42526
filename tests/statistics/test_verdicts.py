"""Published verdicts: how they are read, and what labels save on those of GPT-4."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.statistics import (
    draw_order,
    estimate_difference,
    judge_agreement,
    load_verdicts,
)
from ragbench.types import Judgement

OPENQA = Path(__file__).parents[2] / "notebooks" / "openqa.csv"


def test_the_verdicts_of_the_study_are_complete() -> None:
    table = load_verdicts(OPENQA)
    assert [*table] == ["question", "system", "person", "gpt4", "exact_match", "contains"]
    assert len(table) == 2_372
    assert (table["system"].nunique(), table["question"].nunique()) == (8, 301)
    assert table["gpt4"].isna().sum() == 7
    assert table.drop(columns="gpt4").notna().all(axis=None)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("question,system,person,judge\n1,a,1,0.5\n1,b,0,\n", ["judge"]),
        ("query_id,question,system,human,m,n,note\n01,Who?,a,1,0,1,x\n", ["m", "n"]),
    ],
)
def test_verdicts_are_read_by_the_names_of_their_columns(
    tmp_path: Path, text: str, columns: list[str]
) -> None:
    (tmp_path / "mine.csv").write_text(text)
    table = load_verdicts(tmp_path / "mine.csv")
    assert [*table] == ["question", "system", "person", *columns]
    assert table["question"].iloc[0] == text.split("\n")[1].split(",")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,person,judge\n1,1,1\n", "no column 'system'"),
        ("question,system,person\n1,a,1\n", "no column with a judge's verdicts"),
        ("question,system,person,judge\n1,a,1,1\n2,a,1,5\n", "'judge': 5.0} in line 3"),
        ("question,system,person,judge\n1,a,1,1\n1,a,1,0\n", "two verdicts on question '1' of 'a'"),
        ("", "cannot be read"),
    ],
)
def test_verdicts_that_cannot_be_used_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_verdicts(tmp_path / "mine.csv")


def summary(
    system: str, *labels: tuple[str, list[str]], source: str = "Rain fell.", **scores: Any
) -> Any:
    """A sample of FaithBench's form: pairs of an annotator and the labels of one span."""
    spans = [{"annotator_id": name, "label": found, "note": ""} for name, found in labels]
    metadata = {"summarizer": system, "raw_sample_id": 77, **scores}
    return {
        "sample_id": 1,
        "source": source,
        "summary": "It rained.",
        "annotations": spans,
        "metadata": metadata,
    }


def saved(folder: Path, value: Any, name: str = "mine.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_summaries_of_faithbench_have_the_mean_of_each_annotators_worst_label(
    tmp_path: Path, is_wrapped: bool
) -> None:
    samples = [
        summary(
            "a",
            ("p", ["Benign"]),
            ("p", ["Unwanted", "Unwanted.Extrinsic"]),
            ("q", ["Benign"]),
            d=0.25,
        ),
        summary("b", d=1),
        summary("c", ("p", ["Questionable"]), d=None, e=0),
    ]
    table = load_verdicts(saved(tmp_path, {"samples": samples} if is_wrapped else samples))
    assert [*table] == ["question", "system", "person", "d", "e"]
    assert table["question"].nunique() == 1
    assert [*table["system"]] == ["a", "b", "c"]
    assert [*table["person"]] == [0.5, 1.0, 0.0]
    assert [*table["d"].fillna(-1)] == [0.25, 1.0, -1]
    assert [*table["e"].fillna(-1)] == [-1, -1, 0.0]


def test_summaries_of_faithbench_without_a_label_have_no_verdict_of_people(tmp_path: Path) -> None:
    noted = [{"annotator_name": "p", "label": [], "note": "Is this in the source?"}]
    two = [{"annotator_name": name, "label": ["Benign"]} for name in "pq"]
    two.append({"annotator_name": "q", "label": ["Unwanted"]})
    samples = [
        {**summary("a", d=1), "annotations": None},
        {**summary("b", d=1), "annotations": noted},
        {**summary("c", d=1), "annotations": []},
        {**summary("d", d=1), "annotations": two},
    ]
    table = load_verdicts(saved(tmp_path, samples))
    assert [*table["person"].fillna(-1)] == [-1, -1, 1, 0.5]


def test_scores_beside_the_text_of_faithbench_are_detectors_too(tmp_path: Path) -> None:
    sample = {
        "sample_id": 9,
        "source": "Rain fell.",
        "summary": "Snow fell.",
        "annotations": [{"annotator": "p", "label": "Unwanted"}],
        "meta_model": "m1",
        "meta_hhem": 0.5,
        "detectors": {"hybrid": 0.75},
    }
    table = load_verdicts(saved(tmp_path, [sample]))
    assert table.iloc[0, 1:].to_dict() == {"system": "m1", "person": 0, "hhem": 0.5, "hybrid": 0.75}


def test_claims_of_ragchecker_are_fractions_that_are_entailed(tmp_path: Path) -> None:
    answered = {
        "query_id": 3,
        "response_claims": [["rain", "fell", "today"]] * 4,
        "answer2response": ["Entailment", "Neutral", "Contradiction", "Entailment"],
        "response2answer": ["Entailment"],
        "retrieved2response": [
            ["Neutral", "Entailment"],
            ["Neutral"] * 2,
            ["Contradiction"] * 2,
            [],
        ],
    }
    silent = {
        "query_id": "4",
        "response_claims": [],
        "answer2response": [],
        "response2answer": ["Neutral"],
        "retrieved2response": [],
    }
    table = load_verdicts(
        saved(tmp_path, {"results": [answered, silent], "metrics": {}}, "bm25.json")
    )
    assert [*table] == ["question", "system", "person", "precision", "recall", "faithfulness"]
    assert [*table["question"]] == ["3", "4"]
    assert {*table["system"]} == {"bm25"}
    assert table["person"].isna().all()
    assert [*table.iloc[0, 3:]] == [0.5, 1.0, 0.25]
    assert [math.isnan(value) for value in table.iloc[1, 3:]] == [True, False, True]


def scores(*values: int) -> list[dict[str, int]]:
    return [{"coherence": 5, "consistency": value, "relevance": 1} for value in values]


def test_scores_of_summeval_are_means_on_a_scale_from_one_to_five(tmp_path: Path) -> None:
    records = [
        {
            "id": "n1",
            "model_id": "M0",
            "expert_annotations": scores(5, 4, 3),
            "turker_annotations": scores(1, 5),
        },
        {
            "id": "n1",
            "model_id": "M1",
            "expert_annotations": scores(1),
            "turker_annotations": [],
            "gpt": scores(2)[0],
        },
    ]
    path = saved(tmp_path, "\n".join(map(json.dumps, records)) + "\n", "mine.jsonl")
    table = load_verdicts(path)
    assert [*table] == ["question", "system", "person", "turker", "gpt"]
    assert [*table["person"]] == [0.75, 0.0]
    assert [*table["turker"].fillna(-1)] == [0.5, -1]
    assert [*table["gpt"].fillna(-1)] == [-1, 0.25]
    assert [*load_verdicts(path, criterion="coherence")["person"]] == [1.0, 1.0]
    with pytest.raises(
        DataError, match="'style'; the scores are 'coherence', 'consistency', 'relevance'"
    ):
        load_verdicts(path, criterion="style")


def test_one_summary_with_the_crowd_alone_is_peoples_verdict(tmp_path: Path) -> None:
    record = {"id": 1, "model_id": "M0", "turker_annotations": scores(2, 4)}
    table = load_verdicts(saved(tmp_path, record, "mine.jsonl"))
    assert table.to_dict("records") == [{"question": "1", "system": "M0", "person": 0.5}]


def test_grades_of_llmjudge_are_those_of_people_and_of_each_judge(tmp_path: Path) -> None:
    people = saved(tmp_path, "q1 0 p1 3\nq1 0 p2 0\nq2 0 p1 1\n", "people.txt")
    model = saved(tmp_path, "q1 0 p1 2\nq2 0 p1 1\nq2 0 p9 3\n", "model.txt")
    alone = load_verdicts(people)
    assert [*alone] == ["question", "system", "person"]
    assert [*alone["person"]] == pytest.approx([1, 0, 1 / 3])
    table = load_verdicts(people, judges={"m": model})
    assert [*table["question"] + " " + table["system"]] == ["q1 p1", "q1 p2", "q2 p1", "q2 p9"]
    assert [*table["person"].fillna(-1)] == pytest.approx([1, 0, 1 / 3, -1])
    assert [*table["m"].fillna(-1)] == pytest.approx([2 / 3, -1, 1 / 3, 1])


CLAIMS = {"query_id": "1", "answer2response": ["Entailment"]}
RATED = {"id": "1", "model_id": "m", "expert_annotations": scores(3)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [{"prompt": "x", "grade": 1}],
            "fields found are 'prompt', 'grade', expected are the fields of Faith",
        ),
        ([], "fields found are none"),
        ([1], "fields found are none"),
        ("{", "is not valid JSON"),
        ('{"a": 1}\n{', "line 2 is not valid JSON"),
        (
            [summary("a", ("p", ["Wrong"]))],
            "record 1 .FaithBench.: the label is 'Wrong'; expected one of",
        ),
        (
            [summary("a", d=7)],
            "record 1 .FaithBench.: d is 7; expected a detector's score from 0 to 1",
        ),
        ([summary("a", d=10**400)], "d is 1000.*; expected a detector's score"),
        ([summary("a"), summary("a")], "two verdicts on question"),
        ([{**summary("a"), "annotations": "none"}], "annotations is no list of objects"),
        (
            [CLAIMS, {**CLAIMS, "answer2response": ["Maybe"]}],
            "record 2 .RAGChecker.: the label is 'Maybe'",
        ),
        ([{**CLAIMS, "answer2response": "Entailment"}], "answer2response is str; expected a list"),
        ([{**CLAIMS, "answer2response": []}], "has no verdict"),
        ([{**CLAIMS, "query_id": None}], "query_id is None"),
        ([CLAIMS, {"query_id": "2"}], "record 2 .RAGChecker. has no 'answer2response'"),
        ([CLAIMS, 5], "record 2 .RAGChecker. is int"),
        (
            [{**RATED, "expert_annotations": scores(0)}],
            "the score is 0; expected a number from 1 to 5",
        ),
        (
            [{**RATED, "expert_annotations": []}],
            "no person's score of 'consistency'; the scores are none",
        ),
        (
            "q1 0 p1 3\nq1 0 p2 4\n",
            "passage 'p2' of 'q1': the score is 4; expected a number from 0 to 3",
        ),
        (
            "q1 0 p1\nq1 0 p2\n",
            "'q1 0 p1'; expected four fields in each line: query, 0, passage, grade",
        ),
        ("q1 0 p1 high\n", "mine.json: qrels: relevance 'high' of document 'p1'"),
        ("q1 0 p1 3\nq1 0 p1 2\n", "document 'p1' is repeated for query 'q1'"),
    ],
)
def test_published_verdicts_that_cannot_be_used_are_named(
    tmp_path: Path, content: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_verdicts(saved(tmp_path, content))


def test_options_of_one_form_are_refused_with_another(tmp_path: Path) -> None:
    grades = saved(tmp_path, "q1 0 p1 3\n", "people.txt")
    claims = saved(tmp_path, [CLAIMS])
    for path in (grades, claims, OPENQA):
        with pytest.raises(ConfigError, match="no criteria"):
            load_verdicts(path, criterion="fluency")
    for path in (claims, OPENQA):
        with pytest.raises(ConfigError, match="the only form that takes `judges`"):
            load_verdicts(path, judges={"m": grades})
    with pytest.raises(ConfigError, match="a judge is called 'person'"):
        load_verdicts(grades, judges={"person": grades})
    with pytest.raises(DataError, match="no grade of a passage that is in"):
        load_verdicts(grades, judges={"m": saved(tmp_path, "q9 0 p9 1\n", "other.txt")})
    with pytest.raises(DataError, match="cannot be read as TREC's qrels"):
        load_verdicts(grades, judges={"m": tmp_path / "missing.txt"})


def test_trust_and_agreement_take_published_verdicts(tmp_path: Path) -> None:
    samples = []
    for number in range(60):
        source = f"Rain fell on day {number}."
        samples.append(summary("b", source=source, d=1))
        if number % 3 == 0:
            samples.append(summary("a", source=source, d=1))
        else:
            samples.append(summary("a", ("p", ["Unwanted.Intrinsic"]), source=source, d=0))
    table = load_verdicts(saved(tmp_path, samples))
    wide = table.pivot(index="question", columns="system", values=["person", "d"])
    proxies = pd.DataFrame({"d": wide["d"]["b"] - wide["d"]["a"]})
    labels = wide["person"]["b"] - wide["person"]["a"]
    order = draw_order(proxies, seed=0)
    state = estimate_difference(proxies, labels.loc[order[:40]])
    assert (state.decision, state.proxy) == ("better", "d")
    assert state.difference == pytest.approx(40 / 60, abs=0.001)
    people = table.query("system == 'a'").rename(
        columns={"question": "query_id", "person": "value"}
    )
    judged = [
        Judgement(question, "faithfulness", score)
        for question, score in zip(people["query_id"], people["d"], strict=True)
    ]
    agreement = judge_agreement(judged, people.assign(criterion="faithfulness"))
    assert agreement.set_index("statistic")["value"]["kappa"] == 1


@pytest.mark.simulation
def test_labels_that_the_verdicts_of_gpt4_save() -> None:
    table = load_verdicts(OPENQA)
    wide = table.pivot(index="question", columns="system", values=["person", "gpt4"])
    rng = np.random.default_rng(0)
    labels: dict[str, list[int]] = {"alone": [], "gpt4": []}
    held, wrong = [], []
    for (a, b), order in itertools.product(itertools.combinations(wide["person"], 2), range(4)):
        pair = pd.DataFrame(
            {name: wide[name][b] - wide[name][a] for name in ("person", "gpt4")}
        ).dropna()
        people, difference = pair["person"], float(pair["person"].mean())
        for name in labels:
            proxies = pair[["gpt4"] if name == "gpt4" else []]
            drawn = (
                draw_order(proxies, seed=order) if name == "gpt4" else rng.permutation(pair.index)
            )
            state = estimate_difference(proxies, people.loc[[*drawn][:-1]])
            n = state.decided_after or len(pair)
            labels[name].append(n)
            if name == "gpt4":
                state = estimate_difference(proxies, people.loc[[*drawn][:n]])
                assert state.ci_low is not None
                assert state.ci_high is not None
                held.append(state.ci_low - 1e-9 <= difference <= state.ci_high + 1e-9)
                wrong.append(state.decision == ("worse" if difference > 0 else "better"))
    assert np.mean(held) >= 0.95
    assert np.mean(wrong) <= 0.05
    assert np.mean(labels["gpt4"]) <= 0.85 * np.mean(labels["alone"])
