"""Every error that ragbench raises on purpose, as one tree; the kinds of failures; how warnings are
shown, once and in a line; and visible signs for hidden characters of foreign texts.

::

    RagbenchError             catch this to catch them all
    ├── DataError             a file or a record is wrong (also a ValueError)
    ├── ConfigError           a parameter, name or grid is wrong (also a ValueError)
    │   └── UnknownKeyError   a table or a dict of a result lacks a key (also a KeyError)
    ├── ComparisonError       two results must not be compared (also a ValueError)
    ├── DownloadError         something could not be fetched, or arrived damaged
    ├── ModelError            a model could not be loaded or did not answer
    ├── SweepError            a sweep could not continue
    ├── SystemsError          a system under test did not accept a request, or returned a wrong reply
    │   └── RefusalError      it refused a request, and did nothing
    └── MissingExtraError     an optional package is not installed (also an ImportError)

    DataWarning               a flaw of real data that is not an error, reported once with its count
    JudgeWarning              a judge whose verdicts deserve less trust, such as the generator judging itself

A message names the value, the expected value, and the way out. Errors are raised at the border,
where input arrives; functions inside trust their input.
"""

import difflib
import re
import sys
import warnings
from collections.abc import Collection, Iterable
from enum import StrEnum
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, ClassVar

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
    "UnknownKeyError",
]


class FailureKind(StrEnum):
    """The reason why a request has no reply. The next step depends on it, never on the wording of a
    message.
    """

    BUDGET = "budget"  # not sent: it might have passed the maximum cost
    OFFLINE = "offline"  # not sent: the reply store does not have it
    DRY_RUN = "dry_run"  # not sent: only counted
    STORE = "store"  # not sent: its reply could not be stored
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
    """The root of the tree. `failure` is the kind of a failed request, if that is the cause."""

    def __init__(self, message: object = "", failure: FailureKind | None = None) -> None:
        super().__init__(message)
        self.failure = failure

    def __str__(self) -> str:
        # a message may quote foreign text, which must not control the terminal
        return without_ansi(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython and Jupyter show: the message without the stack of calls."""
        return [f"{type(self).__name__}: {self}"]


class DataError(RagbenchError, ValueError):
    """A file or a record is wrong."""


class ConfigError(RagbenchError, ValueError):
    """A parameter, a name or a grid is wrong."""


class UnknownKeyError(ConfigError, KeyError):
    """A table or a dict of a result has no such column, row or key."""

    def __str__(self) -> str:
        return without_ansi(str(self.args[0]))  # a KeyError would show it in quotation marks


class ComparisonError(RagbenchError, ValueError):
    """Two results must not be compared: other queries, other data."""


class DownloadError(RagbenchError):
    """Something could not be fetched, or arrived damaged."""


class ModelError(RagbenchError):
    """A model could not be loaded or did not answer."""


class SweepError(RagbenchError):
    """A sweep could not continue."""


class SystemsError(RagbenchError):
    """A system under test did not accept a request, or returned a wrong reply."""


class RefusalError(SystemsError):
    """A system under test refused a request, and certainly did nothing."""


class MissingExtraError(RagbenchError, ImportError):
    """An optional package is not installed."""


class DataWarning(UserWarning):
    """A flaw of real data that is not an error; one warning with the count and the first ids.

    Args:
        text: the message for the user.
        cause: the name of a flaw that many steps of a run meet, each with another count. A terminal
            shows its first warning alone, a notebook the first of each run of a cell; "" shows all.
    """

    _shown: ClassVar[set[tuple[str, int]]] = set()

    def __init__(self, text: str = "", cause: str = "") -> None:
        super().__init__(text)
        self._cause = cause

    def is_known(self) -> bool:
        """Return True if the user has seen this warning before, so that it is not shown again; else
        record that it is shown now.
        """
        if not self._cause:
            return False
        key = (self._cause, _number_of_cell())
        is_known = key in self._shown
        self._shown.add(key)
        return is_known


def _number_of_cell() -> int:
    """Return the number of the notebook's cell that runs; 0 outside of notebooks."""
    if "ipykernel" not in sys.modules:
        return 0
    from IPython import get_ipython

    shell = get_ipython()
    return shell.execution_count if shell is not None else 0


class JudgeWarning(UserWarning):
    """A judge whose verdicts deserve less trust, such as a model that judges its own answers."""


_NOT_THE_USERS = ("ragbench", "concurrent", "contextlib", "functools", "threading")


def warn_user(message: str | Warning, category: type[Warning] = DataWarning) -> None:
    """Issue a warning. The line that Python names for it is the user's: the nearest caller outside of
    ragbench and of the standard library's wrappers.
    """
    level = 2  # the caller of this function
    frame = sys._getframe(1)
    while frame.f_back is not None and _package_of(frame) in _NOT_THE_USERS:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_flaw(source: str, flaw: str, ids: Collection[str]) -> None:
    """Issue one DataWarning with the number of ids and the first three; no ids, no warning."""
    if ids:
        first = ", ".join(abridged(repr(one), 40) for one in list(ids)[:3])
        warn_user(f"{source}: {len(ids)} {flaw} (first: {first})")


def _package_of(frame: FrameType) -> str:
    """Return the first part of the name of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _format_warning(
    message: Warning | str, category: type[Warning], *source: Any, **options: Any
) -> str:
    """Return the text of a warning that is printed; Python calls this in place of its own function.

    A warning of ragbench is one line, without the place in the code; one that the user has seen before is
    "". Any other warning is as Python formats it.
    """
    if isinstance(message, DataWarning) and message.is_known():
        return ""
    if issubclass(category, DataWarning | JudgeWarning):
        return f"{category.__name__}: {without_ansi(str(message))}\n"
    return _python_format(message, category, *source, **options)


_python_format = warnings.formatwarning


def one_line_warnings() -> None:
    """Show ragbench's warnings as one line from now on, without the source line that raised them, and
    hide tqdm's warning that JupyterLab has no widgets.
    """
    warnings.formatwarning = _format_warning
    warnings.filterwarnings("ignore", "IProgress not found")


if "ipykernel" in sys.modules:  # in a notebook a line of ragbench's source helps no reader
    one_line_warnings()


def require(module: str, extra: str) -> ModuleType:
    """Import and return `module`.

    Raises:
        MissingExtraError: it is not installed; the message names the extra to install.

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
    """Return the known name that is most similar to a value; "" if none reaches the similarity `cutoff`
    (0 to 1).

    >>> nearest("Recursiv", ["fixed", "recursive"]), nearest("other", ["fixed", "recursive"])
    ('recursive', '')
    """
    names = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(value).casefold(), names, n=1, cutoff=cutoff)
    return names[near[0]] if near else ""


