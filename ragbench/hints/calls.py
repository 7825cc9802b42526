"""Explain a call that does not fit a function's parameters in one sentence."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from traceback import walk_tb
from typing import Any, TypeVar, cast

from ragbench.errors import ConfigError, RagbenchError, listed
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
        except (TypeError, AttributeError, ValueError, LookupError) as exc:
            if isinstance(exc, RagbenchError) or _comes_from_other_code(exc, function.__module__):
                raise
            # "" if the call fits the parameters; then their types may be wrong
            problem = _misfit(signature, name, names, arguments, options)
            cause = None
            if not problem:
                wrong = _wrong_argument(function, signature, arguments, options, exc)
                problem = f"{name}: {wrong}." if wrong else ""
                cause = exc
            if not problem:
                raise
            way_out = f"Expected {name.rpartition('.')[2]}({shown_parameters(signature)})"
            if instead:
                way_out = f"Use {instead}"
            raise ConfigError(f"{problem} {way_out}") from cause

    explained._explains_calls = True  # type: ignore[attr-defined]
    return cast(Function, explained)


def _comes_from_other_code(exc: BaseException, own_module: str) -> bool:
    """Return True if an error was raised in code of the user, or in a library that is not about the form
    of arguments: then no argument is to blame. `own_module` is the module of the function that was called.
    """
    packages = set()
    for frame, _line in walk_tb(exc.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        packages.add(module.partition(".")[0])
    own_package = own_module.partition(".")[0]
    return not packages <= {own_package, "ragbench", "numpy", "pandas", *sys.stdlib_module_names}


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
        is_misspelt = similar(option, without_default) != ""
        # **options takes any name; but as the call fails, one that means another option, or is like a
        # parameter without default, is the likely cause
        is_likely_cause = option in names or is_misspelt
        if is_likely_cause or not takes_any:
            return f"{name} has no option {option!r}{hint_of_option(option, known, names)}"
    given_twice = _TWICE.fullmatch(reason)  # "multiple values for argument 'query'"
    if given_twice:
        reason = f"{given_twice[1]} is given twice, by its place and by its name"
    return f"{name}: {reason}."


def _wrong_argument(
    function: Any,
    signature: inspect.Signature,
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    exc: Exception,
) -> str:
    """Return what is wrong with the first argument of a call that is not of its annotated type, or that
    is a table without a column that pandas looked for; "" if there is none. Arguments of *texts and
    **options are not looked at.
    """
    from ragbench.hints.argument_types import wrong_part  # only for a message

    bound = signature.bind(*arguments, **options).arguments
    for name, value in bound.items():
        parameter = signature.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue  # the value is a tuple or dict of arguments, the annotation is of one of them
        problem = wrong_part(value, parameter.annotation, name, function.__globals__)
        if problem:
            return problem
    column = _column_looked_for(exc)
    for name, value in bound.items():
        columns = getattr(value, "columns", None)
        if column and columns is not None and column not in columns:
            return f"{name} has no column {column!r}; it has {listed(map(str, columns)) or 'none'}"
    return ""


def _column_looked_for(exc: Exception) -> str:
    """Return the name that pandas did not find in a table; "" for any other error."""
    if not isinstance(exc, KeyError) or not exc.args or not isinstance(exc.args[0], str):
        return ""
    *_, (frame, _) = walk_tb(exc.__traceback__)
    is_of_pandas = frame.f_globals.get("__name__", "").startswith("pandas.")
    return exc.args[0] if is_of_pandas and frame.f_code.co_name == "get_loc" else ""


def shown_parameters(signature: inspect.Signature) -> str:
    """Return the parameters of a function in a line, those with a default as name=...

    >>> shown_parameters(inspect.signature(lambda texts, *, depth=10, **options: None))
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
