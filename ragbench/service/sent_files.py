"""Writes test-cases.jsonl and corpus.jsonl, the files in which commands get the cases and documents
of `sent_items`.
"""

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, select

from ragbench.datasets.jsonl import json_line
from ragbench.files import locked, write_durably
from ragbench.service.tables import item

CASE, DOCUMENT = "case", "document"
CASES = "test-cases"
"""The data set of the cases that were sent one by one."""


def write_sent(connection: Connection, client: str, folder: Path) -> None:
    """Write test-cases.jsonl and corpus.jsonl in a client's folder `sent/`, from the records in the
    database.

    A file that has this content already is not written.

    A file without records is removed.
    """
    head = json_line({"testset": CASES, "split": "test"})
    for kind, name, first_line in ((CASE, CASES, head), (DOCUMENT, "corpus", "")):
        path = folder / f"{name}.jsonl"
        with locked(folder / ".lock", timeout_s=60):
            query = select(item.c.record).where(item.c.client_id == client, item.c.kind == kind)
            lines = connection.execute(query.order_by(item.c.number)).scalars().all()
            text = "".join([first_line, *lines])
            if not lines:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                write_durably(path, text)


def clients_with_documents(
    connection: Connection, root: Path, folders: Mapping[str, Path]
) -> dict[str, Path]:
    """Return client -> folder, for clients who sent documents or have a folder `documents/`.

    Sent documents are in the database; here they are also written to files. `folders` are the folders
    of clients. The client "" is added: its folder is `root`.
    """
    with_documents = {}
    for client, folder in {"": root, **folders}.items():
        if (folder / "documents").is_dir():
            with_documents[client] = folder
    senders = select(item.c.client_id).where(item.c.kind == DOCUMENT).distinct()
    for client in connection.execute(senders).scalars().all():
        folder = root / "clients" / client if client else root
        (folder / "sent").mkdir(parents=True, exist_ok=True)
        write_sent(connection, client, folder / "sent")
        with_documents[client] = folder
    return with_documents
