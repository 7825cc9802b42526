"""A server in this process with keys of two clients; its jobs run in a thread, so that they are
fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Row
from typer.testing import CliRunner

from ragbench.cli import app as command
from ragbench.service import add_key
from ragbench.service.app import create_app
from ragbench.service.job_queue import place_of
from ragbench.service.received_uploads import Uploads
from ragbench.service.workers import Queue
from ragbench.testsets import uploads

CASES = [
    {
        "id": "reset",
        "question": "How do I reset my password?",
        "expectedAnswer": "Open settings and choose reset.",
        "requiredKeywords": ["settings", "reset"],
        "expectedDocumentId": "password",
        "category": "account",
    },
    {
        "id": "invoice",
        "question": "Where are invoices?",
        "expectedAnswer": "Invoices are in billing.",
        "requiredKeywords": ["billing"],
        "expectedDocumentId": "billing",
        "category": "billing",
    },
]
DOCUMENTS = {
    "password": "To reset your password open the settings of your account and choose reset in "
    "the menu. A mail with a link confirms the new password within a few minutes of your request.",
    "billing": "Invoices are listed in billing, where each of them can be downloaded as a file "
    "for your records. Payments by bank transfer take three working days until they appear in "
    "the list of payments.",
}

Call = Callable[..., Any]


def in_this_process(claimed: Row[Any], lost: object) -> tuple[int, str, Path | None]:
    words, place = json.loads(claimed.command), None
    if words[0] == "eval":
        place = place_of(claimed)
        words += ["--output", str(place), "--force"]
    done = CliRunner().invoke(command, words)
    return done.exit_code, done.output or repr(done.exception), place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "runs.sqlite")


@pytest.fixture
def keys(database: str) -> dict[str, str]:
    made = {
        f"acme {role}": add_key(role, client="acme", role=role, database=database)
        for role in ("reader", "runner", "admin")
    }
    made["other"] = add_key("other", client="other", role="admin", database=database)
    made["*"] = add_key("all", client="*", role="admin", database=database)
    return made


@pytest.fixture
def client(root: Path, database: str) -> Iterator[TestClient]:
    queue = Queue(database, work=in_this_process)
    with TestClient(create_app(root, database, queue=queue)) as client:
        yield client


@pytest.fixture
def call(client: TestClient, keys: dict[str, str]) -> Call:
    """A request with a key, by default the runner of acme; what is answered, whose status is
    checked.
    """

    def request(
        method: str,
        path: str,
        body: Any = None,
        *,
        status: int = 200,
        key: str = "acme runner",
        **rest: Any,
    ) -> Any:
        headers = {"X-API-Key": keys[key], **rest.pop("headers", {})}
        answer = client.request(method, path, json=body, headers=headers, **rest)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    return request


async def save_in_this_process(self: Uploads, path: Path, content: bytes, form: str) -> None:
    """As `Uploads.save`, without the process, whose limits would hide what the reader does."""
    lines = uploads.lines_of_upload(content, form, path.stem)
    path.write_text(lines, encoding="utf-8")


@pytest.fixture
def filled(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """As `call`; acme has documents and the data set `support`."""
    monkeypatch.setattr(Uploads, "save", save_in_this_process)
    for doc_id, text in DOCUMENTS.items():
        call("POST", "/ingest", {"documentId": doc_id, "text": text}, status=201)
    call("POST", "/api/v1/datasets?name=support", CASES, status=201)
    return call
