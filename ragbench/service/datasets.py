"""The data sets of clients in the database: numbers, pairs, age, and who made them."""

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select, update

from ragbench.service.access import Session
from ragbench.service.folders import CASES, clients_in, described, load
from ragbench.service.history_database import Json, connected, read_rows, timestamp
from ragbench.service.recording import pairs_of, record_dataset
from ragbench.service.tables import dataset


def dataset_row(session: Session, path: Path, *, created_by: str = "") -> Json:
    """Return a data set as a row of the list of data sets, and record its questions and answers.

    Args:
        path: its file or folder.
        created_by: the name of the key that made it; "" keeps the recorded one or, if there is none,
            records where the data set was found.
    """
    place = "/evaluation/test-cases" if path.stem == CASES else "a file on the server"
    data = load(path)
    created = described(path)["created_at"]
    with connected(session.database, write=True) as connection:
        number = record_dataset(
            connection,
            session.owner,
            data.name,
            created_at=timestamp(datetime.fromisoformat(created)),
            created_by=created_by or place,
            pairs=pairs_of(data.cases),
            is_read=True,
        )
        if created_by:
            is_this = dataset.c.id == number
            connection.execute(update(dataset).where(is_this).values(created_by=created_by))
    return {
        "dataset_id": number,
        "name": data.name,
        "client_id": session.owner,
        "qa_count": len(data.cases),
        "created_at": created,
    }


def dataset_rows(session: Session) -> list[Json]:
    """Return the data sets of a client, or of every client for a session that names none."""
    clients = clients_in(session.root) if session.client is None else [session.client]
    rows = []
    for client in clients:
        owner = session.of(client)
        for path in owner.folder.testsets().values():
            rows.append(dataset_row(owner, path))
    return rows


def listed(session: Session) -> list[Json]:
    """Return `dataset_rows`, the newest first, each with its age in `days` and who made it
    (`created_by`).
    """
    rows = dataset_rows(session)
    query = select(dataset.c.id, dataset.c.created_by)
    created_by = {row.id: row.created_by for row in read_rows(session.database, query)}
    now = datetime.now(UTC)
    for row in rows:
        age = now - datetime.fromisoformat(row["created_at"])
        row["days"] = age.days
        row["created_by"] = created_by.get(row["dataset_id"], "")
    return sorted(rows, key=lambda row: str(row["created_at"]), reverse=True)


def iso_time(value: str | datetime) -> str:
    """Return a time of the views, which is a text in SQLite, as ISO 8601 in UTC."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return timestamp(at if at.tzinfo else at.replace(tzinfo=UTC))
