"""Write files atomically, durably and under a lock (no other module does), and read whole TOML and JSON
files.

A process may be killed and a machine may lose power at any moment. A file or folder written here is
then the old one or the new one, never a part of it, and everything reported as written is on the
disk.
"""

import glob
import json
import math
import os
import re
import shutil
import tempfile
import threading
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, RagbenchError

if TYPE_CHECKING:
    from filelock import BaseFileLock

STAGING = ".running-"
"""The beginning of the names of temporary files and folders, which are never taken for results."""

COMPRESSED_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, OSError)
"""What reading a compressed file raises that is damaged, cut or not compressed."""

_POLL_S = 0.5
_MAYBE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_toml(path: Path, hint: str, *, missing: str = "") -> dict[str, Any]:
    """Return the tables of a TOML file, UTF-8 with or without a byte order mark.

    Raises:
        ConfigError: the file cannot be read or parsed; with the reason and `hint`, or with `missing` if
            there is no file.
    """
    return dict(_parse_file(path, tomllib.loads, "TOML", hint, ConfigError, missing))


def bundled(module: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file by its path from the folder of a module, whose `__file__` is given."""
    return tomllib.loads((Path(module).parent / name).read_text(encoding="utf-8"))


def toml_text(value: Any) -> str:
    """Return plain data as a TOML value on one line; None, which TOML lacks, as the number nan.

    >>> print(toml_text({"yes": 1.0, "no": None, "a\\tb": ["c", True]}))
    {"yes" = 1.0, "no" = nan, "a\\tb" = ["c", true]}

    Raises:
        ConfigError: a list or a tuple holds None, which would be read as one of its numbers.
    """
    if value is None:
        return "nan"
    if isinstance(value, dict):
        fields = [f"{toml_text(name)} = {toml_text(part)}" for name, part in value.items()]
        return f"{{{', '.join(fields)}}}"
    if isinstance(value, list | tuple):
        if None in value:
            raise ConfigError(f"{value!r} holds None, which no list of TOML can; leave it out")
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, str):  # TOML has no raw DEL, and no half of a surrogate pair
        valid = value.encode("utf-8", "replace").decode()
        return json.dumps(valid, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan, inf or -inf, which JSON writes in another way
    return json.dumps(value)


def toml_line(text: str, keys: Sequence[int | str]) -> int:
    """Return the number of the line of a TOML text on which a value begins; of a missing value, the line
    of the table that lacks it.

    The text is parsed up to its first line, its second line and so on, until the value is there. It
    begins on the line after the longest valid part without it: a part that ends within a value of several
    lines is not valid TOML.

    Args:
        text: TOML.
        keys: the keys that lead to the value, such as ["http", "url"].

    >>> text = "[http]\\nurl = 'a'\\nbody = [\\n  1,\\n]"
    >>> [toml_line(text, ["http", key]) for key in ("url", "body", "reply")]
    [2, 3, 1]
    """
    lines = text.splitlines(keepends=True)
    n_without_value = 0  # lines of the longest valid part without the value
    for number in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # the part ends within a value of several lines
        if _has_value(data, keys):
            return n_without_value + 1
        n_without_value = number
    # the value is missing: the line of the table around it, in the end line 1
    return toml_line(text, keys[:-1]) if keys else 1


def _has_value(data: Any, keys: Sequence[int | str]) -> bool:
    """Return True if nested data have a value at these keys."""
    try:
        for key in keys:
            data = data[key]
    except (LookupError, TypeError):
        return False
    return True


def read_json(path: Path, hint: str, **options: Any) -> Any:
    """Return the content of a JSON file; `options` are arguments of json.loads.

    Raises:
        DataError: the file cannot be read or parsed; with the reason and `hint`.
    """
    return _parse_file(path, lambda text: parse_json(text, **options), "JSON", hint, DataError)


def check_inside(path: Path, folder: Path) -> None:
    """Raise DataError for a file that leads out of its folder: by a symbolic link, or by its name.

    A folder of results may come from anyone; its links and names open nothing else of this machine.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{path} leads out of {folder}, and such links are not followed; put a copy of the file "
            "in its place"
        )


