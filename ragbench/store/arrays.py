"""Arrays that are slow to compute, kept on disk under the hash of everything that they were
computed from: the cache folder, its largest size, and what is deleted first.

One entry is one uncompressed .npz file without pickle, at `<cache folder>/arrays/<kind>/<key>.npz`
(or a file or folder of another form, see `kept`). Because the key is a hash of the input, an entry
never goes stale: it is right or it is not there. What makes that true:

- an entry is written to a temporary file, flushed to the disk and renamed. A process killed at any
  moment leaves either the whole file, or a leftover that is never read and that the next writer
  removes;
- a truncated or damaged file (zip keeps a CRC-32 of each array) is computed again and replaced;
- a lock per key makes a second process wait for the first instead of computing the same arrays.
  Results are right without the lock; it only saves work.

Two environment variables, read at each call: `RAGBENCH_CACHE_DIR` is the folder (default: the
user's cache folder), `RAGBENCH_CACHE_MAX_GB` the bound on the entries' size in units of 10**9 bytes
(default 10; 0 keeps nothing). Above the bound, the least recently used entries are deleted. A folder
that cannot be written, or a full disk, costs one warning and the time to compute; it is never an
error.
"""

import atexit
import hashlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ragbench.errors import warn_user
from ragbench.files import STAGING, clear_staging, locked, staged
from ragbench.groups import grouped

if TYPE_CHECKING:
    import numpy.typing as npt

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"

T = TypeVar("T")

_DEFAULT_MAX_GB = 10.0
_ABANDONED_AFTER_S = 3600.0  # a temporary file in use changes more often
_LOCK_ABANDONED_AFTER_S = 24 * 3600.0
_warned: set[tuple[int, str]] = set()  # (process, folder): a forked process warns again
_bypassed: ContextVar[bool] = ContextVar("_bypassed", default=False)


class _Entry(NamedTuple):
    """A stored file or folder: when it was last used (seconds since 1970), and its size in bytes."""

    used: float
    size: int
    path: Path


def cache_folder() -> Path:
    """Return the folder of everything that ragbench keeps between runs, and create it if needed.

    It is `RAGBENCH_CACHE_DIR` (a leading ~ is the home folder), or, if that is unset or empty, the
    operating system's folder for a user's caches.

    >>> cache_folder().is_dir()
    True
    """
    folder = _cache_path()
    # Prompts, documents and answers are private; a folder that the user named may be shared.
    if not folder.is_dir():  # cheaper than mkdir, for the usual case
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.environ.get("RAGBENCH_CACHE_DIR"):
        with suppress(OSError):
            folder.chmod(0o700)
    return folder


def digest(*parts: str | bytes, stream: Iterable[str | bytes] = ()) -> str:
    """Return the SHA-256 of the parts as 64 hex digits.

    Each part is hashed with its length, so that different lists of parts have different digests. A
    string is hashed as UTF-8; a lone surrogate, as from a broken JSON escape, is no error. The items
    of `stream` are hashed last, one at a time, so that they need not fit in memory.

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
    """Yield the stored arrays by name; if none are stored, yield an empty dict, into which the block
    puts the arrays to store.

    Several threads or processes may ask for one key at once: one computes, the others wait. The
    arrays belong to the caller, who may change them after the block.

    Args:
        kind: the family of entries, such as "embeddings"; with "" nothing is stored or read.
        key: the `digest` of every input of the computation; with an input left out, another input's
            arrays would be returned. `kind` and `key` are letters, digits, "-" and "_".

    The arrays hold numbers and no Python objects, because pickle is never used.

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
    limit = _limit_bytes()  # 0 if nothing is to be stored
    uses_store = kind != "" and limit > 0 and not _bypassed.get()
    if not uses_store:
        yield {}
        return
    path = _cache_path() / "arrays" / kind / f"{key}.npz"
    stored = _read_arrays(path)
    if stored:
        yield stored
        return
    with _holding_lock(path, key):
        stored = _read_arrays(path)  # another process may have written it while we waited
        if stored:
            yield stored
            return
        computed: Arrays = {}
        yield computed  # the block puts its arrays there
        size = sum(array.nbytes for array in computed.values())
        if computed and size <= limit:  # a larger entry would evict all others and then itself
            import numpy as np

            def save(new: Path) -> None:
                np.savez(new, allow_pickle=False, **computed)

            _write_entry(path, save, limit)


