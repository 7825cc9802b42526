"""The cases and documents that clients send one by one: rows that are added, changed and removed,
and how many are kept.
"""

from collections.abc import Callable
from typing import Any

from fastapi import HTTPException
from sqlalchemy import and_, delete, func, select, update

from ragbench.service.access import Session
from ragbench.service.history_database import add_once, connected, content_id, read_rows, write
from ragbench.service.sent_files import CASE as CASE
from ragbench.service.sent_files import DOCUMENT as DOCUMENT
from ragbench.service.sent_files import write_sent
from ragbench.service.tables import item

MAX_ITEMS = 100_000
"""Cases, and documents, that are kept of each client."""


def lines(session: Session, kind: str, item_id: str = "", limit: int | None = None) -> list[str]:
    """Return the records of a client in the order in which they came, or the one of this id."""
    query = select(item.c.record).where(_is_item(session, kind, item_id))
    query = query.order_by(item.c.number).limit(limit)
    return [row.record for row in read_rows(session.database, query)]


def add(session: Session, kind: str, item_id: str, record: str) -> bool:
    """Add a record of a kind (a test case or a document); return False if its id is there already.

    Raises:
        HTTPException: 429, the client has as many as the server keeps for it.
    """
    row = {
        "id": content_id(kind, session.owner, item_id),
        "client_id": session.owner,
        "kind": kind,
        "record": record,
    }
    count = select(func.count()).select_from(item).where(_is_item(session, kind))
    with connected(session.database, write=True) as connection:
        if not add_once(connection, item, row):
            return False
        if connection.execute(count).scalar_one() > MAX_ITEMS:  # this undoes the transaction
            raise HTTPException(429, f"a client may have {MAX_ITEMS} {kind}s")
    return True


def change(session: Session, kind: str, item_id: str, new: Callable[[str], str]) -> str:
    """Replace a record by `new(record)`, and return the new one; 404 without such a record. No other
    request changes the record in between.

    Args:
        kind: a test case or a document.
        item_id: the id of the record.
        new: returns the new record for the present one.
    """
    is_item = _is_item(session, kind, item_id)
    with connected(session.database, write=True) as connection:
        query = select(item.c.record).where(is_item).with_for_update()
        record = connection.execute(query).scalar()
        if record is None:
            raise HTTPException(404, f"there is no such {kind}")
        changed = new(record)
        connection.execute(update(item).where(is_item).values(record=changed))
    return changed


def remove(session: Session, kind: str, item_id: str = "") -> int:
    """Remove a record, or all of a client; return how many there were."""
    return write(session.database, delete(item).where(_is_item(session, kind, item_id)))


def export(session: Session) -> None:
    """Write the files of a client with the present records, unless they hold these already."""
    with connected(session.database) as connection:
        write_sent(connection, session.owner, session.folder.sent)


def _is_item(session: Session, kind: str, item_id: str = "") -> Any:
    """Return a condition of SQL for an item of a client; with the id "" for all items of this kind."""
    if item_id:
        return item.c.id == content_id(kind, session.owner, item_id)
    return and_(item.c.client_id == session.owner, item.c.kind == kind)
