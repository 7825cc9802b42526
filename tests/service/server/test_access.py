"""Keys, roles, limits and headers."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from starlette.types import Message
from typer.testing import CliRunner

from ragbench.cli import app as command
from ragbench.service import history_database, remove_key
from ragbench.service.access import COOKIE, Session, caller_of, needs
from ragbench.service.app import create_app
from ragbench.service.history_database import read_rows, timestamp, write
from ragbench.service.tables import session


@pytest.fixture
def client(root: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr("ragbench.service.app.MAX_BODY", 100_000)
    app = create_app(root, database, admin_key="one-time")

    @app.get("/who")
    def who(session: Annotated[Session, needs("reader")]) -> str:
        return f"{session.key.client_id} {session.key.role}"

    @app.post("/change")
    def change(session: Annotated[Session, needs("runner")]) -> str:
        return "changed"

    @app.get("/client")
    def client_of(session: Annotated[Session, needs("reader")]) -> str | None:
        return session.client

    @app.post("/rule")
    def rule(session: Annotated[Session, needs("admin")]) -> str:
        return "ruled"

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


def test_a_role_opens_what_lower_roles_do_not(client: TestClient, keys: dict[str, str]) -> None:
    statuses = {}
    for role in ("reader", "runner", "admin"):
        headers = {"X-API-Key": keys[f"acme {role}"]}
        answers = [client.post(path, headers=headers) for path in ("/change", "/rule")]
        statuses[role] = [answer.status_code for answer in answers]
    assert statuses == {"reader": [403, 403], "runner": [200, 403], "admin": [200, 200]}


def test_whose_data_a_key_opens(client: TestClient, keys: dict[str, str]) -> None:
    """A key of every client begins a new client by writing, and reads none that is misspelt."""
    own, every = ({"X-API-Key": key} for key in (keys["acme admin"], "one-time"))
    for path in ("/client", "/client?client_id=acme"):
        assert client.get(path, headers=own).json() == "acme"
    assert client.get("/client?client_id=acm", headers=own).status_code == 404
    assert client.post("/rule?client_id=acm", headers=own).status_code == 404
    assert client.get("/client", headers=every).json() is None
    assert client.get("/client?client_id=acme", headers=every).json() == "acme"
    assert client.get("/client?client_id=acm", headers=every).status_code == 404
    assert client.post("/rule?client_id=acm", headers=every).json() == "ruled"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_method_that_changes_something_comes_from_another_site(
    client: TestClient, keys: dict[str, str], method: str
) -> None:
    log_in(client, keys["acme admin"])
    headers = {"Origin": "https://evil.example"}
    assert client.request(method, "/change", headers=headers).status_code == 403
    # a key that opens nothing is not replaced by the session
    headers = {"Origin": str(client.base_url), "X-API-Key": "x"}
    assert client.request(method, "/change", headers=headers).status_code in (401, 405)
    assert client.get("/who", headers={"X-API-Key": "x"}).status_code == 401


def log_in(client: TestClient, key: str) -> str:
    origin = {"Origin": str(client.base_url)}
    answer = client.post("/login", data={"key": key}, headers=origin, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return answer.headers["set-cookie"]


def test_a_browser_logs_in_and_no_form_of_another_site_is_taken(
    client: TestClient, keys: dict[str, str]
) -> None:
    assert client.post("/login", data={"key": keys["acme runner"]}).status_code == 403
    log_in(client, keys["acme runner"])
    assert client.get("/who").json() == "acme runner"
    for origin in ("https://evil.example", "null", ""):
        assert client.post("/change", headers={"Origin": origin}).status_code == 403
    assert client.post("/change").status_code == 403
    same = {"Origin": str(client.base_url)}
    assert client.post("/change", headers=same).json() == "changed"


def test_long_bodies_are_refused_also_without_a_length(client: TestClient) -> None:
    assert client.post("/change", content=b"x" * 1001).status_code == 413  # with no key, too
    assert (
        client.post(
            "/change", content=iter([b"x" * 600]), headers={"X-API-Key": "one-time"}
        ).status_code
        == 411
    )


def test_a_session_is_no_key_is_stored_hashed_and_ends(
    client: TestClient, keys: dict[str, str], database: str
) -> None:
    cookie = log_in(client, keys["acme runner"])
    assert keys["acme runner"] not in cookie
    for part in ("HttpOnly", "SameSite=strict", "Max-Age=43200"):
        assert part in cookie
    token = client.cookies[COOKIE]
    [row] = read_rows(database, select(session))
    assert token not in str(row)

    def silent_for(hours: float) -> int:
        used_at = timestamp(datetime.now(UTC) - timedelta(hours=hours))
        write(database, update(session).values(used_at=used_at))
        return client.get("/who").status_code

    assert (silent_for(11.9), silent_for(12.1)) == (200, 401)
    assert (silent_for(11.9), client.get("/who").status_code) == (200, 200)
    assert read_rows(database, select(session))[0].used_at > timestamp(
        datetime.now(UTC) - timedelta(hours=1)
    )
    client.post("/logout", headers={"Origin": str(client.base_url)})
    assert not read_rows(database, select(session))
    assert client.get("/who", headers={"Cookie": f"{COOKIE}={token}"}).status_code == 401


def test_a_session_ends_with_its_key(
    client: TestClient, keys: dict[str, str], database: str
) -> None:
    log_in(client, keys["acme runner"])
    assert client.get("/who").status_code == 200
    remove_key("runner", client="acme", database=database)
    assert client.get("/who").status_code == 401
    log_in(client, "one-time")
    assert client.get("/who").json() == "* admin"


def test_a_key_is_asked_for_before_a_byte_of_the_body_is_read(root: Path, database: str) -> None:
    app = create_app(root, database)
    sent: list[Message] = []

    async def no_body() -> Message:
        raise AssertionError("the body was read")

    async def send(message: Message) -> None:
        sent.append(message)

    for path in ("/ingest", "/api/v1/datasets", "/schedules/run", "/evaluation/run"):
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "scheme": "http",
            "headers": [(b"content-length", b"9000"), (b"host", b"x")],
            "client": ("127.0.0.1", 1),
        }
        anyio.run(app, scope, no_body, send)
        assert sent.pop(0)["status"] == 401
        sent.clear()


def test_an_address_without_a_key_has_fewer_requests_than_a_key(
    root: Path, database: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.app.MAX_RATE", 40)
    client = TestClient(create_app(root, database))
    statuses = [client.get("/api/v1/health").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    key = {"X-API-Key": keys["acme reader"]}
    answers = [client.get("/api/v1/health", headers=key) for _ in range(41)]
    assert {answer.status_code for answer in answers[:40]} == {200}
    assert (answers[40].status_code, answers[40].headers["retry-after"]) == (429, "60")
    assert "more than 40 requests" in answers[40].text


@pytest.mark.parametrize("kind", ["X-API-Key", "Authorization", "Cookie"])
def test_an_address_is_counted_before_its_keys_and_cookies_are_looked_up(
    root: Path,
    database: str,
    keys: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    monkeypatch.setattr("ragbench.service.app.MAX_RATE", 200)
    client = TestClient(create_app(root, database))
    good = {"X-API-Key": keys["acme reader"]}
    assert client.get("/api/v1/datasets", headers=good).status_code == 200
    asked, real = list[str](), history_database.connected

    def connected(database: str, **options: bool) -> Any:
        asked.append("write" if options.get("write") else "read")
        return real(database, **options)

    monkeypatch.setattr(history_database, "connected", connected)
    values = {
        "X-API-Key": f"rb_{'0' * 12}_{'x' * 43}",
        "Authorization": f"Bearer rb_{'0' * 12}_{'x' * 43}",
        "Cookie": f"{COOKIE}={'x' * 43}",
    }
    headers = {kind: values[kind]}
    statuses = [client.get("/api/v1/datasets", headers=headers).status_code for _ in range(50)]
    assert statuses == [401] * 10 + [429] * 40
    assert asked == ["read"] * 10, "what opens nothing writes nothing"
    assert client.get("/api/v1/datasets", headers=good).status_code == 200, "it was known before"


def test_no_cookie_of_a_request_is_unquoted(
    client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 kB of backslashes take Python before 3.11.10 two seconds of processor time."""
    log_in(client, keys["acme runner"])
    token = client.cookies[COOKIE]
    client.cookies.clear()

    def unquoted(text: str) -> str:
        assert not text.startswith('"')
        return text

    monkeypatch.setattr("http.cookies._unquote", unquoted)
    quoted = '"' + "\\" * 100 + '"'
    for path in ("/who", "/", "/api/v1/health", "/api/v1/datasets"):
        for name in (COOKIE, f" {COOKIE} ", "other", ""):
            for space in ("", " "):
                answer = client.get(path, headers={"Cookie": f"{name}={space}{quoted}"})
                assert answer.status_code in (200, 401, 404)
                both = f"{name}={space}{quoted}; {COOKIE}={token}; a=b"
                assert client.get("/who", headers={"Cookie": both}).status_code == 200


