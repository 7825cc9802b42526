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
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
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


class _Provider(NamedTuple):
    """A provider of language models: a new one is a module with its client, and a row in `_PROVIDERS`.

    `make_client` returns the client of a model, from the model's name, an address ("" for the provider's
    own) and a key (None without one). A provider that `takes_keys` needs a key at its own `address`,
    and if `needs_key_elsewhere` also at another one. `default_model` is asked if no model is named ("": an
    error). `path` is added to an address that has none. `retired` maps models that the provider serves no
    more to their successors.
    """

    make_client: Callable[[str, str, str | None], Any]
    address: str
    takes_keys: bool = False
    needs_key_elsewhere: bool = False
    default_model: str = ""
    path: str = ""
    retired: Mapping[str, str] = MappingProxyType({})


_OLLAMA = "http://localhost:11434"
_PROVIDERS = {
    "anthropic": _Provider(
        lambda model, url, key: Claude(model, key or "", url or None),
        "https://api.anthropic.com",
        takes_keys=True,
        needs_key_elsewhere=True,
        default_model="claude-sonnet-5-5",
        # published settings still name it
        retired={"claude-3-5-sonnet-20241022": "claude-sonnet-5-5"},
    ),
    "ollama": _Provider(
        lambda model, url, key: Ollama(model, url or _OLLAMA),
        _OLLAMA,
        default_model="llama3.1:8b",
    ),
    "openai": _Provider(  # any server with this interface
        lambda model, url, key: OpenAI(model, url or HOSTED, key),
        HOSTED,
        takes_keys=True,
        path="/v1",
    ),
}
PROVIDERS = tuple(_PROVIDERS)
OWN_PREFIXES = (*PROVIDERS, "scripted")
"""What comes before the colon in names of models that are not modules."""

NO_ANSWERS = "none"
"""The name, in the place of a language model, that leaves answers out: retrieval alone."""
NO_MODEL = ("extractive", NO_ANSWERS)
"""The names, in the place of a language model, that ask none."""

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
            f"{label} has generate, but no name; give it the attribute name, such as "
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
        url: the address of the provider; "" for the one that the environment names.
        settings: offline, no key is needed.

    Raises:
        ConfigError: the provider needs a key, and there is none.
    """
    row = _PROVIDERS[provider]
    url = url or _base_url(provider)
    is_elsewhere = url not in ("", row.address)
    key = key_of(provider.upper()) if row.takes_keys else None
    needs_key = row.needs_key_elsewhere if is_elsewhere else row.takes_keys
    sends_requests = settings.replies != "offline" and active_dry_run() is None
    if needs_key and key is None and sends_requests:
        variable = f"{provider.upper()}_API_KEY"
        message = f"{provider}:{model}: no key; set RAG_EVAL_{variable} or {variable}"
        if not row.needs_key_elsewhere:
            variable = f"{provider.upper()}_BASE_URL"
            message += f", or for another server RAG_EVAL_{variable} or {variable}"
        raise ConfigError(message)
    return row.make_client(model, url, key)


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

    For a model that its provider has retired, its successor is loaded, with a DataWarning, unless
    the environment names another server, which may still have it: for Anthropic in
    RAG_EVAL_ANTHROPIC_BASE_URL or ANTHROPIC_BASE_URL.

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
    successor = _PROVIDERS[provider].retired.get(model)
    if successor and not _base_url(provider):
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
    model = model or os.environ.get(variable, "") or _PROVIDERS[provider].default_model
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
    provider = name.partition(":")[0]
    row = _PROVIDERS[provider]
    is_on_the_internet = row.takes_keys
    url = _base_url(provider) or ("" if is_on_the_internet else row.address)
    if url and not listens(url):
        host = urlsplit(url).hostname  # no more of it: an address may hold a password
        raise ModelError(
            f"{name}: no server takes connections at {host}, port {_port(url)}. Start it, "
            f"name another address in RAG_EVAL_{provider.upper()}_BASE_URL, or take stored replies "
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
    if provider not in _PROVIDERS:
        return ""
    return address(_base_url(provider) or _PROVIDERS[provider].address)


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
            f"RAG_EVAL_{provider}_API_KEY or {provider}_API_KEY holds characters that no API key has"
        )
    return key or None


def _base_url(provider: str) -> str:
    """Return the address at which the environment states that a provider ("openai") is; "" if it names
    none. It has no slash at its end; for "openai", a host without a path gets "/v1".

    Raises:
        ConfigError: the variable does not hold an http address, or holds one with a user's name.
    """
    row = _PROVIDERS[provider]
    variable = f"RAG_EVAL_{provider.upper()}_BASE_URL"
    url = os.environ.get(variable, "").strip()
    if not url and row.takes_keys:  # the variable of the provider's own clients
        variable = f"{provider.upper()}_BASE_URL"
        url = os.environ.get(variable, "").strip()
    if not url:
        return ""
    if not _is_http_address(url) or "@" in url:  # not shown: it may hold a password
        raise ConfigError(
            f"{variable} is not an address without a user; expected one such as "
            "http://localhost:8000"
        )
    parts = urlsplit(url)
    is_host_alone = parts.path in ("", "/") and not parts.query
    url = url.rstrip("/")
    return url + row.path if is_host_alone else url


def _is_http_address(url: str) -> bool:
    """Return True for an address of http or https with a host, and with a valid port or none."""
    try:
        parts = urlsplit(url)
        has_valid_port = parts.port is None or parts.port >= 0
        return parts.scheme in ("http", "https") and bool(parts.hostname) and has_valid_port
    except ValueError:  # the port is not a number, or too large
        return False
