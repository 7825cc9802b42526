"""Explain an attribute, a key or an operator that a record (a result, a dataset, ...) does not
have, in one sentence that names the right one; `record_values` does so for what a record holds.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from abc import ABCMeta
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, is_dataclass
from functools import update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ragbench.errors import ConfigError
from ragbench.hints.calls import explains_calls, shown_parameters, with_explained_errors
from ragbench.hints.record_values import is_of_frames, runs_users_code
from ragbench.hints.similar_names import hint_of, similar, words_of

Record = TypeVar("Record")

_CONSTRUCTING = frozenset("from load read create make build parse of new".split())
"""First words of class methods that make an object."""
_COLUMN_STATISTICS = frozenset("std var sem median min max quantile".split())
"""Methods of tables that users want of one measure."""


class Suggesting(ABCMeta):
    """The metaclass of classes that explain a missing attribute of the class itself, such as from_csv."""

    _refuse: Callable[[Any, str], Any]

    if not TYPE_CHECKING:  # for which every attribute would exist

        def __getattr__(cls, name: str) -> Any:
            if name.startswith("_"):
                return type.__getattribute__(cls, name)
            return cls._refuse(cls, name)


def no_call(name: str) -> str:
    """Return "": the name means no call other than those listed in `calls`."""
    return ""


def suggesting(
    as_frame: str = "",
    instead: str = "",
    further_call: Callable[[str], str] = no_call,
    /,
    **calls: str,
) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator that explains mistakes: reading an attribute that objects of the class
    lack, calling the class or a method with arguments that do not fit, an index on objects that have
    none, and changing a frozen dataclass.

    The decorator sets the methods that Python calls in these cases, and wraps the constructor, the class
    methods and the public methods, which also explain an attribute that is read from the method
    itself (`_explain_methods`). It keeps `calls` and `as_frame` in the class as `_expected_names` and
    `_as_frame`. If `Suggesting` is the metaclass, attributes that are read from the class itself are
    explained, too, by `_refuse`.

    Args:
        as_frame: the call that returns such an object as a DataFrame, on which methods of pandas
            work.
        instead: the call that makes such an object, if users do not call the class.
        further_call: returns the call that a name outside of `calls` means, "" if it means none.
        calls: an attribute that people expect, in upper or lower case -> the call to write instead;
            for dataclasses `to_dict` is in it.

    >>> @suggesting("result.to_frame()", "rb.evaluate(data, system)", plot="rb.write_report(result, 'report.html')")
    ... class Result:
    ...     scores = 1
    ...     def __init__(self, name): ...
    ...     def compare(self, other): ...
    >>> result = Result("new")
    >>> result.score
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'score'; did you mean 'scores'?
    >>> result.plot
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'plot'; use rb.write_report(result, 'report.html')
    >>> result.sort_values
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'sort_values'; use result.to_frame().sort_values
    >>> Result()
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Result: missing a required argument: 'name'. Use rb.evaluate(data, system)
    >>> result.compare(b=result)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Result.compare has no option 'b'; did you mean 'other'? Expected compare(other)
    """

    def decorated(cls: type[Record]) -> type[Record]:
        if is_dataclass(cls) and not hasattr(cls, "to_dict"):
            calls.setdefault("to_dict", "dataclasses.asdict(record)")
        hints = _Hints(cls, as_frame, further_call, calls, instead)

        def missing(record: Record, name: str) -> Any:
            is_property = name in dir(cls)  # which raised an AttributeError of its own
            if name.startswith("_") or is_property:
                return object.__getattribute__(record, name)  # raises the same error again
            # ragbench itself tries names, such as the fields of an answer, and needs no hint, which
            # takes a millisecond
            if not runs_users_code(sys._getframe(1)):
                raise AttributeError(f"{cls.__name__} has no attribute {name!r}", name=name)
            return hints.refuse_attribute(record, name)

        changed_class: Any = cls
        changed_class.__getattr__ = missing
        if not hasattr(cls, "__getitem__"):
            changed_class.__getitem__ = lambda record, key: hints.refuse_key(key)
        parameters = getattr(cls, "__dataclass_params__", None)  # of a dataclass
        if parameters is not None and parameters.frozen:
            changed_class.__setattr__ = lambda record, name, value: hints.refuse_change(name)
            changed_class.__setitem__ = lambda record, name, value: hints.refuse_change(name)
        if isinstance(changed_class, Suggesting):  # the metaclass calls `_refuse`
            changed_class._refuse = staticmethod(hints.refuse_attribute)
        changed_class._expected_names = calls  # for `hint_of_members`
        changed_class._as_frame = as_frame  # for `explaining_values`
        _explain_methods(cls, instead)
        return cls

    return decorated


