"""Explain a call that does not fit a function's parameters in one sentence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from ragbench.errors import ConfigError, RagbenchError
from ragbench.hints.similar_names import hint_of_option, similar

Function = TypeVar("Function", bound=Callable[..., Any])

_TWICE = re.compile(r"multiple values for argument '(\w+)'")


def explaining_calls(instead: str = "", /, **names: str) -> Callable[[Function], Function]:
    """Make a function explain a call that does not fit its parameters, in one sentence.

    Args:
        instead: the call to write in its place; "" shows the parameters.
        names: option that people expect -> the option with this meaning, or the call to write
            instead.

    >>> @explaining_calls(queries="a list")
    ... def search(query, *, depth=10):
    ...     return query
    >>> search("cats", top_k=3)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: search has no option 'top_k'; did you mean 'depth'? Expected search(query, depth=...)
    >>> search()
    Traceback (most recent call last):
    ragbench.errors.ConfigError: search: missing a required argument: 'query'. Expected search(query, depth=...)
    >>> @explaining_calls()
    ... def save(scores: dict, path: str):
    ...     return path + str(scores.keys())
    >>> save("scores.json", {})
    Traceback (most recent call last):
    ragbench.errors.ConfigError: save: scores is str, expected dict. Expected save(scores, path)
    """

    def decorated(function: Function) -> Function:
        return with_explained_errors(
            function, getattr(function, "__qualname__", ""), names, instead
        )

    return decorated


def explains_calls(function: Any) -> bool:
    """Return True for a function that explains calls that do not fit its parameters."""
    return hasattr(function, "_explains_calls")


def with_explained_errors(
    function: Function, name: str, names: Mapping[str, str], instead: str = ""
) -> Function:
    """Return a function that calls `function`, and raises ConfigError, with one sentence, for a call that
    does not fit. Errors of ragbench, and errors whose cause is not in the arguments, are raised unchanged.

    Args:
        name: of the function, in the sentence.
        names: option that people expect -> the option with this meaning, or what to call instead.
        instead: the call that users should write instead, for the sentence; "" shows the parameters.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def explained(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TypeError, AttributeError) as exc:
            # "" if the call fits the parameters; then their types may be wrong
            problem = _misfit(signature, name, names, arguments, options)
            if not problem:
                problem = _wrong_type(function, signature, name, arguments, options)
            is_by_arguments = problem != ""
            if not is_by_arguments or isinstance(exc, RagbenchError):
                raise
        way_out = f"Expected {name.rpartition('.')[2]}({_shown_parameters(signature)})"
        if instead:
            way_out = f"Use {instead}"
        raise ConfigError(f"{problem} {way_out}")

    explained._explains_calls = True  # type: ignore[attr-defined]
    return cast(Function, explained)


def _misfit(
    signature: inspect.Signature,
    name: str,
    names: Mapping[str, str],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
) -> str:
    """Return a sentence on why a call does not fit a signature; "" if it fits (its error then has
    another cause).

    Args:
        name: of the function, in the sentence.
        names: option that people expect -> the option with this meaning, or what to call instead.
        arguments, options: the arguments of the call, by position and by name.
    """
    try:
        signature.bind(*arguments, **options)
    except TypeError as exc:
        # what Python says is wrong, such as "missing a required argument: 'query'"
        reason = str(exc)
    else:
        return ""
    known = [each for each in signature.parameters if each not in ("self", "cls")]
    parameters = signature.parameters.values()
    without_default = [each.name for each in parameters if each.default is each.empty]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)  # it has **options
    for option in options:
        if option in known:
            continue
        # **options takes any name, but one like a parameter without default is its misspelling
        is_misspelt = similar(option, without_default) != ""
        if option in names or is_misspelt or not takes_any:
            return f"{name} has no option {option!r}{hint_of_option(option, known, names)}"
    given_twice = _TWICE.fullmatch(reason)  # "multiple values for argument 'query'"
    if given_twice:
        reason = f"{given_twice[1]} is given twice, by its place and by its name"
    return f"{name}: {reason}."


def _wrong_type(
    function: Any,
    signature: inspect.Signature,
    name: str,
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
) -> str:
    """Return a sentence with the first argument of a call that is not of its annotated type; "" if all
    are, or their annotations cannot be read. Arguments of *texts and **options are not looked at.
    """
    for parameter_name, value in signature.bind(*arguments, **options).arguments.items():
        parameter = signature.parameters[parameter_name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # the value is a tuple or dict of arguments, the annotation is of one of them
        types = _types_in(parameter.annotation, function.__globals__)
        if types and not isinstance(value, types):
            names = dict.fromkeys(each.__name__ for each in types)  # each name once
            expected = " or ".join(names)
            return f"{name}: {parameter_name} is {type(value).__name__}, expected {expected}."
    return ""


def _types_in(annotation: Any, namespace: Mapping[str, Any]) -> tuple[type[Any], ...]:
    """Return the classes that an annotation allows, for `isinstance`; () if it allows objects of any class
    (such as a protocol or `Any`), or if it cannot be read.

    Args:
        annotation: a class, a union, or the text of one.
        namespace: name -> value, for the names in a text.

    >>> _types_in("str | None", {}), _types_in(float, {}), _types_in(Any, {})
    ((<class 'str'>, <class 'NoneType'>), (<class 'float'>, <class 'int'>), ())
    """
    if annotation is inspect.Parameter.empty:
        return ()
    if isinstance(annotation, str):
        try:
            # annotations are texts under `from __future__ import annotations`. `eval` is safe here: they
            # come from the source of ragbench
            annotation = eval(annotation, dict(namespace))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return ()
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        parts = [_types_in(part, namespace) for part in get_args(annotation)]
        if not all(parts):  # a part of the union allows any class
            return ()
        return tuple(each for part in parts for each in part)
    if annotation is None:
        return (type(None),)
    kind = get_origin(annotation) or annotation  # list for list[str]
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return ()
    return (float, int) if kind is float else (kind,)  # an int is accepted as a float


def _shown_parameters(signature: inspect.Signature) -> str:
    """Return the parameters of a function in a line, those with a default as name=...

    >>> _shown_parameters(inspect.signature(lambda texts, *, depth=10, **options: None))
    'texts, depth=..., **options'
    """
    texts = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            texts.append(str(parameter).partition(":")[0])
        elif parameter.default is parameter.empty:
            texts.append(parameter.name)
        else:
            texts.append(f"{parameter.name}=...")
    return ", ".join(texts)