@pytest.mark.parametrize(
    ("addresses", "n_callers"),
    [
        (["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2:3:4:5:6"], 1),
        (["2001:db8:1:2::1", "2001:db8:1:3::1"], 2),
        (["fe80::1%eth0", "fe80::2%eth1"], 1),
        (["::ffff:203.0.113.1", "203.0.113.1"], 1),
        (["203.0.113.1", "203.0.113.2", "::1"], 3),
        (["", "testclient", "[::1", "203.0.113.1:x"], 4),
    ],
)
def test_a_caller_has_one_count_for_all_of_its_addresses(
    addresses: list[str], n_callers: int
) -> None:
    requests = [Request({"type": "http", "client": (address, 1)}) for address in addresses]
    assert len({*map(caller_of, requests)}) == n_callers


def test_a_removed_key_is_looked_up_as_rarely_as_one_that_opens_nothing(
    root: Path, database: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.app.MAX_RATE", 200)
    client = TestClient(create_app(root, database))
    headers = {"X-API-Key": keys["acme reader"]}
    assert client.get("/api/v1/datasets", headers=headers).status_code == 200
    remove_key("reader", client="acme", database=database)
    asked, real = list[str](), history_database.connected

    def connected(database: str, **options: bool) -> Any:
        asked.append("read")
        return real(database, **options)

    monkeypatch.setattr(history_database, "connected", connected)
    statuses = [client.get("/api/v1/datasets", headers=headers).status_code for _ in range(20)]
    assert statuses == [401] * 10 + [429] * 10
    assert len(asked) == 11, "once as a known key, then ten times as an unknown one"


def test_counts_begin_again_after_a_minute(
    root: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("ragbench.service.app.MAX_RATE", 40)
    monkeypatch.setattr("ragbench.service.app.time", SimpleNamespace(monotonic=lambda: clock[0]))
    client = TestClient(create_app(root, database))

    def statuses(key: str) -> list[int]:
        headers = {"X-API-Key": key} if key else {}
        return [client.get("/api/v1/datasets", headers=headers).status_code for _ in range(3)]

    for key in ("", "x"):
        assert statuses(key) == [401, 401, 429]
        clock[0] += 59
        assert statuses(key) == [429] * 3
        clock[0] += 2
        assert statuses(key) == [401, 401, 429]
        clock[0] += 61


def test_the_use_of_a_session_is_written_once_a_minute(
    client: TestClient, keys: dict[str, str], database: str
) -> None:
    log_in(client, keys["acme runner"])

    def after(minutes: float) -> str:
        used_at = timestamp(datetime.now(UTC) - timedelta(minutes=minutes))
        write(database, update(session).values(used_at=used_at))
        assert client.get("/who").status_code == 200
        [row] = read_rows(database, select(session))
        return "kept" if row.used_at == used_at else "now"

    assert [after(0.5), after(2), after(-600)] == ["kept", "now", "now"]


def test_no_number_and_no_header_is_an_error_of_the_server(
    client: TestClient, keys: dict[str, str]
) -> None:
    document = client.get("/api/v1/openapi.json").json()
    numbers = ["9" * 20, "9" * 400, "-1", "1e30", "NaN", "٣", "", "0x10", "1" * 5000]
    n_sent = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                schema = str(parameter["schema"])
                if parameter["in"] != "query" or "integer" not in schema:
                    continue
                for number in numbers:
                    answer = client.request(
                        method,
                        path,
                        params={parameter["name"]: number},
                        headers={"X-API-Key": keys["acme admin"]},
                    )
                    assert answer.status_code == 422, (method, path, parameter["name"], number)
                    n_sent += 1
    assert n_sent > 50
    hosts = [
        "http://[::1",
        "http://[",
        "null",
        "http://a:99999999",
        "//[::1]]",
        "\x80",
        "http://[v1.x]",
    ]
    for name in (
        "Origin",
        "Host",
        "Referer",
        "Cookie",
        "X-API-Key",
        "Authorization",
        "Content-Length",
    ):
        for value in (*hosts, "Bearer [", f"{COOKIE}=[", f"{COOKIE}={'x' * 43}", "9" * 5000):
            for method, path in (("GET", "/"), ("POST", "/login"), ("POST", "/ingest")):
                headers = [(name.encode(), value.encode("latin-1"))]
                answer = client.request(method, path, headers=headers)
                assert answer.status_code < 500, (method, path, name, value)


def test_half_a_surrogate_pair_is_refused_in_every_field(
    client: TestClient, keys: dict[str, str]
) -> None:
    document = client.get("/api/v1/openapi.json").json()
    headers = {"X-API-Key": keys["acme admin"], "Content-Type": "application/json"}
    n_sent = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            fields = document["components"]["schemas"].get(name.rpartition("/")[2], {})
            for field in fields.get("properties", ()):
                for half in ("\ud800", "a\udfffb"):
                    for value in (half, [half], {half: 1}):
                        body = {"id": "q1", "question": "Why?", field: value}
                        place = path.replace("{case_id}", "q1")
                        client.post(
                            "/evaluation/test-cases",
                            content='{"id": "q1", "question": "Why?"}',
                            headers=headers,
                        )
                        answer = client.request(
                            method, place, content=json.dumps(body), headers=headers
                        )
                        assert answer.status_code == 422, (method, path, field, value, answer.text)
                        n_sent += 1
    assert n_sent > 200


def test_no_form_of_a_page_names_the_codec_that_reads_it(client: TestClient) -> None:
    """Some codecs raise errors of their own, such as `undefined`, whatever the text is."""
    part = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nxn--%s\r\n--x--\r\n'
    for codec in ("undefined", "idna", "\x00", "utf-7", "raw_unicode_escape", "punycode", "bz2"):
        for body in (part % (b"a" * 100), b"key=%ED%A0%80&key=%00", b"key=+2AA-"):
            for kind in ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
                content_type = f"{kind}; charset={codec}".encode()
                headers = {b"Content-Type": content_type, b"Origin": b"http://testserver"}
                answer = client.post("/login", content=body, headers=headers)
                assert answer.status_code == 401, (codec, body, kind)


def test_a_body_has_a_size_by_its_route(
    root: Path, database: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.app.MAX_BODY", 100_000)
    client = TestClient(create_app(root, database))
    client.headers["X-API-Key"] = keys["acme runner"]
    document = {"documentId": "d", "text": "x" * 9_900}
    assert client.post("/ingest", json=document).status_code == 201
    assert client.post("/ingest", json={**document, "text": "x" * 10_000}).status_code == 413
    case = {"question": "x" * 1_000}
    assert client.post("/evaluation/test-cases", json=case).status_code == 413
    huge = client.post("/ingest", content=b"", headers={"Content-Length": str(2_000_000_000)})
    assert huge.status_code == 413


def test_a_body_has_a_depth(root: Path, database: str, keys: dict[str, str]) -> None:
    client = TestClient(create_app(root, database))
    client.headers["X-API-Key"] = keys["acme runner"]
    for text in ("[" * 40_000 + "]" * 40_000, '{"text":' * 9_000 + "1" + "}" * 9_000):
        for path in ("/ingest", "/evaluation/test-cases", "/api/v1/datasets?name=deep"):
            answer = client.post(path, content=text, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 422)
            assert len(answer.text) < 1000


HALF = "\\ud800"
"""Half of a surrogate pair, as JSON escapes it."""


@pytest.mark.parametrize(
    "text",
    [
        f'{{"documentId": "{HALF}", "text": "secret"}}',
        f'{{"documentId": "d", "text": "secret {HALF}"}}',
        f'{{"documentId": "d", "{HALF}": "secret"}}',
        '{"documentId": 1e400, "text": "secret"}',
        '{"documentId": NaN, "text": "secret"}',
        '{"documentId": "d", "text": ["secret", NaN, -Infinity]}',
        '"secret',
    ],
)
def test_what_cannot_be_used_is_one_sentence_without_the_values_that_were_sent(
    root: Path, database: str, keys: dict[str, str], text: str
) -> None:
    client = TestClient(create_app(root, database))
    client.headers.update({"X-API-Key": keys["acme runner"], "Content-Type": "application/json"})
    for path in ("/ingest", "/evaluation/test-cases", "/evaluation/run", "/api/v1/runs"):
        answer = client.post(path, content=text)
        assert (answer.status_code, type(answer.json()["detail"])) == (422, str), answer.text
        assert "secret" not in answer.text
    case = f'[{{"question": "Why?", "metadata": {text.replace("documentId", "about")}}}]'
    answer = client.post("/api/v1/datasets?name=odd", content=case)
    assert (answer.status_code, type(answer.json()["detail"])) == (422, str), answer.text


def test_numbers_that_are_none_start_no_run(
    root: Path, database: str, keys: dict[str, str]
) -> None:
    client = TestClient(create_app(root, database))
    client.headers.update({"X-API-Key": keys["acme runner"], "Content-Type": "application/json"})
    for field in ('"targets": {"nDCG@5": NaN}', '"weights": {"a": 1e400}', '"max_cost": Infinity'):
        answer = client.post("/api/v1/runs", content=f'{{"dataset": "support", {field}}}')
        assert answer.status_code == 422, answer.text
        assert "finite" in answer.json()["detail"]


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
