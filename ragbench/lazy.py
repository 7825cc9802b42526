"""Packages whose names are loaded when they are first used, and the error about a name that `rb` or
one of its modules does not have.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from opcode import opmap
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

_NO_CALLS: Mapping[str, str] = MappingProxyType({})
_ROOT = "ragbench"
_IMPORT_FROM = opmap["IMPORT_FROM"]

_calls_of: dict[str, dict[str, str]] = {}
_further_call_of: dict[str, Callable[[str], str]] = {}
_names_of: dict[str, list[str]] = {}
_named_like_modules: dict[str, set[str]] = {}
_public_names_of: dict[str, set[str]] = {}  # of a module, in the packages that list them


def _no_call(name: str) -> str:
    return ""


def attach(
    package: str,
    file: str,
    calls: Mapping[str, str] = _NO_CALLS,
    further_call: Callable[[str], str] = _no_call,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package whose names are listed in its stub, the
    file `__init__.pyi`. A module of the package is imported when one of its names is first used.

    Public functions explain calls that do not fit (`ragbench.hints.calls`). In a package without a stub a
    function needs the decorator `explaining_calls` for this.

    Args:
        package: its `__name__`.
        file: its `__file__`.
        calls: names that people expect in the package, in any case, also as a word of a longer name
            -> the call with this meaning. For any other name that does not exist the error names
            the nearest one.
        further_call: returns the call that a name outside of `calls` means, "" if it means none.
    """
    # name -> the module of the package that has it; "" for a name that is itself a module
    modules = _modules_in(Path(file).with_suffix(".pyi"))
    names = sorted(modules)
    _calls_of[package] = {name.casefold(): call for name, call in calls.items()}
    _further_call_of[package] = further_call
    _names_of[package] = names
    # functions named like their module: importing the module must not hide them
    _named_like_modules[package] = {name for name in names if modules[name].split(".")[0] == name}
    for name, module in modules.items():
        if module:
            _public_names_of.setdefault(f"{package}.{module}", set()).add(name)
    sys.modules[package].__class__ = _Package  # which controls what importing a module sets

    def load_attribute(name: str) -> Any:
        if name not in modules:
            if _is_looked_for():  # by the import system, which imports the module `name` next
                raise AttributeError(name)
            hint = _hint_of_name(package, name)
            if _is_asked_by_import():  # from package import name
                raise ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=name)
            # with its name, Python adds no further suggestion
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name)
        module = modules[name]
        if module:
            value = getattr(import_module(f"{package}.{module}"), name)
        else:  # the name is itself a module
            value = import_module(f"{package}.{name}")
        setattr(sys.modules[package], name, value)  # so that the next time is a look-up
        return value

    return load_attribute, names.copy, names


class _Package(ModuleType):
    """A package of `attach`. Python sets each of its modules as an attribute after importing it: the
    public functions of the module then explain their calls, before another module can take them from
    it; and a function that is named like its module is not hidden by it. Calling a package names what to
    call.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{self.__name__} is a module, not a function{self._hint()}")

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(f"{self.__name__} is a module, not a table{self._hint(key)}")

    def _hint(self, key: Any = None) -> str:
        """Return what to use instead as the end of a sentence; `key` may be the name of a measure."""
        call = _further_call_of[_ROOT](key) if isinstance(key, str) else ""
        if call:
            return f"; use {call}, or rb.measures()[{key!r}] for its meaning"
        name = self.__name__.rpartition(".")[2]
        # names of classes begin with a capital
        functions = ", ".join(each for each in _names_of[self.__name__] if each.islower())
        return f"; use {_calls_of[_ROOT].get(name, f'one of its functions: {functions}')}"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            _explain_calls(value)
            # a plain module whose name people take for a function, or one that is public
            if type(value) is ModuleType and name in _calls_of[_ROOT]:
                value.__class__ = _Private
            elif type(value) is ModuleType and name in _names_of[self.__name__]:
                value.__class__ = _Public
        if not isinstance(value, ModuleType) or name not in _named_like_modules[self.__name__]:
            super().__setattr__(name, value)


class _Private(ModuleType):
    """A module that is not public, such as `datasets`: calling it, or reading an attribute that it lacks,
    raises an error that names the public function of a similar name.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{self.__name__} is a module, not a function{self._hint()}")

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(f"{self.__name__} is a module, not a table{self._hint()}")

    def __getattr__(self, name: str) -> Any:
        hint = "" if name.startswith("_") or _is_looked_for() else self._hint()
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}", name=name)

    def _hint(self) -> str:
        return _hint_of_name(_ROOT, self.__name__.rpartition(".")[2])


