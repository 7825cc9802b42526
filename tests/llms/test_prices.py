"""Prices: by hand, unknown is not zero, and the user's table goes first."""

from __future__ import annotations

import datetime
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ragbench import llms
from ragbench.errors import ConfigError
from ragbench.types import Completion


def completion(model: str, read: int = 2_000, written: int = 400, **more: Any) -> Completion:
    return Completion("text", model, read, written, **more)


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("anthropic:claude-haiku-4-5", 0.004),  # 2,000 * 1 / 1e6 + 400 * 5 / 1e6
        ("anthropic:claude-haiku-4-5-20251001", 0.004),
        ("openai:gpt-4o-mini-2024-07-18", 0.00054),  # 2,000 * 0.15 / 1e6 + 400 * 0.60 / 1e6
        ("ollama:llama3.1:8b", 0.0),
        ("scripted:test", 0.0),
        ("ollama:gpt-oss:120b-cloud", None),
        ("openai:my-own", None),
        ("anthropic:claude-of-tomorrow", None),
        ("no provider", None),
        ("anthropic:claude-3-5-sonnet-20241022", 0.012),  # 2,000 * 3 / 1e6 + 400 * 15 / 1e6
        ("anthropic:claude-sonnet-4-20250514", 0.012),
        ("gpt-4o-mini", 0.00054),  # as a system under test reports it, without the provider
    ],
)
def test_cost_by_hand(model: str, cost: float | None, llm_environment: Any) -> None:
    assert llms.cost_of(completion(model)) == (cost if cost is None else pytest.approx(cost))


def test_a_long_prompt_costs_more_per_token(llm_environment: Any) -> None:
    price = llms.price_of("anthropic:claude-haiku-5-5")
    assert price is not None
    assert price.cost(100_000, 1_000) == pytest.approx(0.0105)
    assert price.cost(100_001, 1_000) == pytest.approx(0.0525005)


def test_a_cached_reply_has_the_price_of_the_configuration_and_a_failed_one_none(
    llm_environment: Any,
) -> None:
    assert llms.cost_of(completion("anthropic:claude-haiku-4-5", cached=True)) == pytest.approx(
        0.004
    )
    assert llms.cost_of(completion("anthropic:claude-haiku-4-5", 0, 0, error="429")) == 0.0
    assert (
        llms.cost_of(completion("anthropic:claude-haiku-4-5", 0, 0)) is None
    )  # no usage figures: not free


def test_the_users_table_goes_first_and_may_change(llm_environment: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    llm_environment.setenv("RAGBENCH_PRICES", str(file))
    for number, (price, cost) in enumerate([(1.0, 0.002), (2.0, 0.004)]):
        free = '"anthropic:claude-haiku-4-5" = { input = 0, output = 0 }'
        entries = f'"openai:mine" = {{ input = {price}, output = 0 }}\n{free}'
        file.write_text(f"checked = 2026-01-02\n[models]\n{entries}\n")
        os.utime(file, (number, number))
        assert llms.cost_of(completion("openai:mine")) == pytest.approx(cost)
    assert llms.cost_of(completion("anthropic:claude-haiku-4-5")) == 0.0
    assert llms.cost_of(completion("openai:gpt-4o-mini")) == pytest.approx(0.00054)


def test_a_users_table_needs_no_more_than_its_models(llm_environment: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[models]\n"mine:large" = { input = 1.0, output = 2.0 }\n')
    llm_environment.setenv("RAGBENCH_PRICES", str(tmp_path / "mine.toml"))
    assert llms.cost_of(completion("mine:large")) == pytest.approx(0.0028)


@pytest.mark.parametrize(
    "text",
    [
        "not toml =",
        "checked = 2026-01-02",
        'checked = 2026-01-02\n[models]\n"openai:m" = 3',
        'checked = 2026-01-02\n[models]\n"openai:m" = { input = 1 }',
        'checked = 2026-01-02\n[models]\n"openai:m" = { input = -1, output = 1 }',
        'checked = 2026-01-02\n[models]\n"openai:m" = { input = nan, output = 1 }',
        'checked = 2026-01-02\n[models]\n"openai:m" = { input = 1, output = 1, above = 5 }',
        'checked = 2026-01-02\n[models]\n"m" = { input = 1, output = 1 }',
        'checked = "soon"\n[models]\n',
    ],
)
def test_a_broken_table_is_one_clear_error(llm_environment: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    llm_environment.setenv("RAGBENCH_PRICES", str(tmp_path / "mine.toml"))
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        llms.price_of("openai:m")


def test_a_table_that_is_not_there_is_named(llm_environment: Any) -> None:
    llm_environment.setenv("RAGBENCH_PRICES", "/no/such.toml")
    with pytest.raises(ConfigError, match=r"/no/such\.toml"):
        llms.price_of("openai:m")


def test_the_table_has_the_date_of_its_last_check(llm_environment: Any) -> None:
    table = tomllib.loads((Path(llms.__file__).parent / "prices.toml").read_text(encoding="utf-8"))
    assert datetime.date(2026, 1, 1) < table["checked"]
