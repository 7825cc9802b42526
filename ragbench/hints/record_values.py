"""Explain the wrong use of a value that a record holds: a call, or an attribute or a key that it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from opcode import opmap
from pathlib import Path
from types import FrameType, MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ragbench.errors import ConfigError, UnknownKeyError
from ragbench.hints.similar_names import similar

Record = TypeVar("Record")
Value = TypeVar("Value")

_MAX_KEYS = 5  # in a message


class _PropertyValue:
    """A dict, list or tuple that a record holds (`explaining_misuse`).

    `_expression` is what users write for it, such as "result.means"; `_calls` is an attribute that people
    expect -> what to write instead; `_plain` is its built-in type: dict, list or tuple.
    """

    _expression = "this"
    _calls: Mapping[str, str] = MappingProxyType({})
    _plain: type[Any]

    if not TYPE_CHECKING:  # for which every attribute would exist

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            use = _use_of(self, self._expression, name, self._calls)
            raise AttributeError(
                f"{self._expression} is a {self._plain.__name__}; {use}", name=name
            )

        def __getitem__(self, key: Any) -> Any:
            """Return the item of a key, as the built-in type does; the error for a wrong key names what to
            write instead.
            """
            written = self._expression
            try:
                return self._plain.__getitem__(self, key)
            except (KeyError, TypeError) as exc:
                # a slice is a TypeError before Python 3.12, which can hash it
                if isinstance(exc, KeyError) and not isinstance(key, slice):
                    use = _use_of_keys(self, written, key)
                    raise UnknownKeyError(f"{written} has no key {key!r}; {use}") from None
                # a list or a tuple with a text as key, a dict with a list or a slice
                use = _use_of_wrong_key(self, written)
                raise TypeError(f"{written} is a {self._plain.__name__}; {use}") from None

    def __reduce__(self) -> Any:
        made = partial(explaining_misuse, expression=self._expression, **self._calls)
        return made, (self._plain(self),)


class _PropertyDict(_PropertyValue, dict[Any, Any]):
    _plain = dict


class _PropertyList(_PropertyValue, list[Any]):
    _plain = list


class _PropertyTuple(_PropertyValue, tuple[Any, ...]):
    _plain = tuple


_PROPERTY_TYPES: Mapping[type, Any] = {
    dict: _PropertyDict,
    list: _PropertyList,
    tuple: _PropertyTuple,
}


for _plain, _explained_type in _PROPERTY_TYPES.items():
    _explained_type.__name__ = _plain.__name__  # which messages show


def explaining_misuse(values: Value, expression: str, **calls: str) -> Value:
    """Return a copy of a dict, list or tuple whose errors state what to write, if an attribute or a key is
    read that it lacks. A value of another type is returned unchanged.

    The copy has no method `__call__` for a better error: pandas would take it for a function, and
    `frame["query_id"].map(dataset.queries)` would fail.

    Args:
        values: what an attribute of a record holds.
        expression: what users write for it.
        calls: an attribute that people expect -> the call to write instead.

    >>> settings: Any = explaining_misuse({"judge": "gpt"}, "result.settings")
    >>> settings.judge
    Traceback (most recent call last):
    AttributeError: result.settings is a dict; use result.settings['judge']
    >>> settings.head
    Traceback (most recent call last):
    AttributeError: result.settings is a dict; use pd.Series(result.settings).head
    >>> settings["judges"]
    Traceback (most recent call last):
    ragbench.errors.UnknownKeyError: result.settings has no key 'judges'; use result.settings['judge']
    """
    explained = _PROPERTY_TYPES.get(type(values))
    # another type, which is returned unchanged
    if explained is None:
        return values
    value = explained(values)
    value._expression, value._calls = expression, calls
    return cast(Value, value)


def _use_of(values: Any, written: str, name: str, calls: Mapping[str, str]) -> str:
    """Return what to write in place of an attribute that a dict, list or tuple lacks, such as
    "use result.settings['judge']".

    Args:
        values: the dict, list or tuple.
        written: what users write for it, such as "result.settings".
        name: the attribute.
        calls: an attribute that people expect -> what to write instead.
    """
    if name in calls:
        return f"use {calls[name]}"
    is_method_of_frames = is_of_frames(name)
    if not isinstance(values, Mapping):
        if is_method_of_frames:
            return f"use pd.DataFrame({written}).{name}"
        return _use_of_list(written)
    # a dict of numbers is a Series, one of dicts a table
    is_nested = any(isinstance(each, Mapping) for each in values.values())
    is_key = name in values  # such as "count": meant is the key, though frames have it as a method
    if is_method_of_frames and not is_key:
        kind = "DataFrame" if is_nested else "Series"
        return f"use pd.{kind}({written}).{name}"
    return _use_of_keys(values, written, name)


def _use_of_list(written: str) -> str:
    """Return what to write for a list or tuple: one of its values, or all of them as a table."""
    return f"use {written}[0], or pd.DataFrame({written}) as a table"


def _use_of_wrong_key(values: Any, written: str) -> str:
    """Return what to write where a key of a wrong type was read, such as a text from a list: the table of
    the values; for a dict without dicts in it, its keys.
    """
    if not isinstance(values, Mapping):
        return _use_of_list(written)
    if any(isinstance(each, Mapping) for each in values.values()):
        return f"use pd.DataFrame({written}).T, with a row per key"
    return _use_of_keys(values, written, "")


def _use_of_keys(values: Mapping[Any, Any], written: str, name: Any) -> str:
    """Return "use result.settings['judge']" for the key of a dict that a name means, else the keys."""
    near = similar(name, filter(_is_name, values)) if isinstance(name, str) else ""
    if near:
        return f"use {written}[{near!r}]"
    listed = ", ".join(map(repr, [*values][:_MAX_KEYS]))
    if len(values) > _MAX_KEYS:
        listed += ", ..."
    return f"its keys are {listed}" if values else "it is empty"


def is_of_frames(name: str) -> bool:
    """Return True if a DataFrame of pandas has this public attribute, such as "sort_values"."""
    import pandas as pd

    return not name.startswith("_") and hasattr(pd.DataFrame, name)


def _is_name(key: Any) -> bool:
    """Return True for a key that could be written as an attribute."""
    return isinstance(key, str) and key.isidentifier()


_SIMPLE_TYPES = frozenset({bool, int, float, str, NoneType})
"""Types of values that cannot explain themselves: of some of them no class can be derived."""
_PACKAGE = str(Path(__file__).parents[1])
_ATTRIBUTE = opmap["LOAD_ATTR"]
# Python 3.12 and later have LOAD_ATTR alone: LOAD_METHOD is at most the name of a step of the compiler
_IS_ONE_INSTRUCTION = sys.version_info >= (3, 12)
_METHOD = _ATTRIBUTE if _IS_ONE_INSTRUCTION else opmap["LOAD_METHOD"]


def explaining_values(variable: str, **calls: str) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator: where code of a user calls a value of a record, or reads an attribute or
    a key that the value lacks, the error names what to write.

    In place of a dict, list or tuple the user gets a copy that explains itself (`explaining_misuse`). A
    truth value, a number, a text or None cannot explain itself: the error is raised when it is read, if
    the next instruction of the user's code would use it wrongly.

    Args:
        variable: what users write for a record, such as "result".
        calls: an attribute of the record -> what to write where its value is used wrongly.

    >>> @explaining_values("result", passed="result.questions")
    ... class Result:
    ...     passed = True
    >>> Result().passed()
    Traceback (most recent call last):
    TypeError: result.passed is a bool, not a function: leave out the parentheses, or use result.questions
    >>> Result().passed.sum()
    Traceback (most recent call last):
    TypeError: result.passed is a bool without 'sum'; use result.questions
    """

    def decorated(cls: type[Record]) -> type[Record]:
        def read(record: Record, name: str) -> Any:
            if name == "_typ":  # by which pandas recognises its own classes
                check_reader("concat", f"pd.concat of {_table_of(cls)} of each")
            if name == "__class__":  # json reads it for its message before it refuses an object
                _raise_if_read_by_json(cls, variable)
            value = object.__getattribute__(record, name)
            # a dict, list or tuple
            is_container = type(value) in _PROPERTY_TYPES or isinstance(value, _PropertyValue)
            is_simple = type(value) in _SIMPLE_TYPES  # a truth value, a number, a text or None
            if name.startswith("_") or not (is_container or is_simple):
                return value
            caller = sys._getframe(1)
            if not runs_users_code(caller):
                return value
            written = f"{variable}.{name}"
            if is_container:
                is_called, attribute = _read_at(caller, caller.f_lasti)
                if is_called and attribute == name:
                    raise TypeError(_not_a_function(written, value))
                return explaining_misuse(value, written)
            _raise_if_used_wrongly(caller, value, written, calls.get(name, ""), _table_of(cls))
            return value

        cls.__getattribute__ = read  # type: ignore[method-assign, assignment]
        return cls

    return decorated


