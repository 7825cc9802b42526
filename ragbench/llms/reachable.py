"""Can the model of a name be asked here and now? For those who would rather skip than fail."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.llms.providers import PROVIDERS, load_llm, own_server, parse
from ragbench.llms.settings import current_settings


def unavailable(name: str = "env") -> str:
    """Why the model of that name cannot be asked here, in words; "" where it can.

    No model named, no key, no file, an optional package that is not installed, or no server that takes connections at
    its address (for up to two seconds; a provider's own address on the internet is not tried). With
    RAGBENCH_REPLIES=offline replies come from the store, and no server is needed. Nothing is asked of the model.

    Raises:
        ConfigError: the provider does not exist: that is a mistake, not a lack.
    """
    provider = os.environ.get("RAG_EVAL_PROVIDER") or "ollama"
    if name == "env" and provider not in PROVIDERS:
        parse(name)
    try:
        load_llm(name)
    except (ConfigError, MissingExtraError) as exc:
        return str(exc)
    where = own_server(name)
    if not where or current_settings().replies == "offline" or listens(where):
        return ""
    parts = urlsplit(where)  # its host only: an address may hold a password
    return f"{':'.join(parse(name))}: no server takes connections at {parts.hostname}, port {_port(where)}"


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
