"""Public BEIR sets: downloaded and unpacked by `beir.util`, within bounds, once, into the cache
folder.

`beir.util` waits without end, follows any redirect, keeps error pages and unpacks anything. So it
runs in a separate process, which is ended when nothing arrives any more; the address, the archive's
size, its MD5 (if BEIR documents one) and its unpacked size are checked before the next step. A
download that was cut off or damaged starts again. The set appears as a whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench import store
from ragbench.errors import ConfigError, DataError, DownloadError, nearest, unknown
from ragbench.files import bundled, clear_staging, locked, staged
from ragbench.network import Bounds, OutOfBoundsError
from ragbench.progress import progress_bar

if TYPE_CHECKING:
    import httpx

OFFICIAL_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"

MD5: dict[str, str] = bundled(__file__, "beir_sets.toml")
"""The public sets and the checksums that BEIR's documentation gives for their archives."""

# The public sets unpack to 2 to 6 times their size, the largest to some 20 GB.
_MAX_RATIO = 50
_SMALL_BYTES = 10_000_000  # an archive may unpack to this size whatever its ratio
_MAX_UNPACKED_BYTES = 100_000_000_000

_MAX_ARCHIVE_BYTES = 50_000_000_000
_TRIES = 4
_PAUSE_S = 0.5  # doubled after each try
_STALL_S = 60.0
_MIN_RATE = 1000  # bytes per second; a slower server counts as one that is silent
_WAY_OUT = (
    "check the connection, set RAGBENCH_BEIR_URL to a mirror that serves <name>.zip, or unpack "
    "the archive yourself and name its folder"
)
_RUN_UTIL = (
    "import sys, types\n"
    "sys.modules['torch'] = types.SimpleNamespace()  # 2 s, for other functions of the module\n"
    "from beir import util\n"
    "getattr(util, sys.argv[1])(*sys.argv[2:])"
)


class _FailedTryError(Exception):
    """The archive did not arrive as a whole; start again."""


def beir_folder(name: str) -> Path:
    """Return the folder of a public BEIR set ("nfcorpus", "cqadupstack/android"), downloaded if it
    is not in the cache yet.

    `RAGBENCH_BEIR_URL` is the address that serves `<name>.zip`; sets from different addresses are
    kept apart. The checksum in `MD5` is required of BEIR's own address only, as a mirror may have
    packed the same files again.

    The download is given up after four tries; a connection that is silent, or slower than 1000 bytes a second,
    for a minute counts as cut. No redirect to another host is followed. Of several processes one
    downloads, the others wait.

    Raises:
        ConfigError: the name or the address is not valid.
        DownloadError: the archive did not arrive, or could not be stored.
        DataError: the archive holds no set in BEIR's format, or would unpack to far too much.
    """
    base = (os.environ.get("RAGBENCH_BEIR_URL") or OFFICIAL_URL).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ConfigError(
            f"RAGBENCH_BEIR_URL is {base!r}; expected a URL that starts with http:// or https://"
        )
    archive, _, part = name.partition("/")  # cqadupstack.zip holds "cqadupstack/android" and others
    is_official = base == OFFICIAL_URL
    # an unknown name that resembles a known one is refused; any other may be a new set
    is_unknown = is_official and archive not in MD5
    is_misspelt = is_unknown and nearest(archive, MD5) != ""
    if is_misspelt or not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name, re.ASCII):
        raise ConfigError(unknown("BEIR set", name, MD5))
    try:
        folder = _installed_archive(archive, base)
    except OSError as exc:
        raise DownloadError(
            f"{archive}.zip could not be stored in the cache folder: {exc}; make room or set "
            "RAGBENCH_CACHE_DIR"
        ) from exc
    return _part_of_set(folder, part) if part else folder


def _installed_archive(archive: str, base: str) -> Path:
    """Return the cache folder with the content of `<base>/<archive>.zip`, downloaded if it is new."""
    is_official = base == OFFICIAL_URL
    address_folder = "beir" if is_official else f"beir-{store.digest(base)[:8]}"
    home = store.cache_folder() / "datasets" / address_folder
    folder = home / archive
    if not folder.is_dir():
        with locked(home / f"{archive}.lock"):
            if not folder.is_dir():  # another process may have installed it meanwhile
                md5 = MD5.get(archive) if is_official else None
                _install(f"{base}/{archive}.zip", folder, md5)
    return folder


def _part_of_set(folder: Path, part: str) -> Path:
    """Return the folder of a part of a set, such as "android" of cqadupstack.

    Raises:
        ConfigError: the set has no such part.
    """
    if not (folder / part).is_dir():
        parts = sorted(path.parent.name for path in folder.glob("*/corpus.jsonl"))
        raise ConfigError(
            unknown(f"part of BEIR set {folder.name!r}", part, parts or ["(it has no parts)"])
        )
    return folder / part


