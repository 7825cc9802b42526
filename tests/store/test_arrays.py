"""The cache is right or it is not there: killed, damaged, full, shared and unwritable folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ragbench import store
from tests.store.computed import computed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test alone."""
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RAGBENCH_CACHE_MAX_GB", raising=False)
    return tmp_path / "cache"


def counted(value: float = 1.0, size: int = 8) -> tuple[Callable[[], store.Arrays], list[int]]:
    calls: list[int] = []

    def compute() -> store.Arrays:
        calls.append(1)
        return {"values": np.full(size, value, dtype=np.float32)}

    return compute, calls


def entry(folder: Path, kind: str, key: str) -> Path:
    return folder / "arrays" / kind / f"{key}.npz"


def run_python(code: str, folder: Path, **extra: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(folder), **extra}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_second_call_reads_what_the_first_computed(folder: Path) -> None:
    compute, calls = counted(2.5)
    first = computed("t", "k", compute)
    second = computed("t", "k", compute)
    assert len(calls) == 1
    np.testing.assert_array_equal(first["values"], second["values"])
    assert second["values"].dtype == np.float32
    assert list(second) == ["values"]


def test_what_is_returned_may_be_changed_without_harm(folder: Path) -> None:
    compute, _ = counted(1.0)
    for _ in range(3):
        values = computed("t", "k", compute)["values"]
        assert values[0] == 1.0
        values[0] = 99.0


@pytest.mark.parametrize(
    "array",
    [
        np.empty((0, 3), np.float32),
        np.array(7),
        np.array([], np.uint8),
        np.asfortranarray(np.eye(3)),
        np.array(["ä"]),
    ],
    ids=["no rows", "scalar", "no bytes", "column order", "text"],
)
def test_every_shape_comes_back(folder: Path, array: np.ndarray) -> None:
    for _ in range(2):
        back = computed("t", "k", lambda: {"a": array})["a"]
        np.testing.assert_array_equal(back, array)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)


def test_without_a_kind_nothing_is_kept(folder: Path) -> None:
    compute, calls = counted()
    assert list(computed("", "k", compute)) == list(computed("", "k", compute)) == ["values"]
    assert len(calls) == 2
    assert not folder.exists()


def test_python_objects_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        computed("t", "k", lambda: {"a": np.array([object()])})
    assert store.info()["files"] == 0


def test_error_of_the_computation_passes_and_leaves_nothing(folder: Path) -> None:
    def broken() -> store.Arrays:
        raise OSError("the computation itself")

    with pytest.raises(
        OSError, match="the computation itself"
    ):  # and not the warning about the folder
        computed("t", "k", broken)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_digest_distinguishes_lists_of_parts() -> None:
    assert store.digest("ab", "c") != store.digest("a", "bc") != store.digest("abc")
    assert store.digest() != store.digest("")
    assert store.digest("1:a") != store.digest("1:a", "")
    assert len(store.digest("\ud800 lone surrogate")) == 64


# --- damage
# ----------------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_computed_again(folder: Path) -> None:
    compute, calls = counted(3.0)
    computed("t", "k", compute)
    path = entry(folder, "t", "k")
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        calls.clear()
        assert computed("t", "k", compute)["values"].tolist() == [3.0] * 8
        assert calls == [1], f"cut at {length} of {len(whole)} was believed"
    assert path.read_bytes() == whole


def test_no_flipped_bit_is_believed(folder: Path) -> None:
    compute, calls = counted(3.0)
    computed("t", "k", compute)
    path = entry(folder, "t", "k")
    whole = path.read_bytes()
    recomputed = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        calls.clear()
        assert list(computed("t", "k", compute)) == ["values"]
        assert computed("t", "k", compute)["values"].tolist() == [3.0] * 8
        recomputed += len(calls)
    assert (
        recomputed > len(whole) / 2
    )  # the rest are dates, versions and the like, which say nothing of the content


def test_damage_in_the_middle_of_a_large_array_is_seen(folder: Path) -> None:
    compute, calls = counted(3.0, size=200_000)
    computed("t", "k", compute)
    path = entry(folder, "t", "k")
    with path.open("r+b") as file:
        file.seek(400_000)
        file.write(b"\x55")
    assert set(computed("t", "k", compute)["values"].tolist()) == {3.0}
    assert len(calls) == 2


def test_entries_hold_no_pickle(folder: Path) -> None:
    compute, _ = counted()
    computed("t", "k", compute)
    with zipfile.ZipFile(entry(folder, "t", "k")) as archive:
        assert all(archive.read(name).startswith(b"\x93NUMPY") for name in archive.namelist())


# --- many at once
# ----------------------------------------------------------------------------------------------------

