"""Find the part of an argument that is not of its annotated type."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

_NUMBERS: Mapping[Any, type] = {float: Real, int: Integral}
"""Class of Python -> the one that numbers of numpy are of, too; an int is a Real."""


def wrong_part(value: Any, annotation: Any, written: str, namespace: Mapping[str, Any]) -> str:
    """Return which part of an argument is not of its annotated type, such as "run['q1'] is int, expected
    dict"; "" if every part is, or if the annotation does not tell.

    Args:
        value: the argument.
        annotation: of its parameter; a text is looked up in `namespace`.
        written: what users write for the value, such as "run".

    >>> wrong_part({"q1": 5}, "dict[str, dict[str, float]]", "run", {})
    "run['q1'] is int, expected dict"
    >>> wrong_part(["a", 5], "str | list[str]", "names", {}), wrong_part("a", list[float], "scores", {})
    ('names[1] is int, expected str', 'scores is str, expected list')
    >>> wrong_part([5], "list[float]", "scores", {}), wrong_part([5], Any, "scores", {})
    ('', '')
    """
    kinds = _alternatives(annotation, namespace)
    if not kinds:
        return ""
    problems = []
    for kind in kinds:
        if isinstance(value, _class_of(kind)):
            problems.append(_wrong_item(value, kind, written, namespace))
    if "" in problems:
        return ""
    within = [problem for problem in problems if problem is not None]
    if within:
        return within[0]
    expected = " or ".join(dict.fromkeys(_name_of(kind) for kind in kinds))  # each name once
    return f"{written} is {type(value).__name__}, expected {expected}"


def _wrong_item(value: Any, kind: Any, written: str, namespace: Mapping[str, Any]) -> str | None:
    """Return which item of a value is not of its annotated type; "" if all are, and None if the value
    as a whole is something else: a text or a dict where other items are expected.

    The arguments are those of `wrong_part`; `kind` is an annotation whose class the value is of.
    """
    types = get_args(kind)
    if not types or not isinstance(value, Collection):
        return ""
    if isinstance(value, Mapping) and len(types) == 2:
        for key, item in value.items():
            problem = wrong_part(item, types[1], f"{written}[{key!r}]", namespace)
            if problem:
                return problem
        return ""
    if len(types) > 1 and types[1] is not ...:  # a tuple, each item of which has a type of its own
        return ""
    for place, item in enumerate(value):
        problem = wrong_part(item, types[0], f"{written}[{place}]", namespace)
        if problem:
            return None if isinstance(value, str | bytes | Mapping) else problem
    return ""


def _alternatives(annotation: Any, namespace: Mapping[str, Any]) -> list[Any]:
    """Return the annotations of classes that a value may be of; [] if these are not all that is allowed
    (such as for a protocol or `Any`), or if the annotation cannot be read.

    >>> _alternatives("str | None", {}), _alternatives(Any, {})
    ([<class 'str'>, <class 'NoneType'>], [])
    """
    if annotation is inspect.Parameter.empty:
        return []
    if isinstance(annotation, str):
        try:
            # annotations are texts under `from __future__ import annotations`; they are of ragbench alone
            annotation = eval(annotation, dict(namespace))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return []
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        parts = [_alternatives(part, namespace) for part in get_args(annotation)]
        if not all(parts):  # one part allows other classes
            return []
        return [kind for part in parts for kind in part]
    if annotation is None:
        return [NoneType]
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return []
    return [annotation if issubclass(kind, Iterable) else kind]


def _class_of(kind: Any) -> type:
    """Return the class of an annotation for `isinstance`, such as list for list[str]."""
    origin = get_origin(kind) or kind
    return _NUMBERS.get(origin, origin)


def _name_of(kind: Any) -> str:
    return str((get_origin(kind) or kind).__name__)
