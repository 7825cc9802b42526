"""The pages in a real browser: the main flows by mouse and keyboard, and hostile texts that stay
texts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvicorn

from ragbench.service import record
from ragbench.service.app import create_app
from tests.service.server.test_pages import add_set, hostile_run, runs_of, series_page
from tests.service.test_history import nights

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def address(root: Path, database: str) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(create_app(root, database), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def visitor(
    browser: Browser, address: str, keys: dict[str, str]
) -> Iterator[tuple[Page, list[str]]]:
    """A page of someone who has logged in, on a phone; and what the browser complained about or
    what a text ran.
    """
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        color_scheme="dark",
        base_url=address,
    )
    page, complaints = context.new_page(), list[str]()

    def note(text: str, *, wrong: bool = True) -> None:
        complaints.extend([text] if wrong else [])

    page.on("console", lambda message: note(message.text, wrong=message.type == "error"))
    page.on("pageerror", lambda error: note(str(error)))
    page.on("dialog", lambda dialog: note(dialog.message))
    page.on("request", lambda one: note(one.url, wrong=not one.url.startswith((address, "data:"))))
    page.goto("/")
    page.fill("input[name=key]", keys["acme admin"])
    page.click("main button")
    page.wait_for_selector("nav")
    complaints.clear()  # the browser reports the 401 that asked for the key
    yield page, complaints
    context.close()


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_from_the_runs_to_a_series_a_run_and_a_comparison(
    visitor: tuple[Page, list[str]], database: str, root: Path
) -> None:
    page, complaints = visitor
    record(nights(42, 0.2, 34), client="acme", database=database)
    page.goto("/")
    assert page.locator(".conclusion").inner_text().startswith("1 of 1 got worse.")
    assert fits(page)
    page.click("td.name a")
    assert page.locator("h1").inner_text() == "nightly"
    assert page.locator("svg.chart").count() >= 1
    assert fits(page)
    page.click("table a >> nth=0")
    assert "/runs/" in page.url
    page.click("text=compare with the run before")
    assert page.locator(".conclusion").is_visible()
    page.select_option("select[name=a]", runs_of(database)[-1])
    page.click("button:text-is('Compare')")
    assert page.locator(".conclusion").inner_text().startswith("No decision: ")
    assert fits(page)
    page.emulate_media(media="print")
    assert page.locator("nav:visible, form:visible").count() == 0
    assert (
        page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
    )  # of the light colours
    assert complaints == []


def test_hostile_texts_run_nowhere(
    visitor: tuple[Page, list[str]], database: str, root: Path
) -> None:
    page, complaints = visitor
    run = hostile_run(root, database)
    add_set(root)
    other = runs_of(database)[1]
    paths = [
        "/",
        f"/runs/{run}",
        f"/runs/{run}/report.html",
        f"/compare?a={other}&b={run}",
        series_page(),
    ]
    for path in [*paths, "/schedules"]:
        page.goto(path)
        page.wait_for_load_state()
        for frame in page.frames:
            assert frame.locator("img, iframe:not([title])").count() == 0
            assert frame.locator("[onmouseover], [onerror], a[href^=javascript]").count() == 0
        assert fits(page), path
    page.goto("/")
    page.click("td.name a")
    page.hover("svg.chart")
    assert complaints == [
        "Failed to load resource: the server responded with a status of 404 (Not Found)"
    ]
    page.goto(f"/runs/{run}/report.html")
    assert page.evaluate("self.origin") == "null"  # it reaches no other page


def test_by_keyboard_a_visitor_skips_to_the_content_and_follows_a_row(
    visitor: tuple[Page, list[str]], database: str
) -> None:
    page, _ = visitor
    record(nights(3), client="acme", database=database)
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(3):  # a select, a button, the series
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/series?**")


def test_an_evaluation_is_started_and_followed_to_its_report(
    visitor: tuple[Page, list[str]], root: Path, database: str
) -> None:
    page, complaints = visitor
    add_set(root)
    page.goto("/schedules")
    assert fits(page)
    page.fill("form[action='/schedules/run'] input[name=series]", "tried here")
    page.click("text=Start now")
    assert "Loaded again every 5 seconds" in page.locator(".conclusion").inner_text()
    page.wait_for_selector(".chip.done, .chip.failed", timeout=120_000)
    assert page.locator(".chip.failed").count() == 0, page.locator("table").first.inner_text()
    link = page.locator("table a", has_text="report").get_attribute("href")
    assert link is not None
    assert link.endswith("/report.html")
    page.click("table a[href^='/runs/']")
    assert page.locator("text=report").first.is_visible()
    page.click("text=tried here")
    assert page.locator("h1").inner_text().startswith("tried here")
    assert complaints == []
