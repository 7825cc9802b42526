"""Language models behind one protocol: providers, many requests at once, the reply store, prices.

`load_llm(name)` gives a model, `generate_many(llm, prompts)` asks it. Every reply is stored before it is used
(`ragbench.cache.replies`), so that the same request is never paid for twice. Four variables of the environment steer
this, and reach the processes of a sweep: RAGBENCH_REPLIES ("on", "off", "offline"), RAGBENCH_MAX_COST (US dollars),
RAGBENCH_ALLOW_UNPRICED (models without a price are not refused, and not counted) and RAGBENCH_BUDGET (the account that
several processes share).
"""

from __future__ import annotations

from ragbench.llms.many import Estimate, estimate_many, generate_many
from ragbench.llms.prices import Price, cost_of, price_of, prices_checked
from ragbench.llms.providers import check_llm, load_llm, named_model
from ragbench.llms.reachable import check_servers, listens, unavailable
from ragbench.llms.rehearsal import RehearsedLLM
from ragbench.llms.scripted import ScriptedLLM
from ragbench.llms.stored import StoredLLM

__all__ = [
    "Estimate",
    "Price",
    "RehearsedLLM",
    "ScriptedLLM",
    "StoredLLM",
    "check_llm",
    "check_servers",
    "cost_of",
    "estimate_many",
    "generate_many",
    "listens",
    "load_llm",
    "named_model",
    "price_of",
    "prices_checked",
    "unavailable",
]