def runs_users_code(frame: FrameType) -> bool:
    """Return True if a frame runs code outside of ragbench."""
    return not frame.f_code.co_filename.startswith(_PACKAGE)


def _table_of(cls: type[Any]) -> str:
    """Return the call that returns a record as a DataFrame, as `suggesting` has it; "" without one."""
    return getattr(cls, "_as_frame", "")


def _raise_if_read_by_json(cls: type[Any], variable: str) -> None:
    """Raise TypeError if the encoder of json is about to refuse an object of a class.

    Args:
        cls: the class of the object.
        variable: what users write for the object, such as "result".
    """
    encoder = sys._getframe(2)
    if encoder.f_code.co_name != "default" or encoder.f_globals.get("__name__") != "json.encoder":
        return
    expected_names = getattr(cls, "_expected_names", {})
    use = expected_names.get("to_json") or f"{_table_of(cls)}.to_json()"
    if hasattr(cls, "to_dict"):
        use = f"json.dumps({variable}.to_dict())"
    elif not _table_of(cls):
        use = "json.dumps(dataclasses.asdict(record))"
    raise TypeError(f"json cannot write a {cls.__name__}; use {use}")


def check_unpacking(what: str, size: int, use: str) -> None:
    """Raise ConfigError if code of a user unpacks an object into another number of values than it has;
    called by the method `__iter__` of the object.

    Args:
        what: the object in words, such as "a dataset of 2 questions".
        size: the number of its items.
        use: what to write instead.

    >>> class Dataset:
    ...     def __iter__(self):
    ...         check_unpacking("a dataset of 2 questions", 2, "dataset.corpus ...")
    ...         return iter(["q1", "q2"])
    >>> first, second = Dataset()
    >>> corpus, queries, qrels = Dataset()
    Traceback (most recent call last):
    ragbench.errors.ConfigError: a dataset of 2 questions does not consist of 3 parts; use dataset.corpus ...
    """
    caller = sys._getframe(2)
    code, count = caller.f_code.co_code[caller.f_lasti : caller.f_lasti + 2]
    if code == opmap["UNPACK_SEQUENCE"] and count != size:
        raise ConfigError(f"{what} does not consist of {count} parts; use {use}")


