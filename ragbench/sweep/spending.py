"""What a sweep may spend: one account for all runs into its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragbench.cache import budgets, digest
from ragbench.llms import Settings, current_settings


def on_account(settings: Settings, folder: Path) -> Settings:
    """One account for all runs into a sweep's folder, also when the sweep continues on another day.

    So a maximum is one for the whole sweep, however often it was interrupted. RAGBENCH_BUDGET names another.
    """
    budget = current_settings(account=f"sweep {digest(str(folder.absolute()))[:16]}").budget
    return replace(settings, budget=budget)


def spent(settings: Settings) -> float:
    """US dollars that the account has spent so far; requests that were sent without a maximum are not on it."""
    now = budgets.spent(settings.budget)
    return now.settled + now.open


def stopped(settings: Settings, unfinished: int) -> str:
    """The message of a sweep that the maximum cost has ended."""
    if settings.replies == "off":
        kept = "Without the reply store (--no-cache) what unfinished ones have paid for is lost"
    else:
        kept = (
            "What was paid for is stored: the same command with a higher --max-cost continues from there and pays for "
        )
        kept += "nothing twice"
    return (
        f"the maximum cost of {settings.max_cost or 0:.2f} dollars is reached: {spent(settings):.4f} are spent"
        f"{budgets.spent(settings.budget).lost_in_words}, and the next request might pass it. {unfinished} "
        f"configurations are not finished. {kept}"
    )
