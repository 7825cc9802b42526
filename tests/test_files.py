"""Atomic and durable writes, locks between processes, files of lines."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from ragbench.errors import ConfigError
from ragbench.files import (
    LineFile,
    check_writable,
    clear_staging,
    locked,
    staged,
    toml_text,
    write_durably,
)


def test_a_block_that_raises_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(ZeroDivisionError), staged(tmp_path / "a.txt") as new:
        new.write_text(str(1 / int(new.write_text("half") == 0)))
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_replaces_a_folder_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "result"
    for content in ("one", "two"):
        with staged(target) as new:
            new.mkdir()
            (new / content).write_text(content)
    assert os.listdir(target) == ["two"]
    assert os.listdir(tmp_path) == ["result"]


def test_permissions_and_line_ends_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    write_durably(file, "a\r\nü\n")
    assert file.read_bytes() == "a\r\nü\n".encode()
    file.chmod(0o640)
    write_durably(file, b"b")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"b", 0o640)


def test_plain_data_is_valid_toml() -> None:
    data = {"levels": {"yes": math.inf, "no": -math.inf}, "pair": ("a", 1), "ok": True, "n": 2}
    expected = {**data, "pair": ["a", 1]}
    assert tomllib.loads(f"value = {toml_text(data)}")["value"] == expected
    for without_value in (None, math.nan):
        assert math.isnan(tomllib.loads(f"value = {toml_text(without_value)}")["value"])
    for with_none in ([None], (1, None), {"levels": [None]}):
        with pytest.raises(ConfigError, match="holds None, which no list of TOML can"):
            toml_text(with_none)


def test_long_names_are_written(tmp_path: Path) -> None:
    file = tmp_path / ("ä" * 120)
    write_durably(file, "x")
    assert file.read_text() == "x"


def test_a_missing_folder_is_created_around_what_is_written(tmp_path: Path) -> None:
    write_durably(tmp_path / "a" / "b" / "c.txt", "x")
    with staged(tmp_path / "d" / "e") as new:
        new.mkdir()
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"
    assert os.listdir(tmp_path / "d") == ["e"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_writer_leaves_the_old_content_and_something_to_clear(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    code = (
        "import sys, time; from pathlib import Path; from ragbench.files import staged\n"
        "with staged(Path(sys.argv[1])) as new:\n"
        "    new.write_text('half'); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert target.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    clear_staging(tmp_path, "a")  # another file's
    assert len(os.listdir(tmp_path)) == 2
    clear_staging(tmp_path, "a.txt")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_line_that_a_killed_process_left_incomplete_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lines.jsonl"
    assert LineFile(path).lines == []
    assert not path.parent.exists()
    LineFile(path).append("one")
    with path.open("ab") as file:
        file.write("zwö"[:-1].encode() + b"\xc3")
    again = LineFile(path)
    assert again.lines == [b"one"]
    again.append("two")
    again.append("three")
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_threads_append_whole_lines(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "lines")
    threads = [
        threading.Thread(target=file.append, args=(str(number) * 50,)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(LineFile(file.path).lines) == [str(number).encode() * 50 for number in range(8)]


def test_a_second_holder_waits_gives_up_or_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "locks" / "a.lock"
    stop = threading.Event()
    with locked(file, remove=True):
        with pytest.raises(TimeoutError), locked(file, timeout_s=0):
            pass
        threading.Timer(0.1, stop.set).start()
        with pytest.raises(InterruptedError, match=r"a\.lock"), locked(file, stop=stop):
            pass
    assert not file.exists()
    with locked(file, timeout_s=0):
        assert file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    file = tmp_path / "a.lock"
    code = (
        "import sys, time; from pathlib import Path; from ragbench.files import locked\n"
        "with locked(Path(sys.argv[1])):\n"
        "    print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(TimeoutError), locked(file, timeout_s=0):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with locked(file, timeout_s=30):
        pass


def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "report.html")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        check_writable(tmp_path / "file" / "report.html")