ASK = """
import os, time
import numpy as np
from tests.store.computed import computed
log, ready, go = os.environ["LOG"], os.environ["READY"], os.environ["GO"]
def compute():
    with open(log, "a") as file:
        file.write("computed\\n")
    time.sleep(0.5)
    return {"values": np.arange(1000)}
open(ready, "w").close()
while not os.path.exists(go):
    time.sleep(0.001)
assert computed("t", "k", compute)["values"].sum() == 499500
"""


def test_two_processes_at_once_compute_once(folder: Path, tmp_path: Path) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    ready = [tmp_path / f"ready{i}" for i in range(3)]
    asking = [run_python(ASK, folder, LOG=str(log), READY=str(path), GO=str(go)) for path in ready]
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in ready) and time.monotonic() < deadline:
        time.sleep(0.01)
    go.touch()
    for process in asking:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert log.read_text() == "computed\n"
    assert list((folder / "locks").iterdir()) == []


def test_many_threads_compute_each_key_once(folder: Path) -> None:
    calls: list[int] = []
    guard = threading.Lock()

    def ask(i: int) -> float:
        def compute() -> store.Arrays:
            with guard:
                calls.append(i % 5)
            time.sleep(0.05)
            return {"values": np.array([float(i % 5)])}

        return float(computed("t", f"k{i % 5}", compute)["values"][0])

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(60))) == [float(i % 5) for i in range(60)]
    assert sorted(calls) == [0, 1, 2, 3, 4]
    assert list((folder / "locks").iterdir()) == []


def test_a_computation_may_itself_use_the_cache(folder: Path) -> None:
    inner, _ = counted(4.0)
    outer = computed("t", "outer", lambda: {"twice": computed("t", "inner", inner)["values"] * 2})
    assert outer["twice"][0] == 8.0
    assert store.info()["files"] == 2


WRITE = """
import numpy as np
from tests.store.computed import computed
def compute():
    print("computing", flush=True)
    return {"values": np.arange(30_000_000, dtype=np.float64)}
print(computed("t", "k", compute)["values"].sum() == 30_000_000 * 29_999_999 / 2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
def test_killed_in_the_middle_of_a_write_the_next_run_is_right(folder: Path) -> None:
    process = run_python(WRITE, folder)
    deadline = time.monotonic() + 60
    size = 0
    while time.monotonic() < deadline:  # until it is in the middle of the 240 MB
        with_sizes = [
            path.stat().st_size for path in (folder / "arrays" / "t").glob(".running-*/*")
        ]
        size = max([0, *with_sizes])
        if 1_000_000 < size < 200_000_000:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert 1_000_000 < size < 200_000_000
    assert process.returncode == -signal.SIGKILL
    assert not entry(folder, "t", "k").exists()

    again = run_python(WRITE, folder)
    output, errors = again.communicate(timeout=60)
    assert (output, again.returncode) == ("computing\nTrue\n", 0), errors
    assert (
        list((folder / "arrays" / "t").glob(".running-*")) == []
    )  # the dead writer's leftover is gone
    assert list((folder / "locks").iterdir()) == []


CHURN = """
import sys, os
import numpy as np
from tests.store.computed import computed
seed = int(os.environ["SEED"])
random = np.random.default_rng(seed)
for _ in range(150):
    i = int(random.integers(12))
    values = computed("t", f"k{i}", lambda: {"values": np.full(5000, i)})["values"]
    assert values.shape == (5000,) and (values == i).all()
