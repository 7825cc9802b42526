"""The data sets of clients in the database: numbers, pairs, and who made them."""

from datetime import UTC, datetime
from pathlib import Path

from ragbench.service.access import Session
from ragbench.service.folders import clients_in, described, load
from ragbench.service.history_database import Json, connected, timestamp
from ragbench.service.records import number_of_dataset, pairs_of


def dataset_row(session: Session, path: Path, *, created_by: str = "a file on the server") -> Json:
    """Return a data set with its number, and record its pairs of question and answer.

    `created_by` is who made it, where it is not recorded yet.
    """
    data, created = load(path), described(path)["created_at"]
    with connected(session.database, write=True) as connection:
        number = number_of_dataset(
            connection,
            session.owner,
            data.name,
            created_at=timestamp(datetime.fromisoformat(created)),
            created_by=created_by,
            pairs=pairs_of(data.cases),
            is_read=True,
        )
    about = {"client_id": session.owner, "qa_count": len(data.cases), "created_at": created}
    return {"dataset_id": number, "name": data.name, **about}


def dataset_rows(session: Session) -> list[Json]:
    """Return the data sets of a client, or of every client for a session that names none."""
    clients = clients_in(session.root) if session.client is None else [session.client]
    return [
        dataset_row(owner, path)
        for owner in map(session.of, clients)
        for path in owner.folder.testsets().values()
    ]


def iso_time(value: str | datetime) -> str:
    """Return a time of the views, which is a text in SQLite, as ISO 8601 in UTC."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return timestamp(at if at.tzinfo else at.replace(tzinfo=UTC))
