"""Labels by keyboard in JupyterLab: killed in the middle, and continued."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

from ragbench.labelling import LabelItem, label_sheet, read_sheet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

N = 30


def run_cell(page: Page) -> None:
    """Run the cell, again where a kernel that was not ready did not take it."""
    widget = page.locator(".rb-label").get_by_text("What is ").first
    prompt = page.locator(".jp-InputPrompt").first
    prompt.wait_for()
    for _ in range(60):
        if prompt.inner_text().strip() == "[ ]:":  # "[*]:" as soon as the kernel has it
            page.locator(".jp-CodeCell .cm-content").first.click()
            page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(2_000)
        if widget.is_visible():
            break
    widget.click()  # the focus is in the next cell
    page.wait_for_function("document.activeElement.classList.contains('rb-label')")


def press(page: Page, keys: str, labelled: int) -> None:
    """Press keys, each when the one before is saved."""
    for i, key in enumerate(keys, labelled + 1):
        page.keyboard.press(key)
        page.get_by_text(f"{i} of {N} labelled").wait_for()


def test_thirty_labels_by_keyboard_with_a_kernel_that_dies(
    tmp_path: Path, lab: str, browser: Browser
) -> None:
    items = [
        LabelItem(f"item-{i:02}", f"q{i}", "correctness", f"What is {i}?", f"It is {i}.", f"{i}.")
        for i in range(N)
    ]
    sheet = label_sheet(items, tmp_path / "labels.csv")
    code = [
        "import os",
        "from pathlib import Path",
        "from ragbench.labelling import LabelWidget",
        "Path('pid').write_text(str(os.getpid()))",
        "LabelWidget('labels.csv')",
    ]
    cell = nbformat.v4.new_code_cell("\n".join(code))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "label.ipynb")
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/label.ipynb")
    run_cell(page)
    start = time.perf_counter()
    press(page, "ynyyn" * 3, 0)
    seconds = time.perf_counter() - start

    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert read_sheet(sheet)["value"].notna().sum() == 15, "each was saved at once"
    page.close()

    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/label.ipynb")
    run_cell(page)
    page.get_by_text(f"15 of {N} labelled; this is number 16").wait_for()
    start = time.perf_counter()
    press(page, "nyyyn" * 3, 15)
    print(f"\n{N} labels in {seconds + time.perf_counter() - start:.1f} s")
    assert read_sheet(sheet)["verdict"].tolist() == [
        {"y": "1", "n": "0"}[key] for key in "ynyyn" * 3 + "nyyyn" * 3
    ]
    page.close()
