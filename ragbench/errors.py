"""Every error that ragbench raises on purpose, as one tree.

::

    RagbenchError             catch this to catch them all
    ├── DataError             a file or a record is not what it should be (also a ValueError)
    ├── ConfigError           a parameter, name or grid is not what it should be (also a ValueError)
    ├── ComparisonError       two results must not be compared (also a ValueError)
    ├── DownloadError         something could not be fetched, or arrived damaged
    ├── ModelError            a model could not be loaded or did not answer
    ├── SweepError            a sweep could not continue
    ├── SystemsError          a system under test did not take or give what it had to
    │   └── RefusalError      it refused, and did nothing
    └── MissingExtraError     an optional package is not installed (also an ImportError)

    DataWarning               a flaw of real data that is not an error, reported once with its count
    JudgeWarning              a judge whose verdicts deserve less trust, such as the generator judging itself

A message names the value, what was expected, and the way out. Errors are raised at the border,
where input arrives; what is inside trusts its input.
"""

import difflib
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

__all__ = [
    "ComparisonError",
    "ConfigError",
    "DataError",
    "DataWarning",
    "DownloadError",
    "FailureKind",
    "JudgeWarning",
    "MissingExtraError",
    "ModelError",
    "RagbenchError",
    "RefusalError",
    "SweepError",
    "SystemsError",
]


Record = TypeVar("Record")


class FailureKind(StrEnum):
    """Why a request has no reply. What is done next depends on this, never on the wording of a
    message.
    """

    BUDGET = "budget"  # not sent: it might have passed the maximum cost
    OFFLINE = "offline"  # not sent: the reply store does not have it
    DRY_RUN = "dry_run"  # not sent: only counted
    STORE = "store"  # not sent: its reply could not be kept
    REFUSED = "refused"  # the server refuses it: key, model, address, credit or the request itself
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"  # the connection ended before the reply did
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    ERROR = "error"  # anything else, such as an exception of a user's own system


class RagbenchError(Exception):
    """The root of the tree. `failure` is its kind, where a request that failed is the cause."""

    def __init__(self, message: object = "", failure: FailureKind | None = None) -> None:
        super().__init__(message)
        self.failure = failure

    def __str__(self) -> str:
        return without_ansi(
            super().__str__()
        )  # texts of others are in messages, and drive no terminal

    def _render_traceback_(self) -> list[str]:
        """Return what IPython and Jupyter show: the message states what to do, so the stack of calls is
        left out.
        """
        return [f"{type(self).__name__}: {self}"]


class DataError(RagbenchError, ValueError):
    """A file or a record is not what it should be."""


class ConfigError(RagbenchError, ValueError):
    """A parameter, a name or a grid is not what it should be."""


class ComparisonError(RagbenchError, ValueError):
    """Two results must not be compared: other queries, other data."""


class DownloadError(RagbenchError):
    """Something could not be fetched, or arrived damaged."""


class ModelError(RagbenchError):
    """A model could not be loaded or did not answer."""


class SweepError(RagbenchError):
    """A sweep could not continue."""


class SystemsError(RagbenchError):
    """A system under test did not take or give what it had to."""


class RefusalError(SystemsError):
    """A system under test refused a request, and did for sure nothing of it."""


class MissingExtraError(RagbenchError, ImportError):
    """An optional package is not installed."""


class DataWarning(UserWarning):
    """A flaw of real data that is not an error; one warning with the count and the first ids."""

    def is_known(self) -> bool:
        """Return True if a terminal or a notebook has shown it before, and need not again."""
        return False


class JudgeWarning(UserWarning):
    """A judge whose verdicts deserve less trust, such as a model that judges its own answers."""


def _format_warning(
    message: Warning | str, category: type[Warning], *source: Any, **options: Any
) -> str:
    """Format our warnings as one line, and one that was shown before as none; others as Python formats
    them.
    """
    if isinstance(message, DataWarning) and message.is_known():
        return ""
    if issubclass(category, DataWarning | JudgeWarning):
        return f"{category.__name__}: {without_ansi(str(message))}\n"
    return _python_format(message, category, *source, **options)


_python_format = warnings.formatwarning


def one_line_warnings() -> None:
    """Show our warnings as one line from now on, without the source line that raised them, and not
    that of tqdm that JupyterLab has no widgets.
    """
    warnings.formatwarning = _format_warning
    warnings.filterwarnings("ignore", "IProgress not found")


