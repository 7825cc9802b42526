"""A user's objects by the name "package.module:attribute": a retriever, a chunker, a language model,
...

Wherever ragbench accepts the name of a built-in object, it accepts such a name too, in grids,
notebooks and commands. The module is imported when it is named, and never otherwise.
"""

import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError

FORM = "package.module:attribute"

PERMITTED = "RAGBENCH_IMPORTS"
"""Environment variable with the only names that may be imported, separated by blanks; any name may be
imported if it is not set.
"""

_reporting: ContextVar[Callable[[str], None]] = ContextVar("_reporting", default=lambda name: None)
"""The function that `imports_reported` calls with each name before its import; it may raise to prevent
the import.
"""

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def is_import(name: object, own: Collection[str] = ()) -> bool:
    """Return True if a name is "package.module:attribute" and the package can be found; nothing is
    imported.

    Args:
        name: a value of the user.
        own: prefixes of ragbench's built-in names, such as "dense" in "dense:minilm".

    >>> is_import("json:loads"), is_import("dense:minilm", ["dense"]), is_import("no_such_module:answer")
    (True, False, False)
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return False
    module = name.partition(":")[0]
    if module in own:
        return False
    package = module.partition(".")[0]
    # imported already, so it need not be looked for
    if package in sys.modules:
        return True
    with searched():
        try:
            return find_spec(package) is not None
        except (ImportError, ValueError):
            return False


def source_file(name: str, folder: str | Path = "") -> Path | None:
    """Return the file of the module in "package.module:attribute"; None if the module has no file or
    is not found. Nothing is imported; the module is looked for as in `imported`.

    >>> source_file("json.decoder:JSONDecoder").name, source_file("no_such_module:answer")
    ('decoder.py', None)
    """
    package, *submodules = name.partition(":")[0].split(".")
    with searched(folder):
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            return None
    if spec is None:
        return None
    if not submodules:
        candidates = [Path(spec.origin)] if spec.origin is not None else []
    else:
        candidates = []
        for location in spec.submodule_search_locations or ():
            module = Path(location, *submodules)
            candidates += [module / "__init__.py", Path(f"{module}.py")]
    return next((file for file in candidates if file.is_file()), None)


def imported(name: str, what: str, folder: str | Path = "") -> Any:
    """Import and return the object of "package.module:attribute"; `what` names its kind in messages.

    The module is looked for where Python finds it, then in `folder` ("" means the working
    directory). Inside `imports_reported` the name is reported first, and nothing is imported if
    the report raises; its exception is passed on as it is.

    >>> imported("math:sqrt", "measure")(9)
    3.0
    >>> imported("math:root", "measure")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: measure 'math:root' could not be loaded: AttributeError: module 'math' has no ...

    Raises:
        ConfigError: the name has another form, RAGBENCH_IMPORTS is set and does not list it, or the
            module or its attribute cannot be imported.
    """
    module, colon, attribute = name.partition(":")
    if not (colon and module and attribute):
        raise ConfigError(f"{what} {name!r} names no attribute; write '{FORM}'")
    if module.endswith(".py"):
        dotted = module.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise ConfigError(f"{what} {name!r} names a file; write '{dotted}:{attribute}'")
    permitted_names = os.environ.get(PERMITTED)
    if permitted_names is not None and name not in permitted_names.split():
        raise ConfigError(
            f"{what} {name!r} is not imported: it is not among the names that were confirmed "
            f"({permitted_names or 'none'})"
        )
    report = _reporting.get()
    report(name)  # raises where the import is refused
    with searched(folder):
        try:
            value: Any = import_module(module)
            for part in attribute.split("."):
                # an attribute may be one of an attribute: "Class.method"
                value = getattr(value, part)
        except Exception as exc:  # a user's module may fail in any way
            raise ConfigError(
                f"{what} {name!r} could not be loaded: {type(exc).__name__}: {exc}"
            ) from exc
    return value


@contextmanager
def imports_reported(report: Callable[[str], None]) -> Iterator[None]:
    """Call `report` with each name before its import, in the block; an exception of `report` prevents
    the import and is passed on.
    """
    token = _reporting.set(report)
    try:
        yield
    finally:
        _reporting.reset(token)


@contextmanager
def searched(folder: str | Path = "") -> Iterator[None]:
    """Let Python find modules in this folder, too, while the block runs: after all other places. ""
    means the working directory.
    """
    directory = os.path.abspath(folder or os.getcwd())
    sys.path.append(directory)
    try:
        yield
    finally:
        # remove the last entry of this folder: the appended one, unless an import changed the list
        for index in reversed(range(len(sys.path))):
            if sys.path[index] == directory:
                del sys.path[index]
                break


def object_name(given: object) -> str:
    """Return the name of a user's object: its attribute `name` if that is a text, else its name as a
    function or class, else the name of its type.

    >>> object_name(len), object_name(3)
    ('len', 'int')
    """
    name = getattr(given, "name", None)
    if isinstance(name, str):
        return name
    return str(getattr(given, "__name__", type(given).__name__))


def returned_number(value: Any) -> float:
    """Return the value of a user's function as a number; NaN if it is none, also for a text.

    >>> returned_number(1), returned_number("1"), returned_number([1, 2])
    (1.0, nan, nan)
    """
    if isinstance(value, str):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def takes(function: Callable[..., Any], *arguments: str, options: Sequence[str] = ()) -> bool:
    """Return True if a function can be called with arguments and options; also if Python does not know
    its parameters.

    Args:
        arguments: names of the positional arguments; how many they are is all that counts.
        options: names of the keyword arguments.

    >>> takes(lambda case, answer: 1, "case", "answer"), takes(lambda case: 1, "case", "answer")
    (True, False)
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        return True
    try:
        signature.bind(*arguments, **dict.fromkeys(options))  # name -> None: values do not count
    except TypeError:
        return False
    return True


def check_call(
    what: str, function: Callable[..., Any], *arguments: str, options: Sequence[str] = ()
) -> None:
    """Refuse a user's function that cannot be called as ragbench calls it, before anything is asked.

    Args:
        what: the function in the words of a message, such as "the function of measure 'words'".
        function: a function, class or object with `__call__`.
        arguments: names of the positional arguments.
        options: names of the keyword arguments.

    >>> check_call("the function of measure 'words'", lambda answer: 1, "case", "answer", "contexts")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: the function of measure 'words' takes (answer); it is called with (case, answer, \
contexts): give it these parameters

    Raises:
        ConfigError: its parameters do not fit.
    """
    if takes(function, *arguments, options=options):
        return
    expected = ", ".join([*arguments, *(f"{name}=..." for name in options)])
    signature = inspect.signature(function)
    # the signature is shown without annotations, which would hide the names
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    without_annotations = signature.replace(
        parameters=parameters, return_annotation=signature.empty
    )
    raise ConfigError(
        f"{what} takes {without_annotations}; it is called with ({expected}): give it these "
        "parameters"
    )
