"""Databases for the tests: a SQLite file, and real servers where they are installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

KINDS = ["sqlite", "postgresql", "mariadb"]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _program(name: str, *folders: str) -> str:
    places = [
        *os.environ["PATH"].split(":"),
        "/usr/sbin",
        *map(str, Path("/usr/lib/postgresql").glob("*/bin")),
    ]
    if found := shutil.which(name, path=":".join([*places, *folders])):
        return found
    pytest.skip(f"{name} is not installed (apt install postgresql mariadb-server)")


def _as(user: str) -> dict[str, object]:
    """Servers refuse to run as root: there they run as their own user."""
    return {"user": user, "extra_groups": []} if os.getuid() == 0 else {}


def _started(
    command: list[str], url: str, log: Path, owner: dict[str, object]
) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file, cwd="/", **owner)  # type: ignore[call-overload]
    engine = create_engine(url, poolclass=NullPool)
    for _ in range(300):
        try:
            with engine.connect():
                return server  # type: ignore[no-any-return]
        except OperationalError:
            assert server.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
    server.kill()
    raise AssertionError(log.read_text(errors="replace"))


def new_postgresql(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Callable[[], subprocess.Popen[bytes]]]:
    """Return the URL of a new PostgreSQL server, and a function that starts it, as often as it has
    ended.
    """
    folder, port = _shared(tmp_path_factory, "postgres"), _free_port()
    initdb, server = _program("initdb"), _program("postgres")
    setup = [
        initdb,
        "-D",
        str(folder / "data"),
        "-U",
        "tester",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run(setup, check=True, capture_output=True, cwd="/", **_as("postgres"))  # type: ignore[call-overload]
    command = [
        server,
        "-D",
        str(folder / "data"),
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        str(folder),
    ]
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write("fsync = off\n")
    url = f"postgresql+psycopg://tester@127.0.0.1:{port}/postgres"
    log = tmp_path_factory.mktemp("log") / "postgres.log"
    return url, lambda: _started(command, url, log, _as("postgres"))


@pytest.fixture(scope="session")
def _postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url, start = new_postgresql(tmp_path_factory)
    process = start()
    yield url
    process.send_signal(signal.SIGINT)  # fast, with clients or without
    process.wait(30)


@pytest.fixture(scope="session")
def _mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = _shared(tmp_path_factory, "mysql"), _free_port()
    install, server = _program("mariadb-install-db"), _program("mariadbd")
    setup = [
        install,
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        "--auth-root-authentication-method=normal",
    ]
    subprocess.run(setup, check=True, capture_output=True, cwd="/", **_as("mysql"))  # type: ignore[call-overload]
    command = [
        server,
        "--no-defaults",
        f"--datadir={folder / 'data'}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}",
        "--innodb-flush-log-at-trx-commit=0",
    ]
    url = f"mysql+pymysql://root@127.0.0.1:{port}/mysql"
    process = _started(command, url, tmp_path_factory.mktemp("log") / "mariadb.log", _as("mysql"))
    yield url
    process.send_signal(
        signal.SIGINT if "postgres" in url else signal.SIGTERM
    )  # fast, with clients or without
    process.wait(30)


def _shared(factory: pytest.TempPathFactory, user: str) -> Path:
    """A folder that the server's user reaches: pytest's own are closed to others."""
    import atexit
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ragbench-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if os.getuid() == 0:
        try:
            shutil.chown(folder, user)
        except LookupError:
            pytest.skip(f"there is no user {user} (apt install postgresql mariadb-server)")
    return folder


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """kind -> the URL of an empty database."""
    made = iter(range(10**6))

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / f'runs{next(made)}.sqlite'}"
        url = str(request.getfixturevalue(f"_{kind}"))
        name = f"runs_{time.time_ns()}"
        with create_engine(
            url, isolation_level="AUTOCOMMIT", poolclass=NullPool
        ).connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        return url.rpartition("/")[0].replace("mysql+pymysql", "mariadb") + f"/{name}"

    return make


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """The URL of an empty database of each kind."""
    return new_database(request.param)
