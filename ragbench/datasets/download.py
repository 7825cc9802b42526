"""Public BEIR sets: downloaded once, verified, unpacked into the cache folder.

A download that was cut off continues where it stopped, also in another process; the archive is checked (length, MD5
where BEIR documents one, the checksum of every member) and unpacked next to its place, where it appears as a whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from ragbench import store
from ragbench.errors import ConfigError, DataError, DownloadError, unknown
from ragbench.files import clear_staging, locked, staged
from ragbench.network import Bounds, OutOfBoundsError
from ragbench.progress import progress_bar

OFFICIAL_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"

MD5 = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "cqadupstack": "4e41456d7df8ee7760a7f866133bda78",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": "5a818580227bfb4b35bb6fa46d9b6c03",
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": "46f650ba5a527fc69e0a6521c5a23563",
}
"""The public sets and the checksums that BEIR's documentation gives for their archives."""

# The public sets unpack to 2 to 6 times their size, the largest to some 20 GB.
_MOST_TIMES, _SMALL, _MOST_BYTES = 50, 10_000_000, 100_000_000_000

_MAX_ARCHIVE_MB = 50_000
_MIN_RATE = 1000  # bytes per second; a slower server counts as one that is silent
_WAY_OUT = (
    "check the connection, set RAGBENCH_BEIR_URL to a mirror that serves <name>.zip, or unpack the archive yourself "
    "and name its folder"
)


class _CutError(Exception):
    """The archive is not whole yet; what is there can be continued."""


class _DamagedError(Exception):
    """What arrived is not the archive; start again."""


def beir_folder(name: str, *, tries: int = 4, pause_s: float = 0.5, stall_s: float = 60.0) -> Path:
    """The folder of a public BEIR set ("nfcorpus", "cqadupstack/android"), downloaded if it is not there yet.

    `RAGBENCH_BEIR_URL` is where `<name>.zip` is looked for; sets from different places are kept apart. The checksum
    in `MD5` is required of BEIR's own place only, as a mirror may have packed the same files again.

    It gives up after `tries` attempts in a row that bring no more than 1000 bytes, `pause_s` (doubled each time)
    apart; a connection that is silent, or slower than 1000 bytes a second, for `stall_s` seconds counts as cut. No
    redirect to another host is followed. Of several processes one downloads, the others wait.
    """
    base = (os.environ.get("RAGBENCH_BEIR_URL") or OFFICIAL_URL).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise ConfigError(f"RAGBENCH_BEIR_URL is {base!r}; expected a URL that starts with http:// or https://")
    archive, _, part = name.partition("/")
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name, re.ASCII):
        raise ConfigError(unknown("BEIR set", name, MD5))
    official = base == OFFICIAL_URL
    try:
        home = store.cache_folder() / "datasets" / ("beir" if official else f"beir-{store.digest(base)[:8]}")
        folder = home / archive
        if not folder.is_dir():
            home.mkdir(parents=True, exist_ok=True)
            with locked(home / f"{archive}.lock"):
                if not folder.is_dir():
                    md5 = MD5.get(archive) if official else None
                    _install(f"{base}/{archive}.zip", folder, md5, tries=tries, pause_s=pause_s, stall_s=stall_s)
    except OSError as exc:
        raise DownloadError(
            f"{archive}.zip could not be stored in the cache folder: {exc}; make room or set RAGBENCH_CACHE_DIR"
        ) from exc
    if not part:
        return folder
    if not (folder / part).is_dir():
        parts = sorted(path.parent.name for path in folder.glob("*/corpus.jsonl"))
        raise ConfigError(unknown(f"part of BEIR set {archive!r}", part, parts or ["(it has no parts)"]))
    return folder / part


def _install(url: str, folder: Path, md5: str | None, *, tries: int, pause_s: float, stall_s: float) -> None:
    """Download and unpack, as often as that makes progress; `folder` appears whole or not at all."""
    import httpx

    partial = folder.parent / f"{folder.name}.zip.part"
    clear_staging(folder.parent, folder.name)
    best = failures = damages = 0
    while True:
        try:
            _verify(partial, _fetch(url, partial, stall_s), md5)
            _unpack(partial, folder, url)
            break
        except DataError:
            partial.unlink(missing_ok=True)
            raise
        except _DamagedError as exc:
            partial.unlink(missing_ok=True)
            damages += 1
            if damages == 2:
                raise DownloadError(f"{url} is not a whole zip archive, twice over: {exc}; {_WAY_OUT}") from exc
        except (_CutError, OutOfBoundsError, httpx.HTTPError, httpx.InvalidURL) as exc:
            size = _size(partial)
            failures = 1 if size > best + _MIN_RATE else failures + 1
            best = max(best, size)
            if failures >= tries:
                raise DownloadError(
                    f"{url} could not be downloaded; {tries} tries in a row brought nothing new after {best} bytes "
                    f"({exc}); {_WAY_OUT}"
                ) from exc
            time.sleep(pause_s * 2 ** (failures - 1))
    partial.unlink()


