"""Objects of a user that are named "package.module:attribute": a retriever, a chunker, a language
model, ...

Wherever ragbench takes the name of one of its own, it takes such a name too, in grids, notebooks
and commands. The module is imported when it is named, and never otherwise.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError

FORM = "package.module:attribute"

PERMITTED = "RAGBENCH_IMPORTS"
"""Variable of the environment with the only names that may be imported, separated by blanks; where it
is not set, any may.
"""

_reporting: ContextVar[Callable[[str], None]] = ContextVar("_reporting", default=lambda name: None)

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def is_import(name: object, own: Collection[str] = ()) -> bool:
    """Return True if a name is "package.module:attribute", of a package that can be found; nothing is
    imported.

    Args:
        name: what the user wrote.
        own: prefixes that are ragbench's own, such as "dense" of "dense:minilm".

    >>> is_import("json:loads"), is_import("dense:minilm", ["dense"]), is_import("no_such_module:answer")
    (True, False, False)
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.partition(":")[0] in own:
        return False
    top = name.partition(":")[0].partition(".")[0]
    with searched():
        try:
            return top in sys.modules or find_spec(top) is not None
        except (ImportError, ValueError):
            return False


def source_file(name: str, folder: str | Path = "") -> Path | None:
    """Return the file of the module that "package.module:attribute" names, None where there is none;
    nothing is imported.

    The module is looked for as in `imported`.

    >>> source_file("json.decoder:JSONDecoder").name, source_file("no_such_module:answer")
    ('decoder.py', None)
    """
    top, *below = name.partition(":")[0].split(".")
    with searched(folder):
        try:
            spec = find_spec(top)
        except (ImportError, ValueError):
            return None
    if spec is None:
        return None
    candidates = [] if spec.origin is None else [Path(spec.origin)]
    if below:
        places = [Path(place, *below) for place in spec.submodule_search_locations or ()]
        candidates = [
            file for place in places for file in (place / "__init__.py", Path(f"{place}.py"))
        ]
    return next((file for file in candidates if file.is_file()), None)


def imported(name: str, what: str, folder: str | Path = "") -> Any:
    """Return what "package.module:attribute" names; `what` it is in messages.

    The module is looked for where Python finds it, then in `folder` ("" means the working
    directory).

    >>> imported("math:sqrt", "measure")(9)
    3.0
    >>> imported("math:root", "measure")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: measure 'math:root' could not be loaded: AttributeError: module 'math' has no ...

    Raises:
        ConfigError: the name has another form, the module or its attribute cannot be imported, or
            there is no consent to import it.
    """
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise ConfigError(f"{what} {name!r} names no attribute; write '{FORM}'")
    permitted = os.environ.get(PERMITTED)
    if permitted is not None and name not in permitted.split():
        raise ConfigError(
            f"{what} {name!r} is not imported: it is not among the names that were confirmed "
            f"({permitted or 'none'})"
        )
    _reporting.get()(name)
    with searched(folder):
        try:
            value: Any = import_module(module)
            for part in attribute.split("."):
                value = getattr(value, part)
        except Exception as exc:  # a user's module may fail in any way
            raise ConfigError(
                f"{what} {name!r} could not be loaded: {type(exc).__name__}: {exc}"
            ) from exc
    return value


@contextmanager
def imports_reported(report: Callable[[str], None]) -> Iterator[None]:
    """Call `report` with each name before it is imported; nothing is imported where it raises."""
    token = _reporting.set(report)
    try:
        yield
    finally:
        _reporting.reset(token)


@contextmanager
def searched(folder: str | Path = "") -> Iterator[None]:
    """Look for modules in this folder, too, after all other places; "" means the working directory."""
    directory = os.path.abspath(folder or os.getcwd())
    sys.path.append(directory)
    try:
        yield
    finally:
        for index in range(
            len(sys.path) - 1, -1, -1
        ):  # the last one, which is ours unless an import changed the list
            if sys.path[index] == directory:
                del sys.path[index]
                break


def object_name(given: object) -> str:
    """Return the name of a user's object: its `name`, its own name as a function or class, or that of its
    type.

    >>> object_name(len), object_name(3)
    ('len', 'int')
    """
    name = getattr(given, "name", None)
    return name if isinstance(name, str) else str(getattr(given, "__name__", type(given).__name__))
