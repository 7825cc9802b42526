"""Downloads from a real server on loopback, which behaves as badly as real ones do."""

from __future__ import annotations

import io
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragbench import store
from ragbench.datasets import download
from ragbench.datasets.download import MD5, OFFICIAL_URL, beir_folder
from ragbench.errors import ConfigError, DataError, DownloadError, RagbenchError
from ragbench.files import STAGING
from ragbench.testsets.loader import load_dataset

WriteFolder = Callable[..., Path]


class Server(ThreadingHTTPServer):
    """Serves `files`; the other attributes are its bad habits. `asked` holds the path of each
    request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.says_length = True
        self.cut = 0  # that many requests of beir.util get half of the file
        self.errors: list[int] = []  # status codes of the first answers
        self.hang = threading.Event()  # set: to beir.util a file is announced and never sent
        self.done = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/sets"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        by_beir = "requests" in self.headers.get("User-Agent", "")
        if self.server.errors:
            self.send_error(self.server.errors.pop(0))
            return
        body = self.server.files.get(self.path.rsplit("/", 1)[-1])
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        if self.server.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if by_beir and self.server.hang.is_set():
            self.server.done.wait(20)
            return
        if by_beir and self.server.cut:
            self.server.cut -= 1
            body = body[: len(body) // 2]
        with suppress(OSError):  # who only wanted the headers is gone by now
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test output clean."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "_PAUSE_S", 0.01)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setenv("RAGBENCH_BEIR_URL", running.url + "/")
        monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
        yield running
        running.done.set()
        running.shutdown()
        thread.join()


def packed(folder: Path, inside: str = "small/") -> bytes:
    """The folder as a zip, under `inside`."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, inside + path.relative_to(folder).as_posix())
    return held.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return held.getvalue()


def left_over() -> list[str]:
    """The files of the cache, without locks."""
    return sorted(
        path.name
        for path in (store.cache_folder() / "datasets").glob("*/*")
        if not path.name.endswith(".lock")
    )


def test_download_loads_once_and_is_kept(server: Server, write_folder: WriteFolder) -> None:
    folder = write_folder()
    server.files["small.zip"] = packed(folder)
    dataset = load_dataset("beir/small")
    assert dataset.name == "beir/small"
    assert dataset.fingerprint == load_dataset(folder).fingerprint
    assert left_over() == ["small"]
    assert len(server.asked) == 2  # for the headers, then by beir.util
    assert load_dataset("beir/small").fingerprint == dataset.fingerprint
    assert len(server.asked) == 2


@pytest.mark.parametrize("says_length", [True, False])
def test_pubmedqa_cut_in_the_middle_starts_again(
    server: Server, shared_data: Path, says_length: bool
) -> None:
    folder = shared_data / "pubmedqa"
    server.files["pubmedqa.zip"] = packed(folder, "pubmedqa/")
    server.says_length, server.cut = (
        says_length,
        1,
    )  # without a length only the archive itself shows the cut
    found = beir_folder("pubmedqa")
    assert (found / "corpus.jsonl").read_bytes() == (folder / "corpus.jsonl").read_bytes()
    assert left_over() == ["pubmedqa"]
    assert len(server.asked) == 4


def test_a_download_that_is_always_cut_gives_up(server: Server, write_folder: WriteFolder) -> None:
    server.files["small.zip"] = packed(write_folder())
    server.cut = 99
    with pytest.raises(
        DownloadError, match=r"could not be downloaded in 4 tries.*RAGBENCH_BEIR_URL"
    ):
        beir_folder("small")
    assert left_over() == []


def test_what_a_killed_process_left_is_removed(server: Server, write_folder: WriteFolder) -> None:
    server.files["small.zip"] = packed(write_folder())
    left = (
        store.cache_folder()
        / "datasets"
        / f"beir-{store.digest(server.url)[:8]}"
        / f"{STAGING}small-12345678"
    )
    left.mkdir(parents=True)
    assert (beir_folder("small") / "corpus.jsonl").is_file()
    assert left_over() == ["small"]


def test_damage_inside_is_found_by_the_checksum(server: Server, write_folder: WriteFolder) -> None:
    archive = packed(write_folder())
    middle = archive.index(b"corpus.jsonl") + 20
    server.files["small.zip"] = (
        archive[:middle] + bytes([archive[middle] ^ 0xFF]) + archive[middle + 1 :]
    )
    with pytest.raises(
        DownloadError, match=r"small.zip could not be downloaded.*not a whole zip archive"
    ):
        beir_folder("small")
    assert left_over() == []