def unpacked(archive: Path) -> Path:
    """Return the folder of the set in a zip file, which is unpacked into the cache once."""
    try:
        with archive.open("rb") as file:
            key = hashlib.file_digest(file, "sha256").hexdigest()
        return store.kept("beir", key, lambda new: _unpack(archive, new, str(archive)), Path)
    except (OSError, _FailedTryError) as exc:
        raise DataError(f"{archive}: {exc}; save it again") from exc


def _install(url: str, folder: Path, md5: str | None) -> None:
    """Download, check and unpack an archive, in up to `_TRIES` tries; `folder` appears whole or not at
    all.

    Args:
        url: the address of the archive.
        folder: where its content is put.
        md5: the checksum that the archive must have; None accepts any archive.

    Raises:
        DownloadError: every try failed; or, at once, the server refuses the archive, or it is too large.
        DataError: the archive would unpack to far too much, or holds no set in BEIR's format.
        OSError: the disk has no room for it.
    """
    import httpx

    clear_staging(folder.parent, folder.name)
    for attempt in range(1, _TRIES + 1):
        try:
            with staged(folder) as new:
                archive = new.with_name("archive.zip")
                _download(url, archive)
                _check_archive(archive, md5)
                _unpack(archive, new, url)
            return
        except (_FailedTryError, OutOfBoundsError, httpx.HTTPError, httpx.InvalidURL) as exc:
            if attempt == _TRIES:
                raise DownloadError(
                    f"{url} could not be downloaded in {_TRIES} tries ({exc}); {_WAY_OUT}"
                ) from exc
            time.sleep(_PAUSE_S * 2 ** (attempt - 1))