def unknown(what: str, value: object, known: Iterable[str], shown: str = "", near: str = "") -> str:
    """Return the text of an error about an unknown name.

    Args:
        what: the kind of name, such as "chunker".
        value: the unknown name.
        known: the known names.
        shown: the list of known names in the text; "" = the first 30.
        near: the known name that is meant; "" = the most similar one, if any.

    >>> unknown("chunker", "recursiv", ["fixed", "recursive"])
    "unknown chunker 'recursiv'; did you mean 'recursive'? Known: fixed, recursive"
    """
    names = list(known)
    near = near or nearest(value, names)
    hint = f"; did you mean '{near}'?" if near else "."
    return f"unknown {what} {value!r}{hint} Known: {shown or listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Return the first 30 names that are not empty as a text, with "..." for the others.

    >>> listed(["fixed", "", "recursive"])
    'fixed, recursive'
    """
    shown = [name for name in names if name]
    text = ", ".join(shown[:30])
    return f"{text}, ..." if len(shown) > 30 else text


def check_known(what: str, known: Collection[str], *names: object) -> None:
    """Raise ConfigError for the first of these names that is not known.

    >>> check_known("chunker", ["fixed", "recursive"], "fixed")
    """
    for name in names:
        if name not in known:
            raise ConfigError(unknown(what, name, known))


def unknown_chunk(chunk_id: str, query_id: str, n_chunks: int) -> str:
    """Return the text of an error about an unknown chunk in a run or an answer.

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


def as_sentence(clause: str) -> str:
    """Return a clause as a sentence, with a capital and a full stop; "" for no clause.

    >>> as_sentence("nothing could be measured")
    'Nothing could be measured.'
    """
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def abridged(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, followed by three dots if it is longer."""
    return text if len(text) <= limit else f"{text[:limit]}..."


_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    r"""Return a foreign text as one line without signs that could control a terminal or turn the reading
    direction.

    The joiners in Persian, Hindi and emoji stay.

    >>> printable("red: \x1b[31m!\nnext")
    'red: ! next'
    """
    signs = (sign if sign.isprintable() or sign in _JOINERS else " " for sign in without_ansi(text))
    return " ".join("".join(signs).split())


_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control signs other than tabs and line ends, signs that turn the reading direction, and invisible
signs; not the joiners in Persian, Hindi and emoji.
"""


def visible(value: object) -> object:
    r"""Return a text with visible signs in place of control signs, and of signs that hide text or turn
    its direction; any other value, or ragbench's own markup, unchanged.

    >>> print(ascii(visible("red: \x1b[31m, \u202egnp.exe")))
    'red: \u241b[31m, \ufffdgnp.exe'
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _HIDDEN.sub(lambda match: _sign_of(match[0]), value)


def visible_line(text: str) -> str:
    r"""Return a foreign text as one line, with visible signs in place of hidden ones.

    >>> ascii(visible_line("\u202egnp\nexe"))
    "'\\ufffdgnp exe'"
    """
    return printable(str(visible(text)))


def _sign_of(hidden: str) -> str:
    """Return the symbol of an ASCII control sign, U+FFFD for any other hidden sign."""
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