def test_a_silent_server_counts_as_cut(
    server: Server, write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_STALL_S", 1.0)
    monkeypatch.setattr(download, "_TRIES", 1)
    server.files["small.zip"] = packed(write_folder())
    server.hang.set()
    with pytest.raises(
        DownloadError, match=r"in 1 tries \(it timed out: less than 1000 bytes a second"
    ):
        beir_folder("small")
    assert left_over() == []


def test_server_error_is_tried_again(server: Server, write_folder: WriteFolder) -> None:
    server.files["small.zip"] = packed(write_folder())
    server.errors = [503, 429]
    assert beir_folder("small").is_dir()


def test_missing_set_is_a_clear_error_at_once(server: Server) -> None:
    with pytest.raises(
        DownloadError,
        match=r"/sets/nothing.zip: the server answered 404.*nfcorpus.*RAGBENCH_BEIR_URL",
    ):
        load_dataset("beir/nothing")
    assert len(server.asked) == 1
    assert left_over() == []


def test_no_server_is_a_clear_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_BEIR_URL", "http://127.0.0.1:1/sets")
    with pytest.raises(
        DownloadError, match=r"http://127.0.0.1:1/sets/nfcorpus.zip could not be.*RAGBENCH_BEIR_URL"
    ):
        beir_folder("nfcorpus")


def test_page_instead_of_an_archive(server: Server) -> None:
    server.files["small.zip"] = b"<html>Please log in</html>"
    with pytest.raises(DownloadError, match=r"not a whole zip archive.*<html>Please log in"):
        beir_folder("small")
    assert left_over() == []


def test_archive_without_a_set(server: Server) -> None:
    server.files["small.zip"] = zip_of({"readme.txt": b"hello"})
    with pytest.raises(DataError, match=r"small.zip holds no corpus.jsonl but readme.txt"):
        beir_folder("small")
    assert left_over() == []


LINK = zipfile.ZipInfo("small/link")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize(
    "member", ["../evil.txt", "small/../../evil.txt", "/evil.txt", "..\\evil.txt", LINK]
)
def test_no_member_is_written_outside_of_its_folder(
    server: Server, tmp_path: Path, member: str | zipfile.ZipInfo
) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("small/corpus.jsonl", b"{}")
        archive.writestr(member, b"evil")
    server.files["small.zip"] = held.getvalue()
    folder = beir_folder("small")
    assert left_over() == ["small"]
    assert {path.parent for path in tmp_path.rglob("*evil*")} <= {folder}
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_an_archive_that_unpacks_to_far_more_than_texts_do_is_refused(server: Server) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/corpus.jsonl", bytes(30_000_000))
    server.files["small.zip"] = held.getvalue()
    assert len(held.getvalue()) < 40_000
    with pytest.raises(
        DataError, match=r"unpack to 30,000,000 bytes from \d+,\d+; expected at most 50 times"
    ):
        beir_folder("small")
    assert left_over() == []


@pytest.mark.parametrize("inside", ["", "small/", "other-name/"])
def test_set_is_found_where_archives_hold_it(
    server: Server, write_folder: WriteFolder, inside: str
) -> None:
    server.files["small.zip"] = packed(write_folder(), inside)
    assert (beir_folder("small") / "qrels" / "test.tsv").is_file()


def test_part_of_a_set_of_sets(server: Server, write_folder: WriteFolder) -> None:
    server.files["small.zip"] = packed(write_folder(), "small/android/")
    assert load_dataset("beir/small/android").name == "beir/small/android"
    with pytest.raises(
        ConfigError, match=r"unknown part of BEIR set 'small' 'androit'; did you mean 'android'"
    ):
        load_dataset("beir/small/androit")
    with pytest.raises(DataError, match=r"corpus.jsonl is missing.*look like one: android"):
        load_dataset("beir/small")


def test_two_at_once_download_once(server: Server, write_folder: WriteFolder) -> None:
    server.files["small.zip"] = packed(write_folder())
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(beir_folder, ["small", "small"])
    assert first == second
    assert len(server.asked) == 2


def test_sets_from_different_places_are_kept_apart(
    server: Server, write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["small.zip"] = packed(write_folder())
    assert beir_folder("small").is_dir()
    monkeypatch.setenv("RAGBENCH_BEIR_URL", server.url + "/elsewhere")
    server.files.clear()
    with pytest.raises(DownloadError, match="404"):
        beir_folder("small")


@pytest.mark.parametrize(
    "name", ["../small", "small/../..", "a/b/c", "", "small?x=1", "sm all", ".hidden"]
)
def test_odd_names_never_reach_the_server(server: Server, name: str) -> None:
    with pytest.raises(ConfigError, match="unknown BEIR set"):
        beir_folder(name)
    assert server.asked == []


def test_base_url_must_be_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_BEIR_URL", "file:///etc")
    with pytest.raises(ConfigError, match="RAGBENCH_BEIR_URL is 'file:///etc'"):
        beir_folder("small")


def test_cache_that_cannot_be_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(RagbenchError, match="RAGBENCH_CACHE_DIR"):
        beir_folder("small")


def test_checksums_are_those_that_ir_datasets_has_too() -> None:
    import json
    import pkgutil

    listed = json.loads(pkgutil.get_data("ir_datasets", "etc/downloads.json") or b"{}")[
        "beir"
    ].values()
    theirs = {entry["url"]: entry["expected_md5"] for entry in listed}
    for name, md5 in MD5.items():
        assert theirs[f"{OFFICIAL_URL}/{name}.zip"] == md5
