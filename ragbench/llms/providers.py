"""From a name such as "anthropic:<model>" and the environment to a model that can be asked:
providers, default models, addresses, keys, and whether a server listens.

Settings, all from the environment: RAG_EVAL_PROVIDER ("ollama" unless set) for the name "env";
RAG_EVAL_<P>_MODEL (for OLLAMA and ANTHROPIC there is a default) and RAG_EVAL_<P>_BASE_URL for <P>
in OLLAMA, ANTHROPIC, OPENAI; RAG_EVAL_<P>_API_KEY for the latter two. <P>_BASE_URL and <P>_API_KEY,
which other tools read, hold for these two where the former are not set.
"""

import inspect
import os
import re
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ragbench.errors import ConfigError, FailureKind, ModelError, unknown, warn_user
from ragbench.extension import FORM, check_call, imported, is_import, object_name
from ragbench.llms.anthropic import Claude
from ragbench.llms.costs import check_price
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.environment import Settings, current_settings
from ragbench.llms.http import Server, address
from ragbench.llms.ollama import Ollama
from ragbench.llms.openai import HOSTED, OpenAI
from ragbench.llms.prices import prices
from ragbench.llms.scripted import ScriptedLLM
from ragbench.llms.stored_llm import StoredLLM
from ragbench.types import LLM, LLMLike

PROVIDERS = ("anthropic", "ollama", "openai")
OWN_PREFIXES = (*PROVIDERS, "scripted")
"""What comes before the colon in names of models that are not modules."""
DEFAULT_MODELS = {"ollama": "llama3.1:8b", "anthropic": "claude-sonnet-5-5"}
"""The model of a provider where none is named; others have no default."""

NO_ANSWERS = "none"
"""The name, in the place of a language model, that leaves answers out: retrieval alone."""
NO_MODEL = ("extractive", NO_ANSWERS)
"""The names, in the place of a language model, that ask none."""

_RETIRED = {
    "claude-3-5-sonnet-20241022": "claude-sonnet-5-5"
}  # served no more; published settings still name it
_OLLAMA = "http://localhost:11434"
_SHARED = ("OPENAI", "ANTHROPIC")
"""Providers whose address is also read from the variable of their own clients."""
_CONNECT_S = 2.0


def load_llm(
    name: str | LLM | Callable[[str], Any] = "env", settings: Settings | None = None
) -> LLM:
    """Return the model of that name: "anthropic:<model>", "ollama:<model>", "openai:<model>" or
    "env".

    "openai" is any OpenAI-compatible server; "env" takes provider and model from the environment
    (see this module). Replies go through the reply store. Nothing is sent and no model is loaded
    before the first request that the store cannot answer. Without `settings`, the settings of the
    environment are used (`current_settings`). Raises ConfigError when something is missing, and
    states what to set.

    A model of your own is an `LLM`, a function from a prompt to a text (or a `Completion`), or
    "package.module:attribute", which names such an object. Its replies are not stored.

    >>> load_llm("ollama:llama3.1:8b").name
    'ollama:llama3.1:8b'
    >>> load_llm("olama:llama3.1:8b")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown LLM provider 'olama'; did you mean 'ollama'? Known: anthropic, ollama, ...
    >>> load_llm(lambda prompt: prompt.upper()).generate("hello").text
    'HELLO'
    """
    if not isinstance(name, str):
        return _users_model(name)
    if is_import(name, OWN_PREFIXES):
        return _users_model(imported(name, "llm"))
    return stored_llm(name, settings)


def _users_model(given: Any) -> LLM:
    """Return a user's language model, in any of the forms in which it can be passed.

    It is an object with `name` and `generate`, a class of such objects (one is made), or a function
    from a prompt to a text (it becomes a `ScriptedLLM`).

    Raises:
        ConfigError: the object is none of these, or does not take the arguments of a call.
    """
    label = f"llm {object_name(given)!r}"
    model = given
    if inspect.isclass(given):
        check_call(label, given)
        model = given()
    if callable(getattr(model, "generate", None)):
        _check_model_object(label, model)
        return model  # type: ignore[no-any-return]
    if not callable(model):
        raise ConfigError(
            f"llm {object_name(given)!r}: expected a name, an LLM with name and generate(prompt, ...), "
            "or a function of a prompt that returns a text; for a client name its model, as in "
            "llm='openai:gpt-4o-mini'"
        )
    check_call(label, model, "prompt")
    return ScriptedLLM(model, name=f"function:{object_name(given)}")