class _Public(ModuleType):
    """A public module without a package, such as `errors`: an attribute that it lacks names the nearest one."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(f"{self.__name__} is a module, not a function")

    def __getattr__(self, name: str) -> Any:
        hint = ""
        if not name.startswith("_") and not _is_looked_for():
            from ragbench.hints.similar_names import hint_of

            hint = hint_of(name, _names_in(self), {})
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}", name=name)


def _names_in(module: ModuleType) -> list[str]:
    """Return the public names that a plain module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def _names_of_submodules() -> dict[str, list[str]]:
    """Return the names of each public submodule of the root. Those of a package are read from its stub, so
    that nothing is imported; a plain module counts once it is imported.
    """
    names = {}
    for inner in _names_of[_ROOT]:
        stub = Path(__file__).with_name(inner) / "__init__.pyi"
        module = sys.modules.get(f"{_ROOT}.{inner}")
        if stub.is_file():
            names[inner] = sorted(_modules_in(stub))
        elif type(module) is _Public:
            names[inner] = _names_in(module)
    return names


def _is_asked_by_import() -> bool:
    """Return True if the line that asks a package for a name is `from package import name`, for which
    Python would replace an AttributeError, and its hint, by an ImportError of its own.

    Only the instruction of that line tells this: no exception can be both (a class cannot have both
    bases), and an ImportError for every line would break `hasattr`.
    """
    asking_code = sys._getframe(2)  # 0 is this function, 1 the `__getattr__` that calls it
    return asking_code.f_code.co_code[asking_code.f_lasti] == _IMPORT_FROM


def _is_looked_for() -> bool:
    """Return True if Python's import system has called the `__getattr__` that calls this function.

    For `from package import name` it first asks the package for the name. After an AttributeError, whose
    text no one sees, it imports the module of this name.
    """
    asking_code = sys._getframe(2)  # 0 is this function, 1 the `__getattr__`
    return asking_code.f_globals.get("__name__") == "importlib._bootstrap"


def _modules_in(stub: Path) -> dict[str, str]:
    """Return name -> the module that has it, of `from .module import name` in a stub; "" of a name that is a
    module itself.
    """
    modules = {}
    for line in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom) and line.level == 1:
            for alias in line.names:
                modules[alias.name] = line.module or ""
    return modules


def _explain_calls(module: ModuleType) -> None:
    """Replace the public functions of a module by functions that explain calls that do not fit."""
    functions = {}
    # popped, so that a module is explained once
    for name in _public_names_of.pop(module.__name__, ()):
        if isinstance(vars(module).get(name), FunctionType):
            functions[name] = vars(module)[name]
    if not functions:
        return
    from ragbench.hints.calls import explaining_calls, explains_calls

    for name, function in functions.items():
        if not explains_calls(function):
            function = explaining_calls()(function)
        setattr(module, name, _with_explained_use(function))


def _with_explained_use(function: Any) -> Any:
    """Return a function that returns a table and takes no argument, so that it names the call if it is
    used like its table; any other function as it is.
    """
    signature = inspect.signature(function)
    is_optional = all(each.default is not each.empty for each in signature.parameters.values())
    if not is_optional or "DataFrame" not in str(signature.return_annotation):
        return function
    from ragbench.hints.attributes import ExplainedFunction

    return ExplainedFunction(function)


