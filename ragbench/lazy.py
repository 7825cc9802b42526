"""Packages whose names are loaded when they are first used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import lazy_loader  # type: ignore[import-untyped]

_NO_CALLS: Mapping[str, str] = MappingProxyType({})
_ROOT = "ragbench"
_WORD = re.compile(r"[A-Z]*[a-z0-9]+|[A-Z]+")

_calls_of: dict[str, dict[str, str]] = {}
_names_of: dict[str, list[str]] = {}


def attach(
    package: str, file: str, calls: Mapping[str, str] = _NO_CALLS
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, as its `__init__.pyi` lists its names.

    Args:
        package: its `__name__`.
        file: its `__file__`.
        calls: names that people expect in the package, in any case, also as a word of a longer name -> the
            call that does what they mean. For any other name that does not exist the error names the
            nearest one.
    """
    attached, names_of, names = lazy_loader.attach_stub(package, file)
    _calls_of[package] = {name.casefold(): call for name, call in calls.items()}
    _names_of[package] = names

    def attribute(name: str) -> Any:
        if name in names:
            return attached(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{_hint(package, name)}")

    return attribute, names_of, names


def _hint(package: str, name: str) -> str:
    """Return what to use in place of a name that does not exist in a package, as the end of a sentence."""
    from ragbench.errors import nearest  # only for the message: the first import is light

    tables = (_calls_of[package], _calls_of.get(_ROOT, {}))
    for calls in tables:
        if name.casefold() in calls:
            return f"; use {calls[name.casefold()]}"
    if package != _ROOT and name in _names_of.get(_ROOT, ()):
        return f"; use rb.{name}"
    near = nearest(name, _names_of[package], cutoff=0.8)
    if near:
        return f"; did you mean {near!r}?"
    words = [word.casefold() for word in _WORD.findall(name)]
    for calls in tables:
        for key, call in calls.items():
            if key in words or (len(key) > 5 and key in name.casefold()):
                return f"; use {call}"
    near = nearest(name, _names_of[package])
    return f"; did you mean {near!r}?" if near else ""
