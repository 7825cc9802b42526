"""The dashboard: pages that are rendered here, without a script of their own."""

from __future__ import annotations

from ragbench.server.pages.routes import router

__all__ = ["router"]
