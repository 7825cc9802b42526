"""Secrets of a system's options: refused if they are written out, taken from the environment, shown
nowhere.
"""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, fields
from functools import wraps
from typing import Annotated, Any, TypeVar, dataclass_transform
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from ragbench.errors import ConfigError, abridged
from ragbench.hints.similar_names import hint_of_option
from ragbench.llms.failures import GENERATED, SECRET_WORDS, is_secret, scrubbed, snake_case
from ragbench.systems.templates import fill

C = TypeVar("C")
Problem = tuple[tuple[int | str, ...], str]

# the type of pydantic's error for a secret that is written out: its value is never shown
_LITERAL = "literal_secret"
_SHOWN_PROBLEMS = 5

# A field of a request: "max_tokens", "token_type" and "author" hold no secret.
_SECRET_FIELD = re.compile(f"{SECRET_WORDS}$")
VARIABLE = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACEHOLDER = re.compile(r"\{\w+(:\w+)?\}")  # its value comes from elsewhere


def check_template(template: Any) -> Any:
    """Return a template of a request as it is; raise if a secret is written out in it: a text without a
    placeholder in a field for secrets, or a text that looks like a credential.
    """
    for key, text in _leaves(template):
        literal = _PLACEHOLDER.sub("", text).strip()
        is_secret_field = _SECRET_FIELD.search(snake_case(key))
        has_placeholder = _PLACEHOLDER.search(text)
        is_written_out = literal and is_secret_field and not has_placeholder
        if is_written_out or _is_credential(literal):
            subject = repr(key) if key else "it"
            message = (
                f"{subject} holds a secret, which belongs in no file; write {{env:MY_VARIABLE}} in "
                "its place, and set that variable"
            )
            raise PydanticCustomError(_LITERAL, message)  # type: ignore[arg-type,unused-ignore]
    return template


def check_address(address: str) -> str:
    """Raise for an address with a password or a secret in it."""
    if "@" in urlsplit(address).netloc:
        raise ValueError("an address holds no password; send {env:MY_VARIABLE} in a header")
    check_template([{field: value} for field, value in parse_qsl(urlsplit(address).query)])
    return address


Template = Annotated[Any, AfterValidator(check_template)]
"""A part of a request: "{query}" and the like are filled in for each, "{env:NAME}" once from the
environment.
"""
_Flat = str | int | float | bool
FlatTemplate = Annotated[Mapping[str, _Flat | list[_Flat]], AfterValidator(check_template)]
"""The same for headers, a query string or a form; a list is sent as several fields of one name."""


class OptionsError(ConfigError):
    """Options that cannot work; `problems` has the keys and the text of each."""

    def __init__(self, where: str, exc: ValidationError) -> None:
        self.problems = problems_of(exc)
        super().__init__(f"{where}: {one_line(self.problems)}")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field, Field))
def checked_options(cls: type[C]) -> type[C]:
    """Class decorator: turn a class whose annotated fields are its options into a dataclass whose values
    pydantic checks.

    Objects are made with keyword arguments, or with arguments in the order of the fields. Values that
    cannot work, and names that are no option, raise `OptionsError`. As in any call, TypeError is raised
    for more arguments than fields and for an option that is given twice.
    """
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    checked: Any = dataclass(config=config, kw_only=True, repr=False, eq=False)(cls)
    init_by_keyword = checked.__init__
    names = [option.name for option in fields(checked)]

    @wraps(init_by_keyword)
    def init(self: C, *args: Any, **options: Any) -> None:
        if len(args) > len(names):
            raise TypeError(
                f"{cls.__name__} takes {len(names)} options, but {len(args)} were given"
            )
        by_position = dict(zip(names, args, strict=False))  # the other options are given by name
        try:
            init_by_keyword(self, **by_position, **options)
        except ValidationError as exc:
            raise _error_of_options(cls, names, options, exc) from None

    checked.__init__ = init
    return checked  # type: ignore[no-any-return]


def _error_of_options(
    cls: type[Any], names: Sequence[str], options: Mapping[str, Any], exc: ValidationError
) -> OptionsError:
    """Return the error for options that pydantic refuses; its message is about the first unknown name, if
    there is one, as a misspelling explains most other problems.

    Args:
        cls: the class of `checked_options`; its `_instead`, if it has one, is a name that people expect
            -> the option with this meaning.
        names: the names of its options.
        options: the arguments that were given by name.
        exc: the error of pydantic.
    """
    error = OptionsError(cls.__name__, exc)
    unknown_names = [name for name in options if name not in names]
    if unknown_names:
        first = unknown_names[0]
        hint = hint_of_option(first, names, getattr(cls, "_instead", {}))
        error.args = (f"{cls.__name__} has no option {first!r}{hint}",)
    return error