def _check_model_object(label: str, model: Any) -> None:
    """Raise ConfigError for an object with `generate` that has no name, or does not take a call."""
    if not isinstance(getattr(model, "name", None), str):
        raise ConfigError(
            f"{label} has generate, and no name; give it the attribute name, such as "
            "'mine:large', by which results and prices know it"
        )
    check_call(f"generate of {label}", model.generate, "prompt", options=_OPTIONS)


_OPTIONS = ("system", "max_tokens", "temperature")
"""The options with which `generate` of every language model is called."""


def stored_llm(name: str, settings: Settings | None = None) -> StoredLLM:
    """Return the model of a provider."""
    provider, model = parse(name)
    client = _client(provider, model, "", settings or current_settings())
    return StoredLLM(provider, model, client, settings)


def connection_of(provider: str, model: str, url: str = "") -> tuple[Server, str]:
    """Return the server of "ollama" or "openai" as the environment or `url` names it, and its
    origin for the reply store.

    Raises:
        ConfigError: the hosted service without a key, or something that is not an address.
    """
    client = _client(provider, model, url, current_settings())
    return client, client.origin


def _client(provider: str, model: str, url: str, settings: Settings) -> Any:
    """Return the client that sends requests to a provider.

    Args:
        url: the address of "ollama" or "openai"; "" for the one that the environment names. It is
            ignored for "anthropic", whose address is always the one of the environment.
        settings: offline, no key is needed.

    Raises:
        ConfigError: the provider needs a key, and there is none.
    """
    if provider == "ollama":
        return Ollama(model, url or _base_url("OLLAMA", _OLLAMA))
    key = key_of(provider.upper())
    sends_requests = settings.replies != "offline" and active_dry_run() is None
    lacks_key = key is None and sends_requests
    if provider == "openai":
        url = url or _base_url("OPENAI", HOSTED)
        if lacks_key and url == HOSTED:  # other servers may need none
            raise ConfigError(
                f"openai:{model}: no key; set RAG_EVAL_OPENAI_API_KEY or OPENAI_API_KEY, or for "
                "another server RAG_EVAL_OPENAI_BASE_URL or OPENAI_BASE_URL"
            )
        return OpenAI(model, url, key)
    if provider == "anthropic":
        if lacks_key:
            raise ConfigError(
                f"anthropic:{model}: no key; set RAG_EVAL_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY"
            )
        return Claude(model, key or "", _base_url("ANTHROPIC", "") or None)
    raise NotImplementedError(f"{provider} is in PROVIDERS, and has no branch here")


def check_llm(name: str | LLM | Callable[[str], Any]) -> LLM:
    """Return the model of that name; ConfigError when it could not be asked: unknown provider, no
    model, no key.

    Also when the user's table of prices is wrong, or a maximum cost is set and the model's price is
    unknown. Nothing is sent.

    >>> check_llm("openai:")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: 'openai:' names no model; write openai:<model>
    """
    model = load_llm(name)
    settings = model.settings if isinstance(model, StoredLLM) else current_settings()
    check_price(model.name, settings)
    return model