"""


def test_processes_that_evict_each_others_entries_stay_right(folder: Path) -> None:
    # 12 entries of 40 kB under a bound of 100 kB: nearly every write deletes what the other wants
    # to read.
    churning = [
        run_python(
            CHURN, folder, SEED=str(seed), RAGBENCH_CACHE_MAX_GB="0.0001", PYTHONWARNINGS="error"
        )
        for seed in (1, 2)
    ]
    for process in churning:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert store.info()["bytes"] <= 200_000


# --- the bound
# -------------------------------------------------------------------------------------------------------


def test_the_entry_used_longest_ago_goes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0.00013")  # 130 kB: three entries of 40 kB
    for age, key in ((30, "a"), (20, "b"), (10, "c")):
        compute, _ = counted(size=10_000)
        computed("t", key, compute)
        then = time.time() - age
        os.utime(entry(folder, "t", key), (then, then))
    compute, calls = counted(size=10_000)
    computed("t", "a", compute)  # used again: now the newest
    assert not calls
    computed("t", "d", compute)
    assert {path.stem for path in (folder / "arrays" / "t").iterdir()} == {"a", "c", "d"}


def test_an_entry_larger_than_the_bound_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, small_calls = counted(size=10)
    computed("t", "small", small)
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0.00001")  # 10 kB
    large, large_calls = counted(size=10_000)
    for _ in range(2):
        assert computed("t", "large", large)["values"].shape == (10_000,)
    assert len(large_calls) == 2
    computed("t", "small", small)
    assert len(small_calls) == 1  # it did not push out the others


def test_zero_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0")
    compute, calls = counted()
    for _ in range(2):
        computed("t", "k", compute)
    assert len(calls) == 2
    assert not folder.exists()


@pytest.mark.parametrize("text", ["ten", "-1", "nan", "inf", "10GB"])
def test_a_bound_that_is_not_a_number_is_one_clear_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", text)
    compute, calls = counted()
    with pytest.raises(
        ValueError, match=rf"RAGBENCH_CACHE_MAX_GB is '{text}'; expected a number of gigabytes"
    ):
        computed("t", "k", compute)
    assert not calls


def test_an_empty_bound_is_the_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "")
    assert store.info()["limit_bytes"] == 10_000_000_000


def test_leftovers_of_dead_writers_go_with_an_eviction(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute, _ = counted(size=10_000)
    computed("t", "a", compute)
    old, young, lock = (
        folder / "arrays/t/.running-x-1",
        folder / "arrays/t/.running-y-1",
        folder / "locks/x.lock",
    )
    for path in (old, young, lock):
        path.write_bytes(b"half")
    for path, age in ((old, 2 * 3600), (lock, 2 * 86400)):
        os.utime(path, (time.time() - age, time.time() - age))
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0.00005")
    computed("t", "b", compute)
    assert not old.exists()
    assert not lock.exists()
    assert young.exists()  # somebody may be writing it


# --- folders that cannot be used
# -------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_warns_once_and_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    compute, calls = counted(6.0)
    with pytest.warns(
        RuntimeWarning, match="set RAGBENCH_CACHE_DIR to a folder that can be written"
    ) as caught:
        found = [computed("t", key, compute)["values"][0] for key in ("a", "a", "b")]
    assert found == [6.0, 6.0, 6.0]
    assert len(caught) == 1
    assert len(calls) == 3


def test_a_fork_warns_although_its_parent_has_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    compute, _ = counted(6.0)

    def warns() -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            computed("t", "a", compute)
        return len(caught) == 1

    assert (warns(), warns()) == (True, False)
    monkeypatch.setattr(os, "getpid", lambda: 0)  # as in a fork, which has the parent's memory
    assert (warns(), warns()) == (True, False)


FULL = """
import resource, signal, warnings
import numpy as np
from tests.store.computed import computed
computed("t", "small", lambda: {"values": np.arange(10)})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for key in "ab":
        assert computed("t", key, lambda: {"values": np.arange(1_000_000)})["values"].sum() == 499999500000
assert len(caught) == 1 and "File too large" in str(caught[0].message), caught
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on the size of files is a Unix thing")
def test_a_disk_without_room_warns_once_and_computes(folder: Path) -> None:
    process = run_python(FULL, folder)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert [path.name for path in (folder / "arrays" / "t").iterdir()] == ["small.npz"]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_is_still_read(folder: Path) -> None:
    compute, calls = counted()
    computed("t", "k", compute)
    for path in (folder / "arrays" / "t", folder / "arrays", folder):
        path.chmod(0o500)
    try:
        computed("t", "k", compute)
    finally:
        for path in (folder, folder / "arrays", folder / "arrays" / "t"):
            path.chmod(0o700)
    assert len(calls) == 1


def test_the_folder_is_the_variable_and_home_is_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", "~/here")
    assert store.cache_folder() == tmp_path / "here"
    assert (tmp_path / "here").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="the place is the system's own")
def test_the_default_folder_is_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", "")
    assert store.cache_folder() == tmp_path / "ragbench"


# --- info and clear
# --------------------------------------------------------------------------------------------------


def test_info_counts_by_kind_and_clear_deletes_all(folder: Path) -> None:
    assert store.info() == {
        "folder": str(folder),
        "files": 0,
        "bytes": 0,
        "limit_bytes": 10_000_000_000,
        "kinds": {},
    }
    assert store.clear() == 0
    compute, calls = counted()
    for kind, key in (("one", "a"), ("one", "b"), ("two", "a")):
        computed(kind, key, compute)
    download = store.cache_folder() / "datasets" / "corpus.npz"
    download.parent.mkdir()
    download.write_bytes(b"not an entry")
    found = store.info()
    assert (found["files"], found["kinds"]["one"]["files"], found["kinds"]["two"]["files"]) == (
        3,
        2,
        1,
    )
    assert found["bytes"] == sum(path.stat().st_size for path in folder.glob("arrays/*/*.npz"))
    assert store.clear() == 3
    assert store.info()["files"] == 0
    assert download.exists()
    computed("one", "a", compute)
    assert len(calls) == 4