def check_reader(function: str, use: str) -> None:
    """Raise ConfigError if a function of pandas, which takes tables, is reading a record.

    A method that Python calls when a record is read, such as its `__getattribute__`, calls this function.

    Args:
        function: the name of the function, such as "concat".
        use: what to pass to the function instead.
    """
    # 0 is this function, 1 the method of the record, 2 the code that reads the record
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pandas."):
        if frame.f_code.co_name == function:
            raise ConfigError(f"pandas makes no table of this; use {use}")
        frame = frame.f_back


def _raise_if_used_wrongly(
    caller: FrameType, value: Any, written: str, instead: str, table: str
) -> None:
    """Raise TypeError if code of a user is about to call a value, or to read an attribute that the value
    lacks.

    Python runs `result.passed.sum()` as: read "passed"; read "sum" to call it. For `result.passed()` it
    reads "passed" to call it. So the instruction that is running and the next one show the use.

    Args:
        caller: runs the code that has just read the value from a record.
        value: a truth value, a number, a text or None.
        written: what users write for it, such as "result.passed".
        instead: what to write if the value is used wrongly; "" if that is not known.
        table: the call that returns the record as a DataFrame; "" without one.
    """
    # (True if the instruction reads an attribute to call it, the attribute's name)
    is_called, attribute = _read_at(caller, caller.f_lasti)
    if attribute != written.partition(".")[2]:  # read by `getattr`, not by a dot
        return
    kind = "None" if value is None else f"a {type(value).__name__}"
    if is_called and value is not None:
        way_out = f", or use {instead}" if instead else ""
        raise TypeError(f"{_not_a_function(written, value)}{way_out}")
    next_instruction = caller.f_lasti + 2  # an instruction has two bytes
    # the code has fillers after some instructions, which are not executed
    while caller.f_code.co_code[next_instruction] == opmap["CACHE"]:
        next_instruction += 2
    _, next_attribute = _read_at(caller, next_instruction)  # "" if it reads no attribute
    is_attribute_missing = next_attribute != "" and not hasattr(value, next_attribute)
    is_none_called = is_called and value is None
    if not is_none_called and not is_attribute_missing:
        return
    if not instead and table and is_of_frames(next_attribute):
        instead = f"{table}.{next_attribute}"
    use = f"; use {instead}" if instead else ""
    lacking = f" without {next_attribute!r}" if next_attribute and value is not None else ""
    # no AttributeError: Python would look for the attribute of the record once more
    raise TypeError(f"{written} is {kind}{lacking}{use}")


def _not_a_function(written: str, value: Any) -> str:
    """Return the error about a value that is called; `written` is what users write for it."""
    kind = type(value).__name__
    return f"{written} is a {kind}, not a function: leave out the parentheses"


def _read_at(caller: FrameType, offset: int) -> tuple[bool, str]:
    """Return (True if the attribute is called as a method, its name) for an instruction that reads an
    attribute; (False, "") for any other instruction.

    Args:
        caller: runs the code of the instruction.
        offset: of the instruction in the code.
    """
    code, argument = caller.f_code.co_code[offset : offset + 2]
    if code not in (_ATTRIBUTE, _METHOD):
        return False, ""
    names = caller.f_code.co_names
    # Python 3.11: LOAD_ATTR reads an attribute, LOAD_METHOD reads one to call it
    if not _IS_ONE_INSTRUCTION:
        return code == _METHOD, names[argument]
    # since Python 3.12 LOAD_ATTR does both: the lowest bit of its argument is set for a call, the other
    # bits are the index of the name
    is_called = argument % 2 == 1
    return is_called, names[argument // 2]
