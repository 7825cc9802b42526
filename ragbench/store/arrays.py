"""Arrays that are slow to compute, kept on disk under the hash of everything that they were
computed from.

One entry is one uncompressed .npz file without pickle, at `<cache folder>/arrays/<kind>/<key>.npz`
(or a file or folder of another form, see `kept`). Because the key is a hash of the input, an entry
never goes stale: it is right or it is not there. What makes that true:

- an entry is written to a temporary file, flushed to the disk and renamed, so a process killed at
  any moment leaves either the whole file or a leftover that is never read (and that the next writer
  removes);
- a file that is cut short or damaged (zip keeps a CRC-32 of each array) is computed again and
  replaced;
- a lock per key makes a second process wait for the first instead of computing the same thing.
  Right results do not depend on the lock, only saved work does.

Two environment variables, read at each call: `RAGBENCH_CACHE_DIR` is the folder (default: the
user's cache folder), `RAGBENCH_CACHE_MAX_GB` the bound on the entries' size in units of 10**9 bytes
(default 10; 0 keeps nothing). Above the bound the entries that were used the longest ago are
deleted. A folder that cannot be written, or a full disk, costs one warning and the time to compute;
it is never an error.
"""

import atexit
import hashlib
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ragbench.files import STAGING, clear_staging, locked, staged
from ragbench.types import grouped

if TYPE_CHECKING:
    import numpy.typing as npt

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"

T = TypeVar("T")

_DEFAULT_MAX_GB = 10.0
_ABANDONED_AFTER_S = 3600.0  # a file that is still being written changes more often
_LOCK_ABANDONED_AFTER_S = 24 * 3600.0
_warned: set[tuple[int, str]] = set()  # by process: a fork tells its own user
_bypassed: ContextVar[bool] = ContextVar("_bypassed", default=False)


class _Entry(NamedTuple):
    used: float
    size: int
    path: Path


def cache_folder() -> Path:
    """Return the folder of everything that ragbench keeps between runs; created when it is not
    there.

    It is `RAGBENCH_CACHE_DIR` (a leading ~ is the home folder) or, when that is unset or empty, the
    place where this system keeps a user's caches.

    >>> cache_folder().is_dir()
    True
    """
    folder = _folder()
    # Prompts, documents and answers are private; a folder that the user named may be shared.
    if not folder.is_dir():  # asked for several times per request
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.environ.get("RAGBENCH_CACHE_DIR"):
        with suppress(OSError):
            folder.chmod(0o700)
    return folder


def digest(*parts: str | bytes, stream: Iterable[str | bytes] = ()) -> str:
    """Return the SHA-256 of the parts as 64 hex digits. Each part counts with its length, so no two
    lists of parts are confused.

    The items of `stream` are hashed last, one at a time, so that they need not fit in memory.

    A string counts as its UTF-8 bytes; a lone surrogate (broken JSON escapes bring them) is hashed,
    not refused.

    >>> digest("ab", "c") == digest("a", "bc")
    False
    >>> digest("naïve") == digest("naïve".encode())
    True
    """
    sha = hashlib.sha256()
    for part in chain(parts, stream):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        sha.update(b"%d:" % len(data))
        sha.update(data)
    return sha.hexdigest()


@contextmanager
def arrays(kind: str, key: str) -> Iterator[Arrays]:
    """Yield named arrays from the disk; if none are stored, an empty dict, whose arrays
    at the end of the block are kept.

    `kind` names the family ("embeddings", "bm25"; nothing is kept for "") and `key` is the `digest`
    of everything that the result depends on: an input that is left out gives another input's result. Both are letters,
    digits, "-" and "_". The arrays hold numbers (no Python objects, since pickle is never used). Of
    several threads or processes that ask for one key at once, one computes and the others wait. The
    arrays belong to the caller, who may change them after the block.

    >>> import numpy as np
    >>> import numpy as np
    >>> key = digest("squares", "4", str(np.random.default_rng().integers(2**60)))
    >>> for _ in range(2):
    ...     with arrays("doctest", key) as entry:
    ...         if not entry:
    ...             print("computing")
    ...             entry["squares"] = np.arange(4) ** 2
    ...     print(entry["squares"])
    computing
    [0 1 4 9]
    [0 1 4 9]
    """
    limit = _limit_bytes()
    if not (kind and limit) or _bypassed.get():
        yield {}
        return
    path = _folder() / "arrays" / kind / f"{key}.npz"
    if entry := _read(path):
        yield entry
        return
    with _alone(path, key):
        if entry := _read(path):  # another process wrote it while we waited
            yield entry
            return
        yield entry
        # a larger one would push out all others and then itself
        if entry and sum(array.nbytes for array in entry.values()) <= limit:
            import numpy as np

            _write(path, lambda new: np.savez(new, allow_pickle=False, **entry), limit)


