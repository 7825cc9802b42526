"""Rankings from pairwise verdicts: the published example, parity with a logistic regression, what has no answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics import bradley_terry, preference_table
from ragbench.types import Preference

# Agresti 2002, "Categorical Data Analysis", table 10.10: American League, eastern division, 1987; row beat column.
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
WINS = [
    [0, 7, 9, 7, 7, 9, 11],
    [6, 0, 7, 5, 11, 9, 9],
    [4, 6, 0, 7, 7, 8, 12],
    [6, 8, 6, 0, 6, 7, 10],
    [6, 2, 6, 7, 0, 7, 12],
    [4, 4, 5, 6, 6, 0, 6],
    [2, 4, 1, 3, 1, 7, 0],
]


def season() -> list[Preference]:
    games = []
    for i, home in enumerate(TEAMS):
        for j in range(i + 1, len(TEAMS)):
            results = [1.0] * WINS[i][j] + [0.0] * WINS[j][i]
            games += [
                Preference(f"{home}, {TEAMS[j]}, game {n}", home, TEAMS[j], result) for n, result in enumerate(results)
            ]
    return games


def verdicts(values: list[float | None], a: str = "a", b: str = "b", start: int = 0) -> list[Preference]:
    return [Preference(f"q{start + i}", a, b, value) for i, value in enumerate(values)]


def test_the_abilities_of_agrestis_baseball_teams() -> None:
    table = bradley_terry(season(), n_resamples=100).set_index("name")
    ability = table["ability"].astype(float).to_dict()
    # table 10.11: 1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0
    assert [round(ability[team] - ability["Baltimore"], 2) for team in TEAMS] == [1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0]
    assert table["rank"].loc[TEAMS].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert table["n"].tolist() == [78] * 7
    # the standard errors of the differences are about 0.3 there; these are of abilities about their mean, so smaller
    assert ((table["ci_high"] - table["ci_low"]) / 3.92).between(0.15, 0.35).all()


def test_parity_with_a_logistic_regression_ties_as_half() -> None:
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    games = [
        Preference(f"q{n}", names[i], names[j], float(rng.choice([0, 0.5, 1], p=[0.3, 0.2, 0.5])))
        for n in range(40)
        for i in range(4)
        for j in range(i + 1, 4)
    ]
    design = np.array([[(one.a == name) - (one.b == name) * 1.0 for name in names[1:]] for one in games])
    fitted = sm.GLM([one.value for one in games], design, family=sm.families.Binomial()).fit()
    table = bradley_terry(games, n_resamples=100).set_index("name")["ability"]
    assert (table.loc[names[1:]] - table["a"]).to_numpy(dtype=float) == pytest.approx(fitted.params, abs=1e-6)
    assert float(table.sum()) == pytest.approx(0, abs=1e-9)


def test_two_systems_by_hand() -> None:
    a, b = bradley_terry(verdicts([1, 1, 1, 0]), n_resamples=100).to_dict("records")
    assert (a["name"], b["name"]) == ("a", "b")
    assert a["ability"] - b["ability"] == pytest.approx(np.log(3))
    assert a["win_rate"] == pytest.approx(1 / (1 + 3**-0.5))


def test_who_is_named_first_does_not_matter() -> None:
    turned = [Preference(one.query_id, one.b, one.a, 1 - (one.value or 0)) for one in season()[::2]]
    mixed = sorted([*season()[1::2], *turned], key=lambda one: one.query_id)
    table, other = (bradley_terry(games, n_resamples=100).set_index("name") for games in (season(), mixed))
    assert other["ability"].loc[TEAMS].to_numpy(dtype=float) == pytest.approx(table["ability"].to_numpy(dtype=float))
    assert other["losses"].loc[TEAMS].tolist() == table["losses"].tolist()


def test_all_ties_are_one_rank() -> None:
    table = bradley_terry(verdicts([0.5, 0.5]), n_resamples=100)
    assert table["rank"].tolist() == [1, 1]
    assert table["ability"].tolist() == pytest.approx([0, 0])


def test_groups_that_never_met_are_refused() -> None:
    games = [*verdicts([1, 0]), *verdicts([1, 0], "c", "d")]
    with pytest.raises(ComparisonError, match=r"2 groups of systems that never met \(a, b; c, d\)"):
        bradley_terry(games)


def test_who_only_wins_has_no_finite_ability_but_with_a_prior() -> None:
    games = [*verdicts([1, 1, 1]), *verdicts([1, 0, 1], "b", "c"), *verdicts([1, 1, 1], "a", "c")]
    with pytest.raises(ComparisonError, match="a never lost a point"):
        bradley_terry(games)
    table = bradley_terry(games, prior=0.5, n_resamples=100)
    assert table["name"].tolist() == ["a", "b", "c"]
    assert table["ability"].abs().max() < 5


def test_a_better_system_is_found_and_the_interval_covers() -> None:
    rng = np.random.default_rng(1)
    truth = {"a": 0.6, "b": 0.0, "c": -0.6}
    hits = 0
    for _ in range(40):
        games = [
            Preference(f"q{n}", one, other, float(rng.random() < 1 / (1 + np.exp(truth[other] - truth[one]))))
            for n in range(60)
            for one, other in (("a", "b"), ("a", "c"), ("b", "c"))
        ]
        table = bradley_terry(games, n_resamples=200).set_index("name")
        low, high = (table[name].astype(float).to_dict() for name in ("ci_low", "ci_high"))
        hits += sum(low[name] <= value <= high[name] for name, value in truth.items())
    assert hits / 120 > 0.88


def test_the_table_of_a_pair() -> None:
    games = [
        Preference("q0", "a", "b", 1.0, consistent=True),
        Preference("q1", "a", "b", 0.5, consistent=False),
        Preference("q2", "b", "a", 1.0, consistent=True),
        Preference("q3", "a", "b", 1.0, consistent=True),
        Preference("q4", "a", "b", None, "judge_failed"),
    ]
    row = preference_table(games).iloc[0]
    assert (row["wins"], row["ties"], row["losses"], row["n"]) == (2, 0, 1, 3)
    assert (row["n_undecided"], row["n_unscored"]) == (1, 1)
    assert row["win_rate"] == pytest.approx(2 / 3)
    assert row["inconsistent"] == 0.25
    assert (row["p_value"], row["result"]) == (1.0, "no difference shown")


def test_a_judge_that_always_prefers_the_first_answer_is_undecided() -> None:
    games = [Preference(f"q{i}", "a", "b", None, "order_dependent", consistent=False) for i in range(100)]
    row = preference_table(games).iloc[0]
    assert (row["n"], row["n_undecided"], row["inconsistent"]) == (0, 100, 1.0)
    assert row["result"] == "this judge cannot tell"
    assert all(row[name] is pd.NA for name in ("win_rate", "ci_low", "ci_high", "p_value"))


def test_the_interval_reflects_how_few_decisions_there_were() -> None:
    decided = [Preference(f"q{i}", "a", "b", float(i % 2), consistent=True) for i in range(100)]
    few = [*decided[:10], *(Preference(f"x{i}", "a", "b", None, "order_dependent", False) for i in range(9))]
    rows = [preference_table(games).iloc[0] for games in (decided, few)]
    assert [row["win_rate"] for row in rows] == [0.5, 0.5]
    assert [round(row["ci_high"] - row["ci_low"], 1) for row in rows] == [0.2, 0.6]
    assert [row["result"] for row in rows] == ["no difference shown"] * 2


def test_a_pair_without_verdicts_has_no_numbers() -> None:
    row = preference_table(verdicts([None, None])).iloc[0]
    assert row["n"] == 0
    assert all(row[name] is pd.NA for name in ("win_rate", "ci_low", "p_value", "inconsistent"))


@pytest.mark.parametrize(
    ("games", "message"),
    [
        ([], "no comparison given"),
        (verdicts([1.5]), "value 1.5"),
        (verdicts([1], "a", "a"), "compared with itself"),
        (verdicts([1]) * 2, "two verdicts"),
        (verdicts([None]), "no comparison has a verdict"),
    ],
)
def test_no_ranking_without_connected_comparisons(games: list[Preference], message: str) -> None:
    with pytest.raises(DataError, match=message):
        bradley_terry(games)


def test_a_negative_prior_is_refused() -> None:
    with pytest.raises(ConfigError, match="prior is -1"):
        bradley_terry(verdicts([1, 0]), prior=-1)


def test_six_wins_of_six_are_not_certainty() -> None:
    row = preference_table(verdicts([1] * 6)).iloc[0]
    assert row["ci_low"] == pytest.approx(0.025 ** (1 / 6), abs=0.005)  # Clopper & Pearson
    assert row["ci_high"] == 1.0
    assert preference_table(verdicts([1])).iloc[0]["ci_low"] is pd.NA
