"""The tables of history.ipynb, on the made-up nights."""

from __future__ import annotations

import pandas as pd
import pytest

import ragbench as rb
from ragbench import service
from ragbench.report import plots


@pytest.fixture(scope="module")
def database() -> str:
    return service.example_database()


def test_the_made_up_nights_are_the_same_every_time() -> None:
    first, again = service.made_up_nights(), service.made_up_nights()
    assert len(first) == 50
    assert all(one.scores.equals(two.scores) for one, two in zip(first, again, strict=True))
    assert [len(first[night].queries) for night in (41, 42)] == [60, 80]


def test_the_fall_of_billing_is_a_change_with_its_dates(database: str) -> None:
    drifts = {"nDCG@10": service.drifts("nDCG@10", database=database)}
    changes = service.change_table(drifts)
    assert "fall" in changes["change"].tolist()
    fall = changes[changes["change"] == "fall"].iloc[0]
    assert fall["before"] > fall["after"]
    assert any(text.startswith("**nDCG@10**: ") for text in service.drift_sentences(drifts))
    assert service.drift_sentences({}) == ["too few runs of any configuration"]
    assert service.change_table({}).empty


def test_measures_without_a_run_have_no_trend(database: str) -> None:
    trends = service.known_trends(["nDCG@10", "llm_correctness", "nDCG@10"], database=database)
    assert [*trends] == ["nDCG@10"]
    figure = plots.trend_lines(trends["nDCG@10"], "nDCG@10")
    assert figure.axes[0].get_ylabel() == "nDCG@10"


def test_cost_and_categories_are_by_configuration(database: str) -> None:
    runs = rb.history(database=database, limit=0)
    assert service.cost_per_hundred(runs)["mean"].tolist() == [0.2]
    rates = service.category_rates(runs)
    assert rates.columns.tolist() == ["before", "newest 7"]
    billing = rates.xs("billing", level="category").iloc[0]
    assert billing["newest 7"] < billing["before"] - 0.05
    none = runs.assign(categories=pd.Series([{} for _ in runs.index], index=runs.index))
    assert service.category_rates(none).empty
    assert isinstance(rates, pd.DataFrame)
