"""The study of retrieval changes: names, comparisons, transfer, cost."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import ragbench as rb
from ragbench.studies import techniques as study

ROOT = Path(__file__).parents[2]


def arms(**values: list[float]) -> pd.DataFrame:
    parts = []
    for name, scores in values.items():
        part = pd.DataFrame({"query_id": range(len(scores)), study.MEASURES[0]: scores})
        tokens = 200 if name == "more" else 100
        parts.append(
            part.assign(
                arm=name.replace("plain", study.BASELINE), chunks=1, tokens=tokens, handed_over=50.0
            )
        )
    return pd.concat(parts, ignore_index=True)


def test_every_arm_of_the_grid_has_a_name_of_its_own() -> None:
    from ragbench.sweep.grid import read_grid

    runs = read_grid(ROOT / "notebooks" / "techniques.toml").runs
    names = [study.arm_name(parameters) for parameters in runs.values()]
    assert len(set(names)) == len(names) == 25
    assert names[0] == study.BASELINE
    assert "fusion weights:0.7, index_text headings" in names


def test_arms_are_compared_with_the_plain_search_as_the_library_does_it() -> None:
    plain = [0.0, 0.5] * 20
    table = arms(plain=plain, more=[value + 0.4 for value in plain], same=plain)
    comparison = study.compare_arms({"toy": table})
    rows = comparison.set_index("arm").to_dict("index")
    assert rows["more"]["difference"] == pytest.approx(0.4)
    assert rows["more"]["decision"] == "better"
    assert rows["same"]["decision"] != "better"
    shown = study.differences_by_collection(comparison)["toy"].to_dict()
    assert list(shown) == ["more", "same"]
    assert shown["more"].startswith("+0.400 [")
    assert shown["more"].endswith("] better")
    counts = study.summarise_decisions(comparison)
    assert counts.index[0] == "more"
    assert counts.loc["more", "better"] == 1


def test_the_best_arm_of_one_collection_is_looked_up_on_the_other() -> None:
    first = arms(plain=[0.5] * 40, more=[0.9] * 40, less=[0.1] * 40)
    second = arms(plain=[0.5] * 40, more=[0.1] * 40, less=[0.9] * 40)
    table = study.transfer({"a": first, "b": second}).set_index(["chosen_on", "used_on"])
    row = table.to_dict("index")[("a", "b")]
    assert row["tau"] == pytest.approx(-1)
    assert (row["best"], row["its_rank"]) == ("more", 3)
    assert row["gain"] == pytest.approx(-0.4)
    assert row["tau_low"] == row["tau_high"] == pytest.approx(-1), "all questions say the same"
    lines = study.techniques_findings(
        study.compare_arms({"a": first, "b": second}), table.reset_index()
    )
    assert "better than the plain hybrid search there in 0 of 2 cases, and worse in 2" in lines[-1]


def test_cost_is_relative_to_the_plain_search() -> None:
    table = arms(plain=[0.1] * 3, more=[0.2] * 3)
    costs = study.costs({"toy": table}).set_index("arm")
    assert costs["tokens_ratio"].to_dict() == {study.BASELINE: 1.0, "more": 2.0}
    assert costs["handed_over_ratio"].tolist() == [1.0, 1.0]


def test_arms_are_scored_on_a_collection(tmp_path: Path) -> None:
    grid = tmp_path / "few.toml"
    grid.write_text(
        '[fixed]\ndataset = "pydoc"\nperspectives = "retrieval"\nllm = "none"\nchunk_size = 256\n'
        '[[run]]\nretriever = "bm25"\n[[run]]\nretriever = "bm25"\nexpand = "window:1"\n'
    )
    texts = {"d1": "The moon is made of rock.", "d2": "The sea is full of salt."}
    span = rb.Span("d2", 4, 24)
    cases = {"q1": rb.Case("q1", "What is in the sea?", evidence=(span,))}
    data = rb.Dataset.from_dicts(texts, cases)
    table = study.score_arms(data, grid)
    assert table["arm"].tolist() == ["retriever bm25", "retriever bm25, expand window:1"]
    assert table["span_recall@500tok"].tolist() == [1.0, 1.0]
    assert table["chunks"].tolist() == [2, 2]
    assert table["tokens"].tolist() == [14, 14]  # the full stop is a token
    assert table["handed_over"].tolist() == [7.0, 7.0]  # one of the two shares no word
