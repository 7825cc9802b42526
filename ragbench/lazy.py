"""Packages whose names are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import lazy_loader  # type: ignore[import-untyped]

_NO_CALLS: Mapping[str, str] = MappingProxyType({})


def attach(
    package: str, file: str, calls: Mapping[str, str] = _NO_CALLS
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, as its `__init__.pyi` lists its names.

    Args:
        package: its `__name__`.
        file: its `__file__`.
        calls: names that people expect in the package -> the call that does what they mean. For any other
            name that does not exist the error names the nearest one.
    """
    attached, names_of, names = lazy_loader.attach_stub(package, file)

    def attribute(name: str) -> Any:
        if name in names:
            return attached(name)
        from ragbench.errors import nearest  # only for the message: the first import is light

        near = nearest(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        if name in calls:
            hint = f"; use {calls[name]}"
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")

    return attribute, names_of, names
