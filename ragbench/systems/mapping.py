"""Where the parts of an answer stand in a system's JSON, said by JSONPath; and requests from templates."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from ragbench.errors import ConfigError, DataError
from ragbench.llms.failures import scrubbed

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SECRET_NAME = re.compile(r"auth|token|secret|password|passwd|cookie|(api|access|private|subscription)[-_]?key", re.I)
_LEAST_SECRET = 6  # characters; "1" and "true" are no secrets, and stand in every text
_ENV = re.compile(r"(?:(?P<scheme>[A-Za-z]+) )?(?P<variable>[A-Za-z_][A-Za-z0-9_]*)")


class ContextPaths(BaseModel):
    """Where the parts of one context stand, inside it; each may be left out where the names are the usual ones."""

    model_config = ConfigDict(extra="forbid")
    id: str = ""
    text: str = ""
    score: str = ""
    doc_id: str = ""

    @field_validator("*")
    @classmethod
    def _compiles(cls, path: str) -> str:
        return check_path(path)


class ReplyPaths(BaseModel):
    """Where the parts of an answer stand in a reply: what has no path is not read.

    Without any path the reply is read by the usual names (`read_answer`). An answer that carries one of `failed_flags`
    has failed, whatever its text: that is how systems say that they fell back on something else.
    """

    model_config = ConfigDict(extra="forbid")
    answer: str = ""
    contexts: str = ""
    context: ContextPaths = Field(default_factory=ContextPaths)
    citations: str = ""
    flags: str = ""
    outcome: str = ""
    confidence: str = ""
    model: str = ""
    input_tokens: str = ""
    output_tokens: str = ""
    latency_ms: str = ""
    error: str = ""
    failed_flags: list[str] = []

    @field_validator("*")
    @classmethod
    def _compiles(cls, path: Any) -> Any:
        return check_path(path) if isinstance(path, str) else path


def to_record(reply: Any, paths: ReplyPaths) -> dict[str, Any]:
    """What `read_answer` reads, from a reply and the paths of its parts.

    A path that finds a list gives its entries, so "$.sources" and "$.sources[*]" are the same. A flag that is true or
    false in the reply is called by its name. An answer that is not where it should be is a DataError.

    >>> paths = ReplyPaths(answer="$.data.text", contexts="$.data.hits", context={"text": "body"}, flags="$.weak")
    >>> to_record({"data": {"text": "Yes.", "hits": [{"id": 7, "body": "So."}]}, "weak": True}, paths)
    {'answer': 'Yes.', 'contexts': [{'id': 7, 'body': 'So.', 'text': 'So.'}], 'flags': ['weak']}
    """
    if not any(getattr(paths, name) for name in ReplyPaths.model_fields if name not in ("context", "failed_flags")):
        if isinstance(reply, Mapping):
            return dict(reply)
        raise DataError(f"the reply is {_shown(reply)}; expected an object, or paths that say what it holds")
    record: dict[str, Any] = {}
    if paths.answer:
        found = _all(reply, paths.answer)
        if not found and not (paths.error and _all(reply, paths.error)):
            raise DataError(f"the reply has nothing at answer = {paths.answer!r}; it is {_shown(reply)}")
        record["answer"] = found[0] if len(found) == 1 else "".join(map(str, found))
    if paths.contexts:
        record["contexts"] = [_context(entry, paths.context) for entry in entries(reply, paths.contexts)]
    if paths.citations:
        record["citations"] = [_cited(entry, paths.context) for entry in entries(reply, paths.citations)]
    if paths.flags:
        record["flags"] = _flags(reply, paths.flags)
        if wrong := [flag for flag in record["flags"] if flag in paths.failed_flags]:
            record["error"] = f"the system flags its answer as {wrong[0]!r}"
    for name in ("error", "outcome", "confidence", "latency_ms"):
        path = getattr(paths, name)
        if path and (found := _all(reply, path)):
            record[name] = found[0]
    usage = {}
    for name in ("model", "input_tokens", "output_tokens"):
        path = getattr(paths, name)
        if path and (found := _all(reply, path)):
            usage[name] = found[0]
    if usage:
        record["usage"] = usage
    return record


def _context(entry: Any, paths: ContextPaths) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    named = {name: path for name in ContextPaths.model_fields if (path := getattr(paths, name))}
    found = {name: values[0] for name, path in named.items() if (values := _all(entry, path))}
    return {**{key: value for key, value in entry.items() if key not in named}, **found} if named else entry


def _cited(entry: Any, paths: ContextPaths) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    context = _context(entry, paths)
    names = ("id", "_id", "chunk_id", "passage_id", "doc_id", "number")
    return next((context[name] for name in names if context.get(name) is not None), _shown(entry))


def _flags(reply: Any, path: str) -> list[str]:
    flags = []
    for match in _compiled(path).find(reply):
        if isinstance(match.value, bool):
            flags += [str(match.path)] if match.value else []
        else:
            flags += [str(entry) for entry in (match.value if isinstance(match.value, list) else [match.value])]
    return flags


def _all(value: Any, path: str) -> list[Any]:
    return [match.value for match in _compiled(path).find(value) if match.value is not None]


def entries(value: Any, path: str) -> list[Any]:
    """What stands at a path; where that is one list, its entries.

    >>> entries({"ids": [3, 4]}, "$.ids"), entries([{"id": 3}], "$[*].id"), entries({}, "$.ids")
    ([3, 4], [3], [])
    """
    found = _all(value, path)
    return found[0] if len(found) == 1 and isinstance(found[0], list) else found


@lru_cache(maxsize=256)
def _compiled(path: str) -> Any:
    from jsonpath_ng.ext.parser import parse

    return parse(path)


def check_path(path: str) -> str:
    """ValueError for a text that is no JSONPath; "" is none, and right."""
    if path:
        try:
            _compiled(path)
        except Exception as exc:  # the parser has no error class of its own
            raise ValueError(f"expected a JSONPath such as '$.answer' or '$.sources[*]' ({exc})") from None
    return path


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with the values in the places of their names in braces; the structure is never touched.

    Values are put into texts as they are, and cannot break out of them; a text that is nothing but a name becomes the
    value itself. Braces around anything else are left alone.

    >>> filled({"q": "{query}", "text": "Q: {query}", "k": 5}, {"query": 'a "quote" {k}'})
    {'q': 'a "quote" {k}', 'text': 'Q: a "quote" {k}', 'k': 5}
    """
    if isinstance(template, str):
        alone = _PLACEHOLDER.fullmatch(template)
        if alone and alone[1] in values:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), template)
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, Sequence):
        return [filled(value, values) for value in template]
    return template


