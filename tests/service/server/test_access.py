"""Keys, roles, limits and headers."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from ragbench.cli import app as command
from ragbench.service.access import Session, needs
from ragbench.service.app import create_app


@pytest.fixture
def client(root: Path, database: str) -> TestClient:
    app = create_app(root, database, admin_key="one-time", max_body=1000)

    @app.get("/who")
    def who(session: Annotated[Session, needs("reader")]) -> str:
        return f"{session.key.client_id} {session.key.role}"

    @app.post("/change")
    def change(session: Annotated[Session, needs("runner")]) -> str:
        return "changed"

    return TestClient(app)


def test_a_key_is_taken_from_either_header(client: TestClient, keys: dict[str, str]) -> None:
    for headers in (
        {"X-API-Key": keys["acme reader"]},
        {"Authorization": f"Bearer {keys['acme reader']}"},
    ):
        assert client.get("/who", headers=headers).json() == "acme reader"
    assert client.get("/who", headers={"X-API-Key": "one-time"}).json() == "* admin"
    for wrong in (
        {},
        {"X-API-Key": "x"},
        {"X-API-Key": keys["*"][:-1] + "é"},
        {"Authorization": "Basic abc"},
    ):
        answer = client.get(
            "/who", headers={name.encode(): value.encode() for name, value in wrong.items()}
        )
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_reader_changes_nothing(client: TestClient, keys: dict[str, str]) -> None:
    assert client.post("/change", headers={"X-API-Key": keys["acme reader"]}).status_code == 403
    assert client.post("/change", headers={"X-API-Key": keys["acme runner"]}).json() == "changed"


def test_a_browser_sends_the_key_as_a_password_and_no_form_of_another_site(
    client: TestClient, keys: dict[str, str]
) -> None:
    client.auth = ("any name", keys["acme runner"])
    assert client.get("/who").json() == "acme runner"
    for origin in ("https://evil.example", "null", ""):
        assert client.post("/change", headers={"Origin": origin}).status_code == 403
    assert client.post("/change").status_code == 403
    same = {"Origin": str(client.base_url)}
    assert client.post("/change", headers=same).json() == "changed"


def test_long_bodies_are_refused_also_without_a_length(client: TestClient) -> None:
    assert client.post("/change", content=b"x" * 1001).status_code == 413
    assert (
        client.post(
            "/change", content=iter([b"x" * 600]), headers={"X-API-Key": "one-time"}
        ).status_code
        == 411
    )


def test_every_answer_has_the_headers_and_health_needs_no_key(client: TestClient) -> None:
    for path, status in (("/api/v1/health", 200), ("/who", 401), ("/nowhere", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
    assert client.get("/api/v1/health").json()["status"] == "ok"


def test_without_a_key_only_loopback_is_served(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command,
        [
            "serve",
            "--host",
            "0.0.0.0",
            "--root",
            str(tmp_path),
            "--database",
            str(tmp_path / "runs.sqlite"),
        ],
    )
    assert done.exit_code == 2
    assert "ragbench key add" in done.output


def test_a_port_in_use_is_one_sentence_and_no_key_is_shown(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(
            command,
            [
                "serve",
                "--port",
                port,
                "--root",
                str(tmp_path),
                "--database",
                str(tmp_path / "runs.sqlite"),
            ],
        )
    assert done.exit_code == 2
    assert f"cannot listen at 127.0.0.1:{port}" in done.output
    assert "Admin key" not in done.output