def _fetch(url: str, partial: Path, stall_s: float) -> int | None:
    """Add what `partial` lacks, or all of it where the server gives no parts; the archive's size where it is known."""
    import httpx

    size = _size(partial)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={size}-"} if size else {})
    timeout = httpx.Timeout(stall_s, pool=None)  # large archives take their time; the loop below wants progress
    with (
        Bounds(url, same_host=True).client(timeout=timeout) as client,
        client.stream("GET", url, headers=headers, extensions={"max_reply_mb": _MAX_ARCHIVE_MB}) as response,
    ):
        code, place = response.status_code, response.headers.get("Content-Range", "")
        if code == 416:
            if place == f"bytes */{size}":
                return size
            raise _DamagedError(f"nothing follows after {size} bytes")
        if code == 429 or code >= 500:
            raise _CutError(f"the server answered {code} {response.reason_phrase}")
        if not response.is_success:
            known = f"public sets are {', '.join(MD5)}; " if code in (404, 410) else ""
            raise DownloadError(f"{url}: the server answered {code} {response.reason_phrase}; {known}{_WAY_OUT}")
        if code == 206 and not place.startswith(f"bytes {size}-"):
            raise _DamagedError(f"asked for bytes from {size} on, got {place!r}")
        length = place.rpartition("/")[2] if code == 206 else response.headers.get("Content-Length", "")
        known_length = length.isdecimal() and "Content-Encoding" not in response.headers  # else it is not the file's
        total = int(length) if known_length else None
        start = size if code == 206 else 0
        with (
            partial.open("ab" if start else "wb") as file,
            progress_bar(total, partial.stem, "B", initial=start) as bar,
        ):
            since, came = time.monotonic(), 0
            for block in response.iter_bytes():
                file.write(block)
                bar.update(len(block))
                came += len(block)
                if (waited := time.monotonic() - since) > stall_s:
                    if came < _MIN_RATE * waited:
                        raise _CutError(f"it sends less than {_MIN_RATE} bytes a second")
                    since, came = time.monotonic(), 0
    return total


def _size(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _verify(partial: Path, total: int | None, md5: str | None) -> None:
    size = _size(partial)
    if total is not None and size < total:
        raise _CutError(f"{size} of {total} bytes arrived")
    if total is not None and size > total:
        raise _DamagedError(f"{size} bytes arrived, {total} were announced")
    if not zipfile.is_zipfile(partial):
        with partial.open("rb") as file:
            start = file.read(40)
        if total is None and start.startswith(b"PK"):  # its table is at the end, which may be missing
            raise _CutError(f"the archive ends too soon, after {size} bytes")
        raise _DamagedError(f"it starts with {start!r}")
    if md5:
        with partial.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if found != md5:
            raise _DamagedError(f"its MD5 is {found}, not {md5} as BEIR documents")


def _unpack(archive: Path, folder: Path, source: str) -> None:
    """The set in `archive` becomes `folder`; every member is checked before the first is written."""
    try:
        with staged(folder) as new, zipfile.ZipFile(archive) as packed:
            members = packed.infolist()
            seen: set[PurePosixPath] = set()
            for member in members:
                _check_member(member, source, seen)
            needed, free = sum(member.file_size for member in members), shutil.disk_usage(folder.parent).free
            if needed > min(_MOST_BYTES, max(_SMALL, _MOST_TIMES * archive.stat().st_size)):
                raise DataError(
                    f"{source} would unpack to {needed:,} bytes from {archive.stat().st_size:,}; expected at most "
                    f"{_MOST_TIMES} times its size and {_MOST_BYTES:,} bytes, as texts do: is it a zip bomb?"
                )
            if needed > free:
                raise OSError(f"unpacked it needs {needed:,} bytes, {free:,} are free")
            unpacked = new.with_name(f"unpacked {new.name}")
            packed.extractall(unpacked)
            inside = [path for path in unpacked.iterdir() if path.is_dir() and path.name != "__MACOSX"]
            whole = inside[0] if len(inside) == 1 and not (unpacked / "corpus.jsonl").is_file() else unpacked
            if not any(whole.rglob("corpus.jsonl")):
                held = ", ".join(member.filename for member in members[:5]) or "nothing"
                raise DataError(f"{source} holds no corpus.jsonl but {held}; expected a set in BEIR's format")
            whole.rename(new)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as exc:
        raise _DamagedError(str(exc)) from exc


def _check_member(member: zipfile.ZipInfo, source: str, seen: set[PurePosixPath]) -> None:
    name = member.filename.replace("\\", "/")
    path = PurePosixPath(name)
    kind = stat.S_IFMT(member.external_attr >> 16)
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        fault = "points outside its folder"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        fault = "is a link or a special file"
    elif member.flag_bits & 1:
        fault = "is encrypted"
    elif path in seen:
        fault = "is there twice"
    else:
        seen.add(path)
        return
    raise DataError(
        f"{source}: member {member.filename!r} {fault}; nothing was unpacked. Get the archive from a place you trust"
    )