if "ipykernel" in sys.modules:  # a notebook, whose reader is not helped by a line of our source
    one_line_warnings()


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    >>> require("json", "test").__name__
    'json'
    >>> require("no_such_module", "mcp")
    Traceback (most recent call last):
    ragbench.errors.MissingExtraError: no_such_module is not installed; run: pip install 'ragbench-lab[mcp]'
    """
    try:
        return import_module(module)
    except ImportError as exc:
        raise MissingExtraError(
            f"{module} is not installed; run: pip install 'ragbench-lab[{extra}]'"
        ) from exc


def nearest(value: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is most like a value; "" where none reaches the similarity `cutoff`.

    >>> nearest("Recursiv", ["fixed", "recursive"]), nearest("other", ["fixed", "recursive"])
    ('recursive', '')
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(value).casefold(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else ""


def suggesting(**calls: str) -> Callable[[type[Record]], type[Record]]:
    """Make a class name the nearest of its attributes where one does not exist, as modules do.

    Args:
        calls: attributes that people expect -> the call that does what they mean.

    >>> @suggesting(plot="rb.write_report(result, 'report.html')")
    ... class Result:
    ...     scores = 1
    >>> Result().score
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'score'; did you mean 'scores'?
    >>> Result().plot
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'plot'; use rb.write_report(result, 'report.html')
    """

    def decorated(cls: type[Record]) -> type[Record]:
        def missing(record: Record, name: str) -> Any:
            if name.startswith("_") or name in dir(cls):  # the error is one of a property
                return object.__getattribute__(record, name)
            hint = f"; use {calls[name]}" if name in calls else ""
            near = nearest(name, [each for each in dir(record) if not each.startswith("_")])
            if near and not hint:
                hint = f"; did you mean {near!r}?"
            raise AttributeError(
                f"{cls.__name__} has no attribute {name!r}{hint}", name=name, obj=None
            )

        cls.__getattr__ = missing  # type: ignore[attr-defined]
        return cls

    return decorated


def unknown(what: str, value: object, known: Iterable[str], shown: str = "") -> str:
    """Return the text of an error about an unknown name: the nearest known one first, then `shown`, or the
    first 30 known.

    >>> unknown("chunker", "recursiv", ["fixed", "recursive"])
    "unknown chunker 'recursiv'; did you mean 'recursive'? Known: fixed, recursive"
    """
    names = [*filter(None, known)]
    near = nearest(value, names)
    hint = f"; did you mean '{near}'?" if near else "."
    few = names if len(names) <= 30 else [*names[:30], "..."]
    return f"unknown {what} {value!r}{hint} Known: {shown or ', '.join(few)}"


def check_known(what: str, known: Collection[str], *names: object) -> None:
    """Raise ConfigError for the first of these names that is not known.

    >>> check_known("chunker", ["fixed", "recursive"], "fixed")
    """
    for name in names:
        if name not in known:
            raise ConfigError(unknown(what, name, known))


def unknown_chunk(chunk_id: str, query_id: str, n_chunks: int) -> str:
    """Return the text of an error about a run or an answer that names a chunk which is none of those
    given.

    >>> unknown_chunk("rail#0-24", "q1", 2)  # doctest: +NORMALIZE_WHITESPACE
    "query 'q1': 'rail#0-24' is not an id of the 2 chunks given; was the run made from another chunking, or turned into
    documents? Pass the chunk-level run, and the chunks that were searched for it"
    """
    return (
        f"query {query_id!r}: {chunk_id!r} is not an id of the {n_chunks:,} chunks given; was "
        "the run made from another chunking, or turned into documents? Pass the chunk-level run, "
        "and the chunks that were searched for it"
    )


def plural(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "question"), plural(0, "question")
    ('1 question', '0 questions')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def abridged(text: str, limit: int) -> str:
    """Return the first characters of a text, and three dots where it has more."""
    return text if len(text) <= limit else f"{text[:limit]}..."


_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    r"""Return one line without signs that could drive a terminal or turn the reading direction: texts of
    others are data.

    The joiners that Persian, Hindi and emoji are written with stay.

    >>> printable("red: \x1b[31m!\nnext")
    'red: ! next'
    """
    signs = (sign if sign.isprintable() or sign in _JOINERS else " " for sign in without_ansi(text))
    return " ".join("".join(signs).split())


_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control signs but tabs and line ends, signs that turn the reading direction, and invisible ones;
not the joiners that Persian, Hindi and emoji are written with.
"""


def visible(value: object) -> object:
    r"""Show the control signs of a text, and those that hide text or turn its direction, as signs;
    return what is not a text, or is markup of ours, as it is.

    >>> print(ascii(visible("red: \x1b[31m, \u202egnp.exe")))
    'red: \u241b[31m, \ufffdgnp.exe'
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _HIDDEN.sub(lambda match: _sign_of(match[0]), value)


def _sign_of(hidden: str) -> str:
    """Return the picture of a control sign of ASCII, U+FFFD for another hidden sign."""
    return chr(0x2400 + ord(hidden)) if ord(hidden) < 0x20 else "\ufffd"


_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b(?:[()][0-9AB])?"
)


def without_ansi(text: str) -> str:
    """Return the text without the codes that colour a terminal, move its cursor or set its title; lines
    stay.

    >>> without_ansi("\x1b[31mred\x1b[0m, \x1b]0;title\x07done")
    'red, done'
    """
    return _ANSI.sub("", text)
