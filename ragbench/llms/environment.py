"""How language models may be asked: whether the reply store is used (offline, off), how much may be
spent, the default time limit, and the variables that set these.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.hints.attributes import suggesting

TIMEOUT_S = 300.0
"""Seconds that a reply may take, unless the caller states others."""

MODES = ("on", "off", "offline")
_OWN_BUDGET = f"process {uuid.uuid4().hex}"
_in_force: Settings | None = None


@suggesting()
@dataclass(frozen=True)
class Settings:
    """How language models may be asked; `current_settings` takes missing values from the environment.

    `replies` is "on", "off" (the reply store is neither read nor written) or "offline" (no request
    leaves). Requests that might pass `max_cost` US dollars (None: any) on the account `budget`,
    which several processes may share, are not sent. `allow_unpriced` leaves models without a price
    out of this; otherwise they are refused.

    >>> Settings(replies="offlin")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: RAGBENCH_REPLIES is 'offlin'; expected one of on, off, offline
    """

    replies: str = "on"
    max_cost: float | None = None
    budget: str = _OWN_BUDGET
    allow_unpriced: bool = False

    def __post_init__(self) -> None:
        if self.replies not in MODES:
            raise ConfigError(
                f"RAGBENCH_REPLIES is {self.replies!r}; expected one of {', '.join(MODES)}"
            )
        if self.max_cost is not None and not (math.isfinite(self.max_cost) and self.max_cost >= 0):
            raise ConfigError(_no_cost(self.max_cost))

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that give a child process these settings."""
        return {
            "RAGBENCH_REPLIES": self.replies,
            "RAGBENCH_MAX_COST": "" if self.max_cost is None else repr(self.max_cost),
            "RAGBENCH_BUDGET": self.budget,
            "RAGBENCH_ALLOW_UNPRICED": "1" if self.allow_unpriced else "",
        }

    @property
    def advice_on_repeating(self) -> str:
        """Return a clause about running again: whether paid replies would be paid for again."""
        if self.replies == "off":
            return (
                "without the reply store (--no-cache) nothing is kept: all is paid for again "
                "if you run it again"
            )
        return "what came back is stored, so run again"


@contextmanager
def in_force(settings: Settings) -> Iterator[None]:
    """Make these settings the default of this process while the block runs: models that are loaded
    without settings get them (see `current_settings`). Commands use it.
    """
    global _in_force
    before = _in_force
    _in_force = settings
    try:
        yield
    finally:
        _in_force = before


def current_settings(
    replies: str | None = None,
    max_cost: float | None = None,
    allow_unpriced: bool = False,
    *,
    account: str = "",
) -> Settings:
    """Return settings with the given values, and the others from the environment.

    The variables are RAGBENCH_REPLIES, RAGBENCH_MAX_COST, RAGBENCH_BUDGET and
    RAGBENCH_ALLOW_UNPRICED. Inside `in_force` a call without values returns the settings in
    force, whatever the environment holds. `account` names the budget if the environment does not;
    without either, the budget is one of this process alone.

    >>> current_settings("off", max_cost=5).replies
    'off'

    Raises:
        ConfigError: a value is invalid.
    """
    is_without_values = (replies, max_cost, allow_unpriced) == (None, None, False)
    if _in_force is not None and is_without_values:
        return _in_force
    if max_cost is None:
        max_cost = _max_cost_of_environment()
    return Settings(
        replies or os.environ.get("RAGBENCH_REPLIES") or "on",
        None if max_cost is None else float(max_cost),
        os.environ.get("RAGBENCH_BUDGET") or account or _OWN_BUDGET,
        allow_unpriced or bool(os.environ.get("RAGBENCH_ALLOW_UNPRICED")),
    )


def _max_cost_of_environment() -> float | None:
    """Return the maximum in RAGBENCH_MAX_COST, in US dollars; None if it is not set, or blank."""
    text = os.environ.get("RAGBENCH_MAX_COST", "").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(_no_cost(text)) from None


def _no_cost(value: object) -> str:
    return f"RAGBENCH_MAX_COST is {value!r}; expected US dollars, 0 or more, such as 5.00"