def expanded(path: str | Path) -> Path:
    """Return a path with the home folder in place of a leading ~ or ~user; unchanged if there is no such
    user.

    >>> str(expanded("~no-such-user/docs"))
    '~no-such-user/docs'
    """
    return Path(os.path.expanduser(path))


def parse_json(text: str, **options: Any) -> Any:
    """Return the value of a JSON text.

    >>> parse_json('{"a": [1]}')
    {'a': [1]}

    Raises:
        ValueError: the text is not JSON, nests too deeply, or has half of a surrogate pair (then it is
            a UnicodeError).
    """
    try:
        value = json.loads(text, **options)
        if _MAYBE_SURROGATE.search(text):  # which no encoder takes later
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        raise UnicodeError(
            "a \\ud... escape is half of a surrogate pair; write the character itself"
        ) from exc
    except RecursionError as exc:
        raise ValueError("it nests too deeply") from exc
    return value


class JsonLineError(ValueError):
    """A text is neither JSON nor JSON Lines. `line` is the number of the wrong line, 0 for the whole
    text, and `before` has the values of the lines before it.
    """

    def __init__(self, reason: ValueError, line: int, before: list[Any]) -> None:
        super().__init__(str(reason))
        self.line = line
        self.before = before


def parse_json_or_lines(text: str) -> Any:
    """Return the value of a JSON text, or the list of the values of JSON Lines.

    >>> parse_json_or_lines('{"a": 1}'), parse_json_or_lines('{"a": 1}\\n\\n{"a": 2}\\n')
    ({'a': 1}, [{'a': 1}, {'a': 2}])

    Raises:
        JsonLineError: it is neither; the error is about the whole text if its first line is not JSON.
    """
    try:
        return parse_json(text)
    except ValueError as exc:
        error_of_text = exc
    values: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(parse_json(line))
        except ValueError as exc:
            is_json_lines = bool(values)  # so far
            if is_json_lines:
                raise JsonLineError(exc, number, values) from exc
            raise JsonLineError(error_of_text, 0, []) from exc
    return values