def parse(name: str) -> tuple[str, str]:
    """Return provider and model of a name "provider:model"; "env" stands for the model that the
    environment names (RAG_EVAL_PROVIDER and others).

    For a model that Anthropic has retired, its successor is loaded, with a DataWarning, unless
    RAG_EVAL_ANTHROPIC_BASE_URL or ANTHROPIC_BASE_URL names another server, which may still have it.

    >>> parse("ollama:llama3.1:8b")
    ('ollama', 'llama3.1:8b')

    Raises:
        ConfigError: the provider is unknown, or no model is named.
    """
    if name == "env":
        name = named_model(name)
    provider, _, model = name.partition(":")
    if provider not in PROVIDERS:
        known = f"{', '.join(PROVIDERS)}, {FORM}"
        message = unknown("LLM provider", provider, PROVIDERS, known)
        raise ConfigError(f"{message}{provider_hint(name)}")
    if not model:
        raise ConfigError(f"{name!r} names no model; write {provider}:<model>")
    is_retired = provider == "anthropic" and model in _RETIRED
    if is_retired and not _base_url("ANTHROPIC", ""):
        successor = _RETIRED[model]
        warn_user(
            f"{model} is retired; {successor} is asked instead. Name a current model to "
            "choose another"
        )
        return provider, successor
    return provider, model


def provider_hint(name: str) -> str:
    """Return the end of an error about a model that is named without its provider: a sentence with its
    whole name; "" if none is known.

    >>> provider_hint("gpt-4o-mini")
    ". Write 'openai:gpt-4o-mini'"
    >>> provider_hint("openai/gpt-4o-mini")
    ". Write 'openai:gpt-4o-mini'"
    """
    prefix, slash, model = name.partition("/")
    if slash and prefix in PROVIDERS:
        return f". Write '{prefix}:{model}'"
    # The provider of the first priced model whose name begins alike: "gpt" of "gpt-4o-mini".
    family = re.split(r"[-\d]", name)[0]
    for priced in prices():
        provider, _, priced_model = priced.partition(":")
        if family and priced_model.startswith(family):
            return f". Write '{provider}:{name}'"
    return ""


def named_model(name: str = "", provider: str = "", model: str = "") -> str:
    """Return one name of a model from its parts; missing parts come from RAG_EVAL_*. "" if no part
    is given.

    >>> named_model("", "anthropic", "claude-haiku-4-5"), named_model("anthropic:claude-haiku-4-5"), named_model("")
    ('anthropic:claude-haiku-4-5', 'anthropic:claude-haiku-4-5', '')

    Raises:
        ConfigError: a whole name next to parts of another, an unknown provider, or one without a
            default model.
    """
    if name not in ("", "env"):
        if provider or model:
            raise ConfigError(
                f"{name!r} already names provider and model; leave out {provider or model!r}"
            )
        return name
    if name == "" and not (provider or model):
        return ""
    where = "" if provider else "RAG_EVAL_PROVIDER: "
    provider = provider or os.environ.get("RAG_EVAL_PROVIDER") or "ollama"
    if provider not in PROVIDERS:
        raise ConfigError(f"{where}{unknown('LLM provider', provider, PROVIDERS)}")
    variable = f"RAG_EVAL_{provider.upper()}_MODEL"
    model = model or os.environ.get(variable, "") or DEFAULT_MODELS.get(provider, "")
    if not model:
        raise ConfigError(f"no model of {provider} is named; set {variable}")
    return f"{provider}:{model}"


def unavailable(name: str = "env") -> str:
    """Return why the model of that name cannot be asked here, in words; "" if it can.

    It cannot be asked if no model is named, its key or an optional package is missing, or no server
    takes connections at its address (this is tried for up to two seconds, but not for a provider's own
    address on the internet). With RAGBENCH_REPLIES=offline replies come from the store, and no server
    is needed. Nothing is sent to the model.

    Raises:
        ConfigError: the name is "env", and RAG_EVAL_PROVIDER is set to an unknown provider. For any
            other name with an unknown provider, the text states this.
    """
    # a misspelt setting must be an error, not "this model cannot be asked here"; unset means ollama
    provider = os.environ.get("RAG_EVAL_PROVIDER") or "ollama"
    if name == "env" and provider not in PROVIDERS:
        parse(name)  # raises the ConfigError that names the known providers
    try:
        check_servers(name)
    except (ConfigError, ModelError) as exc:
        return str(exc)
    return ""