def _download(url: str, archive: Path) -> None:
    """Save the archive at `url`, by `beir.util.download_url` in a separate process.

    Raises:
        _FailedTryError: it did not arrive whole, or too slowly.
    """
    final_url, n_expected = _look_up(url)
    log = archive.with_name("log")
    command = _command("download_url", final_url, archive)
    with (
        log.open("wb") as output,
        progress_bar(n_expected, final_url.rpartition("/")[2], "bytes") as bar,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            _watch(process, archive, n_expected, bar)
        finally:
            process.kill()  # it still runs if `_watch` gave up; an ended process is left as it is
    if process.returncode:
        raise _FailedTryError(_last_line(log.read_bytes()))
    n_arrived = _size(archive)
    if n_expected is not None and n_arrived != n_expected:
        raise _FailedTryError(f"{n_arrived} of {n_expected} bytes arrived")


def _watch(
    process: subprocess.Popen[bytes], archive: Path, n_expected: int | None, bar: Any
) -> None:
    """Wait until a process has downloaded an archive.

    Args:
        process: the process.
        archive: the file that it writes, which grows meanwhile.
        n_expected: bytes of the archive; None if the server does not state them.
        bar: shows the progress.

    Raises:
        _FailedTryError: the file grew too large, or too slowly in the `_STALL_S` seconds between two
            checks.
    """
    n_at_check = 0
    last_check = time.monotonic()
    while process.poll() is None:
        time.sleep(0.02)
        n_arrived = _size(archive)
        bar.update(n_arrived - bar.n)  # by the bytes that the bar has not counted yet
        if n_arrived > (n_expected or _MAX_ARCHIVE_BYTES):
            raise _FailedTryError(
                f"{n_arrived} bytes arrived, {n_expected or 'far fewer'} were expected"
            )
        seconds = time.monotonic() - last_check
        if seconds <= _STALL_S:
            continue
        if n_arrived - n_at_check < _MIN_RATE * seconds:
            raise _FailedTryError(
                f"it timed out: less than {_MIN_RATE} bytes a second after {n_arrived}"
            )
        n_at_check = n_arrived
        last_check = time.monotonic()


def _look_up(url: str) -> tuple[str, int | None]:
    """Ask the server about an archive: return its address after redirects within the host, and its size
    in bytes, None if the server does not state it.

    Raises:
        _FailedTryError: the server failed or is busy, so another try may succeed.
        DownloadError: the server refuses the archive, or the archive is too large.
    """
    import httpx

    timeout = httpx.Timeout(_STALL_S, pool=None)  # seconds; no limit for a free connection
    with (
        Bounds(url, same_host=True).client(timeout=timeout) as client,
        client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
    ):
        _check_status(response, url)
        size = _stated_size(response)
        if size is not None and size > _MAX_ARCHIVE_BYTES:
            raise DownloadError(
                f"{url} has {size:,} bytes; expected {_MAX_ARCHIVE_BYTES:,} at most"
            )
        return str(response.url), size


def _check_status(response: httpx.Response, url: str) -> None:
    """Raise _FailedTryError if a server failed or is busy, DownloadError if it refuses the archive."""
    status = response.status_code
    if status == 429 or status >= 500:
        raise _FailedTryError(f"the server answered {status} {response.reason_phrase}")
    if not response.is_success:
        names = f"public sets are {', '.join(MD5)}; " if status in (404, 410) else ""
        raise DownloadError(
            f"{url}: the server answered {status} {response.reason_phrase}; {names}{_WAY_OUT}"
        )


def _stated_size(response: httpx.Response) -> int | None:
    """Return the size of the file in a response as its headers state it; None if they do not."""
    length = response.headers.get("Content-Length", "")
    is_encoded = "Content-Encoding" in response.headers  # then the length is not the file's
    return int(length) if length.isdecimal() and not is_encoded else None


def _command(function: str, *arguments: object) -> list[str]:
    """Return the command that calls a function of `beir.util` in a separate process."""
    return [sys.executable, "-P", "-c", _RUN_UTIL, function, *map(str, arguments)]


def _last_line(output: bytes) -> str:
    """Return the last line with text that a process printed, cut to 300 characters."""
    for line in reversed(output.decode(errors="replace").splitlines()):
        if line.strip():
            return line[:300]
    return "it failed"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _check_archive(archive: Path, md5: str | None) -> None:
    """Raise _FailedTryError unless a file is a zip archive with this MD5; None accepts any."""
    with archive.open("rb") as file:
        if not zipfile.is_zipfile(archive):
            raise _FailedTryError(
                f"it is not a whole zip archive: it starts with {file.read(40)!r}"
            )
        if md5 is None:
            return
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != md5:
        raise _FailedTryError(f"its MD5 is {digest}, not {md5} as BEIR documents")


def _unpack(archive: Path, folder: Path, source: str) -> None:
    """Unpack the set in a zip archive into a folder, by `beir.util.unzip` in a separate process; like
    `zipfile`, it writes nothing outside of its folder and makes no links.

    An archive mostly has one folder, which is the set. Some sets have several parts: folders with a
    corpus each.

    Args:
        archive: the zip file.
        folder: where the set appears as a whole.
        source: the name of the archive in errors.

    Raises:
        _FailedTryError: the archive is damaged.
        DataError: it would unpack to far too much, or holds no set in BEIR's format.
        OSError: the disk has no room for it.
    """
    members = _members(archive)
    needed = sum(member.file_size for member in members)
    _check_unpacked_size(needed, _size(archive), source)
    free = shutil.disk_usage(folder.parent).free
    if needed > free:
        raise OSError(f"unpacked it needs {needed:,} bytes, {free:,} are free")
    unpacked = folder.with_name(f"unpacked {folder.name}")
    process = subprocess.run(_command("unzip", archive, unpacked), capture_output=True)
    if process.returncode:
        raise _FailedTryError(f"it is not a whole zip archive: {_last_line(process.stderr)}")
    dataset = _folder_of_set(unpacked)  # the only folder in the archive, else all of it
    has_corpus = any(dataset.rglob("corpus.jsonl"))  # its own, or of a part
    if not has_corpus:
        names = ", ".join(member.filename for member in members[:5]) or "nothing"
        raise DataError(
            f"{source} holds no corpus.jsonl but {names}; expected a set in BEIR's format"
        )
    dataset.rename(folder)


def _members(archive: Path) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip archive, one per file in it; raises _FailedTryError if it is damaged."""
    try:
        with zipfile.ZipFile(archive) as packed:
            return packed.infolist()
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as exc:
        raise _FailedTryError(f"it is not a whole zip archive: {exc}") from exc


def _check_unpacked_size(needed: int, size: int, source: str) -> None:
    """Raise DataError if an archive of `size` bytes would unpack to suspiciously many, `needed`.

    Small archives may unpack to `_SMALL_BYTES` whatever the ratio.
    """
    limit = min(_MAX_UNPACKED_BYTES, max(_SMALL_BYTES, _MAX_RATIO * size))
    if needed > limit:
        raise DataError(
            f"{source} would unpack to {needed:,} bytes from {size:,}; expected at "
            f"most {_MAX_RATIO} times its size and {_MAX_UNPACKED_BYTES:,} bytes, as texts do: "
            "is it a zip bomb?"
        )


def _folder_of_set(unpacked: Path) -> Path:
    """Return the only subfolder of an unpacked archive, or `unpacked` itself where the set is at its
    top or in several subfolders.
    """
    if (unpacked / "corpus.jsonl").is_file():
        return unpacked
    subfolders = [path for path in unpacked.iterdir() if path.is_dir() and path.name != "__MACOSX"]
    return subfolders[0] if len(subfolders) == 1 else unpacked