@dataclass(frozen=True)
class _Hints:
    """The errors about a class that `suggesting` decorates; the fields are its arguments."""

    cls: type[Any]
    as_frame: str
    further_call: Callable[[str], str]
    calls: Mapping[str, str]
    instead: str

    def refuse_attribute(self, owner: Any, name: str) -> Any:
        """Raise AttributeError with what to write instead of an attribute that `owner` lacks, which is the
        class or one of its objects.
        """
        raise AttributeError(
            f"{self.cls.__name__} has no attribute {name!r}{self._hint_of_attribute(owner, name)}",
            name=name,
            obj=None,
        )

    def _hint_of_attribute(self, owner: Any, name: str) -> str:
        """Return the end of a sentence about an attribute that does not exist: what to write instead, such
        as "; use result.to_frame().sort_values", else the attributes that exist.

        Args:
            owner: the class, or one of its objects.
            name: the attribute that it lacks.
        """
        if name.casefold() not in self.calls:
            call = self._unlisted_call(owner, name)
            if call:
                return f"; use {call}"
        attributes = [each for each in dir(owner) if not each.startswith("_")]
        methods = [each for each in attributes if callable(getattr(self.cls, each, None))]
        hint = hint_of(name, attributes, self.calls, methods)
        names_nothing = hint.startswith("; it has")  # the list of all attributes
        if owner is self.cls and names_nothing and _CONSTRUCTING.intersection(words_of(name)[:1]):
            parameters = shown_parameters(inspect.signature(self.cls))
            return f"; use {self.instead or f'{self.cls.__name__}({parameters})'}"
        return hint

    def _unlisted_call(self, owner: Any, name: str) -> str:
        """Return what to write instead of an attribute that is not in `calls`: the call that
        `further_call` returns; else an attribute of the object's table, such as
        "result.to_frame()[column].median()" or "result.to_frame().sort_values"; else "".

        Args:
            owner: one of the objects of the class, or the class, which has no table.
            name: the attribute that the owner lacks.
        """
        call = self.further_call(name)
        if call:
            return call
        has_table = self.as_frame != "" and owner is not self.cls
        if not has_table:
            return ""
        if name in _COLUMN_STATISTICS:
            return f"{self.as_frame}[column].{name}()"
        if is_of_frames(name):
            return f"{self.as_frame}.{name}"
        return ""

    def refuse_key(self, key: Any) -> Any:
        """Raise TypeError with what to write instead of `record[key]`."""
        public = [attribute for attribute in dir(self.cls) if not attribute.startswith("_")]
        if key in public:
            hint = f"; use .{key}"
        else:
            hint = hint_of(key if isinstance(key, str) else "", public, self.calls)
        kind = "a record" if is_dataclass(self.cls) else "an object"
        raise TypeError(f"{self.cls.__name__} is {kind}, not a dict{hint}")

    def refuse_change(self, name: Any) -> Any:
        """Raise FrozenInstanceError with what to write instead of `record.name = value` and of
        `record[name] = value`.
        """
        fields = [field.name for field in dataclasses.fields(self.cls) if field.init]
        meant = name if name in fields else similar(str(name), fields)
        use = f"dataclasses.replace(record, {meant}=...)" if meant else ""
        if self.as_frame and not meant:
            use = f"table = {self.as_frame}, to which you can add columns"
        way_out = f"; use {use}" if use else f"; its fields are {', '.join(fields)}"
        raise FrozenInstanceError(f"{self.cls.__name__} cannot be changed{way_out}")


def _explain_methods(cls: type[Any], instead: str) -> None:
    """Make the constructor, the public methods and the class methods of a class explain calls that do
    not fit; `instead` is the call to write in place of the constructor.

    A public method also explains an attribute that is read from the method itself (`_Method`). Static
    methods and properties stay as they are, and a method that explains its calls already is not
    wrapped once more.
    """
    expected_options: Mapping[str, str] = {}  # no other names of options are known
    for name, member in list(vars(cls).items()):
        qualified_name = f"{cls.__name__}.{name}"
        if isinstance(member, classmethod) and not explains_calls(member):
            explained = classmethod(
                with_explained_errors(member.__func__, qualified_name, expected_options)
            )
            setattr(cls, name, explained)
        elif inspect.isfunction(member) and not name.startswith("_"):
            function = member
            if not explains_calls(member):
                function = with_explained_errors(member, qualified_name, expected_options)
            setattr(cls, name, _Method(function))
    if cls.__init__ is not object.__init__:
        cls.__init__ = with_explained_errors(cls.__init__, cls.__name__, expected_options, instead)