def _hint_of_name(package: str, name: str) -> str:
    """Return the end of a sentence about a name that a package does not have: what to use in its place,
    such as "; use rb.evaluate", else the names that the package has.

    The first of these that exists is named; "unexpected" is a name without an entry in the `calls` of
    the package or of the root package (see `attach`):

    1. the same name in the root package;
    2. for an unexpected name, the same name in a public submodule, then the root's `further_call`;
    3. for a name such as "to_csv", an attribute of a record, then the entry "to" of `calls`;
    4. for an unexpected name of the root package, a similar function of a public submodule;
    5. a similar name of the package, or a similar entry of `calls`;
    6. for an unexpected name of the root package, an attribute of a record;
    7. all names of the package.
    """
    # imported only for the message: the first import of a package stays light
    from ragbench.hints.similar_names import hint_of

    is_root = package == _ROOT
    if not is_root and name in _names_of.get(_ROOT, ()):
        return f"; use rb.{name}"
    # a name that people expect, in lower case -> what to write; the package's own calls win
    calls = {**_calls_of.get(_ROOT, {}), **_calls_of[package]}
    is_unexpected = name.casefold() not in calls and not name.startswith("_")
    if is_unexpected:
        call = _in_submodule(name) or _further_call_of[_ROOT](name)
        if call:
            return f"; use {call}"
    if name.startswith("to_") and name not in calls:  # a method of results, such as to_frame
        return _hint_of_records(name) or f"; use {calls['to']}"
    hint = hint_of(name, _names_of[package], calls)
    if not is_root or not is_unexpected:
        return hint
    hint_of_submodules = _hint_of_submodules(name, calls)
    if hint_of_submodules:
        return hint_of_submodules
    names_nothing = hint.startswith("; it has")  # the list of all names
    if names_nothing:
        return _hint_of_records(name) or hint
    return hint


def _in_submodule(name: str) -> str:
    """Return how to write a name that a public submodule of the root has, such as "rb.llms.load_llm"; "" if
    none has it.
    """
    for submodule, names in _names_of_submodules().items():
        if name in names:
            return f"rb.{submodule}.{name}"
    return ""


def _hint_of_submodules(name: str, calls: Mapping[str, str]) -> str:
    """Return "; use rb.MODULE.NAME" with the function of a public submodule whose words mean the same as
    those of an unknown name of the root package; "" if there is none, or the root package is nearer.

    In this order:

    1. a name of the root package with the same last word (the noun): "";
    2. a function of a submodule with the same noun: load_run is rb.metrics.read_run;
    3. a name of the root package with another noun, or a key of `calls` that is the noun: "";
    4. a function of a submodule with another noun: compare_runs is rb.evaluation.compare_results.

    Args:
        name: the unknown name, such as "load_run".
        calls: names that people expect in the root package, in lower case -> the call to write
            instead. A key may be a noun alone, such as "report".
    """
    from ragbench.hints.similar_names import last_word, same_words

    noun = last_word(name)
    root_match = same_words(name, _names_of[_ROOT])  # "" without a match, as for each module
    if last_word(root_match) == noun:
        return ""
    first_match = ""  # with another noun
    for inner, names in _names_of_submodules().items():
        match = same_words(name, names)
        if last_word(match) == noun:
            return f"; use rb.{inner}.{match}"
        if match and not first_match:
            first_match = f"; use rb.{inner}.{match}"
    root_explains = root_match or noun in calls
    return "" if root_explains else first_match


def _hint_of_records(name: str) -> str:
    """Return the attribute of a record that a function at the root means, as "; use result.scores"; ""
    if none is meant.
    """
    from ragbench.hints.similar_names import hint_of_members

    # the classes are read from the root, as this module may not import the modules above it
    root = sys.modules[_ROOT]
    records = {"result": root.Result, "results": root.Results, "dataset": root.Dataset}
    return hint_of_members(records, name)