def _parse_file(
    path: Path,
    parse: Callable[[str], Any],
    form: str,
    hint: str,
    error: type[RagbenchError],
    missing: str = "",
) -> Any:
    """Return `parse(text)` of the text of a file in UTF-8; raise `error` if the file cannot be read or
    parsed.

    Args:
        form: the name of the format in messages, such as "JSON".
        hint: the end of every message: what to do.
        error: the class of the exception.
        missing: the whole message for a file that does not exist; "" makes one with the hint.
    """
    try:
        # without a byte order mark, which some editors write
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as exc:
        raise error(missing or f"there is no file {path}; {hint}") from exc
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise error(f"{path} cannot be read as UTF-8 text: {reason}; {hint}") from exc
    try:
        return parse(text)
    except (ValueError, RecursionError) as exc:
        raise error(f"{path} is not valid {form}: {exc}; {hint}") from exc


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a path at which the block creates a file or a folder, which then replaces `target` as a
    whole.

    The path has the name of `target`, in a temporary folder next to it; the folder around both is
    created. If the block raises, `target` stays unchanged. A new file gets the permissions of the old
    one. (A folder is replaced in two renames: for a moment between them it does not exist.)

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with staged(Path(folder, "notes.txt")) as new:
    ...         _ = new.write_text("one")
    ...     Path(folder, "notes.txt").read_text(), len(os.listdir(folder))
    ('one', 1)
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{STAGING}{target.name[:50]}-", dir=target.parent))
    try:
        new = staging / target.name
        yield new
        _flush_files(new)
        if new.is_dir():
            # the old folder goes into the staging folder, which is removed below
            swap_in(new, target, staging / f"old {target.name}")
        else:
            if target.is_file():
                shutil.copymode(target, new)
            os.replace(new, target)
        flush_folder(target.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _flush_files(path: Path) -> None:
    """Write a file, or all files of a folder, from the memory of the system to the disk."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            _flush(file, os.O_RDWR if os.name == "nt" else os.O_RDONLY)


def write_durably(path: Path, content: str | bytes) -> None:
    """Replace a file by this content (text as UTF-8, line ends unchanged), as a whole or not at all;
    its folder is created.
    """
    with staged(path) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def swap_in(new: Path, folder: Path, old: Path) -> None:
    """Replace a folder by another one: move `folder` to the path `old`, then `new` to the path `folder`.

    If `new` cannot be moved, the former folder is put back. Each step is one rename.
    """
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise


def flush_folder(folder: Path) -> None:
    """Wait until the renames in a folder are on the disk; do nothing if folders cannot be opened
    (Windows).
    """
    with suppress(OSError):
        _flush(folder, os.O_RDONLY)


def clear_staging(folder: Path, name: str = "") -> None:
    """Remove the temporary folders of killed processes from a folder (with `name`: of one
    target); only for the holder of the lock.
    """
    pattern = f"{STAGING}*"
    if name:
        pattern = f"{STAGING}{glob.escape(name[:50])}-????????"
    for path in folder.glob(pattern):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def check_writable(place: Path) -> None:
    """Raise OSError if no file or folder could be created at `place`; nothing is left behind."""
    # the nearest folder above that exists, in which the others would be created
    folders = {next(parent for parent in place.absolute().parents if parent.exists())}
    if place.is_dir():
        folders.add(place)
    for folder in folders:
        with tempfile.NamedTemporaryFile(prefix=STAGING, dir=folder):
            pass


class LineFile:
    """A file to which lines are appended, each on the disk when `append` returns; threads may share
    it.

    `lines` are the lines at construction, without their ends. An incomplete last line (of a killed
    process) is not among them, and the next append removes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        content = path.read_bytes() if path.exists() else b""
        # the part after the last line end is an incomplete line; "" if the file ends well
        complete, line_end, _ = content.rpartition(b"\n")
        self.lines = complete.split(b"\n") if line_end else []
        self._appending = threading.Lock()
        self._size = len(complete) + len(line_end)

    def append(self, line: str) -> None:
        """Add a line, without its end, and return once it is on the disk; the folder is created with the
        first line.
        """
        data = line.encode() + b"\n"
        with self._appending:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.truncate(self._size)  # removes an incomplete last line, of a write that failed
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            self._size += len(data)


@contextmanager
def locked(
    file: Path,
    *,
    timeout_s: float = 3600.0,
    stop: threading.Event | None = None,
    remove: bool = False,
) -> Iterator[None]:
    """Hold a lock, the file `file`, during the block; its folder is created. The system releases the
    lock when its holder dies.

    On a file system without locks the block runs without one, and the file stays.

    Args:
        timeout_s: how long to wait for another holder.
        stop: ends the wait when it is set.
        remove: delete the file at the end, so that files of many locks do not pile up.

    Raises:
        TimeoutError: another process or thread still holds the lock.
        InterruptedError: `stop` was set.
        OSError: the file cannot be created.
    """
    from filelock import FileLock

    if not file.parent.is_dir():
        file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file)
    with suppress(NotImplementedError):  # a file system without locks
        _acquire(lock, file, timeout_s, stop)
    try:
        yield
    finally:
        if lock.is_locked:
            # while the lock is held; FileLock makes a new file if the one it waited for was deleted
            if remove:
                with suppress(OSError):
                    file.unlink()
            lock.release()


def _acquire(
    lock: "BaseFileLock", file: Path, timeout_s: float, stop: threading.Event | None
) -> None:
    """Wait for a lock and take it; with `stop`, look every `_POLL_S` if it is set.

    Raises:
        TimeoutError, InterruptedError, OSError: as in `locked`.
        NotImplementedError: the file system has no locks.
    """
    from filelock import Timeout

    deadline = time.monotonic() + timeout_s
    while True:
        wait_s = max(0.0, deadline - time.monotonic())
        if stop is not None:
            wait_s = min(wait_s, _POLL_S)
        try:
            lock.acquire(timeout=wait_s, poll_interval=0.02)
            return
        except Timeout:
            if stop is not None and stop.is_set():
                raise InterruptedError(f"stopped while another process held {file.name}") from None
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{file} was held for {timeout_s:g} s; if no other process uses it, delete "
                    "it (the locks of a network file system may outlive their holders)"
                ) from None


def _flush(path: Path, flags: int) -> None:
    """Wait until a file or folder, opened with these flags, is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
