"""Pairs of systems judged by people and judges: differences, contradictions, labels that a judge saves."""

import numpy as np
import pandas as pd
import pytest

from ragbench import studies


def verdicts(systems: dict[str, list[int]], judges: dict[str, list[int]]) -> pd.DataFrame:
    rows = [
        {"question": f"q{number}", "system": name, "person": person, "judge": judge}
        for name, labels in systems.items()
        for number, (person, judge) in enumerate(zip(labels, judges[name], strict=True))
    ]
    return pd.DataFrame(rows)


def test_a_pair_is_the_second_minus_the_first_on_questions_with_all_verdicts() -> None:
    table = verdicts({"a": [0, 1, 1], "b": [1, 1, 0]}, {"a": [0, 1, 0], "b": [1, 0, 0]})
    table.loc[2, "judge"] = np.nan  # of system a, question q2
    [pair] = studies.pair_differences(table)
    assert list(pair.index) == ["q0", "q1"]
    assert list(pair["person"]) == [1, 0]
    assert list(pair["judge"]) == [1, -1]


def test_a_judge_that_reverses_people_names_each_winner_wrong() -> None:
    better, worse = [1] * 18 + [0, 0], [0] * 18 + [1, 0]
    table = verdicts({"a": worse, "b": better}, {"a": better, "b": worse})
    differences = studies.pair_differences(table)
    row = studies.compare_with_people(differences).loc["judge"]
    assert differences[0]["person"].mean() == pytest.approx(0.85)
    assert (row["wrong winners"], row["missed"], row["intervals that hold"]) == (1, 0, 0)


def test_a_judge_that_says_the_same_of_all_misses_what_people_show() -> None:
    better, worse = [1] * 18 + [0, 0], [0] * 18 + [1, 0]
    table = verdicts({"a": worse, "b": better}, {"a": [1] * 20, "b": [1] * 20})
    row = studies.compare_with_people(studies.pair_differences(table)).loc["judge"]
    assert (row["wrong winners"], row["missed"], row["intervals that hold"]) == (0, 1, 0)


def test_a_judge_that_agrees_with_people_leaves_no_width_and_one_that_knows_nothing_all_of_it() -> (
    None
):
    rng = np.random.default_rng(1)
    people = {name: list(rng.integers(0, 2, 200)) for name in "ab"}
    constant = {name: [1] * 200 for name in "ab"}
    widths = {}
    for name, judged in (("right", people), ("constant", constant)):
        differences = studies.pair_differences(verdicts(people, judged))
        curves = studies.label_curves(differences, "judge", draws=3, rng=np.random.default_rng(0))
        widths[name] = curves.pivot(index="labels", columns="interval", values="width")
    assert widths["right"]["corrected"].to_numpy() == pytest.approx(0)
    for table in widths.values():
        assert (table["labels alone"] > 0).all()
    constant_widths = widths["constant"]
    assert list(constant_widths["corrected"]) == list(constant_widths["labels alone"])


def test_a_right_judge_decides_with_fewer_labels_and_the_fraction_saved_is_their_ratio() -> None:
    rng = np.random.default_rng(3)
    people = {"a": list(rng.random(120) < 0.3), "b": list(rng.random(120) < 0.7)}
    differences = studies.pair_differences(verdicts(people, people))
    stops = studies.label_until_decided(
        differences, "judge", orders=2, rng=np.random.default_rng(0)
    )
    labels = stops["labels"].to_dict()
    assert labels["corrected"] < labels["labels alone"]
    assert list(stops["wrong sign"]) == [0, 0]
    ratio = labels["corrected"] / labels["labels alone"]
    assert studies.labels_saved(stops) == pytest.approx(1 - ratio)


def test_the_model_flatters_every_second_system() -> None:
    table = studies.model_verdicts(np.random.default_rng(0))
    wrong = table[~table["person"].astype(bool)]
    called_right = wrong.groupby(wrong["system"] % 2)["judge"].mean()
    assert len(table) == 12 * 301
    assert called_right[0] - called_right[1] == pytest.approx(0.15 * 0.88, abs=0.04)