def kept(kind: str, key: str, build: Callable[[Path], object], read: Callable[[Path], T]) -> T:
    """Return what `read` makes of a file or folder that `build` writes at a path, kept as an entry
    of `arrays` is.

    For data that is mapped into memory rather than read as a whole; `<cache
    folder>/arrays/<kind>/<key>.kept` is its place. One that `read` cannot read (it raises) is built
    again. Where nothing can be kept it is built in a temporary folder, which goes with this
    process.

    >>> import numpy as np
    >>> key = digest("note", str(np.random.default_rng().integers(2**60)))
    >>> [kept("doctest", key, lambda path: path.write_text("kept"), Path.read_text) for _ in range(2)]
    ['kept', 'kept']
    """
    limit = _limit_bytes()
    path = _folder() / "arrays" / kind / f"{key}.kept"

    def found() -> T:
        value = read(path)
        os.utime(path)
        return value

    if limit and not _bypassed.get():
        if path.exists():
            with suppress(Exception):  # damaged, or evicted this moment
                return found()
        with _alone(path, key):
            if path.exists():
                try:
                    return found()
                except Exception:
                    _remove(path)
            if _write(path, build, limit):
                return found()
    folder = tempfile.mkdtemp(prefix="ragbench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    build(Path(folder, key))
    return read(Path(folder, key))


@contextmanager
def bypassed() -> Iterator[None]:
    """Keep this thread, inside, from reading and writing entries: for measuring how long something
    really takes.

    >>> import numpy as np
    >>> with bypassed(), arrays("doctest", digest("read past the store")) as entry:
    ...     entry["squares"] = np.arange(2) ** 2
    >>> with arrays("doctest", digest("read past the store")) as entry:
    ...     entry
    {}
    """
    token = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(token)


def check_environment() -> None:
    """Refuse invalid environment variables, before they stop a run in its
    middle.

    Raises:
        ValueError: naming the variable, its value and the expected form.
    """
    _limit_bytes()
    _folder()


def info() -> dict[str, Any]:
    """Return where the entries are and how much they take: folder, files, bytes, limit_bytes, and
    files and bytes by kind.

    Downloaded datasets and models are not entries and are not counted.

    >>> sorted(info())
    ['bytes', 'files', 'folder', 'kinds', 'limit_bytes']
    """
    entries = sorted(_entries(_folder() / "arrays"), key=lambda entry: entry.path)
    kinds = grouped(entries, lambda entry: entry.path.parent.name)
    return {
        "folder": str(_folder()),
        **_counts(entries),
        "limit_bytes": _limit_bytes(),
        "kinds": {kind: _counts(part) for kind, part in kinds.items()},
    }


def _counts(entries: Sequence[_Entry]) -> dict[str, int]:
    return {"files": len(entries), "bytes": sum(entry.size for entry in entries)}


def clear() -> int:
    """Delete all entries and return their number. Downloads stay.

    An entry that another process reads at this moment is read to its end; an entry that one is
    writing stays.
    """
    root = _folder() / "arrays"
    deleted = 0
    for entry in _entries(root):
        with suppress(OSError):  # another process was faster, or the system holds the file
            _remove(entry.path)
            deleted += 1
    _sweep_leftovers(root)
    return deleted


def _folder() -> Path:
    named = os.environ.get("RAGBENCH_CACHE_DIR")
    if named:
        try:
            return Path(named).expanduser().absolute()
        except RuntimeError as exc:
            raise ValueError(
                f"RAGBENCH_CACHE_DIR is {named!r}, and there is no such home folder; give a full "
                "path"
            ) from exc
    import platformdirs

    return Path(platformdirs.user_cache_dir("ragbench"))


def _limit_bytes() -> int:
    text = os.environ.get("RAGBENCH_CACHE_MAX_GB", "")
    try:
        limit = float(text) if text.strip() else _DEFAULT_MAX_GB
    except ValueError:
        limit = math.nan
    if not (math.isfinite(limit) and limit >= 0):
        raise ValueError(
            f"RAGBENCH_CACHE_MAX_GB is {text!r}; expected a number of gigabytes, 0 or more, such "
            f"as 2.5 (unset it for {_DEFAULT_MAX_GB:g}; 0 keeps nothing)"
        )
    return int(limit * 1e9)


def _read(path: Path) -> Arrays:
    """Return the arrays of an entry; {} if there is none, or a damaged one."""
    import numpy as np  # which a command that computes nothing lacks

    try:
        # Each member is read to its end, which is when zipfile compares the CRC.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            entry = {name: stored[name] for name in stored.files}
    except Exception:
        # No file; or a flipped bit can surface as nearly any exception (BadZipFile, EOFError, a shape that asks
        # for all memory, "encrypted"): an entry that cannot be read is computed again.
        return {}
    with suppress(OSError):
        os.utime(path)  # used now: the last to be evicted
    return entry


@contextmanager
def _alone(path: Path, key: str) -> Iterator[None]:
    """Hold the lock of this key; where locks cannot be had, continue without."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path.parents[2] / "locks" / f"{key}.lock", remove=True))
        except OSError as exc:
            _warn_once(exc)
        yield


def _write(path: Path, build: Callable[[Path], object], limit: int) -> bool:
    """Write an entry, and make room for it; return False, with a warning, where nothing can be
    written.
    """
    try:
        clear_staging(path.parent, path.name)  # we hold the lock: its writer is dead
        with staged(path) as new:
            build(new)
    except OSError as exc:
        _warn_once(exc)
        return False
    with suppress(FileNotFoundError):  # another process has evicted it since
        if _size(path) <= limit:  # a larger one would push out all others
            _evict(path.parents[1], limit, newest=path)
    return True


def _entries(root: Path) -> list[_Entry]:
    entries = []
    for path in chain(root.glob("*/*.npz"), root.glob("*/*.kept")):
        with suppress(OSError):  # deleted since it was listed
            entries.append(_Entry(path.stat().st_mtime, _size(path), path))
    return entries


def _size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files)


def _remove(path: Path) -> None:
    """Delete an entry; a folder in one step, so that a killed process leaves no part of it under
    its name.
    """
    if path.is_dir():
        gone = path.with_name(f"{STAGING}{path.name}-evicted")
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _evict(root: Path, limit: int, newest: Path) -> None:
    entries = sorted(_entries(root))
    total = sum(entry.size for entry in entries)
    if total <= limit:
        return
    _sweep_leftovers(root)
    for entry in entries:
        if total <= limit:
            break
        if entry.path == newest:
            continue  # written this moment; clocks of network folders may call it old
        with suppress(OSError):  # another process evicts the same files
            _remove(entry.path)
        total -= entry.size


def _sweep_leftovers(root: Path) -> None:
    now = time.time()
    staging = f"{root.name}/*/{STAGING}*"
    for pattern, age in ((staging, _ABANDONED_AFTER_S), ("locks/*.lock", _LOCK_ABANDONED_AFTER_S)):
        for path in root.parent.glob(pattern):
            with suppress(OSError):
                if now - path.stat().st_mtime > age:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _warn_once(exc: BaseException) -> None:
    folder = str(_folder())
    if (os.getpid(), folder) in _warned:
        return
    _warned.add((os.getpid(), folder))
    warnings.warn(
        f"nothing can be kept in {folder} ({type(exc).__name__}: {exc}): results are right but "
        "computed anew each time. Free some space there, or set RAGBENCH_CACHE_DIR to a folder "
        "that can be written",
        RuntimeWarning,
        stacklevel=2,
    )
