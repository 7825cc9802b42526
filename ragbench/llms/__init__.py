"""Language models behind one protocol: providers, many requests at once, the reply store, prices.

`load_llm(name)` gives a model, `generate_many(llm, prompts)` asks it. Every reply is stored before it is used
(`ragbench.cache.replies`), so that the same request is never paid for twice. `Settings` say what of the store is used
and what may be spent; where none are given, they come from the environment. `dry_run` counts what code would ask.
"""

from __future__ import annotations

from ragbench.llms.dry_run import STAND_IN, DryRun, ModelPlan, active_dry_run, dry_run
from ragbench.llms.many import generate_many
from ragbench.llms.prices import Price, cost_of, price_of, prices_checked
from ragbench.llms.providers import check_llm, load_llm, named_model
from ragbench.llms.reachable import check_servers, listens, unavailable
from ragbench.llms.scripted import ScriptedLLM
from ragbench.llms.settings import Settings, current_settings
from ragbench.llms.stored import StoredLLM

__all__ = [
    "STAND_IN",
    "DryRun",
    "ModelPlan",
    "Price",
    "ScriptedLLM",
    "Settings",
    "StoredLLM",
    "active_dry_run",
    "check_llm",
    "check_servers",
    "cost_of",
    "current_settings",
    "dry_run",
    "generate_many",
    "listens",
    "load_llm",
    "named_model",
    "price_of",
    "prices_checked",
    "unavailable",
]
