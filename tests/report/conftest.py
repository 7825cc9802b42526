"""A real browser for the pages that ragbench writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install 'ragbench-lab[browser]'"
    )
    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with playwright.sync_playwright() as run:
        try:
            browser = run.chromium.launch(executable_path=place, args=["--no-sandbox"])
        except playwright.Error as exc:
            pytest.skip(f"needs chromium: apt install chromium, or playwright install chromium ({exc.message[:80]})")
        yield browser
        browser.close()
