"""The dashboard: pages that are rendered here, without a script of their own."""

from __future__ import annotations

from fastapi import APIRouter

from ragbench.service.pages import data, routes, schedules

router = APIRouter()
for part in (routes, data, schedules):
    router.include_router(part.router)
