"""Keys for the server: found by themselves only, until they are removed, and never stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.service import add_key, api_keys, remove_key
from ragbench.service.history_database import connected, timestamp, write
from ragbench.service.keys import SESSION, find_key, find_session, open_session
from ragbench.service.tables import api_key, session


def test_a_key_is_found_until_it_is_removed(database: str) -> None:
    key = add_key("ci", client="acme", role="runner", database=database)
    other = add_key("ci", client="bolt", database=database)
    found = find_key(key, database=database)
    assert found is not None
    assert (found.name, found.client_id, found.role) == ("ci", "acme", "runner")
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    for no_key in (
        "",
        "rb",
        "rb__",
        "é_ü_",
        "rb_\0_",
        wrong,
        key[:-1],
        key + "x",
        key.upper(),
        other[:16] + key[16:],
    ):
        assert find_key(no_key, database=database) is None
    assert api_keys(database=database).query("client_id == 'acme'")["name"].tolist() == ["ci"]
    with connected(database) as connection:
        stored = str(connection.execute(select(api_key)).all())
    assert key not in stored
    assert key.split("_", 2)[2] not in stored
    with pytest.raises(ConfigError, match=r"'ci' is 2 keys; .*of client 'acme'"):
        remove_key("ci", database=database)
    remove_key("ci", client="acme", database=database)
    assert find_key(key, database=database) is None


def test_a_session_is_over_after_twelve_silent_hours(database: str) -> None:
    assert timedelta(hours=12) == SESSION
    token = open_session("the key", database=database)
    for silent, found in ((timedelta(hours=11, minutes=50), "the key"), (SESSION, "")):
        used_at = timestamp(datetime.now(UTC) - silent - timedelta(seconds=5))
        write(database, update(session).values(used_at=used_at))
        assert find_session(token, database=database) == found


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))

    def printed(*arguments: str, status: int = 0) -> str:
        ended = CliRunner().invoke(app, ["key", *arguments])
        assert ended.exit_code == status, ended.output
        return ended.output

    assert "there is no key yet" in printed("remove", "ci", status=2)
    key = printed("add", "ci", "--client", "acme", "--role", "admin").split()[0]
    assert "client 'acme' already has a key 'ci'" in printed(
        "add", "ci", "--client", "acme", status=2
    )
    assert "unknown role 'amdin'; did you mean 'admin'?" in printed(
        "add", "x", "--role", "amdin", status=2
    )
    listed = printed("list")
    assert "acme" in listed
    assert key.split("_", 2)[2] not in listed
    assert "unknown key 'ic'. Known: ci" in printed("remove", "ic", status=2)
    printed("remove", "ci")
    assert find_key(key) is None