def mentions(template: Any, name: str) -> bool:
    """Whether a template has a place for this value."""
    if isinstance(template, str):
        return f"{{{name}}}" in template
    if isinstance(template, Mapping):
        return any(mentions(value, name) for value in template.values())
    return isinstance(template, Sequence) and any(mentions(value, name) for value in template)


def _check_literal_headers(headers: dict[str, str]) -> dict[str, str]:
    """ValueError for a header that by its name holds a secret: those come from the environment."""
    for header, value in headers.items():
        if _SECRET_NAME.search(header) or re.match(r"(?i)(bearer|basic) \S", value):
            raise ValueError(
                f"the header {header!r} holds a secret, which belongs in no file; write headers_env = "
                f'{{{header} = "MY_VARIABLE"}} (or "Bearer MY_VARIABLE") and set that variable'
            )
    return headers


def _check_header_variables(headers: dict[str, str]) -> dict[str, str]:
    """ValueError for what is no name of a variable; the value is not shown, it may be the secret itself."""
    for header, value in headers.items():
        if not _ENV.fullmatch(value):
            raise ValueError(f'{header!r}: expected the name of a variable, such as "MY_TOKEN" or "Bearer MY_TOKEN"')
    return headers


LiteralHeaders = Annotated[dict[str, str], AfterValidator(_check_literal_headers)]
HeaderVariables = Annotated[dict[str, str], AfterValidator(_check_header_variables)]


def secret_headers(headers_env: Mapping[str, str], name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The headers with their values from the environment, and the secrets among them."""
    headers, secrets = {}, []
    missing = []
    for header, said in headers_env.items():
        match = _ENV.fullmatch(said)
        variable = match["variable"] if match else said
        secret = os.environ.get(variable, "").strip()
        if not secret:
            missing.append(variable)
        elif not (secret.isascii() and secret.isprintable()):  # the HTTP library's error would show it
            raise ConfigError(f"{name}: the variable {variable} holds characters that no header has")
        headers[header] = f"{match['scheme']} {secret}" if match and match["scheme"] else secret
        secrets.append(secret)
    if missing:
        raise ConfigError(f"{name}: set {' and '.join(missing)} in the environment; headers_env names them")
    return headers, tuple(secrets)


def secret_variables(names: Sequence[str]) -> tuple[str, ...]:
    """The values of those variables that hold a secret: by their name, or as the password in an address."""
    values = {name: os.environ.get(name, "").strip() for name in names}
    return tuple(
        value
        for name, value in values.items()
        if len(value) >= _LEAST_SECRET and (_SECRET_NAME.search(name) or name.upper().endswith("KEY") or "@" in value)
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


def without_surrogates(text: str) -> str:
    """Half a surrogate pair cannot be sent: it becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
