"""Secrets of a system's file: refused where they are written out, taken from the environment, shown nowhere."""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_core import PydanticCustomError

from ragbench.errors import ConfigError
from ragbench.llms.failures import scrubbed

_LITERAL = "literal_secret"  # the type of pydantic's error for a secret that is written out: its value is never shown
_SECRETIVE = {"headers", "headers_env", "basic_env", "env"}
_SHOWN_PROBLEMS = 5

S = TypeVar("S", bound=BaseModel)

_SECRET_NAME = re.compile(r"auth|token|secret|password|passwd|cookie|(api|access|private|subscription)[-_]?key", re.I)
# A field of a request: "max_tokens", "token_type" and "author" hold no secret.
_SECRET_FIELD = re.compile(
    r"(?:^|_)(?:token|secrets?|password|passwd|passphrase|pwd|cookie|authorization|credentials?|bearer|jwt"
    r"|(?:api|access|private|secret|subscription|license|auth)_?keys?)$"
)
_MAYBE_SECRET_FIELD = re.compile(r"(?:^|_)(?:key|auth|sig|signature|pass|pin)$")
_GENERATED = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[\w~+/.=!$%&*#-]{8,}")
_MIN_GENERATED = 16  # characters of what is refused where its field may be harmless, such as "key"
MIN_SECRET = 6  # characters; "1" and "true" are not secrets, and are in every text
_ENV = re.compile(r"(?:(?P<scheme>[A-Za-z]+) )?(?P<variable>[A-Za-z_][A-Za-z0-9_]*)")
_VARIABLE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADERS_OF_A_REPLY = re.compile(r"(receive_response_headers\.complete return_value=[^\[]*).*", re.DOTALL)
_VALUE = re.compile(r"\{\w+(:\w+)?\}")  # what is put in for it comes from elsewhere


def _literal(message: str) -> PydanticCustomError:
    return PydanticCustomError(_LITERAL, message)  # type: ignore[arg-type,unused-ignore]


def _check_literal_headers(headers: dict[str, str]) -> dict[str, str]:
    """An error for a header that by its name or form holds a secret: those come from the environment."""
    for header, value in headers.items():
        if (_SECRET_NAME.search(header) or _is_credential(value)) and not _VALUE.search(value):
            raise _literal(
                f"the header {header!r} holds a secret, which belongs in no file; write headers_env = "
                f'{{{header} = "MY_VARIABLE"}} (or "Bearer MY_VARIABLE") and set that variable'
            )
    return headers


def _check_header_variables(headers: dict[str, str]) -> dict[str, str]:
    """ValueError for what is not the name of a variable; the value is not shown, it may be the secret itself."""
    for header, value in headers.items():
        if not _ENV.fullmatch(value):
            raise ValueError(f'{header!r}: expected the name of a variable, such as "MY_TOKEN" or "Bearer MY_TOKEN"')
    return headers


def check_template(template: Any) -> Any:
    """An error for a template of a request with a secret in it."""
    for field, value in _leaves(template):
        literal = _VALUE.sub("", value).strip()
        named = _field(field)
        if (
            (_SECRET_FIELD.search(named) and literal and not _VALUE.search(value))
            or (len(literal) >= _MIN_GENERATED and _MAYBE_SECRET_FIELD.search(named) and _GENERATED.fullmatch(literal))
            or _is_credential(literal)
        ):
            where = repr(field) if field else "it"
            raise _literal(
                f"{where} holds a secret, which belongs in no file; write {{env:MY_VARIABLE}} in its place and set "
                "that variable"
            )
    return template


def _check_address(url: str) -> str:
    """`check_template` for the query string of an address."""
    check_template([{field: value} for field, value in parse_qsl(urlsplit(url).query)])
    return url


def check_server(server: str | Sequence[str]) -> None:
    """`check_template` for the address of a server, or for the arguments of the command that starts it."""
    if isinstance(server, str):
        _check_address(server)
        return
    for option, value in zip(server, [*server[1:], ""], strict=True):
        name, equals, own = option.partition("=")
        check_template({name.lstrip("-"): own if equals else value} if option.startswith("-") else option)


LiteralHeaders = Annotated[dict[str, str], AfterValidator(_check_literal_headers)]
HeaderVariables = Annotated[dict[str, str], AfterValidator(_check_header_variables)]
Template = Annotated[Any, AfterValidator(check_template)]
"""A part of a request: "{query}" and the like are filled in for each, "{env:NAME}" once from the environment."""
_Flat = str | int | float | bool
FlatTemplates = Annotated[dict[str, _Flat | list[_Flat]], AfterValidator(check_template)]
"""The same for a query string or a form; a list is sent as several fields of one name."""
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
BasicVariables = tuple[()] | tuple[_Name, _Name]
"""The names of the variables of a user and a password."""
Address = Annotated[str, AfterValidator(_check_address)]


def checked(spec: type[S], table: Mapping[str, Any], where: str) -> S:
    """A table of a system's file, or the arguments of a system, as its model; ConfigError with every problem."""
    try:
        return spec.model_validate(table)
    except ValidationError as exc:
        raise ConfigError(f"{where}: {problems(exc)}") from None


def problems(exc: ValidationError) -> str:
    """Every problem that pydantic found, in one line: where, the value, what was expected."""
    found = []
    for error in exc.errors(include_url=False):
        message = error["msg"].removeprefix("Value error, ")
        place, value, is_shown = ".".join(map(str, error["loc"])), repr(error["input"]), error["type"] != _LITERAL
        if "@" in value or _SECRETIVE.intersection(map(str, error["loc"])):  # a password may have slipped in
            is_shown = False
        value = value if len(value) <= 60 else f"{value[:60]}..."
        where = "" if not place else f"{place} is {value}: " if is_shown else f"{place}: "
        found.append(f"{where}{message[:1].lower()}{message[1:]}")
    more = f"; and {len(found) - _SHOWN_PROBLEMS} more" if len(found) > _SHOWN_PROBLEMS else ""
    return "; ".join(found[:_SHOWN_PROBLEMS]) + more


def _leaves(template: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a template, each with the name of its field."""
    if isinstance(template, str):
        yield field, template
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from _leaves(value, str(key))
    elif isinstance(template, Sequence):
        for value in template:
            yield from _leaves(value, field)


def _field(name: str) -> str:
    """ "apiKey" and "X-Api-Key" as "api_key" and "x_api_key"."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def _is_credential(value: str) -> bool:
    from ragbench.metrics.safety.secrets import secrets

    return re.match(r"(?i)(bearer|basic) \S", value) is not None or next(secrets(value), None) is not None


def from_environment(template: Any, name: str) -> tuple[Any, tuple[str, ...]]:
    """A template with the variables of the environment in the places of "{env:NAME}", and the secrets among them.

    A value is a secret by the name of its variable or field, or where it looks generated (8 characters and more, with
    letters and digits): it must not come back in an answer, an error or a log. A tenant's name may.

    >>> os.environ["DEMO_TOKEN"], os.environ["DEMO_TENANT"] = "s3cr3t-7f3a", "acme"
    >>> from_environment({"key": "{env:DEMO_TOKEN}", "tenant": "{env:DEMO_TENANT}", "q": "{query}"}, "demo")
    ({'key': 's3cr3t-7f3a', 'tenant': 'acme', 'q': '{query}'}, ('s3cr3t-7f3a',))

    Raises:
        ConfigError: a variable is not set.
    """
    secrets: dict[str, None] = {}
    named_in_it = [variable for _, text in _leaves(template) for variable in _VARIABLE.findall(text)]
    _need(named_in_it, name, "a template names it as {env:...}")

    def value_of(variable: str, field: str) -> str:
        value = os.environ[variable].strip()
        if is_secret(variable, value) or (len(value) >= MIN_SECRET and _SECRET_FIELD.search(_field(field))):
            secrets[value] = None
        return value

    def filled(part: Any, field: str) -> Any:
        if isinstance(part, str):
            return _VARIABLE.sub(lambda match: value_of(match[1], field), part)
        if isinstance(part, Mapping):
            return {key: filled(value, str(key)) for key, value in part.items()}
        return [filled(value, field) for value in part] if isinstance(part, list | tuple) else part

    return filled(template, ""), tuple(secrets)


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret."""
    return bool(_SECRET_NAME.search(name) or name.upper().endswith("KEY"))


def is_secret(name: str, value: str) -> bool:
    """Whether a value is a secret: by its name, or where it looks generated."""
    return len(value) >= MIN_SECRET and bool(is_secret_name(name) or "@" in value or _GENERATED.fullmatch(value))


def secret_headers(
    headers_env: Mapping[str, str], basic_env: Sequence[str], name: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The headers with their values from the environment, Basic auth among them, and the secrets in them."""
    sources = {header: match for header, source in headers_env.items() if (match := _ENV.fullmatch(source))}
    _need([match["variable"] for match in sources.values()], name, "headers_env names them")
    headers, secrets = {}, []
    for header, match in sources.items():
        secret = os.environ[match["variable"]].strip()
        if not (secret.isascii() and secret.isprintable()):  # the HTTP library's error would show it
            raise ConfigError(f"{name}: the variable {match['variable']} holds characters that no header has")
        headers[header] = f"{match['scheme']} {secret}" if match["scheme"] else secret
        secrets.append(secret)
    if basic_env:
        _need(basic_env, name, "basic_env names them")
        user, password = (os.environ[variable].strip() for variable in basic_env)
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {encoded}"
        secrets += [encoded, *([password] if len(password) >= MIN_SECRET else [])]
    return headers, tuple(secrets)


def _need(variables: Sequence[str], name: str, where: str) -> None:
    missing = dict.fromkeys(variable for variable in variables if not os.environ.get(variable, "").strip())
    if missing:
        raise ConfigError(f"{name}: set {' and '.join(missing)} in the environment; {where}")


def secret_variables(names: Sequence[str]) -> tuple[str, ...]:
    """The values of those variables that hold a secret: by their name, or as the password in an address."""
    values = {name: os.environ.get(name, "").strip() for name in names}
    return tuple(
        value
        for name, value in values.items()
        if len(value) >= MIN_SECRET and (_SECRET_NAME.search(name) or name.upper().endswith("KEY") or "@" in value)
    )


def scrubbed_json(value: Any, secrets: Sequence[str]) -> Any:
    """What a server sent, without the secrets that it echoes.

    >>> scrubbed_json({"text": "key: sk-123", "n": 1}, ["sk-123"])
    {'text': 'key: ***', 'n': 1}
    """
    if not secrets:
        return value
    if isinstance(value, str):
        return scrubbed(value, secrets)
    if isinstance(value, Mapping):
        return {scrubbed(str(key), secrets): scrubbed_json(entry, secrets) for key, entry in value.items()}
    return [scrubbed_json(entry, secrets) for entry in value] if isinstance(value, list) else value


class Scrubber(logging.Filter):
    """Takes secrets out of what libraries log: addresses with their query, at DEBUG also messages."""

    _LOGGERS = (
        *("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2"),
        *("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.http2"),
        *("client", "mcp.client.stdio", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher"),
    )

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        without_headers = _HEADERS_OF_A_REPLY.sub(r"\1", record.getMessage())  # cookies and tokens that are new
        record.msg, record.args = scrubbed(without_headers, self._secrets), ()
        return True

    def start(self) -> None:
        """Attach it, until `stop`."""
        for name in self._LOGGERS:
            logging.getLogger(name).addFilter(self)

    def stop(self) -> None:
        """Take it away again."""
        for name in self._LOGGERS:
            logging.getLogger(name).removeFilter(self)
