"""The budget of a sweep: one account for all runs into its folder, and the message when its maximum
is reached.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError
from ragbench.llms import Settings, current_settings
from ragbench.llms.prices import Price, price_of
from ragbench.llms.providers import PROVIDERS, parse
from ragbench.store import budgets, database, digest
from ragbench.store.contract import StoreError

_MODEL = re.compile(rf"(?<![^:])({'|'.join(PROVIDERS)}):\S+$")


def on_account(settings: Settings, folder: Path) -> Settings:
    """Return the settings with one account of spending for all runs into a sweep's folder, so that a
    maximum cost is for the whole sweep, however often it was interrupted. RAGBENCH_BUDGET names
    another account.
    """
    budget = current_settings(account=f"sweep {digest(str(folder.absolute()))[:16]}").budget
    return replace(settings, budget=budget)


def dollars_spent(settings: Settings) -> float:
    """Return the US dollars that the account has spent so far; requests that were sent without a
    maximum are not on it.
    """
    spending = budgets.spent(settings.budget)
    return spending.settled + spending.open


def paid_models(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the models that configurations name and that may cost money: models of providers
    ("provider:model") whose price is not known to be 0.

    Args:
        runs: a table, parameter -> value, for each configuration.

    >>> paid_models([{"llm": "anthropic:claude-haiku-4-5", "judge": "ollama:m", "retriever": "dense:openai:e"}])
    ['anthropic:claude-haiku-4-5', 'openai:e']
    """
    models = set()
    for run in runs:
        for value in run.values():
            if not isinstance(value, str):
                continue
            if value == "env":  # the model that the environment names
                value = ":".join(parse(value))  # (provider, model)
            if match := _MODEL.search(value):  # also after a kind, as in "dense:openai:e"
                models.add(match[0])
    free = Price(0.0, 0.0)  # of input and of output
    return sorted(model for model in models if price_of(model) != free)


def check_shared(executor: str, runs: Iterable[Mapping[str, Any]], settings: Settings) -> str:
    """Return the identity of the database through which workers on other machines share replies and the
    budget with this process; "" if they need none: no paid model is called, or all workers are here.

    Args:
        executor: where the runs are executed, such as "dask://host:8786".
        runs: a table, parameter -> value, for each configuration.
        settings: of the calls of models.

    Raises:
        ConfigError: there are paid models and no database.
        DataError: it cannot be opened.
    """
    # workers that are started here have the cache folder of this process
    is_local = executor.partition("?")[0] == "dask://local"
    if is_local or settings.replies == "offline":
        return ""
    paid = paid_models(runs)
    if not paid:
        return ""
    # without one database for all machines, replies are paid for twice, and the maximum is not kept
    if not database.is_shared():
        raise ConfigError(
            f"{', '.join(paid)} may cost money, and the workers of {executor} share no replies "
            "and no budget with this process: set RAGBENCH_DATABASE to one PostgreSQL database "
            "here and on each worker, or use --offline"
        )
    try:
        return database.identity()
    except StoreError as exc:
        raise DataError(str(exc)) from exc


def stop_message(settings: Settings, unfinished: int) -> str:
    """Return the message of a sweep that ended because the maximum cost is reached.

    Args:
        settings: of the calls of models; they have the maximum cost, and the account of the sweep.
        unfinished: the number of configurations that are not finished.
    """
    if settings.replies == "off":
        kept = "Without the reply store (--no-cache) what unfinished ones have paid for is lost"
    else:
        kept = (
            "All paid replies of providers are stored: the same command with a higher --max-cost "
            "continues from there and pays for none of them twice"
        )
    # a clause on dollars that may be spent, or "": requests whose process was killed, and batches
    perhaps_spent = budgets.spent(settings.budget).lost_in_words
    return (
        f"the maximum cost of {settings.max_cost or 0:.2f} dollars is "
        f"reached: {dollars_spent(settings):.4f} are spent{perhaps_spent}, and the next request "
        f"might pass it. {unfinished} configurations are not finished. {kept}"
    )