def problems_of(exc: ValidationError) -> list[Problem]:
    """Return each value that pydantic refuses as (keys, text): the keys that lead to the value, and a
    line with the value and the expected one.

    A value that may be a secret is left out of the line: a value in headers or variables, a secret that
    must not be written into a file, and a value with "@", such as a URL with a password.
    """
    problems = []
    for error in exc.errors(include_url=False):
        keys = error["loc"]
        message = error["msg"].removeprefix("Value error, ")
        text = f"{message[:1].lower()}{message[1:]}"
        if keys:
            where = ".".join(map(str, keys))
            value = repr(error["input"])
            has_no_value = error["type"] in (_LITERAL, "missing")
            may_be_secret = "@" in value or not {"headers", "env"}.isdisjoint(keys)
            if has_no_value or may_be_secret:
                text = f"{where}: {text}"
            else:
                text = f"{where} is {abridged(value, 60)}: {text}"
        problems.append((keys, text))
    return problems


def one_line(problems: Sequence[Problem]) -> str:
    """Return the texts of the first five problems in one line, and the number of the others."""
    texts = [text for _, text in problems[:_SHOWN_PROBLEMS]]
    n_more = len(problems) - _SHOWN_PROBLEMS
    if n_more > 0:
        texts.append(f"and {n_more} more")
    return "; ".join(texts)


def _leaves(template: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a template, each with the name of its field."""
    if isinstance(template, str):
        yield field, template
    elif isinstance(template, Mapping):
        for key, value in template.items():
            yield from _leaves(value, str(key))
    elif isinstance(template, Sequence):
        for value in template:
            yield from _leaves(value, field)


def _is_credential(value: str) -> bool:
    """Return True for a text that looks like a key, or like the value of an Authorization header."""
    from ragbench.metrics.safety.secrets import secrets

    is_authorization = re.match(r"(?i)(bearer|basic) \S", value) is not None
    return is_authorization or next(secrets(value), None) is not None


def variables_in(template: Any) -> list[str]:
    """Return the names of the variables of the environment that a template needs."""
    return [*dict.fromkeys(VARIABLE.findall(json.dumps(template, default=str)))]


def from_environment(template: Any, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return a template with variables of the environment in the places of "{env:NAME}", and the
    values among them that are secrets.

    A value is a secret, which must not appear in an error or a log, if its variable has the name of a
    secret, or if it looks generated (8 characters and more, with letters and digits). The name of a
    tenant, for example, is not. `name` is the system's, for the error.

    >>> os.environ["DEMO_TOKEN"], os.environ["DEMO_TENANT"] = "s3cr3t-7f3a", "acme"
    >>> from_environment({"key": "{env:DEMO_TOKEN}", "tenant": "{env:DEMO_TENANT}", "q": "{query}"}, "demo")
    ({'key': 's3cr3t-7f3a', 'tenant': 'acme', 'q': '{query}'}, ('s3cr3t-7f3a',))

    Raises:
        ConfigError: a variable is not set.
    """
    variables = variables_in(template)
    check_set(variables, name)
    values = {variable: os.environ[variable].strip() for variable in variables}
    secrets = []
    for variable, value in values.items():
        is_new = value not in secrets
        if is_new and (GENERATED.fullmatch(value) or is_secret(variable, value)):
            secrets.append(value)
    filled = fill(template, {f"env:{variable}": value for variable, value in values.items()})
    return filled, tuple(secrets)


def check_set(variables: Sequence[str], name: str) -> None:
    """Raise ConfigError for variables of the environment that are not set."""
    if missing := [variable for variable in variables if not os.environ.get(variable, "").strip()]:
        raise ConfigError(f"{name}: set {' and '.join(missing)} in the environment")


class Scrubber(logging.Filter):
    """Removes secrets from what libraries log: addresses with their query, at DEBUG also messages."""

    _LOGGERS = (
        "httpx httpcore.connection httpcore.http11 httpcore.http2 "
        "httpx2 httpcore2.connection httpcore2.http11 httpcore2.http2 "
        "client mcp.client.stdio mcp.client.streamable_http mcp.shared.jsonrpc_dispatcher"
    ).split()

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__()
        self._secrets = secrets
        for name in self._LOGGERS:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = scrubbed(record.getMessage(), self._secrets), ()
        return True

    def stop(self) -> None:
        """Detach it."""
        for name in self._LOGGERS:
            logging.getLogger(name).removeFilter(self)
