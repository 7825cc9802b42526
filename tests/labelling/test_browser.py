"""Labels by keyboard in JupyterLab: reloaded, restarted, killed in the middle, and continued."""

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


def write_notebook(folder: Path, annotator: str = "me") -> Path:
    """Write a sheet and a notebook that shows it, and return the sheet."""
    items = [
        LabelItem(f"item-{i:02}", f"q{i}", "correctness", f"What is {i}?", f"It is {i}.", f"{i}.")
        for i in range(N)
    ]
    sheet = label_sheet(items, folder / "labels.csv", annotator=annotator)
    code = [
        "import os",
        "from pathlib import Path",
        "from ragbench.labelling import LabelWidget",
        f"Path('pid-{annotator}').write_text(str(os.getpid()))",
        f"LabelWidget('labels.csv', annotator={annotator!r})",
    ]
    cell = nbformat.v4.new_code_cell("\n".join(code))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / f"label-{annotator}.ipynb")
    return sheet


def open_notebook(browser: Browser, lab: str, annotator: str = "me") -> Page:
    """Open the notebook in a tab of its own and run its cell."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/workspaces/{annotator}/tree/label-{annotator}.ipynb")
    run_cell(page)
    return page


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
    page.wait_for_function(
        "/\\d/.test(document.querySelector('.jp-InputPrompt').innerText)"
    )  # not "[*]:", which a second run would show
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
    sheet = write_notebook(tmp_path)
    page = open_notebook(browser, lab)
    start = time.perf_counter()
    press(page, "ynyyn" * 3, 0)
    seconds = time.perf_counter() - start

    os.kill(int((tmp_path / "pid-me").read_text()), signal.SIGKILL)
    assert read_sheet(sheet)["value"].notna().sum() == 15, "each was saved at once"
    page.close()

    page = open_notebook(browser, lab)
    page.get_by_text(f"15 of {N} labelled; this is number 16").wait_for()
    start = time.perf_counter()
    press(page, "nyyyn" * 3, 15)
    print(f"\n{N} labels in {seconds + time.perf_counter() - start:.1f} s")
    assert read_sheet(sheet)["verdict"].tolist() == [
        {"y": "1", "n": "0"}[key] for key in "ynyyn" * 3 + "nyyyn" * 3
    ]
    page.close()


def test_a_reload_keeps_the_form_alive_and_a_restart_is_named(
    tmp_path: Path, lab: str, browser: Browser
) -> None:
    sheet = write_notebook(tmp_path)
    page = open_notebook(browser, lab)
    n_cells = page.locator(".jp-Cell").count()
    press(page, "yn", 0)
    page.keyboard.press("Control+s")  # JupyterLab's, also in the form
    for _ in range(100):
        if nbformat.read(tmp_path / "label-me.ipynb", as_version=4).cells[0].get("outputs"):
            break
        page.wait_for_timeout(100)

    page.reload()
    page.get_by_text(f"2 of {N} labelled; this is number 3").wait_for()
    page.wait_for_function("document.activeElement.classList.contains('rb-label')")
    press(page, "yy", 2)
    page.keyboard.press("b")
    page.get_by_text("this is number 4, labelled: yes").wait_for()
    assert page.locator(".jp-Cell").count() == n_cells, "no key reached the notebook"

    page.keyboard.press("Escape")  # leaves the form for the notebook: 0 0 restarts the kernel there
    page.keyboard.press("0")
    page.keyboard.press("0")
    page.locator(".jp-Dialog button.jp-mod-warn").click()
    page.get_by_text("Not connected: run this cell again").wait_for()
    page.locator(".rb-label .asked").click()
    page.keyboard.press("n")
    assert f"4 of {N} labelled" in page.locator(".rb-label").inner_text()
    assert read_sheet(sheet)["value"].notna().sum() == 4, "what was shown as saved, and no more"

    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.get_by_text(f"4 of {N} labelled; this is number 5").wait_for()
    page.locator(".rb-label .asked").click()
    press(page, "n", 4)
    os.kill(int((tmp_path / "pid-me").read_text()), signal.SIGKILL)  # and one that dies is named
    page.get_by_text("Not connected: run this cell again").wait_for()
    page.close()


def test_two_labellers_of_one_sheet_by_keyboard_lose_nothing(
    tmp_path: Path, lab: str, browser: Browser
) -> None:
    people = {"ann": "y", "bob": "n"}
    for annotator in people:
        sheet = write_notebook(tmp_path, annotator)
    pages = {annotator: open_notebook(browser, lab, annotator) for annotator in people}
    for i in range(6):
        for annotator, key in people.items():  # the next key of one while the other's is saved
            pages[annotator].keyboard.press(key)
        for page in pages.values():
            page.get_by_text(f"{i + 1} of {N} labelled").wait_for()
    os.kill(int((tmp_path / "pid-ann").read_text()), signal.SIGKILL)
    press(pages["bob"], "nnn", 6)
    pages["ann"].close()
    pages["ann"] = open_notebook(browser, lab, "ann")
    pages["ann"].get_by_text(f"6 of {N} labelled; this is number 7").wait_for()
    press(pages["ann"], "yyy", 6)
    for annotator, verdict in {"ann": "1", "bob": "0"}.items():
        verdicts = read_sheet(sheet, annotator=annotator)["verdict"].tolist()
        assert verdicts == [verdict] * 9 + [""] * (N - 9)
    for page in pages.values():
        page.close()