def kept(kind: str, key: str, build: Callable[[Path], object], read: Callable[[Path], T]) -> T:
    """Return `read(path)` of a stored file or folder; `build(path)` writes it if it is not stored yet.

    It is for data that is mapped into memory rather than read as a whole. `kind` and `key` name the
    entry as in `arrays`. If `read` raises, the file is built again. If nothing can be stored, it is
    built in a temporary folder, which is deleted when this process ends.

    >>> import numpy as np
    >>> key = digest("note", str(np.random.default_rng().integers(2**60)))
    >>> [kept("doctest", key, lambda path: path.write_text("kept"), Path.read_text) for _ in range(2)]
    ['kept', 'kept']
    """
    limit = _limit_bytes()
    path = _cache_path() / "arrays" / kind / f"{key}.kept"

    def read_stored() -> T:
        if not path.exists():
            raise FileNotFoundError(path)
        value = read(path)
        os.utime(path)  # used now: the last to be evicted
        return value

    if limit and not _bypassed.get():
        with suppress(Exception):  # not there, damaged, or evicted this moment
            return read_stored()
        with _holding_lock(path, key):
            with suppress(Exception):  # another process may have written it while we waited
                return read_stored()
            _remove(path)  # damaged, or not there
            is_written = _write_entry(path, build, limit)
            if is_written:
                return read_stored()
    # nothing can be stored
    folder = tempfile.mkdtemp(prefix="ragbench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    temporary_path = Path(folder, key)
    build(temporary_path)
    return read(temporary_path)


@contextmanager
def bypassed() -> Iterator[None]:
    """Read and write no entries in this thread during the block, to measure how long a computation
    takes.

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
    """Check the environment variables before a run, which they would stop in its middle.

    Raises:
        ValueError: RAGBENCH_CACHE_DIR or RAGBENCH_CACHE_MAX_GB is invalid.
    """
    _limit_bytes()
    _cache_path()


def info() -> dict[str, Any]:
    """Return the store of arrays in numbers.

    "folder" is where the entries are, "files" and "bytes" their number and size, "limit_bytes" the
    bound on their size, and "kinds" number and size by kind.

    Downloaded datasets and models are not entries and are not counted.

    >>> sorted(info())
    ['bytes', 'files', 'folder', 'kinds', 'limit_bytes']
    """
    entries = sorted(_entries(_cache_path() / "arrays"), key=lambda entry: entry.path)
    entries_of_kind = grouped(entries, lambda entry: entry.path.parent.name)
    return {
        "folder": str(_cache_path()),
        **_number_and_size(entries),
        "limit_bytes": _limit_bytes(),
        "kinds": {kind: _number_and_size(some) for kind, some in entries_of_kind.items()},
    }


def _number_and_size(entries: Sequence[_Entry]) -> dict[str, int]:
    return {"files": len(entries), "bytes": sum(entry.size for entry in entries)}


def clear() -> int:
    """Delete all entries and return their number; downloads are kept.

    A process that is reading an entry can read it to its end; an entry that is being written is kept.
    """
    root = _cache_path() / "arrays"
    deleted = 0
    for entry in _entries(root):
        with suppress(OSError):  # another process was faster, or the system holds the file
            _remove(entry.path)
            deleted += 1
    _sweep_leftovers(root)
    return deleted


def _cache_path() -> Path:
    """Return the path of `cache_folder`, which may not exist.

    Raises:
        ValueError: RAGBENCH_CACHE_DIR names the home folder of a user who does not exist.
    """
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
    """Return the bound on the size of all entries: RAGBENCH_CACHE_MAX_GB, or the default.

    Raises:
        ValueError: RAGBENCH_CACHE_MAX_GB is not a number of 0 or more.
    """
    text = os.environ.get("RAGBENCH_CACHE_MAX_GB", "")
    limit = _DEFAULT_MAX_GB
    if text.strip():
        try:
            limit = float(text)
        except ValueError:
            limit = math.nan  # invalid, as "nan" and "inf" are
    is_valid = math.isfinite(limit) and limit >= 0
    if not is_valid:
        raise ValueError(
            f"RAGBENCH_CACHE_MAX_GB is {text!r}; expected a number of gigabytes, 0 or more, such "
            f"as 2.5 (unset it for {_DEFAULT_MAX_GB:g}; 0 keeps nothing)"
        )
    return int(limit * 1e9)


def _read_arrays(path: Path) -> Arrays:
    """Return the arrays of an entry; {} if it does not exist or is damaged."""
    import numpy as np  # here, since commands that compute nothing start faster without it

    try:
        # Each member is read to its end, which is when zipfile compares the CRC.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            entry = {name: stored[name] for name in stored.files}
    except Exception:
        # The file does not exist; or it is damaged, which can raise nearly any exception: BadZipFile,
        # EOFError, MemoryError for an absurd shape, "encrypted".
        return {}
    with suppress(OSError):
        os.utime(path)  # used now: the last to be evicted
    return entry


@contextmanager
def _holding_lock(path: Path, key: str) -> Iterator[None]:
    """Hold the lock of this key during the block; if the folder allows no locks, continue without."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path.parents[2] / "locks" / f"{key}.lock", remove=True))
        except OSError as exc:
            _warn_once(exc)
        yield


def _write_entry(path: Path, build: Callable[[Path], object], limit: int) -> bool:
    """Write an entry with `build`, and evict others to make room for it.

    Return True if it was written; return False, with a warning, if the folder cannot be written.
    """
    try:
        clear_staging(path.parent, path.name)  # we hold the lock: the writer of a leftover is dead
        with staged(path) as new:
            build(new)
    except OSError as exc:
        _warn_once(exc)
        return False
    with suppress(FileNotFoundError):  # another process has evicted it since
        if _size(path) <= limit:  # a larger entry would evict all others
            folder_of_kinds = path.parents[1]
            _evict(folder_of_kinds, limit, newest=path)
    return True


def _entries(root: Path) -> list[_Entry]:
    """Return all entries below `root`, the folder of the kinds."""
    entries = []
    for path in chain(root.glob("*/*.npz"), root.glob("*/*.kept")):
        with suppress(OSError):  # deleted since it was listed
            entries.append(_Entry(path.stat().st_mtime, _size(path), path))
    return entries


def _size(path: Path) -> int:
    """Return the size of a file, or of the files of a folder, in bytes."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.iterdir())
    return path.stat().st_size


def _remove(path: Path) -> None:
    """Delete an entry. A folder is renamed first, so that a killed process leaves no half-deleted
    entry.
    """
    if path.is_dir():
        renamed = path.with_name(f"{STAGING}{path.name}-evicted")
        path.rename(renamed)
        shutil.rmtree(renamed, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _evict(root: Path, limit: int, newest: Path) -> None:
    """Delete the least recently used entries until the others take `limit` bytes or less; never the
    `newest` one.
    """
    longest_unused_first = sorted(_entries(root))  # an entry begins with the time of its last use
    total = sum(entry.size for entry in longest_unused_first)
    if total <= limit:
        return
    _sweep_leftovers(root)
    for entry in longest_unused_first:
        if total <= limit:
            break
        if entry.path == newest:
            continue  # a network folder with a wrong clock may give it an old time
        with suppress(OSError):  # another process evicts the same files
            _remove(entry.path)
        total -= entry.size  # also if it was the other process that removed it


def _sweep_leftovers(root: Path) -> None:
    """Delete temporary files and locks that killed processes left behind."""
    _delete_old(root.glob(f"*/{STAGING}*"), _ABANDONED_AFTER_S)
    _delete_old(root.parent.glob("locks/*.lock"), _LOCK_ABANDONED_AFTER_S)


def _delete_old(paths: Iterable[Path], max_age_s: float) -> None:
    """Delete the files and folders that were last changed more than `max_age_s` seconds ago."""
    now = time.time()
    for path in paths:
        with suppress(OSError):  # another process was faster
            is_old = now - path.stat().st_mtime > max_age_s
            if is_old and path.is_dir():
                shutil.rmtree(path)
            elif is_old:
                path.unlink()


def _warn_once(exc: BaseException) -> None:
    """Warn that nothing can be stored, once in a process for each cache folder."""
    folder = str(_cache_path())
    if (os.getpid(), folder) in _warned:
        return
    _warned.add((os.getpid(), folder))
    warn_user(
        f"nothing can be kept in {folder} ({type(exc).__name__}: {exc}): results are right but "
        "computed anew each time. Free some space there, or set RAGBENCH_CACHE_DIR to a folder "
        "that can be written",
        RuntimeWarning,
    )