def check_servers(*models: LLMLike) -> None:
    """Raise an error for a model that cannot be asked here and now, before any work is done for it.

    Not checked are "" and the names in `NO_MODEL`, which stand for no model, and a user's own model
    object. Offline, or in a dry run, no server is needed.

    Raises:
        ConfigError: an unknown provider, no key.
        ModelError: no server takes connections at the model's address.

    >>> check_servers("", "extractive")
    """
    for model in models:
        if model in ("", *NO_MODEL):
            continue
        llm = check_llm(model)
        if active_dry_run() or not isinstance(llm, StoredLLM):
            continue
        if llm.settings.replies != "offline":
            _check_connection(llm.name)


def _check_connection(name: str) -> None:
    """Raise ModelError if no server takes connections at the address of a provider's model.

    A provider's own address on the internet is not tried.
    """
    provider = name.partition(":")[0].upper()
    url = _base_url(provider, _OLLAMA if provider == "OLLAMA" else "")
    if url and not listens(url):
        host = urlsplit(url).hostname  # no more of it: an address may hold a password
        raise ModelError(
            f"{name}: no server takes connections at {host}, port {_port(url)}. Start it, "
            f"name another address in RAG_EVAL_{provider}_BASE_URL, or take stored replies "
            "only (--offline, RAGBENCH_REPLIES=offline)",
            FailureKind.UNREACHABLE,
        )


def listens(url: str) -> bool:
    """Return True if something takes connections at the host and port of a URL.

    >>> listens("http://127.0.0.1:9")
    False
    """
    try:
        with socket.create_connection((urlsplit(url).hostname or "", _port(url)), _CONNECT_S):
            return True
    except OSError:
        return False


def address_of(name: str) -> str:
    """Return where the requests to a model of that name go; "" for a model that is no provider's.

    >>> address_of("function:reader")
    ''
    """
    provider = name.partition(":")[0]
    defaults = {"ollama": _OLLAMA, "openai": HOSTED, "anthropic": "https://api.anthropic.com"}
    if provider not in defaults:
        return ""
    return address(_base_url(provider.upper(), defaults[provider]))


def _port(url: str) -> int:
    """Return the port of an address: the stated one, else the port of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def key_of(provider: str) -> str | None:
    """Return the key of a provider ("OPENAI") from the environment; None if the variable is not set, or
    blank.

    Raises:
        ConfigError: the key holds characters that no key has.
    """
    key = os.environ.get(f"RAG_EVAL_{provider}_API_KEY") or os.environ.get(f"{provider}_API_KEY")
    if key is None:
        return None
    key = key.strip()
    if not key.isascii() or not key.isprintable():  # the HTTP library's error would show it
        raise ConfigError(
            f"RAG_EVAL_{provider}_API_KEY or {provider}_API_KEY holds characters that no key has"
        )
    return key or None


def _base_url(provider: str, default: str) -> str:
    """Return the address at which the environment says a provider ("OPENAI") is; `default` if it names
    none. It has no slash at its end; for OPENAI, a host without a path gets "/v1".

    Raises:
        ConfigError: the variable does not hold an http address, or holds one with a user's name.
    """
    variable = f"RAG_EVAL_{provider}_BASE_URL"
    url = os.environ.get(variable, "").strip()
    if not url and provider in _SHARED:
        variable = f"{provider}_BASE_URL"
        url = os.environ.get(variable, "").strip()
    if not url:
        return default
    if not _is_http_address(url) or "@" in url:  # not shown: it may hold a password
        raise ConfigError(
            f"{variable} is not an address without a user; expected one such as "
            "http://localhost:8000"
        )
    parts = urlsplit(url)
    is_host_alone = parts.path in ("", "/") and not parts.query
    url = url.rstrip("/")
    return f"{url}/v1" if provider == "OPENAI" and is_host_alone else url


def _is_http_address(url: str) -> bool:
    """Return True for an address of http or https with a host, and with a valid port or none."""
    try:
        parts = urlsplit(url)
        has_valid_port = parts.port is None or parts.port >= 0
        return parts.scheme in ("http", "https") and bool(parts.hostname) and has_valid_port
    except ValueError:  # the port is not a number, or too large
        return False
