"""Can the model of a name be asked here and now? For those who would rather skip than fail."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from ragbench.errors import ConfigError, FailureKind, MissingExtraError, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.providers import PROVIDERS, check_llm, load_llm, own_server, parse
from ragbench.llms.settings import Settings, current_settings
from ragbench.llms.stored_llm import StoredLLM
from ragbench.types import LLMLike


def unavailable(name: str = "env") -> str:
    """Why the model of that name cannot be asked here, in words; "" where it can.

    No model named, no key, no file, an optional package that is not installed, or no server that takes connections at
    its address (for up to two seconds; a provider's own address on the internet is not tried). With
    RAGBENCH_REPLIES=offline replies come from the store, and no server is needed. Nothing is asked of the model.

    Raises:
        ConfigError: the provider does not exist: that is an error of the caller, not something missing.
    """
    provider = os.environ.get("RAG_EVAL_PROVIDER") or "ollama"
    if name == "env" and provider not in PROVIDERS:
        parse(name)
    try:
        load_llm(name)
    except (ConfigError, MissingExtraError) as exc:
        return str(exc)
    return _unheard(name, current_settings())


def _unheard(name: str, settings: Settings) -> str:
    where = own_server(name)
    if not where or settings.replies == "offline" or listens(where):
        return ""
    parts = urlsplit(where)  # its host only: an address may hold a password
    return f"{':'.join(parse(name))}: no server takes connections at {parts.hostname}, port {_port(where)}"


def check_servers(*models: LLMLike, settings: Settings | None = None) -> None:
    """Refuse models that cannot be asked here and now, before any work is done for them.

    "" and "extractive" are no models, and a model of your own is taken as it is. Offline, or in a dry run, no server
    is needed. `settings` are for models that are named.

    Raises:
        ConfigError: an unknown provider, no key, no file.
        ModelError: no server takes connections at the model's address.

    >>> check_servers("", "extractive")
    """
    for model in models:
        if model in ("", "extractive"):
            continue
        llm = check_llm(model, settings)
        if active_dry_run() is None and isinstance(llm, StoredLLM) and (reason := _unheard(llm.name, llm.settings)):
            raise ModelError(
                f"{reason}. Start it, name another address in RAG_EVAL_{parse(llm.name)[0].upper()}_BASE_URL, or take "
                "stored replies only (--offline, RAGBENCH_REPLIES=offline)",
                FailureKind.UNREACHABLE,
            )


def listens(url: str, timeout_s: float = 2.0) -> bool:
    """Whether something takes connections at the host and port of a URL.

    >>> listens("http://127.0.0.1:9")
    False
    """
    try:
        with socket.create_connection((urlsplit(url).hostname or "", _port(url)), timeout_s):
            return True
    except OSError:
        return False


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)
