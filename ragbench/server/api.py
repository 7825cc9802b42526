"""/api/v1: data sets and their cases, runs and jobs, metrics over time, schedules, alerts and keys."""

from __future__ import annotations

from fastapi import APIRouter, Request
from sqlalchemy import text

from ragbench.evaluation import own_version
from ragbench.history.database import connected

router = APIRouter(prefix="/api/v1")


@router.get("/health", tags=["health"])
def health(request: Request) -> dict[str, str]:
    """Whether the server and its database work; needs no key."""
    with connected(request.app.state.database) as connection:
        connection.execute(text("SELECT 1"))
    return {"status": "ok", "version": own_version()}
