"""report.html in a real browser: filters, permalinks, a narrow screen, and what is left without
scripts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragbench.report.page import report_html
from tests.report.page.test_html import ATTACKS, full_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def file(tmp_path: Path) -> Path:
    more = {
        f"q{i}": (f"Question {i}? {ATTACKS[i % 6]}", "odd" if i % 2 else "even")
        for i in range(1, 30)
    }
    file = tmp_path / "report.html"
    file.write_text(report_html(full_report("harmless", "q0", more)), encoding="utf-8")
    return file


def test_filters_search_and_permalinks(browser: Browser, file: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(file.as_uri())
    count = page.locator("#failed .count")
    assert count.inner_text() == "30 of 30 shown"
    page.select_option("select[name=category]", "odd")
    assert count.inner_text() == "15 of 30 shown"
    page.fill("input[name=text]", "question 3?")
    assert page.locator("details.q:visible").count() == 3  # 3, 13 and 23
    page.evaluate("location.hash = 'q-q4'")
    page.wait_for_function("document.querySelector('details.q[open]') !== null")
    assert count.inner_text() == "30 of 30 shown"
    assert page.locator("details.q[open] .inside").get_attribute("id") == "q-q4"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator("#filters button").click()
    assert complaints == []


def test_without_scripts_all_questions_are_listed_and_a_link_opens_one(
    browser: Browser, file: Path
) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{file.as_uri()}#q-q4")
    assert page.locator("details.q:visible").count() == 30
    assert not page.locator("#filters").is_visible()
    assert page.locator("#q-q4").is_visible()