class _Method:
    """A method in its class. Reading it from an object returns an `ExplainedFunction`, which explains
    `results.leaderboard.sort_values`: the parentheses are missing.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(cast(Any, self), function)
        self._function = function

    def __get__(self, record: Any, cls: type[Any] | None = None) -> Any:
        return self._function if record is None else ExplainedFunction(self._function, record)


class ExplainedFunction:
    """A function or a method of an object, which names the call if it is used like the value that it
    returns.

    >>> @suggesting()
    ... class Results:
    ...     def leaderboard(self): ...
    >>> Results().leaderboard.sort_values
    Traceback (most recent call last):
    AttributeError: leaderboard is a method: write leaderboard().sort_values
    >>> Results().leaderboard["name"]
    Traceback (most recent call last):
    TypeError: leaderboard is a method: write leaderboard()['name']
    """

    def __init__(self, function: Callable[..., Any], record: Any = None) -> None:
        update_wrapper(self, function)
        self.__func__, self.__self__ = function, record
        self._kind = "function" if record is None else "method"

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._callable())

    def _callable(self) -> Callable[..., Any]:
        """Return the function, or the bound method of Python."""
        if self.__self__ is None:
            return self.__func__
        return MethodType(self.__func__, self.__self__)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._callable()(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(self._write(f".{name}"), name=name)

    def __getitem__(self, key: Any) -> Any:
        raise TypeError(self._write("" if key == 0 else f"[{key!r}]"))  # 0: a loop

    def _write(self, end: str) -> str:
        name = self.__func__.__name__
        return f"{name} is a {self._kind}: write {name}(){end}"

    def __len__(self) -> int:
        raise TypeError(self._write(""))

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self._callable() == getattr(other, "_callable", lambda: other)()

    def __hash__(self) -> int:
        return hash(self._callable())

    def __repr__(self) -> str:
        return repr(self._callable())

    def __reduce__(self) -> Any:
        if self.__self__ is None:
            return self.__qualname__
        return getattr, (self.__self__, self.__func__.__name__)


def refusing_operators(compared: str, added: str) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator: the operators -, <, <=, >, >= and + of objects of the class raise
    TypeError, which names the call to write.

    Args:
        compared: the call that compares objects of the class.
        added: the call that puts several together.

    >>> @refusing_operators("rb.compare(a, b)", "rb.Results([a, b])")
    ... class Result: ...
    >>> Result() > Result()
    Traceback (most recent call last):
    TypeError: objects of Result have no order and no difference; use rb.compare(a, b)
    >>> Result() + Result()
    Traceback (most recent call last):
    TypeError: objects of Result have no sum; use rb.Results([a, b])
    """

    def decorated(cls: type[Record]) -> type[Record]:
        def refuse(record: Record, other: Any) -> Any:
            raise TypeError(
                f"objects of {cls.__name__} have no order and no difference; use {compared}"
            )

        def refuse_sum(record: Record, other: Any) -> Any:
            raise TypeError(f"objects of {cls.__name__} have no sum; use {added}")

        for operator in ("__sub__", "__lt__", "__le__", "__gt__", "__ge__"):
            setattr(cls, operator, refuse)
        for operator in ("__add__", "__radd__", "__or__"):
            setattr(cls, operator, refuse_sum)
        return cls

    return decorated


def made_by(call: str) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator for a protocol: calling the protocol itself raises ConfigError, which
    names `call`; subclasses make their objects as usual.

    >>> @made_by("rb.make_retriever('bm25', chunks)")
    ... class Retriever: ...
    >>> Retriever("bm25")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Retriever is a protocol, not an object; use rb.make_retriever('bm25', chunks)
    """

    def decorated(protocol: type[Record]) -> type[Record]:
        def new(cls: type[Any], *arguments: Any, **options: Any) -> Any:
            if cls is protocol:
                raise ConfigError(f"{cls.__name__} is a protocol, not an object; use {call}")
            return object.__new__(cls)

        protocol.__new__ = new  # type: ignore[method-assign]
        return protocol

    return decorated
