from .batch import generate_many
from .batch_interface import answer_in_batches, described, pending_batches
from .dry_run import STAND_IN, DryRun, ModelPlan, active_dry_run, dry_run
from .environment import TIMEOUT_S, Settings, current_settings
from .prices import Price, cost_of, price_of
from .providers import (
    NO_ANSWERS,
    NO_MODEL,
    check_llm,
    check_servers,
    listens,
    load_llm,
    named_model,
    provider_hint,
    unavailable,
)
from .scripted import ScriptedLLM
from .stored_llm import StoredLLM

__all__ = [
    "NO_ANSWERS",
    "NO_MODEL",
    "STAND_IN",
    "TIMEOUT_S",
    "DryRun",
    "ModelPlan",
    "Price",
    "ScriptedLLM",
    "Settings",
    "StoredLLM",
    "active_dry_run",
    "answer_in_batches",
    "check_llm",
    "check_servers",
    "cost_of",
    "current_settings",
    "described",
    "dry_run",
    "generate_many",
    "listens",
    "load_llm",
    "named_model",
    "pending_batches",
    "price_of",
    "provider_hint",
    "unavailable",
]
